// SPDX-License-Identifier: BSD-3-Clause
// A program of tests whose device library does not end.
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <unistd.h>

namespace {

TEST(Unending, has_started_what_does_not_end) {
  ASSERT_TRUE(Kokkos::is_initialized());
  Kokkos::push_finalize_hook([] {
    for (;;) pause();
  });
}

}  // namespace
