// A part of an MPI library that sends as over RDMA: from memory that it has registered, and whose registration it
// keeps. Here a pipe refers to the pages (vmsplice), as a network adapter does: it goes on with them when others have
// taken their place. UCX, Open MPI or nobody, by REGISTERING_TOLD_BY, tells it what memory is given back, and has to do
// so before that happens. Each 16th message goes through a buffer of the library's own, which it frees. With
// REMAPPED_SIGNALS in the environment a signal of the application arrives whenever it is told something, unless signals
// are blocked. With REGISTERING_PINS the pages are also pinned, by io_uring, and are written to as by a device: after
// each message, the first word of its memory holds how many were sent so far.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucm/api/ucm.h>
#include <unistd.h>

enum { KEPT = 64, LONGEST = 1 << 20 };

struct registration {
    uintptr_t at;
    size_t length;
    int pages[2];
};

static struct registration kept[KEPT];
static int transfer[2], ready, own_buffer, with_signals;
static long registered, used_again, told, late, own, wrong, raised;
static unsigned char sent[LONGEST];

static void fail(const char *what)
{
    perror(what);
    exit(70);
}

// The ring, -1 without pins, and its parts that are used.
static struct {
    int ring;
    unsigned *tail, *mask, *array, *done;
    struct io_uring_sqe *entries;
} device = {.ring = -1};

static long ring_call(unsigned what, void *argument, unsigned number)
{
    return syscall(SYS_io_uring_register, device.ring, what, argument, number);
}

static void open_device(void)
{
    struct io_uring_params facts = {0};
    struct io_uring_rsrc_register none = {.nr = KEPT, .flags = IORING_RSRC_REGISTER_SPARSE};
    device.ring = (int)syscall(SYS_io_uring_setup, 1, &facts);
    if (device.ring < 0 || ring_call(IORING_REGISTER_BUFFERS2, &none, sizeof none) != 0)
        fail("io_uring");
    const int flags = MAP_SHARED | MAP_POPULATE;
    const size_t length = facts.sq_off.array + facts.sq_entries * sizeof(unsigned);
    char *sent = mmap(NULL, length, PROT_READ | PROT_WRITE, flags, device.ring, IORING_OFF_SQ_RING);
    const size_t room = facts.cq_off.cqes + facts.cq_entries * sizeof(struct io_uring_cqe);
    char *done = mmap(NULL, room, PROT_READ | PROT_WRITE, flags, device.ring, IORING_OFF_CQ_RING);
    const size_t entries = facts.sq_entries * sizeof(struct io_uring_sqe);
    device.entries = mmap(NULL, entries, PROT_READ | PROT_WRITE, flags, device.ring, IORING_OFF_SQES);
    if (sent == MAP_FAILED || done == MAP_FAILED || device.entries == MAP_FAILED)
        fail("io_uring");
    device.tail = (unsigned *)(sent + facts.sq_off.tail);
    device.mask = (unsigned *)(sent + facts.sq_off.ring_mask);
    device.array = (unsigned *)(sent + facts.sq_off.array);
    device.done = (unsigned *)(done + facts.cq_off.head);
}

// Pins the pages of a registration, or no longer if there are none.
static void pin(const struct registration *one, struct iovec pages)
{
    uint64_t tag = 0;
    struct io_uring_rsrc_update2 change = {
        .offset = (unsigned)(one - kept), .data = (uintptr_t)&pages, .tags = (uintptr_t)&tag, .nr = 1};
    if (device.ring >= 0 && ring_call(IORING_REGISTER_BUFFERS_UPDATE, &change, sizeof change) != 1)
        fail("pinning");
}

// Writes into pinned pages without the process's page table.
static void write_by_device(const struct registration *one)
{
    static uint64_t messages;
    if (device.ring < 0)
        return;
    messages++;
    if (write(transfer[1], &messages, sizeof messages) != sizeof messages)
        fail("write");
    const unsigned tail = *device.tail, place = tail & *device.mask;
    device.entries[place] = (struct io_uring_sqe){
        .opcode = IORING_OP_READ_FIXED,
        .fd = transfer[0],
        .off = (uint64_t)-1,
        .addr = one->at,
        .len = sizeof messages,
        .buf_index = (uint16_t)(one - kept),
    };
    device.array[place] = place;
    __atomic_store_n(device.tail, tail + 1, __ATOMIC_RELEASE);
    if (syscall(SYS_io_uring_enter, device.ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1)
        fail("io_uring_enter");
    __atomic_store_n(device.done, *device.done + 1, __ATOMIC_RELEASE);
    if (memcmp((const void *)one->at, &messages, sizeof messages) != 0)
        fail("the device has not written");
}

static void give_up(struct registration *one)
{
    pin(one, (struct iovec){0});
    close(one->pages[0]);
    close(one->pages[1]);
    one->length = 0;
}

// The bytes that a registration sends.
static void bytes_of(const struct registration *one)
{
    if (tee(one->pages[0], transfer[1], one->length, 0) != (ssize_t)one->length)
        fail("tee");
    for (size_t got = 0; got < one->length;) {
        const ssize_t more = read(transfer[0], sent + got, one->length - got);
        if (more <= 0)
            fail("read");
        got += (size_t)more;
    }
}

static void gone(uintptr_t at, size_t length)
{
    const long before = told;
    for (int i = 0; i < KEPT; i++) {
        if (kept[i].length && kept[i].at < at + length && at < kept[i].at + kept[i].length) {
            // The range of all memory means the cut.
            if (length < (size_t)1 << 40) {
                bytes_of(&kept[i]);
                late += memcmp(sent, (const void *)kept[i].at, kept[i].length) != 0;
            }
            give_up(&kept[i]);
            told++;
        }
    }
    sigset_t blocked;
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    if (with_signals && told != before && !own_buffer && !sigismember(&blocked, SIGUSR1)) {
        if (syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1) != 0)
            fail("tgkill");
        raised++;
    }
}

