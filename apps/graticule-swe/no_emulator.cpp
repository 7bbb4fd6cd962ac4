// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/checkpoint.hpp>
#include <graticule/partition/error.hpp>

#include "emulator.hpp"

namespace graticule::swe {

struct Emulator::Parts {};

std::string torch_version() { return "none"; }
void use_torch_threads(int) {}

namespace {

[[noreturn]] void refuse(std::filesystem::path const& path) {
  throw Error(Fault::usage, "Unsupported",
              "--emulator " + path.string() +
                  ": this Graticule was built without LibTorch, which runs trained networks; "
                  "build it with GRATICULE_ENABLE_TORCH=ON");
}

}  // namespace

EmulatorFacts read_emulator(Comm const&, std::filesystem::path const& path) { refuse(path); }

// `read_emulator` comes before any of these.
Emulator::Emulator(Solver&, EmulatorFacts const& facts, Index, Index) { refuse(facts.file); }
Emulator::~Emulator() = default;
void Emulator::begin(Diagnostics&) {}
void Emulator::step(Index, Diagnostics&) {}
void Emulator::replace_winds(Diagnostics::Centred&) const {}
void Emulator::save(CheckpointWriter&) {}
void Emulator::load(Checkpoint const&) {}

}  // namespace graticule::swe
