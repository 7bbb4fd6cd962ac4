// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/series.hpp>
#include <graticule/models/detail/cells.hpp>
#include <graticule/samples/detail/data_teams.hpp>
#include <graticule/samples/detail/sample_store.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace graticule::samples {

/// What is done about missing cells that are probably errors: one line per variable, or an end.
enum class MissingRule : std::uint8_t { warn, refuse };

/// A line about the cells of a variable.
struct MissingLine {
  std::string text;  ///< file, variable, number of cells, and the first one
  std::string outcome = "treated as missing data";
  bool can_be_refused = true;
};

/// Whether `_FillValue`, `missing_value`, or limits such as `valid_min` say that a variable has missing data.
[[nodiscard]] bool declares_missing(Variable const& variable);

/// `12.5 N 33.75 E`; `142.5 W` for -142.5.
[[nodiscard]] std::string place_text(Grid const& grid, Index row, Index column);

/// Counts cells without values and finds those that are probably errors: cells that only some samples lack, NaN and
/// default fill values that nothing declares as missing, and the `probable_fill` of integers, which counts as a value.
/// Cells that all samples of a level lack, such as land in a field of the sea, are data.
///
/// Example: of 12 samples all lack the same 300 cells, and one lacks cell 301 as well: the cell is reported, with its
/// place and the sample. Of two samples one lacks cell 5 and the other cell 6: 2 cells. Memory: 8 bytes per cell of
/// this rank that a whole level lacks, and 16 per sample and field.
class MissingCells {
 public:
  struct Samples {
    Index count = 0;
    Index num_levels = 1;  ///< samples `s` and `s + num_levels` are of the same level
    Index per_entry = 0;   ///< of the files' joined dimension; 0 where it is no axis of samples
    std::function<std::string(Index)> name;
  };
  /// @param variables of each field of the store  @param cells of this rank; they must outlive this object
  MissingCells(FieldSeries const& series, std::vector<std::string> variables, Cells const& cells, Samples samples);

  /// Looks at a field of a sample on this rank; once on each rank of one team.
  void count(Index sample, std::size_t field, std::span<double const> values);
  /// For a field whose mean is not finite. @throws `BadInput` (input) with file, time and place of an infinite value
  void refuse_infinite(Index sample, std::size_t field, std::span<double const> values) const;

  /// A line for each variable with such cells, and one for each whose limits (`valid_min`, ...) make cells missing.
  /// Reads a sample per line again. Collective over all teams, equal on all ranks.
  [[nodiscard]] std::vector<MissingLine> describe(DataTeams const& teams, SampleStore& store);

 private:
  struct Finding {
    std::size_t field = 0;
    Index sample = -1;    ///< the first one
    Index num_cells = 0;  ///< of all samples
  };
  /// The first cell for which `is_found` of a sample, by its place. Collective over all teams.
  [[nodiscard]] std::string first_place(DataTeams const& teams, SampleStore& store, Finding const& finding,
                                        std::function<bool(double, Index)> const& is_found) const;
  void describe_fills(std::size_t begin, DataTeams const& teams, SampleStore& store, std::vector<MissingLine>& lines);
  void describe_limits(std::size_t begin, std::vector<MissingLine>& lines) const;
  [[nodiscard]] Index& at(std::vector<Index>& counts, Index sample, std::size_t field) const;
  /// The place of a sample's level and a field in `common_`.
  [[nodiscard]] std::size_t level_of(Index sample, std::size_t field) const;
  /// Cells that the samples of all teams lack; over the ranks of a domain, their numbers.
  void join_common(DataTeams const& teams, std::size_t num_cells);
  void find_gaps(std::size_t field, Finding& gaps);
  void find_undeclared(std::size_t field, Finding& undeclared);
  [[nodiscard]] std::string file_of(Index sample) const;
  /// `time = 6 hours since 2000-01-01, 12.5 N 33.75 E`; of a cell by its number on the whole grid.
  [[nodiscard]] std::string place_of(Index sample, Index cell) const;

  std::vector<std::string> variables_;
  std::vector<bool> declares_;
  std::vector<std::optional<double>> fills_;  ///< values that are probably none
  std::vector<std::string> fill_texts_;
  std::vector<std::string> limits_;
  std::vector<std::filesystem::path> files_;
  std::vector<Index> ends_;
  Cells const& cells_;
  Samples samples_;
  std::vector<Index> seen_;     ///< [sample][field]: ranks that have looked
  std::vector<Index> missing_;  ///< [sample][field]: cells
  std::vector<Index> filled_;   ///< [sample][field]: cells of the probable fill value
  /// [level][field]: cells of this rank that all samples lack, in order; none before the first sample.
  std::vector<std::optional<std::vector<Index>>> common_;
  std::vector<Index> num_common_;  ///< [level][field]: of all ranks
};

/// Ends with the first line where the rule refuses them. @throws `BadInput` (input)
void apply_rule(MissingRule rule, std::vector<MissingLine> const& lines,
                std::function<void(std::string const&)> const& warn);

}  // namespace graticule::samples
