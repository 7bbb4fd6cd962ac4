// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/forward_scope.hpp>
#include <graticule/nn_bridge/detail/shard_layers.hpp>
#include <graticule/nn_bridge/model/shard.hpp>
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/hash.hpp>

#include "counterparts.hpp"
#include "eager/interceptor.hpp"

#include <c10/util/Type.h>

#include <algorithm>
#include <sstream>
#include <unordered_map>

namespace graticule::nn {

namespace {

using detail::Shardable;
using detail::ShardedForward;
using detail::TypeList;
using torch::nn::Module;
using ModulePointer = std::shared_ptr<Module>;

/// `Conv2d` of `torch::nn::Conv2dImpl`.
std::string type_name(std::type_info const& type) {
  auto name = c10::demangle(type.name());
  auto const last = name.rfind("::");
  if (name.find('<') == std::string::npos && last != std::string::npos) name.erase(0, last + 2);
  if (name.size() > 4 && name.ends_with("Impl")) name.erase(name.size() - 4);
  return name;
}

namespace tn = torch::nn;

template <class... Holders>
using Impls = TypeList<typename Holders::ContainedType...>;

template <class... Types>
bool is_any(Module const& module, TypeList<Types...> /*types*/) {
  return (dynamic_cast<Types const*>(&module) || ...);
}

/// Cell by cell.
using ElementwiseTypes =
    Impls<tn::ELU, tn::SELU, tn::Hardshrink, tn::Hardtanh, tn::LeakyReLU, tn::LogSigmoid, tn::ReLU, tn::ReLU6, tn::CELU,
          tn::GELU, tn::SiLU, tn::Mish, tn::Sigmoid, tn::Softplus, tn::Softshrink, tn::Softsign, tn::Tanh,
          tn::Tanhshrink, tn::Threshold, tn::Identity, tn::Embedding>;

/// Across the channels of a cell.
using ChannelTypes = Impls<tn::PReLU, tn::Softmax2d, tn::CrossMapLRN2d>;

using AttentionTypes = Impls<tn::MultiheadAttention, tn::Transformer, tn::TransformerEncoder, tn::TransformerDecoder,
                             tn::TransformerEncoderLayer, tn::TransformerDecoderLayer>;

/// What `shard` does with one type of LibTorch's layers. All else is written once, for modules of any type.
struct KnownLayer {
  using Make = std::function<ModulePointer()>;

