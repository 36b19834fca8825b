!#Ranks: 2
!#Cut: hold
!#Flags: -Wno-unused-dummy-argument
!#Shows: use mpi_f08: typed handles and statuses, left-out error codes, callbacks, strings, logicals, across the cut
module callbacks
  use mpi_f08
  implicit none
  integer :: copies = 0, deletes = 0, raised = 0, queried = 0, freed = 0
  type(MPI_Comm) :: raised_on
contains
  ! The product of residues: commutative, and no predefined operation.
  subroutine residues(in, inout, len, datatype)
    use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
    type(c_ptr), value :: in, inout
    integer :: len
    type(MPI_Datatype) :: datatype
    integer, pointer :: a(:), b(:)
    if (datatype /= MPI_INTEGER) error stop 4
    call c_f_pointer(in, a, (/len/))
    call c_f_pointer(inout, b, (/len/))
    b = mod(a*b, 101)
  end subroutine residues

  subroutine on_copy(comm, key, extra, value, new, flag, ierror)
    type(MPI_Comm) :: comm
    integer :: key, ierror
    integer(kind=MPI_ADDRESS_KIND) :: extra, value, new
    logical :: flag
    if (comm /= MPI_COMM_WORLD) error stop 5
    copies = copies + 1
    new = 2*value
    flag = .true.
    ierror = MPI_SUCCESS
  end subroutine on_copy

  subroutine on_delete(comm, key, value, extra, ierror)
    type(MPI_Comm) :: comm
    integer :: key, ierror
    integer(kind=MPI_ADDRESS_KIND) :: value, extra
    deletes = deletes + 1
    ierror = MPI_SUCCESS
  end subroutine on_delete

  subroutine on_error(comm, code)
    type(MPI_Comm) :: comm
    integer :: code
    raised_on = comm
    call MPI_Error_class(code, raised)
  end subroutine on_error

  subroutine on_query(extra, status, ierror)
    integer(kind=MPI_ADDRESS_KIND) :: extra
    type(MPI_Status) :: status
    integer :: ierror
    queried = queried + int(extra)
    call MPI_Status_set_elements(status, MPI_INTEGER, 6)
    call MPI_Status_set_cancelled(status, .false.)
    status%MPI_SOURCE = 1
    status%MPI_TAG = 8
    ierror = MPI_SUCCESS
  end subroutine on_query

  subroutine on_free(extra, ierror)
    integer(kind=MPI_ADDRESS_KIND) :: extra
    integer :: ierror
    freed = freed + int(extra)
    ierror = MPI_SUCCESS
  end subroutine on_free

  subroutine on_cancel(extra, complete, ierror)
    integer(kind=MPI_ADDRESS_KIND) :: extra
    logical :: complete
    integer :: ierror
    ierror = MPI_SUCCESS
  end subroutine on_cancel
end module callbacks

