// SPDX-License-Identifier: BSD-3-Clause
#include "between.hpp"

#include <graticule/nn_bridge/detail/forward_scope.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/partition/detail/last_error.hpp>
#include <graticule/partition/failure.hpp>

#include <c10/util/Type.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

namespace graticule::nn::detail {

namespace {

thread_local int own_depth = 0;  // of layers of this library that are running

void tell(bool own) noexcept {
  if (auto* const between = Between::current()) between->set_own_code(own);
}

}  // namespace

void CellNumbers::add_draws(std::vector<std::uint64_t> const& others) {
  constexpr std::size_t most = 64;
  if (others.empty()) return;
  std::vector<std::uint64_t> all;
  std::set_union(draws.begin(), draws.end(), others.begin(), others.end(), std::back_inserter(all));
  if (all.size() > most) all = {Hash().add(all).value()};
  draws = std::move(all);
}

std::uint64_t CellNumbers::fingerprint() const { return draws.empty() ? hash : Hash().add(hash).add(draws).value(); }

std::string CellNumbers::difference(Comm const& comm) const {
  auto const counts = comm.gather_to_all(Index(draws.size()));
  auto const size = 2 + std::size_t(*std::max_element(counts.begin(), counts.end()));
  std::vector<std::uint64_t> own{hash, is_sure ? 1U : 0U};
  own.insert(own.end(), draws.begin(), draws.end());
  own.resize(size);
  std::vector<std::uint64_t> all(size * counts.size());
  comm.gather_to_all(own.data(), Index(size * sizeof(std::uint64_t)), all.data());

  std::vector<CellNumbers> of_ranks;
  for (std::size_t r = 0; r < counts.size(); ++r) {
    auto const* const begin = all.data() + r * size;
    of_ranks.push_back({begin[0], {begin + 2, begin + 2 + counts[r]}, begin[1] != 0});
  }
  CellNumbers sure;
  bool any_sure = false;
  for (auto const& one : of_ranks) {
    if (one.hash != of_ranks[0].hash)
      return "the numbers that cells are computed with differ between ranks, as sizes of a shard (h.size(2)) and "
             "values of one (item()) do; use mean(), or sizes of the globe";
    any_sure = any_sure || one.is_sure;
    if (one.is_sure) sure.add_draws(one.draws);
  }
  if (!any_sure) sure.draws = of_ranks[0].draws;
  bool const agree = std::all_of(of_ranks.begin(), of_ranks.end(), [&](CellNumbers const& one) {
    return any_sure && !one.is_sure
               ? std::includes(one.draws.begin(), one.draws.end(), sure.draws.begin(), sure.draws.end())
               : one.draws == sure.draws;
  });
  if (agree) return {};
  return "random numbers for whole rows differ between ranks: give the generators of all ranks the same seed, or draw "
         "behind a layer by torch::rand_like(h), whose numbers depend on their place on the globe";
}

Between*& Between::current() noexcept {
  static thread_local Between* between = nullptr;
  return between;
}

void check_entry(torch::Tensor const& x, Domain const& domain, std::string const& layer, Entry entry) {
  auto* const between = Between::current();
  if (!between) return;
  between->check_given();
  if (own_depth == 0 && x.defined()) between->check_entry(x, domain, layer, entry);
}

torch::Tensor hand_on(torch::Tensor const& x, torch::Tensor y, Domain const& /*domain*/) {
  if (auto* const between = Between::current()) between->hand_on(x, y);
  return y;
}

OwnCode::OwnCode() noexcept {
  if (own_depth++ == 0) tell(true);
}
OwnCode::~OwnCode() {
  if (--own_depth == 0) tell(false);
}

ForwardScope::ForwardScope(Domain domain, std::string layer)
    : domain_(std::move(domain)), layer_(std::move(layer)), num_exceptions_(std::uncaught_exceptions()) {}

ForwardScope::~ForwardScope() {
  if (!type_ || std::uncaught_exceptions() <= num_exceptions_ || !graticule::detail::last_error_text().empty()) return;
  if (c10::demangle(type_->name()).starts_with("graticule::nn::")) return;
  try {
    announce_failure(domain_.comms(), "an exception has left the forward of " + layer_);
  } catch (...) {  // The exception that unwinds the stack is the one to see.
  }
}

}  // namespace graticule::nn::detail
