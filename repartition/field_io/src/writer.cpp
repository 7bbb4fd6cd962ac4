// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/writer.hpp>
#include <graticule/partition/hash.hpp>

#include "hdf5.hpp"
#include "parallel_file.hpp"
#include "pieces.hpp"
#include "selection.hpp"
#include "types.hpp"
#include "values.hpp"

#include <fcntl.h>
#include <hdf5_hl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <exception>
#include <map>
#include <numeric>
#include <system_error>

namespace graticule {

namespace {

namespace h5 = detail::h5;

[[noreturn]] void fail_output(std::filesystem::path const& path, std::string const& what) {
  throw Error("OutputError", path.string() + " cannot be written: " + what);
}

std::filesystem::path folder_of(std::filesystem::path const& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

/// A name that no other program uses; made on rank 0, which also finds out whether it can be written at all.
std::filesystem::path make_temporary(Comm const& comm, std::filesystem::path const& path) {
  std::string name;
  run_agreed(comm, [&] {
    if (comm.rank() != 0) return;
    if (path.filename().empty() || std::filesystem::is_directory(path)) fail_output(path, "it is a folder");
    if (!std::filesystem::is_directory(folder_of(path)))
      fail_output(path, "the folder " + folder_of(path).string() + " does not exist");
    for (int attempt = 0; name.empty(); ++attempt) {
      auto const suffix =
          "." + std::to_string(::getpid()) + (attempt > 0 ? "-" + std::to_string(attempt) : "") + ".part";
      auto const candidate = folder_of(path) / ("." + path.filename().string() + suffix);
      int const file = ::open(candidate.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
      if (file < 0 && errno == EEXIST && attempt < 100) continue;
      if (file < 0) fail_output(path, std::generic_category().message(errno));
      ::close(file);
      name = candidate.string();
    }
  });
  return comm.broadcast(name, 0);
}

void sync_to_disk(std::filesystem::path const& path, int flags) {
  int const file = ::open(path.c_str(), flags | O_CLOEXEC);
  if (file < 0) fail_output(path, std::generic_category().message(errno));
  // Some file systems do not sync folders; EINVAL says so.
  bool const synced = ::fsync(file) == 0 || errno == EINVAL;
  int const code = errno;
  ::close(file);
  if (!synced) fail_output(path, std::generic_category().message(code));
}

/// The type in the file: little-endian everywhere, so that the bytes do not depend on the machine.
hid_t little_endian(ValueType type) {
  switch (type) {
    case ValueType::i8: return H5T_STD_I8LE;
    case ValueType::u8: return H5T_STD_U8LE;
    case ValueType::i16: return H5T_STD_I16LE;
    case ValueType::u16: return H5T_STD_U16LE;
    case ValueType::i32: return H5T_STD_I32LE;
    case ValueType::u32: return H5T_STD_U32LE;
    case ValueType::i64: return H5T_STD_I64LE;
    case ValueType::u64: return H5T_STD_U64LE;
    case ValueType::f32: return H5T_IEEE_F32LE;
    case ValueType::f64: return H5T_IEEE_F64LE;
    case ValueType::f16:
    case ValueType::text:
    case ValueType::other: break;
  }
  throw Error("BadType", "a variable of type " + std::string(to_string(type)));
}

h5::Properties creation_list() {
  h5::Properties creation(h5::check(H5Pcreate(H5P_DATASET_CREATE), "H5Pcreate"));
  h5::check(H5Pset_attr_creation_order(creation.get(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED),
            "H5Pset_attr_creation_order");
  h5::check(H5Pset_obj_track_times(creation.get(), false), "H5Pset_obj_track_times");
  h5::check(H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER), "H5Pset_fill_time");
  return creation;
}

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
  hash.add(spec.packing ? spec.packing->scale : 0.0).add(spec.packing ? spec.packing->offset : 0.0);
  return hash.add(spec.fill.value_or(0.0)).add(int(spec.fill.has_value())).value();
}

}  // namespace

struct FieldWriter::State {
  struct Dimension {
    std::string name;
    Index extent;
    h5::Dataset scale;
  };
  struct Target {
    h5::Dataset dataset;
    Indices extents;
    Indices chunk;
    detail::PackingPlan plan;
    bool collective = true;
    Index num_written = 0;
  };

