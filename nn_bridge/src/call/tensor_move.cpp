// SPDX-License-Identifier: BSD-3-Clause
#include "tensor_move.hpp"

#include <graticule/nn_bridge/call/tensor_view.hpp>
#include <graticule/nn_bridge/detail/agreement.hpp>

#include "recorded_calls.hpp"
#include "resolved.hpp"
#include "traffic.hpp"

#include <algorithm>

namespace graticule::nn::detail {

TensorMove::TensorMove(Comm const& comm, Layout from, Layout to, std::vector<std::int64_t> axes)
    : from_(std::move(from)), to_(std::move(to)), axes_(std::move(axes)), plan_(comm, from_, to_) {}

torch::Tensor TensorMove::empty(torch::Tensor const& like, Box const& box) const {
  auto sizes = like.sizes().vec();
  for (std::size_t a = 0; a < axes_.size(); ++a) sizes[std::size_t(like.dim() + axes_[a])] = box.extent(int(a));
  return torch::empty(sizes, like.options().requires_grad(false), like.suggest_memory_format());
}

Index TensorMove::cell_bytes(torch::Tensor const& tensor) const {
  auto bytes = Index(tensor.element_size());
  for (std::int64_t axis = -tensor.dim(); axis < 0; ++axis)
    if (std::find(axes_.begin(), axes_.end(), axis) == axes_.end()) bytes *= tensor.size(axis);
  return bytes;
}

torch::Tensor TensorMove::apply(torch::Tensor const& x) const {
  auto y = empty(x, to_box());
  count_traffic(plan_.counts(), Way::forward, cell_bytes(x));
  plan_.apply(tensor_view(x, axes_), tensor_view(y, axes_));
  return y;
}

torch::Tensor TensorMove::apply_back(torch::Tensor const& y) const {
  auto x = empty(y, from_box());
  count_traffic(plan_.counts(), Way::adjoint, cell_bytes(y));
  plan_.apply_inverse(tensor_view(x, axes_), tensor_view(y, axes_));
  return x;
}

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using MovePointer = std::shared_ptr<TensorMove const>;

/// Keeps a plan in an autograd node.
struct MoveHolder : torch::CustomClassHolder {
  explicit MoveHolder(MovePointer pointer) : move(std::move(pointer)) {}
  MovePointer move;
};

enum class Leg : std::uint8_t { there, back };

template <Leg way>
torch::Tensor moved(MovePointer const& move, torch::Tensor const& x, torch::Tensor const& anchor);

template <Leg way>
struct MoveFunction : torch::autograd::Function<MoveFunction<way>> {
  static variable_list forward(AutogradContext* ctx, torch::Tensor const& x, torch::Tensor const& /*anchor*/,
                               MovePointer const& move) {
    ctx->saved_data["move"] = c10::IValue::make_capsule(c10::make_intrusive<MoveHolder>(move));
    auto const y = way == Leg::there ? move->apply(x) : move->apply_back(x);
    return {y, make_token(y.options())};
  }
  static variable_list backward(AutogradContext* ctx, variable_list const& grads) {
    auto const move = static_cast<MoveHolder const&>(*ctx->saved_data["move"].toCapsule()).move;
    // Inside a backward that builds a graph, every rank gets a node again.
    auto const next_anchor = anchor(torch::GradMode::is_enabled(), grads[0].options());
    return {moved < way == Leg::there ? Leg::back : Leg::there > (move, grads[0], next_anchor), {}, {}};
  }
};

template <Leg way>
torch::Tensor moved(MovePointer const& move, torch::Tensor const& x, torch::Tensor const& anchor) {
  auto y = MoveFunction<way>::apply(resolved(x), anchor, move)[0];
  RecordedCalls::record_derivative(y);
  return y;
}

}  // namespace

torch::Tensor move_tensor(MovePointer const& move, torch::Tensor const& x, torch::Tensor const& anchor) {
  return moved<Leg::there>(move, x, anchor);
}

torch::Tensor move_tensor_back(MovePointer const& move, torch::Tensor const& y, torch::Tensor const& anchor) {
  return moved<Leg::back>(move, y, anchor);
}

}  // namespace graticule::nn::detail
