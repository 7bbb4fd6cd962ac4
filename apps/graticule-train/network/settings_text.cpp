// SPDX-License-Identifier: BSD-3-Clause
#include "settings_text.hpp"

#include <graticule/partition/hash.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
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

// Switches without a default: the compiler names a new value that is not written here.
std::string to_string(training::Wire wire) {
  switch (wire) {
    case training::Wire::own: return "own";
    case training::Wire::bf16: return "bf16";
    case training::Wire::f16: return "f16";
    case training::Wire::f32:
    case training::Wire::automatic: break;  // of DASO alone
  }
  throw Error("BadOption", "gradients are sent in their own type, bf16 or f16");
}

std::string to_string(OptimizerKind optimizer) {
  switch (optimizer) {
    case OptimizerKind::adam: return "adam";
    case OptimizerKind::adamw: return "adamw";
    case OptimizerKind::sgd: return "sgd";
  }
  throw Error("BadOption", "an optimizer without a name");
}

std::string to_string(Precision precision) {
  switch (precision) {
    case Precision::f32: return "f32";
    case Precision::f64: return "f64";
  }
  throw Error("BadOption", "a data type without a name");
}

std::string to_string(Compute compute) {
  switch (compute) {
    case Compute::own: return "own";
    case Compute::bf16: return "bf16";
  }
  throw Error("BadOption", "a precision without a name");
}

std::string to_string(LossKind loss) {
  switch (loss) {
    case LossKind::mse: return "mse";
    case LossKind::mae: return "mae";
    case LossKind::huber: return "huber";
    case LossKind::spectral: return "spectral";
    case LossKind::crps: return "crps";
  }
  throw Error("BadOption", "a loss without a name");
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

/// A line that begins like `line`: what is not default may be in one text only.
bool mentions(std::vector<std::string> const& lines, std::string const& line) {
  auto const word = line.substr(0, line.find(' ') + 1);
  return std::any_of(lines.begin(), lines.end(), [&](auto const& other) { return other.starts_with(word); });
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
  std::ostringstream text;
  bool const depends_on_length =
      settings.schedule != "constant" || settings.warmup_steps < 0 || settings.parallel == Parallel::daso;
  text << "--model " << to_string(settings.model) << fingerprint(settings.program) << "\n--channels "
       << settings.channels << "\n--blocks " << settings.blocks << "\n--kernel " << settings.kernel << "\n--batch "
       << settings.batch << "\n--lr " << exactly(settings.learning_rate) << "\n--schedule " << settings.schedule
       << "\n--warmup-steps " << settings.warmup_steps << "\n--wire " << to_string(settings.wire) << "\n--seed "
       << settings.seed << "\n--dtype " << to_string(settings.precision) << "\n--validate-every "
       << settings.validate_every << "\n--early-stopping " << settings.patience << "\n";
  if (settings.compute != Compute::own) text << "--precision " << to_string(settings.compute) << "\n";
  if (settings.parallel == Parallel::daso)
    text << "--parallel daso\n--daso-warmup " << settings.daso.warmup_epochs << "\n--daso-cooldown "
         << settings.daso.cooldown_epochs << "\n--daso-max-skip " << settings.daso.max_skip << "\n";
  if (settings.loss != LossKind::mse) text << "--loss " << to_string(settings.loss) << "\n";
  if (settings.loss == LossKind::spectral) text << "--spectral-weight " << exactly(settings.spectral_weight) << "\n";
  if (settings.optimizer != OptimizerKind::adam) text << "--optimizer " << to_string(settings.optimizer) << "\n";
  if (settings.weight_decay > 0) text << "--weight-decay " << exactly(settings.weight_decay) << "\n";
  if (settings.clip > 0) text << "--clip " << exactly(settings.clip) << "\n";
  if (settings.ema > 0) text << "--ema " << exactly(settings.ema) << "\n";
  if (depends_on_length) text << "--epochs " << settings.epochs << "\n";
  return text.str();
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
  auto const now = lines_of(current);
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
