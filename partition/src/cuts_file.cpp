// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/cuts_file.hpp>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace graticule {

namespace {

constexpr std::string_view blanks = " \t\r";

/// Sizes in one line; empty for a line of blanks and comment.
std::vector<Index> sizes_in(std::string_view line, std::string const& place) {
  std::vector<Index> sizes;
  line = line.substr(0, line.find('#'));
  if (line.find_first_not_of(blanks) == std::string_view::npos) return sizes;
  while (true) {
    auto const begin = line.find_first_not_of(blanks);
    // Between two commas, and before or after one, stands a number.
    if (begin == std::string_view::npos) line = {};
    if (begin != std::string_view::npos) line.remove_prefix(begin);
    auto const word = line.substr(0, line.find_first_of(", \t\r"));
    Index size = -1;
    auto const [end, status] = std::from_chars(word.data(), word.data() + word.size(), size);
    if (status != std::errc{} || end != word.data() + word.size() || size < 0)
      throw Error(Fault::input, "BadInput", place + ": '" + std::string(word) + "' is not a number of cells");
    sizes.push_back(size);
    line.remove_prefix(word.size());
    auto const next = line.find_first_not_of(blanks);
    if (next == std::string_view::npos) return sizes;
    line.remove_prefix(line[next] == ',' ? next + 1 : next);
  }
}

}  // namespace

std::vector<Cuts> parse_cuts(std::string_view text, std::string_view name) {
  std::vector<Cuts> cuts;
  for (int number = 1; !text.empty(); ++number) {
    auto const end = text.find('\n');
    auto const place = std::string(name) + ", line " + std::to_string(number);
    auto const sizes = sizes_in(text.substr(0, end), place);
    try {
      if (!sizes.empty()) cuts.emplace_back(sizes);
    } catch (Error const& error) {
      throw Error(Fault::input, "BadInput", place + ": " + error.text());
    }
    if (cuts.size() > std::size_t(max_ndim))
      throw Error(Fault::input, "BadInput", place + ": more than " + std::to_string(max_ndim) + " axes");
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  if (cuts.empty()) throw Error(Fault::input, "BadInput", std::string(name) + " contains no cuts");
  return cuts;
}

std::vector<Cuts> read_cuts(Comm const& comm, std::filesystem::path const& path) {
  std::string text;
  run_agreed(comm, [&] {
    if (comm.rank() != 0) return;
    std::ifstream file(path);
    std::ostringstream bytes;
    bytes << file.rdbuf();
    if (!file || std::filesystem::is_directory(path))
      throw Error(Fault::input, "BadInput", path.string() + " cannot be read");
    text = bytes.str();
    static_cast<void>(parse_cuts(text, path.string()));
  });
  return parse_cuts(comm.broadcast(text, 0), path.string());
}

std::string cuts_text(std::span<Cuts const> cuts) {
  std::string text;
  for (auto const& axis_cuts : cuts)
    for (int p = 0; p < axis_cuts.num_parts(); ++p)
      text += std::to_string(axis_cuts.size(p)) + (p + 1 < axis_cuts.num_parts() ? "," : "\n");
  return text;
}

}  // namespace graticule
