// SPDX-License-Identifier: BSD-3-Clause
// Fields of files as the samples of a training; each rank reads its own part of the globe.
#pragma once

#include <graticule/partition/comm.hpp>
#include <graticule/partition/cuts.hpp>
#include <graticule/partition/layout.hpp>
#include <graticule/repartition/field_view.hpp>
#include <graticule/samples/scaling.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace graticule::samples {

/// The order of samples in an epoch.
enum class Order : std::uint8_t { in_time, shuffled };

/// How variables are scaled that `DatasetOptions::scaling` does not name: not at all, or by their mean and standard
/// deviation over the samples and the globe, level by level, which takes one pass over the data.
enum class ScaleBy : std::uint8_t { given, statistics };

/// Options of `Dataset`, the same on all ranks but for `data_team`.
struct DatasetOptions {
  /// Whether an epoch ends with a batch of fewer samples than the others.
  enum class LastBatch : std::uint8_t { keep, drop };

  std::vector<std::string> inputs;        ///< names of variables; each level is a channel
  std::vector<std::string> targets = {};  ///< likewise; empty: the inputs
  /// From a state to the next: steps of the time axis, or a duration such as `6h`. `0`: targets of the inputs' time.
  std::string lead = "1";
  Index history = 1;  ///< states of the inputs, one lead apart, the earliest first
  Index steps = 1;    ///< states of the targets, one lead apart
  /// `2000..2015`: samples whose states all lie in it. Empty: all; of one file with the attributes `valid_time_start`
  /// and `valid_time_stop`, those between.
  std::string times = {};
  Index batch_size = 1;  ///< samples of one data team
  LastBatch last_batch = LastBatch::keep;
  Order order = Order::in_time;
  std::uint64_t seed = 0;                       ///< of the shuffled order
  std::map<std::string, Scaling> scaling = {};  ///< of variables by name
  ScaleBy scale_by = ScaleBy::given;
  Missing missing = Missing::keep;
  /// Inputs that follow from time and place alone, after the variables of each state, not scaled: `insolation` (cosine
  /// of the sun's zenith angle, 0 at night, averaged over the lead that begins), `time_of_day`, `time_of_year`.
  std::vector<std::string> forcings = {};
  DType dtype = DType::f32;  ///< of the batches, or f64
  /// Ranks that have the same part of the globe in other domains; a batch has other samples on each.
  std::optional<Comm> data_team = {};
  std::optional<ProcessGrid> process_grid = {};  ///< of the domain; none: bands of latitude
  std::optional<Cuts> rows = {};                 ///< none: balanced
  std::optional<Cuts> columns = {};
  /// For samples kept in memory, as they are stored, on this rank. None: a quarter of the node's memory, divided by its
  /// ranks.
  std::optional<Index> memory_bytes = {};
};

/// The samples of one file, or of several that follow each other in time: netCDF files or Zarr stores.
///
/// A sample is a time (and, where the files have several, a member of an ensemble) with its history and targets, whose
/// states all exist: none crosses a gap of the time axis. Files without dates are counted along the axis that joins
/// them, or their first one. The next batch is read by a thread while the current one is used.
/// Example: `t(time=8, level=3, latitude, longitude)`, a lead of 1, a history of 2: 6 samples of 3 channels.
class Dataset {
 public:
  /// Some samples on this rank's part, without gaps between them. Valid until the next call of `batch`.
  struct Batch {
    Index num_samples = 0;
    DType dtype = DType::f32;
    void const* inputs = nullptr;   ///< [sample][history][channel][row][column]
    void const* targets = nullptr;  ///< [sample][steps][channel][row][column]
  };

  /// Opens the files. Collective over the domain and the data team.
  /// @param domain ranks that share a sample  @param files names, or patterns of the shell, in order of time
  /// @param options variables, steps, batches and order
  /// @throws on all ranks: `BadOption` (usage), `ArgumentDisagreement`; `NoSuchFile`, `MissingVariable`, `BadInput` and
  ///         the others of files (input), which name file and variable; `BadCuts`
  Dataset(Comm const& domain, std::vector<std::string> files, DatasetOptions options);
  Dataset(Dataset&&) noexcept;
  Dataset& operator=(Dataset&&) noexcept;
  ~Dataset();

  [[nodiscard]] Layout const& layout() const noexcept;
  [[nodiscard]] Box owned() const;                                       ///< rows and columns of this rank
  [[nodiscard]] std::vector<double> const& latitudes() const noexcept;   ///< of all rows, degrees
  [[nodiscard]] std::vector<double> const& longitudes() const noexcept;  ///< of all columns, degrees
  /// Names of the channels, with their levels: `t 850 hPa`; of the inputs then those of the forcings: `sin_year`.
  [[nodiscard]] std::vector<std::string> const& input_channels() const noexcept;
  [[nodiscard]] std::vector<std::string> const& target_channels() const noexcept;
  /// Of each variable that is scaled, one value per level.
  [[nodiscard]] std::map<std::string, Scaling> const& scaling() const noexcept;

  [[nodiscard]] Index num_samples() const noexcept;  ///< of all data teams
  /// Of one epoch; the last one may be smaller (`LastBatch`). Data teams have as many samples each: the last ones of
  /// the order, fewer than there are teams, are left out.
  [[nodiscard]] Index num_batches() const noexcept;
  /// Times of the samples of a batch on this rank's data team, of the last state of their history:
  /// `2000-01-01 06:00`, or a number without dates.
  [[nodiscard]] std::vector<std::string> times(Index epoch, Index number) const;

  /// One batch of an epoch; the thread goes on with the one after it. Collective over the domain and the data team.
  /// @pre `0 <= epoch`, `0 <= number < num_batches()` (`OutOfRange`), the same on all ranks (`CallDisagreement`)
  /// @throws what the thread met on any rank, on all ranks
  /// Cost: two small all-reduces of the domain, one of the data team
  [[nodiscard]] Batch batch(Index epoch, Index number);

  /// Bytes that this rank has read from files so far, before filters are undone. Waits for the thread.
  [[nodiscard]] Index bytes_read();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace graticule::samples
