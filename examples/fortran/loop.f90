!#Ranks: 2
!#Cut: loop
!#Shows: use mpi: messages and collectives in a loop
program loop
  use mpi
  implicit none
  integer :: ierr, rank, nprocs, step, more, other, fd, length
  integer :: requests(2), statuses(MPI_STATUS_SIZE, 2)
  real(8) :: mine, total
  real(8), asynchronous :: out(1000), in(1000)
  character(len=1024) :: ready, go
  logical :: there

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, nprocs, ierr)
  call get_environment_variable('STASIS_TEST_READY', ready, length)
  call get_environment_variable('STASIS_TEST_GO', go)
  other = 1 - rank
  step = 0
  do
     if (step == 2 .and. length > 0) then
        write (ready(length + 1:length + 2), '(a,i1)') '.', rank
        open (newunit=fd, file=trim(ready), status='replace')
        close (fd)
     end if
     more = 0
     if (rank == 0) then
        there = .true.
        if (length > 0) inquire (file=trim(go), exist=there)
        if (step < 300 .or. .not. there) more = 1
     end if
     call MPI_Bcast(more, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
     if (more == 0) exit
     out = real(step, 8) + rank
     call MPI_Irecv(in, 1000, MPI_DOUBLE_PRECISION, other, 1, MPI_COMM_WORLD, requests(1), ierr)
     call MPI_Isend(out, 1000, MPI_DOUBLE_PRECISION, other, 1, MPI_COMM_WORLD, requests(2), ierr)
     call MPI_Waitall(2, requests, statuses, ierr)
     if (statuses(MPI_TAG, 1) /= 1 .or. statuses(MPI_SOURCE, 1) /= other) then
        print *, 'FAILED: another status', statuses(:, 1)
        call MPI_Abort(MPI_COMM_WORLD, 4, ierr)
     end if
     mine = sum(in)
     call MPI_Allreduce(mine, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
     if (total /= 1000d0*(2*step + 1)) then
        print *, 'FAILED at step', step, total
        call MPI_Abort(MPI_COMM_WORLD, 3, ierr)
     end if
     step = step + 1
  end do
  if (rank == 0) print '(a)', 'OK loop'
  call MPI_Finalize(ierr)
end program loop
