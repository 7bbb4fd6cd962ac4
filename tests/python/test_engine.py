# SPDX-License-Identifier: BSD-3-Clause
"""graticule.engine on arrays of numpy and torch, function by function. tests/python/check_coverage.py compares with graticule.h."""
import ctypes
import os
import shutil
import tempfile

import numpy as np
import torch
from support import COMM, RANK, RANKS, main, raises, skip

from graticule import engine as e

ROWS, COLUMNS = 9, 6


def made():
    comm = e.Comm.create(COMM)
    return comm, e.Layout.create([ROWS, COLUMNS], [RANKS, 1])


def box(layout):
    lower, upper = layout.owned(RANK)
    return tuple(slice(a, b) for a, b in zip(lower, upper))


GLOBE = np.arange(ROWS * COLUMNS, dtype=np.float64).reshape(ROWS, COLUMNS)


def wrapped(sign=1.0):
    """The globe with one ghost cell on each side: across poles on faces, periodic in longitude."""
    poles = [np.roll(GLOBE[0], COLUMNS // 2) * sign, np.roll(GLOBE[-1], COLUMNS // 2) * sign]
    whole = np.vstack([poles[0], GLOBE, poles[1]])
    return np.hstack([whole[:, -1:], whole, whole[:, :1]])


def test_library():
    comm, _ = made()
    assert len(e.version()) == 3 and e.is_initialized()
    assert comm.rank() == RANK and comm.size() == RANKS and comm.node()[0] >= 1
    e.set_patience(100.0, 0.0)
    e.set_patience(0.0, 0.0)
    e.plan_name("tracers")
    comm.renew()
    comm.close()
    raises("WrongState", comm.rank, "comm was closed")


def test_cuts_and_layouts():
    comm, layout = made()
    assert list(e.Cuts.create([4, 3, 3]).sizes()) == [4, 3, 3]
    assert list(e.Cuts.create_balanced(10, 3).sizes()) == [4, 3, 3] and e.Cuts.create_balanced(10, 3).num_parts() == 3
    assert list(e.Cuts.create_weighted([9.0, 1, 1, 1], 2).sizes()) == [1, 3]
    assert sum(e.Cuts.create_rebalanced(e.Cuts.create([5, 5]), [3.0, 1.0]).sizes()) == 10
    assert layout.ndim() == 2 and list(layout.extents()) == [ROWS, COLUMNS] and "9" in layout.text()
    lower, upper = layout.owned(RANK)
    boxes = e.Layout.create_boxes(comm, [ROWS, COLUMNS], [lower], [upper])
    assert np.array_equal(boxes.owned(RANK), layout.owned(RANK))
    parts = [e.Cuts.create_balanced(ROWS, RANKS), e.Cuts.create([COLUMNS])]
    assert np.array_equal(e.Layout.create_cuts(parts).owned(RANK), layout.owned(RANK))
    turned = e.Layout.create_cuts(parts, ranks=list(range(RANKS))[::-1])
    assert np.array_equal(turned.owned(RANKS - 1 - RANK), layout.owned(RANK))
    assert e.Layout.create_best(comm, [ROWS, COLUMNS], e.halo_kind_sphere(e.Edge.POLE_FACE, 1), 8, 1).ndim() == 2
    shared = e.Layout.create_shared(comm, layout, comm)
    assert np.array_equal(shared.owned(RANK), layout.owned(RANK))
    weights = e.area_weights(np.linspace(80, -80, 9))
    assert abs(weights.sum() - 1) < 1e-12 and weights.argmax() == 4


def halo_of(comm, layout, **members):
    kind = e.halo_kind_sphere(e.Edge.POLE_FACE, 1)
    for name, value in members.items():
        kind.set(name, value)
    return e.Halo.create(comm, layout, kind)


def filled(halo, dtype=np.float64, extra=()):
    lower, upper = halo.local(0)
    field = np.full([*extra, *(upper - lower)], 99, dtype=dtype)
    rows, columns = (slice(*b) for b in zip(*halo.owned()))
    field[..., 1:-1, 1:-1] = GLOBE[rows, columns]
    return field


def expected(halo, sign=1.0):
    lower, upper = halo.local(0)
    return wrapped(sign)[lower[0] + 1:upper[0] + 1, lower[1] + 1:upper[1] + 1]


def test_halos_of_numpy_and_torch():
    comm, layout = made()
    halo = halo_of(comm, layout)
    for dtype in (np.float64, np.float32, np.int64):
        field = filled(halo, dtype)
        halo.exchange(field)
        assert np.array_equal(field, expected(halo))
    several = [filled(halo), torch.from_numpy(filled(halo, np.float32)), filled(halo)]
    halo.exchange([several[0], several[1], e.Field(several[2], parity=e.Parity.ODD)])
    assert np.array_equal(several[0], expected(halo)) and np.array_equal(several[1].numpy(), expected(halo))
    assert np.array_equal(several[2], expected(halo, -1.0))
    half = torch.from_numpy(filled(halo, np.float32)).to(torch.bfloat16)
    halo.exchange(half)
    assert np.array_equal(half.float().numpy(), expected(halo))


class OnlyDlpack:
    """An array of another library."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **named):
        return self.array.__dlpack__(**named)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_views_are_used_where_they_lie():
    comm, layout = made()
    halo = halo_of(comm, layout)
    lower, upper = halo.local(0)
    store = np.zeros([upper[1] - lower[1], 3, 2 * (upper[0] - lower[0])])
    view = store[:, 1, ::-2].T
    view[...] = filled(halo)
    halo.exchange(view)
    assert np.array_equal(view, expected(halo)) and not store[:, 0].any()
    levels_last = np.ascontiguousarray(np.moveaxis(filled(halo, extra=(2,)), 0, -1))
    halo.exchange(e.Field(levels_last, axes=(0, 1)))
    assert np.array_equal(levels_last[..., 1], expected(halo))
    inside = np.zeros([s + 4 for s in view.shape])
    inside[2:-2, 2:-2] = filled(halo)
    halo.exchange(e.Field(inside, first=(3, 3)))
    assert np.array_equal(inside[2:-2, 2:-2], expected(halo))
    plain = filled(halo)
    halo.exchange(OnlyDlpack(plain))
    assert np.array_equal(plain, expected(halo))


def test_exchanges_in_flight_and_adjoint():
    comm, layout = made()
    halo = halo_of(comm, layout)
    field = filled(halo)
    pending = halo.start(field)
    lower, upper = halo.interior(0)
    lowers, uppers = halo.border(0)
    assert len(lowers) == len(uppers) <= 4
    cells = np.prod(upper - lower) + sum(np.prod(b - a) for a, b in zip(lowers, uppers))
    owned = halo.owned()
    assert cells == np.prod(owned[1] - owned[0])
    assert len(halo.border(0, [0, 0], [0, 0])[0]) == 0
    while not pending.test():
        pass
    pending.finish()
    assert np.array_equal(field, expected(halo))
    ones = np.ones_like(field)
    halo.exchange_adjoint(ones)
    assert not ones[0].any() and COMM.allreduce(ones.sum()) == sum(COMM.allgather(ones.size))
    again = np.ones_like(field)
    halo.start_adjoint(again).finish()
    assert np.array_equal(ones, again)
    raises("WrongState", pending.finish)


def test_reports_of_halos():
    comm, layout = made()
    halo = halo_of(comm, layout)
    halo.set_transport(e.Transport.POINT_TO_POINT)
    halo.exchange(filled(halo))
    counts, stats = halo.counts(), halo.stats()
    assert counts.num_send_peers == (min(2, RANKS - 1) if 0 < RANK < RANKS - 1 else min(1, RANKS - 1)) and counts.local_cells > 0
    assert stats.num_calls == 1 and stats.buffer_bytes >= 0
    assert halo.tune(filled(halo), 1) in list(e.Transport) and halo.report()
    with tempfile.TemporaryDirectory() as folder:
        path = COMM.bcast(os.path.join(folder, "plan.json"))
        halo.dump(path)
        COMM.Barrier()
        assert os.path.getsize(path) > 0
        COMM.Barrier()


def test_rules_of_other_kinds():
    comm, layout = made()
    uniform = e.halo_kind_uniform(2, e.Edge.REPLICATE, 1)
    tripolar = e.halo_kind_tripolar(e.Edge.CONSTANT, e.Edge.TRIPOLAR_FACE, 1)
    assert uniform.lower_edge[0] == e.Edge.REPLICATE and tripolar.upper_edge[0] == e.Edge.TRIPOLAR_FACE
    halo = e.Halo.create(comm, layout, [uniform, tripolar])
    fields = [filled(halo), filled(halo)]
    halo.exchange([fields[0], e.Field(fields[1], kind=1)])
    if RANK == 0:
        assert np.array_equal(fields[0][0], fields[0][1]) and not fields[1][0].any()


def test_values_on_all_faces():
    comm, layout = made()
    faces = e.halo_kind_sphere(e.Edge.POLE_FACE, 1)
    faces.stagger[0] = e.Stagger.ALL_FACES
    halo = e.Halo.create(comm, layout, [e.halo_kind_sphere(e.Edge.POLE_FACE, 1), faces])
    t_lower, t_upper = halo.owned()
    lower, upper = halo.layout(1).owned(RANK)
    num_rows = layout.extents()[0]
    assert list(lower) == list(t_lower) and upper[0] - t_upper[0] == (1 if t_upper[0] == num_rows else 0)
    row, column = np.arange(lower[0] - 1, upper[0] + 1)[:, None], np.arange(lower[1] - 1, upper[1] + 1)
    v = np.where((row >= lower[0]) & (row < upper[0]) & (column >= lower[1]) & (column < upper[1]), 100.0 * row + column, np.nan)
    t = np.ones((t_upper[0] - t_lower[0] + 2, t_upper[1] - t_lower[1] + 2))
    halo.exchange([t, e.Field(v, kind=1, parity=e.Parity.ODD)])
    beyond = (row < 0) | (row > num_rows)
    image = np.where(row < 0, -row, np.where(row > num_rows, 2 * num_rows - row, row))
    columns = (column + np.where(beyond, COLUMNS // 2, 0)) % COLUMNS
    assert np.array_equal(v, np.where(beyond, -1, 1) * (100.0 * image + columns))
    assert isinstance(e.long_copies(), str)


def stepped(field, lower, origin, shape):
    """A stencil that is not symmetric, on the cells of a box; NaN elsewhere."""
    result = np.full_like(field, np.nan)
    rows, columns = (slice(a - o, a - o + n) for a, o, n in zip(lower, origin, shape))
    moved = lambda i, j: field[rows.start + i:rows.stop + i, columns.start + j:columns.stop + j]
    result[rows, columns] = (moved(-1, 0) + 5 * moved(1, 0) + 2 * moved(0, -1) + 3 * moved(0, 1)) % 1009
    return result


def test_layers_of_halos_save_exchanges():
    comm, layout = made()
    deep = halo_of(comm, layout, lower=[3, 3], upper=[3, 3])
    shallow = halo_of(comm, layout)
    (a, b), _ = deep.local(0)
    lower, upper = deep.owned()
    u = np.full(np.subtract(*deep.local(0)[::-1]), np.nan)
    u[3:-3, 3:-3] = GLOBE[lower[0]:upper[0], lower[1]:upper[1]]
    v = filled(shallow)
    depth = e.HaloDepth.create(deep, "tracer", parity=e.Parity.EVEN)
    assert [list(side) for side in depth.commutes()] == [[True, True], [True, True]]
    exchanges = 0
    for _ in range(4):
        if not depth.suffices([1, 1], [1, 1]):
            deep.exchange(u)
            depth.exchanged()
            exchanges += 1
        cells = depth.apply(depth, [1, 1], [1, 1], e.AtMirrors.DIFFER)
        assert np.array_equal(cells, depth.valid())
        u = stepped(u, cells[0], (a, b), cells[1] - cells[0])
        depth.refill(u)
        shallow.exchange(v)
        v = stepped(v, lower, lower - 1, upper - lower)
        assert np.array_equal(u[3:-3, 3:-3], v[1:-1, 1:-1])
    assert exchanges == 2 and list(depth.inside()[0]) == [2, 2] and depth.beyond()[1][0] == 2
    raises("HaloTooShallow", lambda: depth.apply(depth, [1, 3], [1, 1], e.AtMirrors.COMMUTE), "tracer has 2 valid")
    raises("BadArgument", lambda: depth.refill(e.Field(u, parity=e.Parity.ODD)), "field.parity is 1")
    depth.written()
    assert not depth.suffices([1, 0], [0, 0])


def test_memory_that_other_ranks_read():
    comm, layout = made()
    halo = halo_of(comm, layout)
    halo.set_transport(e.Transport.NODE_SHARED)
    plain = filled(halo)
    memory = e.NodeMemory.create(plain.nbytes)
    assert memory.size() == plain.nbytes and memory.address() % 4096 == 0
    shared = memory.is_shared()
    field = memory.array(plain.shape)
    raises("ShapeMismatch", lambda: memory.array([plain.size + 1]), f"in a memory of {plain.nbytes}")
    del memory  # which the array keeps
    field[...] = plain
    halo.exchange(field)
    assert np.array_equal(field, expected(halo))
    assert halo.stats().node_in_place_messages > 0 or RANKS == 1 or not shared
    raises("BadArgument", lambda: e.NodeMemory.create(-1), "num_bytes is -1")


def test_teams_and_communicators():
    comm, _ = made()
    pair = 2 if RANKS % 2 == 0 else 1
    with e.Teams.create(comm, ["data", "domain"], [0, pair]) as teams:
        world, domain, data = teams.world(), teams.team("domain"), teams.team("data")
        raises("UnknownName", lambda: teams.team("ensemble"), "ensemble")
    assert domain.size() == pair and data.size() == RANKS // pair
    assert domain.rank() == world.rank() % pair and data.rank() == world.rank() // pair
    own = domain.mpi().Dup()
    assert own.Get_size() == pair
    own.Free()
    assert list(comm.nodes()) == [0] * RANKS
    raises("BadProcessGrid", lambda: e.Teams.create(comm, "data", [RANKS + 1]))


def test_relabelled_layouts():
    parts = [e.Cuts.create([3, 3, 3]), e.Cuts.create([4])]
    rows, shifted = e.Layout.create_cuts(parts), e.Layout.create_cuts(parts, ranks=[1, 2, 0])
    back, saving = rows.relabel(shifted)
    assert isinstance(saving, e.Relabelling) and saving.moved_cells_before == 36 and saving.moved_cells == 0
    assert all(np.array_equal(back.owned(r), rows.owned(r)) for r in range(3))
    options = e.RelabelOptions(ndim=2, has_permutation=1, permutation=[1, 0], off_node_weight=2)
    two, saving = rows.relabel(e.Layout.create([4, 9], [2, 1]), options, node_of_rank=[0, 1, 2], ranks=[0, 2])
    assert saving.moved_cells == saving.off_node_cells == 24 and np.prod(np.subtract(*two.owned(1))) == 0
    raises("LayoutMismatch", lambda: rows.relabel(e.Layout.create([4, 9], [2, 1])))
    assert saving.cost_above_least == 0


def test_bounds_of_the_cost_of_a_relabelling():
    # Rows to columns whose sizes are 1, 2, ..., n in two orders: the largest shares are those of equal sizes.
    n = 1100
    cells = n * (n + 1) // 2
    rows = e.Layout.create_cuts([e.Cuts.create([1 + 37 * i % n for i in range(n)]), e.Cuts.create([cells])])
    columns = e.Layout.create_cuts([e.Cuts.create([cells]), e.Cuts.create([1 + 211 * i % n for i in range(n)])])
    _, saving = rows.relabel(columns)
    least = cells**2 - sum(i * i for i in range(1, n + 1))
    assert saving.moved_cells >= least >= saving.moved_cells - saving.cost_above_least and saving.cost_above_least > 0


def repartitioned(options=None, to=None):
    comm, layout = made()
    return e.Repartition.create(comm, layout, to or e.Layout.create([ROWS, COLUMNS], [1, RANKS]), options), layout


def test_repartitions():
    plan, layout = repartitioned()
    source = GLOBE[box(layout)].copy()
    lower, upper = plan.target(0)
    target = np.zeros(upper - lower, np.float32)
    assert plan.num_targets() == 1 and np.array_equal(plan.source(), layout.owned(RANK))
    plan.apply(source, target)
    assert np.array_equal(target, GLOBE[lower[0]:upper[0], lower[1]:upper[1]])
    plan.start(source, target, e.Update(alpha=[2, 0], has_beta=1, beta=[1, 0])).finish()
    assert np.array_equal(target, 3 * GLOBE[lower[0]:upper[0], lower[1]:upper[1]])
    back = np.zeros_like(source)
    plan.apply_inverse(back, target)
    assert np.array_equal(back, 3 * source)
    plan.start_inverse(back, target).finish()
    plan.apply_adjoint(back, target)
    assert np.array_equal(back, 6 * source)
    plan.start_adjoint(back, target).finish()
    assert np.array_equal(back, 9 * source)
    plan.set_transport(e.Transport.POINT_TO_POINT)
    assert plan.counts().send_cells >= 0 and plan.stats().num_calls > 0 and plan.report()
    assert plan.tune(source, target, 1) in list(e.Transport)
    path = COMM.bcast(os.path.join(tempfile.gettempdir(), f"graticule-plan-{os.getpid()}.json"))
    plan.dump(path)
    COMM.Barrier()
    if RANK == 0:
        os.remove(path)


def test_repartitions_of_boxes_and_orders():
    comm, layout = made()
    whole = e.Repartition.create_boxes(comm, layout, [[0, 0], [2, 1]], [[ROWS, COLUMNS], [4, 3]])
    all_cells, few = np.zeros((ROWS, COLUMNS)), np.zeros((2, 2))
    whole.apply(GLOBE[box(layout)].copy(), [all_cells, few])
    assert np.array_equal(all_cells, GLOBE) and np.array_equal(few, GLOBE[2:4, 1:3]) and whole.num_targets() == 2
    options = e.RepartitionOptions(ndim=2, has_permutation=1, permutation=[1, 0])
    plan, layout = repartitioned(options, e.Layout.create([COLUMNS, ROWS], [RANKS, 1]))
    lower, upper = plan.target(0)
    turned = np.zeros(upper - lower)
    plan.apply(GLOBE[box(layout)].copy(), turned)
    assert np.array_equal(turned, GLOBE.T[lower[0]:upper[0], lower[1]:upper[1]])


def ocean():
    """Blocks of 3 x 4 cells and less at the ends, of which 3 of 10 are land: all, and those of this rank."""
    rows, columns = 17, 22
    corners = [(i, j) for i in range(0, rows, 3) for j in range(0, columns, 4)]
    boxes = [(at % RANKS, ((i, j), (min(i + 3, rows), min(j + 4, columns)))) for at, (i, j) in enumerate(corners) if at * 7 % 10 >= 3]
    return rows, columns, [b for _, b in boxes], [b for rank, b in boxes if rank == RANK]


def test_blocks_of_an_ocean():
    comm = e.Comm.create(COMM)
    rows, columns, every, own = ocean()
    land, wall, width = -7.0, -5.0, 2
    value = np.arange(1.0, rows * columns + 1).reshape(rows, columns)
    is_ocean = np.zeros((rows, columns), dtype=bool)
    for (i, j), (k, m) in every:
        is_ocean[i:k, j:m] = True

    def expected(field, i, j):
        if i < 0:
            return wall
        column, mirrored = j % columns, 2 * rows - 1 - (field == "v") - i
        partner = (-1 - column - (field == "u")) % columns
        copied = i == mirrored and column > partner and is_ocean[mirrored, partner]
        if i >= rows or copied:
            return (1 if field == "t" else -1) * value[mirrored, partner] if is_ocean[mirrored, partner] else land
        return value[i, column] if is_ocean[i, column] else land

    layout = e.Layout.create_blocks(comm, [rows, columns], [b[0] for b in own], [b[1] for b in own])
    assert layout.ndim() == 3 and list(layout.extents()) == [len(every), 3, 4] and "holes" in layout.text()
    kinds = []
    for stagger in ([0, 0], [0, 1], [1, 0]):
        kinds.append(e.halo_kind_tripolar(e.Edge.CONSTANT, e.Edge.TRIPOLAR_FACE, width))
        for name, given in (("constant", [wall, 0]), ("stagger", stagger), ("hole", land)):
            kinds[-1].set(name, given)
    halo = e.Halo.create(comm, layout, kinds)
    lower, upper = halo.local(0)
    fields = {name: np.full(upper - lower, np.nan) for name in "tuv"}
    cells = [[slice(width, width + b - a) for a, b in zip(*box)] for box in own]
    for field in fields.values():
        for b, ((i, j), (k, m)) in enumerate(own):
            field[(b, *cells[b])] = value[i:k, j:m]
    halo.exchange([fields["t"], e.Field(fields["u"], kind=1, parity=e.Parity.ODD), e.Field(fields["v"], kind=2, parity=e.Parity.ODD)])
    for name, field in fields.items():
        for b, ((i, j), (k, m)) in enumerate(own):
            whole = [[expected(name, y, x) for x in range(j - width, m + width)] for y in range(i - width, k + width)]
            assert np.array_equal(field[b, :k - i + 2 * width, :m - j + 2 * width], whole), (name, b)
    raises("Unsupported", lambda: e.Zonal.create(comm, layout, 2), "several blocks per rank")

    # To a layout of bands and back: land keeps what the bands hold.
    bands = e.Layout.create([rows, columns], [RANKS, 1])
    plan = e.Repartition.create(comm, bands, layout)
    assert np.array_equal(plan.source(), bands.owned(RANK)) and np.array_equal(plan.target(0), layout.owned(RANK))
    part = box(bands)
    band = np.full(value[part].shape, land)
    t = e.Field(fields["t"], first=[0, width, width])
    plan.apply_inverse(band, t)
    assert np.array_equal(band, np.where(is_ocean, value, land)[part])
    plan.apply(2 * value[part], t)
    for b, ((i, j), (k, m)) in enumerate(own):
        assert np.array_equal(fields["t"][(b, *cells[b])], 2 * value[i:k, j:m])


CUBE = [([1, 0, 0], [0, 0, 1], [0, 1, 0]), ([0, 1, 0], [0, 0, 1], [-1, 0, 0]), ([-1, 0, 0], [0, 0, 1], [0, -1, 0]),
        ([0, -1, 0], [0, 0, 1], [1, 0, 0]), ([0, 0, 1], [-1, 0, 0], [0, 1, 0]), ([0, 0, -1], [1, 0, 0], [0, 1, 0])]


def on_cube(n, face, i, j):
    """What a cell on or around a face of the cube [-n, n]^3 holds: of a scalar, and of the components along rows and columns."""
    normal, *directions = (np.array(direction) for direction in CUBE[face])
    height, at, along = n, np.zeros(3, dtype=int), list(directions)
    for a, cell in enumerate((2 * i + 1 - n, 2 * j + 1 - n)):
        side = int(np.sign(cell)) if abs(cell) > n else 0
        height -= abs(cell) - n if side else 0
        at += (side * n if side else cell) * directions[a]
        along[a] = -side * normal if side else directions[a]
    at += height * normal
    vector = np.array([[3, 1, 4], [1, 5, 9], [2, 6, 5]]) @ at + [7, -1, 2]
    return [at @ [1, 200, 40000], vector @ along[0], vector @ along[1]]


def test_faces_of_a_cubed_sphere():
    comm, n, width = e.Comm.create(COMM), 9, 2
    every = [((f, i, j), (f + 1, min(i + 4, n), min(j + 5, n))) for f in range(6) for i in range(0, n, 4) for j in range(0, n, 5)]
    own = every[RANK::RANKS]
    layout = e.Layout.create_faces(comm, [6, n, n], [b[0] for b in own], [b[1] for b in own])
    kinds = [e.halo_kind_uniform(2, e.Edge.UNTOUCHED, width) for _ in range(3)]
    for component, kind in enumerate(kinds[1:]):
        kind.set("has_component", 1)
        kind.set("component", component)
    halo = e.Halo.create(comm, layout, kinds)
    lower, upper = halo.local(0)
    fields = [np.full(upper - lower, -12345.0) for _ in range(3)]
    cells = [(b, f, i, j) for b, ((f, i0, j0), (_, i1, j1)) in enumerate(own) for i in range(i0 - width, i1 + width)
             for j in range(j0 - width, j1 + width)]
    place = {cell: (cell[0], cell[2] - own[cell[0]][0][1] + width, cell[3] - own[cell[0]][0][2] + width) for cell in cells}
    for b, f, i, j in cells:
        if own[b][0][1] <= i < own[b][1][1] and own[b][0][2] <= j < own[b][1][2]:
            for field, value in zip(fields, on_cube(n, f, i, j)):
                field[place[b, f, i, j]] = value
    halo.exchange([e.Field(field, kind=k) for k, field in enumerate(fields)])
    for b, f, i, j in cells:
        corner = not 0 <= i < n and not 0 <= j < n
        found = [field[place[b, f, i, j]] for field in fields]
        assert found == ([-12345.0] * 3 if corner else on_cube(n, f, i, j)), (f, i, j)

    # Two tiles that meet with a turn: beyond the rows of the first lie the columns of the second.
    joint = e.FaceJoint(face=0, axis=0, is_upper=1, other_face=1, other_axis=1)
    mine = [([f, 0, 0], [f + 1, 2, 2]) for f in range(2)] if RANK == 0 else []
    tiles = e.Layout.create_faces(comm, [2, 2, 2], [b[0] for b in mine], [b[1] for b in mine], joint)
    halo = e.Halo.create(comm, tiles, e.halo_kind_uniform(2, e.Edge.UNTOUCHED, 1))
    field = np.zeros((len(mine), 4, 4))
    field[:, 1:3, 1:3] = np.arange(8.0).reshape(2, 2, 2)[:len(mine)]
    halo.exchange(field)
    if RANK == 0:
        assert list(field[0, 3, 1:3]) == [4, 6] and list(field[1, 1:3, 0]) == [2, 3]
    raises("BadArgument", lambda: e.Layout.create_faces(comm, [2, 2, 2], [b[0] for b in mine], [b[1] for b in mine]), "without joints")


def test_ranks_without_blocks():
    comm = e.Comm.create(COMM)
    first = RANK == 0
    for created in (e.Layout.create_blocks(comm, [4, 3], [[0, 0], [2, 0]] if first else [], [[2, 3], [4, 3]] if first else []),
                    e.Layout.create_boxes(comm, [4, 3], [[0, 0]] if first else [], [[4, 3]] if first else [])):
        assert created.owned(0)[1].prod() - created.owned(0)[0].prod() == 12
        assert all(list(created.owned(r)[0]) == list(created.owned(r)[1]) for r in range(1, RANKS))


def test_boxes_that_leave_holes():
    comm = e.Comm.create(COMM)
    layout = e.Layout.create_with_holes(comm, [2, 4 * RANKS], [[0, 4 * RANK]], [[2, 4 * RANK + 3]])
    kind = e.halo_kind_uniform(2, e.Edge.PERIODIC, 1)
    kind.set("hole", 7)
    halo = e.Halo.create(comm, layout, kind)
    field = np.full((4, 5), -1.0)
    field[1:3, 1:4] = RANK
    halo.exchange(field)
    assert (field[:, [0, 4]] == 7).all() and (field[:, 1:4] == RANK).all()

    # Checkpoints of whole grids are read there.
    folder = shared_folder()
    store = e.Checkpoints.create(comm, folder, 1)
    columns = e.Layout.create([2, 4 * RANKS], [1, RANKS])
    whole = np.arange(8.0 * RANKS).reshape(2, -1)
    with store.begin(1) as writer:
        writer.add("a", columns, whole[:, 4 * RANK:4 * RANK + 4].copy())
        writer.commit()
    cells = np.zeros((2, 3))
    with store.newest() as checkpoint:
        checkpoint.read("a", layout, cells)
    assert np.array_equal(cells, whole[:, 4 * RANK:4 * RANK + 3])
    COMM.Barrier()
    if RANK == 0:
        shutil.rmtree(folder)


def test_zonal_and_area_sums():
    comm, layout = made()
    cells = GLOBE[box(layout)].copy()
    zonal = e.Zonal.create(comm, layout, axis=1)
    lower, upper = zonal.sums()
    assert np.array_equal(zonal.cells(), layout.owned(RANK))
    sums = np.zeros(upper - lower)
    zonal.apply(cells, sums)
    assert np.array_equal(sums.ravel(), cells.sum(1))
    zonal.start(cells, sums).finish()
    gradient = np.zeros_like(cells)
    zonal.apply_adjoint(gradient, np.ones_like(sums), e.Cotangents.REPLICATED)
    assert (gradient == 1).all()
    weights = np.arange(1.0, ROWS + 1)
    area = e.AreaSum.create(comm, layout, 1, 0, weights)
    levels = np.stack([cells, 2 * cells])
    wanted = (GLOBE * weights[:, None]).sum()
    assert np.allclose(area.apply(levels, 2), [wanted, 2 * wanted])
    adjoint = np.zeros_like(levels)
    area.apply_adjoint(adjoint, [1.0, 2.0])
    rows = slice(*[b[0] for b in layout.owned(RANK)])
    assert np.array_equal(adjoint[1], np.broadcast_to(2 * weights[rows, None], cells.shape))
    areas = np.broadcast_to(weights[rows, None], cells.shape).copy()
    by_cell = e.AreaSum.create_cells(comm, layout, areas)
    assert np.allclose(by_cell.apply(levels, 2), [wanted, 2 * wanted])
    zonal.apply(cells.astype(np.float32), sums)
    assert sums.dtype == np.float64 and np.array_equal(sums.ravel(), cells.sum(1))


def test_options_of_plans():
    comm, layout = made()
    cells = GLOBE[box(layout)].copy()
    means = e.Zonal.create(comm, layout, 1, summation=e.Summation.FAST, scale=e.Scale.MEAN)
    lower, upper = means.sums()
    rows = np.zeros(upper - lower)
    means.apply(cells, rows)
    assert np.allclose(rows.ravel(), cells.mean(1))
    halo = halo_of(comm, layout, stagger=[e.Stagger.CENTRE, e.Stagger.CENTRE], corners=e.Corners.SKIP_CORNERS,
                   odd_longitudes=e.OddLongitudes.SHIFT_FLOOR, mirror_line=e.MirrorLine.KEEP_MIRROR)
    field = filled(halo)
    pending = halo.start(e.Field(field))
    assert isinstance(pending, e.Pending)
    pending.finish()
    assert field[0, 0] == 99 and np.array_equal(field[1:-1], expected(halo)[1:-1])
    assert isinstance(halo.counts(), e.Counts) and isinstance(halo.stats(), e.Stats) and e.Space.HOST == 0
    e.init()
    low = [2, 0]
    some = e.Zonal.create(comm, layout, 1, lower=low, upper=[4, COLUMNS])
    lower, upper = some.sums()
    sums = np.zeros(np.maximum(upper - lower, 0))
    some.apply(cells, sums)
    assert COMM.allreduce(sums.sum()) == GLOBE[2:4].sum()


def shared_folder():
    return COMM.bcast(tempfile.mkdtemp(prefix="graticule-python-") if RANK == 0 else None)


def remove(folder):
    COMM.Barrier()
    if RANK == 0:
        shutil.rmtree(folder)


def write(writer, layout, time):
    (a, b), (c, d) = layout.owned(RANK)
    cells = GLOBE[a:c, b:d] + 100.0 * time
    writer.write("u", [time, a, b], [time + 1, c, d], cells)
    if time % 2:
        writer.write_replicated("time", [time], [time + 1], np.array([6.0 * time]))
    else:
        writer.write("time", [time], [time + (RANK == 0)], np.array([6.0 * time] * (RANK == 0)))


def test_files():
    comm, layout = made()
    folder = shared_folder()
    path = os.path.join(folder, "file.nc")
    attributes = e.Attributes.create()
    attributes.add_text("title", "a test")
    attributes.add_number("height", 10.5, e.Type.F64)
    writer = e.Writer.create(comm, path, attributes)
    writer.add_dimension("time", 1, unlimited=True)
    writer.add_coordinate("latitude", np.linspace(80, -80, ROWS), e.Type.F64)
    writer.add_dimension("longitude", COLUMNS)
    of_time = e.Attributes.create()
    of_time.add_text("units", "hours since 2000-02-28 18:00")
    of_time.add_text("calendar", "noleap")
    writer.add_variable("time", "time", e.Type.F64, attributes=of_time)
    options = e.VariableOptions(ndim=3, chunk=[1, ROWS, COLUMNS], has_fill=1, fill=-1e30)
    writer.add_variable("u", "time latitude longitude", e.Type.F64, options)
    write(writer, layout, 0)
    writer.commit()
    writer.close()
    with e.Writer.append(comm, path) as more:
        more.extend("time", 1)
        write(more, layout, 1)
        more.commit()
    file = e.File.open(comm, path)
    names = {file.variable_name(i) for i in range(file.num_variables())}
    assert {"u", "time", "latitude"} <= names and file.ndim("u") == 3 and list(file.extents("u")) == [2, ROWS, COLUMNS]
    assert file.dimension("u", 1) == "latitude" and file.coordinate("latitude", ROWS)[0] == 80
    assert file.attribute_text("title") == "a test" and list(file.attribute_numbers("height")) == [10.5]
    march = e.time_of_date("365_day", 2000, 3, 1, 0)
    assert file.calendar("time") == "noleap" and list(file.times("time", 2)) == [march - 6 * 3600, march]
    assert e.date_of_time("360_day", 59 * 86400 + 7) == (1970, 2, 30, 7)
    raises("BadArgument", lambda: e.time_of_date("noleap", 2000, 2, 29, 0), "no time of the calendar noleap")
    raises("BadInput", lambda: file.times("latitude", ROWS), "are no units of time")
    field = np.zeros((ROWS, COLUMNS), np.float32)
    file.read("u", [1, 0, 0], [2, ROWS, COLUMNS], field)
    assert np.array_equal(field, GLOBE + 100)
    every_other = np.zeros(((ROWS + 1) // 2, COLUMNS))
    file.read("u", [0, 0, 0], [1, ROWS, COLUMNS], every_other, steps=[1, 2, 1])
    assert np.array_equal(every_other, GLOBE[::2])
    turned = np.zeros((COLUMNS, ROWS))
    file.read("u", [0, 0, 0], [1, ROWS, COLUMNS], turned, axes=[2, 1])
    assert np.array_equal(turned, GLOBE.T)
    file.close()
    assert raises("NoSuchFile", lambda: e.File.open(comm, path + "x"), "file.ncx").fault == "input"
    remove(folder)


def test_files_that_follow_each_other():
    comm, layout = made()
    folder = shared_folder()
    for name, times in (("run_2.nc", [0, 1]), ("run_10.nc", [2])):
        with e.Writer.create(comm, os.path.join(folder, name)) as writer:
            writer.add_dimension("time", len(times), unlimited=True)
            writer.add_dimension("latitude", ROWS)
            writer.add_dimension("longitude", COLUMNS)
            writer.add_variable("time", "time", e.Type.F64)
            writer.add_variable("u", "time latitude longitude", e.Type.F64)
            (a, b), (c, d) = layout.owned(RANK)
            for at, time in enumerate(times):
                writer.write("u", [at, a, b], [at + 1, c, d], GLOBE[a:c, b:d] + 100.0 * time)
                writer.write("time", [at], [at + (RANK == 0)], np.array([6.0 * time] * (RANK == 0)))
            writer.commit()
    with e.File.open_series(comm, os.path.join(folder, "run_*.nc")) as file:
        assert file.num_files() == 2 and file.series_dimension() == "time"
        before, cells, path = file.part(1)
        assert before == 2 and cells == 1 and path.endswith("run_10.nc")
        assert list(file.extents("u")) == [3, ROWS, COLUMNS] and list(file.coordinate("time", 3)) == [0, 6, 12]
        field = np.zeros((2, ROWS, COLUMNS))
        file.read("u", [1, 0, 0], [3, ROWS, COLUMNS], field)
        assert np.array_equal(field, GLOBE + np.array([100.0, 200.0])[:, None, None])
    backwards = [os.path.join(folder, name) for name in ("run_10.nc", "run_2.nc")]
    raises("BadInput", lambda: e.File.open_series(comm, backwards, "time", most_open=1))
    raises("NoSuchFile", lambda: e.File.open_series(comm, "no-such-*.nc"), "no-such-*.nc")
    remove(folder)


def test_checkpoints():
    comm, layout = made()
    folder = shared_folder()
    store = e.Checkpoints.create(comm, folder, keep=2)
    writer = store.begin(7)
    assert isinstance(writer, e.CheckpointWriter)
    writer.add("z", layout, GLOBE[box(layout)].copy())
    writer.add_replicated("w", np.arange(3.0))
    writer.add_integers("seeds", [1, 2, 3])
    writer.add_reals("seconds", [2.5])
    writer.add_text("name", "a run")
    writer.commit()
    writer.close()
    found = store.newest()
    assert found.step() == 7 and found.has("z") and not found.has("y") and store.skipped() == ""
    columns = e.Layout.create([ROWS, COLUMNS], [1, RANKS])
    lower, upper = columns.owned(RANK)
    part = np.zeros(upper - lower)
    found.read("z", columns, part)
    assert np.array_equal(part, GLOBE[:, lower[1]:upper[1]])
    found.convert(True)
    single = np.zeros(upper - lower, dtype=np.float32)
    found.read("z", columns, single)
    assert np.array_equal(single, GLOBE[:, lower[1]:upper[1]])
    w = torch.zeros(3, dtype=torch.float64)
    found.read_replicated("w", w)
    assert w.tolist() == [0, 1, 2] and list(found.integers("seeds", 3)) == [1, 2, 3] and list(found.reals("seconds", 1)) == [2.5]
    assert found.text("name") == "a run"
    found.verify()
    path = found.path()
    found.close()
    with e.Checkpoint.open(comm, path) as again:
        assert again.step() == 7
    remove(folder)


def test_empty_stores_have_no_newest():
    comm, _ = made()
    folder = shared_folder()
    assert e.Checkpoints.create(comm, folder).newest() is None
    remove(folder)


def refused(kind, call, *texts):
    try:
        call()
    except kind as error:
        for text in texts:
            assert text in str(error), (text, str(error))
        return
    raise AssertionError(f"{kind.__name__} was not raised")


def test_bad_arguments_are_named():
    comm, layout = made()
    halo = halo_of(comm, layout)
    refused(TypeError, lambda: e.Halo.create(comm, 3, e.halo_kind_sphere(e.Edge.POLE_FACE, 1)), "layout is a Layout, not 3")
    refused(TypeError, lambda: e.Halo.create(comm, layout, 3), "kinds is a HaloKind")
    refused(TypeError, lambda: e.HaloKind(width=1), "no member 'width'")
    refused(TypeError, e.Halo, "class methods")
    refused(TypeError, lambda: halo.exchange("u"), "str")
    refused(TypeError, lambda: e.Cuts.create_balanced("ten", 2), "extent = 'ten'")
    refused(TypeError, lambda: e.Comm.create("world"), "comm is a communicator of mpi4py")
    raises("ShapeMismatch", lambda: e.Layout.create([3, 4], [1]), "extents has 2", "num_parts has 1")
    raises("WrongType", lambda: halo.exchange(np.zeros((3, 3), dtype="U1")), "<U1")
    assert raises("BadCuts", lambda: e.Cuts.create_balanced(-1, 2), "-1 cells").fault == "program"
    assert "9" in str(raises("FieldMismatch", lambda: halo.exchange(np.zeros((40, 9)))))


def test_every_function_names_an_argument_that_is_missing():
    e.init()
    functions = [f for f in vars(e).values() if isinstance(f, e._engine.Function) and any(a.pointers for a in f.arguments)]
    assert len(functions) > 100
    for function in functions:
        status = function.pointer(*[None if a.pointers else ctypes.c_int(0) if a.base in e._engine._enums else
                                    e._engine._SIMPLE[a.base](0) for a in function.arguments])
        text = e._engine.library.gr_error_text().decode()
        names = [a.name for a in function.arguments]
        assert status == 1 and text.startswith(f"{function.name}: BadArgument: "), (status, text)
        assert any(f" {name} is NULL" in text or f" {name} is 0" in text or f" *{name} is NULL" in text for name in names), text


def test_announced_failures_end_the_waits_of_others():
    if RANKS == 1:
        skip("one rank has no peer")
    comm, layout = made()
    halo = halo_of(comm, layout)
    if RANK == 0:
        comm.announce_failure("gave up")
    else:
        raises("PeerFailed", lambda: [halo.exchange(filled(halo)) for _ in range(100)], "gave up")
    COMM.Barrier()
    comm.renew()


main(globals())
