// SPDX-License-Identifier: BSD-3-Clause
// Sharded parameters and their gradients from memory of one device to that of another.
#pragma once

#include "messages.hpp"

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace graticule::training::detail {

/// Where parameters lie on a shelf, one after the other.
struct ShelfPlan {
  std::vector<std::size_t> at;
  std::size_t bytes = 0;
  void add(std::size_t part_bytes) {
    at.push_back(bytes);
    bytes += (part_bytes + 63) / 64 * 64;
  }
};

/// Each rank reads the parts of the others in memory of their devices.
class GatherFromShelves final : public Gather {
 public:
  /// Of parts, the same on all ranks.
  [[nodiscard]] static ShelfPlan plan(Comm const& team, std::vector<ShardedParameter> const& parameters);
  /// Shows this rank's parts. @param own by parameter, in one dimension, of any type
  GatherFromShelves(std::shared_ptr<Shelf> shelf, ShardTeam& team, std::string const& unit,
                    std::vector<ShardedParameter> const& parameters, std::vector<torch::Tensor> const& own);
  [[nodiscard]] bool test() override;
  void finish(ShardTeam& team, std::string const& unit) override;
  [[nodiscard]] bool abandoned() const noexcept override { return abandoned_; }
  [[nodiscard]] bool in_messages() override { return false; }

 private:
  struct Part {
    int rank;
    std::size_t at;
    torch::Tensor to;
  };
  std::shared_ptr<Shelf> shelf_;
  std::vector<Part> parts_;
  bool abandoned_ = false;
};

/// Each rank shows all of its gradients in memory of its device, and adds its rows of all ranks'.
class ScatterFromShelves final : public GradientScatter {
 public:
  /// Before the bytes that say which gradients a rank has: which unit they are of.
  static constexpr std::size_t head_bytes = sizeof(std::uint64_t);
  /// Of whole gradients, the same on all ranks.
  [[nodiscard]] static ShelfPlan plan(std::vector<ShardedParameter> const& parameters, ReductionRule const& rule);
  /// Takes the gradients from the parameters and shows them. @throws `UnsupportedTensor`
  ScatterFromShelves(std::shared_ptr<Shelf> shelf, ShardTeam& team, std::string const& unit,
                     std::vector<ShardedParameter>& parameters, ReductionRule const& rule);
  [[nodiscard]] bool test() override;
  void finish(ShardTeam& team, std::vector<ShardedParameter>& parameters, std::string const& unit) override;
  /// The shelf keeps what others may read.
  [[nodiscard]] bool abandoned() const noexcept override { return false; }
  [[nodiscard]] bool in_messages() override { return false; }

 private:
  struct Part {
    std::size_t parameter;
    std::size_t at;
    torch::ScalarType type;
    ShardRows rows;              ///< this rank's elements
    std::vector<char> has = {};  ///< by rank: a gradient
    torch::Tensor sum = {};      ///< of this rank's elements; undefined where no rank has a gradient
  };
  void add();
  /// @throws `StructureDisagreement` on all ranks where they have shown gradients of several units
  void require_one_unit() const;

  std::shared_ptr<Shelf> shelf_;
  ReductionRule rule_;
  int num_ranks_;
  int rank_;
  std::string unit_;
  std::vector<Part> parts_;
};

}  // namespace graticule::training::detail
