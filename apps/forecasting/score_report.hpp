// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/models/description.hpp>

#include "names.hpp"
#include "scores.hpp"

#include <nlohmann/json.hpp>

#include <string>

namespace graticule::forecasting {

/// The header of scores.csv.
[[nodiscard]] std::string score_header();
/// A line of scores.csv per channel, lead and region: `epoch,step,part,channel,units,lead_hours,region,cases,rmse,...`.
[[nodiscard]] std::string score_lines(ScoreTable const& scores, Description const& description, Index epoch, Index step,
                                      std::string const& part);

/// `rmse 29.1, persistence 92.3, climatology 130 m, anomaly correlation 0.95`, without what is not defined.
[[nodiscard]] std::string score_text(Score const& score, std::string const& units);

/// Per variable {`rmse`, `persistence_rmse`, `climatology_rmse`, `acc`, `bias`, `mae`, `crps`, `spread`, each a list
/// over lead times}, for the globe; `levels` lists the same of each level where there are several. `lead_hours`, `part`
/// and `regions` beside them.
[[nodiscard]] nlohmann::ordered_json forecast_report(ScoreTable const& scores, Description const& description);

}  // namespace graticule::forecasting
