//#Ranks: 2
//#Cut: hold
//#Shows: memory, a kernel and a stream on a GPU across the cut; MPI with buffers of the host
#include "cuda_driver.h"

#ifndef MANAGED
#define MANAGED 0
#endif

enum { COUNT = 1 << 20, STEPS = 40, BLOCK = 256 };

static CUstream stream;
static CUfunction step;
static CUdeviceptr data;
static uint32_t *pinned;

/* One step on the GPU, whose result the other ranks get. */
static uint32_t advance(uint32_t add)
{
    unsigned count = COUNT;
    void *arguments[] = {&data, &count, &add};
    uint32_t mine = 0, all;
    CUDA_OK(cuLaunchKernel(step, COUNT / BLOCK, 1, 1, BLOCK, 1, 1, 0, stream, arguments, NULL));
    CUDA_OK(cuMemcpyDtoHAsync_v2(pinned, data, COUNT * sizeof *pinned, stream));
    CUDA_OK(cuStreamSynchronize(stream));
    for (int i = 0; i < COUNT; i++)
        mine = mine * 31 + pinned[i];
    MPI_OK(MPI_Allreduce(&mine, &all, 1, MPI_UINT32_T, MPI_SUM, MPI_COMM_WORLD));
    return all;
}

int main(int argc, char **argv)
{
    CUmodule module;
    uint32_t add = 1;
    test_start(&argc, &argv);
    cuda_start();
    if (MANAGED)
        CUDA_OK(cuMemAllocManaged(&data, COUNT * sizeof *pinned, CUDA_ATTACH_GLOBAL));
    else
        CUDA_OK(cuMemAlloc_v2(&data, COUNT * sizeof *pinned));
    CUDA_OK(cuMemAllocHost_v2((void **)&pinned, COUNT * sizeof *pinned));
    CUDA_OK(cuStreamCreate(&stream, 0));
    CUDA_OK(cuModuleLoadData(&module, cuda_step_ptx));
    CUDA_OK(cuModuleGetFunction(&step, module, "step"));
    test_fill(pinned, COUNT * sizeof *pinned, (uint32_t)test_rank);
    CUDA_OK(cuMemcpyHtoD_v2(data, pinned, COUNT * sizeof *pinned));
    for (int i = 0; i < STEPS; i++) {
        if (i == STEPS / 2)
            cut();
        add = advance(add);
        test_add(&add, sizeof add);
    }
    return test_finish("iterate");
}
