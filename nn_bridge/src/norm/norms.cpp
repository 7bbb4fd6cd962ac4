// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/layer_state.hpp>
#include <graticule/nn_bridge/detail/norm_step.hpp>
#include <graticule/nn_bridge/detail/types.hpp>
#include <graticule/nn_bridge/norm/norms.hpp>

#include "call/contiguous_cotangent.hpp"
#include "call/spatial.hpp"
#include "norm_kernels.hpp"

#include <algorithm>
#include <limits>

namespace graticule::nn {

/// Separate agreements for calls that use the input's statistics and calls that use tracked ones: ranks that disagree
/// on this then call different layers.
class detail::TrackingState : public LayerState<NoSetUp> {
 public:
  TrackingState(Domain const& domain, std::string const& layer)
      : LayerState(domain, layer), tracked(domain, layer + " with tracked statistics", this) {}

  LayerState<NoSetUp> tracked;
};

namespace {

/// Layers of whole channels do not depend on the cuts.
std::shared_ptr<detail::NoSetUp const> no_set_up(Layout const&) { return std::make_shared<detail::NoSetUp const>(); }

[[noreturn]] void refuse(std::string const& layer, std::string const& expected, torch::Tensor const& x) {
  throw Error("ShapeMismatch", c10::str(layer, " takes ", expected, ", not a tensor ", x.sizes()));
}

/// Axes of space behind the channels, for messages.
char const* space_of(std::size_t num_axes) {
  return num_axes == 1 ? ", length]" : num_axes == 2 ? ", rows, columns]" : ", depth, rows, columns]";
}

/// Real floating-point input; parameters of its dtype, or f32 for 16-bit input.
void check_types(std::string const& layer, torch::Tensor const& x, torch::Tensor const& parameter) {
  if (!x.defined() || x.layout() != torch::kStrided || !torch::isFloatingType(x.scalar_type()))
    throw Error("UnsupportedTensor", layer + " of " + (x.defined() ? c10::toString(x.scalar_type()) : "no tensor") +
                                         ": dense tensors of a real floating-point dtype are required");
  if (!parameter.defined()) return;
  auto const type = parameter.scalar_type();
  if (type != x.scalar_type() && !(detail::is_narrow(x.scalar_type()) && type == torch::kFloat))
    throw Error("ShapeMismatch", layer + " has weights of " + c10::toString(type) + ", got a tensor of " +
                                     c10::toString(x.scalar_type()));
}

/// Registers weight and bias, if the layer has one, of ones and zeros; undefined ones unless `affine`.
template <class Layer>
void reset_affine(Layer& layer, at::IntArrayRef sizes, bool affine) {
  layer.weight = layer.register_parameter("weight", affine ? torch::ones(sizes) : torch::Tensor(), affine);
  if constexpr (requires { layer.bias; })
    layer.bias = layer.register_parameter("bias", affine ? torch::zeros(sizes) : torch::Tensor(), affine);
}

std::int64_t product(at::IntArrayRef sizes) {
  std::int64_t result = 1;
  for (auto const size : sizes) result *= size;
  return result;
}

void require_enough_values(detail::Norm const& norm, detail::NormStatistics const& statistics) {
  if (statistics.count < 2)
    throw Error("TooFewValues", norm.layer + ": " + std::to_string(std::int64_t(statistics.count)) +
                                    " value per channel over all ranks; its statistics need at least two");
}

/// Normalisation by tracked statistics, as the serial layer does it; LibTorch refuses tensors without cells.
torch::Tensor by_tracked(torch::Tensor const& x, torch::Tensor const& weight, torch::Tensor const& bias,
                         torch::Tensor const& mean, torch::Tensor const& variance, double eps) {
  if (x.numel() > 0)
    return detail::with_contiguous_cotangent(
        torch::batch_norm(detail::in_plain_memory(x), weight, bias, mean, variance, false, 0, eps, false));
  std::vector<std::int64_t> sizes(std::size_t(x.dim()), 1);
  sizes[1] = x.size(1);
  auto y = x * 1;
  if (weight.defined()) y = y * weight.view(sizes);
  if (bias.defined()) y = y + bias.view(sizes);
  return y.to(x.scalar_type());
}

/// This rank's part of the parameters of a normalisation over the last axes.
struct SliceSetUp {
  struct Slice {
    std::int64_t axis;
    std::int64_t lo;
    std::int64_t size;
  };
  std::vector<Slice> slices;

