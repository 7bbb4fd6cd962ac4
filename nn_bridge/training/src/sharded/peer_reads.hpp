// SPDX-License-Identifier: BSD-3-Clause
// Sharded parameters and their gradients, read from device memory of other ranks of the node.
#pragma once

#include "messages.hpp"

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace graticule::training::detail {

/// Where parameters lie in a shared buffer, one after the other.
struct BufferPlan {
  std::vector<std::size_t> at;
  std::size_t bytes = 0;
  void add(std::size_t part_bytes) {
    at.push_back(bytes);
    bytes += (part_bytes + 63) / 64 * 64;
  }
};

/// Each rank reads the parts of the others from their device memory.
class PeerGather final : public Gather {
 public:
  /// The places of parts, the same on all ranks.
  [[nodiscard]] static BufferPlan plan(Comm const& team, std::vector<ShardedParameter> const& parameters);
  /// Shows this rank's parts. @param own by parameter, in one dimension, of any type
  PeerGather(std::shared_ptr<SharedBuffer> shared_buffer, ShardTeam& team, std::string const& unit,
             std::vector<ShardedParameter> const& parameters, std::vector<torch::Tensor> const& own);
  [[nodiscard]] bool test() override;
  void finish(ShardTeam& team, std::string const& unit) override;
  [[nodiscard]] bool abandoned() const noexcept override { return abandoned_; }

 private:
  struct Part {
    int rank;
    std::size_t at;
    torch::Tensor to;
  };
  std::shared_ptr<SharedBuffer> shared_;
  std::vector<Part> parts_;
  bool abandoned_ = false;
};

/// Each rank shows all of its gradients in its device memory, and adds the gradients of all ranks for its own rows.
/// Never abandoned: others read the shared buffer only, which stays.
class PeerScatter final : public GradientScatter {
 public:
  /// Number of the unit; after it, one byte per gradient says whether the rank has it.
  static constexpr std::size_t head_bytes = sizeof(std::uint64_t);
  /// The places of whole gradients, the same on all ranks.
  [[nodiscard]] static BufferPlan plan(std::vector<ShardedParameter> const& parameters, ReductionRule const& rule);
  /// Takes the gradients from the parameters and shows them. @throws `UnsupportedTensor`
  PeerScatter(std::shared_ptr<SharedBuffer> shared_buffer, ShardTeam& team, std::string const& unit,
              std::vector<ShardedParameter>& parameters, ReductionRule const& rule);
  [[nodiscard]] bool test() override;
  void finish(ShardTeam& team, std::vector<ShardedParameter>& parameters, std::string const& unit) override;

 private:
  struct Part {
    std::size_t parameter;
    std::size_t at;
    torch::ScalarType type;
    ShardRows rows;              ///< this rank's elements
    std::vector<char> has = {};  ///< by rank: it has a gradient
    torch::Tensor sum = {};      ///< of this rank's elements; undefined where no rank has a gradient
  };
  void add();
  /// @throws `StructureDisagreement` on all ranks where they have shown gradients of several units
  void require_one_unit() const;

  std::shared_ptr<SharedBuffer> shared_;
  ReductionRule rule_;
  int num_ranks_;
  int rank_;
  std::string unit_;
  std::vector<Part> parts_;
};

}  // namespace graticule::training::detail
