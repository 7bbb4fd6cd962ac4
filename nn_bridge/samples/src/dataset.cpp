// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/field_io/detail/dates.hpp>
#include <graticule/field_io/detail/same_copies.hpp>
#include <graticule/models/detail/cells.hpp>
#include <graticule/models/detail/forcing.hpp>
#include <graticule/models/detail/time_options.hpp>
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/samples/dataset.hpp>
#include <graticule/samples/detail/batches.hpp>
#include <graticule/samples/detail/missing_cells.hpp>
#include <graticule/samples/detail/read_ahead.hpp>
#include <graticule/samples/detail/states.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

namespace graticule::samples {
namespace {

/// What differs by rank is left out.
std::string text_of(std::vector<std::string> const& files, DatasetOptions const& options) {
  std::string text;
  auto const add = [&](char const* name, auto const& value) {
    text += (text.empty() ? "" : ", ") + std::string(name) + " " + value;
  };
  auto const joined = [](std::vector<std::string> const& names) {
    std::string list;
    for (auto const& name : names) list += (list.empty() ? "" : " ") + name;
    return list;
  };
  add("files", joined(files));
  add("inputs", joined(options.inputs));
  add("targets", joined(options.targets));
  add("lead", options.lead);
  add("history", std::to_string(options.history));
  add("steps", std::to_string(options.steps));
  add("times", options.times);
  add("batch_size", std::to_string(options.batch_size));
  add("last_batch", std::to_string(int(options.last_batch)));
  add("order", std::to_string(int(options.order)));
  add("seed", std::to_string(options.seed));
  for (auto const& [name, scaling] : options.scaling) {
    std::string numbers;
    for (auto const* values : {&scaling.mean, &scaling.scale})
      for (double const value : *values) numbers += " " + short_number(value);
    add("scaling of", name + numbers);
  }
  add("scale_by", std::to_string(int(options.scale_by)));
  add("missing", std::to_string(int(options.missing)));
  add("forcings", joined(options.forcings));
  add("dtype", std::to_string(int(options.dtype)));
  if (options.process_grid) add("process_grid", to_string(*options.process_grid));
  for (auto const& [name, cuts] : {std::pair("rows", &options.rows), std::pair("columns", &options.columns)})
    for (std::size_t i = 0; *cuts && i < (*cuts)->sizes().size(); ++i) add(name, std::to_string((*cuts)->sizes()[i]));
  return text;
}

void require_numbers(DatasetOptions const& options) {
  if (options.inputs.empty())
    throw Error(Fault::usage, "BadOption", "inputs is empty: name the variables that samples are made of");
  for (auto const& [name, number] : {std::pair("history", options.history), std::pair("steps", options.steps),
                                     std::pair("batch_size", options.batch_size)})
    if (number < 1)
      throw Error(Fault::usage, "BadOption", std::string(name) + " must be at least 1, got " + std::to_string(number));
  if (options.lead == "0" && options.steps != 1)
    throw Error(Fault::usage, "BadOption",
                "steps must be 1 where lead is 0, got " + std::to_string(options.steps) +
                    ": all targets would be of the same time");
  if (options.dtype != DType::f32 && options.dtype != DType::f64)
    throw Error(Fault::usage, "BadOption", "dtype must be f32 or f64");
  if (options.memory_bytes && *options.memory_bytes < 0)
    throw Error(Fault::usage, "BadOption",
                "memory_bytes must not be negative, got " + std::to_string(*options.memory_bytes));
  for (auto const* names : {&options.inputs, &options.targets})
    if (std::set<std::string>(names->begin(), names->end()).size() != names->size())
      throw Error(Fault::usage, "BadOption",
                  std::string(names == &options.inputs ? "inputs" : "targets") + " names a variable twice");
}

std::vector<std::string> variables_of(DatasetOptions const& options) {
  auto names = options.inputs;
  for (std::string const& name : options.targets)
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  return names;
}

std::vector<std::filesystem::path> paths_of(Comm const& comm, std::vector<std::string> const& files) {
  if (files.empty()) throw Error(Fault::usage, "BadOption", "files is empty: name at least one file or pattern");
  std::vector<std::filesystem::path> paths;
  for (std::string const& name : files)
    for (auto& path : find_files(comm, name)) paths.push_back(std::move(path));
  return paths;
}

Layout layout_of(Grid const& grid, int num_ranks, DatasetOptions const& options) {
  Indices const extents{grid.num_rows(), grid.num_columns()};
  ProcessGrid const ranks = options.process_grid.value_or(ProcessGrid{num_ranks, 1});
  std::vector<Cuts> cuts;
  for (auto const& [name, given] : {std::pair("rows", &options.rows), std::pair("columns", &options.columns)}) {
    auto const a = int(cuts.size());
    cuts.push_back(*given ? **given : balanced_cuts(extents[a], ranks.extent(a)));
    if (cuts.back().num_parts() != ranks.extent(a) || cuts.back().extent() != extents[a])
      throw Error(Fault::usage, "BadCuts",
                  std::string(name) + " are cut into " + std::to_string(cuts.back().num_parts()) +
                      " parts of together " + std::to_string(cuts.back().extent()) + " cells; the files have " +
                      std::to_string(extents[a]) + ", for " + std::to_string(ranks.extent(a)) + " ranks");
  }
  return Layout(ranks, cuts);
}

/// The time axis as leads count on it; a lead of 0 needs no interval.
TimeSteps steps_of(StateTable const& table, std::string const& lead) {
  bool const is_alone = table.times().size() == 1;
  Lead const parsed = lead != "0" ? parse_lead("lead", lead) : is_alone ? Lead{.duration = 1} : Lead{.steps = 1};
  if (parsed.steps == 0 && lead != "0" && !table.has_dates())
    throw Error(Fault::usage, "BadOption",
                "lead must be a number of steps, got " + lead +
                    ": the files have no axis of time, such as one in 'hours "
                    "since 2000-01-01'");
  return {table.times(), parsed, table.calendar()};
}

/// The times that states are chosen from: as given, or as a store says that it has data; nothing for all of them.
std::optional<Period> period_of(StateTable const& table, std::string const& times) {
  if (times.empty() && (!table.has_dates() || table.file().files().size() > 1)) return {};
  if (times.empty()) return valid_times(table.file().contents(), table.times(), table.calendar());
  if (!table.has_dates())
    throw Error(Fault::usage, "BadOption",
                "times " + times +
                    " cannot be chosen: the files have no axis of time, such as one in 'hours since "
                    "2000-01-01'");
  return times.find("..") == std::string::npos ? parse_date("times", times, table.calendar())
                                               : parse_period("times", times, table.calendar());
}

/// The files of a dataset along time.
struct Timeline {
  [[nodiscard]] std::string text(Index position) const {
    if (!undated_name.empty()) return undated_name + " " + std::to_string(position);
    return steps->text(steps->times()[std::size_t(position)]);
  }

