// SPDX-License-Identifier: BSD-3-Clause
#include "tensor_pull.hpp"

#include <graticule/nn_bridge/tensor_view.hpp>
#include <graticule/partition/hash.hpp>

#include "agreement.hpp"

#include <algorithm>

namespace graticule::nn::detail {

namespace {

PullDescription describe(Comm const& comm, Layout const& layout, Boundary const& boundary,
                         std::vector<Target> const& targets, std::uint64_t fingerprint) {
  PullDescription result{layout, {{layout.owned(comm.rank()), targets, {}}}, 0, AfterAdjoint::keep};
  run_agreed(comm, [&] { result.kinds[0].map = boundary_map(layout.global().extents(), boundary); });
  result.fingerprint = Hash().add(fingerprint).add(graticule::fingerprint(boundary)).value();
  return result;
}

}  // namespace

TensorPull::TensorPull(Comm const& comm, Layout const& layout, Boundary const& boundary, std::vector<Target> targets,
                       std::vector<std::int64_t> odd_channels, std::uint64_t fingerprint)
    : owned_(layout.owned(comm.rank())),
      targets_(std::move(targets)),
      odd_channels_(std::move(odd_channels)),
      plan_(comm, describe(comm, layout, boundary, targets_, fingerprint)) {}

torch::Tensor TensorPull::empty_target(torch::Tensor const& x, int t) const {
  auto sizes = x.sizes().vec();
  auto const& box = targets_[std::size_t(t)].box;
  sizes[sizes.size() - 2] = box.extent(0);
  sizes[sizes.size() - 1] = box.extent(1);
  bool const channels_last = x.dim() == 4 && x.is_contiguous(torch::MemoryFormat::ChannelsLast) && !x.is_contiguous();
  return torch::empty(sizes, x.options().requires_grad(false),
                      channels_last ? torch::MemoryFormat::ChannelsLast : torch::MemoryFormat::Contiguous);
}

std::vector<TensorPull::Run> TensorPull::runs(torch::Tensor const& x) const {
  if (odd_channels_.empty()) return {};
  if (x.dim() < 3) throw Error("OddChannels", "odd channels of a tensor without a channel axis");
  std::vector<Run> result;
  for (std::int64_t c = 0; c < x.size(-3); ++c) {
    auto const parity = std::count(odd_channels_.begin(), odd_channels_.end(), c) ? Parity::odd : Parity::even;
    if (!result.empty() && result.back().parity == parity)
      ++result.back().count;
    else
      result.push_back({c, 1, parity});
  }
  return result;
}

namespace {

/// Views of one call: a field for each run of channels of equal parity.
struct Views {
  std::vector<FieldView> targets;
  std::vector<PullField> fields;
};

torch::Tensor channels(torch::Tensor const& x, std::int64_t first, std::int64_t count) {
  return x.narrow(-3, first, count);
}

}  // namespace

Pending TensorPull::start(torch::Tensor const& x, std::span<torch::Tensor const> targets) const {
  auto const split = runs(x);
  Views views;
  views.targets.reserve(std::max<std::size_t>(split.size(), 1) * targets.size());
  auto const add = [&](torch::Tensor const& source, Parity parity, auto&& part) {
    auto const first = views.targets.size();
    for (auto const& target : targets) views.targets.push_back(tensor_view(part(target)));
    views.fields.push_back({tensor_view(source), std::span(views.targets).subspan(first), parity});
  };
  if (split.empty()) add(x, Parity::even, [](torch::Tensor const& t) { return t; });
  for (auto const& run : split)
    add(channels(x, run.first, run.count), run.parity,
        [&](torch::Tensor const& t) { return channels(t, run.first, run.count); });
  return plan_.start(views.fields);
}

Pending TensorPull::start_adjoint(std::span<torch::Tensor const> targets) const {
  auto const& like = targets.front();
  auto const split = runs(like);
  Views views;
  views.targets.reserve(std::max<std::size_t>(split.size(), 1) * targets.size());
  auto const add = [&](Parity parity, auto&& part) {
    auto const first = views.targets.size();
    for (auto const& target : targets) views.targets.push_back(tensor_view(part(target)));
    // The source is described by its shape alone; its memory comes with finish_adjoint.
    FieldView source = views.targets[first];
    source.data = nullptr;
    source.extents[source.ndim() - 2] = owned_.extent(0);
    source.extents[source.ndim() - 1] = owned_.extent(1);
    views.fields.push_back({source, std::span(views.targets).subspan(first), parity});
  };
  if (split.empty()) add(Parity::even, [](torch::Tensor const& t) { return t; });
  for (auto const& run : split)
    add(run.parity, [&](torch::Tensor const& t) { return channels(t, run.first, run.count); });
  return plan_.start_adjoint(views.fields);
}

void TensorPull::finish_adjoint(Pending& pending, torch::Tensor const& x) const {
  std::vector<FieldView> sources;
  auto const split = runs(x);
  if (split.empty()) sources.push_back(tensor_view(x));
  for (auto const& run : split) sources.push_back(tensor_view(channels(x, run.first, run.count)));
  pending.wait_into(sources);
}

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using PullPointer = std::shared_ptr<TensorPull const>;

/// Keeps a plan in an autograd node.
struct PullHolder : torch::CustomClassHolder {
  explicit PullHolder(PullPointer pointer) : pull(std::move(pointer)) {}
  PullPointer pull;
};

torch::Tensor zeros_source(TensorPull const& pull, torch::Tensor const& target) {
  auto sizes = target.sizes().vec();
  sizes[sizes.size() - 2] = pull.owned().extent(0);
  sizes[sizes.size() - 1] = pull.owned().extent(1);
  return torch::zeros(sizes, target.options().requires_grad(false));
}

void keep(AutogradContext* ctx, PullPointer const& pull) {
  ctx->saved_data["pull"] = c10::IValue::make_capsule(c10::make_intrusive<PullHolder>(pull));
}

PullPointer kept(AutogradContext* ctx) {
  return static_cast<PullHolder const&>(*ctx->saved_data["pull"].toCapsule()).pull;
}

/// Inside a backward that builds a graph, every rank gets a node again.
torch::Tensor anchor_in_backward(torch::Tensor const& grad) {
  return anchor(torch::GradMode::is_enabled(), grad.options());
}

struct PullFunction : torch::autograd::Function<PullFunction> {
  static torch::Tensor forward(AutogradContext* ctx, torch::Tensor const& x, torch::Tensor const& /*anchor*/,
                               PullPointer const& pull) {
    keep(ctx, pull);
    auto target = pull->empty_target(x, 0);
    pull->start(x, std::span(&target, 1)).wait();
    return target;
  }
  static variable_list backward(AutogradContext* ctx, variable_list const& grads) {
    return {push_tensor(kept(ctx), grads[0], anchor_in_backward(grads[0])), {}, {}};
  }
};

struct PushFunction : torch::autograd::Function<PushFunction> {
  static torch::Tensor forward(AutogradContext* ctx, torch::Tensor const& target, torch::Tensor const& /*anchor*/,
                               PullPointer const& pull) {
    keep(ctx, pull);
    auto pending = pull->start_adjoint(std::span(&target, 1));
    auto x = zeros_source(*pull, target);
    pull->finish_adjoint(pending, x);
    return x;
  }
  static variable_list backward(AutogradContext* ctx, variable_list const& grads) {
    return {pull_tensor(kept(ctx), grads[0], anchor_in_backward(grads[0])), {}, {}};
  }
};

}  // namespace

torch::Tensor pull_tensor(PullPointer const& pull, torch::Tensor const& x, torch::Tensor const& anchor) {
  return PullFunction::apply(x, anchor, pull);
}

torch::Tensor push_tensor(PullPointer const& pull, torch::Tensor const& target, torch::Tensor const& anchor) {
  return PushFunction::apply(target, anchor, pull);
}

}  // namespace graticule::nn::detail
