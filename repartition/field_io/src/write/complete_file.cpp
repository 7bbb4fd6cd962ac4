// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/detail/complete_file.hpp>
#include <graticule/field_io/detail/temporary_file.hpp>

#include <cerrno>
#include <fstream>
#include <system_error>

namespace graticule {

namespace {

/// @param given the file's name for the user
void write_text(std::filesystem::path const& path, std::string const& text, std::ios::openmode mode,
                std::filesystem::path const& given) {
  errno = 0;
  std::ofstream file(path, std::ios::binary | mode);
  file << text;
  file.close();
  if (!file) detail::fail_output(given, std::generic_category().message(errno));
}

}  // namespace

void write_complete_file(std::filesystem::path const& path,
                         std::function<void(std::filesystem::path const&)> const& write) {
  detail::TemporaryFile temporary(path);
  write(temporary.path());
  temporary.publish();
}

void write_complete_file(std::filesystem::path const& path, std::string const& text) {
  if (detail::is_stream(path)) return write_text(path, text, std::ios::app, path);
  write_complete_file(
      path, [&](std::filesystem::path const& temporary) { write_text(temporary, text, std::ios::trunc, path); });
}

void require_writable(std::filesystem::path const& path) {
  if (!detail::is_stream(path)) detail::TemporaryFile const attempt(path);
}

}  // namespace graticule
