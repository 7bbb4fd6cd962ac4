// SPDX-License-Identifier: BSD-3-Clause
#include "source.hpp"

#include <graticule/field_io/detail/read_contents.hpp>

#include "hdf5_source.hpp"
#include "signature.hpp"
#include "zarr/catalogue.hpp"
#include "zarr/store.hpp"

namespace graticule {

namespace detail {

Format const& format_of(std::filesystem::path const& path) {
  static constexpr Format hdf5{read_hdf5_catalogue, open_hdf5, [](std::filesystem::path const& file) { return file; }};
  static constexpr Format store{
      [](std::filesystem::path const& folder, FilterPlugins, Structure) { return zarr::list(folder); },
      zarr::open_store, zarr::metadata_file};
  return zarr::is_store(path) ? store : hdf5;
}

Catalogue read_catalogue(std::filesystem::path const& path, FilterPlugins plugins, Structure kind) {
  refuse_url(path);
  return format_of(path).list(path, plugins, kind);
}

}  // namespace detail

FileContents read_contents(std::filesystem::path const& path, FilterPlugins plugins) {
  return detail::read_catalogue(path, plugins).contents;
}

}  // namespace graticule
