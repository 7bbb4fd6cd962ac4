// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/app/shared_file.hpp>
#include <graticule/partition/detail/text_file.hpp>
#include <graticule/partition/error.hpp>

namespace graticule::app {

std::string read_shared(Comm const& comm, std::filesystem::path const& path, std::string const& option) {
  std::string text;
  run_agreed(comm, [&] {
    if (comm.rank() != 0) return;
    try {
      text = read_text(path);
    } catch (Error const& error) {
      if (option.empty()) throw;
      throw Error(Fault::usage, "BadOption", option + " " + error.text());
    }
  });
  return comm.broadcast(text, 0);
}

}  // namespace graticule::app
