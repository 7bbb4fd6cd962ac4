// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/messages/detail/call_head.hpp>
#include <graticule/nn_bridge/collective/collectives.hpp>
#include <graticule/nn_bridge/detail/layer_state.hpp>
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/hash.hpp>

#include "collective_maps.hpp"

namespace graticule::nn {

namespace {

using detail::apply_map;
using detail::CutAxis;
using detail::MapPointer;
using detail::RootSide;
using detail::Sizes;

std::int64_t from_last(torch::Tensor const& x, std::int64_t axis) {
  auto const result = axis < 0 ? axis : axis - x.dim();
  if (!x.defined() || result < -x.dim() || result >= 0)
    throw Error("BadAxis", "the axis must be one of " + std::to_string(x.defined() ? x.dim() : 0) + ", got " +
                               std::to_string(axis));
  return result;
}

void require_dense(torch::Tensor const& x) {
  if (!x.defined() || x.is_sparse()) throw Error("UnsupportedTensor", "the tensor is undefined or sparse");
}

void require_cuts(torch::Tensor const& x, std::int64_t axis, Cuts const& cuts, Comm const& comm) {
  if (cuts.num_parts() != comm.num_ranks() || cuts.extent() != x.size(axis))
    throw Error("BadCuts", "the cuts must have " + std::to_string(comm.num_ranks()) + " parts, one per rank, of " +
                               std::to_string(x.size(axis)) + " cells, got " + std::to_string(cuts.num_parts()) +
                               " parts of " + std::to_string(cuts.extent()));
}

void require_root(int root, Comm const& comm) {
  if (root < 0 || root >= comm.num_ranks())
    throw Error("OutOfRange",
                "root must be in [0, " + std::to_string(comm.num_ranks()) + "), got " + std::to_string(root));
}

/// What one rank brings to a call: a description that must be the same on all ranks, and numbers for all of them.
struct Call {
  std::string text;
  std::vector<Index> numbers = {};
};

/// One small all-reduce: what `describe` throws on any rank is thrown on all, descriptions that differ are
/// `StructureDisagreement`. Returns the maxima of the `count` numbers.
std::vector<Index> enter(Comm const& comm, std::size_t count, std::function<Call()> const& describe) {
  Call call;
  std::exception_ptr failure;
  try {
    call = describe();
  } catch (...) {
    failure = std::current_exception();
  }
  call.text += torch::GradMode::is_enabled() ? ", grad mode on" : ", grad mode off";
  call.numbers.resize(count);
  messages::CallHead head(comm);
  auto const text = head.same(failure ? 0 : Hash().add(std::string_view(call.text)).value());
  head.fails(failure);
  std::vector<messages::CallHead::Entry> entries;
  for (auto const number : call.numbers) entries.push_back(head.largest(number));
  head.meet();
  head.rethrow();
  if (!head.agrees(text)) throw Error("StructureDisagreement", head.difference(text, call.text));
  std::vector<Index> largest;
  for (auto const entry : entries) largest.push_back(head[entry]);
  return largest;
}

/// `name of [2, -1, 3] of Float, cut axis -2`; the cut axis has size -1.
std::string described(std::string const& name, torch::Tensor const& x, std::optional<std::int64_t> cut_axis = {}) {
  auto sizes = x.sizes().vec();
  if (cut_axis) sizes[std::size_t(x.dim() + *cut_axis)] = -1;
  auto const text = c10::str(name, " of ", at::IntArrayRef(sizes), " of ", x.scalar_type());
  return cut_axis ? c10::str(text, ", cut axis ", *cut_axis) : text;
}

std::string described(std::int64_t axis, Cuts const& cuts) {
  return c10::str(", axis ", axis, " into ", at::IntArrayRef(cuts.sizes()));
}

/// @param check may throw
void enter_alike(
    std::string const& name, torch::Tensor const& x, Comm const& comm, std::function<void()> const& check = [] {}) {
  (void)enter(comm, 0, [&] {
    require_dense(x);
    check();
    return Call{described(name, x)};
  });
}

/// An axis that is cut over the ranks as their tensors are. @param check may throw, and adds to the description
CutAxis enter_cut(std::string const& name, torch::Tensor const& x, std::int64_t axis, Comm const& comm,
                  std::function<std::string()> const& check = {}) {
  auto const sizes = enter(comm, std::size_t(comm.num_ranks()), [&] {
    require_dense(x);
    axis = from_last(x, axis);
    std::vector<Index> numbers(std::size_t(comm.num_ranks()), 0);
    numbers[std::size_t(comm.rank())] = x.size(axis);
    return Call{described(name, x, axis) + (check ? check() : ""), numbers};
  });
  return {axis, Cuts(sizes)};
}

/// An axis that all ranks hold whole, to be cut by `cuts`.
CutAxis enter_whole(std::string const& name, torch::Tensor const& x, std::int64_t axis, Cuts const& cuts,
                    Comm const& comm) {
  (void)enter(comm, 0, [&] {
    require_dense(x);
    axis = from_last(x, axis);
    require_cuts(x, axis, cuts, comm);
    return Call{described(name, x) + described(axis, cuts)};
  });
  return {axis, cuts};
}

/// The root's sizes, and a tensor for this rank with the root's dtype: `x` itself where that fits.
/// @param check throws on the root, and adds to the description on all ranks
std::pair<torch::Tensor, RootSide> enter_rooted(std::string const& name, torch::Tensor const& x, int root,
                                                Comm const& comm, std::function<std::string(bool)> const& check = {}) {
  constexpr std::size_t most_axes = 32;
  bool const is_root = comm.rank() == root;
  auto const numbers = enter(comm, 2 + most_axes, [&] {
    require_root(root, comm);
    std::vector<Index> own;
    if (is_root) {
      require_dense(x);
      if (x.dim() > std::int64_t(most_axes))
        throw Error("AxesMismatch",
                    "tensors have at most " + std::to_string(most_axes) + " axes here, got " + std::to_string(x.dim()));
      own = {x.dim(), Index(x.scalar_type())};
      own.insert(own.end(), x.sizes().begin(), x.sizes().end());
    }
    return Call{name + ", root " + std::to_string(root) + (check ? check(is_root) : ""), own};
  });
  Sizes const sizes(numbers.begin() + 2, numbers.begin() + 2 + numbers[0]);
  if (is_root) return {x, {root, sizes, sizes}};
  auto const type = torch::ScalarType(numbers[1]);
  auto const own = x.defined() ? x.to(type) : torch::empty({0}, torch::dtype(type));
  return {own, {root, sizes, own.sizes().vec()}};
}

/// The sizes of a tensor that the root alone holds, an empty one elsewhere.
RootSide on_root(int root, Comm const& comm, Sizes const& sizes) {
  return {root, sizes, comm.rank() == root ? sizes : Sizes{0}};
}

Sharding uncut() { return {{}, ProcessGrid(Indices{})}; }

Sharding cut_along(std::int64_t axis, Domain const& domain) { return {{axis}, ProcessGrid{domain.comm().num_ranks()}}; }

std::int64_t checked_axis(std::int64_t axis) {
  if (axis >= 0)
    throw Error("BadAxis", "modules count axes from the last, -1, -2, ..., got axis " + std::to_string(axis));
  return axis;
}

/// An input that is whole along `axis`, to be cut there.
detail::CollectiveOptions whole_along(std::string name, std::int64_t axis, Sharding sharding, Domain const& domain,
                                      std::optional<Cuts> const& cuts,
                                      std::function<MapPointer(CutAxis, Layout const&)> map) {
  detail::CollectiveOptions options{.name = std::move(name), .sharding = std::move(sharding), .check = {}, .make = {}};
  auto const comm = domain.comm();
  require_same(comm, "BadCuts", cuts ? Hash().add(std::string_view(described(axis, *cuts))).value() : 0,
               cuts ? described(axis, *cuts) : "balanced cuts");
  options.check = [=](torch::Tensor const& x) {
    (void)from_last(x, checked_axis(axis));
    if (cuts) require_cuts(x, axis, *cuts, comm);
  };
  options.make = [=](torch::Tensor const& x, Layout const& layout) {
    return map({axis, cuts ? *cuts : balanced_cuts(x.size(axis), comm.num_ranks())}, layout);
  };
  return options;
}

/// An input of equal sizes on all ranks.
detail::CollectiveOptions alike(std::string name, std::function<MapPointer(Sizes)> map) {
  return {std::move(name), uncut(), {}, [=](torch::Tensor const& x, Layout const&) { return map(x.sizes().vec()); }};
}

}  // namespace

torch::Tensor all_sum(torch::Tensor const& x, Comm const& comm) {
  enter_alike("all_sum", x, comm);
  return apply_map(detail::all_sum_map(comm), x);
}

torch::Tensor copy_to_region(torch::Tensor const& x, Comm const& comm) {
  enter_alike("copy_to_region", x, comm);
  return apply_map(detail::copy_to_region_map(comm), x);
}

torch::Tensor broadcast(torch::Tensor const& x, int root, Comm const& comm) {
  auto const [own, side] = enter_rooted("broadcast", x, root, comm);
  return apply_map(detail::broadcast_map(comm, side), own);
}

torch::Tensor sum_to_root(torch::Tensor const& x, int root, Comm const& comm) {
  enter_alike("sum_to_root " + std::to_string(root), x, comm, [&] { require_root(root, comm); });
  return apply_map(detail::sum_to_root_map(comm, on_root(root, comm, x.sizes().vec())), x);
}

torch::Tensor gather(torch::Tensor const& x, std::int64_t axis, Comm const& comm, Consumer consumer) {
  bool const replicated = consumer == Consumer::replicated;
  auto const cut = enter_cut(replicated ? "gather for replicated" : "gather for distinct", x, axis, comm);
  return apply_map(replicated ? detail::shared_gather_map(comm, cut) : detail::gather_map(comm, cut), x);
}

torch::Tensor scatter(torch::Tensor const& x, std::int64_t axis, Cuts const& cuts, Comm const& comm) {
  return apply_map(detail::scatter_map(comm, enter_whole("scatter", x, axis, cuts, comm)), x);
}

torch::Tensor reduce_scatter(torch::Tensor const& x, std::int64_t axis, Cuts const& cuts, Comm const& comm) {
  return apply_map(detail::reduce_scatter_map(comm, enter_whole("reduce_scatter", x, axis, cuts, comm)), x);
}

torch::Tensor all_to_all(torch::Tensor const& x, std::int64_t split_axis, std::int64_t join_axis,
                         Cuts const& split_cuts, Comm const& comm) {
  auto const join = enter_cut("all_to_all", x, join_axis, comm, [&] {
    split_axis = from_last(x, split_axis);
    if (split_axis == from_last(x, join_axis)) throw Error("BadAxis", "the axis to split is also the axis to join");
    require_cuts(x, split_axis, split_cuts, comm);
    return described(split_axis, split_cuts);
  });
  return apply_map(detail::all_to_all_map(comm, {split_axis, split_cuts}, join), x);
}

torch::Tensor gather_to_root(torch::Tensor const& x, std::int64_t axis, int root, Comm const& comm) {
  auto const cut = enter_cut("gather_to_root " + std::to_string(root), x, axis, comm, [&] {
    require_root(root, comm);
    return std::string();
  });
  auto sizes = x.sizes().vec();
  sizes[std::size_t(x.dim() + cut.axis)] = cut.cuts.extent();
  return apply_map(detail::gather_to_root_map(comm, cut, on_root(root, comm, sizes)), x);
}

torch::Tensor scatter_from_root(torch::Tensor const& x, std::int64_t axis, Cuts const& cuts, int root,
                                Comm const& comm) {
  auto const [own, side] = enter_rooted("scatter_from_root", x, root, comm, [&](bool is_root) {
    if (is_root) require_cuts(x, from_last(x, axis), cuts, comm);
    return described(axis, cuts);
  });
  auto const ndim = std::int64_t(side.sizes.size());
  return apply_map(detail::scatter_from_root_map(comm, {axis < 0 ? axis : axis - ndim, cuts}, side), own);
}

namespace detail {

CollectiveLayer::CollectiveLayer(Domain const& domain, CollectiveOptions options)
    : LayerState(domain, options.name, options.sharding), options_(std::move(options)) {}

torch::Tensor CollectiveLayer::forward(torch::Tensor const& x) {
  auto const check = [&] {
    require_dense(x);
    for (auto const axis : options_.sharding.axes) (void)from_last(x, axis);
    if (options_.check) options_.check(x);
  };
  auto const call = enter(x, check, [&](Layout const& layout) { return options_.make(x, layout); });
  return record(detail::apply_linear_call(call.set_up, x, call.anchor));
}

}  // namespace detail

AllSumImpl::AllSumImpl(Domain const& domain)
    : CollectiveModule(alike("AllSum", [c = domain.comm()](Sizes const&) { return detail::all_sum_map(c); }), domain) {}

CopyToRegionImpl::CopyToRegionImpl(Domain const& domain)
    : CollectiveModule(
          alike("CopyToRegion", [c = domain.comm()](Sizes const&) { return detail::copy_to_region_map(c); }), domain) {}

BroadcastImpl::BroadcastImpl(int root, Domain const& domain)
    : CollectiveModule(alike("Broadcast",
                             [=, c = domain.comm()](Sizes const& sizes) {
                               return detail::broadcast_map(c, {root, sizes, sizes});
                             }),
                       domain) {
  require_root(root, domain.comm());
}

SumToRootImpl::SumToRootImpl(int root, Domain const& domain)
    : CollectiveModule(alike("SumToRoot",
                             [=, c = domain.comm()](Sizes const& sizes) {
                               return detail::sum_to_root_map(c, {root, sizes, c.rank() == root ? sizes : Sizes{0}});
                             }),
                       domain) {
  require_root(root, domain.comm());
}

GatherImpl::GatherImpl(std::int64_t axis, Consumer consumer, Domain const& domain)
    : CollectiveModule({"Gather",
                        cut_along(checked_axis(axis), domain),
                        {},
                        [=, c = domain.comm()](torch::Tensor const&, Layout const& layout) {
                          CutAxis const cut{axis, *layout.cuts(0)};
                          return consumer == Consumer::replicated ? detail::shared_gather_map(c, cut)
                                                                  : detail::gather_map(c, cut);
                        }},
                       domain) {}

ScatterImpl::ScatterImpl(std::int64_t axis, Domain const& domain, std::optional<Cuts> cuts)
    : CollectiveModule(
          whole_along("Scatter", axis, uncut(), domain, cuts,
                      [c = domain.comm()](CutAxis const& cut, Layout const&) { return detail::scatter_map(c, cut); }),
          domain) {}

ReduceScatterImpl::ReduceScatterImpl(std::int64_t axis, Domain const& domain, std::optional<Cuts> cuts)
    : CollectiveModule(whole_along("ReduceScatter", axis, uncut(), domain, cuts,
                                   [c = domain.comm()](CutAxis const& cut, Layout const&) {
                                     return detail::reduce_scatter_map(c, cut);
                                   }),
                       domain) {}

AllToAllImpl::AllToAllImpl(std::int64_t split_axis, std::int64_t join_axis, Domain const& domain,
                           std::optional<Cuts> cuts)
    : CollectiveModule(whole_along("AllToAll", split_axis, cut_along(checked_axis(join_axis), domain), domain, cuts,
                                   [=, c = domain.comm()](CutAxis const& split, Layout const& layout) {
                                     return detail::all_to_all_map(c, split, {join_axis, *layout.cuts(0)});
                                   }),
                       domain) {
  if (split_axis == join_axis) throw Error("BadAxis", "the axis to split is also the axis to join");
}

}  // namespace graticule::nn
