// SPDX-License-Identifier: BSD-3-Clause
#include "forecast_outputs.hpp"

#include <graticule/field_io/complete_file.hpp>

#include "outputs.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <system_error>

namespace graticule::train {
namespace {

using Json = nlohmann::ordered_json;

Error cannot_be_written(std::filesystem::path const& path) {
  return {"OutputError", path.string() + " cannot be written: " + std::generic_category().message(errno)};
}

std::string csv_number(double value) {
  if (std::isnan(value)) return "";
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

/// JSON has no NaN.
Json json_number(double value) { return std::isnan(value) ? Json(nullptr) : Json(value); }

Json lists_over_leads(forecast::ScoreTable const& scores, std::span<Index const> channels, Index region) {
  Json lists;
  for (Index lead = 0; lead < scores.shape().num_leads; ++lead) {
    auto const score = scores.score(channels, lead, region);
    lists["rmse"].push_back(json_number(score.rmse));
    lists["persistence_rmse"].push_back(json_number(score.persistence_rmse));
    lists["climatology_rmse"].push_back(json_number(score.climatology_rmse));
    lists["acc"].push_back(json_number(score.acc));
    lists["bias"].push_back(json_number(score.bias));
    lists["mae"].push_back(json_number(score.mae));
    lists["crps"].push_back(json_number(score.crps));
    lists["spread"].push_back(json_number(score.spread));
    lists["cases"].push_back(score.num_cases);
  }
  return lists;
}

}  // namespace

std::string score_header() {
  return "epoch,step,part,channel,units,lead_hours,region,cases,rmse,mae,bias,acc,persistence_rmse,climatology_rmse,"
         "crps,"
         "spread\n";
}

std::string score_lines(forecast::ScoreTable const& scores, forecast::Description const& description, Index epoch,
                        Index step, std::string const& part) {
  std::string text;
  auto const& shape = scores.shape();
  for (Index c = 0; c < shape.num_channels; ++c)
    for (Index lead = 0; lead < shape.num_leads; ++lead)
      for (Index region = 0; region < Index(shape.regions.size()); ++region) {
        auto const score = scores.score(c, lead, region);
        auto const& channel = description.channels[std::size_t(c)];
        text += std::to_string(epoch) + "," + std::to_string(step) + "," + part + "," + channel.label + "," +
                channel.info.units + "," + csv_number(double((lead + 1) * description.lead_seconds) / 3600) + "," +
                shape.regions[std::size_t(region)].name + "," + std::to_string(score.num_cases);
        for (double const value : {score.rmse, score.mae, score.bias, score.acc, score.persistence_rmse,
                                   score.climatology_rmse, score.crps, score.spread})
          text += "," + csv_number(value);
        text += "\n";
      }
  return text;
}

Json forecast_report(forecast::ScoreTable const& scores, forecast::Description const& description) {
  Json report = Json::object();
  for (auto const role : {forecast::Role::prognostic, forecast::Role::diagnostic})
    for (std::string const& variable : description.variables(role)) {
      std::vector<Index> channels;
      for (std::size_t c = 0; c < description.channels.size(); ++c)
        if (description.channels[c].variable == variable) channels.push_back(Index(c));
      Json entry = lists_over_leads(scores, channels, 0);
      entry["units"] = description.channels[std::size_t(channels.front())].info.units;
      for (Index lead = 0; lead < scores.shape().num_leads; ++lead)
        entry["lead_hours"].push_back(double((lead + 1) * description.lead_seconds) / 3600);
      for (Index const channel : channels) {
        if (channels.size() == 1) break;
        Json level = lists_over_leads(scores, std::span(&channel, 1), 0);
        level["label"] = description.channels[std::size_t(channel)].label;
        entry["levels"].push_back(level);
      }
      report[variable] = entry;
    }
  return report;
}

app::MapPicture forecast_picture(RunResult const& result, RunSettings const& settings) {
  auto const& outcome = *result.forecast;
  auto const& description = outcome.description;
  constexpr std::size_t most_rows = 4;
  app::MapPicture picture{"Forecast of " + forecast::duration_text(description.lead_seconds) + " from " +
                              forecast::time_text(outcome.scored.front()),
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
