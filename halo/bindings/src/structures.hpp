// SPDX-License-Identifier: BSD-3-Clause
// From the structures of the C interface to those of the engine, with checks.
#pragma once

#include <graticule/graticule.h>
#include <graticule/halo/detail/edges.hpp>
#include <graticule/halo/plan.hpp>
#include <graticule/partition/box.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/partition/relabel.hpp>
#include <graticule/repartition/detail/dtypes.hpp>
#include <graticule/repartition/field_view.hpp>
#include <graticule/repartition/plan.hpp>
#include <graticule/repartition/stats.hpp>

#include "errors.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace graticule::c {

/// An argument, `NAME` or `NAME[NUMBER]`, in the caller's language; its text is made where an error needs it.
struct Name {
  char const* list;
  int number = -1;
  [[nodiscard]] std::string text() const { return number < 0 ? argument_text(list) : element_text(list, number); }
  friend std::string operator+(Name const& name, std::string const& rest) { return name.text() + rest; }
};

/// Copies a structure of a program that may have been made with another version: members that it lacks are 0.
/// @throws `BadArgument` for a size that this library cannot read
template <class T>
T read_structure(T const* from, Name const& name) {
  if (from == nullptr) throw bad_argument(name + std::string(" is NULL"));
  if (from->size <= sizeof(std::size_t) || from->size > sizeof(T))
    throw bad_argument(name + ".size is " + std::to_string(from->size) + ", this library knows " +
                       std::to_string(sizeof(T)));
  if (from->size == sizeof(T)) return *from;
  T result{};
  std::memcpy(static_cast<void*>(&result), from, from->size);
  return result;
}

/// Writes as much of a structure as the caller's has room for.
template <class T>
void write_structure(T& result, T* to, char const* name) {
  (void)read_structure<T>(to, {name});
  result.size = to->size;
  std::memcpy(static_cast<void*>(to), &result, to->size);
}

/// Element `i` of the caller's array, whose elements have the size that the first one states.
template <class T>
T read_element(T const* first, int i, char const* name) {
  if (first == nullptr) throw bad_argument(std::string(name) + " is NULL");
  auto const* const at = reinterpret_cast<std::byte const*>(first) + std::size_t(i) * first->size;
  return read_structure(reinterpret_cast<T const*>(at), {name, i});
}

/// Throws unless `number` is at least `least`.
void require_count(int number, int least, char const* name);

/// `ndim` values of a list. @throws `BadArgument` for NULL, or a number of axes (argument `count`) that is not possible
[[nodiscard]] Indices indices(int64_t const* values, int ndim, char const* name, char const* count = "ndim");
/// @throws `BadArgument` unless `ndim` is `expected`
void require_ndim(int ndim, int expected);
[[nodiscard]] Box box_of(int ndim, int64_t const* lower, int64_t const* upper, char const* what = "");
[[nodiscard]] std::vector<Box> boxes_of(int ndim, int num_boxes, int64_t const* lower, int64_t const* upper);
void write_box(Box const& box, int ndim, int64_t* lower, int64_t* upper);
void write_indices(Indices const& values, int ndim, int64_t* to, char const* name);

/// The texts of a list. @throws `BadArgument` for NULL in it
[[nodiscard]] std::vector<std::string> texts_of(int count, char const* const* texts, char const* name);
/// The integers of a list; none for NULL. @throws `BadArgument` for a negative count
[[nodiscard]] std::vector<int> integers_of(int count, int const* values, char const* count_name);

/// Runs what converts arguments on every rank: it succeeds on all or throws on all. Collective.
template <class Convert>
auto agreed(Comm const& comm, Convert&& convert) {
  decltype(convert()) result;
  run_agreed(comm, [&] { result = convert(); });
  return result;
}

/// What precedes a call in the queue of its device field: waited for by the host, or ordered by the call's own queue.
enum class Before { waited_for, in_queue };

