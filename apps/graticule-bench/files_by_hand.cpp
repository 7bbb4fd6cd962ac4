// SPDX-License-Identifier: BSD-3-Clause
#include "files_by_hand.hpp"

#include <graticule/field_io/detail/divert.hpp>

#include <fcntl.h>
#include <hdf5.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

namespace graticule::bench {

namespace {

[[noreturn]] void fail(std::filesystem::path const& path, char const* done) {
  throw Error("OutputError", path.string() + " cannot be " + done + ": " + std::strerror(errno));
}

class Descriptor {
 public:
  Descriptor(std::filesystem::path const& path, int flags) : path_(path), id_(::open(path.c_str(), flags, 0644)) {
    if (id_ < 0) fail(path, "opened");
  }
  Descriptor(Descriptor const&) = delete;
  Descriptor& operator=(Descriptor const&) = delete;
  ~Descriptor() { ::close(id_); }

  template <class Move>
  void move_all(char const* done, Move&& move, std::byte* data, std::size_t bytes, Index offset) const {
    while (bytes > 0) {
      auto const moved = move(id_, data, bytes, off_t(offset));
      if (moved < 0 && errno == EINTR) continue;
      if (moved <= 0) fail(path_, done);
      data += moved;
      bytes -= std::size_t(moved);
      offset += moved;
    }
  }
  void sync() const {
    if (::fsync(id_) != 0) fail(path_, "written");
  }

