// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/resource.h>
#include <unistd.h>

namespace graticule::test {

/// Leaves this process without a free file descriptor until it is destroyed.
class NoFiles {
 public:
  NoFiles() {
    getrlimit(RLIMIT_NOFILE, &before_);
    int const next = dup(0);
    close(next);
    auto limit = before_;
    limit.rlim_cur = rlim_t(next);
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  NoFiles(NoFiles const&) = delete;
  NoFiles& operator=(NoFiles const&) = delete;
  ~NoFiles() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

}  // namespace graticule::test