  std::string type;
  bool (*is)(Module const& module);
  /// A `LayerImpl` with the tensors of `serial`.
  ModulePointer (*wrap)(Module const& serial);
  tn::AnyModule (*as_any)(ModulePointer const& layer);
  /// Makes counterparts of a layer with the options that `serial` has now.
  Make (*counterparts)(Module const& serial, detail::ShardContext const& context);
  void (*share)(Module& serial, Module& counterpart);
  torch::Tensor (*forward)(Module& counterpart, torch::Tensor const& x);
  /// None where the layer has no `forward_like`.
  torch::Tensor (*forward_like)(Module& counterpart, torch::Tensor const& x, torch::Tensor const& like);
};

template <class Known>
KnownLayer known_layer() {
  using Serial = typename Known::Serial;
  using Options = std::decay_t<decltype(std::declval<Serial const&>().options)>;
  using Sharded = typename decltype(Known::Make::make(std::declval<Options const&>(),
                                                      std::declval<detail::ShardContext const&>()))::element_type;
  KnownLayer known;
  known.type = type_name(typeid(Serial));
  known.is = [](Module const& module) { return dynamic_cast<Serial const*>(&module) != nullptr; };
  known.wrap = [](Module const& serial) -> ModulePointer {
    return std::make_shared<LayerImpl<Serial>>(static_cast<Serial const&>(serial));
  };
  known.as_any = [](ModulePointer const& layer) {
    return tn::AnyModule(std::static_pointer_cast<LayerImpl<Serial>>(layer));
  };
  known.counterparts = [](Module const& serial, detail::ShardContext const& context) -> KnownLayer::Make {
    return [options = static_cast<Serial const&>(serial).options, context]() -> ModulePointer {
      return Known::Make::make(options, context);
    };
  };
  known.share = [](Module& serial, Module& counterpart) {
    detail::share(static_cast<Serial&>(serial), static_cast<Sharded&>(counterpart));
  };
  known.forward = [](Module& counterpart, torch::Tensor const& x) -> torch::Tensor {
    return static_cast<Sharded&>(counterpart).forward(x);
  };
  known.forward_like = nullptr;
  if constexpr (detail::TakesLike<Serial>)
    known.forward_like = [](Module& counterpart, torch::Tensor const& x, torch::Tensor const& like) -> torch::Tensor {
      return static_cast<Sharded&>(counterpart).forward_like(x, like);
    };
  return known;
}

template <class... Types>
std::vector<KnownLayer> known_layers(TypeList<Types...> /*types*/) {
  return {known_layer<Types>()...};
}

/// The entry for the type of `module` or a base of it; null where there is none.
KnownLayer const* find_known(Module const& module) {
  static auto const known = known_layers(detail::KnownTypes{});
  auto const found = std::find_if(known.begin(), known.end(), [&](auto const& layer) { return layer.is(module); });
  return found == known.end() ? nullptr : &*found;
}

struct Judgement {
  Verdict verdict;
  std::string reason;
};

/// Functions along one axis of LibTorch's numbering.
std::optional<Judgement> judge_axis(std::int64_t axis, Domain const& domain) {
  if (axis == 0 || axis == 1 || axis < -2) return Judgement{Verdict::local, "along axis " + std::to_string(axis)};
  bool const whole = axis < 0 ? domain.grid().extent(axis == -2 ? 0 : 1) == 1 : domain.comm().num_ranks() == 1;
  if (whole) return Judgement{Verdict::local, "along axis " + std::to_string(axis) + ", which is in one part"};
  return Judgement{
      Verdict::refused,
      "axis " + std::to_string(axis) + " may be cut; name the axis by 1 for channels, or move it whole by Repartition"};
}

/// Layers that are left as they are, or refused for what they do; nothing for all others.
std::optional<Judgement> judge(Module const& module, Domain const& domain) {
  if (is_any(module, ElementwiseTypes{})) return Judgement{Verdict::local, "cell by cell"};
  if (is_any(module, ChannelTypes{})) return Judgement{Verdict::local, "across the channels of a cell"};
  if (auto const* softmax = dynamic_cast<tn::SoftmaxImpl const*>(&module))
    return judge_axis(softmax->options.dim(), domain);
  if (auto const* softmin = dynamic_cast<tn::SoftminImpl const*>(&module))
    return judge_axis(softmin->options.dim(), domain);
  if (auto const* softmax = dynamic_cast<tn::LogSoftmaxImpl const*>(&module))
    return judge_axis(softmax->options.dim(), domain);
  if (auto const* glu = dynamic_cast<tn::GLUImpl const*>(&module)) return judge_axis(glu->options.dim(), domain);
  if (dynamic_cast<tn::LinearImpl const*>(&module))
    return Judgement{Verdict::local, "along the last axis, which must be whole: another size is LibTorch's error"};
  if (is_any(module, AttentionTypes{}))
    return Judgement{Verdict::refused, "attends over shards as if they were whole; use the attention of nn_bridge"};
  if (dynamic_cast<tn::FlattenImpl const*>(&module) || dynamic_cast<tn::UnflattenImpl const*>(&module))
    return Judgement{Verdict::refused,
                     "reshapes axes that may be cut; name it in ShardOptions::local where it does not"};
  if (dynamic_cast<tn::RReLUImpl const*>(&module))
    return Judgement{Verdict::refused, "draws random slopes by shard, not by global cell"};
  return std::nullopt;
}

class Sharder {
 public:
  Sharder(Domain const& domain, ShardOptions const& options)
      : domain_(domain),
        options_(options),
        model_(std::make_shared<detail::ShardedModel>(
            detail::ShardedModel{domain, std::uint64_t(options.random.seed), !options.local.empty()})) {}

