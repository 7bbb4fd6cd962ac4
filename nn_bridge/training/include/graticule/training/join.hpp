// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/training/data_parallel.hpp>

#include <cstdint>

namespace graticule::training {

/// Over how many ranks a mean goes when some have no more batches.
enum class JoinDivisor : std::uint8_t {
  all_ranks,     ///< of the team, as if those had gradients of zero
  active_ranks,  ///< that still have batches
};

/// What happens when the first rank has no more batches.
enum class EarlyEnd : std::uint8_t {
  replayed,  ///< it takes part in the others' reductions, with nothing to add, until the last one has ended
  refused,  ///< `UnevenInputs` on all ranks: for models whose forward needs all ranks of a data team (synchronised norms)
};

struct JoinOptions {
  JoinDivisor divisor = JoinDivisor::all_ranks;
  EarlyEnd early_end = EarlyEnd::replayed;
};

/// Lets ranks have different numbers of batches.
///
/// Example: `Join join(parallel); for (auto& batch : my_batches) { ...backward(); parallel.step(); } join.finish();`
/// Ranks of a team whose rule is `sum`, a domain, end together. What the model sends in its forwards is not replayed:
/// there must be none between ranks that end at different times.
/// Cost: two or three small blocking all-reduces for each team and iteration.
class Join {
 public:
  /// Same call on all ranks, for whole epochs. @throws `JoinUnsupported` where buffers are kept equal at each step: ranks that
  ///         have ended make none
  explicit Join(DataParallel& parallel, JoinOptions options = {});
  Join(Join const&) = delete;
  Join& operator=(Join const&) = delete;
  /// Without `finish` the others are left alone: call it on every rank.
  ~Join();

  /// This rank has no more batches. Returns on all ranks when all have ended, and then parameters and buffers of the rank
  /// that ended last (of several, the last one) are on all. The optimizer's state is not: each rank keeps its own.
  /// @throws `UnevenInputs`, in the backwards of the others too; `JoinDisagreement` where ranks of a domain do not end together
  void finish();

 private:
  DataParallel& parallel_;
};

}  // namespace graticule::training
