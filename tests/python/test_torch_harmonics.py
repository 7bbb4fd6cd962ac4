# SPDX-License-Identifier: BSD-3-Clause
"""Modules of torch-harmonics on shards, through both doors: outputs and the gradients of the input and of all parameters equal one process."""
import importlib.util

import torch
from torch import nn

import graticule
from support import COMM, RANK, RANKS, close, main, skip, uneven

ROWS, COLUMNS = 13, 24


class Between(nn.Module):
    """A module between two convolutions of one cell."""

    def __init__(self, module, channels=2):
        super().__init__()
        self.before, self.module, self.after = nn.Conv2d(2, channels, 1), module, nn.Conv2d(channels, 2, 1)

    def forward(self, x):
        y = self.module(self.before(x))
        return self.after(y[0] if isinstance(y, tuple) else y)  # SpectralConvS2 returns its residual, too


def double(module):
    """In double precision. `Module.double` leaves complex parameters as they are, in complex64."""
    module = module.double()
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.is_complex():
            tensor.data = tensor.data.to(torch.complex128)
    return module


class Filtered(nn.Module):
    """A filter of spherical harmonics."""

    def __init__(self, grid, vectors=False):
        import torch_harmonics as th
        super().__init__()
        there, back = (th.RealVectorSHT, th.InverseRealVectorSHT) if vectors else (th.RealSHT, th.InverseRealSHT)
        self.there = there(ROWS, COLUMNS, grid=grid)
        self.back = back(ROWS, COLUMNS, lmax=self.there.lmax, mmax=self.there.mmax, grid=grid)
        self.weight = nn.Parameter(torch.randn(self.there.lmax, 1, dtype=torch.complex64))

    def forward(self, x):
        return self.back(self.there(x) * self.weight)


class DoubleTorch:
    """torch for the module of SpectralConvS2, which computes in float32 whatever it is given: with float64 in its place."""

    float32, complex64 = torch.float64, torch.complex128

    def __getattr__(self, name):
        return getattr(torch, name)


def modules():
    from torch_harmonics import AttentionS2, DiscreteContinuousConvS2, DiscreteContinuousConvTransposeS2, ResampleS2, SpectralConvS2
    size = (ROWS, COLUMNS)
    yield "a filter", lambda: Between(Filtered("equiangular"))
    yield "a filter on Gauss' latitudes", lambda: Between(Filtered("legendre-gauss"))
    yield "a filter of vectors", lambda: Between(Filtered("equiangular", vectors=True))
    yield "SpectralConvS2", lambda: Between(SpectralConvS2(size, size, 2, 2))
    yield "SpectralConvS2 in groups", lambda: Between(SpectralConvS2(size, size, 2, 2, num_groups=2, bias=True))
    yield "SpectralConvS2 to fewer rows", lambda: Between(SpectralConvS2(size, (9, COLUMNS), 2, 2))
    yield "ResampleS2", lambda: Between(ResampleS2(*size, 2 * ROWS - 1, 2 * COLUMNS))
    yield "DiscreteContinuousConvS2", lambda: Between(DiscreteContinuousConvS2(2, 2, size, size, kernel_shape=(3, 3)))
    yield "DiscreteContinuousConvS2 to half as many channels", lambda: Between(nn.Sequential(
        nn.Conv2d(2, 4, 1), DiscreteContinuousConvS2(4, 2, size, size, kernel_shape=(3, 3))))  # for which it has a Function of its own
    yield "DiscreteContinuousConvTransposeS2", lambda: Between(DiscreteContinuousConvTransposeS2(2, 2, size, size, kernel_shape=(3, 3)))
    yield "AttentionS2", lambda: Between(AttentionS2(4, 2, size, size), 4)
    yield "AttentionS2 with normalised keys", lambda: Between(AttentionS2(4, 2, size, size, use_qknorm=True), 4)


def results(net, x, weights, domain=None):
    """The output, and the gradients of the input and of all parameters, which are summed over the ranks."""
    x = x.clone().requires_grad_()
    y = net(x)
    loss = (y * weights).sum()
    (loss if domain is None else graticule.reduce_loss(loss, domain)).backward()
    parameters = [p.grad if domain is None else COMM.allreduce(p.grad) for p in net.parameters()]
    return y.detach(), x.grad, parameters


def test_modules_equal_one_process():
    if importlib.util.find_spec("torch_harmonics") is None:
        skip("the package of a public network is not installed: torch_harmonics")
    from torch_harmonics import spectral_convolution
    spectral_convolution.torch = DoubleTorch()
    torch.compiler.set_stance("force_eager")  # of its compiled products
    domain = graticule.Domain(COMM)
    cells = uneven(ROWS)
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(2, 2, ROWS, COLUMNS, dtype=torch.float64, generator=generator)
    for name, make in modules():
        made = []
        for _ in range(3):
            torch.manual_seed(3)
            made.append(double(make()))
        serial, eager, program = made
        weights = torch.randn(*serial(x).shape, dtype=torch.float64, generator=generator)
        wanted, wanted_input, wanted_parameters = results(serial, x, weights)
        graticule.shard(eager, domain)
        for door, net in (("shard", eager), ("shard_program", graticule.shard_program(program, domain))):
            part = graticule.shard_of(x, domain, rows=cells)
            sizes = COMM.allgather(net(part).shape[-2])
            is_cut = sum(sizes) == wanted.shape[-2]  # otherwise the result is whole on every rank
            own = (sum(sizes[:RANK]), sizes[RANK]) if is_cut else (0, wanted.shape[-2])
            part_of_loss = weights.narrow(-2, *own) * float(is_cut or RANK == 0)
            found, found_input, found_parameters = results(net, part, part_of_loss, domain)
            try:
                close(found, wanted.narrow(-2, *own), 1e-10)
                close(found_input, graticule.shard_of(wanted_input, domain, rows=cells), 1e-10)
                for one, other in zip(found_parameters, wanted_parameters, strict=True):
                    close(one, other, 1e-10)
            except AssertionError as error:
                raise AssertionError(f"{name} through {door}: {error}") from error
        if RANK == 0:
            print(f"{name}: right on {RANKS}", flush=True)


if __name__ == "__main__":
    main(globals())
