// SPDX-License-Identifier: BSD-3-Clause
#include "plan_context.hpp"

#include <graticule/messages/detail/transport_name.hpp>
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/repartition/detail/copy_kernels.hpp>
#include <graticule/repartition/detail/device_mpi.hpp>
#include <graticule/repartition/plan_name.hpp>
#include <graticule/repartition/tuning.hpp>

#include "kernels/kokkos_compat.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>
#include <tuple>
#include <utility>

namespace graticule::detail {

namespace {

/// What a rank owns of the fields of a kind.
Box owned_cells(PullKind const& kind, Layout const& source, int rank) {
  return (kind.owners ? *kind.owners : source).owned(rank);
}

void check_description(Comm const& comm, PullDescription const& d) {
  if (d.source.num_ranks() > comm.num_ranks())
    throw Error("BadProcessGrid", "the layout must have the communicator's " + std::to_string(comm.num_ranks()) +
                                      " ranks, got " + std::to_string(d.source.num_ranks()));
  for (auto const& kind : d.kinds) {
    Box const owned = owned_cells(kind, d.source, comm.rank());
    if (!kind.source_box.contains(owned))
      throw Error("FieldMismatch",
                  "the source covers " + to_string(kind.source_box) + ", this rank owns " + to_string(owned));
    for (auto const& target : kind.targets)
      for (auto const& needed : target.needed)
        if (!target.box.contains(needed))
          throw Error("FieldMismatch",
                      "the target covers " + to_string(target.box) + ", needed are " + to_string(needed));
  }
}

std::set<int> peers_of(PullTable const& table) {
  std::set<int> peers;
  for (auto const* side : {&table.receives, &table.sends})
    for (auto const& transfers : *side) peers.insert(transfers.peer);
  return peers;
}

/// What the environment of rank 0 asks for: the path by name or by a file of measurements, and a dump. Collective.
PlanEnvironment agreed_environment(Comm const& comm, std::uint64_t plan) {
  PlanEnvironment asked;
  run_agreed(comm, [&] {
    if (comm.rank() != 0) return;
    char const* const folder = std::getenv("GRATICULE_DUMP");
    asked.dump = folder && *folder;
    asked.transport = messages::transport_from_environment();
    static_cast<void>(gpu_mpi_choice());
    static_cast<void>(gpu_ipc_is_allowed());
    char const* const file = std::getenv("GRATICULE_TUNING");
    if (asked.transport != Transport::automatic || !file || !*file) return;
    if (auto const record = TuningTable::load(file).find(plan)) {
      asked.transport = record->chosen;
      asked.chosen_by = ChosenBy::tuning_file;
    }
  });
  comm.broadcast(&asked, Index(sizeof asked), 0);
  return asked;
}

/// Hash of what must be the same on all ranks. Collective. @throws `ArgumentDisagreement`
std::uint64_t agreed_fingerprint(Comm const& comm, PullDescription const& d) {
  Hash hash;
  std::string targets;
  hash.add(d.source.fingerprint()).add(d.kinds.size()).add(d.fingerprint).add(int(d.after_adjoint));
  for (auto const& kind : d.kinds) {
    hash.add(kind.targets.size());
    targets += (targets.empty() ? "" : ", ") + std::to_string(kind.targets.size());
  }
  require_same(comm, "ArgumentDisagreement", hash.value(),
               plan_prefix() + to_string(d.source) + " with " + targets + " targets, arguments " +
                   std::to_string(d.fingerprint));
  return hash.add(comm.num_ranks()).value();
}

/// A box and its label.
using Labelled = std::pair<int, Box>;

/// The axis along which the boxes begin at the most different places.
int most_cut_axis(std::vector<Labelled> const& boxes) {
  int best = 0;
  std::size_t most = 0;
  for (int a = 0; a < boxes.front().second.ndim(); ++a) {
    std::set<Index> begins;
    for (auto const& [label, box] : boxes) begins.insert(box.lo(a));
    if (begins.size() > most) {
      most = begins.size();
      best = a;
    }
  }
  return best;
}

/// True when no two boxes of the same label share a cell. Long lists that are hard to tell count as if some did, to
/// bound the cost.
bool all_disjoint(std::vector<Labelled> boxes) {
  constexpr int most_comparisons = 1 << 18;
  if (boxes.empty()) return true;
  int const axis = most_cut_axis(boxes);
  std::sort(boxes.begin(), boxes.end(), [&](Labelled const& a, Labelled const& b) {
    return std::pair(a.first, a.second.lo(axis)) < std::pair(b.first, b.second.lo(axis));
  });
  int comparisons = 0;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    auto const& [label, box] = boxes[i];
    for (std::size_t j = i + 1; j < boxes.size(); ++j) {
      if (boxes[j].first != label || boxes[j].second.lo(axis) >= box.hi(axis)) break;
      if (++comparisons > most_comparisons || !intersection(box, boxes[j].second).empty()) return false;
    }
  }
  return true;
}

PullTable checked_table(Comm const& comm, PullDescription const& d) {
  run_agreed(comm, [&] {
    check_copy_environment();
    check_description(comm, d);
  });
  return make_pull_table(comm, d);
}

Additions sorted_additions(PlanContext const& plan) {
  struct Keyed {
    Addition addition;
    Transfer const* transfer;
    int peer;
  };
  auto const& table = plan.table;
  std::vector<Keyed> keyed;
  for (std::size_t p = 0; p < table.sends.size(); ++p)
    for (std::size_t t = 0; t < table.sends[p].transfers.size(); ++t)
      keyed.push_back(
          {{table.sends[p].transfers[t].kind, int(p), int(t)}, &table.sends[p].transfers[t], table.sends[p].peer});
  for (std::size_t t = 0; t < table.local.size(); ++t)
    keyed.push_back({{table.local[t].kind, -1, int(t)}, &table.local[t], plan.comm.rank()});
  // Ghosts in order of their own place, then of the rank that holds them: the same for every arrival order.
  std::sort(keyed.begin(), keyed.end(), [](Keyed const& a, Keyed const& b) {
    return std::tie(a.transfer->kind, a.transfer->target, a.transfer->to.lo(), a.peer, a.addition.transfer) <
           std::tie(b.transfer->kind, b.transfer->target, b.transfer->to.lo(), b.peer, b.addition.transfer);
  });
  Additions result;
  std::vector<Labelled> added;
  Index num_added = 0;
  bool one_to_one = true;
  for (auto const& [addition, transfer, peer] : keyed) {
    result.list.push_back(addition);
    added.emplace_back(transfer->kind, transfer->from);
    num_added += transfer->from.num_cells();
    one_to_one = one_to_one && transfer->to.num_cells() == transfer->from.num_cells();
  }
  result.independent = all_disjoint(std::move(added));
  Index num_owned = 0;
  for (auto const& box : plan.owned_of) num_owned += box.num_cells();
  result.cover_owned = result.independent && one_to_one && num_added == num_owned;
  return result;
}

/// The same on all ranks, because in place the rank that reads clears what the other would clear. Collective.
bool reads_each_cell_once(PlanContext const& plan) {
  std::vector<Labelled> read;
  for (std::size_t k = 0; k < plan.kinds.size(); ++k)
    for (std::size_t t = 0; t < plan.kinds[k].targets.size(); ++t)
      for (auto const& needed : plan.kinds[k].targets[t].needed) read.emplace_back(int(k * 1024 + t), needed);
  std::array<Index, 1> overlaps{all_disjoint(std::move(read)) ? 0 : 1};
  plan.comm.max(overlaps);
  return overlaps[0] == 0;
}

/// Slots of a message: while one is read, the other is packed.
constexpr int window = 2;
/// A segment that is packed by one thread stays in its cache until the peer has read it.
constexpr Index segment_bytes_per_thread = Index(256) << 10U;
constexpr Index least_segment_bytes = 256;
/// What a slot needs beside its segment: the trailer, rounded up to cache lines.
constexpr Index slot_extra = 128;

SegmentRules rules_of_segments(PlanContext const& plan, PullDescription const& d) {
  if (plan.after_adjoint != AfterAdjoint::keep)
    throw Error("Unsupported", "adjoints of plans with messages in segments do not clear their input");
  Index const slots = window * Index(plan.table.sends.size() + plan.table.receives.size());
  Index segment = segment_bytes_per_thread * std::max(1, Kokkos::is_initialized() ? host_concurrency() : 1);
  run_agreed(plan.comm, [&] {
    Index const least = slots * (least_segment_bytes + slot_extra);
    if (d.workspace_bytes < 0 || (d.workspace_bytes > 0 && d.workspace_bytes < least))
      throw Error("BudgetTooSmall", std::to_string(d.workspace_bytes) + " bytes for buffers of messages with " +
                                        std::to_string(plan.table.sends.size() + plan.table.receives.size()) +
                                        " peers; the least is " + std::to_string(least));
  });
  if (d.workspace_bytes > 0 && slots > 0)
    segment = std::min(segment, (d.workspace_bytes / slots - slot_extra) / 64 * 64);
  // The least of all ranks: both sides of a message cut it alike.
  Index negative = -segment;
  plan.comm.max(std::span(&negative, 1));
  return {.segment_bytes = std::size_t(-negative), .window = window, .budget = d.workspace_bytes};
}

}  // namespace

