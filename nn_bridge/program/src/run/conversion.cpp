// SPDX-License-Identifier: BSD-3-Clause

#include <graticule/program/detail/conversion.hpp>

#include "archive/archive.hpp"

#include <algorithm>

namespace graticule::program::detail {

namespace {

int precision(torch::ScalarType type) { return type == torch::kFloat64 ? 2 : type == torch::kFloat32 ? 1 : 0; }

torch::ScalarType real_part(torch::ScalarType type) {
  return c10::isComplexType(type) ? c10::toRealValueType(type) : type;
}

}  // namespace

torch::ScalarType Conversion::operator()(Dtype dtype) const {
  torch::ScalarType const type = to_torch(dtype);
  bool const complex = c10::isComplexType(type);
  if ((!complex && !c10::isFloatingType(type)) || own == target) {
    return type;
  }
  torch::ScalarType const real = real_part(type);
  bool const wider = precision(real) > precision(own) && precision(real) >= precision(target);
  if (!complex) {
    return wider ? type : target;
  }
  return std::max(wider ? precision(real) : precision(target), 1) == 2 ? torch::kComplexDouble : torch::kComplexFloat;
}

}  // namespace graticule::program::detail
