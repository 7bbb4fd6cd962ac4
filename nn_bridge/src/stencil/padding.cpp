// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/pad_modes.hpp>
#include <graticule/nn_bridge/stencil/padding.hpp>

#include "call/spatial.hpp"
#include "needed_inputs.hpp"

#include <algorithm>
#include <string>

namespace graticule::nn {

namespace detail {

struct PadSetUp {
  NeededInputs inputs;
};

/// Padding of the axes levels (if any), rows and columns.
struct PadDescription {
  std::string layer;
  std::vector<Width> widths;
  PadMode mode = PadMode::constant;
  double value = 0;
  PadCuts cuts = PadCuts::extend_edges;
  std::vector<std::int64_t> odd_channels = {};
};

/// Crops one side of an axis and pads the other.
bool is_mixed(Width const& width) {
  return std::min(width.lower, width.upper) < 0 && std::max(width.lower, width.upper) > 0;
}

/// The padding of all dimensions' modules.
class Padder : public NeedState<PadSetUp> {
 public:
  /// @param whole what this is the crop of
  Padder(Domain const& domain, std::size_t num_axes, PadDescription const& description, LifeCycle* whole = nullptr)
      : NeedState(domain, description.layer, whole),
        num_axes_(num_axes),
        description_(description),
        crop_(make_crop()) {}

  torch::Tensor forward(torch::Tensor const& x);

 private:
  [[nodiscard]] std::shared_ptr<PadSetUp const> make(torch::Tensor const& x, Layout const& layout) const;
  /// Circular padding applies to the cropped field: if any axis is mixed, all crops come first.
  [[nodiscard]] std::unique_ptr<Padder> make_crop();

