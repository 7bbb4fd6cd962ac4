// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/error.hpp>

namespace graticule::detail {

class Channel;

/// An error of another rank that all ranks of a communicator throw: that rank, the speaker, throws its own.
class AgreedError : public Error {
 public:
  AgreedError(Error const& error, Channel* channel, int speaker) : Error(error), channel_(channel), speaker_(speaker) {}

  /// Null where the communicator has none.
  [[nodiscard]] Channel* channel() const noexcept { return channel_; }
  /// Place of the speaker in the channel.
  [[nodiscard]] int speaker() const noexcept { return speaker_; }

 private:
  Channel* channel_;
  int speaker_;
};

}  // namespace graticule::detail
