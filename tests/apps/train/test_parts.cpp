// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/app/partition.hpp>
#include <graticule/samples/detail/samples.hpp>

#include "colours.hpp"
#include "coordinates.hpp"
#include "expect_error.hpp"
#include "map_picture.hpp"
#include "network/settings_table.hpp"
#include "network/settings_text.hpp"
#include "output/outputs.hpp"
#include "output/verify.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <numeric>
#include <set>

namespace graticule::train {
namespace {

using app::Colour;
using app::diverging_colour;
using app::MapPicture;
using app::sequential_colour;
using test::evenly;
using test::rule_of;

TEST(ChooseLayout, auto_takes_latitude_bands_while_they_are_tall_enough) {
  std::vector<double> const weights(40, 1.0);

  EXPECT_EQ(*app::choose_layout({}, 4, weights, 80).grid(), (ProcessGrid{4, 1}));
  EXPECT_EQ(*app::choose_layout({}, 5, weights, 80).grid(), (ProcessGrid{5, 1}));
  EXPECT_EQ(*app::choose_layout({}, 8, weights, 80).grid(), (ProcessGrid{4, 2}));
  EXPECT_EQ(*app::choose_layout({}, 7, weights, 80).grid(), (ProcessGrid{1, 7}));
}

TEST(ChooseLayout, cuts_follow_the_choice) {
  std::vector<double> const weights{1, 1, 1, 3};

  EXPECT_EQ(app::choose_layout({"2x1", "balanced"}, 2, weights, 8).cuts(0)->sizes(), (std::vector<Index>{2, 2}));
  EXPECT_EQ(app::choose_layout({"2x1", "area"}, 2, weights, 8).cuts(0)->sizes(), (std::vector<Index>{3, 1}));
  EXPECT_EQ(app::choose_layout({"2x1", "4,0"}, 2, weights, 8).cuts(0)->sizes(), (std::vector<Index>{4, 0}));
  Layout const both = app::choose_layout({"2x2", "1,3x6,2"}, 4, weights, 8);
  EXPECT_EQ(both.cuts(0)->sizes(), (std::vector<Index>{1, 3}));
  EXPECT_EQ(both.cuts(1)->sizes(), (std::vector<Index>{6, 2}));
}

TEST(ChooseLayout, what_does_not_fit_is_a_usage_error) {
  std::vector<double> const weights(12, 1.0);

  for (char const* partition : {"3x1", "2", "x2", "2x", "0x2", "-1x-2", "2x1x1", "two"})
    EXPECT_EQ(rule_of([&] {
                (void)app::choose_layout({partition, "balanced"}, 2, weights, 8);
              }),
              "BadOption")
        << partition;
  for (char const* cuts : {"5,6", "12", "4,4,4", "6;6", "-6,18", "6,6x3,5", ""})
    EXPECT_EQ(rule_of([&] { (void)app::choose_layout({"2x1", cuts}, 2, weights, 8); }), "BadCuts") << cuts;
}

TEST(Samples, the_first_axis_divides_training_from_validation) {
  SampleAxes axes{{"month", "level"}, {2, 3}, {{1, 7}, {200, 500, 850}}, {"", "hPa"}};

  EXPECT_EQ(axes.num_samples(), 6);
  EXPECT_EQ(axes.num_levels(), 3);
  EXPECT_EQ(axes.describe(4), "month = 7, level = 500 hPa");
  EXPECT_EQ(num_training_samples(axes, 0.5), 3);
  EXPECT_EQ(num_training_samples(axes, 0.01), 3);
  EXPECT_EQ(num_training_samples(axes, 0.99), 3);
  EXPECT_EQ(num_training_samples(axes, 1), 6);
  EXPECT_EQ(num_training_samples(SampleAxes{}, 0.5), 1);
}

TEST(Samples, an_epoch_is_a_permutation_named_by_seed_and_epoch) {
  std::vector<Index> const samples{0, 1, 2, 7, 8, 9, 10, 11};

  std::vector<Index> const order = shuffled(samples, 1, 0);
  EXPECT_TRUE(std::is_permutation(order.begin(), order.end(), samples.begin()));
  EXPECT_EQ(order, shuffled(samples, 1, 0));
  EXPECT_NE(order, shuffled(samples, 1, 1));
  EXPECT_NE(order, shuffled(samples, 2, 0));
}

TEST(Samples, vector_components_are_known_by_standard_name_first) {
  auto const variable = [](char const* name, char const* standard_name, char const* long_name) {
    Variable result;
    result.name = name;
    if (*standard_name != 0) result.attributes.push_back(Attribute::of_text("standard_name", standard_name));
    if (*long_name != 0) result.attributes.push_back(Attribute::of_text("long_name", long_name));
    return result;
  };

  EXPECT_EQ(component_of(variable("x", "eastward_wind", "")), Component::eastward);
  EXPECT_EQ(component_of(variable("x", "northward_sea_water_velocity", "")), Component::northward);
  EXPECT_EQ(component_of(variable("u", "air_temperature", "")), Component::scalar);
  EXPECT_EQ(component_of(variable("winds/V10", "", "")), Component::northward);
  EXPECT_EQ(component_of(variable("x", "", "U component of wind")), Component::eastward);
  EXPECT_EQ(component_of(variable("t", "", "")), Component::scalar);
  EXPECT_TRUE(is_potential(variable("x", "geopotential_height", "")));
  EXPECT_FALSE(is_potential(variable("z", "air_temperature", "")));
  EXPECT_TRUE(is_potential(variable("Z", "", "")));
}

NetworkSettings const f32{.precision = Precision::f32};
NetworkSettings const f64{.precision = Precision::f64};
NetworkSettings const bf16{.precision = Precision::f32, .compute = Compute::bf16};

TrainedNetwork network_with(std::vector<double> losses, std::vector<double> parameter) {
  TrainedNetwork network;
  network.losses = std::move(losses);
  network.parameters = {{"stem.weight", std::move(parameter)}};
  return network;
}

TEST(Verify, equal_runs_agree_and_the_largest_difference_is_found) {
  TrainedNetwork const reference = network_with({2, 1, 0.5}, {1, -1});

  Comparison const same = compare_runs(reference, reference);
  EXPECT_EQ(same.max_relative_loss_difference, 0);
  EXPECT_EQ(same.max_parameter_difference, 0);
  EXPECT_NO_THROW(require_agreement(same, f64));

  Comparison const other = compare_runs(network_with({2, 1.01, 0.501}, {1, -1.5}), reference);
  EXPECT_NEAR(other.max_relative_loss_difference, 0.01, 1e-12);
  EXPECT_EQ(other.worst_step, 2);
  EXPECT_EQ(other.max_parameter_difference, 0.5);
}

TEST(Verify, a_loss_beyond_the_tolerance_is_a_failed_check) {
  TrainedNetwork const reference = network_with({2, 1}, {1});
  auto const differs_by = [&](double relative) {
    return compare_runs(network_with({2, 1 + relative}, {1}), reference);
  };

  EXPECT_NO_THROW(require_agreement(differs_by(5e-10), f64));
  EXPECT_NO_THROW(require_agreement(differs_by(5e-4), f32));
  try {
    require_agreement(differs_by(2e-9), f64);
    FAIL() << "2e-9 passed";
  } catch (Error const& error) {
    EXPECT_EQ(error.fault(), Fault::check);
    EXPECT_EQ(error.rule(), "CheckFailed");
  }
  EXPECT_THROW(require_agreement(differs_by(2e-3), f32), Error);
  EXPECT_NO_THROW(require_agreement(differs_by(2e-2), bf16));
  EXPECT_THROW(require_agreement(differs_by(0.1), bf16), Error);
}

TEST(Verify, runs_of_other_lengths_and_values_that_are_no_numbers_fail) {
  TrainedNetwork const reference = network_with({2, 1}, {1});

  for (auto const& losses : {std::vector<double>{2}, {2, 1, 1}, {2, std::nan("")}, {}})
    EXPECT_THROW(require_agreement(compare_runs(network_with(losses, {1}), reference), f32), Error);
  EXPECT_TRUE(std::isinf(compare_runs(network_with({2, 1}, {1, 2}), reference).max_parameter_difference));
}

TEST(LearningRate, rises_then_falls_to_zero) {
  NetworkSettings settings;
  settings.learning_rate = 2;
  EXPECT_LT(learning_rate(settings, 0, 200), 0.2);
  EXPECT_NEAR(learning_rate(settings, 10, 200), 2, 0.04);
  EXPECT_NEAR(learning_rate(settings, 100, 200), 1, 1e-12);
  EXPECT_LT(learning_rate(settings, 199, 200), 2e-3);
  settings.schedule = "constant";
  settings.warmup_steps = 3;
  EXPECT_EQ(learning_rate(settings, 0, 200), 0.5);
  EXPECT_EQ(learning_rate(settings, 199, 200), 2);
  EXPECT_EQ(num_steps({.epochs = 5, .batch = 4}, 6), 10);
}

TEST(Colours, both_signs_are_equally_dark_and_zero_is_nearly_white) {
  auto const luminance = [](Colour c) { return 0.2126 * c.red + 0.7152 * c.green + 0.0722 * c.blue; };

  Colour const zero = diverging_colour(0);
  EXPECT_GT(std::min({zero.red, zero.green, zero.blue}), 240);
  double last = 256;
  for (double t = 0; t <= 1; t += 0.1) {
    double const warm = luminance(diverging_colour(t));
    EXPECT_LT(warm, last);
    EXPECT_NEAR(warm, luminance(diverging_colour(-t)), 45) << t;
    last = warm;
  }
  EXPECT_GT(diverging_colour(1).red, diverging_colour(1).blue);
  EXPECT_GT(diverging_colour(-1).blue, diverging_colour(-1).red);
  EXPECT_EQ(diverging_colour(7), diverging_colour(1));
  EXPECT_LT(luminance(sequential_colour(0)), luminance(sequential_colour(1)));
}

TEST(DrawMap, writes_a_png_of_the_announced_size) {
  std::vector<double> values(18 * 36);
  std::iota(values.begin(), values.end(), -300.0);
  values[40] = std::nan("");
  MapPicture const picture{
      "title",
      "subtitle",
      evenly(85, -10, 18),
      evenly(5, 10, 36),
      std::vector<double>(18, 1.0 / 18),
      Layout(ProcessGrid{2, 2}, {18, 36}),
      {{"u", "m s**-1", values, values}, {"positive", "", std::vector<double>(18 * 36, 3.0), values}}};
  std::filesystem::path const path = std::filesystem::temp_directory_path() / "graticule_test_map.png";

  draw_map(picture, path);

  std::ifstream file(path, std::ios::binary);
  std::array<unsigned char, 24> head{};
  file.read(reinterpret_cast<char*>(head.data()), head.size());
  auto const number = [&](int at) {
    return (head[std::size_t(at)] << 24) | (head[std::size_t(at) + 1] << 16) | (head[std::size_t(at) + 2] << 8) |
           head[std::size_t(at) + 3];
  };
  EXPECT_EQ(std::string(head.begin() + 1, head.begin() + 4), "PNG");
  EXPECT_EQ(number(16), picture_size(picture).width);
  EXPECT_EQ(number(20), picture_size(picture).height);
  std::filesystem::remove(path);
  EXPECT_EQ(rule_of([&] { draw_map(picture, "/nowhere/map.png"); }), "OutputError");
}

TEST(DrawFields, writes_a_png_with_a_row_per_time_and_a_column_per_field) {
  auto const size_of = [](std::size_t times, std::size_t columns) {
    app::FieldPicture picture{"title", "", evenly(85, -10, 18), evenly(5, 10, 36), Layout(ProcessGrid{1, 1}, {18, 36}),
                              {},      {}};
    picture.times.assign(times, "day 1");
    std::vector<double> const values(18 * 36, 1e-5);
    picture.columns.assign(columns, {"h", "m", std::vector(times, values)});
    std::filesystem::path const path = std::filesystem::temp_directory_path() / "graticule_test_fields.png";
    draw_fields(picture, path);
    std::ifstream file(path, std::ios::binary);
    std::array<unsigned char, 24> head{};
    file.read(reinterpret_cast<char*>(head.data()), head.size());
    std::filesystem::remove(path);
    auto const size = picture_size(picture);
    EXPECT_EQ(std::string(head.begin() + 1, head.begin() + 4), "PNG");
    EXPECT_EQ(head[18] << 8 | head[19], size.width);
    EXPECT_EQ(head[22] << 8 | head[23], size.height);
    return size;
  };
  auto const one = size_of(1, 1);
  auto const more = size_of(3, 2);

  EXPECT_GT(more.width, one.width + 500);
  EXPECT_GT(more.height, one.height + 500);
}

TEST(LossTable, has_one_line_per_step_and_all_digits) {
  NetworkSettings settings;
  settings.epochs = 2;

  TrainedNetwork network;
  network.losses = {1.0 / 3, 0.25, 0.2, 0.1};
  network.steps_per_epoch = 2;
  network.num_steps = 4;
  network.validations = {{2, 1.0 / 3}, {4, 0.5}};

  std::string const table = loss_table(network, settings);

  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 5);
  EXPECT_NE(table.find("\n1,1,"), std::string::npos);
  EXPECT_NE(table.find("\n3,2,"), std::string::npos);
  EXPECT_NE(table.find("0.33333333333333331"), std::string::npos);
  EXPECT_EQ(validation_table(network), "step,epoch,loss\n2,1,0.33333333333333331\n4,2,0.5\n");
}

TEST(SettingsText, names_the_first_option_that_differs) {
  TrainingData const data;
  NetworkSettings settings;
  std::string const saved = settings_text(settings, data);
  EXPECT_NO_THROW(require_same_training("c.h5", saved, settings_text(settings, data)));

  settings.learning_rate = std::nextafter(settings.learning_rate, 1);
  settings.epochs = 51;
  try {
    require_same_training("c.h5", saved, settings_text(settings, data));
    FAIL() << "nothing was thrown";
  } catch (Error const& error) {
    EXPECT_EQ(error.rule(), "StateMismatch");
    EXPECT_EQ(error.fault(), Fault::usage);
    EXPECT_NE(error.text().find("c.h5 was made with '--lr 0.002', this training has '--lr 0.00200"), std::string::npos)
        << error.text();
  }
}

TEST(SettingsText, names_an_option_that_only_one_training_has) {
  TrainingData const data;
  NetworkSettings settings;
  auto const plain = settings_text(settings, data);
  settings.compute = Compute::bf16;
  auto const narrow = settings_text(settings, data);
  auto const refusal = [](std::string const& saved, std::string const& current) {
    try {
      require_same_training("c.h5", saved, current);
    } catch (Error const& error) {
      return error.text().substr(0, error.text().find(';'));
    }
    return std::string("nothing was thrown");
  };

  EXPECT_EQ(refusal(plain, narrow), "c.h5 was made without '--precision bf16', this training has it");
  EXPECT_EQ(refusal(narrow, plain), "c.h5 was made with '--precision bf16', this training is without");
}

TEST(SettingsText, differs_for_every_optimizer_loss_and_wire) {
  TrainingData const data;
  std::set<std::string> texts;
  std::size_t num_settings = 0;
  for (auto const optimizer : graticule::detail::enum_values<OptimizerKind>)
    for (auto const loss : graticule::detail::enum_values<LossKind>)
      for (auto const wire : graticule::detail::enum_values<training::Wire>) {
        if (!is_choice(wire)) continue;
        texts.insert(settings_text({.wire = wire, .loss = loss, .optimizer = optimizer}, data));
        ++num_settings;
      }

  EXPECT_EQ(texts.size(), num_settings);
  EXPECT_NE(settings_text({.optimizer = OptimizerKind::sgd}, data).find("--optimizer sgd\n"), std::string::npos);
  EXPECT_THROW((void)settings_text({.optimizer = OptimizerKind(9)}, data), Error);
}

TEST(SettingsText, compares_options_whatever_their_order) {
  TrainingData const data;
  auto const current = settings_text({.seed = 7}, data);
  auto const line = current.find("--seed 7\n");
  ASSERT_NE(line, std::string::npos);
  auto moved = current;
  moved.erase(line, 9);
  moved.insert(0, "--seed 7\n");

  EXPECT_NO_THROW(require_same_training("c.h5", moved, current));
  EXPECT_THROW(require_same_training("c.h5", moved, settings_text({.seed = 8}, data)), Error);
}

// As earlier versions wrote it.
TEST(SettingsText, resumes_a_training_of_an_earlier_version) {
  NetworkSettings const settings{.parallel = Parallel::daso, .loss = LossKind::spectral, .clip = 2};
  std::string const saved =
      "--model convnet\n--channels 32\n--blocks 4\n--kernel 3\n--batch 3\n--lr 0.002\n--schedule cosine\n"
      "--warmup-steps -1\n--wire own\n--seed 1\n--dtype f32\n--validate-every 0\n--early-stopping 0\n"
      "--parallel daso\n--daso-warmup -1\n--daso-cooldown -1\n--daso-max-skip 8\n--loss spectral\n"
      "--spectral-weight 0.10000000000000001\n--clip 2\n--epochs 50\n";

  EXPECT_NO_THROW(require_same_training("c.h5", saved, settings_text(settings)));
  EXPECT_THROW(require_same_training("c.h5", saved + "--ema 0.5\n", settings_text(settings)), Error);
}

TEST(SettingsText, compares_the_times_of_samples_where_a_checkpoint_has_them) {
  std::string const before = "--seed 1\nforecast x\n";

  EXPECT_NO_THROW(require_same_training("c.h5", before, before + "times of samples 5\n"));
  EXPECT_NO_THROW(require_same_training("c.h5", before + "times of samples 5\n", before + "times of samples 5\n"));
  EXPECT_THROW(require_same_training("c.h5", before + "times of samples 5\n", before + "times of samples 6\n"), Error);
}

/// A value unlike the present one that the limits allow.
void change(double& value) { value = value / 2 + 0.25; }
void change(Index& value) { value += 2; }
void change(std::uint64_t& value) { ++value; }
void change(std::string& value) { value = value == "linear" ? "steps" : "linear"; }
template <class Enum>
void change(Enum& value) {
  value = Enum(value == Enum(0) ? 1 : 0);
}

TEST(SettingsText, differs_for_every_setting_but_those_that_change_rounding_alone) {
  std::set<std::string> ignored;
  int num_settings = 0;
  NetworkSettings settings{.schedule = "linear", .parallel = Parallel::daso, .loss = LossKind::spectral};
  auto const before = settings_text(settings);
  visit_settings(settings, [&](SettingRow const& row, auto& value, auto const&) {
    auto const unchanged = value;
    change(value);
    if (settings_text(settings) == before) ignored.insert(row.option);
    value = unchanged;
    ++num_settings;
  });

  EXPECT_EQ(num_settings, 28);
  EXPECT_EQ(ignored, (std::set<std::string>{"--accumulate", "--daso-node-teams", "--shard-parameters"}));
}

TEST(SettingsText, leaves_the_length_open_where_the_steps_do_not_depend_on_it) {
  TrainingData const data;
  NetworkSettings settings;
  settings.schedule = "constant";
  settings.warmup_steps = 5;
  std::string const saved = settings_text(settings, data);

  settings.epochs *= 2;

  EXPECT_EQ(settings_text(settings, data), saved);
}

}  // namespace
}  // namespace graticule::train
