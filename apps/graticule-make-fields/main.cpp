// SPDX-License-Identifier: BSD-3-Clause
// Smooth global fields with a known truth: random rotational winds and the geopotential in balance with them.
#include <graticule/app/cf.hpp>
#include <graticule/app/driver.hpp>
#include <graticule/app/numbers.hpp>
#include <graticule/app/shared_options.hpp>
#include <graticule/app/stopping.hpp>
#include <graticule/field_io/writer.hpp>
#include <graticule/partition/cuts.hpp>
#include <graticule/partition/error.hpp>
#include <graticule/partition/layout.hpp>

#include "balanced_flow.hpp"

#include <Kokkos_Core.hpp>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <csignal>

namespace {

using namespace graticule;

struct Options {
  std::string output;
  Index num_latitudes = 91;
  Index num_longitudes = 180;
  Index num_levels = 3;
  Index num_samples = 8;
  std::uint64_t seed = 1;
  std::string latitude_order = "north-to-south";
  std::string poles = "included";
  std::string dtype = "f32";
  std::string partition = "auto";
  bool stream_function = false;
};

void declare(CLI::App& app, Options& options) {
  app.footer(
      "Examples:\n"
      "  mpiexec -n 2 graticule-make-fields fields.nc\n"
      "  graticule-make-fields --nlat 181 --nlon 360 --levels 1 --samples 40 --seed 2 fields.nc");
  app.add_option("OUT,--out", options.output, "netCDF-4 file to write; an older one is replaced")->required();
  app.add_option("--nlat", options.num_latitudes, "Number of latitudes")->check(CLI::Range(Index(3), Index(1) << 20));
  app.add_option("--nlon", options.num_longitudes, "Number of longitudes")->check(CLI::Range(Index(4), Index(1) << 20));
  app.add_option("--levels", options.num_levels, "Number of pressure levels")
      ->check(CLI::Range(Index(1), Index(1) << 20));
  app.add_option("--samples", options.num_samples, "Number of samples, each with a flow of its own")
      ->check(CLI::Range(Index(1), Index(1) << 30));
  app.add_option("--seed", options.seed, "Seed of the random flows: the same seed gives the same file");
  app.add_option("--lat-order", options.latitude_order, "Order of the rows in the file")
      ->check(CLI::IsMember({"north-to-south", "south-to-north"}));
  app.add_option("--poles", options.poles,
                 "Where the first and the last row lie.\n"
                 "included: on the poles\n"
                 "excluded: half the distance of two rows from the poles")
      ->check(CLI::IsMember({"included", "excluded"}));
  app.add_option("--dtype", options.dtype, "Data type of the fields")->check(CLI::IsMember({"f32", "f64"}));
  graticule::app::add_shared(app, "--partition", options.partition);
  app.add_flag("--stream-function", options.stream_function, "Also write the stream function of the wind, psi");
}

/// In degrees, as the file lists them.
std::vector<double> latitudes(Options const& options) {
  auto const n = options.num_latitudes;
  std::vector<double> values(static_cast<std::size_t>(n));
  for (Index j = 0; j < n; ++j)
    values[std::size_t(j)] =
        options.poles == "included" ? 90 - 180 * double(j) / double(n - 1) : 90 - 180 * (double(j) + 0.5) / double(n);
  if (options.latitude_order == "south-to-north") std::reverse(values.begin(), values.end());
  return values;
}

std::vector<double> longitudes(Index n) {
  std::vector<double> values(static_cast<std::size_t>(n));
  for (Index i = 0; i < n; ++i) values[std::size_t(i)] = 360 * double(i) / double(n);
  return values;
}

/// hPa, from the lower to the upper troposphere in equal steps of the logarithm.
std::vector<double> pressures(Index n) {
  std::vector<double> values(std::size_t(n), 500.0);
  for (Index k = 0; n > 1 && k < n; ++k)
    values[std::size_t(k)] = 850 * std::pow(250.0 / 850.0, double(k) / double(n - 1));
  return values;
}

/// Mean geopotential of a pressure level in the ICAO standard atmosphere below 11 km.
double standard_geopotential(double pressure) {
  constexpr double gravity = 9.80665;
  constexpr double lapse = 0.0065;
  constexpr double gas_constant = 287.053;
  return gravity * 288.15 / lapse * (1 - std::pow(pressure / 1013.25, gas_constant * lapse / gravity));
}

/// Winds grow with height: 10 m/s at 850 hPa, 20 m/s at 250 hPa.
double standard_speed(double pressure) { return 10 + 10 * std::log(850 / pressure) / std::log(850.0 / 250.0); }

using app::FieldSpec;
using app::text;

constexpr std::array field_specs{
    FieldSpec{"z", "geopotential", "Geopotential in linear balance with the wind", "m2 s-2"},
    FieldSpec{"u", "eastward_wind", "Eastward wind", "m s-1"},
    FieldSpec{"v", "northward_wind", "Northward wind", "m s-1"},
    FieldSpec{"psi", "atmosphere_horizontal_streamfunction", "Stream function", "m2 s-1"}};

std::size_t num_fields(Options const& options) { return options.stream_function ? 4 : 3; }

void define(FieldWriter& writer, Options const& options) {
  std::vector<double> samples(std::size_t(options.num_samples));
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i] = double(i);
  // Tools that work in time, such as CDO, need a time axis: the flows are a day apart, though independent.
  writer.add_coordinate(
      "sample", samples, ValueType::i32,
      {text("standard_name", "time"), text("long_name", "time of the random flow, one a day"),
       text("units", "days since 2001-01-01 00:00:00"), text("calendar", "standard"), text("axis", "T")});
  writer.add_coordinate("level", pressures(options.num_levels), ValueType::f64,
                        {text("standard_name", "air_pressure"), text("long_name", "pressure level"),
                         text("units", "hPa"), text("positive", "down"), text("axis", "Z")});
  app::add_grid(writer, latitudes(options), longitudes(options.num_longitudes));
  for (std::size_t i = 0; i < num_fields(options); ++i)
    app::add_field(writer, field_specs[i], {"sample", "level", "latitude", "longitude"},
                   options.dtype == "f64" ? ValueType::f64 : ValueType::f32);
}

