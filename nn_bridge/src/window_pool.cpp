// SPDX-License-Identifier: BSD-3-Clause
#include "window_pool.hpp"

#include "spatial.hpp"

#include <algorithm>

namespace graticule::nn::detail {

Index PoolAxis::num_outputs() const {
  auto const& w = window;
  Index const room = w.extent + 2 * w.before - w.reach();
  Index const count = (ceil_mode ? ceil_div(room, w.stride) : floor_div(room, w.stride)) + 1;
  bool const starts_beyond = ceil_mode && (count - 1) * w.stride >= w.extent + w.before;
  Index const total = starts_beyond ? count - 1 : count;
  if (total < 1 || w.extent < least_cells)
    throw Error("KernelTooLarge", "a window of " + std::to_string(w.reach()) + " cells on an axis of " +
                                      std::to_string(w.extent) + " with padding " + std::to_string(w.before));
  // A dilated window may lie round the field with no cell in it, whose maximum LibTorch takes for that of some other cell.
  for (Index o = 0; o < total && !by_domain; ++o) {
    Index const start = o * w.stride - w.before;
    Index const first = start < 0 ? start + ceil_div(-start, w.dilation) * w.dilation : start;
    if (first >= std::min(w.extent, start + w.reach()))
      throw Error("KernelTooLarge", "a window of " + std::to_string(w.reach()) + " cells, dilated by " +
                                        std::to_string(w.dilation) + ", holds none of an axis of " +
                                        std::to_string(w.extent) + " with padding " + std::to_string(w.before));
  }
  return total;
}

Index PoolAxis::num_skipped(Range outputs, Range needed) const noexcept {
  return by_domain || outputs.size() == 0 ? 0 : outputs.lo - needed.lo / window.stride;
}

Range PoolAxis::needed(Range outputs) const noexcept {
  auto const whole = window.needed(outputs);
  if (by_domain || outputs.size() == 0) return whole;
  Index const stride = window.stride;
  Range part{std::max<Index>(0, outputs.lo - ceil_div(window.before, stride)) * stride,
             std::min(whole.hi, window.extent)};
  if (part.size() < least_cells) part.hi = std::min(part.lo + least_cells, window.extent);
  if (part.size() < least_cells) {
    part.lo = std::max<Index>(0, part.lo - ceil_div(least_cells - part.size(), stride) * stride);
    part.hi = std::max(part.hi, part.lo + least_cells);
  }
  return part;
}

namespace {

void check_description(WindowPoolDescription const& d) {
  for (std::size_t a = 0; a < d.kernel.size(); ++a) {
    if (d.kernel[a] < 1 || d.stride[a] < 1 || d.dilation[a] < 1 || d.padding[a] < 0)
      throw Error("BadWindow", d.layer + " of kernel " + std::to_string(d.kernel[a]) + ", stride " +
                                   std::to_string(d.stride[a]) + ", dilation " + std::to_string(d.dilation[a]) +
                                   ", padding " + std::to_string(d.padding[a]));
    Index const reach = d.dilation[a] * (d.kernel[a] - 1) + 1;
    if (2 * d.padding[a] > reach)
      throw Error("PaddingTooWide", d.layer + " with padding " + std::to_string(d.padding[a]) +
                                        ", more than half a window of " + std::to_string(reach));
  }
  if (!d.odd_channels.empty() && !d.by_domain)
    throw Error("OddChannels", d.layer + " reads across no pole unless by Padding::by_domain");
}

std::uint64_t fingerprint(WindowPoolDescription const& d) {
  return Hash()
      .add(d.kernel)
      .add(d.stride)
      .add(d.padding)
      .add(d.dilation)
      .add(int(d.ceil_mode))
      .add(int(d.by_domain))
      .value();
}

}  // namespace

WindowPool::WindowPool(Domain domain, WindowPoolDescription description)
    : domain_(std::move(domain)), description_(std::move(description)), state_(domain_, description_.layer) {
  check_description(description_);
}

std::shared_ptr<WindowPoolSetUp const> WindowPool::make(torch::Tensor const& x, Layout const& layout) const {
  auto const& d = description_;
  auto const num_axes = d.kernel.size();
  std::vector<Index> extents;
  std::vector<Index> num_outputs;
  std::vector<Index> num_skipped;
  NeedDescription need;
  need.needed[1] = {0, 1};  // The column of a length.
  for (std::size_t i = 0; i < num_axes; ++i) {
    int const cut_axis = num_axes == 1 ? 0 : int(i) + 2 - int(num_axes);
    bool const is_level = cut_axis < 0;
    extents.push_back(is_level ? x.size(-3) : layout.extent(cut_axis));
    PoolAxis const axis{{extents[i], d.kernel[i], d.stride[i], d.dilation[i], d.padding[i], d.padding[i]},
                        d.ceil_mode,
                        d.by_domain && !is_level,
                        d.needs_whole_kernel ? d.kernel[i] : 1};
    auto const total = axis.num_outputs();
    Range outputs{0, total};
    num_skipped.push_back(0);
    if (!is_level) {
      auto const cuts = axis.window.output_cuts(*layout.cuts(cut_axis), total);
      outputs = own_range(domain_.comm(), layout, cut_axis, cuts);
      auto const needed = axis.needed(outputs);
      need.needed[std::size_t(cut_axis)] = needed;
      num_skipped.back() = axis.num_skipped(outputs, needed);
    }
    num_outputs.push_back(outputs.size());
  }
  need.boundary = d.by_domain ? domain_.boundary() : Boundary::uniform(2, Edge::replicate);
  // One column: half way round it lies the column itself.
  if (num_axes == 1) need.boundary.odd_longitudes = OddLongitudes::shift_floor;
  need.odd_channels = d.odd_channels;
  need.fingerprint = fingerprint(d);
  return std::make_shared<WindowPoolSetUp const>(WindowPoolSetUp{
      NeededInputs(domain_.comm(), layout, need), std::move(extents), std::move(num_outputs), std::move(num_skipped)});
}

WindowPool::Windows WindowPool::windows_of(WindowPoolSetUp const& s, torch::Tensor const& inputs) const {
  auto const num_axes = description_.kernel.size();
  Windows windows{num_axes == 1 ? inputs.squeeze(-1) : inputs, description_.padding, std::vector<Index>(num_axes, 0),
                  s.extents};
  for (std::size_t i = num_axes == 3 ? 1 : 0; i < num_axes; ++i) {
    windows.first_cell[i] = s.inputs.box().lo(num_axes == 1 ? 0 : int(i) + 2 - int(num_axes));
    if (description_.by_domain) windows.padding[i] = 0;
  }
  return windows;
}

void WindowPool::require_type(torch::Tensor const& x, Local const& local) {
  if (known_type_ == x.scalar_type()) return;
  std::vector<std::int64_t> sizes{1, 1};
  for (std::size_t i = 0; i < description_.kernel.size(); ++i)
    sizes.push_back(ConvAxis{.kernel = description_.kernel[i], .dilation = description_.dilation[i]}.reach());
  std::vector<Index> const none(description_.kernel.size(), 0);
  torch::NoGradGuard const no_grad;
  try {
    (void)local({torch::zeros(sizes, x.options()), none, none, {sizes.begin() + 2, sizes.end()}});
  } catch (c10::Error const&) {
    throw Error("UnsupportedTensor", description_.layer + " of " + c10::toString(x.scalar_type()) +
                                         ", for which LibTorch has no such layer");
  }
  known_type_ = x.scalar_type();
}

std::vector<torch::Tensor> WindowPool::forward(torch::Tensor const& x, std::vector<torch::ScalarType> const& types,
                                               Local const& local) {
  auto const& d = description_;
  auto const num_axes = d.kernel.size();
  auto const check = [&] {
    check_spatial(d.layer, num_axes, x, domain_, d.odd_channels);
    require_type(x, local);
  };
  auto const call =
      state_.enter(with_columns(x, num_axes), check, [&](Layout const& layout) { return make(x, layout); });
  auto const& s = *call.set_up;
  auto const inputs = state_.fetch(call, batched(x, num_axes));
  std::vector<torch::Tensor> results;
  if (std::find(s.num_outputs.begin(), s.num_outputs.end(), 0) != s.num_outputs.end()) {
    std::vector<std::int64_t> sizes{inputs.size(0), inputs.size(1)};
    sizes.insert(sizes.end(), s.num_outputs.begin(), s.num_outputs.end());
    for (auto const type : types) results.push_back(torch::zeros(sizes, inputs.options().dtype(type)));
    // The sum of no cells: an edge of the graph.
    results[0] = results[0] + inputs.sum();
  } else {
    results = local(windows_of(s, inputs));
    for (auto& result : results)
      for (std::size_t i = 0; i < num_axes; ++i)
        if (auto const axis = std::int64_t(i) + 2; result.size(axis) != s.num_outputs[i])
          result = result.narrow(axis, s.num_skipped[i], s.num_outputs[i]);
  }
  if (x.dim() == std::int64_t(num_axes) + 1)
    for (auto& result : results) result = result.squeeze(0);
  return results;
}

}  // namespace graticule::nn::detail
