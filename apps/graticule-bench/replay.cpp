// SPDX-License-Identifier: BSD-3-Clause
// A plan from a file, moved again without the program that made it: verified cell by cell, then timed.
#include <graticule/app/shared_file.hpp>
#include <graticule/partition/cells.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/repartition/detail/dtypes.hpp>
#include <graticule/repartition/detail/plan_text.hpp>
#include <graticule/repartition/detail/row_major.hpp>
#include <graticule/repartition/dump.hpp>

#include "options.hpp"
#include "plan_file.hpp"
#include "timing.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <memory>
#include <utility>

namespace graticule::bench {

namespace {

constexpr std::array paths{Transport::point_to_point, Transport::node_shared};

char const* name_of(Transport transport) {
  return transport == Transport::point_to_point ? "point-to-point" : "node-shared";
}

/// Runs an action that depends on the file; its errors, including lack of memory, are reported with the file name.
template <class Action>
auto with_file_name(PlanFile const& file, Action const& action) {
  try {
    return action();
  } catch (Error const& error) {
    if (error.fault() != Fault::program) throw;
    throw Error(Fault::input, "BadInput", file.name + ": " + error.rule() + ": " + error.text());
  } catch (std::bad_alloc const&) {
    throw Error(Fault::input, "BadInput", file.name + ": there is no memory for boxes of this size");
  } catch (std::length_error const&) {
    throw Error(Fault::input, "BadInput", file.name + ": there is no memory for boxes of this size");
  }
}

/// The replayed plan must cut its boxes into the same transfers, in the same order. Collective.
void compare_tables(PullPlan const& plan, PlanFile const& file) {
  auto const text = plan_text(plan);
  run_agreed(plan.comm(), [&] {
    if (plan.comm().rank() != 0) return;
    auto const tables = nlohmann::json::parse(text)["ranks"];
    for (std::size_t r = 0; r < tables.size(); ++r)
      for (auto const& [key, value] : tables[r].items())
        if (file.tables[r].value(key, nlohmann::json()) != value)
          throw Error(Fault::input, "BadInput",
                      file.name + ": ranks[" + std::to_string(r) + "]." + key +
                          " does not match its pieces: the file is damaged or of another version");
  });
}

/// One number for each cell of a box.
struct Numbers {
  Box box;
  std::vector<double> values;

  Numbers(Box const& covered, double value) : box(covered), values(std::size_t(covered.num_cells()), value) {}
  [[nodiscard]] double& at(Indices const& cell) {
    Index at = 0;
    for (int a = 0; a < box.ndim(); ++a) at = at * box.extent(a) + cell[a] - box.lo(a);
    return values[std::size_t(at)];
  }
  [[nodiscard]] FieldView view() { return field_view(values.data(), box.extents(), box.ndim()); }
};

/// One field of a kind on this rank: numbers in its source and in each target.
struct NumberedField {
  int kind;
  Parity parity;
  Numbers source;
  std::vector<Numbers> targets;
};

/// What the file says that a plan does, cell by cell.
class Formula {
 public:
  Formula(PlanFile const& file, int rank) : file_(file), rank_(rank), owned_(file.ranks[std::size_t(rank)].owned) {}

  /// Fields of all kinds, even and odd; owned cells of the sources hold their numbers, from 1.
  [[nodiscard]] std::vector<NumberedField> fields() const {
    std::vector<NumberedField> fields;
    for (int k = 0; k < file_.num_kinds(); ++k)
      for (auto const parity : {Parity::even, Parity::odd}) {
        auto const& kind = kind_of(rank_, k);
        auto& field = fields.emplace_back(NumberedField{k, parity, Numbers(kind.source, -1), {}});
        for_each_cell(owned_, [&](Indices const& cell) { field.source.at(cell) = number(cell); });
        for (auto const& target : kind.targets) field.targets.emplace_back(target.box, -2);
      }
    return fields;
  }

  void fill(NumberedField& field) const {
    for_each_piece(rank_, field.kind, [&](std::size_t t, Piece const& piece) {
      for_each_cell(piece.box, [&](Indices const& cell) {
        field.targets[t].at(cell) = piece.filled ? piece.fill : sign(piece, field.parity) * number(image(piece, cell));
      });
    });
  }