  ShardReport judge_all(Module& model) {
    for (auto const& parameter : model.parameters()) model_->parameters.insert(parameter.unsafeGetTensorImpl());
    visit_children(model, "", true);
    return std::move(report_);
  }

  void commit() {
    detail::KeptRandomState const kept;
    for (auto const& change : changes_) change();
    if (options_.watch != WatchOperators::never) detail::Interceptor::of_thread().add_model(model_);
  }

 private:
  /// Where a module stands.
  struct Place {
    Module& parent;
    std::string name;
    std::size_t index;  ///< among the parent's children
  };

  void add(std::string const& path, std::string type, Verdict verdict, std::string reason) {
    model_->types.emplace(path, type);
    report_.modules.push_back({path, std::move(type), verdict, std::move(reason)});
  }

  [[nodiscard]] bool is_local(std::string const& path, std::string const& type) const {
    auto const& names = options_.local;
    return std::any_of(names.begin(), names.end(), [&](auto const& name) { return name == path || name == type; });
  }

  static bool is_container(Module const& module) {
    return is_any(module, TypeList<tn::SequentialImpl, tn::ModuleListImpl, tn::ModuleDictImpl>{});
  }

  void visit_children(Module& parent, std::string const& path, bool is_root = false) {
    model_->modules.insert(&parent);
    std::size_t const line = report_.modules.size();
    if (is_root) add("", type_name(typeid(parent)), Verdict::children_only, is_container(parent) ? "" : own_code);
    std::size_t index = 0;
    auto const children = parent.named_children();
    for (auto const& child : children)
      visit(child.value(), path.empty() ? child.key() : path + "." + child.key(), {parent, child.key(), index++});
    if (is_root && children.is_empty()) {
      report_.modules[line].verdict = Verdict::refused;
      report_.modules[line].reason = "a single layer: put it into a Sequential, or use the layer of nn_bridge";
    }
  }

  void visit(ModulePointer const& module, std::string const& path, Place const& place) {
    auto const type = serial_type(*module);
    if (is_local(path, type)) return add(path, type, Verdict::local, "named in ShardOptions::local");
    if (is_container(*module)) {
      add(path, type, Verdict::children_only, "");
      return visit_children(*module, path);
    }
    if (auto const* const known = find_known(*module)) return visit_known(module, *known, path, place);
    if (auto const judgement = judge(*module, domain_)) return add(path, type, judgement->verdict, judgement->reason);
    if (auto* const layer = dynamic_cast<Communicating*>(module.get()); layer && detail::lacks_domain(*layer)) {
      changes_.emplace_back([this, module, layer] {
        if (detail::lacks_domain(*layer)) detail::set_domain(*layer, domain_);
      });
      return add(path, type, Verdict::sharded, "a layer of nn_bridge, made without a domain");
    }
    if (is_own_layer(*module)) return add(path, type, Verdict::local, "a layer of nn_bridge");
    bool const own_state = !module->named_parameters(false).is_empty() || !module->named_buffers(false).is_empty();
    if (module->children().empty() || own_state)
      return add(path, type, Verdict::refused,
                 own_state ? "not known, and has parameters or buffers of its own: what does a shard do with them? "
                             "Name it in ShardOptions::local where it is right"
                           : "not known; name it in ShardOptions::local where it is right");
    add(path, type, Verdict::children_only, own_code);
    visit_children(*module, path);
  }

  static bool is_own_layer(Module const& module) { return module.name().rfind("graticule::nn::", 0) == 0; }

  /// The serial type of a `Layer`, too.
  static std::string serial_type(Module const& module) {
    auto const* const known = find_known(module);
    return known ? known->type : type_name(typeid(module));
  }

