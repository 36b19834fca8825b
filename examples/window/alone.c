//#Cut: hold
//#Shows: windows of one process, of every flavour: each operation and each way to synchronise, before the cut and after it, with an epoch, a lock and requests open at the cut
//#Variant: create; mpi=mpich
//#Variant: allocate
//#Variant: shared
//#Variant: dynamic; mpi=mpich
#include "../stasis_test.h"

enum { INTS = 64 };

static MPI_Win window;
static int *memory;
static MPI_Aint origin; /* displacement of `memory` in bytes */

static MPI_Aint at(int element) { return origin + (MPI_Aint)(element * sizeof(int)); }

static void make(int argc, char **argv)
{
    static int own[INTS];
    const MPI_Aint bytes = sizeof own;
    memory = own;
    if (test_is(argc, argv, "create"))
        MPI_OK(MPI_Win_create(own, bytes, 1, MPI_INFO_NULL, MPI_COMM_SELF, &window));
    else if (test_is(argc, argv, "allocate"))
        MPI_OK(MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_SELF, &memory, &window));
    else if (test_is(argc, argv, "shared"))
        MPI_OK(MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_SELF, &memory, &window));
    else {
        MPI_OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_SELF, &window));
        MPI_OK(MPI_Win_attach(window, own, bytes));
        MPI_OK(MPI_Get_address(own, &origin));
    }
    memset(memory, 0, bytes);
}

/* Contiguous, scattered, and differently scattered data. */
static void move(int round)
{
    MPI_Datatype every_other, pairs;
    int from[8], back[16];
    for (int i = 0; i < 8; i++)
        from[i] = 1000 * round + 10 * test_rank + i;
    MPI_OK(MPI_Type_vector(8, 1, 2, MPI_INT, &every_other));
    MPI_OK(MPI_Type_vector(4, 2, 3, MPI_INT, &pairs));
    MPI_OK(MPI_Type_commit(&every_other));
    MPI_OK(MPI_Type_commit(&pairs));
    MPI_OK(MPI_Put(from, 8, MPI_INT, 0, at(0), 1, every_other, window));
    MPI_OK(MPI_Win_flush(0, window));
    memset(back, -1, sizeof back);
    MPI_OK(MPI_Get(back, 1, pairs, 0, at(0), 1, every_other, window));
    MPI_OK(MPI_Win_flush_local(0, window));
    for (int i = 0; i < 8; i++)
        CHECK_EQ(back[i / 2 * 3 + i % 2], from[i]);
    CHECK_EQ(back[2], -1);
    MPI_OK(MPI_Put(from, 8, MPI_INT, MPI_PROC_NULL, at(0), 8, MPI_INT, window));
    MPI_OK(MPI_Type_free(&every_other));
    MPI_OK(MPI_Type_free(&pairs));
}

static void combine(int round)
{
    MPI_Datatype every_other;
    struct { int value, place; } found = {0, 0}, largest = {50 + round, 7};
    int ones[4] = {1, 1, 1, 1}, before[4], old = -1, swapped = -1, value = 40 + round;
    double sums[2] = {0.5, 0.25};
    MPI_OK(MPI_Type_vector(4, 1, 2, MPI_INT, &every_other));
    MPI_OK(MPI_Type_commit(&every_other));
    MPI_OK(MPI_Accumulate(ones, 4, MPI_INT, 0, at(16), 1, every_other, MPI_SUM, window));
    MPI_OK(MPI_Win_flush_all(window));
    MPI_OK(MPI_Get_accumulate(ones, 4, MPI_INT, before, 4, MPI_INT, 0, at(16), 1, every_other, MPI_SUM, window));
    MPI_OK(MPI_Win_flush_local_all(window));
    for (int i = 0; i < 4; i++)
        CHECK_EQ(before[i], 2 * round - 1);
    MPI_OK(MPI_Accumulate(sums, 2, MPI_DOUBLE, 0, at(24), 2, MPI_DOUBLE, MPI_SUM, window));
    MPI_OK(MPI_Accumulate(&largest, 1, MPI_2INT, 0, at(28), 1, MPI_2INT, MPI_MAXLOC, window));
    MPI_OK(MPI_Win_flush(0, window));
    MPI_OK(MPI_Get(&found, 1, MPI_2INT, 0, at(28), 1, MPI_2INT, window));
    MPI_OK(MPI_Fetch_and_op(&value, &old, MPI_INT, 0, at(30), MPI_REPLACE, window));
    MPI_OK(MPI_Win_flush(0, window));
    CHECK_EQ(found.value, 50 + round);
    CHECK_EQ(found.place, 7);
    CHECK_EQ(old, round == 1 ? 0 : 40 + round - 1);
    MPI_OK(MPI_Fetch_and_op(NULL, &old, MPI_INT, 0, at(30), MPI_NO_OP, window));
    MPI_OK(MPI_Win_flush(0, window));
    CHECK_EQ(old, value);
    MPI_OK(MPI_Compare_and_swap(&round, &(int){round - 1}, &swapped, MPI_INT, 0, at(31), window));
    MPI_OK(MPI_Win_flush(0, window));
    CHECK_EQ(swapped, round - 1);
    MPI_OK(MPI_Compare_and_swap(&(int){99}, &(int){-5}, &swapped, MPI_INT, 0, at(31), window));
    MPI_OK(MPI_Win_flush(0, window));
    CHECK_EQ(swapped, round);
    MPI_OK(MPI_Type_free(&every_other));
}

