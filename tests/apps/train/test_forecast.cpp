// SPDX-License-Identifier: BSD-3-Clause
// Whole trainings of forecasts: the same losses and scores for any number of ranks and teams.
#include <graticule/field_io/checkpoint.hpp>
#include <graticule/field_io/writer.hpp>
#include <graticule/models/detail/stored_description.hpp>

#include "expect_error.hpp"
#include "output/verify.hpp"
#include "train_fields.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <optional>

namespace graticule::train {
namespace {

using test::ErrorWith;
using test::rule_of;

RunObserver const silent{.on_start = [](RunResult const&, Index) {}, .on_step = [](Index, double) {}};

class ForecastRun : public testing::Test {
 protected:
  void SetUp() override {
    auto const name = "graticule_forecast_" + std::to_string(comm_.num_ranks()) + "_" +
                      testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = std::filesystem::temp_directory_path() / name;
    if (comm_.rank() == 0) {
      std::filesystem::remove_all(folder_);
      std::filesystem::create_directories(folder_);
    }
    comm_.barrier();
    path_ = folder_ / "fields.nc";
  }
  void TearDown() override {
    comm_.barrier();
    if (comm_.rank() == 0) std::filesystem::remove_all(folder_);
  }

  /// Partitions, each with a number of data teams: bands, columns, and a whole globe on each rank.
  std::vector<std::pair<std::string, int>> shapes() const {
    std::vector<std::pair<std::string, int>> result{{"auto", 1}, {"1x" + std::to_string(comm_.num_ranks()), 1}};
    if (comm_.num_ranks() > 1) result.emplace_back("auto", comm_.num_ranks());
    return result;
  }

  /// Waves that move: eight days, of which six train. Targets of u and v on two levels.
  RunSettings settings() const {
    RunSettings settings;
    settings.input = path_;
    settings.train_fraction = 0.75;
    settings.network = {
        .channels = 3, .blocks = 1, .epochs = 3, .batch = 3, .learning_rate = 8e-3, .precision = Precision::f64};
    settings.forecast = ForecastSettings{.prognostic = {"u", "v"}};
    settings.forecast->validate_steps = 2;
    return settings;
  }

  static void expect_same_scores(RunResult const& a, RunResult const& b) {
    for (Index c = 0; c < a.forecast->scores->shape().num_channels; ++c)
      for (Index lead = 0; lead < a.forecast->scores->shape().num_leads; ++lead) {
        auto const one = a.forecast->scores->score(c, lead, 0);
        auto const other = b.forecast->scores->score(c, lead, 0);
        EXPECT_NEAR(one.rmse / other.rmse, 1, 1e-9);
        // Of diagnostic channels there is no initial state.
        EXPECT_EQ(std::isnan(one.persistence_rmse), std::isnan(other.persistence_rmse));
        if (!std::isnan(one.persistence_rmse)) {
          EXPECT_NEAR(one.persistence_rmse / other.persistence_rmse, 1, 1e-9);
        }
      }
  }

