// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/detail/seen_by_all.hpp>
#include <graticule/field_io/detail/writes_store.hpp>
#include <graticule/field_io/writer.hpp>
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/end.hpp>
#include <graticule/partition/detail/hash.hpp>

#include "hdf5/disk_room.hpp"
#include "hdf5/types.hpp"
#include "state.hpp"
#include "zarr/store.hpp"

#include <algorithm>

namespace graticule {

namespace {

std::uint64_t fingerprint(Attribute const& attribute) {
  return Hash().add(attribute.name).add(int(attribute.type)).add(attribute.text()).add(attribute.numbers()).value();
}

std::uint64_t fingerprint(std::vector<Attribute> const& attributes) {
  Hash hash;
  for (auto const& attribute : attributes) hash.add(fingerprint(attribute));
  return hash.value();
}

std::uint64_t fingerprint(VariableSpec const& spec) {
  Hash hash;
  hash.add(spec.name).add(int(spec.type)).add(spec.deflate).add(fingerprint(spec.attributes));
  for (auto const& dimension : spec.dimensions) hash.add(dimension);
  for (auto const extent : spec.chunk) hash.add(extent);
  for (auto const extent : spec.shard) hash.add(extent);
  hash.add(spec.text_bytes).add(int(spec.shuffle));
  hash.add(spec.packing ? spec.packing->scale : 0.0).add(spec.packing ? spec.packing->offset : 0.0);
  return hash.add(spec.fill.value_or(0.0)).add(int(spec.fill.has_value())).value();
}

void require_extent(std::string_view name, Index extent) {
  if (extent < 0)
    throw Error("BadOption",
                "dimension " + std::string(name) + " needs at least 0 cells, got " + std::to_string(extent));
}

/// Bytes of a file's own structures.
constexpr Index first_room = Index(32) << 10U;

}  // namespace

bool writes_store(std::filesystem::path const& path) {
  auto const name = (path.has_filename() ? path : path.parent_path()).filename().string();
  if (name.ends_with(".zarr.zip"))
    throw Error(Fault::usage, "BadOption",
                path.string() + ": Zarr stores are written as folders; name one that ends in .zarr");
  return name.ends_with(".zarr");
}

FieldWriter::State::State(Comm const& on, std::filesystem::path const& final_path, detail::OutputFile fresh,
                          FieldWriterOptions const& chosen)
    : comm(on), path(final_path), options(chosen), output(std::move(fresh)) {
  if (options.writers_per_node > 0) group.emplace(on, options.writers_per_node);
  // Before HDF5 opens the file: it could not close one that has no room at all.
  run_agreed(on, [&] {
    if (on.rank() != 0) return;
    disk = detail::open_to_write(output->temporary());
    if (auto const why = detail::reserve_on_disk(disk.get(), 0, first_room); !why.empty())
      detail::fail_output(path, why);
  });
  run_agreed(on, [&] {
    if (writes()) file.emplace(detail::ParallelFile::create(group ? group->peers() : on, output->temporary()));
  });
}

FieldWriter::State::State(Comm const& on, std::filesystem::path const& final_path, detail::zarr::StoreWriter fresh,
                          FieldWriterOptions const& chosen)
    : comm(on), path(final_path), options(chosen), store(std::move(fresh)) {}

void FieldWriter::State::write_attributes(std::vector<Attribute> const& attributes) {
  bool const has_conventions =
      std::any_of(attributes.begin(), attributes.end(), [](auto const& a) { return a.name == "Conventions"; });
  bool const adds_conventions = !has_conventions && options.conventions == Conventions::cf_if_absent;
  auto const conventions = Attribute::of_text("Conventions", "CF-1.8");
  if (store) {
    if (adds_conventions) store->set_attributes({conventions});
    return store->set_attributes(attributes);
  }
  Room room{Index(1) << 20U, first_room};
  reserve(room += room_for(attributes));
  run_agreed(comm, [&] {
    if (!writes()) return;
    h5::Group const root(h5::check(H5Gopen2(file->id(), "/", H5P_DEFAULT), "H5Gopen2"));
    if (adds_conventions) h5::write_attribute(root.get(), conventions);
    for (auto const& attribute : attributes) h5::write_attribute(root.get(), attribute);
  });
}

FieldWriter::State::~State() {
  if (detail::mpi_is_over()) {
    for (auto& [name, target] : targets) target.dataset.release();
    return;
  }
  h5::Quiet const quiet;
  if (!output && !store && !committed) give_back();
  if (output && !committed && file) file->divert();
  targets.clear();
}

void FieldWriter::State::commit() {
  if (committed) throw Error("WrongState", "the file was committed already: " + path.string());
  require_all_written();
  if (store) {
    store->commit();
    committed = true;
    return;
  }
  h5::Quiet const quiet;
  // Every dimension has a scale, which lists those that refer to it.
  auto const num_scales = Index(dimensions.size());
  reserve({num_scales << 20U, num_scales << 13U});
  take_room();
  on_disk([&] {
    if (appends) {
      declare_fill();
      extend_bare_scales();
    } else {
      set_scales();
    }
    targets.clear();
    h5::check(H5Fflush(file->id(), H5F_SCOPE_GLOBAL), "H5Fflush");
    file->close();
  });
  targets.clear();
  comm.barrier();  // complete on all ranks
  if (output) {
    output->publish();
  } else {
    detail::cut_to_length(comm, path);
    detail::sync(comm, path);
    run_agreed(comm, [&] {
      if (undo) undo->drop();
    });
  }
  committed = true;
}

FieldWriter::FieldWriter(Comm const& comm, std::filesystem::path const& path, std::vector<Attribute> const& attributes,
                         FieldWriterOptions const& options) {
  require_same(comm, "ArgumentDisagreement",
               Hash()
                   .add(path.string())
                   .add(fingerprint(attributes))
                   .add(options.writers_per_node)
                   .add(int(options.conventions))
                   .add(options.codec)
                   .value(),
               path.string());
  if (options.writers_per_node < 0)
    throw Error("BadOption", "writers_per_node must be at least 0, got " + std::to_string(options.writers_per_node));
  bool const is_store = writes_store(path);
  if (!is_store && !options.codec.empty())
    throw Error(Fault::usage, "BadOption",
                path.string() + ": a codec, '" + options.codec + "', is for Zarr stores; name one that ends in .zarr");
  if (is_store) {
    state_ = std::make_unique<State>(comm, path, detail::zarr::StoreWriter(comm, path, options), options);
    state_->write_attributes(attributes);
    return;
  }
  detail::OutputFile output(comm, path);
  h5::Quiet const quiet;
  state_ = std::make_unique<State>(comm, path, std::move(output), options);
  state_->write_attributes(attributes);
}

FieldWriter::FieldWriter(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}

FieldWriter FieldWriter::append(Comm const& comm, std::filesystem::path const& path, AppendTo to,
                                FieldWriterOptions const& options) {
  require_same(comm, "ArgumentDisagreement",
               Hash().add(path.string()).add(int(to)).add(options.writers_per_node).value(), path.string());
  if (options.writers_per_node < 0)
    throw Error("BadOption", "writers_per_node must be at least 0, got " + std::to_string(options.writers_per_node));
  std::array<Index, 1> is_store{0};
  if (comm.rank() == 0) is_store[0] = detail::zarr::is_store(path) ? 1 : 0;
  comm.max(is_store);
  if (is_store[0] != 0) {
    auto const catalogue = detail::shared_catalogue(comm, path, FilterPlugins::refused);
    detail::zarr::StoreWriter store(comm, path, catalogue, options);
    return FieldWriter(std::make_unique<State>(comm, catalogue, std::move(store), options));
  }
  detail::FileStamp seen;
  run_agreed(comm, [&] {
    if (comm.rank() != 0) return;
    if (detail::restore_interrupted(path, detail::Unseen::has_ended) == detail::Interrupted::in_use)
      detail::fail_output(path, "another program appends to it");
    seen = detail::stamp_of(path);
  });
  auto const catalogue = detail::shared_catalogue(comm, path, FilterPlugins::refused, detail::Structure::growing);
  std::optional<detail::OutputFile> copy;
  if (to == AppendTo::in_place) require_seen_by_all(comm, path.string(), path);
  if (to == AppendTo::copy) {
    copy.emplace(comm, path);
    detail::copy_bytes(comm, path, copy->temporary());
  }
  h5::Quiet const quiet;
  return FieldWriter(std::make_unique<State>(comm, catalogue, std::move(copy), options, seen));
}

FieldWriter::FieldWriter(FieldWriter&&) noexcept = default;
FieldWriter::~FieldWriter() = default;

void FieldWriter::add_dimension(std::string_view name, Index extent, DimensionKind kind) {
  require_same(state_->comm, "ArgumentDisagreement", Hash().add(name).add(extent).add(int(kind)).value(),
               "dimension " + std::string(name));
  state_->require_free(name);
  require_extent(name, extent);
  state_->dimensions.push_back({std::string(name), extent, kind == DimensionKind::unlimited});
}

void FieldWriter::add_coordinate(std::string_view name, std::span<double const> values, ValueType type,
                                 std::vector<Attribute> const& attributes) {
  auto const extent = Index(values.size());
  require_same(state_->comm, "ArgumentDisagreement", Hash().add(values).value(), "coordinate " + std::string(name));
  add_dimension(name, extent);
  try {
    add_variable(
        {.name = std::string(name), .dimensions = {std::string(name)}, .type = type, .attributes = attributes});
  } catch (...) {
    state_->dimensions.pop_back();
    throw;
  }
  bool const writes = state_->comm.rank() == 0;
  write(name, Box({0}, {writes ? extent : 0}), values.first(writes ? values.size() : 0));
}

void FieldWriter::add_variable(VariableSpec const& spec) {
  require_same(state_->comm, "ArgumentDisagreement", fingerprint(spec), "variable " + spec.name);
  State::require_name(spec.name);
  if (state_->targets.contains(spec.name)) throw Error("BadName", "there is already a variable '" + spec.name + "'");
  h5::Quiet const quiet;
  state_->add_variable(spec);
}

void FieldWriter::extend(std::string_view dimension, Index count) {
  require_same(state_->comm, "ArgumentDisagreement", Hash().add(dimension).add(count).value(), std::string(dimension));
  h5::Quiet const quiet;
  state_->extend(dimension, count);
}

void FieldWriter::write(std::string_view name, Box const& box, std::span<float const> values) {
  state_->write(name, box, values);
}

void FieldWriter::write(std::string_view name, Box const& box, std::span<double const> values) {
  state_->write(name, box, values);
}

void FieldWriter::write(std::string_view name, FileSelection const& selection, FieldView const& field) {
  state_->write(name, selection, field);
}

void FieldWriter::write_stored(std::string_view name, Box const& box, std::span<std::byte const> bytes) {
  state_->write_stored(name, box, bytes);
}

void FieldWriter::commit() { state_->commit(); }

}  // namespace graticule