static void request(int round, MPI_Request *requests)
{
    static int from[4], back[4], ones[4] = {1, 1, 1, 1}, before[4];
    for (int i = 0; i < 4; i++)
        from[i] = 7 * round + i;
    MPI_OK(MPI_Rput(from, 4, MPI_INT, 0, at(36), 4, MPI_INT, window, &requests[0]));
    MPI_OK(MPI_Raccumulate(ones, 4, MPI_INT, 0, at(40), 4, MPI_INT, MPI_SUM, window, &requests[1]));
    MPI_OK(MPI_Rget_accumulate(ones, 4, MPI_INT, before, 4, MPI_INT, 0, at(44), 4, MPI_INT, MPI_SUM, window, &requests[2]));
    MPI_OK(MPI_Rget(back, 4, MPI_INT, 0, at(48), 4, MPI_INT, window, &requests[3]));
}

static void active(int round)
{
    MPI_Group own;
    int value = round, done = 0;
    MPI_OK(MPI_Comm_group(MPI_COMM_SELF, &own));
    MPI_OK(MPI_Win_fence(0, window));
    MPI_OK(MPI_Put(&value, 1, MPI_INT, 0, at(52), 1, MPI_INT, window));
    MPI_OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, window));
    CHECK_EQ(memory[52], round);
    for (int tested = 0; tested < 2; tested++) {
        MPI_OK(MPI_Win_post(own, 0, window));
        MPI_OK(MPI_Win_start(own, 0, window));
        MPI_OK(MPI_Accumulate(&value, 1, MPI_INT, 0, at(53), 1, MPI_INT, MPI_SUM, window));
        MPI_OK(MPI_Win_complete(window));
        if (tested)
            while (!done)
                MPI_OK(MPI_Win_test(window, &done));
        else
            MPI_OK(MPI_Win_wait(window));
    }
    MPI_OK(MPI_Group_free(&own));
}

int main(int argc, char **argv)
{
    MPI_Request requests[4];
    MPI_Status statuses[4];
    test_start(&argc, &argv);
    make(argc, argv);
    for (int round = 1; round <= 2; round++) {
        active(round);
        MPI_OK(MPI_Win_lock_all(0, window));
        move(round);
        MPI_OK(MPI_Win_unlock_all(window));
        MPI_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window));
        combine(round);
        request(round, requests);
        if (round == 1)
            cut();
        MPI_OK(MPI_Waitall(4, requests, statuses));
        MPI_OK(MPI_Win_sync(window));
        MPI_OK(MPI_Win_unlock(0, window));
        CHECK_EQ(memory[36], 7 * round);
        CHECK_EQ(memory[40], round);
        CHECK_EQ(memory[44], round);
        CHECK_EQ(memory[53], round == 1 ? 2 : 6);
    }
    test_add(memory, INTS * sizeof(int));
    if (origin)
        MPI_OK(MPI_Win_detach(window, memory));
    MPI_OK(MPI_Win_free(&window));
    return test_finish("alone");
}
