// SPDX-License-Identifier: BSD-3-Clause
// Layers that torch.nn lacks: attention of cells, spectra, halos, moves between shardings, embeddings, losses.
#include <graticule/nn_bridge/attention/self_attention.hpp>
#include <graticule/nn_bridge/collective/collectives.hpp>
#include <graticule/nn_bridge/collective/linear.hpp>
#include <graticule/nn_bridge/collective/match_cuts.hpp>
#include <graticule/nn_bridge/collective/repartition.hpp>
#include <graticule/nn_bridge/loss/losses.hpp>
#include <graticule/nn_bridge/loss/spectral_loss.hpp>
#include <graticule/nn_bridge/model/embeddings.hpp>
#include <graticule/nn_bridge/norm/conservation.hpp>
#include <graticule/nn_bridge/spectral/fourier.hpp>
#include <graticule/nn_bridge/spectral/spherical_convolution.hpp>
#include <graticule/nn_bridge/spectral/spherical_harmonics.hpp>
#include <graticule/nn_bridge/stencil/channel_split_conv.hpp>
#include <graticule/nn_bridge/stencil/halo_exchange.hpp>
#include <graticule/nn_bridge/stencil/padded_halo.hpp>

#include "layer.hpp"

namespace graticule::python {

namespace {

namespace tn = torch::nn;

template <class Sharded, class... Arguments>
Layer native(Arguments&&... arguments) {
  return made<false>(std::make_shared<Sharded>(std::forward<Arguments>(arguments)...));
}

/// @param part see `Layer::part`
template <class Sharded, class Part>
Layer with_part(std::shared_ptr<Sharded> const& layer, Part part) {
  auto result = made<false>(layer);
  result.part = [layer, part](std::string const& name, std::int64_t axis) { return part(*layer, name, axis); };
  return result;
}

tn::MultiheadAttentionOptions heads(Reader const& r) {
  return tn::MultiheadAttentionOptions(r.integer("embed_dim"), r.integer("num_heads")).bias(r.get<bool>("bias", true));
}

Layer self_attention(Reader const& r) {
  auto const kernel = r.one_of<nn::AttentionKernel>("kernel",
                                                    {{"fused", nn::AttentionKernel::fused},
                                                     {"plain", nn::AttentionKernel::plain},
                                                     {"ring", nn::AttentionKernel::ring}},
                                                    nn::AttentionKernel::fused);
  return native<nn::SelfAttentionImpl>(nn::SelfAttentionOptions{heads(r), kernel}, r.domain());
}

std::array<Index, 2> pair(Reader const& r, char const* name) {
  auto const values = r.array<2>(name);
  return {(*values)[0], (*values)[1]};
}

Layer window_attention(Reader const& r) {
  nn::WindowAttentionOptions options{heads(r)};
  options.window = pair(r, "window");
  if (r.has("shift")) options.shift = pair(r, "shift");
  options.kind = r.one_of<nn::WindowKind>(
      "kind", {{"adjacent", nn::WindowKind::adjacent}, {"dilated", nn::WindowKind::dilated}}, nn::WindowKind::adjacent);
  options.relative_position_bias = r.get<bool>("relative_position_bias", false);
  return native<nn::WindowAttentionImpl>(options, r.domain());
}

nn::FourierNorm fourier_norm(Reader const& r) {
  return r.one_of<nn::FourierNorm>("norm",
                                   {{"backward", nn::FourierNorm::backward},
                                    {"ortho", nn::FourierNorm::ortho},
                                    {"forward", nn::FourierNorm::forward}},
                                   nn::FourierNorm::backward);
}

std::optional<nn::FieldCuts> field_cuts(Reader const& r) {
  if (!r.has("field_rows") || !r.has("field_columns")) return std::nullopt;
  return nn::FieldCuts{*r.cuts("field_rows"), *r.cuts("field_columns")};
}

Layer fourier_transform(Reader const& r) {
  nn::FourierTransformOptions options;
  options.axes = r.one_of<nn::FourierAxes>(
      "axes", {{"columns", nn::FourierAxes::columns}, {"rows_and_columns", nn::FourierAxes::rows_and_columns}},
      nn::FourierAxes::columns);
  options.norm = fourier_norm(r);
  options.num_waves = r.get<Index>("num_waves", 0);
  options.field = field_cuts(r);
  return with_part(std::make_shared<nn::FourierTransformImpl>(options, r.domain()),
                   [](auto const& layer, auto const& /*name*/, auto /*axis*/) { return layer.part(); });
}

Layer fourier_convolution(Reader const& r) {
  nn::FourierConvolutionOptions options;
  options.in_channels = r.integer("in_channels");
  options.out_channels = r.integer("out_channels");
  options.row_modes = r.integer("row_modes");
  options.column_modes = r.integer("column_modes");
  options.norm = fourier_norm(r);
  return native<nn::FourierConvolutionImpl>(options, r.domain());
}

nn::LatitudeRule rule(Reader const& r, char const* name) {
  auto const latitudes = r.list<double>(name);
  return nn::latitude_rule(std::span<double const>(latitudes));
}

Layer spherical_transform(Reader const& r) {
  nn::SphericalTransformOptions options;
  options.rows = rule(r, "latitudes");
  options.num_degrees = r.get<Index>("num_degrees", 0);
  options.num_orders = r.get<Index>("num_orders", 0);
  options.field = field_cuts(r);
  return with_part(std::make_shared<nn::SphericalTransformImpl>(options, r.domain()),
                   [](auto const& layer, auto const& /*name*/, auto /*axis*/) { return layer.orders(); });
}

Layer spherical_convolution(Reader const& r) {
  nn::SphericalConvolutionOptions options;
  options.in_channels = r.integer("in_channels");
  options.out_channels = r.integer("out_channels");
  options.rows = rule(r, "latitudes");
  options.num_degrees = r.get<Index>("num_degrees", 0);
  options.num_orders = r.get<Index>("num_orders", 0);
  options.bias = r.get<bool>("bias", false);
  if (r.has("out_latitudes")) options.out = {rule(r, "out_latitudes"), r.get<Index>("out_columns")};
  return native<nn::SphericalConvolutionImpl>(options, r.domain());
}

nn::HaloExchangeOptions halo_options(Reader const& r) {
  auto const width = [&](char const* name) {
    if (!r.has(name)) return Width{};
    auto const both = pair(r, name);
    return Width{both[0], both[1]};
  };
  nn::HaloExchangeOptions options{width("latitude"), width("longitude"), r.list<std::int64_t>("odd_channels")};
  if (r.has("axes")) options.axes = r.list<std::int64_t>("axes");
  options.channel_axis = r.get<std::int64_t>("channel_axis", -3);
  return options;
}

nn::Sharding sharding(Reader const& r, char const* axes, char const* grid) {
  auto const extents = r.list<Index>(grid);
  return {r.list<std::int64_t>(axes), ProcessGrid(Indices(std::span<Index const>(extents)))};
}

Layer repartition(Reader const& r) {
  nn::RepartitionOptions options{sharding(r, "from_axes", "from_grid"), sharding(r, "to_axes", "to_grid")};
  if (r.has("cuts"))
    for (auto const& sizes : r.get<std::vector<Integers>>("cuts")) options.cuts.push_back(cuts_of(sizes));
  return with_part(std::make_shared<nn::RepartitionImpl>(options, r.domain()),
                   [](auto const& layer, std::string const& name, std::int64_t axis) {
                     return name == "before" ? layer.before(axis) : layer.after(axis);
                   });
}

nn::Consumer consumer(Reader const& r, char const* name) {
  return r.one_of<nn::Consumer>(name, {{"replicated", nn::Consumer::replicated}, {"distinct", nn::Consumer::distinct}},
                                nn::Consumer::replicated);
}

nn::SplitOptions split(Reader const& r) {
  nn::SplitOptions options;
  options.split = r.one_of<nn::FeatureSplit>(
      "split",
      {{"input", nn::FeatureSplit::input}, {"output", nn::FeatureSplit::output}, {"both", nn::FeatureSplit::both}},
      nn::FeatureSplit::both);
  options.whole = consumer(r, "whole");
  options.output_cuts = r.cuts("output_cuts");
  return options;
}

Layer linear(Reader const& r) {
  auto const options =
      tn::LinearOptions(r.integer("in_features"), r.integer("out_features")).bias(r.get<bool>("bias", true));
  return native<nn::LinearImpl>(options, split(r), r.domain(), sharding(r, "axes", "grid"),
                                r.get<std::int64_t>("feature_axis", -1));
}

template <std::size_t D>
Layer channel_split_conv(Reader const& r) {
  auto const options = windows<D, tn::ConvOptions<D>>(r).padding(r.array<D>("padding"));
  return native<nn::ChannelSplitConvImpl<D>>(options, split(r), r.domain());
}

template <class Sharded>
Layer of_domain(Reader const& r) {
  return native<Sharded>(r.domain());
}
template <class Sharded>
Layer of_root(Reader const& r) {
  return native<Sharded>(r.get<int>("root", 0), r.domain());
}
template <class Sharded>
Layer of_axis(Reader const& r) {
  return native<Sharded>(r.integer("axis"), r.domain(), r.cuts("cuts"));
}

nn::LossOptions weights(Reader const& r) {
  nn::LossOptions options;
  options.reduction = r.one_of<nn::LossReduction>(
      "reduction",
      {{"mean", nn::LossReduction::mean}, {"sum", nn::LossReduction::sum}, {"batchmean", nn::LossReduction::batchmean}},
      nn::LossReduction::mean);
  options.per = r.one_of<nn::LossPer>("per",
                                      {{"domain", nn::LossPer::domain},
                                       {"sample", nn::LossPer::sample},
                                       {"channel", nn::LossPer::channel},
                                       {"level", nn::LossPer::level}},
                                      nn::LossPer::domain);
  options.global_row_weights = r.list<double>("row_weights");
  options.channel_weights = r.list<double>("channel_weights");
  options.level_weights = r.list<double>("level_weights");
  return options;
}

nn::ClassOptions classes(Reader const& r) {
  return {r.list<double>("class_weights"), r.get<std::int64_t>("ignore_index", -100),
          r.get<double>("label_smoothing", 0)};
}

nn::MeanWeights mean_weights(Reader const& r) {
  nn::MeanWeights result;
  result.global_rows = r.list<double>("row_weights");
  result.levels = r.list<double>("level_weights");
  return result;
}

Layer time_embedding(Reader const& r) {
  nn::TimeEmbeddingOptions options{r.integer("channels"), r.list<double>("periods"), r.get<std::int64_t>("hidden", 32)};
  return native<nn::TimeEmbeddingImpl>(options);
}

Layer drop_path(Reader const& r) {
  nn::DropPathOptions const options{r.get<double>("p", 0.1), r.get<bool>("scale_by_keep", true)};
  return native<nn::DropPathImpl>(options, r.random(), r.domain());
}

void add_losses(Makers& all) {
  all["L1Loss"] = [](Reader const& r) { return native<nn::L1LossImpl>(r.domain(), weights(r)); };
  all["MSELoss"] = [](Reader const& r) { return native<nn::MSELossImpl>(r.domain(), weights(r)); };
  all["HuberLoss"] = [](Reader const& r) {
    return native<nn::HuberLossImpl>(r.get<double>("delta", 1), r.domain(), weights(r));
  };
  all["SmoothL1Loss"] = [](Reader const& r) {
    return native<nn::SmoothL1LossImpl>(r.get<double>("beta", 1), r.domain(), weights(r));
  };
  all["BCEWithLogitsLoss"] = [](Reader const& r) {
    return native<nn::BCEWithLogitsLossImpl>(r.domain(), weights(r), r.list<double>("positive_weights"));
  };
  all["KLDivLoss"] = [](Reader const& r) {
    auto const target = r.get<bool>("log_target", false) ? nn::TargetIs::log_probability : nn::TargetIs::probability;
    return native<nn::KLDivLossImpl>(r.domain(), weights(r), target);
  };
  all["PoissonNLLLoss"] = [](Reader const& r) {
    nn::PoissonNLLOptions const options{r.get<bool>("log_input", true), r.get<bool>("full", false),
                                        r.get<double>("eps", 1e-8)};
    return native<nn::PoissonNLLLossImpl>(r.domain(), weights(r), options);
  };
  all["NLLLoss"] = [](Reader const& r) { return native<nn::NLLLossImpl>(r.domain(), weights(r), classes(r)); };
  all["CrossEntropyLoss"] = [](Reader const& r) {
    return native<nn::CrossEntropyLossImpl>(r.domain(), weights(r), classes(r));
  };
  all["CRPSLoss"] = [](Reader const& r) {
    nn::CRPSOptions const options{r.get<std::int64_t>("ensemble_axis", 1), r.get<double>("fairness", 1)};
    return native<nn::CRPSLossImpl>(r.domain(), weights(r), options);
  };
  all["SpectralLoss"] = [](Reader const& r) {
    auto const error = r.one_of<nn::SpectralError>(
        "error", {{"squared", nn::SpectralError::squared}, {"absolute", nn::SpectralError::absolute}},
        nn::SpectralError::squared);
    return native<nn::SpectralLossImpl>(r.domain(), weights(r),
                                        nn::SpectralOptions{error, r.list<double>("wavenumber_weights")});
  };
}

void add_means(Makers& all) {
  all["GlobalMean"] = [](Reader const& r) {
    return native<nn::GlobalMeanImpl>(consumer(r, "consumer"), r.domain(), mean_weights(r));
  };
  all["ConservationFixer"] = [](Reader const& r) {
    auto const correction = r.one_of<nn::Correction>(
        "correction", {{"additive", nn::Correction::additive}, {"multiplicative", nn::Correction::multiplicative}},
        nn::Correction::additive);
    return native<nn::ConservationFixerImpl>(
        r.domain(), nn::ConservationOptions{correction, r.list<std::int64_t>("channels"), mean_weights(r)});
  };
}

void add_collectives(Makers& all) {
  all["AllSum"] = of_domain<nn::AllSumImpl>;
  all["CopyToRegion"] = of_domain<nn::CopyToRegionImpl>;
  all["MatchCuts"] = of_domain<nn::MatchCutsImpl>;
  all["Broadcast"] = of_root<nn::BroadcastImpl>;
  all["SumToRoot"] = of_root<nn::SumToRootImpl>;
  all["Gather"] = [](Reader const& r) {
    return native<nn::GatherImpl>(r.integer("axis"), consumer(r, "consumer"), r.domain());
  };
  all["Scatter"] = of_axis<nn::ScatterImpl>;
  all["ReduceScatter"] = of_axis<nn::ReduceScatterImpl>;
  all["AllToAll"] = [](Reader const& r) {
    return native<nn::AllToAllImpl>(r.integer("split_axis"), r.integer("join_axis"), r.domain(), r.cuts("cuts"));
  };
  all["Repartition"] = repartition;
  all["Linear"] = linear;
  all["ChannelSplitConv1d"] = channel_split_conv<1>;
  all["ChannelSplitConv2d"] = channel_split_conv<2>;
  all["ChannelSplitConv3d"] = channel_split_conv<3>;
}

void add_features(Makers& all) {
  all["PositionEmbedding"] = [](Reader const& r) {
    nn::PositionEmbeddingOptions const options{r.integer("channels"), r.get<std::int64_t>("rows", 1),
                                               r.get<std::int64_t>("columns", 1)};
    return native<nn::PositionEmbeddingImpl>(options, r.domain());
  };
  all["CoordinateFeatures"] = [](Reader const& r) {
    nn::CoordinateFeaturesOptions const options{r.list<double>("latitudes"), r.list<double>("longitudes"),
                                                r.get<std::int64_t>("num_waves", 1)};
    return native<nn::CoordinateFeaturesImpl>(options, r.domain());
  };
  all["LevelEmbedding"] = [](Reader const& r) {
    return native<nn::LevelEmbeddingImpl>(r.integer("channels"), r.integer("levels"));
  };
  all["TimeEmbedding"] = time_embedding;
  all["DropPath"] = drop_path;
}

Makers all_native_makers() {
  Makers all;
  add_losses(all);
  add_means(all);
  add_collectives(all);
  add_features(all);
  all["SelfAttention"] = self_attention;
  all["WindowAttention"] = window_attention;
  all["FourierTransform"] = fourier_transform;
  all["FourierConvolution"] = fourier_convolution;
  all["SphericalTransform"] = spherical_transform;
  all["SphericalConvolution"] = spherical_convolution;
  all["HaloExchange"] = [](Reader const& r) { return native<nn::HaloExchangeImpl>(halo_options(r), r.domain()); };
  all["PaddedHaloExchange"] = [](Reader const& r) {
    return native<nn::PaddedHaloExchangeImpl>(halo_options(r), r.domain());
  };
  return all;
}

}  // namespace

Makers const& native_makers() {
  static Makers const all = all_native_makers();
  return all;
}

}  // namespace graticule::python
