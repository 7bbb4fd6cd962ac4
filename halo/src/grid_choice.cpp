// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/halo/grid_choice.hpp>
#include <graticule/partition/detail/factorizations.hpp>
#include <graticule/partition/detail/grid_sample.hpp>
#include <graticule/partition/detail/numbering.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

namespace graticule {

namespace {

std::string times(Indices const& values) {
  std::string text;
  for (int a = 0; a < values.size(); ++a) text += (a > 0 ? " x " : "") + std::to_string(values[a]);
  return text;
}

void check(GridRequest const& request) {
  int const ndim = request.extents.size();
  auto const fits = [&](Indices const& list) { return list.size() == 0 || list.size() == ndim; };
  if (!fits(request.ranks) || !fits(request.min_extents))
    throw Error("BadOption", "ranks and min_extents must have one entry per axis of the grid of " +
                                 times(request.extents) + ", got " + to_string(request.ranks) + " and " +
                                 to_string(request.min_extents));
  for (int a = 0; a < ndim; ++a)
    if (request.extents[a] < 0 || (request.ranks.size() > 0 && request.ranks[a] < 0))
      throw Error("BadOption", "extents and ranks must not be negative, got a grid of " + times(request.extents) +
                                   " and ranks " + to_string(request.ranks));
  if (request.element_bytes < 1 || request.num_batch < 1)
    throw Error("BadOption", "a cell needs at least 1 value of at least 1 byte, got " +
                                 std::to_string(request.num_batch) + " of " + std::to_string(request.element_bytes) +
                                 " bytes");
  auto const& cost = request.cost;
  for (double const price :
       {cost.on_node_message, cost.on_node_byte, cost.off_node_message, cost.off_node_byte, cost.run})
    if (!(price >= 0) || !std::isfinite(price))
      throw Error("BadOption", "a cost must be finite and at least 0 seconds, got " + std::to_string(price));
  if (request.node_of_rank.empty()) throw Error("BadProcessGrid", "node_of_rank must have at least one rank");
}

Index least_extent(GridRequest const& request, int axis) {
  return request.min_extents.size() == 0 ? 1 : request.min_extents[axis];
}

Cuts cuts_of(GridRequest const& request, int axis, int num_parts) {
  auto cuts = request.cuts ? request.cuts(axis, num_parts) : balanced_cuts(request.extents[axis], num_parts);
  if (cuts.num_parts() != num_parts || cuts.extent() != request.extents[axis])
    throw Error("BadOption", "cuts of axis " + std::to_string(axis) + " must have " + std::to_string(num_parts) +
                                 " parts of " + std::to_string(request.extents[axis]) + " cells, got " +
                                 std::to_string(cuts.num_parts()) + " parts of " + std::to_string(cuts.extent()) +
                                 " cells");
  return cuts;
}

/// Cells of the parts that have any, and their number.
struct PartSizes {
  Index least = 0;
  Index most = 0;
  int num_filled = 0;
};

PartSizes sizes_of(Cuts const& cuts) {
  PartSizes result{std::numeric_limits<Index>::max(), 0, 0};
  for (int p = 0; p < cuts.num_parts(); ++p) {
    if (cuts.size(p) == 0) continue;
    result.least = std::min(result.least, cuts.size(p));
    result.most = std::max(result.most, cuts.size(p));
    ++result.num_filled;
  }
  if (result.num_filled == 0) result.least = 0;
  return result;
}

/// All factorizations of the number of ranks that the request allows, as layouts with ranks in row-major order.
std::vector<Layout> possible_layouts(GridRequest const& request) {
  int const ndim = request.extents.size();
  auto const num_ranks = Index(request.node_of_rank.size());
  auto least = Indices::filled(ndim, 1);
  auto most = Indices::filled(ndim, num_ranks);
  for (int a = 0; a < ndim; ++a) {
    if (Index const cells = least_extent(request, a); cells > 0)
      most[a] = std::min(num_ranks, std::max<Index>(request.extents[a] / cells, 1));
    if (request.ranks.size() > 0 && request.ranks[a] > 0) least[a] = most[a] = request.ranks[a];
  }
  std::vector<Layout> layouts;
  for (auto const& extents : detail::factorizations(num_ranks, least, most)) {
    std::vector<Cuts> cuts;
    bool fits = true;
    for (int a = 0; a < ndim && fits; ++a) {
      cuts.push_back(cuts_of(request, a, int(extents[a])));
      auto const sizes = cuts.back().sizes();
      fits = *std::min_element(sizes.begin(), sizes.end()) >= std::min(least_extent(request, a), request.extents[a]);
    }
    if (fits) layouts.emplace_back(ProcessGrid(extents), std::move(cuts));
  }
  if (!layouts.empty()) return layouts;
  auto cells = Indices::filled(ndim, 1);
  if (request.min_extents.size() > 0) cells = request.min_extents;
  throw Error("BadProcessGrid",
              std::to_string(num_ranks) + " ranks cannot be arranged over " + times(request.extents) + " cells with " +
                  times(cells) + " cells or more per rank" +
                  (request.ranks.size() > 0 ? " on " + times(request.ranks) + " ranks (0: any number)" : ""));
}

/// The plans of one layout, made on demand.
class Plans {
 public:
  Plans(Layout const& layout, HaloKind const& kind) : halo_(layout, kind) {}

