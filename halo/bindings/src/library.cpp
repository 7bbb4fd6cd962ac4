// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/end.hpp>
#include <graticule/partition/detail/patience.hpp>
#include <graticule/partition/stall.hpp>
#include <graticule/repartition/detail/copy_kernels.hpp>
#include <graticule/repartition/runtime.hpp>

#include "errors.hpp"
#include "extension.hpp"
#include "handle_table.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace graticule::c {

namespace {

/// What the calls of `gr_init` started.
struct Started {
  std::mutex mutex;
  int num_inits = 0;
  std::optional<Runtime> runtime;
};

Started& started() {
  // Never destroyed: the program decides when MPI ends.
  static auto* const only = new Started;
  return *only;
}

void set_check_mode(char const* mode) {
  constexpr std::array<std::string_view, 4> known{"none", "comm", "cells", "all"};
  if (std::find(known.begin(), known.end(), mode) == known.end())
    throw bad_argument("check_mode is '" + std::string(mode) + "'; known are none, comm, cells and all");
  setenv("GRATICULE_CHECK", mode, 1);
}

/// The handles that exist, such as `1 gr_net, 2 gr_layout`; empty when there are none.
std::string live_handles() {
  auto text = extension_handles();
  if (auto const own = HandleTable::get().live(); !own.empty()) text += (text.empty() ? "" : ", ") + own;
  return text;
}

void free_handles() {
  if (auto const live = live_handles(); !live.empty() && detail::kind_of_check() != 0)
    std::fprintf(stderr, "graticule: gr_finalize frees what the program has not: %s\n", live.c_str());
  // Other ranks may not come here.
  detail::HurryScope const scope;
  free_extension_handles();
  HandleTable::get().free_all();
}

}  // namespace

void require_init() {
  if (started().num_inits == 0) throw Error("WrongState", "gr_init was not called");
}

void require_started() {
  require_init();
  if (detail::mpi_is_over())
    throw Error("WrongState", "MPI has ended (MPI_Finalize); handles can be freed, and nothing else can be called");
}

namespace {

thread_local std::string next_name;

}  // namespace

void name_next_plan(std::string name) { next_name = std::move(name); }

std::string name_of_next_plan() { return std::exchange(next_name, {}); }

}  // namespace graticule::c

using namespace graticule;
using namespace graticule::c;

namespace {

/// As `guarded`, also before `gr_init`.
template <class Body>
gr_status guarded_always(char const* function, Body&& body) noexcept {
  try {
    body();
    return GR_SUCCESS;
  } catch (...) {
    return record(function, std::current_exception());
  }
}

}  // namespace

gr_status gr_version(int* major, int* minor, int* patch) {
  return guarded_always(__func__, [&] {
    auto& first = required(major, "major");
    auto& second = required(minor, "minor");
    required(patch, "patch") = GR_VERSION_PATCH;
    first = GR_VERSION_MAJOR;
    second = GR_VERSION_MINOR;
  });
}

gr_status gr_init(int num_threads, char const* check_mode) {
  return guarded_always(__func__, [&] {
    if (num_threads < 0) throw bad_argument("num_threads is " + std::to_string(num_threads));
    auto& library = started();
    std::lock_guard const lock(library.mutex);
    if (check_mode != nullptr) set_check_mode(check_mode);
    if (library.num_inits == 0) {
      int argc = 0;
      std::array<char*, 1> none{nullptr};
      char** argv = none.data();
      library.runtime.emplace(argc, argv, num_threads);
    }
    ++library.num_inits;
  });
}

gr_status gr_finalize(void) {
  return guarded_always(__func__, [] {
    auto& library = started();
    std::lock_guard const lock(library.mutex);
    require_init();
    if (library.num_inits == 1) {
      free_handles();
      library.runtime.reset();
    }
    --library.num_inits;
  });
}

gr_status gr_is_initialized(int* initialized) {
  return guarded_always(__func__, [&] { required(initialized, "initialized") = started().num_inits > 0 ? 1 : 0; });
}

gr_status gr_plan_name(char const* name) {
  return GR_BODY({ name_next_plan(&required(name, "name")); });
}

gr_status gr_long_copies(char const** name) {
  return GR_BODY({
    auto const* const kernel = chosen_copy_kernel();
    required(name, "name") = kept_text(kernel != nullptr ? std::string(kernel->name) : std::string());
  });
}

gr_status gr_set_patience(double report_seconds, double error_seconds) {
  return GR_BODY({ set_stall_rule({report_seconds, error_seconds}); });
}
