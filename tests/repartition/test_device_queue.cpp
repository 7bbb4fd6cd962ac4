// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/halo/plan.hpp>
#include <graticule/repartition/device_queue.hpp>
#include <graticule/repartition/kokkos_view.hpp>

#include "test_field.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>

using namespace graticule;
using test::MemoryShape;
using test::TestField;

namespace {

TEST(DeviceQueue, is_null_without_an_instance_and_shares_the_one_given) {
  auto const instance = std::make_shared<int const>(3);

  DeviceQueue const none;
  DeviceQueue const queue(instance, 2);
  DeviceQueue const copy = queue;

  EXPECT_EQ(none.instance(), nullptr);
  EXPECT_EQ(queue.instance(), instance.get());
  EXPECT_EQ(copy.instance(), instance.get());
  EXPECT_EQ(copy.device(), 2);
  EXPECT_EQ(instance.use_count(), 3);
}

TEST(DeviceQueue, of_a_call_does_not_change_its_result) {
  auto const comm = Comm::world();
  Layout const layout(ProcessGrid{comm.num_ranks(), 1}, Indices{2 * comm.num_ranks() + 1, 6});
  HaloPlan const plan(comm, layout, {{1, 1}, {2, 2}}, Boundary::sphere(Edge::pole_face));
  auto const start = [&](DeviceQueue const& queue) {
    TestField<double> field(plan.local(), {}, MemoryShape::dense(2, 0), -1);
    field.set(plan.owned(), [](auto const& b, auto const& cell) { return test::bits_of<std::int16_t>(b, cell); });
    std::array const fields{HaloField{field.view()}};
    plan.start(std::span<HaloField const>(fields), queue).wait();
    return field;
  };

  auto const expected = start({});
  auto const found = start(device_queue(Kokkos::DefaultExecutionSpace()));

  EXPECT_TRUE(found.holds(expected));
  // Across the date line: a ghost cell was filled.
  auto const first = plan.owned().lo();
  Indices const ghost{first[0], -1};
  EXPECT_EQ(found.at(Indices(), ghost), test::bits_of<std::int16_t>(Indices(), Indices{first[0], 5}));
}

}  // namespace
