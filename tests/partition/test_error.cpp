// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/check_mpi.hpp>
#include <graticule/partition/error.hpp>

#include "channel.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <exception>
#include <source_location>
#include <string>
#include <string_view>

using namespace graticule;

namespace {

TEST(Error, carries_rule_text_place_and_fault) {
  auto const line = std::source_location::current().line() + 1;
  Error const error("BadCuts", "240 rows for 241");
  Error const input(Fault::input, "NotHdf5", "a text file");

  EXPECT_EQ(error.rule(), "BadCuts");
  EXPECT_EQ(error.text(), "240 rows for 241");
  EXPECT_STREQ(error.what(), "BadCuts: 240 rows for 241");
  EXPECT_EQ(error.where().line(), line);
  EXPECT_NE(std::string_view(error.where().file_name()).find("test_error.cpp"), std::string_view::npos);
  EXPECT_EQ(error.fault(), Fault::program);
  EXPECT_EQ(input.fault(), Fault::input);
  EXPECT_EQ(input.rule(), "NotHdf5");
}

TEST(Error, is_the_last_one_of_its_thread_until_all_copies_are_gone) {
  std::exception_ptr kept;
  try {
    throw Error("BadCuts", "240 rows for 241");
  } catch (Error const&) {
    EXPECT_EQ(detail::last_error_text(), "BadCuts: 240 rows for 241");
    kept = std::current_exception();
  }
  EXPECT_EQ(detail::last_error_text(), "BadCuts: 240 rows for 241");
  kept = nullptr;
  EXPECT_EQ(detail::last_error_text(), "");
}

TEST(MpiError, names_call_code_and_class) {
  try {
    check_mpi(MPI_ERR_RANK, "MPI_Send");
    FAIL() << "nothing was thrown";
  } catch (MpiError const& error) {
    EXPECT_EQ(error.rule(), "MpiError");
    EXPECT_EQ(error.code(), MPI_ERR_RANK);
    EXPECT_EQ(error.error_class(), MPI_ERR_RANK);
    EXPECT_NE(error.text().find("MPI_Send"), std::string::npos);
    EXPECT_GT(error.text().size(), std::string_view("MPI_Send returned 6: ").size());
    EXPECT_NE(std::string_view(error.where().file_name()).find("test_error.cpp"), std::string_view::npos);
  }
  EXPECT_NO_THROW(check_mpi(MPI_SUCCESS, "MPI_Send"));
}

}  // namespace
