// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/checkpoint.hpp>
#include <graticule/models/description.hpp>
#include <graticule/models/detail/forcing.hpp>
#include <graticule/models/detail/model_kinds.hpp>
#include <graticule/models/detail/stored_description.hpp>
#include <graticule/partition/detail/utf8.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string_view>

namespace graticule::models {
namespace {

using Json = nlohmann::ordered_json;

/// A text of a file as UTF-8, which JSON needs: bytes that are none become characters of Unicode's private use,
/// U+F780 to U+F7FF, as bytes of these characters do. `file_text` is the inverse.
std::string json_text(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    auto const count = graticule::utf8_character(text);
    bool const is_private = count == 3 && (text.starts_with("\xef\x9e") || text.starts_with("\xef\x9f"));
    if (count > 0 && !is_private) {
      result += text.substr(0, count);
    } else {
      unsigned const byte = static_cast<unsigned char>(text.front());
      result += {'\xef', char(0x9c + (byte >> 6U)), char(0x80 + (byte & 0x3fU))};
    }
    text.remove_prefix(count > 0 && !is_private ? count : 1);
  }
  return result;
}

std::string file_text(std::string const& text) {
  std::string result;
  for (std::size_t at = 0; at < text.size(); ++at) {
    auto const rest = std::string_view(text).substr(at);
    bool const is_byte = rest.size() >= 3 && (rest.starts_with("\xef\x9e") || rest.starts_with("\xef\x9f"));
    auto const byte = [&](std::size_t i) { return unsigned(static_cast<unsigned char>(rest[i])); };
    result += is_byte ? char(((byte(1) - 0x9cU) << 6U) + (byte(2) & 0x3fU)) : rest.front();
    if (is_byte) at += 2;
  }
  return result;
}

std::string to_string(Feature feature) {
  return feature == Feature::value ? "value" : feature == Feature::east ? "east" : "north";
}

std::string to_string(Component component) {
  return component == Component::scalar ? "scalar" : component == Component::eastward ? "eastward" : "northward";
}

Component component_named(std::string const& name) {
  return name == "eastward" ? Component::eastward : name == "northward" ? Component::northward : Component::scalar;
}

Json to_json(ChannelScale const& scale) { return {{"mean", scale.mean}, {"scale", scale.scale}}; }
ChannelScale scale_of(Json const& json) { return {json.at("mean").get<double>(), json.at("scale").get<double>()}; }

Json to_json(Description const& d, std::size_t c) {
  auto const& channel = d.channels[c];
  Json json{{"label", json_text(channel.label)},
            {"variable", json_text(channel.variable)},
            {"level", channel.level},
            {"role", channel.role == Role::prognostic ? "prognostic" : "diagnostic"},
            {"units", json_text(channel.info.units)},
            {"long_name", json_text(channel.info.long_name)},
            {"standard_name", json_text(channel.info.standard_name)},
            {"component", to_string(channel.info.component)},
            {"is_potential", channel.info.is_potential},
            {"mirror_negates", channel.info.mirror_negates},
            {"value", to_json(d.values[c])}};
  if (channel.role == Role::prognostic) {
    json["tendency"] = to_json(d.tendencies[c]);
    json["east_scale"] = d.east_scales[c];
    json["north_scale"] = d.north_scales[c];
  }
  return json;
}

void add_channel(Description& d, Json const& json) {
  StateChannel channel;
  channel.label = file_text(json.at("label"));
  channel.variable = file_text(json.at("variable"));
  channel.level = json.at("level");
  channel.role = json.at("role") == "prognostic" ? Role::prognostic : Role::diagnostic;
  channel.info.name = channel.variable;
  channel.info.units = file_text(json.at("units"));
  channel.info.long_name = file_text(json.at("long_name"));
  channel.info.standard_name = file_text(json.at("standard_name"));
  channel.info.component = component_named(json.at("component"));
  channel.info.parity = channel.info.component == Component::scalar ? Parity::even : Parity::odd;
  channel.info.is_potential = json.at("is_potential");
  channel.info.mirror_negates = json.at("mirror_negates");
  d.values.push_back(scale_of(json.at("value")));
  if (channel.role == Role::prognostic) {
    d.tendencies.push_back(scale_of(json.at("tendency")));
    d.east_scales.push_back(json.at("east_scale"));
    d.north_scales.push_back(json.at("north_scale"));
  }
  d.channels.push_back(std::move(channel));
}

constexpr char const* program_name = "forecast/program";

std::vector<std::byte> file_bytes(std::filesystem::path const& file) {
  std::ifstream stream(file, std::ios::binary);
  std::string const text{std::istreambuf_iterator<char>(stream), {}};
  if (!stream || text.empty()) throw Error(Fault::input, "UnreadableFile", file.string() + " cannot be read");
  std::vector<std::byte> bytes(text.size());
  std::transform(text.begin(), text.end(), bytes.begin(), [](char c) { return std::byte(c); });
  return bytes;
}

FieldView bytes_view(std::vector<std::byte> const& bytes) {
  auto* const data = reinterpret_cast<std::uint8_t*>(const_cast<std::byte*>(bytes.data()));
  return field_view(data, {Index(bytes.size())}, 0);
}

std::string static_name(std::size_t place) { return "forecast/static" + std::to_string(place); }

}  // namespace

