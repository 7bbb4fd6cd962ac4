// SPDX-License-Identifier: BSD-3-Clause
#include "emulator.hpp"

#include <graticule/field_io/checkpoint.hpp>
#include <graticule/models/detail/device.hpp>
#include <graticule/models/detail/stored_description.hpp>
#include <graticule/models/forecaster.hpp>
#include <graticule/models/threads.hpp>
#include <graticule/partition/error.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

namespace graticule::swe {

namespace {

/// Variables of series.nc.
constexpr std::array known{"h", "u", "v", "vorticity", "divergence"};

/// The beginning of the simulation, as in series.nc.
models::Seconds start_time() { return models::parse_date("", "2000-01-01").first; }

/// The variables of all prognostic channels, in order.
std::vector<std::string> variables_of(models::Description const& description, std::filesystem::path const& file) {
  std::vector<std::string> names;
  std::string list;
  bool fits = true;
  for (std::size_t c = 0; c < description.num_prognostic(); ++c) {
    auto const& channel = description.channels[c];
    names.push_back(channel.variable);
    list += (c == 0 ? "" : ", ") + channel.label;
    fits =
        fits && channel.label == channel.variable && std::find(known.begin(), known.end(), names.back()) != known.end();
  }
  for (char const* needed : {"h", "u", "v"}) fits = fits && std::count(names.begin(), names.end(), needed) == 1;
  if (!fits)
    throw Error(Fault::input, "BadInput",
                "--emulator " + file.string() + " has the prognostic variables " + list +
                    "; an emulator of shallow water has h, u, v, and besides them vorticity and divergence at most");
  return names;
}

void require_same_grid(models::Description const& description, Grid const& grid, std::filesystem::path const& file) {
  constexpr double degrees = 180 / std::numbers::pi;
  constexpr double tolerance = 1e-4;
  bool same = Index(description.latitudes.size()) == grid.num_rows() &&
              Index(description.longitudes.size()) == grid.num_columns();
  for (Index j = 0; same && j < grid.num_rows(); ++j)
    same = std::abs(description.latitudes[std::size_t(j)] - degrees * grid.latitude(j)) < tolerance;
  for (Index i = 0; same && i < grid.num_columns(); ++i)
    same = std::abs(description.longitudes[std::size_t(i)] - degrees * grid.longitude(i)) < tolerance;
  if (!same)
    throw Error(Fault::input, "BadInput",
                "--emulator " + file.string() + " was trained on another grid, of " +
                    std::to_string(description.latitudes.size()) + " x " +
                    std::to_string(description.longitudes.size()) + " cells; this run has --nlat " +
                    std::to_string(grid.num_rows()) + " --nlon " + std::to_string(grid.num_columns()));
}

models::Forecaster load_fitting(Solver const& solver, EmulatorFacts const& facts) {
  auto const checkpoint = models::open_trained(solver.comm(), facts.file);
  require_same_grid(models::description_of(checkpoint), solver.grid(), facts.file);
  return {solver.comm(), solver.layout(), checkpoint, solver.comm()};
}

/// The owned part of some values, row by row.
void append_owned(Cells const& from, Box const& box, std::vector<double>& to) {
  if (box.empty()) return;
  for (Index j = box.lo(0); j < box.hi(0); ++j) {
    double const* const row = from.at(j, box.lo(1));
    to.insert(to.end(), row, row + box.extent(1));
  }
}

void fill_owned(double const* from, Box const& box, Cells& to) {
  if (box.empty()) return;
  for (Index j = box.lo(0); j < box.hi(0); ++j, from += box.extent(1))
    std::copy_n(from, box.extent(1), to.at(j, box.lo(1)));
}

}  // namespace

std::string torch_version() { return models::torch_version(); }
void use_torch_threads(int num_threads) { models::use_torch_threads(num_threads); }

EmulatorFacts read_emulator(Comm const& comm, std::filesystem::path const& path) {
  auto const checkpoint = models::open_trained(comm, path);
  auto const description = models::description_of(checkpoint);
  return {checkpoint.path(), description.lead_seconds, description.history};
}

struct Emulator::Parts {
  Parts(Solver& of, EmulatorFacts const& facts, Index steps, Index filter_order)
      : solver(of),
        solver_steps(steps),
        network(load_fitting(of, facts)),
        variables(variables_of(network.description(), facts.file)),
        box(network.owned()) {
    network.set_filter(filter_order);
    network.set_calendar(models::Calendar::standard);  // of start_time
  }

