// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/halo/boundary.hpp>
#include <graticule/partition/hash.hpp>

#include <algorithm>
#include <array>

namespace graticule {

std::string to_string(Edge edge) {
  constexpr std::array<char const*, 8> names{"untouched", "constant",  "periodic",  "reflect",
                                             "symmetric", "replicate", "pole_face", "pole_row"};
  return names[std::size_t(edge)];
}

Boundary Boundary::uniform(int ndim, Edge edge) {
  return {std::vector<AxisBoundary>(std::size_t(ndim), {edge, edge}), -1};
}

Boundary Boundary::sphere(Edge pole) { return {{{pole, pole}, {Edge::periodic, Edge::periodic}}, 1}; }

namespace {

bool is_pole(Edge edge) { return edge == Edge::pole_face || edge == Edge::pole_row; }

void check(Indices const& extents, Boundary const& boundary) {
  if (int(boundary.axes.size()) != extents.size())
    throw Error("AxesMismatch",
                std::to_string(boundary.axes.size()) + " boundary rules for extents " + to_string(extents));
  for (int a = 0; a < extents.size(); ++a) {
    auto const& axis = boundary.axes[std::size_t(a)];
    if ((axis.lower == Edge::periodic) != (axis.upper == Edge::periodic))
      throw Error("PeriodicOnOneSide",
                  "axis " + std::to_string(a) + " has " + to_string(axis.lower) + " and " + to_string(axis.upper));
    if (!is_pole(axis.lower) && !is_pole(axis.upper)) continue;
    int const longitude = boundary.longitude_axis;
    if (longitude < 0 || longitude >= extents.size() || longitude == a ||
        boundary.axes[std::size_t(longitude)].lower != Edge::periodic)
      throw Error("PoleNeedsPeriodicLongitude",
                  "axis " + std::to_string(a) + " ends at a pole, the longitude axis is " + std::to_string(longitude));
    if (extents[longitude] % 2 != 0)
      throw Error("OddLongitudeFold", std::to_string(extents[longitude]) +
                                          " longitudes: the point across the pole falls between two columns; an even "
                                          "number is needed");
  }
}

/// Cells `[lo, hi)` of one axis with image `slope * e + offset`, or a constant.
struct Run {
  Index lo = 0;
  Index hi = 0;
  int slope = 1;
  Index offset = 0;
  int folds = 0;
  bool filled = false;
  double fill = 0;
};

/// The part of `run` whose image lies in `[image_lo, image_hi)`.
Run part_with_image(Run run, Index image_lo, Index image_hi) {
  if (run.slope == 0) {
    if (run.offset < image_lo || run.offset >= image_hi) run.hi = run.lo;
    return run;
  }
  Index const one = (image_lo - run.offset) * run.slope;
  Index const other = (image_hi - 1 - run.offset) * run.slope;
  run.lo = std::max(run.lo, std::min(one, other));
  run.hi = std::min(run.hi, std::max(one, other) + 1);
  return run;
}

/// Replaces the image i of `run` by `slope * i + offset`.
Run mapped(Run run, int slope, Index offset, int folds = 0) {
  run.slope *= slope;
  run.offset = run.offset * slope + offset;
  run.folds += folds;
  return run;
}

class AxisCutter {
 public:
  AxisCutter(Index extent, AxisBoundary const& boundary) : extent_(extent), boundary_(boundary) {}

  [[nodiscard]] std::vector<Run> cut(Index lo, Index hi, Index shift) {
    runs_.clear();
    add({lo, hi, 1, shift, 0, false, 0});
    std::sort(runs_.begin(), runs_.end(), [](Run const& a, Run const& b) { return a.lo < b.lo; });
    return runs_;
  }

 private:
  static constexpr Index far = Index(1) << 60U;

  void add(Run const& run) {
    if (run.hi <= run.lo) return;
    if (extent_ == 0) {
      if (boundary_.lower == Edge::untouched && boundary_.upper == Edge::untouched) return;
      throw Error("EmptyAxis", "ghost cells [" + std::to_string(run.lo) + ", " + std::to_string(run.hi) +
                                   ") of an axis without cells");
    }
    Run const inside = part_with_image(run, 0, extent_);
    if (inside.hi > inside.lo) runs_.push_back(inside);
    beyond(part_with_image(run, -far, 0), boundary_.lower, 0, extent_);
    beyond(part_with_image(run, extent_, far), boundary_.upper, extent_ - 1, -extent_);
  }

