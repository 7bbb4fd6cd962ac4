// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/halo/detail/boundary_map.hpp>
#include <graticule/halo/detail/edges.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/partition/detail/speech.hpp>

#include "geometry.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace graticule {

std::string to_string(Edge edge) {
  char const* const name = enum_row(edge).name;
  if (name == nullptr) return "edge " + std::to_string(int(edge));
  std::string text = name;
  if (detail::speech() != detail::Speech::fortran) return text;
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return char(std::toupper(c)); });
  return "GR_EDGE_" + text;
}

Boundary Boundary::uniform(int ndim, Edge edge) {
  return {std::vector<AxisBoundary>(std::size_t(ndim), {edge, edge}), -1};
}

namespace {
bool is_pole(Edge edge) { return enum_row(edge).fold == detail::FoldKind::pole; }
bool is_seam(Edge edge) { return enum_row(edge).fold == detail::FoldKind::seam; }
}  // namespace

Boundary Boundary::sphere(Edge pole) {
  if (!is_pole(pole))
    throw Error("BadBoundary", "the rule at the poles of a sphere must be " + to_string(Edge::pole_face) + " or " +
                                   to_string(Edge::pole_row) + ", got " + to_string(pole));
  return {{{pole, pole}, {Edge::periodic, Edge::periodic}}, 1};
}

Boundary Boundary::tripolar(Edge south, Edge seam) {
  if (!is_seam(seam))
    throw Error("BadBoundary", "the rule at the seam of a tripolar grid must be " + to_string(Edge::tripolar_face) +
                                   " or " + to_string(Edge::tripolar_row) + ", got " + to_string(seam));
  Boundary result{{{south, seam}, {Edge::periodic, Edge::periodic}}, 1};
  result.mirror_line = MirrorLine::copy;
  return result;
}

Boundary Boundary::staggered(std::initializer_list<Stagger> places) const {
  if (places.size() != axes.size())
    throw Error("AxesMismatch", "a place is needed for each of " + std::to_string(axes.size()) + " axes, got " +
                                    std::to_string(places.size()));
  Boundary result = *this;
  for (std::size_t a = 0; a < axes.size(); ++a) result.axes[a].stagger = places.begin()[a];
  return result;
}

Boundary Boundary::behind(AxisBoundary const& axis) const {
  Boundary result = *this;
  result.axes.insert(result.axes.begin(), axis);
  if (longitude_axis >= 0) ++result.longitude_axis;
  return result;
}

bool is_fold(Edge edge) noexcept { return is_pole(edge) || is_seam(edge); }

