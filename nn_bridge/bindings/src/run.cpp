// SPDX-License-Identifier: BSD-3-Clause
// Runs of a network on the caller's arrays.
#include <graticule/nn_bridge/detail/types.hpp>
#include <graticule/nn_bridge/loss/reduce_loss.hpp>
#include <graticule/program/detail/program_access.hpp>
#include <graticule/repartition/detail/copy_cells.hpp>
#include <graticule/repartition/detail/row_major.hpp>

#include "net.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace graticule::c {

namespace {

/// Channels of a tensor of the network, from `offset` on, as many as the caller's array has.
FieldView channels(torch::Tensor const& tensor, Index offset, FieldView const& array, Box const& box) {
  FieldView view;
  view.dtype = nn::detail::dtype_of(tensor.scalar_type());
  view.extents = array.batch_extents();
  for (int a = 0; a < 2; ++a) {
    view.grid_axes.push_back(view.extents.size());
    view.extents.push_back(box.extent(a));
  }
  view.strides = row_major_strides(view.extents);
  view.data = static_cast<std::byte*>(tensor.data_ptr()) + offset * box.num_cells() * Index(tensor.element_size());
  return view;
}

torch::ScalarType torch_type(DType type) {
  using torch::ScalarType;
  for (auto const candidate : {ScalarType::Byte, ScalarType::Char, ScalarType::Short, ScalarType::Int, ScalarType::Long,
                               ScalarType::Half, ScalarType::BFloat16, ScalarType::Float, ScalarType::Double,
                               ScalarType::ComplexFloat, ScalarType::ComplexDouble})
    if (nn::detail::dtype_of(candidate) == type) return candidate;
  throw Error("UnsupportedTensor", "LibTorch has no tensors of type " + to_string(type));
}

/// Dense memory with the values of an array, in its order.
struct Dense {
  torch::Tensor tensor;
  FieldView view;
};

Dense dense_like(FieldView const& array) {
  Dense result;
  Sizes64 const sizes(array.extents.begin(), array.extents.end());
  result.tensor = torch::empty(sizes, torch_type(array.dtype));
  result.view = array;
  result.view.data = result.tensor.data_ptr();
  result.view.strides = row_major_strides(array.extents);
  return result;
}

void read_arrays(Arrays const& from) {
  auto const flat = from.tensor.view({-1});
  std::int64_t offset = 0;
  for (auto const& array : from.views) {
    auto const dense = dense_like(array);
    copy_cells(array, dense.view);
    flat.narrow(0, offset, dense.tensor.numel()).copy_(dense.tensor.view({-1}));
    offset += dense.tensor.numel();
  }
}

void write_arrays(torch::Tensor const& tensor, Arrays const& to) {
  auto const flat = tensor.contiguous().view({-1});
  std::int64_t offset = 0;
  for (auto const& array : to.views) {
    auto const dense = dense_like(array);
    dense.tensor.view({-1}).copy_(flat.narrow(0, offset, dense.tensor.numel()));
    copy_cells(dense.view, array);
    offset += dense.tensor.numel();
  }
}

}  // namespace

void Net::require_inputs() const {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!bound_.inputs[i].bound()) throw Error("WrongState", "input '" + inputs[i].name + "' is not bound");
}

std::vector<torch::Tensor> Net::tensors(Side side) const {
  std::vector<torch::Tensor> result;
  for (auto const& one : arrays(bound_, side)) result.push_back(one.tensor);
  return result;
}

std::vector<Movement const*> Net::movements(Side side) const {
  std::vector<Movement const*> result;
  for (auto const& one : arrays(bound_, side))
    if (one.movement != nullptr && std::find(result.begin(), result.end(), one.movement.get()) == result.end())
      result.push_back(one.movement.get());
  return result;
}

std::vector<RepartitionField> Net::moved(Movement const& movement, Side side,
                                         std::vector<torch::Tensor> const& of) const {
  std::vector<RepartitionField> fields;
  auto const& all = arrays(bound_, side);
  for (std::size_t p = 0; p < all.size(); ++p) {
    if (all[p].movement.get() != &movement) continue;
    Index offset = 0;
    for (auto const& array : all[p].views) {
      RepartitionField field;
      field.from = array;
      field.to = channels(of[p], offset, array, movement.plan.target_box());
      fields.push_back(field);
      offset += array.num_batch();
    }
  }
  return fields;
}

void Net::read_whole(Side side) const {
  for (auto const& one : arrays(bound_, side))
    if (one.bound() && one.movement == nullptr) read_arrays(one);
}

void Net::start() {
  run_agreed(comm, [&] {
    require_idle();
    require_inputs();
  });
  auto const of = tensors(Side::input);
  std::vector<Pending> pending;
  for (auto const* const movement : movements(Side::input))
    pending.push_back(movement->plan.start(moved(*movement, Side::input, of)));
  read_whole(Side::input);
  pending_ = std::move(pending);
  started_ = true;
}

