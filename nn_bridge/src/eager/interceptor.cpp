// SPDX-License-Identifier: BSD-3-Clause
#include "interceptor.hpp"

#include <graticule/nn_bridge/detail/forward_scope.hpp>
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/partition/error.hpp>
#include <graticule/partition/failure.hpp>
#include <graticule/program/detail/operators.hpp>

#include "planned_operator.hpp"

#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

namespace graticule::nn::detail {

namespace {

// Above autograd and autocast; LibTorch 2.13 leaves it to tests.
constexpr auto dispatch_key = c10::DispatchKey::TESTING_ONLY_GenericMode;

constexpr char const* advice =
    "; use a layer of this library (docs/layers.md), or nn::Examined where it is right on shards";

constexpr char const* marking_advice =
    "; begin the forward with nn::mark_shard(x, *this), then code on the input runs as on the globe";

void on_operator(c10::OperatorHandle const& op, torch::jit::Stack* stack) {
  // Operators of a backward act on cotangents, whose sums over a shard's cells are right.
  if (torch::autograd::get_current_node()) {
    OwnCode const own;
    op.callBoxed(stack);
    return;
  }
  Interceptor::of_thread().call(op, *stack);
}

void register_fallback() {
  static torch::Library const library = [] {
    torch::Library made(torch::Library::IMPL, "_", dispatch_key, __FILE__, __LINE__);
    made.fallback(torch::CppFunction::makeFromBoxedFunction<&on_operator>());
    return made;
  }();
}

std::string parent_of(std::string const& path) {
  auto const dot = path.rfind('.');
  return dot == std::string::npos ? std::string() : path.substr(0, dot);
}

void put(Values& stack, std::size_t first, Values results) {
  stack.resize(first);
  for (auto& result : results) stack.push_back(std::move(result));
}

Values called(c10::OperatorHandle const& op, Values stack) {
  OwnCode const own;
  op.callBoxed(stack);
  return stack;
}

/// Why a tensor has other values than in LibTorch: it is a copy of another, which has been changed since. Empty: none.
std::string stale_text(Mark const& mark) {
  for (auto const& of : mark.copies)
    if (of.counter.enabled() && of.counter.current_version() != of.version) return of.text;
  return {};
}

/// Numbers below are too common to tell anything.
constexpr std::int64_t least_telling = 5;

/// A result for this rank's cells, which is refused where cells of the model meet it.
Mark wrong_mark(std::string text, std::weak_ptr<ShardedModel> model) {
  Mark mark;
  mark.kind = Mark::Kind::wrong;
  mark.text = std::move(text);
  mark.model = std::move(model);
  return mark;
}

/// The number that a tensor stands for, as 2 in `h + 2`.
std::optional<double> wrapped_number(torch::Tensor const& t) {
  if (t.dim() != 0 || !t.unsafeGetTensorImpl()->is_wrapped_number()) return std::nullopt;
  return t.to(torch::kDouble).item<double>();
}

/// Integers and reals among the arguments.
std::vector<double> numbers_among(Values const& arguments) {
  std::vector<double> numbers;
  for (auto const& value : arguments) {
    if (value.isInt()) numbers.push_back(double(value.toInt()));
    if (value.isDouble()) numbers.push_back(value.toDouble());
    for_each_tensor(value, [&](torch::Tensor const& t) {
      if (auto const number = wrapped_number(t)) numbers.push_back(*number);
    });
  }
  return numbers;
}

/// Numbers that leave no trace in a plan: those of the ranks differ where they come from the sizes of shards.
/// @return whether there are any
bool add_numbers(Hash& hash, Values const& arguments) {
  bool any = false;
  auto const add = [&](Index number) {
    hash.add(number);
    any = true;
  };
  for (auto const& value : arguments) {
    if (value.isInt()) add(Index(value.toInt()));
    if (value.isBool()) add(value.toBool() ? 1 : 0);
    if (value.isDouble()) add(std::bit_cast<Index>(value.toDouble()));
    if (value.isIntList())
      for (auto const one : value.toIntVector()) add(Index(one));
    if (value.isTensor() && value.toTensor().defined())
      if (auto const number = wrapped_number(value.toTensor())) add(std::bit_cast<Index>(*number));
  }
  return any;
}

}  // namespace

/// An operator that waits for what needs it.
struct WaitingCall {
  c10::OperatorHandle op;
  OperatorKind const* kind;
  Values arguments;
  std::vector<std::int64_t> versions;
  bool grad_mode;
  std::weak_ptr<ShardedModel> model;
  std::uint64_t forward;
  std::int64_t num_reduced;   ///< cells of this rank per result, where that is not so on the globe
  std::int64_t num_rows = 0;  ///< of this rank in what it takes, where all ranks have as many
  std::size_t num_local = 0;  ///< tensors that it made of this rank's cells
  std::vector<torch::Tensor> results = {};
};

program::Cut ShardedModel::cut_of(std::int64_t axis, std::int64_t extent) const {
  auto const home = homes.find(extent);
  return home == homes.end() ? program::Cut::balanced(axis, extent, domain.comm().num_ranks())
                             : program::Cut{axis, std::max<std::int64_t>(extent, 1), home->second};
}

ShardedModel::~ShardedModel() {
  if (auto* const between = dynamic_cast<Interceptor*>(Between::current())) between->forget_models();
}

void Interceptor::forget_models() {
  std::vector<Mark> gone;  // what it holds ends after the table has been changed
  for (auto& [impl, entry] : marks_)
    if (entry.mark.call && entry.mark.model.expired()) gone.push_back(std::exchange(entry.mark, Mark()));
  std::erase_if(marks_, [](auto const& entry) { return entry.second.tensor.expired(); });
}

Interceptor& Interceptor::of_thread() {
  // Not destroyed: operators may run while a thread ends.
  static thread_local auto* const interceptor = [] {
    register_fallback();
    auto* const made = new Interceptor;
    Between::current() = made;
    return made;
  }();
  return *interceptor;
}

void Interceptor::set_own_code(bool own) noexcept { c10::impl::tls_set_dispatch_key_excluded(dispatch_key, own); }

// --- Marks ---

Mark const* Interceptor::find(torch::Tensor const& t) const {
  auto const found = marks_.find(t.unsafeGetTensorImpl());
  if (found == marks_.end() || found->second.tensor.expired()) return nullptr;
  auto const& mark = found->second.mark;
  if (mark.kind == Mark::Kind::made) return mark.stretch == stretch_ ? &mark : nullptr;
  return mark.model.expired() ? nullptr : &mark;
}

Guess const* Interceptor::find_guess(torch::Tensor const& t) const {
  auto const found = guesses_.find(t.unsafeGetTensorImpl());
  return found == guesses_.end() || found->second.tensor.expired() ? nullptr : &found->second.guess;
}

void Interceptor::set(torch::Tensor const& t, Mark mark) {
  if (marks_.size() >= next_sweep_) sweep();
  marks_.insert_or_assign(t.unsafeGetTensorImpl(),
                          Marked{c10::weak_intrusive_ptr<c10::TensorImpl>(t.getIntrusivePtr()), std::move(mark)});
}

void Interceptor::set_results(Values const& results, Mark const& mark) {
  for_each_tensor(results, [&](torch::Tensor const& t) { set(t, mark); });
}

void Interceptor::set_whole(Values const& results, Model const& model) {
  Mark whole;
  whole.model = model;
  for_each_tensor(results, [&](torch::Tensor const& t) {
    whole.shape = t.sizes().vec();
    set(t, whole);
  });
}

/// Forgets tensors that are gone, and what waits since the forward before the last.
void Interceptor::sweep() {
  std::erase_if(marks_, [](auto const& entry) { return entry.second.tensor.expired(); });
  std::erase_if(guesses_, [](auto const& entry) { return entry.second.tensor.expired(); });
  for (auto& [impl, entry] : marks_) {
    auto& mark = entry.mark;
    if (!mark.call || mark.call->forward + 2 > forward_) continue;
    mark.call.reset();
    mark.text += ", in a forward that is over";
  }
  next_sweep_ = std::max<std::size_t>(256, 2 * marks_.size());
}

/// What is written to a part of a tensor is in all of it.
void Interceptor::spoil(torch::Tensor const& t, std::string const& text) {
  auto const* const mark = find(t);
  auto const wrong = wrong_mark(text, mark && !mark->model.expired() ? mark->model : latest_);
  if (t.has_storage()) {
    auto const* const storage = t.storage().unsafeGetStorageImpl();
    for (auto& [impl, entry] : marks_)
      if (!entry.tensor.expired() && impl->has_storage() && impl->storage().unsafeGetStorageImpl() == storage)
        entry.mark = wrong;
  }
  set(t, wrong);
  if (t.is_view()) set(torch::Tensor(t._base()), wrong);
}

/// Results of an operator that gives views: as their source copies of what that is one of, and where cells have moved
/// of the source.
void Interceptor::note_views(OperatorKind const& kind, std::vector<torch::Tensor> const& leaves, Values const& results,
                             bool copied) {
  if (!kind.may_alias || leaves.empty()) return;
  auto const& source = leaves[0];
  auto const* const mark = find(source);
  auto copies = mark ? mark->copies : std::vector<CopyOf>();
  if (copied && source.has_storage() && !source.is_inference()) {
    auto const& counter = source.unsafeGetTensorImpl()->version_counter();
    copies.push_back(
        {source.storage().getWeakStorageImpl(), counter, counter.current_version(),
         kind.name + place() +
             " gives a view in LibTorch, and here a copy, because cells move: neither it nor its source can "
             "be changed in place; write y = h.clone() before, or f(h) for f_(h)"});
  }
  if (copies.empty()) return;
  for_each_tensor(results, [&](torch::Tensor const& t) {
    if (auto const found = marks_.find(t.unsafeGetTensorImpl()); found != marks_.end())
      found->second.mark.copies = copies;
  });
}

/// A copy has been changed: its sources, and other copies of these, would have changed with it.
void Interceptor::spoil_sources(torch::Tensor const& copy, std::vector<CopyOf> const& copies) {
  auto const storage_of = [](c10::TensorImpl const* t) {
    return t->has_storage() ? t->storage().unsafeGetStorageImpl() : nullptr;
  };
  auto const* const own = storage_of(copy.unsafeGetTensorImpl());
  for (auto const& of : copies) {
    auto const* const source = of.storage._unsafe_get_target();
    auto const is_of_source = [&](CopyOf const& other) { return other.storage._unsafe_get_target() == source; };
    for (auto& [impl, entry] : marks_) {
      if (entry.tensor.expired() || storage_of(impl) == own) continue;
      auto const& others = entry.mark.copies;
      if (storage_of(impl) != source && std::none_of(others.begin(), others.end(), is_of_source)) continue;
      Mark wrong;
      wrong.kind = Mark::Kind::wrong;
      wrong.text = of.text;
      wrong.model = entry.mark.model;
      entry.mark = wrong;
    }
  }
}

std::string Interceptor::place() const { return last_path_.empty() ? "" : " (called after layer " + last_path_ + ")"; }

void Interceptor::refuse(std::string const& text, Model const& model) const {
  auto const parent = parent_of(last_path_);
  std::string module = parent.empty() ? "the model" : parent;
  if (model)
    if (auto const type = model->types.find(parent); type != model->types.end()) module += " (" + type->second + ")";
  throw Error("NotSharded", text + ": in the forward of " + module + advice);
}

Values Interceptor::refused(c10::OperatorHandle const& op, Values arguments, std::string const& text,
                            Model const& model) {
  bool const warns = model && model->only_warns;
  if (!findings && !warns) refuse(text, model);
  if (findings) {
    if (std::find(findings->begin(), findings->end(), text) == findings->end()) findings->push_back(text);
  } else {
    warn(text, model);
  }
  return called(op, std::move(arguments));
}

/// Once per text, on rank 0.
void Interceptor::warn(std::string const& text, Model const& model) const {
  if (model->domain.comm().rank() == 0 && model->warned.insert(text).second) TORCH_WARN("graticule: on shards: ", text);
}

// --- Layers ---

void Interceptor::begin(ShardedLayer const& layer) {
  c10::impl::tls_set_dispatch_key_included(dispatch_key, true);
  ++stretch_;
  numbers_ = {};
  if (!called_.insert(layer.path).second) {
    called_ = {layer.path};
    ++forward_;
    layer.model->fresh.clear();
  }
  sweep();
}

torch::Tensor Interceptor::enter(torch::Tensor const& x, ShardedLayer const& layer) {
  auto const& model = layer.model;
  if (model->domain.comm().num_ranks() == 1 || !x.defined()) return x;
  begin(layer);
  auto const* mark = find(x);
  if (model->only_warns) return x;
  if (!mark) {
    auto const* const guess = find_guess(x);
    take_guessed(x, guess, layer);
    if (!guess) return x;
    auto const& sharding = layer.sharding;
    for (std::size_t a = 0; a < sharding.axes.size(); ++a) {
      auto const axis = x.dim() + sharding.axes[a];
      if (sharding.grid.extent(int(a)) == 1 || axis < 0) continue;
      if (guess->field && guess->field->place->axis != axis && x.size(axis) > 1 &&
          x.size(guess->field->place->axis) > 1)
        given_ = "an input whose rows are along axis " +
                 c10::str(guess->field->place->axis - std::int64_t(guess->field->shape.size())) + ", before layer " +
                 layer.path + marking_advice;
      if (!guess->index.empty() && guess->fault.empty() && x.dim() >= 3 && x.size(axis) > 1)
        given_ = guess->index + index_fault + ": before layer " + layer.path;
      if (!guess->fault.empty() && guess->extents.contains(x.size(axis)))
        given_ = guess->fault + ": before layer " + layer.path + marking_advice;
    }
    return x;
  }
  if (mark->kind == Mark::Kind::made) return x;
  if (auto const stale = stale_text(*mark); mark->kind == Mark::Kind::wrong || !stale.empty()) {
    auto const text = (stale.empty() ? mark->text : stale) + ": before layer " + layer.path;
    if (findings)
      findings->push_back(text);
    else
      given_ = text + advice;
    return x;
  }
  auto const input = computed(x);
  mark = find(input);
  if (!mark || (mark->kind != Mark::Kind::cut && mark->kind != Mark::Kind::whole)) return x;
  numbers_ = mark->numbers;
  if (numbers_.draws.empty() && mark->place) numbers_.is_sure = input.size(mark->place->axis) != 1;
  auto const& sharding = layer.sharding;
  for (std::size_t a = 0; a < sharding.axes.size(); ++a) {
    if (sharding.grid.extent(int(a)) == 1) continue;
    auto const axis = std::int64_t(mark->shape.size()) + sharding.axes[a];
    if (axis < 0) return input;
    if (mark->columns) {
      bool const fits = (a == 0 ? mark->place->axis : mark->columns->axis) == axis;
      if (!fits) refuse("a field whose rows and columns are other axes than those of layer " + layer.path, model);
      continue;
    }
    return moved(input, axis, model);
  }
  return input;
}

void Interceptor::leave(torch::Tensor const& y, ShardedLayer& layer, int set_ups) {
  auto const& model = layer.model;
  auto const& comm = model->domain.comm();
  if (comm.num_ranks() == 1 || !y.defined()) return;
  last_path_ = layer.path;
  ++stretch_;
  if (set_ups != layer.num_set_ups || set_ups < 0 || layer.sizes != y.sizes().vec()) {
    layer.mark = {};
    layer.mark.kind = Mark::Kind::cut;
    layer.mark.model = model;
    layer.mark.shape = y.sizes().vec();
    auto const& sharding = layer.sharding;
    for (std::size_t a = 0; a < sharding.axes.size(); ++a) {
      auto const& grid = sharding.grid;
      auto const axis = y.dim() + sharding.axes[a];
      if (grid.extent(int(a)) == 1 || axis < 0) continue;
      auto const found = comm.gather_to_all(Index(y.size(axis)));
      program::Cut cut;
      cut.axis = axis;
      cut.bounds.assign(std::size_t(grid.extent(int(a))) + 1, 0);
      for (int r = 0; r < comm.num_ranks(); ++r)
        cut.bounds[std::size_t(grid.coords(r)[int(a)]) + 1] = found[std::size_t(r)];
      for (std::size_t p = 1; p < cut.bounds.size(); ++p) cut.bounds[p] += cut.bounds[p - 1];
      cut.period = std::max<std::int64_t>(cut.bounds.back(), 1);
      layer.mark.shape[std::size_t(axis)] = cut.bounds.back();
      if (layer.mark.place)
        layer.mark.columns = cut;
      else
        layer.mark.place = cut;
    }
    layer.num_set_ups = set_ups;
    layer.sizes = y.sizes().vec();
  }
  if (!layer.mark.place) return;
  auto const& place = *layer.mark.place;
  if (model->fresh.insert(place.bounds.back()).second) {
    auto& home = model->homes[place.bounds.back()];
    if (home != place.bounds) model->planned.clear();
    home = place.bounds;
  }
  set(y, layer.mark);
}

void Interceptor::mark_input(torch::Tensor const& x, Model const& model) { mark_first(x, model, true); }

void Interceptor::mark_shard(torch::Tensor const& x, void const* module) {
  for (auto const& held : models_)
    if (auto const model = held.lock(); model && model->modules.contains(module) && !model->only_warns)
      return mark_first(x, model, false);
}

void Interceptor::add_model(Model const& model) {
  std::erase_if(models_, [](auto const& held) { return held.expired(); });
  models_.push_back(model);
  latest_ = model;
  if (model->domain.comm().num_ranks() > 1) c10::impl::tls_set_dispatch_key_included(dispatch_key, true);
}

void Interceptor::mark_first(torch::Tensor const& x, Model const& model, bool is_input) {
  if (model->domain.comm().num_ranks() == 1 || !x.defined()) return;
  ShardedLayer input{"", model->domain.sharding(), model};
  auto const path = last_path_;
  begin(input);
  leave(x, input, -1);
  last_path_ = path;
  if (input.mark.place) {
    input.mark.is_input = is_input;
    set(x, input.mark);
  }
}

void Interceptor::check_entry(torch::Tensor const& x, Domain const& domain, std::string const& layer, Entry entry) {
  auto const* const mark = find(x);
  if (!mark || mark->kind == Mark::Kind::made) return;
  auto const model = mark->model.lock();
  if (!model || model->only_warns) return;
  if (model->domain.comm().handle() != domain.comm().handle())
    return;  // What is cut in one domain may be whole in another.
  std::string fault;
  if (mark->kind == Mark::Kind::wrong) fault = mark->text;
  if (mark->kind == Mark::Kind::waiting && entry == Entry::field)
    fault = mark->text + " reduces the cells of this rank alone";
  if (mark->kind == Mark::Kind::whole && entry == Entry::sum)
    fault = "a value that is whole on every rank, and would be counted once per rank";
  if (mark->kind == Mark::Kind::cut && entry == Entry::field && mark->place && !mark->columns) {
    auto const from_end = mark->place->axis - std::int64_t(mark->shape.size());
    if (from_end != (model->domain.grid().extent(0) > 1 ? -2 : -1) && mark->shape.size() > 3)
      fault = "a field that is cut along axis " + std::to_string(from_end);
  }
  if (fault.empty()) return;
  marks_.erase(x.unsafeGetTensorImpl());  // Once: what follows from it is no further fault.
  if (findings) {
    findings->push_back(fault + ": before " + layer);
    return;
  }
  throw Error("NotSharded", fault + ": before " + layer + advice);
}

void Interceptor::check_given() {
  if (!given_.empty()) throw Error("NotSharded", std::exchange(given_, {}));
}

void Interceptor::hand_on(torch::Tensor const& x, torch::Tensor const& y) {
  auto const* const mark = find(x);
  if (mark && mark->kind == Mark::Kind::cut && x.sizes() == y.sizes()) set(y, Mark(*mark));
}

// --- Operators ---

void Interceptor::call(c10::OperatorHandle const& op, Values& stack) {
  auto const& kind = kind_of(op);
  auto const first = stack.size() - op.schema().arguments().size();
  Values arguments(stack.begin() + std::ptrdiff_t(first), stack.end());
  if (!guesses_.empty()) take_faults(arguments);
  auto const met = met_in(arguments);
  auto const& model = met.model;
  if (!model) {
    auto results = called(op, arguments);
    if (kind.role == OperatorRole::by_index || draws(kind, op, arguments) || met.is_flagged)
      made_without_shards(kind, arguments, results, met.is_flagged);
    if (kind.role != OperatorRole::ignored) guess(op, kind, arguments, results);
    return put(stack, first, std::move(results));
  }
  if (kind.role == OperatorRole::ignored) return put(stack, first, called(op, std::move(arguments)));
  if (kind.alternative) {  // `_pad_enum` is `pad`
    kind.alternative(arguments);
    return put(stack, first, std::move(arguments));
  }
  if (kind.base == "narrow" && takes_rows(arguments)) {
    auto const start = arguments[2].toInt();
    return put(stack, first,
               {arguments[0].toTensor().slice(arguments[1].toInt(), start, start + arguments[3].toInt())});
  }
  if (kind.in_place || kind.has_out) return in_place(op, kind, stack, first, met);
  if (!met.wrong.empty()) return put(stack, first, wrong_call(op, kind, std::move(arguments), met.wrong, model));
  if (kind.role == OperatorRole::composed) {
    composed_numbers_ = numbers_of(kind, arguments);
    ++composed_depth_;
    auto const leave_composed = c10::make_scope_exit([this] { --composed_depth_; });
    op.callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, stack);
    return;
  }
  if (kind.role == OperatorRole::reading)
    return put(stack, first,
               wrong_call(op, kind, std::move(arguments), kind.name + place() + " is not planned on shards", model));
  if (met.has_waiting) {
    bool const goes_on = !met.has_cells && (!met.has_parts || kind.is_cellwise || kind.is_part || kind.is_reduction);
    if (goes_on && kind.role != OperatorRole::random)
      return put(stack, first, waiting_call(op, kind, std::move(arguments), !met.has_parts, model));
    for (auto& value : arguments) value = with_tensors_of(value, [&](torch::Tensor const& t) { return computed(t); });
  }
  put(stack, first, planned_call(op, kind, std::move(arguments), false));
}

