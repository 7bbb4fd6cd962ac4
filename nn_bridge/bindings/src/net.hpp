// SPDX-License-Identifier: BSD-3-Clause
// A network with the caller's arrays.
#pragma once

#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/partition/layout.hpp>
#include <graticule/program/program.hpp>
#include <graticule/program/sharded_program.hpp>
#include <graticule/repartition/plan.hpp>

#include "support.hpp"

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace graticule::c {

using Sizes64 = std::vector<std::int64_t>;

/// An input or an output of the network.
struct Port {
  std::string name;
  program::TensorMeta meta;  ///< a number has no axes
  bool field = false;        ///< its last two axes are latitude and longitude, cut among the ranks
};

/// From the caller's boxes to the rows of the network; for all arrays with these boxes.
struct Movement {
  Layout caller;
  Layout net;
  RepartitionPlan plan;
};

/// The caller's arrays for one port.
struct Arrays {
  std::vector<FieldView> views;              ///< this rank's cells; none: not bound
  std::shared_ptr<Movement const> movement;  ///< null: whole on every rank
  Sizes64 sizes;                             ///< of this rank's tensor
  Sizes64 whole;                             ///< of the whole tensor
  torch::Tensor tensor;                      ///< inputs and targets: what the network reads
  double scale = 1;                          ///< targets
  torch::Tensor weights;                     ///< targets: one per row of this rank; undefined: all are 1
  double sum_of_weights = 0;                 ///< over all values

  [[nodiscard]] bool bound() const noexcept { return !views.empty(); }
};

/// Which arrays of the network a call binds.
enum class Side : std::uint8_t { input, output, target };

/// What `gr_net` holds.
class Net {
 public:
  /// Collective. @throws what refuses the file, or its division among the ranks, on all ranks alike
  Net(Comm const& of, std::string const& path, gr_net_options const& options);

  /// The arguments of a call that binds arrays.
  struct Binding {
    Side side = Side::input;
    char const* name = nullptr;
    gr_layout const* layout = nullptr;
    int num_fields = 0;
    gr_field const* fields = nullptr;
    double scale = 1;
    int num_rows = 0;
    double const* weights = nullptr;
  };
  /// Collective.
  void bind(Binding const& binding);

  void start();
  void finish();
  void run();
  /// The loss of the present inputs; with gradients of this rank's part where `learns`. Collective.
  [[nodiscard]] torch::Tensor loss(bool learns);
  void save(std::string const& path) const;
  [[nodiscard]] std::string text() const;

  /// @throws `WrongState` between `start` and `finish`
  void require_idle() const;

  Comm comm;
  nn::Domain domain;
  program::Program program;
  program::ShardedProgram shards;
  std::vector<Port> inputs;
  std::vector<Port> outputs;

 private:
  /// What is bound; replaced as a whole, so that a call that fails changes nothing.
  struct Bound {
    std::optional<Indices> extents;  ///< of the grid of the first field
    std::vector<Index> rows;         ///< of that grid, of each rank
    std::vector<Arrays> inputs;
    std::vector<Arrays> outputs;
    std::vector<Arrays> targets;
  };
  /// What a rank finds out about the arguments of `bind` by itself.
  struct Read {
    std::size_t port = 0;
    std::optional<Layout> layout;
    Arrays arrays;
  };

  [[nodiscard]] std::size_t port_of(Side side, char const* name) const;
  [[nodiscard]] std::vector<Port> const& ports(Side side) const { return side == Side::input ? inputs : outputs; }
  template <class Of>
  [[nodiscard]] static auto& arrays(Of& of, Side side) {
    return side == Side::input ? of.inputs : side == Side::output ? of.outputs : of.targets;
  }
  [[nodiscard]] bool is_first(Side side, std::size_t port) const { return side == Side::input && port == first_field_; }
  [[nodiscard]] Read read_arguments(Binding const& binding) const;
  void read_field(Binding const& binding, Port const& port, Read& read) const;
  [[nodiscard]] Layout net_layout(Bound const& bound, Indices const& extents) const;
  [[nodiscard]] std::shared_ptr<Movement const> movement_for(Layout const& caller, Layout const& net) const;
  void complete(Binding const& binding, Read& read) const;
  void plan_inputs(Bound const& bound);
  void plan_as_exported();

  void require_inputs() const;
  [[nodiscard]] std::vector<Movement const*> movements(Side side) const;
  [[nodiscard]] std::vector<RepartitionField> moved(Movement const& movement, Side side,
                                                    std::vector<torch::Tensor> const& tensors) const;
  [[nodiscard]] std::vector<torch::Tensor> tensors(Side side) const;
  void read_whole(Side side) const;
  /// Outputs for the present inputs, without a change of running statistics unless the network learns.
  [[nodiscard]] std::vector<torch::Tensor> outputs_of(bool learns);
  void write(std::vector<torch::Tensor> const& results) const;
  [[nodiscard]] std::vector<torch::Tensor> checked(std::vector<torch::Tensor> const& results) const;

  std::size_t first_field_ = 0;
  std::set<std::string> written_;  ///< buffers that a run overwrites
  Bound bound_;
  std::vector<Sizes64> planned_;  ///< whole inputs that the network was planned for
  std::vector<Index> planned_rows_;
  std::vector<Pending> pending_;
  bool started_ = false;
  bool dropout_ = false;
  bool ran_ = false;
};

template <>
struct Object<gr_net> {
  static constexpr char const* name = "gr_net";
  explicit Object(std::shared_ptr<Net> of) : net(std::move(of)) {}
  std::shared_ptr<Net> net;
};

}  // namespace graticule::c
