# SPDX-License-Identifier: BSD-3-Clause
"""Domains, fields, collective functions with their adjoints, recomputation and rollouts."""
import os
import subprocess
import sys

import torch
from support import COMM, RANK, RANKS, balanced, close, main, raises, skip, uneven

import graticule

DOMAIN = graticule.Domain(COMM)


def own(*sizes):
    torch.manual_seed(RANK)
    return torch.randn(*sizes, dtype=torch.double)


def test_domains():
    graticule.start()
    assert DOMAIN.rank == RANK and DOMAIN.num_ranks == RANKS and DOMAIN.grid == (RANKS, 1) and DOMAIN.part == (RANK, 0)
    columns = graticule.Domain(COMM.py2f(), grid=(1, RANKS), latitude=("pole_face", "replicate"))
    assert columns.part == (0, RANK)
    assert graticule.Domain().num_ranks == RANKS
    half = COMM.Split(RANK % 2, RANK)
    assert graticule.Domain(half).num_ranks == half.size
    DOMAIN.barrier()
    DOMAIN.check_calls(False)
    graticule.nn.AllSum(DOMAIN)(torch.zeros(3))
    DOMAIN.check_calls(True)
    fresh = graticule.Domain(COMM)
    fresh.renew()
    assert graticule.shard_of(torch.zeros(1, 9, 4), fresh).shape[-1] == 4


def test_bad_domains_are_named():
    raises("BadProcessGrid", lambda: graticule.Domain(COMM, grid=(RANKS + 1, 1)), str(RANKS + 1))
    raises("BadBoundary", lambda: graticule.Domain(COMM, latitude="pole"), "'pole'", "'pole_row'")
    raises("BadBoundary", lambda: graticule.nn.HaloExchange(graticule.Domain(COMM, longitude="replicate"), latitude=(1, 1))(torch.zeros(1, 4, 6)))
    raises("BadArgument", lambda: graticule.Domain(2 ** 40), str(2 ** 40))
    for bad in ("world", 1.5, True):
        try:
            graticule.Domain(bad)
        except TypeError as error:
            assert repr(bad) in str(error)
        else:
            raise AssertionError(f"{bad!r} was accepted")


def test_shards_and_whole_fields():
    whole = torch.arange(9 * 6.0).reshape(1, 9, 6)
    for rows in (None, uneven(9)):
        mine = graticule.shard_of(whole, DOMAIN, rows=rows)
        part = graticule.part_of(mine, DOMAIN)
        assert isinstance(part, graticule.FieldPart) and isinstance(part.rows, graticule.AxisPart)
        assert list(part.rows.sizes) == (rows or balanced(9)) and part.rows.extent == 9 and part.rows.part == RANK
        assert torch.equal(mine, whole[:, part.rows.lo:part.rows.lo + part.rows.size])
        assert torch.equal(graticule.whole_field(mine, DOMAIN), whole)
    raises("BadCuts", lambda: graticule.shard_of(whole, DOMAIN, rows=[4] * RANKS), "9")
    raises("UnsupportedTensor", lambda: graticule.shard_of(torch.zeros(3), DOMAIN, rows=[1] * RANKS))


def pairs():
    """Each function on this rank's x, and its adjoint on this rank's cotangent, for the dot test."""
    n = RANKS + 2
    sizes = balanced(n)
    yield "all_sum", own(3), lambda x: graticule.all_sum(x, DOMAIN)
    yield "gather", own(2, sizes[RANK]), lambda x: graticule.gather(x, 1, DOMAIN, "distinct")
    yield "reduce_scatter", own(n, 2), lambda x: graticule.reduce_scatter(x, 0, DOMAIN)
    yield "all_to_all", own(n, 2), lambda x: graticule.all_to_all(x, 0, 1, DOMAIN, sizes)
    yield "sum_to_root", own(4), lambda x: graticule.sum_to_root(x, 0, DOMAIN)
    yield "gather_to_root", own(2, sizes[RANK]), lambda x: graticule.gather_to_root(x, 1, 0, DOMAIN)


def test_functions_have_exact_adjoints():
    for name, x, call in pairs():
        x.requires_grad_()
        y = call(x)
        torch.manual_seed(10 + RANK)
        c = torch.randn_like(y)
        y.backward(c)
        left, right = COMM.allreduce((y * c).sum().item()), COMM.allreduce((x * x.grad).sum().item())
        assert abs(left - right) <= 1e-12 * max(1, abs(left)), (name, left, right)


def test_functions_of_replicated_tensors():
    n = RANKS + 2
    x = torch.arange(2.0 * n, dtype=torch.double).reshape(n, 2).requires_grad_()
    y = graticule.scatter(x, 0, DOMAIN)
    lo = sum(balanced(n)[:RANK])
    assert torch.equal(y, x[lo:lo + balanced(n)[RANK]])
    (y * 2).sum().backward()
    close(x.grad, torch.full((n, 2), 2.0, dtype=torch.double))
    z = torch.ones(3, dtype=torch.double, requires_grad=True)
    (graticule.copy_to_region(z, DOMAIN) * (RANK + 1)).sum().backward()
    close(z.grad, torch.full((3,), RANKS * (RANKS + 1) / 2, dtype=torch.double))
    root = torch.full((2,), 5.0, requires_grad=True) if RANK == 0 else None
    assert graticule.broadcast(root, 0, DOMAIN).tolist() == [5.0, 5.0]
    whole = torch.arange(n * 1.0) if RANK == 0 else None
    assert graticule.scatter_from_root(whole, 0, balanced(n), 0, DOMAIN).tolist() == list(range(lo, lo + balanced(n)[RANK]))
    raises("OutOfRange", lambda: graticule.broadcast(z, RANKS, DOMAIN), str(RANKS))
    raises("BadAxis", lambda: graticule.all_to_all(z, 5, 0, DOMAIN, [1] * RANKS), "5")
    raises("BadOption", lambda: graticule.gather(z, 0, DOMAIN, "all"), "consumer", "'all'")


