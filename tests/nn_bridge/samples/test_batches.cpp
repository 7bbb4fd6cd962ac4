// SPDX-License-Identifier: BSD-3-Clause
// Samples that are read by a thread, ahead of time and within a budget.
#include <graticule/samples/detail/batches.hpp>
#include <graticule/samples/detail/sample_store.hpp>
#include <graticule/samples/detail/survey.hpp>

#include "expect_error.hpp"
#include "train_fields.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <future>
#include <mutex>
#include <numeric>
#include <set>

namespace graticule::samples {
namespace {

TEST(Background, runs_one_job_after_the_other_and_hands_over_what_they_throw) {
  Background thread;
  int value = 0;
  EXPECT_EQ(thread.wait(), nullptr);
  thread.start([&] { value = 1; });
  EXPECT_EQ(thread.wait(), nullptr);
  EXPECT_EQ(value, 1);

  thread.start([] { throw Error("Broken", "job"); });
  auto const failure = thread.wait();
  EXPECT_EQ(test::rule_of([&] { std::rethrow_exception(failure); }), "Broken");
  EXPECT_EQ(thread.wait(), nullptr);
}

TEST(Background, ends_its_job_before_it_ends) {
  std::atomic<bool> done = false;
  std::promise<void> begun;
  {
    Background thread;
    thread.start([&] {
      begun.set_value();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      done = true;
    });
    begun.get_future().wait();
  }
  EXPECT_TRUE(done);
}

TEST(Memory, of_a_node_is_what_the_machine_has_or_less) {
  EXPECT_GT(node_memory_bytes(), Index(1) << 20);
  EXPECT_LE(node_memory_bytes(), Index(::sysconf(_SC_PHYS_PAGES)) * Index(::sysconf(_SC_PAGESIZE)));
  Comm const comm = Comm::world();
  EXPECT_LE(4 * default_memory_bytes(comm) * comm.num_node_ranks(), node_memory_bytes());
}

/// What the thread has read: sample and field.
using Reads = std::vector<std::pair<Index, std::size_t>>;

/// A file of 3 times and 2 levels, of which 2 times train with their mirror images: samples 0 to 5, and 6 to 9.
class Batches : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    Comm const comm = Comm::world();
    path_ = std::filesystem::temp_directory_path() / ("graticule_batches_" + std::to_string(comm.num_ranks()) + ".nc");
    test::write_train_fields(comm, path_, {.num_times = 3, .has_missing = true});
  }
  static void TearDownTestSuite() {
    Comm const comm = Comm::world();
    comm.barrier();
    if (comm.rank() == 0) std::filesystem::remove(path_);
  }

  /// What a training has: z as itself and its derivatives, and u; targets u and v.
  struct Fixture {
    FieldTable table;
    DataTeams teams;
    std::vector<double> weights;
    Layout layout;
    Cells cells;
    Derivatives derivatives;
    Reads reads;
    std::function<void(Index, std::size_t)> on_read;
    SampleStore store;
    ChannelPlan plan;
    Survey survey;

    Fixture(Comm const& comm, std::filesystem::path const& path, Index budget)
        : table(comm, path.string(), {"z", "u", "v"}),
          teams(comm, 1),
          weights(19, 1.0 / 19),
          layout(ProcessGrid{comm.num_ranks(), 1}, Indices{19, 36}),
          cells{table.grid(), layout, layout.owned(comm.rank()), weights},
          derivatives(comm, cells),
          store(table.reader({"z", "u", "v"}, cells.box, 4), 4, [this](Index sample, std::size_t field) {
            reads.emplace_back(sample, field);
            if (on_read) on_read(sample, field);
          }) {
      plan.inputs = {{0, Feature::value}, {0, Feature::east}, {0, Feature::north}, {1, Feature::value}};
      plan.targets = {{1}, {2}};
      plan.num_levels = 2;
      store.set_budget(budget);
      MissingCells missing(
          table.file(), {"z", "u", "v"}, cells,
          {.count = table.samples().num_samples(), .num_levels = 2, .per_entry = 2, .name = [](Index) { return ""; }});
      survey = survey_samples(teams, cells, derivatives, store, plan, 4, 2, missing);
      for (std::size_t c = 0; c < 4; ++c) plan.inputs[c].scaling = survey.inputs[c].scaling;
      for (std::size_t t = 0; t < 2; ++t) plan.targets[t].scaling = survey.targets[t].scaling;
    }
  };

