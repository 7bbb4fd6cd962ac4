# SPDX-License-Identifier: BSD-3-Clause
# Made by scripts/bindings from graticule.h.
"""The engine on arrays of numpy and torch: layouts, halos, repartitions, sums over the sphere, files and checkpoints.

Boxes are half-open and counted from 0; the last axis varies fastest. Fields are used where they lie. Errors are
`graticule.Error`, with the name of the rule. MPI and Kokkos are started at the first call, unless the program has done so.
"""
from __future__ import annotations

import ctypes
import enum
from typing import Any, Optional, Sequence, Tuple, Union

import numpy as np

from . import _engine
from ._engine import Field, init
from ._library import handle_of

Fields = Union[Any, Field, Sequence[Union[Any, Field]]]  # one array, or several


@_engine.enumeration('gr_type')
class Type(enum.IntEnum):
    """gr_type of graticule.h."""
    U8 = 0
    I8 = 1
    I16 = 2
    I32 = 3
    I64 = 4
    F16 = 5
    BF16 = 6
    F32 = 7
    F64 = 8
    C64 = 9
    C128 = 10


@_engine.enumeration('gr_space')
class Space(enum.IntEnum):
    """gr_space of graticule.h."""
    HOST = 0
    DEVICE = 1


@_engine.enumeration('gr_edge')
class Edge(enum.IntEnum):
    """gr_edge of graticule.h."""
    UNTOUCHED = 0
    CONSTANT = 1
    PERIODIC = 2
    REFLECT = 3
    SYMMETRIC = 4
    REPLICATE = 5
    POLE_FACE = 6
    POLE_ROW = 7
    ANTIREFLECT = 8
    ANTISYMMETRIC = 9
    TRIPOLAR_FACE = 10
    TRIPOLAR_ROW = 11


@_engine.enumeration('gr_stagger')
class Stagger(enum.IntEnum):
    """gr_stagger of graticule.h."""
    LOW_FACE = -1
    CENTRE = 0
    HIGH_FACE = 1
    ALL_FACES = 2


@_engine.enumeration('gr_parity')
class Parity(enum.IntEnum):
    """gr_parity of graticule.h."""
    EVEN = 0
    ODD = 1


@_engine.enumeration('gr_corners')
class Corners(enum.IntEnum):
    """gr_corners of graticule.h."""
    FILL_CORNERS = 0
    SKIP_CORNERS = 1


@_engine.enumeration('gr_odd_longitudes')
class OddLongitudes(enum.IntEnum):
    """gr_odd_longitudes of graticule.h."""
    REFUSE_ODD = 0
    SHIFT_FLOOR = 1


@_engine.enumeration('gr_mirror_line')
class MirrorLine(enum.IntEnum):
    """gr_mirror_line of graticule.h."""
    KEEP_MIRROR = 0
    COPY_MIRROR = 1


@_engine.enumeration('gr_transport')
class Transport(enum.IntEnum):
    """gr_transport of graticule.h."""
    AUTOMATIC = 0
    POINT_TO_POINT = 1
    NODE_SHARED = 2


@_engine.enumeration('gr_summation')
class Summation(enum.IntEnum):
    """gr_summation of graticule.h."""
    EXACT = 0
    FAST = 1


@_engine.enumeration('gr_scale')
class Scale(enum.IntEnum):
    """gr_scale of graticule.h."""
    SUM = 0
    MEAN = 1


@_engine.enumeration('gr_cotangents')
class Cotangents(enum.IntEnum):
    """gr_cotangents of graticule.h."""
    OF_EACH_RANK = 0
    REPLICATED = 1


@_engine.enumeration('gr_at_mirrors')
class AtMirrors(enum.IntEnum):
    """gr_at_mirrors of graticule.h."""
    DIFFER = 0
    COMMUTE = 1


class RawField(_engine.Structure):
    """gr_field of graticule.h. Members:

    base: element 0 of each axis.
    type: of the elements.
    rank: number of memory axes.
    extents: elements along each memory axis.
    strides: bytes between neighbors along each memory axis.
    space: memory space.
    num_grid_axes: 0: the grid axes are the last memory axes, in order.
    grid_axes: memory axis of each grid axis, if `num_grid_axes` is not 0.
    has_first: 0: the memory has exactly the cells of the box that the call expects.
    first: element of the first owned cell (halo plans) or of the first cell of the box.
    parity: at poles and seams; read by halo plans.
    kind: kind of a halo plan, from 0.
    queue: native queue of a device field (cudaStream_t, hipStream_t); None: none.
    """
    _fields_ = [
        ('size', ctypes.c_size_t),
        ('base', ctypes.c_void_p),
        ('type', ctypes.c_int),
        ('rank', ctypes.c_int),
        ('extents', ctypes.c_int64 * 8),
        ('strides', ctypes.c_int64 * 8),
        ('space', ctypes.c_int),
        ('num_grid_axes', ctypes.c_int),
        ('grid_axes', ctypes.c_int * 8),
        ('has_first', ctypes.c_int),
        ('first', ctypes.c_int64 * 8),
        ('parity', ctypes.c_int),
        ('kind', ctypes.c_int),
        ('queue', ctypes.c_void_p)]


class HaloKind(_engine.Structure):
    """gr_halo_kind of graticule.h. Members:

    ndim: number of axes of the grid.
    lower: ghost cells to fill below each axis.
    upper: ghost cells to fill above each axis.
    lower_edge: rule below each axis, a gr_edge.
    upper_edge: rule above each axis, a gr_edge.
    constant: value of GR_EDGE_CONSTANT.
    stagger: position of the values, a gr_stagger.
    longitude_axis: axis that a pole shifts and a seam reverses; others ignore it.
    odd_longitudes: poles with an odd number of longitudes.
    mirror_line: owned cells that are stored twice.
    has_pivot: 0: the pivot of a seam is -1 (a corner) on a face and 0 (a cell) on a row.
    pivot: half index along the longitudes of a seam's pivot.
    corners: whether corners are filled.
    num_directions: 0: all parts of the halo are filled.
    directions: parts to fill: -1, 0 or 1 per axis.
    has_memory: 0: fields in memory have the widths `lower` and `upper`.
    memory_lower: ghost cells that fields have in memory, at least `lower`.
    memory_upper: the same above.
    widths_of_this_rank: each rank has widths of its own.
    hole: value of ghost cells whose image no rank owns.
    has_component: values are components of vectors on faces that meet.
    component: along which axis of the face; the kind of the other component stands beside this one.
    """
    _fields_ = [
        ('size', ctypes.c_size_t),
        ('ndim', ctypes.c_int),
        ('lower', ctypes.c_int64 * 8),
        ('upper', ctypes.c_int64 * 8),
        ('lower_edge', ctypes.c_int * 8),
        ('upper_edge', ctypes.c_int * 8),
        ('constant', ctypes.c_double * 8),
        ('stagger', ctypes.c_int * 8),
        ('longitude_axis', ctypes.c_int),
        ('odd_longitudes', ctypes.c_int),
        ('mirror_line', ctypes.c_int),
        ('has_pivot', ctypes.c_int),
        ('pivot', ctypes.c_int64),
        ('corners', ctypes.c_int),
        ('num_directions', ctypes.c_int),
        ('directions', (ctypes.c_int * 8) * 32),
        ('has_memory', ctypes.c_int),
        ('memory_lower', ctypes.c_int64 * 8),
        ('memory_upper', ctypes.c_int64 * 8),
        ('widths_of_this_rank', ctypes.c_int),
        ('hole', ctypes.c_double),
        ('has_component', ctypes.c_int),
        ('component', ctypes.c_int)]


class FaceJoint(_engine.Structure):
    """gr_face_joint of graticule.h. Members:

    face: one face.
    axis: of the face, across the side.
    is_upper: the side after the last cell of the axis, not before the first.
    other_face: the face that it meets, which may be the same one.
    other_axis: as `axis`.
    other_is_upper: as `is_upper`.
    is_reversed: cells along the two sides are counted in opposite directions.
    """
    _fields_ = [
        ('size', ctypes.c_size_t),
        ('face', ctypes.c_int),
        ('axis', ctypes.c_int),
        ('is_upper', ctypes.c_int),
        ('other_face', ctypes.c_int),
        ('other_axis', ctypes.c_int),
        ('other_is_upper', ctypes.c_int),
        ('is_reversed', ctypes.c_int)]


class RepartitionOptions(_engine.Structure):
    """gr_repartition_options of graticule.h. Members:

    ndim: number of axes of both grids; needed where a member below is set.
    has_permutation: `permutation` is set.
    permutation: axis of the old grid that becomes each axis of the new one.
    has_from: only some cells of the old grid are read.
    from_first: first of them along each axis.
    from_step: cells from one to the next, also negative, never 0.
    from_count: number of them along each axis.
    has_to: they become only some cells of the new grid.
    to_first: as `from_first`.
    to_step: as `from_step`.
    to_count: as `from_count`.
    workspace_bytes: most bytes of buffers on this rank; 0: no limit.
    """
    _fields_ = [
        ('size', ctypes.c_size_t),
        ('ndim', ctypes.c_int),
        ('has_permutation', ctypes.c_int),
        ('permutation', ctypes.c_int * 8),
        ('has_from', ctypes.c_int),
        ('from_first', ctypes.c_int64 * 8),
        ('from_step', ctypes.c_int64 * 8),
        ('from_count', ctypes.c_int64 * 8),
        ('has_to', ctypes.c_int),
        ('to_first', ctypes.c_int64 * 8),
        ('to_step', ctypes.c_int64 * 8),
        ('to_count', ctypes.c_int64 * 8),
        ('workspace_bytes', ctypes.c_int64)]


class Update(_engine.Structure):
    """gr_update of graticule.h. Members:

    alpha: real and imaginary part; the initialiser sets 1.
    has_beta: `beta` is set.
    beta: real and imaginary part.
    conjugate: x is conjugated.
    from_packed: the field on the old layout holds packed integers.
    from_scale: value of one unit.
    from_offset: value of 0.
    from_has_missing: `from_missing` is set.
    from_missing: integer that means "missing".
    to_packed: the same for the field on the new layout.
    to_scale: value of one unit.
    to_offset: value of 0.
    to_has_missing: `to_missing` is set.
    to_missing: integer that means "missing".
    """
    _fields_ = [
        ('size', ctypes.c_size_t),
        ('alpha', ctypes.c_double * 2),
        ('has_beta', ctypes.c_int),
        ('beta', ctypes.c_double * 2),
        ('conjugate', ctypes.c_int),
        ('from_packed', ctypes.c_int),
        ('from_scale', ctypes.c_double),
        ('from_offset', ctypes.c_double),
        ('from_has_missing', ctypes.c_int),
        ('from_missing', ctypes.c_int64),
        ('to_packed', ctypes.c_int),
        ('to_scale', ctypes.c_double),
        ('to_offset', ctypes.c_double),
        ('to_has_missing', ctypes.c_int),
        ('to_missing', ctypes.c_int64)]

    def __init__(self, **members: Any) -> None:
        members.setdefault('alpha', [1, 0])
        super().__init__(**members)


class RelabelOptions(_engine.Structure):
    """gr_relabel_options of graticule.h. Members:

    ndim: number of axes; needed where `permutation` is set.
    has_permutation: `permutation` is set.
    permutation: axis of the old grid that becomes each axis of the new one.
    off_node_weight: cost of a cell that goes to another node, relative to one that stays; 0: 4.
    """
    _fields_ = [
        ('size', ctypes.c_size_t),
        ('ndim', ctypes.c_int),
        ('has_permutation', ctypes.c_int),
        ('permutation', ctypes.c_int * 8),
        ('off_node_weight', ctypes.c_int64)]


class Relabelling(_engine.Structure):
    """gr_relabelling of graticule.h. Members:

    moved_cells_before: with the boxes where they were.
    moved_cells: with the boxes of the new layout.
    off_node_cells_before: the part of `moved_cells_before` that leaves its node.
    off_node_cells: the part of `moved_cells` that leaves its node.
    cost_above_least: no assignment costs less by more than this; 0: none costs less.
    """
    _fields_ = [
        ('size', ctypes.c_size_t),
        ('moved_cells_before', ctypes.c_int64),
        ('moved_cells', ctypes.c_int64),
        ('off_node_cells_before', ctypes.c_int64),
        ('off_node_cells', ctypes.c_int64),
        ('cost_above_least', ctypes.c_int64)]


class Counts(_engine.Structure):
    """gr_counts of graticule.h. Members:

    num_send_peers: ranks that this rank sends to.
    num_receive_peers: ranks that this rank receives from.
    send_cells: to other ranks.
    receive_cells: from other ranks.
    local_cells: from this rank to itself.
    filled_cells: from constants.
    """
    _fields_ = [
        ('size', ctypes.c_size_t),
        ('num_send_peers', ctypes.c_int),
        ('num_receive_peers', ctypes.c_int),
        ('send_cells', ctypes.c_int64),
        ('receive_cells', ctypes.c_int64),
        ('local_cells', ctypes.c_int64),
        ('filled_cells', ctypes.c_int64)]


class Stats(_engine.Structure):
    """gr_stats of graticule.h. Members:

    num_calls: calls so far.
    point_to_point_messages: messages sent by MPI.
    point_to_point_bytes: bytes of these.
    node_packed_messages: messages through node-shared memory, packed by the sender.
    node_packed_bytes: bytes of these.
    node_in_place_messages: messages that the peer reads in the sender's field.
    node_in_place_bytes: bytes of these.
    local_bytes: moved on this rank.
    num_workspaces: made so far; constant once every pattern of calls was seen.
    buffer_bytes: memory of all workspaces.
    mpi_reads_device: device memory is passed to MPI directly.
    pack_seconds: s, packing and posting.
    local_seconds: s, moving on this rank.
    wait_seconds: s, waiting for messages.
    unpack_seconds: s, unpacking.
    peers_read_device: ranks of the node read each other's device memory.
    """
    _fields_ = [
        ('size', ctypes.c_size_t),
        ('num_calls', ctypes.c_int64),
        ('point_to_point_messages', ctypes.c_int64),
        ('point_to_point_bytes', ctypes.c_int64),
        ('node_packed_messages', ctypes.c_int64),
        ('node_packed_bytes', ctypes.c_int64),
        ('node_in_place_messages', ctypes.c_int64),
        ('node_in_place_bytes', ctypes.c_int64),
        ('local_bytes', ctypes.c_int64),
        ('num_workspaces', ctypes.c_int64),
        ('buffer_bytes', ctypes.c_int64),
        ('mpi_reads_device', ctypes.c_int),
        ('pack_seconds', ctypes.c_double),
        ('local_seconds', ctypes.c_double),
        ('wait_seconds', ctypes.c_double),
        ('unpack_seconds', ctypes.c_double),
        ('peers_read_device', ctypes.c_int)]


