// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/program/detail/graph.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Networks exported by PyTorch (`torch.export`): their graphs, and programs that run them.
namespace graticule::program {

namespace detail {
struct ArchiveContent;
class CompiledGraph;
struct ProgramAccess;
}  // namespace detail

/// A network exported by PyTorch (`torch.export.save`), without Python: runs, learns, and goes back to Python.
///
/// Parameters and persistent buffers are registered under their original dotted names ("blocks.0.conv.weight"), so
/// optimizers, `DataParallel` and saved states take it as any module. Each forward calls the operators of the graph one
/// after the other through LibTorch's dispatcher, which records them for the backward to any order that the operators
/// have. Buffers that the network overwrites (running statistics) are overwritten. Tensors that share memory in the
/// file share it here; a parameter under several names is registered once, under the first.
///
/// Training and evaluation: batch norms behave as they were exported. Dropout works in `train` if it was exported so,
/// and is off in `eval`; its masks are LibTorch's.
///
/// Regions of nodes that the file marks (`Node::region`) keep what they read, and are computed again in the backward.
///
/// `to` moves the program to another device or computes it in another real type: parameters, constants, and the types
/// named in the graph. Parts of an f32 program that are exported in f64 stay in f64.
///
/// Example:
/// ```
/// Program network("net.pt2");
/// torch::optim::AdamW optimizer(network->parameters());
/// torch::Tensor y = network->forward(x);
/// ```
/// Calls of one object are not concurrent. Cost beyond the operators: a few microseconds per node.
class ProgramImpl : public torch::nn::Module {
 public:
  /// Reads the file and checks all of it: format, schema, operators, arguments, sizes of weights.
  /// @throws Error `NoSuchFile`, `BrokenFile` (damaged), `UnsupportedFile`, `RefusedProgram` (what this library does
  /// not run: the
  ///   operator, its module path, its source line, and what would help)
  explicit ProgramImpl(std::filesystem::path const& path);
  /// The program of a graph in memory, with the caller's tensors: they are registered as they are, so that gradients
  /// and new running statistics are theirs. Nothing is copied.
  /// @param graph_json as in the file, without values
  /// @param tensors parameters, buffers and constants by the names of the graph. A tensor under several names is
  /// registered under the first of the graph.
  /// @throws Error `BrokenFile` (malformed graph; a tensor is missing or has other sizes), `RefusedProgram`
  ProgramImpl(std::string_view graph_json, std::map<std::string, torch::Tensor> tensors);
  ~ProgramImpl() override;
  ProgramImpl(ProgramImpl const&) = delete;
  ProgramImpl& operator=(ProgramImpl const&) = delete;

  /// The only output of a program with one input.
  /// @throws Error as `run`; `Unsupported` for a program with several inputs or outputs
  torch::Tensor forward(torch::Tensor const& input);
  /// All outputs, in the order of the file; an undefined tensor for None, numbers as tensors without axes.
  /// @param inputs the tensors that the network takes, in order; keyword arguments last. Of the types in the file
  /// (converted as the
  ///        program is), on its device
  /// @throws Error `UnsupportedTensor` (of another type or device), `ShapeMismatch` (number or sizes: those of the
  /// export, or within
  ///   its dynamic ones), `FailedNode` (an operator's own error or sizes other than the file says, with module path and
  ///   source line)
  std::vector<torch::Tensor> run(std::vector<torch::Tensor> const& inputs);

  /// Writes the program with its present weights; Python reads it by `torch.export.load`. Weights are written in the
  /// types of the original file. The file appears when it is complete.
  /// @throws Error `OutputError`, `Unsupported` for a program that does not come from a file
  void save(std::filesystem::path const& path) const;

  [[nodiscard]] ExportedGraph const& graph() const noexcept;
  /// Real type that the program computes with, and the one that it was exported with.
  [[nodiscard]] torch::Dtype dtype() const noexcept;
  [[nodiscard]] torch::Dtype exported_dtype() const noexcept;
  [[nodiscard]] torch::Device device() const noexcept;
  /// Parameter of that original name, also under its further names. @throws Error `UnknownName`
  [[nodiscard]] torch::Tensor parameter(std::string const& name) const;
  /// Further names of parameters and the name that each is registered under.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> const& aliases() const noexcept;

  void to(torch::Device device, torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Device device, bool non_blocking = false) override;
  /// A program with weights of its own.
  [[nodiscard]] std::shared_ptr<torch::nn::Module> clone(
      std::optional<torch::Device> const& device = std::nullopt) const override;
  void pretty_print(std::ostream& stream) const override;

 private:
  friend struct detail::ProgramAccess;
  struct State;
  explicit ProgramImpl(std::unique_ptr<State> state);

  void register_tensors();
  void compile();
  void convert(torch::Device device, torch::Dtype dtype);
  [[nodiscard]] std::vector<c10::IValue> graph_inputs(std::vector<torch::Tensor> const& inputs) const;
  [[nodiscard]] std::vector<torch::Tensor> finish(std::vector<torch::Tensor> const& inputs,
                                                  std::vector<c10::IValue> const& outputs);
  void write_back(std::vector<torch::Tensor> const& inputs, std::vector<c10::IValue> const& outputs);

  std::unique_ptr<State> state_;
};
TORCH_MODULE(Program);

}  // namespace graticule::program

namespace graticule::nn {
using program::Program;
using program::ProgramImpl;
}  // namespace graticule::nn