Interceptor::Met Interceptor::met_in(Values const& arguments) const {
  Met met;
  for_each_tensor(arguments, [&](torch::Tensor const& t) {
    auto const* const mark = find(t);
    if (!mark) return;
    bool const is_made = mark->kind == Mark::Kind::made;
    met.is_flagged = met.is_flagged || is_made;
    if (is_made) return;
    bool const waits = mark->kind == Mark::Kind::waiting;
    if (!met.model) met.model = mark->model.lock();
    if (mark->kind == Mark::Kind::wrong) met.wrong = mark->text;
    if (auto stale = stale_text(*mark); !stale.empty()) met.wrong = std::move(stale);
    met.is_cut = met.is_cut || mark->kind == Mark::Kind::cut;
    met.has_cells = met.has_cells || met.is_cut || mark->kind == Mark::Kind::whole;
    met.has_waiting = met.has_waiting || waits;
    met.has_parts = met.has_parts || (waits && !mark->is_whole);
  });
  return met;
}

CellNumbers Interceptor::numbers_of(OperatorKind const& kind, Values const& arguments) const {
  // The parts of an operator may be others where a rank has no cells.
  if (composed_depth_ > 0) return composed_numbers_;
  // `contiguous` is not called where cells lie so already, which ranks with few rows may find alone.
  constexpr std::array memory{"contiguous", "clone", "to", "_to_copy"};
  bool const computes = kind.is_cellwise && std::find(memory.begin(), memory.end(), kind.base) == memory.end();
  Hash hash;
  CellNumbers numbers;
  bool const has_own = computes && add_numbers(hash, arguments);
  std::vector<std::uint64_t> given;
  auto const add_draws = [&](CellNumbers const& of, bool is_sure) {
    if (of.draws.empty()) return;
    numbers.add_draws(of.draws);
    numbers.is_sure = numbers.is_sure && is_sure;
  };
  for_each_tensor(arguments, [&](torch::Tensor const& t) {
    if (auto const* const mark = find(t)) {
      if (mark->numbers.hash != 0) given.push_back(mark->numbers.hash);
      return add_draws(mark->numbers, mark->numbers.is_sure);
    }
    auto const* const guess = guesses_.empty() ? nullptr : find_guess(t);
    if (!guess || guess->numbers.draws.empty()) return;
    auto const [has_rows, is_sure] = may_have_rows(t, arguments);
    if (guess->is_combined || !has_rows) add_draws(guess->numbers, guess->is_combined || is_sure);
  });
  if (!has_own && given.size() < 2) {
    numbers.hash = given.empty() ? 0 : given[0];
    return numbers;
  }
  for (auto const one : given) hash.add(Index(one));
  numbers.hash = hash.value();
  return numbers;
}

