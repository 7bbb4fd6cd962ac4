// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/training/data_parallel/wrapper.hpp>

#include <cstdint>

namespace graticule::training {

/// Number of ranks in a mean when some have no more batches.
enum class JoinDivisor : std::uint8_t {
  all_ranks,     ///< of the team, as if finished ranks had zero gradients
  active_ranks,  ///< that still have batches
};

/// Behaviour when the first rank has no more batches.
enum class EarlyEnd : std::uint8_t {
  replayed,  ///< it takes part in the others' reductions, with zeros, until the last one has finished
  refused,   ///< `UnevenInputs` on all ranks: for forwards that need all ranks of a data team (synchronised norms)
};

/// Options of `Join`.
struct JoinOptions {
  JoinDivisor divisor = JoinDivisor::all_ranks;
  EarlyEnd early_end = EarlyEnd::replayed;
};

/// Lets ranks have different numbers of batches.
///
/// Example: `Join join(parallel); for (auto& batch : my_batches) { ...backward(); parallel.step(); } join.finish();`
/// Ranks of a team with the rule `sum` (a domain) finish together. Messages of the model's forwards are not replayed:
/// ranks that finish at different times must not exchange any.
/// Cost: two or three small blocking all-reduces per team and iteration.
class Join {
 public:
  /// Collective, for whole epochs. @throws `Unsupported` where buffers are kept equal at each step: ranks that have
  ///         finished make no steps
  explicit Join(DataParallel& parallel, JoinOptions options = {});
  Join(Join const&) = delete;
  Join& operator=(Join const&) = delete;
  /// Every rank must call `finish()`: the others wait for it, for ever unless `GRATICULE_STALL_LIMIT` is set.
  ~Join();

  /// To be called when this rank has no more batches. Returns on all ranks when all have finished. Parameters and
  /// buffers are then those of the rank that finished last (of several, the highest) on all ranks. The optimizer's
  /// state is not: each rank keeps its own.
  /// @throws `UnevenInputs`, also in the backwards of the others; `UnevenInputs` where ranks of a domain do not
  ///         finish together
  void finish();

 private:
  DataParallel& parallel_;
};

}  // namespace graticule::training
