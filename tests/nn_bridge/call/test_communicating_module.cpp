// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/call/communicating_module.hpp>
#include <graticule/nn_bridge/loss/reduce_loss.hpp>
#include <graticule/nn_bridge/stencil/halo_exchange.hpp>

#include "expect_error.hpp"
#include "mpi/pmpi_shim.hpp"
#include "num_set_ups.hpp"
#include "shards.hpp"

#include <gtest/gtest.h>

#include <array>
#include <memory>

namespace graticule {
namespace test_communicating_module {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

using test::bands;

struct FirstRow {
  Index first;
};

/// Adds the global index of the first row, times a factor that may change between calls.
class RowsImpl : public nn::CommunicatingModule<RowsImpl, FirstRow> {
 public:
  explicit RowsImpl(nn::Domain const& domain) : CommunicatingModule(domain, "Rows") {}

  torch::Tensor forward(torch::Tensor const& x) {
    auto const make = [&](Layout const& layout) {
      auto const first = layout.owned(domain().comm().rank()).lo(0);
      return std::make_shared<FirstRow const>(FirstRow{first * factor});
    };
    auto const call = enter(
        x, [] {}, make, false, std::uint64_t(factor));
    latest = call.set_up;
    return x + call.set_up->first;
  }

  Index factor = 1;
  std::weak_ptr<FirstRow const> latest;
};
TORCH_MODULE(Rows);

TEST(CommunicatingModule, sets_up_once_per_structure_and_for_what_else_it_depends_on) {
  auto const domain = bands();
  Rows layer(domain);
  auto const x = torch::zeros({2, 3});

  for (int call = 0; call < 3; ++call) EXPECT_EQ(layer(x)[0][0].item<double>(), 2 * domain.comm().rank());
  EXPECT_EQ(test::num_set_ups(layer), 1);
  layer->factor = 5;
  EXPECT_EQ(layer(x)[0][0].item<double>(), 10 * domain.comm().rank());
  EXPECT_EQ(test::num_set_ups(layer), 2);
}

TEST(CommunicatingModule, reset_structure_tears_down) {
  auto const domain = bands();
  bool const is_last = domain.comm().rank() == domain.comm().num_ranks() - 1;
  Rows layer(domain);
  (void)layer(torch::zeros({2, 3}));
  auto const first = layer->latest;
  EXPECT_FALSE(first.expired());

  layer->reset_structure();
  EXPECT_TRUE(first.expired());
  (void)layer(torch::zeros({is_last ? 4 : 2, 3}));
  EXPECT_EQ(test::num_set_ups(layer), 2);
}

TEST(CommunicatingModule, copies_and_clones_share_no_set_up) {
  auto const domain = bands();
  Rows layer(domain);
  (void)layer(torch::zeros({2, 3}));
  auto const first = layer->latest;

  Rows clone(std::dynamic_pointer_cast<RowsImpl>(layer->clone()));
  auto copy = std::make_shared<RowsImpl>(*layer);
  (void)clone(torch::zeros({3, 3}));
  (void)copy->forward(torch::zeros({4, 3}));
  (void)layer(torch::zeros({2, 3}));

  EXPECT_EQ(test::num_set_ups(layer), 1);
  EXPECT_EQ(test::num_set_ups(clone), 1);
  EXPECT_EQ(test::num_set_ups(copy), 1);
  EXPECT_EQ(layer->latest.lock(), first.lock());
}

TEST(CommunicatingModule, layers_of_other_modules_are_reset_with_the_model) {
  auto const domain = bands();
  bool const is_last = domain.comm().rank() == domain.comm().num_ranks() - 1;
  torch::nn::Sequential inner(Rows{domain}, nn::HaloExchange(nn::HaloExchangeOptions{.latitude = {1, 1}}, domain));
  auto const model = std::dynamic_pointer_cast<torch::nn::SequentialImpl>(inner->clone());
  auto const before = torch::zeros({2, 4});
  auto const after = torch::zeros({is_last ? 3 : 2, 4});
  (void)model->forward(before);

  if (domain.comm().num_ranks() > 1) {
    EXPECT_EQ(test::rule_of([&] { (void)model->forward(after); }), "StructureDisagreement");
  }
  nn::reset_structure(*model);
  EXPECT_EQ(model->forward(after).size(0), after.size(0) + 2);
}

/// The sum over all ranks.
struct SumFunction : torch::autograd::Function<SumFunction> {
  static torch::Tensor summed(torch::Tensor const& x) {
    std::array<double, 1> value{x.item<double>()};
    Comm::world().sum(value);
    return torch::full({}, value[0], x.options().requires_grad(false));
  }
  static variable_list forward(AutogradContext* /*ctx*/, torch::Tensor const& x, torch::Tensor const& /*anchor*/) {
    return {summed(x), nn::communication_token(x.options())};
  }
  static variable_list backward(AutogradContext* /*ctx*/, variable_list const& grads) {
    return {summed(grads[0].defined() ? grads[0] : torch::zeros({}, torch::kDouble)), torch::Tensor()};
  }
};

class TotalImpl : public nn::CommunicatingModule<TotalImpl, FirstRow> {
 public:
  explicit TotalImpl(nn::Domain const& domain) : CommunicatingModule(domain, "Total") {}