  [[nodiscard]] std::string file_of(Index position) const {
    std::size_t file = 0;
    while (file + 2 < ends.size() && ends[file + 1] <= position) ++file;
    return paths[file].string();
  }

  std::vector<std::filesystem::path> paths = {};
  std::vector<Index> ends = {};   ///< of the files along the times; none where others join them
  std::string undated_name = {};  ///< the axis of samples where no axis has dates
  std::optional<TimeSteps> steps = {};
};

/// The cells of this rank.
struct OwnCells {
  Grid grid;
  Layout layout;
  Box box;
  std::vector<double> row_weights;  ///< of all rows of the grid
  [[nodiscard]] std::size_t count() const { return std::size_t(box.extent(0) * box.extent(1)); }
};

/// Samples in the order of each epoch, and their batches.
class SampleOrder {
 public:
  /// @param samples states up to which the history of each goes @param options outlive this
  SampleOrder(std::vector<Index> samples, DatasetOptions const& options, int num_teams)
      : samples_(std::move(samples)), options_(options), num_teams_(num_teams) {}

  [[nodiscard]] std::vector<Index> const& samples() const noexcept { return samples_; }
  [[nodiscard]] Index num_batches() const {
    // As many samples on each team; only the last batch of the epoch may be smaller.
    Index const per_team = Index(samples_.size()) / num_teams_;
    if (options_.last_batch == DatasetOptions::LastBatch::drop) return per_team / options_.batch_size;
    return (per_team + options_.batch_size - 1) / options_.batch_size;
  }

