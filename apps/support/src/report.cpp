// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/app/report.hpp>
#include <graticule/field_io/complete_file.hpp>

namespace graticule::app {

void Report::set_partition(Layout const& layout, std::vector<std::string> const& axes) {
  auto& partition = data_["partition"];
  partition = Json::object();
  auto const* grid = layout.grid();
  if (grid == nullptr) return;
  partition["process_grid"] = std::vector<Index>(grid->extents().begin(), grid->extents().end());
  partition["cuts"] = Json::object();
  for (int axis = 0; axis < layout.ndim(); ++axis)
    if (grid->extent(axis) > 1 || layout.ndim() == 1)
      partition["cuts"][axes.at(std::size_t(axis))] = layout.cuts(axis)->sizes();
}

void Report::add_seconds(std::string const& phase, double seconds) {
  auto& entry = data_["seconds"][phase];
  entry = (entry.is_number() ? entry.get<double>() : 0.0) + seconds;
}

void Report::write(std::filesystem::path const& path) {
  data_["seconds"]["total"] = std::chrono::duration<double>(Clock::now() - begin_).count();
  write_complete_file(path, data_.dump(2) + "\n");
}

}  // namespace graticule::app
