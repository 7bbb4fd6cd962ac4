// SPDX-License-Identifier: BSD-3-Clause
// Networks exported by PyTorch, trained further on fields of files.
#include <graticule/field_io/file.hpp>
#include <graticule/models/forecaster.hpp>
#include <graticule/program/program.hpp>

#include "expect_error.hpp"
#include "output/verify.hpp"
#include "run.hpp"
#include "train_fields.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <filesystem>

namespace graticule::models {
namespace {

using test::ErrorWith;
using test::rule_of;

train::RunObserver const silent{.on_start = [](train::RunResult const&, Index) {}, .on_step = [](Index, double) {}};

class ExportedNetwork : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() / ("graticule_exported_" + std::to_string(comm_.num_ranks()) + "_" +
                                                  testing::UnitTest::GetInstance()->current_test_info()->name());
    if (comm_.rank() == 0) {
      std::filesystem::remove_all(folder_);
      std::filesystem::create_directories(folder_);
    }
    comm_.barrier();
  }
  void TearDown() override {
    comm_.barrier();
    if (comm_.rank() == 0) std::filesystem::remove_all(folder_);
  }

  static std::filesystem::path network(char const* name) {
    return std::filesystem::path(GRATICULE_TEST_DATA) / "programs" / name / "program.pt2";
  }

  /// z, u and v of some levels on 6 days, of which 4 train.
  train::RunSettings settings(char const* name, Index num_rows, Index num_columns, Index num_levels) {
    test::write_train_fields(
        comm_, folder_ / "fields.nc",
        {.num_rows = num_rows, .num_columns = num_columns, .num_times = 6, .num_levels = num_levels});
    train::RunSettings settings;
    settings.input = folder_ / "fields.nc";
    settings.train_fraction = 0.7;
    settings.statics = {};
    settings.features = {"value"};
    settings.mirror = train::Mirror::off;
    settings.network = {.model = ModelKind::program,
                        .program = network(name),
                        .epochs = 1,
                        .batch = 2,
                        .learning_rate = 1e-3,
                        .precision = train::Precision::f64};
    return settings;
  }
  static void make_forecast(train::RunSettings& settings, std::vector<std::string> prognostic) {
    settings.forecast = train::ForecastSettings{.prognostic = std::move(prognostic)};
    settings.forecast->forcings = {};
    settings.forecast->history = 1;
    settings.forecast->validate_steps = 1;
  }

  /// On all ranks as on one.
  void expect_same_losses(train::RunSettings const& settings) {
    auto const all = train::run_training(comm_, settings, silent);
    Comm const self = comm_.split(comm_.rank(), 0);
    auto const alone = train::run_training(self, settings, silent);

    auto const comparison = train::compare_runs(all.network, alone.network);
    EXPECT_LE(comparison.max_relative_loss_difference, 1e-9);
    ASSERT_GE(all.network.losses.size(), 2u);
    EXPECT_NE(all.network.losses[0], all.network.losses[1]);
    for (double const loss : all.network.losses) EXPECT_TRUE(std::isfinite(loss));
  }

  Comm comm_ = Comm::world();
  std::filesystem::path folder_;
};

#define SKIP_WITHOUT(name) \
  if (!std::filesystem::exists(network(name))) GTEST_SKIP() << network(name) << " is missing"

TEST_F(ExportedNetwork, learns_fields_of_the_same_time) {
  SKIP_WITHOUT("unet_probe");
  auto settings = this->settings("unet_probe", 24, 48, 1);
  settings.inputs = {"z"};
  settings.features = {"value", "east", "north"};  // three channels
  settings.targets = {"u", "v"};
  expect_same_losses(settings);
}

TEST_F(ExportedNetwork, learns_forecasts_of_several_steps) {
  SKIP_WITHOUT("makani_sfno");
  auto settings = this->settings("makani_sfno", 33, 64, 2);
  make_forecast(settings, {"u", "v"});
  settings.forecast->rollouts = {{0, 2}};
  expect_same_losses(settings);
}

TEST_F(ExportedNetwork, takes_functions_of_latitude_as_channels) {
  SKIP_WITHOUT("credit_swin");
  auto settings = this->settings("credit_swin", 32, 64, 7);
  make_forecast(settings, {"u"});
  settings.statics = {"coriolis"};  // 7 levels and this
  expect_same_losses(settings);
}