program f08
  use mpi_f08
  use callbacks
  implicit none
  integer, parameter :: n = 30
  integer :: ierr, rank, nprocs, other, i, count, place, key, length, class, dims(1), coords(1)
  type(MPI_Comm) :: dup, cart, half, ring
  type(MPI_Datatype) :: column
  type(MPI_Op) :: op
  type(MPI_Info) :: info
  type(MPI_Errhandler) :: handler
  type(MPI_Request) :: requests(3), persistent(2), own
  type(MPI_Status) :: status, statuses(3)
  type(MPI_Group) :: everyone, alone
  integer(kind=MPI_ADDRESS_KIND) :: value, lower, extent, extra
  logical :: flag, periods(1)
  integer :: sum(2)
  integer, asynchronous :: out(n), in(n), products(4)
  real(8) :: matrix(3, 4), row(4)
  character(len=MPI_MAX_OBJECT_NAME) :: name
  character(len=12) :: answer
  character(len=MPI_MAX_LIBRARY_VERSION_STRING) :: version

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, nprocs, ierr)
  call check(ierr == MPI_SUCCESS, 'size')
  other = mod(rank + 1, nprocs)
  call MPI_Get_library_version(version, length)
  call check(length > 0, 'the library has no version')

  ! Objects that are there when the job is cut.
  call MPI_Op_create(residues, .true., op)
  call MPI_Type_vector(4, 1, 3, MPI_DOUBLE_PRECISION, column)
  call MPI_Type_commit(column)
  call MPI_Cart_create(MPI_COMM_WORLD, 1, (/nprocs/), (/.true./), .false., cart)
  call MPI_Comm_set_name(cart, 'a ring')
  call MPI_Comm_split(MPI_COMM_WORLD, rank, 0, half)
  call MPI_Comm_group(MPI_COMM_WORLD, everyone)
  call MPI_Group_incl(everyone, 1, (/rank/), alone)
  call MPI_Info_create(info)
  call MPI_Info_set(info, 'key', 'value')
  call MPI_Comm_create_keyval(on_copy, on_delete, key, 0_MPI_ADDRESS_KIND)
  call MPI_Comm_set_attr(MPI_COMM_WORLD, key, 40000000000_MPI_ADDRESS_KIND)
  call MPI_Comm_create_errhandler(on_error, handler)
  call MPI_Comm_set_errhandler(cart, handler)
  extra = 3
  call MPI_Grequest_start(on_query, on_free, on_cancel, extra, own)
  in = -1
  call MPI_Recv_init(in, n, MPI_INTEGER, other, 3, MPI_COMM_WORLD, persistent(1))
  call MPI_Send_init(out, n, MPI_INTEGER, other, 3, MPI_COMM_WORLD, persistent(2))
  call MPI_Send(rank + 70, 1, MPI_INTEGER, other, 9, MPI_COMM_WORLD)
  call MPI_Irecv(products, 4, MPI_INTEGER, other, 10, MPI_COMM_WORLD, requests(1))

  call cut(rank)

  call MPI_Recv(i, 1, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, status)
  call check(i == other + 70 .and. status%MPI_TAG == 9, 'another message than was under way')
  call check(status%MPI_SOURCE == other, 'source')
  call MPI_Send((/1, 2, 3/), 3, MPI_INTEGER, other, 10, MPI_COMM_WORLD)
  call MPI_Wait(requests(1), status)
  call MPI_Get_count(status, MPI_INTEGER, count)
  call check(count == 3 .and. products(3) == 3, 'the posted receive got something else')
  call check(requests(1) == MPI_REQUEST_NULL, 'a complete request is not null')

  call MPI_Grequest_complete(own)
  call MPI_Wait(own, status)
  call MPI_Get_count(status, MPI_INTEGER, count)
  call check(queried == 3 .and. freed == 3 .and. count == 6, 'a request of the application')
  call check(status%MPI_SOURCE == 1 .and. status%MPI_TAG == 8, 'its status')

  out = rank + 5
  call MPI_Startall(2, persistent)
  call MPI_Waitall(2, persistent, MPI_STATUSES_IGNORE)
  call check(all(in == other + 5), 'a persistent receive got something else')
  call MPI_Request_free(persistent(1))
  call MPI_Request_free(persistent(2))

  do i = 1, 3
     call MPI_Irecv(in(i), 1, MPI_INTEGER, other, 20 + i, MPI_COMM_WORLD, requests(i))
  end do
  call MPI_Test(requests(1), flag, MPI_STATUS_IGNORE)
  call check(.not. flag, 'test of what nobody has sent')
  call MPI_Barrier(MPI_COMM_WORLD)
  call MPI_Send(222, 1, MPI_INTEGER, other, 22, MPI_COMM_WORLD)
  call MPI_Waitany(3, requests, place, status)
  ! Not the place: MPICH 4.0's mpi_f08 counts it from 0.
  call check(status%MPI_TAG == 22 .and. in(2) == 222, 'waitany')
  call MPI_Barrier(MPI_COMM_WORLD)
  call MPI_Send(111, 1, MPI_INTEGER, other, 21, MPI_COMM_WORLD)
  call MPI_Send(333, 1, MPI_INTEGER, other, 23, MPI_COMM_WORLD)
  call MPI_Waitall(3, requests, statuses)
  call check(in(1) == 111 .and. in(3) == 333 .and. statuses(3)%MPI_SOURCE == other, 'waitall')
  call MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, flag, status)
  call check(.not. flag, 'a message that nobody sent')

  sum = (/rank, 1/)
  call MPI_Allreduce(MPI_IN_PLACE, sum, 2, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  call check(sum(2) == nprocs .and. sum(1) == nprocs*(nprocs - 1)/2, 'in place')
  products = (/2, 3, 50, 100/)
  call MPI_Allreduce(MPI_IN_PLACE, products, 4, MPI_INTEGER, op, MPI_COMM_WORLD)
  count = 50
  do i = 2, nprocs
     count = mod(count*50, 101)
  end do
  call check(products(3) == count, 'the operation of the application')
  call MPI_Op_free(op)

  matrix = reshape((/(real(i + rank*1000, 8), i=1, 12)/), (/3, 4/))
  call MPI_Sendrecv(matrix(2, 1), 1, column, other, 1, row, 4, MPI_DOUBLE_PRECISION, other, 1, &
       MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  call check(all(row == (/2, 5, 8, 11/) + other*1000d0), 'a row')
  call MPI_Type_get_extent(column, lower, extent)
  call check(lower == 0 .and. extent == 10*8, 'extent')

  call MPI_Cart_get(cart, 1, dims, periods, coords)
  call check(periods(1) .and. dims(1) == nprocs .and. coords(1) == rank, 'cart_get')
  call MPI_Comm_get_name(cart, name, length)
  call check(name == 'a ring' .and. length == 6, 'name')
  call MPI_Comm_test_inter(cart, flag)
  call check(.not. flag, 'test_inter')
  call MPI_Group_translate_ranks(alone, 1, (/0/), everyone, coords)
  call check(coords(1) == rank, 'translated rank')
  call MPI_Info_get(info, 'key', len(answer), answer, flag)
  call check(flag .and. answer == 'value', 'info')

  call MPI_Comm_dup(MPI_COMM_WORLD, dup)
  call MPI_Comm_get_attr(dup, key, value, flag)
  call check(flag .and. copies == 1 .and. value == 80000000000_MPI_ADDRESS_KIND, 'a copied attribute')
  call MPI_Comm_free(dup)
  call check(deletes == 1 .and. dup == MPI_COMM_NULL, 'deletes')
  call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, flag)
  call check(flag .and. value >= 32767, 'MPI_TAG_UB')

  call MPI_Send(i, 1, MPI_INTEGER, 1000, 0, cart, ierr)
  call MPI_Error_class(ierr, class)
  call check(class == MPI_ERR_RANK .and. raised == MPI_ERR_RANK, 'the error handler')
  call check(raised_on == cart, 'the error handler got another communicator')

  call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, (/other/), MPI_UNWEIGHTED, 1, (/other/), &
       MPI_UNWEIGHTED, MPI_INFO_NULL, .false., ring)
  call MPI_Dist_graph_neighbors_count(ring, i, count, flag)
  call check(i == 1 .and. count == 1 .and. .not. flag, 'a graph without weights')
  call MPI_Neighbor_allgather(rank, 1, MPI_INTEGER, coords, 1, MPI_INTEGER, ring)
  call check(coords(1) == other, 'neighbours')
  call MPI_Comm_free(ring)
  call MPI_Comm_free(half)
  call MPI_Comm_free(cart)
  if (rank == 0) print '(a)', 'OK f08'
  call MPI_Finalize()
contains
  include '../stasis_test.inc'
end program f08