namespace {

/// Buffers that a run overwrites, as they were before it.
class KeptBuffers {
 public:
  KeptBuffers(std::map<std::string, torch::Tensor> const& tensors, std::set<std::string> const& names) {
    torch::NoGradGuard const no_gradients;
    for (auto const& name : names)
      if (auto const found = tensors.find(name); found != tensors.end())
        kept_.emplace_back(found->second, found->second.clone());
  }
  KeptBuffers(KeptBuffers const&) = delete;
  KeptBuffers& operator=(KeptBuffers const&) = delete;
  ~KeptBuffers() {
    torch::NoGradGuard const no_gradients;
    for (auto& [buffer, before] : kept_) buffer.copy_(before);
  }

 private:
  std::vector<std::pair<torch::Tensor, torch::Tensor>> kept_;
};

}  // namespace

std::vector<torch::Tensor> Net::outputs_of(bool learns) {
  std::optional<KeptBuffers> kept;
  if (!learns && !written_.empty()) kept.emplace(program::detail::ProgramAccess::tensors(*program), written_);
  return shards->run(tensors(Side::input));
}

void Net::finish() {
  run_agreed(comm, [&] {
    if (!started_) throw Error("WrongState", "no run was started; call gr_net_start first");
  });
  started_ = false;
  auto pending = std::exchange(pending_, {});
  for (auto& one : pending) one.wait();
  torch::NoGradGuard const no_gradients;
  shards->eval();
  auto const results = outputs_of(false);
  ran_ = true;
  write(checked(results));
}

void Net::run() {
  start();
  finish();
}

std::vector<torch::Tensor> Net::checked(std::vector<torch::Tensor> const& results) const {
  std::vector<torch::Tensor> result(results.size());
  run_agreed(comm, [&] {
    for (std::size_t o = 0; o < results.size(); ++o) {
      auto const& expected = bound_.outputs[o].bound() ? bound_.outputs[o] : bound_.targets[o];
      if (!expected.bound()) continue;
      if (!results[o].defined() || results[o].sizes() != expected.sizes)
        throw Error("ShapeMismatch", "output '" + outputs[o].name + "' has the sizes " +
                                         (results[o].defined() ? c10::str(results[o].sizes()) : "of None") +
                                         " on rank " + std::to_string(comm.rank()) + ", its arrays hold " +
                                         c10::str(at::IntArrayRef(expected.sizes)));
      result[o] = results[o].scalar_type() == torch::kBool ? results[o].to(torch::kUInt8) : results[o];
    }
  });
  return result;
}

void Net::write(std::vector<torch::Tensor> const& results) const {
  std::vector<torch::Tensor> dense;
  for (auto const& one : results) dense.push_back(one.defined() ? one.detach().contiguous() : one);
  for (auto const* const movement : movements(Side::output))
    movement->plan.apply_inverse(moved(*movement, Side::output, dense));
  for (std::size_t o = 0; o < dense.size(); ++o)
    if (bound_.outputs[o].bound() && bound_.outputs[o].movement == nullptr) write_arrays(dense[o], bound_.outputs[o]);
}

torch::Tensor Net::loss(bool learns) {
  run_agreed(comm, [&] {
    require_idle();
    require_inputs();
    if (std::none_of(bound_.targets.begin(), bound_.targets.end(), [](auto const& one) { return one.bound(); }))
      throw Error("WrongState", "no output has a target; call gr_net_bind_target first");
  });
  for (auto const side : {Side::input, Side::target}) {
    for (auto const* const movement : movements(side)) movement->plan.apply(moved(*movement, side, tensors(side)));
    read_whole(side);
  }
  torch::AutoGradMode const with_gradients(learns);
  shards->train(learns && dropout_);
  auto const results = checked(outputs_of(learns));
  ran_ = true;
  torch::Tensor sum = torch::zeros({}, torch::kFloat64);
  for (std::size_t o = 0; o < results.size(); ++o) {
    auto const& target = bound_.targets[o];
    if (!target.bound()) continue;
    auto squares = (results[o].to(torch::kFloat64) - target.tensor.to(torch::kFloat64)).square();
    if (target.weights.defined()) squares = squares * target.weights;
    double const parts = target.movement == nullptr ? double(comm.num_ranks()) : 1.0;
    sum = sum + squares.sum() * (target.scale / (target.sum_of_weights * parts));
  }
  return nn::reduce_loss(sum, domain);
}

}  // namespace graticule::c

using namespace graticule;
using namespace graticule::c;

gr_status gr_net_run(gr_net* net) {
  return GR_TORCH_BODY({ required(net, "net").net->run(); });
}

gr_status gr_net_start(gr_net* net) {
  return GR_TORCH_BODY({ required(net, "net").net->start(); });
}

gr_status gr_net_finish(gr_net* net) {
  return GR_TORCH_BODY({ required(net, "net").net->finish(); });
}
