# SPDX-License-Identifier: BSD-3-Clause
"""Small networks, each of another family, for check_networks.py: NETWORKS[name]() gives a module and its inputs.

None of them knows of shards. Grids have 8 to 14 rows, mostly an odd number of rows or columns.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn

NETWORKS = {}


def network(make):
    NETWORKS[make.__name__] = make
    return make


def field(*shape):
    """Values between -0.5 and 0.5 without symmetries."""
    count = math.prod(shape)
    return (0.5 * torch.sin(0.37 * torch.arange(count, dtype=torch.float64) + 1e-3 * torch.arange(count, dtype=torch.float64) ** 2)).reshape(shape)


class ChannelNorm(nn.Module):
    """LayerNorm over channels of [batch, channels, rows, columns]."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def windows_of(x, rows, columns):
    b, h, w, c = x.shape
    x = x.view(b, h // rows, rows, w // columns, columns, c).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(-1, rows * columns, c)


def from_windows(x, rows, columns, h, w):
    x = x.view(-1, h // rows, w // columns, rows, columns, x.shape[-1]).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(x.shape[0], h, w, -1)


def shift_mask(h, w, rows, columns, shift, periodic_columns=True):
    """Minus 100 between cells of a window that a shift has brought together."""
    numbers = torch.zeros(1, h, w, 1)
    count = 0
    for r in (slice(0, -rows), slice(-rows, -shift[0]), slice(-shift[0], None)):
        for c in (slice(0, None),) if periodic_columns else (slice(0, -columns), slice(-columns, -shift[1]), slice(-shift[1], None)):
            numbers[:, r, c] = count
            count += 1
    cells = windows_of(numbers, rows, columns).squeeze(-1)
    return (cells[:, None, :] != cells[:, :, None]).to(torch.get_default_dtype()) * -100.0


@network
def gated_unet():
    class Gate(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.own, self.up, self.out = nn.Conv2d(width, width, 1), nn.Conv2d(width, width, 1), nn.Conv2d(width, 1, 1)

        def forward(self, x, coarse):
            coarse = F.interpolate(self.up(coarse), size=x.shape[-2:], mode="bilinear", align_corners=False)
            return x * torch.sigmoid(self.out(F.relu(self.own(x) + coarse)))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU())
            self.second = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.SiLU())
            self.gate, self.last = Gate(8), nn.Conv2d(16, 2, 3, padding=1)

        def forward(self, x):
            fine = self.first(x)
            coarse = self.second(F.max_pool2d(fine, 2, ceil_mode=True))
            up = F.interpolate(coarse, size=fine.shape[-2:], mode="nearest")
            return self.last(torch.cat([self.gate(fine, coarse), up], 1))

    return Net(), (field(2, 3, 13, 11),)


@network
def convnext():
    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
            self.norm, self.wide, self.narrow = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.scale, self.gamma, self.beta = (nn.Parameter(torch.randn(n)) for n in (width, 4 * width, 4 * width))

        def forward(self, x):
            y = F.gelu(self.wide(self.norm(self.depthwise(x).permute(0, 2, 3, 1))))
            size = torch.linalg.vector_norm(y, dim=(1, 2), keepdim=True)
            y = y + self.gamma * (y * size / (size.mean(-1, keepdim=True) + 1e-6)) + self.beta
            return x + (self.scale * self.narrow(y)).permute(0, 3, 1, 2)

    return nn.Sequential(nn.Conv2d(2, 6, 2, stride=2), ChannelNorm(6), Block(6), Block(6), nn.ConvTranspose2d(6, 2, 2, stride=2)), (field(1, 2, 14, 10),)


@network
def afno():
    class Mixer(nn.Module):
        def __init__(self, width, blocks):
            super().__init__()
            size = width // blocks
            self.blocks = blocks
            self.one, self.two = (nn.Parameter(0.3 * torch.randn(2, blocks, size, size)) for _ in range(2))
            self.bias = nn.Parameter(0.1 * torch.randn(2, blocks, size))

        def forward(self, x):
            b, h, w, c = x.shape
            z = torch.fft.rfft2(x, dim=(1, 2), norm="ortho").reshape(b, h, w // 2 + 1, self.blocks, c // self.blocks)

            def product(real, imaginary, weight):
                one, two = "...bi,bio->...bo", weight
                return (torch.einsum(one, real, two[0]) - torch.einsum(one, imaginary, two[1]),
                        torch.einsum(one, imaginary, two[0]) + torch.einsum(one, real, two[1]))

            real, imaginary = product(z.real, z.imag, self.one)
            real, imaginary = product(F.relu(real + self.bias[0]), F.relu(imaginary + self.bias[1]), self.two)
            z = torch.view_as_complex(F.softshrink(torch.stack([real, imaginary], -1), lambd=0.01))
            return torch.fft.irfft2(z.reshape(b, h, w // 2 + 1, c), s=(h, w), dim=(1, 2), norm="ortho") + x

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.norm, self.mixer, self.head = nn.Conv2d(2, 8, 2, stride=2), nn.LayerNorm(8), Mixer(8, 2), nn.Linear(8, 8)
            self.place = nn.Parameter(0.02 * torch.randn(1, 7, 5, 8))

        def forward(self, x):
            y = self.embed(x).permute(0, 2, 3, 1) + self.place
            y = self.head(y + self.mixer(self.norm(y)))
            b, h, w, c = y.shape
            return y.reshape(b, h, w, 2, 2, 2).permute(0, 5, 1, 3, 2, 4).reshape(b, 2, 2 * h, 2 * w)

    return Net(), (field(2, 2, 14, 10),)


class WindowBlock(nn.Module):
    """Attention in windows; `cosine` of Swin V2 with a continuous bias by distances, else a table of biases."""

    def __init__(self, width, heads, grid, window, shift, cosine=False):
        super().__init__()
        self.heads, self.window, self.shift, self.cosine = heads, window, shift, cosine
        self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        rows, columns = window
        places = torch.stack(torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")).flatten(1)
        distance = (places[:, :, None] - places[:, None, :]).permute(1, 2, 0)
        if cosine:
            self.register_buffer("distance", torch.sign(distance) * torch.log2(1.0 + distance.abs()))
            self.bias = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, heads, bias=False))
            self.scale = nn.Parameter(torch.full((heads, 1, 1), math.log(10.0)))
        else:
            self.register_buffer("index", (distance[..., 0] + rows - 1) * (2 * columns - 1) + distance[..., 1] + columns - 1)
            self.table = nn.Parameter(0.1 * torch.randn((2 * rows - 1) * (2 * columns - 1), heads))
        if any(shift):
            self.register_buffer("mask", shift_mask(*grid, rows, columns, shift))

    def attention(self, x):
        b, h, w, c = x.shape
        x = windows_of(x, *self.window)
        n = x.shape[1]
        q, k, v = self.qkv(x).reshape(-1, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        if self.cosine:
            scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1) * torch.clamp(self.scale, max=math.log(100.0)).exp()
            scores = scores + 16 * torch.sigmoid(self.bias(self.distance).permute(2, 0, 1))
        else:
            scores = q @ k.transpose(-2, -1) / math.sqrt(c // self.heads)
            scores = scores + self.table[self.index.view(-1)].view(n, n, self.heads).permute(2, 0, 1)
        if any(self.shift):
            many = self.mask.shape[0]
            scores = (scores.view(b, many, self.heads, n, n) + self.mask[None, :, None]).view(-1, self.heads, n, n)
        x = self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(-1, n, c))
        return from_windows(x, *self.window, h, w)

    def forward(self, x):
        y = x if self.cosine else self.one(x)
        y = torch.roll(y, (-self.shift[0], -self.shift[1]), (1, 2)) if any(self.shift) else y
        y = self.attention(y)
        y = torch.roll(y, self.shift, (1, 2)) if any(self.shift) else y
        x = x + (self.one(y) if self.cosine else y)
        return x + (self.two(self.mlp(x)) if self.cosine else self.mlp(self.two(x)))


class PatchMerging(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.reduce = nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x):
        x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)
        return self.reduce(self.norm(x))


@network
def fuxi():
    """A cube of two times, windows with shifts, and the next state."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Conv3d(2, 8, (2, 2, 2), stride=(2, 2, 2))
            self.blocks = nn.Sequential(WindowBlock(8, 2, (6, 8), (3, 4), (0, 0), True), WindowBlock(8, 2, (6, 8), (3, 4), (1, 2), True))
            self.head = nn.Linear(8, 8)

        def forward(self, x):
            y = self.embed(x).squeeze(2).permute(0, 2, 3, 1)
            y = self.head(self.blocks(y))
            b, h, w, _ = y.shape
            y = y.reshape(b, h, w, 2, 2, 2).permute(0, 1, 3, 2, 4, 5).reshape(b, 2 * h, 2 * w, 2).permute(0, 3, 1, 2)
            return F.interpolate(y, size=(13, 16), mode="bilinear", align_corners=False)

    return Net(), (field(1, 2, 2, 12, 16),)


@network
def pangu():
    """Windows over levels, rows and columns with a bias of their own for each band of rows; down and up."""
    class Block(nn.Module):
        def __init__(self, width, grid, window, shifted):
            super().__init__()
            self.grid, self.window, self.shifted = grid, window, shifted
            self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.table = nn.Parameter(0.1 * torch.randn(grid[0] // window[0] * (grid[1] // window[1]), 2, math.prod(window), math.prod(window)))

        def forward(self, x):
            z, h, w = self.grid
            a, r, k = self.window
            y = self.norm(x).view(-1, z, h, w, x.shape[-1])
            if self.shifted:
                y = torch.roll(y, (-(a // 2), -(r // 2), -(k // 2)), (1, 2, 3))
            c = y.shape[-1]
            y = y.view(-1, z // a, a, h // r, r, w // k, k, c).permute(0, 5, 1, 3, 2, 4, 6, 7).reshape(-1, w // k, z // a * (h // r), a * r * k, c)
            q, key, v = self.qkv(y).view(*y.shape[:-1], 3, 2, c // 2).permute(4, 0, 1, 2, 5, 3, 6).unbind(0)
            y = ((q @ key.transpose(-2, -1) * (c // 2) ** -0.5 + self.table).softmax(-1) @ v).transpose(-3, -2).reshape(y.shape)
            y = self.out(y).view(-1, w // k, z // a, h // r, a, r, k, c).permute(0, 2, 4, 3, 5, 1, 6, 7).reshape(-1, z, h, w, c)
            if self.shifted:
                y = torch.roll(y, (a // 2, r // 2, k // 2), (1, 2, 3))
            return x + y.reshape(x.shape)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.upper, self.surface = nn.Conv3d(2, 8, (2, 2, 2), stride=(2, 2, 2)), nn.Conv2d(3, 8, 2, stride=2)
            self.one, self.two = Block(8, (2, 6, 6), (2, 3, 2), False), Block(8, (2, 6, 6), (2, 3, 2), True)
            self.back, self.low = nn.ConvTranspose3d(8, 2, (2, 2, 2), stride=(2, 2, 2)), nn.ConvTranspose2d(8, 3, 2, stride=2)

        def forward(self, upper, surface):
            upper = self.upper(F.pad(upper, (0, 0, 0, 1)))
            surface = self.surface(F.pad(surface, (0, 0, 0, 1)))
            x = torch.cat([surface[:, :, None], upper], 2).flatten(2).transpose(1, 2)
            x = self.two(self.one(x)).transpose(1, 2).view(-1, 8, 2, 6, 6)
            return self.back(x[:, :, 1:])[:, :, :, :11], self.low(x[:, :, 0])[:, :, :11]

    return Net(), (field(1, 2, 2, 11, 12), field(1, 3, 11, 12))


@network
def vit():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches, self.token = nn.Conv2d(2, 8, (3, 2), stride=(3, 2)), nn.Parameter(torch.randn(1, 1, 8))
            self.place = nn.Parameter(0.1 * torch.randn(1, 21, 8))
            self.layers = nn.ModuleList(nn.TransformerEncoderLayer(8, 2, 16, 0.0, "gelu", batch_first=True, norm_first=True) for _ in range(2))
            self.head = nn.Linear(8, 12)

        def forward(self, x):
            y = self.patches(x).flatten(2).transpose(1, 2)
            y = torch.cat([self.token.expand(y.shape[0], -1, -1), y], 1) + self.place
            for layer in self.layers:
                y = layer(y)
            y = self.head(y[:, 1:] + y[:, :1])
            return y.view(-1, 4, 5, 2, 3, 2).permute(0, 3, 1, 4, 2, 5).reshape(-1, 2, 12, 10)

    return Net(), (field(2, 2, 12, 10),)


@network
def conv_lstm():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.gates, self.head = nn.Conv2d(2 + 4, 16, 3, padding=1), nn.Conv2d(4, 2, 1)

        def forward(self, sequence, hidden, memory):
            for time in range(sequence.shape[1]):
                i, f, o, g = self.gates(torch.cat([sequence[:, time], hidden], 1)).chunk(4, 1)
                memory = torch.sigmoid(f) * memory + torch.sigmoid(i) * torch.tanh(g)
                hidden = torch.sigmoid(o) * torch.tanh(memory)
            return self.head(hidden), hidden, memory

    return Net(), (field(1, 3, 2, 9, 7), field(1, 4, 9, 7), 2 * field(1, 4, 9, 7))


@network
def film():
    """Layers scaled and shifted by the hour of the year."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.hours, self.month = nn.Linear(4, 12), nn.Embedding(12, 6)
            self.one, self.two, self.out = nn.Conv2d(2, 6, 3, padding=1), nn.Conv2d(6, 6, 3, padding=1), nn.Conv2d(6, 2, 1)
            self.norm = nn.InstanceNorm2d(6)

        def forward(self, x, hours, month):
            angles = torch.cat([torch.sin(hours), torch.cos(hours)], -1)
            scale, shift = self.hours(angles)[:, :, None, None].chunk(2, 1)
            y = F.silu(self.norm(self.one(x)) * (1 + scale) + shift)
            return self.out(F.silu(self.two(y) + self.month(month)[:, :, None, None]))

    return Net(), (field(2, 2, 10, 9), field(2, 2), torch.tensor([3, 11]))


@network
def fno():
    class Spectral(nn.Module):
        def __init__(self, width, rows, columns):
            super().__init__()
            self.rows, self.columns = rows, columns
            self.low, self.high = (nn.Parameter(torch.randn(width, width, rows, columns, dtype=torch.complex128) / width) for _ in range(2))

        def forward(self, x):
            z = torch.fft.rfft2(x)
            out = torch.zeros(z.shape[0], self.low.shape[1], z.shape[2], z.shape[3], dtype=z.dtype)
            out[:, :, :self.rows, :self.columns] = torch.einsum("bixy,ioxy->boxy", z[:, :, :self.rows, :self.columns], self.low)
            out[:, :, -self.rows:, :self.columns] = torch.einsum("bixy,ioxy->boxy", z[:, :, -self.rows:, :self.columns], self.high)
            return torch.fft.irfft2(out, s=x.shape[-2:])

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lift, self.spectral, self.skip, self.head = nn.Conv2d(4, 5, 1), Spectral(5, 3, 4), nn.Conv2d(5, 5, 1), nn.Conv2d(5, 2, 1)

        def forward(self, x):
            b, _, h, w = x.shape
            rows = torch.linspace(-1, 1, h)[None, None, :, None].expand(b, 1, h, w)
            columns = torch.linspace(0, 1, w)[None, None, None, :].expand(b, 1, h, w)
            y = F.pad(self.lift(torch.cat([x, rows, columns], 1)), (0, 2, 0, 3))
            y = F.gelu(self.spectral(y) + self.skip(y))
            return self.head(y[..., :-3, :-2])

    return Net(), (field(1, 2, 11, 9),)


@network
def squeeze_excitation():
    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(width, width, 3, padding=1, padding_mode="circular"), nn.BatchNorm2d(width)
            self.squeeze = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, 3, 1), nn.ReLU(), nn.Conv2d(3, width, 1), nn.Hardsigmoid())
            self.spatial = nn.Conv2d(2, 1, 5, padding=2)

        def forward(self, x):
            y = self.norm(self.conv(x))
            y = y * self.squeeze(y) * torch.sigmoid(y.amax((2, 3), keepdim=True))
            return F.relu(x + y * torch.sigmoid(self.spatial(torch.cat([y.mean(1, keepdim=True), y.amax(1, keepdim=True)], 1))))

    return nn.Sequential(nn.Conv2d(3, 6, 1), Block(6), Block(6), nn.AdaptiveAvgPool2d((5, 4)), nn.Upsample(size=(11, 10), mode="bilinear"), nn.Conv2d(6, 2, 1)), (field(2, 3, 11, 10),)


