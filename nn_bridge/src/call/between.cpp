// SPDX-License-Identifier: BSD-3-Clause
#include "between.hpp"

#include <graticule/nn_bridge/detail/forward_scope.hpp>
#include <graticule/partition/detail/last_error.hpp>
#include <graticule/partition/failure.hpp>

#include <c10/util/Type.h>

#include <exception>

namespace graticule::nn::detail {

namespace {

thread_local int own_depth = 0;  // of layers of this library that are running

void tell(bool own) noexcept {
  if (auto* const between = Between::current()) between->set_own_code(own);
}

}  // namespace

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
