//#Flags: -pthread
//#Shows: a program that forks, spawns, handles signals, uses pipes, timers, brk and thread-local data
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static __thread int mine;
static volatile sig_atomic_t seen;

static void on_signal(int signal, siginfo_t *info, void *context)
{
    (void)context;
    if (signal == SIGUSR1 && info->si_pid == getpid())
        seen++;
}

static void *work(void *argument)
{
    mine = (int)(long)argument;
    usleep(1000);
    return (void *)(long)(mine * 2);
}

int main(int argc, char **argv)
{
    struct sigaction action = {0};
    char text[64] = {0}, self[4096] = {0};
    int pipes[2], status;
    long sum = 0;
    pthread_t threads[8];
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < 3; i++)
        raise(SIGUSR1);
    for (long i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < 8; i++) {
        void *result;
        pthread_join(threads[i], &result);
        sum += (long)result;
    }
    if (pipe(pipes))
        return 1;
    pid_t child = fork();
    if (child == 0) {
        if (write(pipes[1], "from the child", 14) != 14)
            _exit(1);
        _exit(7);
    }
    waitpid(child, &status, 0);
    if (read(pipes[0], text, sizeof text - 1) != 14)
        return 1;
    char *before = sbrk(0);
    char *more = sbrk(1 << 20);
    memset(more, 1, 1 << 20);
    int grown = (char *)sbrk(0) - before == 1 << 20;
    char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    p[0] = 5;
    p = mremap(p, 4096, 1 << 20, MREMAP_MAYMOVE);
    int length = (int)readlink("/proc/self/exe", self, sizeof self - 1);
    FILE *spawned = popen("echo spawned", "r");
    char line[64] = {0};
    if (!fgets(line, sizeof line, spawned))
        return 1;
    int closed = pclose(spawned);
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    usleep(2000);
    clock_gettime(CLOCK_MONOTONIC, &end);
    long passed = (end.tv_sec - start.tv_sec) * 1000000 + (end.tv_nsec - start.tv_nsec) / 1000;
    printf("%d %ld '%s' %d %d %d %s %s%d %d %d '%s'\n", (int)seen, sum, text, WEXITSTATUS(status), grown, p[0],
           length > 0 && strrchr(self, '/') ? strrchr(self, '/') + 1 : "?", line, closed, passed >= 2000, argc,
           argc > 1 ? argv[1] : "");
    return 0;
}
