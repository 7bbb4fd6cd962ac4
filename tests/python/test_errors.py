# SPDX-License-Identifier: BSD-3-Clause
"""Mistakes of callers: one error with what was found, on all ranks where it can be, and the next call works."""
import numpy as np
import torch
from mpi4py import MPI
from support import COMM, RANK, RANKS, main, raises, skip
from torch import nn

import graticule
from graticule import engine

DOMAIN = graticule.Domain(COMM)
LAST = RANKS - 1


def mistaken(call, *texts):
    """A TypeError with these texts."""
    try:
        call()
    except TypeError as error:
        assert all(text in str(error) for text in texts) and len(str(error)) < 200, error
        return
    raise AssertionError(f"no TypeError, with {texts}")


def halo_and_shape():
    comm = engine.Comm.create(None)  # all ranks
    layout = engine.Layout.create([4 * RANKS, 6], [RANKS, 1])
    halo = engine.Halo.create(comm, layout, engine.halo_kind_sphere(engine.Edge.POLE_FACE, 1))
    lower, upper = halo.local(0)
    return halo, tuple(upper - lower)


def test_arrays_that_are_no_fields_are_named():
    halo, shape = halo_and_shape()
    for bad, rule, text in ((np.zeros(shape, np.longdouble), "WrongType", "float128"), (np.zeros(shape, ">f8"), "WrongType", ">f8"),
                            (np.empty(shape, object), "WrongType", "object"), (torch.zeros(shape).to_sparse(), "WrongType", "sparse"),
                            (torch.zeros(shape, device="meta"), "WrongType", "meta"), (np.zeros((3, 3)), "FieldMismatch", "(3, 3)"),
                            (np.zeros(5), "BadArgument", "rank is 1"), (torch.zeros(1, 1).expand(shape), "FieldMismatch", "stride 0"),
                            (torch.zeros(shape, requires_grad=True), "FieldMismatch", "gradient")):
        raises(rule, lambda: halo.exchange(bad), text, "halo_exchange" if rule != "WrongType" else "")
    fixed = np.zeros(shape)
    fixed.flags.writeable = False
    raises("FieldMismatch", lambda: halo.exchange([np.zeros(shape), fixed]), "fields[1]", "read-only")
    assert not fixed.any()
    mistaken(lambda: halo.exchange([[1.0]]), "list")
    mistaken(lambda: halo.exchange("u"), "str")
    with torch.no_grad():
        halo.exchange(torch.zeros(shape, requires_grad=True))
    halo.exchange(np.zeros(shape)[::-1, ::-1])


def test_an_array_of_one_rank_is_an_error_of_all_and_the_next_call_works():
    if RANKS == 1:
        skip("one rank: it has no peer")
    halo, shape = halo_and_shape()
    (lower, _), (upper, _) = halo.owned()
    for bad, rule in ((np.zeros((3, 3)), "FieldMismatch"), (np.zeros(shape, np.longdouble), "WrongType"), ("u", None),
                      (torch.zeros(shape, requires_grad=True), "FieldMismatch")):
        if RANK == LAST and rule is None:
            mistaken(lambda: halo.exchange(bad), "str")
        else:
            near = RANK == LAST - 1 or RANK == 0 and RANKS == 2
            try:
                halo.exchange(bad if RANK == LAST else np.zeros(shape))
                assert RANK != LAST and not near
            except graticule.Error as error:
                assert error.rule == (rule if RANK == LAST else "PeerRefused"), error
        field = np.full(shape, np.nan)
        field[1:-1, 1:-1] = np.arange(lower, upper)[:, None]
        halo.exchange(field)
        assert (field[0, 1:-1] == max(lower - 1, 0)).all() and (field[-1, 1:-1] == min(upper, 4 * RANKS - 1)).all(), field


