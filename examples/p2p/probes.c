//#Ranks: 2
//#Cut: hold
//#Shows: MPI_Probe, Iprobe, Mprobe, Improbe after the cut find a message sent before it; a matched message is held across it
//#Variant: probe
//#Variant: iprobe
//#Variant: mprobe
//#Variant: improbe
//#Variant: held; matrix=full
//#Variant: held_large
//#Variant: probed_before
#include "../stasis_test.h"

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    const char *how = argv[1];
    int n = test_is(argc, argv, "held_large") ? 900000 : 900;
    char *buffer = malloc(n);
    if (test_rank == 1) {
        MPI_Request request;
        test_fill(buffer, n, 5);
        MPI_OK(MPI_Isend(buffer, n, MPI_BYTE, 0, 42, MPI_COMM_WORLD, &request));
        if (!strncmp(how, "held", 4) || !strcmp(how, "probed_before"))
            cut_testing(&request);
        else
            cut();
        MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else {
        MPI_Status status;
        MPI_Message message = MPI_MESSAGE_NULL;
        int flag = 0, count = -1;
        if (!strncmp(how, "held", 4))
            MPI_OK(MPI_Mprobe(1, 42, MPI_COMM_WORLD, &message, &status));
        if (!strcmp(how, "probed_before"))
            MPI_OK(MPI_Probe(1, 42, MPI_COMM_WORLD, &status));
        cut();
        if (!strcmp(how, "probe")) {
            MPI_OK(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
        } else if (!strcmp(how, "iprobe")) {
            while (!flag)
                MPI_OK(MPI_Iprobe(1, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status));
        } else if (!strcmp(how, "mprobe")) {
            MPI_OK(MPI_Mprobe(MPI_ANY_SOURCE, 42, MPI_COMM_WORLD, &message, &status));
        } else if (!strcmp(how, "improbe")) {
            while (!flag)
                MPI_OK(MPI_Improbe(1, 42, MPI_COMM_WORLD, &flag, &message, &status));
        }
        CHECK_EQ(status.MPI_SOURCE, 1);
        CHECK_EQ(status.MPI_TAG, 42);
        MPI_OK(MPI_Get_count(&status, MPI_BYTE, &count));
        CHECK_EQ(count, n);
        if (message != MPI_MESSAGE_NULL) {
            /* A matched message is out of everybody else's sight. */
            MPI_OK(MPI_Iprobe(1, 42, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
            CHECK_EQ(flag, 0);
            MPI_Request request;
            MPI_OK(MPI_Imrecv(buffer, n, MPI_BYTE, &message, &request));
            CHECK(message == MPI_MESSAGE_NULL, "the message handle is still there");
            MPI_OK(MPI_Wait(&request, &status));
        } else {
            /* Probing takes nothing: the message can be seen again. */
            MPI_OK(MPI_Iprobe(1, 42, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
            CHECK_EQ(flag, 1);
            MPI_OK(MPI_Recv(buffer, n, MPI_BYTE, 1, 42, MPI_COMM_WORLD, &status));
        }
        MPI_OK(MPI_Get_count(&status, MPI_BYTE, &count));
        CHECK_EQ(count, n);
        MPI_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
        CHECK_EQ(flag, 0);
        test_verify(buffer, n, 5);
    }
    return test_finish(how);
}
