// SPDX-License-Identifier: BSD-3-Clause
#include "store_writer.hpp"

#include <graticule/field_io/detail/seen_by_all.hpp>
#include <graticule/field_io/detail/value_types.hpp>
#include <graticule/messages/detail/lanes.hpp>
#include <graticule/partition/cells.hpp>
#include <graticule/partition/detail/agreement.hpp>

#include "catalogue.hpp"
#include "codecs.hpp"
#include "hdf5/chunk_cells.hpp"
#include "store.hpp"
#include "write/first_failure.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

namespace graticule::detail::zarr {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view unfinished = ".part";

fs::path without_slash(fs::path const& path) { return path.has_filename() ? path : path.parent_path(); }

Indices divided_up(Indices extents, Indices const& by) {
  for (int axis = 0; axis < extents.size(); ++axis) extents[axis] = (extents[axis] + by[axis] - 1) / by[axis];
  return extents;
}

ChunkPlace place_at(Indices number, Indices const& extents) {
  for (int axis = 0; axis < number.size(); ++axis) number[axis] *= extents[axis];
  return {number, extents};
}

/// Cells of a chunk that lie within the array.
Index cells_within(ChunkPlace const& chunk, Indices const& extents) {
  Index count = 1;
  for (int axis = 0; axis < extents.size(); ++axis)
    count *= std::clamp<Index>(extents[axis] - chunk.first[axis], 0, chunk.extents[axis]);
  return count;
}

/// Where the index of a shard has a chunk.
std::size_t place_in_shard(Array const& array, Indices number, Indices const& shard) {
  auto const count = divided_up(array.chunk, array.inner);
  for (int axis = 0; axis < number.size(); ++axis) number[axis] -= shard[axis] * count[axis];
  return std::size_t(place_of(number, count));
}

Bytes filled(Array const& array) {
  auto const count = std::size_t(Box::from_extents(array.inner).num_cells());
  Bytes values(count * array.fill.size());
  for (std::size_t i = 0; i < count; ++i)
    std::memcpy(values.data() + i * array.fill.size(), array.fill.data(), array.fill.size());
  return values;
}

bool is_all_fill(Array const& array, Bytes const& values) {
  auto const size = array.fill.size();
  for (std::size_t at = 0; at < values.size(); at += size)
    if (std::memcmp(values.data() + at, array.fill.data(), size) != 0) return false;
  return true;
}

/// `values_of` undoes it. Stores are little-endian, so that their bytes do not depend on the machine.
Bytes stored_of(Array const& array, Bytes values) {
  bool const is_big = std::endian::native == std::endian::big;
  if (is_big != array.is_big_endian && array.type != ValueType::text)
    swap_bytes(values.data(), array.value_bytes, values.size() / std::size_t(array.value_bytes));
  return encoded(array.codecs, std::move(values), array.value_bytes);
}

std::uint64_t little(std::uint64_t word) {
  return std::endian::native == std::endian::little ? word : __builtin_bswap64(word);
}

bool is_float(ValueType type) { return enum_row(type).kind == StoredKind::real; }

/// A stored value as metadata have it.
Json number_json(ValueType type, double value) {
  if (!is_float(type)) return type == ValueType::u64 ? Json(std::uint64_t(value)) : Json(Index(std::llround(value)));
  if (type == ValueType::f32) value = double(float(value));
  return fill_json(value);
}

/// Nothing where it has none of this name.
Attribute const* attribute_of(VariableSpec const& spec, std::string_view name) {
  auto const found =
      std::find_if(spec.attributes.begin(), spec.attributes.end(), [&](auto const& one) { return one.name == name; });
  return found != spec.attributes.end() ? &*found : nullptr;
}

/// `fill_value` of the metadata: `_FillValue` where the variable has one.
Json fill_of(VariableSpec const& spec) {
  if (spec.type == ValueType::text) {
    auto const* const fill = attribute_of(spec, "_FillValue");
    auto const text = fill != nullptr ? fill->text() : std::string();
    return base64_of(std::as_bytes(std::span(text)));
  }
  for (auto const& attribute : spec.attributes) {
    if (attribute.name != "_FillValue") continue;
    auto const* integers = std::get_if<std::vector<Index>>(&attribute.value);
    if (integers != nullptr && !integers->empty() && !is_float(spec.type))
      return spec.type == ValueType::u64 ? Json(std::uint64_t(integers->front())) : Json(integers->front());
  }
  auto const fill = packing_plan_of(spec).fill;
  return number_json(spec.type, fill.value_or(0.0));
}

Json attributes_json(VariableSpec const& spec, Json const& fill) {
  auto attributes = Json::object();
  // xarray opens no store with a `_FillValue` of text: such a value is the array's fill value alone.
  for (auto const& attribute : spec.attributes)
    if (attribute.name != "_FillValue") attributes[attribute.name] = json_of(attribute);
  if (spec.packing) {
    attributes["scale_factor"] = spec.packing->scale;
    attributes["add_offset"] = spec.packing->offset;
  }
  if (spec.type != ValueType::text && packing_plan_of(spec).fill)
    attributes["_FillValue"] = is_float(spec.type) ? Json(base64_of(*number_of(fill))) : fill;
  return attributes;
}

Json numbers(Indices const& values) { return std::vector<Index>(values.begin(), values.end()); }

/// The chunks of a new array, and its shards.
struct Chunks {
  Indices inner;
  Indices key;
};
Chunks chunks_of(VariableSpec const& spec, Shape const& shape) {
  int const ndim = shape.extents.size();
  Chunks chunks;
  if (ndim == 0) return chunks;
  chunks.inner = chunk_of(spec, shape);
  if (chunks.inner.size() == 0) chunks.inner = default_chunk(spec, shape);
  chunks.key = chunks.inner;
  if (spec.shard.size() == 0) return chunks;
  if (spec.shard.size() != ndim)
    throw Error("BadOption", "variable " + spec.name + " has " + std::to_string(ndim) + " axes, its shards have " +
                                 std::to_string(spec.shard.size()));
  for (int axis = 0; axis < ndim; ++axis) {
    if (spec.shard[axis] < 1) throw Error("BadOption", "variable " + spec.name + " has a shard extent below 1");
    // Whole chunks, and none beyond the array.
    Index const most = divided_up(shape.extents, chunks.inner)[axis];
    Index const count = (spec.shard[axis] + chunks.inner[axis] - 1) / chunks.inner[axis];
    chunks.key[axis] =
        chunks.inner[axis] * (shape.unlimited[std::size_t(axis)] ? count : std::clamp<Index>(count, 1, most));
  }
  return chunks;
}

/// `deflate` of a variable goes before the writer's codec.
std::string codec_of(VariableSpec const& spec, std::string const& usual) {
  require_deflate(spec);
  if (spec.deflate == 0) return usual;
  bool const shuffles = spec.shuffle != Shuffle::never && has_blosc();
  return (shuffles ? "blosc-zlib:" : "gzip:") + std::to_string(spec.deflate);
}

Json metadata_of(VariableSpec const& spec, Shape const& shape, std::string const& codec) {
  auto const chunks = chunks_of(spec, shape);
  Index const value_bytes = spec.type == ValueType::text ? spec.text_bytes : size_in_bytes(spec.type);
  auto codecs = codecs_of(codec_of(spec, codec), value_bytes);
  if (spec.shard.size() > 0) {
    auto const index =
        Json::array({{{"name", "bytes"}, {"configuration", {{"endian", "little"}}}}, {{"name", "crc32c"}}});
    codecs = Json::array({{{"name", "sharding_indexed"},
                           {"configuration",
                            {{"chunk_shape", numbers(chunks.inner)},
                             {"codecs", codecs},
                             {"index_codecs", index},
                             {"index_location", "end"}}}}});
  }
  auto const fill = fill_of(spec);
  return {{"zarr_format", 3},
          {"node_type", "array"},
          {"shape", numbers(shape.extents)},
          {"data_type", name_of_type(spec.type, spec.text_bytes)},
          {"chunk_grid", {{"name", "regular"}, {"configuration", {{"chunk_shape", numbers(chunks.key)}}}}},
          {"chunk_key_encoding", {{"name", "default"}, {"configuration", {{"separator", "/"}}}}},
          {"fill_value", fill},
          {"codecs", codecs},
          {"attributes", attributes_json(spec, fill)},
          {"dimension_names", spec.dimensions},
          {"storage_transformers", Json::array()}};
}

/// Why nothing can be appended to an array that can be read.
std::string lacks_of(Described const& described, Json const& metadata) {
  auto const& array = described.array;
  if (!described.variable.refusal.empty()) return described.variable.refusal;
  if (metadata.value("zarr_format", 0) != 3) return "it is of version 2 of the format; only version 3 is written";
  if (array.order.size() > 0) return "its codec transpose is only read";
  if (array.time) return "its times of numpy are only read";
  if (array.is_sharded && (array.index_at_start || array.is_index_big_endian))
    return "shards with an index at the start, or of big-endian numbers, are only read";
  return {};
}

}  // namespace

