// SPDX-License-Identifier: BSD-3-Clause
// Times how long a series of many small files takes to open, and single ones of them: open_series COUNT REPETITIONS
#include <graticule/field_io/detail/read_contents.hpp>
#include <graticule/field_io/series.hpp>
#include <graticule/field_io/writer.hpp>
#include <graticule/repartition/runtime.hpp>

#include "sample_files.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using namespace graticule;

/// One record of a small field, with coordinates.
void make_file(Comm const& comm, std::filesystem::path const& path) {
  FieldWriter writer(comm, path);
  writer.add_dimension("time", 1, DimensionKind::unlimited);
  std::vector<double> latitude(19);
  std::vector<double> longitude(36);
  for (std::size_t i = 0; i < latitude.size(); ++i) latitude[i] = -90 + 10 * double(i);
  for (std::size_t i = 0; i < longitude.size(); ++i) longitude[i] = 10 * double(i);
  writer.add_coordinate("latitude", latitude, ValueType::f64, {Attribute::of_text("units", "degrees_north")});
  writer.add_coordinate("longitude", longitude, ValueType::f64, {Attribute::of_text("units", "degrees_east")});
  writer.add_variable({.name = "time",
                       .dimensions = {"time"},
                       .type = ValueType::f64,
                       .attributes = {Attribute::of_text("units", "hours since 2000-01-01")}});
  writer.add_variable({.name = "z", .dimensions = {"time", "latitude", "longitude"}});
  std::vector<double> const cells(19 * 36, 0.0);
  writer.write("time", Box({0}, {1}), std::span(cells).first(1));
  writer.write("z", Box({0, 0, 0}, {1, 19, 36}), std::span(cells));
  writer.commit();
}

/// The same with another time.
void make_next(std::filesystem::path const& first, std::filesystem::path const& path, double time) {
  std::filesystem::copy_file(first, path);
  hid_t const file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  hid_t const dataset = H5Dopen2(file, "time", H5P_DEFAULT);
  herr_t const written = H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, &time);
  H5Dclose(dataset);
  H5Fclose(file);
  if (written < 0) throw std::runtime_error("cannot write " + path.string());
}

double seconds_of(Comm const& comm, auto const& action) {
  comm.barrier();
  auto const start = std::chrono::steady_clock::now();
  action();
  comm.barrier();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  Runtime const runtime(argc, argv);
  auto const comm = Comm::world();
  auto const self = comm.split(comm.rank(), 0);
  int const count = argc > 1 ? std::max(std::atoi(argv[1]), 1) : 1000;
  int const repetitions = argc > 2 ? std::max(std::atoi(argv[2]), 1) : 5;
  test::Folder const folder(comm);
  std::vector<std::filesystem::path> paths;
  for (int i = 0; i < count; ++i) paths.push_back(folder / (std::to_string(i) + ".nc"));
  if (comm.rank() == 0) {
    make_file(self, paths.front());
    for (int i = 1; i < count; ++i) make_next(paths.front(), paths[std::size_t(i)], i);
  }
  comm.barrier();

  std::vector<double> series;
  std::vector<double> alone;
  for (int i = 0; i < repetitions; ++i) {
    series.push_back(seconds_of(comm, [&] { FieldSeries const opened(comm, paths); }));
    alone.push_back(seconds_of(comm, [&] {
      if (comm.rank() == 0)
        for (auto const& path : paths) (void)read_contents(path);
    }));
  }
  if (comm.rank() == 0)
    std::printf("%d files, %d ranks: series open in %.2f s (fastest %.2f), listed in %.2f s (fastest %.2f)\n", count,
                comm.num_ranks(), median(series), *std::min_element(series.begin(), series.end()), median(alone),
                *std::min_element(alone.begin(), alone.end()));
  return 0;
}
