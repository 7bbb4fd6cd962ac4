// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/stencil/conv_transpose.hpp>

#include "call/local_map.hpp"
#include "call/other_layout.hpp"
#include "call/spatial.hpp"
#include "conv_options.hpp"
#include "convolution.hpp"
#include "needed_inputs.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace graticule::nn {

namespace {

using detail::LocalMap;
using detail::TransposedAxis;

struct TransposedSetUp {
  detail::NeededInputs inputs;
  std::array<std::int64_t, 2> outputs{};  ///< rows and columns of this rank
  /// Cells that the local convolution lacks before and behind them; negative where it has too many.
  std::array<Width, 2> missing{};
  std::int64_t output_levels = 1;
  std::int64_t level_output_padding = 0;
};

/// Options of levels (if any), rows and columns.
struct TransposedDescription {
  std::string layer;
  std::vector<Index> kernel, stride, padding, dilation, output_padding;
  bool is_length = false;  ///< with one column
  bool by_domain = false;
  std::vector<std::int64_t> odd_channels;
};

template <std::size_t D>
TransposedDescription described(detail::ConvNdOptions<D> const& o, Padding padding_by,
                                std::vector<std::int64_t> const& odd_channels) {
  return {"ConvTranspose" + std::to_string(D) + "d",
          detail::along_axes(o.kernel_size(), 1),
          detail::along_axes(o.stride(), 1),
          detail::along_axes(std::get<torch::ExpandingArray<D>>(o.padding()), 0),
          detail::along_axes(o.dilation(), 1),
          detail::along_axes(o.output_padding(), 0),
          D == 1,
          padding_by == Padding::by_domain,
          odd_channels};
}

void check_output_padding(TransposedDescription const& d, std::size_t i, Index output_padding, char const* rule) {
  if (output_padding < 0 || output_padding >= std::max(d.stride[i], d.dilation[i]))
    throw Error(rule, d.layer + ": the output padding must be in [0, " +
                          std::to_string(std::max(d.stride[i], d.dilation[i])) +
                          "), below the larger of stride and dilation, got " + std::to_string(output_padding));
}

std::string axis_name(TransposedDescription const& d, std::size_t i) {
  auto const from_last = d.kernel.size() - i;
  return from_last == 3 ? "levels" : from_last == 2 ? (d.is_length ? "the length" : "rows") : "columns";
}

/// Output padding of one axis, and its outputs.
std::pair<Index, Index> sizes_of(TransposedDescription const& d, std::size_t i, TransposedAxis const& axis,
                                 std::optional<Index> wanted) {
  Index const output_padding = wanted ? *wanted - axis.least_outputs() : d.output_padding[i];
  Index const least = axis.least_outputs();
  Index const most = least + std::max(d.stride[i], d.dilation[i]) - 1;
  if (wanted && (*wanted < least || *wanted > most)) {
    std::string const range =
        least == most ? std::to_string(least) : std::to_string(least) + " to " + std::to_string(most);
    throw Error("BadOption", d.layer + "::forward_like: the output cannot have " + std::to_string(*wanted) +
                                 " cells along " + axis_name(d, i) + "; " + std::to_string(axis.extent) +
                                 " input cells give " + range);
  }
  Index const total = axis.least_outputs() + output_padding;
  if (total < 1 || axis.extent < 1)
    throw Error("KernelTooLarge", d.layer + ": padding " + std::to_string(axis.padding) + " leaves no output of " +
                                      std::to_string(axis.extent) + " cells");
  return {output_padding, total};
}

std::shared_ptr<TransposedSetUp const> make_set_up(Domain const& domain, TransposedDescription const& d,
                                                   torch::Tensor const& x, Layout const& layout,
                                                   detail::Like const& like) {
  auto const& comm = domain.comm();
  detail::NeedDescription need;
  std::array<std::int64_t, 2> num_outputs{};
  std::array<Width, 2> missing{};
  std::int64_t output_levels = 1;
  std::int64_t level_output_padding = 0;
  Hash hash;
  for (std::size_t i = 0; i < d.kernel.size(); ++i) {
    int const a = int(i) + 2 - int(d.kernel.size());
    // Zeros beyond the globe, too, are inputs: a convolution without them lacks cells on one side, which costs a copy
    // of all outputs.
    TransposedAxis const axis{
        a < 0 ? x.size(-3) : layout.extent(a), d.kernel[i], d.stride[i], d.padding[i], d.dilation[i], a < 0};
    auto const [output_padding, total] = sizes_of(d, i, axis, like.extent(a));
    hash.add(d.kernel[i]).add(d.stride[i]).add(d.padding[i]).add(d.dilation[i]).add(total);
    if (a < 0) {
      output_levels = total;
      level_output_padding = output_padding;
      continue;
    }
    auto const outputs = detail::own_range(
        comm, layout, a, like.layout ? *like.layout->cuts(a) : axis.output_cuts(*layout.cuts(a), total));
    auto const needed = axis.needed(outputs);
    Index const lo = needed.lo * axis.stride - axis.padding;
    Index const hi = (needed.hi - 1) * axis.stride - axis.padding + axis.span() + 1;
    need.needed[std::size_t(a)] = needed;
    num_outputs[std::size_t(a)] = outputs.size();
    missing[std::size_t(a)] = {lo - outputs.lo, outputs.hi - hi};
  }
  need.boundary =
      detail::boundary_of(d.is_length ? 1 : 2, domain, d.by_domain ? std::nullopt : std::optional(Edge::constant));
  need.odd_channels = d.odd_channels;
  need.fingerprint = hash.value();
  return std::make_shared<TransposedSetUp const>(TransposedSetUp{detail::NeededInputs(comm, layout, need), num_outputs,
                                                                 missing, output_levels, level_output_padding});
}

/// One call of LibTorch's convolution.
struct TransposedCall {
  TransposedSetUp set_up;
  TransposedDescription description;
  std::int64_t groups = 1;
  std::vector<std::int64_t> padding, output_padding;

