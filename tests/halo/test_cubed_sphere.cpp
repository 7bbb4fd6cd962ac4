// SPDX-License-Identifier: BSD-3-Clause
// Advection once round a cubed sphere, over its edges and corners: the error falls as the scheme's order says.
#include <graticule/halo/plan.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <numbers>
#include <vector>

using namespace graticule;

namespace {

using Point = std::array<double, 3>;

Point operator+(Point a, Point const& b) {
  for (std::size_t k = 0; k < 3; ++k) a[k] += b[k];
  return a;
}
Point operator*(double factor, Point a) {
  for (auto& value : a) value *= factor;
  return a;
}
Point operator-(Point const& a, Point const& b) { return a + -1.0 * b; }
double dot(Point const& a, Point const& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }
Point cross(Point const& a, Point const& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}
Point on_sphere(Point const& a) { return 1 / std::sqrt(dot(a, a)) * a; }

/// Outward normal of a face, and the directions of growing rows and columns.
struct Face {
  Point normal;
  Point row;
  Point column;
};

constexpr std::array<Face, 6> cube{{{{1, 0, 0}, {0, 0, 1}, {0, 1, 0}},
                                    {{0, 1, 0}, {0, 0, 1}, {-1, 0, 0}},
                                    {{-1, 0, 0}, {0, 0, 1}, {0, -1, 0}},
                                    {{0, -1, 0}, {0, 0, 1}, {1, 0, 0}},
                                    {{0, 0, 1}, {-1, 0, 0}, {0, 1, 0}},
                                    {{0, 0, -1}, {1, 0, 0}, {0, 1, 0}}}};

/// Axis of the rotation: its equator passes through 4 corners of the cube, and along 2 edges.
Point const axis = on_sphere({-1, 0, 1});

double hill(Point const& at) { return std::exp(6 * (dot(at, {0, 1, 0}) - 1)); }

/// Corner (i, j) of the cells of a face with equal angles between them.
Point corner_of(int face, Index n, Index i, Index j) {
  auto const& f = cube[std::size_t(face)];
  auto const tangent = [&](Index k) { return std::tan(std::numbers::pi / 2 * (double(k) / double(n) - 0.5)); };
  return on_sphere(f.normal + tangent(i) * f.row + tangent(j) * f.column);
}

double area_of(Point const& a, Point const& b, Point const& c) {
  return 2 * std::atan2(std::abs(dot(a, cross(b, c))), 1 + dot(a, b) + dot(b, c) + dot(c, a));
}

/// A tracer in a flow that turns as a whole: means over cells, linear in each of them, in two stages per step.
class Tracer {
 public:
  Tracer(Comm const& comm, Index n)
      : grid_({n, n}, 6, cubed_sphere_joints(), blocks_of(comm.num_ranks(), n)),
        rank_(comm.rank()),
        plan_(comm, grid_, {{.widths = {{1, 1}, {1, 1}}, .boundary = Boundary::uniform(2, Edge::untouched)}}),
        local_(plan_.local()) {
    auto const cells = std::size_t(local_.num_cells());
    for (auto* field : {&q_, &area_, &next_}) field->assign(cells, 0);
    for (auto* fields : {&centre_, &slope_})
      for (auto& field : *fields) field.assign(cells, 0);
    weights_.assign(cells, {});
    edges_.assign(cells, {});
    for_each_cell([&](int face, Index i, Index j, std::size_t at) {
      std::array const c{corner_of(face, n, i, j), corner_of(face, n, i, j + 1), corner_of(face, n, i + 1, j + 1),
                         corner_of(face, n, i + 1, j)};
      area_[at] = area_of(c[0], c[1], c[2]) + area_of(c[0], c[2], c[3]);
      auto const centre = on_sphere(c[0] + c[1] + c[2] + c[3]);
      for (std::size_t x = 0; x < 3; ++x) centre_[x][at] = centre[x];
      q_[at] = hill(centre);
      // Below and above along rows, below and above along columns.
      edges_[at] = {edge_of(c[1], c[0]), edge_of(c[3], c[2]), edge_of(c[0], c[3]), edge_of(c[2], c[1])};
    });
    exchange(centre_);
    for_each_cell([&](int, Index, Index, std::size_t at) { weights_[at] = weights_of(at); });
    start_ = q_;
  }

  void step(double dt) {
    auto const before = q_;
    advance(dt);
    advance(dt);
    for (std::size_t at = 0; at < q_.size(); ++at) q_[at] = 0.5 * (before[at] + q_[at]);
  }

  struct Sums {
    double mass = 0;
    double change = 0;
    double error = 0;  ///< root of the mean square, of that of the start
  };
  [[nodiscard]] Sums sums(Comm const& comm) const {
    std::vector<double> all(4, 0);
    for_each_cell([&](int, Index, Index, std::size_t at) {
      all[0] += area_[at] * start_[at];
      all[1] += area_[at] * q_[at];
      all[2] += area_[at] * (q_[at] - start_[at]) * (q_[at] - start_[at]);
      all[3] += area_[at] * start_[at] * start_[at];
    });
    comm.sum(all);
    return {all[0], all[1] - all[0], std::sqrt(all[2] / all[3])};
  }

 private:
  using Field = std::vector<double>;
  using Weights = std::array<Point, 4>;
  struct Inflow {
    double volume = 0;
    Point middle{};
  };

