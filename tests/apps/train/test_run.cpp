// SPDX-License-Identifier: BSD-3-Clause
// Whole trainings: the same losses for any number of ranks and any cuts.
#include "train_fields.hpp"
#include "verify.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace graticule::train {
namespace {

RunObserver const silent{.on_start = [](RunResult const&, Index) {}, .on_step = [](Index, double) {}};

class Run : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::path const folder = std::filesystem::temp_directory_path();
    path_ = folder / ("graticule_train_" + std::to_string(comm_.num_ranks()) + "_" +
                      testing::UnitTest::GetInstance()->current_test_info()->name() + ".nc");
  }
  void TearDown() override {
    comm_.barrier();
    if (comm_.rank() == 0) std::filesystem::remove(path_);
  }

  RunSettings settings() const {
    RunSettings settings;
    settings.input = path_;
    settings.network = {
        .channels = 3, .blocks = 1, .epochs = 5, .batch = 3, .learning_rate = 8e-3, .precision = Precision::f64};
    return settings;
  }

  /// Trains with this partition and on one rank, and compares.
  Comparison compare(RunSettings const& settings) const {
    RunResult const result = run_training(comm_, settings, silent);
    return repeat_on_one_rank(comm_, settings, result.network, [](Index, double) {});
  }

  std::vector<std::string> partitions() const {
    switch (comm_.num_ranks()) {
      case 2: return {"2x1", "1x2"};
      case 4: return {"4x1", "2x2"};
      default: return {"auto"};
    }
  }

  Comm comm_ = Comm::world();
  std::filesystem::path path_;
};

TEST_F(Run, losses_do_not_depend_on_the_partition) {
  test::write_train_fields(comm_, path_, {});
  for (std::string const& partition : partitions()) {
    RunSettings settings = this->settings();
    settings.partition.partition = partition;

    Comparison const comparison = compare(settings);

    EXPECT_LE(comparison.max_relative_loss_difference, 1e-9) << partition;
    EXPECT_LE(comparison.max_parameter_difference, 1e-6) << partition;
  }
}

TEST_F(Run, losses_do_not_depend_on_uneven_cuts_missing_cells_and_single_precision) {
  test::write_train_fields(comm_, path_, {.has_missing = true});
  RunSettings settings = this->settings();
  settings.features = {"value", "east", "north"};
  settings.mirror = Mirror::off;
  settings.network.kernel = 5;
  settings.partition = {std::to_string(comm_.num_ranks()) + "x1", comm_.num_ranks() == 1   ? "19"
                                                                  : comm_.num_ranks() == 2 ? "1,18"
                                                                  : comm_.num_ranks() == 3 ? "9,0,10"
                                                                                           : "2,1,13,3"};
  EXPECT_LE(compare(settings).max_relative_loss_difference, 1e-9);

  settings.network.precision = Precision::f32;
  EXPECT_LE(compare(settings).max_relative_loss_difference, 1e-3);
}

TEST_F(Run, losses_of_every_model_do_not_depend_on_the_partition) {
  test::write_train_fields(comm_, path_, {});
  for (auto const& [name, kind] : model_kinds()) {
    for (std::string const& partition : partitions()) {
      RunSettings settings = this->settings();
      settings.partition.partition = partition;
      settings.network.model = kind;
      settings.network.blocks = 2;
      settings.network.epochs = 3;
      settings.mirror = Mirror::off;

      Comparison const comparison = compare(settings);

      EXPECT_LE(comparison.max_relative_loss_difference, 1e-9) << name << " on " << partition;
      EXPECT_LE(comparison.max_parameter_difference, 1e-6) << name << " on " << partition;
    }
  }
}

TEST_F(Run, deflated_file_gives_the_same_bits) {
  test::write_train_fields(comm_, path_, {});
  RunResult const plain = run_training(comm_, settings(), silent);
  test::write_train_fields(comm_, path_, {.deflate = 5});
  RunResult const deflated = run_training(comm_, settings(), silent);

  EXPECT_EQ(plain.network.losses, deflated.network.losses);
  EXPECT_EQ(plain.network.parameters, deflated.network.parameters);
}

TEST_F(Run, training_learns_and_reports_its_skill) {
  test::write_train_fields(comm_, path_, {});
  RunSettings settings = this->settings();
  settings.network.precision = Precision::f32;
  settings.network.channels = 8;
  settings.network.epochs = 25;
  settings.network.learning_rate = 2e-2;

  RunResult const result = run_training(comm_, settings, silent);

  EXPECT_EQ(result.num_training, 2);
  EXPECT_EQ(result.num_mirrored, 2);
  EXPECT_EQ(result.channels,
            (std::vector<std::string>{"d/dx z", "d/dy z", "coriolis", "sin_latitude", "cos_latitude"}));
  EXPECT_EQ(result.network.losses.size(), 50U);
  for (TargetResult const& target : result.targets) EXPECT_GT(target.validation.skill(), 0.3) << target.info.name;
}

TEST_F(Run, broken_input_is_an_error_on_all_ranks) {
  test::write_train_fields(comm_, path_, {});
  RunSettings settings = this->settings();
  settings.targets = {"u", "absent"};
  EXPECT_THROW((void)run_training(comm_, settings, silent), Error);

  comm_.barrier();
  if (comm_.rank() == 0) std::filesystem::resize_file(path_, std::filesystem::file_size(path_) / 2);
  comm_.barrier();
  EXPECT_THROW((void)run_training(comm_, this->settings(), silent), Error);
}

TEST_F(Run, real_winds_from_geopotential) {
  std::filesystem::path const file = std::filesystem::path(GRATICULE_TEST_DATA) / "eraint_uvz.nc";
  if (std::string(GRATICULE_TEST_DATA).empty() || !std::filesystem::exists(file))
    GTEST_SKIP() << "set GRATICULE_TEST_DATA to a folder with eraint_uvz.nc";
  RunSettings settings = this->settings();
  settings.input = file;
  settings.network.channels = 2;
  settings.network.epochs = 1;
  for (auto const& [name, kind] : model_kinds()) {
    settings.network.model = kind;

    Comparison const comparison = compare(settings);

    EXPECT_LE(comparison.max_relative_loss_difference, 1e-9) << name;
  }
}

}  // namespace
}  // namespace graticule::train
