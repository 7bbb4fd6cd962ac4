# SPDX-License-Identifier: BSD-3-Clause
"""Single operators in exported programs equal PyTorch in f64, forward and backward, on any number of ranks.

    COMPARE=build/tests/bin/compare_programs MPIEXEC="mpiexec -n" check_operators.py [--ranks 1,2,3] [--op-db COUNT] [--keep FOLDER] [NAME...]

Each case is exported and run by compare_programs, all of them in one process for each number of ranks: in four divisions of rows or
columns that cut whatever can be cut, with inputs and cotangents that lie in memory in several ways. Without --op-db the cases are those
of this file: norms (their memory layouts, a batch of 1, axes of one cell), padding of every mode with positive and negative widths, and
operators whose optional arguments are left out. --op-db takes the samples of PyTorch's own database of operators: those
of COUNT operators, spread over it, or of all for 0. NAME: only cases that begin with it.
"""
import argparse
import collections
import contextlib
import importlib.util
import io
import itertools
import json
import os
import subprocess
import sys
import tempfile
import types
import unittest
import warnings

import torch
import torch.nn.functional as F
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
TOLERANCE = 1e-9
warnings.filterwarnings("ignore")
F64 = torch.float64


def export_module():
    spec = importlib.util.spec_from_file_location("export", os.path.join(HERE, "..", "..", "..", "scripts", "export.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Call(nn.Module):
    """An operator with tensors as parameters."""

    def __init__(self, function, **tensors):
        super().__init__()
        self.function = function
        self.names = list(tensors)
        for name, one in tensors.items():
            if isinstance(one, nn.Parameter):
                self.register_parameter(name, one)
            else:
                self.register_buffer(name, one)

    def forward(self, *inputs):
        return self.function(*inputs, **{name: getattr(self, name) for name in self.names})


def random(*shape):
    return torch.randn(*shape, dtype=F64)


def weight(*shape):
    return nn.Parameter(random(*shape))


def left_out(**tensors):
    """All choices of what is there."""
    for some in itertools.product((True, False), repeat=len(tensors)):
        yield "".join(name[0] if there else "-" for name, there in zip(tensors, some)), \
            {name: make() for (name, make), there in zip(tensors.items(), some) if there}


def norms():
    shapes = ((1, 3, 6, 5), (2, 3, 6, 5), (1, 3, 6, 1), (1, 1, 6, 5), (1, 3, 1, 5), (2, 4, 3, 6, 5), (1, 4, 1, 6, 5), (1, 3, 6))
    for shape in shapes:
        sizes, channels = "x".join(map(str, shape)), shape[1]
        # Arguments are left out of the first shape alone.
        for which, given in itertools.islice(left_out(weight=lambda: weight(channels), bias=lambda: weight(channels)), 4 if shape == shapes[0] else 1):
            x = random(*shape) + 0.5
            yield f"batch_norm.{sizes}.{which}", Call(lambda t, weight=None, bias=None, mean=None, var=None: F.batch_norm(t, mean, var, weight, bias, True),
                                                      mean=random(channels), var=random(channels).abs() + 0.5, **given), (x,)
            yield f"batch_norm_alone.{sizes}.{which}", Call(lambda t, weight=None, bias=None: F.batch_norm(t, None, None, weight, bias, True), **given), (x,)
            yield f"batch_norm_in_eval.{sizes}.{which}", Call(lambda t, weight=None, bias=None, mean=None, var=None: F.batch_norm(t, mean, var, weight, bias),
                                                              mean=random(channels), var=random(channels).abs() + 0.5, **given), (x,)
            if torch.Size(shape[2:]).numel() > 1:
                yield f"instance_norm.{sizes}.{which}", Call(lambda t, weight=None, bias=None: F.instance_norm(t, weight=weight, bias=bias), **given), (x,)
            if which != "-b":  # torch.export cannot trace it
                yield f"group_norm.{sizes}.{which}", Call(lambda t, weight=None, bias=None: F.group_norm(t, 1, weight, bias), **given), (x,)
        own = shape[1:] if len(shape) < 5 else shape[2:]
        for which, given in itertools.islice(left_out(weight=lambda: weight(*own), bias=lambda: weight(*own)), 4 if shape == shapes[0] else 1):
            yield f"layer_norm.{sizes}.{which}", Call(lambda t, weight=None, bias=None, own=own: F.layer_norm(t, own, weight, bias), **given), (random(*shape),)
        for which, given in left_out(weight=lambda: weight(shape[-1])):
            yield f"rms_norm.{sizes}.{which}", Call(lambda t, weight=None, own=shape[-1:]: F.rms_norm(t, own, weight), **given), (random(*shape),)
    for name, make in (("batch_norm", lambda: nn.BatchNorm2d(3)), ("instance_norm", lambda: nn.InstanceNorm2d(3, affine=True)),
                       ("running", lambda: nn.InstanceNorm2d(3, affine=True, track_running_stats=True)), ("group_norm", lambda: nn.GroupNorm(3, 3))):
        # Tokens of a transformer: the cotangent of the norm lies in memory as they do, or as one number.
        net = nn.Sequential(nn.Conv2d(2, 3, 1), make()).double()
        with torch.no_grad():
            net[1].weight.copy_(random(3))
        yield f"tokens.{name}", Call(lambda t, net=net: (net(t).flatten(2).transpose(1, 2) ** 3).square().mean(), ), (random(1, 2, 6, 5),), net
        yield f"permuted.{name}", Call(lambda t, net=net: (net(t).permute(0, 2, 3, 1) ** 3).square().mean()), (random(1, 2, 6, 5),), net
        # and the input does.
        yield f"of_tokens.{name}", Call(lambda t, net=net[1]: net(t.transpose(1, 2).reshape(1, 3, 6, 5)) ** 3), (random(1, 30, 3),), net[1]


def pads():
    widths = [(-1, 1), (1, -1), (-2, -1), (2, 1), (0, 2), (-2, 0), (3, -2)]
    for axes, shape in ((1, (2, 3, 7)), (2, (1, 2, 7, 6)), (3, (1, 2, 5, 7, 6))):
        for mode in ("constant", "reflect", "replicate", "circular"):
            for first in range(len(widths)):
                some = list(itertools.chain(*[widths[(first + 3 * axis) % len(widths)] for axis in range(axes)]))
                value = {"value": 0.75} if mode == "constant" else {}
                yield f"pad.{mode}.{axes}d." + ",".join(map(str, some)), Call(lambda t, some=some, mode=mode, value=value: F.pad(t, some, mode=mode, **value)), (random(*shape),)
    yield "pad.circular.issue", Call(lambda t: F.pad(t, (-1, 1, -2, 1), mode="circular")), (random(1, 2, 7, 6),)
    yield "pad.constant.all_axes", Call(lambda t: F.pad(t, (-1, 1, 2, -3, 1, -1, 0, 1), value=float("-inf")).clamp(min=-9)), (random(2, 3, 7, 6),)
    yield "pad.one_side", Call(lambda t: F.pad(t, (0, 0, -3, 3), mode="circular")), (random(1, 2, 7, 6),)
    for module in (nn.ReflectionPad2d, nn.ReplicationPad2d, nn.CircularPad2d, nn.ZeroPad2d):
        yield f"pad.{module.__name__}", module((-1, 2, 1, -2)), (random(1, 2, 7, 6),)


def optional():
    def both(name, function, x, *extra, **tensors):
        for which, given in left_out(**tensors):
            yield f"{name}.{which}", Call(function, **given), (x, *extra)

    for axes, convolve, transposed, shape in ((1, F.conv1d, F.conv_transpose1d, (1, 3, 8)), (2, F.conv2d, F.conv_transpose2d, (1, 3, 8, 6)),
                                              (3, F.conv3d, F.conv_transpose3d, (1, 3, 4, 8, 6))):
        kernel = random(4, 3, *([3] * axes))
        yield from both(f"conv{axes}d", lambda t, k, bias=None, f=convolve: f(t, k, bias, padding=1), random(*shape), kernel, bias=lambda: weight(4))
        yield from both(f"conv{axes}d.strided", lambda t, k, bias=None, f=convolve: f(t, k, bias, stride=2), random(*shape), kernel, bias=lambda: weight(4))
        kernel = random(3, 4, *([3] * axes))
        yield from both(f"conv_transpose{axes}d", lambda t, k, bias=None, f=transposed: f(t, k, bias, stride=2, padding=1), random(*shape), kernel, bias=lambda: weight(4))
    yield from both("linear", lambda t, k, bias=None: F.linear(t, k, bias), random(2, 3, 7, 6), random(5, 6), bias=lambda: weight(5))
    yield from both("bilinear", lambda t, k, w, bias=None: F.bilinear(t, k, w, bias), random(2, 7, 6), random(2, 7, 5), random(4, 6, 5), bias=lambda: weight(4))
    query = random(1, 2, 6, 5)
    for causal in (False, True):
        yield f"attention.{causal}", Call(lambda q, k, v, causal=causal: F.scaled_dot_product_attention(q, k, v, is_causal=causal)), (query, random(1, 2, 6, 5), random(1, 2, 6, 4))
    yield "attention.mask", Call(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m)), (query, random(1, 2, 6, 5), random(1, 2, 6, 4), random(6, 6))
    yield "attention.scale", Call(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.3)), (query, random(1, 2, 6, 5), random(1, 2, 6, 4))
    yield "attention.bool", Call(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m > 0)), (query, random(1, 2, 6, 5), random(1, 2, 6, 4), random(6, 6).abs())
    for name, function in (("softmax", lambda t: F.softmax(t, 1)), ("sum", lambda t: t.sum()), ("mean", lambda t: t.mean((-2, -1))), ("var", lambda t: t.var((0, 2))),
                           ("var_population", lambda t: t.var(-1, correction=0)), ("std", lambda t: t.std((-1, -2), keepdim=True)), ("norm", lambda t: t.norm(dim=1)),
                           ("clamp_min", lambda t: t.clamp(min=0.1)), ("clamp_max", lambda t: t.clamp(max=0.1)), ("avg_pool", lambda t: F.avg_pool2d(t, 2)),
                           ("max_pool", lambda t: F.max_pool2d(t, 2)), ("avg_pool_stride", lambda t: F.avg_pool2d(t, 3, 1, 1, count_include_pad=False)),
                           ("resize_size", lambda t: F.interpolate(t, size=(5, 9))), ("resize_bilinear", lambda t: F.interpolate(t, scale_factor=2, mode="bilinear")),
                           ("resize_bicubic", lambda t: F.interpolate(t, scale_factor=1.5, mode="bicubic", align_corners=True)),
                           ("roll_flat", lambda t: t.roll(3)), ("roll", lambda t: t.roll((1, -2), (2, 3))), ("slice", lambda t: t[..., 1:, ::2]),
                           ("cumsum", lambda t: t.cumsum(-2)), ("cross", lambda t: torch.linalg.cross(t[:, :3], t[:, 1:], dim=1)),
                           ("cross_of_rows", lambda t: torch.cross(t[:, :, :3], t[:, :, 4:7], dim=2)), ("cross_unnamed", lambda t: torch.cross(t[:, :3], t[:1, 1:])),
                           ("cosine", lambda t: F.cosine_similarity(t[:, :2], t[:1, 2:])), ("cosine_of_rows", lambda t: F.cosine_similarity(t, t.flip(1), dim=-2)),
                           ("vecdot", lambda t: torch.linalg.vecdot(t, t[0] + 1, dim=-3)), ("glu", lambda t: F.glu(t, 1)), ("gelu", F.gelu), ("logsumexp", lambda t: t.logsumexp((-2, -1)))):
        yield f"argument.{name}", Call(function), (random(2, 4, 8, 6),)


