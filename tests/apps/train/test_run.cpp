// SPDX-License-Identifier: BSD-3-Clause
// Whole trainings: the same losses for any number of ranks and any cuts.
#include <graticule/field_io/file.hpp>
#include <graticule/partition/hash.hpp>

#include "prediction_file.hpp"
#include "train_fields.hpp"
#include "verify.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
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

// 4 training samples in batches of 3: parts of 2 and 1 samples, then of 1 and none. Cells that miss weigh the teams' parts.
TEST_F(Run, losses_do_not_depend_on_the_number_of_data_teams) {
  test::write_train_fields(comm_, path_, {.has_missing = true});
  for (int const num_teams : {2, 3, 4}) {
    if (comm_.num_ranks() % num_teams != 0) continue;
    RunSettings settings = this->settings();
    settings.data_teams = num_teams;
    settings.network.validate_every = 2;

    RunResult const result = run_training(comm_, settings, silent);
    Comparison const comparison = repeat_on_one_rank(comm_, settings, result.network, [](Index, double) {});

    EXPECT_LE(comparison.max_relative_loss_difference, 1e-9) << num_teams;
    EXPECT_LE(comparison.max_parameter_difference, 1e-6) << num_teams;
    EXPECT_EQ(result.network.validations.size(), 2U);
    settings.data_teams = 1;
    RunResult const undivided = run_training(comm_, settings, silent);
    for (std::size_t t = 0; t < result.targets.size(); ++t)
      EXPECT_NEAR(result.targets[t].validation.rmse, undivided.targets[t].validation.rmse,
                  1e-9 * undivided.targets[t].validation.rmse);
    for (std::size_t i = 0; i < result.network.validations.size(); ++i)
      EXPECT_NEAR(result.network.validations[i].loss, undivided.network.validations[i].loss,
                  1e-9 * undivided.network.validations[i].loss);
  }
}

TEST_F(Run, late_waits_give_the_same_bits_and_narrow_wires_nearly_the_same_losses) {
  test::write_train_fields(comm_, path_, {});
  RunSettings settings = this->settings();
  settings.data_teams = comm_.num_ranks() % 2 == 0 ? 2 : 1;
  settings.network.epochs = 3;
  RunResult const blocking = run_training(comm_, settings, silent);

  settings.network.parallel = Parallel::nonblocking;
  RunResult const late = run_training(comm_, settings, silent);
  settings.network.wire = Wire::bf16;
  RunResult const narrow = run_training(comm_, settings, silent);

  EXPECT_EQ(late.network.losses, blocking.network.losses);
  EXPECT_EQ(late.network.parameters, blocking.network.parameters);
  double const difference = compare_runs(narrow.network, blocking.network).max_relative_loss_difference;
  EXPECT_LT(difference, 0.05);
  EXPECT_TRUE(comm_.num_ranks() == 1 || difference > 0);
}

/// A training that is stopped after each of these numbers of steps, and resumed until it ends.
RunResult interrupted(Comm const& comm, RunSettings const& settings, std::vector<Index> const& stops) {
  for (std::size_t number = 0;; ++number) {
    Index done = 0;
    RunObserver observer = silent;
    observer.on_step = [&](Index step, double) { done = step + 1; };
    observer.reason_to_stop = [&](double) -> std::optional<std::string> {
      if (number < stops.size() && done == stops[number]) return "the test";
      return std::nullopt;
    };
    RunResult result = run_training(comm, settings, observer);
    if (!result.network.stopped_by) return result;
    EXPECT_EQ(result.network.losses.size(), std::size_t(stops.at(number)));
  }
}

