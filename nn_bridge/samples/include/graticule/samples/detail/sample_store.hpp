// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>
#include <graticule/samples/detail/fields.hpp>

#include <cstddef>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

namespace graticule::samples {

/// Bytes of memory for all processes of this node: of the machine, or the limit of the job's control group.
[[nodiscard]] Index node_memory_bytes();

/// A quarter of the node's memory, divided by its ranks: the network needs the larger part.
[[nodiscard]] Index default_memory_bytes(Comm const& comm);

/// Statistics of one rank's store.
struct StoreCounts {
  Index bytes_read = 0;  ///< as they lie in the file, unpacked by filters
  Index num_reads = 0;   ///< of one field of one sample each
  Index num_hits = 0;    ///< the same, found in memory
  Index bytes_held = 0;
};

/// The samples of a rank's box, read on request and kept in memory within a budget.
///
/// Stored cells have the file's format and are never evicted: every sample is used once per epoch, so no other policy
/// has more hits. Validation samples are stored only if all samples fit. Makes no MPI call; one thread at a time.
class SampleStore {
 public:
  /// @param keeps_first the samples [0, keeps_first), and mirror images, come before the others
  /// @param on_read called before a field of a sample is read
  SampleStore(SampleReader reader, Index keeps_first,
              std::function<void(Index sample, std::size_t field)> on_read = {});

  [[nodiscard]] SampleReader const& reader() const noexcept { return reader_; }
  /// Bytes that cells may take from here on.
  void set_budget(Index bytes);

  /// The numbers of one field of a sample. @pre one value for each cell of the reader's box
  /// @throws as `SampleReader::read`
  void fetch(Index sample, std::size_t field, std::span<double> values);

  [[nodiscard]] StoreCounts const& counts() const noexcept { return counts_; }

 private:
  [[nodiscard]] bool is_worth_holding(Index sample, Index bytes) const noexcept;

  SampleReader reader_;
  Index keeps_first_;
  std::function<void(Index, std::size_t)> on_read_;
  Index budget_ = 0;
  bool all_fit_ = false;
  std::unordered_map<Index, StoredCells> held_;  ///< by sample and field
  StoreCounts counts_;
};

}  // namespace graticule::samples