/// Whether `t` has a row for each of the field among the arguments, and whether that is sure: not where that has one.
std::pair<bool, bool> Interceptor::may_have_rows(torch::Tensor const& t, Values const& arguments) const {
  std::pair<bool, bool> found{false, true};
  for_each_tensor(arguments, [&](torch::Tensor const& other) {
    auto const* const mark = find(other);
    if (!mark || mark->kind != Mark::Kind::cut) return;
    auto const axis = t.dim() + mark->place->axis - std::int64_t(mark->shape.size());
    if (axis < 0) return;
    found.first = found.first || t.size(axis) != 1;
    found.second = found.second && other.size(mark->place->axis) != 1;
  });
  return found;
}

/// Numbers of arithmetic that are the size of this rank's shard, as those of all ranks are.
void Interceptor::check_numbers(OperatorKind const& kind, Values const& arguments, Model const& model) {
  if (!kind.is_arithmetic) return;
  std::map<double, std::int64_t> sizes;  // and how many they are on the globe
  std::int64_t num_rows = 0;
  for_each_tensor(arguments, [&](torch::Tensor const& t) {
    auto const* const mark = find(t);
    if (!mark || mark->kind != Mark::Kind::cut || !sizes.empty() || !is_even(*mark->place)) return;
    auto const axis = std::size_t(mark->place->axis);
    num_rows = t.sizes()[axis];
    if (num_rows <= 1 || num_rows == mark->shape[axis]) return;
    std::int64_t own = 1;
    std::int64_t all = 1;
    for (std::size_t i = std::size_t(t.dim()); i-- > 0;) {
      own *= t.sizes()[i];
      all *= mark->shape[i];
      if (i <= axis) sizes.emplace(double(own), all);
    }
    sizes.emplace(double(num_rows), mark->shape[axis]);
    if (!mark->columns) return;
    auto const columns = std::size_t(mark->columns->axis);
    sizes.emplace(double(t.sizes()[columns]), mark->shape[columns]);
  });
  for (double const number : numbers_among(arguments))
    for (auto const& [size, on_globe] : sizes) {
      bool const is_inverse = num_rows >= least_telling && std::abs(number * size - 1) < 1e-9;
      if (number != size && !is_inverse) continue;
      auto const text = kind.name + place() + " with " + (is_inverse ? "1 / " : "") + c10::str(std::int64_t(size)) +
                        ", which is a size of this rank's shard; on the globe it is " + c10::str(on_globe) +
                        ". Use that, or where it is a constant torch::tensor(" + c10::str(number) + ")";
      bool const may_be_right = is_inverse || num_rows < least_telling;
      if (findings && !may_be_right) findings->push_back(text);
      if (findings) return;  // a trial compares
      if (!may_be_right && !model->only_warns) refuse(text, model);
      return warn(text, model);
    }
}

