//#Ranks: 2
//#Cut: hold
//#Flags: -pthread
//#Modes: plain, continue, restart, migrate, cycle
//#Shows: what the kernel keeps for a process and its threads and the program has changed: limits, priorities, processors, names, prctl, personality, coredump_filter, oom_score_adj
#include "../stasis_test.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

typedef struct {
    int nice, io, policy, death, first_processor, processors;
    unsigned long slack;
    char name[16];
} own;

static own of_caller(void)
{
    own o;
    cpu_set_t set;
    memset(&o, 0, sizeof o);
    o.nice = getpriority(PRIO_PROCESS, 0);
    o.io = (int)syscall(SYS_ioprio_get, 1, 0);
    o.policy = sched_getscheduler(0);
    prctl(PR_GET_PDEATHSIG, &o.death);
    o.slack = (unsigned long)prctl(PR_GET_TIMERSLACK);
    prctl(PR_GET_NAME, o.name);
    CHECK_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    o.processors = CPU_COUNT(&set);
    while (o.first_processor < CPU_SETSIZE && !CPU_ISSET(o.first_processor, &set))
        o.first_processor++;
    return o;
}

static pthread_barrier_t meet;

static void *changes(void *argument)
{
    cpu_set_t set;
    struct sched_param none = {0};
    int first = of_caller().first_processor;
    CPU_ZERO(&set);
    CPU_SET(first, &set);
    CHECK_EQ(sched_setaffinity(0, sizeof set, &set), 0);
    CHECK_EQ(setpriority(PRIO_PROCESS, 0, 7), 0);
    CHECK_EQ(syscall(SYS_ioprio_set, 1, 0, (2 << 13) | 6), 0);
    CHECK_EQ(sched_setscheduler(0, SCHED_BATCH, &none), 0);
    CHECK_EQ(prctl(PR_SET_TIMERSLACK, 123456), 0);
    CHECK_EQ(prctl(PR_SET_NAME, "changed thread"), 0);
    pthread_barrier_wait(&meet);
    pthread_barrier_wait(&meet);
    own now = of_caller();
    CHECK_EQ(now.processors, 1);
    CHECK_EQ(now.first_processor, first);
    CHECK_EQ(now.nice, 7);
    CHECK_EQ(now.io, (2 << 13) | 6);
    CHECK_EQ(now.policy, SCHED_BATCH);
    CHECK_EQ(now.slack, 123456);
    CHECK(strcmp(now.name, "changed thread") == 0, "'%s'", now.name);
    return argument;
}

static long read_proc(const char *path, int base)
{
    char text[32] = "";
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0 && read(fd, text, sizeof text - 1) > 0, "%s", path);
    close(fd);
    return strtol(text, NULL, base);
}

static void write_proc(const char *path, const char *format, long value)
{
    char text[32];
    int fd = open(path, O_WRONLY), n = snprintf(text, sizeof text, format, value);
    CHECK(fd >= 0 && write(fd, text, (size_t)n) == n, "%s", path);
    close(fd);
}

#define DUMPED "/proc/self/coredump_filter"
#define KILLED "/proc/self/oom_score_adj"

int main(int argc, char **argv)
{
    struct rlimit files, core, now;
    test_start_threads(&argc, &argv, MPI_THREAD_FUNNELED);
    own before = of_caller();
    pthread_t thread;
    pthread_barrier_init(&meet, NULL, 2);
    CHECK_EQ(pthread_create(&thread, NULL, changes, NULL), 0);
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = 777;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
    core.rlim_cur = core.rlim_max = 4096;
    CHECK_EQ(setrlimit(RLIMIT_CORE, &core), 0);
    /* Users may only raise it. */
    long killed = read_proc(KILLED, 10), score = killed < 950 ? killed + 50 : killed;
    write_proc(DUMPED, "0x%lx", 0x15);
    write_proc(KILLED, "%ld", score);
    CHECK_EQ(prctl(PR_SET_DUMPABLE, 0), 0);
    CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    CHECK_EQ(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0), 0);
    CHECK_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    CHECK_EQ(prctl(PR_SET_PDEATHSIG, SIGURG), 0);
    CHECK_EQ(prctl(PR_SET_NAME, "changed main"), 0);
    CHECK(personality(ADDR_NO_RANDOMIZE) != -1, "personality");
    umask(077);
    pthread_barrier_wait(&meet);

    cut();

    pthread_barrier_wait(&meet);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    own after = of_caller();
    CHECK_EQ(after.nice, before.nice);
    CHECK_EQ(after.policy, before.policy);
    CHECK_EQ(after.slack, before.slack);
    CHECK_EQ(after.death, SIGURG);
    CHECK(strcmp(after.name, "changed main") == 0, "'%s'", after.name);
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &now), 0);
    CHECK_EQ(now.rlim_cur, 777);
    CHECK_EQ(getrlimit(RLIMIT_CORE, &now), 0);
    CHECK(now.rlim_cur == 4096 && now.rlim_max == 4096, "%lu, %lu", now.rlim_cur, now.rlim_max);
    CHECK_EQ(prctl(PR_GET_DUMPABLE), 0);
    CHECK_EQ(read_proc(DUMPED, 16), 0x15);
    CHECK_EQ(read_proc(KILLED, 10), score);
    CHECK_EQ(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), 1);
    CHECK_EQ(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0), 1);
    int reaps = 0;
    CHECK_EQ(prctl(PR_GET_CHILD_SUBREAPER, &reaps), 0);
    CHECK_EQ(reaps, 1);
    CHECK_EQ(personality(0xffffffff), ADDR_NO_RANDOMIZE);
    CHECK_EQ(umask(022), 077);
    return test_finish("settings");
}
