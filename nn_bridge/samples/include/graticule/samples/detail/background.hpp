// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace graticule::samples {

/// A thread that runs one job at a time in the background. Jobs make no MPI calls.
class Background {
 public:
  Background() : thread_([this] { run(); }) {}
  Background(Background const&) = delete;
  Background& operator=(Background const&) = delete;
  /// Waits for the running job; its failure is discarded.
  ~Background();

  /// Starts `job` immediately. @pre no job is running: `wait` was called after the last `start`
  void start(std::function<void()> job);
  /// Blocks until the job, if any, has ended. @return what it threw, or nothing
  [[nodiscard]] std::exception_ptr wait();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> job_;  ///< under way, or none
  std::exception_ptr failure_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace graticule::samples
