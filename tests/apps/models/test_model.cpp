// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/models/detail/model_kinds.hpp>
#include <graticule/models/model.hpp>
#include <graticule/partition/layout.hpp>

#include "expect_error.hpp"
#include "fields_on.hpp"
#include "globe.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

namespace graticule::models {
namespace test_model {

using test::ErrorWith;
using test::rule_of;
using torch::Tensor;

constexpr Index num_rows = 24;
constexpr Index num_columns = 48;

/// Two inputs, one of them of a vector, and one function of latitude.
ModelOptions options_of(ModelKind kind) {
  ModelOptions options;
  options.kind = kind;
  options.num_inputs = 2;
  options.num_statics = 1;
  options.num_outputs = 3;
  options.channels = 4;
  options.blocks = 2;
  options.odd_channels = {1};
  options.latitudes = test::globe(num_rows, num_columns).latitudes;
  options.num_columns = num_columns;
  return options;
}

Tensor inputs_on(Box const& box) {
  return test::fields_on(box, 2,
                         [](Index c, Index j, Index i) { return std::sin(double(c + j * j) + 0.4 * double(i)); });
}

Tensor statics() { return torch::linspace(-1, 1, num_rows, torch::kDouble).reshape({num_rows, 1}); }

std::shared_ptr<Model> made(ModelOptions const& options, nn::Domain const& domain) {
  torch::manual_seed(7);
  auto model = make_model(options, domain);
  model->to(torch::kDouble);
  return model;
}

TEST(Model, of_every_kind_gives_on_shards_what_it_gives_on_one_rank) {
  auto const comm = Comm::world();
  auto const boundary = test::globe(num_rows, num_columns).boundary;
  nn::Domain const alone(comm.split(comm.rank(), 0), ProcessGrid{1, 1}, boundary);
  nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1}, boundary);
  Box const all({0, 0}, {num_rows, num_columns});
  Box const box = Layout(domain.grid(), {num_rows, num_columns}).owned(comm.rank());
  torch::NoGradGuard const no_grad;
  for (auto const& [name, kind] : model_kinds()) {
    SCOPED_TRACE(name);
    auto const expected = made(options_of(kind), alone)->forward(inputs_on(all), statics());

    auto const found =
        made(options_of(kind), domain)->forward(inputs_on(box), statics().slice(0, box.lo(0), box.hi(0)));

    EXPECT_EQ(found.sizes(), (std::vector<std::int64_t>{1, 3, box.extent(0), num_columns}));
    EXPECT_TRUE(torch::allclose(found, test::part_of(expected, box), 1e-10, 1e-10));
    EXPECT_GT(expected.abs().max().item<double>(), 1e-3);
  }
}

TEST(Model, scales_its_first_features_by_a_function_of_latitude) {
  nn::Domain const alone(Comm::world().split(Comm::world().rank(), 0), ProcessGrid{1, 1},
                         test::globe(num_rows, num_columns).boundary);
  auto options = options_of(ModelKind::convnet);
  options.kernel = 1;
  options.blocks = 1;
  auto const net = made(options, alone);
  auto const x = inputs_on(Box({0, 0}, {num_rows, num_columns}));
  torch::NoGradGuard const no_grad;

  auto const found = net->forward(x, statics());

  auto const p = net->named_parameters();
  auto const rows = statics().t().reshape({1, 1, num_rows, 1}).expand({1, 1, num_rows, num_columns});
  auto const stem = torch::conv2d(torch::cat({x, rows}, 1), p["stem.weight"], p["stem.bias"]);
  auto const hidden = torch::gelu(torch::linear(statics(), p["gate_hidden.weight"], p["gate_hidden.bias"]));
  auto const gate = torch::linear(hidden, p["gate.weight"], p["gate.bias"]).t().reshape({1, 4, num_rows, 1});
  auto const gated = stem * (1 + gate);
  auto const trunk = gated + torch::gelu(torch::conv2d(gated, p["block0.weight"], p["block0.bias"]));
  auto const expected = torch::conv2d(trunk, p["head.weight"], p["head.bias"]);
  EXPECT_TRUE(torch::allclose(found, expected, 1e-12, 1e-12));
  EXPECT_GT((stem - gated).abs().max().item<double>(), 1e-3);
}

TEST(Model, refuses_what_a_kind_cannot_do) {
  nn::Domain const alone(Comm::world().split(Comm::world().rank(), 0), ProcessGrid{1, 1},
                         test::globe(num_rows, num_columns).boundary);
  auto uneven = options_of(ModelKind::sfno);
  uneven.latitudes[3] += 4;
  EXPECT_EQ(rule_of([&] { (void)make_model(uneven, alone); }), (ErrorWith{"BadCoordinates", "no quadrature"}));
  auto missing = options_of(ModelKind::program);
  missing.program = "/no/such/network.pt2";
  EXPECT_EQ(rule_of([&] { (void)make_model(missing, alone); }), (ErrorWith{"NoSuchFile", "network.pt2"}));
  EXPECT_EQ(rule_of([&] { (void)make_model(options_of(static_cast<ModelKind>(77)), alone); }),
            (ErrorWith{"BadOption", "kind 77"}));
  auto const convnet = make_model(options_of(ModelKind::convnet), alone);
  EXPECT_EQ(rule_of([&] { save_program(*convnet, "net.pt2"); }),
            (ErrorWith{"Unsupported", "net.pt2: only exported networks"}));
  EXPECT_FALSE(std::filesystem::exists("net.pt2"));
}

}  // namespace test_model
}  // namespace graticule::models
