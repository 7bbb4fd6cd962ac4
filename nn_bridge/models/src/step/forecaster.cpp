// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/checkpoint.hpp>
#include <graticule/models/detail/cells.hpp>
#include <graticule/models/detail/forcing.hpp>
#include <graticule/models/detail/grid_functions.hpp>
#include <graticule/models/detail/move_to.hpp>
#include <graticule/models/detail/stepper.hpp>
#include <graticule/models/detail/stored_description.hpp>
#include <graticule/models/forecaster.hpp>
#include <graticule/partition/cuts.hpp>
#include <graticule/training/state/model.hpp>

#include "filters.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <string>
#include <utility>

namespace graticule::models {
namespace {

torch::Tensor column_of(std::vector<double> const& values) {
  return torch::tensor(values, torch::kFloat64).reshape({-1, 1, 1});
}

std::vector<std::vector<double>> statics_of(Checkpoint const& checkpoint, Description const& description,
                                            Box const& box) {
  std::vector<std::vector<double>> statics;
  for (std::size_t i = 0; i < description.statics.size(); ++i) statics.push_back(load_static(checkpoint, i, box));
  return statics;
}

std::string extents_text(Index rows, Index columns) { return std::to_string(rows) + " x " + std::to_string(columns); }

Layout fitting(Layout const& layout, Comm const& domain, Description const& description, std::string const& file) {
  auto const rows = Index(description.latitudes.size());
  auto const columns = Index(description.longitudes.size());
  auto const& global = layout.global();
  if (global.ndim() != 2 || global.extent(0) != rows || global.extent(1) != columns)
    throw Error("LayoutMismatch", "the layout divides " +
                                      (global.ndim() == 2 ? extents_text(global.extent(0), global.extent(1)) + " cells"
                                                          : std::to_string(global.ndim()) + " axes") +
                                      ", but the network of " + file + " is for " + extents_text(rows, columns));
  if (!layout.grid() || layout.num_ranks() != domain.num_ranks())
    throw Error("LayoutMismatch", "the layout must have a process grid and the network's " +
                                      std::to_string(domain.num_ranks()) + " ranks, got " +
                                      std::to_string(layout.num_ranks()) +
                                      (layout.grid() ? "" : " without a process grid"));
  return layout;
}

/// The copy of an exported network that a checkpoint holds, while it is read; of this rank alone.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::vector<std::byte> const& bytes) {
    std::string name = (std::filesystem::temp_directory_path() / "graticule-program-XXXXXX").string();
    int const descriptor = ::mkstemp(name.data());
    if (descriptor < 0) throw Error("OutputError", name + " cannot be made: " + std::strerror(errno));
    ::close(descriptor);
    path_ = name;
    std::ofstream stream(path_, std::ios::binary);
    stream.write(reinterpret_cast<char const*>(bytes.data()), std::streamsize(bytes.size()));
    if (stream.flush()) return;
    remove();
    throw Error("OutputError", name + " cannot be written: is the disk of temporary files full?");
  }
  ~TemporaryFile() { remove(); }
  TemporaryFile(TemporaryFile const&) = delete;
  TemporaryFile& operator=(TemporaryFile const&) = delete;
  [[nodiscard]] std::filesystem::path const& path() const noexcept { return path_; }

 private:
  void remove() const {
    std::error_code error;
    std::filesystem::remove(path_, error);
  }
  std::filesystem::path path_;
};

}  // namespace

struct Forecaster::State {
  /// @param fields of `Description::statics`, read on a box
  State(Comm const& comm, Layout const& on, Description of, std::filesystem::path from,
        std::function<std::vector<std::vector<double>>(Box const&)> const& fields, std::string const& device_name)
      : device(device_name),
        path(std::move(from)),
        description(std::move(of)),
        grid(make_grid(description.latitudes, description.longitudes)),
        layout(fitting(on, comm, description, path.string())),
        row_weights(area_weights(grid.latitudes)),
        cells{grid, layout, layout.owned(comm.rank()), row_weights},
        domain(comm, *layout.grid(), grid.boundary),
        statics(fields(cells.box)),
        stepper(description, cells, domain, statics, statics),
        network(make_model(stepper.model_options(), domain)),
        forcings(forcings_of(description.forcings)),
        places{{grid.latitudes.begin() + cells.box.lo(0), grid.latitudes.begin() + cells.box.hi(0)},
               {grid.longitudes.begin() + cells.box.lo(1), grid.longitudes.begin() + cells.box.hi(1)}} {
    network->to(stepper.dtype());
    network->eval();
    stepper.to(device);
  }
  State(State const&) = delete;
  State& operator=(State const&) = delete;

