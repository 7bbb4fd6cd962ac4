// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/samples/detail/channels.hpp>
#include <graticule/samples/detail/read_ahead.hpp>
#include <graticule/samples/detail/sample_store.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

namespace graticule::samples {

/// Mapping from the fields of a store to channels.
struct ChannelPlan {
  struct Input {
    std::size_t field = 0;
    Feature feature = Feature::value;
    Scaling scaling = {};
  };
  struct Target {
    std::size_t field = 0;
    Scaling scaling = {};
  };
  std::vector<Input> inputs;
  std::vector<Target> targets;
  Index num_levels = 1;

  /// Fields of which derivatives are made, each once.
  [[nodiscard]] std::vector<std::size_t> derived_fields() const;
};

/// Whether a batch brings the targets in their own units too.
enum class Truth : std::uint8_t { without, with };

/// Some samples on this rank's box, normalised: [sample][channel][row][column] without gaps.
struct Batch {
  Index num_samples = 0;
  DType dtype = DType::f32;
  void const* inputs = nullptr;   ///< no missing values
  void const* targets = nullptr;  ///< missing values are NaN
  std::span<double const> truth;  ///< of the targets, in their units; empty unless asked for
};

/// Memory for numbers, in steps of 64 bytes as LibTorch allocates its own.
class NumberBuffer {
 public:
  [[nodiscard]] void* data() const noexcept { return data_.get(); }
  /// Growing discards its contents.
  void reserve(std::size_t bytes);

 private:
  struct Free {
    void operator()(void* memory) const noexcept { std::free(memory); }
  };
  std::unique_ptr<void, Free> data_;
  std::size_t bytes_ = 0;
};

/// Supplies the batches of a training, and reads the next one during the current step.
///
/// A thread reads, unpacks and normalises; derivatives, whose ghost cells come from other ranks, are made when the
/// batch is taken. The numbers do not depend on what is held in memory, nor on the hints.
class BatchSource {
 public:
  /// @param world all ranks of the training, which agree on failures, @param derivatives of the domain, @param store in
  /// nobody else's use; all references must outlive this
  BatchSource(Comm const& world, Derivatives const& derivatives, SampleStore& store, ChannelPlan plan, DType dtype);
  BatchSource(BatchSource const&) = delete;
  BatchSource& operator=(BatchSource const&) = delete;
  ~BatchSource();

  /// Returns these samples. The hint lists the next ones, whose reading begins before this returns.
  ///
  /// Collective; the ranks of a domain request the same samples, possibly none. Valid until the next call.
  /// @throws what the reading thread met on any rank, on all ranks
  /// Cost: one all-reduce of 1 integer; one halo exchange of the fields that derivatives are made of
  [[nodiscard]] Batch take(std::span<Index const> samples, std::span<Index const> upcoming = {},
                           Truth truth = Truth::without);

  /// Seconds that `take` has waited for the thread.
  [[nodiscard]] double seconds_waited() const noexcept { return ahead_.seconds_waited(); }
  /// Waits for the running read.
  [[nodiscard]] StoreCounts counts();

  /// Bytes of memory for batches of up to so many samples: one that trains and one that is read.
  [[nodiscard]] static Index working_bytes(Derivatives const& derivatives, SampleReader const& reader,
                                           ChannelPlan const& plan, DType dtype, Index most_samples);

 private:
  struct Request {
    std::vector<Index> samples;
    Truth truth = Truth::without;

    friend bool operator==(Request const&, Request const&) = default;
  };
  struct Slot {
    Request request;
    NumberBuffer inputs;
    NumberBuffer targets;
    std::vector<double> truth_values;
    std::vector<PaddedField> padded;  ///< of each derived field
  };

  void gather(Slot& slot);
  void gather(Slot& slot, std::size_t place, std::size_t field);
  void derive(Slot& slot);
  void write(std::span<double const> values, Scaling const& scaling, Index sample, Missing missing,
             NumberBuffer const& to, std::size_t cell) const;
  [[nodiscard]] std::size_t num_cells() const { return std::size_t(store_.reader().num_cells()); }

  Derivatives const& derivatives_;
  SampleStore& store_;
  ChannelPlan plan_;
  DType dtype_;
  std::vector<std::size_t> derived_;  ///< fields, in the order of `Slot::padded`
  std::vector<double> field_;         ///< the thread's: one field of one sample
  std::vector<double> derivative_;    ///< the caller's
  ReadAhead<Slot> ahead_;             ///< the batch that trains and the one that is read
};

}  // namespace graticule::samples
