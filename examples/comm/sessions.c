//#Ranks: 3
//#Mpi: mpich
//#Cut: hold
//#Shows: MPI by sessions: process sets, communicators of groups, error handlers, at the cut
//#Variant: alone
//#Variant: beside
#include "../stasis_test.h"

static int raised;

static void on_session(MPI_Session *session, int *code, ...)
{
    (void)session;
    MPI_Error_class(*code, &raised);
}

static void check_sets(MPI_Session session)
{
    int n, world = 0, self = 0;
    MPI_OK(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &n));
    for (int i = 0; i < n; i++) {
        char name[256], small[4] = "xxx", value[16];
        int length = 0, room = sizeof small, flag, valuelen = sizeof value - 1;
        MPI_Info info;
        MPI_OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, NULL));
        CHECK(length > 1 && length <= (int)sizeof name, "length %d", length);
        MPI_OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, name));
        CHECK_EQ(length, strlen(name) + 1);
        MPI_OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &room, small));
        CHECK(strncmp(small, name, 3) == 0 && small[3] == 0, "'%s' of '%s'", small, name);
        MPI_OK(MPI_Session_get_pset_info(session, name, &info));
        MPI_OK(MPI_Info_get(info, "mpi_size", valuelen, value, &flag));
        CHECK_EQ(flag, 1);
        if (strcmp(name, "mpi://WORLD") == 0)
            world = atoi(value);
        if (strcmp(name, "mpi://SELF") == 0)
            self = atoi(value);
        MPI_OK(MPI_Info_free(&info));
    }
    CHECK_EQ(world, test_size);
    CHECK_EQ(self, 1);
}

