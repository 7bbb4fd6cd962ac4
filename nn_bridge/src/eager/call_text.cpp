// SPDX-License-Identifier: BSD-3-Clause
#include "call_text.hpp"

#include <graticule/partition/error.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>

namespace graticule::nn::detail {

namespace {

using Json = nlohmann::json;
using ScalarType = torch::ScalarType;

/// Numbers that `torch.export` gives element types.
int number_of(ScalarType type) {
  switch (type) {
    case torch::kByte: return 1;
    case torch::kChar: return 2;
    case torch::kShort: return 3;
    case torch::kInt: return 4;
    case torch::kLong: return 5;
    case torch::kHalf: return 6;
    case torch::kFloat: return 7;
    case torch::kDouble: return 8;
    case torch::kComplexHalf: return 9;
    case torch::kComplexFloat: return 10;
    case torch::kComplexDouble: return 11;
    case torch::kBool: return 12;
    case torch::kBFloat16: return 13;
    default: throw Error("RefusedProgram", std::string("tensors of ") + c10::toString(type) + " are not planned");
  }
}

int number_of(c10::MemoryFormat format) {
  switch (format) {
    case c10::MemoryFormat::Contiguous: return 1;
    case c10::MemoryFormat::ChannelsLast: return 2;
    case c10::MemoryFormat::ChannelsLast3d: return 3;
    default: return 4;
  }
}

Json size_of(std::int64_t size) { return {{"as_int", size}}; }

Json meta_of(GlobeTensor const& tensor) {
  Json sizes = Json::array();
  std::vector<std::int64_t> steps(tensor.shape.size(), 1);
  for (std::size_t i = steps.size(); i-- > 1;) steps[i - 1] = steps[i] * std::max<std::int64_t>(tensor.shape[i], 1);
  Json strides = Json::array();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    sizes.push_back(size_of(tensor.shape[i]));
    strides.push_back(size_of(steps[i]));
  }
  return {{"dtype", number_of(tensor.dtype)},
          {"sizes", sizes},
          {"strides", strides},
          {"storage_offset", size_of(0)},
          {"requires_grad", false},
          {"device", {{"type", "cpu"}, {"index", nullptr}}},
          {"layout", 7}};
}

Json named(std::string const& name) { return {{"name", name}}; }
Json tensor_json(std::string const& name) { return {{"as_tensor", named(name)}}; }

class Writer {
 public:
  Writer(std::vector<GlobeTensor> const& leaves, std::function<std::size_t(torch::Tensor const&)> const& index)
      : index_(index) {
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      auto const name = "x" + std::to_string(i);
      inputs_.push_back(tensor_json(name));
      input_specs_.push_back({{"user_input", {{"arg", tensor_json(name)}}}});
      values_[name] = meta_of(leaves[i]);
    }
  }

  Json program(c10::OperatorHandle const& op, Values const& arguments, Values const& results) {
    auto const& schema = op.schema();
    Json given = Json::array();
    for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
      auto const& argument = schema.arguments()[i];
      auto const& fallback = argument.default_value();
      bool const is_default =
          fallback && !arguments[i].isTensor() && !arguments[i].isList() && *fallback == arguments[i];
      if (is_default || (fallback && fallback->isNone() && arguments[i].isNone())) continue;
      given.push_back(
          {{"name", argument.name()}, {"arg", value(argument, arguments[i])}, {"kind", argument.kwarg_only() ? 2 : 1}});
    }
    Json outputs = Json::array();
    for (auto const& one : results) outputs.push_back(result(one));
    Json const node = {{"target", "torch.ops." + target_of(schema)},
                       {"inputs", given},
                       {"outputs", outputs},
                       {"name", nullptr},
                       {"metadata", Json::object()}};
    Json const graph = {{"inputs", inputs_},
                        {"outputs", outputs_},
                        {"nodes", Json::array({node})},
                        {"tensor_values", values_},
                        {"sym_int_values", Json::object()},
                        {"sym_bool_values", Json::object()}};
    Json const signature = {{"input_specs", input_specs_}, {"output_specs", output_specs_}};
    return {{"graph_module", {{"graph", graph}, {"signature", signature}, {"module_call_graph", Json::array()}}},
            {"opset_version", {{"aten", 10}}},
            {"range_constraints", Json::object()},
            {"schema_version", {{"major", 8}, {"minor", 20}}},
            {"torch_version", "2.13.0"}};
  }

 private:
  Json held(torch::Tensor const& t) const { return named("x" + std::to_string(index_(t))); }

  Json value(c10::Argument const& argument, c10::IValue const& v) const {
    if (v.isNone() || (v.isTensor() && !v.toTensor().defined())) return {{"as_none", true}};
    if (v.isTensor()) return {{"as_tensor", held(v.toTensor())}};
    if (v.isBool()) return {{"as_bool", v.toBool()}};
    if (v.isInt()) {
      if (has_type(argument, "ScalarType")) return {{"as_scalar_type", number_of(ScalarType(v.toInt()))}};
      if (has_type(argument, "MemoryFormat")) return {{"as_memory_format", number_of(c10::MemoryFormat(v.toInt()))}};
      if (has_type(argument, "Layout")) return {{"as_layout", 7}};
      return {{"as_int", v.toInt()}};
    }
    if (v.isDouble()) return {{"as_float", real(v.toDouble())}};
    if (v.isString()) return {{"as_string", v.toStringRef()}};
    if (v.isDevice()) return {{"as_device", {{"type", "cpu"}, {"index", nullptr}}}};
    if (v.isIntList()) return {{"as_ints", v.toIntVector()}};
    if (v.isBoolList()) return {{"as_bools", list(v.toBoolList(), [](bool one) { return one; })}};
    if (v.isDoubleList()) return {{"as_floats", list(v.toDoubleVector(), real)}};
    if (v.isTensorList())
      return {{"as_tensors", list(v.toTensorVector(), [this](torch::Tensor const& t) { return held(t); })}};
    if (!v.isList()) throw refused(argument);
    auto const optional = [&](c10::IValue const& one) -> Json {
      if (one.isNone() || (one.isTensor() && !one.toTensor().defined())) return {{"as_none", true}};
      if (!one.isTensor()) throw refused(argument);
      return {{"as_tensor", held(one.toTensor())}};
    };
    return {{"as_optional_tensors", list(v.toListRef(), optional)}};
  }

  template <class List, class Write>
  static Json list(List const& values, Write const& write) {
    Json all = Json::array();
    for (auto const& one : values) all.push_back(write(one));
    return all;
  }

  static Error refused(c10::Argument const& argument) {
    return Error("RefusedProgram", "its argument '" + argument.name() + "' is not planned");
  }

  /// JSON has no infinities.
  static double real(double value) {
    if (!std::isfinite(value)) throw Error("RefusedProgram", "an argument that is infinite is not planned");
    return value;
  }

  std::string define(torch::Tensor const& t) {
    auto const name = "y" + std::to_string(outputs_.size());
    values_[name] = meta_of({t.sizes().vec(), t.scalar_type()});
    outputs_.push_back(tensor_json(name));
    output_specs_.push_back({{"user_output", {{"arg", tensor_json(name)}}}});
    return name;
  }

  Json result(c10::IValue const& v) {
    if (v.isTensor() && v.toTensor().defined()) return tensor_json(define(v.toTensor()));
    if (!v.isTensorList()) throw Error("RefusedProgram", "a result that is no tensor is not planned");
    Json all = Json::array();
    for (torch::Tensor const& t : v.toTensorVector()) all.push_back(named(define(t)));
    return {{"as_tensors", all}};
  }

  std::function<std::size_t(torch::Tensor const&)> const& index_;
  Json inputs_ = Json::array();
  Json outputs_ = Json::array();
  Json input_specs_ = Json::array();
  Json output_specs_ = Json::array();
  Json values_ = Json::object();
};

