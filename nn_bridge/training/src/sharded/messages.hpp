// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/messages/detail/lanes.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/training/data_parallel/checks.hpp>
#include <graticule/training/detail/shard_rule.hpp>

#include "shared_buffer.hpp"

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace graticule::training::detail {

using graticule::detail::keep_for_good;

/// One parameter: the whole leaf of the module, whose memory comes and goes, and this rank's rows, which stay.
struct ShardedParameter {
  std::string name;
  torch::Tensor full;    ///< the leaf in the module
  torch::Tensor values;  ///< shares the memory of `full`, not its version: writes to it leave saved tensors valid
  torch::Tensor shard;   ///< leaf of this rank's rows, in the parameter's own dtype
  bool needs_gradient = false;  ///< when it was sharded, on all ranks alike: messages do not change later
  std::int64_t num_rows = 0;
  std::int64_t row_numel = 0;  ///< elements of a row
  torch::Tensor reduced;       ///< of this backward: gradient of the shard, over the shard team
  torch::Tensor held;          ///< sums of backwards that were not synchronised

  /// Range of a rank's elements among all, in one dimension.
  [[nodiscard]] ShardRows elements_of(Comm const& team, int rank) const {
    auto const rows = shard_rows(num_rows, team.num_ranks(), rank);
    return {rows.lo * row_numel, rows.hi * row_numel};
  }
};

/// A range of the elements of a tensor in one dimension.
[[nodiscard]] inline torch::Tensor elements(torch::Tensor const& flat, ShardRows range) {
  return flat.narrow(0, range.lo, range.size());
}

/// The team over which parameters are cut, and how its messages go.
struct ShardTeam {
  Comm comm;
  messages::Stall stall = messages::Stall::by_rule;
  messages::MessageCounts counts = {};
  std::shared_ptr<SharedBuffer> gradients = {};  ///< of the unit whose gradients are being added

  void count(messages::MessageCounts const& sent) {
    counts.messages += sent.messages;
    counts.bytes += sent.bytes;
  }
};

/// One rank's parts of small tensors as one message, each at a multiple of 16 bytes.
class Packed {
 public:
  void add(std::size_t part_bytes) {
    offsets_.push_back(bytes_.size());
    bytes_.resize(bytes_.size() + (part_bytes + 15) / 16 * 16);
  }
  [[nodiscard]] std::byte* part(std::size_t number) { return bytes_.data() + offsets_[number]; }
  [[nodiscard]] std::byte* data() { return bytes_.data(); }
  [[nodiscard]] Index size() const { return Index(bytes_.size()); }

 private:
  std::vector<std::size_t> offsets_;
  std::vector<std::byte> bytes_;
};

/// Transfers of a unit between the ranks of a team, under way.
class Transfer {
 public:
  Transfer() = default;
  Transfer(Transfer const&) = delete;
  Transfer& operator=(Transfer const&) = delete;
  virtual ~Transfer() = default;
  /// Proceeds without blocking; true when nothing is left to wait for.
  [[nodiscard]] virtual bool test() = 0;
  /// Whether the wait has failed.
  [[nodiscard]] virtual bool abandoned() const noexcept { return false; }
  /// Whether MPI uses memory of the parameters or of this object.
  [[nodiscard]] virtual bool in_messages() { return false; }
};

/// Whole parameters on their way from all ranks of the team.
class Gather : public Transfer {
 public:
  /// Waits until all are complete; on a device later work in the current stream waits.
  virtual void finish(ShardTeam& team, std::string const& unit) = 0;
};

/// Large parts are sent from and received into their places; the small parts of a rank are one message.
class GatherByMessages final : public Gather {
 public:
  /// Posts the messages. @param flat by parameter: all elements in one dimension, on the host, this rank's with values
  GatherByMessages(ShardTeam& team, int tag, std::vector<ShardedParameter> const& parameters,
                   std::vector<torch::Tensor> flat);
  [[nodiscard]] bool test() override { return lanes_.test(); }
  /// Also copies the small parts to their places.
  void finish(ShardTeam& team, std::string const& unit) override;
  [[nodiscard]] bool abandoned() const noexcept override { return lanes_.abandoned(); }
  [[nodiscard]] bool in_messages() override { return !lanes_.test(); }

 private:
  std::vector<std::vector<torch::Tensor>> small_;  ///< by rank, then part
  std::vector<Packed> packed_;                     ///< by rank
  std::vector<torch::Tensor> flat_;
  messages::Lanes lanes_;
};

/// How gradients are reduced, and what happens if some ranks have one and others have none.
struct ReductionRule {
  double factor = 1;
  std::optional<torch::ScalarType> dtype = {};  ///< on the wire, for real floating-point gradients
  Unused unused = Unused::allowed;
};

/// The type in which the gradient of a parameter is sent.
[[nodiscard]] torch::ScalarType wire_type(ShardedParameter const& parameter, ReductionRule const& rule);
/// The gradient of the whole parameter; undefined where there is none. @throws `UnsupportedTensor` for a sparse one
[[nodiscard]] torch::Tensor whole_gradient(ShardedParameter const& parameter);
/// Whether any rank has a gradient. @param has by rank @throws `UnusedParameter` on all ranks alike
[[nodiscard]] bool is_given(ShardedParameter const& parameter, std::vector<char> const& has, ReductionRule const& rule);
/// The sum of two gradients, each of which may be undefined. @param a, b of any stream; may be released next
[[nodiscard]] torch::Tensor sum_of(torch::Tensor const& a, torch::Tensor const& b);
/// Adds the sum over ranks of this rank's rows, times the factor, to `reduced`. @param total no longer used by others
void add_reduced(ShardedParameter& parameter, torch::Tensor total, ReductionRule const& rule);

/// Gradients of whole parameters on their way to the ranks that keep the rows.
///
/// These sum them in order of ranks, on the device of the parameters: in the dtype of the wire, 16-bit ones in f32.
class GradientScatter : public Transfer {
 public:
  /// Waits and adds the sums, times the factor, to `reduced`. A gradient that no rank has stays undefined.
  /// @throws `UnusedParameter` on all ranks alike
  virtual void finish(ShardTeam& team, std::vector<ShardedParameter>& parameters, std::string const& unit) = 0;
};

class ScatterByMessages final : public GradientScatter {
 public:
  /// Takes the gradients from the parameters and posts the messages. @throws `UnsupportedTensor`
  ScatterByMessages(ShardTeam& team, int tag, std::vector<ShardedParameter>& parameters, ReductionRule const& rule);
  [[nodiscard]] bool test() override { return lanes_.test(); }
  void finish(ShardTeam& team, std::vector<ShardedParameter>& parameters, std::string const& unit) override;
  [[nodiscard]] bool abandoned() const noexcept override { return lanes_.abandoned(); }
  [[nodiscard]] bool in_messages() override { return !lanes_.test(); }

 private:
  struct Part {
    std::size_t parameter = 0;
    bool small = false;
    bool present = false;                ///< on this rank
    torch::Tensor wire;                  ///< the whole gradient, in one dimension, on the host
    std::vector<torch::Tensor> by_rank;  ///< the gradients of all ranks for this rank's elements
  };
  void add_part(Comm const& team, std::size_t index, ShardedParameter& parameter);
  void pack(Comm const& team, std::vector<ShardedParameter> const& parameters);
  void post(Comm const& team, std::vector<ShardedParameter> const& parameters);
  [[nodiscard]] bool present_on(std::size_t part, int rank);

  ReductionRule rule_;
  std::vector<Part> parts_;
  std::vector<Packed> sent_;      ///< by rank; first one byte per part: whether it is present
  std::vector<Packed> received_;  ///< by rank
  messages::Lanes lanes_;
};

}  // namespace graticule::training::detail