def test_a_read_only_array_is_written_to_files_only():
    comm = engine.Comm.create(COMM)
    rows = engine.Layout.create([2 * RANKS, 3], [RANKS, 1])
    plan = engine.Repartition.create(comm, rows, engine.Layout.create([2 * RANKS, 3], [1, RANKS]))
    source = np.ones((2, 3))
    source.flags.writeable = False
    lower, upper = plan.new_layout().owned(RANK) if hasattr(plan, "new_layout") else engine.Layout.create([2 * RANKS, 3], [1, RANKS]).owned(RANK)
    target = np.zeros(tuple(upper - lower))
    plan.apply(source, target)
    assert (target == 1).all()
    raises("FieldMismatch", lambda: plan.apply_adjoint(source, target), "read-only")


def test_communicators_are_checked():
    raises("WrongState", lambda: graticule.Domain(MPI.COMM_NULL), "MPI_COMM_NULL")
    raises("WrongState", lambda: engine.Comm.create(MPI.COMM_NULL), "MPI_COMM_NULL")
    mistaken(lambda: graticule.Domain("world"), "'world'")
    mistaken(lambda: graticule.GradientSync(nn.Linear(2, 2), [("x", "sum")]), "'x'")
    raises("BadProcessGrid", lambda: graticule.Domain(COMM, grid=(1, 2, 3)), "(1, 2, 3)")
    raises("BadProcessGrid", lambda: graticule.Domain(COMM, grid=(5, 7)), "(5, 7)")
    if RANKS == 2:
        half = COMM.Split(RANK)
        between = half.Create_intercomm(0, COMM, 1 - RANK)
        raises("WrongState", lambda: graticule.Domain(between), "intercommunicator")
        between.Free()
        half.Free()


def test_what_is_no_tensor_is_named():
    conv = graticule.nn.Conv2d(1, 1, 3, padding=1, domain=DOMAIN)
    attention = graticule.nn.SelfAttention(2, 1, domain=DOMAIN)
    array = np.zeros((1, 1, 4, 4), np.float32)
    mistaken(lambda: conv(array), "Conv2d", "numpy.ndarray")
    mistaken(lambda: attention(array), "SelfAttention", "numpy.ndarray")
    for call in (graticule.shard_of, graticule.part_of, graticule.whole_field):
        mistaken(lambda: call(array, DOMAIN), call.__name__, "numpy.ndarray")
    mistaken(lambda: graticule.shard("net", DOMAIN), "str")
    mistaken(lambda: graticule.shard(nn.Sequential(nn.Conv2d(1, 1, 3)), COMM), "Intracomm")


def test_a_tensor_of_one_rank_is_an_error_of_all():
    conv = graticule.nn.Conv2d(2, 1, 3, padding=1, domain=DOMAIN)
    good = torch.zeros(1, 2, 3, 6)
    for bad, rule, text in ((torch.zeros(1, 5, 3, 6), "ShapeMismatch", "5"), (good.double(), "ShapeMismatch", "Double"),
                            (good.int(), "UnsupportedTensor", "Int"), (torch.zeros(3, 6), "ShapeMismatch", "2 axes")):
        raises(rule, lambda: conv(bad if RANK == LAST else good), text)
        assert conv(good).shape == (1, 1, 3, 6)
    if RANKS > 1:
        raises("StructureDisagreement", lambda: conv(torch.zeros(1, 2, 3, 6 + (RANK == LAST))), "[1, 2, 3, 7]")
    assert conv(torch.zeros(1, 6, 3, 2).permute(0, 3, 2, 1)).shape == (1, 1, 3, 6)


