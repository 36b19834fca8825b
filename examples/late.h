/* A last rank that comes late: all others wait for it in an operation while a checkpoint is taken. Short and long
 * messages from it to each of them are under way meanwhile: one of each is waited for, one is not asked for before the
 * operation. */
#ifndef STASIS_LATE_H
#define STASIS_LATE_H

#include "stasis_test.h"

enum { LATE_LONG = 300000, LATE_MOST = 4 };

static unsigned char late_shorts[2][16], late_longs[2][LATE_LONG];
static MPI_Request late_request[2 * LATE_MOST];
static int late_pending;

/* All ranks but the last go on to the operation; the last stays here until the checkpoint is taken. */
static void late_begin(void)
{
    int last = test_size - 1;
    if (test_rank == last) {
        for (int to = 0; to < last; to++)
            for (int tag = 0; tag < 2; tag++) {
                test_fill(late_shorts[tag], sizeof late_shorts[tag], (uint32_t)tag);
                MPI_OK(MPI_Send(late_shorts[tag], sizeof late_shorts[tag], MPI_BYTE, to, tag, MPI_COMM_WORLD));
            }
        for (int tag = 0; tag < 2; tag++) {
            test_fill(late_longs[tag], LATE_LONG, 10 + (uint32_t)tag);
            for (int to = 0; to < last; to++)
                MPI_OK(MPI_Isend(late_longs[tag], LATE_LONG, MPI_BYTE, to, 10 + tag, MPI_COMM_WORLD,
                                 &late_request[late_pending++]));
        }
        cut();
    } else {
        MPI_OK(MPI_Irecv(late_shorts[0], sizeof late_shorts[0], MPI_BYTE, last, 0, MPI_COMM_WORLD,
                         &late_request[late_pending++]));
        MPI_OK(MPI_Irecv(late_longs[0], LATE_LONG, MPI_BYTE, last, 10, MPI_COMM_WORLD, &late_request[late_pending++]));
        cut_announce();
    }
}

/* After the operation: all messages are there. */
static void late_end(void)
{
    int last = test_size - 1;
    if (test_rank != last) {
        MPI_OK(MPI_Recv(late_longs[1], LATE_LONG, MPI_BYTE, last, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MPI_OK(MPI_Recv(late_shorts[1], sizeof late_shorts[1], MPI_BYTE, last, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    MPI_OK(MPI_Waitall(late_pending, late_request, MPI_STATUSES_IGNORE));
    for (int tag = 0; tag < 2; tag++) {
        test_verify(late_shorts[tag], sizeof late_shorts[tag], (uint32_t)tag);
        test_verify(late_longs[tag], LATE_LONG, 10 + (uint32_t)tag);
    }
}

#endif
