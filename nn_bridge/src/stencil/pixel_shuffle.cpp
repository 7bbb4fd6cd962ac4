// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/call/tensor_view.hpp>
#include <graticule/nn_bridge/stencil/pixel_shuffle.hpp>

#include "needed_inputs.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace graticule::nn {

namespace {

struct UnshuffleSetUp {
  detail::NeededInputs inputs;
};

void check_factor(std::string const& layer, std::int64_t factor) {
  if (factor < 1) throw Error("BadOption", layer + " needs a factor of at least 1, got " + std::to_string(factor));
}

void check_axes(std::string const& layer, torch::Tensor const& x) {
  (void)tensor_view(x);
  if (x.dim() < 3)
    throw Error("ShapeMismatch",
                layer + " takes [..., channels, rows, columns], not " + std::to_string(x.dim()) + " axes");
}

// LibTorch 2.13's own functions give tensors without cells another shape, on the CPU. Results are fresh tensors.

/// [..., channels r r, rows, columns] to [..., channels, rows r, columns r].
torch::Tensor shuffled(torch::Tensor const& x, std::int64_t r) {
  auto const channels = x.size(-3) / (r * r);
  auto const split = x.unflatten(-3, {channels, r, r}).movedim({-4, -3}, {-3, -1});
  auto sizes = x.sizes().vec();
  std::copy_n(std::array{channels, x.size(-2) * r, x.size(-1) * r}.begin(), 3, sizes.end() - 3);
  return split.clone(torch::MemoryFormat::Contiguous).view(sizes);
}

/// The inverse.
torch::Tensor unshuffled(torch::Tensor const& x, std::int64_t r) {
  auto const rows = x.size(-2) / r;
  auto const columns = x.size(-1) / r;
  auto const split = x.unflatten(-1, {columns, r}).unflatten(-3, {rows, r}).movedim({-3, -1}, {-4, -3});
  auto sizes = x.sizes().vec();
  std::copy_n(std::array{x.size(-3) * r * r, rows, columns}.begin(), 3, sizes.end() - 3);
  return split.clone(torch::MemoryFormat::Contiguous).view(sizes);
}

std::shared_ptr<UnshuffleSetUp const> make_unshuffle(Comm const& comm, Layout const& layout, Index factor) {
  detail::NeedDescription need;
  for (int a = 0; a < 2; ++a) {
    Index const extent = layout.extent(a);
    if (extent % factor != 0)
      throw Error("ShapeMismatch", "PixelUnshuffle needs axes that its factor " + std::to_string(factor) +
                                       " divides, got " + std::to_string(extent) + " cells");
    detail::ConvAxis const axis{.extent = extent, .kernel = factor, .stride = factor};
    auto const outputs = detail::own_range(comm, layout, a, axis.output_cuts(*layout.cuts(a), extent / factor));
    need.needed[std::size_t(a)] = {outputs.lo * factor, outputs.hi * factor};
  }
  need.boundary = Boundary::uniform(2, Edge::replicate);
  need.fingerprint = Hash().add(factor).value();
  return std::make_shared<UnshuffleSetUp const>(UnshuffleSetUp{detail::NeededInputs(comm, layout, need)});
}

}  // namespace

PixelShuffleImpl::PixelShuffleImpl(torch::nn::PixelShuffleOptions const& options, Domain const& domain)
    : CommunicatingModule(domain, "PixelShuffle"), factor_(options.upscale_factor()) {
  check_factor("PixelShuffle", factor_);
}

torch::Tensor PixelShuffleImpl::forward(torch::Tensor const& x) {
  auto const check = [&] {
    check_axes("PixelShuffle", x);
    if (x.size(-3) % (factor_ * factor_) != 0)
      throw Error("ShapeMismatch", "PixelShuffle needs channels that the square of its factor " +
                                       std::to_string(factor_) + " divides, got " + std::to_string(x.size(-3)));
  };
  auto const call = enter(x, check, [](Layout const&) { return std::make_shared<detail::NoSetUp const>(); });
  return shuffled(x, factor_);
}

class detail::UnshuffleState : public NeedState<UnshuffleSetUp> {
 public:
  using NeedState::NeedState;
};

PixelUnshuffleImpl::PixelUnshuffleImpl(torch::nn::PixelUnshuffleOptions const& options, Domain domain)
    : StatefulModule(std::move(domain), detail::state_maker<detail::UnshuffleState>("PixelUnshuffle")),
      factor_(options.downscale_factor()) {
  check_factor("PixelUnshuffle", factor_);
}

torch::Tensor PixelUnshuffleImpl::forward(torch::Tensor const& x) {
  auto const call = state().enter(
      x, [&] { check_axes("PixelUnshuffle", x); },
      [&](Layout const& layout) { return make_unshuffle(domain().comm(), layout, factor_); });
  return unshuffled(state().fetch(call, x), factor_);
}

}  // namespace graticule::nn
