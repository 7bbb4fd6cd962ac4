// SPDX-License-Identifier: BSD-3-Clause
#include "verification.hpp"

#include <graticule/models/detail/time_options.hpp>

#include "score_report.hpp"
#include "units.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace graticule::forecast {

namespace {

/// A dimension whose coordinate is texts.
void add_text_axis(Comm const& comm, FieldWriter& writer, std::string const& name,
                   std::vector<std::string> const& texts) {
  std::size_t longest = 1;
  for (auto const& text : texts) longest = std::max(longest, text.size());
  writer.add_dimension(name, Index(texts.size()));
  writer.add_dimension(name + "_length", Index(longest));
  writer.add_variable({.name = name, .dimensions = {name, name + "_length"}, .type = ValueType::text});
  std::vector<std::byte> bytes(texts.size() * longest, std::byte(0));
  for (std::size_t i = 0; i < texts.size(); ++i)
    for (std::size_t k = 0; k < texts[i].size(); ++k) bytes[i * longest + k] = std::byte(texts[i][k]);
  bool const first = comm.rank() == 0;
  writer.write_stored(name, Box({0, 0}, {first ? Index(texts.size()) : 0, Index(longest)}),
                      std::span<std::byte const>(bytes).first(first ? bytes.size() : 0));
}

Curve spectrum(char const* name, std::vector<double> const& power, int colour, bool dashed) {
  Curve curve{.name = name, .x = {}, .y = {}, .colour = colour, .is_dashed = dashed};
  for (std::size_t k = 1; k < power.size(); ++k) {
    if (!(power[k] > 0)) continue;
    curve.x.push_back(double(k));
    curve.y.push_back(power[k]);
  }
  return curve;
}

}  // namespace

Verification::Verification(Setup const& setup, Outputs& outputs)
    : setup_(setup),
      outputs_(outputs),
      spectra_(setup.teams.domain(), setup.cells),
      scores_(setup.teams.domain(), setup.layout, setup.table.grid().latitudes, setup.row_weights,
              ScoreTable::Shape{.num_cases = Index(setup.starts.size()),
                                .num_channels = Index(setup.description.channels.size()),
                                .num_leads = setup.num_records()}),
      spectra_table_(Index(setup.description.channels.size()), setup.num_records(), Index(standard_regions().size()),
                     setup.table.grid().num_columns() / 2 + 1) {}

void Verification::save(CheckpointWriter& writer) const {
  writer.add_value("scores", scores_.values());
  writer.add_value("spectra", spectra_table_.values());
}

void Verification::load(Checkpoint const& checkpoint) {
  scores_.set_values(checkpoint.value<std::vector<double>>("scores"));
  spectra_table_.set_values(checkpoint.value<std::vector<double>>("spectra"));
}

bool Verification::has_scores() const {
  for (Index c = 0; c < Index(setup_.num_channels()); ++c)
    for (Index lead = 0; lead < setup_.num_records(); ++lead)
      if (scores_.score(c, lead, 0).num_cases > 0) return true;
  return false;
}

void Verification::begin_case(Index number, std::vector<double> initial) {
  case_ = number;
  initial_ = std::move(initial);
}

std::vector<double> Verification::score(Index number, std::span<double const> fields, std::vector<double> const& truth,
                                        bool has_truth) {
  std::size_t const size = setup_.num_channels() * setup_.num_cells();
  std::vector<double> mean(size);
  std::vector<double> crps(size);
  std::vector<double> variance(size);
  auto const part = [&](auto& values, std::size_t c) {
    return std::span(values).subspan(c * setup_.num_cells(), setup_.num_cells());
  };
  for (std::size_t c = 0; c < setup_.num_channels(); ++c)
    ensemble_statistics(all_members(fields, c), std::size_t(setup_.num_members), part(truth, c), part(crps, c),
                        part(mean, c), part(variance, c));
  if (!has_truth) return mean;
  std::vector<ScoredField> scored;
  for (std::size_t c = 0; c < setup_.num_channels(); ++c) {
    bool const has_initial = setup_.description.channels[c].role == Role::prognostic;
    scored.push_back({part(mean, c), part(truth, c), has_initial ? part(initial_, c) : std::span<double>(),
                      setup_.climatology.empty() ? std::span<double const>() : part(setup_.climatology, c),
                      part(crps, c), part(variance, c)});
  }
  scores_.add(case_, number, scored);
  return mean;
}

