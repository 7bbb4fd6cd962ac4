// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/detail/mask_kernel.hpp>
#include <graticule/repartition/detail/device_launch.hpp>

namespace graticule::nn::detail {

namespace {

/// `philox` in words that kernels may use: std::array has no functions of a device.
KOKKOS_INLINE_FUNCTION std::uint32_t word_at(MaskWords const& words, std::uint64_t index) {
  std::uint64_t const block = index / 4;
  std::uint32_t counter[4] = {std::uint32_t(block), std::uint32_t(block >> 32U), words.draw, words.layer};
  std::uint32_t key[2] = {std::uint32_t(words.seed), std::uint32_t(words.seed >> 32U)};
  for (int round = 0; round < 10; ++round) {
    std::uint64_t const even = std::uint64_t(0xD2511F53U) * counter[0];
    std::uint64_t const odd = std::uint64_t(0xCD9E8D57U) * counter[2];
    counter[0] = std::uint32_t(odd >> 32U) ^ counter[1] ^ key[0];
    counter[1] = std::uint32_t(odd);
    counter[2] = std::uint32_t(even >> 32U) ^ counter[3] ^ key[1];
    counter[3] = std::uint32_t(even);
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter[index % 4];
}

template <class T>
struct FillMask {
  MaskWords words;
  MaskCells cells;
  T kept;
  T* to;

  KOKKOS_INLINE_FUNCTION void operator()(Index i) const {
    Index rest = i;
    Index index = cells.first;
    for (int a = cells.num_axes - 1; a >= 0; --a) {
      Index const here = rest % cells.extents[a];
      rest /= cells.extents[a];
      index += (a == cells.listed ? cells.list[here] : here) * cells.strides[a];
    }
    to[i] = word_at(words, std::uint64_t(index)) >= words.threshold ? kept : T(0);
  }
};

template <class T>
void fill(DeviceQueue const& queue, MaskWords const& words, MaskCells const& cells, T kept, T* to) {
  Index count = 1;
  for (int a = 0; a < cells.num_axes; ++a) count *= cells.extents[a];
  if (count == 0) return;
  graticule::detail::launch(queue, "graticule: random mask", count, FillMask<T>{words, cells, kept, to});
  // Where LibTorch does not hand out its streams, what follows in them is not behind the kernel.
  if (!queue.instance()) graticule::detail::fence(queue);
}

}  // namespace

void fill_mask(DeviceQueue const& queue, MaskWords const& words, MaskCells const& cells, float kept, float* to) {
  fill(queue, words, cells, kept, to);
}

void fill_mask(DeviceQueue const& queue, MaskWords const& words, MaskCells const& cells, double kept, double* to) {
  fill(queue, words, cells, kept, to);
}

}  // namespace graticule::nn::detail
