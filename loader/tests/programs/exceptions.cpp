// C++ exceptions through several frames, threads, async, and a shared library opened at run time.
// Run: no arguments. Prints "exceptions ok".
#include <cstdio>
#include <dlfcn.h>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

struct Guard {
    int &n;
    ~Guard() { n++; }
};

static int deep(int n, int &unwound) {
    Guard guard{unwound};
    if (n == 0) throw std::runtime_error("deep");
    return deep(n - 1, unwound) + 1;
}

int main() {
    int unwound = 0;
    try {
        deep(20, unwound);
        return 1;
    } catch (const std::exception &e) {
        if (std::string(e.what()) != "deep" || unwound != 21) return 2;
    }
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; i++)
        threads.emplace_back([] {
            int n = 0;
            for (int k = 0; k < 200; k++)
                try { deep(5, n); } catch (...) {}
        });
    for (auto &t : threads) t.join();
    auto result = std::async(std::launch::async, []() -> int { throw 42; });
    try {
        result.get();
        return 3;
    } catch (int n) {
        if (n != 42) return 4;
    }
    void *math = dlopen("libm.so.6", RTLD_NOW);
    auto cosine = reinterpret_cast<double (*)(double)>(dlsym(math, "cos"));
    if (!cosine || cosine(0) != 1) return 5;
    puts("exceptions ok");
}
