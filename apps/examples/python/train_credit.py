#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains a WXFormer of CREDIT, padded round the poles and the date line by its own code. Needs miles-credit.

  mpirun -n 2 python3 train_credit.py
"""
import torch
import graticule  # before mpi4py
from mpi4py import MPI
from credit.models.wxformer.crossformer import CrossFormer
from steps import field, train

domain = graticule.Domain(MPI.COMM_WORLD)
torch.manual_seed(0)
model = CrossFormer(image_height=32, image_width=64, frames=1, channels=2, levels=3, surface_channels=2, input_only_channels=1, output_only_channels=0,
                    patch_height=1, patch_width=1, dim=(8, 16, 32, 64), depth=(1, 1, 1, 1), dim_head=8, global_window_size=(4, 4, 2, 1), local_window_size=2,
                    cross_embed_kernel_sizes=((4, 8), (2, 4), (2, 4), (2, 4)), cross_embed_strides=(2, 2, 2, 2),
                    padding_conf={"activate": True, "mode": "earth", "pad_lat": [16, 16], "pad_lon": [16, 16]})
net = graticule.shard_program(model, domain)
x, target = field(domain, 1, 9, 1, 32, 64), field(domain, 1, 8, 1, 32, 64, seed=2)
loss = graticule.nn.MSELoss(domain)
train(net, domain, lambda: loss(net(x), target))
