// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/spectral/latitude_rule.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/partition/error.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>

namespace graticule::nn {

namespace {

using std::numbers::pi;

constexpr std::array grids{LatitudeGrid::gaussian, LatitudeGrid::half_way, LatitudeGrid::both_poles,
                           LatitudeGrid::one_pole, LatitudeGrid::no_pole};

char const* name_of(LatitudeGrid grid) {
  switch (grid) {
    case LatitudeGrid::gaussian: return "Gaussian";
    case LatitudeGrid::half_way: return "equally spaced half a row from the poles";
    case LatitudeGrid::both_poles: return "equally spaced with both poles";
    case LatitudeGrid::one_pole: return "equally spaced with one pole";
    default: return "equally spaced without the pole rows";
  }
}

bool has_poles(LatitudeGrid grid) { return grid == LatitudeGrid::both_poles || grid == LatitudeGrid::one_pole; }

/// Equally spaced rows lie at colatitudes pi (first + i) / intervals.
struct Spacing {
  double first;
  Index intervals;
};

Spacing spacing_of(LatitudeGrid grid, Index n) {
  switch (grid) {
    case LatitudeGrid::half_way: return {0.5, n};
    case LatitudeGrid::both_poles: return {0, n - 1};
    case LatitudeGrid::one_pole: return {0, n};
    default: return {1, n + 1};
  }
}

/// Weights of interpolatory quadrature at colatitude pi `place` / `intervals` of equally spaced rows; Waldvogel, "Fast
/// construction of the Fejer and Clenshaw-Curtis quadrature rules", BIT 46 (2006).
double equal_weight(LatitudeGrid grid, Index intervals, double place) {
  auto const n = double(intervals);
  auto const t = pi * place / n;
  bool const on_pole = place == 0 || place == n;
  double sum = 0;
  if (grid == LatitudeGrid::half_way) {
    for (Index k = intervals / 2; k >= 1; --k) sum += std::cos(2 * double(k) * t) / double(4 * k * k - 1);
    return 2 / n * (1 - 2 * sum);
  }
  if (grid == LatitudeGrid::both_poles) {
    for (Index k = intervals / 2; k >= 1; --k)
      sum += (2 * k == intervals ? 1 : 2) * std::cos(2 * double(k) * t) / double(4 * k * k - 1);
    return (on_pole ? 1 : 2) / n * (1 - sum);
  }
  // Fejer's second rule; pole rows, if any, have weight 0.
  if (on_pole) return 0;
  for (Index k = intervals / 2; k >= 1; --k) sum += std::sin(double(2 * k - 1) * t) / double(2 * k - 1);
  return 4 * std::sin(t) / n * sum;
}

void fill_equally_spaced(LatitudeRule& rule, Index n) {
  auto const [first, intervals] = spacing_of(rule.grid, n);
  for (Index i = 0; i < n; ++i) {
    // Angles from the equator and from the nearer pole, so that rows mirror each other exactly.
    auto const from_north = first + double(i);
    auto const to_south = double(intervals) - from_north;
    auto const elevation = (to_south - from_north) / (2 * double(intervals));
    rule.latitudes.push_back(90 * (to_south - from_north) / double(intervals));
    rule.sines.push_back(std::sin(pi * elevation));
    rule.cosines.push_back(std::sin(pi * std::min(from_north, to_south) / double(intervals)));
    rule.weights.push_back(equal_weight(rule.grid, intervals, from_north));
  }
}

/// Zeros of P_n from north to south by Newton's method.
void fill_gaussian(LatitudeRule& rule, Index n) {
  long double const wide_pi = std::numbers::pi_v<long double>;
  for (Index i = 0; i < n; ++i) {
    auto const mirrored = std::min(i, n - 1 - i);
    long double x = std::cos(wide_pi * ((long double)(mirrored) + 0.75L) / ((long double)(n) + 0.5L));
    long double slope = 0;
    for (int step = 0; step < 10; ++step) {
      long double before = 1;
      long double value = x;
      for (Index k = 2; k <= n; ++k) {
        auto const next = ((long double)(2 * k - 1) * x * value - (long double)(k - 1) * before) / (long double)(k);
        before = value;
        value = next;
      }
      slope = (long double)(n) * (before - x * value) / ((1 - x) * (1 + x));
      auto const change = value / slope;
      x -= change;
      if (std::abs(change) < 1e-18L) break;
    }
    if (2 * i == n - 1) x = 0;
    auto const cosine = std::sqrt((1 - x) * (1 + x));
    auto const sine = i == mirrored ? x : -x;
    rule.sines.push_back(double(sine));
    rule.cosines.push_back(double(cosine));
    rule.latitudes.push_back(double(std::atan2(sine, cosine) * 180 / wide_pi));
    rule.weights.push_back(double(2 / (cosine * cosine * slope * slope)));
  }
}

LatitudeRule reversed(LatitudeRule rule) {
  for (auto* values : {&rule.latitudes, &rule.sines, &rule.cosines, &rule.weights})
    std::reverse(values->begin(), values->end());
  return rule;
}

/// The same rows with north and south exchanged.
LatitudeRule mirrored(LatitudeRule rule) {
  for (auto* values : {&rule.latitudes, &rule.sines})
    for (auto& value : *values) value = value == 0 ? 0 : -value;
  return rule;
}

/// The row that is farthest off, and how far.
struct Deviation {
  std::size_t row = 0;
  double degrees = 0;
};

Deviation deviation(LatitudeRule const& rule, std::span<double const> latitudes) {
  Deviation worst;
  for (std::size_t i = 0; i < latitudes.size(); ++i) {
    bool const finite = std::isfinite(latitudes[i]);
    auto const off = finite ? std::abs(latitudes[i] - rule.latitudes[i]) : std::numeric_limits<double>::infinity();
    if (off > worst.degrees) worst = {i, off};
  }
  return worst;
}

}  // namespace

std::uint64_t LatitudeRule::fingerprint() const { return Hash().add(int(grid)).add(latitudes).value(); }

LatitudeRule latitude_rule(LatitudeGrid grid, Index num_rows) {
  if (num_rows < (has_poles(grid) ? 2 : 1))
    throw Error("BadCoordinates", "no quadrature: " + std::string(name_of(grid)) + " latitudes need at least " +
                                      (has_poles(grid) ? "2 rows" : "1 row") + ", got " + std::to_string(num_rows));
  LatitudeRule rule{.grid = grid, .latitudes = {}, .sines = {}, .cosines = {}, .weights = {}};
  if (grid == LatitudeGrid::gaussian)
    fill_gaussian(rule, num_rows);
  else
    fill_equally_spaced(rule, num_rows);
  rule.num_degrees = grid == LatitudeGrid::gaussian   ? num_rows
                     : grid == LatitudeGrid::one_pole ? num_rows / 2
                                                      : (num_rows + 1) / 2;
  return rule;
}

LatitudeRule latitude_rule(std::span<double const> latitudes) {
  auto const n = Index(latitudes.size());
  if (n == 0) throw Error("BadCoordinates", "no quadrature: the list of latitudes is empty");
  auto const tolerance = std::min(0.005, 1.8 / double(n));
  bool const southward = latitudes.front() >= latitudes.back();
  std::optional<LatitudeRule> nearest;
  Deviation least{0, std::numeric_limits<double>::infinity()};
  auto const consider = [&](LatitudeRule rule) {
    if (!southward) rule = reversed(std::move(rule));
    auto const found = deviation(rule, latitudes);
    if (nearest && !(found.degrees < least.degrees)) return;
    nearest = std::move(rule);
    least = found;
  };
  for (auto const grid : grids) {
    if (has_poles(grid) && n < 2) continue;
    consider(latitude_rule(grid, n));
    if (grid == LatitudeGrid::one_pole) consider(reversed(mirrored(latitude_rule(grid, n))));
  }
  if (least.degrees <= tolerance) return *nearest;
  throw Error("BadCoordinates", "no quadrature: " + std::to_string(n) + " latitudes from " +
                                    std::to_string(latitudes.front()) + " to " + std::to_string(latitudes.back()) +
                                    " degrees; nearest are " + to_string(*nearest) + ", but row " +
                                    std::to_string(least.row) + " at " + std::to_string(latitudes[least.row]) +
                                    " would be at " + std::to_string(nearest->latitudes[least.row]));
}

std::string to_string(LatitudeRule const& rule) {
  return std::to_string(rule.num_rows()) + " rows, " + name_of(rule.grid);
}

}  // namespace graticule::nn
