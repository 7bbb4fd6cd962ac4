// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/collective/feature_split.hpp>
#include <graticule/nn_bridge/collective/linear.hpp>

#include "shards.hpp"

#include <gtest/gtest.h>

namespace graticule {
namespace test_feature_split {

using nn::FeatureSplit;
using nn::SplitOptions;

/// What a layer of 5 features to 7 leaves of one row on this rank, and the serial output.
struct SplitRow {
  explicit SplitRow(SplitOptions const& options) {
    auto const comm = Comm::world();
    nn::Domain const domain(comm, ProcessGrid{comm.num_ranks(), 1});
    nn::Linear layer(torch::nn::LinearOptions(5, 7), options, domain,
                     nn::Sharding{{-1}, ProcessGrid{comm.num_ranks()}});
    std::mt19937 random(3);
    layer->to(torch::kDouble);
    test::randomize(*layer, random);
    auto const x = test::random_tensor(random, {1, 5});
    auto const cuts = balanced_cuts(5, comm.num_ranks());
    bool const cut = options.split != FeatureSplit::output;
    found = layer(cut ? x.narrow(-1, cuts.lo(comm.rank()), cuts.size(comm.rank())) : x).detach();
    expected = torch::linear(x, layer->weight, layer->bias).detach();
  }
  torch::Tensor found, expected;
};

TEST(FeatureSplit, of_the_input_gives_all_ranks_the_whole_output) {
  SplitRow const row({.split = FeatureSplit::input});

  EXPECT_LE(test::difference(row.found, row.expected), 1e-14);
}

TEST(FeatureSplit, of_the_output_gives_each_rank_its_balanced_part) {
  auto const comm = Comm::world();
  auto const cuts = balanced_cuts(7, comm.num_ranks());
  for (auto const split : {FeatureSplit::output, FeatureSplit::both}) {
    SplitRow const row({.split = split});

    EXPECT_LE(test::difference(row.found, row.expected.narrow(-1, cuts.lo(comm.rank()), cuts.size(comm.rank()))),
              1e-14);
  }
}

TEST(FeatureSplit, cuts_outputs_where_it_is_given) {
  auto const comm = Comm::world();
  std::vector<Index> sizes(std::size_t(comm.num_ranks()), 0);
  sizes.back() = 7;  // The last rank has all.
  for (auto const split : {FeatureSplit::output, FeatureSplit::both}) {
    SplitRow const row({.split = split, .output_cuts = Cuts(sizes)});

    bool const last = comm.rank() == comm.num_ranks() - 1;
    EXPECT_LE(test::difference(row.found, last ? row.expected : row.expected.narrow(-1, 0, 0)), 1e-14);
  }
}

}  // namespace test_feature_split
}  // namespace graticule