class VariableOptions(_engine.Structure):
    """gr_variable_options of graticule.h. Members:

    ndim: number of axes of `chunk`; 0: contiguous, or one record per chunk.
    chunk: cells of a chunk along each axis.
    deflate: 1 to 9; 0: not compressed; needs `chunk`.
    packed: stored as `(value - offset) / scale`.
    scale: value of one unit.
    offset: value of 0.
    has_fill: `fill` is set.
    fill: stored for NaN.
    """
    _fields_ = [
        ('size', ctypes.c_size_t),
        ('ndim', ctypes.c_int),
        ('chunk', ctypes.c_int64 * 8),
        ('deflate', ctypes.c_int),
        ('packed', ctypes.c_int),
        ('scale', ctypes.c_double),
        ('offset', ctypes.c_double),
        ('has_fill', ctypes.c_int),
        ('fill', ctypes.c_double)]


class Comm(_engine.Handle):
    """A private duplicate of a communicator."""
    _destroy = 'gr_comm_destroy'
    _collective = True

    @classmethod
    def create(cls, mpi: Any) -> 'Comm':
        """The same for a communicator of Fortran. Collective.

        mpi: communicator; left as it is.
        Returns comm: the duplicate.
        """
        return _COMM_CREATE_F({'mpi': handle_of(mpi)})

    def rank(self) -> int:
        """Rank of the caller.

        Returns rank: from 0.
        """
        return _COMM_RANK({'self': self})

    def size(self) -> int:
        """Number of ranks.

        Returns num_ranks: number of ranks.
        """
        return _COMM_SIZE({'self': self})

    def node(self) -> Tuple[int, int]:
        """Number of ranks that share the memory of this rank, and its place among them.

        Returns num_node_ranks: ranks on this node.
        Returns node_rank: from 0.
        """
        return _COMM_NODE({'self': self})

    def nodes(self) -> np.ndarray:
        """Node of each rank: nodes are numbered in order of their lowest rank. Collective.

        Returns nodes: node of each rank, from 0.
        """
        return _COMM_NODES({'self': self, 'num_ranks': self.size()})

    def mpi(self) -> Any:
        """The same for Fortran.

        Returns mpi: communicator of MPI.
        """
        return _COMM_MPI_F({'self': self})

    def renew(self) -> None:
        """Makes a communicator usable again after an error that some ranks had in the middle of a call. Collective.
        Plans made before are refused afterwards: make them again.
        """
        return _COMM_RENEW({'self': self})

    def announce_failure(self, text: str) -> None:
        """Notifies all other ranks that this rank gives up its current calls: their waits end with an error. Not collective.

        text: reason, for their error text.
        """
        return _COMM_ANNOUNCE_FAILURE({'self': self, 'text': text})


class Teams(_engine.Handle):
    """Teams of ranks along several axes."""
    _destroy = 'gr_teams_destroy'
    _collective = True

    @classmethod
    def create(cls, comm: 'Comm', names: Union[str, Sequence[str]], sizes: Sequence[int]) -> 'Teams':
        """Divides the ranks of a communicator into teams along several axes: each rank is in one team of every axis.
        Collective.
        The last axis varies fastest, in all languages: its teams are neighbors on one node where node and team sizes allow
        it, so use it for the team with the most traffic.
        Example: axes data and domain of the sizes 0 and 4, on 8 ranks: ranks 0 to 3 are one domain team, 4 to 7 the other,
        and ranks 1 and 5 are one data team.

        comm: communicator of all ranks.
        names: name of each axis.
        sizes: ranks per team; 0: what remains.
        Returns teams: teams.
        """
        return _TEAMS_CREATE({'comm': comm, 'names': names, 'sizes': sizes})

    def world(self) -> 'Comm':
        """All ranks, in the order that the teams need: rank 0 of it is rank 0 of its team along every axis.

        Returns comm: communicator, freed by the caller.
        """
        return _TEAMS_WORLD({'self': self})

    def team(self, name: str) -> 'Comm':
        """Team of this rank along an axis.

        name: name of the axis.
        Returns comm: communicator, freed by the caller.
        """
        return _TEAMS_TEAM({'self': self, 'name': name})


class Cuts(_engine.Handle):
    """How one axis is cut into parts."""
    _destroy = 'gr_cuts_destroy'

    @classmethod
    def create(cls, sizes: Sequence[int]) -> 'Cuts':
        """Parts of the given numbers of cells, in order.
        Example: 4, 3, 3 cut 10 cells into [0, 4), [4, 7), [7, 10).

        sizes: cells of each part; 0 is allowed.
        Returns cuts: cuts.
        """
        return _CUTS_CREATE({'sizes': sizes})

    @classmethod
    def create_balanced(cls, extent: int, num_parts: int) -> 'Cuts':
        """Parts that differ by at most one cell, the larger ones first.

        extent: cells of the axis.
        num_parts: number of parts.
        Returns cuts: cuts.
        """
        return _CUTS_CREATE_BALANCED({'extent': extent, 'num_parts': num_parts})

    @classmethod
    def create_weighted(cls, weights: Sequence[float], num_parts: int, min_cells: int = 1) -> 'Cuts':
        """Parts that minimise the weight of the heaviest part.

        weights: cost of each cell, >= 0.
        num_parts: number of parts.
        min_cells: least cells of a part.
        Returns cuts: cuts.
        """
        return _CUTS_CREATE_WEIGHTED({'weights': weights, 'num_parts': num_parts, 'min_cells': min_cells})

    @classmethod
    def create_rebalanced(cls, old: 'Cuts', seconds: Sequence[float], min_cells: int = 1) -> 'Cuts':
        """Parts of equal cost by measured times: each cell of part p costs `seconds[p]` divided by the cells of the part.

        old: cuts with which the times were measured.
        seconds: time of each part, s.
        min_cells: least cells of a part.
        Returns cuts: cuts.
        """
        return _CUTS_CREATE_REBALANCED({'old': old, 'seconds': seconds, 'min_cells': min_cells})

    def num_parts(self) -> int:
        """Number of parts.

        Returns num_parts: number of parts.
        """
        return _CUTS_NUM_PARTS({'self': self})

    def sizes(self) -> np.ndarray:
        """Cells of each part.

        Returns sizes: cells of each part.
        """
        return _CUTS_SIZES({'self': self, 'num_parts': self.num_parts()})


class Layout(_engine.Handle):
    """Which rank owns which box of a grid."""
    _destroy = 'gr_layout_destroy'

    @classmethod
    def create(cls, extents: Sequence[int], num_parts: Sequence[int]) -> 'Layout':
        """Layout of balanced cuts over a process grid: the rank at (c0, c1) owns part c0 of axis 0 and part c1 of axis 1.
        Ranks are placed with the last axis fastest. Ranks beyond the product of `num_parts` own nothing.
        Example: 241 x 480 cells, 4 x 1 parts: rank 1 owns [61, 121) x [0, 480).

        extents: cells of the grid.
        num_parts: parts of each axis.
        Returns layout: layout.
        """
        return _LAYOUT_CREATE({'extents': extents, 'num_parts': num_parts})

    @classmethod
    def create_cuts(cls, cuts: Sequence['Cuts'], ranks: Optional[Sequence[int]] = None) -> 'Layout':
        """Layout of given cuts.

        cuts: cuts of each axis.
        ranks: rank at each place, last axis fastest.
        Returns layout: layout.
        """
        return _LAYOUT_CREATE_CUTS({'cuts': cuts, 'ranks': ranks})

    @classmethod
    def create_boxes(cls, comm: 'Comm', extents: Sequence[int], lower: Any, upper: Any) -> 'Layout':
        """Layout of the boxes that the caller already has. Collective.
        Boxes are disjoint and cover the grid. A rank passes no box or one; `layout_create_blocks` takes more.

        comm: communicator.
        extents: cells of the grid.
        lower: first cells.
        upper: ends.
        Returns layout: layout.
        """
        return _LAYOUT_CREATE_BOXES({'comm': comm, 'extents': extents, 'lower': lower, 'upper': upper})

    @classmethod
    def create_with_holes(cls, comm: 'Comm', extents: Sequence[int], lower: Any, upper: Any) -> 'Layout':
        """Layout of boxes that need not cover the grid: the other cells are holes, such as land, which no rank owns.
        Collective.
        Halo plans give ghost cells there the value `hole` of their kind; repartitions to boxes with an owner, and sums with
        a weight for each cell, take such layouts, too.

        comm: communicator.
        extents: cells of the grid.
        lower: first cells.
        upper: ends.
        Returns layout: layout.
        """
        return _LAYOUT_CREATE_WITH_HOLES({'comm': comm, 'extents': extents, 'lower': lower, 'upper': upper})

    @classmethod
    def create_blocks(cls, comm: 'Comm', extents: Sequence[int], lower: Any, upper: Any) -> 'Layout':
        """Layout of any number of blocks per rank: the tiles of a code, or the ocean blocks of a grid without its land.
        Collective.
        Blocks are disjoint; cells of no block are holes, as above. A field is one array per rank for all of its blocks, in
        the order of the list, each with the extents of the rank's largest. So the layout has one axis more than the grid,
        the number of the block: axis 0, in Fortran the last dimension. Halo plans fill the halos of all blocks in one call,
        with kinds that have the axes of the grid.
        Example in Fortran, on a grid of nx x ny cells: the blocks lower(2, n) to upper(2, n) of at most bx x by cells make
        a layout on which `halo_exchange` takes arrays t(0:bx + 1, 0:by + 1, n) with a halo of one cell.

        comm: communicator.
        extents: cells of the grid.
        lower: first cells.
        upper: ends.
        Returns layout: layout, with one axis more than the grid.
        """
        return _LAYOUT_CREATE_BLOCKS({'comm': comm, 'extents': extents, 'lower': lower, 'upper': upper})

    @classmethod
    def create_faces(cls, comm: 'Comm', extents: Sequence[int], lower: Any, upper: Any, joints: Optional[Union['FaceJoint',
                     Sequence['FaceJoint']]] = None) -> 'Layout':
        """Layout of blocks of several faces that meet along sides: a cubed sphere, or tiles that meet with a turn. Collective.
        The grid has the axes (face, row, column), in Fortran (i, j, face), and a block lies on one face. Everything else is
        as with `layout_create_blocks`: a field is one array per rank for all of its blocks, and a repartition from a
        layout of the grid moves fields to the blocks. Kinds of halos have the 2 axes of a face, and GR_EDGE_UNTOUCHED.
        Components of vectors are along the axes of their face, two kinds side by side: ghost cells get them along the axes
        of the block's face. Ghost cells beyond a side without joint, and those where three faces meet, keep their values.
        Values lie in centres or on all faces (GR_ALL_FACES): components along their own axis or along the other one,
        scalars along both. Both faces store the values on a side where they meet; those of the higher one become copies.
        Cubed sphere: the first four faces follow each other eastward round the equator, with rows northward and columns
        eastward. The fifth continues the first one beyond the north, the sixth beyond the south.

        comm: communicator.
        extents: number of faces, and the cells of each.
        lower: first cells.
        upper: ends.
        joints: where faces meet; none: as on a cubed sphere.
        Returns layout: layout of blocks.
        """
        return _LAYOUT_CREATE_FACES({'comm': comm, 'extents': extents, 'lower': lower, 'upper': upper, 'joints': joints})

    @classmethod
    def create_best(cls, comm: 'Comm', extents: Sequence[int], kind: 'HaloKind', element_bytes: int, num_batch:
                    int) -> 'Layout':
        """Layout on whose process grid the slowest rank exchanges halos of a kind fastest, by a model of the costs.
        Collective.

        comm: communicator.
        extents: cells of the grid.
        kind: the most frequent exchange.
        element_bytes: bytes of one value.
        num_batch: values per cell: levels times fields.
        Returns layout: layout.
        """
        return _LAYOUT_CREATE_BEST({'comm': comm, 'extents': extents, 'kind': kind, 'element_bytes': element_bytes,
                                   'num_batch': num_batch})

    @classmethod
    def create_shared(cls, comm: 'Comm', part: Optional['Layout'] = None, part_comm: Optional['Comm'] = None) -> 'Layout':
        """Gives all ranks of a communicator a layout that only a part of them knows, in the ranks of `comm`. Collective.

        comm: communicator of all.
        part: layout in the ranks of `part_comm`.
        part_comm: communicator of the part.
        Returns layout: layout in the ranks of `comm`.
        """
        return _LAYOUT_CREATE_SHARED({'comm': comm, 'part': part, 'part_comm': part_comm})

    def relabel(self, to: 'Layout', options: Optional['RelabelOptions'] = None, node_of_rank: Optional[Sequence[int]] =
                None, ranks: Optional[Sequence[int]] = None) -> Tuple['Layout', Optional['Relabelling']]:
        """Gives the boxes of a layout to the ranks that already hold most of their cells, for grids whose ranks may swap
        boxes.
        A moved cell costs 1, or `off_node_weight` where it leaves its node. Up to a thousand ranks, and with balanced cuts
        beyond, no other assignment of the boxes costs less; `cost_above_least` bounds what one may save elsewhere. Ranks
        with equal arguments agree without messages.
        Example: a field on the rows [0, 3), [3, 6), [6, 9) of ranks 0, 1, 2, and a layout with the same rows on the ranks
        2, 0, 1: all boxes return to the ranks that hold them, and a repartition to `layout` sends nothing.

        to: layout whose boxes may go to other ranks.
        options: order of axes, cost of leaving a node.
        node_of_rank: as `comm_nodes`; None: one node.
        ranks: that may own boxes; None: all.
        Returns layout: layout with the boxes of `to`.
        Returns saving: cells that are moved.
        """
        return _LAYOUT_RELABEL({'self': self, 'to': to, 'options': options, 'node_of_rank': node_of_rank, 'ranks': ranks})

    def ndim(self) -> int:
        """Number of axes.

        Returns ndim: number of axes.
        """
        return _LAYOUT_NDIM({'self': self})

    def extents(self) -> np.ndarray:
        """Cells of the grid along each axis.

        Returns extents: cells of the grid.
        """
        return _LAYOUT_EXTENTS({'self': self, 'ndim': self._ndim})

    def owned(self, rank: int) -> Tuple[np.ndarray, np.ndarray]:
        """Box of one rank; empty for a rank that owns nothing.

        rank: rank, from 0.
        Returns lower: first cells.
        Returns upper: ends.
        """
        return _LAYOUT_OWNED({'self': self, 'ndim': self._ndim, 'rank': rank})

    def text(self) -> str:
        """One line that describes a layout.

        Returns text: text.
        """
        return _LAYOUT_TEXT({'self': self})


