// SPDX-License-Identifier: BSD-3-Clause
#include "pictures.hpp"

#include <graticule/field_io/file.hpp>
#include <graticule/repartition/plan.hpp>

#include "map_picture.hpp"

#include <fmt/format.h>

namespace graticule::swe {

namespace {

/// Ground on the whole grid, on rank 0 alone. Collective.
std::vector<double> whole_surface(Solver& solver) {
  auto const& layout = solver.layout();
  std::vector<Box> boxes(std::size_t(solver.comm().num_ranks()), Box({0, 0}, {0, 0}));
  boxes[0] = layout.global();
  RepartitionPlan const plan(solver.comm(), layout, Layout::from_boxes(layout.global().extents(), boxes));
  std::vector<double> whole(std::size_t(plan.target_box().num_cells()));
  plan.apply(solver.surface().part(solver.owned()), field_view(whole.data(), plan.target_box().extents(), 2));
  return whole;
}

std::string time_heading(double hours) {
  if (hours == 0) return "start";
  return hours < 24 ? fmt::format("{:.4g} h", hours) : fmt::format("day {:.4g}", hours / 24);
}

}  // namespace

std::vector<Index> pictured_records(Index num_records) {
  Index const count = std::min<Index>(num_records, 4);
  std::vector<Index> records;
  for (Index k = 0; k < count; ++k) records.push_back(count == 1 ? 0 : k * (num_records - 1) / (count - 1));
  return records;
}

void draw_series(Solver& solver, std::filesystem::path const& series, std::string const& title,
                 std::filesystem::path const& picture) {
  auto const& comm = solver.comm();
  bool const first = comm.rank() == 0;
  auto const& global = solver.layout().global();
  FieldFile const file(comm, series);
  auto const hours = file.coordinate("time");
  app::FieldPicture maps{title,
                         fmt::format("{} x {} cells, {} ranks", global.extent(0), global.extent(1), comm.num_ranks()),
                         file.coordinate("latitude"),
                         file.coordinate("longitude"),
                         solver.layout(),
                         {},
                         {{"height of the surface", "m", {}}}};
  if (comm.num_ranks() == 1) maps.subtitle = fmt::format("{} x {} cells", global.extent(0), global.extent(1));
  if (solver.scheme() != Scheme::fixed_wind) maps.columns.push_back({"relative vorticity", "10⁻⁵ s⁻¹", {}});
  auto const surface = whole_surface(solver);
  for (Index const record : pictured_records(Index(hours.size()))) {
    maps.times.push_back(time_heading(hours[std::size_t(record)]));
    Index const end = first ? 1 : 0;
    Box const box({record, 0, 0}, {record + end, end * global.extent(0), end * global.extent(1)});
    for (std::size_t c = 0; c < maps.columns.size(); ++c) {
      std::vector<double> values(std::size_t(box.num_cells()));
      file.read(c == 0 ? "h" : "vorticity", box, std::span<double>(values));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = c == 0 ? values[i] + surface[i] : 1e5 * values[i];
      maps.columns[c].maps.push_back(std::move(values));
    }
  }
  run_agreed(comm, [&] {
    if (first) draw_fields(maps, picture);
  });
}

}  // namespace graticule::swe
