// SPDX-License-Identifier: BSD-3-Clause
// Stores of version 3 of the format, written by all ranks.
#pragma once

#include <graticule/field_io/detail/folder_lock.hpp>
#include <graticule/field_io/detail/temporary_file.hpp>
#include <graticule/field_io/writer.hpp>
#include <graticule/partition/comm.hpp>

#include "array.hpp"
#include "hdf5/packed_bytes.hpp"
#include "json.hpp"
#include "read/catalogue.hpp"
#include "write/sink.hpp"

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace graticule::detail::zarr {

[[nodiscard]] std::unique_ptr<Sink> create_store(Comm const& comm, std::filesystem::path const& path,
                                                 FieldWriterOptions const& options);
[[nodiscard]] OpenedSink append_store(Comm const& comm, std::filesystem::path const& path, AppendTo to,
                                      FieldWriterOptions const& options);

/// Each key of an array, a chunk or a shard, is written by one rank: that which brings most of its cells, or the writer
/// of its node. The others send it theirs, chunk by chunk. Which rank it is changes no byte of a chunk.
///
/// A new store lies in a temporary folder until `commit`, which writes its metadata last. Records are appended to the
/// store itself: files of chunks are replaced one by one by ones that hold the old cells, too, and the metadata say of
/// the new ones last, in one file. Cells that a killed program has appended lie beyond the extents of the metadata.
class StoreWriter final : public Sink {
 public:
  /// Begins a new store. Collective. @throws `OutputError`, also for a folder that is no store
  StoreWriter(Comm const& comm, std::filesystem::path const& path, FieldWriterOptions const& options);
  /// Opens a store to append to it. Collective. @param arrays of the catalogue @throws `OutputError`
  StoreWriter(Comm const& comm, std::filesystem::path const& path, Catalogue const& catalogue,
              FieldWriterOptions const& options);
  StoreWriter(StoreWriter const&) = delete;
  StoreWriter& operator=(StoreWriter const&) = delete;
  /// Removes a new store that was not committed. Any rank may have to do it: the others may never come here.
  ~StoreWriter() override;

  void write_attributes(std::vector<Attribute> const& attributes) override;
  void add(WrittenTable const& table, VariableSpec const& spec, WrittenVariable& variable) override;
  /// Any dimension of a store can.
  [[nodiscard]] bool grows(Dimension const&) const override { return true; }
  [[nodiscard]] std::string refusal(Variable const& variable) const override;
  void take_over(Variable const&, VariablePlace const&) override {}
  void reserve_growth(WrittenTable const&, std::string_view, Index) override {}
  void grow(WrittenTable const& table, std::vector<std::string> const& names) override;
  void write(std::string const& name, WrittenVariable const& variable, Supply const& mine,
             FetchCells const& fetch) override;
  void commit(WrittenTable const& table) override;

 private:
  struct NewArray {
    std::string key;
    Json metadata;
    Array array;
    bool is_changed = true;
  };
  /// A chunk that a rank writes.
  struct Job {
    Indices number;  ///< of the chunk along each axis
    Indices shard;   ///< of the key along each axis
  };
  struct OpenShard {
    Indices number;
    std::filesystem::path path;
    std::filesystem::path written;  ///< the same, or beside it
    Descriptor file;
    std::vector<std::uint64_t> index;
    Index end = 0;
    bool is_changed = false;
  };
  struct Round;

  [[nodiscard]] std::vector<std::vector<Job>> jobs_of(Array const& array, std::vector<Slab> const& slabs) const;
  [[nodiscard]] std::vector<Slab> gathered(Supply const& mine) const;
  void write_scalar(NewArray const& array, FetchCells const& fetch);
  void write_chunk(NewArray const& array, Job const& job, Round const& round);
  void put_plain(NewArray const& array, Job const& job, Bytes values);
  void put_in_shard(NewArray const& array, Job const& job, Bytes values);
  [[nodiscard]] std::optional<Bytes> existing(NewArray const& array, Job const& job);
  void open_shard(NewArray const& array, Indices const& number);
  void close_shard(NewArray const& array);

  [[nodiscard]] std::filesystem::path path_of(NewArray const& array, Indices const& number);
  void put_file(std::filesystem::path const& path, std::span<std::byte const> bytes, bool syncs = false);
  void put_metadata(std::filesystem::path const& path, Json const& metadata);
  void make_folders(std::filesystem::path const& folder);
  void sync_chunks() const;

  Comm comm_;
  std::filesystem::path path_;
  std::filesystem::path folder_;  ///< that is written to; empty when there is nothing to remove
  FieldWriterOptions options_;
  int tag_ = 0;
  std::vector<int> writers_;                  ///< of each rank
  std::optional<TemporaryFolder> temporary_;  ///< of a new store, on rank 0
  std::optional<FolderLock> lock_;            ///< of one that is appended to, on rank 0
  bool appends_ = false;
  Json root_;
  std::vector<NewArray> arrays_;
  std::map<std::string, std::size_t> places_;
  std::optional<OpenShard> shard_;
  std::set<std::filesystem::path> made_;
  bool has_written_ = false;
};

}  // namespace graticule::detail::zarr