/// Numbers that count from the first of these, as `arange(h.size(2))` and `linspace(-1, 1, h.size(2))`.
[[nodiscard]] static bool counts_from_first(OperatorKind const& kind, Values const& arguments) {
  auto const is_number = [&](std::size_t i, double number) {
    if (i >= arguments.size()) return false;
    auto const& value = arguments[i];
    return (value.isInt() && double(value.toInt()) == number) || (value.isDouble() && value.toDouble() == number);
  };
  if (kind.base == "arange") return kind.target == "aten.arange.default";
  if (kind.base != "linspace") return false;
  return (is_number(1, 1) && (is_number(0, 0) || is_number(0, -1))) ||
         (is_number(0, 1) && (is_number(1, 0) || is_number(1, -1)));
}

// --- Before the first layer ---

/// What operators do to tensors that no layer has made. Such a tensor of three axes or more may be the shard of an
/// input. An operator that would need cells of other ranks then makes a fault of its results, which is one where they
/// meet a field with as many rows, or enter a layer with as many.
void Interceptor::guess(c10::OperatorHandle const& op, OperatorKind const& kind, Values const& arguments,
                        Values const& results) {
  auto const model = latest_.lock();
  if (!model || model->only_warns || findings || model->domain.comm().num_ranks() == 1) return;
  Guess found;
  bool is_known = false;
  for_each_tensor(arguments, [&](torch::Tensor const& t) {
    auto const* const given = guesses_.empty() ? nullptr : find_guess(t);
    if (!given) return;
    is_known = true;
    if (found.fault.empty()) found.fault = given->fault;
    if (!kind.is_part && found.index.empty()) found.index = given->index;
    found.extents.insert(given->extents.begin(), given->extents.end());
  });
  bool const is_drawn = draws(kind, op, arguments);
  if (kind.is_cellwise && !is_known && !is_drawn) return;
  std::vector<std::int64_t> axes;
  for (int a = 0; a < 2; ++a)
    if (model->domain.grid().extent(a) > 1) axes.push_back(a - 2);
  auto const has_rows_of = [&](torch::Tensor const& t) { return t.dim() >= 3 && t.size(t.dim() + axes[0]) > 1; };
  std::vector<std::optional<Mark>> fields;
  bool const may_be_whole = kind.is_part && !takes_part_of_shard(kind, arguments, axes, *model);
  if (found.fault.empty() && kind.role == OperatorRole::planned && !may_be_whole && !kind.has_out)
    for (auto const axis : axes) {
      auto of_results = seem_local(op, kind, arguments, results, axis, model, found);
      if (axes.size() == 1) fields = std::move(of_results);
    }
  if (kind.role == OperatorRole::by_index && counts_from_first(kind, arguments)) found.index = kind.name;
  if (!found.index.empty()) {
    bool meets_field = false;
    for_each_tensor(arguments, [&](torch::Tensor const& t) {
      auto const* const other = find_guess(t);
      if (!has_rows_of(t) || (other && !other->index.empty())) return;
      meets_field = true;
      auto const num_rows = t.size(t.dim() + axes[0]);
      if (!meets_rows(arguments, axes[0], num_rows)) return;
      if (found.fault.empty()) found.fault = found.index + index_fault;
      found.extents.insert(num_rows);
    });
    if (meets_field) found.index.clear();
  }
  std::size_t k = 0;
  for_each_tensor(results, [&](torch::Tensor const& t) {
    auto own = found;
    if (k < fields.size()) own.field = fields[k];
    ++k;
    add_random_numbers(own, arguments, t, is_drawn, axes[0]);
    if (own.field || !own.fault.empty() || !own.numbers.draws.empty() || !own.index.empty()) {
      if (guesses_.size() >= next_sweep_) sweep();
      guesses_.insert_or_assign(t.unsafeGetTensorImpl(),
                                Guessed{c10::weak_intrusive_ptr<c10::TensorImpl>(t.getIntrusivePtr()), std::move(own)});
    } else if (!guesses_.empty()) {
      guesses_.erase(t.unsafeGetTensorImpl());
    }
  });
}

