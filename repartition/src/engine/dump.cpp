// SPDX-License-Identifier: BSD-3-Clause
// Writes plans as JSON. The engine reads none, so a few functions of text serve.
#include <graticule/messages/detail/lanes.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/repartition/detail/hexadecimal.hpp>
#include <graticule/repartition/detail/plan_text.hpp>
#include <graticule/repartition/dump.hpp>

#include "pull_state.hpp"
#include "whole_file.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

namespace graticule {

namespace detail {

namespace {

std::string quoted(std::string const& text) {
  std::string result = "\"";
  for (char const c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return result + '"';
}

/// The shortest number that reads as `value` again; JSON has no NaN and no infinities.
std::string number(double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "\"nan\"" : value > 0 ? "\"inf\"" : "\"-inf\"";
  std::array<char, 32> buffer{};
  std::string const text(buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

template <class Range, class Word>
std::string list(Range const& range, Word const& word, char const* separator = ", ") {
  std::string text;
  for (auto const& element : range) text += (text.empty() ? "" : separator) + word(element);
  return "[" + text + "]";
}

std::string text_of(Indices const& values) {
  return list(values, [](Index value) { return std::to_string(value); });
}

std::string text_of(Box const& box) { return "[" + text_of(box.lo()) + ", " + text_of(box.hi()) + "]"; }

std::string text_of(Piece const& piece) {
  auto const text = "{\"box\": " + text_of(piece.box);
  if (piece.filled) return text + ", \"fill\": " + number(piece.fill) + "}";
  std::span const maps(piece.maps.data(), std::size_t(piece.box.ndim()));
  auto const word = [](AxisMap const& map) { return text_of(Indices{map.source_axis, map.slope, map.offset}); };
  return text + ", \"maps\": " + list(maps, word) + (piece.odd_folds ? ", \"odd_folds\": true" : "") +
         (piece.negated ? ", \"negated\": true" : "") + "}";
}

std::string text_of(PullKind const& kind) {
  auto const needed_text = [&](Box const& needed) {
    auto const pieces = needed.empty() ? std::vector<Piece>{} : kind.map(needed);
    return "{\"box\": " + text_of(needed) + ", \"pieces\": " +
           list(
               pieces, [](Piece const& piece) { return text_of(piece); }, ",\n     ") +
           "}";
  };
  auto const target_text = [&](Target const& target) {
    return "{\"box\": " + text_of(target.box) + ", \"needed\": " + list(target.needed, needed_text, ",\n    ") + "}";
  };
  return "{\"source\": " + text_of(kind.source_box) + ", \"targets\": " + list(kind.targets, target_text, ",\n   ") +
         "}";
}

/// How many transfers, and a hash of them in their order.
std::string summary(std::vector<Transfer> const& transfers) {
  Hash hash;
  Index cells = 0;
  for (auto const& transfer : transfers) {
    hash.add(transfer.kind).add(transfer.target).add(transfer.odd_folds).add(transfer.negated);
    for (int a = 0; a < transfer.to.ndim(); ++a) {
      auto const& map = transfer.maps[std::size_t(a)];
      hash.add(map.source_axis).add(map.slope).add(map.offset);
    }
    for (auto const* box : {&transfer.to, &transfer.from}) hash.add(box->lo()).add(box->hi());
    cells += transfer.to.num_cells();
  }
  return "\"transfers\": " + std::to_string(transfers.size()) + ", \"cells\": " + std::to_string(cells) +
         ", \"hash\": " + quoted(in_hexadecimal(hash.value())) + "}";
}

std::string text_of(PullTable const& table) {
  auto const peer_text = [](PeerTransfers const& peer) {
    return "{\"peer\": " + std::to_string(peer.peer) + ", " + summary(peer.transfers);
  };
  Index filled = 0;
  for (auto const& filling : table.fillings) filled += filling.to.num_cells();
  return "\"sends\": " + list(table.sends, peer_text) + ",\n  \"receives\": " + list(table.receives, peer_text) +
         ",\n  \"local\": {" + summary(table.local) +
         ",\n  \"filled\": {\"transfers\": " + std::to_string(table.fillings.size()) +
         ", \"cells\": " + std::to_string(filled) + "}";
}

std::string text_of(PeerPath const& path) {
  return "{\"peer\": " + std::to_string(path.peer) + ", \"path\": " + quoted(to_string(path.path)) +
         ", \"reason\": " + quoted(path.reason) + "}";
}

std::string text_of(Call const& call) {
  std::string fields;
  for (std::size_t f = 0; f < call.fields().sources.size(); ++f)
    fields += (f ? ", " : "") + ("{\"kind\": " + std::to_string(call.shape.kinds[f])) +
              ", \"dtype\": " + quoted(to_string(call.fields().sources[f].dtype)) +
              ", \"batch\": " + text_of(call.fields().sources[f].batch_extents()) +
              ", \"parity\": " + (call.fields().parities[f] == Parity::odd ? "\"odd\"}" : "\"even\"}");
  return std::string("{\"direction\": ") + (call.shape.forward() ? "\"forward\"" : "\"adjoint\"") + ", \"fields\": [" +
         fields + "]}";
}

/// Rank 0 holds the text of so many ranks at most.
constexpr int most_ranks = 512;

std::string too_many(Comm const& comm) {
  return "a plan of " + std::to_string(comm.num_ranks()) + " ranks: plans of up to " + std::to_string(most_ranks) +
         " ranks are written as text, which rank 0 holds";
}

/// The texts of all ranks in their order, on rank 0. Collective.
std::string gathered(Comm const& comm, std::string& own) {
  messages::Lanes lanes(comm);
  auto const sizes = comm.gather_to_all(Index(own.size()));
  auto& text = lanes.keep(std::move(own));
  if (comm.rank() != 0) {
    lanes.post(0, text.data(), Index(text.size()));
    lanes.wait("for rank 0 to take the text of a plan");
    return {};
  }
  std::vector<std::size_t> begins(sizes.size(), 0);
  for (std::size_t rank = 1; rank < sizes.size(); ++rank) {
    begins[rank] = text.append(",\n").size();
    text.resize(begins[rank] + std::size_t(sizes[rank]));
  }
  for (std::size_t rank = 1; rank < sizes.size(); ++rank)
    lanes.take(int(rank), text.data() + begins[rank], sizes[rank]);
  lanes.wait("for the text of a plan");
  return std::move(text);
}

/// What follows the parts of a text that are the same for the same plan in every run.
constexpr char const* after_ranks = "\n\"paths\": ";
constexpr char const* without_call = "\"call\": null\n}\n";

std::string read_file(std::string const& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) throw Error("OutputError", "cannot read " + path);
  return text.str();
}

/// Path of the file of this plan, written if it is not there.
std::string write_once(std::string const& folder, std::string const& name, std::string const& text) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  auto const same = text.substr(0, text.find(after_ranks));
  for (int number = 1;; ++number) {
    auto path = folder + "/" + name + (number > 1 ? "-" + std::to_string(number) : "") + ".json";
    if (std::filesystem::exists(path)) {
      if (!read_file(path).starts_with(same)) continue;
    } else {
      write_whole_file(path, text);
    }
    return path;
  }
}

}  // namespace

std::string PullState::text() const {
  if (plan_.comm.num_ranks() > most_ranks) throw Error("Unsupported", too_many(plan_.comm));
  std::string ranks;
  std::string paths;
  run_agreed(plan_.comm, [&] {
    ranks = " {\"owned\": " + text_of(plan_.owned) + ",\n  \"kinds\": " +
            list(
                plan_.kinds, [](PullKind const& kind) { return text_of(kind); }, ",\n  ") +
            ",\n  " + text_of(plan_.table) + "}";
    paths = " " + list(this->paths(), [](PeerPath const& path) { return text_of(path); });
  });
  ranks = gathered(plan_.comm, ranks);
  paths = gathered(plan_.comm, paths);
  if (plan_.comm.rank() != 0) return {};
  auto const text = "{\n\"format\": \"graticule-plan\",\n\"version\": 1,\n\"fingerprint\": " +
                    quoted(in_hexadecimal(plan_.fingerprint)) +
                    ",\n\"after_adjoint\": " + (plan_.after_adjoint == AfterAdjoint::zero ? "\"zero\"" : "\"keep\"") +
                    ",\n\"extents\": " + text_of(plan_.global.extents()) + ",\n\"ranks\": [\n" + ranks + "\n]," +
                    after_ranks + "[\n" + paths + "\n],\n";
  Call const* last = nullptr;
  for (auto const& call : calls_)
    if (!call->shape.refused && (!last || call->number > last->number)) last = call.get();
  return text + (last ? "\"call\": " + text_of(*last) + "\n}\n" : without_call);
}

std::string PullState::dump_where_asked() const {
  if (plan_.comm.num_ranks() > most_ranks) {
    static bool said = false;
    if (plan_.comm.rank() == 0 && !std::exchange(said, true))
      std::fprintf(stderr, "graticule: GRATICULE_DUMP does not write %s\n", too_many(plan_.comm).c_str());
    return {};
  }
  auto const text = this->text();
  std::string path;
  run_agreed(plan_.comm, [&] {
    if (plan_.comm.rank() == 0)
      path = write_once(std::getenv("GRATICULE_DUMP"), "plan-" + in_hexadecimal(plan_.fingerprint), text);
  });
  return path;
}

void PullState::dump_call(Call const& call) const {
  auto const path = std::exchange(dump_file_, {});
  try {
    auto text = read_file(path);
    if (!text.ends_with(without_call)) return;
    text.resize(text.size() - std::string_view(without_call).size());
    write_whole_file(path, text + "\"call\": " + text_of(call) + "\n}\n");
  } catch (Error const& error) {
    // The call itself goes on: the other ranks are in it.
    std::fprintf(stderr, "graticule: %s\n", error.what());
  }
}

}  // namespace detail

std::string plan_text(PullPlan const& plan) { return plan.state_->text(); }

void dump_plan(PullPlan const& plan, std::string const& path) {
  auto const text = plan_text(plan);
  run_agreed(plan.comm(), [&] {
    if (plan.comm().rank() == 0) detail::write_whole_file(path, text);
  });
}

}  // namespace graticule
