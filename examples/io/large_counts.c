//#Ranks: 2
//#Mpi: mpich
//#Cut: hold
//#Shows: large-count reading and writing, in all ways of positioning, under way and split at the cut
#include "../stasis_test.h"

enum { N = 4096, WRITES = 6 };

static unsigned char out[WRITES][N], in[WRITES][N];

static void check_count(MPI_Status *status)
{
    MPI_Count count;
    MPI_OK(MPI_Get_count_c(status, MPI_BYTE, &count));
    CHECK_EQ(count, N);
}

static MPI_Offset place(int rank, int write) { return (rank * (MPI_Offset)WRITES + write) * N; }

int main(int argc, char **argv)
{
    MPI_File file, shared;
    MPI_Request r[3];
    MPI_Status status, statuses[3];
    MPI_Count extent;
    test_start(&argc, &argv);
    const int me = test_rank, peer = 1 - test_rank, mode = MPI_MODE_CREATE | MPI_MODE_RDWR;
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, "large.dat", mode, MPI_INFO_NULL, &file));
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, "large_shared.dat", mode, MPI_INFO_NULL, &shared));
    MPI_OK(MPI_File_get_type_extent_c(file, MPI_DOUBLE, &extent));
    CHECK_EQ(extent, 8);
    for (int i = 0; i < WRITES; i++)
        test_fill(out[i], N, 10 * me + i);

    MPI_OK(MPI_File_iwrite_at_c(file, place(me, 0), out[0], N, MPI_BYTE, &r[0]));
    MPI_OK(MPI_File_seek(file, place(me, 1), MPI_SEEK_SET));
    MPI_OK(MPI_File_iwrite_c(file, out[1], N, MPI_BYTE, &r[1]));
    MPI_OK(MPI_File_iwrite_at_all_c(file, place(me, 2), out[2], N, MPI_BYTE, &r[2]));
    MPI_OK(MPI_File_write_at_all_begin_c(file, place(me, 3), out[3], N, MPI_BYTE));
    cut();
    MPI_OK(MPI_File_write_at_all_end(file, out[3], &status));
    check_count(&status);
    MPI_OK(MPI_Waitall(3, r, statuses));
    for (int i = 0; i < 3; i++)
        check_count(&statuses[i]);
    MPI_OK(MPI_File_write_at_c(file, place(me, 4), out[4], N, MPI_BYTE, &status));
    MPI_OK(MPI_File_write_at_all_c(file, place(me, 5), out[5], N, MPI_BYTE, &status));
    check_count(&status);
    MPI_OK(MPI_File_sync(file));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_File_sync(file));

    MPI_OK(MPI_File_read_at_c(file, place(peer, 0), in[0], N, MPI_BYTE, &status));
    check_count(&status);
    MPI_OK(MPI_File_read_at_all_c(file, place(peer, 1), in[1], N, MPI_BYTE, &status));
    MPI_OK(MPI_File_iread_at_c(file, place(peer, 2), in[2], N, MPI_BYTE, &r[0]));
    MPI_OK(MPI_File_iread_at_all_c(file, place(peer, 3), in[3], N, MPI_BYTE, &r[1]));
    MPI_OK(MPI_Waitall(2, r, statuses));
    MPI_OK(MPI_File_seek(file, place(peer, 4), MPI_SEEK_SET));
    MPI_OK(MPI_File_iread_c(file, in[4], N, MPI_BYTE, &r[0]));
    MPI_OK(MPI_Wait(&r[0], &status));
    MPI_OK(MPI_File_read_all_begin_c(file, in[5], N, MPI_BYTE));
    MPI_OK(MPI_File_read_all_end(file, in[5], &status));
    check_count(&status);
    for (int i = 0; i < WRITES; i++)
        test_verify(in[i], N, 10 * peer + i);
    /* The other ways to begin, over what is there. */
    MPI_OK(MPI_File_seek(file, place(me, 0), MPI_SEEK_SET));
    MPI_OK(MPI_File_write_c(file, out[0], N, MPI_BYTE, &status));
    MPI_OK(MPI_File_write_all_c(file, out[1], N, MPI_BYTE, &status));
    MPI_OK(MPI_File_iwrite_all_c(file, out[2], N, MPI_BYTE, &r[0]));
    MPI_OK(MPI_Wait(&r[0], &status));
    MPI_OK(MPI_File_write_all_begin_c(file, out[3], N, MPI_BYTE));
    MPI_OK(MPI_File_write_all_end(file, out[3], &status));
    MPI_OK(MPI_File_seek(file, place(me, 0), MPI_SEEK_SET));
    MPI_OK(MPI_File_read_c(file, in[0], N, MPI_BYTE, &status));
    MPI_OK(MPI_File_read_all_c(file, in[1], N, MPI_BYTE, &status));
    MPI_OK(MPI_File_iread_all_c(file, in[2], N, MPI_BYTE, &r[0]));
    MPI_OK(MPI_Wait(&r[0], &status));
    MPI_OK(MPI_File_read_at_all_begin_c(file, place(me, 3), in[3], N, MPI_BYTE));
    MPI_OK(MPI_File_read_at_all_end(file, in[3], &status));
    for (int i = 0; i < 4; i++)
        test_verify(in[i], N, 10 * me + i);

    /* Through the pointer that they share: in the order of ranks, then whoever comes. */
    MPI_OK(MPI_File_write_ordered_c(shared, out[0], N, MPI_BYTE, &status));
    check_count(&status);
    MPI_OK(MPI_File_write_ordered_begin_c(shared, out[1], N, MPI_BYTE));
    MPI_OK(MPI_File_write_ordered_end(shared, out[1], &status));
    MPI_OK(MPI_File_write_shared_c(shared, out[2], N, MPI_BYTE, &status));
    MPI_OK(MPI_File_iwrite_shared_c(shared, out[2], N, MPI_BYTE, &r[0]));
    MPI_OK(MPI_Wait(&r[0], &status));
    MPI_OK(MPI_File_sync(shared));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_File_sync(shared));
    MPI_OK(MPI_File_seek_shared(shared, 0, MPI_SEEK_SET));
    MPI_OK(MPI_File_read_ordered_c(shared, in[0], N, MPI_BYTE, &status));
    MPI_OK(MPI_File_read_ordered_begin_c(shared, in[1], N, MPI_BYTE));
    MPI_OK(MPI_File_read_ordered_end(shared, in[1], &status));
    test_verify(in[0], N, 10 * me);
    test_verify(in[1], N, 10 * me + 1);
    MPI_OK(MPI_File_read_shared_c(shared, in[2], N, MPI_BYTE, &status));
    check_count(&status);
    MPI_OK(MPI_File_iread_shared_c(shared, in[2], N, MPI_BYTE, &r[0]));
    MPI_OK(MPI_Wait(&r[0], &status));
    check_count(&status);
    MPI_OK(MPI_File_close(&shared));
    MPI_OK(MPI_File_close(&file));
    return test_finish("large_counts");
}
