// SPDX-License-Identifier: BSD-3-Clause
#include "spectra_table.hpp"

#include <graticule/partition/error.hpp>

#include <algorithm>

namespace graticule::forecast {

SpectraTable::SpectraTable(Index num_channels, Index num_leads, Index num_regions, Index num_waves)
    : num_channels_(num_channels), num_leads_(num_leads), num_regions_(num_regions), num_waves_(num_waves) {}

Index SpectraTable::num_degrees() const noexcept { return values_.empty() ? 0 : stride_ - 1 - num_zonal(); }

void SpectraTable::add(Index lead, SpectrumOf of, std::span<double const> sums) {
  if (values_.empty()) {
    stride_ = Index(sums.size()) / num_channels_;
    values_.assign(std::size_t(2 * num_leads_ * num_channels_ * stride_), 0.0);
  }
  auto const begin = (Index(of) * num_leads_ + lead) * num_channels_ * stride_;
  for (std::size_t i = 0; i < sums.size(); ++i) values_[std::size_t(begin) + i] += sums[i];
}

std::vector<double> SpectraTable::mean(SpectrumOf of, Index channel, Index lead, Index first, Index count) const {
  if (values_.empty() || count == 0) return {};
  double const* const sums = values_.data() + ((Index(of) * num_leads_ + lead) * num_channels_ + channel) * stride_;
  if (!(sums[0] > 0)) return {};
  std::vector<double> result(sums + 1 + first, sums + 1 + first + count);
  for (double& value : result) value /= sums[0];
  return result;
}

std::vector<double> SpectraTable::zonal(SpectrumOf of, Index channel, Index lead, Index region) const {
  return mean(of, channel, lead, region * num_waves_, num_waves_);
}

std::vector<double> SpectraTable::spherical(SpectrumOf of, Index channel, Index lead) const {
  return mean(of, channel, lead, num_zonal(), num_degrees());
}

void SpectraTable::set_values(std::vector<double> values) {
  Index const spectra = 2 * num_leads_ * num_channels_;
  auto const size = Index(values.size());
  if (size > 0 && (size % spectra != 0 || size / spectra < 1 + num_zonal()))
    throw Error(Fault::input, "StateMismatch",
                "the saved spectra have another number of channels, leads or wavenumbers");
  stride_ = size / spectra;
  values_ = std::move(values);
}

}  // namespace graticule::forecast
