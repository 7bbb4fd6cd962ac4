# SPDX-License-Identifier: BSD-3-Clause
"""A program whose last rank calls sys.exit(5) while a file is open, or in a call of a sharded model or its backward, or whose plans live
longer than MPI: ends.py OPERATION FOLDER."""
import sys

import numpy as np
from mpi4py import MPI

import graticule
from graticule import engine as e

operation, folder = sys.argv[1:]
comm = e.Comm.create(MPI.COMM_WORLD)
rank, num_ranks = comm.rank(), comm.size()
if operation.startswith("writer"):
    writer = e.Writer.create(comm, f"{folder}/w.nc")
    writer.add_dimension("y", 4 * num_ranks)
    writer.add_dimension("x", 8)
    writer.add_variable("q", "y x", e.Type.F64)
    if rank == num_ranks - 1:
        sys.exit(5)
    try:
        writer.write("q", [4 * rank, 0], [4 * rank + 4, 8], np.ones((4, 8)))
    except graticule.Error as error:
        if operation == "writer":
            raise
        print(error)
elif operation in ("model", "backward"):
    import torch

    def leave(x):
        if rank == num_ranks - 1:
            sys.exit(5)
        return x

    class Model(torch.nn.Module):
        def forward(self, x):
            x = leave(x) if operation == "model" else x
            return torch.roll(x, 1, -2)

    domain, net = graticule.Domain(MPI.COMM_WORLD), Model()
    graticule.shard(net, domain)
    loss = graticule.reduce_loss(net(torch.ones(1, 1, 4, 8, requires_grad=True)).sum(), domain)
    loss.register_hook(leave)
    loss.backward()
else:
    halo = e.Halo.create(comm, e.Layout.create([4 * num_ranks, 8], [num_ranks, 1]), e.halo_kind_uniform(2, e.Edge.PERIODIC, 1))
    cells = np.ones((6, 10))
    halo.exchange(cells)
    pending = halo.start(cells)
    MPI.Finalize()
    try:
        halo.exchange(cells)
        sys.exit(1)
    except graticule.Error as error:
        if "MPI has ended" not in str(error):
            raise