std::unique_ptr<Sink> create_store(Comm const& comm, fs::path const& path, FieldWriterOptions const& options) {
  return std::make_unique<StoreWriter>(comm, path, options);
}

OpenedSink append_store(Comm const& comm, fs::path const& path, AppendTo, FieldWriterOptions const& options) {
  auto catalogue = shared_catalogue(comm, path, FilterPlugins::refused);
  auto sink = std::make_unique<StoreWriter>(comm, path, catalogue, options);
  return {std::move(catalogue), std::move(sink)};
}

/// What a rank has received of the chunk that it writes.
struct StoreWriter::Round {
  struct Part {
    Slab const* slab;
    Box places;
    std::byte const* cells;
  };
  std::vector<Part> parts;
};

StoreWriter::StoreWriter(Comm const& comm, fs::path const& path, FieldWriterOptions const& options)
    : comm_(comm), path_(without_slash(path)), options_(options), tag_(comm.next_tag()) {
  std::string lock;
  run_agreed(comm, [&] {
    static_cast<void>(codecs_of(options.codec, 4));
    if (comm.rank() != 0) return;
    temporary_.emplace(path_);
    std::error_code ignored;
    auto const& target = temporary_->target();
    if (fs::exists(target, ignored) && !is_store(target) && !fs::is_empty(target, ignored))
      fail_output(path_, "it is a folder, and no Zarr store; remove it or choose another name");
    lock = temporary_->lock().string();
  });
  auto const seen = comm.broadcast(lock, 0);
  auto const made = comm.broadcast(temporary_ ? temporary_->path().string() : std::string(), 0);
  require_seen_by_all(comm, path.string(), seen);
  folder_ = made;
  root_ = {{"zarr_format", 3}, {"node_type", "group"}, {"attributes", Json::object()}};
  auto const own = options.writers_per_node > 0 ? writer_of(comm, options.writers_per_node) : comm.rank();
  for (Index const one : comm.gather_to_all(Index(own))) writers_.push_back(int(one));
}