/// Parts of whole fields are how shards are made: the first rank's begins with the first row, the last one's ends with
/// the last. Other parts are of this rank's shard.
bool Interceptor::takes_part_of_shard(OperatorKind const& kind, Values const& arguments,
                                      std::vector<std::int64_t> const& axes, ShardedModel const& model) {
  if (axes.size() != 1 || arguments.size() < 3 || !arguments[0].isTensor() || !arguments[1].isInt()) return false;
  auto const& t = arguments[0].toTensor();
  auto const dim = arguments[1].toInt() < 0 ? arguments[1].toInt() + t.dim() : arguments[1].toInt();
  if (t.dim() < 3 || dim != t.dim() + axes[0]) return false;
  auto const size = t.size(dim);
  auto const place = [&](c10::IValue const& value, std::int64_t otherwise) {
    if (!value.isInt()) return otherwise;
    auto const index = value.toInt();
    return std::clamp<std::int64_t>(index < 0 ? index + size : index, 0, size);
  };
  auto const begin = place(arguments[2], 0);
  std::int64_t end = begin + 1;  // select
  if (kind.base == "slice")
    end = arguments.size() > 3 ? place(arguments[3], size) : size;
  else if (kind.base == "narrow" && arguments[3].isInt())
    end = begin + arguments[3].toInt();
  else if (kind.base != "select")
    return false;
  auto const rank = model.domain.comm().rank();
  if (begin >= end) return false;  // of a rank without rows
  return (rank == 0 && begin > 0) || (rank + 1 == model.domain.comm().num_ranks() && end < size);
}

/// Whether numbers by index are along rows.
bool Interceptor::meets_rows(Values const& arguments, std::int64_t axis, std::int64_t num_rows) const {
  bool meets = false;
  for_each_tensor(arguments, [&](torch::Tensor const& t) {
    auto const* const guess = find_guess(t);
    meets = meets || (guess && !guess->index.empty() && t.dim() + axis >= 0 && t.size(t.dim() + axis) == num_rows);
  });
  return meets;
}

/// Random numbers, that whole rows are computed with, must be those of all ranks. A field of them may differ.
void Interceptor::add_random_numbers(Guess& guess, Values const& arguments, torch::Tensor const& result, bool is_drawn,
                                     std::int64_t axis) const {
  constexpr std::int64_t most = 4096;
  if (is_drawn) {
    if (result.numel() == 0 || result.numel() > most || !result.is_cpu() || result.layout() != torch::kStrided) return;
    OwnCode const own;
    auto const numbers = result.detach().contiguous();
    auto const bytes = std::string_view(static_cast<char const*>(numbers.data_ptr()), numbers.nbytes());
    guess.numbers.draws = {Hash().add(bytes).value()};
    return;
  }
  // A single row may be one of the field, or stand for all of them.
  auto const has_rows = [&](torch::Tensor const& t) { return t.dim() >= 3 && t.size(t.dim() + axis) != 1; };
  for_each_tensor(arguments, [&](torch::Tensor const& t) {
    auto const* const other = find_guess(t);
    if (!other) return;
    bool const is_of_rows = !other->is_combined && has_rows(t);
    if (!has_rows(result) || !is_of_rows) guess.numbers.add_draws(other->numbers.draws);
  });
  guess.is_combined = has_rows(result) && !guess.numbers.draws.empty();
}