  [[nodiscard]] VirtualHalo::Plan const& of(int place) {
    auto const [found, is_new] = plans_.try_emplace(place);
    if (is_new) found->second = halo_.plan(place);
    return found->second;
  }
  void clear() { plans_.clear(); }

 private:
  VirtualHalo halo_;
  std::unordered_map<int, VirtualHalo::Plan> plans_;
};

/// Seconds of one rank; `is_off(peer)` is true for a peer on another node.
template <class IsOff>
double seconds_of(GridRequest const& request, VirtualHalo::Plan const& plan, IsOff&& is_off) {
  auto const& cost = request.cost;
  double const cell_bytes = double(request.element_bytes * request.num_batch);
  double seconds = 0;
  Index runs = plan.local_runs;
  for (auto const& peer : plan.peers) {
    double const bytes = double(std::max(peer.send_cells, peer.receive_cells)) * cell_bytes;
    bool const off = is_off(peer.peer);
    seconds +=
        off ? cost.off_node_message + bytes * cost.off_node_byte : cost.on_node_message + bytes * cost.on_node_byte;
    runs += peer.send_runs + peer.receive_runs;
  }
  return seconds + double(runs * request.num_batch) * cost.run;
}

/// Less than any placement can reach: a rank at the edge and one in the middle, all peers on the cheaper side.
double least_seconds(GridRequest const& request, Plans& plans, ProcessGrid const& grid) {
  GridRequest cheap;
  cheap.element_bytes = request.element_bytes;
  cheap.num_batch = request.num_batch;
  auto const& cost = request.cost;
  cheap.cost.on_node_message = std::min(cost.on_node_message, cost.off_node_message);
  cheap.cost.on_node_byte = std::min(cost.on_node_byte, cost.off_node_byte);
  cheap.cost.run = cost.run;
  auto middle = grid.extents();
  for (auto& coordinate : middle) coordinate /= 2;
  double seconds = 0;
  for (int const place : {0, grid.rank(middle)})
    seconds = std::max(seconds, seconds_of(cheap, plans.of(place), [](int) { return false; }));
  return seconds;
}

/// Takes values one by one; `spread()` when all are in.
class SpreadOf {
 public:
  void add(double value) {
    max_ = std::max(max_, value);
    sum_ += value;
    ++count_;
  }
  [[nodiscard]] GridCandidate::Spread spread() const { return {max_, count_ > 0 ? sum_ / count_ : 0}; }

 private:
  double max_ = 0;
  double sum_ = 0;
  int count_ = 0;
};

/// A layout under study: its plans by place, and the candidate that it becomes.
class Study {
 public:
  Study(GridRequest const& request, Layout const& layout)
      : request_(&request), layout_(layout), plans_(layout, request.halo) {
    least_seconds_ = least_seconds(request, plans_, *layout.grid());
  }

  [[nodiscard]] double lower_bound() const noexcept { return least_seconds_; }

  [[nodiscard]] GridCandidate candidate() {
    GridCandidate result(layout_);
    place(result);
    describe_parts(result);
    evaluate(result);
    warn(result);
    return result;
  }
  void forget_plans() { plans_.clear(); }