PlanContext::PlanContext(Comm const& of, PullDescription const& d)
    : comm(of),
      tag(of.next_tag()),
      name(plan_name()),
      kinds(d.kinds),
      after_adjoint(d.after_adjoint),
      fingerprint(agreed_fingerprint(of, d)),
      table(checked_table(of, d)),
      global(d.source.global()),
      owned(d.source.owned(of.rank())),
      environment(agreed_environment(of, fingerprint)),
      links(std::make_unique<messages::NodeLinks>(of, peers_of(table), environment.transport)),
      mpi_reads_device(mpi_moves_device_memory(of)),
      peers_read_device(peers_read_device_memory(of, [this](int rank) { return links->find(rank) != nullptr; })) {
  for (auto const& kind : kinds) owned_of.push_back(owned_cells(kind, d.source, comm.rank()));
  local_cells.resize(kinds.size());
  for (auto const& transfer : table.local) local_cells[std::size_t(transfer.kind)] += transfer.to.num_cells();
  additions = sorted_additions(*this);
  if (d.messages == Messages::segments) segments.emplace(rules_of_segments(*this, d));
  if (after_adjoint == AfterAdjoint::zero) clears_while_reading = reads_each_cell_once(*this);
}

std::string PlanContext::label() const {
  return "plan " + std::to_string(tag) + (name.empty() ? "" : " ('" + name + "')");
}

std::vector<AdditionPart> const& PlanContext::parts_of_additions() const {
  if (!additions.parts) {
    std::vector<Transfer const*> transfers;
    for (auto const& addition : additions.list)
      transfers.push_back(
          &(addition.peer_index < 0
                ? table.local
                : table.sends[std::size_t(addition.peer_index)].transfers)[std::size_t(addition.transfer)]);
    additions.parts = addition_parts(transfers);
  }
  return *additions.parts;
}

}  // namespace graticule::detail
