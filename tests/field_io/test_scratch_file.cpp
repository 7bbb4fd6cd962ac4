// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/detail/scratch_file.hpp>

#include "expect_error.hpp"
#include "full_disks.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <string>

namespace graticule {
namespace {

using test::Folder;
using test::names_in;

TEST(ScratchFile, is_shared_by_ranks_and_has_no_name) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  ScratchFile const scratch(comm, folder / "x.nc");

  EXPECT_EQ(scratch.reserve(8 * comm.num_ranks(), 1), "");
  std::array<std::byte, 8> own{};
  own.fill(std::byte(comm.rank() + 1));
  scratch.write(8 * comm.rank(), own);
  comm.barrier();
  int const next = (comm.rank() + 1) % comm.num_ranks();
  scratch.read(8 * next, own);

  EXPECT_EQ(own.front(), std::byte(next + 1));
  EXPECT_EQ(own.back(), std::byte(next + 1));
  EXPECT_TRUE(names_in(folder / ".").empty());
  auto const early = test::thrown_by([&] { scratch.read(8 * comm.num_ranks() - 4, own); });
  EXPECT_EQ(early.rule, "OutputError");
  EXPECT_NE(early.text.find("x.nc cannot be written: the file ends early (scratch file"), std::string::npos)
      << early.text;
  comm.barrier();
  test::fill_open_files(".part (deleted)");
  auto const full = test::thrown_by([&] { scratch.write(0, own); });
  EXPECT_NE(full.text.find("x.nc cannot be written: No space left on device (scratch file"), std::string::npos)
      << full.text;
}

TEST(ScratchFile, leaves_room_for_other_files) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  test::SmallDisk const disk(folder, comm, 3);
  if (!disk.is_mounted()) GTEST_SKIP() << "this user may not mount file systems";
  ScratchFile const scratch(comm, disk.path() / "x.nc");
  constexpr Index mib = Index(1) << 20;

  EXPECT_EQ(scratch.reserve(4 * mib, 0), "No space left on device");
  EXPECT_EQ(scratch.reserve(2 * mib, 3 * mib), "No space left on device");
  EXPECT_EQ(scratch.reserve(2 * mib, mib / 2), "");
  comm.barrier();
  // Reserved once, the room is there for the next call as well, and for nobody else.
  EXPECT_EQ(scratch.reserve(2 * mib, mib / 2), "");
  EXPECT_EQ(scratch.reserve(2 * mib, 2 * mib), "No space left on device");
  auto const lost = test::thrown_by([&] { ScratchFile const other(comm, disk.path() / "no" / "folder" / "x.nc"); });
  EXPECT_EQ(lost.rule, "OutputError");
}

TEST(ScratchFile, needs_a_folder_for_its_file) {
  auto const comm = Comm::world();
  Folder const folder(comm);

  auto const thrown = test::thrown_by([&] { ScratchFile const scratch(comm, folder / "no" / "x.nc"); });

  EXPECT_EQ(thrown.rule, "OutputError");
  EXPECT_NE(thrown.text.find((folder / "no" / "x.nc").string()), std::string::npos) << thrown.text;
  EXPECT_TRUE(names_in(folder / ".").empty());
}

}  // namespace
}  // namespace graticule
