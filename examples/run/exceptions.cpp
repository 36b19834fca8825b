//#Ranks: 2
//#Cut: loop
//#Flags: -std=c++17 -pthread
//#Shows: a C++ program: exceptions through frames that make MPI calls, containers, a std::thread, iostreams
#include "../stasis_test.h"

#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

struct guard {
    int &count;
    explicit guard(int &c) : count(c) { count++; }
    ~guard() { count--; }
};

static int inside;

static double exchange(int step)
{
    guard here(inside);
    double out = step + test_rank, in = -1;
    int other = 1 - test_rank;
    MPI_OK(MPI_Sendrecv(&out, 1, MPI_DOUBLE, other, 0, &in, 1, MPI_DOUBLE, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (step % 3 == 0)
        throw std::runtime_error("step " + std::to_string(step));
    return in;
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    std::map<std::string, std::vector<double>> seen;
    int thrown = 0;
    for (int step = 0; cut_more(step, 150, MPI_COMM_WORLD); step++) {
        try {
            seen["value"].push_back(exchange(step));
            CHECK(seen["value"].back() == step + 1 - test_rank, "step %d", step);
        } catch (const std::runtime_error &error) {
            CHECK(error.what() == "step " + std::to_string(step), "%s", error.what());
            thrown++;
        }
        CHECK_EQ(inside, 0);
        int sum = 0;
        std::thread helper([&] { for (int i = 0; i <= step; i++) sum += i; });
        helper.join();
        CHECK_EQ(sum, step * (step + 1) / 2);
    }
    CHECK(thrown >= 50, "%d thrown", thrown);
    if (test_rank == 0)
        std::cout << "exceptions caught" << std::endl;
    return test_finish_loop("exceptions");
}
