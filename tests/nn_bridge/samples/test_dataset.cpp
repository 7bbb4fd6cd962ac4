// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/writer.hpp>
#include <graticule/partition/teams.hpp>
#include <graticule/samples/dataset.hpp>

#include "expect_error.hpp"
#include "shared_folder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <set>

namespace graticule::samples {
namespace {

using test::ErrorWith;
using test::Folder;
using test::rule_of;

constexpr Index num_rows = 13;
constexpr Index num_columns = 8;

/// Of two levels of t, in f32 without rounding.
double t_at(double hours, Index level, Index row, Index column) {
  return hours + 1000 * double(level) + 0.25 * double(row) + 0.03125 * double(column);
}

struct States {
  std::vector<double> hours;
  bool has_missing = false;  ///< (2, 3) of p
  bool has_dates = true;
  std::vector<Attribute> attributes = {};  ///< of the file
};

/// t(time, level, latitude, longitude) and p(time, latitude, longitude) = -t of level 0. Collective.
std::string write_states(Comm const& comm, std::filesystem::path const& path, States const& states) {
  std::vector<double> latitudes;
  std::vector<double> longitudes;
  for (Index i = 0; i < num_rows; ++i) latitudes.push_back(90 - 15 * double(i));
  for (Index j = 0; j < num_columns; ++j) longitudes.push_back(45 * double(j));
  auto const num_times = Index(states.hours.size());
  FieldWriter writer(comm, path, states.attributes);
  if (states.has_dates) {
    writer.add_coordinate("time", states.hours, ValueType::f64,
                          {Attribute::of_text("units", "hours since 2000-01-01")});
  } else {
    writer.add_dimension("sample", num_times);
  }
  std::string const time = states.has_dates ? "time" : "sample";
  writer.add_coordinate("level", std::vector<double>{500, 850}, ValueType::f64, {Attribute::of_text("units", "hPa")});
  writer.add_coordinate("latitude", latitudes, ValueType::f64, {Attribute::of_text("units", "degrees_north")});
  writer.add_coordinate("longitude", longitudes, ValueType::f64, {Attribute::of_text("units", "degrees_east")});
  writer.add_variable({.name = "t", .dimensions = {time, "level", "latitude", "longitude"}, .type = ValueType::f64});
  writer.add_variable(
      {.name = "p", .dimensions = {time, "latitude", "longitude"}, .type = ValueType::f64, .fill = -1e30});
  bool const writes = comm.rank() == 0;
  std::vector<double> t;
  std::vector<double> p;
  for (double const hours : states.hours)
    for (Index level = 0; level < 2 && writes; ++level)
      for (Index i = 0; i < num_rows; ++i)
        for (Index j = 0; j < num_columns; ++j) {
          t.push_back(t_at(hours, level, i, j));
          bool const is_missing = states.has_missing && i == 2 && j == 3;
          if (level == 0) p.push_back(is_missing ? std::numeric_limits<double>::quiet_NaN() : -t.back());
        }
  Index const written = writes ? num_times : 0;
  writer.write("t", Box({0, 0, 0, 0}, {written, 2, num_rows, num_columns}), std::span<double const>(t));
  writer.write("p", Box({0, 0, 0}, {written, num_rows, num_columns}), std::span<double const>(p));
  writer.commit();
  return path.string();
}

std::vector<double> every_6_hours(double first, Index count) {
  std::vector<double> hours;
  for (Index i = 0; i < count; ++i) hours.push_back(first + 6 * double(i));
  return hours;
}

/// One row on all ranks but the first.
Cuts uneven_rows(int num_ranks) {
  std::vector<Index> rows(std::size_t(num_ranks), 1);
  rows.front() = num_rows - num_ranks + 1;
  return Cuts(std::span<Index const>(rows));
}

double hours_of(std::string const& text) {
  return 24 * (std::stod(text.substr(8, 2)) - 1) + (text.size() > 10 ? std::stod(text.substr(11, 2)) : 0);
}

using Expected = std::function<double(double hours, Index channel, Index row, Index column)>;

/// [sample][hours][channel][row][column] of this rank's box.
void expect_cells(Box const& box, double const* values, std::vector<std::vector<double>> const& hours,
                  Index num_channels, Expected const& expected) {
  for (auto const& times : hours)
    for (double const hour : times)
      for (Index c = 0; c < num_channels; ++c)
        for (Index i = box.lo(0); i < box.hi(0); ++i)
          for (Index j = box.lo(1); j < box.hi(1); ++j, ++values) {
            double const wanted = expected(hour, c, i, j);
            if (std::isnan(wanted))
              ASSERT_TRUE(std::isnan(*values)) << "channel " << c << " at " << i << ", " << j;
            else
              ASSERT_EQ(*values, wanted) << "hour " << hour << ", channel " << c << " at " << i << ", " << j;
          }
}

double t_or_p(double hours, Index channel, Index row, Index column) {
  return channel < 2 ? t_at(hours, channel, row, column) : -t_at(hours, 0, row, column);
}

TEST(Dataset, gives_history_and_targets_of_files_stores_and_series_on_uneven_cuts) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const whole = write_states(comm, folder.path() / "x.nc", {every_6_hours(0, 8)});
  write_states(comm, folder.path() / "part_1.nc", {every_6_hours(0, 3)});
  write_states(comm, folder.path() / "part_2.nc", {every_6_hours(18, 5)});
  auto const store = write_states(comm, folder.path() / "x.zarr", {every_6_hours(0, 8)});
  std::string const series = (folder.path() / "part_*.nc").string();
  std::vector<std::string> const listed{(folder.path() / "part_1.nc").string(), (folder.path() / "part_2.nc").string()};
  for (auto const& files : {std::vector{whole}, std::vector{store}, std::vector{series}, listed}) {
    Dataset data(comm, files,
                 {.inputs = {"t", "p"},
                  .targets = {"p"},
                  .lead = "6h",
                  .history = 2,
                  .steps = 2,
                  .batch_size = 3,
                  .dtype = DType::f64,
                  .rows = uneven_rows(comm.num_ranks())});
    EXPECT_EQ(data.num_samples(), 5);
    EXPECT_EQ(data.num_batches(), 2);
    EXPECT_EQ(data.input_channels(), (std::vector<std::string>{"t 500 hPa", "t 850 hPa", "p"}));
    EXPECT_EQ(data.target_channels(), std::vector<std::string>{"p"});
    EXPECT_EQ(data.owned(), data.layout().owned(comm.rank()));
    double first = 6;
    for (Index number = 0; number < 2; ++number) {
      auto const batch = data.batch(0, number);
      ASSERT_EQ(batch.num_samples, number == 0 ? 3 : 2);
      std::vector<std::vector<double>> inputs;
      std::vector<std::vector<double>> targets;
      for (std::string const& text : data.times(0, number)) {
        EXPECT_EQ(hours_of(text), first);
        inputs.push_back({first - 6, first});
        targets.push_back({first + 6, first + 12});
        first += 6;
      }
      expect_cells(data.owned(), static_cast<double const*>(batch.inputs), inputs, 3, t_or_p);
      expect_cells(data.owned(), static_cast<double const*>(batch.targets), targets, 1,
                   [](double hours, Index, Index i, Index j) { return -t_at(hours, 0, i, j); });
    }
  }
}

TEST(Dataset, shuffles_alike_on_any_number_of_ranks_and_otherwise_in_the_next_epoch) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const file = write_states(comm, folder.path() / "x.nc", {every_6_hours(0, 20)});
  DatasetOptions const options{.inputs = {"p"}, .batch_size = 4, .order = Order::shuffled, .seed = 7};
  Dataset cut(comm, {file}, options);
  Dataset alone(comm.split(comm.rank(), 0), {file}, options);
  std::vector<std::vector<std::string>> epochs;
  for (Index epoch = 0; epoch < 2; ++epoch) {
    epochs.emplace_back();
    for (Index number = 0; number < cut.num_batches(); ++number) {
      auto const part = cut.batch(epoch, number);
      auto const whole = alone.batch(epoch, number);
      ASSERT_EQ(part.num_samples, whole.num_samples);
      EXPECT_EQ(cut.times(epoch, number), alone.times(epoch, number));
      auto const box = cut.owned();
      for (Index s = 0; s < part.num_samples; ++s)
        for (Index i = box.lo(0); i < box.hi(0); ++i)
          for (Index j = 0; j < num_columns; ++j)
            ASSERT_EQ(static_cast<float const*>(part.inputs)[(s * box.extent(0) + i - box.lo(0)) * num_columns + j],
                      static_cast<float const*>(whole.inputs)[(s * num_rows + i) * num_columns + j]);
      for (auto const& time : cut.times(epoch, number)) epochs.back().push_back(time);
    }
    EXPECT_EQ(std::set<std::string>(epochs.back().begin(), epochs.back().end()).size(), 19u);
  }
  EXPECT_NE(epochs[0], epochs[1]);
}

