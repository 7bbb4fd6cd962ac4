// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/detail/conventions.hpp>
#include <graticule/models/detail/cells.hpp>
#include <graticule/samples/detail/missing_cells.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <set>
#include <utility>

namespace graticule::samples {
namespace {

std::string cells_text(Index count) { return std::to_string(count) + (count == 1 ? " cell" : " cells"); }

/// The number on the whole grid of a cell of this rank.
Index global_cell(Cells const& cells, Index cell) {
  Index const columns = cells.box.extent(1);
  return (cells.box.lo(0) + cell / columns) * cells.grid.num_columns() + cells.box.lo(1) + cell % columns;
}

}  // namespace

bool declares_missing(Variable const& variable) {
  return variable.attribute("_FillValue") != nullptr || variable.attribute("missing_value") != nullptr ||
         !limits_text(variable).empty();
}

std::string place_text(Grid const& grid, Index row, Index column) {
  double const latitude = grid.latitudes[std::size_t(row)];
  double const longitude = grid.longitudes[std::size_t(column)];
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.6g %s %.6g %s", std::abs(latitude), latitude < 0 ? "S" : "N",
                std::abs(longitude), longitude < 0 ? "W" : "E");
  return text.data();
}

MissingCells::MissingCells(FieldSeries const& series, std::vector<std::string> variables, Cells const& cells,
                           Samples samples)
    : variables_(std::move(variables)),
      files_(series.files()),
      ends_(series.file_ends()),
      cells_(cells),
      samples_(std::move(samples)),
      seen_(std::size_t(samples_.count) * variables_.size(), 0),
      missing_(seen_.size(), 0),
      filled_(seen_.size(), 0),
      common_(std::size_t(samples_.num_levels) * variables_.size()) {
  for (std::string const& name : variables_) {
    fills_.push_back(probable_fill(series.variable(name)));
    fill_texts_.push_back(probable_fill_text(series.variable(name)));
    limits_.push_back(limits_text(series.variable(name)));
    declares_.push_back(declares_missing(series.variable(name)));
  }
}

Index& MissingCells::at(std::vector<Index>& counts, Index sample, std::size_t field) const {
  return counts[std::size_t(sample) * variables_.size() + field];
}

std::size_t MissingCells::level_of(Index sample, std::size_t field) const {
  return std::size_t(sample % samples_.num_levels) * variables_.size() + field;
}

void MissingCells::count(Index sample, std::size_t field, std::span<double const> values) {
  at(seen_, sample, field) += 1;
  if (auto const fill = fills_[field]) at(filled_, sample, field) += std::count(values.begin(), values.end(), *fill);
  Index& missing = at(missing_, sample, field);
  auto& common = common_[level_of(sample, field)];
  if (common) {
    missing += std::count_if(values.begin(), values.end(), [](double v) { return std::isnan(v); });
    std::erase_if(*common, [&](Index cell) { return !std::isnan(values[std::size_t(cell)]); });
    return;
  }
  common.emplace();
  for (std::size_t cell = 0; cell < values.size(); ++cell)
    if (std::isnan(values[cell])) common->push_back(Index(cell));
  missing += Index(common->size());
}

void MissingCells::refuse_infinite(Index sample, std::size_t field, std::span<double const> values) const {
  auto const infinite = std::find_if(values.begin(), values.end(), [](double v) { return std::isinf(v); });
  if (infinite != values.end())
    throw Error(Fault::input, "BadInput",
                file_of(sample) + ": '" + variables_[field] + "' has an infinite value at " +
                    place_of(sample, global_cell(cells_, infinite - values.begin())));
}

void MissingCells::join_common(DataTeams const& teams, std::size_t num_cells) {
  std::vector<bool> is_lacking(common_.size(), false);
  for (Index s = 0; s < samples_.count; ++s)
    for (std::size_t field = 0; field < variables_.size(); ++field)
      if (at(missing_, s, field) > 0) is_lacking[level_of(s, field)] = true;
  for (std::size_t place = 0; place < common_.size() && teams.num_teams() > 1; ++place) {
    if (!is_lacking[place]) continue;
    // A team that has seen no sample of the level leaves the decision to the others.
    auto& common = common_[place];
    std::vector<Index> teams_without(num_cells, common ? 0 : 1);
    if (common)
      for (Index const cell : *common) teams_without[std::size_t(cell)] = 1;
    teams.data().sum(std::span(teams_without));
    common.emplace();
    for (std::size_t cell = 0; cell < num_cells; ++cell)
      if (teams_without[cell] == teams.num_teams()) common->push_back(Index(cell));
  }
  for (auto const& common : common_) num_common_.push_back(common ? Index(common->size()) : 0);
  teams.domain().sum(std::span(num_common_));
}

void MissingCells::find_gaps(std::size_t field, Finding& gaps) {
  for (Index s = 0; s < samples_.count; ++s) {
    Index const more = at(missing_, s, field) - num_common_[level_of(s, field)];
    if (at(seen_, s, field) == 0 || more == 0) continue;
    if (gaps.sample < 0) gaps = {field, s, 0};
    gaps.num_cells += more;
  }
}

