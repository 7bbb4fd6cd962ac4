// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/samples/detail/batches.hpp>

#include <algorithm>
#include <new>
#include <utility>

namespace graticule::samples {

std::vector<std::size_t> ChannelPlan::derived_fields() const {
  std::vector<std::size_t> fields;
  for (auto const& input : inputs)
    if (input.feature != Feature::value && std::find(fields.begin(), fields.end(), input.field) == fields.end())
      fields.push_back(input.field);
  return fields;
}

void NumberBuffer::reserve(std::size_t bytes) {
  if (bytes <= bytes_) return;
  constexpr std::size_t step = 64;
  bytes = (bytes + step - 1) / step * step;
  data_.reset();
  data_.reset(std::aligned_alloc(step, bytes));
  if (!data_) throw std::bad_alloc();
  bytes_ = bytes;
}

BatchSource::BatchSource(Comm const& world, Derivatives const& derivatives, SampleStore& store, ChannelPlan plan,
                         DType dtype)
    : derivatives_(derivatives),
      store_(store),
      plan_(std::move(plan)),
      dtype_(dtype),
      derived_(plan_.derived_fields()),
      field_(num_cells()),
      derivative_(num_cells()),
      ahead_({world}, [this](Slot& slot) { gather(slot); }) {
  for (Slot& slot : ahead_.slots())
    for (std::size_t const field : derived_) slot.padded.push_back({store.reader().info(field).parity, 0, {}});
}

BatchSource::~BatchSource() = default;

Index BatchSource::working_bytes(Derivatives const& derivatives, SampleReader const& reader, ChannelPlan const& plan,
                                 DType dtype, Index most_samples) {
  auto const cells = reader.num_cells();
  auto const channels = Index(plan.inputs.size() + plan.targets.size());
  auto const numbers = Index(sizeof(double));
  Index const of_batch = most_samples * cells * (channels * size_of(dtype) + Index(plan.targets.size()) * numbers) +
                         Index(plan.derived_fields().size() * derivatives.padded_size(most_samples)) * numbers;
  // Two batches, predictions of one, and a field of one sample as it lies in the file, unpacked and derived.
  return 2 * of_batch + most_samples * cells * Index(plan.targets.size()) * numbers + 4 * cells * numbers;
}

Batch BatchSource::take(std::span<Index const> samples, std::span<Index const> upcoming, Truth truth) {
  Slot& slot = ahead_.take({{samples.begin(), samples.end()}, truth});
  if (!upcoming.empty()) ahead_.begin({{upcoming.begin(), upcoming.end()}, truth});
  derive(slot);
  return {Index(samples.size()), dtype_, slot.inputs.data(), slot.targets.data(), slot.truth_values};
}

StoreCounts BatchSource::counts() {
  ahead_.wait();
  return store_.counts();
}

void BatchSource::gather(Slot& slot) {
  auto const count = slot.request.samples.size();
  auto const channel_bytes = count * num_cells() * std::size_t(size_of(dtype_));
  slot.inputs.reserve(plan_.inputs.size() * channel_bytes);
  slot.targets.reserve(plan_.targets.size() * channel_bytes);
  slot.truth_values.resize(slot.request.truth == Truth::with ? count * plan_.targets.size() * num_cells() : 0);
  for (PaddedField& field : slot.padded) derivatives_.resize(field, Index(count));
  for (std::size_t place = 0; place < count; ++place)
    for (std::size_t field = 0; field < store_.reader().num_fields(); ++field) gather(slot, place, field);
}

void BatchSource::gather(Slot& slot, std::size_t place, std::size_t field) {
  Index const sample = slot.request.samples[place];
  store_.fetch(sample, field, field_);
  for (std::size_t c = 0; c < plan_.inputs.size(); ++c) {
    auto const& input = plan_.inputs[c];
    if (input.field != field || input.feature != Feature::value) continue;
    write(field_, input.scaling, sample, Missing::mean, slot.inputs, (place * plan_.inputs.size() + c) * num_cells());
  }
  for (std::size_t d = 0; d < derived_.size(); ++d)
    if (derived_[d] == field) derivatives_.put(slot.padded[d], Index(place), field_);
  for (std::size_t t = 0; t < plan_.targets.size(); ++t) {
    auto const& target = plan_.targets[t];
    if (target.field != field) continue;
    auto const cell = (place * plan_.targets.size() + t) * num_cells();
    write(field_, target.scaling, sample, Missing::keep, slot.targets, cell);
    if (slot.request.truth == Truth::with)
      std::copy(field_.begin(), field_.end(), slot.truth_values.begin() + std::ptrdiff_t(cell));
  }
}

void BatchSource::derive(Slot& slot) {
  if (derived_.empty() || slot.request.samples.empty()) return;
  derivatives_.exchange(slot.padded);
  for (std::size_t c = 0; c < plan_.inputs.size(); ++c) {
    auto const& input = plan_.inputs[c];
    if (input.feature == Feature::value) continue;
    auto const d = std::size_t(std::find(derived_.begin(), derived_.end(), input.field) - derived_.begin());
    for (std::size_t place = 0; place < slot.request.samples.size(); ++place) {
      derivatives_.get(slot.padded[d], Index(place), input.feature, derivative_);
      write(derivative_, input.scaling, slot.request.samples[place], Missing::mean, slot.inputs,
            (place * plan_.inputs.size() + c) * num_cells());
    }
  }
}

void BatchSource::write(std::span<double const> values, Scaling const& scaling, Index sample, Missing missing,
                        NumberBuffer const& to, std::size_t cell) const {
  auto const level = std::size_t(sample % plan_.num_levels);
  if (dtype_ == DType::f64)
    normalise(values, scaling, level, missing, static_cast<double*>(to.data()) + cell);
  else
    normalise(values, scaling, level, missing, static_cast<float*>(to.data()) + cell);
}

}  // namespace graticule::samples
