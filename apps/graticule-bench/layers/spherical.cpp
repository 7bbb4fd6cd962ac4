// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/nn_bridge/spectral/spherical_harmonics.hpp>

#include "options.hpp"
#include "shards.hpp"
#include "timing.hpp"

namespace graticule::bench {

void run_spherical(app::Context& context, Options const& options) {
  Shards const shards(context, options);
  auto const& comm = context.comm;
  auto const alone = domain_alone(comm);
  auto const own = balanced_cuts(options.num_rows, comm.num_ranks()).lo(comm.rank());
  auto const own_rows = [&](torch::Tensor const& field) {
    return field.detach().narrow(-2, own, shards.rows).contiguous();
  };
  // The same on all ranks.
  auto const whole = torch::randn({1, shards.channels, options.num_rows, options.num_columns}).requires_grad_();
  auto const x = own_rows(whole).requires_grad_();
  for (auto const degrees : {(options.num_rows + 1) / 2, options.num_rows}) {
    nn::SphericalTransformOptions const transform{.rows = nn::latitude_rule(latitudes_of(options.num_rows)),
                                                  .num_degrees = degrees};
    auto const there_and_back = [](nn::SphericalTransform layer, torch::Tensor const& field) {
      return [layer, field, cotangent = torch::randn_like(field)]() mutable {
        layer->inverse(layer->forward(field)).backward(cotangent);
        field.mutable_grad() = torch::Tensor();
      };
    };
    nn::SphericalTransform serial(transform, alone);
    nn::SphericalTransform sharded(transform, shards.domain);
    auto const expected = own_rows(serial->inverse(serial->forward(whole)));
    auto const found = sharded->inverse(sharded->forward(x)).detach();
    require(comm, torch::allclose(found, expected, 1e-4, 1e-4), "the transforms of shards and of whole fields differ");
    show(context,
         "spherical transform of " + std::to_string(degrees) + " degrees, there and back with gradient, " +
             shards.size_text,
         interleave(context,
                    {{"the whole field on each rank", there_and_back(serial, whole)},
                     {"sharded over latitude", there_and_back(sharded, x)}},
                    options.timing));
  }
}

}  // namespace graticule::bench
