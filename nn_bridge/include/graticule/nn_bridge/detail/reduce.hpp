// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/nn_bridge/detail/message_memory.hpp>
#include <graticule/nn_bridge/detail/types.hpp>
#include <graticule/partition/comm.hpp>

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace graticule::nn::detail {

/// A fresh sum of equally large tensors, added in the order given, in `type_of_sums`.
[[nodiscard]] inline torch::Tensor sum_in_order(std::vector<torch::Tensor> const& terms) {
  auto total = terms.front().to(type_of_sums(terms.front().scalar_type()), false, true, at::MemoryFormat::Contiguous);
  for (std::size_t i = 1; i < terms.size(); ++i) total.add_(terms[i]);
  return total;
}

/// Sums a contiguous tensor over the ranks of `comm`, in place and in its own dtype (16-bit types in f32), bitwise
/// equal on all ranks. Collective; integers wrap. @throws `UnsupportedTensor` for dtypes that have no sum
inline void sum_over(Comm const& comm, torch::Tensor& tensor) {
  auto const type = tensor.scalar_type();
  if (type == torch::kBool)
    throw Error("UnsupportedTensor", "booleans have no sum over ranks; convert the tensor to integers first");
  if (comm.num_ranks() == 1 || tensor.numel() == 0) return;
  if (type_of_sums(type) != type || !tensor.is_cpu()) {
    auto staged = as_message(tensor.to(type_of_sums(type)));
    await_messages(tensor.device());
    sum_over(comm, staged);
    tensor.copy_(from_message(staged, tensor.device()));
    return;
  }
  MPI_Datatype mpi_type = MPI_DATATYPE_NULL;
  switch (type) {
    case torch::kFloat: mpi_type = MPI_FLOAT; break;
    case torch::kDouble: mpi_type = MPI_DOUBLE; break;
    case torch::kLong: mpi_type = MPI_INT64_T; break;
    case torch::kInt: mpi_type = MPI_INT32_T; break;
    case torch::kShort: mpi_type = MPI_INT16_T; break;
    case torch::kChar: mpi_type = MPI_INT8_T; break;
    case torch::kByte: mpi_type = MPI_UINT8_T; break;
    case torch::kComplexFloat: mpi_type = MPI_C_FLOAT_COMPLEX; break;
    case torch::kComplexDouble: mpi_type = MPI_C_DOUBLE_COMPLEX; break;
    default:
      throw Error("UnsupportedTensor", std::string("tensors of ") + c10::toString(type) +
                                           " have no sum over ranks; convert them to a floating-point type first");
  }
  comm.reduce(tensor.mutable_data_ptr(), tensor.numel(), mpi_type, MPI_SUM);
}

/// Bytes of the pieces in which `sum_by_rank` adds.
inline constexpr Index bytes_of_summed_pieces = Index(32) << 20U;

/// Sums a flat tensor, real or complex, over the ranks of `comm`, in place and where each rank has its own: a rank adds
/// its part of the values of all ranks, in order of ranks, and gives it to the others. This is done piece by piece,
/// with the same bits on all ranks and for any size of the pieces. Collective.
/// @throws `UnsupportedTensor` for booleans
/// Cost: of n values on devices and P ranks n to the host and 2 n back; three pieces of device memory, two of pinned
/// memory.
void sum_by_rank(Comm const& comm, torch::Tensor& flat, Index piece_bytes = bytes_of_summed_pieces);

/// Where the ranks of a team add values: on devices only if all of them have theirs on one.
enum class AddedOn : std::uint8_t { host, device };

/// `sum_over` of a flat tensor, or `sum_by_rank` on devices. Collective. @param on the same on all ranks
/// @throws `UnsupportedTensor` for dtypes that have no sum
void sum_in_place(Comm const& comm, torch::Tensor& flat, AddedOn on);

}  // namespace graticule::nn::detail
