// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/agreement.hpp>
#include <graticule/nn_bridge/detail/forward_scope.hpp>
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/program/detail/operators.hpp>
#include <graticule/program/detail/placed_call.hpp>
#include <graticule/program/detail/plan_layout.hpp>
#include <graticule/program/detail/program_access.hpp>
#include <graticule/program/program.hpp>

#include "graph/nodes.hpp"
#include "layout/cut_moves.hpp"
#include "shard/local_run.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <variant>

namespace graticule::program {

namespace {

// Numbers in arguments: sizes among them. Values of the graph are not compared.
bool same_numbers(Argument const& a, Argument const& b) {
  if (a.index() != b.index()) {
    return false;
  }
  return std::visit(
      [&](auto const& one) {
        using Kind = std::decay_t<decltype(one)>;
        if constexpr (std::is_same_v<Kind, bool> || std::is_same_v<Kind, std::int64_t> ||
                      std::is_same_v<Kind, std::vector<std::int64_t>> || std::is_same_v<Kind, Dtype>) {
          return one == std::get<Kind>(b);
        } else {
          return !std::is_same_v<Kind, Integers> && !std::is_same_v<Kind, SymbolRef>;
        }
      },
      a);
}

bool same_call(Node const& a, Node const& b) {
  return a.target == b.target &&
         std::ranges::equal(a.inputs, b.inputs, [](NamedArgument const& x, NamedArgument const& y) {
           return x.name == y.name && same_numbers(x.value, y.value);
         });
}

// With another probability it draws.
bool may_drop(Node const& node) { return node.target.find("dropout") != std::string::npos; }

bool is_local(Node const& node) { return operator_class(node.target) == OperatorClass::local; }

// Ranks of which all others are like one: those with other sizes of some value.
std::vector<int> different_ranks(Plan const& plan) {
  std::vector<int> ranks;
  std::set<std::vector<Shape>> seen;
  for (std::int64_t rank = 0; rank < plan.num_ranks; ++rank) {
    std::vector<Shape> sizes;
    for (NodePlan const& node : plan.nodes) {
      sizes.push_back(node.local_sizes[index(rank)]);
    }
    if (seen.insert(std::move(sizes)).second) {
      ranks.push_back(static_cast<int>(rank));
    }
  }
  return ranks;
}

bool moves(Transfer const& transfer) { return transfer.axis >= 0 || transfer.from != transfer.to; }

// Of all ranks together.
struct Study {
  bool as_it_is = true;       // every rank would run the nodes of the graph as they are
  bool communicates = false;  // some rank sends
};

bool sends(detail::Task const& task) {
  return std::holds_alternative<detail::MoveTask>(task) || std::holds_alternative<detail::SumTask>(task) ||
         std::holds_alternative<detail::NormTask>(task) || std::holds_alternative<detail::ConvTask>(task);
}

// Whether a rank runs the nodes of the plan's graph; what is written to in place may be copied before.
bool runs_as_it_is(std::vector<Node> const& nodes, detail::LocalGraph const& local) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < local.graph.nodes.size(); ++i) {
    bool const more = next < nodes.size();
    bool const empty = more && std::holds_alternative<detail::EmptyTask>(local.tasks[i]) && is_local(nodes[next]);
    bool const plain = std::holds_alternative<detail::PlainTask>(local.tasks[i]);
    if (empty || (plain && more && same_call(local.graph.nodes[i], nodes[next]))) {
      ++next;
    } else if (!plain || local.graph.nodes[i].target != "aten.clone.default") {
      return false;
    }
  }
  return next == nodes.size() && local.constants.empty();
}

Study study(Plan const& plan, Sizes const& sizes, detail::Conversion const& conversion) {
  Study result;
  // LibTorch's backward of norms is wrong for cotangents that are not contiguous; steps of a program give it contiguous
  // ones.
  result.as_it_is =
      std::ranges::none_of(plan.outputs, moves) && std::ranges::none_of(plan.graph.nodes, detail::is_norm_by_channels);
  for (int const rank : different_ranks(plan)) {
    auto const local = detail::local_graph(plan, sizes, conversion, rank);
    result.as_it_is = result.as_it_is && runs_as_it_is(plan.graph.nodes, local);
    result.communicates = result.communicates || std::ranges::any_of(local.tasks, sends);
  }
  return result;
}

}  // namespace

struct PlacedCall::State {
  nn::Domain domain;
  PlacedCallOptions options;
  Program program;
  Plan plan;
  Sizes sizes;
  std::uint64_t hash;
  std::vector<Placement> outputs;
  bool direct = false;
  bool elementwise = false;
  bool keeps_views = false;
  bool communicates = false;
  std::size_t first = 0;  // the input that speaks for all in agreements
  std::unique_ptr<nn::detail::Agreement> agreement;
  std::unique_ptr<detail::LocalRun> run;

