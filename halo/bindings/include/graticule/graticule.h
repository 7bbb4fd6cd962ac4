// SPDX-License-Identifier: BSD-3-Clause
// C interface of the engine: layouts, halos, repartitions, sums over the sphere, files and checkpoints. C11 and C++.
//
// - Every function returns a `gr_status`; `gr_error_text` describes the last error of the calling thread. No function
//   ends the program, and none throws. A call that fails changes nothing and returns no handle.
// - Handles are opaque. `gr_NAME_create` and others make one, `gr_NAME_destroy` frees it and sets the pointer to NULL.
//   A handle may be freed before handles that were made from it. They are no addresses: a copy of a handle that was
//   freed, one of another type, and what never was a handle are refused by name.
// - A program that ends by itself before MPI has ended (exit, `stop` of Fortran) ends with a failure where calls of
//   other ranks have not: docs/accidents.md.
// - Memory of fields belongs to the caller (`gr_field`). Nothing is copied to make it contiguous.
// - Grid axes are numbered from 0; the last axis varies fastest in files and in dense fields. Boxes are half-open,
//   `lower <= i < upper`, in global coordinates.
// - Calls marked "Collective" are made by all ranks of the communicator in the same order.
// - A structure starts with its size, for versions with more members. Set it up by its initialiser:
//   `gr_halo_kind kind = GR_HALO_KIND_INIT;`. Members that are not set have the value 0, NULL or "no".
// - Texts that a function returns are valid until the next such call of the same thread.
//
// `scripts/bindings` makes the Fortran module and docs/reference/c.md from this file. The comment of each argument
// starts with tags: [in], [out], [inout]; [optional]: may be NULL; [count A B]: the number of elements of the arguments
// A and B; [axes N]: N values, one for each axis; [lower N], [upper N]: bounds of a box; [boxes N]: of N boxes;
// [values N]: a list; [axis N]: number of one of N axes; [index]: a number counted from 0; [flag]: 0 or 1, or such a
// list;
// [default X]: optional in Fortran; [wide]: 64 bits in Fortran, too; [words]: a list in one text; [c]: C only;
// [named F]: a plan, whose optional `name` in Fortran is passed to F before.
#ifndef GRATICULE_GRATICULE_H
#define GRATICULE_GRATICULE_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

// The header of MPI 5's binary interface has no types of Fortran: numbers of handles are those of MPI_Comm_toint there.
#if defined(MPI_ABI_VERSION) && !defined(MPI_Fint)
#define MPI_Fint int
#endif

#if defined(__GNUC__)
#define GR_API __attribute__((visibility("default")))
#else
#define GR_API
#endif

#ifdef __cplusplus
/// Initial value of a structure.
template <class T>
inline T gr_initial() {
  T result{};
  result.size = sizeof(T);
  return result;
}
#define GR_INITIAL(TYPE) gr_initial<TYPE>()