/// What makes the same file again, on any number of ranks.
std::string history(Options const& options) {
  return "graticule-make-fields --nlat " + std::to_string(options.num_latitudes) + " --nlon " +
         std::to_string(options.num_longitudes) + " --levels " + std::to_string(options.num_levels) + " --samples " +
         std::to_string(options.num_samples) + " --seed " + std::to_string(options.seed) + " --lat-order " +
         options.latitude_order + " --poles " + options.poles + " --dtype " + options.dtype +
         (options.stream_function ? " --stream-function" : "");
}

/// Most bytes of fields that a rank holds before it writes them: few large writes are faster than many small ones.
constexpr Index most_bytes = Index(256) << 20;

/// This rank's part of some samples: z, u, v and psi over (sample, level, row, column).
class Part {
 public:
  Part(Options const& options, Box const& owned)
      : options_(options),
        owned_(owned),
        harmonics_(int(options.num_longitudes)),
        levels_(pressures(options.num_levels)),
        max_degree_(max_degree(options)) {
    auto const all = latitudes(options);
    for (Index j = owned.lo(0); j < owned.hi(0) && !owned.empty(); ++j)
      rows_.emplace_back(app::Parallel::at_degrees(all[std::size_t(j)]), max_degree_ + 1);
    sample_cells_ = std::size_t(options.num_levels * (owned.empty() ? 0 : owned.num_cells()));
  }

  /// The finest degree that both directions of the grid resolve well; 42 is fine enough for weather maps.
  static int max_degree(Options const& options) {
    return int(std::clamp<Index>((std::min(options.num_latitudes, options.num_longitudes / 2) - 1) / 3, 1, 42));
  }

  void allocate(Index num_samples) {
    fields_.assign(num_fields(options_), std::vector<double>(std::size_t(num_samples) * sample_cells_));
  }

  /// Computes a sample into place `slot`.
  void compute(Index sample, Index slot) {
    for (Index k = 0; k < options_.num_levels; ++k) {
      double const pressure = levels_[std::size_t(k)];
      app::FlowSeed const seed{options_.seed, std::uint64_t(sample), std::uint64_t(k)};
      auto const psi = app::random_stream_function(seed, max_degree_, standard_speed(pressure));
      auto const z = app::balanced_geopotential(psi, standard_geopotential(pressure));
      using Rows = Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace>;
      Kokkos::parallel_for("make_fields", Rows(0, long(rows_.size())), [&](long row) {
        app::evaluate(psi, z, rows_[std::size_t(row)], harmonics_, owned_.lo(1), at(slot, k, row));
      });
      Kokkos::fence();
    }
  }

