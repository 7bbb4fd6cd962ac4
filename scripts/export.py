#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Exports a torch.nn.Module for Graticule, and checks the file.

    scripts/export.py net.py:make_network NET.pt2 --input 1x3x721x1440 [--input ...] [--dynamic 2,3] [--eval] [--golden FOLDER]
                      [--checkpoint-blocks "backbone.layers.*" ...] [--forward-only]

net.py:make_network is a file and a function (or class) in it that returns the module when called without arguments. --input gives
the sizes of one input, in order, and its type where it is not float32: 1x3x721x1440:bfloat16, 1:int64, or :int64 for a tensor without
axes. Integers are 0 and 1 in turns. --dynamic lists the axes, counted from 0, (latitude and longitude, mostly) that may have other sizes
later, in all inputs that have them; those whose size the network itself fixes are named. Without it the program runs at the given sizes alone. The module is exported in training mode, with batch norms and dropout as in training;
--eval exports it for forecasts. An exported program has the operators of the forward pass and their gradients. Where a network has others
(a torch.autograd.Function with a backward of its own, hooks on gradients), it is refused with the place, unless --forward-only says
that the program is not to be trained. What runs within torch.utils.checkpoint keeps its activations no longer than there: Graticule computes
them again in the backward. So it does for the submodules that --checkpoint-blocks names, by path or pattern, as often as it is given. Boolean masks as indices (x[:, mask]) have the values
that they have at the export. --golden writes inputs, outputs, loss and gradient norms, with which

    graticule-info NET.pt2 --check FOLDER

compares. From Python: import export; export.save(module, (x,), "NET.pt2"), which raises export.OtherGradients. Needs PyTorch 2.9 or newer.
"""
import argparse
import contextlib
import importlib.util
import json
import operator
import os
import sys

import torch

sys.dont_write_bytecode = True
# The Python package captures models, too; that file needs torch alone.
_capture = importlib.util.spec_from_file_location(
    "graticule_capture", next(path for folder in ("_capture.py", "../nn_bridge/python/graticule/_capture.py")
                              if os.path.exists(path := os.path.join(os.path.dirname(os.path.realpath(__file__)), folder))))
capture = importlib.util.module_from_spec(_capture)
sys.modules[_capture.name] = capture
_capture.loader.exec_module(capture)
from graticule_capture import (CaptureError, add_functions, blocks_of, cells_of_recurrent_layers, detach_parts_without_gradients,  # noqa: E402
                               drop_other_marks, functions_behind, known_values, marked_regions, noted_causes, written_buffers)


register_hook = torch.Tensor.register_hook  # its own hooks are no causes


class DenseNorms(torch.overrides.TorchFunctionMode):
    """LibTorch 2.13's backward of batch norms and instance norms on the CPU is wrong where a batch of 1, or an axis of one cell, lets the
    input and its cotangent pass for the same memory format: gives it both dense in one format, as Graticule does."""

    def __torch_function__(self, function, types, arguments=(), named=None):
        named = named or {}
        name = getattr(function, "__name__", "")
        if not arguments or not name.endswith(("batch_norm", "instance_norm")) or not isinstance(arguments[0], torch.Tensor) or arguments[0].device.type != "cpu":
            return function(*arguments, **named)
        given = arguments[0]
        form = format_of(given) if name.endswith("batch_norm") else torch.contiguous_format
        result = function(given.contiguous(memory_format=form), *arguments[1:], **named)
        first = result[0] if isinstance(result, (tuple, list)) else result
        if first.requires_grad:
            register_hook(first, lambda cotangent: cotangent.contiguous(memory_format=form))
        return result


def format_of(tensor):
    """The memory format in which LibTorch's operators give their results."""
    form = torch._prims_common.suggest_memory_format(tensor)
    return form if tensor.dim() in (4, 5) else torch.contiguous_format


class OtherGradients(RuntimeError):
    """The exported program has other gradients than the network."""