static MPI_Comm world_of(MPI_Session session, const char *tag)
{
    MPI_Group group;
    MPI_Comm comm;
    MPI_OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    MPI_OK(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    MPI_OK(MPI_Group_free(&group));
    return comm;
}

/* A number from every rank, and a message round the ring. */
static void use(MPI_Comm comm, int seed)
{
    int rank, size, sum = 0, got = -1;
    MPI_OK(MPI_Comm_rank(comm, &rank));
    MPI_OK(MPI_Comm_size(comm, &size));
    int mine = seed + rank;
    MPI_OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK_EQ(sum, size * seed + size * (size - 1) / 2);
    MPI_OK(MPI_Sendrecv(&mine, 1, MPI_INT, (rank + 1) % size, 7, &got, 1, MPI_INT,
                        (rank + size - 1) % size, 7, comm, MPI_STATUS_IGNORE));
    CHECK_EQ(got, seed + (rank + size - 1) % size);
    test_add(&sum, sizeof sum);
}

int main(int argc, char **argv)
{
    const int beside = test_is(argc, argv, "beside");
    int up, down, token = -1;
    MPI_Session session, second;
    MPI_Errhandler handler, found;
    MPI_Comm comm, own, others = MPI_COMM_NULL, between;
    MPI_Group world, self, first, rest;
    MPI_Info info, used;
    MPI_Request request;
    char level[64];
    if (beside)
        MPI_OK(MPI_Init(&argc, &argv));

    MPI_OK(MPI_Info_create(&info));
    MPI_OK(MPI_Info_set(info, "thread_level", "MPI_THREAD_SINGLE"));
    MPI_OK(MPI_Session_init(info, MPI_ERRORS_RETURN, &session));
    MPI_OK(MPI_Session_create_errhandler(on_session, &handler));
    MPI_OK(MPI_Session_set_errhandler(session, handler));
    MPI_OK(MPI_Info_free(&info));
    MPI_OK(MPI_Session_get_info(session, &used));
    MPI_OK(MPI_Info_get(used, "thread_level", sizeof level - 1, level, &up));
    CHECK_EQ(up, 1);
    CHECK(strncmp(level, "MPI_THREAD_", 11) == 0, "level '%s'", level);
    MPI_OK(MPI_Info_free(&used));
    MPI_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &second));
    MPI_OK(MPI_Initialized(&up));
    CHECK_EQ(up, beside);

    MPI_OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &world));
    MPI_OK(MPI_Group_from_session_pset(second, "mpi://SELF", &self));
    MPI_OK(MPI_Group_size(world, &test_size));
    MPI_OK(MPI_Group_rank(world, &test_rank));
    check_sets(session);
    comm = world_of(session, "org.example.world");
    MPI_OK(MPI_Comm_create_from_group(self, "org.example.self", MPI_INFO_NULL, MPI_ERRORS_RETURN,
                                      &own));
    /* Rank 0 against the others. */
    int zero = 0;
    MPI_OK(MPI_Group_incl(world, 1, &zero, &first));
    MPI_OK(MPI_Group_excl(world, 1, &zero, &rest));
    if (test_rank > 0)
        MPI_OK(MPI_Comm_create_from_group(rest, "org.example.rest", MPI_INFO_NULL,
                                          MPI_ERRORS_RETURN, &others));
    MPI_OK(MPI_Intercomm_create_from_groups(test_rank == 0 ? first : rest, 0,
                                            test_rank == 0 ? rest : first, 0, "org.example.between",
                                            MPI_INFO_NULL, MPI_ERRORS_RETURN, &between));
    if (test_rank == 1)
        MPI_OK(MPI_Isend(&test_rank, 1, MPI_INT, 2, 3, comm, &request));
    if (beside) {
        MPI_OK(MPI_Finalize());
        MPI_OK(MPI_Finalized(&down));
        CHECK_EQ(down, 1);
    }
    cut();
    if (test_rank == 2) {
        MPI_OK(MPI_Recv(&token, 1, MPI_INT, 1, 3, comm, MPI_STATUS_IGNORE));
        CHECK_EQ(token, 1);
    }
    if (test_rank == 1)
        MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    check_sets(session);
    use(comm, 10);
    use(own, 20);
    if (others != MPI_COMM_NULL)
        use(others, 30);
    int remote, inter;
    MPI_OK(MPI_Comm_test_inter(between, &inter));
    MPI_OK(MPI_Comm_remote_size(between, &remote));
    CHECK_EQ(inter, 1);
    CHECK_EQ(remote, test_rank == 0 ? test_size - 1 : 1);
    MPI_OK(MPI_Barrier(between));
    MPI_Comm late = world_of(second, "org.example.world");
    use(late, 40);

    MPI_OK(MPI_Session_get_errhandler(session, &found));
    CHECK(found == handler, "another handler");
    MPI_OK(MPI_Errhandler_free(&found));
    raised = -1;
    MPI_OK(MPI_Session_call_errhandler(session, MPI_ERR_OTHER));
    CHECK_EQ(raised, MPI_ERR_OTHER);
    MPI_OK(MPI_Session_set_errhandler(session, MPI_ERRORS_RETURN));
    MPI_OK(MPI_Errhandler_free(&handler));

    uint64_t all = 0, mine = test_digest * (2 * (uint64_t)test_rank + 1);
    MPI_OK(MPI_Reduce(&mine, &all, 1, MPI_UINT64_T, MPI_BXOR, 0, comm));
    if (test_rank == 0)
        printf("OK sessions %016" PRIx64 "\n", all);
    MPI_OK(MPI_Comm_free(&late));
    MPI_OK(MPI_Comm_free(&between));
    if (others != MPI_COMM_NULL)
        MPI_OK(MPI_Comm_free(&others));
    MPI_OK(MPI_Comm_free(&own));
    MPI_OK(MPI_Comm_free(&comm));
    MPI_OK(MPI_Group_free(&rest));
    MPI_OK(MPI_Group_free(&world));
    MPI_OK(MPI_Group_free(&self));
    MPI_OK(MPI_Session_finalize(&second));
    MPI_OK(MPI_Session_finalize(&session));
    CHECK(session == MPI_SESSION_NULL, "a session is left");
    return 0;
}
