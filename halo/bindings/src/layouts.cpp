// SPDX-License-Identifier: BSD-3-Clause
// Communicators, cuts and layouts.
#include <graticule/halo/grid_choice.hpp>
#include <graticule/partition/detail/agreement.hpp>
#include <graticule/partition/detail/check_mpi.hpp>
#include <graticule/partition/detail/hash.hpp>
#include <graticule/partition/detail/joint_text.hpp>
#include <graticule/partition/detail/numbering.hpp>
#include <graticule/partition/failure.hpp>
#include <graticule/partition/placement.hpp>
#include <graticule/partition/relabel.hpp>
#include <graticule/partition/shared_layout.hpp>

#include "handles.hpp"
#include "structures.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>

using namespace graticule;

namespace {

#ifdef MPI_ABI_VERSION
MPI_Comm comm_of_number(MPI_Fint number) { return MPI_Comm_fromint(number); }
MPI_Fint number_of_comm(MPI_Comm comm) { return MPI_Comm_toint(comm); }
#else
MPI_Comm comm_of_number(MPI_Fint number) { return MPI_Comm_f2c(number); }
MPI_Fint number_of_comm(MPI_Comm comm) { return MPI_Comm_c2f(comm); }
#endif

}  // namespace
using namespace graticule::c;

namespace {

/// MPI ends the program where it gets a handle that is none; here the question is asked with errors returned.
bool is_communicator(MPI_Comm comm) {
  std::array const owners{MPI_COMM_WORLD, MPI_COMM_SELF};
  std::array<MPI_Errhandler, 2> handlers{MPI_ERRHANDLER_NULL, MPI_ERRHANDLER_NULL};
  for (std::size_t i = 0; i < owners.size(); ++i) {
    check_mpi(MPI_Comm_get_errhandler(owners[i], &handlers[i]), "MPI_Comm_get_errhandler");
    check_mpi(MPI_Comm_set_errhandler(owners[i], MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  }
  int size = 0;
  bool const answers = MPI_Comm_size(comm, &size) == MPI_SUCCESS;
  for (std::size_t i = 0; i < owners.size(); ++i) {
    check_mpi(MPI_Comm_set_errhandler(owners[i], handlers[i]), "MPI_Comm_set_errhandler");
    check_mpi(MPI_Errhandler_free(&handlers[i]), "MPI_Errhandler_free");
  }
  return answers;
}

}  // namespace

gr_status gr_comm_create(MPI_Comm mpi, gr_comm** comm) {
  return GR_BODY({
    required(comm, "comm");
    give(comm, Comm(mpi));
  });
}

gr_status gr_comm_create_f(MPI_Fint mpi, gr_comm** comm) {
  return GR_BODY({
    required(comm, "comm");
    int started = 0;
    MPI_Initialized(&started);
    MPI_Comm const handle = started != 0 ? comm_of_number(mpi) : MPI_COMM_NULL;
    if (handle != MPI_COMM_NULL && !is_communicator(handle))
      throw bad_argument("mpi is " + std::to_string(mpi) + ", which is no communicator of Fortran");
    give(comm, Comm(handle));
  });
}

gr_status gr_comm_destroy(gr_comm** comm) {
  return GR_FREE({ free_handle(comm, "comm"); });
}

gr_status gr_comm_rank(gr_comm const* comm, int* rank) {
  return GR_BODY({ required(rank, "rank") = required(comm, "comm").comm.rank(); });
}

gr_status gr_comm_size(gr_comm const* comm, int* num_ranks) {
  return GR_BODY({ required(num_ranks, "num_ranks") = required(comm, "comm").comm.num_ranks(); });
}

gr_status gr_comm_node(gr_comm const* comm, int* num_node_ranks, int* node_rank) {
  return GR_BODY({
    auto const& of = required(comm, "comm").comm;
    auto& number = required(num_node_ranks, "num_node_ranks");
    required(node_rank, "node_rank") = of.node_rank();
    number = of.num_node_ranks();
  });
}

gr_status gr_comm_nodes(gr_comm const* comm, int num_ranks, int* nodes) {
  return GR_BODY({
    auto const& of = required(comm, "comm").comm;
    run_agreed(of, [&] {
      required(nodes, "nodes");
      if (num_ranks != of.num_ranks())
        throw bad_argument("num_ranks is " + std::to_string(num_ranks) + ", the communicator has " +
                           std::to_string(of.num_ranks()));
    });
    auto const all = nodes_of_ranks(of);
    std::copy(all.begin(), all.end(), nodes);
  });
}

gr_status gr_comm_mpi(gr_comm const* comm, MPI_Comm* mpi) {
  return GR_BODY({ *not_null(mpi, "mpi") = required(comm, "comm").comm.handle(); });
}

gr_status gr_comm_mpi_f(gr_comm const* comm, MPI_Fint* mpi) {
  return GR_BODY({ required(mpi, "mpi") = number_of_comm(required(comm, "comm").comm.handle()); });
}

gr_status gr_comm_renew(gr_comm* comm) {
  return GR_BODY({ required(comm, "comm").comm.renew(); });
}

gr_status gr_comm_announce_failure(gr_comm const* comm, char const* text) {
  return GR_BODY({
    auto const& of = required(comm, "comm").comm;
    announce_failure(std::span<Comm const>(&of, 1), std::string(&required(text, "text")));
  });
}

gr_status gr_teams_create(gr_comm const* comm, int num_axes, char const* const* names, int const* sizes,
                          gr_teams** teams) {
  return GR_BODY({
    auto const& of = required(comm, "comm").comm;
    auto const axes = agreed(of, [&] {
      required(teams, "teams");
      require_count(num_axes, 1, "num_axes");
      auto const all = texts_of(num_axes, names, "names");
      required(sizes, "sizes");
      std::vector<Teams::Axis> result;
      for (int a = 0; a < num_axes; ++a) result.push_back({all[std::size_t(a)], sizes[a]});
      return result;
    });
    give(teams, Teams(of, axes));
  });
}

gr_status gr_teams_destroy(gr_teams** teams) {
  return GR_FREE({ free_handle(teams, "teams"); });
}

gr_status gr_teams_world(gr_teams const* teams, gr_comm** comm) {
  return GR_BODY({
    auto const& of = required(teams, "teams").teams;
    required(comm, "comm");
    give(comm, of.world());
  });
}

gr_status gr_teams_team(gr_teams const* teams, char const* name, gr_comm** comm) {
  return GR_BODY({
    auto const& of = required(teams, "teams").teams;
    required(comm, "comm");
    give(comm, of.team(&required(name, "name")));
  });
}

gr_status gr_cuts_create(int num_parts, int64_t const* sizes, gr_cuts** cuts) {
  return GR_BODY({
    require_count(num_parts, 1, "num_parts");
    required(cuts, "cuts");
    give(cuts, Cuts(std::span<Index const>(&required(sizes, "sizes"), std::size_t(num_parts))));
  });
}

gr_status gr_cuts_create_balanced(int64_t extent, int num_parts, gr_cuts** cuts) {
  return GR_BODY({
    required(cuts, "cuts");
    give(cuts, balanced_cuts(extent, num_parts));
  });
}

gr_status gr_cuts_create_weighted(int num_cells, double const* weights, int num_parts, int64_t min_cells,
                                  gr_cuts** cuts) {
  return GR_BODY({
    require_count(num_cells, 0, "num_cells");
    required(cuts, "cuts");
    give(cuts, weighted_cuts(std::span<double const>(&required(weights, "weights"), std::size_t(num_cells)), num_parts,
                             min_cells));
  });
}

gr_status gr_cuts_create_rebalanced(gr_cuts const* old, int num_parts, double const* seconds, int64_t min_cells,
                                    gr_cuts** cuts) {
  return GR_BODY({
    auto const& from = required(old, "old").cuts;
    required(cuts, "cuts");
    if (num_parts != from.num_parts())
      throw bad_argument("num_parts is " + std::to_string(num_parts) + ", the cuts have " +
                         std::to_string(from.num_parts()) + " parts");
    give(cuts, rebalanced_cuts(from, std::span<double const>(&required(seconds, "seconds"), std::size_t(num_parts)),
                               min_cells));
  });
}

gr_status gr_cuts_num_parts(gr_cuts const* cuts, int* num_parts) {
  return GR_BODY({ required(num_parts, "num_parts") = required(cuts, "cuts").cuts.num_parts(); });
}

gr_status gr_cuts_sizes(gr_cuts const* cuts, int num_parts, int64_t* sizes) {
  return GR_BODY({
    auto const& of = required(cuts, "cuts").cuts;
    if (num_parts != of.num_parts())
      throw bad_argument("num_parts is " + std::to_string(num_parts) + ", the cuts have " +
                         std::to_string(of.num_parts()) + " parts");
    auto const all = of.sizes();
    std::copy(all.begin(), all.end(), &required(sizes, "sizes"));
  });
}

gr_status gr_cuts_destroy(gr_cuts** cuts) {
  return GR_FREE({ free_handle(cuts, "cuts"); });
}

gr_status gr_area_weights(int num_rows, double const* latitudes, double* weights) {
  return GR_BODY({
    require_count(num_rows, 1, "num_rows");
    auto& to = required(weights, "weights");
    auto const all = area_weights(std::span<double const>(&required(latitudes, "latitudes"), std::size_t(num_rows)));
    std::copy(all.begin(), all.end(), &to);
  });
}

gr_status gr_layout_create(int ndim, int64_t const* extents, int const* num_parts, gr_layout** layout) {
  return GR_BODY({
    required(layout, "layout");
    auto const cells = indices(extents, ndim, "extents");
    required(num_parts, "num_parts");
    Indices parts;
    for (int a = 0; a < ndim; ++a) parts.push_back(num_parts[a]);
    give(layout, Layout(ProcessGrid(parts), cells));
  });
}

gr_status gr_layout_create_cuts(int ndim, gr_cuts const* const* cuts, int num_ranks, int const* ranks,
                                gr_layout** layout) {
  return GR_BODY({
    required(layout, "layout");
    if (ndim < 1 || ndim > GR_MAX_AXES)
      throw bad_argument("ndim is " + std::to_string(ndim) + ", 1 to " + std::to_string(GR_MAX_AXES) + " are possible");
    required(cuts, "cuts");
    std::vector<Cuts> all;
    Indices parts;
    for (int a = 0; a < ndim; ++a) {
      all.push_back(required(cuts[a], Name{"cuts", a}.text().c_str()).cuts);
      parts.push_back(all.back().num_parts());
    }
    if (ranks == nullptr) {
      give(layout, Layout(ProcessGrid(parts), std::move(all)));
      return;
    }
    require_count(num_ranks, 1, "num_ranks");
    give(layout, Layout(ProcessGrid::on_ranks(parts, {ranks, ranks + num_ranks}), std::move(all)));
  });
}

namespace {

/// Cuts and places of boxes that are the tensor product of cuts, which needs less memory than the list of boxes.
std::optional<Layout> tensor_product(Indices const& extents, std::vector<Box> const& boxes) {
  std::vector<Cuts> cuts;
  std::vector<std::map<Index, int>> parts(std::size_t(extents.size()));
  Indices grid;
  for (int a = 0; a < extents.size(); ++a) {
    auto& begins = parts[std::size_t(a)];
    for (auto const& box : boxes)
      if (!box.empty()) begins.emplace(box.lo(a), 0);
    std::vector<Index> sizes;
    for (auto next = begins.begin(); next != begins.end(); ++next) {
      auto const after = std::next(next);
      sizes.push_back((after == begins.end() ? extents[a] : after->first) - next->first);
      next->second = int(sizes.size()) - 1;
    }
    if (sizes.empty() || begins.begin()->first != 0 || sizes.back() < 0) return std::nullopt;
    cuts.emplace_back(sizes);
    grid.push_back(Index(sizes.size()));
  }
  std::vector<int> ranks(std::size_t(Box::from_extents(grid).num_cells()), -1);
  if (ranks.size() > boxes.size()) return std::nullopt;
  for (std::size_t r = 0; r < boxes.size(); ++r) {
    if (boxes[r].empty()) continue;
    auto place = grid;
    for (int a = 0; a < extents.size(); ++a) {
      int const part = parts[std::size_t(a)].at(boxes[r].lo(a));
      if (boxes[r].hi(a) != cuts[std::size_t(a)].hi(part)) return std::nullopt;
      place[a] = part;
    }
    auto& at = ranks[std::size_t(number_of(place, grid))];
    if (at != -1) return std::nullopt;
    at = int(r);
  }
  if (std::count(ranks.begin(), ranks.end(), -1) != 0) return std::nullopt;
  return Layout(ProcessGrid::on_ranks(grid, ranks), std::move(cuts));
}

/// The box that this rank passes; an empty one for none.
Box only_box(int ndim, int num_boxes, int64_t const* lower, int64_t const* upper) {
  if (num_boxes > 1)
    throw Error("Unsupported",
                words_of_caller("num_boxes is " + std::to_string(num_boxes) +
                                "; here a rank owns one box or none, gr_layout_create_blocks takes more"));
  auto const boxes = boxes_of(ndim, num_boxes, lower, upper);
  auto const none = Indices::filled(ndim, 0);
  return boxes.empty() || boxes.front().empty() ? Box(none, none) : boxes.front();
}

}  // namespace

namespace {

/// The boxes that each rank passes, in order of ranks. Collective. @throws on all ranks where their grids differ
std::vector<std::vector<Box>> boxes_of_ranks(Comm const& of, Indices const& extents, std::vector<Box> const& own) {
  int const ndim = extents.size();
  require_same(of, "ArgumentDisagreement", std::uint64_t(ndim), std::to_string(ndim) + " axes");
  auto const counts = of.gather_to_all(Index(own.size()));
  auto const axes = std::size_t(ndim);
  std::vector<Index> words(extents.begin(), extents.end());
  for (auto const& box : own) {
    words.insert(words.end(), box.lo().begin(), box.lo().end());
    words.insert(words.end(), box.hi().begin(), box.hi().end());
  }
  words.resize(axes * (1 + 2 * std::size_t(*std::max_element(counts.begin(), counts.end()))));
  std::vector<Index> all(words.size() * std::size_t(of.num_ranks()));
  of.gather_to_all(words.data(), Index(words.size() * sizeof(Index)), all.data());
  std::vector<std::vector<Box>> boxes;
  for (int r = 0; r < of.num_ranks(); ++r) {
    auto const* at = all.data() + std::size_t(r) * words.size();
    auto const next = [&] {
      Indices const list(std::span<Index const>(at, axes));
      at += axes;
      return list;
    };
    if (auto const theirs = next(); theirs != extents)
      throw Error("ArgumentDisagreement", "extents are " + to_string(extents) + " on rank " +
                                              std::to_string(of.rank()) + " and " + to_string(theirs) + " on rank " +
                                              std::to_string(r));
    auto& list = boxes.emplace_back();
    for (Index b = 0; b < counts[std::size_t(r)]; ++b) {
      auto const lo = next();
      list.emplace_back(lo, next());
    }
  }
  return boxes;
}

/// The boxes of all ranks, of which each passes one or none. Collective.
struct OneBoxEach {
  Indices extents;
  std::vector<Box> boxes;
};

OneBoxEach one_box_each(Comm const& of, int ndim, int64_t const* extents, int num_boxes, int64_t const* lower,
                        int64_t const* upper, gr_layout** layout) {
  std::vector<Box> own;
  OneBoxEach result;
  run_agreed(of, [&] {
    required(layout, "layout");
    result.extents = indices(extents, ndim, "extents");
    own.push_back(only_box(ndim, num_boxes, lower, upper));
  });
  for (auto const& list : boxes_of_ranks(of, result.extents, own)) result.boxes.push_back(list.front());
  return result;
}

}  // namespace

gr_status gr_layout_create_boxes(gr_comm const* comm, int ndim, int64_t const* extents, int num_boxes,
                                 int64_t const* lower, int64_t const* upper, gr_layout** layout) {
  return GR_BODY({
    auto const given = one_box_each(required(comm, "comm").comm, ndim, extents, num_boxes, lower, upper, layout);
    auto const checked = Layout::from_boxes(given.extents, given.boxes);
    give(layout, tensor_product(given.extents, given.boxes).value_or(checked));
  });
}

gr_status gr_layout_create_with_holes(gr_comm const* comm, int ndim, int64_t const* extents, int num_boxes,
                                      int64_t const* lower, int64_t const* upper, gr_layout** layout) {
  return GR_BODY({
    auto const given = one_box_each(required(comm, "comm").comm, ndim, extents, num_boxes, lower, upper, layout);
    give(layout, Layout::with_holes(given.extents, given.boxes));
  });
}

gr_status gr_layout_create_blocks(gr_comm const* comm, int ndim, int64_t const* extents, int num_blocks,
                                  int64_t const* lower, int64_t const* upper, gr_layout** layout) {
  return GR_BODY({
    auto const& of = required(comm, "comm").comm;
    std::vector<Box> own;
    auto const grid = agreed(of, [&] {
      required(layout, "layout");
      require_count(num_blocks, 0, "num_blocks");
      own = boxes_of(ndim, num_blocks, lower, upper);
      return indices(extents, ndim, "extents");
    });
    std::vector<Block> blocks;
    auto const all = boxes_of_ranks(of, grid, own);
    for (std::size_t r = 0; r < all.size(); ++r)
      for (auto const& box : all[r]) blocks.push_back({box, int(r)});
    give(layout, BlockGrid(grid, blocks));
  });
}

namespace {

FaceJoint joint_of(gr_face_joint const& given) {
  auto const end_of = [](int is_upper) { return is_upper != 0 ? AxisEnd::upper : AxisEnd::lower; };
  return {{given.face, given.axis, end_of(given.is_upper)},
          {given.other_face, given.other_axis, end_of(given.other_is_upper)},
          given.is_reversed != 0 ? Along::reversed : Along::same};
}

std::vector<FaceJoint> joints_of(int num_joints, gr_face_joint const* joints, Index num_faces) {
  require_count(num_joints, 0, "num_joints");
  if (num_joints == 0) {
    if (num_faces != 6)
      throw bad_argument("extents have " + std::to_string(num_faces) +
                         " faces; without joints, faces meet as those of a cubed sphere, which has 6");
    return cubed_sphere_joints();
  }
  std::vector<FaceJoint> result;
  for (int j = 0; j < num_joints; ++j) result.push_back(joint_of(read_element(joints, j, "joints")));
  return result;
}

/// @throws `ArgumentDisagreement` where ranks pass different joints, with those that differ
void require_same_joints(Comm const& of, std::vector<FaceJoint> const& joints) {
  Hash hash;
  std::string text = std::to_string(joints.size()) + " joints";
  for (std::size_t j = 0; j < joints.size(); ++j) {
    for (auto const* side : {&joints[j].one, &joints[j].other})
      hash.add(side->face).add(side->axis).add(int(side->side));
    hash.add(int(joints[j].along));
    text += "; " + element_text("joints", int(j)) + ": " + detail::joint_text(joints[j]);
  }
  require_same(of, "ArgumentDisagreement", hash.value(), text);
}

/// Blocks of boxes (face, row, column). @throws `BadLayout` for one that is not on one face
std::vector<Block> blocks_on_faces(std::vector<std::vector<Box>> const& boxes) {
  std::vector<Block> blocks;
  for (std::size_t r = 0; r < boxes.size(); ++r)
    for (auto const& box : boxes[r]) {
      if (box.extent(0) != 1)
        throw Error("BadLayout", "block " + std::to_string(detail::place_number(Index(blocks.size()))) + " (of rank " +
                                     std::to_string(r) + ") is " + to_string(box) + ", which is not on one face");
      blocks.push_back({Box({box.lo(1), box.lo(2)}, {box.hi(1), box.hi(2)}), int(r), int(box.lo(0))});
    }
  return blocks;
}

}  // namespace

gr_status gr_layout_create_faces(gr_comm const* comm, int ndim, int64_t const* extents, int num_blocks,
                                 int64_t const* lower, int64_t const* upper, int num_joints,
                                 gr_face_joint const* joints, gr_layout** layout) {
  return GR_BODY({
    auto const& of = required(comm, "comm").comm;
    Indices cells;
    std::vector<Box> own;
    auto const meet = agreed(of, [&] {
      required(layout, "layout");
      if (ndim != 3)
        throw bad_argument("ndim is " + std::to_string(ndim) + "; faces have 3: their number, rows and columns");
      require_count(num_blocks, 0, "num_blocks");
      own = boxes_of(ndim, num_blocks, lower, upper);
      cells = indices(extents, ndim, "extents");
      if (cells[0] < 1 || cells[0] > std::numeric_limits<int>::max())
        throw bad_argument("extents have " + std::to_string(cells[0]) + " faces");
      return joints_of(num_joints, joints, cells[0]);
    });
    require_same_joints(of, meet);
    auto const blocks = blocks_on_faces(boxes_of_ranks(of, cells, own));
    give(layout, BlockGrid({cells[1], cells[2]}, int(cells[0]), meet, blocks));
  });
}

gr_status gr_layout_create_best(gr_comm const* comm, int ndim, int64_t const* extents, gr_halo_kind const* kind,
                                int64_t element_bytes, int64_t num_batch, gr_layout** layout) {
  return GR_BODY({
    auto const& of = required(comm, "comm").comm;
    auto const request = agreed(of, [&] {
      required(layout, "layout");
      GridRequest result;
      result.extents = indices(extents, ndim, "extents");
      result.halo = halo_kind(read_structure(kind, {"kind"}), {"kind"});
      result.element_bytes = element_bytes;
      result.num_batch = num_batch;
      return result;
    });
    give(layout, best_layout(of, request));
  });
}

gr_status gr_layout_create_shared(gr_comm const* comm, gr_layout const* part, gr_comm const* part_comm,
                                  gr_layout** layout) {
  return GR_BODY({
    auto const& of = required(comm, "comm").comm;
    auto const mine = agreed(of, [&] {
      required(layout, "layout");
      if ((part == nullptr) != (part_comm == nullptr))
        throw bad_argument(part == nullptr ? "part is NULL, part_comm is not" : "part_comm is NULL, part is not");
      std::optional<PartLayout> result;
      if (part != nullptr)
        result.emplace(PartLayout{required(part, "part").of_boxes("part"), required(part_comm, "part_comm").comm});
      return result;
    });
    give(layout, shared_layout(of, mine));
  });
}

gr_status gr_layout_relabel(gr_layout const* from, gr_layout const* to, gr_relabel_options const* options,
                            int num_nodes, int const* node_of_rank, int num_ranks, int const* ranks, gr_layout** layout,
                            gr_relabelling* saving) {
  return GR_BODY({
    auto const& old = required(from, "from").of_boxes("from");
    auto const& target = required(to, "to").of_boxes("to");
    required(layout, "layout");
    if (saving != nullptr) (void)read_structure(saving, {"saving"});
    auto with = relabel_options(options);
    with.node_of_rank = integers_of(num_nodes, node_of_rank, "num_nodes");
    with.ranks = integers_of(num_ranks, ranks, "num_ranks");
    auto const result = relabel(old, target, with);
    give(layout, result.layout);
    if (saving == nullptr) return;
    gr_relabelling cells = GR_RELABELLING_INIT;
    cells.moved_cells_before = result.moved_cells_before;
    cells.moved_cells = result.moved_cells;
    cells.off_node_cells_before = result.off_node_cells_before;
    cells.off_node_cells = result.off_node_cells;
    cells.cost_above_least = result.cost_above_least;
    write_structure(cells, saving, "saving");
  });
}

gr_status gr_layout_ndim(gr_layout const* layout, int* ndim) {
  return GR_BODY({ required(ndim, "ndim") = required(layout, "layout").layout.ndim(); });
}

gr_status gr_layout_extents(gr_layout const* layout, int ndim, int64_t* extents) {
  return GR_BODY({ write_indices(required(layout, "layout").layout.global().hi(), ndim, extents, "extents"); });
}

gr_status gr_layout_owned(gr_layout const* layout, int rank, int ndim, int64_t* lower, int64_t* upper) {
  return GR_BODY({ write_box(required(layout, "layout").layout.owned(rank), ndim, lower, upper); });
}

gr_status gr_layout_text(gr_layout const* layout, char const** text) {
  return GR_BODY({
    auto const& of = required(layout, "layout");
    required(text, "text") = kept_text(of.blocks ? to_string(*of.blocks) : to_string(of.layout));
  });
}

gr_status gr_layout_destroy(gr_layout** layout) {
  return GR_FREE({ free_handle(layout, "layout"); });
}
