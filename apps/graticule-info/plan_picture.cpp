// SPDX-License-Identifier: BSD-3-Clause
#include "plan_picture.hpp"

#include "svg.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

namespace graticule::info {

namespace {

/// Size of the page and the place of its parts, in pixels.
constexpr double map_left = 76;
constexpr double map_top = 84;
constexpr double map_width = 680;
constexpr double panel_left = 790;
constexpr double panel_right = 1052;

using svg::box;
using svg::element;
using svg::line_height;
using svg::number;
using svg::page_width;
using svg::words;

/// The parts of one axis that have cells, and where they lie on the page.
struct DrawnAxis {
  std::vector<int> parts;
  std::vector<double> ends;  ///< one more than parts

  DrawnAxis(Cuts const& cuts, double begin, double length) : ends{begin} {
    for (int part = 0; part < cuts.num_parts(); ++part) {
      if (cuts.size(part) == 0) continue;
      parts.push_back(part);
      ends.push_back(begin + length * double(cuts.hi(part)) / double(cuts.extent()));
    }
  }

  [[nodiscard]] std::size_t size() const { return parts.size(); }
  [[nodiscard]] double mean_length() const { return (ends.back() - ends.front()) / double(size()); }
};

class Drawing {
 public:
  explicit Drawing(PlanPicture const& picture)
      : picture_(picture),
        grid_(*picture.layout.grid()),
        map_height_(map_width * std::clamp(aspect(), 0.35, 0.8)),
        rows_(*picture.layout.cuts(0), map_top, map_height_),
        columns_(*picture.layout.cuts(1), map_left, map_width) {
    for (std::size_t i = 0; i < rows_.size(); ++i)
      for (std::size_t j = 0; j < columns_.size(); ++j)
        node_at_.push_back(picture.node_of_rank[std::size_t(rank_at(i, j))]);
    num_nodes_ = 1 + *std::max_element(picture.node_of_rank.begin(), picture.node_of_rank.end());
    colour_of_ = node_colours(node_at_, int(rows_.size()), int(columns_.size()));
  }

  [[nodiscard]] std::string svg() const {
    auto const body = title() + patches() + lines() + rank_numbers() + axes();
    double bottom = map_top + map_height_ + 70;
    auto const panel = side_panel(bottom);
    return svg::page(page_width, bottom, body + panel);
  }

 private:
  [[nodiscard]] double aspect() const {
    if (picture_.ticks == Ticks::degrees) return 0.5;
    return double(picture_.layout.extent(0)) / double(picture_.layout.extent(1));
  }
  [[nodiscard]] int rank_at(std::size_t i, std::size_t j) const {
    return grid_.rank({rows_.parts[i], columns_.parts[j]});
  }
  [[nodiscard]] int node_at(std::size_t i, std::size_t j) const { return node_at_[i * columns_.size() + j]; }

  [[nodiscard]] std::string title() const {
    auto const& extents = picture_.layout.global().extents();
    auto const count = [](Index n, std::string const& what) {
      return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
    };
    std::string below = count(num_nodes_, "node");
    if (!grid_.in_order()) {
      auto const& block = grid_.block();
      below += block == Indices{1, 1}
                   ? ", ranks along a walk from node to node"
                   : ", ranks in blocks of " + std::to_string(block[0]) + " x " + std::to_string(block[1]);
    }
    return words(map_left, 34, "title",
                 std::to_string(extents[0]) + " x " + std::to_string(extents[1]) + " cells on " +
                     count(grid_.num_ranks(), "rank") + ": " + std::to_string(grid_.extent(0)) + " x " +
                     std::to_string(grid_.extent(1))) +
           words(map_left, 58, "quiet", below);
  }

