//#Ranks: 2
//#Cut: hold
//#Shows: a generalized request of the C++ bindings, completed after the cut, with its callbacks
#include "../stasis_test.h"

static long seen;

static int query(void *extra, MPI::Status &status)
{
    seen += *static_cast<int *>(extra);
    status.Set_elements(MPI::INT, 3);
    status.Set_cancelled(false);
    return MPI::SUCCESS;
}

static int freed(void *)
{
    seen += 10;
    return MPI::SUCCESS;
}

static int cancelled(void *, bool complete)
{
    seen += complete ? 1000 : 100;
    return MPI::SUCCESS;
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    int extra = 1;
    MPI::Grequest request;
    request = request.Start(query, freed, cancelled, &extra);

    cut();

    request.Cancel();
    request.Complete();
    MPI::Status status;
    request.Wait(status);
    CHECK(seen == 111, "%ld", seen);
    CHECK_EQ(status.Get_elements(MPI::INT), 3);
    test_add(&seen, sizeof seen);
    return test_finish("cxx_grequest");
}