StoreWriter::StoreWriter(Comm const& comm, fs::path const& path, Catalogue const& catalogue,
                         FieldWriterOptions const& options)
    : comm_(comm),
      path_(without_slash(path)),
      folder_(path_),
      options_(options),
      tag_(comm.next_tag()),
      appends_(true) {
  run_agreed(comm, [&] {
    if (!fs::is_directory(path_)) fail_output(path_, "nothing is appended to a zip file; unpack it to a folder");
    for (std::size_t i = 0; i < catalogue.places.size(); ++i) {
      auto const description = Json::parse(*catalogue.places[i].array);
      auto const& name = catalogue.contents.variables[i].name;
      auto metadata = description.at("metadata");
      auto array = describe(name, metadata, description.at("attributes")).array;
      places_.emplace(name, arrays_.size());
      arrays_.push_back({description.at("key").get<std::string>(), std::move(metadata), std::move(array), false});
    }
    if (comm.rank() != 0) return;
    lock_.emplace(path_, "a program that appends to it");
    auto const text = Store(path_).text("zarr.json");
    if (text) root_ = parse(*text, (path_ / "zarr.json").string());
  });
  require_seen_by_all(comm, path.string(), metadata_file(path_));
  auto const own = options.writers_per_node > 0 ? writer_of(comm, options.writers_per_node) : comm.rank();
  for (Index const one : comm.gather_to_all(Index(own))) writers_.push_back(int(one));
}

