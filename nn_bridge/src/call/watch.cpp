// SPDX-License-Identifier: BSD-3-Clause
#include "watch.hpp"

#include <graticule/nn_bridge/detail/forward_scope.hpp>
#include <graticule/partition/detail/last_error.hpp>
#include <graticule/partition/failure.hpp>

#include <c10/util/Type.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <exception>

namespace graticule::nn::detail {

namespace {

constexpr char const* advice =
    "; use a layer of this library (docs/layers.md), or nn::Examined where it is right on shards";

/// Bits of the axes that are cut. Where nothing is, rows count: a model is wrong as soon as it runs on two ranks.
std::uint8_t bit_of(Domain const& domain, Sharding const& sharding, std::size_t axis) {
  bool const counts = sharding.grid.extent(int(axis)) > 1 || (domain.comm().num_ranks() == 1 && axis == 0);
  return counts ? std::uint8_t(1U << axis) : std::uint8_t(0);
}

std::string parent_of(std::string const& path) {
  auto const dot = path.rfind('.');
  return dot == std::string::npos ? std::string() : path.substr(0, dot);
}

/// The innermost module with both layers in it.
std::string common_parent(std::string const& a, std::string const& b) {
  for (auto parent = parent_of(a);; parent = parent_of(parent))
    if (parent.empty() || b.starts_with(parent + ".")) return parent;
}

}  // namespace

struct Watch::Context : at::ObserverContext {
  OperatorInfo const* op = nullptr;
  std::vector<c10::IValue> inputs;
  bool is_closed = false;
};

Watch& Watch::current() {
  // Not destroyed: operators may run while a thread ends.
  static thread_local auto* const watch = new Watch;
  return *watch;
}

void Watch::set_on(bool on) {
  if (on == is_on()) return;
  if (on) {
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&Watch::on_start, &Watch::on_end)
                                             .needsInputs(true)
                                             .needsOutputs(true)
                                             .scopes({at::RecordScope::FUNCTION}));
    return;
  }
  at::removeCallback(*handle_);
  handle_.reset();
  marks_.clear();
  extents_.clear();
  num_closed_ = 0;
}

std::unique_ptr<at::ObserverContext> Watch::on_start(at::RecordFunction const& call) { return current().start(call); }

void Watch::on_end(at::RecordFunction const& call, at::ObserverContext* context) {
  if (context) current().finish(call, static_cast<Context&>(*context));
}

std::unique_ptr<at::ObserverContext> Watch::start(at::RecordFunction const& call) {
  // Operators of a backward act on cotangents, whose sums over a shard's cells are right.
  if (own_depth > 0 || num_closed_ > 0 || torch::autograd::get_current_node()) return nullptr;
  auto const& op = operator_info(call);
  if (op.is_ignored()) return nullptr;
  bool is_marked = op.makes_marks();
  for (auto const& input : call.inputs())
    for_each_tensor(input, [&](torch::Tensor const& t) {
      if (!mark_of(t)) assume(t);
      is_marked = is_marked || mark_of(t) != nullptr;
    });
  if (!is_marked) return nullptr;
  auto context = std::make_unique<Context>();
  context->op = &op;
  context->inputs.assign(call.inputs().begin(), call.inputs().end());
  context->is_closed = !op.is_composed();
  num_closed_ += context->is_closed ? 1 : 0;
  return context;
}

void Watch::finish(at::RecordFunction const& call, Context& context) {
  num_closed_ -= context.is_closed ? 1 : 0;
  if (!context.is_closed) return;
  bool is_assumed = true;
  for (auto const& input : context.inputs)
    for_each_tensor(input, [&](torch::Tensor const& t) {
      if (auto const* const mark = mark_of(t)) is_assumed = is_assumed && mark->is_assumed;
    });
  for (auto const& output : call.outputs())
    for_each_tensor(output, [&](torch::Tensor const& t) {
      auto mark = result_mark(*context.op, place(), context.inputs, t,
                              [&](torch::Tensor const& input) { return mark_of(input); });
      mark.is_assumed = is_assumed;
      if (mark.wrong && context.op->name.ends_with('_')) spoil_storage(t, mark);
      set_mark(t, std::move(mark));
    });
}