 private:
  [[nodiscard]] Index cell_bytes() const { return request_->element_bytes * request_->num_batch; }
  [[nodiscard]] int node_at(ProcessGrid const& grid, int place) const {
    return request_->node_of_rank[std::size_t(grid.rank_at(place))];
  }

  void place(GridCandidate& result) {
    auto const extents = layout_.grid()->extents();
    auto const traffic = [&](int place, auto const& visit) {
      for (auto const& peer : plans_.of(place).peers)
        if (peer.send_cells > 0) visit(peer.peer, peer.send_cells * cell_bytes());
    };
    auto const placement = place_on_nodes(extents, request_->node_of_rank, traffic);
    std::vector<Cuts> cuts;
    for (int a = 0; a < extents.size(); ++a) cuts.push_back(*layout_.cuts(a));
    result.layout = Layout(placement.grid, std::move(cuts));
    result.off_node_bytes_before = placement.off_node_bytes_before;
    result.off_node_bytes = placement.off_node_bytes;
  }

  void describe_parts(GridCandidate& result) const {
    int const ndim = layout_.ndim();
    result.min_extents = result.max_extents = Indices::filled(ndim, 0);
    double largest = 1;
    Index num_filled = 1;
    for (int a = 0; a < ndim; ++a) {
      auto const sizes = sizes_of(*layout_.cuts(a));
      result.min_extents[a] = sizes.least;
      result.max_extents[a] = sizes.most;
      largest *= double(sizes.most) * layout_.grid()->extent(a) / double(std::max<Index>(layout_.extent(a), 1));
      num_filled *= sizes.num_filled;
    }
    result.imbalance = largest;
    result.num_idle = int(layout_.grid()->num_ranks() - num_filled);
  }

  /// The place of the largest owned box that is not at the edge of the process grid, where there is such a place.
  [[nodiscard]] int largest_inner_place() const {
    auto const& extents = layout_.grid()->extents();
    auto coords = Indices::filled(layout_.ndim(), 0);
    for (int a = 0; a < layout_.ndim(); ++a)
      for (Index part = std::min<Index>(1, extents[a] - 1); part < extents[a] - 1; ++part)
        if (coords[a] == 0 || layout_.cuts(a)->size(int(part)) > layout_.cuts(a)->size(int(coords[a])))
          coords[a] = part;
    return int(number_of(coords, extents));
  }

  /// Ranks on the nodes of all sampled places, and of the largest.
  [[nodiscard]] std::vector<int> places_to_evaluate(ProcessGrid const& grid) const {
    std::vector<char> chosen(request_->node_of_rank.size(), 0);  // by node
    auto sampled = detail::sample_of(grid.extents()).places;
    sampled.push_back(largest_inner_place());
    for (int const place : sampled) chosen[std::size_t(node_at(grid, place))] = 1;
    std::vector<int> places;
    for (int rank = 0; rank < grid.num_ranks(); ++rank)
      if (chosen[std::size_t(request_->node_of_rank[std::size_t(rank)])] != 0) places.push_back(grid.place(rank));
    return places;
  }

  void evaluate(GridCandidate& result) {
    auto const& grid = *result.layout.grid();
    SpreadOf messages;
    SpreadOf bytes;
    std::unordered_map<int, std::pair<Index, Index>> on_and_off;  // by node
    places_ = places_to_evaluate(grid);
    for (int const place : places_) {
      auto const& plan = plans_.of(place);
      int const node = node_at(grid, place);
      auto& [on, off] = on_and_off[node];
      for (auto const& peer : plan.peers)
        (node_at(grid, peer.peer) == node ? on : off) += peer.send_cells * cell_bytes();
      auto const counts = plan.counts();
      messages.add(counts.num_send_peers);
      bytes.add(double(counts.send_cells * cell_bytes()));
      result.field_bytes = std::max(result.field_bytes, plan.local.num_cells() * cell_bytes());
      result.buffer_bytes = std::max(result.buffer_bytes, (counts.send_cells + counts.receive_cells) * cell_bytes());
      result.seconds =
          std::max(result.seconds, seconds_of(*request_, plan, [&](int peer) { return node_at(grid, peer) != node; }));
    }
    SpreadOf on_node;
    SpreadOf off_node;
    for (auto const& [node, sums] : on_and_off) {
      on_node.add(double(sums.first));
      off_node.add(double(sums.second));
    }
    result.messages = messages.spread();
    result.bytes = bytes.spread();
    result.node_on_bytes = on_node.spread();
    result.node_off_bytes = off_node.spread();
    result.num_evaluated = int(places_.size());
  }

