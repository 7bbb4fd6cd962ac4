# SPDX-License-Identifier: BSD-3-Clause
"""Every layer of graticule.nn: sharded results and gradients against torch.nn on the whole field."""
import copy
import math

import numpy as np
import torch
import torch.nn.functional as F
from support import COMM, RANK, RANKS, balanced, close, main, raises, uneven
from torch import nn

import graticule
from graticule import nn as gn

DOMAIN = graticule.Domain(COMM)
ALONE = graticule.Domain(int(__import__("mpi4py.MPI").MPI.COMM_SELF.py2f()))


def whole(*sizes):
    torch.manual_seed(sum(sizes))
    return torch.randn(*sizes, dtype=torch.double)


def shard(x, rows=None):
    return graticule.shard_of(x, DOMAIN, rows=rows or uneven(x.shape[-2])).clone().requires_grad_(x.is_floating_point())


def check(layer, serial, x, rows=None, call=None, serial_call=None, tolerance=1e-11):
    """Output and gradients of a layer on shards, against those of a serial one on the whole field."""
    call, serial_call = call or layer, serial_call or serial
    if list(serial.parameters()):
        layer.load_state_dict(serial.state_dict())
    mine, x = shard(x, rows), x.clone().requires_grad_()
    y, expected = call(mine), serial_call(x)
    close(graticule.whole_field(y, DOMAIN), expected, tolerance)
    weights = torch.cos(torch.arange(expected.numel(), dtype=torch.double)).reshape(expected.shape)
    part = graticule.part_of(y, DOMAIN)
    rows_of, columns_of = part.rows, part.columns
    own = weights[..., rows_of.lo:rows_of.lo + rows_of.size, columns_of.lo:columns_of.lo + columns_of.size]
    graticule.reduce_loss((y * own).sum(), DOMAIN).backward()
    (expected * weights).sum().backward()
    close(mine.grad, graticule.shard_of(x.grad, DOMAIN, rows=rows or uneven(x.shape[-2])), tolerance)
    check_parameters(layer, serial, tolerance)


def check_parameters(layer, serial, tolerance=1e-11):
    names = dict(serial.named_parameters())
    assert set(dict(layer.named_parameters())) == set(names)
    if names:
        graticule.GradientSync(layer, [(COMM, "sum")]).reduce()
    for name, parameter in layer.named_parameters():
        close(parameter.grad, names[name].grad, tolerance)


