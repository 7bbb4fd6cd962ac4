// SPDX-License-Identifier: BSD-3-Clause
// A tracer on the sphere, carried over the poles by a wind that friction slows down; both diffuse.
//
//   mpiexec -n 4 example_cxx OUTPUT.nc STEPS [FOLDER]
//
// With a folder, the run continues from the newest checkpoint there, and saves one at its end. The output has the same
// bytes for any number of ranks, with and without a restart.
#include <graticule/field_io/checkpoint.hpp>
#include <graticule/field_io/writer.hpp>
#include <graticule/halo/axis_sum.hpp>
#include <graticule/halo/plan.hpp>
#include <graticule/partition/failure.hpp>
#include <graticule/repartition/runtime.hpp>

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

using namespace graticule;

namespace {

constexpr Index num_rows = 24;
constexpr Index num_columns = 48;
constexpr double friction = 0.01;
double const pi = std::acos(-1.0);
constexpr std::array<char const*, 3> names{"q", "u", "v"};

double latitude(Index j) { return -pi / 2 + (double(j) + 0.5) * (pi / double(num_rows)); }
double longitude(Index i) { return double(i) * (2 * pi / double(num_columns)); }

/// The model's own domain decomposition: the box of each rank in a grid of ranks.
std::vector<Box> boxes_of(int num_ranks) {
  std::array<int, 2> dims{0, 0};
  MPI_Dims_create(num_ranks, 2, dims.data());
  std::vector<Box> boxes;
  for (int rank = 0; rank < num_ranks; ++rank) {
    Index const row = rank / dims[1];
    Index const column = rank % dims[1];
    boxes.emplace_back(Indices{num_rows * row / dims[0], num_columns * column / dims[1]},
                       Indices{num_rows * (row + 1) / dims[0], num_columns * (column + 1) / dims[1]});
  }
  return boxes;
}

/// A field on the cells of this rank with a halo of one.
class Cells {
 public:
  explicit Cells(Box const& local) : local_(local), values_(std::size_t(local.num_cells())) {}
  [[nodiscard]] double* at(Index j, Index i) {
    return values_.data() + (j - local_.lo(0)) * local_.extent(1) + i - local_.lo(1);
  }
  [[nodiscard]] FieldView view() { return field_view(values_.data(), local_.extents(), 2); }
  [[nodiscard]] FieldView part(Box const& box) { return view().part(local_, box); }

 private:
  Box local_;
  std::vector<double> values_;
};

/// q, u and v.
using State = std::array<Cells, 3>;

class Model {
 public:
  Model(Comm const& comm, Layout const& layout)
      : comm_(comm),
        layout_(layout),
        halo_(comm, layout, {{1, 1}, {1, 1}}, Boundary::sphere(Edge::pole_face)),
        now_{Cells(halo_.local()), Cells(halo_.local()), Cells(halo_.local())},
        next_(now_) {
    for (Index j = 0; j < num_rows; ++j) {
      cosine_.push_back(std::cos(latitude(j)));
      tangent_.push_back(std::tan(latitude(j)));
    }
    double const dx = cosine_[0] * dlambda_;
    dt_ = 0.2 * dx * dx / friction;
    set_initial_state();
  }

  void step() {
    auto& [q, u, v] = now_;
    // The wind changes its sign across a pole.
    auto pending = halo_.start(HaloField{q.view()}, HaloField{u.view(), Parity::odd}, HaloField{v.view(), Parity::odd});
    step_box(halo_.interior());  // while the halos travel
    pending.wait();
    for (auto const& box : halo_.border()) step_box(box);
    std::swap(now_, next_);
  }

  Index load(CheckpointStore& store) {
    auto const checkpoint = store.newest();
    if (!checkpoint) return 0;
    for (std::size_t f = 0; f < 3; ++f) checkpoint->read(names[f], layout_, now_[f].part(halo_.owned()));
    return checkpoint->step();
  }

  void save(CheckpointStore& store, Index steps) {
    auto writer = store.begin(steps);
    for (std::size_t f = 0; f < 3; ++f) writer.add(names[f], layout_, now_[f].part(halo_.owned()));
    writer.commit();
  }

  void write_file(char const* path) {
    std::vector<double> latitudes;
    std::vector<double> longitudes;
    for (Index j = 0; j < num_rows; ++j) latitudes.push_back(180 / pi * latitude(j));
    for (Index i = 0; i < num_columns; ++i) longitudes.push_back(180 / pi * longitude(i));
    FieldWriter writer(comm_, path);
    writer.add_coordinate("latitude", latitudes, ValueType::f64, {Attribute::of_text("units", "degrees_north")});
    writer.add_coordinate("longitude", longitudes, ValueType::f64, {Attribute::of_text("units", "degrees_east")});
    for (std::size_t f = 0; f < 3; ++f) {
      writer.add_variable({.name = names[f], .dimensions = {"latitude", "longitude"}, .type = ValueType::f64});
      writer.write(names[f], FileSelection{.box = halo_.owned()}, now_[f].part(halo_.owned()));
    }
    writer.commit();
  }

  /// The mean of q over the sphere, with the same bits on any number of ranks.
  double mean() {
    std::vector<double> latitudes;
    for (Index j = 0; j < num_rows; ++j) latitudes.push_back(180 / pi * latitude(j));
    AreaSum const sum(comm_, layout_, 1, 0, area_weights(latitudes), AxisSumScale::mean);
    return sum.apply(now_[0].part(halo_.owned()))[0];
  }

