// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/box.hpp>
#include <graticule/partition/detail/speech.hpp>

namespace graticule {

std::string to_string(Indices const& values) {
  std::string text = "(";
  bool const reversed = detail::speech() == detail::Speech::fortran;
  for (int a = 0; a < values.size(); ++a)
    text += (a ? ", " : "") + std::to_string(values[reversed ? values.size() - 1 - a : a]);
  return text + ")";
}

Box::Box(Indices lo, Indices hi) : lo_(lo), hi_(hi) {
  if (lo.size() != hi.size())
    throw Error("AxesMismatch", "a box needs as many lower as upper ends, got " + std::to_string(lo.size()) + " and " +
                                    std::to_string(hi.size()));
}

Box Box::from_extents(Indices const& extents) { return {Indices::filled(extents.size(), 0), extents}; }

Indices Box::extents() const {
  auto result = Indices::filled(ndim(), 0);
  for (int a = 0; a < ndim(); ++a) result[a] = extent(a);
  return result;
}

bool Box::empty() const noexcept {
  for (int a = 0; a < ndim(); ++a)
    if (hi_[a] <= lo_[a]) return true;
  return false;
}

Index Box::num_cells() const {
  if (empty()) return 0;
  Index cells = 1;
  for (int a = 0; a < ndim(); ++a) {
    Index extent = 0;
    if (__builtin_sub_overflow(hi_[a], lo_[a], &extent) || __builtin_mul_overflow(cells, extent, &cells))
      throw Error("OutOfRange", "the box " + to_string(*this) + " has more than 2^63 cells");
  }
  return cells;
}

bool Box::contains(Indices const& cell) const noexcept {
  if (cell.size() != ndim()) return false;
  for (int a = 0; a < ndim(); ++a)
    if (cell[a] < lo_[a] || cell[a] >= hi_[a]) return false;
  return true;
}

bool Box::contains(Box const& other) const noexcept {
  if (other.ndim() != ndim()) return false;
  if (other.empty()) return true;
  for (int a = 0; a < ndim(); ++a)
    if (other.lo_[a] < lo_[a] || other.hi_[a] > hi_[a]) return false;
  return true;
}

Box intersection(Box const& a, Box const& b) {
  if (a.ndim() != b.ndim())
    throw Error("AxesMismatch",
                "boxes of an intersection need equally many axes, got " + to_string(a) + " and " + to_string(b));
  Box result = a;
  for (int axis = 0; axis < a.ndim(); ++axis)
    result.set(axis, std::max(a.lo(axis), b.lo(axis)), std::min(a.hi(axis), b.hi(axis)));
  return result;
}

Box grown(Box const& box, std::span<Width const> widths) {
  if (int(widths.size()) != box.ndim())
    throw Error("AxesMismatch", "one width per axis is needed for the box " + to_string(box) + ", got " +
                                    std::to_string(widths.size()));
  if (box.empty()) return box;
  Box result = box;
  for (int a = 0; a < box.ndim(); ++a)
    result.set(a, box.lo(a) - widths[std::size_t(a)].lower, box.hi(a) + widths[std::size_t(a)].upper);
  return result;
}

std::string to_string(Box const& box) {
  std::string text;
  if (detail::speech() == detail::Speech::fortran) {
    for (int a = box.ndim() - 1; a >= 0; --a)
      text += (text.empty() ? "(" : ", ") + std::to_string(box.lo(a) + 1) + ":" + std::to_string(box.hi(a));
    return text.empty() ? "()" : text + ")";
  }
  for (int a = 0; a < box.ndim(); ++a)
    text += (a ? " x [" : "[") + std::to_string(box.lo(a)) + ", " + std::to_string(box.hi(a)) + ")";
  return text;
}

}  // namespace graticule