std::map<std::string, ModelKind> const& model_kinds() {
  static std::map<std::string, ModelKind> const kinds{{"convnet", ModelKind::convnet},
                                                      {"unet", ModelKind::unet},
                                                      {"sfno", ModelKind::sfno},
                                                      {"window", ModelKind::window}};
  return kinds;
}

std::string to_string(ModelKind kind) {
  if (kind == ModelKind::program) return "program";
  for (auto const& [name, other] : model_kinds())
    if (other == kind) return name;
  return "?";
}

std::vector<std::string> Description::variables(Role role) const {
  std::vector<std::string> names;
  for (StateChannel const& channel : channels)
    if (channel.role == role && (names.empty() || names.back() != channel.variable)) names.push_back(channel.variable);
  return names;
}

std::vector<ChannelInfo> Description::inputs() const {
  std::vector<ChannelInfo> infos;
  for (Feature const feature : features)
    for (std::size_t c = 0; c < num_prognostic(); ++c) {
      infos.push_back(channel_of(feature, channels[c].info));
      infos.back().name = (feature == Feature::value  ? ""
                           : feature == Feature::east ? "d/dx "
                                                      : "d/dy ") +
                          channels[c].label;
    }
  for (Index t = 1; t < history; ++t)
    for (std::size_t c = 0; c < num_prognostic(); ++c)
      infos.push_back({"change of " + channels[c].label + (t == 1 ? "" : " " + std::to_string(t) + " leads ago"),
                       channels[c].info.parity});
  for (std::string const& name : forcing_channels(forcings_of(forcings))) infos.push_back({name, Parity::even});
  for (Description::StaticScale const& field : statics) infos.push_back({field.name, Parity::even});
  return infos;
}

std::vector<double> Description::error_factors() const {
  std::vector<double> factors(channels.size(), 1.0);
  if (predict == Predict::tendency)
    for (std::size_t c = 0; c < num_prognostic(); ++c) factors[c] = values[c].scale / tendencies[c].scale;
  return factors;
}

