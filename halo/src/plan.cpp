// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/halo/detail/boundary_map.hpp>
#include <graticule/halo/detail/edges.hpp>
#include <graticule/halo/detail/halo_boxes.hpp>
#include <graticule/halo/plan.hpp>
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/partition/detail/joint_text.hpp>
#include <graticule/partition/detail/speech.hpp>
#include <graticule/repartition/plan_name.hpp>

#include "block_map.hpp"
#include "geometry.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <utility>

namespace graticule {

namespace {

using detail::KnownField;

/// Calls `visit(direction, box)` for each part of `local` outside `owned` that has cells.
template <class Visit>
void for_each_part(Box const& owned, Box const& local, Visit&& visit) {
  if (owned.empty()) return;
  int const ndim = owned.ndim();
  auto direction = Indices::filled(ndim, -1);
  while (true) {
    Box box = owned;
    bool outside = false;
    for (int a = 0; a < ndim; ++a) {
      if (direction[a] < 0) box.set(a, local.lo(a), owned.lo(a));
      if (direction[a] > 0) box.set(a, owned.hi(a), local.hi(a));
      outside = outside || direction[a] != 0;
    }
    if (outside && !box.empty()) visit(direction, box);
    int a = ndim - 1;
    while (a >= 0 && direction[a] == 1) {
      direction[a] = -1;
      --a;
    }
    if (a < 0) return;
    ++direction[a];
  }
}

bool is_corner(Indices const& direction) {
  return direction.size() - std::count(direction.begin(), direction.end(), Index(0)) > 1;
}

}  // namespace

std::vector<Box> halo_boxes(Box const& owned, Box const& local, Corners corners) {
  std::vector<Box> boxes;
  for_each_part(owned, local, [&](Indices const& direction, Box const& box) {
    if (corners == Corners::fill || !is_corner(direction)) boxes.push_back(box);
  });
  return boxes;
}

std::vector<Box> detail::boxes_around(Box const& inner, Box const& outer) {
  std::vector<Box> boxes;
  if (outer.empty()) return boxes;
  Box const hole = intersection(inner, outer);
  if (hole.empty()) return {outer};
  Box rest = outer;
  for (int a = 0; a < outer.ndim(); ++a) {
    Box slab = rest;
    slab.set(a, rest.lo(a), hole.lo(a));
    if (!slab.empty()) boxes.push_back(slab);
    slab.set(a, hole.hi(a), rest.hi(a));
    if (!slab.empty()) boxes.push_back(slab);
    rest.set(a, hole.lo(a), hole.hi(a));
  }
  return boxes;
}

Layout detail::layout_of(Layout const& layout, Boundary const& boundary) {
  auto extents = layout.global().extents();
  auto const has_one_more = [&](int a) { return boundary.axes[std::size_t(a)].stagger == Stagger::all_faces; };
  bool same = true;
  for (int a = 0; a < layout.ndim(); ++a) same = same && (!has_one_more(a) || extents[a] == 0);
  if (same) return layout;
  if (auto const* const grid = layout.grid()) {
    std::vector<Cuts> cuts;
    for (int a = 0; a < layout.ndim(); ++a) {
      auto sizes = layout.cuts(a)->sizes();
      if (has_one_more(a) && extents[a] > 0) ++sizes[std::size_t(layout.cuts(a)->part_of(extents[a] - 1))];
      cuts.emplace_back(std::span<Index const>(sizes));
    }
    return {*grid, std::move(cuts)};
  }
  std::vector<Box> boxes;
  for (int r = 0; r < layout.num_ranks(); ++r) {
    boxes.push_back(layout.owned(r));
    for (int a = 0; a < layout.ndim(); ++a)
      if (has_one_more(a) && !boxes.back().empty() && boxes.back().hi(a) == extents[a])
        boxes.back().set(a, boxes.back().lo(a), extents[a] + 1);
  }
  for (int a = 0; a < layout.ndim(); ++a)
    if (has_one_more(a) && extents[a] > 0) ++extents[a];
  return layout.has_holes() ? Layout::with_holes(extents, boxes) : Layout::from_boxes(extents, boxes);
}

BlockGrid detail::grid_of(BlockGrid const& grid, Boundary const& boundary) {
  auto extents = grid.extents();
  std::vector<Block> blocks(grid.blocks().begin(), grid.blocks().end());
  for (int a = 0; a < grid.ndim(); ++a) {
    if (boundary.axes[std::size_t(a)].stagger != Stagger::all_faces || extents[a] == 0) continue;
    for (auto& block : blocks)
      if (block.box.hi(a) == extents[a]) block.box.set(a, block.box.lo(a), extents[a] + 1);
    ++extents[a];
  }
  return extents == grid.extents() ? grid : BlockGrid(extents, grid.num_faces(), {}, blocks);
}

namespace {

std::string text_of(Width const& width) { return std::to_string(width.lower) + " and " + std::to_string(width.upper); }

void check(HaloKind const& kind, int ndim) {
  for (std::size_t a = 0; a < kind.widths.size(); ++a) {
    auto const& width = kind.widths[a];
    auto const axis = detail::axis_text(Index(a), ndim) + " has widths " + text_of(width);
    if (width.lower < 0 || width.upper < 0) throw Error("BadHaloWidth", axis + "; they must not be negative");
    if (a < kind.memory.size() && (kind.memory[a].lower < width.lower || kind.memory[a].upper < width.upper))
      throw Error("BadHaloWidth", axis + ", which need as much memory, got " + text_of(kind.memory[a]));
  }
  for (auto const& direction : kind.directions)
    if (direction.size() != ndim || std::any_of(direction.begin(), direction.end(), [](Index d) { return d * d > 1; }))
      throw Error("AxesMismatch", "a direction must be -1, 0 or 1 along each of " + std::to_string(ndim) +
                                      " axes, got " + to_string(direction));
}

std::uint64_t fingerprint_of(HaloKind const& kind) {
  Hash hash;
  hash.add(kind.hole)
      .add(kind.component)
      .add(kind.boundary.fingerprint())
      .add(int(kind.corners))
      .add(int(kind.widths_of))
      .add(kind.directions.size());
  for (auto const& direction : kind.directions) hash.add(direction);
  if (kind.widths_of == WidthsOf::this_rank) return hash.value();
  for (auto const* list : {&kind.widths, &kind.memory}) {
    hash.add(list->size());
    for (auto const& width : *list) hash.add(width.lower).add(width.upper);
  }
  return hash.value();
}

bool has_all_faces(Boundary const& boundary, int axis) {
  return axis < int(boundary.axes.size()) && boundary.axes[std::size_t(axis)].stagger == Stagger::all_faces;
}

/// Values on all faces along each axis where a kind has them: fields of every kind are parts of such fields.
Boundary faces_of_all(int ndim, std::vector<HaloKind> const& kinds) {
  auto faces = Boundary::uniform(ndim, Edge::untouched);
  for (auto const& kind : kinds)
    for (int a = 0; a < ndim; ++a)
      if (has_all_faces(kind.boundary, a)) faces.axes[std::size_t(a)].stagger = Stagger::all_faces;
  return faces;
}

bool wants(HaloKind const& kind, Indices const& direction) {
  auto const& listed = kind.directions;
  return listed.empty() || std::find(listed.begin(), listed.end(), direction) != listed.end();
}

IndexMap map_without_copies(Indices const& extents, Boundary boundary) {
  boundary.mirror_line = MirrorLine::keep;
  return detail::boundary_map(extents, boundary);
}

PullKind describe(Layout const& layout, int rank, HaloKind const& kind) {
  check(kind, layout.ndim());
  auto const extents = layout.global().extents();
  auto map = detail::boundary_map(extents, kind.boundary);
  auto const of_kind = detail::layout_of(layout, kind.boundary);
  auto const owned = detail::owned_of(layout, of_kind, rank);
  Target target{detail::local_box(owned, kind), {}};
  if (wants(kind, Indices::filled(layout.ndim(), 0))) {
    target.needed = detail::copied_boxes(extents, kind.boundary, owned);
    if (layout.has_holes()) target.needed = detail::owned_images(target.needed, map, detail::owners_of(of_kind));
  }
  if (layout.has_holes())
    map = detail::with_holes(std::move(map), map_without_copies(extents, kind.boundary), detail::owners_of(of_kind),
                             kind.hole);
  for_each_part(owned, grown(owned, kind.widths), [&](Indices const& direction, Box const& box) {
    if ((kind.corners == Corners::fill || !is_corner(direction)) && wants(kind, direction))
      target.needed.push_back(box);
  });
  return {target.box, {target}, std::move(map), of_kind};
}

/// The kind of the other component of a vector. @throws `BadOption`
HaloKind const& other_component(std::vector<HaloKind> const& kinds, std::size_t k) {
  std::size_t first = k;  // of the run of components in which kind k lies
  while (first > 0 && kinds[first - 1].component >= 0) --first;
  auto const other = (k - first) % 2 == 0 ? k + 1 : k - 1;
  if (other >= kinds.size() || kinds[other].component != 1 - kinds[k].component)
    throw Error("BadOption", "kind " + std::to_string(detail::place_number(Index(k))) + " is component " +
                                 std::to_string(detail::axis_number(kinds[k].component, 2)) +
                                 " of a vector; the kind of the other one is not beside it");
  return kinds[other];
}

void check_components(bool faces_meet, std::vector<HaloKind> const& kinds) {
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    if (kinds[k].component < 0) continue;
    if (!faces_meet || kinds[k].component > 1)
      throw Error("BadOption", "kind " + std::to_string(detail::place_number(Index(k))) + " has component " +
                                   std::to_string(detail::axis_number(kinds[k].component, 2)) +
                                   "; components of vectors are told apart along the 2 axes of faces that meet");
    auto const& other = other_component(kinds, k);
    auto const same = [](std::vector<Width> const& a, std::vector<Width> const& b) {
      return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                        [](Width const& x, Width const& y) { return x.lower == y.lower && x.upper == y.upper; });
    };
    if (!same(kinds[k].widths, other.widths) || !same(kinds[k].memory, other.memory) ||
        kinds[k].corners != other.corners || kinds[k].directions != other.directions)
      throw Error("BadOption", "kinds of the components of a vector have halos of different widths or parts");
    auto const& axes = kinds[k].boundary.axes;
    auto const& others = other.boundary.axes;
    if (axes.size() == 2 && others.size() == 2 &&
        (axes[0].stagger != others[1].stagger || axes[1].stagger != others[0].stagger))
      throw Error("BadOption",
                  "values of the components of a vector lie on all faces along the axis of the component, or along the "
                  "other one, for both of them alike");
  }
}