class NodeMemory(_engine.Handle):
    """Memory that the other ranks of the node read in place."""
    _destroy = 'gr_node_memory_destroy'

    @classmethod
    def create(cls, num_bytes: int) -> 'NodeMemory':
        """Allocates memory for fields that the other ranks of the node read in place: a plan then copies each cell once.
        By one rank alone, at any time. Fields may lie anywhere in it, and be combined with fields in other memory. Where
        the system cannot share memory it is ordinary memory.

        num_bytes: bytes; the values are unspecified.
        Returns memory: memory.
        """
        return _NODE_MEMORY_CREATE({'num_bytes': num_bytes})

    def address(self) -> int:
        """Address of the first byte, at the beginning of a page.

        Returns address: first byte.
        """
        return _NODE_MEMORY_ADDRESS({'self': self})

    def size(self) -> int:
        """Number of bytes.

        Returns num_bytes: bytes.
        """
        return _NODE_MEMORY_SIZE({'self': self})

    def is_shared(self) -> bool:
        """Whether other ranks can read it in place.

        Returns shared: 1 if so.
        """
        return _NODE_MEMORY_IS_SHARED({'self': self})

    def array(self, shape: Sequence[int], dtype: Any = np.float64) -> np.ndarray:
        """An array at its beginning. The memory lives as long as arrays in it, unless it is closed."""
        return _engine.array_in(self, shape, dtype)


class Halo(_engine.Handle):
    """Plan of halo exchanges."""
    _destroy = 'gr_halo_destroy'

    @classmethod
    def create(cls, comm: 'Comm', layout: 'Layout', kinds: Union['HaloKind', Sequence['HaloKind']]) -> 'Halo':
        """Plans halo exchanges of fields of one or several kinds on a layout. Collective.
        One plan serves any number of fields of any type and any number of batch axes.

        comm: communicator.
        layout: layout.
        kinds: kinds.
        Returns halo: plan.
        """
        return _HALO_CREATE({'comm': comm, 'layout': layout, 'kinds': kinds})

    def owned(self) -> Tuple[np.ndarray, np.ndarray]:
        """Box of this rank.

        Returns lower: first cells.
        Returns upper: ends.
        """
        return _HALO_OWNED({'self': self, 'ndim': self._ndim})

    def local(self, kind: int) -> Tuple[np.ndarray, np.ndarray]:
        """Box of this rank with the halo of a kind: the cells that fields have in memory.

        kind: kind.
        Returns lower: first cells.
        Returns upper: ends.
        """
        return _HALO_LOCAL({'self': self, 'ndim': self._ndim, 'kind': kind})

    def layout(self, kind: int) -> 'Layout':
        """The layout of fields of one kind: the plan's, with one cell more at the upper end of each axis that has values on
        all faces (GR_ALL_FACES). For the owned box of such fields, their repartitions, sums and checkpoints.

        kind: kind.
        Returns layout: layout.
        """
        return _HALO_LAYOUT({'self': self, 'kind': kind})

    def interior(self, kind: int, reach_lower: Optional[Sequence[int]] = None, reach_upper: Optional[Sequence[int]] =
                 None) -> Tuple[np.ndarray, np.ndarray]:
        """Owned cells whose stencil reads no cell that an exchange fills: compute them while it is in flight.

        kind: kind.
        reach_lower: cells that the stencil reaches; None: the widths.
        reach_upper: the same above.
        Returns lower: first cells.
        Returns upper: ends.
        """
        return _HALO_INTERIOR({'self': self, 'ndim': self._ndim, 'kind': kind, 'reach_lower': reach_lower, 'reach_upper':
                              reach_upper})

    def border(self, kind: int, reach_lower: Optional[Sequence[int]] = None, reach_upper: Optional[Sequence[int]] =
               None) -> Tuple[np.ndarray, np.ndarray]:
        """The other owned cells as disjoint boxes: compute them afterwards. At most 2 boxes per axis.

        kind: kind.
        reach_lower: as `halo_interior`.
        reach_upper: as `halo_interior`.
        Returns lower: first cells.
        Returns upper: ends.
        """
        return _HALO_BORDER({'self': self, 'ndim': self._ndim, 'most_boxes': 2 * self._ndim, 'kind': kind, 'reach_lower':
                            reach_lower, 'reach_upper': reach_upper})

    def exchange(self, fields: Fields) -> None:
        """Fills the halos of fields from the owned cells of all ranks and the rules. Collective.

        fields: fields with halos.
        """
        return _HALO_EXCHANGE({'self': self, 'fields': fields})

    def start(self, fields: Fields) -> 'Pending':
        """Starts an exchange: until `finish`, owned cells may be read and ghost cells not used. Collective.

        fields: fields with halos.
        Returns pending: call in flight.
        """
        return _HALO_START({'self': self, 'fields': fields})

    def exchange_adjoint(self, fields: Fields) -> None:
        """The transposed exchange: adds to each owned cell the values of its images, and zeroes the images. Collective.

        fields: fields with halos.
        """
        return _HALO_EXCHANGE_ADJOINT({'self': self, 'fields': fields})

    def start_adjoint(self, fields: Fields) -> 'Pending':
        """Starts a transposed exchange. Collective.

        fields: fields with halos.
        Returns pending: call in flight.
        """
        return _HALO_START_ADJOINT({'self': self, 'fields': fields})

    def set_transport(self, transport: 'Transport') -> None:
        """Sets the transport of later calls; the same on all ranks, between the same calls.

        transport: transport.
        """
        return _HALO_SET_TRANSPORT({'self': self, 'transport': transport})

    def tune(self, fields: Fields, num_calls: int) -> 'Transport':
        """Measures the transports with these fields and selects the fastest. Collective; no call in flight.

        fields: fields with halos, which are exchanged.
        num_calls: calls per transport.
        Returns chosen: transport.
        """
        return _HALO_TUNE({'self': self, 'fields': fields, 'num_calls': num_calls})

    def counts(self) -> 'Counts':
        """Traffic of a call on this rank.

        Returns counts: traffic.
        """
        return _HALO_COUNTS({'self': self})

    def stats(self) -> 'Stats':
        """Traffic and times of the calls so far.

        Returns stats: traffic and times.
        """
        return _HALO_STATS({'self': self})

    def report(self) -> str:
        """Report for people: the path to each peer with the reason, then traffic and times.

        Returns text: text.
        """
        return _HALO_REPORT({'self': self})

    def dump(self, path: str) -> None:
        """Writes the plan as JSON, for `graticule-bench replay`. Collective.

        path: file, written by rank 0.
        """
        return _HALO_DUMP({'self': self, 'path': path})


class HaloDepth(_engine.Handle):
    """Number of valid layers of the halo of one field."""
    _destroy = 'gr_halo_depth_destroy'

    @classmethod
    def create(cls, halo: 'Halo', name: str, kind: int = 0, parity: 'Parity' = Parity.EVEN) -> 'HaloDepth':
        """Counts the valid layers of a field's halo, to exchange once and apply operators until the halo is exhausted.
        The counts are the same on all ranks; they are kept per axis and side, inside the grid and beyond its edges. An
        exchange sets them to the widths, a write to owned cells to 0; an operator that reaches r cells needs r and leaves r
        less. Starts without valid layers. Report each exchange, write and operator on all ranks in the same order.
        Example: width 3, reach 1: the rank with rows [8, 16) computes [6, 18), then [7, 17), then [8, 16), then exchanges.

        halo: plan of the field's exchanges.
        name: name of the field, for texts of errors.
        kind: kind of the field.
        parity: parity of the field.
        Returns depth: counts.
        """
        return _HALO_DEPTH_CREATE({'halo': halo, 'name': name, 'kind': kind, 'parity': parity})

    def exchanged(self) -> None:
        """Reports an exchange of the field's halo."""
        return _HALO_DEPTH_EXCHANGED({'self': self})

    def written(self) -> None:
        """Reports that owned cells were written by other means than an operator on all valid cells."""
        return _HALO_DEPTH_WRITTEN({'self': self})

    def inside(self) -> Tuple[np.ndarray, np.ndarray]:
        """Valid layers inside the grid on both sides of each axis; beyond a periodic edge counts as inside.

        Returns lower: layers below.
        Returns upper: layers above.
        """
        return _HALO_DEPTH_INSIDE({'self': self, 'ndim': self._ndim})

    def beyond(self) -> Tuple[np.ndarray, np.ndarray]:
        """Valid layers beyond the edges of the grid.

        Returns lower: layers below.
        Returns upper: layers above.
        """
        return _HALO_DEPTH_BEYOND({'self': self, 'ndim': self._ndim})

    def valid(self) -> Tuple[np.ndarray, np.ndarray]:
        """The cells of this rank that hold valid values.

        Returns lower: first cells.
        Returns upper: ends.
        """
        return _HALO_DEPTH_VALID({'self': self, 'ndim': self._ndim})

    def commutes(self) -> Tuple[np.ndarray, np.ndarray]:
        """Whether symmetric operators commute with the rule of each edge: never with constants and replicated edges.

        Returns lower: 1 if so, below.
        Returns upper: 1 if so, above.
        """
        return _HALO_DEPTH_COMMUTES({'self': self, 'ndim': self._ndim})

    def suffices(self, reach_lower: Sequence[int], reach_upper: Sequence[int]) -> bool:
        """Whether an operator may be applied without an exchange; the same on all ranks.

        reach_lower: cells that its stencil reaches below.
        reach_upper: the same above.
        Returns suffices: 1 if so.
        """
        return _HALO_DEPTH_SUFFICES({'self': self, 'reach_lower': reach_lower, 'reach_upper': reach_upper})

    def apply(self, input: 'HaloDepth', reach_lower: Sequence[int], reach_upper: Sequence[int], at_mirrors:
              'AtMirrors') -> Tuple[np.ndarray, np.ndarray]:
        """The field becomes the result of an operator: gives the cells to compute.
        Fails with the rule HaloTooShallow, on all ranks alike, where the layers do not suffice.

        input: counts of the field that is read, which may be the same.
        reach_lower: cells that the stencil reaches below.
        reach_upper: the same above.
        at_mirrors: whether the operator commutes with mirror images.
        Returns lower: first cells to compute.
        Returns upper: ends.
        """
        return _HALO_DEPTH_APPLY({'self': self, 'input': input, 'reach_lower': reach_lower, 'reach_upper': reach_upper,
                                 'at_mirrors': at_mirrors})

    def refill(self, field: Fields) -> None:
        """Makes ghost cells beyond the edges valid, as deep as the rules read valid cells of this rank. No messages.
        Beyond poles and seams only where every rank owns whole circles of latitude and no cells are copies.

        field: field, written beyond the edges.
        """
        return _HALO_DEPTH_REFILL({'self': self, 'field': field})


class Repartition(_engine.Handle):
    """Plan of movements between two layouts."""
    _destroy = 'gr_repartition_destroy'

    @classmethod
    def create(cls, comm: 'Comm', from_: 'Layout', to: 'Layout', options: Optional['RepartitionOptions'] =
               None) -> 'Repartition':
        """Plans movements of fields from one layout to another. Collective.
        Each rank passes fields on its box of `from` and gets them on its box of `to`, of any type that the values convert
        to. Where `to` has several blocks per rank (`layout_create_blocks`), fields on it have all of them, and
        `repartition_apply_inverse` moves fields from the blocks, without change of the cells of no block.

        comm: communicator.
        from_: old layout.
        to: new layout.
        options: options.
        Returns plan: plan.
        """
        return _REPARTITION_CREATE({'comm': comm, 'from': from_, 'to': to, 'options': options})

    @classmethod
    def create_boxes(cls, comm: 'Comm', from_: 'Layout', lower: Any, upper: Any, options: Optional['RepartitionOptions'] =
                     None) -> 'Repartition':
        """The same to any boxes on each rank, which may overlap and need not cover the grid. Collective.

        comm: communicator.
        from_: old layout.
        lower: first cells.
        upper: ends.
        options: options.
        Returns plan: plan.
        """
        return _REPARTITION_CREATE_BOXES({'comm': comm, 'from': from_, 'lower': lower, 'upper': upper, 'options': options})

    def source(self) -> Tuple[np.ndarray, np.ndarray]:
        """Box that fields on the old layout cover on this rank.

        Returns lower: first cells.
        Returns upper: ends.
        """
        return _REPARTITION_SOURCE({'self': self, 'ndim': self._keep['from']._ndim})

    def num_targets(self) -> int:
        """Number of boxes that this rank gets: 1, except for `repartition_create_boxes`.

        Returns num_targets: number of boxes; 1, an empty one, for none.
        """
        return _REPARTITION_NUM_TARGETS({'self': self})

    def target(self, target: int) -> Tuple[np.ndarray, np.ndarray]:
        """Box that fields on the new layout cover on this rank.

        target: which box.
        Returns lower: first cells.
        Returns upper: ends.
        """
        return _REPARTITION_TARGET({'self': self, 'ndim': self._ndim, 'target': target})

    def apply(self, from_: Fields, to: Fields, updates: Optional[Union['Update', Sequence['Update']]] = None) -> None:
        """Moves fields: `to = alpha * from + beta * to`. Collective.
        `to` has the targets of the first field, then those of the second, and so on.

        from_: fields on the old layout.
        to: fields on the new layout.
        updates: factors and packing; None: to = from.
        """
        return _REPARTITION_APPLY({'self': self, 'from': from_, 'to': to, 'updates': updates})

    def start(self, from_: Fields, to: Fields, updates: Optional[Union['Update', Sequence['Update']]] = None) -> 'Pending':
        """Starts a movement: `from` may be changed, and `to` used, after `finish`. Collective.

        from_: fields on the old layout.
        to: fields on the new layout.
        updates: as `repartition_apply`.
        Returns pending: call in flight.
        """
        return _REPARTITION_START({'self': self, 'from': from_, 'to': to, 'updates': updates})

    def apply_adjoint(self, from_: Fields, to: Fields, updates: Optional[Union['Update', Sequence['Update']]] =
                      None) -> None:
        """The transposed movement: `from = conj(alpha) * sum of the images + beta * from`, beta being 1 by default.
        Collective.

        from_: fields on the old layout.
        to: fields on the new layout, only read.
        updates: factors.
        """
        return _REPARTITION_APPLY_ADJOINT({'self': self, 'from': from_, 'to': to, 'updates': updates})

    def start_adjoint(self, from_: Fields, to: Fields, updates: Optional[Union['Update', Sequence['Update']]] =
                      None) -> 'Pending':
        """Starts a transposed movement. Collective.

        from_: fields on the old layout.
        to: fields on the new layout, only read.
        updates: factors.
        Returns pending: call in flight.
        """
        return _REPARTITION_START_ADJOINT({'self': self, 'from': from_, 'to': to, 'updates': updates})

    def apply_inverse(self, from_: Fields, to: Fields, updates: Optional[Union['Update', Sequence['Update']]] =
                      None) -> None:
        """The reverse movement: `from = alpha * to + beta * from` where a cell has an image. Collective.

        from_: fields on the old layout.
        to: fields on the new layout, only read.
        updates: factors and packing.
        """
        return _REPARTITION_APPLY_INVERSE({'self': self, 'from': from_, 'to': to, 'updates': updates})

    def start_inverse(self, from_: Fields, to: Fields, updates: Optional[Union['Update', Sequence['Update']]] =
                      None) -> 'Pending':
        """Starts a reverse movement. Collective.

        from_: fields on the old layout.
        to: fields on the new layout, only read.
        updates: factors and packing.
        Returns pending: call in flight.
        """
        return _REPARTITION_START_INVERSE({'self': self, 'from': from_, 'to': to, 'updates': updates})

    def set_transport(self, transport: 'Transport') -> None:
        """Sets the transport of later calls; the same on all ranks, between the same calls.

        transport: transport.
        """
        return _REPARTITION_SET_TRANSPORT({'self': self, 'transport': transport})

    def tune(self, from_: Fields, to: Fields, num_calls: int) -> 'Transport':
        """Measures the transports with these fields, one target each, and selects the fastest. Collective; no call in flight.

        from_: fields on the old layout.
        to: fields on the new layout, which are written.
        num_calls: calls per transport.
        Returns chosen: transport.
        """
        return _REPARTITION_TUNE({'self': self, 'from': from_, 'to': to, 'num_calls': num_calls})

    def counts(self) -> 'Counts':
        """Traffic of a call on this rank.

        Returns counts: traffic.
        """
        return _REPARTITION_COUNTS({'self': self})

    def stats(self) -> 'Stats':
        """Traffic and times of the calls so far.

        Returns stats: traffic and times.
        """
        return _REPARTITION_STATS({'self': self})

    def report(self) -> str:
        """Report for people: the path to each peer with the reason, then traffic and times.

        Returns text: text.
        """
        return _REPARTITION_REPORT({'self': self})

    def dump(self, path: str) -> None:
        """Writes the plan as JSON, for `graticule-bench replay`. Collective.

        path: file, written by rank 0.
        """
        return _REPARTITION_DUMP({'self': self, 'path': path})


