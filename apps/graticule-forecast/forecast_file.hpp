// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/writer.hpp>
#include <graticule/models/description.hpp>
#include <graticule/samples/detail/companions.hpp>
#include <graticule/samples/detail/states.hpp>

#include "names.hpp"

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace graticule::forecast {

/// The cells of a forecast that a rank holds: some members of all channels on its box.
struct OwnPart {
  Box box;  ///< rows and columns
  Index first_member = 0;
  Index num_members = 0;  ///< of this rank's team
};

/// A forecast as netCDF-4 or as a Zarr store (CF 1.8): a record per output time, appended as the forecast goes on.
///
/// Dimensions: time (valid time), member where there are several, levels, latitude, longitude; scalar coordinate
/// forecast_reference_time and lead_time(time); network(member) where there are several. A record that is in the file
/// already, of a run before, is passed over: it has the same bits.
class ForecastFile {
 public:
  struct Options {
    std::filesystem::path path;
    Seconds start = 0;
    Calendar calendar = Calendar::standard;
    Index num_members = 1;
    std::string history;                               ///< text of the attribute
    std::vector<std::filesystem::path> networks = {};  ///< that forecast as many members each, one after the other
  };
  /// Collective over `world`. Goes on with the file where `resumes` and it exists.
  /// @param table whose axes describe levels, latitudes and longitudes
  /// @throws `LayoutMismatch` (input) for a file of another grid, `OutputError`
  ForecastFile(Comm const& world, Comm const& domain, samples::StateTable const& table, Description const& description,
               OwnPart own, Options options, bool resumes);

  /// Appends the record of a time. Collective. @param lead of this record, seconds
  /// @param fields [member][channel][row][column] of this rank, in units
  void write(Index record, Seconds lead, std::span<double const> fields);

  [[nodiscard]] Index num_records() const noexcept { return num_records_; }

 private:
  void define(Comm const& domain, samples::StateTable const& table);
  /// Which network forecasts which member.
  void write_networks(FieldWriter& writer) const;
  [[nodiscard]] bool has_networks() const noexcept { return options_.networks.size() > 1; }

  struct VariableShape {
    std::string name;                   ///< in the file
    std::vector<std::size_t> channels;  ///< of its levels, in the order of the input
    std::vector<Index> level_extents;
  };
  Comm world_;
  Description description_;
  OwnPart own_;
  Options options_;
  std::vector<VariableShape> variables_;
  Index num_records_ = 0;
};

}  // namespace graticule::forecast
