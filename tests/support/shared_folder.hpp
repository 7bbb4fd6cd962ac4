// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

#include "remove_folder.hpp"

#include <stdlib.h>

#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>

namespace graticule::test {

/// A folder that all ranks see; removed at the end.
class Folder {
 public:
  explicit Folder(Comm const& comm) : comm_(comm) {
    std::string text;
    if (comm.rank() == 0) {
      text = (std::filesystem::temp_directory_path() / "graticule-XXXXXX").string();
      if (::mkdtemp(text.data()) == nullptr) text.clear();
    }
    path_ = comm.broadcast(text, 0);
    if (path_.empty()) throw std::runtime_error("no temporary folder");
  }
  Folder(Folder const&) = delete;
  Folder& operator=(Folder const&) = delete;
  ~Folder() {
    MPI_Barrier(comm_.handle());
    if (comm_.rank() == 0) remove_folder(path_);
  }
  [[nodiscard]] std::filesystem::path const& path() const noexcept { return path_; }
  [[nodiscard]] std::filesystem::path operator/(std::string const& name) const { return path_ / name; }

  /// Runs `make(path)` on rank 0; the file is there on all ranks afterwards.
  std::filesystem::path make(std::string const& name,
                             std::function<void(std::filesystem::path const&)> const& make) const {
    auto const path = path_ / name;
    run_agreed(comm_, [&] {
      if (comm_.rank() == 0) make(path);
    });
    return path;
  }

 private:
  Comm comm_;
  std::filesystem::path path_;
};

}  // namespace graticule::test
