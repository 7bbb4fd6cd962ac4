// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/models/detail/forcing.hpp>
#include <graticule/samples/detail/batches.hpp>
#include <graticule/samples/detail/read_ahead.hpp>
#include <graticule/samples/detail/sample_store.hpp>
#include <graticule/samples/detail/time_steps.hpp>

#include "names.hpp"

#include <span>
#include <vector>

namespace graticule::forecasting {

/// Which states a sample consists of: those of its initial time and before, and those that follow.
struct SequenceShape {
  Index history = 1;  ///< states up to the initial time, one lead apart
  Index steps = 1;    ///< leads that follow
  Period targets;     ///< states that follow and lie outside of this period are missing

  friend bool operator==(SequenceShape const&, SequenceShape const&) = default;
};

/// Some samples on this rank's box, normalised, without gaps.
struct SequenceBatch {
  Index num_samples = 0;
  DType dtype = DType::f32;
  /// [sample][history + steps][channel][row][column]: the initial state, earlier ones, then those that follow. Missing
  /// values are NaN; diagnostic channels of the history are 0.
  void const* states = nullptr;
  void const* forcings = nullptr;  ///< [sample][steps][forcing][row][column]
};

/// Supplies the sequences of a training or an evaluation, and reads the next ones during the current step.
///
/// A sample is the number of its initial state; from `num_states` on of a mirror image. As `samples::BatchSource`, for
/// several states and without derivatives.
class SequenceSource {
 public:
  struct Options {
    Index num_members = 1;
    std::size_t num_prognostic = 0;
    std::vector<ChannelScale> scales;  ///< of each channel
    std::vector<Forcing> forcings;
    Places places;
    DType dtype = DType::f32;
  };
  /// @param world all ranks, which agree on failures; all references must outlive this
  SequenceSource(Comm const& world, samples::TimeSteps const& steps, samples::SampleStore& store, Options options);
  SequenceSource(SequenceSource const&) = delete;
  SequenceSource& operator=(SequenceSource const&) = delete;

  /// Returns these samples; reading of the upcoming ones, of the same shape, begins. Collective over `world`; the ranks
  /// of a domain request the same samples, possibly none. The result is valid until the next call.
  /// @throws what the reading thread met on any rank, on all ranks
  [[nodiscard]] SequenceBatch take(std::span<Index const> samples, SequenceShape const& shape,
                                   std::span<Index const> upcoming = {});

  [[nodiscard]] double seconds_waited() const noexcept { return ahead_.seconds_waited(); }
  /// Waits for the running read.
  [[nodiscard]] samples::StoreCounts counts();
  /// Bytes of two batches of so many samples, one that is used and one that is read.
  [[nodiscard]] static Index working_bytes(samples::SampleReader const& reader, Options const& options,
                                           SequenceShape const& longest, Index most_samples);

 private:
  struct Request {
    std::vector<Index> samples;
    SequenceShape shape;

    friend bool operator==(Request const&, Request const&) = default;
  };
  struct Slot {
    Request request;
    samples::NumberBuffer states;
    samples::NumberBuffer forcings;
  };
  void gather(Slot& slot);
  void gather_states(Slot& slot, std::size_t place);
  void gather_forcings(Slot& slot, std::size_t place);
  void write(std::size_t channel, samples::NumberBuffer const& to, std::size_t cell);
  [[nodiscard]] std::size_t num_cells() const { return std::size_t(store_.reader().num_cells()); }
  [[nodiscard]] std::size_t num_forcings() const { return forcing_channels(options_.forcings).size(); }

  samples::TimeSteps const& steps_;
  samples::SampleStore& store_;
  Options options_;
  Places mirrored_;
  std::vector<double> field_;
  samples::ReadAhead<Slot> ahead_;
};

}  // namespace graticule::forecasting
