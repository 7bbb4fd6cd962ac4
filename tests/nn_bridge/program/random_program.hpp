// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "graph_text.hpp"

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace graticule::test {

using Random = std::mt19937_64;

inline std::int64_t draw(Random& random, std::int64_t lo, std::int64_t hi) {
  return std::uniform_int_distribution<std::int64_t>(lo, hi)(random);
}

inline Json ints(std::vector<std::int64_t> const& values) { return {{"as_ints", values}}; }
inline Json integer(std::int64_t value) { return {{"as_int", value}}; }

// A network of random operators on x[1, 2, rows, columns].
inline Json random_program(Random& random, std::int64_t rows, std::int64_t columns) {
  Json program = empty_program({1, 2, rows, columns});
  add_weight(program, "parameter", "w", "head.weight", {2, 2, 3, 3});
  std::string last = "x";
  std::int64_t h = rows;
  std::int64_t w = columns;
  auto const next = [&](std::string const& target, std::vector<std::pair<std::string, Json>> inputs,
                        std::vector<std::int64_t> const& shape) {
    std::string const result = "v" + std::to_string(graph_of(program)["nodes"].size());
    append(program, target, inputs, result, shape);
    last = result;
  };
  for (int step = 0; step < 8; ++step) {
    std::string const before = last;
    switch (draw(random, 0, 7)) {
      case 0:
        next("aten.roll.default",
             {{"self", tensor(last)}, {"shifts", ints({draw(random, -3, 3), 2})}, {"dims", ints({2, 3})}},
             {1, 2, h, w});
        break;
      case 1: {
        std::int64_t const stride = draw(random, 1, 2);
        h = (h - 1) / stride + 1;
        w = (w - 1) / stride + 1;
        next("aten.conv2d.default",
             {{"input", tensor(last)},
              {"weight", tensor("w")},
              {"stride", ints({stride, stride})},
              {"padding", ints({1, 1})}},
             {1, 2, h, w});
        break;
      }
      case 2:
        h += 2;
        w += 1;
        next("aten.pad.default",
             {{"self", tensor(last)},
              {"pad", ints({1, 0, 1, 1})},
              {"mode", {{"as_string", step % 2 == 0 ? "circular" : "constant"}}}},
             {1, 2, h, w});
        break;
      case 3:
        if (h > 4) {
          h -= 2;
          next("aten.slice.Tensor",
               {{"self", tensor(last)},
                {"dim", integer(2)},
                {"start", integer(1)},
                {"end", integer(h + 1)},
                {"step", integer(1)}},
               {1, 2, h, w});
        }
        break;
      case 4: next("aten.flip.default", {{"self", tensor(last)}, {"dims", ints({2})}}, {1, 2, h, w}); break;
      case 5:
        next("aten.roll.default", {{"self", tensor(last)}, {"shifts", ints({1})}, {"dims", ints({2})}}, {1, 2, h, w});
        next("aten.cat.default",
             {{"tensors", {{"as_tensors", {{{"name", before}}, {{"name", last}}}}}}, {"dim", integer(2)}},
             {1, 2, 2 * h, w});
        h *= 2;
        next("aten.slice.Tensor",
             {{"self", tensor(last)},
              {"dim", integer(2)},
              {"start", integer(h / 4)},
              {"end", integer(h / 4 + h / 2)},
              {"step", integer(1)}},
             {1, 2, h / 2, w});
        h /= 2;
        break;
      case 6:
        if (h % 2 == 0) {  // windows of two rows, their places in front, and back
          next("aten.view.default", {{"self", tensor(last)}, {"size", ints({1, 2, h / 2, 2, w})}}, {1, 2, h / 2, 2, w});
          next("aten.permute.default", {{"self", tensor(last)}, {"dims", ints({0, 3, 1, 2, 4})}}, {1, 2, 2, h / 2, w});
          next("aten.view.default", {{"self", tensor(last)}, {"size", ints({4, h / 2, w})}}, {4, h / 2, w});
          next("aten.roll.default", {{"self", tensor(last)}, {"shifts", ints({1})}, {"dims", ints({1})}},
               {4, h / 2, w});
          next("aten.view.default", {{"self", tensor(last)}, {"size", ints({1, 2, h, w})}}, {1, 2, h, w});
        }
        break;
      default:
        next("aten.roll.default", {{"self", tensor(last)}, {"shifts", ints({1})}, {"dims", ints({2})}}, {1, 2, h, w});
        next("aten.add.Tensor", {{"self", tensor(before)}, {"other", tensor(last)}}, {1, 2, h, w});
    }
  }
  set_output(program, last);
  return program;
}

}  // namespace graticule::test
