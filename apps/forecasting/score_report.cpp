// SPDX-License-Identifier: BSD-3-Clause
#include "score_report.hpp"

#include <cmath>
#include <cstdio>
#include <span>
#include <vector>

namespace graticule::forecasting {
namespace {

using Json = nlohmann::ordered_json;

std::string csv_number(double value) {
  if (std::isnan(value)) return "";
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

/// JSON has no NaN.
Json json_number(double value) { return std::isnan(value) ? Json(nullptr) : Json(value); }

Json lists_over_leads(ScoreTable const& scores, std::span<Index const> channels, Index region) {
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
         "crps,spread\n";
}

std::string score_lines(ScoreTable const& scores, Description const& description, Index epoch, Index step,
                        std::string const& part) {
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

std::string score_text(Score const& score, std::string const& units) {
  std::string text;
  auto const add = [&](char const* format, double value) {
    char part[64];
    std::snprintf(part, sizeof part, format, value);
    if (!std::isnan(value)) text += std::string(text.empty() ? "" : ", ") + part;
  };
  add("rmse %.4g", score.rmse);
  add("persistence %.4g", score.persistence_rmse);
  add("climatology %.4g", score.climatology_rmse);
  text += " " + units;
  add("anomaly correlation %.3f", score.acc);
  return text;
}

Json forecast_report(ScoreTable const& scores, Description const& description) {
  Json report = Json::object();
  for (auto const role : {Role::prognostic, Role::diagnostic})
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

}  // namespace graticule::forecasting
