//#Ranks: 2
//#Cut: hold
//#Modes: plain, continue, restart, migrate, cycle
//#Shows: files that were deleted while open, with holes and two positions; temporary files; memory from memfd_create, sealed and not
#include "../stasis_test.h"

#include <sys/mman.h>
#include <sys/stat.h>

enum { KB = 1024, FAR = 48 * 1024 * KB };

int main(int argc, char **argv)
{
    static char bytes[300 * KB];
    char name[64];
    struct stat facts;
    test_start(&argc, &argv);

    snprintf(name, sizeof name, "scratch.%d", test_rank);
    int scratch = open(name, O_RDWR | O_CREAT | O_EXCL, 0640);
    int reader = open(name, O_RDONLY), log = open(name, O_WRONLY | O_APPEND);
    CHECK(scratch >= 0 && reader >= 0 && log >= 0, "open");
    unlink(name);
    test_fill(bytes, sizeof bytes, 1 + (uint32_t)test_rank);
    CHECK_EQ(write(scratch, bytes, sizeof bytes), sizeof bytes);
    CHECK_EQ(lseek(reader, 100 * KB, SEEK_SET), 100 * KB);
    CHECK_EQ(pwrite(scratch, "far", 3, FAR), 3);
    CHECK_EQ(ftruncate(scratch, 2 * FAR), 0);

    FILE *temporary = tmpfile();
    CHECK(temporary != NULL, "tmpfile");
    fprintf(temporary, "one\ntwo\n");
    fflush(temporary);
    fprintf(temporary, "three, not flushed\n");

    int memory = memfd_create("example", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int plain = memfd_create("plain", 0);
    CHECK(memory >= 0 && plain >= 0, "memfd_create");
    CHECK_EQ(write(memory, bytes, 70 * KB), 70 * KB);
    CHECK_EQ(fcntl(memory, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK), 0);
    CHECK_EQ(write(plain, "plain", 5), 5);

    cut();

    CHECK_EQ(access(name, F_OK), -1);
    CHECK(fstat(scratch, &facts) == 0 && facts.st_size == 2 * FAR, "%lld bytes", (long long)facts.st_size);
    CHECK(facts.st_blocks < FAR / 512, "the holes were filled: %lld blocks", (long long)facts.st_blocks);
    CHECK_EQ(facts.st_mode & 0777, 0640);
    CHECK_EQ(facts.st_nlink, 0);
    CHECK_EQ(lseek(scratch, 0, SEEK_CUR), sizeof bytes);
    CHECK_EQ(pread(scratch, bytes, sizeof bytes, 0), sizeof bytes);
    test_verify(bytes, sizeof bytes, 1 + (uint32_t)test_rank);
    CHECK(pread(scratch, name, 5, FAR - 1) == 5 && memcmp(name, "\0far", 5) == 0, "'%.5s'", name);
    /* All three are still one file. */
    CHECK_EQ(pwrite(scratch, "changed", 7, 100 * KB), 7);
    CHECK(read(reader, name, 7) == 7 && memcmp(name, "changed", 7) == 0, "'%.7s'", name);
    CHECK_EQ(write(log, "end", 3), 3);
    CHECK(pread(reader, name, 3, 2 * FAR) == 3 && memcmp(name, "end", 3) == 0, "'%.3s'", name);

    rewind(temporary);
    for (int i = 0; i < 3; i++)
        CHECK(fgets(name, sizeof name, temporary) != NULL, "line %d is missing", i);
    CHECK_EQ(strcmp(name, "three, not flushed\n"), 0);

    CHECK_EQ(fcntl(memory, F_GET_SEALS), F_SEAL_GROW | F_SEAL_SHRINK);
    CHECK_EQ(fcntl(plain, F_GET_SEALS), F_SEAL_SEAL);
    CHECK_EQ(ftruncate(memory, 80 * KB), -1);
    memset(bytes, 0, sizeof bytes);
    CHECK_EQ(pread(memory, bytes, sizeof bytes, 0), 70 * KB);
    char *seen = mmap(NULL, 70 * KB, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    CHECK(seen != MAP_FAILED, "mmap");
    CHECK_EQ(memcmp(seen, bytes, 70 * KB), 0);
    CHECK_EQ(write(plain, " text", 5), 5);
    CHECK(pread(plain, name, 20, 0) == 10 && memcmp(name, "plain text", 10) == 0, "'%.10s'", name);
    return test_finish("unnamed");
}