  /// A team's samples of a batch: a batch of all teams consists of consecutive samples of the order, so that it does
  /// not depend on how many ranks share it.
  [[nodiscard]] std::vector<Index> batch(int team, Index epoch, Index number) const {
    if (epoch < 0 || number < 0 || number >= num_batches())
      throw Error("OutOfRange", "batch " + std::to_string(number) + " of epoch " + std::to_string(epoch) +
                                    ": epochs count from 0, batches are in [0, " + std::to_string(num_batches()) + ")");
    if (epoch != ordered_epoch_) {
      order_ = options_.order == Order::shuffled ? shuffled(samples_, options_.seed, epoch) : samples_;
      ordered_epoch_ = epoch;
    }
    Index const begin = number * options_.batch_size * num_teams_;
    Index const size = std::min(options_.batch_size, (Index(order_.size()) - begin) / num_teams_);
    auto const first = order_.begin() + begin + team * size;
    return {first, first + size};
  }

 private:
  std::vector<Index> samples_;
  DatasetOptions const& options_;
  int num_teams_;
  mutable std::vector<Index> order_;
  mutable Index ordered_epoch_ = -1;
};

}  // namespace

struct Dataset::State {
  struct Slot {
    std::vector<Index> request;  ///< samples
    NumberBuffer inputs;
    NumberBuffer targets;
  };

  State(Comm const& domain, std::vector<std::string> const& files, DatasetOptions given)
      : options(std::move(given)), comms{domain} {
    if (options.data_team) comms.push_back(*options.data_team);
    std::string const text = text_of(files, options);
    for (Comm const& comm : comms)
      require_same(comm, "ArgumentDisagreement", Hash().add(std::string_view(text)).value(), text);
    require_numbers(options);
    // The ranks of each domain open the files together, and fail together.
    auto const open_files = [&] { open(files); };
    comms.size() > 1 ? run_agreed(comms[1], open_files) : open_files();
    if (comms.size() > 1) require_same_copies(comms[1], timeline.paths);
    if (options.scale_by == ScaleBy::statistics) survey();
    require_scaling();
    ahead = std::make_unique<ReadAhead<Slot>>(comms, [this](Slot& slot) { fill(slot); });
  }

  [[nodiscard]] Comm const& domain() const { return comms.front(); }
  [[nodiscard]] int num_teams() const { return comms.size() > 1 ? comms[1].num_ranks() : 1; }
  [[nodiscard]] int team() const { return comms.size() > 1 ? comms[1].rank() : 0; }

  void open(std::vector<std::string> const& files) {
    // Nothing collective is left when this ends: objects of other languages are destroyed when they like.
    StateTable const table(domain(), paths_of(domain(), files), variables_of(options), TimeAxis::any);
    timeline.paths = table.file().files();
    if (table.time_name() == table.file().dimension()) timeline.ends = table.file().file_ends();
    channels = table.channels();
    num_members = table.num_members();
    if (!table.has_dates()) timeline.undated_name = table.time_name();
    naming_input(files.front(), [&] { timeline.steps.emplace(steps_of(table, options.lead)); });
    auto const layout = layout_of(table.grid(), domain().num_ranks(), options);
    cells.emplace(OwnCells{table.grid(), layout, layout.owned(domain().rank()), area_weights(table.grid().latitudes)});
    choose_channels();
    choose_forcings();
    choose_samples(period_of(table, options.times));
    field.resize(cells->count());
    store.emplace(table.reader(cells->box, 0), table.num_states());
    Index const sharing = domain().num_node_ranks() * (comms.size() > 1 ? comms[1].num_node_ranks() : 1);
    store->set_budget(options.memory_bytes.value_or(node_memory_bytes() / 4 / sharing));
  }

