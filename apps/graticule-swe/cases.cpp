// SPDX-License-Identifier: BSD-3-Clause
#include "cases.hpp"

#include <graticule/partition/error.hpp>

#include "balanced_flow.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <vector>

namespace graticule::swe {

namespace {

using std::numbers::pi;

constexpr double seconds_per_day = 86400;

/// Of cases 1 and 2: once around in 12 days.
double solid_speed(Planet const& planet) { return 2 * pi * planet.radius / (12 * seconds_per_day); }

/// A flow by its values at a latitude and a longitude.
struct Flow {
  std::function<double(double, double)> h, u, v;
  std::function<double(double, double)> surface = [](double, double) { return 0.0; };
};

void fill(Solver& solver, Flow const& flow) {
  auto const& grid = solver.grid();
  auto const& box = solver.owned();
  auto& s = solver.state();
  if (box.empty()) return;
  for (Index j = box.lo(0); j < box.hi(0); ++j)
    for (Index i = box.lo(1); i < box.hi(1); ++i) {
      double const ground = flow.surface(grid.latitude(j), grid.longitude(i));
      *solver.surface().at(j, i) = ground;
      *s.h.at(j, i) = flow.h(grid.latitude(j), grid.longitude(i));
      *s.u.at(j, i) = flow.u(grid.latitude(j), grid.face_longitude(i));
      *s.v.at(j, i) = j == 0 ? 0 : flow.v(grid.face_latitude(j), grid.longitude(i));
    }
}

/// Rotation about an axis tilted by `angle`.
double solid_u(double speed, double angle, double phi, double lambda) {
  return speed * (std::cos(phi) * std::cos(angle) + std::cos(lambda) * std::sin(phi) * std::sin(angle));
}
double solid_v(double speed, double angle, double lambda) { return -speed * std::sin(lambda) * std::sin(angle); }

/// Height of case 2: in balance with the rotation, of which the planet's is tilted alike.
double solid_height(Planet const& planet, double speed, double mean, double angle, double phi, double lambda) {
  double const s = -std::cos(lambda) * std::cos(phi) * std::sin(angle) + std::sin(phi) * std::cos(angle);
  return mean - (planet.radius * planet.rotation * speed + 0.5 * speed * speed) * s * s / planet.gravity;
}

/// The cosine bell of case 1, of which the centre has moved by `distance` radians along its path.
double bell(double angle, double distance, double phi, double lambda) {
  // At the beginning the centre lies at longitude 3 pi/2 on the equator, which every tilted path crosses.
  double const x = std::sin(distance);
  double const y = -std::cos(distance);
  double const centre_phi = std::asin(std::clamp(std::sin(angle) * x, -1.0, 1.0));
  double const centre_lambda = std::atan2(y, std::cos(angle) * x);
  double const cosine =
      std::sin(centre_phi) * std::sin(phi) + std::cos(centre_phi) * std::cos(phi) * std::cos(lambda - centre_lambda);
  double const r = std::acos(std::clamp(cosine, -1.0, 1.0));
  double const radius = 1.0 / 3;
  return r < radius ? 500 * (1 + std::cos(pi * r / radius)) : 0;
}

/// Wind of case 1 from differences of its stream function between corners: without divergence on the grid.
void fill_bell(Solver& solver, CaseOptions const& options) {
  auto const& grid = solver.grid();
  double const a = grid.planet().radius;
  double const speed = solid_speed(grid.planet());
  auto const psi = [&](double phi, double lambda) {
    return -a * speed *
           (std::sin(phi) * std::cos(options.angle) - std::cos(lambda) * std::cos(phi) * std::sin(options.angle));
  };
  auto const at = [&](Index j, Index i) {
    bool const pole = j == 0 || j == grid.num_rows();
    return pole ? psi(grid.face_latitude(j), pi / 2) : psi(grid.face_latitude(j), grid.face_longitude(i));
  };
  fill(solver, {.h = [&](double phi, double lambda) { return bell(options.angle, 0, phi, lambda); },
                .u = [](double, double) { return 0.0; },
                .v = [](double, double) { return 0.0; }});
  auto const& box = solver.owned();
  if (box.empty()) return;
  for (Index j = box.lo(0); j < box.hi(0); ++j)
    for (Index i = box.lo(1); i < box.hi(1); ++i) {
      *solver.state().u.at(j, i) = -(at(j + 1, i) - at(j, i)) / (a * grid.dphi());
      if (j > 0) *solver.state().v.at(j, i) = (at(j, i + 1) - at(j, i)) / (a * grid.face_cosine(j) * grid.dlambda());
    }
}

Flow solid_flow(Planet const& planet, double speed, double mean, double angle) {
  return {.h = [=](double phi, double lambda) { return solid_height(planet, speed, mean, angle, phi, lambda); },
          .u = [=](double phi, double lambda) { return solid_u(speed, angle, phi, lambda); },
          .v = [=](double, double lambda) { return solid_v(speed, angle, lambda); }};
}

/// Case 5: a zonal flow over a mountain of 2000 m at 30 degrees north.
Flow mountain(Planet const& planet) {
  auto flow = solid_flow(planet, 20, 5960, 0);
  auto const surface = [](double phi, double lambda) {
    double const radius = pi / 9;
    double east = std::abs(lambda - 3 * pi / 2);
    east = std::min(east, 2 * pi - east);
    double const north = phi - pi / 6;
    return 2000 * (1 - std::min(radius, std::sqrt(east * east + north * north)) / radius);
  };
  flow.h = [=, height = flow.h](double phi, double lambda) { return height(phi, lambda) - surface(phi, lambda); };
  flow.surface = surface;
  return flow;
}

/// Case 6: a Rossby-Haurwitz wave of wave number 4.
Flow rossby_haurwitz(Planet const& planet) {
  constexpr double omega = 7.848e-6;
  constexpr double k = omega;
  constexpr double r = 4;
  constexpr double mean = 8000;
  double const a = planet.radius;
  auto const height = [=](double phi, double lambda) {
    double const c = std::cos(phi);
    double const c2 = c * c;
    double const cr = std::pow(c, r);
    double const zonal = 0.5 * omega * (2 * planet.rotation + omega) * c2 +
                         0.25 * k * k * cr * cr * ((r + 1) * c2 + (2 * r * r - r - 2)) -
                         0.5 * k * k * r * r * cr * cr / c2;
    double const wave =
        2 * (planet.rotation + omega) * k / ((r + 1) * (r + 2)) * cr * ((r * r + 2 * r + 2) - (r + 1) * (r + 1) * c2);
    double const twice = 0.25 * k * k * cr * cr * ((r + 1) * c2 - (r + 2));
    double const sum = zonal + wave * std::cos(r * lambda) + twice * std::cos(2 * r * lambda);
    return mean + a * a * sum / planet.gravity;
  };
  return {.h = height,
          .u =
              [=](double phi, double lambda) {
                double const c = std::cos(phi);
                double const s = std::sin(phi);
                return a * omega * c + a * k * std::pow(c, r - 1) * (r * s * s - c * c) * std::cos(r * lambda);
              },
          .v =
              [=](double phi, double lambda) {
                return -a * k * r * std::pow(std::cos(phi), r - 1) * std::sin(phi) * std::sin(r * lambda);
              }};
}

/// Zonal jet of Galewsky et al. 2004.
double jet(double phi) {
  constexpr double south = pi / 7;
  constexpr double north = pi / 2 - south;
  if (phi <= south || phi >= north) return 0;
  double const scale = std::exp(-4 / ((north - south) * (north - south)));
  return 80 / scale * std::exp(1 / ((phi - south) * (phi - north)));
}

/// Height in balance with the jet at the latitudes of the grid's rows, by Simpson's rule from the south pole on; its
/// mean over the rows is 10 km.
std::vector<double> jet_heights(Grid const& grid) {
  auto const& planet = grid.planet();
  auto const slope = [&](double phi) {
    double const u = jet(phi);
    return planet.radius * u * (2 * planet.rotation * std::sin(phi) + std::tan(phi) / planet.radius * u);
  };
  constexpr int parts = 200;
  std::vector<double> heights;
  double sum = 0;
  double phi = -pi / 2;
  double mean = 0;
  double area = 0;
  for (Index j = 0; j < grid.num_rows(); ++j) {
    double const step = (grid.latitude(j) - phi) / parts;
    for (int p = 0; p < parts; ++p) {
      double const lo = phi + p * step;
      sum += step / 6 * (slope(lo) + 4 * slope(lo + 0.5 * step) + slope(lo + step));
    }
    phi = grid.latitude(j);
    heights.push_back(-sum / planet.gravity);
    mean += heights.back() * grid.cosine(j);
    area += grid.cosine(j);
  }
  for (auto& height : heights) height += 10000 - mean / area;
  return heights;
}

void fill_jet(Solver& solver) {
  auto const& grid = solver.grid();
  fill(solver, {.h = [](double, double) { return 0.0; },
                .u = [](double phi, double) { return jet(phi); },
                .v = [](double, double) { return 0.0; }});
  auto const heights = jet_heights(grid);
  auto const& box = solver.owned();
  if (box.empty()) return;
  for (Index j = box.lo(0); j < box.hi(0); ++j)
    for (Index i = box.lo(1); i < box.hi(1); ++i) {
      double const phi = grid.latitude(j);
      // Longitudes from -pi to pi, the disturbance at 0.
      double const lambda = grid.longitude(i) > pi ? grid.longitude(i) - 2 * pi : grid.longitude(i);
      double const bump =
          120 * std::cos(phi) * std::exp(-9 * lambda * lambda) * std::exp(-225 * (pi / 4 - phi) * (pi / 4 - phi));
      *solver.state().h.at(j, i) = heights[std::size_t(j)] + bump;
    }
}

/// u, v and h at their places, from the flow at twice the longitudes: at centres and western faces.
void fill_random(Solver& solver, std::uint64_t seed) {
  auto const& grid = solver.grid();
  auto const& box = solver.owned();
  if (box.empty()) return;
  int const degree = int(std::clamp<Index>((std::min(grid.num_rows(), grid.num_columns() / 2) - 1) / 3, 1, 42));
  double const gravity = grid.planet().gravity;
  auto const psi = app::random_stream_function({.seed = seed}, degree, 20);
  auto const z = app::balanced_geopotential(psi, 10000 * gravity);
  Index const twice = 2 * grid.num_columns();
  app::Harmonics const harmonics{int(twice)};
  auto u = std::vector<double>(static_cast<std::size_t>(twice));
  auto v = u;
  auto height = u;
  for (Index j = box.lo(0); j < box.hi(0); ++j) {
    auto const evaluate = [&](double phi) {
      app::Parallel const parallel{std::sin(phi), std::cos(phi)};
      app::evaluate(psi, z, app::LegendreRow(parallel, degree + 1), harmonics, 0,
                    {.u = u, .v = v, .z = height, .psi = {}});
    };
    evaluate(grid.latitude(j));
    for (Index i = box.lo(1); i < box.hi(1); ++i) {
      *solver.state().h.at(j, i) = height[std::size_t(2 * i)] / gravity;
      *solver.state().u.at(j, i) = u[std::size_t((2 * i + twice - 1) % twice)];
    }
    if (j == 0) continue;
    evaluate(grid.face_latitude(j));
    for (Index i = box.lo(1); i < box.hi(1); ++i) *solver.state().v.at(j, i) = v[std::size_t(2 * i)];
  }
}

}  // namespace

std::vector<std::string> case_names() { return {"1", "2", "5", "6", "galewsky", "random"}; }

std::string describe(std::string const& name) {
  if (name == "1") return "Williamson case 1: a cosine bell carried once around the sphere";
  if (name == "2") return "Williamson case 2: a steady zonal flow, tilted by an angle";
  if (name == "5") return "Williamson case 5: zonal flow over an isolated mountain";
  if (name == "6") return "Williamson case 6: Rossby-Haurwitz wave of wave number 4";
  if (name == "galewsky") return "Galewsky et al. 2004: a barotropically unstable jet";
  return "a random rotational wind in linear balance";
}

double default_days(std::string const& name) {
  if (name == "1") return 12;
  if (name == "5") return 15;
  if (name == "6") return 14;
  if (name == "galewsky") return 6;
  return 5;
}

std::optional<Scheme> forced_scheme(std::string const& name) {
  return name == "1" ? std::optional(Scheme::fixed_wind) : std::nullopt;
}

Planet planet_of(CaseOptions const& options) {
  Planet planet;
  if (options.name == "2") planet.tilt = options.angle;
  return planet;
}

void set_initial_state(Solver& solver, CaseOptions const& options) {
  auto const& planet = solver.grid().planet();
  auto const& name = options.name;
  if (name == "1")
    fill_bell(solver, options);
  else if (name == "2")
    fill(solver, solid_flow(planet, solid_speed(planet), 2.94e4 / planet.gravity, options.angle));
  else if (name == "5")
    fill(solver, mountain(planet));
  else if (name == "6")
    fill(solver, rossby_haurwitz(planet));
  else if (name == "galewsky")
    fill_jet(solver);
  else if (name == "random")
    fill_random(solver, options.seed);
  else
    throw Error(Fault::usage, "BadOption", "case " + name + " is none of 1, 2, 5, 6, galewsky, random");
  solver.exchange_surface();
}

std::optional<Cells> exact_depth(Solver const& solver, CaseOptions const& options, double seconds) {
  auto const& grid = solver.grid();
  auto const& planet = grid.planet();
  if (options.name != "1" && options.name != "2") return std::nullopt;
  double const distance = solid_speed(planet) * seconds / planet.radius;
  Cells result(solver.owned());
  auto const& box = solver.owned();
  if (box.empty()) return result;
  for (Index j = box.lo(0); j < box.hi(0); ++j)
    for (Index i = box.lo(1); i < box.hi(1); ++i) {
      double const phi = grid.latitude(j);
      double const lambda = grid.longitude(i);
      *result.at(j, i) = options.name == "1" ? bell(options.angle, distance, phi, lambda)
                                             : solid_height(planet, solid_speed(planet), 2.94e4 / planet.gravity,
                                                            options.angle, phi, lambda);
    }
  return result;
}

}  // namespace graticule::swe
