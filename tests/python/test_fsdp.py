# SPDX-License-Identifier: BSD-3-Clause
"""DDP and FSDP2 on the data axis, Graticule on the domain axis: training as on one rank."""
import contextlib
import os
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from support import COMM, RANK, RANKS, close, main, raises, uneven
from torch import nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

import graticule

ROWS, COLUMNS = 13, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(4, 6, 3, padding=1), nn.Conv2d(6, 4, 3, padding=1)

    def forward(self, x):
        return x + self.second(torch.tanh(self.first(x)))


def net():
    torch.manual_seed(5)
    return nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), Block(), Block(), nn.Conv2d(4, 2, 1)).double()


def samples(step, data):
    """One sample for each data rank."""
    torch.manual_seed(step)
    x = torch.randn(data, 2, ROWS, COLUMNS, dtype=torch.double)
    return x, x.roll(1, -1).sin()


def serial(data, steps=3, clip=None):
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    loss_of = nn.MSELoss()
    for step in range(steps):
        optimizer.zero_grad()
        x, y = samples(step, data)
        loss_of(model(x), y).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
    return model


@contextlib.contextmanager
def mesh_of(backend):
    data = 2 if RANKS % 2 == 0 else 1
    graticule.init_process_group(backend=backend)
    try:
        yield init_device_mesh("cpu", (data, RANKS // data), mesh_dim_names=("data", "domain")), data
    finally:
        dist.destroy_process_group()


def train(model, run, domain, mesh, data, sync, steps=3, clip=None):
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    loss_of = graticule.nn.MSELoss(domain)
    mine = mesh["data"].get_local_rank()
    rows = uneven(ROWS, domain.num_ranks)
    for step in range(steps):
        optimizer.zero_grad()
        x, y = (graticule.shard_of(one[mine:mine + 1], domain, rows) for one in samples(step, data))
        loss_of(run(x), y).backward()
        sync.reduce()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()


def whole(parameter):
    return parameter.full_tensor() if isinstance(parameter, DTensor) else parameter


def test_fsdp_on_the_data_axis():
    for backend in ("gloo", "graticule"):
        for clip in (None, 0.1):
            with mesh_of(backend) as (mesh, data):
                domain = graticule.Domain.from_mesh(mesh["domain"])
                model = net()
                graticule.shard(model, domain)
                for block in (model[1], model[2]):
                    fully_shard(block, mesh=mesh["data"])
                fully_shard(model, mesh=mesh["data"])
                sync = graticule.GradientSync(model, [(mesh["domain"], "sum")])
                train(model, model, domain, mesh, data, sync, clip=clip)
                for a, b in zip(model.parameters(), serial(data, clip=clip).parameters()):
                    close(whole(a), b, 1e-10)
                state = get_model_state_dict(model)
                assert set(state) == set(net().state_dict())


def test_ddp_on_the_data_axis():
    for backend in ("gloo", "graticule"):
        for door in ("shard", "shard_program"):
            with mesh_of(backend) as (mesh, data):
                domain = graticule.Domain.from_mesh(mesh["domain"])
                model = net()
                run = graticule.shard_program(model, domain) if door == "shard_program" else model
                if door == "shard":
                    graticule.shard(model, domain)
                parallel = nn.parallel.DistributedDataParallel(run, process_group=mesh.get_group("data"))
                sync = graticule.GradientSync(model, [(mesh["domain"], "sum")])
                train(model, parallel, domain, mesh, data, sync)
                for a, b in zip(model.parameters(), serial(data).parameters()):
                    close(a, b, 1e-10)
                # Before its process group: torch 2.13 may wait for itself where the last owner of one of gloo is destroyed.
                del parallel


def test_parts_of_dtensors_are_reduced_over_other_teams_only():
    with mesh_of("graticule") as (mesh, data):
        model = fully_shard(nn.Linear(4, 6).double(), mesh=mesh["data"])
        if data > 1:
            raises("ReplicaMismatch", lambda: graticule.GradientSync(model, [(mesh["data"], "mean")]), "weight [part 0 of 2 along axis 0]", "part 1 of 2")
        for call in (lambda: graticule.DataParallel(model, [(mesh["data"], "mean")]), lambda: graticule.ShardedParameters(model),
                     lambda: graticule.Daso(model, torch.optim.SGD(model.parameters(), 0.1), 4, COMM, node=RANK),
                     lambda: graticule.save_model("unused", 1, model)):
            raises("UnsupportedTensor", call, "'weight' is a DTensor", "GradientSync")
        sync = graticule.GradientSync(model, [(mesh["domain"], "sum")])
        sync.set_rules("bias", [(mesh["domain"], "mean")])
        model(torch.ones(1, 4, dtype=torch.double)).sum().backward()
        sync.reduce()
        parts = mesh["domain"].size()
        assert (whole(model.weight.grad) == parts).all() and (whole(model.bias.grad) == 1).all()
        with torch.no_grad():
            model.bias.add_(RANK)
        sync.broadcast()
        sync.require_equal()
        # A step that nothing has reduced.
        if parts > 1:
            model.weight.grad.mul_(1 + mesh["domain"].get_local_rank())
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            optimizer.step()  # after reduce()
            raises("ReplicaMismatch", optimizer.step, "weight")


def test_serial_checkpoints_of_torch_are_read_on_any_number_of_ranks():
    folder = COMM.bcast(tempfile.mkdtemp() if RANK == 0 else None)
    with mesh_of("graticule") as (mesh, data):
        trained = serial(1, 1)
        if RANK == 0:
            torch.save(trained.state_dict(), os.path.join(folder, "serial.pt"))
        dcp.save({"model": trained.state_dict()}, checkpoint_id=os.path.join(folder, "dcp"))
        COMM.Barrier()
        # Into a sharded model: its parameters are those of the serial one.
        domain = graticule.Domain.from_mesh(mesh["domain"])
        model = net()
        net_on_shards = graticule.shard_program(model, domain)
        state = {"model": model.state_dict()}
        dcp.load(state, checkpoint_id=os.path.join(folder, "dcp"))
        model.load_state_dict(state["model"])
        x, _ = samples(9, 1)
        found = graticule.whole_field(net_on_shards(graticule.shard_of(x, domain)), domain)
        close(found, trained(x), 1e-12)
        # Into one that fully_shard divides as well.
        other = fully_shard(net(), mesh=mesh["data"])
        state = {"model": get_model_state_dict(other)}
        dcp.load(state, checkpoint_id=os.path.join(folder, "dcp"))
        other.load_state_dict(state["model"])
        for a, b in zip(other.parameters(), trained.parameters()):
            close(whole(a), b, 0)
        # And back to one file for one process.
        dcp.save({"model": get_model_state_dict(other)}, checkpoint_id=os.path.join(folder, "again"))
        COMM.Barrier()
        if RANK == 0:
            from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
            dcp_to_torch_save(os.path.join(folder, "again"), os.path.join(folder, "again.pt"))
            state = torch.load(os.path.join(folder, "again.pt"))["model"]
            for name, value in trained.state_dict().items():
                close(state[name], value, 0)
        COMM.Barrier()


if __name__ == "__main__":
    main(globals())