/// Values on all faces have names on both of the sides that meet.
void check_stagger_on_faces(BlockGrid const& grid, HaloKind const& kind) {
  int num_staggered = 0;
  for (int a : {0, 1}) {
    auto const stagger = kind.boundary.axes[std::size_t(a)].stagger;
    if (stagger != Stagger::centre && stagger != Stagger::all_faces)
      throw Error("BadBoundary", detail::axis_text(a, 2) + " has values on " +
                                     (stagger == Stagger::low_face ? "low" : "high") +
                                     " faces; on faces that meet they lie in centres or on all faces");
    num_staggered += stagger == Stagger::all_faces ? 1 : 0;
  }
  if (num_staggered == 0) return;
  if (kind.component < 0 && num_staggered == 1)
    throw Error("BadBoundary",
                "values on all faces along one axis are components of vectors where faces meet with a turn; scalars "
                "have them along both axes or none");
  if (kind.component >= 0 && num_staggered == 2)
    throw Error("BadBoundary",
                "components of vectors on all faces along both axes have no common directions where three faces meet");
  for (int f = 0; f < grid.num_faces(); ++f)
    for (int a : {0, 1})
      for (auto const end : {AxisEnd::lower, AxisEnd::upper})
        if (auto const* joint = grid.beyond({f, a, end}); joint != nullptr && joint->other == joint->one)
          throw Error("BadBoundary",
                      "face " + std::to_string(detail::place_number(f)) +
                          " has a side that meets itself, where values on all faces are their own copies");
}

