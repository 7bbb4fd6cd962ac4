// SPDX-License-Identifier: BSD-3-Clause
// What the command line of graticule-repartition asks for.
#pragma once

#include <graticule/partition/indices.hpp>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace graticule::archive {

/// As given; texts are checked by the functions below.
struct Options {
  std::string input = {};
  std::string output = {};
  std::vector<std::string> variables = {};  ///< empty: all fields
  std::vector<std::string> exclude = {};    ///< left out of the output
  std::vector<std::string> order = {};      ///< empty: as in the input
  std::vector<std::string> chunk = {};      ///< empty: as in the input
  std::string dtype = "same";
  std::string deflate = "same";
  bool shuffle = false;
  bool no_shuffle = false;
  std::string memory = "2GiB";
  int writers_per_node = 0;
  std::vector<std::string> shard = {};  ///< of a Zarr store; empty: a file per chunk
  std::string codec = {};               ///< of a Zarr store; empty: the writer's own choice
  bool in_place = false;                ///< the output may take the place of the input
  std::string references = {};          ///< to write in place of an output
};

enum class TypeWish { same, f32, f64, i16_packed };

/// Chunks by dimension; `whole` stands for the dimension's extent.
struct ChunkWish {
  static constexpr Index whole = 0;
  enum class Kind { as_input, none, given } kind = Kind::as_input;
  std::map<std::string, Index> extents;
};

/// @throws `BadOption` (usage), also below
[[nodiscard]] TypeWish parse_type(std::string const& text);
/// `latitude=32,month=all`, `none`, `same` or nothing. @param option that has them, for messages
[[nodiscard]] ChunkWish parse_chunk(std::vector<std::string> const& parts, std::string const& option = "--chunk");
/// 0 to 9; nothing for `same`.
[[nodiscard]] std::optional<int> parse_deflate(std::string const& text);

}  // namespace graticule::archive
