/* Frees memory after the first checkpoint, and loads the MPI library, which gets the addresses. */
#include <dlfcn.h>
#include <sys/mman.h>

#include "phases.h"

/* Pieces that are not aligned: they fill the gaps between what is there. */
enum { PIECES = 64, BYTES = 1 << 20 };

int main(void)
{
    int version = 0, subversion = 0, is_inside = 0;
    char *memory[PIECES];
    for (int i = 0; i < PIECES; i++) {
        memory[i] = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        check(memory[i] != MAP_FAILED, "mmap");
        memset(memory[i], 0x5a, BYTES);
    }
    phase(1);
    for (int i = 0; i < PIECES; i++)
        check(munmap(memory[i], BYTES) == 0, "munmap");
    void *library = dlopen("libmpi.so.40", RTLD_NOW);
    check(library != NULL, "dlopen");
    int (*get_version)(int *, int *) = (int (*)(int *, int *))dlsym(library, "MPI_Get_version");
    check(get_version != NULL, "dlsym");
    char *function = (char *)get_version;
    for (int i = 0; i < PIECES; i++)
        is_inside |= memory[i] <= function && function < memory[i] + BYTES;
    check(is_inside, "the library is not in the freed memory");
    phase(2);
    check(get_version(&version, &subversion) == 0, "MPI_Get_version");
    printf("version of MPI: %d.%d\n", version, subversion);
    return 0;
}
