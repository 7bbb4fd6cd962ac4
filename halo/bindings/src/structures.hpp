// SPDX-License-Identifier: BSD-3-Clause
// From the structures of the C interface to those of the engine, with checks.
#pragma once

#include <graticule/graticule.h>
#include <graticule/halo/plan.hpp>
#include <graticule/partition/box.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/repartition/field_view.hpp>
#include <graticule/repartition/plan.hpp>
#include <graticule/repartition/stats.hpp>

#include "errors.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace graticule::c {

/// Argument `name[number]`, or `name` for a number below 0.
[[nodiscard]] std::string named(char const* name, int number);

/// Copies a structure of a program that may have been made with another version: members that it lacks are 0.
/// @throws `BadArgument` for a size that this library cannot read
template <class T>
T read_structure(T const* from, std::string const& name) {
  if (from == nullptr) throw bad_argument(name + " is NULL");
  if (from->size <= sizeof(std::size_t) || from->size > sizeof(T))
    throw bad_argument(name + ".size is " + std::to_string(from->size) + ", this library knows " +
                       std::to_string(sizeof(T)));
  T result{};
  std::memcpy(static_cast<void*>(&result), from, from->size);
  return result;
}

/// Writes as much of a structure as the caller's has room for.
template <class T>
void write_structure(T& result, T* to, char const* name) {
  (void)read_structure<T>(to, name);
  result.size = to->size;
  std::memcpy(static_cast<void*>(to), &result, to->size);
}

/// Element `i` of the caller's array, whose elements have the size that the first one states.
template <class T>
T read_element(T const* first, int i, char const* name) {
  if (first == nullptr) throw bad_argument(std::string(name) + " is NULL");
  auto const* const at = reinterpret_cast<std::byte const*>(first) + std::size_t(i) * first->size;
  return read_structure(reinterpret_cast<T const*>(at), named(name, i));
}

/// Throws unless `number` is at least `least`.
void require_count(int number, int least, char const* name);

/// `ndim` values of a list. @throws `BadArgument` for NULL or too many axes, and unless `ndim` is `expected`
[[nodiscard]] Indices indices(int64_t const* values, int ndim, char const* name);
void require_ndim(int ndim, int expected);
[[nodiscard]] Box box_of(int ndim, int64_t const* lower, int64_t const* upper, char const* what = "");
[[nodiscard]] std::vector<Box> boxes_of(int ndim, int num_boxes, int64_t const* lower, int64_t const* upper);
void write_box(Box const& box, int ndim, int64_t* lower, int64_t* upper);
void write_indices(Indices const& values, int ndim, int64_t* to, char const* name);

/// Runs what converts arguments on every rank: it succeeds on all or throws on all. Collective.
template <class Convert>
auto agreed(Comm const& comm, Convert&& convert) {
  decltype(convert()) result;
  run_agreed(comm, [&] { result = convert(); });
  return result;
}

/// The memory of a field, without grid axes. @throws `BadArgument`
[[nodiscard]] FieldView memory_of(gr_field const& field, std::string const& name);
/// The cells of `box` in the memory of a field whose `first` element is the first cell of `origin`.
[[nodiscard]] FieldView view_of(gr_field const& field, Box const& box, Box const& origin, std::string const& name);

[[nodiscard]] HaloKind halo_kind(gr_halo_kind const& kind, std::string const& name);
[[nodiscard]] RepartitionOptions repartition_options(gr_repartition_options const* options);
[[nodiscard]] Transport transport_of(gr_transport transport);
[[nodiscard]] gr_transport transport_of(Transport transport);
[[nodiscard]] gr_counts counts_of(PullCounts const& counts);
[[nodiscard]] gr_stats stats_of(PullStats const& stats);
[[nodiscard]] std::string report_of(std::vector<PeerPath> const& paths, PullStats const& stats);

/// `value` if it is one of an enumeration that ends with `last`.
template <class Enum, class Of>
Enum enumerator(Of value, int last, std::string const& name, int first = 0) {
  int const number = int(value);
  if (number < first || number > last)
    throw bad_argument(name + " is " + std::to_string(number) + "; known are " + std::to_string(first) + " to " +
                       std::to_string(last));
  return Enum(number);
}

/// The fields of a call. Calls of few fields allocate nothing.
template <class T>
class FewOrMany {
 public:
  explicit FewOrMany(int size) : size_(std::size_t(std::max(size, 0))) {
    if (size_ > few_.size()) many_.resize(size_);
  }
  [[nodiscard]] T& operator[](int i) { return (size_ > few_.size() ? many_.data() : few_.data())[i]; }
  [[nodiscard]] std::span<T const> all() const { return {size_ > few_.size() ? many_.data() : few_.data(), size_}; }

 private:
  std::size_t size_;
  std::array<T, 8> few_{};
  std::vector<T> many_;
};

}  // namespace graticule::c
