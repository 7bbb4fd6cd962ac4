# SPDX-License-Identifier: BSD-3-Clause
"""Loads the C++ side, and starts and ends MPI and Kokkos."""
from __future__ import annotations

import atexit
import functools
import io
import os
import sys
import traceback
import types
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, TypeVar

import torch

from . import _core, _launch, _mpi
from ._errors import Error
from ._states import is_holder

_started = False
_child = _launch.is_worker  # or a process that was forked after the start: MPI is not there
F = TypeVar("F", bound=Callable[..., Any])


def start(num_threads: Optional[int] = None, allow_single_rank: bool = False) -> None:
    """Starts MPI and Kokkos unless they run: an MPI that mpi4py has started is used. Further calls do nothing.

    The first `Domain` does it. num_threads: of Kokkos' host space; default: torch's. allow_single_rank: also where a launcher such as
    torchrun, with GRATICULE_LAUNCH=no, has started several processes that MPI does not know of each other: each is then a program of one rank.
    From then on an uncaught error on one rank ends all ranks, because the others would wait for it.
    Errors: ThreadLevel, SingleRankWorlds, Unsupported where mpi4py was built for another MPI library.
    """
    global _started
    require_parent("start")
    if _started:
        return
    check_mpi()
    launched = launched_otherwise(os.environ)
    _core.start(torch.get_num_threads() if num_threads is None else num_threads)
    atexit.unregister(_core.stop)
    atexit.register(_core.stop)
    if launched and not allow_single_rank and _core.num_processes() == 1:
        here = ""
        if launched.startswith("torchrun"):
            here = "import graticule before mpi4py, without GRATICULE_LAUNCH=no; or " if _launch.kind() == "MPICH" else \
                f"torchrun cannot start {_launch.kind() or 'this MPI'}; "
        raise Error("SingleRankWorlds", f"{launched}, but MPI sees one rank in each, so that each would compute the whole globe alone: {here}start "
                    "with `mpiexec -n RANKS python3 ...` of this MPI, or call graticule.start(allow_single_rank=True) first", "usage")
    _started = True
    end_together()


def _after_fork() -> None:
    """A child has its parent's memory, and no part in MPI: it neither ends MPI nor the other ranks."""
    global _child
    if not _started and not at_end:
        return
    _child = True
    atexit.unregister(_core.stop)
    for end in at_end:
        atexit.unregister(end)


#: What is registered with atexit and ends MPI.
at_end: List[Callable[[], None]] = []
os.register_at_fork(after_in_child=_after_fork)


def require_parent(what: str) -> None:
    """Errors: WrongState in a process that a rank has started, such as a worker of a DataLoader."""
    if _child:
        raise Error("WrongState", f"{what} in a process that a rank has started, as workers of a DataLoader are: it has no part in MPI; read with "
                    "h5py, netCDF4 or zarr there, or in the rank itself with num_workers=0")


# Launchers, and where each leaves the number of processes and a process's own.
_LAUNCHERS = (("a launcher of MPICH's kind (PMI)", "PMI_SIZE"), ("Open MPI's launcher", "OMPI_COMM_WORLD_SIZE"),
              ("MVAPICH's launcher", "MV2_COMM_WORLD_SIZE"), ("PALS's launcher", "PALS_NRANKS"), ("srun", "SLURM_STEP_NUM_TASKS"))


def launched_otherwise(environment: Mapping[str, str]) -> str:
    """Which launcher has started several processes; "" for none, and for an MPI program of one rank within a job of another."""
    def number(name: str) -> int:
        text = environment.get(name, "")
        return int(text) if text.isdecimal() else 0

    if "RANK" in environment and number("WORLD_SIZE") > 1:
        return f"torchrun (WORLD_SIZE) has started {number('WORLD_SIZE')} processes"
    own = "OMPI_COMM_WORLD_SIZE" if "Open MPI" in _core.mpi_library() else "PMI_SIZE"
    if number(own) == 1:
        return ""
    for launcher, size in _LAUNCHERS:
        if number(size) > 1:
            return f"{launcher} has started {number(size)} processes"
    return "a launcher of PMIx's kind has started several processes" if number("PMIX_RANK") > 0 else ""


def end_together() -> None:
    """An uncaught error on one rank ends all ranks from now on, because the others would wait for it."""
    previous = sys.excepthook
    if getattr(previous, "graticule", False):
        return

    def end_all_ranks(kind, value, trace) -> None:
        previous(kind, value, trace)
        if isinstance(sys.stderr, io.StringIO) and sys.__stderr__ is not None:
            # torch.distributed (2.13) has put its own hook around this one, and prints what it collects afterwards.
            print(sys.stderr.getvalue(), file=sys.__stderr__, end="", flush=True)
        sys.stderr.flush()
        if not issubclass(kind, SystemExit) and not _child:
            _core.abort_all("".join(traceback.format_exception_only(kind, value)).strip())

    end_all_ranks.graticule = True  # type: ignore[attr-defined]
    sys.excepthook = end_all_ranks


