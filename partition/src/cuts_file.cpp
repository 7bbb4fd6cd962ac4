// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/cuts_file.hpp>
#include <graticule/partition/detail/cuts_text.hpp>
#include <graticule/partition/detail/text_file.hpp>

#include <charconv>
#include <filesystem>
#include <string>

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

std::vector<Cuts> detail::parse_cuts(std::string_view text, std::string_view name) {
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
      throw Error(Fault::input, "BadInput", place + ": cuts have at most " + std::to_string(max_ndim) + " axes");
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  if (cuts.empty()) throw Error(Fault::input, "BadInput", std::string(name) + " contains no cuts");
  return cuts;
}

std::vector<Cuts> read_cuts(Comm const& comm, std::filesystem::path const& path) {
  std::string text;
  run_agreed(comm, [&] {
    if (comm.rank() != 0) return;
    text = read_text(path);
    static_cast<void>(detail::parse_cuts(text, path.string()));
  });
  return detail::parse_cuts(comm.broadcast(text, 0), path.string());
}

}  // namespace graticule
