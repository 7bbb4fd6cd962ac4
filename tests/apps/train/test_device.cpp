// SPDX-License-Identifier: BSD-3-Clause
// Whole trainings and forecasts on a device: the losses, predictions and scores of the host, on the guarded device,
// which no host code can touch and whose work runs as late as its stream allows, or on a GPU.
#include <graticule/models/detail/model_kinds.hpp>
#include <graticule/models/forecaster.hpp>

#include "guarded_torch.hpp"
#include "output/verify.hpp"
#include "shared_folder.hpp"
#include "train_fields.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

namespace graticule::train {
namespace {

using test::guarded_torch_device;
using test::GuardedDevice;

/// Of a guarded device for each of two ranks, or of the rank's GPU.
std::string device_name(Comm const& comm) {
  if (test::gpu_is_wanted()) return test::test_torch_device().str();
  int const index = comm.rank() % GuardedDevice::num_devices;
  (void)guarded_torch_device(index);
  return "privateuseone:" + std::to_string(index);
}

struct Found {
  RunResult result;
  std::vector<double> predictions;  ///< of this rank
};

Found run_on(Comm const& comm, RunSettings settings, std::string const& device) {
  settings.network.device = device;
  std::vector<double> predictions;
  RunObserver const observer{.on_start = [](RunResult const&, Index) {},
                             .on_step = [](Index, double) {},
                             .on_predictions =
                                 [&](RunResult const&, PredictedFields const& fields) {
                                   predictions.insert(predictions.end(), fields.prediction.begin(),
                                                      fields.prediction.end());
                                 }};
  auto result = run_training(comm, settings, observer);
  return {std::move(result), std::move(predictions)};
}

class DeviceRun : public testing::Test {
 protected:
  DeviceRun() : folder_(comm_) {}

  RunSettings settings() const {
    RunSettings settings;
    settings.input = folder_ / "fields.nc";
    settings.network = {
        .channels = 4, .blocks = 2, .epochs = 1, .batch = 3, .learning_rate = 8e-3, .precision = Precision::f64};
    return settings;
  }

  /// The same training on the host and, each rank on a device of its own, on the device.
  void expect_as_on_host(RunSettings const& settings) const {
    auto const expected = run_on(comm_, settings, "cpu");
    auto const found = run_on(comm_, settings, device_name(comm_));

    auto const comparison = compare_runs(found.result.network, expected.result.network);
    EXPECT_LE(comparison.max_relative_loss_difference, 1e-11);
    EXPECT_LE(comparison.max_parameter_difference, 1e-9);
    ASSERT_EQ(found.predictions.size(), expected.predictions.size());
    double largest = 0;
    for (std::size_t i = 0; i < found.predictions.size(); ++i) {
      double const difference = std::abs(found.predictions[i] - expected.predictions[i]);
      largest = std::isnan(difference) || difference > largest ? difference : largest;
    }
    EXPECT_LE(largest, 1e-7);
  }

  Comm comm_ = Comm::world();
  test::Folder folder_;
};

TEST_F(DeviceRun, an_epoch_of_every_network_has_the_losses_of_the_host) {
  test::write_train_fields(comm_, folder_ / "fields.nc", {.has_missing = true});
  for (auto const& [name, kind] : model_kinds()) {
    SCOPED_TRACE(name);
    auto settings = this->settings();
    settings.network.model = kind;
    settings.network.validate_every = 1;
    settings.network.ema = kind == ModelKind::convnet ? 0.9 : 0;
    settings.network.clip = kind == ModelKind::unet ? 0.1 : 0;
    expect_as_on_host(settings);
  }
}

TEST_F(DeviceRun, cut_parameters_have_the_losses_of_the_host) {
  test::write_train_fields(comm_, folder_ / "fields.nc", {});
  auto settings = this->settings();
  settings.network.shards = Shards::domain;
  expect_as_on_host(settings);
}

TEST_F(DeviceRun, exported_networks_have_the_losses_of_the_host) {
  auto const network = std::filesystem::path(GRATICULE_TEST_DATA) / "programs/unet_probe/program.pt2";
  if (!std::filesystem::exists(network)) GTEST_SKIP() << network << " is missing";
  test::write_train_fields(comm_, folder_ / "fields.nc", {.num_rows = 24, .num_columns = 48, .num_levels = 1});
  auto settings = this->settings();
  settings.inputs = {"z"};
  settings.features = {"value", "east", "north"};
  settings.targets = {"u", "v"};
  settings.statics = {};
  settings.mirror = Mirror::off;
  settings.network.model = ModelKind::program;
  settings.network.program = network;
  expect_as_on_host(settings);
}

TEST_F(DeviceRun, forecasts_of_a_device_are_those_of_the_host) {
  test::write_train_fields(comm_, folder_ / "fields.nc", {.num_times = 6, .has_missing = true});
  auto settings = this->settings();
  settings.train_fraction = 0.7;
  settings.forecast.emplace();
  settings.forecast->prognostic = {"u", "v"};
  settings.forecast->diagnostic = {"z"};
  settings.forecast->forcings = {"insolation"};
  settings.forecast->rollouts = {{0, 2}};
  settings.forecast->rollout_checkpoint = 1;
  settings.forecast->validate_steps = 2;
  settings.checkpoints = CheckpointSettings{.folder = folder_ / "checkpoints", .runnable = folder_.path()};

  auto const expected = run_on(comm_, settings, "cpu");
  auto const found = run_on(comm_, settings, device_name(comm_));

  EXPECT_LE(compare_runs(found.result.network, expected.result.network).max_relative_loss_difference, 1e-11);
  for (Index c = 0; c < 2; ++c)
    for (Index lead = 0; lead < 2; ++lead)
      EXPECT_NEAR(found.result.forecast->scores->score(c, lead, 0).rmse,
                  expected.result.forecast->scores->score(c, lead, 0).rmse, 1e-8);

  auto on_host = models::load(folder_.path(), comm_);
  auto on_device = models::load(folder_.path(), comm_, {.device = device_name(comm_)});
  auto const cells = std::size_t(on_host.owned().num_cells());
  auto const& description = on_host.description();
  std::vector<double> states(std::size_t(2 * description.history) * description.num_prognostic() * cells);
  for (std::size_t i = 0; i < states.size(); ++i) states[i] = 10 * std::sin(double(i % 97));
  for (auto* const network : {&on_host, &on_device}) {
    network->start(states, 2);
    for (int step = 0; step < 2; ++step) network->step(Seconds(step) * description.lead_seconds);
  }
  for (Index member = 0; member < 2; ++member) {
    auto const a = on_host.present(member);
    auto const b = on_device.present(member);
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-7) << i;
  }
}

}  // namespace
}  // namespace graticule::train
