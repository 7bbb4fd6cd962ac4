// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/samples/detail/read_ahead.hpp>

#include <utility>

namespace graticule::samples {

Background::~Background() {
  {
    std::lock_guard const lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Background::start(std::function<void()> job) {
  {
    std::lock_guard const lock(mutex_);
    job_ = std::move(job);
  }
  changed_.notify_all();
}

std::exception_ptr Background::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !job_; });
  return std::exchange(failure_, nullptr);
}

void Background::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ending_ || job_; });
    if (!job_) return;
    lock.unlock();
    std::exception_ptr failure;
    try {
      job_();
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    job_ = nullptr;
    failure_ = failure;
    changed_.notify_all();
  }
}

}  // namespace graticule::samples