def check_mpi() -> None:
    wrong = _mpi.check()
    if wrong:
        raise Error("Unsupported", wrong, "usage")
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is None:
        return
    here, there = (text.strip("\0 \n").splitlines()[0] for text in (_core.mpi_library(), mpi.Get_library_version()))
    if here != there:
        raise Error("Unsupported", f"graticule was built with {here}, mpi4py with {there}")


def handle_of(comm: Any) -> int:
    """The Fortran handle of a communicator, or of the ranks of a DeviceMesh; -1, which means all ranks, for None."""
    if comm is None:
        return -1
    if isinstance(comm, int) and not isinstance(comm, bool):
        return comm
    if hasattr(comm, "py2f"):
        if comm and getattr(comm, "is_inter", False):
            raise Error("WrongState", "an intercommunicator; ranks that share work are in one intracommunicator, see Merge of mpi4py", "argument")
        return comm.py2f()
    if type(comm).__name__ == "DeviceMesh":
        from ._groups import team_of
        return team_of(comm).py2f()
    raise TypeError(f"comm is a communicator of mpi4py, its py2f(), a DeviceMesh, or None, not {comm!r}")


def communicator_of(handle: int) -> Any:
    """The communicator of mpi4py with a Fortran handle."""
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise Error("Unsupported", f"a communicator of mpi4py is wanted, and mpi4py cannot be imported ({error}): pip install mpi4py, which the extras "
                    "mpich, openmpi and intel of graticule have", "usage") from error
    return MPI.Comm.f2py(handle)


def require_eager(what: str) -> None:
    """Raises where torch records a program: messages are not in it. Errors: Unsupported."""
    if torch._C._get_tracing_state() is not None or torch.compiler.is_exporting():
        raise Error("Unsupported", f"{what} in torch.jit.trace or torch.export: it sends messages, which a recorded program would lack; "
                    "export the serial model (scripts/export.py of Graticule's sources does), and divide the program: docs/programs.md")


def _nothing_compiles() -> bool:
    """Whether no code of this thread is being compiled by torch.compile, whose check costs less than torch.compiler.disable."""
    callback = getattr(torch._C._dynamo.eval_frame, "get_eval_frame_callback", None)  # PyTorch 2.6
    return callback is not None and callback() is None


def uncompiled(function: F) -> F:
    """A function that sends messages: `torch.compile` breaks its graph here, since messages have an order.

    That is torch.compiler.disable, whose module takes seconds to import and is imported by torch.compile only.
    """
    disabled: Optional[Callable[..., Any]] = None
    reason = f"{function.__qualname__} of graticule sends messages, whose order a compiled graph does not keep: compile without fullgraph"

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal disabled
        if _child:
            require_parent(function.__qualname__)
        if disabled is None:
            if "torch._dynamo" not in sys.modules or _nothing_compiles():
                return function(*args, **kwargs)
            disabled = torch.compiler.disable(function, reason=reason)
        return disabled(*args, **kwargs)

    call._torchdynamo_disable, call._torchdynamo_disable_msg = True, reason  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]


def watch(model: Any) -> Any:
    """Tells, at little cost, whether the tensors, the submodules and the modes of a model are those that it has now."""
    entries: List[Tuple[Dict[str, Any], str, Any]] = []
    for part in model.modules():
        entries.append((part.__dict__, "training", part.training))
        for table in (part._parameters, part._buffers, part._modules):
            entries.extend((table, name, value) for name, value in table.items())
    return _core.Watch(entries)


_MOST = 4096  # of the values that one attribute holds
_DEEPEST = 4
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def watch_attributes(attributes: Sequence[Tuple[Any, str]], model: Any) -> Any:
    """Tells whether attributes of modules, and what is in their dictionaries, lists, arrays and other holders of values, are as they are
    now, and whether the modules of a model have the hooks that they have now."""
    entries: List[Tuple[Any, Any, Any]] = []
    for part, name in attributes:
        entries.append((part.__dict__, name, part.__dict__[name]))
        held: List[Tuple[Any, Any, Any]] = []
        _add_contents(part.__dict__[name], held, 0)
        entries.extend(held[:_MOST])
    for part in model.modules():
        if "forward" not in part.__dict__:
            entries.append((part.__dict__, "forward", ...))
        for table in (part.__dict__[name] for name in _HOOKS):
            entries.extend([(table, None, len(table)), *((table, key, hook) for key, hook in table.items())])
    return _core.WatchValues(entries)


def _add_contents(value: Any, entries: List[Tuple[Any, Any, Any]], depth: int) -> None:
    if depth == _DEEPEST or len(entries) > _MOST:
        return
    if isinstance(value, (dict, list)):
        pairs = list(value.items() if isinstance(value, dict) else enumerate(value))
        entries.append((value, None, len(pairs)))
    elif isinstance(value, tuple):
        pairs = []
        for held in value:
            _add_contents(held, entries, depth + 1)
    elif hasattr(value, "__array_interface__"):
        if value.nbytes <= 1 << 20 and value.flags.c_contiguous:
            entries.append((value, None, value.tobytes()))
        return
    elif is_holder(value):
        value = vars(value)
        pairs = list(value.items())
    else:
        return
    for key, held in pairs:
        entries.append((value, key, held))
        _add_contents(held, entries, depth + 1)
