// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/detail/named_tensors.hpp>
#include <graticule/partition/comm.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <exception>
#include <utility>
#include <vector>

namespace graticule::training::detail {

/// How the ranks of teams come together again when a pass has failed on one of them.
///
/// The pass may have failed between calls of layers, for which others wait. So the rank that fails notifies all
/// ranks of the teams, and of the domains that lie within one of them. A rank that waits there fails, too, and notifies
/// its own teams. Then all renew these communicators, and restore buffers and the counters of random masks.
class Recovery {
 public:
  Recovery(std::vector<Comm> teams, nn::NamedTensors const& buffers);

  /// Before each pass.
  void remember();
  /// After a pass that all ranks have ended.
  void forget() noexcept { draws_.clear(); }
  /// Not collective. @param failure of this rank, its own, or one that another rank has announced
  void announce(std::exception_ptr const& failure) const;
  /// A domain is renewed while all of its ranks still have it: Python's collector, for one, ends objects at a time of
  /// its own on each rank. Collective. @throws `PeerFailed` where a rank has ended, `StalledExchange`
  void renew() const;

 private:
  struct Kept {
    torch::Tensor buffer;
    torch::Tensor copy;
    std::int64_t version = -1;  ///< of the buffer, when it was copied
  };
  /// Each communicator of this rank once.
  [[nodiscard]] std::vector<Comm> comms() const;

  std::vector<Comm> teams_;
  std::vector<Kept> buffers_;
  std::vector<std::pair<nn::Domain, std::int64_t>> draws_;
};

}  // namespace graticule::training::detail
