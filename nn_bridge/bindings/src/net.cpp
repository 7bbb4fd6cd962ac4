// SPDX-License-Identifier: BSD-3-Clause
// Loading, naming, saving and describing networks.
#include "net.hpp"

#include <graticule/nn_bridge/detail/types.hpp>
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/process_grid.hpp>
#include <graticule/program/detail/evaluation.hpp>
#include <graticule/program/detail/plan.hpp>
#include <graticule/program/detail/plan_layout.hpp>
#include <graticule/program/detail/program_access.hpp>

#include <algorithm>

namespace graticule::c {

namespace {

torch::ScalarType real_type(gr_type type) {
  switch (type) {
    case GR_F32: return torch::kFloat32;
    case GR_F64: return torch::kFloat64;
    case GR_BF16: return torch::kBFloat16;
    default:
      throw bad_argument("options.type is " + std::to_string(int(type)) +
                         "; networks compute in GR_F32, GR_F64 or GR_BF16");
  }
}

program::Program read_program(Comm const& comm, std::string const& path, gr_net_options const& options) {
  program::Program result(nullptr);
  run_agreed(comm, [&] {
    bool const has_type = options.has_type != 0;
    auto const type = real_type(has_type ? options.type : GR_F32);
    if (options.num_threads < 0) throw bad_argument("options.num_threads is " + std::to_string(options.num_threads));
    if (options.largest_gather < 0)
      throw bad_argument("options.largest_gather is " + std::to_string(options.largest_gather));
    result = program::Program(path);
    if (options.evaluation != 0) program::detail::ProgramAccess::evaluate(*result);
    if (has_type) result->to(type);
  });
  return result;
}

program::ShardOptions shard_options(gr_net_options const& options) {
  program::ShardOptions result;
  if (options.largest_gather > 0) result.largest_gather = options.largest_gather;
  return result;
}

/// The value of an argument, where it is one.
program::Value const* value_of(program::Graph const& graph, program::Argument const& argument) {
  if (auto const* tensor = std::get_if<program::TensorRef>(&argument)) return &graph.value(tensor->value);
  if (auto const* number = std::get_if<program::SymbolRef>(&argument)) return &graph.value(number->value);
  return nullptr;
}

Port port(program::Value const* value, std::size_t number, std::size_t first_ndim) {
  Port result;
  if (value == nullptr) {
    result.name = "output_" + std::to_string(number);
    return result;
  }
  result.name = value->name;
  result.meta = value->tensor;
  result.field = value->kind == program::Value::Kind::tensor && program::is_field(result.meta.sizes.size(), first_ndim);
  return result;
}

std::string size_text(program::Extent const& extent) {
  return std::to_string(extent.value) + (extent.symbolic() ? "*" : "");
}

}  // namespace

Net::Net(Comm const& of, std::string const& path, gr_net_options const& options)
    : comm(of),
      domain(comm, ProcessGrid{comm.num_ranks(), 1}),
      program(read_program(comm, path, options)),
      shards(nullptr),
      dropout_(options.dropout != 0) {
  written_ = program::detail::written_buffers(program->graph());
  run_agreed(comm, [&] { shards = program::ShardedProgram(program, domain, shard_options(options)); });
  auto const& exported = program->graph();
  first_field_ = *program::first_field(exported);
  auto const ids = program::user_inputs(exported);
  auto const first_ndim = exported.graph.value(ids[first_field_]).tensor.sizes.size();
  for (auto const id : ids) inputs.push_back(port(&exported.graph.value(id), inputs.size(), first_ndim));
  for (auto const& output : exported.outputs)
    if (output.kind == program::OutputSpec::Kind::user)
      outputs.push_back(port(value_of(exported.graph, output.value), outputs.size(), first_ndim));
  bound_.inputs.resize(inputs.size());
  bound_.outputs.resize(outputs.size());
  bound_.targets.resize(outputs.size());
  plan_as_exported();
  set_threads(comm, options.num_threads);
}

/// So that what cannot be divided is refused before a model has set up anything.
void Net::plan_as_exported() {
  std::vector<Sizes64> whole;
  for (auto const& input : inputs) {
    auto& sizes = whole.emplace_back();
    for (auto const& extent : input.meta.sizes) {
      if (extent.value <= 0) return;  // of a dynamic size the file need not have an example
      sizes.push_back(extent.value);
    }
  }
  auto const& first = whole[first_field_];
  auto const rows = balanced_cuts(first[first.size() - 2], comm.num_ranks()).sizes();
  shards->plan_for(whole, rows);
  planned_ = whole;
  planned_rows_ = rows;
}

void Net::require_idle() const {
  if (started_) throw Error("WrongState", "a run was started; call gr_net_finish first");
}

void Net::save(std::string const& path) const {
  require_same(comm, "ArgumentDisagreement", std::hash<std::string>()(path), "path '" + path + "'");
  run_agreed(comm, [&] {
    if (comm.rank() == 0) program->save(path);
  });
}

std::string Net::text() const {
  std::size_t num_parameters = 0;
  std::int64_t num_values = 0;
  for (auto const& parameter : program->parameters()) {
    ++num_parameters;
    num_values += parameter.numel();
  }
  std::string result = "network in " + to_string(nn::detail::dtype_of(program->dtype())) + " on " +
                       std::to_string(comm.num_ranks()) + " ranks, " + std::to_string(num_parameters) +
                       " parameters with " + std::to_string(num_values) + " values\n";
  auto const describe = [&](char const* kind, Port const& port, Arrays const& of) {
    result += std::string(kind) + " '" + port.name + "': " + std::string(program::name(port.meta.dtype)) + " [";
    for (std::size_t d = 0; d < port.meta.sizes.size(); ++d)
      result += (d > 0 ? ", " : "") + size_text(port.meta.sizes[d]);
    result += port.field ? "], rows are divided" : "], whole on every rank";
    if (!of.bound()) {
      result += ", not bound\n";
      return;
    }
    result += ", bound to " + std::to_string(of.views.size()) + (of.views.size() == 1 ? " array" : " arrays");
    if (of.movement != nullptr) {
      auto const counts = of.movement->plan.counts();
      result += ", per channel " + std::to_string(counts.receive_cells + counts.send_cells) +
                " cells from and to other ranks, " + std::to_string(counts.local_cells) + " on this one";
    }
    result += "\n";
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) describe("input", inputs[i], bound_.inputs[i]);
  for (std::size_t o = 0; o < outputs.size(); ++o) describe("output", outputs[o], bound_.outputs[o]);
  for (std::size_t o = 0; o < outputs.size(); ++o)
    if (bound_.targets[o].bound()) describe("target", outputs[o], bound_.targets[o]);
  if (ran_) {
    auto const& plan = shards->plan();
    auto const most = std::max_element(plan.received_bytes.begin(), plan.received_bytes.end());
    result += "a call: the busiest rank receives " + std::to_string(*most) + " bytes in " +
              std::to_string(plan.messages) + " messages\n";
  }
  return result;
}

}  // namespace graticule::c

