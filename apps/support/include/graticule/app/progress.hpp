// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/indices.hpp>

#include <chrono>
#include <string>
#include <string_view>

namespace graticule::app {

/// Form of the progress display: `automatic` draws a bar on a terminal and prints lines elsewhere.
enum class ProgressMode { automatic, bar, lines, none };

/// Shows the progress of a loop on stderr. Lines are printed every 10 % and at least every 30 seconds.
///
/// Example: `[=====>    ]  50% train 25/50 loss 0.31, 12 s left`
class Progress {
 public:
  Progress(ProgressMode mode, std::string label, Index num_steps);
  Progress(Progress&& other) noexcept;
  Progress& operator=(Progress&&) = delete;
  /// Ends the bar's line.
  ~Progress();

  /// Reports that `num_done` steps are done; `note` is appended, for example a loss.
  void update(Index num_done, std::string_view note = {});

 private:
  using Clock = std::chrono::steady_clock;
  [[nodiscard]] std::string text(Index num_done, std::string_view note) const;
  void draw(Index num_done, std::string_view note);
  void print_line(Index num_done, std::string_view note);

  ProgressMode mode_;
  std::string label_;
  Index num_steps_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point last_ = begin_;
  Index last_tenth_ = 0;
  std::size_t drawn_width_ = 0;
  bool open_ = false;
};

}  // namespace graticule::app
