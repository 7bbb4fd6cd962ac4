// SPDX-License-Identifier: BSD-3-Clause
#include "tensor_pull.hpp"

#include <graticule/halo/detail/boundary_map.hpp>
#include <graticule/nn_bridge/call/tensor_view.hpp>
#include <graticule/partition/detail/hash.hpp>

#include <algorithm>
#include <utility>

namespace graticule::nn::detail {

namespace {

PullDescription describe(Comm const& comm, TensorPullDescription const& d) {
  PullDescription result{d.source, {{d.source.owned(comm.rank()), d.targets, d.map}}, d.fingerprint};
  result.after_adjoint = AfterAdjoint::keep;
  result.messages = d.messages;
  return result;
}

TensorPullDescription by_boundary(Comm const& comm, Layout const& layout, Boundary const& boundary) {
  TensorPullDescription result{.source = layout, .map = {}, .targets = {}};
  run_agreed(comm, [&] { result.map = graticule::detail::boundary_map(layout.global().extents(), boundary); });
  result.fingerprint = boundary.fingerprint();
  return result;
}

/// Views of one call: a field for each run of channels of equal parity.
struct Views {
  std::vector<FieldView> targets;
  std::vector<PullField> fields;
};

Views views_of(std::span<torch::Tensor const> targets, TensorPullDescription const& d) {
  Views views;
  std::vector<std::vector<ParityRun>> split;
  for (auto const& target : targets) split.push_back(parity_runs(target, d.odd_channels));
  auto const num_runs = split.front().size();
  views.targets.reserve(num_runs * targets.size());
  for (std::size_t r = 0; r < num_runs; ++r) {
    auto const first = views.targets.size();
    for (auto const& runs : split) views.targets.push_back(tensor_view(runs[r].part, d.axes));
    views.fields.push_back({{}, std::span(views.targets).subspan(first), split.front()[r].parity});
  }
  return views;
}

}  // namespace

std::vector<ParityRun> parity_runs(torch::Tensor const& x, std::vector<std::int64_t> const& odd_channels) {
  if (odd_channels.empty()) return {{x, Parity::even}};
  if (x.dim() < 3)
    throw Error("BadBoundary",
                "odd channels need a tensor with a channel axis, got " + std::to_string(x.dim()) + " axes");
  std::vector<ParityRun> result;
  auto const parity = [&](std::int64_t c) {
    return std::count(odd_channels.begin(), odd_channels.end(), c) ? Parity::odd : Parity::even;
  };
  for (std::int64_t first = 0; first < x.size(-3);) {
    auto last = first + 1;
    while (last < x.size(-3) && parity(last) == parity(first)) ++last;
    result.push_back({x.narrow(-3, first, last - first), parity(first)});
    first = last;
  }
  return result;
}

std::vector<Box> around(Box const& box, Box const& inner) {
  if (inner.empty()) return {box};
  auto const rows = [&](Index lo, Index hi) { return Box({lo, box.lo(1)}, {hi, box.hi(1)}); };
  auto const beside = [&](Index lo, Index hi) { return Box({inner.lo(0), lo}, {inner.hi(0), hi}); };
  std::vector<Box> parts{rows(box.lo(0), inner.lo(0)), rows(inner.hi(0), box.hi(0)), beside(box.lo(1), inner.lo(1)),
                         beside(inner.hi(1), box.hi(1))};
  std::erase_if(parts, [](Box const& part) { return part.empty(); });
  return parts;
}

torch::Tensor narrowed(torch::Tensor const& tensor, Box const& box, Box const& part) {
  if (part.empty()) return tensor.narrow(-2, 0, 0).narrow(-1, 0, 0);
  auto result = tensor;
  for (int a = 0; a < 2; ++a)
    if (part.extent(a) != box.extent(a)) result = result.narrow(a - 2, part.lo(a) - box.lo(a), part.extent(a));
  return result;
}

void TensorPending::wait() {
  pending_.wait();
  stream_.precede_current();
}

void TensorPending::wait_into(std::span<FieldView const> sources) {
  stream_.follow_current();
  pending_.wait_into(sources);
  stream_.precede_current();
}

TensorPull::TensorPull(Comm const& comm, TensorPullDescription description)
    : owned_(description.source.owned(comm.rank())),
      description_(std::move(description)),
      plan_(comm, describe(comm, description_)),
      counts_(plan_.counts()) {}

TensorPull::TensorPull(Comm const& comm, Layout const& layout, Boundary const& boundary, std::vector<Target> targets,
                       std::vector<std::int64_t> odd_channels, std::uint64_t fingerprint)
    : TensorPull(comm, [&] {
        auto d = by_boundary(comm, layout, boundary);
        d.targets = std::move(targets);
        if (d.targets.size() == 1 && d.targets[0].needed == std::vector{d.targets[0].box}) {
          d.direct = intersection(d.targets[0].box, layout.owned(comm.rank()));
          d.targets[0].needed = around(d.targets[0].box, d.direct);
        }
        d.odd_channels = std::move(odd_channels);
        d.fingerprint = Hash().add(fingerprint).add(d.fingerprint).value();
        return d;
      }()) {}

std::vector<std::int64_t> TensorPull::sizes_with(torch::Tensor const& x, Box const& box) const {
  auto sizes = x.sizes().vec();
  for (std::size_t a = 0; a < description_.axes.size(); ++a)
    sizes[std::size_t(x.dim() + description_.axes[a])] = box.extent(int(a));
  return sizes;
}

torch::Tensor TensorPull::empty_target(torch::Tensor const& x, int t) const {
  auto const memory = x.suggest_memory_format();
  return torch::empty(sizes_with(x, targets()[std::size_t(t)].box), x.options().requires_grad(false), memory);
}

torch::Tensor TensorPull::source_of(torch::Tensor const& target) const {
  auto const& direct = description_.direct;
  bool const any = direct.ndim() > 0 && !direct.empty();
  auto const part = any ? narrowed(target, targets()[0].box, direct) : torch::Tensor();
  if (any && direct == owned_) return part.clone(torch::MemoryFormat::Contiguous);
  auto result = torch::zeros(sizes_with(target, owned_), target.options().requires_grad(false));
  if (any) narrowed(result, owned_, direct).copy_(part);
  return result;
}

TensorPending TensorPull::start(torch::Tensor const& x, std::span<torch::Tensor const> targets) const {
  auto views = views_of(targets, description_);
  auto const sources = parity_runs(x, description_.odd_channels);
  for (std::size_t r = 0; r < sources.size(); ++r)
    views.fields[r].source = tensor_view(sources[r].part, description_.axes);
  count_traffic(counts_, Way::forward, x, description_.axes);
  CallStream stream(x);
  auto pending = plan_.start(views.fields, stream.queue());
  if (auto const& direct = description_.direct; direct.ndim() > 0 && !direct.empty())
    narrowed(targets[0], description_.targets[0].box, direct).copy_(narrowed(x, owned_, direct));
  return {std::move(pending), std::move(stream)};
}

TensorPending TensorPull::start_adjoint(std::span<torch::Tensor const> targets) const {
  auto views = views_of(targets, description_);
  for (auto& field : views.fields) {
    // The source is described by its shape alone; its memory comes with finish_adjoint.
    field.source = field.targets.front();
    field.source.data = nullptr;
    for (std::size_t a = 0; a < description_.axes.size(); ++a)
      field.source.extents[field.source.ndim() + int(description_.axes[a])] = owned_.extent(int(a));
  }
  count_traffic(counts_, Way::adjoint, targets.front(), description_.axes);
  CallStream stream(targets.front());
  auto pending = plan_.start_adjoint(views.fields, stream.queue());
  return {std::move(pending), std::move(stream)};
}

void TensorPull::finish_adjoint(TensorPending& pending, torch::Tensor const& x) const {
  std::vector<FieldView> sources;
  for (auto const& run : parity_runs(x, description_.odd_channels))
    sources.push_back(tensor_view(run.part, description_.axes));
  pending.wait_into(sources);
}

torch::Tensor TensorPull::apply(torch::Tensor const& x) const {
  auto target = empty_target(x, 0);
  start(x, std::span(&target, 1)).wait();
  return target;
}

torch::Tensor TensorPull::apply_adjoint(torch::Tensor const& target) const {
  auto pending = start_adjoint(std::span(&target, 1));
  auto x = source_of(target);
  finish_adjoint(pending, x);
  return x;
}

}  // namespace graticule::nn::detail