def test_disagreements_are_one_error_on_all_ranks():
    if RANKS == 1:
        skip("one rank cannot disagree")
    raises("StructureDisagreement", lambda: graticule.all_sum(torch.zeros(2 + RANK), DOMAIN))
    halo = graticule.nn.HaloExchange(DOMAIN, latitude=(1, 1))
    raises("StructureDisagreement", lambda: halo(torch.zeros(1 + RANK, 4, 6)))
    assert graticule.all_sum(torch.ones(1), DOMAIN).item() == RANKS


def test_rollouts():
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 1, 3, padding=1)).double()
    with torch.no_grad():
        net[0].weight.fill_(0.1)
    graticule.shard(net, DOMAIN)
    torch.manual_seed(1)
    whole = torch.randn(1, 1, 9, 6, dtype=torch.double)
    gradients = []
    for steps in (0, 2):
        state = graticule.shard_of(whole, DOMAIN).clone().requires_grad_()
        total = graticule.rollout(DOMAIN, state, lambda x, i: x + 0.1 * torch.tanh(net(x)),
                                  lambda x, i: graticule.reduce_loss(x.square().sum(), DOMAIN), 4, checkpoint_steps=steps)
        total.backward()
        gradients.append(state.grad)
    close(gradients[1], gradients[0])
    state = graticule.shard_of(whole, DOMAIN)
    loop, x = 0.0, state
    for _ in range(4):
        x = x + 0.1 * torch.tanh(net(x))
        loop += graticule.reduce_loss(x.square().sum(), DOMAIN).item()
    assert abs(loop - total.item()) < 1e-12 * loop
    raises("BadOption", lambda: graticule.rollout(DOMAIN, state, lambda x, i: x, lambda x, i: x.sum(), -1), "-1")


def test_checkpoints_of_functions():
    x = own(3, 4).requires_grad_()
    y = graticule.checkpoint(DOMAIN, lambda a: graticule.all_sum(a * a, DOMAIN), x)
    graticule.reduce_loss(y.sum() / RANKS, DOMAIN).backward()
    close(x.grad, 2 * x * 1.0)
    raises("Unsupported", lambda: graticule.checkpoint(DOMAIN, lambda a: [], x))


def alone(code, **more):
    """A program in a world of its own: without what the launcher of this one says."""
    torchrun = "TORCHELASTIC", "RANK", "WORLD_SIZE", "LOCAL_", "GROUP_", "ROLE_", "MASTER_"
    launched, kept = ("PMI", "HYDI", "MPI", "OMPI", "OPAL", "ORTE", "PRTE", "SLURM_STEP", *torchrun), ("MPI4PY", "OMPI_ALLOW", "OPAL_PREFIX")
    own_world = {k: v for k, v in os.environ.items() if k.startswith(kept) or not k.startswith(launched)}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env={**own_world, **more})


def test_an_uncaught_error_on_one_rank_ends_all():
    if RANK == 0:
        ended = alone("import graticule; graticule.Domain(); raise SystemError('on purpose')")
        assert ended.returncode != 0 and "SystemError: on purpose" in ended.stderr, ended
    COMM.Barrier()


def test_processes_of_another_launcher_are_refused():
    """torchrun starts processes that MPI takes for worlds of one rank each: every one would train the globe alone."""
    if RANK == 0:
        twice = "import graticule\nfor _ in range(2):\n  try: graticule.Domain()\n  except graticule.Error as e: print(e.rule, e)"
        ended = alone(twice, RANK="1", WORLD_SIZE="3", LOCAL_RANK="1")
        lines = ended.stdout.splitlines()
        assert ended.returncode == 0 and len(lines) == 2, ended
        assert all(line.startswith("SingleRankWorlds") and "torchrun" in line and "3 processes" in line and "mpiexec" in line for line in lines), lines
        allowed = alone("import graticule; graticule.start(allow_single_rank=True); print(graticule.Domain().num_ranks)", RANK="0", WORLD_SIZE="2")
        assert allowed.stdout.strip() == "1", allowed
        assert alone(twice, RANK="0", WORLD_SIZE="1").stdout == ""
    COMM.Barrier()
    others = graticule._library.launched_otherwise
    assert "torchrun" in others({"RANK": "0", "WORLD_SIZE": "2"}) and not others({"WORLD_SIZE": "2"}) and not others({})
    assert "srun" in others({"SLURM_STEP_NUM_TASKS": "4"}) and "PALS" in others({"PALS_NRANKS": "4"}) and "PMIx" in others({"PMIX_RANK": "1"})
    own, foreign = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")[::1 if "Open MPI" in graticule._core.mpi_library() else -1]
    assert others({foreign: "2"}) and others({own: "2"}) and not others({own: "1", foreign: "2"}) and not others({own: "1"})


def test_errors_can_be_told_apart_and_copied():
    import pickle
    error = graticule.Error("Rule", "what was found", "input")
    again = pickle.loads(pickle.dumps(error))
    assert (again.rule, again.text, again.fault, str(again)) == ("Rule", "what was found", "input", "Rule: what was found")
    assert isinstance(pickle.loads(pickle.dumps(graticule.NotSharded("x"))), graticule.NotSharded)


main(globals())
