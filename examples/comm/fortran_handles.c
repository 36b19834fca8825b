//#Shows: the integers by which Fortran knows objects, taken before the cut, name the same objects after it; so do statuses
//#Ranks: 2
//#Mpi: openmpi, mpich
//#Cut: hold
#include "../stasis_test.h"

static void raised(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    (void)code;
}

static void add(void *in, void *inout, int *len, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *len; i++)
        ((int *)inout)[i] += ((int *)in)[i];
}

int main(int argc, char **argv)
{
    MPI_Comm comm;
    MPI_Group group;
    MPI_Datatype type;
    MPI_Op op;
    MPI_Info info;
    MPI_Errhandler handler;
    MPI_Request request;
    MPI_Win win;
    MPI_File file;
    MPI_Status status, again;
    MPI_Fint statuses[sizeof(MPI_Status) / sizeof(MPI_Fint)];
    int got = -1, memory[4] = {0}, count = -1, one = 1, sum = 0;
    char name[] = "fortran_handles.data", value[32];
    test_start(&argc, &argv);
    MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    MPI_OK(MPI_Comm_group(comm, &group));
    MPI_OK(MPI_Type_contiguous(3, MPI_INT, &type));
    MPI_OK(MPI_Type_commit(&type));
    MPI_OK(MPI_Op_create(add, 1, &op));
    MPI_OK(MPI_Info_create(&info));
    MPI_OK(MPI_Info_set(info, "key", "value"));
    MPI_OK(MPI_Comm_create_errhandler(raised, &handler));
    MPI_OK(MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, comm, &win));
    MPI_OK(MPI_File_open(comm, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                         MPI_INFO_NULL, &file));
    MPI_OK(MPI_Irecv(&got, 1, MPI_INT, 1 - test_rank, 5, comm, &request));

    MPI_Fint c = MPI_Comm_c2f(comm), g = MPI_Group_c2f(group), t = MPI_Type_c2f(type), o = MPI_Op_c2f(op),
             i = MPI_Info_c2f(info), e = MPI_Errhandler_c2f(handler), w = MPI_Win_c2f(win),
             f = MPI_File_c2f(file), r = MPI_Request_c2f(request), world = MPI_Comm_c2f(MPI_COMM_WORLD);
    cut();
    CHECK(MPI_Comm_f2c(c) == comm && MPI_Comm_f2c(world) == MPI_COMM_WORLD);
    CHECK(MPI_Group_f2c(g) == group);
    CHECK(MPI_Type_f2c(t) == type);
    CHECK(MPI_Op_f2c(o) == op);
    CHECK(MPI_Info_f2c(i) == info);
    CHECK(MPI_Errhandler_f2c(e) == handler);
    CHECK(MPI_Win_f2c(w) == win);
    CHECK(MPI_File_f2c(f) == file);
    CHECK(MPI_Request_f2c(r) == request);
    CHECK_EQ(MPI_Comm_c2f(comm), c);
    CHECK_EQ(MPI_Type_c2f(type), t);

    /* They are live. */
    MPI_OK(MPI_Send(&test_rank, 1, MPI_INT, 1 - test_rank, 5, MPI_Comm_f2c(c)));
    request = MPI_Request_f2c(r);
    MPI_OK(MPI_Wait(&request, &status));
    CHECK_EQ(got, 1 - test_rank);
    MPI_OK(MPI_Status_c2f(&status, statuses));
    memset(&again, 0, sizeof again);
    MPI_OK(MPI_Status_f2c(statuses, &again));
    CHECK_EQ(again.MPI_SOURCE, 1 - test_rank);
    CHECK_EQ(again.MPI_TAG, 5);
    MPI_OK(MPI_Get_count(&again, MPI_INT, &count));
    CHECK_EQ(count, 1);
    MPI_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_Op_f2c(o), comm));
    CHECK_EQ(sum, test_size);
    MPI_OK(MPI_Info_get(MPI_Info_f2c(i), "key", sizeof value - 1, value, &count));
    CHECK(count && strcmp(value, "value") == 0);

    MPI_OK(MPI_File_close(&file));
    MPI_OK(MPI_Win_free(&win));
    MPI_OK(MPI_Errhandler_free(&handler));
    MPI_OK(MPI_Info_free(&info));
    MPI_OK(MPI_Op_free(&op));
    MPI_OK(MPI_Type_free(&type));
    MPI_OK(MPI_Group_free(&group));
    MPI_OK(MPI_Comm_disconnect(&comm));
    CHECK(comm == MPI_COMM_NULL);
    return test_finish("fortran_handles");
}