StoreWriter::~StoreWriter() {
  std::error_code ignored;
  if (!appends_ && !folder_.empty()) fs::remove_all(folder_, ignored);
}

void StoreWriter::write_attributes(std::vector<Attribute> const& attributes) {
  for (auto const& attribute : attributes) root_["attributes"][attribute.name] = json_of(attribute);
}

std::string StoreWriter::refusal(Variable const& variable) const {
  if (!variable.refusal.empty() && variable.type != ValueType::text) return variable.refusal;
  auto const& one = arrays_[places_.at(variable.name)];
  return lacks_of(describe(variable.name, one.metadata, Json()), one.metadata);
}

void StoreWriter::add(WrittenTable const& table, VariableSpec const& spec, WrittenVariable& variable) {
  run_agreed(comm_, [&] {
    if (spec.name.starts_with('.') || spec.name.starts_with("__") || spec.name == "zarr.json")
      throw Error("BadName", "'" + spec.name + "' cannot be the name of an array of a Zarr store");
    auto metadata = metadata_of(spec, table.shape_of(spec.dimensions), options_.codec);
    auto described = describe(spec.name, metadata, Json());
    if (!described.variable.refusal.empty())
      throw Error("BadOption",
                  "variable " + spec.name + " cannot be written to a Zarr store: " + described.variable.refusal);
    variable.chunk = described.array.inner;
    places_.emplace(spec.name, arrays_.size());
    arrays_.push_back({spec.name, std::move(metadata), std::move(described.array)});
  });
}

void StoreWriter::grow(WrittenTable const& table, std::vector<std::string> const& names) {
  for (auto const& name : names) {
    auto& one = arrays_[places_.at(name)];
    one.array.extents = table.variables.at(name).extents;
    one.metadata["shape"] = numbers(one.array.extents);
    one.is_changed = true;
  }
}

std::vector<Slab> StoreWriter::gathered(Supply const& mine) const {
  using Numbers = std::array<Index, std::size_t(3 * max_ndim)>;
  Numbers own{};
  auto const ndim = std::size_t(mine.slab.start.size());
  for (int axis = 0; axis < int(ndim); ++axis) {
    own[std::size_t(axis)] = mine.slab.start[axis];
    own[std::size_t(max_ndim + axis)] = mine.slab.steps[axis];
    own[std::size_t(2 * max_ndim + axis)] = mine.cells.empty() ? 0 : mine.slab.counts[axis];
  }
  std::vector<Numbers> all(std::size_t(comm_.num_ranks()));
  comm_.gather_to_all(own.data(), Index(sizeof own), all.data());
  std::vector<Slab> slabs;
  for (auto const& one : all) {
    auto const part = [&](int number) { return Indices(std::span(one.data() + number * max_ndim, ndim)); };
    slabs.push_back({part(0), part(1), part(2)});
  }
  return slabs;
}

std::vector<std::vector<StoreWriter::Job>> StoreWriter::jobs_of(Array const& array,
                                                                std::vector<Slab> const& slabs) const {
  struct Share {
    Index most = 0;
    int rank = 0;
    std::set<Indices> chunks;
  };
  std::map<Indices, Share> shares;
  auto const visit = [&](Slab const& slab, Indices const& extents, auto const& use) {
    if (Box::from_extents(slab.counts).empty()) return;
    for_each_cell(detail::chunks_of(slab, slab.counts, extents), [&](Indices const& number) {
      auto const places = places_in(slab, slab.counts, place_at(number, extents));
      if (!places.empty()) use(number, places.num_cells());
    });
  };
  for (std::size_t rank = 0; rank < slabs.size(); ++rank) {
    visit(slabs[rank], array.chunk, [&](Indices const& number, Index count) {
      auto& share = shares[number];
      if (count <= share.most) return;
      share.most = count;
      share.rank = int(rank);
    });
    visit(slabs[rank], array.inner, [&](Indices const& number, Index) {
      auto key = number;
      for (int axis = 0; axis < key.size(); ++axis) key[axis] = key[axis] * array.inner[axis] / array.chunk[axis];
      shares[key].chunks.insert(number);
    });
  }
  std::vector<std::vector<Job>> jobs(slabs.size());
  for (auto const& [key, share] : shares)
    for (auto const& chunk : share.chunks) jobs[std::size_t(writers_[std::size_t(share.rank)])].push_back({chunk, key});
  return jobs;
}

