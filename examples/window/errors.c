//#Shows: error handlers, hints and groups of windows and files are theirs after the cut
//#Ranks: 2
//#Mpi: openmpi, mpich
//#Cut: hold
#include "../stasis_test.h"

static int of_win, of_file;

static void on_win(MPI_Win *win, int *code, ...)
{
    (void)win;
    MPI_Error_class(*code, &of_win);
}

static void on_file(MPI_File *file, int *code, ...)
{
    (void)file;
    MPI_Error_class(*code, &of_file);
}

static void raise_both(MPI_Win win, MPI_File file)
{
    of_win = of_file = -1;
    MPI_OK(MPI_Win_call_errhandler(win, MPI_ERR_OTHER));
    CHECK_EQ(of_win, MPI_ERR_OTHER);
    MPI_OK(MPI_File_call_errhandler(file, MPI_ERR_IO));
    CHECK_EQ(of_file, MPI_ERR_IO);
}

static void look_at_group(MPI_Group group)
{
    int size = -1, rank = -1;
    MPI_OK(MPI_Group_size(group, &size));
    MPI_OK(MPI_Group_rank(group, &rank));
    CHECK_EQ(size, test_size);
    CHECK_EQ(rank, test_rank);
    MPI_OK(MPI_Group_free(&group));
}

int main(int argc, char **argv)
{
    MPI_Errhandler win_handler, file_handler, found;
    MPI_Group group;
    MPI_Win win;
    MPI_File file;
    MPI_Info used;
    MPI_Aint extent;
    MPI_Offset size;
    long memory[8] = {0}, got = 0, mine = 0;
    test_start(&argc, &argv);
    mine = test_rank + 1;
    MPI_OK(MPI_Win_create(memory, sizeof memory, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    MPI_OK(MPI_File_open(MPI_COMM_WORLD, "errors.data", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                         &file));
    MPI_OK(MPI_Win_create_errhandler(on_win, &win_handler));
    MPI_OK(MPI_File_create_errhandler(on_file, &file_handler));
    MPI_OK(MPI_Win_set_errhandler(win, win_handler));
    MPI_OK(MPI_File_set_errhandler(file, file_handler));
    MPI_OK(MPI_File_set_size(file, 4096));
    MPI_OK(MPI_File_preallocate(file, 8192));
    raise_both(win, file);
    cut();
    raise_both(win, file);
    MPI_OK(MPI_Win_get_errhandler(win, &found));
    CHECK(found == win_handler);
    MPI_OK(MPI_Errhandler_free(&found));
    MPI_OK(MPI_File_get_errhandler(file, &found));
    CHECK(found == file_handler);
    MPI_OK(MPI_Errhandler_free(&found));
    MPI_OK(MPI_Win_get_group(win, &group));
    look_at_group(group);
    MPI_OK(MPI_File_get_group(file, &group));
    look_at_group(group);
    MPI_OK(MPI_Win_get_info(win, &used));
    MPI_OK(MPI_Win_set_info(win, used));
    MPI_OK(MPI_Info_free(&used));
    MPI_OK(MPI_File_get_info(file, &used));
    MPI_OK(MPI_File_set_info(file, used));
    MPI_OK(MPI_Info_free(&used));
    MPI_OK(MPI_File_get_type_extent(file, MPI_INT, &extent));
    CHECK_EQ(extent, sizeof(int));
    MPI_OK(MPI_File_get_size(file, &size));
    CHECK_EQ(size, 8192);

    MPI_OK(MPI_Win_lock_all(0, win));
    MPI_OK(MPI_Get_accumulate(&mine, 1, MPI_LONG, &got, 1, MPI_LONG, 0, 2, 1, MPI_LONG, MPI_SUM, win));
    MPI_OK(MPI_Win_flush_local_all(win));
    MPI_OK(MPI_Win_unlock_all(win));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (test_rank == 0)
        CHECK_EQ(memory[2], test_size * (test_size + 1) / 2);
    MPI_OK(MPI_Errhandler_free(&win_handler));
    MPI_OK(MPI_Errhandler_free(&file_handler));
    MPI_OK(MPI_Win_free(&win));
    MPI_OK(MPI_File_close(&file));
    return test_finish("errors");
}
