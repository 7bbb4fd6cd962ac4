// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/halo/detail/boundary_map.hpp>
#include <graticule/halo/detail/halo_boxes.hpp>
#include <graticule/halo/virtual_plan.hpp>
#include <graticule/partition/detail/speech.hpp>

#include "geometry.hpp"

#include <algorithm>
#include <map>

namespace graticule {

namespace {

using Peers = std::map<int, VirtualHalo::Plan::Peer>;

Index num_runs(Box const& box) {
  if (box.empty()) return 0;
  return box.ndim() == 0 ? 1 : box.num_cells() / box.extent(box.ndim() - 1);
}

/// -1, 0 or 1 per axis: the side of `owned` on which `part` lies.
Indices direction_of(Box const& part, Box const& owned) {
  auto direction = Indices::filled(owned.ndim(), 0);
  for (int a = 0; a < owned.ndim(); ++a) {
    if (part.hi(a) <= owned.lo(a)) direction[a] = -1;
    if (part.lo(a) >= owned.hi(a)) direction[a] = 1;
  }
  return direction;
}

/// What an exchange writes around and in `owned`.
std::vector<Box> filled_boxes(Layout const& layout, HaloKind const& kind, Box const& owned) {
  auto boxes = halo_boxes(owned, grown(owned, kind.widths), kind.corners);
  auto const copies = detail::copied_boxes(layout.global().extents(), kind.boundary, owned);
  boxes.insert(boxes.end(), copies.begin(), copies.end());
  if (!kind.directions.empty())
    std::erase_if(boxes, [&](Box const& box) {
      auto const direction = direction_of(box, owned);
      return std::find(kind.directions.begin(), kind.directions.end(), direction) == kind.directions.end();
    });
  return boxes;
}

std::vector<Width> mirrored(std::vector<Width> widths) {
  for (auto& width : widths) std::swap(width.lower, width.upper);
  return widths;
}

void check_any_rank(HaloKind const& kind, int ndim) {
  if (kind.component >= 0)
    throw Error("Unsupported",
                "a plan of any rank has one kind of fields on one face; components of vectors on faces that meet need "
                "a HaloPlan, which counts its traffic");
  if (kind.widths_of == WidthsOf::this_rank)
    throw Error("BadHaloWidth", "a plan of any rank needs widths of all ranks (WidthsOf::all_ranks)");
  if (int(kind.widths.size()) != ndim || (!kind.memory.empty() && int(kind.memory.size()) != ndim))
    throw Error("AxesMismatch",
                std::to_string(ndim) + " axes need widths for each, got " + std::to_string(kind.widths.size()));
  for (std::size_t a = 0; a < kind.widths.size(); ++a) {
    auto const& width = kind.widths[a];
    auto const& memory = kind.memory.empty() ? width : kind.memory[a];
    if (width.lower < 0 || width.upper < 0 || memory.lower < width.lower || memory.upper < width.upper)
      throw Error("BadHaloWidth", detail::axis_text(Index(a), ndim) + " has widths " + std::to_string(width.lower) +
                                      " and " + std::to_string(width.upper) + " and memory for " +
                                      std::to_string(memory.lower) + " and " + std::to_string(memory.upper));
  }
  for (auto const& direction : kind.directions)
    if (direction.size() != ndim || std::any_of(direction.begin(), direction.end(), [](Index d) { return d * d > 1; }))
      throw Error("AxesMismatch", "a direction must be -1, 0 or 1 along each of " + std::to_string(ndim) +
                                      " axes, got " + to_string(direction));
}

}  // namespace

PullCounts VirtualHalo::Plan::counts() const noexcept {
  PullCounts counts;
  for (auto const& peer : peers) {
    counts.num_send_peers += peer.send_cells > 0 ? 1 : 0;
    counts.num_receive_peers += peer.receive_cells > 0 ? 1 : 0;
    counts.send_cells += peer.send_cells;
    counts.receive_cells += peer.receive_cells;
  }
  counts.local_cells = local_cells;
  counts.filled_cells = filled_cells;
  return counts;
}

VirtualHalo::VirtualHalo(Layout layout, HaloKind kind)
    : layout_(std::move(layout)), kind_(std::move(kind)), cells_(layout_) {
  check_any_rank(kind_, layout_.ndim());
  if (layout_.has_holes())
    throw Error("Unsupported",
                "a virtual plan needs a layout without holes; HaloPlan::counts has the traffic of a plan with holes");
  map_ = detail::boundary_map(layout_.global().extents(), kind_.boundary);
  if (layout_.global().empty()) return;
  cells_ = detail::layout_of(layout_, kind_.boundary);
  for (auto const& piece : map_(grown(cells_.global(), kind_.widths)))
    if (!piece.filled && !piece.box.empty()) pieces_.push_back(piece);
}

VirtualHalo::Plan VirtualHalo::plan(int rank) const {
  Plan result;
  result.owned = detail::owned_of(layout_, cells_, rank);
  result.local = detail::local_box(result.owned, kind_);
  if (result.owned.empty()) return result;
  Peers peers;
  for (auto const& needed : filled_boxes(layout_, kind_, result.owned))
    for (auto const& piece : map_(needed)) {
      if (piece.filled) {
        result.filled_cells += piece.box.num_cells();
        continue;
      }
      cells_.for_each_owner(source_box(piece), [&](int owner, Box const& part) {
        Box const to = restricted(piece, part).box;
        peers[owner].receive_cells += to.num_cells();
        peers[owner].receive_runs += num_runs(to);
      });
    }
  // Who has ghost cells whose image lies in the owned box: ranks whose local box meets those cells.
  auto const reach = mirrored(kind_.widths);
  for (auto const& piece : pieces_) {
    Box const images = restricted(piece, result.owned).box;
    if (images.empty()) continue;
    cells_.for_each_owner(grown(images, reach), [&](int reader, Box const&) {
      for (auto const& filled : filled_boxes(layout_, kind_, cells_.owned(reader))) {
        Box const to = intersection(filled, images);
        if (to.empty()) continue;
        peers[reader].send_cells += to.num_cells();
        peers[reader].send_runs += num_runs(to);
      }
    });
  }
  for (auto& [peer, cells] : peers) {
    cells.peer = peer;
    if (peer != rank) {
      result.peers.push_back(cells);
      continue;
    }
    result.local_cells = cells.receive_cells;
    result.local_runs = cells.receive_runs;
  }
  return result;
}

}  // namespace graticule
