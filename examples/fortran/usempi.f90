!#Ranks: 2
!#Cut: hold
!#Shows: use mpi: memory of MPI's, buffered sends, windows, matched messages, groups, graphs, what types are made of, sizes, across the cut
program usempi
  use mpi
  use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
  implicit none
  integer, parameter :: n = 6
  integer :: ierr, rank, nprocs, other, i, size, window, unit, graph, everyone, some, request, message
  integer :: hvector, darray, real_type, integers, addresses, datatypes, combiner, length, provided
  integer :: status(MPI_STATUS_SIZE), numbers(8), kinds(1), range(3, 1), neighbours(4), counts(2), displs(2)
  integer :: types(2), source, dest, cart, key, version, subversion
  integer(kind=MPI_ADDRESS_KIND) :: bytes, value, lower, extent, places(1)
  integer(kind=MPI_OFFSET_KIND) :: big
  logical :: flag
  type(c_ptr) :: memory
  real(8), pointer :: shared(:)
  real(8), asynchronous :: out(n), in(n)
  real(8) :: blocks(4, 4), column(4)
  character :: buffer(1000)
  character(len=MPI_MAX_OBJECT_NAME) :: name

  call MPI_Init_thread(MPI_THREAD_SERIALIZED, provided, ierr)
  call check(provided >= MPI_THREAD_SERIALIZED, 'threads')
  call MPI_Query_thread(i, ierr)
  call check(i == provided, 'query_thread')
  call MPI_Is_thread_main(flag, ierr)
  call check(flag, 'the main thread')
  call MPI_Get_version(version, subversion, ierr)
  call check(version >= 3, 'version')
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, nprocs, ierr)
  other = mod(rank + 1, nprocs)

  ! Memory, a window on it, and attributes of the window.
  bytes = n*8
  call MPI_Alloc_mem(bytes, MPI_INFO_NULL, memory, ierr)
  call c_f_pointer(memory, shared, (/n/))
  shared = rank
  call MPI_Win_create(shared, bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, window, ierr)
  call MPI_Win_set_name(window, 'shared', ierr)
  call MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, key, bytes, ierr)
  call MPI_Win_set_attr(window, key, -bytes, ierr)

  ! Types of several makes.
  call MPI_Type_create_hvector(4, 1, 32_MPI_ADDRESS_KIND, MPI_DOUBLE_PRECISION, hvector, ierr)
  call MPI_Type_commit(hvector, ierr)
  call MPI_Type_set_name(hvector, 'a row of four', ierr)
  call MPI_Type_create_darray(nprocs, rank, 1, (/4*nprocs/), (/MPI_DISTRIBUTE_CYCLIC/), &
       (/MPI_DISTRIBUTE_DFLT_DARG/), (/nprocs/), MPI_ORDER_FORTRAN, MPI_INTEGER, darray, ierr)
  call MPI_Comm_group(MPI_COMM_WORLD, everyone, ierr)
  range(:, 1) = (/nprocs - 1, 0, -1/)
  call MPI_Group_range_incl(everyone, 1, range, some, ierr)
  neighbours = (/1, 0, 1, 0/)
  call MPI_Graph_create(MPI_COMM_WORLD, 2, (/1, 2/), neighbours, .false., graph, ierr)
  call MPI_Cart_create(MPI_COMM_WORLD, 1, (/nprocs/), (/.false./), .false., cart, ierr)
  call MPI_Buffer_attach(buffer, 1000, ierr)
  out = (/(rank*10d0 + i, i=1, n)/)
  call MPI_Bsend(out, n, MPI_DOUBLE_PRECISION, other, 4, MPI_COMM_WORLD, ierr)
  call MPI_Issend(out, n, MPI_DOUBLE_PRECISION, other, 5, MPI_COMM_WORLD, request, ierr)

  call cut(rank)

  call MPI_Mprobe(other, 5, MPI_COMM_WORLD, message, status, ierr)
  call MPI_Get_count(status, MPI_DOUBLE_PRECISION, i, ierr)
  call check(i == n, 'a probed count')
  in = 0
  call MPI_Mrecv(in, n, MPI_DOUBLE_PRECISION, message, status, ierr)
  call check(message == MPI_MESSAGE_NULL .and. in(n) == other*10 + n, 'a matched message')
  in = 0
  call MPI_Recv(in, n, MPI_DOUBLE_PRECISION, other, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
  call check(in(1) == other*10 + 1, 'a buffered message')
  call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
  call MPI_Buffer_detach(buffer, size, ierr)
  call check(size == 1000, 'the detached buffer')
  call MPI_Recv(in, n, MPI_DOUBLE_PRECISION, MPI_PROC_NULL, 4, MPI_COMM_WORLD, status, ierr)
  call check(status(MPI_SOURCE) == MPI_PROC_NULL .and. status(MPI_TAG) == MPI_ANY_TAG, 'nobody')

  call MPI_Win_fence(0, window, ierr)
  call MPI_Put(out, 2, MPI_DOUBLE_PRECISION, other, 1_MPI_ADDRESS_KIND, 2, MPI_DOUBLE_PRECISION, window, ierr)
  call MPI_Win_fence(0, window, ierr)
  call check(shared(2) == other*10 + 1 .and. shared(4) == rank, 'what was put')
  call MPI_Win_get_attr(window, MPI_WIN_SIZE, value, flag, ierr)
  call check(flag .and. value == bytes, 'MPI_WIN_SIZE')
  call MPI_Win_get_attr(window, MPI_WIN_DISP_UNIT, value, flag, ierr)
  call check(flag .and. value == 8, 'MPI_WIN_DISP_UNIT')
  call MPI_Win_get_attr(window, MPI_WIN_CREATE_FLAVOR, value, flag, ierr)
  call check(flag .and. value == MPI_WIN_FLAVOR_CREATE, 'MPI_WIN_CREATE_FLAVOR')
  call MPI_Get_address(shared, lower, ierr)
  call MPI_Win_get_attr(window, MPI_WIN_BASE, value, flag, ierr)
  call check(flag .and. value == lower, 'MPI_WIN_BASE')
  call MPI_Win_get_attr(window, key, value, flag, ierr)
  call check(flag .and. value == -bytes, 'the attribute of a window')
  call MPI_Win_get_name(window, name, length, ierr)
  call check(name == 'shared', 'the name of a window')
  call MPI_Win_free(window, ierr)
  call MPI_Win_free_keyval(key, ierr)
  call MPI_Free_mem(shared, ierr)

  ! What a type is made of.
  call MPI_Type_get_envelope(hvector, integers, addresses, datatypes, combiner, ierr)
  call check(combiner == MPI_COMBINER_HVECTOR .and. integers == 2 .and. addresses == 1, 'envelope')
  call MPI_Type_get_contents(hvector, integers, addresses, datatypes, numbers, places, kinds, ierr)
  call check(all(numbers(1:2) == (/4, 1/)) .and. places(1) == 32, 'contents')
  call check(kinds(1) == MPI_DOUBLE_PRECISION, 'the type inside')
  call MPI_Type_get_envelope(darray, integers, addresses, datatypes, combiner, ierr)
  call MPI_Type_get_contents(darray, integers, 0, datatypes, numbers, places, kinds, ierr)
  call check(numbers(5) == MPI_DISTRIBUTE_CYCLIC .and. numbers(6) == MPI_DISTRIBUTE_DFLT_DARG, 'darray')
  call check(numbers(8) == MPI_ORDER_FORTRAN, 'its order')
  call MPI_Type_get_name(hvector, name, length, ierr)
  call check(name == 'a row of four' .and. length == 13, 'the name of a type')
  call MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, real_type, ierr)
  call MPI_Type_size(real_type, size, ierr)
  call check(size == 8, 'match_size')
  call MPI_Type_create_f90_integer(9, i, ierr)
  call MPI_Type_size(i, size, ierr)
  call check(size == 4, 'an integer of nine digits')
  call MPI_Sizeof(in, size, ierr)
  call check(size == 8, 'sizeof an array')
  call MPI_Sizeof(rank, size, ierr)
  call check(size == 4, 'sizeof a number')

  ! Collectives with arrays of types; rows into columns.
  blocks = reshape((/(real(i + 100*rank, 8), i=1, 16)/), (/4, 4/))
  counts = 0
  counts(other + 1) = 1
  displs = 0
  types = hvector
  column = 0
  numbers(1:2) = counts*4
  call MPI_Alltoallw(blocks, counts, displs, types, column, numbers(1:2), displs, &
       (/MPI_DOUBLE_PRECISION, MPI_DOUBLE_PRECISION/), MPI_COMM_WORLD, ierr)
  call check(all(column == (/1, 5, 9, 13/) + 100d0*other), 'alltoallw')
  call MPI_Scan(rank + 1, i, 1, MPI_INTEGER, MPI_PROD, MPI_COMM_WORLD, ierr)
  call check(i == rank + 1, 'scan')
  call MPI_Iallreduce(rank, i, 1, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, request, ierr)
  call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
  call check(i == nprocs - 1, 'iallreduce')

  ! Groups and topologies.
  call MPI_Group_rank(some, i, ierr)
  call check(i == nprocs - 1 - rank, 'a rank in a reversed group')
  call MPI_Group_compare(some, everyone, i, ierr)
  call check(i == MPI_SIMILAR, 'compared groups')
  call MPI_Graph_neighbors(graph, rank, 1, neighbours, ierr)
  call check(neighbours(1) == other, 'neighbours')
  call MPI_Topo_test(graph, i, ierr)
  call check(i == MPI_GRAPH, 'graph')
  call MPI_Cart_shift(cart, 0, 1, source, dest, ierr)
  call check(source == merge(MPI_PROC_NULL, rank - 1, rank == 0), 'source of a shift')
  call check(dest == merge(MPI_PROC_NULL, rank + 1, rank == nprocs - 1), 'destination of a shift')

  ! A file.
  call MPI_File_open(MPI_COMM_WORLD, '  usempi.data ', MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, unit, ierr)
  big = rank*8*n
  call MPI_File_write_at(unit, big, out, n, MPI_DOUBLE_PRECISION, status, ierr)
  call MPI_Get_count(status, MPI_DOUBLE_PRECISION, i, ierr)
  call check(ierr == MPI_SUCCESS .and. i == n, 'written')
  call MPI_File_sync(unit, ierr)
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  call MPI_File_sync(unit, ierr)
  big = other*8*n
  call MPI_File_read_at(unit, big, in, n, MPI_DOUBLE_PRECISION, status, ierr)
  call check(in(n) == other*10 + n, 'read')
  call MPI_File_get_size(unit, big, ierr)
  call check(big == nprocs*8*n, 'the size of a file')
  call MPI_File_close(unit, ierr)
  call check(unit == MPI_FILE_NULL, 'a closed file is not null')
  call MPI_Type_get_extent(hvector, lower, extent, ierr)
  call check(extent == 3*32 + 8, 'extent')
  call MPI_Finalized(flag, ierr)
  call check(.not. flag, 'finalized')
  if (rank == 0) print '(a)', 'OK usempi'
  call MPI_Finalize(ierr)
contains
  include '../stasis_test.inc'
end program usempi