void StoreWriter::write_scalar(NewArray const& array, FetchCells const& fetch) {
  // Every rank has it.
  run_agreed(comm_, [&] {
    auto const* const value = static_cast<std::byte const*>(fetch(Box()));
    if (comm_.rank() != 0) return;
    Bytes values{std::size_t(array.array.value_bytes)};
    std::copy_n(value, values.size(), values.data());
    put_file(path_of(array, {}), stored_of(array.array, std::move(values)).span());
  });
}

void StoreWriter::write(std::string const& name, WrittenVariable const&, Supply const& mine, FetchCells const& fetch) {
  auto const& array = arrays_[places_.at(name)];
  if (array.array.extents.size() == 0) return write_scalar(array, fetch);
  auto const slabs = gathered(mine);
  auto const jobs = jobs_of(array.array, slabs);
  std::size_t num_rounds = 0;
  for (auto const& one : jobs) num_rounds = std::max(num_rounds, one.size());
  FirstFailure failure;
  auto const me = comm_.rank();
  for (std::size_t number = 0; number < num_rounds; ++number) {
    messages::Lanes lanes(comm_, tag_);
    Round round;
    for (int owner = 0; owner < comm_.num_ranks(); ++owner) {
      if (number >= jobs[std::size_t(owner)].size()) continue;
      auto const chunk = place_at(jobs[std::size_t(owner)][number].number, array.array.inner);
      auto const bytes_of = [&](Box const& places) { return places.num_cells() * array.array.value_bytes; };
      auto const& own = slabs[std::size_t(me)];
      if (auto const places = places_in(own, own.counts, chunk); !places.empty()) {
        auto& cells = lanes.keep(std::vector<std::byte>(std::size_t(bytes_of(places))));
        // A rank that has failed continues: the others wait for its cells.
        failure.attempt([&] {
          auto part = places;
          for (int axis = 0; axis < part.ndim(); ++axis)
            part.set(axis, places.lo(axis) + mine.cells.lo(axis), places.hi(axis) + mine.cells.lo(axis));
          std::memcpy(cells.data(), fetch(part), cells.size());
        });
        if (owner == me)
          round.parts.push_back({&own, places, cells.data()});
        else
          lanes.post(owner, cells.data(), Index(cells.size()));
      }
      if (owner != me) continue;
      for (int from = 0; from < comm_.num_ranks(); ++from) {
        auto const& slab = slabs[std::size_t(from)];
        auto const places = places_in(slab, slab.counts, chunk);
        if (from == me || places.empty()) continue;
        auto& cells = lanes.keep(std::vector<std::byte>(std::size_t(bytes_of(places))));
        lanes.take(from, cells.data(), Index(cells.size()));
        round.parts.push_back({&slab, places, cells.data()});
      }
    }
    lanes.wait("for the cells of a chunk");
    if (number < jobs[std::size_t(me)].size() && !failure)
      failure.attempt([&] { write_chunk(array, jobs[std::size_t(me)][number], round); });
  }
  failure.attempt([&] {
    if (!failure) close_shard(array);
  });
  shard_.reset();
  agree(comm_, failure.first());
}

void StoreWriter::write_chunk(NewArray const& array, Job const& job, Round const& round) {
  auto const chunk = place_at(job.number, array.array.inner);
  Index given = 0;
  for (auto const& part : round.parts) given += part.places.num_cells();
  if (array.array.is_sharded) open_shard(array, job.shard);
  std::optional<Bytes> values;
  if (given < cells_within(chunk, array.array.extents)) values = existing(array, job);
  if (!values)
    values = given == Box::from_extents(chunk.extents).num_cells() ? Bytes(std::size_t(given * array.array.value_bytes))
                                                                   : filled(array.array);
  for (auto const& part : round.parts)
    put_cells(array.array.value_bytes, *part.slab, chunk, part.places, part.cells, values->data());
  has_written_ = true;
  if (array.array.is_sharded)
    put_in_shard(array, job, std::move(*values));
  else
    put_plain(array, job, std::move(*values));
}

