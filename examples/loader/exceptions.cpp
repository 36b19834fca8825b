//#Flags: -std=c++17 -pthread
//#Shows: C++ exceptions, RTTI, threads, futures and locales without MPI
#include <future>
#include <iostream>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

struct base {
    virtual ~base() = default;
};
struct derived : base {
    int value = 5;
};

static int depth(int n)
{
    if (n == 0)
        throw std::out_of_range("the bottom");
    return depth(n - 1) + 1;
}

int main()
{
    int caught = 0;
    for (int i = 0; i < 1000; i++) {
        try {
            depth(i % 50);
        } catch (const std::exception &error) {
            caught += std::string(error.what()) == "the bottom";
        }
    }
    derived object;
    base *pointer = &object;
    int found = dynamic_cast<derived *>(pointer)->value;
    std::mutex mutex;
    long sum = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 1000; i++) {
                std::lock_guard<std::mutex> hold(mutex);
                sum += t;
            }
        });
    for (auto &thread : threads)
        thread.join();
    auto later = std::async(std::launch::async, []() -> int { throw std::runtime_error("from a thread"); });
    std::string text;
    try {
        later.get();
    } catch (const std::runtime_error &error) {
        text = error.what();
    }
    std::ostringstream line;
    line << caught << ' ' << found << ' ' << sum << ' ' << text << ' ' << 2.5;
    std::cout << line.str() << std::endl;
}
