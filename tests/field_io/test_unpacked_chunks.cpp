// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/file.hpp>

#include "sample_files.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace graticule {
namespace {

using test::Folder;

/// 6 x 8 cells of f32, in chunks of 3 x 4 with the checksums of Fletcher.
void write_checked(hid_t file, char const* name, std::vector<float> const& values) {
  std::vector<hsize_t> const extents{6, 8};
  std::vector<hsize_t> const chunk{3, 4};
  hid_t const space = H5Screate_simple(2, extents.data(), nullptr);
  hid_t const creation = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(creation, 2, chunk.data());
  H5Pset_fletcher32(creation);
  hid_t const dataset = H5Dcreate2(file, name, H5T_IEEE_F32LE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  H5Dwrite(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  H5Dclose(dataset);
  H5Pclose(creation);
  H5Sclose(space);
}

TEST(UnpackedChunks, are_those_that_this_process_has_inflated_or_checked) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const path = folder.make("x.nc", [](auto const& p) {
    std::vector<float> values(48);
    std::iota(values.begin(), values.end(), 0.0F);
    test::NewFile const file(p);
    for (char const* const name : {"deflated", "inflated_in_part"})
      test::write_dataset(file, {name, H5T_IEEE_F32LE, {6, 8}, {3, 4}, 1}, H5T_NATIVE_FLOAT, values.data());
    write_checked(file, "checked", values);
    test::write_dataset(file, {"chunked", H5T_IEEE_F32LE, {6, 8}, {3, 4}}, H5T_NATIVE_FLOAT, values.data());
    test::write_dataset(file, {"contiguous", H5T_IEEE_F32LE, {6, 8}}, H5T_NATIVE_FLOAT, values.data());
  });
  FieldFile const file(comm, path);
  auto const num_unpacked_by = [&](std::string const& name, Box const& box) {
    std::vector<float> values(std::size_t(box.num_cells()));
    Index const before = FieldFile::num_unpacked_chunks();
    file.read(name, box, std::span(values));
    if (!box.empty()) {
      EXPECT_EQ(values.back(), float((box.hi(0) - 1) * 8 + box.hi(1) - 1)) << name;
    }
    return FieldFile::num_unpacked_chunks() - before;
  };
  Box const whole({0, 0}, {6, 8});
  // The cells of one chunk, of the two chunks beside each other, and none.
  Box const own = comm.rank() == 0 ? Box({1, 1}, {3, 3}) : comm.rank() == 1 ? Box({5, 2}, {6, 7}) : Box({2, 2}, {2, 4});

  EXPECT_EQ(num_unpacked_by("deflated", whole), 4);
  EXPECT_EQ(num_unpacked_by("checked", whole), 4);
  EXPECT_EQ(num_unpacked_by("inflated_in_part", own), comm.rank() == 0 ? 1 : comm.rank() == 1 ? 2 : 0);
  EXPECT_EQ(num_unpacked_by("chunked", whole), 0);
  EXPECT_EQ(num_unpacked_by("contiguous", whole), 0);

  for (int const num_threads : {2, 3, 7}) {
    FieldFile const several(comm, path, {.threads = num_threads});
    for (char const* const name : {"deflated", "checked"}) {
      std::vector<double> values(48, -1.0);
      Index const before = FieldFile::num_unpacked_chunks();
      several.read(name, whole, std::span(values));
      EXPECT_EQ(FieldFile::num_unpacked_chunks() - before, 4) << name << " by " << num_threads << " threads";
      for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], double(i)) << name;
    }
  }
}

}  // namespace
}  // namespace graticule