/// The random numbers in what a layer has been given, if they are for whole rows or may be.
void Interceptor::take_guessed(torch::Tensor const& x, Guess const* guess, ShardedLayer const& layer) {
  auto const& sharding = layer.sharding;
  for (std::size_t a = 0; a < sharding.axes.size(); ++a) {
    auto const axis = x.dim() + sharding.axes[a];
    if (sharding.grid.extent(int(a)) == 1 || axis < 0) continue;
    bool const is_single = x.size(axis) == 1;
    if (guess && (guess->is_combined || is_single)) numbers_ = guess->numbers;
    numbers_.is_sure = !is_single || (guess && guess->is_combined);
    return;
  }
}

/// Where the results of an operator on shards of inputs are cut, if it needs no other cells; else adds the fault.
std::vector<std::optional<Mark>> Interceptor::seem_local(c10::OperatorHandle const& op, OperatorKind const& kind,
                                                         Values const& arguments, Values const& results,
                                                         std::int64_t axis, Model const& model, Guess& guess) {
  auto const ranks = model->domain.comm().num_ranks();
  auto const leaves = leaves_of(arguments);
  std::vector<Mark> seeming(leaves.size());
  std::vector<Mark const*> marks(leaves.size(), nullptr);
  std::set<std::int64_t> extents;
  std::string sizes;
  bool has_field = false;
  bool const has_rows = std::any_of(leaves.begin(), leaves.end(),
                                    [&](auto const& t) { return t.dim() >= 3 && t.size(t.dim() + axis) > 1; });
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    auto const& t = leaves[i];
    auto const* const known = find_guess(t);
    if (t.layout() != torch::kStrided) return {};
    if (known && known->field) {
      seeming[i] = *known->field;
    } else {
      bool const is_parameter = model->parameters.contains(t.unsafeGetTensorImpl());
      bool const is_number = torch::isFloatingType(t.scalar_type()) || torch::isComplexType(t.scalar_type());
      // One row is that of a rank which has one, or a number for all rows.
      if (t.dim() < 3 || is_parameter || !is_number || (has_rows && t.size(t.dim() + axis) <= 1)) continue;
      auto const own = t.size(t.dim() + axis);
      auto& mark = seeming[i];
      mark.kind = Mark::Kind::cut;
      mark.model = model;
      mark.is_input = true;
      mark.shape = t.sizes().vec();
      program::Cut cut;
      cut.axis = t.dim() + axis;
      cut.period = std::max<std::int64_t>(own * ranks, 1);
      for (int p = 0; p <= ranks; ++p) cut.bounds.push_back(own * p);
      mark.shape[std::size_t(cut.axis)] = own * ranks;
      mark.place = cut;
    }
    marks[i] = &seeming[i];
    has_field = true;
    if (auto const own = t.size(seeming[i].place->axis); own > 1) extents.insert(own);
    sizes += (sizes.empty() ? "" : ", ") + c10::str(t.sizes());
  }
  if (!has_field || (kind.in_place && !kind.functional)) return {};
  std::shared_ptr<PlannedOperator> planned;
  try {
    planned = kind.in_place ? plan(*kind.functional, kind_of(*kind.functional), arguments, leaves, marks, model)
                            : plan(op, kind, arguments, leaves, marks, model);
  } catch (std::exception const&) {
    return {};
  }
  std::vector<std::optional<Mark>> fields;
  if (planned->direct || (kind.is_view && planned->placed && planned->placed->keeps_views())) {
    for (auto const& mark : planned->marks) {
      auto& field = fields.emplace_back();
      if (mark.place && mark.place->axis != std::int64_t(mark.shape.size()) + axis) field = mark;
    }
    return fields;
  }
  if (extents.empty()) return {};  // one row, or none: another rank has the fault
  for_each_tensor(results, [&](torch::Tensor const& t) {
    if (t.dim() + axis >= 0 && t.size(t.dim() + axis) > 1) extents.insert(t.size(t.dim() + axis));
  });
  guess.fault = kind.name + " of " + sizes + " needs cells of other ranks";
  guess.extents.insert(extents.begin(), extents.end());
  return {};
}

/// What is faulty, and meets cells with as many rows, is wrong.
void Interceptor::take_faults(Values const& arguments) {
  for_each_tensor(arguments, [&](torch::Tensor const& field) {
    auto const* const mark = find(field);
    if (!mark || mark->kind != Mark::Kind::cut) return;
    auto const own = field.size(mark->place->axis);
    auto wrong = wrong_mark({}, mark->model);
    for_each_tensor(arguments, [&](torch::Tensor const& t) {
      auto const* const guess = find(t) ? nullptr : find_guess(t);
      if (!guess) return;
      auto const axis = t.dim() + mark->place->axis - field.dim();
      if (!guess->fault.empty() && guess->extents.contains(own))
        wrong.text = guess->fault + marking_advice;
      else if (!guess->index.empty() && axis >= 0 && t.size(axis) == own && own > 1 &&
               own != mark->shape[std::size_t(mark->place->axis)])
        wrong.text = guess->index + index_fault;
      else
        return;
      set(t, wrong);
    });
  });
}

/// Whether `narrow` takes rows that the globe has: this rank may have fewer, for which a slice throws nothing.
bool Interceptor::takes_rows(Values const& arguments) const {
  auto const* const mark = find(arguments[0].toTensor());
  if (!mark || mark->kind != Mark::Kind::cut || !arguments[2].isInt()) return false;
  auto const start = arguments[2].toInt();
  auto const length = arguments[3].toInt();
  auto const ndim = std::int64_t(mark->shape.size());
  auto const axis = arguments[1].toInt() < 0 ? arguments[1].toInt() + ndim : arguments[1].toInt();
  bool const is_cut = axis == mark->place->axis || (mark->columns && axis == mark->columns->axis);
  return is_cut && axis < ndim && start >= 0 && length >= 0 && start + length <= mark->shape[std::size_t(axis)];
}

Values Interceptor::local_call(c10::OperatorHandle const& op, Values arguments, std::string const& name) {
  try {
    return called(op, std::move(arguments));
  } catch (c10::Error const& error) {
    // Other ranks, whose parts have other sizes, may go on and wait for this one.
    if (auto const model = latest_.lock())
      announce_failure(model->domain.comms(), name + place() + ": " + first_line(error.what_without_backtrace()));
    throw;
  }
}

/// Results on this rank, which are wrong where they meet cells.
Values Interceptor::wrong_call(c10::OperatorHandle const& op, OperatorKind const& kind, Values arguments,
                               std::string const& text, Model const& model) {
  Values results;
  try {
    results = local_call(op, std::move(arguments), kind.name);
  } catch (c10::Error const&) {  // its sizes are those of the globe, perhaps
    refuse(text, model);
  }
  set_results(results, wrong_mark(text, model));
  return results;
}

void Interceptor::made_without_shards(OperatorKind const& kind, Values const& arguments, Values const& results,
                                      bool is_flagged) {
  if (last_path_.empty()) return;
  Mark mark;
  mark.kind = Mark::Kind::made;
  mark.stretch = stretch_;
  mark.text = kind.name + place();
  mark.is_random = kind.role == OperatorRole::random;
  if (is_flagged)
    for_each_tensor(arguments, [&](torch::Tensor const& t) {
      auto const* const given = find(t);
      if (!given) return;
      mark.text = given->text;
      mark.is_random = mark.is_random || given->is_random;
    });
  set_results(results, mark);
}