fs::path StoreWriter::path_of(NewArray const& array, Indices const& number) {
  return folder_ / joined(array.key, array.array.key(number));
}

void StoreWriter::put_plain(NewArray const& array, Job const& job, Bytes values) {
  auto const path = path_of(array, job.number);
  if (!is_all_fill(array.array, values)) return put_file(path, stored_of(array.array, std::move(values)).span());
  if (::unlink(path.c_str()) != 0 && errno != ENOENT && errno != ENOTDIR) fail_output(path_, system_reason(errno));
}

std::optional<Bytes> StoreWriter::existing(NewArray const& array, Job const& job) {
  auto const plain = Box::from_extents(array.array.inner).num_cells() * array.array.stored_bytes;
  Bytes stored;
  if (array.array.is_sharded) {
    auto const place = place_in_shard(array.array, job.number, job.shard);
    auto const offset = shard_->index[2 * place];
    auto const bytes = shard_->index[2 * place + 1];
    if (offset == absent || bytes > std::uint64_t(shard_->end) || offset > std::uint64_t(shard_->end) - bytes)
      return {};
    stored = Bytes(std::size_t(bytes));
    if (auto const reason = shard_->file.read(stored.data(), Index(bytes), Index(offset)); !reason.empty())
      fail_output(path_, reason);
  } else {
    auto const item = Store(folder_).find(joined(array.key, array.array.key(job.number)));
    if (!item) return {};
    stored = Bytes(std::size_t(item->bytes));
    item->read(stored.data(), 0, item->bytes);
  }
  return values_of(array.array, decoded(array.array.codecs, std::move(stored), plain));
}

