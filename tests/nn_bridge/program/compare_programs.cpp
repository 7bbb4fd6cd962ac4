// SPDX-License-Identifier: BSD-3-Clause
// Runs exported programs forward and backward and compares them with figures, many in one process:
//
//   mpiexec -n N compare_programs LIST RESULT
//
// LIST names folders, one a line. Each has a program.pt2 and figures.json, as check_operators.py writes them: inputs,
// outputs, and twice factors of the outputs with the gradients that they give, once random ones and once the same for
// all cells. On one rank the program runs as it is, on several in four divisions that cut whatever can be cut. Inputs
// and factors (the cotangents of the outputs) lie in memory in several ways, with a stride of 0 among them. RESULT gets
// a line of JSON per folder: its name, and either the largest relative difference with its place, or the error.
#include <graticule/nn_bridge/detail/reduce.hpp>
#include <graticule/partition/error.hpp>
#include <graticule/program/detail/plan_layout.hpp>
#include <graticule/program/detail/sizes.hpp>
#include <graticule/program/program.hpp>
#include <graticule/program/sharded_program.hpp>
#include <graticule/repartition/runtime.hpp>

#include "files.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iostream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace {

using graticule::Comm;
using graticule::Error;
using graticule::Index;
using graticule::ProcessGrid;
using Json = nlohmann::json;
using Folder = std::filesystem::path;
namespace nn = graticule::nn;
namespace program = graticule::program;

torch::Dtype type_of(std::string const& name) {
  for (auto const& [known, type] :
       std::initializer_list<std::pair<char const*, torch::Dtype>>{{"float32", torch::kFloat32},
                                                                   {"float64", torch::kFloat64},
                                                                   {"complex64", torch::kComplexFloat},
                                                                   {"complex128", torch::kComplexDouble},
                                                                   {"uint8", torch::kUInt8},
                                                                   {"int8", torch::kInt8},
                                                                   {"int16", torch::kInt16},
                                                                   {"int32", torch::kInt32},
                                                                   {"int64", torch::kInt64},
                                                                   {"bool", torch::kBool},
                                                                   {"float16", torch::kFloat16},
                                                                   {"bfloat16", torch::kBFloat16}}) {
    if (name == known) return type;
  }
  throw Error("BadInput", "type " + name);
}

// Undefined for null.
torch::Tensor read_tensor(Folder const& folder, Json const& entry) {
  if (entry.is_null()) return {};
  torch::Tensor tensor =
      torch::empty(entry.at("shape").get<std::vector<std::int64_t>>(), type_of(entry.at("dtype").get<std::string>()));
  std::string const bytes = graticule::test::read_bytes(folder / entry.at("file").get<std::string>());
  if (bytes.size() != static_cast<std::size_t>(tensor.nbytes())) throw Error("BadInput", entry.dump());
  std::copy(bytes.begin(), bytes.end(), static_cast<char*>(tensor.data_ptr()));
  return tensor;
}

std::vector<torch::Tensor> read_tensors(Folder const& folder, Json const& entries) {
  std::vector<torch::Tensor> tensors;
  for (Json const& entry : entries) tensors.push_back(read_tensor(folder, entry));
  return tensors;
}

enum class InMemory { contiguous, exchanged, channels_last, rows_exchanged, sliced, one_number };

// The same values, stored in another way.
torch::Tensor stored(torch::Tensor const& x, InMemory way) {
  if (!x.defined()) return x;
  std::int64_t const ndim = x.dim();
  switch (way) {
    case InMemory::contiguous: return x.contiguous();
    case InMemory::exchanged:
      return ndim < 2 ? x : x.transpose(ndim > 2 ? 1 : 0, -1).contiguous().transpose(ndim > 2 ? 1 : 0, -1);
    case InMemory::rows_exchanged: return ndim < 2 ? x : x.transpose(-2, -1).contiguous().transpose(-2, -1);
    case InMemory::channels_last:  // strides as of a field that was flattened, exchanged and shaped again
      return ndim < 3 ? x : x.flatten(2).transpose(1, 2).contiguous().transpose(1, 2).view(x.sizes());
    case InMemory::sliced: {
      if (ndim == 0) return x;
      torch::Tensor wide = torch::full({}, 7.5).to(x.scalar_type()).expand(x.sizes()).clone();
      wide = torch::stack({x, wide}, -1);
      return wide.select(-1, 0);
    }
    case InMemory::one_number: return ndim == 0 || x.numel() == 0 ? x : x.flatten()[0].clone().expand(x.sizes());
  }
  return x;
}

