# SPDX-License-Identifier: BSD-3-Clause
"""The Python of README.md: one step of training on shards has the loss, the outputs and the gradients of one process."""
import copy

import torch

torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Conv2d(2, 8, 3, padding=1), torch.nn.GELU(), torch.nn.Conv2d(8, 2, 3, padding=1)).double()
fields, truth = torch.randn(3, 2, 13, 16).double(), torch.randn(3, 2, 13, 16).double()
serial = copy.deepcopy(model)
predicted = serial(fields)
torch.nn.functional.mse_loss(predicted, truth).backward()

import graticule                                          # before mpi4py
from mpi4py import MPI

domain = graticule.Domain(MPI.COMM_WORLD)                 # bands of latitude, one per rank
net = graticule.shard_program(model, domain)              # the same parameters, any model of torch.export
sync = graticule.GradientSync(model, [(MPI.COMM_WORLD, "sum")])
x, y = graticule.shard_of(fields, domain), graticule.shard_of(truth, domain)   # this rank's rows
loss = graticule.nn.MSELoss(domain)(net(x), y)            # mean over all cells of the globe; row_weights= for areas
loss.backward()
sync.reduce()                                             # gradients as on one process

def close(found, expected, what):
    difference = (found - expected).abs().max().item()
    assert difference <= 1e-12 * max(1, expected.abs().max().item()), f"{what}: {difference}"

close(loss.detach(), torch.nn.functional.mse_loss(predicted, truth).detach(), "loss")
close(graticule.whole_field(net(x).detach(), domain), predicted.detach(), "outputs")
for (name, found), expected in zip(model.named_parameters(), serial.parameters()):
    close(found.grad, expected.grad, name)