@network
def swin_v2():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.merge = nn.Conv2d(2, 8, 1), PatchMerging(8)
            self.fine = nn.Sequential(WindowBlock(8, 2, (12, 8), (3, 4), (0, 0), True), WindowBlock(8, 2, (12, 8), (3, 4), (1, 2), True))
            self.coarse, self.up = WindowBlock(16, 2, (6, 4), (3, 2), (1, 1), True), nn.Linear(16, 32)
            self.head = nn.Conv2d(16, 2, 1)

        def forward(self, x):
            x = self.fine(self.embed(x).permute(0, 2, 3, 1))
            y = self.up(self.coarse(self.merge(x)))
            y = F.pixel_shuffle(y.permute(0, 3, 1, 2), 2)
            return self.head(torch.cat([x.permute(0, 3, 1, 2), y], 1))

    return Net(), (field(1, 2, 12, 8),)


@network
def swin():
    """Biases from a table, shifted windows with a mask, on a grid that is padded to whole windows."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Conv2d(2, 8, 1), nn.Conv2d(8, 2, 1)
            self.blocks = nn.Sequential(WindowBlock(8, 4, (12, 10), (4, 5), (0, 0)), WindowBlock(8, 4, (12, 10), (4, 5), (2, 2)))

        def forward(self, x):
            y = F.pad(self.embed(x), (0, 1, 1, 2)).permute(0, 2, 3, 1)
            return self.head(self.blocks(y).permute(0, 3, 1, 2)[:, :, 1:10, :9])

    return Net(), (field(2, 2, 9, 9),)


@network
def mlp_mixer():
    class Block(nn.Module):
        def __init__(self, tokens, width):
            super().__init__()
            self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
            self.tokens = nn.Sequential(nn.Linear(tokens, 9), nn.GELU(), nn.Linear(9, tokens))
            self.channels = nn.Sequential(nn.Linear(width, 12), nn.GELU(), nn.Linear(12, width))

        def forward(self, x):
            x = x + self.tokens(self.one(x).transpose(1, 2)).transpose(1, 2)
            return x + self.channels(self.two(x))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches, self.blocks, self.back = nn.Conv2d(2, 6, 2, stride=2), nn.Sequential(Block(30, 6), Block(30, 6)), nn.ConvTranspose2d(6, 2, 2, stride=2)

        def forward(self, x):
            y = self.blocks(self.patches(x).flatten(2).transpose(1, 2))
            return self.back(y.transpose(1, 2).reshape(-1, 6, 6, 5))

    return Net(), (field(2, 2, 12, 10),)


@network
def axial_attention():
    class Axial(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.rows, self.columns = (nn.MultiheadAttention(width, heads, batch_first=True) for _ in range(2))
            self.norm = nn.LayerNorm(width)

        def forward(self, x):
            b, h, w, c = x.shape
            y = self.norm(x).reshape(b * h, w, c)
            x = x + self.columns(y, y, y, need_weights=False)[0].view(b, h, w, c)
            y = self.norm(x).transpose(1, 2).reshape(b * w, h, c)
            return x + self.rows(y, y, y, need_weights=False)[0].view(b, w, h, c).transpose(1, 2)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.layers, self.head = nn.Linear(2, 8), nn.Sequential(Axial(8, 2), Axial(8, 4)), nn.Linear(8, 2)

        def forward(self, x):
            return self.head(self.layers(self.embed(x.permute(0, 2, 3, 1)))).permute(0, 3, 1, 2)

    return Net(), (field(2, 2, 9, 7),)


@network
def pixel_shuffle():
    return nn.Sequential(nn.PixelUnshuffle(2), nn.Conv2d(8, 12, 3, padding=1), nn.ReLU(), nn.PixelShuffle(2), nn.ChannelShuffle(3),
                         nn.Conv2d(3, 18, 3, padding=1, groups=3), nn.PixelShuffle(3)), (field(1, 2, 10, 6),)


@network
def inverted_bottleneck():
    """Depthwise convolutions of stride 2, with running statistics."""
    class Block(nn.Module):
        def __init__(self, width, stride):
            super().__init__()
            self.layers = nn.Sequential(
                nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width), nn.ReLU6(),
                nn.Conv2d(4 * width, 4 * width, 5, stride=stride, padding=2, groups=4 * width, bias=False), nn.BatchNorm2d(4 * width), nn.Hardswish(),
                nn.Conv2d(4 * width, width, 1, bias=False), nn.BatchNorm2d(width))
            self.skip = stride == 1

        def forward(self, x):
            return x + self.layers(x) if self.skip else self.layers(x)

    return nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), Block(4, 1), Block(4, 2), Block(4, 1), nn.ConvTranspose2d(4, 2, 4, stride=2, padding=1)), (field(2, 2, 13, 9),)


@network
def normed_weights():
    """Weight norm, and spectral norm with its iteration."""
    norm = nn.utils.parametrizations
    return nn.Sequential(norm.weight_norm(nn.Conv2d(2, 5, 3, padding=1)), nn.Tanh(), norm.spectral_norm(nn.Conv2d(5, 5, 3, padding=1)), nn.PReLU(5),
                         norm.weight_norm(nn.Conv2d(5, 2, 1), dim=None)), (field(1, 2, 9, 8),)


@network
def gru_over_levels():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.down, self.up, self.head = nn.GRUCell(2, 5), nn.GRUCell(5, 4), nn.Linear(4, 1)

        def forward(self, x):
            b, _, levels, h, w = x.shape
            columns = x.permute(2, 0, 3, 4, 1).reshape(levels, b * h * w, 2)
            state, states = torch.zeros(b * h * w, 5), []
            for level in range(levels):
                state = self.down(columns[level], state)
                states.append(state)
            back, results = torch.zeros(b * h * w, 4), []
            for level in reversed(range(levels)):
                back = self.up(states[level], back)
                results.append(self.head(back))
            return torch.stack(results[::-1]).view(levels, b, h, w).permute(1, 0, 2, 3)

    return Net(), (field(1, 2, 4, 8, 7),)


@network
def perceiver():
    """Few learned queries read all cells, and all cells read the answers."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.queries, self.place = nn.Parameter(torch.randn(1, 5, 8)), nn.Parameter(0.1 * torch.randn(1, 8, 9, 7))
            self.embed, self.head = nn.Conv2d(2, 8, 1), nn.Linear(8, 2)
            self.read, self.write = (nn.MultiheadAttention(8, 2, batch_first=True) for _ in range(2))
            self.think = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

        def forward(self, x):
            cells = (self.embed(x) + self.place).flatten(2).transpose(1, 2)
            latent = self.queries.expand(x.shape[0], -1, -1)
            latent = latent + self.read(latent, cells, cells, need_weights=False)[0]
            latent = latent + self.think(latent)
            cells = cells + self.write(cells, latent, latent, need_weights=False)[0]
            return self.head(cells).transpose(1, 2).reshape(-1, 2, 9, 7)

    return Net(), (field(2, 2, 9, 7),)


