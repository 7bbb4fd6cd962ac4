// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace graticule::messages {

/// One small all-reduce at the head of a call: what must be equal on all ranks, largest values, and an error of one
/// rank.
///
/// Every rank adds the same entries in the same order, then calls `meet`, then looks at the results in the same order;
/// the texts of errors are made only when they are needed. Example: `CallHead head(comm); auto const order =
/// head.same(number); head.fails(failure); head.meet(); if (!head.agrees(order)) throw Error("CallDisagreement",
/// head.difference(order, "call " + std::to_string(number))); head.rethrow();`
class CallHead {
 public:
  using Entry = std::size_t;

  explicit CallHead(Comm comm) : comm_(std::move(comm)) {}

  /// A value that should be equal on all ranks.
  Entry same(std::uint64_t value);
  /// A value of which all ranks get the largest.
  Entry largest(Index value);
  /// The error of this rank, if it has one. Once per call.
  void fails(std::exception_ptr failure);

  /// Collective. Cost: one all-reduce of 2 integers per `same`, 1 per `largest` and 1 for `fails`; up to 13 of them are
  /// folded into the messages in which the ranks meet.
  void meet();

  [[nodiscard]] bool agrees(Entry entry) const { return words_[entry] == ~words_[entry + 1]; }
  [[nodiscard]] Index operator[](Entry entry) const { return words_[entry]; }
  /// `rank 0 has A, rank 2 has B`, with the text of rank 0 and of the lowest rank that differs from it. Collective.
  /// @pre `agrees(entry)` is false
  [[nodiscard]] std::string difference(Entry entry, std::string const& described) const;
  /// Throws the failure of the lowest rank that has one, on all ranks (see `graticule::agree`). Collective.
  void rethrow() const;

 private:
  Comm comm_;
  std::vector<Index> own_;
  std::vector<Index> words_;  ///< largest of all ranks
  std::exception_ptr failure_;
  Entry failed_ = 0;
};

}  // namespace graticule::messages