TEST(Dataset, data_teams_share_the_batches_that_one_team_has) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const file = write_states(comm, folder.path() / "x.nc", {every_6_hours(0, 21)});
  auto const alone = comm.split(comm.rank(), 0);
  DatasetOptions options{.inputs = {"p"}, .batch_size = 2, .order = Order::shuffled, .data_team = comm};
  Dataset shared(alone, {file}, options);
  options.data_team.reset();
  options.batch_size = 2 * comm.num_ranks();
  Dataset const all(alone, {file}, options);
  EXPECT_EQ(shared.num_batches(), (20 / comm.num_ranks() + 1) / 2);
  for (Index number = 0; number < shared.num_batches(); ++number) {
    auto const batch = shared.batch(0, number);
    auto const expected = all.times(0, number);
    auto const times = shared.times(0, number);
    ASSERT_EQ(batch.num_samples, Index(times.size()));
    for (std::size_t i = 0; i < times.size(); ++i)
      EXPECT_EQ(times[i], expected[std::size_t(comm.rank()) * times.size() + i]);
  }
}

TEST(Dataset, leaves_out_samples_across_gaps_and_outside_of_the_times) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const file = write_states(comm, folder.path() / "x.nc", {{0, 6, 12, 24, 30, 36, 42, 48}});
  Dataset const all(comm, {file}, {.inputs = {"p"}, .history = 2});
  EXPECT_EQ(all.num_samples(), 4);
  EXPECT_EQ(all.times(0, 0), std::vector<std::string>{"2000-01-01 06:00"});
  EXPECT_EQ(all.times(0, 1), std::vector<std::string>{"2000-01-02 06:00"});
  Dataset const second_day(comm, {file}, {.inputs = {"p"}, .times = "2000-01-02"});
  EXPECT_EQ(second_day.num_samples(), 3);
  EXPECT_EQ(
      rule_of([&] { Dataset(comm, {file}, {.inputs = {"p"}, .times = "2001..2002"}); }),
      (ErrorWith{"BadOption", "in times 2001..2002, at least 1 are needed; there are 8 times, from 2000-01-01 "}));
}