  /// States of members, normalised, and their cells with values.
  struct Members {
    torch::Tensor states;  ///< [member, channel, row, column]
    torch::Tensor mask;
  };

  [[nodiscard]] Members members(std::span<double const> values, Index num_members) const {
    auto const prognostic = std::int64_t(description.num_prognostic());
    Box const& box = cells.box;
    auto const expected = std::size_t(num_members * description.history * prognostic * cells.per_sample());
    run_agreed(domain.comm(), [&] {
      if (values.size() != expected)
        throw Error(Fault::usage, "ShapeMismatch",
                    std::to_string(values.size()) + " values for " + std::to_string(num_members) + " members of " +
                        std::to_string(description.history) + " times, " + std::to_string(prognostic) +
                        " prognostic channels and " + extents_text(box.extent(0), box.extent(1)) +
                        " cells, which are " + std::to_string(expected));
    });
    std::vector<double> means;
    std::vector<double> scales;
    for (std::int64_t c = 0; c < prognostic; ++c) {
      means.push_back(description.values[std::size_t(c)].mean);
      scales.push_back(description.values[std::size_t(c)].scale);
    }
    torch::Tensor const raw =
        torch::from_blob(const_cast<double*>(values.data()),  // only read
                         {num_members, description.history, prognostic, box.extent(0), box.extent(1)}, torch::kFloat64);
    torch::Tensor const normalised = ((raw - column_of(means)) / column_of(scales)).to(stepper.dtype());
    return {stepper.initial(normalised).contiguous(), stepper.mask(normalised)};
  }

  void step(Members& members, Seconds time) {
    torch::NoGradGuard const no_grad;
    torch::Tensor& states = members.states;
    if (states.size(0) == 0) return;
    require_whole(members);
    auto const channels = std::int64_t(forcing_channels(forcings).size());
    torch::Tensor forcing = torch::empty({1, channels, cells.box.extent(0), cells.box.extent(1)}, states.options());
    if (states.scalar_type() == torch::kFloat64)
      fill_forcing(forcings, places, time, description.lead_seconds, forcing.data_ptr<double>(), description.calendar);
    else
      fill_forcing(forcings, places, time, description.lead_seconds, forcing.data_ptr<float>(), description.calendar);
    forcing = forcing.to(device);
    auto const forward = [&](torch::Tensor const& inputs, torch::Tensor const& rows) {
      return network->forward(inputs, rows);
    };
    // One member at a time: memory for activations of one.
    for (std::int64_t m = 0; m < states.size(0); ++m) {
      auto const state = states.slice(0, m, m + 1);
      auto const mask = members.mask.slice(0, m, m + 1);
      torch::Tensor next = stepper.next(forward, state.to(device), forcing, mask.to(device), {false});
      if (filter) {
        auto const now = next.slice(1, 0, std::int64_t(description.num_prognostic()));
        now.copy_((*filter)(now));
      }
      state.copy_(next);
    }
  }

  void set_filter(Index order) {
    if (order < 0 || order % 2 != 0)
      throw Error(Fault::usage, "BadOption",
                  "the order of the filter must be even and not negative, got " + std::to_string(order));
    filter.reset();
    if (order == 0) return;
    std::vector<std::int64_t> odd;
    for (std::size_t c = 0; c < description.num_prognostic(); ++c)
      if (description.channels[c].info.parity == Parity::odd) odd.push_back(std::int64_t(c));
    filter.emplace(order, odd, domain);
  }

  void require_whole(Members const& members) const {
    if (!filter) return;
    std::array<Index, 1> missing{members.mask.numel() > 0 && members.mask.min().item<double>() == 0 ? 1 : 0};
    domain.comm().max(std::span<Index>(missing));
    if (missing[0] != 0)
      throw Error(Fault::input, "Unsupported", "short waves cannot be removed from states with missing values");
  }