  TransposedCall(TransposedSetUp s, TransposedDescription d, std::int64_t num_groups)
      : set_up(std::move(s)),
        description(std::move(d)),
        groups(num_groups),
        padding(description.kernel.size(), 0),
        output_padding(description.kernel.size(), 0) {
    auto const num_axes = description.kernel.size();
    if (num_axes == 3) padding[0] = description.padding[0], output_padding[0] = set_up.level_output_padding;
    for (std::size_t a = 0; a < 2; ++a) {
      auto& missing = set_up.missing[a];
      auto const cut = std::max<Index>(std::min(-missing.lower, -missing.upper), 0);
      padding[num_axes - 2 + a] = cut;
      missing = {missing.lower + cut, missing.upper + cut};
    }
  }
  [[nodiscard]] detail::Windows windows() const {
    return {description.stride, padding, description.dilation, groups, true, output_padding};
  }
  /// Whether there is anything to compute.
  [[nodiscard]] bool gives(torch::Tensor const& inputs) const {
    return inputs.numel() != 0 && set_up.outputs[0] != 0 && set_up.outputs[1] != 0;
  }
  /// `y` with `sign` times the missing cells, which are zero; itself where none is missing.
  [[nodiscard]] torch::Tensor with_missing(torch::Tensor const& y, Index sign) const {
    auto const& [rows, columns] = set_up.missing;
    std::array<std::int64_t, 4> const cells{sign * columns.lower, sign * columns.upper, sign * rows.lower,
                                            sign * rows.upper};
    return cells == std::array<std::int64_t, 4>{} ? y : at::constant_pad_nd(y, cells);
  }
  /// Whether LibTorch's convolution computes all outputs, and so adds the bias to them.
  [[nodiscard]] bool adds_bias() const {
    auto const& [rows, columns] = set_up.missing;
    return std::max({rows.lower, rows.upper, columns.lower, columns.upper}) <= 0;
  }
  [[nodiscard]] torch::Tensor outputs(torch::Tensor const& inputs, torch::Tensor const& weight,
                                      torch::Tensor const& bias) const {
    auto const& s = set_up;
    auto const& d = description;
    torch::Tensor y;
    if (!gives(inputs)) {
      std::vector<std::int64_t> sizes{inputs.size(0), weight.size(1) * groups};
      if (d.kernel.size() == 3) sizes.push_back(s.output_levels);
      sizes.insert(sizes.end(), s.outputs.begin(), s.outputs.end());
      y = torch::zeros(sizes, inputs.options().requires_grad(false));
    } else {
      bool const whole = adds_bias();
      y = with_missing(detail::convolution(inputs, weight, whole ? bias : torch::Tensor(), windows()), 1);
      if (whole) return y;
    }
    if (!bias.defined()) return y;
    std::vector<std::int64_t> shape(d.kernel.size() + 1, 1);
    shape[0] = -1;
    return y + bias.view(shape);
  }
  /// Of inputs, weight and, if there is one, bias.
  [[nodiscard]] LocalMap::Tensors gradients(LocalMap::Tensors const& in, torch::Tensor const& g,
                                            std::vector<bool> const& needed) const {
    bool const with_bias = in.size() > 2;
    bool const by_convolution = gives(in[0]) && adds_bias();
    LocalMap::Tensors result;
    if (gives(in[0])) {
      auto const [of_inputs, of_weight, of_bias] =
          detail::convolution_backward(with_missing(g, -1), in[0], in[1], windows(),
                                       {needed[0], needed[1], with_bias && by_convolution && needed[2]});
      result = {of_inputs, of_weight, of_bias};
    } else {
      result = {torch::zeros_like(in[0]), torch::zeros_like(in[1]), {}};
    }
    if (with_bias && !by_convolution) {
      std::vector<std::int64_t> axes{0};
      for (std::int64_t axis = 2; axis < g.dim(); ++axis) axes.push_back(axis);
      result[2] = g.sum(axes);
    }
    result.resize(in.size());
    return result;
  }
};

/// The outputs of this rank, from all inputs that add to them.
torch::Tensor convolve(TransposedCall call, torch::Tensor const& inputs, torch::Tensor const& weight,
                       torch::Tensor const& bias) {
  auto const shared = std::make_shared<TransposedCall const>(std::move(call));
  auto map = std::make_shared<LocalMap>();
  map->apply = [=](LocalMap::Tensors const& in) -> LocalMap::Tensors {
    return {shared->outputs(in[0], in[1], in.size() > 2 ? in[2] : torch::Tensor())};
  };
  map->backward = [=](LocalMap::Tensors const& in, LocalMap::Tensors const& g, std::vector<bool> const& needed) {
    return shared->gradients(in, g[0], needed);
  };
  LocalMap::Tensors given{inputs, weight};
  if (bias.defined()) given.push_back(bias);
  return detail::apply_local(std::move(map), given)[0];
}

}  // namespace

