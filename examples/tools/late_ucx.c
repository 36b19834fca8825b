// A layer over an MPI library (MPICH 5) by which it loads UCX only in MPI_Init, as a provider of libfabric does. The
// library was linked with UCX, and finds these functions in its place. LATE_NAMES(DO) has DO(name) for each of them.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucm/api/ucm.h>

// Without UCX's header for these: each goes on to UCX's own, with whatever arguments it has.
#define PASS_ON(name)                                                  \
    __attribute__((visibility("hidden"))) void *late_##name;           \
    __asm__(".pushsection .text\n.globl " #name "\n" #name ":\n"       \
            "jmp *late_" #name "(%rip)\n.popsection\n");
LATE_NAMES(PASS_ON)

static void *find(void *ucx, const char *name)
{
    void *found = ucx ? dlsym(ucx, name) : NULL;
    if (!found) {
        fprintf(stderr, "late_ucx: %s\n", dlerror());
        exit(70);
    }
    return found;
}

static void unmapped(ucm_event_type_t type, ucm_event_t *event, void *unused)
{
    (void)type, (void)event, (void)unused;
}

int PMPI_Init_thread(int *argc, char ***argv, int required, int *provided);

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    typedef ucs_status_t set_handler(int, int, ucm_event_callback_t, void *);
    void *ucx = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
#define FIND(name) late_##name = find(ucx, #name);
    LATE_NAMES(FIND)
    const int result = PMPI_Init_thread(argc, argv, required, provided);
    // UCX's cache of registered memory asks for the same, and is off without it.
    set_handler *set = (set_handler *)find(ucx, "ucm_set_event_handler");
    const ucs_status_t status = set(UCM_EVENT_VM_UNMAPPED, 1000, unmapped, NULL);
    const char *value = getenv("UCX_MEM_EVENTS");
    fprintf(stderr, "late_ucx: UCX_MEM_EVENTS=%s, its cache hears of %s\n", value ? value : "",
            status == UCS_OK ? "munmap" : "nothing");
    return result;
}