  Comm comm;
  std::filesystem::path path;
  FieldWriterOptions options;
  std::filesystem::path temporary;
  detail::ParallelFile file;
  std::vector<Dimension> dimensions;
  std::map<std::string, Target, std::less<>> targets;
  bool committed = false;

  State(Comm const& on, std::filesystem::path const& final_path, std::filesystem::path temporary_path,
        FieldWriterOptions const& chosen)
      : comm(on),
        path(final_path),
        options(chosen),
        temporary(std::move(temporary_path)),
        file(detail::ParallelFile::create(on, temporary)) {}

  ~State() {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (finalized != 0) {
      for (auto& dimension : dimensions) dimension.scale.release();
      for (auto& [name, target] : targets) target.dataset.release();
      return;
    }
    h5::Quiet const quiet;
    close_datasets();
    // Any rank may have to do it: the others may never come here.
    if (!committed) ::unlink(temporary.c_str());
  }

  void close_datasets() {
    targets.clear();
    dimensions.clear();
  }

  [[nodiscard]] Dimension const& dimension(std::string_view name) const {
    auto const found =
        std::find_if(dimensions.begin(), dimensions.end(), [&](auto const& d) { return d.name == name; });
    if (found == dimensions.end())
      throw Error("MissingDimension", "no dimension '" + std::string(name) + "' was added");
    return *found;
  }

  void require_free(std::string_view name) const {
    bool const is_dimension =
        std::any_of(dimensions.begin(), dimensions.end(), [&](auto const& d) { return d.name == name; });
    if (name.empty() || name.find('/') != std::string_view::npos)
      throw Error("BadName", "'" + std::string(name) + "' cannot be the name of a variable");
    if (is_dimension || targets.contains(name))
      throw Error("NameTaken", "there is already a dimension or variable '" + std::string(name) + "'");
  }

