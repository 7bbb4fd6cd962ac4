# SPDX-License-Identifier: BSD-3-Clause
"""Process groups of torch.distributed: started under mpiexec, as communicators, and over Graticule's own messages."""
from __future__ import annotations

import datetime
import socket
import weakref
from typing import Any, Dict, List, Optional, Tuple

import torch.distributed as dist

from . import _core
from ._errors import Error
from ._library import communicator_of, handle_of, start


class _Ranks:
    """The ranks of MPI that are those of torch.distributed, and teams of them."""

    def __init__(self, *handle: int) -> None:
        start()
        self.maker = _core.GroupMaker(*handle)
        self.are_known = bool(handle)
        self.teams: Dict[Tuple[int, ...], Any] = {}


# Of each start of torch.distributed, by its group of all ranks, and of the start under way.
_ranks: "weakref.WeakKeyDictionary[Any, _Ranks]" = weakref.WeakKeyDictionary()
_starting: Optional[_Ranks] = None
_stores: List[Any] = []


def _ranks_now() -> _Ranks:
    """Those of torch.distributed; all ranks of MPI where it was not started by `init_process_group` below."""
    world = dist.group.WORLD
    if world is None:
        return _starting or _Ranks()
    if world not in _ranks:
        _ranks[world] = _Ranks()
    return _ranks[world]


def init_process_group(comm: Any = None, backend: str = "gloo", *, timeout: Optional[datetime.timedelta] = None,
                       address: Optional[str] = None, **options: Any) -> None:
    """`torch.distributed.init_process_group` for ranks that MPI has started: rank and world size are those of comm.

    The first rank opens a store on a free port, which a broadcast tells the others. backend: "gloo", "nccl", or "graticule",
    whose tensors travel over this package's messages, also as "cpu:graticule,cuda:nccl". comm: of mpi4py; default: all ranks.
    address: of the first rank, for the others; default: its host name, within a node 127.0.0.1. options: as torch's.
    Collective: a failure of one rank is an error on all. Errors: WrongState, BadOption.
    Example: `graticule.init_process_group(); mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("data", "domain"))`.
    """
    global _starting
    ranks = _Ranks(handle_of(comm))
    maker = ranks.maker
    used = {"store", "rank", "world_size", "init_method"} & options.keys()
    if used:
        maker.agree("BadOption", f"{sorted(used)} of init_process_group are those of the communicator: leave them out")
    maker.agree("WrongState", "torch.distributed has process groups already: call destroy_process_group() first" if dist.is_initialized()
                else None)
    mine = f"backend {backend!r}, timeout {timeout}, {sorted(options)}"
    first = maker.broadcast(mine)
    maker.agree("ArgumentDisagreement", None if first == mine else f"{mine}, and on the first rank {first}")
    wait = timeout or dist.default_pg_timeout
    store, text, failure = None, "", None
    if maker.rank == 0:
        try:
            host = address or ("127.0.0.1" if maker.on_one_node else socket.getfqdn())
            store = dist.TCPStore(host, 0, maker.num_ranks, True, timeout=wait, wait_for_workers=False)
            text = f"{store.port} {host}"
        except Exception as error:  # noqa: BLE001 - all ranks get it
            failure = f"no store for torch.distributed could be opened: {error}"
    maker.agree("WrongState", failure)
    port, host = maker.broadcast(text).split(" ")
    if store is None:
        try:
            store = dist.TCPStore(host, int(port), maker.num_ranks, False, timeout=wait)
        except Exception as error:  # noqa: BLE001
            failure = f"the store of torch.distributed on {host}, port {port}, cannot be reached: {error}; name the first rank's address by " \
                      "the argument `address`"
    maker.agree("WrongState", failure)
    _starting = ranks
    try:
        dist.init_process_group(backend, store=store, rank=maker.rank, world_size=maker.num_ranks, timeout=timeout, **options)
        _ranks[dist.group.WORLD] = ranks
    except Exception as error:
        # The others may wait in it: where this is not caught, it ends them, too.
        raise Error("WrongState", f"torch.distributed.init_process_group: {error}") from error
    finally:
        _starting = None
    # Others may still connect to this rank, and read its store after it has destroyed its groups.
    maker.agree("WrongState", None)
    if maker.rank == 0:
        _stores.append(store)


def _disagreement(pairs: List[Tuple[int, int]]) -> Optional[str]:
    """What is wrong with ranks of torch.distributed and of MPI."""
    wrong = next((pair for pair in sorted(pairs) if pair[0] != pair[1]), None)
    return None if wrong is None else (f"torch.distributed calls rank {wrong[1]} of MPI rank {wrong[0]}, and messages go by the ranks of MPI: "
                                       "start it by graticule.init_process_group(comm)")


def _create(given: Any, options: Any) -> Any:
    """Makes a process group of the back end "graticule" for torch.distributed."""
    now = _ranks_now()
    ranks = list(given.global_ranks_in_group)
    if not now.are_known:  # by the store: MPI's ranks are what is in doubt
        if given.group_size > now.maker.num_ranks:
            raise Error("SingleRankWorlds", f"torch.distributed has {given.group_size} ranks in this group, and MPI {now.maker.num_ranks}: start "
                        "with `mpiexec -n RANKS python3 ...` of this MPI", "usage")
        given.store.set(f"mpi/{given.group_rank}", str(now.maker.rank))
        of_mpi = given.store.multi_get([f"mpi/{rank}" for rank in range(given.group_size)])
        wrong = _disagreement(list(zip(ranks or range(given.group_size), map(int, of_mpi))))
        if wrong is not None:
            raise Error("ArgumentDisagreement", wrong, "argument")
        if not ranks and given.group_size < now.maker.num_ranks:
            ranks = list(range(given.group_size))
    return now.maker.make(ranks, given.group_id, given.timeout.total_seconds())


def register_backend() -> None:
    """Makes the back end "graticule" known to torch.distributed."""
    if dist.is_available() and "graticule" not in dist.Backend.backend_list:
        dist.Backend.register_backend("graticule", _create, extended_api=True, devices=["cpu"])


def team_of(mesh: Any) -> Any:
    """The communicator of mpi4py with the ranks of a DeviceMesh that this rank is in, in the mesh's order.

    mesh: of one or more axes, such as `mesh["data"]`. `DataParallel`, `GradientSync` and all that take a communicator also take the
    mesh itself. Collective over the mesh when it is met first. Errors: ArgumentDisagreement where torch.distributed numbers the
    ranks in another way than MPI, WrongState.
    """
    if mesh.get_coordinate() is None:
        raise Error("WrongState", f"this rank is not in the mesh {mesh}", "argument")
    ranks = tuple(int(rank) for rank in mesh.mesh.flatten())
    now = _ranks_now()
    if ranks in now.teams:
        return now.teams[ranks]
    if not now.are_known:  # by torch.distributed itself, along one axis after the other
        pairs = [(dist.get_rank(), now.maker.rank)]
        for axis in range(mesh.ndim):
            lists: List[Any] = [None] * mesh.size(axis)
            dist.all_gather_object(lists, pairs, group=mesh.get_group(axis))
            pairs = [pair for one in lists for pair in one]
        wrong = _disagreement(pairs)
        if wrong is not None:
            raise Error("ArgumentDisagreement", wrong, "argument")
    whole = communicator_of(now.maker.handle)
    group = whole.group.Incl(list(ranks))
    now.teams[ranks] = whole.Create_group(group, tag=1)
    group.Free()
    return now.teams[ranks]
