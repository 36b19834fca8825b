! Formatted output, allocation, an array on the stack and a file. Prints "fortran ok 500500".
program hello
  implicit none
  integer, allocatable :: a(:)
  integer :: i, n
  character(len=32) :: text
  allocate(a(1000))
  do i = 1, 1000
    a(i) = i
  end do
  open(unit=10, status='scratch')
  write(10, *) sum(a)
  rewind(10)
  read(10, *) n
  write(text, '(i0)') n
  print '(a,a)', 'fortran ok ', trim(text)
end program hello