namespace {

void check_longitudes(Indices const& extents, Boundary const& boundary, int axis) {
  auto const& rules = boundary.axes[std::size_t(axis)];
  int const longitude = boundary.longitude_axis;
  if (longitude < 0 || longitude >= extents.size() || longitude == axis ||
      boundary.axes[std::size_t(longitude)].lower != Edge::periodic)
    throw Error("BadBoundary", detail::axis_text(axis, extents.size()) +
                                   " ends at a pole or a seam, the longitude axis is " +
                                   std::to_string(detail::axis_number(longitude, extents.size())));
  bool const copies = boundary.mirror_line == MirrorLine::copy;
  bool const refused = boundary.odd_longitudes == OddLongitudes::refuse || copies;
  if ((is_pole(rules.lower) || is_pole(rules.upper)) && extents[longitude] % 2 != 0 && refused)
    throw Error("BadBoundary",
                std::to_string(extents[longitude]) +
                    " longitudes: the point across the pole falls between two columns; an even "
                    "number is needed, or " +
                    (detail::speech() == detail::Speech::fortran ? "GR_SHIFT_FLOOR" : "OddLongitudes::shift_floor") +
                    " without copies on the pole");
  if (copies && extents[axis] == 1)
    throw Error("BadHaloWidth", "copies of values on a mirror need at least 2 cells along " +
                                    detail::axis_text(axis, extents.size()) + ", got 1");
}

void check_all_faces(AxisBoundary const& axis, std::string const& name) {
  if (axis.stagger != Stagger::all_faces) return;
  for (Edge const edge : {axis.lower, axis.upper}) {
    if (edge == Edge::periodic)
      throw Error("BadBoundary", name +
                                     " is periodic and has values on all faces: its last face is the first, so the " +
                                     "values lie on low faces, and the last one is a ghost cell");
    if (detail::mirrors_at_row(edge))
      throw Error("BadBoundary", name + " has values on all faces, also beyond the edge row, on which the mirror of " +
                                     to_string(edge) + " lies; mirrors on outer faces are possible");
  }
}

void check(Indices const& extents, Boundary const& boundary) {
  if (int(boundary.axes.size()) != extents.size())
    throw Error("AxesMismatch", "a boundary rule is needed for each of " + std::to_string(extents.size()) +
                                    " axes, got " + std::to_string(boundary.axes.size()));
  int fold_axis = -1;
  for (int a = 0; a < extents.size(); ++a) {
    auto const& axis = boundary.axes[std::size_t(a)];
    for (Edge const edge : {axis.lower, axis.upper})
      if (enum_row(edge).name == nullptr)
        throw Error("BadBoundary", detail::axis_text(a, extents.size()) + " has " + to_string(edge));
    if (axis.stagger < Stagger::low_face || axis.stagger > Stagger::all_faces)
      throw Error("BadBoundary", detail::axis_text(a, extents.size()) + " has values at offset " +
                                     std::to_string(int(axis.stagger)) + ", not -1, 0 or 1");
    check_all_faces(axis, detail::axis_text(a, extents.size()));
    if ((axis.lower == Edge::periodic) != (axis.upper == Edge::periodic))
      throw Error("BadBoundary", detail::axis_text(a, extents.size()) + " is periodic on one side: " +
                                     to_string(axis.lower) + " and " + to_string(axis.upper));
    if (!is_fold(axis.lower) && !is_fold(axis.upper)) continue;
    if (fold_axis >= 0)
      throw Error("BadBoundary", detail::axis_text(fold_axis, extents.size()) + " and " +
                                     detail::axis_text(a, extents.size()) + " both end at a pole or a seam");
    fold_axis = a;
    check_longitudes(extents, boundary, a);
  }
}

/// Effect of a fold on the longitudes: column i becomes `slope * i + offset`, modulo their number.
struct Turn {
  int slope = 1;
  Index offset = 0;
};

/// Cells `[lo, hi)` of one axis with image `slope * e + offset`, or a constant.
struct Run {
  Index lo = 0;
  Index hi = 0;
  int slope = 1;
  Index offset = 0;
  int folds = 0;
  bool negated = false;
  Turn turn{};                 ///< of the longitudes, by all folds crossed
  std::optional<Turn> line{};  ///< the image lies on a mirror whose fold does this
  bool filled = false;
  double fill = 0;
};

/// The part of `run` whose image lies in `[image_lo, image_hi)`.
Run part_with_image(Run run, Index image_lo, Index image_hi) {
  if (image_hi <= image_lo || (run.slope == 0 && (run.offset < image_lo || run.offset >= image_hi))) run.hi = run.lo;
  if (run.hi == run.lo || run.slope == 0) return run;
  Index const one = (image_lo - run.offset) * run.slope;
  Index const other = (image_hi - 1 - run.offset) * run.slope;
  run.lo = std::max(run.lo, std::min(one, other));
  run.hi = std::min(run.hi, std::max(one, other) + 1);
  return run;
}

/// Replaces the image i of `run` by `slope * i + offset`.
Run mapped(Run run, int slope, Index offset) {
  run.slope *= slope;
  run.offset = run.offset * slope + offset;
  return run;
}

/// One side of an axis: its rule, and for mirrors the place c with image c - e.
struct Side {
  Edge edge = Edge::constant;
  Index edge_cell = 0;
  Index wrap = 0;  ///< leads back to the other side
  Index mirror = 0;
  Turn turn{};
  /// Half units from the mirror to the edge cell: 2 when a ghost lies on the mirror, 0 when the edge cell does, less
  /// when it lies beyond.
  Index inside_distance = 1;
};

struct AxisRules {
  Index extent = 0;
  double constant = 0;
  Side lower;
  Side upper;
  bool copies = false;  ///< owned cells on or beyond a fold's mirror are copies
};

constexpr Index far = Index(1) << 60U;

AxisRules rules_of(Indices const& extents, Boundary const& boundary, int axis) {
  auto const& given = boundary.axes[std::size_t(axis)];
  Index const n = extents[axis];
  Index const cells = n + (n > 0 && given.stagger == Stagger::all_faces ? 1 : 0);
  Index const stagger = offset_of(given.stagger);
  int const longitude = boundary.longitude_axis;
  auto const turn = [&](Edge edge) -> Turn {
    if (is_pole(edge)) return {1, extents[longitude] / 2};
    if (!is_seam(edge)) return {};
    Index const pivot = boundary.pivot.value_or(detail::mirrors_at_row(edge) ? 0 : -1);
    return {-1, pivot - offset_of(boundary.axes[std::size_t(longitude)].stagger)};
  };
  // Half index of the mirror less the stagger; 2e is twice a cell, so that 2e - mirror is its signed distance.
  Index const low = (detail::mirrors_at_row(given.lower) ? 0 : -1) - stagger;
  Index const high = (detail::mirrors_at_row(given.upper) ? 2 * (n - 1) : 2 * n - 1) - stagger;
  return {cells,
          given.constant,
          {given.lower, 0, n, low, turn(given.lower), -low},
          {given.upper, cells - 1, -n, high, turn(given.upper), high - 2 * (cells - 1)},
          boundary.mirror_line == MirrorLine::copy};
}

std::string text_of(Run const& run) { return to_string(Box({run.lo}, {run.hi})); }

/// Cuts a run of one axis at the places where its rules change.
class AxisCutter {
 public:
  explicit AxisCutter(AxisRules const& rules) : rules_(rules) {}

