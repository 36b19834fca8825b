//#Flags: -fopenmp
//#Shows: OpenMP without MPI: parallel loops, tasks, nested data
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static long fibonacci(int n)
{
    long a, b;
    if (n < 2)
        return n;
#pragma omp task shared(a) if (n > 15)
    a = fibonacci(n - 1);
#pragma omp task shared(b) if (n > 15)
    b = fibonacci(n - 2);
#pragma omp taskwait
    return a + b;
}

int main(void)
{
    long sum = 0, result = 0;
    int threads = 0;
    double *field = malloc(1000000 * sizeof *field);
    omp_set_num_threads(4);
#pragma omp parallel for reduction(+ : sum) schedule(dynamic, 1000)
    for (int i = 0; i < 1000000; i++) {
        field[i] = i;
        sum += (long)field[i];
    }
#pragma omp parallel
    {
#pragma omp atomic
        threads++;
#pragma omp single
        result = fibonacci(22);
    }
    printf("%ld %ld %d\n", sum, result, threads);
    free(field);
    return sum == 499999500000 && result == 17711 && threads == 4 ? 0 : 1;
}
