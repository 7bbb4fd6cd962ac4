// SPDX-License-Identifier: BSD-3-Clause
#include "forecast_outputs.hpp"

#include <graticule/field_io/detail/complete_file.hpp>
#include <graticule/field_io/detail/dates.hpp>
#include <graticule/samples/detail/whole_field.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <system_error>

namespace graticule::train {
namespace {

Error cannot_be_written(std::filesystem::path const& path) {
  return {"OutputError", path.string() + " cannot be written: " + std::generic_category().message(errno)};
}

}  // namespace

app::MapPicture forecast_picture(RunResult const& result, RunSettings const& settings) {
  auto const& outcome = *result.forecast;
  auto const& description = outcome.description;
  constexpr std::size_t most_rows = 4;
  app::MapPicture picture{"Forecast of " + duration_text(description.lead_seconds) + " from " +
                              models::time_text(outcome.scored.front(), description.calendar),
                          std::string(outcome.has_test ? "test" : "validation") + " part; " +
                              std::to_string(result.network.num_parameters) + " parameters, " +
                              std::to_string(result.network.losses.size()) + " steps; " +
                              settings.input.filename().string(),
                          result.grid.latitudes,
                          result.grid.longitudes,
                          result.row_weights,
                          result.layout,
                          {}};
  std::size_t const cells = outcome.pictured_truth.size() / description.channels.size();
  for (std::size_t c = 0; c < std::min(most_rows, description.channels.size()); ++c) {
    auto const part = [&](std::vector<double> const& values) {
      auto const begin = values.begin() + std::ptrdiff_t(c * cells);
      return gathered(result.teams.domain(), result.layout, {begin, begin + std::ptrdiff_t(cells)});
    };
    picture.rows.push_back({description.channels[c].label, description.channels[c].info.units,
                            part(outcome.pictured_truth), part(outcome.pictured_forecast)});
  }
  return picture;
}

LiveTable::LiveTable(std::filesystem::path path, std::string const& header, Begin begin) : path_(std::move(path)) {
  std::error_code error;
  bool const goes_on = begin == Begin::where_it_ends && std::filesystem::exists(path_, error);
  file_.reset(std::fopen(path_.c_str(), goes_on ? "a" : "w"));
  if (!file_) throw cannot_be_written(path_);
  if (!goes_on) append(header);
}

void LiveTable::append(std::string const& text) {
  bool const written = std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size();
  if (!written || std::fflush(file_.get()) != 0) throw cannot_be_written(path_);
}

void drop_lines_after(std::filesystem::path const& scores, Index step) {
  std::ifstream file(scores);
  std::string line;
  if (!std::getline(file, line)) return;
  std::string kept = line + "\n";
  while (std::getline(file, line) && !file.eof()) {  // the last line may have been cut off
    auto const step_at = line.find(',') + 1;
    auto const part_at = line.find(',', step_at) + 1;
    if (line.compare(part_at, 11, "validation,") == 0 && std::strtoll(line.c_str() + step_at, nullptr, 10) <= step)
      kept += line + "\n";
  }
  file.close();
  write_complete_file(scores, kept);
}

}  // namespace graticule::train