struct Case {
  std::string name;
  std::vector<torch::Tensor> inputs;
  std::vector<torch::Tensor> outputs;
  // Of random factors, and of equal ones.
  std::array<std::vector<torch::Tensor>, 2> factors;
  std::array<std::vector<torch::Tensor>, 2> input_gradients;
  std::array<std::map<std::string, torch::Tensor>, 2> parameter_gradients;
};

Case read_case(Folder const& folder) {
  Json const json = Json::parse(graticule::test::read_bytes(folder / "figures.json"));
  Case result{folder.filename().string(),
              read_tensors(folder, json.at("inputs")),
              read_tensors(folder, json.at("outputs")),
              {},
              {},
              {}};
  for (std::size_t set : {0U, 1U}) {
    Json const& figures = json.at("sets").at(set);
    result.factors[set] = read_tensors(folder, figures.at("factors"));
    result.input_gradients[set] = read_tensors(folder, figures.at("input_gradients"));
    for (auto const& [name, entry] : figures.at("parameter_gradients").items())
      result.parameter_gradients[set][name] = read_tensor(folder, entry);
  }
  return result;
}

struct Division {
  std::string name;
  bool columns = false;
  std::vector<std::int64_t> bounds;  // of the first field along the axis that is cut
};

std::vector<Division> divisions(int num_ranks, std::int64_t rows, std::int64_t columns) {
  std::vector<Division> result;
  for (bool const by_columns : {false, true}) {
    std::int64_t const extent = by_columns ? columns : rows;
    std::vector<std::int64_t> balanced{0};
    std::vector<std::int64_t> uneven{0};
    for (int rank = 1; rank <= num_ranks; ++rank) {
      balanced.push_back(extent * rank / num_ranks);
      // All but the first rank have one row, or none where there are not enough.
      uneven.push_back(std::max<std::int64_t>(0, extent - num_ranks + rank));
    }
    std::string const axis = by_columns ? "columns" : "rows";
    result.push_back({"balanced " + axis, by_columns, balanced});
    result.push_back({"uneven " + axis, by_columns, uneven});
  }
  return result;
}

double largest_of(torch::Tensor const& x) {
  if (x.numel() == 0) return 0;
  torch::Tensor const sizes = x.detach().abs().to(torch::kDouble);
  return sizes.masked_fill(sizes.isfinite().logical_not(), 0).max().item<double>();
}

struct Worst {
  double largest = 0;
  std::string at;

  void note(torch::Tensor const& found, torch::Tensor const& wanted, double scale, std::string const& where) {
    double gap = INFINITY;
    if (found.sizes() == wanted.sizes()) {
      auto const wide = [](torch::Tensor const& x) {
        return x.detach().to(x.is_complex() ? torch::kComplexDouble : torch::kFloat64);
      };
      torch::Tensor const one = wide(found);
      torch::Tensor const other = wide(wanted);
      torch::Tensor const same = (one == other).logical_or(one.isnan().logical_and(other.isnan()));
      gap = one.numel() == 0 ? 0 : (one - other).masked_fill(same, 0).abs().max().item<double>();
      gap = gap == 0 ? 0 : std::isnan(gap) ? INFINITY : gap / scale;
    }
    if (gap > largest) *this = {gap, where};
  }
};

// One program in one division: null for one rank.
class Comparison {
 public:
  Comparison(Case const& figures, program::Program const& network, Comm const& comm, Division const* division)
      : case_(figures), network_(network), comm_(comm), division_(division) {
    if (division_ != nullptr) {
      int const n = comm.num_ranks();
      domain_.emplace(comm, division_->columns ? ProcessGrid{1, n} : ProcessGrid{n, 1});
      shards_ = program::ShardedProgram(
          network_, *domain_, program::ShardOptions{.costs = {.message = 0, .replicated = 1000, .overlap = 0}});
    }
  }

