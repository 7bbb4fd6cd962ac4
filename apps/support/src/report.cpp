// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/app/report.hpp>
#include <graticule/field_io/detail/complete_file.hpp>
#include <graticule/partition/detail/utf8.hpp>
#include <graticule/repartition/detail/copy_kernels.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

namespace graticule::app {

Report::Json minimum_mean_maximum(Comm const& comm, double value) {
  std::array<double, 2> extremes{-value, value};
  comm.max(std::span<double>(extremes));
  std::array<double, 1> sum{value};
  comm.sum(std::span<double>(sum));
  return {{"minimum", -extremes[0]}, {"mean", sum[0] / comm.num_ranks()}, {"maximum", extremes[1]}};
}

void Report::set_partition(Layout const& layout, std::vector<std::string> const& axes) {
  auto& partition = data_["partition"];
  partition = Json::object();
  auto const* grid = layout.grid();
  if (grid == nullptr) return;
  partition["process_grid"] = std::vector<Index>(grid->extents().begin(), grid->extents().end());
  partition["cuts"] = Json::object();
  for (int axis = 0; axis < layout.ndim(); ++axis)
    if (grid->extent(axis) > 1 || layout.ndim() == 1)
      partition["cuts"][axes.at(std::size_t(axis))] = layout.cuts(axis)->sizes();
}

void Report::set_transport(Comm const& all, Comm const& exchanging, std::span<PeerPath const> paths, Sent const& sent) {
  std::array<Index, 2> is_used{};  // node-shared memory, messages
  for (auto const& path : paths)
    if (path.peer != exchanging.rank()) is_used[path.path == Transport::node_shared ? 0 : 1] = 1;
  all.max(std::span<Index>(is_used));
  std::string const others = is_used[0] > 0 && is_used[1] > 0 ? "node-shared memory and point-to-point"
                             : is_used[0] > 0                 ? "node-shared memory"
                             : is_used[1] > 0                 ? "point-to-point"
                                                              : "none";
  data_["transport"] = {{"path", {{"self", "copy"}, {"others", others}}},
                        {"unit", sent.unit},
                        {"messages", minimum_mean_maximum(all, sent.num_messages)},
                        {"bytes", minimum_mean_maximum(all, sent.num_bytes)}};
}

void Report::add_seconds(std::string const& phase, double seconds) {
  auto& entry = data_["seconds"][phase];
  entry = (entry.is_number() ? entry.get<double>() : 0.0) + seconds;
}

namespace {

/// A text as UTF-8, which JSON needs: bytes that are none become `\xNN`, as in names of files of other encodings.
std::string utf8_of(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    auto const length = utf8_character(text);
    if (length > 0) {
      result += text.substr(0, length);
    } else {
      std::array<char, 8> escaped{};
      std::snprintf(escaped.data(), escaped.size(), "\\x%02x", unsigned(static_cast<unsigned char>(text.front())));
      result += escaped.data();
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return result;
}

Report::Json as_utf8(Report::Json const& json) {
  if (json.is_string()) return utf8_of(json.get_ref<std::string const&>());
  if (json.is_array()) {
    auto result = Report::Json::array();
    for (auto const& one : json) result.push_back(as_utf8(one));
    return result;
  }
  if (!json.is_object()) return json;
  auto result = Report::Json::object();
  for (auto const& [key, value] : json.items()) result[utf8_of(key)] = as_utf8(value);
  return result;
}

}  // namespace

void Report::write(std::filesystem::path const& path) {
  data_["seconds"]["total"] = std::chrono::duration<double>(Clock::now() - begin_).count();
  if (auto const* const kernel = chosen_copy_kernel()) data_["long_copies"] = std::string(kernel->name);
  write_complete_file(path, as_utf8(data_).dump(2) + "\n");
}

}  // namespace graticule::app