void StoreWriter::open_shard(NewArray const& array, Indices const& number) {
  if (shard_ && shard_->number == number) return;
  if (shard_) close_shard(array);
  auto const num_chunks = Box::from_extents(divided_up(array.array.chunk, array.array.inner)).num_cells();
  OpenShard shard;
  shard.number = number;
  shard.path = path_of(array, number);
  shard.index.assign(std::size_t(2 * num_chunks), absent);
  make_folders(shard.path.parent_path());
  shard.written = shard.path;
  if (appends_) {
    // The old one stays whole until the new one is.
    shard.written += unfinished;
    std::error_code error;
    fs::remove(shard.written, error);
    fs::copy_file(shard.path, shard.written, error);
    if (error && error != std::errc::no_such_file_or_directory) fail_output(path_, error.message());
  }
  shard.file = Descriptor(::open(shard.written.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
  struct stat status {};
  if (shard.file.get() < 0 || ::fstat(shard.file.get(), &status) != 0) fail_output(path_, system_reason(errno));
  if (status.st_size > 0) {
    auto const plain = Index(shard.index.size() * sizeof(std::uint64_t));
    auto const bytes = encoded_bytes(array.array.index_codecs, plain);
    shard.end = Index(status.st_size) - bytes;
    if (shard.end < 0) fail_output(path_, shard.path.string() + " is shorter than its index");
    Bytes stored{std::size_t(bytes)};
    if (auto const reason = shard.file.read(stored.data(), bytes, shard.end); !reason.empty())
      fail_output(path_, reason);
    auto const index = decoded(array.array.index_codecs, std::move(stored), plain);
    std::memcpy(shard.index.data(), index.data(), index.size());
    for (auto& word : shard.index) word = little(word);
  }
  shard_ = std::move(shard);
}

void StoreWriter::put_in_shard(NewArray const& array, Job const& job, Bytes values) {
  auto const place = place_in_shard(array.array, job.number, job.shard);
  auto& offset = shard_->index[2 * place];
  auto& bytes = shard_->index[2 * place + 1];
  shard_->is_changed = true;
  if (is_all_fill(array.array, values)) {
    offset = bytes = absent;
    return;
  }
  auto const stored = stored_of(array.array, std::move(values));
  bool const fits = offset != absent && stored.size() <= bytes;
  if (!fits) offset = std::uint64_t(std::exchange(shard_->end, shard_->end + Index(stored.size())));
  bytes = stored.size();
  if (auto const reason = shard_->file.write(stored.data(), Index(stored.size()), Index(offset)); !reason.empty())
    fail_output(path_, reason);
}

void StoreWriter::close_shard(NewArray const& array) {
  if (!shard_) return;
  auto const shard = std::move(*shard_);
  shard_.reset();
  bool const is_empty = std::all_of(shard.index.begin(), shard.index.end(), [](auto word) { return word == absent; });
  if (is_empty) {
    ::unlink(shard.written.c_str());
    ::unlink(shard.path.c_str());
    return;
  }
  Bytes plain(shard.index.size() * sizeof(std::uint64_t));
  for (std::size_t i = 0; i < shard.index.size(); ++i) {
    auto const word = little(shard.index[i]);
    std::memcpy(plain.data() + i * sizeof word, &word, sizeof word);
  }
  auto const index = encoded(array.array.index_codecs, std::move(plain), 8);
  auto const reason = shard.file.write(index.data(), Index(index.size()), shard.end);
  if (!reason.empty()) fail_output(path_, reason);
  if (::ftruncate(shard.file.get(), off_t(shard.end + Index(index.size()))) != 0)
    fail_output(path_, system_reason(errno));
  if (shard.written != shard.path && ::rename(shard.written.c_str(), shard.path.c_str()) != 0)
    fail_output(path_, system_reason(errno));
}

void StoreWriter::make_folders(fs::path const& folder) {
  if (folder == folder_ || made_.contains(folder)) return;
  make_folders(folder.parent_path());
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) fail_output(path_, system_reason(errno));
  made_.insert(folder);
}

void StoreWriter::put_file(fs::path const& path, std::span<std::byte const> bytes, bool syncs) {
  make_folders(path.parent_path());
  auto written = path;
  if (appends_) written += unfinished;
  Descriptor const file(::open(written.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (file.get() < 0) fail_output(path_, system_reason(errno));
  auto const reason = file.write(bytes.data(), Index(bytes.size()), 0);
  if (!reason.empty()) {
    if (appends_) ::unlink(written.c_str());
    fail_output(path_, reason);
  }
  if (syncs) sync_to_disk(file, path_);
  if (appends_ && ::rename(written.c_str(), path.c_str()) != 0) fail_output(path_, system_reason(errno));
}

void StoreWriter::put_metadata(fs::path const& path, Json const& metadata) {
  auto const text = text_of(metadata);
  put_file(path, std::as_bytes(std::span(text)), true);
}

void StoreWriter::sync_chunks() const {
  if (!has_written_) return;
  Descriptor const folder(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // One call for all of the chunks: there may be very many files.
  if (folder.get() < 0 || ::syncfs(folder.get()) != 0) fail_output(path_, system_reason(errno));
}

void StoreWriter::commit(WrittenTable const&) {
  run_agreed(comm_, [&] { sync_chunks(); });
  run_agreed(comm_, [&] {
    if (comm_.rank() != 0) return;
    bool const consolidates = !appends_ || root_.value("consolidated_metadata", Json()).is_object();
    auto& consolidated = root_["consolidated_metadata"];
    if (!appends_) consolidated = {{"kind", "inline"}, {"must_understand", false}, {"metadata", Json::object()}};
    auto const put = [&](NewArray const& one) {
      if (!one.is_changed) return;
      put_metadata(folder_ / joined(one.key, "zarr.json"), one.metadata);
      if (consolidates) consolidated["metadata"][one.key] = one.metadata;
    };
    // Who finds the list of all arrays reads no others; else coordinates come last, as records count by them.
    auto const is_coordinate = [](NewArray const& one) {
      auto const names = one.metadata.value("dimension_names", Json());
      return names.is_array() && names.size() == 1 && names.front() == one.key;
    };
    for (auto const& one : arrays_)
      if (!is_coordinate(one)) put(one);
    for (auto const& one : arrays_)
      if (is_coordinate(one)) put(one);
    if (consolidates) put_metadata(folder_ / "zarr.json", root_);
    if (temporary_) temporary_->publish();
  });
  if (!appends_) folder_.clear();
  lock_.reset();
  temporary_.reset();
}

}  // namespace graticule::detail::zarr