class Zonal(_engine.Handle):
    """Plan of sums along one axis."""
    _destroy = 'gr_zonal_destroy'

    @classmethod
    def create(cls, comm: 'Comm', layout: 'Layout', axis: int, summation: 'Summation' = Summation.EXACT, scale: 'Scale' =
               Scale.SUM, lower: Optional[Sequence[int]] = None, upper: Optional[Sequence[int]] = None) -> 'Zonal':
        """Plans sums of all cells along one axis, as of all columns of a row. Collective.
        Fields are F32 or F64; cells of F32 in host memory may have sums of F64. Each rank gets the sums of its own rows.

        comm: communicator.
        layout: layout of the cells.
        axis: axis that is summed over.
        summation: exact or fast.
        scale: sums or means.
        lower: cells that are added; None: all.
        upper: their ends.
        Returns zonal: plan.
        """
        return _ZONAL_CREATE({'comm': comm, 'layout': layout, 'axis': axis, 'summation': summation, 'scale': scale, 'lower':
                             lower, 'upper': upper})

    def cells(self) -> Tuple[np.ndarray, np.ndarray]:
        """Box that the cells cover: the owned box of this rank.

        Returns lower: first cells.
        Returns upper: ends.
        """
        return _ZONAL_CELLS({'self': self, 'ndim': self._ndim})

    def sums(self) -> Tuple[np.ndarray, np.ndarray]:
        """Box that the sums cover: one cell along the axis, the first.

        Returns lower: first cells.
        Returns upper: ends.
        """
        return _ZONAL_SUMS({'self': self, 'ndim': self._ndim})

    def apply(self, cells: Fields, sums: Fields) -> None:
        """Writes the sums. Collective.

        cells: fields of cells, read.
        sums: fields of sums, written.
        """
        return _ZONAL_APPLY({'self': self, 'cells': cells, 'sums': sums})

    def start(self, cells: Fields, sums: Fields) -> 'Pending':
        """Adds the cells of this rank and sends the partial sums; the sums are valid after `finish`. Collective.

        cells: fields of cells, read.
        sums: fields of sums, written.
        Returns pending: call in flight.
        """
        return _ZONAL_START({'self': self, 'cells': cells, 'sums': sums})

    def apply_adjoint(self, cells: Fields, sums: Fields, cotangents: 'Cotangents') -> None:
        """Adds to each cell the cotangent of its sum (divided by the number of cells for means). Collective.

        cells: cotangents of cells, added to.
        sums: cotangents of sums, read.
        cotangents: of each rank, or replicated.
        """
        return _ZONAL_APPLY_ADJOINT({'self': self, 'cells': cells, 'sums': sums, 'cotangents': cotangents})


class AreaSum(_engine.Handle):
    """Weighted sum of all cells."""
    _destroy = 'gr_area_sum_destroy'

    @classmethod
    def create(cls, comm: 'Comm', layout: 'Layout', axis: int, row_axis: int, weights: Sequence[float], scale: 'Scale' =
               Scale.SUM) -> 'AreaSum':
        """Plans the sum of all cells times a weight of their row, with the same bits for every split. Collective.

        comm: communicator.
        layout: layout of the cells.
        axis: axis along which the weight is constant.
        row_axis: axis of the weights.
        weights: weight of each row.
        scale: sum, or mean.
        Returns area_sum: plan.
        """
        return _AREA_SUM_CREATE({'comm': comm, 'layout': layout, 'axis': axis, 'row_axis': row_axis, 'weights': weights,
                                'scale': scale})

    @classmethod
    def create_cells(cls, comm: 'Comm', layout: 'Layout', weights: Fields, scale: 'Scale' = Scale.SUM) -> 'AreaSum':
        """The same with a weight of each cell, such as the areas of a tripolar grid: fields in host memory. Collective.
        A weight of 0 leaves a cell out, whatever its value. `weights` has one weight for each cell of this rank's box.

        comm: communicator.
        layout: layout of the cells.
        weights: weights, read: F32 or F64.
        scale: sum, or mean.
        Returns area_sum: plan.
        """
        return _AREA_SUM_CREATE_CELLS({'comm': comm, 'layout': layout, 'weights': weights, 'scale': scale})

    def apply(self, cells: Fields, num_sums: int) -> np.ndarray:
        """One sum for each element of the batch axes, in row-major order, the same on all ranks. Collective.

        cells: field of cells.
        num_sums: elements of the batch axes.
        Returns sums: sums.
        """
        return _AREA_SUM_APPLY({'self': self, 'cells': cells, 'num_sums': num_sums})

    def apply_adjoint(self, cells: Fields, cotangents: Sequence[float]) -> None:
        """Adds weight times cotangent to each cell. No messages.

        cells: cotangents of cells, added to.
        cotangents: cotangents, the same on all ranks.
        """
        return _AREA_SUM_APPLY_ADJOINT({'self': self, 'cells': cells, 'cotangents': cotangents})


class Pending(_engine.Handle):
    """A call in flight."""
    _destroy = 'gr_finish'
    _collective = True

    def finish(self) -> None:
        """Waits until a call in flight is complete, and frees it. With an error it is freed too."""
        return _FINISH({'self': self})

    def test(self) -> bool:
        """Whether `finish` would not block. Does not block.

        Returns complete: 1 if so.
        """
        return _TEST({'self': self})


class Attributes(_engine.Handle):
    """Named values for a file or a variable."""
    _destroy = 'gr_attributes_destroy'

    @classmethod
    def create(cls) -> 'Attributes':
        """Makes an empty list of named values, for a file or a variable.

        Returns attributes: attributes.
        """
        return _ATTRIBUTES_CREATE({})

    def add_text(self, name: str, value: str) -> None:
        """Adds a text.

        name: name.
        value: text.
        """
        return _ATTRIBUTES_ADD_TEXT({'self': self, 'name': name, 'value': value})

    def add_number(self, name: str, value: float, type: 'Type') -> None:
        """Adds a number.

        name: name.
        value: number.
        type: stored type.
        """
        return _ATTRIBUTES_ADD_NUMBER({'self': self, 'name': name, 'value': value, 'type': type})


class File(_engine.Handle):
    """A netCDF-4 or HDF5 file, a Zarr store, or several; open for reading."""
    _destroy = 'gr_file_close'
    _collective = True

    @classmethod
    def open(cls, comm: 'Comm', path: str) -> 'File':
        """Opens a netCDF-4 or HDF5 file, or a Zarr store, for reading. Collective.

        comm: communicator.
        path: file.
        Returns file: file.
        """
        return _FILE_OPEN({'comm': comm, 'path': path})

    @classmethod
    def open_series(cls, comm: 'Comm', patterns: Union[str, Sequence[str]], dimension: Optional[str] = None, most_open: int
                    = 4) -> 'File':
        """Opens files that follow each other in time, and reads them as one. Collective.
        Variables along the joined dimension have the cells of all files, each unpacked by its own file; the others are
        those of the first one. Each file is compared with the first. Names may have `*`, `?` and `[...]`; the files of each
        are sorted by name, with numbers compared by value, so run_2.nc comes before run_10.nc.
        Example: `era5_*.nc` for two years with 8784 and 8760 times: z(time = 17544, ...).

        comm: communicator.
        patterns: files.
        dimension: to join; None: the unlimited one, or the most usual.
        most_open: files that are open at once.
        Returns file: file.
        """
        return _FILE_OPEN_SERIES({'comm': comm, 'patterns': patterns, 'dimension': dimension, 'most_open': most_open})

    def num_files(self) -> int:
        """Number of files: 1 after `file_open`.

        Returns num_files: number of files.
        """
        return _FILE_NUM_FILES({'self': self})

    def part(self, number: int) -> Tuple[int, int, str]:
        """One of the files, and the cells that it holds along the joined dimension.

        number: which file.
        Returns cells_before: cells of the files before it.
        Returns num_cells: cells of this file; 0 where nothing is joined.
        Returns path: its name.
        """
        return _FILE_PART({'self': self, 'number': number})

    def series_dimension(self) -> str:
        """Name of the joined dimension; empty where nothing is joined.

        Returns name: name of the dimension.
        """
        return _FILE_SERIES_DIMENSION({'self': self})

    def num_variables(self) -> int:
        """Number of variables, coordinates included.

        Returns num_variables: number of variables.
        """
        return _FILE_NUM_VARIABLES({'self': self})

    def variable_name(self, number: int) -> str:
        """Name of a variable.

        number: which variable, in order of the file.
        Returns name: name.
        """
        return _FILE_VARIABLE_NAME({'self': self, 'number': number})

    def ndim(self, variable: str) -> int:
        """Number of axes of a variable.

        variable: name.
        Returns ndim: number of axes.
        """
        return _FILE_NDIM({'self': self, 'variable': variable})

    def extents(self, variable: str) -> np.ndarray:
        """Cells of a variable along each axis.

        variable: name.
        Returns extents: cells.
        """
        return _FILE_EXTENTS({'self': self, 'ndim': self.ndim(variable), 'variable': variable})

    def dimension(self, variable: str, axis: int) -> str:
        """Name of the dimension of one axis of a variable.

        variable: name.
        axis: which axis.
        Returns name: name of the dimension.
        """
        return _FILE_DIMENSION({'self': self, 'ndim': self.ndim(variable), 'variable': variable, 'axis': axis})

    def coordinate(self, dimension: str, num_values: int) -> np.ndarray:
        """Values of the coordinate of a dimension, on every rank. Latitudes and longitudes in radians become degrees,
        other units of these are refused. Collective.

        dimension: name of the dimension.
        num_values: cells of the dimension.
        Returns values: coordinate.
        """
        return _FILE_COORDINATE({'self': self, 'dimension': dimension, 'num_values': num_values})

    def calendar(self, dimension: str) -> str:
        """Calendar of a coordinate of time as files name it: `standard` (where there is no attribute, too),
        `proleptic_gregorian`, `julian`, `noleap`, `all_leap` or `360_day`.

        dimension: name of the dimension.
        Returns calendar: name of the calendar.
        """
        return _FILE_CALENDAR({'self': self, 'dimension': dimension})

    def times(self, dimension: str, num_times: int) -> np.ndarray:
        """Times of a coordinate in units such as `hours since 2000-01-01`, as whole seconds since 1970-01-01 00:00 of its
        calendar, which has 365 days a year if it is `noleap`. Collective.

        dimension: name of the dimension.
        num_times: cells of the dimension.
        Returns times: times.
        """
        return _FILE_TIMES({'self': self, 'dimension': dimension, 'num_times': num_times})

    def attribute_text(self, attribute: str, variable: Optional[str] = None) -> str:
        """Text of an attribute; empty where there is none, or a number.

        attribute: name of the attribute.
        variable: name; None: of the file.
        Returns text: text.
        """
        return _FILE_ATTRIBUTE_TEXT({'self': self, 'attribute': attribute, 'variable': variable})

    def attribute_numbers(self, attribute: str, variable: Optional[str] = None, most_numbers: int = 64) -> np.ndarray:
        """Numbers of an attribute.

        attribute: name of the attribute.
        variable: name; None: of the file.
        most_numbers: numbers that fit.
        Returns numbers: the first of them.
        """
        return _FILE_ATTRIBUTE_NUMBERS({'self': self, 'attribute': attribute, 'variable': variable, 'most_numbers':
                                       most_numbers})

    def read(self, variable: str, lower: Sequence[int], upper: Sequence[int], field: Fields, steps: Optional[Sequence[int]]
             = None, axes: Optional[Sequence[int]] = None) -> None:
        """Reads a box of a variable into a field of any type and strides. Collective; each rank passes its own box.
        Packed values are unpacked; missing values become NaN: `_FillValue`, `missing_value`, what `valid_min`, `valid_max`
        and `valid_range` exclude, and, without `_FillValue`, netCDF's default fill value, except in bytes and in integers
        that are not packed. `first` of the field is the element of the first cell read.
        Example: a file with z(time, latitude, longitude), and a field of 2 axes: box {5, 10, 0} to {6, 20, 480} is read
        into 10 x 480 elements, because without `axes` the field has the last axes of the variable.

        variable: name.
        lower: first cells.
        upper: ends.
        field: field, written.
        steps: every how many cells, from the last one where negative.
        axes: axis of the variable in each memory axis; or -1.
        """
        return _FILE_READ({'self': self, 'variable': variable, 'lower': lower, 'upper': upper, 'field': field, 'steps':
                          steps, 'axes': axes})


