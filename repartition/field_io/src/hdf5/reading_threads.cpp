// SPDX-License-Identifier: BSD-3-Clause
#include "reading_threads.hpp"

#include <graticule/partition/cells.hpp>
#include <graticule/partition/error.hpp>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace graticule::detail {

namespace {

constexpr int most_reading_threads = 1024;

}  // namespace

int reading_threads(int asked) {
  if (asked < 0 || asked > most_reading_threads)
    throw Error(Fault::usage, "BadOption",
                "the number of threads that read must lie in [0, " + std::to_string(most_reading_threads) + "], got " +
                    std::to_string(asked));
  if (asked > 0) return asked;
  char const* const text = std::getenv("GRATICULE_READ_THREADS");
  if (text == nullptr || *text == '\0') return 1;
  int number = 0;
  auto const* const end = text + std::strlen(text);
  auto const result = std::from_chars(text, end, number);
  if (result.ec != std::errc() || result.ptr != end || number < 1 || number > most_reading_threads)
    throw Error(Fault::usage, "BadOption",
                "GRATICULE_READ_THREADS is '" + std::string(text) + "', not a number of threads from 1 to " +
                    std::to_string(most_reading_threads));
  return number;
}

void by_threads(int num_threads, Index count, std::function<void(Index)> const& visit) {
  if (num_threads <= 1 || count <= 1) {
    for (Index i = 0; i < count; ++i) visit(i);
    return;
  }
  std::atomic<Index> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  std::atomic<Index> failed = count;
  auto const work = [&] {
    for (;;) {
      // Numbers are taken in order: all below a failed one are under way.
      auto const i = next.fetch_add(1);
      if (i >= count || i > failed) return;
      try {
        visit(i);
      } catch (...) {
        std::lock_guard const lock(mutex);
        if (i < failed) {
          failed = i;
          failure = std::current_exception();
        }
      }
    }
  };
  std::vector<std::jthread> others;
  auto const num_others = std::min<Index>(num_threads, count) - 1;
  others.reserve(std::size_t(num_others));
  try {
    for (Index i = 0; i < num_others; ++i) others.emplace_back(work);
  } catch (std::system_error const&) {
    // Those that there are do it.
  }
  work();
  others.clear();
  if (failure) std::rethrow_exception(failure);
}

void for_each_cell_by_threads(int num_threads, Box const& box, std::function<void(Indices const&)> const& visit) {
  if (num_threads <= 1) return for_each_cell(box, visit);
  by_threads(num_threads, box.num_cells(), [&](Index place) {
    auto cell = box.lo();
    for (int axis = box.ndim(); axis-- > 0; place /= box.extent(axis)) cell[axis] += place % box.extent(axis);
    visit(cell);
  });
}

}  // namespace graticule::detail
