// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/writer.hpp>
#include <graticule/partition/hash.hpp>

#include "catalogue.hpp"
#include "dense.hpp"
#include "elements.hpp"
#include "hdf5.hpp"
#include "hyperslab.hpp"
#include "new_chunks.hpp"
#include "output_file.hpp"
#include "parallel_file.hpp"
#include "pieces.hpp"
#include "storage.hpp"
#include "types.hpp"
#include "values.hpp"
#include "view_part.hpp"
#include "writer_group.hpp"

#include <hdf5_hl.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <map>

namespace graticule {

namespace {

namespace h5 = detail::h5;

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
  hash.add(spec.text_bytes).add(int(spec.shuffle));
  hash.add(spec.packing ? spec.packing->scale : 0.0).add(spec.packing ? spec.packing->offset : 0.0);
  return hash.add(spec.fill.value_or(0.0)).add(int(spec.fill.has_value())).value();
}

void require_extent(std::string_view name, Index extent) {
  if (extent < 0)
    throw Error("BadExtent", "dimension " + std::string(name) + " of " + std::to_string(extent) + " cells");
}

}  // namespace

struct FieldWriter::State {
  struct Dimension {
    std::string name;
    Index extent = 0;
    bool is_unlimited = false;
    bool grew = false;
  };
  struct Target {
    h5::Dataset dataset;
    std::vector<std::string> dimensions;
    Indices extents;
    Indices chunk;
    detail::PackingPlan plan;
    h5::Type memory_type;
    Index value_bytes = 0;
    Index num_written = 0;
    Indices old_extents = {};               ///< of what was there before; no axes: nothing
    Indices in_file = {};                   ///< of these, the cells that the file holds
    std::vector<std::byte> unwritten = {};  ///< value of the others
    bool grows_later = false;               ///< its data set is still short

    [[nodiscard]] bool has_grown() const noexcept { return extents != old_extents; }
    [[nodiscard]] bool ends_early() const noexcept { return in_file != old_extents; }
  };

  Comm comm;
  std::filesystem::path path;
  FieldWriterOptions options;
  std::optional<detail::OutputFile> output;  ///< nothing when the file itself is appended to
  std::optional<detail::WriterGroup> group;  ///< nothing when every rank writes
  std::optional<detail::ParallelFile> file;  ///< on writers
  std::vector<Dimension> dimensions;
  std::map<std::string, Target, std::less<>> targets;
  std::vector<Variable> unwritable;  ///< of a file that is appended to
  bool appends = false;
  bool committed = false;

  /// Opens a file, or the copy of it that lies at `copy`.
  State(Comm const& on, detail::Catalogue const& catalogue, std::optional<detail::OutputFile> copy,
        FieldWriterOptions const& chosen)
      : comm(on), path(catalogue.contents.path), options(chosen), output(std::move(copy)), appends(true) {
    if (options.writers_per_node > 0) group.emplace(on, options.writers_per_node);
    if (writes())
      file.emplace(
          detail::ParallelFile::open_to_write(group ? group->peers() : on, output ? output->temporary() : path));
    for (auto const& one : catalogue.contents.dimensions)
      dimensions.push_back({one.name, num_complete(catalogue.contents, one), one.is_unlimited});
    for (std::size_t i = 0; i < catalogue.addresses.size(); ++i)
      take_over(catalogue.contents.variables[i], catalogue.addresses[i]);
  }

  /// Cells of a dimension with all that belongs to them: a record that has no coordinate yet was torn when its program
  /// was killed, and is written anew.
  static Index num_complete(FileContents const& contents, graticule::Dimension const& dimension) {
    auto const* coordinate = contents.find(dimension.name);
    bool const has_coordinate =
        coordinate != nullptr && coordinate->ndim() > 0 && coordinate->dimensions.front() == dimension.name;
    return has_coordinate ? coordinate->stored_extents[0] : dimension.extent;
  }