void Verification::add_spectra(Index number, SpectrumOf of, std::span<double const> states, Index num_states) {
  auto const regions = standard_regions();
  std::size_t const size = setup_.num_channels() * setup_.num_cells();
  std::vector<double> sums;
  for (Index n = 0; n < setup_.most_members_of_a_team(); ++n) {
    // Teams with fewer states take part with weight 0: nothing is added for them.
    bool const counts = n < num_states;
    std::vector<double> fields(size, 0.0);
    if (counts) std::copy_n(states.begin() + std::ptrdiff_t(std::size_t(n) * size), size, fields.begin());
    auto const is_missing = take_out_missing(fields);
    auto const zonal = spectra_.zonal(fields, Index(setup_.num_channels()), regions);
    auto const spherical = spectra_.spherical(fields, Index(setup_.num_channels()));
    std::size_t const stride = 1 + regions.size() * zonal[0][0].size() + (spherical.empty() ? 0 : spherical[0].size());
    sums.resize(setup_.num_channels() * stride);
    for (std::size_t c = 0; c < setup_.num_channels() && counts; ++c) {
      if (is_missing[c] != 0) continue;
      double* out = sums.data() + c * stride;
      *out++ += 1;
      for (auto const& region : zonal)
        for (double const power : region[c]) *out++ += power;
      if (!spherical.empty())
        for (double const power : spherical[c]) *out++ += power;
    }
    if (of == SpectrumOf::truth) break;
  }
  if (of == SpectrumOf::forecast && setup_.teams.num_teams() > 1) setup_.teams.data().sum(std::span(sums));
  spectra_table_.add(number, of, sums);
}

void Verification::write_spectra() {
  if (spectra_table_.empty()) return;
  FieldWriter writer(setup_.context.comm, outputs_.path_of("spectra.nc"),
                     {Attribute::of_text("title", "Power of forecast and truth by wavenumber"),
                      Attribute::of_text("source", "graticule-forecast")});
  add_axes(writer);
  auto const add_numbers = [&](char const* name, Index count) {
    std::vector<double> numbers;
    for (Index k = 0; k < count; ++k) numbers.push_back(double(k));
    writer.add_coordinate(name, numbers, ValueType::f64, {Attribute::of_text("units", "1")});
  };
  add_numbers("zonal_wavenumber", spectra_table_.num_waves());
  if (spectra_table_.num_degrees() > 0) add_numbers("total_wavenumber", spectra_table_.num_degrees());
  for (auto const& [of, suffix] : {std::pair(SpectrumOf::forecast, ""), std::pair(SpectrumOf::truth, "_of_truth")}) {
    write_power(writer, std::string("zonal_power") + suffix, of, Index(standard_regions().size()));
    if (spectra_table_.num_degrees() > 0) write_power(writer, std::string("power") + suffix, of, 0);
  }
  writer.commit();
}

void Verification::write_scores() {
  FieldWriter writer(
      setup_.context.comm, outputs_.path_of("scores.nc"),
      {Attribute::of_text("title", "Scores of a forecast"), Attribute::of_text("source", "graticule-forecast")});
  add_axes(writer);
  std::vector<std::pair<char const*, double Score::*>> const metrics{{"rmse", &Score::rmse},
                                                                     {"mae", &Score::mae},
                                                                     {"bias", &Score::bias},
                                                                     {"acc", &Score::acc},
                                                                     {"persistence_rmse", &Score::persistence_rmse},
                                                                     {"climatology_rmse", &Score::climatology_rmse},
                                                                     {"crps", &Score::crps},
                                                                     {"spread", &Score::spread}};
  Index const count = setup_.context.comm.rank() == 0 ? Index(setup_.num_channels()) : 0;
  auto const num_regions = Index(scores_.shape().regions.size());
  for (auto const& [name, metric] : metrics) {
    writer.add_variable({.name = name,
                         .dimensions = {"channel", "region", "lead_time"},
                         .type = ValueType::f64,
                         .fill = 9.969209968386869e+36});
    std::vector<double> values;
    for (Index c = 0; c < count; ++c)
      for (Index region = 0; region < num_regions; ++region)
        for (Index lead = 0; lead < setup_.num_records(); ++lead)
          values.push_back(scores_.score(c, lead, region).*metric);
    writer.write(name, Box({0, 0, 0}, {count, count > 0 ? num_regions : 0, count > 0 ? setup_.num_records() : 0}),
                 std::span<double const>(values));
  }
  writer.commit();
}