  [[nodiscard]] torch::Tensor of(torch::Tensor parameter) const {
    if (parameter.defined())
      for (auto const& slice : slices) parameter = parameter.narrow(slice.axis, slice.lo, slice.size);
    return parameter;
  }
};

/// LibTorch's layer normalisation with full precision for large means. LibTorch 2.13 normalises by
/// x * scale - mean * scale, whose terms cancel there, and keeps means of 16-bit types in 16 bits for the backward.
/// Here a number near the mean of each group, which no output and no gradient depends on, is subtracted first, in f32
/// at least.
torch::Tensor local_layer_norm(torch::Tensor const& x, std::vector<std::int64_t> const& shape,
                               torch::Tensor const& weight, torch::Tensor const& bias, double eps) {
  auto const type = detail::type_of_sums(x.scalar_type());
  std::vector<std::int64_t> axes;
  for (std::size_t a = 1; a <= shape.size(); ++a) axes.push_back(-std::int64_t(a));
  auto const widened = [&](torch::Tensor const& t) { return t.defined() ? t.to(type) : t; };
  auto const around_zero = x - x.detach().mean(axes, true, type);
  return detail::with_contiguous_cotangent(
             torch::layer_norm(around_zero, shape, widened(weight), widened(bias), eps, false))
      .to(x.scalar_type());
}

}  // namespace

template <std::size_t D, class Derived>
detail::BatchNormBase<D, Derived>::BatchNormBase(torch::nn::BatchNormOptions const& given, Domain domain,
                                                 std::optional<Comm> data_team)
    : detail::StatefulModule<Derived, detail::TrackingState, torch::nn::BatchNormImplBase<D, Derived>>(
          std::move(domain), state_maker<TrackingState>("BatchNorm" + std::to_string(D) + "d"), given),
      data_team_(std::move(data_team)) {
  detail::check_longitude("BatchNorm" + std::to_string(D) + "d", D, this->domain());
}

template <std::size_t D, class Derived>
void detail::BatchNormBase<D, Derived>::_check_input_dim(torch::Tensor const& x) {
  auto const layer = "BatchNorm" + std::to_string(D) + "d";
  check_types(layer, x, this->weight);
  if (x.dim() != D + 2 || x.size(1) != this->options.num_features())
    refuse(layer, "[batch, " + std::to_string(this->options.num_features()) + space_of(D), x);
}

template <std::size_t D, class Derived>
torch::Tensor detail::BatchNormBase<D, Derived>::forward(torch::Tensor const& x) {
  auto const check = [&] { _check_input_dim(x); };
  auto const& o = this->options;
  if (!this->is_training() && o.track_running_stats()) {
    auto const call = this->state().tracked.enter(detail::with_columns(x, D), check, no_set_up);
    return by_tracked(x, this->weight, this->bias, this->running_mean, this->running_var, o.eps());
  }
  auto const call = this->state().enter(detail::with_columns(x, D), check, no_set_up,
                                        detail::needs_gradient(this->weight) || detail::needs_gradient(this->bias));
  detail::Norm norm{.layer = "BatchNorm" + std::to_string(D) + "d", .eps = o.eps(), .teams = {this->domain().comm()}};
  norm.shape = {.outer = x.size(0), .groups = x.size(1), .cells = product(x.sizes().slice(2)), .channels = x.size(1)};
  if (data_team_) norm.teams.push_back(*data_team_);
  auto const statistics = detail::norm_statistics(norm, x, call.input_grad);
  require_enough_values(norm, statistics);
  if (this->is_training() && o.track_running_stats()) {
    this->num_batches_tracked += 1;
    auto const update = [&](torch::Tensor const& running, torch::Tensor const& found) {
      if (o.momentum()) return detail::update_running(running, found, *o.momentum());
      detail::update_running_average(running, found, this->num_batches_tracked);
    };
    update(this->running_mean, statistics.mean);
    update(this->running_var, statistics.m2 / (statistics.count - 1));
  }
  return this->state().record(detail::normalize(norm, statistics, x, this->weight, this->bias));
}

template class detail::BatchNormBase<1, BatchNorm1dImpl>;
template class detail::BatchNormBase<2, BatchNorm2dImpl>;
template class detail::BatchNormBase<3, BatchNorm3dImpl>;

template <std::size_t D, class Derived>
detail::InstanceNormBase<D, Derived>::InstanceNormBase(torch::nn::InstanceNormOptions const& given, Domain domain)
    : detail::StatefulModule<Derived, detail::TrackingState,
                             torch::nn::NormImplBase<D, Derived, torch::nn::InstanceNormOptions>>(
          std::move(domain), state_maker<TrackingState>("InstanceNorm" + std::to_string(D) + "d"), given) {
  detail::check_longitude("InstanceNorm" + std::to_string(D) + "d", D, this->domain());
}

template <std::size_t D, class Derived>
void detail::InstanceNormBase<D, Derived>::_check_input_dim(torch::Tensor const& x) {
  auto const layer = "InstanceNorm" + std::to_string(D) + "d";
  check_types(layer, x, this->weight);
  if ((x.dim() != D + 1 && x.dim() != D + 2) || x.size(-std::int64_t(D) - 1) != this->options.num_features())
    refuse(layer,
           "[batch, " + std::to_string(this->options.num_features()) + space_of(D) + " or the same without batch", x);
}

template <std::size_t D, class Derived>
torch::Tensor detail::InstanceNormBase<D, Derived>::forward(torch::Tensor const& given) {
  auto const check = [&] { _check_input_dim(given); };
  auto const& o = this->options;
  bool const tracked = !this->is_training() && o.track_running_stats();
  auto const plane = detail::with_columns(given, D);
  auto const call =
      tracked ? this->state().tracked.enter(plane, check, no_set_up)
              : this->state().enter(plane, check, no_set_up,
                                    detail::needs_gradient(this->weight) || detail::needs_gradient(this->bias));
  bool const batched = given.dim() == D + 2;
  auto const x = batched ? given : given.unsqueeze(0);
  torch::Tensor y;
  if (tracked) {
    y = by_tracked(x, this->weight, this->bias, this->running_mean, this->running_var, o.eps());
  } else {
    detail::Norm norm{
        .layer = "InstanceNorm" + std::to_string(D) + "d", .eps = o.eps(), .teams = {this->domain().comm()}};
    norm.shape = {.groups = x.size(0) * x.size(1), .cells = product(x.sizes().slice(2)), .channels = x.size(1)};
    auto const statistics = detail::norm_statistics(norm, x, call.input_grad);
    if (norm.shape.groups > 0) require_enough_values(norm, statistics);
    if (o.track_running_stats() && x.size(0) > 0) {
      auto const over_batch = [&](torch::Tensor const& values) { return values.view({x.size(0), x.size(1)}).mean(0); };
      detail::update_running(this->running_mean, over_batch(statistics.mean), o.momentum());
      detail::update_running(this->running_var, over_batch(statistics.m2 / (statistics.count - 1)), o.momentum());
    }
    y = this->state().record(detail::normalize(norm, statistics, x, this->weight, this->bias));
  }
  return batched ? y : y.squeeze(0);
}

template class detail::InstanceNormBase<1, InstanceNorm1dImpl>;
template class detail::InstanceNormBase<2, InstanceNorm2dImpl>;
template class detail::InstanceNormBase<3, InstanceNorm3dImpl>;

GroupNormImpl::GroupNormImpl(torch::nn::GroupNormOptions const& given, Domain const& domain)
    : CommunicatingModule(domain, "GroupNorm"), options(given) {
  if (options.num_groups() < 1 || options.num_channels() % options.num_groups() != 0)
    throw Error("ShapeMismatch", "GroupNorm needs groups that divide its channels, got " +
                                     std::to_string(options.num_channels()) + " channels and " +
                                     std::to_string(options.num_groups()) + " groups");
  reset();
}

void GroupNormImpl::reset() { reset_affine(*this, {options.num_channels()}, options.affine()); }

torch::Tensor GroupNormImpl::forward(torch::Tensor const& x) {
  auto const check = [&] {
    check_types("GroupNorm", x, weight);
    if (x.dim() < 4 || x.size(1) != options.num_channels())
      refuse("GroupNorm", "[batch, " + std::to_string(options.num_channels()) + ", ..., rows, columns]", x);
  };
  auto const call = enter(x, check, no_set_up, detail::needs_gradient(weight) || detail::needs_gradient(bias));
  detail::Norm norm{.layer = "GroupNorm", .eps = options.eps(), .teams = {domain().comm()}};
  norm.shape = {.groups = x.size(0) * options.num_groups(),
                .inner = options.num_channels() / options.num_groups(),
                .cells = product(x.sizes().slice(2)),
                .channels = x.size(1)};
  auto const statistics = detail::norm_statistics(norm, x, call.input_grad);
  return record(detail::normalize(norm, statistics, x, weight, bias));
}

/// Normalisation over the last axes.
class detail::LastAxesState : public LayerState<SliceSetUp> {
 public:
  LastAxesState(Domain const& domain, std::string const& layer, Sharding const& sharding, std::size_t num_axes)
      : LayerState(domain, layer, sharding) {
    auto const coords = sharding.grid.coords(domain.comm().rank());
    for (std::size_t a = 0; a < sharding.axes.size(); ++a) {
      auto const parts = sharding.grid.extent(int(a));
      if (-sharding.axes[a] <= std::int64_t(num_axes))
        communicates_ = communicates_ || parts > 1;
      else
        color_ = color_ * int(parts) + int(coords[int(a)]);
    }
  }

