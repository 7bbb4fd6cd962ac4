! SPDX-License-Identifier: BSD-3-Clause
! Made by scripts/bindings from graticule_nn.h and graticule_nn.F90.in: change those.
!
! Networks exported by PyTorch in a simulation code: `use graticule` and `use graticule_nn`. The interface is that of
! graticule_nn.h, with the conventions of the module graticule.

#ifdef GRATICULE_FORTRAN_DESCRIPTORS
#define GR_WHOLE dimension(..)
#else
#define GR_WHOLE dimension(..), contiguous
#endif

!> Constants and types.
module graticule_nn_types
  use, intrinsic :: iso_c_binding, only: c_int, c_int64_t, c_size_t, c_double, c_ptr, c_null_ptr
  implicit none
  public
  private :: c_int, c_int64_t, c_size_t, c_double, c_ptr, c_null_ptr

  integer, parameter :: GR_SGD = 0
  integer, parameter :: GR_ADAM = 1
  integer, parameter :: GR_ADAMW = 2

  !> an exported network, divided among the ranks
  type :: gr_net
    type(c_ptr) :: handle = c_null_ptr
  end type

  !> what changes the parameters of a network
  type :: gr_optimizer
    type(c_ptr) :: handle = c_null_ptr
  end type

  !> a network of graticule-train, which steps states in time
  type :: gr_forecaster
    type(c_ptr) :: handle = c_null_ptr
  end type

  type, bind(c) :: gr_net_options
    integer(c_size_t) :: size = 0  !< sizeof(gr_net_options)
    integer(c_int) :: has_type = 0  !< `type` is set; otherwise the network computes as it was exported
    integer(c_int) :: type = 0  !< real type to compute in: GR_F32, GR_F64 or GR_BF16
    integer(c_int) :: num_threads = 0  !< threads of LibTorch on this rank; 0: OMP_NUM_THREADS, or this rank's part of the cores
    integer(c_int) :: dropout = 0  !< dropout layers work in `gr_net_learn`; otherwise they are off
    integer(c_int64_t) :: largest_gather = 0  !< bytes of a value that every rank may hold whole; 0: 4 GiB
    integer(c_int) :: evaluation = 0  !< norms use their running statistics, as after model.eval(), in learning too
  end type

  type, bind(c) :: gr_optimizer_options
    integer(c_size_t) :: size = 0  !< sizeof(gr_optimizer_options)
    real(c_double) :: momentum = 0  !< of GR_SGD
    integer(c_int) :: has_betas = 0  !< `betas` is set; otherwise 0.9 and 0.999
    real(c_double) :: betas(2) = 0  !< decay of the averages of GR_ADAM and GR_ADAMW
    real(c_double) :: epsilon = 0  !< of GR_ADAM and GR_ADAMW; 0: 1e-8
    integer(c_int) :: has_decay = 0  !< `decay` is set; otherwise 0.01 for GR_ADAMW and 0 for the others
    real(c_double) :: decay = 0  !< decay of the weights
    real(c_double) :: most_gradient = 0  !< longer gradients (norm over all parameters) are shortened to it; 0: no limit
  end type
end module graticule_nn_types