// Every way to cut parameters, with teams that have no part of a batch: 4 samples in batches of 3.
TEST_F(Run, cut_parameters_give_the_losses_of_whole_ones) {
  test::write_train_fields(comm_, path_, {.has_missing = true});
  for (auto const& [name, kind] : model_kinds()) {
    for (Shards const shards : {Shards::domain, Shards::data, Shards::all}) {
      RunSettings settings = this->settings();
      settings.data_teams = comm_.num_ranks() % 2 == 0 ? 2 : comm_.num_ranks();
      settings.network.model = kind;
      settings.network.blocks = 2;
      settings.network.epochs = 3;
      settings.network.validate_every = 2;
      settings.network.shards = shards;

      RunResult const result = run_training(comm_, settings, silent);
      Comparison const comparison = repeat_on_one_rank(comm_, settings, result.network, [](Index, double) {});

      EXPECT_LE(comparison.max_relative_loss_difference, 1e-9) << name << " " << int(shards);
      EXPECT_LE(comparison.max_parameter_difference, 1e-6) << name << " " << int(shards);
      Index const team = shards == Shards::all      ? comm_.num_ranks()
                         : shards == Shards::domain ? result.teams.domain().num_ranks()
                                                    : result.teams.num_teams();
      // Rows are whole, and biases go first where there are few of them.
      Index const all_bytes = 8 * result.network.num_parameters;
      Index const kept = result.network.update_figures.at("parameter_bytes_kept");
      EXPECT_GE(kept * team, team == 1 || comm_.rank() == 0 ? all_bytes : 0) << name;
      EXPECT_LE(kept, all_bytes) << name;
      EXPECT_TRUE(team == 1 || kept < all_bytes) << name;
    }
  }
}

TEST_F(Run, cut_parameters_go_on_from_a_checkpoint_of_whole_ones_and_back) {
  test::write_train_fields(comm_, path_, {});
  std::filesystem::path const folder = path_.string() + ".checkpoints";
  RunSettings settings = this->settings();
  settings.data_teams = comm_.num_ranks() % 2 == 0 ? 2 : 1;
  RunResult const whole = run_training(comm_, settings, silent);
  settings.network.shards = Shards::all;
  RunResult const cut = run_training(comm_, settings, silent);
  settings.checkpoints = CheckpointSettings{.folder = folder, .every = 4, .resume = Resume::newest};
  RunResult const parts = interrupted(comm_, settings, {3, 4, 7});
  EXPECT_EQ(parts.network.losses, cut.network.losses);
  EXPECT_EQ(parts.network.parameters, cut.network.parameters);

  std::vector<Shards> const order{Shards::none, Shards::all, Shards::domain};
  comm_.barrier();
  if (comm_.rank() == 0) std::filesystem::remove_all(folder);
  comm_.barrier();
  for (std::size_t part = 0; part < order.size(); ++part) {
    settings.network.shards = order[part];
    RunObserver stopping = silent;
    Index done = 0;
    stopping.on_step = [&](Index step, double) { done = step + 1; };
    stopping.reason_to_stop = [&](double) -> std::optional<std::string> {
      return part < 2 && done == Index(3 * part) + 3 ? std::optional<std::string>("the test") : std::nullopt;
    };
    RunResult const result = run_training(comm_, settings, stopping);
    EXPECT_EQ(result.network.stopped_by.has_value(), part < 2);
    EXPECT_EQ(result.network.first_step, Index(3 * part));
    if (part < 2) continue;
    EXPECT_LE(compare_runs(result.network, whole.network).max_relative_loss_difference, 1e-9);
  }
  comm_.barrier();
  if (comm_.rank() == 0) std::filesystem::remove_all(folder);
}

TEST_F(Run, bf16_computes_nearly_the_same_losses_and_keeps_parameters_in_their_precision) {
  test::write_train_fields(comm_, path_, {});
  RunSettings settings = this->settings();
  settings.network.precision = Precision::f32;
  settings.network.epochs = 3;
  settings.data_teams = comm_.num_ranks() % 2 == 0 ? 2 : 1;
  RunResult const own = run_training(comm_, settings, silent);
  settings.network.compute = Compute::bf16;
  for (Shards const shards : {Shards::none, Shards::all}) {
    settings.network.shards = shards;
    RunResult const rounded = run_training(comm_, settings, silent);
    double const difference = compare_runs(rounded.network, own.network).max_relative_loss_difference;
    EXPECT_GT(difference, 1e-6);
    EXPECT_LT(difference, 5e-2);
    EXPECT_LE(compare(settings).max_relative_loss_difference, loss_tolerance(settings.network));
    // Of bf16 numbers, the last 16 bits as f32 are zero.
    bool fine = false;
    for (auto const& [name, values] : rounded.network.parameters)
      for (double const value : values) fine = fine || (std::bit_cast<std::uint32_t>(float(value)) & 0xffffU) != 0;
    EXPECT_TRUE(fine);
  }
}

