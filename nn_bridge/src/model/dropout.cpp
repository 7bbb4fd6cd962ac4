// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/device_mask.hpp>
#include <graticule/nn_bridge/detail/layer_state.hpp>
#include <graticule/nn_bridge/detail/philox.hpp>
#include <graticule/nn_bridge/model/dropout.hpp>

#include "call/call_stream.hpp"
#include "call/recorded_calls.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <sstream>

namespace graticule::nn {

namespace detail {

namespace {

/// Where this rank's part of an axis begins, and how many cells the axis has on all ranks.
struct AxisPlace {
  std::int64_t lo;
  std::int64_t extent;
};

/// Words of the values 4 `block` to 4 `block` + 3.
std::array<std::uint32_t, 4> block_of(MaskWords const& words, std::uint64_t block) noexcept {
  return philox({std::uint32_t(block), std::uint32_t(block >> 32U), words.draw, words.layer},
                {std::uint32_t(words.seed), std::uint32_t(words.seed >> 32U)});
}

/// `keep[i]` for `count` cells of the flat global index `first` on.
template <class T>
void fill_run(MaskWords const& words, std::uint64_t first, std::int64_t count, T* keep) {
  for (std::int64_t i = 0; i < count;) {
    auto const index = first + std::uint64_t(i);
    auto const block = block_of(words, index / 4);
    for (auto lane = index % 4; lane < 4 && i < count; ++lane, ++i) keep[i] = T(block[lane] >= words.threshold ? 1 : 0);
  }
}

/// @param places of all axes of `mask`, which is contiguous
void fill(MaskWords const& words, std::vector<AxisPlace> const& places, torch::Tensor const& mask) {
  if (mask.numel() == 0) return;
  auto const ndim = mask.dim();
  auto const run = mask.size(-1);
  AT_DISPATCH_FLOATING_TYPES(mask.scalar_type(), "random mask", [&] {
    auto* const data = mask.mutable_data_ptr<scalar_t>();
    at::parallel_for(0, mask.numel() / run, std::max<std::int64_t>(1, 8192 / run),
                     [&](std::int64_t lo, std::int64_t hi) {
                       for (auto line = lo; line < hi; ++line) {
                         std::uint64_t first = 0;
                         std::uint64_t stride = std::uint64_t(places.back().extent);
                         auto rest = line;
                         for (auto a = ndim - 2; a >= 0; --a) {
                           first += std::uint64_t(places[std::size_t(a)].lo + rest % mask.size(a)) * stride;
                           stride *= std::uint64_t(places[std::size_t(a)].extent);
                           rest /= mask.size(a);
                         }
                         fill_run(words, first + std::uint64_t(places.back().lo), run, data + line * run);
                       }
                     });
  });
}

/// Where the cells of `fill` lie for a device; neighboring axes are one where the inner one lies whole on this rank.
/// @pre at most `MaskCells::most_axes` axes
MaskCells cells_of(std::vector<AxisPlace> const& places, at::IntArrayRef sizes) {
  MaskCells cells;
  bool inner_is_whole = false;
  std::int64_t stride = 1;
  // The innermost axis first; turned round at the end.
  for (auto a = std::int64_t(sizes.size()) - 1; a >= 0; --a) {
    auto const& [lo, extent] = places[std::size_t(a)];
    cells.first += lo * stride;
    if (inner_is_whole) {
      cells.extents[cells.num_axes - 1] *= sizes[std::size_t(a)];
    } else {
      cells.extents[cells.num_axes] = sizes[std::size_t(a)];
      cells.strides[cells.num_axes++] = stride;
    }
    inner_is_whole = sizes[std::size_t(a)] == extent;
    stride *= extent;
  }
  std::reverse(cells.extents, cells.extents + cells.num_axes);
  std::reverse(cells.strides, cells.strides + cells.num_axes);
  return cells;
}

}  // namespace

struct MaskSetUp {
  std::vector<AxisPlace> axes;  ///< of the cut axes, in order of the sharding
};

void check_mask_device(torch::Tensor const& tensor) {
  if (!tensor.is_cpu() && engine_reaches(tensor)) (void)queue_of(tensor);
}

void fill_on_device(torch::Tensor const& mask, MaskWords const& words, MaskCells const& cells, double kept) {
  if (mask.numel() == 0) return;
  c10::OptionalDeviceGuard const guard(mask.device());
  auto const queue = queue_of(mask);
  if (mask.scalar_type() == torch::kDouble)
    fill_mask(queue, words, cells, kept, mask.mutable_data_ptr<double>());
  else
    fill_mask(queue, words, cells, float(kept), mask.mutable_data_ptr<float>());
}

torch::Tensor whole_mask(std::vector<std::int64_t> const& sizes, double p, std::uint64_t seed, std::uint32_t layer,
                         std::int64_t draw) {
  std::int64_t num_cells = 1;
  for (auto const size : sizes) num_cells *= size;
  auto mask = torch::empty({num_cells}, torch::kDouble);
  fill({seed, layer, std::uint32_t(draw), std::uint64_t(std::ceil(p * 0x1p32))}, {{0, num_cells}}, mask);
  return mask.view(sizes);
}

RandomMask::RandomMask(Domain const& domain, Options const& o)
    : LayerState(domain, o.name, o.sharding ? *o.sharding : domain.sharding()),
      p_(o.p),
      num_axes_(o.num_axes),
      num_dims_(o.num_dims),
      random_(o.random) {
  if (!(p_ >= 0 && p_ <= 1)) throw Error("BadOption", o.name + ": p must be in [0, 1], got " + std::to_string(p_));
}

torch::Tensor RandomMask::draw(torch::Tensor const& x) {
  auto const check = [&] {
    if (!x.defined() || x.layout() != torch::kStrided || !torch::isFloatingType(x.scalar_type()))
      throw Error("UnsupportedTensor", layer() + " takes dense tensors of a real floating-point dtype");
    std::int64_t least = 1;
    for (auto const axis : sharding().axes) least = std::max(least, -axis);
    // Axes that the mask varies along and that are no samples may not be cut unless all are.
    if (num_axes_ > 0) least = std::max(least, num_axes_ + 2);
    if (x.dim() < least || (num_dims_ > 0 && x.dim() != num_dims_))
      throw Error("ShapeMismatch", c10::str(layer(), " given a tensor ", x.sizes()));
    check_mask_device(x);
  };
  auto const make = [&](Layout const& layout) {
    std::ostringstream text;
    text.precision(17);
    text << layer() << " of p " << p_ << ", seed " << random_.seed << ", layer " << *random_.layer << ", first sample "
         << random_.first_sample;
    require_same_text(text.str());
    auto set_up = std::make_shared<MaskSetUp>();
    auto const owned = layout.owned(domain().comm().rank());
    for (int a = 0; a < layout.ndim(); ++a) set_up->axes.push_back({owned.lo(a), layout.extent(a)});
    return set_up;
  };
  auto const call = enter(x, check, make);
  auto const& set_up = call.set_up;
  auto const draw = domain().recorded_calls().num_draws++;
  auto const ndim = num_axes_ > 0 ? num_axes_ : x.dim();
  std::vector<AxisPlace> places;
  for (std::int64_t a = 0; a < ndim; ++a) places.push_back({0, x.size(a)});
  bool samples = true;  // Axis 0, unless it is cut.
  for (std::size_t a = 0; a < sharding().axes.size(); ++a) {
    auto const axis = x.dim() + sharding().axes[a];
    if (axis < ndim) places[std::size_t(axis)] = set_up->axes[a];
    samples = samples && axis > 0;
  }
  if (samples) places[0].lo += random_.first_sample;
  std::vector<std::int64_t> sizes(x.sizes().begin(), x.sizes().begin() + ndim);
  auto const type = x.scalar_type() == torch::kDouble ? torch::kDouble : torch::kFloat;
  // A device makes its mask itself: as a copy from the host, it would wait for all that the device still has to do.
  bool const on_device = !x.is_cpu() && engine_reaches(x) && ndim <= MaskCells::most_axes;
  auto mask = torch::empty(sizes, torch::TensorOptions(type).device(on_device ? x.device() : torch::kCPU));
  MaskWords const words{random_.seed, *random_.layer, std::uint32_t(draw), std::uint64_t(std::ceil(p_ * 0x1p32))};
  if (on_device)
    fill_on_device(mask, words, cells_of(places, sizes), 1);
  else
    fill(words, places, mask);
  sizes.resize(std::size_t(x.dim()), 1);
  return mask.view(sizes).to(x.device(), x.scalar_type());
}

torch::Tensor dropped(torch::Tensor const& x, torch::Tensor const& mask, double p, bool inplace) {
  auto const factor = p < 1 ? mask / (1 - p) : mask;
  return inplace ? torch::Tensor(x).mul_(factor) : x * factor;
}

}  // namespace detail

DropoutImpl::DropoutImpl(torch::nn::DropoutOptions const& given, RandomOptions random, Domain const& domain,
                         std::optional<Sharding> sharding)
    : DropoutLayer(given, {"Dropout", given.p(), 0, 0, random, std::move(sharding)}, domain) {}

Dropout2dImpl::Dropout2dImpl(torch::nn::Dropout2dOptions const& given, RandomOptions random, Domain const& domain)
    : DropoutLayer(given, {"Dropout2d", given.p(), 2, 4, random}, domain) {}

Dropout3dImpl::Dropout3dImpl(torch::nn::Dropout3dOptions const& given, RandomOptions random, Domain const& domain)
    : DropoutLayer(given, {"Dropout3d", given.p(), 2, 5, random}, domain) {}

AlphaDropoutImpl::AlphaDropoutImpl(torch::nn::AlphaDropoutOptions const& given, RandomOptions random,
                                   Domain const& domain, std::optional<Sharding> sharding)
    : RandomLayer({"AlphaDropout", given.p(), 0, 0, random, std::move(sharding)}, domain), options(given) {}

torch::Tensor AlphaDropoutImpl::forward(torch::Tensor const& x) {
  auto const p = options.p();
  if (!is_training() || p == 0) return x;
  auto const mask = state().draw(x);
  if (p == 1) return x * mask;
  constexpr double alpha = 1.7580993408473766;  // SELU's value at minus infinity, without its sign.
  double const a = 1 / std::sqrt((alpha * alpha * p + 1) * (1 - p));
  auto const shift = (mask - 1) * (alpha * a) + alpha * a * p;
  return options.inplace() ? torch::Tensor(x).mul_(mask * a).add_(shift) : x * (mask * a) + shift;
}

DropPathImpl::DropPathImpl(DropPathOptions given, RandomOptions random, Domain const& domain)
    : RandomLayer({"DropPath", given.p, 1, 0, random}, domain), options(given) {}

torch::Tensor DropPathImpl::forward(torch::Tensor const& x) {
  if (!is_training() || options.p == 0) return x;
  return detail::dropped(x, state().draw(x), options.scale_by_keep ? options.p : 1, false);
}

}  // namespace graticule::nn
