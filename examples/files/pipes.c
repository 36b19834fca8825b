//#Ranks: 2
//#Cut: hold
//#Modes: plain, continue, restart, migrate, cycle
//#Flags: -pthread
//#Shows: pipes and socket pairs of which the process has both ends: what is in them, ends that were closed, packets, a named pipe, a thread that waits for input
#include "../stasis_test.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum { MUCH = 200000 };
static int waiting[2], waiting_socket[2];

static void *wait_for_input(void *ends)
{
    char byte = 0;
    CHECK_EQ(read(((int *)ends)[0], &byte, 1), 1);
    return (void *)(intptr_t)byte;
}

static void expect(int fd, const char *text)
{
    char got[64] = "";
    CHECK(read(fd, got, sizeof got) == (ssize_t)strlen(text) && strcmp(got, text) == 0, "'%s', not '%s'", got, text);
}

int main(int argc, char **argv)
{
    static char bytes[MUCH], got[MUCH];
    char fifo_name[64];
    pthread_t threads[2];
    int big[2], ended[2], unread[2], packets[2], sockets[2], half[2], alone[2], held;
    signal(SIGPIPE, SIG_IGN);
    test_start(&argc, &argv);

    CHECK_EQ(pipe(big), 0);
    CHECK(fcntl(big[1], F_SETPIPE_SZ, 1 << 18) == 1 << 18, "capacity");
    test_fill(bytes, MUCH, 5);
    CHECK_EQ(write(big[1], bytes, MUCH), MUCH);
    CHECK_EQ(read(big[0], bytes, 1000), 1000);
    int twin = dup(big[0]);

    CHECK_EQ(pipe2(ended, O_CLOEXEC), 0);
    CHECK_EQ(write(ended[1], "last words", 10), 10);
    close(ended[1]);
    CHECK_EQ(pipe(unread), 0);
    close(unread[0]);
    CHECK_EQ(pipe2(packets, O_DIRECT | O_NONBLOCK), 0);
    CHECK_EQ(write(packets[1], "one", 3), 3);
    CHECK_EQ(write(packets[1], "two", 3), 3);
    CHECK_EQ(pipe(waiting), 0);

    snprintf(fifo_name, sizeof fifo_name, "fifo.%d", test_rank);
    CHECK_EQ(mkfifo(fifo_name, 0600), 0);
    int fifo = open(fifo_name, O_RDONLY | O_NONBLOCK), fifo_in = open(fifo_name, O_WRONLY);
    CHECK_EQ(write(fifo_in, "named", 5), 5);

    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets), 0);
    test_fill(got, 50000, 6);
    CHECK_EQ(write(sockets[0], got, 50000), 50000);
    CHECK_EQ(write(sockets[1], "back", 4), 4);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, half), 0);
    CHECK_EQ(write(half[0], "bye", 3), 3);
    CHECK_EQ(shutdown(half[0], SHUT_WR), 0);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, alone), 0);
    CHECK_EQ(write(alone[1], "gone", 4), 4);
    close(alone[1]);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, waiting_socket), 0);

    pthread_create(&threads[0], NULL, wait_for_input, waiting);
    pthread_create(&threads[1], NULL, wait_for_input, waiting_socket);

    cut();

    CHECK_EQ(write(waiting[1], "p", 1), 1);
    CHECK_EQ(write(waiting_socket[1], "s", 1), 1);
    void *results[2];
    pthread_join(threads[0], &results[0]);
    pthread_join(threads[1], &results[1]);
    CHECK(results[0] == (void *)'p' && results[1] == (void *)'s', "%p %p", results[0], results[1]);

    CHECK(ioctl(twin, FIONREAD, &held) == 0 && held == MUCH - 1000, "%d bytes", held);
    CHECK_EQ(fcntl(big[0], F_GETPIPE_SZ), 1 << 18);
    for (int at = 1000, n; at < MUCH; at += n) {
        n = (int)read(at % 2 ? twin : big[0], bytes + at, 30001);
        CHECK(n > 0, "read at %d", at);
    }
    test_verify(bytes, MUCH, 5);
    expect(ended[0], "last words");
    expect(ended[0], "");
    CHECK_EQ(fcntl(ended[0], F_GETFD), FD_CLOEXEC);
    CHECK(write(unread[1], "x", 1) == -1 && errno == EPIPE, "errno %d", errno);
    expect(packets[0], "one");
    expect(packets[0], "two");
    CHECK(read(packets[0], got, 1) == -1 && errno == EAGAIN, "errno %d", errno);
    CHECK_EQ(write(packets[1], "a", 1), 1);
    CHECK_EQ(write(packets[1], "b", 1), 1);
    expect(packets[0], "a");
    expect(fifo, "named");
    CHECK_EQ(close(fifo_in), 0);
    expect(fifo, "");

    CHECK_EQ(read(sockets[1], got, MUCH), 50000);
    test_verify(got, 50000, 6);
    expect(sockets[0], "back");
    CHECK(read(sockets[0], got, 1) == -1 && errno == EAGAIN, "errno %d", errno);
    expect(half[1], "bye");
    expect(half[1], "");
    CHECK_EQ(write(half[1], "still open", 10), 10);
    expect(half[0], "still open");
    CHECK(write(half[0], "x", 1) == -1 && errno == EPIPE, "errno %d", errno);
    expect(alone[0], "gone");
    expect(alone[0], "");
    CHECK(write(alone[0], "x", 1) == -1 && errno == EPIPE, "errno %d", errno);
    return test_finish("pipes");
}
