// SPDX-License-Identifier: BSD-3-Clause
#include "program_forecast.hpp"

#include <graticule/partition/error.hpp>

#include "program_layout.hpp"
#include "svg.hpp"
#include "text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>

namespace graticule::info {

namespace {

using Json = nlohmann::json;

double log2_of(double ranks) { return std::max(1.0, std::ceil(std::log2(ranks))); }

/// Names of a machine file, and where they belong.
class MachineReader {
 public:
  explicit MachineReader(std::filesystem::path const& path) : path_(path) {
    std::ifstream file(path);
    std::error_code none;
    if (!file || std::filesystem::is_directory(path, none))
      fail("cannot be read; graticule-bench machine --machine FILE writes one");
    data_ = Json::parse(file, nullptr, false);
    if (!data_.is_object()) fail("is no JSON object");
    // A rate that is misspelt would count as none.
    refuse_others(data_, "",
                  {"name", "sources", "ranks_per_node", "operations_per_second", "bytes_per_second",
                   "seconds_per_operator", "seconds_per_score", "within_node", "between_nodes"});
  }

  [[nodiscard]] double number(Json const& data, std::string const& where, char const* key, bool may_be_zero) const {
    auto const found = data.find(key);
    if (found == data.end()) fail("has no " + where + key);
    if (!found->is_number() || !std::isfinite(found->get<double>()) || found->get<double>() < 0 ||
        (!may_be_zero && found->get<double>() == 0))
      fail(where + key + ": " + found->dump() + " is no " + (may_be_zero ? "number" : "positive number"));
    return found->get<double>();
  }

  [[nodiscard]] Link link(char const* key) const {
    auto const found = data_.find(key);
    if (found == data_.end() || !found->is_object()) fail(std::string("has no object ") + key);
    auto const where = std::string(key) + ".";
    refuse_others(*found, where, {"seconds_per_message", "bytes_per_second"});
    return {number(*found, where, "seconds_per_message", true), number(*found, where, "bytes_per_second", false)};
  }

  [[nodiscard]] Json const& data() const { return data_; }
  [[noreturn]] void fail(std::string const& what) const {
    throw Error(Fault::input, "BadInput", "the machine file " + path_.string() + " " + what);
  }

 private:
  void refuse_others(Json const& data, std::string const& where, std::set<std::string> const& known) const {
    for (auto const& item : data.items())
      if (!known.contains(item.key())) fail("has " + where + item.key() + ", which is no rate of a machine");
  }