  [[nodiscard]] std::vector<double> const& field(std::size_t i) const { return fields_[i]; }

 private:
  [[nodiscard]] app::FlowRow at(Index slot, Index level, Index row) {
    auto const columns = std::size_t(owned_.extent(1));
    auto const first =
        std::size_t(slot) * sample_cells_ + (std::size_t(level) * rows_.size() + std::size_t(row)) * columns;
    auto const part = [&](std::size_t i) { return std::span(fields_[i]).subspan(first, columns); };
    return {.u = part(1), .v = part(2), .z = part(0), .psi = fields_.size() > 3 ? part(3) : std::span<double>()};
  }

  Options const& options_;
  Box owned_;
  app::Harmonics harmonics_;
  std::vector<double> levels_;
  int max_degree_;
  std::vector<app::LegendreRow> rows_;
  std::size_t sample_cells_ = 0;
  std::vector<std::vector<double>> fields_;
};

/// Samples that fit into `most_bytes` on every rank.
Index samples_at_once(Options const& options, Layout const& layout) {
  Index most_cells = 1;
  for (int rank = 0; rank < layout.num_ranks(); ++rank) {
    auto const owned = layout.owned(rank);
    most_cells = std::max(most_cells, owned.empty() ? 0 : owned.num_cells());
  }
  Index const sample_bytes = most_cells * options.num_levels * Index(sizeof(double) * num_fields(options));
  return std::clamp<Index>(most_bytes / sample_bytes, 1, options.num_samples);
}

int run(app::Context& context, Options const& options) {
  auto const& comm = context.comm;
  Layout const layout(app::parse_partition(options.partition, comm.num_ranks()),
                      {options.num_latitudes, options.num_longitudes});
  context.report.set_partition(layout, {"latitude", "longitude"});
  auto const owned = layout.owned(comm.rank());
  app::StopSignals const signals{SIGHUP, SIGINT, SIGTERM, SIGUSR1};

  FieldWriter writer(comm, options.output,
                     {text("Conventions", "CF-1.8"), text("title", "Random rotational flows in linear balance"),
                      text("source", "graticule-make-fields, seed " + std::to_string(options.seed)),
                      text("history", history(options))});
  define(writer, options);
  Part part(options, owned);
  auto progress = context.progress("fields", options.num_samples);
  Index const batch = samples_at_once(options, layout);
  for (Index lo = 0; lo < options.num_samples; lo += batch) {
    Index const hi = std::min(lo + batch, options.num_samples);
    {
      auto const phase = context.report.phase("compute");
      part.allocate(hi - lo);
      for (Index sample = lo; sample < hi; ++sample) {
        app::end_if_stopped(comm, signals);
        part.compute(sample, sample - lo);
        progress.update(sample);
      }
    }
    auto const phase = context.report.phase("write");
    auto const box = owned.empty()
                         ? Box({0, 0, 0, 0}, {0, 0, 0, 0})
                         : Box({lo, 0, owned.lo(0), owned.lo(1)}, {hi, options.num_levels, owned.hi(0), owned.hi(1)});
    for (std::size_t i = 0; i < num_fields(options); ++i) {
      app::end_if_stopped(comm, signals);
      writer.write(field_specs[i].name, box, std::span<double const>(part.field(i)));
    }
    progress.update(hi);
  }
  auto const phase = context.report.phase("commit");
  app::end_if_stopped(comm, signals);
  writer.commit();
  context.report.data()["output"] = options.output;
  context.report.data()["max_degree"] = Part::max_degree(options);
  return app::good;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  graticule::app::run_driver(
      argc, argv,
      {.name = "graticule-make-fields",
       .description =
           "Writes a netCDF file of made-up weather to try networks on: smooth random winds u and v on the globe, "
           "and the geopotential z that belongs to them (linear balance), so that a network can learn u and v "
           "from z.",
       .declare = [&](CLI::App& app) { declare(app, options); },
       .run = [&](graticule::app::Context& context) { return run(context, options); }});
}