/// The axis of ARCO-ERA5 is longer than its data: what lies beyond are fill values.
TEST(Dataset, takes_the_times_that_a_store_says_hold_data) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  std::vector<Attribute> const attributes{Attribute::of_text("valid_time_start", "2000-01-02"),
                                          Attribute::of_text("valid_time_stop", "2000-01-03")};
  DatasetOptions options{.inputs = {"t"}, .lead = "6h", .history = 2};
  for (char const* name : {"x.zarr", "x.nc"}) {
    auto const file =
        write_states(comm, folder.path() / name, {.hours = every_6_hours(0, 20), .attributes = attributes});

    Dataset const chosen(comm, {file}, options);

    EXPECT_EQ(chosen.num_samples(), 8 - 2);
    EXPECT_EQ(chosen.times(0, 0), std::vector<std::string>{"2000-01-02 06:00"});
    options.times = "2000-01-01..2000-01-05";
    EXPECT_EQ(Dataset(comm, {file}, options).num_samples(), 20 - 2);
    options.times.clear();
  }
}

TEST(Dataset, counts_samples_without_dates) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const file = write_states(comm, folder.path() / "x.nc", {every_6_hours(0, 5), false, false});
  Dataset data(comm, {file}, {.inputs = {"p"}, .targets = {"t"}, .lead = "0", .batch_size = 5, .dtype = DType::f64});
  EXPECT_EQ(data.num_samples(), 5);
  EXPECT_EQ(data.times(0, 0).back(), "sample 4");
  expect_cells(data.owned(), static_cast<double const*>(data.batch(0, 0).targets), {{0}, {6}, {12}, {18}, {24}}, 2,
               t_or_p);
  EXPECT_EQ(Dataset(comm, {file}, {.inputs = {"p"}, .lead = "2"}).num_samples(), 3);
  EXPECT_EQ(rule_of([&] { Dataset(comm, {file}, {.inputs = {"p"}, .lead = "6h"}); }),
            (ErrorWith{"BadOption", "lead must be a number of steps, got 6h"}));
  EXPECT_EQ(rule_of([&] { Dataset(comm, {file}, {.inputs = {"p"}, .times = "2000"}); }),
            (ErrorWith{"BadOption", "times 2000 cannot be chosen"}));
  EXPECT_EQ(rule_of([&] { Dataset(comm, {file}, {.inputs = {"p"}, .forcings = {"time_of_year"}}); }),
            (ErrorWith{"BadOption", "forcings time_of_year cannot be computed: the files have no axis of time"}));
}

