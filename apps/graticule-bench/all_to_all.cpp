// SPDX-License-Identifier: BSD-3-Clause
#include "all_to_all.hpp"

#include <algorithm>
#include <cstring>

namespace graticule::bench {

namespace {

MPI_Datatype subarray(Box const& part, Box const& whole) {
  if (part.empty()) return MPI_DOUBLE;
  std::vector<int> sizes, subsizes, starts;
  for (int a = 0; a < part.ndim(); ++a) {
    sizes.push_back(int(whole.extent(a)));
    subsizes.push_back(int(part.extent(a)));
    starts.push_back(int(part.lo(a) - whole.lo(a)));
  }
  MPI_Datatype type = MPI_DATATYPE_NULL;
  check_mpi(MPI_Type_create_subarray(part.ndim(), sizes.data(), subsizes.data(), starts.data(), MPI_ORDER_C, MPI_DOUBLE,
                                     &type),
            "MPI_Type_create_subarray");
  check_mpi(MPI_Type_commit(&type), "MPI_Type_commit");
  return type;
}

std::vector<int> offsets_of(std::vector<int> const& counts) {
  std::vector<int> offsets(counts.size(), 0);
  for (std::size_t i = 1; i < counts.size(); ++i) offsets[i] = offsets[i - 1] + counts[i - 1];
  return offsets;
}

}  // namespace

AllToAll::AllToAll(Comm const& comm, Layout const& from, Layout const& to, double const* source, double* target)
    : comm_(comm), from_(from.owned(comm.rank())), to_(to.owned(comm.rank())), source_(source), target_(target) {
  for (int r = 0; r < comm.num_ranks(); ++r) {
    sent_.push_back(intersection(from_, to.owned(r)));
    received_.push_back(intersection(from.owned(r), to_));
    send_counts_.push_back(int(sent_.back().num_cells()));
    receive_counts_.push_back(int(received_.back().num_cells()));
    send_types_.push_back(subarray(sent_.back(), from_));
    receive_types_.push_back(subarray(received_.back(), to_));
    zeros_.push_back(0);
  }
  send_offsets_ = offsets_of(send_counts_);
  receive_offsets_ = offsets_of(receive_counts_);
  ones_.assign(std::size_t(comm.num_ranks()), 1);
  send_buffer_.resize(std::size_t(from_.num_cells()), 1.0);
  receive_buffer_.resize(std::size_t(std::max(from_.num_cells(), to_.num_cells())), 0.0);
}

AllToAll::~AllToAll() {
  for (auto* types : {&send_types_, &receive_types_})
    for (auto& type : *types)
      if (type != MPI_DOUBLE) MPI_Type_free(&type);
}

void AllToAll::with_types() {
  auto counts = [](std::vector<Box> const& boxes) {
    std::vector<int> result;
    for (auto const& box : boxes) result.push_back(box.empty() ? 0 : 1);
    return result;
  };
  auto const sends = counts(sent_);
  auto const receives = counts(received_);
  check_mpi(MPI_Alltoallw(source_, sends.data(), zeros_.data(), send_types_.data(), target_, receives.data(),
                          zeros_.data(), receive_types_.data(), comm_.handle()),
            "MPI_Alltoallw");
}

void AllToAll::copy_boxes(std::vector<Box> const& boxes, Box const& owned, double* field, double* buffer,
                          bool packs) const {
  for (auto const& box : boxes) {
    if (box.empty()) continue;
    // Whole planes of the last two axes where they are contiguous, else rows.
    bool const whole_rows = box.extent(2) == owned.extent(2);
    Index const run = whole_rows ? box.extent(1) * box.extent(2) : box.extent(2);
    for (Index i = box.lo(0); i < box.hi(0); ++i)
      for (Index j = box.lo(1); j < box.hi(1); j += whole_rows ? box.extent(1) : 1) {
        auto* const cells =
            field + ((i - owned.lo(0)) * owned.extent(1) + j - owned.lo(1)) * owned.extent(2) + box.lo(2) - owned.lo(2);
        std::memcpy(packs ? buffer : cells, packs ? cells : buffer, std::size_t(run) * sizeof(double));
        buffer += run;
      }
  }
}

void AllToAll::packed() {
  copy_boxes(sent_, from_, const_cast<double*>(source_), send_buffer_.data(), true);
  check_mpi(
      MPI_Alltoallv(send_buffer_.data(), send_counts_.data(), send_offsets_.data(), MPI_DOUBLE, receive_buffer_.data(),
                    receive_counts_.data(), receive_offsets_.data(), MPI_DOUBLE, comm_.handle()),
      "MPI_Alltoallv");
  copy_boxes(received_, to_, target_, receive_buffer_.data(), false);
}

void AllToAll::bare() {
  int const count = int(send_buffer_.size()) / comm_.num_ranks();
  check_mpi(
      MPI_Alltoall(send_buffer_.data(), count, MPI_DOUBLE, receive_buffer_.data(), count, MPI_DOUBLE, comm_.handle()),
      "MPI_Alltoall");
}

}  // namespace graticule::bench
