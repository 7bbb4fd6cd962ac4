// SPDX-License-Identifier: BSD-3-Clause
#include "settings_text.hpp"

#include <graticule/models/detail/model_kinds.hpp>
#include <graticule/partition/detail/hash.hpp>

#include "settings_table.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <type_traits>
#include <vector>

namespace graticule::train {
namespace {

std::string exactly(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

/// Of the contents: files may move.
std::string fingerprint(std::filesystem::path const& file) {
  if (file.empty()) return {};
  std::ifstream stream(file, std::ios::binary);
  std::string const text{std::istreambuf_iterator<char>(stream), {}};
  return " " + std::to_string(Hash().add(std::string_view(text)).value());
}

std::string value_text(double value) { return exactly(value); }
std::string value_text(std::string const& value) { return value; }
template <class Value>
std::string value_text(Value value) {
  if constexpr (std::is_enum_v<Value>) {
    if (enum_row(value).name == nullptr || !is_choice(value))
      throw Error("BadOption", "a setting has the value " + detail::enum_name(value) + ", which no option gives");
    return detail::enum_name(value);
  } else {
    return std::to_string(value);
  }
}

template <class Channels>
std::string names_of(Channels const& channels) {
  std::string text;
  for (auto const& channel : channels) text += (text.empty() ? "" : ", ") + channel.name;
  return text.empty() ? "none" : text;
}

std::vector<std::string> lines_of(std::string const& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// The word that a line begins with.
std::string word_of(std::string const& line) { return line.substr(0, line.find(' ')); }

/// A line that begins like `line`: what is not default may be in one text only.
bool mentions(std::vector<std::string> const& lines, std::string const& line) {
  return std::any_of(lines.begin(), lines.end(), [&](auto const& other) { return word_of(other) == word_of(line); });
}

/// Lines of options in the order in which `first` has them, and others after them: checkpoints of earlier versions may
/// list them in another order.
std::vector<std::string> in_order_of(std::vector<std::string> const& first, std::vector<std::string> lines) {
  auto const place = [&](std::string const& line) {
    return std::find_if(first.begin(), first.end(),
                        [&](auto const& other) { return word_of(other) == word_of(line); }) -
           first.begin();
  };
  auto const end =
      std::find_if(lines.begin(), lines.end(), [](std::string const& line) { return !line.starts_with("--"); });
  std::stable_sort(lines.begin(), end, [&](auto const& a, auto const& b) { return place(a) < place(b); });
  return lines;
}

/// A line of settings with its number as short as it can be read back: `--lr 0.1`.
std::string readable(std::string const& line) {
  auto const at = line.rfind(' ') + 1;
  double value = 0;
  auto const* const end = line.data() + line.size();
  bool const is_decimal = line.find_first_of(".e", at) != std::string::npos;
  if (!is_decimal || std::from_chars(line.data() + at, end, value).ptr != end) return line;
  std::array<char, 32> text{};
  return line.substr(0, at) +
         std::string(text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr);
}

}  // namespace

std::string settings_text(NetworkSettings const& settings) {
  std::string text;
  visit_settings(settings, [&](SettingRow const& row, auto const& value, auto const& limits) {
    if (!row.is_compared(settings)) return;
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(limits)>, ModelOrFile>)
      text += std::string(row.option) + " " + to_string(value) + fingerprint(settings.program) + "\n";
    else
      text += std::string(row.option) + " " + value_text(value) + "\n";
  });
  return text;
}

std::string data_text(TrainingData const& data) {
  std::ostringstream text;
  text << "input channels " << names_of(data.inputs) << "\nstatic channels " << names_of(data.statics) << "\ntargets "
       << names_of(data.targets) << "\ngrid " << data.latitudes.size() << " x " << data.num_global_columns
       << "\ntraining samples " << data.training.size() << "\nvalidation samples " << data.validation.size() << "\n";
  return text.str();
}

void require_same_training(std::string const& file, std::string const& saved, std::string const& current) {
  auto const before = lines_of(saved);
  auto now = in_order_of(before, lines_of(current));
  // Earlier versions did not write this line.
  if (!now.empty() && now.back().starts_with("times of samples ") && !mentions(before, now.back())) now.pop_back();
  auto const shared = std::min(before.size(), now.size());
  auto const differs = std::mismatch(before.begin(), before.begin() + std::ptrdiff_t(shared), now.begin()).first;
  auto const line = std::size_t(differs - before.begin());
  if (line == before.size() && line == now.size()) return;
  std::string difference;
  if (line < now.size() && !mentions(before, now[line]))
    difference = "without '" + readable(now[line]) + "', this training has it";
  else if (line < before.size() && !mentions(now, before[line]))
    difference = "with '" + readable(before[line]) + "', this training is without";
  else
    difference = "with '" + readable(before.at(line)) + "', this training has '" + readable(now.at(line)) + "'";
  throw Error(Fault::usage, "StateMismatch",
              file + " was made " + difference + "; resume with the same options, or restart with --resume never");
}

}  // namespace graticule::train
