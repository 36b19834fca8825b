//#Ranks: 2
//#Cut: loop
//#Modes: plain, continue, restart, migrate, cycle, ten
//#Shows: non-blocking collectives overlapping point-to-point traffic in a loop
#include "../stasis_test.h"

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    int p = test_size, r = test_rank;
    static double field[4096];
    for (int step = 0; cut_more(step, 300, MPI_COMM_WORLD); step++) {
        double mine = r + step, total = 0, from = -1;
        MPI_Request requests[4];
        for (int i = 0; i < 4096; i++)
            field[i] = r == step % p ? step * 0.5 + i : -1;
        MPI_OK(MPI_Iallreduce(&mine, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &requests[0]));
        MPI_OK(MPI_Irecv(&from, 1, MPI_DOUBLE, (r + p - 1) % p, 3, MPI_COMM_WORLD, &requests[1]));
        MPI_OK(MPI_Ibcast(field, 4096, MPI_DOUBLE, step % p, MPI_COMM_WORLD, &requests[2]));
        MPI_OK(MPI_Isend(&mine, 1, MPI_DOUBLE, (r + 1) % p, 3, MPI_COMM_WORLD, &requests[3]));
        if (step % 3 == 0) {
            MPI_OK(MPI_Waitall(4, requests, MPI_STATUSES_IGNORE));
        } else {
            for (int left = 4; left > 0; left--) {
                int index;
                MPI_OK(MPI_Waitany(4, requests, &index, MPI_STATUS_IGNORE));
            }
        }
        CHECK(total == p * step + p * (p - 1) / 2, "step %d: sum %g", step, total);
        CHECK(from == (r + p - 1) % p + step, "step %d: from %g", step, from);
        for (int i = 0; i < 4096; i++)
            CHECK(field[i] == step * 0.5 + i, "step %d: field[%d] = %g", step, i, field[i]);
    }
    return test_finish_loop("nonblocking_loop");
}