void Interceptor::in_place(c10::OperatorHandle const& op, OperatorKind const& kind, Values& stack, std::size_t first,
                           Met const& met) {
  Values arguments(stack.begin() + std::ptrdiff_t(first), stack.end());
  auto const name = kind.name + place();
  auto const& model = met.model;
  bool const has_wrong = !met.wrong.empty();
  bool has_waiting = met.has_waiting;
  auto const at = kind.has_out ? arguments.size() - 1 : 0;
  auto const self = arguments.empty() || !arguments[at].isTensor() ? torch::Tensor() : arguments[at].toTensor();
  if ((kind.has_out && !kind.functional) || !self.defined() || !model)
    return put(stack, first, refused(op, std::move(arguments), name + " with out= or a list to write to", model));
  auto const* const own = find(self);
  bool const own_waits = own && own->kind == Mark::Kind::waiting;
  if (has_waiting && met.has_cells && !own_waits && !has_wrong) {
    for (std::size_t i = 1; i < arguments.size(); ++i)
      arguments[i] = with_tensors_of(arguments[i], [&](torch::Tensor const& t) { return computed(t); });
    has_waiting = false;
  }
  if (met.has_cells) check_numbers(kind, arguments, model);
  bool fits = false;
  Mark result;
  if (!has_waiting && !has_wrong && kind.functional) {
    auto given = arguments;
    if (kind.has_out) given.pop_back();
    auto const planned = plan(*kind.functional, kind_of(*kind.functional), given, leaves_of(given), model);
    if (planned->direct && planned->marks.size() == 1) {
      result = planned->marks[0];
      result.numbers = numbers_of(kind_of(*kind.functional), given);
      fits = !own || kind.is_view || (own->place == result.place && own->columns == result.columns);
    }
  }
  auto const copies = own ? own->copies : std::vector<CopyOf>();
  result.copies = copies;
  auto results = local_call(op, std::move(arguments), kind.name);
  if (!copies.empty()) spoil_sources(self, copies);
  if (fits) {
    bool const was_unknown = !own && self.is_view();
    set(self, result);
    if (was_unknown) set_base(self, result, name);
  } else if (own_waits || has_wrong || met.has_cells) {
    spoil(self, name + " changes cells in place otherwise than on the globe");
  } else {
    Mark mark;
    mark.kind = Mark::Kind::waiting;
    mark.is_whole = true;
    mark.text = name;
    mark.model = model;
    set(self, mark);
  }
  put(stack, first, std::move(results));
}

/// What a view of an unknown tensor has been given is in that: cells of this rank, as all of its own are then.
void Interceptor::set_base(torch::Tensor const& view, Mark const& mark, std::string const& name) {
  torch::Tensor const base(view._base());
  if (find(base)) return;
  Mark of_base = mark;
  of_base.shape = base.sizes().vec();
  auto const take = [&](program::Cut& cut) {
    auto const from_end = cut.axis - std::int64_t(mark.shape.size());
    auto const axis = base.dim() + from_end;
    if (axis < 0 || base.size(axis) != view.size(from_end)) return false;
    of_base.shape[std::size_t(axis)] = mark.shape[std::size_t(cut.axis)];
    cut.axis = axis;
    return true;
  };
  bool const fits = (!of_base.place || take(*of_base.place)) && (!of_base.columns || take(*of_base.columns));
  if (!fits) of_base = wrong_mark(name + " writes cells of this rank to a part of a tensor", mark.model);
  set(base, of_base);
}

Values Interceptor::waiting_call(c10::OperatorHandle const& op, OperatorKind const& kind, Values arguments,
                                 bool is_whole, Model const& model, PlannedOperator const* planned) {
  auto call = std::make_shared<WaitingCall>(
      WaitingCall{op, &kind, arguments, {}, torch::GradMode::is_enabled(), model, forward_, 0});
  std::int64_t local = 0;
  for_each_tensor(arguments, [&](torch::Tensor const& t) {
    call->versions.push_back(t.is_inference() ? 0 : std::int64_t(t._version()));
    auto const* const mark = find(t);
    if (!mark || mark->kind != Mark::Kind::cut || local != 0 || t.numel() == program::num_elements(mark->shape)) return;
    local = t.numel();
    if (is_even(*mark->place)) call->num_rows = t.size(mark->place->axis);
  });
  Values results;
  if (planned && planned->is_whole) {
    try {
      results = called(op, std::move(arguments));
    } catch (c10::Error const&) {  // this rank has no cells to take the maximum of, or not that row
      results = planned->nothing(leaves_of(call->arguments).at(0).device());
    }
  } else {
    results = local_call(op, std::move(arguments), kind.name);
  }
  std::size_t index = 0;
  for_each_tensor(results, [&](torch::Tensor const& t) {
    Mark mark;
    mark.kind = Mark::Kind::waiting;
    mark.model = model;
    mark.call = call;
    mark.index = index++;
    mark.is_whole = is_whole;
    mark.text = kind.name + place();
    if (local > 0 && t.numel() > 0 && is_whole && kind.is_reduction) call->num_reduced = local / t.numel();
    set(t, mark);
  });
  call->num_local = index;
  note_views(kind, leaves_of(call->arguments), results, false);
  return results;
}

/// The tensor itself, or what it waits for.
torch::Tensor Interceptor::computed(torch::Tensor const& t) {
  if (!findings) return computed_or_refused(t);
  try {
    return computed_or_refused(t);
  } catch (Error const& error) {
    if (error.rule() != "NotSharded") throw;
    findings->push_back(error.text());
    return t;
  }
}

torch::Tensor Interceptor::computed_or_refused(torch::Tensor const& t) {
  auto const* const mark = find(t);
  if (!mark || mark->kind != Mark::Kind::waiting) return t;
  auto const model = mark->model.lock();
  if (!mark->call) refuse(mark->text + " reduces the cells of this rank alone, and is combined with cells", model);
  auto const call = mark->call;
  auto const index = mark->index;
  if (call->results.empty()) {
    Hash hash;
    std::vector<std::int64_t> reduced;
    std::vector<double> numbers;
    std::vector<WaitingCall*> ahead{call.get()};
    std::unordered_set<WaitingCall*> met;
    while (!ahead.empty()) {
      auto* const one = ahead.back();
      ahead.pop_back();
      if (!one->results.empty() || !met.insert(one).second) continue;
      if (!one->kind->takes_sizes) add_numbers(hash, one->arguments);
      hash.add(Index(one->num_local));
      if (one->num_reduced > 0) reduced.push_back(one->num_reduced);
      if (one->num_rows >= least_telling) reduced.push_back(one->num_rows);
      auto const own = numbers_among(one->arguments);
      numbers.insert(numbers.end(), own.begin(), own.end());
      for_each_tensor(one->arguments, [&](torch::Tensor const& given) {
        auto const* const other = find(given);
        if (other && other->kind == Mark::Kind::waiting && other->call) ahead.push_back(other->call.get());
      });
    }
    std::string fault;
    for (double const number : numbers)
      for (auto const count : reduced)
        if (count > 1 && number == double(count))
          fault = mark->text + ": " + std::to_string(count) +
                  " is the number of rows or cells of this rank, not of the globe (use mean)";
    require_same(model->domain.comm(), "NotSharded", hash.add(fault.empty() ? 0 : 1).value(),
                 fault.empty() ? mark->text + " and what is made of it, with numbers of this rank (sizes of its shard?)"
                               : fault);
    if (!fault.empty()) refuse(fault, model);
  }
  return compute(*call, index);
}

