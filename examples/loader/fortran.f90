!#Shows: Fortran without MPI: formatted and list-directed output, allocation, arrays, a scratch file
program fortran
  implicit none
  real(8), allocatable :: a(:, :)
  integer :: i, j, fd
  character(len=20) :: word
  allocate (a(200, 200))
  do i = 1, 200
     a(:, i) = [(real(i*j, 8), j=1, 200)]
  end do
  print '(a,f14.2)', 'sum', sum(matmul(a, transpose(a)))/1d6
  open (newunit=fd, status='scratch')
  write (fd, '(a,i4)') 'words ', 42
  rewind (fd)
  read (fd, '(a)') word
  close (fd)
  print *, trim(word)
end program fortran