TEST(Dataset, drops_the_last_batch_where_it_would_be_smaller) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const file = write_states(comm, folder.path() / "x.nc", {every_6_hours(0, 12)});
  DatasetOptions options{
      .inputs = {"p"}, .batch_size = 4, .last_batch = DatasetOptions::LastBatch::drop, .order = Order::shuffled};
  Dataset data(comm, {file}, options);

  EXPECT_EQ(data.num_samples(), 11);
  ASSERT_EQ(data.num_batches(), 2);
  for (Index epoch = 0; epoch < 2; ++epoch)
    for (Index number = 0; number < 2; ++number) EXPECT_EQ(data.batch(epoch, number).num_samples, 4);
  EXPECT_EQ(rule_of([&] { (void)data.batch(0, 2); }), (ErrorWith{"OutOfRange", "batches are in [0, 2)"}));
  options.batch_size = 12;
  EXPECT_EQ(rule_of([&] { Dataset(comm, {file}, options); }),
            (ErrorWith{"BadOption", "batch_size must be at most 11"}));
}

TEST(Dataset, computes_forcings_of_each_input_after_its_variables) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const file = write_states(comm, folder.path() / "x.nc", {every_6_hours(0, 5)});
  DatasetOptions const options{.inputs = {"p"},
                               .targets = {"t"},
                               .history = 2,
                               .batch_size = 3,
                               .forcings = {"insolation", "time_of_day"},
                               .dtype = DType::f64};
  Dataset cut(comm, {file}, options);
  Dataset alone(comm.split(comm.rank(), 0), {file}, options);

  EXPECT_EQ(cut.input_channels(),
            (std::vector<std::string>{"p", "insolation", "sin_local_time", "cos_local_time", "sin_utc", "cos_utc"}));
  EXPECT_EQ(cut.target_channels().size(), 2u);
  auto const part = cut.batch(0, 0);
  auto const whole = alone.batch(0, 0);
  auto const box = cut.owned();
  auto const* own = static_cast<double const*>(part.inputs);
  auto const* all = static_cast<double const*>(whole.inputs);
  double least = 1;
  double most = 0;
  for (Index state = 0; state < 3 * 2; ++state) {
    double const hours = 6 * double(state / 2 + state % 2);
    for (Index c = 0; c < 6; ++c)
      for (Index i = box.lo(0); i < box.hi(0); ++i)
        for (Index j = 0; j < num_columns; ++j, ++own) {
          double const value = all[((state * 6 + c) * num_rows + i) * num_columns + j];
          ASSERT_EQ(*own, value) << "state " << state << ", channel " << c << " at " << i << ", " << j;
          if (c == 0) ASSERT_EQ(value, -t_at(hours, 0, i, j));
          if (c == 4) ASSERT_NEAR(value, std::sin(hours / 24 * 2 * std::acos(-1.0)), 1e-12);
          if (c == 5) ASSERT_NEAR(value, std::cos(hours / 24 * 2 * std::acos(-1.0)), 1e-12);
        }
    for (Index cell = 0; cell < num_rows * num_columns; ++cell) {
      double const sun = all[(state * 6 + 1) * num_rows * num_columns + cell];
      least = std::min(least, sun);
      most = std::max(most, sun);
    }
  }
  // Night somewhere; the sun nearly in the zenith of a place, averaged over 6 hours.
  EXPECT_EQ(least, 0);
  EXPECT_GT(most, 0.7);
  EXPECT_LE(most, 1);
  expect_cells(box, static_cast<double const*>(part.targets), {{12}, {18}, {24}}, 2, t_or_p);
}

