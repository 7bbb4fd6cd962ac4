// SPDX-License-Identifier: BSD-3-Clause
// The device that a driver computes on.
#pragma once

#include <graticule/app/report.hpp>
#include <graticule/partition/comm.hpp>

#include <CLI/CLI.hpp>

#include <functional>
#include <optional>
#include <string>

namespace graticule::app {

/// What a library finds of the devices of a kind.
struct FoundDevices {
  int count = 0;             ///< that this process sees
  std::string missing = {};  ///< without any: what is missing, such as `LibTorch 2.9 was built without CUDA`
};

/// Memory of a device, in bytes; 0: not known.
struct DeviceMemory {
  Index total_bytes = 0;
  Index free_bytes = 0;      ///< now, of all programs that use it
  Index peak_bytes = 0;      ///< largest sum of the tensors of this rank
  Index reserved_bytes = 0;  ///< most that LibTorch has taken for this rank
};

/// Memory of the device that the engine computes on, as its runtime reports it, and what a library has counted.
/// @pre Kokkos has started
[[nodiscard]] DeviceMemory memory_of_device(std::optional<DeviceMemory> const& of_library = {});

/// Number of different `device` among the ranks of this node. Collective.
[[nodiscard]] int num_devices_of_node(Comm const& comm, std::string const& device);

/// The option `--device`, and what it has chosen.
///
/// Kinds are cpu, cuda and hip. Without a number, the ranks of a node take its devices in turn, by their number on the
/// node and not by variables of a launcher: rank 5 of a node with 4 devices computes on device 1.
class DeviceOption {
 public:
  /// `LibTorch's devices of a kind`, for drivers that use it.
  using Library = std::function<FoundDevices(std::string const& kind)>;

  void declare(CLI::App& app);

  /// Selects the device and configures Kokkos; call it before Kokkos starts. Collective.
  ///
  /// `auto` takes a device where Kokkos and the library both have one on every rank, else the host. Kokkos starts its
  /// back end for devices on the host, too: the ranks of a node take its devices in turn for that.
  /// @throws `BadOption` (usage), on all ranks, for a missing device; the message names the library without it, or
  /// reports how many devices are visible. `NoDevice` (usage), on all ranks, for the host where Kokkos was built for
  /// devices and a rank sees none
  void choose(Comm const& comm, Library const& library = {});

  /// As it was given.
  [[nodiscard]] std::string const& asked() const noexcept { return asked_; }
  /// `cpu`, `cuda:1`, `hip:0`. @pre `choose`
  [[nodiscard]] std::string const& name() const noexcept { return name_; }
  [[nodiscard]] bool is_host() const noexcept { return name_ == "cpu"; }
  /// For a log: `the host`, `cuda, 8 ranks of a node on 4 devices`, where these are 4 whatever numbers the ranks have
  /// for them.
  [[nodiscard]] std::string describe() const;
  /// `device` of a report: what was asked for, and each rank's device and its memory. Collective.
  /// @param of_library what it has counted, which is added to `memory_of_device`
  [[nodiscard]] Report::Json report(Comm const& comm, std::optional<DeviceMemory> const& of_library = {}) const;

 private:
  std::string asked_ = "auto";
  std::string name_ = "cpu";
  std::string bus_address_ = {};
  int num_ranks_ = 1;    ///< of the node
  int num_devices_ = 0;  ///< that they share
};

/// A value of `--device` as kind and number. @throws `BadOption` (usage)
struct AskedDevice {
  std::string kind;
  std::optional<int> index;
};
[[nodiscard]] AskedDevice asked_device(std::string const& text);

}  // namespace graticule::app