void MissingCells::find_undeclared(std::size_t field, Finding& undeclared) {
  for (Index s = 0; s < samples_.count && !declares_[field]; ++s) {
    if (at(missing_, s, field) == 0) continue;
    if (undeclared.sample < 0) undeclared = {field, s, 0};
    undeclared.num_cells += at(missing_, s, field);
  }
}

std::string MissingCells::file_of(Index sample) const {
  std::size_t file = 0;
  if (samples_.per_entry > 0)
    while (file + 1 < files_.size() && ends_[file + 1] <= sample / samples_.per_entry) ++file;
  return files_[file].string() + (samples_.per_entry == 0 && files_.size() > 1 ? " and the files after it" : "");
}

std::string MissingCells::place_of(Index sample, Index cell) const {
  Index const columns = cells_.grid.num_columns();
  return samples_.name(sample) + ", " + place_text(cells_.grid, cell / columns, cell % columns);
}

std::string MissingCells::first_place(DataTeams const& teams, SampleStore& store, Finding const& finding,
                                      std::function<bool(double, Index)> const& is_found) const {
  std::vector<double> values(std::size_t(cells_.per_sample()));
  run_agreed(teams.world(), [&] { store.fetch(finding.sample, finding.field, values); });
  std::array<Index, 1> first{std::numeric_limits<Index>::min()};
  for (Index cell = Index(values.size()); cell-- > 0;)
    if (is_found(values[std::size_t(cell)], cell)) first[0] = -global_cell(cells_, cell);
  teams.domain().max(std::span<Index>(first));
  return place_of(finding.sample, -first[0]);
}

void MissingCells::describe_fills(std::size_t begin, DataTeams const& teams, SampleStore& store,
                                  std::vector<MissingLine>& lines) {
  if (!fills_[begin]) return;
  Finding found;
  for (std::size_t field = begin; field < variables_.size(); ++field)
    for (Index s = 0; s < samples_.count && variables_[field] == variables_[begin]; ++s) {
      if (at(filled_, s, field) == 0) continue;
      if (found.sample < 0) found = {field, s, 0};
      found.num_cells += at(filled_, s, field);
    }
  if (found.sample < 0) return;
  double const fill = *fills_[begin];
  auto const place = first_place(teams, store, found, [fill](double value, Index) { return value == fill; });
  lines.push_back({.text = file_of(found.sample) + ": '" + variables_[begin] + "' has " + cells_text(found.num_cells) +
                           " of " + fill_texts_[begin] +
                           ", netCDF's default fill value of its type, and no _FillValue: first at " + place,
                   .outcome = "treated as values, because integers that are not packed may be codes"});
}

void MissingCells::describe_limits(std::size_t begin, std::vector<MissingLine>& lines) const {
  if (limits_[begin].empty()) return;
  Index count = 0;
  for (std::size_t field = begin; field < variables_.size(); ++field)
    for (Index s = 0; s < samples_.count && variables_[field] == variables_[begin]; ++s)
      count += missing_[std::size_t(s) * variables_.size() + field];
  if (count == 0) return;
  lines.push_back({.text = files_.front().string() + (files_.size() > 1 ? " and the files after it" : "") + ": '" +
                           variables_[begin] + "' lacks " + cells_text(count) + ", among them those outside of " +
                           limits_[begin],
                   .can_be_refused = false});
}

std::vector<MissingLine> MissingCells::describe(DataTeams const& teams, SampleStore& store) {
  teams.world().sum(std::span(seen_));
  teams.world().sum(std::span(missing_));
  teams.world().sum(std::span(filled_));
  join_common(teams, std::size_t(cells_.per_sample()));
  std::vector<MissingLine> lines;
  std::set<std::string> described;
  for (std::size_t begin = 0; begin < variables_.size(); ++begin) {
    if (!described.insert(variables_[begin]).second) continue;
    Finding gaps;
    Finding undeclared;
    for (std::size_t field = begin; field < variables_.size(); ++field) {
      if (variables_[field] != variables_[begin]) continue;
      find_gaps(field, gaps);
      find_undeclared(field, undeclared);
    }
    describe_fills(begin, teams, store, lines);
    describe_limits(begin, lines);
    Finding const& found = gaps.sample >= 0 ? gaps : undeclared;
    if (found.sample < 0) continue;
    std::span<Index const> common;
    if (gaps.sample >= 0) common = *common_[level_of(found.sample, found.field)];
    auto const place = first_place(teams, store, found, [common](double value, Index cell) {
      return std::isnan(value) && !std::binary_search(common.begin(), common.end(), cell);
    });
    std::string const what = gaps.sample >= 0 ? " that other samples have" : "";
    std::string const why =
        undeclared.sample >= 0 ? "NaN or default fill values that neither _FillValue nor missing_value declares, " : "";
    lines.push_back({.text = file_of(found.sample) + ": '" + variables_[begin] + "' lacks " +
                             cells_text(found.num_cells) + what + ": " + why + "first at " + place});
  }
  return lines;
}

void apply_rule(MissingRule rule, std::vector<MissingLine> const& lines,
                std::function<void(std::string const&)> const& warn) {
  for (auto const& [text, outcome, can_be_refused] : lines) {
    if (rule == MissingRule::refuse && can_be_refused)
      throw Error(Fault::input, "BadInput", text + "; --missing error does not allow this");
    warn(text + "; " + outcome);
  }
}

}  // namespace graticule::samples