  void take_over(Variable const& variable, std::uint64_t address) {
    if (variable.value_bytes == 0 || variable.type == ValueType::f16) return unwritable.push_back(variable);
    auto const spec = spec_of(variable);
    Target target;
    target.dimensions = variable.dimensions;
    target.extents = variable.extents;
    for (int axis = 0; axis < variable.ndim(); ++axis)
      if (auto const& name = variable.dimensions[std::size_t(axis)];
          has_dimension(name) && dimension(name).is_unlimited)
        target.extents[axis] = dimension(name).extent;
    target.old_extents = target.extents;
    target.in_file = variable.stored_extents;
    for (int axis = 0; axis < variable.ndim(); ++axis)
      target.in_file[axis] = std::min(target.in_file[axis], target.old_extents[axis]);
    target.unwritten = detail::unwritten_value(variable);
    target.chunk = variable.chunk;
    target.plan = detail::packing_plan_of(spec);
    target.memory_type = detail::memory_type(spec.type, spec.text_bytes);
    target.value_bytes = variable.value_bytes;
    if (writes())
      target.dataset = h5::Dataset(h5::check(H5Oopen_by_addr(file->id(), haddr_t(address)), "H5Oopen_by_addr"));
    targets.emplace(variable.name, std::move(target));
  }

  State(Comm const& on, std::filesystem::path const& final_path, detail::OutputFile fresh,
        FieldWriterOptions const& chosen)
      : comm(on), path(final_path), options(chosen), output(std::move(fresh)) {
    if (options.writers_per_node > 0) group.emplace(on, options.writers_per_node);
    if (writes()) file.emplace(detail::ParallelFile::create(group ? group->peers() : on, output->temporary()));
  }

  [[nodiscard]] bool writes() const noexcept { return !group || group->writes(); }

  ~State() {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (finalized != 0) {
      for (auto& [name, target] : targets) target.dataset.release();
      return;
    }
    h5::Quiet const quiet;
    if (!output && !committed && file && file->meets_others()) shrink_back();
    targets.clear();
  }

  /// What was not committed goes away again.
  void shrink_back() noexcept {
    for (auto& [name, target] : targets)
      if (target.has_grown()) (void)H5Dset_extent(target.dataset.get(), sizes(target.in_file).data());
  }

  static std::array<hsize_t, max_ndim> sizes(Indices const& extents) noexcept {
    std::array<hsize_t, max_ndim> result{};
    std::copy(extents.begin(), extents.end(), result.begin());
    return result;
  }

  [[nodiscard]] std::size_t place_of(std::string_view name) const {
    auto const found =
        std::find_if(dimensions.begin(), dimensions.end(), [&](auto const& d) { return d.name == name; });
    if (found == dimensions.end()) throw Error("MissingDimension", "there is no dimension '" + std::string(name) + "'");
    return std::size_t(found - dimensions.begin());
  }

  [[nodiscard]] Dimension const& dimension(std::string_view name) const { return dimensions[place_of(name)]; }

  [[nodiscard]] bool has_dimension(std::string_view name) const {
    return std::any_of(dimensions.begin(), dimensions.end(), [&](auto const& d) { return d.name == name; });
  }

  static void require_name(std::string_view name) {
    if (name.empty() || name.find('/') != std::string_view::npos)
      throw Error("BadName", "'" + std::string(name) + "' cannot be the name of a variable");
  }

  void require_free(std::string_view name) const {
    require_name(name);
    if (has_dimension(name) || targets.contains(name))
      throw Error("NameTaken", "there is already a dimension or variable '" + std::string(name) + "'");
  }

  [[nodiscard]] detail::Shape shape_of(std::vector<std::string> const& names) const {
    if (names.size() > std::size_t(max_ndim))
      throw Error("TooManyAxes", std::to_string(names.size()) + " axes, at most " + std::to_string(max_ndim));
    detail::Shape shape;
    for (auto const& name : names) {
      shape.extents.push_back(dimension(name).extent);
      shape.unlimited.push_back(dimension(name).is_unlimited);
    }
    return shape;
  }

