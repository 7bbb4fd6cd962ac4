// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/messages/detail/call_head.hpp>
#include <graticule/partition/detail/agreement.hpp>

#include <utility>

namespace graticule::messages {

CallHead::Entry CallHead::same(std::uint64_t value) {
  own_.push_back(Index(value));
  own_.push_back(~Index(value));
  return own_.size() - 2;
}

CallHead::Entry CallHead::largest(Index value) {
  own_.push_back(value);
  return own_.size() - 1;
}

void CallHead::fails(std::exception_ptr failure) {
  failed_ = largest(failure ? 1 : 0);
  failure_ = std::move(failure);
}

void CallHead::meet() {
  words_ = own_;
  comm_.max(words_);
}

std::string CallHead::difference(Entry entry, std::string const& described) const {
  constexpr auto rule = "CallDisagreement";
  try {
    require_same(comm_, rule, std::uint64_t(own_[entry]), described);
  } catch (Error const& error) {
    if (error.rule() != rule) throw;
    return error.text();
  }
  return described + " on all ranks";
}

void CallHead::rethrow() const {
  if (words_[failed_] != 0) agree(comm_, failure_);
}

}  // namespace graticule::messages
