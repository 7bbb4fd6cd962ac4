#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains a Fourier neural operator: Fourier transforms over both axes of a field that is cut. Needs neuraloperator.

  mpirun -n 2 python3 train_fno.py
"""
import torch
import graticule  # before mpi4py
from mpi4py import MPI
from neuralop.models import FNO
from steps import field, train

domain = graticule.Domain(MPI.COMM_WORLD)
torch.manual_seed(0)
net = graticule.shard_program(FNO(n_modes=(8, 8), in_channels=2, out_channels=2, hidden_channels=8, n_layers=2), domain)
x, target = field(domain, 1, 2, 32, 64), field(domain, 1, 2, 32, 64, seed=2)
loss = graticule.nn.MSELoss(domain)
train(net, domain, lambda: loss(net(x), target))
