// SPDX-License-Identifier: BSD-3-Clause
#include "archive.hpp"

#include <graticule/app/bytes.hpp>
#include <graticule/field_io/detail/conventions.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <system_error>

namespace graticule::archive {

namespace {

/// Larger than any single call here: pieces are cut by the tiling.
constexpr Index piece_bytes = Index(1) << 30;

void add(Totals& totals, Totals const& more) {
  totals.read_seconds += more.read_seconds;
  totals.move_seconds += more.move_seconds;
  totals.write_seconds += more.write_seconds;
  totals.scratch_seconds += more.scratch_seconds;
  totals.peak_bytes = std::max(totals.peak_bytes, more.peak_bytes);
  totals.read_bytes += more.read_bytes;
  totals.written_bytes += more.written_bytes;
  totals.sent_bytes += more.sent_bytes;
  totals.num_messages += more.num_messages;
}

/// Values that need no rounds: a single one, or none at all.
bool is_trivial(Rewrite const& rewrite) {
  return rewrite.source.ndim() == 0 || rewrite.source.is_strings || Box::from_extents(rewrite.source.extents).empty();
}

/// At most 1 MiB of strings, which every rank has.
void copy_strings(Comm const& comm, Rewrite const& rewrite, FieldFile const& input, FieldWriter& output) {
  auto const& source = rewrite.source;
  auto const all = Box::from_extents(source.extents);
  std::vector<std::byte> bytes(std::size_t(all.num_cells() * source.value_bytes));
  input.read_stored(source.name, all, bytes);
  bool const writes = comm.rank() == 0;
  auto extents = source.extents;
  extents.push_back(writes ? source.value_bytes : 0);
  output.write_stored(rewrite.target.name, Box::from_extents(extents),
                      std::span(bytes).first(writes ? bytes.size() : 0));
}

void copy_single(Comm const& comm, Rewrite const& rewrite, FieldFile const& input, FieldWriter& output) {
  if (rewrite.source.is_strings) return copy_strings(comm, rewrite, input, output);
  if (rewrite.source.ndim() > 0) return;
  if (rewrite.form != Form::stored) {
    double number = 0;
    input.read(rewrite.source.name, Box(), std::span(&number, 1));
    return output.write(rewrite.target.name, Box(), std::span<double const>(&number, 1));
  }
  std::vector<std::byte> value(std::size_t(rewrite.source.value_bytes));
  input.read_stored(rewrite.source.name, Box(), value);
  output.write_stored(rewrite.target.name, Box(), value);
}

void define(FieldWriter& output, Plan const& plan) {
  for (auto const& dimension : plan.dimensions)
    output.add_dimension(dimension.name, dimension.extent,
                         dimension.is_unlimited ? DimensionKind::unlimited : DimensionKind::fixed);
  for (auto const& variable : plan.variables) output.add_variable(variable.target);
}

/// Compares the files, not their names.
void require_other_file(Comm const& comm, Options const& options) {
  run_agreed(comm, [&] {
    std::error_code no_output;
    if (comm.rank() != 0 || options.in_place || !std::filesystem::equivalent(options.input, options.output, no_output))
      return;
    throw Error(
        Fault::usage, "BadOption",
        options.output + " is the input " + options.input + "; --in-place replaces it; choose another name to keep it");
  });
}

class Run {
 public:
  Run(Comm const& comm, Options const& options, Watch const& watch)
      : watch_(watch),
        setting_(make_setting(comm, app::parse_bytes("--memory", options.memory), options.writers_per_node)),
        input_(comm, options.input, {.piece_bytes = piece_bytes, .calls = ReadCalls::independent}),
        plan_(plan_rewrite(input_.contents(), options)),
        codec_(options.codec) {}

  Result rewrite(std::string const& path) {
    require_budget();
    Index const num_chunks = FieldFile::num_unpacked_chunks();
    for (auto const& variable : plan_.variables) make_tilings(variable);
    open_scratch(path);
    for (std::size_t i = 0; i < plan_.variables.size(); ++i)
      if (plan_.variables[i].packs && scans_[i]) find_range(plan_.variables[i], *scans_[i]);
    FieldWriter output(setting_.comm, path, input_.contents().attributes,
                       {.piece_bytes = piece_bytes, .conventions = Conventions::as_given, .codec = codec_});
    define(output, plan_);
    for (std::size_t i = 0; i < plan_.variables.size(); ++i) copy(plan_.variables[i], passes_[i], output);
    watch_(num_done_, num_rounds_, "");
    output.commit();
    result_.num_chunks = FieldFile::num_unpacked_chunks() - num_chunks;
    result_.ambiguous = plan_.ambiguous;
    result_.fixed = plan_.fixed;
    result_.flags = plan_.flags;
    result_.widened = plan_.widened;
    result_.no_fills = plan_.no_fills;
    result_.no_limits = plan_.no_limits;
    return std::move(result_);
  }

