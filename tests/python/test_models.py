# SPDX-License-Identifier: BSD-3-Clause
"""How sharded models are called: fields in any container, by any method, with any function, beside tensors that are no fields."""
import collections
import copy
import dataclasses
import functools
import random
import types
import typing

import torch
import torch.nn.functional as F
import torch.utils.checkpoint as cp
from support import COMM, RANK, RANKS, balanced, close, main, raises, skip, uneven
from torch import nn

import graticule

DOMAIN = graticule.Domain(COMM)


@dataclasses.dataclass
class Sample:
    x: torch.Tensor
    name: str = "sample"


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: torch.Tensor


class Pair(typing.NamedTuple):
    number: int
    x: torch.Tensor


class Slots:
    __slots__ = ("x",)

    def __init__(self, x):
        self.x = x


CONTAINERS = {
    "tensor": lambda x: x, "dict": lambda x: {"n": 1, "x": x}, "list": lambda x: [None, x], "tuple": lambda x: (2.0, x),
    "namedtuple": lambda x: Pair(3, x), "dataclass": Sample, "frozen dataclass": Frozen, "object": lambda x: types.SimpleNamespace(x=x),
    "slots": Slots, "OrderedDict": lambda x: collections.OrderedDict(x=x), "UserDict": lambda x: collections.UserDict(x=x),
    "deque": lambda x: collections.deque([x]), "mapping proxy": lambda x: types.MappingProxyType({"x": x}),
    "nested": lambda x: {"a": [("b", Sample(x))], "c": {}}}


def find(batch):
    """The first tensor in a container, as models take their fields out of batches."""
    if isinstance(batch, torch.Tensor):
        return batch
    if isinstance(batch, collections.abc.Mapping):
        parts = batch.values()
    elif isinstance(batch, (list, tuple, collections.deque)):
        parts = batch
    else:
        parts = [batch.x] if hasattr(batch, "x") else []
    return next((found for found in map(find, parts) if found is not None), None)


FUNCTIONS = {
    "sizes": lambda x: x * x.shape[-2] + x.numel() / x.size(-1), "interpolate": lambda x: F.interpolate(F.avg_pool2d(x, 2), scale_factor=2.0, mode="bilinear"),
    "pad": lambda x: F.pad(x, (1, 0, 2, 1), mode="replicate"), "max_pool2d": lambda x: F.max_pool2d(x, 3, 2, 1),
    "cat": lambda x: torch.cat([F.interpolate(F.avg_pool2d(x, 2), size=x.shape[-2:]), x], 1), "channels": lambda x: x.softmax(1) - x.mean(1, keepdim=True),
    "tokens": lambda x: x.flatten(2).transpose(1, 2).reshape(x.shape[0], -1, x.shape[1]).transpose(1, 2).view_as(x)}
FUNCTIONS.update({
    "mean": lambda x: x - x.mean((-2, -1), keepdim=True), "softmax": lambda x: x.softmax(-1), "rows": lambda x: F.pad(x[:, :, 1:], (0, 0, 1, 0)),
    "flip": lambda x: x.flip(-2), "conv2d": lambda x: F.conv2d(x, torch.ones(3, 3, 3, 3, dtype=x.dtype), padding=1),
    "fft2": lambda x: torch.fft.ifft2(torch.fft.fft2(x)).real})
REFUSED = {"getitem": lambda x: x * x[x > 0].sum(), "numpy": lambda x: x + x.detach().numpy().mean(), "allclose": lambda x: x if torch.allclose(x, x) else -x}


