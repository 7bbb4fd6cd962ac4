// SPDX-License-Identifier: BSD-3-Clause
// Watches what a sharded model does between its layers.
#pragma once

#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/call/sharding.hpp>

#include "mark_rules.hpp"

#include <ATen/record_function.h>
#include <torch/torch.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace graticule::nn::detail {

/// A layer that `shard` has converted, for texts and marks.
struct WatchedLayer {
  std::string path;
  Domain domain;
  Sharding sharding;                                                     ///< of input and output
  std::shared_ptr<std::map<std::string, std::string> const> types = {};  ///< of the model's modules, by path
  bool only_warns = false;  ///< between the layers are modules that the caller vouches for
};

/// Follows shards through the operators of this thread, between the calls of converted layers, by a callback of
/// LibTorch's profiler (`at::RecordFunction`), which sees the inputs and results of each operator but cannot throw.
///
/// Tensors that layers take and give are marked as shards; operators hand marks on (`mark_rules.hpp`). A result that
/// would be another one on the whole field is refused where it enters a layer of this library, a loss or `reduce_loss`.
class Watch {
 public:
  [[nodiscard]] static Watch& current();

  /// Adds or removes the callback. Removing it forgets all marks.
  void set_on(bool on);
  [[nodiscard]] bool is_on() const noexcept { return handle_.has_value(); }

  /// Before a converted layer's forward: looks at its input, which becomes a shard.
  void begin(torch::Tensor const& x, WatchedLayer const& layer);
  /// After it: its output is a shard.
  void end(torch::Tensor const& y, WatchedLayer const& layer);
  /// Marks a shard. @param is_assumed it only has the extents of one
  void mark(torch::Tensor const& shard, Domain const& domain, Sharding const& sharding, bool is_assumed = false);
  /// @throws `NotSharded` for what `begin` has found, and for `x` itself where it enters a layer of this library; on
  /// one rank, where nothing is cut, it only warns. @param layer its name @param takes_cells a sum over the cells of
  /// this rank is no input of it
  void check(torch::Tensor const& x, Domain const& domain, std::string const& layer, bool takes_cells);

  /// Marks a field that a layer of this library returns, where `x`, which it has taken, is a shard.
  torch::Tensor hand_on(torch::Tensor const& x, torch::Tensor y, Domain const& domain);

  /// Whether `shard` has converted a model.
  inline static bool has_models = false;

  int own_depth = 0;                             ///< of layers of this library that are running
  std::vector<std::string>* findings = nullptr;  ///< of a trial: takes texts, instead of errors and warnings

 private:
  struct Context;
  struct Entry {
    c10::weak_intrusive_ptr<c10::TensorImpl> tensor;
    Mark mark;
  };

  /// What a mark says of shards: for each axis of a sharding its bits, and the domain.
  struct CutAxes {
    std::vector<std::int64_t> axes;
    std::vector<std::uint8_t> bits;
    void const* domain;
  };
  static CutAxes cut_axes(Domain const& domain, Sharding const& sharding);
  void mark_as(torch::Tensor const& shard, CutAxes const& cuts, bool is_assumed);
  static std::unique_ptr<at::ObserverContext> on_start(at::RecordFunction const& call);
  static void on_end(at::RecordFunction const& call, at::ObserverContext* context);
  std::unique_ptr<at::ObserverContext> start(at::RecordFunction const& call);
  void finish(at::RecordFunction const& call, Context& context);
  [[nodiscard]] Mark const* mark_of(torch::Tensor const& t) const;
  void set_mark(torch::Tensor const& t, Mark mark);
  void assume(torch::Tensor const& t);
  void spoil_storage(torch::Tensor const& view, Mark const& mark);
  [[nodiscard]] std::string place() const;
  /// Why `x` must not enter a layer.
  [[nodiscard]] std::optional<std::string> fault_of(torch::Tensor const& x, Domain const& domain, bool takes_cells,
                                                    bool& is_assumed) const;
  void report(std::string const& text, Domain const& domain, bool is_assumed);

  std::optional<at::CallbackHandle> handle_;
  std::unordered_map<c10::TensorImpl const*, Entry> marks_;
  std::size_t next_sweep_ = 256;
  int num_closed_ = 0;     ///< operators that are running whose own operators are not looked at
  std::string last_path_;  ///< of the layer called last
  bool only_warns_ = false;
  std::string pending_;
  std::set<std::string> warned_;
  /// Inputs of layers: rows and columns of shards. It holds nothing of a model, whose communicators end with it.
  struct Known {
    std::int64_t rows, columns;
    CutAxes cuts;
    std::weak_ptr<void const> model;
  };
  std::vector<Known> extents_;
};

}  // namespace graticule::nn::detail
