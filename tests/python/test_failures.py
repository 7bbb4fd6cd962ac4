# SPDX-License-Identifier: BSD-3-Clause
"""Calls of sharded models that fail, on all ranks or on some: one error on all of them, and the next call works."""
import gc
import time

import torch
from torch import nn

import graticule
from support import COMM, RANK, RANKS, close, main, raises, uneven

DOMAIN = graticule.Domain(COMM)
ROWS = 2 * RANKS + 3
CUTS = uneven(ROWS)


class Of(nn.Module):
    """A function as a part of a model."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *given):
        return self.function(*given)


def doors(function):
    """The model of a function, sharded through both doors."""
    eager = nn.Sequential(Of(function))
    graticule.shard(eager, DOMAIN)
    return {"shard": eager, "program": graticule.shard_program(nn.Sequential(Of(function)), DOMAIN)}


def cut(whole):
    return graticule.shard_of(whole, DOMAIN, rows=CUTS)


def whole_of(result):
    return graticule.whole_field(result, DOMAIN)


TABLE = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


def looked_up(x):
    """The rows of a table that cells name."""
    return nn.functional.embedding(x[:, 0].long(), TABLE).movedim(-1, 1)


def places(wrong=()):
    x = torch.arange(4.0 * ROWS).reshape(1, 1, ROWS, 4) % 5
    x[:, :, list(wrong)] = 7
    return x


def test_an_operator_that_fails_on_one_rank_is_one_error_of_all():
    for name, net in doors(looked_up).items():
        close(whole_of(net(cut(places()))), looked_up(places()))
        for _ in range(2):
            error = raises("FailedNode", lambda: net(cut(places([ROWS - 1]))), "embedding", "index out of range")
            assert RANK == RANKS - 1 or f"rank {RANKS - 1}" in str(error), (name, error)
            close(whole_of(net(cut(places()))), looked_up(places()))


def test_a_failure_of_all_is_not_reported_by_later_calls():
    x = places(range(ROWS))
    other = nn.Sequential(Of(lambda x: x - x.mean((-2, -1), keepdim=True)))
    graticule.shard(other, DOMAIN)
    for net in doors(looked_up).values():
        raises("FailedNode", lambda: net(cut(x)), "embedding", "index out of range")
        time.sleep(0.3 * RANK)  # long enough that other ranks look for failures while they wait
        close(whole_of(other(cut(x))), x - x.mean((-2, -1), keepdim=True))


class Troubled(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = (nn.Conv2d(2, 2, 3, padding=1, dtype=torch.float64) for _ in range(2))
        self.trouble = None

    def forward(self, x):
        h = self.a(x)
        if self.trouble is not None:
            raise self.trouble
        return self.b(torch.roll(h, 1, -2))


def test_an_exception_of_the_models_own_code_on_one_rank_ends_all():
    x = torch.randn(1, 2, ROWS, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    serial, net = Troubled(), Troubled()
    graticule.shard(net, DOMAIN)
    for error in (ValueError("my own trouble"), graticule.NotSharded("my own trouble")):
        for failing in range(min(RANKS, 2)):  # in the first call, too
            net.trouble = error if RANK == failing else None
            if RANK == failing:
                try:
                    net(cut(x))
                except type(error) as found:
                    assert found is error
                else:
                    raise AssertionError("it did not raise")
            elif isinstance(error, ValueError):
                raises("PeerFailed", lambda: net(cut(x)), f"rank {failing}: ValueError: my own trouble")
            else:
                raises("NotSharded", lambda: net(cut(x)), f"rank {failing}: my own trouble")
            net.trouble = None
            close(whole_of(net(cut(x))), serial(x))


class Passed(torch.autograd.Function):
    """What it is given; its backward raises what it was made with."""

    @staticmethod
    def forward(ctx, x, trouble):
        ctx.trouble = trouble
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        if ctx.trouble is not None:
            raise ctx.trouble
        return gradient, None


def test_a_backward_that_fails_on_one_rank_is_one_error_of_all():
    whole = torch.randn(1, 2, ROWS, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(3))

    def gradient(net, x, trouble=None, first=False):
        """That of the input; the trouble comes first in the backward, or where all messages of it have been sent."""
        leaf = x.clone().requires_grad_()
        y = net(Passed.apply(leaf, None if first else trouble))
        y = Passed.apply(y, trouble if first else None)
        loss = y.square().sum() if net is serial else graticule.reduce_loss(y.square().sum(), DOMAIN)
        loss.backward()
        return leaf.grad

    serial, eager = Troubled(), Troubled()
    wanted = gradient(serial, whole)
    graticule.shard(eager, DOMAIN)
    for net in (eager, graticule.shard_program(Troubled(), DOMAIN)):
        for error in (ValueError("my own trouble"), torch.OutOfMemoryError("no memory is left")):
            for failing in range(min(RANKS, 2)):
                for first in (True, False):
                    if RANK == failing:
                        try:
                            gradient(net, cut(whole), error, first)
                        except type(error) as found:
                            assert str(found) == str(error)
                        else:
                            raise AssertionError("it did not raise")
                    else:
                        raises("PeerFailed", lambda: gradient(net, cut(whole), None, first), f"rank {failing}: {type(error).__name__}: {error}")
                    close(gradient(net, cut(whole)), cut(wanted))


def test_a_rank_that_is_interrupted_in_a_call_does_not_stop_the_others():
    x = torch.randn(1, 2, ROWS, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    serial, net = Troubled(), Troubled()
    graticule.shard(net, DOMAIN)
    for error in (KeyboardInterrupt(), SystemExit(3)):
        net.trouble = error if RANK == RANKS - 1 else None
        if RANK == RANKS - 1:
            try:
                net(cut(x))
            except type(error) as found:
                assert found is error
            else:
                raise AssertionError("it did not raise")
        else:
            raises("PeerFailed", lambda: net(cut(x)), f"rank {RANKS - 1}: {type(error).__name__}")
        net.trouble = None
        close(whole_of(net(cut(x))), serial(x))


def test_a_part_of_few_cells_has_strides_of_any_kind():
    def pairs(x):
        return torch.view_as_real(torch.view_as_complex(x.squeeze(-1).movedim(-1, 0).contiguous()) * 2j).movedim(0, -1).unsqueeze(-1)

    x = torch.randn(1, 2, ROWS, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    for net in doors(pairs).values():
        close(whole_of(net(cut(x))), pairs(x))


def test_what_is_empty_is_as_on_one_process():
    x = torch.randn(2, 3, ROWS, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    for function in (lambda x: x[..., :0], lambda x: x[:, :0].mean((-2, -1)), lambda x: torch.cat([x[:, :0], x], 1),
                     lambda x: torch.cat([x[..., :0, :], x], -2), lambda x: x[..., :0, :].sum((-2, -1)), lambda x: torch.roll(x[:, :0], 1, -2),
                     lambda x: x[:0] @ x[:0].transpose(-1, -2), lambda x: x[..., :0, :].transpose(-1, -2) @ x[..., :0, :],
                     lambda x: x[:, :0].transpose(1, 2).flatten(2), lambda x: torch.cumsum(x[:, :0], -2),
                     lambda x: torch.unsafe_chunk(x[..., :0], 2, -1)[0],
                     lambda x: nn.functional.pad(x[:, :0], (0, 0, 1, 1))):
        for name, net in doors(function).items():
            try:
                y = net(cut(x))
            except graticule.Error as error:
                assert error.rule in ("NotSharded", "RefusedProgram"), (name, error)
                continue
            wanted = function(x)
            assert y.dim() == wanted.dim() and y.dtype == wanted.dtype
            if wanted.dim() > 1 and y.numel() and y.shape != wanted.shape:
                close(whole_of(y), wanted)


def test_chunks_along_any_axis():
    x = torch.randn(2, 3, ROWS, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(8))
    for axis in range(4):
        for number in (2, ROWS):
            for function in (torch.unsafe_chunk, torch.chunk, torch.tensor_split):
                for name, net in doors(lambda x: torch.stack([part.sum() for part in function(x, number, axis)])).items():
                    close(net(cut(x)), torch.stack([part.sum() for part in function(x, number, axis)]))


def test_what_ends_while_a_function_is_traced_is_not_in_its_graph():
    def suspended():
        with torch.no_grad():
            yield

    def leave_one():
        steps = suspended()
        next(steps)
        ring = [steps]
        ring.append(ring)

    x = torch.randn(1, 2, ROWS, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(6))

    def function(x):
        leave_one()
        gc.enable()  # what leave_one has left ends after so many allocations, in the trace of one of these functions
        return torch.roll(x, 1, -2) - x.mean((-2, -1), keepdim=True)

    before = gc.get_threshold()
    for threshold in range(100, 4000, 1000):
        for net in doors(function).values():
            try:
                gc.collect()
                gc.disable()
                gc.set_threshold(threshold, 100, 100)
                y = net(cut(x))
            finally:
                gc.set_threshold(*before)
                gc.enable()
                gc.collect()
                torch.set_grad_enabled(True)
            close(whole_of(y), torch.roll(x, 1, -2) - x.mean((-2, -1), keepdim=True))


def test_a_model_without_parts_is_its_own_code():
    x = torch.randn(1, 2, ROWS, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
    function = lambda x: torch.roll(x, 1, -2) - x.mean((-2, -1), keepdim=True)  # noqa: E731
    net = Of(function)
    report = graticule.shard(net, DOMAIN)
    assert [m.verdict for m in report.modules] == ["functions"], report.text()
    close(whole_of(net(cut(x))), function(x))


if __name__ == "__main__":
    main(globals())
