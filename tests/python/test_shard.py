# SPDX-License-Identifier: BSD-3-Clause
"""Serial PyTorch models, sharded by one call, against themselves."""
import copy
import os
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from mpi4py import MPI
from support import COMM, DATA, RANK, RANKS, balanced, close, main, raises, skip, uneven
from torch import nn

import graticule


def block(c_in, c_out):
    return nn.Sequential(nn.Conv2d(c_in, c_out, 3, padding=1, padding_mode="circular"), nn.GroupNorm(2, c_out), nn.GELU())


class UNet(nn.Module):
    """As one writes it for PyTorch alone, with attention of cells at the bottom."""

    def __init__(self, channels=2, width=4):
        super().__init__()
        self.enter, self.pool, self.deep = block(channels, width), nn.MaxPool2d(2), block(width, 2 * width)
        self.attention = graticule.nn.SelfAttention(2 * width, 2)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.leave, self.last = block(2 * width, width), nn.Conv2d(width, channels, 1)

    def forward(self, x):
        skip = self.enter(x)
        up = self.up(self.attention(self.deep(self.pool(skip))), output_size=skip.shape[-2:])
        return x + self.last(self.leave(torch.cat([skip, up], dim=1)))


class PlainUNet(nn.Module):
    """Without a layer of graticule: attention of cells by torch.nn, between flattening and its reverse."""

    def __init__(self, channels=2, width=4, batch_first=True):
        super().__init__()
        self.enter, self.pool, self.deep = block(channels, width), nn.MaxPool2d(2), block(width, 2 * width)
        self.norm, self.mix = nn.LayerNorm(2 * width), nn.Sequential(nn.Linear(2 * width, width), nn.GELU(), nn.Linear(width, 2 * width))
        self.attention = nn.MultiheadAttention(2 * width, 2, batch_first=batch_first)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.leave, self.last = block(2 * width, width), nn.Conv2d(width, channels, 1)

    def attend(self, field):
        b, c, h, w = field.shape
        t = field.flatten(2).transpose(1, 2)
        n = self.norm(t)
        assert n.shape == (b, h * w, c)
        t = t + self.attention(n, n, n, need_weights=False)[0]
        return (t + self.mix(t)).transpose(1, 2).reshape(b, c, h, w)

    def forward(self, x):
        skip = self.enter(x)
        up = self.up(self.attend(self.deep(self.pool(skip))), output_size=skip.shape[-2:])
        return x + self.last(self.leave(torch.cat([skip, up], dim=1)))


class CellsFirst(PlainUNet):
    """Attention with the cells as the first axis, and a window of channels last."""

    def __init__(self):
        super().__init__(batch_first=False)

    def attend(self, field):
        b, c, h, w = field.shape
        t = field.permute(0, 2, 3, 1)
        t = self.mix(self.norm(t)).reshape(b, h * w, c).movedim(1, 0)
        t = t + self.attention(t, t, t)[0]
        return field + t.permute(1, 2, 0).view(b, c, h, w)