def test_what_memory_does_not_say_is_resolved_or_refused():
    comm = engine.Comm.create(COMM)
    layout = engine.Layout.create([2 * RANKS, 4], [RANKS, 1])
    plan = engine.Repartition.create(comm, layout, layout)
    x = torch.full((2, 4), 1 + 2j)
    y, z = torch.zeros_like(x), torch.zeros(2, 4)
    for field in (x.conj(), engine.Field(x.conj())):
        plan.apply(field, y.zero_())
        assert (y == 1 - 2j).all(), y
    plan.apply(x.conj().imag, z)
    assert (z == -2).all(), z
    raises("FieldMismatch", lambda: plan.apply(x, y.conj()), "resolve_conj")
    masked = np.ma.masked_array(np.ones((2, 4)), mask=np.eye(2, 4) > 0)
    raises("WrongType", lambda: plan.apply(masked, np.zeros((2, 4))), "filled")
    plan.apply(np.ma.masked_array(np.ones((2, 4))), np.zeros((2, 4)))


def test_arguments_of_the_engine_are_named():
    mistaken(lambda: engine.Layout.create([7.5, 6], [1, 1]), "extents", "7.5")
    mistaken(lambda: engine.Field(np.zeros((2, 2)), axes="ab"), "axes", "'ab'")
    mistaken(lambda: engine.Field(np.zeros((2, 2)), parity="x"), "parity", "Parity.ODD")
    mistaken(lambda: engine.Update(alpha=2.0), "alpha", "list")
    mistaken(lambda: engine.HaloKind(ndim="x"), "ndim", "'x'")
    kind = engine.HaloKind()
    try:
        kind.foo = 3
    except AttributeError as error:
        assert "'foo'" in str(error) and "ndim" in str(error)
    else:
        raise AssertionError("foo was accepted")
    kind.ndim = 2
    assert kind.ndim == 2


def test_unknown_and_idle_options_are_named():
    for make in (graticule.nn.MSELoss, graticule.nn.HuberLoss, graticule.nn.CRPSLoss):
        try:
            make(DOMAIN, rowweights=[1.0])
        except TypeError as error:
            assert "'rowweights'" in str(error) and "row_weights" in str(error) and make.__name__ in str(error)
        else:
            raise AssertionError("rowweights was accepted")
    raises("BadOption", lambda: graticule.nn.Conv2d(2, 2, 3, padding=1, domain=DOMAIN, odd_channels=[0]), "padding_by", "Conv2d")
    raises("BadOption", lambda: graticule.nn.Pad2d(1, DOMAIN, mode="circular", odd_channels=[0]), "mode")
    graticule.nn.Conv2d(2, 2, 3, padding=1, domain=DOMAIN, odd_channels=[0], padding_by="domain")


def test_a_rank_without_a_tensor_is_an_error_of_all():
    good = torch.zeros(1, 2, 3, 6)
    conv = graticule.nn.Conv2d(2, 2, 3, padding=1, domain=DOMAIN)
    attention = graticule.nn.SelfAttention(2, 1, domain=DOMAIN)
    net = nn.Sequential(nn.Conv2d(2, 2, 3, padding=1))
    graticule.shard(net, DOMAIN)
    for layer in (conv, attention):
        if RANK == LAST:
            mistaken(lambda: layer("x"), "str")
        else:
            raises("UnsupportedTensor", lambda: layer(good), f"rank {LAST}")
        assert layer(good).shape == good.shape
    if RANKS == 1:
        mistaken(lambda: net("x"), "str")
    else:
        raises("StructureDisagreement", lambda: net("x" if RANK == LAST else good), "a field", "str")
    assert net(good).shape == good.shape


def test_recorded_programs_are_refused_by_name():
    net = nn.Sequential(nn.Conv2d(2, 2, 3, padding=1))
    graticule.shard(net, DOMAIN)
    conv = graticule.nn.Conv2d(2, 2, 3, padding=1, domain=DOMAIN)
    x = torch.zeros(1, 2, 3, 6)
    raises("Unsupported", lambda: torch.jit.trace(net, x), "Sequential", "torch.jit.trace")
    raises("Unsupported", lambda: torch.jit.trace(conv, x), "Conv2d", "torch.jit.trace")
    raises("Unsupported", lambda: torch.export.export(net, (x,), strict=False), "Sequential", "torch.export")
    assert net(x).shape == x.shape


main(globals())
