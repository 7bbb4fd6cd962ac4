// SPDX-License-Identifier: BSD-3-Clause
// Apart from the other tests of `FieldFile`, because it runs on many ranks.
#include <graticule/field_io/file.hpp>
#include <graticule/partition/cuts.hpp>

#include "sample_files.hpp"

#include <gtest/gtest.h>

namespace graticule {
namespace {

TEST(FieldFile, reads_balanced_rows_with_more_ranks_than_rows) {
  auto const comm = Comm::world();
  test::Folder const folder(comm);
  auto const path = folder.make("rows.h5", [&](auto const& p) {
    test::NewFile const file(p);
    std::vector<double> values(3 * 40);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = double(i);
    test::write_dataset(file, {"plain", H5T_STD_I16BE, {3, 40}}, H5T_NATIVE_DOUBLE, values.data());
    test::write_dataset(file, {"deflated", H5T_IEEE_F32LE, {3, 40}, {2, 16}, 1}, H5T_NATIVE_DOUBLE, values.data());
  });
  FieldFile const file(comm, path);
  auto const cuts = balanced_cuts(3, comm.num_ranks());
  Box const box({cuts.lo(comm.rank()), 0}, {cuts.hi(comm.rank()), 40});

  for (auto const* name : {"plain", "deflated"}) {
    std::vector<float> values(std::size_t(box.num_cells()));
    file.read(name, box, std::span(values));

    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], float(Index(i) + 40 * box.lo(0))) << name;
  }
  EXPECT_EQ(box.empty(), comm.rank() >= 3);
}

}  // namespace
}  // namespace graticule
