//#Ranks: 2
//#Cut: hold
//#Shows: what a process holds beside memory: files with their offsets, directory, environment, pid, handlers, masks, a timer
#include "../stasis_test.h"

#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <fenv.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/time.h>

static volatile sig_atomic_t usr1, alarms;

static void on_usr1(int signal) { usr1 += signal == SIGUSR1; }
static void on_alarm(int signal) { alarms += signal == SIGALRM; }

/* Whether a thread of this program's name is found by a list of the process's threads. Threads of Stasis come and go. */
static int is_listed(pid_t pid)
{
    char path[300], name[32];
    struct dirent *entry;
    int found = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    CHECK(threads != NULL, "no %s", path);
    while ((entry = readdir(threads))) {
        snprintf(path, sizeof path, "/proc/%d/task/%s/comm", (int)pid, entry->d_name);
        FILE *comm = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
        if (!comm)
            continue;
        found |= fgets(name, sizeof name, comm) && !strcmp(name, "process\n");
        fclose(comm);
    }
    closedir(threads);
    return found;
}

int main(int argc, char **argv)
{
    char name[64], line[64], before[4096], after[4096];
    sigset_t mask, now;
    struct sigaction action = {.sa_handler = on_usr1};
    struct stat facts;
    struct statx more;
    test_start(&argc, &argv);
    snprintf(name, sizeof name, "out.%d", test_rank);
    FILE *out = fopen(name, "w+");
    CHECK(out != NULL, "fopen");
    fprintf(out, "line 1\nline 2\n");
    int fd = open(name, O_RDONLY);
    fflush(out);
    CHECK_EQ(read(fd, line, 7), 7);
    int copy = dup(fd);
    sigaction(SIGUSR1, &action, NULL);
    action.sa_handler = on_alarm;
    sigaction(SIGALRM, &action, NULL);
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    struct itimerval timer = {{0, 20000}, {0, 20000}};
    setitimer(ITIMER_REAL, &timer, NULL);
    setenv("STASIS_EXAMPLE", "kept", 1);
    umask(027);
    fesetround(FE_UPWARD);
    pid_t pid = getpid();
    mkdir("sub", 0755);
    CHECK_EQ(chdir("sub"), 0);
    CHECK(getcwd(before, sizeof before) != NULL, "getcwd");
    fprintf(out, "line 3, not flushed\n");

    cut();

    CHECK(getcwd(after, sizeof after) != NULL && strcmp(before, after) == 0, "in %s, was in %s", after, before);
    CHECK_EQ(getpid(), pid);
    snprintf(line, sizeof line, "/proc/%d/stat", (int)pid);
    FILE *self = fopen(line, "r");
    CHECK(self != NULL && fgets(after, sizeof after, self) && strstr(after, "(process"), "%s is not this process", line);
    fclose(self);
    /* The ids that the program knows name its process and its threads in all calls on paths. */
    snprintf(line, sizeof line, "/proc/%d/task/%d/stat", (int)pid, (int)gettid());
    CHECK_EQ(access(line, R_OK), 0);
    CHECK((self = fopen(line, "r")) != NULL && fgets(after, sizeof after, self), "no %s", line);
    CHECK(strstr(after, "(process"), "%s is not this thread", line);
    fclose(self);
    snprintf(line, sizeof line, "/proc/self/task/%d", (int)gettid());
    CHECK(stat(line, &facts) == 0 && S_ISDIR(facts.st_mode), "no %s", line);
    CHECK(is_listed(pid), "this thread is not in /proc/%d/task", (int)pid);
    snprintf(line, sizeof line, "/proc/%d/cwd", (int)pid);
    ssize_t length = readlink(line, after, sizeof after - 1);
    CHECK(length == (ssize_t)strlen(before) && !memcmp(after, before, (size_t)length), "%s is another directory", line);
    CHECK(statx(AT_FDCWD, line, 0, STATX_INO, &more) == 0 && stat(".", &facts) == 0, "no %s", line);
    CHECK(more.stx_ino == facts.st_ino, "%s is another directory", line);
    CHECK_EQ(strcmp(getenv("STASIS_EXAMPLE"), "kept"), 0);
    CHECK_EQ(fegetround(), FE_UPWARD);
    fesetround(FE_TONEAREST);
    CHECK_EQ(umask(022), 027);
    sigprocmask(SIG_BLOCK, NULL, &now);
    CHECK(sigismember(&now, SIGUSR2) && !sigismember(&now, SIGUSR1), "another signal mask");
    raise(SIGUSR1);
    CHECK_EQ(usr1, 1);
    int seen = alarms;
    while (alarms < seen + 3)
        pause();
    CHECK_EQ(read(copy, line, 7), 7);
    CHECK(memcmp(line, "line 2\n", 7) == 0, "'%.7s'", line);
    CHECK_EQ(lseek(fd, 0, SEEK_CUR), 14);
    fprintf(out, "line 4\n");
    rewind(out);
    for (int i = 1; i <= 4; i++) {
        CHECK(fgets(line, sizeof line, out) != NULL, "line %d is missing", i);
        CHECK_EQ(line[5], '0' + i);
    }
    CHECK(fgets(line, sizeof line, out) == NULL, "a line too many: %s", line);
    fclose(out);
    errno = 0;
    CHECK(close(9999) == -1 && errno == EBADF, "errno %d", errno);
    return test_finish("process");
}