  [[nodiscard]] Call enter_checked(torch::Tensor const& x, std::vector<std::int64_t> const& shape,
                                   torch::Tensor const& weight) {
    auto const check = [&] {
      check_types(layer(), x, weight);
      bool good = x.dim() >= std::int64_t(std::max(shape.size(), sharding().axes.size()));
      for (std::size_t i = 0; good && i < shape.size(); ++i) {
        auto const axis = std::int64_t(i) - std::int64_t(shape.size());
        good = is_cut(axis) || x.size(axis) == shape[i];
      }
      if (!good) refuse(layer(), c10::str("normalized_shape ", at::IntArrayRef(shape)), x);
    };
    auto const make = [&](Layout const& layout) {
      if (communicates_ && (!team_ || team_generation_ != domain().comm().generation())) {
        team_ = domain().split(color_);
        team_generation_ = domain().comm().generation();
      }
      auto set_up = std::make_shared<SliceSetUp>();
      auto const owned = layout.owned(domain().comm().rank());
      for (std::size_t a = 0; a < sharding().axes.size(); ++a) {
        auto const axis = sharding().axes[a];
        auto const at = std::int64_t(shape.size()) + axis;
        if (at < 0) continue;
        if (layout.extent(int(a)) != shape[std::size_t(at)])
          throw Error("ShapeMismatch",
                      c10::str(layer(), " with normalized_shape ", at::IntArrayRef(shape), " was given ",
                               layout.extent(int(a)), " cells on all ranks along axis ", axis));
        set_up->slices.push_back({at, owned.lo(int(a)), owned.extent(int(a))});
      }
      return set_up;
    };
    return enter(x, check, make);
  }

