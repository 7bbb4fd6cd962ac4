// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/check_mpi.hpp>
#include <graticule/partition/shared_layout.hpp>

#include <array>
#include <vector>

namespace graticule {

namespace {

std::vector<Cuts> all_cuts(Layout const& layout) {
  std::vector<Cuts> cuts;
  for (int a = 0; a < layout.ndim(); ++a) cuts.push_back(*layout.cuts(a));
  return cuts;
}

Layout boxes_on_ranks(Layout const& layout, std::span<int const> ranks) {
  auto const none = Indices::filled(layout.ndim(), 0);
  std::vector<Box> boxes;
  std::vector<bool> taken;
  for (int r = 0; r < layout.num_ranks(); ++r) {
    int const rank = ranks[std::size_t(r)];
    if (rank < 0) throw Error("BadProcessGrid", "ranks must be at least 0, got " + std::to_string(rank));
    if (std::size_t(rank) >= boxes.size()) {
      boxes.resize(std::size_t(rank) + 1, Box(none, none));
      taken.resize(boxes.size(), false);
    }
    if (taken[std::size_t(rank)]) throw Error("BadProcessGrid", "rank " + std::to_string(rank) + " is listed twice");
    taken[std::size_t(rank)] = true;
    boxes[std::size_t(rank)] = layout.owned(r);
  }
  return Layout::from_boxes(layout.global().extents(), boxes);
}

enum class Kind : Index { cuts_in_order, cuts_in_blocks, cuts_on_ranks, boxes };

class Writer {
 public:
  void add(Index word) { words_.push_back(word); }
  void add(Indices const& values) { words_.insert(words_.end(), values.begin(), values.end()); }
  [[nodiscard]] std::vector<Index> take() { return std::move(words_); }

 private:
  std::vector<Index> words_;
};

class Reader {
 public:
  explicit Reader(std::span<Index const> words) : words_(words) {}
  Index next() { return words_[at_++]; }
  Indices next(int count) {
    Indices values;
    for (int i = 0; i < count; ++i) values.push_back(next());
    return values;
  }
  [[nodiscard]] bool at_end() const { return at_ == words_.size(); }

