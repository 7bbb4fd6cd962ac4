// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/halo/plan.hpp>
#include <graticule/repartition/detail/plan_text.hpp>
#include <graticule/repartition/dump.hpp>

#include "expect_error.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

using namespace graticule;
using test::rule_of;

namespace {

std::string read(std::string const& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The same folder on all ranks, empty at first and gone at the end; `GRATICULE_DUMP` names it meanwhile.
class DumpFolder {
 public:
  explicit DumpFolder(Comm const& comm) : comm_(comm) {
    auto const name = comm.broadcast(testing::TempDir() + "graticule_dump_" + std::to_string(::getpid()), 0);
    path_ = name + "/plans";
    setenv("GRATICULE_DUMP", path_.c_str(), 1);
  }
  DumpFolder(DumpFolder const&) = delete;
  DumpFolder& operator=(DumpFolder const&) = delete;
  ~DumpFolder() {
    unsetenv("GRATICULE_DUMP");
    comm_.barrier();
    if (comm_.rank() == 0) std::filesystem::remove_all(std::filesystem::path(path_).parent_path());
  }
  /// Names and texts of the files. Rank 0.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> files() const {
    std::vector<std::pair<std::string, std::string>> result;
    for (auto const& entry : std::filesystem::directory_iterator(path_))
      result.emplace_back(entry.path().filename().string(), read(entry.path().string()));
    std::sort(result.begin(), result.end());
    return result;
  }
  [[nodiscard]] std::string const& path() const { return path_; }

 private:
  Comm const& comm_;
  std::string path_;
};

/// 8 cells, one more on each side of a rank's own: with the sign turned, the last cell below the first (for fields of
/// odd parity as it is), a constant above the last.
PullDescription ring(Comm const& comm, double constant) {
  Layout const layout(ProcessGrid{comm.num_ranks()}, Indices{8});
  Box const owned = layout.owned(comm.rank());
  Box const local = grown(owned, std::array{Width{1, 1}});
  auto const map = [constant](Box const& needed) {
    Piece piece{needed};
    piece.filled = needed.lo(0) >= 8;
    piece.fill = constant;
    piece.maps[0] = {0, 1, needed.lo(0) < 0 ? 8 : 0};
    piece.odd_folds = needed.lo(0) < 0;
    piece.negated = true;
    return std::vector<Piece>{piece};
  };
  Target const target{local, {Box({local.lo(0)}, {owned.lo(0)}), Box({owned.hi(0)}, {local.hi(0)}), Box({3}, {3})}};
  return {layout, {{local, {target}, map}}, 77};
}

/// The text without its hashes and the fingerprint.
std::string without_hashes(std::string const& text) {
  return std::regex_replace(text, std::regex("\"[0-9a-f]{16}\""), "#");
}

TEST(PlanText, is_the_plan_word_for_word) {
  auto const comm = Comm::world();
  if (comm.num_ranks() != 2) GTEST_SKIP() << "the text of 2 ranks";
  PullPlan plan(comm, ring(comm, 0.1));
  plan.set_transport(Transport::point_to_point);

  auto const text = plan_text(plan);

  if (comm.rank() != 0) {
    EXPECT_EQ(text, "");
    return;
  }
  auto const reason = plan.paths().front().reason;
  auto const expected = R"({
"format": "graticule-plan",
"version": 1,
"fingerprint": #,
"after_adjoint": "keep",
"extents": [8],
"ranks": [
 {"owned": [[0], [4]],
  "kinds": [{"source": [[-1], [5]], "targets": [{"box": [[-1], [5]], "needed": [{"box": [[-1], [0]], "pieces": [{"box": [[-1], [0]], "maps": [[0, 1, 8]], "odd_folds": true, "negated": true}]},
    {"box": [[4], [5]], "pieces": [{"box": [[4], [5]], "maps": [[0, 1, 0]], "negated": true}]},
    {"box": [[3], [3]], "pieces": []}]}]}],
  "sends": [{"peer": 1, "transfers": 1, "cells": 1, "hash": #}],
  "receives": [{"peer": 1, "transfers": 2, "cells": 2, "hash": #}],
  "local": {"transfers": 0, "cells": 0, "hash": #},
  "filled": {"transfers": 0, "cells": 0}},
 {"owned": [[4], [8]],
  "kinds": [{"source": [[3], [9]], "targets": [{"box": [[3], [9]], "needed": [{"box": [[3], [4]], "pieces": [{"box": [[3], [4]], "maps": [[0, 1, 0]], "negated": true}]},
    {"box": [[8], [9]], "pieces": [{"box": [[8], [9]], "fill": 0.1}]},
    {"box": [[3], [3]], "pieces": []}]}]}],
  "sends": [{"peer": 0, "transfers": 2, "cells": 2, "hash": #}],
  "receives": [{"peer": 0, "transfers": 1, "cells": 1, "hash": #}],
  "local": {"transfers": 0, "cells": 0, "hash": #},
  "filled": {"transfers": 1, "cells": 1}}
],
"paths": [
 [{"peer": 1, "path": "p2p", "reason": "REASON"}],
 [{"peer": 0, "path": "p2p", "reason": "REASON"}]
],
"call": null
}
)";
  EXPECT_EQ(without_hashes(text), std::regex_replace(expected, std::regex("REASON"), reason));
}

TEST(PlanText, has_words_for_numbers_that_json_has_not) {
  auto const comm = Comm::world();
  double const infinity = std::numeric_limits<double>::infinity();
  for (auto const& [value, word] : std::vector<std::pair<double, std::string>>{{std::nan(""), "\"nan\""},
                                                                               {infinity, "\"inf\""},
                                                                               {-infinity, "\"-inf\""},
                                                                               {-0.0, "-0.0"},
                                                                               {3.0, "3.0"},
                                                                               {1e300, "1e+300"},
                                                                               {1.0 / 3, "0.3333333333333333"}}) {
    auto const text = plan_text(PullPlan(comm, ring(comm, value)));
    EXPECT_TRUE(comm.rank() != 0 || text.find("\"fill\": " + word + "}") != std::string::npos) << text;
  }
}

// Mirrored at the edge cell or at its face: as many cells between the same ranks, but other ones.
TEST(PlanText, tells_transfers_apart) {
  auto const comm = Comm::world();
  Layout const rows(ProcessGrid{comm.num_ranks(), 1}, {12, 4});
  auto const transfers = [&](Edge edge) {
    HaloPlan const plan(comm, rows, {{1, 1}, {1, 1}}, Boundary::uniform(2, edge));
    auto const text = plan_text(plan.pull_plan());
    auto const begin = std::min(text.size(), text.find("\"sends\""));
    return text.substr(begin, text.find("\"filled\"") - begin);
  };

  auto const reflect = transfers(Edge::reflect);
  auto const again = transfers(Edge::reflect);
  auto const symmetric = transfers(Edge::symmetric);

  EXPECT_EQ(reflect, again);
  EXPECT_EQ(without_hashes(reflect), without_hashes(symmetric));
  EXPECT_TRUE(comm.rank() != 0 || reflect != symmetric) << reflect;
}

TEST(PlanText, holds_the_last_call) {
  auto const comm = Comm::world();
  Layout const rows(ProcessGrid{comm.num_ranks(), 1}, {6, 4});
  auto const sphere = Boundary::sphere(Edge::pole_face);
  HaloPlan const plan(comm, rows, {HaloKind{{{1, 1}, {1, 1}}, sphere}, HaloKind{{{2, 0}, {0, 2}}, sphere}});
  std::vector<float> one(std::size_t(3 * plan.local(0).num_cells()));
  std::vector<std::int16_t> two(std::size_t(10 * plan.local(1).num_cells()));
  auto const extents = [&](Indices batch, Box const& box) {
    for (Index const extent : box.extents()) batch.push_back(extent);
    return batch;
  };
  auto const wind = field_view(two.data(), extents({2, 5}, plan.local(1)), 2);
  plan.exchange(field_view(one.data(), extents({3}, plan.local(0)), 2));
  plan.exchange_adjoint(std::vector{HaloField{wind, Parity::odd, 1}});

  auto const text = plan_text(plan.pull_plan());

  EXPECT_TRUE(comm.rank() != 0 ||
              text.ends_with("\n\"call\": {\"direction\": \"adjoint\", \"fields\": "
                             "[{\"kind\": 1, \"dtype\": \"i16\", \"batch\": [2, 5], \"parity\": \"odd\"}]}\n}\n"))
      << text;
}

TEST(DumpPlan, writes_the_whole_text_or_nothing) {
  auto const comm = Comm::world();
  PullPlan const plan(comm, ring(comm, 1));
  DumpFolder const folder(comm);
  if (comm.rank() == 0) std::filesystem::create_directories(folder.path());
  comm.barrier();

  dump_plan(plan, folder.path() + "/a.json");
  auto const text = plan_text(plan);

  if (comm.rank() == 0) {
    ASSERT_EQ(folder.files().size(), 1U);
    EXPECT_EQ(folder.files().front().second, text);
    std::filesystem::create_directories(folder.path() + "/b.json/c");
  }
  comm.barrier();
  EXPECT_EQ(rule_of([&] { dump_plan(plan, "no_such_folder/a.json"); }), "OutputError");
  EXPECT_EQ(rule_of([&] { dump_plan(plan, folder.path() + "/b.json"); }), "OutputError");
  EXPECT_TRUE(comm.rank() != 0 || folder.files().size() == 2) << "a temporary file is left";
}

TEST(GraticuleDump, leaves_one_file_for_each_plan_with_its_first_call) {
  auto const comm = Comm::world();
  DumpFolder const folder(comm);
  PullPlan const plan(comm, ring(comm, 1));
  std::vector<double> cells(10);
  auto const box = grown(Layout(ProcessGrid{comm.num_ranks()}, Indices{8}).owned(comm.rank()), std::array{Width{1, 1}});
  auto const view = field_view(cells.data(), box.extents(), 1);
  auto const view32 = field_view(reinterpret_cast<float*>(cells.data()), box.extents(), 1);
  PullField const first{view, std::span(&view, 1)};
  PullField const second{view32, std::span(&view32, 1)};
  auto const after_construction =
      comm.rank() == 0 ? folder.files() : std::vector<std::pair<std::string, std::string>>{};
  plan.apply(std::span(&first, 1));
  plan.apply(std::span(&second, 1));
  PullPlan const same(comm, ring(comm, 1));
  same.apply(std::span(&second, 1));

  if (comm.rank() != 0) return;
  ASSERT_EQ(after_construction.size(), 1U);
  EXPECT_TRUE(after_construction.front().second.ends_with("\"call\": null\n}\n"));
  auto const files = folder.files();
  ASSERT_EQ(files.size(), 1U);
  EXPECT_TRUE(std::regex_match(files.front().first, std::regex("plan-[0-9a-f]{16}\\.json")));
  EXPECT_NE(files.front().second.find("\"fingerprint\": \"" + files.front().first.substr(5, 16)), std::string::npos);
  auto const& made = after_construction.front().second;
  EXPECT_EQ(files.front().second, made.substr(0, made.size() - std::string("null\n}\n").size()) +
                                      "{\"direction\": \"forward\", \"fields\": [{\"kind\": 0, \"dtype\": \"f64\", "
                                      "\"batch\": [], \"parity\": \"even\"}]}\n}\n");
}

TEST(GraticuleDump, keeps_different_plans_of_one_fingerprint_apart) {
  auto const comm = Comm::world();
  DumpFolder const folder(comm);
  PullPlan const one(comm, ring(comm, 1));
  PullPlan const two(comm, ring(comm, 2));
  PullPlan const one_again(comm, ring(comm, 1));
  auto const same_fingerprint = one.fingerprint() == two.fingerprint();

  ASSERT_TRUE(same_fingerprint);
  if (comm.rank() != 0) return;
  auto const files = folder.files();
  ASSERT_EQ(files.size(), 2U);
  EXPECT_TRUE(files.front().first.ends_with("-2.json") || files.back().first.ends_with("-2.json"));
  EXPECT_NE(files[0].second, files[1].second);
}

TEST(GraticuleDump, that_cannot_be_written_is_an_error_on_all_ranks) {
  auto const comm = Comm::world();
  DumpFolder const folder(comm);
  if (comm.rank() == 0) {
    std::filesystem::create_directories(std::filesystem::path(folder.path()).parent_path());
    std::ofstream(folder.path()) << "a file, no folder";
  }
  comm.barrier();
  EXPECT_EQ(rule_of([&] { PullPlan const plan(comm, ring(comm, 1)); }), "OutputError");
}

}  // namespace
