// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/halo/depth.hpp>
#include <graticule/halo/detail/boundary_map.hpp>
#include <graticule/halo/detail/edges.hpp>
#include <graticule/partition/detail/speech.hpp>
#include <graticule/repartition/detail/strided.hpp>

#include "geometry.hpp"

#include <algorithm>

namespace graticule {

namespace {

bool is_mirror(Edge edge) {
  return detail::mirrors_at_row(edge) || enum_row(edge).ghost == detail::Ghost::mirror_at_face;
}

/// Every rank that owns cells owns all of `axis`.
bool is_whole(Layout const& layout, int axis) {
  if (auto const* cuts = layout.cuts(axis)) {
    for (int p = 0; p < cuts->num_parts(); ++p)
      if (cuts->size(p) > 0 && cuts->size(p) < cuts->extent()) return false;
    return true;
  }
  for (int r = 0; r < layout.num_ranks(); ++r)
    if (auto const owned = layout.owned(r); !owned.empty() && owned.extent(axis) < layout.extent(axis)) return false;
  return true;
}

Index& of(Width& width, bool upper) { return upper ? width.upper : width.lower; }
Index of(Width const& width, bool upper) { return upper ? width.upper : width.lower; }

/// Columns of a row on a seam that are their own images.
bool has_own_images(Edge seam, Boundary const& boundary, Index num_longitudes) {
  Index const pivot = boundary.pivot.value_or(detail::mirrors_at_row(seam) ? 0 : -1);
  Index const sum = pivot - offset_of(boundary.axes[std::size_t(boundary.longitude_axis)].stagger);
  return sum % 2 == 0 || num_longitudes % 2 != 0;
}

/// `mirror` is as in `HaloDepth::Side`: -1 where nothing lies on the mirror, 0 where the edge cell does, 1 where it
/// lies beyond, -2 where a ghost lies on it.
bool commutes(Edge edge, Index mirror, Boundary const& boundary, Indices const& extents, Parity parity) {
  if (edge == Edge::periodic) return true;
  if (!is_mirror(edge)) return false;
  if (mirror == -1) return true;
  if (!is_fold(edge)) return mirror == 0 && !enum_row(edge).is_negated;
  if (mirror < 0 || boundary.mirror_line == MirrorLine::keep) return false;
  bool const seam = enum_row(edge).fold == detail::FoldKind::seam;
  // A value that is its own image with the opposite sign should be zero, but is not set to zero.
  return mirror > 0 || !seam || parity == Parity::even ||
         !has_own_images(edge, boundary, extents[boundary.longitude_axis]);
}

/// First cell and strides of the cells `maps` leads to from `box`, in a view that covers `cover`.
struct Cells {
  void* first = nullptr;
  Indices strides;
};

Cells cells_of(FieldView const& view, Box const& cover, Box const& box, AxisMaps const& maps) {
  Cells cells;
  for (int m = 0; m < view.ndim(); ++m)
    if (std::find(view.grid_axes.begin(), view.grid_axes.end(), Index(m)) == view.grid_axes.end())
      cells.strides.push_back(view.strides[m]);
  Index offset = 0;
  for (int a = 0; a < box.ndim(); ++a) {
    auto const& map = maps[std::size_t(a)];
    Index const stride = view.strides[int(view.grid_axes[a])];
    offset += (map.slope * box.lo(a) + map.offset - cover.lo(a)) * stride;
    cells.strides.push_back(map.slope * stride);
  }
  cells.first = static_cast<std::byte*>(view.data) + offset * size_of(view.dtype);
  return cells;
}

detail::StridedTask task_of(FieldView const& field, Parity parity, Box const& cover, Piece const& piece) {
  AxisMaps in_place{};
  Indices extents = field.batch_extents();
  for (int a = 0; a < piece.box.ndim(); ++a) {
    in_place[std::size_t(a)] = {a, 1, 0};
    extents.push_back(piece.box.extent(a));
  }
  auto const to = cells_of(field, cover, piece.box, in_place);
  if (piece.filled)
    return detail::make_strided(detail::StridedOp::fill, field.dtype, extents, to.first, to.strides, nullptr, {},
                                piece.fill);
  auto const from = cells_of(field, cover, piece.box, piece.maps);
  bool const negated = (piece.odd_folds && parity == Parity::odd) != piece.negated;
  return detail::make_strided(negated ? detail::StridedOp::negate : detail::StridedOp::copy, field.dtype, extents,
                              to.first, to.strides, from.first, from.strides);
}

}  // namespace

HaloDepth::HaloDepth(HaloPlan const& plan, std::string name, int kind, Parity parity)
    : name_(std::move(name)),
      extents_(plan.layout().global().extents()),
      boundary_(plan.kind(kind).boundary),
      widths_(plan.kind(kind).widths),
      parity_(parity),
      owned_(plan.owned()),
      local_(plan.local(kind)),
      inside_(widths_.size()),
      beyond_(widths_.size()) {
  if (plan.blocks() || plan.layout().has_holes())
    throw Error("Unsupported",
                "field " + name_ +
                    ": valid depth is counted on grids of one box per rank without holes; on others the program "
                    "counts, or exchanges before each use");
  auto const& k = plan.kind(kind);
  if (k.corners == Corners::skip || !k.directions.empty() || k.widths_of == WidthsOf::this_rank)
    throw Error("Unsupported", "field " + name_ +
                                   ": valid depth is counted for halos that are filled whole, to the same "
                                   "widths on all ranks");
  for (int a = 0; a < extents_.size(); ++a) {
    auto const& axis = boundary_.axes[std::size_t(a)];
    if (axis.stagger == Stagger::all_faces)
      throw Error("Unsupported", "field " + name_ + " has values on all faces of " +
                                     detail::axis_text(a, extents_.size()) +
                                     ": valid depth is counted for fields with as many cells as the grid; for others "
                                     "the program counts, or exchanges before each use");
    for (bool const upper : {false, true}) {
      Edge const edge = upper ? axis.upper : axis.lower;
      Index const stagger = Index(axis.stagger);
      Index const mirror = (detail::mirrors_at_row(edge) ? 0 : -1) + (upper ? stagger : -stagger);
      bool const at_hand = !is_fold(edge) || (boundary_.mirror_line == MirrorLine::keep &&
                                              is_whole(plan.layout(), boundary_.longitude_axis));
      sides_.push_back({edge, mirror, commutes(edge, mirror, boundary_, extents_, parity),
                        at_hand && edge != Edge::periodic && edge != Edge::untouched,
                        is_fold(edge) && mirror >= 0 && boundary_.mirror_line == MirrorLine::copy});
    }
  }
}

Box HaloDepth::valid() const {
  Box result = owned_;
  if (owned_.empty()) return result;
  for (int a = 0; a < owned_.ndim(); ++a) {
    auto const& in = inside_[std::size_t(a)];
    auto const& out = beyond_[std::size_t(a)];
    Index lo = owned_.lo(a) - in.lower;
    Index hi = owned_.hi(a) + in.upper;
    if (side(a, false).edge != Edge::periodic) {
      lo = std::max(lo, -out.lower);
      hi = std::min(hi, extents_[a] + out.upper);
    }
    result.set(a, lo, hi);
  }
  return result;
}

void HaloDepth::exchanged() {
  inside_ = widths_;
  beyond_ = widths_;
  for (int a = 0; a < extents_.size(); ++a)
    for (bool const upper : {false, true})
      if (side(a, upper).edge == Edge::untouched) of(beyond_[std::size_t(a)], upper) = 0;
}

void HaloDepth::written() {
  inside_.assign(widths_.size(), {});
  beyond_.assign(widths_.size(), {});
}

std::string HaloDepth::too_shallow(std::span<Width const> reach) const {
  if (reach.size() != widths_.size())
    throw Error("AxesMismatch", std::to_string(reach.size()) + " reaches for fields on " + to_string(extents_));
  for (auto const& width : reach)
    if (width.lower < 0 || width.upper < 0)
      throw Error("BadHaloWidth", "the reach of an operator must be at least 0, got " + std::to_string(width.lower) +
                                      " and " + std::to_string(width.upper) + " cells");
  for (int a = 0; a < extents_.size(); ++a)
    for (bool const upper : {false, true}) {
      auto const k = std::size_t(a);
      Index const need = of(reach[k], upper);
      Edge const edge = side(a, upper).edge;
      bool const counted = edge != Edge::untouched && edge != Edge::periodic;
      bool const at_edge = counted && of(beyond_[k], upper) < need;
      Index const have = at_edge ? of(beyond_[k], upper) : of(inside_[k], upper);
      if (have >= need) continue;
      return "field " + name_ + " has " + std::to_string(have) + " valid ghost layers on the " +
             (upper ? "upper" : "lower") + " side of " + detail::axis_text(Index(a), local_.ndim()) +
             (at_edge ? ", beyond the edge of the grid (" + to_string(edge) + ")" : "") + "; the operator needs " +
             std::to_string(need);
    }
  return {};
}

Box HaloDepth::apply(HaloDepth const& input, std::span<Width const> reach, AtMirrors at_mirrors) {
  if (!(input.extents_ == extents_) || !(input.owned_ == owned_))
    throw Error("AxesMismatch", "field " + input.name_ + " on " + to_string(input.extents_) + " and field " + name_ +
                                    " on " + to_string(extents_) + " have different layouts: no operator joins them");
  if (auto const text = input.too_shallow(reach); !text.empty()) throw Error("HaloTooShallow", text);
  auto const keeps = [&](int a, bool upper) {
    return side(a, upper).edge == Edge::periodic ||
           (side(a, upper).commutes && input.side(a, upper).commutes && at_mirrors == AtMirrors::commutes);
  };
  bool renewed = true;
  for (int a = 0; a < extents_.size(); ++a)
    for (bool const upper : {false, true}) {
      auto const k = std::size_t(a);
      auto const left = [&](Width const& depth, Index most) {
        return std::clamp<Index>(of(depth, upper) - of(reach[k], upper), 0, std::max<Index>(0, most));
      };
      Index const width = of(widths_[k], upper);
      // A mirror that leads beyond the other edge leads to values by the rule there.
      Index const furthest = keeps(a, !upper) ? width : std::min(width, extents_[a] - 1 - side(a, upper).mirror);
      of(beyond_[k], upper) = keeps(a, upper) ? left(input.beyond_[k], furthest) : 0;
      of(inside_[k], upper) = left(input.inside_[k], width);
      renewed = renewed && (keeps(a, upper) || !side(a, upper).copies);
    }
  if (!renewed) written();
  return valid();
}

Index HaloDepth::depth_by_refill(int axis, bool upper) const noexcept {
  auto const& here = side(axis, upper);
  auto const& depth = inside_[std::size_t(axis)];
  if (!here.refilled) return of(beyond_[std::size_t(axis)], upper);
  if (!is_mirror(here.edge)) return of(depth, upper);
  // A rank may own the edge cell only: what lies further from the edge is its halo on the other side. Mirrors that lead
  // beyond the other edge need a rule there.
  Index furthest = of(depth, !upper);
  if (!side(axis, !upper).refilled) furthest = std::min(furthest, extents_[axis] - 1);
  return std::clamp<Index>(furthest - here.mirror, 0, of(depth, upper));
}

void HaloDepth::check(FieldView const& field) const {
  bool fits = field.grid_axes.size() == local_.ndim() && field.strides.size() == field.ndim();
  for (int a = 0; fits && a < local_.ndim(); ++a)
    fits = field.grid_axes[a] >= 0 && field.grid_axes[a] < field.ndim() &&
           (local_.empty() || field.extents[int(field.grid_axes[a])] == local_.extent(a));
  if (!fits || (field.data == nullptr && !local_.empty() && field.num_batch() > 0))
    throw Error("FieldMismatch",
                "field " + name_ + " of " + to_string(field.extents) + " does not cover " + to_string(local_));
}

void HaloDepth::refill(FieldView const& field) {
  check(field);
  Box const source = valid();
  std::vector<Width> depths;
  bool turns = false;
  for (int a = 0; a < extents_.size(); ++a) {
    depths.push_back({depth_by_refill(a, false), depth_by_refill(a, true)});
    for (bool const upper : {false, true}) turns = turns || (side(a, upper).refilled && is_fold(side(a, upper).edge));
  }
  beyond_ = depths;
  if (owned_.empty()) return;
  // Sides that are not refilled end where valid cells do; coordinates count from there. Turned columns are all here.
  Box known = source;
  Boundary edges = boundary_;
  for (int a = 0; a < extents_.size(); ++a) {
    auto& axis = edges.axes[std::size_t(a)];
    bool const round = turns && a == boundary_.longitude_axis;
    if (round || side(a, false).refilled) known.set(a, 0, known.hi(a));
    if (round || side(a, true).refilled) known.set(a, known.lo(a), extents_[a]);
    if (round) continue;
    if (!side(a, false).refilled) axis.lower = Edge::untouched;
    if (!side(a, true).refilled) axis.upper = Edge::untouched;
  }
  auto const map = detail::boundary_map(known.extents(), edges);
  auto const moved = [&](Box box, Index sign) {
    for (int a = 0; a < box.ndim(); ++a) box.set(a, box.lo(a) + sign * known.lo(a), box.hi(a) + sign * known.lo(a));
    return box;
  };
  std::vector<detail::StridedTask> tasks;
  for (auto const& ghosts : detail::boxes_around(source, valid()))
    for (auto piece : map(moved(ghosts, -1))) {
      piece.box = moved(piece.box, 1);
      for (int a = 0; a < extents_.size(); ++a) {
        auto& to = piece.maps[std::size_t(a)];
        to.offset += known.lo(a) * (1 - to.slope);
      }
      tasks.push_back(task_of(field, parity_, local_, piece));
    }
  detail::run_strided(tasks, field.space);
}

}  // namespace graticule
