// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/program/detail/placed_call.hpp>

#include "call_text.hpp"
#include "interceptor.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace graticule::nn::detail {

enum class OperatorRole : std::uint8_t {
  planned,   ///< programs know it
  ignored,   ///< gives no tensor, or the local one: sizes, flags, values for a person or a log
  reading,   ///< the size or the values of its result depend on which cells a rank has
  by_index,  ///< makes numbers by local index
  random,    ///< draws random numbers
  composed,  ///< calls other operators with its arguments as they are
  unknown,
};

/// An operator of LibTorch.
struct OperatorKind {
  std::string name;    ///< `aten::add`
  std::string target;  ///< `aten.add.Tensor`
  std::string base;    ///< `add`, also of `add_`
  OperatorRole role = OperatorRole::unknown;
  bool in_place = false;
  bool has_out = false;
  bool is_view = false;    ///< the same cells under other axes
  bool may_alias = false;  ///< its results may share the memory of its first argument
  bool is_cellwise = false;
  bool is_arithmetic = false;                     ///< of two operands
  bool is_part = false;                           ///< takes a part of the cells along an axis
  bool is_reduction = false;                      ///< sums or other numbers of many cells
  bool takes_indices = false;                     ///< takes tensors of indices, or joins tensors
  bool takes_sizes = false;                       ///< has sizes of the result among its arguments
  std::optional<c10::OperatorHandle> functional;  ///< of an operator in place: the one that makes a new tensor
  std::function<void(Values&)> alternative;       ///< runs other operators with the same result instead
};

[[nodiscard]] OperatorKind const& kind_of(c10::OperatorHandle const& op);

/// Whether a call draws random numbers: dropout only while training.
[[nodiscard]] bool draws(OperatorKind const& kind, c10::OperatorHandle const& op, Values const& arguments);

/// How an operator runs for one structure of its arguments.
struct PlannedOperator {
  bool direct = false;    ///< as it is, on the local tensors
  bool waits = false;     ///< its results are sums, or parts along a cut axis
  bool is_whole = false;  ///< all results are whole
  bool poisons = false;   ///< other ranks may not refuse: results are marked wrong instead of an error here
  std::string refusal;
  std::string doubt;        ///< the refusal where the globe's result is computed; empty: none
  std::vector<Mark> marks;  ///< of all tensors among the results
  std::shared_ptr<program::PlacedCall> placed;
  std::vector<std::optional<std::size_t>> structure;  ///< of the results: the length of each list
  std::vector<torch::ScalarType> dtypes;

  /// Zeros in the sizes of the globe's results, for a rank without cells.
  [[nodiscard]] Values nothing(torch::Device device) const;
  [[nodiscard]] Values run(std::vector<torch::Tensor> const& leaves) const;

 private:
  [[nodiscard]] Values in_structure(std::vector<torch::Tensor> tensors) const;
};

/// One call; what is not a shard has no mark.
struct OperatorCall {
  c10::OperatorHandle const& op;
  OperatorKind const& kind;
  Values const& arguments;
  std::vector<torch::Tensor> const& leaves;
  std::vector<Mark const*> const& marks;
  std::weak_ptr<ShardedModel> model;
  std::string place;  ///< in the model, for messages
};

/// Local, with the same result on all ranks where their calls are alike. @pre a leaf is cut
[[nodiscard]] std::shared_ptr<PlannedOperator> planned_operator(OperatorCall const& call);
/// The move of a field to other cuts.
[[nodiscard]] std::shared_ptr<PlannedOperator> planned_move(torch::Tensor const& x, Mark const& mark,
                                                            program::Cut const& to,
                                                            std::shared_ptr<ShardedModel> const& model);

/// Whether all ranks have as many rows: then numbers from the sizes of their shards do not differ.
[[nodiscard]] bool is_even(program::Cut const& cut);

inline constexpr char const* index_fault = " makes numbers by the index in a shard, not on the globe";

/// Tensors among the arguments, each once.
[[nodiscard]] std::vector<torch::Tensor> leaves_of(Values const& arguments);
[[nodiscard]] std::size_t index_in(std::vector<torch::Tensor> const& leaves, torch::Tensor const& t);
void add_leaf_to_key(std::string& key, torch::Tensor const& t, Mark const* mark);

}  // namespace graticule::nn::detail
