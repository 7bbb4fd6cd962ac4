// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/repartition/detail/permutation_map.hpp>
#include <graticule/repartition/plan.hpp>
#include <graticule/repartition/tuning.hpp>

#include "environment.hpp"
#include "expect_error.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

namespace graticule {
namespace {

TEST(TuningTable, reads_what_it_wrote) {
  TuningTable table;
  table.add({0xfedcba9876543210U, Transport::point_to_point, 1.25e-5, 0.1});
  table.add({7, Transport::node_shared, 3.0, 1.0 / 3.0});
  table.add({7, Transport::point_to_point, 1.0 / 3.0, 3.0});

  auto const read = TuningTable::parse(table.text(), "text");

  EXPECT_EQ(read.records(), table.records());
  ASSERT_EQ(read.records().size(), 2U);
  EXPECT_EQ(read.find(7)->chosen, Transport::point_to_point);
  EXPECT_FALSE(read.find(8).has_value());
}

TEST(TuningTable, names_the_line_that_is_wrong) {
  std::string const good = "graticule-tuning 1\n# a comment\n\nff p2p 1 2\n";
  EXPECT_EQ(TuningTable::parse(good, "good").find(0xff)->node_shared_seconds, 2);
  for (auto const* line : {"ff p2p 1", "ff p2p 1 2 3", "xyz p2p 1 2", "ff p2p -1 2", "ff"}) {
    auto const thrown = test::thrown_by([&] { (void)TuningTable::parse(good + line + "\n", "a.txt"); });
    EXPECT_EQ(thrown.rule, "BadInput") << line;
    EXPECT_NE(thrown.text.find("a.txt, line 5"), std::string::npos) << thrown.text;
  }
  EXPECT_EQ(test::rule_of([&] { (void)TuningTable::parse(good + "ff tcp 1 2\n", "a.txt"); }), "BadOption");
  EXPECT_EQ(test::rule_of([&] { (void)TuningTable::parse("something else\n", "a.txt"); }), "BadInput");
  EXPECT_EQ(test::rule_of([&] { (void)TuningTable::load("no_such_folder/file"); }), "NoSuchFile");
}

TEST(TuningTable, leaves_nothing_behind_where_it_cannot_be_written) {
  auto const folder = std::filesystem::path(testing::TempDir()) / ("graticule_tuning_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder / "taken" / "by_a_folder");

  EXPECT_EQ(test::rule_of([&] { TuningTable().save("no_such_folder/file"); }), "OutputError");
  EXPECT_EQ(test::rule_of([&] { TuningTable().save((folder / "taken").string()); }),
            (test::ErrorWith{"OutputError", "taken"}));

  EXPECT_FALSE(std::filesystem::exists("no_such_folder"));
  for (auto const& entry : std::filesystem::directory_iterator(folder)) EXPECT_EQ(entry.path().filename(), "taken");
  EXPECT_TRUE(std::filesystem::is_directory(folder / "taken" / "by_a_folder"));
  std::filesystem::remove_all(folder);
}

TEST(TuningTable, replaces_a_file_and_leaves_no_other) {
  auto const folder = std::filesystem::path(testing::TempDir()) / ("graticule_tuning_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  auto const path = (folder / "table").string();
  TuningTable table;
  table.save(path);
  table.add({7, Transport::node_shared, 3.0, 1.0});

  table.save(path);

  EXPECT_EQ(TuningTable::load(path).records(), table.records());
  for (auto const& entry : std::filesystem::directory_iterator(folder)) EXPECT_EQ(entry.path().filename(), "table");
  std::filesystem::remove_all(folder);
}

PullPlan transposition(Comm const& comm) {
  Layout const rows(ProcessGrid{comm.num_ranks(), 1}, Indices{8, 8});
  Layout const columns(ProcessGrid{1, comm.num_ranks()}, Indices{8, 8});
  Box const target = columns.owned(comm.rank());
  return {comm, {rows, {{rows.owned(comm.rank()), {{target, {target}}}, detail::permutation_map({0, 1})}}, 3}};
}

TEST(Tune, measures_both_paths_and_takes_the_same_on_all_ranks) {
  auto const comm = Comm::world();
  auto plan = transposition(comm);
  Layout const rows(ProcessGrid{comm.num_ranks(), 1}, Indices{8, 8});
  auto const from_box = rows.owned(comm.rank());
  Box const to_box = Layout(ProcessGrid{1, comm.num_ranks()}, Indices{8, 8}).owned(comm.rank());
  std::vector<double> from(std::size_t(from_box.num_cells()), comm.rank());
  std::vector<double> to(std::size_t(to_box.num_cells()), -1);
  auto const to_view = field_view(to.data(), to_box.extents(), 2);
  PullField const field{field_view(from.data(), from_box.extents(), 2), std::span(&to_view, 1)};

  auto const record = tune(plan, std::span(&field, 1), 5);

  EXPECT_EQ(record.plan, plan.fingerprint());
  EXPECT_GT(record.point_to_point_seconds, 0);
  EXPECT_GT(record.node_shared_seconds, 0);
  EXPECT_EQ(record.chosen == Transport::point_to_point, record.point_to_point_seconds < record.node_shared_seconds);
  require_same(comm, "Tuning", std::uint64_t(record.chosen), to_string(record.chosen));
  EXPECT_EQ(plan.stats().num_calls, 2 * (2 + 5));
  EXPECT_EQ(to.front(), 0);
  int const odd = comm.num_ranks() - 1;
  EXPECT_EQ(test::rule_of([&] { (void)tune(plan, std::span(&field, 1), comm.rank() == odd ? 0 : 5); }), "BadOption");
  auto wrong = field;
  if (comm.rank() == odd) wrong.source.dtype = DType::i64;
  EXPECT_EQ(test::rule_of([&] { (void)tune(plan, std::span(&wrong, 1), 5); }), "FieldMismatch");
  EXPECT_EQ(plan.transport(), record.chosen);
  for (auto const& path : plan.paths())
    if (path.path == record.chosen) EXPECT_EQ(path.reason, "the faster one as measured by tune");
  plan.set_transport(Transport::point_to_point);
  for (auto const& path : plan.paths()) EXPECT_NE(path.reason, "the faster one as measured by tune");
  plan.set_transport(record.chosen);
  if (comm.num_ranks() == 1) return;
  EXPECT_EQ(test::rule_of([&] { (void)tune(plan, std::span(&field, 1), 3 + comm.rank()); }), "ArgumentDisagreement");
}

TEST(Tune, measures_repartitions) {
  auto const comm = Comm::world();
  Index const n = comm.num_ranks();
  RepartitionPlan plan(comm, Layout(ProcessGrid{n, 1}, Indices{12, 10}), Layout(ProcessGrid{1, n}, Indices{12, 10}));
  std::vector<float> from(std::size_t(plan.source_box().num_cells()), 3.0F);
  std::vector<double> to(std::size_t(plan.target_box().num_cells()), 0.0);
  RepartitionField const field{field_view(from.data(), plan.source_box().extents(), 2),
                               field_view(to.data(), plan.target_box().extents(), 2)};

  auto const record = plan.tune(std::span(&field, 1), 3);

  EXPECT_EQ(record.plan, plan.pull_plan().fingerprint());
  EXPECT_GT(record.point_to_point_seconds, 0);
  EXPECT_GT(record.node_shared_seconds, 0);
  for (auto const& path : plan.paths()) EXPECT_EQ(path.path, record.chosen);
  for (double const value : to) EXPECT_EQ(value, 3.0);
}

TEST(Tune, is_recorded_in_a_file_that_later_plans_follow) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1 || comm.num_nodes() > 1) GTEST_SKIP() << "for several ranks of one node";
  auto const before = transposition(comm);
  EXPECT_EQ(before.paths().front().path, Transport::node_shared);
  TuningTable table;
  table.add({before.fingerprint(), Transport::point_to_point, 1, 2});
  std::string const path = std::filesystem::temp_directory_path() / "graticule_test_tuning.txt";
  if (comm.rank() == 0) table.save(path);
  {
    test::WithVariable const tuning("GRATICULE_TUNING", path);

    auto const after = transposition(comm);

    EXPECT_EQ(after.fingerprint(), before.fingerprint());
    EXPECT_EQ(after.paths().front().path, Transport::point_to_point);
    EXPECT_EQ(after.paths().front().reason, "the faster one by the file of GRATICULE_TUNING");
    test::WithVariable const transport("GRATICULE_TRANSPORT", "node");
    EXPECT_EQ(transposition(comm).paths().front().path, Transport::node_shared) << "what is asked for by name wins";
    test::WithVariable const unknown("GRATICULE_TRANSPORT", comm.rank() == 0 ? "pigeon" : "node");
    EXPECT_EQ(test::rule_of([&] { (void)transposition(comm); }), (test::ErrorWith{"BadOption", "pigeon"}))
        << "on all ranks";
  }
  auto const rule_with = [&](char const* name, char const* value) {
    test::WithVariable const variable(name, value);
    return test::rule_of([&] { (void)transposition(comm); });
  };
  EXPECT_EQ(rule_with("GRATICULE_TUNING", "no_such_file"), "NoSuchFile");
  EXPECT_EQ(rule_with("GRATICULE_GPU_MPI", "7"), (test::ErrorWith{"BadOption", "GRATICULE_GPU_MPI"}));
  EXPECT_EQ(rule_with("GRATICULE_GPU_IPC", "yes"), (test::ErrorWith{"BadOption", "GRATICULE_GPU_IPC"}));
  comm.barrier();
  if (comm.rank() == 0) std::filesystem::remove(path);
}

TEST(PullStats, counts_messages_and_bytes_by_path) {
  auto const comm = Comm::world();
  if (comm.num_ranks() != 2 || comm.num_nodes() > 1) GTEST_SKIP() << "for two ranks of one node";
  auto plan = transposition(comm);
  std::vector<float> from(4 * 8);
  std::vector<float> to(8 * 4);
  auto const to_view = field_view(to.data(), {8, 4}, 2);
  PullField const field{field_view(from.data(), {4, 8}, 2), std::span(&to_view, 1)};

  for (int call = 0; call < 3; ++call) plan.apply(std::span(&field, 1));
  plan.set_transport(Transport::point_to_point);
  plan.apply(std::span(&field, 1));

  auto const stats = plan.stats();
  EXPECT_EQ(stats.num_calls, 4);
  EXPECT_EQ(stats.node_packed.num_messages, 3);
  EXPECT_EQ(stats.node_packed.bytes, 3 * 16 * 4);
  EXPECT_EQ(stats.point_to_point.num_messages, 1);
  EXPECT_EQ(stats.point_to_point.bytes, 16 * 4);
  EXPECT_EQ(stats.node_in_place.num_messages, 0);
  EXPECT_EQ(stats.local_bytes, 4 * 16 * 4);
  EXPECT_EQ(stats.num_workspaces, 2);
  EXPECT_NE(to_string(stats).find("node-shared, packed: 3 messages, 192 bytes"), std::string::npos);
}

}  // namespace
}  // namespace graticule
