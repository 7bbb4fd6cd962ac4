// SPDX-License-Identifier: BSD-3-Clause
#include "outputs.hpp"

#include <graticule/app/joined.hpp>
#include <graticule/app/report.hpp>
#include <graticule/models/detail/model_kinds.hpp>
#include <graticule/models/detail/stored_description.hpp>
#include <graticule/samples/detail/whole_field.hpp>

#include <array>
#include <cstdio>

namespace graticule::train {
namespace {

nlohmann::ordered_json to_json(Skill const& skill) {
  return {{"rmse", skill.rmse}, {"climatology_rmse", skill.climatology_rmse}, {"skill", skill.skill()}};
}

}  // namespace

std::string loss_header() { return "step,epoch,learning_rate,loss\n"; }

std::string loss_line(NetworkSettings const& settings, Index step, Index num_steps, double loss) {
  char line[96];
  std::snprintf(line, sizeof line, "%lld,%lld,%.6g,%.17g\n", static_cast<long long>(step + 1),
                static_cast<long long>(step / (num_steps / settings.epochs) + 1),
                learning_rate(settings, step, num_steps), loss);
  return line;
}

std::string loss_table(TrainedNetwork const& network, NetworkSettings const& settings) {
  std::string text = loss_header();
  for (Index step = 0; step < Index(network.losses.size()); ++step)
    text += loss_line(settings, step, network.num_steps, network.losses[std::size_t(step)]);
  return text;
}

std::string validation_table(TrainedNetwork const& network) {
  std::string text = "step,epoch,loss\n";
  for (auto const& [step, loss] : network.validations) {
    char line[96];
    std::snprintf(line, sizeof line, "%lld,%lld,%.17g\n", static_cast<long long>(step),
                  static_cast<long long>(step / network.steps_per_epoch), loss);
    text += line;
  }
  return text;
}

app::MapPicture picture_of(RunResult const& result, RunSettings const& settings) {
  Comm const& comm = result.teams.domain();
  bool const validates = result.num_training < result.samples.num_samples();
  ProcessGrid const& grid = *result.layout.grid();
  std::string const teams =
      result.teams.num_teams() == 1 ? std::string() : std::to_string(result.teams.num_teams()) + " teams of ";
  std::string const ranks = comm.num_ranks() == 1
                                ? teams + "1 rank"
                                : teams + std::to_string(comm.num_ranks()) + " ranks (" +
                                      std::to_string(grid.extent(0)) + " x " + std::to_string(grid.extent(1)) + ")";
  app::MapPicture picture{
      app::joined(settings.targets) + " from " + app::joined(settings.inputs) + ", learned on " + ranks,
      std::string(validates ? "validation" : "training") + " sample: " + result.samples.describe(result.pictured) +
          "; " + std::to_string(result.network.num_parameters) + " parameters, " +
          std::to_string(result.network.losses.size()) + " steps; " + settings.input.filename().string(),
      result.grid.latitudes,
      result.grid.longitudes,
      result.row_weights,
      result.layout,
      {}};
  for (TargetResult const& target : result.targets)
    picture.rows.push_back({target.info.name, target.info.units, gathered(comm, result.layout, target.pictured_truth),
                            gathered(comm, result.layout, target.pictured_prediction)});
  return picture;
}

nlohmann::ordered_json input_report(RunResult const& result) {
  Comm const& comm = result.teams.world();
  auto const& [memory_bytes, store] = result.input;
  std::array<Index, 2> sums{store.num_reads, store.num_hits};
  comm.sum(std::span<Index>(sums));
  return {{"memory_bytes", memory_bytes},
          {"held_bytes", app::minimum_mean_maximum(comm, double(store.bytes_held))},
          {"read_bytes", app::minimum_mean_maximum(comm, double(store.bytes_read))},
          {"reads", sums[0]},
          {"hits", sums[1]}};
}

nlohmann::ordered_json network_report(RunResult const& result, NetworkSettings const& settings) {
  nlohmann::ordered_json report{{"model", to_string(settings.model)}};
  if (settings.model == ModelKind::program) report["file"] = settings.program.string();
  report["input_channels"] = result.channels;
  if (settings.model != ModelKind::program) {
    report["channels"] = settings.channels;
    report["blocks"] = settings.blocks;
    report["kernel"] = settings.kernel;
  }
  report.update({{"num_parameters", result.network.num_parameters},
                 {"epochs", settings.epochs},
                 {"batch", settings.batch},
                 {"data_teams", result.teams.num_teams()},
                 {"lr", settings.learning_rate},
                 {"schedule", settings.schedule},
                 {"seed", settings.seed},
                 {"dtype", detail::enum_name(settings.precision)},
                 {"precision", detail::enum_name(settings.compute)}});
  return report;
}

nlohmann::ordered_json normalisation_report(RunResult const& result) {
  auto report = nlohmann::ordered_json::object();
  if (!result.forecast) {
    for (auto const& [kind, fields] :
         {std::pair("inputs", &result.input_scalings), std::pair("targets", &result.target_scalings)})
      for (auto const& [name, units, scaling] : *fields)
        report[kind].push_back({{"name", name}, {"units", units}, {"mean", scaling.mean}, {"scale", scaling.scale}});
    return report;
  }
  auto const& description = result.forecast->description;
  report["predict"] = detail::enum_name(description.predict);
  for (std::size_t c = 0; c < description.channels.size(); ++c) {
    auto const& channel = description.channels[c];
    nlohmann::ordered_json entry{{"name", channel.label},
                                 {"units", channel.info.units},
                                 {"mean", description.values[c].mean},
                                 {"scale", description.values[c].scale}};
    if (c < description.num_prognostic()) {
      entry["tendency_mean"] = description.tendencies[c].mean;
      entry["tendency_scale"] = description.tendencies[c].scale;
      entry["east_scale"] = description.east_scales[c];
      entry["north_scale"] = description.north_scales[c];
    }
    report["channels"].push_back(entry);
  }
  for (auto const& field : description.statics)
    report["statics"].push_back({{"name", field.name}, {"mean", field.scale.mean}, {"scale", field.scale.scale}});
  return report;
}

nlohmann::ordered_json parallel_report(RunResult const& result, NetworkSettings const& settings) {
  nlohmann::ordered_json report{{"parallel", detail::enum_name(settings.parallel)},
                                {"shard_parameters", detail::enum_name(settings.shards)}};
  for (auto const& [name, value] : result.network.update_figures)
    report[name] = app::minimum_mean_maximum(result.teams.world(), double(value));
  return report;
}

nlohmann::ordered_json validation_report(RunResult const& result) {
  if (result.num_training == result.samples.num_samples()) return nullptr;
  nlohmann::ordered_json report = nlohmann::ordered_json::object();
  for (TargetResult const& target : result.targets) {
    nlohmann::ordered_json entry = to_json(target.validation);
    entry["units"] = target.info.units;
    entry["levels"] = nlohmann::ordered_json::array();
    for (Skill const& skill : target.level_skills) entry["levels"].push_back(to_json(skill));
    report[target.info.name] = entry;
  }
  return report;
}

}  // namespace graticule::train