  torch::Tensor forward(torch::Tensor const& x) {
    auto const call = enter(
        x, [] {}, [](Layout const&) { return std::make_shared<FirstRow const>(); });
    return record(SumFunction::apply(x.sum(), call.anchor)[0]);
  }
};
TORCH_MODULE(Total);

TEST(CommunicatingModule, functions_of_ones_own_run_their_backward_on_all_ranks) {
  auto const domain = bands();
  int const rank = domain.comm().rank();
  Total total(domain);
  // The last rank's input requires no gradient, and the first rank alone uses the sum.
  auto const x = torch::full({2, 3}, rank + 1.0, torch::kDouble);
  x.requires_grad_(rank == 0);

  auto const y = total(x);
  auto const partial = rank == 0 ? y.square() : torch::zeros({}, torch::kDouble);
  nn::reduce_loss(partial, domain).backward();

  int const ranks = domain.comm().num_ranks();
  double const sum = 6.0 * ranks * (ranks + 1) / 2;
  EXPECT_EQ(y.item<double>(), sum);
  if (rank == 0) {
    EXPECT_TRUE(torch::equal(x.grad(), torch::full({2, 3}, 2 * sum, torch::kDouble)));
  }
}

/// Throws on rank 0, where the others go on to the halo.
class FaultyImpl : public nn::CommunicatingModule<FaultyImpl, FirstRow> {
 public:
  explicit FaultyImpl(nn::Domain const& domain) : CommunicatingModule(domain, "Faulty") { reset(); }
  void reset() override {
    halo = register_module("halo", nn::HaloExchange(nn::HaloExchangeOptions{.latitude = {1, 1}}, domain()));
  }
  torch::Tensor forward(torch::Tensor const& x) {
    auto const call = enter(
        x, [] {}, [](Layout const&) { return std::make_shared<FirstRow const>(); });
    return halo(domain().comm().rank() == 0 ? x.narrow(0, 5, 7) : x);
  }
  nn::HaloExchange halo{nullptr};
};
TORCH_MODULE(Faulty);

TEST(CommunicatingModule, a_users_layer_that_throws_on_one_rank_ends_the_waits_of_the_others) {
  auto comm = Comm::world().split(0, Comm::world().rank());
  if (comm.num_ranks() == 1) GTEST_SKIP() << "needs two ranks";
  auto const domain = bands(comm);
  Faulty layer(domain);
  Rows other(domain);
  auto const x = torch::zeros({2, 3});

  auto const found = test::thrown_by([&] {
    try {
      (void)layer(x);
    } catch (c10::Error const&) {
      throw Error("Foreign", "LibTorch's error");
    }
  });

  EXPECT_EQ(found.rule, comm.rank() == 0 ? "Foreign" : "PeerFailed");
  if (comm.rank() != 0) {
    EXPECT_NE(found.text.find("the forward of Faulty"), std::string::npos) << found.text;
  }
  comm.renew();
  test::forgive_left_objects();
  EXPECT_EQ(other(x)[0][0].item<double>(), 2 * comm.rank());
}

}  // namespace test_communicating_module
}  // namespace graticule
