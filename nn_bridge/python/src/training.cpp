// SPDX-License-Identifier: BSD-3-Clause
// Training of Python's modules: their parameters are the tensors of a C++ module of the same names.
#include <graticule/field_io/checkpoint.hpp>
#include <graticule/nn_bridge/collective/gradient_sync.hpp>
#include <graticule/nn_bridge/detail/replicas.hpp>
#include <graticule/partition/detail/patience.hpp>
#include <graticule/training/daso/averaging.hpp>
#include <graticule/training/data_parallel/join.hpp>
#include <graticule/training/data_parallel/wrapper.hpp>
#include <graticule/training/detail/wires.hpp>
#include <graticule/training/sharded/parameters.hpp>
#include <graticule/training/state/model.hpp>

#include "module.hpp"
#include "reader.hpp"

#include <pybind11/functional.h>

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>

namespace graticule::python {

namespace {

namespace tr = training;
using nn::NamedTensors;

/// A module that holds the tensors of another one.
class Mirror : public torch::nn::Module {
 public:
  Mirror(NamedTensors const& parameters, NamedTensors const& buffers) {
    for (auto const& [name, tensor] : parameters) {
      auto [module, last] = place(name);
      module->register_parameter(last, tensor, tensor.requires_grad());
    }
    for (auto const& [name, tensor] : buffers) {
      auto [module, last] = place(name);
      module->register_buffer(last, tensor);
    }
  }

 private:
  std::pair<torch::nn::Module*, std::string> place(std::string const& name) {
    torch::nn::Module* module = this;
    std::size_t begin = 0;
    for (auto dot = name.find('.'); dot != std::string::npos; dot = name.find('.', begin)) {
      auto const part = name.substr(begin, dot - begin);
      auto const children = module->named_children();
      module =
          (children.contains(part) ? children[part] : module->register_module(part, std::make_shared<Module>())).get();
      begin = dot + 1;
    }
    return {module, name.substr(begin)};
  }
};
using MirrorPointer = std::shared_ptr<Mirror>;

/// Steps an optimizer of Python, with a function of the loss or with none.
using PythonStep = std::function<void(std::function<torch::Tensor()>)>;

class PythonOptimizer : public torch::optim::Optimizer {
 public:
  PythonOptimizer(std::vector<torch::Tensor> parameters, PythonStep step)
      : Optimizer(std::move(parameters), std::make_unique<torch::optim::SGDOptions>(1.0)), step_(std::move(step)) {}
  torch::Tensor step(LossClosure closure) override {
    if (!closure) {
      step_({});
      return {};
    }
    // Python calls it with its lock, which the closure's own messages and Python code need to be free.
    step_([closure] {
      py::gil_scoped_release const released;
      return closure();
    });
    return {};
  }

