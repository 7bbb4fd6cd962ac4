// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/end.hpp>
#include <graticule/partition/detail/stall_rule.hpp>
#include <graticule/repartition/detail/pull.hpp>

#include "pull_state.hpp"

#include <exception>
#include <utility>

namespace graticule {

PullPlan::PullPlan(Comm const& comm, PullDescription const& description)
    : state_(std::make_shared<detail::PullState>(comm, description)) {}

Pending PullPlan::start(std::span<PullField const> fields, DeviceQueue const& queue) const {
  return {state_, state_->start(fields, detail::Direction::forward, queue)};
}

Pending PullPlan::start_adjoint(std::span<PullField const> fields, DeviceQueue const& queue) const {
  return {state_, state_->start(fields, detail::Direction::adjoint, queue)};
}

Pending PullPlan::start_inverse(std::span<PullField const> fields, DeviceQueue const& queue) const {
  return {state_, state_->start(fields, detail::Direction::inverse, queue)};
}

void PullPlan::apply(std::span<PullField const> fields, DeviceQueue const& queue) const {
  Pending(state_, state_->start(fields, detail::Direction::forward, queue, detail::Posting::window)).wait();
}

void PullPlan::apply_adjoint(std::span<PullField const> fields, DeviceQueue const& queue) const {
  Pending(state_, state_->start(fields, detail::Direction::adjoint, queue, detail::Posting::window)).wait();
}

void PullPlan::apply_inverse(std::span<PullField const> fields, DeviceQueue const& queue) const {
  Pending(state_, state_->start(fields, detail::Direction::inverse, queue, detail::Posting::window)).wait();
}

PullCounts PullPlan::counts() const noexcept { return state_->counts(); }

int PullPlan::num_workspaces() const noexcept { return state_->num_workspaces(); }

PullStats PullPlan::stats() const { return state_->stats(); }

std::uint64_t PullPlan::fingerprint() const noexcept { return state_->fingerprint(); }

std::vector<PeerPath> PullPlan::paths() const { return state_->paths(); }

Transport PullPlan::transport() const noexcept { return state_->transport(); }

void PullPlan::set_transport(Transport transport) { state_->set_transport(transport); }

Comm const& PullPlan::comm() const noexcept { return state_->comm(); }

Pending::Pending(std::shared_ptr<detail::PullState const> state, detail::Call* call) noexcept
    : state_(std::move(state)), call_(call) {}

Pending::Pending(Pending&& other) noexcept
    : state_(std::move(other.state_)), call_(std::exchange(other.call_, nullptr)) {}

Pending& Pending::operator=(Pending&& other) noexcept {
  std::swap(state_, other.state_);
  std::swap(call_, other.call_);
  return *this;
}

Pending::~Pending() {
  try {
    if (call_ == nullptr || detail::mpi_is_over()) return;
    // An exception that unwinds this rank is not held up by ranks that may never send.
    auto rule = stall_rule();
    rule.error_seconds = detail::hurries() ? detail::seconds_to_end() : rule.error_seconds;
    detail::StallScope const hurried(rule);
    if (call_->lacks_memory())
      state_->drain(*std::exchange(call_, nullptr));
    else
      wait();
  } catch (...) {
    // Messages that fail while the stack unwinds have nobody left to tell; the next call on the plan reports.
  }
}

void Pending::wait() {
  if (call_ == nullptr) return;
  if (detail::mpi_is_over()) throw Error("WrongState", "a call is ended after MPI_Finalize");
  if (call_->lacks_memory())
    throw Error("FieldMismatch", "an adjoint that was started without source memory ends with wait_into()");
  state_->finish(*std::exchange(call_, nullptr));
}

void Pending::wait_into(std::span<FieldView const> sources) {
  if (call_ == nullptr) return;
  state_->set_sources(*call_, sources);
  wait();
}

bool Pending::test() { return call_ == nullptr || state_->test(*call_); }

}  // namespace graticule