class Writer(_engine.Handle):
    """A netCDF-4 file or a Zarr store that is written."""
    _destroy = 'gr_writer_destroy'
    _collective = True

    @classmethod
    def create(cls, comm: 'Comm', path: str, attributes: Optional['Attributes'] = None) -> 'Writer':
        """Starts a netCDF-4 file, or a Zarr store where the name ends in `.zarr`, which gets its name when it is committed.
        Collective.

        comm: communicator.
        path: file.
        attributes: attributes of the file.
        Returns writer: writer.
        """
        return _WRITER_CREATE({'comm': comm, 'path': path, 'attributes': attributes})

    @classmethod
    def append(cls, comm: 'Comm', path: str, in_place: bool = False) -> 'Writer':
        """Opens a netCDF-4 file, or a Zarr store of version 3, to append records. Collective.
        Extend its unlimited dimension, write every variable along it, the coordinate last, and commit.

        comm: communicator.
        path: file.
        in_place: to the file itself, as always to a store, not to a copy.
        Returns writer: writer.
        """
        return _WRITER_APPEND({'comm': comm, 'path': path, 'in_place': in_place})

    def add_dimension(self, name: str, extent: int, unlimited: bool = False) -> None:
        """Adds a dimension. Collective.

        name: name.
        extent: cells; of an unlimited dimension: for now.
        unlimited: may be extended later.
        """
        return _WRITER_ADD_DIMENSION({'self': self, 'name': name, 'extent': extent, 'unlimited': unlimited})

    def add_coordinate(self, name: str, values: Sequence[float], type: 'Type', attributes: Optional['Attributes'] =
                       None) -> None:
        """Adds a dimension and its coordinate. Collective.

        name: name.
        values: coordinate.
        type: stored type.
        attributes: attributes.
        """
        return _WRITER_ADD_COORDINATE({'self': self, 'name': name, 'values': values, 'type': type, 'attributes':
                                      attributes})

    def add_variable(self, name: str, dimensions: str, type: 'Type', options: Optional['VariableOptions'] = None,
                     attributes: Optional['Attributes'] = None) -> None:
        """Adds a variable. Collective.

        name: name.
        dimensions: dimensions, separated by blanks, the last axis last.
        type: stored type.
        options: storage.
        attributes: attributes.
        """
        return _WRITER_ADD_VARIABLE({'self': self, 'name': name, 'dimensions': dimensions, 'type': type, 'options': options,
                                    'attributes': attributes})

    def extend(self, dimension: str, count: int) -> None:
        """Makes an unlimited dimension longer. Collective.

        dimension: name.
        count: additional cells.
        """
        return _WRITER_EXTEND({'self': self, 'dimension': dimension, 'count': count})

    def write(self, variable: str, lower: Sequence[int], upper: Sequence[int], field: Fields, steps: Optional[Sequence[int]]
              = None, axes: Optional[Sequence[int]] = None) -> None:
        """Writes a box of a variable from a field of any type and strides; arguments as `file_read`. Collective.
        Each rank passes its own box, which may be empty; every cell is written once, by one rank.

        variable: name.
        lower: first cells.
        upper: ends.
        field: field, read.
        steps: as `file_read`.
        axes: as `file_read`.
        """
        return _WRITER_WRITE({'self': self, 'variable': variable, 'lower': lower, 'upper': upper, 'field': field, 'steps':
                             steps, 'axes': axes})

    def write_replicated(self, variable: str, lower: Sequence[int], upper: Sequence[int], field: Fields, steps:
                         Optional[Sequence[int]] = None, axes: Optional[Sequence[int]] = None) -> None:
        """Writes values that every rank holds with the same bits, such as a time: all ranks pass the same box and field, of
        which one is written. A number (a field without axes) is one cell of any variable. Collective.
        Example in Fortran: `call gr_writer_write_replicated(writer, 'time', [n], [n], field=t)`.

        variable: name.
        lower: first cells.
        upper: ends.
        field: field, read.
        steps: as `file_read`.
        axes: as `file_read`.
        """
        return _WRITER_WRITE_REPLICATED({'self': self, 'variable': variable, 'lower': lower, 'upper': upper, 'field': field,
                                        'steps': steps, 'axes': axes})

    def commit(self) -> None:
        """Completes the file and gives it its name. Collective. Fails while cells are missing."""
        return _WRITER_COMMIT({'self': self})


class Checkpoints(_engine.Handle):
    """The checkpoints of a run in one folder."""
    _destroy = 'gr_checkpoints_destroy'
    _collective = True

    @classmethod
    def create(cls, comm: 'Comm', folder: str, keep: int = 3) -> 'Checkpoints':
        """The checkpoints of a run in one folder. Collective; does not access the disk.

        comm: communicator.
        folder: folder.
        keep: checkpoints that a commit keeps, the new one included.
        Returns checkpoints: checkpoints.
        """
        return _CHECKPOINTS_CREATE({'comm': comm, 'folder': folder, 'keep': keep})

    def begin(self, step: int) -> 'CheckpointWriter':
        """Starts a checkpoint. Collective.

        step: step count, >= 0.
        Returns writer: writer.
        """
        return _CHECKPOINT_BEGIN({'self': self, 'step': step})

    def newest(self) -> Optional['Checkpoint']:
        """Opens the newest checkpoint whose contents are valid. Collective.

        Returns checkpoint: checkpoint; None where there is none.
        """
        return _CHECKPOINTS_NEWEST({'self': self})

    def skipped(self) -> str:
        """Files that the last `checkpoints_newest` skipped, a line each with the reason.

        Returns text: text; empty for none.
        """
        return _CHECKPOINTS_SKIPPED({'self': self})


class CheckpointWriter(_engine.Handle):
    """A checkpoint that is written."""
    _destroy = 'gr_checkpoint_writer_destroy'
    _collective = True

    def add(self, name: str, layout: 'Layout', field: Fields) -> None:
        """Writes the cells that this rank owns, with all batch axes. Collective.

        name: name of the field.
        layout: layout.
        field: field, read.
        """
        return _CHECKPOINT_ADD({'self': self, 'name': name, 'layout': layout, 'field': field})

    def add_replicated(self, name: str, field: Fields) -> None:
        """Writes a field that every rank holds whole, with the same bits. Collective.

        name: name of the field.
        field: field, read.
        """
        return _CHECKPOINT_ADD_REPLICATED({'self': self, 'name': name, 'field': field})

    def add_integers(self, name: str, values: Sequence[int]) -> None:
        """Writes integers that are equal on all ranks; a single one as a number, several as a list. Collective.

        name: name.
        values: integers.
        """
        return _CHECKPOINT_ADD_INTEGERS({'self': self, 'name': name, 'values': values})

    def add_reals(self, name: str, values: Sequence[float]) -> None:
        """Writes real numbers that are equal on all ranks; a single one as a number, several as a list. Collective.

        name: name.
        values: numbers.
        """
        return _CHECKPOINT_ADD_REALS({'self': self, 'name': name, 'values': values})

    def add_text(self, name: str, text: str) -> None:
        """Writes a text that is equal on all ranks. Collective.

        name: name.
        text: text.
        """
        return _CHECKPOINT_ADD_TEXT({'self': self, 'name': name, 'text': text})

    def commit(self) -> None:
        """Completes the checkpoint, gives it its name, and removes old ones. Collective."""
        return _CHECKPOINT_COMMIT({'self': self})


class Checkpoint(_engine.Handle):
    """A checkpoint, open for reading."""
    _destroy = 'gr_checkpoint_close'
    _collective = True

    @classmethod
    def open(cls, comm: 'Comm', path: str) -> 'Checkpoint':
        """Opens a checkpoint by its name. Collective.

        comm: communicator.
        path: file.
        Returns checkpoint: checkpoint.
        """
        return _CHECKPOINT_OPEN({'comm': comm, 'path': path})

    def step(self) -> int:
        """Step count with which it was begun.

        Returns step: step.
        """
        return _CHECKPOINT_STEP({'self': self})

    def path(self) -> str:
        """File of a checkpoint.

        Returns path: file.
        """
        return _CHECKPOINT_PATH({'self': self})

    def has(self, name: str) -> bool:
        """Whether it has a field or a value of a name.

        name: name.
        Returns found: 1 if so.
        """
        return _CHECKPOINT_HAS({'self': self, 'name': name})

    def read(self, name: str, layout: 'Layout', field: Fields) -> None:
        """Fills the cells that this rank owns in a layout, which may differ from that of the program that wrote. Collective.

        name: name of the field.
        layout: layout.
        field: field, written.
        """
        return _CHECKPOINT_READ({'self': self, 'name': name, 'layout': layout, 'field': field})

    def read_replicated(self, name: str, field: Fields) -> None:
        """Reads a whole field on every rank. Collective.

        name: name of the field.
        field: field, written.
        """
        return _CHECKPOINT_READ_REPLICATED({'self': self, 'name': name, 'field': field})

    def convert(self, converts: bool) -> None:
        """Whether reading converts between F32 and F64 from now on, for a run that continues in another precision. Without it
        a field of another type than the saved one is refused. Fields in host memory.

        converts: 1: convert.
        """
        return _CHECKPOINT_CONVERT({'self': self, 'converts': converts})

    def integers(self, name: str, num_values: int) -> np.ndarray:
        """Reads integers.

        name: name.
        num_values: how many it has.
        Returns values: integers.
        """
        return _CHECKPOINT_INTEGERS({'self': self, 'name': name, 'num_values': num_values})

    def reals(self, name: str, num_values: int) -> np.ndarray:
        """Reads real numbers.

        name: name.
        num_values: how many it has.
        Returns values: numbers.
        """
        return _CHECKPOINT_REALS({'self': self, 'name': name, 'num_values': num_values})

    def text(self, name: str) -> str:
        """Reads a text.

        name: name.
        Returns text: text.
        """
        return _CHECKPOINT_TEXT({'self': self, 'name': name})

    def verify(self) -> None:
        """Reads all cells once and compares their checksums. Collective."""
        return _CHECKPOINT_VERIFY({'self': self})


def version() -> Tuple[int, int, int]:
    """Version of the library.

    Returns major: first number.
    Returns minor: second number.
    Returns patch: third number.
    """
    return _VERSION({})


def is_initialized() -> bool:
    """Whether `init` was called, without `finalize`.

    Returns initialized: 1 if so.
    """
    return _IS_INITIALIZED({})


def plan_name(name: str) -> None:
    """Name of the next plan that this thread makes: a halo, a repartition, sums. Reports of waits that stall, refused
    calls and disagreements between ranks contain it. In Fortran, `name='tracers'` of the call that makes the plan.

    name: name, such as tracers.
    """
    return _PLAN_NAME({'name': name})


def long_copies() -> str:
    """How this process copies long runs: a name of the environment variable GRATICULE_COPY; empty before the first large
    call.

    Returns name: name.
    """
    return _LONG_COPIES({})


def set_patience(report_seconds: float, error_seconds: float) -> None:
    """Sets after how many seconds a wait for other ranks is reported on stderr, and after how many it ends with an error.

    report_seconds: s; 0: never.
    error_seconds: s; 0: never.
    """
    return _SET_PATIENCE({'report_seconds': report_seconds, 'error_seconds': error_seconds})


def area_weights(latitudes: Sequence[float]) -> np.ndarray:
    """Fraction of the sphere that each row represents: weights for cuts of equal area and for global means.

    latitudes: degrees, monotonic.
    Returns weights: fractions of the sphere.
    """
    return _AREA_WEIGHTS({'latitudes': latitudes})


def halo_kind_uniform(ndim: int, edge: 'Edge', width: int) -> 'HaloKind':
    """The same width and rule on all sides.

    ndim: axes of the grid.
    edge: rule of all sides.
    width: ghost cells on all sides.
    Returns kind: kind.
    """
    return _HALO_KIND_UNIFORM({'ndim': ndim, 'edge': edge, 'width': width})


def halo_kind_sphere(pole: 'Edge', width: int) -> 'HaloKind':
    """Axes (latitude, longitude): both poles crossed by the same rule, longitude periodic.

    pole: GR_EDGE_POLE_FACE or GR_EDGE_POLE_ROW.
    width: ghost cells on all sides.
    Returns kind: kind.
    """
    return _HALO_KIND_SPHERE({'pole': pole, 'width': width})


def halo_kind_tripolar(south: 'Edge', seam: 'Edge', width: int) -> 'HaloKind':
    """Axes (latitude, longitude): a rule below the first row, a seam above the last; values on the seam are copied.

    south: rule below the first row.
    seam: GR_EDGE_TRIPOLAR_FACE or GR_EDGE_TRIPOLAR_ROW.
    width: ghost cells on all sides.
    Returns kind: kind.
    """
    return _HALO_KIND_TRIPOLAR({'south': south, 'seam': seam, 'width': width})


def time_of_date(calendar: str, year: int, month: int, day: int, second: int) -> int:
    """Seconds from 1970-01-01 00:00 to a date of a calendar. Not collective.
    Example: 2001-03-01 in `noleap` is 31 * 365 + 59 days later.

    calendar: name as in files, such as noleap or 365_day.
    year: year.
    month: month, 1 to 12.
    day: day, from 1 on.
    second: seconds since midnight.
    Returns time: seconds.
    """
    return _TIME_OF_DATE({'calendar': calendar, 'year': year, 'month': month, 'day': day, 'second': second})


def date_of_time(calendar: str, time: int) -> Tuple[int, int, int, int]:
    """The inverse. Not collective.

    calendar: name as in files.
    time: seconds since 1970-01-01 00:00.
    Returns year: year.
    Returns month: month, 1 to 12.
    Returns day: day, from 1 on.
    Returns second: seconds since midnight.
    """
    return _DATE_OF_TIME({'calendar': calendar, 'time': time})


_VERSION = _engine.function(
    'gr_version',
    ('major', 'int*', 'out'),
    ('minor', 'int*', 'out'),
    ('patch', 'int*', 'out'))
_IS_INITIALIZED = _engine.function(
    'gr_is_initialized',
    ('initialized', 'int*', 'out, flag'))
_PLAN_NAME = _engine.function(
    'gr_plan_name',
    ('name', 'char const*', 'in'))
_LONG_COPIES = _engine.function(
    'gr_long_copies',
    ('name', 'char const**', 'out'))
_SET_PATIENCE = _engine.function(
    'gr_set_patience',
    ('report_seconds', 'double', 'in'),
    ('error_seconds', 'double', 'in'))
_COMM_CREATE_F = _engine.function(
    'gr_comm_create_f',
    ('mpi', 'MPI_Fint', 'in'),
    ('comm', 'gr_comm**', 'out'))
_COMM_RANK = _engine.function(
    'gr_comm_rank',
    ('comm', 'gr_comm const*', 'in'),
    ('rank', 'int*', 'out'))
_COMM_SIZE = _engine.function(
    'gr_comm_size',
    ('comm', 'gr_comm const*', 'in'),
    ('num_ranks', 'int*', 'out'))
_COMM_NODE = _engine.function(
    'gr_comm_node',
    ('comm', 'gr_comm const*', 'in'),
    ('num_node_ranks', 'int*', 'out'),
    ('node_rank', 'int*', 'out'))
_COMM_NODES = _engine.function(
    'gr_comm_nodes',
    ('comm', 'gr_comm const*', 'in'),
    ('num_ranks', 'int', 'in, count nodes'),
    ('nodes', 'int*', 'out, values num_ranks'))