  [[nodiscard]] std::vector<Run> cut(Run const& run) {
    // Each fold or wrap is a piece of its own, found by recursion.
    constexpr Index most_folds = 1000;
    Index const extent = std::max<Index>(rules_.extent, 1);
    if (std::max(-run.lo, run.hi - extent) / extent > most_folds)
      throw Error("BadHaloWidth", "ghost cells " + text_of(run) + " reach beyond " + std::to_string(most_folds) +
                                      " times an axis of " + std::to_string(extent) + " cells");
    runs_.clear();
    add(run);
    std::sort(runs_.begin(), runs_.end(), [](Run const& a, Run const& b) { return a.lo < b.lo; });
    return runs_;
  }

 private:
  void add(Run const& run) {
    if (run.hi <= run.lo) return;
    if (rules_.extent == 0) {
      if (rules_.lower.edge == Edge::untouched && rules_.upper.edge == Edge::untouched) return;
      throw Error("BadHaloWidth",
                  "ghost cells " + text_of(run) + " need an axis with cells, or sides that are untouched");
    }
    add_inside(part_with_image(run, 0, rules_.extent));
    beyond(part_with_image(run, -far, 0), rules_.lower);
    beyond(part_with_image(run, rules_.extent, far), rules_.upper);
  }

  void push(Run const& run) {
    if (run.hi > run.lo) runs_.push_back(run);
  }

