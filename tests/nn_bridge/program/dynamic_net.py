# SPDX-License-Identifier: BSD-3-Clause
# A small network for any grid: strides, batch norm, in-place operators, resizing, tables made from sizes.
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(3, 4, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.out = nn.Conv2d(4, 2, 1)

    def forward(self, x):
        rows, columns = x.shape[-2:]
        y = F.relu(self.norm(self.down(x)), inplace=True)
        y = F.interpolate(self.out(y), size=(rows, columns), mode="bilinear")
        y = y + torch.arange(columns, dtype=y.dtype) / (columns - 1) + torch.zeros(rows, columns)
        return torch.roll(y, shifts=columns // 2, dims=-1)


def make():
    torch.manual_seed(1)
    return Net()


def make_dropping():
    return nn.Sequential(nn.Conv2d(3, 2, 1), nn.Dropout(0.5))


class Fixed(nn.Module):
    """Of a fixed number of rows, and any number of columns; with an operator of two results."""

    def __init__(self):
        super().__init__()
        self.rows = nn.Parameter(torch.ones(16, 1))

    def forward(self, x):
        left, right = (x * self.rows).split([1, 2], dim=1)
        return left + right


def make_fixed():
    return Fixed()


class Mixed(nn.Module):
    """Inputs and outputs of many kinds, and a buffer whose cells share memory."""

    def __init__(self):
        super().__init__()
        self.hours = nn.Embedding(24, 3)
        self.out = nn.Conv2d(3, 2, 3, padding=1)
        self.register_buffer("rows", torch.linspace(0, 1, 8).view(8, 1).expand(8, 6))

    def forward(self, x, hour, land, phases):
        y = self.out(x + self.hours(hour)[:, None, None] + self.rows) * phases.abs().sum()
        y = torch.where(land, y, 0.0)
        return {"a": y, "b": [land, None], "c": (y.argmax(2), x.shape[2]), "d": phases * 2, "e": y[:, :, 3:3], "f": y / land}


def make_mixed():
    torch.manual_seed(1)
    return Mixed()