class Part(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.conv, self.act = nn.Conv2d(3, 3, 3, padding=1), act

    def forward(self, batch):
        return self.act(self.conv(find(batch)))

    def again(self, batch):
        return self.act(self.conv(find(batch)))


class Hooked(nn.Module):
    def forward(self, x):
        return x


class Model(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.act, self.conv, self.part, self.parts = act, nn.Conv2d(3, 3, 3, padding=1), Part(act), nn.Sequential(nn.Sequential(Part(act)))
        self.extra, self.bound = lambda batch: act(find(batch)), types.MethodType(lambda self, batch: self.act(self.conv(find(batch))), self)
        self.partial = functools.partial(lambda scale, batch: scale * act(find(batch)), 2)
        self.hooked = Hooked()
        self.hooked.register_forward_pre_hook(lambda module, args: (act(find(args[0])),))

    def forward(self, batch, *, more=None):
        return self.act(self.conv(find(batch) if more is None else find(more)))

    def encode(self, batch):
        return {"y": [self.act(self.conv(find(batch)))]}

    @staticmethod
    def of_class(batch):
        return FUNCTIONS_NOW[0](find(batch))

    @classmethod
    def of_kind(cls, batch):
        return cls.of_class(batch)

    def __getitem__(self, batch):
        return self.act(self.conv(find(batch)))

    def steps(self, batch):
        yield self.act(find(batch))
        yield self.act(self.conv(find(batch)))


FUNCTIONS_NOW = [None]
METHODS = {
    "forward": lambda net, b: net(b), "keyword": lambda net, b: net(None, more=b), "method": lambda net, b: net.encode(b)["y"][0],
    "static method": lambda net, b: net.of_class(b), "class method": lambda net, b: net.of_kind(b), "[]": lambda net, b: net[b],
    "partial function of the object": lambda net, b: net.partial(b), "function of the object": lambda net, b: net.extra(b), "bound method of the object": lambda net, b: net.bound(b),
    "hook": lambda net, b: net.hooked(b), "generator": lambda net, b: list(net.steps(b))[-1], "child": lambda net, b: net.part(b),
    "method of a child": lambda net, b: net.part.again(b), "child of containers": lambda net, b: net.parts(b)}


def test_containers_methods_and_functions():
    """Every combination is that of the serial model, or refused by the name of the function.

    On 2 ranks, as the default tier has them: every pair of a function, a container and a method, each of them in one combination.
    """
    x = torch.randn(1, 3, 12, 8, dtype=torch.double)
    mine = graticule.shard_of(x, DOMAIN, rows=uneven(12)).clone()
    counts = collections.Counter()
    for place, (name, act) in enumerate({**FUNCTIONS, **REFUSED}.items()):
        FUNCTIONS_NOW[:] = [act]
        serial = Model(act).double()
        net = copy.deepcopy(serial)
        graticule.shard(net, DOMAIN)
        for number, pack in enumerate(CONTAINERS.values()):
            for order, call in enumerate(METHODS.values()):
                if RANKS == 2 and (place + order) % len(CONTAINERS) != number:
                    continue
                batch = pack(mine)
                if name in REFUSED:
                    raises("NotSharded", lambda: call(net, batch), name)
                    counts["refused"] += 1
                else:
                    close(graticule.whole_field(call(net, batch), DOMAIN), call(serial, pack(x)))
                    counts["right"] += 1
                assert find(batch) is mine and not hasattr(mine, "_graticule_cuts"), "the caller's container was changed"
    each = len(METHODS) * (1 if RANKS == 2 else len(CONTAINERS))
    assert len(METHODS) >= len(CONTAINERS) and counts == {"right": len(FUNCTIONS) * each, "refused": len(REFUSED) * each}
    if RANK == 0:
        print(f"{len(CONTAINERS)} containers x {len(METHODS)} methods x {len(FUNCTIONS) + len(REFUSED)} functions: {counts['right']} as the "
              f"serial model, {counts['refused']} refused by name", flush=True)


def test_fields_of_two_axes():
    class Two(nn.Module):
        def forward(self, x, mask):
            return x * mask / x.shape[-1]

        def alone(self, mask):
            return mask * mask.shape[0]

        def centred(self, mask):
            return mask - mask.mean()

    x, mask = torch.randn(2, 3, 12, 8, dtype=torch.double), torch.randn(12, 8, dtype=torch.double)
    serial, net = Two(), nn.Module()
    net = copy.deepcopy(serial)
    net.identity = nn.Identity()
    graticule.shard(net, DOMAIN)
    shards = [graticule.shard_of(t, DOMAIN, rows=balanced(12)).clone() for t in (x, mask)]
    close(graticule.whole_field(net(*shards), DOMAIN), serial(x, mask))
    close(graticule.whole_field(net.alone(shards[1]), DOMAIN), serial.alone(mask))
    close(graticule.whole_field(net.centred(shards[1]), DOMAIN), serial.centred(mask))


def test_a_batch_is_the_callers():
    """What a model writes into a batch is seen by its caller, and what it was given comes back unmarked."""
    class Writes(nn.Module):
        def forward(self, batch):
            batch["y"] = batch["x"] * 2
            batch["list"].append(batch["x"].shape[-2])
            return batch

    net = Writes()
    net.identity = nn.Identity()
    graticule.shard(net, DOMAIN)
    mine = graticule.shard_of(torch.randn(1, 1, 6 * RANKS, 4), DOMAIN).clone()
    batch = {"x": mine, "list": []}
    assert net(batch) is batch and batch["x"] is mine and batch["list"] == [6 * RANKS]
    close(batch["y"], mine * 2)


class WithMore(nn.Module):
    """A field and something that is none."""

    def __init__(self, how):
        super().__init__()
        self.how, self.conv, self.linear = how, nn.Conv2d(3, 6, 3, padding=1), nn.Linear(8, 6)
        self.norm, self.drop, self.scale = nn.LayerNorm(8), nn.Dropout(0.5), nn.Conv2d(6, 6, 3, padding=1)

    def forward(self, x, t):
        h = self.conv(x)
        t = t if isinstance(t, torch.Tensor) else t["t"]
        if self.how == "size":
            return h / t.shape[1]
        if self.how == "tokens":
            return h * self.linear(self.norm(t)).sum(1)[:, :, None, None]
        if self.how == "mean":
            return h * t.mean()
        if self.how == "layer":  # a convolution of what is no field
            return h * self.scale(t).mean((2, 3), keepdim=True)
        return h * t


def test_tensors_that_are_no_fields():
    x = torch.randn(2, 3, 12, 8, dtype=torch.double)
    mine = graticule.shard_of(x, DOMAIN, rows=uneven(12)).clone()
    rows = mine.shape[-2]
    for how, t in (("size", torch.randn(2, 5, 8)), ("tokens", torch.randn(2, 5, 8)), ("tokens", torch.randn(2, 12, 8)), ("mean", torch.randn(2, 4, 8)),
                   ("scale", torch.randn(2, 6, 1, 1)), ("scale", torch.randn(2, 1, 1, 1)), ("scale", torch.ones(2, 1, 1, 1)), ("layer", torch.randn(2, 6, 5, 7)),
                   ("mean", torch.randn(2, 3, 12, 8)), ("mean", torch.randn(5)), ("mean", torch.randn(4, 8)), ("mean", torch.randn(2, 6, 7, 7, 3))):
        t = t.double()
        serial = WithMore(how).double().eval()
        net = copy.deepcopy(serial)
        graticule.shard(net, DOMAIN)
        expected = serial(x, t)
        for given in (t, {"t": t}, graticule.whole(t)):
            if RANKS == 1 and t.shape[-2:] == (12, 8) and not hasattr(given, "_graticule_whole"):
                continue  # which are those of the field
            close(graticule.whole_field(net(mine, given), DOMAIN), expected)
        named = copy.deepcopy(serial)
        graticule.shard(named, DOMAIN, whole=["t"])
        close(graticule.whole_field(named(mine, t), DOMAIN), expected)
        close(graticule.whole_field(named(mine, t={"t": t}), DOMAIN), expected)
    if RANKS > 1:
        net = WithMore("mean")
        graticule.shard(net, DOMAIN)
        mine = mine.float()
        raises("NotSharded", lambda: net(mine, torch.zeros(2, 5, 8)), "t, (2, 5, 8),", "graticule.whole", "graticule.field")
        raises("NotSharded", lambda: net(mine, torch.full((2, 5, 8), float(RANK))), "t, (2, 5, 8),", "other values")
        raises("NotSharded", lambda: net(mine, torch.full((4, 7), float(RANK))), "t, (4, 7),", "other values")
        raises("ArgumentDisagreement", lambda: net(mine, graticule.whole(torch.full((2, 5, 8), float(RANK)))), "t, (2, 5, 8),")
        net(mine, graticule.whole(torch.zeros(2, 5, 8)))
    assert rows == mine.shape[-2]


class Embedded(nn.Module):
    """A time that becomes a small image, of which all layers are serial."""

    def __init__(self):
        super().__init__()
        self.conv, self.time, self.scale = nn.Conv2d(3, 6, 3, padding=1), nn.Embedding(5, 6), nn.Conv2d(6, 6, 3, padding=1)
        self.mix = nn.Sequential(nn.Linear(6, 16), nn.SiLU(), nn.BatchNorm1d(16), nn.LayerNorm(16), nn.Dropout(0.5), nn.Linear(16, 6))
        self.pool, self.query = nn.AvgPool2d(2), nn.Parameter(torch.randn(1, 6, 4, 4))

    def forward(self, x, t):
        z = self.mix(self.time(t))[:, :, None, None].expand(-1, -1, 3, 3) + self.pool(self.scale(self.query))[:, :, :1, :1]
        return self.conv(x) * self.scale(z).mean((2, 3), keepdim=True)


def test_layers_of_what_is_no_field_are_serial():
    x, t = torch.randn(4, 3, 12, 8, dtype=torch.double), torch.tensor([1, 3, 0, 2])
    serial = Embedded().double()
    net = copy.deepcopy(serial)
    graticule.shard(net, DOMAIN)
    mine = graticule.shard_of(x, DOMAIN, rows=uneven(12)).clone()
    for given in (t, {"t": t}["t"], graticule.whole(t)):
        torch.manual_seed(5)
        expected = serial(x, t)
        torch.manual_seed(5 + RANK)
        close(graticule.whole_field(net(mine, given), DOMAIN), expected)
    graticule.reduce_loss(net(mine, t).square().sum(), DOMAIN).backward()


def test_fields_of_several_grids():
    class Grids(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(2, 2, 3, padding=1)

        def forward(self, x, coarse, row=None):
            y = self.conv(x) + F.interpolate(self.conv(coarse), scale_factor=2.0) * coarse.shape[-2]
            return y if row is None else y * row

    x, coarse = torch.randn(1, 2, 24, 8, dtype=torch.double), torch.randn(1, 2, 12, 4, dtype=torch.double)
    row = torch.randn(1, 1, 24, 1, dtype=torch.double)
    serial = Grids().double()
    net = copy.deepcopy(serial)
    graticule.shard(net, DOMAIN)
    shards = [graticule.shard_of(t, DOMAIN).clone() for t in (x, coarse, row)]
    close(graticule.whole_field(net(*shards[:2]), DOMAIN), serial(x, coarse))
    close(graticule.whole_field(net(*shards), DOMAIN), serial(x, coarse, row))
    zeros = graticule.field(graticule.shard_of(coarse, DOMAIN) * 0)
    close(graticule.whole_field(net(shards[0], zeros), DOMAIN), serial(x, coarse * 0))


def test_a_whole_field_in_the_place_of_a_shard():
    net = nn.Sequential(nn.Conv2d(1, 1, 3, padding=1))
    graticule.shard(net, DOMAIN)
    whole = torch.randn(1, 1, 8 * RANKS, 6)
    if RANKS > 1:
        raises("NotSharded", lambda: net(whole), "graticule.shard_of", "same values")
    assert net(graticule.shard_of(whole, DOMAIN)).shape[-2] == 8
    assert net(torch.zeros(1, 1, 8, 6)).shape[-2] == 8
    declared = graticule.Domain(COMM, rows=8 * RANKS, columns=6)
    other = nn.Sequential(nn.Conv2d(1, 1, 3, padding=1))
    graticule.shard(other, declared)
    other(graticule.shard_of(whole, declared))
    raises("ShapeMismatch", lambda: other(torch.full((1, 1, 8 * RANKS + 1, 6), float(RANK))), "rows=", f"{8 * RANKS}")
    raises("BadOption", lambda: graticule.Domain(COMM, rows=0, columns=4), "rows = 0")


class DropPath(nn.Module):
    """As timm writes it."""

    def forward(self, x):
        if not self.training:
            return x
        mask = x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(0.6)
        return x * mask / 0.6


RANDOM = {
    "rand": lambda x: x * (torch.rand(x.shape[0], 1, 1, 1) < 0.6).to(x.dtype), "DropPath": DropPath(), "randn_like": lambda x: x + torch.randn_like(x.new_zeros(4, 1, 1)),
    "randint": lambda x: x * torch.randint(1, 9, (x.shape[0], 1, 1, 1)), "randperm": lambda x: x[torch.randperm(x.shape[0])],
    "uniform_": lambda x: x + torch.zeros(4, 1, 1).uniform_(), "normal": lambda x: x + torch.normal(torch.zeros(4, 1, 1), 1.0),
    "dropout": lambda x: x * F.dropout(torch.ones(x.shape[0], 4), 0.5)[..., None, None], "multinomial": lambda x: x * torch.multinomial(torch.ones(9), 1),
    "distributions": lambda x: x * torch.distributions.Bernoulli(0.5).sample((x.shape[0], 1, 1, 1)), "generator": lambda x: x * torch.rand(4, 1, 1, generator=GENERATOR[0]),
    "shard_of": lambda x: x + graticule.shard_of(torch.randn(x.shape[-2:], dtype=x.dtype), DOMAIN), "nn.Dropout": nn.Sequential(nn.Identity(), nn.Dropout(0.0)),
    "gamma": lambda x: x * torch.distributions.Gamma(torch.ones(4, 1, 1), 1.0).rsample(), "dirichlet": lambda x: x * torch.distributions.Dirichlet(torch.ones(4)).rsample()[:, None, None],
    "attention": lambda x: x * F.scaled_dot_product_attention(*[torch.ones(1, 2, 4, 8)] * 3, dropout_p=0.5).mean(), "rrelu": lambda x: x * F.rrelu(-torch.ones(4, 1, 1), training=True),
    "gumbel": lambda x: x * F.gumbel_softmax(torch.ones(x.shape[0], 4), hard=True)[..., None, None]}
GENERATOR = [None]


class Random(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.conv, self.act, self.out, self.drop = nn.Conv2d(3, 4, 3, padding=1), act, nn.Conv2d(4, 2, 1), nn.Dropout(0.5)

    def forward(self, x):
        return self.out(self.act(self.conv(x))) * self.drop(torch.ones(8))[:2, None, None]


def seeded(call, seed):
    torch.manual_seed(seed)
    GENERATOR[0] = torch.Generator().manual_seed(seed)
    return call()


def test_random_numbers_of_the_models_code_are_those_of_one_process():
    """Ranks have seeds of their own: the first rank's numbers count, and the others' own are not used up."""
    x = torch.randn(5, 3, 2 * RANKS + 2, 6, dtype=torch.double)
    mine = graticule.shard_of(x, DOMAIN).clone()
    for name, act in RANDOM.items():
        serial = Random(act).double()
        net = copy.deepcopy(serial)
        graticule.shard(net, DOMAIN)
        if name == "shard_of":
            serial.act = lambda y: y + torch.randn(y.shape[-2:], dtype=y.dtype)
        expected = seeded(lambda: serial(x), 100)
        after = torch.rand(3)
        close(graticule.whole_field(seeded(lambda: net(mine), 100 + RANK), DOMAIN), expected)
        own = torch.rand(3)
        if RANK == 0:
            assert torch.equal(own, after), name
        else:
            torch.manual_seed(100 + RANK)
            assert torch.equal(own, torch.rand(3)), name
        close(graticule.whole_field(seeded(lambda: net(mine), 100), DOMAIN), expected)
        assert torch.equal(torch.rand(3), after), f"{name}: equal generators are in step"


def test_all_functions_of_torch_that_draw_are_known():
    """Those that torch itself marks as drawing, of its public functions and methods."""
    drawing = {s.name.split("::")[1] for s in torch._C._jit_get_all_schemas() if s.name.startswith("aten::") and hasattr(torch.ops.aten, s.name[6:]) and
               torch.Tag.nondeterministic_seeded in getattr(getattr(torch.ops.aten, s.name[6:]), s.overload_name or "default").tags}
    public = {name for name in drawing if callable(getattr(torch, name, None)) or hasattr(torch.Tensor, name)} - {"_fused_sdp_choice", "_nested_tensor_softmax_with_shape"}
    inner = {name for name in public if name.startswith(("_scaled_dot", "_cudnn", "miopen", "_lstm", "_efficient", "_flash", "_triton", "_fill"))}
    args = (torch.ones(2), 0.5, 0.5, True, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5)
    missing = {name for name in public - inner if not graticule._random.draws(name, args, {"training": True, "dropout_p": 0.5})}
    assert len(public - inner) > 30 and not missing, missing


def test_random_numbers_by_shards_are_refused():
    for name, act in (("rand_like", lambda x: x + torch.rand_like(x)), ("normal_", lambda x: x.clone().normal_()),
                      ("bernoulli", lambda x: torch.bernoulli(x.sigmoid())), ("rrelu", lambda x: F.rrelu(x, training=True)),
                      ("alpha_dropout", lambda x: F.alpha_dropout(x, training=True)), ("gumbel_softmax", lambda x: F.gumbel_softmax(x, dim=1))):
        net = Random(act)
        graticule.shard(net, DOMAIN)
        raises("NotSharded", lambda: net(graticule.shard_of(torch.randn(1, 3, 8, 6), DOMAIN)), name, "random")


class Drawn(nn.Module):
    """With numbers of Python's own random."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x):
        return self.conv(x) * random.random()


def test_random_numbers_of_python_are_the_same_on_all_ranks_or_refused():
    net = Drawn()
    graticule.shard(net, DOMAIN)
    x = graticule.shard_of(torch.randn(1, 3, 8, 6), DOMAIN)
    random.seed(1)
    net(x)
    net(x)
    random.seed(RANK)
    if RANKS > 1:
        raises("NotSharded", lambda: net(x), "random", "torch.rand")
    fresh = Drawn()
    fresh.load_state_dict(net.state_dict())
    graticule.shard(fresh, DOMAIN)
    if RANKS > 1:
        raises("NotSharded", lambda: fresh(x), "random", "torch.rand")


def test_losses_of_one_ranks_cells_are_refused():
    x, t = (graticule.shard_of(torch.randn(1, 3, 9, 6), DOMAIN, rows=uneven(9)).clone() for _ in range(2))
    net = nn.Sequential(nn.Conv2d(3, 3, 3, padding=1))
    graticule.shard(net, DOMAIN)
    for name, loss in (("mse_loss", lambda y: F.mse_loss(y, t)), ("mean", lambda y: (y - t).abs().mean()), ("mean", lambda y: F.l1_loss(y, t) * 3 + 1),
                       ("std", lambda y: y.std()), ("mean", lambda y: y.mean((2, 3)).square().sum()), ("smooth_l1_loss", lambda y: F.smooth_l1_loss(y, t)),
                       ("nll_loss", lambda y: F.cross_entropy(y, torch.zeros(y[:, 0].shape, dtype=torch.long))), ("max", lambda y: y.max()),
                       ("mean", lambda y: graticule.nn.MSELoss(DOMAIN)(y, t) + y.mean(-2).sum()), ("mean", lambda y: F.mse_loss(y, t, reduction="none").mean()),
                       ("norm", lambda y: y.norm()), ("mean", lambda y: y.flatten(2).mean(-1).sum()), ("mean", lambda y: y.permute(0, 2, 3, 1).reshape(-1, 3).mean(0).sum()),
                       ("mean", lambda y: y.transpose(-1, -2).mean(-1).sum()), ("mean", lambda y: y.unsqueeze(1).sum(-1).mean(-1).sum()),
                       ("mean", lambda y: y[:, 0].mean(1).sum()), ("softmax", lambda y: y.flatten(2).softmax(-1).square().sum()), ("fft", lambda y: torch.fft.rfft2(y).abs().sum()),
                       ("sqrt of a sum", lambda y: y.square().sum().sqrt()), ("log of a sum", lambda y: 1 - y.exp().sum((2, 3)).log().sum()),
                       ("division of a sum", lambda y: y.sum() / (1 + y.square().sum())), ("reciprocal of a sum", lambda y: 3 / y.square().sum()), ("pow of a sum", lambda y: y.flatten().dot(y.flatten()) ** 2),
                       ("sum, divided by the number of these cells,", lambda y: (y - t).square().sum() / y.numel())):
        if RANKS > 1:
            raises("NotSharded", lambda: loss(net(x)).backward(), f"torch's {name} of a shard", "reduce_loss")
            if name == "mse_loss":
                raises("NotSharded", lambda: graticule.reduce_loss(loss(net(x)), DOMAIN), "mse_loss")
                raises("NotSharded", lambda: torch.autograd.backward([loss(net(x))]), "mse_loss")
                raises("NotSharded", lambda: torch.autograd.grad(loss(net(x)), list(net.parameters())), "mse_loss")
            if "of a sum" in name:
                raises("NotSharded", lambda: graticule.reduce_loss(loss(net(x)), DOMAIN).backward(), name)
    for loss in (lambda y: (y - t).square().sum(), lambda y: F.mse_loss(y, t, reduction="sum"), lambda y: y.mean(1).sum(), lambda y: y.mean(-1).square().sum(),
                 lambda y: graticule.reduce_loss((y - t).square().sum(), DOMAIN), lambda y: graticule.nn.MSELoss(DOMAIN)(y, t) + net[0].weight.square().mean(),
                 lambda y: graticule.reduce_loss(y.mean() * (y.numel() / 162), DOMAIN), lambda y: graticule.reduce_loss(y.square().sum(), DOMAIN).sqrt(),
                 lambda y: torch.stack([y.sum(), y.square().sum()]).mean(), lambda y: y.permute(0, 2, 3, 1).mean(-1).sum(), lambda y: y.flatten(2).mean(1).sum(),
                 lambda y: y.softmax(1).square().sum(), lambda y: y.square().sum(1).sqrt().sum(), lambda y: y.square().sum() / 162, lambda y: y.transpose(1, 2).mean(2).sum()):
        loss(net(x)).backward()
    y = net(x)
    y.backward(torch.ones_like(y))
    assert y.mean().item() == y.mean().item()  # of one rank, for a look
    if RANKS > 1:
        program = graticule.shard_program(nn.Sequential(nn.Conv2d(3, 3, 3, padding=1)), DOMAIN)
        raises("NotSharded", lambda: F.mse_loss(program(x), t).backward(), "torch's mse_loss of a shard")
        graticule.reduce_loss((program(x) - t).square().sum(), DOMAIN).backward()


def autocast_cases():
    for d in (2, 3):
        yield f"Conv{d}d", d, lambda d=d: [getattr(nn, f"Conv{d}d")(4, 4, 3, padding=1)]
        yield f"ConvTranspose{d}d", d, lambda d=d: [getattr(nn, f"ConvTranspose{d}d")(4, 4, 3, padding=1)]
        for kind in ("BatchNorm", "InstanceNorm"):
            yield f"{kind}{d}d", d, lambda d=d, kind=kind: [getattr(nn, f"{kind}{d}d")(4, affine=True)]
        for kind in ("MaxPool", "AvgPool"):
            yield f"{kind}{d}d", d, lambda d=d, kind=kind: [getattr(nn, f"{kind}{d}d")(2)]
        for kind in ("AdaptiveAvgPool", "AdaptiveMaxPool"):
            yield f"{kind}{d}d", d, lambda d=d, kind=kind: [getattr(nn, f"{kind}{d}d")(2)]
        for kind in ("ReflectionPad", "ReplicationPad", "ZeroPad", "CircularPad"):
            yield f"{kind}{d}d", d, lambda d=d, kind=kind: [getattr(nn, f"{kind}{d}d")(1)]
    yield "GroupNorm", 2, lambda: [nn.GroupNorm(2, 4)]
    yield "LayerNorm", 2, lambda: [nn.LayerNorm([4, 8, 6])]
    yield "RMSNorm", 2, lambda: [nn.RMSNorm([8, 6])]
    yield "LocalResponseNorm", 2, lambda: [nn.LocalResponseNorm(2)]
    yield "LPPool2d", 2, lambda: [nn.ReLU(), nn.LPPool2d(2.0, 2)]
    for mode in ("nearest", "bilinear", "bicubic"):
        yield f"Upsample {mode}", 2, lambda mode=mode: [nn.Upsample(scale_factor=2, mode=mode)]
    yield "PixelShuffle", 2, lambda: [nn.PixelShuffle(2)]


def test_autocast_gives_the_types_and_values_of_serial_layers():
    """Each layer behind f32 and behind bf16, with a convolution behind it, so that all types meet."""
    for name, d, make in autocast_cases():
        for first in ([], [nn.Conv2d(4, 4, 1) if d == 2 else nn.Conv3d(4, 4, 1)]):
            serial = nn.Sequential(*first, *make())
            net = copy.deepcopy(serial)
            graticule.shard(net, DOMAIN)
            x = torch.randn(2, 4, *[4] * (d - 2), 8, 6)
            mine = graticule.shard_of(x, DOMAIN).clone().requires_grad_()
            whole = x.clone().requires_grad_()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                expected, y = serial(whole), net(mine)
            assert y.dtype == expected.dtype, (name, len(first), y.dtype, expected.dtype)
            close(graticule.whole_field(y, DOMAIN).float(), expected.float(), 2e-2)
            graticule.reduce_loss(y.float().square().sum(), DOMAIN).backward()
            expected.float().square().sum().backward()
            assert mine.grad.dtype == whole.grad.dtype == torch.float32
            close(mine.grad, graticule.shard_of(whole.grad, DOMAIN), 6e-2)
            if list(net.parameters()):
                graticule.GradientSync(net, [(COMM, "sum")]).reduce()
            for a, b in zip(net.parameters(), serial.parameters()):
                assert a.grad.dtype == b.grad.dtype
                close(a.grad, b.grad, 6e-2)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.i, self.l, self.o = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8, 8), nn.Conv2d(8, 2, 3, padding=1)
        self.attention, self.own = nn.MultiheadAttention(8, 2, batch_first=True), graticule.nn.SelfAttention(8, 2)

    def forward(self, x):
        h = self.l(self.i(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        t = h.flatten(2).transpose(1, 2)
        t = t + self.attention(t, t, t, need_weights=False)[0]
        h = self.own(t.transpose(1, 2).reshape(h.shape))
        return self.o(F.interpolate(F.avg_pool2d(h, 2), scale_factor=2.0))


def test_autocast_of_mixed_blocks_and_losses():
    net = Block()
    graticule.shard(net, DOMAIN)
    x = graticule.shard_of(torch.randn(1, 3, 8, 6), DOMAIN).clone()
    plain = net(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = net(x)
        loss = graticule.nn.MSELoss(DOMAIN)(y, graticule.shard_of(torch.zeros(1, 2, 8, 6), DOMAIN))
    assert y.dtype == torch.bfloat16
    close(y.float(), plain, 5e-2)
    loss.backward()
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in net.parameters())
    with torch.autocast("cpu", enabled=False):
        assert net(x).dtype == torch.float32


class Checkpointed(nn.Module):
    """Parts that are run again in the backward, in ways of torch and of graticule."""

    def __init__(self, how):
        super().__init__()
        self.how = how
        self.z, self.a, self.b = nn.Conv2d(3, 3, 1), nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.Dropout(0.3), nn.Tanh()), nn.Conv2d(6, 2, 3, padding=1)
        self.down, self.up = nn.Conv2d(3, 3, 3, stride=2, padding=1), nn.ConvTranspose2d(3, 3, 2, stride=2)

    def part(self, x, more=None):
        h = self.a(x) * 100 / (x.shape[-1] * x.shape[-2])
        h = h * torch.rand(x.shape[0], 1, 1, 1, dtype=x.dtype) * (1 if more is None else more["t"].mean())
        return torch.cat([self.up(self.down(x)), x], 1) * h

    def forward(self, x, t):
        x = self.z(x)
        more = {"t": t}
        if self.how == "plain":
            return self.b(self.part(x, more))
        if self.how == "graticule":
            return self.b(graticule.checkpoint(DOMAIN, lambda y: self.part(y, more), x))
        if self.how.startswith("nested"):
            inner = self.how == "nested in reentrant"
            outer = cp.checkpoint(lambda y: cp.checkpoint(self.part, y * 1.0, more, use_reentrant=not inner) * x.shape[-2], x, use_reentrant=inner)
            return self.b(outer / x.shape[-2])
        if self.how == "keywords":
            return self.b(cp.checkpoint(self.part, x, more=more, use_reentrant=False))
        return self.b(cp.checkpoint(self.part, x, more, use_reentrant=self.how == "reentrant"))


def gradients(net, call, seed):
    net.zero_grad()
    DOMAIN.num_draws = 5
    torch.manual_seed(seed)
    graticule.reduce_loss(call().square().sum(), DOMAIN).backward()
    graticule.GradientSync(net, [(COMM, "sum")]).reduce()
    assert DOMAIN.num_draws == 6
    return [p.grad.clone() for p in net.parameters()]


def test_checkpoints_within_a_model():
    x, t = torch.randn(2, 3, 10, 12, dtype=torch.double), torch.randn(2, 5, 8, dtype=torch.double)
    state = Checkpointed("plain").double().state_dict()
    expected = None
    for how in ("plain", "graticule", "non-reentrant", "reentrant", "keywords", "nested", "nested in reentrant"):
        net = Checkpointed(how).double()
        net.load_state_dict(state)
        graticule.shard(net, DOMAIN)
        mine = graticule.shard_of(x, DOMAIN, rows=balanced(10)).clone()
        found = gradients(net, lambda: net(mine, t), 20 + RANK)
        expected = expected or found
        for a, b in zip(found, expected):
            close(a, b)


class Tokens(nn.Module):
    """Functions of cells in one axis, and of fields, without a layer, run again."""

    def __init__(self, reentrant):
        super().__init__()
        self.a, self.reentrant = nn.Conv2d(3, 3, 3, padding=1), reentrant

    def run(self, function, x):
        return function(x) if self.reentrant is None else cp.checkpoint(function, x, use_reentrant=self.reentrant)

    def forward(self, x):
        tokens = self.run(lambda t: t.softmax(-1) * t.shape[1] + t.mean(-1, keepdim=True), self.a(x).flatten(2).transpose(1, 2))
        return self.run(lambda y: torch.cat([y * y.shape[-2], F.interpolate(F.avg_pool2d(y, 2), size=y.shape[-2:])], 1), tokens.transpose(1, 2).view(x.shape))


def test_checkpoints_of_functions_alone():
    x = torch.randn(2, 3, 12, 6, dtype=torch.double)
    for reentrant in (False, True):
        serial = Tokens(None).double()
        net = copy.deepcopy(serial)
        net.reentrant = reentrant
        graticule.shard(net, DOMAIN)
        y = net(graticule.shard_of(x, DOMAIN, rows=uneven(12)))
        close(graticule.whole_field(y, DOMAIN), serial(x))
        graticule.reduce_loss(y.square().sum(), DOMAIN).backward()
        graticule.GradientSync(net, [(COMM, "sum")]).reduce()
        serial(x).square().sum().backward()
        close(net.a.weight.grad, serial.a.weight.grad, 1e-11)


def test_checkpoints_around_a_model_and_of_sequences():
    x = torch.randn(2, 3, 10, 12, dtype=torch.double)
    serial = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.Dropout(0.3), nn.Tanh(), nn.Conv2d(6, 3, 3, padding=1), nn.Dropout(0.2)).double()
    net = copy.deepcopy(serial)
    graticule.shard(net, DOMAIN)
    mine = graticule.shard_of(x, DOMAIN, rows=uneven(10)).clone().requires_grad_()

    def run(call):
        mine.grad = None
        DOMAIN.num_draws = 7
        net.zero_grad()
        graticule.reduce_loss(call().square().sum(), DOMAIN).backward()
        return [mine.grad.clone(), *(p.grad.clone() for p in net.parameters())]

    expected = run(lambda: net(mine))
    for call in (lambda: cp.checkpoint(net, mine, use_reentrant=False), lambda: cp.checkpoint(net, mine, use_reentrant=True),
                 lambda: cp.checkpoint_sequential(net, 2, mine, use_reentrant=False), lambda: cp.checkpoint_sequential(net, 2, mine, use_reentrant=True)):
        for a, b in zip(run(call), expected):
            close(a, b)


class Skip(nn.Module):
    """A U-Net whose way up comes first in `cat`."""

    def __init__(self, first):
        super().__init__()
        self.first, self.a, self.d, self.e = first, nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 4, 3, stride=2, padding=1), nn.Conv2d(4, 4, 3, stride=2, padding=1)
        self.u, self.v, self.o = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(8, 4, 3, padding=1), nn.Conv2d(8, 2, 3, padding=1)

    def forward(self, x):
        a = self.a(x)
        d = self.d(a)
        e = self.e(d)
        u = F.interpolate(self.u(e), size=d.shape[-2:])
        v = F.interpolate(self.v(torch.cat([u, d] if self.first else [d, u], 1)), size=a.shape[-2:])
        y = self.o(torch.cat([v, a] if self.first else [a, v], 1))
        return {"y": y, "more": (F.interpolate(e, size=x.shape[-2:]), d)}


def test_skips_keep_the_cuts_of_the_input():
    for rows in (16, 21, 43):
        x, target = torch.randn(1, 2, rows, 8, dtype=torch.double), torch.randn(1, 2, rows, 8, dtype=torch.double)
        for sizes in (balanced(rows), uneven(rows)):
            mine, wanted = (graticule.shard_of(t, DOMAIN, rows=sizes).clone() for t in (x, target))
            for first in (True, False):
                serial = Skip(first).double()
                net = copy.deepcopy(serial)
                graticule.shard(net, DOMAIN)
                out, expected = net(mine), serial(x)
                for y, e in ((out["y"], expected["y"]), (out["more"][0], expected["more"][0])):
                    assert list(graticule.part_of(y, DOMAIN).rows.sizes) == sizes, (graticule.part_of(y, DOMAIN).rows.sizes, sizes)
                    close(graticule.whole_field(y, DOMAIN), e)
                close(graticule.whole_field(out["more"][1], DOMAIN), expected["more"][1])
                loss = graticule.nn.MSELoss(DOMAIN)(out["y"], wanted)
                loss.backward()
                close(loss, F.mse_loss(expected["y"], target))


def test_losses_of_fields_in_other_cuts():
    p, t = torch.randn(2, 3, 13, 6, dtype=torch.double), torch.randn(2, 3, 13, 6, dtype=torch.double)
    a, b = graticule.shard_of(p, DOMAIN, rows=balanced(13)).clone().requires_grad_(), graticule.shard_of(t, DOMAIN, rows=uneven(13)).clone()
    mask = graticule.shard_of((t[:, :1] > 0).double(), DOMAIN, rows=uneven(13)).clone()
    for _ in range(2):
        loss = graticule.nn.MSELoss(DOMAIN)
        close(loss(a, b), F.mse_loss(p, t))
        close(loss(a, b), F.mse_loss(p, t))
        close(loss(a, b, mask.expand_as(b)), ((p - t) ** 2)[(t[:, :1] > 0).expand_as(t)].mean())
        close(graticule.nn.SpectralLoss(DOMAIN)(a, b), graticule.nn.SpectralLoss(DOMAIN)(graticule.shard_of(p, DOMAIN), graticule.shard_of(t, DOMAIN)))
    classes = graticule.shard_of(t.argmax(1), DOMAIN, rows=uneven(13)).clone()
    close(graticule.nn.CrossEntropyLoss(DOMAIN)(a, classes), F.cross_entropy(p, t.argmax(1)))
    loss(a, b).backward()
    close(a.grad, graticule.shard_of(2 * (p - t) / p.numel(), DOMAIN, rows=balanced(13)))
    raises("ShapeMismatch", lambda: graticule.nn.MSELoss(DOMAIN)(a, graticule.shard_of(t[:, :, :11], DOMAIN)))
    raises("ShapeMismatch", lambda: graticule.nn.MSELoss(DOMAIN)(a, b[:, :2]))


class Scale(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.gamma = nn.Parameter(0.1 * torch.ones(d, 1, 1))

    def forward(self, x):
        return x * self.gamma


class Own(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.gamma, self.d, self.p, self.scale = nn.Parameter(0.1 * torch.ones(d, 1, 1)), nn.Conv2d(d, d, 7, padding=3, groups=d), nn.Conv2d(d, d, 1), Scale(d)
        self.register_buffer("shift", torch.ones(d, 1, 1))
        self.w = nn.ParameterList([nn.Parameter(torch.ones(d, 1, 1))])
        self.v = nn.ParameterDict({"v": nn.Parameter(torch.ones(d, 1, 1))})

    def forward(self, x):
        return x + self.gamma * self.scale(self.p(F.gelu(self.d(x)))) + self.shift * self.w[0] * self.v["v"]


class MyConv(nn.Conv2d):
    """Other defaults, and nothing else."""

    def __init__(self, c_in, c_out):
        super().__init__(c_in, c_out, 3, padding=1, padding_mode="circular")


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def test_modules_with_parameters_of_their_own():
    norm = nn.utils.parametrizations
    x = torch.randn(2, 3, 12, 8, dtype=torch.double)
    for make in (lambda: Own(3), lambda: nn.Sequential(Own(3), Own(3)), lambda: nn.Sequential(Scale(3), MyConv(3, 3), LayerNorm2d(3)),
                 lambda: nn.Sequential(norm.weight_norm(nn.Conv2d(3, 4, 3, padding=1)), nn.GELU(), norm.spectral_norm(nn.Conv2d(4, 3, 3, padding=1))),
                 lambda: nn.Sequential(norm.weight_norm(MyConv(3, 4)), norm.spectral_norm(nn.ConvTranspose2d(4, 3, 3, padding=1))),
                 lambda: nn.Sequential(nn.utils.spectral_norm(nn.Conv2d(3, 3, 3, padding=1)))):
        serial = make().double()
        net = copy.deepcopy(serial)
        report = graticule.shard(net, DOMAIN)
        assert report.num("refused") == 0, report.text()
        mine = graticule.shard_of(x, DOMAIN, rows=uneven(12)).clone()
        for _ in range(2):
            expected, y = serial(x), net(mine)
            close(graticule.whole_field(y, DOMAIN), expected)
            net.zero_grad()
            serial.zero_grad()
            graticule.nn.MSELoss(DOMAIN)(y, mine).backward()
            F.mse_loss(expected, x).backward()
            graticule.GradientSync(net, [(COMM, "sum")]).reduce()
            for (name, a), b in zip(net.named_parameters(), serial.parameters()):
                close(a.grad, b.grad, 1e-11)
    raises("NotSharded", lambda: graticule.shard(nn.Sequential(nn.LazyConv2d(3, 3), nn.ReLU()), DOMAIN), "0 (LazyConv2d)", "is lazy")


def without(module, *names):
    for name in names:
        module.register_parameter(name, None)
    return module


def completed(net):
    """The same norms with constants for what they lack: the backward of torch 2.13 fails for a batch norm with a weight and no bias."""
    for module in net.modules():
        if "Norm" in type(module).__name__ and "RMS" not in type(module).__name__ and (module.weight is None) != (module.bias is None):
            name, other = ("weight", module.bias) if module.weight is None else ("bias", module.weight)
            del module._parameters[name]
            setattr(module, name, torch.full_like(other.detach(), name == "weight"))
    return net


def test_layers_without_each_optional_parameter():
    x = torch.randn(2, 4, 9, 6, dtype=torch.double)
    makers = [lambda: nn.LayerNorm([4, 9, 6], bias=False), lambda: nn.LayerNorm([9, 6], bias=False), lambda: nn.LayerNorm([4, 9, 6], elementwise_affine=False),
              lambda: nn.RMSNorm([4, 9, 6], elementwise_affine=False), lambda: nn.RMSNorm([9, 6], eps=1e-5), lambda: nn.GroupNorm(2, 4, affine=False),
              lambda: nn.Conv2d(4, 4, 3, padding=1, bias=False), lambda: nn.ConvTranspose2d(4, 4, 3, padding=1, bias=False),
              lambda: nn.BatchNorm2d(4, affine=False), lambda: nn.BatchNorm2d(4, track_running_stats=False), lambda: nn.BatchNorm2d(4, momentum=None),
              lambda: nn.InstanceNorm2d(4, affine=True, track_running_stats=True), lambda: nn.InstanceNorm2d(4)]
    for make in (lambda: nn.LayerNorm([4, 9, 6]), lambda: nn.GroupNorm(2, 4), lambda: nn.BatchNorm2d(4), lambda: nn.InstanceNorm2d(4, affine=True)):
        for names in (["bias"], ["weight"], ["weight", "bias"]):
            makers.append(lambda make=make, names=names: without(make(), *names))
    makers.append(lambda: without(nn.RMSNorm([4, 9, 6]), "weight"))
    makers.append(lambda: without(nn.Conv2d(4, 4, 3), "bias"))
    for make in makers:
        serial = nn.Sequential(make()).double()
        for p in serial.parameters():
            nn.init.normal_(p)
        for mode in (True, False):
            net = copy.deepcopy(serial).train(mode)
            twin = completed(copy.deepcopy(serial)).train(mode)
            graticule.shard(net, DOMAIN)
            mine = graticule.shard_of(x, DOMAIN, rows=uneven(9)).clone().requires_grad_()
            whole = x.clone().requires_grad_()
            y, expected = net(mine), twin(whole)
            close(graticule.whole_field(y, DOMAIN), expected, 1e-11)
            graticule.reduce_loss((y ** 3).sum(), DOMAIN).backward()
            (expected ** 3).sum().backward()
            close(mine.grad, graticule.shard_of(whole.grad, DOMAIN, rows=uneven(9)), 1e-10)
            if list(net.parameters()):
                graticule.GradientSync(net, [(COMM, "sum")]).reduce()
            for a, b in zip(net.parameters(), twin.parameters()):
                close(a.grad, b.grad, 1e-10)
            for a, b in zip(net.buffers(), twin.buffers()):
                close(a, b)


class Act(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.conv, self.act = nn.Conv2d(2, 2, 3, padding=1), act

    def forward(self, x):
        return self.act(self.conv(x))


def test_functions_that_were_refused_without_need():
    t = torch.arange(2.0)
    x = torch.randn(2, 2, 9, 6, dtype=torch.double)
    for act in (lambda x: x * t.type_as(x)[:, None, None], lambda x: x * t.to(x)[:, None, None], lambda x: F.pad(x, (0, 0, 0, 0, 1, 2)),
                lambda x: F.pad(x.permute(0, 2, 3, 1), (0, 3)).permute(0, 3, 1, 2), lambda x: torch.as_tensor(x) * 2, lambda x: torch.asarray(x, requires_grad=True),
                lambda x: F.pad(x, (1, 1, 0, 2, 1, 0), value=2.0), lambda x: F.pad(x.flatten(2).transpose(1, 2), (1, 1)).transpose(1, 2).unflatten(2, x.shape[-2:]),
                lambda x: F.pad(x, (0, 0, 0, 0, 0, 0, 1, 1)), lambda x: F.pad(x, (0, 0, 0, 0, -1, 0)), lambda x: torch.as_tensor(x, dtype=torch.float32).double()):
        serial = Act(act).double()
        net = copy.deepcopy(serial)
        graticule.shard(net, DOMAIN)
        close(graticule.whole_field(net(graticule.shard_of(x, DOMAIN, rows=uneven(9))), DOMAIN), serial(x), 1e-6)


def test_parameters_that_differ_between_ranks_are_named():
    if RANKS == 1:
        skip("one rank: parameters cannot differ")
    net = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.Conv2d(2, 1, 1))
    graticule.shard(net, DOMAIN)
    with torch.no_grad():
        net[1].weight[0, 0] += RANK == RANKS - 1
    x = graticule.shard_of(torch.randn(1, 1, 9, 6), DOMAIN)
    raises("ReplicaMismatch", lambda: net(x), "1.weight", f"rank {RANKS - 1}", "broadcast")
    graticule.GradientSync(net, [(COMM, "sum")]).broadcast()
    assert net(x).shape == x.shape


def test_state_that_one_rank_changes_is_named():
    """Buffers of layers, options of layers, and what one rank alone writes between two calls."""
    x = torch.randn(2, 3, 12, 6)
    last = RANK == RANKS - 1

    def made():
        torch.manual_seed(4)
        return nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3), nn.utils.parametrizations.spectral_norm(nn.Conv2d(3, 3, 1))).eval()

    def call(domain, net):
        return net(graticule.shard_of(x, domain))

    if RANKS == 1:
        skip("one rank has nobody to differ from")
    for name, change in (("buffer 1.running_var", lambda net: net[1].running_var.mul_(2)), ("buffer 2.parametrizations.weight.0._u", lambda net: net[2].parametrizations.weight[0]._u.neg_()),
                         ("parameter 0.bias", lambda net: net[0].bias.data.add_(1))):
        net, domain = made(), graticule.Domain(COMM)
        if last:
            change(net)
        graticule.shard(net, domain)
        raises("ReplicaMismatch", lambda: call(domain, net), name, f"rank {RANKS - 1}")
    for change in (lambda net: net[0].load_state_dict({k: v + 1 for k, v in net[0].state_dict().items()}), lambda net: nn.init.ones_(net[1].weight),
                   lambda net: nn.init.zeros_(net[0].weight)):
        net, domain = made(), graticule.Domain(COMM)
        graticule.shard(net, domain)
        before = call(domain, net)
        close(call(domain, net), before)
        values = {k: v.clone() for k, v in net.state_dict().items()}
        with torch.no_grad():
            for p in net.parameters():
                p.mul_(2)  # on all ranks
        call(domain, net)
        if last:
            change(net)
            net.load_state_dict(values)
        else:
            for p in net.parameters():
                p.data.div_(2)  # the same values without a trace
        close(call(domain, net), before)  # are the same, so they are no error
        if last:
            with torch.no_grad():
                net[0].weight.mul_(2)
        raises("ReplicaMismatch", lambda: call(domain, net), "parameter 0.weight")
    for change in (lambda net: setattr(net[1], "eps", 0.1), lambda net: setattr(net[0], "stride", (2, 2)), lambda net: setattr(net[0], "padding_mode", "replicate")):
        net = made()
        if last:
            change(net)
        raises("ArgumentDisagreement", lambda: graticule.shard(net, graticule.Domain(COMM)))


def test_parameters_without_values_are_named_on_all_ranks():
    net = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.Conv2d(2, 1, 1))
    graticule.shard(net, DOMAIN)
    if RANK == RANKS - 1:
        net[1].to("meta")
    raises("WrongState", lambda: net(graticule.shard_of(torch.randn(1, 1, 9, 6), DOMAIN)), "1.weight", "meta")


def test_copies_of_called_models_work():
    net = Skip(True)
    graticule.shard(net, DOMAIN)
    mine = graticule.shard_of(torch.randn(1, 2, 21, 8), DOMAIN, rows=uneven(21))
    expected = net(mine)["y"]
    close(copy.deepcopy(net)(mine)["y"], expected)


main(globals())
