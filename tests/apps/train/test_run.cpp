// SPDX-License-Identifier: BSD-3-Clause
// Whole trainings: the same losses for any number of ranks and any cuts.
#include <graticule/field_io/file.hpp>
#include <graticule/models/detail/model_kinds.hpp>
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/samples/detail/samples.hpp>

#include "expect_error.hpp"
#include "output/prediction_file.hpp"
#include "output/verify.hpp"
#include "train_fields.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <set>

namespace graticule::train {
namespace {

RunObserver const silent{.on_start = [](RunResult const&, Index) {}, .on_step = [](Index, double) {}};

/// Predictions of this rank's team by sample: [target][row][column] each.
using Predictions = std::map<Index, std::vector<double>>;

RunObserver keeping(Predictions& predictions) {
  RunObserver observer = silent;
  observer.on_predictions = [&predictions](RunResult const& result, PredictedFields const& fields) {
    for (std::size_t place = 0; place < fields.samples.size(); ++place)
      for (std::size_t t = 0; t < result.targets.size(); ++t) {
        auto const field = fields.field(fields.prediction, place, t, result.targets.size());
        auto& all = predictions[fields.samples[place]];
        all.insert(all.end(), field.begin(), field.end());
      }
  };
  return observer;
}

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

// 4 training samples in batches of 3: parts of 2 and 1 samples, then of 1 and none. Cells that miss weigh the teams'
// parts.
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
  settings.network.wire = training::Wire::bf16;
  RunResult const narrow = run_training(comm_, settings, silent);