// Steps 1 and 2 of 4 epochs: averaged after every step at first and at last, skipping in between.
TEST_F(Run, daso_trains_and_all_teams_end_with_the_same_parameters) {
  test::write_train_fields(comm_, path_, {.num_times = 12});
  RunSettings settings = this->settings();
  settings.data_teams = comm_.num_ranks();
  settings.network.epochs = 6;
  settings.network.batch = comm_.num_ranks();
  settings.network.parallel = Parallel::daso;
  settings.network.daso = {.warmup_epochs = 1, .cooldown_epochs = 1, .max_skip = 4, .teams_per_node = 1};

  RunResult const result = run_training(comm_, settings, silent);

  EXPECT_LT(result.network.losses.back(), result.network.losses.front());
  Hash hash;
  for (auto const& [name, values] : result.network.parameters) hash.add(std::span(values));
  require_same(comm_, "TeamsDiffer", hash.value(), "parameters");
  if (comm_.num_ranks() == 1) {
    settings.network.parallel = Parallel::blocking;
    EXPECT_EQ(result.network.losses, run_training(comm_, settings, silent).network.losses);
    return;
  }
  auto const& figures = result.network.update_figures;
  EXPECT_GT(figures.at("messages_merged"), 0);
  EXPECT_GT(figures.at("messages_waited_for"), 0);
  EXPECT_LT(figures.at("messages_sent"), Index(result.network.losses.size()));
}

// On one node, gradients are averaged at every step: the losses of the whole batch, until local skips begin.
TEST_F(Run, daso_on_one_node_begins_with_the_losses_of_the_whole_batch) {
  test::write_train_fields(comm_, path_, {.has_missing = true});
  RunSettings settings = this->settings();
  settings.data_teams = comm_.num_ranks() % 2 == 0 ? 2 : comm_.num_ranks();
  settings.network.epochs = 3;
  settings.network.parallel = Parallel::daso;
  settings.network.daso = {.warmup_epochs = 3, .cooldown_epochs = 0};
  RunResult const daso = run_training(comm_, settings, silent);

  EXPECT_LE(repeat_on_one_rank(comm_, settings, daso.network, [](Index, double) {}).max_relative_loss_difference, 1e-9);
}

TEST_F(Run, daso_resumed_between_epochs_has_the_bits_of_an_uninterrupted_one) {
  test::write_train_fields(comm_, path_, {.num_times = 12});
  std::filesystem::path const folder = path_.string() + ".checkpoints";
  RunSettings settings = this->settings();
  settings.mirror = Mirror::off;
  settings.data_teams = comm_.num_ranks();
  settings.network.batch = 2;
  settings.network.parallel = Parallel::daso;
  settings.network.daso = {.warmup_epochs = 1, .cooldown_epochs = 1, .max_skip = 4, .teams_per_node = 1};
  RunResult const whole = run_training(comm_, settings, silent);
  Index const epoch = whole.network.steps_per_epoch;
  settings.checkpoints = CheckpointSettings{.folder = folder, .resume = Resume::newest};

  RunResult const parts = interrupted(comm_, settings, {2 * epoch, 3 * epoch});

  EXPECT_EQ(parts.network.losses, whole.network.losses);
  EXPECT_EQ(parts.network.parameters, whole.network.parameters);
  comm_.barrier();
  if (comm_.rank() == 0) std::filesystem::remove_all(folder);
  comm_.barrier();
  // Within an epoch teams are brought together first: near, but not to the bit.
  RunResult const within = interrupted(comm_, settings, {2 * epoch - 1, 3 * epoch + 1});
  EXPECT_EQ(within.network.losses.size(), whole.network.losses.size());
  EXPECT_LE(within.network.losses.back(), 1.2 * whole.network.losses.back());
  comm_.barrier();
  if (comm_.rank() == 0) std::filesystem::remove_all(folder);
}

TEST_F(Run, data_teams_write_the_file_that_one_team_writes) {
  if (comm_.num_ranks() % 2 != 0) GTEST_SKIP() << "two teams need an even number of ranks";
  test::write_train_fields(comm_, path_, {.num_times = 3});
  std::filesystem::path const written = path_.string() + ".out";
  std::vector<double> values[2];
  for (int const num_teams : {1, 2}) {
    RunSettings settings = this->settings();
    settings.data_teams = num_teams;
    settings.network.epochs = 2;
    write_predictions(run_training(comm_, settings, silent), settings, written);
    FieldFile const file(comm_, written);
    Box const all = Box::from_extents(file.variable("u_prediction").extents);
    values[num_teams - 1].resize(std::size_t(all.num_cells()));
    file.read("u_prediction", all, std::span(values[num_teams - 1]));
  }
  comm_.barrier();
  if (comm_.rank() == 0) std::filesystem::remove(written);

  ASSERT_EQ(values[0].size(), values[1].size());
  for (std::size_t i = 0; i < values[0].size(); ++i) ASSERT_NEAR(values[0][i], values[1][i], 1e-6) << i;
}

