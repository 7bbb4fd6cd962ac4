// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/failure.hpp>
#include <graticule/partition/stall.hpp>
#include <graticule/repartition/runtime.hpp>

#include "extension.hpp"
#include "handles.hpp"
#include "queues.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string_view>

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

template <class T>
void count(std::string& text, char const* name) {
  if (T::live == 0) return;
  text += (text.empty() ? "" : ", ") + std::to_string(T::live) + " " + name;
}

}  // namespace

void require_started() {
  if (started().num_inits == 0) throw Error("WrongState", "gr_init was not called");
}

std::string live_handles() {
  std::string text;
  count<gr_pending>(text, "gr_pending");
  count<gr_comm>(text, "gr_comm");
  count<gr_teams>(text, "gr_teams");
  count<gr_cuts>(text, "gr_cuts");
  count<gr_layout>(text, "gr_layout");
  count<gr_halo>(text, "gr_halo");
  count<gr_halo_depth>(text, "gr_halo_depth");
  count<gr_node_memory>(text, "gr_node_memory");
  count<gr_repartition>(text, "gr_repartition");
  count<gr_zonal>(text, "gr_zonal");
  count<gr_area_sum>(text, "gr_area_sum");
  count<gr_attributes>(text, "gr_attributes");
  count<gr_file>(text, "gr_file");
  count<gr_writer>(text, "gr_writer");
  count<gr_checkpoints>(text, "gr_checkpoints");
  count<gr_checkpoint_writer>(text, "gr_checkpoint_writer");
  count<gr_checkpoint>(text, "gr_checkpoint");
  if (auto const others = extension_handles(); !others.empty()) text += (text.empty() ? "" : ", ") + others;
  return text;
}

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
    require_started();
    if (library.num_inits == 1) {
      if (auto const live = live_handles(); !live.empty())
        throw Error("WrongState", live + " were not freed; free them and call it again");
      library.runtime.reset();
    }
    --library.num_inits;
  });
}

gr_status gr_is_initialized(int* initialized) {
  return guarded_always(__func__, [&] { required(initialized, "initialized") = started().num_inits > 0 ? 1 : 0; });
}

gr_status gr_set_patience(double report_seconds, double error_seconds) {
  return GR_BODY({ set_stall_rule({report_seconds, error_seconds}); });
}
