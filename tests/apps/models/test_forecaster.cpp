// SPDX-License-Identifier: BSD-3-Clause
// What graticule-train has trained, loaded by a program.
#include <graticule/field_io/file.hpp>
#include <graticule/models/forecaster.hpp>
#include <graticule/partition/cuts.hpp>

#include "expect_error.hpp"
#include "run.hpp"
#include "train_fields.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

namespace graticule::models {
namespace {

using test::ErrorWith;
using test::rule_of;

constexpr Index num_levels = 2;

/// A network of two levels of u and v, with z as a diagnostic variable and a history of two states; 8 days, a state per
/// day, of which the first 6 train.
class LoadedNetwork : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    Comm const comm = Comm::world();
    folder_ = std::filesystem::temp_directory_path() / ("graticule_models_" + std::to_string(comm.num_ranks()));
    if (comm.rank() == 0) {
      std::filesystem::remove_all(folder_);
      std::filesystem::create_directories(folder_);
    }
    comm.barrier();
    test::write_train_fields(comm, folder_ / "fields.nc", {.num_times = 8, .has_missing = true});
    train::RunSettings settings;
    settings.input = folder_ / "fields.nc";
    settings.train_fraction = 0.75;
    settings.network = {.channels = 3, .blocks = 1, .epochs = 2, .batch = 3, .precision = train::Precision::f64};
    settings.forecast = train::ForecastSettings{.prognostic = {"u", "v"}, .diagnostic = {"z"}};
    settings.forecast->forcings = {"insolation", "time_of_day", "time_of_year"};
    settings.forecast->validate_steps = 1;
    settings.checkpoints = train::CheckpointSettings{.folder = folder_ / "checkpoints", .runnable = folder_};
    trained_ = train::run_training(
        comm, settings, {.on_start = [](train::RunResult const&, Index) {}, .on_step = [](Index, double) {}});
  }
  static void TearDownTestSuite() {
    Comm const comm = Comm::world();
    trained_.reset();
    comm.barrier();
    if (comm.rank() == 0) std::filesystem::remove_all(folder_);
  }

  /// u and v of all levels at a time, on a box.
  std::vector<double> fields_at(Index time, Box const& box) const {
    FieldFile const file(comm_, folder_ / "fields.nc");
    std::vector<double> values;
    for (char const* name : {"u", "v"}) {
      std::vector<double> field(std::size_t(num_levels * box.extent(0) * box.extent(1)));
      file.read(name, Box({time, 0, box.lo(0), box.lo(1)}, {time + 1, num_levels, box.hi(0), box.hi(1)}),
                std::span(field));
      values.insert(values.end(), field.begin(), field.end());
    }
    return values;
  }
  /// The states that the first validation forecast starts from: days 5 and 4.
  std::vector<double> initial(Box const& box) const {
    auto values = fields_at(5, box);
    auto const earlier = fields_at(4, box);
    values.insert(values.end(), earlier.begin(), earlier.end());
    return values;
  }
  [[nodiscard]] Seconds time() const { return trained_->forecast->scored.at(0); }

  Comm comm_ = Comm::world();
  inline static std::filesystem::path folder_;
  inline static std::optional<train::RunResult> trained_;
};

/// Missing where the other is, else equal but for rounding.
void expect_same(std::vector<double> const& a, std::vector<double> const& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(std::isnan(a[i]), std::isnan(b[i])) << i;
    if (!std::isnan(a[i])) {
      ASSERT_NEAR(a[i], b[i], tolerance * std::max(1.0, std::abs(b[i]))) << i;
    }
  }
}

TEST_F(LoadedNetwork, forecasts_what_the_training_forecast) {
  auto network = load(folder_, comm_, {.layout = trained_->layout});

  auto const later = network.next(initial(network.owned()), time());

  auto const& description = network.description();
  ASSERT_EQ(description.channels.size(), 6u);
  EXPECT_EQ(description.channels[0].variable, "u");
  EXPECT_EQ(description.channels[5].variable, "z");
  EXPECT_EQ(description.lead_seconds, 86400);
  EXPECT_EQ(description.history, 2);
  ASSERT_EQ(network.owned(), trained_->layout.owned(comm_.rank()));
  auto expected = trained_->forecast->pictured_forecast;
  // The training keeps predictions of missing cells at the mean; a program gets them as missing.
  for (std::size_t i = 0; i < later.size(); ++i)
    if (std::isnan(later[i])) expected[i] = later[i];
  expect_same(later, expected, 1e-11);
  std::vector<double> num_missing{double(std::count_if(later.begin(), later.end(), [](double x) { return x != x; }))};
  comm_.sum(num_missing);
  EXPECT_GT(num_missing[0], 0);
  EXPECT_LT(num_missing[0], 100);
}

