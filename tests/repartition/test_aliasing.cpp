// SPDX-License-Identifier: BSD-3-Clause
// Views of one buffer at random, as sources and targets of one call: which of them share cells is found by listing the
// elements that the call reads and writes.
#include <graticule/repartition/plan.hpp>

#include "expect_error.hpp"
#include "moves/moves_support.hpp"
#include "random_layout.hpp"
#include "test_field.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace graticule;
using test::draw;
using test::MemoryShape;
using test::Random;
using test::rule_of;
using test::TestField;

namespace {

constexpr Index buffer_size = 12000;
char const* const apart = "nothing was thrown";

enum class Way : std::uint8_t { forward, adjoint, inverse };

/// Elements of a buffer: one for each cell of a box and each sample.
struct View {
  Box cover;
  Index first = 0;  ///< of the first cell of the box
  Indices strides;  ///< of the axes of the box
  Index num_samples = 1;
  Index sample_stride = 1;

  [[nodiscard]] Index at(Indices const& cell, Index sample) const {
    Index result = first + sample * sample_stride;
    for (int a = 0; a < cover.ndim(); ++a) result += (cell[a] - cover.lo(a)) * strides[a];
    return result;
  }
  [[nodiscard]] FieldView on(double* memory, MemorySpace space) const {
    FieldView view{memory + first, DType::f64, {num_samples}, {sample_stride}, {}, space};
    for (int a = 0; a < cover.ndim(); ++a) {
      view.extents.push_back(cover.extent(a));
      view.strides.push_back(strides[a]);
      view.grid_axes.push_back(a + 1);
    }
    return view;
  }
  /// Two of its elements are one.
  [[nodiscard]] bool meets_itself() const {
    std::set<Index> seen;
    bool meets = false;
    for (Index sample = 0; sample < num_samples; ++sample)
      test::for_each_cell(cover, [&](Indices const& cell) { meets = !seen.insert(at(cell, sample)).second || meets; });
    return meets;
  }
};

struct Field {
  View source;
  std::vector<View> targets;
};

/// One call of all ranks.
struct Call {
  Layout layout;
  RepartitionOptions options;
  Way way = Way::forward;
  Update update;
  std::vector<std::vector<Box>> boxes;     ///< by rank
  std::vector<std::vector<Field>> fields;  ///< by rank

