#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Exports networks of the kinds whose scaling others have published, for forecasts of steps; no cell is computed.

    published_networks.py FOLDER [mixer|windows|tiles ...]

writes FOLDER/NAME.pt2, untrained, for one sample of 720 x 1440 cells (tiles: 5,760 x 11,520) in f32:
- mixer: two layers that mix patches of 8 x 8 cells, then 512 channels, by two matrices each, as WeatherMixer of Jigsaw;
- windows: two layers of attention in windows of 60 x 60 cells, the second shifted, each cell a token, as AERIS;
- tiles: a U-Net of 256 channels, whose ranks have tiles with halos, as ORBIT-2.

Their sizes are assumptions (docs/scale.md). The forecast, with one of the files in scripts/bench/machines:
    graticule-info FOLDER/windows.pt2 --ranks 12,36,144 --machine scripts/bench/machines/aurora.json
"""

import argparse
from pathlib import Path

import torch
from exported_networks import UNet, WindowTransformer
from torch import nn


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


NETWORKS = {
    "mixer": (lambda: Mixer((720, 1440)), (1, 69, 720, 1440)),
    "windows": (lambda: WindowTransformer(70, 1536, layers=2, heads=12, window=(60, 60)), (1, 70, 720, 1440)),
    "tiles": (lambda: UNet(channels=16, width=256), (1, 16, 5760, 11520)),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(NETWORKS))
    options = parser.parse_args()
    unknown = set(options.names) - set(NETWORKS)
    if unknown:
        parser.error(f"there is no network {sorted(unknown)[0]}; there are {', '.join(NETWORKS)}")
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.names or NETWORKS:
        make, shape = NETWORKS[name]
        with torch.no_grad():
            program = torch.export.export(make(), (torch.empty(shape),))
        # Not saved with the network.
        program._example_inputs = None
        torch.export.save(program, options.folder / f"{name}.pt2")


if __name__ == "__main__":
    main()
