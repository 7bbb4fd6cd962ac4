#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains a U-Net to forecast a field by one time step, each rank with its own rows.

  mpiexec -n 2 python3 train.py FILE.nc --variable z --steps 50 --picture forecast.png
  torchrun --nproc-per-node 2 train.py FILE.nc --variable z --steps 50

The file is netCDF-4 with VARIABLE(time, ..., latitude, longitude); of axes in between the first element is used. Needs at least
two times. The network is written for serial PyTorch; `graticule.shard` divides it. Same losses on any number of ranks.
"""
import argparse

import graticule  # before mpi4py: it finds the MPI library, and joins the processes of torchrun
import numpy as np
import torch
from graticule import engine
from mpi4py import MPI
from torch import nn


def block(c_in, c_out):
    return nn.Sequential(nn.Conv2d(c_in, c_out, 3, padding=1), nn.GroupNorm(2, c_out), nn.GELU())


class UNet(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.enter, self.pool, self.deep = block(channels, width), nn.MaxPool2d(2), block(width, 2 * width)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.leave, self.last = block(2 * width, width), nn.Conv2d(width, channels, 1)

    def forward(self, x):
        skip = self.enter(x)
        up = self.up(self.deep(self.pool(skip)), output_size=skip.shape[-2:])
        return x + self.last(self.leave(torch.cat([skip, up], dim=1)))


def read(file, variable, layout, rank):
    """All times of this rank's rows, [time, 1, rows, columns], as float32, and the latitudes of all rows."""
    extents = file.extents(variable)
    lower, upper = layout.owned(rank)
    field = np.zeros((extents[0], 1, *(upper - lower)), np.float32)
    between = len(extents) - 3
    file.read(variable, [0] * (1 + between) + list(lower), [extents[0]] + [1] * between + list(upper), field[:, 0],
              axes=[0, len(extents) - 2, len(extents) - 1])
    return torch.from_numpy(field), file.coordinate(file.dimension(variable, len(extents) - 2), extents[-2])


def normalised(field, domain, row_weights):
    """The field with mean 0 and variance 1 over the globe and all times."""
    weights = graticule.nn.GlobalMean(domain, row_weights=row_weights)
    mean = weights(field.double()).mean()
    spread = (weights((field.double() - mean) ** 2).mean()).sqrt()
    return ((field - mean) / spread).float()


def save_picture(path, variable, forecast, truth, latitudes):
    """The three maps side by side, north up; forecast and truth with one color scale, the error with its own."""
    try:
        import matplotlib
    except ImportError:
        print("no picture: matplotlib is not installed")
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    figure, panels = plt.subplots(1, 3, figsize=(15, 3.2), constrained_layout=True, sharey=True)
    limit, worst = max(forecast.abs().max().item(), truth.abs().max().item()), (forecast - truth).abs().max().item()
    edges = [0, 360, latitudes[-1], latitudes[0]]
    if edges[2] > edges[3]:
        edges[2:], forecast, truth = edges[:1:-1], forecast.flip(0), truth.flip(0)
    for panel, title, values, top in ((panels[0], "forecast", forecast, limit), (panels[1], "truth", truth, limit),
                                      (panels[2], "forecast minus truth", forecast - truth, worst)):
        image = panel.imshow(values, cmap="RdBu_r", vmin=-top, vmax=top, aspect="auto", extent=edges, interpolation="nearest")
        panel.set_title(f"{variable}: {title}")
        panel.set_xlabel("column (degrees from the first)")
        figure.colorbar(image, ax=panel, label="standard deviations")
    panels[0].set_ylabel("latitude (degrees)")
    figure.savefig(path, dpi=80)
    print(f"wrote {path}")


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--variable", required=True, help="name in the file")
    parser.add_argument("--steps", type=int, default=50, help="of the optimizer")
    parser.add_argument("--width", type=int, default=8, help="channels of the first block")
    parser.add_argument("--rate", type=float, default=3e-3, help="learning rate")
    parser.add_argument("--picture", help="PNG of a forecast")
    parser.add_argument("--checkpoints", help="folder where the model is saved at the end")
    return parser.parse_args()


def main():
    given, world = options(), MPI.COMM_WORLD
    torch.manual_seed(1)
    domain = graticule.Domain(world, latitude="pole_face")
    comm = engine.Comm.create(world)
    with engine.File.open(comm, given.file) as file:
        extents = file.extents(given.variable)
        if len(extents) < 3 or extents[0] < 2:
            raise SystemExit(f"{given.variable} has extents {list(extents)}: needs (time, ..., latitude, longitude), 2 times or more")
        layout = engine.Layout.create(extents[-2:], [world.size, 1])
        fields, latitudes = read(file, given.variable, layout, world.rank)
    weights = engine.area_weights(latitudes)
    fields = normalised(fields, domain, weights)

    net = UNet(1, given.width)
    report = graticule.shard(net, domain, padding="domain")
    if world.rank == 0:
        print(report.text(), end="")
    loss_of = graticule.nn.MSELoss(domain, row_weights=weights)
    sync = graticule.GradientSync(net, [(world, "sum")])
    optimizer = torch.optim.Adam(net.parameters(), given.rate)
    num_pairs = len(fields) - 1
    for step in range(given.steps):
        i = step % num_pairs
        optimizer.zero_grad()
        loss = loss_of(net(fields[i:i + 1]), fields[i + 1:i + 2])
        loss.backward()
        sync.reduce()
        optimizer.step()
        if world.rank == 0 and (step % 10 == 0 or step == given.steps - 1):
            print(f"step {step:4d}  loss {loss.item():.6f}", flush=True)

    with torch.no_grad():
        forecast = graticule.whole_field(net(fields[:1]), domain)[0, 0]
        truth = graticule.whole_field(fields[1:2], domain)[0, 0]
    if given.checkpoints:
        graticule.save_model(given.checkpoints, given.steps, net, world)
    if given.picture and world.rank == 0:
        save_picture(given.picture, given.variable, forecast, truth, latitudes)


if __name__ == "__main__":
    main()