  [[nodiscard]] h5::Dataset create(std::string const& name, hid_t type, std::vector<Index> const& extents,
                                   h5::Properties const& creation) const {
    std::array<hsize_t, max_ndim> sizes{};
    std::copy(extents.begin(), extents.end(), sizes.begin());
    h5::Space const space(h5::check(
        extents.empty() ? H5Screate(H5S_SCALAR) : H5Screate_simple(int(extents.size()), sizes.data(), nullptr),
        "H5Screate_simple"));
    return h5::Dataset(
        h5::check(H5Dcreate2(file.id(), name.c_str(), type, space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
                  "H5Dcreate2"));
  }

  void add_scale(std::string const& name, Index extent, h5::Dataset dataset, std::string const& label) {
    h5::check(H5DSset_scale(dataset.get(), label.c_str()), "H5DSset_scale");
    h5::write_attribute(dataset.get(),
                        Attribute{"_Netcdf4Dimid", ValueType::i32, std::vector<Index>{Index(dimensions.size())}});
    dimensions.push_back({name, extent, std::move(dataset)});
  }

  void add_variable(VariableSpec const& spec) {
    std::vector<Index> extents;
    for (auto const& name : spec.dimensions) extents.push_back(dimension(name).extent);
    if (spec.dimensions.size() > std::size_t(max_ndim))
      throw Error("TooManyAxes", "variable " + spec.name + " has " + std::to_string(spec.dimensions.size()) + " axes");
    auto const creation = creation_list();
    Target target{.dataset = {}, .extents = Indices(std::span<Index const>(extents)), .chunk = spec.chunk, .plan = {}};
    bool const has_cells = !Box::from_extents(target.extents).empty();
    set_storage(spec, target, has_cells, creation);
    target.plan = {spec.type, spec.packing.has_value(), spec.packing ? spec.packing->scale : 1.0,
                   spec.packing ? spec.packing->offset : 0.0, spec.fill};
    if (spec.fill) h5::check(H5Pset_fill_value(creation.get(), H5T_NATIVE_DOUBLE, &*spec.fill), "H5Pset_fill_value");
    target.dataset = create(spec.name, little_endian(spec.type), extents, creation);
    reserve(target);
    for (std::size_t axis = 0; axis < extents.size(); ++axis)
      h5::check(H5DSattach_scale(target.dataset.get(), dimension(spec.dimensions[axis]).scale.get(), unsigned(axis)),
                "H5DSattach_scale");
    if (spec.fill) h5::write_attribute(target.dataset.get(), Attribute::of_number("_FillValue", *spec.fill, spec.type));
    for (auto const& attribute : spec.attributes) h5::write_attribute(target.dataset.get(), attribute);
    if (spec.packing) {
      h5::write_attribute(target.dataset.get(), Attribute::of_number("scale_factor", spec.packing->scale));
      h5::write_attribute(target.dataset.get(), Attribute::of_number("add_offset", spec.packing->offset));
    }
    targets.emplace(spec.name, std::move(target));
  }

  /// Room for the variable, with whole chunks and what HDF5 notes down for each of them.
  void reserve(Target const& target) {
    Index bytes = size_in_bytes(target.plan.type);
    Index num_chunks = 1;
    for (int axis = 0; axis < target.extents.size(); ++axis) {
      Index const chunk = axis < target.chunk.size() ? target.chunk[axis] : std::max<Index>(target.extents[axis], 1);
      Index const count = (target.extents[axis] + chunk - 1) / chunk;
      num_chunks *= std::max<Index>(count, 1);
      bytes *= std::max<Index>(count * chunk, 1);
    }
    file.reserve(bytes + num_chunks * 256 + (Index(1) << 20));
  }

  static void set_storage(VariableSpec const& spec, Target& target, bool has_cells, h5::Properties const& creation) {
    if (spec.deflate < 0 || spec.deflate > 9)
      throw Error("BadChunk", "variable " + spec.name + ": deflate " + std::to_string(spec.deflate) + " is not 0 to 9");
    if (spec.packing &&
        !(std::isfinite(spec.packing->scale) && spec.packing->scale != 0 && std::isfinite(spec.packing->offset)))
      throw Error("BadPacking", "variable " + spec.name + ": the scale must be finite and not 0, the offset finite");
    if (spec.chunk.size() == 0) {
      if (spec.deflate > 0) throw Error("BadChunk", "variable " + spec.name + " is deflated but has no chunks");
      h5::check(H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY), "H5Pset_alloc_time");
      return;
    }
    if (spec.chunk.size() != target.extents.size())
      throw Error("BadChunk", "variable " + spec.name + " has " + std::to_string(target.extents.size()) +
                                  " axes, its chunks have " + std::to_string(spec.chunk.size()));
    if (!has_cells) return;
    std::array<hsize_t, max_ndim> chunk{};
    for (int axis = 0; axis < spec.chunk.size(); ++axis) {
      if (spec.chunk[axis] < 1) throw Error("BadChunk", "variable " + spec.name + " has a chunk extent below 1");
      target.chunk[axis] = std::min(spec.chunk[axis], target.extents[axis]);
      chunk[std::size_t(axis)] = hsize_t(target.chunk[axis]);
    }
    h5::check(H5Pset_chunk(creation.get(), spec.chunk.size(), chunk.data()), "H5Pset_chunk");
    if (spec.deflate > 0) {
      h5::check(H5Pset_shuffle(creation.get()), "H5Pset_shuffle");
      h5::check(H5Pset_deflate(creation.get(), unsigned(spec.deflate)), "H5Pset_deflate");
    } else {
      h5::check(H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY), "H5Pset_alloc_time");
    }
  }

