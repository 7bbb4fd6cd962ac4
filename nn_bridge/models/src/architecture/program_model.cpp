// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/models/model.hpp>
#include <graticule/partition/error.hpp>
#include <graticule/program/sharded_program.hpp>

#include "parts.hpp"

#include <string>
#include <vector>

namespace graticule::models {
namespace {

using program::Extent;

std::string text_of(std::string const& name, std::vector<Extent> const& sizes) {
  std::string text = name + "[";
  for (std::size_t i = 0; i < sizes.size(); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(sizes[i].value) + (sizes[i].symbolic() ? "*" : "");
  return text + "]";
}

/// The user's inputs or outputs of a program.
template <class Spec>
std::vector<program::Value const*> users(program::ExportedGraph const& exported, std::vector<Spec> const& specs) {
  std::vector<program::Value const*> values;
  for (Spec const& spec : specs)
    if (spec.kind == Spec::Kind::user)
      if (auto const* tensor = std::get_if<program::TensorRef>(&spec.value))
        values.push_back(&exported.graph.value(tensor->value));
  return values;
}

bool is_field(program::Value const& value) {
  auto const& sizes = value.tensor.sizes;
  return sizes.size() == 4 || (sizes.size() == 5 && !sizes[2].symbolic() && sizes[2].value == 1);
}

std::string list_of(std::vector<program::Value const*> const& values) {
  std::string text;
  for (auto const* value : values) text += (text.empty() ? "" : ", ") + text_of(value->name, value->tensor.sizes);
  return text.empty() ? "nothing" : text;
}

bool differs(Extent const& extent, std::int64_t wanted) { return !extent.symbolic() && extent.value != wanted; }

/// @param what `takes` or `gives` @param names of the channels that there are
void require_fit(std::string const& file, char const* what, program::Value const& value, std::int64_t num_channels,
                 std::vector<std::string> const& names, ModelOptions const& options) {
  auto const& sizes = value.tensor.sizes;
  auto const num_rows = std::int64_t(options.latitudes.size());
  if (!differs(sizes[1], num_channels) && !differs(sizes[sizes.size() - 2], num_rows) &&
      !differs(sizes.back(), options.num_columns))
    return;
  std::string list;
  for (std::string const& name : names) list += (list.empty() ? "" : ", ") + name;
  throw Error(Fault::usage, "ShapeMismatch",
              file + " " + what + " " + text_of(value.name, sizes) + ", where [batch, " + std::to_string(num_channels) +
                  ", " + std::to_string(num_rows) + ", " + std::to_string(options.num_columns) + "] is needed: " +
                  std::to_string(num_channels) + " channels" + (list.empty() ? std::string() : " (" + list + ")") +
                  " on " + std::to_string(num_rows) + " x " + std::to_string(options.num_columns) + " cells");
}

/// A network exported by PyTorch from one field of channels to another, on shards.
///
/// The field has the axes [batch, channels, rows, columns], or [batch, channels, 1, rows, columns] as those of CREDIT.
/// Functions of latitude are further channels, constant along rows.
class ProgramModel : public Model {
 public:
  /// @throws `Unsupported` (usage) for other inputs and outputs, `ShapeMismatch` (usage) for other channels and another
  /// grid, with all that is expected and found; what `program::Program` and `ShardedProgram` throw
  ProgramModel(ModelOptions const& options, nn::Domain const& domain) {
    std::string const file = options.program.string();
    program::Program network(options.program);
    auto const& exported = network->graph();
    auto const inputs = users(exported, exported.inputs);
    auto const outputs = users(exported, exported.outputs);
    if (inputs.size() != 1 || outputs.size() != 1 || !is_field(*inputs[0]) || !is_field(*outputs[0]))
      throw Error(Fault::usage, "Unsupported",
                  file + " takes " + list_of(inputs) + " and gives " + list_of(outputs) +
                      "; a network of fields takes one field [batch, channels, rows, columns] and gives one");
    auto names = options.input_names;
    if (!names.empty()) names.insert(names.end(), options.static_names.begin(), options.static_names.end());
    require_fit(file, "takes", *inputs[0], options.num_inputs + options.num_statics, names, options);
    require_fit(file, "gives", *outputs[0], options.num_outputs, options.output_names, options);
    Extent const& batch = inputs[0]->tensor.sizes[0];
    if (!batch.symbolic() && batch.value != 1)
      throw Error(Fault::usage, "Unsupported",
                  file + " takes batches of " + std::to_string(batch.value) +
                      " samples; export it with a batch of 1, or with a dynamic one");
    takes_one_sample_ = !batch.symbolic();
    has_time_axis_ = inputs[0]->tensor.sizes.size() == 5;
    program_ = register_module("program", program::ShardedProgram(network, domain));
  }

  torch::Tensor forward(torch::Tensor const& inputs, torch::Tensor const& statics) override {
    bool const has_statics = statics.defined() && statics.size(1) > 0;
    torch::Tensor const x = has_statics ? with_statics(inputs, statics) : inputs;
    if (!takes_one_sample_ || x.size(0) == 1) return run(x.contiguous());
    std::vector<torch::Tensor> outputs;
    for (std::int64_t i = 0; i < x.size(0); ++i) outputs.push_back(run(x.slice(0, i, i + 1).contiguous()));
    return torch::cat(outputs);
  }

  /// The program with the present weights.
  void save(std::filesystem::path const& path) const { program_->serial()->save(path); }

 private:
  torch::Tensor run(torch::Tensor const& inputs) {
    torch::Tensor const output = program_->forward(has_time_axis_ ? inputs.unsqueeze(2) : inputs);
    return output.dim() == 5 ? output.squeeze(2) : output;
  }

  bool takes_one_sample_ = false;  ///< exported for a batch of 1
  bool has_time_axis_ = false;
  program::ShardedProgram program_{nullptr};
};

}  // namespace

std::shared_ptr<Model> make_program(ModelOptions const& options, nn::Domain const& domain) {
  return std::make_shared<ProgramModel>(options, domain);
}

void save_program(Model const& model, std::filesystem::path const& file) {
  auto const* const program = model.as<ProgramModel>();
  if (program == nullptr) throw Error("Unsupported", file.string() + ": only exported networks can be written as such");
  program->save(file);
}

}  // namespace graticule::models
