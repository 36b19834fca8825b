/* An MPI library with a fault, below Stasis: it has the SONAME of the real library and takes all functions but a few
 * from there. As the first one in LD_LIBRARY_PATH it is the library of the lower half. The fault is that of an
 * algorithm for one size: it is in vectors and messages of as many bytes as the variable FAULTY_BYTES says, or else of
 * 5 longs, at rank 1.
 *
 * With -DWRONG_SUM, MPI_Allreduce gives that rank a sum that is one too much, and so does MPI_Iallreduce.
 * With -DWRONG_SUM_AND_PREFIX, so do these and MPI_Scan.
 * With -DDAMAGED_BODY, a message of that rank has another bit than what was sent. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the largest message that may be faulty. */
enum { MOST = 1 << 16 };

#ifdef WRONG_SUM_AND_PREFIX
#define WRONG_SUM
#endif

/* By bytes, since a send may be that of a copy. */
static int is_faulty(int count, MPI_Datatype datatype, MPI_Comm comm)
{
    const char *set = getenv("FAULTY_BYTES");
    int rank, size;
    PMPI_Comm_rank(comm, &rank);
    PMPI_Type_size(datatype, &size);
    return (long)count * size == (set ? atol(set) : 5 * (long)sizeof(long)) && rank == 1;
}

#ifdef WRONG_SUM
int MPI_Allreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
{
    int code = PMPI_Allreduce(sendbuf, recvbuf, count, datatype, op, comm);
    if (is_faulty(count, datatype, comm))
        *(long *)recvbuf += 1;
    return code;
}

/* The sum is there before the request is complete, which the standard allows. */
int MPI_Iallreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
                   MPI_Request *request)
{
    MPI_Allreduce(sendbuf, recvbuf, count, datatype, op, comm);
    return PMPI_Ibarrier(comm, request);
}
#endif

#ifdef WRONG_SUM_AND_PREFIX
int MPI_Scan(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
{
    int code = PMPI_Scan(sendbuf, recvbuf, count, datatype, op, comm);
    if (is_faulty(count, datatype, comm))
        *(long *)recvbuf += 1;
    return code;
}
#endif

#ifdef DAMAGED_BODY
/* The data that is sent in the place of these. */
static const void *body(const void *buf, int count, MPI_Datatype datatype, MPI_Comm comm)
{
    static char damaged[MOST];
    int size;
    PMPI_Type_size(datatype, &size);
    if (!is_faulty(count, datatype, comm) || (long)count * size > MOST)
        return buf;
    memcpy(damaged, buf, (size_t)count * (size_t)size);
    damaged[17] ^= 1;
    return damaged;
}

int MPI_Send(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
    return PMPI_Send(body(buf, count, datatype, comm), count, datatype, dest, tag, comm);
}

int MPI_Isend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, MPI_Request *request)
{
    return PMPI_Isend(body(buf, count, datatype, comm), count, datatype, dest, tag, comm, request);
}
#endif
