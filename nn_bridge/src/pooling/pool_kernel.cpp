// SPDX-License-Identifier: BSD-3-Clause
#include "pool_kernel.hpp"

#include <tuple>

namespace graticule::nn::detail {

Pooled pool(PoolRule const& rule, torch::Tensor const& x, PoolWindows const& w) {
  bool const flat = w.kernel.size() == 2;
  Pooled result;
  if (rule.kind == PoolKind::maxima)
    std::tie(result.values, result.indices) =
        flat ? at::max_pool2d_with_indices(x, w.kernel, w.stride, w.padding, w.dilation, w.ceil_mode)
             : at::max_pool3d_with_indices(x, w.kernel, w.stride, w.padding, w.dilation, w.ceil_mode);
  else
    result.values =
        flat ? at::avg_pool2d(x, w.kernel, w.stride, w.padding, w.ceil_mode, rule.count_padding, rule.divisor)
             : at::avg_pool3d(x, w.kernel, w.stride, w.padding, w.ceil_mode, rule.count_padding, rule.divisor);
  return result;
}

torch::Tensor pool_backward(PoolRule const& rule, torch::Tensor const& cotangent, torch::Tensor const& x,
                            torch::Tensor const& indices, PoolWindows const& w) {
  bool const flat = w.kernel.size() == 2;
  if (rule.kind == PoolKind::maxima)
    return flat ? at::max_pool2d_with_indices_backward(cotangent, x, w.kernel, w.stride, w.padding, w.dilation,
                                                       w.ceil_mode, indices)
                : at::max_pool3d_with_indices_backward(cotangent, x, w.kernel, w.stride, w.padding, w.dilation,
                                                       w.ceil_mode, indices);
  return flat ? at::avg_pool2d_backward(cotangent, x, w.kernel, w.stride, w.padding, w.ceil_mode, rule.count_padding,
                                        rule.divisor)
              : at::avg_pool3d_backward(cotangent, x, w.kernel, w.stride, w.padding, w.ceil_mode, rule.count_padding,
                                        rule.divisor);
}

}  // namespace graticule::nn::detail
