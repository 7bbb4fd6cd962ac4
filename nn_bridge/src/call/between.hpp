// SPDX-License-Identifier: BSD-3-Clause
// What layers say of their inputs and outputs to the code that runs between them.
#pragma once

#include <graticule/nn_bridge/call/domain.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <string>

namespace graticule::nn::detail {

/// What a layer or a loss takes.
enum class Entry : std::uint8_t {
  field,  ///< cells of the globe, cut as the domain's
  sum,    ///< a sum over the cells of this rank, which it completes
  any,    ///< a tensor of this rank
};

/// The operators between the layers of a sharded model: see `eager/interceptor.hpp`, which is linked with `shard`.
class Between {
 public:
  virtual ~Between() = default;

  /// @throws `NotSharded` where `x` is not what the layer takes it for
  virtual void check_entry(torch::Tensor const& x, Domain const& domain, std::string const& layer, Entry entry) = 0;
  /// @throws `NotSharded` where a layer has been given what is of no use on shards: in its agreement, so that all ranks
  /// do
  virtual void check_given() = 0;
  /// Hash of the numbers in the code that has made what a layer has been given, once: ranks differ where these come
  /// from sizes or values of their shards.
  [[nodiscard]] virtual std::uint64_t take_numbers() noexcept = 0;
  /// A layer of this library has made `y` from `x`, in the same cuts.
  virtual void hand_on(torch::Tensor const& x, torch::Tensor const& y) = 0;
  /// Operators are those of a layer from now on, or no longer.
  virtual void set_own_code(bool own) noexcept = 0;

  /// Of this thread; null where it has no sharded model.
  [[nodiscard]] static Between*& current() noexcept;
};

void check_entry(torch::Tensor const& x, Domain const& domain, std::string const& layer, Entry entry);
torch::Tensor hand_on(torch::Tensor const& x, torch::Tensor y, Domain const& domain);

}  // namespace graticule::nn::detail