 private:
  /// Reports the budget of the most demanding variable at the start.
  void require_budget() const {
    Index least = 0;
    std::string name;
    for (auto const& variable : plan_.variables) {
      if (is_trivial(variable)) continue;
      Index const scan = variable.packs ? least_budget(scan_task_of(variable, setting_)) : 0;
      Index const bytes = std::max(scan, least_budget(task_of(variable, setting_)));
      if (bytes > least) name = variable.source.name;
      least = std::max(least, bytes);
    }
    if (least > setting_.budget)
      throw Error(Fault::usage, "BudgetTooSmall",
                  "--memory of " + std::to_string(setting_.budget) + " bytes per rank: variable " + name +
                      " needs at least " + std::to_string(least) + " bytes, or smaller chunks");
  }

  void make_tilings(Rewrite const& variable) {
    scans_.emplace_back();
    passes_.emplace_back();
    if (is_trivial(variable)) return;
    passes_.back() = make_passes(task_of(variable, setting_));
    num_rounds_ += passes_.back()->num_rounds();
    if (!variable.packs) return;
    scans_.back() = make_tiling(scan_task_of(variable, setting_));
    num_rounds_ += scans_.back()->num_rounds();
  }

  /// One file for all variables, large enough for each; in one pass where the disk has no room.
  void open_scratch(std::string const& path) {
    Index scratch_bytes = 0;
    Index output_bytes = 0;
    for (std::size_t i = 0; i < plan_.variables.size(); ++i) {
      auto const& variable = plan_.variables[i];
      Index const cells = Box::from_extents(variable.source.extents).num_cells();
      output_bytes += cells * variable.target_storage().value_bytes;
      if (passes_[i] && passes_[i]->store) scratch_bytes = std::max(scratch_bytes, cells * variable.value_bytes());
    }
    if (scratch_bytes == 0) return;
    scratch_.emplace(setting_.comm, path);
    result_.no_scratch = scratch_->reserve(scratch_bytes, output_bytes);
    if (result_.no_scratch.empty()) {
      result_.scratch_bytes = scratch_bytes;
      return;
    }
    scratch_.reset();
    for (std::size_t i = 0; i < passes_.size(); ++i) {
      if (!passes_[i] || !passes_[i]->store) continue;
      num_rounds_ -= passes_[i]->num_rounds();
      passes_[i] = Passes{{}, make_tiling(task_of(plan_.variables[i], setting_))};
      num_rounds_ += passes_[i]->num_rounds();
    }
  }

  [[nodiscard]] BeforeRound step(Rewrite const& variable) {
    return [this, &variable] { watch_(num_done_++, num_rounds_, variable.source.name); };
  }

  void find_range(Rewrite& variable, Tiling const& scan) {
    RoundBuffers buffers(variable, scan, setting_);
    variable.target.packing = find_packing(buffers, scan, input_, step(variable));
    add(result_.totals, buffers.totals());
  }

  void copy(Rewrite& variable, std::optional<Passes> const& passes, FieldWriter& output) {
    if (!passes) return copy_single(setting_.comm, variable, input_, output);
    if (passes->store) {
      RoundBuffers buffers(variable, *passes->store, setting_);
      store_values(buffers, *passes, input_, *scratch_, step(variable));
      add(result_.totals, buffers.totals());
      describe_fills(variable, buffers.fills());
    }
    RoundBuffers buffers(variable, passes->last, setting_);
    if (passes->store)
      fetch_values(buffers, *passes, *scratch_, output, step(variable));
    else
      copy_values(buffers, passes->last, input_, output, step(variable));
    add(result_.totals, buffers.totals());
    if (!passes->store) describe_fills(variable, buffers.fills());
    result_.variables.push_back({variable, *passes});
  }

  /// Collective.
  void describe_fills(Rewrite const& variable, ProbableFills const& own) {
    auto const fill = probable_fill(variable.source);
    if (variable.form == Form::stored || !fill) return;
    std::array<Index, 1> count{own.count};
    std::array<Index, 1> first{-own.first};
    setting_.comm.sum(std::span<Index>(count));
    setting_.comm.max(first);
    if (count[0] == 0) return;
    Index place = -first[0];
    std::string where;
    for (int a = variable.source.ndim() - 1; a >= 0; --a) {
      Index const extent = variable.source.extents[a];
      where = variable.source.dimensions[std::size_t(a)] + "=" + std::to_string(place % extent) +
              (where.empty() ? "" : ", " + where);
      place /= extent;
    }
    result_.fills.push_back(input_.contents().path.string() + ": '" + variable.source.name + "' has " +
                            std::to_string(count[0]) + (count[0] == 1 ? " cell" : " cells") + " of " +
                            probable_fill_text(variable.source) +
                            ", netCDF's default fill value of its type, and no _FillValue: first at " + where +
                            "; treated as values, because integers that are not packed may be codes");
  }

  Watch const& watch_;
  Setting setting_;
  FieldFile input_;
  Plan plan_;
  std::string codec_;
  std::optional<ScratchFile> scratch_;
  std::vector<std::optional<Passes>> passes_;
  std::vector<std::optional<Tiling>> scans_;
  Index num_rounds_ = 0;
  Index num_done_ = 0;
  Result result_;
};

}  // namespace

Result rewrite_file(Comm const& comm, Options const& options, Watch const& watch) {
  require_other_file(comm, options);
  return Run(comm, options, watch).rewrite(options.output);
}

}  // namespace graticule::archive
