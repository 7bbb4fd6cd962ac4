// SPDX-License-Identifier: BSD-3-Clause
// Runs the program of docs/tutorial.md, which tutorial/tutorial.cpp holds, on a real file.
#include <graticule/field_io/checkpoint.hpp>
#include <graticule/field_io/file.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

/// The `main` of tutorial/tutorial.cpp, which is compiled under this name.
int tutorial_main(int argc, char** argv);

namespace graticule {
namespace test_documented_tutorial {

class DocumentedTutorial : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(file_)) GTEST_SKIP() << "set GRATICULE_TEST_DATA to a folder with eraint_uvz.nc";
  }

  /// Runs the program and returns what this rank printed.
  std::string run(std::filesystem::path const& checkpoints, int ranks_per_domain) const {
    std::vector<std::string> words{"tutorial", file_.string(), checkpoints.string(), std::to_string(ranks_per_domain)};
    std::vector<char*> argv;
    for (auto& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    testing::internal::CaptureStdout();
    int const status = tutorial_main(int(words.size()), argv.data());
    std::string text = testing::internal::GetCapturedStdout();
    EXPECT_EQ(status, 0);
    return text;
  }

  std::filesystem::path const file_ = std::filesystem::path(GRATICULE_TEST_DATA) / "eraint_uvz.nc";
  Comm const world_ = Comm::world();
};

/// The losses that rank 0 printed, with their steps.
std::vector<std::pair<int, double>> losses(std::string const& text) {
  std::vector<std::pair<int, double>> found;
  for (auto at = text.find("step "); at != std::string::npos; at = text.find("step ", at + 1)) {
    std::pair<int, double> line;
    if (std::sscanf(text.c_str() + at, "step %d: loss %lf", &line.first, &line.second) == 2) found.push_back(line);
  }
  return found;
}

TEST_F(DocumentedTutorial, exchanges_halos_and_trains_a_sharded_network) {
  auto const text = run(std::filesystem::temp_directory_path() / "sharded", world_.num_ranks());

  // Row -1 lies across the north pole, on which row 0 lies: it holds row 1 at the opposite longitude.
  std::array<float, 1> opposite{};
  FieldFile(world_, file_).read("z", Box({0, 0, 1, 240}, {1, 1, 2, 241}), opposite);
  if (world_.rank() != 0) return;
  std::array<char, 64> line{};
  std::snprintf(line.data(), line.size(), "ghost cell (-1, 0) holds %.1f\n", double(opposite[0]));
  EXPECT_NE(text.find(line.data()), std::string::npos) << line.data() << text;
  EXPECT_NE(text.find(world_.num_ranks() == 1 ? "rank 0 owns [0, 241) x [0, 480)" : "rank 0 owns [0, 121) x [0, 480)"),
            std::string::npos)
      << text;
  auto const steps = losses(text);
  ASSERT_EQ(steps.size(), 10U) << text;
  // Epochs have two samples, one per month.
  EXPECT_LT(steps[8].second + steps[9].second, 0.9 * (steps[0].second + steps[1].second)) << text;
}

TEST_F(DocumentedTutorial, continues_from_its_checkpoint_with_another_division) {
  auto const folder = std::filesystem::temp_directory_path() / "continued";
  auto const first = run(folder, 1);
  auto const second = run(folder, world_.num_ranks());

  auto const newest = CheckpointStore(world_, folder).newest();
  ASSERT_TRUE(newest);
  EXPECT_EQ(newest->step(), 20);
  if (world_.rank() != 0) return;
  auto const before = losses(first);
  auto const after = losses(second);
  ASSERT_EQ(before.size(), 10U) << first;
  ASSERT_EQ(after.size(), 10U) << second;
  EXPECT_EQ(after.front().first, 10);
  EXPECT_LT(after.front().second, before.front().second);
}

}  // namespace test_documented_tutorial
}  // namespace graticule