  void choose_channels() {
    auto const take = [&](std::vector<std::string> const& names, std::vector<std::size_t>& chosen,
                          std::vector<std::string>& labels) {
      for (std::string const& name : names)
        for (std::size_t c = 0; c < channels.size(); ++c)
          if (channels[c].variable == name) {
            chosen.push_back(c);
            labels.push_back(channels[c].label);
          }
    };
    take(options.inputs, inputs, input_labels);
    take(options.targets.empty() ? options.inputs : options.targets, targets, target_labels);
    scales.resize(channels.size());
    for (auto const& [name, scaling] : options.scaling) {
      std::vector<std::size_t> places;
      for (std::size_t c = 0; c < channels.size(); ++c)
        if (channels[c].variable == name) places.push_back(c);
      if (places.empty())
        throw Error(Fault::usage, "BadOption", "scaling names " + name + ", which is no variable of the samples");
      if (scaling.mean.size() != places.size() || scaling.scale.size() != places.size())
        throw Error(Fault::usage, "BadOption",
                    "scaling of " + name + " must have " + std::to_string(places.size()) +
                        " means and scales, one per level, got " + std::to_string(scaling.mean.size()) + " and " +
                        std::to_string(scaling.scale.size()));
      for (std::size_t i = 0; i < places.size(); ++i) {
        if (!std::isfinite(scaling.mean[i]) || !std::isfinite(scaling.scale[i]) || scaling.scale[i] <= 0)
          throw Error(Fault::usage, "BadOption",
                      "scaling of " + name + " must have finite means and positive scales, got " +
                          short_number(scaling.mean[i]) + " and " + short_number(scaling.scale[i]));
        scales[places[i]] = {scaling.mean[i], scaling.scale[i]};
      }
      scaling_by_name[name] = scaling;
    }
  }

  void choose_forcings() {
    forcings = forcings_of(options.forcings, "forcings");
    if (forcings.empty()) return;
    if (!timeline.undated_name.empty())
      throw Error(Fault::usage, "BadOption",
                  "forcings " + options.forcings.front() +
                      " cannot be computed: the files have no axis of time, such as one in 'hours since 2000-01-01'");
    auto const labels = forcing_channels(forcings);
    input_labels.insert(input_labels.end(), labels.begin(), labels.end());
    auto const& [grid, layout, box, weights] = *cells;
    places.latitudes.assign(grid.latitudes.begin() + box.lo(0), grid.latitudes.begin() + box.hi(0));
    places.longitudes.assign(grid.longitudes.begin() + box.lo(1), grid.longitudes.begin() + box.hi(1));
  }

  [[nodiscard]] Index first_lead() const { return options.lead == "0" ? 0 : 1; }

  /// The times of a sample's states, the earliest first; none where one is missing.
  [[nodiscard]] std::vector<Index> states_of(Index position) const {
    std::vector<Index> found;
    auto const add = [&](Index leads) {
      if (auto const at = leads == 0 ? std::optional(position) : timeline.steps->at(position, leads))
        found.push_back(*at);
    };
    for (Index k = 1 - options.history; k <= 0; ++k) add(k);
    for (Index k = 0; k < options.steps; ++k) add(first_lead() + k);
    if (Index(found.size()) < options.history + options.steps) found.clear();
    return found;
  }

  void choose_samples(std::optional<Period> const& period) {
    auto const& times = timeline.steps->times();
    std::vector<Index> samples;
    for (Index position = 0; position < Index(times.size()); ++position) {
      auto const states = states_of(position);
      if (states.empty() || !std::all_of(states.begin(), states.end(),
                                         [&](Index at) { return !period || period->contains(times[std::size_t(at)]); }))
        continue;
      for (Index m = 0; m < num_members; ++m) samples.push_back(position * num_members + m);
    }
    order.emplace(samples, options, num_teams());
    if (Index(samples.size()) >= num_teams()) {
      if (order->num_batches() > 0) return;
      throw Error(Fault::usage, "BadOption",
                  "batch_size must be at most " + std::to_string(Index(samples.size()) / num_teams()) +
                      ", the samples of a data team, where the last batch is dropped, got " +
                      std::to_string(options.batch_size));
    }
    std::string const range = timeline.undated_name.empty() ? ", from " + timeline.steps->text(times.front()) + " to " +
                                                                  timeline.steps->text(times.back())
                                                            : "";
    throw Error(
        Fault::usage, "BadOption",
        timeline.paths.front().string() + (timeline.paths.size() > 1 ? " and the files after it have " : " has ") +
            std::to_string(samples.size()) + " samples with history " + std::to_string(options.history) + ", lead " +
            options.lead + " and steps " + std::to_string(options.steps) +
            (options.times.empty() ? "" : " in times " + options.times) + ", at least " + std::to_string(num_teams()) +
            " are needed; there are " + std::to_string(times.size()) + " times" + range);
  }