@network
def deformable_tables():
    """Each cell reads four cells of constant tables, with learned weights."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            generator = torch.Generator().manual_seed(5)
            self.register_buffer("cells", torch.randint(0, 63, (4, 63), generator=generator))
            self.weights, self.embed, self.head = nn.Parameter(torch.randn(4, 1, 63)), nn.Conv2d(2, 4, 1), nn.Conv2d(4, 2, 3, padding=1)

        def forward(self, x):
            y = self.embed(x)
            flat = y.flatten(2)
            read = sum(flat[:, :, self.cells[k]] * self.weights[k] for k in range(4))
            rows = torch.tensor([8, 0, 1, 2, 3, 4, 5, 6, 7])
            return self.head(F.gelu(read.view_as(y)) + y.index_select(2, rows))

    return Net(), (field(1, 2, 9, 7),)


@network
def quantile_heads():
    """Ordered quantiles from positive steps, and their spread."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.steps = nn.Conv2d(2, 6, 3, padding=1), nn.ModuleList(nn.Conv2d(6, 1, 1) for _ in range(5))
            self.register_buffer("levels", torch.linspace(0.1, 0.9, 5).view(1, 5, 1, 1))

        def forward(self, x, truth):
            y = F.elu(self.body(x))
            first, *others = [step(y) for step in self.steps]
            quantiles = torch.cumsum(torch.cat([first, *[F.softplus(one) for one in others]], 1), 1)
            error = truth - quantiles
            pinball = torch.maximum(self.levels * error, (self.levels - 1) * error).mean((1, 2, 3))
            return quantiles, quantiles[:, -1] - quantiles[:, 0], pinball, quantiles.std()

    return Net(), (field(1, 2, 9, 8), 2 * field(1, 1, 9, 8))


