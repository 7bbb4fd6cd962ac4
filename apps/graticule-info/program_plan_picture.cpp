// SPDX-License-Identifier: BSD-3-Clause
#include "program_plan.hpp"
#include "svg.hpp"
#include "text.hpp"

#include <algorithm>

namespace graticule::info {

using svg::box;
using svg::element;
using svg::line_height;
using svg::number;
using svg::page_width;
using svg::words;

namespace {

/// Places on the page, in pixels.
constexpr double left = 28;
constexpr double strip_left = 330;
constexpr double strip_width = 330;
constexpr double bytes_left = 690;
constexpr double bytes_width = 170;
constexpr double memory_left = 890;
constexpr double bar_width = 100;
constexpr double row_height = 46;

constexpr std::int64_t most_periods = 6;
constexpr std::int64_t most_parts = 110;  ///< patches along one strip: 3 pixels each

constexpr auto move_colour = "#d6604d";
constexpr auto halo_colour = "#4393c3";
constexpr auto sum_colour = "#878787";
constexpr auto memory_colour = "#bdbdbd";

/// Text of this many letters at most, the front cut off: the end of a module's path says more.
std::string shortened(std::string const& text, std::size_t most) {
  return text.size() <= most ? text : "..." + text.substr(text.size() - most + 3);
}

/// Lines of words.
std::vector<std::string> wrapped(std::string const& text, std::size_t width) {
  std::vector<std::string> lines{""};
  std::size_t begin = 0;
  while (begin < text.size()) {
    auto const end = std::min(text.find(' ', begin), text.size());
    auto const word = text.substr(begin, end - begin);
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > width) lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + word;
    begin = end + 1;
  }
  return lines;
}

class ProgramDrawing {
 public:
  explicit ProgramDrawing(ProgramPlan const& plan) : plan_(plan) {
    for (auto const& stage : plan.stages) {
      most_bytes_ = std::max(most_bytes_, stage.traffic.bytes());
      most_memory_ = std::max(most_memory_, stage.memory_bytes);
      if (std::find(placements_.begin(), placements_.end(), stage.placement) == placements_.end())
        placements_.push_back(stage.placement);
    }
  }

  [[nodiscard]] std::string svg() const {
    double y = 34;
    std::string body =
        words(left, y, "title",
              plan_.network + " on " + std::to_string(plan_.num_ranks) + (plan_.num_ranks == 1 ? " rank" : " ranks"));
    body += facts(y);
    if (!plan_.stages.empty()) {
      body += heads(y);
      for (std::size_t i = 0; i < plan_.stages.size(); ++i) {
        body += row(plan_.stages[i], y);
        y += row_height;
      }
      body += legend(y);
    }
    body += refusals(y);
    return svg::page(page_width, y + 24, body);
  }

 private:
  /// Three facts per line.
  [[nodiscard]] std::string facts(double& y) const {
    std::string text;
    for (std::size_t i = 0; i < plan_.facts.size(); ++i) {
      if (i % 3 == 0) y += i == 0 ? 26 : line_height;
      double const x = left + 345 * double(i % 3);
      auto const& [name, value] = plan_.facts[i];
      text += words(x, y, "quiet", name) + words(x + 310, y, "end", value);
    }
    return text;
  }

  [[nodiscard]] static std::string heads(double& y) {
    y += 34;
    auto text = words(left + 14, y, "head", "stage") + words(strip_left, y, "head", "cut axis, a colour per rank") +
                words(bytes_left, y, "head", "bytes of the busiest rank") +
                words(memory_left, y, "head", "memory of the fullest");
    y += 10;
    return text;
  }

  [[nodiscard]] std::size_t placement_number(std::string const& placement) const {
    return std::size_t(std::find(placements_.begin(), placements_.end(), placement) - placements_.begin());
  }
  /// Darker than the ranks' colours, so that the two are not taken for each other.
  [[nodiscard]] std::string placement_colour(std::string const& placement) const {
    constexpr std::size_t num = 8;
    constexpr char const* dark[num] = {"#1b7837", "#762a83", "#b35806", "#2166ac",
                                       "#b2182b", "#8c6d31", "#01665e", "#4d4d4d"};
    return dark[placement_number(placement) % num];
  }

  [[nodiscard]] std::string row(PlanStage const& stage, double y) const {
    std::string kinds;
    for (auto const& [kind, count] : stage.num_operators)
      kinds += (kinds.empty() ? "" : ", ") + std::to_string(count) + " " + kind;
    auto const nodes = std::to_string(stage.num_nodes) + (stage.num_nodes == 1 ? " node: " : " nodes: ");
    return box(left, y, 6, row_height, placement_colour(stage.placement)) +
           element("path", {{"d", "M" + number(left) + " " + number(y) + "H" + number(page_width - left)},
                            {"stroke", "#ddd"}}) +
           words(left + 14, y + 18, "", stage.module.empty() ? "(network)" : shortened(stage.module, 40)) +
           words(left + 14, y + 35, "quiet", shortened(nodes + kinds, 46)) + strips(stage, y) + traffic(stage, y) +
           memory(stage, y);
  }