TEST(Dataset, scales_and_treats_missing_cells_as_asked) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const file = write_states(comm, folder.path() / "x.nc", {every_6_hours(0, 4), true});
  DatasetOptions options{.inputs = {"t", "p"}, .targets = {"p"}, .lead = "0", .batch_size = 4, .dtype = DType::f64};
  auto const cell = [](double hours, Index channel, Index i, Index j) {
    return channel == 2 && i == 2 && j == 3 ? std::numeric_limits<double>::quiet_NaN() : t_or_p(hours, channel, i, j);
  };
  std::vector<std::vector<double>> const hours{{0}, {6}, {12}, {18}};
  {
    Dataset data(comm, {file}, options);
    expect_cells(data.owned(), static_cast<double const*>(data.batch(0, 0).inputs), hours, 3, cell);
    EXPECT_TRUE(data.scaling().empty());
  }
  options.scaling = {{"p", {{-8}, {4}}}};
  {
    Dataset data(comm, {file}, options);
    auto const scaled = [&](double hour, Index c, Index i, Index j) {
      return c == 2 ? (cell(hour, c, i, j) + 8) / 4 : cell(hour, c, i, j);
    };
    expect_cells(data.owned(), static_cast<double const*>(data.batch(0, 0).inputs), hours, 3, scaled);
  }
  EXPECT_EQ(rule_of([&] {
              options.missing = Missing::mean;
              Dataset(comm, {file}, options);
            }),
            (ErrorWith{"BadOption", "missing cells of t cannot become its mean"}));
  options.scale_by = ScaleBy::statistics;
  {
    Dataset data(comm, {file}, options);
    ASSERT_EQ(data.scaling().size(), 2u);
    auto const& t = data.scaling().at("t");
    ASSERT_EQ(t.mean.size(), 2u);
    // Rows are symmetric about the equator, so that their mean is that of row 6, and columns have one of 3.5.
    for (std::size_t level = 0; level < 2; ++level)
      EXPECT_NEAR(t.mean[level], 9 + 1000.0 * double(level) + 0.25 * 6 + 0.03125 * 3.5, 1e-9);
    EXPECT_NEAR(t.scale[0], t.scale[1], 1e-9);
    EXPECT_GT(t.scale[0], std::sqrt(45.0));
    auto const batch = data.batch(0, 0);
    auto const scaled = [&](bool fills) {
      return [&, fills](double hour, Index c, Index i, Index j) {
        double const value = cell(hour, c, i, j);
        if (fills && std::isnan(value)) return 0.0;
        return c == 2 ? (value + 8) / 4 : (value - t.mean[std::size_t(c)]) / t.scale[std::size_t(c)];
      };
    };
    expect_cells(data.owned(), static_cast<double const*>(batch.inputs), hours, 3, scaled(true));
    expect_cells(data.owned(), static_cast<double const*>(batch.targets), hours, 1,
                 [&](double hour, Index, Index i, Index j) { return scaled(false)(hour, 2, i, j); });
  }
  options.missing = Missing::refuse;
  options.scale_by = ScaleBy::given;
  Dataset data(comm, {file}, options);
  auto const error = rule_of([&] { (void)data.batch(0, 0); });
  EXPECT_EQ(error, (ErrorWith{"BadInput", "x.nc: 'p' lacks 1 cells of this rank at 2000-01-01"}));
  EXPECT_EQ(error, (ErrorWith{"BadInput", "first at 60 N 135 E"}));
}

TEST(Dataset, reads_no_more_than_this_ranks_part) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const file = write_states(comm, folder.path() / "x.nc", {every_6_hours(0, 6)});
  Dataset data(comm, {file}, {.inputs = {"t"}, .batch_size = 2, .memory_bytes = 0});
  for (Index number = 0; number < data.num_batches(); ++number) (void)data.batch(0, number);
  // 5 samples of 2 states of 2 levels, and the first batch of the next epoch.
  EXPECT_EQ(data.bytes_read(), (5 + 2) * 2 * 2 * data.owned().num_cells() * 8);
  Dataset kept(comm, {file}, {.inputs = {"t"}, .batch_size = 2, .memory_bytes = Index(1) << 20});
  for (Index epoch = 0; epoch < 3; ++epoch)
    for (Index number = 0; number < kept.num_batches(); ++number) (void)kept.batch(epoch, number);
  EXPECT_EQ(kept.bytes_read(), 6 * 2 * kept.owned().num_cells() * 8);
}

