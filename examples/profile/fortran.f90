!#Ranks: 2
!#Mpi: openmpi, mpich
!#Cut: hold
!#Preload: tools/profiler.c
!#Flags: -fallow-argument-mismatch -w
!#Shows: a profiler sees a Fortran program's calls by the names that it defines for Fortran, and by those for C only where the native library lets it
program calls
  implicit none
  include 'mpif.h'
  integer :: ierr, rank, nprocs, round, mine, sum
  call MPI_INIT(ierr)
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
  call MPI_COMM_SIZE(MPI_COMM_WORLD, nprocs, ierr)
  do round = 1, 10
     if (round == 5) call cut(rank)
     mine = rank + round
     call MPI_ALLREDUCE(mine, sum, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
     call check(sum == nprocs * round + nprocs * (nprocs - 1) / 2, 'a wrong sum')
     call MPI_BARRIER(MPI_COMM_WORLD, ierr)
  end do
  if (rank == 0) print '(a)', 'OK'
  call MPI_FINALIZE(ierr)
contains
  include '../stasis_test.inc'
end program calls