TEST_F(LoadedNetwork, does_not_depend_on_the_layout) {
  Comm const self = comm_.split(comm_.rank(), 0);
  auto alone = load(folder_, self);
  auto const whole = alone.next(initial(alone.owned()), time());
  int const n = comm_.num_ranks();
  std::vector<Layout> layouts{Layout(ProcessGrid{1, n}, {19, 36})};
  // The last rank has no rows.
  Cuts const uneven(n == 1   ? std::vector<Index>{19}
                    : n == 2 ? std::vector<Index>{19, 0}
                             : std::vector<Index>{3, 16, 0});
  layouts.push_back(Layout(ProcessGrid{n, 1}, {uneven, balanced_cuts(36, 1)}));

  for (auto const& layout : layouts) {
    auto network = load(folder_, comm_, {.layout = layout});
    auto const part = network.next(initial(network.owned()), time());

    Box const box = layout.owned(comm_.rank());
    ASSERT_EQ(network.owned(), box);
    std::vector<double> expected;
    for (Index c = 0; c < 6; ++c)
      for (Index i = box.lo(0); i < box.hi(0); ++i)
        for (Index j = box.lo(1); j < box.hi(1); ++j) expected.push_back(whole[std::size_t((c * 19 + i) * 36 + j)]);
    expect_same(part, expected, 1e-11);
  }
}

TEST_F(LoadedNetwork, steps_several_members_as_each_alone) {
  auto network = load(folder_, comm_);
  auto const first = initial(network.owned());
  auto second = first;
  for (double& value : second) value += 1;
  auto both = first;
  both.insert(both.end(), second.begin(), second.end());

  network.start(both, 2);
  network.step(time());
  auto const other = network.next(second, time());  // does not touch the members
  network.step(time() + 86400);

  // Alone, by way of numbers in units.
  auto const prognostic = std::ptrdiff_t(4 * network.owned().extent(0) * network.owned().extent(1));
  std::vector<double> states(other.begin(), other.begin() + prognostic);
  states.insert(states.end(), second.begin(), second.begin() + prognostic);
  auto expected = network.next(states, time() + 86400);
  expect_same(network.present(1), expected, 1e-9);
  EXPECT_EQ(network.states().extents,
            (Indices{2, network.num_state_channels(), network.owned().extent(0), network.owned().extent(1)}));
}

TEST_F(LoadedNetwork, refuses_what_does_not_fit) {
  auto network = load(folder_, comm_);
  EXPECT_EQ(rule_of([&] { network.set_filter(3); }), (ErrorWith{"BadOption", "must be even and not negative, got 3"}));
  network.set_filter(4);
  EXPECT_EQ(rule_of([&] { static_cast<void>(network.next(initial(network.owned()), time())); }),
            (ErrorWith{"Unsupported", "missing values"}));
  network.set_filter(0);
  EXPECT_EQ(rule_of([&] { static_cast<void>(network.next(std::vector<double>(7), time())); }),
            (ErrorWith{"ShapeMismatch", "7 values for 1 members of 2 times, 4 prognostic channels"}));
  EXPECT_EQ(rule_of([&] {
              static_cast<void>(load(folder_, comm_, {.layout = Layout(ProcessGrid{comm_.num_ranks(), 1}, {18, 36})}));
            }),
            (ErrorWith{"LayoutMismatch", "18 x 36 cells"}));
  EXPECT_EQ(rule_of([&] { static_cast<void>(load(folder_ / "nothing", comm_)); }),
            (ErrorWith{"NoSuchFile", "nothing does not exist"}));
  EXPECT_EQ(rule_of([&] { static_cast<void>(load(folder_ / "fields.nc", comm_)); }),
            (ErrorWith{"BrokenFile", "fields.nc cannot be used: it is an HDF5 file, but not a checkpoint"}));
  // A checkpoint for another use.
  CheckpointStore store(comm_, folder_ / "other");
  auto writer = store.begin(1);
  writer.add_value("training/settings", "none");
  auto const other = writer.commit();
  EXPECT_EQ(rule_of([&] { static_cast<void>(load(other, comm_)); }),
            (ErrorWith{"BadInput", "is not a network that forecasts"}));
  if (comm_.rank() == 0) std::ofstream(folder_ / "text.h5") << "no network";
  comm_.barrier();
  EXPECT_EQ(rule_of([&] { static_cast<void>(load(folder_ / "text.h5", comm_)); }),
            (ErrorWith{"UnsupportedFile", "text.h5"}));
}

}  // namespace
}  // namespace graticule::models
