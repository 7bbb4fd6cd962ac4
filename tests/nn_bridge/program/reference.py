# SPDX-License-Identifier: BSD-3-Clause
# What PyTorch itself computes in f64 with an exported program: a folder like those of shared/data/programs.
#   reference.py [PROGRAM.pt2 FOLDER_OF_INPUTS OUTPUT_FOLDER]...
import json
import math
import sys
import warnings

import torch

warnings.filterwarnings("ignore")
WIDER = {torch.float32: torch.float64, torch.complex64: torch.complex128}


def widen(value):
    if isinstance(value, torch.dtype):
        return WIDER.get(value, value)
    if isinstance(value, torch.Tensor):
        return value.to(WIDER.get(value.dtype, value.dtype))
    if isinstance(value, (tuple, list)):
        return type(value)(widen(one) for one in value)
    return value


def in_f64(path):
    module = torch.export.load(path).module()
    for parameter in module.parameters():
        parameter.data = widen(parameter.data)
    for part in module.modules():
        for name, value in list(vars(part).items()):
            if isinstance(value, torch.Tensor):
                setattr(part, name, widen(value))
        for name, buffer in list(part._buffers.items()):
            part._buffers[name] = widen(buffer)
        if isinstance(part, torch.fx.GraphModule):
            for node in part.graph.nodes:
                if "_assert_tensor_metadata" in str(node.target):
                    continue
                node.args = tuple(widen(one) for one in node.args)
                node.kwargs = {key: widen(one) for key, one in node.kwargs.items()}
            for node in list(part.graph.nodes):
                if "_assert_tensor_metadata" in str(node.target) or "_guards_fn" in str(node.target):
                    part.graph.erase_node(node)
            part.recompile()
    return module


def compute(program, folder, output):
    golden = json.load(open(folder + "/golden.json"))
    inputs = []
    for entry in golden["inputs"]:
        count = math.prod(entry["shape"])
        # 0.5 sin(0.01 i), rounded to f32 as in the given files.
        values = torch.frombuffer(bytearray(open(folder + "/" + entry["file"], "rb").read()), dtype=torch.float32)
        assert values.numel() == count
        inputs.append(values.double().reshape(entry["shape"]).requires_grad_())
    module = in_f64(program)
    results = module(*inputs)
    results = [results] if isinstance(results, torch.Tensor) else list(results)
    loss = (results[0] ** 2).mean()
    loss.backward()
    names = golden["parameter_gradient_norms"]
    parameters = dict(module.named_parameters(remove_duplicate=False))
    golden["parameter_gradient_norms"] = {
        name: 0.0 if parameters[name].grad is None else parameters[name].grad.norm().item() for name in names
    }
    golden["input_gradient_norms"] = [0.0 if x.grad is None else x.grad.norm().item() for x in inputs]
    golden["loss"] = loss.item()
    for kind, tensors in (("inputs", inputs), ("outputs", results)):
        for entry, tensor in zip(golden[kind], tensors):
            assert tensor.dtype == torch.float64, tensor.dtype
            entry["dtype"] = "float64"
            open(output + "/" + entry["file"], "wb").write(tensor.detach().contiguous().numpy().tobytes())
    json.dump(golden, open(output + "/golden.json", "w"))


torch.set_default_dtype(torch.float64)
for at in range(1, len(sys.argv), 3):
    compute(*sys.argv[at:at + 3])
