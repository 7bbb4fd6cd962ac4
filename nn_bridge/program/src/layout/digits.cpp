// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/program/detail/shape.hpp>
#include <graticule/program/layout/digits.hpp>

#include "cut_moves.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace graticule::program {

namespace {

// Elements between neighbours along an axis of a contiguous tensor.
std::int64_t stride_of(Shape const& shape, std::int64_t axis) {
  return std::accumulate(shape.begin() + axis + 1, shape.end(), std::int64_t{1}, std::multiplies<>());
}

// Indices that two intervals share.
std::int64_t overlap(std::int64_t lo, std::int64_t hi, std::int64_t other_lo, std::int64_t other_hi) {
  return std::max<std::int64_t>(0, std::min(hi, other_hi) - std::max(lo, other_lo));
}

// The axis of `to` that holds the top of a digit of `flat` elements; -1 where no axis does.
std::int64_t axis_of_digit(std::int64_t flat, Shape const& to) {
  std::int64_t stride = 1;
  for (auto axis = static_cast<std::int64_t>(to.size()) - 1; axis >= 0; --axis) {
    std::int64_t const top = stride * to[index(axis)];
    if (stride < flat && flat <= top) {
      return top % flat == 0 && flat % stride == 0 ? axis : -1;
    }
    stride = top;
  }
  return -1;
}

// All of it on one rank: any axis will do.
std::optional<Cut> undivided(Cut const& cut, Shape const& to) {
  if (to.empty() || !std::ranges::all_of(cut.bounds, [&](std::int64_t b) { return b == 0 || b == cut.period; })) {
    return std::nullopt;
  }
  Cut result{0, 1, cut.bounds};
  std::ranges::replace(result.bounds, cut.period, 1);
  return result;
}

}  // namespace

std::vector<std::int64_t> numbers_below(std::int64_t count) {
  std::vector<std::int64_t> numbers(index(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

Digit digit_of(Cut const& cut) {
  std::int64_t const stride = std::accumulate(cut.bounds.begin(), cut.bounds.end(), std::int64_t{0},
                                              [](std::int64_t a, std::int64_t b) { return std::gcd(a, b); });
  return stride == 0 ? Digit{} : Digit{stride, cut.period / stride};
}

Cut Cut::balanced(std::int64_t axis, std::int64_t extent, std::int64_t num_ranks, std::int64_t stride) {
  Cut cut{axis, extent, {}};
  std::int64_t const units = extent / stride;
  for (std::int64_t rank = 0; rank <= num_ranks; ++rank) {
    std::int64_t const larger = std::min(rank, units % num_ranks);
    cut.bounds.push_back((units / num_ranks * rank + larger) * stride);
  }
  return cut;
}

std::int64_t Cut::owned_extent(std::int64_t extent, std::int64_t rank) const {
  return extent == 0 ? 0 : extent / period * (bounds[index(rank + 1)] - bounds[index(rank)]);
}

std::vector<std::int64_t> Cut::owned_indices(std::int64_t extent, std::int64_t rank) const {
  std::vector<std::int64_t> indices;
  for (std::int64_t start = 0; start < extent; start += period) {
    for (std::int64_t i = bounds[index(rank)]; i < bounds[index(rank + 1)]; ++i) {
      indices.push_back(start + i);
    }
  }
  return indices;
}

Shape local_shape(Shape const& shape, std::optional<Cut> const& cut, std::int64_t rank) {
  Shape local = shape;
  if (cut) {
    local[index(cut->axis)] = cut->owned_extent(shape[index(cut->axis)], rank);
  }
  return local;
}

std::int64_t num_elements(Shape const& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::int64_t common_extent(Cut const& first, Cut const& second, std::int64_t extent, std::int64_t rank) {
  if (extent == 0) {
    return 0;
  }
  std::int64_t const lo = first.bounds[index(rank)];
  std::int64_t const hi = first.bounds[index(rank + 1)];
  std::int64_t const other_lo = second.bounds[index(rank)];
  std::int64_t const other_hi = second.bounds[index(rank + 1)];
  if (first.period == second.period) {
    return extent / first.period * overlap(lo, hi, other_lo, other_hi);
  }
  std::int64_t const common = std::lcm(first.period, second.period);
  std::int64_t count = 0;
  for (std::int64_t start = 0; start < common; start += first.period) {
    for (std::int64_t other = 0; other < common; other += second.period) {
      count += overlap(start + lo, start + hi, other + other_lo, other + other_hi);
    }
  }
  return extent / common * count;
}

std::optional<Cut> through_view(Cut const& cut, Shape const& from, Shape const& to) {
  if (num_elements(from) == 0 || num_elements(from) != num_elements(to)) {
    return std::nullopt;
  }
  std::int64_t const stride = stride_of(from, cut.axis);
  std::int64_t const axis = axis_of_digit(cut.period * stride, to);
  if (axis < 0) {
    return undivided(cut, to);
  }
  std::int64_t const unit = stride_of(to, axis);
  Cut result{axis, cut.period * stride / unit, {}};
  for (std::int64_t const bound : cut.bounds) {
    if (bound * stride % unit != 0) {
      return undivided(cut, to);
    }
    result.bounds.push_back(bound * stride / unit);
  }
  return result;
}

std::optional<Cut> aligned_for_view(Cut const& cut, Shape const& from, Shape const& to) {
  if (num_elements(from) == 0 || num_elements(from) != num_elements(to)) {
    return std::nullopt;
  }
  std::int64_t const stride = stride_of(from, cut.axis);
  std::int64_t const axis = axis_of_digit(cut.period * stride, to);
  if (axis < 0) {
    return std::nullopt;
  }
  std::int64_t const unit = std::lcm(stride_of(to, axis), stride) / stride;
  if (cut.period % unit != 0) {
    return std::nullopt;
  }
  Cut result = cut;
  for (std::int64_t& bound : result.bounds) {
    bound = (2 * bound + unit) / (2 * unit) * unit;
  }
  return result;
}

std::string Cut::describe(std::int64_t extent) const {
  Digit const digit = digit_of(*this);
  std::string text = "axis " + std::to_string(axis);
  std::int64_t unit = 1;
  if (period != extent) {
    unit = digit.stride;
    text += ", digit of stride " + std::to_string(unit) + " and size " + std::to_string(period / unit) + ",";
  }
  text += " at ";
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(bounds[i] / unit);
  }
  return text;
}

}  // namespace graticule::program
