// SPDX-License-Identifier: BSD-3-Clause
#include "parallel_file.hpp"

#include <graticule/partition/detail/check_mpi.hpp>
#include <graticule/partition/detail/end.hpp>
#include <graticule/partition/detail/patience.hpp>
#include <graticule/partition/failure.hpp>

#include "disk_room.hpp"
#include "mpi_io.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace graticule::detail {

namespace {

/// From now on this process writes to memory that nobody reads where it has `path` open, so that closing cannot fail:
/// HDF5 1.10.8 hangs or crashes where the last writes of a file find no room. For files that are given up. Does nothing
/// where the system has no such memory.
void divert_to_memory(std::filesystem::path const& path) noexcept {
#ifdef __linux__
  // MPI-IO does not tell its descriptors.
  struct stat file {};
  if (::stat(path.c_str(), &file) != 0) return;
  int const memory = ::memfd_create("graticule", MFD_CLOEXEC);
  if (memory < 0) return;
  std::vector<int> found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end; !error && entry != end;
       entry.increment(error)) {
    int const id = std::atoi(entry->path().filename().c_str());
    struct stat other {};
    if (::fstat(id, &other) == 0 && other.st_dev == file.st_dev && other.st_ino == file.st_ino) found.push_back(id);
  }
  for (int const id : found) ::dup2(memory, id);
  ::close(memory);
#endif
}

/// How long a rank that abandons a file waits for the others; less during an exception, of which they must be notified.
constexpr double patience = 5;

h5::Properties access_list(Comm const& comm) {
  h5::Properties access(h5::check(H5Pcreate(H5P_FILE_ACCESS), "H5Pcreate"));
  h5::check(H5Pset_fapl_mpio(access.get(), comm.handle(), MPI_INFO_NULL), "H5Pset_fapl_mpio");
  // One rank reads or writes metadata for all: file systems suffer when every rank asks for the same bytes.
  h5::check(H5Pset_all_coll_metadata_ops(access.get(), true), "H5Pset_all_coll_metadata_ops");
  h5::check(H5Pset_coll_metadata_write(access.get(), true), "H5Pset_coll_metadata_write");
  return access;
}

}  // namespace

namespace {

/// Files that this process has open with others. HDF5 itself says it of a file by a collective call only.
struct ParallelIds {
  std::mutex mutex;
  std::set<hid_t> ids;
  bool opens_files = false;  ///< it has begun to open one
};

ParallelIds& parallel_ids() {
  static auto& all = *new ParallelIds;
  return all;
}

/// HDF5 closes at exit what is open, also files of several ranks, and waits for ranks that do not come. This handler
/// leaves those open where the process has called exit before MPI ended.
bool const exits_without_waiting = [] {
  if (H5dont_atexit() < 0) return false;
  return std::atexit([] {
           int ended = 0;
           MPI_Finalized(&ended);
           auto& open = parallel_ids();
           std::scoped_lock const lock(open.mutex);
           if (!open.opens_files || ended != 0 || open.ids.empty()) H5close();
         }) == 0;
}();

}  // namespace

FileWatch::FileWatch(Comm const& comm, std::filesystem::path const& path, char const* doing)
    : watch_("rank " + std::to_string(comm.rank()), std::string("HDF5 (") + doing + " " + path.string() + ")",
             [sleeps = Sleeps()]() mutable { return sleeps(); }) {}

ParallelFile::ParallelFile(Comm const& comm, std::filesystem::path path)
    : path_(std::move(path)), meeting_(comm.handle()), num_exceptions_(std::uncaught_exceptions()) {
  {
    auto& open = parallel_ids();
    std::scoped_lock const lock(open.mutex);
    open.opens_files = true;
  }
  // HDF5 closes in MPI_Finalize what is open, and waits there for ranks that do not know yet that this one ends.
  static bool const first = [] {
    h5::check(H5open(), "H5open");
    end_before_others();
    return true;
  }();
  static_cast<void>(first);
}

void ParallelFile::take(hid_t id) {
  file_ = h5::File(id);
  auto& open = parallel_ids();
  std::scoped_lock const lock(open.mutex);
  open.ids.insert(id);
}

void ParallelFile::forget() const noexcept {
  auto& open = parallel_ids();
  std::scoped_lock const lock(open.mutex);
  open.ids.erase(file_.get());
}

ParallelFile ParallelFile::open(Comm const& comm, std::filesystem::path const& path) {
  ParallelFile result(comm, path);
  auto const name = mpi_io_name(comm, path);
  FileWatch const watch(comm, path, "opening");
  auto const access = access_list(comm);
  result.take(h5::check(H5Fopen(name.c_str(), H5F_ACC_RDONLY, access.get()), "H5Fopen"));
  return result;
}