  [[nodiscard]] std::string name(int axis) const {
    return std::size_t(axis) < request_->axis_names.size() ? request_->axis_names[std::size_t(axis)]
                                                           : "axis " + std::to_string(axis);
  }

  void warn(GridCandidate& result) {
    for (int a = 0; a < layout_.ndim(); ++a) warn_of_second_neighbors(result, a);
    if (result.num_idle > 0)
      result.warnings.push_back(std::to_string(result.num_idle) + " of " + std::to_string(layout_.grid()->num_ranks()) +
                                " ranks own nothing");
    double owned = 1;
    double local = 1;
    for (int a = 0; a < layout_.ndim(); ++a) {
      auto const& width = request_->halo.widths[std::size_t(a)];
      owned *= double(result.min_extents[a]);
      local *= double(result.min_extents[a] + width.lower + width.upper);
    }
    if (owned > 0 && local > 2 * owned)
      result.warnings.push_back("the smallest rank owns " + std::to_string(Index(owned)) + " cells and has " +
                                std::to_string(Index(local - owned)) + " ghost cells");
  }

  /// Reports the cost of parts that are thinner than the halo: the messages of a halo as wide as the parts, and those
  /// needed.
  void warn_of_second_neighbors(GridCandidate& result, int axis) {
    auto kind = request_->halo;
    auto& width = kind.widths[std::size_t(axis)];
    Index const thinnest = result.min_extents[axis];
    Index const widest = std::max(width.lower, width.upper);
    if (layout_.grid()->extent(axis) == 1 || thinnest == 0 || thinnest >= widest) return;
    width = {std::min(width.lower, thinnest), std::min(width.upper, thinnest)};
    VirtualHalo const narrow(layout_, kind);
    int more = 0;
    for (int const place : places_)
      more = std::max(more, plans_.of(place).counts().num_send_peers - narrow.plan(place).counts().num_send_peers);
    result.warnings.push_back("ranks with " + std::to_string(thinnest) + " cells of " + name(axis) +
                              " under a halo of " + std::to_string(widest) + ": up to " + std::to_string(more) +
                              " messages more, to second neighbors");
  }

  GridRequest const* request_;
  Layout layout_;
  Plans plans_;
  double least_seconds_ = 0;
  std::vector<int> places_;
};

/// Times that differ by rounding only are equal.
float rounded(double seconds) { return float(seconds); }

bool better(GridCandidate const& a, GridCandidate const& b) {
  if (rounded(a.seconds) != rounded(b.seconds)) return rounded(a.seconds) < rounded(b.seconds);
  auto const& x = a.layout.grid()->extents();
  auto const& y = b.layout.grid()->extents();
  auto const num_cut = [](Indices const& extents) {
    return extents.size() - std::count(extents.begin(), extents.end(), Index(1));
  };
  return num_cut(x) != num_cut(y) ? num_cut(x) < num_cut(y) : y < x;
}

}  // namespace

std::vector<GridCandidate> grid_candidates(GridRequest const& request) {
  check(request);
  std::vector<Study> studies;
  for (auto const& layout : possible_layouts(request)) studies.emplace_back(request, layout);
  std::stable_sort(studies.begin(), studies.end(),
                   [](Study const& a, Study const& b) { return rounded(a.lower_bound()) < rounded(b.lower_bound()); });
  std::vector<GridCandidate> candidates;
  double best = std::numeric_limits<double>::infinity();
  for (auto& study : studies) {
    if (int(candidates.size()) >= request.num_candidates && study.lower_bound() > best * (1 + 1e-9)) break;
    candidates.push_back(study.candidate());
    study.forget_plans();
    best = std::min(best, candidates.back().seconds);
  }
  std::sort(candidates.begin(), candidates.end(), better);
  return candidates;
}

Layout best_layout(Comm const& comm, GridRequest request) {
  request.node_of_rank = nodes_of_ranks(comm);
  return grid_candidates(request).front().layout;
}

}  // namespace graticule
