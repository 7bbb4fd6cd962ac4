# SPDX-License-Identifier: BSD-3-Clause
"""The network of the closure examples: x[1, 3, 24, 48] -> y[1, 1, 24, 48], tracer and wind in, source of the tracer out.

    scripts/export.py apps/examples/python/closure_net.py:closure net.pt2 --input 1x3x24x48
"""
import torch
from torch import nn


def closure():
    torch.manual_seed(1)
    return nn.Sequential(
        nn.CircularPad2d((1, 1, 0, 0)),  # around the globe; the rows beyond the poles are 0
        nn.Conv2d(3, 8, 3, padding=(1, 0)),
        nn.Tanh(),
        nn.Conv2d(8, 1, 1))
