#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Exports a torch.nn.Module for Graticule, and checks the file.

    scripts/export.py net.py:make_network NET.pt2 --input 1x3x721x1440 [--input ...] [--dynamic 2,3] [--eval] [--golden FOLDER]

net.py:make_network is a file and a function (or class) in it that returns the module when called without arguments. --input gives
the sizes of one input, in order. --dynamic lists the axes (latitude and longitude, mostly) that may have other sizes later; without
it the program runs at the given sizes alone. The module is exported in training mode, with batch norms and dropout as in training;
--eval exports it for forecasts. --golden writes inputs, outputs, loss and gradient norms, with which

    graticule-info NET.pt2 --check FOLDER

compares. From Python: import export; export.save(module, (x,), "NET.pt2"). Needs PyTorch 2.9 or newer.
"""
import argparse
import importlib.util
import json
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
    axes = {axis: torch.export.Dim.AUTO for axis in dynamic}
    shapes = tuple(axes for _ in inputs) if axes else None
    program = torch.export.export(module, tuple(inputs), dynamic_shapes=shapes)
    detach_parts_without_gradients(program.graph_module)
    program = program.run_decompositions(cells_of_recurrent_layers())
    torch.export.save(program, path)
    return torch.export.load(path)


def outputs_of(module, inputs):
    torch.manual_seed(1)
    with torch.no_grad():
        result = module(*[one.clone() for one in inputs])
    return [one for one in torch.utils._pytree.tree_leaves(result) if isinstance(one, torch.Tensor)]


def check(module, program, inputs):
    """Compares the loaded program with the module. Buffers of the module are left as they were."""
    before = {name: buffer.clone() for name, buffer in module.named_buffers()}
    wanted = outputs_of(module, inputs)
    for name, buffer in module.named_buffers():
        buffer.data.copy_(before[name])
    found = outputs_of(program.module(), inputs)
    if len(found) != len(wanted):
        sys.exit(f"the program has {len(found)} outputs, the module {len(wanted)}")
    for number, (one, other) in enumerate(zip(found, wanted)):
        scale = max(other.abs().max().item(), 1e-30)
        difference = (one - other).abs().max().item() / scale
        print(f"output {number} {list(one.shape)}: largest relative difference from the module {difference:.2g}")
        if not difference <= 1e-4:
            sys.exit("the program computes something else; does the module draw random numbers in --train mode?")


def norm(tensor):
    return 0.0 if tensor is None else tensor.norm().item()


def write_golden(module, program, inputs, folder):
    """Figures of the module itself: a loaded program with batch norms in training mode has no backward in Python."""
    os.makedirs(folder, exist_ok=True)
    inputs = [one.clone().requires_grad_(one.is_floating_point()) for one in inputs]
    outputs = torch.utils._pytree.tree_leaves(module(*inputs))
    loss = (outputs[0] ** 2).mean()
    loss.backward()
    names = program.graph_signature.user_inputs
    golden = {"torch": torch.__version__, "loss": loss.item(), "loss_is": "mean of the squares of output 0"}
    for kind, tensors in (("input", inputs), ("output", outputs)):
        golden[kind + "s"] = []
        for number, tensor in enumerate(tensors):
            file = f"{kind}_{number}.bin"
            values = tensor.detach().contiguous()
            with open(os.path.join(folder, file), "wb") as stream:
                stream.write(values.reshape(-1).view(torch.uint8).numpy().tobytes())
            name = names[number] if kind == "input" else str(number)
            golden[kind + "s"].append(
                {"name": name, "shape": list(tensor.shape), "dtype": str(tensor.dtype).removeprefix("torch."), "file": file}
            )
    golden["parameter_gradient_norms"] = {name: norm(one.grad) for name, one in module.named_parameters()}
    golden["input_gradient_norms"] = [norm(one.grad) for one in inputs]
    with open(os.path.join(folder, "golden.json"), "w") as stream:
        json.dump(golden, stream, indent=1)


def make_module(text):
    file, _, function = text.partition(":")
    if not function:
        sys.exit("the network is given as FILE.py:FUNCTION")
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    spec = importlib.util.spec_from_file_location("network", file)
    source = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(source)
    return getattr(source, function)()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", help="FILE.py:FUNCTION")
    parser.add_argument("output", help="NET.pt2")
    parser.add_argument("--input", action="append", required=True, help="sizes of one input, 1x3x721x1440")
    parser.add_argument("--dynamic", default="", help="axes of dynamic size, 2,3")
    parser.add_argument("--eval", action="store_true", help="export for forecasts instead of training")
    parser.add_argument("--golden", help="folder for golden figures")
    options = parser.parse_args()
    module = make_module(options.network).train(not options.eval)
    inputs = []
    for text in options.input:
        sizes = [int(size) for size in text.split("x")]
        count = torch.Size(sizes).numel()
        inputs.append((0.5 * torch.sin(0.01 * torch.arange(count, dtype=torch.float64))).float().reshape(sizes))
    axes = [int(axis) for axis in options.dynamic.split(",") if axis]
    program = save(module, inputs, options.output, axes)
    check(module, program, inputs)
    if options.golden:
        write_golden(module, program, inputs, options.golden)
    print(f"{options.output}: {len(program.graph.nodes)} nodes, {sum(one.numel() for one in program.parameters())} parameters")


if __name__ == "__main__":
    main()