class detail::TransposedState : public NeedState<TransposedSetUp> {
 public:
  TransposedState(Domain const& domain, std::string const& layer)
      : NeedState(domain, layer), other(domain, layer, this) {}
  OtherLayout other;
};

template <std::size_t D>
ConvTransposeImpl<D>::ConvTransposeImpl(ConvTransposeOptions<D> const& given, Domain domain)
    : detail::StatefulModule<ConvTransposeImpl<D>, detail::TransposedState,
                             torch::nn::ConvTransposeNdImpl<D, ConvTransposeImpl<D>>>(
          std::move(domain), detail::state_maker<detail::TransposedState>("ConvTranspose" + std::to_string(D) + "d"),
          detail::nd_options(given.conv)),
      padding_by_(given.padding),
      odd_channels_(given.odd_channels) {
  if (!std::holds_alternative<torch::enumtype::kZeros>(given.conv.padding_mode()))
    throw Error("Unsupported", "ConvTranspose pads by zeros; Padding::by_domain reads the domain's cells");
  auto const d = described<D>(this->options, padding_by_, odd_channels_);
  for (std::size_t i = 0; i < d.kernel.size(); ++i) check_output_padding(d, i, d.output_padding[i], "BadOption");
  detail::check_odd_channels(odd_channels_, given.conv.in_channels());
  if (!odd_channels_.empty() && padding_by_ != Padding::by_domain)
    throw Error("BadBoundary", "ConvTranspose reads across no pole unless by Padding::by_domain");
}

template <std::size_t D>
void ConvTransposeImpl<D>::check(torch::Tensor const& x) const {
  detail::check_convolution("ConvTranspose" + std::to_string(D) + "d", D, x, this->options.in_channels(), this->weight,
                            this->domain());
}

template <std::size_t D>
torch::Tensor ConvTransposeImpl<D>::convolved(torch::Tensor const& x, detail::Like const& like) {
  auto const d = described<D>(this->options, padding_by_, odd_channels_);
  bool const parameter_grad = detail::needs_gradient(this->weight) || detail::needs_gradient(this->bias);
  auto const call = this->state().enter(
      detail::with_columns(x, D), [&] { check(x); },
      [&](Layout const& layout) { return make_set_up(this->domain(), d, x, layout, like); }, parameter_grad,
      like.fingerprint());
  auto const inputs = this->state().fetch(call, detail::batched(x, D));
  auto const y =
      convolve({*call.set_up, d, this->options.groups()}, inputs, detail::with_columns(this->weight, D), this->bias);
  return detail::unbatched(y, x, D);
}

template <std::size_t D>
torch::Tensor ConvTransposeImpl<D>::forward(torch::Tensor const& x) {
  return convolved(x, {});
}

template <std::size_t D>
torch::Tensor ConvTransposeImpl<D>::forward_like(torch::Tensor const& x, torch::Tensor const& like) {
  return convolved(x, this->state().other.like(x, like, D));
}

template class ConvTransposeImpl<1>;
template class ConvTransposeImpl<2>;
template class ConvTransposeImpl<3>;

}  // namespace graticule::nn