 private:
  std::span<Index const> words_;
  std::size_t at_ = 0;
};

std::vector<Index> words_of(Layout const& layout) {
  Writer words;
  auto const* grid = layout.grid();
  bool const in_blocks = grid && grid->block() != Indices::filled(grid->ndim(), 1);
  auto const kind = !grid              ? Kind::boxes
                    : in_blocks        ? Kind::cuts_in_blocks
                    : grid->in_order() ? Kind::cuts_in_order
                                       : Kind::cuts_on_ranks;
  words.add(Index(kind));
  words.add(layout.ndim());
  if (kind == Kind::boxes) {
    words.add(layout.global().hi());
    words.add(layout.num_ranks());
    for (int rank = 0; rank < layout.num_ranks(); ++rank) {
      Box const box = layout.owned(rank);
      if (box.empty()) continue;
      words.add(rank);
      words.add(box.lo());
      words.add(box.hi());
    }
    return words.take();
  }
  words.add(grid->extents());
  for (int a = 0; a < layout.ndim(); ++a)
    for (Index const size : layout.cuts(a)->sizes()) words.add(size);
  if (kind == Kind::cuts_in_blocks) words.add(grid->block());
  if (kind == Kind::cuts_on_ranks)
    for (int place = 0; place < grid->num_ranks(); ++place) words.add(grid->rank_at(place));
  return words.take();
}

Layout box_layout_of(Reader& words, int ndim) {
  auto const extents = words.next(ndim);
  auto const none = Indices::filled(ndim, 0);
  std::vector<Box> boxes(std::size_t(words.next()), Box(none, none));
  while (!words.at_end()) {
    auto const rank = std::size_t(words.next());
    auto const lo = words.next(ndim);
    boxes[rank] = Box(lo, words.next(ndim));
  }
  return Layout::from_boxes(extents, boxes);
}

Layout layout_of(std::span<Index const> all) {
  Reader words(all);
  auto const kind = Kind(words.next());
  int const ndim = int(words.next());
  if (kind == Kind::boxes) return box_layout_of(words, ndim);
  auto const extents = words.next(ndim);
  std::vector<Cuts> cuts;
  for (Index const num_parts : extents) {
    std::vector<Index> sizes;
    for (Index p = 0; p < num_parts; ++p) sizes.push_back(words.next());
    cuts.emplace_back(sizes);
  }
  if (kind == Kind::cuts_in_order) return {ProcessGrid(extents), std::move(cuts)};
  if (kind == Kind::cuts_in_blocks) return {ProcessGrid::in_blocks(extents, words.next(ndim)), std::move(cuts)};
  std::vector<int> ranks;
  while (!words.at_end()) ranks.push_back(int(words.next()));
  return {ProcessGrid::on_ranks(extents, std::move(ranks)), std::move(cuts)};
}

/// The rank in `parent` of each rank of `part`. Local.
std::vector<int> ranks_in(Comm const& parent, Comm const& part) {
  MPI_Group from = MPI_GROUP_NULL;
  MPI_Group to = MPI_GROUP_NULL;
  check_mpi(MPI_Comm_group(part.handle(), &from), "MPI_Comm_group");
  check_mpi(MPI_Comm_group(parent.handle(), &to), "MPI_Comm_group");
  std::vector<int> own;
  for (int rank = 0; rank < part.num_ranks(); ++rank) own.push_back(rank);
  std::vector<int> ranks(own.size(), 0);
  check_mpi(MPI_Group_translate_ranks(from, part.num_ranks(), own.data(), to, ranks.data()),
            "MPI_Group_translate_ranks");
  check_mpi(MPI_Group_free(&from), "MPI_Group_free");
  check_mpi(MPI_Group_free(&to), "MPI_Group_free");
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (ranks[rank] == MPI_UNDEFINED)
      throw Error("BadLayout", "rank " + std::to_string(rank) + " of the part of " + std::to_string(part.num_ranks()) +
                                   " ranks that provides a layout is not in the parent");
  return ranks;
}

}  // namespace

Layout on_ranks(Layout const& layout, std::span<int const> ranks) {
  if (std::ssize(ranks) < layout.num_ranks())
    throw Error("BadProcessGrid", to_string(layout) + " needs " + std::to_string(layout.num_ranks()) + " ranks, got " +
                                      std::to_string(ranks.size()));
  bool in_order = true;
  for (int r = 0; r < layout.num_ranks(); ++r) in_order = in_order && ranks[std::size_t(r)] == r;
  if (in_order) return layout;
  auto const* grid = layout.grid();
  if (!grid) return boxes_on_ranks(layout, ranks);
  std::vector<int> by_place;
  for (int place = 0; place < grid->num_ranks(); ++place) by_place.push_back(ranks[std::size_t(grid->rank_at(place))]);
  return {ProcessGrid::on_ranks(grid->extents(), std::move(by_place)), all_cuts(layout)};
}

Layout shared_layout(Comm const& parent, std::optional<PartLayout> const& mine) {
  std::vector<Index> words;
  run_agreed(parent, [&] {
    if (mine) words = words_of(on_ranks(mine->layout, ranks_in(parent, mine->comm)));
  });
  // The lowest rank that has one provides it.
  std::array<Index, 1> speaker{mine ? Index(parent.num_ranks() - parent.rank()) : 0};
  parent.max(speaker);
  if (speaker[0] == 0)
    throw Error("BadLayout", "none of the " + std::to_string(parent.num_ranks()) + " ranks provides a layout");
  int const root = parent.num_ranks() - int(speaker[0]);
  auto shared = words;
  Index num_words = std::ssize(words);
  parent.broadcast(&num_words, Index(sizeof num_words), root);
  shared.resize(std::size_t(num_words));
  parent.broadcast(shared.data(), num_words * Index(sizeof(Index)), root);
  std::optional<Layout> result;
  run_agreed(parent, [&] {
    result = layout_of(shared);
    if (mine && shared != words)
      throw Error("ArgumentDisagreement",
                  to_string(layout_of(words)) + ", rank " + std::to_string(root) + " gives " + to_string(*result));
  });
  return *result;
}

}  // namespace graticule
