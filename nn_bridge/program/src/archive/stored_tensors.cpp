// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/error.hpp>

#include "archive/archive.hpp"
#include "graph/graph_reader.hpp"

#include <algorithm>

namespace graticule::program::detail {

namespace {

[[noreturn]] void too_large(std::string const& name) {
  throw Error(Fault::input, "BrokenFile", "the tensor '" + name + "' is larger than 64 bits can say");
}

void check_fixed(TensorMeta const& meta, std::string const& name) {
  auto const symbolic = [](Extent const& extent) { return extent.symbolic(); };
  if (std::ranges::any_of(meta.sizes, symbolic) || std::ranges::any_of(meta.strides, symbolic) ||
      meta.storage_offset.symbolic()) {
    throw Error(Fault::input, "BrokenFile", "the stored tensor '" + name + "' has dynamic sizes");
  }
}

}  // namespace

torch::ScalarType to_torch(Dtype dtype) {
  switch (dtype) {
    case Dtype::u8: return torch::kUInt8;
    case Dtype::i8: return torch::kInt8;
    case Dtype::i16: return torch::kInt16;
    case Dtype::i32: return torch::kInt32;
    case Dtype::i64: return torch::kInt64;
    case Dtype::f16: return torch::kFloat16;
    case Dtype::f32: return torch::kFloat32;
    case Dtype::f64: return torch::kFloat64;
    case Dtype::complex_f16: return torch::kComplexHalf;
    case Dtype::complex_f32: return torch::kComplexFloat;
    case Dtype::complex_f64: return torch::kComplexDouble;
    case Dtype::boolean: return torch::kBool;
    case Dtype::bf16: return torch::kBFloat16;
    case Dtype::u16: return torch::kUInt16;
    case Dtype::unknown: break;
  }
  throw Error(Fault::input, "RefusedProgram", "a tensor has an unknown type");
}

std::int64_t storage_bytes(TensorMeta const& meta, std::string const& tensor_name) {
  std::int64_t last = meta.storage_offset.value;
  for (std::size_t axis = 0; axis < meta.sizes.size(); ++axis) {
    if (meta.sizes[axis].value == 0) {
      return 0;
    }
    std::int64_t step = 0;
    if (__builtin_mul_overflow(meta.sizes[axis].value - 1, meta.strides[axis].value, &step) ||
        __builtin_add_overflow(last, step, &last)) {
      too_large(tensor_name);
    }
  }
  std::int64_t bytes = 0;
  if (__builtin_add_overflow(last, 1, &last) || __builtin_mul_overflow(last, item_bytes(meta.dtype), &bytes)) {
    too_large(tensor_name);
  }
  return bytes;
}

torch::Tensor view_of(torch::Tensor const& bytes, StoredTensor const& stored) {
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  for (std::size_t axis = 0; axis < stored.meta.sizes.size(); ++axis) {
    sizes.push_back(stored.meta.sizes[axis].value);
    strides.push_back(stored.meta.strides[axis].value);
  }
  torch::Tensor view = torch::empty({0}, to_torch(stored.meta.dtype));
  bool const empty = storage_bytes(stored.meta, stored.name) == 0;
  view.set_(bytes.storage(), empty ? 0 : stored.meta.storage_offset.value, sizes, strides);
  return view;
}

std::vector<StoredTensor> read_tensor_table(std::string const& text_of_table, std::string const& folder,
                                            std::string_view place) {
  Json const json = parse_json(text_of_table, place);
  std::vector<StoredTensor> tensors;
  for (auto const& [name, entry] : table(json, "config", place).items()) {
    std::string const where = std::string(place) + ", '" + name + "'";
    std::string const& file = text(entry, "path_name", where);
    if (as_boolean(member(entry, "use_pickle", where), where) || member(entry, "tensor_meta", where).is_null()) {
      throw Error(
          Fault::input, "RefusedProgram",
          "'" + name +
              "' is stored as a Python object, which is not run here; make it a plain tensor before the export");
    }
    if (file.empty() || file.find('/') != std::string::npos) {
      malformed(where, "'" + file + "' is no name of a record");
    }
    StoredTensor stored{name,
                        folder + file,
                        read_tensor_meta(member(entry, "tensor_meta", where), where),
                        as_boolean(member(entry, "is_param", where), where),
                        {}};
    check_fixed(stored.meta, name);
    tensors.push_back(std::move(stored));
  }
  return tensors;
}

}  // namespace graticule::program::detail
