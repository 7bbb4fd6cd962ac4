// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/app/device.hpp>
#include <graticule/app/numbers.hpp>
#include <graticule/repartition/detail/devices.hpp>

#include <Kokkos_Core.hpp>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>
#include <vector>

namespace graticule::app {

namespace {

constexpr std::array<char const*, 2> device_kinds{"cuda", "hip"};

std::string in_capitals(std::string kind) {
  for (char& c : kind) c = char(std::toupper(static_cast<unsigned char>(c)));
  return kind;
}

FoundDevices devices_of_kokkos(std::string const& kind) {
  auto const found = devices_of_backend();
  std::string const spaces = Kokkos::DefaultExecutionSpace::name();
  if (kind != found.kind)
    return {0, "Kokkos was built without " + in_capitals(kind) + " (it computes on " + spaces + ")"};
  if (found.count == 0) return {0, "no " + in_capitals(kind) + " device is visible"};
  return {found.count, {}};
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
void tell_kokkos(int device) { ::setenv("KOKKOS_DEVICE_ID", std::to_string(device).c_str(), 1); }

/// Kokkos starts its back end for devices even so. Collective.
void prepare_host(Comm const& comm) {
  auto const found = devices_of_backend();
  run_agreed(comm, [&] { require_device(found); });
  if (found.count > 0) tell_kokkos(comm.node_rank() % found.count);
}

/// Text of a few letters that ranks send each other.
using Letters = std::array<char, 32>;

Letters letters_of(std::string const& text) {
  Letters result{};
  std::copy_n(text.begin(), std::min(text.size(), result.size() - 1), result.begin());
  return result;
}

/// In order of ranks. Collective.
std::vector<std::string> gathered(Comm const& comm, std::string const& text) {
  auto const own = letters_of(text);
  std::vector<Letters> all(std::size_t(comm.num_ranks()));
  comm.gather_to_all(own.data(), Index(sizeof own), all.data());
  std::vector<std::string> result;
  for (auto const& letters : all) result.emplace_back(letters.data());
  return result;
}

}  // namespace

int num_devices_of_node(Comm const& comm, std::string const& device) {
  auto const all = gathered(comm, device);
  std::set<std::string> of_node;
  for (int r = 0; r < comm.num_ranks(); ++r)
    if (comm.on_this_node(r)) of_node.insert(all[std::size_t(r)]);
  return int(of_node.size());
}

DeviceMemory memory_of_device(std::optional<DeviceMemory> const& of_library) {
  auto result = of_library.value_or(DeviceMemory{});
  if (auto const found = graticule::memory_of_device()) {
    result.total_bytes = Index(found->total_bytes);
    result.free_bytes = Index(found->free_bytes);
  }
  return result;
}

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
  app.add_option("--device", asked_,
                 "Device to compute on.\n"
                 "auto: a GPU if every rank has one, otherwise the processor (cpu)\n"
                 "cuda, hip: a GPU of NVIDIA, of AMD; the ranks of a node take its GPUs in turn\n"
                 "cuda:1: the GPU of this number, for all ranks")
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
          ""));
}

void DeviceOption::choose(Comm const& comm, Library const& library) {
  auto const asked = asked_device(asked_);
  name_ = "cpu";
  num_ranks_ = comm.num_node_ranks();
  num_devices_ = 0;
  auto const take = [&](std::string const& kind, int count) {
    int const device = asked.index ? *asked.index : comm.node_rank() % count;
    name_ = kind + ":" + std::to_string(device);
    bus_address_ = bus_address(device);
    num_devices_ = num_devices_of_node(comm, bus_address_.empty() ? name_ : bus_address_);
    tell_kokkos(device);
  };
  if (asked.kind == "cpu") return prepare_host(comm);
  if (asked.kind == "auto") {
    for (std::string const kind : device_kinds) {
      auto const found = devices_of_all(kind, library);
      if (on_every_rank(comm, found.count > 0)) return take(kind, found.count);
      if (found.count > 0) spdlog::warn("--device auto: other ranks have no {} device: all compute on the host", kind);
    }
    return prepare_host(comm);
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

Report::Json DeviceOption::report(Comm const& comm, std::optional<DeviceMemory> const& of_library) const {
  auto const kind = name_.substr(0, name_.find(':'));
  Report::Json result{{"asked", asked_}, {"kind", kind}};
  if (is_host()) return result;
  auto const m = memory_of_device(of_library);
  std::array<Index, 6> const own{Index(std::stoi(name_.substr(name_.find(':') + 1))),
                                 m.total_bytes,
                                 m.free_bytes,
                                 m.total_bytes - m.free_bytes,
                                 m.peak_bytes,
                                 m.reserved_bytes};
  std::vector<Index> all(own.size() * std::size_t(comm.num_ranks()));
  comm.gather_to_all(own.data(), Index(sizeof own), all.data());
  auto const bus_addresses = gathered(comm, bus_address_);
  result["ranks"] = Report::Json::array();
  for (std::size_t r = 0; r < std::size_t(comm.num_ranks()); ++r) {
    auto const* const of_rank = all.data() + r * own.size();
    Report::Json rank{{"rank", r}, {"device", kind + ":" + std::to_string(of_rank[0])}};
    if (!bus_addresses[r].empty()) rank["bus_address"] = bus_addresses[r];
    std::array<char const*, 5> const names{"total_bytes", "free_bytes", "used_bytes", "peak_bytes", "reserved_bytes"};
    for (std::size_t i = 0; i < names.size(); ++i)
      if (of_rank[i + 1] > 0) rank[names[i]] = of_rank[i + 1];
    result["ranks"].push_back(rank);
  }
  return result;
}

}  // namespace graticule::app