  /// Means and deviations of the channels without a given scaling, each data team of its part of the states.
  void survey() {
    std::set<Index> used;
    for (Index const sample : order->samples())
      for (Index const at : states_of(sample / num_members)) used.insert(at * num_members + sample % num_members);
    std::vector<Index> const states(used.begin(), used.end());
    Cells const domain_cells{cells->grid, cells->layout, cells->box, cells->row_weights};
    std::vector<LevelStatistics> fields;
    std::vector<std::size_t> places;
    for (std::size_t c = 0; c < scales.size(); ++c) {
      auto const& channel = channels[c];
      if (options.scaling.contains(channel.variable)) continue;
      places.push_back(c);
      fields.push_back({{channel.label, channel.info.parity}, {Moments()}});
    }
    auto const count = Index(states.size());
    std::exception_ptr failure;
    try {
      for (Index i = count * team() / num_teams(); i < count * (team() + 1) / num_teams(); ++i)
        for (std::size_t k = 0; k < places.size(); ++k) {
          fetch(states[std::size_t(i)], places[k]);
          fields[k].levels[0].add(moments_of(domain_cells, field));
        }
    } catch (...) {
      failure = std::current_exception();
    }
    agree_in_turn(comms, failure);
    naming_input(timeline.paths.front().string(), [&] { finish_statistics(std::span<Comm const>(comms), fields); });
    for (std::size_t k = 0; k < places.size(); ++k) {
      scales[places[k]] = {fields[k].scaling.mean[0], fields[k].scaling.scale[0]};
      auto& scaling = scaling_by_name[channels[places[k]].variable];
      scaling.mean.push_back(fields[k].scaling.mean[0]);
      scaling.scale.push_back(fields[k].scaling.scale[0]);
    }
  }

  void require_scaling() const {
    if (options.missing != Missing::mean) return;
    for (std::string const& name : options.inputs)
      if (!scaling_by_name.contains(name))
        throw Error(Fault::usage, "BadOption",
                    "missing cells of " + name + " cannot become its mean: scaling does not name it");
  }

  /// Reads a channel of a state into `field`.
  void fetch(Index state, std::size_t channel) {
    store->fetch(state, channel, field);
    if (options.missing != Missing::refuse) return;
    auto const found = std::find_if(field.begin(), field.end(), [](double value) { return std::isnan(value); });
    if (found == field.end()) return;
    Index const cell = found - field.begin();
    Index const time = state / num_members;
    Box const& box = cells->box;
    throw Error(Fault::input, "BadInput",
                timeline.file_of(time) + ": '" + channels[channel].label + "' lacks " +
                    std::to_string(std::count_if(field.begin(), field.end(), [](double v) { return std::isnan(v); })) +
                    " cells of this rank at " + timeline.text(time) + ": first at " +
                    place_text(cells->grid, box.lo(0) + cell / box.extent(1), box.lo(1) + cell % box.extent(1)) +
                    "; missing = refuse does not allow this");
  }

  /// On the thread.
  void fill(Slot& slot) {
    auto const num_times = std::size_t(options.history + options.steps);
    auto const history = std::size_t(options.history);
    auto const bytes = slot.request.size() * cells->count() * std::size_t(size_of(options.dtype));
    slot.inputs.reserve(std::max<std::size_t>(bytes * history * input_labels.size(), 1));
    slot.targets.reserve(std::max<std::size_t>(bytes * (num_times - history) * targets.size(), 1));
    std::size_t input_cell = 0;
    std::size_t target_cell = 0;
    for (Index const sample : slot.request) {
      auto const states = states_of(sample / num_members);
      for (std::size_t t = 0; t < num_times; ++t) {
        bool const is_input = t < history;
        auto& cell = is_input ? input_cell : target_cell;
        for (std::size_t const channel : is_input ? inputs : targets) {
          fetch(states[t] * num_members + sample % num_members, channel);
          write(channel, is_input ? options.missing : Missing::keep, is_input ? slot.inputs : slot.targets, cell);
          cell += cells->count();
        }
        if (is_input) input_cell += write_forcings(states[t], slot.inputs, input_cell);
      }
    }
  }