@network
def grid_to_mesh():
    """Messages along constant edges from cells to a mesh and back."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            generator = torch.Generator().manual_seed(3)
            for name, sources, targets, edges in (("down", 72, 11, 160), ("mesh", 11, 11, 40), ("up", 11, 72, 200)):
                self.register_buffer(name + "_from", torch.randint(0, sources, (edges,), generator=generator))
                self.register_buffer(name + "_to", torch.randint(0, targets, (edges,), generator=generator))
            self.embed, self.head = nn.Linear(2, 6), nn.Linear(6, 2)
            self.edge = nn.ModuleDict({name: nn.Linear(12, 6) for name in ("down", "mesh", "up")})

        def passed(self, name, sources, targets):
            start, end = getattr(self, name + "_from"), getattr(self, name + "_to")
            messages = F.silu(self.edge[name](torch.cat([sources[start], targets[end]], -1)))
            return targets + torch.zeros_like(targets).index_add(0, end, messages)

        def forward(self, x):
            cells = self.embed(x[0].flatten(1).t())
            mesh = self.passed("down", cells, torch.zeros(11, 6))
            mesh = self.passed("mesh", mesh, mesh)
            cells = self.passed("up", mesh, cells)
            return self.head(cells).t().reshape(1, 2, 9, 8)

    return Net(), (field(1, 2, 9, 8),)


@network
def semi_lagrangian():
    """A tracer is carried along winds that the network predicts."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.wind, self.source = nn.Conv2d(3, 2, 3, padding=1), nn.Conv2d(3, 1, 1)

        def forward(self, x):
            b, _, h, w = x.shape
            grid = torch.stack(torch.meshgrid(torch.linspace(-1, 1, h), torch.linspace(-1, 1, w), indexing="ij")[::-1], -1)
            for _ in range(2):
                places = grid + 0.2 * torch.tanh(self.wind(x)).permute(0, 2, 3, 1)
                carried = F.grid_sample(x[:, :1], places, mode="bilinear", padding_mode="border", align_corners=True)
                x = torch.cat([carried + self.source(x), x[:, 1:]], 1)
            return x

    return Net(), (field(1, 3, 9, 8),)