class WithBackward(torch.fx.Interpreter):
    """Runs the graph of an exported program, some of whose operators have no backward in Python, with one, as Graticule does."""

    def call_function(self, target, arguments, named):
        name = target.name() if isinstance(target, torch._ops.OpOverload) else ""
        if name == "aten::copy":
            return arguments[1].expand(arguments[0].shape).to(arguments[0], copy=True)
        if name in ("aten::slice_scatter", "aten::select_scatter") and arguments[0].is_complex():
            result = arguments[0].clone()
            part = torch.ops.aten.slice.Tensor if name == "aten::slice_scatter" else torch.ops.aten.select.int
            part(result, *arguments[2:], **named).copy_(arguments[1])
            return result
        if "batch_norm" not in name and "instance_norm" not in name:
            return super().call_function(target, arguments, named)
        if name == "aten::_native_batch_norm_legit_functional":
            given = dict(zip([one.name for one in target._schema.arguments], arguments)) | named
            mean, var = given["running_mean"].clone(), given["running_var"].clone()
            results = self.dense(torch.ops.aten.native_batch_norm.default, given["input"], (given["weight"], given["bias"], mean, var, given["training"],
                                                                                           given["momentum"], given["eps"]), {})
            return (*results, mean, var)
        return self.dense(target, arguments[0], arguments[1:], named)

    @staticmethod
    def dense(target, given, others, named):
        form = torch.contiguous_format if "instance_norm" in target.name() else format_of(given)
        result = target(given.contiguous(memory_format=form), *others, **named)
        first = result[0] if isinstance(result, (tuple, list)) else result
        if first.requires_grad:
            register_hook(first, lambda cotangent: cotangent.contiguous(memory_format=form))
        return result


def with_own_tensors(module):
    """The module with parameters of its own on the same memory, which have none of the hooks of the network's, and copies of its buffers."""
    own = {}
    for part in module.modules():
        for name, one in part._buffers.items():
            if one is not None:
                part._buffers[name] = own.setdefault(id(one), one.detach().clone())
        for name, one in part._parameters.items():
            if one is not None:
                part._parameters[name] = own.setdefault(id(one), torch.nn.Parameter(one.detach(), one.requires_grad))
    return module


def differentiable(tensor):
    return isinstance(tensor, torch.Tensor) and (tensor.is_floating_point() or tensor.is_complex())


def gradients_of(run, named_parameters, inputs, functions=None):
    """Outputs, and gradients by name of the sum of all outputs with random factors; .grad of the parameters is left as it was."""
    before = {name: one.grad for name, one in named_parameters.items()}
    for one in named_parameters.values():
        one.grad = None
    leaves = [one.detach().clone().requires_grad_(differentiable(one)) for one in inputs]
    torch.manual_seed(1)
    try:
        with torch.enable_grad():
            outputs = [one for one in torch.utils._pytree.tree_leaves(run(*[one.clone() for one in leaves])) if isinstance(one, torch.Tensor)]
            if functions is not None:
                functions |= functions_behind(outputs)
            maker = torch.Generator().manual_seed(2)
            loss = 0
            for one in outputs:
                factors = torch.randn(one.shape, generator=maker, dtype=torch.float64).to(one.device)
                if differentiable(one) and one.requires_grad:
                    loss = loss + ((torch.view_as_real(one).sum(-1) if one.is_complex() else one) * factors.to(one.real.dtype if one.is_complex() else one.dtype)).sum()
            if isinstance(loss, torch.Tensor):
                loss.backward()
        found = {f"parameter {name}": one.grad for name, one in named_parameters.items()}
        found |= {f"input {number}": one.grad for number, one in enumerate(leaves) if differentiable(one)}
        return [one.detach() for one in outputs], found
    finally:
        for name, one in named_parameters.items():
            one.grad = before[name]


@contextlib.contextmanager
def unchanged_buffers(module):
    before = {name: buffer.clone() for name, buffer in module.named_buffers()}
    try:
        yield
    finally:
        for name, buffer in module.named_buffers():
            if name in before and not torch.equal(buffer, before[name]):
                buffer.data.copy_(before[name])


def accepted_difference(tensors):
    """Of gradients, by the narrowest type that takes part."""
    types = {one.dtype for one in tensors}
    return 0.2 if torch.bfloat16 in types else 0.05 if torch.float16 in types else 1e-3


def other_gradients(found, wanted):
    """(name, relative difference or None where one of the two has no gradient) by size, largest first; both as gradients_of gives them."""
    norms = {name: 0.0 if one is None else wide(one).norm().item() for name, one in wanted.items()}
    largest = max([one for one in norms.values() if one == one and one != float("inf")], default=0.0)
    result = []
    for name, one in wanted.items():
        other = found.get(name)
        if one is None and (other is None or not other.any()) or other is None and not one.any():
            continue
        if one is None or other is None:
            result.append((name, None))
            continue
        gap = torch.where((wide(other) == wide(one)) | (other.isnan() & one.isnan()), 0, wide(other) - wide(one)).norm().item()
        difference = 0.0 if gap == 0 else gap / max(norms[name], 0.01 * largest, 1e-30)
        result.append((name, difference if difference == difference else float("inf")))
    return sorted(result, key=lambda one: -(float("inf") if one[1] is None else one[1]))


