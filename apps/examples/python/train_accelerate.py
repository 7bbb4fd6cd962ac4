#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains a network on shards by the loop of Accelerate, with accumulated gradients. Needs accelerate.

  mpirun -n 2 python3 train_accelerate.py
"""
import torch
from accelerate import Accelerator
from mpi4py import MPI
from torch import nn

import graticule

domain = graticule.Domain(MPI.COMM_WORLD)
graticule.init_process_group(MPI.COMM_WORLD)                    # Accelerate finds its ranks here
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(2, 8, 3, padding=1), nn.GELU(), nn.Conv2d(8, 2, 3, padding=1))
net = graticule.shard_program(model, domain)                    # not prepared: its ranks share each sample
sync = graticule.GradientSync(model, [(MPI.COMM_WORLD, "sum")])
optimizer = torch.optim.AdamW(model.parameters(), 0.01)
optimizer, schedule = accelerator.prepare(optimizer, torch.optim.lr_scheduler.ConstantLR(optimizer))
loss_of = graticule.nn.MSELoss(domain)
x = torch.randn(1, 2, 19, 36)
x, target = graticule.shard_of(x, domain), graticule.shard_of(x.roll(1, -1).sin(), domain)
for step in range(8):
    with accelerator.accumulate(model):
        loss = loss_of(net(x), target)
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            sync.reduce()
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    accelerator.print(f"step {step} loss {loss.item():.6f}")
torch.distributed.destroy_process_group()