@network
def linear_attention():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out, self.embed = nn.Linear(8, 24), nn.Linear(8, 2), nn.Linear(2, 8)

        def forward(self, x):
            b, _, h, w = x.shape
            y = self.embed(x.flatten(2).transpose(1, 2))
            q, k, v = self.qkv(y).view(b, h * w, 3, 2, 4).unbind(2)
            q, k = F.elu(q) + 1, F.elu(k) + 1
            sums = torch.einsum("bnhd,bnhe->bhde", k, v)
            y = torch.einsum("bnhd,bhde->bnhe", q, sums) / torch.einsum("bnhd,bhd->bnh", q, k.sum(1)).unsqueeze(-1)
            return self.out(y.flatten(2)).transpose(1, 2).reshape(b, 2, h, w)

    return Net(), (field(2, 2, 9, 7),)


@network
def neighbourhood_attention():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.kv, self.out = nn.Conv2d(2, 4, 1), nn.Conv2d(2, 8, 1), nn.Conv2d(4, 2, 1)
            self.bias = nn.Parameter(0.1 * torch.randn(9, 1))

        def forward(self, x):
            b, _, h, w = x.shape
            k, v = F.unfold(F.pad(self.kv(x), (1, 1, 1, 1), mode="replicate"), 3).view(b, 2, 4, 9, h * w).unbind(1)
            scores = (self.q(x).view(b, 4, 1, h * w) * k).sum(1) / 2 + self.bias
            y = (scores.softmax(1).unsqueeze(1) * v).sum(2)
            return self.out(y.view(b, 4, h, w))

    return Net(), (field(2, 2, 9, 7),)


