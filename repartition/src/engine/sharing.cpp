// SPDX-License-Identifier: BSD-3-Clause
// Which fields of a call have memory in common, where one of them is written.
#include <graticule/repartition/detail/overlap.hpp>

#include "pull_state.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace graticule::detail {

namespace {

/// One view of a call, and what the call does with it.
struct Use {
  AddressRange range;
  FieldView const* view;
  Box const* cover;
  std::span<Box const> boxes;  ///< the cells that are read or written
  int field;
  int target;  ///< -1: the source
  bool written;
};

bool in_common(Use const& a, Use const& b) {
  if (!share_memory(*a.view, *b.view)) return false;
  for (auto const& box_a : a.boxes) {
    auto const part = a.view->part(*a.cover, box_a);
    for (auto const& box_b : b.boxes)
      if (share_memory(part, b.view->part(*b.cover, box_b))) return true;
  }
  return false;
}

std::string text_of(Use const& use) {
  return (use.target < 0 ? std::string("the source") : "target " + std::to_string(use.target)) + " of field " +
         std::to_string(use.field) + " (" + to_string(use.view->dtype) + " " + to_string(use.view->extents) + ", " +
         (use.written ? "written" : "read") + ")";
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

/// Longer lists of boxes count as if some shared cells, to bound the cost.
constexpr int most_comparisons = 1 << 18;

}  // namespace

PullState::InPlace const& PullState::in_place(int kind, int target) const {
  auto& known = in_place_[std::size_t(kind)][std::size_t(target)];
  if (known) return *known;
  InPlace result;
  auto const takes_part = [&](Transfer const& t) { return t.kind == kind && t.target == target; };
  std::vector<Box const*> copies;
  auto const add_copies = [&](Box const& to) {
    if (!intersection(to, owned_).empty()) copies.push_back(&to);
  };
  for (auto const& peer : table_.receives)
    for (auto const& transfer : peer.transfers)
      if (takes_part(transfer)) add_copies(transfer.to);
  for (auto const& filling : table_.fillings)
    if (filling.kind == kind && filling.target == target) add_copies(filling.to);
  for (auto const& transfer : table_.local) {
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
  for (auto const& peer : table_.sends)
    result.copies_to_images |= std::any_of(peer.transfers.begin(), peer.transfers.end(), is_copied_to);
  for (auto const& transfer : table_.local)
    result.copies_to_images |= !(takes_part(transfer) && is_identity(transfer)) && is_copied_to(transfer);
  return known.emplace(result);
}

bool PullState::works_in_place(PullField const& field, int target, Direction direction, bool& as_it_is) const {
  auto const& kind = kinds_[std::size_t(field.kind)];
  auto const& cover = kind.targets[std::size_t(target)].box;
  if (!are_aligned(field.source, kind.source_box, field.targets[std::size_t(target)], cover)) return false;
  auto const& cells = in_place(field.kind, target);
  if (cells.copies_to_images) return false;
  // Cells that are copied to themselves are left as they are by a plain copy.
  bool const plain = field.update == Update{} && !field.source_packing && !field.target_packing;
  if (cells.stays && (!plain || direction == Direction::adjoint)) return false;
  // A factor of owned cells is applied to all of them, images or not.
  if (stream_plan_ && direction == Direction::adjoint && cells.copies_to_owned) return false;
  as_it_is = as_it_is && !cells.stays;
  return true;
}

bool PullState::check_apart(std::span<PullField const> fields, Direction direction) const {
  bool const forward = direction == Direction::forward;
  bool const writes_targets = forward || after_adjoint_ == AfterAdjoint::zero;
  // Few views find room here, so that calls with other fields each time allocate nothing.
  std::array<Use, 16> few;
  std::vector<Use> many;
  std::size_t count = 0;
  for (auto const& field : fields) count += 1 + field.targets.size();
  if (count > few.size()) many.resize(count);
  auto const uses = count > few.size() ? std::span(many) : std::span(few);
  count = 0;
  auto const add = [&](Use use) {
    use.range = address_range(*use.view);
    if (!use.cover->empty() && use.range.lo < use.range.hi) uses[count++] = use;
  };
  for (std::size_t f = 0; f < fields.size(); ++f) {
    auto const& field = fields[f];
    auto const& kind = kinds_[std::size_t(field.kind)];
    if (!owned_.empty()) add({{}, &field.source, &kind.source_box, std::span(&owned_, 1), int(f), -1, !forward});
    for (std::size_t t = 0; t < kind.targets.size(); ++t)
      add({{}, &field.targets[t], &kind.targets[t].box, kind.targets[t].needed, int(f), int(t), writes_targets});
  }
  auto const used = uses.first(count);
  std::sort(used.begin(), used.end(), [](Use const& a, Use const& b) { return a.range.lo < b.range.lo; });
  bool as_it_is = true;
  for (std::size_t i = 0; i < used.size(); ++i)
    for (std::size_t j = i + 1; j < used.size() && used[j].range.lo < used[i].range.hi; ++j) {
      auto const& a = used[i];
      auto const& b = used[j];
      if (!a.written && !b.written) continue;
      if (a.field == b.field && (a.target < 0) != (b.target < 0) &&
          works_in_place(fields[std::size_t(a.field)], std::max(a.target, b.target), direction, as_it_is))
        continue;
      if (in_common(a, b))
        throw Error("AliasedFields",
                    text_of(a) + " and " + text_of(b) +
                        " have elements in common; memory that a call writes belongs to one view only");
    }
  return as_it_is;
}

void PullState::require_apart(Workspace const& w, std::span<FieldView const> sources) const {
  std::array<PullField, 16> few;
  std::vector<PullField> many(sources.size() > few.size() ? sources.size() : 0);
  auto const fields = sources.size() > few.size() ? std::span(many) : std::span(few).first(sources.size());
  for (std::size_t f = 0; f < fields.size(); ++f) {
    auto const& kind = kinds_[std::size_t(w.shape.kinds[f])];
    fields[f].source = sources[f];
    fields[f].targets = std::span(w.targets).subspan(w.first_target[f], kind.targets.size());
    fields[f].kind = w.shape.kinds[f];
  }
  (void)check_apart(fields, Direction::adjoint);
}

}  // namespace graticule::detail