  [[nodiscard]] std::vector<double> present(Members const& members, Index member) const {
    torch::Tensor const values =
        stepper.present(members.states.slice(0, member, member + 1)).to(torch::kFloat64).contiguous();
    std::vector<double> result(values.const_data_ptr<double>(), values.const_data_ptr<double>() + values.numel());
    torch::Tensor const known = members.mask[member].to(torch::kFloat64).contiguous();
    auto const num_cells = std::size_t(cells.per_sample());
    for (std::size_t c = 0; c < description.channels.size(); ++c)
      for (std::size_t i = 0; i < num_cells; ++i) {
        double& value = result[c * num_cells + i];
        value = value * description.values[c].scale + description.values[c].mean;
        bool const is_missing =
            c < description.num_prognostic() && known.const_data_ptr<double>()[c * num_cells + i] == 0;
        if (is_missing) value = std::numeric_limits<double>::quiet_NaN();
      }
    return result;
  }

  torch::Device device;  ///< of the network; states rest in host memory, which holds more members
  std::filesystem::path path;
  Description description;
  Grid grid;
  Layout layout;
  std::vector<double> row_weights;
  Cells cells;
  nn::Domain domain;
  std::vector<std::vector<double>> statics;
  Stepper stepper;
  std::optional<ScaleFilter> filter;
  std::shared_ptr<Model> network;
  std::vector<Forcing> forcings;
  Places places;
  Members current;
};

Forecaster::Forecaster(Comm const& domain, Layout const& layout, Checkpoint const& checkpoint,
                       Comm const& checkpoint_comm, std::string const& device) {
  auto description = description_of(checkpoint);
  std::optional<TemporaryFile> program;
  if (description.model == ModelKind::program) description.program = program.emplace(load_program(checkpoint)).path();
  state_ = std::make_unique<State>(
      domain, layout, description, checkpoint.path(),
      [&](Box const& box) { return statics_of(checkpoint, description, box); }, device);
  state_->description.program.clear();
  training::load_model(checkpoint_comm, checkpoint, *state_->network);
  move_to(*state_->network, state_->device);
}

Forecaster::Forecaster(Comm const& domain, Layout const& layout, Description const& description,
                       std::string const& device) {
  if (!description.statics.empty())
    throw Error(Fault::usage, "Unsupported", description.program.string() + ": static fields come from a checkpoint");
  state_ = std::make_unique<State>(
      domain, layout, description, description.program, [](Box const&) { return std::vector<std::vector<double>>(); },
      device);
  move_to(*state_->network, state_->device);
}

Forecaster::~Forecaster() = default;
Forecaster::Forecaster(Forecaster&&) noexcept = default;
Forecaster& Forecaster::operator=(Forecaster&&) noexcept = default;

Description const& Forecaster::description() const noexcept { return state_->description; }
Grid const& Forecaster::grid() const noexcept { return state_->grid; }
Layout const& Forecaster::layout() const noexcept { return state_->layout; }
Box const& Forecaster::owned() const noexcept { return state_->cells.box; }
std::filesystem::path const& Forecaster::path() const noexcept { return state_->path; }

std::vector<double> Forecaster::next(std::span<double const> states, Seconds time) {
  auto members = state_->members(states, 1);
  state_->step(members, time);
  return state_->present(members, 0);
}

void Forecaster::start(std::span<double const> states, Index num_members) {
  state_->current = state_->members(states, num_members);
}

void Forecaster::step(Seconds time) { state_->step(state_->current, time); }

std::vector<double> Forecaster::present(Index member) const { return state_->present(state_->current, member); }

Calendar Forecaster::calendar() const noexcept { return state_->description.calendar; }
void Forecaster::set_calendar(Calendar calendar) noexcept { state_->description.calendar = calendar; }

void Forecaster::set_filter(Index order) { state_->set_filter(order); }

FieldView Forecaster::states() {
  auto const& t = state_->current.states;
  Indices const extents{t.size(0), t.size(1), t.size(2), t.size(3)};
  if (t.scalar_type() == torch::kFloat64) return field_view(t.data_ptr<double>(), extents, 2);
  return field_view(t.data_ptr<float>(), extents, 2);
}

Index Forecaster::num_state_channels() const {
  auto const& d = state_->description;
  return d.history * Index(d.num_prognostic()) + Index(d.num_diagnostic());
}

Forecaster load(std::filesystem::path const& path, Comm const& comm, LoadOptions const& options) {
  auto const checkpoint = open_trained(comm, path);
  auto const description = description_of(checkpoint);
  auto const layout = options.layout ? *options.layout
                                     : Layout(ProcessGrid{comm.num_ranks(), 1}, {Index(description.latitudes.size()),
                                                                                 Index(description.longitudes.size())});
  return {comm, layout, checkpoint, comm, options.device};
}

}  // namespace graticule::models
