// SPDX-License-Identifier: BSD-3-Clause
// Which fields of a call have memory in common, where one of them is written.
#include <graticule/partition/detail/speech.hpp>
#include <graticule/repartition/detail/overlap.hpp>

#include "field_checks.hpp"
#include "kernels/cells.hpp"
#include "table/box_rest.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>

namespace graticule::detail {

/// One view of a call, and what the call does with it.
struct FieldChecks::Use {
  AddressRange range;
  FieldView const* view;
  Box const* cover;
  std::span<Box const> boxes;  ///< all cells that may be read or written
  PullField const* call;
  int field;
  int target;  ///< -1: the source
  bool written;
};

namespace {

using Use = FieldChecks::Use;

/// Cells that a call reads or writes, as they lie in memory.
struct Touched {
  FieldView cells;
  Transfer const* transfer = nullptr;  ///< of this rank to itself, without a change of sign
  AddressRange range = address_range(cells);
};

bool have_common_boxes(Use const& a, Use const& b) {
  if (!share_memory(*a.view, *b.view)) return false;
  for (auto const& box_a : a.boxes) {
    auto const part = a.view->part(*a.cover, box_a);
    for (auto const& box_b : b.boxes)
      if (share_memory(part, b.view->part(*b.cover, box_b))) return true;
  }
  return false;
}

/// The box around both, which have cells.
Box hull(Box const& a, Box const& b) {
  Box result = a;
  for (int d = 0; d < a.ndim(); ++d) result.set(d, std::min(a.lo(d), b.lo(d)), std::max(a.hi(d), b.hi(d)));
  return result;
}

/// True when each cell of the target shares memory with the same cell of the source, or with none. @pre the views are
/// aligned, and no two cells of the one that is written share memory
bool no_other_cells_meet(Use const& source, Use const& target) {
  // In arrays as they are, no two cells of a box around both share memory, whether there is memory for them or not.
  auto around = *source.view;
  Box const covered = hull(*source.cover, *target.cover);
  for (int d = 0; d < covered.ndim(); ++d) around.extents[int(around.grid_axes[d])] = covered.extent(d);
  if (!shares_own_memory(around)) return true;
  std::vector<Box> rest;
  auto const meet = [&](Box const& read, Box const& written) {
    return share_memory(source.view->part(*source.cover, read), target.view->part(*target.cover, written));
  };
  for (auto const& read : source.boxes)
    for (auto const& written : target.boxes) {
      rest.clear();
      append_rest(written, read, rest);
      for (auto const& part : rest)
        if (!part.empty() && meet(read, part)) return false;
      Box const both = intersection(read, written);
      if (both.empty()) continue;
      rest.clear();
      append_rest(read, written, rest);
      for (auto const& part : rest)
        if (!part.empty() && meet(part, both)) return false;
    }
  return true;
}

std::string text_of(Use const& use) {
  return (use.target < 0 ? std::string("the source") : "target " + std::to_string(place_number(use.target))) +
         " of field " + std::to_string(place_number(use.field)) + " (" + to_string(use.view->dtype) + " " +
         to_string(use.view->extents) + ", " + (use.written ? "written" : "read") + ")";
}

/// Address of cell 0 and the way to its neighbors are the same in both.
bool are_aligned(FieldView const& a, Box const& cover_a, FieldView const& b, Box const& cover_b) {
  if (a.dtype != b.dtype || !(a.strides == b.strides) || !(a.grid_axes == b.grid_axes)) return false;
  Index distance = 0;
  for (int d = 0; d < cover_a.ndim(); ++d) distance += (cover_b.lo(d) - cover_a.lo(d)) * a.strides[int(a.grid_axes[d])];
  return static_cast<std::byte*>(a.data) + distance * size_of(a.dtype) == static_cast<std::byte*>(b.data);
}

bool is_identity(Transfer const& transfer) {
  for (int a = 0; a < transfer.to.ndim(); ++a)
    if (transfer.maps[std::size_t(a)] != AxisMap{a, 1, 0}) return false;
  return !transfer.odd_folds && !transfer.negated;
}

/// Bounds the cost for long lists of boxes.
constexpr int most_comparisons = 1 << 22;

}  // namespace

FieldChecks::InPlace const& FieldChecks::in_place(int kind, int target) const {
  auto& known = in_place_[std::size_t(kind)][std::size_t(target)];
  if (known) return *known;
  InPlace result;
  auto const takes_part = [&](Transfer const& t) { return t.kind == kind && t.target == target; };
  std::vector<Box const*> copies;
  auto const add_copies = [&](Box const& to) {
    if (!intersection(to, plan_.owned_of[std::size_t(kind)]).empty()) copies.push_back(&to);
  };
  for (auto const& peer : plan_.table.receives)
    for (auto const& transfer : peer.transfers)
      if (takes_part(transfer)) add_copies(transfer.to);
  for (auto const& filling : plan_.table.fillings)
    if (filling.kind == kind && filling.target == target) add_copies(filling.to);
  for (auto const& transfer : plan_.table.local) {
    if (!takes_part(transfer)) continue;
    if (is_identity(transfer))
      result.stays = true;
    else
      add_copies(transfer.to);
  }
  result.copies_to_owned = !copies.empty();
  int comparisons = 0;
  auto const is_copied_to = [&](Transfer const& t) {
    return t.kind == kind && std::any_of(copies.begin(), copies.end(), [&](Box const* copy) {
             return ++comparisons > most_comparisons || !intersection(t.from, *copy).empty();
           });
  };
  for (auto const& peer : plan_.table.sends)
    result.copies_to_images |= std::any_of(peer.transfers.begin(), peer.transfers.end(), is_copied_to);
  for (auto const& transfer : plan_.table.local)
    result.copies_to_images |= !(takes_part(transfer) && is_identity(transfer)) && is_copied_to(transfer);
  return known.emplace(result);
}

bool FieldChecks::works_in_place(PullField const& field, int target, Direction direction, bool& as_it_is) const {
  auto const& kind = plan_.kinds[std::size_t(field.kind)];
  auto const& cover = kind.targets[std::size_t(target)].box;
  if (!are_aligned(field.source, kind.source_box, field.targets[std::size_t(target)], cover)) return false;
  auto const& cells = in_place(field.kind, target);
  if (cells.copies_to_images) return false;
  // Cells that are copied to themselves are left as they are by a plain copy.
  bool const plain = field.update == Update{} && !field.source_packing && !field.target_packing;
  if (cells.stays && (!plain || direction == Direction::adjoint)) return false;
  // A factor of owned cells is applied to all of them, images or not.
  if (plan_.segments && direction == Direction::adjoint && cells.copies_to_owned) return false;
  as_it_is = as_it_is && !cells.stays;
  return true;
}

namespace {

FieldView view_of(FieldView const& field, Elements const& elements, Indices const& extents) {
  return {elements.first, elements.dtype, extents, elements.strides, {}, field.space};
}

/// Each element of one is that of the other.
bool are_the_same(FieldView const& a, FieldView const& b) {
  if (a.data != b.data || a.dtype != b.dtype || a.extents != b.extents) return false;
  for (int m = 0; m < a.ndim(); ++m)
    if (a.extents[m] > 1 && a.strides[m] != b.strides[m]) return false;
  return true;
}

/// The cells of a view that a call touches, from the transfers that touch them.
std::vector<Touched> touched(PullTable const& table, Use const& use) {
  std::vector<Touched> result;
  auto const& view = *use.view;
  auto const add = [&](Transfer const& transfer, bool stays) {
    if (transfer.kind != use.call->kind || (use.target >= 0 && transfer.target != use.target)) return;
    auto const elements = use.target < 0 ? source_cells(view, use.cover->lo(), transfer)
                                         : target_cells(view, use.cover->lo(), transfer.to);
    bool const keeps_sign = !transfer.odd_folds && !transfer.negated;
    result.push_back(
        {view_of(view, elements, extents_of(view, transfer.to)), stays && keeps_sign ? &transfer : nullptr});
  };
  for (auto const& peer : use.target < 0 ? table.sends : table.receives)
    for (auto const& transfer : peer.transfers) add(transfer, false);
  for (auto const& transfer : table.local) add(transfer, true);
  if (use.target < 0 || !use.written) return result;
  for (auto const& filling : table.fillings)
    if (filling.kind == use.call->kind && filling.target == use.target)
      result.push_back({view_of(view, target_cells(view, use.cover->lo(), filling.to), extents_of(view, filling.to))});
  return result;
}

}  // namespace

namespace {

/// Whether `meet` is true of a pair, one of each list, whose ranges of addresses overlap: few do where blocks follow
/// each other in memory. Calls `give_up` after too many.
template <class Meet, class GiveUp>
bool any_pair(std::vector<Touched>& of_a, std::vector<Touched>& of_b, Meet const& meet, GiveUp const& give_up) {
  auto const by_address = [](Touched const& x, Touched const& y) { return x.range.lo < y.range.lo; };
  std::sort(of_a.begin(), of_a.end(), by_address);
  std::sort(of_b.begin(), of_b.end(), by_address);
  std::vector<Touched const*> open_a;  // those that reach beyond the next address
  std::vector<Touched const*> open_b;
  int comparisons = 0;
  for (std::size_t i = 0, j = 0; i < of_a.size() || j < of_b.size();) {
    bool const from_a = j == of_b.size() || (i < of_a.size() && of_a[i].range.lo <= of_b[j].range.lo);
    Touched const& next = from_a ? of_a[i++] : of_b[j++];
    auto& others = from_a ? open_b : open_a;
    std::erase_if(others, [&](Touched const* other) { return other->range.hi <= next.range.lo; });
    for (auto const* other : others) {
      if (++comparisons > most_comparisons) give_up();
      if (from_a ? meet(next, *other) : meet(*other, next)) return true;
    }
    (from_a ? open_a : open_b).push_back(&next);
  }
  return false;
}

}  // namespace

bool FieldChecks::have_common_cells(Use const& a, Use const& b, Direction direction, bool& as_it_is) const {
  if (!have_common_boxes(a, b)) return false;
  // An adjoint with a factor writes all owned cells, images or not.
  auto const scales = [&](Use const& use) {
    return use.target < 0 && (plan_.segments || use.call->update != Update{});
  };
  if (direction == Direction::adjoint && ((a.target < 0 && b.target < 0) || scales(a) || scales(b))) return true;
  auto of_a = touched(plan_.table, a);
  auto of_b = touched(plan_.table, b);
  // Cells that are copied to themselves are left as they are by a plain copy.
  auto const& call = *a.call;
  bool const may_stay = a.field == b.field && (a.target < 0) != (b.target < 0) && direction != Direction::adjoint &&
                        call.update == Update{} && !call.source_packing && !call.target_packing;
  std::map<Transfer const*, FieldView const*> cells_of;
  std::set<Transfer const*> staying;
  if (may_stay) {
    for (auto const& in_a : of_a)
      if (in_a.transfer) cells_of.emplace(in_a.transfer, &in_a.cells);
    for (auto const& in_b : of_b)
      if (auto const at = cells_of.find(in_b.transfer); at != cells_of.end() && are_the_same(*at->second, in_b.cells))
        staying.insert(in_b.transfer);
  }
  auto const is_left = [&](Use const& use, Transfer const* transfer) {
    return use.written && transfer && staying.contains(transfer);
  };
  auto const meet = [&](Touched const& in_a, Touched const& in_b) {
    return !is_left(a, in_a.transfer) && !is_left(b, in_b.transfer) && share_memory(in_a.cells, in_b.cells);
  };
  auto const give_up = [&] {
    throw Error("AliasedFields", text_of(a) + " and " + text_of(b) + " consist of " + std::to_string(of_a.size()) +
                                     " and " + std::to_string(of_b.size()) +
                                     " boxes, too many to tell apart in memory where they interleave; blocks must "
                                     "follow each other in memory");
  };
  if (any_pair(of_a, of_b, meet, give_up)) return true;
  as_it_is = as_it_is && staying.empty();
  return false;
}

bool FieldChecks::check_apart(std::span<PullField const> fields, Direction direction) const {
  bool const forward = direction == Direction::forward;
  bool const writes_targets = forward || plan_.after_adjoint == AfterAdjoint::zero;
  // Few views find room here, so that calls with other fields each time allocate nothing.
  std::array<Use, 16> few;
  std::vector<Use> many;
  std::size_t count = 0;
  for (auto const& field : fields) count += 1 + field.targets.size();
  if (count > few.size()) many.resize(count);
  auto const uses = count > few.size() ? std::span(many) : std::span(few);
  count = 0;
  auto const add = [&](Use use) {
    use.call = &fields[std::size_t(use.field)];
    use.range = address_range(*use.view);
    if (!use.cover->empty() && use.range.lo < use.range.hi) uses[count++] = use;
  };
  for (std::size_t f = 0; f < fields.size(); ++f) {
    auto const& field = fields[f];
    auto const& kind = plan_.kinds[std::size_t(field.kind)];
    if (auto const& owned = plan_.owned_of[std::size_t(field.kind)]; !owned.empty())
      add({{}, &field.source, &kind.source_box, std::span(&owned, 1), nullptr, int(f), -1, !forward});
    for (std::size_t t = 0; t < kind.targets.size(); ++t)
      add({{},
           &field.targets[t],
           &kind.targets[t].box,
           kind.targets[t].needed,
           nullptr,
           int(f),
           int(t),
           writes_targets});
  }
  auto const used = uses.first(count);
  std::sort(used.begin(), used.end(), [](Use const& a, Use const& b) { return a.range.lo < b.range.lo; });
  bool as_it_is = true;
  for (std::size_t i = 0; i < used.size(); ++i)
    for (std::size_t j = i + 1; j < used.size() && used[j].range.lo < used[i].range.hi; ++j) {
      auto const& a = used[i];
      auto const& b = used[j];
      if (!a.written && !b.written) continue;
      auto const& source = a.target < 0 ? a : b;
      auto const& target = a.target < 0 ? b : a;
      if (a.field == b.field && source.target < 0 && target.target >= 0 &&
          works_in_place(*a.call, target.target, direction, as_it_is) && no_other_cells_meet(source, target))
        continue;
      if (have_common_cells(a, b, direction, as_it_is))
        throw Error("AliasedFields",
                    text_of(a) + " and " + text_of(b) +
                        " have elements in common; memory that a call writes belongs to one view only");
    }
  return as_it_is;
}

}  // namespace graticule::detail