  std::size_t num_axes_;
  PadDescription description_;
  std::unique_ptr<Padder> crop_;
};

namespace {

/// @pre `mode` is not that of the domain
Edge edge_of(PadMode mode) { return enum_row(mode).edge.value(); }

/// Cells of the padded axis. @throws `BadHaloWidth`
Index padded_extent(Index extent, Width const& width) {
  Index const total = extent + width.lower + width.upper;
  if (total < 1 || extent + std::min(width.lower, width.upper) < 1)
    throw Error("BadHaloWidth", "cropped: widths " + std::to_string(width.lower) + " and " +
                                    std::to_string(width.upper) + " leave no cell of an axis of " +
                                    std::to_string(extent));
  return total;
}

/// Parts of the padded axis: cuts within the field stay where they are.
Cuts padded_cuts(Cuts const& cuts, Width const& width) {
  return cuts_of_outputs(cuts, padded_extent(cuts.extent(), width), [&](Index cell) { return cell + width.lower; });
}

/// Levels are whole on each rank.
torch::Tensor pad_levels(PadDescription const& d, torch::Tensor const& x) {
  auto const [lower, upper] = d.widths[0];
  if (lower == 0 && upper == 0) return x;
  if (d.mode == PadMode::constant) return at::constant_pad_nd(x, {0, 0, 0, 0, lower, upper}, d.value);
  return with_images_of_levels(x, lower, upper, edge_of(d.mode));
}

}  // namespace

std::shared_ptr<PadSetUp const> Padder::make(torch::Tensor const& x, Layout const& layout) const {
  auto const& d = description_;
  NeedDescription need;
  Hash hash;
  for (std::size_t i = 0; i < d.widths.size(); ++i) {
    int const a = int(i) + 2 - int(d.widths.size());
    auto const& width = d.widths[i];
    if (d.mode != PadMode::domain) check_width(edge_of(d.mode), width, a < 0 ? x.size(-3) : layout.extent(a));
    if (a < 0) {
      (void)padded_extent(x.size(-3), width);
      continue;
    }
    auto cuts = padded_cuts(*layout.cuts(a), width);
    if (d.cuts == PadCuts::balanced) cuts = balanced_cuts(cuts.extent(), cuts.num_parts());
    auto const outputs = own_range(domain().comm(), layout, a, cuts);
    need.needed[std::size_t(a)] = {outputs.lo - width.lower, outputs.hi - width.lower};
    hash.add(width.lower).add(width.upper);
  }
  need.boundary = boundary_of(num_axes_, domain(), enum_row(d.mode).edge);
  if (d.mode != PadMode::domain)
    for (auto& axis : need.boundary.axes) axis.constant = d.value;
  need.odd_channels = d.odd_channels;
  need.fingerprint = hash.add(int(d.cuts)).value();
  return std::make_shared<PadSetUp const>(PadSetUp{NeededInputs(domain().comm(), layout, need)});
}

std::unique_ptr<Padder> Padder::make_crop() {
  auto& widths = description_.widths;
  if (description_.mode != PadMode::circular || std::none_of(widths.begin(), widths.end(), is_mixed)) return nullptr;
  PadDescription crop{description_.layer, widths, PadMode::constant};
  for (std::size_t a = 0; a < widths.size(); ++a) {
    crop.widths[a] = {std::min<Index>(widths[a].lower, 0), std::min<Index>(widths[a].upper, 0)};
    widths[a] = {std::max<Index>(widths[a].lower, 0), std::max<Index>(widths[a].upper, 0)};
  }
  return std::make_unique<Padder>(domain(), num_axes_, crop, this);
}

torch::Tensor Padder::forward(torch::Tensor const& field) {
  auto const x = crop_ ? crop_->forward(field) : field;
  auto const& d = description_;
  auto const call = enter(
      with_columns(x, num_axes_), [&] { check_spatial(d.layer, num_axes_, x, domain(), d.odd_channels); },
      [&](Layout const& layout) { return make(x, layout); });
  auto const given = batched(x, num_axes_);
  auto y = fetch(call, num_axes_ == 3 ? pad_levels(d, given) : given);
  if (!call.set_up->inputs.pull()) y = y.clone();
  return unbatched(y, x, num_axes_);
}

}  // namespace detail

namespace {

template <std::size_t D>
std::shared_ptr<detail::Padder> make_padder(PadOptions<D> const& o, Domain const& domain) {
  detail::PadDescription d{"Pad" + std::to_string(D) + "d", {}, o.mode, o.value, o.cuts, o.odd_channels};
  for (std::size_t a = 0; a < D; ++a)
    d.widths.push_back({(*o.padding)[2 * (D - 1 - a)], (*o.padding)[2 * (D - 1 - a) + 1]});
  if (D == 1) d.widths.push_back({0, 0});
  if (D == 3 && o.mode == PadMode::domain && d.widths[0] != Width{0, 0})
    throw Error("BadBoundary", "the domain's boundary has no rule for levels; choose another mode for them");
  if (!o.odd_channels.empty() && o.mode != PadMode::domain)
    throw Error("BadBoundary", d.layer + " crosses a pole with PadMode::domain only");
  return std::make_shared<detail::Padder>(domain, D, d);
}

template <std::size_t D>
PadOptions<D> trimming(torch::ExpandingArray<2 * D> widths) {
  for (auto& width : *widths) {
    if (width < 0)
      throw Error("BadHaloWidth", "cropped: Trim needs widths of at least 0 cells, got " + std::to_string(width));
    width = -width;
  }
  return widths;
}

}  // namespace

template <std::size_t D>
PadImpl<D>::PadImpl(PadOptions<D> options, Domain domain)
    : detail::StatefulModule<PadImpl<D>, detail::Padder>(
          std::move(domain), [options = std::move(options)](Domain const& of) { return make_padder(options, of); }) {}

template <std::size_t D>
torch::Tensor PadImpl<D>::forward(torch::Tensor const& x) {
  return this->state().forward(x);
}

template <std::size_t D>
TrimImpl<D>::TrimImpl(torch::ExpandingArray<2 * D> const& widths, Domain domain)
    : detail::StatefulModule<TrimImpl<D>, detail::Padder>(
          std::move(domain), [options = trimming<D>(widths)](Domain const& of) { return make_padder(options, of); }) {}

template <std::size_t D>
torch::Tensor TrimImpl<D>::forward(torch::Tensor const& x) {
  return this->state().forward(x);
}

template class PadImpl<1>;
template class PadImpl<2>;
template class PadImpl<3>;
template class TrimImpl<1>;
template class TrimImpl<2>;
template class TrimImpl<3>;

}  // namespace graticule::nn
