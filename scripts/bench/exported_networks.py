#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Exports three networks for graticule-bench program, each for the whole grid and for the share of one rank.

    scripts/bench/exported_networks.py FOLDER [--grid 721x1440] [--ranks 2]
    scripts/bench/exported_networks.py FOLDER --published

writes FOLDER/{unet,window,spherical}.pt2, and as *_share.pt2 the same networks for the rows of the fullest rank (whole windows):

- unet: convolutions with circular columns, GroupNorm, three grids, transposed convolutions, skips;
- window: attention in windows of 7 x 10 cells, every second layer shifted by half a window;
- spherical: FFT over longitude, a transform over latitude as einsum, weights per degree, and back.

    mpiexec -n 2 graticule-bench program FOLDER/window.pt2 --share FOLDER/window_share.pt2

--published exports untrained networks of the kinds whose scaling others have published, for forecasts of steps (docs/scale.md):

- mixer: two layers that mix patches of 8 x 8 cells, then 512 channels, by two matrices each, as WeatherMixer of Jigsaw; 720 x 1440 cells;
- windows: two layers of attention in windows of 60 x 60 cells, the second shifted, each cell a token, as AERIS; 720 x 1440 cells;
- tiles: a U-Net of 256 channels, whose ranks have tiles with halos, as ORBIT-2; 5,760 x 11,520 cells.

    graticule-info FOLDER/windows.pt2 --ranks 12,36,144 --machine scripts/bench/machines/aurora.json
