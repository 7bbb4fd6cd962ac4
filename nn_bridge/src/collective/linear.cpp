// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/collective/linear.hpp>
#include <graticule/partition/error.hpp>

namespace graticule::nn {

LinearImpl::LinearImpl(torch::nn::LinearOptions const& given, SplitOptions const& split, Domain const& domain,
                       Sharding const& sharding, std::int64_t feature_axis)
    : StatefulModule(
          domain,
          [=](Domain const& of) {
            detail::SplitLayer::Features const features{feature_axis, given.in_features(), given.out_features()};
            return std::make_shared<detail::SplitLayer>("Linear", features, split, of, sharding);
          }),
      options(given),
      feature_axis_(feature_axis) {
  reset();
}

void LinearImpl::reset() {
  // The serial layer's parameters, with its initial values.
  torch::nn::Linear const serial(options);
  weight = register_parameter("weight", serial->weight);
  bias = register_parameter("bias", serial->bias, options.bias());
}

torch::Tensor LinearImpl::forward(torch::Tensor const& x) {
  auto const check = [&] {
    if (!x.defined() || x.layout() != torch::kStrided || x.scalar_type() != weight.scalar_type())
      throw Error("ShapeMismatch", std::string("Linear has weights of ") + c10::toString(weight.scalar_type()) +
                                       ", got " + (x.defined() ? c10::toString(x.scalar_type()) : "no tensor"));
    if (x.dim() < -feature_axis_)
      throw Error("ShapeMismatch", "Linear has its features along axis " + std::to_string(feature_axis_) +
                                       ", got a tensor of " + std::to_string(x.dim()) + " axes");
  };
  return state().forward(x, check, weight, bias, [&](auto const& part, auto const& slice, auto const& shift) {
    if (feature_axis_ == -1) return torch::linear(part, slice, shift);
    return torch::linear(part.movedim(feature_axis_, -1), slice, shift).movedim(-1, feature_axis_);
  });
}

}  // namespace graticule::nn
