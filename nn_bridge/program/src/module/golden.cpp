// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/error.hpp>
#include <graticule/program/golden.hpp>
#include <graticule/program/sizes.hpp>

#include "run/conversion.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>
#include <variant>

namespace graticule::program {

namespace {

using GoldenJson = nlohmann::json;

[[noreturn]] void bad_golden(std::filesystem::path const& path, std::string const& why) {
  throw Error(Fault::input, "BadInput", path.string() + ": " + why);
}

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
      bad_golden(path, "its shape is no shape");
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

void note(Difference& difference, double value, std::string const& at) {
  // A value that is not a number is the largest difference.
  if (!(value <= difference.largest)) {
    difference = {std::isnan(value) ? INFINITY : value, at};
  }
}

double relative(torch::Tensor const& found, torch::Tensor const& wanted) {
  if (found.sizes() != wanted.sizes()) {
    return INFINITY;
  }
  if (found.numel() == 0) {
    return 0;
  }
  double const scale = wide(wanted).abs().max().item<double>();
  double const largest = (wide(found) - wide(wanted)).abs().max().item<double>();
  return largest == 0 ? 0 : largest / scale;
}

struct Norm {
  std::string name;
  double wanted;
  double found;
  double found_real;  // of the real parts
};

Norm norm_of(std::string const& name, torch::Tensor const& gradient, nlohmann::json const& wanted) {
  Norm norm{name, wanted.is_null() ? 0 : wanted.get<double>(), 0, 0};
  if (gradient.defined()) {
    torch::Tensor const values = wide(gradient);
    norm.found = values.norm().item<double>();
    norm.found_real = values.is_complex() ? torch::real(values).norm().item<double>() : norm.found;
  }
  return norm;
}

Difference compare_norms(std::vector<Norm> const& norms) {
  double largest = 0;
  for (Norm const& norm : norms) {
    largest = std::max(largest, norm.wanted);
  }
  Difference difference;
  for (Norm const& norm : norms) {
    double const gap = std::min(std::abs(norm.found - norm.wanted), std::abs(norm.found_real - norm.wanted));
    note(difference, gap == 0 ? 0 : gap / std::max(norm.wanted, small_norm * largest), norm.name);
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
    input.set_requires_grad(input.is_floating_point() || input.is_complex());
    inputs.push_back(input);
  }
  return inputs;
}

std::vector<Norm> parameter_norms(Program const& program, GoldenJson const& wanted) {
  std::vector<Norm> norms;
  for (auto const& [name, norm] : wanted.items()) {
    norms.push_back(norm_of(name, program->parameter(name).grad(), norm));
  }
  return norms;
}

std::vector<Norm> input_norms(std::vector<torch::Tensor> const& inputs, GoldenJson const& golden) {
  std::vector<Norm> norms;
  auto const& wanted = golden.at("input_gradient_norms");
  for (std::size_t i = 0; i < wanted.size() && i < inputs.size(); ++i) {
    norms.push_back(norm_of(golden.at("inputs").at(i).at("name").get<std::string>(), inputs[i].grad(), wanted[i]));
  }
  return norms;
}

GoldenDifferences compare(Program program, std::filesystem::path const& folder, GoldenJson const& golden) {
  if (golden.contains("loss_is") && golden["loss_is"] != "mean of the squares of output 0") {
    bad_golden(folder / "golden.json",
               "its loss is " + golden["loss_is"].dump() + ", not the mean of the squares of output 0");
  }
  std::vector<torch::Tensor> const inputs = read_inputs(program, folder, golden);
  program->zero_grad();
  std::vector<torch::Tensor> const outputs = program->run(inputs);
  if (outputs.size() != golden.at("outputs").size() || outputs.empty() || !outputs[0].defined()) {
    bad_golden(folder / "golden.json", "it has " + std::to_string(golden.at("outputs").size()) +
                                           " outputs, the program " + std::to_string(outputs.size()));
  }
  GoldenDifferences differences;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    GoldenJson const& entry = golden.at("outputs").at(i);
    note(differences.outputs, relative(outputs[i], read_tensor(folder, entry)),
         "output " + entry.at("name").get<std::string>());
  }
  torch::Tensor const loss = (outputs[0].is_complex() ? torch::view_as_real(outputs[0]) : outputs[0]).square().mean() *
                             (outputs[0].is_complex() ? 2 : 1);
  loss.backward();
  auto const wanted_loss = golden.at("loss").get<double>();
  note(differences.loss, std::abs(loss.item<double>() - wanted_loss) / std::abs(wanted_loss), "loss");
  differences.parameter_gradients = compare_norms(parameter_norms(program, golden.at("parameter_gradient_norms")));
  differences.input_gradients = compare_norms(input_norms(inputs, golden));
  differences.num_outputs = static_cast<int>(outputs.size());
  differences.num_parameters = static_cast<int>(golden.at("parameter_gradient_norms").size());
  differences.num_inputs = static_cast<int>(inputs.size());
  return differences;
}

}  // namespace

double GoldenDifferences::largest() const noexcept {
  return std::max({outputs.largest, loss.largest, parameter_gradients.largest, input_gradients.largest});
}

GoldenDifferences compare_with_golden(Program program, std::filesystem::path const& folder) {
  std::filesystem::path const path = folder / "golden.json";
  std::string const text = read_file(path);
  try {
    return compare(program, folder, GoldenJson::parse(text));
  } catch (GoldenJson::exception const& error) {
    bad_golden(path, error.what());
  }
}

}  // namespace graticule::program
