# SPDX-License-Identifier: BSD-3-Clause
"""What scripts/export.py says about gradients: networks that torch.export changes are refused with the place, all others are exported.

    check_export.py [NAME...]
"""
import contextlib
import importlib.util
import io
import json
import os
import sys
import tempfile
import warnings

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

HERE = os.path.dirname(os.path.abspath(__file__))
warnings.filterwarnings("ignore")


def export_module():
    spec = importlib.util.spec_from_file_location("export", os.path.join(HERE, "..", "..", "..", "scripts", "export.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Net(nn.Module):
    """Two convolutions with something between them."""

    def __init__(self, between=torch.tanh):
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1)
        self.last = nn.Conv2d(4, 2, 1)
        self.between = between

    def forward(self, x):
        return self.last(self.between(self.first(x)))


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class WithoutGradInside(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        with torch.no_grad():
            y = torch.tanh(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, gradient):
        y, = ctx.saved_tensors
        return gradient * (1 - y * y)


class Square(torch.autograd.Function):
    """With the gradient that its operators have."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        x, = ctx.saved_tensors
        return 2 * x * gradient


def hooked(factor):
    def between(x):
        y = torch.tanh(x)
        if y.requires_grad:
            y.register_hook(lambda gradient: gradient * factor)
        return y
    return between


def without_grad(x):
    with torch.no_grad():
        mean = x.mean()
    return x * mean


def in_bfloat16(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = torch.tanh(x @ x.transpose(-1, -2))
    return y.float() @ x


class Checkpointed(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.parts = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.Tanh(), nn.Conv2d(4, 4, 1), nn.Tanh())
        self.last = nn.Conv2d(4, 2, 1)
        self.options = options

    def forward(self, x):
        return self.last(checkpoint(self.parts, x, **self.options))


class InParts(Checkpointed):
    def forward(self, x):
        return self.last(checkpoint_sequential(self.parts, 2, x, use_reentrant=True))


def with_module_hook(name, hook):
    net = Net()
    getattr(net.first, name)(hook)
    return net


def with_parameter_hook():
    net = Net()
    net.first.weight.register_hook(lambda gradient: 2 * gradient)
    return net


def frozen():
    net = Net(nn.BatchNorm2d(4))
    net.first.requires_grad_(False)
    return net


# What the text of the refusal has; none for a network that is exported.
CASES = {
    "plain": (Net, None),
    "checkpoint": (Checkpointed, None),
    "reentrant_checkpoint": (lambda: Checkpointed(use_reentrant=True), None),
    "other_checkpoint": (lambda: Checkpointed(use_reentrant=False), None),
    "checkpoint_sequential": (InParts, None),
    "function": (lambda: Net(lambda x: StraightThrough.apply(5 * x)), ("StraightThrough, a torch.autograd.Function", "check_export.py:")),
    "function_in_child": (lambda: nn.Sequential(Net(), Net(lambda x: StraightThrough.apply(5 * x)), nn.Conv2d(2, 3, 1))[:1].append(nn.Conv2d(2, 3, 1)).append(
        Net(lambda x: StraightThrough.apply(5 * x))), ("StraightThrough", "in 2 (Net)")),
    "function_without_grad": (lambda: Net(WithoutGradInside.apply), ("WithoutGradInside, a torch.autograd.Function", "gradients are there in the program or")),
    "function_of_operators": (lambda: Net(Square.apply), None),
    "hook_on_tensor": (lambda: Net(hooked(0.2)), ("a hook on a tensor (Tensor.register_hook)", "check_export.py:")),
    "hook_that_changes_nothing": (lambda: Net(hooked(1)), None),
    "full_backward_hook": (lambda: with_module_hook("register_full_backward_hook", lambda part, inner, outer: (3 * inner[0],)),
                           ("a full backward hook on the module first (Conv2d)",)),
    "full_backward_pre_hook": (lambda: with_module_hook("register_full_backward_pre_hook", lambda part, outer: (3 * outer[0],)),
                               ("a full backward pre-hook on the module first (Conv2d)",)),
    "forward_hook": (lambda: with_module_hook("register_forward_hook", lambda part, inner, outer: 2 * outer), None),
    "hook_on_parameter": (with_parameter_hook, ("a hook on the parameter first.weight",)),
    "no_grad": (lambda: Net(without_grad), None),
    "detached": (lambda: Net(lambda x: 5 * x + ((5 * x).round() - 5 * x).detach()), None),
    "autocast": (lambda: Net(in_bfloat16), None),
    "batch_norm": (lambda: Net(nn.BatchNorm2d(4)), None),
    "instance_norm": (lambda: Net(nn.InstanceNorm2d(4, affine=True, track_running_stats=True)), None),
    "spectral_norm": (lambda: nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Conv2d(3, 4, 3)), nn.BatchNorm2d(4)), None),
    "dropout": (lambda: Net(nn.Dropout(0.5)), None),
    "frozen": (frozen, None),
    "complex": (lambda: Net(lambda x: torch.fft.irfft2(torch.fft.rfft2(x) * (1 + 2j), s=x.shape[-2:])), None),
}


def refusal(export, make, folder, **options):
    """The text of the refusal, or none."""
    torch.manual_seed(1)
    net = make().train()
    x = torch.randn(1, 3, 10, 12)
    path = os.path.join(folder, "net.pt2")
    before = {name: one.clone() for name, one in net.state_dict().items()}
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            export.save(net, (x,), path, **options)
        text = None
    except export.OtherGradients as error:
        text = str(error)
    assert os.path.exists(path) == (text is None), "a file is written when it is exported, and only then"
    assert all(torch.equal(one, before[name]) for name, one in net.state_dict().items()), "the export changes the network's tensors"
    assert all(one.grad is None for one in net.parameters()), "the export leaves gradients"
    return text


def check_figures(export, folder):
    """Figures of norms of a batch of 1 whose results become tokens are those of finite differences."""
    failures = 0
    for norm in (lambda: nn.BatchNorm2d(3), lambda: nn.InstanceNorm2d(3, affine=True)):
        torch.manual_seed(2)
        part = nn.Sequential(nn.Conv2d(2, 3, 1), norm()).double()
        with torch.no_grad():
            part[1].weight.copy_(torch.tensor([0.5, -1.5, 2.0]))

        class Tokens(nn.Module):
            def __init__(self):
                super().__init__()
                self.part = part

            def forward(self, x):
                return self.part(x).flatten(2).transpose(1, 2) ** 3

        net, x = Tokens().train(), torch.randn(1, 2, 6, 5, dtype=torch.float64)
        program = export.save(net, (x,), os.path.join(folder, "tokens.pt2"))
        export.write_golden(net, program, (x,), folder)
        with open(os.path.join(folder, "golden.json")) as stream:
            golden = json.load(stream)

        def loss():
            with torch.no_grad():
                return net(x).square().mean().item()

        for name, parameter in net.named_parameters():
            found = []
            for i in range(parameter.numel()):
                at, step = parameter.data.view(-1), 1e-5
                value = at[i].item()
                at[i] = value + step
                above = loss()
                at[i] = value - step
                below = loss()
                at[i] = value
                found.append((above - below) / (2 * step))
            wanted = torch.tensor(found).norm().item()
            if abs(golden["parameter_gradient_norms"][name] - wanted) > 1e-6 * max(1.0, wanted):
                print(f"FAILED: figures of {type(part[1]).__name__}: the gradient of {name} has the norm {golden['parameter_gradient_norms'][name]}, "
                      f"finite differences give {wanted}")
                failures += 1
    return failures


def check_regions(export, folder):
    """The nodes of what a checkpoint, or a named submodule, runs are marked in the file, each region by its own number, and no others."""
    def regions(program):
        marks = [one.meta.get("custom", {}).get("graticule_recompute") for one in program.graph.nodes if one.op == "call_function"]
        assert all(set(one.meta.get("custom", ())) <= {"graticule_recompute"} for one in program.graph.nodes), "other notes are left"
        return [mark is not None for mark in marks], len({mark for mark in marks if mark is not None})

    path = os.path.join(folder, "regions.pt2")
    failures = 0
    for name, make, options, wanted in (("none", Net, {}, ([False] * 3, 0)), ("checkpoint", Checkpointed, {}, ([True] * 4 + [False], 1)),
                                        ("parts", InParts, {}, ([True] * 2 + [False] * 3, 1)),
                                        ("named", Checkpointed, {"checkpoint_blocks": ["last", "parts"]}, ([True] * 5, 2)),
                                        ("pattern", lambda: nn.Sequential(*[nn.Conv2d(3, 3, 1) for _ in range(3)]), {"checkpoint_blocks": ["[12]"]},
                                         ([False, True, True], 2)),
                                        ("autocast", lambda: Net(in_bfloat16), {"checkpoint_blocks": ["first"]}, None)):
        with contextlib.redirect_stderr(io.StringIO()):
            found = regions(export.save(make().train(), (torch.randn(1, 3, 10, 12),), path, **options))
        if wanted is None:
            found, wanted = (found[0][0], sum(found[0]), found[1]), (True, 1, 1)
        if found != wanted:
            print(f"FAILED: regions of {name}: {found} instead of {wanted}")
            failures += 1
    return failures


def main():
    torch.set_num_threads(1)
    export = export_module()
    names = sys.argv[1:] or list(CASES)
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            make, parts = CASES[name]
            with tempfile.TemporaryDirectory() as own:
                text = refusal(export, make, own)
            missing = [part for part in parts or () if part not in (text or "")]
            if (text is None) != (parts is None) or missing:
                print(f"FAILED: {name}: {'is not refused' if text is None else text}" + (f"; missing: {missing}" if missing else ""), flush=True)
                failures += 1
            if parts is not None:
                with tempfile.TemporaryDirectory() as own:
                    if refusal(export, make, own, forward_only=True) is not None:
                        print(f"FAILED: {name} is refused with forward_only")
                        failures += 1
        failures += check_figures(export, folder) + check_regions(export, folder)
    print(f"{len(names)} networks, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
