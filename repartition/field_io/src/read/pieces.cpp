// SPDX-License-Identifier: BSD-3-Clause
#include "pieces.hpp"

#include <graticule/partition/detail/agreement.hpp>

#include <algorithm>
#include <array>
#include <exception>

namespace graticule::detail {

namespace {

void cut(Box const& box, Indices const& chunk, Index most_cells, std::vector<Box>& pieces) {
  Index const num_cells = box.num_cells();
  if (num_cells <= most_cells) {
    pieces.push_back(box);
    return;
  }
  int axis = 0;
  while (box.extent(axis) == 1) ++axis;
  Index const row_cells = num_cells / box.extent(axis);
  Index const most_rows = std::max<Index>(most_cells / row_cells, 1);
  Index const chunk_rows = axis < chunk.size() ? std::max<Index>(chunk[axis], 1) : 1;
  for (Index lo = box.lo(axis); lo < box.hi(axis);) {
    Index hi = std::min(lo + most_rows, box.hi(axis));
    if (Index const aligned = hi / chunk_rows * chunk_rows; hi < box.hi(axis) && aligned > lo) hi = aligned;
    Box part = box;
    part.set(axis, lo, hi);
    cut(part, chunk, most_cells, pieces);
    lo = hi;
  }
}

}  // namespace

std::vector<Box> contiguous_pieces(Box const& box, Indices const& chunk, Index most_cells) {
  std::vector<Box> pieces;
  if (!box.empty()) cut(box, chunk, std::max<Index>(most_cells, 1), pieces);
  return pieces;
}

Piece Rounds::piece(Index round, Piece const& last) const {
  Piece result;
  result.first = last.first + last.count;
  if (round < Index(pieces.size())) result.box = &pieces[std::size_t(round)];
  if (result.box != nullptr) result.count = std::size_t(result.box->num_cells());
  return result;
}

Rounds agreed_rounds(Comm const& comm, std::function<Portion()> const& prepare) {
  Rounds rounds;
  std::exception_ptr failure;
  try {
    auto const portion = prepare();
    rounds.num_cells = portion.box.num_cells();
    rounds.pieces = contiguous_pieces(portion.box, portion.chunk, portion.most_cells);
  } catch (...) {
    failure = std::current_exception();
  }
  std::array<Index, 2> most{failure ? 1 : 0, Index(rounds.pieces.size())};
  comm.max(most);
  if (most[0] != 0) agree(comm, failure);
  rounds.count = most[1];
  return rounds;
}

}  // namespace graticule::detail
