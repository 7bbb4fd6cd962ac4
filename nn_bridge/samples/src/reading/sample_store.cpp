// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/samples/detail/sample_store.hpp>

#include <utility>

namespace graticule::samples {
namespace {

/// Memory of a stored field of a sample in addition to its cells.
constexpr Index overhead_bytes = 256;

}  // namespace

SampleStore::SampleStore(SampleReader reader, Index keeps_first, std::function<void(Index, std::size_t)> on_read)
    : reader_(std::move(reader)), keeps_first_(keeps_first), on_read_(std::move(on_read)) {}

void SampleStore::set_budget(Index bytes) {
  budget_ = bytes;
  Index all = 0;
  for (std::size_t field = 0; field < reader_.num_fields(); ++field)
    all += reader_.num_samples() * (reader_.stored_bytes(field) + overhead_bytes);
  all_fit_ = all <= budget_;
}

bool SampleStore::is_worth_holding(Index sample, Index bytes) const noexcept {
  bool const trains = sample < keeps_first_ || sample >= reader_.num_in_file();
  return (trains || all_fit_) && counts_.bytes_held + bytes + overhead_bytes <= budget_;
}

void SampleStore::fetch(Index sample, std::size_t field, std::span<double> values) {
  Index const key = sample * Index(reader_.num_fields()) + Index(field);
  if (auto const found = held_.find(key); found != held_.end()) {
    ++counts_.num_hits;
    return reader_.unpack(sample, field, found->second, values);
  }
  if (on_read_) on_read_(sample, field);
  StoredCells cells = reader_.read(sample, field);
  ++counts_.num_reads;
  Index const bytes = cells.num_bytes();
  counts_.bytes_read += bytes;
  reader_.unpack(sample, field, cells, values);
  if (!is_worth_holding(sample, bytes)) return;
  held_.emplace(key, std::move(cells));
  counts_.bytes_held += bytes + overhead_bytes;
}

}  // namespace graticule::samples