  void visit_known(ModulePointer const& module, KnownLayer const& known, std::string const& path, Place const& place) {
    bool const is_layer = dynamic_cast<Shardable*>(module.get()) != nullptr;
    if (!is_layer && !is_container(place.parent))
      return add(path, known.type, Verdict::refused,
                 "its parent calls it by its own type and would go on calling the serial forward; make the member a "
                 "graticule::nn::Layer<torch::nn::" +
                     known.type + ">");
    try {
      detail::KeptRandomState const kept;
      (void)known.counterparts(*module, context(path))();
    } catch (Error const& error) {
      return add(path, known.type, Verdict::refused, error.what());
    }
    add(path, known.type, Verdict::sharded, "");
    changes_.emplace_back([this, module, &known, path, &parent = place.parent, name = place.name, index = place.index] {
      auto& layer = layers_[module.get()];
      if (!layer) layer = sharded_layer(module, known, path);
      if (layer != module) put(layer, known, parent, name, index);
    });
  }

  [[nodiscard]] detail::ShardContext context(std::string const& path) const {
    auto const found = options_.shardings.find(path);
    auto random = options_.random;
    random.layer = std::uint32_t(Hash().add(std::string_view(path)).value());
    return {domain_, options_.padding, found == options_.shardings.end() ? domain_.sharding() : found->second,
            options_.data_team, random};
  }

  [[nodiscard]] detail::ShardedLayer place_of(KnownLayer const& known, std::string const& path) const {
    auto sharding = context(path).sharding;
    // A length is cut as rows are.
    if (known.type.ends_with("1d")) sharding = {{-1}, ProcessGrid{domain_.grid().extent(0)}};
    return {path, sharding, model_};
  }

  ModulePointer sharded_layer(ModulePointer const& module, KnownLayer const& known, std::string const& path) {
    auto layer = dynamic_cast<Shardable*>(module.get()) ? module : known.wrap(*module);
    dynamic_cast<Shardable&>(*layer).set_sharded([make = known.counterparts(*module, context(path)), &known,
                                                  place = place_of(known, path), watch = options_.watch] {
      detail::KeptRandomState const kept;
      auto const counterpart = make();
      auto const here = std::make_shared<detail::ShardedLayer>(place);
      using Inputs = std::vector<torch::Tensor>;
      auto const logged = [counterpart, &known, here, watch](
                              Module& serial, Inputs inputs,
                              c10::function_ref<torch::Tensor(Module & counterpart, Inputs const& on_globe)> forward) {
        known.share(serial, *counterpart);
        auto* const log = detail::TrialLog::current();
        auto* const eager = watch == WatchOperators::never ? nullptr : &detail::Interceptor::of_thread();
        if (eager)
          for (auto& x : inputs) x = eager->enter(x, *here);
        auto const before = log ? traffic() : Traffic{};
        auto y = [&] {
          detail::OwnCode const own;
          detail::LayerPath const named(here->path);
          return forward(*counterpart, inputs);
        }();
        // A copy: what comes next may work in place.
        if (log) {
          detail::OwnCode const own;
          log->calls.push_back({here->path, y.detach().clone(), traffic() - before});
          for (auto const& parameter : serial.named_parameters(false))
            log->names[parameter.value().unsafeGetTensorImpl()] = here->path + "." + parameter.key();
        }
        auto const* const talking = dynamic_cast<Communicating const*>(counterpart.get());
        if (eager) eager->leave(y, *here, talking ? detail::num_set_ups(*talking) : -1);
        return y;
      };
      ShardedForward sharded;
      sharded.layer = counterpart;
      sharded.call = [logged, &known](Module& serial, torch::Tensor const& x) {
        return logged(serial, {x}, [&](Module& own, Inputs const& in) { return known.forward(own, in[0]); });
      };
      if (known.forward_like)
        sharded.call_like = [logged, &known](Module& serial, torch::Tensor const& x, torch::Tensor const& like) {
          return logged(serial, {x, like},
                        [&](Module& own, Inputs const& in) { return known.forward_like(own, in[0], in[1]); });
        };
      return sharded;
    });
    return layer;
  }