std::string to_text(Description const& d) {
  Json json{{"format", 1}};
  for (std::size_t c = 0; c < d.channels.size(); ++c) json["channels"].push_back(to_json(d, c));
  json["features"] = Json::array();
  for (Feature const feature : d.features) json["features"].push_back(to_string(feature));
  json["history"] = d.history;
  json["lead_steps"] = d.lead.steps;
  json["lead_duration"] = d.lead.duration;
  json["lead_seconds"] = d.lead_seconds;
  json["calendar"] = graticule::to_string(d.calendar);
  json["predict"] = graticule::detail::enum_name(d.predict);
  if (d.polar_filter > 0) json["polar_filter"] = d.polar_filter;
  if (d.perturbation > 0) json["perturbation"] = d.perturbation;
  json["forcings"] = d.forcings;
  json["row_functions"] = d.row_functions;
  json["statics"] = Json::array();
  for (Description::StaticScale const& field : d.statics)
    json["statics"].push_back({{"name", json_text(field.name)}, {"scale", to_json(field.scale)}});
  json["model"] = {{"kind", to_string(d.model)}, {"width", d.width}, {"blocks", d.blocks}, {"kernel", d.kernel}};
  json["dtype"] = graticule::to_string(d.dtype);
  json["latitudes"] = d.latitudes;
  json["longitudes"] = d.longitudes;
  return json.dump();
}

namespace {

ModelKind kind_named(std::string const& name, std::string const& file) {
  if (name == "program") return ModelKind::program;
  auto const found = model_kinds().find(name);
  if (found == model_kinds().end())
    throw Error(Fault::input, "BrokenFile", file + ": the description of the forecast names a model '" + name + "'");
  return found->second;
}

}  // namespace

Predict predict_named(std::string const& name, std::string const& file) {
  for (Predict const predict : graticule::detail::enum_values<Predict>)
    if (enum_row(predict).name == name) return predict;
  throw Error(Fault::input, "BrokenFile",
              file + ": the description of the forecast has a network that predicts '" + name + "'; it may be " +
                  graticule::detail::enum_names<Predict>());
}

Description description_of(std::string const& text, std::string const& file) try {
  Json const json = Json::parse(text);
  if (json.at("format") != 1) throw Error(Fault::input, "UnsupportedFile", file + " was written by a newer version");
  Description d;
  for (Json const& channel : json.at("channels")) add_channel(d, channel);
  for (Json const& feature : json.at("features"))
    d.features.push_back(feature == "value" ? Feature::value : feature == "east" ? Feature::east : Feature::north);
  d.history = json.at("history");
  d.lead = {json.at("lead_steps"), json.at("lead_duration")};
  d.lead_seconds = json.at("lead_seconds");
  d.calendar = calendar_of(json.value("calendar", std::string()));
  d.predict = predict_named(json.at("predict"), file);
  d.polar_filter = json.value("polar_filter", 0.0);
  d.perturbation = json.value("perturbation", 0.0);
  d.forcings = json.at("forcings").get<std::vector<std::string>>();
  d.row_functions = json.at("row_functions").get<std::vector<std::string>>();
  for (Json const& field : json.at("statics"))
    d.statics.push_back({file_text(field.at("name")), scale_of(field.at("scale"))});
  Json const& model = json.at("model");
  d.model = kind_named(model.at("kind"), file);
  d.width = model.at("width");
  d.blocks = model.at("blocks");
  d.kernel = model.at("kernel");
  d.dtype = json.at("dtype") == "f64" ? DType::f64 : DType::f32;
  d.latitudes = json.at("latitudes").get<std::vector<double>>();
  d.longitudes = json.at("longitudes").get<std::vector<double>>();
  return d;
} catch (nlohmann::json::exception const& error) {
  throw Error(Fault::input, "BrokenFile", file + ": the description of the forecast cannot be read: " + error.what());
}

Description program_description(std::filesystem::path const& file, std::vector<StateChannel> channels, Lead const& lead,
                                Seconds lead_seconds, std::vector<double> latitudes, std::vector<double> longitudes) {
  Description d;
  d.channels = std::move(channels);
  auto const prognostic = std::size_t(
      std::count_if(d.channels.begin(), d.channels.end(), [](auto const& c) { return c.role == Role::prognostic; }));
  d.values.resize(d.channels.size());
  d.tendencies.resize(prognostic);
  d.east_scales.resize(prognostic, 1);
  d.north_scales.resize(prognostic, 1);
  d.features = {Feature::value};
  d.lead = lead;
  d.lead_seconds = lead_seconds;
  d.predict = Predict::state;
  d.model = ModelKind::program;
  d.program = file;
  d.latitudes = std::move(latitudes);
  d.longitudes = std::move(longitudes);
  return d;
}