  template <class Value>
  void write_piece(Target const& target, h5::Properties const& transfer, Box const* piece,
                   std::span<Value const> values) const {
    auto const selection = detail::select(target.dataset.get(), piece);
    constexpr auto own_type = std::is_same_v<Value, float> ? ValueType::f32 : ValueType::f64;
    bool const as_it_is = target.plan.type == own_type && !target.plan.scales && !target.plan.fill;
    std::vector<std::byte> staging;
    std::exception_ptr failure;
    if (piece != nullptr && !as_it_is) {
      staging.resize(values.size() * std::size_t(size_in_bytes(target.plan.type)));
      try {
        detail::pack(target.plan, values, staging.data());
      } catch (...) {
        failure = std::current_exception();  // the collective call below needs this rank all the same
      }
    }
    std::byte const nothing{};
    void const* source = as_it_is ? static_cast<void const*>(values.data()) : staging.data();
    h5::check(H5Dwrite(target.dataset.get(), h5::native_type(target.plan.type), selection.memory.get(),
                       selection.file.get(), transfer.get(), piece != nullptr ? source : &nothing),
              "H5Dwrite");
    if (failure) std::rethrow_exception(failure);
  }

  void check_box(std::string_view name, Target const& target, Box const& box, std::size_t num_values) const {
    if (box.ndim() != target.extents.size() || !Box::from_extents(target.extents).contains(box))
      throw Error("BoxOutsideVariable", to_string(box) + " of " + std::string(name) + to_string(target.extents));
    if (Index(num_values) != box.num_cells())
      throw Error("WrongSize", std::to_string(num_values) + " values for the " + std::to_string(box.num_cells()) +
                                   " cells of " + to_string(box));
  }

  template <class Value>
  void write(std::string_view name, Box const& box, std::span<Value const> values) {
    auto const found = targets.find(name);
    if (found == targets.end()) throw Error("MissingVariable", "no variable '" + std::string(name) + "' was added");
    auto& target = found->second;
    auto const [pieces, num_rounds] = detail::agreed_rounds(
        comm, [&] { check_box(name, target, box, values.size()); }, box, target.chunk,
        options.piece_bytes / size_in_bytes(target.plan.type));
    h5::Quiet const quiet;
    h5::Properties const transfer(h5::check(H5Pcreate(H5P_DATASET_XFER), "H5Pcreate"));
    h5::check(H5Pset_dxpl_mpio(transfer.get(), H5FD_MPIO_COLLECTIVE), "H5Pset_dxpl_mpio");
    std::exception_ptr failure;
    std::size_t done = 0;
    for (std::size_t round = 0; round < std::size_t(num_rounds); ++round) {
      auto const* piece = round < pieces.size() ? &pieces[round] : nullptr;
      auto const count = piece != nullptr ? std::size_t(piece->num_cells()) : 0;
      try {
        write_piece(target, transfer, piece, values.subspan(done, count));
      } catch (...) {
        if (!failure) failure = std::current_exception();
      }
      done += count;
    }
    agree(comm, failure);
    target.num_written += box.num_cells();
  }

  void require_all_written() const {
    std::vector<Index> counts;
    for (auto const& [name, target] : targets) counts.push_back(target.num_written);
    comm.sum(std::span<Index>(counts));
    std::size_t i = 0;
    for (auto const& [name, target] : targets) {
      Index const expected = Box::from_extents(target.extents).num_cells();
      if (counts[i] < expected)
        throw Error("UnwrittenCells", std::to_string(counts[i]) + " of the " + std::to_string(expected) +
                                          " cells of variable " + name + " were written");
      ++i;
    }
  }

