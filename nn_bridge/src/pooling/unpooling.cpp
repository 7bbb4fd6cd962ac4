// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/message_memory.hpp>
#include <graticule/nn_bridge/pooling/unpooling.hpp>

#include "call/other_layout.hpp"
#include "call/spatial.hpp"
#include "stencil/needed_inputs.hpp"

#include <algorithm>
#include <string>

namespace graticule::nn {

namespace {

using detail::Range;
using detail::TransposedAxis;

/// One axis of levels (if any), rows and columns.
struct UnpoolAxis {
  TransposedAxis window;
  Index num_outputs = 1;  ///< of the whole field
  Range outputs;          ///< of this rank
  Range inputs;           ///< that this rank's outputs may get
  Range own;              ///< inputs of this rank's shard
};

struct UnpoolSetUp {
  detail::NeededInputs inputs;
  std::vector<UnpoolAxis> axes;

  [[nodiscard]] bool has_outputs() const noexcept {
    return std::all_of(axes.begin(), axes.end(), [](auto const& axis) { return axis.outputs.size() > 0; });
  }
};

struct UnpoolDescription {
  std::string layer;
  std::vector<Index> kernel, stride, padding;  ///< of levels (if any), rows and columns
};

/// The sizes of the output, and how far they may be off.
Index num_outputs_of(UnpoolDescription const& d, TransposedAxis const& axis, std::optional<Index> wanted) {
  Index const usual = axis.least_outputs();
  if (wanted && std::abs(*wanted - usual) > axis.stride)
    throw Error("BadOption", d.layer + ": the output of " + std::to_string(axis.extent) + " cells must have " +
                                 std::to_string(usual) + " cells, less or more by a stride of " +
                                 std::to_string(axis.stride) + " at most, got " + std::to_string(*wanted));
  Index const total = wanted.value_or(usual);
  if (total < 1 || axis.extent < 1)
    throw Error("KernelTooLarge", d.layer + ": padding " + std::to_string(axis.padding) + " leaves no output of " +
                                      std::to_string(axis.extent) + " cells");
  return total;
}

std::shared_ptr<UnpoolSetUp const> make_set_up(Domain const& domain, UnpoolDescription const& d, torch::Tensor const& x,
                                               Layout const& layout, detail::Like const& like) {
  auto const& comm = domain.comm();
  std::vector<UnpoolAxis> axes;
  detail::NeedDescription need;
  Hash hash;
  for (std::size_t i = 0; i < d.kernel.size(); ++i) {
    int const a = int(i) + 2 - int(d.kernel.size());
    UnpoolAxis axis;
    axis.window = {a < 0 ? x.size(-3) : layout.extent(a), d.kernel[i], d.stride[i], d.padding[i]};
    axis.num_outputs = num_outputs_of(d, axis.window, like.extent(a));
    axis.outputs = {0, axis.num_outputs};
    axis.inputs = axis.own = {0, axis.window.extent};
    if (a >= 0) {
      auto const& cuts = *layout.cuts(a);
      axis.outputs = detail::own_range(
          comm, layout, a, like.layout ? *like.layout->cuts(a) : axis.window.output_cuts(cuts, axis.num_outputs));
      axis.inputs = axis.window.needed(axis.outputs);
      axis.own = detail::own_range(comm, layout, a, cuts);
      need.needed[std::size_t(a)] = axis.inputs;
    }
    hash.add(d.kernel[i]).add(d.stride[i]).add(d.padding[i]).add(axis.num_outputs);
    axes.push_back(axis);
  }
  need.boundary = Boundary::uniform(2, Edge::constant);
  need.fingerprint = hash.value();
  return std::make_shared<UnpoolSetUp const>(UnpoolSetUp{detail::NeededInputs(comm, layout, need), std::move(axes)});
}

/// Coordinates along all axes of flat indices in the whole output.
std::vector<torch::Tensor> coordinates(std::vector<UnpoolAxis> const& axes, torch::Tensor const& indices) {
  std::vector<torch::Tensor> result(axes.size());
  auto rest = indices;
  for (std::size_t i = axes.size(); i-- > 0;) {
    result[i] = i == 0 ? rest : rest.remainder(axes[i].num_outputs);
    rest = rest.floor_divide(axes[i].num_outputs);
  }
  return result;
}

/// Where indices lie outside the windows of their maxima, along each axis.
std::vector<torch::Tensor> outside_windows(std::vector<UnpoolAxis> const& axes, torch::Tensor const& indices) {
  auto const places = coordinates(axes, indices);
  std::vector<torch::Tensor> result;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    auto const& axis = axes[i];
    std::vector<std::int64_t> shape(std::size_t(indices.dim()), 1);
    shape[i + 2] = axis.own.size();
    auto const start =
        (torch::arange(axis.own.lo, axis.own.hi, indices.options()) * axis.window.stride - axis.window.padding)
            .view(shape);
    auto const& at = places[i];
    result.push_back(
        (at < start.clamp_min(0)).logical_or(at >= (start + axis.window.kernel).clamp_max(axis.num_outputs)));
  }
  return result;
}

/// @throws `OutOfRange`
void check_windows(UnpoolDescription const& d, std::vector<UnpoolAxis> const& axes, torch::Tensor const& indices) {
  auto const outside = outside_windows(axes, indices);
  std::vector<torch::Tensor> any;
  for (auto const& of_axis : outside) any.push_back(of_axis.any());
  auto const found = detail::values_on_host(any);
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (found[i] != 0)
      throw Error("OutOfRange", d.layer + ": index " +
                                    std::to_string(indices.masked_select(outside[i])[0].item<std::int64_t>()) +
                                    " lies outside the window of its maximum");
}

/// Maxima at their places in the outputs of this rank.
torch::Tensor placed(UnpoolSetUp const& s, torch::Tensor const& maxima, torch::Tensor const& indices) {
  std::vector<std::int64_t> sizes{maxima.size(0), maxima.size(1)};
  for (auto const& axis : s.axes) sizes.push_back(axis.outputs.size());
  // Sums of no cells: edges of the graph.
  auto const edge = maxima.narrow(0, 0, 0).sum();
  if (!s.has_outputs() || maxima.numel() == 0) return torch::zeros(sizes, maxima.options()) + edge;
  auto const at = coordinates(s.axes, indices);
  auto place = torch::zeros_like(indices);
  auto is_own = torch::ones_like(indices, torch::kBool);
  Index num_cells = 1;
  for (std::size_t i = s.axes.size(); i-- > 0;) {
    auto const& outputs = s.axes[i].outputs;
    is_own = is_own.logical_and(at[i] >= outputs.lo).logical_and(at[i] < outputs.hi);
    place = place + (at[i] - outputs.lo) * num_cells;
    num_cells *= outputs.size();
  }
  // One cell more for what belongs to others.
  place = torch::where(is_own, place, torch::full_like(place, num_cells)).flatten(2);
  return torch::zeros({sizes[0], sizes[1], num_cells + 1}, maxima.options())
      .scatter(2, place, maxima.flatten(2))
      .narrow(2, 0, num_cells)
      .reshape(sizes);
}

template <std::size_t D>
UnpoolDescription described(torch::nn::MaxUnpoolOptions<D> const& o) {
  UnpoolDescription d{"MaxUnpool" + std::to_string(D) + "d", detail::along_axes(o.kernel_size(), 1),
                      detail::along_axes(o.stride(), 1), detail::along_axes(o.padding(), 0)};
  for (std::size_t i = 0; i < d.kernel.size(); ++i)
    if (d.kernel[i] < 1 || d.stride[i] < 1 || d.padding[i] < 0)
      throw Error("BadOption",
                  c10::str(d.layer, " needs a kernel and a stride of at least 1 and a padding of at least 0, got ",
                           "kernel ", d.kernel[i], ", stride ", d.stride[i], ", padding ", d.padding[i]));
  return d;
}

}  // namespace