void Verification::draw_scores() {
  std::vector<Chart> charts;
  for (std::size_t c = 0; c < std::min<std::size_t>(setup_.num_channels(), 6); ++c) {
    auto const& channel = setup_.description.channels[c];
    Chart chart{.title = channel.label,
                .x_label = "lead time (hours)",
                .y_label = app::with_units("rmse", app::pretty_units(channel.info.units)),
                .curves = {}};
    auto const add = [&](char const* name, double Score::*metric, int colour, bool dashed) {
      Curve curve{.name = name, .x = {}, .y = {}, .colour = colour, .is_dashed = dashed};
      for (Index lead = 0; lead < setup_.num_records(); ++lead) {
        double const value = scores_.score(Index(c), lead, 0).*metric;
        if (!std::isfinite(value)) continue;
        curve.x.push_back(double((lead + 1) * setup_.options.every * setup_.description.lead_seconds) / 3600);
        curve.y.push_back(value);
      }
      if (!curve.x.empty()) chart.curves.push_back(std::move(curve));
    };
    add("forecast", &Score::rmse, 0, false);
    add("persistence", &Score::persistence_rmse, 1, true);
    add("climatology", &Score::climatology_rmse, 2, true);
    if (setup_.num_members > 1) add("spread", &Score::spread, 3, false);
    charts.push_back(std::move(chart));
  }
  draw_charts(fmt::format("Root mean square error over the globe, {} forecast{}", setup_.starts.size(),
                          setup_.starts.size() == 1 ? " from " + setup_.steps.text(setup_.starts.front()) : "s"),
              charts, outputs_.path_of("scores.png"));
}

void Verification::draw_spectra() {
  bool const is_spherical = spectra_table_.num_degrees() > 0;
  std::vector<Chart> charts;
  for (Index number = 0; number < setup_.num_records(); number += std::max<Index>(setup_.num_records() - 1, 1))
    for (Index c = 0; c < Index(setup_.num_pictured()); ++c) {
      Chart chart{.title = setup_.description.channels[std::size_t(c)].label + ", " +
                           duration_text((number + 1) * setup_.options.every * setup_.description.lead_seconds),
                  .x_label = is_spherical ? "total wavenumber" : "zonal wavenumber",
                  .y_label = app::with_units(
                      "power", app::squared_units(setup_.description.channels[std::size_t(c)].info.units)),
                  .is_logarithmic = true,
                  .curves = {}};
      auto const add = [&](char const* name, SpectrumOf of, int colour, bool dashed) {
        auto const power =
            is_spherical ? spectra_table_.spherical(of, c, number) : spectra_table_.zonal(of, c, number, 0);
        if (!power.empty()) chart.curves.push_back(spectrum(name, power, colour, dashed));
      };
      add("truth", SpectrumOf::truth, 1, true);
      add("forecast", SpectrumOf::forecast, 0, false);
      if (!chart.curves.empty()) charts.push_back(std::move(chart));
    }
  if (!charts.empty())
    draw_charts(std::string("Power by wavenumber") + (is_spherical ? " on the sphere" : " along rows"), charts,
                outputs_.path_of("spectra.png"));
}

void Verification::log_scores() const {
  for (std::size_t c = 0; c < setup_.num_channels(); ++c)
    for (Index lead = 0; lead < setup_.num_records(); lead += std::max<Index>(1, setup_.num_records() - 1)) {
      auto const score = scores_.score(Index(c), lead, 0);
      if (score.num_cases == 0) continue;
      spdlog::info("{} after {}: {}", setup_.description.channels[c].label,
                   duration_text((lead + 1) * setup_.options.every * setup_.description.lead_seconds),
                   score_text(score, setup_.description.channels[c].info.units));
    }
}

