#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains Aurora on shards, with its loss: each rank has its own rows of every variable. Needs microsoft-aurora.

  mpirun -n 2 python3 train_aurora.py
"""
import datetime
from unittest import mock

import torch
from aurora import Aurora, Batch, Metadata
from aurora.model import decoder, encoder, fourier
import graticule  # before mpi4py
from mpi4py import MPI
from torch import nn
from steps import field, train


class OnTensors(nn.Module):
    """Aurora on dictionaries of tensors. It decides by the values of its grid, so what follows from the grid is computed once and not captured."""

    def __init__(self, net, lat, lon, levels):
        super().__init__()
        for expansion in (fourier.pos_expansion, fourier.scale_expansion, fourier.levels_expansion, fourier.lead_time_expansion, fourier.absolute_time_expansion):
            expansion.assert_range = False
        self.net, self.metadata = net, Metadata(lat=lat, lon=lon, time=(datetime.datetime(2023, 1, 1, 12),), atmos_levels=levels)
        self.places = encoder.pos_scale_enc(net.encoder.embed_dim, lat, lon, net.patch_size, fourier.pos_expansion, fourier.scale_expansion)

    def forward(self, surface, static, upper):
        with mock.patch.object(encoder, "pos_scale_enc", lambda *_, **__: self.places), mock.patch.object(Metadata, "__post_init__", lambda _: None), \
                mock.patch.object(decoder, "float", lambda hours: 0.0, create=True):  # times of the result, which is not returned
            y = self.net(Batch(surface, static, upper, self.metadata))
        return y.surf_vars, y.atmos_vars


ROWS, COLUMNS, LEVELS = 32, 64, (500, 850)
SCALES = {"2t": 280.0, "10u": 5.0, "10v": 5.0, "msl": 1e5, "z": 5e4, "u": 10.0, "v": 10.0, "t": 260.0, "q": 1e-3}
domain = graticule.Domain(MPI.COMM_WORLD)
torch.manual_seed(0)
aurora = Aurora(embed_dim=32, num_heads=4, encoder_depths=(2, 2), encoder_num_heads=(2, 4), decoder_depths=(2, 2), decoder_num_heads=(4, 2), patch_size=4,
                window_size=(2, 4, 4), use_lora=False, latent_levels=4, enc_depth=1, dec_depth=1, autocast=False, drop_rate=0.0, drop_path=0.0)
model = OnTensors(aurora, torch.linspace(90, -84.375, ROWS), torch.linspace(0, 360, COLUMNS + 1)[:-1], LEVELS)
net = graticule.shard_program(model, domain)


def variables(names, *shape, seed):
    return {name: SCALES.get(name, 1.0) * field(domain, *shape, ROWS, COLUMNS, seed=seed + i) for i, name in enumerate(names)}


surface, upper = ("2t", "10u", "10v", "msl"), ("z", "u", "v", "t", "q")
inputs = variables(surface, 1, 2, seed=1), variables(("lsm", "z", "slt"), seed=20), variables(upper, 1, 2, len(LEVELS), seed=5)
targets = variables(surface, 1, 1, seed=11), variables(upper, 1, 1, len(LEVELS), seed=15)
error = graticule.nn.L1Loss(domain)


def loss():
    """The mean absolute error, each variable by its scale, a quarter of it at the surface, as Aurora was trained."""
    found = net(*inputs)
    means = [sum(error(one[name] / SCALES[name], wanted[name] / SCALES[name]) for name in wanted) / len(wanted) for one, wanted in zip(found, targets)]
    return 0.25 * means[0] + means[1]


train(net, domain, loss)
