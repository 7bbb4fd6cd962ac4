// SPDX-License-Identifier: BSD-3-Clause
#include "run/arguments.hpp"

#include <graticule/program/detail/operators.hpp>

#include "archive/archive.hpp"
#include "graph/nodes.hpp"

#include <ATen/ScalarOps.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace graticule::program::detail {

namespace {

int precision(torch::ScalarType type) { return type == torch::kFloat64 ? 2 : type == torch::kFloat32 ? 1 : 0; }

torch::ScalarType real_part(torch::ScalarType type) {
  return c10::isComplexType(type) ? c10::toRealValueType(type) : type;
}

// A Python number in the place of a tensor: it takes part in type promotion as a number.
at::Tensor wrapped_number(at::Scalar const& number) {
  at::Tensor tensor = c10::scalar_to_tensor(number);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

std::optional<at::Scalar> number_of(Argument const& argument) {
  return std::visit(
      []<class T>(T const& value) -> std::optional<at::Scalar> {
        if constexpr (std::is_arithmetic_v<T>) {
          return at::Scalar(value);
        } else if constexpr (std::is_same_v<T, std::complex<double>>) {
          return at::Scalar(c10::complex<double>(value.real(), value.imag()));
        }
        return std::nullopt;
      },
      argument);
}

std::int64_t memory_format(MemoryFormat format) {
  switch (format) {
    case MemoryFormat::channels_last: return static_cast<std::int64_t>(at::MemoryFormat::ChannelsLast);
    case MemoryFormat::channels_last_3d: return static_cast<std::int64_t>(at::MemoryFormat::ChannelsLast3d);
    case MemoryFormat::preserve: return static_cast<std::int64_t>(at::MemoryFormat::Preserve);
    case MemoryFormat::contiguous:
    case MemoryFormat::unknown: break;
  }
  return static_cast<std::int64_t>(at::MemoryFormat::Contiguous);
}

template <class T>
c10::List<T> list_of(auto const& values) {
  c10::List<T> list;
  for (auto const& one : values) {
    list.push_back(static_cast<T>(one));
  }
  return list;
}

bool is_list(Argument const& argument, bool& empty) {
  return std::visit(
      [&empty]<class T>(T const& value) {
        if constexpr (requires { value.begin(); } && !std::is_same_v<T, std::string>) {
          empty = value.empty();
          return true;
        }
        return false;
      },
      argument);
}

}  // namespace

torch::ScalarType Conversion::operator()(Dtype dtype) const {
  torch::ScalarType const type = to_torch(dtype);
  bool const complex = c10::isComplexType(type);
  if ((!complex && !c10::isFloatingType(type)) || own == target) {
    return type;
  }
  torch::ScalarType const real = real_part(type);
  bool const wider = precision(real) > precision(own) && precision(real) >= precision(target);
  if (!complex) {
    return wider ? type : target;
  }
  return std::max(wider ? precision(real) : precision(target), 1) == 2 ? torch::kComplexDouble : torch::kComplexFloat;
}

// Makes the arguments of one node, by the types of the schema.
class CallArguments::Builder {
 public:
  Builder(Graph const& graph, Node const& node, c10::FunctionSchema const& schema, Conversion const& conversion,
          CallArguments& result)
      : graph_(graph), node_(node), schema_(schema), conversion_(conversion), result_(result) {}

  void build() {
    check_names();
    for (position_ = 0; position_ < schema_.arguments().size(); ++position_) {
      result_.constants_.push_back(make(schema_.arguments()[position_]));
    }
    if (operator_class(node_.target) == OperatorClass::factory) {
      complete_factory();
    }
    turn_dropout_off_in_eval();
  }

 private:
  using Kind = c10::TypeKind;

  [[noreturn]] void fail(std::string const& why) const { broken_node(node_, why); }

  [[noreturn]] void wrong_kind(c10::Argument const& wanted) const {
    fail("the argument '" + wanted.name() + "' is not what the operator takes (" + wanted.type()->str() + ")");
  }

  void check_names() const {
    for (auto input = node_.inputs.begin(); input != node_.inputs.end(); ++input) {
      auto const same = [&](NamedArgument const& other) { return other.name == input->name; };
      if (std::any_of(node_.inputs.begin(), input, same)) {
        fail("the argument '" + input->name + "' is given twice");
      }
      if (!schema_.argumentIndexWithName(input->name)) {
        fail("the operator has no argument '" + input->name + "'");
      }
    }
  }

  c10::IValue make(c10::Argument const& wanted) {
    Argument const* const given = node_.input(wanted.name());
    if (given != nullptr) {
      return convert(*given, *wanted.real_type(), wanted);
    }
    if (wanted.default_value()) {
      return *wanted.default_value();
    }
    if (wanted.real_type()->kind() != Kind::OptionalType) {
      fail("the argument '" + wanted.name() + "' is missing");
    }
    return {};
  }

  c10::IValue put(auto source) {
    result_.fills_.push_back({position_, std::move(source)});
    return {};
  }

