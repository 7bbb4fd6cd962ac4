// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/models/description.hpp>
#include <graticule/models/detail/stored_description.hpp>
#include <graticule/partition/cuts.hpp>

#include "expect_error.hpp"
#include "shared_folder.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

namespace graticule::models {
namespace {

using test::ErrorWith;
using test::Folder;
using test::rule_of;
using test::thrown_by;

constexpr Index num_rows = 7;
constexpr Index num_columns = 8;

StateChannel channel(std::string const& variable, Index level, Role role, Component component) {
  StateChannel result;
  result.label = variable + " " + std::to_string(level);
  result.variable = variable;
  result.level = level;
  result.role = role;
  result.info.name = variable;
  result.info.units = "m s-1";
  result.info.long_name = "a \"long\" name";
  result.info.standard_name = "standard_name_of_" + variable;
  result.info.component = component;
  result.info.parity = component == Component::scalar ? Parity::even : Parity::odd;
  return result;
}

/// Two levels of u, one of t, and z as a diagnostic variable.
Description some_description() {
  Description d;
  d.channels = {
      channel("u", 0, Role::prognostic, Component::eastward), channel("u", 1, Role::prognostic, Component::eastward),
      channel("t", 0, Role::prognostic, Component::scalar), channel("z", 0, Role::diagnostic, Component::scalar)};
  d.channels[2].info.mirror_negates = true;
  d.channels[3].info.is_potential = true;
  d.values = {{0, 10}, {0, 1.0 / 3}, {273.15, 20}, {5e4, 1e3}};
  d.tendencies = {{0, 2}, {1e-300, 0.1}, {0.1 + 0.2, 4}};
  d.east_scales = {1e-5, 2e-5, std::nextafter(3e-5, 1)};
  d.north_scales = {4e-5, 5e-5, 6e-5};
  d.features = {Feature::value, Feature::north};
  d.history = 3;
  d.lead = {.steps = 2, .duration = 0};
  d.lead_seconds = 43200;
  d.predict = Predict::tendency;
  d.polar_filter = 62.5;
  d.perturbation = 0.25;
  d.forcings = {"time_of_year"};
  d.row_functions = {"coriolis", "cos_latitude"};
  d.statics = {{"orography", {400, 800}}, {"land", {0.3, 0.5}}};
  d.model = ModelKind::unet;
  d.width = 24;
  d.blocks = 3;
  d.kernel = 5;
  d.dtype = DType::f64;
  for (Index i = 0; i < num_rows; ++i) d.latitudes.push_back(60 - 20 * double(i));
  for (Index j = 0; j < num_columns; ++j) d.longitudes.push_back(double(j) / 3);
  return d;
}

void expect_equal(ChannelScale const& found, ChannelScale const& expected) {
  EXPECT_EQ(found.mean, expected.mean);
  EXPECT_EQ(found.scale, expected.scale);
}

void expect_equal(std::vector<ChannelScale> const& found, std::vector<ChannelScale> const& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) expect_equal(found[i], expected[i]);
}

/// All but the file of a program.
void expect_equal(Description const& found, Description const& expected) {
  ASSERT_EQ(found.channels.size(), expected.channels.size());
  for (std::size_t c = 0; c < found.channels.size(); ++c) {
    SCOPED_TRACE(c);
    auto const& a = found.channels[c];
    auto const& b = expected.channels[c];
    EXPECT_EQ(a.label, b.label);
    EXPECT_EQ(a.variable, b.variable);
    EXPECT_EQ(a.level, b.level);
    EXPECT_EQ(a.role, b.role);
    EXPECT_EQ(a.info.name, b.info.name);
    EXPECT_EQ(a.info.units, b.info.units);
    EXPECT_EQ(a.info.long_name, b.info.long_name);
    EXPECT_EQ(a.info.standard_name, b.info.standard_name);
    EXPECT_EQ(a.info.component, b.info.component);
    EXPECT_EQ(a.info.parity, b.info.parity);
    EXPECT_EQ(a.info.is_potential, b.info.is_potential);
    EXPECT_EQ(a.info.mirror_negates, b.info.mirror_negates);
  }
  expect_equal(found.values, expected.values);
  expect_equal(found.tendencies, expected.tendencies);
  EXPECT_EQ(found.east_scales, expected.east_scales);
  EXPECT_EQ(found.north_scales, expected.north_scales);
  EXPECT_EQ(found.features, expected.features);
  EXPECT_EQ(found.history, expected.history);
  EXPECT_EQ(found.lead, expected.lead);
  EXPECT_EQ(found.lead_seconds, expected.lead_seconds);
  EXPECT_EQ(found.predict, expected.predict);
  EXPECT_EQ(found.polar_filter, expected.polar_filter);
  EXPECT_EQ(found.perturbation, expected.perturbation);
  EXPECT_EQ(found.forcings, expected.forcings);
  EXPECT_EQ(found.row_functions, expected.row_functions);
  ASSERT_EQ(found.statics.size(), expected.statics.size());
  for (std::size_t i = 0; i < found.statics.size(); ++i) {
    EXPECT_EQ(found.statics[i].name, expected.statics[i].name);
    expect_equal(found.statics[i].scale, expected.statics[i].scale);
  }
  EXPECT_EQ(found.model, expected.model);
  EXPECT_EQ(found.width, expected.width);
  EXPECT_EQ(found.blocks, expected.blocks);
  EXPECT_EQ(found.kernel, expected.kernel);
  EXPECT_EQ(found.dtype, expected.dtype);
  EXPECT_EQ(found.latitudes, expected.latitudes);
  EXPECT_EQ(found.longitudes, expected.longitudes);
}

TEST(Description, lists_variables_and_counts_channels_by_role) {
  auto const d = some_description();

  EXPECT_EQ(d.variables(Role::prognostic), (std::vector<std::string>{"u", "t"}));
  EXPECT_EQ(d.variables(Role::diagnostic), (std::vector<std::string>{"z"}));
  EXPECT_EQ(d.num_prognostic(), 3U);
  EXPECT_EQ(d.num_diagnostic(), 1U);
}

TEST(Description, lists_the_inputs_of_the_network_with_their_parities) {
  auto const inputs = some_description().inputs();

  // Features of the present, changes of the two leads before, forcings, static fields.
  std::vector<ChannelInfo> const expected{{"u 0", Parity::odd},
                                          {"u 1", Parity::odd},
                                          {"t 0", Parity::even},
                                          {"d/dy u 0", Parity::even},
                                          {"d/dy u 1", Parity::even},
                                          {"d/dy t 0", Parity::odd},
                                          {"change of u 0", Parity::odd},
                                          {"change of u 1", Parity::odd},
                                          {"change of t 0", Parity::even},
                                          {"change of u 0 2 leads ago", Parity::odd},
                                          {"change of u 1 2 leads ago", Parity::odd},
                                          {"change of t 0 2 leads ago", Parity::even},
                                          {"sin_year", Parity::even},
                                          {"cos_year", Parity::even},
                                          {"orography", Parity::even},
                                          {"land", Parity::even}};
  ASSERT_EQ(inputs.size(), expected.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_EQ(inputs[i].name, expected[i].name);
    EXPECT_EQ(inputs[i].parity, expected[i].parity) << inputs[i].name;
  }
}

TEST(Description, weighs_errors_by_the_scale_of_what_is_predicted) {
  auto d = some_description();
  EXPECT_EQ(d.error_factors(), (std::vector<double>{10.0 / 2, (1.0 / 3) / 0.1, 20.0 / 4, 1}));
  d.predict = Predict::state;
  EXPECT_EQ(d.error_factors(), (std::vector<double>{1, 1, 1, 1}));
}

TEST(Description, comes_back_from_its_text_with_all_digits) {
  auto d = some_description();
  expect_equal(description_of(to_text(d), "x.h5"), d);
  d.predict = Predict::state;
  d.polar_filter = 0;
  d.perturbation = 0;
  d.lead = {.steps = 0, .duration = 21600};
  d.model = ModelKind::program;
  d.dtype = DType::f32;
  d.features = {Feature::east};
  d.statics.clear();
  expect_equal(description_of(to_text(d), "x.h5"), d);
}

TEST(Description, keeps_texts_that_are_no_utf8) {
  auto expected = some_description();
  expected.channels[0].variable = "temp\xe9rature \xff";
  expected.channels[0].label = "temp\xe9rature 0";
  expected.channels[0].info.name = expected.channels[0].variable;
  expected.channels[1].info.units =
      "\xb0"
      "C";
  expected.channels[2].info.long_name =
      "H\xf6he in \xc3\xa9 \xef\x9e\x80 \xef\x9f\xbf \xef\x9e \xf0\x9f\x8c\x8d \xed\xa0\x80";
  expected.channels[3].info.standard_name = "\x80";
  expected.statics[0].name = "\xfe";

  auto const found = description_of(to_text(expected), "file");

  expect_equal(found, expected);
}

TEST(Description, says_which_file_has_a_text_that_is_none_or_newer) {
  auto const text = to_text(some_description());
  auto newer = text;
  newer.replace(newer.find("\"format\":1"), 10, "\"format\":2");
  auto renamed = text;
  renamed.replace(renamed.find("\"history\""), 9, "\"herstory\"");
  auto other_type = text;
  other_type.replace(other_type.find("\"width\":24"), 10, "\"width\":\"24\"");

  auto unknown_kind = text;
  unknown_kind.replace(unknown_kind.find("\"kind\":\"") + 8, 1, "Q");

  for (auto const& broken :
       {text.substr(0, text.size() / 2), renamed, other_type, unknown_kind, std::string("{}"), std::string()}) {
    auto const thrown = thrown_by([&] { static_cast<void>(description_of(broken, "run/x.h5")); });
    EXPECT_EQ(thrown.rule, "BrokenFile") << broken.substr(0, 40);
    EXPECT_EQ(thrown.fault, Fault::input);
    EXPECT_TRUE(thrown.text.starts_with("run/x.h5: ")) << thrown.text;
  }
  EXPECT_EQ(rule_of([&] { static_cast<void>(description_of(newer, "run/x.h5")); }),
            (ErrorWith{"UnsupportedFile", "run/x.h5 was written by a newer version"}));
  auto unknown = to_text(some_description());
  std::string const predicts = "\"predict\":\"tendency\"";
  ASSERT_NE(unknown.find(predicts), std::string::npos);
  unknown.replace(unknown.find(predicts), predicts.size(), "\"predict\":\"spectrum\"");
  EXPECT_EQ(rule_of([&] { static_cast<void>(description_of(unknown, "run/x.h5")); }),
            (ErrorWith{"BrokenFile", "predicts 'spectrum'; it may be state, tendency"}));
}

TEST(Description, of_a_program_takes_and_gives_values_in_their_units) {
  auto const channels = some_description().channels;

  auto const d = program_description("net.pt2", channels, {.duration = 3600}, 3600, {10, 0, -10}, {0, 120, 240});

  EXPECT_EQ(d.model, ModelKind::program);
  EXPECT_EQ(d.program, "net.pt2");
  EXPECT_EQ(d.predict, Predict::state);
  EXPECT_EQ(d.features, std::vector<Feature>{Feature::value});
  EXPECT_EQ(d.history, 1);
  EXPECT_EQ(d.lead, (Lead{0, 3600}));
  EXPECT_EQ(d.lead_seconds, 3600);
  EXPECT_TRUE(d.forcings.empty() && d.statics.empty() && d.row_functions.empty());
  EXPECT_EQ(d.num_prognostic(), 3U);
  EXPECT_EQ(d.num_diagnostic(), 1U);
  expect_equal(d.values, std::vector<ChannelScale>(4, {0, 1}));
  expect_equal(d.tendencies, std::vector<ChannelScale>(3, {0, 1}));
  EXPECT_EQ(d.inputs().size(), 3U);
  EXPECT_EQ(d.latitudes, (std::vector<double>{10, 0, -10}));
  EXPECT_EQ(d.longitudes, (std::vector<double>{0, 120, 240}));
}

/// [field][row][column] of a box: numbers by field and global cell.
std::vector<double> numbered(Index num_fields, Box const& box) {
  std::vector<double> values;
  for (Index c = 0; c < num_fields; ++c)
    for (Index i = box.lo(0); i < box.hi(0); ++i)
      for (Index j = box.lo(1); j < box.hi(1); ++j) values.push_back(double(1000 * c + num_columns * i + j) + 0.5);
  return values;
}

/// A checkpoint with a description in a folder.
std::filesystem::path save(Comm const& comm, std::filesystem::path const& folder, Description const& d) {
  Layout const layout(ProcessGrid{comm.num_ranks(), 1}, {num_rows, num_columns});
  Box const box = layout.owned(comm.rank());
  CheckpointStore store(comm, folder);
  auto writer = store.begin(1);
  save_description(writer, d, layout, box, numbered(Index(d.channels.size()), box),
                   std::vector(d.statics.size(), numbered(1, box)));
  return writer.commit();
}

TEST(SavedDescription, is_read_in_any_layout) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const d = some_description();
  Checkpoint const checkpoint(comm, save(comm, folder / "run", d));
  // All on the last rank.
  std::vector<Index> rows(std::size_t(comm.num_ranks()), 0);
  rows.back() = num_rows;
  Layout const last(ProcessGrid{comm.num_ranks(), 1}, {Cuts(rows), balanced_cuts(num_columns, 1)});
  Layout const columns(ProcessGrid{1, comm.num_ranks()}, {num_rows, num_columns});

