// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/reduce.hpp>
#include <graticule/nn_bridge/loss/reduce_loss.hpp>
#include <graticule/partition/error.hpp>
#include <graticule/program/detail/conversion.hpp>
#include <graticule/program/detail/golden.hpp>
#include <graticule/program/detail/plan_layout.hpp>
#include <graticule/program/detail/sizes.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace graticule::program {

namespace {

using GoldenJson = nlohmann::json;

[[noreturn]] void bad_golden(std::filesystem::path const& path, std::string const& why) {
  throw Error(Fault::input, "BadInput", path.string() + ": " + why);
}

// Python's json writes values that are no numbers, and infinite ones, as words that JSON does not have: as texts then.
std::string with_quoted_words(std::string const& text) {
  std::string result;
  bool in_text = false;
  for (std::size_t at = 0; at < text.size();) {
    std::string_view const rest = std::string_view(text).substr(at);
    std::size_t length = 1;
    if (in_text) {
      length = rest[0] == '\\' && rest.size() > 1 ? 2 : 1;
      in_text = rest[0] != '"';
    } else if (rest[0] == '"') {
      in_text = true;
    } else {
      for (std::string_view const word : {"NaN", "-Infinity", "Infinity"}) {
        if (rest.starts_with(word)) {
          result.append(1, '"').append(word).append(1, '"');
          length = 0;
          at += word.size();
          break;
        }
      }
    }
    result.append(rest.substr(0, length));
    at += length;
  }
  return result;
}

double number_of(GoldenJson const& json) {
  if (json == "NaN") {
    return std::nan("");
  }
  if (json == "Infinity" || json == "-Infinity") {
    return json == "Infinity" ? INFINITY : -INFINITY;
  }
  return json.get<double>();
}

bool alike(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

std::string read_file(std::filesystem::path const& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw Error(Fault::input, "NoSuchFile", path.string() + " does not exist or cannot be read");
  }
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

torch::Tensor read_tensor(std::filesystem::path const& folder, GoldenJson const& entry) {
  static std::map<std::string, torch::Dtype> const types{{"float16", torch::kFloat16},
                                                         {"bfloat16", torch::kBFloat16},
                                                         {"float32", torch::kFloat32},
                                                         {"float64", torch::kFloat64},
                                                         {"complex64", torch::kComplexFloat},
                                                         {"complex128", torch::kComplexDouble},
                                                         {"uint8", torch::kUInt8},
                                                         {"int8", torch::kInt8},
                                                         {"int16", torch::kInt16},
                                                         {"int32", torch::kInt32},
                                                         {"int64", torch::kInt64},
                                                         {"bool", torch::kBool}};
  std::filesystem::path const path = folder / entry.at("file").get<std::string>();
  auto const type = types.find(entry.at("dtype").get<std::string>());
  if (type == types.end()) {
    bad_golden(path, "its type " + entry.at("dtype").dump() + " is not known");
  }
  auto const sizes = entry.at("shape").get<std::vector<std::int64_t>>();
  std::string const bytes = read_file(path);
  auto const item = static_cast<std::int64_t>(torch::elementSize(type->second));
  std::int64_t needed = item;
  for (std::int64_t const size : sizes) {
    if (size < 0 || __builtin_mul_overflow(needed, size, &needed)) {
      bad_golden(path, "its shape is not valid");
    }
  }
  if (needed != static_cast<std::int64_t>(bytes.size())) {
    bad_golden(path, "it has " + std::to_string(bytes.size()) + " bytes, its shape needs " + std::to_string(needed));
  }
  torch::Tensor tensor = torch::empty(sizes, type->second);
  std::copy(bytes.begin(), bytes.end(), static_cast<char*>(tensor.data_ptr()));
  return tensor;
}

torch::Tensor wide(torch::Tensor const& tensor) {
  return tensor.detach().cpu().to(tensor.is_complex() ? torch::kComplexDouble : torch::kFloat64);
}

// Norms below this part of the largest one of their kind are rounding errors of sums that are exactly zero.
constexpr double small_norm = 1e-2;
// And so are norms below this part of the loss: where all gradients vanish, none is the largest.
constexpr double rounded_away = 1e-4;

void note(Difference& difference, double value, std::string const& at) {
  // A value that is not a number is the largest difference.
  if (!(value <= difference.largest)) {
    difference = {std::isnan(value) ? INFINITY : value, at};
  }
}

// Of the rows and columns of a field; none for a tensor that is whole on every rank.
using FieldCuts = std::vector<Cut>;

// How the tensors of a comparison are divided among ranks; alone by default.
struct Division {
  std::optional<nn::Domain> domain;
  ShardedProgramImpl* shards = nullptr;
  BlockCuts cuts;  // of the first field

  [[nodiscard]] bool alone() const { return !domain || domain->comm().num_ranks() == 1; }

  [[nodiscard]] FieldCuts of(at::IntArrayRef shape) const {
    auto const ndim = static_cast<std::int64_t>(shape.size());
    std::array const bounds{&cuts.rows, &cuts.columns};
    std::array const parts{domain->grid().extent(0), domain->grid().extent(1)};
    bool alike = true;
    for (std::size_t i : {0U, 1U}) {
      alike = alike && (parts[i] == 1 || bounds[i]->back() == shape[shape.size() - 2 + i]);
    }
    FieldCuts result;
    for (std::size_t i : {0U, 1U}) {
      std::int64_t const axis = ndim - 2 + static_cast<std::int64_t>(i);
      std::int64_t const extent = shape[shape.size() - 2 + i];
      result.push_back(alike && parts[i] > 1 ? Cut{axis, extent, *bounds[i]} : Cut::balanced(axis, extent, parts[i]));
    }
    return result;
  }

  // This rank's part.
  [[nodiscard]] torch::Tensor part(torch::Tensor whole, FieldCuts const& field) const {
    for (Cut const& cut : field) {
      bool const is_row = cut.axis == whole.dim() - 2;
      auto const own =
          cut.owned_indices(whole.size(cut.axis), is_row ? domain->latitude_part() : domain->longitude_part());
      whole = whole.index_select(cut.axis, torch::tensor(own, torch::kLong));
    }
    return whole;
  }

  [[nodiscard]] double largest(double value) const {
    if (!alone()) {
      std::array<double, 1> values{value};
      domain->comm().max(std::span<double>(values));
      return values[0];
    }
    return value;
  }

  // Of the ranks' gradients; undefined where no rank has one.
  [[nodiscard]] torch::Tensor sum(torch::Tensor const& gradient, torch::Tensor const& of) const {
    if (alone() || largest(gradient.defined() ? 1 : 0) == 0) {
      return gradient;
    }
    torch::Tensor total = gradient.defined() ? wide(gradient).contiguous().clone()
                                             : torch::zeros_like(wide(of), at::MemoryFormat::Contiguous);
    nn::detail::sum_over(domain->comm(), total);
    return total;
  }
};

double relative(torch::Tensor const& found, torch::Tensor const& wanted, FieldCuts const& cuts,
                Division const& division) {
  torch::Tensor const own = division.part(wanted, cuts);
  double gap = 0;
  if (found.sizes() != own.sizes()) {
    gap = INFINITY;
  } else if (own.numel() > 0) {
    torch::Tensor const one = wide(found);
    torch::Tensor const other = wide(own);
    torch::Tensor const same = (one == other).logical_or(one.isnan().logical_and(other.isnan()));
    gap = (one - other).masked_fill(same, 0).abs().max().item<double>();
    gap = std::isnan(gap) ? INFINITY : gap;
  }
  gap = division.largest(gap);
  if (gap == 0 || wanted.numel() == 0) {
    return gap;
  }
  torch::Tensor const sizes = wide(wanted).abs();
  return gap / sizes.masked_fill(sizes.isfinite().logical_not(), 0).max().item<double>();
}

struct Norm {
  std::string name;
  double wanted;
  double found;
  double found_real;  // of the real parts
  double of_tensor;   // of which this is the gradient
};

Norm norm_of(std::string const& name, torch::Tensor const& gradient, double of_tensor, GoldenJson const& wanted) {
  Norm norm{name, wanted.is_null() ? 0 : number_of(wanted), 0, 0, of_tensor};
  if (gradient.defined()) {
    torch::Tensor const values = wide(gradient);
    norm.found = values.norm().item<double>();
    norm.found_real = values.is_complex() ? torch::real(values).norm().item<double>() : norm.found;
  }
  return norm;
}

// A gradient as large as the loss changes it by itself when the tensor changes by itself; of tensors smaller than 1,
// by 1.
double natural_norm(double loss, double of_tensor) { return std::abs(loss) / std::max(of_tensor, 1.0); }

Difference compare_norms(std::vector<Norm> const& norms, double loss) {
  double largest = 0;
  for (Norm const& norm : norms) {
    largest = std::isfinite(norm.wanted) ? std::max(largest, norm.wanted) : largest;
  }
  Difference difference;
  for (Norm const& norm : norms) {
    double const gap = alike(norm.found, norm.wanted)
                           ? 0
                           : std::min(std::abs(norm.found - norm.wanted), std::abs(norm.found_real - norm.wanted));
    double const natural = std::isfinite(loss) ? natural_norm(loss, norm.of_tensor) : 0;
    note(difference, gap == 0 ? 0 : gap / std::max({norm.wanted, small_norm * largest, rounded_away * natural}),
         norm.name);
  }
  return difference;
}

std::vector<torch::Tensor> read_inputs(Program const& program, std::filesystem::path const& folder,
                                       GoldenJson const& golden) {
  ExportedGraph const& graph = program->graph();
  std::vector<ValueId> const ids = user_inputs(graph);
  detail::Conversion const conversion{program->exported_dtype(), program->dtype(), program->device()};
  std::vector<torch::Tensor> inputs;
  for (GoldenJson const& entry : golden.at("inputs")) {
    torch::Tensor input = read_tensor(folder, entry);
    if (inputs.size() < ids.size()) {
      input = input.to(program->device(), conversion(graph.graph.value(ids[inputs.size()]).tensor.dtype));
    }
    inputs.push_back(input);
  }
  return inputs;
}

// Fields as the comparison cuts them.
std::vector<FieldCuts> input_cuts(std::vector<torch::Tensor> const& inputs, Program const& program,
                                  Division const& division) {
  std::vector<FieldCuts> cuts(inputs.size());
  auto const first = first_field(program->graph());
  if (!division.domain || !first || *first >= inputs.size()) {
    return cuts;
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (is_field(static_cast<std::size_t>(inputs[i].dim()), static_cast<std::size_t>(inputs[*first].dim()))) {
      cuts[i] = division.of(inputs[i].sizes());
    }
  }
  return cuts;
}

// Of the user's outputs, in order.
std::vector<FieldCuts> output_cuts(Program const& program, Division const& division) {
  std::vector<FieldCuts> cuts;
  std::size_t tensor = 0;
  for (OutputSpec const& output : program->graph().outputs) {
    bool const is_tensor = std::holds_alternative<TensorRef>(output.value);
    if (output.kind == OutputSpec::Kind::user) {
      cuts.emplace_back();
      if (is_tensor && division.shards != nullptr) {
        Plan const& plan = division.shards->plan();
        Transfer const& way = plan.outputs.at(tensor);
        cuts.back() = way.to ? division.of(plan.shapes.at(static_cast<std::size_t>(way.value))) : FieldCuts();
      }
    }
    tensor += is_tensor ? 1 : 0;
  }
  return cuts;
}

std::vector<Norm> parameter_norms(Program const& program, GoldenJson const& wanted, Division const& division) {
  std::vector<Norm> norms;
  for (auto const& [name, norm] : wanted.items()) {
    torch::Tensor const parameter = program->parameter(name);
    norms.push_back(
        norm_of(name, division.sum(parameter.grad(), parameter), wide(parameter).norm().abs().item<double>(), norm));
  }
  return norms;
}

std::vector<Norm> input_norms(std::vector<torch::Tensor> const& inputs, std::vector<FieldCuts> const& cuts,
                              GoldenJson const& golden, Division const& division) {
  std::vector<Norm> norms;
  auto const& wanted = golden.at("input_gradient_norms");
  for (std::size_t i = 0; i < wanted.size() && i < inputs.size(); ++i) {
    torch::Tensor gradient = inputs[i].grad();
    double size = wide(inputs[i]).norm().abs().item<double>();
    if (!cuts[i].empty()) {
      // Of cut fields each rank has its own cells: the norm of the norms.
      torch::Tensor const own = gradient.defined() ? wide(gradient).norm().square() : torch::zeros({}, torch::kDouble);
      gradient = division.sum(torch::real(own), own).sqrt();
      size = division.largest(size);
    } else {
      gradient = division.sum(gradient, inputs[i]);
    }
    norms.push_back(norm_of(golden.at("inputs").at(i).at("name").get<std::string>(), gradient, size, wanted[i]));
  }
  return norms;
}

// This rank's part of the mean of the squares.
torch::Tensor mean_of_squares(torch::Tensor const& output, FieldCuts const& cuts, torch::Tensor const& whole,
                              Division const& division) {
  torch::Tensor const squares = (output.is_complex() ? torch::view_as_real(output) : output).square();
  if (division.alone()) {
    return squares.mean() * (output.is_complex() ? 2 : 1);
  }
  double const copies = !cuts.empty() ? 1 : division.domain->comm().num_ranks();
  return nn::reduce_loss(squares.sum() / (static_cast<double>(whole.numel()) * copies), *division.domain);
}

using Network = std::function<std::vector<torch::Tensor>(std::vector<torch::Tensor> const&)>;

GoldenDifferences compare(Program program, Network const& network, Division const& division,
                          std::filesystem::path const& folder, GoldenJson const& golden) {
  if (golden.contains("loss_is") && golden["loss_is"] != "mean of the squares of output 0") {
    bad_golden(folder / "golden.json",
               "its loss is " + golden["loss_is"].dump() + ", not the mean of the squares of output 0");
  }
  std::vector<torch::Tensor> inputs = read_inputs(program, folder, golden);
  auto const cuts = input_cuts(inputs, program, division);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inputs[i] = division.part(inputs[i], cuts[i]);
    inputs[i].set_requires_grad(inputs[i].is_floating_point() || inputs[i].is_complex());
  }
  program->zero_grad();
  std::vector<torch::Tensor> const outputs = network(inputs);
  if (outputs.size() != golden.at("outputs").size()) {
    bad_golden(folder / "golden.json", "it has " + std::to_string(golden.at("outputs").size()) +
                                           " outputs, the program " + std::to_string(outputs.size()));
  }
  if (outputs.empty() || !outputs[0].defined() || !outputs[0].requires_grad()) {
    bad_golden(folder / "golden.json", "its loss is the mean of the squares of output 0, which has no gradient");
  }
  GoldenDifferences differences;
  differences.wide_figures = true;
  auto const placements = output_cuts(program, division);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    GoldenJson const& entry = golden.at("outputs").at(i);
    if (entry.is_null() != !outputs[i].defined()) {
      bad_golden(folder / "golden.json", "output " + std::to_string(i) + " is None there or in the program alone");
    }
    if (entry.is_null()) {
      continue;
    }
    differences.wide_figures = differences.wide_figures && entry.at("dtype") == "float64";
    note(differences.outputs, relative(outputs[i], read_tensor(folder, entry), placements[i], division),
         "output " + entry.at("name").get<std::string>());
  }
  torch::Tensor const loss =
      mean_of_squares(outputs[0], placements[0], read_tensor(folder, golden.at("outputs").at(0)), division);
  loss.backward();
  auto const wanted_loss = number_of(golden.at("loss"));
  auto const found_loss = loss.item<double>();
  note(differences.loss,
       alike(found_loss, wanted_loss) ? 0 : std::abs(found_loss - wanted_loss) / std::abs(wanted_loss), "loss");
  differences.parameter_gradients =
      compare_norms(parameter_norms(program, golden.at("parameter_gradient_norms"), division), wanted_loss);
  differences.input_gradients = compare_norms(input_norms(inputs, cuts, golden, division), wanted_loss);
  differences.num_outputs = static_cast<int>(outputs.size());
  differences.num_parameters = static_cast<int>(golden.at("parameter_gradient_norms").size());
  differences.num_inputs = static_cast<int>(inputs.size());
  return differences;
}

GoldenDifferences compare_file(Program const& program, Network const& network, Division const& division,
                               std::filesystem::path const& folder) {
  std::filesystem::path const path = folder / "golden.json";
  std::string const text = read_file(path);
  try {
    return compare(program, network, division, folder, GoldenJson::parse(with_quoted_words(text)));
  } catch (GoldenJson::exception const& error) {
    bad_golden(path, error.what());
  }
}

}  // namespace

double GoldenDifferences::largest() const noexcept {
  return std::max({outputs.largest, loss.largest, parameter_gradients.largest, input_gradients.largest});
}

GoldenDifferences compare_with_golden(Program program, std::filesystem::path const& folder) {
  auto const run = [&program](std::vector<torch::Tensor> const& inputs) { return program->run(inputs); };
  return compare_file(program, run, {}, folder);
}

GoldenDifferences compare_with_golden(ShardedProgram shards, nn::Domain const& domain, BlockCuts const& cuts,
                                      std::filesystem::path const& folder) {
  Division const division{domain, shards.get(), cuts};
  auto const run = [&shards](std::vector<torch::Tensor> const& inputs) { return shards->run(inputs); };
  return compare_file(shards->serial(), run, division, folder);
}

}  // namespace graticule::program
