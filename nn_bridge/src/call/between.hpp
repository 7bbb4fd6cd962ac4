// SPDX-License-Identifier: BSD-3-Clause
// What layers say of their inputs and outputs to the code that runs between them.
#pragma once

#include <graticule/nn_bridge/call/domain.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

namespace graticule::nn::detail {

/// What a layer or a loss takes.
enum class Entry : std::uint8_t {
  field,  ///< cells of the globe, cut as the domain's
  sum,    ///< a sum over the cells of this rank, which it completes
  any,    ///< a tensor of this rank
};

/// Numbers that cells are computed with.
///
/// Example: `h * torch::rand({2, 1, 1, 1})` has one draw, `h + torch::rand_like(h)` none, because its numbers are those
/// of cells. A rank with a single row cannot tell these two: it has a draw in both, and is not sure.
struct CellNumbers {
  std::uint64_t hash = 0;            ///< of those in the code
  std::vector<std::uint64_t> draws;  ///< hashes of random numbers for whole rows, in order
  bool is_sure = true;               ///< that all of the draws are for whole rows

  void add_draws(std::vector<std::uint64_t> const& others);
  [[nodiscard]] std::uint64_t fingerprint() const;
  /// Why these cannot be the numbers of one program on all ranks; empty where they can. Collective.
  ///
  /// Draws that one rank is sure of are those of all: others that are sure have no more, and the rest have them all.
  /// If no rank is sure, all have the same draws. Cost: two gathers.
  [[nodiscard]] std::string difference(Comm const& comm) const;
};

/// The operators between the layers of a sharded model: see `eager/interceptor.hpp`, which is linked with `shard`.
class Between {
 public:
  virtual ~Between() = default;

  /// Checks that the input `x` of a layer is what the layer takes. @throws `NotSharded`
  virtual void check_entry(torch::Tensor const& x, Domain const& domain, std::string const& layer, Entry entry) = 0;
  /// Called within a layer's agreement, so that all ranks throw. @throws `NotSharded` where the layer was given
  /// numbers that are wrong on shards
  virtual void check_given() = 0;
  /// Returns once the numbers with which the model's code computed a layer's input. Ranks have different
  /// ones where these come from sizes or values of their shards, or from generators of different seeds.
  [[nodiscard]] virtual CellNumbers take_numbers() noexcept = 0;
  /// Notes that a layer of this library made `y` from `x`, in the same cuts.
  virtual void hand_on(torch::Tensor const& x, torch::Tensor const& y) = 0;
  /// Says whether the operators that follow are a layer's own, which are not planned.
  virtual void set_own_code(bool own) noexcept = 0;

  /// Of this thread; null where it has no sharded model.
  [[nodiscard]] static Between*& current() noexcept;
};

void check_entry(torch::Tensor const& x, Domain const& domain, std::string const& layer, Entry entry);
torch::Tensor hand_on(torch::Tensor const& x, torch::Tensor y, Domain const& domain);

}  // namespace graticule::nn::detail
