// SPDX-License-Identifier: BSD-3-Clause
// The sharded counterparts of torch.nn's layers, made from the attributes of the serial module.
#include <graticule/nn_bridge/detail/pad_modes.hpp>
#include <graticule/nn_bridge/norm/norms.hpp>
#include <graticule/nn_bridge/pooling/layers.hpp>
#include <graticule/nn_bridge/pooling/unpooling.hpp>
#include <graticule/nn_bridge/stencil/conv_transpose.hpp>
#include <graticule/nn_bridge/stencil/padding.hpp>
#include <graticule/nn_bridge/stencil/pixel_shuffle.hpp>
#include <graticule/nn_bridge/stencil/resize.hpp>

#include "layer.hpp"

#include <map>
#include <string>

namespace graticule::python {

namespace {

namespace tn = torch::nn;

template <class Sharded, class... Arguments>
Layer serial(Arguments&&... arguments) {
  return made<true>(std::make_shared<Sharded>(std::forward<Arguments>(arguments)...));
}

/// Options with a source of padding and odd channels.
template <class Options>
Options by_domain(Options options, Reader const& r) {
  options.padding = r.padding_by();
  options.odd_channels = r.list<std::int64_t>("odd_channels");
  return options;
}

template <std::size_t D>
Layer conv(Reader const& r) {
  auto options = windows<D, tn::ConvOptions<D>>(r);
  auto const padding = r.list<py::object>("padding");
  if (padding.size() == 1 && py::isinstance<py::str>(padding.front())) {
    if (padding.front().cast<std::string>() == "same")
      options.padding(torch::kSame);
    else
      options.padding(torch::kValid);
  } else {
    options.padding(r.array<D>("padding"));
  }
  return serial<nn::ConvImpl<D>>(by_domain(nn::ConvOptions<D>(options), r), r.domain());
}

template <std::size_t D>
Layer conv_transpose(Reader const& r) {
  auto options = windows<D, tn::ConvTransposeOptions<D>>(r);
  options.padding(r.array<D>("padding")).output_padding(r.array<D>("output_padding"));
  return serial<nn::ConvTransposeImpl<D>>(by_domain(nn::ConvTransposeOptions<D>(options), r), r.domain());
}

template <class Sharded>
Layer batch_norm(Reader const& r) {
  auto options = tn::BatchNormOptions(r.integer("num_features"))
                     .eps(r.number("eps"))
                     .affine(r.truth("affine"))
                     .track_running_stats(r.truth("track_running_stats"));
  options.momentum(r.has("momentum") ? std::optional<double>(r.number("momentum")) : std::nullopt);
  return serial<Sharded>(options, r.domain());
}

template <class Sharded>
Layer instance_norm(Reader const& r) {
  return serial<Sharded>(tn::InstanceNormOptions(r.integer("num_features"))
                             .eps(r.number("eps"))
                             .momentum(r.number("momentum"))
                             .affine(r.truth("affine"))
                             .track_running_stats(r.truth("track_running_stats")),
                         r.domain());
}

Layer group_norm(Reader const& r) {
  return serial<nn::GroupNormImpl>(tn::GroupNormOptions(r.integer("num_groups"), r.integer("num_channels"))
                                       .eps(r.number("eps"))
                                       .affine(r.truth("affine")),
                                   r.domain());
}

Layer layer_norm(Reader const& r) {
  return serial<nn::LayerNormImpl>(tn::LayerNormOptions(r.list<std::int64_t>("normalized_shape"))
                                       .eps(r.number("eps"))
                                       .elementwise_affine(r.truth("elementwise_affine")),
                                   r.domain(), r.sharding());
}

Layer rms_norm(Reader const& r) {
  nn::RMSNormOptions options{r.list<std::int64_t>("normalized_shape"), std::nullopt, r.truth("elementwise_affine")};
  if (r.has("eps")) options.eps = r.number("eps");
  return serial<nn::RMSNormImpl>(options, r.domain(), r.sharding());
}

template <std::size_t D>
Layer max_pool(Reader const& r) {
  auto const options = tn::MaxPoolOptions<D>(r.array<D>("kernel_size"))
                           .stride(r.array<D>("stride"))
                           .padding(r.array<D>("padding"))
                           .dilation(r.array<D>("dilation"))
                           .ceil_mode(r.truth("ceil_mode"));
  return serial<nn::MaxPoolImpl<D>>(by_domain(nn::PoolOptions(options), r), r.domain());
}

template <std::size_t D>
Layer avg_pool(Reader const& r) {
  tn::AvgPoolOptions<D> options(r.array<D>("kernel_size"));
  options.stride(r.array<D>("stride")).padding(r.array<D>("padding"));
  options.ceil_mode(r.truth("ceil_mode")).count_include_pad(r.truth("count_include_pad"));
  if constexpr (D > 1)
    if (r.has("divisor_override")) options.divisor_override(r.integer("divisor_override"));
  return serial<nn::AvgPoolImpl<D>>(by_domain(nn::PoolOptions(options), r), r.domain());
}

template <std::size_t D>
Layer lp_pool(Reader const& r) {
  auto options = tn::LPPoolOptions<D>(r.number("norm_type"), r.array<D>("kernel_size")).ceil_mode(r.truth("ceil_mode"));
  if (r.has("stride")) options.stride(r.array<D>("stride"));
  return serial<nn::LPPoolImpl<D>>(by_domain(nn::PoolOptions(options), r), r.domain());
}

/// None keeps the input's extent.
template <std::size_t D>
nn::detail::AdaptiveSizes<D> output_size(Reader const& r) {
  auto const sizes = r.list<std::optional<std::int64_t>>("output_size");
  if constexpr (D == 1) {
    return {sizes.at(0).value_or(0)};
  } else {
    std::vector<std::optional<std::int64_t>> all(D, sizes.empty() ? std::nullopt : sizes.front());
    if (sizes.size() > 1) all = sizes;
    if (all.size() != D)
      throw Error("BadOption", r.type() + ": output_size has " + std::to_string(all.size()) + " numbers");
    return {c10::ArrayRef<std::optional<std::int64_t>>(all)};
  }
}

template <std::size_t D>
Layer adaptive_avg_pool(Reader const& r) {
  return serial<nn::AdaptiveAvgPoolImpl<D>>(tn::AdaptiveAvgPoolOptions(output_size<D>(r)), r.domain());
}
template <std::size_t D>
Layer adaptive_max_pool(Reader const& r) {
  return serial<nn::AdaptiveMaxPoolImpl<D>>(tn::AdaptiveMaxPoolOptions(output_size<D>(r)), r.domain());
}

template <std::size_t D>
Layer max_unpool(Reader const& r) {
  auto const options =
      tn::MaxUnpoolOptions<D>(r.array<D>("kernel_size")).stride(r.array<D>("stride")).padding(r.array<D>("padding"));
  return serial<nn::MaxUnpoolImpl<D>>(options, r.domain());
}

Layer resize(Reader const& r) {
  auto options = tn::functional::InterpolateFuncOptions();
  if (r.has("size")) options.size(r.list<std::int64_t>("size"));
  if (r.has("scale_factor")) options.scale_factor(r.list<double>("scale_factor"));
  using Mode = std::decay_t<decltype(options.mode())>;
  options.mode(r.one_of<Mode>("mode",
                              {{"nearest", torch::kNearest},
                               {"nearest-exact", torch::kNearestExact},
                               {"linear", torch::kLinear},
                               {"bilinear", torch::kBilinear},
                               {"bicubic", torch::kBicubic},
                               {"trilinear", torch::kTrilinear},
                               {"area", torch::kArea}},
                              torch::kNearest));
  if (r.has("align_corners")) options.align_corners(r.truth("align_corners"));
  if (r.has("recompute_scale_factor")) options.recompute_scale_factor(r.truth("recompute_scale_factor"));
  if (r.has("antialias")) options.antialias(r.truth("antialias"));
  return serial<nn::ResizeImpl>(by_domain(nn::ResizeOptions(options), r), r.domain());
}

template <std::size_t D>
Layer pad(Reader const& r, nn::PadMode mode) {
  auto options = nn::PadOptions<D>(r.array<2 * D>("padding"), mode);
  options.value = r.get<double>("value", 0);
  options.cuts =
      r.one_of<nn::PadCuts>("cuts", {{"extend_edges", nn::PadCuts::extend_edges}, {"balanced", nn::PadCuts::balanced}},
                            nn::PadCuts::extend_edges);
  options.odd_channels = r.list<std::int64_t>("odd_channels");
  return serial<nn::PadImpl<D>>(options, r.domain());
}

template <std::size_t D>
Layer pad_by_name(Reader const& r) {
  std::map<std::string, nn::PadMode> modes;
  for (auto const mode : graticule::detail::enum_values<nn::PadMode>) modes[enum_row(mode).name] = mode;
  return pad<D>(r, r.one_of<nn::PadMode>("mode", modes, nn::PadMode::constant));
}

template <class Sharded>
Layer dropout(Reader const& r) {
  tn::DropoutOptions const options(r.number("p"));
  if constexpr (std::is_constructible_v<Sharded, tn::DropoutOptions, nn::RandomOptions, nn::Domain, nn::Sharding>)
    return serial<Sharded>(options, r.random(), r.domain(), r.sharding());
  else
    return serial<Sharded>(options, r.random(), r.domain());
}

/// torch.nn's, which throws for tensors without cells.
Layer local_response_norm(Reader const& r) {
  return serial<nn::detail::LocalResponse>(
      tn::LocalResponseNormOptions(r.integer("size")).alpha(r.number("alpha")).beta(r.number("beta")).k(r.number("k")));
}

template <std::size_t D>
void add_dimension(Makers& all) {
  auto const d = std::to_string(D) + "d";
  all["Conv" + d] = conv<D>;
  all["ConvTranspose" + d] = conv_transpose<D>;
  all["MaxPool" + d] = max_pool<D>;
  all["AvgPool" + d] = avg_pool<D>;
  all["LPPool" + d] = lp_pool<D>;
  all["AdaptiveAvgPool" + d] = adaptive_avg_pool<D>;
  all["AdaptiveMaxPool" + d] = adaptive_max_pool<D>;
  all["MaxUnpool" + d] = max_unpool<D>;
  all["Pad" + d] = pad_by_name<D>;
  all["Trim" + d] = [](Reader const& r) { return serial<nn::TrimImpl<D>>(r.array<2 * D>("padding"), r.domain()); };
  all["ZeroPad" + d] = all["ConstantPad" + d] = [](Reader const& r) { return pad<D>(r, nn::PadMode::constant); };
  all["ReflectionPad" + d] = [](Reader const& r) { return pad<D>(r, nn::PadMode::reflect); };
  all["ReplicationPad" + d] = [](Reader const& r) { return pad<D>(r, nn::PadMode::replicate); };
  all["CircularPad" + d] = [](Reader const& r) { return pad<D>(r, nn::PadMode::circular); };
}

Makers all_serial_makers() {
  Makers all;
  add_dimension<1>(all);
  add_dimension<2>(all);
  add_dimension<3>(all);
  all["BatchNorm1d"] = batch_norm<nn::BatchNorm1dImpl>;
  all["BatchNorm2d"] = batch_norm<nn::BatchNorm2dImpl>;
  all["BatchNorm3d"] = batch_norm<nn::BatchNorm3dImpl>;
  all["InstanceNorm1d"] = instance_norm<nn::InstanceNorm1dImpl>;
  all["InstanceNorm2d"] = instance_norm<nn::InstanceNorm2dImpl>;
  all["InstanceNorm3d"] = instance_norm<nn::InstanceNorm3dImpl>;
  all["GroupNorm"] = group_norm;
  all["LayerNorm"] = layer_norm;
  all["RMSNorm"] = rms_norm;
  all["LocalResponseNorm"] = local_response_norm;
  all["Upsample"] = all["Resize"] = resize;
  all["PixelShuffle"] = [](Reader const& r) {
    return serial<nn::PixelShuffleImpl>(tn::PixelShuffleOptions(r.integer("upscale_factor")), r.domain());
  };
  all["PixelUnshuffle"] = [](Reader const& r) {
    return serial<nn::PixelUnshuffleImpl>(tn::PixelUnshuffleOptions(r.integer("downscale_factor")), r.domain());
  };
  all["Dropout"] = dropout<nn::DropoutImpl>;
  all["Dropout2d"] = dropout<nn::Dropout2dImpl>;
  all["Dropout3d"] = dropout<nn::Dropout3dImpl>;
  all["AlphaDropout"] = dropout<nn::AlphaDropoutImpl>;
  return all;
}

}  // namespace

Makers const& serial_makers() {
  static Makers const all = all_serial_makers();
  return all;
}

}  // namespace graticule::python
