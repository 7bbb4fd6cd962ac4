# SPDX-License-Identifier: BSD-3-Clause
"""What training scripts do around a model: accumulation, autocast and scalers at each door, workers, a package without mpi4py."""
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch
from support import COMM, RANK, RANKS, close, main, uneven
from torch import nn
from torch.utils.data import DataLoader, Dataset

import graticule
from graticule import engine

ROWS, COLUMNS = 11, 8


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter, self.leave = nn.Conv2d(2, 5, 3, padding=1), nn.Conv2d(5, 2, 3, padding=1)

    def forward(self, x):
        return self.leave(torch.tanh(self.enter(x)))


def net():
    torch.manual_seed(2)
    return Net()


def sample(step):
    torch.manual_seed(step)
    x = torch.randn(1, 2, ROWS, COLUMNS)
    return x, x.roll(1, -1).sin()


def doors(model, domain, folder):
    """Each way to run a model on shards: what is called, and the module that has the parameters."""
    yield "shard_program", graticule.shard_program(model(), domain)
    other = model()
    graticule.shard(other, domain)
    yield "shard", other
    if RANK == 0:
        torch.export.save(torch.export.export(model(), (sample(0)[0],), strict=False), f"{folder}/net.pt2")
    COMM.Barrier()
    yield "Program", graticule.Program(f"{folder}/net.pt2", domain)
    layers = model()
    for name in ("enter", "leave"):
        plain = getattr(layers, name)
        layer = graticule.nn.Conv2d(plain.in_channels, plain.out_channels, 3, padding=1, domain=domain)
        layer.load_state_dict(plain.state_dict())
        setattr(layers, name, layer)
    yield "layers", layers


def gradients_with(kind, model, domain):
    """Something that reduces the gradients of a model over the domain: what accumulates, and what is called after the last backward."""
    if kind == "GradientSync":
        sync = graticule.GradientSync(model, [(COMM, "sum")])
        return (lambda: torch.enable_grad()), sync.reduce, sync
    if kind == "DataParallel":
        parallel = graticule.DataParallel(model, [(COMM, "sum")])
        return parallel.no_sync, parallel.synchronize, parallel
    raise AssertionError(kind)


def steps(model, parameters, data_of, loss_of, accumulate, complete, precision, scaled):
    """Two steps, each on two samples."""
    optimizer = torch.optim.SGD(parameters, 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, enabled=scaled)

    def one(number):
        x, y = data_of(number)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision):
            out = model(x)
            assert out.dtype == (torch.bfloat16 if precision else torch.float32)
            loss = loss_of(out.float(), y) / 2
        scaler.scale(loss).backward()

    for step in range(2):
        optimizer.zero_grad()
        with accumulate():
            one(2 * step)
        one(2 * step + 1)
        complete()
        scaler.unscale_(optimizer)
        assert all(p.grad.dtype == torch.float32 for p in parameters)
        nn.utils.clip_grad_norm_(parameters, 0.5)
        scaler.step(optimizer)
        scaler.update()
    return scaler.get_scale()


def test_scalers_autocast_and_accumulation_at_every_door():
    domain = graticule.Domain(COMM)
    rows = uneven(ROWS)
    folder = COMM.bcast(tempfile.mkdtemp() if RANK == 0 else None)
    for precision in (False, True):
        serial = net()
        steps(serial, list(serial.parameters()), sample, nn.MSELoss(), torch.enable_grad, lambda: None, precision, True)
        for reduction in ("GradientSync", "DataParallel"):
            for name, model in doors(net, domain, folder):
                accumulate, complete, owner = gradients_with(reduction, model, domain)
                data_of = lambda number: tuple(graticule.shard_of(one, domain, rows) for one in sample(number))  # noqa: E731
                steps(model, list(model.parameters()), data_of, graticule.nn.MSELoss(domain), accumulate, complete, precision, True)
                for a, b in zip(model.parameters(), serial.parameters()):
                    close(a, b, 2e-2 if precision else 1e-5)
                if reduction == "DataParallel":
                    owner.close()


