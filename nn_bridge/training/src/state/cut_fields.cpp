// SPDX-License-Identifier: BSD-3-Clause
#include "cut_fields.hpp"

#include <graticule/nn_bridge/call/tensor_view.hpp>
#include <graticule/nn_bridge/detail/types.hpp>
#include <graticule/partition/layout.hpp>

#include <array>
#include <set>

namespace graticule::training::detail {

namespace {

/// Fields without rows to share out are written whole.
bool is_cut(ShardedParameter const& parameter) { return parameter.full.dim() > 0 && parameter.full.numel() > 0; }

torch::Tensor on_host(torch::Tensor const& tensor) {
  return tensor.detach().to(torch::kCPU).resolve_conj().resolve_neg().contiguous();
}

FieldView by_rows(torch::Tensor const& tensor) {
  return nn::tensor_view(tensor, std::array<std::int64_t, 1>{-tensor.dim()});
}

}  // namespace

CutFields::CutFields(ShardEngine& engine, Comm const& comm) : engine_(&engine) {
  std::set<Index> written;
  for (auto const shard : comm.gather_to_all(engine.team().comm.rank()))
    shard_of_.push_back(written.insert(shard).second ? int(shard) : -1);
}

void CutFields::save(CheckpointWriter& writer, std::string const& name, ShardedParameter const& parameter,
                     torch::Tensor const& local) const {
  auto& team = engine_->team();
  if (!is_cut(parameter)) {
    save_whole(writer, name, gather_whole(team, parameter, local, Receivers::all));
    return;
  }
  std::vector<Box> boxes;
  for (int const shard : shard_of_) {
    auto const rows = shard < 0 ? ShardRows() : shard_rows(parameter.num_rows, team.comm.num_ranks(), shard);
    boxes.push_back(Box({rows.lo}, {rows.hi}));
  }
  auto const held = on_host(local);
  auto const layout = Layout::from_boxes({parameter.num_rows}, boxes);
  auto const rows = shard_rows(parameter.num_rows, team.comm.num_ranks(), team.comm.rank());
  writer.add(name, layout, by_rows(held), {.local = Box({rows.lo}, {rows.hi})});
}

void CutFields::load(Checkpoint const& checkpoint, std::string const& name, ShardedParameter const& parameter,
                     torch::Tensor const& local) const {
  torch::NoGradGuard const no_grad;
  auto const& team = engine_->team().comm;
  auto const options = torch::TensorOptions(local.scalar_type()).device(torch::kCPU);
  if (!is_cut(parameter)) {
    auto const whole = torch::empty(parameter.full.sizes(), options);
    load_whole(checkpoint, name, whole, whole.scalar_type());
    if (local.numel() > 0) local.detach().copy_(whole);
    return;
  }
  auto const held = torch::empty(local.sizes(), options);
  auto const rows = shard_rows(parameter.num_rows, team.num_ranks(), team.rank());
  checkpoint.read(name, Box({rows.lo}, {rows.hi}), by_rows(held));
  local.detach().copy_(held);
}

void CutFields::save_whole(CheckpointWriter& writer, std::string const& name, torch::Tensor const& tensor) {
  writer.add(name, nn::tensor_view(on_host(tensor), {}));
}

void CutFields::load_whole(Checkpoint const& checkpoint, std::string const& name, torch::Tensor const& tensor,
                           torch::ScalarType type) {
  torch::NoGradGuard const no_grad;
  auto const held = torch::empty(tensor.sizes(), torch::TensorOptions(type).device(torch::kCPU));
  checkpoint.read(name, nn::tensor_view(held, {}));
  tensor.detach().copy_(held);
}

std::string difference(Checkpoint const& checkpoint, std::string const& field, torch::ScalarType type,
                       torch::IntArrayRef sizes) {
  if (!checkpoint.has_field(field)) return checkpoint.path().string() + " lacks " + field;
  auto const& found = checkpoint.field(field);
  Indices const extents(std::span(sizes.data(), sizes.size()));
  if (found.extents == extents && found.dtype == nn::detail::dtype_of(type)) return {};
  return field + " is " + to_string(found.dtype) + " " + to_string(found.extents) + " in " +
         checkpoint.path().string() + " and " + to_string(nn::detail::dtype_of(type)) + " " + to_string(extents) +
         " here";
}

void refuse_differences(Fault fault, std::string const& rule, std::vector<std::string> const& differences) {
  constexpr std::size_t most = 8;
  std::string text;
  for (std::size_t i = 0; i < differences.size() && i < most; ++i) text += (i == 0 ? "" : "; ") + differences[i];
  if (differences.size() > most) text += "; and " + std::to_string(differences.size() - most) + " more";
  if (!differences.empty()) throw Error(fault, rule, text);
}

}  // namespace graticule::training::detail