  std::filesystem::path path_;
  Json data_;
};

std::string name_of(PlanStage const& stage) {
  auto const module = stage.module.empty() ? std::string("(network)") : stage.module;
  return stage.placement.empty() ? module : module + ", " + stage.placement;
}

}  // namespace

Machine read_machine(std::filesystem::path const& path) {
  MachineReader const reader(path);
  auto const& data = reader.data();
  Machine machine;
  auto const name = data.find("name");
  machine.name = name != data.end() && name->is_string() ? name->get<std::string>() : path.stem().string();
  auto const ranks = reader.number(data, "", "ranks_per_node", false);
  if (ranks != std::floor(ranks) || ranks > 1e6)
    reader.fail("ranks_per_node: " + data["ranks_per_node"].dump() + " is no number of ranks");
  machine.ranks_per_node = static_cast<int>(ranks);
  machine.operations_per_second = reader.number(data, "", "operations_per_second", false);
  machine.bytes_per_second = reader.number(data, "", "bytes_per_second", false);
  machine.seconds_per_operator = reader.number(data, "", "seconds_per_operator", true);
  if (data.contains("seconds_per_score"))
    machine.seconds_per_score = reader.number(data, "", "seconds_per_score", true);
  machine.within_node = reader.link("within_node");
  machine.between_nodes = reader.link("between_nodes");
  return machine;
}

Forecast forecast_of(program::Plan const& plan, Machine const& machine, double scale) {
  Forecast result;
  result.num_ranks = static_cast<int>(plan.num_ranks);
  auto const ranks = static_cast<double>(plan.num_ranks);
  auto const& link = plan.num_ranks > machine.ranks_per_node ? machine.between_nodes : machine.within_node;
  for (auto const& stage : readable(plan, "").stages) {
    StageTime time{name_of(stage), 0, 0};
    for (auto const& work : stage.works)
      time.compute +=
          work.num_passes * scale *
          (std::max(work.operations / machine.operations_per_second + work.scores * machine.seconds_per_score,
                    work.bytes / machine.bytes_per_second) +
           machine.seconds_per_operator);
    auto const sums = stage.traffic.num_sums;
    auto const direct = double(stage.traffic.num_messages - sums);
    time.messages =
        2 * (direct * link.seconds_per_message + double(sums) * 2 * log2_of(ranks) * link.seconds_per_message +
             stage.traffic.bytes() / link.bytes_per_second);
    if (plan.num_ranks == 1) time.messages = 0;
    result.compute += time.compute;
    result.messages += time.messages;
    result.stages.push_back(std::move(time));
  }
  auto const most = [](std::vector<std::int64_t> const& bytes) {
    return bytes.empty() ? 0.0 : static_cast<double>(std::ranges::max(bytes));
  };
  auto const weights = most(plan.weights_bytes);
  if (plan.num_ranks > 1)
    result.gradients =
        2 * log2_of(ranks) * link.seconds_per_message + 2 * (ranks - 1) / ranks * weights / link.bytes_per_second;
  result.memory_bytes = 2 * weights + most(plan.activation_bytes) + most(plan.recomputed_bytes);
  return result;
}

namespace {

Forecast const* first_of(std::vector<Forecast> const& forecasts) {
  auto const found = std::ranges::find_if(forecasts, [](auto const& one) { return one.refusal.empty(); });
  return found == forecasts.end() ? nullptr : &*found;
}

}  // namespace

double efficiency(std::vector<Forecast> const& forecasts, std::size_t i) {
  auto const* const first = first_of(forecasts);
  auto const& own = forecasts.at(i);
  if (!first || !own.refusal.empty() || own.step() <= 0) return 0;
  return first->step() * first->num_ranks / (own.step() * own.num_ranks);
}

std::string limit_of(std::vector<Forecast> const& forecasts, std::size_t i) {
  auto const* const first = first_of(forecasts);
  auto const& own = forecasts.at(i);
  if (!first || first == &own || !own.refusal.empty()) return {};
  auto const share = double(first->num_ranks) / own.num_ranks;
  std::map<std::string, double> before;  // by module: cuts may be others
  auto const module = [](std::string const& name) { return name.substr(0, name.find(", ")); };
  for (auto const& stage : first->stages) before[module(stage.name)] += stage.seconds();
  std::map<std::string, std::pair<double, double>> now;  // seconds, and of messages
  for (auto const& stage : own.stages) {
    now[module(stage.name)].first += stage.seconds();
    now[module(stage.name)].second += stage.messages;
  }
  std::string limit;
  double most = 0;
  for (auto const& [name, seconds] : now) {
    auto const found = before.find(name);
    auto const beyond = seconds.first - (found == before.end() ? 0 : found->second * share);
    if (beyond <= most) continue;
    most = beyond;
    limit = (2 * seconds.second > beyond ? "messages of " : "compute of ") + name;
  }
  if (own.gradients - first->gradients * share > most) limit = "sum of gradients";
  return limit;
}

std::string to_text(std::string const& network, Machine const& machine, std::vector<Forecast> const& forecasts) {
  std::string text =
      network + " on " + machine.name + ": forecast of a training step (forward, backward, sum of gradients)\n";
  std::vector<std::vector<std::string>> rows{
      {"ranks", "step", "compute", "messages", "gradients", "efficiency", "memory", "what stops it"}};
  std::string refusals;
  for (std::size_t i = 0; i < forecasts.size(); ++i) {
    auto const& one = forecasts[i];
    if (!one.refusal.empty()) {
      rows.push_back({std::to_string(one.num_ranks), "-", "-", "-", "-", "-", "-", "refused"});
      refusals += std::to_string(one.num_ranks) + " ranks: " + one.refusal + "\n";
      continue;
    }
    rows.push_back({std::to_string(one.num_ranks), seconds_text(one.step()), seconds_text(one.compute),
                    seconds_text(one.messages), seconds_text(one.gradients), rounded_text(efficiency(forecasts, i), 2),
                    bytes_text(one.memory_bytes), limit_of(forecasts, i)});
  }
  return text + table_text(rows) + refusals;
}

std::string to_svg(std::string const& network, Machine const& machine, std::vector<Forecast> const& forecasts) {
  std::vector<std::size_t> shown;
  for (std::size_t i = 0; i < forecasts.size(); ++i)
    if (forecasts[i].refusal.empty()) shown.push_back(i);
  constexpr double left = 80, top = 90, width = 400, height = 360, bars = 600, bar_width = 400;
  std::string body = svg::words(20, 34, "title", network + " on " + machine.name) +
                     svg::words(20, 56, "quiet", "forecast of a training step: forward, backward, sum of gradients");
  if (shown.empty())
    return svg::page(svg::page_width, 120, body + svg::words(20, 90, "loud", "refused on all of these ranks"));
  auto const& first = forecasts[shown.front()];
  double least_ranks = first.num_ranks, most_ranks = first.num_ranks;
  for (auto const i : shown) {
    least_ranks = std::min(least_ranks, double(forecasts[i].num_ranks));
    most_ranks = std::max(most_ranks, double(forecasts[i].num_ranks));
  }
  auto const span = std::max(1.0, std::log2(most_ranks / least_ranks));
  auto const x = [&](double ranks) { return left + width * std::log2(ranks / least_ranks) / span; };
  auto const speed_of = [&](Forecast const& one) { return first.num_ranks * first.step() / one.step() / least_ranks; };
  // Powers of two: more ranks may be slower than the fewest.
  double slowest = 1;
  for (auto const i : shown) slowest = std::min(slowest, speed_of(forecasts[i]));
  auto const lowest = std::max(-10.0, std::floor(std::log2(slowest)));
  auto const y = [&](double speed) {
    return top + height * (1 - std::clamp((std::log2(speed) - lowest) / (span - lowest), 0.0, 1.0));
  };
  auto const line = [](double x1, double y1, double x2, double y2, char const* stroke, char const* dashes) {
    return svg::element("line", {{"x1", svg::number(x1)},
                                 {"y1", svg::number(y1)},
                                 {"x2", svg::number(x2)},
                                 {"y2", svg::number(y2)},
                                 {"stroke", stroke},
                                 {"stroke-dasharray", dashes}});
  };
  body += svg::words(left, top - 12, "head", "speed-up");
  body += line(left, top, left, top + height, "#999", "") +
          line(left, top + height, left + width, top + height, "#999", "");
  body += line(x(least_ranks), y(1), x(most_ranks), y(most_ranks / least_ranks), "#bbb", "4 4");
  for (double power = lowest; power < 0; ++power)
    body += svg::words(left - 8, y(std::exp2(power)) + 4, "end", "1/" + rounded_text(std::exp2(-power), 0));
  if (lowest < 0) body += line(left, y(1), left + width, y(1), "#ddd", "");
  std::string points;
  for (std::size_t k = 0; k < shown.size(); ++k) {
    auto const i = shown[k];
    auto const& one = forecasts[i];
    auto const speed = speed_of(one);
    points += svg::number(x(one.num_ranks)) + "," + svg::number(y(speed)) + " ";
    body += svg::element(
        "circle",
        {{"cx", svg::number(x(one.num_ranks))}, {"cy", svg::number(y(speed))}, {"r", "4"}, {"fill", "#2166ac"}});
    body += svg::words(x(one.num_ranks), top + height + 18, "middle", std::to_string(one.num_ranks));
    body +=
        svg::words(left - 8, y(one.num_ranks / least_ranks) + 4, "end", rounded_text(one.num_ranks / least_ranks, 0));
    // Away from the line to the next point, and from the numbers of ranks.
    auto const next = k + 1 < shown.size() ? speed_of(forecasts[shown[k + 1]]) : speed;
    bool const above = next < speed || y(speed) > top + height - 20;
    auto const percent = 100 * efficiency(forecasts, i);
    body += svg::words(x(one.num_ranks) + 8, y(speed) + (above ? -8 : 16), "quiet",
                       rounded_text(percent, percent < 1 ? 1 : 0) + " %");
  }
  body +=
      svg::element("polyline", {{"points", points}, {"fill", "none"}, {"stroke", "#2166ac"}, {"stroke-width", "2"}});
  body += svg::words(left + width / 2, top + height + 38, "middle", "ranks (dashed: perfect; labels: efficiency)");
  body += svg::words(bars, top - 12, "head", "shares of a step");
  std::vector<std::pair<std::string, double Forecast::*>> const parts{
      {"compute", &Forecast::compute}, {"messages", &Forecast::messages}, {"gradients", &Forecast::gradients}};
  auto const pitch = std::min(46.0, height / double(shown.size()));
  double at = top;
  for (auto const i : shown) {
    auto const& one = forecasts[i];
    double from = bars;
    for (std::size_t part = 0; part < parts.size(); ++part) {
      auto const size = bar_width * one.*(parts[part].second) / one.step();
      body += svg::box(from, at, size, pitch - 8, svg::colour(part));
      from += size;
    }
    body += svg::words(bars - 10, at + pitch / 2, "end", std::to_string(one.num_ranks));
    body += svg::words(bars + 6, at + pitch / 2, "quiet", seconds_text(one.step()));
    at += pitch;
  }
  double legend = bars;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    body += svg::box(legend, top + height + 8, 12, 12, svg::colour(part));
    body += svg::words(legend + 18, top + height + 18, "", parts[part].first);
    legend += 110;
  }
  double note = top + height + 66;
  for (auto const& one : forecasts)
    if (!one.refusal.empty()) {
      body += svg::words(20, note, "loud", std::to_string(one.num_ranks) + " ranks: " + one.refusal.substr(0, 150));
      note += svg::line_height;
    }
  return svg::page(svg::page_width, note + 10, body);
}

}  // namespace graticule::info
