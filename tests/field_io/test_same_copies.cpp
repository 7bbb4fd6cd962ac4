// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/checkpoint.hpp>
#include <graticule/field_io/detail/same_copies.hpp>
#include <graticule/field_io/file.hpp>

#include "expect_error.hpp"
#include "files.hpp"
#include "sample_files.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace graticule {
namespace {

using test::Folder;
namespace fs = std::filesystem;

/// Each rank in a folder of its own, as ranks of several nodes with disks of their own are.
class SameCopies : public testing::Test {
 protected:
  SameCopies() : before_(fs::current_path()), own_(folder_ / std::to_string(comm_.rank())) {
    fs::create_directories(own_);
    fs::current_path(own_);
  }
  ~SameCopies() override { fs::current_path(before_); }

  /// `text` of this rank, with the time of change that all have.
  void write(std::string const& text) const {
    test::write_bytes("copy", text);
    fs::last_write_time("copy", fs::file_time_type() + std::chrono::hours(1));
    comm_.barrier();
  }
  [[nodiscard]] bool is_last() const { return comm_.rank() == comm_.num_ranks() - 1; }
  [[nodiscard]] std::string found(std::string const& word) const {
    try {
      require_same_copies(comm_, "copy");
    } catch (Error const& error) {
      EXPECT_NE(error.text().find(word), std::string::npos) << error.text();
      EXPECT_EQ(error.fault(), Fault::input);
      return error.rule();
    }
    return {};
  }

  Comm comm_ = Comm::world();
  Folder folder_{comm_};
  fs::path before_;
  fs::path own_;
};

TEST_F(SameCopies, equal_copies_pass_whenever_they_were_made) {
  write(std::string(5000000, 'x'));
  fs::last_write_time("copy", fs::file_time_type() + std::chrono::hours(2 + comm_.rank()));

  EXPECT_EQ(found(""), "");
}

TEST_F(SameCopies, copies_that_differ_in_size_or_anywhere_in_bytes_are_refused_with_both_hosts) {
  if (comm_.num_ranks() == 1) GTEST_SKIP() << "needs more than one rank";
  std::string const last = "rank " + std::to_string(comm_.num_ranks() - 1) + " on host";
  for (std::size_t const size : {std::size_t(1), std::size_t(4096), std::size_t(70000), std::size_t(3000000)}) {
    write(std::string(size, 'x'));
    EXPECT_EQ(found(""), "");
    write(std::string(size + (is_last() ? 1 : 0), 'x'));
    EXPECT_EQ(found(last), "BadInput") << size;
    for (std::size_t const at : {std::size_t(0), size - 1}) {
      std::string text(size, 'x');
      if (is_last()) text[at] = 'y';
      write(text);
      EXPECT_EQ(found(last), "BadInput") << size << " " << at;
    }
  }
  // A whole field that is out of date, somewhere in the middle.
  std::string text(30000000, 'x');
  if (is_last()) text.replace(11000000, 500000, 500000, 'y');
  write(text);
  EXPECT_EQ(found("of other content"), "BadInput");
}

TEST_F(SameCopies, a_copy_that_is_missing_somewhere_is_named) {
  if (comm_.num_ranks() == 1) GTEST_SKIP() << "needs more than one rank";
  write("text");
  if (is_last()) fs::remove("copy");

  EXPECT_EQ(found("cannot read it (No such file or directory)"), "BadInput");
}

TEST_F(SameCopies, field_files_are_compared_when_they_are_opened) {
  if (comm_.num_ranks() == 1) GTEST_SKIP() << "needs more than one rank";
  auto const write_field = [&](float value) {
    std::vector<float> const values(100000, value);
    {
      test::NewFile const file("field.h5");
      test::write_dataset(file, {"f", H5T_IEEE_F32LE, {100000}}, H5T_NATIVE_FLOAT, values.data());
    }
    comm_.barrier();
  };
  write_field(1);
  std::vector<float> values(100000);
  FieldFile(comm_, "field.h5").read("f", Box({0}, {100000}), std::span(values));
  EXPECT_EQ(values.back(), 1);
  write_field(is_last() ? 2 : 1);

  EXPECT_EQ(test::rule_of([&] { FieldFile const file(comm_, "field.h5"); }), "BadInput");
}

TEST_F(SameCopies, checkpoints_are_compared_when_they_are_opened) {
  if (comm_.num_ranks() == 1) GTEST_SKIP() << "needs more than one rank";
  Comm const self(MPI_COMM_SELF);
  // Intact in itself: another state of the same step.
  auto const write_state = [&](double value) {
    fs::remove_all("states");
    std::vector<double> const values(1000, value);
    CheckpointStore store(self, "states");
    auto writer = store.begin(1);
    writer.add("f", field_view(values.data(), {1000}, 0));
    auto const path = writer.commit();
    comm_.barrier();
    return path;
  };
  auto const path = write_state(1);
  EXPECT_EQ(Checkpoint(comm_, path).step(), 1);
  (void)write_state(is_last() ? 2 : 1);

  EXPECT_EQ(test::rule_of([&] { Checkpoint const checkpoint(comm_, path); }), "BadInput");
}

}  // namespace
}  // namespace graticule