  [[nodiscard]] static std::string strips(PlanStage const& stage, double y) {
    std::string text;
    std::string shown;
    if (stage.cuts.empty()) text += box(strip_left, y + 7, strip_width, 15, "#f0f0f0");
    auto const height = 15.0 / double(std::max<std::size_t>(1, stage.cuts.size()));
    for (std::size_t i = 0; i < stage.cuts.size(); ++i)
      text += strip(stage.cuts[i], stage.shape.at(std::size_t(stage.cuts[i].axis)), y + 7 + double(i) * height, height,
                    shown);
    return text + words(strip_left, y + 37, "quiet",
                        stage.placement + " of " + shape_text(stage.shape) + ": " + shares_text(stage) + shown);
  }

  /// The indices of a cut axis, patch by patch in the colours of their ranks; `note` receives what was left out.
  [[nodiscard]] static std::string strip(program::Cut const& cut, std::int64_t extent, double y, double height,
                                         std::string& note) {
    auto const num_periods = cut.period == 0 ? 0 : extent / cut.period;
    auto const drawn = std::min(num_periods, most_periods);
    if (drawn < num_periods) note += "; " + std::to_string(drawn) + " of " + std::to_string(num_periods) + " periods";
    if (drawn * cut.num_ranks() > most_parts) {
      note += "; too many ranks to draw";
      return box(strip_left, y, strip_width, height, "#d9d9d9");
    }
    std::string text;
    double const unit = strip_width / double(std::max<std::int64_t>(1, drawn * cut.period));
    for (std::int64_t period = 0; period < drawn; ++period)
      for (std::size_t rank = 0; rank + 1 < cut.bounds.size(); ++rank) {
        auto const lo = cut.bounds[rank];
        auto const length = cut.bounds[rank + 1] - lo;
        if (length == 0) continue;
        double const x = strip_left + unit * double(period * cut.period + lo);
        text +=
            box(x, y, unit * double(length), height, svg::colour(rank), {{"stroke", "#555"}, {"stroke-width", "0.5"}});
        if (unit * double(length) >= 18 && height >= 12)
          text += words(x + unit * double(length) / 2, y + height - 4, "rank", std::to_string(rank));
      }
    return text;
  }

  [[nodiscard]] std::string traffic(PlanStage const& stage, double y) const {
    if (stage.traffic.bytes() <= 0) return words(bytes_left, y + 18, "quiet", "none");
    double x = bytes_left;
    std::string text;
    for (auto const& [bytes, colour] :
         {std::pair{stage.traffic.move_bytes, move_colour}, std::pair{stage.traffic.halo_bytes, halo_colour},
          std::pair{stage.traffic.sum_bytes, sum_colour}}) {
      double const width = bar_width * bytes / most_bytes_;
      if (width > 0) text += box(x, y + 7, width, 15, colour);
      x += width;
    }
    return text + words(bytes_left + bytes_width, y + 19, "end", bytes_text(stage.traffic.bytes())) +
           words(bytes_left, y + 37, "quiet",
                 std::to_string(stage.traffic.num_messages) +
                     (stage.traffic.num_messages == 1 ? " message" : " messages"));
  }

  [[nodiscard]] std::string memory(PlanStage const& stage, double y) const {
    if (most_memory_ <= 0) return "";
    return box(memory_left, y + 7, bar_width * 0.7 * stage.memory_bytes / most_memory_, 15, memory_colour) +
           words(page_width - left, y + 19, "end", bytes_text(stage.memory_bytes));
  }

  [[nodiscard]] std::string legend(double& y) const {
    y += 26;
    double x = left;
    std::string text;
    auto const sample = [&](std::string const& colour, std::string const& what) {
      double const width = 34 + 6.6 * double(what.size());
      if (x + width > page_width - left) {
        x = left;
        y += line_height;
      }
      text += box(x, y - 10, 14, 12, colour) + words(x + 20, y, "", what);
      x += width;
    };
    for (auto const& placement : placements_) sample(placement_colour(placement), placement);
    sample(move_colour, "moves to another cut");
    sample(halo_colour, "halos and pulled rows");
    sample(sum_colour, "sums over ranks");
    return text;
  }

  [[nodiscard]] std::string refusals(double& y) const {
    std::string text;
    for (auto const& refusal : plan_.refusals) {
      y += 12;
      for (auto const& line : wrapped("refused: " + refusal.where + ": " + refusal.reason, 150))
        text += words(left, y += line_height, "loud", line);
      for (auto const& line : wrapped(refusal.advice, 150)) text += words(left + 14, y += line_height, "", line);
    }
    return text;
  }

  ProgramPlan const& plan_;
  std::vector<std::string> placements_;  ///< in the order of their first stages
  double most_bytes_ = 0;
  double most_memory_ = 0;
};

}  // namespace

std::string to_svg(ProgramPlan const& plan) { return ProgramDrawing(plan).svg(); }

}  // namespace graticule::info
