/* A profiler as MPI means them: it defines functions of MPI, counts their calls, and hands them on
 * under the names that begin with PMPI_. Its report comes when the program calls MPI_Finalize. */
#ifndef PROFILER_H
#define PROFILER_H

#include <mpi.h>

#include <stdarg.h>
#include <stdio.h>

enum {
    P_SEND,
    P_RECV,
    P_ISEND,
    P_IRECV,
    P_WAITALL,
    P_ALLREDUCE,
    P_BARRIER,
    P_COMM_RANK,
    P_COMM_DUP,
    P_TYPE_COMMIT,
    P_F_BARRIER,
    P_KINDS
};

static const char *const p_names[P_KINDS] = {
    "MPI_Send",      "MPI_Recv",    "MPI_Isend",     "MPI_Irecv",    "MPI_Waitall",     "MPI_Allreduce",
    "MPI_Barrier",   "MPI_Comm_rank", "MPI_Comm_dup", "MPI_Type_commit", "mpi_barrier_"};
static long p_calls[P_KINDS];
/* MPI_Pcontrol switches the counting off and on, as tools use it. */
static int p_level = 1;

static void p_count(int kind)
{
    if (p_level > 0)
        p_calls[kind]++;
}

int MPI_Init(int *argc, char ***argv)
{
    int code = PMPI_Init(argc, argv), rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        puts("profiler: started");
    return code;
}

int MPI_Pcontrol(const int level, ...)
{
    p_level = level;
    return PMPI_Pcontrol(level);
}

int MPI_Send(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    p_count(P_SEND);
    return PMPI_Send(buf, count, type, dest, tag, comm);
}

int MPI_Recv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    p_count(P_RECV);
    return PMPI_Recv(buf, count, type, source, tag, comm, status);
}

int MPI_Isend(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    p_count(P_ISEND);
    return PMPI_Isend(buf, count, type, dest, tag, comm, request);
}

int MPI_Irecv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    p_count(P_IRECV);
    return PMPI_Irecv(buf, count, type, source, tag, comm, request);
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
    p_count(P_WAITALL);
    return PMPI_Waitall(count, requests, statuses);
}

int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    p_count(P_ALLREDUCE);
    return PMPI_Allreduce(in, out, count, type, op, comm);
}

int MPI_Barrier(MPI_Comm comm)
{
    p_count(P_BARRIER);
    return PMPI_Barrier(comm);
}

int MPI_Comm_rank(MPI_Comm comm, int *rank)
{
    p_count(P_COMM_RANK);
    return PMPI_Comm_rank(comm, rank);
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *copy)
{
    p_count(P_COMM_DUP);
    return PMPI_Comm_dup(comm, copy);
}

int MPI_Type_commit(MPI_Datatype *type)
{
    p_count(P_TYPE_COMMIT);
    return PMPI_Type_commit(type);
}

static void p_report(void)
{
    static int reported = 0;
    int rank;
    long sums[P_KINDS];
    /* MPICH's Fortran functions call those of C. */
    if (reported++)
        return;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Reduce(p_calls, sums, P_KINDS, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < P_KINDS; i++)
        printf("profiler: %s %ld\n", p_names[i], sums[i]);
    fflush(stdout);
}

int MPI_Finalize(void)
{
    p_report();
    return PMPI_Finalize();
}

/* Fortran's calls are seen by the names that compilers make of them. A program in C has no library
 * with these. */
void pmpi_barrier_(MPI_Fint *, MPI_Fint *);
void pmpi_finalize_(MPI_Fint *);
#pragma weak pmpi_barrier_
#pragma weak pmpi_finalize_

void mpi_barrier_(MPI_Fint *comm, MPI_Fint *error)
{
    p_count(P_F_BARRIER);
    pmpi_barrier_(comm, error);
}

void mpi_finalize_(MPI_Fint *error)
{
    p_report();
    pmpi_finalize_(error);
}

#endif