  /// Largest deviation of the wind from the exact solution: friction slows it by exp(-2 friction t).
  double wind_error(Index steps) {
    auto& [q, u, v] = now_;
    std::array<double, 1> error{0};
    double const factor = std::exp(-2 * friction * dt_ * double(steps));
    for_each_owned([&](Index j, Index i) {
      double const exact_u = factor * std::sin(latitude(j)) * std::cos(longitude(i));
      double const exact_v = -factor * std::sin(longitude(i));
      error[0] = std::max({error[0], std::abs(*u.at(j, i) - exact_u), std::abs(*v.at(j, i) - exact_v)});
    });
    comm_.max(error);
    return error[0];
  }

 private:
  template <class Visit>
  void for_each_owned(Visit&& visit) {
    auto const& box = halo_.owned();
    for (Index j = box.lo(0); j < box.hi(0); ++j)
      for (Index i = box.lo(1); i < box.hi(1); ++i) visit(j, i);
  }

  /// A bell near the north pole; a rotation about an axis through the equator.
  void set_initial_state() {
    for_each_owned([&](Index j, Index i) {
      double const phi = latitude(j);
      double const lambda = longitude(i);
      double const x = std::cos(phi) * std::cos(lambda) - std::cos(1.3);
      double const y = std::cos(phi) * std::sin(lambda);
      double const z = std::sin(phi) - std::sin(1.3);
      *now_[0].at(j, i) = std::exp(-20 * (x * x + y * y + z * z));
      *now_[1].at(j, i) = std::sin(phi) * std::cos(lambda);
      *now_[2].at(j, i) = -std::sin(lambda);
    });
  }

  [[nodiscard]] double laplacian(double const* f, std::size_t j, Index row) const {
    double const east_west = (f[1] - 2 * f[0] + f[-1]) / (cosine_[j] * cosine_[j] * dlambda_ * dlambda_);
    double const north_south = (f[row] - 2 * f[0] + f[-row]) / (dphi_ * dphi_);
    double const slope = (f[row] - f[-row]) / (2 * dphi_);
    return east_west + north_south - tangent_[j] * slope;
  }

  /// One step of the cells of a box: upwind advection of q, the vector Laplacian of the wind.
  void step_box(Box const& box) {
    Index const row = halo_.local().extent(1);
    for (Index j = box.lo(0); j < box.hi(0); ++j)
      for (Index i = box.lo(1); i < box.hi(1); ++i) {
        double const* const q = now_[0].at(j, i);
        double const* const u = now_[1].at(j, i);
        double const* const v = now_[2].at(j, i);
        double const c = cosine_[std::size_t(j)];
        double const t = tangent_[std::size_t(j)];
        double const q_east = (u[0] > 0 ? q[0] - q[-1] : q[1] - q[0]) / (c * dlambda_);
        double const q_north = (v[0] > 0 ? q[0] - q[-row] : q[row] - q[0]) / dphi_;
        double const u_east = (u[1] - u[-1]) / (2 * dlambda_);
        double const v_east = (v[1] - v[-1]) / (2 * dlambda_);
        double const q_rate = friction * laplacian(q, std::size_t(j), row) - (u[0] * q_east + v[0] * q_north);
        double const u_rate = friction * (laplacian(u, std::size_t(j), row) - u[0] / (c * c) - 2 * t / c * v_east);
        double const v_rate = friction * (laplacian(v, std::size_t(j), row) - v[0] / (c * c) + 2 * t / c * u_east);
        *next_[0].at(j, i) = q[0] + dt_ * q_rate;
        *next_[1].at(j, i) = u[0] + dt_ * u_rate;
        *next_[2].at(j, i) = v[0] + dt_ * v_rate;
      }
  }

  Comm comm_;
  Layout layout_;
  HaloPlan halo_;
  State now_;
  State next_;
  std::vector<double> cosine_;
  std::vector<double> tangent_;
  double dphi_ = pi / double(num_rows);
  double dlambda_ = 2 * pi / double(num_columns);
  double dt_ = 0;
};

void run(char const* output, Index steps, char const* folder) {
  Comm const comm = Comm::world();
  auto const layout = Layout::from_boxes({num_rows, num_columns}, boxes_of(comm.num_ranks()));
  Model model(comm, layout);
  double const begin = model.mean();
  std::optional<CheckpointStore> store;
  Index done = 0;
  if (folder != nullptr) {
    store.emplace(comm, folder, CheckpointOptions{.keep = 2});
    done = model.load(*store);
  }
  for (; done < steps; ++done) model.step();
  if (store) model.save(*store, steps);
  model.write_file(output);
  double const end = model.mean();
  double const error = model.wind_error(steps);
  if (comm.rank() == 0) std::printf("mean %.6e, was %.6e; error of the wind %.2e\n", end, begin, error);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "use: %s OUTPUT.nc STEPS [FOLDER]\n", argv[0]);
    return 2;
  }
  Runtime const runtime(argc, argv);
  try {
    run(argv[1], std::atoi(argv[2]), argc > 3 ? argv[3] : nullptr);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    announce_failure(std::current_exception());
    return 1;
  }
  return 0;
}
