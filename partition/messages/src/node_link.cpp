// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/messages/detail/lanes.hpp>
#include <graticule/messages/detail/node_link.hpp>
#include <graticule/partition/detail/end.hpp>

#include <algorithm>
#include <iterator>
#include <new>
#include <thread>

namespace graticule::messages {

namespace {

/// One item to and from each peer.
template <class T>
std::vector<T> swap_with_peers(Lanes&& lanes, std::vector<int> const& peers, std::vector<T> const& given) {
  auto const& mine = lanes.keep(given);
  auto& theirs = lanes.keep(std::vector<T>(peers.size()));
  for (std::size_t p = 0; p < peers.size(); ++p) lanes.take(peers[p], &theirs[p], sizeof(T));
  for (std::size_t p = 0; p < peers.size(); ++p) lanes.post(peers[p], &mine[p], sizeof(T));
  lanes.wait("for a peer on its node to make the same plan");
  return theirs;
}

struct LinkOffer {
  NodeAddress ring;
  int willing = 0;
};

}  // namespace

NodeLinks::NodeLinks(Comm const& comm, std::set<int> const& all, Transport wanted) : comm_(comm), wanted_(wanted) {
  int const tag = comm.next_tag();
  std::vector<int> peers;
  std::copy_if(all.begin(), all.end(), std::back_inserter(peers), [&](int peer) { return comm.on_this_node(peer); });
  if (wanted != Transport::point_to_point && !peers.empty())
    rings_ = allocate_node_block(peers.size() * sizeof(PostRing));
  std::vector<LinkOffer> offers(peers.size());
  for (std::size_t p = 0; rings_ && p < peers.size(); ++p) {
    auto const offset = p * sizeof(PostRing);
    new (rings_->data + offset) PostRing;
    offers[p] = {{rings_->address.segment, rings_->address.offset + offset}, 1};
  }
  auto const theirs = swap_with_peers(Lanes(comm, tag), peers, offers);
  std::vector<std::byte*> mapped(peers.size(), nullptr);
  std::vector<int> opened(peers.size(), 0);
  for (std::size_t p = 0; p < peers.size(); ++p) {
    if (!rings_ || !theirs[p].willing) continue;
    mapped[p] = map_node_address(theirs[p].ring);
    opened[p] = mapped[p] ? 1 : 0;
  }
  auto const theirs_opened = swap_with_peers(Lanes(comm, tag), peers, opened);
  for (std::size_t p = 0; p < peers.size(); ++p) {
    if (opened[p] && theirs_opened[p]) {
      links_.emplace_back(peers[p], reinterpret_cast<PostRing*>(rings_->data + p * sizeof(PostRing)),
                          reinterpret_cast<PostRing*>(mapped[p]));
      continue;
    }
    bool const asked = wanted == Transport::point_to_point;
    bool const asked_there = !theirs[p].willing;
    refused_.push_back({peers[p], asked         ? "point-to-point was asked for"
                                  : !rings_     ? "this rank has no memory to share"
                                  : asked_there ? "the peer shares no memory"
                                                : "the peer's memory cannot be mapped"});
  }
}

bool NodeLinks::settle(double longest_wait) noexcept {
  // Nobody reads any more.
  if (graticule::detail::mpi_is_over()) return true;
  double const begin = MPI_Wtime();
  for (auto const& link : links_) {
    while (!link.all_consumed()) {
      if (MPI_Wtime() - begin > longest_wait || comm_.failed_peer()) return false;
      std::this_thread::yield();
    }
  }
  return true;
}

void NodeLinks::free_rings() noexcept {
  if (rings_) free_node_block(*rings_);
  rings_.reset();
}

NodeLink* NodeLinks::find(int peer) const noexcept {
  auto const at = std::lower_bound(links_.begin(), links_.end(), peer,
                                   [](NodeLink const& link, int rank) { return link.peer() < rank; });
  return at != links_.end() && at->peer() == peer ? &*at : nullptr;
}

std::string NodeLinks::reason(int peer) const {
  if (find(peer)) return wanted_ == Transport::node_shared ? "asked for" : "same node";
  for (auto const& refused : refused_)
    if (refused.peer == peer) return refused.reason;
  return "on another node";
}

}  // namespace graticule::messages