@network
def zonal_statistics():
    """Means along circles of latitude, weighted sums over the sphere, extremes, norms."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("area", torch.cos(torch.linspace(-1.4, 1.4, 11)).view(1, 1, 11, 1))
            self.mix, self.head, self.globe = nn.Conv2d(8, 6, 1), nn.Conv2d(6, 2, 1), nn.Linear(8, 6)

        def forward(self, x):
            zonal = x.mean(-1, keepdim=True).expand_as(x)
            spread = torch.std(x, dim=-1, keepdim=True).expand_as(x)
            meridional = (x * self.area).sum(2, keepdim=True).expand_as(x)
            y = self.mix(torch.cat([x, zonal, spread, meridional], 1))
            mean = (x * self.area).mean((2, 3)) / self.area.mean()
            globe = torch.cat([mean, x.amax((2, 3)), x.flatten(2).logsumexp(-1), x.var((2, 3))], 1)
            return self.head(torch.tanh(y + self.globe(globe)[:, :, None, None])), mean, x.norm()

    return Net(), (field(2, 2, 11, 8),)


@network
def over_the_poles():
    """Rows beyond a pole are those on its other side."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Conv2d(2, 6, 3), nn.Conv2d(6, 2, 5)
            self.register_buffer("sign", torch.tensor([1.0, -1.0]).view(1, 2, 1, 1))

        @staticmethod
        def padded(x, n, sign):
            half = x.shape[-1] // 2
            north = torch.roll(x[:, :, :n].flip(2), half, 3) * sign
            south = torch.roll(x[:, :, -n:].flip(2), half, 3) * sign
            return F.pad(torch.cat([north, x, south], 2), (n, n, 0, 0), mode="circular")

        def forward(self, x):
            y = F.gelu(self.one(self.padded(x, 1, self.sign)))
            y = self.two(self.padded(y, 2, 1.0))
            return y + F.avg_pool2d(F.pad(x, (1, 1, 1, 1), mode="reflect"), 3, stride=1)

    return Net(), (field(1, 2, 9, 8),)


