// SPDX-License-Identifier: BSD-3-Clause
// load_network CHECKPOINT SERIES.nc RECORD FORECAST.nc STEPS [FIRST]: loads a network of h, u and v, begins with a
// record of the series (and those before, as far as its history goes), and compares with the forecast of
// graticule-forecast.
#include <graticule/field_io/file.hpp>
#include <graticule/models/forecaster.hpp>
#include <graticule/models/threads.hpp>
#include <graticule/repartition/runtime.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>

using namespace graticule;

namespace {

/// One record of some variables on a box, one after the other.
std::vector<double> record(FieldFile const& file, Index number, Box const& box) {
  std::vector<double> values;
  for (char const* name : {"h", "u", "v"}) {
    std::vector<double> field(std::size_t(box.extent(0) * box.extent(1)));
    file.read(name, Box({number, box.lo(0), box.lo(1)}, {number + 1, box.hi(0), box.hi(1)}), std::span(field));
    values.insert(values.end(), field.begin(), field.end());
  }
  return values;
}

int compare(Comm const& comm, char** arguments, Index first_record) {
  auto network = models::load(arguments[1], comm);
  FieldFile const series(comm, arguments[2]);
  FieldFile const forecast(comm, arguments[4]);
  Index const first = std::atoi(arguments[3]);
  Index const num_steps = std::atoi(arguments[5]);
  std::vector<double> states;
  for (Index t = 0; t < network.description().history; ++t) {
    auto const fields = record(series, first - t, network.owned());
    states.insert(states.end(), fields.begin(), fields.end());
  }
  network.start(states, 1);
  std::array<double, 2> largest{0, 0};
  for (Index step = 0; step < num_steps; ++step) {
    network.step(models::parse_date("", "2000-01-01").first + (first + step) * network.description().lead_seconds);
    auto const mine = network.present(0);
    auto const theirs = record(forecast, first_record + step, network.owned());
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      largest[0] = std::max(largest[0], std::abs(mine[i] - theirs[i]));
      largest[1] = std::max(largest[1], std::abs(theirs[i]));
    }
  }
  comm.max(largest);
  if (comm.rank() == 0) std::printf("largest difference %.3g of %.3g\n", largest[0], largest[1]);
  // forecast.nc holds single precision; so does the network.
  return largest[1] > 1000 && largest[0] < 2e-5 * largest[1] ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Runtime const runtime(argc, argv);
  models::use_torch_threads(1);
  Comm const comm = Comm::world();
  if (argc != 6 && argc != 7) return 2;
  try {
    return compare(comm, argv, argc == 7 ? std::atoi(argv[6]) : 0);
  } catch (std::exception const& error) {
    if (comm.rank() == 0) std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
}
