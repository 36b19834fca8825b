//#Ranks: 2
//#Cut: hold
//#Shows: the cut falls inside a callback of the application: attribute copy and delete, error handler, query and cancel of a generalized request; each calls MPI itself
//#Variant: copy; matrix=full
//#Variant: copy_idup
//#Variant: delete
//#Variant: at_end
//#Variant: error
//#Variant: query
//#Variant: cancel
//#Variant: free
#include "../stasis_test.h"

static const char *where;
static const char *in_copy = "copy";
static int calls;
static char in[5000], out[5000];
static MPI_Request posted, under_way;

/* A cut with messages under way, and the same communication as ever afterwards. */
static void cut_in(const char *here)
{
    int other = 1 - test_rank, sum = 0;
    if (calls || strcmp(here, where))
        return;
    calls++;
    test_fill(out, sizeof out, (uint32_t)test_rank);
    MPI_OK(MPI_Irecv(in, sizeof in, MPI_BYTE, other, 8, MPI_COMM_WORLD, &posted));
    MPI_OK(MPI_Isend(out, sizeof out, MPI_BYTE, other, 8, MPI_COMM_WORLD, &under_way));
    cut();
    MPI_OK(MPI_Wait(&posted, MPI_STATUS_IGNORE));
    MPI_OK(MPI_Wait(&under_way, MPI_STATUS_IGNORE));
    test_verify(in, sizeof in, (uint32_t)other);
    MPI_OK(MPI_Allreduce(&calls, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK_EQ(sum, 2);
}

static int copy(MPI_Comm comm, int key, void *extra, void *value, void *new, int *flag)
{
    (void)comm;
    (void)key;
    (void)extra;
    cut_in(in_copy);
    *(void **)new = value;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm;
    (void)key;
    (void)extra;
    cut_in(value);
    return MPI_SUCCESS;
}

static void on_error(MPI_Comm *comm, int *code, ...)
{
    int class, result;
    MPI_OK(MPI_Error_class(*code, &class));
    CHECK(class == MPI_ERR_RANK || class == MPI_ERR_OTHER, "class %d", class);
    MPI_OK(MPI_Comm_compare(*comm, MPI_COMM_WORLD, &result));
    CHECK_EQ(result, MPI_CONGRUENT);
    cut_in("error");
}

static int query(void *extra, MPI_Status *status)
{
    CHECK(extra == &calls, "another extra state");
    cut_in("query");
    MPI_OK(MPI_Status_set_elements(status, MPI_INT, 6));
    MPI_OK(MPI_Status_set_cancelled(status, 1));
    return MPI_SUCCESS;
}

static int cancel(void *extra, int complete)
{
    (void)extra;
    CHECK_EQ(complete, 0);
    cut_in("cancel");
    return MPI_SUCCESS;
}

static int release(void *extra)
{
    (void)extra;
    cut_in("free");
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    CHECK(argc > 1, "which callback?");
    where = argv[1];
    int key, flag, count;
    void *value;
    MPI_Comm dup, again, third;
    MPI_Errhandler handler;
    MPI_Request many[3];
    MPI_Status statuses[3];
    int token = 40 + test_rank, other = 1 - test_rank, got = -1;
    MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
    MPI_OK(MPI_Comm_create_keyval(copy, delete, &key, NULL));
    MPI_OK(MPI_Comm_set_attr(dup, key, "delete"));
    MPI_OK(MPI_Comm_dup(dup, &again));
    in_copy = "copy_idup";
    MPI_OK(MPI_Comm_idup(dup, &third, &many[0]));
    MPI_OK(MPI_Wait(&many[0], MPI_STATUS_IGNORE));
    MPI_OK(MPI_Comm_get_attr(again, key, &value, &flag));
    CHECK(flag && !strcmp(value, "delete"), "flag %d", flag);
    MPI_OK(MPI_Comm_set_attr(again, key, "nothing"));
    MPI_OK(MPI_Comm_free(&again));
    MPI_OK(MPI_Comm_free(&third));
    CHECK_EQ(calls, !strncmp(where, "copy", 4) || !strcmp(where, "delete"));

    MPI_OK(MPI_Comm_create_errhandler(on_error, &handler));
    MPI_OK(MPI_Comm_set_errhandler(dup, handler));
    CHECK(MPI_Send(out, 1, MPI_BYTE, 99, 0, dup) != MPI_SUCCESS, "there is no rank 99");
    MPI_OK(MPI_Errhandler_free(&handler));

    /* The messages beside it are complete in the library when the callbacks run. */
    MPI_OK(MPI_Grequest_start(query, release, cancel, &calls, &many[0]));
    MPI_OK(MPI_Irecv(&got, 1, MPI_INT, other, 9, dup, &many[1]));
    MPI_OK(MPI_Isend(&token, 1, MPI_INT, other, 9, dup, &many[2]));
    MPI_OK(MPI_Cancel(&many[0]));
    MPI_OK(MPI_Grequest_complete(many[0]));
    MPI_OK(MPI_Waitall(3, many, statuses));
    MPI_OK(MPI_Get_count(&statuses[0], MPI_INT, &count));
    MPI_OK(MPI_Test_cancelled(&statuses[0], &flag));
    CHECK(count == 6 && flag, "%d entries, cancelled %d", count, flag);
    CHECK_EQ(got, 40 + other);
    CHECK(statuses[1].MPI_SOURCE == other && statuses[1].MPI_TAG == 9, "source %d, tag %d", statuses[1].MPI_SOURCE,
          statuses[1].MPI_TAG);

    MPI_OK(MPI_Comm_free(&dup));
    int at_end = !strcmp(where, "at_end");
    CHECK_EQ(calls, !at_end);
    /* What is attached to MPI_COMM_SELF goes first in MPI_Finalize, while all of MPI still works. */
    MPI_OK(MPI_Comm_set_attr(MPI_COMM_SELF, key, "at_end"));
    MPI_OK(MPI_Comm_free_keyval(&key));
    return test_finish(where);
}