def gradients_of_program(program, undecomposed, names, inputs):
    """Parameters, outputs and gradients of the program, or where Python lacks the backward of one of its operators, of `undecomposed`."""
    for one in (program, undecomposed):
        own = with_own_tensors(one.module())
        parameters = {name: parameter for name, parameter in own.named_parameters() if name in names}
        try:
            return parameters, *gradients_of(WithBackward(own).run, parameters, inputs)
        except RuntimeError:
            if one is undecomposed:
                raise


def check_gradients(module, program, undecomposed, inputs):
    """Raises OtherGradients where the gradients of the exported program are not those of the module; names what torch.export has dropped."""
    parameters = dict(module.named_parameters())
    causes, functions = set(), set()
    with DenseNorms():
        with unchanged_buffers(module), noted_causes(module, causes):
            outputs, wanted = gradients_of(module, parameters, inputs, functions)
        exported, found_outputs, found = gradients_of_program(program, undecomposed, parameters, inputs)
        if len(outputs) != len(found_outputs) or any(largest_difference(one, other) > 1e-2 for one, other in zip(found_outputs, outputs)):
            return  # values that are drawn at random, or a program that computes something else: `check` says so
        accepted = accepted_difference([*parameters.values(), *inputs, *[node.meta["val"] for node in program.graph.nodes
                                                                         if differentiable(node.meta.get("val"))]])
        names = {f"parameter {name}" for name in exported} | {name for name in wanted if name.startswith("input ")}
        wanted = {name: one for name, one in wanted.items() if name in names}
        differences = [(name, one) for name, one in other_gradients(found, wanted) if one is None or one > accepted]
        if differences and all(one is not None for _, one in differences):
            # Rounding may change gradients by as much: as a change of the inputs in their last digits does.
            moved = [one * (1 + 4 * torch.finfo(one.dtype).eps) if differentiable(one) else one for one in inputs]
            with unchanged_buffers(module):
                rounding = dict(other_gradients(gradients_of(module, parameters, moved)[1], wanted))
            differences = [(name, one) for name, one in differences if one > 10 * (rounding.get(name) or 0.0)]
    if not differences:
        return
    add_functions(causes, functions)
    name, difference = differences[0]
    none = sum(one is None for _, one in differences)
    what = (f"{none} of {len(wanted)} gradients are there in the program or in the network alone, first that of {name}" if none
            else f"{len(differences)} of {len(wanted)} gradients differ, most that of {name}, by {difference:.2g} of its norm")
    because = "".join(f"\n  {cause}" for cause in sorted(causes)) or "\n  a cause that was not seen: code that reads or changes gradients"
    raise OtherGradients(f"the exported program would have other gradients than the network: {what}. torch.export keeps the operators of the forward "
                         f"pass alone, and drops{because}\nWrite it with operators that have the gradients that are meant (x + (f(x) - x).detach() has f's "
                         "values and x's gradient), take it out before the export, or export with --forward-only (forward_only=True) a program that is not to "
                         "be trained")


def save(module, inputs, path, dynamic=(), forward_only=False, checkpoint_blocks=()):
    """Exports the module, saves it and loads it again. Returns the loaded program.

    checkpoint_blocks: patterns of submodules whose activations the backward computes again; those within torch.utils.checkpoint are, too.
    Raises OtherGradients, and saves nothing, where the program has other gradients than the module; forward_only: it may. Raises ValueError
    for a pattern that names no module, and graticule_capture.CaptureError for one whose modules are not called.
    """
    shapes = None
    if dynamic:
        shapes = tuple({axis: torch.export.Dim.AUTO for axis in dynamic if axis < one.dim()} for one in inputs)
    with marked_regions(module, checkpoint_blocks), known_values(module), written_buffers(module):
        program = torch.export.export(module, tuple(inputs), dynamic_shapes=shapes)
        detach_parts_without_gradients(program.graph_module)
        undecomposed = program
        program = program.run_decompositions(cells_of_recurrent_layers())
    drop_other_marks(program.graph_module)
    if not forward_only:
        check_gradients(module, program, undecomposed, inputs)
    torch.export.save(program, path)
    return torch.export.load(path)


