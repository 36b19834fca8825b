/* MPI Stages and Reinit: a program that keeps the memory of its living ranks when one of them dies.
 *
 * Include this file after mpi.h. There is nothing to link (before glibc 2.34: -ldl). Under
 * `stasis run --stages -- mpirun -n N stasis launch ./app` the functions do what the papers say
 * (docs/internals/stages.md of Stasis). Everywhere else they answer as they do without faults, and no call returns
 * MPIX_TRY_RELOAD. */
#ifndef STASIS_MPIX_H
#define STASIS_MPIX_H

#ifndef MPI_VERSION
#include <mpi.h>
#endif
#include <dlfcn.h>
#include <setjmp.h>
#include <string.h>

/* What calls of MPI return from a fault on, until MPIX_Checkpoint_read. MPI_Error_string knows it. */
#ifdef MPICH_VERSION
#define MPIX_TRY_RELOAD 0x40535441
#else
#define MPIX_TRY_RELOAD 0x535441
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Handles that a handler gives to be kept in the checkpoint, or that it gets back out of it. Each handler has one of
 * its own. It comes empty to a serialize handler, which points it to memory that stays valid until the next call. */
typedef struct {
    __extension__ union {
        MPI_Comm *communicators;
        MPI_Comm *comms;
    };
    int comm_size;
    __extension__ union {
        MPI_Group *groups;
        MPI_Group *grps;
    };
    int group_size;
} MPIX_Handles;

typedef void (*MPIX_Serialize_handler)(MPIX_Handles *handles);
typedef void (*MPIX_Deserialize_handler)(MPIX_Handles handles);

/* Number of checkpoints that a program has written which Stasis does not run. One for all files of the program. */
__attribute__((weak)) int stasis_mpix_native_epoch = 0;

/* What Stasis is asked to do. */
enum stasis_mpix_operation {
    STASIS_MPIX_WRITE = 1,
    STASIS_MPIX_READ = 2,
    STASIS_MPIX_EPOCH = 3,
    STASIS_MPIX_SERIALIZE = 4,
    STASIS_MPIX_DESERIALIZE = 5,
    STASIS_MPIX_ON_SERIALIZE = 6,
    STASIS_MPIX_ON_DESERIALIZE = 7
};

/* Asks Stasis. 0 if it does not run the program: then *answer stays. */
static inline int stasis_mpix_ask(enum stasis_mpix_operation operation, void *argument, int *answer)
{
    void *found = dlsym((void *)0 /* RTLD_DEFAULT */, "stasis_mpix");
    int (*ask)(int, void *);
    if (!found)
        return 0;
    memcpy(&ask, &found, sizeof ask);
    *answer = ask((int)operation, argument);
    return 1;
}

/* Saves the state of MPI, beside the program's own checkpoint, and begins the next epoch. No request may be pending. */
static inline int MPIX_Checkpoint_write(void)
{
    int answer = MPI_SUCCESS;
    if (!stasis_mpix_ask(STASIS_MPIX_WRITE, (void *)0, &answer))
        stasis_mpix_native_epoch++;
    return answer;
}

/* After MPIX_TRY_RELOAD: puts the state of MPI back to that of the newest epoch that all ranks have, and waits for all
 * ranks. */
static inline int MPIX_Checkpoint_read(void)
{
    int answer = MPI_SUCCESS;
    stasis_mpix_ask(STASIS_MPIX_READ, (void *)0, &answer);
    return answer;
}

/* The older name of MPIX_Checkpoint_read. */
static inline int MPIX_Load_checkpoint(void)
{
    return MPIX_Checkpoint_read();
}

/* Number of the last checkpoint: 0 before the first one, and after a fault the one to go on from. */
static inline int MPIX_Get_fault_epoch(int *epoch)
{
    int answer = MPI_SUCCESS;
    if (!stasis_mpix_ask(STASIS_MPIX_EPOCH, epoch, &answer))
        *epoch = stasis_mpix_native_epoch;
    return answer;
}