_COMM_MPI_F = _engine.function(
    'gr_comm_mpi_f',
    ('comm', 'gr_comm const*', 'in'),
    ('mpi', 'MPI_Fint*', 'out'))
_COMM_RENEW = _engine.function(
    'gr_comm_renew',
    ('comm', 'gr_comm*', 'inout'))
_COMM_ANNOUNCE_FAILURE = _engine.function(
    'gr_comm_announce_failure',
    ('comm', 'gr_comm const*', 'in'),
    ('text', 'char const*', 'in'))
_TEAMS_CREATE = _engine.function(
    'gr_teams_create',
    ('comm', 'gr_comm const*', 'in'),
    ('num_axes', 'int', 'in, count names sizes'),
    ('names', 'char const* const*', 'in, values num_axes'),
    ('sizes', 'int const*', 'in, values num_axes'),
    ('teams', 'gr_teams**', 'out'))
_TEAMS_WORLD = _engine.function(
    'gr_teams_world',
    ('teams', 'gr_teams const*', 'in'),
    ('comm', 'gr_comm**', 'out'))
_TEAMS_TEAM = _engine.function(
    'gr_teams_team',
    ('teams', 'gr_teams const*', 'in'),
    ('name', 'char const*', 'in'),
    ('comm', 'gr_comm**', 'out'))
_CUTS_CREATE = _engine.function(
    'gr_cuts_create',
    ('num_parts', 'int', 'in, count sizes'),
    ('sizes', 'int64_t const*', 'in, values num_parts'),
    ('cuts', 'gr_cuts**', 'out'))
_CUTS_CREATE_BALANCED = _engine.function(
    'gr_cuts_create_balanced',
    ('extent', 'int64_t', 'in'),
    ('num_parts', 'int', 'in'),
    ('cuts', 'gr_cuts**', 'out'))
_CUTS_CREATE_WEIGHTED = _engine.function(
    'gr_cuts_create_weighted',
    ('num_cells', 'int', 'in, count weights'),
    ('weights', 'double const*', 'in, values num_cells'),
    ('num_parts', 'int', 'in'),
    ('min_cells', 'int64_t', 'in'),
    ('cuts', 'gr_cuts**', 'out'))
_CUTS_CREATE_REBALANCED = _engine.function(
    'gr_cuts_create_rebalanced',
    ('old', 'gr_cuts const*', 'in'),
    ('num_parts', 'int', 'in, count seconds'),
    ('seconds', 'double const*', 'in, values num_parts'),
    ('min_cells', 'int64_t', 'in'),
    ('cuts', 'gr_cuts**', 'out'))
_CUTS_NUM_PARTS = _engine.function(
    'gr_cuts_num_parts',
    ('cuts', 'gr_cuts const*', 'in'),
    ('num_parts', 'int*', 'out'))
_CUTS_SIZES = _engine.function(
    'gr_cuts_sizes',
    ('cuts', 'gr_cuts const*', 'in'),
    ('num_parts', 'int', 'in, count sizes'),
    ('sizes', 'int64_t*', 'out, values num_parts'))
_AREA_WEIGHTS = _engine.function(
    'gr_area_weights',
    ('num_rows', 'int', 'in, count latitudes weights'),
    ('latitudes', 'double const*', 'in, values num_rows'),
    ('weights', 'double*', 'out, values num_rows'))
_LAYOUT_CREATE = _engine.function(
    'gr_layout_create',
    ('ndim', 'int', 'in, count extents num_parts'),
    ('extents', 'int64_t const*', 'in, axes ndim'),
    ('num_parts', 'int const*', 'in, axes ndim'),
    ('layout', 'gr_layout**', 'out'))
_LAYOUT_CREATE_CUTS = _engine.function(
    'gr_layout_create_cuts',
    ('ndim', 'int', 'in, count cuts'),
    ('cuts', 'gr_cuts const* const*', 'in, axes ndim'),
    ('num_ranks', 'int', 'in, count ranks'),
    ('ranks', 'int const*', 'in, optional, values num_ranks'),
    ('layout', 'gr_layout**', 'out'))
_LAYOUT_CREATE_BOXES = _engine.function(
    'gr_layout_create_boxes',
    ('comm', 'gr_comm const*', 'in'),
    ('ndim', 'int', 'in, count extents lower upper'),
    ('extents', 'int64_t const*', 'in, axes ndim'),
    ('num_boxes', 'int', 'in, count lower upper'),
    ('lower', 'int64_t const*', 'in, lower ndim, boxes num_boxes'),
    ('upper', 'int64_t const*', 'in, upper ndim, boxes num_boxes'),
    ('layout', 'gr_layout**', 'out'))
_LAYOUT_CREATE_WITH_HOLES = _engine.function(
    'gr_layout_create_with_holes',
    ('comm', 'gr_comm const*', 'in'),
    ('ndim', 'int', 'in, count extents lower upper'),
    ('extents', 'int64_t const*', 'in, axes ndim'),
    ('num_boxes', 'int', 'in, count lower upper'),
    ('lower', 'int64_t const*', 'in, lower ndim, boxes num_boxes'),
    ('upper', 'int64_t const*', 'in, upper ndim, boxes num_boxes'),
    ('layout', 'gr_layout**', 'out'))
_LAYOUT_CREATE_BLOCKS = _engine.function(
    'gr_layout_create_blocks',
    ('comm', 'gr_comm const*', 'in'),
    ('ndim', 'int', 'in, count extents lower upper'),
    ('extents', 'int64_t const*', 'in, axes ndim'),
    ('num_blocks', 'int', 'in, count lower upper'),
    ('lower', 'int64_t const*', 'in, lower ndim, boxes num_blocks'),
    ('upper', 'int64_t const*', 'in, upper ndim, boxes num_blocks'),
    ('layout', 'gr_layout**', 'out'))
_LAYOUT_CREATE_FACES = _engine.function(
    'gr_layout_create_faces',
    ('comm', 'gr_comm const*', 'in'),
    ('ndim', 'int', 'in, count extents lower upper'),
    ('extents', 'int64_t const*', 'in, axes ndim'),
    ('num_blocks', 'int', 'in, count lower upper'),
    ('lower', 'int64_t const*', 'in, lower ndim, boxes num_blocks'),
    ('upper', 'int64_t const*', 'in, upper ndim, boxes num_blocks'),
    ('num_joints', 'int', 'in, count joints'),
    ('joints', 'gr_face_joint const*', 'in, optional, values num_joints'),
    ('layout', 'gr_layout**', 'out'))
_LAYOUT_CREATE_BEST = _engine.function(
    'gr_layout_create_best',
    ('comm', 'gr_comm const*', 'in'),
    ('ndim', 'int', 'in, count extents'),
    ('extents', 'int64_t const*', 'in, axes ndim'),
    ('kind', 'gr_halo_kind const*', 'in'),
    ('element_bytes', 'int64_t', 'in'),
    ('num_batch', 'int64_t', 'in'),
    ('layout', 'gr_layout**', 'out'))
_LAYOUT_CREATE_SHARED = _engine.function(
    'gr_layout_create_shared',
    ('comm', 'gr_comm const*', 'in'),
    ('part', 'gr_layout const*', 'in, optional'),
    ('part_comm', 'gr_comm const*', 'in, optional'),
    ('layout', 'gr_layout**', 'out'))
_LAYOUT_RELABEL = _engine.function(
    'gr_layout_relabel',
    ('from', 'gr_layout const*', 'in'),
    ('to', 'gr_layout const*', 'in'),
    ('options', 'gr_relabel_options const*', 'in, optional'),
    ('num_nodes', 'int', 'in, count node_of_rank'),
    ('node_of_rank', 'int const*', 'in, optional, values num_nodes'),
    ('num_ranks', 'int', 'in, count ranks'),
    ('ranks', 'int const*', 'in, optional, values num_ranks'),
    ('layout', 'gr_layout**', 'out'),
    ('saving', 'gr_relabelling*', 'inout, optional'))
_LAYOUT_NDIM = _engine.function(
    'gr_layout_ndim',
    ('layout', 'gr_layout const*', 'in'),
    ('ndim', 'int*', 'out'))
_LAYOUT_EXTENTS = _engine.function(
    'gr_layout_extents',
    ('layout', 'gr_layout const*', 'in'),
    ('ndim', 'int', 'in, count extents'),
    ('extents', 'int64_t*', 'out, axes ndim'))
_LAYOUT_OWNED = _engine.function(
    'gr_layout_owned',
    ('layout', 'gr_layout const*', 'in'),
    ('rank', 'int', 'in'),
    ('ndim', 'int', 'in, count lower upper'),
    ('lower', 'int64_t*', 'out, lower ndim'),
    ('upper', 'int64_t*', 'out, upper ndim'))
_LAYOUT_TEXT = _engine.function(
    'gr_layout_text',
    ('layout', 'gr_layout const*', 'in'),
    ('text', 'char const**', 'out'))
_NODE_MEMORY_CREATE = _engine.function(
    'gr_node_memory_create',
    ('num_bytes', 'int64_t', 'in'),
    ('memory', 'gr_node_memory**', 'out'))
_NODE_MEMORY_ADDRESS = _engine.function(
    'gr_node_memory_address',
    ('memory', 'gr_node_memory const*', 'in'),
    ('address', 'void**', 'out'))
_NODE_MEMORY_SIZE = _engine.function(
    'gr_node_memory_size',
    ('memory', 'gr_node_memory const*', 'in'),
    ('num_bytes', 'int64_t*', 'out'))
_NODE_MEMORY_IS_SHARED = _engine.function(
    'gr_node_memory_is_shared',
    ('memory', 'gr_node_memory const*', 'in'),
    ('shared', 'int*', 'out, flag'))
_FINISH = _engine.function(
    'gr_finish',
    ('pending', 'gr_pending**', 'inout'))
_TEST = _engine.function(
    'gr_test',
    ('pending', 'gr_pending*', 'inout'),
    ('complete', 'int*', 'out, flag'))
_HALO_KIND_UNIFORM = _engine.function(
    'gr_halo_kind_uniform',
    ('ndim', 'int', 'in'),
    ('edge', 'gr_edge', 'in'),
    ('width', 'int64_t', 'in'),
    ('kind', 'gr_halo_kind*', 'out'))
_HALO_KIND_SPHERE = _engine.function(
    'gr_halo_kind_sphere',
    ('pole', 'gr_edge', 'in'),
    ('width', 'int64_t', 'in'),
    ('kind', 'gr_halo_kind*', 'out'))
_HALO_KIND_TRIPOLAR = _engine.function(
    'gr_halo_kind_tripolar',
    ('south', 'gr_edge', 'in'),
    ('seam', 'gr_edge', 'in'),
    ('width', 'int64_t', 'in'),
    ('kind', 'gr_halo_kind*', 'out'))
_HALO_CREATE = _engine.function(
    'gr_halo_create',
    ('comm', 'gr_comm const*', 'in'),
    ('layout', 'gr_layout const*', 'in'),
    ('num_kinds', 'int', 'in, count kinds'),
    ('kinds', 'gr_halo_kind const*', 'in, values num_kinds'),
    ('halo', 'gr_halo**', 'out'))
_HALO_OWNED = _engine.function(
    'gr_halo_owned',
    ('halo', 'gr_halo const*', 'in'),
    ('ndim', 'int', 'in, count lower upper'),
    ('lower', 'int64_t*', 'out, lower ndim'),
    ('upper', 'int64_t*', 'out, upper ndim'))
_HALO_LOCAL = _engine.function(
    'gr_halo_local',
    ('halo', 'gr_halo const*', 'in'),
    ('kind', 'int', 'in'),
    ('ndim', 'int', 'in, count lower upper'),
    ('lower', 'int64_t*', 'out, lower ndim'),
    ('upper', 'int64_t*', 'out, upper ndim'))
_HALO_LAYOUT = _engine.function(
    'gr_halo_layout',
    ('halo', 'gr_halo const*', 'in'),
    ('kind', 'int', 'in'),
    ('layout', 'gr_layout**', 'out'))
_HALO_INTERIOR = _engine.function(
    'gr_halo_interior',
    ('halo', 'gr_halo const*', 'in'),
    ('kind', 'int', 'in'),
    ('ndim', 'int', 'in, count lower upper reach_lower reach_upper'),
    ('reach_lower', 'int64_t const*', 'in, optional, axes ndim'),
    ('reach_upper', 'int64_t const*', 'in, optional, axes ndim'),
    ('lower', 'int64_t*', 'out, lower ndim'),
    ('upper', 'int64_t*', 'out, upper ndim'))
_HALO_BORDER = _engine.function(
    'gr_halo_border',
    ('halo', 'gr_halo const*', 'in'),
    ('kind', 'int', 'in'),
    ('ndim', 'int', 'in, count lower upper reach_lower reach_upper'),
    ('reach_lower', 'int64_t const*', 'in, optional, axes ndim'),
    ('reach_upper', 'int64_t const*', 'in, optional, axes ndim'),
    ('most_boxes', 'int', 'in, count lower upper'),
    ('num_boxes', 'int*', 'out'),
    ('lower', 'int64_t*', 'out, lower ndim, boxes most_boxes'),
    ('upper', 'int64_t*', 'out, upper ndim, boxes most_boxes'))
_HALO_EXCHANGE = _engine.function(
    'gr_halo_exchange',
    ('halo', 'gr_halo const*', 'in'),
    ('num_fields', 'int', 'in, count fields'),
    ('fields', 'gr_field const*', 'in, values num_fields'))
_HALO_START = _engine.function(
    'gr_halo_start',
    ('halo', 'gr_halo const*', 'in'),
    ('num_fields', 'int', 'in, count fields'),
    ('fields', 'gr_field const*', 'in, values num_fields'),
    ('pending', 'gr_pending**', 'out'))
_HALO_EXCHANGE_ADJOINT = _engine.function(
    'gr_halo_exchange_adjoint',
    ('halo', 'gr_halo const*', 'in'),
    ('num_fields', 'int', 'in, count fields'),
    ('fields', 'gr_field const*', 'in, values num_fields'))
_HALO_START_ADJOINT = _engine.function(
    'gr_halo_start_adjoint',
    ('halo', 'gr_halo const*', 'in'),
    ('num_fields', 'int', 'in, count fields'),
    ('fields', 'gr_field const*', 'in, values num_fields'),
    ('pending', 'gr_pending**', 'out'))
_HALO_SET_TRANSPORT = _engine.function(
    'gr_halo_set_transport',
    ('halo', 'gr_halo*', 'inout'),
    ('transport', 'gr_transport', 'in'))