void check_on_faces(BlockGrid const& grid, HaloKind const& kind) {
  for (int a : {0, 1}) {
    auto const& axis = kind.boundary.axes[std::size_t(a)];
    if (axis.lower != Edge::untouched || axis.upper != Edge::untouched)
      throw Error("BadBoundary", detail::axis_text(a, 2) + " has the rules " + to_string(axis.lower) + " and " +
                                     to_string(axis.upper) + "; on faces that meet, both are " +
                                     to_string(Edge::untouched));
    for (int b : {0, 1})
      if (auto const& width = kind.widths[std::size_t(a)]; std::max(width.lower, width.upper) > grid.extents()[b])
        throw Error("BadHaloWidth", detail::axis_text(a, 2) + " has widths " + text_of(width) + " on faces of " +
                                        to_string(grid.extents()) + " cells");
  }
  check_stagger_on_faces(grid, kind);
}

/// Adds what a rank needs of `kind` for its fields of `written`, the kind itself or that of the other component.
void add_needed(Target& target, detail::FaceValues const& values, int rank, HaloKind const& written, bool of_other,
                bool of_vector) {
  auto const& grid = values.owners.front();
  int const first = grid.first_block(rank);
  for (int b = first; b < first + grid.num_blocks(rank); ++b) {
    auto const& block = grid.blocks()[std::size_t(b)];
    int const number = b + (of_other ? int(grid.blocks().size()) : 0);
    auto const add = [&](Box const& box, bool owned) {
      for (auto const& image : detail::images_on_faces(values, block.face, box)) {
        bool const is_own = image.owner < 0 || image.in_place(block.face);
        if ((of_vector && image.turned() != of_other) || (owned && is_own)) continue;
        target.needed.push_back(detail::in_block(image.box, number, block.box));
      }
    };
    if (wants(written, Indices::filled(2, 0))) add(block.box, true);
    for_each_part(block.box, grown(block.box, written.widths), [&](Indices const& direction, Box const& box) {
      if ((written.corners == Corners::fill || !is_corner(direction)) && wants(written, direction)) add(box, false);
    });
  }
}

