// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/cuts_file.hpp>
#include <graticule/partition/detail/cuts_text.hpp>

#include "expect_error.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

using namespace graticule;
using detail::parse_cuts;
using graticule::test::rule_of;
using graticule::test::thrown_by;

namespace {

TEST(ParseCuts, reads_commas_blanks_and_comments) {
  auto const cuts = parse_cuts("# thinner at the poles\n\n55, 65,65\t56  # rows\r\n240 240", "x");

  ASSERT_EQ(cuts.size(), 2U);
  EXPECT_EQ(cuts[0].sizes(), (std::vector<Index>{55, 65, 65, 56}));
  EXPECT_EQ(cuts[1].sizes(), (std::vector<Index>{240, 240}));
}

TEST(ParseCuts, reads_parts_without_cells_and_axes_of_one_part) {
  EXPECT_EQ(parse_cuts("3,0,4\n9\n", "x"), (std::vector<Cuts>{Cuts{3, 0, 4}, Cuts{9}}));
}

TEST(ParseCuts, names_the_line_of_what_it_cannot_read) {
  struct Row {
    char const* text;
    char const* found;
  };
  std::vector<Row> const rows{
      {"3,4\n5,six\n", "rows.txt, line 2: 'six'"}, {"# a\n3,-4\n", "rows.txt, line 2: '-4'"},
      {"3.5\n", "rows.txt, line 1: '3.5'"},        {"3;4\n", "rows.txt, line 1: '3;4'"},
      {"1,2,,3\n", "rows.txt, line 1: ''"},        {"1,2, ,3\n", "rows.txt, line 1: ''"},
      {"1\n,2\n", "rows.txt, line 2: ''"},         {"1,2, # the last\n", "rows.txt, line 1: ''"},
      {"", "rows.txt contains no cuts"},           {"# nothing\n\n", "rows.txt contains no cuts"},
      {"1\n1\n1\n1\n1\n1\n1\n1\n1\n", "line 9"},   {"9223372036854775807,1\n", "rows.txt, line 1: part 1"},
      {"99999999999999999999\n", "line 1"},
  };
  for (auto const& row : rows) {
    auto const thrown = thrown_by([&] { (void)parse_cuts(row.text, "rows.txt"); });

    EXPECT_EQ(thrown.rule, "BadInput") << row.text;
    EXPECT_EQ(thrown.fault, Fault::input) << row.text;
    EXPECT_NE(thrown.text.find(row.found), std::string::npos) << thrown.text;
  }
}

TEST(ReadCuts, gives_all_ranks_the_cuts_of_the_file) {
  auto const comm = Comm::world();
  auto const path = std::filesystem::temp_directory_path() / comm.broadcast("cuts-" + std::to_string(::getpid()), 0);
  if (comm.rank() == 0) std::ofstream(path) << "61,60,60,60\n480\n";
  comm.barrier();

  auto const cuts = read_cuts(comm, path);

  comm.barrier();
  if (comm.rank() == 0) std::filesystem::remove(path);
  EXPECT_EQ(cuts, (std::vector<Cuts>{Cuts{61, 60, 60, 60}, Cuts{480}}));
}

TEST(ReadCuts, fails_on_all_ranks_alike) {
  auto const comm = Comm::world();

  auto const thrown = thrown_by([&] { (void)read_cuts(comm, "no/such/file"); });

  EXPECT_EQ(thrown.rule, "NoSuchFile");
  EXPECT_EQ(thrown.fault, Fault::input);
  EXPECT_NE(thrown.text.find("no/such/file"), std::string::npos);
}

}  // namespace
