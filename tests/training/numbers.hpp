// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace graticule::test {

/// Random numbers of f64 with a normal distribution, the same on all ranks for one seed.
inline torch::Tensor numbers(std::uint64_t seed, std::vector<std::int64_t> const& sizes) {
  auto generator = torch::make_generator<torch::CPUGeneratorImpl>(seed);
  return torch::randn(sizes, generator, torch::dtype(torch::kDouble));
}

/// The mean of what the ranks hold, of f64. Collective.
inline torch::Tensor mean_over(Comm const& comm, torch::Tensor const& tensor) {
  auto sum = tensor.detach().contiguous().clone();
  comm.sum(std::span(sum.mutable_data_ptr<double>(), std::size_t(sum.numel())));
  return sum / comm.num_ranks();
}

/// Whether dense host tensors have the same type, sizes and bits; NaN equals itself.
inline bool same_bits(torch::Tensor const& a, torch::Tensor const& b) {
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
  return a.numel() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

}  // namespace graticule::test
