#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains a spherical Fourier neural operator of torch-harmonics: its transforms are products that stay cut. Needs torch-harmonics.

  mpirun -n 2 python3 train_sfno.py
"""
import torch
import graticule  # before mpi4py
from mpi4py import MPI
from torch_harmonics.examples.models.sfno import SphericalFourierNeuralOperator
from steps import field, train

domain = graticule.Domain(MPI.COMM_WORLD)
torch.manual_seed(0)
model = SphericalFourierNeuralOperator(img_size=(32, 64), in_chans=2, out_chans=2, embed_dim=8, num_layers=2, scale_factor=2)
net = graticule.shard_program(model, domain)
x, target = field(domain, 1, 2, 32, 64), field(domain, 1, 2, 32, 64, seed=2)
loss = graticule.nn.MSELoss(domain)
train(net, domain, lambda: loss(net(x), target))
