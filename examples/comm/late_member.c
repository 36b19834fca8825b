//#Ranks: 3
//#Shows: a checkpoint is taken while two of three ranks wait in a constructor of communicators, or in MPI_Finalize, and the third stays outside
//#Cut: hold
//#Variant: dup; matrix=full; modes=plain, continue, restart, migrate, cycle, ten
//#Variant: dup_with_info
//#Variant: split; modes=plain, continue, restart, migrate, cycle
//#Variant: split_type
//#Variant: create
//#Variant: create_group; modes=plain, continue, restart, migrate, cycle
//#Variant: cart
//#Variant: graph
//#Variant: dist_graph
//#Variant: intercomm; modes=plain, continue, restart, migrate, cycle
//#Variant: intercomm_member
//#Variant: merge
//#Variant: dup_inter
//#Variant: finalize; modes=plain, continue, restart, migrate, cycle
#include "../late.h"

/* What a constructor has made works, and has these members. */
static void use(MPI_Comm comm, int members)
{
    int one = 1, sum = 0, size;
    MPI_OK(MPI_Comm_size(comm, &size));
    CHECK_EQ(size, members);
    MPI_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK_EQ(sum, members);
    test_add(&sum, sizeof sum);
}

/* The two sides of an inter-communicator: `first` ranks, and the others. */
static MPI_Comm side(int first)
{
    MPI_Comm local;
    MPI_OK(MPI_Comm_split(MPI_COMM_WORLD, test_rank >= first, test_rank, &local));
    return local;
}

static MPI_Comm bridge(MPI_Comm local, int first)
{
    MPI_Comm inter;
    MPI_OK(MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, test_rank < first ? first : 0, 3, &inter));
    return inter;
}

/* The ranks of the other side tell each other's number. */
static void use_inter(MPI_Comm inter, int first)
{
    int one = 1, sum = 0, size;
    int others = test_rank < first ? test_size - first : first;
    MPI_OK(MPI_Comm_remote_size(inter, &size));
    CHECK_EQ(size, others);
    MPI_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, inter));
    CHECK_EQ(sum, others);
    test_add(&sum, sizeof sum);
}

int main(int argc, char **argv)
{
    MPI_Comm made = MPI_COMM_NULL, local = MPI_COMM_NULL, inter = MPI_COMM_NULL;
    MPI_Group all, some;
    MPI_Info info;
    test_start(&argc, &argv);
    int r = test_rank, p = test_size;
    const char *name = argc > 1 ? argv[1] : "dup";
    /* In one variant the late rank leads its side, in the other its side waits for it. */
    int first = strcmp(name, "intercomm_member") ? p - 1 : 1;
    int is_inter = !strcmp(name, "merge") || !strcmp(name, "dup_inter");
    MPI_OK(MPI_Comm_group(MPI_COMM_WORLD, &all));
    MPI_OK(MPI_Info_create(&info));
    MPI_OK(MPI_Info_set(info, "mpi_assert_no_any_tag", "false"));
    if (is_inter || !strncmp(name, "intercomm", 9))
        local = side(first);
    if (is_inter)
        inter = bridge(local, first);
    if (!strcmp(name, "finalize")) {
        /* No other rank waits for the last one before MPI_Finalize. */
        if (r == p - 1) {
            cut();
            printf("OK %s\n", name);
            fflush(stdout);
        } else {
            cut_announce();
        }
        MPI_OK(MPI_Group_free(&all));
        MPI_OK(MPI_Info_free(&info));
        MPI_Finalize();
        return 0;
    }
    late_begin();
    if (!strcmp(name, "dup")) {
        MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &made));
        use(made, p);
    } else if (!strcmp(name, "dup_with_info")) {
        MPI_OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &made));
        use(made, p);
    } else if (!strcmp(name, "split")) {
        MPI_OK(MPI_Comm_split(MPI_COMM_WORLD, r > 0, -r, &made));
        use(made, r ? p - 1 : 1);
    } else if (!strcmp(name, "split_type")) {
        MPI_OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, r, info, &made));
        use(made, p);
    } else if (!strcmp(name, "create")) {
        int out = 0;
        MPI_OK(MPI_Group_excl(all, 1, &out, &some));
        MPI_OK(MPI_Comm_create(MPI_COMM_WORLD, some, &made));
        CHECK_EQ(made == MPI_COMM_NULL, r == 0);
        if (r)
            use(made, p - 1);
        MPI_OK(MPI_Group_free(&some));
    } else if (!strcmp(name, "create_group")) {
        int out = 1;
        MPI_OK(MPI_Group_excl(all, 1, &out, &some));
        if (r != out) {
            MPI_OK(MPI_Comm_create_group(MPI_COMM_WORLD, some, 5, &made));
            use(made, p - 1);
        }
        MPI_OK(MPI_Group_free(&some));
        /* The rank that is not in the group must not leave the last reduction before the others have come. */
        MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    } else if (!strcmp(name, "cart")) {
        int dims[] = {p}, periods[] = {1}, from, to;
        MPI_OK(MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &made));
        MPI_OK(MPI_Cart_shift(made, 0, 1, &from, &to));
        CHECK_EQ(to, (r + 1) % p);
        use(made, p);
    } else if (!strcmp(name, "graph")) {
        int index[LATE_MOST], edges[LATE_MOST], count;
        for (int i = 0; i < p; i++) {
            index[i] = i + 1;
            edges[i] = (i + 1) % p;
        }
        MPI_OK(MPI_Graph_create(MPI_COMM_WORLD, p, index, edges, 0, &made));
        MPI_OK(MPI_Graph_neighbors_count(made, r, &count));
        CHECK_EQ(count, 1);
        use(made, p);
    } else if (!strcmp(name, "dist_graph")) {
        int to = (r + 1) % p, degree = 1, in, out, weighted;
        MPI_OK(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &r, &degree, &to, MPI_UNWEIGHTED, info, 0, &made));
        MPI_OK(MPI_Dist_graph_neighbors_count(made, &in, &out, &weighted));
        CHECK_EQ(in, 1);
        CHECK_EQ(out, 1);
        use(made, p);
    } else if (!strncmp(name, "intercomm", 9)) {
        made = bridge(local, first);
        use_inter(made, first);
    } else if (!strcmp(name, "merge")) {
        MPI_OK(MPI_Intercomm_merge(inter, r < first, &made));
        use(made, p);
    } else if (!strcmp(name, "dup_inter")) {
        MPI_OK(MPI_Comm_dup(inter, &made));
        use_inter(made, first);
    } else {
        CHECK(0, "no constructor is called %s", name);
    }
    late_end();
    if (made != MPI_COMM_NULL)
        MPI_OK(MPI_Comm_free(&made));
    if (inter != MPI_COMM_NULL)
        MPI_OK(MPI_Comm_free(&inter));
    if (local != MPI_COMM_NULL)
        MPI_OK(MPI_Comm_free(&local));
    MPI_OK(MPI_Group_free(&all));
    MPI_OK(MPI_Info_free(&info));
    return test_finish(name);
}