  void add_inside(Run run) {
    if (run.hi <= run.lo) return;
    Index first = 0;
    Index last = rules_.extent;
    if (rules_.copies && is_copy(rules_.lower)) add_copy(part_with_image(run, first++, 1), rules_.lower);
    if (rules_.copies && is_copy(rules_.upper)) {
      --last;
      add_copy(part_with_image(run, last, last + 1), rules_.upper);
    }
    push(part_with_image(run, first, last));
  }

  static bool is_copy(Side const& side) { return is_fold(side.edge) && side.inside_distance <= 0; }

  void add_copy(Run run, Side const& side) {
    if (run.hi <= run.lo) return;
    if (side.inside_distance < 0)
      run = folded(run, side);
    else
      run.line = side.turn;
    push(run);
  }

  static Run folded(Run run, Side const& side) {
    run = mapped(run, -1, side.mirror);
    run.negated = run.negated != enum_row(side.edge).is_negated;
    if (!is_fold(side.edge)) return run;
    ++run.folds;
    run.turn = {run.turn.slope * side.turn.slope, run.turn.offset * side.turn.slope + side.turn.offset};
    return run;
  }

  void fill(Run run) {
    run.filled = true;
    run.fill = rules_.constant;
    push(run);
  }

  void beyond(Run const& run, Side const& side) {
    if (run.hi <= run.lo) return;
    using detail::Ghost;
    switch (enum_row(side.edge).ghost) {
      case Ghost::nothing: return;
      case Ghost::constant: return fill(run);
      case Ghost::opposite_side: return add(mapped(run, 1, side.wrap));
      case Ghost::edge_cell: return add_inside(mapped(run, 0, side.edge_cell));
      case Ghost::mirror_at_face: return mirrored(run, side);
      case Ghost::mirror_at_row: break;
    }
    if (rules_.extent == 1)
      throw Error("BadHaloWidth", "ghost cells " + text_of(run) +
                                      " are never reached by a mirror at the only cell of an axis (" +
                                      to_string(side.edge) + ")");
    mirrored(run, side);
  }

  void mirrored(Run const& run, Side const& side) {
    if (side.inside_distance == 2) {
      // The ghost next to the edge lies on the mirror itself.
      Index const on_mirror = side.mirror / 2;
      fill(part_with_image(run, on_mirror, on_mirror + 1));
      add(folded(part_with_image(run, -far, on_mirror), side));
      add(folded(part_with_image(run, on_mirror + 1, far), side));
      return;
    }
    add(folded(run, side));
  }

  AxisRules rules_;
  std::vector<Run> runs_;
};

/// Columns of a row on a mirror that are copies of lower ones: `[first, second)` each.
std::array<std::array<Index, 2>, 2> copied_columns(Turn const& turn, Index n) {
  if (turn.slope > 0) return {{{n / 2, n}, {n, n}}};
  // Column i pairs with last - i, or with last - i + n beyond `last`.
  Index const last = ((turn.offset % n) + n) % n;
  return {{{last / 2 + 1, last + 1}, {(last + n) / 2 + 1, n}}};
}

/// Builds the pieces of a box axis by axis; the longitude axis comes last, because folds turn it.
class BoxCutter {
 public:
  BoxCutter(Indices const& extents, Boundary const& boundary) : longitude_(boundary.longitude_axis) {
    for (int a = 0; a < extents.size(); ++a) rules_.push_back(rules_of(extents, boundary, a));
    for (int a = 0; a < extents.size(); ++a)
      if (a != longitude_) order_.push_back(a);
    if (longitude_ >= 0) order_.push_back(longitude_);
  }

  [[nodiscard]] std::vector<Piece> cut(Box const& needed) {
    pieces_.clear();
    chosen_.assign(rules_.size(), {});
    if (!needed.empty()) cut_axis(needed, 0, {});
    return pieces_;
  }

