# SPDX-License-Identifier: BSD-3-Clause
"""For mypy alone, with --strict: what callers write is accepted, and what is wrong is refused. An unused `type: ignore` is an error."""
import numpy as np
import torch

import graticule
from graticule import engine, nn


def network(domain: graticule.Domain) -> torch.nn.Module:
    return torch.nn.Sequential(
        nn.Conv2d(2, 8, 3, padding=1, domain=domain, padding_by="domain", odd_channels=[0]),
        nn.GroupNorm(2, 8, domain=domain),
        nn.MaxPool2d((2, 2), ceil_mode=True, domain=domain),
        nn.Resize(domain, scale_factor=2, mode="bilinear"),
        nn.Dropout(0.1, domain=domain, seed=3))


def wrong_layers(domain: graticule.Domain) -> None:
    nn.Conv2d(2, 8, 3)  # type: ignore[call-arg]
    nn.Conv2d(2, "8", 3, domain=domain)  # type: ignore[arg-type]
    nn.Conv2d(2, 8, 3, domain=domain, padding_by="pole")  # type: ignore[arg-type]
    nn.GroupNorm(2, 8, domain=domain, padding_by="domain")  # type: ignore[call-arg]
    nn.Conv4d(2, 8, 3, domain=domain)  # type: ignore[attr-defined]
    nn.HaloExchange(domain, latitude=1)  # type: ignore[arg-type]
    graticule.Domain(grid="721x1440")  # type: ignore[arg-type]


def sharded(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    domain = graticule.Domain(None, (2, 1))
    report: graticule.ShardReport = graticule.shard(model, domain)
    print(report)
    mine: torch.Tensor = graticule.shard_of(x, domain)
    whole: torch.Tensor = graticule.whole_field(mine, domain)
    return whole


def halos(u: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]", mpi: object) -> None:
    comm = engine.Comm.create(mpi)
    layout = engine.Layout.create([721, 1440], [comm.size(), 1])
    weighted = engine.Cuts.create_weighted([1.0, 2.0, 1.0], 2)
    engine.Layout.create_cuts([weighted, weighted])
    sums = engine.Zonal.create(comm, layout, 1, scale=engine.Scale.MEAN)
    sums.apply(u, u)
    engine.Zonal.create(comm, layout, 1, scale="mean")  # type: ignore[arg-type]
    engine.Layout.create(721, 1440)  # type: ignore[arg-type]
    layout.rank_of_the_cell(3)  # type: ignore[attr-defined]
