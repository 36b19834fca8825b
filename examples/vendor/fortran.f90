!#Ranks: 2
!#Mpi: mpich
!#Vendor: cray
!#Cut: loop
!#Shows: a Fortran program that a vendor's compiler wrapper has linked with libmpifort_cray.so.12
program names
  use mpi
  implicit none
  integer :: ierr, rank, step, more, length, unit
  real(8) :: mine, total
  character(len=1024) :: ready, go
  logical :: there

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call get_environment_variable('STASIS_TEST_READY', ready, length)
  call get_environment_variable('STASIS_TEST_GO', go)
  step = 0
  do
     if (step == 2 .and. length > 0) then
        write (ready(length + 1:length + 2), '(a,i1)') '.', rank
        open (newunit=unit, file=trim(ready), status='replace')
        close (unit)
     end if
     more = 0
     if (rank == 0) then
        there = .true.
        if (length > 0) inquire (file=trim(go), exist=there)
        if (step < 300 .or. .not. there) more = 1
     end if
     call MPI_Bcast(more, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
     if (more == 0) exit
     mine = step + rank
     call MPI_Allreduce(mine, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
     if (total /= 2*step + 1) then
        print *, 'FAILED at step', step, total
        call MPI_Abort(MPI_COMM_WORLD, 3, ierr)
     end if
     step = step + 1
  end do
  if (rank == 0) print '(a)', 'OK names'
  call MPI_Finalize(ierr)
end program names
