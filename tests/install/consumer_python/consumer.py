# SPDX-License-Identifier: BSD-3-Clause
"""A program with the installed package: a halo of an array, and a convolution on shards, against one process."""
import copy
import pathlib
import sys

import numpy as np
import torch
from mpi4py import MPI

import graticule
from graticule import engine

assert pathlib.Path(graticule.__file__).resolve().parent == pathlib.Path(sys.argv[1]).resolve(), graticule.__file__
torch.set_num_threads(1)
comm = MPI.COMM_WORLD
ranks = engine.Comm.create(comm)
layout = engine.Layout.create([7, 4], [comm.size, 1])
halo = engine.Halo.create(ranks, layout, engine.halo_kind_uniform(2, engine.Edge.PERIODIC, 1))
globe = np.arange(28.0).reshape(7, 4)
(lower, _), (upper, _) = halo.owned()
field = np.full((upper - lower + 2, 6), np.nan)
field[1:-1, 1:-1] = globe[lower:upper]
halo.exchange(field)
wrong = not np.array_equal(field, np.pad(globe, 1, mode="wrap")[lower:upper + 2])

torch.manual_seed(1)
serial = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3, padding=1), torch.nn.ReLU()).double()
model, domain = copy.deepcopy(serial), graticule.Domain(comm)
graticule.shard(model, domain)
whole = torch.from_numpy(globe)[None, None]
found = graticule.whole_field(model(graticule.shard_of(whole, domain)), domain)
wrong = wrong or not torch.allclose(found, serial(whole), rtol=1e-12, atol=1e-12)
if comm.allreduce(int(wrong)) == 0 and comm.rank == 0:
    print(f"python: {comm.size} ranks agree", flush=True)
