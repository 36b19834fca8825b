/* What the examples need of CUDA's driver interface. The library is loaded while the program runs, so they compile where
 * there is no CUDA. */
#ifndef CUDA_DRIVER_H
#define CUDA_DRIVER_H

#include "../stasis_test.h"

#include <dlfcn.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;

/* Functions of the driver: name, parameters. */
#define CUDA_FUNCTIONS(X)                                                                       \
    X(cuInit, (unsigned flags))                                                                 \
    X(cuDeviceGet, (CUdevice * device, int ordinal))                                            \
    X(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                         \
    X(cuCtxSetCurrent, (CUcontext context))                                                     \
    X(cuCtxSynchronize, (void))                                                                 \
    X(cuMemAlloc_v2, (CUdeviceptr * memory, size_t bytes))                                      \
    X(cuMemAllocManaged, (CUdeviceptr * memory, size_t bytes, unsigned attach))                 \
    X(cuMemAllocHost_v2, (void **memory, size_t bytes))                                         \
    X(cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t bytes))                        \
    X(cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t bytes))                              \
    X(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream))        \
    X(cuStreamCreate, (CUstream * stream, unsigned flags))                                      \
    X(cuStreamSynchronize, (CUstream stream))                                                   \
    X(cuModuleLoadData, (CUmodule * module, const void *image))                                 \
    X(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name))          \
    X(cuLaunchKernel, (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,  \
                       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,   \
                       CUstream stream, void **arguments, void **more))

#define DECLARE(name, parameters) static CUresult(*name) parameters;
CUDA_FUNCTIONS(DECLARE)
#undef DECLARE

#define CUDA_ATTACH_GLOBAL 1

#define CUDA_OK(call) CHECK_EQ(call, 0)

/* x[i] = 1664525 x[i] + add, for i below count. */
static const char cuda_step_ptx[] =
    ".version 6.0\n"
    ".target sm_50\n"
    ".address_size 64\n"
    ".visible .entry step(.param .u64 data, .param .u32 count, .param .u32 add)\n"
    "{\n"
    ".reg .pred %p;\n"
    ".reg .u32 %i, %t, %b, %w, %n, %v, %a;\n"
    ".reg .u64 %d, %o;\n"
    "ld.param.u64 %d, [data];\n"
    "ld.param.u32 %n, [count];\n"
    "ld.param.u32 %a, [add];\n"
    "mov.u32 %t, %tid.x;\n"
    "mov.u32 %b, %ctaid.x;\n"
    "mov.u32 %w, %ntid.x;\n"
    "mad.lo.u32 %i, %b, %w, %t;\n"
    "setp.ge.u32 %p, %i, %n;\n"
    "@%p bra DONE;\n"
    "cvta.to.global.u64 %d, %d;\n"
    "mul.wide.u32 %o, %i, 4;\n"
    "add.u64 %d, %d, %o;\n"
    "ld.global.u32 %v, [%d];\n"
    "mad.lo.u32 %v, %v, 1664525, %a;\n"
    "st.global.u32 [%d], %v;\n"
    "DONE:\n"
    "ret;\n"
    "}\n";

/* Loads the driver and takes the first GPU. */
SHARED void cuda_start(void)
{
    CUdevice device;
    CUcontext context;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    CHECK(driver, "%s", dlerror());
#define LOAD(name, parameters) CHECK(name = (CUresult(*) parameters)dlsym(driver, #name), "no " #name);
    CUDA_FUNCTIONS(LOAD)
#undef LOAD
    CUDA_OK(cuInit(0));
    CUDA_OK(cuDeviceGet(&device, 0));
    CUDA_OK(cuDevicePrimaryCtxRetain(&context, device));
    CUDA_OK(cuCtxSetCurrent(context));
}

#endif
