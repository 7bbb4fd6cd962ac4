// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/call/unit.hpp>
#include <graticule/nn_bridge/detail/named_tensors.hpp>
#include <graticule/training/sharded/parameters.hpp>

#include <torch/torch.h>

#include <optional>
#include <string>
#include <vector>

namespace graticule::training::detail {

struct FoundUnit {
  std::string name;
  torch::nn::Module* module = nullptr;
  nn::Hooked* hooked = nullptr;  ///< nothing for a model that is no unit
  nn::NamedTensors parameters;   ///< in no unit below
};

struct UnitSearch {
  std::vector<FoundUnit> units;  ///< those below others first; the model is the last
  nn::NamedTensors ignored;      ///< parameters that stay whole
  std::vector<std::string> notes;
};

/// Divides the parameters of a model into units. Local.
/// @throws `NoParameters`, `WrongState`, `UnknownName`, `ParametersChanged`, `UnsupportedTensor`
[[nodiscard]] UnitSearch find_units(std::shared_ptr<torch::nn::Module> const& model,
                                    ShardedParametersOptions const& options);

/// The order in which units are called in a pass, and which to gather ahead of their calls: those that the options list
/// for a unit, else the one that followed it in the last pass.
class UnitOrder {
 public:
  using Places = std::vector<std::size_t>;

  UnitOrder() = default;
  /// @throws `UnknownName`
  UnitOrder(std::vector<FoundUnit> const& units, ShardedParametersOptions const& options);

  /// Unit `u` is called in the forward. @returns the units to gather ahead
  [[nodiscard]] Places begin_forward(std::size_t u);
  /// Its call has ended, and has a backward.
  void end_forward(std::size_t u);
  [[nodiscard]] Places begin_backward(std::size_t u);
  void forward_is_over() noexcept { last_forward_.reset(); }
  void backward_is_over() noexcept { last_backward_.reset(); }
  /// After a forward that failed: no unit comes before the next one.
  void forget_forward() noexcept;

 private:
  struct Ahead {
    std::optional<Places> listed;
    std::optional<std::size_t> next;
    [[nodiscard]] Places places() const;
  };
  struct Unit {
    Ahead in_forward;
    Ahead in_backward;
  };

  std::vector<Unit> units_;
  std::optional<std::size_t> last_forward_;
  std::optional<std::size_t> last_ended_;  ///< in the forward
  std::optional<std::size_t> last_backward_;
};

}  // namespace graticule::training::detail