std::vector<double> Verification::all_members(std::span<double const> fields, std::size_t channel) {
  std::vector<double> members(std::size_t(setup_.num_members) * setup_.num_cells(), 0.0);
  for (Index m = 0; m < setup_.own.num_members; ++m)
    std::copy_n(
        fields.begin() + std::ptrdiff_t((std::size_t(m) * setup_.num_channels() + channel) * setup_.num_cells()),
        setup_.num_cells(),
        members.begin() + std::ptrdiff_t(std::size_t(setup_.own.first_member + m) * setup_.num_cells()));
  if (setup_.teams.num_teams() > 1) setup_.teams.data().sum(std::span(members));
  return members;
}

std::vector<Index> Verification::take_out_missing(std::vector<double>& fields) {
  std::vector<Index> is_missing(setup_.num_channels(), 0);
  auto const part = [&](std::size_t c) {
    return std::span(fields).subspan(c * setup_.num_cells(), setup_.num_cells());
  };
  for (std::size_t c = 0; c < setup_.num_channels(); ++c)
    for (double const value : part(c)) is_missing[c] |= std::isfinite(value) ? 0 : 1;
  setup_.teams.domain().max(std::span(is_missing));
  for (std::size_t c = 0; c < setup_.num_channels(); ++c)
    if (is_missing[c] != 0) std::fill(part(c).begin(), part(c).end(), 0.0);
  return is_missing;
}

void Verification::add_axes(FieldWriter& writer) const {
  std::vector<std::string> labels;
  for (auto const& channel : setup_.description.channels) labels.push_back(channel.label);
  std::vector<std::string> regions;
  for (auto const& region : scores_.shape().regions) regions.push_back(region.name);
  add_text_axis(setup_.context.comm, writer, "channel", labels);
  add_text_axis(setup_.context.comm, writer, "region", regions);
  std::vector<double> hours;
  for (Index lead = 0; lead < setup_.num_records(); ++lead)
    hours.push_back(double((lead + 1) * setup_.options.every * setup_.description.lead_seconds) / 3600);
  writer.add_coordinate("lead_time", hours, ValueType::f64,
                        {Attribute::of_text("standard_name", "forecast_period"), Attribute::of_text("units", "hours")});
}

void Verification::write_power(FieldWriter& writer, std::string const& name, SpectrumOf of, Index num_regions) const {
  bool const is_zonal = num_regions > 0;
  constexpr double fill = 9.969209968386869e+36;
  Index const length = is_zonal ? spectra_table_.num_waves() : spectra_table_.num_degrees();
  std::vector<std::string> dimensions{"channel", "lead_time", is_zonal ? "zonal_wavenumber" : "total_wavenumber"};
  if (is_zonal) dimensions.insert(dimensions.begin() + 1, "region");
  writer.add_variable({.name = name, .dimensions = dimensions, .type = ValueType::f64, .fill = fill});
  Index const count = setup_.context.comm.rank() == 0 ? Index(setup_.num_channels()) : 0;
  std::vector<double> values;
  for (Index c = 0; c < count; ++c)
    for (Index region = 0; region < std::max<Index>(num_regions, 1); ++region)
      for (Index lead = 0; lead < setup_.num_records(); ++lead) {
        auto power = is_zonal ? spectra_table_.zonal(of, c, lead, region) : spectra_table_.spherical(of, c, lead);
        if (power.empty()) power.assign(std::size_t(length), fill);
        values.insert(values.end(), power.begin(), power.end());
      }
  auto const lo = Indices::filled(int(dimensions.size()), 0);
  Indices hi{count};
  if (is_zonal) hi.push_back(count > 0 ? num_regions : 0);
  hi.push_back(count > 0 ? setup_.num_records() : 0);
  hi.push_back(count > 0 ? length : 0);
  writer.write(name, Box(lo, hi), std::span<double const>(values));
}

}  // namespace graticule::forecast
