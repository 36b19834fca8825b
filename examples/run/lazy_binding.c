//#Cut: hold
//#Modes: restart, migrate
//#Environment: LD_BIND_NOW=1
//#Shows: a program from a processor with smaller registers: the dynamic linker's room is enlarged, and a function bound
#include "../stasis_test.h"

#include <link.h>
#include <sys/mman.h>

/* The start of glibc's resolver of functions that are bound at their first call:
 * push %rbx; mov %rsp,%rbx; and $-64,%rsp; sub ROOM(%rip),%rsp */
static const unsigned char resolver[] = {0x53, 0x48, 0x89, 0xe3, 0x48, 0x83, 0xe4, 0xc0, 0x48, 0x2b, 0x25};
static const void *binds;
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
        binds = found;
        room = (size_t *)(found + sizeof resolver + sizeof distance + distance);
    }
    return 1;
}

/* The number of a function among those that the program binds late. */
static size_t number_of(const char *name)
{
    const ElfW(Sym) *symbols = NULL;
    const ElfW(Rela) *bound = NULL;
    const char *names = NULL;
    size_t bytes = 0;
    for (const ElfW(Dyn) *entry = _DYNAMIC; entry->d_tag != DT_NULL; entry++) {
        const void *place = (const void *)entry->d_un.d_ptr;
        if (entry->d_tag == DT_SYMTAB)
            symbols = place;
        else if (entry->d_tag == DT_STRTAB)
            names = place;
        else if (entry->d_tag == DT_JMPREL)
            bound = place;
        else if (entry->d_tag == DT_PLTRELSZ)
            bytes = entry->d_un.d_val;
    }
    for (size_t i = 0; i < bytes / sizeof *bound; i++)
        if (!strcmp(names + symbols[ELF64_R_SYM(bound[i].r_info)].st_name, name))
            return i;
    CHECK(0, "%s is not bound late", name);
    return 0;
}

/* Calls getppid by way of the resolver, as an entry of the procedure linkage table does. With too little room the
 * resolver overwrites the return address, which lies above. The upper halves of the registers are in use. */
__attribute__((noinline)) static void bind_late(void)
{
    register size_t number __asm__("r12") = number_of("getppid");
    register const void *map __asm__("r13") = _r_debug.r_map;
    register const void *resolve __asm__("r14") = binds;
    unsigned char upper[32];
    long parent;
    if (!__builtin_cpu_supports("avx"))
        return;
    __asm__ volatile("mov %%rsp, %%rbx\n\t"
                     "sub $256, %%rsp\n\t"
                     "and $-64, %%rsp\n\t"
                     "vcmpps $15, %%ymm0, %%ymm0, %%ymm0\n\t"
                     "call 1f\n\t"
                     "jmp 2f\n"
                     "1: push %[number]\n\t"
                     "push %[map]\n\t"
                     "jmp *%[resolve]\n"
                     "2: mov %%rbx, %%rsp\n\t"
                     "vmovups %%ymm0, (%[upper])\n\t"
                     "vzeroupper"
                     : "=&a"(parent)
                     : [number] "r"(number), [map] "r"(map), [resolve] "r"(resolve), [upper] "r"(upper)
                     : "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "xmm0", "memory", "cc");
    CHECK_EQ(parent, (long)getppid());
    for (size_t i = 0; i < sizeof upper; i++)
        CHECK_EQ(upper[i], 0xff);
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
    bind_late();
    return test_finish("lazy_binding");
}
