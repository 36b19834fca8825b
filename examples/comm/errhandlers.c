//#Ranks: 2
//#Cut: hold
//#Shows: error handlers (returning ones, user-defined ones, user error classes) still in force after the cut; a handle stays as it is when it cannot be freed
#include "../stasis_test.h"

static int called, last;
static MPI_Comm raised_on;

static void handler(MPI_Comm *comm, int *code, ...)
{
    called++;
    raised_on = *comm;
    MPI_Error_class(*code, &last);
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    MPI_Comm returning, ours;
    MPI_Errhandler errhandler, now;
    int value = 0, class, our_class, our_code, length;
    char text[MPI_MAX_ERROR_STRING];
    MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &returning));
    MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &ours));
    MPI_OK(MPI_Comm_set_errhandler(returning, MPI_ERRORS_RETURN));
    MPI_OK(MPI_Comm_create_errhandler(handler, &errhandler));
    MPI_OK(MPI_Comm_set_errhandler(ours, errhandler));
    MPI_OK(MPI_Errhandler_free(&errhandler));
    CHECK(errhandler == MPI_ERRHANDLER_NULL, "not freed");
    MPI_OK(MPI_Add_error_class(&our_class));
    MPI_OK(MPI_Add_error_code(our_class, &our_code));
    MPI_OK(MPI_Add_error_string(our_code, "the tide is out"));
    cut();
    MPI_OK(MPI_Error_class(MPI_Send(&value, 1, MPI_INT, 99, 0, returning), &class));
    CHECK_EQ(class, MPI_ERR_RANK);
    MPI_OK(MPI_Error_class(MPI_Send(&value, -1, MPI_INT, 0, 0, returning), &class));
    CHECK_EQ(class, MPI_ERR_COUNT);
    MPI_OK(MPI_Error_class(MPI_Recv(&value, 1, MPI_INT, 99, 0, ours, MPI_STATUS_IGNORE), &class));
    CHECK_EQ(class, MPI_ERR_RANK);
    CHECK_EQ(called, 1);
    CHECK_EQ(last, MPI_ERR_RANK);
    CHECK(raised_on == ours, "raised on another communicator");
    MPI_OK(MPI_Comm_get_errhandler(returning, &now));
    CHECK(now == MPI_ERRORS_RETURN, "another handler");
    MPI_OK(MPI_Errhandler_free(&now));
    MPI_OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &now));
    CHECK(now == MPI_ERRORS_ARE_FATAL, "another handler");
    MPI_OK(MPI_Errhandler_free(&now));
    MPI_OK(MPI_Error_string(our_code, text, &length));
    CHECK(strcmp(text, "the tide is out") == 0, "'%s'", text);
    MPI_OK(MPI_Error_class(our_code, &class));
    CHECK_EQ(class, our_class);
    MPI_OK(MPI_Comm_call_errhandler(ours, our_code));
    CHECK_EQ(called, 2);
    CHECK_EQ(last, our_class);
    MPI_OK(MPI_Error_string(MPI_ERR_TRUNCATE, text, &length));
    CHECK(length > 0, "no text");
    MPI_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MPI_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    MPI_Datatype predefined = MPI_INT;
    MPI_OK(MPI_Error_class(MPI_Type_free(&predefined), &class));
    CHECK_EQ(class, MPI_ERR_TYPE);
    CHECK(predefined == MPI_INT, "another datatype");
#ifdef MPICH_VERSION
    /* No datatype of Stasis's stands for this one (docs/not-supported.md). */
    predefined = MPI_LB;
    MPI_OK(MPI_Error_class(MPI_Type_free(&predefined), &class));
    CHECK_EQ(class, MPI_ERR_TYPE);
    CHECK(predefined == MPI_LB, "another datatype");
#endif
    MPI_OK(MPI_Comm_free(&ours));
    MPI_OK(MPI_Comm_free(&returning));
    return test_finish("errhandlers");
}
