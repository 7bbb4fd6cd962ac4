// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/halo/virtual_plan.hpp>

#include <map>

namespace graticule {

namespace {

using Peers = std::map<int, PeerCells>;

Index num_runs(Box const& box) {
  if (box.empty()) return 0;
  return box.ndim() == 0 ? 1 : box.num_cells() / box.extent(box.ndim() - 1);
}

/// What an exchange writes around and in `owned`.
std::vector<Box> filled_boxes(Layout const& layout, HaloShape const& shape, Box const& owned) {
  auto boxes = halo_boxes(owned, grown(owned, shape.widths), shape.corners);
  auto const copies = copied_boxes(layout.global().extents(), shape.boundary, owned);
  boxes.insert(boxes.end(), copies.begin(), copies.end());
  return boxes;
}

std::vector<Width> mirrored(std::vector<Width> widths) {
  for (auto& width : widths) std::swap(width.lower, width.upper);
  return widths;
}

}  // namespace

void check_widths(std::span<Width const> widths, int ndim) {
  if (int(widths.size()) != ndim)
    throw Error("AxesMismatch", std::to_string(widths.size()) + " widths for " + std::to_string(ndim) + " axes");
  for (std::size_t a = 0; a < widths.size(); ++a)
    if (widths[a].lower < 0 || widths[a].upper < 0)
      throw Error("BadWidth", "axis " + std::to_string(a) + " has widths " + std::to_string(widths[a].lower) + " and " +
                                  std::to_string(widths[a].upper));
}

PullCounts VirtualHaloPlan::counts() const noexcept {
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

VirtualHalo::VirtualHalo(Layout layout, HaloShape shape) : layout_(std::move(layout)), shape_(std::move(shape)) {
  check_widths(shape_.widths, layout_.ndim());
  map_ = boundary_map(layout_.global().extents(), shape_.boundary);
  if (layout_.global().empty()) return;
  for (auto const& piece : map_(grown(layout_.global(), shape_.widths)))
    if (!piece.filled && !piece.box.empty()) pieces_.push_back(piece);
}

VirtualHaloPlan VirtualHalo::plan(int rank) const {
  VirtualHaloPlan result;
  result.owned = layout_.owned(rank);
  result.local = grown(result.owned, shape_.widths);
  if (result.owned.empty()) return result;
  Peers peers;
  for (auto const& needed : filled_boxes(layout_, shape_, result.owned))
    for (auto const& piece : map_(needed)) {
      if (piece.filled) {
        result.filled_cells += piece.box.num_cells();
        continue;
      }
      layout_.for_each_owner(source_box(piece), [&](int owner, Box const& part) {
        Box const to = restricted(piece, part).box;
        peers[owner].receive_cells += to.num_cells();
        peers[owner].receive_runs += num_runs(to);
      });
    }
  // Who has ghost cells whose image lies in the owned box: ranks whose local box meets those cells.
  auto const reach = mirrored(shape_.widths);
  for (auto const& piece : pieces_) {
    Box const images = restricted(piece, result.owned).box;
    if (images.empty()) continue;
    layout_.for_each_owner(grown(images, reach), [&](int reader, Box const&) {
      for (auto const& filled : filled_boxes(layout_, shape_, layout_.owned(reader))) {
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
