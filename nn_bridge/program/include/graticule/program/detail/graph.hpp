// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <complex>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace graticule::program {

/// Element type by its number in the file, which is not LibTorch's.
enum class Dtype : std::int8_t {
  unknown = 0,
  u8 = 1,
  i8 = 2,
  i16 = 3,
  i32 = 4,
  i64 = 5,
  f16 = 6,
  f32 = 7,
  f64 = 8,
  complex_f16 = 9,
  complex_f32 = 10,
  complex_f64 = 11,
  boolean = 12,
  bf16 = 13,
  u16 = 28,
};

/// "f32", "i64", "complex_f32", ...
[[nodiscard]] std::string_view name(Dtype dtype);
/// Bytes of one element; 0 for `unknown`.
[[nodiscard]] std::int64_t item_bytes(Dtype dtype);

/// Order in memory that an operator is asked for.
enum class MemoryFormat : std::int8_t {
  unknown = 0,
  contiguous = 1,
  channels_last = 2,
  channels_last_3d = 3,
  preserve = 4
};

/// A size that is known, or an expression in the symbols of the program ("s77", "((s77 - 1)//2) + 1").
struct Extent {
  std::int64_t value =
      0;  ///< of a symbolic one: at the sizes that the network was exported with, 0 where the file has none
  std::string expression;  ///< empty: `value` is the size

  [[nodiscard]] bool symbolic() const noexcept { return !expression.empty(); }
};

/// What the file says about a tensor: its global shape at the sizes of the export.
struct TensorMeta {
  Dtype dtype = Dtype::unknown;
  std::vector<Extent> sizes;
  std::vector<Extent> strides;  ///< in elements
  Extent storage_offset;        ///< in elements
  bool requires_grad = false;
};

/// Index into `Graph::values`.
using ValueId = std::int32_t;
/// Index into `Graph::nodes`.
using NodeId = std::int32_t;

/// A tensor or a symbolic number: an input of the graph or a result of one node, defined once.
struct Value {
  /// What the value holds.
  enum class Kind : std::int8_t { tensor, integer, boolean, real };

  std::string name;
  Kind kind = Kind::tensor;
  TensorMeta tensor;     ///< of a tensor
  Extent number;         ///< of an integer: its expression and its value at the sizes of the export
  NodeId producer = -1;  ///< -1: an input of the graph
};

struct Graph;

// --- What a node is called with. One alternative of `Argument` each. ---

struct None {};
/// A tensor of the graph.
struct TensorRef {
  ValueId value;
};
/// A symbolic integer, boolean or real of the graph.
struct SymbolRef {
  ValueId value;
};
using Tensors = std::vector<TensorRef>;
using OptionalTensors = std::vector<std::optional<TensorRef>>;
/// A list of integers in which some are symbolic (a shape, mostly).
using Integers = std::vector<std::variant<std::int64_t, SymbolRef>>;
/// Device that the file names ("cuda", 0).
struct Device {
  std::string type;
  std::optional<std::int64_t> index;
};
/// Layout by its number in the file; 7 is strided.
struct StorageLayout {
  std::int64_t number;
};
/// A graph that the node runs on its arguments. Its values are its own.
struct SubgraphRef {
  std::string name;
  std::shared_ptr<Graph const> graph;
};
/// A kind of argument that no operator of this library takes, by its name in the file ("as_custom_obj").
struct Unsupported {
  std::string kind;
};

using Argument =
    std::variant<None, bool, std::int64_t, double, std::complex<double>, std::string, TensorRef, SymbolRef, Tensors,
                 OptionalTensors, std::vector<std::int64_t>, Integers, std::vector<double>, std::vector<bool>,
                 std::vector<std::string>, Dtype, MemoryFormat, StorageLayout, Device, SubgraphRef, Unsupported>;

/// One input of a node.
struct NamedArgument {
  std::string name;  ///< as in the operator's schema; empty for a subgraph's arguments
  Argument value;
  bool keyword = false;
};

/// A call of an operator.
struct Node {
  /// One module that the node belongs to.
  struct Module {
    std::string path;  ///< "blocks.0.conv"; empty for the network itself
    std::string type;  ///< "torch.nn.modules.conv.Conv2d"
  };