TEST(Dataset, refuses_what_cannot_be_on_all_ranks) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const file = write_states(comm, folder.path() / "x.nc", {every_6_hours(0, 4)});
  auto const refused = [&](DatasetOptions options) {
    return rule_of([&] { Dataset(comm, {file}, std::move(options)); });
  };
  EXPECT_EQ(refused({.inputs = {}}), (ErrorWith{"BadOption", "inputs is empty"}));
  EXPECT_EQ(refused({.inputs = {"q"}}), (ErrorWith{"MissingVariable", "q"}));
  EXPECT_EQ(refused({.inputs = {"p", "p"}}), (ErrorWith{"BadOption", "inputs names a variable twice"}));
  EXPECT_EQ(refused({.inputs = {"p"}, .history = 0}), (ErrorWith{"BadOption", "history must be at least 1, got 0"}));
  EXPECT_EQ(refused({.inputs = {"p"}, .lead = "0", .steps = 2}), (ErrorWith{"BadOption", "steps must be 1"}));
  EXPECT_EQ(refused({.inputs = {"p"}, .lead = "4h"}), (ErrorWith{"BadOption", "4 h does not fit the time axis"}));
  EXPECT_EQ(refused({.inputs = {"p"}, .lead = "x"}), (ErrorWith{"BadOption", "x"}));
  EXPECT_EQ(refused({.inputs = {"p"}, .scaling = {{"t", {{0}, {1}}}}}), (ErrorWith{"BadOption", "scaling names t"}));
  EXPECT_EQ(refused({.inputs = {"t"}, .scaling = {{"t", {{0}, {1}}}}}),
            (ErrorWith{"BadOption", "scaling of t must have 2 means and scales, one per level, got 1 and 1"}));
  EXPECT_EQ(refused({.inputs = {"p"}, .scaling = {{"p", {{0}, {0}}}}}), (ErrorWith{"BadOption", "positive scales"}));
  EXPECT_EQ(refused({.inputs = {"p"}, .rows = balanced_cuts(12, comm.num_ranks())}),
            (ErrorWith{"BadCuts", "rows are cut into"}));
  EXPECT_EQ(refused({.inputs = {"p"}, .forcings = {"moonlight"}}),
            (ErrorWith{"BadOption", "forcings takes insolation, time_of_day and time_of_year, got 'moonlight'"}));
  EXPECT_EQ(rule_of([&] { Dataset(comm, {"/nowhere/*.nc"}, {.inputs = {"p"}}); }), "NoSuchFile");
  Dataset data(comm, {file}, {.inputs = {"p"}});
  EXPECT_EQ(rule_of([&] { (void)data.batch(0, 3); }), (ErrorWith{"OutOfRange", "batches are in [0, 3)"}));
  if (comm.num_ranks() == 1) return;
  EXPECT_EQ(rule_of([&] { Dataset(comm, {file}, {.inputs = {"p"}, .history = 1 + Index(comm.rank() == 1)}); }),
            (ErrorWith{"ArgumentDisagreement", "history 2"}));
  EXPECT_EQ(rule_of([&] { (void)data.batch(0, comm.rank() == 1); }), "CallDisagreement");
  EXPECT_EQ(data.batch(0, 1).num_samples, 1);
}

TEST(Dataset, reports_a_file_that_one_rank_cannot_read_on_all) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  write_states(comm, folder.path() / "part_1.nc", {every_6_hours(0, 3)});
  auto const second = write_states(comm, folder.path() / "part_2.nc", {every_6_hours(18, 5)});
  Dataset data(comm, {(folder.path() / "part_*.nc").string()}, {.inputs = {"p"}});
  EXPECT_EQ(data.batch(0, 0).num_samples, 1);
  comm.barrier();
  if (comm.rank() == 0) std::filesystem::remove(second);
  comm.barrier();
  EXPECT_NE(rule_of([&] { (void)data.batch(0, 6); }), "nothing was thrown");
  EXPECT_EQ(data.batch(0, 1).num_samples, 1) << "the first file is still there";
}

}  // namespace
}  // namespace graticule::samples
