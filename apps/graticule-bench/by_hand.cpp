// SPDX-License-Identifier: BSD-3-Clause
#include "by_hand.hpp"

#include <cstring>

namespace graticule::bench {

RowsByHand::RowsByHand(Comm const& comm, float* field, RowShape const& shape)
    : comm_(comm), field_(field), shape_(shape), row_bytes_(std::size_t(shape.columns) * sizeof(float)) {
  auto const count = std::size_t(shape.channels * shape.width * shape.columns);
  for (auto* buffer : {&to_north_, &to_south_, &from_north_, &from_south_}) buffer->resize(count);
  north_entries_ = entries(shape.width);
  south_entries_ = entries(shape.rows);
  north_halo_ = entries(0);
  south_halo_ = entries(shape.rows + shape.width);
  auto const bytes = int(count * sizeof(float));
  int const north = (comm.rank() + comm.num_ranks() - 1) % comm.num_ranks();
  int const south = (comm.rank() + 1) % comm.num_ranks();
  auto const handle = comm.handle();
  check_mpi(MPI_Recv_init(from_north_.data(), bytes, MPI_BYTE, north, 30001, handle, &requests_[0]), "MPI_Recv_init");
  check_mpi(MPI_Recv_init(from_south_.data(), bytes, MPI_BYTE, south, 30002, handle, &requests_[1]), "MPI_Recv_init");
  check_mpi(MPI_Send_init(to_south_.data(), bytes, MPI_BYTE, south, 30001, handle, &requests_[2]), "MPI_Send_init");
  check_mpi(MPI_Send_init(to_north_.data(), bytes, MPI_BYTE, north, 30002, handle, &requests_[3]), "MPI_Send_init");
}

RowsByHand::~RowsByHand() {
  for (auto& request : requests_) MPI_Request_free(&request);
}

void RowsByHand::exchange() {
  check_mpi(MPI_Startall(2, requests_.data()), "MPI_Startall");
  pack(to_south_, shape_.rows);
  pack(to_north_, shape_.width);
  check_mpi(MPI_Startall(2, requests_.data() + 2), "MPI_Startall");
  check_mpi(MPI_Waitall(4, requests_.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
  unpack(from_north_, 0);
  unpack(from_south_, shape_.rows + shape_.width);
}

void RowsByHand::exchange_by_index_table() {
  check_mpi(MPI_Startall(2, requests_.data()), "MPI_Startall");
  pack_entries(to_south_, south_entries_);
  pack_entries(to_north_, north_entries_);
  check_mpi(MPI_Startall(2, requests_.data() + 2), "MPI_Startall");
  check_mpi(MPI_Waitall(4, requests_.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
  unpack_entries(from_north_, north_halo_);
  unpack_entries(from_south_, south_halo_);
}

void RowsByHand::messages_only() {
  check_mpi(MPI_Startall(4, requests_.data()), "MPI_Startall");
  check_mpi(MPI_Waitall(4, requests_.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
}

void RowsByHand::packing_only() {
  pack(to_south_, shape_.rows);
  pack(to_north_, shape_.width);
  unpack(from_north_, 0);
  unpack(from_south_, shape_.rows + shape_.width);
}

void RowsByHand::copy_only() { copy_from(*this); }

void RowsByHand::copy_from(RowsByHand const& other) {
  auto const bytes = std::size_t(shape_.width) * row_bytes_;
  for (Index c = 0; c < shape_.channels; ++c) {
    std::memcpy(row(c, 0), other.row(c, shape_.rows), bytes);
    std::memcpy(row(c, shape_.rows + shape_.width), other.row(c, shape_.width), bytes);
  }
}

void RowsByHand::add_only() { add_from(*this); }

void RowsByHand::add_from(RowsByHand const& other) {
  auto const count = shape_.width * shape_.columns;
  auto const add = [&](float* from, float* to) {
    for (Index i = 0; i < count; ++i) {
      to[i] += from[i];
      from[i] = 0;
    }
  };
  for (Index c = 0; c < shape_.channels; ++c) {
    add(other.row(c, 0), row(c, shape_.rows));
    add(other.row(c, shape_.rows + shape_.width), row(c, shape_.width));
  }
}

float* RowsByHand::row(Index channel, Index row) const {
  return field_ + (channel * (shape_.rows + 2 * shape_.width) + row) * shape_.columns;
}

void RowsByHand::pack(std::vector<float>& buffer, Index first_row) const {
  auto const count = shape_.width * shape_.columns;
  for (Index c = 0; c < shape_.channels; ++c)
    std::memcpy(buffer.data() + c * count, row(c, first_row), std::size_t(shape_.width) * row_bytes_);
}

void RowsByHand::unpack(std::vector<float> const& buffer, Index first_row) const {
  auto const count = shape_.width * shape_.columns;
  for (Index c = 0; c < shape_.channels; ++c)
    std::memcpy(row(c, first_row), buffer.data() + c * count, std::size_t(shape_.width) * row_bytes_);
}

std::vector<RowsByHand::Entry> RowsByHand::entries(Index first_row) const {
  std::vector<Entry> result;
  for (Index c = 0; c < shape_.channels; ++c)
    for (Index i = first_row; i < first_row + shape_.width; ++i)
      for (Index j = 0; j < shape_.columns; ++j) result.push_back({c, i, j});
  return result;
}

void RowsByHand::pack_entries(std::vector<float>& buffer, std::vector<Entry> const& entries) const {
  for (std::size_t n = 0; n < entries.size(); ++n)
    buffer[n] = row(entries[n].channel, entries[n].row)[entries[n].column];
}

void RowsByHand::unpack_entries(std::vector<float> const& buffer, std::vector<Entry> const& entries) const {
  for (std::size_t n = 0; n < entries.size(); ++n)
    row(entries[n].channel, entries[n].row)[entries[n].column] = buffer[n];
}

ColumnsByHand::ColumnsByHand(float* field, Index num_rows, Index num_columns, Index width)
    : field_(field),
      num_rows_(num_rows),
      num_columns_(num_columns),
      width_(width),
      buffer_(std::size_t(2 * num_rows * width)) {}

void ColumnsByHand::copy_columns(Index to, Index from) const {
  Index const stride = num_columns_ + 2 * width_;
  for (Index i = 0; i < num_rows_; ++i)
    for (Index k = 0; k < width_; ++k) field_[i * stride + to + k] = field_[i * stride + from + k];
}

void ColumnsByHand::copy() const {
  copy_columns(0, num_columns_);
  copy_columns(num_columns_ + width_, width_);
}

void ColumnsByHand::gather_and_scatter() {
  Index const stride = num_columns_ + 2 * width_;
  float* at = buffer_.data();
  for (Index const first : {width_, num_columns_})
    for (Index i = 0; i < num_rows_; ++i)
      for (Index k = 0; k < width_; ++k) *at++ = field_[i * stride + first + k];
  at = buffer_.data();
  for (Index const first : {num_columns_ + width_, Index(0)})
    for (Index i = 0; i < num_rows_; ++i)
      for (Index k = 0; k < width_; ++k) field_[i * stride + first + k] = *at++;
}

}  // namespace graticule::bench
