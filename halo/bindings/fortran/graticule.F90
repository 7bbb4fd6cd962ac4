! SPDX-License-Identifier: BSD-3-Clause
! Made by scripts/bindings from graticule.h and graticule.F90.in: change those.
!
! The engine in Fortran: `use graticule`. The interface is that of graticule.h, with these conventions:
! - Grid axes are in Fortran's order: the first one varies fastest. Boxes have inclusive bounds counted from 1.
! - `gr_field(u)` describes an array of any kind and rank, a section too, without a copy. Declare arrays `asynchronous`
!   (or `target`) where a call is in flight, from its start to `gr_finish`.
! - Every subroutine has an optional last argument `stat`. Without it an error ends the program with its text, as for
!   `allocate` and `open`; with it nothing ends, and `gr_error_text()` has the text.

! - Calls that end before they return also take arrays of one kind, instead of `gr_field`: `call gr_halo_exchange(halo, u, v)`.
!   Whatever a compiler passes is right, also components of derived types (`cells%t`), of which it may pass a copy.

#ifdef GRATICULE_FORTRAN_DESCRIPTORS
#define GR_WHOLE dimension(..)
#else
#define GR_WHOLE dimension(..), contiguous
#endif

!> Constants and types.
module graticule_types
  use, intrinsic :: iso_c_binding, only: c_int, c_int64_t, c_size_t, c_double, c_ptr, c_null_ptr
  implicit none
  public
  private :: c_int, c_int64_t, c_size_t, c_double, c_ptr, c_null_ptr

  integer, parameter :: GR_VERSION_MAJOR = 0
  integer, parameter :: GR_VERSION_MINOR = 1
  integer, parameter :: GR_VERSION_PATCH = 0
  integer, parameter :: GR_MAX_AXES = 8
  integer, parameter :: GR_MAX_DIRECTIONS = 32

  integer, parameter :: GR_SUCCESS = 0
  integer, parameter :: GR_ERROR_ARGUMENT = 1
  integer, parameter :: GR_ERROR_PROGRAM = 2
  integer, parameter :: GR_ERROR_USAGE = 3
  integer, parameter :: GR_ERROR_INPUT = 4
  integer, parameter :: GR_ERROR_CHECK = 5
  integer, parameter :: GR_ERROR_MPI = 6
  integer, parameter :: GR_ERROR_MEMORY = 7
  integer, parameter :: GR_ERROR_OTHER = 8

  integer, parameter :: GR_U8 = 0
  integer, parameter :: GR_I8 = 1
  integer, parameter :: GR_I16 = 2
  integer, parameter :: GR_I32 = 3
  integer, parameter :: GR_I64 = 4
  integer, parameter :: GR_F16 = 5
  integer, parameter :: GR_BF16 = 6
  integer, parameter :: GR_F32 = 7
  integer, parameter :: GR_F64 = 8
  integer, parameter :: GR_C64 = 9
  integer, parameter :: GR_C128 = 10

  integer, parameter :: GR_HOST = 0
  integer, parameter :: GR_DEVICE = 1

  integer, parameter :: GR_EDGE_UNTOUCHED = 0
  integer, parameter :: GR_EDGE_CONSTANT = 1
  integer, parameter :: GR_EDGE_PERIODIC = 2
  integer, parameter :: GR_EDGE_REFLECT = 3
  integer, parameter :: GR_EDGE_SYMMETRIC = 4
  integer, parameter :: GR_EDGE_REPLICATE = 5
  integer, parameter :: GR_EDGE_POLE_FACE = 6
  integer, parameter :: GR_EDGE_POLE_ROW = 7
  integer, parameter :: GR_EDGE_ANTIREFLECT = 8
  integer, parameter :: GR_EDGE_ANTISYMMETRIC = 9
  integer, parameter :: GR_EDGE_TRIPOLAR_FACE = 10
  integer, parameter :: GR_EDGE_TRIPOLAR_ROW = 11

  integer, parameter :: GR_LOW_FACE = -1
  integer, parameter :: GR_CENTRE = 0
  integer, parameter :: GR_HIGH_FACE = 1
  integer, parameter :: GR_ALL_FACES = 2

  integer, parameter :: GR_EVEN = 0
  integer, parameter :: GR_ODD = 1

  integer, parameter :: GR_FILL_CORNERS = 0
  integer, parameter :: GR_SKIP_CORNERS = 1

  integer, parameter :: GR_REFUSE_ODD = 0
  integer, parameter :: GR_SHIFT_FLOOR = 1

  integer, parameter :: GR_KEEP_MIRROR = 0
  integer, parameter :: GR_COPY_MIRROR = 1

  integer, parameter :: GR_TRANSPORT_AUTOMATIC = 0
  integer, parameter :: GR_TRANSPORT_POINT_TO_POINT = 1
  integer, parameter :: GR_TRANSPORT_NODE_SHARED = 2

  integer, parameter :: GR_SUM_EXACT = 0
  integer, parameter :: GR_SUM_FAST = 1

  integer, parameter :: GR_SCALE_SUM = 0
  integer, parameter :: GR_SCALE_MEAN = 1

  integer, parameter :: GR_COTANGENTS_OF_EACH_RANK = 0
  integer, parameter :: GR_COTANGENTS_REPLICATED = 1

  integer, parameter :: GR_MIRRORS_DIFFER = 0
  integer, parameter :: GR_MIRRORS_COMMUTE = 1

  !> a private duplicate of a communicator
  type :: gr_comm
    type(c_ptr) :: handle = c_null_ptr
  end type

  !> teams of ranks along several axes
  type :: gr_teams
    type(c_ptr) :: handle = c_null_ptr
  end type

  !> how one axis is cut into parts
  type :: gr_cuts
    type(c_ptr) :: handle = c_null_ptr
  end type

  !> which rank owns which box of a grid
  type :: gr_layout
    type(c_ptr) :: handle = c_null_ptr
  end type

  !> memory that the other ranks of the node read in place
  type :: gr_node_memory
    type(c_ptr) :: handle = c_null_ptr
  end type

  !> plan of halo exchanges
  type :: gr_halo
    type(c_ptr) :: handle = c_null_ptr
  end type

  !> number of valid layers of the halo of one field
  type :: gr_halo_depth
    type(c_ptr) :: handle = c_null_ptr
  end type

  !> plan of movements between two layouts
  type :: gr_repartition
    type(c_ptr) :: handle = c_null_ptr
  end type

  !> plan of sums along one axis
  type :: gr_zonal
    type(c_ptr) :: handle = c_null_ptr
  end type

  !> weighted sum of all cells
  type :: gr_area_sum
    type(c_ptr) :: handle = c_null_ptr
  end type

  !> a call in flight
  type :: gr_pending
    type(c_ptr) :: handle = c_null_ptr
  end type

  !> named values for a file or a variable
  type :: gr_attributes
    type(c_ptr) :: handle = c_null_ptr
  end type

  !> a netCDF-4 or HDF5 file, a Zarr store, or several; open for reading
  type :: gr_file
    type(c_ptr) :: handle = c_null_ptr
  end type

  !> a netCDF-4 file or a Zarr store that is written
  type :: gr_writer
    type(c_ptr) :: handle = c_null_ptr
  end type

  !> the checkpoints of a run in one folder
  type :: gr_checkpoints
    type(c_ptr) :: handle = c_null_ptr
  end type

  !> a checkpoint that is written
  type :: gr_checkpoint_writer
    type(c_ptr) :: handle = c_null_ptr
  end type

  !> a checkpoint, open for reading
  type :: gr_checkpoint
    type(c_ptr) :: handle = c_null_ptr
  end type

  type, bind(c) :: gr_field
    integer(c_size_t) :: size = 0  !< sizeof(gr_field)
    type(c_ptr) :: base = c_null_ptr  !< element 0 of each axis
    integer(c_int) :: type = 0  !< of the elements
    integer(c_int) :: rank = 0  !< number of memory axes
    integer(c_int64_t) :: extents(GR_MAX_AXES) = 0  !< elements along each memory axis
    integer(c_int64_t) :: strides(GR_MAX_AXES) = 0  !< bytes between neighbors along each memory axis
    integer(c_int) :: space = 0  !< memory space
    integer(c_int) :: num_grid_axes = 0  !< 0: the grid axes are the last memory axes, in order
    integer(c_int) :: grid_axes(GR_MAX_AXES) = 0  !< memory axis of each grid axis, if `num_grid_axes` is not 0
    integer(c_int) :: has_first = 0  !< 0: the memory has exactly the cells of the box that the call expects
    integer(c_int64_t) :: first(GR_MAX_AXES) = 0  !< element of the first owned cell (halo plans) or of the first cell of the box
    integer(c_int) :: parity = 0  !< at poles and seams; read by halo plans
    integer(c_int) :: kind = 0  !< kind of a halo plan, from 0
    type(c_ptr) :: queue = c_null_ptr  !< native queue of a device field (cudaStream_t, hipStream_t); NULL: none
  end type

  type, bind(c) :: gr_halo_kind
    integer(c_size_t) :: size = 0  !< sizeof(gr_halo_kind)
    integer(c_int) :: ndim = 0  !< number of axes of the grid
    integer(c_int64_t) :: lower(GR_MAX_AXES) = 0  !< ghost cells to fill below each axis
    integer(c_int64_t) :: upper(GR_MAX_AXES) = 0  !< ghost cells to fill above each axis
    integer(c_int) :: lower_edge(GR_MAX_AXES) = 0  !< rule below each axis, a gr_edge
    integer(c_int) :: upper_edge(GR_MAX_AXES) = 0  !< rule above each axis, a gr_edge
    real(c_double) :: constant(GR_MAX_AXES) = 0  !< value of GR_EDGE_CONSTANT
    integer(c_int) :: stagger(GR_MAX_AXES) = 0  !< position of the values, a gr_stagger
    integer(c_int) :: longitude_axis = 0  !< axis that a pole shifts and a seam reverses; others ignore it
    integer(c_int) :: odd_longitudes = 0  !< poles with an odd number of longitudes
    integer(c_int) :: mirror_line = 0  !< owned cells that are stored twice
    integer(c_int) :: has_pivot = 0  !< 0: the pivot of a seam is -1 (a corner) on a face and 0 (a cell) on a row
    integer(c_int64_t) :: pivot = 0  !< half index along the longitudes of a seam's pivot
    integer(c_int) :: corners = 0  !< whether corners are filled
    integer(c_int) :: num_directions = 0  !< 0: all parts of the halo are filled
    integer(c_int) :: directions(GR_MAX_AXES, GR_MAX_DIRECTIONS) = 0  !< parts to fill: -1, 0 or 1 per axis
    integer(c_int) :: has_memory = 0  !< 0: fields in memory have the widths `lower` and `upper`
    integer(c_int64_t) :: memory_lower(GR_MAX_AXES) = 0  !< ghost cells that fields have in memory, at least `lower`
    integer(c_int64_t) :: memory_upper(GR_MAX_AXES) = 0  !< the same above
    integer(c_int) :: widths_of_this_rank = 0  !< each rank has widths of its own
    real(c_double) :: hole = 0  !< value of ghost cells whose image no rank owns
    integer(c_int) :: has_component = 0  !< values are components of vectors on faces that meet
    integer(c_int) :: component = 0  !< along which axis of the face; the kind of the other component stands beside this one
  end type

  type, bind(c) :: gr_face_joint
    integer(c_size_t) :: size = 0  !< sizeof(gr_face_joint)
    integer(c_int) :: face = 0  !< one face
    integer(c_int) :: axis = 0  !< of the face, across the side
    integer(c_int) :: is_upper = 0  !< the side after the last cell of the axis, not before the first
    integer(c_int) :: other_face = 0  !< the face that it meets, which may be the same one
    integer(c_int) :: other_axis = 0  !< as `axis`
    integer(c_int) :: other_is_upper = 0  !< as `is_upper`
    integer(c_int) :: is_reversed = 0  !< cells along the two sides are counted in opposite directions
  end type

  type, bind(c) :: gr_repartition_options
    integer(c_size_t) :: size = 0  !< sizeof(gr_repartition_options)
    integer(c_int) :: ndim = 0  !< number of axes of both grids; needed where a member below is set
    integer(c_int) :: has_permutation = 0  !< `permutation` is set
    integer(c_int) :: permutation(GR_MAX_AXES) = 0  !< axis of the old grid that becomes each axis of the new one
    integer(c_int) :: has_from = 0  !< only some cells of the old grid are read
    integer(c_int64_t) :: from_first(GR_MAX_AXES) = 0  !< first of them along each axis
    integer(c_int64_t) :: from_step(GR_MAX_AXES) = 0  !< cells from one to the next, also negative, never 0
    integer(c_int64_t) :: from_count(GR_MAX_AXES) = 0  !< number of them along each axis
    integer(c_int) :: has_to = 0  !< they become only some cells of the new grid
    integer(c_int64_t) :: to_first(GR_MAX_AXES) = 0  !< as `from_first`
    integer(c_int64_t) :: to_step(GR_MAX_AXES) = 0  !< as `from_step`
    integer(c_int64_t) :: to_count(GR_MAX_AXES) = 0  !< as `from_count`
    integer(c_int64_t) :: workspace_bytes = 0  !< most bytes of buffers on this rank; 0: no limit
  end type

  type, bind(c) :: gr_update
    integer(c_size_t) :: size = 0  !< sizeof(gr_update)
    real(c_double) :: alpha(2) = [1.0_c_double, 0.0_c_double]  !< real and imaginary part; the initialiser sets 1
    integer(c_int) :: has_beta = 0  !< `beta` is set
    real(c_double) :: beta(2) = 0  !< real and imaginary part
    integer(c_int) :: conjugate = 0  !< x is conjugated
    integer(c_int) :: from_packed = 0  !< the field on the old layout holds packed integers
    real(c_double) :: from_scale = 0  !< value of one unit
    real(c_double) :: from_offset = 0  !< value of 0
    integer(c_int) :: from_has_missing = 0  !< `from_missing` is set
    integer(c_int64_t) :: from_missing = 0  !< integer that means "missing"
    integer(c_int) :: to_packed = 0  !< the same for the field on the new layout
    real(c_double) :: to_scale = 0  !< value of one unit
    real(c_double) :: to_offset = 0  !< value of 0
    integer(c_int) :: to_has_missing = 0  !< `to_missing` is set
    integer(c_int64_t) :: to_missing = 0  !< integer that means "missing"
  end type

  type, bind(c) :: gr_relabel_options
    integer(c_size_t) :: size = 0  !< sizeof(gr_relabel_options)
    integer(c_int) :: ndim = 0  !< number of axes; needed where `permutation` is set
    integer(c_int) :: has_permutation = 0  !< `permutation` is set
    integer(c_int) :: permutation(GR_MAX_AXES) = 0  !< axis of the old grid that becomes each axis of the new one
    integer(c_int64_t) :: off_node_weight = 0  !< cost of a cell that goes to another node, relative to one that stays; 0: 4
  end type

  type, bind(c) :: gr_relabelling
    integer(c_size_t) :: size = 0  !< sizeof(gr_relabelling)
    integer(c_int64_t) :: moved_cells_before = 0  !< with the boxes where they were
    integer(c_int64_t) :: moved_cells = 0  !< with the boxes of the new layout
    integer(c_int64_t) :: off_node_cells_before = 0  !< the part of `moved_cells_before` that leaves its node
    integer(c_int64_t) :: off_node_cells = 0  !< the part of `moved_cells` that leaves its node
    integer(c_int64_t) :: cost_above_least = 0  !< no assignment costs less by more than this; 0: none costs less
  end type

  type, bind(c) :: gr_counts
    integer(c_size_t) :: size = 0  !< sizeof(gr_counts)
    integer(c_int) :: num_send_peers = 0  !< ranks that this rank sends to
    integer(c_int) :: num_receive_peers = 0  !< ranks that this rank receives from
    integer(c_int64_t) :: send_cells = 0  !< to other ranks
    integer(c_int64_t) :: receive_cells = 0  !< from other ranks
    integer(c_int64_t) :: local_cells = 0  !< from this rank to itself
    integer(c_int64_t) :: filled_cells = 0  !< from constants
  end type

  type, bind(c) :: gr_stats
    integer(c_size_t) :: size = 0  !< sizeof(gr_stats)
    integer(c_int64_t) :: num_calls = 0  !< calls so far
    integer(c_int64_t) :: point_to_point_messages = 0  !< messages sent by MPI
    integer(c_int64_t) :: point_to_point_bytes = 0  !< bytes of these
    integer(c_int64_t) :: node_packed_messages = 0  !< messages through node-shared memory, packed by the sender
    integer(c_int64_t) :: node_packed_bytes = 0  !< bytes of these
    integer(c_int64_t) :: node_in_place_messages = 0  !< messages that the peer reads in the sender's field
    integer(c_int64_t) :: node_in_place_bytes = 0  !< bytes of these
    integer(c_int64_t) :: local_bytes = 0  !< moved on this rank
    integer(c_int64_t) :: num_workspaces = 0  !< made so far; constant once every pattern of calls was seen
    integer(c_int64_t) :: buffer_bytes = 0  !< memory of all workspaces
    integer(c_int) :: mpi_reads_device = 0  !< device memory is passed to MPI directly
    real(c_double) :: pack_seconds = 0  !< s, packing and posting
    real(c_double) :: local_seconds = 0  !< s, moving on this rank
    real(c_double) :: wait_seconds = 0  !< s, waiting for messages
    real(c_double) :: unpack_seconds = 0  !< s, unpacking
    integer(c_int) :: peers_read_device = 0  !< ranks of the node read each other's device memory
  end type

  type, bind(c) :: gr_variable_options
    integer(c_size_t) :: size = 0  !< sizeof(gr_variable_options)
    integer(c_int) :: ndim = 0  !< number of axes of `chunk`; 0: contiguous, or one record per chunk
    integer(c_int64_t) :: chunk(GR_MAX_AXES) = 0  !< cells of a chunk along each axis
    integer(c_int) :: deflate = 0  !< 1 to 9; 0: not compressed; needs `chunk`
    integer(c_int) :: packed = 0  !< stored as `(value - offset) / scale`
    real(c_double) :: scale = 0  !< value of one unit
    real(c_double) :: offset = 0  !< value of 0
    integer(c_int) :: has_fill = 0  !< `fill` is set
    real(c_double) :: fill = 0  !< stored for NaN
  end type
  integer, parameter :: FIELD_WORDS = storage_size(gr_field()) / 64
end module graticule_types

!> `gr_field`: the description of an array.
module graticule_fields
  use, intrinsic :: iso_c_binding
  use graticule_types
  implicit none
  private
  public :: gr_field, describe_whole, set_options
  !> Default logicals are moved as integers of their size.
  integer, parameter :: logical_code = merge(GR_I64, GR_I32, storage_size(.true.) == 64)

#ifdef GRATICULE_FORTRAN_DESCRIPTORS
  !> Describes an array for the calls of the library; it must be `asynchronous` or `target` where they are in flight.
  !>
  !> The array itself, or a section: of a component (`cells%t`, or a pointer to it) and of an expression compilers pass a
  !> copy, which is gone when the description is used. Pass those to the calls themselves; `-Warray-temporaries` names them.
  !>
  !> `axes`: the dimension of each grid axis; without it, the grid axes are the first dimensions, in order.
  !> `owned`: the place of the first owned cell along each dimension, counted from 1 (`is - lbound(u, 1) + 1`), where the
  !> array has other cells too; without it, the array has exactly the cells of the box that the call expects.
  !> `parity`: GR_ODD for components of horizontal vectors. `kind`: of a halo plan, from 1.
  interface gr_field
    module procedure field_of_any
  end interface

  interface
    subroutine gr_fortran_descriptor(array, num_axes, axes, num_owned, owned, parity, kind, field) bind(c)
      import
      type(*), dimension(..), target, asynchronous :: array
      integer(c_int), value :: num_axes, num_owned, parity, kind
      integer(c_int), intent(in) :: axes(*), owned(*)
      type(c_ptr), value :: field  ! flang 22 loses a type here whose name is that of a generic function, too
    end subroutine
  end interface

  !> As `gr_field`, of an array that is described and used within one call.
  interface describe_whole
    module procedure whole_of_any
  end interface

contains

  subroutine whole_of_any(array, field, axes, owned)
    type(*), dimension(..), target, asynchronous :: array
    type(gr_field), intent(inout), target :: field
    integer, intent(in), optional :: axes(:), owned(:)
    call describe(array, c_loc(field), axes, owned)
  end subroutine

  function field_of_any(array, axes, owned, parity, kind) result(field)
    type(*), dimension(..), target, asynchronous :: array
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field), target :: field
    call describe(array, c_loc(field), axes, owned, parity, kind)
  end function

  !> Writes all of a field, which needs no initial values.
  subroutine describe(array, field, axes, owned, parity, kind)
    type(*), dimension(..), target, asynchronous :: array
    type(c_ptr), intent(in) :: field
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    integer(c_int) :: axes_c(16), owned_c(16), num_axes, num_owned, parity_c, kind_c
    num_axes = 0
    num_owned = 0
    parity_c = GR_EVEN
    kind_c = 0
    if (present(axes)) then
      num_axes = int(min(size(axes), size(axes_c)), c_int)
      axes_c(:num_axes) = int(axes(:num_axes), c_int)
    end if
    if (present(owned)) then
      num_owned = int(min(size(owned), size(owned_c)), c_int)
      owned_c(:num_owned) = int(owned(:num_owned), c_int)
    end if
    if (present(parity)) parity_c = int(parity, c_int)
    if (present(kind)) kind_c = int(kind - 1, c_int)
    call gr_fortran_descriptor(array, num_axes, axes_c, num_owned, owned_c, parity_c, kind_c, field)
  end subroutine
#else
  interface gr_field
    module procedure field_int8_1
    module procedure field_int8_2
    module procedure field_int8_3
    module procedure field_int8_4
    module procedure field_int8_5
    module procedure field_int8_6
    module procedure field_int8_7
    module procedure field_int16_1
    module procedure field_int16_2
    module procedure field_int16_3
    module procedure field_int16_4
    module procedure field_int16_5
    module procedure field_int16_6
    module procedure field_int16_7
    module procedure field_int32_1
    module procedure field_int32_2
    module procedure field_int32_3
    module procedure field_int32_4
    module procedure field_int32_5
    module procedure field_int32_6
    module procedure field_int32_7
    module procedure field_int64_1
    module procedure field_int64_2
    module procedure field_int64_3
    module procedure field_int64_4
    module procedure field_int64_5
    module procedure field_int64_6
    module procedure field_int64_7
    module procedure field_real32_1
    module procedure field_real32_2
    module procedure field_real32_3
    module procedure field_real32_4
    module procedure field_real32_5
    module procedure field_real32_6
    module procedure field_real32_7
    module procedure field_real64_1
    module procedure field_real64_2
    module procedure field_real64_3
    module procedure field_real64_4
    module procedure field_real64_5
    module procedure field_real64_6
    module procedure field_real64_7
    module procedure field_complex32_1
    module procedure field_complex32_2
    module procedure field_complex32_3
    module procedure field_complex32_4
    module procedure field_complex32_5
    module procedure field_complex32_6
    module procedure field_complex32_7
    module procedure field_complex64_1
    module procedure field_complex64_2
    module procedure field_complex64_3
    module procedure field_complex64_4
    module procedure field_complex64_5
    module procedure field_complex64_6
    module procedure field_complex64_7
    module procedure field_bool_1
    module procedure field_bool_2
    module procedure field_bool_3
    module procedure field_bool_4
    module procedure field_bool_5
    module procedure field_bool_6
    module procedure field_bool_7
    module procedure field_logical_1
    module procedure field_logical_2
    module procedure field_logical_3
    module procedure field_logical_4
    module procedure field_logical_5
    module procedure field_logical_6
    module procedure field_logical_7
  end interface

  !> As `gr_field`, of an array that is described and used within one call.
  interface describe_whole
    module procedure whole_int8
    module procedure whole_int16
    module procedure whole_int32
    module procedure whole_int64
    module procedure whole_real32
    module procedure whole_real64
    module procedure whole_complex32
    module procedure whole_complex64
    module procedure whole_bool
    module procedure whole_logical
  end interface

  interface
    subroutine gr_fortran_field(base, type, rank, extents, strides, num_axes, axes, num_owned, owned, parity, kind, field) &
        bind(c)
      import
      type(c_ptr), value :: base
      integer(c_int), value :: type, rank, num_axes, num_owned, parity, kind
      integer(c_int64_t), intent(in) :: extents(*), strides(*)
      integer(c_int), intent(in) :: axes(*), owned(*)
      type(c_ptr), value :: field
    end subroutine
  end interface

contains

  !> `next`: the address of the second element along each dimension.
  function field_at(first, next, code, extents, axes, owned, parity, kind) result(field)
    type(c_ptr), intent(in) :: first, next(:)
    integer, intent(in) :: code
    integer, intent(in) :: extents(:)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field), target :: field
    integer(c_int) :: axes_c(16), owned_c(16), num_axes, num_owned, parity_c, kind_c
    integer(c_int64_t) :: strides(size(next))
    integer :: d
    num_axes = 0
    num_owned = 0
    parity_c = GR_EVEN
    kind_c = 0
    if (present(axes)) then
      num_axes = int(min(size(axes), size(axes_c)), c_int)
      axes_c(:num_axes) = int(axes(:num_axes), c_int)
    end if
    if (present(owned)) then
      num_owned = int(min(size(owned), size(owned_c)), c_int)
      owned_c(:num_owned) = int(owned(:num_owned), c_int)
    end if
    if (present(parity)) parity_c = int(parity, c_int)
    if (present(kind)) kind_c = int(kind - 1, c_int)
    strides = 0
    do d = 1, size(next)
      if (c_associated(next(d))) strides(d) = transfer(next(d), 0_c_intptr_t) - transfer(first, 0_c_intptr_t)
    end do
    call gr_fortran_field(first, int(code, c_int), int(size(next), c_int), int(extents, c_int64_t), strides, num_axes, axes_c, &
        num_owned, owned_c, parity_c, kind_c, c_loc(field))
  end function

  function field_int8_1(array, axes, owned, parity, kind) result(field)
    integer(c_int8_t), target, asynchronous :: array(:)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(1)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2))
    end if
    field = field_at(first, next, GR_I8, shape(array), axes, owned, parity, kind)
  end function

  function field_int8_2(array, axes, owned, parity, kind) result(field)
    integer(c_int8_t), target, asynchronous :: array(:, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(2)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2))
    end if
    field = field_at(first, next, GR_I8, shape(array), axes, owned, parity, kind)
  end function

  function field_int8_3(array, axes, owned, parity, kind) result(field)
    integer(c_int8_t), target, asynchronous :: array(:, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(3)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2))
    end if
    field = field_at(first, next, GR_I8, shape(array), axes, owned, parity, kind)
  end function

  function field_int8_4(array, axes, owned, parity, kind) result(field)
    integer(c_int8_t), target, asynchronous :: array(:, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(4)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2))
    end if
    field = field_at(first, next, GR_I8, shape(array), axes, owned, parity, kind)
  end function

  function field_int8_5(array, axes, owned, parity, kind) result(field)
    integer(c_int8_t), target, asynchronous :: array(:, :, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(5)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2, 1))
      if (size(array, 5) > 1) next(5) = c_loc(array(1, 1, 1, 1, 2))
    end if
    field = field_at(first, next, GR_I8, shape(array), axes, owned, parity, kind)
  end function

  function field_int8_6(array, axes, owned, parity, kind) result(field)
    integer(c_int8_t), target, asynchronous :: array(:, :, :, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(6)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1, 1, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2, 1, 1))
      if (size(array, 5) > 1) next(5) = c_loc(array(1, 1, 1, 1, 2, 1))
      if (size(array, 6) > 1) next(6) = c_loc(array(1, 1, 1, 1, 1, 2))
    end if
    field = field_at(first, next, GR_I8, shape(array), axes, owned, parity, kind)
  end function

  function field_int8_7(array, axes, owned, parity, kind) result(field)
    integer(c_int8_t), target, asynchronous :: array(:, :, :, :, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(7)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1, 1, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1, 1, 1, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2, 1, 1, 1))
      if (size(array, 5) > 1) next(5) = c_loc(array(1, 1, 1, 1, 2, 1, 1))
      if (size(array, 6) > 1) next(6) = c_loc(array(1, 1, 1, 1, 1, 2, 1))
      if (size(array, 7) > 1) next(7) = c_loc(array(1, 1, 1, 1, 1, 1, 2))
    end if
    field = field_at(first, next, GR_I8, shape(array), axes, owned, parity, kind)
  end function

  function field_int16_1(array, axes, owned, parity, kind) result(field)
    integer(c_int16_t), target, asynchronous :: array(:)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(1)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2))
    end if
    field = field_at(first, next, GR_I16, shape(array), axes, owned, parity, kind)
  end function

  function field_int16_2(array, axes, owned, parity, kind) result(field)
    integer(c_int16_t), target, asynchronous :: array(:, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(2)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2))
    end if
    field = field_at(first, next, GR_I16, shape(array), axes, owned, parity, kind)
  end function

  function field_int16_3(array, axes, owned, parity, kind) result(field)
    integer(c_int16_t), target, asynchronous :: array(:, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(3)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2))
    end if
    field = field_at(first, next, GR_I16, shape(array), axes, owned, parity, kind)
  end function

  function field_int16_4(array, axes, owned, parity, kind) result(field)
    integer(c_int16_t), target, asynchronous :: array(:, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(4)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2))
    end if
    field = field_at(first, next, GR_I16, shape(array), axes, owned, parity, kind)
  end function

  function field_int16_5(array, axes, owned, parity, kind) result(field)
    integer(c_int16_t), target, asynchronous :: array(:, :, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(5)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2, 1))
      if (size(array, 5) > 1) next(5) = c_loc(array(1, 1, 1, 1, 2))
    end if
    field = field_at(first, next, GR_I16, shape(array), axes, owned, parity, kind)
  end function

  function field_int16_6(array, axes, owned, parity, kind) result(field)
    integer(c_int16_t), target, asynchronous :: array(:, :, :, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(6)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1, 1, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2, 1, 1))
      if (size(array, 5) > 1) next(5) = c_loc(array(1, 1, 1, 1, 2, 1))
      if (size(array, 6) > 1) next(6) = c_loc(array(1, 1, 1, 1, 1, 2))
    end if
    field = field_at(first, next, GR_I16, shape(array), axes, owned, parity, kind)
  end function

  function field_int16_7(array, axes, owned, parity, kind) result(field)
    integer(c_int16_t), target, asynchronous :: array(:, :, :, :, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(7)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1, 1, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1, 1, 1, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2, 1, 1, 1))
      if (size(array, 5) > 1) next(5) = c_loc(array(1, 1, 1, 1, 2, 1, 1))
      if (size(array, 6) > 1) next(6) = c_loc(array(1, 1, 1, 1, 1, 2, 1))
      if (size(array, 7) > 1) next(7) = c_loc(array(1, 1, 1, 1, 1, 1, 2))
    end if
    field = field_at(first, next, GR_I16, shape(array), axes, owned, parity, kind)
  end function

  function field_int32_1(array, axes, owned, parity, kind) result(field)
    integer(c_int32_t), target, asynchronous :: array(:)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(1)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2))
    end if
    field = field_at(first, next, GR_I32, shape(array), axes, owned, parity, kind)
  end function

  function field_int32_2(array, axes, owned, parity, kind) result(field)
    integer(c_int32_t), target, asynchronous :: array(:, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(2)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2))
    end if
    field = field_at(first, next, GR_I32, shape(array), axes, owned, parity, kind)
  end function

  function field_int32_3(array, axes, owned, parity, kind) result(field)
    integer(c_int32_t), target, asynchronous :: array(:, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(3)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2))
    end if
    field = field_at(first, next, GR_I32, shape(array), axes, owned, parity, kind)
  end function

  function field_int32_4(array, axes, owned, parity, kind) result(field)
    integer(c_int32_t), target, asynchronous :: array(:, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(4)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2))
    end if
    field = field_at(first, next, GR_I32, shape(array), axes, owned, parity, kind)
  end function

  function field_int32_5(array, axes, owned, parity, kind) result(field)
    integer(c_int32_t), target, asynchronous :: array(:, :, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(5)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2, 1))
      if (size(array, 5) > 1) next(5) = c_loc(array(1, 1, 1, 1, 2))
    end if
    field = field_at(first, next, GR_I32, shape(array), axes, owned, parity, kind)
  end function

  function field_int32_6(array, axes, owned, parity, kind) result(field)
    integer(c_int32_t), target, asynchronous :: array(:, :, :, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(6)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1, 1, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2, 1, 1))
      if (size(array, 5) > 1) next(5) = c_loc(array(1, 1, 1, 1, 2, 1))
      if (size(array, 6) > 1) next(6) = c_loc(array(1, 1, 1, 1, 1, 2))
    end if
    field = field_at(first, next, GR_I32, shape(array), axes, owned, parity, kind)
  end function

  function field_int32_7(array, axes, owned, parity, kind) result(field)
    integer(c_int32_t), target, asynchronous :: array(:, :, :, :, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(7)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1, 1, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1, 1, 1, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2, 1, 1, 1))
      if (size(array, 5) > 1) next(5) = c_loc(array(1, 1, 1, 1, 2, 1, 1))
      if (size(array, 6) > 1) next(6) = c_loc(array(1, 1, 1, 1, 1, 2, 1))
      if (size(array, 7) > 1) next(7) = c_loc(array(1, 1, 1, 1, 1, 1, 2))
    end if
    field = field_at(first, next, GR_I32, shape(array), axes, owned, parity, kind)
  end function

  function field_int64_1(array, axes, owned, parity, kind) result(field)
    integer(c_int64_t), target, asynchronous :: array(:)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(1)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2))
    end if
    field = field_at(first, next, GR_I64, shape(array), axes, owned, parity, kind)
  end function

  function field_int64_2(array, axes, owned, parity, kind) result(field)
    integer(c_int64_t), target, asynchronous :: array(:, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(2)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2))
    end if
    field = field_at(first, next, GR_I64, shape(array), axes, owned, parity, kind)
  end function

  function field_int64_3(array, axes, owned, parity, kind) result(field)
    integer(c_int64_t), target, asynchronous :: array(:, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(3)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2))
    end if
    field = field_at(first, next, GR_I64, shape(array), axes, owned, parity, kind)
  end function

  function field_int64_4(array, axes, owned, parity, kind) result(field)
    integer(c_int64_t), target, asynchronous :: array(:, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(4)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2))
    end if
    field = field_at(first, next, GR_I64, shape(array), axes, owned, parity, kind)
  end function

  function field_int64_5(array, axes, owned, parity, kind) result(field)
    integer(c_int64_t), target, asynchronous :: array(:, :, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(5)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2, 1))
      if (size(array, 5) > 1) next(5) = c_loc(array(1, 1, 1, 1, 2))
    end if
    field = field_at(first, next, GR_I64, shape(array), axes, owned, parity, kind)
  end function

  function field_int64_6(array, axes, owned, parity, kind) result(field)
    integer(c_int64_t), target, asynchronous :: array(:, :, :, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(6)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1, 1, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2, 1, 1))
      if (size(array, 5) > 1) next(5) = c_loc(array(1, 1, 1, 1, 2, 1))
      if (size(array, 6) > 1) next(6) = c_loc(array(1, 1, 1, 1, 1, 2))
    end if
    field = field_at(first, next, GR_I64, shape(array), axes, owned, parity, kind)
  end function

  function field_int64_7(array, axes, owned, parity, kind) result(field)
    integer(c_int64_t), target, asynchronous :: array(:, :, :, :, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(7)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1, 1, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1, 1, 1, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2, 1, 1, 1))
      if (size(array, 5) > 1) next(5) = c_loc(array(1, 1, 1, 1, 2, 1, 1))
      if (size(array, 6) > 1) next(6) = c_loc(array(1, 1, 1, 1, 1, 2, 1))
      if (size(array, 7) > 1) next(7) = c_loc(array(1, 1, 1, 1, 1, 1, 2))
    end if
    field = field_at(first, next, GR_I64, shape(array), axes, owned, parity, kind)
  end function

  function field_real32_1(array, axes, owned, parity, kind) result(field)
    real(c_float), target, asynchronous :: array(:)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(1)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2))
    end if
    field = field_at(first, next, GR_F32, shape(array), axes, owned, parity, kind)
  end function

  function field_real32_2(array, axes, owned, parity, kind) result(field)
    real(c_float), target, asynchronous :: array(:, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(2)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2))
    end if
    field = field_at(first, next, GR_F32, shape(array), axes, owned, parity, kind)
  end function

  function field_real32_3(array, axes, owned, parity, kind) result(field)
    real(c_float), target, asynchronous :: array(:, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(3)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2))
    end if
    field = field_at(first, next, GR_F32, shape(array), axes, owned, parity, kind)
  end function

  function field_real32_4(array, axes, owned, parity, kind) result(field)
    real(c_float), target, asynchronous :: array(:, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(4)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2))
    end if
    field = field_at(first, next, GR_F32, shape(array), axes, owned, parity, kind)
  end function

  function field_real32_5(array, axes, owned, parity, kind) result(field)
    real(c_float), target, asynchronous :: array(:, :, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(5)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2, 1))
      if (size(array, 5) > 1) next(5) = c_loc(array(1, 1, 1, 1, 2))
    end if
    field = field_at(first, next, GR_F32, shape(array), axes, owned, parity, kind)
  end function

  function field_real32_6(array, axes, owned, parity, kind) result(field)
    real(c_float), target, asynchronous :: array(:, :, :, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(6)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1, 1, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2, 1, 1))
      if (size(array, 5) > 1) next(5) = c_loc(array(1, 1, 1, 1, 2, 1))
      if (size(array, 6) > 1) next(6) = c_loc(array(1, 1, 1, 1, 1, 2))
    end if
    field = field_at(first, next, GR_F32, shape(array), axes, owned, parity, kind)
  end function

  function field_real32_7(array, axes, owned, parity, kind) result(field)
    real(c_float), target, asynchronous :: array(:, :, :, :, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(7)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1, 1, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1, 1, 1, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2, 1, 1, 1))
      if (size(array, 5) > 1) next(5) = c_loc(array(1, 1, 1, 1, 2, 1, 1))
      if (size(array, 6) > 1) next(6) = c_loc(array(1, 1, 1, 1, 1, 2, 1))
      if (size(array, 7) > 1) next(7) = c_loc(array(1, 1, 1, 1, 1, 1, 2))
    end if
    field = field_at(first, next, GR_F32, shape(array), axes, owned, parity, kind)
  end function

  function field_real64_1(array, axes, owned, parity, kind) result(field)
    real(c_double), target, asynchronous :: array(:)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(1)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2))
    end if
    field = field_at(first, next, GR_F64, shape(array), axes, owned, parity, kind)
  end function

  function field_real64_2(array, axes, owned, parity, kind) result(field)
    real(c_double), target, asynchronous :: array(:, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(2)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2))
    end if
    field = field_at(first, next, GR_F64, shape(array), axes, owned, parity, kind)
  end function

  function field_real64_3(array, axes, owned, parity, kind) result(field)
    real(c_double), target, asynchronous :: array(:, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(3)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2))
    end if
    field = field_at(first, next, GR_F64, shape(array), axes, owned, parity, kind)
  end function

  function field_real64_4(array, axes, owned, parity, kind) result(field)
    real(c_double), target, asynchronous :: array(:, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(4)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2))
    end if
    field = field_at(first, next, GR_F64, shape(array), axes, owned, parity, kind)
  end function

  function field_real64_5(array, axes, owned, parity, kind) result(field)
    real(c_double), target, asynchronous :: array(:, :, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(5)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2, 1))
      if (size(array, 5) > 1) next(5) = c_loc(array(1, 1, 1, 1, 2))
    end if
    field = field_at(first, next, GR_F64, shape(array), axes, owned, parity, kind)
  end function

  function field_real64_6(array, axes, owned, parity, kind) result(field)
    real(c_double), target, asynchronous :: array(:, :, :, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(6)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1, 1, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2, 1, 1))
      if (size(array, 5) > 1) next(5) = c_loc(array(1, 1, 1, 1, 2, 1))
      if (size(array, 6) > 1) next(6) = c_loc(array(1, 1, 1, 1, 1, 2))
    end if
    field = field_at(first, next, GR_F64, shape(array), axes, owned, parity, kind)
  end function

  function field_real64_7(array, axes, owned, parity, kind) result(field)
    real(c_double), target, asynchronous :: array(:, :, :, :, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(7)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1, 1, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1, 1, 1, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2, 1, 1, 1))
      if (size(array, 5) > 1) next(5) = c_loc(array(1, 1, 1, 1, 2, 1, 1))
      if (size(array, 6) > 1) next(6) = c_loc(array(1, 1, 1, 1, 1, 2, 1))
      if (size(array, 7) > 1) next(7) = c_loc(array(1, 1, 1, 1, 1, 1, 2))
    end if
    field = field_at(first, next, GR_F64, shape(array), axes, owned, parity, kind)
  end function

  function field_complex32_1(array, axes, owned, parity, kind) result(field)
    complex(c_float_complex), target, asynchronous :: array(:)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(1)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2))
    end if
    field = field_at(first, next, GR_C64, shape(array), axes, owned, parity, kind)
  end function

  function field_complex32_2(array, axes, owned, parity, kind) result(field)
    complex(c_float_complex), target, asynchronous :: array(:, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(2)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2))
    end if
    field = field_at(first, next, GR_C64, shape(array), axes, owned, parity, kind)
  end function

  function field_complex32_3(array, axes, owned, parity, kind) result(field)
    complex(c_float_complex), target, asynchronous :: array(:, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(3)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2))
    end if
    field = field_at(first, next, GR_C64, shape(array), axes, owned, parity, kind)
  end function

  function field_complex32_4(array, axes, owned, parity, kind) result(field)
    complex(c_float_complex), target, asynchronous :: array(:, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(4)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2))
    end if
    field = field_at(first, next, GR_C64, shape(array), axes, owned, parity, kind)
  end function

  function field_complex32_5(array, axes, owned, parity, kind) result(field)
    complex(c_float_complex), target, asynchronous :: array(:, :, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(5)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2, 1))
      if (size(array, 5) > 1) next(5) = c_loc(array(1, 1, 1, 1, 2))
    end if
    field = field_at(first, next, GR_C64, shape(array), axes, owned, parity, kind)
  end function

  function field_complex32_6(array, axes, owned, parity, kind) result(field)
    complex(c_float_complex), target, asynchronous :: array(:, :, :, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(6)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1, 1, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2, 1, 1))
      if (size(array, 5) > 1) next(5) = c_loc(array(1, 1, 1, 1, 2, 1))
      if (size(array, 6) > 1) next(6) = c_loc(array(1, 1, 1, 1, 1, 2))
    end if
    field = field_at(first, next, GR_C64, shape(array), axes, owned, parity, kind)
  end function

  function field_complex32_7(array, axes, owned, parity, kind) result(field)
    complex(c_float_complex), target, asynchronous :: array(:, :, :, :, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(7)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1, 1, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1, 1, 1, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2, 1, 1, 1))
      if (size(array, 5) > 1) next(5) = c_loc(array(1, 1, 1, 1, 2, 1, 1))
      if (size(array, 6) > 1) next(6) = c_loc(array(1, 1, 1, 1, 1, 2, 1))
      if (size(array, 7) > 1) next(7) = c_loc(array(1, 1, 1, 1, 1, 1, 2))
    end if
    field = field_at(first, next, GR_C64, shape(array), axes, owned, parity, kind)
  end function

  function field_complex64_1(array, axes, owned, parity, kind) result(field)
    complex(c_double_complex), target, asynchronous :: array(:)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(1)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2))
    end if
    field = field_at(first, next, GR_C128, shape(array), axes, owned, parity, kind)
  end function

  function field_complex64_2(array, axes, owned, parity, kind) result(field)
    complex(c_double_complex), target, asynchronous :: array(:, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(2)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2))
    end if
    field = field_at(first, next, GR_C128, shape(array), axes, owned, parity, kind)
  end function

  function field_complex64_3(array, axes, owned, parity, kind) result(field)
    complex(c_double_complex), target, asynchronous :: array(:, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(3)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2))
    end if
    field = field_at(first, next, GR_C128, shape(array), axes, owned, parity, kind)
  end function

  function field_complex64_4(array, axes, owned, parity, kind) result(field)
    complex(c_double_complex), target, asynchronous :: array(:, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(4)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2))
    end if
    field = field_at(first, next, GR_C128, shape(array), axes, owned, parity, kind)
  end function

  function field_complex64_5(array, axes, owned, parity, kind) result(field)
    complex(c_double_complex), target, asynchronous :: array(:, :, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(5)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2, 1))
      if (size(array, 5) > 1) next(5) = c_loc(array(1, 1, 1, 1, 2))
    end if
    field = field_at(first, next, GR_C128, shape(array), axes, owned, parity, kind)
  end function

  function field_complex64_6(array, axes, owned, parity, kind) result(field)
    complex(c_double_complex), target, asynchronous :: array(:, :, :, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(6)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1, 1, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2, 1, 1))
      if (size(array, 5) > 1) next(5) = c_loc(array(1, 1, 1, 1, 2, 1))
      if (size(array, 6) > 1) next(6) = c_loc(array(1, 1, 1, 1, 1, 2))
    end if
    field = field_at(first, next, GR_C128, shape(array), axes, owned, parity, kind)
  end function

  function field_complex64_7(array, axes, owned, parity, kind) result(field)
    complex(c_double_complex), target, asynchronous :: array(:, :, :, :, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(7)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1, 1, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1, 1, 1, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2, 1, 1, 1))
      if (size(array, 5) > 1) next(5) = c_loc(array(1, 1, 1, 1, 2, 1, 1))
      if (size(array, 6) > 1) next(6) = c_loc(array(1, 1, 1, 1, 1, 2, 1))
      if (size(array, 7) > 1) next(7) = c_loc(array(1, 1, 1, 1, 1, 1, 2))
    end if
    field = field_at(first, next, GR_C128, shape(array), axes, owned, parity, kind)
  end function

  function field_bool_1(array, axes, owned, parity, kind) result(field)
    logical(c_bool), target, asynchronous :: array(:)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(1)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2))
    end if
    field = field_at(first, next, GR_U8, shape(array), axes, owned, parity, kind)
  end function

  function field_bool_2(array, axes, owned, parity, kind) result(field)
    logical(c_bool), target, asynchronous :: array(:, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(2)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2))
    end if
    field = field_at(first, next, GR_U8, shape(array), axes, owned, parity, kind)
  end function

  function field_bool_3(array, axes, owned, parity, kind) result(field)
    logical(c_bool), target, asynchronous :: array(:, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(3)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2))
    end if
    field = field_at(first, next, GR_U8, shape(array), axes, owned, parity, kind)
  end function

  function field_bool_4(array, axes, owned, parity, kind) result(field)
    logical(c_bool), target, asynchronous :: array(:, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(4)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2))
    end if
    field = field_at(first, next, GR_U8, shape(array), axes, owned, parity, kind)
  end function

  function field_bool_5(array, axes, owned, parity, kind) result(field)
    logical(c_bool), target, asynchronous :: array(:, :, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(5)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2, 1))
      if (size(array, 5) > 1) next(5) = c_loc(array(1, 1, 1, 1, 2))
    end if
    field = field_at(first, next, GR_U8, shape(array), axes, owned, parity, kind)
  end function

  function field_bool_6(array, axes, owned, parity, kind) result(field)
    logical(c_bool), target, asynchronous :: array(:, :, :, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(6)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1, 1, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2, 1, 1))
      if (size(array, 5) > 1) next(5) = c_loc(array(1, 1, 1, 1, 2, 1))
      if (size(array, 6) > 1) next(6) = c_loc(array(1, 1, 1, 1, 1, 2))
    end if
    field = field_at(first, next, GR_U8, shape(array), axes, owned, parity, kind)
  end function

  function field_bool_7(array, axes, owned, parity, kind) result(field)
    logical(c_bool), target, asynchronous :: array(:, :, :, :, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(7)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1, 1, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1, 1, 1, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2, 1, 1, 1))
      if (size(array, 5) > 1) next(5) = c_loc(array(1, 1, 1, 1, 2, 1, 1))
      if (size(array, 6) > 1) next(6) = c_loc(array(1, 1, 1, 1, 1, 2, 1))
      if (size(array, 7) > 1) next(7) = c_loc(array(1, 1, 1, 1, 1, 1, 2))
    end if
    field = field_at(first, next, GR_U8, shape(array), axes, owned, parity, kind)
  end function

  function field_logical_1(array, axes, owned, parity, kind) result(field)
    logical, target, asynchronous :: array(:)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(1)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2))
    end if
    field = field_at(first, next, logical_code, shape(array), axes, owned, parity, kind)
  end function

  function field_logical_2(array, axes, owned, parity, kind) result(field)
    logical, target, asynchronous :: array(:, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(2)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2))
    end if
    field = field_at(first, next, logical_code, shape(array), axes, owned, parity, kind)
  end function

  function field_logical_3(array, axes, owned, parity, kind) result(field)
    logical, target, asynchronous :: array(:, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(3)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2))
    end if
    field = field_at(first, next, logical_code, shape(array), axes, owned, parity, kind)
  end function

  function field_logical_4(array, axes, owned, parity, kind) result(field)
    logical, target, asynchronous :: array(:, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(4)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2))
    end if
    field = field_at(first, next, logical_code, shape(array), axes, owned, parity, kind)
  end function

  function field_logical_5(array, axes, owned, parity, kind) result(field)
    logical, target, asynchronous :: array(:, :, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(5)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2, 1))
      if (size(array, 5) > 1) next(5) = c_loc(array(1, 1, 1, 1, 2))
    end if
    field = field_at(first, next, logical_code, shape(array), axes, owned, parity, kind)
  end function

  function field_logical_6(array, axes, owned, parity, kind) result(field)
    logical, target, asynchronous :: array(:, :, :, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(6)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1, 1, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2, 1, 1))
      if (size(array, 5) > 1) next(5) = c_loc(array(1, 1, 1, 1, 2, 1))
      if (size(array, 6) > 1) next(6) = c_loc(array(1, 1, 1, 1, 1, 2))
    end if
    field = field_at(first, next, logical_code, shape(array), axes, owned, parity, kind)
  end function

  function field_logical_7(array, axes, owned, parity, kind) result(field)
    logical, target, asynchronous :: array(:, :, :, :, :, :, :)
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity, kind
    type(gr_field) :: field
    type(c_ptr) :: first, next(7)
    first = c_null_ptr
    next = c_null_ptr
    if (size(array) > 0) then
      first = c_loc(array(1, 1, 1, 1, 1, 1, 1))
      if (size(array, 1) > 1) next(1) = c_loc(array(2, 1, 1, 1, 1, 1, 1))
      if (size(array, 2) > 1) next(2) = c_loc(array(1, 2, 1, 1, 1, 1, 1))
      if (size(array, 3) > 1) next(3) = c_loc(array(1, 1, 2, 1, 1, 1, 1))
      if (size(array, 4) > 1) next(4) = c_loc(array(1, 1, 1, 2, 1, 1, 1))
      if (size(array, 5) > 1) next(5) = c_loc(array(1, 1, 1, 1, 2, 1, 1))
      if (size(array, 6) > 1) next(6) = c_loc(array(1, 1, 1, 1, 1, 2, 1))
      if (size(array, 7) > 1) next(7) = c_loc(array(1, 1, 1, 1, 1, 1, 2))
    end if
    field = field_at(first, next, logical_code, shape(array), axes, owned, parity, kind)
  end function

  subroutine whole_at(first, code, extents, bytes, axes, owned, field)
    type(c_ptr), intent(in) :: first
    integer, intent(in) :: code
    integer, intent(in) :: extents(:)
    integer(c_int64_t), intent(in) :: bytes
    integer, intent(in), optional :: axes(:), owned(:)
    type(gr_field), intent(inout), target :: field
    integer(c_int) :: axes_c(16), owned_c(16), num_axes, num_owned
    integer(c_int64_t) :: strides(size(extents))
    integer :: d
    num_axes = 0
    num_owned = 0
    if (present(axes)) then
      num_axes = int(min(size(axes), size(axes_c)), c_int)
      axes_c(:num_axes) = int(axes(:num_axes), c_int)
    end if
    if (present(owned)) then
      num_owned = int(min(size(owned), size(owned_c)), c_int)
      owned_c(:num_owned) = int(owned(:num_owned), c_int)
    end if
    do d = 1, size(extents)
      strides(d) = bytes * product(int(extents(:d - 1), c_int64_t))
    end do
    call gr_fortran_field(first, int(code, c_int), int(size(extents), c_int), int(extents, c_int64_t), strides, num_axes, &
        axes_c, num_owned, owned_c, int(GR_EVEN, c_int), 0_c_int, c_loc(field))
  end subroutine

  subroutine whole_int8(array, field, axes, owned)
    integer(c_int8_t), dimension(..), contiguous, target, intent(in) :: array
    type(gr_field), intent(inout) :: field
    integer, intent(in), optional :: axes(:), owned(:)
    call whole_at(c_loc(array), GR_I8, shape(array), int(storage_size(array), c_int64_t) / 8, axes, owned, field)
  end subroutine

  subroutine whole_int16(array, field, axes, owned)
    integer(c_int16_t), dimension(..), contiguous, target, intent(in) :: array
    type(gr_field), intent(inout) :: field
    integer, intent(in), optional :: axes(:), owned(:)
    call whole_at(c_loc(array), GR_I16, shape(array), int(storage_size(array), c_int64_t) / 8, axes, owned, field)
  end subroutine

  subroutine whole_int32(array, field, axes, owned)
    integer(c_int32_t), dimension(..), contiguous, target, intent(in) :: array
    type(gr_field), intent(inout) :: field
    integer, intent(in), optional :: axes(:), owned(:)
    call whole_at(c_loc(array), GR_I32, shape(array), int(storage_size(array), c_int64_t) / 8, axes, owned, field)
  end subroutine

  subroutine whole_int64(array, field, axes, owned)
    integer(c_int64_t), dimension(..), contiguous, target, intent(in) :: array
    type(gr_field), intent(inout) :: field
    integer, intent(in), optional :: axes(:), owned(:)
    call whole_at(c_loc(array), GR_I64, shape(array), int(storage_size(array), c_int64_t) / 8, axes, owned, field)
  end subroutine

  subroutine whole_real32(array, field, axes, owned)
    real(c_float), dimension(..), contiguous, target, intent(in) :: array
    type(gr_field), intent(inout) :: field
    integer, intent(in), optional :: axes(:), owned(:)
    call whole_at(c_loc(array), GR_F32, shape(array), int(storage_size(array), c_int64_t) / 8, axes, owned, field)
  end subroutine

  subroutine whole_real64(array, field, axes, owned)
    real(c_double), dimension(..), contiguous, target, intent(in) :: array
    type(gr_field), intent(inout) :: field
    integer, intent(in), optional :: axes(:), owned(:)
    call whole_at(c_loc(array), GR_F64, shape(array), int(storage_size(array), c_int64_t) / 8, axes, owned, field)
  end subroutine

  subroutine whole_complex32(array, field, axes, owned)
    complex(c_float_complex), dimension(..), contiguous, target, intent(in) :: array
    type(gr_field), intent(inout) :: field
    integer, intent(in), optional :: axes(:), owned(:)
    call whole_at(c_loc(array), GR_C64, shape(array), int(storage_size(array), c_int64_t) / 8, axes, owned, field)
  end subroutine

  subroutine whole_complex64(array, field, axes, owned)
    complex(c_double_complex), dimension(..), contiguous, target, intent(in) :: array
    type(gr_field), intent(inout) :: field
    integer, intent(in), optional :: axes(:), owned(:)
    call whole_at(c_loc(array), GR_C128, shape(array), int(storage_size(array), c_int64_t) / 8, axes, owned, field)
  end subroutine

  subroutine whole_bool(array, field, axes, owned)
    logical(c_bool), dimension(..), contiguous, target, intent(in) :: array
    type(gr_field), intent(inout) :: field
    integer, intent(in), optional :: axes(:), owned(:)
    call whole_at(c_loc(array), GR_U8, shape(array), int(storage_size(array), c_int64_t) / 8, axes, owned, field)
  end subroutine

  subroutine whole_logical(array, field, axes, owned)
    logical, dimension(..), contiguous, target, intent(in) :: array
    type(gr_field), intent(inout) :: field
    integer, intent(in), optional :: axes(:), owned(:)
    call whole_at(c_loc(array), logical_code, shape(array), int(storage_size(array), c_int64_t) / 8, axes, owned, field)
  end subroutine
#endif

  !> Sets the parities and kinds of fields: one for all, or one for each. The call refuses another number of them.
  subroutine set_options(fields, parity, kind)
    type(gr_field), intent(inout) :: fields(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer(c_int), parameter :: wrong_options = -5
    if (present(parity)) then
      select rank (parity)
      rank (0)
        fields%parity = int(parity, c_int)
      rank (1)
        if (size(parity) == 1) then
          fields%parity = int(parity(1), c_int)
        else if (size(parity) == size(fields)) then
          fields%parity = int(parity, c_int)
        else
          fields%type = wrong_options
        end if
      rank default
        fields%type = wrong_options
      end select
    end if
    if (present(kind)) then
      select rank (kind)
      rank (0)
        fields%kind = int(kind - 1, c_int)
      rank (1)
        if (size(kind) == 1) then
          fields%kind = int(kind(1) - 1, c_int)
        else if (size(kind) == size(fields)) then
          fields%kind = int(kind - 1, c_int)
        else
          fields%type = wrong_options
        end if
      rank default
        fields%type = wrong_options
      end select
    end if
  end subroutine
end module graticule_fields

!> What the procedures that scripts/bindings makes have in common; for the modules of this library.
module graticule_support
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit
  use graticule_types
  implicit none
  private
  public :: address_of, ended, wrong_size, text_at, to_texts, reversed_words, gr_fortran_call, gr_fortran_arrays

  interface
    function last_error_text() bind(c, name='gr_error_text') result(text)
      import
      type(c_ptr) :: text
    end function

    function c_wrong_size(function, argument, found, expected) bind(c, name='gr_fortran_wrong_size') result(status)
      import
      character(kind=c_char), intent(in) :: function(*), argument(*)
      integer(c_int), value :: found, expected
      integer(c_int) :: status
    end function

    !> The next call of the library is one of Fortran: its errors name arguments, cells and axes as Fortran does.
    subroutine gr_fortran_call(sizes) bind(c)
      import
      character(kind=c_char), intent(in) :: sizes(*)
    end subroutine

    !> The next call gets arrays.
    subroutine gr_fortran_arrays() bind(c)
    end subroutine

    !> Rank of this process in MPI_COMM_WORLD; -1 before and after MPI.
    function gr_fortran_rank() bind(c) result(rank)
      import
      integer(c_int) :: rank
    end function

    !> Where a field is. Unlike `c_loc` it needs no `target`, for which compilers copy a description that is an expression.
    function address_of(field) bind(c, name='gr_fortran_address') result(address)
      import
      type(gr_field), intent(in) :: field
      type(c_ptr) :: address
    end function

    function c_strlen(text) bind(c, name='strlen') result(length)
      import
      type(c_ptr), value :: text
      integer(c_size_t) :: length
    end function
  end interface

contains

  !> Passes the status to the caller, or ends the program with the text of the error.
  subroutine ended(status, stat)
    integer(c_int), intent(in) :: status
    integer, intent(out), optional :: stat
    if (present(stat)) then
      stat = status
    else if (status /= GR_SUCCESS) then
      ! One write: other ranks write to the same terminal.
      if (gr_fortran_rank() >= 0) then
        write (error_unit, '(a, i0, 2a)') 'rank ', gr_fortran_rank(), ': ', text_at(last_error_text())
      else
        write (error_unit, '(a)') text_at(last_error_text())
      end if
      error stop 1
    end if
  end subroutine

  subroutine wrong_size(function, argument, found, expected, stat)
    character(*), intent(in) :: function, argument
    integer(c_int), intent(in) :: found, expected
    integer, intent(out), optional :: stat
    call ended(c_wrong_size(function // c_null_char, argument // c_null_char, found, expected), stat)
  end subroutine

  function text_at(address) result(text)
    type(c_ptr), intent(in) :: address
    character(:), allocatable :: text
    character(kind=c_char), pointer :: characters(:)
    integer :: i, length
    length = int(c_strlen(address))
    call c_f_pointer(address, characters, [length])
    allocate (character(length) :: text)
    do i = 1, length
      text(i:i) = characters(i)
    end do
  end function

  !> Texts without the blanks at their ends, as C has them.
  subroutine to_texts(given, texts, addresses)
    character(*), intent(in) :: given(:)
    character(kind=c_char), allocatable, target, intent(out) :: texts(:, :)
    type(c_ptr), allocatable, intent(out) :: addresses(:)
    integer :: i, j
    allocate (texts(len(given) + 1, size(given)), addresses(size(given)))
    do i = 1, size(given)
      do j = 1, len_trim(given(i))
        texts(j, i) = given(i)(j:j)
      end do
      texts(len_trim(given(i)) + 1, i) = c_null_char
      addresses(i) = c_loc(texts(1, i))
    end do
  end subroutine

  !> `lon lat` becomes `lat lon`.
  pure function reversed_words(text) result(reversed)
    character(*), intent(in) :: text
    character(:), allocatable :: reversed, rest
    integer :: blank
    reversed = ''
    rest = trim(adjustl(text))
    do while (len(rest) > 0)
      blank = index(rest, ' ')
      if (blank == 0) blank = len(rest) + 1
      reversed = trim(rest(:blank - 1) // ' ' // reversed)
      rest = trim(adjustl(rest(min(blank, len(rest) + 1):)))
    end do
  end function
end module graticule_support

!> The functions.
module graticule_calls
  use, intrinsic :: iso_c_binding
  use graticule_types
  use graticule_fields
  use graticule_support
  implicit none
  private
  public :: gr_error_text, gr_error_rule, gr_error_status
  public :: gr_version
  public :: gr_init
  public :: gr_finalize
  public :: gr_is_initialized
  public :: gr_plan_name
  public :: gr_long_copies
  public :: gr_set_patience
  public :: gr_comm_create_integer
  public :: gr_comm_destroy
  public :: gr_comm_rank
  public :: gr_comm_size
  public :: gr_comm_node
  public :: gr_comm_nodes
  public :: gr_comm_mpi_integer
  public :: gr_comm_renew
  public :: gr_comm_announce_failure
  public :: gr_teams_create
  public :: gr_teams_destroy
  public :: gr_teams_world
  public :: gr_teams_team
  public :: gr_cuts_create
  public :: gr_cuts_create_balanced
  public :: gr_cuts_create_weighted
  public :: gr_cuts_create_rebalanced
  public :: gr_cuts_num_parts
  public :: gr_cuts_sizes
  public :: gr_cuts_destroy
  public :: gr_area_weights
  public :: gr_layout_create
  public :: gr_layout_create_cuts
  public :: gr_layout_create_boxes
  public :: gr_layout_create_with_holes
  public :: gr_layout_create_blocks
  public :: gr_layout_create_faces
  public :: gr_layout_create_best
  public :: gr_layout_create_shared
  public :: gr_layout_relabel
  public :: gr_layout_ndim
  public :: gr_layout_extents
  public :: gr_layout_owned
  public :: gr_layout_text
  public :: gr_layout_destroy
  public :: gr_node_memory_create
  public :: gr_node_memory_address
  public :: gr_node_memory_size
  public :: gr_node_memory_is_shared
  public :: gr_node_memory_destroy
  public :: gr_finish
  public :: gr_test
  public :: gr_halo_kind_uniform
  public :: gr_halo_kind_sphere
  public :: gr_halo_kind_tripolar
  public :: gr_halo_create
  public :: gr_halo_destroy
  public :: gr_halo_owned
  public :: gr_halo_local
  public :: gr_halo_layout
  public :: gr_halo_interior
  public :: gr_halo_border
  public :: gr_halo_exchange
  public :: gr_halo_start
  public :: gr_halo_exchange_adjoint
  public :: gr_halo_start_adjoint
  public :: gr_halo_set_transport
  public :: gr_halo_tune
  public :: gr_halo_counts
  public :: gr_halo_stats
  public :: gr_halo_report
  public :: gr_halo_dump
  public :: gr_halo_depth_create
  public :: gr_halo_depth_destroy
  public :: gr_halo_depth_exchanged
  public :: gr_halo_depth_written
  public :: gr_halo_depth_inside
  public :: gr_halo_depth_beyond
  public :: gr_halo_depth_valid
  public :: gr_halo_depth_commutes
  public :: gr_halo_depth_suffices
  public :: gr_halo_depth_apply
  public :: gr_halo_depth_refill
  public :: gr_repartition_create
  public :: gr_repartition_create_boxes
  public :: gr_repartition_destroy
  public :: gr_repartition_source
  public :: gr_repartition_num_targets
  public :: gr_repartition_target
  public :: gr_repartition_apply
  public :: gr_repartition_start
  public :: gr_repartition_apply_adjoint
  public :: gr_repartition_start_adjoint
  public :: gr_repartition_apply_inverse
  public :: gr_repartition_start_inverse
  public :: gr_repartition_set_transport
  public :: gr_repartition_tune
  public :: gr_repartition_counts
  public :: gr_repartition_stats
  public :: gr_repartition_report
  public :: gr_repartition_dump
  public :: gr_zonal_create
  public :: gr_zonal_destroy
  public :: gr_zonal_cells
  public :: gr_zonal_sums
  public :: gr_zonal_apply
  public :: gr_zonal_start
  public :: gr_zonal_apply_adjoint
  public :: gr_area_sum_create
  public :: gr_area_sum_create_cells
  public :: gr_area_sum_destroy
  public :: gr_area_sum_apply
  public :: gr_area_sum_apply_adjoint
  public :: gr_attributes_create
  public :: gr_attributes_add_text
  public :: gr_attributes_add_number
  public :: gr_attributes_destroy
  public :: gr_file_open
  public :: gr_file_open_series
  public :: gr_file_num_files
  public :: gr_file_part
  public :: gr_file_series_dimension
  public :: gr_file_close
  public :: gr_file_num_variables
  public :: gr_file_variable_name
  public :: gr_file_ndim
  public :: gr_file_extents
  public :: gr_file_dimension
  public :: gr_file_coordinate
  public :: gr_file_calendar
  public :: gr_file_times
  public :: gr_time_of_date
  public :: gr_date_of_time
  public :: gr_file_attribute_text
  public :: gr_file_attribute_numbers
  public :: gr_file_read
  public :: gr_writer_create
  public :: gr_writer_append
  public :: gr_writer_destroy
  public :: gr_writer_add_dimension
  public :: gr_writer_add_coordinate
  public :: gr_writer_add_variable
  public :: gr_writer_extend
  public :: gr_writer_write
  public :: gr_writer_write_replicated
  public :: gr_writer_commit
  public :: gr_checkpoints_create
  public :: gr_checkpoints_destroy
  public :: gr_checkpoint_begin
  public :: gr_checkpoint_writer_destroy
  public :: gr_checkpoint_add
  public :: gr_checkpoint_add_replicated
  public :: gr_checkpoint_add_integers
  public :: gr_checkpoint_add_reals
  public :: gr_checkpoint_add_text
  public :: gr_checkpoint_commit
  public :: gr_checkpoints_newest
  public :: gr_checkpoints_skipped
  public :: gr_checkpoint_open
  public :: gr_checkpoint_close
  public :: gr_checkpoint_step
  public :: gr_checkpoint_path
  public :: gr_checkpoint_has
  public :: gr_checkpoint_read
  public :: gr_checkpoint_read_replicated
  public :: gr_checkpoint_convert
  public :: gr_checkpoint_integers
  public :: gr_checkpoint_reals
  public :: gr_checkpoint_text
  public :: gr_checkpoint_verify

  interface gr_layout_create_faces
    module procedure gr_layout_create_faces_list, gr_layout_create_faces_one
  end interface

  interface gr_halo_create
    module procedure gr_halo_create_list, gr_halo_create_one
  end interface

  interface gr_halo_exchange
    module procedure gr_halo_exchange_list, gr_halo_exchange_one, gr_halo_exchange_int8, gr_halo_exchange_int16, &
        gr_halo_exchange_int32, gr_halo_exchange_int64, gr_halo_exchange_real32, gr_halo_exchange_real64, &
        gr_halo_exchange_complex32, gr_halo_exchange_complex64, gr_halo_exchange_bool, gr_halo_exchange_logical
  end interface

  interface gr_halo_start
    module procedure gr_halo_start_list, gr_halo_start_one
  end interface

  interface gr_halo_exchange_adjoint
    module procedure gr_halo_exchange_adjoint_list, gr_halo_exchange_adjoint_one, gr_halo_exchange_adjoint_int8, &
        gr_halo_exchange_adjoint_int16, gr_halo_exchange_adjoint_int32, gr_halo_exchange_adjoint_int64, &
        gr_halo_exchange_adjoint_real32, gr_halo_exchange_adjoint_real64, gr_halo_exchange_adjoint_complex32, &
        gr_halo_exchange_adjoint_complex64, gr_halo_exchange_adjoint_bool, gr_halo_exchange_adjoint_logical
  end interface

  interface gr_halo_start_adjoint
    module procedure gr_halo_start_adjoint_list, gr_halo_start_adjoint_one
  end interface

  interface gr_halo_tune
    module procedure gr_halo_tune_list, gr_halo_tune_one, gr_halo_tune_int8, gr_halo_tune_int16, gr_halo_tune_int32, &
        gr_halo_tune_int64, gr_halo_tune_real32, gr_halo_tune_real64, gr_halo_tune_complex32, &
        gr_halo_tune_complex64, gr_halo_tune_bool, gr_halo_tune_logical
  end interface

  interface gr_halo_depth_refill
    module procedure gr_halo_depth_refill_field, gr_halo_depth_refill_int8, gr_halo_depth_refill_int16, &
        gr_halo_depth_refill_int32, gr_halo_depth_refill_int64, gr_halo_depth_refill_real32, &
        gr_halo_depth_refill_real64, gr_halo_depth_refill_complex32, gr_halo_depth_refill_complex64, &
        gr_halo_depth_refill_bool, gr_halo_depth_refill_logical
  end interface

  interface gr_repartition_apply
    module procedure gr_repartition_apply_list, gr_repartition_apply_one, gr_repartition_apply_int8, &
        gr_repartition_apply_int16, gr_repartition_apply_int32, gr_repartition_apply_int64, &
        gr_repartition_apply_real32, gr_repartition_apply_real64, gr_repartition_apply_complex32, &
        gr_repartition_apply_complex64, gr_repartition_apply_bool, gr_repartition_apply_logical
  end interface

  interface gr_repartition_start
    module procedure gr_repartition_start_list, gr_repartition_start_one
  end interface

  interface gr_repartition_apply_adjoint
    module procedure gr_repartition_apply_adjoint_list, gr_repartition_apply_adjoint_one, &
        gr_repartition_apply_adjoint_int8, gr_repartition_apply_adjoint_int16, gr_repartition_apply_adjoint_int32, &
        gr_repartition_apply_adjoint_int64, gr_repartition_apply_adjoint_real32, &
        gr_repartition_apply_adjoint_real64, gr_repartition_apply_adjoint_complex32, &
        gr_repartition_apply_adjoint_complex64, gr_repartition_apply_adjoint_bool, &
        gr_repartition_apply_adjoint_logical
  end interface

  interface gr_repartition_start_adjoint
    module procedure gr_repartition_start_adjoint_list, gr_repartition_start_adjoint_one
  end interface

  interface gr_repartition_apply_inverse
    module procedure gr_repartition_apply_inverse_list, gr_repartition_apply_inverse_one, &
        gr_repartition_apply_inverse_int8, gr_repartition_apply_inverse_int16, gr_repartition_apply_inverse_int32, &
        gr_repartition_apply_inverse_int64, gr_repartition_apply_inverse_real32, &
        gr_repartition_apply_inverse_real64, gr_repartition_apply_inverse_complex32, &
        gr_repartition_apply_inverse_complex64, gr_repartition_apply_inverse_bool, &
        gr_repartition_apply_inverse_logical
  end interface

  interface gr_repartition_start_inverse
    module procedure gr_repartition_start_inverse_list, gr_repartition_start_inverse_one
  end interface

  interface gr_repartition_tune
    module procedure gr_repartition_tune_list, gr_repartition_tune_one, gr_repartition_tune_int8, &
        gr_repartition_tune_int16, gr_repartition_tune_int32, gr_repartition_tune_int64, gr_repartition_tune_real32, &
        gr_repartition_tune_real64, gr_repartition_tune_complex32, gr_repartition_tune_complex64, &
        gr_repartition_tune_bool, gr_repartition_tune_logical
  end interface

  interface gr_zonal_apply
    module procedure gr_zonal_apply_list, gr_zonal_apply_one, gr_zonal_apply_int8, gr_zonal_apply_int16, &
        gr_zonal_apply_int32, gr_zonal_apply_int64, gr_zonal_apply_real32, gr_zonal_apply_real64, &
        gr_zonal_apply_complex32, gr_zonal_apply_complex64, gr_zonal_apply_bool, gr_zonal_apply_logical, &
        gr_zonal_apply_real32_in_real64
  end interface

  interface gr_zonal_start
    module procedure gr_zonal_start_list, gr_zonal_start_one
  end interface

  interface gr_zonal_apply_adjoint
    module procedure gr_zonal_apply_adjoint_list, gr_zonal_apply_adjoint_one, gr_zonal_apply_adjoint_int8, &
        gr_zonal_apply_adjoint_int16, gr_zonal_apply_adjoint_int32, gr_zonal_apply_adjoint_int64, &
        gr_zonal_apply_adjoint_real32, gr_zonal_apply_adjoint_real64, gr_zonal_apply_adjoint_complex32, &
        gr_zonal_apply_adjoint_complex64, gr_zonal_apply_adjoint_bool, gr_zonal_apply_adjoint_logical, &
        gr_zonal_apply_adjoint_real32_in_real64
  end interface

  interface gr_area_sum_create_cells
    module procedure gr_area_sum_create_cells_field, gr_area_sum_create_cells_int8, gr_area_sum_create_cells_int16, &
        gr_area_sum_create_cells_int32, gr_area_sum_create_cells_int64, gr_area_sum_create_cells_real32, &
        gr_area_sum_create_cells_real64, gr_area_sum_create_cells_complex32, gr_area_sum_create_cells_complex64, &
        gr_area_sum_create_cells_bool, gr_area_sum_create_cells_logical
  end interface

  interface gr_area_sum_apply
    module procedure gr_area_sum_apply_field, gr_area_sum_apply_int8, gr_area_sum_apply_int16, &
        gr_area_sum_apply_int32, gr_area_sum_apply_int64, gr_area_sum_apply_real32, gr_area_sum_apply_real64, &
        gr_area_sum_apply_complex32, gr_area_sum_apply_complex64, gr_area_sum_apply_bool, gr_area_sum_apply_logical
  end interface

  interface gr_area_sum_apply_adjoint
    module procedure gr_area_sum_apply_adjoint_field, gr_area_sum_apply_adjoint_int8, &
        gr_area_sum_apply_adjoint_int16, gr_area_sum_apply_adjoint_int32, gr_area_sum_apply_adjoint_int64, &
        gr_area_sum_apply_adjoint_real32, gr_area_sum_apply_adjoint_real64, gr_area_sum_apply_adjoint_complex32, &
        gr_area_sum_apply_adjoint_complex64, gr_area_sum_apply_adjoint_bool, gr_area_sum_apply_adjoint_logical
  end interface

  interface gr_file_read
    module procedure gr_file_read_field, gr_file_read_int8, gr_file_read_int16, gr_file_read_int32, &
        gr_file_read_int64, gr_file_read_real32, gr_file_read_real64, gr_file_read_complex32, &
        gr_file_read_complex64, gr_file_read_bool, gr_file_read_logical
  end interface

  interface gr_writer_write
    module procedure gr_writer_write_field, gr_writer_write_int8, gr_writer_write_int16, gr_writer_write_int32, &
        gr_writer_write_int64, gr_writer_write_real32, gr_writer_write_real64, gr_writer_write_complex32, &
        gr_writer_write_complex64, gr_writer_write_bool, gr_writer_write_logical
  end interface

  interface gr_writer_write_replicated
    module procedure gr_writer_write_replicated_field, gr_writer_write_replicated_int8, &
        gr_writer_write_replicated_int16, gr_writer_write_replicated_int32, gr_writer_write_replicated_int64, &
        gr_writer_write_replicated_real32, gr_writer_write_replicated_real64, gr_writer_write_replicated_complex32, &
        gr_writer_write_replicated_complex64, gr_writer_write_replicated_bool, gr_writer_write_replicated_logical
  end interface

  interface gr_checkpoint_add
    module procedure gr_checkpoint_add_field, gr_checkpoint_add_int8, gr_checkpoint_add_int16, &
        gr_checkpoint_add_int32, gr_checkpoint_add_int64, gr_checkpoint_add_real32, gr_checkpoint_add_real64, &
        gr_checkpoint_add_complex32, gr_checkpoint_add_complex64, gr_checkpoint_add_bool, gr_checkpoint_add_logical
  end interface

  interface gr_checkpoint_add_replicated
    module procedure gr_checkpoint_add_replicated_field, gr_checkpoint_add_replicated_int8, &
        gr_checkpoint_add_replicated_int16, gr_checkpoint_add_replicated_int32, gr_checkpoint_add_replicated_int64, &
        gr_checkpoint_add_replicated_real32, gr_checkpoint_add_replicated_real64, &
        gr_checkpoint_add_replicated_complex32, gr_checkpoint_add_replicated_complex64, &
        gr_checkpoint_add_replicated_bool, gr_checkpoint_add_replicated_logical
  end interface

  interface gr_checkpoint_read
    module procedure gr_checkpoint_read_field, gr_checkpoint_read_int8, gr_checkpoint_read_int16, &
        gr_checkpoint_read_int32, gr_checkpoint_read_int64, gr_checkpoint_read_real32, gr_checkpoint_read_real64, &
        gr_checkpoint_read_complex32, gr_checkpoint_read_complex64, gr_checkpoint_read_bool, &
        gr_checkpoint_read_logical
  end interface

  interface gr_checkpoint_read_replicated
    module procedure gr_checkpoint_read_replicated_field, gr_checkpoint_read_replicated_int8, &
        gr_checkpoint_read_replicated_int16, gr_checkpoint_read_replicated_int32, &
        gr_checkpoint_read_replicated_int64, gr_checkpoint_read_replicated_real32, &
        gr_checkpoint_read_replicated_real64, gr_checkpoint_read_replicated_complex32, &
        gr_checkpoint_read_replicated_complex64, gr_checkpoint_read_replicated_bool, &
        gr_checkpoint_read_replicated_logical
  end interface

  interface in_c_order
    module procedure in_c_order_gr_halo_kind, in_c_order_gr_face_joint, in_c_order_gr_repartition_options, &
        in_c_order_gr_relabel_options, in_c_order_gr_variable_options
  end interface

  interface
    function c_gr_error_text() bind(c, name='gr_error_text') result(text)
      import
      type(c_ptr) :: text
    end function

    function c_gr_error_rule() bind(c, name='gr_error_rule') result(text)
      import
      type(c_ptr) :: text
    end function

    function c_gr_error_status() bind(c, name='gr_error_status') result(status)
      import
      integer(c_int) :: status
    end function

    function c_gr_version(major, minor, patch) bind(c, name='gr_version') result(status)
      import
      type(c_ptr), value :: major
      type(c_ptr), value :: minor
      type(c_ptr), value :: patch
      integer(c_int) :: status
    end function

    function c_gr_init(num_threads, check_mode) bind(c, name='gr_init') result(status)
      import
      integer(c_int), value :: num_threads
      type(c_ptr), value :: check_mode
      integer(c_int) :: status
    end function

    function c_gr_finalize() bind(c, name='gr_finalize') result(status)
      import
      integer(c_int) :: status
    end function

    function c_gr_is_initialized(initialized) bind(c, name='gr_is_initialized') result(status)
      import
      type(c_ptr), value :: initialized
      integer(c_int) :: status
    end function

    function c_gr_plan_name(name) bind(c, name='gr_plan_name') result(status)
      import
      type(c_ptr), value :: name
      integer(c_int) :: status
    end function

    function c_gr_long_copies(name) bind(c, name='gr_long_copies') result(status)
      import
      type(c_ptr), value :: name
      integer(c_int) :: status
    end function

    function c_gr_set_patience(report_seconds, error_seconds) bind(c, name='gr_set_patience') result(status)
      import
      real(c_double), value :: report_seconds
      real(c_double), value :: error_seconds
      integer(c_int) :: status
    end function

    function c_gr_comm_create_f(mpi, comm) bind(c, name='gr_comm_create_f') result(status)
      import
      integer(c_int), value :: mpi
      type(c_ptr), value :: comm
      integer(c_int) :: status
    end function

    function c_gr_comm_destroy(comm) bind(c, name='gr_comm_destroy') result(status)
      import
      type(c_ptr), value :: comm
      integer(c_int) :: status
    end function

    function c_gr_comm_rank(comm, rank) bind(c, name='gr_comm_rank') result(status)
      import
      type(c_ptr), value :: comm
      type(c_ptr), value :: rank
      integer(c_int) :: status
    end function

    function c_gr_comm_size(comm, num_ranks) bind(c, name='gr_comm_size') result(status)
      import
      type(c_ptr), value :: comm
      type(c_ptr), value :: num_ranks
      integer(c_int) :: status
    end function

    function c_gr_comm_node(comm, num_node_ranks, node_rank) bind(c, name='gr_comm_node') result(status)
      import
      type(c_ptr), value :: comm
      type(c_ptr), value :: num_node_ranks
      type(c_ptr), value :: node_rank
      integer(c_int) :: status
    end function

    function c_gr_comm_nodes(comm, num_ranks, nodes) bind(c, name='gr_comm_nodes') result(status)
      import
      type(c_ptr), value :: comm
      integer(c_int), value :: num_ranks
      type(c_ptr), value :: nodes
      integer(c_int) :: status
    end function

    function c_gr_comm_mpi_f(comm, mpi) bind(c, name='gr_comm_mpi_f') result(status)
      import
      type(c_ptr), value :: comm
      type(c_ptr), value :: mpi
      integer(c_int) :: status
    end function

    function c_gr_comm_renew(comm) bind(c, name='gr_comm_renew') result(status)
      import
      type(c_ptr), value :: comm
      integer(c_int) :: status
    end function

    function c_gr_comm_announce_failure(comm, text) bind(c, name='gr_comm_announce_failure') result(status)
      import
      type(c_ptr), value :: comm
      type(c_ptr), value :: text
      integer(c_int) :: status
    end function

    function c_gr_teams_create(comm, num_axes, names, sizes, teams) bind(c, name='gr_teams_create') result(status)
      import
      type(c_ptr), value :: comm
      integer(c_int), value :: num_axes
      type(c_ptr), value :: names
      type(c_ptr), value :: sizes
      type(c_ptr), value :: teams
      integer(c_int) :: status
    end function

    function c_gr_teams_destroy(teams) bind(c, name='gr_teams_destroy') result(status)
      import
      type(c_ptr), value :: teams
      integer(c_int) :: status
    end function

    function c_gr_teams_world(teams, comm) bind(c, name='gr_teams_world') result(status)
      import
      type(c_ptr), value :: teams
      type(c_ptr), value :: comm
      integer(c_int) :: status
    end function

    function c_gr_teams_team(teams, name, comm) bind(c, name='gr_teams_team') result(status)
      import
      type(c_ptr), value :: teams
      type(c_ptr), value :: name
      type(c_ptr), value :: comm
      integer(c_int) :: status
    end function

    function c_gr_cuts_create(num_parts, sizes, cuts) bind(c, name='gr_cuts_create') result(status)
      import
      integer(c_int), value :: num_parts
      type(c_ptr), value :: sizes
      type(c_ptr), value :: cuts
      integer(c_int) :: status
    end function

    function c_gr_cuts_create_balanced(extent, num_parts, cuts) bind(c, name='gr_cuts_create_balanced') &
        result(status)
      import
      integer(c_int64_t), value :: extent
      integer(c_int), value :: num_parts
      type(c_ptr), value :: cuts
      integer(c_int) :: status
    end function

    function c_gr_cuts_create_weighted(num_cells, weights, num_parts, min_cells, cuts) bind(c, &
        name='gr_cuts_create_weighted') result(status)
      import
      integer(c_int), value :: num_cells
      type(c_ptr), value :: weights
      integer(c_int), value :: num_parts
      integer(c_int64_t), value :: min_cells
      type(c_ptr), value :: cuts
      integer(c_int) :: status
    end function

    function c_gr_cuts_create_rebalanced(old, num_parts, seconds, min_cells, cuts) bind(c, &
        name='gr_cuts_create_rebalanced') result(status)
      import
      type(c_ptr), value :: old
      integer(c_int), value :: num_parts
      type(c_ptr), value :: seconds
      integer(c_int64_t), value :: min_cells
      type(c_ptr), value :: cuts
      integer(c_int) :: status
    end function

    function c_gr_cuts_num_parts(cuts, num_parts) bind(c, name='gr_cuts_num_parts') result(status)
      import
      type(c_ptr), value :: cuts
      type(c_ptr), value :: num_parts
      integer(c_int) :: status
    end function

    function c_gr_cuts_sizes(cuts, num_parts, sizes) bind(c, name='gr_cuts_sizes') result(status)
      import
      type(c_ptr), value :: cuts
      integer(c_int), value :: num_parts
      type(c_ptr), value :: sizes
      integer(c_int) :: status
    end function

    function c_gr_cuts_destroy(cuts) bind(c, name='gr_cuts_destroy') result(status)
      import
      type(c_ptr), value :: cuts
      integer(c_int) :: status
    end function

    function c_gr_area_weights(num_rows, latitudes, weights) bind(c, name='gr_area_weights') result(status)
      import
      integer(c_int), value :: num_rows
      type(c_ptr), value :: latitudes
      type(c_ptr), value :: weights
      integer(c_int) :: status
    end function

    function c_gr_layout_create(ndim, extents, num_parts, layout) bind(c, name='gr_layout_create') result(status)
      import
      integer(c_int), value :: ndim
      type(c_ptr), value :: extents
      type(c_ptr), value :: num_parts
      type(c_ptr), value :: layout
      integer(c_int) :: status
    end function

    function c_gr_layout_create_cuts(ndim, cuts, num_ranks, ranks, layout) bind(c, name='gr_layout_create_cuts') &
        result(status)
      import
      integer(c_int), value :: ndim
      type(c_ptr), value :: cuts
      integer(c_int), value :: num_ranks
      type(c_ptr), value :: ranks
      type(c_ptr), value :: layout
      integer(c_int) :: status
    end function

    function c_gr_layout_create_boxes(comm, ndim, extents, num_boxes, lower, upper, layout) bind(c, &
        name='gr_layout_create_boxes') result(status)
      import
      type(c_ptr), value :: comm
      integer(c_int), value :: ndim
      type(c_ptr), value :: extents
      integer(c_int), value :: num_boxes
      type(c_ptr), value :: lower
      type(c_ptr), value :: upper
      type(c_ptr), value :: layout
      integer(c_int) :: status
    end function

    function c_gr_layout_create_with_holes(comm, ndim, extents, num_boxes, lower, upper, layout) bind(c, &
        name='gr_layout_create_with_holes') result(status)
      import
      type(c_ptr), value :: comm
      integer(c_int), value :: ndim
      type(c_ptr), value :: extents
      integer(c_int), value :: num_boxes
      type(c_ptr), value :: lower
      type(c_ptr), value :: upper
      type(c_ptr), value :: layout
      integer(c_int) :: status
    end function

    function c_gr_layout_create_blocks(comm, ndim, extents, num_blocks, lower, upper, layout) bind(c, &
        name='gr_layout_create_blocks') result(status)
      import
      type(c_ptr), value :: comm
      integer(c_int), value :: ndim
      type(c_ptr), value :: extents
      integer(c_int), value :: num_blocks
      type(c_ptr), value :: lower
      type(c_ptr), value :: upper
      type(c_ptr), value :: layout
      integer(c_int) :: status
    end function

    function c_gr_layout_create_faces(comm, ndim, extents, num_blocks, lower, upper, num_joints, joints, layout) &
        bind(c, name='gr_layout_create_faces') result(status)
      import
      type(c_ptr), value :: comm
      integer(c_int), value :: ndim
      type(c_ptr), value :: extents
      integer(c_int), value :: num_blocks
      type(c_ptr), value :: lower
      type(c_ptr), value :: upper
      integer(c_int), value :: num_joints
      type(c_ptr), value :: joints
      type(c_ptr), value :: layout
      integer(c_int) :: status
    end function

    function c_gr_layout_create_best(comm, ndim, extents, kind, element_bytes, num_batch, layout) bind(c, &
        name='gr_layout_create_best') result(status)
      import
      type(c_ptr), value :: comm
      integer(c_int), value :: ndim
      type(c_ptr), value :: extents
      type(c_ptr), value :: kind
      integer(c_int64_t), value :: element_bytes
      integer(c_int64_t), value :: num_batch
      type(c_ptr), value :: layout
      integer(c_int) :: status
    end function

    function c_gr_layout_create_shared(comm, part, part_comm, layout) bind(c, name='gr_layout_create_shared') &
        result(status)
      import
      type(c_ptr), value :: comm
      type(c_ptr), value :: part
      type(c_ptr), value :: part_comm
      type(c_ptr), value :: layout
      integer(c_int) :: status
    end function

    function c_gr_layout_relabel(from, to, options, num_nodes, node_of_rank, num_ranks, ranks, layout, saving) &
        bind(c, name='gr_layout_relabel') result(status)
      import
      type(c_ptr), value :: from
      type(c_ptr), value :: to
      type(c_ptr), value :: options
      integer(c_int), value :: num_nodes
      type(c_ptr), value :: node_of_rank
      integer(c_int), value :: num_ranks
      type(c_ptr), value :: ranks
      type(c_ptr), value :: layout
      type(c_ptr), value :: saving
      integer(c_int) :: status
    end function

    function c_gr_layout_ndim(layout, ndim) bind(c, name='gr_layout_ndim') result(status)
      import
      type(c_ptr), value :: layout
      type(c_ptr), value :: ndim
      integer(c_int) :: status
    end function

    function c_gr_layout_extents(layout, ndim, extents) bind(c, name='gr_layout_extents') result(status)
      import
      type(c_ptr), value :: layout
      integer(c_int), value :: ndim
      type(c_ptr), value :: extents
      integer(c_int) :: status
    end function

    function c_gr_layout_owned(layout, rank, ndim, lower, upper) bind(c, name='gr_layout_owned') result(status)
      import
      type(c_ptr), value :: layout
      integer(c_int), value :: rank
      integer(c_int), value :: ndim
      type(c_ptr), value :: lower
      type(c_ptr), value :: upper
      integer(c_int) :: status
    end function

    function c_gr_layout_text(layout, text) bind(c, name='gr_layout_text') result(status)
      import
      type(c_ptr), value :: layout
      type(c_ptr), value :: text
      integer(c_int) :: status
    end function

    function c_gr_layout_destroy(layout) bind(c, name='gr_layout_destroy') result(status)
      import
      type(c_ptr), value :: layout
      integer(c_int) :: status
    end function

    function c_gr_node_memory_create(num_bytes, memory) bind(c, name='gr_node_memory_create') result(status)
      import
      integer(c_int64_t), value :: num_bytes
      type(c_ptr), value :: memory
      integer(c_int) :: status
    end function

    function c_gr_node_memory_address(memory, address) bind(c, name='gr_node_memory_address') result(status)
      import
      type(c_ptr), value :: memory
      type(c_ptr), value :: address
      integer(c_int) :: status
    end function

    function c_gr_node_memory_size(memory, num_bytes) bind(c, name='gr_node_memory_size') result(status)
      import
      type(c_ptr), value :: memory
      type(c_ptr), value :: num_bytes
      integer(c_int) :: status
    end function

    function c_gr_node_memory_is_shared(memory, shared) bind(c, name='gr_node_memory_is_shared') result(status)
      import
      type(c_ptr), value :: memory
      type(c_ptr), value :: shared
      integer(c_int) :: status
    end function

    function c_gr_node_memory_destroy(memory) bind(c, name='gr_node_memory_destroy') result(status)
      import
      type(c_ptr), value :: memory
      integer(c_int) :: status
    end function

    function c_gr_finish(pending) bind(c, name='gr_finish') result(status)
      import
      type(c_ptr), value :: pending
      integer(c_int) :: status
    end function

    function c_gr_test(pending, complete) bind(c, name='gr_test') result(status)
      import
      type(c_ptr), value :: pending
      type(c_ptr), value :: complete
      integer(c_int) :: status
    end function

    function c_gr_halo_kind_uniform(ndim, edge, width, kind) bind(c, name='gr_halo_kind_uniform') result(status)
      import
      integer(c_int), value :: ndim
      integer(c_int), value :: edge
      integer(c_int64_t), value :: width
      type(c_ptr), value :: kind
      integer(c_int) :: status
    end function

    function c_gr_halo_kind_sphere(pole, width, kind) bind(c, name='gr_halo_kind_sphere') result(status)
      import
      integer(c_int), value :: pole
      integer(c_int64_t), value :: width
      type(c_ptr), value :: kind
      integer(c_int) :: status
    end function

    function c_gr_halo_kind_tripolar(south, seam, width, kind) bind(c, name='gr_halo_kind_tripolar') result(status)
      import
      integer(c_int), value :: south
      integer(c_int), value :: seam
      integer(c_int64_t), value :: width
      type(c_ptr), value :: kind
      integer(c_int) :: status
    end function

    function c_gr_halo_create(comm, layout, num_kinds, kinds, halo) bind(c, name='gr_halo_create') result(status)
      import
      type(c_ptr), value :: comm
      type(c_ptr), value :: layout
      integer(c_int), value :: num_kinds
      type(c_ptr), value :: kinds
      type(c_ptr), value :: halo
      integer(c_int) :: status
    end function

    function c_gr_halo_destroy(halo) bind(c, name='gr_halo_destroy') result(status)
      import
      type(c_ptr), value :: halo
      integer(c_int) :: status
    end function

    function c_gr_halo_owned(halo, ndim, lower, upper) bind(c, name='gr_halo_owned') result(status)
      import
      type(c_ptr), value :: halo
      integer(c_int), value :: ndim
      type(c_ptr), value :: lower
      type(c_ptr), value :: upper
      integer(c_int) :: status
    end function

    function c_gr_halo_local(halo, kind, ndim, lower, upper) bind(c, name='gr_halo_local') result(status)
      import
      type(c_ptr), value :: halo
      integer(c_int), value :: kind
      integer(c_int), value :: ndim
      type(c_ptr), value :: lower
      type(c_ptr), value :: upper
      integer(c_int) :: status
    end function

    function c_gr_halo_layout(halo, kind, layout) bind(c, name='gr_halo_layout') result(status)
      import
      type(c_ptr), value :: halo
      integer(c_int), value :: kind
      type(c_ptr), value :: layout
      integer(c_int) :: status
    end function

    function c_gr_halo_interior(halo, kind, ndim, reach_lower, reach_upper, lower, upper) bind(c, &
        name='gr_halo_interior') result(status)
      import
      type(c_ptr), value :: halo
      integer(c_int), value :: kind
      integer(c_int), value :: ndim
      type(c_ptr), value :: reach_lower
      type(c_ptr), value :: reach_upper
      type(c_ptr), value :: lower
      type(c_ptr), value :: upper
      integer(c_int) :: status
    end function

    function c_gr_halo_border(halo, kind, ndim, reach_lower, reach_upper, most_boxes, num_boxes, lower, upper) &
        bind(c, name='gr_halo_border') result(status)
      import
      type(c_ptr), value :: halo
      integer(c_int), value :: kind
      integer(c_int), value :: ndim
      type(c_ptr), value :: reach_lower
      type(c_ptr), value :: reach_upper
      integer(c_int), value :: most_boxes
      type(c_ptr), value :: num_boxes
      type(c_ptr), value :: lower
      type(c_ptr), value :: upper
      integer(c_int) :: status
    end function

    function c_gr_halo_exchange(halo, num_fields, fields) bind(c, name='gr_halo_exchange') result(status)
      import
      type(c_ptr), value :: halo
      integer(c_int), value :: num_fields
      type(c_ptr), value :: fields
      integer(c_int) :: status
    end function

    function c_gr_halo_start(halo, num_fields, fields, pending) bind(c, name='gr_halo_start') result(status)
      import
      type(c_ptr), value :: halo
      integer(c_int), value :: num_fields
      type(c_ptr), value :: fields
      type(c_ptr), value :: pending
      integer(c_int) :: status
    end function

    function c_gr_halo_exchange_adjoint(halo, num_fields, fields) bind(c, name='gr_halo_exchange_adjoint') &
        result(status)
      import
      type(c_ptr), value :: halo
      integer(c_int), value :: num_fields
      type(c_ptr), value :: fields
      integer(c_int) :: status
    end function

    function c_gr_halo_start_adjoint(halo, num_fields, fields, pending) bind(c, name='gr_halo_start_adjoint') &
        result(status)
      import
      type(c_ptr), value :: halo
      integer(c_int), value :: num_fields
      type(c_ptr), value :: fields
      type(c_ptr), value :: pending
      integer(c_int) :: status
    end function

    function c_gr_halo_set_transport(halo, transport) bind(c, name='gr_halo_set_transport') result(status)
      import
      type(c_ptr), value :: halo
      integer(c_int), value :: transport
      integer(c_int) :: status
    end function

    function c_gr_halo_tune(halo, num_fields, fields, num_calls, chosen) bind(c, name='gr_halo_tune') result(status)
      import
      type(c_ptr), value :: halo
      integer(c_int), value :: num_fields
      type(c_ptr), value :: fields
      integer(c_int), value :: num_calls
      type(c_ptr), value :: chosen
      integer(c_int) :: status
    end function

    function c_gr_halo_counts(halo, counts) bind(c, name='gr_halo_counts') result(status)
      import
      type(c_ptr), value :: halo
      type(c_ptr), value :: counts
      integer(c_int) :: status
    end function

    function c_gr_halo_stats(halo, stats) bind(c, name='gr_halo_stats') result(status)
      import
      type(c_ptr), value :: halo
      type(c_ptr), value :: stats
      integer(c_int) :: status
    end function

    function c_gr_halo_report(halo, text) bind(c, name='gr_halo_report') result(status)
      import
      type(c_ptr), value :: halo
      type(c_ptr), value :: text
      integer(c_int) :: status
    end function

    function c_gr_halo_dump(halo, path) bind(c, name='gr_halo_dump') result(status)
      import
      type(c_ptr), value :: halo
      type(c_ptr), value :: path
      integer(c_int) :: status
    end function

    function c_gr_halo_depth_create(halo, name, kind, parity, depth) bind(c, name='gr_halo_depth_create') &
        result(status)
      import
      type(c_ptr), value :: halo
      type(c_ptr), value :: name
      integer(c_int), value :: kind
      integer(c_int), value :: parity
      type(c_ptr), value :: depth
      integer(c_int) :: status
    end function

    function c_gr_halo_depth_destroy(depth) bind(c, name='gr_halo_depth_destroy') result(status)
      import
      type(c_ptr), value :: depth
      integer(c_int) :: status
    end function

    function c_gr_halo_depth_exchanged(depth) bind(c, name='gr_halo_depth_exchanged') result(status)
      import
      type(c_ptr), value :: depth
      integer(c_int) :: status
    end function

    function c_gr_halo_depth_written(depth) bind(c, name='gr_halo_depth_written') result(status)
      import
      type(c_ptr), value :: depth
      integer(c_int) :: status
    end function

    function c_gr_halo_depth_inside(depth, ndim, lower, upper) bind(c, name='gr_halo_depth_inside') result(status)
      import
      type(c_ptr), value :: depth
      integer(c_int), value :: ndim
      type(c_ptr), value :: lower
      type(c_ptr), value :: upper
      integer(c_int) :: status
    end function

    function c_gr_halo_depth_beyond(depth, ndim, lower, upper) bind(c, name='gr_halo_depth_beyond') result(status)
      import
      type(c_ptr), value :: depth
      integer(c_int), value :: ndim
      type(c_ptr), value :: lower
      type(c_ptr), value :: upper
      integer(c_int) :: status
    end function

    function c_gr_halo_depth_valid(depth, ndim, lower, upper) bind(c, name='gr_halo_depth_valid') result(status)
      import
      type(c_ptr), value :: depth
      integer(c_int), value :: ndim
      type(c_ptr), value :: lower
      type(c_ptr), value :: upper
      integer(c_int) :: status
    end function

    function c_gr_halo_depth_commutes(depth, ndim, lower, upper) bind(c, name='gr_halo_depth_commutes') &
        result(status)
      import
      type(c_ptr), value :: depth
      integer(c_int), value :: ndim
      type(c_ptr), value :: lower
      type(c_ptr), value :: upper
      integer(c_int) :: status
    end function

    function c_gr_halo_depth_suffices(depth, ndim, reach_lower, reach_upper, suffices) bind(c, &
        name='gr_halo_depth_suffices') result(status)
      import
      type(c_ptr), value :: depth
      integer(c_int), value :: ndim
      type(c_ptr), value :: reach_lower
      type(c_ptr), value :: reach_upper
      type(c_ptr), value :: suffices
      integer(c_int) :: status
    end function

    function c_gr_halo_depth_apply(depth, input, ndim, reach_lower, reach_upper, at_mirrors, lower, upper) bind(c, &
        name='gr_halo_depth_apply') result(status)
      import
      type(c_ptr), value :: depth
      type(c_ptr), value :: input
      integer(c_int), value :: ndim
      type(c_ptr), value :: reach_lower
      type(c_ptr), value :: reach_upper
      integer(c_int), value :: at_mirrors
      type(c_ptr), value :: lower
      type(c_ptr), value :: upper
      integer(c_int) :: status
    end function

    function c_gr_halo_depth_refill(depth, field) bind(c, name='gr_halo_depth_refill') result(status)
      import
      type(c_ptr), value :: depth
      type(c_ptr), value :: field
      integer(c_int) :: status
    end function

    function c_gr_repartition_create(comm, from, to, options, plan) bind(c, name='gr_repartition_create') &
        result(status)
      import
      type(c_ptr), value :: comm
      type(c_ptr), value :: from
      type(c_ptr), value :: to
      type(c_ptr), value :: options
      type(c_ptr), value :: plan
      integer(c_int) :: status
    end function

    function c_gr_repartition_create_boxes(comm, from, ndim, num_boxes, lower, upper, options, plan) bind(c, &
        name='gr_repartition_create_boxes') result(status)
      import
      type(c_ptr), value :: comm
      type(c_ptr), value :: from
      integer(c_int), value :: ndim
      integer(c_int), value :: num_boxes
      type(c_ptr), value :: lower
      type(c_ptr), value :: upper
      type(c_ptr), value :: options
      type(c_ptr), value :: plan
      integer(c_int) :: status
    end function

    function c_gr_repartition_destroy(plan) bind(c, name='gr_repartition_destroy') result(status)
      import
      type(c_ptr), value :: plan
      integer(c_int) :: status
    end function

    function c_gr_repartition_source(plan, ndim, lower, upper) bind(c, name='gr_repartition_source') result(status)
      import
      type(c_ptr), value :: plan
      integer(c_int), value :: ndim
      type(c_ptr), value :: lower
      type(c_ptr), value :: upper
      integer(c_int) :: status
    end function

    function c_gr_repartition_num_targets(plan, num_targets) bind(c, name='gr_repartition_num_targets') &
        result(status)
      import
      type(c_ptr), value :: plan
      type(c_ptr), value :: num_targets
      integer(c_int) :: status
    end function

    function c_gr_repartition_target(plan, target, ndim, lower, upper) bind(c, name='gr_repartition_target') &
        result(status)
      import
      type(c_ptr), value :: plan
      integer(c_int), value :: target
      integer(c_int), value :: ndim
      type(c_ptr), value :: lower
      type(c_ptr), value :: upper
      integer(c_int) :: status
    end function

    function c_gr_repartition_apply(plan, num_from, from, num_to, to, updates) bind(c, name='gr_repartition_apply') &
        result(status)
      import
      type(c_ptr), value :: plan
      integer(c_int), value :: num_from
      type(c_ptr), value :: from
      integer(c_int), value :: num_to
      type(c_ptr), value :: to
      type(c_ptr), value :: updates
      integer(c_int) :: status
    end function

    function c_gr_repartition_start(plan, num_from, from, num_to, to, updates, pending) bind(c, &
        name='gr_repartition_start') result(status)
      import
      type(c_ptr), value :: plan
      integer(c_int), value :: num_from
      type(c_ptr), value :: from
      integer(c_int), value :: num_to
      type(c_ptr), value :: to
      type(c_ptr), value :: updates
      type(c_ptr), value :: pending
      integer(c_int) :: status
    end function

    function c_gr_repartition_apply_adjoint(plan, num_from, from, num_to, to, updates) bind(c, &
        name='gr_repartition_apply_adjoint') result(status)
      import
      type(c_ptr), value :: plan
      integer(c_int), value :: num_from
      type(c_ptr), value :: from
      integer(c_int), value :: num_to
      type(c_ptr), value :: to
      type(c_ptr), value :: updates
      integer(c_int) :: status
    end function

    function c_gr_repartition_start_adjoint(plan, num_from, from, num_to, to, updates, pending) bind(c, &
        name='gr_repartition_start_adjoint') result(status)
      import
      type(c_ptr), value :: plan
      integer(c_int), value :: num_from
      type(c_ptr), value :: from
      integer(c_int), value :: num_to
      type(c_ptr), value :: to
      type(c_ptr), value :: updates
      type(c_ptr), value :: pending
      integer(c_int) :: status
    end function

    function c_gr_repartition_apply_inverse(plan, num_from, from, num_to, to, updates) bind(c, &
        name='gr_repartition_apply_inverse') result(status)
      import
      type(c_ptr), value :: plan
      integer(c_int), value :: num_from
      type(c_ptr), value :: from
      integer(c_int), value :: num_to
      type(c_ptr), value :: to
      type(c_ptr), value :: updates
      integer(c_int) :: status
    end function

    function c_gr_repartition_start_inverse(plan, num_from, from, num_to, to, updates, pending) bind(c, &
        name='gr_repartition_start_inverse') result(status)
      import
      type(c_ptr), value :: plan
      integer(c_int), value :: num_from
      type(c_ptr), value :: from
      integer(c_int), value :: num_to
      type(c_ptr), value :: to
      type(c_ptr), value :: updates
      type(c_ptr), value :: pending
      integer(c_int) :: status
    end function

    function c_gr_repartition_set_transport(plan, transport) bind(c, name='gr_repartition_set_transport') &
        result(status)
      import
      type(c_ptr), value :: plan
      integer(c_int), value :: transport
      integer(c_int) :: status
    end function

    function c_gr_repartition_tune(plan, num_from, from, num_to, to, num_calls, chosen) bind(c, &
        name='gr_repartition_tune') result(status)
      import
      type(c_ptr), value :: plan
      integer(c_int), value :: num_from
      type(c_ptr), value :: from
      integer(c_int), value :: num_to
      type(c_ptr), value :: to
      integer(c_int), value :: num_calls
      type(c_ptr), value :: chosen
      integer(c_int) :: status
    end function

    function c_gr_repartition_counts(plan, counts) bind(c, name='gr_repartition_counts') result(status)
      import
      type(c_ptr), value :: plan
      type(c_ptr), value :: counts
      integer(c_int) :: status
    end function

    function c_gr_repartition_stats(plan, stats) bind(c, name='gr_repartition_stats') result(status)
      import
      type(c_ptr), value :: plan
      type(c_ptr), value :: stats
      integer(c_int) :: status
    end function

    function c_gr_repartition_report(plan, text) bind(c, name='gr_repartition_report') result(status)
      import
      type(c_ptr), value :: plan
      type(c_ptr), value :: text
      integer(c_int) :: status
    end function

    function c_gr_repartition_dump(plan, path) bind(c, name='gr_repartition_dump') result(status)
      import
      type(c_ptr), value :: plan
      type(c_ptr), value :: path
      integer(c_int) :: status
    end function

    function c_gr_zonal_create(comm, layout, axis, summation, scale, ndim, lower, upper, zonal) bind(c, &
        name='gr_zonal_create') result(status)
      import
      type(c_ptr), value :: comm
      type(c_ptr), value :: layout
      integer(c_int), value :: axis
      integer(c_int), value :: summation
      integer(c_int), value :: scale
      integer(c_int), value :: ndim
      type(c_ptr), value :: lower
      type(c_ptr), value :: upper
      type(c_ptr), value :: zonal
      integer(c_int) :: status
    end function

    function c_gr_zonal_destroy(zonal) bind(c, name='gr_zonal_destroy') result(status)
      import
      type(c_ptr), value :: zonal
      integer(c_int) :: status
    end function

    function c_gr_zonal_cells(zonal, ndim, lower, upper) bind(c, name='gr_zonal_cells') result(status)
      import
      type(c_ptr), value :: zonal
      integer(c_int), value :: ndim
      type(c_ptr), value :: lower
      type(c_ptr), value :: upper
      integer(c_int) :: status
    end function

    function c_gr_zonal_sums(zonal, ndim, lower, upper) bind(c, name='gr_zonal_sums') result(status)
      import
      type(c_ptr), value :: zonal
      integer(c_int), value :: ndim
      type(c_ptr), value :: lower
      type(c_ptr), value :: upper
      integer(c_int) :: status
    end function

    function c_gr_zonal_apply(zonal, num_fields, cells, sums) bind(c, name='gr_zonal_apply') result(status)
      import
      type(c_ptr), value :: zonal
      integer(c_int), value :: num_fields
      type(c_ptr), value :: cells
      type(c_ptr), value :: sums
      integer(c_int) :: status
    end function

    function c_gr_zonal_start(zonal, num_fields, cells, sums, pending) bind(c, name='gr_zonal_start') result(status)
      import
      type(c_ptr), value :: zonal
      integer(c_int), value :: num_fields
      type(c_ptr), value :: cells
      type(c_ptr), value :: sums
      type(c_ptr), value :: pending
      integer(c_int) :: status
    end function

    function c_gr_zonal_apply_adjoint(zonal, num_fields, cells, sums, cotangents) bind(c, &
        name='gr_zonal_apply_adjoint') result(status)
      import
      type(c_ptr), value :: zonal
      integer(c_int), value :: num_fields
      type(c_ptr), value :: cells
      type(c_ptr), value :: sums
      integer(c_int), value :: cotangents
      integer(c_int) :: status
    end function

    function c_gr_area_sum_create(comm, layout, axis, row_axis, num_rows, weights, scale, area_sum) bind(c, &
        name='gr_area_sum_create') result(status)
      import
      type(c_ptr), value :: comm
      type(c_ptr), value :: layout
      integer(c_int), value :: axis
      integer(c_int), value :: row_axis
      integer(c_int), value :: num_rows
      type(c_ptr), value :: weights
      integer(c_int), value :: scale
      type(c_ptr), value :: area_sum
      integer(c_int) :: status
    end function

    function c_gr_area_sum_create_cells(comm, layout, weights, scale, area_sum) bind(c, &
        name='gr_area_sum_create_cells') result(status)
      import
      type(c_ptr), value :: comm
      type(c_ptr), value :: layout
      type(c_ptr), value :: weights
      integer(c_int), value :: scale
      type(c_ptr), value :: area_sum
      integer(c_int) :: status
    end function

    function c_gr_area_sum_destroy(area_sum) bind(c, name='gr_area_sum_destroy') result(status)
      import
      type(c_ptr), value :: area_sum
      integer(c_int) :: status
    end function

    function c_gr_area_sum_apply(area_sum, cells, num_sums, sums) bind(c, name='gr_area_sum_apply') result(status)
      import
      type(c_ptr), value :: area_sum
      type(c_ptr), value :: cells
      integer(c_int), value :: num_sums
      type(c_ptr), value :: sums
      integer(c_int) :: status
    end function

    function c_gr_area_sum_apply_adjoint(area_sum, cells, num_sums, cotangents) bind(c, &
        name='gr_area_sum_apply_adjoint') result(status)
      import
      type(c_ptr), value :: area_sum
      type(c_ptr), value :: cells
      integer(c_int), value :: num_sums
      type(c_ptr), value :: cotangents
      integer(c_int) :: status
    end function

    function c_gr_attributes_create(attributes) bind(c, name='gr_attributes_create') result(status)
      import
      type(c_ptr), value :: attributes
      integer(c_int) :: status
    end function

    function c_gr_attributes_add_text(attributes, name, value) bind(c, name='gr_attributes_add_text') result(status)
      import
      type(c_ptr), value :: attributes
      type(c_ptr), value :: name
      type(c_ptr), value :: value
      integer(c_int) :: status
    end function

    function c_gr_attributes_add_number(attributes, name, value, type) bind(c, name='gr_attributes_add_number') &
        result(status)
      import
      type(c_ptr), value :: attributes
      type(c_ptr), value :: name
      real(c_double), value :: value
      integer(c_int), value :: type
      integer(c_int) :: status
    end function

    function c_gr_attributes_destroy(attributes) bind(c, name='gr_attributes_destroy') result(status)
      import
      type(c_ptr), value :: attributes
      integer(c_int) :: status
    end function

    function c_gr_file_open(comm, path, file) bind(c, name='gr_file_open') result(status)
      import
      type(c_ptr), value :: comm
      type(c_ptr), value :: path
      type(c_ptr), value :: file
      integer(c_int) :: status
    end function

    function c_gr_file_open_series(comm, num_patterns, patterns, dimension, most_open, file) bind(c, &
        name='gr_file_open_series') result(status)
      import
      type(c_ptr), value :: comm
      integer(c_int), value :: num_patterns
      type(c_ptr), value :: patterns
      type(c_ptr), value :: dimension
      integer(c_int), value :: most_open
      type(c_ptr), value :: file
      integer(c_int) :: status
    end function

    function c_gr_file_num_files(file, num_files) bind(c, name='gr_file_num_files') result(status)
      import
      type(c_ptr), value :: file
      type(c_ptr), value :: num_files
      integer(c_int) :: status
    end function

    function c_gr_file_part(file, number, cells_before, num_cells, path) bind(c, name='gr_file_part') result(status)
      import
      type(c_ptr), value :: file
      integer(c_int), value :: number
      type(c_ptr), value :: cells_before
      type(c_ptr), value :: num_cells
      type(c_ptr), value :: path
      integer(c_int) :: status
    end function

    function c_gr_file_series_dimension(file, name) bind(c, name='gr_file_series_dimension') result(status)
      import
      type(c_ptr), value :: file
      type(c_ptr), value :: name
      integer(c_int) :: status
    end function

    function c_gr_file_close(file) bind(c, name='gr_file_close') result(status)
      import
      type(c_ptr), value :: file
      integer(c_int) :: status
    end function

    function c_gr_file_num_variables(file, num_variables) bind(c, name='gr_file_num_variables') result(status)
      import
      type(c_ptr), value :: file
      type(c_ptr), value :: num_variables
      integer(c_int) :: status
    end function

    function c_gr_file_variable_name(file, number, name) bind(c, name='gr_file_variable_name') result(status)
      import
      type(c_ptr), value :: file
      integer(c_int), value :: number
      type(c_ptr), value :: name
      integer(c_int) :: status
    end function

    function c_gr_file_ndim(file, variable, ndim) bind(c, name='gr_file_ndim') result(status)
      import
      type(c_ptr), value :: file
      type(c_ptr), value :: variable
      type(c_ptr), value :: ndim
      integer(c_int) :: status
    end function

    function c_gr_file_extents(file, variable, ndim, extents) bind(c, name='gr_file_extents') result(status)
      import
      type(c_ptr), value :: file
      type(c_ptr), value :: variable
      integer(c_int), value :: ndim
      type(c_ptr), value :: extents
      integer(c_int) :: status
    end function

    function c_gr_file_dimension(file, variable, ndim, axis, name) bind(c, name='gr_file_dimension') result(status)
      import
      type(c_ptr), value :: file
      type(c_ptr), value :: variable
      integer(c_int), value :: ndim
      integer(c_int), value :: axis
      type(c_ptr), value :: name
      integer(c_int) :: status
    end function

    function c_gr_file_coordinate(file, dimension, num_values, values) bind(c, name='gr_file_coordinate') &
        result(status)
      import
      type(c_ptr), value :: file
      type(c_ptr), value :: dimension
      integer(c_int), value :: num_values
      type(c_ptr), value :: values
      integer(c_int) :: status
    end function

    function c_gr_file_calendar(file, dimension, calendar) bind(c, name='gr_file_calendar') result(status)
      import
      type(c_ptr), value :: file
      type(c_ptr), value :: dimension
      type(c_ptr), value :: calendar
      integer(c_int) :: status
    end function

    function c_gr_file_times(file, dimension, num_times, times) bind(c, name='gr_file_times') result(status)
      import
      type(c_ptr), value :: file
      type(c_ptr), value :: dimension
      integer(c_int), value :: num_times
      type(c_ptr), value :: times
      integer(c_int) :: status
    end function

    function c_gr_time_of_date(calendar, year, month, day, second, time) bind(c, name='gr_time_of_date') &
        result(status)
      import
      type(c_ptr), value :: calendar
      integer(c_int), value :: year
      integer(c_int), value :: month
      integer(c_int), value :: day
      integer(c_int), value :: second
      type(c_ptr), value :: time
      integer(c_int) :: status
    end function

    function c_gr_date_of_time(calendar, time, year, month, day, second) bind(c, name='gr_date_of_time') &
        result(status)
      import
      type(c_ptr), value :: calendar
      integer(c_int64_t), value :: time
      type(c_ptr), value :: year
      type(c_ptr), value :: month
      type(c_ptr), value :: day
      type(c_ptr), value :: second
      integer(c_int) :: status
    end function

    function c_gr_file_attribute_text(file, variable, attribute, text) bind(c, name='gr_file_attribute_text') &
        result(status)
      import
      type(c_ptr), value :: file
      type(c_ptr), value :: variable
      type(c_ptr), value :: attribute
      type(c_ptr), value :: text
      integer(c_int) :: status
    end function

    function c_gr_file_attribute_numbers(file, variable, attribute, most_numbers, num_numbers, numbers) bind(c, &
        name='gr_file_attribute_numbers') result(status)
      import
      type(c_ptr), value :: file
      type(c_ptr), value :: variable
      type(c_ptr), value :: attribute
      integer(c_int), value :: most_numbers
      type(c_ptr), value :: num_numbers
      type(c_ptr), value :: numbers
      integer(c_int) :: status
    end function

    function c_gr_file_read(file, variable, ndim, lower, upper, steps, num_axes, axes, field) bind(c, &
        name='gr_file_read') result(status)
      import
      type(c_ptr), value :: file
      type(c_ptr), value :: variable
      integer(c_int), value :: ndim
      type(c_ptr), value :: lower
      type(c_ptr), value :: upper
      type(c_ptr), value :: steps
      integer(c_int), value :: num_axes
      type(c_ptr), value :: axes
      type(c_ptr), value :: field
      integer(c_int) :: status
    end function

    function c_gr_writer_create(comm, path, attributes, writer) bind(c, name='gr_writer_create') result(status)
      import
      type(c_ptr), value :: comm
      type(c_ptr), value :: path
      type(c_ptr), value :: attributes
      type(c_ptr), value :: writer
      integer(c_int) :: status
    end function

    function c_gr_writer_append(comm, path, in_place, writer) bind(c, name='gr_writer_append') result(status)
      import
      type(c_ptr), value :: comm
      type(c_ptr), value :: path
      integer(c_int), value :: in_place
      type(c_ptr), value :: writer
      integer(c_int) :: status
    end function

    function c_gr_writer_destroy(writer) bind(c, name='gr_writer_destroy') result(status)
      import
      type(c_ptr), value :: writer
      integer(c_int) :: status
    end function

    function c_gr_writer_add_dimension(writer, name, extent, unlimited) bind(c, name='gr_writer_add_dimension') &
        result(status)
      import
      type(c_ptr), value :: writer
      type(c_ptr), value :: name
      integer(c_int64_t), value :: extent
      integer(c_int), value :: unlimited
      integer(c_int) :: status
    end function

    function c_gr_writer_add_coordinate(writer, name, num_values, values, type, attributes) bind(c, &
        name='gr_writer_add_coordinate') result(status)
      import
      type(c_ptr), value :: writer
      type(c_ptr), value :: name
      integer(c_int), value :: num_values
      type(c_ptr), value :: values
      integer(c_int), value :: type
      type(c_ptr), value :: attributes
      integer(c_int) :: status
    end function

    function c_gr_writer_add_variable(writer, name, dimensions, type, options, attributes) bind(c, &
        name='gr_writer_add_variable') result(status)
      import
      type(c_ptr), value :: writer
      type(c_ptr), value :: name
      type(c_ptr), value :: dimensions
      integer(c_int), value :: type
      type(c_ptr), value :: options
      type(c_ptr), value :: attributes
      integer(c_int) :: status
    end function

    function c_gr_writer_extend(writer, dimension, count) bind(c, name='gr_writer_extend') result(status)
      import
      type(c_ptr), value :: writer
      type(c_ptr), value :: dimension
      integer(c_int64_t), value :: count
      integer(c_int) :: status
    end function

    function c_gr_writer_write(writer, variable, ndim, lower, upper, steps, num_axes, axes, field) bind(c, &
        name='gr_writer_write') result(status)
      import
      type(c_ptr), value :: writer
      type(c_ptr), value :: variable
      integer(c_int), value :: ndim
      type(c_ptr), value :: lower
      type(c_ptr), value :: upper
      type(c_ptr), value :: steps
      integer(c_int), value :: num_axes
      type(c_ptr), value :: axes
      type(c_ptr), value :: field
      integer(c_int) :: status
    end function

    function c_gr_writer_write_replicated(writer, variable, ndim, lower, upper, steps, num_axes, axes, field) &
        bind(c, name='gr_writer_write_replicated') result(status)
      import
      type(c_ptr), value :: writer
      type(c_ptr), value :: variable
      integer(c_int), value :: ndim
      type(c_ptr), value :: lower
      type(c_ptr), value :: upper
      type(c_ptr), value :: steps
      integer(c_int), value :: num_axes
      type(c_ptr), value :: axes
      type(c_ptr), value :: field
      integer(c_int) :: status
    end function

    function c_gr_writer_commit(writer) bind(c, name='gr_writer_commit') result(status)
      import
      type(c_ptr), value :: writer
      integer(c_int) :: status
    end function

    function c_gr_checkpoints_create(comm, folder, keep, checkpoints) bind(c, name='gr_checkpoints_create') &
        result(status)
      import
      type(c_ptr), value :: comm
      type(c_ptr), value :: folder
      integer(c_int), value :: keep
      type(c_ptr), value :: checkpoints
      integer(c_int) :: status
    end function

    function c_gr_checkpoints_destroy(checkpoints) bind(c, name='gr_checkpoints_destroy') result(status)
      import
      type(c_ptr), value :: checkpoints
      integer(c_int) :: status
    end function

    function c_gr_checkpoint_begin(checkpoints, step, writer) bind(c, name='gr_checkpoint_begin') result(status)
      import
      type(c_ptr), value :: checkpoints
      integer(c_int64_t), value :: step
      type(c_ptr), value :: writer
      integer(c_int) :: status
    end function

    function c_gr_checkpoint_writer_destroy(writer) bind(c, name='gr_checkpoint_writer_destroy') result(status)
      import
      type(c_ptr), value :: writer
      integer(c_int) :: status
    end function

    function c_gr_checkpoint_add(writer, name, layout, field) bind(c, name='gr_checkpoint_add') result(status)
      import
      type(c_ptr), value :: writer
      type(c_ptr), value :: name
      type(c_ptr), value :: layout
      type(c_ptr), value :: field
      integer(c_int) :: status
    end function

    function c_gr_checkpoint_add_replicated(writer, name, field) bind(c, name='gr_checkpoint_add_replicated') &
        result(status)
      import
      type(c_ptr), value :: writer
      type(c_ptr), value :: name
      type(c_ptr), value :: field
      integer(c_int) :: status
    end function

    function c_gr_checkpoint_add_integers(writer, name, num_values, values) bind(c, &
        name='gr_checkpoint_add_integers') result(status)
      import
      type(c_ptr), value :: writer
      type(c_ptr), value :: name
      integer(c_int), value :: num_values
      type(c_ptr), value :: values
      integer(c_int) :: status
    end function

    function c_gr_checkpoint_add_reals(writer, name, num_values, values) bind(c, name='gr_checkpoint_add_reals') &
        result(status)
      import
      type(c_ptr), value :: writer
      type(c_ptr), value :: name
      integer(c_int), value :: num_values
      type(c_ptr), value :: values
      integer(c_int) :: status
    end function

    function c_gr_checkpoint_add_text(writer, name, text) bind(c, name='gr_checkpoint_add_text') result(status)
      import
      type(c_ptr), value :: writer
      type(c_ptr), value :: name
      type(c_ptr), value :: text
      integer(c_int) :: status
    end function

    function c_gr_checkpoint_commit(writer) bind(c, name='gr_checkpoint_commit') result(status)
      import
      type(c_ptr), value :: writer
      integer(c_int) :: status
    end function

    function c_gr_checkpoints_newest(checkpoints, checkpoint) bind(c, name='gr_checkpoints_newest') result(status)
      import
      type(c_ptr), value :: checkpoints
      type(c_ptr), value :: checkpoint
      integer(c_int) :: status
    end function

    function c_gr_checkpoints_skipped(checkpoints, text) bind(c, name='gr_checkpoints_skipped') result(status)
      import
      type(c_ptr), value :: checkpoints
      type(c_ptr), value :: text
      integer(c_int) :: status
    end function

    function c_gr_checkpoint_open(comm, path, checkpoint) bind(c, name='gr_checkpoint_open') result(status)
      import
      type(c_ptr), value :: comm
      type(c_ptr), value :: path
      type(c_ptr), value :: checkpoint
      integer(c_int) :: status
    end function

    function c_gr_checkpoint_close(checkpoint) bind(c, name='gr_checkpoint_close') result(status)
      import
      type(c_ptr), value :: checkpoint
      integer(c_int) :: status
    end function

    function c_gr_checkpoint_step(checkpoint, step) bind(c, name='gr_checkpoint_step') result(status)
      import
      type(c_ptr), value :: checkpoint
      type(c_ptr), value :: step
      integer(c_int) :: status
    end function

    function c_gr_checkpoint_path(checkpoint, path) bind(c, name='gr_checkpoint_path') result(status)
      import
      type(c_ptr), value :: checkpoint
      type(c_ptr), value :: path
      integer(c_int) :: status
    end function

    function c_gr_checkpoint_has(checkpoint, name, found) bind(c, name='gr_checkpoint_has') result(status)
      import
      type(c_ptr), value :: checkpoint
      type(c_ptr), value :: name
      type(c_ptr), value :: found
      integer(c_int) :: status
    end function

    function c_gr_checkpoint_read(checkpoint, name, layout, field) bind(c, name='gr_checkpoint_read') result(status)
      import
      type(c_ptr), value :: checkpoint
      type(c_ptr), value :: name
      type(c_ptr), value :: layout
      type(c_ptr), value :: field
      integer(c_int) :: status
    end function

    function c_gr_checkpoint_read_replicated(checkpoint, name, field) bind(c, name='gr_checkpoint_read_replicated') &
        result(status)
      import
      type(c_ptr), value :: checkpoint
      type(c_ptr), value :: name
      type(c_ptr), value :: field
      integer(c_int) :: status
    end function

    function c_gr_checkpoint_convert(checkpoint, converts) bind(c, name='gr_checkpoint_convert') result(status)
      import
      type(c_ptr), value :: checkpoint
      integer(c_int), value :: converts
      integer(c_int) :: status
    end function

    function c_gr_checkpoint_integers(checkpoint, name, num_values, values) bind(c, name='gr_checkpoint_integers') &
        result(status)
      import
      type(c_ptr), value :: checkpoint
      type(c_ptr), value :: name
      integer(c_int), value :: num_values
      type(c_ptr), value :: values
      integer(c_int) :: status
    end function

    function c_gr_checkpoint_reals(checkpoint, name, num_values, values) bind(c, name='gr_checkpoint_reals') &
        result(status)
      import
      type(c_ptr), value :: checkpoint
      type(c_ptr), value :: name
      integer(c_int), value :: num_values
      type(c_ptr), value :: values
      integer(c_int) :: status
    end function

    function c_gr_checkpoint_text(checkpoint, name, text) bind(c, name='gr_checkpoint_text') result(status)
      import
      type(c_ptr), value :: checkpoint
      type(c_ptr), value :: name
      type(c_ptr), value :: text
      integer(c_int) :: status
    end function

    function c_gr_checkpoint_verify(checkpoint) bind(c, name='gr_checkpoint_verify') result(status)
      import
      type(c_ptr), value :: checkpoint
      integer(c_int) :: status
    end function
  end interface

contains

  !> Text of the last error of this thread.
  function gr_error_text() result(text)
    character(:), allocatable :: text
    text = text_at(c_gr_error_text())
  end function

  !> Name of the rule that the last error of this thread broke.
  function gr_error_rule() result(text)
    character(:), allocatable :: text
    text = text_at(c_gr_error_rule())
  end function

  !> Status of the last error of this thread.
  function gr_error_status() result(status)
    integer :: status
    status = int(c_gr_error_status())
  end function

  !> Number of axes of a layout; 0 for a handle that holds none.
  function ndim_of(layout) result(ndim)
    type(gr_layout), intent(in) :: layout
    integer(c_int), target :: ndim
    integer(c_int) :: status
    ndim = 0
    if (c_associated(layout%handle)) status = c_gr_layout_ndim(layout%handle, c_loc(ndim))
  end function

  elemental function in_c_order_gr_halo_kind(given) result(x)
    type(gr_halo_kind), intent(in) :: given
    type(gr_halo_kind) :: x
    integer(c_int) :: n
    x = given
    n = max(0_c_int, min(int(GR_MAX_AXES, c_int), given%ndim))
    x%lower(:n) = given%lower(n:1:-1)
    x%upper(:n) = given%upper(n:1:-1)
    x%lower_edge(:n) = given%lower_edge(n:1:-1)
    x%upper_edge(:n) = given%upper_edge(n:1:-1)
    x%constant(:n) = given%constant(n:1:-1)
    x%stagger(:n) = given%stagger(n:1:-1)
    x%longitude_axis = n - given%longitude_axis
    x%directions(:n, :) = given%directions(n:1:-1, :)
    x%memory_lower(:n) = given%memory_lower(n:1:-1)
    x%memory_upper(:n) = given%memory_upper(n:1:-1)
    x%component = n - given%component
  end function

  elemental function in_c_order_gr_face_joint(given) result(x)
    type(gr_face_joint), intent(in) :: given
    type(gr_face_joint) :: x
    x = given
    x%face = given%face - 1
    x%axis = 2 - given%axis
    x%other_face = given%other_face - 1
    x%other_axis = 2 - given%other_axis
  end function

  elemental function in_c_order_gr_repartition_options(given) result(x)
    type(gr_repartition_options), intent(in) :: given
    type(gr_repartition_options) :: x
    integer(c_int) :: n
    x = given
    n = max(0_c_int, min(int(GR_MAX_AXES, c_int), given%ndim))
    x%permutation(:n) = n - given%permutation(n:1:-1)
    x%from_first(:n) = given%from_first(n:1:-1) - 1
    x%from_step(:n) = given%from_step(n:1:-1)
    x%from_count(:n) = given%from_count(n:1:-1)
    x%to_first(:n) = given%to_first(n:1:-1) - 1
    x%to_step(:n) = given%to_step(n:1:-1)
    x%to_count(:n) = given%to_count(n:1:-1)
  end function

  elemental function in_c_order_gr_relabel_options(given) result(x)
    type(gr_relabel_options), intent(in) :: given
    type(gr_relabel_options) :: x
    integer(c_int) :: n
    x = given
    n = max(0_c_int, min(int(GR_MAX_AXES, c_int), given%ndim))
    x%permutation(:n) = n - given%permutation(n:1:-1)
  end function

  elemental function in_c_order_gr_variable_options(given) result(x)
    type(gr_variable_options), intent(in) :: given
    type(gr_variable_options) :: x
    integer(c_int) :: n
    x = given
    n = max(0_c_int, min(int(GR_MAX_AXES, c_int), given%ndim))
    x%chunk(:n) = given%chunk(n:1:-1)
  end function

  !> Version of the library.
  subroutine gr_version(major, minor, patch, stat)
    integer, intent(out) :: major
    integer, intent(out) :: minor
    integer, intent(out) :: patch
    integer, intent(out), optional :: stat
    integer(c_int), target :: major_c
    integer(c_int), target :: minor_c
    integer(c_int), target :: patch_c
    integer(c_int) :: status
    major_c = 0
    minor_c = 0
    patch_c = 0
    call gr_fortran_call('' // c_null_char)
    status = c_gr_version(c_loc(major_c), c_loc(minor_c), c_loc(patch_c))
    if (status == 0) major = major_c
    if (status == 0) minor = minor_c
    if (status == 0) patch = patch_c
    call ended(status, stat)
  end subroutine

  !> Starts MPI (`MPI_THREAD_SERIALIZED` or higher) and Kokkos unless the program has done so.
  !>
  !> May be called several times; as many calls of `gr_finalize` end what the first one started. Where the program has
  !> started MPI itself, at any thread level (`MPI_Init` suffices), it may start and end the library as often as it
  !> likes; at a level below `MPI_THREAD_SERIALIZED` all calls come from the thread that started MPI. Fails after
  !> `MPI_Finalize`.
  subroutine gr_init(num_threads, check_mode, stat)
    integer, intent(in), optional :: num_threads
    character(*), intent(in), optional :: check_mode
    integer, intent(out), optional :: stat
    integer(c_int) :: num_threads_c
    character(:, c_char), allocatable, target :: check_mode_c
    type(c_ptr) :: check_mode_p
    integer(c_int) :: status
    num_threads_c = 0
    if (present(num_threads)) then
    num_threads_c = int(num_threads, c_int)
    end if
    if (present(check_mode)) then
    check_mode_c = trim(check_mode) // c_null_char
    end if
    check_mode_p = c_null_ptr
    if (present(check_mode)) check_mode_p = c_loc(check_mode_c)
    call gr_fortran_call('' // c_null_char)
    status = c_gr_init(num_threads_c, check_mode_p)
    call ended(status, stat)
  end subroutine

  !> Ends what `gr_init` started, at its last call. Handles that exist then are freed, the newest first, and listed on
  !> stderr in check mode. May be called after `MPI_Finalize`.
  subroutine gr_finalize(stat)
    integer, intent(out), optional :: stat
    integer(c_int) :: status
    call gr_fortran_call('' // c_null_char)
    status = c_gr_finalize()
    call ended(status, stat)
  end subroutine

  !> Whether `gr_init` was called, without `gr_finalize`.
  subroutine gr_is_initialized(initialized, stat)
    logical, intent(out) :: initialized
    integer, intent(out), optional :: stat
    integer(c_int), target :: initialized_c
    integer(c_int) :: status
    initialized_c = 0
    call gr_fortran_call('' // c_null_char)
    status = c_gr_is_initialized(c_loc(initialized_c))
    if (status == 0) initialized = initialized_c /= 0
    call ended(status, stat)
  end subroutine

  !> Name of the next plan that this thread makes: a halo, a repartition, sums. Reports of waits that stall, refused
  !> calls and disagreements between ranks contain it. In Fortran, `name='tracers'` of the call that makes the plan.
  subroutine gr_plan_name(name, stat)
    character(*), intent(in) :: name
    integer, intent(out), optional :: stat
    character(:, c_char), allocatable, target :: name_c
    integer(c_int) :: status
    name_c = trim(name) // c_null_char
    call gr_fortran_call('' // c_null_char)
    status = c_gr_plan_name(c_loc(name_c))
    call ended(status, stat)
  end subroutine

  !> How this process copies long runs: a name of the environment variable GRATICULE_COPY; empty before the first large
  !> call.
  subroutine gr_long_copies(name, stat)
    character(:), allocatable, intent(out) :: name
    integer, intent(out), optional :: stat
    type(c_ptr), target :: name_c
    integer(c_int) :: status
    name_c = c_null_ptr
    call gr_fortran_call('' // c_null_char)
    status = c_gr_long_copies(c_loc(name_c))
    if (status == 0) name = text_at(name_c)
    call ended(status, stat)
  end subroutine

  !> Sets after how many seconds a wait for other ranks is reported on stderr, and after how many it ends with an error.
  subroutine gr_set_patience(report_seconds, error_seconds, stat)
    real(c_double), intent(in) :: report_seconds
    real(c_double), intent(in) :: error_seconds
    integer, intent(out), optional :: stat
    real(c_double) :: report_seconds_c
    real(c_double) :: error_seconds_c
    integer(c_int) :: status
    report_seconds_c = report_seconds
    error_seconds_c = error_seconds
    call gr_fortran_call('' // c_null_char)
    status = c_gr_set_patience(report_seconds_c, error_seconds_c)
    call ended(status, stat)
  end subroutine

  !> The same for a communicator of Fortran. Collective.
  subroutine gr_comm_create_integer(mpi, comm, stat)
    integer(c_int), intent(in) :: mpi
    type(gr_comm), intent(inout) :: comm
    integer, intent(out), optional :: stat
    integer(c_int) :: mpi_c
    type(c_ptr), target :: comm_c
    integer(c_int) :: status
    mpi_c = mpi
    comm_c = comm%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_comm_create_f(mpi_c, c_loc(comm_c))
    comm%handle = comm_c
    call ended(status, stat)
  end subroutine

  !> Frees a communicator. Collective, and so is freeing the last plan that was made on it.
  subroutine gr_comm_destroy(comm, stat)
    type(gr_comm), intent(inout) :: comm
    integer, intent(out), optional :: stat
    type(c_ptr), target :: comm_c
    integer(c_int) :: status
    comm_c = comm%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_comm_destroy(c_loc(comm_c))
    comm%handle = comm_c
    call ended(status, stat)
  end subroutine

  !> Rank of the caller.
  subroutine gr_comm_rank(comm, rank, stat)
    type(gr_comm), intent(in) :: comm
    integer, intent(out) :: rank
    integer, intent(out), optional :: stat
    type(c_ptr) :: comm_c
    integer(c_int), target :: rank_c
    integer(c_int) :: status
    comm_c = comm%handle
    rank_c = 0
    call gr_fortran_call('' // c_null_char)
    status = c_gr_comm_rank(comm_c, c_loc(rank_c))
    if (status == 0) rank = rank_c
    call ended(status, stat)
  end subroutine

  !> Number of ranks.
  subroutine gr_comm_size(comm, num_ranks, stat)
    type(gr_comm), intent(in) :: comm
    integer, intent(out) :: num_ranks
    integer, intent(out), optional :: stat
    type(c_ptr) :: comm_c
    integer(c_int), target :: num_ranks_c
    integer(c_int) :: status
    comm_c = comm%handle
    num_ranks_c = 0
    call gr_fortran_call('' // c_null_char)
    status = c_gr_comm_size(comm_c, c_loc(num_ranks_c))
    if (status == 0) num_ranks = num_ranks_c
    call ended(status, stat)
  end subroutine

  !> Number of ranks that share the memory of this rank, and its place among them.
  subroutine gr_comm_node(comm, num_node_ranks, node_rank, stat)
    type(gr_comm), intent(in) :: comm
    integer, intent(out) :: num_node_ranks
    integer, intent(out) :: node_rank
    integer, intent(out), optional :: stat
    type(c_ptr) :: comm_c
    integer(c_int), target :: num_node_ranks_c
    integer(c_int), target :: node_rank_c
    integer(c_int) :: status
    comm_c = comm%handle
    num_node_ranks_c = 0
    node_rank_c = 0
    call gr_fortran_call('' // c_null_char)
    status = c_gr_comm_node(comm_c, c_loc(num_node_ranks_c), c_loc(node_rank_c))
    if (status == 0) num_node_ranks = num_node_ranks_c
    if (status == 0) node_rank = node_rank_c
    call ended(status, stat)
  end subroutine

  !> Node of each rank: nodes are numbered in order of their lowest rank. Collective.
  subroutine gr_comm_nodes(comm, nodes, stat)
    type(gr_comm), intent(in) :: comm
    integer, intent(out) :: nodes(:)
    integer, intent(out), optional :: stat
    type(c_ptr) :: comm_c
    integer(c_int) :: num_ranks
    integer(c_int), allocatable, target :: nodes_c(:)
    integer(c_int) :: status
    comm_c = comm%handle
    num_ranks = int(size(nodes), c_int)
    allocate(nodes_c(size(nodes)))
    nodes_c = 0
    call gr_fortran_call('num_ranks=size(nodes);' // c_null_char)
    status = c_gr_comm_nodes(comm_c, num_ranks, c_loc(nodes_c))
    if (status == 0) nodes = int(nodes_c)
    call ended(status, stat)
  end subroutine

  !> The same for Fortran.
  subroutine gr_comm_mpi_integer(comm, mpi, stat)
    type(gr_comm), intent(in) :: comm
    integer(c_int), intent(out) :: mpi
    integer, intent(out), optional :: stat
    type(c_ptr) :: comm_c
    integer(c_int), target :: mpi_c
    integer(c_int) :: status
    comm_c = comm%handle
    mpi_c = 0
    call gr_fortran_call('' // c_null_char)
    status = c_gr_comm_mpi_f(comm_c, c_loc(mpi_c))
    if (status == 0) mpi = mpi_c
    call ended(status, stat)
  end subroutine

  !> Makes a communicator usable again after an error that some ranks had in the middle of a call. Collective.
  !>
  !> Plans made before are refused afterwards: make them again.
  subroutine gr_comm_renew(comm, stat)
    type(gr_comm), intent(inout) :: comm
    integer, intent(out), optional :: stat
    type(c_ptr) :: comm_c
    integer(c_int) :: status
    comm_c = comm%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_comm_renew(comm_c)
    call ended(status, stat)
  end subroutine

  !> Notifies all other ranks that this rank gives up its current calls: their waits end with an error. Not collective.
  subroutine gr_comm_announce_failure(comm, text, stat)
    type(gr_comm), intent(in) :: comm
    character(*), intent(in) :: text
    integer, intent(out), optional :: stat
    type(c_ptr) :: comm_c
    character(:, c_char), allocatable, target :: text_c
    integer(c_int) :: status
    comm_c = comm%handle
    text_c = trim(text) // c_null_char
    call gr_fortran_call('' // c_null_char)
    status = c_gr_comm_announce_failure(comm_c, c_loc(text_c))
    call ended(status, stat)
  end subroutine

  !> Divides the ranks of a communicator into teams along several axes: each rank is in one team of every axis.
  !> Collective.
  !>
  !> The last axis varies fastest, in all languages: its teams are neighbors on one node where node and team sizes allow
  !> it, so use it for the team with the most traffic.
  !> Example: axes data and domain of the sizes 0 and 4, on 8 ranks: ranks 0 to 3 are one domain team, 4 to 7 the other,
  !> and ranks 1 and 5 are one data team.
  subroutine gr_teams_create(comm, names, sizes, teams, stat)
    type(gr_comm), intent(in) :: comm
    character(*), intent(in) :: names(:)
    integer, intent(in) :: sizes(:)
    type(gr_teams), intent(inout) :: teams
    integer, intent(out), optional :: stat
    type(c_ptr) :: comm_c
    integer(c_int) :: num_axes
    character(kind=c_char), allocatable, target :: names_t(:, :)
    type(c_ptr), allocatable, target :: names_c(:)
    integer(c_int), allocatable, target :: sizes_c(:)
    type(c_ptr), target :: teams_c
    integer(c_int) :: status
    comm_c = comm%handle
    num_axes = int(size(names), c_int)
    if (size(sizes) /= num_axes) then
    call wrong_size('gr_teams_create', 'sizes', int(size(sizes), c_int), num_axes, stat)
    return
    end if
    call to_texts(names, names_t, names_c)
    sizes_c = int(sizes, c_int)
    teams_c = teams%handle
    call gr_fortran_call('num_axes=size(names);' // c_null_char)
    status = c_gr_teams_create(comm_c, num_axes, c_loc(names_c), c_loc(sizes_c), c_loc(teams_c))
    teams%handle = teams_c
    call ended(status, stat)
  end subroutine

  !> Frees teams; communicators that were taken from them stay valid. Collective.
  subroutine gr_teams_destroy(teams, stat)
    type(gr_teams), intent(inout) :: teams
    integer, intent(out), optional :: stat
    type(c_ptr), target :: teams_c
    integer(c_int) :: status
    teams_c = teams%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_teams_destroy(c_loc(teams_c))
    teams%handle = teams_c
    call ended(status, stat)
  end subroutine

  !> All ranks, in the order that the teams need: rank 0 of it is rank 0 of its team along every axis.
  subroutine gr_teams_world(teams, comm, stat)
    type(gr_teams), intent(in) :: teams
    type(gr_comm), intent(inout) :: comm
    integer, intent(out), optional :: stat
    type(c_ptr) :: teams_c
    type(c_ptr), target :: comm_c
    integer(c_int) :: status
    teams_c = teams%handle
    comm_c = comm%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_teams_world(teams_c, c_loc(comm_c))
    comm%handle = comm_c
    call ended(status, stat)
  end subroutine

  !> Team of this rank along an axis.
  subroutine gr_teams_team(teams, name, comm, stat)
    type(gr_teams), intent(in) :: teams
    character(*), intent(in) :: name
    type(gr_comm), intent(inout) :: comm
    integer, intent(out), optional :: stat
    type(c_ptr) :: teams_c
    character(:, c_char), allocatable, target :: name_c
    type(c_ptr), target :: comm_c
    integer(c_int) :: status
    teams_c = teams%handle
    name_c = trim(name) // c_null_char
    comm_c = comm%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_teams_team(teams_c, c_loc(name_c), c_loc(comm_c))
    comm%handle = comm_c
    call ended(status, stat)
  end subroutine

  !> Parts of the given numbers of cells, in order.
  !> Example: 4, 3, 3 cut 10 cells into [0, 4), [4, 7), [7, 10).
  subroutine gr_cuts_create(sizes, cuts, stat)
    integer, intent(in) :: sizes(:)
    type(gr_cuts), intent(inout) :: cuts
    integer, intent(out), optional :: stat
    integer(c_int) :: num_parts
    integer(c_int64_t), allocatable, target :: sizes_c(:)
    type(c_ptr), target :: cuts_c
    integer(c_int) :: status
    num_parts = int(size(sizes), c_int)
    sizes_c = int(sizes, c_int64_t)
    cuts_c = cuts%handle
    call gr_fortran_call('num_parts=size(sizes);' // c_null_char)
    status = c_gr_cuts_create(num_parts, c_loc(sizes_c), c_loc(cuts_c))
    cuts%handle = cuts_c
    call ended(status, stat)
  end subroutine

  !> Parts that differ by at most one cell, the larger ones first.
  subroutine gr_cuts_create_balanced(extent, num_parts, cuts, stat)
    integer, intent(in) :: extent
    integer, intent(in) :: num_parts
    type(gr_cuts), intent(inout) :: cuts
    integer, intent(out), optional :: stat
    integer(c_int64_t) :: extent_c
    integer(c_int) :: num_parts_c
    type(c_ptr), target :: cuts_c
    integer(c_int) :: status
    extent_c = int(extent, c_int64_t)
    num_parts_c = int(num_parts, c_int)
    cuts_c = cuts%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_cuts_create_balanced(extent_c, num_parts_c, c_loc(cuts_c))
    cuts%handle = cuts_c
    call ended(status, stat)
  end subroutine

  !> Parts that minimise the weight of the heaviest part.
  subroutine gr_cuts_create_weighted(weights, num_parts, min_cells, cuts, stat)
    real(c_double), intent(in) :: weights(:)
    integer, intent(in) :: num_parts
    integer, intent(in), optional :: min_cells
    type(gr_cuts), intent(inout) :: cuts
    integer, intent(out), optional :: stat
    integer(c_int) :: num_cells
    real(c_double), allocatable, target :: weights_c(:)
    integer(c_int) :: num_parts_c
    integer(c_int64_t) :: min_cells_c
    type(c_ptr), target :: cuts_c
    integer(c_int) :: status
    num_cells = int(size(weights), c_int)
    weights_c = weights
    num_parts_c = int(num_parts, c_int)
    min_cells_c = 1
    if (present(min_cells)) then
    min_cells_c = int(min_cells, c_int64_t)
    end if
    cuts_c = cuts%handle
    call gr_fortran_call('num_cells=size(weights);' // c_null_char)
    status = c_gr_cuts_create_weighted(num_cells, c_loc(weights_c), num_parts_c, min_cells_c, c_loc(cuts_c))
    cuts%handle = cuts_c
    call ended(status, stat)
  end subroutine

  !> Parts of equal cost by measured times: each cell of part p costs `seconds[p]` divided by the cells of the part.
  subroutine gr_cuts_create_rebalanced(old, seconds, min_cells, cuts, stat)
    type(gr_cuts), intent(in) :: old
    real(c_double), intent(in) :: seconds(:)
    integer, intent(in), optional :: min_cells
    type(gr_cuts), intent(inout) :: cuts
    integer, intent(out), optional :: stat
    type(c_ptr) :: old_c
    integer(c_int) :: num_parts
    real(c_double), allocatable, target :: seconds_c(:)
    integer(c_int64_t) :: min_cells_c
    type(c_ptr), target :: cuts_c
    integer(c_int) :: status
    old_c = old%handle
    num_parts = int(size(seconds), c_int)
    seconds_c = seconds
    min_cells_c = 1
    if (present(min_cells)) then
    min_cells_c = int(min_cells, c_int64_t)
    end if
    cuts_c = cuts%handle
    call gr_fortran_call('num_parts=size(seconds);' // c_null_char)
    status = c_gr_cuts_create_rebalanced(old_c, num_parts, c_loc(seconds_c), min_cells_c, c_loc(cuts_c))
    cuts%handle = cuts_c
    call ended(status, stat)
  end subroutine

  !> Number of parts.
  subroutine gr_cuts_num_parts(cuts, num_parts, stat)
    type(gr_cuts), intent(in) :: cuts
    integer, intent(out) :: num_parts
    integer, intent(out), optional :: stat
    type(c_ptr) :: cuts_c
    integer(c_int), target :: num_parts_c
    integer(c_int) :: status
    cuts_c = cuts%handle
    num_parts_c = 0
    call gr_fortran_call('' // c_null_char)
    status = c_gr_cuts_num_parts(cuts_c, c_loc(num_parts_c))
    if (status == 0) num_parts = num_parts_c
    call ended(status, stat)
  end subroutine

  !> Cells of each part.
  subroutine gr_cuts_sizes(cuts, sizes, stat)
    type(gr_cuts), intent(in) :: cuts
    integer, intent(out) :: sizes(:)
    integer, intent(out), optional :: stat
    type(c_ptr) :: cuts_c
    integer(c_int) :: num_parts
    integer(c_int64_t), allocatable, target :: sizes_c(:)
    integer(c_int) :: status
    cuts_c = cuts%handle
    num_parts = int(size(sizes), c_int)
    allocate(sizes_c(size(sizes)))
    sizes_c = 0
    call gr_fortran_call('num_parts=size(sizes);' // c_null_char)
    status = c_gr_cuts_sizes(cuts_c, num_parts, c_loc(sizes_c))
    if (status == 0) sizes = int(sizes_c)
    call ended(status, stat)
  end subroutine

  !> Frees cuts.
  subroutine gr_cuts_destroy(cuts, stat)
    type(gr_cuts), intent(inout) :: cuts
    integer, intent(out), optional :: stat
    type(c_ptr), target :: cuts_c
    integer(c_int) :: status
    cuts_c = cuts%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_cuts_destroy(c_loc(cuts_c))
    cuts%handle = cuts_c
    call ended(status, stat)
  end subroutine

  !> Fraction of the sphere that each row represents: weights for cuts of equal area and for global means.
  subroutine gr_area_weights(latitudes, weights, stat)
    real(c_double), intent(in) :: latitudes(:)
    real(c_double), intent(out) :: weights(:)
    integer, intent(out), optional :: stat
    integer(c_int) :: num_rows
    real(c_double), allocatable, target :: latitudes_c(:)
    real(c_double), allocatable, target :: weights_c(:)
    integer(c_int) :: status
    num_rows = int(size(latitudes), c_int)
    if (size(weights) /= num_rows) then
    call wrong_size('gr_area_weights', 'weights', int(size(weights), c_int), num_rows, stat)
    return
    end if
    latitudes_c = latitudes
    allocate(weights_c(size(weights)))
    weights_c = 0
    call gr_fortran_call('num_rows=size(latitudes);' // c_null_char)
    status = c_gr_area_weights(num_rows, c_loc(latitudes_c), c_loc(weights_c))
    if (status == 0) weights = weights_c
    call ended(status, stat)
  end subroutine

  !> Layout of balanced cuts over a process grid: the rank at (c0, c1) owns part c0 of axis 0 and part c1 of axis 1.
  !>
  !> Ranks are placed with the last axis fastest. Ranks beyond the product of `num_parts` own nothing.
  !> Example: 241 x 480 cells, 4 x 1 parts: rank 1 owns [61, 121) x [0, 480).
  subroutine gr_layout_create(extents, num_parts, layout, stat)
    integer, intent(in) :: extents(:)
    integer, intent(in) :: num_parts(:)
    type(gr_layout), intent(inout) :: layout
    integer, intent(out), optional :: stat
    integer(c_int) :: ndim
    integer(c_int64_t), allocatable, target :: extents_c(:)
    integer(c_int), allocatable, target :: num_parts_c(:)
    type(c_ptr), target :: layout_c
    integer(c_int) :: status
    ndim = int(size(extents), c_int)
    if (size(num_parts) /= ndim) then
    call wrong_size('gr_layout_create', 'num_parts', int(size(num_parts), c_int), ndim, stat)
    return
    end if
    extents_c = int(extents(ndim:1:-1), c_int64_t)
    num_parts_c = int(num_parts(ndim:1:-1), c_int)
    layout_c = layout%handle
    call gr_fortran_call('ndim=size(extents);' // c_null_char)
    status = c_gr_layout_create(ndim, c_loc(extents_c), c_loc(num_parts_c), c_loc(layout_c))
    layout%handle = layout_c
    call ended(status, stat)
  end subroutine

  !> Layout of given cuts.
  subroutine gr_layout_create_cuts(cuts, ranks, layout, stat)
    type(gr_cuts), intent(in) :: cuts(:)
    integer, intent(in), optional :: ranks(:)
    type(gr_layout), intent(inout) :: layout
    integer, intent(out), optional :: stat
    integer(c_int) :: ndim
    type(c_ptr), target :: cuts_c(size(cuts))
    integer(c_int) :: num_ranks
    integer(c_int), allocatable, target :: ranks_c(:)
    type(c_ptr), target :: layout_c
    type(c_ptr) :: ranks_p
    integer(c_int) :: status
    ndim = int(size(cuts), c_int)
    cuts_c = cuts(size(cuts):1:-1)%handle
    num_ranks = 0
    if (present(ranks)) num_ranks = int(size(ranks), c_int)
    if (present(ranks)) then
    ranks_c = int(ranks, c_int)
    end if
    layout_c = layout%handle
    ranks_p = c_null_ptr
    if (present(ranks)) ranks_p = c_loc(ranks_c)
    call gr_fortran_call('ndim=size(cuts);num_ranks=size(ranks);' // c_null_char)
    status = c_gr_layout_create_cuts(ndim, c_loc(cuts_c), num_ranks, ranks_p, c_loc(layout_c))
    layout%handle = layout_c
    call ended(status, stat)
  end subroutine

  !> Layout of the boxes that the caller already has. Collective.
  !>
  !> Boxes are disjoint and cover the grid. A rank passes no box or one; `gr_layout_create_blocks` takes more.
  subroutine gr_layout_create_boxes(comm, extents, lower, upper, layout, stat)
    type(gr_comm), intent(in) :: comm
    integer, intent(in) :: extents(:)
    integer, intent(in) :: lower(:, :)
    integer, intent(in) :: upper(:, :)
    type(gr_layout), intent(inout) :: layout
    integer, intent(out), optional :: stat
    type(c_ptr) :: comm_c
    integer(c_int) :: ndim
    integer(c_int64_t), allocatable, target :: extents_c(:)
    integer(c_int) :: num_boxes
    integer(c_int64_t), allocatable, target :: lower_c(:, :)
    integer(c_int64_t), allocatable, target :: upper_c(:, :)
    type(c_ptr), target :: layout_c
    integer(c_int) :: status
    comm_c = comm%handle
    ndim = int(size(extents), c_int)
    if (size(lower, 1) /= ndim) then
    call wrong_size('gr_layout_create_boxes', 'lower', int(size(lower, 1), c_int), ndim, stat)
    return
    end if
    if (size(upper, 1) /= ndim) then
    call wrong_size('gr_layout_create_boxes', 'upper', int(size(upper, 1), c_int), ndim, stat)
    return
    end if
    extents_c = int(extents(ndim:1:-1), c_int64_t)
    num_boxes = int(size(lower, 2), c_int)
    if (size(upper, 2) /= num_boxes) then
    call wrong_size('gr_layout_create_boxes', 'upper', int(size(upper, 2), c_int), num_boxes, stat)
    return
    end if
    lower_c = int(lower(ndim:1:-1, :) - 1, c_int64_t)
    upper_c = int(upper(ndim:1:-1, :), c_int64_t)
    layout_c = layout%handle
    call gr_fortran_call('ndim=size(extents);num_boxes=size(lower, 2);' // c_null_char)
    status = c_gr_layout_create_boxes(comm_c, ndim, c_loc(extents_c), num_boxes, c_loc(lower_c), c_loc(upper_c), &
        c_loc(layout_c))
    layout%handle = layout_c
    call ended(status, stat)
  end subroutine

  !> Layout of boxes that need not cover the grid: the other cells are holes, such as land, which no rank owns.
  !> Collective.
  !>
  !> Halo plans give ghost cells there the value `hole` of their kind; repartitions to boxes with an owner, and sums with
  !> a weight for each cell, take such layouts, too.
  subroutine gr_layout_create_with_holes(comm, extents, lower, upper, layout, stat)
    type(gr_comm), intent(in) :: comm
    integer, intent(in) :: extents(:)
    integer, intent(in) :: lower(:, :)
    integer, intent(in) :: upper(:, :)
    type(gr_layout), intent(inout) :: layout
    integer, intent(out), optional :: stat
    type(c_ptr) :: comm_c
    integer(c_int) :: ndim
    integer(c_int64_t), allocatable, target :: extents_c(:)
    integer(c_int) :: num_boxes
    integer(c_int64_t), allocatable, target :: lower_c(:, :)
    integer(c_int64_t), allocatable, target :: upper_c(:, :)
    type(c_ptr), target :: layout_c
    integer(c_int) :: status
    comm_c = comm%handle
    ndim = int(size(extents), c_int)
    if (size(lower, 1) /= ndim) then
    call wrong_size('gr_layout_create_with_holes', 'lower', int(size(lower, 1), c_int), ndim, stat)
    return
    end if
    if (size(upper, 1) /= ndim) then
    call wrong_size('gr_layout_create_with_holes', 'upper', int(size(upper, 1), c_int), ndim, stat)
    return
    end if
    extents_c = int(extents(ndim:1:-1), c_int64_t)
    num_boxes = int(size(lower, 2), c_int)
    if (size(upper, 2) /= num_boxes) then
    call wrong_size('gr_layout_create_with_holes', 'upper', int(size(upper, 2), c_int), num_boxes, stat)
    return
    end if
    lower_c = int(lower(ndim:1:-1, :) - 1, c_int64_t)
    upper_c = int(upper(ndim:1:-1, :), c_int64_t)
    layout_c = layout%handle
    call gr_fortran_call('ndim=size(extents);num_boxes=size(lower, 2);' // c_null_char)
    status = c_gr_layout_create_with_holes(comm_c, ndim, c_loc(extents_c), num_boxes, c_loc(lower_c), &
        c_loc(upper_c), c_loc(layout_c))
    layout%handle = layout_c
    call ended(status, stat)
  end subroutine

  !> Layout of any number of blocks per rank: the tiles of a code, or the ocean blocks of a grid without its land.
  !> Collective.
  !>
  !> Blocks are disjoint; cells of no block are holes, as above. A field is one array per rank for all of its blocks, in
  !> the order of the list, each with the extents of the rank's largest. So the layout has one axis more than the grid,
  !> the number of the block: axis 0, in Fortran the last dimension. Halo plans fill the halos of all blocks in one call,
  !> with kinds that have the axes of the grid.
  !> Example in Fortran, on a grid of nx x ny cells: the blocks lower(2, n) to upper(2, n) of at most bx x by cells make
  !> a layout on which `gr_halo_exchange` takes arrays t(0:bx + 1, 0:by + 1, n) with a halo of one cell.
  subroutine gr_layout_create_blocks(comm, extents, lower, upper, layout, stat)
    type(gr_comm), intent(in) :: comm
    integer, intent(in) :: extents(:)
    integer, intent(in) :: lower(:, :)
    integer, intent(in) :: upper(:, :)
    type(gr_layout), intent(inout) :: layout
    integer, intent(out), optional :: stat
    type(c_ptr) :: comm_c
    integer(c_int) :: ndim
    integer(c_int64_t), allocatable, target :: extents_c(:)
    integer(c_int) :: num_blocks
    integer(c_int64_t), allocatable, target :: lower_c(:, :)
    integer(c_int64_t), allocatable, target :: upper_c(:, :)
    type(c_ptr), target :: layout_c
    integer(c_int) :: status
    comm_c = comm%handle
    ndim = int(size(extents), c_int)
    if (size(lower, 1) /= ndim) then
    call wrong_size('gr_layout_create_blocks', 'lower', int(size(lower, 1), c_int), ndim, stat)
    return
    end if
    if (size(upper, 1) /= ndim) then
    call wrong_size('gr_layout_create_blocks', 'upper', int(size(upper, 1), c_int), ndim, stat)
    return
    end if
    extents_c = int(extents(ndim:1:-1), c_int64_t)
    num_blocks = int(size(lower, 2), c_int)
    if (size(upper, 2) /= num_blocks) then
    call wrong_size('gr_layout_create_blocks', 'upper', int(size(upper, 2), c_int), num_blocks, stat)
    return
    end if
    lower_c = int(lower(ndim:1:-1, :) - 1, c_int64_t)
    upper_c = int(upper(ndim:1:-1, :), c_int64_t)
    layout_c = layout%handle
    call gr_fortran_call('ndim=size(extents);num_blocks=size(lower, 2);' // c_null_char)
    status = c_gr_layout_create_blocks(comm_c, ndim, c_loc(extents_c), num_blocks, c_loc(lower_c), c_loc(upper_c), &
        c_loc(layout_c))
    layout%handle = layout_c
    call ended(status, stat)
  end subroutine

  !> Layout of blocks of several faces that meet along sides: a cubed sphere, or tiles that meet with a turn. Collective.
  !>
  !> The grid has the axes (face, row, column), in Fortran (i, j, face), and a block lies on one face. Everything else is
  !> as with `gr_layout_create_blocks`: a field is one array per rank for all of its blocks, and a repartition from a
  !> layout of the grid moves fields to the blocks. Kinds of halos have the 2 axes of a face, and GR_EDGE_UNTOUCHED.
  !> Components of vectors are along the axes of their face, two kinds side by side: ghost cells get them along the axes
  !> of the block's face. Ghost cells beyond a side without joint, and those where three faces meet, keep their values.
  !> Values lie in centres or on all faces (GR_ALL_FACES): components along their own axis or along the other one,
  !> scalars along both. Both faces store the values on a side where they meet; those of the higher one become copies.
  !> Cubed sphere: the first four faces follow each other eastward round the equator, with rows northward and columns
  !> eastward. The fifth continues the first one beyond the north, the sixth beyond the south.
  subroutine gr_layout_create_faces_list(comm, extents, lower, upper, joints, layout, stat)
    type(gr_comm), intent(in) :: comm
    integer, intent(in) :: extents(:)
    integer, intent(in) :: lower(:, :)
    integer, intent(in) :: upper(:, :)
    type(gr_face_joint), intent(in), optional :: joints(:)
    type(gr_layout), intent(inout) :: layout
    integer, intent(out), optional :: stat
    type(c_ptr) :: comm_c
    integer(c_int) :: ndim
    integer(c_int64_t), allocatable, target :: extents_c(:)
    integer(c_int) :: num_blocks
    integer(c_int64_t), allocatable, target :: lower_c(:, :)
    integer(c_int64_t), allocatable, target :: upper_c(:, :)
    integer(c_int) :: num_joints
    type(gr_face_joint), allocatable, target :: joints_c(:)
    type(c_ptr), target :: layout_c
    type(c_ptr) :: joints_p
    integer(c_int) :: status
    comm_c = comm%handle
    ndim = int(size(extents), c_int)
    if (size(lower, 1) /= ndim) then
    call wrong_size('gr_layout_create_faces', 'lower', int(size(lower, 1), c_int), ndim, stat)
    return
    end if
    if (size(upper, 1) /= ndim) then
    call wrong_size('gr_layout_create_faces', 'upper', int(size(upper, 1), c_int), ndim, stat)
    return
    end if
    extents_c = int(extents(ndim:1:-1), c_int64_t)
    num_blocks = int(size(lower, 2), c_int)
    if (size(upper, 2) /= num_blocks) then
    call wrong_size('gr_layout_create_faces', 'upper', int(size(upper, 2), c_int), num_blocks, stat)
    return
    end if
    lower_c = int(lower(ndim:1:-1, :) - 1, c_int64_t)
    upper_c = int(upper(ndim:1:-1, :), c_int64_t)
    num_joints = 0
    if (present(joints)) num_joints = int(size(joints), c_int)
    if (present(joints)) then
    joints_c = in_c_order(joints)
    joints_c%size = c_sizeof(joints_c(1))
    end if
    layout_c = layout%handle
    joints_p = c_null_ptr
    if (present(joints)) joints_p = c_loc(joints_c)
    call gr_fortran_call('ndim=size(extents);num_blocks=size(lower, 2);num_joints=size(joints);' // c_null_char)
    status = c_gr_layout_create_faces(comm_c, ndim, c_loc(extents_c), num_blocks, c_loc(lower_c), c_loc(upper_c), &
        num_joints, joints_p, c_loc(layout_c))
    layout%handle = layout_c
    call ended(status, stat)
  end subroutine

  subroutine gr_layout_create_faces_one(comm, extents, lower, upper, joints, layout, stat)
    type(gr_comm), intent(in) :: comm
    integer, intent(in) :: extents(:)
    integer, intent(in) :: lower(:, :)
    integer, intent(in) :: upper(:, :)
    type(gr_face_joint), intent(in), target :: joints
    type(gr_layout), intent(inout) :: layout
    integer, intent(out), optional :: stat
    call gr_layout_create_faces_list(comm=comm, extents=extents, lower=lower, upper=upper, joints=[joints], &
        layout=layout, stat=stat)
  end subroutine

  !> Layout on whose process grid the slowest rank exchanges halos of a kind fastest, by a model of the costs.
  !> Collective.
  subroutine gr_layout_create_best(comm, extents, kind, element_bytes, num_batch, layout, stat)
    type(gr_comm), intent(in) :: comm
    integer, intent(in) :: extents(:)
    type(gr_halo_kind), intent(in) :: kind
    integer, intent(in) :: element_bytes
    integer, intent(in) :: num_batch
    type(gr_layout), intent(inout) :: layout
    integer, intent(out), optional :: stat
    type(c_ptr) :: comm_c
    integer(c_int) :: ndim
    integer(c_int64_t), allocatable, target :: extents_c(:)
    type(gr_halo_kind), target :: kind_c
    integer(c_int64_t) :: element_bytes_c
    integer(c_int64_t) :: num_batch_c
    type(c_ptr), target :: layout_c
    integer(c_int) :: status
    comm_c = comm%handle
    ndim = int(size(extents), c_int)
    extents_c = int(extents(ndim:1:-1), c_int64_t)
    kind_c = in_c_order(kind)
    kind_c%size = c_sizeof(kind_c)
    element_bytes_c = int(element_bytes, c_int64_t)
    num_batch_c = int(num_batch, c_int64_t)
    layout_c = layout%handle
    call gr_fortran_call('ndim=size(extents);' // c_null_char)
    status = c_gr_layout_create_best(comm_c, ndim, c_loc(extents_c), c_loc(kind_c), element_bytes_c, num_batch_c, &
        c_loc(layout_c))
    layout%handle = layout_c
    call ended(status, stat)
  end subroutine

  !> Gives all ranks of a communicator a layout that only a part of them knows, in the ranks of `comm`. Collective.
  subroutine gr_layout_create_shared(comm, part, part_comm, layout, stat)
    type(gr_comm), intent(in) :: comm
    type(gr_layout), intent(in), optional :: part
    type(gr_comm), intent(in), optional :: part_comm
    type(gr_layout), intent(inout) :: layout
    integer, intent(out), optional :: stat
    type(c_ptr) :: comm_c
    type(c_ptr) :: part_c
    type(c_ptr) :: part_comm_c
    type(c_ptr), target :: layout_c
    integer(c_int) :: status
    part_c = c_null_ptr
    part_comm_c = c_null_ptr
    comm_c = comm%handle
    if (present(part)) then
    part_c = part%handle
    end if
    if (present(part_comm)) then
    part_comm_c = part_comm%handle
    end if
    layout_c = layout%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_layout_create_shared(comm_c, part_c, part_comm_c, c_loc(layout_c))
    layout%handle = layout_c
    call ended(status, stat)
  end subroutine

  !> Gives the boxes of a layout to the ranks that already hold most of their cells, for grids whose ranks may swap
  !> boxes.
  !>
  !> A moved cell costs 1, or `off_node_weight` where it leaves its node. Up to a thousand ranks, and with balanced cuts
  !> beyond, no other assignment of the boxes costs less; `cost_above_least` bounds what one may save elsewhere. Ranks
  !> with equal arguments agree without messages.
  !> Example: a field on the rows [0, 3), [3, 6), [6, 9) of ranks 0, 1, 2, and a layout with the same rows on the ranks
  !> 2, 0, 1: all boxes return to the ranks that hold them, and a repartition to `layout` sends nothing.
  subroutine gr_layout_relabel(from, to, options, node_of_rank, ranks, layout, saving, stat)
    type(gr_layout), intent(in) :: from
    type(gr_layout), intent(in) :: to
    type(gr_relabel_options), intent(in), optional :: options
    integer, intent(in), optional :: node_of_rank(:)
    integer, intent(in), optional :: ranks(:)
    type(gr_layout), intent(inout) :: layout
    type(gr_relabelling), intent(out), optional :: saving
    integer, intent(out), optional :: stat
    type(c_ptr) :: from_c
    type(c_ptr) :: to_c
    type(gr_relabel_options), target :: options_c
    integer(c_int) :: num_nodes
    integer(c_int), allocatable, target :: node_of_rank_c(:)
    integer(c_int) :: num_ranks
    integer(c_int), allocatable, target :: ranks_c(:)
    type(c_ptr), target :: layout_c
    type(gr_relabelling), target :: saving_c
    type(c_ptr) :: options_p
    type(c_ptr) :: node_of_rank_p
    type(c_ptr) :: ranks_p
    type(c_ptr) :: saving_p
    integer(c_int) :: status
    from_c = from%handle
    to_c = to%handle
    if (present(options)) then
    options_c = in_c_order(options)
    options_c%size = c_sizeof(options_c)
    end if
    num_nodes = 0
    if (present(node_of_rank)) num_nodes = int(size(node_of_rank), c_int)
    if (present(node_of_rank)) then
    node_of_rank_c = int(node_of_rank, c_int)
    end if
    num_ranks = 0
    if (present(ranks)) num_ranks = int(size(ranks), c_int)
    if (present(ranks)) then
    ranks_c = int(ranks, c_int)
    end if
    layout_c = layout%handle
    if (present(saving)) then
    saving_c%size = c_sizeof(saving_c)
    end if
    options_p = c_null_ptr
    if (present(options)) options_p = c_loc(options_c)
    node_of_rank_p = c_null_ptr
    if (present(node_of_rank)) node_of_rank_p = c_loc(node_of_rank_c)
    ranks_p = c_null_ptr
    if (present(ranks)) ranks_p = c_loc(ranks_c)
    saving_p = c_null_ptr
    if (present(saving)) saving_p = c_loc(saving_c)
    call gr_fortran_call('num_nodes=size(node_of_rank);num_ranks=size(ranks);' // c_null_char)
    status = c_gr_layout_relabel(from_c, to_c, options_p, num_nodes, node_of_rank_p, num_ranks, ranks_p, &
        c_loc(layout_c), saving_p)
    layout%handle = layout_c
    if (present(saving)) then
    if (status == 0) saving = saving_c
    end if
    call ended(status, stat)
  end subroutine

  !> Number of axes.
  subroutine gr_layout_ndim(layout, ndim, stat)
    type(gr_layout), intent(in) :: layout
    integer, intent(out) :: ndim
    integer, intent(out), optional :: stat
    type(c_ptr) :: layout_c
    integer(c_int), target :: ndim_c
    integer(c_int) :: status
    layout_c = layout%handle
    ndim_c = 0
    call gr_fortran_call('' // c_null_char)
    status = c_gr_layout_ndim(layout_c, c_loc(ndim_c))
    if (status == 0) ndim = ndim_c
    call ended(status, stat)
  end subroutine

  !> Cells of the grid along each axis.
  subroutine gr_layout_extents(layout, extents, stat)
    type(gr_layout), intent(in) :: layout
    integer, intent(out) :: extents(:)
    integer, intent(out), optional :: stat
    type(c_ptr) :: layout_c
    integer(c_int) :: ndim
    integer(c_int64_t), allocatable, target :: extents_c(:)
    integer(c_int) :: status
    layout_c = layout%handle
    ndim = int(size(extents), c_int)
    allocate(extents_c(size(extents)))
    extents_c = 0
    call gr_fortran_call('ndim=size(extents);' // c_null_char)
    status = c_gr_layout_extents(layout_c, ndim, c_loc(extents_c))
    if (status == 0) extents = int(extents_c(ndim:1:-1))
    call ended(status, stat)
  end subroutine

  !> Box of one rank; empty for a rank that owns nothing.
  subroutine gr_layout_owned(layout, rank, lower, upper, stat)
    type(gr_layout), intent(in) :: layout
    integer, intent(in) :: rank
    integer, intent(out) :: lower(:)
    integer, intent(out) :: upper(:)
    integer, intent(out), optional :: stat
    type(c_ptr) :: layout_c
    integer(c_int) :: rank_c
    integer(c_int) :: ndim
    integer(c_int64_t), allocatable, target :: lower_c(:)
    integer(c_int64_t), allocatable, target :: upper_c(:)
    integer(c_int) :: status
    layout_c = layout%handle
    rank_c = int(rank, c_int)
    ndim = int(size(lower), c_int)
    if (size(upper) /= ndim) then
    call wrong_size('gr_layout_owned', 'upper', int(size(upper), c_int), ndim, stat)
    return
    end if
    allocate(lower_c(size(lower)))
    lower_c = 0
    allocate(upper_c(size(upper)))
    upper_c = 0
    call gr_fortran_call('ndim=size(lower);' // c_null_char)
    status = c_gr_layout_owned(layout_c, rank_c, ndim, c_loc(lower_c), c_loc(upper_c))
    if (status == 0) lower = int(lower_c(ndim:1:-1) + 1)
    if (status == 0) upper = int(upper_c(ndim:1:-1))
    call ended(status, stat)
  end subroutine

  !> One line that describes a layout.
  subroutine gr_layout_text(layout, text, stat)
    type(gr_layout), intent(in) :: layout
    character(:), allocatable, intent(out) :: text
    integer, intent(out), optional :: stat
    type(c_ptr) :: layout_c
    type(c_ptr), target :: text_c
    integer(c_int) :: status
    layout_c = layout%handle
    text_c = c_null_ptr
    call gr_fortran_call('' // c_null_char)
    status = c_gr_layout_text(layout_c, c_loc(text_c))
    if (status == 0) text = text_at(text_c)
    call ended(status, stat)
  end subroutine

  !> Frees a layout.
  subroutine gr_layout_destroy(layout, stat)
    type(gr_layout), intent(inout) :: layout
    integer, intent(out), optional :: stat
    type(c_ptr), target :: layout_c
    integer(c_int) :: status
    layout_c = layout%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_layout_destroy(c_loc(layout_c))
    layout%handle = layout_c
    call ended(status, stat)
  end subroutine

  !> Allocates memory for fields that the other ranks of the node read in place: a plan then copies each cell once.
  !>
  !> By one rank alone, at any time. Fields may lie anywhere in it, and be combined with fields in other memory. Where
  !> the system cannot share memory it is ordinary memory.
  subroutine gr_node_memory_create(num_bytes, memory, stat)
    integer(c_int64_t), intent(in) :: num_bytes
    type(gr_node_memory), intent(inout) :: memory
    integer, intent(out), optional :: stat
    integer(c_int64_t) :: num_bytes_c
    type(c_ptr), target :: memory_c
    integer(c_int) :: status
    num_bytes_c = num_bytes
    memory_c = memory%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_node_memory_create(num_bytes_c, c_loc(memory_c))
    memory%handle = memory_c
    call ended(status, stat)
  end subroutine

  !> Address of the first byte, at the beginning of a page.
  subroutine gr_node_memory_address(memory, address, stat)
    type(gr_node_memory), intent(in) :: memory
    type(c_ptr), intent(out) :: address
    integer, intent(out), optional :: stat
    type(c_ptr) :: memory_c
    type(c_ptr), target :: address_c
    integer(c_int) :: status
    memory_c = memory%handle
    address_c = c_null_ptr
    call gr_fortran_call('' // c_null_char)
    status = c_gr_node_memory_address(memory_c, c_loc(address_c))
    if (status == 0) address = address_c
    call ended(status, stat)
  end subroutine

  !> Number of bytes.
  subroutine gr_node_memory_size(memory, num_bytes, stat)
    type(gr_node_memory), intent(in) :: memory
    integer(c_int64_t), intent(out) :: num_bytes
    integer, intent(out), optional :: stat
    type(c_ptr) :: memory_c
    integer(c_int64_t), target :: num_bytes_c
    integer(c_int) :: status
    memory_c = memory%handle
    num_bytes_c = 0
    call gr_fortran_call('' // c_null_char)
    status = c_gr_node_memory_size(memory_c, c_loc(num_bytes_c))
    if (status == 0) num_bytes = num_bytes_c
    call ended(status, stat)
  end subroutine

  !> Whether other ranks can read it in place.
  subroutine gr_node_memory_is_shared(memory, shared, stat)
    type(gr_node_memory), intent(in) :: memory
    logical, intent(out) :: shared
    integer, intent(out), optional :: stat
    type(c_ptr) :: memory_c
    integer(c_int), target :: shared_c
    integer(c_int) :: status
    memory_c = memory%handle
    shared_c = 0
    call gr_fortran_call('' // c_null_char)
    status = c_gr_node_memory_is_shared(memory_c, c_loc(shared_c))
    if (status == 0) shared = shared_c /= 0
    call ended(status, stat)
  end subroutine

  !> Frees memory: after the last call with fields in it has ended.
  subroutine gr_node_memory_destroy(memory, stat)
    type(gr_node_memory), intent(inout) :: memory
    integer, intent(out), optional :: stat
    type(c_ptr), target :: memory_c
    integer(c_int) :: status
    memory_c = memory%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_node_memory_destroy(c_loc(memory_c))
    memory%handle = memory_c
    call ended(status, stat)
  end subroutine

  !> Waits until a call in flight is complete, and frees it. With an error it is freed too.
  subroutine gr_finish(pending, stat)
    type(gr_pending), intent(inout) :: pending
    integer, intent(out), optional :: stat
    type(c_ptr), target :: pending_c
    integer(c_int) :: status
    pending_c = pending%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_finish(c_loc(pending_c))
    pending%handle = pending_c
    call ended(status, stat)
  end subroutine

  !> Whether `gr_finish` would not block. Does not block.
  subroutine gr_test(pending, complete, stat)
    type(gr_pending), intent(inout) :: pending
    logical, intent(out) :: complete
    integer, intent(out), optional :: stat
    type(c_ptr) :: pending_c
    integer(c_int), target :: complete_c
    integer(c_int) :: status
    pending_c = pending%handle
    complete_c = 0
    call gr_fortran_call('' // c_null_char)
    status = c_gr_test(pending_c, c_loc(complete_c))
    if (status == 0) complete = complete_c /= 0
    call ended(status, stat)
  end subroutine

  !> The same width and rule on all sides.
  subroutine gr_halo_kind_uniform(ndim, edge, width, kind, stat)
    integer, intent(in) :: ndim
    integer, intent(in) :: edge
    integer, intent(in) :: width
    type(gr_halo_kind), intent(out) :: kind
    integer, intent(out), optional :: stat
    integer(c_int) :: ndim_c
    integer(c_int) :: edge_c
    integer(c_int64_t) :: width_c
    type(gr_halo_kind), target :: kind_c
    integer(c_int) :: status
    ndim_c = int(ndim, c_int)
    edge_c = int(edge, c_int)
    width_c = int(width, c_int64_t)
    kind_c%size = c_sizeof(kind_c)
    call gr_fortran_call('' // c_null_char)
    status = c_gr_halo_kind_uniform(ndim_c, edge_c, width_c, c_loc(kind_c))
    if (status == 0) kind = in_c_order(kind_c)
    call ended(status, stat)
  end subroutine

  !> Axes (latitude, longitude): both poles crossed by the same rule, longitude periodic.
  subroutine gr_halo_kind_sphere(pole, width, kind, stat)
    integer, intent(in) :: pole
    integer, intent(in) :: width
    type(gr_halo_kind), intent(out) :: kind
    integer, intent(out), optional :: stat
    integer(c_int) :: pole_c
    integer(c_int64_t) :: width_c
    type(gr_halo_kind), target :: kind_c
    integer(c_int) :: status
    pole_c = int(pole, c_int)
    width_c = int(width, c_int64_t)
    kind_c%size = c_sizeof(kind_c)
    call gr_fortran_call('' // c_null_char)
    status = c_gr_halo_kind_sphere(pole_c, width_c, c_loc(kind_c))
    if (status == 0) kind = in_c_order(kind_c)
    call ended(status, stat)
  end subroutine

  !> Axes (latitude, longitude): a rule below the first row, a seam above the last; values on the seam are copied.
  subroutine gr_halo_kind_tripolar(south, seam, width, kind, stat)
    integer, intent(in) :: south
    integer, intent(in) :: seam
    integer, intent(in) :: width
    type(gr_halo_kind), intent(out) :: kind
    integer, intent(out), optional :: stat
    integer(c_int) :: south_c
    integer(c_int) :: seam_c
    integer(c_int64_t) :: width_c
    type(gr_halo_kind), target :: kind_c
    integer(c_int) :: status
    south_c = int(south, c_int)
    seam_c = int(seam, c_int)
    width_c = int(width, c_int64_t)
    kind_c%size = c_sizeof(kind_c)
    call gr_fortran_call('' // c_null_char)
    status = c_gr_halo_kind_tripolar(south_c, seam_c, width_c, c_loc(kind_c))
    if (status == 0) kind = in_c_order(kind_c)
    call ended(status, stat)
  end subroutine

  !> Plans halo exchanges of fields of one or several kinds on a layout. Collective.
  !>
  !> One plan serves any number of fields of any type and any number of batch axes.
  subroutine gr_halo_create_list(comm, layout, kinds, halo, stat, name)
    type(gr_comm), intent(in) :: comm
    type(gr_layout), intent(in) :: layout
    type(gr_halo_kind), intent(in) :: kinds(:)
    type(gr_halo), intent(inout) :: halo
    integer, intent(out), optional :: stat
    character(*), intent(in), optional :: name
    type(c_ptr) :: comm_c
    type(c_ptr) :: layout_c
    integer(c_int) :: num_kinds
    type(gr_halo_kind), target :: kinds_c(size(kinds))
    type(c_ptr), target :: halo_c
    character(:, c_char), allocatable, target :: name_c
    integer(c_int) :: status
    comm_c = comm%handle
    layout_c = layout%handle
    num_kinds = int(size(kinds), c_int)
    kinds_c = in_c_order(kinds)
    kinds_c%size = c_sizeof(kinds_c(1))
    halo_c = halo%handle
    if (present(name)) then
      name_c = trim(name) // c_null_char
      status = c_gr_plan_name(c_loc(name_c))
    end if
    call gr_fortran_call('num_kinds=size(kinds);' // c_null_char)
    status = c_gr_halo_create(comm_c, layout_c, num_kinds, c_loc(kinds_c), c_loc(halo_c))
    halo%handle = halo_c
    call ended(status, stat)
  end subroutine

  subroutine gr_halo_create_one(comm, layout, kinds, halo, stat, name)
    type(gr_comm), intent(in) :: comm
    type(gr_layout), intent(in) :: layout
    type(gr_halo_kind), intent(in), target :: kinds
    type(gr_halo), intent(inout) :: halo
    integer, intent(out), optional :: stat
    character(*), intent(in), optional :: name
    type(gr_halo_kind), pointer, contiguous :: kinds_list(:)
    call c_f_pointer(c_loc(kinds), kinds_list, [1])
    call gr_halo_create_list(comm, layout, kinds_list, halo, stat, name=name)
  end subroutine

  !> Frees a plan. Calls in flight remain valid.
  subroutine gr_halo_destroy(halo, stat)
    type(gr_halo), intent(inout) :: halo
    integer, intent(out), optional :: stat
    type(c_ptr), target :: halo_c
    integer(c_int) :: status
    halo_c = halo%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_halo_destroy(c_loc(halo_c))
    halo%handle = halo_c
    call ended(status, stat)
  end subroutine

  !> Box of this rank.
  subroutine gr_halo_owned(halo, lower, upper, stat)
    type(gr_halo), intent(in) :: halo
    integer, intent(out) :: lower(:)
    integer, intent(out) :: upper(:)
    integer, intent(out), optional :: stat
    type(c_ptr) :: halo_c
    integer(c_int) :: ndim
    integer(c_int64_t), allocatable, target :: lower_c(:)
    integer(c_int64_t), allocatable, target :: upper_c(:)
    integer(c_int) :: status
    halo_c = halo%handle
    ndim = int(size(lower), c_int)
    if (size(upper) /= ndim) then
    call wrong_size('gr_halo_owned', 'upper', int(size(upper), c_int), ndim, stat)
    return
    end if
    allocate(lower_c(size(lower)))
    lower_c = 0
    allocate(upper_c(size(upper)))
    upper_c = 0
    call gr_fortran_call('ndim=size(lower);' // c_null_char)
    status = c_gr_halo_owned(halo_c, ndim, c_loc(lower_c), c_loc(upper_c))
    if (status == 0) lower = int(lower_c(ndim:1:-1) + 1)
    if (status == 0) upper = int(upper_c(ndim:1:-1))
    call ended(status, stat)
  end subroutine

  !> Box of this rank with the halo of a kind: the cells that fields have in memory.
  subroutine gr_halo_local(halo, kind, lower, upper, stat)
    type(gr_halo), intent(in) :: halo
    integer, intent(in) :: kind
    integer, intent(out) :: lower(:)
    integer, intent(out) :: upper(:)
    integer, intent(out), optional :: stat
    type(c_ptr) :: halo_c
    integer(c_int) :: kind_c
    integer(c_int) :: ndim
    integer(c_int64_t), allocatable, target :: lower_c(:)
    integer(c_int64_t), allocatable, target :: upper_c(:)
    integer(c_int) :: status
    halo_c = halo%handle
    kind_c = int(kind - 1, c_int)
    ndim = int(size(lower), c_int)
    if (size(upper) /= ndim) then
    call wrong_size('gr_halo_local', 'upper', int(size(upper), c_int), ndim, stat)
    return
    end if
    allocate(lower_c(size(lower)))
    lower_c = 0
    allocate(upper_c(size(upper)))
    upper_c = 0
    call gr_fortran_call('ndim=size(lower);' // c_null_char)
    status = c_gr_halo_local(halo_c, kind_c, ndim, c_loc(lower_c), c_loc(upper_c))
    if (status == 0) lower = int(lower_c(ndim:1:-1) + 1)
    if (status == 0) upper = int(upper_c(ndim:1:-1))
    call ended(status, stat)
  end subroutine

  !> The layout of fields of one kind: the plan's, with one cell more at the upper end of each axis that has values on
  !> all faces (GR_ALL_FACES). For the owned box of such fields, their repartitions, sums and checkpoints.
  subroutine gr_halo_layout(halo, kind, layout, stat)
    type(gr_halo), intent(in) :: halo
    integer, intent(in) :: kind
    type(gr_layout), intent(inout) :: layout
    integer, intent(out), optional :: stat
    type(c_ptr) :: halo_c
    integer(c_int) :: kind_c
    type(c_ptr), target :: layout_c
    integer(c_int) :: status
    halo_c = halo%handle
    kind_c = int(kind - 1, c_int)
    layout_c = layout%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_halo_layout(halo_c, kind_c, c_loc(layout_c))
    layout%handle = layout_c
    call ended(status, stat)
  end subroutine

  !> Owned cells whose stencil reads no cell that an exchange fills: compute them while it is in flight.
  subroutine gr_halo_interior(halo, kind, reach_lower, reach_upper, lower, upper, stat)
    type(gr_halo), intent(in) :: halo
    integer, intent(in) :: kind
    integer, intent(in), optional :: reach_lower(:)
    integer, intent(in), optional :: reach_upper(:)
    integer, intent(out) :: lower(:)
    integer, intent(out) :: upper(:)
    integer, intent(out), optional :: stat
    type(c_ptr) :: halo_c
    integer(c_int) :: kind_c
    integer(c_int) :: ndim
    integer(c_int64_t), allocatable, target :: reach_lower_c(:)
    integer(c_int64_t), allocatable, target :: reach_upper_c(:)
    integer(c_int64_t), allocatable, target :: lower_c(:)
    integer(c_int64_t), allocatable, target :: upper_c(:)
    type(c_ptr) :: reach_lower_p
    type(c_ptr) :: reach_upper_p
    integer(c_int) :: status
    halo_c = halo%handle
    kind_c = int(kind - 1, c_int)
    ndim = int(size(lower), c_int)
    if (size(upper) /= ndim) then
    call wrong_size('gr_halo_interior', 'upper', int(size(upper), c_int), ndim, stat)
    return
    end if
    if (present(reach_lower)) then
    if (size(reach_lower) /= ndim) then
    call wrong_size('gr_halo_interior', 'reach_lower', int(size(reach_lower), c_int), ndim, stat)
    return
    end if
    end if
    if (present(reach_upper)) then
    if (size(reach_upper) /= ndim) then
    call wrong_size('gr_halo_interior', 'reach_upper', int(size(reach_upper), c_int), ndim, stat)
    return
    end if
    end if
    if (present(reach_lower)) then
    reach_lower_c = int(reach_lower(ndim:1:-1), c_int64_t)
    end if
    if (present(reach_upper)) then
    reach_upper_c = int(reach_upper(ndim:1:-1), c_int64_t)
    end if
    allocate(lower_c(size(lower)))
    lower_c = 0
    allocate(upper_c(size(upper)))
    upper_c = 0
    reach_lower_p = c_null_ptr
    if (present(reach_lower)) reach_lower_p = c_loc(reach_lower_c)
    reach_upper_p = c_null_ptr
    if (present(reach_upper)) reach_upper_p = c_loc(reach_upper_c)
    call gr_fortran_call('ndim=size(lower);' // c_null_char)
    status = c_gr_halo_interior(halo_c, kind_c, ndim, reach_lower_p, reach_upper_p, c_loc(lower_c), c_loc(upper_c))
    if (status == 0) lower = int(lower_c(ndim:1:-1) + 1)
    if (status == 0) upper = int(upper_c(ndim:1:-1))
    call ended(status, stat)
  end subroutine

  !> The other owned cells as disjoint boxes: compute them afterwards. At most 2 boxes per axis.
  subroutine gr_halo_border(halo, kind, reach_lower, reach_upper, num_boxes, lower, upper, stat)
    type(gr_halo), intent(in) :: halo
    integer, intent(in) :: kind
    integer, intent(in), optional :: reach_lower(:)
    integer, intent(in), optional :: reach_upper(:)
    integer, intent(out) :: num_boxes
    integer, intent(out) :: lower(:, :)
    integer, intent(out) :: upper(:, :)
    integer, intent(out), optional :: stat
    type(c_ptr) :: halo_c
    integer(c_int) :: kind_c
    integer(c_int) :: ndim
    integer(c_int64_t), allocatable, target :: reach_lower_c(:)
    integer(c_int64_t), allocatable, target :: reach_upper_c(:)
    integer(c_int) :: most_boxes
    integer(c_int), target :: num_boxes_c
    integer(c_int64_t), allocatable, target :: lower_c(:, :)
    integer(c_int64_t), allocatable, target :: upper_c(:, :)
    type(c_ptr) :: reach_lower_p
    type(c_ptr) :: reach_upper_p
    integer(c_int) :: status
    halo_c = halo%handle
    kind_c = int(kind - 1, c_int)
    ndim = int(size(lower, 1), c_int)
    if (size(upper, 1) /= ndim) then
    call wrong_size('gr_halo_border', 'upper', int(size(upper, 1), c_int), ndim, stat)
    return
    end if
    if (present(reach_lower)) then
    if (size(reach_lower) /= ndim) then
    call wrong_size('gr_halo_border', 'reach_lower', int(size(reach_lower), c_int), ndim, stat)
    return
    end if
    end if
    if (present(reach_upper)) then
    if (size(reach_upper) /= ndim) then
    call wrong_size('gr_halo_border', 'reach_upper', int(size(reach_upper), c_int), ndim, stat)
    return
    end if
    end if
    if (present(reach_lower)) then
    reach_lower_c = int(reach_lower(ndim:1:-1), c_int64_t)
    end if
    if (present(reach_upper)) then
    reach_upper_c = int(reach_upper(ndim:1:-1), c_int64_t)
    end if
    most_boxes = int(size(lower, 2), c_int)
    if (size(upper, 2) /= most_boxes) then
    call wrong_size('gr_halo_border', 'upper', int(size(upper, 2), c_int), most_boxes, stat)
    return
    end if
    num_boxes_c = 0
    allocate(lower_c(size(lower, 1), size(lower, 2)))
    lower_c = 0
    allocate(upper_c(size(upper, 1), size(upper, 2)))
    upper_c = 0
    reach_lower_p = c_null_ptr
    if (present(reach_lower)) reach_lower_p = c_loc(reach_lower_c)
    reach_upper_p = c_null_ptr
    if (present(reach_upper)) reach_upper_p = c_loc(reach_upper_c)
    call gr_fortran_call('ndim=size(lower, 1);most_boxes=size(lower, 2);' // c_null_char)
    status = c_gr_halo_border(halo_c, kind_c, ndim, reach_lower_p, reach_upper_p, most_boxes, c_loc(num_boxes_c), &
        c_loc(lower_c), c_loc(upper_c))
    if (status == 0) num_boxes = num_boxes_c
    if (status == 0) lower = int(lower_c(ndim:1:-1, :) + 1)
    if (status == 0) upper = int(upper_c(ndim:1:-1, :))
    call ended(status, stat)
  end subroutine

  !> Fills the halos of fields from the owned cells of all ranks and the rules. Collective.
  subroutine gr_halo_exchange_list(halo, fields, stat)
    type(gr_halo), intent(in) :: halo
    type(gr_field), intent(in), target, contiguous :: fields(:)
    integer, intent(out), optional :: stat
    type(c_ptr) :: halo_c
    integer(c_int) :: num_fields
    integer(c_int) :: status
    halo_c = halo%handle
    num_fields = int(size(fields), c_int)
    call gr_fortran_call('num_fields=size(fields);' // c_null_char)
    status = c_gr_halo_exchange(halo_c, num_fields, c_loc(fields))
    call ended(status, stat)
  end subroutine

  subroutine gr_halo_exchange_one(halo, fields, stat)
    type(gr_halo), intent(in) :: halo
    type(gr_field), intent(in) :: fields
    integer, intent(out), optional :: stat
    type(gr_field), pointer, contiguous :: fields_list(:)
    call c_f_pointer(address_of(fields), fields_list, [1])
    call gr_halo_exchange_list(halo, fields_list, stat)
  end subroutine

  subroutine gr_halo_exchange_int8(halo, field1, field2, field3, field4, field5, field6, field7, field8, axes, &
      owned, parity, kind, stat)
    type(gr_halo), intent(in) :: halo
    integer(c_int8_t), GR_WHOLE, target, intent(inout) :: field1
    integer(c_int8_t), GR_WHOLE, target, intent(inout), optional :: field2
    integer(c_int8_t), GR_WHOLE, target, intent(inout), optional :: field3
    integer(c_int8_t), GR_WHOLE, target, intent(inout), optional :: field4
    integer(c_int8_t), GR_WHOLE, target, intent(inout), optional :: field5
    integer(c_int8_t), GR_WHOLE, target, intent(inout), optional :: field6
    integer(c_int8_t), GR_WHOLE, target, intent(inout), optional :: field7
    integer(c_int8_t), GR_WHOLE, target, intent(inout), optional :: field8
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 8)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [8])
    n = 1
    call describe_whole(field1, described(1), axes, owned)
    if (present(field2)) then
      n = n + 1
      call describe_whole(field2, described(n), axes, owned)
    end if
    if (present(field3)) then
      n = n + 1
      call describe_whole(field3, described(n), axes, owned)
    end if
    if (present(field4)) then
      n = n + 1
      call describe_whole(field4, described(n), axes, owned)
    end if
    if (present(field5)) then
      n = n + 1
      call describe_whole(field5, described(n), axes, owned)
    end if
    if (present(field6)) then
      n = n + 1
      call describe_whole(field6, described(n), axes, owned)
    end if
    if (present(field7)) then
      n = n + 1
      call describe_whole(field7, described(n), axes, owned)
    end if
    if (present(field8)) then
      n = n + 1
      call describe_whole(field8, described(n), axes, owned)
    end if
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_exchange_list(halo=halo, fields=described(:n), stat=stat)
  end subroutine

  subroutine gr_halo_exchange_int16(halo, field1, field2, field3, field4, field5, field6, field7, field8, axes, &
      owned, parity, kind, stat)
    type(gr_halo), intent(in) :: halo
    integer(c_int16_t), GR_WHOLE, target, intent(inout) :: field1
    integer(c_int16_t), GR_WHOLE, target, intent(inout), optional :: field2
    integer(c_int16_t), GR_WHOLE, target, intent(inout), optional :: field3
    integer(c_int16_t), GR_WHOLE, target, intent(inout), optional :: field4
    integer(c_int16_t), GR_WHOLE, target, intent(inout), optional :: field5
    integer(c_int16_t), GR_WHOLE, target, intent(inout), optional :: field6
    integer(c_int16_t), GR_WHOLE, target, intent(inout), optional :: field7
    integer(c_int16_t), GR_WHOLE, target, intent(inout), optional :: field8
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 8)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [8])
    n = 1
    call describe_whole(field1, described(1), axes, owned)
    if (present(field2)) then
      n = n + 1
      call describe_whole(field2, described(n), axes, owned)
    end if
    if (present(field3)) then
      n = n + 1
      call describe_whole(field3, described(n), axes, owned)
    end if
    if (present(field4)) then
      n = n + 1
      call describe_whole(field4, described(n), axes, owned)
    end if
    if (present(field5)) then
      n = n + 1
      call describe_whole(field5, described(n), axes, owned)
    end if
    if (present(field6)) then
      n = n + 1
      call describe_whole(field6, described(n), axes, owned)
    end if
    if (present(field7)) then
      n = n + 1
      call describe_whole(field7, described(n), axes, owned)
    end if
    if (present(field8)) then
      n = n + 1
      call describe_whole(field8, described(n), axes, owned)
    end if
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_exchange_list(halo=halo, fields=described(:n), stat=stat)
  end subroutine

  subroutine gr_halo_exchange_int32(halo, field1, field2, field3, field4, field5, field6, field7, field8, axes, &
      owned, parity, kind, stat)
    type(gr_halo), intent(in) :: halo
    integer(c_int32_t), GR_WHOLE, target, intent(inout) :: field1
    integer(c_int32_t), GR_WHOLE, target, intent(inout), optional :: field2
    integer(c_int32_t), GR_WHOLE, target, intent(inout), optional :: field3
    integer(c_int32_t), GR_WHOLE, target, intent(inout), optional :: field4
    integer(c_int32_t), GR_WHOLE, target, intent(inout), optional :: field5
    integer(c_int32_t), GR_WHOLE, target, intent(inout), optional :: field6
    integer(c_int32_t), GR_WHOLE, target, intent(inout), optional :: field7
    integer(c_int32_t), GR_WHOLE, target, intent(inout), optional :: field8
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 8)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [8])
    n = 1
    call describe_whole(field1, described(1), axes, owned)
    if (present(field2)) then
      n = n + 1
      call describe_whole(field2, described(n), axes, owned)
    end if
    if (present(field3)) then
      n = n + 1
      call describe_whole(field3, described(n), axes, owned)
    end if
    if (present(field4)) then
      n = n + 1
      call describe_whole(field4, described(n), axes, owned)
    end if
    if (present(field5)) then
      n = n + 1
      call describe_whole(field5, described(n), axes, owned)
    end if
    if (present(field6)) then
      n = n + 1
      call describe_whole(field6, described(n), axes, owned)
    end if
    if (present(field7)) then
      n = n + 1
      call describe_whole(field7, described(n), axes, owned)
    end if
    if (present(field8)) then
      n = n + 1
      call describe_whole(field8, described(n), axes, owned)
    end if
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_exchange_list(halo=halo, fields=described(:n), stat=stat)
  end subroutine

  subroutine gr_halo_exchange_int64(halo, field1, field2, field3, field4, field5, field6, field7, field8, axes, &
      owned, parity, kind, stat)
    type(gr_halo), intent(in) :: halo
    integer(c_int64_t), GR_WHOLE, target, intent(inout) :: field1
    integer(c_int64_t), GR_WHOLE, target, intent(inout), optional :: field2
    integer(c_int64_t), GR_WHOLE, target, intent(inout), optional :: field3
    integer(c_int64_t), GR_WHOLE, target, intent(inout), optional :: field4
    integer(c_int64_t), GR_WHOLE, target, intent(inout), optional :: field5
    integer(c_int64_t), GR_WHOLE, target, intent(inout), optional :: field6
    integer(c_int64_t), GR_WHOLE, target, intent(inout), optional :: field7
    integer(c_int64_t), GR_WHOLE, target, intent(inout), optional :: field8
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 8)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [8])
    n = 1
    call describe_whole(field1, described(1), axes, owned)
    if (present(field2)) then
      n = n + 1
      call describe_whole(field2, described(n), axes, owned)
    end if
    if (present(field3)) then
      n = n + 1
      call describe_whole(field3, described(n), axes, owned)
    end if
    if (present(field4)) then
      n = n + 1
      call describe_whole(field4, described(n), axes, owned)
    end if
    if (present(field5)) then
      n = n + 1
      call describe_whole(field5, described(n), axes, owned)
    end if
    if (present(field6)) then
      n = n + 1
      call describe_whole(field6, described(n), axes, owned)
    end if
    if (present(field7)) then
      n = n + 1
      call describe_whole(field7, described(n), axes, owned)
    end if
    if (present(field8)) then
      n = n + 1
      call describe_whole(field8, described(n), axes, owned)
    end if
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_exchange_list(halo=halo, fields=described(:n), stat=stat)
  end subroutine

  subroutine gr_halo_exchange_real32(halo, field1, field2, field3, field4, field5, field6, field7, field8, axes, &
      owned, parity, kind, stat)
    type(gr_halo), intent(in) :: halo
    real(c_float), GR_WHOLE, target, intent(inout) :: field1
    real(c_float), GR_WHOLE, target, intent(inout), optional :: field2
    real(c_float), GR_WHOLE, target, intent(inout), optional :: field3
    real(c_float), GR_WHOLE, target, intent(inout), optional :: field4
    real(c_float), GR_WHOLE, target, intent(inout), optional :: field5
    real(c_float), GR_WHOLE, target, intent(inout), optional :: field6
    real(c_float), GR_WHOLE, target, intent(inout), optional :: field7
    real(c_float), GR_WHOLE, target, intent(inout), optional :: field8
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 8)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [8])
    n = 1
    call describe_whole(field1, described(1), axes, owned)
    if (present(field2)) then
      n = n + 1
      call describe_whole(field2, described(n), axes, owned)
    end if
    if (present(field3)) then
      n = n + 1
      call describe_whole(field3, described(n), axes, owned)
    end if
    if (present(field4)) then
      n = n + 1
      call describe_whole(field4, described(n), axes, owned)
    end if
    if (present(field5)) then
      n = n + 1
      call describe_whole(field5, described(n), axes, owned)
    end if
    if (present(field6)) then
      n = n + 1
      call describe_whole(field6, described(n), axes, owned)
    end if
    if (present(field7)) then
      n = n + 1
      call describe_whole(field7, described(n), axes, owned)
    end if
    if (present(field8)) then
      n = n + 1
      call describe_whole(field8, described(n), axes, owned)
    end if
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_exchange_list(halo=halo, fields=described(:n), stat=stat)
  end subroutine

  subroutine gr_halo_exchange_real64(halo, field1, field2, field3, field4, field5, field6, field7, field8, axes, &
      owned, parity, kind, stat)
    type(gr_halo), intent(in) :: halo
    real(c_double), GR_WHOLE, target, intent(inout) :: field1
    real(c_double), GR_WHOLE, target, intent(inout), optional :: field2
    real(c_double), GR_WHOLE, target, intent(inout), optional :: field3
    real(c_double), GR_WHOLE, target, intent(inout), optional :: field4
    real(c_double), GR_WHOLE, target, intent(inout), optional :: field5
    real(c_double), GR_WHOLE, target, intent(inout), optional :: field6
    real(c_double), GR_WHOLE, target, intent(inout), optional :: field7
    real(c_double), GR_WHOLE, target, intent(inout), optional :: field8
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 8)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [8])
    n = 1
    call describe_whole(field1, described(1), axes, owned)
    if (present(field2)) then
      n = n + 1
      call describe_whole(field2, described(n), axes, owned)
    end if
    if (present(field3)) then
      n = n + 1
      call describe_whole(field3, described(n), axes, owned)
    end if
    if (present(field4)) then
      n = n + 1
      call describe_whole(field4, described(n), axes, owned)
    end if
    if (present(field5)) then
      n = n + 1
      call describe_whole(field5, described(n), axes, owned)
    end if
    if (present(field6)) then
      n = n + 1
      call describe_whole(field6, described(n), axes, owned)
    end if
    if (present(field7)) then
      n = n + 1
      call describe_whole(field7, described(n), axes, owned)
    end if
    if (present(field8)) then
      n = n + 1
      call describe_whole(field8, described(n), axes, owned)
    end if
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_exchange_list(halo=halo, fields=described(:n), stat=stat)
  end subroutine

  subroutine gr_halo_exchange_complex32(halo, field1, field2, field3, field4, field5, field6, field7, field8, axes, &
      owned, parity, kind, stat)
    type(gr_halo), intent(in) :: halo
    complex(c_float_complex), GR_WHOLE, target, intent(inout) :: field1
    complex(c_float_complex), GR_WHOLE, target, intent(inout), optional :: field2
    complex(c_float_complex), GR_WHOLE, target, intent(inout), optional :: field3
    complex(c_float_complex), GR_WHOLE, target, intent(inout), optional :: field4
    complex(c_float_complex), GR_WHOLE, target, intent(inout), optional :: field5
    complex(c_float_complex), GR_WHOLE, target, intent(inout), optional :: field6
    complex(c_float_complex), GR_WHOLE, target, intent(inout), optional :: field7
    complex(c_float_complex), GR_WHOLE, target, intent(inout), optional :: field8
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 8)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [8])
    n = 1
    call describe_whole(field1, described(1), axes, owned)
    if (present(field2)) then
      n = n + 1
      call describe_whole(field2, described(n), axes, owned)
    end if
    if (present(field3)) then
      n = n + 1
      call describe_whole(field3, described(n), axes, owned)
    end if
    if (present(field4)) then
      n = n + 1
      call describe_whole(field4, described(n), axes, owned)
    end if
    if (present(field5)) then
      n = n + 1
      call describe_whole(field5, described(n), axes, owned)
    end if
    if (present(field6)) then
      n = n + 1
      call describe_whole(field6, described(n), axes, owned)
    end if
    if (present(field7)) then
      n = n + 1
      call describe_whole(field7, described(n), axes, owned)
    end if
    if (present(field8)) then
      n = n + 1
      call describe_whole(field8, described(n), axes, owned)
    end if
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_exchange_list(halo=halo, fields=described(:n), stat=stat)
  end subroutine

  subroutine gr_halo_exchange_complex64(halo, field1, field2, field3, field4, field5, field6, field7, field8, axes, &
      owned, parity, kind, stat)
    type(gr_halo), intent(in) :: halo
    complex(c_double_complex), GR_WHOLE, target, intent(inout) :: field1
    complex(c_double_complex), GR_WHOLE, target, intent(inout), optional :: field2
    complex(c_double_complex), GR_WHOLE, target, intent(inout), optional :: field3
    complex(c_double_complex), GR_WHOLE, target, intent(inout), optional :: field4
    complex(c_double_complex), GR_WHOLE, target, intent(inout), optional :: field5
    complex(c_double_complex), GR_WHOLE, target, intent(inout), optional :: field6
    complex(c_double_complex), GR_WHOLE, target, intent(inout), optional :: field7
    complex(c_double_complex), GR_WHOLE, target, intent(inout), optional :: field8
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 8)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [8])
    n = 1
    call describe_whole(field1, described(1), axes, owned)
    if (present(field2)) then
      n = n + 1
      call describe_whole(field2, described(n), axes, owned)
    end if
    if (present(field3)) then
      n = n + 1
      call describe_whole(field3, described(n), axes, owned)
    end if
    if (present(field4)) then
      n = n + 1
      call describe_whole(field4, described(n), axes, owned)
    end if
    if (present(field5)) then
      n = n + 1
      call describe_whole(field5, described(n), axes, owned)
    end if
    if (present(field6)) then
      n = n + 1
      call describe_whole(field6, described(n), axes, owned)
    end if
    if (present(field7)) then
      n = n + 1
      call describe_whole(field7, described(n), axes, owned)
    end if
    if (present(field8)) then
      n = n + 1
      call describe_whole(field8, described(n), axes, owned)
    end if
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_exchange_list(halo=halo, fields=described(:n), stat=stat)
  end subroutine

  subroutine gr_halo_exchange_bool(halo, field1, field2, field3, field4, field5, field6, field7, field8, axes, &
      owned, parity, kind, stat)
    type(gr_halo), intent(in) :: halo
    logical(c_bool), GR_WHOLE, target, intent(inout) :: field1
    logical(c_bool), GR_WHOLE, target, intent(inout), optional :: field2
    logical(c_bool), GR_WHOLE, target, intent(inout), optional :: field3
    logical(c_bool), GR_WHOLE, target, intent(inout), optional :: field4
    logical(c_bool), GR_WHOLE, target, intent(inout), optional :: field5
    logical(c_bool), GR_WHOLE, target, intent(inout), optional :: field6
    logical(c_bool), GR_WHOLE, target, intent(inout), optional :: field7
    logical(c_bool), GR_WHOLE, target, intent(inout), optional :: field8
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 8)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [8])
    n = 1
    call describe_whole(field1, described(1), axes, owned)
    if (present(field2)) then
      n = n + 1
      call describe_whole(field2, described(n), axes, owned)
    end if
    if (present(field3)) then
      n = n + 1
      call describe_whole(field3, described(n), axes, owned)
    end if
    if (present(field4)) then
      n = n + 1
      call describe_whole(field4, described(n), axes, owned)
    end if
    if (present(field5)) then
      n = n + 1
      call describe_whole(field5, described(n), axes, owned)
    end if
    if (present(field6)) then
      n = n + 1
      call describe_whole(field6, described(n), axes, owned)
    end if
    if (present(field7)) then
      n = n + 1
      call describe_whole(field7, described(n), axes, owned)
    end if
    if (present(field8)) then
      n = n + 1
      call describe_whole(field8, described(n), axes, owned)
    end if
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_exchange_list(halo=halo, fields=described(:n), stat=stat)
  end subroutine

  subroutine gr_halo_exchange_logical(halo, field1, field2, field3, field4, field5, field6, field7, field8, axes, &
      owned, parity, kind, stat)
    type(gr_halo), intent(in) :: halo
    logical, GR_WHOLE, target, intent(inout) :: field1
    logical, GR_WHOLE, target, intent(inout), optional :: field2
    logical, GR_WHOLE, target, intent(inout), optional :: field3
    logical, GR_WHOLE, target, intent(inout), optional :: field4
    logical, GR_WHOLE, target, intent(inout), optional :: field5
    logical, GR_WHOLE, target, intent(inout), optional :: field6
    logical, GR_WHOLE, target, intent(inout), optional :: field7
    logical, GR_WHOLE, target, intent(inout), optional :: field8
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 8)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [8])
    n = 1
    call describe_whole(field1, described(1), axes, owned)
    if (present(field2)) then
      n = n + 1
      call describe_whole(field2, described(n), axes, owned)
    end if
    if (present(field3)) then
      n = n + 1
      call describe_whole(field3, described(n), axes, owned)
    end if
    if (present(field4)) then
      n = n + 1
      call describe_whole(field4, described(n), axes, owned)
    end if
    if (present(field5)) then
      n = n + 1
      call describe_whole(field5, described(n), axes, owned)
    end if
    if (present(field6)) then
      n = n + 1
      call describe_whole(field6, described(n), axes, owned)
    end if
    if (present(field7)) then
      n = n + 1
      call describe_whole(field7, described(n), axes, owned)
    end if
    if (present(field8)) then
      n = n + 1
      call describe_whole(field8, described(n), axes, owned)
    end if
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_exchange_list(halo=halo, fields=described(:n), stat=stat)
  end subroutine

  !> Starts an exchange: until `gr_finish`, owned cells may be read and ghost cells not used. Collective.
  subroutine gr_halo_start_list(halo, fields, pending, stat)
    type(gr_halo), intent(in) :: halo
    type(gr_field), intent(in), target, contiguous :: fields(:)
    type(gr_pending), intent(inout) :: pending
    integer, intent(out), optional :: stat
    type(c_ptr) :: halo_c
    integer(c_int) :: num_fields
    type(c_ptr), target :: pending_c
    integer(c_int) :: status
    halo_c = halo%handle
    num_fields = int(size(fields), c_int)
    pending_c = pending%handle
    call gr_fortran_call('num_fields=size(fields);' // c_null_char)
    status = c_gr_halo_start(halo_c, num_fields, c_loc(fields), c_loc(pending_c))
    pending%handle = pending_c
    call ended(status, stat)
  end subroutine

  subroutine gr_halo_start_one(halo, fields, pending, stat)
    type(gr_halo), intent(in) :: halo
    type(gr_field), intent(in) :: fields
    type(gr_pending), intent(inout) :: pending
    integer, intent(out), optional :: stat
    type(gr_field), pointer, contiguous :: fields_list(:)
    call c_f_pointer(address_of(fields), fields_list, [1])
    call gr_halo_start_list(halo, fields_list, pending, stat)
  end subroutine

  !> The transposed exchange: adds to each owned cell the values of its images, and zeroes the images. Collective.
  subroutine gr_halo_exchange_adjoint_list(halo, fields, stat)
    type(gr_halo), intent(in) :: halo
    type(gr_field), intent(in), target, contiguous :: fields(:)
    integer, intent(out), optional :: stat
    type(c_ptr) :: halo_c
    integer(c_int) :: num_fields
    integer(c_int) :: status
    halo_c = halo%handle
    num_fields = int(size(fields), c_int)
    call gr_fortran_call('num_fields=size(fields);' // c_null_char)
    status = c_gr_halo_exchange_adjoint(halo_c, num_fields, c_loc(fields))
    call ended(status, stat)
  end subroutine

  subroutine gr_halo_exchange_adjoint_one(halo, fields, stat)
    type(gr_halo), intent(in) :: halo
    type(gr_field), intent(in) :: fields
    integer, intent(out), optional :: stat
    type(gr_field), pointer, contiguous :: fields_list(:)
    call c_f_pointer(address_of(fields), fields_list, [1])
    call gr_halo_exchange_adjoint_list(halo, fields_list, stat)
  end subroutine

  subroutine gr_halo_exchange_adjoint_int8(halo, field1, field2, field3, field4, field5, field6, field7, field8, &
      axes, owned, parity, kind, stat)
    type(gr_halo), intent(in) :: halo
    integer(c_int8_t), GR_WHOLE, target, intent(inout) :: field1
    integer(c_int8_t), GR_WHOLE, target, intent(inout), optional :: field2
    integer(c_int8_t), GR_WHOLE, target, intent(inout), optional :: field3
    integer(c_int8_t), GR_WHOLE, target, intent(inout), optional :: field4
    integer(c_int8_t), GR_WHOLE, target, intent(inout), optional :: field5
    integer(c_int8_t), GR_WHOLE, target, intent(inout), optional :: field6
    integer(c_int8_t), GR_WHOLE, target, intent(inout), optional :: field7
    integer(c_int8_t), GR_WHOLE, target, intent(inout), optional :: field8
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 8)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [8])
    n = 1
    call describe_whole(field1, described(1), axes, owned)
    if (present(field2)) then
      n = n + 1
      call describe_whole(field2, described(n), axes, owned)
    end if
    if (present(field3)) then
      n = n + 1
      call describe_whole(field3, described(n), axes, owned)
    end if
    if (present(field4)) then
      n = n + 1
      call describe_whole(field4, described(n), axes, owned)
    end if
    if (present(field5)) then
      n = n + 1
      call describe_whole(field5, described(n), axes, owned)
    end if
    if (present(field6)) then
      n = n + 1
      call describe_whole(field6, described(n), axes, owned)
    end if
    if (present(field7)) then
      n = n + 1
      call describe_whole(field7, described(n), axes, owned)
    end if
    if (present(field8)) then
      n = n + 1
      call describe_whole(field8, described(n), axes, owned)
    end if
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_exchange_adjoint_list(halo=halo, fields=described(:n), stat=stat)
  end subroutine

  subroutine gr_halo_exchange_adjoint_int16(halo, field1, field2, field3, field4, field5, field6, field7, field8, &
      axes, owned, parity, kind, stat)
    type(gr_halo), intent(in) :: halo
    integer(c_int16_t), GR_WHOLE, target, intent(inout) :: field1
    integer(c_int16_t), GR_WHOLE, target, intent(inout), optional :: field2
    integer(c_int16_t), GR_WHOLE, target, intent(inout), optional :: field3
    integer(c_int16_t), GR_WHOLE, target, intent(inout), optional :: field4
    integer(c_int16_t), GR_WHOLE, target, intent(inout), optional :: field5
    integer(c_int16_t), GR_WHOLE, target, intent(inout), optional :: field6
    integer(c_int16_t), GR_WHOLE, target, intent(inout), optional :: field7
    integer(c_int16_t), GR_WHOLE, target, intent(inout), optional :: field8
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 8)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [8])
    n = 1
    call describe_whole(field1, described(1), axes, owned)
    if (present(field2)) then
      n = n + 1
      call describe_whole(field2, described(n), axes, owned)
    end if
    if (present(field3)) then
      n = n + 1
      call describe_whole(field3, described(n), axes, owned)
    end if
    if (present(field4)) then
      n = n + 1
      call describe_whole(field4, described(n), axes, owned)
    end if
    if (present(field5)) then
      n = n + 1
      call describe_whole(field5, described(n), axes, owned)
    end if
    if (present(field6)) then
      n = n + 1
      call describe_whole(field6, described(n), axes, owned)
    end if
    if (present(field7)) then
      n = n + 1
      call describe_whole(field7, described(n), axes, owned)
    end if
    if (present(field8)) then
      n = n + 1
      call describe_whole(field8, described(n), axes, owned)
    end if
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_exchange_adjoint_list(halo=halo, fields=described(:n), stat=stat)
  end subroutine

  subroutine gr_halo_exchange_adjoint_int32(halo, field1, field2, field3, field4, field5, field6, field7, field8, &
      axes, owned, parity, kind, stat)
    type(gr_halo), intent(in) :: halo
    integer(c_int32_t), GR_WHOLE, target, intent(inout) :: field1
    integer(c_int32_t), GR_WHOLE, target, intent(inout), optional :: field2
    integer(c_int32_t), GR_WHOLE, target, intent(inout), optional :: field3
    integer(c_int32_t), GR_WHOLE, target, intent(inout), optional :: field4
    integer(c_int32_t), GR_WHOLE, target, intent(inout), optional :: field5
    integer(c_int32_t), GR_WHOLE, target, intent(inout), optional :: field6
    integer(c_int32_t), GR_WHOLE, target, intent(inout), optional :: field7
    integer(c_int32_t), GR_WHOLE, target, intent(inout), optional :: field8
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 8)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [8])
    n = 1
    call describe_whole(field1, described(1), axes, owned)
    if (present(field2)) then
      n = n + 1
      call describe_whole(field2, described(n), axes, owned)
    end if
    if (present(field3)) then
      n = n + 1
      call describe_whole(field3, described(n), axes, owned)
    end if
    if (present(field4)) then
      n = n + 1
      call describe_whole(field4, described(n), axes, owned)
    end if
    if (present(field5)) then
      n = n + 1
      call describe_whole(field5, described(n), axes, owned)
    end if
    if (present(field6)) then
      n = n + 1
      call describe_whole(field6, described(n), axes, owned)
    end if
    if (present(field7)) then
      n = n + 1
      call describe_whole(field7, described(n), axes, owned)
    end if
    if (present(field8)) then
      n = n + 1
      call describe_whole(field8, described(n), axes, owned)
    end if
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_exchange_adjoint_list(halo=halo, fields=described(:n), stat=stat)
  end subroutine

  subroutine gr_halo_exchange_adjoint_int64(halo, field1, field2, field3, field4, field5, field6, field7, field8, &
      axes, owned, parity, kind, stat)
    type(gr_halo), intent(in) :: halo
    integer(c_int64_t), GR_WHOLE, target, intent(inout) :: field1
    integer(c_int64_t), GR_WHOLE, target, intent(inout), optional :: field2
    integer(c_int64_t), GR_WHOLE, target, intent(inout), optional :: field3
    integer(c_int64_t), GR_WHOLE, target, intent(inout), optional :: field4
    integer(c_int64_t), GR_WHOLE, target, intent(inout), optional :: field5
    integer(c_int64_t), GR_WHOLE, target, intent(inout), optional :: field6
    integer(c_int64_t), GR_WHOLE, target, intent(inout), optional :: field7
    integer(c_int64_t), GR_WHOLE, target, intent(inout), optional :: field8
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 8)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [8])
    n = 1
    call describe_whole(field1, described(1), axes, owned)
    if (present(field2)) then
      n = n + 1
      call describe_whole(field2, described(n), axes, owned)
    end if
    if (present(field3)) then
      n = n + 1
      call describe_whole(field3, described(n), axes, owned)
    end if
    if (present(field4)) then
      n = n + 1
      call describe_whole(field4, described(n), axes, owned)
    end if
    if (present(field5)) then
      n = n + 1
      call describe_whole(field5, described(n), axes, owned)
    end if
    if (present(field6)) then
      n = n + 1
      call describe_whole(field6, described(n), axes, owned)
    end if
    if (present(field7)) then
      n = n + 1
      call describe_whole(field7, described(n), axes, owned)
    end if
    if (present(field8)) then
      n = n + 1
      call describe_whole(field8, described(n), axes, owned)
    end if
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_exchange_adjoint_list(halo=halo, fields=described(:n), stat=stat)
  end subroutine

  subroutine gr_halo_exchange_adjoint_real32(halo, field1, field2, field3, field4, field5, field6, field7, field8, &
      axes, owned, parity, kind, stat)
    type(gr_halo), intent(in) :: halo
    real(c_float), GR_WHOLE, target, intent(inout) :: field1
    real(c_float), GR_WHOLE, target, intent(inout), optional :: field2
    real(c_float), GR_WHOLE, target, intent(inout), optional :: field3
    real(c_float), GR_WHOLE, target, intent(inout), optional :: field4
    real(c_float), GR_WHOLE, target, intent(inout), optional :: field5
    real(c_float), GR_WHOLE, target, intent(inout), optional :: field6
    real(c_float), GR_WHOLE, target, intent(inout), optional :: field7
    real(c_float), GR_WHOLE, target, intent(inout), optional :: field8
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 8)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [8])
    n = 1
    call describe_whole(field1, described(1), axes, owned)
    if (present(field2)) then
      n = n + 1
      call describe_whole(field2, described(n), axes, owned)
    end if
    if (present(field3)) then
      n = n + 1
      call describe_whole(field3, described(n), axes, owned)
    end if
    if (present(field4)) then
      n = n + 1
      call describe_whole(field4, described(n), axes, owned)
    end if
    if (present(field5)) then
      n = n + 1
      call describe_whole(field5, described(n), axes, owned)
    end if
    if (present(field6)) then
      n = n + 1
      call describe_whole(field6, described(n), axes, owned)
    end if
    if (present(field7)) then
      n = n + 1
      call describe_whole(field7, described(n), axes, owned)
    end if
    if (present(field8)) then
      n = n + 1
      call describe_whole(field8, described(n), axes, owned)
    end if
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_exchange_adjoint_list(halo=halo, fields=described(:n), stat=stat)
  end subroutine

  subroutine gr_halo_exchange_adjoint_real64(halo, field1, field2, field3, field4, field5, field6, field7, field8, &
      axes, owned, parity, kind, stat)
    type(gr_halo), intent(in) :: halo
    real(c_double), GR_WHOLE, target, intent(inout) :: field1
    real(c_double), GR_WHOLE, target, intent(inout), optional :: field2
    real(c_double), GR_WHOLE, target, intent(inout), optional :: field3
    real(c_double), GR_WHOLE, target, intent(inout), optional :: field4
    real(c_double), GR_WHOLE, target, intent(inout), optional :: field5
    real(c_double), GR_WHOLE, target, intent(inout), optional :: field6
    real(c_double), GR_WHOLE, target, intent(inout), optional :: field7
    real(c_double), GR_WHOLE, target, intent(inout), optional :: field8
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 8)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [8])
    n = 1
    call describe_whole(field1, described(1), axes, owned)
    if (present(field2)) then
      n = n + 1
      call describe_whole(field2, described(n), axes, owned)
    end if
    if (present(field3)) then
      n = n + 1
      call describe_whole(field3, described(n), axes, owned)
    end if
    if (present(field4)) then
      n = n + 1
      call describe_whole(field4, described(n), axes, owned)
    end if
    if (present(field5)) then
      n = n + 1
      call describe_whole(field5, described(n), axes, owned)
    end if
    if (present(field6)) then
      n = n + 1
      call describe_whole(field6, described(n), axes, owned)
    end if
    if (present(field7)) then
      n = n + 1
      call describe_whole(field7, described(n), axes, owned)
    end if
    if (present(field8)) then
      n = n + 1
      call describe_whole(field8, described(n), axes, owned)
    end if
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_exchange_adjoint_list(halo=halo, fields=described(:n), stat=stat)
  end subroutine

  subroutine gr_halo_exchange_adjoint_complex32(halo, field1, field2, field3, field4, field5, field6, field7, &
      field8, axes, owned, parity, kind, stat)
    type(gr_halo), intent(in) :: halo
    complex(c_float_complex), GR_WHOLE, target, intent(inout) :: field1
    complex(c_float_complex), GR_WHOLE, target, intent(inout), optional :: field2
    complex(c_float_complex), GR_WHOLE, target, intent(inout), optional :: field3
    complex(c_float_complex), GR_WHOLE, target, intent(inout), optional :: field4
    complex(c_float_complex), GR_WHOLE, target, intent(inout), optional :: field5
    complex(c_float_complex), GR_WHOLE, target, intent(inout), optional :: field6
    complex(c_float_complex), GR_WHOLE, target, intent(inout), optional :: field7
    complex(c_float_complex), GR_WHOLE, target, intent(inout), optional :: field8
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 8)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [8])
    n = 1
    call describe_whole(field1, described(1), axes, owned)
    if (present(field2)) then
      n = n + 1
      call describe_whole(field2, described(n), axes, owned)
    end if
    if (present(field3)) then
      n = n + 1
      call describe_whole(field3, described(n), axes, owned)
    end if
    if (present(field4)) then
      n = n + 1
      call describe_whole(field4, described(n), axes, owned)
    end if
    if (present(field5)) then
      n = n + 1
      call describe_whole(field5, described(n), axes, owned)
    end if
    if (present(field6)) then
      n = n + 1
      call describe_whole(field6, described(n), axes, owned)
    end if
    if (present(field7)) then
      n = n + 1
      call describe_whole(field7, described(n), axes, owned)
    end if
    if (present(field8)) then
      n = n + 1
      call describe_whole(field8, described(n), axes, owned)
    end if
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_exchange_adjoint_list(halo=halo, fields=described(:n), stat=stat)
  end subroutine

  subroutine gr_halo_exchange_adjoint_complex64(halo, field1, field2, field3, field4, field5, field6, field7, &
      field8, axes, owned, parity, kind, stat)
    type(gr_halo), intent(in) :: halo
    complex(c_double_complex), GR_WHOLE, target, intent(inout) :: field1
    complex(c_double_complex), GR_WHOLE, target, intent(inout), optional :: field2
    complex(c_double_complex), GR_WHOLE, target, intent(inout), optional :: field3
    complex(c_double_complex), GR_WHOLE, target, intent(inout), optional :: field4
    complex(c_double_complex), GR_WHOLE, target, intent(inout), optional :: field5
    complex(c_double_complex), GR_WHOLE, target, intent(inout), optional :: field6
    complex(c_double_complex), GR_WHOLE, target, intent(inout), optional :: field7
    complex(c_double_complex), GR_WHOLE, target, intent(inout), optional :: field8
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 8)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [8])
    n = 1
    call describe_whole(field1, described(1), axes, owned)
    if (present(field2)) then
      n = n + 1
      call describe_whole(field2, described(n), axes, owned)
    end if
    if (present(field3)) then
      n = n + 1
      call describe_whole(field3, described(n), axes, owned)
    end if
    if (present(field4)) then
      n = n + 1
      call describe_whole(field4, described(n), axes, owned)
    end if
    if (present(field5)) then
      n = n + 1
      call describe_whole(field5, described(n), axes, owned)
    end if
    if (present(field6)) then
      n = n + 1
      call describe_whole(field6, described(n), axes, owned)
    end if
    if (present(field7)) then
      n = n + 1
      call describe_whole(field7, described(n), axes, owned)
    end if
    if (present(field8)) then
      n = n + 1
      call describe_whole(field8, described(n), axes, owned)
    end if
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_exchange_adjoint_list(halo=halo, fields=described(:n), stat=stat)
  end subroutine

  subroutine gr_halo_exchange_adjoint_bool(halo, field1, field2, field3, field4, field5, field6, field7, field8, &
      axes, owned, parity, kind, stat)
    type(gr_halo), intent(in) :: halo
    logical(c_bool), GR_WHOLE, target, intent(inout) :: field1
    logical(c_bool), GR_WHOLE, target, intent(inout), optional :: field2
    logical(c_bool), GR_WHOLE, target, intent(inout), optional :: field3
    logical(c_bool), GR_WHOLE, target, intent(inout), optional :: field4
    logical(c_bool), GR_WHOLE, target, intent(inout), optional :: field5
    logical(c_bool), GR_WHOLE, target, intent(inout), optional :: field6
    logical(c_bool), GR_WHOLE, target, intent(inout), optional :: field7
    logical(c_bool), GR_WHOLE, target, intent(inout), optional :: field8
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 8)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [8])
    n = 1
    call describe_whole(field1, described(1), axes, owned)
    if (present(field2)) then
      n = n + 1
      call describe_whole(field2, described(n), axes, owned)
    end if
    if (present(field3)) then
      n = n + 1
      call describe_whole(field3, described(n), axes, owned)
    end if
    if (present(field4)) then
      n = n + 1
      call describe_whole(field4, described(n), axes, owned)
    end if
    if (present(field5)) then
      n = n + 1
      call describe_whole(field5, described(n), axes, owned)
    end if
    if (present(field6)) then
      n = n + 1
      call describe_whole(field6, described(n), axes, owned)
    end if
    if (present(field7)) then
      n = n + 1
      call describe_whole(field7, described(n), axes, owned)
    end if
    if (present(field8)) then
      n = n + 1
      call describe_whole(field8, described(n), axes, owned)
    end if
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_exchange_adjoint_list(halo=halo, fields=described(:n), stat=stat)
  end subroutine

  subroutine gr_halo_exchange_adjoint_logical(halo, field1, field2, field3, field4, field5, field6, field7, field8, &
      axes, owned, parity, kind, stat)
    type(gr_halo), intent(in) :: halo
    logical, GR_WHOLE, target, intent(inout) :: field1
    logical, GR_WHOLE, target, intent(inout), optional :: field2
    logical, GR_WHOLE, target, intent(inout), optional :: field3
    logical, GR_WHOLE, target, intent(inout), optional :: field4
    logical, GR_WHOLE, target, intent(inout), optional :: field5
    logical, GR_WHOLE, target, intent(inout), optional :: field6
    logical, GR_WHOLE, target, intent(inout), optional :: field7
    logical, GR_WHOLE, target, intent(inout), optional :: field8
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 8)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [8])
    n = 1
    call describe_whole(field1, described(1), axes, owned)
    if (present(field2)) then
      n = n + 1
      call describe_whole(field2, described(n), axes, owned)
    end if
    if (present(field3)) then
      n = n + 1
      call describe_whole(field3, described(n), axes, owned)
    end if
    if (present(field4)) then
      n = n + 1
      call describe_whole(field4, described(n), axes, owned)
    end if
    if (present(field5)) then
      n = n + 1
      call describe_whole(field5, described(n), axes, owned)
    end if
    if (present(field6)) then
      n = n + 1
      call describe_whole(field6, described(n), axes, owned)
    end if
    if (present(field7)) then
      n = n + 1
      call describe_whole(field7, described(n), axes, owned)
    end if
    if (present(field8)) then
      n = n + 1
      call describe_whole(field8, described(n), axes, owned)
    end if
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_exchange_adjoint_list(halo=halo, fields=described(:n), stat=stat)
  end subroutine

  !> Starts a transposed exchange. Collective.
  subroutine gr_halo_start_adjoint_list(halo, fields, pending, stat)
    type(gr_halo), intent(in) :: halo
    type(gr_field), intent(in), target, contiguous :: fields(:)
    type(gr_pending), intent(inout) :: pending
    integer, intent(out), optional :: stat
    type(c_ptr) :: halo_c
    integer(c_int) :: num_fields
    type(c_ptr), target :: pending_c
    integer(c_int) :: status
    halo_c = halo%handle
    num_fields = int(size(fields), c_int)
    pending_c = pending%handle
    call gr_fortran_call('num_fields=size(fields);' // c_null_char)
    status = c_gr_halo_start_adjoint(halo_c, num_fields, c_loc(fields), c_loc(pending_c))
    pending%handle = pending_c
    call ended(status, stat)
  end subroutine

  subroutine gr_halo_start_adjoint_one(halo, fields, pending, stat)
    type(gr_halo), intent(in) :: halo
    type(gr_field), intent(in) :: fields
    type(gr_pending), intent(inout) :: pending
    integer, intent(out), optional :: stat
    type(gr_field), pointer, contiguous :: fields_list(:)
    call c_f_pointer(address_of(fields), fields_list, [1])
    call gr_halo_start_adjoint_list(halo, fields_list, pending, stat)
  end subroutine

  !> Sets the transport of later calls; the same on all ranks, between the same calls.
  subroutine gr_halo_set_transport(halo, transport, stat)
    type(gr_halo), intent(inout) :: halo
    integer, intent(in) :: transport
    integer, intent(out), optional :: stat
    type(c_ptr) :: halo_c
    integer(c_int) :: transport_c
    integer(c_int) :: status
    halo_c = halo%handle
    transport_c = int(transport, c_int)
    call gr_fortran_call('' // c_null_char)
    status = c_gr_halo_set_transport(halo_c, transport_c)
    call ended(status, stat)
  end subroutine

  !> Measures the transports with these fields and selects the fastest. Collective; no call in flight.
  subroutine gr_halo_tune_list(halo, fields, num_calls, chosen, stat)
    type(gr_halo), intent(inout) :: halo
    type(gr_field), intent(in), target, contiguous :: fields(:)
    integer, intent(in) :: num_calls
    integer, intent(out) :: chosen
    integer, intent(out), optional :: stat
    type(c_ptr) :: halo_c
    integer(c_int) :: num_fields
    integer(c_int) :: num_calls_c
    integer(c_int), target :: chosen_c
    integer(c_int) :: status
    halo_c = halo%handle
    num_fields = int(size(fields), c_int)
    num_calls_c = int(num_calls, c_int)
    chosen_c = 0
    call gr_fortran_call('num_fields=size(fields);' // c_null_char)
    status = c_gr_halo_tune(halo_c, num_fields, c_loc(fields), num_calls_c, c_loc(chosen_c))
    if (status == 0) chosen = chosen_c
    call ended(status, stat)
  end subroutine

  subroutine gr_halo_tune_one(halo, fields, num_calls, chosen, stat)
    type(gr_halo), intent(inout) :: halo
    type(gr_field), intent(in) :: fields
    integer, intent(in) :: num_calls
    integer, intent(out) :: chosen
    integer, intent(out), optional :: stat
    type(gr_field), pointer, contiguous :: fields_list(:)
    call c_f_pointer(address_of(fields), fields_list, [1])
    call gr_halo_tune_list(halo, fields_list, num_calls, chosen, stat)
  end subroutine

  subroutine gr_halo_tune_int8(halo, field1, field2, field3, field4, field5, field6, field7, field8, num_calls, &
      chosen, axes, owned, parity, kind, stat)
    type(gr_halo), intent(inout) :: halo
    integer(c_int8_t), GR_WHOLE, target, intent(inout) :: field1
    integer(c_int8_t), GR_WHOLE, target, intent(inout), optional :: field2
    integer(c_int8_t), GR_WHOLE, target, intent(inout), optional :: field3
    integer(c_int8_t), GR_WHOLE, target, intent(inout), optional :: field4
    integer(c_int8_t), GR_WHOLE, target, intent(inout), optional :: field5
    integer(c_int8_t), GR_WHOLE, target, intent(inout), optional :: field6
    integer(c_int8_t), GR_WHOLE, target, intent(inout), optional :: field7
    integer(c_int8_t), GR_WHOLE, target, intent(inout), optional :: field8
    integer, intent(in) :: num_calls
    integer, intent(out) :: chosen
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 8)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [8])
    n = 1
    call describe_whole(field1, described(1), axes, owned)
    if (present(field2)) then
      n = n + 1
      call describe_whole(field2, described(n), axes, owned)
    end if
    if (present(field3)) then
      n = n + 1
      call describe_whole(field3, described(n), axes, owned)
    end if
    if (present(field4)) then
      n = n + 1
      call describe_whole(field4, described(n), axes, owned)
    end if
    if (present(field5)) then
      n = n + 1
      call describe_whole(field5, described(n), axes, owned)
    end if
    if (present(field6)) then
      n = n + 1
      call describe_whole(field6, described(n), axes, owned)
    end if
    if (present(field7)) then
      n = n + 1
      call describe_whole(field7, described(n), axes, owned)
    end if
    if (present(field8)) then
      n = n + 1
      call describe_whole(field8, described(n), axes, owned)
    end if
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_tune_list(halo=halo, fields=described(:n), num_calls=num_calls, chosen=chosen, stat=stat)
  end subroutine

  subroutine gr_halo_tune_int16(halo, field1, field2, field3, field4, field5, field6, field7, field8, num_calls, &
      chosen, axes, owned, parity, kind, stat)
    type(gr_halo), intent(inout) :: halo
    integer(c_int16_t), GR_WHOLE, target, intent(inout) :: field1
    integer(c_int16_t), GR_WHOLE, target, intent(inout), optional :: field2
    integer(c_int16_t), GR_WHOLE, target, intent(inout), optional :: field3
    integer(c_int16_t), GR_WHOLE, target, intent(inout), optional :: field4
    integer(c_int16_t), GR_WHOLE, target, intent(inout), optional :: field5
    integer(c_int16_t), GR_WHOLE, target, intent(inout), optional :: field6
    integer(c_int16_t), GR_WHOLE, target, intent(inout), optional :: field7
    integer(c_int16_t), GR_WHOLE, target, intent(inout), optional :: field8
    integer, intent(in) :: num_calls
    integer, intent(out) :: chosen
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 8)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [8])
    n = 1
    call describe_whole(field1, described(1), axes, owned)
    if (present(field2)) then
      n = n + 1
      call describe_whole(field2, described(n), axes, owned)
    end if
    if (present(field3)) then
      n = n + 1
      call describe_whole(field3, described(n), axes, owned)
    end if
    if (present(field4)) then
      n = n + 1
      call describe_whole(field4, described(n), axes, owned)
    end if
    if (present(field5)) then
      n = n + 1
      call describe_whole(field5, described(n), axes, owned)
    end if
    if (present(field6)) then
      n = n + 1
      call describe_whole(field6, described(n), axes, owned)
    end if
    if (present(field7)) then
      n = n + 1
      call describe_whole(field7, described(n), axes, owned)
    end if
    if (present(field8)) then
      n = n + 1
      call describe_whole(field8, described(n), axes, owned)
    end if
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_tune_list(halo=halo, fields=described(:n), num_calls=num_calls, chosen=chosen, stat=stat)
  end subroutine

  subroutine gr_halo_tune_int32(halo, field1, field2, field3, field4, field5, field6, field7, field8, num_calls, &
      chosen, axes, owned, parity, kind, stat)
    type(gr_halo), intent(inout) :: halo
    integer(c_int32_t), GR_WHOLE, target, intent(inout) :: field1
    integer(c_int32_t), GR_WHOLE, target, intent(inout), optional :: field2
    integer(c_int32_t), GR_WHOLE, target, intent(inout), optional :: field3
    integer(c_int32_t), GR_WHOLE, target, intent(inout), optional :: field4
    integer(c_int32_t), GR_WHOLE, target, intent(inout), optional :: field5
    integer(c_int32_t), GR_WHOLE, target, intent(inout), optional :: field6
    integer(c_int32_t), GR_WHOLE, target, intent(inout), optional :: field7
    integer(c_int32_t), GR_WHOLE, target, intent(inout), optional :: field8
    integer, intent(in) :: num_calls
    integer, intent(out) :: chosen
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 8)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [8])
    n = 1
    call describe_whole(field1, described(1), axes, owned)
    if (present(field2)) then
      n = n + 1
      call describe_whole(field2, described(n), axes, owned)
    end if
    if (present(field3)) then
      n = n + 1
      call describe_whole(field3, described(n), axes, owned)
    end if
    if (present(field4)) then
      n = n + 1
      call describe_whole(field4, described(n), axes, owned)
    end if
    if (present(field5)) then
      n = n + 1
      call describe_whole(field5, described(n), axes, owned)
    end if
    if (present(field6)) then
      n = n + 1
      call describe_whole(field6, described(n), axes, owned)
    end if
    if (present(field7)) then
      n = n + 1
      call describe_whole(field7, described(n), axes, owned)
    end if
    if (present(field8)) then
      n = n + 1
      call describe_whole(field8, described(n), axes, owned)
    end if
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_tune_list(halo=halo, fields=described(:n), num_calls=num_calls, chosen=chosen, stat=stat)
  end subroutine

  subroutine gr_halo_tune_int64(halo, field1, field2, field3, field4, field5, field6, field7, field8, num_calls, &
      chosen, axes, owned, parity, kind, stat)
    type(gr_halo), intent(inout) :: halo
    integer(c_int64_t), GR_WHOLE, target, intent(inout) :: field1
    integer(c_int64_t), GR_WHOLE, target, intent(inout), optional :: field2
    integer(c_int64_t), GR_WHOLE, target, intent(inout), optional :: field3
    integer(c_int64_t), GR_WHOLE, target, intent(inout), optional :: field4
    integer(c_int64_t), GR_WHOLE, target, intent(inout), optional :: field5
    integer(c_int64_t), GR_WHOLE, target, intent(inout), optional :: field6
    integer(c_int64_t), GR_WHOLE, target, intent(inout), optional :: field7
    integer(c_int64_t), GR_WHOLE, target, intent(inout), optional :: field8
    integer, intent(in) :: num_calls
    integer, intent(out) :: chosen
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 8)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [8])
    n = 1
    call describe_whole(field1, described(1), axes, owned)
    if (present(field2)) then
      n = n + 1
      call describe_whole(field2, described(n), axes, owned)
    end if
    if (present(field3)) then
      n = n + 1
      call describe_whole(field3, described(n), axes, owned)
    end if
    if (present(field4)) then
      n = n + 1
      call describe_whole(field4, described(n), axes, owned)
    end if
    if (present(field5)) then
      n = n + 1
      call describe_whole(field5, described(n), axes, owned)
    end if
    if (present(field6)) then
      n = n + 1
      call describe_whole(field6, described(n), axes, owned)
    end if
    if (present(field7)) then
      n = n + 1
      call describe_whole(field7, described(n), axes, owned)
    end if
    if (present(field8)) then
      n = n + 1
      call describe_whole(field8, described(n), axes, owned)
    end if
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_tune_list(halo=halo, fields=described(:n), num_calls=num_calls, chosen=chosen, stat=stat)
  end subroutine

  subroutine gr_halo_tune_real32(halo, field1, field2, field3, field4, field5, field6, field7, field8, num_calls, &
      chosen, axes, owned, parity, kind, stat)
    type(gr_halo), intent(inout) :: halo
    real(c_float), GR_WHOLE, target, intent(inout) :: field1
    real(c_float), GR_WHOLE, target, intent(inout), optional :: field2
    real(c_float), GR_WHOLE, target, intent(inout), optional :: field3
    real(c_float), GR_WHOLE, target, intent(inout), optional :: field4
    real(c_float), GR_WHOLE, target, intent(inout), optional :: field5
    real(c_float), GR_WHOLE, target, intent(inout), optional :: field6
    real(c_float), GR_WHOLE, target, intent(inout), optional :: field7
    real(c_float), GR_WHOLE, target, intent(inout), optional :: field8
    integer, intent(in) :: num_calls
    integer, intent(out) :: chosen
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 8)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [8])
    n = 1
    call describe_whole(field1, described(1), axes, owned)
    if (present(field2)) then
      n = n + 1
      call describe_whole(field2, described(n), axes, owned)
    end if
    if (present(field3)) then
      n = n + 1
      call describe_whole(field3, described(n), axes, owned)
    end if
    if (present(field4)) then
      n = n + 1
      call describe_whole(field4, described(n), axes, owned)
    end if
    if (present(field5)) then
      n = n + 1
      call describe_whole(field5, described(n), axes, owned)
    end if
    if (present(field6)) then
      n = n + 1
      call describe_whole(field6, described(n), axes, owned)
    end if
    if (present(field7)) then
      n = n + 1
      call describe_whole(field7, described(n), axes, owned)
    end if
    if (present(field8)) then
      n = n + 1
      call describe_whole(field8, described(n), axes, owned)
    end if
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_tune_list(halo=halo, fields=described(:n), num_calls=num_calls, chosen=chosen, stat=stat)
  end subroutine

  subroutine gr_halo_tune_real64(halo, field1, field2, field3, field4, field5, field6, field7, field8, num_calls, &
      chosen, axes, owned, parity, kind, stat)
    type(gr_halo), intent(inout) :: halo
    real(c_double), GR_WHOLE, target, intent(inout) :: field1
    real(c_double), GR_WHOLE, target, intent(inout), optional :: field2
    real(c_double), GR_WHOLE, target, intent(inout), optional :: field3
    real(c_double), GR_WHOLE, target, intent(inout), optional :: field4
    real(c_double), GR_WHOLE, target, intent(inout), optional :: field5
    real(c_double), GR_WHOLE, target, intent(inout), optional :: field6
    real(c_double), GR_WHOLE, target, intent(inout), optional :: field7
    real(c_double), GR_WHOLE, target, intent(inout), optional :: field8
    integer, intent(in) :: num_calls
    integer, intent(out) :: chosen
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 8)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [8])
    n = 1
    call describe_whole(field1, described(1), axes, owned)
    if (present(field2)) then
      n = n + 1
      call describe_whole(field2, described(n), axes, owned)
    end if
    if (present(field3)) then
      n = n + 1
      call describe_whole(field3, described(n), axes, owned)
    end if
    if (present(field4)) then
      n = n + 1
      call describe_whole(field4, described(n), axes, owned)
    end if
    if (present(field5)) then
      n = n + 1
      call describe_whole(field5, described(n), axes, owned)
    end if
    if (present(field6)) then
      n = n + 1
      call describe_whole(field6, described(n), axes, owned)
    end if
    if (present(field7)) then
      n = n + 1
      call describe_whole(field7, described(n), axes, owned)
    end if
    if (present(field8)) then
      n = n + 1
      call describe_whole(field8, described(n), axes, owned)
    end if
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_tune_list(halo=halo, fields=described(:n), num_calls=num_calls, chosen=chosen, stat=stat)
  end subroutine

  subroutine gr_halo_tune_complex32(halo, field1, field2, field3, field4, field5, field6, field7, field8, num_calls, &
      chosen, axes, owned, parity, kind, stat)
    type(gr_halo), intent(inout) :: halo
    complex(c_float_complex), GR_WHOLE, target, intent(inout) :: field1
    complex(c_float_complex), GR_WHOLE, target, intent(inout), optional :: field2
    complex(c_float_complex), GR_WHOLE, target, intent(inout), optional :: field3
    complex(c_float_complex), GR_WHOLE, target, intent(inout), optional :: field4
    complex(c_float_complex), GR_WHOLE, target, intent(inout), optional :: field5
    complex(c_float_complex), GR_WHOLE, target, intent(inout), optional :: field6
    complex(c_float_complex), GR_WHOLE, target, intent(inout), optional :: field7
    complex(c_float_complex), GR_WHOLE, target, intent(inout), optional :: field8
    integer, intent(in) :: num_calls
    integer, intent(out) :: chosen
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 8)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [8])
    n = 1
    call describe_whole(field1, described(1), axes, owned)
    if (present(field2)) then
      n = n + 1
      call describe_whole(field2, described(n), axes, owned)
    end if
    if (present(field3)) then
      n = n + 1
      call describe_whole(field3, described(n), axes, owned)
    end if
    if (present(field4)) then
      n = n + 1
      call describe_whole(field4, described(n), axes, owned)
    end if
    if (present(field5)) then
      n = n + 1
      call describe_whole(field5, described(n), axes, owned)
    end if
    if (present(field6)) then
      n = n + 1
      call describe_whole(field6, described(n), axes, owned)
    end if
    if (present(field7)) then
      n = n + 1
      call describe_whole(field7, described(n), axes, owned)
    end if
    if (present(field8)) then
      n = n + 1
      call describe_whole(field8, described(n), axes, owned)
    end if
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_tune_list(halo=halo, fields=described(:n), num_calls=num_calls, chosen=chosen, stat=stat)
  end subroutine

  subroutine gr_halo_tune_complex64(halo, field1, field2, field3, field4, field5, field6, field7, field8, num_calls, &
      chosen, axes, owned, parity, kind, stat)
    type(gr_halo), intent(inout) :: halo
    complex(c_double_complex), GR_WHOLE, target, intent(inout) :: field1
    complex(c_double_complex), GR_WHOLE, target, intent(inout), optional :: field2
    complex(c_double_complex), GR_WHOLE, target, intent(inout), optional :: field3
    complex(c_double_complex), GR_WHOLE, target, intent(inout), optional :: field4
    complex(c_double_complex), GR_WHOLE, target, intent(inout), optional :: field5
    complex(c_double_complex), GR_WHOLE, target, intent(inout), optional :: field6
    complex(c_double_complex), GR_WHOLE, target, intent(inout), optional :: field7
    complex(c_double_complex), GR_WHOLE, target, intent(inout), optional :: field8
    integer, intent(in) :: num_calls
    integer, intent(out) :: chosen
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 8)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [8])
    n = 1
    call describe_whole(field1, described(1), axes, owned)
    if (present(field2)) then
      n = n + 1
      call describe_whole(field2, described(n), axes, owned)
    end if
    if (present(field3)) then
      n = n + 1
      call describe_whole(field3, described(n), axes, owned)
    end if
    if (present(field4)) then
      n = n + 1
      call describe_whole(field4, described(n), axes, owned)
    end if
    if (present(field5)) then
      n = n + 1
      call describe_whole(field5, described(n), axes, owned)
    end if
    if (present(field6)) then
      n = n + 1
      call describe_whole(field6, described(n), axes, owned)
    end if
    if (present(field7)) then
      n = n + 1
      call describe_whole(field7, described(n), axes, owned)
    end if
    if (present(field8)) then
      n = n + 1
      call describe_whole(field8, described(n), axes, owned)
    end if
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_tune_list(halo=halo, fields=described(:n), num_calls=num_calls, chosen=chosen, stat=stat)
  end subroutine

  subroutine gr_halo_tune_bool(halo, field1, field2, field3, field4, field5, field6, field7, field8, num_calls, &
      chosen, axes, owned, parity, kind, stat)
    type(gr_halo), intent(inout) :: halo
    logical(c_bool), GR_WHOLE, target, intent(inout) :: field1
    logical(c_bool), GR_WHOLE, target, intent(inout), optional :: field2
    logical(c_bool), GR_WHOLE, target, intent(inout), optional :: field3
    logical(c_bool), GR_WHOLE, target, intent(inout), optional :: field4
    logical(c_bool), GR_WHOLE, target, intent(inout), optional :: field5
    logical(c_bool), GR_WHOLE, target, intent(inout), optional :: field6
    logical(c_bool), GR_WHOLE, target, intent(inout), optional :: field7
    logical(c_bool), GR_WHOLE, target, intent(inout), optional :: field8
    integer, intent(in) :: num_calls
    integer, intent(out) :: chosen
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 8)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [8])
    n = 1
    call describe_whole(field1, described(1), axes, owned)
    if (present(field2)) then
      n = n + 1
      call describe_whole(field2, described(n), axes, owned)
    end if
    if (present(field3)) then
      n = n + 1
      call describe_whole(field3, described(n), axes, owned)
    end if
    if (present(field4)) then
      n = n + 1
      call describe_whole(field4, described(n), axes, owned)
    end if
    if (present(field5)) then
      n = n + 1
      call describe_whole(field5, described(n), axes, owned)
    end if
    if (present(field6)) then
      n = n + 1
      call describe_whole(field6, described(n), axes, owned)
    end if
    if (present(field7)) then
      n = n + 1
      call describe_whole(field7, described(n), axes, owned)
    end if
    if (present(field8)) then
      n = n + 1
      call describe_whole(field8, described(n), axes, owned)
    end if
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_tune_list(halo=halo, fields=described(:n), num_calls=num_calls, chosen=chosen, stat=stat)
  end subroutine

  subroutine gr_halo_tune_logical(halo, field1, field2, field3, field4, field5, field6, field7, field8, num_calls, &
      chosen, axes, owned, parity, kind, stat)
    type(gr_halo), intent(inout) :: halo
    logical, GR_WHOLE, target, intent(inout) :: field1
    logical, GR_WHOLE, target, intent(inout), optional :: field2
    logical, GR_WHOLE, target, intent(inout), optional :: field3
    logical, GR_WHOLE, target, intent(inout), optional :: field4
    logical, GR_WHOLE, target, intent(inout), optional :: field5
    logical, GR_WHOLE, target, intent(inout), optional :: field6
    logical, GR_WHOLE, target, intent(inout), optional :: field7
    logical, GR_WHOLE, target, intent(inout), optional :: field8
    integer, intent(in) :: num_calls
    integer, intent(out) :: chosen
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 8)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [8])
    n = 1
    call describe_whole(field1, described(1), axes, owned)
    if (present(field2)) then
      n = n + 1
      call describe_whole(field2, described(n), axes, owned)
    end if
    if (present(field3)) then
      n = n + 1
      call describe_whole(field3, described(n), axes, owned)
    end if
    if (present(field4)) then
      n = n + 1
      call describe_whole(field4, described(n), axes, owned)
    end if
    if (present(field5)) then
      n = n + 1
      call describe_whole(field5, described(n), axes, owned)
    end if
    if (present(field6)) then
      n = n + 1
      call describe_whole(field6, described(n), axes, owned)
    end if
    if (present(field7)) then
      n = n + 1
      call describe_whole(field7, described(n), axes, owned)
    end if
    if (present(field8)) then
      n = n + 1
      call describe_whole(field8, described(n), axes, owned)
    end if
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_tune_list(halo=halo, fields=described(:n), num_calls=num_calls, chosen=chosen, stat=stat)
  end subroutine

  !> Traffic of a call on this rank.
  subroutine gr_halo_counts(halo, counts, stat)
    type(gr_halo), intent(in) :: halo
    type(gr_counts), intent(out) :: counts
    integer, intent(out), optional :: stat
    type(c_ptr) :: halo_c
    type(gr_counts), target :: counts_c
    integer(c_int) :: status
    halo_c = halo%handle
    counts_c%size = c_sizeof(counts_c)
    call gr_fortran_call('' // c_null_char)
    status = c_gr_halo_counts(halo_c, c_loc(counts_c))
    if (status == 0) counts = counts_c
    call ended(status, stat)
  end subroutine

  !> Traffic and times of the calls so far.
  subroutine gr_halo_stats(halo, stats, stat)
    type(gr_halo), intent(in) :: halo
    type(gr_stats), intent(out) :: stats
    integer, intent(out), optional :: stat
    type(c_ptr) :: halo_c
    type(gr_stats), target :: stats_c
    integer(c_int) :: status
    halo_c = halo%handle
    stats_c%size = c_sizeof(stats_c)
    call gr_fortran_call('' // c_null_char)
    status = c_gr_halo_stats(halo_c, c_loc(stats_c))
    if (status == 0) stats = stats_c
    call ended(status, stat)
  end subroutine

  !> Report for people: the path to each peer with the reason, then traffic and times.
  subroutine gr_halo_report(halo, text, stat)
    type(gr_halo), intent(in) :: halo
    character(:), allocatable, intent(out) :: text
    integer, intent(out), optional :: stat
    type(c_ptr) :: halo_c
    type(c_ptr), target :: text_c
    integer(c_int) :: status
    halo_c = halo%handle
    text_c = c_null_ptr
    call gr_fortran_call('' // c_null_char)
    status = c_gr_halo_report(halo_c, c_loc(text_c))
    if (status == 0) text = text_at(text_c)
    call ended(status, stat)
  end subroutine

  !> Writes the plan as JSON, for `graticule-bench replay`. Collective.
  subroutine gr_halo_dump(halo, path, stat)
    type(gr_halo), intent(in) :: halo
    character(*), intent(in) :: path
    integer, intent(out), optional :: stat
    type(c_ptr) :: halo_c
    character(:, c_char), allocatable, target :: path_c
    integer(c_int) :: status
    halo_c = halo%handle
    path_c = trim(path) // c_null_char
    call gr_fortran_call('' // c_null_char)
    status = c_gr_halo_dump(halo_c, c_loc(path_c))
    call ended(status, stat)
  end subroutine

  !> Counts the valid layers of a field's halo, to exchange once and apply operators until the halo is exhausted.
  !>
  !> The counts are the same on all ranks; they are kept per axis and side, inside the grid and beyond its edges. An
  !> exchange sets them to the widths, a write to owned cells to 0; an operator that reaches r cells needs r and leaves r
  !> less. Starts without valid layers. Report each exchange, write and operator on all ranks in the same order.
  !> Example: width 3, reach 1: the rank with rows [8, 16) computes [6, 18), then [7, 17), then [8, 16), then exchanges.
  subroutine gr_halo_depth_create(halo, name, kind, parity, depth, stat)
    type(gr_halo), intent(in) :: halo
    character(*), intent(in) :: name
    integer, intent(in), optional :: kind
    integer, intent(in), optional :: parity
    type(gr_halo_depth), intent(inout) :: depth
    integer, intent(out), optional :: stat
    type(c_ptr) :: halo_c
    character(:, c_char), allocatable, target :: name_c
    integer(c_int) :: kind_c
    integer(c_int) :: parity_c
    type(c_ptr), target :: depth_c
    integer(c_int) :: status
    halo_c = halo%handle
    name_c = trim(name) // c_null_char
    kind_c = 0
    if (present(kind)) then
    kind_c = int(kind - 1, c_int)
    end if
    parity_c = 0
    if (present(parity)) then
    parity_c = int(parity, c_int)
    end if
    depth_c = depth%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_halo_depth_create(halo_c, c_loc(name_c), kind_c, parity_c, c_loc(depth_c))
    depth%handle = depth_c
    call ended(status, stat)
  end subroutine

  !> Frees counts.
  subroutine gr_halo_depth_destroy(depth, stat)
    type(gr_halo_depth), intent(inout) :: depth
    integer, intent(out), optional :: stat
    type(c_ptr), target :: depth_c
    integer(c_int) :: status
    depth_c = depth%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_halo_depth_destroy(c_loc(depth_c))
    depth%handle = depth_c
    call ended(status, stat)
  end subroutine

  !> Reports an exchange of the field's halo.
  subroutine gr_halo_depth_exchanged(depth, stat)
    type(gr_halo_depth), intent(inout) :: depth
    integer, intent(out), optional :: stat
    type(c_ptr) :: depth_c
    integer(c_int) :: status
    depth_c = depth%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_halo_depth_exchanged(depth_c)
    call ended(status, stat)
  end subroutine

  !> Reports that owned cells were written by other means than an operator on all valid cells.
  subroutine gr_halo_depth_written(depth, stat)
    type(gr_halo_depth), intent(inout) :: depth
    integer, intent(out), optional :: stat
    type(c_ptr) :: depth_c
    integer(c_int) :: status
    depth_c = depth%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_halo_depth_written(depth_c)
    call ended(status, stat)
  end subroutine

  !> Valid layers inside the grid on both sides of each axis; beyond a periodic edge counts as inside.
  subroutine gr_halo_depth_inside(depth, lower, upper, stat)
    type(gr_halo_depth), intent(in) :: depth
    integer, intent(out) :: lower(:)
    integer, intent(out) :: upper(:)
    integer, intent(out), optional :: stat
    type(c_ptr) :: depth_c
    integer(c_int) :: ndim
    integer(c_int64_t), allocatable, target :: lower_c(:)
    integer(c_int64_t), allocatable, target :: upper_c(:)
    integer(c_int) :: status
    depth_c = depth%handle
    ndim = int(size(lower), c_int)
    if (size(upper) /= ndim) then
    call wrong_size('gr_halo_depth_inside', 'upper', int(size(upper), c_int), ndim, stat)
    return
    end if
    allocate(lower_c(size(lower)))
    lower_c = 0
    allocate(upper_c(size(upper)))
    upper_c = 0
    call gr_fortran_call('ndim=size(lower);' // c_null_char)
    status = c_gr_halo_depth_inside(depth_c, ndim, c_loc(lower_c), c_loc(upper_c))
    if (status == 0) lower = int(lower_c(ndim:1:-1))
    if (status == 0) upper = int(upper_c(ndim:1:-1))
    call ended(status, stat)
  end subroutine

  !> Valid layers beyond the edges of the grid.
  subroutine gr_halo_depth_beyond(depth, lower, upper, stat)
    type(gr_halo_depth), intent(in) :: depth
    integer, intent(out) :: lower(:)
    integer, intent(out) :: upper(:)
    integer, intent(out), optional :: stat
    type(c_ptr) :: depth_c
    integer(c_int) :: ndim
    integer(c_int64_t), allocatable, target :: lower_c(:)
    integer(c_int64_t), allocatable, target :: upper_c(:)
    integer(c_int) :: status
    depth_c = depth%handle
    ndim = int(size(lower), c_int)
    if (size(upper) /= ndim) then
    call wrong_size('gr_halo_depth_beyond', 'upper', int(size(upper), c_int), ndim, stat)
    return
    end if
    allocate(lower_c(size(lower)))
    lower_c = 0
    allocate(upper_c(size(upper)))
    upper_c = 0
    call gr_fortran_call('ndim=size(lower);' // c_null_char)
    status = c_gr_halo_depth_beyond(depth_c, ndim, c_loc(lower_c), c_loc(upper_c))
    if (status == 0) lower = int(lower_c(ndim:1:-1))
    if (status == 0) upper = int(upper_c(ndim:1:-1))
    call ended(status, stat)
  end subroutine

  !> The cells of this rank that hold valid values.
  subroutine gr_halo_depth_valid(depth, lower, upper, stat)
    type(gr_halo_depth), intent(in) :: depth
    integer, intent(out) :: lower(:)
    integer, intent(out) :: upper(:)
    integer, intent(out), optional :: stat
    type(c_ptr) :: depth_c
    integer(c_int) :: ndim
    integer(c_int64_t), allocatable, target :: lower_c(:)
    integer(c_int64_t), allocatable, target :: upper_c(:)
    integer(c_int) :: status
    depth_c = depth%handle
    ndim = int(size(lower), c_int)
    if (size(upper) /= ndim) then
    call wrong_size('gr_halo_depth_valid', 'upper', int(size(upper), c_int), ndim, stat)
    return
    end if
    allocate(lower_c(size(lower)))
    lower_c = 0
    allocate(upper_c(size(upper)))
    upper_c = 0
    call gr_fortran_call('ndim=size(lower);' // c_null_char)
    status = c_gr_halo_depth_valid(depth_c, ndim, c_loc(lower_c), c_loc(upper_c))
    if (status == 0) lower = int(lower_c(ndim:1:-1) + 1)
    if (status == 0) upper = int(upper_c(ndim:1:-1))
    call ended(status, stat)
  end subroutine

  !> Whether symmetric operators commute with the rule of each edge: never with constants and replicated edges.
  subroutine gr_halo_depth_commutes(depth, lower, upper, stat)
    type(gr_halo_depth), intent(in) :: depth
    logical, intent(out) :: lower(:)
    logical, intent(out) :: upper(:)
    integer, intent(out), optional :: stat
    type(c_ptr) :: depth_c
    integer(c_int) :: ndim
    integer(c_int), allocatable, target :: lower_c(:)
    integer(c_int), allocatable, target :: upper_c(:)
    integer(c_int) :: status
    depth_c = depth%handle
    ndim = int(size(lower), c_int)
    if (size(upper) /= ndim) then
    call wrong_size('gr_halo_depth_commutes', 'upper', int(size(upper), c_int), ndim, stat)
    return
    end if
    allocate(lower_c(size(lower)))
    lower_c = 0
    allocate(upper_c(size(upper)))
    upper_c = 0
    call gr_fortran_call('ndim=size(lower);' // c_null_char)
    status = c_gr_halo_depth_commutes(depth_c, ndim, c_loc(lower_c), c_loc(upper_c))
    if (status == 0) lower = lower_c(ndim:1:-1) /= 0
    if (status == 0) upper = upper_c(ndim:1:-1) /= 0
    call ended(status, stat)
  end subroutine

  !> Whether an operator may be applied without an exchange; the same on all ranks.
  subroutine gr_halo_depth_suffices(depth, reach_lower, reach_upper, suffices, stat)
    type(gr_halo_depth), intent(in) :: depth
    integer, intent(in) :: reach_lower(:)
    integer, intent(in) :: reach_upper(:)
    logical, intent(out) :: suffices
    integer, intent(out), optional :: stat
    type(c_ptr) :: depth_c
    integer(c_int) :: ndim
    integer(c_int64_t), allocatable, target :: reach_lower_c(:)
    integer(c_int64_t), allocatable, target :: reach_upper_c(:)
    integer(c_int), target :: suffices_c
    integer(c_int) :: status
    depth_c = depth%handle
    ndim = int(size(reach_lower), c_int)
    if (size(reach_upper) /= ndim) then
    call wrong_size('gr_halo_depth_suffices', 'reach_upper', int(size(reach_upper), c_int), ndim, stat)
    return
    end if
    reach_lower_c = int(reach_lower(ndim:1:-1), c_int64_t)
    reach_upper_c = int(reach_upper(ndim:1:-1), c_int64_t)
    suffices_c = 0
    call gr_fortran_call('ndim=size(reach_lower);' // c_null_char)
    status = c_gr_halo_depth_suffices(depth_c, ndim, c_loc(reach_lower_c), c_loc(reach_upper_c), c_loc(suffices_c))
    if (status == 0) suffices = suffices_c /= 0
    call ended(status, stat)
  end subroutine

  !> The field becomes the result of an operator: gives the cells to compute.
  !>
  !> Fails with the rule HaloTooShallow, on all ranks alike, where the layers do not suffice.
  subroutine gr_halo_depth_apply(depth, input, reach_lower, reach_upper, at_mirrors, lower, upper, stat)
    type(gr_halo_depth), intent(inout) :: depth
    type(gr_halo_depth), intent(in) :: input
    integer, intent(in) :: reach_lower(:)
    integer, intent(in) :: reach_upper(:)
    integer, intent(in) :: at_mirrors
    integer, intent(out) :: lower(:)
    integer, intent(out) :: upper(:)
    integer, intent(out), optional :: stat
    type(c_ptr) :: depth_c
    type(c_ptr) :: input_c
    integer(c_int) :: ndim
    integer(c_int64_t), allocatable, target :: reach_lower_c(:)
    integer(c_int64_t), allocatable, target :: reach_upper_c(:)
    integer(c_int) :: at_mirrors_c
    integer(c_int64_t), allocatable, target :: lower_c(:)
    integer(c_int64_t), allocatable, target :: upper_c(:)
    integer(c_int) :: status
    depth_c = depth%handle
    input_c = input%handle
    ndim = int(size(reach_lower), c_int)
    if (size(reach_upper) /= ndim) then
    call wrong_size('gr_halo_depth_apply', 'reach_upper', int(size(reach_upper), c_int), ndim, stat)
    return
    end if
    if (size(lower) /= ndim) then
    call wrong_size('gr_halo_depth_apply', 'lower', int(size(lower), c_int), ndim, stat)
    return
    end if
    if (size(upper) /= ndim) then
    call wrong_size('gr_halo_depth_apply', 'upper', int(size(upper), c_int), ndim, stat)
    return
    end if
    reach_lower_c = int(reach_lower(ndim:1:-1), c_int64_t)
    reach_upper_c = int(reach_upper(ndim:1:-1), c_int64_t)
    at_mirrors_c = int(at_mirrors, c_int)
    allocate(lower_c(size(lower)))
    lower_c = 0
    allocate(upper_c(size(upper)))
    upper_c = 0
    call gr_fortran_call('ndim=size(reach_lower);' // c_null_char)
    status = c_gr_halo_depth_apply(depth_c, input_c, ndim, c_loc(reach_lower_c), c_loc(reach_upper_c), at_mirrors_c, &
        c_loc(lower_c), c_loc(upper_c))
    if (status == 0) lower = int(lower_c(ndim:1:-1) + 1)
    if (status == 0) upper = int(upper_c(ndim:1:-1))
    call ended(status, stat)
  end subroutine

  !> Makes ghost cells beyond the edges valid, as deep as the rules read valid cells of this rank. No messages.
  !>
  !> Beyond poles and seams only where every rank owns whole circles of latitude and no cells are copies.
  subroutine gr_halo_depth_refill_field(depth, field, stat)
    type(gr_halo_depth), intent(inout) :: depth
    type(gr_field), intent(in), target :: field
    integer, intent(out), optional :: stat
    type(c_ptr) :: depth_c
    integer(c_int) :: status
    depth_c = depth%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_halo_depth_refill(depth_c, c_loc(field))
    call ended(status, stat)
  end subroutine

  subroutine gr_halo_depth_refill_int8(depth, field, axes, owned, parity, kind, stat)
    type(gr_halo_depth), intent(inout) :: depth
    integer(c_int8_t), GR_WHOLE, target, intent(inout) :: field
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 1)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [1])
    n = 1
    call describe_whole(field, described(1), axes, owned)
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_depth_refill_field(depth=depth, field=described(1), stat=stat)
  end subroutine

  subroutine gr_halo_depth_refill_int16(depth, field, axes, owned, parity, kind, stat)
    type(gr_halo_depth), intent(inout) :: depth
    integer(c_int16_t), GR_WHOLE, target, intent(inout) :: field
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 1)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [1])
    n = 1
    call describe_whole(field, described(1), axes, owned)
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_depth_refill_field(depth=depth, field=described(1), stat=stat)
  end subroutine

  subroutine gr_halo_depth_refill_int32(depth, field, axes, owned, parity, kind, stat)
    type(gr_halo_depth), intent(inout) :: depth
    integer(c_int32_t), GR_WHOLE, target, intent(inout) :: field
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 1)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [1])
    n = 1
    call describe_whole(field, described(1), axes, owned)
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_depth_refill_field(depth=depth, field=described(1), stat=stat)
  end subroutine

  subroutine gr_halo_depth_refill_int64(depth, field, axes, owned, parity, kind, stat)
    type(gr_halo_depth), intent(inout) :: depth
    integer(c_int64_t), GR_WHOLE, target, intent(inout) :: field
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 1)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [1])
    n = 1
    call describe_whole(field, described(1), axes, owned)
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_depth_refill_field(depth=depth, field=described(1), stat=stat)
  end subroutine

  subroutine gr_halo_depth_refill_real32(depth, field, axes, owned, parity, kind, stat)
    type(gr_halo_depth), intent(inout) :: depth
    real(c_float), GR_WHOLE, target, intent(inout) :: field
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 1)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [1])
    n = 1
    call describe_whole(field, described(1), axes, owned)
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_depth_refill_field(depth=depth, field=described(1), stat=stat)
  end subroutine

  subroutine gr_halo_depth_refill_real64(depth, field, axes, owned, parity, kind, stat)
    type(gr_halo_depth), intent(inout) :: depth
    real(c_double), GR_WHOLE, target, intent(inout) :: field
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 1)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [1])
    n = 1
    call describe_whole(field, described(1), axes, owned)
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_depth_refill_field(depth=depth, field=described(1), stat=stat)
  end subroutine

  subroutine gr_halo_depth_refill_complex32(depth, field, axes, owned, parity, kind, stat)
    type(gr_halo_depth), intent(inout) :: depth
    complex(c_float_complex), GR_WHOLE, target, intent(inout) :: field
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 1)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [1])
    n = 1
    call describe_whole(field, described(1), axes, owned)
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_depth_refill_field(depth=depth, field=described(1), stat=stat)
  end subroutine

  subroutine gr_halo_depth_refill_complex64(depth, field, axes, owned, parity, kind, stat)
    type(gr_halo_depth), intent(inout) :: depth
    complex(c_double_complex), GR_WHOLE, target, intent(inout) :: field
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 1)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [1])
    n = 1
    call describe_whole(field, described(1), axes, owned)
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_depth_refill_field(depth=depth, field=described(1), stat=stat)
  end subroutine

  subroutine gr_halo_depth_refill_bool(depth, field, axes, owned, parity, kind, stat)
    type(gr_halo_depth), intent(inout) :: depth
    logical(c_bool), GR_WHOLE, target, intent(inout) :: field
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 1)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [1])
    n = 1
    call describe_whole(field, described(1), axes, owned)
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_depth_refill_field(depth=depth, field=described(1), stat=stat)
  end subroutine

  subroutine gr_halo_depth_refill_logical(depth, field, axes, owned, parity, kind, stat)
    type(gr_halo_depth), intent(inout) :: depth
    logical, GR_WHOLE, target, intent(inout) :: field
    integer, intent(in), optional :: axes(:), owned(:)
    integer, intent(in), optional :: parity(..), kind(..)
    integer, intent(out), optional :: stat
    integer(c_int64_t), target :: memory(FIELD_WORDS, 1)
    type(gr_field), pointer, contiguous :: described(:)
    integer :: n
    call c_f_pointer(c_loc(memory), described, [1])
    n = 1
    call describe_whole(field, described(1), axes, owned)
    call set_options(described(:n), parity, kind)
    call gr_fortran_arrays()
    call gr_halo_depth_refill_field(depth=depth, field=described(1), stat=stat)
  end subroutine

  !> Plans movements of fields from one layout to another. Collective.
  !>
  !> Each rank passes fields on its box of `from` and gets them on its box of `to`, of any type that the values convert
  !> to. Where `to` has several blocks per rank (`gr_layout_create_blocks`), fields on it have all of them, and
  !> `gr_repartition_apply_inverse` moves fields from the blocks, without change of the cells of no block.
  subroutine gr_repartition_create(comm, from, to, options, plan, stat, name)
    type(gr_comm), intent(in) :: comm
    type(gr_layout), intent(in) :: from
    type(gr_layout), intent(in) :: to
    type(gr_repartition_options), intent(in), optional :: options
    type(gr_repartition), intent(inout) :: plan
    integer, intent(out), optional :: stat
    character(*), intent(in), optional :: name
    type(c_ptr) :: comm_c
    type(c_ptr) :: from_c
    type(c_ptr) :: to_c
    type(gr_repartition_options), target :: options_c
    type(c_ptr), target :: plan_c
    character(:, c_char), allocatable, target :: name_c
    type(c_ptr) :: options_p
    integer(c_int) :: status
    comm_c = comm%handle
    from_c = from%handle
    to_c = to%handle
    if (present(options)) then
    options_c = in_c_order(options)
    options_c%size = c_sizeof(options_c)
    end if
    plan_c = plan%handle
    options_p = c_null_ptr
    if (present(options)) options_p = c_loc(options_c)
    if (present(name)) then
      name_c = trim(name) // c_null_char
      status = c_gr_plan_name(c_loc(name_c))
    end if
    call gr_fortran_call('' // c_null_char)
    status = c_gr_repartition_create(comm_c, from_c, to_c, options_p, c_loc(plan_c))
    plan%handle = plan_c
    call ended(status, stat)
  end subroutine

  !> The same to any boxes on each rank, which may overlap and need not cover the grid. Collective.
  subroutine gr_repartition_create_boxes(comm, from, lower, upper, options, plan, stat, name)
    type(gr_comm), intent(in) :: comm
    type(gr_layout), intent(in) :: from
    integer, intent(in) :: lower(:, :)
    integer, intent(in) :: upper(:, :)
    type(gr_repartition_options), intent(in), optional :: options
    type(gr_repartition), intent(inout) :: plan
    integer, intent(out), optional :: stat
    character(*), intent(in), optional :: name
    type(c_ptr) :: comm_c
    type(c_ptr) :: from_c
    integer(c_int) :: ndim
    integer(c_int) :: num_boxes
    integer(c_int64_t), allocatable, target :: lower_c(:, :)
    integer(c_int64_t), allocatable, target :: upper_c(:, :)
    type(gr_repartition_options), target :: options_c
    type(c_ptr), target :: plan_c
    character(:, c_char), allocatable, target :: name_c
    type(c_ptr) :: options_p
    integer(c_int) :: status
    comm_c = comm%handle
    from_c = from%handle
    ndim = int(size(lower, 1), c_int)
    if (size(upper, 1) /= ndim) then
    call wrong_size('gr_repartition_create_boxes', 'upper', int(size(upper, 1), c_int), ndim, stat)
    return
    end if
    num_boxes = int(size(lower, 2), c_int)
    if (size(upper, 2) /= num_boxes) then
    call wrong_size('gr_repartition_create_boxes', 'upper', int(size(upper, 2), c_int), num_boxes, stat)
    return
    end if
    lower_c = int(lower(ndim:1:-1, :) - 1, c_int64_t)
    upper_c = int(upper(ndim:1:-1, :), c_int64_t)
    if (present(options)) then
    options_c = in_c_order(options)
    options_c%size = c_sizeof(options_c)
    end if
    plan_c = plan%handle
    options_p = c_null_ptr
    if (present(options)) options_p = c_loc(options_c)
    if (present(name)) then
      name_c = trim(name) // c_null_char
      status = c_gr_plan_name(c_loc(name_c))
    end if
    call gr_fortran_call('ndim=size(lower, 1);num_boxes=size(lower, 2);' // c_null_char)
    status = c_gr_repartition_create_boxes(comm_c, from_c, ndim, num_boxes, c_loc(lower_c), c_loc(upper_c), &
        options_p, c_loc(plan_c))
    plan%handle = plan_c
    call ended(status, stat)
  end subroutine

  !> Frees a plan. Calls in flight remain valid.
  subroutine gr_repartition_destroy(plan, stat)
    type(gr_repartition), intent(inout) :: plan
    integer, intent(out), optional :: stat
    type(c_ptr), target :: plan_c
    integer(c_int) :: status
    plan_c = plan%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_repartition_destroy(c_loc(plan_c))
    plan%handle = plan_c
    call ended(status, stat)
  end subroutine

  !> Box that fields on the old layout cover on this rank.
  subroutine gr_repartition_source(plan, lower, upper, stat)
    type(gr_repartition), intent(in) :: plan
    integer, intent(out) :: lower(:)
    integer, intent(out) :: upper(:)
    integer, intent(out), optional :: stat
    type(c_ptr) :: plan_c
    integer(c_int) :: ndim
    integer(c_int64_t), allocatable, target :: lower_c(:)
    integer(c_int64_t), allocatable, target :: upper_c(:)
    integer(c_int) :: status
    plan_c = plan%handle
    ndim = int(size(lower), c_int)
    if (size(upper) /= ndim) then
    call wrong_size('gr_repartition_source', 'upper', int(size(upper), c_int), ndim, stat)
    return
    end if
    allocate(lower_c(size(lower)))
    lower_c = 0
    allocate(upper_c(size(upper)))
    upper_c = 0
    call gr_fortran_call('ndim=size(lower);' // c_null_char)
    status = c_gr_repartition_source(plan_c, ndim, c_loc(lower_c), c_loc(upper_c))
    if (status == 0) lower = int(lower_c(ndim:1:-1) + 1)
    if (status == 0) upper = int(upper_c(ndim:1:-1))
    call ended(status, stat)
  end subroutine

  !> Number of boxes that this rank gets: 1, except for `gr_repartition_create_boxes`.
  subroutine gr_repartition_num_targets(plan, num_targets, stat)
    type(gr_repartition), intent(in) :: plan
    integer, intent(out) :: num_targets
    integer, intent(out), optional :: stat
    type(c_ptr) :: plan_c
    integer(c_int), target :: num_targets_c
    integer(c_int) :: status
    plan_c = plan%handle
    num_targets_c = 0
    call gr_fortran_call('' // c_null_char)
    status = c_gr_repartition_num_targets(plan_c, c_loc(num_targets_c))
    if (status == 0) num_targets = num_targets_c
    call ended(status, stat)
  end subroutine

  !> Box that fields on the new layout cover on this rank.
  subroutine gr_repartition_target(plan, target, lower, upper, stat)
    type(gr_repartition), intent(in) :: plan
    integer, intent(in) :: target
    integer, intent(out) :: lower(:)
    integer, intent(out) :: upper(:)
    integer, intent(out), optional :: stat
    type(c_ptr) :: plan_c
    integer(c_int) :: target_c
    integer(c_int) :: ndim
    integer(c_int64_t), allocatable, target :: lower_c(:)
    integer(c_int64_t), allocatable, target :: upper_c(:)
    integer(c_int) :: status
    plan_c = plan%handle
    target_c = int(target - 1, c_int)
    ndim = int(size(lower), c_int)
    if (size(upper) /= ndim) then
    call wrong_size('gr_repartition_target', 'upper', int(size(upper), c_int), ndim, stat)
    return
    end if
    allocate(lower_c(size(lower)))
    lower_c = 0
    allocate(upper_c(size(upper)))
    upper_c = 0
    call gr_fortran_call('ndim=size(lower);' // c_null_char)
    status = c_gr_repartition_target(plan_c, target_c, ndim, c_loc(lower_c), c_loc(upper_c))
    if (status == 0) lower = int(lower_c(ndim:1:-1) + 1)
    if (status == 0) upper = int(upper_c(ndim:1:-1))
    call ended(status, stat)
  end subroutine

  !> Moves fields: `to = alpha * from + beta * to`. Collective.
  !>
  !> `to` has the targets of the first field, then those of the second, and so on.
  subroutine gr_repartition_apply_list(plan, from, to, updates, stat)
    type(gr_repartition), intent(in) :: plan
    type(gr_field), intent(in), target, contiguous :: from(:)
    type(gr_field), intent(in), target, contiguous :: to(:)
    type(gr_update), intent(in), optional :: updates(:)
    integer, intent(out), optional :: stat
    type(c_ptr) :: plan_c
    integer(c_int) :: num_from
    integer(c_int) :: num_to
    type(gr_update), allocatable, target :: updates_c(:)
    type(c_ptr) :: updates_p
    integer(c_int) :: status
    plan_c = plan%handle
    num_from = int(size(from), c_int)
    if (present(updates)) then
    if (size(updates) /= num_from) then
    call wrong_size('gr_repartition_apply', 'updates', int(size(updates), c_int), num_from, stat)
    return
    end if
    end if
    num_to = int(size(to), c_int)
    if (present(updates)) then
    updates_c = updates
    updates_c%size = c_sizeof(updates_c(1))
    end if
    updates_p = c_null_ptr
    if (present(updates)) updates_p = c_loc(updates_c)
    call gr_fortran_call('num_from=size(from);num_to=size(to);' // c_null_char)
    status = c_gr_repartition_apply(plan_c, num_from, c_loc(from), num_to, c_loc(to), updates_p)
    call ended(status, stat)
  end subroutine

  subroutine gr_repartition_apply_one(plan, from, to, updates, stat)
    type(gr_repartition), intent(in) :: plan
    type(gr_field), intent(in) :: from
    type(gr_field), intent(in) :: to
    type(gr_update), intent(in), optional, target :: updates
    integer, intent(out), optional :: stat
    type(gr_field), pointer, contiguous :: from_list(:)
    type(gr_field), pointer, contiguous :: to_list(:)
    call c_f_pointer(address_of(from), from_list, [1])
    call c_f_pointer(address_of(to), to_list, [1])
    if (present(updates)) then
    call gr_repartition_apply_list(plan=plan, from=from_list, to=to_list, updates=[updates], stat=stat)
    else
    call gr_repartition_apply_list(plan=plan, from=from_list, to=to_list, stat=stat)
    end if
  end subroutine

  subroutine gr_repartition_apply_int8(plan, from, to, updates, stat)
    type(gr_repartition), intent(in) :: plan
    integer(c_int8_t), GR_WHOLE, target, intent(in) :: from
    integer(c_int8_t), GR_WHOLE, target, intent(inout) :: to
    type(gr_update), intent(in), optional :: updates
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_apply_one(plan=plan, from=from_field, to=to_field, updates=updates, stat=stat)
  end subroutine

  subroutine gr_repartition_apply_int16(plan, from, to, updates, stat)
    type(gr_repartition), intent(in) :: plan
    integer(c_int16_t), GR_WHOLE, target, intent(in) :: from
    integer(c_int16_t), GR_WHOLE, target, intent(inout) :: to
    type(gr_update), intent(in), optional :: updates
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_apply_one(plan=plan, from=from_field, to=to_field, updates=updates, stat=stat)
  end subroutine

  subroutine gr_repartition_apply_int32(plan, from, to, updates, stat)
    type(gr_repartition), intent(in) :: plan
    integer(c_int32_t), GR_WHOLE, target, intent(in) :: from
    integer(c_int32_t), GR_WHOLE, target, intent(inout) :: to
    type(gr_update), intent(in), optional :: updates
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_apply_one(plan=plan, from=from_field, to=to_field, updates=updates, stat=stat)
  end subroutine

  subroutine gr_repartition_apply_int64(plan, from, to, updates, stat)
    type(gr_repartition), intent(in) :: plan
    integer(c_int64_t), GR_WHOLE, target, intent(in) :: from
    integer(c_int64_t), GR_WHOLE, target, intent(inout) :: to
    type(gr_update), intent(in), optional :: updates
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_apply_one(plan=plan, from=from_field, to=to_field, updates=updates, stat=stat)
  end subroutine

  subroutine gr_repartition_apply_real32(plan, from, to, updates, stat)
    type(gr_repartition), intent(in) :: plan
    real(c_float), GR_WHOLE, target, intent(in) :: from
    real(c_float), GR_WHOLE, target, intent(inout) :: to
    type(gr_update), intent(in), optional :: updates
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_apply_one(plan=plan, from=from_field, to=to_field, updates=updates, stat=stat)
  end subroutine

  subroutine gr_repartition_apply_real64(plan, from, to, updates, stat)
    type(gr_repartition), intent(in) :: plan
    real(c_double), GR_WHOLE, target, intent(in) :: from
    real(c_double), GR_WHOLE, target, intent(inout) :: to
    type(gr_update), intent(in), optional :: updates
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_apply_one(plan=plan, from=from_field, to=to_field, updates=updates, stat=stat)
  end subroutine

  subroutine gr_repartition_apply_complex32(plan, from, to, updates, stat)
    type(gr_repartition), intent(in) :: plan
    complex(c_float_complex), GR_WHOLE, target, intent(in) :: from
    complex(c_float_complex), GR_WHOLE, target, intent(inout) :: to
    type(gr_update), intent(in), optional :: updates
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_apply_one(plan=plan, from=from_field, to=to_field, updates=updates, stat=stat)
  end subroutine

  subroutine gr_repartition_apply_complex64(plan, from, to, updates, stat)
    type(gr_repartition), intent(in) :: plan
    complex(c_double_complex), GR_WHOLE, target, intent(in) :: from
    complex(c_double_complex), GR_WHOLE, target, intent(inout) :: to
    type(gr_update), intent(in), optional :: updates
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_apply_one(plan=plan, from=from_field, to=to_field, updates=updates, stat=stat)
  end subroutine

  subroutine gr_repartition_apply_bool(plan, from, to, updates, stat)
    type(gr_repartition), intent(in) :: plan
    logical(c_bool), GR_WHOLE, target, intent(in) :: from
    logical(c_bool), GR_WHOLE, target, intent(inout) :: to
    type(gr_update), intent(in), optional :: updates
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_apply_one(plan=plan, from=from_field, to=to_field, updates=updates, stat=stat)
  end subroutine

  subroutine gr_repartition_apply_logical(plan, from, to, updates, stat)
    type(gr_repartition), intent(in) :: plan
    logical, GR_WHOLE, target, intent(in) :: from
    logical, GR_WHOLE, target, intent(inout) :: to
    type(gr_update), intent(in), optional :: updates
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_apply_one(plan=plan, from=from_field, to=to_field, updates=updates, stat=stat)
  end subroutine

  !> Starts a movement: `from` may be changed, and `to` used, after `gr_finish`. Collective.
  subroutine gr_repartition_start_list(plan, from, to, updates, pending, stat)
    type(gr_repartition), intent(in) :: plan
    type(gr_field), intent(in), target, contiguous :: from(:)
    type(gr_field), intent(in), target, contiguous :: to(:)
    type(gr_update), intent(in), optional :: updates(:)
    type(gr_pending), intent(inout) :: pending
    integer, intent(out), optional :: stat
    type(c_ptr) :: plan_c
    integer(c_int) :: num_from
    integer(c_int) :: num_to
    type(gr_update), allocatable, target :: updates_c(:)
    type(c_ptr), target :: pending_c
    type(c_ptr) :: updates_p
    integer(c_int) :: status
    plan_c = plan%handle
    num_from = int(size(from), c_int)
    if (present(updates)) then
    if (size(updates) /= num_from) then
    call wrong_size('gr_repartition_start', 'updates', int(size(updates), c_int), num_from, stat)
    return
    end if
    end if
    num_to = int(size(to), c_int)
    if (present(updates)) then
    updates_c = updates
    updates_c%size = c_sizeof(updates_c(1))
    end if
    pending_c = pending%handle
    updates_p = c_null_ptr
    if (present(updates)) updates_p = c_loc(updates_c)
    call gr_fortran_call('num_from=size(from);num_to=size(to);' // c_null_char)
    status = c_gr_repartition_start(plan_c, num_from, c_loc(from), num_to, c_loc(to), updates_p, c_loc(pending_c))
    pending%handle = pending_c
    call ended(status, stat)
  end subroutine

  subroutine gr_repartition_start_one(plan, from, to, updates, pending, stat)
    type(gr_repartition), intent(in) :: plan
    type(gr_field), intent(in) :: from
    type(gr_field), intent(in) :: to
    type(gr_update), intent(in), optional, target :: updates
    type(gr_pending), intent(inout) :: pending
    integer, intent(out), optional :: stat
    type(gr_field), pointer, contiguous :: from_list(:)
    type(gr_field), pointer, contiguous :: to_list(:)
    call c_f_pointer(address_of(from), from_list, [1])
    call c_f_pointer(address_of(to), to_list, [1])
    if (present(updates)) then
    call gr_repartition_start_list(plan=plan, from=from_list, to=to_list, updates=[updates], pending=pending, &
        stat=stat)
    else
    call gr_repartition_start_list(plan=plan, from=from_list, to=to_list, pending=pending, stat=stat)
    end if
  end subroutine

  !> The transposed movement: `from = conj(alpha) * sum of the images + beta * from`, beta being 1 by default.
  !> Collective.
  subroutine gr_repartition_apply_adjoint_list(plan, from, to, updates, stat)
    type(gr_repartition), intent(in) :: plan
    type(gr_field), intent(in), target, contiguous :: from(:)
    type(gr_field), intent(in), target, contiguous :: to(:)
    type(gr_update), intent(in), optional :: updates(:)
    integer, intent(out), optional :: stat
    type(c_ptr) :: plan_c
    integer(c_int) :: num_from
    integer(c_int) :: num_to
    type(gr_update), allocatable, target :: updates_c(:)
    type(c_ptr) :: updates_p
    integer(c_int) :: status
    plan_c = plan%handle
    num_from = int(size(from), c_int)
    if (present(updates)) then
    if (size(updates) /= num_from) then
    call wrong_size('gr_repartition_apply_adjoint', 'updates', int(size(updates), c_int), num_from, stat)
    return
    end if
    end if
    num_to = int(size(to), c_int)
    if (present(updates)) then
    updates_c = updates
    updates_c%size = c_sizeof(updates_c(1))
    end if
    updates_p = c_null_ptr
    if (present(updates)) updates_p = c_loc(updates_c)
    call gr_fortran_call('num_from=size(from);num_to=size(to);' // c_null_char)
    status = c_gr_repartition_apply_adjoint(plan_c, num_from, c_loc(from), num_to, c_loc(to), updates_p)
    call ended(status, stat)
  end subroutine

  subroutine gr_repartition_apply_adjoint_one(plan, from, to, updates, stat)
    type(gr_repartition), intent(in) :: plan
    type(gr_field), intent(in) :: from
    type(gr_field), intent(in) :: to
    type(gr_update), intent(in), optional, target :: updates
    integer, intent(out), optional :: stat
    type(gr_field), pointer, contiguous :: from_list(:)
    type(gr_field), pointer, contiguous :: to_list(:)
    call c_f_pointer(address_of(from), from_list, [1])
    call c_f_pointer(address_of(to), to_list, [1])
    if (present(updates)) then
    call gr_repartition_apply_adjoint_list(plan=plan, from=from_list, to=to_list, updates=[updates], stat=stat)
    else
    call gr_repartition_apply_adjoint_list(plan=plan, from=from_list, to=to_list, stat=stat)
    end if
  end subroutine

  subroutine gr_repartition_apply_adjoint_int8(plan, from, to, updates, stat)
    type(gr_repartition), intent(in) :: plan
    integer(c_int8_t), GR_WHOLE, target, intent(inout) :: from
    integer(c_int8_t), GR_WHOLE, target, intent(in) :: to
    type(gr_update), intent(in), optional :: updates
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_apply_adjoint_one(plan=plan, from=from_field, to=to_field, updates=updates, stat=stat)
  end subroutine

  subroutine gr_repartition_apply_adjoint_int16(plan, from, to, updates, stat)
    type(gr_repartition), intent(in) :: plan
    integer(c_int16_t), GR_WHOLE, target, intent(inout) :: from
    integer(c_int16_t), GR_WHOLE, target, intent(in) :: to
    type(gr_update), intent(in), optional :: updates
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_apply_adjoint_one(plan=plan, from=from_field, to=to_field, updates=updates, stat=stat)
  end subroutine

  subroutine gr_repartition_apply_adjoint_int32(plan, from, to, updates, stat)
    type(gr_repartition), intent(in) :: plan
    integer(c_int32_t), GR_WHOLE, target, intent(inout) :: from
    integer(c_int32_t), GR_WHOLE, target, intent(in) :: to
    type(gr_update), intent(in), optional :: updates
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_apply_adjoint_one(plan=plan, from=from_field, to=to_field, updates=updates, stat=stat)
  end subroutine

  subroutine gr_repartition_apply_adjoint_int64(plan, from, to, updates, stat)
    type(gr_repartition), intent(in) :: plan
    integer(c_int64_t), GR_WHOLE, target, intent(inout) :: from
    integer(c_int64_t), GR_WHOLE, target, intent(in) :: to
    type(gr_update), intent(in), optional :: updates
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_apply_adjoint_one(plan=plan, from=from_field, to=to_field, updates=updates, stat=stat)
  end subroutine

  subroutine gr_repartition_apply_adjoint_real32(plan, from, to, updates, stat)
    type(gr_repartition), intent(in) :: plan
    real(c_float), GR_WHOLE, target, intent(inout) :: from
    real(c_float), GR_WHOLE, target, intent(in) :: to
    type(gr_update), intent(in), optional :: updates
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_apply_adjoint_one(plan=plan, from=from_field, to=to_field, updates=updates, stat=stat)
  end subroutine

  subroutine gr_repartition_apply_adjoint_real64(plan, from, to, updates, stat)
    type(gr_repartition), intent(in) :: plan
    real(c_double), GR_WHOLE, target, intent(inout) :: from
    real(c_double), GR_WHOLE, target, intent(in) :: to
    type(gr_update), intent(in), optional :: updates
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_apply_adjoint_one(plan=plan, from=from_field, to=to_field, updates=updates, stat=stat)
  end subroutine

  subroutine gr_repartition_apply_adjoint_complex32(plan, from, to, updates, stat)
    type(gr_repartition), intent(in) :: plan
    complex(c_float_complex), GR_WHOLE, target, intent(inout) :: from
    complex(c_float_complex), GR_WHOLE, target, intent(in) :: to
    type(gr_update), intent(in), optional :: updates
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_apply_adjoint_one(plan=plan, from=from_field, to=to_field, updates=updates, stat=stat)
  end subroutine

  subroutine gr_repartition_apply_adjoint_complex64(plan, from, to, updates, stat)
    type(gr_repartition), intent(in) :: plan
    complex(c_double_complex), GR_WHOLE, target, intent(inout) :: from
    complex(c_double_complex), GR_WHOLE, target, intent(in) :: to
    type(gr_update), intent(in), optional :: updates
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_apply_adjoint_one(plan=plan, from=from_field, to=to_field, updates=updates, stat=stat)
  end subroutine

  subroutine gr_repartition_apply_adjoint_bool(plan, from, to, updates, stat)
    type(gr_repartition), intent(in) :: plan
    logical(c_bool), GR_WHOLE, target, intent(inout) :: from
    logical(c_bool), GR_WHOLE, target, intent(in) :: to
    type(gr_update), intent(in), optional :: updates
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_apply_adjoint_one(plan=plan, from=from_field, to=to_field, updates=updates, stat=stat)
  end subroutine

  subroutine gr_repartition_apply_adjoint_logical(plan, from, to, updates, stat)
    type(gr_repartition), intent(in) :: plan
    logical, GR_WHOLE, target, intent(inout) :: from
    logical, GR_WHOLE, target, intent(in) :: to
    type(gr_update), intent(in), optional :: updates
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_apply_adjoint_one(plan=plan, from=from_field, to=to_field, updates=updates, stat=stat)
  end subroutine

  !> Starts a transposed movement. Collective.
  subroutine gr_repartition_start_adjoint_list(plan, from, to, updates, pending, stat)
    type(gr_repartition), intent(in) :: plan
    type(gr_field), intent(in), target, contiguous :: from(:)
    type(gr_field), intent(in), target, contiguous :: to(:)
    type(gr_update), intent(in), optional :: updates(:)
    type(gr_pending), intent(inout) :: pending
    integer, intent(out), optional :: stat
    type(c_ptr) :: plan_c
    integer(c_int) :: num_from
    integer(c_int) :: num_to
    type(gr_update), allocatable, target :: updates_c(:)
    type(c_ptr), target :: pending_c
    type(c_ptr) :: updates_p
    integer(c_int) :: status
    plan_c = plan%handle
    num_from = int(size(from), c_int)
    if (present(updates)) then
    if (size(updates) /= num_from) then
    call wrong_size('gr_repartition_start_adjoint', 'updates', int(size(updates), c_int), num_from, stat)
    return
    end if
    end if
    num_to = int(size(to), c_int)
    if (present(updates)) then
    updates_c = updates
    updates_c%size = c_sizeof(updates_c(1))
    end if
    pending_c = pending%handle
    updates_p = c_null_ptr
    if (present(updates)) updates_p = c_loc(updates_c)
    call gr_fortran_call('num_from=size(from);num_to=size(to);' // c_null_char)
    status = c_gr_repartition_start_adjoint(plan_c, num_from, c_loc(from), num_to, c_loc(to), updates_p, &
        c_loc(pending_c))
    pending%handle = pending_c
    call ended(status, stat)
  end subroutine

  subroutine gr_repartition_start_adjoint_one(plan, from, to, updates, pending, stat)
    type(gr_repartition), intent(in) :: plan
    type(gr_field), intent(in) :: from
    type(gr_field), intent(in) :: to
    type(gr_update), intent(in), optional, target :: updates
    type(gr_pending), intent(inout) :: pending
    integer, intent(out), optional :: stat
    type(gr_field), pointer, contiguous :: from_list(:)
    type(gr_field), pointer, contiguous :: to_list(:)
    call c_f_pointer(address_of(from), from_list, [1])
    call c_f_pointer(address_of(to), to_list, [1])
    if (present(updates)) then
    call gr_repartition_start_adjoint_list(plan=plan, from=from_list, to=to_list, updates=[updates], &
        pending=pending, stat=stat)
    else
    call gr_repartition_start_adjoint_list(plan=plan, from=from_list, to=to_list, pending=pending, stat=stat)
    end if
  end subroutine

  !> The reverse movement: `from = alpha * to + beta * from` where a cell has an image. Collective.
  subroutine gr_repartition_apply_inverse_list(plan, from, to, updates, stat)
    type(gr_repartition), intent(in) :: plan
    type(gr_field), intent(in), target, contiguous :: from(:)
    type(gr_field), intent(in), target, contiguous :: to(:)
    type(gr_update), intent(in), optional :: updates(:)
    integer, intent(out), optional :: stat
    type(c_ptr) :: plan_c
    integer(c_int) :: num_from
    integer(c_int) :: num_to
    type(gr_update), allocatable, target :: updates_c(:)
    type(c_ptr) :: updates_p
    integer(c_int) :: status
    plan_c = plan%handle
    num_from = int(size(from), c_int)
    if (present(updates)) then
    if (size(updates) /= num_from) then
    call wrong_size('gr_repartition_apply_inverse', 'updates', int(size(updates), c_int), num_from, stat)
    return
    end if
    end if
    num_to = int(size(to), c_int)
    if (present(updates)) then
    updates_c = updates
    updates_c%size = c_sizeof(updates_c(1))
    end if
    updates_p = c_null_ptr
    if (present(updates)) updates_p = c_loc(updates_c)
    call gr_fortran_call('num_from=size(from);num_to=size(to);' // c_null_char)
    status = c_gr_repartition_apply_inverse(plan_c, num_from, c_loc(from), num_to, c_loc(to), updates_p)
    call ended(status, stat)
  end subroutine

  subroutine gr_repartition_apply_inverse_one(plan, from, to, updates, stat)
    type(gr_repartition), intent(in) :: plan
    type(gr_field), intent(in) :: from
    type(gr_field), intent(in) :: to
    type(gr_update), intent(in), optional, target :: updates
    integer, intent(out), optional :: stat
    type(gr_field), pointer, contiguous :: from_list(:)
    type(gr_field), pointer, contiguous :: to_list(:)
    call c_f_pointer(address_of(from), from_list, [1])
    call c_f_pointer(address_of(to), to_list, [1])
    if (present(updates)) then
    call gr_repartition_apply_inverse_list(plan=plan, from=from_list, to=to_list, updates=[updates], stat=stat)
    else
    call gr_repartition_apply_inverse_list(plan=plan, from=from_list, to=to_list, stat=stat)
    end if
  end subroutine

  subroutine gr_repartition_apply_inverse_int8(plan, from, to, updates, stat)
    type(gr_repartition), intent(in) :: plan
    integer(c_int8_t), GR_WHOLE, target, intent(inout) :: from
    integer(c_int8_t), GR_WHOLE, target, intent(in) :: to
    type(gr_update), intent(in), optional :: updates
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_apply_inverse_one(plan=plan, from=from_field, to=to_field, updates=updates, stat=stat)
  end subroutine

  subroutine gr_repartition_apply_inverse_int16(plan, from, to, updates, stat)
    type(gr_repartition), intent(in) :: plan
    integer(c_int16_t), GR_WHOLE, target, intent(inout) :: from
    integer(c_int16_t), GR_WHOLE, target, intent(in) :: to
    type(gr_update), intent(in), optional :: updates
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_apply_inverse_one(plan=plan, from=from_field, to=to_field, updates=updates, stat=stat)
  end subroutine

  subroutine gr_repartition_apply_inverse_int32(plan, from, to, updates, stat)
    type(gr_repartition), intent(in) :: plan
    integer(c_int32_t), GR_WHOLE, target, intent(inout) :: from
    integer(c_int32_t), GR_WHOLE, target, intent(in) :: to
    type(gr_update), intent(in), optional :: updates
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_apply_inverse_one(plan=plan, from=from_field, to=to_field, updates=updates, stat=stat)
  end subroutine

  subroutine gr_repartition_apply_inverse_int64(plan, from, to, updates, stat)
    type(gr_repartition), intent(in) :: plan
    integer(c_int64_t), GR_WHOLE, target, intent(inout) :: from
    integer(c_int64_t), GR_WHOLE, target, intent(in) :: to
    type(gr_update), intent(in), optional :: updates
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_apply_inverse_one(plan=plan, from=from_field, to=to_field, updates=updates, stat=stat)
  end subroutine

  subroutine gr_repartition_apply_inverse_real32(plan, from, to, updates, stat)
    type(gr_repartition), intent(in) :: plan
    real(c_float), GR_WHOLE, target, intent(inout) :: from
    real(c_float), GR_WHOLE, target, intent(in) :: to
    type(gr_update), intent(in), optional :: updates
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_apply_inverse_one(plan=plan, from=from_field, to=to_field, updates=updates, stat=stat)
  end subroutine

  subroutine gr_repartition_apply_inverse_real64(plan, from, to, updates, stat)
    type(gr_repartition), intent(in) :: plan
    real(c_double), GR_WHOLE, target, intent(inout) :: from
    real(c_double), GR_WHOLE, target, intent(in) :: to
    type(gr_update), intent(in), optional :: updates
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_apply_inverse_one(plan=plan, from=from_field, to=to_field, updates=updates, stat=stat)
  end subroutine

  subroutine gr_repartition_apply_inverse_complex32(plan, from, to, updates, stat)
    type(gr_repartition), intent(in) :: plan
    complex(c_float_complex), GR_WHOLE, target, intent(inout) :: from
    complex(c_float_complex), GR_WHOLE, target, intent(in) :: to
    type(gr_update), intent(in), optional :: updates
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_apply_inverse_one(plan=plan, from=from_field, to=to_field, updates=updates, stat=stat)
  end subroutine

  subroutine gr_repartition_apply_inverse_complex64(plan, from, to, updates, stat)
    type(gr_repartition), intent(in) :: plan
    complex(c_double_complex), GR_WHOLE, target, intent(inout) :: from
    complex(c_double_complex), GR_WHOLE, target, intent(in) :: to
    type(gr_update), intent(in), optional :: updates
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_apply_inverse_one(plan=plan, from=from_field, to=to_field, updates=updates, stat=stat)
  end subroutine

  subroutine gr_repartition_apply_inverse_bool(plan, from, to, updates, stat)
    type(gr_repartition), intent(in) :: plan
    logical(c_bool), GR_WHOLE, target, intent(inout) :: from
    logical(c_bool), GR_WHOLE, target, intent(in) :: to
    type(gr_update), intent(in), optional :: updates
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_apply_inverse_one(plan=plan, from=from_field, to=to_field, updates=updates, stat=stat)
  end subroutine

  subroutine gr_repartition_apply_inverse_logical(plan, from, to, updates, stat)
    type(gr_repartition), intent(in) :: plan
    logical, GR_WHOLE, target, intent(inout) :: from
    logical, GR_WHOLE, target, intent(in) :: to
    type(gr_update), intent(in), optional :: updates
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_apply_inverse_one(plan=plan, from=from_field, to=to_field, updates=updates, stat=stat)
  end subroutine

  !> Starts a reverse movement. Collective.
  subroutine gr_repartition_start_inverse_list(plan, from, to, updates, pending, stat)
    type(gr_repartition), intent(in) :: plan
    type(gr_field), intent(in), target, contiguous :: from(:)
    type(gr_field), intent(in), target, contiguous :: to(:)
    type(gr_update), intent(in), optional :: updates(:)
    type(gr_pending), intent(inout) :: pending
    integer, intent(out), optional :: stat
    type(c_ptr) :: plan_c
    integer(c_int) :: num_from
    integer(c_int) :: num_to
    type(gr_update), allocatable, target :: updates_c(:)
    type(c_ptr), target :: pending_c
    type(c_ptr) :: updates_p
    integer(c_int) :: status
    plan_c = plan%handle
    num_from = int(size(from), c_int)
    if (present(updates)) then
    if (size(updates) /= num_from) then
    call wrong_size('gr_repartition_start_inverse', 'updates', int(size(updates), c_int), num_from, stat)
    return
    end if
    end if
    num_to = int(size(to), c_int)
    if (present(updates)) then
    updates_c = updates
    updates_c%size = c_sizeof(updates_c(1))
    end if
    pending_c = pending%handle
    updates_p = c_null_ptr
    if (present(updates)) updates_p = c_loc(updates_c)
    call gr_fortran_call('num_from=size(from);num_to=size(to);' // c_null_char)
    status = c_gr_repartition_start_inverse(plan_c, num_from, c_loc(from), num_to, c_loc(to), updates_p, &
        c_loc(pending_c))
    pending%handle = pending_c
    call ended(status, stat)
  end subroutine

  subroutine gr_repartition_start_inverse_one(plan, from, to, updates, pending, stat)
    type(gr_repartition), intent(in) :: plan
    type(gr_field), intent(in) :: from
    type(gr_field), intent(in) :: to
    type(gr_update), intent(in), optional, target :: updates
    type(gr_pending), intent(inout) :: pending
    integer, intent(out), optional :: stat
    type(gr_field), pointer, contiguous :: from_list(:)
    type(gr_field), pointer, contiguous :: to_list(:)
    call c_f_pointer(address_of(from), from_list, [1])
    call c_f_pointer(address_of(to), to_list, [1])
    if (present(updates)) then
    call gr_repartition_start_inverse_list(plan=plan, from=from_list, to=to_list, updates=[updates], &
        pending=pending, stat=stat)
    else
    call gr_repartition_start_inverse_list(plan=plan, from=from_list, to=to_list, pending=pending, stat=stat)
    end if
  end subroutine

  !> Sets the transport of later calls; the same on all ranks, between the same calls.
  subroutine gr_repartition_set_transport(plan, transport, stat)
    type(gr_repartition), intent(inout) :: plan
    integer, intent(in) :: transport
    integer, intent(out), optional :: stat
    type(c_ptr) :: plan_c
    integer(c_int) :: transport_c
    integer(c_int) :: status
    plan_c = plan%handle
    transport_c = int(transport, c_int)
    call gr_fortran_call('' // c_null_char)
    status = c_gr_repartition_set_transport(plan_c, transport_c)
    call ended(status, stat)
  end subroutine

  !> Measures the transports with these fields, one target each, and selects the fastest. Collective; no call in flight.
  subroutine gr_repartition_tune_list(plan, from, to, num_calls, chosen, stat)
    type(gr_repartition), intent(inout) :: plan
    type(gr_field), intent(in), target, contiguous :: from(:)
    type(gr_field), intent(in), target, contiguous :: to(:)
    integer, intent(in) :: num_calls
    integer, intent(out) :: chosen
    integer, intent(out), optional :: stat
    type(c_ptr) :: plan_c
    integer(c_int) :: num_from
    integer(c_int) :: num_to
    integer(c_int) :: num_calls_c
    integer(c_int), target :: chosen_c
    integer(c_int) :: status
    plan_c = plan%handle
    num_from = int(size(from), c_int)
    num_to = int(size(to), c_int)
    num_calls_c = int(num_calls, c_int)
    chosen_c = 0
    call gr_fortran_call('num_from=size(from);num_to=size(to);' // c_null_char)
    status = c_gr_repartition_tune(plan_c, num_from, c_loc(from), num_to, c_loc(to), num_calls_c, c_loc(chosen_c))
    if (status == 0) chosen = chosen_c
    call ended(status, stat)
  end subroutine

  subroutine gr_repartition_tune_one(plan, from, to, num_calls, chosen, stat)
    type(gr_repartition), intent(inout) :: plan
    type(gr_field), intent(in) :: from
    type(gr_field), intent(in) :: to
    integer, intent(in) :: num_calls
    integer, intent(out) :: chosen
    integer, intent(out), optional :: stat
    type(gr_field), pointer, contiguous :: from_list(:)
    type(gr_field), pointer, contiguous :: to_list(:)
    call c_f_pointer(address_of(from), from_list, [1])
    call c_f_pointer(address_of(to), to_list, [1])
    call gr_repartition_tune_list(plan, from_list, to_list, num_calls, chosen, stat)
  end subroutine

  subroutine gr_repartition_tune_int8(plan, from, to, num_calls, chosen, stat)
    type(gr_repartition), intent(inout) :: plan
    integer(c_int8_t), GR_WHOLE, target, intent(inout) :: from
    integer(c_int8_t), GR_WHOLE, target, intent(inout) :: to
    integer, intent(in) :: num_calls
    integer, intent(out) :: chosen
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_tune_one(plan=plan, from=from_field, to=to_field, num_calls=num_calls, chosen=chosen, &
        stat=stat)
  end subroutine

  subroutine gr_repartition_tune_int16(plan, from, to, num_calls, chosen, stat)
    type(gr_repartition), intent(inout) :: plan
    integer(c_int16_t), GR_WHOLE, target, intent(inout) :: from
    integer(c_int16_t), GR_WHOLE, target, intent(inout) :: to
    integer, intent(in) :: num_calls
    integer, intent(out) :: chosen
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_tune_one(plan=plan, from=from_field, to=to_field, num_calls=num_calls, chosen=chosen, &
        stat=stat)
  end subroutine

  subroutine gr_repartition_tune_int32(plan, from, to, num_calls, chosen, stat)
    type(gr_repartition), intent(inout) :: plan
    integer(c_int32_t), GR_WHOLE, target, intent(inout) :: from
    integer(c_int32_t), GR_WHOLE, target, intent(inout) :: to
    integer, intent(in) :: num_calls
    integer, intent(out) :: chosen
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_tune_one(plan=plan, from=from_field, to=to_field, num_calls=num_calls, chosen=chosen, &
        stat=stat)
  end subroutine

  subroutine gr_repartition_tune_int64(plan, from, to, num_calls, chosen, stat)
    type(gr_repartition), intent(inout) :: plan
    integer(c_int64_t), GR_WHOLE, target, intent(inout) :: from
    integer(c_int64_t), GR_WHOLE, target, intent(inout) :: to
    integer, intent(in) :: num_calls
    integer, intent(out) :: chosen
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_tune_one(plan=plan, from=from_field, to=to_field, num_calls=num_calls, chosen=chosen, &
        stat=stat)
  end subroutine

  subroutine gr_repartition_tune_real32(plan, from, to, num_calls, chosen, stat)
    type(gr_repartition), intent(inout) :: plan
    real(c_float), GR_WHOLE, target, intent(inout) :: from
    real(c_float), GR_WHOLE, target, intent(inout) :: to
    integer, intent(in) :: num_calls
    integer, intent(out) :: chosen
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_tune_one(plan=plan, from=from_field, to=to_field, num_calls=num_calls, chosen=chosen, &
        stat=stat)
  end subroutine

  subroutine gr_repartition_tune_real64(plan, from, to, num_calls, chosen, stat)
    type(gr_repartition), intent(inout) :: plan
    real(c_double), GR_WHOLE, target, intent(inout) :: from
    real(c_double), GR_WHOLE, target, intent(inout) :: to
    integer, intent(in) :: num_calls
    integer, intent(out) :: chosen
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_tune_one(plan=plan, from=from_field, to=to_field, num_calls=num_calls, chosen=chosen, &
        stat=stat)
  end subroutine

  subroutine gr_repartition_tune_complex32(plan, from, to, num_calls, chosen, stat)
    type(gr_repartition), intent(inout) :: plan
    complex(c_float_complex), GR_WHOLE, target, intent(inout) :: from
    complex(c_float_complex), GR_WHOLE, target, intent(inout) :: to
    integer, intent(in) :: num_calls
    integer, intent(out) :: chosen
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_tune_one(plan=plan, from=from_field, to=to_field, num_calls=num_calls, chosen=chosen, &
        stat=stat)
  end subroutine

  subroutine gr_repartition_tune_complex64(plan, from, to, num_calls, chosen, stat)
    type(gr_repartition), intent(inout) :: plan
    complex(c_double_complex), GR_WHOLE, target, intent(inout) :: from
    complex(c_double_complex), GR_WHOLE, target, intent(inout) :: to
    integer, intent(in) :: num_calls
    integer, intent(out) :: chosen
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_tune_one(plan=plan, from=from_field, to=to_field, num_calls=num_calls, chosen=chosen, &
        stat=stat)
  end subroutine

  subroutine gr_repartition_tune_bool(plan, from, to, num_calls, chosen, stat)
    type(gr_repartition), intent(inout) :: plan
    logical(c_bool), GR_WHOLE, target, intent(inout) :: from
    logical(c_bool), GR_WHOLE, target, intent(inout) :: to
    integer, intent(in) :: num_calls
    integer, intent(out) :: chosen
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_tune_one(plan=plan, from=from_field, to=to_field, num_calls=num_calls, chosen=chosen, &
        stat=stat)
  end subroutine

  subroutine gr_repartition_tune_logical(plan, from, to, num_calls, chosen, stat)
    type(gr_repartition), intent(inout) :: plan
    logical, GR_WHOLE, target, intent(inout) :: from
    logical, GR_WHOLE, target, intent(inout) :: to
    integer, intent(in) :: num_calls
    integer, intent(out) :: chosen
    integer, intent(out), optional :: stat
    type(gr_field), target :: from_field
    type(gr_field), target :: to_field
    call describe_whole(from, from_field)
    call describe_whole(to, to_field)
    call gr_fortran_arrays()
    call gr_repartition_tune_one(plan=plan, from=from_field, to=to_field, num_calls=num_calls, chosen=chosen, &
        stat=stat)
  end subroutine

  !> Traffic of a call on this rank.
  subroutine gr_repartition_counts(plan, counts, stat)
    type(gr_repartition), intent(in) :: plan
    type(gr_counts), intent(out) :: counts
    integer, intent(out), optional :: stat
    type(c_ptr) :: plan_c
    type(gr_counts), target :: counts_c
    integer(c_int) :: status
    plan_c = plan%handle
    counts_c%size = c_sizeof(counts_c)
    call gr_fortran_call('' // c_null_char)
    status = c_gr_repartition_counts(plan_c, c_loc(counts_c))
    if (status == 0) counts = counts_c
    call ended(status, stat)
  end subroutine

  !> Traffic and times of the calls so far.
  subroutine gr_repartition_stats(plan, stats, stat)
    type(gr_repartition), intent(in) :: plan
    type(gr_stats), intent(out) :: stats
    integer, intent(out), optional :: stat
    type(c_ptr) :: plan_c
    type(gr_stats), target :: stats_c
    integer(c_int) :: status
    plan_c = plan%handle
    stats_c%size = c_sizeof(stats_c)
    call gr_fortran_call('' // c_null_char)
    status = c_gr_repartition_stats(plan_c, c_loc(stats_c))
    if (status == 0) stats = stats_c
    call ended(status, stat)
  end subroutine

  !> Report for people: the path to each peer with the reason, then traffic and times.
  subroutine gr_repartition_report(plan, text, stat)
    type(gr_repartition), intent(in) :: plan
    character(:), allocatable, intent(out) :: text
    integer, intent(out), optional :: stat
    type(c_ptr) :: plan_c
    type(c_ptr), target :: text_c
    integer(c_int) :: status
    plan_c = plan%handle
    text_c = c_null_ptr
    call gr_fortran_call('' // c_null_char)
    status = c_gr_repartition_report(plan_c, c_loc(text_c))
    if (status == 0) text = text_at(text_c)
    call ended(status, stat)
  end subroutine

  !> Writes the plan as JSON, for `graticule-bench replay`. Collective.
  subroutine gr_repartition_dump(plan, path, stat)
    type(gr_repartition), intent(in) :: plan
    character(*), intent(in) :: path
    integer, intent(out), optional :: stat
    type(c_ptr) :: plan_c
    character(:, c_char), allocatable, target :: path_c
    integer(c_int) :: status
    plan_c = plan%handle
    path_c = trim(path) // c_null_char
    call gr_fortran_call('' // c_null_char)
    status = c_gr_repartition_dump(plan_c, c_loc(path_c))
    call ended(status, stat)
  end subroutine

  !> Plans sums of all cells along one axis, as of all columns of a row. Collective.
  !>
  !> Fields are F32 or F64; cells of F32 in host memory may have sums of F64. Each rank gets the sums of its own rows.
  subroutine gr_zonal_create(comm, layout, axis, summation, scale, lower, upper, zonal, stat, name)
    type(gr_comm), intent(in) :: comm
    type(gr_layout), intent(in) :: layout
    integer, intent(in) :: axis
    integer, intent(in), optional :: summation
    integer, intent(in), optional :: scale
    integer, intent(in), optional :: lower(:)
    integer, intent(in), optional :: upper(:)
    type(gr_zonal), intent(inout) :: zonal
    integer, intent(out), optional :: stat
    character(*), intent(in), optional :: name
    type(c_ptr) :: comm_c
    type(c_ptr) :: layout_c
    integer(c_int) :: axis_c
    integer(c_int) :: summation_c
    integer(c_int) :: scale_c
    integer(c_int) :: ndim
    integer(c_int64_t), allocatable, target :: lower_c(:)
    integer(c_int64_t), allocatable, target :: upper_c(:)
    type(c_ptr), target :: zonal_c
    character(:, c_char), allocatable, target :: name_c
    type(c_ptr) :: lower_p
    type(c_ptr) :: upper_p
    integer(c_int) :: status
    comm_c = comm%handle
    layout_c = layout%handle
    axis_c = int(ndim_of(layout) - axis, c_int)
    summation_c = 0
    if (present(summation)) then
    summation_c = int(summation, c_int)
    end if
    scale_c = 0
    if (present(scale)) then
    scale_c = int(scale, c_int)
    end if
    ndim = 0
    if (present(lower)) ndim = int(size(lower), c_int)
    if (present(upper)) then
    if (size(upper) /= ndim) then
    call wrong_size('gr_zonal_create', 'upper', int(size(upper), c_int), ndim, stat)
    return
    end if
    end if
    if (present(lower)) then
    lower_c = int(lower(ndim:1:-1) - 1, c_int64_t)
    end if
    if (present(upper)) then
    upper_c = int(upper(ndim:1:-1), c_int64_t)
    end if
    zonal_c = zonal%handle
    lower_p = c_null_ptr
    if (present(lower)) lower_p = c_loc(lower_c)
    upper_p = c_null_ptr
    if (present(upper)) upper_p = c_loc(upper_c)
    if (present(name)) then
      name_c = trim(name) // c_null_char
      status = c_gr_plan_name(c_loc(name_c))
    end if
    call gr_fortran_call('ndim=size(lower);' // c_null_char)
    status = c_gr_zonal_create(comm_c, layout_c, axis_c, summation_c, scale_c, ndim, lower_p, upper_p, &
        c_loc(zonal_c))
    zonal%handle = zonal_c
    call ended(status, stat)
  end subroutine

  !> Frees a plan.
  subroutine gr_zonal_destroy(zonal, stat)
    type(gr_zonal), intent(inout) :: zonal
    integer, intent(out), optional :: stat
    type(c_ptr), target :: zonal_c
    integer(c_int) :: status
    zonal_c = zonal%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_zonal_destroy(c_loc(zonal_c))
    zonal%handle = zonal_c
    call ended(status, stat)
  end subroutine

  !> Box that the cells cover: the owned box of this rank.
  subroutine gr_zonal_cells(zonal, lower, upper, stat)
    type(gr_zonal), intent(in) :: zonal
    integer, intent(out) :: lower(:)
    integer, intent(out) :: upper(:)
    integer, intent(out), optional :: stat
    type(c_ptr) :: zonal_c
    integer(c_int) :: ndim
    integer(c_int64_t), allocatable, target :: lower_c(:)
    integer(c_int64_t), allocatable, target :: upper_c(:)
    integer(c_int) :: status
    zonal_c = zonal%handle
    ndim = int(size(lower), c_int)
    if (size(upper) /= ndim) then
    call wrong_size('gr_zonal_cells', 'upper', int(size(upper), c_int), ndim, stat)
    return
    end if
    allocate(lower_c(size(lower)))
    lower_c = 0
    allocate(upper_c(size(upper)))
    upper_c = 0
    call gr_fortran_call('ndim=size(lower);' // c_null_char)
    status = c_gr_zonal_cells(zonal_c, ndim, c_loc(lower_c), c_loc(upper_c))
    if (status == 0) lower = int(lower_c(ndim:1:-1) + 1)
    if (status == 0) upper = int(upper_c(ndim:1:-1))
    call ended(status, stat)
  end subroutine

  !> Box that the sums cover: one cell along the axis, the first.
  subroutine gr_zonal_sums(zonal, lower, upper, stat)
    type(gr_zonal), intent(in) :: zonal
    integer, intent(out) :: lower(:)
    integer, intent(out) :: upper(:)
    integer, intent(out), optional :: stat
    type(c_ptr) :: zonal_c
    integer(c_int) :: ndim
    integer(c_int64_t), allocatable, target :: lower_c(:)
    integer(c_int64_t), allocatable, target :: upper_c(:)
    integer(c_int) :: status
    zonal_c = zonal%handle
    ndim = int(size(lower), c_int)
    if (size(upper) /= ndim) then
    call wrong_size('gr_zonal_sums', 'upper', int(size(upper), c_int), ndim, stat)
    return
    end if
    allocate(lower_c(size(lower)))
    lower_c = 0
    allocate(upper_c(size(upper)))
    upper_c = 0
    call gr_fortran_call('ndim=size(lower);' // c_null_char)
    status = c_gr_zonal_sums(zonal_c, ndim, c_loc(lower_c), c_loc(upper_c))
    if (status == 0) lower = int(lower_c(ndim:1:-1) + 1)
    if (status == 0) upper = int(upper_c(ndim:1:-1))
    call ended(status, stat)
  end subroutine

  !> Writes the sums. Collective.
  subroutine gr_zonal_apply_list(zonal, cells, sums, stat)
    type(gr_zonal), intent(in) :: zonal
    type(gr_field), intent(in), target, contiguous :: cells(:)
    type(gr_field), intent(in), target, contiguous :: sums(:)
    integer, intent(out), optional :: stat
    type(c_ptr) :: zonal_c
    integer(c_int) :: num_fields
    integer(c_int) :: status
    zonal_c = zonal%handle
    num_fields = int(size(cells), c_int)
    if (size(sums) /= num_fields) then
    call wrong_size('gr_zonal_apply', 'sums', int(size(sums), c_int), num_fields, stat)
    return
    end if
    call gr_fortran_call('num_fields=size(cells);' // c_null_char)
    status = c_gr_zonal_apply(zonal_c, num_fields, c_loc(cells), c_loc(sums))
    call ended(status, stat)
  end subroutine

  subroutine gr_zonal_apply_one(zonal, cells, sums, stat)
    type(gr_zonal), intent(in) :: zonal
    type(gr_field), intent(in) :: cells
    type(gr_field), intent(in) :: sums
    integer, intent(out), optional :: stat
    type(gr_field), pointer, contiguous :: cells_list(:)
    type(gr_field), pointer, contiguous :: sums_list(:)
    call c_f_pointer(address_of(cells), cells_list, [1])
    call c_f_pointer(address_of(sums), sums_list, [1])
    call gr_zonal_apply_list(zonal, cells_list, sums_list, stat)
  end subroutine

  subroutine gr_zonal_apply_int8(zonal, cells, sums, stat)
    type(gr_zonal), intent(in) :: zonal
    integer(c_int8_t), GR_WHOLE, target, intent(in) :: cells
    integer(c_int8_t), GR_WHOLE, target, intent(inout) :: sums
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    type(gr_field), target :: sums_field
    call describe_whole(cells, cells_field)
    call describe_whole(sums, sums_field)
    call gr_fortran_arrays()
    call gr_zonal_apply_one(zonal=zonal, cells=cells_field, sums=sums_field, stat=stat)
  end subroutine

  subroutine gr_zonal_apply_int16(zonal, cells, sums, stat)
    type(gr_zonal), intent(in) :: zonal
    integer(c_int16_t), GR_WHOLE, target, intent(in) :: cells
    integer(c_int16_t), GR_WHOLE, target, intent(inout) :: sums
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    type(gr_field), target :: sums_field
    call describe_whole(cells, cells_field)
    call describe_whole(sums, sums_field)
    call gr_fortran_arrays()
    call gr_zonal_apply_one(zonal=zonal, cells=cells_field, sums=sums_field, stat=stat)
  end subroutine

  subroutine gr_zonal_apply_int32(zonal, cells, sums, stat)
    type(gr_zonal), intent(in) :: zonal
    integer(c_int32_t), GR_WHOLE, target, intent(in) :: cells
    integer(c_int32_t), GR_WHOLE, target, intent(inout) :: sums
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    type(gr_field), target :: sums_field
    call describe_whole(cells, cells_field)
    call describe_whole(sums, sums_field)
    call gr_fortran_arrays()
    call gr_zonal_apply_one(zonal=zonal, cells=cells_field, sums=sums_field, stat=stat)
  end subroutine

  subroutine gr_zonal_apply_int64(zonal, cells, sums, stat)
    type(gr_zonal), intent(in) :: zonal
    integer(c_int64_t), GR_WHOLE, target, intent(in) :: cells
    integer(c_int64_t), GR_WHOLE, target, intent(inout) :: sums
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    type(gr_field), target :: sums_field
    call describe_whole(cells, cells_field)
    call describe_whole(sums, sums_field)
    call gr_fortran_arrays()
    call gr_zonal_apply_one(zonal=zonal, cells=cells_field, sums=sums_field, stat=stat)
  end subroutine

  subroutine gr_zonal_apply_real32(zonal, cells, sums, stat)
    type(gr_zonal), intent(in) :: zonal
    real(c_float), GR_WHOLE, target, intent(in) :: cells
    real(c_float), GR_WHOLE, target, intent(inout) :: sums
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    type(gr_field), target :: sums_field
    call describe_whole(cells, cells_field)
    call describe_whole(sums, sums_field)
    call gr_fortran_arrays()
    call gr_zonal_apply_one(zonal=zonal, cells=cells_field, sums=sums_field, stat=stat)
  end subroutine

  subroutine gr_zonal_apply_real64(zonal, cells, sums, stat)
    type(gr_zonal), intent(in) :: zonal
    real(c_double), GR_WHOLE, target, intent(in) :: cells
    real(c_double), GR_WHOLE, target, intent(inout) :: sums
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    type(gr_field), target :: sums_field
    call describe_whole(cells, cells_field)
    call describe_whole(sums, sums_field)
    call gr_fortran_arrays()
    call gr_zonal_apply_one(zonal=zonal, cells=cells_field, sums=sums_field, stat=stat)
  end subroutine

  subroutine gr_zonal_apply_complex32(zonal, cells, sums, stat)
    type(gr_zonal), intent(in) :: zonal
    complex(c_float_complex), GR_WHOLE, target, intent(in) :: cells
    complex(c_float_complex), GR_WHOLE, target, intent(inout) :: sums
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    type(gr_field), target :: sums_field
    call describe_whole(cells, cells_field)
    call describe_whole(sums, sums_field)
    call gr_fortran_arrays()
    call gr_zonal_apply_one(zonal=zonal, cells=cells_field, sums=sums_field, stat=stat)
  end subroutine

  subroutine gr_zonal_apply_complex64(zonal, cells, sums, stat)
    type(gr_zonal), intent(in) :: zonal
    complex(c_double_complex), GR_WHOLE, target, intent(in) :: cells
    complex(c_double_complex), GR_WHOLE, target, intent(inout) :: sums
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    type(gr_field), target :: sums_field
    call describe_whole(cells, cells_field)
    call describe_whole(sums, sums_field)
    call gr_fortran_arrays()
    call gr_zonal_apply_one(zonal=zonal, cells=cells_field, sums=sums_field, stat=stat)
  end subroutine

  subroutine gr_zonal_apply_bool(zonal, cells, sums, stat)
    type(gr_zonal), intent(in) :: zonal
    logical(c_bool), GR_WHOLE, target, intent(in) :: cells
    logical(c_bool), GR_WHOLE, target, intent(inout) :: sums
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    type(gr_field), target :: sums_field
    call describe_whole(cells, cells_field)
    call describe_whole(sums, sums_field)
    call gr_fortran_arrays()
    call gr_zonal_apply_one(zonal=zonal, cells=cells_field, sums=sums_field, stat=stat)
  end subroutine

  subroutine gr_zonal_apply_logical(zonal, cells, sums, stat)
    type(gr_zonal), intent(in) :: zonal
    logical, GR_WHOLE, target, intent(in) :: cells
    logical, GR_WHOLE, target, intent(inout) :: sums
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    type(gr_field), target :: sums_field
    call describe_whole(cells, cells_field)
    call describe_whole(sums, sums_field)
    call gr_fortran_arrays()
    call gr_zonal_apply_one(zonal=zonal, cells=cells_field, sums=sums_field, stat=stat)
  end subroutine

  subroutine gr_zonal_apply_real32_in_real64(zonal, cells, sums, stat)
    type(gr_zonal), intent(in) :: zonal
    real(c_float), GR_WHOLE, target, intent(in) :: cells
    real(c_double), GR_WHOLE, target, intent(inout) :: sums
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    type(gr_field), target :: sums_field
    call describe_whole(cells, cells_field)
    call describe_whole(sums, sums_field)
    call gr_fortran_arrays()
    call gr_zonal_apply_one(zonal=zonal, cells=cells_field, sums=sums_field, stat=stat)
  end subroutine

  !> Adds the cells of this rank and sends the partial sums; the sums are valid after `gr_finish`. Collective.
  subroutine gr_zonal_start_list(zonal, cells, sums, pending, stat)
    type(gr_zonal), intent(in) :: zonal
    type(gr_field), intent(in), target, contiguous :: cells(:)
    type(gr_field), intent(in), target, contiguous :: sums(:)
    type(gr_pending), intent(inout) :: pending
    integer, intent(out), optional :: stat
    type(c_ptr) :: zonal_c
    integer(c_int) :: num_fields
    type(c_ptr), target :: pending_c
    integer(c_int) :: status
    zonal_c = zonal%handle
    num_fields = int(size(cells), c_int)
    if (size(sums) /= num_fields) then
    call wrong_size('gr_zonal_start', 'sums', int(size(sums), c_int), num_fields, stat)
    return
    end if
    pending_c = pending%handle
    call gr_fortran_call('num_fields=size(cells);' // c_null_char)
    status = c_gr_zonal_start(zonal_c, num_fields, c_loc(cells), c_loc(sums), c_loc(pending_c))
    pending%handle = pending_c
    call ended(status, stat)
  end subroutine

  subroutine gr_zonal_start_one(zonal, cells, sums, pending, stat)
    type(gr_zonal), intent(in) :: zonal
    type(gr_field), intent(in) :: cells
    type(gr_field), intent(in) :: sums
    type(gr_pending), intent(inout) :: pending
    integer, intent(out), optional :: stat
    type(gr_field), pointer, contiguous :: cells_list(:)
    type(gr_field), pointer, contiguous :: sums_list(:)
    call c_f_pointer(address_of(cells), cells_list, [1])
    call c_f_pointer(address_of(sums), sums_list, [1])
    call gr_zonal_start_list(zonal, cells_list, sums_list, pending, stat)
  end subroutine

  !> Adds to each cell the cotangent of its sum (divided by the number of cells for means). Collective.
  subroutine gr_zonal_apply_adjoint_list(zonal, cells, sums, cotangents, stat)
    type(gr_zonal), intent(in) :: zonal
    type(gr_field), intent(in), target, contiguous :: cells(:)
    type(gr_field), intent(in), target, contiguous :: sums(:)
    integer, intent(in) :: cotangents
    integer, intent(out), optional :: stat
    type(c_ptr) :: zonal_c
    integer(c_int) :: num_fields
    integer(c_int) :: cotangents_c
    integer(c_int) :: status
    zonal_c = zonal%handle
    num_fields = int(size(cells), c_int)
    if (size(sums) /= num_fields) then
    call wrong_size('gr_zonal_apply_adjoint', 'sums', int(size(sums), c_int), num_fields, stat)
    return
    end if
    cotangents_c = int(cotangents, c_int)
    call gr_fortran_call('num_fields=size(cells);' // c_null_char)
    status = c_gr_zonal_apply_adjoint(zonal_c, num_fields, c_loc(cells), c_loc(sums), cotangents_c)
    call ended(status, stat)
  end subroutine

  subroutine gr_zonal_apply_adjoint_one(zonal, cells, sums, cotangents, stat)
    type(gr_zonal), intent(in) :: zonal
    type(gr_field), intent(in) :: cells
    type(gr_field), intent(in) :: sums
    integer, intent(in) :: cotangents
    integer, intent(out), optional :: stat
    type(gr_field), pointer, contiguous :: cells_list(:)
    type(gr_field), pointer, contiguous :: sums_list(:)
    call c_f_pointer(address_of(cells), cells_list, [1])
    call c_f_pointer(address_of(sums), sums_list, [1])
    call gr_zonal_apply_adjoint_list(zonal, cells_list, sums_list, cotangents, stat)
  end subroutine

  subroutine gr_zonal_apply_adjoint_int8(zonal, cells, sums, cotangents, stat)
    type(gr_zonal), intent(in) :: zonal
    integer(c_int8_t), GR_WHOLE, target, intent(inout) :: cells
    integer(c_int8_t), GR_WHOLE, target, intent(in) :: sums
    integer, intent(in) :: cotangents
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    type(gr_field), target :: sums_field
    call describe_whole(cells, cells_field)
    call describe_whole(sums, sums_field)
    call gr_fortran_arrays()
    call gr_zonal_apply_adjoint_one(zonal=zonal, cells=cells_field, sums=sums_field, cotangents=cotangents, &
        stat=stat)
  end subroutine

  subroutine gr_zonal_apply_adjoint_int16(zonal, cells, sums, cotangents, stat)
    type(gr_zonal), intent(in) :: zonal
    integer(c_int16_t), GR_WHOLE, target, intent(inout) :: cells
    integer(c_int16_t), GR_WHOLE, target, intent(in) :: sums
    integer, intent(in) :: cotangents
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    type(gr_field), target :: sums_field
    call describe_whole(cells, cells_field)
    call describe_whole(sums, sums_field)
    call gr_fortran_arrays()
    call gr_zonal_apply_adjoint_one(zonal=zonal, cells=cells_field, sums=sums_field, cotangents=cotangents, &
        stat=stat)
  end subroutine

  subroutine gr_zonal_apply_adjoint_int32(zonal, cells, sums, cotangents, stat)
    type(gr_zonal), intent(in) :: zonal
    integer(c_int32_t), GR_WHOLE, target, intent(inout) :: cells
    integer(c_int32_t), GR_WHOLE, target, intent(in) :: sums
    integer, intent(in) :: cotangents
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    type(gr_field), target :: sums_field
    call describe_whole(cells, cells_field)
    call describe_whole(sums, sums_field)
    call gr_fortran_arrays()
    call gr_zonal_apply_adjoint_one(zonal=zonal, cells=cells_field, sums=sums_field, cotangents=cotangents, &
        stat=stat)
  end subroutine

  subroutine gr_zonal_apply_adjoint_int64(zonal, cells, sums, cotangents, stat)
    type(gr_zonal), intent(in) :: zonal
    integer(c_int64_t), GR_WHOLE, target, intent(inout) :: cells
    integer(c_int64_t), GR_WHOLE, target, intent(in) :: sums
    integer, intent(in) :: cotangents
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    type(gr_field), target :: sums_field
    call describe_whole(cells, cells_field)
    call describe_whole(sums, sums_field)
    call gr_fortran_arrays()
    call gr_zonal_apply_adjoint_one(zonal=zonal, cells=cells_field, sums=sums_field, cotangents=cotangents, &
        stat=stat)
  end subroutine

  subroutine gr_zonal_apply_adjoint_real32(zonal, cells, sums, cotangents, stat)
    type(gr_zonal), intent(in) :: zonal
    real(c_float), GR_WHOLE, target, intent(inout) :: cells
    real(c_float), GR_WHOLE, target, intent(in) :: sums
    integer, intent(in) :: cotangents
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    type(gr_field), target :: sums_field
    call describe_whole(cells, cells_field)
    call describe_whole(sums, sums_field)
    call gr_fortran_arrays()
    call gr_zonal_apply_adjoint_one(zonal=zonal, cells=cells_field, sums=sums_field, cotangents=cotangents, &
        stat=stat)
  end subroutine

  subroutine gr_zonal_apply_adjoint_real64(zonal, cells, sums, cotangents, stat)
    type(gr_zonal), intent(in) :: zonal
    real(c_double), GR_WHOLE, target, intent(inout) :: cells
    real(c_double), GR_WHOLE, target, intent(in) :: sums
    integer, intent(in) :: cotangents
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    type(gr_field), target :: sums_field
    call describe_whole(cells, cells_field)
    call describe_whole(sums, sums_field)
    call gr_fortran_arrays()
    call gr_zonal_apply_adjoint_one(zonal=zonal, cells=cells_field, sums=sums_field, cotangents=cotangents, &
        stat=stat)
  end subroutine

  subroutine gr_zonal_apply_adjoint_complex32(zonal, cells, sums, cotangents, stat)
    type(gr_zonal), intent(in) :: zonal
    complex(c_float_complex), GR_WHOLE, target, intent(inout) :: cells
    complex(c_float_complex), GR_WHOLE, target, intent(in) :: sums
    integer, intent(in) :: cotangents
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    type(gr_field), target :: sums_field
    call describe_whole(cells, cells_field)
    call describe_whole(sums, sums_field)
    call gr_fortran_arrays()
    call gr_zonal_apply_adjoint_one(zonal=zonal, cells=cells_field, sums=sums_field, cotangents=cotangents, &
        stat=stat)
  end subroutine

  subroutine gr_zonal_apply_adjoint_complex64(zonal, cells, sums, cotangents, stat)
    type(gr_zonal), intent(in) :: zonal
    complex(c_double_complex), GR_WHOLE, target, intent(inout) :: cells
    complex(c_double_complex), GR_WHOLE, target, intent(in) :: sums
    integer, intent(in) :: cotangents
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    type(gr_field), target :: sums_field
    call describe_whole(cells, cells_field)
    call describe_whole(sums, sums_field)
    call gr_fortran_arrays()
    call gr_zonal_apply_adjoint_one(zonal=zonal, cells=cells_field, sums=sums_field, cotangents=cotangents, &
        stat=stat)
  end subroutine

  subroutine gr_zonal_apply_adjoint_bool(zonal, cells, sums, cotangents, stat)
    type(gr_zonal), intent(in) :: zonal
    logical(c_bool), GR_WHOLE, target, intent(inout) :: cells
    logical(c_bool), GR_WHOLE, target, intent(in) :: sums
    integer, intent(in) :: cotangents
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    type(gr_field), target :: sums_field
    call describe_whole(cells, cells_field)
    call describe_whole(sums, sums_field)
    call gr_fortran_arrays()
    call gr_zonal_apply_adjoint_one(zonal=zonal, cells=cells_field, sums=sums_field, cotangents=cotangents, &
        stat=stat)
  end subroutine

  subroutine gr_zonal_apply_adjoint_logical(zonal, cells, sums, cotangents, stat)
    type(gr_zonal), intent(in) :: zonal
    logical, GR_WHOLE, target, intent(inout) :: cells
    logical, GR_WHOLE, target, intent(in) :: sums
    integer, intent(in) :: cotangents
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    type(gr_field), target :: sums_field
    call describe_whole(cells, cells_field)
    call describe_whole(sums, sums_field)
    call gr_fortran_arrays()
    call gr_zonal_apply_adjoint_one(zonal=zonal, cells=cells_field, sums=sums_field, cotangents=cotangents, &
        stat=stat)
  end subroutine

  subroutine gr_zonal_apply_adjoint_real32_in_real64(zonal, cells, sums, cotangents, stat)
    type(gr_zonal), intent(in) :: zonal
    real(c_float), GR_WHOLE, target, intent(inout) :: cells
    real(c_double), GR_WHOLE, target, intent(in) :: sums
    integer, intent(in) :: cotangents
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    type(gr_field), target :: sums_field
    call describe_whole(cells, cells_field)
    call describe_whole(sums, sums_field)
    call gr_fortran_arrays()
    call gr_zonal_apply_adjoint_one(zonal=zonal, cells=cells_field, sums=sums_field, cotangents=cotangents, &
        stat=stat)
  end subroutine

  !> Plans the sum of all cells times a weight of their row, with the same bits for every split. Collective.
  subroutine gr_area_sum_create(comm, layout, axis, row_axis, weights, scale, area_sum, stat, name)
    type(gr_comm), intent(in) :: comm
    type(gr_layout), intent(in) :: layout
    integer, intent(in) :: axis
    integer, intent(in) :: row_axis
    real(c_double), intent(in) :: weights(:)
    integer, intent(in), optional :: scale
    type(gr_area_sum), intent(inout) :: area_sum
    integer, intent(out), optional :: stat
    character(*), intent(in), optional :: name
    type(c_ptr) :: comm_c
    type(c_ptr) :: layout_c
    integer(c_int) :: axis_c
    integer(c_int) :: row_axis_c
    integer(c_int) :: num_rows
    real(c_double), allocatable, target :: weights_c(:)
    integer(c_int) :: scale_c
    type(c_ptr), target :: area_sum_c
    character(:, c_char), allocatable, target :: name_c
    integer(c_int) :: status
    comm_c = comm%handle
    layout_c = layout%handle
    axis_c = int(ndim_of(layout) - axis, c_int)
    row_axis_c = int(ndim_of(layout) - row_axis, c_int)
    num_rows = int(size(weights), c_int)
    weights_c = weights
    scale_c = 0
    if (present(scale)) then
    scale_c = int(scale, c_int)
    end if
    area_sum_c = area_sum%handle
    if (present(name)) then
      name_c = trim(name) // c_null_char
      status = c_gr_plan_name(c_loc(name_c))
    end if
    call gr_fortran_call('num_rows=size(weights);' // c_null_char)
    status = c_gr_area_sum_create(comm_c, layout_c, axis_c, row_axis_c, num_rows, c_loc(weights_c), scale_c, &
        c_loc(area_sum_c))
    area_sum%handle = area_sum_c
    call ended(status, stat)
  end subroutine

  !> The same with a weight of each cell, such as the areas of a tripolar grid: fields in host memory. Collective.
  !>
  !> A weight of 0 leaves a cell out, whatever its value. `weights` has one weight for each cell of this rank's box.
  subroutine gr_area_sum_create_cells_field(comm, layout, weights, scale, area_sum, stat, name)
    type(gr_comm), intent(in) :: comm
    type(gr_layout), intent(in) :: layout
    type(gr_field), intent(in), target :: weights
    integer, intent(in), optional :: scale
    type(gr_area_sum), intent(inout) :: area_sum
    integer, intent(out), optional :: stat
    character(*), intent(in), optional :: name
    type(c_ptr) :: comm_c
    type(c_ptr) :: layout_c
    integer(c_int) :: scale_c
    type(c_ptr), target :: area_sum_c
    character(:, c_char), allocatable, target :: name_c
    integer(c_int) :: status
    comm_c = comm%handle
    layout_c = layout%handle
    scale_c = 0
    if (present(scale)) then
    scale_c = int(scale, c_int)
    end if
    area_sum_c = area_sum%handle
    if (present(name)) then
      name_c = trim(name) // c_null_char
      status = c_gr_plan_name(c_loc(name_c))
    end if
    call gr_fortran_call('' // c_null_char)
    status = c_gr_area_sum_create_cells(comm_c, layout_c, c_loc(weights), scale_c, c_loc(area_sum_c))
    area_sum%handle = area_sum_c
    call ended(status, stat)
  end subroutine

  subroutine gr_area_sum_create_cells_int8(comm, layout, weights, scale, area_sum, stat)
    type(gr_comm), intent(in) :: comm
    type(gr_layout), intent(in) :: layout
    integer(c_int8_t), GR_WHOLE, target, intent(in) :: weights
    integer, intent(in), optional :: scale
    type(gr_area_sum), intent(inout) :: area_sum
    integer, intent(out), optional :: stat
    type(gr_field), target :: weights_field
    call describe_whole(weights, weights_field)
    call gr_fortran_arrays()
    call gr_area_sum_create_cells_field(comm=comm, layout=layout, weights=weights_field, scale=scale, &
        area_sum=area_sum, stat=stat)
  end subroutine

  subroutine gr_area_sum_create_cells_int16(comm, layout, weights, scale, area_sum, stat)
    type(gr_comm), intent(in) :: comm
    type(gr_layout), intent(in) :: layout
    integer(c_int16_t), GR_WHOLE, target, intent(in) :: weights
    integer, intent(in), optional :: scale
    type(gr_area_sum), intent(inout) :: area_sum
    integer, intent(out), optional :: stat
    type(gr_field), target :: weights_field
    call describe_whole(weights, weights_field)
    call gr_fortran_arrays()
    call gr_area_sum_create_cells_field(comm=comm, layout=layout, weights=weights_field, scale=scale, &
        area_sum=area_sum, stat=stat)
  end subroutine

  subroutine gr_area_sum_create_cells_int32(comm, layout, weights, scale, area_sum, stat)
    type(gr_comm), intent(in) :: comm
    type(gr_layout), intent(in) :: layout
    integer(c_int32_t), GR_WHOLE, target, intent(in) :: weights
    integer, intent(in), optional :: scale
    type(gr_area_sum), intent(inout) :: area_sum
    integer, intent(out), optional :: stat
    type(gr_field), target :: weights_field
    call describe_whole(weights, weights_field)
    call gr_fortran_arrays()
    call gr_area_sum_create_cells_field(comm=comm, layout=layout, weights=weights_field, scale=scale, &
        area_sum=area_sum, stat=stat)
  end subroutine

  subroutine gr_area_sum_create_cells_int64(comm, layout, weights, scale, area_sum, stat)
    type(gr_comm), intent(in) :: comm
    type(gr_layout), intent(in) :: layout
    integer(c_int64_t), GR_WHOLE, target, intent(in) :: weights
    integer, intent(in), optional :: scale
    type(gr_area_sum), intent(inout) :: area_sum
    integer, intent(out), optional :: stat
    type(gr_field), target :: weights_field
    call describe_whole(weights, weights_field)
    call gr_fortran_arrays()
    call gr_area_sum_create_cells_field(comm=comm, layout=layout, weights=weights_field, scale=scale, &
        area_sum=area_sum, stat=stat)
  end subroutine

  subroutine gr_area_sum_create_cells_real32(comm, layout, weights, scale, area_sum, stat)
    type(gr_comm), intent(in) :: comm
    type(gr_layout), intent(in) :: layout
    real(c_float), GR_WHOLE, target, intent(in) :: weights
    integer, intent(in), optional :: scale
    type(gr_area_sum), intent(inout) :: area_sum
    integer, intent(out), optional :: stat
    type(gr_field), target :: weights_field
    call describe_whole(weights, weights_field)
    call gr_fortran_arrays()
    call gr_area_sum_create_cells_field(comm=comm, layout=layout, weights=weights_field, scale=scale, &
        area_sum=area_sum, stat=stat)
  end subroutine

  subroutine gr_area_sum_create_cells_real64(comm, layout, weights, scale, area_sum, stat)
    type(gr_comm), intent(in) :: comm
    type(gr_layout), intent(in) :: layout
    real(c_double), GR_WHOLE, target, intent(in) :: weights
    integer, intent(in), optional :: scale
    type(gr_area_sum), intent(inout) :: area_sum
    integer, intent(out), optional :: stat
    type(gr_field), target :: weights_field
    call describe_whole(weights, weights_field)
    call gr_fortran_arrays()
    call gr_area_sum_create_cells_field(comm=comm, layout=layout, weights=weights_field, scale=scale, &
        area_sum=area_sum, stat=stat)
  end subroutine

  subroutine gr_area_sum_create_cells_complex32(comm, layout, weights, scale, area_sum, stat)
    type(gr_comm), intent(in) :: comm
    type(gr_layout), intent(in) :: layout
    complex(c_float_complex), GR_WHOLE, target, intent(in) :: weights
    integer, intent(in), optional :: scale
    type(gr_area_sum), intent(inout) :: area_sum
    integer, intent(out), optional :: stat
    type(gr_field), target :: weights_field
    call describe_whole(weights, weights_field)
    call gr_fortran_arrays()
    call gr_area_sum_create_cells_field(comm=comm, layout=layout, weights=weights_field, scale=scale, &
        area_sum=area_sum, stat=stat)
  end subroutine

  subroutine gr_area_sum_create_cells_complex64(comm, layout, weights, scale, area_sum, stat)
    type(gr_comm), intent(in) :: comm
    type(gr_layout), intent(in) :: layout
    complex(c_double_complex), GR_WHOLE, target, intent(in) :: weights
    integer, intent(in), optional :: scale
    type(gr_area_sum), intent(inout) :: area_sum
    integer, intent(out), optional :: stat
    type(gr_field), target :: weights_field
    call describe_whole(weights, weights_field)
    call gr_fortran_arrays()
    call gr_area_sum_create_cells_field(comm=comm, layout=layout, weights=weights_field, scale=scale, &
        area_sum=area_sum, stat=stat)
  end subroutine

  subroutine gr_area_sum_create_cells_bool(comm, layout, weights, scale, area_sum, stat)
    type(gr_comm), intent(in) :: comm
    type(gr_layout), intent(in) :: layout
    logical(c_bool), GR_WHOLE, target, intent(in) :: weights
    integer, intent(in), optional :: scale
    type(gr_area_sum), intent(inout) :: area_sum
    integer, intent(out), optional :: stat
    type(gr_field), target :: weights_field
    call describe_whole(weights, weights_field)
    call gr_fortran_arrays()
    call gr_area_sum_create_cells_field(comm=comm, layout=layout, weights=weights_field, scale=scale, &
        area_sum=area_sum, stat=stat)
  end subroutine

  subroutine gr_area_sum_create_cells_logical(comm, layout, weights, scale, area_sum, stat)
    type(gr_comm), intent(in) :: comm
    type(gr_layout), intent(in) :: layout
    logical, GR_WHOLE, target, intent(in) :: weights
    integer, intent(in), optional :: scale
    type(gr_area_sum), intent(inout) :: area_sum
    integer, intent(out), optional :: stat
    type(gr_field), target :: weights_field
    call describe_whole(weights, weights_field)
    call gr_fortran_arrays()
    call gr_area_sum_create_cells_field(comm=comm, layout=layout, weights=weights_field, scale=scale, &
        area_sum=area_sum, stat=stat)
  end subroutine

  !> Frees a plan.
  subroutine gr_area_sum_destroy(area_sum, stat)
    type(gr_area_sum), intent(inout) :: area_sum
    integer, intent(out), optional :: stat
    type(c_ptr), target :: area_sum_c
    integer(c_int) :: status
    area_sum_c = area_sum%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_area_sum_destroy(c_loc(area_sum_c))
    area_sum%handle = area_sum_c
    call ended(status, stat)
  end subroutine

  !> One sum for each element of the batch axes, in row-major order, the same on all ranks. Collective.
  subroutine gr_area_sum_apply_field(area_sum, cells, sums, stat)
    type(gr_area_sum), intent(in) :: area_sum
    type(gr_field), intent(in), target :: cells
    real(c_double), intent(out) :: sums(:)
    integer, intent(out), optional :: stat
    type(c_ptr) :: area_sum_c
    integer(c_int) :: num_sums
    real(c_double), allocatable, target :: sums_c(:)
    integer(c_int) :: status
    area_sum_c = area_sum%handle
    num_sums = int(size(sums), c_int)
    allocate(sums_c(size(sums)))
    sums_c = 0
    call gr_fortran_call('num_sums=size(sums);' // c_null_char)
    status = c_gr_area_sum_apply(area_sum_c, c_loc(cells), num_sums, c_loc(sums_c))
    if (status == 0) sums = sums_c
    call ended(status, stat)
  end subroutine

  subroutine gr_area_sum_apply_int8(area_sum, cells, sums, stat)
    type(gr_area_sum), intent(in) :: area_sum
    integer(c_int8_t), GR_WHOLE, target, intent(in) :: cells
    real(c_double), intent(out) :: sums(:)
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    call describe_whole(cells, cells_field)
    call gr_fortran_arrays()
    call gr_area_sum_apply_field(area_sum=area_sum, cells=cells_field, sums=sums, stat=stat)
  end subroutine

  subroutine gr_area_sum_apply_int16(area_sum, cells, sums, stat)
    type(gr_area_sum), intent(in) :: area_sum
    integer(c_int16_t), GR_WHOLE, target, intent(in) :: cells
    real(c_double), intent(out) :: sums(:)
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    call describe_whole(cells, cells_field)
    call gr_fortran_arrays()
    call gr_area_sum_apply_field(area_sum=area_sum, cells=cells_field, sums=sums, stat=stat)
  end subroutine

  subroutine gr_area_sum_apply_int32(area_sum, cells, sums, stat)
    type(gr_area_sum), intent(in) :: area_sum
    integer(c_int32_t), GR_WHOLE, target, intent(in) :: cells
    real(c_double), intent(out) :: sums(:)
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    call describe_whole(cells, cells_field)
    call gr_fortran_arrays()
    call gr_area_sum_apply_field(area_sum=area_sum, cells=cells_field, sums=sums, stat=stat)
  end subroutine

  subroutine gr_area_sum_apply_int64(area_sum, cells, sums, stat)
    type(gr_area_sum), intent(in) :: area_sum
    integer(c_int64_t), GR_WHOLE, target, intent(in) :: cells
    real(c_double), intent(out) :: sums(:)
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    call describe_whole(cells, cells_field)
    call gr_fortran_arrays()
    call gr_area_sum_apply_field(area_sum=area_sum, cells=cells_field, sums=sums, stat=stat)
  end subroutine

  subroutine gr_area_sum_apply_real32(area_sum, cells, sums, stat)
    type(gr_area_sum), intent(in) :: area_sum
    real(c_float), GR_WHOLE, target, intent(in) :: cells
    real(c_double), intent(out) :: sums(:)
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    call describe_whole(cells, cells_field)
    call gr_fortran_arrays()
    call gr_area_sum_apply_field(area_sum=area_sum, cells=cells_field, sums=sums, stat=stat)
  end subroutine

  subroutine gr_area_sum_apply_real64(area_sum, cells, sums, stat)
    type(gr_area_sum), intent(in) :: area_sum
    real(c_double), GR_WHOLE, target, intent(in) :: cells
    real(c_double), intent(out) :: sums(:)
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    call describe_whole(cells, cells_field)
    call gr_fortran_arrays()
    call gr_area_sum_apply_field(area_sum=area_sum, cells=cells_field, sums=sums, stat=stat)
  end subroutine

  subroutine gr_area_sum_apply_complex32(area_sum, cells, sums, stat)
    type(gr_area_sum), intent(in) :: area_sum
    complex(c_float_complex), GR_WHOLE, target, intent(in) :: cells
    real(c_double), intent(out) :: sums(:)
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    call describe_whole(cells, cells_field)
    call gr_fortran_arrays()
    call gr_area_sum_apply_field(area_sum=area_sum, cells=cells_field, sums=sums, stat=stat)
  end subroutine

  subroutine gr_area_sum_apply_complex64(area_sum, cells, sums, stat)
    type(gr_area_sum), intent(in) :: area_sum
    complex(c_double_complex), GR_WHOLE, target, intent(in) :: cells
    real(c_double), intent(out) :: sums(:)
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    call describe_whole(cells, cells_field)
    call gr_fortran_arrays()
    call gr_area_sum_apply_field(area_sum=area_sum, cells=cells_field, sums=sums, stat=stat)
  end subroutine

  subroutine gr_area_sum_apply_bool(area_sum, cells, sums, stat)
    type(gr_area_sum), intent(in) :: area_sum
    logical(c_bool), GR_WHOLE, target, intent(in) :: cells
    real(c_double), intent(out) :: sums(:)
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    call describe_whole(cells, cells_field)
    call gr_fortran_arrays()
    call gr_area_sum_apply_field(area_sum=area_sum, cells=cells_field, sums=sums, stat=stat)
  end subroutine

  subroutine gr_area_sum_apply_logical(area_sum, cells, sums, stat)
    type(gr_area_sum), intent(in) :: area_sum
    logical, GR_WHOLE, target, intent(in) :: cells
    real(c_double), intent(out) :: sums(:)
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    call describe_whole(cells, cells_field)
    call gr_fortran_arrays()
    call gr_area_sum_apply_field(area_sum=area_sum, cells=cells_field, sums=sums, stat=stat)
  end subroutine

  !> Adds weight times cotangent to each cell. No messages.
  subroutine gr_area_sum_apply_adjoint_field(area_sum, cells, cotangents, stat)
    type(gr_area_sum), intent(in) :: area_sum
    type(gr_field), intent(in), target :: cells
    real(c_double), intent(in) :: cotangents(:)
    integer, intent(out), optional :: stat
    type(c_ptr) :: area_sum_c
    integer(c_int) :: num_sums
    real(c_double), allocatable, target :: cotangents_c(:)
    integer(c_int) :: status
    area_sum_c = area_sum%handle
    num_sums = int(size(cotangents), c_int)
    cotangents_c = cotangents
    call gr_fortran_call('num_sums=size(cotangents);' // c_null_char)
    status = c_gr_area_sum_apply_adjoint(area_sum_c, c_loc(cells), num_sums, c_loc(cotangents_c))
    call ended(status, stat)
  end subroutine

  subroutine gr_area_sum_apply_adjoint_int8(area_sum, cells, cotangents, stat)
    type(gr_area_sum), intent(in) :: area_sum
    integer(c_int8_t), GR_WHOLE, target, intent(inout) :: cells
    real(c_double), intent(in) :: cotangents(:)
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    call describe_whole(cells, cells_field)
    call gr_fortran_arrays()
    call gr_area_sum_apply_adjoint_field(area_sum=area_sum, cells=cells_field, cotangents=cotangents, stat=stat)
  end subroutine

  subroutine gr_area_sum_apply_adjoint_int16(area_sum, cells, cotangents, stat)
    type(gr_area_sum), intent(in) :: area_sum
    integer(c_int16_t), GR_WHOLE, target, intent(inout) :: cells
    real(c_double), intent(in) :: cotangents(:)
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    call describe_whole(cells, cells_field)
    call gr_fortran_arrays()
    call gr_area_sum_apply_adjoint_field(area_sum=area_sum, cells=cells_field, cotangents=cotangents, stat=stat)
  end subroutine

  subroutine gr_area_sum_apply_adjoint_int32(area_sum, cells, cotangents, stat)
    type(gr_area_sum), intent(in) :: area_sum
    integer(c_int32_t), GR_WHOLE, target, intent(inout) :: cells
    real(c_double), intent(in) :: cotangents(:)
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    call describe_whole(cells, cells_field)
    call gr_fortran_arrays()
    call gr_area_sum_apply_adjoint_field(area_sum=area_sum, cells=cells_field, cotangents=cotangents, stat=stat)
  end subroutine

  subroutine gr_area_sum_apply_adjoint_int64(area_sum, cells, cotangents, stat)
    type(gr_area_sum), intent(in) :: area_sum
    integer(c_int64_t), GR_WHOLE, target, intent(inout) :: cells
    real(c_double), intent(in) :: cotangents(:)
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    call describe_whole(cells, cells_field)
    call gr_fortran_arrays()
    call gr_area_sum_apply_adjoint_field(area_sum=area_sum, cells=cells_field, cotangents=cotangents, stat=stat)
  end subroutine

  subroutine gr_area_sum_apply_adjoint_real32(area_sum, cells, cotangents, stat)
    type(gr_area_sum), intent(in) :: area_sum
    real(c_float), GR_WHOLE, target, intent(inout) :: cells
    real(c_double), intent(in) :: cotangents(:)
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    call describe_whole(cells, cells_field)
    call gr_fortran_arrays()
    call gr_area_sum_apply_adjoint_field(area_sum=area_sum, cells=cells_field, cotangents=cotangents, stat=stat)
  end subroutine

  subroutine gr_area_sum_apply_adjoint_real64(area_sum, cells, cotangents, stat)
    type(gr_area_sum), intent(in) :: area_sum
    real(c_double), GR_WHOLE, target, intent(inout) :: cells
    real(c_double), intent(in) :: cotangents(:)
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    call describe_whole(cells, cells_field)
    call gr_fortran_arrays()
    call gr_area_sum_apply_adjoint_field(area_sum=area_sum, cells=cells_field, cotangents=cotangents, stat=stat)
  end subroutine

  subroutine gr_area_sum_apply_adjoint_complex32(area_sum, cells, cotangents, stat)
    type(gr_area_sum), intent(in) :: area_sum
    complex(c_float_complex), GR_WHOLE, target, intent(inout) :: cells
    real(c_double), intent(in) :: cotangents(:)
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    call describe_whole(cells, cells_field)
    call gr_fortran_arrays()
    call gr_area_sum_apply_adjoint_field(area_sum=area_sum, cells=cells_field, cotangents=cotangents, stat=stat)
  end subroutine

  subroutine gr_area_sum_apply_adjoint_complex64(area_sum, cells, cotangents, stat)
    type(gr_area_sum), intent(in) :: area_sum
    complex(c_double_complex), GR_WHOLE, target, intent(inout) :: cells
    real(c_double), intent(in) :: cotangents(:)
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    call describe_whole(cells, cells_field)
    call gr_fortran_arrays()
    call gr_area_sum_apply_adjoint_field(area_sum=area_sum, cells=cells_field, cotangents=cotangents, stat=stat)
  end subroutine

  subroutine gr_area_sum_apply_adjoint_bool(area_sum, cells, cotangents, stat)
    type(gr_area_sum), intent(in) :: area_sum
    logical(c_bool), GR_WHOLE, target, intent(inout) :: cells
    real(c_double), intent(in) :: cotangents(:)
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    call describe_whole(cells, cells_field)
    call gr_fortran_arrays()
    call gr_area_sum_apply_adjoint_field(area_sum=area_sum, cells=cells_field, cotangents=cotangents, stat=stat)
  end subroutine

  subroutine gr_area_sum_apply_adjoint_logical(area_sum, cells, cotangents, stat)
    type(gr_area_sum), intent(in) :: area_sum
    logical, GR_WHOLE, target, intent(inout) :: cells
    real(c_double), intent(in) :: cotangents(:)
    integer, intent(out), optional :: stat
    type(gr_field), target :: cells_field
    call describe_whole(cells, cells_field)
    call gr_fortran_arrays()
    call gr_area_sum_apply_adjoint_field(area_sum=area_sum, cells=cells_field, cotangents=cotangents, stat=stat)
  end subroutine

  !> Makes an empty list of named values, for a file or a variable.
  subroutine gr_attributes_create(attributes, stat)
    type(gr_attributes), intent(inout) :: attributes
    integer, intent(out), optional :: stat
    type(c_ptr), target :: attributes_c
    integer(c_int) :: status
    attributes_c = attributes%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_attributes_create(c_loc(attributes_c))
    attributes%handle = attributes_c
    call ended(status, stat)
  end subroutine

  !> Adds a text.
  subroutine gr_attributes_add_text(attributes, name, value, stat)
    type(gr_attributes), intent(inout) :: attributes
    character(*), intent(in) :: name
    character(*), intent(in) :: value
    integer, intent(out), optional :: stat
    type(c_ptr) :: attributes_c
    character(:, c_char), allocatable, target :: name_c
    character(:, c_char), allocatable, target :: value_c
    integer(c_int) :: status
    attributes_c = attributes%handle
    name_c = trim(name) // c_null_char
    value_c = trim(value) // c_null_char
    call gr_fortran_call('' // c_null_char)
    status = c_gr_attributes_add_text(attributes_c, c_loc(name_c), c_loc(value_c))
    call ended(status, stat)
  end subroutine

  !> Adds a number.
  subroutine gr_attributes_add_number(attributes, name, value, type, stat)
    type(gr_attributes), intent(inout) :: attributes
    character(*), intent(in) :: name
    real(c_double), intent(in) :: value
    integer, intent(in) :: type
    integer, intent(out), optional :: stat
    type(c_ptr) :: attributes_c
    character(:, c_char), allocatable, target :: name_c
    real(c_double) :: value_c
    integer(c_int) :: type_c
    integer(c_int) :: status
    attributes_c = attributes%handle
    name_c = trim(name) // c_null_char
    value_c = value
    type_c = int(type, c_int)
    call gr_fortran_call('' // c_null_char)
    status = c_gr_attributes_add_number(attributes_c, c_loc(name_c), value_c, type_c)
    call ended(status, stat)
  end subroutine

  !> Frees attributes.
  subroutine gr_attributes_destroy(attributes, stat)
    type(gr_attributes), intent(inout) :: attributes
    integer, intent(out), optional :: stat
    type(c_ptr), target :: attributes_c
    integer(c_int) :: status
    attributes_c = attributes%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_attributes_destroy(c_loc(attributes_c))
    attributes%handle = attributes_c
    call ended(status, stat)
  end subroutine

  !> Opens a netCDF-4 or HDF5 file, or a Zarr store, for reading. Collective.
  subroutine gr_file_open(comm, path, file, stat)
    type(gr_comm), intent(in) :: comm
    character(*), intent(in) :: path
    type(gr_file), intent(inout) :: file
    integer, intent(out), optional :: stat
    type(c_ptr) :: comm_c
    character(:, c_char), allocatable, target :: path_c
    type(c_ptr), target :: file_c
    integer(c_int) :: status
    comm_c = comm%handle
    path_c = trim(path) // c_null_char
    file_c = file%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_file_open(comm_c, c_loc(path_c), c_loc(file_c))
    file%handle = file_c
    call ended(status, stat)
  end subroutine

  !> Opens files that follow each other in time, and reads them as one. Collective.
  !>
  !> Variables along the joined dimension have the cells of all files, each unpacked by its own file; the others are
  !> those of the first one. Each file is compared with the first. Names may have `*`, `?` and `[...]`; the files of each
  !> are sorted by name, with numbers compared by value, so run_2.nc comes before run_10.nc.
  !> Example: `era5_*.nc` for two years with 8784 and 8760 times: z(time = 17544, ...).
  subroutine gr_file_open_series(comm, patterns, dimension, most_open, file, stat)
    type(gr_comm), intent(in) :: comm
    character(*), intent(in) :: patterns(:)
    character(*), intent(in), optional :: dimension
    integer, intent(in), optional :: most_open
    type(gr_file), intent(inout) :: file
    integer, intent(out), optional :: stat
    type(c_ptr) :: comm_c
    integer(c_int) :: num_patterns
    character(kind=c_char), allocatable, target :: patterns_t(:, :)
    type(c_ptr), allocatable, target :: patterns_c(:)
    character(:, c_char), allocatable, target :: dimension_c
    integer(c_int) :: most_open_c
    type(c_ptr), target :: file_c
    type(c_ptr) :: dimension_p
    integer(c_int) :: status
    comm_c = comm%handle
    num_patterns = int(size(patterns), c_int)
    call to_texts(patterns, patterns_t, patterns_c)
    if (present(dimension)) then
    dimension_c = trim(dimension) // c_null_char
    end if
    most_open_c = 4
    if (present(most_open)) then
    most_open_c = int(most_open, c_int)
    end if
    file_c = file%handle
    dimension_p = c_null_ptr
    if (present(dimension)) dimension_p = c_loc(dimension_c)
    call gr_fortran_call('num_patterns=size(patterns);' // c_null_char)
    status = c_gr_file_open_series(comm_c, num_patterns, c_loc(patterns_c), dimension_p, most_open_c, c_loc(file_c))
    file%handle = file_c
    call ended(status, stat)
  end subroutine

  !> Number of files: 1 after `gr_file_open`.
  subroutine gr_file_num_files(file, num_files, stat)
    type(gr_file), intent(in) :: file
    integer, intent(out) :: num_files
    integer, intent(out), optional :: stat
    type(c_ptr) :: file_c
    integer(c_int), target :: num_files_c
    integer(c_int) :: status
    file_c = file%handle
    num_files_c = 0
    call gr_fortran_call('' // c_null_char)
    status = c_gr_file_num_files(file_c, c_loc(num_files_c))
    if (status == 0) num_files = num_files_c
    call ended(status, stat)
  end subroutine

  !> One of the files, and the cells that it holds along the joined dimension.
  subroutine gr_file_part(file, number, cells_before, num_cells, path, stat)
    type(gr_file), intent(in) :: file
    integer, intent(in) :: number
    integer(c_int64_t), intent(out) :: cells_before
    integer(c_int64_t), intent(out) :: num_cells
    character(:), allocatable, intent(out) :: path
    integer, intent(out), optional :: stat
    type(c_ptr) :: file_c
    integer(c_int) :: number_c
    integer(c_int64_t), target :: cells_before_c
    integer(c_int64_t), target :: num_cells_c
    type(c_ptr), target :: path_c
    integer(c_int) :: status
    file_c = file%handle
    number_c = int(number - 1, c_int)
    cells_before_c = 0
    num_cells_c = 0
    path_c = c_null_ptr
    call gr_fortran_call('' // c_null_char)
    status = c_gr_file_part(file_c, number_c, c_loc(cells_before_c), c_loc(num_cells_c), c_loc(path_c))
    if (status == 0) cells_before = cells_before_c
    if (status == 0) num_cells = num_cells_c
    if (status == 0) path = text_at(path_c)
    call ended(status, stat)
  end subroutine

  !> Name of the joined dimension; empty where nothing is joined.
  subroutine gr_file_series_dimension(file, name, stat)
    type(gr_file), intent(in) :: file
    character(:), allocatable, intent(out) :: name
    integer, intent(out), optional :: stat
    type(c_ptr) :: file_c
    type(c_ptr), target :: name_c
    integer(c_int) :: status
    file_c = file%handle
    name_c = c_null_ptr
    call gr_fortran_call('' // c_null_char)
    status = c_gr_file_series_dimension(file_c, c_loc(name_c))
    if (status == 0) name = text_at(name_c)
    call ended(status, stat)
  end subroutine

  !> Closes a file. Collective.
  subroutine gr_file_close(file, stat)
    type(gr_file), intent(inout) :: file
    integer, intent(out), optional :: stat
    type(c_ptr), target :: file_c
    integer(c_int) :: status
    file_c = file%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_file_close(c_loc(file_c))
    file%handle = file_c
    call ended(status, stat)
  end subroutine

  !> Number of variables, coordinates included.
  subroutine gr_file_num_variables(file, num_variables, stat)
    type(gr_file), intent(in) :: file
    integer, intent(out) :: num_variables
    integer, intent(out), optional :: stat
    type(c_ptr) :: file_c
    integer(c_int), target :: num_variables_c
    integer(c_int) :: status
    file_c = file%handle
    num_variables_c = 0
    call gr_fortran_call('' // c_null_char)
    status = c_gr_file_num_variables(file_c, c_loc(num_variables_c))
    if (status == 0) num_variables = num_variables_c
    call ended(status, stat)
  end subroutine

  !> Name of a variable.
  subroutine gr_file_variable_name(file, number, name, stat)
    type(gr_file), intent(in) :: file
    integer, intent(in) :: number
    character(:), allocatable, intent(out) :: name
    integer, intent(out), optional :: stat
    type(c_ptr) :: file_c
    integer(c_int) :: number_c
    type(c_ptr), target :: name_c
    integer(c_int) :: status
    file_c = file%handle
    number_c = int(number - 1, c_int)
    name_c = c_null_ptr
    call gr_fortran_call('' // c_null_char)
    status = c_gr_file_variable_name(file_c, number_c, c_loc(name_c))
    if (status == 0) name = text_at(name_c)
    call ended(status, stat)
  end subroutine

  !> Number of axes of a variable.
  subroutine gr_file_ndim(file, variable, ndim, stat)
    type(gr_file), intent(in) :: file
    character(*), intent(in) :: variable
    integer, intent(out) :: ndim
    integer, intent(out), optional :: stat
    type(c_ptr) :: file_c
    character(:, c_char), allocatable, target :: variable_c
    integer(c_int), target :: ndim_c
    integer(c_int) :: status
    file_c = file%handle
    variable_c = trim(variable) // c_null_char
    ndim_c = 0
    call gr_fortran_call('' // c_null_char)
    status = c_gr_file_ndim(file_c, c_loc(variable_c), c_loc(ndim_c))
    if (status == 0) ndim = ndim_c
    call ended(status, stat)
  end subroutine

  !> Cells of a variable along each axis.
  subroutine gr_file_extents(file, variable, extents, stat)
    type(gr_file), intent(in) :: file
    character(*), intent(in) :: variable
    integer, intent(out) :: extents(:)
    integer, intent(out), optional :: stat
    type(c_ptr) :: file_c
    character(:, c_char), allocatable, target :: variable_c
    integer(c_int) :: ndim
    integer(c_int64_t), allocatable, target :: extents_c(:)
    integer(c_int) :: status
    file_c = file%handle
    variable_c = trim(variable) // c_null_char
    ndim = int(size(extents), c_int)
    allocate(extents_c(size(extents)))
    extents_c = 0
    call gr_fortran_call('ndim=size(extents);' // c_null_char)
    status = c_gr_file_extents(file_c, c_loc(variable_c), ndim, c_loc(extents_c))
    if (status == 0) extents = int(extents_c(ndim:1:-1))
    call ended(status, stat)
  end subroutine

  !> Name of the dimension of one axis of a variable.
  subroutine gr_file_dimension(file, variable, ndim, axis, name, stat)
    type(gr_file), intent(in) :: file
    character(*), intent(in) :: variable
    integer, intent(in) :: ndim
    integer, intent(in) :: axis
    character(:), allocatable, intent(out) :: name
    integer, intent(out), optional :: stat
    type(c_ptr) :: file_c
    character(:, c_char), allocatable, target :: variable_c
    integer(c_int) :: ndim_c
    integer(c_int) :: axis_c
    type(c_ptr), target :: name_c
    integer(c_int) :: status
    file_c = file%handle
    variable_c = trim(variable) // c_null_char
    ndim_c = int(ndim, c_int)
    axis_c = int(ndim - axis, c_int)
    name_c = c_null_ptr
    call gr_fortran_call('' // c_null_char)
    status = c_gr_file_dimension(file_c, c_loc(variable_c), ndim_c, axis_c, c_loc(name_c))
    if (status == 0) name = text_at(name_c)
    call ended(status, stat)
  end subroutine

  !> Values of the coordinate of a dimension, on every rank. Latitudes and longitudes in radians become degrees,
  !> other units of these are refused. Collective.
  subroutine gr_file_coordinate(file, dimension, values, stat)
    type(gr_file), intent(in) :: file
    character(*), intent(in) :: dimension
    real(c_double), intent(out) :: values(:)
    integer, intent(out), optional :: stat
    type(c_ptr) :: file_c
    character(:, c_char), allocatable, target :: dimension_c
    integer(c_int) :: num_values
    real(c_double), allocatable, target :: values_c(:)
    integer(c_int) :: status
    file_c = file%handle
    dimension_c = trim(dimension) // c_null_char
    num_values = int(size(values), c_int)
    allocate(values_c(size(values)))
    values_c = 0
    call gr_fortran_call('num_values=size(values);' // c_null_char)
    status = c_gr_file_coordinate(file_c, c_loc(dimension_c), num_values, c_loc(values_c))
    if (status == 0) values = values_c
    call ended(status, stat)
  end subroutine

  !> Calendar of a coordinate of time as files name it: `standard` (where there is no attribute, too),
  !> `proleptic_gregorian`, `julian`, `noleap`, `all_leap` or `360_day`.
  subroutine gr_file_calendar(file, dimension, calendar, stat)
    type(gr_file), intent(in) :: file
    character(*), intent(in) :: dimension
    character(:), allocatable, intent(out) :: calendar
    integer, intent(out), optional :: stat
    type(c_ptr) :: file_c
    character(:, c_char), allocatable, target :: dimension_c
    type(c_ptr), target :: calendar_c
    integer(c_int) :: status
    file_c = file%handle
    dimension_c = trim(dimension) // c_null_char
    calendar_c = c_null_ptr
    call gr_fortran_call('' // c_null_char)
    status = c_gr_file_calendar(file_c, c_loc(dimension_c), c_loc(calendar_c))
    if (status == 0) calendar = text_at(calendar_c)
    call ended(status, stat)
  end subroutine

  !> Times of a coordinate in units such as `hours since 2000-01-01`, as whole seconds since 1970-01-01 00:00 of its
  !> calendar, which has 365 days a year if it is `noleap`. Collective.
  subroutine gr_file_times(file, dimension, times, stat)
    type(gr_file), intent(in) :: file
    character(*), intent(in) :: dimension
    integer(c_int64_t), intent(out) :: times(:)
    integer, intent(out), optional :: stat
    type(c_ptr) :: file_c
    character(:, c_char), allocatable, target :: dimension_c
    integer(c_int) :: num_times
    integer(c_int64_t), allocatable, target :: times_c(:)
    integer(c_int) :: status
    file_c = file%handle
    dimension_c = trim(dimension) // c_null_char
    num_times = int(size(times), c_int)
    allocate(times_c(size(times)))
    times_c = 0
    call gr_fortran_call('num_times=size(times);' // c_null_char)
    status = c_gr_file_times(file_c, c_loc(dimension_c), num_times, c_loc(times_c))
    if (status == 0) times = times_c
    call ended(status, stat)
  end subroutine

  !> Seconds from 1970-01-01 00:00 to a date of a calendar. Not collective.
  !> Example: 2001-03-01 in `noleap` is 31 * 365 + 59 days later.
  subroutine gr_time_of_date(calendar, year, month, day, second, time, stat)
    character(*), intent(in) :: calendar
    integer, intent(in) :: year
    integer, intent(in) :: month
    integer, intent(in) :: day
    integer, intent(in) :: second
    integer(c_int64_t), intent(out) :: time
    integer, intent(out), optional :: stat
    character(:, c_char), allocatable, target :: calendar_c
    integer(c_int) :: year_c
    integer(c_int) :: month_c
    integer(c_int) :: day_c
    integer(c_int) :: second_c
    integer(c_int64_t), target :: time_c
    integer(c_int) :: status
    calendar_c = trim(calendar) // c_null_char
    year_c = int(year, c_int)
    month_c = int(month, c_int)
    day_c = int(day, c_int)
    second_c = int(second, c_int)
    time_c = 0
    call gr_fortran_call('' // c_null_char)
    status = c_gr_time_of_date(c_loc(calendar_c), year_c, month_c, day_c, second_c, c_loc(time_c))
    if (status == 0) time = time_c
    call ended(status, stat)
  end subroutine

  !> The inverse. Not collective.
  subroutine gr_date_of_time(calendar, time, year, month, day, second, stat)
    character(*), intent(in) :: calendar
    integer(c_int64_t), intent(in) :: time
    integer, intent(out) :: year
    integer, intent(out) :: month
    integer, intent(out) :: day
    integer, intent(out) :: second
    integer, intent(out), optional :: stat
    character(:, c_char), allocatable, target :: calendar_c
    integer(c_int64_t) :: time_c
    integer(c_int), target :: year_c
    integer(c_int), target :: month_c
    integer(c_int), target :: day_c
    integer(c_int), target :: second_c
    integer(c_int) :: status
    calendar_c = trim(calendar) // c_null_char
    time_c = time
    year_c = 0
    month_c = 0
    day_c = 0
    second_c = 0
    call gr_fortran_call('' // c_null_char)
    status = c_gr_date_of_time(c_loc(calendar_c), time_c, c_loc(year_c), c_loc(month_c), c_loc(day_c), &
        c_loc(second_c))
    if (status == 0) year = year_c
    if (status == 0) month = month_c
    if (status == 0) day = day_c
    if (status == 0) second = second_c
    call ended(status, stat)
  end subroutine

  !> Text of an attribute; empty where there is none, or a number.
  subroutine gr_file_attribute_text(file, variable, attribute, text, stat)
    type(gr_file), intent(in) :: file
    character(*), intent(in), optional :: variable
    character(*), intent(in) :: attribute
    character(:), allocatable, intent(out) :: text
    integer, intent(out), optional :: stat
    type(c_ptr) :: file_c
    character(:, c_char), allocatable, target :: variable_c
    character(:, c_char), allocatable, target :: attribute_c
    type(c_ptr), target :: text_c
    type(c_ptr) :: variable_p
    integer(c_int) :: status
    file_c = file%handle
    if (present(variable)) then
    variable_c = trim(variable) // c_null_char
    end if
    attribute_c = trim(attribute) // c_null_char
    text_c = c_null_ptr
    variable_p = c_null_ptr
    if (present(variable)) variable_p = c_loc(variable_c)
    call gr_fortran_call('' // c_null_char)
    status = c_gr_file_attribute_text(file_c, variable_p, c_loc(attribute_c), c_loc(text_c))
    if (status == 0) text = text_at(text_c)
    call ended(status, stat)
  end subroutine

  !> Numbers of an attribute.
  subroutine gr_file_attribute_numbers(file, variable, attribute, num_numbers, numbers, stat)
    type(gr_file), intent(in) :: file
    character(*), intent(in), optional :: variable
    character(*), intent(in) :: attribute
    integer, intent(out) :: num_numbers
    real(c_double), intent(out) :: numbers(:)
    integer, intent(out), optional :: stat
    type(c_ptr) :: file_c
    character(:, c_char), allocatable, target :: variable_c
    character(:, c_char), allocatable, target :: attribute_c
    integer(c_int) :: most_numbers
    integer(c_int), target :: num_numbers_c
    real(c_double), allocatable, target :: numbers_c(:)
    type(c_ptr) :: variable_p
    integer(c_int) :: status
    file_c = file%handle
    if (present(variable)) then
    variable_c = trim(variable) // c_null_char
    end if
    attribute_c = trim(attribute) // c_null_char
    most_numbers = int(size(numbers), c_int)
    num_numbers_c = 0
    allocate(numbers_c(size(numbers)))
    numbers_c = 0
    variable_p = c_null_ptr
    if (present(variable)) variable_p = c_loc(variable_c)
    call gr_fortran_call('most_numbers=size(numbers);' // c_null_char)
    status = c_gr_file_attribute_numbers(file_c, variable_p, c_loc(attribute_c), most_numbers, c_loc(num_numbers_c), &
        c_loc(numbers_c))
    if (status == 0) num_numbers = num_numbers_c
    if (status == 0) numbers = numbers_c
    call ended(status, stat)
  end subroutine

  !> Reads a box of a variable into a field of any type and strides. Collective; each rank passes its own box.
  !>
  !> Packed values are unpacked; missing values become NaN: `_FillValue`, `missing_value`, what `valid_min`, `valid_max`
  !> and `valid_range` exclude, and, without `_FillValue`, netCDF's default fill value, except in bytes and in integers
  !> that are not packed. `first` of the field is the element of the first cell read.
  !> Example: a file with z(time, latitude, longitude), and a field of 2 axes: box {5, 10, 0} to {6, 20, 480} is read
  !> into 10 x 480 elements, because without `axes` the field has the last axes of the variable.
  subroutine gr_file_read_field(file, variable, lower, upper, steps, axes, field, stat)
    type(gr_file), intent(in) :: file
    character(*), intent(in) :: variable
    integer, intent(in) :: lower(:)
    integer, intent(in) :: upper(:)
    integer, intent(in), optional :: steps(:)
    integer, intent(in), optional :: axes(:)
    type(gr_field), intent(in), target :: field
    integer, intent(out), optional :: stat
    type(c_ptr) :: file_c
    character(:, c_char), allocatable, target :: variable_c
    integer(c_int) :: ndim
    integer(c_int64_t), allocatable, target :: lower_c(:)
    integer(c_int64_t), allocatable, target :: upper_c(:)
    integer(c_int64_t), allocatable, target :: steps_c(:)
    integer(c_int) :: num_axes
    integer(c_int), allocatable, target :: axes_c(:)
    type(c_ptr) :: steps_p
    type(c_ptr) :: axes_p
    integer(c_int) :: status
    file_c = file%handle
    variable_c = trim(variable) // c_null_char
    ndim = int(size(lower), c_int)
    if (size(upper) /= ndim) then
    call wrong_size('gr_file_read', 'upper', int(size(upper), c_int), ndim, stat)
    return
    end if
    if (present(steps)) then
    if (size(steps) /= ndim) then
    call wrong_size('gr_file_read', 'steps', int(size(steps), c_int), ndim, stat)
    return
    end if
    end if
    lower_c = int(lower(ndim:1:-1) - 1, c_int64_t)
    upper_c = int(upper(ndim:1:-1), c_int64_t)
    if (present(steps)) then
    steps_c = int(steps(ndim:1:-1), c_int64_t)
    end if
    num_axes = 0
    if (present(axes)) num_axes = int(size(axes), c_int)
    if (present(axes)) then
    axes_c = int(merge(-1, int(ndim) - axes(num_axes:1:-1), axes(num_axes:1:-1) == 0), c_int)
    end if
    steps_p = c_null_ptr
    if (present(steps)) steps_p = c_loc(steps_c)
    axes_p = c_null_ptr
    if (present(axes)) axes_p = c_loc(axes_c)
    call gr_fortran_call('ndim=size(lower);num_axes=size(axes);' // c_null_char)
    status = c_gr_file_read(file_c, c_loc(variable_c), ndim, c_loc(lower_c), c_loc(upper_c), steps_p, num_axes, &
        axes_p, c_loc(field))
    call ended(status, stat)
  end subroutine

  subroutine gr_file_read_int8(file, variable, lower, upper, steps, axes, field, stat)
    type(gr_file), intent(in) :: file
    character(*), intent(in) :: variable
    integer, intent(in) :: lower(:)
    integer, intent(in) :: upper(:)
    integer, intent(in), optional :: steps(:)
    integer, intent(in), optional :: axes(:)
    integer(c_int8_t), GR_WHOLE, target, intent(inout) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_file_read_field(file=file, variable=variable, lower=lower, upper=upper, steps=steps, axes=axes, &
        field=field_field, stat=stat)
  end subroutine

  subroutine gr_file_read_int16(file, variable, lower, upper, steps, axes, field, stat)
    type(gr_file), intent(in) :: file
    character(*), intent(in) :: variable
    integer, intent(in) :: lower(:)
    integer, intent(in) :: upper(:)
    integer, intent(in), optional :: steps(:)
    integer, intent(in), optional :: axes(:)
    integer(c_int16_t), GR_WHOLE, target, intent(inout) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_file_read_field(file=file, variable=variable, lower=lower, upper=upper, steps=steps, axes=axes, &
        field=field_field, stat=stat)
  end subroutine

  subroutine gr_file_read_int32(file, variable, lower, upper, steps, axes, field, stat)
    type(gr_file), intent(in) :: file
    character(*), intent(in) :: variable
    integer, intent(in) :: lower(:)
    integer, intent(in) :: upper(:)
    integer, intent(in), optional :: steps(:)
    integer, intent(in), optional :: axes(:)
    integer(c_int32_t), GR_WHOLE, target, intent(inout) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_file_read_field(file=file, variable=variable, lower=lower, upper=upper, steps=steps, axes=axes, &
        field=field_field, stat=stat)
  end subroutine

  subroutine gr_file_read_int64(file, variable, lower, upper, steps, axes, field, stat)
    type(gr_file), intent(in) :: file
    character(*), intent(in) :: variable
    integer, intent(in) :: lower(:)
    integer, intent(in) :: upper(:)
    integer, intent(in), optional :: steps(:)
    integer, intent(in), optional :: axes(:)
    integer(c_int64_t), GR_WHOLE, target, intent(inout) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_file_read_field(file=file, variable=variable, lower=lower, upper=upper, steps=steps, axes=axes, &
        field=field_field, stat=stat)
  end subroutine

  subroutine gr_file_read_real32(file, variable, lower, upper, steps, axes, field, stat)
    type(gr_file), intent(in) :: file
    character(*), intent(in) :: variable
    integer, intent(in) :: lower(:)
    integer, intent(in) :: upper(:)
    integer, intent(in), optional :: steps(:)
    integer, intent(in), optional :: axes(:)
    real(c_float), GR_WHOLE, target, intent(inout) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_file_read_field(file=file, variable=variable, lower=lower, upper=upper, steps=steps, axes=axes, &
        field=field_field, stat=stat)
  end subroutine

  subroutine gr_file_read_real64(file, variable, lower, upper, steps, axes, field, stat)
    type(gr_file), intent(in) :: file
    character(*), intent(in) :: variable
    integer, intent(in) :: lower(:)
    integer, intent(in) :: upper(:)
    integer, intent(in), optional :: steps(:)
    integer, intent(in), optional :: axes(:)
    real(c_double), GR_WHOLE, target, intent(inout) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_file_read_field(file=file, variable=variable, lower=lower, upper=upper, steps=steps, axes=axes, &
        field=field_field, stat=stat)
  end subroutine

  subroutine gr_file_read_complex32(file, variable, lower, upper, steps, axes, field, stat)
    type(gr_file), intent(in) :: file
    character(*), intent(in) :: variable
    integer, intent(in) :: lower(:)
    integer, intent(in) :: upper(:)
    integer, intent(in), optional :: steps(:)
    integer, intent(in), optional :: axes(:)
    complex(c_float_complex), GR_WHOLE, target, intent(inout) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_file_read_field(file=file, variable=variable, lower=lower, upper=upper, steps=steps, axes=axes, &
        field=field_field, stat=stat)
  end subroutine

  subroutine gr_file_read_complex64(file, variable, lower, upper, steps, axes, field, stat)
    type(gr_file), intent(in) :: file
    character(*), intent(in) :: variable
    integer, intent(in) :: lower(:)
    integer, intent(in) :: upper(:)
    integer, intent(in), optional :: steps(:)
    integer, intent(in), optional :: axes(:)
    complex(c_double_complex), GR_WHOLE, target, intent(inout) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_file_read_field(file=file, variable=variable, lower=lower, upper=upper, steps=steps, axes=axes, &
        field=field_field, stat=stat)
  end subroutine

  subroutine gr_file_read_bool(file, variable, lower, upper, steps, axes, field, stat)
    type(gr_file), intent(in) :: file
    character(*), intent(in) :: variable
    integer, intent(in) :: lower(:)
    integer, intent(in) :: upper(:)
    integer, intent(in), optional :: steps(:)
    integer, intent(in), optional :: axes(:)
    logical(c_bool), GR_WHOLE, target, intent(inout) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_file_read_field(file=file, variable=variable, lower=lower, upper=upper, steps=steps, axes=axes, &
        field=field_field, stat=stat)
  end subroutine

  subroutine gr_file_read_logical(file, variable, lower, upper, steps, axes, field, stat)
    type(gr_file), intent(in) :: file
    character(*), intent(in) :: variable
    integer, intent(in) :: lower(:)
    integer, intent(in) :: upper(:)
    integer, intent(in), optional :: steps(:)
    integer, intent(in), optional :: axes(:)
    logical, GR_WHOLE, target, intent(inout) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_file_read_field(file=file, variable=variable, lower=lower, upper=upper, steps=steps, axes=axes, &
        field=field_field, stat=stat)
  end subroutine

  !> Starts a netCDF-4 file, or a Zarr store where the name ends in `.zarr`, which gets its name when it is committed.
  !> Collective.
  subroutine gr_writer_create(comm, path, attributes, writer, stat)
    type(gr_comm), intent(in) :: comm
    character(*), intent(in) :: path
    type(gr_attributes), intent(in), optional :: attributes
    type(gr_writer), intent(inout) :: writer
    integer, intent(out), optional :: stat
    type(c_ptr) :: comm_c
    character(:, c_char), allocatable, target :: path_c
    type(c_ptr) :: attributes_c
    type(c_ptr), target :: writer_c
    integer(c_int) :: status
    attributes_c = c_null_ptr
    comm_c = comm%handle
    path_c = trim(path) // c_null_char
    if (present(attributes)) then
    attributes_c = attributes%handle
    end if
    writer_c = writer%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_writer_create(comm_c, c_loc(path_c), attributes_c, c_loc(writer_c))
    writer%handle = writer_c
    call ended(status, stat)
  end subroutine

  !> Opens a netCDF-4 file, or a Zarr store of version 3, to append records. Collective.
  !>
  !> Extend its unlimited dimension, write every variable along it, the coordinate last, and commit.
  subroutine gr_writer_append(comm, path, in_place, writer, stat)
    type(gr_comm), intent(in) :: comm
    character(*), intent(in) :: path
    logical, intent(in), optional :: in_place
    type(gr_writer), intent(inout) :: writer
    integer, intent(out), optional :: stat
    type(c_ptr) :: comm_c
    character(:, c_char), allocatable, target :: path_c
    integer(c_int) :: in_place_c
    type(c_ptr), target :: writer_c
    integer(c_int) :: status
    comm_c = comm%handle
    path_c = trim(path) // c_null_char
    in_place_c = 0
    if (present(in_place)) then
    in_place_c = merge(1_c_int, 0_c_int, in_place)
    end if
    writer_c = writer%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_writer_append(comm_c, c_loc(path_c), in_place_c, c_loc(writer_c))
    writer%handle = writer_c
    call ended(status, stat)
  end subroutine

  !> Frees a writer; removes what it wrote unless it was committed. Collective.
  subroutine gr_writer_destroy(writer, stat)
    type(gr_writer), intent(inout) :: writer
    integer, intent(out), optional :: stat
    type(c_ptr), target :: writer_c
    integer(c_int) :: status
    writer_c = writer%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_writer_destroy(c_loc(writer_c))
    writer%handle = writer_c
    call ended(status, stat)
  end subroutine

  !> Adds a dimension. Collective.
  subroutine gr_writer_add_dimension(writer, name, extent, unlimited, stat)
    type(gr_writer), intent(inout) :: writer
    character(*), intent(in) :: name
    integer, intent(in) :: extent
    logical, intent(in), optional :: unlimited
    integer, intent(out), optional :: stat
    type(c_ptr) :: writer_c
    character(:, c_char), allocatable, target :: name_c
    integer(c_int64_t) :: extent_c
    integer(c_int) :: unlimited_c
    integer(c_int) :: status
    writer_c = writer%handle
    name_c = trim(name) // c_null_char
    extent_c = int(extent, c_int64_t)
    unlimited_c = 0
    if (present(unlimited)) then
    unlimited_c = merge(1_c_int, 0_c_int, unlimited)
    end if
    call gr_fortran_call('' // c_null_char)
    status = c_gr_writer_add_dimension(writer_c, c_loc(name_c), extent_c, unlimited_c)
    call ended(status, stat)
  end subroutine

  !> Adds a dimension and its coordinate. Collective.
  subroutine gr_writer_add_coordinate(writer, name, values, type, attributes, stat)
    type(gr_writer), intent(inout) :: writer
    character(*), intent(in) :: name
    real(c_double), intent(in) :: values(:)
    integer, intent(in) :: type
    type(gr_attributes), intent(in), optional :: attributes
    integer, intent(out), optional :: stat
    type(c_ptr) :: writer_c
    character(:, c_char), allocatable, target :: name_c
    integer(c_int) :: num_values
    real(c_double), allocatable, target :: values_c(:)
    integer(c_int) :: type_c
    type(c_ptr) :: attributes_c
    integer(c_int) :: status
    attributes_c = c_null_ptr
    writer_c = writer%handle
    name_c = trim(name) // c_null_char
    num_values = int(size(values), c_int)
    values_c = values
    type_c = int(type, c_int)
    if (present(attributes)) then
    attributes_c = attributes%handle
    end if
    call gr_fortran_call('num_values=size(values);' // c_null_char)
    status = c_gr_writer_add_coordinate(writer_c, c_loc(name_c), num_values, c_loc(values_c), type_c, attributes_c)
    call ended(status, stat)
  end subroutine

  !> Adds a variable. Collective.
  subroutine gr_writer_add_variable(writer, name, dimensions, type, options, attributes, stat)
    type(gr_writer), intent(inout) :: writer
    character(*), intent(in) :: name
    character(*), intent(in) :: dimensions
    integer, intent(in) :: type
    type(gr_variable_options), intent(in), optional :: options
    type(gr_attributes), intent(in), optional :: attributes
    integer, intent(out), optional :: stat
    type(c_ptr) :: writer_c
    character(:, c_char), allocatable, target :: name_c
    character(:, c_char), allocatable, target :: dimensions_c
    integer(c_int) :: type_c
    type(gr_variable_options), target :: options_c
    type(c_ptr) :: attributes_c
    type(c_ptr) :: options_p
    integer(c_int) :: status
    attributes_c = c_null_ptr
    writer_c = writer%handle
    name_c = trim(name) // c_null_char
    dimensions_c = reversed_words(dimensions) // c_null_char
    type_c = int(type, c_int)
    if (present(options)) then
    options_c = in_c_order(options)
    options_c%size = c_sizeof(options_c)
    end if
    if (present(attributes)) then
    attributes_c = attributes%handle
    end if
    options_p = c_null_ptr
    if (present(options)) options_p = c_loc(options_c)
    call gr_fortran_call('' // c_null_char)
    status = c_gr_writer_add_variable(writer_c, c_loc(name_c), c_loc(dimensions_c), type_c, options_p, attributes_c)
    call ended(status, stat)
  end subroutine

  !> Makes an unlimited dimension longer. Collective.
  subroutine gr_writer_extend(writer, dimension, count, stat)
    type(gr_writer), intent(inout) :: writer
    character(*), intent(in) :: dimension
    integer, intent(in) :: count
    integer, intent(out), optional :: stat
    type(c_ptr) :: writer_c
    character(:, c_char), allocatable, target :: dimension_c
    integer(c_int64_t) :: count_c
    integer(c_int) :: status
    writer_c = writer%handle
    dimension_c = trim(dimension) // c_null_char
    count_c = int(count, c_int64_t)
    call gr_fortran_call('' // c_null_char)
    status = c_gr_writer_extend(writer_c, c_loc(dimension_c), count_c)
    call ended(status, stat)
  end subroutine

  !> Writes a box of a variable from a field of any type and strides; arguments as `gr_file_read`. Collective.
  !>
  !> Each rank passes its own box, which may be empty; every cell is written once, by one rank.
  subroutine gr_writer_write_field(writer, variable, lower, upper, steps, axes, field, stat)
    type(gr_writer), intent(inout) :: writer
    character(*), intent(in) :: variable
    integer, intent(in) :: lower(:)
    integer, intent(in) :: upper(:)
    integer, intent(in), optional :: steps(:)
    integer, intent(in), optional :: axes(:)
    type(gr_field), intent(in), target :: field
    integer, intent(out), optional :: stat
    type(c_ptr) :: writer_c
    character(:, c_char), allocatable, target :: variable_c
    integer(c_int) :: ndim
    integer(c_int64_t), allocatable, target :: lower_c(:)
    integer(c_int64_t), allocatable, target :: upper_c(:)
    integer(c_int64_t), allocatable, target :: steps_c(:)
    integer(c_int) :: num_axes
    integer(c_int), allocatable, target :: axes_c(:)
    type(c_ptr) :: steps_p
    type(c_ptr) :: axes_p
    integer(c_int) :: status
    writer_c = writer%handle
    variable_c = trim(variable) // c_null_char
    ndim = int(size(lower), c_int)
    if (size(upper) /= ndim) then
    call wrong_size('gr_writer_write', 'upper', int(size(upper), c_int), ndim, stat)
    return
    end if
    if (present(steps)) then
    if (size(steps) /= ndim) then
    call wrong_size('gr_writer_write', 'steps', int(size(steps), c_int), ndim, stat)
    return
    end if
    end if
    lower_c = int(lower(ndim:1:-1) - 1, c_int64_t)
    upper_c = int(upper(ndim:1:-1), c_int64_t)
    if (present(steps)) then
    steps_c = int(steps(ndim:1:-1), c_int64_t)
    end if
    num_axes = 0
    if (present(axes)) num_axes = int(size(axes), c_int)
    if (present(axes)) then
    axes_c = int(merge(-1, int(ndim) - axes(num_axes:1:-1), axes(num_axes:1:-1) == 0), c_int)
    end if
    steps_p = c_null_ptr
    if (present(steps)) steps_p = c_loc(steps_c)
    axes_p = c_null_ptr
    if (present(axes)) axes_p = c_loc(axes_c)
    call gr_fortran_call('ndim=size(lower);num_axes=size(axes);' // c_null_char)
    status = c_gr_writer_write(writer_c, c_loc(variable_c), ndim, c_loc(lower_c), c_loc(upper_c), steps_p, num_axes, &
        axes_p, c_loc(field))
    call ended(status, stat)
  end subroutine

  subroutine gr_writer_write_int8(writer, variable, lower, upper, steps, axes, field, stat)
    type(gr_writer), intent(inout) :: writer
    character(*), intent(in) :: variable
    integer, intent(in) :: lower(:)
    integer, intent(in) :: upper(:)
    integer, intent(in), optional :: steps(:)
    integer, intent(in), optional :: axes(:)
    integer(c_int8_t), GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_writer_write_field(writer=writer, variable=variable, lower=lower, upper=upper, steps=steps, axes=axes, &
        field=field_field, stat=stat)
  end subroutine

  subroutine gr_writer_write_int16(writer, variable, lower, upper, steps, axes, field, stat)
    type(gr_writer), intent(inout) :: writer
    character(*), intent(in) :: variable
    integer, intent(in) :: lower(:)
    integer, intent(in) :: upper(:)
    integer, intent(in), optional :: steps(:)
    integer, intent(in), optional :: axes(:)
    integer(c_int16_t), GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_writer_write_field(writer=writer, variable=variable, lower=lower, upper=upper, steps=steps, axes=axes, &
        field=field_field, stat=stat)
  end subroutine

  subroutine gr_writer_write_int32(writer, variable, lower, upper, steps, axes, field, stat)
    type(gr_writer), intent(inout) :: writer
    character(*), intent(in) :: variable
    integer, intent(in) :: lower(:)
    integer, intent(in) :: upper(:)
    integer, intent(in), optional :: steps(:)
    integer, intent(in), optional :: axes(:)
    integer(c_int32_t), GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_writer_write_field(writer=writer, variable=variable, lower=lower, upper=upper, steps=steps, axes=axes, &
        field=field_field, stat=stat)
  end subroutine

  subroutine gr_writer_write_int64(writer, variable, lower, upper, steps, axes, field, stat)
    type(gr_writer), intent(inout) :: writer
    character(*), intent(in) :: variable
    integer, intent(in) :: lower(:)
    integer, intent(in) :: upper(:)
    integer, intent(in), optional :: steps(:)
    integer, intent(in), optional :: axes(:)
    integer(c_int64_t), GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_writer_write_field(writer=writer, variable=variable, lower=lower, upper=upper, steps=steps, axes=axes, &
        field=field_field, stat=stat)
  end subroutine

  subroutine gr_writer_write_real32(writer, variable, lower, upper, steps, axes, field, stat)
    type(gr_writer), intent(inout) :: writer
    character(*), intent(in) :: variable
    integer, intent(in) :: lower(:)
    integer, intent(in) :: upper(:)
    integer, intent(in), optional :: steps(:)
    integer, intent(in), optional :: axes(:)
    real(c_float), GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_writer_write_field(writer=writer, variable=variable, lower=lower, upper=upper, steps=steps, axes=axes, &
        field=field_field, stat=stat)
  end subroutine

  subroutine gr_writer_write_real64(writer, variable, lower, upper, steps, axes, field, stat)
    type(gr_writer), intent(inout) :: writer
    character(*), intent(in) :: variable
    integer, intent(in) :: lower(:)
    integer, intent(in) :: upper(:)
    integer, intent(in), optional :: steps(:)
    integer, intent(in), optional :: axes(:)
    real(c_double), GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_writer_write_field(writer=writer, variable=variable, lower=lower, upper=upper, steps=steps, axes=axes, &
        field=field_field, stat=stat)
  end subroutine

  subroutine gr_writer_write_complex32(writer, variable, lower, upper, steps, axes, field, stat)
    type(gr_writer), intent(inout) :: writer
    character(*), intent(in) :: variable
    integer, intent(in) :: lower(:)
    integer, intent(in) :: upper(:)
    integer, intent(in), optional :: steps(:)
    integer, intent(in), optional :: axes(:)
    complex(c_float_complex), GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_writer_write_field(writer=writer, variable=variable, lower=lower, upper=upper, steps=steps, axes=axes, &
        field=field_field, stat=stat)
  end subroutine

  subroutine gr_writer_write_complex64(writer, variable, lower, upper, steps, axes, field, stat)
    type(gr_writer), intent(inout) :: writer
    character(*), intent(in) :: variable
    integer, intent(in) :: lower(:)
    integer, intent(in) :: upper(:)
    integer, intent(in), optional :: steps(:)
    integer, intent(in), optional :: axes(:)
    complex(c_double_complex), GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_writer_write_field(writer=writer, variable=variable, lower=lower, upper=upper, steps=steps, axes=axes, &
        field=field_field, stat=stat)
  end subroutine

  subroutine gr_writer_write_bool(writer, variable, lower, upper, steps, axes, field, stat)
    type(gr_writer), intent(inout) :: writer
    character(*), intent(in) :: variable
    integer, intent(in) :: lower(:)
    integer, intent(in) :: upper(:)
    integer, intent(in), optional :: steps(:)
    integer, intent(in), optional :: axes(:)
    logical(c_bool), GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_writer_write_field(writer=writer, variable=variable, lower=lower, upper=upper, steps=steps, axes=axes, &
        field=field_field, stat=stat)
  end subroutine

  subroutine gr_writer_write_logical(writer, variable, lower, upper, steps, axes, field, stat)
    type(gr_writer), intent(inout) :: writer
    character(*), intent(in) :: variable
    integer, intent(in) :: lower(:)
    integer, intent(in) :: upper(:)
    integer, intent(in), optional :: steps(:)
    integer, intent(in), optional :: axes(:)
    logical, GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_writer_write_field(writer=writer, variable=variable, lower=lower, upper=upper, steps=steps, axes=axes, &
        field=field_field, stat=stat)
  end subroutine

  !> Writes values that every rank holds with the same bits, such as a time: all ranks pass the same box and field, of
  !> which one is written. A number (a field without axes) is one cell of any variable. Collective.
  !>
  !> Example in Fortran: `call gr_writer_write_replicated(writer, 'time', [n], [n], field=t)`.
  subroutine gr_writer_write_replicated_field(writer, variable, lower, upper, steps, axes, field, stat)
    type(gr_writer), intent(inout) :: writer
    character(*), intent(in) :: variable
    integer, intent(in) :: lower(:)
    integer, intent(in) :: upper(:)
    integer, intent(in), optional :: steps(:)
    integer, intent(in), optional :: axes(:)
    type(gr_field), intent(in), target :: field
    integer, intent(out), optional :: stat
    type(c_ptr) :: writer_c
    character(:, c_char), allocatable, target :: variable_c
    integer(c_int) :: ndim
    integer(c_int64_t), allocatable, target :: lower_c(:)
    integer(c_int64_t), allocatable, target :: upper_c(:)
    integer(c_int64_t), allocatable, target :: steps_c(:)
    integer(c_int) :: num_axes
    integer(c_int), allocatable, target :: axes_c(:)
    type(c_ptr) :: steps_p
    type(c_ptr) :: axes_p
    integer(c_int) :: status
    writer_c = writer%handle
    variable_c = trim(variable) // c_null_char
    ndim = int(size(lower), c_int)
    if (size(upper) /= ndim) then
    call wrong_size('gr_writer_write_replicated', 'upper', int(size(upper), c_int), ndim, stat)
    return
    end if
    if (present(steps)) then
    if (size(steps) /= ndim) then
    call wrong_size('gr_writer_write_replicated', 'steps', int(size(steps), c_int), ndim, stat)
    return
    end if
    end if
    lower_c = int(lower(ndim:1:-1) - 1, c_int64_t)
    upper_c = int(upper(ndim:1:-1), c_int64_t)
    if (present(steps)) then
    steps_c = int(steps(ndim:1:-1), c_int64_t)
    end if
    num_axes = 0
    if (present(axes)) num_axes = int(size(axes), c_int)
    if (present(axes)) then
    axes_c = int(merge(-1, int(ndim) - axes(num_axes:1:-1), axes(num_axes:1:-1) == 0), c_int)
    end if
    steps_p = c_null_ptr
    if (present(steps)) steps_p = c_loc(steps_c)
    axes_p = c_null_ptr
    if (present(axes)) axes_p = c_loc(axes_c)
    call gr_fortran_call('ndim=size(lower);num_axes=size(axes);' // c_null_char)
    status = c_gr_writer_write_replicated(writer_c, c_loc(variable_c), ndim, c_loc(lower_c), c_loc(upper_c), &
        steps_p, num_axes, axes_p, c_loc(field))
    call ended(status, stat)
  end subroutine

  subroutine gr_writer_write_replicated_int8(writer, variable, lower, upper, steps, axes, field, stat)
    type(gr_writer), intent(inout) :: writer
    character(*), intent(in) :: variable
    integer, intent(in) :: lower(:)
    integer, intent(in) :: upper(:)
    integer, intent(in), optional :: steps(:)
    integer, intent(in), optional :: axes(:)
    integer(c_int8_t), GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_writer_write_replicated_field(writer=writer, variable=variable, lower=lower, upper=upper, steps=steps, &
        axes=axes, field=field_field, stat=stat)
  end subroutine

  subroutine gr_writer_write_replicated_int16(writer, variable, lower, upper, steps, axes, field, stat)
    type(gr_writer), intent(inout) :: writer
    character(*), intent(in) :: variable
    integer, intent(in) :: lower(:)
    integer, intent(in) :: upper(:)
    integer, intent(in), optional :: steps(:)
    integer, intent(in), optional :: axes(:)
    integer(c_int16_t), GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_writer_write_replicated_field(writer=writer, variable=variable, lower=lower, upper=upper, steps=steps, &
        axes=axes, field=field_field, stat=stat)
  end subroutine

  subroutine gr_writer_write_replicated_int32(writer, variable, lower, upper, steps, axes, field, stat)
    type(gr_writer), intent(inout) :: writer
    character(*), intent(in) :: variable
    integer, intent(in) :: lower(:)
    integer, intent(in) :: upper(:)
    integer, intent(in), optional :: steps(:)
    integer, intent(in), optional :: axes(:)
    integer(c_int32_t), GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_writer_write_replicated_field(writer=writer, variable=variable, lower=lower, upper=upper, steps=steps, &
        axes=axes, field=field_field, stat=stat)
  end subroutine

  subroutine gr_writer_write_replicated_int64(writer, variable, lower, upper, steps, axes, field, stat)
    type(gr_writer), intent(inout) :: writer
    character(*), intent(in) :: variable
    integer, intent(in) :: lower(:)
    integer, intent(in) :: upper(:)
    integer, intent(in), optional :: steps(:)
    integer, intent(in), optional :: axes(:)
    integer(c_int64_t), GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_writer_write_replicated_field(writer=writer, variable=variable, lower=lower, upper=upper, steps=steps, &
        axes=axes, field=field_field, stat=stat)
  end subroutine

  subroutine gr_writer_write_replicated_real32(writer, variable, lower, upper, steps, axes, field, stat)
    type(gr_writer), intent(inout) :: writer
    character(*), intent(in) :: variable
    integer, intent(in) :: lower(:)
    integer, intent(in) :: upper(:)
    integer, intent(in), optional :: steps(:)
    integer, intent(in), optional :: axes(:)
    real(c_float), GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_writer_write_replicated_field(writer=writer, variable=variable, lower=lower, upper=upper, steps=steps, &
        axes=axes, field=field_field, stat=stat)
  end subroutine

  subroutine gr_writer_write_replicated_real64(writer, variable, lower, upper, steps, axes, field, stat)
    type(gr_writer), intent(inout) :: writer
    character(*), intent(in) :: variable
    integer, intent(in) :: lower(:)
    integer, intent(in) :: upper(:)
    integer, intent(in), optional :: steps(:)
    integer, intent(in), optional :: axes(:)
    real(c_double), GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_writer_write_replicated_field(writer=writer, variable=variable, lower=lower, upper=upper, steps=steps, &
        axes=axes, field=field_field, stat=stat)
  end subroutine

  subroutine gr_writer_write_replicated_complex32(writer, variable, lower, upper, steps, axes, field, stat)
    type(gr_writer), intent(inout) :: writer
    character(*), intent(in) :: variable
    integer, intent(in) :: lower(:)
    integer, intent(in) :: upper(:)
    integer, intent(in), optional :: steps(:)
    integer, intent(in), optional :: axes(:)
    complex(c_float_complex), GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_writer_write_replicated_field(writer=writer, variable=variable, lower=lower, upper=upper, steps=steps, &
        axes=axes, field=field_field, stat=stat)
  end subroutine

  subroutine gr_writer_write_replicated_complex64(writer, variable, lower, upper, steps, axes, field, stat)
    type(gr_writer), intent(inout) :: writer
    character(*), intent(in) :: variable
    integer, intent(in) :: lower(:)
    integer, intent(in) :: upper(:)
    integer, intent(in), optional :: steps(:)
    integer, intent(in), optional :: axes(:)
    complex(c_double_complex), GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_writer_write_replicated_field(writer=writer, variable=variable, lower=lower, upper=upper, steps=steps, &
        axes=axes, field=field_field, stat=stat)
  end subroutine

  subroutine gr_writer_write_replicated_bool(writer, variable, lower, upper, steps, axes, field, stat)
    type(gr_writer), intent(inout) :: writer
    character(*), intent(in) :: variable
    integer, intent(in) :: lower(:)
    integer, intent(in) :: upper(:)
    integer, intent(in), optional :: steps(:)
    integer, intent(in), optional :: axes(:)
    logical(c_bool), GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_writer_write_replicated_field(writer=writer, variable=variable, lower=lower, upper=upper, steps=steps, &
        axes=axes, field=field_field, stat=stat)
  end subroutine

  subroutine gr_writer_write_replicated_logical(writer, variable, lower, upper, steps, axes, field, stat)
    type(gr_writer), intent(inout) :: writer
    character(*), intent(in) :: variable
    integer, intent(in) :: lower(:)
    integer, intent(in) :: upper(:)
    integer, intent(in), optional :: steps(:)
    integer, intent(in), optional :: axes(:)
    logical, GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_writer_write_replicated_field(writer=writer, variable=variable, lower=lower, upper=upper, steps=steps, &
        axes=axes, field=field_field, stat=stat)
  end subroutine

  !> Completes the file and gives it its name. Collective. Fails while cells are missing.
  subroutine gr_writer_commit(writer, stat)
    type(gr_writer), intent(inout) :: writer
    integer, intent(out), optional :: stat
    type(c_ptr) :: writer_c
    integer(c_int) :: status
    writer_c = writer%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_writer_commit(writer_c)
    call ended(status, stat)
  end subroutine

  !> The checkpoints of a run in one folder. Collective; does not access the disk.
  subroutine gr_checkpoints_create(comm, folder, keep, checkpoints, stat)
    type(gr_comm), intent(in) :: comm
    character(*), intent(in) :: folder
    integer, intent(in), optional :: keep
    type(gr_checkpoints), intent(inout) :: checkpoints
    integer, intent(out), optional :: stat
    type(c_ptr) :: comm_c
    character(:, c_char), allocatable, target :: folder_c
    integer(c_int) :: keep_c
    type(c_ptr), target :: checkpoints_c
    integer(c_int) :: status
    comm_c = comm%handle
    folder_c = trim(folder) // c_null_char
    keep_c = 3
    if (present(keep)) then
    keep_c = int(keep, c_int)
    end if
    checkpoints_c = checkpoints%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_checkpoints_create(comm_c, c_loc(folder_c), keep_c, c_loc(checkpoints_c))
    checkpoints%handle = checkpoints_c
    call ended(status, stat)
  end subroutine

  !> Frees the handle; files remain.
  subroutine gr_checkpoints_destroy(checkpoints, stat)
    type(gr_checkpoints), intent(inout) :: checkpoints
    integer, intent(out), optional :: stat
    type(c_ptr), target :: checkpoints_c
    integer(c_int) :: status
    checkpoints_c = checkpoints%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_checkpoints_destroy(c_loc(checkpoints_c))
    checkpoints%handle = checkpoints_c
    call ended(status, stat)
  end subroutine

  !> Starts a checkpoint. Collective.
  subroutine gr_checkpoint_begin(checkpoints, step, writer, stat)
    type(gr_checkpoints), intent(inout) :: checkpoints
    integer(c_int64_t), intent(in) :: step
    type(gr_checkpoint_writer), intent(inout) :: writer
    integer, intent(out), optional :: stat
    type(c_ptr) :: checkpoints_c
    integer(c_int64_t) :: step_c
    type(c_ptr), target :: writer_c
    integer(c_int) :: status
    checkpoints_c = checkpoints%handle
    step_c = step
    writer_c = writer%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_checkpoint_begin(checkpoints_c, step_c, c_loc(writer_c))
    writer%handle = writer_c
    call ended(status, stat)
  end subroutine

  !> Frees a writer; removes what it wrote unless it was committed. Collective.
  subroutine gr_checkpoint_writer_destroy(writer, stat)
    type(gr_checkpoint_writer), intent(inout) :: writer
    integer, intent(out), optional :: stat
    type(c_ptr), target :: writer_c
    integer(c_int) :: status
    writer_c = writer%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_checkpoint_writer_destroy(c_loc(writer_c))
    writer%handle = writer_c
    call ended(status, stat)
  end subroutine

  !> Writes the cells that this rank owns, with all batch axes. Collective.
  subroutine gr_checkpoint_add_field(writer, name, layout, field, stat)
    type(gr_checkpoint_writer), intent(inout) :: writer
    character(*), intent(in) :: name
    type(gr_layout), intent(in) :: layout
    type(gr_field), intent(in), target :: field
    integer, intent(out), optional :: stat
    type(c_ptr) :: writer_c
    character(:, c_char), allocatable, target :: name_c
    type(c_ptr) :: layout_c
    integer(c_int) :: status
    writer_c = writer%handle
    name_c = trim(name) // c_null_char
    layout_c = layout%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_checkpoint_add(writer_c, c_loc(name_c), layout_c, c_loc(field))
    call ended(status, stat)
  end subroutine

  subroutine gr_checkpoint_add_int8(writer, name, layout, field, stat)
    type(gr_checkpoint_writer), intent(inout) :: writer
    character(*), intent(in) :: name
    type(gr_layout), intent(in) :: layout
    integer(c_int8_t), GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_add_field(writer=writer, name=name, layout=layout, field=field_field, stat=stat)
  end subroutine

  subroutine gr_checkpoint_add_int16(writer, name, layout, field, stat)
    type(gr_checkpoint_writer), intent(inout) :: writer
    character(*), intent(in) :: name
    type(gr_layout), intent(in) :: layout
    integer(c_int16_t), GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_add_field(writer=writer, name=name, layout=layout, field=field_field, stat=stat)
  end subroutine

  subroutine gr_checkpoint_add_int32(writer, name, layout, field, stat)
    type(gr_checkpoint_writer), intent(inout) :: writer
    character(*), intent(in) :: name
    type(gr_layout), intent(in) :: layout
    integer(c_int32_t), GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_add_field(writer=writer, name=name, layout=layout, field=field_field, stat=stat)
  end subroutine

  subroutine gr_checkpoint_add_int64(writer, name, layout, field, stat)
    type(gr_checkpoint_writer), intent(inout) :: writer
    character(*), intent(in) :: name
    type(gr_layout), intent(in) :: layout
    integer(c_int64_t), GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_add_field(writer=writer, name=name, layout=layout, field=field_field, stat=stat)
  end subroutine

  subroutine gr_checkpoint_add_real32(writer, name, layout, field, stat)
    type(gr_checkpoint_writer), intent(inout) :: writer
    character(*), intent(in) :: name
    type(gr_layout), intent(in) :: layout
    real(c_float), GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_add_field(writer=writer, name=name, layout=layout, field=field_field, stat=stat)
  end subroutine

  subroutine gr_checkpoint_add_real64(writer, name, layout, field, stat)
    type(gr_checkpoint_writer), intent(inout) :: writer
    character(*), intent(in) :: name
    type(gr_layout), intent(in) :: layout
    real(c_double), GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_add_field(writer=writer, name=name, layout=layout, field=field_field, stat=stat)
  end subroutine

  subroutine gr_checkpoint_add_complex32(writer, name, layout, field, stat)
    type(gr_checkpoint_writer), intent(inout) :: writer
    character(*), intent(in) :: name
    type(gr_layout), intent(in) :: layout
    complex(c_float_complex), GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_add_field(writer=writer, name=name, layout=layout, field=field_field, stat=stat)
  end subroutine

  subroutine gr_checkpoint_add_complex64(writer, name, layout, field, stat)
    type(gr_checkpoint_writer), intent(inout) :: writer
    character(*), intent(in) :: name
    type(gr_layout), intent(in) :: layout
    complex(c_double_complex), GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_add_field(writer=writer, name=name, layout=layout, field=field_field, stat=stat)
  end subroutine

  subroutine gr_checkpoint_add_bool(writer, name, layout, field, stat)
    type(gr_checkpoint_writer), intent(inout) :: writer
    character(*), intent(in) :: name
    type(gr_layout), intent(in) :: layout
    logical(c_bool), GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_add_field(writer=writer, name=name, layout=layout, field=field_field, stat=stat)
  end subroutine

  subroutine gr_checkpoint_add_logical(writer, name, layout, field, stat)
    type(gr_checkpoint_writer), intent(inout) :: writer
    character(*), intent(in) :: name
    type(gr_layout), intent(in) :: layout
    logical, GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_add_field(writer=writer, name=name, layout=layout, field=field_field, stat=stat)
  end subroutine

  !> Writes a field that every rank holds whole, with the same bits. Collective.
  subroutine gr_checkpoint_add_replicated_field(writer, name, field, stat)
    type(gr_checkpoint_writer), intent(inout) :: writer
    character(*), intent(in) :: name
    type(gr_field), intent(in), target :: field
    integer, intent(out), optional :: stat
    type(c_ptr) :: writer_c
    character(:, c_char), allocatable, target :: name_c
    integer(c_int) :: status
    writer_c = writer%handle
    name_c = trim(name) // c_null_char
    call gr_fortran_call('' // c_null_char)
    status = c_gr_checkpoint_add_replicated(writer_c, c_loc(name_c), c_loc(field))
    call ended(status, stat)
  end subroutine

  subroutine gr_checkpoint_add_replicated_int8(writer, name, field, stat)
    type(gr_checkpoint_writer), intent(inout) :: writer
    character(*), intent(in) :: name
    integer(c_int8_t), GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_add_replicated_field(writer=writer, name=name, field=field_field, stat=stat)
  end subroutine

  subroutine gr_checkpoint_add_replicated_int16(writer, name, field, stat)
    type(gr_checkpoint_writer), intent(inout) :: writer
    character(*), intent(in) :: name
    integer(c_int16_t), GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_add_replicated_field(writer=writer, name=name, field=field_field, stat=stat)
  end subroutine

  subroutine gr_checkpoint_add_replicated_int32(writer, name, field, stat)
    type(gr_checkpoint_writer), intent(inout) :: writer
    character(*), intent(in) :: name
    integer(c_int32_t), GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_add_replicated_field(writer=writer, name=name, field=field_field, stat=stat)
  end subroutine

  subroutine gr_checkpoint_add_replicated_int64(writer, name, field, stat)
    type(gr_checkpoint_writer), intent(inout) :: writer
    character(*), intent(in) :: name
    integer(c_int64_t), GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_add_replicated_field(writer=writer, name=name, field=field_field, stat=stat)
  end subroutine

  subroutine gr_checkpoint_add_replicated_real32(writer, name, field, stat)
    type(gr_checkpoint_writer), intent(inout) :: writer
    character(*), intent(in) :: name
    real(c_float), GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_add_replicated_field(writer=writer, name=name, field=field_field, stat=stat)
  end subroutine

  subroutine gr_checkpoint_add_replicated_real64(writer, name, field, stat)
    type(gr_checkpoint_writer), intent(inout) :: writer
    character(*), intent(in) :: name
    real(c_double), GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_add_replicated_field(writer=writer, name=name, field=field_field, stat=stat)
  end subroutine

  subroutine gr_checkpoint_add_replicated_complex32(writer, name, field, stat)
    type(gr_checkpoint_writer), intent(inout) :: writer
    character(*), intent(in) :: name
    complex(c_float_complex), GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_add_replicated_field(writer=writer, name=name, field=field_field, stat=stat)
  end subroutine

  subroutine gr_checkpoint_add_replicated_complex64(writer, name, field, stat)
    type(gr_checkpoint_writer), intent(inout) :: writer
    character(*), intent(in) :: name
    complex(c_double_complex), GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_add_replicated_field(writer=writer, name=name, field=field_field, stat=stat)
  end subroutine

  subroutine gr_checkpoint_add_replicated_bool(writer, name, field, stat)
    type(gr_checkpoint_writer), intent(inout) :: writer
    character(*), intent(in) :: name
    logical(c_bool), GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_add_replicated_field(writer=writer, name=name, field=field_field, stat=stat)
  end subroutine

  subroutine gr_checkpoint_add_replicated_logical(writer, name, field, stat)
    type(gr_checkpoint_writer), intent(inout) :: writer
    character(*), intent(in) :: name
    logical, GR_WHOLE, target, intent(in) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_add_replicated_field(writer=writer, name=name, field=field_field, stat=stat)
  end subroutine

  !> Writes integers that are equal on all ranks; a single one as a number, several as a list. Collective.
  subroutine gr_checkpoint_add_integers(writer, name, values, stat)
    type(gr_checkpoint_writer), intent(inout) :: writer
    character(*), intent(in) :: name
    integer(c_int64_t), intent(in) :: values(:)
    integer, intent(out), optional :: stat
    type(c_ptr) :: writer_c
    character(:, c_char), allocatable, target :: name_c
    integer(c_int) :: num_values
    integer(c_int64_t), allocatable, target :: values_c(:)
    integer(c_int) :: status
    writer_c = writer%handle
    name_c = trim(name) // c_null_char
    num_values = int(size(values), c_int)
    values_c = int(values, c_int64_t)
    call gr_fortran_call('num_values=size(values);' // c_null_char)
    status = c_gr_checkpoint_add_integers(writer_c, c_loc(name_c), num_values, c_loc(values_c))
    call ended(status, stat)
  end subroutine

  !> Writes real numbers that are equal on all ranks; a single one as a number, several as a list. Collective.
  subroutine gr_checkpoint_add_reals(writer, name, values, stat)
    type(gr_checkpoint_writer), intent(inout) :: writer
    character(*), intent(in) :: name
    real(c_double), intent(in) :: values(:)
    integer, intent(out), optional :: stat
    type(c_ptr) :: writer_c
    character(:, c_char), allocatable, target :: name_c
    integer(c_int) :: num_values
    real(c_double), allocatable, target :: values_c(:)
    integer(c_int) :: status
    writer_c = writer%handle
    name_c = trim(name) // c_null_char
    num_values = int(size(values), c_int)
    values_c = values
    call gr_fortran_call('num_values=size(values);' // c_null_char)
    status = c_gr_checkpoint_add_reals(writer_c, c_loc(name_c), num_values, c_loc(values_c))
    call ended(status, stat)
  end subroutine

  !> Writes a text that is equal on all ranks. Collective.
  subroutine gr_checkpoint_add_text(writer, name, text, stat)
    type(gr_checkpoint_writer), intent(inout) :: writer
    character(*), intent(in) :: name
    character(*), intent(in) :: text
    integer, intent(out), optional :: stat
    type(c_ptr) :: writer_c
    character(:, c_char), allocatable, target :: name_c
    character(:, c_char), allocatable, target :: text_c
    integer(c_int) :: status
    writer_c = writer%handle
    name_c = trim(name) // c_null_char
    text_c = trim(text) // c_null_char
    call gr_fortran_call('' // c_null_char)
    status = c_gr_checkpoint_add_text(writer_c, c_loc(name_c), c_loc(text_c))
    call ended(status, stat)
  end subroutine

  !> Completes the checkpoint, gives it its name, and removes old ones. Collective.
  subroutine gr_checkpoint_commit(writer, stat)
    type(gr_checkpoint_writer), intent(inout) :: writer
    integer, intent(out), optional :: stat
    type(c_ptr) :: writer_c
    integer(c_int) :: status
    writer_c = writer%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_checkpoint_commit(writer_c)
    call ended(status, stat)
  end subroutine

  !> Opens the newest checkpoint whose contents are valid. Collective.
  subroutine gr_checkpoints_newest(checkpoints, checkpoint, stat)
    type(gr_checkpoints), intent(inout) :: checkpoints
    type(gr_checkpoint), intent(inout) :: checkpoint
    integer, intent(out), optional :: stat
    type(c_ptr) :: checkpoints_c
    type(c_ptr), target :: checkpoint_c
    integer(c_int) :: status
    checkpoints_c = checkpoints%handle
    checkpoint_c = checkpoint%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_checkpoints_newest(checkpoints_c, c_loc(checkpoint_c))
    checkpoint%handle = checkpoint_c
    call ended(status, stat)
  end subroutine

  !> Files that the last `gr_checkpoints_newest` skipped, a line each with the reason.
  subroutine gr_checkpoints_skipped(checkpoints, text, stat)
    type(gr_checkpoints), intent(in) :: checkpoints
    character(:), allocatable, intent(out) :: text
    integer, intent(out), optional :: stat
    type(c_ptr) :: checkpoints_c
    type(c_ptr), target :: text_c
    integer(c_int) :: status
    checkpoints_c = checkpoints%handle
    text_c = c_null_ptr
    call gr_fortran_call('' // c_null_char)
    status = c_gr_checkpoints_skipped(checkpoints_c, c_loc(text_c))
    if (status == 0) text = text_at(text_c)
    call ended(status, stat)
  end subroutine

  !> Opens a checkpoint by its name. Collective.
  subroutine gr_checkpoint_open(comm, path, checkpoint, stat)
    type(gr_comm), intent(in) :: comm
    character(*), intent(in) :: path
    type(gr_checkpoint), intent(inout) :: checkpoint
    integer, intent(out), optional :: stat
    type(c_ptr) :: comm_c
    character(:, c_char), allocatable, target :: path_c
    type(c_ptr), target :: checkpoint_c
    integer(c_int) :: status
    comm_c = comm%handle
    path_c = trim(path) // c_null_char
    checkpoint_c = checkpoint%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_checkpoint_open(comm_c, c_loc(path_c), c_loc(checkpoint_c))
    checkpoint%handle = checkpoint_c
    call ended(status, stat)
  end subroutine

  !> Closes a checkpoint.
  subroutine gr_checkpoint_close(checkpoint, stat)
    type(gr_checkpoint), intent(inout) :: checkpoint
    integer, intent(out), optional :: stat
    type(c_ptr), target :: checkpoint_c
    integer(c_int) :: status
    checkpoint_c = checkpoint%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_checkpoint_close(c_loc(checkpoint_c))
    checkpoint%handle = checkpoint_c
    call ended(status, stat)
  end subroutine

  !> Step count with which it was begun.
  subroutine gr_checkpoint_step(checkpoint, step, stat)
    type(gr_checkpoint), intent(in) :: checkpoint
    integer(c_int64_t), intent(out) :: step
    integer, intent(out), optional :: stat
    type(c_ptr) :: checkpoint_c
    integer(c_int64_t), target :: step_c
    integer(c_int) :: status
    checkpoint_c = checkpoint%handle
    step_c = 0
    call gr_fortran_call('' // c_null_char)
    status = c_gr_checkpoint_step(checkpoint_c, c_loc(step_c))
    if (status == 0) step = step_c
    call ended(status, stat)
  end subroutine

  !> File of a checkpoint.
  subroutine gr_checkpoint_path(checkpoint, path, stat)
    type(gr_checkpoint), intent(in) :: checkpoint
    character(:), allocatable, intent(out) :: path
    integer, intent(out), optional :: stat
    type(c_ptr) :: checkpoint_c
    type(c_ptr), target :: path_c
    integer(c_int) :: status
    checkpoint_c = checkpoint%handle
    path_c = c_null_ptr
    call gr_fortran_call('' // c_null_char)
    status = c_gr_checkpoint_path(checkpoint_c, c_loc(path_c))
    if (status == 0) path = text_at(path_c)
    call ended(status, stat)
  end subroutine

  !> Whether it has a field or a value of a name.
  subroutine gr_checkpoint_has(checkpoint, name, found, stat)
    type(gr_checkpoint), intent(in) :: checkpoint
    character(*), intent(in) :: name
    logical, intent(out) :: found
    integer, intent(out), optional :: stat
    type(c_ptr) :: checkpoint_c
    character(:, c_char), allocatable, target :: name_c
    integer(c_int), target :: found_c
    integer(c_int) :: status
    checkpoint_c = checkpoint%handle
    name_c = trim(name) // c_null_char
    found_c = 0
    call gr_fortran_call('' // c_null_char)
    status = c_gr_checkpoint_has(checkpoint_c, c_loc(name_c), c_loc(found_c))
    if (status == 0) found = found_c /= 0
    call ended(status, stat)
  end subroutine

  !> Fills the cells that this rank owns in a layout, which may differ from that of the program that wrote. Collective.
  subroutine gr_checkpoint_read_field(checkpoint, name, layout, field, stat)
    type(gr_checkpoint), intent(in) :: checkpoint
    character(*), intent(in) :: name
    type(gr_layout), intent(in) :: layout
    type(gr_field), intent(in), target :: field
    integer, intent(out), optional :: stat
    type(c_ptr) :: checkpoint_c
    character(:, c_char), allocatable, target :: name_c
    type(c_ptr) :: layout_c
    integer(c_int) :: status
    checkpoint_c = checkpoint%handle
    name_c = trim(name) // c_null_char
    layout_c = layout%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_checkpoint_read(checkpoint_c, c_loc(name_c), layout_c, c_loc(field))
    call ended(status, stat)
  end subroutine

  subroutine gr_checkpoint_read_int8(checkpoint, name, layout, field, stat)
    type(gr_checkpoint), intent(in) :: checkpoint
    character(*), intent(in) :: name
    type(gr_layout), intent(in) :: layout
    integer(c_int8_t), GR_WHOLE, target, intent(inout) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_read_field(checkpoint=checkpoint, name=name, layout=layout, field=field_field, stat=stat)
  end subroutine

  subroutine gr_checkpoint_read_int16(checkpoint, name, layout, field, stat)
    type(gr_checkpoint), intent(in) :: checkpoint
    character(*), intent(in) :: name
    type(gr_layout), intent(in) :: layout
    integer(c_int16_t), GR_WHOLE, target, intent(inout) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_read_field(checkpoint=checkpoint, name=name, layout=layout, field=field_field, stat=stat)
  end subroutine

  subroutine gr_checkpoint_read_int32(checkpoint, name, layout, field, stat)
    type(gr_checkpoint), intent(in) :: checkpoint
    character(*), intent(in) :: name
    type(gr_layout), intent(in) :: layout
    integer(c_int32_t), GR_WHOLE, target, intent(inout) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_read_field(checkpoint=checkpoint, name=name, layout=layout, field=field_field, stat=stat)
  end subroutine

  subroutine gr_checkpoint_read_int64(checkpoint, name, layout, field, stat)
    type(gr_checkpoint), intent(in) :: checkpoint
    character(*), intent(in) :: name
    type(gr_layout), intent(in) :: layout
    integer(c_int64_t), GR_WHOLE, target, intent(inout) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_read_field(checkpoint=checkpoint, name=name, layout=layout, field=field_field, stat=stat)
  end subroutine

  subroutine gr_checkpoint_read_real32(checkpoint, name, layout, field, stat)
    type(gr_checkpoint), intent(in) :: checkpoint
    character(*), intent(in) :: name
    type(gr_layout), intent(in) :: layout
    real(c_float), GR_WHOLE, target, intent(inout) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_read_field(checkpoint=checkpoint, name=name, layout=layout, field=field_field, stat=stat)
  end subroutine

  subroutine gr_checkpoint_read_real64(checkpoint, name, layout, field, stat)
    type(gr_checkpoint), intent(in) :: checkpoint
    character(*), intent(in) :: name
    type(gr_layout), intent(in) :: layout
    real(c_double), GR_WHOLE, target, intent(inout) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_read_field(checkpoint=checkpoint, name=name, layout=layout, field=field_field, stat=stat)
  end subroutine

  subroutine gr_checkpoint_read_complex32(checkpoint, name, layout, field, stat)
    type(gr_checkpoint), intent(in) :: checkpoint
    character(*), intent(in) :: name
    type(gr_layout), intent(in) :: layout
    complex(c_float_complex), GR_WHOLE, target, intent(inout) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_read_field(checkpoint=checkpoint, name=name, layout=layout, field=field_field, stat=stat)
  end subroutine

  subroutine gr_checkpoint_read_complex64(checkpoint, name, layout, field, stat)
    type(gr_checkpoint), intent(in) :: checkpoint
    character(*), intent(in) :: name
    type(gr_layout), intent(in) :: layout
    complex(c_double_complex), GR_WHOLE, target, intent(inout) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_read_field(checkpoint=checkpoint, name=name, layout=layout, field=field_field, stat=stat)
  end subroutine

  subroutine gr_checkpoint_read_bool(checkpoint, name, layout, field, stat)
    type(gr_checkpoint), intent(in) :: checkpoint
    character(*), intent(in) :: name
    type(gr_layout), intent(in) :: layout
    logical(c_bool), GR_WHOLE, target, intent(inout) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_read_field(checkpoint=checkpoint, name=name, layout=layout, field=field_field, stat=stat)
  end subroutine

  subroutine gr_checkpoint_read_logical(checkpoint, name, layout, field, stat)
    type(gr_checkpoint), intent(in) :: checkpoint
    character(*), intent(in) :: name
    type(gr_layout), intent(in) :: layout
    logical, GR_WHOLE, target, intent(inout) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_read_field(checkpoint=checkpoint, name=name, layout=layout, field=field_field, stat=stat)
  end subroutine

  !> Reads a whole field on every rank. Collective.
  subroutine gr_checkpoint_read_replicated_field(checkpoint, name, field, stat)
    type(gr_checkpoint), intent(in) :: checkpoint
    character(*), intent(in) :: name
    type(gr_field), intent(in), target :: field
    integer, intent(out), optional :: stat
    type(c_ptr) :: checkpoint_c
    character(:, c_char), allocatable, target :: name_c
    integer(c_int) :: status
    checkpoint_c = checkpoint%handle
    name_c = trim(name) // c_null_char
    call gr_fortran_call('' // c_null_char)
    status = c_gr_checkpoint_read_replicated(checkpoint_c, c_loc(name_c), c_loc(field))
    call ended(status, stat)
  end subroutine

  subroutine gr_checkpoint_read_replicated_int8(checkpoint, name, field, stat)
    type(gr_checkpoint), intent(in) :: checkpoint
    character(*), intent(in) :: name
    integer(c_int8_t), GR_WHOLE, target, intent(inout) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_read_replicated_field(checkpoint=checkpoint, name=name, field=field_field, stat=stat)
  end subroutine

  subroutine gr_checkpoint_read_replicated_int16(checkpoint, name, field, stat)
    type(gr_checkpoint), intent(in) :: checkpoint
    character(*), intent(in) :: name
    integer(c_int16_t), GR_WHOLE, target, intent(inout) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_read_replicated_field(checkpoint=checkpoint, name=name, field=field_field, stat=stat)
  end subroutine

  subroutine gr_checkpoint_read_replicated_int32(checkpoint, name, field, stat)
    type(gr_checkpoint), intent(in) :: checkpoint
    character(*), intent(in) :: name
    integer(c_int32_t), GR_WHOLE, target, intent(inout) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_read_replicated_field(checkpoint=checkpoint, name=name, field=field_field, stat=stat)
  end subroutine

  subroutine gr_checkpoint_read_replicated_int64(checkpoint, name, field, stat)
    type(gr_checkpoint), intent(in) :: checkpoint
    character(*), intent(in) :: name
    integer(c_int64_t), GR_WHOLE, target, intent(inout) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_read_replicated_field(checkpoint=checkpoint, name=name, field=field_field, stat=stat)
  end subroutine

  subroutine gr_checkpoint_read_replicated_real32(checkpoint, name, field, stat)
    type(gr_checkpoint), intent(in) :: checkpoint
    character(*), intent(in) :: name
    real(c_float), GR_WHOLE, target, intent(inout) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_read_replicated_field(checkpoint=checkpoint, name=name, field=field_field, stat=stat)
  end subroutine

  subroutine gr_checkpoint_read_replicated_real64(checkpoint, name, field, stat)
    type(gr_checkpoint), intent(in) :: checkpoint
    character(*), intent(in) :: name
    real(c_double), GR_WHOLE, target, intent(inout) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_read_replicated_field(checkpoint=checkpoint, name=name, field=field_field, stat=stat)
  end subroutine

  subroutine gr_checkpoint_read_replicated_complex32(checkpoint, name, field, stat)
    type(gr_checkpoint), intent(in) :: checkpoint
    character(*), intent(in) :: name
    complex(c_float_complex), GR_WHOLE, target, intent(inout) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_read_replicated_field(checkpoint=checkpoint, name=name, field=field_field, stat=stat)
  end subroutine

  subroutine gr_checkpoint_read_replicated_complex64(checkpoint, name, field, stat)
    type(gr_checkpoint), intent(in) :: checkpoint
    character(*), intent(in) :: name
    complex(c_double_complex), GR_WHOLE, target, intent(inout) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_read_replicated_field(checkpoint=checkpoint, name=name, field=field_field, stat=stat)
  end subroutine

  subroutine gr_checkpoint_read_replicated_bool(checkpoint, name, field, stat)
    type(gr_checkpoint), intent(in) :: checkpoint
    character(*), intent(in) :: name
    logical(c_bool), GR_WHOLE, target, intent(inout) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_read_replicated_field(checkpoint=checkpoint, name=name, field=field_field, stat=stat)
  end subroutine

  subroutine gr_checkpoint_read_replicated_logical(checkpoint, name, field, stat)
    type(gr_checkpoint), intent(in) :: checkpoint
    character(*), intent(in) :: name
    logical, GR_WHOLE, target, intent(inout) :: field
    integer, intent(out), optional :: stat
    type(gr_field), target :: field_field
    call describe_whole(field, field_field)
    call gr_fortran_arrays()
    call gr_checkpoint_read_replicated_field(checkpoint=checkpoint, name=name, field=field_field, stat=stat)
  end subroutine

  !> Whether reading converts between F32 and F64 from now on, for a run that continues in another precision. Without it
  !> a field of another type than the saved one is refused. Fields in host memory.
  subroutine gr_checkpoint_convert(checkpoint, converts, stat)
    type(gr_checkpoint), intent(inout) :: checkpoint
    logical, intent(in) :: converts
    integer, intent(out), optional :: stat
    type(c_ptr) :: checkpoint_c
    integer(c_int) :: converts_c
    integer(c_int) :: status
    checkpoint_c = checkpoint%handle
    converts_c = merge(1_c_int, 0_c_int, converts)
    call gr_fortran_call('' // c_null_char)
    status = c_gr_checkpoint_convert(checkpoint_c, converts_c)
    call ended(status, stat)
  end subroutine

  !> Reads integers.
  subroutine gr_checkpoint_integers(checkpoint, name, values, stat)
    type(gr_checkpoint), intent(in) :: checkpoint
    character(*), intent(in) :: name
    integer(c_int64_t), intent(out) :: values(:)
    integer, intent(out), optional :: stat
    type(c_ptr) :: checkpoint_c
    character(:, c_char), allocatable, target :: name_c
    integer(c_int) :: num_values
    integer(c_int64_t), allocatable, target :: values_c(:)
    integer(c_int) :: status
    checkpoint_c = checkpoint%handle
    name_c = trim(name) // c_null_char
    num_values = int(size(values), c_int)
    allocate(values_c(size(values)))
    values_c = 0
    call gr_fortran_call('num_values=size(values);' // c_null_char)
    status = c_gr_checkpoint_integers(checkpoint_c, c_loc(name_c), num_values, c_loc(values_c))
    if (status == 0) values = values_c
    call ended(status, stat)
  end subroutine

  !> Reads real numbers.
  subroutine gr_checkpoint_reals(checkpoint, name, values, stat)
    type(gr_checkpoint), intent(in) :: checkpoint
    character(*), intent(in) :: name
    real(c_double), intent(out) :: values(:)
    integer, intent(out), optional :: stat
    type(c_ptr) :: checkpoint_c
    character(:, c_char), allocatable, target :: name_c
    integer(c_int) :: num_values
    real(c_double), allocatable, target :: values_c(:)
    integer(c_int) :: status
    checkpoint_c = checkpoint%handle
    name_c = trim(name) // c_null_char
    num_values = int(size(values), c_int)
    allocate(values_c(size(values)))
    values_c = 0
    call gr_fortran_call('num_values=size(values);' // c_null_char)
    status = c_gr_checkpoint_reals(checkpoint_c, c_loc(name_c), num_values, c_loc(values_c))
    if (status == 0) values = values_c
    call ended(status, stat)
  end subroutine

  !> Reads a text.
  subroutine gr_checkpoint_text(checkpoint, name, text, stat)
    type(gr_checkpoint), intent(in) :: checkpoint
    character(*), intent(in) :: name
    character(:), allocatable, intent(out) :: text
    integer, intent(out), optional :: stat
    type(c_ptr) :: checkpoint_c
    character(:, c_char), allocatable, target :: name_c
    type(c_ptr), target :: text_c
    integer(c_int) :: status
    checkpoint_c = checkpoint%handle
    name_c = trim(name) // c_null_char
    text_c = c_null_ptr
    call gr_fortran_call('' // c_null_char)
    status = c_gr_checkpoint_text(checkpoint_c, c_loc(name_c), c_loc(text_c))
    if (status == 0) text = text_at(text_c)
    call ended(status, stat)
  end subroutine

  !> Reads all cells once and compares their checksums. Collective.
  subroutine gr_checkpoint_verify(checkpoint, stat)
    type(gr_checkpoint), intent(in) :: checkpoint
    integer, intent(out), optional :: stat
    type(c_ptr) :: checkpoint_c
    integer(c_int) :: status
    checkpoint_c = checkpoint%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_checkpoint_verify(checkpoint_c)
    call ended(status, stat)
  end subroutine

end module graticule_calls

!> All of it, with communicators of `mpi`, of `mpif.h` and of `mpi_f08`.
module graticule
  use, intrinsic :: iso_c_binding, only: c_int, c_int64_t
  use graticule_types
  use graticule_fields, only: gr_field
  use graticule_calls
#ifdef GRATICULE_MPI_F08
  use mpi_f08, only: MPI_Comm
#endif
  implicit none
  public
  private :: c_int, c_int64_t, FIELD_WORDS, gr_comm_create_integer, gr_comm_create_long, gr_comm_mpi_integer, gr_comm_mpi_long
#ifdef GRATICULE_MPI_F08
  private :: MPI_Comm, gr_comm_create_f08, gr_comm_mpi_f08
#endif

  interface gr_comm_create
    procedure gr_comm_create_integer
    module procedure gr_comm_create_long
#ifdef GRATICULE_MPI_F08
    module procedure gr_comm_create_f08
#endif
  end interface

  interface gr_comm_mpi
    procedure gr_comm_mpi_integer
    module procedure gr_comm_mpi_long
#ifdef GRATICULE_MPI_F08
    module procedure gr_comm_mpi_f08
#endif
  end interface

contains

  !> Duplicates a communicator whose handle is a default integer of 8 bytes. Collective.
  subroutine gr_comm_create_long(mpi, comm, stat)
    integer(c_int64_t), intent(in) :: mpi
    type(gr_comm), intent(inout) :: comm
    integer, intent(out), optional :: stat
    call gr_comm_create_integer(int(mpi, c_int), comm, stat)
  end subroutine

  !> Communicator of MPI behind it, to make communicators of the program from it.
  subroutine gr_comm_mpi_long(comm, mpi, stat)
    type(gr_comm), intent(in) :: comm
    integer(c_int64_t), intent(out) :: mpi
    integer, intent(out), optional :: stat
    integer(c_int) :: handle
    call gr_comm_mpi_integer(comm, handle, stat)
    mpi = handle
  end subroutine

#ifdef GRATICULE_MPI_F08
  !> Duplicates a communicator. Collective.
  subroutine gr_comm_create_f08(mpi, comm, stat)
    type(MPI_Comm), intent(in) :: mpi
    type(gr_comm), intent(inout) :: comm
    integer, intent(out), optional :: stat
    call gr_comm_create_integer(int(mpi%MPI_VAL, c_int), comm, stat)
  end subroutine

  !> Communicator of MPI behind it, to make communicators of the program from it.
  subroutine gr_comm_mpi_f08(comm, mpi, stat)
    type(gr_comm), intent(in) :: comm
    type(MPI_Comm), intent(out) :: mpi
    integer, intent(out), optional :: stat
    integer(c_int) :: handle
    call gr_comm_mpi_integer(comm, handle, stat)
    mpi%MPI_VAL = handle
  end subroutine
#endif
end module graticule
