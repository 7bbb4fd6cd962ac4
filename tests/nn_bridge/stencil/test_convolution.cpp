// SPDX-License-Identifier: BSD-3-Clause
// Convolutions of 16-bit types for shapes that LibTorch gives wrong numbers for on processors with AMX.
#include <graticule/nn_bridge/stencil/channel_split_conv.hpp>
#include <graticule/nn_bridge/stencil/conv1d.hpp>
#include <graticule/nn_bridge/stencil/conv2d.hpp>
#include <graticule/nn_bridge/stencil/conv3d.hpp>
#include <graticule/nn_bridge/stencil/conv_transpose.hpp>

#include "layer_table.hpp"

#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <functional>
#include <mutex>

namespace graticule {
namespace test_convolution {

using test::domain_of;
using test::LayerResults;
using test::over_ranks;
using test::part_of;
using test::random_part;
using test::random_tensor;
using torch::Tensor;
using Sizes = std::vector<std::int64_t>;

/// 2 x 16-bit rounding of the output, of a strip and of their sum, and of gradients of the sums over ranks.
double rounding_of(torch::Dtype dtype) { return 8 * (dtype == torch::kBFloat16 ? 1.0 / 256 : 1.0 / 2048); }

struct Windows {
  Sizes kernel, stride, padding, dilation;
};

Windows random_windows(std::mt19937& random, Sizes const& extents) {
  Windows w;
  for (auto const extent : extents) {
    auto const kernel = std::min<std::int64_t>(extent, 1 + std::int64_t(random() % 5));
    w.kernel.push_back(kernel);
    w.stride.push_back(1 + std::int64_t(random() % 3));
    w.padding.push_back(std::int64_t(random() % std::uint32_t(kernel / 2 + 1)));
    w.dilation.push_back(kernel > 1 && 2 * (kernel - 1) < extent ? 1 + std::int64_t(random() % 2) : 1);
  }
  return w;
}

template <std::size_t D>
torch::nn::ConvOptions<D> options_of(Windows const& w, std::int64_t in, std::int64_t out) {
  auto const array = [](Sizes const& values) { return torch::ExpandingArray<D>(at::IntArrayRef(values)); };
  return torch::nn::ConvOptions<D>(in, out, array(w.kernel))
      .stride(array(w.stride))
      .padding(array(w.padding))
      .dilation(array(w.dilation));
}

Tensor in_f64(Tensor const& x) { return x.detach().to(torch::kDouble); }

/// Expects each number within `rounding` of the sum of the magnitudes of its terms, but for the smallest numbers of
/// f16.
void expect_rounded(char const* what, Tensor const& found, Tensor const& exact, Tensor const& magnitudes,
                    double rounding) {
  ASSERT_EQ(found.sizes(), exact.sizes()) << what;
  if (found.numel() == 0) return;
  auto const excess = ((in_f64(found) - exact).abs() - rounding * magnitudes).max().item<double>();
  EXPECT_LE(excess, 1e-6) << what;
}

/// One layer of random windows on this rank's shard of a field of few columns against f64.
template <std::size_t D, class Sharded>
void compare_with_f64(std::mt19937& random, torch::Dtype dtype, Sizes const& extents) {
  auto const in = std::int64_t(1) << (random() % 6);
  auto const out = std::int64_t(1) << (random() % 5);
  auto const windows = random_windows(random, extents);
  auto const domain =
      D == 1 ? nn::Domain(Comm::world(), ProcessGrid{Comm::world().num_ranks(), 1}) : domain_of(random());
  SCOPED_TRACE(testing::Message() << D << "d, " << in << " to " << out << " channels of " << at::IntArrayRef(extents)
                                  << ", kernel " << at::IntArrayRef(windows.kernel) << ", stride "
                                  << at::IntArrayRef(windows.stride) << ", padding " << at::IntArrayRef(windows.padding)
                                  << ", dilation " << at::IntArrayRef(windows.dilation));
  auto sizes = Sizes{2, in};
  sizes.insert(sizes.end(), extents.begin(), extents.end());
  auto const whole = random_tensor(random, sizes).to(dtype);
  auto const cut = [&](Tensor const& x, auto const& part) {
    return D == 1 ? part.of(x.unsqueeze(-1)).squeeze(-1) : part.of(x);
  };
  auto const as_plane = [](Tensor const& x) { return D == 1 ? x.unsqueeze(-1) : x; };
  auto const part = random_part(domain, random, as_plane(whole).sizes().vec());
  Sharded layer(nn::ConvOptions<D>(options_of<D>(windows, in, out)), domain);
  layer->to(dtype);
  {
    torch::NoGradGuard const no_grad;
    layer->weight.copy_(random_tensor(random, layer->weight.sizes().vec()));
    layer->bias.copy_(random_tensor(random, {out}));
  }
  auto const serial = [&](Tensor const& x, Tensor const& weight, Tensor const& bias) {
    return at::convolution(x, weight, bias, windows.stride, windows.padding, windows.dilation, false, Sizes(D, 0), 1);
  };
  auto const wide = in_f64(whole);
  auto const weight = in_f64(layer->weight);
  auto const bias = in_f64(layer->bias);
  auto const exact = serial(wide, weight, bias);
  auto const cotangent = random_tensor(random, exact.sizes().vec()).to(dtype);
  auto const gradients = [&](Tensor const& x, Tensor const& w, Tensor const& g) {
    return at::convolution_backward(g, x, w, Sizes{out}, windows.stride, windows.padding, windows.dilation, false,
                                    Sizes(D, 0), 1, {true, true, true});
  };
  auto const [x_grad, weight_grad, bias_grad] = gradients(wide, weight, in_f64(cotangent));
  auto const [x_sum, weight_sum, bias_sum] = gradients(wide.abs(), weight.abs(), in_f64(cotangent).abs());

  auto const shard = cut(whole, part).clone().requires_grad_();
  auto const found = layer(shard);
  auto const own = part_of(domain, as_plane(found));
  found.backward(cut(cotangent, own).contiguous());

  double const rounding = rounding_of(dtype);
  expect_rounded("output", found, cut(exact, own), cut(serial(wide.abs(), weight.abs(), bias.abs()), own), rounding);
  expect_rounded("gradient", shard.grad(), cut(x_grad, part), cut(x_sum, part), rounding);
  auto const whole_of = [&](Tensor const& grad, Tensor const& like) {
    return over_ranks(domain.comm(), grad.defined() ? grad : torch::zeros_like(like));
  };
  expect_rounded("weight", whole_of(layer->weight.grad(), layer->weight), weight_grad, weight_sum, rounding);
  expect_rounded("bias", whole_of(layer->bias.grad(), layer->bias), bias_grad, bias_sum, rounding);
}

TEST(Convolution, of_16_bit_types_and_any_stride_is_right_on_few_columns) {
  std::mt19937 random(21);
  for (int repeat = 0; repeat < 30; ++repeat)
    for (auto const dtype : {torch::kBFloat16, torch::kHalf}) {
      auto const extent = [&](std::uint32_t most) { return 2 + std::int64_t(random() % (most - 1)); };
      Sizes const plane{extent(12), extent(9)};
      compare_with_f64<2, nn::Conv2d>(random, dtype, plane);
      if (repeat % 3 == 0) compare_with_f64<1, nn::Conv1d>(random, dtype, {extent(12)});
      if (repeat % 3 == 1) compare_with_f64<3, nn::Conv3d>(random, dtype, {extent(4), plane[0], plane[1]});
    }
}

/// Whether LibTorch is asked, while this lives, for a strided 16-bit convolution to one column.
class Watch {
 public:
  Watch() {
    instance_ = this;
    handle_ = at::addGlobalCallback(at::RecordFunctionCallback(&Watch::seen)
                                        .needsInputs(true)
                                        .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
  }
  ~Watch() {
    at::removeCallback(handle_);
    instance_ = nullptr;
  }
  Watch(Watch const&) = delete;
  Watch& operator=(Watch const&) = delete;

  [[nodiscard]] int calls() const noexcept { return calls_; }
  [[nodiscard]] int of_one_column() const noexcept { return of_one_column_; }

 private:
  static std::unique_ptr<at::ObserverContext> seen(at::RecordFunction const& function) {
    std::string const name = function.name();
    bool const backward = name == "aten::convolution_backward";
    if (!instance_ || (!backward && name != "aten::convolution")) return nullptr;
    auto const inputs = function.inputs();
    // (x, weight, bias, stride, padding, dilation, ...); the backward has the gradient first, and bias sizes.
    std::size_t const first = backward ? 1 : 0;
    auto const x = inputs[first].toTensor();
    auto const kernel = inputs[first + 1].toTensor().sizes().vec();
    auto const stride = inputs[first + 3].toIntVector();
    auto const padding = inputs[first + 4].toIntVector();
    auto const dilation = inputs[first + 5].toIntVector();
    bool const transposed = inputs[first + 6].toBool();
    auto const read = x.size(-1) + 2 * padding.back() - dilation.back() * (kernel.back() - 1) - 1;
    auto const columns = transposed ? x.size(-1) : read / stride.back() + 1;
    std::lock_guard const lock(instance_->mutex_);
    ++instance_->calls_;
    bool const short_numbers = x.scalar_type() == torch::kBFloat16 || x.scalar_type() == torch::kHalf;
    if (short_numbers && columns == 1 && stride.back() > 1) ++instance_->of_one_column_;
    return nullptr;
  }

  inline static Watch* instance_ = nullptr;
  at::CallbackHandle handle_ = 0;
  std::mutex mutex_;
  int calls_ = 0;
  int of_one_column_ = 0;
};

TEST(Convolution, of_16_bit_types_with_stride_to_one_column_is_never_asked_of_libtorch) {
  std::mt19937 random(22);
  auto const domain = domain_of(0);
  auto const run = [&](auto layer, Sizes const& sizes, torch::Dtype dtype) {
    layer->to(dtype);
    auto const whole = random_tensor(random, sizes).to(dtype);
    auto const shard = random_part(domain, random, sizes).of(whole).clone().requires_grad_();
    auto const y = layer(shard);
    auto const first = torch::autograd::grad({y.square().sum()}, {shard}, {}, true, true)[0];
    (first.square().sum() + y.sum()).backward();
  };
  for (auto const dtype : {torch::kBFloat16, torch::kHalf}) {
    Watch const watch;

    for (std::int64_t columns = 1; columns < 9; ++columns) {
      auto const options = torch::nn::Conv2dOptions(4, 2, {3, 5}).stride(2).padding({1, 2});
      run(nn::Conv2d(options, domain), {2, 4, 9, columns}, dtype);
      if (columns % 2 == 0)
        run(nn::Conv2d(nn::ConvOptions(options, nn::Padding::by_domain), domain), {2, 4, 9, columns}, dtype);
      run(nn::Conv3d(torch::nn::Conv3dOptions(4, 2, 3).stride(2).padding(1), domain), {2, 4, 3, 9, columns}, dtype);
      run(nn::ConvTranspose2d(torch::nn::ConvTranspose2dOptions(4, 2, 3).stride(2).padding(1), domain),
          {2, 4, 9, columns}, dtype);
    }
    nn::ChannelSplitConv2d split(torch::nn::Conv2dOptions(4, 2, 3).stride(2).padding(1),
                                 nn::SplitOptions{.split = nn::FeatureSplit::input}, domain);
    split->to(dtype);
    auto const channels = domain.comm().rank() == 0 ? 4 : 0;
    split(torch::ones({1, channels, 5, 2}, dtype)).sum().backward();

    EXPECT_GT(watch.calls(), 0);
    EXPECT_EQ(watch.of_one_column(), 0);
  }
}

/// Output, then gradients of input, weight and bias, by LibTorch.
std::vector<Tensor> of_libtorch(Tensor const& x, Tensor const& weight, Tensor const& bias, Tensor const& g) {
  Sizes const ones(std::size_t(x.dim() - 2), 1);
  Sizes const zeros(ones.size(), 0);
  auto const y = at::convolution(x, weight, bias, ones, zeros, ones, false, zeros, 1);
  auto const [x_grad, weight_grad, bias_grad] = at::convolution_backward(
      g, x, weight, Sizes{weight.size(0)}, ones, zeros, ones, false, zeros, 1, {true, true, true});
  return {y, x_grad, weight_grad, bias_grad};
}

TEST(Convolution, of_single_cells_is_that_of_libtorch_and_asks_it_for_none) {
  std::mt19937 random(23);
  auto const domain = domain_of(0);
  auto const compare = [&](auto make, Sizes const& sizes, torch::Dtype dtype) {
    SCOPED_TRACE(testing::Message() << at::IntArrayRef(sizes) << " of " << dtype);
    std::int64_t const out = 1 + std::int64_t(random() % 5);
    auto layer = make(sizes[1], out);
    layer->to(dtype);
    auto const whole = random_tensor(random, sizes).to(dtype);
    auto const part = random_part(domain, random, sizes);
    auto const shard = part.of(whole).clone().requires_grad_();
    auto g = random_tensor(random, sizes).to(dtype).narrow(1, 0, 1);
    auto repeats = Sizes(sizes.size(), 1);
    repeats[1] = out;
    g = g.repeat(repeats);
    auto const expected = of_libtorch(in_f64(whole), in_f64(layer->weight), in_f64(layer->bias), in_f64(g));
    double const rounding = dtype == torch::kDouble ? 1e-13 : 1e-5;
    auto const expect_near = [&](char const* what, Tensor const& found, Tensor const& exact) {
      ASSERT_EQ(found.sizes(), exact.sizes()) << what;
      if (found.numel() == 0) return;
      EXPECT_LE((in_f64(found) - exact).abs().max().template item<double>(),
                rounding * (1 + exact.abs().max().template item<double>()))
          << what;
    };
    Watch const watch;
    auto const y = layer(shard);
    y.backward(part.of(g).contiguous());
    EXPECT_EQ(watch.calls(), 0);
    expect_near("output", y, part.of(expected[0]));
    expect_near("gradient", shard.grad(), part.of(expected[1]));
    expect_near("weight", over_ranks(domain.comm(), layer->weight.grad()), expected[2]);
    expect_near("bias", over_ranks(domain.comm(), layer->bias.grad()), expected[3]);

    // The second derivative, through LibTorch.
    auto const again = layer(shard);
    auto const first = torch::autograd::grad({again.square().sum()}, {shard}, {}, true, true)[0];
    auto const second = torch::autograd::grad({first.sum()}, {shard})[0];
    auto const matrix = in_f64(layer->weight).view({out, sizes[1]});
    auto const rows = 2 * matrix.t().mm(matrix).sum(0);
    auto shape = Sizes(sizes.size(), 1);
    shape[1] = sizes[1];
    expect_near("second derivative", second, rows.view(shape).expand(second.sizes()));
  };
  auto const plane = [&](std::int64_t from, std::int64_t to) {
    return nn::Conv2d(nn::ConvOptions(torch::nn::Conv2dOptions(from, to, 1)), domain);
  };
  auto const levels = [&](std::int64_t from, std::int64_t to) {
    return nn::Conv3d(nn::ConvOptions(torch::nn::Conv3dOptions(from, to, 1)), domain);
  };
  for (auto const dtype : {torch::kFloat, torch::kDouble}) {
    compare(plane, {1, 3, 7, 9}, dtype);
    compare(plane, {3, 4, 6, 5}, dtype);
    // More cells than a block has.
    compare(plane, {2, 40, 80, 64}, dtype);
    compare(levels, {2, 3, 4, 7, 8}, dtype);
  }
}

TEST(Convolution, of_single_cells_gives_the_gradients_that_are_wanted) {
  auto const domain = domain_of(0);
  nn::Conv2d layer(nn::ConvOptions(torch::nn::Conv2dOptions(2, 3, 1).bias(false)), domain);
  std::mt19937 random(24);
  Sizes const sizes{1, 2, 8, 6};
  auto const x = random_part(domain, random, sizes).of(torch::ones(sizes));
  layer(x).sum().backward();
  auto const of_weight = over_ranks(domain.comm(), layer->weight.grad());
  EXPECT_TRUE(torch::equal(of_weight, torch::full({3, 2, 1, 1}, 48)));

  layer->weight.set_requires_grad(false);
  auto const leaf = x.clone().requires_grad_();
  layer(leaf).sum().backward();
  auto const expected = layer->weight.sum(0).view({1, 2, 1, 1}).expand(leaf.sizes());
  EXPECT_TRUE(torch::allclose(leaf.grad(), expected));
}

}  // namespace test_convolution
}  // namespace graticule
