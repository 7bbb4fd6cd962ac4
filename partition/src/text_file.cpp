// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/text_file.hpp>
#include <graticule/partition/error.hpp>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <system_error>

namespace graticule {

std::string read_text(std::filesystem::path const& path) {
  auto const text = [&](std::string const& reason) { return path.string() + " cannot be read: " + reason; };
  auto const refuse = [&](std::string const& reason) { throw Error(Fault::input, "UnreadableFile", text(reason)); };
  std::error_code error;
  auto const type = std::filesystem::status(path, error).type();
  if (type == std::filesystem::file_type::not_found) throw Error(Fault::input, "NoSuchFile", text(error.message()));
  if (type == std::filesystem::file_type::none) refuse(error.message());
  if (type == std::filesystem::file_type::directory) refuse("it is a directory");
  if (type != std::filesystem::file_type::regular) refuse("it is not a regular file");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  if (file.peek() != std::ifstream::traits_type::eof()) bytes << file.rdbuf();
  if (!file.is_open() || file.bad() || bytes.fail()) refuse(std::generic_category().message(errno));
  return bytes.str();
}

}  // namespace graticule