  /// Ends of runs of rows (or columns) that meet the same nodes, as numbers of drawn rows: 0, ..., the number of rows.
  template <class Alike>
  [[nodiscard]] static std::vector<std::size_t> run_ends(std::size_t size, Alike&& alike) {
    std::vector<std::size_t> ends{0};
    for (std::size_t i = 1; i <= size; ++i)
      if (i == size || !alike(i - 1, i)) ends.push_back(i);
    return ends;
  }
  [[nodiscard]] std::vector<std::size_t> row_runs() const {
    return run_ends(rows_.size(), [&](std::size_t i, std::size_t k) {
      for (std::size_t j = 0; j < columns_.size(); ++j)
        if (node_at(i, j) != node_at(k, j)) return false;
      return true;
    });
  }
  [[nodiscard]] std::vector<std::size_t> column_runs() const {
    return run_ends(columns_.size(), [&](std::size_t j, std::size_t k) {
      for (std::size_t i = 0; i < rows_.size(); ++i)
        if (node_at(i, j) != node_at(i, k)) return false;
      return true;
    });
  }

  /// One patch for neighboring ranks that share a node.
  [[nodiscard]] std::string patches() const {
    std::string text = "<g shape-rendering=\"crispEdges\">\n";
    auto const rows = row_runs();
    auto const columns = column_runs();
    for (std::size_t i = 0; i + 1 < rows.size(); ++i)
      for (std::size_t j = 0; j + 1 < columns.size(); ++j) {
        double const x = columns_.ends[columns[j]];
        double const y = rows_.ends[rows[i]];
        text += box(x, y, columns_.ends[columns[j + 1]] - x, rows_.ends[rows[i + 1]] - y,
                    colour(node_at(rows[i], columns[j])));
      }
    return text + "</g>\n";
  }

  [[nodiscard]] std::string colour(int node) const { return svg::colour(std::size_t(colour_of_[std::size_t(node)])); }

  static std::string segment(double x1, double y1, double x2, double y2) {
    return "M" + number(x1) + " " + number(y1) + "L" + number(x2) + " " + number(y2);
  }

  /// Thin lines between ranks where there is room, thick ones between nodes, and the frame.
  [[nodiscard]] std::string lines() const {
    std::string ranks;
    std::string nodes;
    for (std::size_t i = 0; i + 1 < rows_.size(); ++i)
      ranks += segment(map_left, rows_.ends[i + 1], map_left + map_width, rows_.ends[i + 1]);
    for (std::size_t j = 0; j + 1 < columns_.size(); ++j)
      ranks += segment(columns_.ends[j + 1], map_top, columns_.ends[j + 1], map_top + map_height_);
    auto const down = row_runs();
    auto const along = column_runs();
    for (std::size_t i = 0; i + 1 < down.size(); ++i)
      for (std::size_t j = 0; j + 1 < along.size(); ++j) {
        double const left = columns_.ends[along[j]];
        double const right = columns_.ends[along[j + 1]];
        double const top = rows_.ends[down[i]];
        double const bottom = rows_.ends[down[i + 1]];
        int const node = node_at(down[i], along[j]);
        if (i + 2 < down.size() && node != node_at(down[i + 1], along[j]))
          nodes += segment(left, bottom, right, bottom);
        if (j + 2 < along.size() && node != node_at(down[i], along[j + 1])) nodes += segment(right, top, right, bottom);
      }
    std::string text;
    if (draws_ranks() && !ranks.empty())
      text += element(
          "path",
          {{"d", ranks}, {"stroke", "#555"}, {"stroke-width", number(rank_line())}, {"stroke-opacity", "0.55"}});
    if (!nodes.empty())
      text += element("path", {{"d", nodes},
                               {"stroke", "#222"},
                               {"stroke-width", number(node_line())},
                               {"stroke-linecap", "square"},
                               {"fill", "none"}});
    return text + box(map_left, map_top, map_width, map_height_, "none", {{"stroke", "#222"}, {"stroke-width", "1.2"}});
  }