/// Blocks of faces that meet. Components have two targets: their own field, and that of the other one (`partner`),
/// whose blocks are counted after all others.
PullKind describe_on_faces(BlockGrid const& grid, int rank, HaloKind const& kind, HaloKind const& partner) {
  check_on_faces(grid, kind);
  auto const values = detail::values_on_faces(grid, kind.boundary);
  auto const other = detail::values_on_faces(grid, partner.boundary);
  bool const of_vector = kind.component >= 0;
  auto const& layout = values.owners.front().layout();
  Target own{detail::local_box_of_blocks(layout.owned(rank), kind), {}};
  add_needed(own, values, rank, kind, false, of_vector);
  PullKind result{own.box, {own}, detail::map_of_faces(values, other, kind.component, kind.hole), layout};
  if (!of_vector) return result;
  Target turned{detail::local_box_of_blocks(other.owners.front().layout().owned(rank), partner), {}};
  auto const num_blocks = Index(grid.blocks().size());
  turned.box.set(0, turned.box.lo(0) + num_blocks, turned.box.hi(0) + num_blocks);
  add_needed(turned, other, rank, partner, true, true);
  result.targets.push_back(turned);
  return result;
}

/// The same for blocks, in coordinates (number of the block, place in the block).
PullKind describe(BlockGrid const& grid, int rank, HaloKind const& kind, HaloKind const& partner) {
  int const ndim = grid.ndim();
  check(kind, ndim);
  if (int(kind.widths.size()) != ndim || (!kind.memory.empty() && int(kind.memory.size()) != ndim))
    throw Error("AxesMismatch", "blocks of " + std::to_string(ndim) + " axes need halo widths for each, got " +
                                    std::to_string(kind.widths.size()));
  auto const map = detail::boundary_map(grid.extents(), kind.boundary);
  if (grid.num_faces() > 1 || grid.has_joints()) return describe_on_faces(grid, rank, kind, partner);
  auto const of_kind = detail::grid_of(grid, kind.boundary);
  Target target{detail::local_box_of_blocks(of_kind.layout().owned(rank), kind), {}};
  int const first = grid.first_block(rank);
  for (int b = first; b < first + grid.num_blocks(rank); ++b) {
    Box const& block = of_kind.blocks()[std::size_t(b)].box;
    if (wants(kind, Indices::filled(ndim, 0)))
      for (auto const& box : detail::owned_images(detail::copied_boxes(grid.extents(), kind.boundary, block), map,
                                                  detail::owners_of(of_kind)))
        target.needed.push_back(detail::in_block(box, b, block));
    for_each_part(block, grown(block, kind.widths), [&](Indices const& direction, Box const& box) {
      if ((kind.corners == Corners::fill || !is_corner(direction)) && wants(kind, direction))
        target.needed.push_back(detail::in_block(box, b, block));
    });
  }
  return {target.box,
          {target},
          detail::map_of_blocks(map, map_without_copies(grid.extents(), kind.boundary), of_kind, kind.hole),
          of_kind.layout()};
}