template <class T>
void add_bytes(std::string& key, T const& value) {
  key.append(reinterpret_cast<char const*>(&value), sizeof value);
}

}  // namespace

void for_each_tensor(c10::IValue const& value, std::function<void(torch::Tensor const&)> const& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isList() && !value.isIntList() && !value.isDoubleList() && !value.isBoolList()) {
    for (c10::IValue const& one : value.toListRef()) for_each_tensor(one, visit);
  }
}

void for_each_tensor(Values const& values, std::function<void(torch::Tensor const&)> const& visit) {
  for (auto const& value : values) for_each_tensor(value, visit);
}

c10::IValue with_tensors_of(c10::IValue const& value, std::function<torch::Tensor(torch::Tensor const&)> const& other) {
  if (value.isTensor()) return value.toTensor().defined() ? c10::IValue(other(value.toTensor())) : value;
  if (value.isTensorList()) {
    c10::List<torch::Tensor> all;
    for (torch::Tensor const& t : value.toTensorVector()) all.push_back(t.defined() ? other(t) : t);
    return all;
  }
  if (value.isList() && !value.isIntList() && !value.isDoubleList() && !value.isBoolList()) {
    auto const given = value.toList();
    c10::impl::GenericList all(given.elementType());
    for (c10::IValue const& one : value.toListRef()) all.push_back(with_tensors_of(one, other));
    return all;
  }
  return value;
}

std::string first_line(std::string text) {
  if (auto const end = text.find('\n'); end != std::string::npos) text.resize(end);
  return text;
}

std::string target_of(c10::FunctionSchema const& schema) {
  auto name = schema.name();
  if (auto const colons = name.find("::"); colons != std::string::npos) name.replace(colons, 2, ".");
  return name + "." + (schema.overload_name().empty() ? "default" : schema.overload_name());
}

bool has_type(c10::Argument const& argument, std::string_view type) {
  auto const text = argument.real_type()->str();
  return text == type || text == std::string(type) + "?" || text == "Optional[" + std::string(type) + "]";
}

void add_to_key(std::string& key, c10::IValue const& value) {
  if (value.isTensor()) {
    key += 't';
  } else if (value.isNone()) {
    key += 'n';
  } else if (value.isBool()) {
    key += value.toBool() ? '1' : '0';
  } else if (value.isInt()) {
    key += 'i';
    add_bytes(key, value.toInt());
  } else if (value.isDouble()) {
    key += 'd';
    add_bytes(key, value.toDouble());
  } else if (value.isComplexDouble()) {
    key += 'c';
    add_bytes(key, value.toComplexDouble());
  } else if (value.isString()) {
    key += 's' + value.toStringRef() + '\0';
  } else if (value.isDevice()) {
    key += 'v' + value.toDevice().str();
  } else if (value.isIntList()) {
    key += '(';
    for (auto const one : value.toIntList()) add_bytes(key, std::int64_t(one));
    key += ')';
  } else if (value.isList()) {
    key += '[';
    for (c10::IValue const& one : value.toListRef()) add_to_key(key, one);
    key += ']';
  } else {
    key += '?' + value.tagKind();
  }
}

std::string graph_text(c10::OperatorHandle const& op, Values const& arguments, std::vector<GlobeTensor> const& leaves,
                       std::function<std::size_t(torch::Tensor const&)> const& index, Values const& results) {
  return Writer(leaves, index).program(op, arguments, results).dump();
}

}  // namespace graticule::nn::detail
