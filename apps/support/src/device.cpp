// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/app/device.hpp>
#include <graticule/app/numbers.hpp>

#include <Kokkos_Core.hpp>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

namespace graticule::app {

namespace {

constexpr std::array<char const*, 2> device_kinds{"cuda", "hip"};

std::string in_capitals(std::string kind) {
  for (char& c : kind) c = char(std::toupper(static_cast<unsigned char>(c)));
  return kind;
}

/// Kokkos may not have started.
FoundDevices devices_of_kokkos(std::string const& kind) {
  std::string const spaces = Kokkos::DefaultExecutionSpace::name();
  int count = 0;
#if defined(KOKKOS_ENABLE_CUDA)
  std::string const own = "cuda";
  if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
#elif defined(KOKKOS_ENABLE_HIP)
  std::string const own = "hip";
  if (hipGetDeviceCount(&count) != hipSuccess) count = 0;
#else
  std::string const own;
#endif
  if (kind != own) return {0, "Kokkos was built without " + in_capitals(kind) + " (it computes on " + spaces + ")"};
  if (count == 0) return {0, "no " + in_capitals(kind) + " device is visible"};
  return {count, {}};
}

/// As many as both see.
FoundDevices devices_of_all(std::string const& kind, DeviceOption::Library const& library) {
  auto const of_engine = devices_of_kokkos(kind);
  auto const of_library = library ? library(kind) : of_engine;
  if (of_engine.count > 0 && of_library.count > 0) return {std::min(of_engine.count, of_library.count), {}};
  auto missing = of_engine.missing;
  if (library && of_library.count == 0 && of_library.missing != of_engine.missing)
    missing += (missing.empty() ? "" : "; ") + of_library.missing;
  return {0, missing};
}

bool on_every_rank(Comm const& comm, bool found) {
  std::array<Index, 1> without{found ? 0 : 1};
  comm.max(without);
  return without[0] == 0;
}

/// Before Kokkos starts, which else would follow variables of launchers.
void tell_kokkos([[maybe_unused]] int device) {
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP)
  ::setenv("KOKKOS_DEVICE_ID", std::to_string(device).c_str(), 1);
#endif
}

}  // namespace

AskedDevice asked_device(std::string const& text) {
  auto const wrong = [&](std::string const& why) {
    return Error(Fault::usage, "BadOption",
                 "--device " + text + ": " + why + "; valid are auto, cpu, cuda[:N] and hip[:N]");
  };
  auto const colon = text.find(':');
  AskedDevice asked{text.substr(0, colon), std::nullopt};
  bool const is_device = std::find(device_kinds.begin(), device_kinds.end(), asked.kind) != device_kinds.end();
  if (!is_device && asked.kind != "auto" && asked.kind != "cpu") throw wrong("no such device");
  if (colon == std::string::npos) return asked;
  if (!is_device) throw wrong(asked.kind + " takes no number");
  asked.index = number_from<int>(std::string_view(text).substr(colon + 1));
  if (asked.index.value_or(-1) < 0) throw wrong("N is a whole number from 0");
  return asked;
}

void DeviceOption::declare(CLI::App& app) {
  app.add_option(
         "--device", asked_,
         "Device that computes: auto (a GPU where there is one), cpu, cuda or hip; cuda:1 is one device for all "
         "ranks, else the ranks of a node take its devices in turn")
      ->type_name("auto|cpu|cuda[:N]|hip[:N]")
      ->check(CLI::Validator(
          [](std::string& text) -> std::string {
            try {
              (void)asked_device(text);
              return {};
            } catch (Error const& error) {
              return error.what();
            }
          },
          ""))
      ->capture_default_str();
}

void DeviceOption::choose(Comm const& comm, Library const& library) {
  auto const asked = asked_device(asked_);
  name_ = "cpu";
  num_ranks_ = comm.num_node_ranks();
  num_devices_ = 0;
  auto const take = [&](std::string const& kind, int count) {
    int const device = asked.index ? *asked.index : comm.node_rank() % count;
    num_devices_ = asked.index ? 1 : std::min(count, num_ranks_);
    name_ = kind + ":" + std::to_string(device);
    tell_kokkos(device);
  };
  if (asked.kind == "cpu") return;
  if (asked.kind == "auto") {
    for (std::string const kind : device_kinds) {
      auto const found = devices_of_all(kind, library);
      if (on_every_rank(comm, found.count > 0)) return take(kind, found.count);
      if (found.count > 0) spdlog::warn("--device auto: other ranks have no {} device: all compute on the host", kind);
    }
    return;
  }
  auto const found = devices_of_all(asked.kind, library);
  run_agreed(comm, [&] {
    if (found.count == 0) throw Error(Fault::usage, "BadOption", "--device " + asked_ + ": " + found.missing);
    if (asked.index && *asked.index >= found.count)
      throw Error(Fault::usage, "BadOption",
                  "--device " + asked_ + ": this process sees " + std::to_string(found.count) + " of them, from " +
                      asked.kind + ":0 on");
  });
  take(asked.kind, found.count);
}

std::string DeviceOption::describe() const {
  if (is_host()) return "the host";
  return name_.substr(0, name_.find(':')) + ", " + std::to_string(num_ranks_) + (num_ranks_ == 1 ? " rank" : " ranks") +
         " of a node on " + std::to_string(num_devices_) + (num_devices_ == 1 ? " device" : " devices");
}

Report::Json DeviceOption::report(Comm const& comm, std::optional<DeviceMemory> const& memory) const {
  auto const kind = name_.substr(0, name_.find(':'));
  Report::Json result{{"asked", asked_}, {"kind", kind}};
  if (is_host()) return result;
  auto const m = memory.value_or(DeviceMemory{});
  std::array<Index, 5> const own{Index(std::stoi(name_.substr(name_.find(':') + 1))), m.total_bytes, m.free_bytes,
                                 m.peak_bytes, m.reserved_bytes};
  std::vector<Index> all(own.size() * std::size_t(comm.num_ranks()));
  comm.gather_to_all(own.data(), Index(sizeof own), all.data());
  result["ranks"] = Report::Json::array();
  for (std::size_t r = 0; r < std::size_t(comm.num_ranks()); ++r) {
    auto const* const of_rank = all.data() + r * own.size();
    Report::Json rank{{"rank", r}, {"device", kind + ":" + std::to_string(of_rank[0])}};
    std::array<char const*, 4> const names{"total_bytes", "free_bytes", "peak_bytes", "reserved_bytes"};
    for (std::size_t i = 0; i < names.size(); ++i)
      if (of_rank[i + 1] > 0) rank[names[i]] = of_rank[i + 1];
    result["ranks"].push_back(rank);
  }
  return result;
}

}  // namespace graticule::app