  /// Automatic casts (`torch.autocast`) around the node.
  struct Casts {
    bool enabled = true;
    Dtype dtype = Dtype::unknown;  ///< of the operators that are computed in fewer digits; unknown: LibTorch's default
    bool cached = true;            ///< whether weights are converted once
  };

  std::string
      target;  ///< "aten.roll.default", "higher_order.wrap_with_autocast", "_operator.add": without "torch.ops."
  std::string name;
  std::vector<NamedArgument> inputs;  ///< only those that differ from the schema's defaults
  std::vector<Argument> outputs;  ///< `TensorRef`, `Tensors`, `OptionalTensors`, `SymbolRef` or `None`, one per result
  std::vector<Module> modules;    ///< the network first
  std::string stack_trace;        ///< Python's, outermost call first
  std::optional<Casts> casts;     ///< around it, in a graph whose subgraphs are inlined
  /// The region of nodes that it belongs to, whose results the backward computes again: of `torch.utils.checkpoint`, or
  /// of a module that was named at the export. `graticule_recompute` in the metadata "custom" of the file.
  std::optional<std::int64_t> region;

  /// The input of that name; null where the schema's default holds.
  [[nodiscard]] Argument const* input(std::string_view argument) const;
  /// Path of the innermost module: "blocks.0.conv".
  [[nodiscard]] std::string_view module_path() const;
  /// File and line of the innermost call: "net.py:27"; empty where the file has none.
  [[nodiscard]] std::string source_line() const;
  /// Operator, module path and source line, for reports and refusals: "aten.roll.default in blocks.0.conv (net.py:27)".
  [[nodiscard]] std::string describe() const;
};

/// Nodes in the order of execution.
///
/// Every value is defined before it is used, by an input or by exactly one output of a node.
struct Graph {
  std::vector<Value> values;
  std::vector<Argument> inputs;
  std::vector<Argument> outputs;
  std::vector<Node> nodes;

  [[nodiscard]] Value const& value(ValueId id) const { return values.at(static_cast<std::size_t>(id)); }
  /// Id of the value of that name; -1 where there is none.
  [[nodiscard]] ValueId find(std::string_view value_name) const;
};

/// What an input of the graph is.
struct InputSpec {
  /// Where its value comes from.
  enum class Kind : std::int8_t { parameter, buffer, constant, user };

  Kind kind = Kind::user;
  std::string name;  ///< original dotted name of a parameter, buffer or constant; name of the value of a user input
  Argument value;    ///< `TensorRef`; of a user input also `SymbolRef`, or the constant that it was exported with
  bool persistent = true;  ///< of a buffer: part of the state dictionary
};

/// What an output of the graph is. A mutation is the new content of what it names.
struct OutputSpec {
  /// Where its value goes.
  enum class Kind : std::int8_t { user, buffer_mutation, parameter_mutation, user_input_mutation };

  Kind kind = Kind::user;
  std::string name;  ///< of the buffer, parameter or user input that is overwritten
  Argument value;
};

/// A network as `torch.export` writes it: graph, signature and bounds of its dynamic sizes.
struct ExportedGraph {
  /// Bounds of a symbol, both allowed.
  struct Range {
    std::optional<std::int64_t> min;
    std::optional<std::int64_t> max;
  };

  Graph graph;
  std::vector<InputSpec> inputs;    ///< one per input of the graph, in order
  std::vector<OutputSpec> outputs;  ///< one per output of the graph, in order
  std::map<std::string, Range> ranges;
  std::vector<std::string> guards;  ///< further conditions on the sizes, as Python expressions
  std::int64_t schema_major = 0;
  std::int64_t schema_minor = 0;
  std::string torch_version;
};

/// The graph in the text of `models/model.json` of an archive.
///
/// Checks the text completely: what it returns keeps the promises of `Graph`. Needs neither LibTorch nor MPI.
/// @throws Error `BrokenFile` (malformed text, or a rule of `Graph` broken, with the place in the file),
///   `UnsupportedFile` (schema version above 8), `RefusedProgram` (an older one; inputs or outputs that are objects or
///   tokens)
[[nodiscard]] ExportedGraph read_graph(std::string_view json);

}  // namespace graticule::program
