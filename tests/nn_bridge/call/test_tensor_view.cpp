// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/call/tensor_view.hpp>
#include <graticule/nn_bridge/detail/types.hpp>

#include "expect_error.hpp"

#include <gtest/gtest.h>

#include <array>
#include <utility>
#include <vector>

namespace graticule {
namespace test_tensor_view {

using nn::tensor_view;
using test::rule_of;

TEST(TensorView, of_a_field_has_its_last_two_axes_as_grid_and_its_memory) {
  auto const x = torch::zeros({2, 3, 5, 4}, torch::kDouble);

  auto const view = tensor_view(x);

  EXPECT_EQ(view.data, x.const_data_ptr());
  EXPECT_EQ(view.dtype, DType::f64);
  EXPECT_EQ(view.extents, Indices({2, 3, 5, 4}));
  EXPECT_EQ(view.strides, Indices({60, 20, 4, 1}));
  EXPECT_EQ(view.grid_axes, Indices({2, 3}));
  EXPECT_EQ(view.batch_extents(), Indices({2, 3}));
  EXPECT_EQ(view.space, MemorySpace::host);
}

TEST(TensorView, copies_nothing_of_any_strides) {
  auto const x = torch::zeros({2, 6, 5, 4}, torch::kFloat);
  for (auto const& part : {x.transpose(-1, -2), x.narrow(1, 2, 3), x.slice(-1, 0, 4, 2), x[0][1].expand({7, 5, 4}),
                           x.contiguous(torch::MemoryFormat::ChannelsLast)}) {
    auto const view = tensor_view(part);

    EXPECT_EQ(view.data, part.const_data_ptr());
    for (int a = 0; a < int(part.dim()); ++a) {
      EXPECT_EQ(view.extents[a], part.size(a));
      EXPECT_EQ(view.strides[a], part.stride(a));
    }
  }
}

TEST(TensorView, of_other_axes_counts_them_from_the_last_one) {
  auto const x = torch::zeros({2, 3, 5, 4});

  EXPECT_EQ(tensor_view(x, std::array<std::int64_t, 3>{-3, -2, -1}).grid_axes, Indices({1, 2, 3}));
  EXPECT_EQ(tensor_view(x, std::array<std::int64_t, 2>{-1, -4}).grid_axes, Indices({3, 0}));
  EXPECT_EQ(tensor_view(x, std::array<std::int64_t, 0>{}).batch_extents(), Indices({2, 3, 5, 4}));
}

TEST(TensorView, knows_the_types_that_the_engine_moves) {
  std::vector<std::pair<torch::Dtype, DType>> const table{
      {torch::kByte, DType::u8},    {torch::kBool, DType::u8},          {torch::kChar, DType::i8},
      {torch::kShort, DType::i16},  {torch::kInt, DType::i32},          {torch::kLong, DType::i64},
      {torch::kHalf, DType::f16},   {torch::kBFloat16, DType::bf16},    {torch::kFloat, DType::f32},
      {torch::kDouble, DType::f64}, {torch::kComplexFloat, DType::c64}, {torch::kComplexDouble, DType::c128}};
  for (auto const& [type, expected] : table) {
    EXPECT_EQ(nn::detail::dtype_of(type), expected);
    EXPECT_EQ(size_of(expected), Index(torch::elementSize(type)));
    EXPECT_EQ(tensor_view(torch::zeros({2, 2}, type)).dtype, expected);
  }
  EXPECT_EQ(rule_of([] { (void)nn::detail::dtype_of(torch::kComplexHalf); }), "UnsupportedTensor");
}

TEST(TensorView, refuses_what_has_no_memory_of_a_field) {
  auto const refused = [](torch::Tensor const& x) { return rule_of([&] { (void)tensor_view(x); }); };
  auto const complex = torch::zeros({2, 2}, torch::kComplexFloat);

  EXPECT_EQ(refused(torch::Tensor()), "UnsupportedTensor");
  EXPECT_EQ(refused(torch::zeros({3})), "UnsupportedTensor");
  EXPECT_EQ(refused(torch::zeros({2, 2}).to_sparse()), "UnsupportedTensor");
  EXPECT_EQ(refused(torch::zeros({2, 2}, torch::TensorOptions(torch::kMeta))), "UnsupportedTensor");
  EXPECT_EQ(refused(complex.conj()), "UnsupportedTensor");
  EXPECT_EQ(refused(at::imag(complex.conj())), "UnsupportedTensor");
  EXPECT_EQ(refused(complex.conj().resolve_conj()), "nothing was thrown");
}

}  // namespace test_tensor_view
}  // namespace graticule
