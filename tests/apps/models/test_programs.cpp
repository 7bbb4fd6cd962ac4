// SPDX-License-Identifier: BSD-3-Clause
// Networks exported by PyTorch as they are, in a program without LibTorch's headers.
#include <graticule/models/forecaster.hpp>
#include <graticule/partition/cuts.hpp>

#include "expect_error.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

namespace graticule::models {
namespace {

using test::ErrorWith;
using test::rule_of;

std::filesystem::path folder(char const* name) {
  return std::filesystem::path(GRATICULE_TEST_DATA) / "programs" / name;
}

/// As Python wrote them.
std::vector<float> numbers(std::filesystem::path const& file) {
  std::vector<float> values(std::filesystem::file_size(file) / sizeof(float));
  std::ifstream stream(file, std::ios::binary);
  stream.read(reinterpret_cast<char*>(values.data()), std::streamsize(values.size() * sizeof(float)));
  return values;
}

/// Of channels c0, c1, ... on a grid of the whole globe.
Description description(char const* name, Index num_channels, Index num_rows, Index num_columns) {
  std::vector<StateChannel> channels;
  for (Index c = 0; c < num_channels; ++c) {
    StateChannel channel;
    channel.label = channel.variable = "c" + std::to_string(c);
    channels.push_back(channel);
  }
  std::vector<double> latitudes;
  std::vector<double> longitudes;
  for (Index i = 0; i < num_rows; ++i) latitudes.push_back(90 - 180 * (double(i) + 0.5) / double(num_rows));
  for (Index j = 0; j < num_columns; ++j) longitudes.push_back(360 * double(j) / double(num_columns));
  return program_description(folder(name) / "program.pt2", channels, {.duration = 3600}, 3600, latitudes, longitudes);
}

/// The box of [channel][row][column].
std::vector<double> part(std::vector<float> const& whole, Index num_channels, Index num_rows, Index num_columns,
                         Box const& box) {
  std::vector<double> values;
  for (Index c = 0; c < num_channels; ++c)
    for (Index i = box.lo(0); i < box.hi(0); ++i)
      for (Index j = box.lo(1); j < box.hi(1); ++j)
        values.push_back(whole[std::size_t((c * num_rows + i) * num_columns + j)]);
  return values;
}

class Programs : public testing::TestWithParam<std::pair<char const*, Index>> {};

TEST_P(Programs, forecast_what_python_computes) {
  auto const [name, num_rows] = GetParam();
  constexpr Index num_channels = 4;
  constexpr Index num_columns = 64;
  if (!std::filesystem::exists(folder(name))) GTEST_SKIP() << folder(name) << " is missing";
  Comm const comm = Comm::world();
  auto const input = numbers(folder(name) / "input_0.bin");
  auto const output = numbers(folder(name) / "output_0.bin");
  ASSERT_EQ(Index(output.size()), num_channels * num_rows * num_columns);
  // The last of several ranks has no rows.
  int const n = comm.num_ranks();
  std::vector<Index> rows{n < 3 ? num_rows : 9};
  if (n > 1) rows.push_back(num_rows - rows[0]);
  if (n > 2) rows.push_back(0);
  Layout const layout(ProcessGrid{n, 1}, {Cuts(rows), balanced_cuts(num_columns, 1)});

  Forecaster network(comm, layout, description(name, num_channels, num_rows, num_columns));
  Box const box = network.owned();
  auto const result = network.next(part(input, num_channels, num_rows, num_columns, box), 0);

  auto const expected = part(output, num_channels, num_rows, num_columns, box);
  ASSERT_EQ(result.size(), expected.size());
  double const largest = std::abs(
      *std::max_element(output.begin(), output.end(), [](float a, float b) { return std::abs(a) < std::abs(b); }));
  EXPECT_GT(largest, 0);
  for (std::size_t i = 0; i < result.size(); ++i) ASSERT_NEAR(result[i], expected[i], 1e-5 * largest) << i;
}

INSTANTIATE_TEST_SUITE_P(Networks, Programs,
                         testing::Values(std::pair("makani_sfno", Index(33)), std::pair("makani_afno", Index(32)),
                                         std::pair("makani_vit", Index(32))),
                         [](auto const& network) { return std::string(network.param.first); });

TEST(ProgramForecaster, refuses_other_channels_and_grids) {
  if (!std::filesystem::exists(folder("makani_sfno"))) GTEST_SKIP() << folder("makani_sfno") << " is missing";
  Comm const comm = Comm::world();
  auto const rule = [&](Description const& description) {
    Layout const layout(ProcessGrid{comm.num_ranks(), 1},
                        {Index(description.latitudes.size()), Index(description.longitudes.size())});
    return rule_of([&] { Forecaster const network(comm, layout, description); });
  };
  EXPECT_EQ(rule(description("makani_sfno", 3, 33, 64)),
            (ErrorWith{"ShapeMismatch",
                       "takes x[1, 4, 33, 64], where [batch, 3, 33, 64] is needed: 3 channels (c0, c1, "
                       "c2) on 33 x 64 cells"}));
  EXPECT_EQ(rule(description("makani_sfno", 4, 32, 64)), (ErrorWith{"ShapeMismatch", "[batch, 4, 32, 64] is needed"}));
  auto wrong = description("makani_sfno", 4, 33, 64);
  wrong.statics.push_back({"orography", {}});
  EXPECT_EQ(rule(wrong), (ErrorWith{"Unsupported", "static fields come from a checkpoint"}));
  EXPECT_EQ(rule(description("physicsnemo_dlwp", 4, 16, 16)),
            (ErrorWith{"Unsupported", "takes one field [batch, channels, rows, columns] and gives one"}));
  EXPECT_EQ(rule(description("nothing", 4, 33, 64)), (ErrorWith{"NoSuchFile", "program.pt2"}));
}

}  // namespace
}  // namespace graticule::models
