# SPDX-License-Identifier: BSD-3-Clause
"""Times steps of a CNN under torch's DistributedDataParallel over gloo and under Heat, against steps without communication.

Started by data_parallel, on 2 ranks of one thread: the model, the batch, the optimizer and the way of timing are those
of `graticule-bench data-parallel`. Prints the seconds of each repetition, of the slowest rank, as JSON.
"""
import argparse
import copy
import json
import os
import socket
import sys
import types

import torch
from mpi4py import MPI

NUM_STEPS = 4
NUM_CLASSES = 10
NUM_WARM_UPS = 5
CACHE_BYTES = 16 << 20


def import_heat():
    """Heat imports torchvision for its data sets alone; its builds seldom load beside a LibTorch for CPUs."""
    def stand_in(name, **members):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__dict__.update(members)
        return sys.modules[name]
    stand_in("torchvision", datasets=stand_in("torchvision.datasets", MNIST=object),
             transforms=stand_in("torchvision.transforms", Compose=object))
    import heat
    return heat


def make_model(channels):
    layers = []
    for num_inputs, num_outputs in ((3, channels), (channels, 2 * channels), (2 * channels, 4 * channels)):
        if layers:
            layers.append(torch.nn.MaxPool2d(2))
        for num in (num_inputs, num_outputs):
            layers += [torch.nn.Conv2d(num, num_outputs, 3, padding=1), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
                               torch.nn.Linear(4 * channels, NUM_CLASSES))


def make_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


class Trainer:
    """Some steps of a replica; `wrap` gives the module to call and the optimizer to step."""

    def __init__(self, start, options, wrap):
        self.model = copy.deepcopy(start)
        self.wrapped, self.optimizer = wrap(self.model, make_optimizer(self.model))
        self.images = torch.randn(options.batch, 3, options.nlat, options.nlon)
        self.labels = torch.randint(0, NUM_CLASSES, (options.batch,))

    def __call__(self):
        for _ in range(NUM_STEPS):
            self.optimizer.zero_grad()
            torch.nn.functional.cross_entropy(self.wrapped(self.images), self.labels).backward()
            self.optimizer.step()
        self.wrapped.eval()  # Heat applies what its late steps have left when training mode ends.
        self.wrapped.train()


def start_gloo(comm):
    port = None
    if comm.rank == 0:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(comm.bcast(port)), GLOO_SOCKET_IFNAME="lo")
    torch.distributed.init_process_group("gloo", rank=comm.rank, world_size=comm.size)


def candidates(comm, options):
    heat = import_heat()

    def heat_wrap(blocking):
        def wrap(model, optimizer):
            parallel_optimizer = heat.optim.DataParallelOptimizer(optimizer, blocking)
            return heat.nn.DataParallel(model, heat.core.communication.MPICommunication(comm), parallel_optimizer,
                                        blocking_parameter_updates=blocking), parallel_optimizer
        return wrap

    def torch_wrap(**how):
        return lambda model, optimizer: (torch.nn.parallel.DistributedDataParallel(model, **how), optimizer)

    wraps = {
        "each rank alone, no communication": lambda model, optimizer: (model, optimizer),
        "torch DDP, gloo": torch_wrap(),
        "torch DDP, gloo, gradient views": torch_wrap(gradient_as_bucket_view=True),
        "Heat, blocking": heat_wrap(True),
        "Heat, non-blocking": heat_wrap(False),
    }
    start = make_model(options.channels)
    return {name: Trainer(start, options, wrap) for name, wrap in wraps.items()}


def interleave(comm, trainers, num_repetitions):
    other = torch.ones(CACHE_BYTES, dtype=torch.uint8)
    seconds = {name: [] for name in trainers}
    for repetition in range(-NUM_WARM_UPS, num_repetitions):
        for name, train in trainers.items():
            other.add_(1)
            comm.Barrier()
            begin = MPI.Wtime()
            train()
            slowest = comm.allreduce(MPI.Wtime() - begin, op=MPI.MAX)
            if repetition >= 0:
                seconds[name].append(slowest)
    return seconds


def require_same_parameters(comm, trainers):
    for name, trainer in list(trainers.items())[1:]:
        mine = torch.cat([p.detach().flatten() for p in trainer.model.parameters()])
        first = comm.bcast(mine)
        if not torch.equal(mine, first):
            raise SystemExit(f"{name}: ranks hold different parameters, up to {(mine - first).abs().max()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in (("--channels", 64), ("--batch", 16), ("--nlat", 32), ("--nlon", 32), ("--repetitions", 20)):
        parser.add_argument(name, type=int, default=value)
    options = parser.parse_args()
    comm = MPI.COMM_WORLD
    torch.set_num_threads(1)
    torch.manual_seed(1 + comm.rank)
    start_gloo(comm)
    trainers = candidates(comm, options)
    seconds = interleave(comm, trainers, options.repetitions)
    require_same_parameters(comm, trainers)
    if comm.rank == 0:
        print(json.dumps(seconds))
    torch.distributed.destroy_process_group()


main()
