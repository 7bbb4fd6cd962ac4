// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>
#include <graticule/partition/layout.hpp>
#include <graticule/repartition/transport.hpp>

#include <nlohmann/json.hpp>

#include <chrono>
#include <filesystem>
#include <span>
#include <string>

namespace graticule::app {

/// The driver's JSON report. Each rank has one; that of rank 0 is written.
///
/// `data()` starts with `driver`, `version`, `command`, `num_ranks`, `num_nodes`; `seconds.total` is set on writing,
/// and `long_copies`, the name in `GRATICULE_COPY` of how rank 0 copied long runs, where it did.
class Report {
 public:
  using Json = nlohmann::ordered_json;

  Report() : begin_(Clock::now()) {}

  [[nodiscard]] Json& data() noexcept { return data_; }
  /// Sets `partition`: the process grid, and the cuts of each axis that is cut, by the axis' name.
  void set_partition(Layout const& layout, std::vector<std::string> const& axes);
  /// What this rank sent.
  struct Sent {
    std::string unit;  ///< such as `halo exchanges of one step`
    double num_messages = 0;
    double num_bytes = 0;
  };
  /// Sets `transport`: how peers are reached, and what ranks sent: least, mean and most. Collective over `all`.
  /// @param paths to peers by their ranks in `exchanging`
  void set_transport(Comm const& all, Comm const& exchanging, std::span<PeerPath const> paths, Sent const& sent);
  /// Adds to `seconds[phase]`.
  void add_seconds(std::string const& phase, double seconds);

  /// Adds the time from here to the end of the scope to a phase.
  class Phase {
   public:
    Phase(Report& report, std::string name) : report_(report), name_(std::move(name)), begin_(Clock::now()) {}
    Phase(Phase const&) = delete;
    Phase& operator=(Phase const&) = delete;
    ~Phase() { report_.add_seconds(name_, std::chrono::duration<double>(Clock::now() - begin_).count()); }

   private:
    Report& report_;
    std::string name_;
    std::chrono::steady_clock::time_point begin_;
  };
  [[nodiscard]] Phase phase(std::string name) { return {*this, std::move(name)}; }

  /// Writes the report under a temporary name next to `path` and renames it. Called on one rank.
  void write(std::filesystem::path const& path);

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_;
  Json data_ = Json::object();
};

/// `value` over all ranks: {`minimum`, `mean`, `maximum`}. Collective. Cost: two all-reduces.
[[nodiscard]] Report::Json minimum_mean_maximum(Comm const& comm, double value);

}  // namespace graticule::app
