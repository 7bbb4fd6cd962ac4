# SPDX-License-Identifier: BSD-3-Clause
"""MPI among processes that torchrun has started, without mpiexec."""
from __future__ import annotations

import multiprocessing
import os
import pathlib
import secrets
import socket
import subprocess
import sys
import time
from datetime import timedelta
from typing import Any, List, Mapping, Optional, Tuple

from . import _mpi
from ._errors import Error

_TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
# What launchers of MPI leave in the environment of a rank. SLURM's variables do not tell: torchrun may have been started by srun.
_OF_LAUNCHERS = ("PMI_FD", "PMI_RANK", "PMI_PORT", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "PALS_NRANKS")
_alive: List[Any] = []  # torchrun's store and the helper


def launch(timeout: Optional[float] = None) -> None:
    """Makes one MPI world of the processes that torchrun has started: MPI_Init finds the other ranks, as under mpiexec.

    `import graticule` does it under torchrun, unless GRATICULE_LAUNCH=no; before mpi4py.MPI is imported, which starts MPI. For MPICH, Intel MPI and
    others of their kind. A process beside each rank answers MPI in the place of a launcher; it ends with its rank. Collective.
    timeout: seconds until all ranks must have come; default: GRATICULE_LAUNCH_TIMEOUT, or 300.
    Errors: WrongState, Unsupported, BadOption, StalledExchange where a rank does not come.
    """
    if _alive:
        return
    missing = [name for name in _TORCHRUN if not os.environ.get(name)]
    if missing:
        raise Error("WrongState", f"graticule.launch needs the variables of torchrun, and {', '.join(missing)} are not set: "
                    "start with `torchrun --nproc-per-node RANKS script.py`, or with mpiexec, and then without graticule.launch", "usage")
    other = next((name for name in _OF_LAUNCHERS if name in os.environ), None)
    if other:
        raise Error("WrongState", f"graticule.launch in a process that a launcher of MPI has started ({other} is set): MPI knows its ranks already", "usage")
    _refuse_other_kinds()
    if _mpi.initialized():
        raise Error("WrongState", "MPI runs already, with one rank in each process of torchrun: import graticule before mpi4py.MPI, or call "
                    "graticule.launch() before MPI is started", "usage")
    seconds = _seconds(timeout)
    rank, ranks, local_rank = (_number(name) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    if ranks > 1:
        _start_helper(rank, ranks, rank - local_rank, seconds)


def launch_at_import() -> None:
    """Under torchrun, where no launcher of MPI is there and MPI has not been started. An MPI that cannot be started so is refused before it starts:
    Open MPI 4 of the package index ends the process instead. Other cases are refused when work begins.
    """
    if is_worker or "TORCHELASTIC_RUN_ID" not in os.environ or any(not os.environ.get(name) for name in _TORCHRUN) or launched(os.environ):
        return
    setting = os.environ.get("GRATICULE_LAUNCH", "auto")
    if setting not in ("auto", "no"):
        raise Error("BadOption", f"GRATICULE_LAUNCH is {setting!r}: auto or no", "usage")
    if setting == "no" or _mpi.initialized() or not kind():
        return
    launch()


def launched(environment: Mapping[str, str]) -> bool:
    """Whether an MPI launcher has started this process, or `launch` has been called in it or in the process that started it."""
    return any(name in environment for name in _OF_LAUNCHERS)


def _leave_world() -> bool:
    """Whether multiprocessing has started this process anew (spawn, forkserver) in a rank, as workers of a DataLoader may be.

    It has the rank's environment, by which an MPI that starts here, as `from mpi4py import MPI` does, would speak to the launcher in the
    rank's place, through a descriptor that is closed or another's: without these variables it is a world of its own.
    """
    # The script of the rank runs again here before multiprocessing names the parent.
    started = getattr(multiprocessing.current_process(), "_inheriting", False) or multiprocessing.parent_process() is not None
    if not started or not (launched(os.environ) or all(os.environ.get(name) for name in _TORCHRUN)) or _mpi.initialized():
        return False
    for name in [name for name in os.environ if name.startswith(("PMI_", "PMIX_", "OMPI_COMM_WORLD_", "MV2_COMM_WORLD_", "PALS_"))]:
        del os.environ[name]
    return True


is_worker = _leave_world()


def kind() -> str:
    """Of the MPI library of this process: \"MPICH\", \"Open MPI\", ..."""
    kinds = {_mpi.kind_of(name) for name in _mpi.loaded().values()} if sys.platform == "linux" else set()
    return next(iter(kinds), "")


def _refuse_other_kinds() -> None:
    found_kind = kind()
    if found_kind != "MPICH":
        found = next(iter(_mpi.loaded()), "none") if sys.platform == "linux" else sys.platform
        raise Error("Unsupported", f"torchrun starts MPICH, Intel MPI and others with libmpi.so.12, not {found_kind or 'this MPI'} ({found}), which needs PMIx: "
                    "start with its own `mpiexec -n RANKS python3 ...`, install `graticule[mpich]`, or set GRATICULE_LAUNCH=no where MPI is not used", "usage")


def _number(name: str) -> int:
    text = os.environ[name]
    if not text.isdecimal():
        raise Error("BadOption", f"{name} is {text!r}, not a number", "usage")
    return int(text)


def _seconds(timeout: Optional[float]) -> float:
    text = os.environ.get("GRATICULE_LAUNCH_TIMEOUT", "300") if timeout is None else str(timeout)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise Error("BadOption", f"the timeout of graticule.launch (GRATICULE_LAUNCH_TIMEOUT) is {text!r}: seconds, more than 0", "usage")
    return seconds


def _store(rank: int, seconds: float) -> Any:
    """torchrun's store; where its agents have none, rank 0 opens it, as torch.distributed does."""
    import torch.distributed as dist
    if not dist.is_available():
        raise Error("Unsupported", "this torch was built without torch.distributed, whose store tells the ranks of each other", "usage")
    serves = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    return dist.TCPStore(os.environ["MASTER_ADDR"], _number("MASTER_PORT"), is_master=serves, timeout=timedelta(seconds=seconds),
                         wait_for_workers=False, multi_tenant=True)


def _own_address() -> str:
    """The address of this host by which those who reach the store reach it, too."""
    where = (os.environ["MASTER_ADDR"], _number("MASTER_PORT"))
    family, _, _, _, address = socket.getaddrinfo(*where, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(address)
        return str(probe.getsockname()[0])


def _start_helper(rank: int, ranks: int, first_of_node: int, seconds: float) -> None:
    deadline, key = time.monotonic() + seconds, f"graticule/board/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
    try:
        store = _store(rank, seconds)
        if rank == 0:
            helper, pmi = _open_board(store, key, ranks, seconds)
        else:
            board = _join(store, key, rank, first_of_node, deadline)
            pmi, theirs = socket.socketpair()
            helper = _helper([theirs, board])
    except Error:
        raise
    except Exception as error:  # of torch's store, whose types differ between versions, and of sockets
        raise Error("StalledExchange", f"rank {rank} of {ranks} found no board of rank 0 within {seconds:g} s, by the store at {os.environ['MASTER_ADDR']}:"
                    f"{os.environ['MASTER_PORT']}: {_first_line(error)}; each rank imports graticule", "mpi") from None
    # MPI's own from here on: mpi4py ends MPI when Python's objects are gone.
    os.environ.update(PMI_FD=str(pmi.detach()), PMI_RANK=str(rank), PMI_SIZE=str(ranks))
    _alive.extend((store, helper))
    # A rank that fails would wait for the others at the end of MPI, where torchrun does not see it.
    from ._library import end_together
    end_together()


def _helper(passed: List[socket.socket], *board: str) -> "subprocess.Popen[bytes]":
    """The process beside this rank, to which these sockets go."""
    program = pathlib.Path(__file__).absolute().with_name("_pmi.py")
    command = [sys.executable, "-I", "-S", str(program), str(os.getpid()), *(str(s.fileno()) for s in passed), *board]
    helper = subprocess.Popen(command, pass_fds=[s.fileno() for s in passed], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              env={**os.environ, "PMI_SIZE": os.environ["WORLD_SIZE"]})
    for s in passed:
        s.close()
    return helper


def _open_board(store: Any, key: str, ranks: int, seconds: float) -> Tuple["subprocess.Popen[bytes]", socket.socket]:
    """Rank 0's part: its process serves the board to all."""
    token, address = secrets.token_hex(16), _own_address()
    listener = socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET, backlog=min(ranks, 4096))
    port = listener.getsockname()[1]
    board = socket.create_connection((address, port))
    pmi, theirs = socket.socketpair()
    here = board.dup()
    helper = _helper([theirs, board, listener], str(ranks), token, str(seconds))
    try:
        store.set(key, f"{address} {port} {token}")
        here.sendall(f"{token} 0 0\n".encode())
        answer = _answer(here, seconds + 10)
        if answer != "start":
            raise _refusal(answer, 0)
    except BaseException:
        pmi.close()
        helper.wait()
        raise
    here.close()
    return helper, pmi


def _join(store: Any, key: str, rank: int, first_of_node: int, deadline: float) -> socket.socket:
    """Another rank's part. A store that outlived an earlier attempt may have the address of that attempt's board: asked again."""
    while True:
        address, port, token = store.get(key).decode().split()
        try:
            board = socket.create_connection((address, int(port)), timeout=max(0.1, deadline - time.monotonic()))
            board.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            board.sendall(f"{token} {rank} {first_of_node}\n".encode())
            answer = _answer(board, max(0.1, deadline - time.monotonic()) + 10)
            if answer == "start":
                return board
            if answer:
                raise _refusal(answer, rank)
        except OSError:
            if time.monotonic() > deadline:
                raise
        if time.monotonic() > deadline:
            raise TimeoutError("the board was closed")
        time.sleep(0.1)


def _answer(board: socket.socket, seconds: float) -> str:
    """One line of the board, and no more: what follows is for the helper. "" where the board was closed."""
    board.settimeout(seconds)
    line = b""
    while not line.endswith(b"\n"):
        got = board.recv(1)
        if not got:
            return ""
        line += got
    board.settimeout(None)
    return line.decode().strip()


def _refusal(answer: str, rank: int) -> Error:
    reason = answer.partition(" ")[2] or "the process beside rank 0 has ended"
    return Error("StalledExchange", f"rank {rank} of {os.environ['WORLD_SIZE']} waited for the others in graticule.launch (GRATICULE_LAUNCH_TIMEOUT): {reason}", "mpi")


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