_HALO_TUNE = _engine.function(
    'gr_halo_tune',
    ('halo', 'gr_halo*', 'inout'),
    ('num_fields', 'int', 'in, count fields'),
    ('fields', 'gr_field const*', 'in, values num_fields'),
    ('num_calls', 'int', 'in'),
    ('chosen', 'gr_transport*', 'out'))
_HALO_COUNTS = _engine.function(
    'gr_halo_counts',
    ('halo', 'gr_halo const*', 'in'),
    ('counts', 'gr_counts*', 'inout'))
_HALO_STATS = _engine.function(
    'gr_halo_stats',
    ('halo', 'gr_halo const*', 'in'),
    ('stats', 'gr_stats*', 'inout'))
_HALO_REPORT = _engine.function(
    'gr_halo_report',
    ('halo', 'gr_halo const*', 'in'),
    ('text', 'char const**', 'out'))
_HALO_DUMP = _engine.function(
    'gr_halo_dump',
    ('halo', 'gr_halo const*', 'in'),
    ('path', 'char const*', 'in'))
_HALO_DEPTH_CREATE = _engine.function(
    'gr_halo_depth_create',
    ('halo', 'gr_halo const*', 'in'),
    ('name', 'char const*', 'in'),
    ('kind', 'int', 'in'),
    ('parity', 'gr_parity', 'in'),
    ('depth', 'gr_halo_depth**', 'out'))
_HALO_DEPTH_EXCHANGED = _engine.function(
    'gr_halo_depth_exchanged',
    ('depth', 'gr_halo_depth*', 'inout'))
_HALO_DEPTH_WRITTEN = _engine.function(
    'gr_halo_depth_written',
    ('depth', 'gr_halo_depth*', 'inout'))
_HALO_DEPTH_INSIDE = _engine.function(
    'gr_halo_depth_inside',
    ('depth', 'gr_halo_depth const*', 'in'),
    ('ndim', 'int', 'in, count lower upper'),
    ('lower', 'int64_t*', 'out, axes ndim'),
    ('upper', 'int64_t*', 'out, axes ndim'))
_HALO_DEPTH_BEYOND = _engine.function(
    'gr_halo_depth_beyond',
    ('depth', 'gr_halo_depth const*', 'in'),
    ('ndim', 'int', 'in, count lower upper'),
    ('lower', 'int64_t*', 'out, axes ndim'),
    ('upper', 'int64_t*', 'out, axes ndim'))
_HALO_DEPTH_VALID = _engine.function(
    'gr_halo_depth_valid',
    ('depth', 'gr_halo_depth const*', 'in'),
    ('ndim', 'int', 'in, count lower upper'),
    ('lower', 'int64_t*', 'out, lower ndim'),
    ('upper', 'int64_t*', 'out, upper ndim'))
_HALO_DEPTH_COMMUTES = _engine.function(
    'gr_halo_depth_commutes',
    ('depth', 'gr_halo_depth const*', 'in'),
    ('ndim', 'int', 'in, count lower upper'),
    ('lower', 'int*', 'out, flag, axes ndim'),
    ('upper', 'int*', 'out, flag, axes ndim'))
_HALO_DEPTH_SUFFICES = _engine.function(
    'gr_halo_depth_suffices',
    ('depth', 'gr_halo_depth const*', 'in'),
    ('ndim', 'int', 'in, count reach_lower reach_upper'),
    ('reach_lower', 'int64_t const*', 'in, axes ndim'),
    ('reach_upper', 'int64_t const*', 'in, axes ndim'),
    ('suffices', 'int*', 'out, flag'))
_HALO_DEPTH_APPLY = _engine.function(
    'gr_halo_depth_apply',
    ('depth', 'gr_halo_depth*', 'inout'),
    ('input', 'gr_halo_depth const*', 'in'),
    ('ndim', 'int', 'in, count reach_lower reach_upper lower upper'),
    ('reach_lower', 'int64_t const*', 'in, axes ndim'),
    ('reach_upper', 'int64_t const*', 'in, axes ndim'),
    ('at_mirrors', 'gr_at_mirrors', 'in'),
    ('lower', 'int64_t*', 'out, lower ndim'),
    ('upper', 'int64_t*', 'out, upper ndim'))
_HALO_DEPTH_REFILL = _engine.function(
    'gr_halo_depth_refill',
    ('depth', 'gr_halo_depth*', 'inout'),
    ('field', 'gr_field const*', 'in'))
_REPARTITION_CREATE = _engine.function(
    'gr_repartition_create',
    ('comm', 'gr_comm const*', 'in'),
    ('from', 'gr_layout const*', 'in'),
    ('to', 'gr_layout const*', 'in'),
    ('options', 'gr_repartition_options const*', 'in, optional'),
    ('plan', 'gr_repartition**', 'out'))
_REPARTITION_CREATE_BOXES = _engine.function(
    'gr_repartition_create_boxes',
    ('comm', 'gr_comm const*', 'in'),
    ('from', 'gr_layout const*', 'in'),
    ('ndim', 'int', 'in, count lower upper'),
    ('num_boxes', 'int', 'in, count lower upper'),
    ('lower', 'int64_t const*', 'in, lower ndim, boxes num_boxes'),
    ('upper', 'int64_t const*', 'in, upper ndim, boxes num_boxes'),
    ('options', 'gr_repartition_options const*', 'in, optional'),
    ('plan', 'gr_repartition**', 'out'))
_REPARTITION_SOURCE = _engine.function(
    'gr_repartition_source',
    ('plan', 'gr_repartition const*', 'in'),
    ('ndim', 'int', 'in, count lower upper'),
    ('lower', 'int64_t*', 'out, lower ndim'),
    ('upper', 'int64_t*', 'out, upper ndim'))
_REPARTITION_NUM_TARGETS = _engine.function(
    'gr_repartition_num_targets',
    ('plan', 'gr_repartition const*', 'in'),
    ('num_targets', 'int*', 'out'))
_REPARTITION_TARGET = _engine.function(
    'gr_repartition_target',
    ('plan', 'gr_repartition const*', 'in'),
    ('target', 'int', 'in'),
    ('ndim', 'int', 'in, count lower upper'),
    ('lower', 'int64_t*', 'out, lower ndim'),
    ('upper', 'int64_t*', 'out, upper ndim'))
_REPARTITION_APPLY = _engine.function(
    'gr_repartition_apply',
    ('plan', 'gr_repartition const*', 'in'),
    ('num_from', 'int', 'in, count from updates'),
    ('from', 'gr_field const*', 'in, values num_from'),
    ('num_to', 'int', 'in, count to'),
    ('to', 'gr_field const*', 'in, values num_to'),
    ('updates', 'gr_update const*', 'in, optional, values num_from'))
_REPARTITION_START = _engine.function(
    'gr_repartition_start',
    ('plan', 'gr_repartition const*', 'in'),
    ('num_from', 'int', 'in, count from updates'),
    ('from', 'gr_field const*', 'in, values num_from'),
    ('num_to', 'int', 'in, count to'),
    ('to', 'gr_field const*', 'in, values num_to'),
    ('updates', 'gr_update const*', 'in, optional, values num_from'),
    ('pending', 'gr_pending**', 'out'))
_REPARTITION_APPLY_ADJOINT = _engine.function(
    'gr_repartition_apply_adjoint',
    ('plan', 'gr_repartition const*', 'in'),
    ('num_from', 'int', 'in, count from updates'),
    ('from', 'gr_field const*', 'in, values num_from'),
    ('num_to', 'int', 'in, count to'),
    ('to', 'gr_field const*', 'in, values num_to'),
    ('updates', 'gr_update const*', 'in, optional, values num_from'))
_REPARTITION_START_ADJOINT = _engine.function(
    'gr_repartition_start_adjoint',
    ('plan', 'gr_repartition const*', 'in'),
    ('num_from', 'int', 'in, count from updates'),
    ('from', 'gr_field const*', 'in, values num_from'),
    ('num_to', 'int', 'in, count to'),
    ('to', 'gr_field const*', 'in, values num_to'),
    ('updates', 'gr_update const*', 'in, optional, values num_from'),
    ('pending', 'gr_pending**', 'out'))
_REPARTITION_APPLY_INVERSE = _engine.function(
    'gr_repartition_apply_inverse',
    ('plan', 'gr_repartition const*', 'in'),
    ('num_from', 'int', 'in, count from updates'),
    ('from', 'gr_field const*', 'in, values num_from'),
    ('num_to', 'int', 'in, count to'),
    ('to', 'gr_field const*', 'in, values num_to'),
    ('updates', 'gr_update const*', 'in, optional, values num_from'))
_REPARTITION_START_INVERSE = _engine.function(
    'gr_repartition_start_inverse',
    ('plan', 'gr_repartition const*', 'in'),
    ('num_from', 'int', 'in, count from updates'),
    ('from', 'gr_field const*', 'in, values num_from'),
    ('num_to', 'int', 'in, count to'),
    ('to', 'gr_field const*', 'in, values num_to'),
    ('updates', 'gr_update const*', 'in, optional, values num_from'),
    ('pending', 'gr_pending**', 'out'))
_REPARTITION_SET_TRANSPORT = _engine.function(
    'gr_repartition_set_transport',
    ('plan', 'gr_repartition*', 'inout'),
    ('transport', 'gr_transport', 'in'))
_REPARTITION_TUNE = _engine.function(
    'gr_repartition_tune',
    ('plan', 'gr_repartition*', 'inout'),
    ('num_from', 'int', 'in, count from'),
    ('from', 'gr_field const*', 'in, values num_from'),
    ('num_to', 'int', 'in, count to'),
    ('to', 'gr_field const*', 'in, values num_to'),
    ('num_calls', 'int', 'in'),
    ('chosen', 'gr_transport*', 'out'))
_REPARTITION_COUNTS = _engine.function(
    'gr_repartition_counts',
    ('plan', 'gr_repartition const*', 'in'),
    ('counts', 'gr_counts*', 'inout'))
_REPARTITION_STATS = _engine.function(
    'gr_repartition_stats',
    ('plan', 'gr_repartition const*', 'in'),
    ('stats', 'gr_stats*', 'inout'))
_REPARTITION_REPORT = _engine.function(
    'gr_repartition_report',
    ('plan', 'gr_repartition const*', 'in'),
    ('text', 'char const**', 'out'))
_REPARTITION_DUMP = _engine.function(
    'gr_repartition_dump',
    ('plan', 'gr_repartition const*', 'in'),
    ('path', 'char const*', 'in'))
_ZONAL_CREATE = _engine.function(
    'gr_zonal_create',
    ('comm', 'gr_comm const*', 'in'),
    ('layout', 'gr_layout const*', 'in'),
    ('axis', 'int', 'in, axis layout'),
    ('summation', 'gr_summation', 'in'),
    ('scale', 'gr_scale', 'in'),
    ('ndim', 'int', 'in, count lower upper'),
    ('lower', 'int64_t const*', 'in, optional, lower ndim'),
    ('upper', 'int64_t const*', 'in, optional, upper ndim'),
    ('zonal', 'gr_zonal**', 'out'))
_ZONAL_CELLS = _engine.function(
    'gr_zonal_cells',
    ('zonal', 'gr_zonal const*', 'in'),
    ('ndim', 'int', 'in, count lower upper'),
    ('lower', 'int64_t*', 'out, lower ndim'),
    ('upper', 'int64_t*', 'out, upper ndim'))
_ZONAL_SUMS = _engine.function(
    'gr_zonal_sums',
    ('zonal', 'gr_zonal const*', 'in'),
    ('ndim', 'int', 'in, count lower upper'),
    ('lower', 'int64_t*', 'out, lower ndim'),
    ('upper', 'int64_t*', 'out, upper ndim'))
_ZONAL_APPLY = _engine.function(
    'gr_zonal_apply',
    ('zonal', 'gr_zonal const*', 'in'),
    ('num_fields', 'int', 'in, count cells sums'),
    ('cells', 'gr_field const*', 'in, values num_fields'),
    ('sums', 'gr_field const*', 'in, values num_fields'))
_ZONAL_START = _engine.function(
    'gr_zonal_start',
    ('zonal', 'gr_zonal const*', 'in'),
    ('num_fields', 'int', 'in, count cells sums'),
    ('cells', 'gr_field const*', 'in, values num_fields'),
    ('sums', 'gr_field const*', 'in, values num_fields'),
    ('pending', 'gr_pending**', 'out'))
_ZONAL_APPLY_ADJOINT = _engine.function(
    'gr_zonal_apply_adjoint',
    ('zonal', 'gr_zonal const*', 'in'),
    ('num_fields', 'int', 'in, count cells sums'),
    ('cells', 'gr_field const*', 'in, values num_fields'),
    ('sums', 'gr_field const*', 'in, values num_fields'),
    ('cotangents', 'gr_cotangents', 'in'))
_AREA_SUM_CREATE = _engine.function(
    'gr_area_sum_create',
    ('comm', 'gr_comm const*', 'in'),
    ('layout', 'gr_layout const*', 'in'),
    ('axis', 'int', 'in, axis layout'),
    ('row_axis', 'int', 'in, axis layout'),
    ('num_rows', 'int', 'in, count weights'),
    ('weights', 'double const*', 'in, values num_rows'),
    ('scale', 'gr_scale', 'in'),
    ('area_sum', 'gr_area_sum**', 'out'))
_AREA_SUM_CREATE_CELLS = _engine.function(
    'gr_area_sum_create_cells',
    ('comm', 'gr_comm const*', 'in'),
    ('layout', 'gr_layout const*', 'in'),
    ('weights', 'gr_field const*', 'in'),
    ('scale', 'gr_scale', 'in'),
    ('area_sum', 'gr_area_sum**', 'out'))
_AREA_SUM_APPLY = _engine.function(
    'gr_area_sum_apply',
    ('area_sum', 'gr_area_sum const*', 'in'),
    ('cells', 'gr_field const*', 'in'),
    ('num_sums', 'int', 'in, count sums'),
    ('sums', 'double*', 'out, values num_sums'))
_AREA_SUM_APPLY_ADJOINT = _engine.function(
    'gr_area_sum_apply_adjoint',
    ('area_sum', 'gr_area_sum const*', 'in'),
    ('cells', 'gr_field const*', 'in'),
    ('num_sums', 'int', 'in, count cotangents'),
    ('cotangents', 'double const*', 'in, values num_sums'))
_ATTRIBUTES_CREATE = _engine.function(
    'gr_attributes_create',
    ('attributes', 'gr_attributes**', 'out'))
_ATTRIBUTES_ADD_TEXT = _engine.function(
    'gr_attributes_add_text',
    ('attributes', 'gr_attributes*', 'inout'),
    ('name', 'char const*', 'in'),
    ('value', 'char const*', 'in'))
_ATTRIBUTES_ADD_NUMBER = _engine.function(
    'gr_attributes_add_number',
    ('attributes', 'gr_attributes*', 'inout'),
    ('name', 'char const*', 'in'),
    ('value', 'double', 'in'),
    ('type', 'gr_type', 'in'))