def draws(call, inputs):
    """Whether the results are random, or not written at all: no other program has them."""
    results = []
    seeded = torch.manual_seed
    for seed in range(8):
        torch.manual_seed = lambda _, seed=seed: seeded(seed)  # some samples of the database seed for themselves
        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found = call(*[one.clone() for one in inputs])
            except Exception:  # which the export reports
                return False
            finally:
                torch.manual_seed = seeded
        results.append([one for one in torch.utils._pytree.tree_leaves(found) if isinstance(one, torch.Tensor)])
    return any(not torch.equal(_finite(one), _finite(other)) for found in results[1:] for one, other in zip(results[0], found)
               if one.layout is torch.strided)


def _finite(x):
    return torch.nan_to_num(x.to(torch.complex64) if x.dtype == torch.complex32 else x)


def database():
    """PyTorch's own database of operators."""
    if "expecttest" not in sys.modules and importlib.util.find_spec("expecttest") is None:  # PyTorch's test classes are derived from it, its samples do without
        sys.modules["expecttest"] = types.ModuleType("expecttest")
        sys.modules["expecttest"].TestCase = unittest.TestCase
    from torch.testing._internal.common_methods_invocations import op_db
    return op_db


def of_op_db(count):
    usable = [one for one in database() if F64 in one.dtypes and one.supports_autograd]
    some = usable if count == 0 else usable[::max(1, len(usable) // count)]
    for op in some:
        try:
            samples = list(itertools.islice(op.sample_inputs("cpu", F64, requires_grad=False), 3))
        except Exception:  # of samples that need what is not installed
            continue
        for number, sample in enumerate(samples):
            arguments = (sample.input, *sample.args)
            leaves, tree = torch.utils._pytree.tree_flatten((arguments, sample.kwargs))
            inputs = tuple(one.detach().clone() for one in leaves if isinstance(one, torch.Tensor))

            def call(*tensors, op=op, leaves=leaves, tree=tree):
                rest = iter(tensors)
                arguments, named = torch.utils._pytree.tree_unflatten([next(rest) if isinstance(one, torch.Tensor) else one for one in leaves], tree)
                return op.op(*arguments, **named)

            if draws(call, inputs):
                continue
            name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
            yield f"op_db.{name}.{number}".replace("/", "_"), Call(call), inputs


def floats(tensor):
    return isinstance(tensor, torch.Tensor) and (tensor.is_floating_point() or tensor.is_complex())


def figures(export, module, inputs, folder):
    """Writes figures.json: outputs, and the gradients for two sets of factors."""
    parameters = dict(module.named_parameters())
    entries = {"inputs": [export.write_tensor(one, folder, str(number), f"input_{number}.bin") for number, one in enumerate(inputs)], "sets": []}
    for number in (0, 1):
        leaves = [one.detach().clone(memory_format=torch.contiguous_format).requires_grad_(floats(one)) for one in inputs]
        with export.unchanged_buffers(module), export.DenseNorms():
            results = torch.utils._pytree.tree_leaves(module(*[one.clone(memory_format=torch.contiguous_format) for one in leaves]))
            outputs = [one if isinstance(one, torch.Tensor) else None if one is None else torch.tensor(one) for one in results]
            factors = [None if not floats(one) else torch.full_like(one, 0.3).contiguous() if number else torch.randn_like(one).contiguous() for one in outputs]
            ends = [(one, factor) for one, factor in zip(outputs, factors) if floats(one) and one.requires_grad]
            tensors = [one for one in (*leaves, *parameters.values()) if one.requires_grad]
            found = dict(zip(map(id, tensors), torch.autograd.grad([one for one, _ in ends], tensors, [one for _, one in ends], allow_unused=True))) if ends else {}
        entries.setdefault("outputs", [export.write_tensor(one, folder, str(i), f"output_{i}.bin") for i, one in enumerate(outputs)])
        entries["sets"].append({
            "factors": [export.write_tensor(one, folder, str(i), f"factor_{number}_{i}.bin") for i, one in enumerate(factors)],
            "input_gradients": [export.write_tensor(found.get(id(one)), folder, str(i), f"gradient_{number}_{i}.bin") for i, one in enumerate(leaves)],
            "parameter_gradients": {name: export.write_tensor(found.get(id(one)), folder, name, f"of_{number}_{i}.bin") for i, (name, one) in enumerate(parameters.items())}})
    with open(os.path.join(folder, "figures.json"), "w") as stream:
        json.dump(entries, stream)


def write(export, name, module, inputs, folder):
    os.makedirs(folder)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        # Gradients are compared in what follows.
        export.save(module, [one.clone() for one in inputs], os.path.join(folder, "program.pt2"), forward_only=True)
        torch.manual_seed(3)
        figures(export, module, inputs, folder)


def compare(folders, num_ranks, root):
    """A line of compare_programs for each folder."""
    listed, result = os.path.join(root, "list"), os.path.join(root, f"result{num_ranks}")
    with open(listed, "w") as stream:
        stream.writelines(folder + "\n" for folder in folders)
    run = subprocess.run([*os.environ["MPIEXEC"].split(), str(num_ranks), os.environ["COMPARE"], listed, result], capture_output=True, text=True)
    lines = []
    if os.path.exists(result):
        with open(result) as stream:
            lines = [json.loads(line) for line in stream]
    if run.returncode != 0 or len(lines) != len(folders):
        print(f"FAILED: compare_programs on {num_ranks} ranks ended with {run.returncode} after {len(lines)} of {len(folders)} cases\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
    return lines, run.returncode == 0 and len(lines) == len(folders)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--ranks", default="1,2,3")
    parser.add_argument("--op-db", type=int, metavar="COUNT")
    parser.add_argument("--keep", metavar="FOLDER")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    export = export_module()
    cases = of_op_db(options.op_db) if options.op_db is not None else itertools.chain(norms(), pads(), optional())
    failures = 0
    counts = collections.Counter()
    with tempfile.TemporaryDirectory() as root:
        root = options.keep or root
        folders = []
        for name, module, inputs, *inner in cases:
            if options.names and not any(name.startswith(one) for one in options.names):
                continue
            for one in inner:
                module.add_module("inner", one)
            folder = os.path.join(root, name)
            try:
                write(export, name, module, inputs, folder)
                folders.append(folder)
                counts["exported"] += 1
            except Exception as error:
                counts["not exported"] += 1
                if options.op_db is None:
                    print(f"FAILED: {name} is not exported: {str(error).splitlines()[0] if str(error) else error!r}")
                    failures += 1
        refused = {}
        for num_ranks in map(int, options.ranks.split(",")):
            lines, whole = compare(folders, num_ranks, root)
            failures += 0 if whole else 1
            for line in lines:
                place = f"{line['name']} on {num_ranks} ranks"
                if "refused" in line:
                    no_field = line["refused"] == "no field"
                    counts[f"{num_ranks} ranks: " + ("without a field" if no_field else "refused")] += 1
                    refused.setdefault(line["refused"].split(": ")[1] if not no_field else "", set()).add(line["name"])
                    if options.op_db is None and not no_field:
                        print(f"FAILED: {place} is refused: {line['refused']}")
                        failures += 1
                elif "broken" in line or line["worst"] > TOLERANCE:
                    counts[f"{num_ranks} ranks: wrong"] += 1
                    failures += 1
                    print(f"FAILED: {place}: " + (line.get("broken") or f"a difference of {line['worst']:.2g} at {line['at']}"), flush=True)
                else:
                    counts[f"{num_ranks} ranks: right"] += 1
                    counts[f"{num_ranks} ranks: right divisions"] += line["divisions"]
    print(", ".join(f"{what} {count}" for what, count in counts.items()))
    if options.op_db is not None:
        print(f"refused by name: {', '.join(sorted(set(itertools.chain(*refused.values()))))}"[:4000])
    if counts["exported"] == 0:
        print("FAILED: nothing was compared")
        return 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
