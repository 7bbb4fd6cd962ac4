// SPDX-License-Identifier: BSD-3-Clause
#include "lone_file.hpp"

#include "raw_cells.hpp"

namespace graticule::detail {

LoneFile::LoneFile(std::filesystem::path const& path, int num_threads) : num_threads_(num_threads) {
  if (zarr::is_store(path))
    store_.emplace(path, num_threads);
  else
    file_ = open_alone(path);
}

void LoneFile::read(KnownVariable const& known, Slab const& slab, std::byte* target) {
  auto const& variable = *known.variable;
  if (store_) return store_->read(variable, *known.array, slab, target);
  auto found = datasets_.find(variable.name);
  if (found == datasets_.end()) {
    h5::Object dataset(h5::check(H5Oopen_by_addr(file_.get(), known.address), "H5Oopen_by_addr"));
    found = datasets_.emplace(variable.name, std::move(dataset)).first;
  }
  read_raw(variable, found->second.get(), H5P_DEFAULT, slab, target, num_threads_);
}

}  // namespace graticule::detail