 private:
  std::filesystem::path path_;
  int id_;
};

/// Calls `visit(bytes before the run in the file, bytes before it in memory, its bytes)` for all contiguous runs.
template <class Visit>
void for_each_run(FileShape const& shape, Visit&& visit) {
  auto const& box = shape.box;
  if (box.empty()) return;
  bool const whole_rows = box.extent(2) == shape.extents[2];
  Index const rows_per_run = whole_rows ? box.extent(1) : 1;
  Index const run = rows_per_run * box.extent(2) * shape.element_bytes;
  Index in_memory = 0;
  for (Index channel = box.lo(0); channel < box.hi(0); ++channel)
    for (Index row = box.lo(1); row < box.hi(1); row += rows_per_run) {
      Index const cell = (channel * shape.extents[1] + row) * shape.extents[2] + box.lo(2);
      visit(cell * shape.element_bytes, in_memory, std::size_t(run));
      in_memory += run;
    }
}

herr_t keep_innermost(unsigned, H5E_error2_t const* error, void* data) {
  if (error->desc != nullptr && *error->desc != '\0') *static_cast<std::string*>(data) = error->desc;
  return 0;
}

hid_t checked(hid_t id, char const* call) {
  if (id >= 0) return id;
  std::string why = "HDF5 gives no reason";
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, keep_innermost, &why);
  throw Error("OutputError", std::string(call) + " has failed: " + why);
}

/// HDF5 prints no error stacks meanwhile.
class Quiet {
 public:
  Quiet() {
    H5Eget_auto2(H5E_DEFAULT, &function_, &data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  Quiet(Quiet const&) = delete;
  Quiet& operator=(Quiet const&) = delete;
  ~Quiet() { H5Eset_auto2(H5E_DEFAULT, function_, data_); }

 private:
  H5E_auto2_t function_ = nullptr;
  void* data_ = nullptr;
};

/// An identifier of HDF5 and how it is closed.
class Id {
 public:
  Id(hid_t id, herr_t (*close)(hid_t), char const* call) : id_(checked(id, call)), close_(close) {}
  Id(Id const&) = delete;
  Id& operator=(Id const&) = delete;
  ~Id() { close_(id_); }
  operator hid_t() const { return id_; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

std::array<hsize_t, 3> sizes(Indices const& values) {
  return {hsize_t(values[0]), hsize_t(values[1]), hsize_t(values[2])};
}

/// Dataspaces and property lists of one collective transfer.
struct Transfer {
  explicit Transfer(FileShape const& shape)
      : file(H5Screate_simple(3, sizes(shape.extents).data(), nullptr), H5Sclose, "H5Screate_simple"),
        memory(H5Screate_simple(3, sizes(shape.box.extents()).data(), nullptr), H5Sclose, "H5Screate_simple"),
        collective(H5Pcreate(H5P_DATASET_XFER), H5Pclose, "H5Pcreate"),
        type(shape.element_bytes == 8 ? H5T_NATIVE_DOUBLE : H5T_NATIVE_FLOAT) {
    auto const count = sizes(shape.box.extents());
    if (shape.box.empty()) {
      checked(H5Sselect_none(file), "H5Sselect_none");
      checked(H5Sselect_none(memory), "H5Sselect_none");
    } else {
      checked(H5Sselect_hyperslab(file, H5S_SELECT_SET, sizes(shape.box.lo()).data(), nullptr, count.data(), nullptr),
              "H5Sselect_hyperslab");
    }
    checked(H5Pset_dxpl_mpio(collective, H5FD_MPIO_COLLECTIVE), "H5Pset_dxpl_mpio");
  }

  Id file;
  Id memory;
  Id collective;
  hid_t type;
};

class Access {
 public:
  explicit Access(Comm const& comm) : id(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "H5Pcreate") {
    checked(H5Pset_fapl_mpio(id, comm.handle(), MPI_INFO_NULL), "H5Pset_fapl_mpio");
  }
  Id id;
};

}  // namespace

void write_plain(Comm const& comm, std::filesystem::path const& path, FileShape const& shape, void const* data) {
  if (comm.rank() == 0) Descriptor const made(path, O_CREAT | O_TRUNC | O_WRONLY);
  comm.barrier();
  Descriptor const file(path, O_WRONLY);
  auto* const bytes = static_cast<std::byte*>(const_cast<void*>(data));
  for_each_run(shape, [&](Index at, Index in_memory, std::size_t count) {
    file.move_all(
        "written", [](int id, void* from, std::size_t n, off_t to) { return ::pwrite(id, from, n, to); },
        bytes + in_memory, count, at);
  });
  file.sync();
}

void read_plain(std::filesystem::path const& path, FileShape const& shape, void* data) {
  Descriptor const file(path, O_RDONLY);
  for_each_run(shape, [&](Index at, Index in_memory, std::size_t count) {
    file.move_all(
        "read", [](int id, void* to, std::size_t n, off_t from) { return ::pread(id, to, n, from); },
        static_cast<std::byte*>(data) + in_memory, count, at);
  });
}

void write_hdf5(Comm const& comm, std::filesystem::path const& path, FileShape const& shape, void const* data) {
  Quiet const quiet;
  Access const access(comm);
  Id const file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.id), H5Fclose, "H5Fcreate");
  try {
    Transfer const transfer(shape);
    Id const whole(H5Screate_simple(3, sizes(shape.extents).data(), nullptr), H5Sclose, "H5Screate_simple");
    Id const dataset(H5Dcreate2(file, "field", transfer.type, whole, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Dclose,
                     "H5Dcreate2");
    checked(H5Dwrite(dataset, transfer.type, transfer.memory, transfer.file, transfer.collective, data), "H5Dwrite");
    checked(H5Fflush(file, H5F_SCOPE_GLOBAL), "H5Fflush");
  } catch (Error const& error) {
    divert_to_memory(path);
    std::string const full = std::strerror(ENOSPC);
    auto const why = error.text().find(full) == std::string::npos ? error.text() : full;
    throw Error("OutputError", path.string() + " cannot be written: " + why);
  }
}

void read_hdf5(Comm const& comm, std::filesystem::path const& path, FileShape const& shape, void* data) {
  Quiet const quiet;
  Access const access(comm);
  Id const file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id), H5Fclose, "H5Fopen");
  Id const dataset(H5Dopen2(file, "field", H5P_DEFAULT), H5Dclose, "H5Dopen2");
  Transfer const transfer(shape);
  checked(H5Dread(dataset, transfer.type, transfer.memory, transfer.file, transfer.collective, data), "H5Dread");
}

}  // namespace graticule::bench