  /// Lines stay thin where ranks are small, and stay away where there is no room for them.
  [[nodiscard]] double room() const { return std::min(rows_.mean_length(), columns_.mean_length()); }
  [[nodiscard]] bool draws_ranks() const { return grid_.num_ranks() > 1 && room() >= 3; }
  [[nodiscard]] double rank_line() const { return std::min(0.8, room() / 12); }
  [[nodiscard]] double node_line() const { return std::clamp(room() / 8, 0.35, 1.8); }

  [[nodiscard]] std::string rank_numbers() const {
    double const digits = double(std::to_string(grid_.last_rank()).size());
    std::string text;
    for (std::size_t i = 0; i < rows_.size(); ++i)
      for (std::size_t j = 0; j < columns_.size(); ++j) {
        double const width = columns_.ends[j + 1] - columns_.ends[j];
        double const height = rows_.ends[i + 1] - rows_.ends[i];
        if (width < 6 * digits + 4 || height < 12) continue;
        text += words(columns_.ends[j] + width / 2, rows_.ends[i] + height / 2 + 3.5, "rank",
                      std::to_string(rank_at(i, j)));
      }
    return text;
  }

  /// A tick on the left (`share` from the top) or below (`share` from the left).
  [[nodiscard]] std::string left_tick(double share, std::string const& label) const {
    double const y = map_top + share * map_height_;
    return element("path", {{"d", segment(map_left - 5, y, map_left, y)}, {"stroke", "#222"}}) +
           words(map_left - 9, y + 4, "end", label);
  }
  [[nodiscard]] std::string lower_tick(double share, std::string const& label) const {
    double const x = map_left + share * map_width;
    double const y = map_top + map_height_;
    return element("path", {{"d", segment(x, y, x, y + 5)}, {"stroke", "#222"}}) + words(x, y + 19, "middle", label);
  }

  [[nodiscard]] std::string axis_names(std::string const& left, std::string const& below) const {
    double const y = map_top + map_height_ / 2;
    return words(map_left + map_width / 2, map_top + map_height_ + 42, "middle", below) +
           "<text class=\"middle\" transform=\"translate(22 " + number(y) + ") rotate(-90)\">" + left + "</text>\n";
  }

  [[nodiscard]] std::string axes() const {
    std::string text;
    if (picture_.ticks == Ticks::degrees) {
      for (int latitude = 90; latitude >= -90; latitude -= 30)
        text += left_tick((90 - latitude) / 180.0, std::to_string(latitude));
      for (int longitude = 0; longitude <= 360; longitude += 60)
        text += lower_tick(longitude / 360.0, std::to_string(longitude));
      return text + axis_names("latitude (degrees north)", "longitude (degrees east)");
    }
    for (int quarter = 0; quarter <= 4; ++quarter) {
      text += left_tick(quarter / 4.0, std::to_string(picture_.layout.extent(0) * quarter / 4));
      text += lower_tick(quarter / 4.0, std::to_string(picture_.layout.extent(1) * quarter / 4));
    }
    return text + axis_names("row (cells)", "column (cells)");
  }

  /// `ranks 4-7`, or how many where they do not follow each other.
  [[nodiscard]] std::string ranks_of(int node) const {
    auto const& nodes = picture_.node_of_rank;
    auto const first = std::find(nodes.begin(), nodes.end(), node);
    auto const count = std::count(nodes.begin(), nodes.end(), node);
    auto const rank = first - nodes.begin();
    if (count == 1) return "rank " + std::to_string(rank);
    if (!std::all_of(first, first + count, [&](int n) { return n == node; })) return std::to_string(count) + " ranks";
    return "ranks " + std::to_string(rank) + "-" + std::to_string(rank + count - 1);
  }

  static std::string swatch(double x, double y, std::string const& fill) {
    return box(x, y - 10, 16, 12, fill, {{"stroke", "#222"}, {"stroke-width", "0.8"}});
  }