class ByHeads(PlainUNet):
    """Queries, keys and values of one linear layer, by heads, as vision transformers write them."""

    def __init__(self):
        super().__init__()
        self.attention, self.qkv = nn.Identity(), nn.Linear(8, 24)

    def attend(self, field):
        b, c, h, w = field.shape
        t = field.flatten(2).mT
        q, k, v = self.qkv(self.norm(t)).reshape(b, h * w, 3, 2, c // 2).permute(2, 0, 3, 1, 4).unbind(0)
        t = t + F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return self.mix(t).transpose(1, 2).unflatten(2, (h, w))


class PaddedUNet(UNet):
    """Odd sizes by `F.pad`, and functions instead of layers."""

    def forward(self, x):
        skip = self.enter(x)
        up = self.up(self.deep(F.max_pool2d(skip, 2)))
        rows, columns = skip.shape[-2] - up.shape[-2], skip.shape[-1] - up.shape[-1]
        up = F.pad(up, (columns // 2, columns - columns // 2, rows // 2, rows - rows // 2))
        return x + self.last(self.leave(torch.cat((skip, up), 1)))


class ResizedUNet(UNet):
    def forward(self, x):
        skip = self.enter(x)
        up = F.interpolate(self.deep(F.avg_pool2d(skip, 2)), size=skip.shape[-2:], mode="bilinear", align_corners=False)
        return self.last(self.leave(torch.cat([skip, up[:, :skip.size(1)]], dim=1))) + x.mean(1, keepdim=True)


class ShuffledUp(nn.Module):
    """A way up that ends in the rows of the skip, but in other cuts."""

    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(2, 8, 1))
        self.shuffle, self.last = nn.PixelShuffle(2), nn.Conv2d(2, 2, 3, padding=1)

    def forward(self, x):
        return self.last(x + self.shuffle(self.down(x)))


def real_fields():
    """Geopotential and winds of an analysis, every 12th row and 15th column, and the weights of the rows."""
    path = os.path.join(DATA, "eraint_uvz.nc")
    if not os.path.exists(path):
        skip(f"{path} is not in GRATICULE_TEST_DATA")
    z, u, v = (read(path, name) for name in "zuv")
    latitudes = np.linspace(90, -90, 241)[::12]
    return torch.stack([z, v])[None], torch.stack([u, z])[None], np.maximum(np.cos(np.deg2rad(latitudes)), 1e-3)


def read(path, variable):
    comm = graticule.engine.Comm.create(COMM)
    with graticule.engine.File.open(comm, path) as file:
        extents = file.extents(variable)
        values = np.zeros(extents[-2:])
        file.read(variable, [0] * len(extents), [1] * (len(extents) - 2) + list(extents[-2:]), values)
    values = values[::12, ::15]
    return torch.from_numpy((values - values.mean()) / values.std())


def random_fields(rows=21, columns=14):
    torch.manual_seed(7)
    x, y = torch.randn(2, 2, 2, rows, columns, dtype=torch.double)
    return x, y, 1 + np.arange(rows) / rows


def check_training(make, fields, sizes, steps=4):
    field, target, weights = fields
    rows, columns = field.shape[-2:]
    torch.manual_seed(1)
    serial = make().double()
    net = copy.deepcopy(serial)
    names, identities = list(net.state_dict()), [id(p) for p in net.parameters()]
    domain = graticule.Domain(COMM)
    report = graticule.shard(net, domain)
    assert report.num("refused") == 0 and report.num("sharded") >= 3, report.text()
    assert list(net.state_dict()) == names and [id(p) for p in net.parameters()] == identities and isinstance(net, make)
    mine, wanted = (graticule.shard_of(f, domain, rows=sizes(rows)) for f in (field, target))
    loss_of = graticule.nn.MSELoss(domain, row_weights=weights)
    sync = graticule.GradientSync(net, [(COMM, "sum")])
    optimizers = [torch.optim.Adam(m.parameters(), 1e-2) for m in (serial, net)]
    w = torch.from_numpy(np.asarray(weights))[:, None]
    losses = []
    for _ in range(steps):
        for optimizer in optimizers:
            optimizer.zero_grad()
        expected = (w * (serial(field) - target) ** 2).sum() / (w.sum() * field.shape[0] * field.shape[1] * columns)
        expected.backward()
        loss = loss_of(net(mine), wanted)
        loss.backward()
        sync.reduce()
        for optimizer in optimizers:
            optimizer.step()
        losses.append(loss.item())
        assert abs(loss.item() - expected.item()) <= 1e-10 * abs(expected.item()), (losses, expected.item())
    assert losses[-1] < losses[0], losses
    close(graticule.whole_field(net(mine), domain), serial(field), 1e-9)
    part = graticule.part_of(mine, domain)
    assert list(part.rows.sizes) == sizes(rows) and part.rows.size == mine.shape[-2] and part.columns.extent == columns
    assert not hasattr(mine, "_graticule_cuts")


def test_unet_on_real_fields_trains_as_the_serial_one():
    check_training(UNet, real_fields(), balanced)


def test_unet_on_real_fields_with_uneven_cuts():
    check_training(UNet, real_fields(), uneven, steps=3)


def test_unet_of_torch_alone_on_real_fields():
    check_training(PlainUNet, real_fields(), balanced)
    check_training(PlainUNet, real_fields(), uneven, steps=2)


def test_attention_with_cells_in_any_axis():
    check_training(CellsFirst, random_fields(), uneven, steps=3)
    check_training(ByHeads, random_fields(), balanced, steps=3)
    few = random_fields(6, 8)
    check_training(PlainUNet, few, lambda rows: [rows] + [0] * (RANKS - 1), steps=3)


def test_unet_of_functions():
    check_training(PaddedUNet, random_fields(), uneven)


def test_unet_with_resize():
    check_training(ResizedUNet, random_fields(), balanced)


def test_joins_of_other_cuts_are_moved():
    check_training(ShuffledUp, random_fields(22), uneven)


def test_a_report_says_what_became_of_each_module():
    domain = graticule.Domain(COMM)
    report = graticule.shard(UNet(), domain)
    assert isinstance(report, graticule.ShardReport) and isinstance(report.modules[0], graticule.ShardedModule)
    verdicts = {m.path: (m.type, m.verdict) for m in report.modules}
    assert verdicts[""] == ("UNet", "children only") and verdicts["enter.0"] == ("Conv2d", "sharded")
    assert verdicts["enter.2"] == ("GELU", "functions") and verdicts["attention"] == ("SelfAttention", "sharded")
    lines = report.text().splitlines()
    assert lines[0].split() == ["path", "type", "verdict", "why"] and len(lines) == len(report.modules) + 1


def test_refusals_name_all_layers_and_leave_the_model():
    domain = graticule.Domain(COMM)

    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))

    model = nn.Sequential(nn.Conv2d(1, 1, 3), nn.LazyConv2d(1, 1), nn.MaxPool2d(2, return_indices=True), nn.Flatten(), nn.Softmax(3))
    raises("NotSharded", lambda: graticule.shard(model, domain), "1 (LazyConv2d): is lazy", "2 (MaxPool2d): return_indices")
    assert type(model[0]) is nn.Conv2d
    raises("NotSharded", lambda: graticule.shard(nn.Conv2d(1, 1, 3), domain), "a single layer")
    report = graticule.shard(model, domain, on_refusal="report")
    assert report.num("refused") == 2 and report.num("functions") == 2
    fresh = nn.Sequential(nn.Conv2d(1, 1, 3), Own())
    assert graticule.shard(fresh, domain, local=["Own"]).num("local") == 1
    raises("BadOption", lambda: graticule.shard(fresh, domain, padding="zeros"), "padding", "'zeros'")


def test_models_that_differ_between_ranks_are_refused():
    if RANKS == 1:
        skip("one rank: models cannot differ")
    model = nn.Sequential(nn.Conv2d(1, 2 + (RANK == 1), 3), nn.ReLU())
    raises("ArgumentDisagreement", lambda: graticule.shard(model, graticule.Domain(COMM)))


