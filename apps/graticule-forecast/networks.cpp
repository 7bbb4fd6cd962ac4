// SPDX-License-Identifier: BSD-3-Clause
#include "networks.hpp"

#include <graticule/field_io/checkpoint.hpp>
#include <graticule/field_io/detail/dates.hpp>
#include <graticule/models/calendar.hpp>
#include <graticule/models/detail/stored_description.hpp>
#include <graticule/partition/error.hpp>
#include <graticule/samples/detail/states.hpp>
#include <graticule/samples/detail/whole_field.hpp>

#include "static_fields.hpp"

#include <algorithm>
#include <utility>

namespace graticule::forecast {
namespace {

std::string channels_text(Description const& description) {
  std::string text;
  for (auto const& channel : description.channels)
    text +=
        (text.empty() ? "" : ", ") + channel.label + (channel.role == models::Role::diagnostic ? " (diagnostic)" : "");
  return text;
}

std::string grid_text(Description const& description) {
  return std::to_string(description.latitudes.size()) + " x " + std::to_string(description.longitudes.size()) +
         " cells";
}

}  // namespace

void require_alike(std::vector<Description> const& descriptions, std::vector<std::filesystem::path> const& files) {
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (std::find(files.begin(), files.begin() + std::ptrdiff_t(i), files[i]) != files.begin() + std::ptrdiff_t(i))
      throw Error(Fault::usage, "BadOption", "--checkpoint names " + files[i].string() + " twice");
    auto const& one = descriptions.front();
    auto const& other = descriptions[i];
    auto const refuse = [&](std::string const& first, std::string const& second) {
      throw Error(Fault::input, "BadInput",
                  "networks of --checkpoint must forecast the same: " + files.front().string() + " has " + first +
                      ", " + files[i].string() + " has " + second);
    };
    if (channels_text(one) != channels_text(other)) refuse("the channels " + channels_text(one), channels_text(other));
    if (one.lead_seconds != other.lead_seconds || one.lead != other.lead)
      refuse("a lead of " + duration_text(one.lead_seconds), "one of " + duration_text(other.lead_seconds));
    if (!same_places(one.latitudes, other.latitudes) || !same_places(one.longitudes, other.longitudes))
      refuse("a grid of " + grid_text(one), "another one, of " + grid_text(other));
  }
}

Networks::Networks(Comm const& world, Comm const& domain, Layout const& layout,
                   std::vector<Checkpoint> const& checkpoints, Members const& members, std::string const& device)
    : world_(world), layout_(layout), box_(layout.owned(domain.rank())), members_(members) {
  for (auto const& checkpoint : checkpoints) {
    files_.push_back(checkpoint.path());
    descriptions_.push_back(models::description_of(checkpoint));
  }
  run_agreed(world, [&] {
    for (Index n = network_of(members_.first); n < Index(files_.size()) && n * members_per_network() < members_.last;
         ++n)
      own_.push_back({n, std::max(members_.first, n * members_per_network()),
                      std::min(members_.last, (n + 1) * members_per_network()),
                      Forecaster(domain, layout, checkpoints[std::size_t(n)], domain, device)});
  });
}

Networks::Networks(Comm const& world, Comm const& domain, Layout const& layout, Description const& description,
                   Members const& members, std::string const& device)
    : world_(world), layout_(layout), box_(layout.owned(domain.rank())), members_(members) {
  files_.push_back(description.program);
  descriptions_.push_back(description);
  run_agreed(world, [&] {
    own_.push_back({0, members_.first, members_.last, Forecaster(domain, layout, description, device)});
  });
}

void Networks::start(std::span<double const> states, Index num_times) {
  for (Own& own : own_) {
    auto const& description = own.forecaster.description();
    auto const time = description.num_prognostic() * std::size_t(box_.num_cells());
    auto const wanted = std::size_t(description.history) * time;
    std::vector<double> values;
    for (Index m = own.first; m < own.last; ++m) {
      auto const member = states.subspan(std::size_t((m - members_.first) * num_times) * time, wanted);
      values.insert(values.end(), member.begin(), member.end());
    }
    own.forecaster.start(values, own.last - own.first);
  }
}

void Networks::set_calendar(models::Calendar calendar) {
  for (Own& own : own_) own.forecaster.set_calendar(calendar);
}

void Networks::step(Seconds time) {
  for (Own& own : own_) own.forecaster.step(time);
}

std::vector<double> Networks::present(Index own_member) const {
  Index const member = members_.first + own_member;
  for (Own const& own : own_)
    if (member < own.last) return own.forecaster.present(member - own.first);
  return {};
}

std::string Networks::name_of(Index network) const {
  return files_.size() == 1 ? "states" : "states/" + std::to_string(network);
}

Networks::Own* Networks::find(Index network) {
  auto const found = std::find_if(own_.begin(), own_.end(), [&](Own const& own) { return own.network == network; });
  return found == own_.end() ? nullptr : &*found;
}

Layout Networks::layout_of(Index network) const {
  Index const per = members_per_network();
  auto const place = [&](Index member) { return std::clamp<Index>(member - network * per, 0, per); };
  Box const mine({place(members_.first), box_.lo(0), box_.lo(1)}, {place(members_.last), box_.hi(0), box_.hi(1)});
  return samples::layout_of_boxes(world_, {per, layout_.global().extent(0), layout_.global().extent(1)}, mine);
}

FieldView Networks::states_of(Index network) {
  static double nothing = 0;
  auto const& d = descriptions_[std::size_t(network)];
  Own* const own = find(network);
  Indices const none{0, d.history * Index(d.num_prognostic()) + Index(d.num_diagnostic()), box_.extent(0),
                     box_.extent(1)};
  FieldView view = own != nullptr          ? own->forecaster.states()
                   : d.dtype == DType::f64 ? field_view(&nothing, none, 2)
                                           : field_view(reinterpret_cast<float*>(&nothing), none, 2);
  std::swap(view.extents[0], view.extents[1]);
  std::swap(view.strides[0], view.strides[1]);
  view.grid_axes = {1, 2, 3};
  return view;
}

void Networks::save(CheckpointWriter& writer) {
  for (Index n = 0; n < Index(files_.size()); ++n) writer.add(name_of(n), layout_of(n), states_of(n));
}

void Networks::load(Checkpoint const& checkpoint) {
  for (Index n = 0; n < Index(files_.size()); ++n) checkpoint.read(name_of(n), layout_of(n), states_of(n));
}

}  // namespace graticule::forecast
