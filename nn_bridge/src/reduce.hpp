// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/partition/comm.hpp>

#include <torch/torch.h>

#include <complex>

namespace graticule::nn::detail {

/// Sums a contiguous tensor over the ranks of `comm`, in place and in its own dtype (16-bit types in f32), to the same
/// bits on all ranks. Collective. @throws `UnsupportedTensor` for dtypes that have no sum
inline void sum_over(Comm const& comm, torch::Tensor& tensor) {
  if (comm.num_ranks() == 1 || tensor.numel() == 0) return;
  auto const type = tensor.scalar_type();
  if (type == torch::kHalf || type == torch::kBFloat16 || !tensor.is_cpu()) {
    auto staged = tensor.to(torch::kCPU, type == torch::kHalf || type == torch::kBFloat16 ? torch::kFloat : type).contiguous();
    sum_over(comm, staged);
    tensor.copy_(staged);
    return;
  }
  MPI_Datatype mpi_type = MPI_DATATYPE_NULL;
  switch (type) {
    case torch::kFloat: mpi_type = MPI_FLOAT; break;
    case torch::kDouble: mpi_type = MPI_DOUBLE; break;
    case torch::kLong: mpi_type = MPI_INT64_T; break;
    case torch::kInt: mpi_type = MPI_INT32_T; break;
    case torch::kComplexFloat: mpi_type = MPI_C_FLOAT_COMPLEX; break;
    case torch::kComplexDouble: mpi_type = MPI_C_DOUBLE_COMPLEX; break;
    default: throw Error("UnsupportedTensor", std::string("no sum over ranks for dtype ") + c10::toString(type));
  }
  // Reduce and broadcast: the MPI standard only recommends that an all-reduce gives all ranks the same bits.
  constexpr std::int64_t piece = std::int64_t(1) << 28;
  auto* const data = static_cast<std::byte*>(tensor.mutable_data_ptr());
  for (std::int64_t done = 0; done < tensor.numel(); done += piece) {
    auto const count = int(std::min(piece, tensor.numel() - done));
    auto* const at = data + done * std::int64_t(tensor.element_size());
    check_mpi(MPI_Reduce(comm.rank() == 0 ? MPI_IN_PLACE : at, at, count, mpi_type, MPI_SUM, 0, comm.handle()), "MPI_Reduce");
    check_mpi(MPI_Bcast(at, count, mpi_type, 0, comm.handle()), "MPI_Bcast");
  }
}

}  // namespace graticule::nn::detail
