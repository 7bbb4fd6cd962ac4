// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/program/detail/graph.hpp>

#include <torch/torch.h>

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace graticule::program::detail {

/// A tensor of the file: a view of the content of one record.
struct StoredTensor {
  std::string name;    ///< as in the state dictionary
  std::string record;  ///< "data/weights/weight_0"; tensors of one record share memory
  TensorMeta meta;
  bool parameter = false;
  torch::Tensor tensor;  ///< undefined once a program has taken it over
};

/// What a `.pt2` file holds.
struct ArchiveContent {
  std::string json;                     ///< of the graph
  std::vector<StoredTensor> weights;    ///< parameters and persistent buffers
  std::vector<StoredTensor> constants;  ///< lifted constants and other buffers
  std::map<std::string, std::size_t> record_bytes;
  /// Records that are written back as they are: the graph, the tables of tensors, the inputs of the example.
  std::map<std::string, std::string> others;
};

/// Reads an archive and checks all that it says about its tensors.
/// @throws Error `BrokenFile`, `RefusedProgram`, `UnsupportedFile`, each with the path
[[nodiscard]] ArchiveContent read_archive(std::filesystem::path const& path);

/// The tensors in the text of a table (`model_weights_config.json`), without their content.
/// @param folder of the records, with a slash
[[nodiscard]] std::vector<StoredTensor> read_tensor_table(std::string const& text, std::string const& folder,
                                                          std::string_view place);

/// Writes an archive that Python's torch.export.load reads, under a temporary name beside `path` that is renamed at the
/// end.
/// @param values of all stored tensors, by name; converted to the type in the file
void write_archive(std::filesystem::path const& path, ArchiveContent const& content,
                   std::map<std::string, torch::Tensor> const& values);

/// The tensor as a view of its record's bytes, which are enough.
[[nodiscard]] torch::Tensor view_of(torch::Tensor const& bytes, StoredTensor const& stored);

/// LibTorch's element type. @throws Error `RefusedProgram` for types without arithmetic
[[nodiscard]] torch::ScalarType to_torch(Dtype dtype);

/// Bytes of a dense or strided tensor from the begin of its storage. @throws Error `BrokenFile` where they exceed 64
/// bits
[[nodiscard]] std::int64_t storage_bytes(TensorMeta const& meta, std::string const& tensor_name);

}  // namespace graticule::program::detail