!> The functions.
module graticule_nn
  use, intrinsic :: iso_c_binding
  use graticule_types, only: gr_comm, gr_layout, gr_field
  use graticule_nn_types
  use graticule_fields, only: describe_whole
  use graticule_support
  implicit none
  private
  public :: GR_SGD
  public :: GR_ADAM
  public :: GR_ADAMW
  public :: gr_net
  public :: gr_optimizer
  public :: gr_forecaster
  public :: gr_net_options
  public :: gr_optimizer_options
  public :: gr_net_load
  public :: gr_net_destroy
  public :: gr_net_num_inputs
  public :: gr_net_num_outputs
  public :: gr_net_input_name
  public :: gr_net_output_name
  public :: gr_net_text
  public :: gr_net_save
  public :: gr_net_bind_input
  public :: gr_net_bind_output
  public :: gr_net_bind_target
  public :: gr_net_run
  public :: gr_net_start
  public :: gr_net_finish
  public :: gr_optimizer_create
  public :: gr_optimizer_destroy
  public :: gr_optimizer_set_rate
  public :: gr_net_learn
  public :: gr_forecaster_load
  public :: gr_forecaster_destroy
  public :: gr_forecaster_text
  public :: gr_forecaster_num_channels
  public :: gr_forecaster_channel
  public :: gr_forecaster_step
  public :: gr_forecaster_calendar
  public :: gr_forecaster_set_calendar
  public :: gr_forecaster_next

  interface gr_net_bind_input
    module procedure gr_net_bind_input_list, gr_net_bind_input_one
  end interface

  interface gr_net_bind_output
    module procedure gr_net_bind_output_list, gr_net_bind_output_one
  end interface

  interface gr_net_bind_target
    module procedure gr_net_bind_target_list, gr_net_bind_target_one
  end interface

  interface gr_forecaster_next
    module procedure gr_forecaster_next_list, gr_forecaster_next_one, gr_forecaster_next_int8, &
        gr_forecaster_next_int16, gr_forecaster_next_int32, gr_forecaster_next_int64, gr_forecaster_next_real32, &
        gr_forecaster_next_real64, gr_forecaster_next_complex32, gr_forecaster_next_complex64, &
        gr_forecaster_next_bool, gr_forecaster_next_logical
  end interface

  interface
    function c_gr_net_load(comm, path, options, net) bind(c, name='gr_net_load') result(status)
      import
      type(c_ptr), value :: comm
      type(c_ptr), value :: path
      type(c_ptr), value :: options
      type(c_ptr), value :: net
      integer(c_int) :: status
    end function

    function c_gr_net_destroy(net) bind(c, name='gr_net_destroy') result(status)
      import
      type(c_ptr), value :: net
      integer(c_int) :: status
    end function

    function c_gr_net_num_inputs(net, num_inputs) bind(c, name='gr_net_num_inputs') result(status)
      import
      type(c_ptr), value :: net
      type(c_ptr), value :: num_inputs
      integer(c_int) :: status
    end function

    function c_gr_net_num_outputs(net, num_outputs) bind(c, name='gr_net_num_outputs') result(status)
      import
      type(c_ptr), value :: net
      type(c_ptr), value :: num_outputs
      integer(c_int) :: status
    end function

    function c_gr_net_input_name(net, input, name) bind(c, name='gr_net_input_name') result(status)
      import
      type(c_ptr), value :: net
      integer(c_int), value :: input
      type(c_ptr), value :: name
      integer(c_int) :: status
    end function

    function c_gr_net_output_name(net, output, name) bind(c, name='gr_net_output_name') result(status)
      import
      type(c_ptr), value :: net
      integer(c_int), value :: output
      type(c_ptr), value :: name
      integer(c_int) :: status
    end function

    function c_gr_net_text(net, text) bind(c, name='gr_net_text') result(status)
      import
      type(c_ptr), value :: net
      type(c_ptr), value :: text
      integer(c_int) :: status
    end function

    function c_gr_net_save(net, path) bind(c, name='gr_net_save') result(status)
      import
      type(c_ptr), value :: net
      type(c_ptr), value :: path
      integer(c_int) :: status
    end function

    function c_gr_net_bind_input(net, name, layout, num_fields, fields) bind(c, name='gr_net_bind_input') &
        result(status)
      import
      type(c_ptr), value :: net
      type(c_ptr), value :: name
      type(c_ptr), value :: layout
      integer(c_int), value :: num_fields
      type(c_ptr), value :: fields
      integer(c_int) :: status
    end function

    function c_gr_net_bind_output(net, name, layout, num_fields, fields) bind(c, name='gr_net_bind_output') &
        result(status)
      import
      type(c_ptr), value :: net
      type(c_ptr), value :: name
      type(c_ptr), value :: layout
      integer(c_int), value :: num_fields
      type(c_ptr), value :: fields
      integer(c_int) :: status
    end function

    function c_gr_net_bind_target(net, name, layout, num_fields, fields, scale, num_rows, weights) bind(c, &
        name='gr_net_bind_target') result(status)
      import
      type(c_ptr), value :: net
      type(c_ptr), value :: name
      type(c_ptr), value :: layout
      integer(c_int), value :: num_fields
      type(c_ptr), value :: fields
      real(c_double), value :: scale
      integer(c_int), value :: num_rows
      type(c_ptr), value :: weights
      integer(c_int) :: status
    end function

    function c_gr_net_run(net) bind(c, name='gr_net_run') result(status)
      import
      type(c_ptr), value :: net
      integer(c_int) :: status
    end function

    function c_gr_net_start(net) bind(c, name='gr_net_start') result(status)
      import
      type(c_ptr), value :: net
      integer(c_int) :: status
    end function

    function c_gr_net_finish(net) bind(c, name='gr_net_finish') result(status)
      import
      type(c_ptr), value :: net
      integer(c_int) :: status
    end function

    function c_gr_optimizer_create(net, kind, rate, options, optimizer) bind(c, name='gr_optimizer_create') &
        result(status)
      import
      type(c_ptr), value :: net
      integer(c_int), value :: kind
      real(c_double), value :: rate
      type(c_ptr), value :: options
      type(c_ptr), value :: optimizer
      integer(c_int) :: status
    end function

    function c_gr_optimizer_destroy(optimizer) bind(c, name='gr_optimizer_destroy') result(status)
      import
      type(c_ptr), value :: optimizer
      integer(c_int) :: status
    end function

    function c_gr_optimizer_set_rate(optimizer, rate) bind(c, name='gr_optimizer_set_rate') result(status)
      import
      type(c_ptr), value :: optimizer
      real(c_double), value :: rate
      integer(c_int) :: status
    end function

    function c_gr_net_learn(net, optimizer, loss) bind(c, name='gr_net_learn') result(status)
      import
      type(c_ptr), value :: net
      type(c_ptr), value :: optimizer
      type(c_ptr), value :: loss
      integer(c_int) :: status
    end function

    function c_gr_forecaster_load(comm, path, layout, num_threads, forecaster) bind(c, name='gr_forecaster_load') &
        result(status)
      import
      type(c_ptr), value :: comm
      type(c_ptr), value :: path
      type(c_ptr), value :: layout
      integer(c_int), value :: num_threads
      type(c_ptr), value :: forecaster
      integer(c_int) :: status
    end function

    function c_gr_forecaster_destroy(forecaster) bind(c, name='gr_forecaster_destroy') result(status)
      import
      type(c_ptr), value :: forecaster
      integer(c_int) :: status
    end function

    function c_gr_forecaster_text(forecaster, text) bind(c, name='gr_forecaster_text') result(status)
      import
      type(c_ptr), value :: forecaster
      type(c_ptr), value :: text
      integer(c_int) :: status
    end function

    function c_gr_forecaster_num_channels(forecaster, num_prognostic, num_channels) bind(c, &
        name='gr_forecaster_num_channels') result(status)
      import
      type(c_ptr), value :: forecaster
      type(c_ptr), value :: num_prognostic
      type(c_ptr), value :: num_channels
      integer(c_int) :: status
    end function

    function c_gr_forecaster_channel(forecaster, channel, label) bind(c, name='gr_forecaster_channel') &
        result(status)
      import
      type(c_ptr), value :: forecaster
      integer(c_int), value :: channel
      type(c_ptr), value :: label
      integer(c_int) :: status
    end function

    function c_gr_forecaster_step(forecaster, history, lead_seconds) bind(c, name='gr_forecaster_step') &
        result(status)
      import
      type(c_ptr), value :: forecaster
      type(c_ptr), value :: history
      type(c_ptr), value :: lead_seconds
      integer(c_int) :: status
    end function

    function c_gr_forecaster_calendar(forecaster, calendar) bind(c, name='gr_forecaster_calendar') result(status)
      import
      type(c_ptr), value :: forecaster
      type(c_ptr), value :: calendar
      integer(c_int) :: status
    end function

    function c_gr_forecaster_set_calendar(forecaster, calendar) bind(c, name='gr_forecaster_set_calendar') &
        result(status)
      import
      type(c_ptr), value :: forecaster
      type(c_ptr), value :: calendar
      integer(c_int) :: status
    end function

    function c_gr_forecaster_next(forecaster, time, num_states, states, num_later, later) bind(c, &
        name='gr_forecaster_next') result(status)
      import
      type(c_ptr), value :: forecaster
      integer(c_int64_t), value :: time
      integer(c_int), value :: num_states
      type(c_ptr), value :: states
      integer(c_int), value :: num_later
      type(c_ptr), value :: later
      integer(c_int) :: status
    end function
  end interface