  void write(std::size_t channel, Missing missing, NumberBuffer const& to, std::size_t cell) const {
    Scaling const scaling{{scales[channel].mean}, {scales[channel].scale}};
    if (options.dtype == DType::f64)
      normalise(field, scaling, 0, missing, static_cast<double*>(to.data()) + cell);
    else
      normalise(field, scaling, 0, missing, static_cast<float*>(to.data()) + cell);
  }

  /// The number of values.
  std::size_t write_forcings(Index position, NumberBuffer const& to, std::size_t cell) const {
    Seconds const time = timeline.steps->times()[std::size_t(position)];
    Seconds const step = options.lead == "0" ? 0 : timeline.steps->lead_seconds();
    if (options.dtype == DType::f64)
      fill_forcing(forcings, places, time, step, static_cast<double*>(to.data()) + cell, timeline.steps->calendar());
    else
      fill_forcing(forcings, places, time, step, static_cast<float*>(to.data()) + cell, timeline.steps->calendar());
    return (input_labels.size() - inputs.size()) * cells->count();
  }

  DatasetOptions options;
  std::vector<Comm> comms;  ///< domain, data team
  Timeline timeline;
  std::optional<OwnCells> cells;
  std::vector<StateChannel> channels;  ///< of all variables
  Index num_members = 1;
  std::vector<std::size_t> inputs;  ///< places in `channels`
  std::vector<std::size_t> targets;
  std::vector<std::string> input_labels;
  std::vector<std::string> target_labels;
  std::vector<Forcing> forcings;     ///< further inputs, after `inputs`
  Places places;                     ///< of this rank's cells
  std::vector<ChannelScale> scales;  ///< of `channels`
  std::map<std::string, Scaling> scaling_by_name;
  std::optional<SampleOrder> order;
  std::vector<double> field;  ///< one channel of one state
  std::optional<SampleStore> store;
  std::unique_ptr<ReadAhead<Slot>> ahead;
};

Dataset::Dataset(Comm const& domain, std::vector<std::string> files, DatasetOptions options)
    : state_(std::make_unique<State>(domain, files, std::move(options))) {}
Dataset::Dataset(Dataset&&) noexcept = default;
Dataset& Dataset::operator=(Dataset&&) noexcept = default;
Dataset::~Dataset() = default;

Layout const& Dataset::layout() const noexcept { return state_->cells->layout; }
Box Dataset::owned() const { return state_->cells->box; }
std::vector<double> const& Dataset::latitudes() const noexcept { return state_->cells->grid.latitudes; }
std::vector<double> const& Dataset::longitudes() const noexcept { return state_->cells->grid.longitudes; }
std::vector<std::string> const& Dataset::input_channels() const noexcept { return state_->input_labels; }
std::vector<std::string> const& Dataset::target_channels() const noexcept { return state_->target_labels; }
std::map<std::string, Scaling> const& Dataset::scaling() const noexcept { return state_->scaling_by_name; }
Index Dataset::num_samples() const noexcept { return Index(state_->order->samples().size()); }
Index Dataset::num_batches() const noexcept { return state_->order->num_batches(); }

std::vector<std::string> Dataset::times(Index epoch, Index number) const {
  std::vector<std::string> texts;
  for (Index const sample : state_->order->batch(state_->team(), epoch, number))
    texts.push_back(state_->timeline.text(sample / state_->num_members));
  return texts;
}

Dataset::Batch Dataset::batch(Index epoch, Index number) {
  State& s = *state_;
  auto const fingerprint = Hash().add(std::uint64_t(epoch)).add(std::uint64_t(number)).value();
  for (Comm const& comm : s.comms)
    require_same(comm, "CallDisagreement", fingerprint,
                 "batch " + std::to_string(number) + " of epoch " + std::to_string(epoch));
  auto const samples = s.order->batch(s.team(), epoch, number);
  bool const is_last = number + 1 == num_batches();
  auto const upcoming = s.order->batch(s.team(), epoch + (is_last ? 1 : 0), is_last ? 0 : number + 1);
  State::Slot const& slot = s.ahead->take(samples);
  s.ahead->begin(upcoming);
  return {Index(samples.size()), s.options.dtype, slot.inputs.data(), slot.targets.data()};
}

Index Dataset::bytes_read() {
  state_->ahead->wait();
  return state_->store->counts().bytes_read;
}

}  // namespace graticule::samples
