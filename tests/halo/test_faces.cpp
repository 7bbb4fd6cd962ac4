// SPDX-License-Identifier: BSD-3-Clause
// Faces that meet with a turn: a cubed sphere in space, folded at its edges, says what each ghost cell holds.
#include <graticule/halo/depth.hpp>
#include <graticule/halo/plan.hpp>
#include <graticule/repartition/block_views.hpp>
#include <graticule/repartition/plan.hpp>

#include "expect_error.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>
#include <string>
#include <vector>

using namespace graticule;
using test::rule_of;

namespace {

Index n = 7;
constexpr Index width = 2;

using Vector = std::array<Index, 3>;

Vector operator+(Vector a, Vector const& b) {
  for (std::size_t k = 0; k < 3; ++k) a[k] += b[k];
  return a;
}
Vector operator*(Index factor, Vector a) {
  for (auto& value : a) value *= factor;
  return a;
}
Index dot(Vector const& a, Vector const& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

/// A face of the cube [-n, n]^3: its outward normal, and the directions of growing rows and columns.
struct Face {
  Vector normal;
  Vector row;
  Vector column;
};

constexpr Vector x{1, 0, 0};
constexpr Vector y{0, 1, 0};
constexpr Vector z{0, 0, 1};
Vector operator-(Vector const& a) { return -1 * a; }

std::array<Face, 6> const faces{{{x, z, y}, {y, z, -x}, {-x, z, -y}, {-y, z, x}, {z, -x, y}, {-z, x, y}}};

/// Along rows and columns: 0 for values in centres, 1 for values on all faces.
using More = std::array<Index, 2>;

/// The names of values: a face, and a place on it.
using Names = std::set<std::pair<int, Vector>>;

int face_of(Vector const& normal) {
  for (int f = 0; f < 6; ++f)
    if (faces[std::size_t(f)].normal == normal) return f;
  return -1;
}

/// A place on the surface, and the directions along which its face's components are counted there: round an edge both
/// the place and the directions are folded. Values on an edge are those of the lower of its faces that has an owner.
struct Place {
  Vector at{};
  std::array<Vector, 2> along;
  bool owned = true;
};

Place place_of(int face, Index i, Index j, More const& more = {}, Names const* owned = nullptr) {
  auto const& f = faces[std::size_t(face)];
  std::array<Index, 2> cell{2 * i + 1 - more[0] - n, 2 * j + 1 - more[1] - n};
  std::array<Vector, 2> const direction{f.row, f.column};
  Place result{{}, direction};
  Vector plane = f.normal;  // of the face to which the place belongs
  Index height = n;
  for (std::size_t a = 0; a < 2; ++a) {
    Index const side = cell[a] > n ? 1 : cell[a] < -n ? -1 : 0;
    if (side == 0) continue;
    height -= side * cell[a] - n;
    cell[a] = side * n;
    result.along[a] = -side * f.normal;
    plane = side * direction[a];
  }
  result.at = height * f.normal + cell[0] * f.row + cell[1] * f.column;
  auto const has_owner = [&](Vector const& normal) {
    return owned == nullptr || owned->contains({face_of(normal), result.at});
  };
  result.owned = has_owner(plane);
  for (std::size_t a = 0; a < 2; ++a) {
    if (more[a] == 0 || std::abs(cell[a]) != n || result.along[a] != direction[a]) continue;
    Index const side = cell[a] / n;
    Vector const next = side * direction[a];
    if (!has_owner(next) || (face_of(next) > face_of(plane) && result.owned)) continue;
    result.along[a] = -side * plane;
    result.owned = true;
  }
  return result;
}

double scalar_at(Vector const& at) { return double(dot(at, {1, 40, 1600})); }

/// Any vector in space for each cell.
Vector vector_at(Vector const& at) { return {dot(at, {3, 1, 4}) + 7, dot(at, {1, 5, 9}) - 1, dot(at, {2, 6, 5}) + 2}; }

/// Kinds: 0 a scalar, 1 and 2 the components along rows and columns.
double value_at(int kind, Place const& place) {
  return kind == 0 ? scalar_at(place.at) : double(dot(vector_at(place.at), place.along[std::size_t(kind - 1)]));
}

/// Blocks of 3 x 4 cells and less at the ends: 6 on each face of 7 x 7, in the same proportions on others.
std::vector<Block> blocks_of(int num_ranks, bool with_holes = false) {
  std::vector<Block> blocks;
  int number = 0;
  Index const rows = 3 * n / 7;
  Index const columns = 4 * n / 7;
  for (int f = 0; f < 6; ++f)
    for (Index i = 0; i < n; i += rows)
      for (Index j = 0; j < n; j += columns) {
        int const at = number++;
        if (with_holes && at % 5 == 2) continue;
        blocks.push_back({Box({i, j}, {std::min(i + rows, n), std::min(j + columns, n)}), at % num_ranks, f});
      }
  return blocks;
}

enum class Grid { a, c, d };

std::vector<HaloKind> kinds_of(Grid where = Grid::a) {
  HaloKind kind{
      .widths = {{width, width}, {width, width}}, .boundary = Boundary::uniform(2, Edge::untouched), .hole = 7};
  std::vector<HaloKind> kinds(3, kind);
  kinds[1].component = 0;
  kinds[2].component = 1;
  if (where == Grid::a) return kinds;
  for (std::size_t a = 0; a < 2; ++a) {
    kinds[0].boundary.axes[a].stagger = Stagger::all_faces;  // corners of cells
    kinds[where == Grid::c ? a + 1 : 2 - a].boundary.axes[a].stagger = Stagger::all_faces;
  }
  return kinds;
}

class Fields {
 public:
  Fields(Comm const& comm, BlockGrid const& grid, HaloPlan const& plan)
      : first_(grid.first_block(comm.rank())), num_(grid.num_blocks(comm.rank())) {
    for (int k = 0; k < 3; ++k) {
      int const kind = std::min(k, plan.num_kinds() - 1);
      blocks_.push_back(*plan.blocks(kind));
      local_.push_back(plan.local(kind));
      auto const& axes = plan.kind(kind).boundary.axes;
      for (std::size_t a = 0; a < 2; ++a) more_[std::size_t(k)][a] = axes[a].stagger == Stagger::all_faces ? 1 : 0;
      values_[std::size_t(k)].assign(std::size_t(local_.back().num_cells()), untouched);
    }
  }
  double& at(int k, int b, Index i, Index j) {
    Box const& box = blocks_[std::size_t(k)].blocks()[std::size_t(first_ + b)].box;
    Box const& local = local_[std::size_t(k)];
    return values_[std::size_t(k)][std::size_t(((b * local.extent(1)) + i - box.lo(0) + width) * local.extent(2) + j -
                                               box.lo(1) + width)];
  }
  /// Calls `visit(kind, block, face, i, j, is_owned)` for each cell and ghost cell.
  template <class Visit>
  void for_each(Visit const& visit) const {
    for (int k = 0; k < 3; ++k)
      for (int b = 0; b < num_; ++b) {
        auto const& block = blocks_[std::size_t(k)].blocks()[std::size_t(first_ + b)];
        Box const& box = block.box;
        for (Index i = box.lo(0) - width; i < box.hi(0) + width; ++i)
          for (Index j = box.lo(1) - width; j < box.hi(1) + width; ++j)
            visit(k, b, block.face, i, j, box.contains(Box({i, j}, {i + 1, j + 1})));
      }
  }
  std::vector<HaloField> fields() {
    std::vector<HaloField> result;
    for (int k = 0; k < 3; ++k)
      result.push_back(
          {field_view(values_[std::size_t(k)].data(), local_[std::size_t(k)].extents(), 3), Parity::even, k});
    return result;
  }
  std::vector<double>& values(int k) { return values_[std::size_t(k)]; }
  [[nodiscard]] More const& more(int k) const { return more_[std::size_t(k)]; }
  /// Beyond two sides at once.
  [[nodiscard]] bool is_corner(int k, Index i, Index j) const {
    return (i < 0 || i >= n + more(k)[0]) && (j < 0 || j >= n + more(k)[1]);
  }
  /// What the blocks of all ranks hold of vectors (`of_vectors`) or of scalars.
  [[nodiscard]] Names names(bool of_vectors) const {
    Names result;
    for (int k = of_vectors ? 1 : 0; k <= (of_vectors ? 2 : 0); ++k)
      for (auto const& block : blocks_[std::size_t(k)].blocks())
        for (Index i = block.box.lo(0); i < block.box.hi(0); ++i)
          for (Index j = block.box.lo(1); j < block.box.hi(1); ++j)
            result.insert({block.face, place_of(block.face, i, j, more(k)).at});
    return result;
  }
  static constexpr double untouched = -12345;

 private:
  std::vector<BlockGrid> blocks_;
  std::vector<Box> local_;
  int first_;
  int num_;
  std::array<More, 3> more_{};
  std::array<std::vector<double>, 3> values_;
};

bool is_inside(Index i) { return i >= 0 && i < n; }

BlockGrid cube_of(std::vector<Block> const& blocks) { return {{n, n}, 6, cubed_sphere_joints(), blocks}; }

/// Scalars and vectors of a cubed sphere of 6 x n x n cells; every cell.
void exchange_all() {
  Comm const comm(MPI_COMM_WORLD);
  auto const grid = cube_of(blocks_of(comm.num_ranks()));
  ASSERT_FALSE(grid.has_holes());
  ASSERT_GT(grid.num_blocks(comm.rank()), 1);
  HaloPlan const plan(comm, grid, kinds_of());
  Fields fields(comm, grid, plan);
  fields.for_each([&](int k, int b, int face, Index i, Index j, bool owned) {
    if (owned) fields.at(k, b, i, j) = value_at(k, place_of(face, i, j));
  });

  plan.exchange(fields.fields());

  std::set<std::string> edges;
  fields.for_each([&](int k, int b, int face, Index i, Index j, bool) {
    bool const corner = !is_inside(i) && !is_inside(j);
    EXPECT_EQ(fields.at(k, b, i, j), corner ? Fields::untouched : value_at(k, place_of(face, i, j)))
        << "kind " << k << " face " << face << " cell " << i << ", " << j;
    if (is_inside(i) != is_inside(j))
      edges.insert(std::to_string(face) + (is_inside(i) ? "columns" : "rows") + (i < 0 || j < 0 ? "below" : "above"));
  });
  EXPECT_TRUE(comm.num_ranks() > 1 || edges.size() == 24) << edges.size();
}

TEST(Faces, exchange_scalars_and_vectors_of_a_cubed_sphere) { exchange_all(); }

TEST(Faces, exchange_6_faces_of_48_cells_squared) {
  n = 48;
  exchange_all();
  n = 7;
}

TEST(Faces, with_holes_fill_what_no_block_has) {
  Comm const comm(MPI_COMM_WORLD);
  auto const grid = cube_of(blocks_of(comm.num_ranks(), true));
  HaloPlan const plan(comm, grid, kinds_of());
  std::set<Vector> owned_places;
  for (auto const& block : grid.blocks())
    for (Index i = block.box.lo(0); i < block.box.hi(0); ++i)
      for (Index j = block.box.lo(1); j < block.box.hi(1); ++j) owned_places.insert(place_of(block.face, i, j).at);
  Fields fields(comm, grid, plan);
  fields.for_each([&](int k, int b, int face, Index i, Index j, bool owned) {
    if (owned) fields.at(k, b, i, j) = value_at(k, place_of(face, i, j));
  });

  plan.exchange(fields.fields());

  ASSERT_TRUE(grid.has_holes());
  fields.for_each([&](int k, int b, int face, Index i, Index j, bool) {
    if (!is_inside(i) && !is_inside(j)) return;
    auto const place = place_of(face, i, j);
    EXPECT_EQ(fields.at(k, b, i, j), owned_places.contains(place.at) ? value_at(k, place) : 7);
  });
}

/// Vectors and corners of cells; every value, those on the edges of the cube by all of their names.
void exchange_staggered(Grid where, bool with_holes) {
  Comm const comm(MPI_COMM_WORLD);
  auto const grid = cube_of(blocks_of(comm.num_ranks(), with_holes));
  HaloPlan const plan(comm, grid, kinds_of(where));
  Fields fields(comm, grid, plan);
  auto const scalars = fields.names(false);
  auto const vectors = fields.names(true);
  std::set<Vector> corners;
  for (auto const& name : scalars) corners.insert(name.second);
  auto const expected = [&](int k, int face, Index i, Index j) {
    auto const place = place_of(face, i, j, fields.more(k), k == 0 ? &scalars : &vectors);
    return (k == 0 ? corners.contains(place.at) : place.owned) ? value_at(k, place) : 7.0;
  };
  Index num_copies = 0;
  fields.for_each([&](int k, int b, int face, Index i, Index j, bool owned) {
    if (!owned) return;
    auto const place = place_of(face, i, j, fields.more(k));
    double const value = value_at(k, place);
    int lowest = face;
    for (auto const& name : k == 0 ? scalars : vectors)
      if (name.second == place.at) lowest = std::min(lowest, name.first);
    bool const copied = lowest < face;
    num_copies += copied ? 1 : 0;
    // Components of the lowest face along its own axes.
    auto const own = place_of(face, i, j, fields.more(k), k == 0 ? &scalars : &vectors);
    fields.at(k, b, i, j) = copied ? -1e9 : k == 0 ? value : value_at(k, own);
  });

  plan.exchange(fields.fields());

  fields.for_each([&](int k, int b, int face, Index i, Index j, bool) {
    if (fields.is_corner(k, i, j)) {
      EXPECT_EQ(fields.at(k, b, i, j), Fields::untouched);
      return;
    }
    EXPECT_EQ(fields.at(k, b, i, j), expected(k, face, i, j))
        << "kind " << k << " face " << face << " cell " << i << ", " << j;
  });
  std::vector<double> copies{double(num_copies)};
  comm.sum(copies);
  // 12 edges of n - 1 corners between their ends, which have three names; n values of vectors on each.
  EXPECT_TRUE(with_holes || copies[0] == 12 * (n - 1) + 8 * 2 + 12 * n) << copies[0];
  EXPECT_GT(copies[0], 0);
}

TEST(Faces, exchange_a_c_grid) { exchange_staggered(Grid::c, false); }
TEST(Faces, exchange_a_d_grid) { exchange_staggered(Grid::d, false); }
TEST(Faces, exchange_a_c_grid_with_holes) { exchange_staggered(Grid::c, true); }
TEST(Faces, exchange_a_d_grid_with_holes) { exchange_staggered(Grid::d, true); }

/// What an exchange writes lies outside of the interior: nothing else depends on it.
TEST(Faces, interior_leaves_out_copies) {
  Comm const comm(MPI_COMM_WORLD);
  auto const grid = cube_of(blocks_of(comm.num_ranks()));
  HaloPlan const plan(comm, grid, kinds_of(Grid::c));
  Fields fields(comm, grid, plan);
  std::vector<Width> const none{{0, 0}, {0, 0}};
  auto before = fields;
  fields.for_each([&](int k, int b, int, Index i, Index j, bool) {
    fields.at(k, b, i, j) = before.at(k, b, i, j) = double(1 + k + 3 * b + 100 * i + j + 10000 * comm.rank());
  });

  plan.exchange(fields.fields());

  Index num_changed = 0;
  for (int k = 0; k < 3; ++k) {
    Box const interior = plan.interior(none, k);
    Box const local = plan.local(k);
    for (Index b = interior.lo(0); b < interior.hi(0); ++b)
      for (Index i = interior.lo(1); i < interior.hi(1); ++i)
        for (Index j = interior.lo(2); j < interior.hi(2); ++j) {
          auto const at = std::size_t((((b - local.lo(0)) * local.extent(1)) + i - local.lo(1)) * local.extent(2) + j -
                                      local.lo(2));
          EXPECT_EQ(fields.values(k)[at], before.values(k)[at]);
        }
  }
  fields.for_each([&](int k, int b, int, Index i, Index j, bool owned) {
    num_changed += owned && fields.at(k, b, i, j) != before.at(k, b, i, j) ? 1 : 0;
  });
  std::vector<double> changed{double(num_changed)};
  comm.sum(changed);
  EXPECT_GT(changed[0], 0);
}

void check_adjoint(Grid where, bool with_holes) {
  Comm const comm(MPI_COMM_WORLD);
  auto const grid = cube_of(blocks_of(comm.num_ranks(), with_holes));
  auto kinds = kinds_of(where);
  for (auto& kind : kinds) kind.hole = 0;  // an exchange is linear without constants
  HaloPlan const plan(comm, grid, kinds);
  Fields before(comm, grid, plan);
  Fields there(comm, grid, plan);
  for (int k = 0; k < 3; ++k) {
    before.values(k).assign(before.values(k).size(), 0);
    there.values(k).assign(there.values(k).size(), 0);
  }
  std::vector<double> sums(2, 0);
  before.for_each([&](int k, int b, int face, Index i, Index j, bool owned) {
    if (owned) before.at(k, b, i, j) = double((k * 31 + b * 7 + i * 3 + j * 13 + face) % 17);
    there.at(k, b, i, j) = double((k * 5 + b * 3 + i * 7 + j * 11 + face) % 13);
  });
  auto image = before;
  plan.exchange(image.fields());
  image.for_each(
      [&](int k, int b, int, Index i, Index j, bool) { sums[0] += image.at(k, b, i, j) * there.at(k, b, i, j); });

  plan.exchange_adjoint(there.fields());

  there.for_each(
      [&](int k, int b, int, Index i, Index j, bool) { sums[1] += before.at(k, b, i, j) * there.at(k, b, i, j); });
  comm.sum(sums);
  EXPECT_EQ(sums[0], sums[1]);  // of whole numbers
  EXPECT_GT(std::abs(sums[0]), 1);
}

TEST(Faces, adjoint_is_the_transpose) {
  for (auto const where : {Grid::a, Grid::c, Grid::d})
    for (bool const with_holes : {false, true}) check_adjoint(where, with_holes);
}

TEST(Faces, move_to_a_layout_of_whole_faces) {
  Comm const comm(MPI_COMM_WORLD);
  auto const grid = cube_of(blocks_of(comm.num_ranks()));
  HaloPlan const halo(comm, grid, kinds_of());
  Fields fields(comm, grid, halo);
  fields.for_each([&](int k, int b, int face, Index i, Index j, bool owned) {
    if (owned) fields.at(k, b, i, j) = value_at(k, place_of(face, i, j));
  });
  Layout const whole(ProcessGrid{comm.num_ranks(), 1, 1}, {6, n, n});
  Box const mine = whole.owned(comm.rank());
  std::vector<double> on_faces(std::size_t(mine.num_cells()), 0);
  RepartitionPlan const plan(comm, whole, grid.boxes(comm.rank()));

  plan.apply_inverse(field_view(on_faces.data(), mine.extents(), 3),
                     views_of_blocks(grid, comm.rank(), fields.fields()[0].view.part(halo.local(), halo.owned())));

  std::size_t at = 0;
  for (Index face = mine.lo(0); face < mine.hi(0); ++face)
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < n; ++j) EXPECT_EQ(on_faces[at++], scalar_at(place_of(int(face), i, j).at));
}

/// Tiles of a torus: at each corner four of them meet, and both ways round it lead to one cell.
void exchange_a_torus(Stagger stagger) {
  Comm const comm(MPI_COMM_WORLD);
  std::vector<FaceJoint> joints;
  for (int f = 0; f < 4; ++f) {
    joints.push_back({{f, 0, AxisEnd::upper}, {(f + 2) % 4, 0, AxisEnd::lower}});
    joints.push_back({{f, 1, AxisEnd::upper}, {f ^ 1, 1, AxisEnd::lower}});
  }
  std::vector<Block> blocks;
  for (int f = 0; f < 4; ++f) blocks.push_back({Box({0, 0}, {n, n}), f % comm.num_ranks(), f});
  BlockGrid const grid({n, n}, 4, joints, blocks);
  auto kind = kinds_of()[0];
  for (auto& axis : kind.boundary.axes) axis.stagger = stagger;
  HaloPlan const plan(comm, grid, {kind});
  Fields fields(comm, grid, plan);
  auto const value = [](int face, Index i, Index j) {
    Index const row = (face / 2 * n + i + 2 * n) % (2 * n);
    Index const column = (face % 2 * n + j + 2 * n) % (2 * n);
    return double(row * 2 * n + column);
  };
  fields.for_each([&](int k, int b, int face, Index i, Index j, bool owned) {
    // Of the four names of a corner, and the two of an edge, that of the lowest tile counts.
    bool const copied =
        stagger == Stagger::all_faces && ((face >= 2 && (i == 0 || i == n)) || (face % 2 == 1 && (j == 0 || j == n)));
    if (owned) fields.at(k, b, i, j) = copied ? -5 : value(face, i, j);
  });

  plan.exchange(fields.fields()[0].view);

  fields.for_each([&](int k, int b, int face, Index i, Index j, bool) {
    if (k > 0) return;
    EXPECT_EQ(fields.at(k, b, i, j), value(face, i, j)) << "face " << face << " cell " << i << ", " << j;
  });
}

TEST(Faces, fill_corners_where_four_meet) { exchange_a_torus(Stagger::centre); }
TEST(Faces, copy_values_that_four_tiles_share) { exchange_a_torus(Stagger::all_faces); }

/// One face whose first row meets its first column: of the two names of a value, one counts, wherever blocks end.
TEST(Faces, count_values_once_where_a_face_meets_itself) {
  Comm const comm(MPI_COMM_WORLD);
  std::vector<FaceJoint> const joints{{{0, 0, AxisEnd::lower}, {0, 1, AxisEnd::lower}, Along::reversed}};
  std::vector<Block> const blocks{{Box({0, 0}, {n, 2}), 0},
                                  {Box({0, 2}, {n - 1, n}), comm.num_ranks() / 2},
                                  {Box({n - 1, 2}, {n, n}), comm.num_ranks() - 1}};
  BlockGrid const grid({n, n}, 1, joints, blocks);
  HaloPlan const plan(comm, grid, kinds_of(Grid::c));
  Fields fields(comm, grid, plan);
  auto const value = [](int k, Index i, Index j) { return double(1000 * k + 50 * i + j); };
  fields.for_each([&](int k, int b, int, Index i, Index j, bool owned) {
    if (owned) fields.at(k, b, i, j) = value(k, i, j);
  });

  plan.exchange(fields.fields());

  fields.for_each([&](int k, int b, int, Index i, Index j, bool owned) {
    if (owned && k > 0)
      EXPECT_EQ(fields.at(k, b, i, j), k == 1 && i == 0 ? -value(2, n - 1 - j, 0) : value(k, i, j))
          << "kind " << k << " cell " << i << ", " << j;
  });
}

/// Hundreds of blocks on each rank, of several sizes, whose fields are both read and written.
TEST(Faces, exchange_many_blocks) {
  Index const before = n;
  n = 43;
  Comm const comm(MPI_COMM_WORLD);
  std::vector<Block> blocks;
  for (int f = 0; f < 6; ++f)
    for (Index i = 0; i < n; i += 3)
      for (Index j = 0; j < n; j += 2)
        blocks.push_back(
            {Box({i, j}, {std::min(i + 3, n), std::min(j + 2, n)}), int(blocks.size()) % comm.num_ranks(), f});
  auto const grid = cube_of(blocks);
  for (auto const where : {Grid::a, Grid::c}) {
    HaloPlan const plan(comm, grid, kinds_of(where));
    Fields fields(comm, grid, plan);
    fields.for_each([&](int k, int b, int face, Index i, Index j, bool owned) {
      if (owned) fields.at(k, b, i, j) = value_at(k, place_of(face, i, j, fields.more(k)));
    });

    plan.exchange(fields.fields());

    fields.for_each([&](int k, int b, int face, Index i, Index j, bool) {
      // Where blocks of one face meet, and round edges of the cube, except on the edges.
      bool const on_side = i == 0 || i == n || j == 0 || j == n;
      if ((!is_inside(i) && !is_inside(j)) || (where == Grid::c && on_side)) return;
      EXPECT_EQ(fields.at(k, b, i, j), value_at(k, place_of(face, i, j, fields.more(k))));
    });
  }
  n = before;
}

/// The code of docs/grids.md.
TEST(Faces, of_the_page) {
  Comm const comm(MPI_COMM_WORLD);
  auto const blocks = blocks_of(comm.num_ranks());

  BlockGrid const grid({n, n}, 6, cubed_sphere_joints(), blocks);  // {box, rank, face}
  HaloKind const scalar{.widths = {{2, 2}, {2, 2}}, .boundary = Boundary::uniform(2, Edge::untouched)};
  HaloKind rows = scalar;  // components of vectors along rows and columns of the face
  HaloKind columns = scalar;
  rows.component = 0;
  columns.component = 1;
  HaloPlan const plan(comm, grid, {scalar, rows, columns});
  Fields fields(comm, grid, plan);
  fields.for_each([&](int k, int b, int face, Index i, Index j, bool owned) {
    if (owned) fields.at(k, b, i, j) = value_at(k, place_of(face, i, j));
  });
  auto const t = fields.fields()[0].view;
  auto const u = fields.fields()[1].view;
  auto const v = fields.fields()[2].view;

  plan.exchange(HaloField{t}, HaloField{.view = u, .kind = 1}, HaloField{.view = v, .kind = 2});

  fields.for_each([&](int k, int b, int face, Index i, Index j, bool) {
    if (!is_inside(i) && !is_inside(j)) return;
    EXPECT_EQ(fields.at(k, b, i, j), value_at(k, place_of(face, i, j)));
  });
}

TEST(Faces, refuse_what_they_lack) {
  Comm const comm(MPI_COMM_WORLD);
  auto const blocks = blocks_of(comm.num_ranks());
  auto const grid = cube_of(blocks);
  auto const rule_with = [&](auto const& change) {
    auto kinds = kinds_of();
    change(kinds);
    return rule_of([&] { HaloPlan const plan(comm, grid, kinds); });
  };
  EXPECT_EQ(rule_with([](auto& kinds) { kinds[0].boundary.axes[0].stagger = Stagger::high_face; }), "BadBoundary");
  EXPECT_EQ(rule_with([](auto& kinds) { kinds[0].boundary.axes[1].stagger = Stagger::all_faces; }), "BadBoundary");
  EXPECT_EQ(rule_with([](auto& kinds) { kinds[1].boundary.axes[1].stagger = Stagger::all_faces; }), "BadOption");
  EXPECT_EQ(rule_with([](auto& kinds) {
              for (int k : {1, 2})
                for (auto& axis : kinds[std::size_t(k)].boundary.axes) axis.stagger = Stagger::all_faces;
            }),
            "BadBoundary");
  EXPECT_EQ(rule_with([](auto& kinds) { kinds[0].boundary = Boundary::uniform(2, Edge::symmetric); }), "BadBoundary");
  EXPECT_EQ(rule_with([](auto& kinds) { kinds[0].widths[1].upper = n + 1; }), "BadHaloWidth");
  EXPECT_EQ(rule_with([](auto& kinds) { kinds.pop_back(); }), "BadOption");
  EXPECT_EQ(rule_with([](auto& kinds) { kinds[2].component = 0; }), "BadOption");
  EXPECT_EQ(rule_with([](auto& kinds) { kinds[2].widths[0].upper = 1; }), "BadOption");
  EXPECT_EQ(rule_of([&] { HaloPlan const plan(comm, Layout(ProcessGrid{1, 1}, {n, n}), kinds_of()); }), "BadOption");
  HaloPlan const plan(comm, grid, kinds_of());
  EXPECT_EQ(rule_of([&] { HaloDepth const depth(plan, "q"); }), "Unsupported");
  Fields fields(comm, grid, plan);
  auto all = fields.fields();
  EXPECT_EQ(rule_of([&] { plan.exchange(std::span<HaloField const>(all).first(2)); }), "FieldMismatch");

  auto joints = cubed_sphere_joints();
  joints.push_back(joints.front());
  joints.back().other = {3, 0, AxisEnd::upper};
  EXPECT_EQ(rule_of([&] { BlockGrid const bad({n, n}, 6, joints, blocks); }), "BadLayout");
  EXPECT_EQ(rule_of([&] { BlockGrid const bad({n, n + 1}, 6, cubed_sphere_joints(), blocks); }), "BadLayout");
  EXPECT_EQ(rule_of([&] { BlockGrid const bad({n, n}, 5, {}, blocks); }), "OutOfRange");
  EXPECT_EQ(rule_of([&] { BlockGrid const bad({n, n, n}, 2, {}, std::span<Block const>()); }), "BadLayout");
  std::vector<FaceJoint> const fold{{{0, 0, AxisEnd::upper}, {0, 0, AxisEnd::upper}, Along::reversed}};
  std::vector<Block> const one{{Box({0, 0}, {n, n}), 0}};
  BlockGrid const folded({n, n}, 1, fold, one);
  EXPECT_EQ(rule_of([&] { HaloPlan const bad(comm, folded, {kinds_of(Grid::c)[0]}); }), "BadBoundary");
}

}  // namespace