  State(std::string_view json, nn::Domain const& on, PlacedCallOptions given)
      : domain(on),
        options(std::move(given)),
        program(json, std::map<std::string, torch::Tensor>()),
        sizes(program->graph()),
        hash(Hash().add(std::string(json)).value()) {
    if (options.device != program->device()) {
      program->to(options.device);
    }
    PlanOptions how;
    how.num_ranks = domain.comm().num_ranks();
    how.largest_gather = options.largest_gather;
    how.ends = Ends{options.inputs, options.outputs};
    plan = plan_layout(program->graph(), sizes, how);
    outputs = detail::user_outputs(program->graph(), plan);
    keeps_views =
        std::ranges::none_of(plan.outputs, moves) && std::ranges::all_of(plan.nodes, [](NodePlan const& node) {
          return (node.mode == RunMode::same || node.mode == RunMode::whole) && !node.sum_over_ranks &&
                 std::ranges::none_of(node.tensors, moves);
        });
    auto const found = study(plan, sizes, detail::ProgramAccess::conversion(*program));
    direct = found.as_it_is;
    communicates = found.communicates;
    elementwise =
        direct && std::ranges::all_of(plan.graph.nodes, is_local) && std::ranges::none_of(plan.graph.nodes, may_drop);
    auto const cut = std::ranges::find_if(options.inputs, [](Placement const& one) { return one.has_value(); });
    if (cut == options.inputs.end()) {
      throw Error("BadArgument", options.name + ": no tensor is cut");
    }
    first = static_cast<std::size_t>(cut - options.inputs.begin());
  }

  // The axis along which the ranks' parts of an input differ.
  [[nodiscard]] nn::Sharding sharding() const {
    auto const& shape = plan.shapes[index(plan.user_inputs[first])];
    auto const axis = options.inputs[first]->axis - static_cast<std::int64_t>(shape.size());
    return {{axis}, ProcessGrid{domain.comm().num_ranks()}};
  }

  void check(std::vector<torch::Tensor> const& inputs) const {
    if (inputs.size() != options.inputs.size()) {
      throw Error("ShapeMismatch", options.name + " takes " + std::to_string(options.inputs.size()) + " tensors, not " +
                                       std::to_string(inputs.size()));
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      int const rank = domain.comm().rank();
      Shape const own = local_shape(plan.shapes[index(plan.user_inputs[i])], options.inputs[i], rank);
      detail::check_share(options.name + ": tensor " + std::to_string(i), inputs[i], own, rank);
    }
  }

  // All ranks enter a call that some rank sends in.
  void agree(std::vector<torch::Tensor> const& inputs) {
    if (!communicates) {
      check(inputs);
      if (!run) {
        set_up();
      }
      return;
    }
    if (!agreement) {
      agreement = std::make_unique<nn::detail::Agreement>(domain, options.name, sharding());
    }
    torch::Tensor const x = first < inputs.size() ? inputs[first] : torch::Tensor();
    auto const agreed = agreement->agree(x, [&] { check(inputs); });
    if (agreed.changed || !run) {
      require_same(domain.comm(), "StructureDisagreement", hash, "the operators of " + options.name);
      set_up();
    }
  }

  void set_up() {
    Comm const& comm = domain.comm();
    auto result = std::make_unique<detail::LocalRun>();
    auto const conversion = detail::ProgramAccess::conversion(*program);
    c10::InferenceMode const no_inference_mode(false);
    torch::NoGradGuard const no_grad;
    result->local = detail::local_graph(plan, sizes, conversion, comm.rank());
    for (detail::Task& task : result->local.tasks) {
      if (auto* const dropout = std::get_if<detail::DropoutTask>(&task)) {
        dropout->layer = options.layer.value_or(dropout->layer);
      }
    }
    result->compile(
        comm, conversion, [this](torch::Tensor const& y) { agreement->record(y); }, options.seed);
    run = std::move(result);
  }
};

PlacedCall::PlacedCall(std::string_view graph_json, nn::Domain const& domain, PlacedCallOptions options)
    : state_(std::make_unique<State>(graph_json, domain, std::move(options))) {}
PlacedCall::~PlacedCall() = default;

std::vector<torch::Tensor> PlacedCall::run(std::vector<torch::Tensor> const& inputs) {
  State& state = *state_;
  state.agree(inputs);
  nn::detail::ForwardScope const scope(state.domain, state.options.name);
  return state.run->run(state.domain, *state.program, inputs, true, nullptr);
}

std::vector<Placement> const& PlacedCall::outputs() const noexcept { return state_->outputs; }
bool PlacedCall::direct() const noexcept { return state_->direct; }
bool PlacedCall::keeps_views() const noexcept { return state_->keeps_views; }
bool PlacedCall::elementwise() const noexcept { return state_->elementwise; }
Plan const& PlacedCall::plan() const noexcept { return state_->plan; }

}  // namespace graticule::program