@network
def dilated_pyramid():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.branches = nn.ModuleList(nn.Conv2d(3, 4, 3, padding=d, dilation=d) for d in (1, 2, 4))
            self.pool, self.head = nn.Conv2d(3, 4, 1), nn.Conv2d(16, 2, 1)

        def forward(self, x):
            whole = self.pool(x.mean((2, 3), keepdim=True)).expand(-1, -1, *x.shape[-2:])
            return self.head(F.mish(torch.cat([*[branch(x) for branch in self.branches], whole], 1)))

    return Net(), (field(1, 3, 13, 12),)


@network
def rotary_grouped_queries():
    """Four heads of queries share two of keys, turned by rows and columns; causal along the rows' order."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.q, self.kv, self.head = nn.Linear(2, 16), nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 2)
            self.norm = nn.RMSNorm(16)
            rows, columns = torch.meshgrid(torch.arange(8.0), torch.arange(7.0), indexing="ij")
            self.register_buffer("angles", torch.stack([rows, 0.3 * columns], -1).view(56, 2))

        def turned(self, x):
            even, odd = x[..., 0::2], x[..., 1::2]
            cos, sin = torch.cos(self.angles), torch.sin(self.angles)
            return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)

        def forward(self, x):
            y = self.embed(x.permute(0, 2, 3, 1).reshape(-1, 56, 2))
            z = self.norm(y)
            q = self.turned(self.q(z).view(-1, 56, 4, 4).transpose(1, 2))
            k, v = self.kv(z).view(-1, 56, 2, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
            k, v = self.turned(k).repeat_interleave(2, 1), v.repeat_interleave(2, 1)
            y = y + F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(-1, 56, 16)
            return self.head(y).view(-1, 8, 7, 2).permute(0, 3, 1, 2)

    return Net(), (field(2, 2, 8, 7),)


@network
def spherical_harmonics():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            generator = torch.Generator().manual_seed(9)
            self.register_buffer("forwards", torch.randn(5, 4, 9, generator=generator, dtype=torch.float64))
            self.register_buffer("back", torch.randn(5, 4, 9, generator=generator, dtype=torch.float64))
            self.weight, self.skip = nn.Parameter(torch.randn(3, 2, 5, dtype=torch.complex128)), nn.Conv2d(2, 3, 1)
            self.register_buffer("laplacian", -torch.arange(5.0) * torch.arange(1.0, 6.0) / 20)

        def forward(self, x):
            z = torch.fft.rfft(x, dim=-1, norm="forward")[..., :4]
            z = torch.einsum("bchm,lmh->bclm", z, self.forwards.to(z.dtype))
            z = torch.einsum("bclm,dcl->bdlm", z * torch.exp(self.laplacian)[:, None], self.weight)
            z = torch.einsum("bclm,lmh->bchm", z, self.back.to(z.dtype))
            return F.gelu(torch.fft.irfft(z, n=x.shape[-1], dim=-1, norm="forward") + self.skip(x))

    return Net(), (field(1, 2, 9, 10),)


@network
def diffusion_unet():
    """Noise of a given level is removed: embedded levels, adaptive group norms, attention in the middle."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.level = nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 16))
            self.first, self.down, self.norm = nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(8, 8, 3, stride=2, padding=1), nn.GroupNorm(4, 8, affine=False)
            self.qkv, self.out, self.last = nn.Conv2d(8, 24, 1), nn.Conv2d(8, 8, 1), nn.Conv2d(16, 2, 3, padding=1)

        def forward(self, noisy, state, level):
            angles = level[:, None] * torch.exp(-torch.arange(4.0))
            scale, shift = self.level(torch.cat([torch.sin(angles), torch.cos(angles)], 1))[:, :, None, None].chunk(2, 1)
            fine = self.first(torch.cat([noisy / torch.sqrt(1 + level**2)[:, None, None, None], state], 1))
            y = F.silu(self.norm(self.down(fine)) * (1 + scale) + shift)
            q, k, v = self.qkv(y).flatten(2).transpose(1, 2).chunk(3, -1)
            y = y + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).view_as(y))
            return self.last(torch.cat([fine, F.interpolate(y, size=fine.shape[-2:], mode="bicubic", align_corners=False)], 1))

    return Net(), (field(2, 2, 11, 10), 2 * field(2, 2, 11, 10), torch.tensor([0.3, 1.7]))