  /// The targets as an adjoint finds them.
  void set_cotangents(NumberedField& field) const {
    for (std::size_t t = 0; t < field.targets.size(); ++t)
      for_each_cell(field.targets[t].box,
                    [&](Indices const& cell) { field.targets[t].at(cell) = cotangent(rank_, field, t, cell); });
  }

  void add(NumberedField& field) const {
    for (int r = 0; r < int(file_.ranks.size()); ++r)
      for_each_piece(r, field.kind, [&](std::size_t t, Piece const& piece) {
        if (piece.filled) return;
        for_each_cell(restricted(piece, owned_).box, [&](Indices const& cell) {
          field.source.at(image(piece, cell)) += sign(piece, field.parity) * cotangent(r, field, t, cell);
        });
      });
    if (file_.after_adjoint == AfterAdjoint::keep) return;
    for_each_piece(rank_, field.kind, [&](std::size_t t, Piece const& piece) {
      for_each_cell(piece.box, [&](Indices const& cell) { field.targets[t].at(cell) = 0; });
    });
  }

 private:
  [[nodiscard]] PlanFile::Kind const& kind_of(int rank, int kind) const {
    return file_.ranks[std::size_t(rank)].kinds[std::size_t(kind)];
  }
  template <class Visit>
  void for_each_piece(int rank, int kind, Visit const& visit) const {
    auto const& targets = kind_of(rank, kind).targets;
    for (std::size_t t = 0; t < targets.size(); ++t)
      for (auto const& needed : targets[t].needed)
        for (auto const& piece : needed.pieces) visit(t, piece);
  }
  [[nodiscard]] double number(Indices const& cell) const {
    Index number = 0;
    for (int a = 0; a < cell.size(); ++a) number = number * file_.extents[a] + cell[a];
    return double(number + 1);
  }
  /// Small integers, so that sums are exact.
  [[nodiscard]] static double cotangent(int rank, NumberedField const& field, std::size_t target, Indices const& cell) {
    Hash hash;
    hash.add(rank).add(field.kind).add(int(field.parity)).add(target).add(cell);
    return double(hash.value() % 65536);
  }
  [[nodiscard]] static double sign(Piece const& piece, Parity parity) {
    return piece.negated != (piece.odd_folds && parity == Parity::odd) ? -1 : 1;
  }
  [[nodiscard]] static Indices image(Piece const& piece, Indices const& cell) {
    auto result = cell;
    for (int a = 0; a < cell.size(); ++a) {
      auto const& map = piece.maps[std::size_t(a)];
      result[map.source_axis] = map.slope * cell[a] + map.offset;
    }
    return result;
  }

  PlanFile const& file_;
  int rank_;
  Box const& owned_;
};

void compare(Numbers& found, Numbers& expected, std::string const& where) {
  for_each_cell(found.box, [&](Indices const& cell) {
    double const has = found.at(cell);
    double const must = expected.at(cell);
    if (has == must || (std::isnan(has) && std::isnan(must))) return;
    throw Error(Fault::check, "CheckFailed",
                where + ": cell " + to_string(cell) + " holds " + std::to_string(has) + ", the file says " +
                    std::to_string(must));
  });
}

void compare(std::vector<NumberedField>& found, std::vector<NumberedField>& expected, std::string const& movement) {
  for (std::size_t f = 0; f < found.size(); ++f) {
    auto const where =
        movement + ", kind " + std::to_string(found[f].kind) + (found[f].parity == Parity::odd ? ", odd parity" : "");
    compare(found[f].source, expected[f].source, where + ", source");
    for (std::size_t t = 0; t < found[f].targets.size(); ++t)
      compare(found[f].targets[t], expected[f].targets[t], where + ", target " + std::to_string(t));
  }
}

/// The fields of a call, as views of their numbers.
struct Arguments {
  std::vector<std::vector<FieldView>> targets;
  std::vector<PullField> fields;

