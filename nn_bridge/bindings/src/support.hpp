// SPDX-License-Identifier: BSD-3-Clause
// What this library reads from the handles of libgraticule_c, whose engine is another one.
#pragma once

#include <graticule/graticule_nn.h>
#include <graticule/partition/comm.hpp>
#include <graticule/partition/layout.hpp>

#include "errors.hpp"
#include "extension.hpp"
#include "structures.hpp"

#include <c10/util/Exception.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

namespace graticule::c {

/// A duplicate of the communicator, for this library's engine. Collective.
[[nodiscard]] Comm comm_of(gr_comm const* comm);

/// The boxes of `num_ranks` ranks on a grid of latitude and longitude.
[[nodiscard]] Layout layout_of(gr_layout const* layout, int num_ranks);

/// Bands of whole circles of latitude in order of ranks: the rows of each rank; nothing for other layouts.
[[nodiscard]] std::optional<std::vector<Index>> bands(Layout const& layout, int num_ranks);

/// The cells of a rank's box in its array. @throws `BadArgument` for another number of rows or columns
[[nodiscard]] FieldView cells_of(gr_field const& field, Box const& box, int rank, Name const& name);

/// Sets LibTorch's threads on this rank; 0: OMP_NUM_THREADS, or the rank's part of the cores.
void set_threads(Comm const& comm, int num_threads);

/// Runs the body of an exported function; LibTorch's errors lose the addresses in their texts.
template <class Body>
void with_torch(Body&& body) {
  try {
    body();
  } catch (c10::Error const& error) {
    throw std::runtime_error(error.what_without_backtrace());
  }
}

}  // namespace graticule::c

/// As `GR_BODY`, for functions that call LibTorch.
#define GR_TORCH_BODY(...) GR_BODY({ ::graticule::c::with_torch([&] __VA_ARGS__); })