def field(d, channels=4, rows=13, columns=12):
    return whole(2, channels, rows * columns // 6) if d == 1 else whole(2, channels, *([3] * (d - 2)), rows, columns)


def of_torch(name, d, x, *args, rows=None, tolerance=1e-11, **kwargs):
    """graticule.nn's layer and torch.nn's."""
    serial = getattr(nn, name)(*args, **kwargs).double()
    layer = getattr(gn, name)(*args, domain=DOMAIN, **kwargs).double()
    assert isinstance(layer, type(serial))
    if d == 1:
        sizes = balanced(x.shape[-1])
        lo = sum(sizes[:RANK])
        layer.load_state_dict(serial.state_dict())
        mine, x = x[..., lo:lo + sizes[RANK]].clone().requires_grad_(), x.clone().requires_grad_()
        y, expected = layer(mine), serial(x)
        joined = graticule.gather(y, -1, DOMAIN, "distinct")
        close(joined, expected, tolerance)
        graticule.reduce_loss(y.square().sum(), DOMAIN).backward()
        expected.square().sum().backward()
        close(mine.grad, x.grad[..., lo:lo + sizes[RANK]], tolerance)
        check_parameters(layer, serial, tolerance)
    else:
        check(layer, serial, x, rows, tolerance=tolerance)


def test_convolutions():
    for d in (1, 2, 3):
        of_torch(f"Conv{d}d", d, field(d), 4, 6, 3, padding=1, padding_mode="circular" if d > 1 else "zeros", groups=2)
        of_torch(f"Conv{d}d", d, field(d), 4, 2, 3, stride=2, padding=1, bias=False)
        of_torch(f"ConvTranspose{d}d", d, field(d), 4, 3, 3, stride=2, padding=1, output_padding=1)
    of_torch("Conv2d", 2, field(2), 4, 2, (3, 5), padding="same", padding_mode="reflect")


def test_normalisations():
    for d in (1, 2, 3):
        of_torch(f"BatchNorm{d}d", d, field(d), 4, tolerance=1e-10)
        of_torch(f"InstanceNorm{d}d", d, field(d), 4, affine=True, tolerance=1e-10)
    of_torch("GroupNorm", 2, field(2), 2, 4, tolerance=1e-10)
    of_torch("LayerNorm", 2, field(2), (13, 12), tolerance=1e-10)
    of_torch("RMSNorm", 2, field(2), (13, 12), tolerance=1e-10)
    of_torch("LocalResponseNorm", 2, field(2), 3)
    layer, serial = gn.BatchNorm2d(4, domain=DOMAIN).double(), nn.BatchNorm2d(4).double()
    x = field(2)
    layer(shard(x))
    serial(x)
    close(layer.running_mean, serial.running_mean)
    close(layer.running_var, serial.running_var)
    assert layer.num_batches_tracked == 1
    close(graticule.whole_field(layer.eval()(shard(x)), DOMAIN), serial.eval()(x))


def test_pooling():
    for d in (1, 2, 3):
        of_torch(f"MaxPool{d}d", d, field(d), 3, stride=2, padding=1)
        of_torch(f"AvgPool{d}d", d, field(d), 3, stride=2, padding=1, ceil_mode=True)
        of_torch(f"LPPool{d}d", d, field(d).abs(), 2.0, 2)
        of_torch(f"AdaptiveAvgPool{d}d", d, field(d), 5 if d == 1 else (None,) * (d - 2) + (4, 3))
        of_torch(f"AdaptiveMaxPool{d}d", d, field(d), 5 if d == 1 else (None,) * (d - 2) + (4, 3))


def test_pooling_with_indices_and_back():
    for d in (2, 3):
        x = field(d, rows=12)
        values, indices = gn.__dict__[f"MaxPool{d}d"](2, return_indices=True, domain=DOMAIN)(shard(x, balanced(12)))
        wanted, places = getattr(nn, f"MaxPool{d}d")(2, return_indices=True)(x)
        close(graticule.whole_field(values, DOMAIN), wanted)
        back = gn.__dict__[f"MaxUnpool{d}d"](2, domain=DOMAIN)(values, indices)
        close(graticule.whole_field(back, DOMAIN), getattr(nn, f"MaxUnpool{d}d")(2)(wanted, places))
    one = gn.MaxUnpool1d(2, domain=ALONE)
    x = whole(1, 2, 8)
    values, indices = nn.MaxPool1d(2, return_indices=True)(x)
    close(one(values, indices), nn.MaxUnpool1d(2)(values, indices))


def test_resolutions():
    of_torch("Upsample", 2, field(2), scale_factor=2, mode="bilinear", align_corners=False)
    of_torch("Upsample", 2, field(2), size=(20, 17), mode="nearest")
    of_torch("UpsamplingNearest2d", 2, field(2), scale_factor=2)
    of_torch("UpsamplingBilinear2d", 2, field(2), scale_factor=2)
    of_torch("PixelShuffle", 2, field(2), 2)
    of_torch("PixelUnshuffle", 2, field(2, rows=14), 2)
    resize = gn.Resize(DOMAIN, size=[20, 17], mode="bicubic", align_corners=False)
    check(resize, nn.Identity(), field(2), serial_call=lambda x: F.interpolate(x, (20, 17), mode="bicubic", align_corners=False))
    skip, low = shard(whole(1, 2, 13, 12), uneven(13)), shard(whole(1, 2, 7, 6), balanced(7))
    up = gn.Resize(DOMAIN, mode="nearest").forward_like(low, skip)
    assert up.shape == skip.shape
    transposed, serial = gn.ConvTranspose2d(2, 2, 2, stride=2, domain=DOMAIN).double(), nn.ConvTranspose2d(2, 2, 2, stride=2).double()
    transposed.load_state_dict(serial.state_dict())
    skip = shard(whole(1, 2, 14, 12), uneven(14))
    up = transposed.forward_like(low, skip)
    assert up.shape == skip.shape
    close(graticule.whole_field(up, DOMAIN), serial(graticule.whole_field(low, DOMAIN)))


def test_padding():
    for d in (2, 3):
        widths = [1, 2, 2, 1] + [0, 0] * (d - 2)
        for kind in ("ZeroPad{d}d", "ReflectionPad{d}d", "ReplicationPad{d}d", "CircularPad{d}d"):
            of_torch(kind.format(d=d), d, field(d), tuple(widths))
        of_torch(f"ConstantPad{d}d", d, field(d), tuple(widths), 2.5)
        pad, trim = gn.__dict__[f"Pad{d}d"](widths, DOMAIN, mode="replicate"), gn.__dict__[f"Trim{d}d"](widths, DOMAIN)
        check(pad, nn.Identity(), field(d), serial_call=lambda x: F.pad(x, widths, mode="replicate"))
        check(nn.Sequential(pad, trim), nn.Identity(), field(d))
    x = whole(1, 2, 9)
    for kind in ("ZeroPad{d}d", "ReflectionPad{d}d", "ReplicationPad{d}d", "CircularPad{d}d"):
        of_torch(kind.format(d=1), 1, field(1), 2)
    of_torch("ConstantPad1d", 1, field(1), 2, 1.5)
    close(gn.Trim1d([1, 1], ALONE)(gn.Pad1d([1, 1], ALONE)(x)), x)


def test_poles_and_vectors():
    """Padding by the domain: vector components change sign across a pole."""
    x = whole(1, 2, 6, 4)
    halo = gn.HaloExchange(ALONE, latitude=(1, 0), odd_channels=[1])(x)
    close(halo[0, 0, 0], x[0, 0, 0].roll(2))
    close(halo[0, 1, 0], -x[0, 1, 0].roll(2))
    conv = gn.Conv2d(2, 1, (3, 1), padding=(1, 0), bias=False, domain=DOMAIN, padding_by="domain", odd_channels=[1]).double()
    padded = torch.cat([halo[..., :1, :], x, torch.stack([x[0, 0, -1:].roll(2, -1), -x[0, 1, -1:].roll(2, -1)])[None]], -2)
    close(graticule.whole_field(conv(shard(x, balanced(6))), DOMAIN), F.conv2d(padded, conv.weight))


def test_halos():
    x = whole(1, 2, 9, 6)
    mine = shard(x)
    y = gn.HaloExchange(DOMAIN, latitude=(1, 2), longitude=(2, 1))(mine)
    assert y.shape[-2:] == (mine.shape[-2] + 3, 9)
    layer = gn.PaddedHaloExchange(DOMAIN, latitude=(1, 2), longitude=(2, 1))
    room = layer.room_for(mine.detach())
    layer.owned(room).copy_(mine.detach())
    close(layer(room), y)
    # The transposed map: <A x, c> = <x, A' c>.
    c = torch.cos(torch.arange(y.numel(), dtype=torch.double)).reshape(y.shape)
    y.backward(c)
    left, right = COMM.allreduce((y * c).sum().item()), COMM.allreduce((mine * mine.grad).sum().item())
    assert abs(left - right) < 1e-10 * abs(left)


def test_attention():
    x = whole(2, 4, 7, 6)
    for kernel in ("fused", "plain", "ring"):
        layer = gn.SelfAttention(4, 2, kernel=kernel, domain=DOMAIN).double()
        serial = nn.MultiheadAttention(4, 2, batch_first=True).double()
        assert set(layer.state_dict()) == set(serial.state_dict())

        def tokens(field):
            t = field.flatten(2).transpose(1, 2)
            return serial(t, t, t, need_weights=False)[0].transpose(1, 2).reshape(field.shape)

        check(layer, serial, x, serial_call=tokens)
    window = gn.WindowAttention(4, 2, (3, 2), (1, 1), relative_position_bias=True, domain=DOMAIN).double()
    alone = gn.WindowAttention(4, 2, (3, 2), (1, 1), relative_position_bias=True, domain=ALONE).double()
    check(window, alone, x)
    check(gn.WindowAttention(4, 2, (3, 2), kind="dilated", domain=DOMAIN).double(),
          gn.WindowAttention(4, 2, (3, 2), kind="dilated", domain=ALONE).double(), x)
    raises("BadOption", lambda: gn.SelfAttention(5, 2, domain=DOMAIN), "5")


def test_spectra():
    x = whole(1, 2, 8, 12)
    mine = shard(x)
    transform = gn.FourierTransform(DOMAIN)
    spectrum = transform(mine)
    part = transform.part()
    close(torch.view_as_real(spectrum), torch.view_as_real(torch.fft.rfft(x)[..., part.lo:part.lo + part.size, :]))
    close(transform.inverse(spectrum), mine)
    both = gn.FourierTransform(DOMAIN, axes="rows_and_columns", norm="ortho")
    waves = both(mine)
    part = both.part()
    close(torch.view_as_real(waves), torch.view_as_real(torch.fft.rfft2(x, norm="ortho")[..., part.lo:part.lo + part.size]))
    check(gn.FourierConvolution(2, 3, 2, 3, DOMAIN).double(), gn.FourierConvolution(2, 3, 2, 3, ALONE).double(), x)
    latitudes = np.linspace(90, -90, 9)
    sphere = gn.SphericalTransform(latitudes, DOMAIN)
    ones = shard(torch.ones(1, 1, 9, 12, dtype=torch.double))
    c = sphere(ones)
    if sphere.orders().part == 0:
        assert abs(c[0, 0, 0, 0].item() - math.sqrt(4 * math.pi)) < 1e-12
    close(sphere.inverse(c), ones)
    y = whole(1, 2, 9, 12)
    check(gn.SphericalConvolution(2, 3, latitudes, DOMAIN, bias=True).double(),
          gn.SphericalConvolution(2, 3, latitudes, ALONE, bias=True).double(), y, tolerance=1e-10)
    raises("BadCoordinates", lambda: gn.SphericalTransform([1.0, 5.0, 6.0], DOMAIN))


def test_embeddings():
    x = whole(2, 3, 7, 6)
    check(gn.PositionEmbedding(3, DOMAIN, rows=7).double(), gn.PositionEmbedding(3, ALONE, rows=7).double(), x)
    latitudes, longitudes = np.linspace(90, -90, 7), np.arange(6) * 60.0
    check(gn.CoordinateFeatures(latitudes, longitudes, DOMAIN, 2), gn.CoordinateFeatures(latitudes, longitudes, ALONE, 2), x)
    levels = gn.LevelEmbedding(3, 2).double()
    check(levels, copy.deepcopy(levels), whole(2, 3, 2, 7, 6))
    time = gn.TimeEmbedding(3, [24.0, 8766.0]).double()
    times = torch.tensor([3.0, 30.0], dtype=torch.double)
    copied = copy.deepcopy(time)
    check(time, copied, x, call=lambda f: time(f, times), serial_call=lambda f: copied(f, times))


def test_random_masks():
    x = torch.ones(2, 3, 8, 6, dtype=torch.double)
    for name, more in (("Dropout", ()), ("Dropout2d", ()), ("AlphaDropout", ())):
        here, there = (getattr(gn, name)(0.5, domain=d, seed=5, layer=1) for d in (DOMAIN, ALONE))
        DOMAIN.num_draws = ALONE.num_draws = 3
        close(graticule.whole_field(here(shard(x)), DOMAIN), there(x))
        assert DOMAIN.num_draws == 4
    deep = torch.ones(2, 3, 2, 8, 6, dtype=torch.double)
    here, there = (gn.Dropout3d(0.5, domain=d, seed=5, layer=1) for d in (DOMAIN, ALONE))
    DOMAIN.num_draws = ALONE.num_draws = 3
    close(graticule.whole_field(here(shard(deep)), DOMAIN), there(deep))
    path = gn.DropPath(DOMAIN, p=0.5, seed=2, layer=4)
    y = path(shard(x))
    assert all(v in (0.0, 2.0) for v in y.flatten().tolist())
    assert torch.equal(path.eval()(shard(x)), shard(x))
    raises("BadOption", lambda: gn.DropPath(DOMAIN, p=2.0))


def test_moves():
    x = whole(4, 7, 6)
    mine = shard(x)
    move = gn.Repartition(DOMAIN, (-2,), (RANKS,), (-3,), (RANKS,))
    y = move(mine)
    after = move.after(-3)
    close(y, x[after.lo:after.lo + after.size])
    close(move.back(y), mine)
    assert move.before(-2).sizes == tuple(uneven(7))
    match = gn.MatchCuts(DOMAIN)
    close(match(mine, shard(x, balanced(7))), shard(x, balanced(7)))
    close(gn.MatchCuts()(x, x), x)


def test_collective_modules():
    x = torch.full((2, 3), float(RANK + 1), dtype=torch.double)
    total = RANKS * (RANKS + 1) / 2
    close(gn.AllSum(DOMAIN)(x), torch.full((2, 3), total, dtype=torch.double))
    close(gn.CopyToRegion(DOMAIN)(x), x)
    close(gn.Broadcast(DOMAIN, 0)(x), torch.ones(2, 3, dtype=torch.double))
    assert gn.SumToRoot(DOMAIN, 0)(x).numel() == (6 if RANK == 0 else 0)
    assert gn.Gather(DOMAIN, -1)(x).shape == (2, 3 * RANKS)
    wide = torch.arange(4.0).repeat(RANKS, 1)
    assert gn.Scatter(DOMAIN, -2)(wide).shape == (1, 4)
    close(gn.ReduceScatter(DOMAIN, -2, cuts=[1] * RANKS)(wide), RANKS * wide[:1])
    assert gn.AllToAll(DOMAIN, -2, -1)(wide).shape == (1, 4 * RANKS)


def test_features_over_ranks():
    serial = nn.Linear(6, 4).double()
    layer = gn.Linear(6, 4, DOMAIN, axes=(-1,), grid=(RANKS,), split="input").double()
    layer.load_state_dict(serial.state_dict())
    x = whole(3, 6)
    sizes = balanced(6)
    close(layer(x[:, sum(sizes[:RANK]):sum(sizes[:RANK + 1])]), serial(x))
    for d in (1, 2, 3):
        if d == 1 and RANKS > 1:
            continue  # a length is cut along latitude
        conv = getattr(nn, f"Conv{d}d")(6, 4, 3, padding=1).double()
        split = {1: gn.ChannelSplitConv1d, 2: gn.ChannelSplitConv2d, 3: gn.ChannelSplitConv3d}[d](
            6, 4, 3, DOMAIN, padding=1, split="input").double()
        split.load_state_dict(conv.state_dict())
        y = field(d, channels=6)
        close(split(y[:, sum(sizes[:RANK]):sum(sizes[:RANK + 1])].contiguous()), conv(y))
    alone = gn.ChannelSplitConv1d(6, 4, 3, ALONE, padding=1).double()
    assert alone(whole(1, 6, 9)).shape == (1, 4, 9)


def test_losses():
    p, t = whole(2, 3, 7, 6), whole(2, 3, 7, 6) * 0.5
    w = torch.linspace(1, 2, 7, dtype=torch.double)
    area = w[:, None].expand(7, 6)

    def mean(values):
        return (values * area).sum() / (area.sum() * values.numel() / 42)

    q, u = shard(p), shard(t)
    for layer, values in ((gn.MSELoss, (p - t) ** 2), (gn.L1Loss, (p - t).abs()),
                          (gn.HuberLoss, F.huber_loss(p, t, reduction="none")),
                          (gn.SmoothL1Loss, F.smooth_l1_loss(p, t, reduction="none")),
                          (gn.BCEWithLogitsLoss, F.binary_cross_entropy_with_logits(p, t.sigmoid(), reduction="none")),
                          (gn.KLDivLoss, F.kl_div(p, t.exp(), reduction="none")),
                          (gn.PoissonNLLLoss, F.poisson_nll_loss(p, t.exp(), reduction="none"))):
        given = {gn.BCEWithLogitsLoss: t.sigmoid(), gn.KLDivLoss: t.exp(), gn.PoissonNLLLoss: t.exp()}.get(layer, t)
        close(layer(DOMAIN, row_weights=w)(q, shard(given)), mean(values))
    classes = torch.randint(0, 3, (2, 7, 6), generator=torch.Generator().manual_seed(1))
    mine = graticule.shard_of(classes, DOMAIN, rows=uneven(7))
    close(gn.CrossEntropyLoss(DOMAIN)(q, mine), F.cross_entropy(p, classes))
    close(gn.NLLLoss(DOMAIN)(q.log_softmax(1), mine), F.cross_entropy(p, classes))
    close(gn.MSELoss(DOMAIN, per="channel")(q, u), ((p - t) ** 2).mean((0, 2, 3)))
    mask = torch.zeros(7, 6, dtype=torch.double)
    mask[3] = 1
    close(gn.MSELoss(DOMAIN)(q, u, shard(mask[None]).detach()[0]), ((p - t) ** 2)[:, :, 3].mean())
    ensemble = whole(2, 5, 3, 7, 6)
    here, there = (gn.CRPSLoss(d)(e, f) for d, e, f in ((DOMAIN, shard(ensemble), u), (ALONE, ensemble, t)))
    close(here, there)
    close(gn.SpectralLoss(DOMAIN)(q, u), gn.SpectralLoss(ALONE)(p, t))
    raises("ShapeMismatch", lambda: gn.MSELoss(DOMAIN, row_weights=[1.0, 2.0])(q, u), "2")
    raises("BadOption", lambda: gn.MSELoss(DOMAIN, reduction="none"), "reduction", "'none'")


def test_means():
    x, y = whole(2, 3, 7, 6), whole(2, 3, 7, 6) + 2
    w = np.linspace(1, 2, 7)
    mean = gn.GlobalMean(DOMAIN, row_weights=w)(shard(x))
    close(mean, (x * torch.from_numpy(w)[:, None]).sum((2, 3)) / (w.sum() * 6))
    fixer = gn.ConservationFixer(DOMAIN, row_weights=w)
    fixed = fixer(shard(x), shard(y))
    close(gn.GlobalMean(DOMAIN, row_weights=w)(fixed), gn.GlobalMean(DOMAIN, row_weights=w)(shard(y)))
    close(gn.GlobalMean(DOMAIN, row_weights=w)(fixer.to_means(shard(x), mean.detach() + 1)), mean + 1)


def test_layers_are_modules():
    layer = gn.SelfAttention(4, 2, domain=DOMAIN)
    twin = copy.deepcopy(layer)
    with torch.no_grad():
        twin.in_proj_weight += 1
    assert not torch.equal(twin.in_proj_weight, layer.in_proj_weight) and isinstance(layer.in_proj_weight, nn.Parameter)
    assert twin.domain is DOMAIN and layer.double()(shard(whole(1, 4, 7, 6))).dtype == torch.double
    layer.reset_structure()
    close(graticule.whole_field(layer(shard(whole(1, 4, 8, 6))), DOMAIN).sum(), graticule.whole_field(layer(shard(whole(1, 4, 8, 6))), DOMAIN).sum())
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    before = layer.in_proj_weight.detach().clone()
    graticule.reduce_loss(layer(shard(whole(1, 4, 8, 6))).square().sum(), DOMAIN).backward()
    optimizer.step()
    assert not torch.equal(before, layer.in_proj_weight)
    layer.in_proj_weight = nn.Parameter(before)
    raises("ParametersChanged", lambda: layer(shard(whole(1, 4, 8, 6))), "in_proj_weight")
    for call in (lambda: copy.copy(DOMAIN), lambda: __import__("pickle").dumps(twin)):
        try:
            call()
        except TypeError as error:
            assert "state_dict" in str(error), error
        else:
            raise AssertionError("was copied")


def test_bad_arguments_are_named():
    raises("WrongState", lambda: gn.GlobalMean(None), "GlobalMean")
    raises("BadOption", lambda: gn.PixelShuffle(0, domain=DOMAIN), "0")
    raises("BadBoundary", lambda: gn.Conv2d(2, 1, 3, domain=DOMAIN, padding_by="domain", odd_channels=[7]), "7")
    raises("BadOption", lambda: gn.Conv2d(2, 1, 3, domain=DOMAIN, padding_by="poles"), "padding_by", "'poles'")
    raises("ShapeMismatch", lambda: gn.Conv2d(2, 1, 3, domain=DOMAIN)(torch.zeros(1, 3, 8, 6)), "3")
    raises("BadOption", lambda: gn.Resize.__mro__ and gn._Fixed("PixelShuffle", DOMAIN), "upscale_factor")


main(globals())
