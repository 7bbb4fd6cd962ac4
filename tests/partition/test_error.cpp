// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/error.hpp>
#include <graticule/partition/hash.hpp>

#include <gtest/gtest.h>
#include <mpi.h>

#include <set>
#include <source_location>
#include <string_view>
#include <vector>

using namespace graticule;

namespace {

TEST(Error, carries_rule_text_place_and_fault) {
  auto const line = std::source_location::current().line() + 1;
  Error const error("CutsMismatch", "240 rows for 241");
  Error const input(Fault::input, "NotHdf5", "a text file");

  EXPECT_EQ(error.rule(), "CutsMismatch");
  EXPECT_EQ(error.given(), "240 rows for 241");
  EXPECT_STREQ(error.what(), "CutsMismatch: 240 rows for 241");
  EXPECT_EQ(error.where().line(), line);
  EXPECT_NE(std::string_view(error.where().file_name()).find("test_error.cpp"), std::string_view::npos);
  EXPECT_EQ(error.fault(), Fault::program);
  EXPECT_EQ(input.fault(), Fault::input);
  EXPECT_EQ(input.rule(), "NotHdf5");
}

TEST(MpiError, names_call_code_and_class) {
  try {
    check_mpi(MPI_ERR_RANK, "MPI_Send");
    FAIL() << "nothing was thrown";
  } catch (MpiError const& error) {
    EXPECT_EQ(error.rule(), "MpiError");
    EXPECT_EQ(error.code(), MPI_ERR_RANK);
    EXPECT_EQ(error.error_class(), MPI_ERR_RANK);
    EXPECT_NE(error.given().find("MPI_Send"), std::string::npos);
    EXPECT_GT(error.given().size(), std::string_view("MPI_Send returned 6: ").size());
    EXPECT_NE(std::string_view(error.where().file_name()).find("test_error.cpp"), std::string_view::npos);
  }
  EXPECT_NO_THROW(check_mpi(MPI_SUCCESS, "MPI_Send"));
}

TEST(Hash, tells_sequences_apart) {
  std::set<std::uint64_t> seen;
  auto const add = [&](Hash const& hash) { EXPECT_TRUE(seen.insert(hash.value()).second); };

  add(Hash());
  add(Hash().add(0));
  add(Hash().add(0).add(0));
  add(Hash().add(1).add(2));
  add(Hash().add(2).add(1));
  add(Hash().add(-1));
  add(Hash().add(1.0));
  add(Hash().add(std::string_view("ab")).add(std::string_view("c")));
  add(Hash().add(std::string_view("a")).add(std::string_view("bc")));
  add(Hash().add(std::vector<int>{5}).add(std::vector<int>{6, 7}));
  add(Hash().add(std::vector<int>{5, 6}).add(std::vector<int>{7}));
  EXPECT_EQ(Hash().add(7).add(8).value(), Hash().add(7).add(8).value());
}

}  // namespace
