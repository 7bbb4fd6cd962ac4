// SPDX-License-Identifier: BSD-3-Clause
// Virtual datasets: years of a field in files of their own, seen as one.
#include <graticule/field_io/file.hpp>
#include <graticule/partition/cuts.hpp>

#include "sample_files.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace graticule {
namespace {

using test::Folder;

constexpr hsize_t num_years = 3;
constexpr hsize_t num_times = 4;
constexpr hsize_t num_cells = 6;

void write_years(std::filesystem::path const& folder) {
  std::filesystem::create_directory(folder / "years");
  for (hsize_t year = 0; year < num_years; ++year) {
    test::NewFile const file(folder / "years" / (std::to_string(year) + ".h5"));
    std::vector<double> values(num_times * num_cells);
    std::iota(values.begin(), values.end(), double(year * values.size()));
    test::write_dataset(file, {"fields", H5T_IEEE_F32BE, {num_times, num_cells}, {2, 6}, 1}, H5T_NATIVE_DOUBLE,
                        values.data());
  }
}

/// A virtual dataset of `years` years, of which each comes from `source(year)`; `length` times of each.
void write_joined(std::filesystem::path const& path, hsize_t years, hsize_t length,
                  std::function<std::string(hsize_t)> const& source) {
  test::NewFile const file(path);
  hsize_t const all[]{num_years * num_times, num_cells};
  hsize_t const one[]{length, num_cells};
  hid_t const target = H5Screate_simple(2, all, nullptr);
  hid_t const part = H5Screate_simple(2, one, nullptr);
  hid_t const creation = H5Pcreate(H5P_DATASET_CREATE);
  for (hsize_t year = 0; year < years; ++year) {
    hsize_t const start[]{year * length, 0};
    H5Sselect_hyperslab(target, H5S_SELECT_SET, start, nullptr, one, nullptr);
    H5Pset_virtual(creation, target, source(year).c_str(), "/fields", part);
  }
  H5Sselect_all(target);
  H5Dclose(H5Dcreate2(file, "fields", H5T_IEEE_F32LE, target, H5P_DEFAULT, creation, H5P_DEFAULT));
  H5Pclose(creation);
  H5Sclose(part);
  H5Sclose(target);
}

std::string year_file(hsize_t year) { return "years/" + std::to_string(year) + ".h5"; }

TEST(VirtualDataset, is_read_from_sources_beside_the_file) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const path = folder.make("joined.h5", [](auto const& p) {
    write_years(p.parent_path());
    write_joined(p, num_years, num_times, year_file);
  });
  FieldFile const file(comm, path);
  EXPECT_TRUE(file.variable("fields").is_virtual);
  // Ranks need different years, some of them none.
  auto const cuts = balanced_cuts(Index(num_years * num_times), comm.num_ranks() + 1);
  Box const box({cuts.lo(comm.rank()), 1}, {cuts.hi(comm.rank()), 5});
  std::vector<float> values(std::size_t(box.num_cells()), -1.0F);
  std::vector<float> stored(values.size(), -1.0F);

  file.read("fields", box, std::span(values));
  file.read_stored("fields", box, std::as_writable_bytes(std::span(stored)));

  std::size_t i = 0;
  for (Index time = box.lo(0); time < box.hi(0); ++time)
    for (Index cell = 1; cell < 5; ++cell, ++i) EXPECT_EQ(values[i], float(time * 6 + cell));
  EXPECT_EQ(stored, values);
}

struct RefusedCase {
  char const* rule;
  char const* word;
  hsize_t years = num_years;
  hsize_t length = num_times;
  std::function<std::string(hsize_t)> source = year_file;
};

TEST(VirtualDataset, is_refused_by_name_rather_than_filled_up) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  auto const all = folder.make("whole.h5", [](auto const& p) {
    write_years(p.parent_path());
    test::write_bytes(p.parent_path() / "damaged.h5", "no HDF5");
  });
  auto const with_last = [](std::string const& name) {
    return [name](hsize_t year) { return year == 2 ? name : year_file(year); };
  };
  for (auto const& one :
       std::vector<RefusedCase>{{"UnreadableVariable", "gone.h5", num_years, num_times, with_last("gone.h5")},
                                {"UnreadableVariable", "damaged.h5", num_years, num_times, with_last("damaged.h5")},
                                {"UnreadableVariable", "48 of its 72 cells", 2},
                                {"UnreadableVariable", "too small", 2, 6},
                                {"UnreadableVariable", "../", num_years, num_times, with_last("../years/2.h5")},
                                {"UnreadableVariable", "/tmp", num_years, num_times, with_last("/tmp/2.h5")},
                                {"UnreadableVariable", "virtual itself", num_years, num_times, with_last(".")}}) {
    auto const path =
        folder.make("joined.h5", [&](auto const& p) { write_joined(p, one.years, one.length, one.source); });
    FieldFile const file(comm, path);
    std::vector<float> values(72);
    try {
      file.read("fields", Box({0, 0}, {12, 6}), std::span(values));
      ADD_FAILURE() << "read " << one.word;
    } catch (Error const& error) {
      EXPECT_EQ(error.rule(), one.rule) << error.text();
      EXPECT_EQ(error.fault(), Fault::input);
      EXPECT_NE(error.text().find(one.word), std::string::npos) << error.text();
    }
  }
}

}  // namespace
}  // namespace graticule
