//#Ranks: 3
//#Cut: hold
//#Shows: a view with derived datatypes (freed since) and a displacement, the individual pointer in the middle of it, hints and mode
#include "../stasis_test.h"

enum { BLOCK = 5, BLOCKS = 8, HEAD = 24 };

/* Every rank sees its own blocks of the file, in turn with the others'. */
static void view(MPI_File file)
{
    MPI_Datatype pair, blocks, mine;
    MPI_OK(MPI_Type_contiguous(2, MPI_INT, &pair));
    MPI_OK(MPI_Type_commit(&pair));
    MPI_OK(MPI_Type_contiguous(BLOCK, pair, &blocks));
    MPI_OK(MPI_Type_create_resized(blocks, 0, test_size * BLOCK * 2 * (MPI_Aint)sizeof(int), &mine));
    MPI_OK(MPI_Type_commit(&mine));
    MPI_OK(MPI_File_set_view(file, HEAD + test_rank * BLOCK * 2 * (MPI_Offset)sizeof(int), pair, mine, "native", MPI_INFO_NULL));
    MPI_OK(MPI_Type_free(&mine));
    MPI_OK(MPI_Type_free(&blocks));
    MPI_OK(MPI_Type_free(&pair));
}

static void fill(int *values, int from, int n)
{
    for (int i = 0; i < n; i++)
        values[i] = 1000 * test_rank + from + i;
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    MPI_File file;
    MPI_Status status;
    MPI_Offset position, bytes, disp;
    MPI_Info info;
    char value[MPI_MAX_INFO_VAL + 1], datarep[MPI_MAX_DATAREP_STRING];
    int values[2 * BLOCK * BLOCKS], got[2 * BLOCK * BLOCKS], count, flag, amode, number[4];
    MPI_Datatype etype, filetype;

    MPI_OK(MPI_Info_create(&info));
    MPI_OK(MPI_Info_set(info, "cb_buffer_size", "65536"));
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, "views.dat", MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    MPI_OK(MPI_Info_free(&info));
    MPI_OK(MPI_File_write_at_all(file, test_rank * 8, "headhead", test_rank < 3 ? 8 : 0, MPI_CHAR, &status));
    view(file);

    /* Up to the middle of the fourth block. */
    fill(values, 0, 6 * BLOCK + 4);
    MPI_OK(MPI_File_write_all(file, values, 6 * BLOCK + 4, MPI_INT, &status));
    MPI_OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK_EQ(count, 6 * BLOCK + 4);
    MPI_OK(MPI_File_get_position(file, &position));
    CHECK_EQ(position, 3 * BLOCK + 2);

    cut();

    MPI_OK(MPI_File_get_position(file, &position));
    CHECK_EQ(position, 3 * BLOCK + 2);
    MPI_OK(MPI_File_get_amode(file, &amode));
    CHECK_EQ(amode, MPI_MODE_CREATE | MPI_MODE_RDWR);
    MPI_OK(MPI_File_get_info(file, &info));
    MPI_OK(MPI_Info_get(info, "cb_buffer_size", MPI_MAX_INFO_VAL, value, &flag));
    if (flag)
        CHECK_EQ(atoi(value), 65536);
    MPI_OK(MPI_Info_free(&info));

    MPI_OK(MPI_File_get_view(file, &disp, &etype, &filetype, datarep));
    CHECK_EQ(disp, HEAD + test_rank * BLOCK * 2 * (MPI_Offset)sizeof(int));
    CHECK_EQ(strcmp(datarep, "native"), 0);
    MPI_Aint low, extent;
    MPI_OK(MPI_Type_get_extent(filetype, &low, &extent));
    CHECK_EQ(extent, test_size * BLOCK * 2 * (MPI_Aint)sizeof(int));
    MPI_OK(MPI_Type_get_extent(etype, &low, &extent));
    CHECK_EQ(extent, 2 * sizeof(int));
    MPI_OK(MPI_Type_get_envelope(etype, &number[0], &number[1], &number[2], &number[3]));
    CHECK(number[3] != MPI_COMBINER_NAMED, "the pair has become %d", number[3]);
    MPI_OK(MPI_Type_free(&etype));
    MPI_OK(MPI_Type_free(&filetype));

    /* The rest, with the pointer where it was. */
    fill(values, 6 * BLOCK + 4, 2 * BLOCK * BLOCKS - 6 * BLOCK - 4);
    MPI_OK(MPI_File_write(file, values, 2 * BLOCK * BLOCKS - 6 * BLOCK - 4, MPI_INT, &status));
    MPI_OK(MPI_File_get_position(file, &position));
    CHECK_EQ(position, BLOCK * BLOCKS);
    MPI_OK(MPI_File_get_byte_offset(file, BLOCK, &bytes));
    CHECK_EQ(bytes, HEAD + (test_rank + test_size) * BLOCK * 2 * (MPI_Offset)sizeof(int));

    fill(values, 0, 2 * BLOCK * BLOCKS);
    MPI_OK(MPI_File_seek(file, 0, MPI_SEEK_SET));
    MPI_OK(MPI_File_read_all(file, got, BLOCK * BLOCKS * 2, MPI_INT, &status));
    CHECK_EQ(memcmp(got, values, sizeof got), 0);
    MPI_OK(MPI_File_sync(file));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_File_sync(file));

    /* All of it, in the order in which it lies there. */
    MPI_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    MPI_OK(MPI_File_get_size(file, &bytes));
    CHECK_EQ(bytes, HEAD + test_size * (MPI_Offset)sizeof got);
    char head[HEAD];
    MPI_OK(MPI_File_read_at(file, 0, head, HEAD, MPI_CHAR, &status));
    CHECK_EQ(memcmp(head, "headheadheadheadheadhead", HEAD), 0);
    for (int block = 0; block < BLOCKS; block++)
        for (int rank = 0; rank < test_size; rank++) {
            MPI_OK(MPI_File_read(file, head, 0, MPI_CHAR, &status));
            MPI_OK(MPI_File_read_at_all(file, HEAD + (block * test_size + rank) * 2 * BLOCK * (MPI_Offset)sizeof(int), got, 2 * BLOCK, MPI_INT, &status));
            for (int i = 0; i < 2 * BLOCK; i++)
                CHECK_EQ(got[i], 1000 * rank + 2 * BLOCK * block + i);
            test_add(got, 2 * BLOCK * sizeof(int));
        }
    MPI_OK(MPI_File_close(&file));
    CHECK(file == MPI_FILE_NULL, "not closed");
    return test_finish("views");
}
