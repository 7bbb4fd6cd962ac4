# SPDX-License-Identifier: BSD-3-Clause
"""`graticule.shard_program` and `graticule.Program`: any model on shards, equal to the serial model."""
import collections
import copy
import dataclasses
import functools
import gc
import importlib.util
import os
import random
import shutil
import tempfile
import warnings

import numpy as np
import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from mpi4py import MPI
from torch import nn
from torch.utils.checkpoint import checkpoint

import graticule
from support import COMM, RANK, RANKS, balanced, close, main, raises, uneven

DOMAIN = graticule.Domain(COMM)
ROWS, COLUMNS = 3 * RANKS + 5, 12
CUTS = uneven(ROWS)


def cut(whole, cuts=None):
    return graticule.shard_of(whole, DOMAIN, rows=CUTS if cuts is None else cuts)


def fields(channels=3, batch=2, seed=1):
    return torch.randn(batch, channels, ROWS, COLUMNS, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


class Lines(nn.Module):
    """Two convolutions with one line between them."""

    def __init__(self, line, channels=4):
        super().__init__()
        torch.manual_seed(0)
        self.a = nn.Conv2d(3, channels, 3, padding=1, dtype=torch.float64)
        self.weight = nn.Parameter(torch.randn(channels, channels, 3, 3, dtype=torch.float64) * 0.2)
        self.scale = nn.Parameter(torch.randn(1, channels, ROWS, 1, dtype=torch.float64))
        self.mix = nn.Parameter(torch.randn(ROWS, ROWS, dtype=torch.float64) * 0.2)
        self.b = nn.Conv2d(channels, 2, 3, padding=1, dtype=torch.float64)
        self.line = line

    def forward(self, x):
        return self.b(self.line(self, self.a(x)))


def attention(net, h):
    tokens = h.flatten(2).transpose(1, 2)
    scores = torch.softmax(tokens @ tokens.transpose(1, 2) / 2, -1)
    return (scores @ tokens).transpose(1, 2).reshape(h.shape)


LINES = {
    "mean over the globe": lambda net, h: h - h.mean((-2, -1), keepdim=True),
    "roll by a row": lambda net, h: torch.roll(h, 1, -2),
    "roll by a column": lambda net, h: torch.roll(h, 1, -1),
    "flip": lambda net, h: torch.flip(h, (-2,)),
    "slice and pad": lambda net, h: F.pad(h[..., 1:, :], (0, 0, 1, 0)),
    "cumulative sum along rows": lambda net, h: h.cumsum(-2),
    "deviation of columns": lambda net, h: h / (1 + h.std(-1, keepdim=True)),
    "softmax over rows": lambda net, h: h * torch.softmax(h, -2),
    "einsum along rows": lambda net, h: torch.einsum("bchw,hk->bckw", h, net.mix),
    "Fourier transform of rows": lambda net, h: torch.fft.irfft(torch.fft.rfft(h, dim=-1) * 0.5, n=COLUMNS, dim=-1),
    "Fourier transform of both axes": lambda net, h: torch.fft.irfft2(torch.fft.rfft2(h) * 0.5, s=h.shape[-2:]),
    "layer norm over the globe": lambda net, h: F.layer_norm(h, h.shape[1:]),
    "convolution with a weight of the model": lambda net, h: F.conv2d(h, net.weight, padding=1),
    "parameter of the rows": lambda net, h: h * net.scale,
    "adaptive pooling to one": lambda net, h: h * F.adaptive_avg_pool2d(h, 1),
    "interpolation after pooling": lambda net, h: F.interpolate(F.avg_pool2d(h, 2), size=h.shape[-2:], mode="bilinear"),
    "tokens and attention": attention,
    "masks joined by & | ^": lambda net, h: h * (((h > 0) & (h < 1)) | ((h < -1) ^ (h.flip(-2) > 0))),
    "covariances and counts": lambda net, h: h * torch.cov(h[0, 0]).mean() + torch.corrcoef(h[0, 1].T)[:, :1].mean() + torch.histc(h.detach(), 5, -1, 1).max(),
    "bits of integers": lambda net, h: h * ((((h.detach() * 4).int() & 7) | 8) << 1 >> 2),
    "windows of signals": lambda net, h: h * torch.hann_window(COLUMNS, dtype=h.dtype) * torch.hamming_window(ROWS, dtype=h.dtype)[:, None],
}


def gradients_of(loss, net):
    net.zero_grad()
    loss.backward()
    graticule.GradientSync(net, [(COMM, "sum")]).reduce()


def assert_equals_serial(serial, net, x, needs=True, **options):
    """Outputs, gradients of parameters and input, and four steps of an optimizer. Returns the model after these, and on shards.

    needs: whether the input of the steps needs a gradient. If not, it is another structure, which takes another capture.
    """
    net = copy.deepcopy(net)
    serial = copy.deepcopy(serial)
    sharded = graticule.shard_program(net, DOMAIN, **options)
    whole = x.clone().requires_grad_()
    part = cut(x).clone().requires_grad_()
    factors = torch.randn(serial(x).shape, dtype=x.dtype, generator=torch.Generator().manual_seed(7))
    out = serial(whole)
    (out * factors).sum().backward()
    mine = sharded(part)
    close(graticule.whole_field(mine.detach(), DOMAIN), out, 1e-10)
    gradients_of(graticule.reduce_loss((mine * cut(factors)).sum(), DOMAIN), net)
    close(graticule.whole_field(part.grad, DOMAIN), whole.grad, 1e-10)
    for (name, found), wanted in zip(net.named_parameters(), serial.parameters()):
        assert (found.grad is None) == (wanted.grad is None), name
        if found.grad is not None:
            close(found.grad, wanted.grad, 1e-10)
    # eps: gradients that are 0 but for rounding, as of biases before a norm, are no steps of the size of eps.
    optimizers = [torch.optim.AdamW(one.parameters(), lr=0.01, eps=1e-6) for one in (net, serial)]
    for _ in range(4):
        gradients_of(graticule.reduce_loss((sharded(cut(x).clone().requires_grad_(needs)) * cut(factors)).sum(), DOMAIN), net)
        optimizers[0].step()
        serial.zero_grad()
        (serial(x) * factors).sum().backward()
        optimizers[1].step()
    for (name, found), wanted in zip(net.named_parameters(), serial.parameters()):
        close(found, wanted, 1e-8)
    return net, sharded


def test_everyday_lines_equal_the_serial_model():
    for number, (name, line) in enumerate(LINES.items()):
        net = Lines(line)
        try:
            assert_equals_serial(net, net, fields(), needs=number % 4 > 0)
        except Exception as error:
            raise AssertionError(f"{name}: {error}") from error


def test_products_of_parameters_are_computed_for_the_own_cells():
    def line(net, h):
        queries = F.linear(net.mix[:3, :4].expand(ROWS * COLUMNS, 3, 4), net.weight[:, :, 0, 0])
        return torch.tanh(h.flatten(2).mT[:, :, None] * queries).sum(2).mT.reshape(h.shape)

    net = Lines(line)
    _, sharded = assert_equals_serial(net, net, fields(batch=1))
    product, = [node for node in sharded.report.nodes if node.where.startswith("aten.linear")]
    assert product.axis == 0, product


class LazyHooks(nn.Module):
    """Installs hooks on its first call that collect what its layers return, as models of Transformers do."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Conv2d(3, 3, 3, padding=1, dtype=torch.float64) for _ in range(3))
        self.found = []

    def forward(self, x):
        if not getattr(self, "hooked", False):
            for layer in self.layers:
                layer.register_forward_hook(lambda _, __, y: self.found.append(y))
            self.hooked = True
        self.found.clear()
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return self.found[1] * x + sum(self.found)


def test_a_model_that_installs_hooks_on_its_first_call():
    net = LazyHooks()
    wanted = copy.deepcopy(net)(fields())
    close(graticule.whole_field(graticule.shard_program(net, DOMAIN)(cut(fields())).detach(), DOMAIN), wanted, 1e-10)
    close(net(fields()), wanted, 1e-12)
    assert sum(len(layer._forward_hooks) for layer in net.layers) == 3, "the serial call installs its own hooks once"


@functools.lru_cache(maxsize=None)
def cached_mask(rows, columns):
    return torch.sin(torch.arange(rows * columns, dtype=torch.float64)).reshape(rows, columns)


def test_tensors_that_a_function_caches():
    cached_mask.cache_clear()
    net = Lines(lambda net, h: h * cached_mask(*h.shape[-2:]))
    found = graticule.whole_field(graticule.shard_program(net, DOMAIN)(cut(fields())).detach(), DOMAIN)
    close(found, net(fields()), 1e-10)  # the serial model, behind the capture, makes its own
    assert_equals_serial(net, net, fields())  # and the capture takes that


def slope(net, h, create_graph):
    y = torch.tanh(h)
    found, = torch.autograd.grad((y * y.cumsum(-2)).sum(), y, create_graph=create_graph, retain_graph=True)
    return found * h


def test_gradients_that_a_model_takes_itself():
    for create_graph in (True, False):
        net = Lines(functools.partial(slope, create_graph=create_graph))
        assert_equals_serial(net, net, fields())


def test_a_model_that_asks_which_tensors_need_gradients():
    net = Lines(lambda net, h: h)
    net.b.requires_grad_(False)
    net.forward = lambda x: net.b(net.a(x) if x.requires_grad else net.a(x).sin()) * (2 if net.a(x).requires_grad else 1)
    sharded = graticule.shard_program(net, DOMAIN)
    whole, part = fields(), cut(fields())
    wanted = {needs: net(whole.clone().requires_grad_(needs)).detach() for needs in (True, False)}
    assert not torch.equal(wanted[True], wanted[False])
    for ranks in (range(RANKS), (), (RANKS - 1,), (0,), (), (RANKS - 1,)):  # which give a tensor that needs a gradient
        found = sharded(part.clone().requires_grad_(RANK in ranks)).detach()
        close(graticule.whole_field(found, DOMAIN), wanted[len(ranks) > 0], 1e-10)


def test_transforms_of_torch_func_are_refused_and_end():
    lines = {"jvp": lambda net, h: torch.func.jvp(lambda t: net.a(t).tanh(), (h[:, :3],), (torch.ones_like(h[:, :3]),))[1],
             "grad": lambda net, h: torch.func.grad(lambda t: net.b(t).sum())(h),
             "vmap": lambda net, h: torch.vmap(lambda t: t * t.mean(), in_dims=2, out_dims=2)(h)}
    for line in lines.values():
        raises("RefusedProgram", lambda: graticule.shard_program(Lines(line), DOMAIN)(cut(fields())), "torch.func", "torch.autograd.grad")
        torch.zeros(1).requires_grad_()  # which PyTorch refuses within a transform
        with torch.autograd.forward_ad.dual_level():
            pass
    net = Lines(lambda net, h: torch.vmap(lambda t: t * t.mean())(h))
    assert_equals_serial(net, net, fields())


def test_data_of_a_value_has_no_gradient():
    net = Lines(lambda net, h: h * torch.sigmoid(h.data) + torch.cat([h[:, :2].data, torch.zeros_like(h[:, 2:])], 1))
    assert_equals_serial(net, net, fields())


def test_a_function_of_a_package_whose_backward_is_the_derivative():
    class Contiguous(torch.autograd.Function):
        forward = staticmethod(lambda x: x.contiguous())
        setup_context = staticmethod(lambda ctx, inputs, output: None)
        backward = staticmethod(lambda ctx, grad: grad.contiguous())

    Contiguous.__module__, Contiguous.__qualname__ = "torch_harmonics.utils", "_EnsureContiguous"
    net = Lines(lambda net, h: Contiguous.apply(h.transpose(2, 3)).transpose(2, 3) * h)
    assert_equals_serial(net, net, fields())


class Drawing(nn.Module):
    """Random numbers of every operator that draws, added to a field."""

    LINES = {
        "stochastic depth": lambda x: x * x.new_empty(x.shape[0], 1, 1, 1).bernoulli_(0.7).div_(0.7),
        "dropped channels": lambda x: F.dropout2d(x, 0.4),
        "drop path by floor": lambda x: x * (0.7 + torch.rand(x.shape[0], 1, 1, 1, dtype=x.dtype)).floor(),
        "probabilities": lambda x: x + torch.bernoulli(torch.sigmoid(x)).detach(),
        "uniform": lambda x: x + torch.rand_like(x),
        "uniform in a range": lambda x: x + torch.empty_like(x).uniform_(-2, 3),
        "noise": lambda x: x + torch.randn_like(x),
        "noise of a size": lambda x: x + torch.randn(x.shape, dtype=x.dtype),
        "noise with a mean": lambda x: x + torch.empty_like(x).normal_(5, 2),
        "alpha dropout": lambda x: F.alpha_dropout(x, 0.3, training=True),
    }

    def __init__(self, line):
        super().__init__()
        self.scale, self.line = nn.Parameter(torch.ones((), dtype=torch.float64)), line

    def forward(self, x):
        return self.line(x * self.scale)


def test_random_numbers_depend_on_their_place_alone():
    x = fields(4, 6)
    alone = graticule.Domain(MPI.COMM_SELF)
    for name, line in Drawing.LINES.items():
        net = graticule.shard_program(Drawing(line), DOMAIN, seed=3)
        one = graticule.shard_program(Drawing(line), alone, seed=3)
        DOMAIN.num_draws = alone.num_draws = 0
        drawn = []
        for _ in range(2):
            wanted, part = one(x), net(cut(x))
            whole = graticule.whole_field(part.detach(), DOMAIN)
            assert torch.equal(whole, wanted.detach()), name
            part.sum().backward()
            drawn.append(whole)
        assert not torch.equal(drawn[0], drawn[1]), f"{name}: two calls draw the same"
        assert DOMAIN.num_draws == alone.num_draws == 2, name


def test_random_numbers_have_their_distributions():
    net = graticule.shard_program(Drawing(lambda x: torch.stack([
        torch.rand_like(x), torch.randn_like(x), torch.bernoulli(torch.full_like(x, 0.3)), torch.empty_like(x).normal_(5, 2)], 1) + 0 * x[:, None]), DOMAIN)
    x = torch.zeros(64, 8, ROWS, COLUMNS, dtype=torch.float64)
    found = graticule.whole_field(net(cut(x)).detach(), DOMAIN)
    count = found[:, 0].numel()
    for number, (mean, deviation) in enumerate(((0.5, 12**-0.5), (0, 1), (0.3, 0.21**0.5), (5, 2))):
        values = found[:, number]
        assert abs(values.mean().item() - mean) < 5 * deviation / count**0.5, (number, values.mean())
        assert abs(values.std().item() - deviation) < 0.02 * deviation, (number, values.std())
    assert found[:, 0].min() >= 0 and found[:, 0].max() < 1
    assert set(found[:, 2].unique().tolist()) == {0.0, 1.0}


def test_inputs_of_any_strides():
    net = Lines(LINES["mean over the globe"])
    for x in (fields().to(memory_format=torch.channels_last), fields().transpose(2, 3).contiguous().transpose(2, 3),
              fields(6)[:, ::2], fields(1).expand(2, 3, ROWS, COLUMNS)):
        whole = net(x)
        close(graticule.whole_field(graticule.shard_program(net, DOMAIN)(cut(x)).detach(), DOMAIN), whole)


def test_ranks_without_rows_and_other_cuts():
    net = Lines(LINES["roll by a row"])
    sharded = graticule.shard_program(net, DOMAIN)
    whole = net(fields())
    for cuts in ([ROWS] + [0] * (RANKS - 1), [0] * (RANKS - 1) + [ROWS], CUTS, balanced(ROWS)):
        found = sharded(cut(fields(), cuts)).detach()
        assert found.shape[-2] == cuts[RANK]
        close(graticule.whole_field(found, DOMAIN), whole)
    assert len(sharded._made) == 1, "the same globe is captured once"


def test_blocks_of_rows_and_columns():
    if RANKS % 2:
        domain = DOMAIN
    else:
        domain = graticule.Domain(COMM, grid=(RANKS // 2, 2))
    net = Lines(LINES["layer norm over the globe"])
    sharded = graticule.shard_program(net, domain)
    found = sharded(graticule.shard_of(fields(), domain))
    close(graticule.whole_field(found.detach(), domain), net(fields()))


Pair = collections.namedtuple("Pair", "x mask")


@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    levels: dict


torch.utils._pytree.register_dataclass(Batch)


class Inputs(nn.Module):
    """Takes its fields in any container, and returns containers."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.c = nn.Conv2d(3, 4, 3, padding=1, dtype=torch.float64)

    def forward(self, batch, time=None, *, scale=2.0, name="x"):
        if isinstance(batch, dict):
            x, mask = batch["x"], batch["more"]["mask"]
        elif isinstance(batch, Batch):
            x, mask = batch.x, batch.levels["mask"]
        elif isinstance(batch, (tuple, list)):
            x, mask = batch
        else:
            x, mask = batch, 1.0
        h = self.c(x - x.mean((-2, -1), keepdim=True)) * mask * scale
        if time is not None:
            h = h * time
        return {"y": h, "aux": [h.mean((2, 3)), (h[:, 0], None)], "name": name, "size": x.shape[-2]}


def test_fields_in_containers_and_keywords():
    x, mask = fields(), fields(1, 1, 2)[0, 0]
    for pack in (lambda a, b: {"x": a, "more": {"mask": b}}, lambda a, b: [a, b], lambda a, b: (a, b), Pair,
                 lambda a, b: Batch(a, {"mask": b})):
        net = Inputs()
        wanted = net(pack(x, mask), scale=3.0)
        found = graticule.shard_program(net, DOMAIN)(pack(cut(x), cut(mask)), scale=3.0)
        close(graticule.whole_field(found["y"].detach(), DOMAIN), wanted["y"])
        close(found["aux"][0], wanted["aux"][0])
        close(graticule.whole_field(found["aux"][1][0].detach(), DOMAIN), wanted["aux"][1][0])
        assert found["aux"][1][1] is None and found["name"] == "x" and found["size"] == ROWS
        assert isinstance(found["aux"][1], tuple)


def test_whole_inputs_are_found_or_declared():
    x = fields()
    net = Inputs()
    for time in (torch.full((2, 1, 1, 1), 0.5, dtype=torch.float64), torch.tensor(0.5, dtype=torch.float64)):
        sharded = graticule.shard_program(net, DOMAIN)
        close(graticule.whole_field(sharded(cut(x), time)["y"].detach(), DOMAIN), net(x, time)["y"])
        assert [one.field for one in sharded.report.inputs] == [True, False]

    class Tokens(Inputs):
        def forward(self, x, tokens):
            return self.c(x) * tokens.mean(1)[:, :, None, None] / tokens.shape[1]

    tokens = torch.randn(2, 5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    net = Tokens()
    raises("BadOption", lambda: graticule.shard_program(net, DOMAIN)(cut(x), tokens), "'tokens'", "whole=['tokens']")
    sharded = graticule.shard_program(net, DOMAIN, whole=["tokens"])
    close(graticule.whole_field(sharded(cut(x), tokens).detach(), DOMAIN), net(x, tokens))
    close(graticule.whole_field(graticule.shard_program(net, DOMAIN)(cut(x), graticule.whole(tokens)).detach(), DOMAIN), net(x, tokens))
    raises("BadOption", lambda: graticule.shard_program(net, DOMAIN, whole=["t"])(cut(x), tokens), "'t' is none of", "tokens")
    raises("BadOption", lambda: graticule.shard_program(net, DOMAIN, fields=["x"], whole=["*"])(cut(x), tokens), "'x'")
    if RANKS > 1:
        other = tokens + RANK
        raises("StructureDisagreement", lambda: graticule.shard_program(net, DOMAIN, whole=["tokens"])(cut(x), other), "'tokens'", "checksum")


def test_fields_of_other_sizes_are_declared():
    class Coarse(nn.Module):
        def forward(self, x, coarse):
            return x + F.interpolate(coarse, size=x.shape[-2:], mode="nearest")

    x = fields()
    coarse = torch.randn(2, 3, 2 * RANKS, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    close(graticule.whole_field(graticule.shard_program(Coarse(), DOMAIN)(cut(x), graticule.shard_of(coarse, DOMAIN)), DOMAIN), Coarse()(x, coarse))
    own = graticule.shard_of(coarse, DOMAIN).clone()
    raises("BadOption", lambda: graticule.shard_program(Coarse(), DOMAIN)(cut(x), own), "'coarse'", "fields=['coarse']")
    sharded = graticule.shard_program(Coarse(), DOMAIN, fields=["x", "coarse"])
    close(graticule.whole_field(sharded(cut(x), own), DOMAIN), Coarse()(x, coarse))
    assert sharded.report.inputs[1].shape == (2, 3, 2 * RANKS, 6)
    if RANKS > 1:
        other = uneven(2 * RANKS) if uneven(2 * RANKS) != [2] * RANKS else [3, 1] + [2] * (RANKS - 2)
        moved = graticule.shard_of(coarse, DOMAIN, rows=other)
        raises("BadLayout", lambda: sharded(cut(x), moved.clone()), "'coarse'", f"{other} rows", f"into {[2] * RANKS}", "evenly")
        raises("BadLayout", lambda: graticule.shard_program(Joined(), DOMAIN)(cut(x), graticule.field(cut(x, CUTS[::-1]).clone())), "'y'", f"into {CUTS}", "as 'x' is")
        close(graticule.whole_field(sharded(cut(x), own), DOMAIN), Coarse()(x, coarse))
    close(graticule.whole_field(graticule.shard_program(Coarse(), DOMAIN)(cut(x), graticule.field(own)), DOMAIN), Coarse()(x, coarse))


class Norms(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a = nn.Conv2d(3, 4, 3, padding=1, bias=False, dtype=torch.float64)
        self.n = nn.BatchNorm2d(4, dtype=torch.float64)
        self.d = nn.Dropout(0.4)
        self.b = nn.Conv2d(4, 2, 1, dtype=torch.float64)

    def forward(self, x):
        return self.b(self.d(F.gelu(self.n(self.a(x)))))


def test_running_statistics_and_modes_are_those_of_the_model():
    serial, net = Norms(), Norms()
    serial.d.p = net.d.p = 0.0
    sharded = graticule.shard_program(net, DOMAIN)
    close(graticule.whole_field(sharded(cut(fields())).detach(), DOMAIN), serial(fields()))
    close(net.n.running_var, serial.n.running_var)
    assert net.n.num_batches_tracked == 1 and list(sharded.state_dict()) == list(net.state_dict())
    sharded.eval()
    serial.eval()
    assert not net.training and not net.n.training and not sharded.training
    with torch.no_grad():
        y = sharded(cut(fields()))
    assert not y.requires_grad
    close(graticule.whole_field(y, DOMAIN), serial(fields()))
    sharded.train()
    assert net.n.training
    net.load_state_dict(serial.state_dict())
    sharded.eval()
    close(graticule.whole_field(sharded(cut(fields())).detach(), DOMAIN), serial(fields()))


class GivenStatistics(nn.Module):
    """A batch norm that updates statistics which the caller holds."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a = nn.Conv2d(3, 3, 3, padding=1, dtype=torch.float64)

    def forward(self, x, mean, variance):
        return F.batch_norm(self.a(x), mean, variance, training=True)


def test_running_statistics_may_be_inputs():
    net, whole, part = GivenStatistics(), fields().requires_grad_(), cut(fields()).clone().requires_grad_()
    wanted, found = ([torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)] for _ in range(2))
    factors = fields(seed=2)
    y = net(whole, *wanted)
    (y * factors).sum().backward()
    mine = graticule.shard_program(copy.deepcopy(net), DOMAIN)(part, *found)
    graticule.reduce_loss((mine * cut(factors)).sum(), DOMAIN).backward()
    close(graticule.whole_field(mine.detach(), DOMAIN), y.detach(), 1e-10)
    close(graticule.whole_field(part.grad, DOMAIN), whole.grad, 1e-10)
    for one, other in zip(found, wanted):
        close(one, other, 1e-10)


class Averages(nn.Module):
    """Batch norms whose running statistics are the means over all batches, between convolutions of the same channels."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a = nn.Conv2d(3, 3, 3, padding=1, bias=False, dtype=torch.float64)
        self.norm = nn.BatchNorm2d(3, momentum=None, dtype=torch.float64)
        self.b = nn.Conv2d(3, 3, 3, padding=1, dtype=torch.float64)

    def forward(self, x):
        return self.b(self.norm(self.a(x)))


def test_statistics_that_are_means_over_all_batches():
    serial, net = Averages(), Averages()
    assert_equals_serial(serial, net, fields())
    sharded = graticule.shard_program(net, DOMAIN)
    for seed in range(3):
        serial(fields(seed=seed))
        sharded(cut(fields(seed=seed)))
    assert net.norm.num_batches_tracked == 3
    close(net.norm.running_mean, serial.norm.running_mean)
    close(net.norm.running_var, serial.norm.running_var)
    close(graticule.whole_field(sharded.eval()(cut(fields())).detach(), DOMAIN), serial.eval()(fields()))


class Likelihood(nn.Module):
    """The mean and the variance of cells, and the loss of the input as their sample."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.mean = nn.Conv2d(3, 3, 3, padding=1, dtype=torch.float64)
        self.raw = nn.Conv2d(3, 3, 3, padding=1, dtype=torch.float64)

    def forward(self, x, least=0.1):
        return F.gaussian_nll_loss(self.mean(x), x, self.raw(x).square() + least)


def test_a_loss_that_looks_at_the_values_of_a_variance():
    serial, net = Likelihood(), Likelihood()
    sharded = graticule.shard_program(net, DOMAIN)
    found, wanted = sharded(cut(fields())), serial(fields())
    close(found, wanted)
    gradients_of(found / RANKS, net)
    wanted.backward()
    for one, other in zip(net.parameters(), serial.parameters()):
        close(one.grad, other.grad)
    assert sharded(cut(fields()), least=-9.0).isnan()  # where the serial loss raises ValueError


class Masked(nn.Module):
    """Boolean masks as indices: of channels, of rows, of cells and of values that are written."""

    def __init__(self, cells):
        super().__init__()
        torch.manual_seed(0)
        self.a = nn.Conv2d(3, 4, 3, padding=1, dtype=torch.float64)
        self.register_buffer("cells", cells)
        self.channels = torch.tensor([True, False, True, True])
        self.register_buffer("rows", torch.arange(ROWS) % 3 != 1, persistent=False)

    def forward(self, x):
        h = self.a(x)[:, self.channels]
        sea = h[..., self.cells]
        h = h.clone()
        h[..., self.cells] = 0.5 * sea - sea.mean()
        return h * h[:, :, self.rows].mean((2, 3), keepdim=True) + h[:, [False, True, False]]


def test_masks_with_known_values_are_indices():
    cells = (torch.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS) * 7) % 5 > 2
    serial, net = Masked(cells.clone()), Masked(cells.clone())
    assert_equals_serial(serial, net, fields())
    sharded = graticule.shard_program(net, DOMAIN)
    for other in (cells, ~cells, cells.flip(0) & cells, ~cells):  # written in place, as load_state_dict does
        serial.load_state_dict({**serial.state_dict(), "cells": other})
        net.load_state_dict({**net.state_dict(), "cells": other})
        close(graticule.whole_field(sharded(cut(fields())).detach(), DOMAIN), serial(fields()))
    folder = COMM.bcast(tempfile.mkdtemp() if RANK == 0 else None)
    path = os.path.join(folder, "net.pt2")
    if RANK == 0:
        export_module().save(serial, (fields(),), path)
    COMM.Barrier()
    close(graticule.whole_field(graticule.Program(path, DOMAIN)(cut(fields())).detach(), DOMAIN), serial(fields()))
    COMM.Barrier()
    if RANK == 0:
        shutil.rmtree(folder)


class Options:
    def __init__(self):
        self.factor = 2.0

    def __call__(self, x):
        return x * self.factor


class Attributes(nn.Module):
    """Reads attributes that are neither parameters nor buffers."""

    def __init__(self):
        super().__init__()
        self.channels = torch.tensor([True, False, True])
        self.scale, self.offset = torch.tensor(2.0), torch.ones(ROWS, 1, dtype=torch.float64)
        self.power, self.steps, self.parts = 1.5, 0, [1.0, {"deep": 2.0}]
        self.options, self.rows = Options(), np.arange(ROWS) * 0.1
        self.norm, self.cache = nn.BatchNorm2d(3, dtype=torch.float64), {}

    def forward(self, x):
        if x.shape not in self.cache:
            self.cache[x.shape] = torch.arange(x.shape[-2], dtype=x.dtype)[:, None]
        h = self.norm(x)[:, self.channels].mean(1, keepdim=True) * self.scale.item() + self.offset + self.cache[x.shape]
        return self.options(h.abs() ** self.power * self.parts[0] * self.parts[1]["deep"]) + torch.tensor(self.rows)[:, None]


def test_attributes_that_change_between_calls_are_seen():
    changes = (lambda net: net.channels.logical_not_(), lambda net: net.scale.fill_(3.0), lambda net: net.offset.mul_(2),
               lambda net: setattr(net, "offset", net.offset * 2), lambda net: setattr(net, "power", 2.0),
               lambda net: net.parts[1].update(deep=1.0), lambda net: setattr(net.options, "factor", 5.0), lambda net: np.negative(net.rows, out=net.rows),
               lambda net: setattr(net.norm, "eps", 0.5), lambda net: net.norm.register_forward_hook(lambda part, given, result: 2 * result))
    serial, net = Attributes(), Attributes()
    sharded = graticule.shard_program(net, DOMAIN)
    before = None
    for number, change in enumerate((lambda net: None, *changes)):
        change(serial), change(net)
        out = serial(fields())
        assert before is None or not torch.equal(out, before), number
        close(graticule.whole_field(sharded(cut(fields())).detach(), DOMAIN), out, 1e-10)
        before = out
    programs = DOMAIN._num_programs
    serial.steps = net.steps = 7  # which nothing reads
    sharded(cut(fields()))
    serial.power = net.power = 1.5
    net.power = 2.0
    sharded(cut(fields()))
    assert DOMAIN._num_programs == programs


class Keeps(nn.Module):
    """A state of the network that is no buffer."""

    def __init__(self, line):
        super().__init__()
        self.line, self.state, self.count, self.is_first, self.found, self.options, self.size = line, None, 1, True, [], Options(), None

    def forward(self, x):
        return self.line(self, x)


def kept_state(net, x):
    net.state = x if net.state is None else x + 0.5 * net.state
    return net.state


def kept_mean(net, x):
    if not hasattr(net, "late"):
        net.late = x.detach().mean()
    return x - net.late


def kept_flag(net, x):
    was_first, net.is_first = net.is_first, False
    return 2 * x if was_first else x


def kept_list(net, x):
    net.found.append(x.detach().mean())
    return 2 * x


def kept_options(net, x):
    net.options.factor += 1
    return net.options(x)


def used_count(net, x):
    net.count += 1
    return x * net.count


def unused_count(net, x):
    net.count += 1
    net.count -= 3
    return 2 * x


def kept_grid(net, x):
    if net.size != x.shape[-2:]:
        net.size, net.grid = x.shape[-2:], torch.arange(x.shape[-2], dtype=x.dtype)[:, None]
        net.found.append(net.size)
    net.found = net.found[-1:]
    return x * net.grid


def test_states_that_a_program_lacks_are_named():
    for line, name, code in ((kept_state, "state", "return net.state"), (kept_mean, "late", "return x - net.late"), (kept_list, "found", "net.found.append"),
                             (kept_flag, "is_first", "was_first, net.is_first"), (kept_options, "options", "return net.options(x)"),
                             (used_count, "count", "return x * net.count")):
        net = Keeps(line)
        for grad in (True, False):
            with torch.set_grad_enabled(grad):
                raises("RefusedProgram", lambda: graticule.shard_program(net, DOMAIN)(cut(fields())), f"Keeps.{name} (test_program.py", code, "argument")
        assert (net.count, net.is_first, net.found, net.options.factor, hasattr(net, "late")) == (1, True, [], 2.0, False), line
    raises("RefusedProgram", lambda: graticule.shard_program(Keeps(lambda net, x: x * random.random()), DOMAIN)(cut(fields())), "Python's random")


def test_states_that_no_result_depends_on():
    """Counters go on in the model, and what a call would keep for the next one is made again."""
    for line in (unused_count, kept_grid):
        net, serial = Keeps(line), Keeps(line)
        sharded, programs = graticule.shard_program(net, DOMAIN), DOMAIN._num_programs
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(3):
                close(graticule.whole_field(sharded(cut(fields())), DOMAIN), serial(fields()))
        assert net.count == serial.count and DOMAIN._num_programs == programs + 1


def test_dropout_zeroes_the_same_cells_on_any_number_of_ranks():
    alone = graticule.Domain(graticule_self())
    whole = graticule.shard_program(Norms(), alone, seed=3)(fields())
    DOMAIN.num_draws = 0
    part = graticule.shard_program(Norms(), DOMAIN, seed=3)(cut(fields()))
    close(graticule.whole_field(part.detach(), DOMAIN), whole)


def graticule_self():
    from mpi4py import MPI
    return MPI.COMM_SELF


def test_changes_of_the_model_are_seen():
    serial, net = Lines(LINES["flip"]), Lines(LINES["flip"])
    sharded = graticule.shard_program(net, DOMAIN)
    sharded(cut(fields()))
    net.a = nn.Conv2d(3, 4, 5, padding=2, dtype=torch.float64)
    serial.a = copy.deepcopy(net.a)
    if RANKS > 1:
        for p in net.a.parameters():
            COMM.Bcast(p.detach().numpy(), root=0)
        serial.a = copy.deepcopy(net.a)
    close(graticule.whole_field(sharded(cut(fields())).detach(), DOMAIN), serial(fields()))
    net.b.weight = nn.Parameter(net.b.weight.detach() * 2)
    serial.b.weight = copy.deepcopy(net.b.weight)
    close(graticule.whole_field(sharded(cut(fields())).detach(), DOMAIN), serial(fields()))
    net.weight.requires_grad_(False)
    net.a.weight.requires_grad_(False)
    sharded(cut(fields())).sum().backward()
    assert net.a.weight.grad is None and net.b.weight.grad is not None
    sharded.float()
    serial.float()
    found = sharded(cut(fields().float())).detach()
    assert found.dtype == torch.float32
    close(graticule.whole_field(found, DOMAIN), serial(fields().float()), 1e-5)


def test_autocast_around_the_call():
    serial = Lines(LINES["roll by a row"]).float()
    sharded = graticule.shard_program(copy.deepcopy(serial), DOMAIN)
    x = fields().float()
    assert sharded(cut(x)).dtype == torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):
        wanted, found = serial(x), sharded(cut(x))
    assert found.dtype == wanted.dtype == torch.bfloat16
    close(graticule.whole_field(found.detach().float(), DOMAIN), wanted.float(), 2e-2)


class Decides(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x


class Reads(nn.Module):
    def forward(self, x):
        return x * float(x.max())


class Registers(nn.Module):
    def forward(self, x):
        self.register_buffer("late", torch.ones(3))
        return x * self.late[:, None, None]


class Fails(nn.Module):
    def forward(self, x):
        raise ValueError("my own trouble")


class Replaces(nn.Module):
    """A part that replaces its buffers, which torch.export does not note."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(3, 1, 1, dtype=torch.float64))
        self.register_buffer("other", torch.ones(3, 1, 1, dtype=torch.float64))
        self.register_buffer("grid", None)

    def forward(self, h):
        if self.grid is None:
            self.grid = torch.linspace(0, 1, h.shape[-1], dtype=h.dtype)
        before = self.mean
        self.mean, self.other = 0.9 * self.other + 0.1 * h.detach().mean((0, 2, 3))[:, None, None], self.mean
        return (h - self.mean + before) * self.grid


class Remembers(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("previous", None)

    def forward(self, h):
        y = h if self.previous is None else h - self.previous
        self.previous = h.detach().mean((0, 2, 3), keepdim=True)
        return y


class Resizes(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros((), dtype=torch.float64))

    def forward(self, h):
        self.mean = self.mean + h.detach().mean((0, 2, 3))[:, None, None]
        return h - self.mean


def test_buffers_that_the_forward_replaces():
    nets = [nn.Sequential(nn.Conv2d(3, 3, 3, padding=1, dtype=torch.float64), Replaces()) for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    sharded = graticule.shard_program(nets[1], DOMAIN)
    for _ in range(2):
        close(graticule.whole_field(sharded(cut(fields())).detach(), DOMAIN), nets[0](fields()), 1e-10)
        for name in ("mean", "other"):
            close(getattr(nets[1][1], name), getattr(nets[0][1], name), 1e-10)
    for part, text in ((Remembers(), "Remembers.previous"), (Resizes(), "Resizes.mean")):
        net = graticule.shard_program(nn.Sequential(nn.Conv2d(3, 3, 1, dtype=torch.float64), part), DOMAIN)
        raises("RefusedProgram", lambda: net(cut(fields())), text)


class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = torch.Generator().manual_seed(1)

    def forward(self, x, generator=None):
        return x * torch.rand(x.shape[0], 1, 1, 1, dtype=x.dtype, generator=self.generator)


def test_random_numbers_of_a_generator_are_refused_with_a_way_out():
    net = graticule.shard_program(Noisy(), DOMAIN)
    raises("RefusedProgram", lambda: net(cut(fields())), "generator=self.generator", "leave `generator` out", "graticule.shard(model, domain)")
    with torch.no_grad():
        raises("RefusedProgram", lambda: net(cut(fields())), "generator=self.generator", "leave `generator` out", "graticule.shard(model, domain)")
    raises("RefusedProgram", lambda: net(cut(fields()), generator=torch.Generator()), "'generator'", "leave `generator` out")


def test_refusals_name_the_line_and_the_way_out():
    for model, text in ((Decides(), "if x.sum() > 0"), (Reads(), "float(x.max())"), (Registers(), "Registers.late"), (Fails(), "my own trouble")):
        sharded = graticule.shard_program(model, DOMAIN)
        for _ in range(2):
            error = raises("RefusedProgram", lambda: sharded(cut(fields())), text)
            assert len(str(error)) < 600 and "\n" not in str(error), str(error)
    assert "late" not in model._buffers


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient * ctx.saved_tensors[0]


bound_before = Reverse.apply


def hooked(x):
    x.register_hook(lambda gradient: 2 * gradient)
    return x


def test_gradients_of_ones_own_are_refused_or_allowed_by_name():
    for line, text in ((lambda net, h: Reverse.apply(h), "Reverse"), (lambda net, h: bound_before(h), "Reverse"),
                       (lambda net, h: hooked(h), "register_hook"), (lambda net, h: Square.apply(h), "Square")):
        error = raises("RefusedProgram", lambda: graticule.shard_program(Lines(line), DOMAIN)(cut(fields())), text, "graticule.shard(model, domain)")
        assert "test_program.py" in str(error)
    net = Lines(LINES["flip"])
    net.b.register_full_backward_hook(lambda module, before, after: None)
    raises("RefusedProgram", lambda: graticule.shard_program(net, DOMAIN)(cut(fields())), "a full backward hook on the module b")
    net = Lines(lambda net, h: Square.apply(h))
    assert_equals_serial(net, net, fields(), allowed_functions=[f"{Square.__module__}.Square"])
    with torch.no_grad():
        graticule.shard_program(Lines(lambda net, h: Reverse.apply(h)), DOMAIN)(cut(fields()))


class Block(nn.Module):
    """A part without gradients, one under autocast, statistics, dropout, a move and a sum over rows."""

    def __init__(self, dropped):
        super().__init__()
        self.c = nn.Conv2d(3, 3, 3, padding=1, dtype=torch.float64)
        self.n = nn.BatchNorm2d(3, dtype=torch.float64)
        self.d = nn.Dropout(dropped)

    def forward(self, x):
        with torch.no_grad():
            scale = 1 + x.std()
        with torch.autocast("cpu", enabled=False):
            h = self.c(x)
        h = self.d(F.gelu(self.n(h))) / scale
        return x + torch.roll(h, 1, -2) * torch.sigmoid(h.mean((-2, -1), keepdim=True))


class Backbone(nn.Module):
    """Blocks, run as `how` says."""

    def __init__(self, how, blocks=3, dropped=0.0):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(Block(dropped) for _ in range(blocks))
        self.head = nn.Conv2d(3, 2, 1, dtype=torch.float64)
        self.how = how

    def forward(self, x):
        if self.how == "sequential":
            return self.head(torch.utils.checkpoint.checkpoint_sequential(nn.Sequential(*self.layers), len(self.layers), x, use_reentrant=True))
        if self.how == "nested":
            x = checkpoint(lambda x: self.layers[1](checkpoint(self.layers[0], x, use_reentrant=False)), x, use_reentrant=False)
            return self.head(checkpoint(self.layers[2], x, use_reentrant=True))
        for layer in self.layers:
            x = layer(x) if self.how == "plain" else checkpoint(layer, x, use_reentrant=self.how == "reentrant")
        return self.head(x)


def bytes_between_passes(call):
    """What the forward keeps for its backward, without parameters."""
    found = {}

    def pack(x):
        found[x.untyped_storage().data_ptr()] = 0 if isinstance(x, nn.Parameter) else x.untyped_storage().nbytes()
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        result = call()
    return result, sum(found.values())


def test_checkpoints_within_a_model_are_computed_again():
    kept = {}
    for how, parts, options in (("plain", 0, {}), ("reentrant", 3, {}), ("not reentrant", 3, {}), ("sequential", 2, {}), ("nested", 2, {}),
                                ("plain", 3, {"checkpoint_blocks": ["layers.*"]}), ("plain", 1, {"checkpoint_blocks": ["layers.0.c"]}),
                                ("plain", 3, {"checkpoint_blocks": ["layers"]}), ("not reentrant", 4, {"checkpoint_blocks": ["head"]})):
        net = Backbone(how)
        trained, sharded = assert_equals_serial(Backbone("plain"), net, fields(), **options)
        trained.load_state_dict(net.state_dict())
        y, kept[how, str(options)] = bytes_between_passes(lambda: sharded(cut(fields()).clone().requires_grad_()))
        y.sum().backward()
        serial = Backbone("plain")
        serial(fields())
        for (name, found), wanted in zip(sharded.named_buffers(), serial.buffers()):
            close(found, wanted)
        report = sharded.report
        assert (report.num_parts, report.kept_parts) == (parts, ()), (how, options, report.num_parts, report.kept_parts)
        assert ("computes again: " in report.text()) == (parts > 0)
        everything = kept["plain", "{}"]
        if parts == 3:
            assert kept[how, str(options)] < 0.45 * everything, (how, kept)
            assert max(report.recomputed_bytes) > 0


def test_what_is_computed_again_drops_the_same_cells():
    found = []
    for how in ("plain", "reentrant", "not reentrant"):
        DOMAIN.num_draws = 4
        net = Backbone(how, dropped=0.4)
        sharded = graticule.shard_program(net, DOMAIN, seed=3)
        x = cut(fields()).clone().requires_grad_()
        y = sharded(x)
        sharded(x.detach())  # draws other masks
        gradients_of(graticule.reduce_loss(y.square().sum(), DOMAIN), net)
        found.append([y, x.grad, *(p.grad for p in net.parameters())])
    for others in found[1:]:
        for one, other in zip(found[0], others):
            close(other, one)


def test_parts_that_are_computed_again_are_named():
    net = Backbone("plain")
    error = raises("BadOption", lambda: graticule.shard_program(net, DOMAIN, checkpoint_blocks=["layer.*"]), "'layer.*'", "layers.*.c", "head")
    assert "layers.0" not in str(error)
    raises("BadOption", lambda: graticule.shard_program(net, DOMAIN, checkpoint_blocks="layers"), "is a list")
    net.unused = nn.Linear(2, 2)
    raises("RefusedProgram", lambda: graticule.shard_program(net, DOMAIN, checkpoint_blocks=["unused"])(cut(fields())), "does not call 'unused'")
    assert all("forward" not in vars(part) for part in net.modules())
    if RANKS > 1:
        uneven_options = graticule.shard_program(net, DOMAIN, checkpoint_blocks=["layers.0"] if RANK == 0 else [])
        raises("StructureDisagreement", lambda: uneven_options(cut(fields())))


def test_gradients_of_gradients_of_what_is_computed_again():
    found = []
    for how in ("plain", "not reentrant"):
        net = Backbone(how)
        x = cut(fields()).clone().requires_grad_()
        sharded = graticule.shard_program(net, DOMAIN)
        loss = graticule.reduce_loss(sharded(x).pow(3).sum(), DOMAIN)
        slope, = torch.autograd.grad(loss, x, create_graph=True)
        gradients_of(graticule.reduce_loss(slope.square().sum(), DOMAIN), net)
        found.append([x.grad, *(p.grad for p in net.parameters() if p.grad is not None)])
    assert len(found[0]) == len(found[1]) > 3
    for one, other in zip(*found):
        close(other, one, 1e-10)


def test_gradients_of_gradients_where_a_rank_has_no_cells():
    """A rank without cells does not reach all messages that the others need for them: two samples may be divided among three ranks."""
    lines = {"cumulative sum": lambda net, h: net.b(torch.sigmoid(h).cumsum(-2)), "product": lambda net, h: net.b(torch.tanh(h)) * h[:, :2].cumsum(-2),
             "norm": lambda net, h: net.b(torch.tanh(h) / torch.linalg.vector_norm(h, float("inf")))}
    for name, line in lines.items():
        serial = Lines(line)
        serial.b = nn.Conv2d(4, 2, 3, padding=1, dtype=torch.float64)
        serial.forward = lambda x, net=serial, line=line: line(net, net.a(x))
        for cuts in (CUTS, [ROWS] + [0] * (RANKS - 1)):
            net = copy.deepcopy(serial)
            net.forward = lambda x, net=net, line=line: line(net, net.a(x))
            sharded = graticule.shard_program(net, DOMAIN)
            whole, part = fields().requires_grad_(), cut(fields(), cuts).clone().requires_grad_()
            for model, x in ((serial, whole), (sharded, part)):
                slopes, = torch.autograd.grad(model(x).square().sum(), x, create_graph=True)
                model.zero_grad()
                (slopes * slopes).sum().backward()
            graticule.GradientSync(net, [(COMM, "sum")]).reduce()
            close(graticule.whole_field(part.grad, DOMAIN), whole.grad, 1e-10)
            whole.grad = None
            for (key, found), wanted in zip(net.named_parameters(), serial.parameters()):
                if wanted.grad is not None and wanted.grad.abs().max() > 1e-9:
                    close(found.grad, wanted.grad, 1e-9)


def test_a_capture_leaves_no_graph_in_memory():
    def graphs():
        return [one for one in gc.get_objects() if isinstance(one, (torch.fx.GraphModule, torch.fx.Node))]

    net = graticule.shard_program(torch.nn.Sequential(torch.nn.Conv2d(2, 2, 3, padding=1), torch.nn.GELU()), DOMAIN)
    gc.collect()
    before = {id(one): one for one in graphs()}
    graticule.reduce_loss(net(graticule.shard_of(torch.randn(1, 2, 13, 8), DOMAIN)).sum(), DOMAIN).backward()
    left = [one for one in graphs() if id(one) not in before]
    assert not left, len(left)


def test_the_model_is_left_as_it_was():
    class Keeps(nn.Module):
        def __init__(self):
            super().__init__()
            self.c = nn.Conv2d(3, 3, 1, dtype=torch.float64)
            self.last = None

        def forward(self, x):
            self.last = self.c(x)
            return self.last

    net = Keeps()
    before = copy.deepcopy(net.state_dict())
    sharded = graticule.shard_program(net, DOMAIN)
    sharded(cut(fields()))
    assert net.last is None
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())


def test_disagreements_are_one_error_on_all_ranks():
    net = Lines(LINES["flip"])
    sharded = graticule.shard_program(net, DOMAIN)
    good = sharded(cut(fields())).detach()
    if RANKS == 1:
        return
    last = RANK == RANKS - 1

    def other_mode():
        sharded.train(not last)
        sharded(cut(fields()))

    raises("StructureDisagreement", other_mode, "in training")
    sharded.train()

    def other_grad_mode():
        with torch.set_grad_enabled(not last):
            sharded(cut(fields()))

    raises("StructureDisagreement", other_grad_mode, "gradient mode")
    raises("BadLayout", lambda: sharded(cut(fields(3, 1 if last else 2))), "'x'")
    raises("BadArgument", lambda: sharded(cut(fields()), **({"z": 1} if last else {})), "z")
    raises("StructureDisagreement", lambda: sharded(cut(fields()).float() if last else cut(fields())), "float32")
    close(sharded(cut(fields())).detach(), good)


class Joined(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a = nn.Conv2d(3, 3, 3, padding=1, dtype=torch.float64)

    def forward(self, x, y):
        return self.a(x * y)


def test_a_call_that_repeats_the_latest_one_meets_once():
    """And one that wants other gradients, on one rank alone, does not: all of them stay right."""
    serial = Joined()
    sharded = graticule.shard_program(copy.deepcopy(serial), DOMAIN)
    answers, compare = [], graticule._core.compare_calls

    def spied(*args):
        answers.append(compare(*args))
        return answers[-1]

    def call(wants):
        x, y = fields(), fields(seed=2)
        whole = y.clone().requires_grad_()
        serial(x, whole).square().sum().backward()
        part = cut(y).clone().requires_grad_(wants)
        graticule.reduce_loss(sharded(cut(x), part).square().sum(), DOMAIN).backward()
        if wants:
            close(part.grad, cut(whole.grad), 1e-10)

    graticule._core.compare_calls = spied
    try:
        for wants in (True, True, RANK == 0, RANK == 0, False, False, RANK == RANKS - 1, True):
            call(wants)
        sharded.reset_structure()
        call(True)
        call(True)
    finally:
        graticule._core.compare_calls = compare
    # A call of another structure compares twice: whether it is known to this module, and to all that were captured (1: it is). Which
    # tensors need gradients is a part of it, which each call settles anew where ranks differ.
    assert answers == ([2, 2, 0, 2, 1, 2, 1, 2, 2, 0, 2, 1, 1, 2, 2, 0] if RANKS > 1 else [2, 2, 2]), answers


def test_programs_in_another_order_on_one_rank_are_an_error():
    one, two = (graticule.shard_program(Joined(), DOMAIN) for _ in range(2))
    x = cut(fields())
    for _ in range(2):
        expected = one(x, x).detach(), two(x, x).detach()
    if RANKS > 1:
        raises("CallDisagreement", lambda: (two if RANK == 0 else one)(x, x), "call")
    close(one(x, x).detach(), expected[0])
    close(two(x, x).detach(), expected[1])


def test_state_without_values_is_named_on_all_ranks():
    x = graticule.shard_of(torch.randn(1, 2, 9, 6), DOMAIN)
    for name, made in (("parameter 0.weight is lazy", lambda: nn.LazyConv2d(2, 3, padding=1)), ("buffer 0.running_mean is lazy", lambda: nn.LazyBatchNorm2d(affine=False)),
                       ("parameter 0.weight is on the meta device", lambda: nn.Conv2d(2, 2, 3, padding=1).to("meta"))):
        for ranks in (range(RANKS), [RANKS - 1]):
            net = graticule.shard_program(nn.Sequential(made() if RANK in ranks else nn.Conv2d(2, 2, 3, padding=1)), DOMAIN)
            raises("WrongState", lambda: net(x), name, "no values")


def test_report_says_what_is_cut():
    net = Lines(LINES["mean over the globe"])
    sharded = graticule.shard_program(net, DOMAIN)
    raises("WrongState", lambda: sharded.report)
    sharded(cut(fields()))
    report = sharded.report
    assert report.inputs[0] == graticule.ProgramInput("x", (2, 3, ROWS, COLUMNS), True)
    assert report.outputs == (2,)
    assert len(report.weights_bytes) == RANKS
    assert isinstance(sharded, graticule.ShardedProgram) and isinstance(report, graticule.ProgramReport)
    assert all(isinstance(node, graticule.ProgramNode) for node in report.nodes) and report.nodes[0].kind == "stencil"
    assert "field, cut" in report.text()
    assert ("aten.conv2d.default in a (" in report.text()) == (RANKS > 1)


def test_data_parallel_and_copies():
    serial, net = Norms(), Norms()
    serial.d.p = net.d.p = 0.0
    sharded = graticule.shard_program(net, DOMAIN)
    optimizer = torch.optim.SGD(sharded.parameters(), lr=0.1)
    parallel = graticule.DataParallel(sharded, [(COMM, "sum")], optimizer)
    reference = torch.optim.SGD(serial.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        graticule.reduce_loss(sharded(cut(fields())).square().sum() / ROWS, DOMAIN).backward()
        parallel.step()
        reference.zero_grad()
        (serial(fields()).square().sum() / ROWS).backward()
        reference.step()
    for found, wanted in zip(sharded.parameters(), serial.parameters()):
        close(found, wanted, 1e-10)
    other = copy.deepcopy(sharded)
    assert other.model is not net and isinstance(other.model, Norms)
    close(other(cut(fields())).detach(), sharded(cut(fields())).detach())


def export_module():
    spec = importlib.util.spec_from_file_location("export", os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../scripts/export.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_files_say_what_is_computed_again():
    folder = COMM.bcast(tempfile.mkdtemp() if RANK == 0 else None)
    found = []
    for how, options, parts in (("plain", {}, 0), ("reentrant", {}, 3), ("plain", {"checkpoint_blocks": ["layers.[12]"]}, 2)):
        path = os.path.join(folder, f"{how}{parts}.pt2")
        if RANK == 0:
            export_module().save(Backbone(how), (fields(),), path, **options)
        COMM.Barrier()
        net = graticule.Program(path, DOMAIN)
        x = cut(fields()).clone().requires_grad_()
        gradients_of(graticule.reduce_loss(net(x).square().sum(), DOMAIN), net)
        found.append([x.grad, *(p.grad for p in net.parameters()), *net.buffers()])
        assert net.report.num_parts == parts, net.report.text()
    for others in found[1:]:
        for one, other in zip(found[0], others):
            close(other, one, 1e-11)
    COMM.Barrier()
    if RANK == 0:
        shutil.rmtree(folder)


def test_programs_of_files():
    folder = COMM.bcast(tempfile.mkdtemp() if RANK == 0 else None)
    path = os.path.join(folder, "net.pt2")
    serial = Lines(LINES["mean over the globe"])
    if RANK == 0:
        torch.export.save(torch.export.export(serial, (fields(),)).run_decompositions({}), path)
    COMM.Barrier()
    net = graticule.Program(path, DOMAIN)
    assert net.input_names == ["x"]
    assert [name for name, _ in net.named_parameters()] == [name for name, _ in serial.named_parameters()]
    assert all(isinstance(p, nn.Parameter) for p in net.parameters())
    optimizer, reference = torch.optim.SGD(net.parameters(), lr=0.1), torch.optim.SGD(serial.parameters(), lr=0.1)
    for _ in range(3):
        gradients_of(graticule.reduce_loss(net(cut(fields())).square().sum() / ROWS, DOMAIN), net)
        optimizer.step()
        serial.zero_grad()
        (serial(fields()).square().sum() / ROWS).backward()
        reference.step()
    for found, wanted in zip(net.parameters(), serial.parameters()):
        close(found, wanted, 1e-9)
    assert net.report.outputs == (2,)
    if RANK == 0:
        net.save(path)
        close(torch.export.load(path).state_dict["a.weight"], serial.a.weight, 1e-9)
    COMM.Barrier()
    net.to(torch.float32)
    assert net(cut(fields().float())).dtype == torch.float32
    raises("BadOption", lambda: graticule.Program(path, DOMAIN, fields=["y"]), "'y' is none of the inputs", "net.pt2: x")
    close(graticule.Program(path, DOMAIN, fields=["x"])(cut(fields())).detach(), graticule.Program(path, DOMAIN)(cut(fields())).detach())
    raises("NoSuchFile", lambda: graticule.Program(path + ".none", DOMAIN), "net.pt2.none")
    COMM.Barrier()
    if RANK == 0:
        os.remove(path)
        os.rmdir(folder)


class Detaches(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 3, 3, padding=1, dtype=torch.float64)

    def forward(self, x):
        with torch.no_grad():
            scale = self.a(x).square().mean((2, 3), keepdim=True).sqrt()
        return self.a(x) * scale + self.a(x).detach() * x


def test_files_of_any_decompositions_have_the_gradients_of_the_network():
    folder = COMM.bcast(tempfile.mkdtemp() if RANK == 0 else None)
    serial = Detaches()
    for number, decompose in enumerate((lambda program: program, lambda program: program.run_decompositions({}), lambda program: program.run_decompositions())):
        path = os.path.join(folder, f"{number}.pt2")
        if RANK == 0:
            torch.export.save(decompose(torch.export.export(serial, (fields(),))), path)
        COMM.Barrier()
        net = graticule.Program(path, DOMAIN)
        serial.load_state_dict(net.state_dict())
        x, whole = cut(fields()).clone().requires_grad_(), fields().requires_grad_()
        gradients_of(graticule.reduce_loss(net(x).square().sum(), DOMAIN), net)
        serial.zero_grad()
        serial(whole).square().sum().backward()
        close(graticule.whole_field(x.grad, DOMAIN), whole.grad, 1e-10)
        for found, wanted in zip(net.parameters(), serial.parameters()):
            close(found.grad, wanted.grad, 1e-10)
    COMM.Barrier()
    if RANK == 0:
        shutil.rmtree(folder)


class MeanWithin(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        with torch.no_grad():
            mean = x.mean((2, 3), keepdim=True)
        ctx.save_for_backward(mean)
        return x * mean

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0]


class Behind(Detaches):
    def forward(self, x):
        h = self.a(x)
        return 2 * h, self.a(MeanWithin.apply(h))


def test_files_whose_gradients_a_function_has_lost_have_none():
    """torch.export takes what follows for a part without gradients: the sum of both results would have a part of its gradient."""
    folder = COMM.bcast(tempfile.mkdtemp() if RANK == 0 else None)
    serial = Behind()
    for number, decompose in enumerate((lambda program: program, lambda program: program.run_decompositions({}))):
        path = os.path.join(folder, f"{number}.pt2")
        if RANK == 0:
            torch.export.save(decompose(torch.export.export(serial, (fields(),))), path)
        COMM.Barrier()
        results = graticule.Program(path, DOMAIN)(cut(fields()).clone().requires_grad_())
        for found, wanted in zip(results, serial(fields()), strict=True):
            assert not found.requires_grad
            close(graticule.whole_field(found, DOMAIN), wanted, 1e-10)
    COMM.Barrier()
    if RANK == 0:
        shutil.rmtree(folder)


class Outputs(nn.Module):
    """Constants among the results, an input that is written to, and layers that share weights."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a = nn.Conv2d(3, 3, 3, padding=1, dtype=torch.float64)
        self.b = self.a
        self.c = nn.Conv2d(3, 3, 3, padding=1, dtype=torch.float64)
        self.c.weight = self.a.weight

    def forward(self, x, y, v):
        y[:, 1:].mul_(2)
        y.add_(self.a(x))
        v.add_(x.mean((0, 2, 3)))
        return [self.c(y) * v[:, None, None], None, 3, {"name": "t2m", "scale": 0.5, "flag": True}, y.mean()]


def test_constants_and_written_inputs_of_files():
    folder = COMM.bcast(tempfile.mkdtemp() if RANK == 0 else None)
    serial = Outputs()
    given = fields(), fields(seed=2), fields()[0, :, 0, 0].clone()
    for number, decomposed in enumerate((False, True)):
        path = os.path.join(folder, f"net{number}.pt2")
        if RANK == 0:
            program = torch.export.export(Outputs(), tuple(x.clone() for x in given))
            torch.export.save(program.run_decompositions({}) if decomposed else program, path)
        COMM.Barrier()
        net = graticule.Program(path, DOMAIN)
        assert set(net.state_dict()) == set(serial.state_dict())
        net.load_state_dict(serial.state_dict())
        assert net.b.weight is net.c.weight is net.a.weight and len(list(net.parameters())) == 3
        whole = [x.clone() for x in given]
        parts = [cut(given[0]), cut(given[1]).clone(), given[2].clone()]
        wanted, found = serial(*whole), net(*parts)
        assert found[1:4] == wanted[1:4] and len(found) == 5, found
        assert isinstance(found[3]["flag"], bool), "True == 1"
        close(graticule.whole_field(found[0].detach(), DOMAIN), wanted[0], 1e-10)
        close(found[4], wanted[4], 1e-10)
        close(graticule.whole_field(parts[1], DOMAIN), whole[1], 1e-10)
        close(parts[2], whole[2], 1e-10)
        serial.zero_grad()
        wanted[0].sum().backward()
        gradients_of(graticule.reduce_loss(found[0].sum(), DOMAIN), net)
        for one, other in zip(net.parameters(), serial.parameters()):
            close(one.grad, other.grad, 1e-10)
    COMM.Barrier()
    if RANK == 0:
        shutil.rmtree(folder)


class Named(nn.Module):
    def forward(self, batch, scale=2.0, *, shift=None, factor=None):
        return {"x": batch["x"] * scale + shift, "parts": (batch["more"][0].mean(), factor * 2)}


def test_files_are_called_as_the_network():
    folder = COMM.bcast(tempfile.mkdtemp() if RANK == 0 else None)
    path, x, factor = os.path.join(folder, "net.pt2"), fields(), torch.tensor(3.0)

    def batch(whole):
        return {"x": whole, "more": [whole * 2]}

    if RANK == 0:
        torch.export.save(torch.export.export(Named(), (batch(x), 3.0), {"shift": x + 1, "factor": factor}), path)
    COMM.Barrier()
    net, wanted, own = graticule.Program(path, DOMAIN), Named()(batch(x), 3.0, shift=x + 1, factor=factor), cut(x)
    for found in (net(batch(own), 3.0, factor=factor, shift=own + 1), net(own, own * 2, own + 1, factor)):
        assert set(found) == {"x", "parts"} and isinstance(found["parts"], tuple)
        close(graticule.whole_field(found["x"], DOMAIN), wanted["x"])
        close(found["parts"][0], wanted["parts"][0])
        close(found["parts"][1], wanted["parts"][1])
    raises("BadArgument", lambda: net(batch(own), 4.0, factor=factor, shift=own + 1), "3.0", "4.0")
    raises("BadArgument", lambda: net({"x": own}, 3.0, factor=factor, shift=own + 1), "more")
    COMM.Barrier()
    if RANK == 0:
        shutil.rmtree(folder)


main(globals())