class Act(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.conv, self.act = nn.Conv2d(1, 1, 3, padding=1), act

    def forward(self, x):
        return self.act(self.conv(x))


def on_globe(y, domain):
    """What a model returns, whole."""
    return graticule.whole_field(y, domain) if hasattr(y, "_graticule_cuts") else y


def assert_equals_serial(act, whole, domain, rows=None, dtype=torch.float64):
    """The result, and the gradients of the input and of the parameters."""
    serial = Act(act).to(dtype)
    net = copy.deepcopy(serial)
    graticule.shard(net, domain)
    x, part = whole.clone().requires_grad_(), graticule.shard_of(whole, domain, rows=rows).clone().requires_grad_()
    wanted, found = serial(x), net(part)
    close(on_globe(found.detach(), domain) if not hasattr(found, "_graticule_cuts") else on_globe(found, domain).detach(), wanted.detach(), 1e-10)
    if not wanted.requires_grad:
        return
    factors = torch.randn(wanted.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    (wanted * factors).sum().real.backward()
    if hasattr(found, "_graticule_cuts"):
        own = graticule.shard_of(factors, domain, *found._graticule_cuts)
        graticule.reduce_loss((found * own).sum(), domain).backward()
    else:  # whole: on each rank a part of the loss
        graticule.reduce_loss((found * factors).sum().real / domain.num_ranks, domain).backward()
    graticule.GradientSync(net, [(COMM, "sum")]).reduce()
    close(graticule.whole_field(part.grad, domain), x.grad, 1e-10)
    for mine, own in zip(net.parameters(), serial.parameters()):
        close(mine.grad, own.grad, 1e-10)


ACROSS_CELLS = {
    "covariances and counts": lambda y: y * torch.cov(y[0, 0]).mean() + torch.corrcoef(y[0, 0].T)[:, :1].mean() + torch.histc(y.detach(), 5, -1, 1).max(),
    "cell of a recurrent layer": lambda y: torch.gru_cell(y[0, 0], y[0, 0, :, :2], *[torch.linspace(-1, 1, 6 * n, dtype=y.dtype).reshape(6, n)
                                                                                       for n in (6, 2)]),
    "mean": lambda y: y.mean((2, 3)), "softmax": lambda y: y.softmax(-1), "rows": lambda y: y[:, :, 1:], "roll": lambda y: torch.roll(y, 1, -1),
    "conv2d": lambda y: F.conv2d(y, torch.ones(1, 1, 3, 3, dtype=y.dtype)), "flatten": lambda y: torch.cat([y, y], 1).flatten(1),
    "permute": lambda y: y.permute(0, 2, 1, 3), "max": lambda y: y.max(), "transpose": lambda y: y.transpose(2, 3), "view": lambda y: y.view(1, 1, 6, 9),
    "fft2": lambda y: torch.fft.ifft2(torch.fft.fft2(y) * 0.5).real, "mT": lambda y: y.mT, "cummax": lambda y: y.cummax(-1)[0],
    "channels last": lambda y: y.permute(0, 2, 3, 1)[:, 1:], "softmax of cells": lambda y: y.flatten(2).softmax(-1),
    "matmul": lambda y: y.flatten(2) @ y.flatten(2).mT, "mean of cells": lambda y: y.flatten(2).mean(-1), "cat of cells": lambda y: torch.cat([y.flatten(2)] * 2, -1),
    "layer_norm": lambda y: F.layer_norm(y.flatten(2), (54,)), "linear": lambda y: F.linear(y.flatten(2), torch.ones(2, 54, dtype=y.dtype)),
    "add": lambda y: y + y.flatten(2)[:, :, None].mean(-1, keepdim=True), "attention": lambda y: F.scaled_dot_product_attention(y, y, y),
    "causal attention": lambda y: F.scaled_dot_product_attention(*[y.flatten(2).mT] * 3, is_causal=True),
    "avg_pool2d": lambda y: F.avg_pool2d(y.permute(0, 2, 3, 1), 1), "flip": lambda y: y.flip(1, 2), "std": lambda y: y / y.std(),
    "diagonal": lambda y: y.diagonal(dim1=2, dim2=3), "last column": lambda y: y[..., 0], "row and all": lambda y: y + y[:, :, :1],
    "rows by a tensor": lambda y: y[:, :, torch.tensor([0, 3])], "windows": lambda y: y.view(1, 1, 3, 3, 2, 3).permute(0, 2, 4, 1, 3, 5).flatten(0, 2).mean(1),
    "whole and shard": lambda y: y + torch.arange(9, dtype=y.dtype)[:, None], "in a whole one": lambda y: torch.zeros(y.shape, dtype=y.dtype).add_(y),
    "cat of whole": lambda y: torch.cat([y, y.new_ones(y.shape)], 1), "gather": lambda y: y.gather(1, torch.zeros(y.shape, dtype=torch.long)),
    "cumsum": lambda y: y.cumsum(-2), "rfft of rows": lambda y: torch.fft.irfft(torch.fft.rfft(y, dim=-1) * 0.5, n=6, dim=-1),
    "cross product of unnamed columns": lambda y: torch.cross(y[:, :, 2:, :3], y[:, :, 2:, 3:]),  # 3 rows on a rank, 7 or 5 in all
    "batch norm of rows": lambda y: F.batch_norm(y.transpose(1, 2), torch.zeros(9, dtype=y.dtype), torch.ones(9, dtype=y.dtype), training=True),
    "adaptive": lambda y: y * F.adaptive_avg_pool2d(y, 1), "interpolate": lambda y: F.interpolate(F.avg_pool2d(y, 2), size=y.shape[-2:], mode="bilinear"),
    "group_norm": lambda y: F.group_norm(y, 1), "unfold": lambda y: F.fold(F.unfold(y, 3, padding=1), (9, 6), 3, padding=1),
    "cross attention": lambda y: F.softmax(y.flatten(2).mT @ y[:, :, :4].flatten(2), -1) @ y[:, :, :4].flatten(2).mT,
    "where": lambda y: torch.where(y > 0, y, torch.ones(9, 6, dtype=y.dtype)), "rows in place": lambda y: rows_in_place(y),
    "into a view": lambda y: into_a_view(y), "unbind": lambda y: torch.stack(list(y.unbind(-1))[::-1], -1), "einsum": lambda y: torch.einsum("bchw,bcvw->bhv", y, y)}


def rows_in_place(y):
    y = y.clone()
    y[:, :, 2:5] = 0.5 * y[:, :, 3:6]
    y[:, 0] += 1.0
    y[:, :, 0] = 2.0
    return y


def into_a_view(y):
    z = y * 1
    z[:, 0].mul_(3.0)
    z.flatten(2).transpose(1, 2).add_(1.0)
    return z


def test_functions_across_cells_are_those_of_the_globe():
    domain = graticule.Domain(COMM)
    whole = torch.randn(1, 1, 9, 6, dtype=torch.float64)
    for name, act in ACROSS_CELLS.items():
        for rows in (balanced(9), uneven(9)):
            try:
                assert_equals_serial(act, whole, domain, rows)
            except (AssertionError, RuntimeError) as error:
                raise AssertionError(f"{name}: {error}") from error


def test_functions_across_cells_where_columns_are_cut():
    domain = graticule.Domain(COMM, grid=(1, RANKS))
    whole = torch.randn(1, 1, 9, 6, dtype=torch.float64)
    for name, act in ACROSS_CELLS.items():
        try:
            assert_equals_serial(act, whole, domain)
        except (AssertionError, RuntimeError) as error:
            raise AssertionError(f"{name}: {error}") from error


def test_functions_across_cells_of_blocks():
    if RANKS % 2 or RANKS < 4:
        skip("blocks of rows and columns need 4 ranks")
    domain = graticule.Domain(COMM, grid=(2, RANKS // 2))
    whole = torch.randn(1, 1, 9, 6, dtype=torch.float64)
    for name, act in ACROSS_CELLS.items():
        if name == "into a view":
            continue  # tokens of blocks are copies
        try:
            assert_equals_serial(act, whole, domain)
        except (AssertionError, RuntimeError) as error:
            raise AssertionError(f"{name}: {error}") from error


def test_copies_of_views_are_not_changed_in_place():
    if RANKS == 1:
        skip("one rank: views are views")
    domain = graticule.Domain(COMM)

    def to_a_copy(y):
        y[:, :, 1:].add_(1.0)
        return y

    def to_its_source(y):
        z, part = y.clone(), None
        part = z.roll(1, -2)[:, :, 1:] * 1 if part is not None else z[:, :, 1:]
        z.add_(1.0)
        return part * 2

    def to_a_view_of_a_copy(y):
        y[:, :, 1:][:, 0].add_(1.0)
        return y

    def to_a_whole_copy(y):
        z = y.clone()
        z.diagonal(0, -2, -1).add_(1.0)
        return z

    def to_the_source_of_a_whole_copy(y):
        z = y.clone()
        part = z.diagonal(0, -2, -1)
        z.add_(1.0)
        return part * 2

    for act in (to_a_copy, to_its_source, to_a_view_of_a_copy, to_a_whole_copy, to_the_source_of_a_whole_copy):
        net = Act(act)
        graticule.shard(net, domain)
        raises("NotSharded", lambda: net(graticule.shard_of(torch.randn(1, 1, 9, 6), domain)), "a view of another", "clone")


def test_numbers_that_differ_between_ranks_are_named():
    if RANKS == 1:
        skip("one rank: numbers cannot differ")
    domain = graticule.Domain(COMM)
    own = np.random.default_rng(RANK)
    for act in (lambda y: y * float(own.random()), lambda y: y * torch.tensor(own.random()), lambda y: y + RANK, lambda y: y.roll(RANK, -1),
                lambda y: y[:, :, RANK:]):
        net = Act(act)
        graticule.shard(net, domain)
        raises("NotSharded", lambda: net(graticule.shard_of(torch.randn(1, 1, 9, 6), domain)), "with the numbers")


def test_an_input_may_need_a_gradient_on_one_rank_alone():
    domain = graticule.Domain(COMM)
    whole = torch.randn(1, 1, 9, 6, dtype=torch.float64)
    for act in (lambda y: y.roll(1, -2), lambda y: y - y.mean(), lambda y: y + y.cumsum(-2)):
        net = Act(act).double()
        net.conv = nn.Identity()
        graticule.shard(net, domain)
        x, serial = graticule.shard_of(whole, domain).clone().requires_grad_(RANK == 0), whole.clone().requires_grad_()
        graticule.reduce_loss(net(x).square().sum(), domain).backward()
        act(serial).square().sum().backward()
        if RANK == 0:
            close(x.grad, graticule.shard_of(serial.grad, domain), 1e-12)


def test_hooks_on_tensors_get_the_gradient_of_the_globe():
    whole, domain = torch.randn(1, 1, 9, 6, dtype=torch.float64), graticule.Domain(COMM)

    def act(y):
        z = y * 2
        z.register_hook(lambda gradient: gradient / gradient.norm() + gradient.roll(1, -2))
        return z.square()

    net = Act(act).double()
    net.conv = nn.Identity()
    graticule.shard(net, domain)
    x, serial = graticule.shard_of(whole, domain, rows=uneven(9)).clone().requires_grad_(), whole.clone().requires_grad_()
    graticule.reduce_loss(net(x).square().sum(), domain).backward()
    act(serial).square().sum().backward()
    close(graticule.whole_field(x.grad, domain), serial.grad, 1e-12)
    if RANKS > 1:
        net = Act(lambda y: (y, y.mean().register_hook(lambda gradient: gradient))[0])
        graticule.shard(net, domain)
        raises("NotSharded", lambda: net(graticule.shard_of(torch.randn(1, 1, 9, 6), domain)), "a hook on a tensor that is whole")


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient


def test_what_cannot_be_seen_is_refused_or_named():
    domain = graticule.Domain(COMM)
    if RANKS > 1:
        net = Act(lambda y: torch.nested.to_padded_tensor(torch.nested.nested_tensor([y[0], y[0, :, :2]]), 0.0))
        graticule.shard(net, domain)
        raises("NotSharded", lambda: net(graticule.shard_of(torch.randn(1, 1, 9, 6), domain)), "nested")
    raises("NotSharded", lambda: graticule.shard(nn.Sequential(torch.jit.script(nn.Softmax(2)), nn.Conv2d(1, 1, 1)), domain), "torch.jit.script")
    net = Act(lambda y: Doubled.apply(y))
    graticule.shard(net, domain)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(2):
            net(graticule.shard_of(torch.randn(1, 1, 9, 6), domain))
    assert sum("Doubled" in str(one.message) for one in found) == 1, [str(one.message) for one in found]


def test_options_of_layers_that_change_between_calls_are_seen():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm, self.pool, self.drop = nn.Conv2d(2, 2, 3, padding=1), nn.BatchNorm2d(2), nn.AvgPool2d(2), nn.Dropout(0.0)

        def forward(self, x):
            return self.drop(self.pool(self.norm(self.conv(x))))

    changes = (lambda net: setattr(net.norm, "momentum", 0.5), lambda net: setattr(net.norm, "eps", 0.5), lambda net: setattr(net.conv, "padding_mode", "circular"),
               lambda net: setattr(net.conv, "stride", (1, 2)), lambda net: (setattr(net.pool, "kernel_size", 3), setattr(net.pool, "stride", 3)),
               lambda net: setattr(net.drop, "p", 1.0))
    serial, domain = Net().double(), graticule.Domain(COMM)
    net = copy.deepcopy(serial)
    graticule.shard(net, domain)
    whole = torch.randn(2, 2, 14, 12, dtype=torch.float64)
    for change in (lambda net: None, *changes):
        change(serial), change(net)
        close(graticule.whole_field(net(graticule.shard_of(whole, domain, rows=uneven(14))).detach(), domain), serial(whole), 1e-10)
        close(net.norm.running_mean, serial.norm.running_mean, 1e-10)


def test_backward_hooks_of_modules_are_refused():
    if RANKS == 1:
        skip("one rank: gradients are whole")
    net = Act(lambda y: y)
    net.conv.register_full_backward_hook(lambda module, before, after: None)
    graticule.shard(net, graticule.Domain(COMM))
    raises("NotSharded", lambda: net(graticule.shard_of(torch.randn(1, 1, 9, 6), graticule.Domain(COMM))), "conv (Conv2d)", "backward hook")


def test_functions_of_cells_and_channels_pass():
    domain = graticule.Domain(COMM)
    whole = torch.randn(2, 1, 9, 6, dtype=torch.float64)
    for act in (lambda y: y.softmax(1), lambda y: torch.sigmoid(y) * y, lambda y: torch.cat(y.chunk(2, 0), 1), lambda y: y.sum(1),
                lambda y: torch.maximum(y, -y), lambda y: y.permute(0, 2, 3, 1).permute(0, 3, 1, 2), lambda y: y.flatten(2).unflatten(2, (9, 6)) + y.data,
                lambda y: torch.cat([y.flatten(2)] * 2, 1).view(2, 2, 9, 6), lambda y: y.permute(1, 2, 3, 0).movedim(-1, 0), lambda y: F.leaky_relu(y, 0.1),
                lambda y: torch.where(y > 0, y, -y)):
        assert_equals_serial(act, whole, domain)


def test_dropout_of_functions_zeroes_the_same_cells_on_any_number_of_ranks():
    domain, alone = graticule.Domain(COMM), graticule.Domain(MPI.COMM_SELF)
    whole = torch.randn(2, 1, 9, 6, dtype=torch.float64)
    serial = Act(lambda y: F.dropout(y, 0.5) + F.dropout(y.flatten(2).transpose(1, 2), 0.25).transpose(1, 2).view_as(y))
    nets = [copy.deepcopy(serial.double()) for _ in range(2)]
    for net, own in zip(nets, (domain, alone)):
        graticule.shard(net, own)
    for _ in range(2):
        y = on_globe(nets[0](graticule.shard_of(whole, domain)), domain)
        close(y, nets[1](whole))
        assert 0 < (y == 0).sum() < y.numel() / 2


class Drops(nn.Module):
    """Dropouts of fields, of tokens, of means of the globe (cut on some numbers of ranks, whole on others), and of axes in another order."""
    def __init__(self):
        super().__init__()
        self.conv, self.drop, self.alpha, self.channels = nn.Conv2d(1, 4, 3, padding=1), nn.Dropout(0.4), nn.AlphaDropout(0.3), nn.Dropout2d(0.4)

    def forward(self, x):
        y = self.conv(x)
        tokens = y.flatten(2).transpose(1, 2)
        tokens = self.drop(tokens) + self.alpha(tokens)
        means = y.mean((2, 3), keepdim=True)
        means = self.channels(means) + self.alpha(means) + self.drop(means.flatten(1)).view_as(means) + F.dropout(means, 0.3)
        means = torch.utils.checkpoint.checkpoint(lambda one: self.drop(one).square() + self.alpha(one), means, use_reentrant=True)
        turned = y.permute(0, 2, 3, 1)
        turned = self.drop(turned) + self.channels(turned)
        return self.channels(self.drop(y)) + tokens.transpose(1, 2).unflatten(2, x.shape[-2:]) * means + turned.permute(0, 3, 1, 2)


def test_dropout_of_layers_zeroes_the_same_cells_however_tensors_are_cut():
    torch.manual_seed(0)
    serial, whole = Drops().double(), torch.randn(2, 1, 9, 6, dtype=torch.float64)
    nets = [copy.deepcopy(serial) for _ in range(2)]
    domain = graticule.Domain(COMM)
    for net, own in zip(nets, (domain, graticule.Domain(MPI.COMM_SELF))):
        graticule.shard(net, own, seed=3)
    torch.manual_seed(RANK)  # masks of torch itself would differ
    for _ in range(2):
        y, alone = nets[0](graticule.shard_of(whole, domain)), nets[1](whole)
        close(on_globe(y, domain), alone)
    graticule.reduce_loss(y.square().sum(), domain).backward()
    alone.square().sum().backward()
    close(torch.from_numpy(COMM.allreduce(nets[0].conv.weight.grad.numpy())), nets[1].conv.weight.grad)
    for net in nets:
        net.eval()
    close(on_globe(nets[0](graticule.shard_of(whole, domain)), domain), nets[1](whole))


def test_dropout_is_that_of_the_globe_after_one_that_drops_nothing():
    domain, alone = graticule.Domain(COMM), graticule.Domain(MPI.COMM_SELF)
    whole = torch.randn(2, 1, 9, 6, dtype=torch.float64)
    for values in ((0.0, 0.5), (0.5, 0.0, 0.25)):
        torch.manual_seed(0)
        serial = Act(lambda y, values=values: sum(F.dropout(y, p) for p in values)).double()
        nets = [copy.deepcopy(serial) for _ in range(2)]
        for net, own in zip(nets, (domain, alone)):
            graticule.shard(net, own)
        torch.manual_seed(RANK)  # masks of torch itself would differ
        close(on_globe(nets[0](graticule.shard_of(whole, domain)), domain), nets[1](whole))


@torch.jit.script
def scripted(x):
    return x - x.mean()


def written(where, value=0.0):
    """A function that writes to some cells of a copy."""
    def act(x):
        y = x.clone()
        y[where(y) if callable(where) else where] = value
        return y
    return act


ALL = slice(None)
WRONG_ON_SHARDS = {
    "getitem": [lambda x: x[x > 0]], "numpy": [lambda x: x + float(x.detach().numpy().mean()), lambda x: x + x.data.numpy().max()],
    "__array__": [lambda x: x + float(np.asarray(x.detach()).mean())], "tolist": [lambda x: x + len(x.tolist())],
    "dlpack": [lambda x: x + torch.from_dlpack(x.detach()).mean()],
    "vmap": [lambda x: x - torch.vmap(lambda z: z.mean())(x)[:, None, None, None]], "scripted of torch.jit.script": [scripted],
    "allclose": [lambda x: x if torch.allclose(x, x * 0) else -x], "torch.equal": [lambda x: x if torch.equal(x, x) else -x],
    "gumbel_softmax": [lambda x: F.gumbel_softmax(x, dim=1)], "exponential_": [lambda x: x.clone().exponential_()], "item": [lambda x: x * x.item()]}


def test_what_is_not_known_to_act_on_cells_is_refused_by_name():
    domain = graticule.Domain(COMM)
    x = graticule.shard_of(torch.randn(1, 1, 13, 8), domain, rows=uneven(13))
    for name, acts in WRONG_ON_SHARDS.items():
        for act in acts:
            net = Act(act)
            graticule.shard(net, domain)
            raises("NotSharded", lambda: net(x), name)
    assert scripted(torch.ones(2)).sum() == 0  # outside of a model


def test_sizes_and_indices_are_those_of_the_globe():
    domain = graticule.Domain(COMM)
    torch.manual_seed(8)
    whole = torch.randn(2, 1, 13, 8)
    norm = torch.randn(1, 8)
    for act in (lambda x: x / x.numel() + torch.numel(x) * x.nbytes, lambda x: x * len(x[0, 0]), lambda x: x[:, :, 0:13, :8] + x[-1:],
                written((ALL, 0), 2.0), written(lambda y: y < 0), lambda x: torch.stack([row * 2 for row in x])[[1, 0]],
                lambda x: x[0][None].expand(2, 3, 13, 8)[:, 1:2], lambda x: x[:, None].squeeze().unsqueeze(1), lambda x: x + norm,
                lambda x: x.permute(0, 2, 3, 1)[..., 0].unsqueeze(1), lambda x: x.flatten(2).view_as(x), lambda x: x[torch.tensor([1, 0])] * x[:, 0:1],
                lambda x: F.dropout(x, 0.5, training=False) + F.dropout2d(x, p=0.0), lambda x: x * F.one_hot((x > 0).long(), 2)[..., 1],
                lambda x: F.embedding((x > 0).long(), torch.tensor([[1.0, 2.0], [3.0, 4.0]])).sum(-1)):
        serial = Act(act)
        net = copy.deepcopy(serial)
        graticule.shard(net, domain)
        for rows in (balanced(13), [13] + [0] * (RANKS - 1)):
            close(graticule.whole_field(net(graticule.shard_of(whole, domain, rows=rows)), domain), serial(whole), 1e-5)
            graticule.reset_structure(net)


class Called(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def test_functions_that_few_models_use_are_those_of_the_globe():
    domain = graticule.Domain(COMM)
    whole = torch.randn(2, 1, 13, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    lengths, table = torch.tensor([4, 9]), torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    both = (lambda x: torch.frexp(x)[0] * torch.frexp(x)[1], lambda x: torch.complex(x, -x)[0, 0].H.imag[None, None].mT * 1.0, lambda x: x.mH.adjoint() * 2,
            lambda x: F.dropout3d(x, training=False) * 2, lambda x: torch.segment_reduce(x[0, 0], "sum", lengths=lengths, axis=0),
            lambda x: F.embedding_bag((x[:, 0] > 0).long().flatten(1), table, mode="sum"))
    eager_only = (lambda x: x.narrow(-1, torch.tensor(2), 3), lambda x: torch.cat(torch.tensor_split(x, torch.tensor([3, 7]), -2)[::-1], -2))
    for act in (*both, *eager_only):
        alone = whole.clone().requires_grad_()
        wanted = Called(act)(alone)
        wanted.sin().sum().backward() if wanted.requires_grad else None
        eager = Called(act)
        graticule.shard(eager, domain)
        for net in (eager, graticule.shard_program(Called(act), domain))[:2 if act in both else 1]:
            x = graticule.shard_of(whole, domain, rows=uneven(13)).clone().requires_grad_()
            y = net(x)
            is_cut = RANKS > 1 and y.dim() > 2 and y.shape != wanted.shape
            close(graticule.whole_field(y, domain) if is_cut else y, wanted)
            if wanted.requires_grad:
                graticule.reduce_loss(y.sin().sum() * float(is_cut or RANK == 0), domain).backward()
                close(x.grad, graticule.shard_of(alone.grad, domain, rows=uneven(13)))


def test_cells_of_a_mask_that_is_whole():
    domain = graticule.Domain(COMM)
    masks = [torch.arange(size).reshape(shape) % 3 > 0 for size, shape in ((8, (8,)), (13, (13, 1)), (104, (1, 13, 8)), (2, (2, 1, 1, 1)))]
    for mask in [*masks, torch.ones(1, 1, dtype=torch.bool), torch.zeros((), dtype=torch.bool)]:
        for act in (lambda x: torch.masked_select(x, mask).sin() * 2, lambda x: x.masked_select(mask=mask).reshape(-1)):
            assert_equals_serial(act, torch.randn(2, 1, 13, 8, dtype=torch.float64), domain, rows=uneven(13))


def test_functions_that_need_values_or_memory_are_refused_with_a_way_out():
    domain = graticule.Domain(COMM)
    x = graticule.shard_of(torch.randn(1, 1, 13, 8), domain, rows=uneven(13))
    for act, text in ((lambda x: torch.masked_select(x, x > 0), "mask them by torch.where"), (lambda x: torch.tensor_split(x, (x[0, 0, :, 0] > 9).long(), -1)[0], "pass numbers of Python"), (lambda x: x.as_strided((1, 1, 2, 8), (1, 1, 8, 1)), "by slices, reshape or unfold"),
                      (lambda x: x.clone().transpose_(2, 3), "changes the axes"), (lambda x: x.clone().unsqueeze_(1), "changes the axes")):
        net = Called(act)
        graticule.shard(net, domain)
        raises("NotSharded", lambda: net(x), text)


def test_tensors_of_other_sizes_are_named_on_all_ranks():
    if RANKS == 1:
        skip("one rank: nothing is cut")
    domain = graticule.Domain(COMM)
    own = graticule.shard_of(torch.randn(1, 1, 13, 8), domain).clone()
    for act in (lambda x: x + own, lambda x: own * x, lambda x: torch.cat([x, own], 1), lambda x: torch.where(x > 0, x, own[0, 0])):
        net = Act(act)
        graticule.shard(net, domain)
        raises("NotSharded", lambda: net(graticule.shard_of(torch.randn(1, 1, 13, 8), domain)), "graticule.field", "on the globe")



class SqueezeAndExcitation(nn.Module):
    """Channels are weighed by a function of the means of the globe, which is a field of one cell."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 3, padding=1)
        self.weigh = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(2, 4, 1), nn.ReLU(), nn.Conv2d(4, 2, 1), nn.Sigmoid())

    def forward(self, x):
        y = self.conv(x)
        return self.weigh(y) * y + x * self.weigh(x)


def test_a_field_of_one_cell_meets_all_cells():
    check_training(SqueezeAndExcitation, random_fields(), uneven)
    check_training(SqueezeAndExcitation, random_fields(), lambda rows: [0] * (RANKS - 1) + [rows], steps=2)


def test_other_cuts_after_reset_structure():
    domain = graticule.Domain(COMM)
    torch.manual_seed(3)
    serial = ShuffledUp().double()
    net = copy.deepcopy(serial)
    graticule.shard(net, domain)
    field = torch.randn(1, 2, 22, 8, dtype=torch.double)
    for sizes in (balanced(22), uneven(22)):
        close(graticule.whole_field(net(graticule.shard_of(field, domain, rows=sizes)), domain), serial(field))
        graticule.reset_structure(net)


def test_checkpointed_parts_have_the_same_gradients():
    domain = graticule.Domain(COMM)
    torch.manual_seed(4)

    class Checkpointed(ShuffledUp):
        def forward(self, x):
            return graticule.checkpoint(domain, super().forward, x)

    plain, net = ShuffledUp().double(), Checkpointed().double()
    net.load_state_dict(plain.state_dict())
    field = graticule.shard_of(torch.randn(1, 2, 22, 8, dtype=torch.double), domain, rows=uneven(22))
    for model in (plain, net):
        graticule.shard(model, domain)
        graticule.reduce_loss(model(field).square().sum(), domain).backward()
    for a, b in zip(plain.parameters(), net.parameters()):
        close(b.grad, a.grad)


def test_a_layer_takes_fields_with_other_cuts_in_turn():
    """Also where the shard of one rank alone stays the same."""
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.c = nn.Conv2d(2, 2, 3, padding=1, padding_mode="circular", dtype=torch.float64)

        def forward(self, x, others):
            return [self.c(x), *(self.c(y) for y in others), self.c(x)]

    first, domain = uneven(4 * RANKS + 3), graticule.Domain(COMM)
    every = [first] + [[first[0], *(n + 1 + i for n in first[1:])] for i in range(9)]
    whole = [torch.randn(1, 2, sum(rows), 8, dtype=torch.float64).requires_grad_() for rows in every]
    serial = Both()
    net = copy.deepcopy(serial)
    graticule.shard(net, domain)
    parts = [graticule.shard_of(x.detach(), domain, rows=rows).clone().requires_grad_() for x, rows in zip(whole, every)]
    for _ in range(2):
        for x in (*whole, *parts):
            x.grad = None
        net.zero_grad()
        serial.zero_grad()
        sum(y.square().sum() for y in serial(whole[0], whole[1:])).backward()
        graticule.reduce_loss(sum(y.square().sum() for y in net(parts[0], parts[1:])), domain).backward()
        graticule.GradientSync(net, [(COMM, "sum")]).reduce()
        for x, part, rows in zip(whole, parts, every):
            close(part.grad, graticule.shard_of(x.grad, domain, rows=rows), 1e-10)
        close(net.c.weight.grad, serial.c.weight.grad, 1e-10)


def test_a_trial_finds_no_difference():
    domain = graticule.Domain(COMM)
    torch.manual_seed(5)
    serial = UNet().double()
    net = copy.deepcopy(serial)
    graticule.shard(net, domain)
    trial = graticule.try_sharded(serial, net, torch.randn(1, 2, 11, 8, dtype=torch.double), domain)
    assert isinstance(trial, graticule.Trial) and trial.output_difference < 1e-12 and trial.gradient_difference < 1e-12 and "enter.0" in trial.text, trial
    with torch.no_grad():
        net.last.weight += 1
    assert graticule.try_sharded(serial, net, torch.randn(1, 2, 11, 8, dtype=torch.double), domain).output_difference > 1e-3


def test_padding_by_domain_and_dropout():
    domain = graticule.Domain(COMM)
    net = nn.Sequential(nn.Conv2d(1, 1, 3, padding=1, bias=False), nn.Dropout(0.5))
    graticule.shard(net, domain, padding="domain", seed=3)
    with torch.no_grad():
        net[0].weight.fill_(1.0)
    x = graticule.shard_of(torch.ones(1, 1, 9, 6), domain)
    close(graticule.whole_field(net.eval()(x), domain), torch.full((1, 1, 9, 6), 9.0))
    whole = graticule.whole_field(net.train()(x), domain)
    assert 0 < (whole == 0).sum() < whole.numel() and domain.num_draws == 1
    masks = COMM.gather(whole.tolist())
    assert RANK or all(m == masks[0] for m in masks)


class Scaled(nn.Module):
    """A sharded model within code that is compiled."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return 3 * torch.sin(self.inner(2 * torch.cos(x)))


def test_compiled_models_give_the_values_and_gradients_of_the_serial_one():
    domain = graticule.Domain(COMM)
    torch.manual_seed(6)
    serial = PlainUNet().double()
    net = copy.deepcopy(serial)
    graticule.shard(net, domain)
    whole = torch.randn(1, 2, 11, 8, dtype=torch.double)
    expected = Scaled(serial)(whole)
    expected.square().sum().backward()
    for backend in ("eager", "aot_eager"):
        torch._dynamo.reset()
        net.zero_grad()
        y = torch.compile(Scaled(net), backend=backend)(graticule.shard_of(whole, domain))
        close(graticule.whole_field(y, domain), expected)
        graticule.reduce_loss(y.square().sum(), domain).backward()
        graticule.GradientSync(net, [(COMM, "sum")]).reduce()
        for a, b in zip(net.parameters(), serial.parameters()):
            close(a.grad, b.grad, 1e-11)


def test_a_graph_without_breaks_is_refused_by_name():
    domain = graticule.Domain(COMM)
    net = nn.Sequential(nn.Conv2d(1, 1, 3, padding=1), nn.ReLU())
    graticule.shard(net, domain)
    x = graticule.shard_of(torch.randn(1, 1, 9, 6), domain)
    halo = graticule.nn.HaloExchange(domain, latitude=(1, 1))
    for call, name in ((Scaled(net), "Sequential.forward, sharded, of graticule"), (lambda y: graticule.all_sum(y, domain) + 1, "all_sum of graticule"),
                       (lambda y: halo(y) + 1, "of graticule")):
        torch._dynamo.reset()
        try:
            torch.compile(call, backend="eager", fullgraph=True)(x)
        except torch._dynamo.exc.Unsupported as error:
            assert name in str(error), error
        else:
            raise AssertionError(f"was compiled: {name}")


main(globals())
