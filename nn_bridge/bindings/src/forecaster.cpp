// SPDX-License-Identifier: BSD-3-Clause
// Networks of graticule-train on the caller's arrays.
#include <graticule/field_io/detail/dates.hpp>
#include <graticule/models/calendar.hpp>
#include <graticule/models/forecaster.hpp>
#include <graticule/partition/cuts.hpp>
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/repartition/plan.hpp>

#include "support.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace graticule::c {

namespace {

/// The caller's bands of rows; equal numbers of rows for any other boxes.
Layout rows_of(Layout const& caller, int num_ranks) {
  auto const rows = bands(caller, num_ranks);
  return Layout(ProcessGrid{num_ranks, 1},
                {rows ? Cuts(*rows) : balanced_cuts(caller.extent(0), num_ranks), Cuts{caller.extent(1)}});
}

}  // namespace

/// What `gr_forecaster` holds.
class TrainedNetwork {
 public:
  /// Collective. @throws what `models::load` throws
  TrainedNetwork(Comm const& comm, std::string const& path, Layout const& caller)
      : comm_(comm),
        caller_(caller.owned(comm.rank())),
        network_(models::load(path, comm, {.layout = rows_of(caller, comm.num_ranks())})),
        to_network_(comm, caller, network_.layout()),
        to_caller_(comm, network_.layout(), caller) {}

  [[nodiscard]] models::Description const& description() const { return network_.description(); }
  [[nodiscard]] std::string text() const {
    auto const& d = description();
    auto text = "network of " + network_.path().string() + ", a step of " + duration_text(d.lead_seconds) + " from " +
                std::to_string(d.history) + (d.history == 1 ? " state" : " states") + ", " +
                std::to_string(d.latitudes.size()) + " x " + std::to_string(d.longitudes.size()) + " cells\n";
    for (auto const& channel : d.channels)
      text += channel.label + (channel.info.units.empty() ? "" : " (" + channel.info.units + ")") +
              (channel.role == models::Role::diagnostic ? ", diagnostic" : "") + "\n";
    return text;
  }

  [[nodiscard]] models::Calendar calendar() const { return network_.calendar(); }
  void set_calendar(models::Calendar calendar) { network_.set_calendar(calendar); }

  /// The caller's arrays of a call.
  struct Arrays {
    char const* name;  ///< of the argument
    int num_fields;
    gr_field const* fields;
    Index num_channels;  ///< that they have together
  };
  void next(std::int64_t time, Arrays const& states, Arrays const& later) {
    auto const from = agreed(comm_, [&] { return views_of(states); });
    auto const to = agreed(comm_, [&] { return views_of(later); });
    require_same_channels(states, from);
    require_same_channels(later, to);
    require_same(comm_, "ArgumentDisagreement", std::uint64_t(time), "time " + std::to_string(time));
    std::vector<double> values(std::size_t(states.num_channels * network_.owned().num_cells()));
    move(from, values, [&](FieldView const& theirs, FieldView const& ours) { to_network_.apply(theirs, ours); });
    values = network_.next(values, time);
    move(to, values, [&](FieldView const& theirs, FieldView const& ours) { to_caller_.apply(ours, theirs); });
  }

 private:
  [[nodiscard]] std::vector<FieldView> views_of(Arrays const& arrays) const {
    require_count(arrays.num_fields, 1, (std::string("num_") + arrays.name).c_str());
    std::vector<FieldView> views;
    Index found = 0;
    for (int f = 0; f < arrays.num_fields; ++f) {
      Name const name{arrays.name, f};
      auto const field = read_element(arrays.fields, f, arrays.name);
      auto const type = memory_of(field, name).dtype;
      if (field.space != GR_HOST) throw bad_argument(name + ".space is GR_DEVICE; networks take host memory");
      if (type != DType::f32 && type != DType::f64)
        throw bad_argument(name + ".type is " + to_string(type) + "; states are in GR_F32 or GR_F64");
      views.push_back(cells_of(field, caller_, comm_.rank(), name));
      found += views.back().num_batch();
    }
    if (found != arrays.num_channels)
      throw bad_argument(std::string(arrays.name) + " have " + std::to_string(found) +
                         " values per cell, the network " + std::to_string(arrays.num_channels));
    return views;
  }

  void require_same_channels(Arrays const& arrays, std::vector<FieldView> const& views) const {
    Hash hash;
    std::string text;
    for (auto const& view : views) {
      hash.add(view.num_batch());
      text += (text.empty() ? "" : ", ") + std::to_string(view.num_batch());
    }
    require_same(comm_, "ArgumentDisagreement", hash.value(), std::string(arrays.name) + " of " + text + " channels");
  }