_FILE_OPEN = _engine.function(
    'gr_file_open',
    ('comm', 'gr_comm const*', 'in'),
    ('path', 'char const*', 'in'),
    ('file', 'gr_file**', 'out'))
_FILE_OPEN_SERIES = _engine.function(
    'gr_file_open_series',
    ('comm', 'gr_comm const*', 'in'),
    ('num_patterns', 'int', 'in, count patterns'),
    ('patterns', 'char const* const*', 'in, values num_patterns'),
    ('dimension', 'char const*', 'in, optional'),
    ('most_open', 'int', 'in'),
    ('file', 'gr_file**', 'out'))
_FILE_NUM_FILES = _engine.function(
    'gr_file_num_files',
    ('file', 'gr_file const*', 'in'),
    ('num_files', 'int*', 'out'))
_FILE_PART = _engine.function(
    'gr_file_part',
    ('file', 'gr_file const*', 'in'),
    ('number', 'int', 'in'),
    ('cells_before', 'int64_t*', 'out'),
    ('num_cells', 'int64_t*', 'out'),
    ('path', 'char const**', 'out'))
_FILE_SERIES_DIMENSION = _engine.function(
    'gr_file_series_dimension',
    ('file', 'gr_file const*', 'in'),
    ('name', 'char const**', 'out'))
_FILE_NUM_VARIABLES = _engine.function(
    'gr_file_num_variables',
    ('file', 'gr_file const*', 'in'),
    ('num_variables', 'int*', 'out'))
_FILE_VARIABLE_NAME = _engine.function(
    'gr_file_variable_name',
    ('file', 'gr_file const*', 'in'),
    ('number', 'int', 'in'),
    ('name', 'char const**', 'out'))
_FILE_NDIM = _engine.function(
    'gr_file_ndim',
    ('file', 'gr_file const*', 'in'),
    ('variable', 'char const*', 'in'),
    ('ndim', 'int*', 'out'))
_FILE_EXTENTS = _engine.function(
    'gr_file_extents',
    ('file', 'gr_file const*', 'in'),
    ('variable', 'char const*', 'in'),
    ('ndim', 'int', 'in, count extents'),
    ('extents', 'int64_t*', 'out, axes ndim'))
_FILE_DIMENSION = _engine.function(
    'gr_file_dimension',
    ('file', 'gr_file const*', 'in'),
    ('variable', 'char const*', 'in'),
    ('ndim', 'int', 'in'),
    ('axis', 'int', 'in, axis ndim'),
    ('name', 'char const**', 'out'))
_FILE_COORDINATE = _engine.function(
    'gr_file_coordinate',
    ('file', 'gr_file const*', 'in'),
    ('dimension', 'char const*', 'in'),
    ('num_values', 'int', 'in, count values'),
    ('values', 'double*', 'out, values num_values'))
_FILE_CALENDAR = _engine.function(
    'gr_file_calendar',
    ('file', 'gr_file const*', 'in'),
    ('dimension', 'char const*', 'in'),
    ('calendar', 'char const**', 'out'))
_FILE_TIMES = _engine.function(
    'gr_file_times',
    ('file', 'gr_file const*', 'in'),
    ('dimension', 'char const*', 'in'),
    ('num_times', 'int', 'in, count times'),
    ('times', 'int64_t*', 'out, values num_times'))
_TIME_OF_DATE = _engine.function(
    'gr_time_of_date',
    ('calendar', 'char const*', 'in'),
    ('year', 'int', 'in'),
    ('month', 'int', 'in'),
    ('day', 'int', 'in'),
    ('second', 'int', 'in'),
    ('time', 'int64_t*', 'out'))
_DATE_OF_TIME = _engine.function(
    'gr_date_of_time',
    ('calendar', 'char const*', 'in'),
    ('time', 'int64_t', 'in'),
    ('year', 'int*', 'out'),
    ('month', 'int*', 'out'),
    ('day', 'int*', 'out'),
    ('second', 'int*', 'out'))
_FILE_ATTRIBUTE_TEXT = _engine.function(
    'gr_file_attribute_text',
    ('file', 'gr_file const*', 'in'),
    ('variable', 'char const*', 'in, optional'),
    ('attribute', 'char const*', 'in'),
    ('text', 'char const**', 'out'))
_FILE_ATTRIBUTE_NUMBERS = _engine.function(
    'gr_file_attribute_numbers',
    ('file', 'gr_file const*', 'in'),
    ('variable', 'char const*', 'in, optional'),
    ('attribute', 'char const*', 'in'),
    ('most_numbers', 'int', 'in, count numbers'),
    ('num_numbers', 'int*', 'out'),
    ('numbers', 'double*', 'out, values most_numbers'))
_FILE_READ = _engine.function(
    'gr_file_read',
    ('file', 'gr_file const*', 'in'),
    ('variable', 'char const*', 'in'),
    ('ndim', 'int', 'in, count lower upper steps'),
    ('lower', 'int64_t const*', 'in, lower ndim'),
    ('upper', 'int64_t const*', 'in, upper ndim'),
    ('steps', 'int64_t const*', 'in, optional, axes ndim'),
    ('num_axes', 'int', 'in, count axes'),
    ('axes', 'int const*', 'in, optional, axes num_axes, axis ndim'),
    ('field', 'gr_field const*', 'in'))
_WRITER_CREATE = _engine.function(
    'gr_writer_create',
    ('comm', 'gr_comm const*', 'in'),
    ('path', 'char const*', 'in'),
    ('attributes', 'gr_attributes const*', 'in, optional'),
    ('writer', 'gr_writer**', 'out'))
_WRITER_APPEND = _engine.function(
    'gr_writer_append',
    ('comm', 'gr_comm const*', 'in'),
    ('path', 'char const*', 'in'),
    ('in_place', 'int', 'in, flag'),
    ('writer', 'gr_writer**', 'out'))
_WRITER_ADD_DIMENSION = _engine.function(
    'gr_writer_add_dimension',
    ('writer', 'gr_writer*', 'inout'),
    ('name', 'char const*', 'in'),
    ('extent', 'int64_t', 'in'),
    ('unlimited', 'int', 'in, flag'))
_WRITER_ADD_COORDINATE = _engine.function(
    'gr_writer_add_coordinate',
    ('writer', 'gr_writer*', 'inout'),
    ('name', 'char const*', 'in'),
    ('num_values', 'int', 'in, count values'),
    ('values', 'double const*', 'in, values num_values'),
    ('type', 'gr_type', 'in'),
    ('attributes', 'gr_attributes const*', 'in, optional'))
_WRITER_ADD_VARIABLE = _engine.function(
    'gr_writer_add_variable',
    ('writer', 'gr_writer*', 'inout'),
    ('name', 'char const*', 'in'),
    ('dimensions', 'char const*', 'in'),
    ('type', 'gr_type', 'in'),
    ('options', 'gr_variable_options const*', 'in, optional'),
    ('attributes', 'gr_attributes const*', 'in, optional'))
_WRITER_EXTEND = _engine.function(
    'gr_writer_extend',
    ('writer', 'gr_writer*', 'inout'),
    ('dimension', 'char const*', 'in'),
    ('count', 'int64_t', 'in'))
_WRITER_WRITE = _engine.function(
    'gr_writer_write',
    ('writer', 'gr_writer*', 'inout'),
    ('variable', 'char const*', 'in'),
    ('ndim', 'int', 'in, count lower upper steps'),
    ('lower', 'int64_t const*', 'in, lower ndim'),
    ('upper', 'int64_t const*', 'in, upper ndim'),
    ('steps', 'int64_t const*', 'in, optional, axes ndim'),
    ('num_axes', 'int', 'in, count axes'),
    ('axes', 'int const*', 'in, optional, axes num_axes, axis ndim'),
    ('field', 'gr_field const*', 'in'))
_WRITER_WRITE_REPLICATED = _engine.function(
    'gr_writer_write_replicated',
    ('writer', 'gr_writer*', 'inout'),
    ('variable', 'char const*', 'in'),
    ('ndim', 'int', 'in, count lower upper steps'),
    ('lower', 'int64_t const*', 'in, lower ndim'),
    ('upper', 'int64_t const*', 'in, upper ndim'),
    ('steps', 'int64_t const*', 'in, optional, axes ndim'),
    ('num_axes', 'int', 'in, count axes'),
    ('axes', 'int const*', 'in, optional, axes num_axes, axis ndim'),
    ('field', 'gr_field const*', 'in'))
_WRITER_COMMIT = _engine.function(
    'gr_writer_commit',
    ('writer', 'gr_writer*', 'inout'))
_CHECKPOINTS_CREATE = _engine.function(
    'gr_checkpoints_create',
    ('comm', 'gr_comm const*', 'in'),
    ('folder', 'char const*', 'in'),
    ('keep', 'int', 'in'),
    ('checkpoints', 'gr_checkpoints**', 'out'))
_CHECKPOINT_BEGIN = _engine.function(
    'gr_checkpoint_begin',
    ('checkpoints', 'gr_checkpoints*', 'inout'),
    ('step', 'int64_t', 'in'),
    ('writer', 'gr_checkpoint_writer**', 'out'))
_CHECKPOINT_ADD = _engine.function(
    'gr_checkpoint_add',
    ('writer', 'gr_checkpoint_writer*', 'inout'),
    ('name', 'char const*', 'in'),
    ('layout', 'gr_layout const*', 'in'),
    ('field', 'gr_field const*', 'in'))
_CHECKPOINT_ADD_REPLICATED = _engine.function(
    'gr_checkpoint_add_replicated',
    ('writer', 'gr_checkpoint_writer*', 'inout'),
    ('name', 'char const*', 'in'),
    ('field', 'gr_field const*', 'in'))
_CHECKPOINT_ADD_INTEGERS = _engine.function(
    'gr_checkpoint_add_integers',
    ('writer', 'gr_checkpoint_writer*', 'inout'),
    ('name', 'char const*', 'in'),
    ('num_values', 'int', 'in, count values'),
    ('values', 'int64_t const*', 'in, values num_values'))
_CHECKPOINT_ADD_REALS = _engine.function(
    'gr_checkpoint_add_reals',
    ('writer', 'gr_checkpoint_writer*', 'inout'),
    ('name', 'char const*', 'in'),
    ('num_values', 'int', 'in, count values'),
    ('values', 'double const*', 'in, values num_values'))
_CHECKPOINT_ADD_TEXT = _engine.function(
    'gr_checkpoint_add_text',
    ('writer', 'gr_checkpoint_writer*', 'inout'),
    ('name', 'char const*', 'in'),
    ('text', 'char const*', 'in'))
_CHECKPOINT_COMMIT = _engine.function(
    'gr_checkpoint_commit',
    ('writer', 'gr_checkpoint_writer*', 'inout'))
_CHECKPOINTS_NEWEST = _engine.function(
    'gr_checkpoints_newest',
    ('checkpoints', 'gr_checkpoints*', 'inout'),
    ('checkpoint', 'gr_checkpoint**', 'out'))
_CHECKPOINTS_SKIPPED = _engine.function(
    'gr_checkpoints_skipped',
    ('checkpoints', 'gr_checkpoints const*', 'in'),
    ('text', 'char const**', 'out'))
_CHECKPOINT_OPEN = _engine.function(
    'gr_checkpoint_open',
    ('comm', 'gr_comm const*', 'in'),
    ('path', 'char const*', 'in'),
    ('checkpoint', 'gr_checkpoint**', 'out'))
_CHECKPOINT_STEP = _engine.function(
    'gr_checkpoint_step',
    ('checkpoint', 'gr_checkpoint const*', 'in'),
    ('step', 'int64_t*', 'out'))
_CHECKPOINT_PATH = _engine.function(
    'gr_checkpoint_path',
    ('checkpoint', 'gr_checkpoint const*', 'in'),
    ('path', 'char const**', 'out'))
_CHECKPOINT_HAS = _engine.function(
    'gr_checkpoint_has',
    ('checkpoint', 'gr_checkpoint const*', 'in'),
    ('name', 'char const*', 'in'),
    ('found', 'int*', 'out, flag'))
_CHECKPOINT_READ = _engine.function(
    'gr_checkpoint_read',
    ('checkpoint', 'gr_checkpoint const*', 'in'),
    ('name', 'char const*', 'in'),
    ('layout', 'gr_layout const*', 'in'),
    ('field', 'gr_field const*', 'in'))
_CHECKPOINT_READ_REPLICATED = _engine.function(
    'gr_checkpoint_read_replicated',
    ('checkpoint', 'gr_checkpoint const*', 'in'),
    ('name', 'char const*', 'in'),
    ('field', 'gr_field const*', 'in'))
_CHECKPOINT_CONVERT = _engine.function(
    'gr_checkpoint_convert',
    ('checkpoint', 'gr_checkpoint*', 'inout'),
    ('converts', 'int', 'in, flag'))
_CHECKPOINT_INTEGERS = _engine.function(
    'gr_checkpoint_integers',
    ('checkpoint', 'gr_checkpoint const*', 'in'),
    ('name', 'char const*', 'in'),
    ('num_values', 'int', 'in, count values'),
    ('values', 'int64_t*', 'out, values num_values'))
_CHECKPOINT_REALS = _engine.function(
    'gr_checkpoint_reals',
    ('checkpoint', 'gr_checkpoint const*', 'in'),
    ('name', 'char const*', 'in'),
    ('num_values', 'int', 'in, count values'),
    ('values', 'double*', 'out, values num_values'))
_CHECKPOINT_TEXT = _engine.function(
    'gr_checkpoint_text',
    ('checkpoint', 'gr_checkpoint const*', 'in'),
    ('name', 'char const*', 'in'),
    ('text', 'char const**', 'out'))
_CHECKPOINT_VERIFY = _engine.function(
    'gr_checkpoint_verify',
    ('checkpoint', 'gr_checkpoint const*', 'in'))


__all__ = ['AreaSum', 'AtMirrors', 'Attributes', 'Checkpoint', 'CheckpointWriter', 'Checkpoints', 'Comm', 'Corners',
           'Cotangents', 'Counts', 'Cuts', 'Edge', 'FaceJoint', 'Field', 'File', 'Halo', 'HaloDepth', 'HaloKind',
           'Layout', 'MirrorLine', 'NodeMemory', 'OddLongitudes', 'Parity', 'Pending', 'RelabelOptions',
           'Relabelling', 'Repartition', 'RepartitionOptions', 'Scale', 'Space', 'Stagger', 'Stats', 'Summation',
           'Teams', 'Transport', 'Type', 'Update', 'VariableOptions', 'Writer', 'Zonal', 'area_weights',
           'date_of_time', 'halo_kind_sphere', 'halo_kind_tripolar', 'halo_kind_uniform', 'init', 'is_initialized',
           'long_copies', 'plan_name', 'set_patience', 'time_of_date', 'version']
