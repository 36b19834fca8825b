/* For `cargo xtask bench migration` and `migration/nodes`: 8 KiB around a ring of all ranks, again and
 * again, after Hursey et al., Interconnect Agnostic Checkpoint/Restart in Open MPI, section 4.1.
 *
 *   latency_ring LAPS   rank 0 prints of each step when it ended, in seconds since 1970, and the
 *                       microseconds a lap took, by a clock that runs on while the job is frozen;
 *                       the last step is the first that begins when $STASIS_TEST_GO is there
 *
 * What comes back to rank 0 must be what it sent. */
#include "../stasis_test.h"

enum { BYTES = 8192 };

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    static unsigned char message[BYTES];
    test_start(&argc, &argv);
    CHECK_EQ(argc, 2);
    int laps = atoi(argv[1]);
    int right = (test_rank + 1) % test_size, left = (test_rank + test_size - 1) % test_size;
    unsigned char *last = message;
    for (int step = 0; !*last; step++) {
        if (test_rank == 0) {
            *last = (unsigned char)cut_open();
            test_fill(message + 1, BYTES - 1, (uint32_t)step);
        }
        double begun = now();
        for (int lap = 0; lap < laps; lap++) {
            if (test_rank == 0)
                MPI_OK(MPI_Send(message, BYTES, MPI_BYTE, right, 0, MPI_COMM_WORLD));
            MPI_OK(MPI_Recv(message, BYTES, MPI_BYTE, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            if (test_rank != 0)
                MPI_OK(MPI_Send(message, BYTES, MPI_BYTE, right, 0, MPI_COMM_WORLD));
        }
        if (test_rank == 0) {
            double ended = now();
            test_verify(message + 1, BYTES - 1, (uint32_t)step);
            printf("step %d %.6f %.1f\n", step, ended, (ended - begun) / laps * 1e6);
            fflush(stdout);
        }
    }
    return test_finish_loop("latency_ring");
}