  [[nodiscard]] Index history() const { return network.description().history; }
  [[nodiscard]] bool is_running() const { return Index(known_states.size()) == history(); }
  [[nodiscard]] std::size_t num_cells() const { return box.empty() ? 0 : std::size_t(box.num_cells()); }
  /// Where a variable's values begin in what the network gives.
  [[nodiscard]] double const* field(std::vector<double> const& values, char const* name) const {
    auto const place = std::find(variables.begin(), variables.end(), name) - variables.begin();
    return values.data() + std::size_t(place) * num_cells();
  }

  /// Keeps the solver's state as the latest; hands all over to the network when there are enough.
  void take(Diagnostics& diagnostics) {
    auto const centred = diagnostics.centred();
    std::vector<double> state;
    for (std::string const& name : variables) {
      Cells const& cells = name == "h"           ? solver.state().h
                           : name == "u"         ? centred.u
                           : name == "v"         ? centred.v
                           : name == "vorticity" ? centred.vorticity
                                                 : centred.divergence;
      append_owned(cells, box, state);
    }
    known_states.insert(known_states.begin(), std::move(state));
    if (!is_running()) return;
    std::vector<double> all;
    for (auto const& values : known_states) all.insert(all.end(), values.begin(), values.end());
    network.start(all, 1);
  }

  /// Sets the solver's state from the network's.
  void follow() {
    auto const present = network.present(0);
    auto& state = solver.state();
    fill_owned(field(present, "h"), box, state.h);
    fill_owned(field(present, "u"), box, state.u);
    fill_owned(field(present, "v"), box, state.v);
    winds.u = Cells(box);
    winds.v = Cells(box);
    fill_owned(field(present, "u"), box, winds.u);
    fill_owned(field(present, "v"), box, winds.v);
    solver.exchange_state();
    if (box.empty()) return;
    // From the last cell to the first, so that each mean reads centres.
    for (Index j = box.hi(0); j-- > box.lo(0);)
      for (Index i = box.hi(1); i-- > box.lo(1);) {
        *state.u.at(j, i) = 0.5 * (*state.u.at(j, i - 1) + *state.u.at(j, i));
        *state.v.at(j, i) = j == 0 ? 0 : 0.5 * (*state.v.at(j - 1, i) + *state.v.at(j, i));
      }
  }

  /// [channel][row][column] of one state of `known_states`.
  [[nodiscard]] FieldView view(std::vector<double>& values) const {
    return field_view(values.data(), {Index(variables.size()), box.extent(0), box.extent(1)}, 2);
  }

  Solver& solver;
  Index solver_steps;
  models::Forecaster network;
  std::vector<std::string> variables;
  Box box;
  std::vector<std::vector<double>> known_states;  ///< that the network begins with, latest first
  struct {
    Cells u, v;
  } winds;
};

Emulator::Emulator(Solver& solver, EmulatorFacts const& facts, Index solver_steps, Index filter_order)
    : parts_(std::make_unique<Parts>(solver, facts, solver_steps, filter_order)) {}

Emulator::~Emulator() = default;

void Emulator::begin(Diagnostics& diagnostics) { parts_->take(diagnostics); }

void Emulator::step(Index number, Diagnostics& diagnostics) {
  auto& p = *parts_;
  if (!p.is_running()) {
    for (Index step = 0; step < p.solver_steps; ++step) p.solver.step();
    return p.take(diagnostics);
  }
  p.network.step(start_time() + number * p.network.description().lead_seconds);
  p.follow();
}

void Emulator::replace_winds(Diagnostics::Centred& centred) const {
  auto const& p = *parts_;
  if (p.winds.u.box() != centred.u.box() || p.num_cells() == 0) return;
  centred.u = p.winds.u;
  centred.v = p.winds.v;
}

void Emulator::save(CheckpointWriter& writer) {
  auto& p = *parts_;
  writer.add_value("emulator_states", Index(p.known_states.size()));
  if (p.is_running()) return writer.add("emulator", p.solver.layout(), p.network.states());
  for (std::size_t t = 0; t < p.known_states.size(); ++t)
    writer.add("emulator" + std::to_string(t), p.solver.layout(), p.view(p.known_states[t]));
}

void Emulator::load(Checkpoint const& checkpoint) {
  auto& p = *parts_;
  std::size_t const size = p.variables.size() * p.num_cells();
  p.known_states.assign(std::size_t(checkpoint.value<Index>("emulator_states")), std::vector<double>(size, 0.0));
  if (!p.is_running()) {
    for (std::size_t t = 0; t < p.known_states.size(); ++t)
      checkpoint.read("emulator" + std::to_string(t), p.solver.layout(), p.view(p.known_states[t]));
    return;
  }
  // Any values: those of the checkpoint take their place.
  p.network.start(std::vector<double>(size * std::size_t(p.history()), 0.0), 1);
  checkpoint.read("emulator", p.solver.layout(), p.network.states());
  p.follow();
}

}  // namespace graticule::swe