  static constexpr Index plenty = Index(1) << 30;

  /// All numbers of a batch, as bits.
  static std::vector<std::uint64_t> bits(Batch const& batch, Cells const& cells) {
    auto const count = std::size_t(batch.num_samples * cells.per_sample());
    std::vector<double> numbers(6 * count);
    std::memcpy(numbers.data(), batch.inputs, 4 * count * sizeof(double));
    std::memcpy(numbers.data() + 4 * count, batch.targets, 2 * count * sizeof(double));
    numbers.insert(numbers.end(), batch.truth.begin(), batch.truth.end());
    std::vector<std::uint64_t> result(numbers.size());
    for (std::size_t i = 0; i < numbers.size(); ++i)
      result[i] = std::isnan(numbers[i]) ? 1 : std::bit_cast<std::uint64_t>(numbers[i]);
    return result;
  }

  Comm comm_ = Comm::world();
  inline static std::filesystem::path path_;
};

TEST_F(Batches, hold_normalised_samples_and_their_mirror_images) {
  Fixture f(comm_, path_, plenty);
  BatchSource source(comm_, f.derivatives, f.store, f.plan, DType::f64);
  Batch const batch = source.take(std::vector<Index>{1, 7}, {}, Truth::with);
  ASSERT_EQ(batch.num_samples, 2);
  auto const* const inputs = static_cast<double const*>(batch.inputs);
  auto const* const targets = static_cast<double const*>(batch.targets);
  Index const cells = f.cells.per_sample();
  Box const own = f.cells.box;

  FieldFile const file(comm_, path_);
  for (bool const mirrored : {false, true}) {
    Box box({0, 1, own.lo(0), 0}, {1, 2, own.hi(0), 36});
    if (mirrored) box.set(2, 19 - own.hi(0), 19 - own.lo(0));
    std::vector<double> z(static_cast<std::size_t>(cells));
    std::vector<double> v(z.size());
    file.read("z", box, std::span(z));
    file.read("v", box, std::span(v));
    Index const place = mirrored ? 1 : 0;
    for (Index i = 0; i < own.extent(0); ++i)
      for (Index j = 0; j < 36; ++j) {
        auto const in_file = std::size_t((mirrored ? own.extent(0) - 1 - i : i) * 36 + j);
        Index const cell = i * 36 + j;
        double const given = inputs[place * 4 * cells + cell];
        auto const& scaling = f.plan.inputs[0].scaling;
        EXPECT_EQ(given, std::isnan(z[in_file]) ? 0 : (z[in_file] - scaling.mean[1]) / scaling.scale[1]);
        double const northward = mirrored ? -v[in_file] : v[in_file];
        EXPECT_EQ(targets[(place * 2 + 1) * cells + cell], northward / f.plan.targets[1].scaling.scale[1]);
        EXPECT_EQ(batch.truth[std::size_t((place * 2 + 1) * cells + cell)], northward);
        EXPECT_FALSE(std::isnan(inputs[(place * 4 + 1) * cells + cell]));
      }
  }
}

TEST_F(Batches, have_the_same_bits_whatever_is_held_and_hinted) {
  std::vector<std::vector<Index>> const order{{0, 6}, {3, 9}, {4, 5}, {0, 6}, {8}, {}, {1, 2}};
  std::vector<std::vector<std::uint64_t>> expected;
  std::vector<double> weights;
  for (Index const budget : {plenty, Index(0), Index(30000)})
    for (bool const hints : {true, false}) {
      Fixture f(comm_, path_, budget);
      BatchSource source(comm_, f.derivatives, f.store, f.plan, DType::f64);
      for (std::size_t i = 0; i < order.size(); ++i) {
        // A wrong hint now and then, too.
        auto const next = !hints || i + 1 == order.size() ? std::vector<Index>() : order[i == 2 ? 0 : i + 1];
        auto const found = bits(source.take(order[i], next, i == 3 ? Truth::with : Truth::without), f.cells);
        if (expected.size() < order.size())
          expected.push_back(found);
        else
          EXPECT_EQ(found, expected[i]) << budget << ' ' << hints << ' ' << i;
      }
      if (weights.empty()) weights = f.survey.sample_weights;
      EXPECT_EQ(f.survey.sample_weights, weights);
    }
}