/// All digits, so that different numbers have different texts.
std::string text_of(double number) {
  std::array<char, 32> text{};
  auto const end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  return {text.data(), end};
}

std::string text_of(AxisBoundary const& axis) {
  auto text = to_string(axis.lower) + "/" + to_string(axis.upper);
  if (axis.lower == Edge::constant || axis.upper == Edge::constant || axis.constant != 0)
    text += " " + text_of(axis.constant);
  if (axis.stagger != Stagger::centre)
    text += axis.stagger == Stagger::low_face    ? " of values on low faces"
            : axis.stagger == Stagger::high_face ? " of values on high faces"
                                                 : " of values on all faces";
  return text;
}

/// Of a list over axes: in Fortran its first dimension, which is the last axis, comes first.
template <class T>
std::vector<T> in_spoken_order(std::vector<T> list) {
  if (detail::speech() == detail::Speech::fortran) std::reverse(list.begin(), list.end());
  return list;
}

std::string text_of(std::vector<Width> const& widths) {
  std::string text;
  for (auto const& width : in_spoken_order(widths)) text += (text.empty() ? " " : " x ") + text_of(width);
  return text;
}

/// What the fingerprint holds, for an error when ranks differ.
std::string text_of(HaloKind const& kind) {
  auto const& boundary = kind.boundary;
  bool const own = kind.widths_of == WidthsOf::this_rank;
  std::string text = own ? "own widths" : "widths" + text_of(kind.widths);
  if (!kind.memory.empty() && !own) text += ", memory" + text_of(kind.memory);
  bool first = true;
  for (auto const& axis : in_spoken_order(boundary.axes))
    text += (std::exchange(first, false) ? ", edges " : ", ") + text_of(axis);
  if (boundary.longitude_axis != -1)
    text += ", longitude " + detail::axis_text(boundary.longitude_axis, Index(boundary.axes.size()));
  if (boundary.odd_longitudes == OddLongitudes::shift_floor) text += ", odd longitudes shifted";
  if (boundary.mirror_line == MirrorLine::copy) text += ", mirror line copied";
  if (kind.hole != 0) text += ", holes " + text_of(kind.hole);
  if (kind.component >= 0) text += ", component " + std::to_string(detail::axis_number(kind.component, 2));
  if (boundary.pivot) text += ", pivot " + std::to_string(*boundary.pivot);
  text += kind.corners == Corners::fill ? ", corners" : ", no corners";
  if (!kind.directions.empty()) text += ", directions";
  for (auto const& direction : kind.directions) text += " " + to_string(direction);
  return text;
}

