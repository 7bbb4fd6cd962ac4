// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "map_picture.hpp"
#include "run.hpp"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

namespace graticule::train {

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
