//#Ranks: 2
//#Cut: hold
//#Shows: non-blocking operations, of one rank and of all, that nobody has waited for at the cut
#include "../stasis_test.h"

enum { N = 300000, KINDS = 5 };

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    static unsigned char out[KINDS][N], in[KINDS][N];
    MPI_File file;
    MPI_Request requests[KINDS];
    MPI_Status statuses[KINDS];
    MPI_Offset position;
    int count;
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, "pending.dat", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    for (int kind = 0; kind < KINDS; kind++)
        test_fill(out[kind], N, (uint32_t)(10 * test_rank + kind));
    const MPI_Offset mine = test_rank * (MPI_Offset)KINDS * N;

    MPI_OK(MPI_File_seek(file, mine + N, MPI_SEEK_SET));
    MPI_OK(MPI_File_iwrite_at(file, mine, out[0], N, MPI_BYTE, &requests[0]));
    MPI_OK(MPI_File_iwrite(file, out[1], N, MPI_BYTE, &requests[1]));
    MPI_OK(MPI_File_iwrite_at_all(file, mine + 2 * (MPI_Offset)N, out[2], N, MPI_BYTE, &requests[2]));
    MPI_OK(MPI_File_iwrite_at(file, mine + 3 * (MPI_Offset)N, out[3], N, MPI_BYTE, &requests[3]));
    MPI_OK(MPI_File_iwrite_at_all(file, mine + 4 * (MPI_Offset)N, out[4], N, MPI_BYTE, &requests[4]));
    cut();
    MPI_OK(MPI_Waitall(KINDS, requests, statuses));
    for (int kind = 0; kind < KINDS; kind++) {
        MPI_OK(MPI_Get_count(&statuses[kind], MPI_BYTE, &count));
        CHECK_EQ(count, N);
    }
    MPI_OK(MPI_File_get_position(file, &position));
    CHECK_EQ(position, mine + 2 * (MPI_Offset)N);
    MPI_OK(MPI_File_sync(file));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_File_sync(file));

    const int other = 1 - test_rank;
    const MPI_Offset theirs = other * (MPI_Offset)KINDS * N;
    MPI_OK(MPI_File_seek(file, theirs + N, MPI_SEEK_SET));
    MPI_OK(MPI_File_iread_at(file, theirs, in[0], N, MPI_BYTE, &requests[0]));
    MPI_OK(MPI_File_iread(file, in[1], N, MPI_BYTE, &requests[1]));
    MPI_OK(MPI_File_iread_at_all(file, theirs + 2 * (MPI_Offset)N, in[2], N, MPI_BYTE, &requests[2]));
    MPI_OK(MPI_Waitall(3, requests, statuses));
    MPI_OK(MPI_File_seek(file, theirs + 3 * (MPI_Offset)N, MPI_SEEK_SET));
    MPI_OK(MPI_File_iread_all(file, in[3], N, MPI_BYTE, &requests[3]));
    MPI_OK(MPI_Wait(&requests[3], &statuses[3]));
    MPI_OK(MPI_File_iread_all(file, in[4], N, MPI_BYTE, &requests[4]));
    MPI_OK(MPI_Wait(&requests[4], &statuses[4]));
    for (int kind = 0; kind < KINDS; kind++) {
        MPI_OK(MPI_Get_count(&statuses[kind], MPI_BYTE, &count));
        CHECK_EQ(count, N);
        test_verify(in[kind], N, (uint32_t)(10 * other + kind));
    }
    MPI_OK(MPI_File_close(&file));
    return test_finish("pending");
}