  /// Quarters of the faces in turn on the ranks.
  static std::vector<Block> blocks_of(int num_ranks, Index n) {
    std::vector<Block> blocks;
    for (int f = 0; f < 6; ++f)
      for (Index i = 0; i < n; i += n / 2)
        for (Index j = 0; j < n; j += n / 2)
          blocks.push_back({Box({i, j}, {i + n / 2, j + n / 2}), int(blocks.size()) % num_ranks, f});
    return blocks;
  }

  /// Calls `visit(face, i, j, place)` for each cell of this rank.
  template <class Visit>
  void for_each_cell(Visit const& visit) const {
    for (int b = 0; b < grid_.num_blocks(rank_); ++b) {
      auto const& block = grid_.blocks()[std::size_t(grid_.first_block(rank_) + b)];
      for (Index i = block.box.lo(0); i < block.box.hi(0); ++i)
        for (Index j = block.box.lo(1); j < block.box.hi(1); ++j)
          visit(block.face, i, j,
                std::size_t((b * local_.extent(1) + i - block.box.lo(0) + 1) * local_.extent(2) + j - block.box.lo(1) +
                            1));
    }
  }

  void exchange(std::array<Field, 3>& fields) const {
    std::array<HaloField, 3> views;
    for (std::size_t x = 0; x < 3; ++x) views[x].view = field_view(fields[x].data(), local_.extents(), 3);
    plan_.exchange(views);
  }

  [[nodiscard]] static Point at_of(std::array<Field, 3> const& fields, std::size_t at) {
    return {fields[0][at], fields[1][at], fields[2][at]};
  }
  [[nodiscard]] std::array<std::size_t, 4> around(std::size_t at) const {
    auto const row = std::size_t(local_.extent(2));
    return {at - row, at + row, at - 1, at + 1};
  }

  /// What a cell's four neighbors add to its gradient, by least squares in the plane that touches the sphere there.
  [[nodiscard]] Weights weights_of(std::size_t at) const {
    auto const centre = at_of(centre_, at);
    auto const one = on_sphere(cross(centre, std::abs(centre[2]) < 0.5 ? Point{0, 0, 1} : Point{1, 0, 0}));
    auto const other = cross(centre, one);
    std::array<std::array<double, 2>, 4> step{};
    double aa = 0;
    double ab = 0;
    double bb = 0;
    auto const cells = around(at);
    for (std::size_t k = 0; k < 4; ++k) {
      auto const to = at_of(centre_, cells[k]) - centre;
      step[k] = {dot(to, one), dot(to, other)};
      aa += step[k][0] * step[k][0];
      ab += step[k][0] * step[k][1];
      bb += step[k][1] * step[k][1];
    }
    double const d = aa * bb - ab * ab;
    Weights result{};
    for (std::size_t k = 0; k < 4; ++k)
      result[k] = ((bb * step[k][0] - ab * step[k][1]) / d) * one + ((aa * step[k][1] - ab * step[k][0]) / d) * other;
    return result;
  }

  /// The edge from a to b, to the right of which its cell lies: the flow into the cell is exact, since the stream
  /// function is known.
  [[nodiscard]] static Inflow edge_of(Point const& a, Point const& b) { return {dot(axis, b - a), on_sphere(a + b)}; }

  [[nodiscard]] double at_edge(Point const& middle, std::size_t cell) const {
    return q_[cell] + dot(at_of(slope_, cell), middle - at_of(centre_, cell));
  }

  void advance(double dt) {
    plan_.exchange(field_view(q_.data(), local_.extents(), 3));
    for_each_cell([&](int, Index, Index, std::size_t at) {
      Point slope{};
      auto const cells = around(at);
      for (std::size_t k = 0; k < 4; ++k) slope = slope + (q_[cells[k]] - q_[at]) * weights_[at][k];
      for (std::size_t x = 0; x < 3; ++x) slope_[x][at] = slope[x];
    });
    exchange(slope_);
    for_each_cell([&](int, Index, Index, std::size_t at) {
      auto const cells = around(at);
      double in = 0;
      for (std::size_t k = 0; k < 4; ++k) {
        auto const& edge = edges_[at][k];
        in += edge.volume * at_edge(edge.middle, edge.volume > 0 ? cells[k] : at);
      }
      next_[at] = q_[at] + dt / area_[at] * in;
    });
    q_.swap(next_);
  }

  BlockGrid grid_;
  int rank_;
  HaloPlan plan_;
  Box local_;
  Field q_;
  Field start_;
  Field next_;
  Field area_;
  std::array<Field, 3> centre_;
  std::array<Field, 3> slope_;
  std::vector<Weights> weights_;
  std::vector<std::array<Inflow, 4>> edges_;
};

double error_after_one_turn(Comm const& comm, Index n) {
  Tracer tracer(comm, n);
  Index const num_steps = 10 * n;
  for (Index step = 0; step < num_steps; ++step) tracer.step(2 * std::numbers::pi / double(num_steps));
  auto const sums = tracer.sums(comm);
  EXPECT_LT(std::abs(sums.change), 1e-12 * sums.mass);
  return sums.error;
}

TEST(CubedSphere, advects_with_second_order_over_edges_and_corners) {
  Comm const comm(MPI_COMM_WORLD);

  double const coarse = error_after_one_turn(comm, 24);
  double const middle = error_after_one_turn(comm, 48);
  double const fine = error_after_one_turn(comm, 96);

  if (comm.rank() == 0) std::printf("errors %.3e %.3e %.3e\n", coarse, middle, fine);
  EXPECT_GT(std::log2(coarse / middle), 1.8);
  EXPECT_GT(std::log2(middle / fine), 1.9);
}

}  // namespace