TEST_F(Batches, are_read_once_where_all_fit_and_again_where_they_do_not) {
  for (Index const budget : {plenty, Index(0)}) {
    Fixture f(comm_, path_, budget);
    // The targets of all samples and the inputs of those that train; u is both.
    EXPECT_EQ(f.reads.size(), 4U * 3 + 2 * 2);
    BatchSource source(comm_, f.derivatives, f.store, f.plan, DType::f32);
    std::vector<Index> all(10);
    std::iota(all.begin(), all.end(), Index(0));
    (void)source.take(all);
    (void)source.take(all);

    StoreCounts const counts = source.counts();
    Reads reads = f.reads;
    std::sort(reads.begin(), reads.end());
    bool const once = std::adjacent_find(reads.begin(), reads.end()) == reads.end();
    EXPECT_EQ(once, budget > 0);
    EXPECT_EQ(reads.size(), budget > 0 ? 30U : 16U + 60U);
    EXPECT_EQ(counts.num_reads, Index(reads.size()));
    EXPECT_EQ(counts.num_hits, budget > 0 ? 16 + 60 - 30 : 0);
    EXPECT_EQ(counts.bytes_read, Index(reads.size()) * f.cells.per_sample() * 8);
    EXPECT_EQ(counts.bytes_held > 0, budget > 0);
    EXPECT_LE(counts.bytes_held, budget);
  }
}

TEST_F(Batches, hold_training_samples_first_where_not_all_fit) {
  Fixture measure(comm_, path_, plenty);
  Index const all = measure.store.counts().bytes_held / 16 * 30;
  Fixture f(comm_, path_, all - 1);
  BatchSource source(comm_, f.derivatives, f.store, f.plan, DType::f32);
  (void)source.take(std::vector<Index>{4, 5, 0, 1, 2, 3, 6, 7, 8, 9});
  static_cast<void>(source.counts());
  f.reads.clear();
  (void)source.take(std::vector<Index>{0, 1, 2, 3, 6, 7, 8, 9});
  static_cast<void>(source.counts());
  EXPECT_TRUE(f.reads.empty());
  (void)source.take(std::vector<Index>{4, 5});
  static_cast<void>(source.counts());
  EXPECT_EQ(f.reads.size(), 6U);
}

// By the order of events: the caller, between two batches, waits until the reading of the next one has begun, which
// never happens when it begins with the call for it.
TEST_F(Batches, are_read_while_the_ones_before_train) {
  std::mutex mutex;
  std::condition_variable changed;
  std::set<Index> begun;
  Fixture f(comm_, path_, 0);
  BatchSource source(comm_, f.derivatives, f.store, f.plan, DType::f32);
  f.on_read = [&](Index sample, std::size_t) {
    std::lock_guard const lock(mutex);
    begun.insert(sample);
    changed.notify_all();
  };
  std::vector<std::vector<Index>> const order{{0, 1}, {2, 3}, {6, 7}, {8, 9}};
  for (std::size_t k = 0; k + 1 < order.size(); ++k) {
    (void)source.take(order[k], order[k + 1]);

    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(20), [&] { return begun.contains(order[k + 1][0]); })) << k;
  }
}

TEST_F(Batches, that_cannot_be_read_on_one_rank_are_one_error_on_all) {
  bool const last = comm_.rank() == comm_.num_ranks() - 1;
  Fixture f(comm_, path_, 0);
  BatchSource source(comm_, f.derivatives, f.store, f.plan, DType::f32);
  f.on_read = [&](Index sample, std::size_t field) {
    if (last && sample == 2 && field == 1) throw Error(Fault::input, "BrokenFile", "u of sample 2");
  };
  (void)source.take(std::vector<Index>{0, 1}, std::vector<Index>{2, 3});

  auto const thrown = test::thrown_by([&] { (void)source.take(std::vector<Index>{2, 3}); });

  EXPECT_EQ(thrown.rule, "BrokenFile");
  EXPECT_EQ(thrown.fault, Fault::input);
  EXPECT_NE(thrown.text.find("u of sample 2"), std::string::npos);
  // A failure of what nobody asked for is nobody's.
  (void)source.take(std::vector<Index>{0, 1}, std::vector<Index>{2, 3});
  EXPECT_EQ(source.take(std::vector<Index>{4}).num_samples, 1);
}

}  // namespace
}  // namespace graticule::samples