  /// Null where each rank holds whole groups.
  [[nodiscard]] std::optional<Comm> const& team() const noexcept { return team_; }

  /// The normalised tensor, without weight and bias.
  [[nodiscard]] torch::Tensor normalized(Call const& call, torch::Tensor const& x, std::size_t num_axes, double eps,
                                         bool centered) const {
    detail::Norm norm{.layer = layer(), .eps = eps, .centered = centered, .teams = {*team_}};
    auto const leading = std::size_t(x.dim()) - num_axes;
    norm.shape = {.groups = product(x.sizes().slice(0, leading)), .cells = product(x.sizes().slice(leading))};
    auto const statistics = detail::norm_statistics(norm, x, call.input_grad);
    return record(detail::normalize(norm, statistics, x, {}, {}));
  }

 private:
  [[nodiscard]] bool is_cut(std::int64_t axis) const {
    return std::find(sharding().axes.begin(), sharding().axes.end(), axis) != sharding().axes.end();
  }

  bool communicates_ = false;
  int color_ = 0;
  std::optional<Comm> team_;
  int team_generation_ = 0;  ///< of the domain's communicator that it was split off
};

LayerNormImpl::LayerNormImpl(torch::nn::LayerNormOptions const& given, Domain domain)
    : LayerNormImpl(given, domain, domain.sharding()) {}

LayerNormImpl::LayerNormImpl(torch::nn::LayerNormOptions const& given, Domain domain, Sharding sharding)
    : StatefulModule(std::move(domain), detail::state_maker<detail::LastAxesState>("LayerNorm", std::move(sharding),
                                                                                   given.normalized_shape().size())),
      options(given) {
  reset();
}

void LayerNormImpl::reset() { reset_affine(*this, options.normalized_shape(), options.elementwise_affine()); }

torch::Tensor LayerNormImpl::forward(torch::Tensor const& x) {
  auto const& shape = options.normalized_shape();
  auto const call = state().enter_checked(x, shape, weight);
  auto const scale = call.set_up->of(weight);
  auto const shift = call.set_up->of(bias);
  if (!state().team()) return local_layer_norm(x, shape, scale, shift, options.eps());
  auto const y = state().normalized(call, x, shape.size(), options.eps(), true);
  if (!scale.defined()) return shift.defined() ? (y + shift).to(x.scalar_type()) : y;
  return (shift.defined() ? torch::addcmul(shift, y, scale) : y * scale).to(x.scalar_type());
}

RMSNormImpl::RMSNormImpl(RMSNormOptions given, Domain domain)
    : RMSNormImpl(std::move(given), domain, domain.sharding()) {}

RMSNormImpl::RMSNormImpl(RMSNormOptions given, Domain domain, Sharding sharding)
    : StatefulModule(std::move(domain), detail::state_maker<detail::LastAxesState>("RMSNorm", std::move(sharding),
                                                                                   given.normalized_shape.size())),
      options(std::move(given)) {
  reset();
}

void RMSNormImpl::reset() { reset_affine(*this, options.normalized_shape, options.elementwise_affine); }

torch::Tensor RMSNormImpl::forward(torch::Tensor const& x) {
  auto const& shape = options.normalized_shape;
  auto const call = state().enter_checked(x, shape, weight);
  auto const scale = call.set_up->of(weight);
  if (!state().team())
    return torch::rms_norm(x, shape, scale.defined() ? std::optional(scale) : std::nullopt, options.eps);
  auto const eps = options.eps.value_or(x.scalar_type() == torch::kDouble ? std::numeric_limits<double>::epsilon()
                                                                          : std::numeric_limits<float>::epsilon());
  auto const y = state().normalized(call, x, shape.size(), eps, false);
  return scale.defined() ? (y * scale).to(x.scalar_type()) : y;
}

}  // namespace graticule::nn