static void gone_by_ucx(ucm_event_type_t type, ucm_event_t *event, void *unused)
{
    (void)type, (void)unused;
    gone((uintptr_t)event->vm_unmapped.address, event->vm_unmapped.size);
}

static void gone_by_open_mpi(void *at, size_t length, void *unused, bool from_allocator)
{
    (void)unused, (void)from_allocator;
    gone((uintptr_t)at, length);
}

static void begin(void)
{
    typedef int open_framework(void *, int);
    typedef int listen(void (*)(void *, size_t, void *, bool), void *);
    const char *by = getenv("REGISTERING_TOLD_BY");
    with_signals = getenv("REMAPPED_SIGNALS") != NULL;
    if (getenv("REGISTERING_PINS"))
        open_device();
    if (strcmp(by, "ucx") == 0) {
        if (ucm_set_event_handler(UCM_EVENT_VM_UNMAPPED, 1000, gone_by_ucx, NULL) != UCS_OK)
            fail("ucm_set_event_handler");
    } else if (strcmp(by, "openmpi") == 0) {
        // As Open MPI's own components do it that keep registrations.
        open_framework *open = (open_framework *)dlsym(RTLD_DEFAULT, "mca_base_framework_open");
        listen *hooks = (listen *)dlsym(RTLD_DEFAULT, "opal_mem_hooks_register_release");
        void *framework = dlsym(RTLD_DEFAULT, "opal_memory_base_framework");
        if (!open || !hooks || !framework || open(framework, 0) != 0 || hooks(gone_by_open_mpi, NULL) != 0)
            fail("opal_mem_hooks_register_release");
    }
    if (pipe2(transfer, O_CLOEXEC) != 0 || fcntl(transfer[0], F_SETPIPE_SZ, LONGEST) < 0)
        fail("pipe2");
    ready = 1;
}

static struct registration *registration_of(const void *from, size_t length)
{
    static int next;
    for (int i = 0; i < KEPT; i++) {
        if (kept[i].length == length && kept[i].at == (uintptr_t)from) {
            used_again++;
            return &kept[i];
        }
    }
    struct registration *one = &kept[next++ % KEPT];
    if (one->length)
        give_up(one);
    struct iovec pages = {(void *)from, length};
    *one = (struct registration){(uintptr_t)from, length, {0, 0}};
    pin(one, pages);
    if (pipe2(one->pages, O_CLOEXEC) != 0 || fcntl(one->pages[0], F_SETPIPE_SZ, LONGEST) < 0)
        fail("pipe2");
    if (vmsplice(one->pages[1], &pages, 1, 0) != (ssize_t)length)
        fail("vmsplice");
    registered++;
    return one;
}

// The bytes that go out when a message is sent from this memory.
static void take(const void *from, size_t length)
{
    const struct registration *one = registration_of(from, length);
    bytes_of(one);
    wrong += memcmp(sent, from, length) != 0;
    write_by_device(one);
}

// As a library packs a message: into memory that it frees at once. It is so long that free(3) gives it back to the
// kernel by itself.
static void take_by_own_buffer(const void *from, size_t length)
{
    const long before[] = {registered, used_again, told};
    unsigned char *buffer = malloc(64 * LONGEST);
    if (!buffer)
        fail("malloc");
    memcpy(buffer, from, length);
    own_buffer = 1;
    take(buffer, length);
    free(buffer);
    own_buffer = 0;
    own++;
    registered = before[0], used_again = before[1], told = before[2];
}

int MPI_Send(const void *from, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    static unsigned calls;
    const size_t length = (size_t)count;
    if (type != MPI_BYTE || length == 0 || length > LONGEST)
        return PMPI_Send(from, count, type, dest, tag, comm);
    if (!ready)
        begin();
    if (++calls % 16 == 0)
        take_by_own_buffer(from, length);
    take(from, length);
    return PMPI_Send(sent, count, type, dest, tag, comm);
}

int MPI_Finalize(void)
{
    fprintf(stderr, "registering: %ld registered, %ld used again, %ld told, %ld late, %ld own, %ld wrong, %ld raised\n",
            registered, used_again, told, late, own, wrong, raised);
    return PMPI_Finalize();
}
