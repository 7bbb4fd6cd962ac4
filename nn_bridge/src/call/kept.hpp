// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <torch/torch.h>

#include <utility>

namespace graticule::nn::detail {

template <class T>
struct KeptValue : torch::CustomClassHolder {
  explicit KeptValue(T given) : value(std::move(given)) {}
  T value;
};

/// Keeps `value` in an autograd node until its graph is released; a node keeps one.
template <class T>
void keep(torch::autograd::AutogradContext* ctx, T value) {
  ctx->saved_data["kept"] = c10::IValue::make_capsule(c10::make_intrusive<KeptValue<T>>(std::move(value)));
}

/// The value that `keep` was given, of the same type.
template <class T>
[[nodiscard]] T const& kept(torch::autograd::AutogradContext* ctx) {
  return static_cast<KeptValue<T> const&>(*ctx->saved_data["kept"].toCapsule()).value;
}

}  // namespace graticule::nn::detail
