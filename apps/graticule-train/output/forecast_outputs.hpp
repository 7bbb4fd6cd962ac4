// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "map_picture.hpp"
#include "run.hpp"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace graticule::train {

/// The header of scores.csv.
[[nodiscard]] std::string score_header();
/// A line of scores.csv per channel, lead and region: `epoch,step,part,channel,units,lead_hours,region,cases,rmse,...`.
[[nodiscard]] std::string score_lines(forecast::ScoreTable const& scores, forecast::Description const& description,
                                      Index epoch, Index step, std::string const& part);

/// Per variable {`rmse`, `persistence_rmse`, `climatology_rmse`, `acc`, `bias`, `mae`, `crps`, `spread`, each a list
/// over lead times}, for the globe; `levels` lists the same of each level where there are several. `lead_hours`, `part`
/// and `regions` beside them.
[[nodiscard]] nlohmann::ordered_json forecast_report(forecast::ScoreTable const& scores,
                                                     forecast::Description const& description);

/// The first case at the first lead: truth, forecast and error of the first channels. Complete on rank 0. Collective.
[[nodiscard]] app::MapPicture forecast_picture(RunResult const& result, RunSettings const& settings);

/// A table that grows line by line and can be read while the program runs.
class LiveTable {
 public:
  enum class Begin : std::uint8_t { anew, where_it_ends };

  /// On the rank that writes: begins the file with its header, or goes on with one that has it. @throws `OutputError`
  LiveTable(std::filesystem::path path, std::string const& header, Begin begin);
  /// Appends text, which is in the file when this returns. @throws `OutputError`
  void append(std::string const& text);

 private:
  struct Close {
    void operator()(std::FILE* file) const noexcept { static_cast<void>(std::fclose(file)); }
  };
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
};

/// Removes from scores.csv what a training that goes on after a step writes again: lines of later steps and of the
/// scores at the end. @throws `OutputError`
void drop_lines_after(std::filesystem::path const& scores, Index step);

}  // namespace graticule::train