  explicit Arguments(std::vector<NumberedField>& numbered) {
    targets.reserve(numbered.size());
    for (auto& field : numbered) {
      auto& views = targets.emplace_back();
      for (auto& target : field.targets) views.push_back(target.view());
      fields.push_back({field.source.view(), views, field.parity, field.kind});
    }
  }
};

/// Every cell of every kind, forward and adjoint, on each path. Collective.
void verify(PullPlan& plan, PlanFile const& file) {
  auto const& comm = plan.comm();
  Formula const formula(file, comm.rank());
  for (auto const path : paths) {
    plan.set_transport(path);
    std::vector<NumberedField> found;
    std::vector<NumberedField> expected;
    run_agreed(comm, [&] { expected = with_file_name(file, [&] { return found = formula.fields(); }); });
    Arguments const arguments(found);
    plan.apply(arguments.fields);
    run_agreed(comm, [&] {
      for (auto& field : expected) formula.fill(field);
      compare(found, expected, std::string(name_of(path)) + ", forward");
      for (auto* fields : {&found, &expected})
        for (auto& field : *fields) formula.set_cotangents(field);
    });
    plan.apply_adjoint(arguments.fields);
    run_agreed(comm, [&] {
      for (auto& field : expected) formula.add(field);
      compare(found, expected, std::string(name_of(path)) + ", adjoint");
    });
  }
}

/// The call that the file recorded, with the memory of its fields: a source and its targets each.
class Call {
 public:
  Call(PlanFile const& file, int rank) {
    views_.reserve(file.fields.size());
    for (auto const& field : file.fields) {
      auto const& kind = file.ranks[std::size_t(rank)].kinds[std::size_t(field.kind)];
      auto& views = views_.emplace_back(1, view(kind.source, field));
      for (auto const& target : kind.targets) views.push_back(view(target.box, field));
      fields.push_back({views.front(), std::span(views).subspan(1), field.parity, field.kind});
    }
    reset();
  }
  Call(Call const&) = delete;
  Call& operator=(Call const&) = delete;