TEST_F(ExportedNetwork, goes_back_to_its_format_and_into_any_program) {
  SKIP_WITHOUT("makani_sfno");
  auto settings = this->settings("makani_sfno", 33, 64, 2);
  make_forecast(settings, {"u", "v"});
  settings.forecast->predict = Predict::state;
  settings.forecast->polar_filter = 0;  // as by the command line
  settings.checkpoints = train::CheckpointSettings{.folder = folder_ / "checkpoints", .runnable = folder_};
  auto const trained = train::run_training(comm_, settings, silent);

  program::Program before(network("makani_sfno"));
  program::Program after(folder_ / "network.pt2");
  auto loaded = load(folder_, comm_);

  double change = 0;
  for (auto const& item : after->named_parameters())
    change += (item.value() - before->parameter(item.key())).abs().sum().item<double>();
  EXPECT_GT(change, 0);
  // One step by hand, on the whole grid.
  after->to(torch::kFloat64);
  auto const& description = loaded.description();
  FieldFile const file(comm_, folder_ / "fields.nc");
  torch::Tensor state = torch::empty({1, 4, 33, 64}, torch::kFloat64);
  std::span<double> const values(state.data_ptr<double>(), std::size_t(state.numel()));
  std::size_t const half = values.size() / 2;
  file.read("u", Box({3, 0, 0, 0}, {4, 2, 33, 64}), values.first(half));
  file.read("v", Box({3, 0, 0, 0}, {4, 2, 33, 64}), values.last(half));
  std::vector<double> means;
  std::vector<double> scales;
  for (auto const& scale : description.values) {
    means.push_back(scale.mean);
    scales.push_back(scale.scale);
  }
  auto const mean = torch::tensor(means, torch::kFloat64).reshape({1, -1, 1, 1});
  auto const scale = torch::tensor(scales, torch::kFloat64).reshape({1, -1, 1, 1});
  torch::NoGradGuard const no_grad;
  torch::Tensor const expected = after->forward((state - mean) / scale) * scale + mean;

  Box const box = loaded.owned();
  auto const part = [&](torch::Tensor const& whole) {
    return whole.slice(2, box.lo(0), box.hi(0)).slice(3, box.lo(1), box.hi(1)).contiguous();
  };
  torch::Tensor const mine = part(state);
  auto const later =
      loaded.next({mine.data_ptr<double>(), std::size_t(mine.numel())}, parse_date("", "2000-01-04").first);
  auto const result = torch::tensor(later, torch::kFloat64).reshape({1, 4, box.extent(0), box.extent(1)});
  // network.pt2 has the weights in f32, as the file that it came from.
  EXPECT_TRUE(torch::allclose(result, part(expected), 1e-4, 1e-4 * scale.max().item<double>()));
}

TEST_F(ExportedNetwork, is_refused_where_channels_or_grid_differ) {
  SKIP_WITHOUT("makani_sfno");
  auto settings = this->settings("makani_sfno", 33, 64, 1);
  make_forecast(settings, {"u", "v"});
  auto const run = [&] { static_cast<void>(train::run_training(comm_, settings, silent)); };
  EXPECT_EQ(rule_of(run), (ErrorWith{"ShapeMismatch",
                                     "takes x[1, 4, 33, 64], where [batch, 2, 33, 64] is needed: 2 "
                                     "channels (u 0, v 0) on 33 x 64 cells"}));
  make_forecast(settings, {"u", "v", "z"});
  settings.statics = {"coriolis"};
  EXPECT_EQ(rule_of(run), (ErrorWith{"ShapeMismatch", "where [batch, 3, 33, 64] is needed"}));
  settings = this->settings("makani_sfno", 19, 36, 2);
  make_forecast(settings, {"u", "v"});
  EXPECT_EQ(rule_of(run), (ErrorWith{"ShapeMismatch", "where [batch, 4, 19, 36] is needed"}));
  settings.network.program = network("physicsnemo_dlwp");
  EXPECT_EQ(rule_of(run), (ErrorWith{"Unsupported", "takes one field [batch, channels, rows, columns]"}));
  settings.network.program = folder_ / "nothing.pt2";
  EXPECT_EQ(rule_of(run), (ErrorWith{"NoSuchFile", "nothing.pt2"}));
}

}  // namespace
}  // namespace graticule::models