  /// `edge_cell` is the last cell inside; `wrap` leads back to the other side.
  void beyond(Run run, Edge edge, Index edge_cell, Index wrap) {
    if (run.hi <= run.lo) return;
    Index const outer_face = edge_cell == 0 && wrap > 0 ? -1 : 2 * extent_ - 1;
    switch (edge) {
      case Edge::untouched: return;
      case Edge::constant:
        run.filled = true;
        run.fill = boundary_.constant;
        runs_.push_back(run);
        return;
      case Edge::periodic: return add(mapped(run, 1, wrap));
      case Edge::replicate: return add(mapped(run, 0, edge_cell));
      case Edge::symmetric: return add(mapped(run, -1, outer_face));
      case Edge::pole_face: return add(mapped(run, -1, outer_face, 1));
      case Edge::reflect:
      case Edge::pole_row:
        if (extent_ == 1)
          throw Error("ReflectTooWide", "ghost cells [" + std::to_string(run.lo) + ", " + std::to_string(run.hi) +
                                            ") mirrored in an axis of 1 cell (" + to_string(edge) + ")");
        return add(mapped(run, -1, 2 * edge_cell, edge == Edge::pole_row ? 1 : 0));
    }
  }

  Index extent_;
  AxisBoundary boundary_;
  std::vector<Run> runs_;
};

/// Builds the pieces of a box axis by axis; the longitude axis comes last, because poles shift it.
class BoxCutter {
 public:
  BoxCutter(Indices const& extents, Boundary const& boundary) : extents_(extents), boundary_(boundary) {
    for (int a = 0; a < extents.size(); ++a)
      if (a != boundary.longitude_axis) order_.push_back(a);
    if (boundary.longitude_axis >= 0) order_.push_back(boundary.longitude_axis);
  }

  [[nodiscard]] std::vector<Piece> cut(Box const& needed) {
    pieces_.clear();
    chosen_.assign(std::size_t(extents_.size()), {});
    if (!needed.empty()) cut_axis(needed, 0, 0);
    return pieces_;
  }

 private:
  void cut_axis(Box const& needed, std::size_t depth, int folds) {
    if (depth == order_.size()) {
      pieces_.push_back(piece(folds));
      return;
    }
    int const a = order_[depth];
    bool const longitude = a == boundary_.longitude_axis;
    Index const shift = longitude ? folds * (extents_[a] / 2) : 0;
    for (auto const& run :
         AxisCutter(extents_[a], boundary_.axes[std::size_t(a)]).cut(needed.lo(a), needed.hi(a), shift)) {
      chosen_[std::size_t(a)] = run;
      cut_axis(needed, depth + 1, folds + run.folds);
    }
  }

  [[nodiscard]] Piece piece(int folds) const {
    int const ndim = extents_.size();
    Piece result;
    result.box = Box(Indices::filled(ndim, 0), Indices::filled(ndim, 0));
    result.odd_folds = folds % 2 != 0;
    for (int a = 0; a < ndim; ++a) {
      auto const& run = chosen_[std::size_t(a)];
      result.box.set(a, run.lo, run.hi);
      result.maps[std::size_t(a)] = {a, run.slope, run.offset};
      if (run.filled && !result.filled) {
        result.filled = true;
        result.fill = run.fill;
      }
    }
    return result;
  }

  Indices extents_;
  Boundary boundary_;
  std::vector<int> order_;
  std::vector<Run> chosen_;
  std::vector<Piece> pieces_;
};

}  // namespace

IndexMap boundary_map(Indices const& extents, Boundary const& boundary) {
  check(extents, boundary);
  return [extents, boundary](Box const& needed) { return BoxCutter(extents, boundary).cut(needed); };
}

std::uint64_t fingerprint(Boundary const& boundary) {
  Hash hash;
  hash.add(boundary.longitude_axis);
  for (auto const& axis : boundary.axes) hash.add(int(axis.lower)).add(int(axis.upper)).add(axis.constant);
  return hash.value();
}

}  // namespace graticule
