// SPDX-License-Identifier: BSD-3-Clause
// What operators of LibTorch do to shards between the layers of a sharded model: the same as on the globe, or nothing.
#pragma once

#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/call/sharding.hpp>
#include <graticule/program/detail/placed_call.hpp>

#include "call/between.hpp"
#include "call_text.hpp"

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace graticule::nn::detail {

struct PlannedOperator;
struct WaitingCall;
struct OperatorKind;

/// A model that `shard` has converted. Its layers own this object; marks of tensors refer to it weakly.
struct ShardedModel {
  /// Also drops the waiting calls of this thread: they hold graphs, and graphs hold communicators.
  ~ShardedModel();

  Domain domain;
  std::uint64_t seed = 0;                         ///< of random numbers
  bool only_warns = false;                        ///< the caller vouches for the code between the layers
  std::map<std::string, std::string> types = {};  ///< names of the modules' types, by path
  std::unordered_map<std::string, std::shared_ptr<PlannedOperator>> planned = {};
  /// Bounds of the cuts by extent along the cut axis: those of the first field of this extent in a forward.
  std::map<std::int64_t, std::vector<std::int64_t>> homes = {};
  std::set<std::int64_t> fresh = {};             ///< extents met in this forward
  std::unordered_set<void const*> modules = {};  ///< whose children it has converted
  std::unordered_set<c10::TensorImpl const*> parameters = {};
  std::set<std::string> warned = {};

  /// Where fields of this extent are cut along `axis`: at home, or balanced.
  [[nodiscard]] program::Cut cut_of(std::int64_t axis, std::int64_t extent) const;
};

/// A tensor that another one is a view of in LibTorch, and here a copy, because cells of other ranks are in it.
struct CopyOf {
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  c10::VariableVersion counter;
  std::uint32_t version = 0;  ///< of the counter when the copy was made
  std::string text;           ///< the operator, for messages
};

/// Where the cells of one tensor are.
struct Mark {
  enum class Kind : std::uint8_t {
    cut,      ///< this rank has a part
    whole,    ///< the same on all ranks
    waiting,  ///< the result for this rank's cells; the globe's is computed when cells of the model need it
    wrong,    ///< the result for this rank's cells, which cannot be that of the globe: refused where cells meet it
    made,     ///< made of local indices or of random numbers
  };
  Kind kind = Kind::whole;
  std::weak_ptr<ShardedModel> model;
  program::Shape shape;                 ///< on the globe
  program::Placement place;             ///< of rows or columns
  std::optional<program::Cut> columns;  ///< in blocks, where `place` cuts rows
  bool is_input = false;                ///< the input of a trial, before the first layer
  std::shared_ptr<WaitingCall> call;    ///< computes the globe's result; null: there is no way
  std::size_t index = 0;                ///< among the results of `call`
  bool is_whole = false;                ///< waiting: has no cut axis
  std::string text;                     ///< why, for messages
  bool is_random = false;
  std::uint64_t stretch = 0;   ///< number of the stretch of code between two layers that made it
  CellNumbers numbers;         ///< the numbers that its cells were computed with since the last layer
  std::vector<CopyOf> copies;  ///< what it is a copy of
};

/// What a tensor seems to be that no layer has made: it may be an input, before the first layer.
struct Guess {
  std::optional<Mark> field;       ///< cut along another axis than inputs are
  std::string fault;               ///< the operator that took this rank's rows for all; empty: none
  std::set<std::int64_t> extents;  ///< faulty where it meets fields of so many rows of this rank
  CellNumbers numbers;             ///< random numbers in it
  std::string index;               ///< the operator that made it of local indices, if its rows are a shard's
  bool is_combined = false;        ///< these were numbers for whole rows
};

/// A layer that `shard` has converted.
struct ShardedLayer {
  std::string path;
  Sharding sharding;
  std::shared_ptr<ShardedModel> model;
  // Of its output.
  int num_set_ups = -1;
  program::Shape sizes = {};
  Mark mark = {};
};

/// Sees each operator of this thread that meets a tensor of a sharded model, above autograd, by a fallback of a
/// dispatch key of LibTorch that no other code uses.
///
/// Each operator is planned as a program of one node (`program::PlacedCall`), once per structure of its arguments.
/// Where it is right on the local tensors it runs as it is. Otherwise the cells that it needs are moved. Sums over
/// cells, and parts of an axis that is cut, wait: code outside the model takes them for those of this rank. They are
/// computed for the globe, with all that has been made of them, where they meet cells of the model or enter a layer.
///
/// More than 40 functions, because each way of an operator is one: as planned, on local cells, waiting, guessed,
/// refused. All of them read and set the marks of the same tensors.
class Interceptor final : public Between {
 public:
  [[nodiscard]] static Interceptor& of_thread();

  /// The input of a converted layer on the globe, in the layer's cuts. Collective.
  [[nodiscard]] torch::Tensor enter(torch::Tensor const& x, ShardedLayer const& layer);
  /// Marks the output of a converted layer as a shard. Collective where its structure is new. @param set_ups how often
  /// the layer has set itself up
  void leave(torch::Tensor const& y, ShardedLayer& layer, int set_ups);
  /// Marks the input of a trial as a shard. Collective.
  void mark_input(torch::Tensor const& x, std::shared_ptr<ShardedModel> const& model);
  /// Marks `x` as a shard if this thread has converted `module`. Collective.
  void mark_shard(torch::Tensor const& x, void const* module);
  /// From now on operators of this thread are seen.
  void add_model(std::shared_ptr<ShardedModel> const& model);
  [[nodiscard]] std::weak_ptr<ShardedModel> const& latest() const noexcept { return latest_; }
  std::vector<std::string>* findings = nullptr;  ///< of a trial: collects refusals; null: they are thrown

  void check_entry(torch::Tensor const& x, Domain const& domain, std::string const& layer, Entry entry) override;
  void check_given() override;
  CellNumbers take_numbers() noexcept override { return findings ? CellNumbers() : std::exchange(numbers_, {}); }
  /// Forgets models that are gone.
  void forget_models();
  void hand_on(torch::Tensor const& x, torch::Tensor const& y) override;
  void set_own_code(bool own) noexcept override;

  /// One operator. @param arguments the stack, which gets the results
  void call(c10::OperatorHandle const& op, Values& stack);

 private:
  struct Marked {
    c10::weak_intrusive_ptr<c10::TensorImpl> tensor;
    Mark mark;
  };
  using Model = std::shared_ptr<ShardedModel>;

  struct Guessed {
    c10::weak_intrusive_ptr<c10::TensorImpl> tensor;
    Guess guess;
  };

  /// What the marks of a call's tensors say.
  struct Met {
    Model model;
    std::string wrong;         ///< the text of one that is wrong; empty: none is
    bool is_cut = false;       ///< one is
    bool has_cells = false;    ///< one is cut or whole
    bool has_waiting = false;  ///< one waits
    bool has_parts = false;    ///< one waits that has a cut axis
    bool is_flagged = false;   ///< one is made of local indices or of random numbers
  };
  [[nodiscard]] Met met_in(Values const& arguments) const;

  [[nodiscard]] Mark const* find(torch::Tensor const& t) const;
  [[nodiscard]] Guess const* find_guess(torch::Tensor const& t) const;
  void set(torch::Tensor const& t, Mark mark);
  void set_results(Values const& results, Mark const& mark);
  void set_whole(Values const& results, Model const& model);
  void spoil(torch::Tensor const& t, std::string const& text);
  void note_views(OperatorKind const& kind, std::vector<torch::Tensor> const& leaves, Values const& results,
                  bool copied);
  void spoil_sources(torch::Tensor const& copy, std::vector<CopyOf> const& copies);
  void set_base(torch::Tensor const& view, Mark const& mark, std::string const& name);
  void sweep();
  void begin(ShardedLayer const& layer);
  void mark_first(torch::Tensor const& x, Model const& model, bool is_input);
  void take_guessed(torch::Tensor const& x, Guess const* guess, ShardedLayer const& layer);

  void guess(c10::OperatorHandle const& op, OperatorKind const& kind, Values const& arguments, Values const& results);
  [[nodiscard]] std::vector<std::optional<Mark>> seem_local(c10::OperatorHandle const& op, OperatorKind const& kind,
                                                            Values const& arguments, Values const& results,
                                                            std::int64_t axis, Model const& model, Guess& guess);
  void add_random_numbers(Guess& guess, Values const& arguments, torch::Tensor const& result, bool is_drawn,
                          std::int64_t axis) const;
  [[nodiscard]] static bool takes_part_of_shard(OperatorKind const& kind, Values const& arguments,
                                                std::vector<std::int64_t> const& axes, ShardedModel const& model);
  [[nodiscard]] bool meets_rows(Values const& arguments, std::int64_t axis, std::int64_t num_rows) const;
  [[nodiscard]] std::pair<bool, bool> may_have_rows(torch::Tensor const& t, Values const& arguments) const;
  void take_faults(Values const& arguments);
  void check_numbers(OperatorKind const& kind, Values const& arguments, Model const& model);
  void warn(std::string const& text, Model const& model) const;
  void made_without_shards(OperatorKind const& kind, Values const& arguments, Values const& results, bool is_flagged);
  void in_place(c10::OperatorHandle const& op, OperatorKind const& kind, Values& stack, std::size_t first,
                Met const& met);
  /// @param on_globe compute the globe's result now instead of letting it wait
  Values planned_call(c10::OperatorHandle const& op, OperatorKind const& kind, Values arguments, bool on_globe);
  [[nodiscard]] CellNumbers numbers_of(OperatorKind const& kind, Values const& arguments) const;
  [[nodiscard]] bool takes_rows(Values const& arguments) const;
  Values local_call(c10::OperatorHandle const& op, Values arguments, std::string const& name);
  Values wrong_call(c10::OperatorHandle const& op, OperatorKind const& kind, Values arguments, std::string const& text,
                    Model const& model);
  /// @param planned the operator where it takes cells, not what waits
  Values waiting_call(c10::OperatorHandle const& op, OperatorKind const& kind, Values arguments, bool is_whole,
                      Model const& model, PlannedOperator const* planned = nullptr);
  std::shared_ptr<PlannedOperator> plan(c10::OperatorHandle const& op, OperatorKind const& kind,
                                        Values const& arguments, std::vector<torch::Tensor> const& leaves,
                                        Model const& model);
  std::shared_ptr<PlannedOperator> plan(c10::OperatorHandle const& op, OperatorKind const& kind,
                                        Values const& arguments, std::vector<torch::Tensor> const& leaves,
                                        std::vector<Mark const*> const& marks, Model const& model);
  torch::Tensor computed(torch::Tensor const& t);
  torch::Tensor computed_or_refused(torch::Tensor const& t);
  torch::Tensor compute(WaitingCall& call, std::size_t index);
  torch::Tensor moved(torch::Tensor const& x, std::int64_t axis, Model const& model);
  /// Throws the refusal. In a trial, and in a model that only warns, notes it and returns the results for this rank's
  /// cells.
  Values refused(c10::OperatorHandle const& op, Values arguments, std::string const& text, Model const& model);
  [[noreturn]] void refuse(std::string const& text, Model const& model) const;
  [[nodiscard]] std::string place() const;

  std::unordered_map<c10::TensorImpl const*, Marked> marks_;
  std::unordered_map<c10::TensorImpl const*, Guessed> guesses_;
  std::vector<std::weak_ptr<ShardedModel>> models_;
  std::weak_ptr<ShardedModel> latest_;
  std::size_t next_sweep_ = 256;
  std::string last_path_;
  int composed_depth_ = 0;        ///< of operators that run as several others
  CellNumbers composed_numbers_;  ///< numbers of the outermost of them
  CellNumbers numbers_;           ///< the numbers behind the latest input of a layer
  std::string given_;             ///< why the latest input of a layer is wrong; empty: it is not
  std::uint64_t stretch_ = 0;
  std::uint64_t forward_ = 0;
  std::unordered_set<std::string> called_;  ///< layers, in this forward
};

}  // namespace graticule::nn::detail