/// The memory of a field, without grid axes. @throws `BadArgument`
[[nodiscard]] FieldView memory_of(gr_field const& field, Name const& name, Before before = Before::waited_for);
/// The cells of `box` in the memory of a field whose `first` element is the first cell of `origin`.
[[nodiscard]] FieldView view_of(gr_field const& field, Box const& box, Box const& origin, Name const& name,
                                Before before = Before::waited_for);

[[nodiscard]] HaloKind halo_kind(gr_halo_kind const& kind, Name const& name);
[[nodiscard]] RelabelOptions relabel_options(gr_relabel_options const* options);
[[nodiscard]] RepartitionOptions repartition_options(gr_repartition_options const* options);
[[nodiscard]] Transport transport_of(gr_transport transport);
[[nodiscard]] gr_transport transport_of(Transport transport);
[[nodiscard]] gr_counts counts_of(PullCounts const& counts);
[[nodiscard]] gr_stats stats_of(PullStats const& stats);
[[nodiscard]] std::string report_of(std::vector<PeerPath> const& paths, PullStats const& stats);

/// `value` if it is one of an enumeration from `first` to `last`; `member` belongs to a structure.
template <class Enum, class Of>
Enum enumerator(Of value, int last, Name const& name, char const* member = "", int first = 0) {
  int const number = int(value);
  if (number < first || number > last)
    throw bad_argument(name + (std::string(member) + " is " + std::to_string(number) + "; known are " +
                               std::to_string(first) + " to " + std::to_string(last)));
  return Enum(number);
}

/// The same for an enumeration with a table (`enum_row`).
template <class Enum, class Of>
Enum enumerator(Of value, Name const& name, char const* member = "") {
  return enumerator<Enum>(value, detail::last_enum_value<Enum>, name, member);
}

/// For calls without arguments beside their fields.
struct NoCheck {
  void operator()() const noexcept {}
};

/// Runs a call of a plan, `run` with the caller's fields. Where an argument cannot be used, the plan refuses the call
/// too, by `run_without` with as many fields without memory, so that the ranks that wait for this one get an error.
template <class Field, class Run, class RunWithout>
auto run_or_refuse(int num_fields, Run&& run, RunWithout&& run_without) {
  std::exception_ptr failure;
  try {
    return run();
  } catch (Error const& error) {
    if (error.rule() != bad_argument("").rule()) throw;
    failure = std::current_exception();
  }
  try {
    std::vector<Field> const none(std::size_t(std::clamp(num_fields, 1, 1024)));
    (void)run_without(std::span<Field const>(none));
  } catch (Error const&) {
    // The argument is the error to report.
  }
  std::rethrow_exception(failure);
}

/// The fields of a call. Calls of few fields allocate nothing, and set up no more than they use.
template <class T>
class FewOrMany {
 public:
  explicit FewOrMany(int capacity) {
    if (capacity > most_few) many_.reserve(std::size_t(capacity));
    in_place_ = capacity <= most_few;
  }
  FewOrMany(FewOrMany const&) = delete;
  FewOrMany& operator=(FewOrMany const&) = delete;
  ~FewOrMany() { std::destroy_n(few(), size_); }

  void push_back(T&& value) {
    if (in_place_)
      new (few() + size_++) T(std::move(value));
    else
      many_.push_back(std::move(value));
  }
  [[nodiscard]] std::span<T const> all() const {
    return in_place_ ? std::span<T const>(few(), std::size_t(size_)) : std::span<T const>(many_);
  }

 private:
  static constexpr int most_few = 8;
  [[nodiscard]] T* few() { return reinterpret_cast<T*>(memory_); }
  [[nodiscard]] T const* few() const { return reinterpret_cast<T const*>(memory_); }

  alignas(T) std::byte memory_[most_few * sizeof(T)];
  std::vector<T> many_;
  int size_ = 0;
  bool in_place_ = true;
};

}  // namespace graticule::c
