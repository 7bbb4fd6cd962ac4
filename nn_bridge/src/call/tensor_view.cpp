// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/call/tensor_view.hpp>
#include <graticule/nn_bridge/detail/types.hpp>

#include "call_stream.hpp"

#include <algorithm>
#include <array>

namespace graticule::nn {

DType detail::dtype_of(torch::ScalarType type) {
  switch (type) {
    case torch::kByte:
    case torch::kBool: return DType::u8;
    case torch::kChar: return DType::i8;
    case torch::kShort: return DType::i16;
    case torch::kInt: return DType::i32;
    case torch::kLong: return DType::i64;
    case torch::kHalf: return DType::f16;
    case torch::kBFloat16: return DType::bf16;
    case torch::kFloat: return DType::f32;
    case torch::kDouble: return DType::f64;
    case torch::kComplexFloat: return DType::c64;
    case torch::kComplexDouble: return DType::c128;
    default:
      throw Error("UnsupportedTensor", std::string("the engine moves no tensors of dtype ") + c10::toString(type));
  }
}

FieldView tensor_view(torch::Tensor const& tensor) {
  static constexpr std::array<std::int64_t, 2> rows_and_columns{-2, -1};
  return tensor_view(tensor, rows_and_columns);
}

FieldView tensor_view(torch::Tensor const& tensor, std::span<std::int64_t const> axes) {
  auto const least_dim = axes.empty() ? 0 : -*std::min_element(axes.begin(), axes.end());
  if (!tensor.defined() || tensor.layout() != torch::kStrided || tensor.dim() < least_dim)
    throw Error("UnsupportedTensor", tensor.defined() ? "the engine moves dense tensors, got a sparse one or one of " +
                                                            std::to_string(tensor.dim()) + " axes"
                                                      : std::string("the tensor is undefined"));
  if (!detail::engine_reaches(tensor))
    throw Error("UnsupportedTensor", c10::str("the engine does not reach a tensor on device ", tensor.device()));
  if (tensor.is_conj() || tensor.is_neg())
    throw Error("UnsupportedTensor",
                "the tensor is a lazy conjugate or negative; call resolve_conj() or resolve_neg() first");
  // Ranks agree on what a view throws: what is wrong with the stream is found here, and not in the call.
  if (!tensor.is_cpu()) (void)detail::CallStream(tensor);
  FieldView view;
  view.data = const_cast<void*>(tensor.const_data_ptr());
  view.dtype = detail::dtype_of(tensor.scalar_type());
  view.extents = Indices(std::span(tensor.sizes().data(), tensor.sizes().size()));
  view.strides = Indices(std::span(tensor.strides().data(), tensor.strides().size()));
  view.grid_axes = Indices(axes);
  for (int a = 0; a < view.grid_axes.size(); ++a) view.grid_axes[a] += tensor.dim();
  view.space = tensor.is_cpu() ? MemorySpace::host : MemorySpace::device;
  return view;
}

}  // namespace graticule::nn
