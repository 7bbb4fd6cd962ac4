// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/file.hpp>
#include <graticule/field_io/writer.hpp>

#include "case.hpp"
#include "files_by_hand.hpp"
#include "mock.hpp"
#include "options.hpp"
#include "timing.hpp"

#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <vector>

namespace graticule::bench {

namespace {

/// Names of the temporary files in a folder, the same on all ranks; rank 0 removes them.
class TemporaryFiles {
 public:
  TemporaryFiles(Comm const& comm, std::filesystem::path const& folder)
      : is_root_(comm.rank() == 0),
        stem_(folder / ("graticule-bench-" + comm.broadcast(std::to_string(::getpid()), 0))) {}
  TemporaryFiles(TemporaryFiles const&) = delete;
  TemporaryFiles& operator=(TemporaryFiles const&) = delete;
  ~TemporaryFiles() {
    std::error_code ignored;
    if (is_root_)
      for (auto const& path : {plain(), hdf5(), ours()}) std::filesystem::remove(path, ignored);
  }
  [[nodiscard]] std::filesystem::path plain() const { return stem_.string() + ".bin"; }
  [[nodiscard]] std::filesystem::path hdf5() const { return stem_.string() + ".h5"; }
  [[nodiscard]] std::filesystem::path ours() const { return stem_.string() + ".nc"; }

 private:
  bool is_root_;
  std::filesystem::path stem_;
};

/// A collective write that finds no room leaves the ranks of HDF5 in different calls.
void require_room(Comm const& comm, std::filesystem::path const& folder, Index bytes) {
  run_agreed(comm, [&] {
    std::error_code error;
    if (comm.rank() != 0) return;
    auto const free = std::filesystem::space(folder, error).available;
    if (!error && std::uintmax_t(bytes) >= free)
      throw Error("OutputError", "--output " + folder.string() + " has " + std::to_string(free) +
                                     " free bytes; the three files need " + std::to_string(bytes));
  });
}

template <class T>
void write_ours(Comm const& comm, std::filesystem::path const& path, FileShape const& shape,
                std::vector<T> const& values) {
  FieldWriter writer(comm, path);
  writer.add_dimension("channel", shape.extents[0]);
  writer.add_dimension("latitude", shape.extents[1]);
  writer.add_dimension("longitude", shape.extents[2]);
  writer.add_variable({.name = "field",
                       .dimensions = {"channel", "latitude", "longitude"},
                       .type = sizeof(T) == 8 ? ValueType::f64 : ValueType::f32});
  writer.write("field", shape.box, std::span<T const>(values));
  writer.commit();
}

template <class T>
void compare(app::Context& context, Options const& options, Case const& c) {
  auto const& comm = context.comm;
  Layout const layout(c.grid, c.extents);
  Box const owned = layout.owned(comm.rank());
  FileShape const shape{{c.channels, c.extents[0], c.extents[1]},
                        Box({0, owned.lo(0), owned.lo(1)}, {c.channels, owned.hi(0), owned.hi(1)}),
                        Index(sizeof(T))};
  std::vector<T> values;
  for (Index channel = 0; channel < c.channels; ++channel)
    for (Index row = owned.lo(0); row < owned.hi(0); ++row)
      for (Index column = owned.lo(1); column < owned.hi(1); ++column)
        values.push_back(T((channel * 131 + row * 17 + column) % 8191));
  std::vector<T> found(values.size());
  constexpr Index structures = 3 << 20;
  require_room(comm, options.output, 3 * c.channels * c.extents[0] * c.extents[1] * shape.element_bytes + structures);
  TemporaryFiles const files(comm, options.output);
  std::vector<Candidate> const writes{
      {"plain file, pwrite and fsync", [&] { write_plain(comm, files.plain(), shape, values.data()); }},
      {"HDF5 by hand, one collective write", [&] { write_hdf5(comm, files.hdf5(), shape, values.data()); }},
      {"FieldWriter", [&] { write_ours(comm, files.ours(), shape, values); }}};
  std::vector<Candidate> const reads{
      {"plain file, pread", [&] { read_plain(files.plain(), shape, found.data()); }},
      {"HDF5 by hand, one collective read", [&] { read_hdf5(comm, files.hdf5(), shape, found.data()); }},
      {"FieldFile", [&] { FieldFile(comm, files.ours()).read("field", shape.box, std::span<T>(found)); }}};
  for (std::size_t i = 0; i < writes.size(); ++i) {
    std::fill(found.begin(), found.end(), T(-1));
    writes[i].run();
    comm.barrier();
    reads[i].run();
    require(comm, found == values, reads[i].name + " finds other values than were written");
  }
  show(context, "writing to the disk, " + c.text(), interleave(context, writes, options.timing));
  show(context, "reading what lies in memory, " + c.text(), interleave(context, reads, options.timing));
  context.report.data()["bytes"] = c.cell_bytes() * c.extents[0] * c.extents[1];
  context.report.set_partition(layout, {"latitude", "longitude"});
}

}  // namespace

void run_io(app::Context& context, Options const& options) {
  auto const c = case_of(options, context.comm, 8, DType::f32);
  with_element(c.dtype, [&](auto element) { compare<decltype(element)>(context, options, c); });
}

}  // namespace graticule::bench