/* Runs the serialize handlers, and writes what they give to the last checkpoint. MPIX_Checkpoint_write does it, too. */
static inline int MPIX_Serialize_handles(void)
{
    int answer = MPI_SUCCESS;
    stasis_mpix_ask(STASIS_MPIX_SERIALIZE, (void *)0, &answer);
    return answer;
}

/* Runs the deserialize handlers with what the checkpoint has for each. */
static inline int MPIX_Deserialize_handles(void)
{
    int answer = MPI_SUCCESS;
    stasis_mpix_ask(STASIS_MPIX_DESERIALIZE, (void *)0, &answer);
    return answer;
}

static inline int stasis_mpix_register(enum stasis_mpix_operation operation, const void *handler, size_t size)
{
    int answer = MPI_SUCCESS;
    void *address;
    memcpy(&address, handler, size);
    stasis_mpix_ask(operation, address, &answer);
    return answer;
}

/* Registers a handler. They run in the order in which they were registered. The n-th deserialize handler gets what the
 * n-th serialize handler gave. A handler that is registered again keeps its place. */
static inline int MPIX_Serialize_handler_register(const MPIX_Serialize_handler handler)
{
    return stasis_mpix_register(STASIS_MPIX_ON_SERIALIZE, &handler, sizeof handler);
}

static inline int MPIX_Deserialize_handler_register(const MPIX_Deserialize_handler handler)
{
    return stasis_mpix_register(STASIS_MPIX_ON_DESERIALIZE, &handler, sizeof handler);
}

/* Reinit: after the death of a rank all enter a function of the program again. */

/* How a rank enters it. */
typedef enum {
    MPI_START_NEW,       /* for the first time */
    MPI_START_REINITED,  /* again, with its memory: another rank has died */
    MPI_START_RESTARTED  /* for the first time in the place of a rank that has died */
} MPI_Start_state;

typedef void (*MPI_Restart_point)(int argc, char **argv, MPI_Start_state state);

/* The place in MPI_Reinit to which calls that fail go back. */
static jmp_buf stasis_mpix_restart;
/* Whether the program looks at the codes of other errors. */
static int stasis_mpix_returns;

static inline void stasis_mpix_go_back(MPI_Comm *comm, int *code, ...)
{
    if (*code == MPIX_TRY_RELOAD)
        longjmp(stasis_mpix_restart, 1);
    if (!stasis_mpix_returns)
        MPI_Abort(*comm, *code);
}

/* Calls the restart point, and calls it again after each death of a rank. Calls of MPI do not return then: they go back
 * here, in the same thread. Communicators and groups that were made since are gone. Returns when all ranks are through.
 * Call it once, after MPI_Init, while no request is pending. */
static inline int MPI_Reinit(int argc, char **argv, const MPI_Restart_point point)
{
    MPI_Errhandler before, go_back;
    volatile MPI_Start_state state = MPI_START_NEW;
    int epoch = 0, answer = MPI_SUCCESS;
    if (!stasis_mpix_ask(STASIS_MPIX_EPOCH, &epoch, &answer)) {
        point(argc, argv, MPI_START_NEW);
        return MPI_SUCCESS;
    }
    if (epoch > 0)
        state = MPI_START_RESTARTED;
    else
        answer = MPIX_Checkpoint_write();
    if (answer != MPI_SUCCESS)
        return answer;
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before);
    stasis_mpix_returns = before == MPI_ERRORS_RETURN;
    MPI_Comm_create_errhandler(stasis_mpix_go_back, &go_back);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, go_back);
    if (setjmp(stasis_mpix_restart) != 0) {
        MPIX_Checkpoint_read();
        state = MPI_START_REINITED;
    }
    point(argc, argv, state);
    /* A rank that is through may still have to go back. */
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, before);
    MPI_Errhandler_free(&go_back);
    MPI_Errhandler_free(&before);
    return MPI_SUCCESS;
}

#ifdef __cplusplus
}
#endif

#endif