contains

  !> Reads a network and divides it among the ranks of a communicator. Collective.
  !>
  !> A network that cannot be divided, or has an operator that this library does not run, is refused here, on all ranks,
  !> with the operator, its module, its line in the Python source, and advice: at the sizes that it was exported with.
  subroutine gr_net_load(comm, path, options, net, stat)
    type(gr_comm), intent(in) :: comm
    character(*), intent(in) :: path
    type(gr_net_options), intent(in), optional :: options
    type(gr_net), intent(inout) :: net
    integer, intent(out), optional :: stat
    type(c_ptr) :: comm_c
    character(:, c_char), allocatable, target :: path_c
    type(gr_net_options), target :: options_c
    type(c_ptr), target :: net_c
    type(c_ptr) :: options_p
    integer(c_int) :: status
    comm_c = comm%handle
    path_c = trim(path) // c_null_char
    if (present(options)) then
    options_c = options
    options_c%size = c_sizeof(options_c)
    end if
    net_c = net%handle
    options_p = c_null_ptr
    if (present(options)) options_p = c_loc(options_c)
    call gr_fortran_call('' // c_null_char)
    status = c_gr_net_load(comm_c, c_loc(path_c), options_p, c_loc(net_c))
    net%handle = net_c
    call ended(status, stat)
  end subroutine

  !> Frees a network. Optimizers of it stay valid until they are freed.
  subroutine gr_net_destroy(net, stat)
    type(gr_net), intent(inout) :: net
    integer, intent(out), optional :: stat
    type(c_ptr), target :: net_c
    integer(c_int) :: status
    net_c = net%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_net_destroy(c_loc(net_c))
    net%handle = net_c
    call ended(status, stat)
  end subroutine

  !> Number of inputs. Not collective.
  subroutine gr_net_num_inputs(net, num_inputs, stat)
    type(gr_net), intent(in) :: net
    integer, intent(out) :: num_inputs
    integer, intent(out), optional :: stat
    type(c_ptr) :: net_c
    integer(c_int), target :: num_inputs_c
    integer(c_int) :: status
    net_c = net%handle
    num_inputs_c = 0
    call gr_fortran_call('' // c_null_char)
    status = c_gr_net_num_inputs(net_c, c_loc(num_inputs_c))
    if (status == 0) num_inputs = num_inputs_c
    call ended(status, stat)
  end subroutine

  !> Number of outputs. Not collective.
  subroutine gr_net_num_outputs(net, num_outputs, stat)
    type(gr_net), intent(in) :: net
    integer, intent(out) :: num_outputs
    integer, intent(out), optional :: stat
    type(c_ptr) :: net_c
    integer(c_int), target :: num_outputs_c
    integer(c_int) :: status
    net_c = net%handle
    num_outputs_c = 0
    call gr_fortran_call('' // c_null_char)
    status = c_gr_net_num_outputs(net_c, c_loc(num_outputs_c))
    if (status == 0) num_outputs = num_outputs_c
    call ended(status, stat)
  end subroutine

  !> Name of an input: that of the argument in Python. Not collective.
  subroutine gr_net_input_name(net, input, name, stat)
    type(gr_net), intent(in) :: net
    integer, intent(in) :: input
    character(:), allocatable, intent(out) :: name
    integer, intent(out), optional :: stat
    type(c_ptr) :: net_c
    integer(c_int) :: input_c
    type(c_ptr), target :: name_c
    integer(c_int) :: status
    net_c = net%handle
    input_c = int(input - 1, c_int)
    name_c = c_null_ptr
    call gr_fortran_call('' // c_null_char)
    status = c_gr_net_input_name(net_c, input_c, c_loc(name_c))
    if (status == 0) name = text_at(name_c)
    call ended(status, stat)
  end subroutine

  !> Name of an output: that of its value in the exported graph. Not collective.
  subroutine gr_net_output_name(net, output, name, stat)
    type(gr_net), intent(in) :: net
    integer, intent(in) :: output
    character(:), allocatable, intent(out) :: name
    integer, intent(out), optional :: stat
    type(c_ptr) :: net_c
    integer(c_int) :: output_c
    type(c_ptr), target :: name_c
    integer(c_int) :: status
    net_c = net%handle
    output_c = int(output - 1, c_int)
    name_c = c_null_ptr
    call gr_fortran_call('' // c_null_char)
    status = c_gr_net_output_name(net_c, output_c, c_loc(name_c))
    if (status == 0) name = text_at(name_c)
    call ended(status, stat)
  end subroutine

  !> Report for people: type, parameters, each input and output with its sizes, what is bound to it and how it is moved,
  !> and the traffic of a call once there was one. Not collective.
  subroutine gr_net_text(net, text, stat)
    type(gr_net), intent(in) :: net
    character(:), allocatable, intent(out) :: text
    integer, intent(out), optional :: stat
    type(c_ptr) :: net_c
    type(c_ptr), target :: text_c
    integer(c_int) :: status
    net_c = net%handle
    text_c = c_null_ptr
    call gr_fortran_call('' // c_null_char)
    status = c_gr_net_text(net_c, c_loc(text_c))
    if (status == 0) text = text_at(text_c)
    call ended(status, stat)
  end subroutine

  !> Writes the network with its present parameters, in the types of the original file, for Python's `torch.export.load`
  !> and for `gr_net_load`. Collective; rank 0 writes.
  subroutine gr_net_save(net, path, stat)
    type(gr_net), intent(in) :: net
    character(*), intent(in) :: path
    integer, intent(out), optional :: stat
    type(c_ptr) :: net_c
    character(:, c_char), allocatable, target :: path_c
    integer(c_int) :: status
    net_c = net%handle
    path_c = trim(path) // c_null_char
    call gr_fortran_call('' // c_null_char)
    status = c_gr_net_save(net_c, c_loc(path_c))
    call ended(status, stat)
  end subroutine

  !> Binds the caller's arrays to an input: every run reads them. Collective.
  !>
  !> Several arrays are stacked along the channels, in order; an array with levels is as many channels. All axes but
  !> latitude and longitude count as one list, the last one varying fastest, that the arrays together fill. The memory
  !> stays the caller's, and must be there until the input is bound again or the network is freed.
  !> The first field is bound first: its layout decides which rows each rank computes. If its grid changes (in networks
  !> with dynamic sizes), all other arrays must be bound again.
  !> Example: x[1, 4, 721, 1440] from u[721][1440] and t[3][721][1440] of each rank's box.
  subroutine gr_net_bind_input_list(net, name, layout, fields, stat)
    type(gr_net), intent(inout) :: net
    character(*), intent(in), optional :: name
    type(gr_layout), intent(in), optional :: layout
    type(gr_field), intent(in), target, contiguous :: fields(:)
    integer, intent(out), optional :: stat
    type(c_ptr) :: net_c
    character(:, c_char), allocatable, target :: name_c
    type(c_ptr) :: layout_c
    integer(c_int) :: num_fields
    type(c_ptr) :: name_p
    integer(c_int) :: status
    layout_c = c_null_ptr
    net_c = net%handle
    if (present(name)) then
    name_c = trim(name) // c_null_char
    end if
    if (present(layout)) then
    layout_c = layout%handle
    end if
    num_fields = int(size(fields), c_int)
    name_p = c_null_ptr
    if (present(name)) name_p = c_loc(name_c)
    call gr_fortran_call('num_fields=size(fields);' // c_null_char)
    status = c_gr_net_bind_input(net_c, name_p, layout_c, num_fields, c_loc(fields))
    call ended(status, stat)
  end subroutine

  subroutine gr_net_bind_input_one(net, name, layout, fields, stat)
    type(gr_net), intent(inout) :: net
    character(*), intent(in), optional :: name
    type(gr_layout), intent(in), optional :: layout
    type(gr_field), intent(in) :: fields
    integer, intent(out), optional :: stat
    type(gr_field), pointer, contiguous :: fields_list(:)
    call c_f_pointer(address_of(fields), fields_list, [1])
    call gr_net_bind_input_list(net, name, layout, fields_list, stat)
  end subroutine

  !> Binds the caller's arrays to an output: every run writes them. Outputs that are not bound are not moved. Collective.
  subroutine gr_net_bind_output_list(net, name, layout, fields, stat)
    type(gr_net), intent(inout) :: net
    character(*), intent(in), optional :: name
    type(gr_layout), intent(in), optional :: layout
    type(gr_field), intent(in), target, contiguous :: fields(:)
    integer, intent(out), optional :: stat
    type(c_ptr) :: net_c
    character(:, c_char), allocatable, target :: name_c
    type(c_ptr) :: layout_c
    integer(c_int) :: num_fields
    type(c_ptr) :: name_p
    integer(c_int) :: status
    layout_c = c_null_ptr
    net_c = net%handle
    if (present(name)) then
    name_c = trim(name) // c_null_char
    end if
    if (present(layout)) then
    layout_c = layout%handle
    end if
    num_fields = int(size(fields), c_int)
    name_p = c_null_ptr
    if (present(name)) name_p = c_loc(name_c)
    call gr_fortran_call('num_fields=size(fields);' // c_null_char)
    status = c_gr_net_bind_output(net_c, name_p, layout_c, num_fields, c_loc(fields))
    call ended(status, stat)
  end subroutine

  subroutine gr_net_bind_output_one(net, name, layout, fields, stat)
    type(gr_net), intent(inout) :: net
    character(*), intent(in), optional :: name
    type(gr_layout), intent(in), optional :: layout
    type(gr_field), intent(in) :: fields
    integer, intent(out), optional :: stat
    type(gr_field), pointer, contiguous :: fields_list(:)
    call c_f_pointer(address_of(fields), fields_list, [1])
    call gr_net_bind_output_list(net, name, layout, fields_list, stat)
  end subroutine

  !> Binds arrays with the values that an output should have: `gr_net_learn` reads them. Collective.
  !>
  !> The loss is the mean of the squared differences, or with `weights` the mean over the sphere: sum of w (y - t)^2
  !> divided by the sum of w over all values. Losses of several outputs are added, each times its `scale`.
  subroutine gr_net_bind_target_list(net, name, layout, fields, scale, weights, stat)
    type(gr_net), intent(inout) :: net
    character(*), intent(in), optional :: name
    type(gr_layout), intent(in), optional :: layout
    type(gr_field), intent(in), target, contiguous :: fields(:)
    real(c_double), intent(in), optional :: scale
    real(c_double), intent(in), optional :: weights(:)
    integer, intent(out), optional :: stat
    type(c_ptr) :: net_c
    character(:, c_char), allocatable, target :: name_c
    type(c_ptr) :: layout_c
    integer(c_int) :: num_fields
    real(c_double) :: scale_c
    integer(c_int) :: num_rows
    real(c_double), allocatable, target :: weights_c(:)
    type(c_ptr) :: name_p
    type(c_ptr) :: weights_p
    integer(c_int) :: status
    layout_c = c_null_ptr
    net_c = net%handle
    if (present(name)) then
    name_c = trim(name) // c_null_char
    end if
    if (present(layout)) then
    layout_c = layout%handle
    end if
    num_fields = int(size(fields), c_int)
    scale_c = 1
    if (present(scale)) then
    scale_c = scale
    end if
    num_rows = 0
    if (present(weights)) num_rows = int(size(weights), c_int)
    if (present(weights)) then
    weights_c = weights
    end if
    name_p = c_null_ptr
    if (present(name)) name_p = c_loc(name_c)
    weights_p = c_null_ptr
    if (present(weights)) weights_p = c_loc(weights_c)
    call gr_fortran_call('num_fields=size(fields);num_rows=size(weights);' // c_null_char)
    status = c_gr_net_bind_target(net_c, name_p, layout_c, num_fields, c_loc(fields), scale_c, num_rows, weights_p)
    call ended(status, stat)
  end subroutine

  subroutine gr_net_bind_target_one(net, name, layout, fields, scale, weights, stat)
    type(gr_net), intent(inout) :: net
    character(*), intent(in), optional :: name
    type(gr_layout), intent(in), optional :: layout
    type(gr_field), intent(in) :: fields
    real(c_double), intent(in), optional :: scale
    real(c_double), intent(in), optional :: weights(:)
    integer, intent(out), optional :: stat
    type(gr_field), pointer, contiguous :: fields_list(:)
    call c_f_pointer(address_of(fields), fields_list, [1])
    call gr_net_bind_target_list(net, name, layout, fields_list, scale, weights, stat)
  end subroutine

  !> Computes the outputs from the inputs. Collective.
  !>
  !> Dropout is off, and nothing of the network changes: norms of a network that was exported in training mode use the
  !> statistics of its input, or with `evaluation` of its options the running ones, which only `gr_net_learn` updates.
  subroutine gr_net_run(net, stat)
    type(gr_net), intent(inout) :: net
    integer, intent(out), optional :: stat
    type(c_ptr) :: net_c
    integer(c_int) :: status
    net_c = net%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_net_run(net_c)
    call ended(status, stat)
  end subroutine

  !> Starts a run: the inputs travel, and may not be written until `gr_net_finish`. Collective.
  subroutine gr_net_start(net, stat)
    type(gr_net), intent(inout) :: net
    integer, intent(out), optional :: stat
    type(c_ptr) :: net_c
    integer(c_int) :: status
    net_c = net%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_net_start(net_c)
    call ended(status, stat)
  end subroutine

  !> Ends the run that was started: the network computes, and the outputs are written. Collective.
  subroutine gr_net_finish(net, stat)
    type(gr_net), intent(inout) :: net
    integer, intent(out), optional :: stat
    type(c_ptr) :: net_c
    integer(c_int) :: status
    net_c = net%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_net_finish(net_c)
    call ended(status, stat)
  end subroutine

  !> Makes an optimizer of the parameters of a network.
  subroutine gr_optimizer_create(net, kind, rate, options, optimizer, stat)
    type(gr_net), intent(in) :: net
    integer, intent(in) :: kind
    real(c_double), intent(in) :: rate
    type(gr_optimizer_options), intent(in), optional :: options
    type(gr_optimizer), intent(inout) :: optimizer
    integer, intent(out), optional :: stat
    type(c_ptr) :: net_c
    integer(c_int) :: kind_c
    real(c_double) :: rate_c
    type(gr_optimizer_options), target :: options_c
    type(c_ptr), target :: optimizer_c
    type(c_ptr) :: options_p
    integer(c_int) :: status
    net_c = net%handle
    kind_c = int(kind, c_int)
    rate_c = rate
    if (present(options)) then
    options_c = options
    options_c%size = c_sizeof(options_c)
    end if
    optimizer_c = optimizer%handle
    options_p = c_null_ptr
    if (present(options)) options_p = c_loc(options_c)
    call gr_fortran_call('' // c_null_char)
    status = c_gr_optimizer_create(net_c, kind_c, rate_c, options_p, c_loc(optimizer_c))
    optimizer%handle = optimizer_c
    call ended(status, stat)
  end subroutine

  !> Frees an optimizer.
  subroutine gr_optimizer_destroy(optimizer, stat)
    type(gr_optimizer), intent(inout) :: optimizer
    integer, intent(out), optional :: stat
    type(c_ptr), target :: optimizer_c
    integer(c_int) :: status
    optimizer_c = optimizer%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_optimizer_destroy(c_loc(optimizer_c))
    optimizer%handle = optimizer_c
    call ended(status, stat)
  end subroutine

  !> Changes the learning rate.
  subroutine gr_optimizer_set_rate(optimizer, rate, stat)
    type(gr_optimizer), intent(inout) :: optimizer
    real(c_double), intent(in) :: rate
    integer, intent(out), optional :: stat
    type(c_ptr) :: optimizer_c
    real(c_double) :: rate_c
    integer(c_int) :: status
    optimizer_c = optimizer%handle
    rate_c = rate
    call gr_fortran_call('' // c_null_char)
    status = c_gr_optimizer_set_rate(optimizer_c, rate_c)
    call ended(status, stat)
  end subroutine

  !> One step of training: the outputs for the present inputs, their loss against the targets, its gradients summed over
  !> the ranks, and a step of the optimizer, the same on all ranks. Outputs are not written. Collective.
  !>
  !> Fails with the rule NotFinite, and changes no parameter, where the loss or a gradient is not a number.
  subroutine gr_net_learn(net, optimizer, loss, stat)
    type(gr_net), intent(inout) :: net
    type(gr_optimizer), intent(inout), optional :: optimizer
    real(c_double), intent(out) :: loss
    integer, intent(out), optional :: stat
    type(c_ptr) :: net_c
    type(c_ptr) :: optimizer_c
    real(c_double), target :: loss_c
    integer(c_int) :: status
    optimizer_c = c_null_ptr
    net_c = net%handle
    if (present(optimizer)) then
    optimizer_c = optimizer%handle
    end if
    loss_c = 0
    call gr_fortran_call('' // c_null_char)
    status = c_gr_net_learn(net_c, optimizer_c, c_loc(loss_c))
    if (status == 0) loss = loss_c
    call ended(status, stat)
  end subroutine

  !> Reads what `graticule-train --lead` has trained, for the rows and columns of its grid. Collective.
  !>
  !> Where the boxes of `layout` are bands of whole circles of latitude, in order of ranks, the network uses these rows;
  !> any other boxes are moved to bands and back.
  subroutine gr_forecaster_load(comm, path, layout, num_threads, forecaster, stat)
    type(gr_comm), intent(in) :: comm
    character(*), intent(in) :: path
    type(gr_layout), intent(in) :: layout
    integer, intent(in), optional :: num_threads
    type(gr_forecaster), intent(inout) :: forecaster
    integer, intent(out), optional :: stat
    type(c_ptr) :: comm_c
    character(:, c_char), allocatable, target :: path_c
    type(c_ptr) :: layout_c
    integer(c_int) :: num_threads_c
    type(c_ptr), target :: forecaster_c
    integer(c_int) :: status
    comm_c = comm%handle
    path_c = trim(path) // c_null_char
    layout_c = layout%handle
    num_threads_c = 0
    if (present(num_threads)) then
    num_threads_c = int(num_threads, c_int)
    end if
    forecaster_c = forecaster%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_forecaster_load(comm_c, c_loc(path_c), layout_c, num_threads_c, c_loc(forecaster_c))
    forecaster%handle = forecaster_c
    call ended(status, stat)
  end subroutine

  !> Frees a network.
  subroutine gr_forecaster_destroy(forecaster, stat)
    type(gr_forecaster), intent(inout) :: forecaster
    integer, intent(out), optional :: stat
    type(c_ptr), target :: forecaster_c
    integer(c_int) :: status
    forecaster_c = forecaster%handle
    call gr_fortran_call('' // c_null_char)
    status = c_gr_forecaster_destroy(c_loc(forecaster_c))
    forecaster%handle = forecaster_c
    call ended(status, stat)
  end subroutine

  !> Report for people: file, step, grid, and a line per channel with its unit. Not collective.
  subroutine gr_forecaster_text(forecaster, text, stat)
    type(gr_forecaster), intent(in) :: forecaster
    character(:), allocatable, intent(out) :: text
    integer, intent(out), optional :: stat
    type(c_ptr) :: forecaster_c
    type(c_ptr), target :: text_c
    integer(c_int) :: status
    forecaster_c = forecaster%handle
    text_c = c_null_ptr
    call gr_fortran_call('' // c_null_char)
    status = c_gr_forecaster_text(forecaster_c, c_loc(text_c))
    if (status == 0) text = text_at(text_c)
    call ended(status, stat)
  end subroutine

  !> Channels of a state (prognostic ones), and of a prediction: those, then diagnostic ones. Not collective.
  subroutine gr_forecaster_num_channels(forecaster, num_prognostic, num_channels, stat)
    type(gr_forecaster), intent(in) :: forecaster
    integer, intent(out) :: num_prognostic
    integer, intent(out) :: num_channels
    integer, intent(out), optional :: stat
    type(c_ptr) :: forecaster_c
    integer(c_int), target :: num_prognostic_c
    integer(c_int), target :: num_channels_c
    integer(c_int) :: status
    forecaster_c = forecaster%handle
    num_prognostic_c = 0
    num_channels_c = 0
    call gr_fortran_call('' // c_null_char)
    status = c_gr_forecaster_num_channels(forecaster_c, c_loc(num_prognostic_c), c_loc(num_channels_c))
    if (status == 0) num_prognostic = num_prognostic_c
    if (status == 0) num_channels = num_channels_c
    call ended(status, stat)
  end subroutine

  !> Name of a channel, with its level: `t 850 hPa`. Not collective.
  subroutine gr_forecaster_channel(forecaster, channel, label, stat)
    type(gr_forecaster), intent(in) :: forecaster
    integer, intent(in) :: channel
    character(:), allocatable, intent(out) :: label
    integer, intent(out), optional :: stat
    type(c_ptr) :: forecaster_c
    integer(c_int) :: channel_c
    type(c_ptr), target :: label_c
    integer(c_int) :: status
    forecaster_c = forecaster%handle
    channel_c = int(channel - 1, c_int)
    label_c = c_null_ptr
    call gr_fortran_call('' // c_null_char)
    status = c_gr_forecaster_channel(forecaster_c, channel_c, c_loc(label_c))
    if (status == 0) label = text_at(label_c)
    call ended(status, stat)
  end subroutine

  !> How far a step goes, and the states that it starts from. Not collective.
  subroutine gr_forecaster_step(forecaster, history, lead_seconds, stat)
    type(gr_forecaster), intent(in) :: forecaster
    integer, intent(out) :: history
    integer(c_int64_t), intent(out) :: lead_seconds
    integer, intent(out), optional :: stat
    type(c_ptr) :: forecaster_c
    integer(c_int), target :: history_c
    integer(c_int64_t), target :: lead_seconds_c
    integer(c_int) :: status
    forecaster_c = forecaster%handle
    history_c = 0
    lead_seconds_c = 0
    call gr_fortran_call('' // c_null_char)
    status = c_gr_forecaster_step(forecaster_c, c_loc(history_c), c_loc(lead_seconds_c))
    if (status == 0) history = history_c
    if (status == 0) lead_seconds = lead_seconds_c
    call ended(status, stat)
  end subroutine

  !> Calendar in which times count, as files name it: that of the training until it is set. Not collective.
  subroutine gr_forecaster_calendar(forecaster, calendar, stat)
    type(gr_forecaster), intent(in) :: forecaster
    character(:), allocatable, intent(out) :: calendar
    integer, intent(out), optional :: stat
    type(c_ptr) :: forecaster_c
    type(c_ptr), target :: calendar_c
    integer(c_int) :: status
    forecaster_c = forecaster%handle
    calendar_c = c_null_ptr
    call gr_fortran_call('' // c_null_char)
    status = c_gr_forecaster_calendar(forecaster_c, c_loc(calendar_c))
    if (status == 0) calendar = text_at(calendar_c)
    call ended(status, stat)
  end subroutine

  !> Sets it, for states of a model with another calendar than the training's; the same on all ranks. Not collective.
  subroutine gr_forecaster_set_calendar(forecaster, calendar, stat)
    type(gr_forecaster), intent(inout) :: forecaster
    character(*), intent(in) :: calendar
    integer, intent(out), optional :: stat
    type(c_ptr) :: forecaster_c
    character(:, c_char), allocatable, target :: calendar_c
    integer(c_int) :: status
    forecaster_c = forecaster%handle
    calendar_c = trim(calendar) // c_null_char
    call gr_fortran_call('' // c_null_char)
    status = c_gr_forecaster_set_calendar(forecaster_c, c_loc(calendar_c))
    call ended(status, stat)
  end subroutine

  !> The state one lead later. Collective.
  !>
  !> Arrays in GR_F32 or GR_F64, in the units of the training's file, are stacked: `states` are the prognostic channels
  !> of the present, then those one lead before, and so on; `later` all channels. An array with levels is as many
  !> channels. Missing values are NaN, and stay so. `later` may be the same arrays as `states`.
  subroutine gr_forecaster_next_list(forecaster, time, states, later, stat)
    type(gr_forecaster), intent(inout) :: forecaster
    integer(c_int64_t), intent(in) :: time
    type(gr_field), intent(in), target, contiguous :: states(:)
    type(gr_field), intent(in), target, contiguous :: later(:)
    integer, intent(out), optional :: stat
    type(c_ptr) :: forecaster_c
    integer(c_int64_t) :: time_c
    integer(c_int) :: num_states
    integer(c_int) :: num_later
    integer(c_int) :: status
    forecaster_c = forecaster%handle
    time_c = time
    num_states = int(size(states), c_int)
    num_later = int(size(later), c_int)
    call gr_fortran_call('num_states=size(states);num_later=size(later);' // c_null_char)
    status = c_gr_forecaster_next(forecaster_c, time_c, num_states, c_loc(states), num_later, c_loc(later))
    call ended(status, stat)
  end subroutine

  subroutine gr_forecaster_next_one(forecaster, time, states, later, stat)
    type(gr_forecaster), intent(inout) :: forecaster
    integer(c_int64_t), intent(in) :: time
    type(gr_field), intent(in) :: states
    type(gr_field), intent(in) :: later
    integer, intent(out), optional :: stat
    type(gr_field), pointer, contiguous :: states_list(:)
    type(gr_field), pointer, contiguous :: later_list(:)
    call c_f_pointer(address_of(states), states_list, [1])
    call c_f_pointer(address_of(later), later_list, [1])
    call gr_forecaster_next_list(forecaster, time, states_list, later_list, stat)
  end subroutine

  subroutine gr_forecaster_next_int8(forecaster, time, states, later, stat)
    type(gr_forecaster), intent(inout) :: forecaster
    integer(c_int64_t), intent(in) :: time
    integer(c_int8_t), GR_WHOLE, target, intent(inout) :: states
    integer(c_int8_t), GR_WHOLE, target, intent(inout) :: later
    integer, intent(out), optional :: stat
    type(gr_field), target :: states_field
    type(gr_field), target :: later_field
    call describe_whole(states, states_field)
    call describe_whole(later, later_field)
    call gr_fortran_arrays()
    call gr_forecaster_next_one(forecaster=forecaster, time=time, states=states_field, later=later_field, stat=stat)
  end subroutine

  subroutine gr_forecaster_next_int16(forecaster, time, states, later, stat)
    type(gr_forecaster), intent(inout) :: forecaster
    integer(c_int64_t), intent(in) :: time
    integer(c_int16_t), GR_WHOLE, target, intent(inout) :: states
    integer(c_int16_t), GR_WHOLE, target, intent(inout) :: later
    integer, intent(out), optional :: stat
    type(gr_field), target :: states_field
    type(gr_field), target :: later_field
    call describe_whole(states, states_field)
    call describe_whole(later, later_field)
    call gr_fortran_arrays()
    call gr_forecaster_next_one(forecaster=forecaster, time=time, states=states_field, later=later_field, stat=stat)
  end subroutine

  subroutine gr_forecaster_next_int32(forecaster, time, states, later, stat)
    type(gr_forecaster), intent(inout) :: forecaster
    integer(c_int64_t), intent(in) :: time
    integer(c_int32_t), GR_WHOLE, target, intent(inout) :: states
    integer(c_int32_t), GR_WHOLE, target, intent(inout) :: later
    integer, intent(out), optional :: stat
    type(gr_field), target :: states_field
    type(gr_field), target :: later_field
    call describe_whole(states, states_field)
    call describe_whole(later, later_field)
    call gr_fortran_arrays()
    call gr_forecaster_next_one(forecaster=forecaster, time=time, states=states_field, later=later_field, stat=stat)
  end subroutine

  subroutine gr_forecaster_next_int64(forecaster, time, states, later, stat)
    type(gr_forecaster), intent(inout) :: forecaster
    integer(c_int64_t), intent(in) :: time
    integer(c_int64_t), GR_WHOLE, target, intent(inout) :: states
    integer(c_int64_t), GR_WHOLE, target, intent(inout) :: later
    integer, intent(out), optional :: stat
    type(gr_field), target :: states_field
    type(gr_field), target :: later_field
    call describe_whole(states, states_field)
    call describe_whole(later, later_field)
    call gr_fortran_arrays()
    call gr_forecaster_next_one(forecaster=forecaster, time=time, states=states_field, later=later_field, stat=stat)
  end subroutine

  subroutine gr_forecaster_next_real32(forecaster, time, states, later, stat)
    type(gr_forecaster), intent(inout) :: forecaster
    integer(c_int64_t), intent(in) :: time
    real(c_float), GR_WHOLE, target, intent(inout) :: states
    real(c_float), GR_WHOLE, target, intent(inout) :: later
    integer, intent(out), optional :: stat
    type(gr_field), target :: states_field
    type(gr_field), target :: later_field
    call describe_whole(states, states_field)
    call describe_whole(later, later_field)
    call gr_fortran_arrays()
    call gr_forecaster_next_one(forecaster=forecaster, time=time, states=states_field, later=later_field, stat=stat)
  end subroutine

  subroutine gr_forecaster_next_real64(forecaster, time, states, later, stat)
    type(gr_forecaster), intent(inout) :: forecaster
    integer(c_int64_t), intent(in) :: time
    real(c_double), GR_WHOLE, target, intent(inout) :: states
    real(c_double), GR_WHOLE, target, intent(inout) :: later
    integer, intent(out), optional :: stat
    type(gr_field), target :: states_field
    type(gr_field), target :: later_field
    call describe_whole(states, states_field)
    call describe_whole(later, later_field)
    call gr_fortran_arrays()
    call gr_forecaster_next_one(forecaster=forecaster, time=time, states=states_field, later=later_field, stat=stat)
  end subroutine

  subroutine gr_forecaster_next_complex32(forecaster, time, states, later, stat)
    type(gr_forecaster), intent(inout) :: forecaster
    integer(c_int64_t), intent(in) :: time
    complex(c_float_complex), GR_WHOLE, target, intent(inout) :: states
    complex(c_float_complex), GR_WHOLE, target, intent(inout) :: later
    integer, intent(out), optional :: stat
    type(gr_field), target :: states_field
    type(gr_field), target :: later_field
    call describe_whole(states, states_field)
    call describe_whole(later, later_field)
    call gr_fortran_arrays()
    call gr_forecaster_next_one(forecaster=forecaster, time=time, states=states_field, later=later_field, stat=stat)
  end subroutine

  subroutine gr_forecaster_next_complex64(forecaster, time, states, later, stat)
    type(gr_forecaster), intent(inout) :: forecaster
    integer(c_int64_t), intent(in) :: time
    complex(c_double_complex), GR_WHOLE, target, intent(inout) :: states
    complex(c_double_complex), GR_WHOLE, target, intent(inout) :: later
    integer, intent(out), optional :: stat
    type(gr_field), target :: states_field
    type(gr_field), target :: later_field
    call describe_whole(states, states_field)
    call describe_whole(later, later_field)
    call gr_fortran_arrays()
    call gr_forecaster_next_one(forecaster=forecaster, time=time, states=states_field, later=later_field, stat=stat)
  end subroutine

  subroutine gr_forecaster_next_bool(forecaster, time, states, later, stat)
    type(gr_forecaster), intent(inout) :: forecaster
    integer(c_int64_t), intent(in) :: time
    logical(c_bool), GR_WHOLE, target, intent(inout) :: states
    logical(c_bool), GR_WHOLE, target, intent(inout) :: later
    integer, intent(out), optional :: stat
    type(gr_field), target :: states_field
    type(gr_field), target :: later_field
    call describe_whole(states, states_field)
    call describe_whole(later, later_field)
    call gr_fortran_arrays()
    call gr_forecaster_next_one(forecaster=forecaster, time=time, states=states_field, later=later_field, stat=stat)
  end subroutine

  subroutine gr_forecaster_next_logical(forecaster, time, states, later, stat)
    type(gr_forecaster), intent(inout) :: forecaster
    integer(c_int64_t), intent(in) :: time
    logical, GR_WHOLE, target, intent(inout) :: states
    logical, GR_WHOLE, target, intent(inout) :: later
    integer, intent(out), optional :: stat
    type(gr_field), target :: states_field
    type(gr_field), target :: later_field
    call describe_whole(states, states_field)
    call describe_whole(later, later_field)
    call gr_fortran_arrays()
    call gr_forecaster_next_one(forecaster=forecaster, time=time, states=states_field, later=later_field, stat=stat)
  end subroutine
end module graticule_nn