 private:
  /// `crossed` holds what the axes cut so far do to the longitudes.
  void cut_axis(Box const& needed, std::size_t depth, Run const& crossed) {
    if (depth == order_.size()) {
      pieces_.push_back(piece());
      return;
    }
    int const a = order_[depth];
    for (auto const& run : a == longitude_ ? cut_longitudes(needed, crossed) : cut_plain(needed, a)) {
      chosen_[std::size_t(a)] = run;
      cut_axis(needed, depth + 1, run.folds > 0 || run.line ? run : crossed);
    }
  }

  [[nodiscard]] std::vector<Run> cut_plain(Box const& needed, int a) const {
    Run run;
    run.lo = needed.lo(a);
    run.hi = needed.hi(a);
    return AxisCutter(rules_[std::size_t(a)]).cut(run);
  }

  [[nodiscard]] std::vector<Run> cut_longitudes(Box const& needed, Run const& crossed) const {
    AxisCutter cutter(rules_[std::size_t(longitude_)]);
    Index const n = rules_[std::size_t(longitude_)].extent;
    Run run;
    run.lo = needed.lo(longitude_);
    run.hi = needed.hi(longitude_);
    run.slope = crossed.turn.slope;
    run.offset = n > 0 ? crossed.turn.offset % n : 0;
    auto const turned = cutter.cut(run);
    if (!crossed.line) return turned;
    std::vector<Run> result;
    auto const copies = copied_columns(*crossed.line, n);
    for (auto const& part : turned) {
      Index first = 0;
      for (auto const& [lo, hi] : copies) {
        if (auto const kept = part_with_image(part, first, lo); kept.hi > kept.lo) result.push_back(kept);
        first = hi;
        auto copied = mapped(part_with_image(part, lo, hi), crossed.line->slope, crossed.line->offset % n);
        ++copied.folds;
        auto const back = cutter.cut(copied);
        result.insert(result.end(), back.begin(), back.end());
      }
    }
    return result;
  }

  [[nodiscard]] Piece piece() const {
    int const ndim = int(rules_.size());
    Piece result;
    result.box = Box(Indices::filled(ndim, 0), Indices::filled(ndim, 0));
    int folds = 0;
    for (int a = 0; a < ndim; ++a) {
      auto const& run = chosen_[std::size_t(a)];
      result.box.set(a, run.lo, run.hi);
      result.maps[std::size_t(a)] = {a, run.slope, run.offset};
      folds += run.folds;
      result.negated = result.negated != run.negated;
      if (run.filled && !result.filled) {
        result.filled = true;
        result.fill = run.fill;
      }
    }
    result.odd_folds = folds % 2 != 0;
    return result;
  }

  int longitude_;
  std::vector<AxisRules> rules_;
  std::vector<int> order_;
  std::vector<Run> chosen_;
  std::vector<Piece> pieces_;
};

}  // namespace

IndexMap detail::boundary_map(Indices const& extents, Boundary const& boundary) {
  check(extents, boundary);
  return [cutter = BoxCutter(extents, boundary)](Box const& needed) { return BoxCutter(cutter).cut(needed); };
}

std::vector<Box> detail::copied_boxes(Indices const& extents, Boundary const& boundary, Box const& owned) {
  std::vector<Box> boxes;
  if (boundary.mirror_line == MirrorLine::keep) return boxes;
  for (auto const& piece : boundary_map(extents, boundary)(owned)) {
    bool moved = false;
    for (int a = 0; a < owned.ndim(); ++a) moved = moved || piece.maps[std::size_t(a)] != AxisMap{a, 1, 0};
    if (moved) boxes.push_back(piece.box);
  }
  return boxes;
}

std::uint64_t Boundary::fingerprint() const {
  Hash hash;
  hash.add(longitude_axis).add(int(odd_longitudes)).add(int(mirror_line));
  hash.add(pivot.has_value()).add(pivot.value_or(0));
  for (auto const& axis : axes)
    hash.add(int(axis.lower)).add(int(axis.upper)).add(axis.constant).add(int(axis.stagger));
  return hash.value();
}

}  // namespace graticule