/// What is written to a part of a tensor is in all of it.
void Watch::spoil_storage(torch::Tensor const& view, Mark const& mark) {
  if (!view.has_storage()) return;
  auto const* const storage = view.storage().unsafeGetStorageImpl();
  for (auto& [impl, entry] : marks_)
    if (!entry.tensor.expired() && impl->has_storage() && impl->storage().unsafeGetStorageImpl() == storage)
      entry.mark.wrong = mark.wrong;
  if (!view.is_view()) return;
  torch::Tensor const base(view._base());
  if (mark_of(base)) return;
  Mark of_base;
  of_base.wrong = mark.wrong;
  of_base.domain = mark.domain;
  of_base.is_assumed = mark.is_assumed;
  set_mark(base, std::move(of_base));
}

Mark const* Watch::mark_of(torch::Tensor const& t) const {
  auto const found = marks_.find(t.unsafeGetTensorImpl());
  if (found == marks_.end() || found->second.tensor.expired()) return nullptr;
  auto const& mark = found->second.mark;
  // Parameters are the same on all ranks, also where a model draws them while another one is watched.
  bool const is_parameter = mark.local && !mark.is_cut() && t.is_leaf() && t.requires_grad();
  return is_parameter ? nullptr : &mark;
}

void Watch::set_mark(torch::Tensor const& t, Mark mark) {
  auto* const impl = t.unsafeGetTensorImpl();
  if (mark.says_nothing()) {
    marks_.erase(impl);
    return;
  }
  if (marks_.size() >= next_sweep_) {
    std::erase_if(marks_, [](auto const& entry) { return entry.second.tensor.expired(); });
    next_sweep_ = std::max<std::size_t>(256, 2 * marks_.size());
  }
  marks_.insert_or_assign(impl, Entry{c10::weak_intrusive_ptr<c10::TensorImpl>(t.getIntrusivePtr()), std::move(mark)});
}

Watch::CutAxes Watch::cut_axes(Domain const& domain, Sharding const& sharding) {
  CutAxes cuts{sharding.axes, {}, &domain.comm()};
  for (std::size_t a = 0; a < sharding.axes.size() && a < 2; ++a) cuts.bits.push_back(bit_of(domain, sharding, a));
  return cuts;
}

void Watch::mark_as(torch::Tensor const& shard, CutAxes const& cuts, bool is_assumed) {
  Mark mark;
  mark.cut.assign(std::size_t(shard.dim()), 0);
  mark.is_assumed = is_assumed;
  mark.domain = cuts.domain;
  for (std::size_t a = 0; a < cuts.bits.size(); ++a) {
    auto const axis = cuts.axes[a] < 0 ? cuts.axes[a] + shard.dim() : cuts.axes[a];
    if (axis >= 0 && axis < shard.dim()) mark.cut[std::size_t(axis)] |= cuts.bits[a];
  }
  set_mark(shard, std::move(mark));
}

void Watch::mark(torch::Tensor const& shard, Domain const& domain, Sharding const& sharding, bool is_assumed) {
  if (shard.defined()) mark_as(shard, cut_axes(domain, sharding), is_assumed);
}

torch::Tensor Watch::hand_on(torch::Tensor const& x, torch::Tensor y, Domain const& domain) {
  auto const* const mark_of_x = is_on() ? mark_of(x) : nullptr;
  if (mark_of_x && mark_of_x->is_cut()) mark(y, domain, domain.sharding(), mark_of_x->is_assumed);
  return y;
}

/// The input of a model is known by its extents only, from the second forward on.
void Watch::assume(torch::Tensor const& t) {
  bool const is_parameter = t.is_leaf() && t.requires_grad();
  if (t.dim() < 3 || is_parameter || extents_.empty()) return;
  std::erase_if(extents_, [](Known const& known) { return known.model.expired(); });
  auto const found = std::find_if(extents_.begin(), extents_.end(), [&](Known const& known) {
    return t.size(-2) == known.rows && t.size(-1) == known.columns;
  });
  if (found != extents_.end()) mark_as(t, found->cuts, true);
}

std::string Watch::place() const { return last_path_.empty() ? "" : " (called after layer " + last_path_ + ")"; }

