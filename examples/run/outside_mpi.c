//#Ranks: 2
//#Shows: a checkpoint asked for before MPI_Init, or after MPI_Finalize: taken or refused with the reason, the job unharmed
//#Variant: before_init; cut=outside; modes=plain, continue
//#Variant: after_finalize; cut=outside; modes=plain, continue
#include "../stasis_test.h"

int main(int argc, char **argv)
{
    if (test_is(argc, argv, "before_init")) {
        cut_announce_as((int)getpid());
        cut_hold();
        test_start(&argc, &argv);
        return test_finish(argv[1]);
    }
    test_start(&argc, &argv);
    test_finish(argv[1]);
    cut();
    if (test_rank == 0)
        printf("still here\n");
    return 0;
}
