//#Ranks: 2
//#Cut: hold
//#Shows: attributes on communicators and datatypes, with copy and delete callbacks, and the predefined ones, across the cut
#include "../stasis_test.h"

static int copies, deletes;
static int box = 4;

static int copy_comm(MPI_Comm comm, int key, void *extra, void *value, void *out, int *flag)
{
    (void)comm;
    (void)key;
    CHECK(extra == &box, "another extra state");
    copies++;
    *(void **)out = (char *)value + 1;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete_comm(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm;
    (void)key;
    (void)value;
    CHECK(extra == &box, "another extra state");
    deletes++;
    return MPI_SUCCESS;
}

static int delete_type(MPI_Datatype type, int key, void *value, void *extra)
{
    (void)type;
    (void)key;
    (void)extra;
    CHECK(value == &box, "another value");
    deletes += 100;
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    int key, plain, type_key, flag, *limit;
    void *value;
    MPI_Comm dup, again;
    MPI_Datatype type, twin;
    MPI_OK(MPI_Comm_create_keyval(copy_comm, delete_comm, &key, &box));
    MPI_OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &plain, NULL));
    MPI_OK(MPI_Type_create_keyval(MPI_TYPE_DUP_FN, delete_type, &type_key, NULL));
    MPI_OK(MPI_Comm_set_attr(MPI_COMM_WORLD, key, (void *)1000));
    MPI_OK(MPI_Comm_set_attr(MPI_COMM_WORLD, plain, &box));
    MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
    MPI_OK(MPI_Type_contiguous(3, MPI_INT, &type));
    MPI_OK(MPI_Type_set_attr(type, type_key, &box));
    CHECK_EQ(copies, 1);
    cut();
    MPI_OK(MPI_Comm_get_attr(dup, key, &value, &flag));
    CHECK(flag && value == (void *)1001, "flag %d, value %p", flag, value);
    MPI_OK(MPI_Comm_get_attr(dup, plain, &value, &flag));
    CHECK_EQ(flag, 0);
    MPI_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, plain, &value, &flag));
    CHECK(flag && value == &box, "flag %d", flag);
    MPI_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &limit, &flag));
    CHECK(flag && *limit >= 32767, "flag %d", flag);
    MPI_OK(MPI_Comm_dup(dup, &again));
    MPI_OK(MPI_Comm_get_attr(again, key, &value, &flag));
    CHECK(flag && value == (void *)1002, "flag %d, value %p", flag, value);
    CHECK_EQ(copies, 2);
    MPI_OK(MPI_Comm_free(&again));
    CHECK_EQ(deletes, 1);
    MPI_OK(MPI_Comm_set_attr(dup, key, (void *)5));
    CHECK_EQ(deletes, 2);
    MPI_OK(MPI_Comm_delete_attr(dup, key));
    CHECK_EQ(deletes, 3);
    MPI_OK(MPI_Comm_get_attr(dup, key, &value, &flag));
    CHECK_EQ(flag, 0);
    MPI_OK(MPI_Type_dup(type, &twin));
    MPI_OK(MPI_Type_get_attr(twin, type_key, &value, &flag));
    CHECK(flag && value == &box, "flag %d", flag);
    MPI_OK(MPI_Type_free(&type));
    MPI_OK(MPI_Type_free(&twin));
    CHECK_EQ(deletes, 203);
    MPI_OK(MPI_Comm_free_keyval(&key));
    MPI_OK(MPI_Comm_free_keyval(&plain));
    MPI_OK(MPI_Type_free_keyval(&type_key));
    CHECK(key == MPI_KEYVAL_INVALID, "not freed");
    MPI_OK(MPI_Comm_free(&dup));
    return test_finish("attributes");
}
