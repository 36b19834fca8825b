//#Ranks: 2
//#Mpi: mpich
//#Shows: partitioned communication: partitions ready before and after the cut, receives that wait, two channels of one tag started in another order than made, other partitions on the other side
//#Variant: half; cut=hold
//#Variant: late; cut=hold
//#Variant: ready; cut=hold
//#Variant: loop; cut=loop; modes=plain, continue, restart, migrate, cycle
#include "../stasis_test.h"

enum { CHANNELS = 4, PARTS = 6, EACH = 2000, ALL = PARTS * EACH, ROUNDS = 3, TAG = 7 };

static int32_t out[CHANNELS][ALL], in[CHANNELS][ALL];
static MPI_Request sends[CHANNELS], receives[CHANNELS];

/* Channels 0 and 1 have one tag; 2 has fewer partitions on the receiving side, and 3 many tiny ones. */
static int tag_of(int channel) { return channel < 2 ? TAG : TAG + channel; }
static int sent_in(int channel) { return channel == 3 ? ALL / 10 : PARTS; }
static int received_in(int channel) { return channel == 2 ? 2 : sent_in(channel); }
static uint32_t seed(int rank, int channel, int round) { return (uint32_t)(100 * round + 10 * channel + rank); }

static void make_sends(int other, MPI_Comm comm)
{
    for (int c = 0; c < CHANNELS; c++)
        MPI_OK(MPI_Psend_init(out[c], sent_in(c), ALL / sent_in(c), MPI_INT32_T, other, tag_of(c), comm,
                              MPI_INFO_NULL, &sends[c]));
}

static void make_receives(int other, MPI_Comm comm)
{
    for (int c = 0; c < CHANNELS; c++)
        MPI_OK(MPI_Precv_init(in[c], received_in(c), ALL / received_in(c), MPI_INT32_T, other, tag_of(c), comm,
                              MPI_INFO_NULL, &receives[c]));
}

static void fill(int round)
{
    for (int c = 0; c < CHANNELS; c++) {
        test_fill(out[c], sizeof out[c], seed(test_rank, c, round));
        memset(in[c], 0, sizeof in[c]);
    }
}

/* By each of the three calls. */
static void ready(int channel, int from, int to)
{
    int list[2];
    if (from < to)
        MPI_OK(MPI_Pready(from++, sends[channel]));
    for (; to - from >= 2 && channel % 2; from += 2) {
        list[0] = from + 1;
        list[1] = from;
        MPI_OK(MPI_Pready_list(2, list, sends[channel]));
    }
    if (from < to)
        MPI_OK(MPI_Pready_range(from, to - 1, sends[channel]));
}

static void finish(int round)
{
    int flag = 0;
    for (int part = 0; part < received_in(0); part++, flag = 0)
        while (!flag)
            MPI_OK(MPI_Parrived(receives[0], part, &flag));
    MPI_OK(MPI_Waitall(CHANNELS, receives, MPI_STATUSES_IGNORE));
    MPI_OK(MPI_Waitall(CHANNELS, sends, MPI_STATUSES_IGNORE));
    for (int c = 0; c < CHANNELS; c++) {
        test_verify(in[c], sizeof in[c], seed(1 - test_rank, c, round));
        CHECK(sends[c] != MPI_REQUEST_NULL && receives[c] != MPI_REQUEST_NULL, "channel %d has gone", c);
    }
}

static void start_receives(void)
{
    for (int c = CHANNELS - 1; c >= 0; c--)
        MPI_OK(MPI_Start(&receives[c]));
}

int main(int argc, char **argv)
{
    int loops = test_is(argc, argv, "loop"), round, before;
    MPI_Comm comm;
    test_start(&argc, &argv);
    before = test_rank == 0;
    MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    if (before) {
        make_sends(1 - test_rank, comm);
        make_receives(1 - test_rank, comm);
    } else {
        make_receives(1 - test_rank, comm);
        make_sends(1 - test_rank, comm);
    }
    for (round = 0; loops ? cut_more(round, 20, MPI_COMM_WORLD) : round < ROUNDS; round++) {
        fill(round);
        if (loops || round != 1) {
            MPI_OK(MPI_Startall(CHANNELS, sends));
            start_receives();
            for (int c = 0; c < CHANNELS; c++)
                ready(c, 0, sent_in(c));
        } else if (test_is(argc, argv, "half")) {
            MPI_OK(MPI_Startall(CHANNELS, sends));
            start_receives();
            for (int c = 0; c < CHANNELS; c++)
                ready(c, 0, sent_in(c) / 2);
            cut();
            for (int c = 0; c < CHANNELS; c++)
                ready(c, sent_in(c) / 2, sent_in(c));
        } else if (test_is(argc, argv, "late")) {
            /* One rank has not begun. */
            for (int late = 0; late < 2; late++) {
                if (late == test_rank) {
                    MPI_OK(MPI_Startall(CHANNELS, sends));
                    start_receives();
                    for (int c = 0; c < CHANNELS; c++)
                        ready(c, 0, sent_in(c));
                }
                if (late == 0)
                    cut();
            }
        } else {
            MPI_OK(MPI_Startall(CHANNELS, sends));
            for (int c = 0; c < CHANNELS; c++)
                ready(c, 0, sent_in(c));
            cut();
            start_receives();
        }
        finish(round);
    }
    for (int c = 0; c < CHANNELS; c++) {
        MPI_OK(MPI_Request_free(&sends[c]));
        MPI_OK(MPI_Request_free(&receives[c]));
    }
    MPI_OK(MPI_Comm_free(&comm));
    return loops ? test_finish_loop("partitioned") : test_finish("partitioned");
}