  /// Facts and legend; `bottom` grows to what they need.
  [[nodiscard]] std::string side_panel(double& bottom) const {
    double y = map_top + 10;
    std::string text = words(panel_left, y, "head", "one exchange of halos");
    for (auto const& [name, value] : picture_.facts) {
      y += line_height;
      text += words(panel_left, y, "quiet", name) + words(panel_right, y, "end", value);
    }
    y += 2 * line_height;
    text += words(panel_left, y, "head", "nodes");
    constexpr int most_listed = 16;
    if (num_nodes_ <= most_listed) {
      for (int node = 0; node < num_nodes_; ++node) {
        bool const right = num_nodes_ > 8 && node % 2 == 1;
        if (!right) y += line_height;
        double const x = panel_left + (right ? 138 : 0);
        text += swatch(x, y, colour(node)) + words(x + 22, y, "", std::to_string(node) + ": " + ranks_of(node));
      }
    } else {
      y += line_height;
      for (int c = 0; c < 5; ++c) text += swatch(panel_left + 20 * c, y, svg::colour(std::size_t(c)));
      text += words(panel_left + 110, y, "", "one patch, one node;");
      y += line_height;
      text += words(panel_left, y, "", "colours repeat, not next to each other");
    }
    y += line_height + 4;
    auto const sample = [&](double x, std::string const& stroke, std::string const& width, std::string const& what) {
      return element("path", {{"d", segment(x, y - 4, x + 16, y - 4)}, {"stroke", stroke}, {"stroke-width", width}}) +
             words(x + 22, y, "", what);
    };
    if (num_nodes_ > 1) text += sample(panel_left, "#222", "1.8", "between nodes");
    if (draws_ranks()) text += sample(panel_left + (num_nodes_ > 1 ? 138 : 0), "#555", "0.8", "between ranks");
    bottom = std::max(bottom, y + 24);
    return text;
  }

  PlanPicture const& picture_;
  ProcessGrid const& grid_;
  double map_height_;
  DrawnAxis rows_;
  DrawnAxis columns_;
  std::vector<int> node_at_;
  int num_nodes_ = 1;
  std::vector<int> colour_of_;
};

}  // namespace

std::vector<int> node_colours(std::vector<int> const& node_at, int num_rows, int num_columns) {
  int const num_nodes = node_at.empty() ? 0 : 1 + *std::max_element(node_at.begin(), node_at.end());
  std::vector<std::set<int>> neighbors{std::size_t(num_nodes)};
  auto const at = [&](int i, int j) {
    return std::size_t(
        node_at[std::size_t(i) * std::size_t(num_columns) + std::size_t((j + num_columns) % num_columns)]);
  };
  for (int i = 0; i < num_rows; ++i)
    for (int j = 0; j < num_columns; ++j)
      for (auto const& [di, dj] : {std::pair{0, 1}, std::pair{1, -1}, std::pair{1, 0}, std::pair{1, 1}}) {
        if (i + di >= num_rows) continue;
        auto const one = at(i, j);
        auto const other = at(i + di, j + dj);
        if (one == other) continue;
        neighbors[one].insert(int(other));
        neighbors[other].insert(int(one));
      }
  std::vector<int> colour_of(std::size_t(num_nodes), -1);
  std::array<int, svg::num_colours> num_uses{};
  for (std::size_t node = 0; node < neighbors.size(); ++node) {
    auto cost = num_uses;
    for (int const other : neighbors[node])
      if (int const taken = colour_of[std::size_t(other)]; taken >= 0) cost[std::size_t(taken)] += num_nodes + 1;
    auto const best = std::min_element(cost.begin(), cost.end()) - cost.begin();
    colour_of[node] = int(best);
    ++num_uses[std::size_t(best)];
  }
  return colour_of;
}

std::string to_svg(PlanPicture const& picture) { return Drawing(picture).svg(); }

}  // namespace graticule::info