  [[nodiscard]] Indices image(Indices const& cell) const {
    auto result = cell;
    for (int a = 0; a < cell.size(); ++a) {
      int const axis = int(options.permutation[a]);
      result[axis] = options.from->first[axis] + options.from->step[axis] * cell[a];
    }
    return result;
  }
  [[nodiscard]] int owner(Indices const& cell) const {
    int result = -1;
    auto upper = cell;
    for (auto& end : upper) ++end;
    layout.for_each_owner(Box(cell, upper), [&](int rank, Box const&) { result = rank; });
    return result;
  }
};

/// Calls `visit(rank, target, cell, image, owner)` for all cells that move, in order of ranks and targets.
template <class Visit>
void for_each_move(Call const& call, Visit const& visit) {
  for (std::size_t r = 0; r < call.boxes.size(); ++r)
    for (std::size_t t = 0; t < call.boxes[r].size(); ++t)
      test::for_each_cell(call.boxes[r][t], [&](Indices const& cell) {
        auto const image = call.image(cell);
        visit(int(r), t, cell, image, call.owner(image));
      });
}

Indices random_strides(Random& random, Box const& cover) {
  auto strides = Indices::filled(cover.ndim(), 1);
  Index const kind = draw(random, 0, 3);
  Index step = draw(random, 1, 3);
  for (int a : test::random_permutation(random, cover.ndim())) {
    // Mostly arrays, with gaps or none; sometimes anything.
    strides[a] = (draw(random, 0, 3) == 0 ? -1 : 1) * (kind == 0 ? draw(random, 0, 9) : step);
    step = step * cover.extent(a) + (kind == 1 ? 0 : draw(random, 0, 3));
  }
  return strides;
}

View random_source(Random& random, Box const& cover, Index num_samples) {
  View view{cover, buffer_size / 2 + draw(random, -9, 9), random_strides(random, cover), num_samples, 1};
  view.sample_stride = draw(random, 0, 1) == 0 ? draw(random, 1, 4) : draw(random, 30, 90);
  return view;
}

/// Somewhere, or with the cells where the source has them, or where it has their images.
View random_target(Random& random, Call const& call, View const& source, Box const& cover) {
  auto view = random_source(random, cover, source.num_samples);
  Index const kind = draw(random, 0, 2);
  if (draw(random, 0, 2) == 0) view.first += draw(random, -120, 120);
  if (kind == 0 || source.cover.empty() || cover.empty()) return view;
  view.sample_stride = source.sample_stride;
  for (int a = 0; a < cover.ndim(); ++a) {
    int const axis = int(call.options.permutation[a]);
    view.strides[a] = kind == 1 ? source.strides[a] : call.options.from->step[axis] * source.strides[axis];
  }
  view.first = source.at(kind == 1 ? cover.lo() : call.image(cover.lo()), 0);
  return view;
}

Box random_part(Random& random, Box const& grid) {
  Box part = grid;
  for (int a = 0; a < grid.ndim(); ++a) {
    Index const lo = draw(random, 0, grid.hi(a));
    part.set(a, lo, draw(random, lo, grid.hi(a)));
  }
  return draw(random, 0, 2) == 0 ? grid : part;
}

Call random_call(Random& random, int num_ranks) {
  int const ndim = int(draw(random, 1, 2));
  auto const extents = test::random_extents(random, ndim, 7);
  Call call{test::random_grid_layout(random, num_ranks, extents), {}, Way(draw(random, 0, 2)), {}, {}, {}};
  call.options.permutation = test::random_permutation(random, ndim);
  auto step = Indices::filled(ndim, 1);
  for (auto& each : step)
    if (draw(random, 0, 2) == 0) each = draw(random, 0, 1) == 0 ? -1 : 2;
  call.options.from = Selection::every_nth(Box::from_extents(extents), step);
  auto grid = extents;
  for (int a = 0; a < ndim; ++a) grid[a] = call.options.from->extents[int(call.options.permutation[a])];
  if (draw(random, 0, 3) == 0) call.update.alpha = 2;
  if (call.way != Way::inverse && draw(random, 0, 3) == 0) call.update.beta = double(draw(random, 1, 2));
  Index const num_fields = draw(random, 1, 2);
  Index const num_samples = draw(random, 1, 2);
  for (int rank = 0; rank < num_ranks; ++rank) {
    auto& boxes = call.boxes.emplace_back();
    for (Index t = draw(random, 1, 2); t > 0; --t) boxes.push_back(random_part(random, Box::from_extents(grid)));
    auto& fields = call.fields.emplace_back();
    for (Index f = 0; f < num_fields; ++f) {
      auto& field = fields.emplace_back();
      field.source = random_source(random, call.layout.owned(rank), num_samples);
      if (f > 0) field.source.first += draw(random, -300, 300);
      for (auto const& box : boxes) field.targets.push_back(random_target(random, call, field.source, box));
    }
  }
  return call;
}

/// An element that a call reads or writes through one view.
struct Element {
  std::size_t field;
  int target;  ///< -1: the source
  bool written;
  bool stays;  ///< what is written is what is there

