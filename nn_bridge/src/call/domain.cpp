// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/call/domain.hpp>
#include <graticule/nn_bridge/call/memory.hpp>
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/hash.hpp>

#include "recorded_calls.hpp"

#include <mutex>

namespace graticule::nn {

struct Domain::State {
  Comm comm;
  ProcessGrid grid;
  Boundary boundary;
  Indices coords;
  int last_ordinal = 0;
  CallChecks checks = CallChecks::every_call;
  detail::RecordedCalls calls = {};
  int generation = 0;            ///< of `comm`, that what follows belongs to
  std::vector<Comm> parts = {};  ///< split off
  bool is_default = false;
};

namespace detail {

/// In the order in which they were made; some may have died.
struct LiveDomains {
  static std::vector<std::weak_ptr<Domain::State>>& states() {
    static auto* const all = new std::vector<std::weak_ptr<Domain::State>>;
    return *all;
  }
  static Domain domain(std::shared_ptr<Domain::State> state) { return Domain(std::move(state)); }
};

std::vector<Domain> live_domains() {
  auto& states = LiveDomains::states();
  std::erase_if(states, [](auto const& state) { return state.expired(); });
  std::vector<Domain> domains;
  for (auto const& state : states) domains.push_back(LiveDomains::domain(state.lock()));
  return domains;
}

}  // namespace detail

Domain::Domain() {
  // Kept by the layers alone, so that its communicator is freed before MPI ends.
  static std::mutex mutex;
  static std::weak_ptr<State> shared;
  std::lock_guard const lock(mutex);
  state_ = shared.lock();
  if (state_) return;
  *this = Domain(Comm(MPI_COMM_SELF), ProcessGrid{1, 1});
  state_->is_default = true;
  shared = state_;
}

Domain::Domain(Comm const& comm, ProcessGrid const& grid, Boundary const& boundary) {
  Hash hash;
  hash.add(grid.fingerprint()).add(boundary.fingerprint());
  require_same(comm, "BadProcessGrid", hash.value(), "a process grid of " + to_string(grid.extents()));
  if (grid.ndim() != 2 || grid.num_ranks() != comm.num_ranks())
    throw Error("BadProcessGrid", "the process grid must have 2 axes, latitude and longitude, and " +
                                      std::to_string(comm.num_ranks()) + " ranks, got " + to_string(grid.extents()));
  if (boundary.axes.size() != 2)
    throw Error("BadProcessGrid",
                "the boundary must have 2 axes, latitude and longitude, got " + std::to_string(boundary.axes.size()));
  run_agreed(comm, [] { detail::keep_tensor_memory(); });
  state_.reset(new State{comm, grid, boundary, grid.coords(comm.rank())});
  state_->generation = comm.generation();
  detail::LiveDomains::states().push_back(state_);
}

Comm const& Domain::comm() const noexcept { return state_->comm; }
ProcessGrid const& Domain::grid() const noexcept { return state_->grid; }
Boundary const& Domain::boundary() const noexcept { return state_->boundary; }
bool Domain::is_default() const noexcept { return state_->is_default; }
int Domain::latitude_part() const noexcept { return int(state_->coords[0]); }
int Domain::longitude_part() const noexcept { return int(state_->coords[1]); }
Sharding Domain::sharding() const { return {{-2, -1}, state_->grid}; }
void Domain::set_call_checks(CallChecks checks) noexcept { state_->checks = checks; }
CallChecks Domain::call_checks() const noexcept { return state_->checks; }
std::int64_t Domain::num_draws() const noexcept { return recorded_calls().num_draws; }
void Domain::set_num_draws(std::int64_t number) const noexcept { recorded_calls().num_draws = number; }
detail::RecordedCalls& Domain::recorded_calls() const noexcept { return renewed().calls; }
int Domain::next_ordinal() const noexcept { return ++renewed().last_ordinal; }

Domain::State& Domain::renewed() const noexcept {
  auto& s = *state_;
  if (s.generation == s.comm.generation()) return s;
  s.generation = s.comm.generation();
  s.calls.forget();
  s.parts.clear();
  s.last_ordinal = (s.generation % 1024) << 20;  // ranks may have made different numbers of layers
  return s;
}

Comm Domain::split(int color) const {
  auto& s = renewed();
  return s.parts.emplace_back(s.comm.split(color, s.comm.rank()));
}

std::vector<Comm> Domain::comms() const {
  auto const& s = renewed();
  std::vector<Comm> all{s.comm};
  all.insert(all.end(), s.parts.begin(), s.parts.end());
  return all;
}

std::string to_string(Sharding const& sharding) {
  std::string text;
  for (std::size_t i = 0; i < sharding.axes.size(); ++i)
    text += (i ? ", axis " : "axis ") + std::to_string(sharding.axes[i]) + " in " +
            std::to_string(sharding.grid.extent(int(i)));
  return text.empty() ? "no axis cut" : text;
}

}  // namespace graticule::nn
