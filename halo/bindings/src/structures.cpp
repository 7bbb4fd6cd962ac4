// SPDX-License-Identifier: BSD-3-Clause
#include "structures.hpp"

#include <graticule/halo/detail/edges.hpp>

#include "fortran.hpp"
#include "queues.hpp"

#include <bit>
#include <cstdint>
#include <utility>

namespace graticule::c {

// The enumerations of the C interface have the values of the engine's.
static_assert(int(DType::u8) == GR_U8 && int(DType::f16) == GR_F16 && int(DType::f32) == GR_F32 &&
              int(DType::f64) == GR_F64 && int(DType::c128) == GR_C128);
static_assert(int(MemorySpace::host) == GR_HOST && int(MemorySpace::device) == GR_DEVICE);
static_assert(int(Edge::untouched) == GR_EDGE_UNTOUCHED && int(Edge::periodic) == GR_EDGE_PERIODIC &&
              int(Edge::replicate) == GR_EDGE_REPLICATE && int(Edge::pole_row) == GR_EDGE_POLE_ROW &&
              int(Edge::antisymmetric) == GR_EDGE_ANTISYMMETRIC && int(Edge::tripolar_row) == GR_EDGE_TRIPOLAR_ROW);
// A value that C does not have must not compile.
static_assert(detail::last_enum_value<Edge> == GR_EDGE_TRIPOLAR_ROW && detail::last_enum_value<DType> == GR_C128);
static_assert(int(Stagger::low_face) == GR_LOW_FACE && int(Stagger::high_face) == GR_HIGH_FACE &&
              int(Stagger::all_faces) == GR_ALL_FACES);
static_assert(int(Parity::even) == GR_EVEN && int(Parity::odd) == GR_ODD);
static_assert(int(OddLongitudes::refuse) == GR_REFUSE_ODD && int(OddLongitudes::shift_floor) == GR_SHIFT_FLOOR);
static_assert(int(MirrorLine::keep) == GR_KEEP_MIRROR && int(MirrorLine::copy) == GR_COPY_MIRROR);
static_assert(int(Transport::automatic) == GR_TRANSPORT_AUTOMATIC &&
              int(Transport::point_to_point) == GR_TRANSPORT_POINT_TO_POINT &&
              int(Transport::node_shared) == GR_TRANSPORT_NODE_SHARED);
static_assert(max_ndim == GR_MAX_AXES);

char const* faulty_field(int type) noexcept {
  switch (type) {
    case too_many_axes: return "an array of more than 8 dimensions";
    case wrong_axes: return "axes= are not dimensions of the array";
    case wrong_owned: return "owned= has not one place for each dimension of the array";
    case wrong_options: return "parity= or kind= has neither one value nor one for each array";
    default: return "an array of a type that fields do not have";
  }
}

void require_count(int number, int least, char const* name) {
  if (number < least)
    throw bad_argument(argument_text(name) + " is " + std::to_string(number) + ", at least " + std::to_string(least) +
                       " is needed");
}

void require_ndim(int ndim, int expected) {
  if (ndim != expected)
    throw bad_argument(argument_text("ndim") + " is " + std::to_string(ndim) + ", the grid has " +
                       std::to_string(expected) + " axes");
}

Indices indices(int64_t const* values, int ndim, char const* name, char const* count) {
  if (ndim < 1 || ndim > GR_MAX_AXES)
    throw bad_argument(argument_text(count) + " is " + std::to_string(ndim) + ", 1 to " + std::to_string(GR_MAX_AXES) +
                       " are possible");
  required(values, name);
  return Indices(std::span<Index const>(values, std::size_t(ndim)));
}

std::vector<std::string> texts_of(int count, char const* const* texts, char const* name) {
  std::vector<std::string> result;
  for (int i = 0; i < count; ++i)
    result.emplace_back(&required((&required(texts, name))[i], Name{name, i}.text().c_str()));
  return result;
}

std::vector<int> integers_of(int count, int const* values, char const* count_name) {
  require_count(count, 0, count_name);
  return values != nullptr ? std::vector<int>(values, values + count) : std::vector<int>();
}

Box box_of(int ndim, int64_t const* lower, int64_t const* upper, char const* what) {
  return {indices(lower, ndim, (std::string(what) + "lower").c_str()),
          indices(upper, ndim, (std::string(what) + "upper").c_str())};
}

std::vector<Box> boxes_of(int ndim, int num_boxes, int64_t const* lower, int64_t const* upper) {
  require_count(num_boxes, 0, "num_boxes");
  std::vector<Box> boxes;
  for (int b = 0; b < num_boxes; ++b) {
    required(lower, "lower");
    required(upper, "upper");
    boxes.push_back(box_of(ndim, lower + b * std::ptrdiff_t(ndim), upper + b * std::ptrdiff_t(ndim)));
  }
  return boxes;
}

void write_indices(Indices const& values, int ndim, int64_t* to, char const* name) {
  require_ndim(ndim, values.size());
  required(to, name);
  std::copy(values.begin(), values.end(), to);
}

void write_box(Box const& box, int ndim, int64_t* lower, int64_t* upper) {
  require_ndim(ndim, box.ndim());
  required(lower, "lower");
  required(upper, "upper");
  write_indices(box.lo(), ndim, lower, "lower");
  write_indices(box.hi(), ndim, upper, "upper");
}

FieldView memory_of(gr_field const& field, Name const& name, Before before) {
  if (int(field.type) < 0) throw bad_argument(name + ": " + faulty_field(int(field.type)));
  FieldView view;
  view.data = field.base;
  view.dtype = enumerator<DType>(field.type, name, ".type");
  view.space = enumerator<MemorySpace>(field.space, GR_DEVICE, name, ".space");
  if (field.rank < 0 || field.rank > GR_MAX_AXES)
    throw bad_argument(name + ".rank is " + std::to_string(field.rank) + ", at most " + std::to_string(GR_MAX_AXES) +
                       " is possible");
  Index const bytes = size_of(view.dtype);
  int const shift = std::countr_zero(std::uint64_t(bytes));  // all sizes are powers of 2
  Index num_cells = 1;
  view.extents = Indices::filled(field.rank, 0);
  view.strides = view.extents;
  for (int m = 0; m < field.rank; ++m) {
    auto const at = [m] { return "[" + std::to_string(m) + "]"; };
    if (field.extents[m] < 0) throw bad_argument(name + ".extents" + at() + " is " + std::to_string(field.extents[m]));
    num_cells = std::min(num_cells, field.extents[m]);
    // Of one element the stride is not used: compilers leave any value there.
    bool const moves = field.extents[m] > 1;
    if (moves && (field.strides[m] & (bytes - 1)) != 0)
      throw bad_argument(name + ".strides" + at() + " is " + std::to_string(field.strides[m]) +
                         " bytes, which is no multiple of the " + std::to_string(bytes) + " of " +
                         to_string(view.dtype));
    view.extents[m] = field.extents[m];
    view.strides[m] = moves ? field.strides[m] >> shift : 0;
  }
  // An axis of one element continues the next one, so that dense memory is seen to be dense.
  Index next = 1;
  for (int m = field.rank - 1; m >= 0; --m) {
    if (view.extents[m] <= 1) view.strides[m] = next;
    next = std::abs(view.strides[m]) * std::max<Index>(view.extents[m], 1);
  }
  if (num_cells > 0 && field.base == nullptr) throw bad_argument(name + ".base is NULL");
  if (num_cells > 0 && field.space == GR_HOST && !passes_arrays() && gr_fortran_freed(field.base, next * bytes) != 0)
    throw bad_argument(name +
                       ": gr_field describes a copy that the compiler has made of the array, and freed; pass the "
                       "array to the call itself, as in gr_halo_exchange(halo, cells%t)");
  if (before == Before::waited_for) wait_for_queue(field, name);
  return view;
}

namespace {

Indices grid_axes(gr_field const& field, int ndim, Name const& name) {
  Indices axes;
  if (field.num_grid_axes == 0) {
    if (field.rank < ndim)
      throw bad_argument(name + (speaks_fortran() ? ": the number of its dimensions is " : ".rank is ") +
                         std::to_string(field.rank) + ", the grid has " + std::to_string(ndim) + " axes");
    for (int a = 0; a < ndim; ++a) axes.push_back(field.rank - ndim + a);
    return axes;
  }
  if (field.num_grid_axes != ndim)
    throw bad_argument(name + (speaks_fortran() ? ": size(axes) is " : ".num_grid_axes is ") +
                       std::to_string(field.num_grid_axes) + ", the grid has " + std::to_string(ndim) + " axes");
  for (int a = 0; a < ndim; ++a) {
    int const axis = field.grid_axes[a];
    if (axis < 0 || axis >= field.rank || std::count(axes.begin(), axes.end(), Index(axis)) != 0)
      throw bad_argument(name + (speaks_fortran() ? ": axes= has " : ".grid_axes[" + std::to_string(a) + "] is ") +
                         std::to_string(detail::axis_number(axis, field.rank)) +
                         (speaks_fortran() ? " twice" : " of a field of " + std::to_string(field.rank) + " axes"));
    axes.push_back(axis);
  }
  return axes;
}

/// Narrows `view` to the cells of `box`, given the element of the first cell of `origin`.
void narrow(FieldView& view, gr_field const& field, Box const& box, Box const& origin, Name const& name) {
  for (int m = 0; m < view.ndim(); ++m) {
    auto const* const found = std::find(view.grid_axes.begin(), view.grid_axes.end(), Index(m));
    auto const at = [&] {
      return speaks_fortran() ? ": owned(" + std::to_string(detail::axis_number(m, view.ndim())) + ") is " +
                                    std::to_string(field.first[m] + 1)
                              : ".first[" + std::to_string(m) + "] is " + std::to_string(field.first[m]);
    };
    if (found == view.grid_axes.end()) {
      if (field.first[m] != 0) throw bad_argument(name + at() + " on an axis that is not of the grid");
      continue;
    }
    int const a = int(found - view.grid_axes.begin());
    if (box.empty()) {
      view.extents[m] = box.extent(a);
      continue;
    }
    Index const begin = field.first[m] - (origin.lo(a) - box.lo(a));
    if (begin < 0 || begin + box.extent(a) > view.extents[m])
      throw bad_argument(name + at() + ": the " + std::to_string(box.extent(a)) + " cells of " + to_string(box) +
                         " then begin at element " + std::to_string(detail::place_number(begin)) + " of " +
                         std::to_string(view.extents[m]));
    view.data = static_cast<std::byte*>(view.data) + begin * view.strides[m] * size_of(view.dtype);
    view.extents[m] = box.extent(a);
  }
}

}  // namespace

FieldView view_of(gr_field const& field, Box const& box, Box const& origin, Name const& name, Before before) {
  auto view = memory_of(field, name, before);
  view.grid_axes = grid_axes(field, box.ndim(), name);
  if (field.has_first != 0) narrow(view, field, box, origin, name);
  return view;
}

namespace {

/// The axes of a kind, with its rules.
Boundary boundary_of(gr_halo_kind const& kind, Name const& name) {
  Boundary boundary;
  bool folds = false;
  for (int a = 0; a < kind.ndim; ++a) {
    auto const at = speaks_fortran() ? "(" + std::to_string(kind.ndim - a) + ")" : "[" + std::to_string(a) + "]";
    auto const lower = enumerator<Edge>(kind.lower_edge[a], name, (".lower_edge" + at).c_str());
    auto const upper = enumerator<Edge>(kind.upper_edge[a], name, (".upper_edge" + at).c_str());
    auto const stagger =
        enumerator<Stagger>(kind.stagger[a], GR_ALL_FACES, name, (".stagger" + at).c_str(), GR_LOW_FACE);
    boundary.axes.push_back({lower, upper, kind.constant[a], stagger});
    folds = folds || is_fold(lower) || is_fold(upper);
  }
  if (folds) boundary.longitude_axis = kind.longitude_axis;
  boundary.odd_longitudes = enumerator<OddLongitudes>(kind.odd_longitudes, GR_SHIFT_FLOOR, name, ".odd_longitudes");
  boundary.mirror_line = enumerator<MirrorLine>(kind.mirror_line, GR_COPY_MIRROR, name, ".mirror_line");
  if (kind.has_pivot != 0) boundary.pivot = kind.pivot;
  return boundary;
}

std::vector<Width> widths_of(int ndim, int64_t const* lower, int64_t const* upper) {
  std::vector<Width> widths;
  for (int a = 0; a < ndim; ++a) widths.push_back({lower[a], upper[a]});
  return widths;
}

}  // namespace

HaloKind halo_kind(gr_halo_kind const& kind, Name const& name) {
  if (kind.ndim < 1 || kind.ndim > GR_MAX_AXES)
    throw bad_argument(name + ".ndim is " + std::to_string(kind.ndim) + ", 1 to " + std::to_string(GR_MAX_AXES) +
                       " are possible");
  if (kind.num_directions < 0 || kind.num_directions > GR_MAX_DIRECTIONS)
    throw bad_argument(name + ".num_directions is " + std::to_string(kind.num_directions) + ", at most " +
                       std::to_string(GR_MAX_DIRECTIONS) + " are possible");
  HaloKind result;
  result.widths = widths_of(kind.ndim, kind.lower, kind.upper);
  result.boundary = boundary_of(kind, name);
  result.corners = enumerator<gr_corners>(kind.corners, GR_SKIP_CORNERS, name, ".corners") == GR_SKIP_CORNERS
                       ? Corners::skip
                       : Corners::fill;
  for (int d = 0; d < kind.num_directions; ++d) {
    Indices direction;
    for (int a = 0; a < kind.ndim; ++a) direction.push_back(kind.directions[d][a]);
    result.directions.push_back(direction);
  }
  if (kind.has_memory != 0) result.memory = widths_of(kind.ndim, kind.memory_lower, kind.memory_upper);
  if (kind.widths_of_this_rank != 0) result.widths_of = WidthsOf::this_rank;
  result.hole = kind.hole;
  if (kind.has_component == 0) return result;
  if (kind.component < 0 || kind.component >= kind.ndim)
    throw bad_argument(name + ".component is " + std::to_string(detail::axis_number(kind.component, kind.ndim)) +
                       ", the kind has " + std::to_string(kind.ndim) + " axes");
  result.component = kind.component;
  return result;
}

namespace {

Selection selection_of(int ndim, int64_t const* first, int64_t const* step, int64_t const* count) {
  return {indices(first, ndim, "options.first"), indices(step, ndim, "options.step"),
          indices(count, ndim, "options.count")};
}

}  // namespace

RelabelOptions relabel_options(gr_relabel_options const* given) {
  RelabelOptions result;
  if (given == nullptr) return result;
  auto const options = read_structure(given, {"options"});
  if (options.has_permutation != 0) {
    if (options.ndim < 1 || options.ndim > GR_MAX_AXES)
      throw bad_argument("options.ndim is " + std::to_string(options.ndim) + ", 1 to " + std::to_string(GR_MAX_AXES) +
                         " are possible");
    for (int a = 0; a < options.ndim; ++a) result.permutation.push_back(options.permutation[a]);
  }
  if (options.off_node_weight != 0) result.off_node_weight = options.off_node_weight;
  return result;
}

RepartitionOptions repartition_options(gr_repartition_options const* given) {
  RepartitionOptions result;
  if (given == nullptr) return result;
  auto const options = read_structure(given, {"options"});
  if (options.has_permutation != 0 || options.has_from != 0 || options.has_to != 0) {
    if (options.ndim < 1 || options.ndim > GR_MAX_AXES)
      throw bad_argument("options.ndim is " + std::to_string(options.ndim) + ", 1 to " + std::to_string(GR_MAX_AXES) +
                         " are possible");
  }
  if (options.has_permutation != 0)
    for (int a = 0; a < options.ndim; ++a) result.permutation.push_back(options.permutation[a]);
  if (options.has_from != 0)
    result.from = selection_of(options.ndim, options.from_first, options.from_step, options.from_count);
  if (options.has_to != 0) result.to = selection_of(options.ndim, options.to_first, options.to_step, options.to_count);
  if (options.workspace_bytes < 0)
    throw bad_argument("options.workspace_bytes is " + std::to_string(options.workspace_bytes));
  result.workspace_bytes = options.workspace_bytes;
  return result;
}

Transport transport_of(gr_transport transport) {
  return enumerator<Transport>(transport, GR_TRANSPORT_NODE_SHARED, {"transport"});
}

gr_transport transport_of(Transport transport) { return gr_transport(int(transport)); }

gr_counts counts_of(PullCounts const& counts) {
  gr_counts result = GR_COUNTS_INIT;
  result.num_send_peers = counts.num_send_peers;
  result.num_receive_peers = counts.num_receive_peers;
  result.send_cells = counts.send_cells;
  result.receive_cells = counts.receive_cells;
  result.local_cells = counts.local_cells;
  result.filled_cells = counts.filled_cells;
  return result;
}

gr_stats stats_of(PullStats const& stats) {
  gr_stats result = GR_STATS_INIT;
  result.num_calls = stats.num_calls;
  result.point_to_point_messages = stats.point_to_point.num_messages;
  result.point_to_point_bytes = stats.point_to_point.bytes;
  result.node_packed_messages = stats.node_packed.num_messages;
  result.node_packed_bytes = stats.node_packed.bytes;
  result.node_in_place_messages = stats.node_in_place.num_messages;
  result.node_in_place_bytes = stats.node_in_place.bytes;
  result.local_bytes = stats.local_bytes;
  result.num_workspaces = stats.num_workspaces;
  result.buffer_bytes = stats.buffer_bytes;
  result.mpi_reads_device = stats.mpi_reads_device ? 1 : 0;
  result.pack_seconds = stats.pack_seconds;
  result.local_seconds = stats.local_seconds;
  result.wait_seconds = stats.wait_seconds;
  result.unpack_seconds = stats.unpack_seconds;
  result.peers_read_device = stats.peers_read_device ? 1 : 0;
  return result;
}

std::string report_of(std::vector<PeerPath> const& paths, PullStats const& stats) {
  std::string text;
  for (auto const& path : paths)
    text += "rank " + std::to_string(path.peer) + ": " + to_string(path.path) + " (" + path.reason + "), " +
            std::to_string(path.send_cells) + " cells out, " + std::to_string(path.receive_cells) + " in\n";
  return text + to_string(stats);
}

}  // namespace graticule::c
