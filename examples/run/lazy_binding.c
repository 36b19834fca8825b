//#Cut: hold
//#Modes: restart, migrate
//#Environment: LD_BIND_NOW=1
//#Shows: a program that comes from a processor with smaller registers: the dynamic linker's room for them is enlarged
#include "../stasis_test.h"

#include <link.h>
#include <sys/mman.h>

/* The start of glibc's resolver of functions that are bound at their first call:
 * push %rbx; mov %rsp,%rbx; and $-64,%rsp; sub ROOM(%rip),%rsp */
static const unsigned char resolver[] = {0x53, 0x48, 0x89, 0xe3, 0x48, 0x83, 0xe4, 0xc0, 0x48, 0x2b, 0x25};
static size_t *room;

static int look(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    if (!strstr(info->dlpi_name, "ld-linux"))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
            continue;
        unsigned char *code = (unsigned char *)(info->dlpi_addr + segment->p_vaddr);
        unsigned char *found = memmem(code, segment->p_memsz, resolver, sizeof resolver);
        int32_t distance;
        if (!found)
            continue;
        memcpy(&distance, found + sizeof resolver, sizeof distance);
        room = (size_t *)(found + sizeof resolver + sizeof distance + distance);
    }
    return 1;
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    dl_iterate_phdr(look, NULL);
    CHECK(room, "no resolver in ld.so");
    size_t own = *room;
    /* The uninterrupted native run keeps its room. All functions are bound already. */
    if (getenv("STASIS_TEST_READY")) {
        void *page = (void *)((uintptr_t)room & ~(uintptr_t)4095);
        CHECK(!mprotect(page, 4096, PROT_READ | PROT_WRITE));
        *room = 640;
        CHECK(!mprotect(page, 4096, PROT_READ));
    }
    cut();
    CHECK(*room >= own, "%zu bytes, and %zu before", *room, own);
    return test_finish("lazy_binding");
}