PullDescription describe_agreed(Comm const& comm, Layout const& layout, std::vector<HaloKind> const& kinds) {
  PullDescription result{layout, {}, 0, AfterAdjoint::zero};
  run_agreed(comm, [&] {
    if (kinds.empty()) throw Error("BadOption", "a halo plan needs at least one kind of field");
    check_components(false, kinds);
    Hash hash;
    for (auto const& kind : kinds) {
      result.kinds.push_back(describe(layout, comm.rank(), kind));
      hash.add(fingerprint_of(kind));
    }
    result.source = detail::layout_of(layout, faces_of_all(layout.ndim(), kinds));
    result.fingerprint = hash.value();
  });
  std::string text = to_string(layout);
  for (auto const& kind : kinds) text += "; " + text_of(kind);
  require_same(comm, "ArgumentDisagreement", Hash().add(result.fingerprint).add(layout.fingerprint()).value(),
               detail::plan_prefix() + text);
  return result;
}

PullDescription describe_agreed(Comm const& comm, BlockGrid const& grid, std::vector<HaloKind> const& kinds) {
  PullDescription result{grid.layout(), {}, 0, AfterAdjoint::zero};
  run_agreed(comm, [&] {
    if (kinds.empty()) throw Error("BadOption", "a halo plan needs at least one kind of field");
    Hash hash;
    hash.add(grid.fingerprint());
    check_components(grid.has_joints(), kinds);
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      auto const& partner = kinds[k].component < 0 ? kinds[k] : other_component(kinds, k);
      result.kinds.push_back(describe(grid, comm.rank(), kinds[k], partner));
      hash.add(fingerprint_of(kinds[k]));
    }
    result.source = detail::grid_of(grid, faces_of_all(grid.ndim(), kinds)).layout();
    result.fingerprint = hash.value();
  });
  std::string text = to_string(grid);
  for (auto const& kind : kinds) text += "; " + text_of(kind);
  for (auto const& joint : detail::joint_texts(grid)) text += "; " + joint;
  require_same(comm, "ArgumentDisagreement", result.fingerprint, detail::plan_prefix() + text);
  return result;
}

/// Fields as both sources and targets. Calls of few fields allocate nothing, and only the fields given are initialized.
class InPlace {
 public:
  /// With `components`, fields of these kinds write to the field of the other component, too, which is beside them.
  InPlace(std::span<HaloField const> fields, std::span<HaloKind const> components) : size_(fields.size()) {
    if (size_ > most_) many_.resize(size_);
    if (!components.empty()) pairs_.resize(size_);
    for (std::size_t i = 0; i < size_; ++i) {
      auto const& field = fields[i];
      auto targets = std::span(&field.view, 1);
      if (auto const other = partner(fields, components, i); other < size_) {
        pairs_[i] = {field.view, fields[other].view};
        targets = pairs_[i];
      }
      PullField const pulled{field.view, targets, field.parity, field.kind};
      if (size_ > most_)
        many_[i] = pulled;
      else
        std::construct_at(&few_[i], pulled);
    }
  }
  InPlace(InPlace const&) = delete;
  InPlace& operator=(InPlace const&) = delete;
  ~InPlace() {
    if (size_ <= most_) std::destroy_n(few_, size_);
  }
  [[nodiscard]] std::span<PullField const> fields() const { return {size_ > most_ ? many_.data() : few_, size_}; }