"""
import argparse
import os
import sys

import torch
from torch import nn


class Conv(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3)
        self.norm = nn.GroupNorm(4, outputs)

    def forward(self, x):
        x = nn.functional.pad(x, (1, 1, 0, 0), mode="circular")
        x = nn.functional.pad(x, (0, 0, 1, 1))
        return nn.functional.gelu(self.norm(self.conv(x)))


class UNet(nn.Module):
    def __init__(self, channels=4, width=16):
        super().__init__()
        self.first = Conv(channels, width)
        self.second = Conv(width, 2 * width)
        self.third = Conv(2 * width, 4 * width)
        self.up_two = nn.ConvTranspose2d(4 * width, 2 * width, 2, stride=2)
        self.up_one = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.after_two = Conv(4 * width, 2 * width)
        self.after_one = Conv(2 * width, width)
        self.last = nn.Conv2d(width, channels, 1)

    @staticmethod
    def joined(fine, coarse):
        coarse = nn.functional.pad(coarse, (0, fine.shape[3] - coarse.shape[3], 0, fine.shape[2] - coarse.shape[2]))
        return torch.cat([fine, coarse], 1)

    def forward(self, x):
        one = self.first(x)
        two = self.second(nn.functional.max_pool2d(one, 2))
        three = self.third(nn.functional.max_pool2d(two, 2))
        two = self.after_two(self.joined(two, self.up_two(three)))
        return self.last(self.after_one(self.joined(one, self.up_one(two))))


class WindowLayer(nn.Module):
    def __init__(self, width, heads, window, shift):
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.norm_one = nn.LayerNorm(width)
        self.norm_two = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def attention(self, x):
        b, h, w, c = x.shape
        rows, columns = self.window
        x = x.view(b, h // rows, rows, w // columns, columns, c).permute(0, 1, 3, 2, 4, 5)
        x = x.reshape(-1, rows * columns, c)
        q, k, v = self.qkv(x).reshape(x.shape[0], rows * columns, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        x = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(-1, rows * columns, c)
        x = self.project(x).view(b, h // rows, w // columns, rows, columns, c).permute(0, 1, 3, 2, 4, 5)
        return x.reshape(b, h, w, c)

    def forward(self, x):
        y = self.norm_one(x)
        if self.shift:
            y = torch.roll(y, (-(self.window[0] // 2), -(self.window[1] // 2)), (1, 2))
        y = self.attention(y)
        if self.shift:
            y = torch.roll(y, (self.window[0] // 2, self.window[1] // 2), (1, 2))
        x = x + y
        return x + self.mlp(self.norm_two(x))


class WindowTransformer(nn.Module):
    def __init__(self, channels=4, width=16, layers=2, heads=2, window=(7, 10)):
        super().__init__()
        self.embed = nn.Conv2d(channels, width, 1)
        self.layers = nn.ModuleList(WindowLayer(width, heads, window, shift=number % 2 == 1) for number in range(layers))
        self.last = nn.Conv2d(width, channels, 1)

    def forward(self, x):
        x = self.embed(x).permute(0, 2, 3, 1)
        for layer in self.layers:
            x = layer(x)
        return self.last(x.permute(0, 3, 1, 2))


class SphericalLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width, dtype=torch.complex64) / width)
        self.skip = nn.Conv2d(width, width, 1)

    def forward(self, x, forward_table, inverse_table):
        modes = inverse_table.shape[1]
        spectrum = torch.fft.rfft(x, dim=-1, norm="forward")[..., :modes]
        spectrum = torch.einsum("bchm,lmh->bclm", spectrum, forward_table.to(spectrum.dtype))
        spectrum = torch.einsum("bclm,cd->bdlm", spectrum, self.weight)
        spectrum = torch.einsum("bclm,lmh->bchm", spectrum, inverse_table.to(spectrum.dtype))
        return nn.functional.gelu(torch.fft.irfft(spectrum, n=x.shape[-1], dim=-1, norm="forward") + self.skip(x))


class Spherical(nn.Module):
    """In place of Legendre functions [degree, order, latitude] random numbers, which cost as much."""

    def __init__(self, rows, all_rows, channels=4, width=16, layers=2, degrees=180):
        super().__init__()
        table = torch.randn(degrees, degrees, all_rows, generator=torch.Generator().manual_seed(2))[..., :rows]
        self.register_buffer("inverse_table", table / degrees**0.5)
        self.register_buffer("forward_table", table / all_rows**0.5)
        self.embed = nn.Conv2d(channels, width, 1)
        self.layers = nn.ModuleList(SphericalLayer(width) for _ in range(layers))
        self.last = nn.Conv2d(width, channels, 1)

    def forward(self, x):
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x, self.forward_table, self.inverse_table)
        return self.last(x)


class Mixed(nn.Module):
    """Two matrices and a GELU along the last axis."""

    def __init__(self, width, hidden):
        super().__init__()
        self.inner = nn.Linear(width, hidden)
        self.outer = nn.Linear(hidden, width)

    def forward(self, x):
        return self.outer(nn.functional.gelu(self.inner(x)))


class MixerLayer(nn.Module):
    def __init__(self, num_patches, hidden, width):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.patches = Mixed(num_patches, hidden)
        self.channels = Mixed(width, width)

    def forward(self, x):
        tokens = self.norms[0](x).flatten(1, 2).transpose(1, 2)
        x = x + self.patches(tokens).transpose(1, 2).reshape(x.shape)
        return x + self.channels(self.norms[1](x))


class Mixer(nn.Module):
    def __init__(self, grid, channels=69, patch=8, width=512, hidden=1024, layers=2):
        super().__init__()
        num_patches = grid[0] // patch * (grid[1] // patch)
        self.embed = nn.Conv2d(channels, width, patch, patch)
        self.layers = nn.ModuleList(MixerLayer(num_patches, hidden, width) for _ in range(layers))
        self.decode = nn.ConvTranspose2d(width, channels, patch, patch)

    def forward(self, x):
        x = self.embed(x).movedim(1, -1)
        for layer in self.layers:
            x = layer(x)
        return self.decode(x.movedim(-1, 1))


def save_published(folder):
    """No cell is computed, and the inputs are not saved."""
    for name, make, shape in (
        ("mixer", lambda: Mixer((720, 1440)), (1, 69, 720, 1440)),
        ("windows", lambda: WindowTransformer(70, 1536, heads=12, window=(60, 60)), (1, 70, 720, 1440)),
        ("tiles", lambda: UNet(channels=16, width=256), (1, 16, 5760, 11520)),
    ):
        with torch.no_grad():
            program = torch.export.export(make(), (torch.empty(shape),))
        program._example_inputs = None
        torch.export.save(program, os.path.join(folder, name + ".pt2"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--grid", default="721x1440")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--published", action="store_true")
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    if options.published:
        return save_published(options.folder)
    rows, columns = (int(extent) for extent in options.grid.split("x"))
    own = -(-rows // options.ranks)
    window = (7, 10)
    if rows % window[0] or columns % window[1]:
        parser.error(f"--grid {options.grid}: windows of {window[0]} x {window[1]} cells do not fill it")
    own_windows = -(-(rows // window[0]) // options.ranks) * window[0]
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    import export
    for name, make, share in (
        ("unet", lambda number: UNet(), own),
        ("window", lambda number: WindowTransformer(window=window), own_windows),
        ("spherical", lambda number: Spherical(number, rows), own),
    ):
        for number, suffix in ((rows, ""), (share, "_share")):
            torch.manual_seed(1)
            path = os.path.join(options.folder, name + suffix + ".pt2")
            export.save(make(number), (torch.zeros(1, 4, number, columns),), path)
            print(path, flush=True)
    return None


if __name__ == "__main__":
    main()