  c10::IValue convert(Argument const& given, c10::Type const& type, c10::Argument const& wanted) {
    switch (type.kind()) {
      case Kind::OptionalType:
        return std::holds_alternative<None>(given)
                   ? c10::IValue()
                   : convert(given, *type.expectRef<c10::OptionalType>().getElementType(), wanted);
      case Kind::TensorType: return tensor(given, wanted);
      case Kind::ListType: return list(given, *type.expectRef<c10::ListType>().getElementType(), wanted);
      case Kind::StringType:
        if (auto const* text = std::get_if<std::string>(&given)) {
          return *text;
        }
        wrong_kind(wanted);
      case Kind::DeviceObjType:
        if (std::holds_alternative<Device>(given)) {
          return conversion_.device;
        }
        wrong_kind(wanted);
      default: return number(given, type.kind(), wanted);
    }
  }

  c10::IValue number(Argument const& given, Kind kind, c10::Argument const& wanted) {
    if (auto const* symbol = std::get_if<SymbolRef>(&given)) {
      if (kind == Kind::IntType || kind == Kind::SymIntType || kind == Kind::FloatType || kind == Kind::NumberType ||
          kind == Kind::BoolType) {
        return put(OfValue{symbol->value});
      }
      wrong_kind(wanted);
    }
    if (auto const* dtype = std::get_if<Dtype>(&given);
        dtype != nullptr && (kind == Kind::ScalarTypeType || kind == Kind::IntType)) {
      return static_cast<std::int64_t>(conversion_(*dtype));
    }
    if (auto const* format = std::get_if<MemoryFormat>(&given);
        format != nullptr && (kind == Kind::MemoryFormatType || kind == Kind::IntType)) {
      return memory_format(*format);
    }
    if (std::holds_alternative<StorageLayout>(given) && (kind == Kind::LayoutType || kind == Kind::IntType)) {
      return static_cast<std::int64_t>(at::kStrided);
    }
    auto const value = number_of(given);
    if (!value) {
      wrong_kind(wanted);
    }
    bool const whole = !value->isFloatingPoint() && !value->isComplex();
    switch (kind) {
      case Kind::NumberType: return *value;
      case Kind::FloatType:
      case Kind::SymFloatType:
        if (!value->isComplex()) {
          return value->toDouble();
        }
        wrong_kind(wanted);
      case Kind::IntType:
      case Kind::SymIntType:
        if (whole) {
          return value->toLong();
        }
        wrong_kind(wanted);
      case Kind::BoolType:
      case Kind::SymBoolType:
        if (value->isBoolean()) {
          return value->toBool();
        }
        wrong_kind(wanted);
      default: wrong_kind(wanted);
    }
  }

  c10::IValue tensor(Argument const& given, c10::Argument const& wanted) {
    if (auto const* reference = std::get_if<TensorRef>(&given)) {
      return put(OfValue{reference->value});
    }
    if (auto const* symbol = std::get_if<SymbolRef>(&given)) {
      return put(Wrapped{symbol->value});
    }
    auto const value = number_of(given);
    if (!value) {
      wrong_kind(wanted);
    }
    return wrapped_number(*value);
  }

  c10::IValue list(Argument const& given, c10::Type const& element, c10::Argument const& wanted) {
    bool empty = false;
    if (is_list(given, empty) && empty) {
      return empty_list(element, wanted);
    }
    if (auto const* tensors = std::get_if<Tensors>(&given)) {
      return tensor_list(*tensors, element, wanted);
    }
    if (auto const* tensors = std::get_if<OptionalTensors>(&given);
        tensors != nullptr && element.kind() == Kind::OptionalType) {
      OfOptionalTensors source;
      for (auto const& one : *tensors) {
        source.values.push_back(one ? one->value : -1);
      }
      return put(std::move(source));
    }
    if (element.kind() == Kind::IntType || element.kind() == Kind::SymIntType) {
      return integer_list(given, wanted);
    }
    if (element.kind() == Kind::FloatType) {
      return real_list(given, wanted);
    }
    if (auto const* booleans = std::get_if<std::vector<bool>>(&given);
        booleans != nullptr && element.kind() == Kind::BoolType) {
      return list_of<bool>(*booleans);
    }
    wrong_kind(wanted);
  }

  c10::IValue tensor_list(Tensors const& tensors, c10::Type const& element, c10::Argument const& wanted) {
    std::vector<ValueId> values;
    std::ranges::transform(tensors, std::back_inserter(values), &TensorRef::value);
    if (element.kind() == Kind::TensorType) {
      return put(OfTensors{std::move(values)});
    }
    if (element.kind() == Kind::OptionalType) {
      return put(OfOptionalTensors{std::move(values)});
    }
    wrong_kind(wanted);
  }

  c10::IValue integer_list(Argument const& given, c10::Argument const& wanted) {
    if (auto const* values = std::get_if<std::vector<std::int64_t>>(&given)) {
      return c10::List<std::int64_t>(at::IntArrayRef(*values));
    }
    if (auto const* values = std::get_if<Integers>(&given)) {
      return put(OfIntegers{*values});
    }
    // One number for all axes: int[2] stride=1.
    auto const copies = static_cast<std::size_t>(std::clamp(wanted.N().value_or(1), 1, 8));
    if (auto const* value = std::get_if<std::int64_t>(&given)) {
      return c10::List<std::int64_t>(at::IntArrayRef(std::vector<std::int64_t>(copies, *value)));
    }
    if (auto const* symbol = std::get_if<SymbolRef>(&given)) {
      return put(OfIntegers{Integers(copies, *symbol)});
    }
    wrong_kind(wanted);
  }