class Samples(Dataset):
    def __init__(self, item):
        self.item = item

    def __len__(self):
        return 8

    def __getitem__(self, i):
        return self.item(i)


def from_numpy(i):
    return torch.from_numpy(np.full((2, ROWS, COLUMNS), float(i), np.float32))


def from_engine(i):
    engine.Comm.create(COMM)
    return i


def from_domain(i):
    return graticule.shard_of(torch.zeros(2, 4, 4), graticule.Domain(COMM))


def from_layer(i):
    return graticule.all_sum(torch.zeros(2), DOMAIN)


DOMAIN = None


def test_workers_of_data_loaders():
    global DOMAIN
    domain = DOMAIN = graticule.Domain(COMM)
    net_on_shards = graticule.shard_program(net(), domain)
    assert engine.Comm.create(COMM).size() == RANKS
    for persistent in (False, True):
        loader = DataLoader(Samples(from_numpy), batch_size=2, num_workers=2, multiprocessing_context="fork", persistent_workers=persistent)
        for _ in range(2):
            seen = [x[:, 0, 0, 0].tolist() for x in loader]
            assert seen == [[0, 1], [2, 3], [4, 5], [6, 7]], seen
            net_on_shards(graticule.shard_of(next(iter(loader)), domain))
        del loader
    for item, what in ((from_engine, "graticule.engine"), (from_domain, "start"), (from_layer, "all_sum")):
        try:
            next(iter(DataLoader(Samples(item), num_workers=1, multiprocessing_context="fork")))
        except RuntimeError as error:  # torch makes one of the worker's
            assert "WrongState" in str(error)
            assert what in str(error) and "a process that a rank has started" in str(error) and "num_workers=0" in str(error), error
        else:
            raise AssertionError("no error")
    # A child that ends by itself, or by an error, ends neither MPI nor the other ranks.
    for ends in (lambda: sys.exit(0), lambda: (_ for _ in ()).throw(ValueError("in a child"))):
        child = os.fork()
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            try:
                ends()
            except SystemExit:
                import atexit
                atexit._run_exitfuncs()
                os._exit(7)
            except BaseException:
                sys.excepthook(*sys.exc_info())
                os._exit(8)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) in (7, 8), status
    domain.barrier()


STARTED_ANEW = """
import multiprocessing, os
from concurrent.futures import ProcessPoolExecutor
import graticule
from mpi4py import MPI
def seen():
    try:
        graticule.Domain()
    except graticule.Error as error:
        return MPI.COMM_WORLD.size, error.rule
if __name__ == "__main__":
    os.environ.update(PMI_FD="99", PMI_RANK="1", PMI_SIZE="2")
    for method in ("spawn", "forkserver"):
        with ProcessPoolExecutor(1, multiprocessing.get_context(method)) as pool:
            assert pool.submit(seen).result() == (1, "WrongState"), method
"""


def test_workers_that_are_started_anew():
    # They run the script's imports again with a rank's environment, by which MPI would speak to the launcher in the rank's place.
    if RANK == 0:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("PMI", "HYDI", "MPI", "HYDRA", "OMPI_COMM_WORLD"))}
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "script.py")
            with open(script, "w") as file:
                file.write(STARTED_ANEW)
            done = subprocess.run([sys.executable, script], env=clean, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    COMM.Barrier()


def test_the_package_without_mpi4py():
    code = """
import sys
sys.modules["mpi4py"] = None  # an import fails
import torch, graticule
domain = graticule.Domain()
net = graticule.shard_program(torch.nn.Conv2d(1, 2, 3, padding=1), domain)
assert net(graticule.shard_of(torch.zeros(1, 1, 6, 4), domain)).shape == (1, 2, 6, 4)
try:
    graticule.engine.Teams.create(graticule.engine.Comm.create(-1), ["data"], [1]).team("data").mpi()
except graticule.Error as error:
    assert "pip install mpi4py" in str(error), error
else:
    raise AssertionError("no error")
"""
    if RANK == 0:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("PMI", "HYDI", "MPI", "HYDRA"))}
        done = subprocess.run([sys.executable, "-c", code], env=clean, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    COMM.Barrier()


if __name__ == "__main__":
    main(globals())