  EXPECT_EQ(late.network.losses, blocking.network.losses);
  EXPECT_EQ(late.network.parameters, blocking.network.parameters);
  double const difference = compare_runs(narrow.network, blocking.network).max_relative_loss_difference;
  EXPECT_LT(difference, 0.05);
  EXPECT_TRUE(comm_.num_ranks() == 1 || difference > 0);
}

/// A training that is stopped after each of these numbers of steps, and resumed until it ends.
RunResult interrupted(Comm const& comm, RunSettings const& settings, std::vector<Index> const& stops,
                      RunObserver const& observes = silent) {
  for (std::size_t number = 0;; ++number) {
    Index done = 0;
    RunObserver observer = observes;
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
TEST_F(Run, daso_trains_and_all_ranks_end_with_the_same_parameters) {
  test::write_train_fields(comm_, path_, {.num_times = 12});
  for (int const num_domain_ranks : {1, 2}) {
    if (comm_.num_ranks() % num_domain_ranks != 0) continue;
    RunSettings settings = this->settings();
    settings.data_teams = comm_.num_ranks() / num_domain_ranks;
    settings.network.epochs = 6;
    settings.network.batch = settings.data_teams;
    settings.network.parallel = Parallel::daso;
    settings.network.daso = {.warmup_epochs = 1, .cooldown_epochs = 1, .max_skip = 4, .teams_per_node = 1};

    RunResult const result = run_training(comm_, settings, silent);

    EXPECT_LT(result.network.losses.back(), result.network.losses.front());
    Hash hash;
    for (auto const& [name, values] : result.network.parameters) hash.add(std::span(values));
    require_same(comm_, "RanksDiffer", hash.value(), "parameters");
    if (settings.data_teams == 1) {
      settings.network.parallel = Parallel::blocking;
      EXPECT_EQ(result.network.losses, run_training(comm_, settings, silent).network.losses);
      continue;
    }
    auto const& figures = result.network.update_figures;
    EXPECT_GT(figures.at("messages_merged"), 0);
    EXPECT_GT(figures.at("messages_waited_for"), 0);
    EXPECT_LT(figures.at("messages_sent"), Index(result.network.losses.size()));
  }
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
    std::optional<PredictionFile> predictions;
    RunObserver observer = silent;
    observer.on_predictions = [&](RunResult const& result, PredictedFields const& fields) {
      if (!predictions) predictions.emplace(result, settings, written);
      predictions->write(fields);
    };
    (void)run_training(comm_, settings, observer);
    predictions->commit();
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

/// Of 3 times in a calendar of its own, with bounds; a level that points down; values that rise and fall.
void write_described_fields(Comm const& comm, std::filesystem::path const& path) {
  auto const text = [](char const* name, char const* value) { return Attribute::of_text(name, value); };
  FieldWriter writer(comm, path, {text("history", "made by a test")});
  std::vector<double> latitudes;
  std::vector<double> longitudes;
  for (Index i = 0; i < 12; ++i) latitudes.push_back(82.5 - 15 * double(i));
  for (Index j = 0; j < 24; ++j) longitudes.push_back(15 * double(j));
  writer.add_coordinate("time", std::vector<double>{58, 59, 60}, ValueType::i32,
                        {text("units", "days since 2000-01-01"), text("calendar", "360_day"), text("axis", "T"),
                         text("standard_name", "time"), text("bounds", "time_bnds"),
                         Attribute::of_number("actual_range", 58, ValueType::i32)});
  writer.add_coordinate("level", std::vector<double>{850}, ValueType::f32,
                        {text("standard_name", "air_pressure"), text("units", "hPa"), text("positive", "down"),
                         Attribute::of_number("_FillValue", -1, ValueType::f32)});
  writer.add_coordinate("latitude", latitudes, ValueType::f64, {text("units", "degrees_north"), text("axis", "Y")});
  writer.add_coordinate("longitude", longitudes, ValueType::f64, {text("units", "degrees_east"), text("axis", "X")});
  writer.add_dimension("bnds", 2);
  writer.add_variable({.name = "time_bnds", .dimensions = {"time", "bnds"}, .type = ValueType::f64});
  std::vector<double> const bounds{57.5, 58.5, 58.5, 59.5, 59.5, 60.5};
  bool const writes = comm.rank() == 0;
  writer.write("time_bnds", Box({0, 0}, {writes ? 3 : 0, 2}), std::span(bounds).first(writes ? 6 : 0));
  std::vector<double> values;
  for (Index i = 0; i < Index(3) * 12 * 24; ++i) values.push_back(std::sin(0.7 * double(i)));
  for (auto const* name : {"z", "u"}) {
    writer.add_variable({.name = name,
                         .dimensions = {"time", "level", "latitude", "longitude"},
                         .attributes = {text("cell_methods", "time: mean"), text("cell_measures", "area: area")}});
    writer.write(name, Box({0, 0, 0, 0}, {writes ? 3 : 0, 1, 12, 24}),
                 std::span(std::as_const(values)).first(writes ? values.size() : 0));
  }
  writer.commit();
}

TEST_F(Run, predictions_keep_all_that_coordinates_had) {
  write_described_fields(comm_, path_);
  std::filesystem::path const written = path_.string() + ".out";
  RunSettings settings = this->settings();
  settings.targets = {"u"};
  settings.network.epochs = 1;
  std::optional<PredictionFile> predictions;
  RunObserver observer = silent;
  observer.on_predictions = [&](RunResult const& result, PredictedFields const& fields) {
    if (!predictions) predictions.emplace(result, settings, written);
    predictions->write(fields);
  };

  (void)run_training(comm_, settings, observer);
  predictions->commit();

  FieldFile const before(comm_, path_);
  FieldFile const after(comm_, written);
  for (auto const* name : {"time", "time_bnds"}) EXPECT_EQ(after.variable(name), before.variable(name)) << name;
  EXPECT_EQ(after.coordinate("time"), before.coordinate("time"));
  std::vector<double> bounds(6);
  after.read("time_bnds", Box({0, 0}, {3, 2}), std::span(bounds));
  EXPECT_EQ(bounds, (std::vector<double>{57.5, 58.5, 58.5, 59.5, 59.5, 60.5}));
  // CF allows coordinates no fill value, and wants them to have a name.
  auto const& level = after.variable("level");
  EXPECT_EQ(level.type, ValueType::f32);
  EXPECT_EQ(level.text("positive"), "down");
  EXPECT_EQ(level.attribute("_FillValue"), nullptr);
  EXPECT_EQ(after.variable("latitude").text("axis"), "Y");
  EXPECT_EQ(after.variable("latitude").text("standard_name"), "latitude");
  EXPECT_EQ(after.variable("u_prediction").text("cell_methods"), "time: mean");
  EXPECT_EQ(after.variable("u_prediction").attribute("cell_measures"), nullptr) << "area is not in the file";
  auto const& attributes = after.contents().attributes;
  EXPECT_TRUE(std::any_of(attributes.begin(), attributes.end(), [](Attribute const& attribute) {
    return attribute.name == "history" && attribute.text().ends_with("made by a test");
  }));
  comm_.barrier();
  if (comm_.rank() == 0) std::filesystem::remove(written);
}

TEST_F(Run, teams_that_do_not_divide_the_ranks_are_a_usage_error) {
  RunSettings settings = this->settings();
  settings.data_teams = comm_.num_ranks() + 1;
  try {
    (void)run_training(comm_, settings, silent);
    FAIL() << "nothing was thrown";
  } catch (Error const& error) {
    EXPECT_EQ(error.rule(), "BadOption");
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
    Predictions predicted;
    RunResult const whole = run_training(comm_, settings, keeping(predicted));
    settings.checkpoints = CheckpointSettings{.folder = folder, .every = 4, .resume = Resume::newest};

    Predictions predicted_by_parts;
    RunResult const parts = interrupted(comm_, settings, {3, 4, 7}, keeping(predicted_by_parts));

    EXPECT_EQ(parts.network.losses, whole.network.losses);
    EXPECT_EQ(parts.network.parameters, whole.network.parameters);
    EXPECT_EQ(parts.network.validations, whole.network.validations);
    EXPECT_EQ(parts.network.first_step, 7);
    EXPECT_FALSE(predicted.empty());
    EXPECT_EQ(predicted_by_parts, predicted);
    settings.network.channels += 1;
    try {
      (void)run_training(comm_, settings, silent);
      ADD_FAILURE() << "nothing was thrown";
    } catch (Error const& error) {
      EXPECT_EQ(error.rule(), "StateMismatch");
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

/// The smallest budget that a training takes, as its refusal names it.
Index least_memory(Comm const& comm, RunSettings settings) {
  settings.memory_bytes = 1;
  auto const thrown = test::thrown_by([&] { (void)run_training(comm, settings, silent); });
  EXPECT_EQ(thrown.rule, "BudgetTooSmall") << thrown.text;
  EXPECT_EQ(thrown.fault, Fault::usage);
  auto const at = thrown.text.find("at least ");
  return at == std::string::npos ? 0 : std::stoll(thrown.text.substr(at + 9));
}

TEST_F(Run, losses_and_predictions_have_the_same_bits_within_any_memory) {
  test::write_train_fields(comm_, path_, {.num_times = 3, .deflate = 1, .has_missing = true});
  for (int const num_teams : {1, 2}) {
    if (comm_.num_ranks() % num_teams != 0) continue;
    RunSettings settings = this->settings();
    settings.inputs = {"z", "u"};
    settings.features = {"value", "east", "north"};
    settings.train_fraction = 0.6;
    settings.data_teams = num_teams;
    settings.network.epochs = 3;
    settings.network.validate_every = 2;
    Predictions predicted;
    RunResult const whole = run_training(comm_, settings, keeping(predicted));
    ASSERT_EQ(whole.num_mirrored, 4);
    Index const least = least_memory(comm_, settings);

    for (Index const memory : {least, least + 40000}) {
      settings.memory_bytes = memory;
      Predictions predicted_again;
      RunResult const again = run_training(comm_, settings, keeping(predicted_again));

      EXPECT_EQ(again.network.losses, whole.network.losses);
      EXPECT_EQ(again.network.validations, whole.network.validations);
      EXPECT_EQ(again.network.parameters, whole.network.parameters);
      EXPECT_EQ(predicted_again, predicted);
      for (std::size_t t = 0; t < 2; ++t) {
        EXPECT_EQ(again.targets[t].validation.rmse, whole.targets[t].validation.rmse);
        EXPECT_EQ(again.targets[t].validation.climatology_rmse, whole.targets[t].validation.climatology_rmse);
        EXPECT_EQ(again.targets[t].pictured_prediction, whole.targets[t].pictured_prediction);
      }
      // Others have smaller boxes, of which more may fit.
      if (comm_.rank() == 0) {
        EXPECT_GT(again.input.store.num_reads, whole.input.store.num_reads);
        EXPECT_EQ(again.input.store.num_hits > 0, memory > least);
      }
    }
    settings.memory_bytes = least - 1;
    EXPECT_EQ(test::rule_of([&] { (void)run_training(comm_, settings, silent); }), "BudgetTooSmall");
  }
}

/// Lets the reading thread and the training wait for what the other has done.
class Events {
 public:
  void note(std::string const& event) {
    std::lock_guard const lock(mutex_);
    seen_.insert(event);
    changed_.notify_all();
  }
  /// @return whether it came
  bool wait_for(std::string const& event) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return seen_.contains(event); });
  }
  bool has(std::string const& event) {
    std::lock_guard const lock(mutex_);
    return seen_.contains(event);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::string> seen_;
};

// The thread stops in the middle of the second batch until the first checkpoint is there.
TEST_F(Run, reads_the_next_batch_while_a_step_trains_and_a_checkpoint_is_written) {
  test::write_train_fields(comm_, path_, {.num_times = 4});
  std::filesystem::path const folder = path_.string() + ".checkpoints";
  RunSettings settings = this->settings();
  settings.mirror = Mirror::off;
  settings.network.batch = 2;
  settings.network.epochs = 2;
  RunResult const undisturbed = run_training(comm_, settings, silent);
  settings.memory_bytes = least_memory(comm_, settings);
  settings.checkpoints = CheckpointSettings{.folder = folder, .every = 1};
  Index const second = shuffled({0, 1, 2, 3}, settings.network.seed, 0)[2];
  Events events;
  bool begins_in_time = false;
  bool waited_in_vain = false;
  RunObserver observer = silent;
  observer.on_start = [&](RunResult const&, Index) { events.note("training"); };
  observer.on_read = [&](Index sample, std::size_t) {
    if (sample != second || !events.has("training") || events.has("checkpoint")) return;
    events.note("reading");
    if (!events.wait_for("checkpoint")) waited_in_vain = true;
  };
  observer.on_step = [&](Index step, double) {
    if (step == 0) begins_in_time = events.wait_for("reading");
  };
  observer.on_note = [&](std::string const& note) {
    if (note.starts_with("checkpoint")) events.note("checkpoint");
  };

  RunResult const result = run_training(comm_, settings, observer);

  EXPECT_TRUE(begins_in_time);
  EXPECT_FALSE(waited_in_vain);
  EXPECT_EQ(result.network.losses, undisturbed.network.losses);
  comm_.barrier();
  if (comm_.rank() == 0) std::filesystem::remove_all(folder);
}

TEST_F(Run, a_sample_that_cannot_be_read_under_way_is_one_error_on_all_ranks) {
  test::write_train_fields(comm_, path_, {.num_times = 4});
  for (int const num_teams : {1, 2}) {
    if (comm_.num_ranks() % num_teams != 0) continue;
    RunSettings settings = this->settings();
    settings.data_teams = num_teams;
    settings.network.validate_every = 1;
    settings.memory_bytes = least_memory(comm_, settings);
    // Found on one rank: while statistics are made, while it trains, validates, and in the end.
    for (Index const fails_from : {0, 1, 2, 3}) {
      std::atomic<bool> is_gone = fails_from == 0;
      RunObserver observer = silent;
      observer.on_step = [&](Index step, double) {
        if ((fails_from == 1 && step == 1) || (fails_from == 2 && step == 2) || (fails_from == 3 && step == 14))
          is_gone = true;
      };
      observer.on_read = [&](Index, std::size_t) {
        if (is_gone && comm_.rank() == comm_.num_ranks() - 1)
          throw Error(Fault::input, "BrokenFile", "gone.nc cannot be read (variable z: gone)");
      };

      auto const thrown = test::thrown_by([&] { (void)run_training(comm_, settings, observer); });

      EXPECT_EQ(thrown.rule, "BrokenFile") << fails_from;
      EXPECT_EQ(thrown.fault, Fault::input);
      EXPECT_NE(thrown.text.find("gone.nc cannot be read (variable z"), std::string::npos) << thrown.text;
    }
  }
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
  if (comm_.num_ranks() % 2 == 1) GTEST_SKIP() << "compares 2 and 4 ranks with one, because each network takes seconds";
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
