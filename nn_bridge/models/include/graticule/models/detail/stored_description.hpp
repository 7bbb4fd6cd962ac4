// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/field_io/checkpoint.hpp>
#include <graticule/models/description.hpp>
#include <graticule/partition/box.hpp>
#include <graticule/partition/comm.hpp>
#include <graticule/partition/detail/enum_table.hpp>
#include <graticule/partition/layout.hpp>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace graticule::models {

struct NamedPredict {
  char const* name = nullptr;
};
/// The table of outputs, with the names of `--predict` and of descriptions.
[[nodiscard]] constexpr NamedPredict enum_row(Predict predict) noexcept {
  switch (predict) {
    case Predict::state: return {"state"};
    case Predict::tendency: return {"tendency"};
  }
  return {};
}

/// By its name. @throws `BrokenFile` (input), which names the `file`
[[nodiscard]] Predict predict_named(std::string const& name, std::string const& file);

/// The channel that a feature of a field is: a derivative's parity is opposite to the field's.
[[nodiscard]] ChannelInfo channel_of(Feature feature, FieldInfo const& info);

/// As JSON text, numbers with all their digits.
[[nodiscard]] std::string to_text(Description const& description);
/// From such a text. @throws `BrokenFile`, `UnsupportedFile` (input), which name the `file`
[[nodiscard]] Description description_of(std::string const& text, std::string const& file);
/// That of a checkpoint. @throws likewise, and `BadInput` (input) for a checkpoint of another use
[[nodiscard]] Description description_of(Checkpoint const& checkpoint);

/// Adds the description, the climatology and the static fields to a checkpoint. Collective.
/// `layout` is that of the checkpoint's ranks, `box` this rank's part, `climatology` [channel][row][column] of it,
/// `statics` [field][row][column], in units.
void save_description(CheckpointWriter& writer, Description const& description, Layout const& layout, Box const& box,
                      std::vector<double> const& climatology, std::vector<std::vector<double>> const& statics);

/// The climatology on this rank's box, [channel][row][column], from a checkpoint. Collective.
[[nodiscard]] std::vector<double> load_climatology(Checkpoint const& checkpoint, Description const& description,
                                                   Box const& box);
/// Bytes of the exported network of a checkpoint, a `.pt2` file. Collective. @pre `ModelKind::program`
[[nodiscard]] std::vector<std::byte> load_program(Checkpoint const& checkpoint);
/// A static field, by its place among `Description::statics`, on this rank's box: [row][column]. Collective.
[[nodiscard]] std::vector<double> load_static(Checkpoint const& checkpoint, std::size_t place, Box const& box);
/// Opens what was trained: a checkpoint file, a folder of checkpoints, or the output of graticule-train, whose best
/// network counts, else the last one. Collective. @throws `NoSuchFile` (input); `BadInput` (input) for a checkpoint of
/// another use
[[nodiscard]] Checkpoint open_trained(Comm const& comm, std::filesystem::path const& path);

}  // namespace graticule::models