  Comm comm_ = Comm::world();
  std::filesystem::path folder_;
  std::filesystem::path path_;
};

TEST_F(ForecastRun, losses_and_scores_do_not_depend_on_ranks_and_teams) {
  test::write_train_fields(comm_, path_, {.num_times = 8, .has_missing = true});
  auto settings = this->settings();
  settings.forecast->rollouts = {{0, 1}, {1, 3}};
  settings.forecast->rollout_checkpoint = 2;
  settings.forecast->diagnostic = {"z"};
  settings.forecast->forcings = {"insolation", "time_of_day", "time_of_year"};
  settings.network.ema = 0.9;
  settings.network.clip = 1;
  settings.network.accumulate = 2;
  settings.network.optimizer = OptimizerKind::adamw;
  settings.network.weight_decay = 0.01;
  settings.network.validate_every = 1;
  std::optional<RunResult> alone;
  Comm const self = comm_.split(comm_.rank(), 0);
  alone = run_training(self, settings, silent);

  for (auto const& [partition, teams] : shapes()) {
    settings.partition.partition = partition;
    settings.data_teams = teams;
    auto const result = run_training(comm_, settings, silent);

    auto const comparison = compare_runs(result.network, alone->network);
    EXPECT_LE(comparison.max_relative_loss_difference, 1e-12) << partition << " " << teams;
    ASSERT_EQ(result.network.validations.size(), 3u);
    EXPECT_NEAR(result.network.validations.back().loss / alone->network.validations.back().loss, 1, 1e-9);
    expect_same_scores(result, *alone);
  }
}

TEST_F(ForecastRun, losses_of_amplitudes_do_not_depend_on_ranks) {
  test::write_train_fields(comm_, path_, {.num_times = 8, .has_missing = true});
  auto settings = this->settings();
  settings.network.epochs = 2;
  Comm const self = comm_.split(comm_.rank(), 0);
  auto const of_cells = run_training(self, settings, silent);
  settings.network.loss = LossKind::spectral;
  auto const alone = run_training(self, settings, silent);

  for (auto const& partition : {std::string("auto"), "1x" + std::to_string(comm_.num_ranks())}) {
    settings.partition.partition = partition;
    auto const result = run_training(comm_, settings, silent);

    EXPECT_LE(compare_runs(result.network, alone.network).max_relative_loss_difference, 1e-12) << partition;
  }
  // Some amplitudes are wrong at first.
  EXPECT_GT(alone.network.losses.front(), of_cells.network.losses.front());
}

TEST_F(ForecastRun, ensembles_do_not_depend_on_ranks_and_teams) {
  test::write_train_fields(comm_, path_, {.num_times = 8, .has_missing = true});
  auto settings = this->settings();
  settings.forecast->rollouts = {{0, 1}, {1, 2}};
  settings.forecast->rollout_checkpoint = 1;
  settings.forecast->diagnostic = {"z"};
  settings.forecast->members = 3;
  settings.forecast->input_noise = 0.3;
  settings.network.loss = LossKind::crps;
  settings.network.epochs = 2;
  settings.network.validate_every = 1;
  Comm const self = comm_.split(comm_.rank(), 0);
  auto const alone = run_training(self, settings, silent);

  for (auto const& [partition, teams] : shapes()) {
    settings.partition.partition = partition;
    settings.data_teams = teams;
    auto const result = run_training(comm_, settings, silent);

    EXPECT_LE(compare_runs(result.network, alone.network).max_relative_loss_difference, 1e-12) << partition << teams;
    EXPECT_NEAR(result.network.validations.back().loss / alone.network.validations.back().loss, 1, 1e-9);
    expect_same_scores(result, alone);
    for (Index lead = 0; lead < 2; ++lead) {
      auto const score = result.forecast->scores->score(0, lead, 0);
      auto const other = alone.forecast->scores->score(0, lead, 0);
      EXPECT_NEAR(score.crps / other.crps, 1, 1e-9);
      EXPECT_NEAR(score.spread / other.spread, 1, 1e-9);
    }
  }
  // Members differ, and what they cover counts: a single forecast's CRPS is its absolute error.
  auto const score = alone.forecast->scores->score(0, 0, 0);
  EXPECT_GT(score.spread, 0);
  EXPECT_LT(score.crps, score.mae);
  EXPECT_GT(alone.forecast->description.perturbation, 0);
}

TEST_F(ForecastRun, an_ensemble_learns_waves_that_move) {
  test::write_train_fields(comm_, path_, {.num_times = 16});
  auto settings = this->settings();
  settings.network = {.channels = 8, .blocks = 1, .epochs = 12, .batch = 2, .learning_rate = 1e-2};
  settings.network.loss = LossKind::crps;
  settings.forecast->members = 2;
  settings.forecast->perturbation = 0.2;

  auto const result = run_training(comm_, settings, silent);

  auto const score = result.forecast->scores->score(0, 0, 0);
  EXPECT_LT(score.rmse, 0.6 * score.persistence_rmse);
  EXPECT_LT(score.crps, 0.5 * score.persistence_rmse);
  EXPECT_LT(result.network.losses.back(), 0.6 * result.network.losses.front());
}

TEST_F(ForecastRun, learns_waves_that_move) {
  test::write_train_fields(comm_, path_, {.num_times = 16});
  auto settings = this->settings();
  settings.network = {.channels = 8, .blocks = 1, .epochs = 20, .batch = 2, .learning_rate = 1e-2};

  auto const result = run_training(comm_, settings, silent);

  ASSERT_TRUE(result.forecast->scores);
  for (Index lead = 0; lead < 2; ++lead) {
    auto const score = result.forecast->scores->score(0, lead, 0);
    EXPECT_LT(score.rmse, 0.5 * score.persistence_rmse) << lead;
    EXPECT_LT(score.rmse, 0.6 * score.climatology_rmse) << lead;
    EXPECT_GT(score.acc, 0.8) << lead;
  }
  // 16 days, 12 of them train: from two states to one, 10 samples; 4 targets validate, 3 of them with a second lead.
  EXPECT_EQ(result.num_training, 10);
  EXPECT_EQ(result.forecast->num_validation, 4);
  EXPECT_EQ(result.forecast->scores->score(0, 0, 0).num_cases, 4);
  EXPECT_EQ(result.forecast->scores->score(0, 1, 0).num_cases, 3);
}

TEST_F(ForecastRun, resumed_has_the_bits_of_an_uninterrupted_one) {
  test::write_train_fields(comm_, path_, {.num_times = 8});
  auto settings = this->settings();
  settings.network.ema = 0.9;
  settings.network.validate_every = 1;
  settings.forecast->rollouts = {{0, 1}, {1, 2}};
  auto const whole = run_training(comm_, settings, silent);
  settings.checkpoints = CheckpointSettings{.folder = folder_ / "checkpoints", .resume = Resume::newest};
  settings.checkpoints->runnable = folder_;
  auto stopping = silent;
  Index asked = 0;
  stopping.reason_to_stop = [&](double) {
    return ++asked == 4 ? std::optional<std::string>("the test") : std::nullopt;
  };

  auto const stopped = run_training(comm_, settings, stopping);
  std::size_t num_known = 0;
  auto resuming = silent;
  resuming.on_resume = [&](std::span<double const> losses) { num_known = losses.size(); };
  auto const result = run_training(comm_, settings, resuming);

  EXPECT_TRUE(stopped.network.stopped_by.has_value());
  EXPECT_EQ(num_known, 4u);
  EXPECT_EQ(result.network.losses, whole.network.losses);
  EXPECT_EQ(result.network.validations, whole.network.validations);
}

TEST_F(ForecastRun, leaves_networks_that_describe_themselves) {
  test::write_train_fields(comm_, path_, {.num_times = 8});
  auto settings = this->settings();
  settings.network.validate_every = 1;
  settings.checkpoints = CheckpointSettings{.folder = folder_ / "checkpoints"};
  settings.checkpoints->runnable = folder_;
  auto const result = run_training(comm_, settings, silent);

  auto const best = models::open_trained(comm_, folder_);
  EXPECT_EQ(best.path().parent_path().filename(), "best");
  EXPECT_EQ(best.step(), result.network.best_step);
  auto const description =
      models::description_of(best.value<std::string>("forecast/description"), best.path().string());
  EXPECT_EQ(models::to_text(description), models::to_text(result.forecast->description));
  ASSERT_EQ(description.channels.size(), 4u);
  EXPECT_EQ(description.channels[1].label, "u 1");
  EXPECT_EQ(description.lead_seconds, 86400);
  EXPECT_EQ(rule_of([&] { static_cast<void>(models::open_trained(comm_, folder_ / "nowhere")); }), "NoSuchFile");
}

TEST_F(ForecastRun, refuses_what_does_not_fit_the_time_axis) {
  test::write_train_fields(comm_, path_, {.num_times = 8});
  auto const error_of = [&](auto&& change) {
    auto settings = this->settings();
    change(*settings.forecast);
    return rule_of([&] { static_cast<void>(run_training(comm_, settings, silent)); });
  };
  EXPECT_EQ(error_of([](auto& f) { f.lead = "6h"; }), (ErrorWith{"BadOption", "a lead of 6 h does not fit"}));
  EXPECT_EQ(error_of([](auto& f) { f.lead = "7"; }), (ErrorWith{"BadOption", "no training sample"}));
  EXPECT_EQ(error_of([](auto& f) { f.prognostic = {"q"}; }), "MissingVariable");
  EXPECT_EQ(error_of([](auto& f) { f.test_dates = "2001..2002"; }),
            (ErrorWith{"BadOption", "--test-dates from 2001-01-01 00:00"}));
  EXPECT_EQ(error_of([](auto& f) {
              f.train_dates = "2000-01-01..2000-01-06";
              f.validate_dates = "2000-01-05..2000-01-08";
            }),
            (ErrorWith{"BadOption", "overlaps the training dates"}));
  EXPECT_EQ(error_of([](auto& f) { f.channel_weights = {{"q", 1.0}}; }), (ErrorWith{"BadOption", "names q"}));
}

TEST_F(ForecastRun, leaves_out_samples_that_cross_a_gap) {
  // Days 0 to 3 and 5 to 8.
  if (comm_.rank() == 0) std::filesystem::create_directories(folder_ / "parts");
  comm_.barrier();
  test::write_train_fields(comm_, folder_ / "parts" / "a.nc", {.num_times = 4});
  test::write_train_fields(comm_, folder_ / "parts" / "b.nc", {.num_times = 4, .first_time = 5});
  auto settings = this->settings();
  settings.input = (folder_ / "parts" / "*.nc").string();
  settings.train_fraction = 1;
  settings.forecast->history = 1;
  std::string notes;
  auto observer = silent;
  observer.on_note = [&](std::string const& note) { notes += note + "\n"; };

  auto const result = run_training(comm_, settings, observer);

  EXPECT_EQ(result.num_training, 6);
  EXPECT_NE(notes.find("left out because the time axis has gaps"), std::string::npos) << notes;
  EXPECT_NE(notes.find("2000-01-04 00:00"), std::string::npos) << notes;
}

}  // namespace
}  // namespace graticule::train