  void commit() {
    if (committed) throw Error("CommittedTwice", path.string());
    require_all_written();
    h5::Quiet const quiet;
    run_agreed(comm, [&] {
      close_datasets();
      h5::check(H5Fflush(file.id(), H5F_SCOPE_GLOBAL), "H5Fflush");
      file.close();
    });
    run_agreed(comm, [&] {
      if (comm.rank() != 0) return;
      sync_to_disk(temporary, O_RDONLY);
      if (::rename(temporary.c_str(), path.c_str()) != 0) fail_output(path, std::generic_category().message(errno));
      sync_to_disk(folder_of(path), O_RDONLY | O_DIRECTORY);
    });
    committed = true;
  }
};

FieldWriter::FieldWriter(Comm const& comm, std::filesystem::path const& path, std::vector<Attribute> const& attributes,
                         FieldWriterOptions const& options) {
  require_same(comm, "WriterDiffers", Hash().add(path.string()).add(fingerprint(attributes)).value(), path.string());
  auto const temporary = make_temporary(comm, path);
  h5::Quiet const quiet;
  try {
    run_agreed(comm, [&] {
      state_ = std::make_unique<State>(comm, path, temporary, options);
      h5::Group const root(h5::check(H5Gopen2(state_->file.id(), "/", H5P_DEFAULT), "H5Gopen2"));
      bool const has_conventions =
          std::any_of(attributes.begin(), attributes.end(), [](auto const& a) { return a.name == "Conventions"; });
      if (!has_conventions) h5::write_attribute(root.get(), Attribute::of_text("Conventions", "CF-1.8"));
      for (auto const& attribute : attributes) h5::write_attribute(root.get(), attribute);
    });
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

FieldWriter::FieldWriter(FieldWriter&&) noexcept = default;
FieldWriter::~FieldWriter() = default;

void FieldWriter::add_dimension(std::string_view name, Index extent) {
  require_same(state_->comm, "WriterDiffers", Hash().add(name).add(extent).value(), "dimension " + std::string(name));
  state_->require_free(name);
  if (extent < 0)
    throw Error("BadExtent", "dimension " + std::string(name) + " of " + std::to_string(extent) + " cells");
  h5::Quiet const quiet;
  run_agreed(state_->comm, [&] {
    // netCDF's own sign of a dimension without a variable: a data set of this type, name and label.
    std::array<char, 80> label{};
    std::snprintf(label.data(), label.size(), "This is a netCDF dimension but not a netCDF variable.%10lld",
                  static_cast<long long>(extent));
    auto dataset = state_->create(std::string(name), H5T_IEEE_F32BE, {extent}, creation_list());
    state_->add_scale(std::string(name), extent, std::move(dataset), label.data());
  });
}

void FieldWriter::add_coordinate(std::string_view name, std::span<double const> values, ValueType type,
                                 std::vector<Attribute> const& attributes) {
  auto const hash = Hash().add(name).add(values).add(int(type)).add(fingerprint(attributes)).value();
  require_same(state_->comm, "WriterDiffers", hash, "coordinate " + std::string(name));
  state_->require_free(name);
  auto const extent = Index(values.size());
  h5::Quiet const quiet;
  run_agreed(state_->comm, [&] {
    auto const creation = creation_list();
    h5::check(H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY), "H5Pset_alloc_time");
    auto dataset = state_->create(std::string(name), little_endian(type), {extent}, creation);
    for (auto const& attribute : attributes) h5::write_attribute(dataset.get(), attribute);
    State::Target target{.dataset = {}, .extents = Indices{extent}, .chunk = {}, .plan = {}};
    target.plan.type = type;
    state_->reserve(target);
    // A second handle on the same data set: one to write to, one as the scale of later variables.
    target.dataset =
        h5::Dataset(h5::check(H5Dopen2(state_->file.id(), std::string(name).c_str(), H5P_DEFAULT), "H5Dopen2"));
    state_->add_scale(std::string(name), extent, std::move(dataset), std::string(name));
    state_->targets.emplace(std::string(name), std::move(target));
  });
  bool const writes = state_->comm.rank() == 0;
  write(name, Box({0}, {writes ? extent : 0}), values.first(writes ? values.size() : 0));
}

void FieldWriter::add_variable(VariableSpec const& spec) {
  require_same(state_->comm, "WriterDiffers", fingerprint(spec), "variable " + spec.name);
  state_->require_free(spec.name);
  h5::Quiet const quiet;
  run_agreed(state_->comm, [&] { state_->add_variable(spec); });
}

void FieldWriter::write(std::string_view name, Box const& box, std::span<float const> values) {
  state_->write(name, box, values);
}

void FieldWriter::write(std::string_view name, Box const& box, std::span<double const> values) {
  state_->write(name, box, values);
}

void FieldWriter::commit() { state_->commit(); }

}  // namespace graticule
