// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/error.hpp>

#include "program_report.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>

namespace graticule::info {

namespace {

constexpr auto name = "graticule-info-network";

/// Beside this program, whatever it was called by; empty where that is not known.
std::filesystem::path with_libtorch() {
  std::error_code error;
  auto const self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::filesystem::path() : self.parent_path() / name;
}

}  // namespace

void start_program_reader(int argc, char** argv) {
  bool const wanted = std::any_of(argv + std::min(argc, 1), argv + argc, [](std::string_view argument) {
    return is_program(argument) || argument.starts_with("--config");
  });
  if (wanted) (void)::execv(with_libtorch().c_str(), argv);
}

int show_program(app::Context&, Options const& options) {
  throw Error(Fault::usage, "Unsupported",
              options.file + ": exported networks are read by " + with_libtorch().string() +
                  ", which is missing or cannot be started");
}

}  // namespace graticule::info
