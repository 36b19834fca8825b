//#Ranks: 2
//#Cut: hold
//#Shows: error handlers and keyvals of the C++ bindings of Open MPI 4 and MPICH, made before the cut and called after it
#include "../stasis_test.h"

#ifdef OPEN_MPI
typedef const void Old;
#define NO_COPY MPI_WIN_NULL_COPY_FN
#else
typedef void Old;
#define NO_COPY MPI::Win::NULL_COPY_FN
#endif

struct Seen {
    long copies, deletes, errors, last;
    MPI_Comm comm;
};

static Seen seen;
static char box[16];

/* Error codes differ between the libraries. */
static void add()
{
    test_add(&seen, offsetof(Seen, last));
}

/* Which class the object is of that a callback gets. */
static int class_of(const MPI::Comm &comm)
{
    if (dynamic_cast<const MPI::Cartcomm *>(&comm))
        return 1;
    if (dynamic_cast<const MPI::Graphcomm *>(&comm))
        return 2;
    return dynamic_cast<const MPI::Intercomm *>(&comm) ? 3 : 4;
}

static int copy_comm(const MPI::Comm &comm, int, void *extra, void *value, void *out, bool &flag)
{
    CHECK(extra == box, "another extra state");
    seen.copies = 10 * seen.copies + class_of(comm);
    seen.comm = comm;
    *static_cast<void **>(out) = static_cast<char *>(value) + 1;
    flag = true;
    return MPI::SUCCESS;
}

static int delete_comm(MPI::Comm &comm, int, void *, void *extra)
{
    CHECK(extra == box, "another extra state");
    seen.deletes = 10 * seen.deletes + class_of(comm);
    return MPI::SUCCESS;
}

static int copy_type(const MPI::Datatype &, int, void *, Old *value, void *out, bool &flag)
{
    *static_cast<const void **>(out) = static_cast<const char *>(value) + 3;
    flag = true;
    return MPI::SUCCESS;
}

static int delete_type(MPI::Datatype &, int, void *value, void *)
{
    seen.deletes += 1000 * static_cast<int>(static_cast<char *>(value) - box);
    return MPI::SUCCESS;
}

static int delete_win(MPI::Win &win, int, void *, void *)
{
    seen.deletes += win == MPI::WIN_NULL ? 0 : 100000;
    return MPI::SUCCESS;
}

static int copy_in_c(MPI_Comm comm, int, void *, void *value, void *out, int *flag)
{
    seen.comm = comm;
    *static_cast<void **>(out) = static_cast<char *>(value) + 2;
    *flag = 1;
    return MPI_SUCCESS;
}

static void on_comm(MPI::Comm &comm, int *code, ...)
{
    seen.errors++;
    seen.last = MPI::Get_error_class(*code);
    seen.comm = comm;
}

static void on_win(MPI::Win &, int *code, ...)
{
    seen.errors += 10;
    seen.last = MPI::Get_error_class(*code);
}

static void on_file(MPI::File &file, int *code, ...)
{
    seen.errors += file == MPI::FILE_NULL ? 100 : 1000;
    seen.last = MPI::Get_error_class(*code);
}

/* A duplicate has what the copy callback made of the value, and the callback got this communicator. */
static void duplicate(const MPI::Comm &comm, int key, int in_c)
{
    void *value = nullptr;
    MPI::Comm &twin = comm.Clone();
    CHECK(seen.comm == static_cast<MPI_Comm>(comm), "another communicator");
    CHECK(twin.Get_attr(key, &value) && value == box + 1, "value %p", value);
    CHECK(twin.Get_attr(in_c, &value) && value == box + 2, "value %p", value);
    twin.Free();
    delete &twin;
    add();
}

#ifdef OPEN_MPI
static void fail_on_no_file()
{
    MPI::File::Open(MPI::COMM_SELF, "/nonexistent/file", MPI::MODE_RDONLY, MPI::INFO_NULL);
}

/* The bindings say so on stderr, note the code and go on. */
static int code_thrown()
{
    int value = 0;
    MPI::mpi_errno = 0;
    MPI::COMM_SELF.Send(&value, 1, MPI::INT, 99, 0);
    return MPI::Get_error_class(MPI::mpi_errno);
}

static int keyval_in_c()
{
    return MPI::Comm::Create_keyval(copy_in_c, MPI_COMM_NULL_DELETE_FN, nullptr);
}
#else
/* A file that cannot be opened raises the error on the world as well, which ends the job. */
static void fail_on_no_file()
{
    MPI::FILE_NULL.Call_errhandler(MPI::ERR_NO_SUCH_FILE);
}

static int code_thrown()
{
    int value = 0;
    try {
        MPI::COMM_SELF.Send(&value, 1, MPI::INT, 99, 0);
    } catch (MPI::Exception &thrown) {
        return thrown.Get_error_class();
    }
    return MPI::SUCCESS;
}