  [[nodiscard]] bool clashes_with(Element const& other) const {
    if (!written && !other.written) return false;
    if (field == other.field && target == other.target) return false;
    return written == other.written || field != other.field || !(written ? stays : other.stays);
  }
};

/// What a rank does with a call: nothing, or an error; or either, where some cells of a part stay in place and others
/// do not, and where an inverse finds several images of a cell, of which it reads one.
struct Verdict {
  std::string rule = apart;
  bool may_refuse = false;
};

Verdict verdict_of(Call const& call, int rank) {
  auto const& fields = call.fields[std::size_t(rank)];
  bool const forward = call.way == Way::forward;
  bool const is_plain = call.way != Way::adjoint && call.update == Update{};
  for (auto const& field : fields) {
    if (!forward && field.source.meets_itself()) return {"FieldMismatch", false};
    for (auto const& target : field.targets)
      if (forward && target.meets_itself()) return {"FieldMismatch", false};
  }
  Verdict verdict;
  std::map<std::vector<Index>, Index> last_image;  ///< of an inverse, by source cell: the number of its move
  Index number = 0;
  for_each_move(call, [&](int, std::size_t, Indices const&, Indices const& image, int) {
    bool const is_first = last_image.insert_or_assign({image.begin(), image.end()}, number++).second;
    verdict.may_refuse = verdict.may_refuse || (call.way == Way::inverse && !is_first);
  });
  number = 0;
  std::multimap<Index, Element> touched;
  std::map<std::pair<std::size_t, std::size_t>, std::pair<int, int>>
      staying;  ///< by field and target: cells, all cells
  for_each_move(call, [&](int to, std::size_t t, Indices const& cell, Indices const& image, int from) {
    bool const is_last = last_image.at({image.begin(), image.end()}) == number++;
    for (std::size_t f = 0; f < fields.size() && (is_last || call.way != Way::inverse); ++f)
      for (Index sample = 0; sample < fields[f].source.num_samples; ++sample) {
        Index const read = from == rank ? fields[f].source.at(image, sample) : 0;
        Index const written = to == rank ? fields[f].targets[t].at(cell, sample) : 0;
        bool const stays = is_plain && from == rank && to == rank && read == written;
        if (from == rank) touched.insert({read, {f, -1, !forward, stays}});
        if (to == rank) touched.insert({written, {f, int(t), forward, stays}});
        if (from != rank || to != rank) continue;
        auto& counts = staying[{f, t}];
        counts.first += stays ? 1 : 0;
        ++counts.second;
      }
  });
  // An adjoint has a factor for all owned cells.
  if (call.way == Way::adjoint)
    for (std::size_t f = 0; f < fields.size(); ++f)
      for (Index sample = 0; sample < fields[f].source.num_samples; ++sample)
        test::for_each_cell(fields[f].source.cover, [&](Indices const& cell) {
          touched.insert({fields[f].source.at(cell, sample), {f, -1, true, false}});
        });
  for (auto const& [key, counts] : staying)
    verdict.may_refuse = verdict.may_refuse || (counts.first > 0 && counts.first < counts.second);
  for (auto const& [at, element] : touched) {
    auto const [begin, end] = touched.equal_range(at);
    for (auto other = begin; other != end; ++other)
      if (element.clashes_with(other->second)) verdict.rule = "AliasedFields";
  }
  return verdict;
}

double initial(int rank, Index at) { return double(rank * 2 * buffer_size + at + 1); }

/// The buffer of `rank` after the call, which no rank refuses.
std::vector<double> result_of(Call const& call, int rank) {
  std::vector<double> result(buffer_size);
  for (Index at = 0; at < buffer_size; ++at) result[std::size_t(at)] = initial(rank, at);
  double const alpha = call.update.alpha.real();
  bool const adjoint = call.way == Way::adjoint;
  double const beta = call.update.beta.value_or(adjoint ? 1.0 : 0.0).real();
  auto const& fields = call.fields[std::size_t(rank)];
  if (adjoint)
    for (auto const& field : fields)
      for (Index sample = 0; beta != 1 && sample < field.source.num_samples; ++sample)
        test::for_each_cell(field.source.cover,
                            [&](Indices const& cell) { result[std::size_t(field.source.at(cell, sample))] *= beta; });
  for_each_move(call, [&](int to, std::size_t t, Indices const& cell, Indices const& image, int from) {
    for (std::size_t f = 0; f < fields.size(); ++f)
      for (Index sample = 0; sample < fields[f].source.num_samples; ++sample) {
        Index const at_source = call.fields[std::size_t(from)][f].source.at(image, sample);
        Index const at_target = call.fields[std::size_t(to)][f].targets[t].at(cell, sample);
        if (call.way == Way::forward && to == rank) {
          auto& value = result[std::size_t(at_target)];
          value = alpha * initial(from, at_source) + (beta == 0 ? 0 : beta * initial(rank, at_target));
        } else if (call.way != Way::forward && from == rank) {
          auto& value = result[std::size_t(at_source)];
          value = alpha * initial(to, at_target) + (adjoint ? value : 0);
        }
      }
  });
  return result;
}

std::string describe(View const& view) {
  return to_string(view.cover) + " from " + std::to_string(view.first) + " with strides " + to_string(view.strides) +
         ", " + std::to_string(view.num_samples) + " samples " + std::to_string(view.sample_stride) + " apart";
}

std::string describe(Call const& call, int rank) {
  auto text = "\n" + to_string(call.layout) + ", way " + std::to_string(int(call.way)) + ", alpha " +
              std::to_string(call.update.alpha.real()) + (call.update.beta ? ", beta given" : "") + ", permutation " +
              to_string(call.options.permutation) + ", from " + to_string(*call.options.from);
  for (auto const& field : call.fields[std::size_t(rank)]) {
    text += "\nsource " + describe(field.source);
    for (auto const& target : field.targets) text += "\n  target " + describe(target);
  }
  return text;
}

/// Calls of which some ranks refuse theirs, and what the others get.
TEST(Aliasing, is_refused_exactly_where_elements_that_are_written_are_used_twice) {
  auto const comm = Comm::world();
  Random random(test::seed_or(48));
  auto const space = TestField<double>(Box({0}, {1}), {}, MemoryShape::dense(1, 0), 0.0).view().space;
  if (space == MemorySpace::device) GTEST_SKIP() << "fields on a device are compared by the same addresses";
  bool const checks_calls = std::getenv("GRATICULE_CHECK") != nullptr;
  int num_refused = 0;
  int num_moved = 0;
  int num_moved_beside = 0;
  int const num_trials = 1200 / comm.num_ranks();
  for (int trial = 0; trial < num_trials; ++trial) {
    auto const call = random_call(random, comm.num_ranks());
    RepartitionPlan const plan(comm, call.layout, call.boxes[std::size_t(comm.rank())], call.options);
    std::vector<double> memory(buffer_size);
    for (Index at = 0; at < buffer_size; ++at) memory[std::size_t(at)] = initial(comm.rank(), at);
    auto const before = memory;
    std::vector<std::vector<FieldView>> targets;
    std::vector<RepartitionField> fields;
    targets.reserve(4);
    for (auto const& field : call.fields[std::size_t(comm.rank())]) {
      auto& views = targets.emplace_back();
      for (auto const& target : field.targets) views.push_back(target.on(memory.data(), space));
      fields.push_back(
          {.from = field.source.on(memory.data(), space), .to = {}, .targets = views, .update = call.update});
    }
    std::vector<Verdict> verdicts;
    for (int rank = 0; rank < comm.num_ranks(); ++rank) verdicts.push_back(verdict_of(call, rank));
    auto const& own = verdicts[std::size_t(comm.rank())];

    auto const rule = rule_of([&] {
      if (call.way == Way::forward) plan.apply(fields);
      if (call.way == Way::adjoint) plan.apply_adjoint(fields);
      if (call.way == Way::inverse) plan.apply_inverse(fields);
    });

    std::array<Index, 1> refused{rule == "AliasedFields" || rule == "FieldMismatch" ? 1 : 0};
    if (own.may_refuse && rule == "AliasedFields") {
      EXPECT_EQ(memory, before) << "trial " << trial;
    } else if (own.rule != apart) {
      ASSERT_EQ(rule, own.rule) << "trial " << trial << ": " << rule.text << describe(call, comm.rank());
      EXPECT_EQ(memory, before) << "trial " << trial;
    } else {
      ASSERT_TRUE(rule == apart || rule == (checks_calls ? "CallDisagreement" : "PeerRefused"))
          << "trial " << trial << ": " << rule << ": " << rule.text << describe(call, comm.rank());
    }
    comm.max(refused);
    if (refused[0] > 0) {
      ++num_refused;
      continue;
    }
    ASSERT_EQ(rule, apart) << "trial " << trial;
    ASSERT_EQ(memory, result_of(call, comm.rank())) << "trial " << trial;
    ++num_moved;
    auto const& first = call.fields.front().front();
    Index const distance = first.source.first - first.targets.front().first;
    num_moved_beside += distance > -60 && distance < 60 ? 1 : 0;
  }
  EXPECT_GT(num_refused, num_trials / 4);
  EXPECT_GT(num_moved, num_trials / 16);
  EXPECT_GT(num_moved_beside, num_trials / 64);
}

}  // namespace
