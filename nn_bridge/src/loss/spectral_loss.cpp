// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/layer_state.hpp>
#include <graticule/nn_bridge/loss/spectral_loss.hpp>

#include "loss_terms.hpp"

namespace graticule::nn {

namespace {

struct SpectralSetUp {
  detail::AxisWeights weights;  ///< of the rows of the globe
  detail::Constant wavenumbers;
  Index first_row = 0;  ///< of this rank's shard
};

constexpr char const* loss_name = "SpectralLoss";

/// Amplitudes of the waves along the last axis, which has elements.
torch::Tensor amplitudes(torch::Tensor const& x) {
  auto const n = x.size(-1);
  if (x.numel() == 0) {
    auto sizes = x.sizes().vec();
    sizes.back() = n / 2 + 1;
    return torch::zeros(sizes, x.options().requires_grad(false)) + x.sum();
  }
  auto const spectrum = torch::fft::rfft(x, std::nullopt, -1, "forward").abs();
  // Each wavenumber but 0 and that of alternating signs stands for its negative as well.
  auto twice = torch::full({n / 2 + 1}, 2.0, x.options().requires_grad(false));
  twice[0].fill_(1);
  if (n % 2 == 0) twice[n / 2].fill_(1);
  return spectrum * twice;
}

/// The rows' weights of all ranks. Collective.
torch::Tensor global_rows(torch::Tensor const& own, Index first, Index extent, Domain const& domain) {
  if (!own.defined()) return {};
  std::vector<double> all(std::size_t(extent), 0);
  if (domain.longitude_part() == 0)
    for (Index i = 0; i < own.size(0); ++i) all[std::size_t(first + i)] = own[i][0].item<double>();
  domain.comm().sum(all);
  return torch::tensor(all, torch::kDouble).unsqueeze(-1);
}

}  // namespace

class detail::SpectralLossState : public LayerState<SpectralSetUp> {
 public:
  explicit SpectralLossState(Domain const& domain) : LayerState(domain, loss_name) {
    if (domain.grid().extent(1) > 1)
      whole_rows =
          Repartition(RepartitionOptions{domain.sharding(), {{-2}, ProcessGrid{domain.comm().num_ranks()}}}, domain);
  }
  Repartition whole_rows{nullptr};

 protected:
  void tear_down() override {
    LayerState::tear_down();
    if (whole_rows) whole_rows->reset_structure();
  }
};

SpectralLossImpl::SpectralLossImpl(Domain const& domain, LossOptions options, SpectralOptions spectral)
    : StatefulModule(domain, detail::state_maker<detail::SpectralLossState>()),
      options_(std::move(options)),
      spectral_(std::move(spectral)) {
  run_agreed(domain.comm(), [&] {
    detail::check_weights(options_);
    detail::check_weights({.channel_weights = spectral_.wavenumber_weights});
  });
}

torch::Tensor SpectralLossImpl::forward(torch::Tensor const& prediction, torch::Tensor const& target) {
  auto const check = [&] {
    if (!torch::isFloatingType(prediction.scalar_type()) || !torch::isFloatingType(target.scalar_type()))
      throw Error("UnsupportedTensor", std::string(loss_name) + " takes real floating-point tensors");
    if (prediction.sizes() != target.sizes() || prediction.dim() < 2)
      throw Error("ShapeMismatch", c10::str(loss_name, ": ", detail::sizes_of(prediction, target)));
    detail::check_axes(loss_name, options_, prediction.sizes(), true);
  };
  auto const make = [&](Layout const& layout) {
    auto const text = std::string(loss_name) + std::to_string(int(spectral_.error)) + detail::described(options_) +
                      detail::described({.channel_weights = spectral_.wavenumber_weights});
    state().require_same_text(text);
    auto set_up = std::make_shared<SpectralSetUp>();
    set_up->first_row = layout.owned(domain().comm().rank()).lo(0);
    auto const own = detail::row_weights(loss_name, options_, layout, domain());
    set_up->weights = detail::axis_weights(options_, global_rows(own, set_up->first_row, layout.extent(0), domain()));
    auto const& weights = spectral_.wavenumber_weights;
    auto const count = std::size_t(layout.extent(1) / 2 + 1);
    if (!weights.empty() && weights.size() != count)
      throw Error("ShapeMismatch", std::string(loss_name) + " needs " + std::to_string(count) +
                                       " weights, one per wavenumber, got " + std::to_string(weights.size()));
    set_up->wavenumbers = detail::Constant(weights.empty() ? torch::ones({std::int64_t(count)}, torch::kDouble)
                                                           : torch::tensor(weights, torch::kDouble));
    return set_up;
  };
  auto const call = state().enter(prediction, check, make);
  auto const& set_up = call.set_up;
  auto const type = prediction.scalar_type() == torch::kDouble ? torch::kDouble : torch::kFloat;
  auto p = prediction.to(type);
  auto t = target.to(type);
  auto first_row = set_up->first_row;
  if (state().whole_rows) {
    p = state().whole_rows(p);
    t = state().whole_rows(t);
    first_row = state().whole_rows->after(-2).lo();
  }
  auto const valid = torch::isnan(t).any(-1, true).logical_not();
  auto const zero = torch::zeros({}, p.options().requires_grad(false));
  auto const difference = amplitudes(torch::where(valid, p, zero)) - amplitudes(torch::where(valid, t, zero));
  auto const error = spectral_.error == SpectralError::squared ? difference.square() : difference.abs();
  auto const& weights = set_up->wavenumbers;
  detail::LossTerms const terms{error * weights.on(p.device(), type), weights.on(p.device()) * valid};
  return detail::reduce_sums(loss_name, detail::summed(terms), set_up->weights, options_, true, domain(), first_row);
}

}  // namespace graticule::nn
