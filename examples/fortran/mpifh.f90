!#Ranks: 2
!#Cut: hold
!#Flags: -fallow-argument-mismatch -w
!#Shows: mpif.h: messages, requests, statuses, sentinels, user operations, attributes of both generations, error handlers, strings, topologies, derived types, across the cut
program mpifh
  implicit none
  include 'mpif.h'
  integer, parameter :: n = 40
  integer :: ierr, rank, nprocs, other, i, count, place, done, places(4), key, old_key, handlers
  integer :: requests(4), persistent(2), own, status(MPI_STATUS_SIZE), statuses(MPI_STATUS_SIZE, 4)
  integer :: op, column, pair, cart, dup, half, world_group, group, info, handler, length, size
  integer :: dims(2), coords(2), blocks(2), types(2), position, packed(64), old_value, class
  integer(kind=MPI_ADDRESS_KIND) :: lower, extent, value, extra, places_of(2)
  integer(kind=MPI_ADDRESS_KIND), volatile :: state
  logical :: flag, periods(2)
  integer :: out(n), sum(3)
  integer, asynchronous :: in(n)
  real(8) :: matrix(4, 5), got(4, 5), row(5)
  complex(8) :: z, zsum
  character(len=MPI_MAX_OBJECT_NAME) :: name
  character(len=MPI_MAX_ERROR_STRING) :: text
  character(len=20) :: answer
  character(len=MPI_MAX_PROCESSOR_NAME) :: node
  common /callbacks/ copies, deletes, raised, raised_on
  integer :: copies, deletes, raised, raised_on
  type record
     sequence
     integer :: i
     real(8) :: r
  end type record
  type(record) :: records(3)
  external :: longest, on_copy, on_delete, on_old_copy, on_old_delete, on_error, on_query, on_free, &
       on_cancel

  copies = 0
  deletes = 0
  raised = 0
  call MPI_INIT(ierr)
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
  call MPI_COMM_SIZE(MPI_COMM_WORLD, nprocs, ierr)
  other = mod(rank + 1, nprocs)
  call MPI_GET_PROCESSOR_NAME(node, length, ierr)
  call check(length > 0 .and. node(length:length) /= ' ', 'the processor has no name')

  ! Objects that are there when the job is cut.
  call MPI_OP_CREATE(longest, .true., op, ierr)
  call MPI_TYPE_VECTOR(5, 1, 4, MPI_DOUBLE_PRECISION, column, ierr)
  call MPI_TYPE_COMMIT(column, ierr)
  call MPI_GET_ADDRESS(records(1)%i, places_of(1), ierr)
  call MPI_GET_ADDRESS(records(1)%r, places_of(2), ierr)
  places_of(2) = places_of(2) - places_of(1)
  places_of(1) = 0
  blocks = 1
  types = (/MPI_INTEGER, MPI_DOUBLE_PRECISION/)
  call MPI_TYPE_CREATE_STRUCT(2, blocks, places_of, types, pair, ierr)
  call MPI_GET_ADDRESS(records(1)%i, lower, ierr)
  call MPI_GET_ADDRESS(records(2)%i, extent, ierr)
  call MPI_TYPE_CREATE_RESIZED(pair, 0_MPI_ADDRESS_KIND, extent - lower, i, ierr)
  call MPI_TYPE_FREE(pair, ierr)
  pair = i
  call MPI_TYPE_COMMIT(pair, ierr)
  dims = 0
  call MPI_DIMS_CREATE(nprocs, 2, dims, ierr)
  periods = (/.true., .false./)
  call MPI_CART_CREATE(MPI_COMM_WORLD, 2, dims, periods, .false., cart, ierr)
  call MPI_COMM_SET_NAME(cart, ' a grid  ', ierr)
  call MPI_COMM_GROUP(MPI_COMM_WORLD, world_group, ierr)
  call MPI_GROUP_INCL(world_group, 1, (/rank/), group, ierr)
  call MPI_COMM_SPLIT(MPI_COMM_WORLD, rank, 0, half, ierr)
  call MPI_INFO_CREATE(info, ierr)
  call MPI_INFO_SET(info, ' a key ', '  some value  ', ierr)
  extra = 1000000000000_MPI_ADDRESS_KIND
  call MPI_COMM_CREATE_KEYVAL(on_copy, on_delete, key, extra, ierr)
  call MPI_KEYVAL_CREATE(on_old_copy, on_old_delete, old_key, 7, ierr)
  call MPI_COMM_SET_ATTR(MPI_COMM_WORLD, key, 5_MPI_ADDRESS_KIND, ierr)
  call MPI_ATTR_PUT(MPI_COMM_WORLD, old_key, -12, ierr)
  call MPI_COMM_CREATE_ERRHANDLER(on_error, handler, ierr)
  call MPI_COMM_SET_ERRHANDLER(cart, handler, ierr)
  in = -1
  call MPI_RECV_INIT(in, n, MPI_INTEGER, other, 3, MPI_COMM_WORLD, persistent(1), ierr)
  call MPI_SEND_INIT(out, n, MPI_INTEGER, other, 3, MPI_COMM_WORLD, persistent(2), ierr)
  ! A message that is under way, and a receive that is posted, at the cut.
  call MPI_SEND((/rank + 70/), 1, MPI_INTEGER, other, 9, MPI_COMM_WORLD, ierr)
  call MPI_IRECV(places, 4, MPI_INTEGER, other, 10, MPI_COMM_WORLD, requests(1), ierr)
  state = 100
  call MPI_GREQUEST_START(on_query, on_free, on_cancel, state, own, ierr)

  call cut(rank)

  call MPI_PROBE(MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, status, ierr)
  call MPI_RECV(i, 1, MPI_INTEGER, status(MPI_SOURCE), MPI_ANY_TAG, MPI_COMM_WORLD, status, ierr)
  call check(i == other + 70 .and. status(MPI_TAG) == 9, 'another message than was under way')
  call MPI_SEND((/1, 2, 3/), 3, MPI_INTEGER, other, 10, MPI_COMM_WORLD, ierr)
  call MPI_WAIT(requests(1), status, ierr)
  call MPI_GET_COUNT(status, MPI_INTEGER, count, ierr)
  call check(count == 3 .and. places(3) == 3, 'the posted receive got something else')
  call check(requests(1) == MPI_REQUEST_NULL, 'a complete request is not null')

  ! The application's own request: its functions get the extra state where it is, and may change it.
  call MPI_TEST(own, flag, status, ierr)
  call check(.not. flag .and. state == 100, 'the own request is complete')
  call MPI_CANCEL(own, ierr)
  call check(state == 101, 'the function that cancels got another state')
  call MPI_GREQUEST_COMPLETE(own, ierr)
  call MPI_WAIT(own, status, ierr)
  call MPI_GET_COUNT(status, MPI_INTEGER, count, ierr)
  call check(count == 7 .and. status(MPI_TAG) == 33, 'the status of the own request')
  call check(state == 1111 .and. own == MPI_REQUEST_NULL, 'what the functions did to the state')

  ! Persistent requests, twice.
  do i = 1, 2
     out = rank*100 + i
     call MPI_STARTALL(2, persistent, ierr)
     call MPI_WAITALL(2, persistent, MPI_STATUSES_IGNORE, ierr)
     call check(all(in == other*100 + i), 'a persistent receive got something else')
  end do
  call MPI_REQUEST_FREE(persistent(1), ierr)
  call MPI_REQUEST_FREE(persistent(2), ierr)

  ! Places of requests count from one.
  do i = 1, 4
     call MPI_IRECV(in(i), 1, MPI_INTEGER, other, 20 + i, MPI_COMM_WORLD, requests(i), ierr)
  end do
  call MPI_TESTANY(4, requests, place, flag, status, ierr)
  call check(.not. flag, 'testany of what nobody has sent')
  call MPI_BARRIER(MPI_COMM_WORLD, ierr)
  call MPI_SEND(333, 1, MPI_INTEGER, other, 23, MPI_COMM_WORLD, ierr)
  call MPI_WAITANY(4, requests, place, status, ierr)
  call check(place == 3 .and. status(MPI_TAG) == 23 .and. in(3) == 333, 'waitany')
  call MPI_BARRIER(MPI_COMM_WORLD, ierr)
  call MPI_SEND(111, 1, MPI_INTEGER, other, 21, MPI_COMM_WORLD, ierr)
  call MPI_WAITSOME(4, requests, done, places, statuses, ierr)
  call check(done == 1 .and. places(1) == 1 .and. statuses(MPI_TAG, 1) == 21, 'waitsome')
  call MPI_BARRIER(MPI_COMM_WORLD, ierr)
  call MPI_SEND(222, 1, MPI_INTEGER, other, 22, MPI_COMM_WORLD, ierr)
  call MPI_SEND(444, 1, MPI_INTEGER, other, 24, MPI_COMM_WORLD, ierr)
  call MPI_WAITALL(4, requests, statuses, ierr)
  call check(in(2) == 222 .and. in(4) == 444 .and. statuses(MPI_SOURCE, 4) == other, 'waitall')
  call MPI_TESTALL(4, requests, flag, MPI_STATUSES_IGNORE, ierr)
  call check(flag, 'testall of nothing')
  call MPI_WAITANY(4, requests, place, MPI_STATUS_IGNORE, ierr)
  call check(place < 1, 'waitany of nothing')

  ! Sentinels: MPI_IN_PLACE, MPI_BOTTOM.
  sum = rank + (/1, 2, 3/)
  call MPI_ALLREDUCE(MPI_IN_PLACE, sum, 3, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  call check(all(sum == nprocs*(/1, 2, 3/) + nprocs*(nprocs - 1)/2), 'in place')
  call MPI_GET_ADDRESS(sum, lower, ierr)
  call MPI_TYPE_CREATE_HINDEXED(1, (/3/), (/lower/), MPI_INTEGER, i, ierr)
  call MPI_TYPE_COMMIT(i, ierr)
  call MPI_BCAST(MPI_BOTTOM, 1, i, 0, MPI_COMM_WORLD, ierr)
  call MPI_TYPE_FREE(i, ierr)
  call check(i == MPI_DATATYPE_NULL, 'a freed datatype is not null')
  z = cmplx(rank + 1, -1, 8)
  call MPI_ALLREDUCE(z, zsum, 1, MPI_DOUBLE_COMPLEX, MPI_SUM, MPI_COMM_WORLD, ierr)
  call check(nint(real(zsum)) == nprocs*(nprocs + 1)/2 .and. nint(aimag(zsum)) == -nprocs, 'complex')

  ! The application's own operation, on a type of its own.
  records(1) = record(rank, 1.5d0 + rank)
  records(2) = record(-rank, 2.5d0 - rank)
  call MPI_ALLREDUCE(MPI_IN_PLACE, records, 2, pair, op, MPI_COMM_WORLD, ierr)
  call check(records(1)%i == nprocs - 1 .and. records(2)%i == 0, 'the operation of the application')
  call check(records(1)%r == 0.5d0 + nprocs .and. records(2)%r == 2.5d0, 'its real part')
  call MPI_OP_FREE(op, ierr)

  ! A row of a matrix.
  matrix = reshape((/(real(i + rank*1000, 8), i=1, 20)/), (/4, 5/))
  call MPI_SENDRECV(matrix(2, 1), 1, column, other, 1, row, 5, MPI_DOUBLE_PRECISION, other, 1, &
       MPI_COMM_WORLD, status, ierr)
  call check(all(row == (/2, 6, 10, 14, 18/) + other*1000d0), 'a row')
  call MPI_TYPE_GET_EXTENT(column, lower, extent, ierr)
  call check(lower == 0 .and. extent == 17*8, 'extent')
  call MPI_TYPE_SIZE(column, size, ierr)
  call check(size == 40, 'size')
  position = 0
  call MPI_PACK(row, 5, MPI_DOUBLE_PRECISION, packed, 256, position, MPI_COMM_WORLD, ierr)
  call check(position >= 40, 'packed')
  position = 0
  row = 0
  call MPI_UNPACK(packed, 256, position, row, 5, MPI_DOUBLE_PRECISION, MPI_COMM_WORLD, ierr)
  call check(row(5) == 18 + other*1000d0, 'unpacked')

  ! Topology, names, groups, info.
  call MPI_CART_GET(cart, 2, dims, periods, coords, ierr)
  call check(periods(1) .and. .not. periods(2) .and. product(dims) == nprocs, 'cart_get')
  call MPI_CART_RANK(cart, coords, i, ierr)
  call check(i == rank, 'cart_rank')
  call MPI_CART_SUB(cart, (/.true., .false./), i, ierr)
  call MPI_COMM_FREE(i, ierr)
  call check(i == MPI_COMM_NULL, 'a freed communicator is not null')
  name = '?'
  call MPI_COMM_GET_NAME(cart, name, length, ierr)
  call check(adjustl(name) == 'a grid' .and. name(len(name):) == ' ', 'name')
  call MPI_GROUP_TRANSLATE_RANKS(group, 1, (/0/), world_group, place, ierr)
  call check(place == rank, 'translated rank')
  call MPI_COMM_SIZE(half, i, ierr)
  call check(i == 1, 'half')
  answer = '?'
  call MPI_INFO_GET(info, 'a key', len(answer), answer, flag, ierr)
  call check(flag .and. answer == 'some value', 'info')
  call MPI_INFO_GET(info, 'no key', len(answer), answer, flag, ierr)
  call check(.not. flag .and. answer == 'some value', 'no info')
  call MPI_INFO_FREE(info, ierr)
  call check(info == MPI_INFO_NULL, 'a freed info is not null')

  call MPI_DIST_GRAPH_CREATE_ADJACENT(MPI_COMM_WORLD, 1, (/other/), MPI_UNWEIGHTED, 1, (/other/), &
       MPI_UNWEIGHTED, MPI_INFO_NULL, .false., i, ierr)
  call MPI_DIST_GRAPH_NEIGHBORS_COUNT(i, size, count, flag, ierr)
  call check(size == 1 .and. count == 1 .and. .not. flag, 'a graph without weights')
  call MPI_COMM_FREE(i, ierr)

  ! Attributes of both generations, predefined ones, and duplicates.
  call MPI_COMM_DUP(MPI_COMM_WORLD, dup, ierr)
  call check(copies == 11, 'copies')
  call MPI_COMM_GET_ATTR(dup, key, value, flag, ierr)
  call check(flag .and. value == 1000000000005_MPI_ADDRESS_KIND, 'a copied attribute')
  call MPI_ATTR_GET(dup, old_key, old_value, flag, ierr)
  call check(flag .and. old_value == -5, 'a copied attribute of the old kind')
  call MPI_COMM_FREE(dup, ierr)
  call check(deletes == 11, 'deletes')
  call MPI_ATTR_GET(MPI_COMM_WORLD, MPI_TAG_UB, old_value, flag, ierr)
  call MPI_COMM_GET_ATTR(MPI_COMM_WORLD, MPI_TAG_UB, value, flag, ierr)
  call check(flag .and. value >= 32767 .and. value == old_value, 'MPI_TAG_UB')
  call MPI_COMM_DELETE_ATTR(MPI_COMM_WORLD, key, ierr)
  call MPI_ATTR_DELETE(MPI_COMM_WORLD, old_key, ierr)
  call check(deletes == 22, 'deletes at the end')
  call MPI_COMM_FREE_KEYVAL(key, ierr)
  call check(key == MPI_KEYVAL_INVALID, 'a freed keyval is not invalid')

  ! Errors.
  call MPI_SEND(i, 1, MPI_INTEGER, 1000, 0, cart, ierr)
  call MPI_ERROR_CLASS(ierr, class, ierr)
  call check(class == MPI_ERR_RANK .and. raised == MPI_ERR_RANK, 'the error handler')
  call check(raised_on == cart, 'the error handler got another communicator')
  call MPI_ERROR_STRING(MPI_ERR_RANK, text, length, ierr)
  call check(length > 0 .and. text(length:length) /= ' ' .and. text(length + 1:) == ' ', 'text')
  call MPI_COMM_GET_ERRHANDLER(cart, handlers, ierr)
  call check(handlers /= MPI_ERRHANDLER_NULL .and. handlers /= MPI_ERRORS_ARE_FATAL, 'errhandler')
  call MPI_ERRHANDLER_FREE(handlers, ierr)
  call MPI_ERRHANDLER_FREE(handler, ierr)
  call MPI_COMM_GET_ERRHANDLER(MPI_COMM_WORLD, handler, ierr)
  call check(handler == MPI_ERRORS_ARE_FATAL, 'the default error handler')
  call check(MPI_WTIME() >= 0d0 .and. MPI_WTICK() > 0d0, 'time')
  call MPI_COMM_FREE(cart, ierr)
  call MPI_COMM_FREE(half, ierr)
  call MPI_GROUP_FREE(group, ierr)
  if (rank == 0) print '(a)', 'OK mpifh'
  call MPI_FINALIZE(ierr)
contains
  include '../stasis_test.inc'
end program mpifh

! The larger of two records.
subroutine longest(in, inout, len, datatype)
  implicit none
  include 'mpif.h'
  type record
     sequence
     integer :: i
     real(8) :: r
  end type record
  integer :: len, datatype, size, ierr, i
  type(record) :: in(len), inout(len)
  call MPI_TYPE_SIZE(datatype, size, ierr)
  if (ierr /= MPI_SUCCESS .or. size /= 12) error stop 4
  do i = 1, len
     inout(i)%i = max(in(i)%i, inout(i)%i)
     inout(i)%r = max(in(i)%r, inout(i)%r)
  end do
end subroutine longest

subroutine on_copy(comm, key, extra, value, new, flag, ierror)
  implicit none
  include 'mpif.h'
  integer :: comm, key, ierror
  integer(kind=MPI_ADDRESS_KIND) :: extra, value, new
  logical :: flag
  common /callbacks/ copies, deletes, raised, raised_on
  integer :: copies, deletes, raised, raised_on
  if (comm /= MPI_COMM_WORLD) error stop 5
  copies = copies + 1
  new = value + extra
  flag = .true.
  ierror = MPI_SUCCESS
end subroutine on_copy

subroutine on_delete(comm, key, value, extra, ierror)
  implicit none
  include 'mpif.h'
  integer :: comm, key, ierror
  integer(kind=MPI_ADDRESS_KIND) :: extra, value
  common /callbacks/ copies, deletes, raised, raised_on
  integer :: copies, deletes, raised, raised_on
  if (extra /= 1000000000000_MPI_ADDRESS_KIND) error stop 6
  deletes = deletes + 1
  ierror = MPI_SUCCESS
end subroutine on_delete

subroutine on_old_copy(comm, key, extra, value, new, flag, ierror)
  implicit none
  include 'mpif.h'
  integer :: comm, key, ierror, extra, value, new
  logical :: flag
  common /callbacks/ copies, deletes, raised, raised_on
  integer :: copies, deletes, raised, raised_on
  copies = copies + 10
  new = value + extra
  flag = .true.
  ierror = MPI_SUCCESS
end subroutine on_old_copy

subroutine on_old_delete(comm, key, value, extra, ierror)
  implicit none
  include 'mpif.h'
  integer :: comm, key, ierror, extra, value
  common /callbacks/ copies, deletes, raised, raised_on
  integer :: copies, deletes, raised, raised_on
  if (extra /= 7) error stop 7
  deletes = deletes + 10
  ierror = MPI_SUCCESS
end subroutine on_old_delete

subroutine on_query(extra, status, ierror)
  implicit none
  include 'mpif.h'
  integer :: status(MPI_STATUS_SIZE), ierror
  integer(kind=MPI_ADDRESS_KIND) :: extra
  extra = extra + 10
  status(MPI_SOURCE) = MPI_UNDEFINED
  status(MPI_TAG) = 33
  call MPI_STATUS_SET_CANCELLED(status, .false., ierror)
  call MPI_STATUS_SET_ELEMENTS(status, MPI_INTEGER, 7, ierror)
end subroutine on_query

subroutine on_free(extra, ierror)
  implicit none
  include 'mpif.h'
  integer :: ierror
  integer(kind=MPI_ADDRESS_KIND) :: extra
  extra = extra + 1000
  ierror = MPI_SUCCESS
end subroutine on_free

subroutine on_cancel(extra, complete, ierror)
  implicit none
  include 'mpif.h'
  integer :: ierror
  integer(kind=MPI_ADDRESS_KIND) :: extra
  logical :: complete
  extra = extra + merge(100, 1, complete)
  ierror = MPI_SUCCESS
end subroutine on_cancel

subroutine on_error(comm, code)
  implicit none
  include 'mpif.h'
  integer :: comm, code, ierr
  common /callbacks/ copies, deletes, raised, raised_on
  integer :: copies, deletes, raised, raised_on
  raised_on = comm
  call MPI_ERROR_CLASS(code, raised, ierr)
end subroutine on_error