static int keyval_in_c()
{
    int keyval;
    MPI_Comm_create_keyval(copy_in_c, MPI_COMM_NULL_DELETE_FN, &keyval, nullptr);
    return keyval;
}
#endif

static void fail(const MPI::Comm &comm, MPI::Win &win)
{
    int value = 0;
    seen.errors = 0;
    comm.Send(&value, 1, MPI::INT, 99, 0);
    CHECK_EQ(seen.errors, 1);
    CHECK_EQ(seen.last, MPI::ERR_RANK);
    CHECK(seen.comm == static_cast<MPI_Comm>(comm), "raised on another communicator");
    comm.Call_errhandler(MPI::ERR_TAG);
    CHECK_EQ(seen.last, MPI::ERR_TAG);
    win.Call_errhandler(MPI::ERR_ARG);
    CHECK_EQ(seen.last, MPI::ERR_ARG);
    fail_on_no_file();
    CHECK_EQ(seen.errors, 112);
    CHECK_EQ(seen.last, MPI::ERR_NO_SUCH_FILE);
    add();
    CHECK_EQ(code_thrown(), MPI::ERR_RANK);
    CHECK(MPI::COMM_SELF.Get_errhandler() == MPI::ERRORS_THROW_EXCEPTIONS, "another handler");
    CHECK(comm.Get_errhandler() != MPI::ERRORS_THROW_EXCEPTIONS, "the predefined handler");
}

int main(int argc, char **argv)
{
    MPI::Init(argc, argv);
    test_rank = MPI::COMM_WORLD.Get_rank();
    test_size = MPI::COMM_WORLD.Get_size();
    const int dims[1] = {test_size}, index[2] = {1, 2}, edges[2] = {1, 0};
    const bool periods[1] = {true};
    MPI::Intracomm plain = MPI::COMM_WORLD.Dup();
    MPI::Cartcomm grid = plain.Create_cart(1, dims, periods, false);
    MPI::Graphcomm graph = plain.Create_graph(2, index, edges, false);
    MPI::Intracomm own = plain.Split(test_rank, 0);
    MPI::Intercomm between = own.Create_intercomm(0, plain, 1 - test_rank, 5);
    MPI::Datatype type = MPI::INT.Create_contiguous(3);
    MPI::Win win = MPI::Win::Create(box, 0, 1, MPI::INFO_NULL, MPI::COMM_WORLD);

    int key = MPI::Comm::Create_keyval(copy_comm, delete_comm, box);
    int in_c = keyval_in_c();
    int type_key = MPI::Datatype::Create_keyval(copy_type, delete_type, nullptr);
    int win_key = MPI::Win::Create_keyval(NO_COPY, delete_win, nullptr);
    MPI::Comm *const all[] = {&MPI::COMM_WORLD, &plain, &grid, &graph, &between};
    for (MPI::Comm *comm : all) {
        comm->Set_attr(in_c, box);
        comm->Set_attr(key, box);
    }
    type.Set_attr(type_key, box);
    win.Set_attr(win_key, box);

    MPI::Errhandler of_comms = MPI::Comm::Create_errhandler(on_comm);
    MPI::Errhandler of_wins = MPI::Win::Create_errhandler(on_win);
    MPI::Errhandler of_files = MPI::File::Create_errhandler(on_file);
    grid.Set_errhandler(of_comms);
    CHECK(grid.Get_errhandler() == of_comms, "another handler");
    win.Set_errhandler(of_wins);
    MPI::FILE_NULL.Set_errhandler(of_files);
    MPI::COMM_SELF.Set_errhandler(MPI::ERRORS_THROW_EXCEPTIONS);
    of_comms.Free();

    for (MPI::Comm *comm : all)
        duplicate(*comm, key, in_c);
    fail(grid, win);
    cut();
    for (MPI::Comm *comm : all)
        duplicate(*comm, key, in_c);
    fail(grid, win);

    MPI::Datatype twin = type.Dup();
    void *value = nullptr;
    CHECK(twin.Get_attr(type_key, &value) && value == box + 3, "value %p", value);
    seen.copies = seen.deletes = 0;
    twin.Free();
    type.Free();
    CHECK_EQ(seen.deletes, 3000);
    win.Free();
    CHECK_EQ(seen.deletes, 103000);
    seen.deletes = 0;
    between.Free();
    graph.Free();
    grid.Free();
    plain.Free();
    CHECK_EQ(seen.deletes, 3214);
    own.Free();
    MPI::COMM_WORLD.Delete_attr(key);
    CHECK_EQ(seen.deletes, 32144);
    MPI::Comm::Free_keyval(key);
    MPI::Comm::Free_keyval(in_c);
    MPI::Datatype::Free_keyval(type_key);
    MPI::Win::Free_keyval(win_key);
    of_wins.Free();
    of_files.Free();
    add();
    return test_finish("cxx_callbacks");
}