void save_description(CheckpointWriter& writer, Description const& description, Layout const& layout, Box const& box,
                      std::vector<double> const& climatology, std::vector<std::vector<double>> const& statics) {
  writer.add_value("forecast/description", to_text(description));
  writer.add("forecast/climatology", layout,
             field_view(climatology.data(), {Index(description.channels.size()), box.extent(0), box.extent(1)}, 2));
  if (description.model == ModelKind::program) {
    auto const bytes = file_bytes(description.program);
    writer.add(program_name, bytes_view(bytes));
  }
  for (std::size_t i = 0; i < statics.size(); ++i)
    writer.add(static_name(i), layout, field_view(statics[i].data(), box.extents(), 2));
}

std::vector<std::byte> load_program(Checkpoint const& checkpoint) {
  std::vector<std::byte> bytes(std::size_t(checkpoint.field(program_name).extents[0]));
  checkpoint.read(program_name, bytes_view(bytes));
  return bytes;
}

std::vector<double> load_climatology(Checkpoint const& checkpoint, Description const& description, Box const& box) {
  auto const channels = Index(description.channels.size());
  std::vector<double> values(std::size_t(channels * box.extent(0) * box.extent(1)));
  checkpoint.read("forecast/climatology", box, field_view(values.data(), {channels, box.extent(0), box.extent(1)}, 2));
  return values;
}

std::vector<double> load_static(Checkpoint const& checkpoint, std::size_t place, Box const& box) {
  std::vector<double> values(std::size_t(box.extent(0) * box.extent(1)));
  checkpoint.read(static_name(place), box, field_view(values.data(), box.extents(), 2));
  return values;
}

Checkpoint open_trained(Comm const& comm, std::filesystem::path const& path) {
  // Rank 0 alone looks, so that all ranks see the same.
  std::string chosen = path.string();
  run_agreed(comm, [&] {
    if (comm.rank() != 0) return;
    std::error_code error;
    if (!std::filesystem::exists(path, error))
      throw Error(Fault::input, "NoSuchFile", path.string() + " does not exist");
    if (!std::filesystem::is_directory(path, error)) return;
    for (char const* folder : {"best", "last"})
      if (std::filesystem::is_directory(path / folder, error)) {
        chosen = (path / folder).string();
        return;
      }
  });
  chosen = comm.broadcast(chosen, 0);
  std::error_code error;
  std::array<Index, 1> is_folder{comm.rank() == 0 && std::filesystem::is_directory(chosen, error) ? 1 : 0};
  comm.max(is_folder);
  auto checkpoint = [&] {
    if (is_folder[0] == 0) {
      // As those of a folder: parts of fields are read below, whose checksums nobody would compare.
      Checkpoint file(comm, chosen);
      file.verify();
      return file;
    }
    CheckpointStore store(comm, chosen);
    auto found = store.newest();
    if (!found)
      throw Error(Fault::input, "NoSuchFile",
                  chosen + " holds no intact checkpoint" +
                      (store.skipped().empty() ? "" : ": " + store.skipped().front().reason));
    return std::move(*found);
  }();
  static_cast<void>(description_of(checkpoint));
  return checkpoint;
}

Description description_of(Checkpoint const& checkpoint) {
  if (!checkpoint.has_value("forecast/description"))
    throw Error(Fault::input, "BadInput",
                checkpoint.path().string() +
                    " is not a network that forecasts; graticule-train --lead makes them in "
                    "OUTPUT/best and OUTPUT/last");
  return description_of(checkpoint.value<std::string>("forecast/description"), checkpoint.path().string());
}

}  // namespace graticule::models