  /// The initial numbers: small ones, for any type.
  void reset() {
    for (auto& [dtype, bytes] : memory_) {
      auto const size = std::size_t(size_of(dtype));
      bool const integers = graticule::detail::is_integer(dtype);
      for (std::size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = std::byte(!integers || i % size == 0 ? 1 + i / size % 7 : 0);
    }
  }
  void add_to(Hash& hash) const {
    for (auto const& part : memory_)
      hash.add(std::string_view(reinterpret_cast<char const*>(part.bytes.data()), part.bytes.size()));
  }

  std::vector<PullField> fields;

 private:
  struct Part {
    DType dtype;
    std::vector<std::byte> bytes;
  };

  FieldView view(Box const& box, PlanFile::Field const& field) {
    Indices extents = field.batch;
    for (Index const extent : box.extents()) extents.push_back(extent);
    auto const num_bytes = std::size_t(Box::from_extents(extents).num_cells() * size_of(field.dtype));
    auto& bytes = memory_.emplace_back(Part{field.dtype, std::vector<std::byte>(num_bytes)}).bytes;
    FieldView view{bytes.data(), field.dtype, extents, row_major_strides(extents), {}, MemorySpace::host};
    for (int a = field.batch.size(); a < extents.size(); ++a) view.grid_axes.push_back(a);
    return view;
  }

  std::vector<Part> memory_;
  std::vector<std::vector<FieldView>> views_;
};

std::string text_of(PlanFile const& file) {
  std::string text;
  for (auto const& field : file.fields)
    text += (text.empty() ? "" : ", ") + to_string(field.dtype) + " of kind " + std::to_string(field.kind) +
            (field.batch.size() ? " with batch axes " + to_string(field.batch) : "");
  return text;
}

/// Both paths leave the same bits in the fields of the call.
void compare_paths(PullPlan& plan, Call& call) {
  std::array<std::uint64_t, 2> results{};
  for (std::size_t p = 0; p < paths.size(); ++p) {
    plan.set_transport(paths[p]);
    call.reset();
    Hash hash;
    plan.apply(call.fields);
    call.add_to(hash);
    plan.apply_adjoint(call.fields);
    call.add_to(hash);
    results[p] = hash.value();
  }
  run_agreed(plan.comm(), [&] {
    if (results[0] != results[1])
      throw Error(Fault::check, "CheckFailed", "the two transports give fields that differ in some bits");
  });
}

/// Transfers of each rank, of all kinds: sent, received, local and filled.
std::vector<Index> transfers_of(PlanFile const& file) {
  std::vector<Index> result;
  for (auto const& rank : file.tables) {
    auto& sum = result.emplace_back(rank["local"]["transfers"].get<Index>() + rank["filled"]["transfers"].get<Index>());
    for (auto const* side : {"sends", "receives"})
      for (auto const& peer : rank[side]) sum += peer["transfers"].get<Index>();
  }
  return result;
}

/// What a forward call moves, rank by rank: a table on stdout, and in the report. Collective.
void show_counts(app::Context& context, PullPlan& plan, PlanFile const& file, Call const& call) {
  auto const& comm = plan.comm();
  plan.set_transport(Transport::automatic);
  auto const before = plan.stats();
  plan.apply(call.fields);
  auto const after = plan.stats();
  auto const sent = [](auto member) {
    return [member](PullStats const& s) {
      return s.point_to_point.*member + s.node_packed.*member + s.node_in_place.*member;
    };
  };
  auto const moved = [&](auto const& get) { return comm.gather_to_all(Index(get(after) - get(before))); };
  std::array const columns{std::pair{"transfers", transfers_of(file)},
                           std::pair{"send_peers", comm.gather_to_all(Index(plan.counts().num_send_peers))},
                           std::pair{"messages", moved(sent(&PullStats::Sent::num_messages))},
                           std::pair{"bytes", moved(sent(&PullStats::Sent::bytes))},
                           std::pair{"on_node", moved([](PullStats const& s) {
                                       return s.node_packed.num_messages + s.node_in_place.num_messages;
                                     })},
                           std::pair{"local_bytes", moved([](PullStats const& s) { return s.local_bytes; })}};
  auto& data = context.report.data()["replay"];
  for (auto const& [name, values] : columns) data[name] = values;
  data["filled_cells"] = comm.gather_to_all(Index(plan.counts().filled_cells));
  if (comm.rank() != 0) return;
  constexpr int most_lines = 32;
  std::printf("  rank");
  for (auto const& [name, values] : columns) std::printf(" %12s", name);
  for (int r = 0; r < std::min(comm.num_ranks(), most_lines); ++r) {
    std::printf("\n  %4d", r);
    for (auto const& [name, values] : columns) std::printf(" %12lld", static_cast<long long>(values[std::size_t(r)]));
  }
  std::printf("\n");
  if (comm.num_ranks() > most_lines) std::printf("  ... and %d more ranks\n", comm.num_ranks() - most_lines);
}

}  // namespace

void run_replay(app::Context& context, Options const& options) {
  auto const& comm = context.comm;
  auto const file = parse_plan(app::read_shared(comm, options.plan), options.plan, comm.num_ranks());
  auto plan = with_file_name(file, [&] { return PullPlan(comm, description(file, comm.rank())); });
  compare_tables(plan, file);
  verify(plan, file);
  std::unique_ptr<Call> call;
  run_agreed(comm, [&] { call = with_file_name(file, [&] { return std::make_unique<Call>(file, comm.rank()); }); });
  compare_paths(plan, *call);

  auto& data = context.report.data()["replay"];
  data["file"] = file.name;
  data["fingerprint"] = file.fingerprint;
  if (comm.rank() == 0)
    std::printf("plan %s: every cell of %s is correct, with both transports\n", file.fingerprint.c_str(),
                to_string(Box::from_extents(file.extents)).c_str());
  show_counts(context, plan, file, *call);
  std::vector<Candidate> candidates;
  for (auto const path : paths)
    for (bool const forward : {true, false})
      candidates.push_back({std::string(name_of(path)) + (forward ? ", forward" : ", adjoint"), [&, path, forward] {
                              plan.set_transport(path);
                              forward ? plan.apply(call->fields) : plan.apply_adjoint(call->fields);
                            }});
  show(context, "a call of " + text_of(file) + " on " + std::to_string(comm.num_ranks()) + " ranks",
       interleave(context, candidates, options.timing));
}

}  // namespace graticule::bench