  [[nodiscard]] h5::Dataset create(std::string const& name, h5::Type const& type, detail::Shape const& shape,
                                   h5::Properties const& creation) const {
    std::array<hsize_t, max_ndim> sizes{};
    std::array<hsize_t, max_ndim> limits{};
    int const ndim = shape.extents.size();
    for (int axis = 0; axis < ndim; ++axis) {
      sizes[std::size_t(axis)] = hsize_t(shape.extents[axis]);
      limits[std::size_t(axis)] = shape.unlimited[std::size_t(axis)] ? H5S_UNLIMITED : hsize_t(shape.extents[axis]);
    }
    h5::Space const space(h5::check(
        ndim == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(ndim, sizes.data(), limits.data()), "H5Screate_simple"));
    return h5::Dataset(h5::check(
        H5Dcreate2(file->id(), name.c_str(), type.get(), space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
        "H5Dcreate2"));
  }

  /// netCDF's name for a variable that has the name of a dimension without being its coordinate.
  [[nodiscard]] std::string stored_name(VariableSpec const& spec) const {
    bool const clashes = has_dimension(spec.name) && (spec.dimensions.empty() || spec.dimensions.front() != spec.name);
    return (clashes ? "_nc4_non_coord_" : "") + spec.name;
  }

  void add_variable(VariableSpec const& spec) {
    auto const shape = shape_of(spec.dimensions);
    auto const creation = detail::creation_list();
    Target target;
    target.dimensions = spec.dimensions;
    target.extents = shape.extents;
    target.plan = detail::packing_plan_of(spec);
    target.chunk = detail::chunk_of(spec, shape);
    target.memory_type = detail::memory_type(spec.type, spec.text_bytes);
    target.value_bytes = Index(H5Tget_size(target.memory_type.get()));
    detail::set_storage(creation, spec, target.chunk);
    detail::set_fill(creation, spec);
    auto const type = detail::file_type(spec.type, spec.text_bytes);
    if (writes()) {
      target.dataset = create(stored_name(spec), type, shape, creation);
      reserve(target, target.extents);
      detail::write_attributes(target.dataset.get(), spec);
    }
    targets.emplace(spec.name, std::move(target));
  }

  [[nodiscard]] bool is_coordinate(std::string const& name, Target const& target) const {
    return !target.dimensions.empty() && target.dimensions.front() == name;
  }

  /// netCDF's own sign of a dimension without a variable: a data set of this type, name and label.
  [[nodiscard]] h5::Dataset add_bare_scale(Dimension const& dimension) const {
    auto const creation = detail::creation_list();
    hsize_t const chunk = 1024;
    if (dimension.is_unlimited) h5::check(H5Pset_chunk(creation.get(), 1, &chunk), "H5Pset_chunk");
    h5::Type const type(h5::check(H5Tcopy(H5T_IEEE_F32BE), "H5Tcopy"));
    return create(dimension.name, type, {Indices{dimension.extent}, {dimension.is_unlimited}}, creation);
  }

  /// Ties dimensions and variables together as HDF5 and netCDF do.
  void set_scales() {
    std::vector<h5::Dataset> bare(dimensions.size());
    std::vector<hid_t> scales;
    for (std::size_t i = 0; i < dimensions.size(); ++i) {
      auto const& name = dimensions[i].name;
      auto const found = targets.find(name);
      std::string label = name;
      if (found != targets.end() && is_coordinate(name, found->second)) {
        scales.push_back(found->second.dataset.get());
      } else {
        std::array<char, 80> text{};
        std::snprintf(text.data(), text.size(), "This is a netCDF dimension but not a netCDF variable.%10lld",
                      static_cast<long long>(dimensions[i].extent));
        label = text.data();
        bare[i] = add_bare_scale(dimensions[i]);
        scales.push_back(bare[i].get());
      }
      h5::check(H5DSset_scale(scales.back(), label.c_str()), "H5DSset_scale");
      h5::write_attribute(scales.back(), Attribute{"_Netcdf4Dimid", ValueType::i32, std::vector<Index>{Index(i)}});
    }
    for (auto const& [name, target] : targets) {
      std::vector<Index> ids;
      for (auto const& dimension_name : target.dimensions) ids.push_back(Index(place_of(dimension_name)));
      if (!is_coordinate(name, target))
        for (std::size_t axis = 0; axis < ids.size(); ++axis)
          h5::check(H5DSattach_scale(target.dataset.get(), scales[std::size_t(ids[axis])], unsigned(axis)),
                    "H5DSattach_scale");
      else if (ids.size() > 1)
        // Scales cannot be attached to a scale, so netCDF lists the dimensions' numbers.
        h5::write_attribute(target.dataset.get(), Attribute{"_Netcdf4Coordinates", ValueType::i32, std::move(ids)});
    }
  }

  void extend(std::string_view name, Index count) {
    auto& grown = dimensions[place_of(name)];
    if (!grown.is_unlimited || count < 1)
      throw Error("BadExtent", std::to_string(count) + " cells more of the " +
                                   (grown.is_unlimited ? "unlimited" : "fixed") + " dimension " + grown.name);
    for (auto const& variable : unwritable)
      if (variable.axis(name) >= 0)
        throw Error(Fault::input, "UnreadableVariable",
                    "variable " + to_string(variable) + " of " + path.string() + " cannot be appended to: " +
                        (variable.refusal.empty() ? "netCDF has no such type" : variable.refusal));
    grown.extent += count;
    grown.grew = true;
    for (auto& [target_name, target] : targets)
      if (std::find(target.dimensions.begin(), target.dimensions.end(), name) != target.dimensions.end())
        extend(target_name, target, name, count);
  }

  /// netCDF's own fill value is not missing to everybody.
  void declare_fill() const {
    for (auto const& [name, target] : targets)
      if (target.has_grown() && target.ends_early() && target.plan.type != ValueType::text &&
          H5Aexists(target.dataset.get(), "_FillValue") == 0)
        h5::write_attribute(target.dataset.get(), detail::default_fill(target.plan.type));
  }

  /// Dimensions without a coordinate have a data set of their own.
  void extend_bare_scales() const {
    for (auto const& grown : dimensions) {
      auto const found = targets.find(grown.name);
      if (!grown.grew || (found != targets.end() && is_coordinate(grown.name, found->second))) continue;
      h5::Dataset const bare(h5::check(H5Dopen2(file->id(), grown.name.c_str(), H5P_DEFAULT), "H5Dopen2"));
      h5::check(H5Dset_extent(bare.get(), sizes(Indices{grown.extent}).data()), "H5Dset_extent");
    }
  }

  void extend(std::string const& target_name, Target& target, std::string_view dimension_name, Index count) {
    auto more = target.extents;
    for (int axis = 0; axis < more.size(); ++axis) {
      if (target.dimensions[std::size_t(axis)] != dimension_name) continue;
      target.extents[axis] += count;
      more[axis] = count + target.chunk[axis];
    }
    target.grows_later = !output && is_coordinate(target_name, target);
    if (!writes()) return;
    reserve(target, more);
    if (!target.grows_later) set_extent(target);
  }

  void set_extent(Target& target) const {
    h5::Space const space(h5::check(H5Dget_space(target.dataset.get()), "H5Dget_space"));
    std::array<hsize_t, max_ndim> before{};
    h5::check(H5Sget_simple_extent_dims(space.get(), before.data(), nullptr), "H5Sget_simple_extent_dims");
    h5::check(H5Dset_extent(target.dataset.get(), sizes(target.extents).data()), "H5Dset_extent");
    Indices old;
    for (int axis = 0; axis < target.extents.size(); ++axis) old.push_back(Index(before[std::size_t(axis)]));
    detail::allocate_new_chunks(target.dataset, old, target.extents);
    if (target.ends_early()) fill_gap(target);
  }

  /// Cells that were missing because the file did not hold them stay missing.
  void fill_gap(Target const& target) const {
    h5::Properties const transfer(h5::check(H5Pcreate(H5P_DATASET_XFER), "H5Pcreate"));
    h5::check(H5Pset_dxpl_mpio(transfer.get(), H5FD_MPIO_COLLECTIVE), "H5Pset_dxpl_mpio");
    bool const supplies = (group ? group->peers() : comm).rank() == 0;
    auto rest = Box::from_extents(target.old_extents);
    for (int axis = 0; axis < rest.ndim(); ++axis) {
      auto beyond = rest;
      beyond.set(axis, target.in_file[axis], rest.hi(axis));
      rest.set(axis, 0, target.in_file[axis]);
      for (auto const& piece :
           detail::contiguous_pieces(beyond, target.chunk, options.piece_bytes / target.value_bytes)) {
        std::vector<std::byte> values;
        for (Index i = 0; supplies && i < piece.num_cells(); ++i)
          values.insert(values.end(), target.unwritten.begin(), target.unwritten.end());
        detail::Turn const turn{piece, *detail::slab_of(&piece)};
        write_turn(target, transfer, supplies ? &turn : nullptr, values.data());
      }
    }
  }

  /// The coordinate comes last: first all else goes to the disk.
  void grow_now(Target& target) {
    if (writes()) {
      file->flush();
      set_extent(target);
    }
    target.grows_later = false;
  }

  /// Room for so many cells of a variable, with whole chunks and what HDF5 notes down for each of them.
  void reserve(Target const& target, Indices const& extents) {
    Index bytes = target.value_bytes;
    Index num_chunks = 1;
    for (int axis = 0; axis < extents.size(); ++axis) {
      Index const chunk = axis < target.chunk.size() ? target.chunk[axis] : std::max<Index>(extents[axis], 1);
      Index const count = (extents[axis] + chunk - 1) / chunk;
      num_chunks *= std::max<Index>(count, 1);
      bytes *= std::max<Index>(count * chunk, 1);
    }
    file->reserve(bytes + num_chunks * 256 + (Index(1) << 20));
  }

  void check_box(std::string_view name, Target const& target, Box const& box, std::size_t given, Index per_cell) const {
    if (box.ndim() != target.extents.size() || !Box::from_extents(target.extents).contains(box))
      throw Error("BoxOutsideVariable", to_string(box) + " of " + std::string(name) + to_string(target.extents));
    if (Index(given) != box.num_cells() * per_cell)
      throw Error("WrongSize", std::to_string(given) + (per_cell == 1 ? " values" : " bytes") + " for the " +
                                   std::to_string(box.num_cells()) + " cells of " + to_string(box));
  }

  static void require_new(std::string_view name, Target const& target, Box const& box) {
    if (box.empty() || target.old_extents.size() == 0) return;
    if (!intersection(box, Box::from_extents(target.old_extents)).empty())
      throw Error("OldRecords", to_string(box) + " of " + std::string(name) + to_string(target.extents) +
                                    " holds cells that were there before: " + to_string(target.old_extents));
  }

  [[nodiscard]] Target& target_of(std::string_view name) {
    auto const found = targets.find(name);
    if (found == targets.end()) throw Error("MissingVariable", "no variable '" + std::string(name) + "' was added");
    return found->second;
  }

  /// The group's turns, or this rank's own; and how many rounds all ranks take.
  std::pair<std::vector<detail::Turn>, Index> agreed_turns(std::function<detail::Supply()> const& prepare) {
    detail::Supply supply;
    run_agreed(comm, [&] { supply = prepare(); });
    auto turns = group ? group->turns(supply) : detail::turns_of(supply, -1);
    std::array<Index, 1> most{Index(turns.size())};
    comm.max(most);
    return {std::move(turns), most[0]};
  }

  /// Runs `prepare()`, then writes the supply turn by turn. `fetch(box)` points at the dense stored values of some of its
  /// cells. Collective.
  template <class Fetch>
  void write_turns(Target& target, std::function<detail::Supply()> const& prepare, Fetch const& fetch) {
    h5::Quiet const quiet;
    auto const [turns, num_rounds] = agreed_turns(prepare);
    if (target.grows_later) run_agreed(comm, [&] { grow_now(target); });
    h5::Properties const transfer(h5::check(H5Pcreate(H5P_DATASET_XFER), "H5Pcreate"));
    h5::check(H5Pset_dxpl_mpio(transfer.get(), H5FD_MPIO_COLLECTIVE), "H5Pset_dxpl_mpio");
    std::exception_ptr failure;
    auto const attempt = [&](auto const& action) {
      try {
        action();
      } catch (...) {
        if (!failure) failure = std::current_exception();
      }
    };
    Index num_cells = 0;
    for (std::size_t round = 0; round < std::size_t(num_rounds); ++round) {
      auto const* turn = round < turns.size() ? &turns[round] : nullptr;
      void const* data = nullptr;
      // A rank that has failed goes on: the others need it in every call.
      attempt([&] {
        auto const share = group && turn != nullptr ? group->share(*turn) : turn != nullptr ? turn->cells : Box();
        if (turn == nullptr || share.empty()) return;
        num_cells += share.num_cells();
        data = fetch(share);
      });
      attempt([&] {
        if (group && turn != nullptr) data = group->gather(*turn, target.value_bytes, data);
        if (writes()) write_turn(target, transfer, data != nullptr ? turn : nullptr, data);
      });
    }
    agree(comm, failure);
    target.num_written += num_cells;
  }

  static void write_turn(Target const& target, h5::Properties const& transfer, detail::Turn const* turn,
                         void const* data) {
    auto const slab = turn != nullptr ? std::optional(turn->slab) : std::nullopt;
    auto const selection = detail::select(target.dataset.get(), slab);
    std::byte const nothing{};
    h5::check(H5Dwrite(target.dataset.get(), target.memory_type.get(), selection.memory.get(), selection.file.get(),
                       transfer.get(), turn != nullptr ? data : &nothing),
              "H5Dwrite");
  }

  [[nodiscard]] detail::Supply supply(Target const& target, Box const& box) const {
    return {box, *detail::slab_of(&box), target.chunk, options.piece_bytes / target.value_bytes};
  }

  /// Dense values of some cells of a dense block, copied only where they are scattered in it.
  static void const* dense(Box const& box, Box const& cells, Index value_bytes, void const* values,
                           std::vector<std::byte>& staging) {
    if (auto const run = detail::run_in(box, cells)) return static_cast<std::byte const*>(values) + *run * value_bytes;
    staging.resize(std::size_t(cells.num_cells() * value_bytes));
    detail::copy_out(box, cells, value_bytes, values, staging.data());
    return staging.data();
  }

  static void require_numbers(std::string_view name, Target const& target) {
    if (target.plan.type == ValueType::text)
      throw Error("BadType", "variable " + std::string(name) + " holds text, which numbers cannot be");
  }

  template <class Value>
  void write(std::string_view name, Box const& box, std::span<Value const> values) {
    auto& target = target_of(name);
    auto const dtype = dtype_of<Value>();
    bool const same = detail::is_same(target.plan, dtype);
    std::vector<std::byte> elements;
    std::vector<std::byte> staging;
    auto const prepare = [&] {
      require_numbers(name, target);
      check_box(name, target, box, values.size(), 1);
      require_new(name, target, box);
      return supply(target, box);
    };
    write_turns(target, prepare, [&](Box const& cells) {
      auto const* const found = dense(box, cells, sizeof(Value), values.data(), elements);
      return same ? found : packed(target, dtype, found, cells, staging);
    });
  }

  static void const* packed(Target const& target, DType dtype, void const* elements, Box const& cells,
                            std::vector<std::byte>& staging) {
    auto const count = std::size_t(cells.num_cells());
    staging.resize(count * std::size_t(target.value_bytes));
    detail::pack_elements(target.plan, dtype, elements, count, staging.data());
    return staging.data();
  }

  void write(std::string_view name, FileSelection const& selection, FieldView const& field) {
    auto& target = target_of(name);
    bool const same = detail::is_same(target.plan, field.dtype);
    auto const size = size_of(field.dtype);
    detail::ViewPart part;
    bool is_dense = false;
    std::vector<std::byte> elements;
    std::vector<std::byte> staging;
    auto const prepare = [&]() -> detail::Supply {
      require_numbers(name, target);
      part = detail::view_part(std::string(name) + to_string(target.extents), target.extents, selection, field);
      require_new(name, target, selection.box);
      is_dense = part.is_dense();
      return {part.cells, part.slab, detail::chunk_for(part, target.chunk),
              options.piece_bytes / (target.value_bytes + (same ? 0 : size))};
    };
    write_turns(target, prepare, [&](Box const& cells) -> void const* {
      void const* found = nullptr;
      if (is_dense) {
        found = dense(part.cells, cells, size, part.first, elements);
      } else {
        elements.resize(std::size_t(cells.num_cells() * size));
        part.gather(cells, elements.data());
        found = elements.data();
      }
      return same ? found : packed(target, field.dtype, found, cells, staging);
    });
  }

  void write_stored(std::string_view name, Box const& box, std::span<std::byte const> bytes) {
    auto& target = target_of(name);
    std::vector<std::byte> staging;
    auto const prepare = [&] {
      check_box(name, target, box, bytes.size(), target.value_bytes);
      require_new(name, target, box);
      return supply(target, box);
    };
    write_turns(target, prepare,
                [&](Box const& cells) { return dense(box, cells, target.value_bytes, bytes.data(), staging); });
  }

  static Index num_new_cells(Target const& target) {
    Index const all = Box::from_extents(target.extents).num_cells();
    if (target.extents == target.old_extents) return 0;
    return all - (target.old_extents.size() > 0 ? Box::from_extents(target.old_extents).num_cells() : 0);
  }

  void require_all_written() const {
    std::vector<Index> counts;
    for (auto const& [name, target] : targets) counts.push_back(target.num_written);
    comm.sum(std::span<Index>(counts));
    std::size_t i = 0;
    for (auto const& [name, target] : targets) {
      Index const expected = num_new_cells(target);
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
      if (!writes()) return targets.clear();
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
    if (output)
      output->publish();
    else
      detail::sync(comm, path);
    committed = true;
  }
};

FieldWriter::FieldWriter(Comm const& comm, std::filesystem::path const& path, std::vector<Attribute> const& attributes,
                         FieldWriterOptions const& options) {
  require_same(comm, "WriterDiffers",
               Hash().add(path.string()).add(fingerprint(attributes)).add(options.writers_per_node).value(),
               path.string());
  if (options.writers_per_node < 0)
    throw Error("BadWriters", std::to_string(options.writers_per_node) + " writers per node");
  detail::OutputFile output(comm, path);
  h5::Quiet const quiet;
  run_agreed(comm, [&] {
    state_ = std::make_unique<State>(comm, path, std::move(output), options);
    if (!state_->writes()) return;
    h5::Group const root(h5::check(H5Gopen2(state_->file->id(), "/", H5P_DEFAULT), "H5Gopen2"));
    bool const has_conventions =
        std::any_of(attributes.begin(), attributes.end(), [](auto const& a) { return a.name == "Conventions"; });
    if (!has_conventions) h5::write_attribute(root.get(), Attribute::of_text("Conventions", "CF-1.8"));
    for (auto const& attribute : attributes) h5::write_attribute(root.get(), attribute);
  });
}

FieldWriter::FieldWriter(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}

FieldWriter FieldWriter::append(Comm const& comm, std::filesystem::path const& path, AppendTo to,
                                FieldWriterOptions const& options) {
  require_same(comm, "WriterDiffers", Hash().add(path.string()).add(int(to)).add(options.writers_per_node).value(),
               path.string());
  if (options.writers_per_node < 0)
    throw Error("BadWriters", std::to_string(options.writers_per_node) + " writers per node");
  auto const catalogue = detail::shared_catalogue(comm, path, FilterPlugins::refused);
  std::optional<detail::OutputFile> copy;
  if (to == AppendTo::copy) {
    copy.emplace(comm, path);
    detail::copy_bytes(comm, path, copy->temporary());
  }
  h5::Quiet const quiet;
  std::unique_ptr<State> state;
  run_agreed(comm, [&] { state = std::make_unique<State>(comm, catalogue, std::move(copy), options); });
  return FieldWriter(std::move(state));
}

FieldWriter::FieldWriter(FieldWriter&&) noexcept = default;
FieldWriter::~FieldWriter() = default;

void FieldWriter::add_dimension(std::string_view name, Index extent, DimensionKind kind) {
  require_same(state_->comm, "WriterDiffers", Hash().add(name).add(extent).add(int(kind)).value(),
               "dimension " + std::string(name));
  state_->require_free(name);
  require_extent(name, extent);
  state_->dimensions.push_back({std::string(name), extent, kind == DimensionKind::unlimited});
}

void FieldWriter::add_coordinate(std::string_view name, std::span<double const> values, ValueType type,
                                 std::vector<Attribute> const& attributes) {
  auto const extent = Index(values.size());
  require_same(state_->comm, "WriterDiffers", Hash().add(values).value(), "coordinate " + std::string(name));
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
  require_same(state_->comm, "WriterDiffers", fingerprint(spec), "variable " + spec.name);
  State::require_name(spec.name);
  if (state_->targets.contains(spec.name)) throw Error("NameTaken", "there is already a variable '" + spec.name + "'");
  h5::Quiet const quiet;
  run_agreed(state_->comm, [&] { state_->add_variable(spec); });
}

void FieldWriter::extend(std::string_view dimension, Index count) {
  require_same(state_->comm, "WriterDiffers", Hash().add(dimension).add(count).value(), std::string(dimension));
  h5::Quiet const quiet;
  run_agreed(state_->comm, [&] { state_->extend(dimension, count); });
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
