// SPDX-License-Identifier: BSD-3-Clause
// Calls of plans whose messages travel in segments: their order and their buffers.
#include "segments.hpp"

#include <algorithm>

namespace graticule::detail {

void SegmentQueue::remove(Segments const& call) noexcept {
  for (auto* list : {&all_, &under_way_}) std::erase(*list, &call);
}

void SegmentQueue::begin(Segments& call) {
  auto const posted = [](Segments const* other) { return other->all_posted(); };
  bool const may_post = budget_ == 0 && std::all_of(under_way_.begin(), under_way_.end(), posted);
  under_way_.push_back(&call);
  if (!may_post) return;
  call.open();
  while (call.sender_.push()) {
  }
}

void SegmentQueue::join(Segments& call) {
  auto const later = std::find_if(under_way_.begin(), under_way_.end(),
                                  [&](Segments const* other) { return other->call_.number > call.call_.number; });
  under_way_.insert(later, &call);
}

bool SegmentQueue::advance() {
  if (under_way_.empty()) return false;
  auto& oldest = *under_way_.front();
  if (!oldest.progress_.opened && budget_ > 0)
    for (auto* const call : all_) {
      if (is_under_way(*call)) continue;
      // Peers that have refused a call may not have taken what they were sent.
      if (!call->has_free_buffers()) return false;
      call->release_buffers();
    }
  bool const moved = oldest.step();
  if (!oldest.is_complete()) return moved;
  under_way_.erase(under_way_.begin());
  return true;
}

bool SegmentQueue::is_under_way(Segments const& call) const noexcept {
  return std::find(under_way_.begin(), under_way_.end(), &call) != under_way_.end();
}

bool SegmentQueue::is_idle() const {
  return under_way_.empty() &&
         std::all_of(all_.begin(), all_.end(), [](Segments const* call) { return call->is_read(); });
}

}  // namespace graticule::detail
