// SPDX-License-Identifier: BSD-3-Clause
#include "prediction_file.hpp"

#include <graticule/field_io/detail/writes_store.hpp>

#include <algorithm>
#include <array>
#include <functional>

namespace graticule::train {
namespace {

/// Defines the axes and what describes them, and names the axes, slowest first.
std::vector<std::string> add_axes(FieldWriter& writer, RunResult const& result) {
  std::vector<Dimension> dimensions;
  for (std::size_t a = 0; a < result.samples.extents.size(); ++a)
    dimensions.push_back({result.samples.dimensions[a], result.samples.extents[a]});
  dimensions.push_back({result.latitude_name, result.grid.num_rows()});
  dimensions.push_back({result.longitude_name, result.grid.num_columns()});
  write_companions(result.teams.world(), writer, dimensions, result.companions);
  std::vector<std::string> names;
  for (auto const& dimension : dimensions) names.push_back(flat_name(dimension.name));
  return names;
}

struct Part {
  char const* suffix;
  char const* title;
  bool is_quantity;  ///< what the target's standard_name says
};
constexpr std::array parts{Part{"_truth", ", truth", true}, Part{"_prediction", ", prediction", true},
                           Part{"_difference", ", prediction - truth", false}};

/// @param chunk of a Zarr store: a sample, as they are written
VariableSpec spec_of(TargetResult const& target, Part const& part, std::vector<std::string> const& axes,
                     Indices const& chunk) {
  std::string const long_name = target.info.long_name.empty() ? target.info.name : target.info.long_name;
  VariableSpec spec{.name = flat_name(target.info.name) + part.suffix, .dimensions = axes, .chunk = chunk};
  spec.fill = 9.96921e36F;  // netCDF's own default for floating-point numbers
  spec.attributes.push_back(Attribute::of_text("long_name", long_name + part.title));
  for (Attribute const& attribute : target.attributes)
    if (part.is_quantity || attribute.name != "standard_name") spec.attributes.push_back(attribute);
  return spec;
}

/// As options take several names.
std::string as_option(std::vector<std::string> const& names) {
  std::string text;
  for (auto const& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

/// What was done to the fields, the last first.
std::string history_of(RunResult const& result, RunSettings const& settings) {
  auto const own =
      "graticule-train --inputs " + as_option(settings.inputs) + " --targets " + as_option(settings.targets);
  return result.input_history.empty() ? own : own + "\n" + result.input_history;
}

}  // namespace

PredictionFile::PredictionFile(RunResult const& result, RunSettings const& settings, std::filesystem::path const& path)
    : result_(result),
      writer_(result.teams.world(), path,
              {Attribute::of_text("title", "Predictions of a network that was trained by graticule-train"),
               Attribute::of_text("source", settings.input.filename().string()),
               Attribute::of_text("history", history_of(result, settings))}) {
  std::vector<std::string> const axes = add_axes(writer_, result);
  Indices chunk;
  if (writes_store(path)) {
    chunk = Indices::filled(int(axes.size()), 1);
    chunk[int(axes.size()) - 2] = result.grid.num_rows();
    chunk[int(axes.size()) - 1] = result.grid.num_columns();
  }
  for (TargetResult const& target : result.targets)
    for (Part const& part : parts) writer_.add_variable(spec_of(target, part, axes, chunk));
}

/// This rank's cells of a sample in the file; none for no sample.
Box PredictionFile::box_of(Index sample) const {
  Box const owned = result_.layout.owned(result_.teams.domain().rank());
  auto const& extents = result_.samples.extents;
  Box box = Box::from_extents(Indices::filled(int(extents.size()) + 2, 0));
  if (sample < 0) return box;
  for (int a = int(extents.size()) - 1; a >= 0; --a) {
    Index const extent = extents[std::size_t(a)];
    box.set(a, sample % extent, sample % extent + 1);
    sample /= extent;
  }
  for (int a = 0; a < 2; ++a) box.set(int(extents.size()) + a, owned.lo(a), owned.hi(a));
  return box;
}

void PredictionFile::write(PredictedFields const& predicted) {
  Comm const& world = result_.teams.world();
  std::array<Index, 1> most{Index(predicted.samples.size())};
  world.max(std::span<Index>(most));
  std::vector<double> difference;
  for (Index place = 0; place < most[0]; ++place)
    for (std::size_t t = 0; t < result_.targets.size(); ++t) {
      bool const has = place < Index(predicted.samples.size());
      auto const field = [&](std::span<double const> values) {
        return has ? predicted.field(values, std::size_t(place), t, result_.targets.size()) : std::span<double const>();
      };
      auto const truth = field(predicted.truth);
      auto const prediction = field(predicted.prediction);
      difference.resize(truth.size());
      std::transform(prediction.begin(), prediction.end(), truth.begin(), difference.begin(), std::minus<>());
      Box const box = box_of(has ? predicted.samples[std::size_t(place)] : -1);
      std::string const name = flat_name(result_.targets[t].info.name);
      writer_.write(name + parts[0].suffix, box, truth);
      writer_.write(name + parts[1].suffix, box, prediction);
      writer_.write(name + parts[2].suffix, box, std::span<double const>(difference));
    }
}

}  // namespace graticule::train