extern "C" {
#else
#define GR_INITIAL(TYPE) \
  { .size = sizeof(TYPE) }
#endif

/// Version of this header; `gr_version` returns that of the library.
#define GR_VERSION_MAJOR 0
#define GR_VERSION_MINOR 1
#define GR_VERSION_PATCH 0
#define GR_VERSION (GR_VERSION_MAJOR * 10000 + GR_VERSION_MINOR * 100 + GR_VERSION_PATCH)

/// Most axes of a grid or of a field in memory.
#define GR_MAX_AXES 8
/// Most parts of a halo that a kind can list: all of a grid with 3 axes.
#define GR_MAX_DIRECTIONS 32

/// Result of a call. New kinds of errors are told apart by `gr_error_rule`, so this list stays short.
typedef enum gr_status {
  GR_SUCCESS = 0,
  GR_ERROR_ARGUMENT = 1,  ///< an argument cannot be used: NULL, an unknown value, a structure of another version
  GR_ERROR_PROGRAM = 2,   ///< a broken rule or a failed call at run time
  GR_ERROR_USAGE = 3,     ///< a setting from outside: an environment variable, an option
  GR_ERROR_INPUT = 4,     ///< an input file
  GR_ERROR_CHECK = 5,     ///< a requested check failed
  GR_ERROR_MPI = 6,       ///< a call of MPI failed
  GR_ERROR_MEMORY = 7,    ///< memory could not be allocated
  GR_ERROR_OTHER = 8      ///< an unexpected exception of a library
} gr_status;

/// Type of one element of a field or of a variable in a file.
typedef enum gr_type {
  GR_U8 = 0,
  GR_I8 = 1,
  GR_I16 = 2,
  GR_I32 = 3,
  GR_I64 = 4,
  GR_F16 = 5,
  GR_BF16 = 6,
  GR_F32 = 7,
  GR_F64 = 8,
  GR_C64 = 9,   ///< complex of two F32
  GR_C128 = 10  ///< complex of two F64
} gr_type;

/// Memory space of a field: host memory, or memory of Kokkos' default execution space.
typedef enum gr_space { GR_HOST = 0, GR_DEVICE = 1 } gr_space;

/// What lies beyond one side of an axis of N cells. Images are given for coordinate e on the lower (upper) side.
typedef enum gr_edge {
  GR_EDGE_UNTOUCHED = 0,       ///< nothing: ghost cells keep their values
  GR_EDGE_CONSTANT = 1,        ///< the constant of the axis
  GR_EDGE_PERIODIC = 2,        ///< e + N (e - N)
  GR_EDGE_REFLECT = 3,         ///< -e (2(N-1) - e): mirrored at the edge cell, which is not repeated
  GR_EDGE_SYMMETRIC = 4,       ///< -1 - e (2N-1 - e): mirrored at the outer face, the edge cell is repeated
  GR_EDGE_REPLICATE = 5,       ///< 0 (N-1): the edge cell
  GR_EDGE_POLE_FACE = 6,       ///< across a pole on the outer face of the edge row
  GR_EDGE_POLE_ROW = 7,        ///< across a pole on which the edge row lies
  GR_EDGE_ANTIREFLECT = 8,     ///< as GR_EDGE_REFLECT, with the opposite sign
  GR_EDGE_ANTISYMMETRIC = 9,   ///< as GR_EDGE_SYMMETRIC, with the opposite sign
  GR_EDGE_TRIPOLAR_FACE = 10,  ///< across the seam of a tripolar grid on the outer face of the edge row
  GR_EDGE_TRIPOLAR_ROW = 11    ///< across the seam of a tripolar grid on which the edge row lies
} gr_edge;

/// Position of the values of a cell along an axis. Fields on all faces have one cell more than the grid, at the upper
/// end of the axis, owned by the ranks that own the last cell of the grid: `gr_halo_layout`.
typedef enum gr_stagger { GR_LOW_FACE = -1, GR_CENTRE = 0, GR_HIGH_FACE = 1, GR_ALL_FACES = 2 } gr_stagger;

/// Behaviour of a field at a pole or a seam: components of a horizontal vector are odd and change sign.
typedef enum gr_parity { GR_EVEN = 0, GR_ODD = 1 } gr_parity;

/// Ghost cells that an exchange fills: beyond faces, edges and corners, or beyond faces only.
typedef enum gr_corners { GR_FILL_CORNERS = 0, GR_SKIP_CORNERS = 1 } gr_corners;

/// With an odd number n of longitudes no column lies opposite column i across a pole: refuse, or (i + floor(n/2)) mod
/// n.
typedef enum gr_odd_longitudes { GR_REFUSE_ODD = 0, GR_SHIFT_FLOOR = 1 } gr_odd_longitudes;

/// Values on a pole or a seam are stored twice: keep both, or make the second one of each pair a copy of the first.
typedef enum gr_mirror_line { GR_KEEP_MIRROR = 0, GR_COPY_MIRROR = 1 } gr_mirror_line;

/// Transport of messages to another rank.
typedef enum gr_transport {
  GR_TRANSPORT_AUTOMATIC = 0,       ///< node-shared memory where available, point-to-point elsewhere
  GR_TRANSPORT_POINT_TO_POINT = 1,  ///< persistent MPI messages
  GR_TRANSPORT_NODE_SHARED = 2      ///< memory mapped by both ranks of a node
} gr_transport;

/// How sums are added: without rounding, the same bits for every split; or in double precision, rank by rank.
typedef enum gr_summation { GR_SUM_EXACT = 0, GR_SUM_FAST = 1 } gr_summation;

/// Sum, or sum divided by the number (or the total weight) of the cells.
typedef enum gr_scale { GR_SCALE_SUM = 0, GR_SCALE_MEAN = 1 } gr_scale;

/// Cotangents passed to the adjoint of a zonal sum: each rank its own, which are added; or the same whole one on all.
typedef enum gr_cotangents { GR_COTANGENTS_OF_EACH_RANK = 0, GR_COTANGENTS_REPLICATED = 1 } gr_cotangents;

/// Whether an operator commutes with the mirror images of the rules, as a symmetric stencil does: its results beyond an
/// edge are then the values of the rule.
typedef enum gr_at_mirrors { GR_MIRRORS_DIFFER = 0, GR_MIRRORS_COMMUTE = 1 } gr_at_mirrors;

typedef struct gr_comm gr_comm;                ///< a private duplicate of a communicator
typedef struct gr_teams gr_teams;              ///< teams of ranks along several axes
typedef struct gr_cuts gr_cuts;                ///< how one axis is cut into parts
typedef struct gr_layout gr_layout;            ///< which rank owns which box of a grid
typedef struct gr_node_memory gr_node_memory;  ///< memory that the other ranks of the node read in place
typedef struct gr_halo gr_halo;                ///< plan of halo exchanges
typedef struct gr_halo_depth gr_halo_depth;    ///< number of valid layers of the halo of one field
typedef struct gr_repartition gr_repartition;  ///< plan of movements between two layouts
typedef struct gr_zonal gr_zonal;              ///< plan of sums along one axis
typedef struct gr_area_sum gr_area_sum;        ///< weighted sum of all cells
typedef struct gr_pending gr_pending;          ///< a call in flight
typedef struct gr_attributes gr_attributes;    ///< named values for a file or a variable
typedef struct gr_file gr_file;                ///< a netCDF-4 or HDF5 file, a Zarr store, or several; open for reading
typedef struct gr_writer gr_writer;            ///< a netCDF-4 file or a Zarr store that is written
typedef struct gr_checkpoints gr_checkpoints;  ///< the checkpoints of a run in one folder
typedef struct gr_checkpoint_writer gr_checkpoint_writer;  ///< a checkpoint that is written
typedef struct gr_checkpoint gr_checkpoint;                ///< a checkpoint, open for reading

/// The caller's memory of a field: it owns nothing.
///
/// Memory axis m has `extents[m]` elements, `strides[m]` bytes apart; strides may be negative, with `base` at element 0
/// of each axis. Axes that are not grid axes (levels, channels) are moved as a whole by every plan.
/// With `queue`, kernels of a call run after the work that is already in the queue, and work that is queued after the
/// call (after `gr_finish`) runs after them; all fields of a call have the same queue. Without one the call returns
/// when its kernels have ended, and waits for none before them. Fields in host memory have no queue.
/// Fields of halo calls may lie on any device of the process, that of their queue; without a queue, and in all other
/// calls, which wait for the queue first, on the one on which Kokkos was started.
/// Example: double u[5][62][482], levels of a local box of 62 x 482 cells: rank 3, extents {5, 62, 482}, strides
/// {62 * 482 * 8, 482 * 8, 8}; the grid axes are the last two.
typedef struct gr_field {
  size_t size;                   ///< sizeof(gr_field)
  void* base;                    ///< element 0 of each axis
  gr_type type;                  ///< of the elements
  int rank;                      ///< number of memory axes
  int64_t extents[GR_MAX_AXES];  ///< elements along each memory axis
  int64_t strides[GR_MAX_AXES];  ///< bytes between neighbors along each memory axis
  gr_space space;                ///< memory space
  int num_grid_axes;             ///< 0: the grid axes are the last memory axes, in order
  int grid_axes[GR_MAX_AXES];    ///< memory axis of each grid axis, if `num_grid_axes` is not 0
  int has_first;                 ///< 0: the memory has exactly the cells of the box that the call expects
  int64_t first[GR_MAX_AXES];    ///< element of the first owned cell (halo plans) or of the first cell of the box
  gr_parity parity;              ///< at poles and seams; read by halo plans
  int kind;                      ///< kind of a halo plan, from 0
  void* queue;                   ///< native queue of a device field (cudaStream_t, hipStream_t); NULL: none
} gr_field;
#define GR_FIELD_INIT GR_INITIAL(gr_field)

/// Widths, rules and parts of the halo of one kind of field.
///
/// One axis may have poles or seams, on either side, with `longitude_axis` being another one. Where rules of two axes
/// meet in a corner, both are applied.
/// Example: `gr_halo_kind_sphere` for axes (latitude, longitude).
typedef struct gr_halo_kind {
  size_t size;                       ///< sizeof(gr_halo_kind)
  int ndim;                          ///< number of axes of the grid
  int64_t lower[GR_MAX_AXES];        ///< [axes ndim] ghost cells to fill below each axis
  int64_t upper[GR_MAX_AXES];        ///< [axes ndim] ghost cells to fill above each axis
  int lower_edge[GR_MAX_AXES];       ///< [axes ndim] rule below each axis, a gr_edge
  int upper_edge[GR_MAX_AXES];       ///< [axes ndim] rule above each axis, a gr_edge
  double constant[GR_MAX_AXES];      ///< [axes ndim] value of GR_EDGE_CONSTANT
  int stagger[GR_MAX_AXES];          ///< [axes ndim] position of the values, a gr_stagger
  int longitude_axis;                ///< [axis ndim] axis that a pole shifts and a seam reverses; others ignore it
  gr_odd_longitudes odd_longitudes;  ///< poles with an odd number of longitudes
  gr_mirror_line mirror_line;        ///< owned cells that are stored twice
  int has_pivot;                     ///< 0: the pivot of a seam is -1 (a corner) on a face and 0 (a cell) on a row
  int64_t pivot;                     ///< half index along the longitudes of a seam's pivot
  gr_corners corners;                ///< whether corners are filled
  int num_directions;                ///< 0: all parts of the halo are filled
  int directions[GR_MAX_DIRECTIONS][GR_MAX_AXES];  ///< [axes ndim] parts to fill: -1, 0 or 1 per axis
  int has_memory;                                  ///< 0: fields in memory have the widths `lower` and `upper`
  int64_t memory_lower[GR_MAX_AXES];  ///< [axes ndim] ghost cells that fields have in memory, at least `lower`
  int64_t memory_upper[GR_MAX_AXES];  ///< [axes ndim] the same above
  int widths_of_this_rank;            ///< [flag] each rank has widths of its own
  double hole;                        ///< value of ghost cells whose image no rank owns
  int has_component;                  ///< [flag] values are components of vectors on faces that meet
  int component;  ///< [axis ndim] along which axis of the face; the kind of the other component stands beside this one
} gr_halo_kind;
#define GR_HALO_KIND_INIT GR_INITIAL(gr_halo_kind)

/// Two sides of faces that meet: beyond the side of one face lie the cells of the other one.
///
/// Example: beyond the last row of face 0, at column i of n, lies the first column of face 2, at row n - 1 - i: `axis`
/// 0, `is_upper` 1, `other_face` 2, `other_axis` 1, `is_reversed` 1, and 0 elsewhere.
typedef struct gr_face_joint {
  size_t size;         ///< sizeof(gr_face_joint)
  int face;            ///< [index] one face
  int axis;            ///< [axis 2] of the face, across the side
  int is_upper;        ///< [flag] the side after the last cell of the axis, not before the first
  int other_face;      ///< [index] the face that it meets, which may be the same one
  int other_axis;      ///< [axis 2] as `axis`
  int other_is_upper;  ///< [flag] as `is_upper`
  int is_reversed;     ///< [flag] cells along the two sides are counted in opposite directions
} gr_face_joint;
#define GR_FACE_JOINT_INIT GR_INITIAL(gr_face_joint)

/// Order of the axes, selected cells and memory of a repartition.
typedef struct gr_repartition_options {
  size_t size;                   ///< sizeof(gr_repartition_options)
  int ndim;                      ///< number of axes of both grids; needed where a member below is set
  int has_permutation;           ///< [flag] `permutation` is set
  int permutation[GR_MAX_AXES];  ///< [axes ndim] [axis ndim] axis of the old grid that becomes each axis of the new one
  int has_from;                  ///< [flag] only some cells of the old grid are read
  int64_t from_first[GR_MAX_AXES];  ///< [axes ndim] [lower ndim] first of them along each axis
  int64_t from_step[GR_MAX_AXES];   ///< [axes ndim] cells from one to the next, also negative, never 0
  int64_t from_count[GR_MAX_AXES];  ///< [axes ndim] number of them along each axis
  int has_to;                       ///< [flag] they become only some cells of the new grid
  int64_t to_first[GR_MAX_AXES];    ///< [axes ndim] [lower ndim] as `from_first`
  int64_t to_step[GR_MAX_AXES];     ///< [axes ndim] as `from_step`
  int64_t to_count[GR_MAX_AXES];    ///< [axes ndim] as `from_count`
  int64_t workspace_bytes;          ///< most bytes of buffers on this rank; 0: no limit
} gr_repartition_options;
#define GR_REPARTITION_OPTIONS_INIT GR_INITIAL(gr_repartition_options)

/// Combination of moved values x with the written memory y: `y = alpha * x + beta * y`, and packed integers.
///
/// Computed in double and rounded once. With `has_beta` 0, beta is 0 for movements and 1 for adjoints; where beta is 0,
/// y is not read. A packed side stores `(value - offset) / scale`, and `missing` for NaN.
typedef struct gr_update {
  size_t size;           ///< sizeof(gr_update)
  double alpha[2];       ///< [default 1 0] real and imaginary part; the initialiser sets 1
  int has_beta;          ///< [flag] `beta` is set
  double beta[2];        ///< real and imaginary part
  int conjugate;         ///< [flag] x is conjugated
  int from_packed;       ///< [flag] the field on the old layout holds packed integers
  double from_scale;     ///< value of one unit
  double from_offset;    ///< value of 0
  int from_has_missing;  ///< [flag] `from_missing` is set
  int64_t from_missing;  ///< integer that means "missing"
  int to_packed;         ///< [flag] the same for the field on the new layout
  double to_scale;       ///< value of one unit
  double to_offset;      ///< value of 0
  int to_has_missing;    ///< [flag] `to_missing` is set
  int64_t to_missing;    ///< integer that means "missing"
} gr_update;
#define GR_UPDATE_INIT                           \
  {                                              \
    .size = sizeof(gr_update), .alpha = { 1, 0 } \
  }

/// Order of the axes of the new grid, and the cost of leaving a node, for `gr_layout_relabel`.
typedef struct gr_relabel_options {
  size_t size;                   ///< sizeof(gr_relabel_options)
  int ndim;                      ///< number of axes; needed where `permutation` is set
  int has_permutation;           ///< [flag] `permutation` is set
  int permutation[GR_MAX_AXES];  ///< [axes ndim] [axis ndim] axis of the old grid that becomes each axis of the new one
  int64_t off_node_weight;       ///< cost of a cell that goes to another node, relative to one that stays; 0: 4
} gr_relabel_options;
#define GR_RELABEL_OPTIONS_INIT GR_INITIAL(gr_relabel_options)

/// Cells that a repartition moves between ranks, before and after `gr_layout_relabel`.
typedef struct gr_relabelling {
  size_t size;                    ///< sizeof(gr_relabelling)
  int64_t moved_cells_before;     ///< with the boxes where they were
  int64_t moved_cells;            ///< with the boxes of the new layout
  int64_t off_node_cells_before;  ///< the part of `moved_cells_before` that leaves its node
  int64_t off_node_cells;         ///< the part of `moved_cells` that leaves its node
  int64_t cost_above_least;       ///< no assignment costs less by more than this; 0: none costs less
} gr_relabelling;
#define GR_RELABELLING_INIT GR_INITIAL(gr_relabelling)

/// Traffic of a call with one field of each kind on this rank; bytes are cells times the bytes per cell of the field.
typedef struct gr_counts {
  size_t size;            ///< sizeof(gr_counts)
  int num_send_peers;     ///< ranks that this rank sends to
  int num_receive_peers;  ///< ranks that this rank receives from
  int64_t send_cells;     ///< to other ranks
  int64_t receive_cells;  ///< from other ranks
  int64_t local_cells;    ///< from this rank to itself
  int64_t filled_cells;   ///< from constants
} gr_counts;
#define GR_COUNTS_INIT GR_INITIAL(gr_counts)

/// Traffic and times of the calls of a plan on this rank so far.
typedef struct gr_stats {
  size_t size;                      ///< sizeof(gr_stats)
  int64_t num_calls;                ///< calls so far
  int64_t point_to_point_messages;  ///< messages sent by MPI
  int64_t point_to_point_bytes;     ///< bytes of these
  int64_t node_packed_messages;     ///< messages through node-shared memory, packed by the sender
  int64_t node_packed_bytes;        ///< bytes of these
  int64_t node_in_place_messages;   ///< messages that the peer reads in the sender's field
  int64_t node_in_place_bytes;      ///< bytes of these
  int64_t local_bytes;              ///< moved on this rank
  int64_t num_workspaces;           ///< made so far; constant once every pattern of calls was seen
  int64_t buffer_bytes;             ///< memory of all workspaces
  int mpi_reads_device;             ///< [flag] device memory is passed to MPI directly
  double pack_seconds;              ///< s, packing and posting
  double local_seconds;             ///< s, moving on this rank
  double wait_seconds;              ///< s, waiting for messages
  double unpack_seconds;            ///< s, unpacking
  int peers_read_device;            ///< [flag] ranks of the node read each other's device memory
} gr_stats;
#define GR_STATS_INIT GR_INITIAL(gr_stats)

/// Storage of a variable in a file.
typedef struct gr_variable_options {
  size_t size;                 ///< sizeof(gr_variable_options)
  int ndim;                    ///< number of axes of `chunk`; 0: contiguous, or one record per chunk
  int64_t chunk[GR_MAX_AXES];  ///< [axes ndim] cells of a chunk along each axis
  int deflate;                 ///< 1 to 9; 0: none, in a Zarr store its usual codec; needs `chunk` in a file
  int packed;                  ///< [flag] stored as `(value - offset) / scale`
  double scale;                ///< value of one unit
  double offset;               ///< value of 0
  int has_fill;                ///< [flag] `fill` is set
  double fill;                 ///< stored for NaN
} gr_variable_options;
#define GR_VARIABLE_OPTIONS_INIT GR_INITIAL(gr_variable_options)

// --- Library ---------------------------------------------------------------------------------------------------------

/// Version of the library.
GR_API gr_status gr_version(int* major,   // [out] first number
                            int* minor,   // [out] second number
                            int* patch);  // [out] third number

/// Starts MPI (`MPI_THREAD_SERIALIZED` or higher) and Kokkos unless the program has done so.
///
/// May be called several times; as many calls of `gr_finalize` end what the first one started. Where the program has
/// started MPI itself, at any thread level (`MPI_Init` suffices), it may start and end the library as often as it
/// likes; at a level below `MPI_THREAD_SERIALIZED` all calls come from the thread that started MPI. Fails after
/// `MPI_Finalize`.
GR_API gr_status gr_init(int num_threads,  // [in] [default 0] threads of Kokkos' host space; 0: as the environment says
                         char const* check_mode);  // [in] [optional] none, comm, cells or all, as GRATICULE_CHECK

/// Ends what `gr_init` started, at its last call. Handles that exist then are freed, the newest first, and listed on
/// stderr in check mode. May be called after `MPI_Finalize`.
GR_API gr_status gr_finalize(void);

/// Whether `gr_init` was called, without `gr_finalize`.
GR_API gr_status gr_is_initialized(int* initialized);  // [out] [flag] 1 if so

/// Text of the last error of this thread: the function, the broken rule and the offending value. Never NULL.
GR_API char const* gr_error_text(void);

/// Name of the rule that the last error of this thread broke, such as BadCuts: stable, for programs. Never NULL.
GR_API char const* gr_error_rule(void);

/// Status of the last error of this thread; GR_SUCCESS when there was none.
GR_API gr_status gr_error_status(void);

/// Name of the next plan that this thread makes: a halo, a repartition, sums. Reports of waits that stall, refused
/// calls and disagreements between ranks contain it. In Fortran, `name='tracers'` of the call that makes the plan.
GR_API gr_status gr_plan_name(char const* name);  // [in] name, such as tracers

/// How this process copies long runs: a name of the environment variable GRATICULE_COPY; empty before the first large
/// call.
GR_API gr_status gr_long_copies(char const** name);  // [out] name

/// Sets after how many seconds a wait for other ranks is reported on stderr, and after how many it ends with an error.
GR_API gr_status gr_set_patience(double report_seconds,  // [in] s; 0: never
                                 double error_seconds);  // [in] s; 0: never

// --- Communicators ---------------------------------------------------------------------------------------------------

/// Duplicates a communicator. Collective.
GR_API gr_status gr_comm_create(MPI_Comm mpi,     // [in] communicator; left as it is
                                gr_comm** comm);  // [out] the duplicate

/// The same for a communicator of Fortran. Collective.
GR_API gr_status gr_comm_create_f(MPI_Fint mpi,     // [in] communicator; left as it is
                                  gr_comm** comm);  // [out] the duplicate

/// Frees a communicator. Collective, and so is freeing the last plan that was made on it.
GR_API gr_status gr_comm_destroy(gr_comm** comm);  // [inout] communicator

/// Rank of the caller.
GR_API gr_status gr_comm_rank(gr_comm const* comm,  // [in] communicator
                              int* rank);           // [out] from 0

/// Number of ranks.
GR_API gr_status gr_comm_size(gr_comm const* comm,  // [in] communicator
                              int* num_ranks);      // [out] number of ranks

/// Number of ranks that share the memory of this rank, and its place among them.
GR_API gr_status gr_comm_node(gr_comm const* comm,  // [in] communicator
                              int* num_node_ranks,  // [out] ranks on this node
                              int* node_rank);      // [out] from 0

/// Node of each rank: nodes are numbered in order of their lowest rank. Collective.
GR_API gr_status gr_comm_nodes(gr_comm const* comm,  // [in] communicator
                               int num_ranks,        // [in] [count nodes] number of ranks, as `gr_comm_size`
                               int* nodes);          // [out] [values num_ranks] node of each rank, from 0

/// Communicator of MPI behind it, to make communicators of the program from it by `MPI_Comm_dup` or `MPI_Comm_split`.
///
/// It belongs to the library: send no messages with it, and free it by `gr_comm_destroy` only. It returns errors, and
/// so do the communicators that are made from it.
GR_API gr_status gr_comm_mpi(gr_comm const* comm,  // [in] communicator
                             MPI_Comm* mpi);       // [out] communicator of MPI

/// The same for Fortran.
GR_API gr_status gr_comm_mpi_f(gr_comm const* comm,  // [in] communicator
                               MPI_Fint* mpi);       // [out] communicator of MPI

/// Makes a communicator usable again after an error that some ranks had in the middle of a call. Collective.
///
/// Plans made before are refused afterwards: make them again.
GR_API gr_status gr_comm_renew(gr_comm* comm);  // [inout] communicator

/// Notifies all other ranks that this rank gives up its current calls: their waits end with an error. Not collective.
GR_API gr_status gr_comm_announce_failure(gr_comm const* comm,  // [in] communicator
                                          char const* text);    // [in] reason, for their error text

/// Divides the ranks of a communicator into teams along several axes: each rank is in one team of every axis.
/// Collective.
///
/// The last axis varies fastest, in all languages: its teams are neighbors on one node where node and team sizes allow
/// it, so use it for the team with the most traffic.
/// Example: axes data and domain of the sizes 0 and 4, on 8 ranks: ranks 0 to 3 are one domain team, 4 to 7 the other,
/// and ranks 1 and 5 are one data team.
GR_API gr_status gr_teams_create(gr_comm const* comm,       // [in] communicator of all ranks
                                 int num_axes,              // [in] [count names sizes] number of axes
                                 char const* const* names,  // [in] [values num_axes] name of each axis
                                 int const* sizes,          // [in] [values num_axes] ranks per team; 0: what remains
                                 gr_teams** teams);         // [out] teams

/// Frees teams; communicators that were taken from them stay valid. Collective.
GR_API gr_status gr_teams_destroy(gr_teams** teams);  // [inout] teams

/// All ranks, in the order that the teams need: rank 0 of it is rank 0 of its team along every axis.
GR_API gr_status gr_teams_world(gr_teams const* teams,  // [in] teams
                                gr_comm** comm);        // [out] communicator, freed by the caller

/// Team of this rank along an axis.
GR_API gr_status gr_teams_team(gr_teams const* teams,  // [in] teams
                               char const* name,       // [in] name of the axis
                               gr_comm** comm);        // [out] communicator, freed by the caller

// --- Cuts and layouts ------------------------------------------------------------------------------------------------

/// Parts of the given numbers of cells, in order.
/// Example: 4, 3, 3 cut 10 cells into [0, 4), [4, 7), [7, 10).
GR_API gr_status gr_cuts_create(int num_parts,         // [in] [count sizes] number of parts
                                int64_t const* sizes,  // [in] [values num_parts] cells of each part; 0 is allowed
                                gr_cuts** cuts);       // [out] cuts

/// Parts that differ by at most one cell, the larger ones first.
GR_API gr_status gr_cuts_create_balanced(int64_t extent,   // [in] cells of the axis
                                         int num_parts,    // [in] number of parts
                                         gr_cuts** cuts);  // [out] cuts

/// Parts that minimise the weight of the heaviest part.
GR_API gr_status gr_cuts_create_weighted(int num_cells,          // [in] [count weights] cells of the axis
                                         double const* weights,  // [in] [values num_cells] cost of each cell, >= 0
                                         int num_parts,          // [in] number of parts
                                         int64_t min_cells,      // [in] [default 1] least cells of a part
                                         gr_cuts** cuts);        // [out] cuts

/// Parts of equal cost by measured times: each cell of part p costs `seconds[p]` divided by the cells of the part.
GR_API gr_status gr_cuts_create_rebalanced(gr_cuts const* old,     // [in] cuts with which the times were measured
                                           int num_parts,          // [in] [count seconds] parts of `old`
                                           double const* seconds,  // [in] [values num_parts] time of each part, s
                                           int64_t min_cells,      // [in] [default 1] least cells of a part
                                           gr_cuts** cuts);        // [out] cuts

/// Number of parts.
GR_API gr_status gr_cuts_num_parts(gr_cuts const* cuts,  // [in] cuts
                                   int* num_parts);      // [out] number of parts

/// Cells of each part.
GR_API gr_status gr_cuts_sizes(gr_cuts const* cuts,  // [in] cuts
                               int num_parts,        // [in] [count sizes] number of parts, as `gr_cuts_num_parts`
                               int64_t* sizes);      // [out] [values num_parts] cells of each part

/// Frees cuts.
GR_API gr_status gr_cuts_destroy(gr_cuts** cuts);  // [inout] cuts

/// Fraction of the sphere that each row represents: weights for cuts of equal area and for global means.
GR_API gr_status gr_area_weights(int num_rows,             // [in] [count latitudes weights] number of rows
                                 double const* latitudes,  // [in] [values num_rows] degrees, monotonic
                                 double* weights);         // [out] [values num_rows] fractions of the sphere

/// Layout of balanced cuts over a process grid: the rank at (c0, c1) owns part c0 of axis 0 and part c1 of axis 1.
///
/// Ranks are placed with the last axis fastest. Ranks beyond the product of `num_parts` own nothing.
/// Example: 241 x 480 cells, 4 x 1 parts: rank 1 owns [61, 121) x [0, 480).
GR_API gr_status gr_layout_create(int ndim,                // [in] [count extents num_parts] axes of the grid
                                  int64_t const* extents,  // [in] [axes ndim] cells of the grid
                                  int const* num_parts,    // [in] [axes ndim] parts of each axis
                                  gr_layout** layout);     // [out] layout

/// Layout of given cuts.
GR_API gr_status
gr_layout_create_cuts(int ndim,                    // [in] [count cuts] axes of the grid
                      gr_cuts const* const* cuts,  // [in] [axes ndim] cuts of each axis
                      int num_ranks,               // [in] [count ranks] number of `ranks`
                      int const* ranks,     // [in] [optional] [values num_ranks] rank at each place, last axis fastest
                      gr_layout** layout);  // [out] layout

/// Layout of the boxes that the caller already has. Collective.
///
/// Boxes are disjoint and cover the grid. A rank passes no box or one; `gr_layout_create_blocks` takes more.
GR_API gr_status gr_layout_create_boxes(gr_comm const* comm,     // [in] communicator
                                        int ndim,                // [in] [count extents lower upper] axes of the grid
                                        int64_t const* extents,  // [in] [axes ndim] cells of the grid
                                        int num_boxes,           // [in] [count lower upper] boxes of this rank
                                        int64_t const* lower,    // [in] [lower ndim] [boxes num_boxes] first cells
                                        int64_t const* upper,    // [in] [upper ndim] [boxes num_boxes] ends
                                        gr_layout** layout);     // [out] layout

/// Layout of boxes that need not cover the grid: the other cells are holes, such as land, which no rank owns.
/// Collective.
///
/// Halo plans give ghost cells there the value `hole` of their kind; repartitions to boxes with an owner, and sums with
/// a weight for each cell, take such layouts, too.
GR_API gr_status gr_layout_create_with_holes(gr_comm const* comm,  // [in] communicator
                                             int ndim,             // [in] [count extents lower upper] axes of the grid
                                             int64_t const* extents,  // [in] [axes ndim] cells of the grid
                                             int num_boxes,  // [in] [count lower upper] boxes of this rank: one or none
                                             int64_t const* lower,  // [in] [lower ndim] [boxes num_boxes] first cells
                                             int64_t const* upper,  // [in] [upper ndim] [boxes num_boxes] ends
                                             gr_layout** layout);   // [out] layout

/// Layout of any number of blocks per rank: the tiles of a code, or the ocean blocks of a grid without its land.
/// Collective.
///
/// Blocks are disjoint; cells of no block are holes, as above. A field is one array per rank for all of its blocks, in
/// the order of the list, each with the extents of the rank's largest. So the layout has one axis more than the grid,
/// the number of the block: axis 0, in Fortran the last dimension. Halo plans fill the halos of all blocks in one call,
/// with kinds that have the axes of the grid.
/// Example in Fortran, on a grid of nx x ny cells: the blocks lower(2, n) to upper(2, n) of at most bx x by cells make
/// a layout on which `gr_halo_exchange` takes arrays t(0:bx + 1, 0:by + 1, n) with a halo of one cell.
GR_API gr_status gr_layout_create_blocks(gr_comm const* comm,     // [in] communicator
                                         int ndim,                // [in] [count extents lower upper] axes of the grid
                                         int64_t const* extents,  // [in] [axes ndim] cells of the grid
                                         int num_blocks,          // [in] [count lower upper] blocks of this rank
                                         int64_t const* lower,    // [in] [lower ndim] [boxes num_blocks] first cells
                                         int64_t const* upper,    // [in] [upper ndim] [boxes num_blocks] ends
                                         gr_layout** layout);     // [out] layout, with one axis more than the grid

/// Layout of blocks of several faces that meet along sides: a cubed sphere, or tiles that meet with a turn. Collective.
///
/// The grid has the axes (face, row, column), in Fortran (i, j, face), and a block lies on one face. Everything else is
/// as with `gr_layout_create_blocks`: a field is one array per rank for all of its blocks, and a repartition from a
/// layout of the grid moves fields to the blocks. Kinds of halos have the 2 axes of a face, and GR_EDGE_UNTOUCHED.
/// Components of vectors are along the axes of their face, two kinds side by side: ghost cells get them along the axes
/// of the block's face. Ghost cells beyond a side without joint, and those where three faces meet, keep their values.
/// Values lie in centres or on all faces (GR_ALL_FACES): components along their own axis or along the other one,
/// scalars along both. Both faces store the values on a side where they meet; those of the higher one become copies.
/// Cubed sphere: the first four faces follow each other eastward round the equator, with rows northward and columns
/// eastward. The fifth continues the first one beyond the north, the sixth beyond the south.
GR_API gr_status gr_layout_create_faces(
    gr_comm const* comm,          // [in] communicator
    int ndim,                     // [in] [count extents lower upper] 3
    int64_t const* extents,       // [in] [axes ndim] number of faces, and the cells of each
    int num_blocks,               // [in] [count lower upper] blocks of this rank
    int64_t const* lower,         // [in] [lower ndim] [boxes num_blocks] first cells
    int64_t const* upper,         // [in] [upper ndim] [boxes num_blocks] ends
    int num_joints,               // [in] [count joints] number of `joints`
    gr_face_joint const* joints,  // [in] [optional] [values num_joints] where faces meet; none: as on a cubed sphere
    gr_layout** layout);          // [out] layout of blocks

/// Layout on whose process grid the slowest rank exchanges halos of a kind fastest, by a model of the costs.
/// Collective.
GR_API gr_status gr_layout_create_best(gr_comm const* comm,       // [in] communicator
                                       int ndim,                  // [in] [count extents] axes of the grid
                                       int64_t const* extents,    // [in] [axes ndim] cells of the grid
                                       gr_halo_kind const* kind,  // [in] the most frequent exchange
                                       int64_t element_bytes,     // [in] bytes of one value
                                       int64_t num_batch,         // [in] values per cell: levels times fields
                                       gr_layout** layout);       // [out] layout

/// Gives all ranks of a communicator a layout that only a part of them knows, in the ranks of `comm`. Collective.
GR_API gr_status gr_layout_create_shared(gr_comm const* comm,    // [in] communicator of all
                                         gr_layout const* part,  // [in] [optional] layout in the ranks of `part_comm`
                                         gr_comm const* part_comm,  // [in] [optional] communicator of the part
                                         gr_layout** layout);       // [out] layout in the ranks of `comm`

/// Gives the boxes of a layout to the ranks that already hold most of their cells, for grids whose ranks may swap
/// boxes.
///
/// A moved cell costs 1, or `off_node_weight` where it leaves its node. Up to a thousand ranks, and with balanced cuts
/// beyond, no other assignment of the boxes costs less; `cost_above_least` bounds what one may save elsewhere. Ranks
/// with equal arguments agree without messages.
/// Example: a field on the rows [0, 3), [3, 6), [6, 9) of ranks 0, 1, 2, and a layout with the same rows on the ranks
/// 2, 0, 1: all boxes return to the ranks that hold them, and a repartition to `layout` sends nothing.
GR_API gr_status
gr_layout_relabel(gr_layout const* from,              // [in] layout of the fields
                  gr_layout const* to,                // [in] layout whose boxes may go to other ranks
                  gr_relabel_options const* options,  // [in] [optional] order of axes, cost of leaving a node
                  int num_nodes,                      // [in] [count node_of_rank] number of `node_of_rank`
                  int const* node_of_rank,  // [in] [optional] [values num_nodes] as `gr_comm_nodes`; NULL: one node
                  int num_ranks,            // [in] [count ranks] number of `ranks`
                  int const* ranks,         // [in] [optional] [values num_ranks] that may own boxes; NULL: all
                  gr_layout** layout,       // [out] layout with the boxes of `to`
                  gr_relabelling* saving);  // [inout] [optional] cells that are moved

/// Number of axes.
GR_API gr_status gr_layout_ndim(gr_layout const* layout,  // [in] layout
                                int* ndim);               // [out] number of axes

/// Cells of the grid along each axis.
GR_API gr_status gr_layout_extents(gr_layout const* layout,  // [in] layout
                                   int ndim,                 // [in] [count extents] axes of the grid
                                   int64_t* extents);        // [out] [axes ndim] cells of the grid

/// Box of one rank; empty for a rank that owns nothing.
GR_API gr_status gr_layout_owned(gr_layout const* layout,  // [in] layout
                                 int rank,                 // [in] rank, from 0
                                 int ndim,                 // [in] [count lower upper] axes of the grid
                                 int64_t* lower,           // [out] [lower ndim] first cells
                                 int64_t* upper);          // [out] [upper ndim] ends

/// One line that describes a layout.
GR_API gr_status gr_layout_text(gr_layout const* layout,  // [in] layout
                                char const** text);       // [out] text

/// Frees a layout.
GR_API gr_status gr_layout_destroy(gr_layout** layout);  // [inout] layout

// --- Fields and calls in flight --------------------------------------------------------------------------------------

/// Describes dense memory whose last axis is contiguous.
GR_API gr_status gr_field_dense(void* base,              // [in] [c] first element
                                gr_type type,            // [in] of the elements
                                int rank,                // [in] memory axes
                                int64_t const* extents,  // [in] elements along each memory axis
                                gr_field* field);        // [out] field

/// Allocates memory for fields that the other ranks of the node read in place: a plan then copies each cell once.
///
/// By one rank alone, at any time. Fields may lie anywhere in it, and be combined with fields in other memory. Where
/// the system cannot share memory it is ordinary memory.
GR_API gr_status gr_node_memory_create(int64_t num_bytes,         // [in] [wide] bytes; the values are unspecified
                                       gr_node_memory** memory);  // [out] memory

/// Address of the first byte, at the beginning of a page.
GR_API gr_status gr_node_memory_address(gr_node_memory const* memory,  // [in] memory
                                        void** address);               // [out] first byte

/// Number of bytes.
GR_API gr_status gr_node_memory_size(gr_node_memory const* memory,  // [in] memory
                                     int64_t* num_bytes);           // [out] bytes

/// Whether other ranks can read it in place.
GR_API gr_status gr_node_memory_is_shared(gr_node_memory const* memory,  // [in] memory
                                          int* shared);                  // [out] [flag] 1 if so

/// Frees memory: after the last call with fields in it has ended.
GR_API gr_status gr_node_memory_destroy(gr_node_memory** memory);  // [inout] memory

/// Waits until a call in flight is complete, and frees it. With an error it is freed too.
GR_API gr_status gr_finish(gr_pending** pending);  // [inout] call in flight

/// Whether `gr_finish` would not block. Does not block.
GR_API gr_status gr_test(gr_pending* pending,  // [inout] call in flight
                         int* complete);       // [out] [flag] 1 if so

// --- Halos -----------------------------------------------------------------------------------------------------------

/// The same width and rule on all sides.
GR_API gr_status gr_halo_kind_uniform(int ndim,             // [in] axes of the grid
                                      gr_edge edge,         // [in] rule of all sides
                                      int64_t width,        // [in] ghost cells on all sides
                                      gr_halo_kind* kind);  // [out] kind

/// Axes (latitude, longitude): both poles crossed by the same rule, longitude periodic.
GR_API gr_status gr_halo_kind_sphere(gr_edge pole,         // [in] GR_EDGE_POLE_FACE or GR_EDGE_POLE_ROW
                                     int64_t width,        // [in] ghost cells on all sides
                                     gr_halo_kind* kind);  // [out] kind

/// Axes (latitude, longitude): a rule below the first row, a seam above the last; values on the seam are copied.
GR_API gr_status gr_halo_kind_tripolar(gr_edge south,        // [in] rule below the first row
                                       gr_edge seam,         // [in] GR_EDGE_TRIPOLAR_FACE or GR_EDGE_TRIPOLAR_ROW
                                       int64_t width,        // [in] ghost cells on all sides
                                       gr_halo_kind* kind);  // [out] kind

/// Plans halo exchanges of fields of one or several kinds on a layout. Collective.
///
/// One plan serves any number of fields of any type and any number of batch axes.
GR_API gr_status gr_halo_create(gr_comm const* comm,        // [in] communicator
                                gr_layout const* layout,    // [in] layout
                                int num_kinds,              // [in] [count kinds] number of kinds
                                gr_halo_kind const* kinds,  // [in] [values num_kinds] kinds
                                gr_halo** halo);            // [out] [named gr_plan_name] plan

/// Frees a plan. Calls in flight remain valid.
GR_API gr_status gr_halo_destroy(gr_halo** halo);  // [inout] plan

/// Box of this rank.
GR_API gr_status gr_halo_owned(gr_halo const* halo,  // [in] plan
                               int ndim,             // [in] [count lower upper] axes of the grid
                               int64_t* lower,       // [out] [lower ndim] first cells
                               int64_t* upper);      // [out] [upper ndim] ends

/// Box of this rank with the halo of a kind: the cells that fields have in memory.
GR_API gr_status gr_halo_local(gr_halo const* halo,  // [in] plan
                               int kind,             // [in] [index] kind
                               int ndim,             // [in] [count lower upper] axes of the grid
                               int64_t* lower,       // [out] [lower ndim] first cells
                               int64_t* upper);      // [out] [upper ndim] ends

/// The layout of fields of one kind: the plan's, with one cell more at the upper end of each axis that has values on
/// all faces (GR_ALL_FACES). For the owned box of such fields, their repartitions, sums and checkpoints.
GR_API gr_status gr_halo_layout(gr_halo const* halo,  // [in] plan
                                int kind,             // [in] [index] kind
                                gr_layout** layout);  // [out] layout

/// Owned cells whose stencil reads no cell that an exchange fills: compute them while it is in flight.
GR_API gr_status gr_halo_interior(
    gr_halo const* halo,         // [in] plan
    int kind,                    // [in] [index] kind
    int ndim,                    // [in] [count lower upper reach_lower reach_upper] axes of the grid
    int64_t const* reach_lower,  // [in] [optional] [axes ndim] cells that the stencil reaches; NULL: the widths
    int64_t const* reach_upper,  // [in] [optional] [axes ndim] the same above
    int64_t* lower,              // [out] [lower ndim] first cells
    int64_t* upper);             // [out] [upper ndim] ends

/// The other owned cells as disjoint boxes: compute them afterwards. At most 2 boxes per axis.
GR_API gr_status gr_halo_border(gr_halo const* halo,  // [in] plan
                                int kind,             // [in] [index] kind
                                int ndim,  // [in] [count lower upper reach_lower reach_upper] axes of the grid
                                int64_t const* reach_lower,  // [in] [optional] [axes ndim] as `gr_halo_interior`
                                int64_t const* reach_upper,  // [in] [optional] [axes ndim] as `gr_halo_interior`
                                int most_boxes,   // [in] [count lower upper] boxes that fit; 2 * ndim are enough
                                int* num_boxes,   // [out] number of boxes
                                int64_t* lower,   // [out] [lower ndim] [boxes most_boxes] first cells
                                int64_t* upper);  // [out] [upper ndim] [boxes most_boxes] ends

/// Fills the halos of fields from the owned cells of all ranks and the rules. Collective.
GR_API gr_status gr_halo_exchange(gr_halo const* halo,      // [in] plan
                                  int num_fields,           // [in] [count fields] number of fields
                                  gr_field const* fields);  // [in] [values num_fields] fields with halos

/// Starts an exchange: until `gr_finish`, owned cells may be read and ghost cells not used. Collective.
GR_API gr_status gr_halo_start(gr_halo const* halo,     // [in] plan
                               int num_fields,          // [in] [count fields] number of fields
                               gr_field const* fields,  // [in] [values num_fields] fields with halos
                               gr_pending** pending);   // [out] call in flight

/// The transposed exchange: adds to each owned cell the values of its images, and zeroes the images. Collective.
GR_API gr_status gr_halo_exchange_adjoint(gr_halo const* halo,      // [in] plan
                                          int num_fields,           // [in] [count fields] number of fields
                                          gr_field const* fields);  // [in] [values num_fields] fields with halos

/// Starts a transposed exchange. Collective.
GR_API gr_status gr_halo_start_adjoint(gr_halo const* halo,     // [in] plan
                                       int num_fields,          // [in] [count fields] number of fields
                                       gr_field const* fields,  // [in] [values num_fields] fields with halos
                                       gr_pending** pending);   // [out] call in flight

/// Sets the transport of later calls; the same on all ranks, between the same calls.
GR_API gr_status gr_halo_set_transport(gr_halo* halo,            // [inout] plan
                                       gr_transport transport);  // [in] transport

/// Measures the transports with these fields and selects the fastest. Collective; no call in flight.
GR_API gr_status
gr_halo_tune(gr_halo* halo,           // [inout] plan
             int num_fields,          // [in] [count fields] number of fields
             gr_field const* fields,  // [in] [values num_fields] fields with halos, which are exchanged
             int num_calls,           // [in] calls per transport
             gr_transport* chosen);   // [out] transport

/// Traffic of a call on this rank.
GR_API gr_status gr_halo_counts(gr_halo const* halo,  // [in] plan
                                gr_counts* counts);   // [inout] traffic

/// Traffic and times of the calls so far.
GR_API gr_status gr_halo_stats(gr_halo const* halo,  // [in] plan
                               gr_stats* stats);     // [inout] traffic and times

/// Report for people: the path to each peer with the reason, then traffic and times.
GR_API gr_status gr_halo_report(gr_halo const* halo,  // [in] plan
                                char const** text);   // [out] text

/// Writes the plan as JSON, for `graticule-bench replay`. Collective.
GR_API gr_status gr_halo_dump(gr_halo const* halo,  // [in] plan
                              char const* path);    // [in] file, written by rank 0

// --- Valid layers of halos -------------------------------------------------------------------------------------------

/// Counts the valid layers of a field's halo, to exchange once and apply operators until the halo is exhausted.
///
/// The counts are the same on all ranks; they are kept per axis and side, inside the grid and beyond its edges. An
/// exchange sets them to the widths, a write to owned cells to 0; an operator that reaches r cells needs r and leaves r
/// less. Starts without valid layers. Report each exchange, write and operator on all ranks in the same order.
/// Example: width 3, reach 1: the rank with rows [8, 16) computes [6, 18), then [7, 17), then [8, 16), then exchanges.
GR_API gr_status gr_halo_depth_create(gr_halo const* halo,     // [in] plan of the field's exchanges
                                      char const* name,        // [in] name of the field, for texts of errors
                                      int kind,                // [in] [index] [default 0] kind of the field
                                      gr_parity parity,        // [in] [default 0] parity of the field
                                      gr_halo_depth** depth);  // [out] counts

/// Frees counts.
GR_API gr_status gr_halo_depth_destroy(gr_halo_depth** depth);  // [inout] counts

/// Reports an exchange of the field's halo.
GR_API gr_status gr_halo_depth_exchanged(gr_halo_depth* depth);  // [inout] counts

/// Reports that owned cells were written by other means than an operator on all valid cells.
GR_API gr_status gr_halo_depth_written(gr_halo_depth* depth);  // [inout] counts

/// Valid layers inside the grid on both sides of each axis; beyond a periodic edge counts as inside.
GR_API gr_status gr_halo_depth_inside(gr_halo_depth const* depth,  // [in] counts
                                      int ndim,                    // [in] [count lower upper] axes of the grid
                                      int64_t* lower,              // [out] [axes ndim] layers below
                                      int64_t* upper);             // [out] [axes ndim] layers above

/// Valid layers beyond the edges of the grid.
GR_API gr_status gr_halo_depth_beyond(gr_halo_depth const* depth,  // [in] counts
                                      int ndim,                    // [in] [count lower upper] axes of the grid
                                      int64_t* lower,              // [out] [axes ndim] layers below
                                      int64_t* upper);             // [out] [axes ndim] layers above

/// The cells of this rank that hold valid values.
GR_API gr_status gr_halo_depth_valid(gr_halo_depth const* depth,  // [in] counts
                                     int ndim,                    // [in] [count lower upper] axes of the grid
                                     int64_t* lower,              // [out] [lower ndim] first cells
                                     int64_t* upper);             // [out] [upper ndim] ends

/// Whether symmetric operators commute with the rule of each edge: never with constants and replicated edges.
GR_API gr_status gr_halo_depth_commutes(gr_halo_depth const* depth,  // [in] counts
                                        int ndim,                    // [in] [count lower upper] axes of the grid
                                        int* lower,                  // [out] [flag] [axes ndim] 1 if so, below
                                        int* upper);                 // [out] [flag] [axes ndim] 1 if so, above

/// Whether an operator may be applied without an exchange; the same on all ranks.
GR_API gr_status
gr_halo_depth_suffices(gr_halo_depth const* depth,  // [in] counts of the field that the operator reads
                       int ndim,                    // [in] [count reach_lower reach_upper] axes of the grid
                       int64_t const* reach_lower,  // [in] [axes ndim] cells that its stencil reaches below
                       int64_t const* reach_upper,  // [in] [axes ndim] the same above
                       int* suffices);              // [out] [flag] 1 if so

/// The field becomes the result of an operator: gives the cells to compute.
///
/// Fails with the rule HaloTooShallow, on all ranks alike, where the layers do not suffice.
GR_API gr_status
gr_halo_depth_apply(gr_halo_depth* depth,        // [inout] counts of the field that is written
                    gr_halo_depth const* input,  // [in] counts of the field that is read, which may be the same
                    int ndim,                    // [in] [count reach_lower reach_upper lower upper] axes of the grid
                    int64_t const* reach_lower,  // [in] [axes ndim] cells that the stencil reaches below
                    int64_t const* reach_upper,  // [in] [axes ndim] the same above
                    gr_at_mirrors at_mirrors,    // [in] whether the operator commutes with mirror images
                    int64_t* lower,              // [out] [lower ndim] first cells to compute
                    int64_t* upper);             // [out] [upper ndim] ends

/// Makes ghost cells beyond the edges valid, as deep as the rules read valid cells of this rank. No messages.
///
/// Beyond poles and seams only where every rank owns whole circles of latitude and no cells are copies.
GR_API gr_status gr_halo_depth_refill(gr_halo_depth* depth,    // [inout] counts
                                      gr_field const* field);  // [in] field, written beyond the edges

// --- Repartitions ----------------------------------------------------------------------------------------------------

/// Plans movements of fields from one layout to another. Collective.
///
/// Each rank passes fields on its box of `from` and gets them on its box of `to`, of any type that the values convert
/// to. Where `to` has several blocks per rank (`gr_layout_create_blocks`), fields on it have all of them, and
/// `gr_repartition_apply_inverse` moves fields from the blocks, without change of the cells of no block.
GR_API gr_status gr_repartition_create(gr_comm const* comm,                    // [in] communicator
                                       gr_layout const* from,                  // [in] old layout
                                       gr_layout const* to,                    // [in] new layout
                                       gr_repartition_options const* options,  // [in] [optional] options
                                       gr_repartition** plan);                 // [out] [named gr_plan_name] plan

/// The same to any boxes on each rank, which may overlap and need not cover the grid. Collective.
GR_API gr_status gr_repartition_create_boxes(gr_comm const* comm,    // [in] communicator
                                             gr_layout const* from,  // [in] old layout
                                             int ndim,               // [in] [count lower upper] axes of the grid
                                             int num_boxes,          // [in] [count lower upper] boxes of this rank
                                             int64_t const* lower,   // [in] [lower ndim] [boxes num_boxes] first cells
                                             int64_t const* upper,   // [in] [upper ndim] [boxes num_boxes] ends
                                             gr_repartition_options const* options,  // [in] [optional] options
                                             gr_repartition** plan);                 // [out] [named gr_plan_name] plan

/// Frees a plan. Calls in flight remain valid.
GR_API gr_status gr_repartition_destroy(gr_repartition** plan);  // [inout] plan

/// Box that fields on the old layout cover on this rank.
GR_API gr_status gr_repartition_source(gr_repartition const* plan,  // [in] plan
                                       int ndim,                    // [in] [count lower upper] axes of the grid
                                       int64_t* lower,              // [out] [lower ndim] first cells
                                       int64_t* upper);             // [out] [upper ndim] ends

/// Number of boxes that this rank gets: 1, except for `gr_repartition_create_boxes`.
GR_API gr_status gr_repartition_num_targets(gr_repartition const* plan,  // [in] plan
                                            int* num_targets);  // [out] number of boxes; 1, an empty one, for none

/// Box that fields on the new layout cover on this rank.
GR_API gr_status gr_repartition_target(gr_repartition const* plan,  // [in] plan
                                       int target,                  // [in] [index] which box
                                       int ndim,                    // [in] [count lower upper] axes of the grid
                                       int64_t* lower,              // [out] [lower ndim] first cells
                                       int64_t* upper);             // [out] [upper ndim] ends

/// Moves fields: `to = alpha * from + beta * to`. Collective.
///
/// `to` has the targets of the first field, then those of the second, and so on.
GR_API gr_status gr_repartition_apply(
    gr_repartition const* plan,  // [in] plan
    int num_from,                // [in] [count from updates] number of fields
    gr_field const* from,        // [in] [values num_from] fields on the old layout
    int num_to,                  // [in] [count to] number of fields times number of targets
    gr_field const* to,          // [in] [values num_to] fields on the new layout
    gr_update const* updates);   // [in] [optional] [values num_from] factors and packing; NULL: to = from

/// Starts a movement: `from` may be changed, and `to` used, after `gr_finish`. Collective.
GR_API gr_status
gr_repartition_start(gr_repartition const* plan,  // [in] plan
                     int num_from,                // [in] [count from updates] number of fields
                     gr_field const* from,        // [in] [values num_from] fields on the old layout
                     int num_to,                  // [in] [count to] number of fields times number of targets
                     gr_field const* to,          // [in] [values num_to] fields on the new layout
                     gr_update const* updates,    // [in] [optional] [values num_from] as `gr_repartition_apply`
                     gr_pending** pending);       // [out] call in flight

/// The transposed movement: `from = conj(alpha) * sum of the images + beta * from`, beta being 1 by default.
/// Collective.
GR_API gr_status
gr_repartition_apply_adjoint(gr_repartition const* plan,  // [in] plan
                             int num_from,                // [in] [count from updates] number of fields
                             gr_field const* from,        // [in] [values num_from] fields on the old layout
                             int num_to,                  // [in] [count to] number of fields times number of targets
                             gr_field const* to,          // [in] [values num_to] fields on the new layout, only read
                             gr_update const* updates);   // [in] [optional] [values num_from] factors

/// Starts a transposed movement. Collective.
GR_API gr_status
gr_repartition_start_adjoint(gr_repartition const* plan,  // [in] plan
                             int num_from,                // [in] [count from updates] number of fields
                             gr_field const* from,        // [in] [values num_from] fields on the old layout
                             int num_to,                  // [in] [count to] number of fields times number of targets
                             gr_field const* to,          // [in] [values num_to] fields on the new layout, only read
                             gr_update const* updates,    // [in] [optional] [values num_from] factors
                             gr_pending** pending);       // [out] call in flight

/// The reverse movement: `from = alpha * to + beta * from` where a cell has an image. Collective.
GR_API gr_status
gr_repartition_apply_inverse(gr_repartition const* plan,  // [in] plan
                             int num_from,                // [in] [count from updates] number of fields
                             gr_field const* from,        // [in] [values num_from] fields on the old layout
                             int num_to,                  // [in] [count to] number of fields times number of targets
                             gr_field const* to,          // [in] [values num_to] fields on the new layout, only read
                             gr_update const* updates);   // [in] [optional] [values num_from] factors and packing

/// Starts a reverse movement. Collective.
GR_API gr_status
gr_repartition_start_inverse(gr_repartition const* plan,  // [in] plan
                             int num_from,                // [in] [count from updates] number of fields
                             gr_field const* from,        // [in] [values num_from] fields on the old layout
                             int num_to,                  // [in] [count to] number of fields times number of targets
                             gr_field const* to,          // [in] [values num_to] fields on the new layout, only read
                             gr_update const* updates,    // [in] [optional] [values num_from] factors and packing
                             gr_pending** pending);       // [out] call in flight

/// Sets the transport of later calls; the same on all ranks, between the same calls.
GR_API gr_status gr_repartition_set_transport(gr_repartition* plan,     // [inout] plan
                                              gr_transport transport);  // [in] transport

/// Measures the transports with these fields, one target each, and selects the fastest. Collective; no call in flight.
GR_API gr_status
gr_repartition_tune(gr_repartition* plan,   // [inout] plan
                    int num_from,           // [in] [count from] number of fields
                    gr_field const* from,   // [in] [values num_from] fields on the old layout
                    int num_to,             // [in] [count to] number of fields times number of targets
                    gr_field const* to,     // [in] [values num_to] fields on the new layout, which are written
                    int num_calls,          // [in] calls per transport
                    gr_transport* chosen);  // [out] transport

/// Traffic of a call on this rank.
GR_API gr_status gr_repartition_counts(gr_repartition const* plan,  // [in] plan
                                       gr_counts* counts);          // [inout] traffic

/// Traffic and times of the calls so far.
GR_API gr_status gr_repartition_stats(gr_repartition const* plan,  // [in] plan
                                      gr_stats* stats);            // [inout] traffic and times

/// Report for people: the path to each peer with the reason, then traffic and times.
GR_API gr_status gr_repartition_report(gr_repartition const* plan,  // [in] plan
                                       char const** text);          // [out] text

/// Writes the plan as JSON, for `graticule-bench replay`. Collective.
GR_API gr_status gr_repartition_dump(gr_repartition const* plan,  // [in] plan
                                     char const* path);           // [in] file, written by rank 0

// --- Zonal and area sums ---------------------------------------------------------------------------------------------

/// Plans sums of all cells along one axis, as of all columns of a row. Collective.
///
/// Fields are F32 or F64; cells of F32 in host memory may have sums of F64. Each rank gets the sums of its own rows.
GR_API gr_status gr_zonal_create(gr_comm const* comm,      // [in] communicator
                                 gr_layout const* layout,  // [in] layout of the cells
                                 int axis,                 // [in] [axis layout] axis that is summed over
                                 gr_summation summation,   // [in] [default 0] exact or fast
                                 gr_scale scale,           // [in] [default 0] sums or means
                                 int ndim,                 // [in] [count lower upper] axes of the grid
                                 int64_t const* lower,  // [in] [optional] [lower ndim] cells that are added; NULL: all
                                 int64_t const* upper,  // [in] [optional] [upper ndim] their ends
                                 gr_zonal** zonal);     // [out] [named gr_plan_name] plan

/// Frees a plan.
GR_API gr_status gr_zonal_destroy(gr_zonal** zonal);  // [inout] plan

/// Box that the cells cover: the owned box of this rank.
GR_API gr_status gr_zonal_cells(gr_zonal const* zonal,  // [in] plan
                                int ndim,               // [in] [count lower upper] axes of the grid
                                int64_t* lower,         // [out] [lower ndim] first cells
                                int64_t* upper);        // [out] [upper ndim] ends

/// Box that the sums cover: one cell along the axis, the first.
GR_API gr_status gr_zonal_sums(gr_zonal const* zonal,  // [in] plan
                               int ndim,               // [in] [count lower upper] axes of the grid
                               int64_t* lower,         // [out] [lower ndim] first cells
                               int64_t* upper);        // [out] [upper ndim] ends

/// Writes the sums. Collective.
GR_API gr_status gr_zonal_apply(gr_zonal const* zonal,  // [in] plan
                                int num_fields,         // [in] [count cells sums] number of fields
                                gr_field const* cells,  // [in] [values num_fields] fields of cells, read
                                gr_field const* sums);  // [in] [values num_fields] fields of sums, written

/// Adds the cells of this rank and sends the partial sums; the sums are valid after `gr_finish`. Collective.
GR_API gr_status gr_zonal_start(gr_zonal const* zonal,  // [in] plan
                                int num_fields,         // [in] [count cells sums] number of fields
                                gr_field const* cells,  // [in] [values num_fields] fields of cells, read
                                gr_field const* sums,   // [in] [values num_fields] fields of sums, written
                                gr_pending** pending);  // [out] call in flight

/// Adds to each cell the cotangent of its sum (divided by the number of cells for means). Collective.
GR_API gr_status
gr_zonal_apply_adjoint(gr_zonal const* zonal,      // [in] plan
                       int num_fields,             // [in] [count cells sums] number of fields
                       gr_field const* cells,      // [in] [values num_fields] cotangents of cells, added to
                       gr_field const* sums,       // [in] [values num_fields] cotangents of sums, read
                       gr_cotangents cotangents);  // [in] of each rank, or replicated

/// Plans the sum of all cells times a weight of their row, with the same bits for every split. Collective.
GR_API gr_status gr_area_sum_create(gr_comm const* comm,      // [in] communicator
                                    gr_layout const* layout,  // [in] layout of the cells
                                    int axis,      // [in] [axis layout] axis along which the weight is constant
                                    int row_axis,  // [in] [axis layout] axis of the weights
                                    int num_rows,  // [in] [count weights] cells along `row_axis`
                                    double const* weights,    // [in] [values num_rows] weight of each row
                                    gr_scale scale,           // [in] [default 0] sum, or mean
                                    gr_area_sum** area_sum);  // [out] [named gr_plan_name] plan

/// The same with a weight of each cell, such as the areas of a tripolar grid: fields in host memory. Collective.
///
/// A weight of 0 leaves a cell out, whatever its value. `weights` has one weight for each cell of this rank's box.
GR_API gr_status gr_area_sum_create_cells(gr_comm const* comm,      // [in] communicator
                                          gr_layout const* layout,  // [in] layout of the cells
                                          gr_field const* weights,  // [in] weights, read: F32 or F64
                                          gr_scale scale,           // [in] [default 0] sum, or mean
                                          gr_area_sum** area_sum);  // [out] [named gr_plan_name] plan

/// Frees a plan.
GR_API gr_status gr_area_sum_destroy(gr_area_sum** area_sum);  // [inout] plan

/// One sum for each element of the batch axes, in row-major order, the same on all ranks. Collective.
GR_API gr_status gr_area_sum_apply(gr_area_sum const* area_sum,  // [in] plan
                                   gr_field const* cells,        // [in] field of cells
                                   int num_sums,                 // [in] [count sums] elements of the batch axes
                                   double* sums);                // [out] [values num_sums] sums

/// Adds weight times cotangent to each cell. No messages.
GR_API gr_status
gr_area_sum_apply_adjoint(gr_area_sum const* area_sum,  // [in] plan
                          gr_field const* cells,        // [in] cotangents of cells, added to
                          int num_sums,                 // [in] [count cotangents] elements of the batch axes
                          double const* cotangents);    // [in] [values num_sums] cotangents, the same on all ranks

// --- Files -----------------------------------------------------------------------------------------------------------

/// Makes an empty list of named values, for a file or a variable.
GR_API gr_status gr_attributes_create(gr_attributes** attributes);  // [out] attributes

/// Adds a text.
GR_API gr_status gr_attributes_add_text(gr_attributes* attributes,  // [inout] attributes
                                        char const* name,           // [in] name
                                        char const* value);         // [in] text

/// Adds a number.
GR_API gr_status gr_attributes_add_number(gr_attributes* attributes,  // [inout] attributes
                                          char const* name,           // [in] name
                                          double value,               // [in] number
                                          gr_type type);              // [in] stored type

/// Frees attributes.
GR_API gr_status gr_attributes_destroy(gr_attributes** attributes);  // [inout] attributes

/// Opens a netCDF-4 or HDF5 file, or a Zarr store, for reading. Collective.
GR_API gr_status gr_file_open(gr_comm const* comm,  // [in] communicator
                              char const* path,     // [in] file
                              gr_file** file);      // [out] file

/// Opens files that follow each other in time, and reads them as one. Collective.
///
/// Variables along the joined dimension have the cells of all files, each unpacked by its own file; the others are
/// those of the first one. Each file is compared with the first. Names may have `*`, `?` and `[...]`; the files of each
/// are sorted by name, with numbers compared by value, so run_2.nc comes before run_10.nc.
/// Example: `era5_*.nc` for two years with 8784 and 8760 times: z(time = 17544, ...).
GR_API gr_status
gr_file_open_series(gr_comm const* comm,          // [in] communicator
                    int num_patterns,             // [in] [count patterns] number of `patterns`
                    char const* const* patterns,  // [in] [values num_patterns] files
                    char const* dimension,        // [in] [optional] to join; NULL: the unlimited one, or the most usual
                    int most_open,                // [in] [default 4] files that are open at once
                    gr_file** file);              // [out] file

/// Number of files: 1 after `gr_file_open`.
GR_API gr_status gr_file_num_files(gr_file const* file,  // [in] file
                                   int* num_files);      // [out] number of files

/// One of the files, and the cells that it holds along the joined dimension.
GR_API gr_status gr_file_part(gr_file const* file,    // [in] file
                              int number,             // [in] [index] which file
                              int64_t* cells_before,  // [out] cells of the files before it
                              int64_t* num_cells,     // [out] cells of this file; 0 where nothing is joined
                              char const** path);     // [out] its name

/// Name of the joined dimension; empty where nothing is joined.
GR_API gr_status gr_file_series_dimension(gr_file const* file,  // [in] file
                                          char const** name);   // [out] name of the dimension

/// Closes a file. Collective.
GR_API gr_status gr_file_close(gr_file** file);  // [inout] file

/// Number of variables, coordinates included.
GR_API gr_status gr_file_num_variables(gr_file const* file,  // [in] file
                                       int* num_variables);  // [out] number of variables

/// Name of a variable.
GR_API gr_status gr_file_variable_name(gr_file const* file,  // [in] file
                                       int number,           // [in] [index] which variable, in order of the file
                                       char const** name);   // [out] name

/// Number of axes of a variable.
GR_API gr_status gr_file_ndim(gr_file const* file,   // [in] file
                              char const* variable,  // [in] name
                              int* ndim);            // [out] number of axes

/// Cells of a variable along each axis.
GR_API gr_status gr_file_extents(gr_file const* file,   // [in] file
                                 char const* variable,  // [in] name
                                 int ndim,              // [in] [count extents] axes of the variable
                                 int64_t* extents);     // [out] [axes ndim] cells

/// Name of the dimension of one axis of a variable.
GR_API gr_status gr_file_dimension(gr_file const* file,   // [in] file
                                   char const* variable,  // [in] name
                                   int ndim,              // [in] axes of the variable
                                   int axis,              // [in] [axis ndim] which axis
                                   char const** name);    // [out] name of the dimension

/// Values of the coordinate of a dimension, on every rank. Latitudes and longitudes in radians become degrees,
/// other units of these are refused. Collective.
GR_API gr_status gr_file_coordinate(gr_file const* file,    // [in] file
                                    char const* dimension,  // [in] name of the dimension
                                    int num_values,         // [in] [count values] cells of the dimension
                                    double* values);        // [out] [values num_values] coordinate

/// Calendar of a coordinate of time as files name it: `standard` (where there is no attribute, too),
/// `proleptic_gregorian`, `julian`, `noleap`, `all_leap` or `360_day`.
GR_API gr_status gr_file_calendar(gr_file const* file,     // [in] file
                                  char const* dimension,   // [in] name of the dimension
                                  char const** calendar);  // [out] name of the calendar

/// Times of a coordinate in units such as `hours since 2000-01-01`, as whole seconds since 1970-01-01 00:00 of its
/// calendar, which has 365 days a year if it is `noleap`. Collective.
GR_API gr_status gr_file_times(gr_file const* file,    // [in] file
                               char const* dimension,  // [in] name of the dimension
                               int num_times,          // [in] [count times] cells of the dimension
                               int64_t* times);        // [out] [wide] [values num_times] times

/// Seconds from 1970-01-01 00:00 to a date of a calendar. Not collective.
/// Example: 2001-03-01 in `noleap` is 31 * 365 + 59 days later.
GR_API gr_status gr_time_of_date(char const* calendar,  // [in] name as in files, such as noleap or 365_day
                                 int year,              // [in] year
                                 int month,             // [in] month, 1 to 12
                                 int day,               // [in] day, from 1 on
                                 int second,            // [in] seconds since midnight
                                 int64_t* time);        // [out] seconds

/// The inverse. Not collective.
GR_API gr_status gr_date_of_time(char const* calendar,  // [in] name as in files
                                 int64_t time,          // [in] [wide] seconds since 1970-01-01 00:00
                                 int* year,             // [out] year
                                 int* month,            // [out] month, 1 to 12
                                 int* day,              // [out] day, from 1 on
                                 int* second);          // [out] seconds since midnight

/// Text of an attribute; empty where there is none, or a number.
GR_API gr_status gr_file_attribute_text(gr_file const* file,    // [in] file
                                        char const* variable,   // [in] [optional] name; NULL: of the file
                                        char const* attribute,  // [in] name of the attribute
                                        char const** text);     // [out] text

/// Numbers of an attribute.
GR_API gr_status gr_file_attribute_numbers(gr_file const* file,    // [in] file
                                           char const* variable,   // [in] [optional] name; NULL: of the file
                                           char const* attribute,  // [in] name of the attribute
                                           int most_numbers,       // [in] [count numbers] numbers that fit
                                           int* num_numbers,  // [out] numbers of the attribute; 0 where there is none
                                           double* numbers);  // [out] [values most_numbers] the first of them

/// Reads a box of a variable into a field of any type and strides. Collective; each rank passes its own box.
///
/// Packed values are unpacked; missing values become NaN: `_FillValue`, `missing_value`, what `valid_min`, `valid_max`
/// and `valid_range` exclude, and, without `_FillValue`, netCDF's default fill value, except in bytes and in integers
/// that are not packed. `first` of the field is the element of the first cell read.
/// Example: a file with z(time, latitude, longitude), and a field of 2 axes: box {5, 10, 0} to {6, 20, 480} is read
/// into 10 x 480 elements, because without `axes` the field has the last axes of the variable.
GR_API gr_status gr_file_read(
    gr_file const* file,   // [in] file
    char const* variable,  // [in] name
    int ndim,              // [in] [count lower upper steps] axes of the variable
    int64_t const* lower,  // [in] [lower ndim] first cells
    int64_t const* upper,  // [in] [upper ndim] ends
    int64_t const* steps,  // [in] [optional] [axes ndim] every how many cells, from the last one where negative
    int num_axes,          // [in] [count axes] memory axes of the field
    int const* axes,  // [in] [optional] [axes num_axes] [axis ndim] axis of the variable in each memory axis; or -1
    gr_field const* field);  // [in] field, written

/// Starts a netCDF-4 file, or a Zarr store where the name ends in `.zarr`, which gets its name when it is committed.
/// Collective.
GR_API gr_status gr_writer_create(gr_comm const* comm,              // [in] communicator
                                  char const* path,                 // [in] file
                                  gr_attributes const* attributes,  // [in] [optional] attributes of the file
                                  gr_writer** writer);              // [out] writer

/// Opens a netCDF-4 file, or a Zarr store of version 3, to append records. Collective.
///
/// Extend its unlimited dimension, write every variable along it, the coordinate last, and commit.
GR_API gr_status
gr_writer_append(gr_comm const* comm,  // [in] communicator
                 char const* path,     // [in] file
                 int in_place,  // [in] [flag] [default 0] to the file itself, as always to a store, not to a copy
                 gr_writer** writer);  // [out] writer

/// Frees a writer; removes what it wrote unless it was committed. Collective.
GR_API gr_status gr_writer_destroy(gr_writer** writer);  // [inout] writer

/// Adds a dimension. Collective.
GR_API gr_status gr_writer_add_dimension(gr_writer* writer,  // [inout] writer
                                         char const* name,   // [in] name
                                         int64_t extent,     // [in] cells; of an unlimited dimension: for now
                                         int unlimited);     // [in] [flag] [default 0] may be extended later

/// Adds a dimension and its coordinate. Collective.
GR_API gr_status gr_writer_add_coordinate(gr_writer* writer,                 // [inout] writer
                                          char const* name,                  // [in] name
                                          int num_values,                    // [in] [count values] cells
                                          double const* values,              // [in] [values num_values] coordinate
                                          gr_type type,                      // [in] stored type
                                          gr_attributes const* attributes);  // [in] [optional] attributes

/// Adds a variable. Collective.
GR_API gr_status
gr_writer_add_variable(gr_writer* writer,       // [inout] writer
                       char const* name,        // [in] name
                       char const* dimensions,  // [in] [words] dimensions, separated by blanks, the last axis last
                       gr_type type,            // [in] stored type
                       gr_variable_options const* options,  // [in] [optional] storage
                       gr_attributes const* attributes);    // [in] [optional] attributes

/// Makes an unlimited dimension longer. Collective.
GR_API gr_status gr_writer_extend(gr_writer* writer,      // [inout] writer
                                  char const* dimension,  // [in] name
                                  int64_t count);         // [in] additional cells

/// Writes a box of a variable from a field of any type and strides; arguments as `gr_file_read`. Collective.
///
/// Each rank passes its own box, which may be empty; every cell is written once, by one rank.
GR_API gr_status gr_writer_write(gr_writer* writer,     // [inout] writer
                                 char const* variable,  // [in] name
                                 int ndim,              // [in] [count lower upper steps] axes of the variable
                                 int64_t const* lower,  // [in] [lower ndim] first cells
                                 int64_t const* upper,  // [in] [upper ndim] ends
                                 int64_t const* steps,  // [in] [optional] [axes ndim] as `gr_file_read`
                                 int num_axes,          // [in] [count axes] memory axes of the field
                                 int const* axes,       // [in] [optional] [axes num_axes] [axis ndim] as `gr_file_read`
                                 gr_field const* field);  // [in] field, read

/// Writes values that every rank holds with the same bits, such as a time: all ranks pass the same box and field, of
/// which one is written. A number (a field without axes) is one cell of any variable. Collective.
///
/// Example in Fortran: `call gr_writer_write_replicated(writer, 'time', [n], [n], field=t)`.
GR_API gr_status
gr_writer_write_replicated(gr_writer* writer,       // [inout] writer
                           char const* variable,    // [in] name
                           int ndim,                // [in] [count lower upper steps] axes of the variable
                           int64_t const* lower,    // [in] [lower ndim] first cells
                           int64_t const* upper,    // [in] [upper ndim] ends
                           int64_t const* steps,    // [in] [optional] [axes ndim] as `gr_file_read`
                           int num_axes,            // [in] [count axes] memory axes of the field
                           int const* axes,         // [in] [optional] [axes num_axes] [axis ndim] as `gr_file_read`
                           gr_field const* field);  // [in] field, read

/// Completes the file and gives it its name. Collective. Fails while cells are missing.
GR_API gr_status gr_writer_commit(gr_writer* writer);  // [inout] writer

// --- Checkpoints -----------------------------------------------------------------------------------------------------

/// The checkpoints of a run in one folder. Collective; does not access the disk.
GR_API gr_status
gr_checkpoints_create(gr_comm const* comm,  // [in] communicator
                      char const* folder,   // [in] folder
                      int keep,             // [in] [default 3] checkpoints that a commit keeps, the new one included
                      gr_checkpoints** checkpoints);  // [out] checkpoints

/// Frees the handle; files remain.
GR_API gr_status gr_checkpoints_destroy(gr_checkpoints** checkpoints);  // [inout] checkpoints

/// Starts a checkpoint. Collective.
GR_API gr_status gr_checkpoint_begin(gr_checkpoints* checkpoints,     // [inout] checkpoints
                                     int64_t step,                    // [in] [wide] step count, >= 0
                                     gr_checkpoint_writer** writer);  // [out] writer

/// Frees a writer; removes what it wrote unless it was committed. Collective.
GR_API gr_status gr_checkpoint_writer_destroy(gr_checkpoint_writer** writer);  // [inout] writer

/// Writes the cells that this rank owns, with all batch axes. Collective.
GR_API gr_status gr_checkpoint_add(gr_checkpoint_writer* writer,  // [inout] writer
                                   char const* name,              // [in] name of the field
                                   gr_layout const* layout,       // [in] layout
                                   gr_field const* field);        // [in] field, read

/// Writes a field that every rank holds whole, with the same bits. Collective.
GR_API gr_status gr_checkpoint_add_replicated(gr_checkpoint_writer* writer,  // [inout] writer
                                              char const* name,              // [in] name of the field
                                              gr_field const* field);        // [in] field, read

/// Writes integers that are equal on all ranks; a single one as a number, several as a list. Collective.
GR_API gr_status gr_checkpoint_add_integers(gr_checkpoint_writer* writer,  // [inout] writer
                                            char const* name,              // [in] name
                                            int num_values,                // [in] [count values] how many
                                            int64_t const* values);        // [in] [wide] [values num_values] integers

/// Writes real numbers that are equal on all ranks; a single one as a number, several as a list. Collective.
GR_API gr_status gr_checkpoint_add_reals(gr_checkpoint_writer* writer,  // [inout] writer
                                         char const* name,              // [in] name
                                         int num_values,                // [in] [count values] how many
                                         double const* values);         // [in] [wide] [values num_values] numbers

/// Writes a text that is equal on all ranks. Collective.
GR_API gr_status gr_checkpoint_add_text(gr_checkpoint_writer* writer,  // [inout] writer
                                        char const* name,              // [in] name
                                        char const* text);             // [in] text

/// Completes the checkpoint, gives it its name, and removes old ones. Collective.
GR_API gr_status gr_checkpoint_commit(gr_checkpoint_writer* writer);  // [inout] writer

/// Opens the newest checkpoint whose contents are valid. Collective.
GR_API gr_status gr_checkpoints_newest(gr_checkpoints* checkpoints,  // [inout] checkpoints
                                       gr_checkpoint** checkpoint);  // [out] checkpoint; NULL where there is none

/// Files that the last `gr_checkpoints_newest` skipped, a line each with the reason.
GR_API gr_status gr_checkpoints_skipped(gr_checkpoints const* checkpoints,  // [in] checkpoints
                                        char const** text);                 // [out] text; empty for none

/// Opens a checkpoint by its name. Collective.
GR_API gr_status gr_checkpoint_open(gr_comm const* comm,          // [in] communicator
                                    char const* path,             // [in] file
                                    gr_checkpoint** checkpoint);  // [out] checkpoint

/// Closes a checkpoint.
GR_API gr_status gr_checkpoint_close(gr_checkpoint** checkpoint);  // [inout] checkpoint

/// Step count with which it was begun.
GR_API gr_status gr_checkpoint_step(gr_checkpoint const* checkpoint,  // [in] checkpoint
                                    int64_t* step);                   // [out] step

/// File of a checkpoint.
GR_API gr_status gr_checkpoint_path(gr_checkpoint const* checkpoint,  // [in] checkpoint
                                    char const** path);               // [out] file

/// Whether it has a field or a value of a name.
GR_API gr_status gr_checkpoint_has(gr_checkpoint const* checkpoint,  // [in] checkpoint
                                   char const* name,                 // [in] name
                                   int* found);                      // [out] [flag] 1 if so

/// Fills the cells that this rank owns in a layout, which may differ from that of the program that wrote. Collective.
GR_API gr_status gr_checkpoint_read(gr_checkpoint const* checkpoint,  // [in] checkpoint
                                    char const* name,                 // [in] name of the field
                                    gr_layout const* layout,          // [in] layout
                                    gr_field const* field);           // [in] field, written

/// Reads a whole field on every rank. Collective.
GR_API gr_status gr_checkpoint_read_replicated(gr_checkpoint const* checkpoint,  // [in] checkpoint
                                               char const* name,                 // [in] name of the field
                                               gr_field const* field);           // [in] field, written

/// Whether reading converts between F32 and F64 from now on, for a run that continues in another precision. Without it
/// a field of another type than the saved one is refused. Fields in host memory.
GR_API gr_status gr_checkpoint_convert(gr_checkpoint* checkpoint,  // [inout] checkpoint
                                       int converts);              // [in] [flag] 1: convert

/// Reads integers.
GR_API gr_status gr_checkpoint_integers(gr_checkpoint const* checkpoint,  // [in] checkpoint
                                        char const* name,                 // [in] name
                                        int num_values,                   // [in] [count values] how many it has
                                        int64_t* values);                 // [out] [wide] [values num_values] integers

/// Reads real numbers.
GR_API gr_status gr_checkpoint_reals(gr_checkpoint const* checkpoint,  // [in] checkpoint
                                     char const* name,                 // [in] name
                                     int num_values,                   // [in] [count values] how many it has
                                     double* values);                  // [out] [wide] [values num_values] numbers

/// Reads a text.
GR_API gr_status gr_checkpoint_text(gr_checkpoint const* checkpoint,  // [in] checkpoint
                                    char const* name,                 // [in] name
                                    char const** text);               // [out] text

/// Reads all cells once and compares their checksums. Collective.
GR_API gr_status gr_checkpoint_verify(gr_checkpoint const* checkpoint);  // [in] checkpoint

#ifdef __cplusplus
}
#endif

#endif