std::optional<std::string> Watch::fault_of(torch::Tensor const& x, Domain const& domain, bool takes_cells,
                                           bool& is_assumed) const {
  auto const* const mark = x.defined() ? mark_of(x) : nullptr;
  // What is whole in one domain may be cut in another.
  if (!mark || (mark->domain && mark->domain != &domain.comm())) return std::nullopt;
  is_assumed = mark->is_assumed;
  if (mark->wrong) return *mark->wrong;
  if (mark->partial && takes_cells) return *mark->partial + " reduces the cells of this rank alone";
  return std::nullopt;
}

void Watch::begin(torch::Tensor const& x, WatchedLayer const& layer) {
  if (!is_on() || own_depth > 0) return;
  bool is_assumed = false;
  if (auto const fault = fault_of(x, layer.domain, true, is_assumed)) {
    auto const parent = last_path_.empty() ? parent_of(layer.path) : common_parent(last_path_, layer.path);
    std::string module = parent.empty() ? "the model" : parent;
    if (layer.types)
      if (auto const type = layer.types->find(parent); type != layer.types->end()) module += " (" + type->second + ")";
    report(*fault + ": in the forward of " + module + ", before layer " + layer.path + advice, layer.domain,
           is_assumed || layer.only_warns);
  }
  // The input of a layer is a shard. That of the model belongs to the caller, who may do with it what he wants before
  // the next call; on one rank, where every field has the extents of a shard, a serial model may take it, too.
  bool const is_divided = layer.domain.comm().num_ranks() > 1;
  auto const* const known_mark = mark_of(x);
  bool const is_new = is_divided && !(known_mark && known_mark->is_cut());
  if (is_new || fault_of(x, layer.domain, true, is_assumed)) mark(x, layer.domain, layer.sharding, true);
  if (is_divided && layer.sharding.axes == std::vector<std::int64_t>{-2, -1} && x.dim() >= 3) {
    Known known{x.size(-2), x.size(-1), cut_axes(layer.domain, layer.sharding), layer.types};
    auto const same = [&](Known const& other) {
      return other.rows == known.rows && other.columns == known.columns && !other.model.expired();
    };
    if (std::none_of(extents_.begin(), extents_.end(), same) && extents_.size() < 4) extents_.push_back(known);
  }
}

void Watch::end(torch::Tensor const& y, WatchedLayer const& layer) {
  if (!is_on() || own_depth > 0) return;
  last_path_ = layer.path;
  only_warns_ = layer.only_warns;
  mark(y, layer.domain, layer.sharding);
}

void Watch::report(std::string const& text, Domain const& domain, bool is_assumed) {
  if (findings) {
    if (std::find(findings->begin(), findings->end(), text) == findings->end()) findings->push_back(text);
    return;
  }
  if (domain.comm().num_ranks() > 1 && !is_assumed) {
    if (pending_.empty()) pending_ = text;
    return;
  }
  if (domain.comm().rank() != 0 || !warned_.insert(text).second) return;
  TORCH_WARN("graticule: ", domain.comm().num_ranks() == 1 ? "right on one rank only: " : "on shards: ", text);
}

void Watch::check(torch::Tensor const& x, Domain const& domain, std::string const& layer, bool takes_cells) {
  if (!is_on()) return;
  bool is_assumed = false;
  if (own_depth == 0)
    if (auto const fault = fault_of(x, domain, takes_cells, is_assumed)) {
      report(*fault + ": before " + layer + advice, domain, is_assumed || only_warns_);
      // Once: what follows from it is no further fault.
      marks_.erase(x.unsafeGetTensorImpl());
    }
  if (!pending_.empty()) throw Error("NotSharded", std::exchange(pending_, {}));
}

OwnCode::OwnCode() noexcept { ++Watch::current().own_depth; }
OwnCode::~OwnCode() { --Watch::current().own_depth; }

ForwardScope::ForwardScope(Domain domain, std::string layer)
    : domain_(std::move(domain)), layer_(std::move(layer)), num_exceptions_(std::uncaught_exceptions()) {}

ForwardScope::~ForwardScope() {
  if (!type_ || std::uncaught_exceptions() <= num_exceptions_ || !graticule::detail::last_error_text().empty()) return;
  if (c10::demangle(type_->name()).starts_with("graticule::nn::")) return;
  try {
    announce_failure(domain_.comms(), "an exception has left the forward of " + layer_);
  } catch (...) {  // The exception that unwinds the stack is the one to see.
  }
}

}  // namespace graticule::nn::detail
