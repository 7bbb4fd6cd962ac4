// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/app/progress.hpp>

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace graticule::app {

namespace {

constexpr auto bar_interval = std::chrono::milliseconds(100);
constexpr auto line_interval = std::chrono::seconds(30);
constexpr std::size_t bar_width = 24;

ProgressMode chosen(ProgressMode mode) {
  if (mode != ProgressMode::automatic) return mode;
  // A batch log is a file even where it looks like a terminal.
  bool const in_batch = std::getenv("SLURM_JOB_ID") != nullptr && ::isatty(STDIN_FILENO) == 0;
  return ::isatty(STDERR_FILENO) == 1 && !in_batch ? ProgressMode::bar : ProgressMode::lines;
}

std::size_t terminal_width() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

std::string duration_text(double seconds) {
  if (seconds < 120) return std::to_string(std::lround(seconds)) + " s";
  if (seconds < 7200) return std::to_string(std::lround(seconds / 60)) + " min";
  return std::to_string(std::lround(seconds / 3600)) + " h";
}

}  // namespace

Progress::Progress(ProgressMode mode, std::string label, Index num_steps)
    : mode_(mode == ProgressMode::none ? mode : chosen(mode)), label_(std::move(label)), num_steps_(num_steps) {}

Progress::Progress(Progress&& other) noexcept
    : mode_(std::exchange(other.mode_, ProgressMode::none)),
      label_(std::move(other.label_)),
      num_steps_(other.num_steps_),
      begin_(other.begin_),
      last_(other.last_),
      last_tenth_(other.last_tenth_),
      drawn_width_(other.drawn_width_),
      open_(std::exchange(other.open_, false)) {}

Progress::~Progress() {
  if (open_) std::fputc('\n', stderr);
}

std::string Progress::text(Index num_done, std::string_view note) const {
  auto result = label_ + " " + std::to_string(num_done) + "/" + std::to_string(num_steps_);
  if (!note.empty()) result += " " + std::string(note);
  double const elapsed = std::chrono::duration<double>(Clock::now() - begin_).count();
  if (num_done > 0 && num_done < num_steps_)
    result += ", " + duration_text(elapsed * double(num_steps_ - num_done) / double(num_done)) + " left";
  if (num_done == num_steps_) result += ", " + duration_text(elapsed);
  return result;
}

void Progress::update(Index num_done, std::string_view note) {
  if (mode_ == ProgressMode::bar) draw(num_done, note);
  if (mode_ == ProgressMode::lines) print_line(num_done, note);
}

void Progress::draw(Index num_done, std::string_view note) {
  auto const now = Clock::now();
  if (open_ && num_done < num_steps_ && now - last_ < bar_interval) return;
  last_ = now;
  auto const share = num_steps_ > 0 ? double(num_done) / double(num_steps_) : 1.0;
  auto const filled = std::min(std::size_t(share * double(bar_width)), bar_width);
  std::string bar = std::string(filled, '=') + std::string(bar_width - filled, ' ');
  if (filled < bar_width) bar[filled] = '>';
  auto const percent = std::to_string(int(share * 100));
  auto line = "[" + bar + "] " + std::string(3 - std::min<std::size_t>(percent.size(), 3), ' ') + percent + "% " +
              text(num_done, note);
  line.resize(std::min(line.size(), terminal_width() - 1));
  auto const rest = drawn_width_ > line.size() ? drawn_width_ - line.size() : 0;
  std::fprintf(stderr, "\r%s%s", line.c_str(), std::string(rest, ' ').c_str());
  std::fflush(stderr);
  drawn_width_ = line.size();
  open_ = true;
}

void Progress::print_line(Index num_done, std::string_view note) {
  auto const now = Clock::now();
  Index const tenth = num_steps_ > 0 ? num_done * 10 / num_steps_ : 10;
  if (tenth == last_tenth_ && now - last_ < line_interval) return;
  last_ = now;
  last_tenth_ = tenth;
  auto const percent = num_steps_ > 0 ? num_done * 100 / num_steps_ : 100;
  std::fprintf(stderr, "%3d%% %s\n", int(percent), text(num_done, note).c_str());
  std::fflush(stderr);
}

}  // namespace graticule::app
