// SPDX-License-Identifier: BSD-3-Clause
#include "call_guard.hpp"

#include <graticule/messages/detail/call_head.hpp>
#include <graticule/partition/detail/hash.hpp>

namespace graticule::training::detail {

bool guard_call(Comm const& team, GuardedCall const& call) {
  auto const text = [&] {
    return std::string(call.kind == CallKind::forward ? "forward " : "backward ") + std::to_string(call.number) +
           " of module " + std::to_string(call.ordinal);
  };
  messages::CallHead head(team);
  auto const order = head.same(Hash().add(call.ordinal).add(call.number).add(int(call.kind)).value());
  head.fails(call.failure);
  auto const any_gradient = head.largest(call.requires_grad ? 1 : 0);
  auto const modes = head.same(call.grad_mode ? 1 : 0);
  auto const commons = head.same(call.common);
  try {
    head.meet();
  } catch (Error const& error) {
    if (error.rule() != "StalledExchange") throw;
    throw Error("StalledExchange", call.layer + " in " + text() + ": " + error.text());
  }
  if (!head.agrees(order)) throw Error("CallDisagreement", call.layer + ": " + head.difference(order, text()));
  head.rethrow();
  if (!head.agrees(modes))
    throw Error("StructureDisagreement",
                call.layer + ": " + head.difference(modes, call.grad_mode ? "grad mode on" : "grad mode off"));
  if (!head.agrees(commons))
    throw Error("StructureDisagreement", call.layer + ": " + head.difference(commons, call.described));
  return head[any_gradient] != 0;
}

}  // namespace graticule::training::detail
