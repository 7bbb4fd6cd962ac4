// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/messages/detail/call_head.hpp>
#include <graticule/nn_bridge/detail/agreement.hpp>
#include <graticule/nn_bridge/detail/forward_scope.hpp>
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/partition/detail/patience.hpp>

#include "between.hpp"
#include "recorded_calls.hpp"

#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <array>

namespace graticule::nn::detail {

namespace {

std::string described(torch::Tensor const& x) {
  return x.defined() ? c10::str("a tensor ", x.sizes(), " of ", x.scalar_type()) : "no tensor";
}

/// The layer that this thread has called last.
std::string& latest_layer() {
  static thread_local std::string text;
  return text;
}

/// Text about layers for the report of a stalled wait.
std::string context_of_wait() {
  if (auto const node = torch::autograd::get_current_node())
    if (auto const layer = RecordedCalls::described(*node); !layer.empty()) return ", in the backward of " + layer;
  return latest_layer().empty() ? "" : "; the layer called last is " + latest_layer();
}

}  // namespace

std::vector<Index> structure_of(torch::Tensor const& x) {
  std::vector<Index> values;
  if (!x.defined()) return values;
  for (auto const size : x.sizes()) values.push_back(size);
  values.push_back(Index(x.scalar_type()));
  values.push_back(Index(x.device().type()));
  return values;
}

Agreement::Agreement(Domain domain, std::string layer, Sharding sharding, LifeCycle* whole)
    : LifeCycle(whole),
      domain_(std::move(domain)),
      layer_(std::move(layer)),
      sharding_(std::move(sharding)),
      ordinal_(domain_.next_ordinal()),
      generation_(domain_.comm().generation()) {
  describe();
  graticule::detail::set_wait_context(&context_of_wait);
}

std::string const*& LayerPath::current() noexcept {
  static thread_local std::string const* path = nullptr;
  return path;
}

void Agreement::describe() {
  described_ = "layer " + std::to_string(ordinal_) + " (" + (path_.empty() ? "" : path_ + ", ") + layer_ + ")";
}

bool Agreement::is_cut(std::size_t axis, std::size_t ndim) const {
  auto const from_last = std::int64_t(axis) - std::int64_t(ndim);
  return std::find(sharding_.axes.begin(), sharding_.axes.end(), from_last) != sharding_.axes.end();
}

void Agreement::require_same_text(std::string const& text) const {
  require_same(domain_.comm(), "StructureDisagreement", Hash().add(std::string_view(text)).value(), text);
}

void Agreement::record(torch::Tensor const& output) const {
  domain_.recorded_calls().record(output, {number_, num_records_++}, described_);
}

Agreed Agreement::agree(torch::Tensor const& x, std::function<void()> const& check,
                        StructureOf const& structure_of_input) {
  if (generation_ != domain_.comm().generation()) {
    generation_ = domain_.comm().generation();
    known_.reset();
    call_ = 0;
    ordinal_ = domain_.next_ordinal();  // some ranks may have made layers that others have not
    describe();
  }
  std::exception_ptr failure;
  std::vector<Index> structure;
  try {
    check_entry(x, domain_, layer_, sharding_.axes.empty() ? Entry::any : Entry::field);
    check();
    structure = structure_of_input(x);
  } catch (...) {
    failure = std::current_exception();
  }
  auto const& comm = domain_.comm();
  bool const grad_mode = torch::GradMode::is_enabled();
  bool const own_change = !known_ || *known_ != structure;
  bool const own_grad = grad_mode && x.defined() && x.requires_grad();
  ++call_;
  if (auto const* const path = LayerPath::current(); path && *path != path_) {
    path_ = *path;
    describe();
  }
  latest_layer() = described_;
  number_ = domain_.recorded_calls().next_call();
  num_records_ = 0;
  if (comm.num_ranks() == 1) {
    if (failure) std::rethrow_exception(failure);
    known_ = std::move(structure);
    return {own_change, own_grad};
  }
  if (domain_.call_checks() == CallChecks::new_structures && !own_change && !failure && grad_mode == known_grad_mode_ &&
      own_grad == known_own_grad_)
    return {false, known_requires_grad_};

  Hash order_hash;
  order_hash.add(ordinal_).add(call_);
  if (generation_ > 0) order_hash.add(std::string_view(layer_));  // the ordinal is that of its first call since then
  Hash common_hash;
  if (x.defined()) {
    auto const ndim = std::size_t(x.dim());
    common_hash.add(ndim).add(int(x.scalar_type())).add(int(x.device().type()));
    for (std::size_t i = 0; i < ndim; ++i)
      if (!is_cut(i, ndim)) common_hash.add(x.sizes()[i]);
  }
  messages::CallHead head(comm);
  auto const order = head.same(order_hash.value());
  head.fails(failure);
  auto const any_gradient = head.largest(own_grad ? 1 : 0);
  auto const modes = head.same(grad_mode ? 1 : 0);
  auto const commons = head.same(failure ? 0 : common_hash.value());
  auto const changes = head.same(own_change ? 1 : 0);
  auto* const between = Between::current();
  auto const own_numbers = between ? between->take_numbers() : CellNumbers();
  auto const numbers = head.same(own_numbers.fingerprint());
  head.meet();

  if (!head.agrees(order)) {
    auto const differ = head.difference(order, "call " + std::to_string(call_) + " of " + described_);
    leave_call();
    throw Error("CallDisagreement", differ);
  }
  head.rethrow();
  if (!head.agrees(numbers))
    if (auto const difference = own_numbers.difference(comm); !difference.empty())
      throw Error("NotSharded", "before " + described_ + ": " + difference);
  if (!head.agrees(modes))
    throw Error("StructureDisagreement",
                layer_ + ": " + head.difference(modes, grad_mode ? "grad mode on" : "grad mode off"));
  if (!head.agrees(commons))
    throw Error("StructureDisagreement", layer_ + ": all axes that are not cut must be equal (" + to_string(sharding_) +
                                             "); " + head.difference(commons, described(x)));
  if (!head.agrees(changes))
    throw Error("StructureDisagreement",
                layer_ + ": the shard changed on some ranks only; " +
                    head.difference(changes, described(x) + (own_change ? " (new)" : " (as before)")) +
                    "; for new cuts call reset_structure() on all ranks");
  known_ = std::move(structure);
  known_grad_mode_ = grad_mode;
  known_own_grad_ = own_grad;
  known_requires_grad_ = head[any_gradient] != 0;
  return {head[changes] != 0, known_requires_grad_};
}

void Agreement::leave_call() {
  std::array<Index, 4> ends{ordinal_, -ordinal_, call_, number_};
  domain_.comm().max(ends);
  bool const same_layer = ends[0] == -ends[1];
  // If calls of different layers meet, none of them counts. If calls of one layer meet, some rank has made fewer calls.
  call_ = same_layer ? ends[2] : call_ - 1;
  domain_.recorded_calls().skip_to(ends[3]);
}

Layout Agreement::gather_layout(torch::Tensor const& x) const {
  auto const& comm = domain_.comm();
  auto const& grid = sharding_.grid;
  std::vector<Cuts> cuts;
  for (std::size_t a = 0; a < sharding_.axes.size(); ++a) {
    auto const found = comm.gather_to_all(x.size(sharding_.axes[a]));
    std::vector<Index> sizes(std::size_t(grid.extent(int(a))), -1);
    for (int r = 0; r < comm.num_ranks(); ++r) {
      auto const part = grid.coords(r)[int(a)];
      auto& size = sizes[std::size_t(part)];
      if (size == -1) size = found[std::size_t(r)];
      if (size != found[std::size_t(r)])
        throw Error("BadLayout", c10::str(layer_, ": rank ", r, " has ", found[std::size_t(r)], " cells along axis ",
                                          sharding_.axes[a], ", other ranks of part ", part, " have ", size));
    }
    cuts.emplace_back(sizes);
  }
  return Layout(grid, cuts);
}

torch::Tensor anchor(bool requires_grad, torch::TensorOptions const& options) {
  auto const real =
      torch::isFloatingType(c10::typeMetaToScalarType(options.dtype())) ? options : options.dtype(torch::kFloat);
  return torch::zeros({}, real.requires_grad(requires_grad));
}

}  // namespace graticule::nn::detail