  expect_equal(description_of(checkpoint), d);
  for (Layout const& layout : {last, columns}) {
    Box const box = layout.owned(comm.rank());
    EXPECT_EQ(load_climatology(checkpoint, d, box), numbered(4, box));
  }
}

TEST(OpenTrained, takes_files_folders_and_the_best_network_of_a_training) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto d = some_description();
  d.width = 1;
  auto const file = save(comm, folder / "run" / "last", d);
  EXPECT_EQ(description_of(open_trained(comm, file)).width, 1);
  EXPECT_EQ(description_of(open_trained(comm, folder / "run" / "last")).width, 1);
  EXPECT_EQ(description_of(open_trained(comm, folder / "run")).width, 1);
  d.width = 2;
  (void)save(comm, folder / "run" / "best", d);
  EXPECT_EQ(description_of(open_trained(comm, folder / "run")).width, 2);
  EXPECT_EQ(description_of(open_trained(comm, folder / "run" / "last")).width, 1);
}

TEST(OpenTrained, refuses_what_holds_no_network) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  (void)folder.make("empty", [](auto const& p) { std::filesystem::create_directory(p); });
  CheckpointStore store(comm, folder / "other");
  auto writer = store.begin(1);
  writer.add_value("training/settings", "none");
  auto const other = writer.commit();
  CheckpointStore cut(comm, folder / "cut");
  auto cut_writer = cut.begin(1);
  cut_writer.add_value("forecast/description", "none");
  auto const file = cut_writer.commit();
  if (comm.rank() == 0) std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  comm.barrier();

  EXPECT_EQ(rule_of([&] { (void)open_trained(comm, folder / "cut"); }),
            (ErrorWith{"NoSuchFile", file.string() + " cannot be used"}));
  EXPECT_EQ(rule_of([&] { (void)open_trained(comm, folder / "nothing"); }),
            (ErrorWith{"NoSuchFile", "nothing does not exist"}));
  EXPECT_EQ(rule_of([&] { (void)open_trained(comm, folder / "empty"); }),
            (ErrorWith{"NoSuchFile", "holds no intact checkpoint"}));
  EXPECT_EQ(rule_of([&] { (void)open_trained(comm, other); }),
            (ErrorWith{"BadInput", "is not a network that forecasts"}));
}

}  // namespace
}  // namespace graticule::models