  void run(std::size_t set, InMemory inputs_in, InMemory factors_in, Worst& worst) {
    auto const first = program::first_field(network_->graph());
    std::vector<torch::Tensor> inputs;
    std::vector<bool> cut;
    for (torch::Tensor const& whole : case_.inputs) {
      cut.push_back(division_ != nullptr &&
                    program::is_field(std::size_t(whole.dim()), std::size_t(case_.inputs.at(*first).dim())));
      torch::Tensor x = stored((cut.back() ? own_part(whole) : whole).detach(), inputs_in);
      x = x.detach();
      x.set_requires_grad(torch::isFloatingType(x.scalar_type()) || torch::isComplexType(x.scalar_type()));
      inputs.push_back(x);
    }
    network_->zero_grad();
    auto const outputs = shards_ ? shards_->run(inputs) : network_->run(inputs);
    std::string const where = (division_ != nullptr ? division_->name + ", " : "") + "stored as " +
                              std::to_string(int(inputs_in)) + " and " + std::to_string(int(factors_in)) + ": ";
    std::vector<torch::Tensor> ends;
    std::vector<torch::Tensor> cotangents;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].defined() || !case_.outputs.at(i).defined()) continue;
      bool const is_cut = output_is_cut(i);
      torch::Tensor const wanted = is_cut ? own_part(case_.outputs[i]) : case_.outputs[i];
      worst.note(outputs[i], wanted, std::max(largest_of(case_.outputs[i]), 1e-8),
                 where + "output " + std::to_string(i));
      torch::Tensor factors = case_.factors[set].at(i);
      if (!outputs[i].requires_grad() || !factors.defined()) continue;
      factors = is_cut ? own_part(factors) : comm_.rank() == 0 ? factors : torch::zeros_like(factors);
      ends.push_back(outputs[i]);
      cotangents.push_back(stored(factors, factors_in));
    }
    if (ends.empty()) return;
    torch::autograd::backward(ends, cotangents);
    compare_gradients(set, inputs, cut, where, worst);
  }

 private:
  [[nodiscard]] torch::Tensor own_part(torch::Tensor const& whole) const {
    std::int64_t const axis = whole.dim() - (division_->columns ? 1 : 2);
    std::int64_t const extent = whole.size(axis);
    bool const alike = division_->bounds.back() == extent;
    program::Cut const cut =
        alike ? program::Cut{axis, extent, division_->bounds} : program::Cut::balanced(axis, extent, comm_.num_ranks());
    auto const own = cut.owned_indices(extent, comm_.rank());
    return whole.index_select(axis, torch::tensor(own, torch::kLong));
  }

  [[nodiscard]] bool output_is_cut(std::size_t output) const {
    if (!shards_) return false;
    std::size_t tensor = 0;
    std::size_t user = 0;
    for (auto const& spec : network_->graph().outputs) {
      bool const is_tensor = std::holds_alternative<program::TensorRef>(spec.value);
      if (spec.kind == program::OutputSpec::Kind::user) {
        if (user == output) return is_tensor && shards_->plan().outputs.at(tensor).to.has_value();
        ++user;
      }
      tensor += is_tensor ? 1 : 0;
    }
    return false;
  }

  [[nodiscard]] torch::Tensor summed(torch::Tensor const& gradient, torch::Tensor const& of) const {
    torch::Tensor total = gradient.defined() ? gradient.detach().contiguous().clone()
                                             : torch::zeros_like(of, at::MemoryFormat::Contiguous);
    if (shards_) nn::detail::sum_over(comm_, total);
    return total;
  }

  void compare_gradients(std::size_t set, std::vector<torch::Tensor> const& inputs, std::vector<bool> const& cut,
                         std::string const& where, Worst& worst) const {
    double scale = 0;
    for (auto const& wanted : case_.input_gradients[set])
      scale = wanted.defined() ? std::max(scale, largest_of(wanted)) : scale;
    for (auto const& [name, wanted] : case_.parameter_gradients[set])
      scale = wanted.defined() ? std::max(scale, largest_of(wanted)) : scale;
    scale = std::max(scale, 1e-3);  // gradients that vanish but for rounding: the factors are near 1
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].requires_grad()) continue;
      torch::Tensor const& known = case_.input_gradients[set].at(i);
      torch::Tensor const wanted = known.defined() ? known : torch::zeros_like(case_.inputs[i]);
      torch::Tensor const grad = inputs[i].grad();
      torch::Tensor const found =
          cut[i] ? (grad.defined() ? grad : torch::zeros_like(inputs[i])) : summed(grad, wanted);
      worst.note(found, cut[i] ? own_part(wanted) : wanted, std::max(largest_of(wanted), scale / 100),
                 where + "gradient of input " + std::to_string(i));
    }
    for (auto const& [name, known] : case_.parameter_gradients[set]) {
      torch::Tensor const parameter = network_->parameter(name);
      torch::Tensor const wanted = known.defined() ? known : torch::zeros_like(parameter);
      worst.note(summed(parameter.grad(), wanted), wanted, std::max(largest_of(wanted), scale / 100),
                 where + "gradient of " + name);
    }
  }

  Case const& case_;
  program::Program network_;
  Comm comm_;
  Division const* division_;
  std::optional<nn::Domain> domain_;
  program::ShardedProgram shards_{nullptr};
};

