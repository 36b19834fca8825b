// Parallel loops, reductions, tasks. Argument: how often (default 200). Prints "openmp ok".
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 200;
    omp_set_num_threads(4);
    for (int r = 0; r < rounds; r++) {
        long sum = 0;
#pragma omp parallel for reduction(+ : sum) schedule(dynamic, 16)
        for (int i = 0; i < 20000; i++) sum += i % 7;
        if (sum != 59997) { printf("sum %ld\n", sum); return 1; }
        int done = 0;
#pragma omp parallel
#pragma omp single
        for (int i = 0; i < 32; i++)
#pragma omp task
        {
#pragma omp atomic
            done++;
        }
        if (done != 32) { printf("tasks %d\n", done); return 2; }
    }
    puts("openmp ok");
    return 0;
}
