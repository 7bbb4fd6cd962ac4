# SPDX-License-Identifier: BSD-3-Clause
"""test_launch.py [NAME...]: the MPI library of a Python process, and worlds that torchrun starts, in processes of their own.

Needs CC, a C compiler, for MPI libraries that do not fit. Without LD_LIBRARY_PATH: the names of Debian's library are the package's affair.
"""
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import graticule
from graticule import _launch, _mpi, _pmi

WORK = Path(tempfile.mkdtemp())
MPICH = _launch.kind() == "MPICH"
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("LD_LIBRARY_PATH", "MPI4PY_LIBMPI") and not name.startswith("PMI")}


class Skipped(Exception):
    """With the reason."""


def python(code, *, before=(), timeout=300, **environment):
    """A process of its own, without the libraries that tests load first."""
    environment = {**{name: value for name, value in ENVIRONMENT.items() if name != "LD_PRELOAD"}, **environment}
    return subprocess.run([*before, sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=timeout)


def torchrun(code, *options, timeout=300, **environment):
    """torchrun's own end and output, of a script with this code."""
    script = WORK / f"script_{len(list(WORK.iterdir()))}.py"
    script.write_text(code)
    command = [sys.executable, "-m", "torch.distributed.run", *options, str(script)]
    with subprocess.Popen(command, env={**ENVIRONMENT, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as agent:
        try:
            output = agent.communicate(timeout=timeout)[0]
            return subprocess.CompletedProcess(command, agent.returncode, output)
        except subprocess.TimeoutExpired:
            agent.terminate()  # it ends its ranks
            raise AssertionError(f"it did not end within {timeout} s: {agent.communicate()[0]}") from None


def need_mpich():
    if not MPICH:
        raise Skipped("torchrun starts MPICH and its kind only")


def fake_library(name):
    """An MPI library of another kind, as far as loading goes."""
    if "CC" not in os.environ:
        raise Skipped("CC names no compiler")
    path = WORK / name
    source = "int MPI_Get_version(int* a, int* b) { *a = 4, *b = 0; return 0; }\nint MPI_Initialized(int* a) { *a = 0; return 0; }\n"
    subprocess.run([os.environ["CC"], "-shared", "-fPIC", f"-Wl,-soname,{name}", "-x", "c", "-", "-o", path], input=source, text=True, check=True)
    return path


# --- The library

def test_mpi4py_and_graticule_take_one_library_without_settings():
    need_mpich()
    seen = python("import graticule\nfrom mpi4py import MPI\ngraticule.Domain(MPI.COMM_WORLD)\nprint(len(graticule._mpi.loaded()), MPI.Get_library_version()[:5])")
    assert seen.returncode == 0 and seen.stdout.split() == ["1", "MPICH"], seen


def test_a_library_of_another_kind_is_named_before_anything_starts():
    others = {"libmpi.so.40": "Open MPI", "libmpi_abi.so.1": "MPI-5 ABI"} if MPICH else {"libmpi.so.12": "MPICH", "libmpi_abi.so.1": "MPI-5 ABI"}
    for name, kind in others.items():
        path = fake_library(name)
        seen = python(f"import ctypes; ctypes.CDLL('{path}'); import graticule")
        last = seen.stderr.strip().splitlines()[-1]
        assert seen.returncode == 1 and last.startswith("ImportError"), seen
        for text in (kind, str(path), _launch.kind(), "import graticule before mpi4py", "install a graticule"):
            assert text in last, (text, last)


def test_two_libraries_are_named():
    here, path = next(iter(_mpi.loaded())), fake_library("libmpi.so.40" if MPICH else "libmpi.so.12")
    seen = python(f"import ctypes; ctypes.CDLL('{here}'); ctypes.CDLL('{path}'); import graticule")
    last = seen.stderr.strip().splitlines()[-1]
    assert seen.returncode == 1 and last.startswith("ImportError") and here in last and str(path) in last and "MPI4PY_LIBMPI" in last, seen
    for call in ("Domain()", "engine.Comm.create(None)"):
        seen = python(f"import graticule, ctypes; ctypes.CDLL('{path}')\ntry: graticule.{call}\nexcept graticule.Error as error: print(error)")
        assert seen.stdout.startswith("Unsupported") and here in seen.stdout and str(path) in seen.stdout, seen


def test_a_setting_for_another_kind_is_named():
    kind, setting = ("Open MPI", "openmpi") if MPICH else ("MPICH", "mpich")
    seen = python("import graticule", MPI4PY_MPIABI=setting)
    assert seen.returncode == 1 and f"MPI4PY_MPIABI asks for {kind}" in seen.stderr.splitlines()[-1], seen


def test_a_missing_library_is_named_with_the_way_to_get_one():
    seen = python("import graticule", MPI4PY_LIBMPI=str(WORK / "nowhere.so"))
    last = seen.stderr.splitlines()[-1]
    assert seen.returncode == 1 and last.startswith("ImportError: graticule needs an MPI library") and "nowhere.so" in last and "pip install" in last, seen


def test_names_and_places_of_libraries():
    assert [_mpi.kind_of(name) for name in ("libmpi.so.12", "libmpich.so.12", "libmpi.so.40", "libmpi_abi.so.1", "libc.so.6")] == \
        ["MPICH", "MPICH", "Open MPI", "MPI-5 ABI", ""]
    folder = fake_library("libmpi.so.40").parent
    assert list(_mpi.candidates(["Open MPI"], {"MPI4PY_LIBMPI": f"{folder}{os.pathsep}/x/libmpi.so"})) == [str(folder / "libmpi.so.40"), "/x/libmpi.so"]
    assert list(_mpi.candidates(["MPICH"], {}))[-2:] == ["libmpi.so.12", "libmpich.so.12"]


# --- torchrun

WORLD = """
import os, sys
import graticule
from mpi4py import MPI
import torch, torch.distributed as dist
world = MPI.COMM_WORLD
assert (world.rank, world.size) == (int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])), (world.rank, world.size)
node = world.Split_type(MPI.COMM_TYPE_SHARED)
assert node.size == int(os.environ["LOCAL_WORLD_SIZE"]), node.size
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
assert total.item() == world.size
torch.manual_seed(3)
x, net = torch.randn(1, 2, 12, 8), torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3, padding=1))
expected = net(x)
domain = graticule.Domain(world)
graticule.shard(net, domain)
found = graticule.whole_field(net(graticule.shard_of(x, domain)), domain)
if world.rank == 0:
    worst = (found - expected).abs().max().item()
    assert worst < 1e-5, worst
world.Barrier()
os.write(1, f"rank {world.rank} of {world.size} helper {graticule._launch._alive[1].pid if graticule._launch._alive else 0}\\n".encode())
dist.destroy_process_group()
"""


def helpers_are_gone(output):
    pids = [int(text) for text in re.findall(r"helper (\d+)", output) if int(text)]
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        living = [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
        if not living:
            return len(pids)
        time.sleep(0.2)
    raise AssertionError(f"processes {living} outlived their ranks")


def check_world(ranks):
    need_mpich()
    ended = torchrun(WORLD, f"--nproc-per-node={ranks}")
    assert ended.returncode == 0, ended.stdout
    assert sorted(re.findall(r"rank (\d) of", ended.stdout)) == [str(rank) for rank in range(ranks)], ended.stdout
    assert helpers_are_gone(ended.stdout) == (ranks if ranks > 1 else 0)


def test_torchrun_starts_one_world_of_one():
    check_world(1)


def test_torchrun_starts_one_world_of_two():
    check_world(2)


def test_torchrun_starts_one_world_of_three():
    check_world(3)


def test_nodes_of_different_sizes():
    need_mpich()
    script = WORK / "nodes.py"
    script.write_text(WORLD)
    with __import__("socket").socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    agents = [subprocess.Popen([sys.executable, "-m", "torch.distributed.run", "--nnodes=2", f"--node-rank={node}", "--master-addr=127.0.0.1",
                                f"--master-port={port}", f"--nproc-per-node={ranks}", str(script)], env=ENVIRONMENT, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True) for node, ranks in enumerate((2, 1))]
    outputs = [agent.communicate(timeout=300)[0] for agent in agents]
    assert [agent.returncode for agent in agents] == [0, 0], outputs
    assert helpers_are_gone("".join(outputs)) == 3


def test_ranks_of_nodes_in_the_words_of_pmi():
    for first_of_node, expected in (([0], "(0,1,1)"), ([0, 0, 0], "(0,1,3)"), ([0, 0, 2, 2, 4], "(0,2,2),(2,1,1)"), ([0, 1, 2, 2], "(0,2,1),(2,1,2)")):
        assert _pmi.process_mapping(first_of_node) == f"(vector,{expected})", first_of_node


def test_each_job_has_a_name_of_its_own():
    names = set()
    for token in ("one", "two"):
        listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=_pmi.serve_board, args=(listener, 2, token, 60), daemon=True).start()
        ranks = [socket.create_connection(listener.getsockname()) for _ in range(2)]
        for rank, link in enumerate(ranks):
            link.sendall(f"{token} {rank} 0\n".encode())
        for link in ranks:
            answers = _pmi.Answers(link)
            assert answers.lines.readline() == "start\n"
            names.add(answers.to("cmd=get_my_kvsname "))
    assert len(names) == 2 and all(re.fullmatch(r"cmd=my_kvsname rc=0 kvsname=\w{1,255}", name) for name in names), names


def test_a_killed_rank_ends_the_job():
    need_mpich()
    code = WORLD.split("dist.init")[0] + f"""
os.write(1, f"helper {{graticule._launch._alive[1].pid}}\\n".encode())
world.Barrier()
if world.rank == 1: os.kill(os.getpid(), {int(signal.SIGKILL)})
world.Barrier()
world.Barrier()
"""
    ended = torchrun(code, "--nproc-per-node=3", timeout=300)
    assert ended.returncode != 0 and helpers_are_gone(ended.stdout) == 3, ended.stdout


def test_an_error_on_one_rank_ends_the_job():
    need_mpich()
    ended = torchrun(WORLD.split("dist.init")[0] + "if world.rank == 1: raise SystemError('on purpose')", "--nproc-per-node=2", timeout=300)
    assert ended.returncode != 0 and "SystemError: on purpose" in ended.stdout, ended.stdout


def test_a_rank_that_leaves_with_success_and_without_mpi_finalize():
    need_mpich()
    code = WORLD.split("dist.init")[0] + "world.Barrier()\nif world.rank == 1: os._exit(0)\n"
    ended = torchrun(code, "--nproc-per-node=2", timeout=300)
    assert ended.returncode != 0 and "rank 1 of 2 ended without MPI_Finalize" in ended.stdout, ended.stdout


def test_a_rank_that_never_arrives_is_named():
    need_mpich()
    ended = torchrun("import os, time\nif os.environ['RANK'] == '2': time.sleep(400)\nimport graticule", "--nproc-per-node=3", timeout=300,
                     GRATICULE_LAUNCH_TIMEOUT="60")
    assert ended.returncode != 0 and "StalledExchange" in ended.stdout and "ranks 2 of 3 did not arrive within 60 s" in ended.stdout, ended.stdout
    # Rank 0 itself, which has the board.
    ended = torchrun("import os, time\nif os.environ['RANK'] == '0': time.sleep(400)\nimport graticule", "--nproc-per-node=2", timeout=300,
                     GRATICULE_LAUNCH_TIMEOUT="60")
    assert ended.returncode != 0 and "StalledExchange: rank 1 of 2 found no board of rank 0 within 60 s" in ended.stdout, ended.stdout


def test_a_rank_that_never_starts_mpi_is_named():
    need_mpich()
    ended = torchrun("import os, time, graticule\nif os.environ['RANK'] == '1': time.sleep(400)\nfrom mpi4py import MPI", "--nproc-per-node=2",
                     timeout=300, GRATICULE_LAUNCH_TIMEOUT="60")
    assert ended.returncode != 0 and "ranks 1 of 2 did not start MPI within 60 s" in ended.stdout, ended.stdout


def test_a_restart_makes_a_new_world():
    need_mpich()
    code = WORLD.split("dist.init")[0] + """
attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
os.write(1, f"attempt {attempt} helper {graticule._launch._alive[1].pid}\\n".encode())
world.Barrier()
if attempt == "0" and world.rank == 1: os._exit(3)
"""
    ended = torchrun(code, "--nproc-per-node=2", "--max-restarts=1")
    assert ended.returncode == 0 and ended.stdout.count("attempt 1") == 2 and helpers_are_gone(ended.stdout) == 4, ended.stdout


def test_calls_that_cannot_work_are_refused():
    here = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    call = "import graticule\ntry: graticule.launch({})\nexcept graticule.Error as error: print(error)"
    seen = python(call.format(""), RANK="0")
    assert seen.stdout.startswith("WrongState") and "WORLD_SIZE" in seen.stdout and "torchrun" in seen.stdout, seen
    seen = python(call.format(""), **here, PMI_RANK="0")
    assert seen.stdout.startswith("WrongState") and "PMI_RANK is set" in seen.stdout, seen
    if not MPICH:
        seen = python(call.format(""), **here)
        assert seen.stdout.startswith("Unsupported") and _launch.kind() in seen.stdout and "mpiexec" in seen.stdout, seen
        return
    seen = python("from mpi4py import MPI\n" + call.format(""), **here, LD_PRELOAD=next(iter(_mpi.loaded())),
                  LD_LIBRARY_PATH=str(Path(graticule.__file__).parent / "names"))
    assert seen.stdout.startswith("WrongState") and "import graticule before mpi4py" in seen.stdout, seen
    for timeout in ("0", "-1", "1e9", "float('nan')"):
        assert python(call.format(timeout), **here).stdout.startswith("BadOption"), timeout
    seen = python(call.format(""), **{**here, "RANK": "first"})
    assert seen.stdout.startswith("BadOption") and "RANK is 'first'" in seen.stdout, seen
    seen = python("import graticule", **here, TORCHELASTIC_RUN_ID="x", GRATICULE_LAUNCH="maybe")
    assert "BadOption" in seen.stderr and "GRATICULE_LAUNCH" in seen.stderr, seen
    seen = python("import graticule\ntry: graticule.Domain()\nexcept graticule.Error as error: print(error)", **here, TORCHELASTIC_RUN_ID="x", GRATICULE_LAUNCH="no")
    assert seen.stdout.startswith("SingleRankWorlds") and "import graticule before mpi4py" in seen.stdout and "mpiexec" in seen.stdout, seen


def test_another_kind_of_mpi_is_refused_by_name():
    kept = _mpi.loaded
    _mpi.loaded = lambda: {"/x/libmpi.so.40": "libmpi.so.40"}
    try:
        os.environ.update(RANK="0", WORLD_SIZE="2", LOCAL_RANK="0", LOCAL_WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT="1")
        graticule.launch()
        raise AssertionError("it was not refused")
    except graticule.Error as error:
        assert error.rule == "Unsupported" and "Open MPI (/x/libmpi.so.40)" in str(error) and "mpiexec" in str(error), error
    finally:
        _mpi.loaded = kept


def main():
    chosen = sys.argv[1:] or [name for name in globals() if name.startswith("test_")]
    ran = 0
    for name in chosen:
        try:
            globals()[name]()
            print(f"ok {name}", flush=True)
            ran += 1
        except Skipped as reason:
            print(f"skipped {name}: {reason}", flush=True)
            if os.environ.get("GRATICULE_TEST_SKIPS"):
                with open(os.environ["GRATICULE_TEST_SKIPS"], "a") as file:
                    file.write(f"{os.environ.get('GRATICULE_TEST_NAME', 'a script by hand')}\t{name}\t{reason}\n")
    sys.exit(0 if ran else 77)


if __name__ == "__main__":
    main()
