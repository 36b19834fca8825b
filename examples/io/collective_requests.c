//#Ranks: 4
//#Cut: hold
//#Shows: several non-blocking collective writes and reads of one file at a time, whose parts ranks begin in one order; under way at the cut, too
#include "../stasis_test.h"

enum { OBJECTS = 4, BYTES = 1 << 18 };

static unsigned char objects[OBJECTS][BYTES];

static MPI_Offset place(int object) { return ((MPI_Offset)test_rank * OBJECTS + object) * BYTES; }

int main(int argc, char **argv)
{
    MPI_File file;
    MPI_Info hints;
    MPI_Request requests[OBJECTS];
    MPI_Status statuses[OBJECTS];
    test_start(&argc, &argv);
    MPI_OK(MPI_Info_create(&hints));
    MPI_OK(MPI_Info_set(hints, "romio_cb_write", "enable"));
    MPI_OK(MPI_Info_set(hints, "romio_cb_read", "enable"));
    MPI_OK(MPI_Info_set(hints, "cb_nodes", "1"));
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, "collective_requests", MPI_MODE_RDWR | MPI_MODE_CREATE, hints, &file));
    MPI_OK(MPI_Info_free(&hints));
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < OBJECTS; i++) {
            test_fill(objects[i], BYTES, 1000 * round + 100 * test_rank + i);
            MPI_OK(MPI_File_iwrite_at_all(file, place(i), objects[i], BYTES, MPI_BYTE, &requests[i]));
        }
        if (round == 2)
            cut();
        MPI_OK(MPI_Waitall(OBJECTS, requests, statuses));
        memset(objects, 0, sizeof objects);
        for (int i = 0; i < OBJECTS; i++)
            MPI_OK(MPI_File_iread_at_all(file, place(i), objects[i], BYTES, MPI_BYTE, &requests[i]));
        MPI_OK(MPI_Waitall(OBJECTS, requests, statuses));
        for (int i = 0; i < OBJECTS; i++)
            test_verify(objects[i], BYTES, 1000 * round + 100 * test_rank + i);
    }
    MPI_OK(MPI_File_close(&file));
    return test_finish("collective_requests");
}