TEST_F(Run, teams_that_do_not_divide_the_ranks_are_a_usage_error) {
  RunSettings settings = this->settings();
  settings.data_teams = comm_.num_ranks() + 1;
  try {
    (void)run_training(comm_, settings, silent);
    FAIL() << "nothing was thrown";
  } catch (Error const& error) {
    EXPECT_EQ(error.rule(), "BadDataTeams");
    EXPECT_EQ(error.fault(), Fault::usage);
  }
}

TEST_F(Run, resumed_training_has_the_bits_of_an_uninterrupted_one) {
  test::write_train_fields(comm_, path_, {});
  std::filesystem::path const folder = path_.string() + ".checkpoints";
  for (int const num_teams : {1, 2}) {
    if (comm_.num_ranks() % num_teams != 0) continue;
    RunSettings settings = this->settings();
    settings.data_teams = num_teams;
    settings.network.precision = Precision::f32;
    settings.network.validate_every = 1;
    RunResult const whole = run_training(comm_, settings, silent);
    settings.checkpoints = CheckpointSettings{.folder = folder, .every = 4, .resume = Resume::newest};

    RunResult const parts = interrupted(comm_, settings, {3, 4, 7});

    EXPECT_EQ(parts.network.losses, whole.network.losses);
    EXPECT_EQ(parts.network.parameters, whole.network.parameters);
    EXPECT_EQ(parts.network.validations, whole.network.validations);
    EXPECT_EQ(parts.network.first_step, 7);
    EXPECT_EQ(parts.targets[0].prediction, whole.targets[0].prediction);
    settings.network.channels += 1;
    try {
      (void)run_training(comm_, settings, silent);
      ADD_FAILURE() << "nothing was thrown";
    } catch (Error const& error) {
      EXPECT_EQ(error.rule(), "OtherTraining");
    }
    comm_.barrier();
    if (comm_.rank() == 0) std::filesystem::remove_all(folder);
    comm_.barrier();
  }
}

TEST_F(Run, checkpoint_of_one_team_shape_goes_on_in_another) {
  test::write_train_fields(comm_, path_, {});
  std::filesystem::path const folder = path_.string() + ".checkpoints";
  RunSettings settings = this->settings();
  RunResult const whole = run_training(comm_, settings, silent);
  settings.checkpoints = CheckpointSettings{.folder = folder};
  RunObserver stopping = silent;
  Index done = 0;
  stopping.on_step = [&](Index step, double) { done = step + 1; };
  stopping.reason_to_stop = [&](double) { return done == 5 ? std::optional<std::string>("the test") : std::nullopt; };
  (void)run_training(comm_, settings, stopping);

  settings.checkpoints->resume = Resume::newest;
  settings.data_teams = comm_.num_ranks();
  RunResult const parts = run_training(comm_, settings, silent);

  EXPECT_EQ(parts.network.first_step, 5);
  EXPECT_LE(compare_runs(parts.network, whole.network).max_relative_loss_difference, 1e-9);
  comm_.barrier();
  if (comm_.rank() == 0) std::filesystem::remove_all(folder);
}

TEST_F(Run, training_ends_early_when_validation_no_longer_improves) {
  test::write_train_fields(comm_, path_, {});
  RunSettings settings = this->settings();
  settings.network.epochs = 40;
  settings.network.learning_rate = 0.5;  // far too high: it does not settle
  settings.network.validate_every = 1;
  settings.network.patience = 2;

  RunResult const result = run_training(comm_, settings, silent);

  auto const& validations = result.network.validations;
  ASSERT_GE(validations.size(), 2U);
  ASSERT_LT(validations.size(), 40U);
  EXPECT_EQ(result.network.losses.size(), std::size_t(validations.back().step));
  auto const best = std::min_element(validations.begin(), validations.end(),
                                     [](auto const& a, auto const& b) { return a.loss < b.loss; });
  EXPECT_EQ(validations.end() - best, 3);
  settings.train_fraction = 1;
  EXPECT_THROW((void)run_training(comm_, settings, silent), Error);
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
