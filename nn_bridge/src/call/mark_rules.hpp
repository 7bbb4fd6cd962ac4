// SPDX-License-Identifier: BSD-3-Clause
// What operators make of shards: which axes of their results are cut, and which results are wrong.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace graticule::nn::detail {

using MarkText = std::shared_ptr<std::string const>;

/// What is known of a tensor in the forward of a sharded model.
struct Mark {
  std::vector<std::uint8_t> cut;   ///< for each axis: 1 for rows and 2 for columns, where they are cut along it
  MarkText wrong;                  ///< why its values are not those of the whole field
  MarkText partial;                ///< the operator that has reduced the cells of this rank alone
  std::uint8_t partial_along = 0;  ///< rows, columns
  MarkText local;                  ///< the operator that has made it by local index, or of random numbers
  bool is_random = false;
  void const* domain = nullptr;  ///< in which it is a shard
  bool is_assumed = false;       ///< a shard only by its extents

  [[nodiscard]] bool is_cut() const noexcept;
  [[nodiscard]] bool says_nothing() const noexcept { return !is_cut() && !wrong && !partial && !local; }
};

enum class MarkRule : std::uint8_t;  // in mark_rules.cpp

/// An operator of LibTorch.
struct OperatorInfo {
  std::string name;  ///< `aten::roll`
  MarkRule rule;
  std::vector<std::string> arguments;

  /// Whether its results matter although none of its inputs has a mark.
  [[nodiscard]] bool makes_marks() const noexcept;
  [[nodiscard]] bool is_ignored() const noexcept;
  /// Whether the operators that it calls are examined instead.
  [[nodiscard]] bool is_composed() const noexcept;
};

/// @pre called in the start of a callback
[[nodiscard]] OperatorInfo const& operator_info(at::RecordFunction const& call);

using MarkOf = std::function<Mark const*(at::Tensor const&)>;

/// Calls `visit` for each tensor in `value`, also in a list.
void for_each_tensor(c10::IValue const& value, std::function<void(at::Tensor const&)> const& visit);

/// The mark of one result of a call. @param place where it was called, for texts
[[nodiscard]] Mark result_mark(OperatorInfo const& op, std::string const& place, std::vector<c10::IValue> const& inputs,
                               at::Tensor const& result, MarkOf const& mark_of);

}  // namespace graticule::nn::detail
