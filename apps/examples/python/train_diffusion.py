#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains the U-Net of diffusers to remove noise: the time of the diffusion is whole on every rank. Needs diffusers.

  mpirun -n 2 python3 train_diffusion.py
"""
import torch
import graticule  # before mpi4py
from mpi4py import MPI
from diffusers import UNet2DModel
from steps import field, train

domain = graticule.Domain(MPI.COMM_WORLD)
torch.manual_seed(0)
model = UNet2DModel(sample_size=(32, 64), in_channels=2, out_channels=2, block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4, attention_head_dim=8,
                    down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"))
net = graticule.shard_program(model, domain, whole=["timestep"])
clean, noise, time = field(domain, 1, 2, 32, 64), field(domain, 1, 2, 32, 64, seed=2), torch.tensor([200])
loss = graticule.nn.MSELoss(domain)
train(net, domain, lambda: loss(net(clean + noise, time, return_dict=False)[0], noise))
