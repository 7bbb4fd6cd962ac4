// SPDX-License-Identifier: BSD-3-Clause
#include "grid_study.hpp"

#include <graticule/field_io/detail/complete_file.hpp>
#include <graticule/halo/grid_choice.hpp>

#include "plan_picture.hpp"
#include "text.hpp"

#include <algorithm>
#include <iostream>

namespace graticule::info {

namespace {

/// The request of the options, and its result.
struct GridStudy {
  Options options;
  Indices extents;
  CutChoice cuts;
  GridRequest request;
  std::vector<GridCandidate> candidates;

  [[nodiscard]] int num_ranks() const { return int(request.node_of_rank.size()); }
  [[nodiscard]] int num_nodes() const { return request.node_of_rank.back() + 1; }
};

/// Polar rows are caps when they lie on the pole.
PoleRows pole_rows(Boundary const& boundary, Index num_rows) {
  auto const& latitude = boundary.axes.front();
  for (Edge const edge : {latitude.lower, latitude.upper}) {
    if (edge == Edge::pole_row) return PoleRows::on_pole;
    if (edge == Edge::pole_face) return PoleRows::half_way;
  }
  return num_rows % 2 == 1 ? PoleRows::on_pole : PoleRows::half_way;
}

/// Ranks per axis: what is given, and as many as the given cuts have parts.
Indices fixed_ranks(Options const& options, CutChoice const& cuts) {
  auto ranks = parse_partition(options.partition);
  for (int a = 0; a < 2; ++a) {
    auto const& given = cuts.given[std::size_t(a)];
    if (!given) continue;
    if (ranks[a] != 0 && ranks[a] != given->num_parts())
      throw Error(Fault::usage, "BadCuts",
                  "--cuts has " + std::to_string(given->num_parts()) + (a == 0 ? " bands" : " columns") +
                      ", --partition " + options.partition + " has " + std::to_string(ranks[a]));
    ranks[a] = given->num_parts();
  }
  return ranks;
}

GridRequest make_request(Options const& options, Indices const& extents, CutChoice const& cuts) {
  GridRequest request;
  request.extents = extents;
  request.ranks = fixed_ranks(options, cuts);
  if (cuts.given[0] && cuts.given[1] == std::nullopt && options.num_ranks == 0 && request.ranks[1] == 0)
    request.ranks[1] = 1;
  int const num_ranks = total_ranks(request.ranks, options.num_ranks, options.partition);
  if (num_ranks == 0) throw Error(Fault::usage, "BadOption", "--grid needs --ranks, or a --partition such as 8x4");
  int const per_node = options.ranks_per_node != 0 ? options.ranks_per_node : num_ranks;
  request.node_of_rank = consecutive_nodes(num_ranks, per_node);
  request.halo.widths = parse_widths(options.halo);
  request.halo.boundary = parse_boundary(options.boundary, extents);
  request.halo.corners = options.corners == "skip" ? Corners::skip : Corners::fill;
  request.element_bytes = options.dtype == "f64" ? 8 : 4;
  request.num_batch = options.levels;
  // If both numbers of ranks, or cuts, are given, ranks may own nothing.
  request.min_extents = Indices::filled(2, request.ranks[0] * request.ranks[1] != 0 ? 0 : 1);
  for (int a = 0; a < 2; ++a)
    if (cuts.given[std::size_t(a)]) request.min_extents[a] = 0;
  if (!options.min_extents.empty()) request.min_extents = parse_extents("--min-extents", options.min_extents, 0);
  request.cuts = [cuts, extents, poles = pole_rows(request.halo.boundary, extents[0])](int axis, int num_parts) {
    if (auto const& given = cuts.given[std::size_t(axis)]) return *given;
    if (axis == 0 && cuts.by_area) return weighted_cuts(area_weights(extents[0], poles), num_parts);
    return balanced_cuts(extents[axis], num_parts);
  };
  request.axis_names = {"latitude", "longitude"};
  request.num_candidates = options.num_candidates;
  return request;
}

/// All that can be wrong here was asked for on the command line.
template <class Action>
auto as_usage(Action&& action) {
  try {
    return action();
  } catch (Error const& error) {
    throw Error(error.fault() == Fault::program ? Fault::usage : error.fault(), error.rule(), error.text());
  }
}

std::vector<std::string> row_of(GridCandidate const& candidate) {
  auto const& grid = *candidate.layout.grid();
  auto const sizes = [&](int axis) {
    Index const least = candidate.min_extents[axis];
    Index const most = candidate.max_extents[axis];
    return least == most ? std::to_string(most) : std::to_string(least) + "-" + std::to_string(most);
  };
  std::string order = "-";
  if (!grid.in_order())
    order = grid.block() == Indices{1, 1} ? "list"
                                          : std::to_string(grid.block()[0]) + "x" + std::to_string(grid.block()[1]);
  return {std::to_string(grid.extent(0)) + "x" + std::to_string(grid.extent(1)),
          order,
          sizes(0),
          sizes(1),
          rounded_text(candidate.imbalance, 3),
          rounded_text(candidate.messages.max, 0) + " (" + rounded_text(candidate.messages.mean, 1) + ")",
          bytes_text(candidate.bytes.max),
          bytes_text(candidate.bytes.mean),
          bytes_text(candidate.node_off_bytes.max),
          bytes_text(candidate.node_on_bytes.max),
          bytes_text(double(candidate.field_bytes + candidate.buffer_bytes)),
          seconds_text(candidate.seconds)};
}

void print_candidates(GridStudy const& study) {
  std::vector<std::vector<std::string>> rows{{"", "", "rows", "columns", "largest", "messages", "sent by a rank", "",
                                              "sent by a node", "", "memory", "slowest"},
                                             {"ranks", "blocks", "per rank", "per rank", "to mean", "max (mean)", "max",
                                              "mean", "off node", "on node", "per rank", "rank"}};
  for (auto const& candidate : study.candidates) rows.push_back(row_of(candidate));
  std::cout << "candidates, one exchange of all levels; the best first\n" << table_text(rows);
}

std::string count_text(Index count, std::string const& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

void print_request(GridStudy const& study) {
  auto const& options = study.options;
  auto const& request = study.request;
  double const bytes =
      double(study.extents[0]) * double(study.extents[1]) * double(options.levels * request.element_bytes);
  std::cout << "grid " << options.grid << ", " << count_text(options.levels, "level") << " of " << options.dtype << ": "
            << bytes_text(bytes) << "\nhalo " << options.halo << (options.corners == "skip" ? " without corners" : "")
            << ", boundary " << options.boundary << "\n"
            << count_text(study.num_ranks(), "rank") << " on " << count_text(study.num_nodes(), "node") << ", cuts "
            << options.cuts << "\n";
}

void print_choice(GridStudy const& study) {
  auto const& best = study.candidates.front();
  std::cout << "chosen " << to_string(*best.layout.grid()) << "\n";
  if (study.candidates.size() == 1) {
    std::cout << "  the only process grid that "
              << (study.options.partition == "auto" ? "fits\n" : "--partition and --cuts allow\n");
  } else {
    auto const& next = study.candidates[1];
    double const more = best.seconds > 0 ? (next.seconds / best.seconds - 1) * 100 : 0;
    std::cout << "  its slowest rank exchanges in " << seconds_text(best.seconds) << "; the next best, "
              << to_string(*next.layout.grid()) << ", takes "
              << (more < 0.05 ? "as long and cuts more or faster axes" : rounded_text(more, 1) + " % longer") << "\n";
  }
  if (study.num_nodes() > 1) {
    std::cout << "  " << bytes_text(best.off_node_bytes) << " leave nodes in one exchange";
    if (best.off_node_bytes < best.off_node_bytes_before)
      std::cout << "; with the ranks in row-major order " << bytes_text(best.off_node_bytes_before);
    std::cout << "\n";
  }
  std::cout << "  memory of the largest rank " << bytes_text(double(best.field_bytes)) << " and "
            << bytes_text(double(best.buffer_bytes)) << " of messages\n";
  std::cout << "  latitude  " << to_text(*best.layout.cuts(0)) << "\n  longitude " << to_text(*best.layout.cuts(1))
            << "\n";
  if (best.num_evaluated < study.num_ranks())
    std::cout << "  figures of " << best.num_evaluated << " ranks at the edges and in the middle\n";
  for (auto const& warning : best.warnings) std::cout << "  warning: " << warning << "\n";
}

app::Report::Json to_json(GridCandidate::Spread const& spread) { return {{"max", spread.max}, {"mean", spread.mean}}; }

app::Report::Json to_json(GridCandidate const& candidate) {
  auto const list = [](Indices const& values) { return std::vector<Index>(values.begin(), values.end()); };
  return {{"process_grid", list(candidate.layout.grid()->extents())},
          {"blocks", list(candidate.layout.grid()->block())},
          {"reordered", !candidate.layout.grid()->in_order()},
          {"min_cells_per_axis", list(candidate.min_extents)},
          {"max_cells_per_axis", list(candidate.max_extents)},
          {"imbalance", candidate.imbalance},
          {"num_idle", candidate.num_idle},
          {"messages_per_rank", to_json(candidate.messages)},
          {"bytes_per_rank", to_json(candidate.bytes)},
          {"bytes_per_node_on", to_json(candidate.node_on_bytes)},
          {"bytes_per_node_off", to_json(candidate.node_off_bytes)},
          {"off_node_bytes", candidate.off_node_bytes},
          {"off_node_bytes_in_row_major_order", candidate.off_node_bytes_before},
          {"field_bytes", candidate.field_bytes},
          {"buffer_bytes", candidate.buffer_bytes},
          {"exchange_seconds", candidate.seconds},
          {"num_evaluated", candidate.num_evaluated},
          {"warnings", candidate.warnings}};
}

void fill_report(GridStudy const& study, app::Report& report) {
  report.set_partition(study.candidates.front().layout, {"latitude", "longitude"});
  auto& data = report.data();
  data["num_virtual_ranks"] = study.num_ranks();
  data["num_virtual_nodes"] = study.num_nodes();
  data["candidates"] = app::Report::Json::array();
  for (auto const& candidate : study.candidates) data["candidates"].push_back(to_json(candidate));
}

PlanPicture picture_of(GridStudy const& study) {
  auto const& best = study.candidates.front();
  bool const on_sphere = study.request.halo.boundary.axes[1].lower == Edge::periodic;
  PlanPicture picture{best.layout, study.request.node_of_rank, on_sphere ? Ticks::degrees : Ticks::cells, {}};
  auto const rows = row_of(best);
  picture.facts = {
      {"grid", study.options.grid + ", " + count_text(study.options.levels, "level") + ", " + study.options.dtype},
      {"halo", study.options.halo + ", " + study.options.boundary},
      {"rows per rank", rows[2]},
      {"columns per rank", rows[3]},
      {"largest to mean", rows[4]},
      {"messages of a rank", rows[5]},
      {"sent by a rank", rows[6]},
      {"sent off a node", rows[8]},
      {"sent on a node", rows[9]},
      {"memory of a rank", rows[10]},
      {"slowest exchange", rows[11]}};
  return picture;
}

}  // namespace

void study_grid(app::Context& context, Options const& options) {
  GridStudy study;
  study.options = options;
  study.extents = parse_extents("--grid", options.grid, 1);
  study.cuts = parse_cut_choice(context.comm, options.cuts, study.extents);
  study.request = as_usage([&] { return make_request(options, study.extents, study.cuts); });
  study.candidates = as_usage([&] { return grid_candidates(study.request); });
  print_request(study);
  print_candidates(study);
  print_choice(study);
  fill_report(study, context.report);
  run_agreed(context.comm, [&] {
    if (context.comm.rank() == 0 && !options.svg.empty()) write_complete_file(options.svg, to_svg(picture_of(study)));
  });
}

}  // namespace graticule::info