  static void put(ModulePointer const& layer, KnownLayer const& known, Module& parent, std::string const& name,
                  std::size_t index) {
    parent.replace_module(name, layer);
    auto const at = std::ptrdiff_t(index);
    if (auto* sequential = dynamic_cast<tn::SequentialImpl*>(&parent))
      *(sequential->begin() + at) = known.as_any(layer);
    else if (auto* list = dynamic_cast<tn::ModuleListImpl*>(&parent))
      *(list->begin() + at) = layer;
    else if (auto* dict = dynamic_cast<tn::ModuleDictImpl*>(&parent))
      (dict->begin() + at)->value() = layer;
  }

  static constexpr char const* own_code =
      "what it does between its layers runs as on the globe, or is refused when it runs";

  Domain domain_;
  ShardOptions options_;
  ShardReport report_;
  std::shared_ptr<detail::ShardedModel> model_;  ///< as its layers know it
  std::vector<std::function<void()>> changes_;
  std::unordered_map<Module*, ModulePointer> layers_;
};

}  // namespace

char const* to_string(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::sharded: return "sharded";
    case Verdict::local: return "local";
    case Verdict::children_only: return "children only";
    case Verdict::refused: return "refused";
  }
  return "?";
}

int ShardReport::num(Verdict verdict) const noexcept {
  return int(std::count_if(modules.begin(), modules.end(), [&](auto const& m) { return m.verdict == verdict; }));
}

std::string ShardReport::text() const {
  std::size_t path_width = 4;
  std::size_t type_width = 4;
  std::size_t verdict_width = 7;
  for (auto const& module : modules) {
    path_width = std::max(path_width, module.path.size());
    type_width = std::max(type_width, module.type.size());
    verdict_width = std::max(verdict_width, std::string_view(to_string(module.verdict)).size());
  }
  std::ostringstream text;
  auto const line = [&](std::string const& path, std::string const& type, std::string const& verdict,
                        std::string const& reason) {
    text << path << std::string(path_width + 2 - path.size(), ' ') << type
         << std::string(type_width + 2 - type.size(), ' ') << verdict;
    if (!reason.empty()) text << std::string(verdict_width + 2 - verdict.size(), ' ') << reason;
    text << '\n';
  };
  line("path", "type", "verdict", "why");
  for (auto const& module : modules)
    line(module.path.empty() ? "." : module.path, module.type, to_string(module.verdict), module.reason);
  return text.str();
}

ShardReport shard(torch::nn::Module& model, Domain const& domain, ShardOptions const& options) {
  Sharder sharder(domain, options);
  ShardReport report;
  run_agreed(domain.comm(), [&] { report = sharder.judge_all(model); });
  auto const text = report.text();
  Hash hash;
  for (char const c : text) hash.add(int(c));
  for (auto const& parameter : model.named_parameters()) {
    for (char const c : parameter.key()) hash.add(int(c));
    for (auto const size : parameter.value().sizes()) hash.add(Index(size));
  }
  require_same(domain.comm(), "ArgumentDisagreement", hash.value(), text);
  if (report.num(Verdict::refused) > 0 && options.on_refusal == OnRefusal::fail) {
    std::string refusals;
    for (auto const& module : report.modules)
      if (module.verdict == Verdict::refused)
        refusals += (refusals.empty() ? "" : "; ") + (module.path.empty() ? "the model" : module.path) + " (" +
                    module.type + "): " + module.reason;
    throw Error("NotSharded", refusals);
  }
  run_agreed(domain.comm(), [&] { sharder.commit(); });
  return report;
}

void mark_shard(torch::Tensor const& x, torch::nn::Module const& module) {
  detail::Interceptor::of_thread().mark_shard(x, &module);
}

}  // namespace graticule::nn