  c10::IValue real_list(Argument const& given, c10::Argument const& wanted) const {
    if (auto const* reals = std::get_if<std::vector<double>>(&given)) {
      return list_of<double>(*reals);
    }
    if (auto const* integers = std::get_if<std::vector<std::int64_t>>(&given)) {
      return list_of<double>(*integers);
    }
    wrong_kind(wanted);
  }

  c10::IValue empty_list(c10::Type const& element, c10::Argument const& wanted) const {
    switch (element.kind()) {
      case Kind::TensorType: return c10::List<at::Tensor>();
      case Kind::OptionalType: return c10::List<std::optional<at::Tensor>>();
      case Kind::IntType:
      case Kind::SymIntType: return c10::List<std::int64_t>();
      case Kind::FloatType: return c10::List<double>();
      case Kind::BoolType: return c10::List<bool>();
      default: wrong_kind(wanted);
    }
  }

  // New tensors are of the type in the file, and not of the default of this process; and on the program's device.
  void complete_factory() {
    auto const has_tensor = [](c10::Argument const& argument) { return argument.type()->kind() == Kind::TensorType; };
    if (std::ranges::any_of(schema_.arguments(), has_tensor)) {
      return;
    }
    auto const dtype = schema_.argumentIndexWithName("dtype");
    auto const* result = node_.outputs.empty() ? nullptr : std::get_if<TensorRef>(&node_.outputs[0]);
    if (dtype && result != nullptr && result_.constants_[static_cast<std::size_t>(*dtype)].isNone()) {
      result_.constants_[static_cast<std::size_t>(*dtype)] =
          static_cast<std::int64_t>(conversion_(graph_.value(result->value).tensor.dtype));
    }
    if (auto const device = schema_.argumentIndexWithName("device")) {
      result_.constants_[static_cast<std::size_t>(*device)] = conversion_.device;
    }
    if (auto const pinned = schema_.argumentIndexWithName("pin_memory")) {
      result_.constants_[static_cast<std::size_t>(*pinned)] = c10::IValue();
    }
  }

  void turn_dropout_off_in_eval() {
    auto const in_eval = [this](char const* argument, c10::IValue const& off) {
      if (auto const position = schema_.argumentIndexWithName(argument)) {
        result_.fills_.push_back({static_cast<std::size_t>(*position), InEval{off}});
      }
    };
    if (node_.target.starts_with("aten.dropout") || node_.target.starts_with("aten.native_dropout")) {
      in_eval("train", false);
    } else if (node_.target.starts_with("aten.scaled_dot_product_attention")) {
      in_eval("dropout_p", 0.0);
    }
  }

  Graph const& graph_;
  Node const& node_;
  c10::FunctionSchema const& schema_;
  Conversion const& conversion_;
  CallArguments& result_;
  std::size_t position_ = 0;
};

CallArguments::CallArguments(Graph const& graph, Node const& node, c10::FunctionSchema const& schema,
                             Conversion const& conversion) {
  Builder(graph, node, schema, conversion, *this).build();
}

c10::Stack CallArguments::fill(Frame const& frame) const {
  c10::Stack stack(constants_);
  for (Fill const& fill : fills_) {
    c10::IValue& place = stack[fill.position];
    if (auto const* value = std::get_if<OfValue>(&fill.source)) {
      place = frame.at(value->value);
    } else if (auto const* tensors = std::get_if<OfTensors>(&fill.source)) {
      c10::List<at::Tensor> list;
      list.reserve(tensors->values.size());
      for (ValueId const one : tensors->values) {
        list.push_back(frame.at(one).toTensor());
      }
      place = std::move(list);
    } else if (auto const* integers = std::get_if<OfIntegers>(&fill.source)) {
      c10::List<std::int64_t> list;
      for (auto const& one : integers->values) {
        auto const* symbol = std::get_if<SymbolRef>(&one);
        list.push_back(symbol != nullptr ? frame.at(symbol->value).toInt() : std::get<std::int64_t>(one));
      }
      place = std::move(list);
    } else if (auto const* optionals = std::get_if<OfOptionalTensors>(&fill.source)) {
      c10::List<std::optional<at::Tensor>> list;
      for (ValueId const one : optionals->values) {
        list.push_back(one < 0 ? std::nullopt : std::optional(frame.at(one).toTensor()));
      }
      place = std::move(list);
    } else if (auto const* wrapped = std::get_if<Wrapped>(&fill.source)) {
      place = wrapped_number(frame.at(wrapped->value).toScalar());
    } else if (auto const* off = std::get_if<InEval>(&fill.source); off != nullptr && !frame.training) {
      place = off->value;
    }
  }
  return stack;
}

}  // namespace graticule::program::detail