 private:
  /// The field of the other component; past the end for none, which the plan refuses, so that the peers are told.
  [[nodiscard]] static std::size_t partner(std::span<HaloField const> fields, std::span<HaloKind const> kinds,
                                           std::size_t i) {
    auto const component = [&](std::size_t f) {
      int const kind = fields[f].kind;
      return kind >= 0 && kind < int(kinds.size()) ? kinds[std::size_t(kind)].component : -1;
    };
    if (component(i) < 0) return fields.size();
    std::size_t first = i;
    while (first > 0 && component(first - 1) >= 0) --first;
    auto const other = (i - first) % 2 == 0 ? i + 1 : i - 1;
    return other < fields.size() && component(other) == 1 - component(i) ? other : fields.size();
  }

  static constexpr std::size_t most_ = 16;
  std::vector<std::array<FieldView, 2>> pairs_;
  std::size_t size_;
  union {
    PullField few_[most_];
  };
  std::vector<PullField> many_;
};

}  // namespace

HaloPlan::HaloPlan(Comm const& comm, Layout const& layout, std::vector<Width> const& widths, Boundary const& boundary,
                   Corners corners)
    : HaloPlan(comm, layout, std::vector<HaloKind>{{widths, boundary, corners}}) {}

HaloPlan::HaloPlan(Comm const& comm, Layout const& layout, std::vector<HaloKind> kinds)
    : layout_(layout),
      grid_extents_(layout.global().extents()),
      kinds_(std::move(kinds)),
      owned_(layout.owned(comm.rank())),
      plan_(comm, describe_agreed(comm, layout_, kinds_)) {
  for (auto const& kind : kinds_) {
    layouts_.push_back(detail::layout_of(layout_, kind.boundary));
    owned_of_.push_back(detail::owned_of(layout_, layouts_.back(), comm.rank()));
    local_.push_back(detail::local_box(owned_of_.back(), kind));
  }
}

HaloPlan::HaloPlan(Comm const& comm, BlockGrid const& blocks, std::vector<HaloKind> kinds)
    : layout_(blocks.layout()),
      grid_extents_(blocks.extents()),
      kinds_(std::move(kinds)),
      owned_(layout_.owned(comm.rank())),
      plan_(comm, describe_agreed(comm, blocks, kinds_)) {
  has_components_ = std::any_of(kinds_.begin(), kinds_.end(), [](HaloKind const& k) { return k.component >= 0; });
  faces_meet_ = blocks.has_joints();
  for (auto const& kind : kinds_) {
    blocks_.push_back(detail::grid_of(blocks, kind.boundary));
    layouts_.push_back(blocks_.back().layout());
    owned_of_.push_back(layouts_.back().owned(comm.rank()));
    local_.push_back(detail::local_box_of_blocks(owned_of_.back(), kind));
  }
}

Box HaloPlan::interior_of_blocks(std::span<Width const> reach, int kind) const {
  auto const& boundary = kinds_[std::size_t(kind)].boundary;
  auto const& owned = owned_of_[std::size_t(kind)];
  Box result = owned;
  if (owned.empty()) return result;
  for (int b = int(owned.lo(0)); b < int(owned.hi(0)); ++b) {
    Box const& block = blocks_[std::size_t(kind)].blocks()[std::size_t(b)].box;
    // Copies lie in the first row or in the last; where faces meet, on their sides.
    bool const copies = !detail::copied_boxes(grid_extents_, boundary, block).empty();
    for (int a = 0; a < block.ndim(); ++a) {
      auto const& axis = boundary.axes[std::size_t(a)];
      Index const fold = copies && (is_fold(axis.lower) || is_fold(axis.upper)) ? 1 : 0;
      bool const on_side = faces_meet_ && axis.stagger == Stagger::all_faces;
      Index const below = fold + (on_side && block.lo(a) == 0 ? 1 : 0);
      Index const above = fold + (on_side && block.hi(a) > grid_extents_[a] ? 1 : 0);
      auto const& width = reach[std::size_t(a)];
      Index const extent = block.extent(a);
      Index const lo = std::max(result.lo(a + 1), std::min(width.lower + below, extent));
      result.set(a + 1, lo, std::min(result.hi(a + 1), extent - std::min(width.upper + above, extent)));
    }
  }
  return result.empty() ? Box(owned.lo(), owned.lo()) : result;
}

