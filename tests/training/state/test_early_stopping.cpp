// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/checkpoint.hpp>
#include <graticule/training/schedule/early_stopping.hpp>

#include "expect_error.hpp"
#include "shared_folder.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace graticule {
namespace test_early_stopping {

using test::Folder;
using test::rule_of;

TEST(EarlyStopping, stops_after_its_patience_and_goes_on_counting) {
  auto const comm = Comm::world();
  Folder const folder(comm);
  CheckpointStore store(comm, folder / "run");
  training::EarlyStopping stopping(3, 0.1);
  for (double const loss : {std::nan(""), 5.0, 4.6, 4.4}) EXPECT_FALSE(stopping.observe(loss)) << loss;
  EXPECT_EQ(stopping.best(), 4.4);
  EXPECT_FALSE(stopping.observe(4.1));
  auto writer = store.begin(0);
  stopping.save(writer, "early");
  auto const path = writer.commit();

  training::EarlyStopping other(3, 0.1);
  other.load(Checkpoint(comm, path), "early");

  EXPECT_FALSE(other.observe(std::nan("")));
  EXPECT_TRUE(other.observe(4.0));
  EXPECT_FALSE(other.observe(3.9));
  EXPECT_EQ(rule_of([] { training::EarlyStopping const none(0); }), "BadOption");
  EXPECT_EQ(rule_of([] { training::EarlyStopping const all(1, 1); }), "BadOption");
}

TEST(EarlyStopping, counts_observations_without_improvement) {
  training::EarlyStopping stopping(2);

  EXPECT_FALSE(stopping.observe(5));
  EXPECT_FALSE(stopping.observe(4));
  EXPECT_FALSE(stopping.observe(4));
  EXPECT_EQ(stopping.num_without_improvement(), 1);
  EXPECT_FALSE(stopping.stopped());
  EXPECT_TRUE(stopping.observe(4));
  EXPECT_TRUE(stopping.stopped());
  EXPECT_FALSE(stopping.observe(3));
  EXPECT_EQ(stopping.num_without_improvement(), 0);
  EXPECT_EQ(rule_of([] { training::EarlyStopping const worse(1, -0.1); }), "BadOption");
}

}  // namespace test_early_stopping
}  // namespace graticule
