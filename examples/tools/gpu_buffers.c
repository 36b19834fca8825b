/* Calls with buffers in memory of a GPU: with `returned` the calls that use them return MPI_ERR_BUFFER, and those that do
 * not use them succeed. With `fatal` the first one ends the job. The second argument is the library of CUDA's driver, or
 * the stand-in for it; it is loaded after MPI_Init. */
#include "../stasis_test.h"
#include "cuda_standin.h"

#include <dlfcn.h>
#include <string.h>

enum { COUNT = 256 };

typedef int (*any_function)();

static void *library;

static any_function function_of(const char *name)
{
    any_function found = (any_function)dlsym(library, name);
    CHECK(found, "%s", dlerror());
    return found;
}

#ifdef OPEN_MPI
int MPIX_Query_cuda_support(void);
#endif

/* Memory of a GPU, COUNT numbers. */
static int *on_gpu(const char *path)
{
    void *(*standin)(size_t);
    void *context = NULL;
    unsigned long long memory = 0;
    int device = 0;
    CHECK(library = dlopen(path, RTLD_NOW), "%s", dlerror());
    CHECK_EQ(function_of("cuInit")(0), 0);
    if ((standin = (void *(*)(size_t))dlsym(library, "standin_alloc")))
        return standin(COUNT * sizeof(int));
    CHECK_EQ(function_of("cuDeviceGet")(&device, 0), 0);
    CHECK_EQ(function_of("cuDevicePrimaryCtxRetain")(&context, device), 0);
    CHECK_EQ(function_of("cuCtxSetCurrent")(context), 0);
    CHECK_EQ(function_of("cuMemAlloc_v2")(&memory, COUNT * sizeof(int)), 0);
    return (int *)(uintptr_t)memory;
}

static void refused(int code, const char *call)
{
    int class = MPI_SUCCESS;
    MPI_Error_class(code, &class);
    CHECK(class == MPI_ERR_BUFFER, "%s returns %d", call, code);
}
#define REFUSED(call) refused(call, #call)

/* An address that a call does not use may be any. */
static void not_used(int *gpu)
{
    int host = test_rank, all[8];
    const int other = test_size - 1 - test_rank;
    MPI_OK(MPI_Sendrecv(gpu, 0, MPI_INT, other, 1, gpu, 0, MPI_INT, other, 1, MPI_COMM_WORLD,
                        MPI_STATUS_IGNORE));
    MPI_OK(MPI_Send(gpu, COUNT, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD));
    MPI_OK(MPI_Gather(&host, 1, MPI_INT, test_rank ? gpu : all, 1, MPI_INT, 0, MPI_COMM_WORLD));
    MPI_OK(MPI_Reduce(&host, test_rank ? gpu : all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD));
    MPI_OK(MPI_Scatter(test_rank ? gpu : all, 1, MPI_INT, &host, 1, MPI_INT, 0, MPI_COMM_WORLD));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void used(int *gpu)
{
    int host[COUNT], position = 0;
    const int other = test_size - 1 - test_rank;
    char packed[COUNT];
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_File file;
    MPI_Win win;
    memset(host, 0, sizeof host);
    REFUSED(MPI_Send(gpu, COUNT, MPI_INT, other, 1, MPI_COMM_WORLD));
    REFUSED(MPI_Isend(gpu, COUNT, MPI_INT, other, 1, MPI_COMM_WORLD, &request));
    REFUSED(MPI_Irecv(gpu + 4, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &request));
    REFUSED(MPI_Recv_init(gpu, COUNT, MPI_INT, other, 1, MPI_COMM_WORLD, &request));
    REFUSED(MPI_Sendrecv(host, 1, MPI_INT, other, 1, gpu, 1, MPI_INT, other, 1, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE));
    REFUSED(MPI_Bcast(gpu, COUNT, MPI_INT, 0, MPI_COMM_WORLD));
    REFUSED(MPI_Allreduce(host, gpu, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    REFUSED(MPI_Allreduce(MPI_IN_PLACE, gpu, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    REFUSED(MPI_Gather(gpu, 1, MPI_INT, host, 1, MPI_INT, 0, MPI_COMM_WORLD));
    REFUSED(MPI_Iallreduce(gpu, host, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
    REFUSED(MPI_Pack(gpu, 1, MPI_INT, packed, sizeof packed, &position, MPI_COMM_WORLD));
    REFUSED(MPI_Win_create(gpu, COUNT, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    CHECK(request == MPI_REQUEST_NULL, "a request was made");

    MPI_OK(MPI_Win_create(host, sizeof host, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    MPI_OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    MPI_OK(MPI_Win_fence(0, win));
    REFUSED(MPI_Put(gpu, 1, MPI_INT, other, 0, 1, MPI_INT, win));
    MPI_OK(MPI_Win_fence(0, win));
    MPI_OK(MPI_Win_free(&win));

    MPI_OK(MPI_File_open(MPI_COMM_WORLD, "gpu_buffers.dat",
                         MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                         &file));
    REFUSED(MPI_File_write_at(file, 0, gpu, COUNT, MPI_INT, MPI_STATUS_IGNORE));
    REFUSED(MPI_File_write_at_all(file, 0, gpu, COUNT, MPI_INT, MPI_STATUS_IGNORE));
    MPI_OK(MPI_File_close(&file));
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    int *gpu;
    test_start(&argc, &argv);
    CHECK_EQ(argc, 3);
    CHECK_EQ(MPIX_Query_cuda_support(), 0);
    gpu = on_gpu(argv[2]);
    not_used(gpu);
    if (!strcmp(argv[1], "fatal"))
        MPI_Send(gpu, COUNT, MPI_INT, test_size - 1 - test_rank, 1, MPI_COMM_WORLD);
    MPI_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    used(gpu);
    return test_finish("gpu_buffers");
}
