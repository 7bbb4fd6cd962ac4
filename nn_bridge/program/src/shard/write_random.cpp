// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/error.hpp>

#include "graph/words.hpp"
#include "shard/local_builder.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

// Random numbers of operators other than dropout: of stochastic depth, dropped channels and noise.
namespace graticule::program::detail {

namespace {

double number(Node const& node, std::string_view name, double otherwise) {
  Argument const* const given = node.input(name);
  if (given == nullptr) {
    return otherwise;
  }
  auto const* const real = std::get_if<double>(given);
  auto const* const whole = std::get_if<std::int64_t>(given);
  return real != nullptr ? *real : whole != nullptr ? static_cast<double>(*whole) : otherwise;
}

class Random {
 public:
  Random(LocalBuilder& builder, PlannedNode& node)
      : builder_(builder), node_(node), dtype_(builder.result_dtype(node)) {
    if (one_of(program::name(dtype_), {"complex_f16", "complex_f32", "complex_f64"})) {
      throw Error(Fault::input, "RefusedProgram",
                  "refused: " + node.node.describe() + ": random complex numbers are not run; draw both parts");
    }
  }

  ValueId write() {
    std::string_view const name = node_.name();
    if (name == "bernoulli") {
      bool const given = node_.node.input("p") != nullptr;
      Inputs inputs{tensor_input("self", numbers(Draw::uniform, Dtype::f32))};
      inputs.push_back(given ? input_of("other", number(node_.node, "p", 0.5))
                             : tensor_input("other", node_.tensors.at(0)));
      ValueId const kept =
          builder_.emit(given ? "aten.lt.Scalar" : "aten.lt.Tensor", std::move(inputs), node_.local, Dtype::boolean);
      return call("aten._to_copy.default", kept, "dtype", dtype_);
    }
    if (name == "uniform") {
      double const from = number(node_.node, "from", 0);
      return moved(numbers(Draw::uniform, dtype_), number(node_.node, "to", 1) - from, from);
    }
    if (name == "normal_functional") {
      return moved(numbers(Draw::normal, dtype_), number(node_.node, "std", 1), number(node_.node, "mean", 0));
    }
    return numbers(name.starts_with("randn") ? Draw::normal : Draw::uniform, dtype_);
  }

 private:
  ValueId call(std::string const& target, ValueId self, std::string name, Argument value) {
    return builder_.emit(target, {tensor_input("self", self), input_of(std::move(name), std::move(value))}, node_.local,
                         dtype_);
  }

  ValueId numbers(Draw draw, Dtype dtype) {
    ValueId const like = builder_.emit("aten.zeros.default", {input_of("size", node_.local), input_of("dtype", dtype)},
                                       node_.local, dtype);
    DropoutTask task{0, node_.shapes.out(), node_.plan.placement, static_cast<std::uint32_t>(node_.plan.node), draw};
    return builder_.emit("graticule.random", {tensor_input("self", like)}, node_.local, dtype, std::move(task));
  }

  ValueId moved(ValueId numbers, double scale, double offset) {
    return call("aten.add.Scalar", call("aten.mul.Scalar", numbers, "other", scale), "other", offset);
  }

  LocalBuilder& builder_;
  PlannedNode& node_;
  Dtype dtype_;
};

}  // namespace

bool is_random(std::string_view name) {
  return one_of(name, {"rand", "randn", "rand_like", "randn_like", "bernoulli", "uniform", "normal_functional"});
}

void write_random(LocalBuilder& builder, PlannedNode& node) { builder.finish(node, Random(builder, node).write()); }

}  // namespace graticule::program::detail
