// SPDX-License-Identifier: BSD-3-Clause
// Every layer with every dtype that LibTorch's layer takes, and with every way in which a tensor may lie in memory.
#include "expect_error.hpp"
#include "layer_table.hpp"

#include <gtest/gtest.h>

#include <array>
#include <exception>
#include <optional>

namespace graticule {
namespace test_dtypes {

using test::domain_of;
using test::expect_as_exact;
using test::for_each_layer;
using test::layer_table;
using test::LayerFunction;
using test::LayerResults;
using test::part_of;
using test::random_part;
using test::rule_of;
using test::run_layer;
using test::short_numbers;
using torch::Tensor;

TEST(Dtypes, of_serial_layers_give_what_they_give_or_are_refused_by_name) {
  std::size_t repeat = 0;
  for (auto const& layer : layer_table()) {
    for (auto const dtype :
         {torch::kHalf, torch::kBFloat16, torch::kFloat, torch::kDouble, torch::kComplexFloat, torch::kComplexDouble}) {
      SCOPED_TRACE(layer.name + " of " + c10::toString(dtype));
      std::mt19937 random(3);
      auto const domain = domain_of(repeat++, layer);
      auto const whole = short_numbers(random, layer.sizes, dtype);
      auto const part = random_part(domain, random, layer.sizes);
      auto const made = layer.make(domain, dtype);
      std::uint32_t const seed = random();
      auto const cotangent = [&](Tensor const& y) {
        std::mt19937 same(seed);
        return short_numbers(same, y.sizes().vec(), y.scalar_type());
      };
      std::optional<LayerResults> serial;
      try {
        serial = run_layer(made.serial, made.serial_parameters, whole, cotangent);
      } catch (std::exception const&) {  // LibTorch has no such layer.
      }

      if (!serial || layer.refused.contains(dtype)) {
        auto const rule = rule_of([&] { made.sharded(part.of(whole)); });
        bool const refused = rule == "UnsupportedTensor";
        EXPECT_TRUE(refused || (!serial && rule == "nothing was thrown")) << rule;
        std::array<Index, 2> on_ranks{refused, !refused};
        domain.comm().max(on_ranks);
        EXPECT_NE(on_ranks[0], on_ranks[1]) << "refused on some ranks only";
        continue;
      }
      auto const wide = c10::isComplexType(dtype) ? torch::kComplexDouble : torch::kDouble;
      auto const wide_made = layer.make(domain, wide);
      auto const exact = run_layer(wide_made.serial, wide_made.serial_parameters, whole.to(wide), cotangent);
      LayerResults found;
      auto const thrown = test::thrown_by([&] {
        found = run_layer(made.sharded, made.sharded_parameters, part.of(whole),
                          [&](Tensor const& y) { return part_of(domain, y).of(cotangent(serial->y)); });
      });

      EXPECT_EQ(thrown.rule, "nothing was thrown") << thrown.text.substr(0, 200);
      if (thrown.rule != "nothing was thrown") continue;
      expect_as_exact(domain, found, part, *serial, exact);
    }
  }
}

/// A way in which a tensor lies in memory; the values are those of `x`, but for expanded axes.
struct Memory {
  std::string name;
  LayerFunction of;
};

Tensor expanded(Tensor const& x, std::int64_t axis) {
  return x.size(axis) == 0 ? x : x.narrow(axis, 0, 1).expand(x.sizes());
}

std::vector<Memory> memories() {
  return {
      {"channels last",
       [](Tensor const& x) {
         return x.clone().contiguous(x.dim() == 5 ? torch::MemoryFormat::ChannelsLast3d
                                                  : torch::MemoryFormat::ChannelsLast);
       }},
      {"columns before rows", [](Tensor const& x) { return x.transpose(-1, -2).contiguous().transpose(-1, -2); }},
      {"every second column",
       [](Tensor const& x) {
         return torch::stack({x, x + 1}, -1).select(-1, 0);
       }},
      {"one sample", [](Tensor const& x) { return expanded(x, 0); }},
      {"one channel", [](Tensor const& x) { return expanded(x, 1); }},
  };
}

TEST(Memory, of_any_form_gives_the_numbers_of_contiguous_tensors) {
  std::size_t repeat = 0;
  for (auto const& layer : layer_table()) {
    for (auto const& memory : memories()) {
      SCOPED_TRACE(layer.name + ", " + memory.name);
      std::mt19937 random(5);
      auto const domain = domain_of(repeat++, layer);
      auto const whole = memory.of(short_numbers(random, layer.sizes, torch::kDouble)).contiguous();
      auto const part = random_part(domain, random, layer.sizes);
      auto const made = layer.make(domain, torch::kDouble);
      auto const shard = memory.of(part.of(whole));
      auto const before = shard.clone();
      auto const cotangent = [&](Tensor const& y) {
        std::mt19937 same(9);
        return memory.of(short_numbers(same, y.sizes().vec(), torch::kDouble));
      };
      auto const serial = run_layer(made.serial, made.serial_parameters, whole, cotangent);

      auto const found = run_layer(made.sharded, made.sharded_parameters, shard, [&](Tensor const& y) {
        return memory.of(part_of(domain, y).of(cotangent(serial.y)));
      });

      expect_as_exact(domain, found, part, serial, serial);
      EXPECT_TRUE(torch::equal(shard, before));
    }
  }
}

TEST(Memory, of_a_cotangent_without_strides_is_left_alone) {
  for_each_layer([](test::TableLayer const& layer, nn::Domain const& domain) {
    std::mt19937 random(6);
    auto const whole = short_numbers(random, layer.sizes, torch::kDouble);
    auto const part = random_part(domain, random, layer.sizes);
    auto const made = layer.make(domain, torch::kDouble);
    auto const one = torch::full({}, 0.75, torch::kDouble);
    auto const cotangent = [&](Tensor const& y) { return one.expand(y.sizes()); };
    auto const serial = run_layer(made.serial, made.serial_parameters, whole, cotangent);

    auto const found = run_layer(made.sharded, made.sharded_parameters, part.of(whole), cotangent);

    expect_as_exact(domain, found, part, serial, serial);
    EXPECT_EQ(one.item<double>(), 0.75);
  });
}

}  // namespace test_dtypes
}  // namespace graticule
