// SPDX-License-Identifier: BSD-3-Clause
#include "call.hpp"

#include <graticule/partition/detail/hash.hpp>

#include "segments.hpp"
#include "whole_messages.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace graticule::detail {

namespace {

void add(Hash& hash, Update const& update) {
  auto const beta = update.beta.value_or(std::nan(""));
  for (double const part : {update.alpha.real(), update.alpha.imag(), beta.real(), beta.imag()})
    hash.add(std::bit_cast<std::uint64_t>(part));
  hash.add(int(update.operation));
}

void add(Hash& hash, std::optional<Packing> const& packing) {
  hash.add(packing.has_value());
  if (packing)
    hash.add(std::bit_cast<std::uint64_t>(packing->scale))
        .add(std::bit_cast<std::uint64_t>(packing->offset))
        .add(packing->missing.has_value())
        .add(packing->missing.value_or(0));
}

/// What all ranks must agree on in a call.
std::uint32_t hash_of(std::span<PullField const> fields, Direction direction) {
  Hash hash;
  hash.add(int(direction));
  for (auto const& field : fields) {
    hash.add(field.kind).add(int(field.parity)).add(int(field.source.dtype));
    if (!field.targets.empty()) hash.add(int(field.targets[0].dtype));
    add(hash, field.update);
    for (auto const* packing : {&field.source_packing, &field.target_packing}) add(hash, *packing);
    for (int m = 0; m < field.source.ndim(); ++m)
      if (std::find(field.source.grid_axes.begin(), field.source.grid_axes.end(), Index(m)) ==
          field.source.grid_axes.end())
        hash.add(field.source.extents[m]);
  }
  return std::uint32_t(hash.value());
}

}  // namespace

bool CallFields::hold(std::span<PullField const> fields) const noexcept {
  if (sources.empty() || sources.size() != fields.size()) return false;
  for (std::size_t f = 0; f < fields.size(); ++f) {
    auto const& given = fields[f];
    std::size_t const end = f + 1 < first_target.size() ? first_target[f + 1] : targets.size();
    if (parities[f] != given.parity || given.targets.size() != end - first_target[f] || sources[f] != given.source ||
        !std::equal(given.targets.begin(), given.targets.end(), targets.data() + first_target[f]))
      return false;
  }
  return true;
}

namespace {

bool same(Indices const& a, Indices const& b) noexcept {
  if (a.size() != b.size()) return false;
  for (int i = 0; i < a.size(); ++i)
    if (a[i] != b[i]) return false;
  return true;
}

/// Lists of few numbers are compared here, which is a third of a call of `memcmp` for each.
bool same(FieldView const& a, FieldView const& b) noexcept {
  return a.data == b.data && a.dtype == b.dtype && a.space == b.space && same(a.extents, b.extents) &&
         same(a.strides, b.strides) && same(a.grid_axes, b.grid_axes);
}

}  // namespace

bool CallFields::hold(std::span<KnownField const> fields, std::vector<int> const& kinds) const noexcept {
  if (fields.size() != sources.size()) return false;
  for (std::size_t f = 0; f < fields.size(); ++f) {
    auto const& [source, target, parity, kind] = fields[f];
    if (parity != parities[f] || kind != kinds[f] || !same(*source, sources[f])) return false;
    if (target == source ? !are_in_place : !same(*target, targets[f])) return false;
  }
  return true;
}

void CallFields::set(std::span<PullField const> fields) {
  known_apart = repeats = are_in_place = false;
  sources.clear();
  targets.clear();
  parities.clear();
  first_target.clear();
  for (auto const& field : fields) {
    sources.push_back(field.source);
    first_target.push_back(targets.size());
    targets.insert(targets.end(), field.targets.begin(), field.targets.end());
    parities.push_back(field.parity);
  }
}

Call::Call(PlanContext const& of, CallShape call_shape, int num_views, SegmentQueue& segments, PullStats& plan_stats)
    : plan(of), stats(plan_stats), comm(of.comm), shape(std::move(call_shape)), describe_([this] {
        return messages_->describe();
      }) {
  if (of.segments)
    messages_ = std::make_unique<Segments>(*this, segments);
  else
    messages_ = std::make_unique<WholeMessages>(*this, num_views);
}

Call::~Call() = default;

bool Call::fits(std::span<PullField const> given, CallShape const& wanted) const noexcept {
  if (busy || shape.refused || shape.direction != wanted.direction || shape.device != wanted.device ||
      shape.node_shared != wanted.node_shared || shape.kinds.size() != given.size())
    return false;
  if (!given.empty() && shape.space != given.front().source.space) return false;
  for (std::size_t f = 0; f < given.size(); ++f)
    if (shape.kinds[f] != given[f].kind ||
        shape.cell_bytes[f] != size_of(given[f].source.dtype) * given[f].source.num_batch())
      return false;
  return true;
}

void Call::use(std::size_t place, bool changed) {
  if (int(place) == now_ && !changed) return;
  now_ = int(place);
  messages_->use_fields(now_, changed);
}

bool Call::knows(std::span<PullField const> given) const noexcept {
  return std::any_of(known_.begin(), known_.end(), [&](CallFields const& fields) { return fields.hold(given); });
}

bool Call::use_known(std::span<PullField const> given) {
  for (std::size_t k = 0; k < known_.size(); ++k)
    if (known_[k].hold(given)) return use(k, false), true;
  return false;
}

bool Call::use_known(std::span<KnownField const> given) {
  for (std::size_t k = 0; k < known_.size(); ++k)
    if (known_[k].repeats && known_[k].hold(given, shape.kinds)) return use(k, false), true;
  return false;
}

void Call::set_fields(std::span<PullField const> given, Direction direction) {
  if (!use_known(given)) {
    bool const grows = is_small && known_.size() < most_known_ && fields().count() > 0;
    if (grows) known_.emplace_back();
    use(grows ? known_.size() - 1 : std::size_t(now_ + 1) % known_.size(), true);
    fields().set(given);
  }
  fields().hash = hash_of(given, direction);
}

void Call::set_sources(std::span<FieldView const> sources) {
  std::copy(sources.begin(), sources.end(), fields().sources.begin());
  messages_->sources_changed();
}

bool Call::lacks_memory() const noexcept {
  for (int f = 0; f < fields().count(); ++f) {
    auto const& source = fields().source(f);
    if (source.data == nullptr && !plan.source_box(kind(f)).empty() && source.num_batch() > 0) return true;
  }
  return false;
}

}  // namespace graticule::detail
