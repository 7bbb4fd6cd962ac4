// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/call/tensor_view.hpp>
#include <graticule/nn_bridge/collective/match_cuts.hpp>
#include <graticule/nn_bridge/detail/layer_state.hpp>

#include "call/between.hpp"
#include "call/other_layout.hpp"
#include "move/tensor_move.hpp"

namespace graticule::nn {

namespace {

/// What depends on both structures.
struct Match {
  std::shared_ptr<detail::TensorMove const> move;  ///< none where the cuts are equal
};

std::shared_ptr<Match const> make_match(Comm const& comm, Layout const& from, Layout const& to) {
  if (from.global() != to.global())
    throw Error("ShapeMismatch", "MatchCuts needs fields of equal sizes, got " + std::to_string(from.extent(0)) +
                                     " x " + std::to_string(from.extent(1)) + " and " + std::to_string(to.extent(0)) +
                                     " x " + std::to_string(to.extent(1)) + " cells");
  if (from.fingerprint() == to.fingerprint()) return std::make_shared<Match const>();
  return std::make_shared<Match const>(
      Match{std::make_shared<detail::TensorMove const>(comm, from, to, std::vector<std::int64_t>{-2, -1})});
}

}  // namespace

class detail::MatchCutsState : public LayerState<Match> {
 public:
  explicit MatchCutsState(Domain const& domain) : LayerState(domain, "MatchCuts"), like(domain, "MatchCuts", this) {}
  OtherLayout like;
};

MatchCutsImpl::MatchCutsImpl(Domain domain)
    : StatefulModule(std::move(domain), detail::state_maker<detail::MatchCutsState>()) {}

torch::Tensor MatchCutsImpl::forward(torch::Tensor const& given, torch::Tensor const& like) {
  auto const x = detail::resolved(given);
  auto const to = state().like.of(like, [&] { (void)tensor_view(like); });
  auto const call = state().enter(
      x, [&] { (void)tensor_view(x); }, [&](Layout const& from) { return make_match(domain().comm(), from, to); },
      false, to.fingerprint());
  if (!call.set_up->move) return given;
  auto const y = state().record(detail::apply_linear(call.set_up->move, detail::Way::forward, x, call.anchor));
  return detail::hand_on(given, y, domain());
}

}  // namespace graticule::nn