using namespace graticule;
using namespace graticule::c;

gr_status gr_net_load(gr_comm const* comm, char const* path, gr_net_options const* options, gr_net** net) {
  return GR_TORCH_BODY({
    auto const of = comm_of(comm);
    auto const read = agreed(of, [&] {
      required(path, "path");
      required(net, "net");
      return options != nullptr ? read_structure(options, {"options"}) : gr_net_options(GR_NET_OPTIONS_INIT);
    });
    require_same(of, "ArgumentDisagreement", std::hash<std::string>()(path), "path '" + std::string(path) + "'");
    give(net, std::make_shared<Net>(of, path, read));
  });
}

gr_status gr_net_destroy(gr_net** net) {
  return GR_FREE({ free_handle(net, "net"); });
}

gr_status gr_net_num_inputs(gr_net const* net, int* num_inputs) {
  return GR_BODY({ required(num_inputs, "num_inputs") = int(required(net, "net").net->inputs.size()); });
}

gr_status gr_net_num_outputs(gr_net const* net, int* num_outputs) {
  return GR_BODY({ required(num_outputs, "num_outputs") = int(required(net, "net").net->outputs.size()); });
}

namespace {

std::string const& name_of(std::vector<Port> const& ports, int number, char const* what) {
  if (number < 0 || number >= int(ports.size()))
    throw bad_argument(std::string(what) + " is " + std::to_string(number) + " of " + std::to_string(ports.size()));
  return ports[std::size_t(number)].name;
}

}  // namespace

gr_status gr_net_input_name(gr_net const* net, int input, char const** name) {
  return GR_BODY({
    auto const& of = name_of(required(net, "net").net->inputs, input, "input");
    required(name, "name") = kept_text(of);
  });
}

gr_status gr_net_output_name(gr_net const* net, int output, char const** name) {
  return GR_BODY({
    auto const& of = name_of(required(net, "net").net->outputs, output, "output");
    required(name, "name") = kept_text(of);
  });
}

gr_status gr_net_text(gr_net const* net, char const** text) {
  return GR_TORCH_BODY({
    auto const& of = *required(net, "net").net;
    required(text, "text") = kept_text(of.text());
  });
}

gr_status gr_net_save(gr_net const* net, char const* path) {
  return GR_TORCH_BODY({
    auto const& of = *required(net, "net").net;
    run_agreed(of.comm, [&] { required(path, "path"); });
    of.save(path);
  });
}
