// SPDX-License-Identifier: BSD-3-Clause
#include "collective_maps.hpp"

#include <graticule/messages/detail/lanes.hpp>
#include <graticule/nn_bridge/detail/agreement.hpp>
#include <graticule/nn_bridge/detail/message_memory.hpp>
#include <graticule/nn_bridge/detail/reduce.hpp>

#include <algorithm>
#include <functional>

namespace graticule::nn::detail {

namespace {

/// Sends `to[r]` to each rank r and returns what each rank sent here, of the sizes `from[r]`. Collective; parts without
/// elements are no messages, and the part for this rank itself is not copied.
std::vector<torch::Tensor> exchange_parts(Comm const& comm, std::vector<torch::Tensor> const& to,
                                          std::vector<Sizes> const& from) {
  auto const& own = to[std::size_t(comm.rank())];
  messages::Lanes lanes(comm);
  std::vector<torch::Tensor> received(from.size());
  std::vector<torch::Tensor> sent(to.size());
  torch::Tensor given;
  torch::Tensor held;
  for (int r = 0; r < comm.num_ranks(); ++r) {
    if (r == comm.rank()) continue;
    auto& part = received[std::size_t(r)];
    part = lanes.keep(message_memory(from[std::size_t(r)], own));
    lanes.take(r, part.mutable_data_ptr(), Index(part.nbytes()));
    // What all get is copied once.
    if (!to[std::size_t(r)].is_same(given)) {
      given = to[std::size_t(r)];
      held = lanes.keep(as_message(given));
    }
    sent[std::size_t(r)] = held;
  }
  await_messages(own.device());
  for (int r = 0; r < comm.num_ranks(); ++r)
    if (auto const& part = sent[std::size_t(r)]; r != comm.rank())
      lanes.post(r, part.const_data_ptr(), Index(part.nbytes()));
  lanes.wait("for a part of a tensor");
  for (int r = 0; r < comm.num_ranks(); ++r) {
    auto& part = received[std::size_t(r)];
    part = r == comm.rank() ? own : from_message(part, own.device());
  }
  return received;
}

Sizes with_extent(Sizes sizes, std::int64_t axis, Index extent) {
  sizes[std::size_t(std::int64_t(sizes.size()) + axis)] = extent;
  return sizes;
}

torch::Tensor part_of(torch::Tensor const& x, CutAxis const& cut, int rank) {
  return x.narrow(cut.axis, cut.cuts.lo(rank), cut.cuts.size(rank));
}

std::vector<torch::Tensor> parts_of(torch::Tensor const& x, CutAxis const& cut) {
  std::vector<torch::Tensor> parts;
  for (int r = 0; r < cut.cuts.num_parts(); ++r) parts.push_back(part_of(x, cut, r));
  return parts;
}

torch::Tensor fresh(torch::Tensor const& x) { return x.clone(torch::MemoryFormat::Contiguous); }

MapPointer make_map(std::function<torch::Tensor(torch::Tensor const&)> apply,
                    std::function<torch::Tensor(torch::Tensor const&)> adjoint) {
  return std::make_shared<LinearCall const>(LinearCall{std::move(apply), std::move(adjoint)});
}

MapPointer adjoint_of(MapPointer const& map) { return make_map(map->adjoint, map->apply); }

torch::Tensor summed(torch::Tensor const& x, Comm const& comm) {
  auto result = fresh(x);
  sum_over(comm, result);
  return result;
}

torch::Tensor gathered(torch::Tensor const& x, Comm const& comm, CutAxis const& cut) {
  std::vector<Sizes> from;
  for (int r = 0; r < comm.num_ranks(); ++r) from.push_back(with_extent(x.sizes().vec(), cut.axis, cut.cuts.size(r)));
  return torch::cat(exchange_parts(comm, std::vector<torch::Tensor>(from.size(), x), from), cut.axis);
}

torch::Tensor sum_of_parts(torch::Tensor const& x, Comm const& comm, CutAxis const& cut) {
  std::vector<Sizes> const from(std::size_t(comm.num_ranks()), part_of(x, cut, comm.rank()).sizes().vec());
  return sum_in_order(exchange_parts(comm, parts_of(x, cut), from)).to(x.scalar_type());
}

torch::Tensor rejoined(torch::Tensor const& x, Comm const& comm, CutAxis const& split, CutAxis const& join) {
  auto const sizes = part_of(x, split, comm.rank()).sizes().vec();
  std::vector<Sizes> from;
  for (int r = 0; r < comm.num_ranks(); ++r) from.push_back(with_extent(sizes, join.axis, join.cuts.size(r)));
  return torch::cat(exchange_parts(comm, parts_of(x, split), from), join.axis);
}

torch::Tensor from_root(torch::Tensor const& x, Comm const& comm, RootSide const& side) {
  auto result = comm.rank() == side.root ? as_message(x) : message_memory(side.sizes, x);
  await_messages(x.device());
  comm.broadcast(result.data_ptr(), Index(result.nbytes()), side.root);
  return result.is_alias_of(x) ? fresh(x) : from_message(result, x.device());
}

torch::Tensor to_root(torch::Tensor const& x, Comm const& comm, RootSide const& side) {
  auto const sum = summed(x, comm);
  return comm.rank() == side.root ? sum : torch::zeros(side.own, x.options());
}

torch::Tensor parts_to_root(torch::Tensor const& x, Comm const& comm, CutAxis const& cut, RootSide const& side) {
  bool const is_root = comm.rank() == side.root;
  std::vector<torch::Tensor> to(std::size_t(comm.num_ranks()), x.narrow(cut.axis, 0, 0));
  to[std::size_t(side.root)] = x;
  std::vector<Sizes> from;
  for (int r = 0; r < comm.num_ranks(); ++r)
    from.push_back(with_extent(x.sizes().vec(), cut.axis, is_root ? cut.cuts.size(r) : 0));
  auto const parts = exchange_parts(comm, to, from);
  return is_root ? torch::cat(parts, cut.axis) : torch::zeros(side.own, x.options());
}

torch::Tensor parts_from_root(torch::Tensor const& x, Comm const& comm, CutAxis const& cut, RootSide const& side) {
  bool const is_root = comm.rank() == side.root;
  auto const nothing = torch::empty(with_extent(side.sizes, cut.axis, 0), x.options());
  std::vector<torch::Tensor> const none(std::size_t(comm.num_ranks()), nothing);
  std::vector<Sizes> from(none.size(), nothing.sizes().vec());
  from[std::size_t(side.root)] = with_extent(side.sizes, cut.axis, cut.cuts.size(comm.rank()));
  return fresh(exchange_parts(comm, is_root ? parts_of(x, cut) : none, from)[std::size_t(side.root)]);
}

}  // namespace

torch::Tensor apply_map(MapPointer const& map, torch::Tensor const& x) {
  return apply_linear_call(map, x, anchor(torch::GradMode::is_enabled(), x.options()));
}

MapPointer all_sum_map(Comm const& comm) {
  auto const sum = [comm](torch::Tensor const& x) { return summed(x, comm); };
  return make_map(sum, sum);
}
MapPointer loss_sum_map(Comm const& comm) {
  return make_map([comm](torch::Tensor const& x) { return summed(x, comm); }, fresh);
}
MapPointer copy_to_region_map(Comm const& comm) { return adjoint_of(loss_sum_map(comm)); }

MapPointer broadcast_map(Comm const& comm, RootSide side) {
  return make_map([=](torch::Tensor const& x) { return from_root(x, comm, side); },
                  [=](torch::Tensor const& x) { return to_root(x, comm, side); });
}
MapPointer sum_to_root_map(Comm const& comm, RootSide side) { return adjoint_of(broadcast_map(comm, std::move(side))); }

MapPointer gather_map(Comm const& comm, CutAxis cut) {
  return make_map([=](torch::Tensor const& x) { return gathered(x, comm, cut); },
                  [=](torch::Tensor const& x) { return sum_of_parts(x, comm, cut); });
}
MapPointer reduce_scatter_map(Comm const& comm, CutAxis cut) { return adjoint_of(gather_map(comm, std::move(cut))); }

MapPointer shared_gather_map(Comm const& comm, CutAxis cut) {
  return make_map([=](torch::Tensor const& x) { return gathered(x, comm, cut); },
                  [=](torch::Tensor const& x) { return fresh(part_of(x, cut, comm.rank())); });
}
MapPointer scatter_map(Comm const& comm, CutAxis cut) { return adjoint_of(shared_gather_map(comm, std::move(cut))); }

MapPointer all_to_all_map(Comm const& comm, CutAxis split, CutAxis join) {
  return make_map([=](torch::Tensor const& x) { return rejoined(x, comm, split, join); },
                  [=](torch::Tensor const& x) { return rejoined(x, comm, join, split); });
}

MapPointer gather_to_root_map(Comm const& comm, CutAxis cut, RootSide side) {
  return make_map([=](torch::Tensor const& x) { return parts_to_root(x, comm, cut, side); },
                  [=](torch::Tensor const& x) { return parts_from_root(x, comm, cut, side); });
}
MapPointer scatter_from_root_map(Comm const& comm, CutAxis cut, RootSide side) {
  return adjoint_of(gather_to_root_map(comm, std::move(cut), std::move(side)));
}

void sum_by_rank(Comm const& comm, torch::Tensor& flat, Index piece_bytes) {
  if (flat.scalar_type() == torch::kBool)
    throw Error("UnsupportedTensor", "booleans have no sum over ranks; convert the tensor to integers first");
  if (comm.num_ranks() == 1) return;
  auto const length = std::max<Index>(1, piece_bytes / Index(flat.element_size()));
  for (Index first = 0; first < flat.numel(); first += length) {
    auto piece = flat.narrow(0, first, std::min(length, flat.numel() - first));
    CutAxis const cut{-1, balanced_cuts(piece.numel(), comm.num_ranks())};
    piece.copy_(gathered(sum_of_parts(piece, comm, cut), comm, cut));
  }
}

void sum_in_place(Comm const& comm, torch::Tensor& flat, AddedOn on) {
  if (on == AddedOn::host) return sum_over(comm, flat);
  sum_by_rank(comm, flat);
}

}  // namespace graticule::nn::detail