Box HaloPlan::interior(std::span<Width const> reach, int kind) const {
  int const ndim = blocks_.empty() ? owned_.ndim() : owned_.ndim() - 1;
  if (int(reach.size()) != ndim)
    throw Error("AxesMismatch", std::to_string(reach.size()) + " reaches on " + std::to_string(ndim) + " axes");
  for (auto const& width : reach)
    if (width.lower < 0 || width.upper < 0)
      throw Error("BadHaloWidth", "a stencil that reaches " + text_of(width) + " cells");
  if (!blocks_.empty()) return interior_of_blocks(reach, int(checked(kind)));
  auto const& boundary = kinds_[checked(kind)].boundary;
  auto const& owned = owned_of_[checked(kind)];
  Box result = owned;
  for (auto const& copies : detail::copied_boxes(grid_extents_, boundary, owned))
    for (int a = 0; a < owned.ndim(); ++a) {
      auto const& axis = boundary.axes[std::size_t(a)];
      if (!is_fold(axis.lower) && !is_fold(axis.upper)) continue;
      // Copies lie in the first row or in the last.
      if (copies.lo(a) == 0)
        result.set(a, 1, result.hi(a));
      else
        result.set(a, result.lo(a), copies.lo(a));
    }
  for (int a = 0; a < owned.ndim(); ++a) {
    // Any reach beyond the box leaves nothing.
    Index const extent = owned.extent(a);
    auto const& width = reach[std::size_t(a)];
    result.set(a, result.lo(a) + std::min(width.lower, extent), result.hi(a) - std::min(width.upper, extent));
  }
  return result.empty() ? Box(owned.lo(), owned.lo()) : result;
}

std::vector<Box> HaloPlan::border(std::span<Width const> reach, int kind) const {
  return detail::boxes_around(interior(reach, kind), owned_of_[checked(kind)]);
}

namespace {

/// Calls `repeat` with the fields, few of them, as a plan that has just had them knows them; false for many.
template <class Repeat>
bool repeats(std::span<HaloField const> fields, Repeat&& repeat) {
  constexpr std::size_t most = 16;
  if (fields.empty() || fields.size() > most) return false;
  std::array<KnownField, most> known;
  for (std::size_t f = 0; f < fields.size(); ++f)
    known[f] = {&fields[f].view, &fields[f].view, fields[f].parity, fields[f].kind};
  return repeat(std::span<KnownField const>(known.data(), fields.size()));
}

}  // namespace

void HaloPlan::exchange(std::span<HaloField const> fields) const {
  if (repeats(fields, [&](auto known) { return plan_.apply_again(known); })) return;
  plan_.start(InPlace(fields, components()).fields()).wait();
}

Pending HaloPlan::start(std::span<HaloField const> fields, DeviceQueue const& queue) const {
  Pending again;
  if (repeats(fields, [&](auto known) { return plan_.start_again(known, again); })) return again;
  return plan_.start(InPlace(fields, components()).fields(), queue);
}

Pending HaloPlan::start_adjoint(std::span<HaloField const> fields, DeviceQueue const& queue) const {
  return plan_.start_adjoint(InPlace(fields, components()).fields(), queue);
}

TuningRecord HaloPlan::tune(std::span<HaloField const> fields, int num_calls) {
  return graticule::tune(plan_, InPlace(fields, components()).fields(), num_calls);
}

}  // namespace graticule