class detail::UnpoolState : public NeedState<UnpoolSetUp> {
 public:
  UnpoolState(Domain const& domain, UnpoolDescription d)
      : NeedState(domain, d.layer), other(domain, d.layer, this), description(std::move(d)) {}

  /// The needed box of the indices, which need no gradient.
  [[nodiscard]] torch::Tensor fetch_indices(UnpoolSetUp const& s, torch::Tensor const& indices) const {
    torch::NoGradGuard const no_grad;
    if (!s.inputs.pull()) return s.inputs.own_part(indices);
    return apply_linear(s.inputs.pull(), Way::forward, indices, detail::anchor(false, indices.options()));
  }

  OtherLayout other;
  UnpoolDescription description;
};

template <std::size_t D>
MaxUnpoolImpl<D>::MaxUnpoolImpl(torch::nn::MaxUnpoolOptions<D> const& options, Domain domain)
    : detail::StatefulModule<MaxUnpoolImpl<D>, detail::UnpoolState>(
          std::move(domain), detail::state_maker<detail::UnpoolState>(described<D>(options))) {}

template <std::size_t D>
torch::Tensor MaxUnpoolImpl<D>::unpooled(torch::Tensor const& x, torch::Tensor const& indices,
                                         detail::Like const& like) {
  auto const& d = this->state().description;
  auto const check = [&] {
    detail::check_spatial(d.layer, D, x, this->domain(), {});
    if (!indices.defined() || indices.sizes() != x.sizes() || indices.scalar_type() != torch::kLong)
      throw Error("ShapeMismatch", d.layer + " takes int64 indices of the sizes of its maxima");
  };
  auto const call = this->state().enter(
      detail::with_columns(x, D), check,
      [&](Layout const& layout) { return make_set_up(this->domain(), d, x, layout, like); }, false, like.fingerprint());
  auto const& s = *call.set_up;
  auto const places = detail::batched(indices, D);
  run_agreed(this->domain().comm(), [&] { check_windows(d, s.axes, places); });
  auto const maxima = this->state().fetch(call, detail::batched(x, D));
  return detail::unbatched(placed(s, maxima, this->state().fetch_indices(s, places)), x, D);
}

template <std::size_t D>
torch::Tensor MaxUnpoolImpl<D>::forward(torch::Tensor const& x, torch::Tensor const& indices) {
  return unpooled(x, indices, {});
}

template <std::size_t D>
torch::Tensor MaxUnpoolImpl<D>::forward_like(torch::Tensor const& x, torch::Tensor const& indices,
                                             torch::Tensor const& like) {
  return unpooled(x, indices, this->state().other.like(x, like, D));
}

template class MaxUnpoolImpl<1>;
template class MaxUnpoolImpl<2>;
template class MaxUnpoolImpl<3>;

}  // namespace graticule::nn
