// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/repartition/kokkos_view.hpp>

#include <gtest/gtest.h>

#include <utility>

using namespace graticule;

namespace {

/// Each element is found where the view says that it is.
template <class View>
void expect_elements_in_place(View const& view, FieldView const& field) {
  auto const* const data = static_cast<typename View::value_type const*>(field.data);
  ASSERT_EQ(field.extents, Indices({3, 4, 5}));
  for (Index i = 0; i < 3; ++i)
    for (Index j = 0; j < 4; ++j)
      for (Index k = 0; k < 5; ++k)
        ASSERT_EQ(data + i * field.strides[0] + j * field.strides[1] + k * field.strides[2],
                  &view(std::size_t(i), std::size_t(j), std::size_t(k)));
}

TEST(KokkosView, of_any_layout_is_viewed_in_place) {
  Kokkos::View<double***, Kokkos::LayoutRight, Kokkos::HostSpace> const rows("rows", 3, 4, 5);
  Kokkos::View<float***, Kokkos::LayoutLeft, Kokkos::HostSpace> const columns("columns", 3, 4, 5);
  Kokkos::View<double***, Kokkos::LayoutRight, Kokkos::HostSpace> const large("large", 6, 8, 9);
  auto const part = Kokkos::subview(large, std::make_pair(1, 4), std::make_pair(2, 6), std::make_pair(3, 8));

  expect_elements_in_place(rows, field_view(rows, {1, 2}));
  expect_elements_in_place(columns, field_view(columns, {0, 1}));
  expect_elements_in_place(part, field_view(part, {1, 2}));
  EXPECT_EQ(field_view(columns, {0, 1}).dtype, DType::f32);
  EXPECT_EQ(field_view(columns, {0, 2}).batch_extents(), Indices({4}));
  EXPECT_EQ(field_view(rows, {1, 2}).space, MemorySpace::host);
}

TEST(KokkosView, of_constant_or_no_elements_is_viewed_too) {
  Kokkos::View<double**, Kokkos::HostSpace> const view("view", 2, 3);
  Kokkos::View<double const**, Kokkos::HostSpace> const constant = view;
  Kokkos::View<float**, Kokkos::HostSpace> const empty("empty", 0, 3);

  EXPECT_EQ(field_view(constant, {0, 1}).data, view.data());
  EXPECT_EQ(field_view(constant, {0, 1}).dtype, DType::f64);
  EXPECT_EQ(field_view(empty, {0, 1}).extents, Indices({0, 3}));
}

TEST(KokkosView, in_memory_that_the_host_reads_is_host_memory) {
  using Device = Kokkos::DefaultExecutionSpace::memory_space;
  constexpr bool host_reads_device = Kokkos::SpaceAccessibility<Kokkos::DefaultHostExecutionSpace, Device>::accessible;
  Kokkos::View<double*, Device> const view("view", 4);

  EXPECT_EQ(field_view(view, {0}).space, host_reads_device ? MemorySpace::host : MemorySpace::device);
}

TEST(KokkosView, queue_holds_the_given_instance) {
  Kokkos::DefaultExecutionSpace const instance;

  auto const queue = device_queue(instance);

  ASSERT_NE(queue.instance(), nullptr);
  auto const* const held = static_cast<Kokkos::DefaultExecutionSpace const*>(queue.instance());
  EXPECT_NE(held, &instance);  // A copy, which shares the queue.
  EXPECT_EQ(held->concurrency(), instance.concurrency());
}

}  // namespace