torch::Tensor Interceptor::compute(WaitingCall& call, std::size_t index) {
  if (call.results.empty()) {
    auto const model = call.model.lock();
    std::size_t k = 0;
    for_each_tensor(call.arguments, [&](torch::Tensor const& t) {
      auto const version = call.versions[k++];
      if (!t.is_inference() && std::int64_t(t._version()) != version)
        refuse(call.kind->name + ": what it takes has been changed in place since", model);
    });
    c10::AutoGradMode const mode(call.grad_mode);
    Values arguments;
    bool has_cells = false;
    for (auto const& value : call.arguments)
      arguments.push_back(with_tensors_of(value, [&](torch::Tensor const& t) {
        auto const* const mark = find(t);
        auto const result = mark && mark->kind == Mark::Kind::waiting && mark->call ? compute(*mark->call, mark->index)
                            : mark && mark->kind == Mark::Kind::waiting             ? computed(t)
                                                                                    : t;
        auto const* const known = find(result);
        has_cells = has_cells || (known && known->kind == Mark::Kind::cut);
        return result;
      }));
    Values results;
    if (has_cells) {
      results = planned_call(call.op, *call.kind, std::move(arguments), true);
    } else {
      results = called(call.op, std::move(arguments));
      set_whole(results, model);
    }
    for_each_tensor(results, [&](torch::Tensor const& t) { call.results.push_back(t); });
    call.arguments.clear();
    if (call.results.size() != call.num_local)
      refuse(call.kind->name + place() + " makes " + std::to_string(call.num_local) +
                 " tensors of this rank's cells and " + std::to_string(call.results.size()) +
                 " of the globe's; take parts by select or narrow",
             model);
  }
  auto const& result = call.results.at(index);
  if (auto const* const known = find(result))
    if (auto const stale = stale_text(*known); !stale.empty()) refuse(stale, call.model.lock());
  return result;
}

Values Interceptor::planned_call(c10::OperatorHandle const& op, OperatorKind const& kind, Values arguments,
                                 bool on_globe) {
  auto const leaves = leaves_of(arguments);
  auto const met = met_in(arguments);
  auto const& model = met.model;
  if (!met.is_cut) {
    bool const is_random = draws(kind, op, arguments);
    auto results = called(op, std::move(arguments));
    if (is_random)
      set_results(results, wrong_mark(kind.name + place() + " draws random numbers that differ between ranks", model));
    else
      set_whole(results, model);
    return results;
  }
  auto const planned = plan(op, kind, arguments, leaves, model);
  if (!planned->direct && model->only_warns)
    return refused(op, std::move(arguments), kind.name + place() + " is not that of the whole field", model);
  if (planned->poisons) return wrong_call(op, kind, std::move(arguments), planned->refusal, model);
  if (!planned->refusal.empty()) return refused(op, std::move(arguments), planned->refusal, model);
  if (!planned->direct && planned->waits && !on_globe)
    return waiting_call(op, kind, std::move(arguments), planned->is_whole, model, planned.get());
  if (!planned->doubt.empty()) return refused(op, std::move(arguments), planned->doubt, model);
  check_numbers(kind, arguments, model);
  auto const numbers = numbers_of(kind, arguments);
  Values results = planned->direct ? called(op, std::move(arguments)) : planned->run(leaves);
  std::size_t k = 0;
  for_each_tensor(results, [&](torch::Tensor const& t) {
    auto mark = planned->marks.at(k++);
    mark.numbers = numbers;
    set(t, std::move(mark));
  });
  note_views(kind, leaves, results, !planned->direct && !planned->placed->keeps_views());
  return results;
}

std::shared_ptr<PlannedOperator> Interceptor::plan(c10::OperatorHandle const& op, OperatorKind const& kind,
                                                   Values const& arguments, std::vector<torch::Tensor> const& leaves,
                                                   Model const& model) {
  std::vector<Mark const*> marks;
  for (auto const& t : leaves) marks.push_back(find(t));
  return plan(op, kind, arguments, leaves, marks, model);
}

std::shared_ptr<PlannedOperator> Interceptor::plan(c10::OperatorHandle const& op, OperatorKind const& kind,
                                                   Values const& arguments, std::vector<torch::Tensor> const& leaves,
                                                   std::vector<Mark const*> const& marks, Model const& model) {
  if (model->planned.size() > 4096) model->planned.clear();
  auto key = kind.target;
  key += torch::GradMode::is_enabled() ? 'g' : 'n';
  for (auto const& value : arguments) add_to_key(key, value);
  bool const autocast = !leaves.empty() && at::autocast::is_autocast_enabled(leaves[0].device().type());
  key += autocast ? 'a' : '-';
  for (std::size_t i = 0; i < leaves.size(); ++i) add_leaf_to_key(key, leaves[i], marks[i]);
  // which leaf is where
  for_each_tensor(arguments, [&](torch::Tensor const& t) { key += char('A' + index_in(leaves, t) % 50); });
  auto& held = model->planned[key];
  if (!held) {
    held = planned_operator({op, kind, arguments, leaves, marks, model, place()});
    if (autocast && !held->direct && held->refusal.empty()) held->refusal = kind.name + place() + " within autocast";
  }
  return held;
}

/// A field with the cells along another axis cut.
torch::Tensor Interceptor::moved(torch::Tensor const& x, std::int64_t axis, Model const& model) {
  auto const mark = *find(x);
  auto const extent = mark.shape[std::size_t(axis)];
  auto const cut = model->cut_of(axis, extent);
  bool const is_field =
      mark.place && mark.place->axis == axis && mark.place->period == std::max<std::int64_t>(extent, 1);
  if (is_field && (*mark.place == cut || !model->homes.contains(extent))) return x;
  if (!mark.place) {
    auto const rank = std::size_t(model->domain.comm().rank());
    OwnCode const own;
    auto const part = x.narrow(axis, cut.bounds[rank], cut.bounds[rank + 1] - cut.bounds[rank]);
    Mark of_part = mark;
    of_part.kind = Mark::Kind::cut;
    of_part.place = cut;
    set(part, of_part);
    return part;
  }
  std::string key = "moved" + std::to_string(axis);
  add_leaf_to_key(key, x, &mark);
  auto& held = model->planned[key];
  if (!held) held = planned_move(x, mark, cut, model);
  auto const results = held->run({x});
  auto result = results.at(0).toTensor();
  set(result, held->marks.at(0));
  return result;
}

}  // namespace graticule::nn::detail