def num_operators(program):
    """The nodes of the file, which are those that graticule-info counts: inputs, outputs and parts of results are none."""
    return sum(one.op == "call_function" and one.target is not operator.getitem for one in program.graph.nodes)


def dynamic_axes(text, inputs):
    """The axes of --dynamic; each is one of an input at least."""
    try:
        axes = [int(axis) for axis in text.split(",") if axis]
    except ValueError:
        sys.exit(f"--dynamic {text}: axes are whole numbers, as 2,3")
    most = max(one.dim() for one in inputs)
    for axis in axes:
        if not 0 <= axis < most:
            sys.exit(f"--dynamic {text}: no input has an axis {axis}; axes are counted from 0, and the inputs have at most {most}")
    return axes


def report_fixed_axes(program, inputs, axes):
    """Names the axes that were to be dynamic, and are not, because the network computes with their size."""
    sizes = {node.name: node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"}
    for number, (name, one) in enumerate(zip(program.graph_signature.user_inputs, inputs)):
        for axis in axes:
            if axis < one.dim() and isinstance(sizes[name].shape[axis], int):
                print(f"input {number}, axis {axis}: of size {one.shape[axis]} only, because the network fixes it or the size is 1")


def outputs_of(module, inputs):
    torch.manual_seed(1)
    with torch.no_grad():
        result = module(*[one.clone() for one in inputs])
    return [one for one in torch.utils._pytree.tree_leaves(result) if isinstance(one, torch.Tensor)]


def wide(tensor):
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def largest_difference(found, wanted):
    """Relative to the largest value; infinite values and those that are no numbers have to be alike."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return float("inf")
    found, wanted = wide(found), wide(wanted)
    alike = (found == wanted) | (found.isnan() & wanted.isnan())
    if alike.all():
        return 0.0
    scale = max(wanted[wanted.isfinite()].abs().max().item() if wanted.isfinite().any() else 0.0, 1e-30)
    difference = torch.where(alike, torch.zeros_like(wanted), found - wanted).abs().max().item() / scale
    return difference if difference == difference else float("inf")


def run_once(module, inputs):
    """The outputs of the module, whose buffers are left as they were."""
    before = {name: buffer.clone() for name, buffer in module.named_buffers()}
    outputs = outputs_of(module, inputs)
    for name, buffer in module.named_buffers():
        if not torch.equal(buffer, before[name]):
            buffer.data.copy_(before[name])
    return outputs


def check(module, program, inputs):
    """Compares the loaded program with the module. Buffers of the module are left as they were."""
    wanted = run_once(module, inputs)
    found = outputs_of(program.module(), inputs)
    if len(found) != len(wanted):
        sys.exit(f"the program has {len(found)} outputs, the module {len(wanted)}")
    for number, (one, other) in enumerate(zip(found, wanted)):
        difference = largest_difference(one, other)
        print(f"output {number} {list(one.shape)}: largest relative difference from the module {difference:.2g}")
        if difference > 1e-4:
            sys.exit("the program computes something else; if the module draws random numbers in training, export it with --eval")


def norm(tensor):
    return 0.0 if tensor is None else tensor.norm().item()


def drops_values(program):
    """Whether dropout of the exported graph works, whose masks depend on the program that draws them."""
    for node in program.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if node.op == "call_function" and schema is not None:
            given = dict(zip([one.name for one in schema.arguments], node.args)) | node.kwargs
            if given.get("dropout_p") or ("dropout" in schema.name and given.get("train") and given.get("p")):
                return True
    return False


def write_tensor(tensor, folder, name, file):
    """The entry of a tensor, whose values are written beside the figures; of None for no tensor."""
    if tensor is None:
        return None
    tensor = torch.as_tensor(tensor).detach().contiguous()
    with open(os.path.join(folder, file), "wb") as stream:
        if tensor.numel() > 0:
            stream.write(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return {"name": name, "shape": list(tensor.shape), "dtype": str(tensor.dtype).removeprefix("torch."), "file": file}


def write_golden(module, program, inputs, folder):
    """Figures of the module itself: a loaded program with batch norms in training mode has no backward in Python."""
    if drops_values(program):
        sys.exit("--golden: the network drops values at random, which no other program repeats; export it with --eval for figures")
    os.makedirs(folder, exist_ok=True)
    inputs = [one.clone().requires_grad_(one.is_floating_point() or one.is_complex()) for one in inputs]
    with DenseNorms():
        outputs = torch.utils._pytree.tree_leaves(module(*[one.clone() for one in inputs]))
        first = outputs[0]
        if not (isinstance(first, torch.Tensor) and first.requires_grad):
            sys.exit("--golden: the loss is the mean of the squares of output 0, which has no gradient; let the network return a field first")
        loss = (first.abs() ** 2 if first.is_complex() else first**2).mean()
        loss.backward()
    names = program.graph_signature.user_inputs
    golden = {"torch": torch.__version__, "loss": loss.item(), "loss_is": "mean of the squares of output 0"}
    golden["inputs"] = [write_tensor(one, folder, names[number], f"input_{number}.bin") for number, one in enumerate(inputs)]
    golden["outputs"] = [write_tensor(one, folder, str(number), f"output_{number}.bin") for number, one in enumerate(outputs)]
    golden["parameter_gradient_norms"] = {name: norm(one.grad) for name, one in module.named_parameters()}
    golden["input_gradient_norms"] = [norm(one.grad) for one in inputs]
    with open(os.path.join(folder, "golden.json"), "w") as stream:
        json.dump(golden, stream, indent=1)


def make_input(text):
    """An input from its sizes and type, as "1x3x721x1440" or "1:int64"."""
    sizes, _, kind = text.partition(":")
    dtype = getattr(torch, kind or "float32", None)
    try:
        sizes = [int(size) for size in sizes.split("x") if size or "x" in sizes]
    except ValueError:
        sys.exit(f"--input {text}: sizes are whole numbers, as 1x3x721x1440")
    if not isinstance(dtype, torch.dtype):
        sys.exit(f"--input {text}: '{kind}' is no type of PyTorch, as float64 or int64")
    places = torch.arange(torch.Size(sizes).numel())
    if dtype.is_floating_point or dtype.is_complex:
        return (0.5 * torch.sin(0.01 * places.double())).to(dtype).reshape(sizes)
    return (places % 2).to(dtype).reshape(sizes)


def make_module(text):
    file, _, function = text.partition(":")
    if not function:
        sys.exit("the network is given as FILE.py:FUNCTION")
    if not os.path.isfile(file):
        sys.exit(f"{file} does not exist")
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    spec = importlib.util.spec_from_file_location("network", file)
    source = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(source)
    if not hasattr(source, function):
        sys.exit(f"{file} has no function or class '{function}'")
    return getattr(source, function)()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", help="FILE.py:FUNCTION")
    parser.add_argument("output", help="NET.pt2")
    parser.add_argument("--input", action="append", required=True, help="sizes of one input, 1x3x721x1440, and its type, 1x3x721x1440:float64")
    parser.add_argument("--dynamic", default="", help="axes of dynamic size, 2,3")
    parser.add_argument("--eval", action="store_true", help="export for forecasts instead of training")
    parser.add_argument("--golden", help="folder for golden figures")
    parser.add_argument("--checkpoint-blocks", action="append", default=[], metavar="PATTERN",
                        help="submodules whose activations the backward computes again, 'backbone.layers.*'")
    parser.add_argument("--forward-only", action="store_true", help="accept a program with other gradients than the network, which is not to be trained")
    options = parser.parse_args()
    module = make_module(options.network).train(not options.eval)
    try:
        blocks_of(module, options.checkpoint_blocks)
    except ValueError as error:
        sys.exit(f"{options.output} is not written: {error}")
    inputs = [make_input(text) for text in options.input]
    axes = dynamic_axes(options.dynamic, inputs)
    folder = os.path.dirname(options.output) or "."
    if not os.path.isdir(folder):
        sys.exit(f"{options.output}: the folder {folder} does not exist")
    try:
        run_once(module, inputs)
    except Exception as error:  # of any layer
        sys.exit(f"the network does not take --input {' --input '.join(options.input)}: {str(error).splitlines()[0] if str(error) else repr(error)}")
    try:
        program = save(module, inputs, options.output, axes, options.forward_only, options.checkpoint_blocks)
    except (OtherGradients, CaptureError) as error:
        sys.exit(f"{options.output} is not written: {error}")
    report_fixed_axes(program, inputs, axes)
    check(module, program, inputs)
    if options.golden:
        write_golden(module, program, inputs, options.golden)
    print(f"{options.output}: {num_operators(program)} nodes, {sum(one.numel() for one in program.parameters())} parameters")


if __name__ == "__main__":
    main()
