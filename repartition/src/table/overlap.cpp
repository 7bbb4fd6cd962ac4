// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/repartition/detail/overlap.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <span>
#include <utility>

namespace graticule::detail {

namespace {

/// `step * k` for `0 <= k <= last`.
struct Term {
  Index step = 0;
  Index last = 0;
};

constexpr int most_steps = 100000;

/// Whether terms, one of each, add up to a number.
class BoundedSum {
 public:
  void add(Index step, Index extent) {
    if (step != 0 && extent > 1) terms_[std::size_t(count_++)] = {std::abs(step), extent - 1};
  }
  /// The greatest common divisor of all steps, 0 without any. To be called once, before `reaches`.
  Index prepare() {
    auto const end = terms_.begin() + count_;
    std::sort(terms_.begin(), end, [](Term const& a, Term const& b) { return a.step < b.step; });
    int kept = 0;
    for (int i = 0; i < count_; ++i) {
      auto const& term = terms_[std::size_t(i)];
      auto* const before = kept > 0 ? &terms_[std::size_t(kept) - 1] : nullptr;
      // Steps of no more than all that the term before covers leave no gap: both are one longer term.
      if (before && term.step % before->step == 0 && term.step / before->step <= before->last + 1)
        before->last += term.step / before->step * term.last;
      else
        terms_[std::size_t(kept++)] = term;
    }
    count_ = kept;
    for (int i = 0; i < count_; ++i) {
      auto const at = std::size_t(i);
      auto const& term = terms_[at];
      divisor_[at] = std::gcd(i > 0 ? divisor_[at - 1] : 0, term.step);
      most_[at] = (i > 0 ? most_[at - 1] : 0) + term.step * term.last;
    }
    return count_ > 0 ? divisor_[std::size_t(count_) - 1] : 0;
  }
  [[nodiscard]] bool reaches(Index sum) { return reaches(count_ - 1, sum); }

 private:
  bool reaches(int i, Index sum) {
    if (i < 0) return sum == 0;
    auto const at = std::size_t(i);
    if (sum < 0 || sum > most_[at] || sum % divisor_[at] != 0) return false;
    if (++steps_ > most_steps) return true;
    auto const& [step, last] = terms_[at];
    if (i == 0) return true;
    Index const rest = most_[at - 1];
    Index const least = sum > rest ? (sum - rest + step - 1) / step : 0;
    for (Index k = std::min(last, sum / step); k >= least; --k)
      if (reaches(i - 1, sum - k * step)) return true;
    return false;
  }

  std::array<Term, 2 * std::size_t(max_ndim)> terms_{};
  std::array<Index, 2 * std::size_t(max_ndim)> divisor_{};  ///< of the steps up to a term
  std::array<Index, 2 * std::size_t(max_ndim)> most_{};     ///< the sum of the terms up to one
  int count_ = 0;
  int steps_ = 0;
};

}  // namespace

AddressRange address_range(FieldView const& view) noexcept {
  auto const begin = reinterpret_cast<std::uintptr_t>(view.data);
  Index lowest = 0;
  Index highest = 0;
  if (view.data == nullptr) return {};
  for (int m = 0; m < view.ndim(); ++m) {
    if (view.extents[m] <= 0) return {begin, begin};
    (view.strides[m] < 0 ? lowest : highest) += (view.extents[m] - 1) * view.strides[m];
  }
  Index const size = size_of(view.dtype);
  return {begin + std::uintptr_t(lowest * size), begin + std::uintptr_t((highest + 1) * size)};
}

bool share_memory(FieldView const& a, FieldView const& b) {
  auto const range_a = address_range(a);
  auto const range_b = address_range(b);
  if (range_a.lo == range_a.hi || range_b.lo == range_b.hi || range_a.hi <= range_b.lo || range_b.hi <= range_a.lo)
    return false;
  // The byte `u` of an element of `a` is the byte `v` of one of `b`: the steps of both, all upwards from the lowest
  // element of `a` and from the highest of `b`, add up to what lies between these two, less `u - v`.
  BoundedSum sum;
  Index const bytes_a = size_of(a.dtype);
  Index const bytes_b = size_of(b.dtype);
  for (int m = 0; m < a.ndim(); ++m) sum.add(a.strides[m] * bytes_a, a.extents[m]);
  for (int m = 0; m < b.ndim(); ++m) sum.add(b.strides[m] * bytes_b, b.extents[m]);
  Index const divisor = std::max<Index>(sum.prepare(), 1);
  Index const distance = Index(range_b.hi - std::uintptr_t(bytes_b)) - Index(range_a.lo);
  // Few of these differ by multiples of all steps: one, as a rule, or none.
  Index const first = distance - (bytes_a - 1);
  Index const begin = first + ((-first % divisor) + divisor) % divisor;
  for (Index total = begin; total <= distance + bytes_b - 1; total += divisor)
    if (total >= 0 && sum.reaches(total)) return true;
  return false;
}

namespace {

/// The axes of a view along which there are several elements, by the size of their steps.
struct Axes {
  std::array<Term, std::size_t(max_ndim)> terms{};
  int count = 0;

  explicit Axes(FieldView const& view) {
    for (int m = 0; m < view.ndim(); ++m) {
      if (view.extents[m] <= 1) continue;
      Term const term{std::abs(view.strides[m]), view.extents[m] - 1};
      int at = count++;
      for (; at > 0 && terms[std::size_t(at) - 1].step > term.step; --at)
        terms[std::size_t(at)] = terms[std::size_t(at) - 1];
      terms[std::size_t(at)] = term;
    }
  }
};

}  // namespace

bool shares_own_memory(FieldView const& view) {
  for (int m = 0; m < view.ndim(); ++m)
    if (view.extents[m] <= 0) return false;
  Axes const axes(view);
  // Two elements differ by steps of both signs along some axes; let the last of these go upwards. Where it goes further
  // than all steps before it together, as in every array, they cannot lead back.
  Index reach = 0;
  for (int last = 0; last < axes.count; ++last) {
    auto const& upwards = axes.terms[std::size_t(last)];
    if (upwards.step <= reach || upwards.step == 0) {
      BoundedSum sum;
      for (int m = 0; m < last; ++m) sum.add(axes.terms[std::size_t(m)].step, 2 * axes.terms[std::size_t(m)].last + 1);
      sum.add(upwards.step, upwards.last);
      (void)sum.prepare();
      if (sum.reaches(reach - upwards.step)) return true;
    }
    reach += upwards.step * upwards.last;
  }
  return false;
}

}  // namespace graticule::detail