void run_all(Comparison& comparison, Worst& worst) {
  using enum InMemory;
  comparison.run(0, contiguous, contiguous, worst);
  for (InMemory const way : {exchanged, channels_last, rows_exchanged, sliced}) {
    comparison.run(0, contiguous, way, worst);
    comparison.run(0, way, contiguous, worst);
    comparison.run(0, way, way, worst);
  }
  comparison.run(1, contiguous, one_number, worst);
  comparison.run(1, channels_last, one_number, worst);
}

Json compare(Folder const& folder, Comm const& comm) {
  Case const figures = read_case(folder);
  program::Program network(folder / "program.pt2");
  Worst worst;
  int count = 0;
  if (comm.num_ranks() == 1) {
    Comparison comparison(figures, network, comm, nullptr);
    run_all(comparison, worst);
    ++count;
  } else {
    auto const first = program::first_field(network->graph());
    if (!first || figures.inputs.at(*first).dim() < 2) return {{"refused", "no field"}};
    auto const& x = figures.inputs[*first];
    for (Division const& division : divisions(comm.num_ranks(), x.size(-2), x.size(-1))) {
      Comparison comparison(figures, network, comm, &division);
      run_all(comparison, worst);
      ++count;
    }
  }
  std::array<double, 1> largest{worst.largest};
  comm.max(std::span<double>(largest));
  return {{"worst", std::isinf(largest[0]) ? 1e300 : largest[0]},
          {"at", worst.largest == largest[0] ? worst.at : std::string("another rank")},
          {"divisions", count}};
}

}  // namespace

int main(int argc, char** argv) {
  graticule::Runtime const runtime(argc, argv);
  torch::set_num_threads(1);
  Comm const comm = Comm::world();
  if (argc != 3) {
    std::cerr << "compare_programs LIST RESULT\n";
    return 2;
  }
  std::istringstream list(graticule::test::read_bytes(argv[1]));
  std::ofstream result;
  if (comm.rank() == 0) result.open(argv[2]);
  for (std::string folder; std::getline(list, folder);) {
    Json line;
    try {
      line = compare(folder, comm);
    } catch (Error const& error) {
      line = {{"refused", error.rule() + ": " + error.text()}};
    } catch (std::exception const& error) {
      line = {{"broken", std::string(error.what()).substr(0, 300)}};
    }
    comm.renew();  // an error in the middle of a call leaves the ranks at different places
    line["name"] = std::filesystem::path(folder).filename().string();
    if (comm.rank() == 0) result << line.dump() << std::endl;
  }
  return 0;
}
