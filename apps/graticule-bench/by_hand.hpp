// SPDX-License-Identifier: BSD-3-Clause
// Hand-written halo exchanges; the candidates that a plan is compared with.
#pragma once

#include <graticule/partition/comm.hpp>

#include <array>
#include <cstddef>
#include <vector>

namespace graticule::bench {

/// A field [channel, row, column] of f32 whose rows have a halo of `width` on both sides.
struct RowShape {
  Index channels;
  Index rows;
  Index columns;
  Index width;
};

/// Rows in a ring of bands: persistent requests, one message to each side, packing by memcpy.
class RowsByHand {
 public:
  RowsByHand(Comm const& comm, float* field, RowShape const& shape);
  RowsByHand(RowsByHand const&) = delete;
  RowsByHand& operator=(RowsByHand const&) = delete;
  ~RowsByHand();

  void exchange();
  /// The same with packing cell by cell through a table of offsets, as libraries do that gather lists of elements.
  void exchange_by_index_table();
  /// The same messages without packing.
  void messages_only();
  /// The same packing without messages.
  void packing_only();
  /// The same bytes, copied once between rows of the field.
  void copy_only();
  /// What an adjoint does with the same bytes: adds halo rows to rows of the field, and zeroes them.
  void add_only();
  /// The same from rows of another field of the same shape, as between ranks: four rows of a channel lie on pages of
  /// their own, where within a field two rows share them.
  void copy_from(RowsByHand const& other);
  void add_from(RowsByHand const& other);

 private:
  /// Where a value comes from or goes to: list entries of 24 bytes, as in Cabana's scatter and gather.
  struct Entry {
    Index channel;
    Index row;
    Index column;
  };

  [[nodiscard]] float* row(Index channel, Index row) const;
  void pack(std::vector<float>& buffer, Index first_row) const;
  void unpack(std::vector<float> const& buffer, Index first_row) const;
  void pack_entries(std::vector<float>& buffer, std::vector<Entry> const& entries) const;
  void unpack_entries(std::vector<float> const& buffer, std::vector<Entry> const& entries) const;
  [[nodiscard]] std::vector<Entry> entries(Index first_row) const;

  Comm comm_;
  float* field_;
  RowShape shape_;
  std::size_t row_bytes_;
  std::vector<float> to_north_, to_south_, from_north_, from_south_;
  std::vector<Entry> south_entries_, north_entries_, north_halo_, south_halo_;
  std::array<MPI_Request, 4> requests_{};
};

/// Columns of `num_rows` rows with a halo of `width` on both sides.
class ColumnsByHand {
 public:
  ColumnsByHand(float* field, Index num_rows, Index num_columns, Index width);

  /// West halo from the east columns, east halo from the west columns, in one pass over each.
  void copy() const;
  /// Both edges into a buffer, and from it into both halos.
  void gather_and_scatter();

 private:
  void copy_columns(Index to, Index from) const;

  float* field_;
  Index num_rows_;
  Index num_columns_;
  Index width_;
  std::vector<float> buffer_;
};

}  // namespace graticule::bench
