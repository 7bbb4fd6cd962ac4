// SPDX-License-Identifier: BSD-3-Clause
#include "cut_fields.hpp"

#include <graticule/nn_bridge/call/tensor_view.hpp>
#include <graticule/partition/layout.hpp>

#include "state/stored_tensors.hpp"

#include <array>
#include <set>

namespace graticule::training::detail {

namespace {

/// Fields without rows to share out are written whole.
bool is_cut(ShardedParameter const& parameter) { return parameter.full.dim() > 0 && parameter.full.numel() > 0; }

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
  if (!is_cut(parameter)) return save_tensor(writer, name, gather_whole(team, parameter, local, Receivers::all));
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
    load_tensor(checkpoint, name, whole, whole.scalar_type());
    if (local.numel() > 0) local.detach().copy_(whole);
    return;
  }
  auto const held = torch::empty(local.sizes(), options);
  auto const rows = shard_rows(parameter.num_rows, team.num_ranks(), team.rank());
  checkpoint.read(name, Box({rows.lo}, {rows.hi}), by_rows(held));
  local.detach().copy_(held);
}

}  // namespace graticule::training::detail