ParallelFile ParallelFile::open_to_write(Comm const& comm, std::filesystem::path const& path) {
  ParallelFile result(comm, path);
  auto const name = mpi_io_name(comm, path);
  FileWatch const watch(comm, path, "opening");
  auto const access = access_list(comm);
  h5::check(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V18, H5F_LIBVER_V110), "H5Pset_libver_bounds");
  h5::write_metadata_once(access);
  result.take(h5::check(H5Fopen(name.c_str(), H5F_ACC_RDWR, access.get()), "H5Fopen"));
  check_mpi(MPI_File_get_size(result.handle(), &result.reserved_), "MPI_File_get_size");
  return result;
}

ParallelFile ParallelFile::create(Comm const& comm, std::filesystem::path const& path) {
  ParallelFile result(comm, path);
  auto const name = mpi_io_name(comm, path);
  FileWatch const watch(comm, path, "creating");
  auto const access = access_list(comm);
  // Readable by HDF5 1.8 and later; the oldest formats lack the order of creation that netCDF-4 relies on.
  h5::check(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V18, H5F_LIBVER_V110), "H5Pset_libver_bounds");
  h5::write_metadata_once(access);
  h5::Properties const creation(h5::check(H5Pcreate(H5P_FILE_CREATE), "H5Pcreate"));
  constexpr unsigned ordered = H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED;
  h5::check(H5Pset_link_creation_order(creation.get(), ordered), "H5Pset_link_creation_order");
  h5::check(H5Pset_attr_creation_order(creation.get(), ordered), "H5Pset_attr_creation_order");
  h5::check(H5Pset_obj_track_times(creation.get(), false), "H5Pset_obj_track_times");
  result.take(h5::check(H5Fcreate(name.c_str(), H5F_ACC_TRUNC, creation.get(), access.get()), "H5Fcreate"));
  return result;
}

bool ParallelFile::meets_others() const noexcept {
  auto const end =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(std::min(patience, seconds_to_end()));
  auto const barrier = [&] {
    MPI_Request request = MPI_REQUEST_NULL;
    if (MPI_Ibarrier(meeting_.handle(), &request) != MPI_SUCCESS) return false;
    while (std::chrono::steady_clock::now() < end && !meeting_.failed_peer()) {
      int met = 0;
      if (MPI_Test(&request, &met, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
      if (met != 0) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  };
  // A rank that has given up has still begun the first one, which a later rank may then end.
  return barrier() && barrier();
}

bool ParallelFile::all_close() const noexcept {
  try {
    // HDF5 would wait for them without a word.
    meeting_.barrier();
    return true;
  } catch (...) {
    return false;
  }
}

MPI_File ParallelFile::handle() const {
  void* handle = nullptr;
  h5::check(H5Fget_vfd_handle(file_.get(), H5P_DEFAULT, &handle), "H5Fget_vfd_handle");
  return *static_cast<MPI_File*>(handle);
}

void ParallelFile::reserve(Index num_bytes) {
  if (__builtin_add_overflow(reserved_, num_bytes, &reserved_))
    throw Error("OutOfRange", "the file would have more than 2^63 bytes");
  // All ranks have to name the same length, and none may go beyond the limit: a signal would end it.
  MPI_Offset length = std::min<MPI_Offset>(reserved_, file_size_limit());
  meeting_.broadcast(&length, Index(sizeof length), 0);
  FileWatch const watch(meeting_, path_, "extending");
  check_mpi(MPI_File_set_size(handle(), length), "MPI_File_set_size");
}

void ParallelFile::flush() {
  FileWatch const watch(meeting_, path_, "flushing");
  h5::check(H5Fflush(file_.get(), H5F_SCOPE_GLOBAL), "H5Fflush");
  check_mpi(MPI_File_sync(handle()), "MPI_File_sync");
}

void ParallelFile::divert() const noexcept { divert_to_memory(path_); }

void ParallelFile::close() {
  forget();
  h5::check(file_.close(), "H5Fclose");
}

ParallelFile::~ParallelFile() {
  if (!file_) return;
  int const num_exceptions = std::uncaught_exceptions();
  bool const may_be_alone = num_exceptions > num_exceptions_ || (num_exceptions == 0 && hurries());
  if (mpi_is_over() || (may_be_alone ? !meets_others() : !all_close())) {
    file_.release();
    // The meeting is still under way, so its communicator must outlive this object.
    static auto* const unfinished = new std::vector<Comm>;
    unfinished->push_back(meeting_);
    return;
  }
  h5::Quiet const quiet;
  FileWatch const watch(meeting_, path_, "closing");
  forget();
  file_.close();
}

}  // namespace graticule::detail