@network
def long_convolution():
    """Filters as long as a circle of latitude, by FFT, with gates; and a running sum that forgets."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.enter, self.filter, self.out = nn.Conv2d(2, 12, 1), nn.Parameter(torch.randn(4, 10) / 4), nn.Conv2d(4, 2, 1)
            self.decay = nn.Parameter(torch.randn(4, 1, 1))

        def forward(self, x):
            a, b, v = self.enter(x).chunk(3, 1)
            n = 2 * x.shape[-1]
            y = torch.fft.irfft(torch.fft.rfft(a * v, n=n) * torch.fft.rfft(self.filter, n=n)[:, None], n=n)[..., :x.shape[-1]]
            steps = torch.arange(x.shape[-1], dtype=x.dtype)
            weight = torch.exp(-F.softplus(self.decay) * steps)
            return self.out(b * y + weight * torch.cumsum(v / weight, -1))

    return Net(), (field(2, 2, 9, 10),)


@network
def haar_wavelets():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.gain, self.mix = nn.Parameter(torch.randn(1, 8, 1, 1)), nn.Conv2d(8, 8, 3, padding=1)

        def forward(self, x):
            a, b, c, d = x[:, :, 0::2, 0::2], x[:, :, 1::2, 0::2], x[:, :, 0::2, 1::2], x[:, :, 1::2, 1::2]
            y = torch.cat([a + b + c + d, a - b + c - d, a + b - c - d, a - b - c + d], 1) / 2
            y = F.hardtanh(self.mix(y) * self.gain)
            a, b, c, d = y.chunk(4, 1)
            rows = torch.stack([torch.stack([a + b + c + d, a + b - c - d], -1), torch.stack([a - b + c - d, a - b - c + d], -1)], 3)
            return rows.reshape(x.shape) / 2 + x

    return Net(), (field(1, 2, 14, 8),)


@network
def mixture_of_experts():
    """Each cell asks two of four experts."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate, self.experts = nn.Conv2d(3, 4, 1), nn.ModuleList(nn.Conv2d(3, 2, k, padding=k // 2) for k in (1, 3, 1, 3))

        def forward(self, x):
            scores = self.gate(x)
            kept = scores >= scores.topk(2, dim=1).values[:, 1:]
            weights = scores.masked_fill(~kept, float("-inf")).softmax(1)
            y = torch.stack([expert(x) for expert in self.experts], 1)
            return (weights.unsqueeze(2) * y).sum(1), weights.mean((0, 2, 3))

    return Net(), (field(2, 3, 9, 8),)


@network
def coupling_flow():
    """A map that can be inverted, and the logarithm of its determinant."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.nets = nn.ModuleList(nn.Sequential(nn.Conv2d(2, 6, 3, padding=1), nn.LeakyReLU(), nn.Conv2d(6, 4, 3, padding=1)) for _ in range(3))
            self.register_buffer("board", (torch.arange(9)[:, None] + torch.arange(8)[None]) % 2 == 0)

        def forward(self, x):
            total = torch.zeros(x.shape[0])
            for number, net in enumerate(self.nets):
                mask = self.board if number % 2 == 0 else ~self.board
                scale, shift = net(torch.where(mask, x, 0.0)).chunk(2, 1)
                scale = torch.tanh(scale)
                x = torch.where(mask, x, x * torch.exp(scale) + shift)
                total = total + scale.masked_fill(mask, 0.0).sum((1, 2, 3))
            return x, total

    return Net(), (field(2, 2, 9, 8),)


@network
def laplacian_pyramid():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.levels, self.head = nn.ModuleList(nn.Conv2d(2, 2, 3, padding=1) for _ in range(3)), nn.Conv2d(2, 2, 1)

        def forward(self, x):
            details, sizes = [], []
            for level in self.levels[:2]:
                coarse = F.avg_pool2d(x, 3, stride=2, padding=1, count_include_pad=False)
                details.append(level(x - F.interpolate(coarse, size=x.shape[-2:], mode="bilinear", align_corners=True)))
                sizes.append(x.shape[-2:])
                x = coarse
            x = F.softsign(self.levels[2](x))
            for detail, size in zip(details[::-1], sizes[::-1]):
                x = F.interpolate(x, size=size, mode="bilinear", align_corners=True) + detail
            return self.head(x)

    return Net(), (field(1, 2, 13, 12),)


@network
def chebyshev_kan():
    """Polynomials of each channel with learned coefficients."""
    class Layer(nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            self.coefficients = nn.Parameter(torch.randn(inputs, outputs, 4) / 4)

        def forward(self, x):
            x = torch.tanh(x)
            terms = [torch.ones_like(x), x]
            for _ in range(2):
                terms.append(2 * x * terms[-1] - terms[-2])
            return torch.einsum("bihwk,iok->bohw", torch.stack(terms, -1), self.coefficients)

    return nn.Sequential(Layer(2, 5), nn.LocalResponseNorm(3), Layer(5, 2)), (field(2, 2, 9, 8),)


@network
def involution():
    """Each cell makes its own kernel."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.reduce, self.span, self.head = nn.Conv2d(4, 2, 1), nn.Conv2d(2, 2 * 9, 1), nn.Conv2d(4, 2, 1)
            self.embed = nn.Conv2d(2, 4, 1)

        def forward(self, x):
            x = self.embed(x)
            b, c, h, w = x.shape
            kernels = self.span(F.relu(self.reduce(x))).view(b, 2, 1, 9, h, w)
            cells = F.unfold(x, 3, padding=1).view(b, 2, c // 2, 9, h, w)
            return self.head((kernels * cells).sum(3).view(b, c, h, w))

    return Net(), (field(1, 2, 10, 7),)
