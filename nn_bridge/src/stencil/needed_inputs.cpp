// SPDX-License-Identifier: BSD-3-Clause
#include "needed_inputs.hpp"

namespace graticule::nn::detail {

Range own_range(Comm const& comm, Layout const& layout, int axis, Cuts const& cuts) {
  int const part = int(layout.grid()->coords(comm.rank())[axis]);
  return {cuts.lo(part), cuts.hi(part)};
}

NeededInputs::NeededInputs(Comm const& comm, Layout const& layout, NeedDescription const& d)
    : box_(box_of(d.needed[0], d.needed[1])), owned_(layout.owned(comm.rank())), turned_(!d.odd_channels.empty()) {
  Index reads_beyond = owned_.contains(box_) ? 0 : 1;
  comm.max(std::span(&reads_beyond, 1));
  if (reads_beyond == 0) return;
  std::vector<Target> targets{{box_, box_.empty() ? std::vector<Box>{} : std::vector{box_}}};
  pull_ =
      std::make_shared<TensorPull const>(comm, layout, d.boundary, std::move(targets), d.odd_channels, d.fingerprint);
}

torch::Tensor NeededInputs::own_part(torch::Tensor const& x) const {
  if (box_.empty()) {
    auto sizes = x.sizes().vec();
    for (int a = 0; a < 2; ++a) sizes[std::size_t(x.dim() + a - 2)] = box_.extent(a);
    return x.new_zeros(sizes) + x.narrow(-2, 0, 0).sum();
  }
  return narrowed(x, owned_, box_);
}

torch::Tensor NeededInputs::engine_view(torch::Tensor const& x) const {
  return turned_ && x.dim() == 5 ? x.transpose(1, 2) : x;
}

}  // namespace graticule::nn::detail