 private:
  PythonStep step_;
};

/// Teams as Python passes them: a Fortran handle and 'sum' or 'mean'.
using GivenRules = std::vector<std::pair<std::int64_t, std::string>>;

std::vector<nn::TeamRule> rules_of(GivenRules const& given) {
  std::vector<nn::TeamRule> rules;
  for (auto const& [handle, reduction] : given) {
    if (reduction != "sum" && reduction != "mean")
      throw Error("BadOption", "reduction = '" + reduction + "' is none of 'mean', 'sum'");
    rules.push_back({comm_of(handle), reduction == "sum" ? nn::Reduction::sum : nn::Reduction::mean});
  }
  return rules;
}

/// What a wrapper refers to, destroyed after it.
template <class Wrapper>
struct Held {
  MirrorPointer model;
  std::unique_ptr<PythonOptimizer> optimizer;
  std::unique_ptr<Wrapper> wrapper;
  /// @throws `WrongState` after `close`
  Wrapper& get() const {
    if (!wrapper) throw Error("WrongState", "the object was closed");
    return *wrapper;
  }
};

/// A method of what `Holder` holds.
template <class Holder, class Wrapper, class Result, class... Arguments>
auto on(Result (Wrapper::*method)(Arguments...)) {
  return [method](Holder& self, Arguments... arguments) { return (self.get().*method)(arguments...); };
}

/// Destroys it, on all ranks.
template <class Wrapper>
void close(Held<Wrapper>& self) {
  self.wrapper.reset();
}

std::unique_ptr<PythonOptimizer> optimizer_of(MirrorPointer const& model, PythonStep step) {
  if (!step) return nullptr;
  std::vector<torch::Tensor> trained;
  for (auto const& tensor : model->parameters())
    if (tensor.requires_grad()) trained.push_back(tensor);
  return std::make_unique<PythonOptimizer>(std::move(trained), std::move(step));
}

tr::DataParallelOptions parallel_options(Reader const& r) {
  tr::DataParallelOptions options;
  options.unused = r.one_of<tr::Unused>("unused", {{"refused", tr::Unused::refused}, {"allowed", tr::Unused::allowed}},
                                        tr::Unused::refused);
  std::map<std::string, tr::Wire> wires;
  for (auto const wire : graticule::detail::enum_values<tr::Wire>)
    if (enum_row(wire).of_gradients) wires[enum_row(wire).name] = wire;
  options.wire = r.one_of<tr::Wire>("wire", wires, tr::Wire::own);
  options.order = r.one_of<tr::SumOrder>("order", {{"by_rank", tr::SumOrder::by_rank}, {"any", tr::SumOrder::any}},
                                         tr::SumOrder::by_rank);
  options.buffers = r.one_of<tr::BufferPolicy>("buffers",
                                               {{"leave", tr::BufferPolicy::leave},
                                                {"broadcast", tr::BufferPolicy::broadcast},
                                                {"mean", tr::BufferPolicy::mean}},
                                               tr::BufferPolicy::leave);
  return options;
}

using DataParallel = Held<tr::DataParallel>;

DataParallel make_data_parallel(MirrorPointer const& model, PythonStep const& step, GivenRules const& rules,
                                py::dict const& options) {
  auto const given = parallel_options(Reader("DataParallel", options, nn::Domain()));
  py::gil_scoped_release const released;
  DataParallel held{model, optimizer_of(model, step), nullptr};
  std::vector<torch::optim::Optimizer*> optimizers;
  if (held.optimizer) optimizers.push_back(held.optimizer.get());
  held.wrapper = std::make_unique<tr::DataParallel>(*model, optimizers, rules_of(rules), given);
  return held;
}

std::unique_ptr<tr::DataParallel::NoSync> no_sync(DataParallel& self) {
  return std::make_unique<tr::DataParallel::NoSync>(self.get().impl());
}

tr::DasoOptions daso_options(Reader const& r) {
  tr::DasoOptions options;
  auto& schedule = options.schedule;
  schedule.total_epochs = r.get<Index>("total_epochs", schedule.total_epochs);
  schedule.warmup_epochs = r.get<Index>("warmup_epochs", schedule.warmup_epochs);
  schedule.cooldown_epochs = r.get<Index>("cooldown_epochs", schedule.cooldown_epochs);
  schedule.stability = r.get<double>("stability", schedule.stability);
  schedule.patience = r.get<Index>("patience", schedule.patience);
  schedule.max_global_skips = r.get<Index>("max_global_skips", schedule.max_global_skips);
  schedule.skip_reduction_factor = r.get<Index>("skip_reduction_factor", schedule.skip_reduction_factor);
  schedule.local_skip_factor = r.get<Index>("local_skip_factor", schedule.local_skip_factor);
  if (r.has("node")) options.node = r.get<int>("node");
  options.buffers = r.one_of<tr::DasoPolicy>("buffers",
                                             {{"leave", tr::DasoPolicy::leave},
                                              {"average", tr::DasoPolicy::average},
                                              {"copy_sender", tr::DasoPolicy::copy_sender}},
                                             tr::DasoPolicy::average);
  return options;
}

using Daso = Held<tr::Daso>;

Daso make_daso(MirrorPointer const& model, PythonStep const& step, std::int64_t world, GivenRules const& rules,
               py::dict const& options) {
  auto given = daso_options(Reader("Daso", options, nn::Domain()));
  py::gil_scoped_release const released;
  given.gradient_rules = rules_of(rules);
  Daso held{model, optimizer_of(model, step), nullptr};
  held.wrapper = std::make_unique<tr::Daso>(*model, *held.optimizer, comm_of(world), given);
  return held;
}

/// Lets ranks have different numbers of batches until `finish`, or until the DataParallel (kept by Python) is closed.
struct Join {
  explicit Join(DataParallel& given) : parallel(given) {}
  Join(Join const&) = delete;
  Join& operator=(Join const&) = delete;
  ~Join() { leave(); }
  void leave() {
    if (parallel.wrapper)
      scope.reset();
    else
      (void)scope.release();  // It would tell what has gone.
  }
  DataParallel& parallel;
  std::unique_ptr<tr::Join> scope;
};

std::unique_ptr<Join> make_join(DataParallel& parallel, py::dict const& options) {
  Reader const r("Join", options, nn::Domain());
  tr::JoinOptions given;
  given.divisor = r.one_of<tr::JoinDivisor>(
      "divisor", {{"all_ranks", tr::JoinDivisor::all_ranks}, {"active_ranks", tr::JoinDivisor::active_ranks}},
      tr::JoinDivisor::all_ranks);
  given.early_end = r.one_of<tr::EarlyEnd>(
      "early_end", {{"replayed", tr::EarlyEnd::replayed}, {"refused", tr::EarlyEnd::refused}}, tr::EarlyEnd::replayed);
  py::gil_scoped_release const released;
  auto join = std::make_unique<Join>(parallel);
  join->scope = std::make_unique<tr::Join>(parallel.get(), given);
  return join;
}

/// The team is for what the rows' owners combine in Python.
struct Sharded : Held<tr::ShardedParameters> {
  std::optional<Comm> team;
};

Sharded make_sharded(MirrorPointer const& model, std::int64_t team, std::string const& reduction,
                     GivenRules const& replicas) {
  py::gil_scoped_release const released;
  tr::ShardedParametersOptions options;
  options.replicas = rules_of(replicas);
  Sharded held{{model, nullptr, nullptr}, std::nullopt};
  auto const rule = rules_of({{team, reduction}});
  held.team = rule.front().team;
  held.wrapper = std::make_unique<tr::ShardedParameters>(model, rule.front(), options);
  return held;
}

std::vector<torch::Tensor> sharded_forward(Sharded& self, std::function<std::vector<torch::Tensor>()> const& call) {
  return self.get().forward(call);
}

/// The whole parameters while this object exists.
struct Gathered {
  std::unique_ptr<tr::ShardedParameters::Gathered> scope;
};

void load_model_of_ranks(std::int64_t comm, std::string const& path, MirrorPointer const& model,
                         std::string const& prefix) {
  auto const ranks = comm_of(comm);
  tr::load_model(ranks, Checkpoint(ranks, path), *model, prefix);
}

void save_model_of_ranks(std::int64_t comm, std::string const& folder, std::int64_t step, int keep,
                         MirrorPointer const& model, std::string const& prefix) {
  auto const ranks = comm_of(comm);
  auto const tensors = nn::detail::tensors_of(*model);
  nn::detail::require_replicas(ranks, tensors);
  run_agreed(ranks, [&] { nn::detail::require_values(tensors); });
  CheckpointStore store(ranks, folder, {.keep = keep});
  auto writer = store.begin(step);
  tr::save_model(writer, *model, prefix);
  writer.commit();
}

void define_data_parallel(py::module_& m) {
  using Loss = std::function<torch::Tensor()>;
  py::class_<tr::DataParallel::NoSync>(m, "NoSync");
  py::class_<DataParallel>(m, "DataParallel")
      .def(py::init(&make_data_parallel))
      .def("step", on<DataParallel>(py::overload_cast<>(&tr::DataParallel::step)), ReleaseGil())
      .def("step_by", on<DataParallel>(py::overload_cast<Loss const&>(&tr::DataParallel::step)), ReleaseGil())
      .def("synchronize", on<DataParallel>(&tr::DataParallel::synchronize), ReleaseGil())
      .def("reduce", on<DataParallel>(&tr::DataParallel::reduce), ReleaseGil())
      .def("sync_buffers", on<DataParallel>(&tr::DataParallel::sync_buffers), ReleaseGil())
      .def("run", on<DataParallel>(&tr::DataParallel::run), ReleaseGil())
      .def("no_sync", &no_sync)
      .def("clip_gradients", on<DataParallel>(&tr::DataParallel::clip_gradients), ReleaseGil())
      .def("close", &close<tr::DataParallel>, ReleaseGil());
}

void define_join(py::module_& m) {
  py::class_<Join>(m, "Join")
      .def(py::init(&make_join), py::keep_alive<1, 2>())
      .def(
          "finish",
          [](Join& self) {
            if (!self.scope) throw Error("WrongState", "a Join finishes once");
            (void)self.parallel.get();
            auto const scope = std::move(self.scope);
            scope->finish();
          },
          ReleaseGil())
      .def(
          "leave", [](Join& self) { self.leave(); }, ReleaseGil());
}

void define_daso(py::module_& m) {
  py::class_<Daso>(m, "Daso")
      .def(py::init(&make_daso))
      .def("set_last_batch", on<Daso>(&tr::Daso::set_last_batch), ReleaseGil())
      .def("zero_grad", on<Daso>(&tr::Daso::zero_grad))
      .def("step", on<Daso>(&tr::Daso::step), ReleaseGil())
      .def(
          "epoch_loss", [](Daso& self, double loss) { self.get().epoch_loss(loss); }, ReleaseGil())
      .def("drain", on<Daso>(&tr::Daso::drain), ReleaseGil())
      .def("synchronize", on<Daso>(&tr::Daso::synchronize), ReleaseGil())
      .def("num_sent", [](Daso const& self) { return self.get().stats().num_sent; })
      .def("close", &close<tr::Daso>, ReleaseGil());
}

void define_sharded(py::module_& m) {
  py::class_<Gathered>(m, "Gathered")
      .def(
          "close", [](Gathered& self) { self.scope.reset(); }, ReleaseGil());
  py::class_<Sharded>(m, "ShardedParameters")
      .def(py::init(&make_sharded))
      .def("forward", &sharded_forward, ReleaseGil())
      .def("named_parameters", [](Sharded const& self) { return self.get().named_parameters(); })
      .def(
          "gathered",
          [](Sharded& self) {
            return Gathered{std::make_unique<tr::ShardedParameters::Gathered>(self.get().engine())};
          },
          ReleaseGil())
      .def(
          "clip_grad_norm", [](Sharded& self, double norm) { return self.get().clip_grad_norm(norm); }, ReleaseGil())
      .def("unwrap", on<Sharded>(&tr::ShardedParameters::unwrap), ReleaseGil())
      .def(
          "largest",
          [](Sharded const& self, double value) {
            self.team->max(std::span(&value, 1));
            return value;
          },
          ReleaseGil())
      .def(
          "total",
          [](Sharded const& self, double value) {
            self.team->sum(std::span(&value, 1));
            return value;
          },
          ReleaseGil())
      .def("shard_bytes", [](Sharded const& self) { return self.get().stats().shard_bytes; });
}

}  // namespace

void define_training(py::module_& m) {
  py::class_<Mirror, MirrorPointer>(m, "Mirror").def(py::init<NamedTensors const&, NamedTensors const&>());
  struct Sync {
    MirrorPointer model;
    std::vector<nn::TeamRule> rules;
    nn::GradientSync sync;
  };
  py::class_<Sync>(m, "GradientSync")
      .def(py::init([](MirrorPointer const& model, GivenRules const& rules) {
             auto const given = rules_of(rules);
             return Sync{model, given, nn::GradientSync(*model, given)};
           }),
           ReleaseGil())
      .def(
          "set_rules",
          [](Sync& self, std::string const& name, GivenRules const& rules) {
            self.sync.set_rules(name, rules_of(rules));
          },
          ReleaseGil())
      .def(
          "broadcast", [](Sync const& self) { self.sync.broadcast(); }, ReleaseGil())
      .def(
          "reduce", [](Sync const& self) { self.sync.reduce(); }, ReleaseGil())
      .def(
          "require_equal", [](Sync const& self) { self.sync.require_equal(); }, ReleaseGil())
      .def(
          "largest",
          [](Sync const& self, double value) {
            for (auto const& rule : self.rules) rule.team.max(std::span(&value, 1));
            return value;
          },
          ReleaseGil());
  m.def("checks_calls", &graticule::detail::checks_calls);
  m.def(
      "require_equal",
      [](MirrorPointer const& model, nn::Domain const& domain) {
        nn::GradientSync(*model, {{domain.comm(), nn::Reduction::sum}}).require_equal();
      },
      ReleaseGil());
  define_data_parallel(m);
  define_join(m);
  define_daso(m);
  define_sharded(m);
  m.def("load_model", &load_model_of_ranks, ReleaseGil());
  m.def("save_model", &save_model_of_ranks, ReleaseGil());
}

}  // namespace graticule::python