  /// Moves each array from or to its channels of `values`, [channel][row][column] of the network's rows.
  template <class Apply>
  void move(std::vector<FieldView> const& views, std::vector<double>& values, Apply&& apply) const {
    Box const& box = network_.owned();
    std::size_t offset = 0;
    for (auto const& view : views) {
      auto extents = view.batch_extents();
      extents.push_back(box.extent(0));
      extents.push_back(box.extent(1));
      apply(view, field_view(values.data() + offset, extents, 2));
      offset += std::size_t(view.num_batch() * box.num_cells());
    }
  }

  Comm comm_;
  Box caller_;
  models::Forecaster network_;
  RepartitionPlan to_network_;
  RepartitionPlan to_caller_;
};

template <>
struct Object<gr_forecaster> {
  static constexpr char const* name = "gr_forecaster";
  Object(Comm const& comm, char const* path, Layout const& caller) : network(comm, path, caller) {}
  TrainedNetwork network;
};

}  // namespace graticule::c

using namespace graticule;
using namespace graticule::c;

gr_status gr_forecaster_load(gr_comm const* comm, char const* path, gr_layout const* layout, int num_threads,
                             gr_forecaster** forecaster) {
  return GR_TORCH_BODY({
    auto const of = comm_of(comm);
    std::optional<Layout> caller;
    run_agreed(of, [&] {
      required(path, "path");
      required(forecaster, "forecaster");
      require_count(num_threads, 0, "num_threads");
      caller = layout_of(layout, of.num_ranks());
    });
    require_same(of, "ArgumentDisagreement", std::hash<std::string>()(path), "path '" + std::string(path) + "'");
    require_same(of, "ArgumentDisagreement", caller->fingerprint(), to_string(*caller));
    set_threads(of, num_threads);
    give(forecaster, of, path, *caller);
  });
}

gr_status gr_forecaster_destroy(gr_forecaster** forecaster) {
  return GR_FREE({ free_handle(forecaster, "forecaster"); });
}

gr_status gr_forecaster_text(gr_forecaster const* forecaster, char const** text) {
  return GR_BODY({
    auto const& of = required(forecaster, "forecaster").network;
    required(text, "text") = kept_text(of.text());
  });
}

gr_status gr_forecaster_num_channels(gr_forecaster const* forecaster, int* num_prognostic, int* num_channels) {
  return GR_BODY({
    auto const& of = required(forecaster, "forecaster").network.description();
    required(num_prognostic, "num_prognostic") = int(of.num_prognostic());
    required(num_channels, "num_channels") = int(of.channels.size());
  });
}

gr_status gr_forecaster_channel(gr_forecaster const* forecaster, int channel, char const** label) {
  return GR_BODY({
    auto const& of = required(forecaster, "forecaster").network.description();
    if (channel < 0 || channel >= int(of.channels.size()))
      throw bad_argument("channel is " + std::to_string(channel) + " of " + std::to_string(of.channels.size()));
    required(label, "label") = kept_text(of.channels[std::size_t(channel)].label);
  });
}

gr_status gr_forecaster_step(gr_forecaster const* forecaster, int* history, int64_t* lead_seconds) {
  return GR_BODY({
    auto const& of = required(forecaster, "forecaster").network.description();
    required(history, "history") = int(of.history);
    required(lead_seconds, "lead_seconds") = of.lead_seconds;
  });
}

gr_status gr_forecaster_calendar(gr_forecaster const* forecaster, char const** calendar) {
  return GR_BODY({
    auto const of = required(forecaster, "forecaster").network.calendar();
    required(calendar, "calendar") = kept_text(std::string(to_string(of)));
  });
}

gr_status gr_forecaster_set_calendar(gr_forecaster* forecaster, char const* calendar) {
  return GR_BODY({
    auto& of = required(forecaster, "forecaster").network;
    of.set_calendar(calendar_of(&required(calendar, "calendar")));
  });
}

gr_status gr_forecaster_next(gr_forecaster* forecaster, int64_t time, int num_states, gr_field const* states,
                             int num_later, gr_field const* later) {
  return GR_TORCH_BODY({
    auto& of = required(forecaster, "forecaster").network;
    auto const& d = of.description();
    of.next(time, {"states", num_states, states, d.history * Index(d.num_prognostic())},
            {"later", num_later, later, Index(d.channels.size())});
  });
}
