#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Exports a torch.nn.Module for Graticule, and checks the file.

    scripts/export.py net.py:make_network NET.pt2 --input 1x3x721x1440 [--input ...] [--dynamic 2,3] [--eval] [--golden FOLDER]

net.py:make_network is a file and a function (or class) in it that returns the module when called without arguments. --input gives
the sizes of one input, in order, and its type where it is not float32: 1x3x721x1440:bfloat16, 1:int64, or :int64 for a tensor without
axes. Integers are 0 and 1 in turns. --dynamic lists the axes, counted from 0, (latitude and longitude, mostly) that may have other sizes
later, in all inputs that have them; those whose size the network itself fixes are named. Without it the program runs at the given sizes alone. The module is exported in training mode, with batch norms and dropout as in training;
--eval exports it for forecasts. --golden writes inputs, outputs, loss and gradient norms, with which

    graticule-info NET.pt2 --check FOLDER

compares. From Python: import export; export.save(module, (x,), "NET.pt2"). Needs PyTorch 2.9 or newer.
"""
import argparse
import importlib.util
import json
import operator
import os
import sys

import torch


def detach_parts_without_gradients(graph_module):
    """run_decompositions drops the mark of torch.no_grad, so that gradients would flow through such parts: detaches their results."""
    for node in graph_module.graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, torch._ops.HigherOrderOperator):
            continue
        for argument in node.args:
            if isinstance(argument, torch.fx.Node) and argument.op == "get_attr":
                part = getattr(graph_module, argument.target)
                if isinstance(part, torch.fx.GraphModule):
                    detach_parts_without_gradients(part)
                    if "set_grad_enabled" in str(node.target) and node.args[0] is False:
                        detach_results(part)


def detach_results(part):
    end = next(node for node in part.graph.nodes if node.op == "output")

    def detached(value):
        if not isinstance(value.meta.get("val"), torch.Tensor):
            return value
        with part.graph.inserting_before(end):
            result = part.graph.call_function(torch.ops.aten.detach.default, (value,))
        result.meta = dict(value.meta)
        return result

    end.args = (torch.fx.map_arg(end.args[0], detached),)
    part.recompile()


def cells_of_recurrent_layers():
    """Rules that turn GRUCell, LSTMCell and RNNCell into products and sums, which shards run; torch keeps them as operators."""
    if not hasattr(torch.export, "default_decompositions"):
        return {}
    return {operator: rule for operator, rule in torch.export.default_decompositions().items() if operator.name().endswith("_cell")}


def save(module, inputs, path, dynamic=()):
    """Exports the module, saves it and loads it again. Returns the loaded program."""
    shapes = None
    if dynamic:
        shapes = tuple({axis: torch.export.Dim.AUTO for axis in dynamic if axis < one.dim()} for one in inputs)
    program = torch.export.export(module, tuple(inputs), dynamic_shapes=shapes)
    detach_parts_without_gradients(program.graph_module)
    program = program.run_decompositions(cells_of_recurrent_layers())
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
    options = parser.parse_args()
    module = make_module(options.network).train(not options.eval)
    inputs = [make_input(text) for text in options.input]
    axes = dynamic_axes(options.dynamic, inputs)
    folder = os.path.dirname(options.output) or "."
    if not os.path.isdir(folder):
        sys.exit(f"{options.output}: the folder {folder} does not exist")
    try:
        run_once(module, inputs)
    except Exception as error:  # of any layer
        sys.exit(f"the network does not take --input {' --input '.join(options.input)}: {str(error).splitlines()[0] if str(error) else repr(error)}")
    program = save(module, inputs, options.output, axes)
    report_fixed_axes(program, inputs, axes)
    check(module, program, inputs)
    if options.golden:
        write_golden(module, program, inputs, options.golden)
    print(f"{options.output}: {num_operators(program)} nodes, {sum(one.numel() for one in program.parameters())} parameters")


if __name__ == "__main__":
    main()
