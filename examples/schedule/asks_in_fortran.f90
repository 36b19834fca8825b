!#Ranks: 2
!#Cut: hold
!#Shows: a program in Fortran that asks for checkpoints itself, by stasis.f90
include '../../upper-half/include/stasis.f90'

program asks
  use, intrinsic :: iso_fortran_env, only: error_unit
  use mpi
  use stasis, only: stasis_checkpoint
  implicit none
  integer :: ierror, rank, sum
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  write (error_unit, '(a, l1)') 'asked: ', stasis_checkpoint()
  call cut(rank)
  call MPI_Allreduce(rank, sum, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
  call check(sum == 1, 'the sum of both ranks')
  if (rank == 0) print '(a)', 'OK asks_in_fortran'
  call MPI_Finalize(ierror)
contains
  include '../stasis_test.inc'
end program asks
