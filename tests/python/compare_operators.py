# SPDX-License-Identifier: BSD-3-Clause
"""Samples of PyTorch's own database of operators on shards equal one process: outputs and the gradients of all inputs.

    compare_operators.py [--doors program,shard] [--ranks 2,3] [--dtypes float64] [--count OPERATORS] [--samples 3] [--json FILE] [--list] [NAME...]

Each sample runs as the forward of a module, through graticule.shard_program ("program") and graticule.shard ("shard"). One of its tensors is
cut along its last axis but one, its last or its first axis, in parts of different sizes, see `cuts_of`; the operator gets it contiguous, and
with the strides that it has then (".strided", where they differ). --layouts: besides "dense" and "strided", in which all tensors, the shards that
the module gets, what the operator gets, and the cotangents of its results, are stored: "transposed" (axes in reverse order), "channels_last"
(where there are 4 or 5 axes), "expanded" (one value along the first axis, in memory once; of cotangents one value in all).
--dtypes: those of the samples, as "float64,complex128,int64,bool".
--count: so many operators, spread over the database; by default all. NAME: operators that begin with it.
A sample is "right", "refused" (NotSharded or RefusedProgram, on all ranks), "without a cut" (no tensor has an axis), "fails serially",
"wrong", "broken" (any other error), or "ended" (the processes ended, or gave no result for --limit seconds).
--json keeps a line for each, and samples that stand in it are not run again. Ends with 1 where anything is wrong, broken or ended.
"""
import argparse
import collections
import faulthandler
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import warnings

import torch
from torch.utils import _pytree as pytree

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "nn_bridge", "program"))
TOLERANCES = {torch.float32: 1e-5, torch.complex64: 1e-5, torch.float16: 1e-2, torch.bfloat16: 1e-2, torch.complex32: 1e-2}  # else 1e-9
BAD = ("wrong", "broken", "ended")
REFUSALS = ("NotSharded", "RefusedProgram")


def samples_of(options):
    """(name, function of tensors, tensors) of the database."""
    from check_operators import database, draws
    for dtype in options.dtypes.split(","):
        kind = getattr(torch, dtype)
        usable = [op for op in database() if kind in op.dtypes]
        if options.count:
            usable = usable[options.offset::max(1, len(usable) // options.count)]
        for op in usable:
            name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
            if options.names and not any(name.startswith(one) for one in options.names):
                continue
            torch.manual_seed(1)  # samples do not depend on those before
            try:
                samples = list(op.sample_inputs("cpu", kind, requires_grad=kind.is_floating_point or kind.is_complex))[:options.samples]
            except Exception:  # of samples that need what is not installed
                continue
            for number, sample in enumerate(samples):
                leaves, spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
                inputs = [x for x in leaves if isinstance(x, torch.Tensor)]
                if any(x.layout is not torch.strided or x.is_nested for x in inputs):
                    continue
                needs = [x.requires_grad for x in inputs]
                inputs = [x.detach().clone() for x in inputs]

                def call(*tensors, op=op, leaves=leaves, spec=spec):
                    rest = iter(tensors)
                    args, named = pytree.tree_unflatten([next(rest) if isinstance(x, torch.Tensor) else x for x in leaves], spec)
                    return op.op(*args, **named)

                if not draws(call, inputs):
                    yield f"{name}.{number}" + ("" if kind == torch.float64 else f".{dtype}"), call, [x.requires_grad_(on) for x, on in zip(inputs, needs)]


LAYOUTS = {
    "transposed": lambda x: x.permute(tuple(reversed(range(x.dim())))).contiguous().permute(tuple(reversed(range(x.dim())))),
    "channels_last": lambda x: x.contiguous(memory_format=torch.channels_last if x.dim() == 4 else torch.channels_last_3d) if x.dim() in (4, 5) else x,
    "expanded": lambda x: x[:1].expand(x.shape) if x.dim() and x.shape[0] > 1 else x,
}


class Case(torch.nn.Module):
    """A function of tensors, of which some come as fields: their cut axis is the last but one, before one of size 1."""

    def __init__(self, function, axes, layout="dense"):
        super().__init__()
        self.function, self.axes, self.layout = function, axes, layout

    def forward(self, *given):
        return self.function(*[x if axis is None else self.of_field(x, axis) for x, axis in zip(given, self.axes)])

    def of_field(self, x, axis):
        x = x.squeeze(-1).movedim(-1, axis)
        return x if self.layout == "strided" else LAYOUTS.get(self.layout, torch.Tensor.contiguous)(x)

    def given(self, inputs):
        return [x if axis is None else x.detach().movedim(axis, -1).unsqueeze(-1).contiguous().requires_grad_(x.requires_grad)
                for x, axis in zip(inputs, self.axes)]


class Model(torch.nn.Module):
    def __init__(self, case):
        super().__init__()
        self.case = case

    def forward(self, *given):
        return self.case(*given)


def cuts_of(inputs):
    """Axes of the inputs that are cut, or None: three choices. Tensors of the shape of the first one that has axes are cut as it is, or not."""
    first = next((i for i, x in enumerate(inputs) if x.dim()), None)
    if first is None:
        return []
    others = [i for i, x in enumerate(inputs) if x.dim() and i != first]
    shape = inputs[first].shape
    found = []
    for axis, wanted in ((max(0, len(shape) - 2), "alike"), (len(shape) - 1, "alone"), (0, "both")):
        axes = [None] * len(inputs)
        axes[first] = axis
        for i in others:
            if wanted == "alike" and inputs[i].shape == shape:
                axes[i] = axis
            elif wanted == "both":
                axes[i] = inputs[i].dim() - 1
        if axes not in found:
            found.append(axes)
    return found


def parts_of(extent, ranks, uneven=True):
    """Where there are fewer cells than ranks, the last ranks have none. uneven: a program has fields of other extents than its first one balanced."""
    if not uneven:
        return [extent // ranks + (rank < extent % ranks) for rank in range(ranks)]
    if extent < ranks:
        return [1 if rank < extent else 0 for rank in range(ranks)]
    sizes = [max(1, extent * (ranks - i) // (ranks * (ranks + 1) // 2) - i) for i in range(1, ranks)]
    return [extent - sum(sizes), *sizes]


def is_number(x):
    return x.is_floating_point() or x.is_complex()


def leaf(x, needs, layout="dense"):
    """needs: whether it has a gradient. expanded: stored transposed, because its values differ; the operator gets one that is expanded."""
    x = LAYOUTS.get({"expanded": "transposed"}.get(layout, layout), torch.clone)(x.detach().clone()).detach()
    return x.requires_grad_(needs)


def factors(shape, dtype, number, layout):
    """A cotangent of a result."""
    real = torch.randn(*([1] * len(shape) if layout == "expanded" else shape), 2, dtype=torch.float64,
                       generator=torch.Generator().manual_seed(100 + number))
    found = (torch.view_as_complex(real) if dtype.is_complex else real[..., 0]).to(dtype)
    return found.expand(shape) if layout == "expanded" else LAYOUTS.get(layout, torch.Tensor.contiguous)(found)


def results_of(result):
    return pytree.tree_leaves(result)


def gradients(outputs, weights, leaves):
    pairs = [(y, w) for y, w in zip(outputs, weights) if isinstance(y, torch.Tensor) and y.requires_grad]
    wanted = [x for x in leaves if x.requires_grad]
    found = torch.autograd.grad([y for y, _ in pairs], wanted, [w for _, w in pairs], allow_unused=True) if pairs and wanted else [None] * len(wanted)
    rest = iter(found)
    return [next(rest) if x.requires_grad else None for x in leaves]


def run_one(door, case, whole, comm, domain):
    """The result and a text."""
    import graticule
    from compare import gap, largest
    try:
        alone = [leaf(x, x.requires_grad) for x in whole]
        wanted = results_of(case(*alone))
        weights = [factors(y.shape, y.dtype, i, case.layout) if isinstance(y, torch.Tensor) and is_number(y) else None for i, y in enumerate(wanted)]
        wanted_gradients = gradients(wanted, weights, alone)
    except Exception as error:
        return "fails serially", f"{type(error).__name__}: {error}"
    if any(isinstance(y, torch.Tensor) and y.layout is not torch.strided for y in wanted):
        return "fails serially", "a result is sparse"
    rows = next(x.shape[-2] for x, axis in zip(whole, case.axes) if axis is not None)
    cuts = [None if axis is None else parts_of(x.shape[-2], comm.size, door == "shard" or x.shape[-2] == rows) for x, axis in zip(whole, case.axes)]
    own = [leaf(x if rows is None else graticule.shard_of(x.detach(), domain, rows=rows), x.requires_grad, case.layout) for x, rows in zip(whole, cuts)]
    given = [graticule.whole(x) if rows is None else graticule.field(x) for x, rows in zip(own, cuts)]
    try:
        if door == "program":
            net = graticule.shard_program(Model(case), domain)
        else:
            net = Model(case)
            graticule.shard(net, domain)
        found = results_of(net(*given))
        if door == "program":
            axes = iter(net.report.outputs)
            axes = [next(axes) if isinstance(y, torch.Tensor) else None for y in found]
        else:
            axes = [y.dim() - 2 if isinstance(y, torch.Tensor) and hasattr(y, "_graticule_cuts") else None for y in found]
        if len(found) != len(wanted):
            return "wrong", f"{len(found)} results in place of {len(wanted)}"
        ranges = []
        for i, (y, w, axis) in enumerate(zip(found, wanted, axes)):
            if isinstance(y, torch.Tensor) != isinstance(w, torch.Tensor):
                return "wrong", f"result {i} is a {type(y).__name__} in place of a {type(w).__name__}"
            sizes = None if axis is None else comm.allgather(y.shape[axis])
            if axis is not None and sum(sizes) != w.shape[axis]:
                return "wrong", f"result {i} has {sizes} of {list(w.shape)} along axis {axis}"
            ranges.append(None if axis is None else (axis, sum(sizes[:comm.rank]), sizes[comm.rank]))
        trouble = []
        for i, (y, w, place) in enumerate(zip(found, wanted, ranges)):
            if not isinstance(w, torch.Tensor):
                if y != w and not (y != y and w != w):
                    trouble.append(f"result {i} is {y}, not {w}")
                continue
            w = w if place is None else w.narrow(*place)
            if y.dtype != w.dtype:
                trouble.append(f"result {i} is of {y.dtype}, not {w.dtype}")
            elif gap(y.detach(), w.detach()) > TOLERANCES.get(w.dtype, 1e-9):
                trouble.append(f"result {i}: {gap(y.detach(), w.detach()):.1e}")
        own_weights = [None if w is None else w if place is None and comm.rank == 0 else torch.zeros_like(w) if place is None
                       else w.narrow(*place).contiguous() if case.layout in ("dense", "strided") else w.narrow(*place)
                       for w, place in zip(weights, ranges)]
        found_gradients = gradients(found, own_weights, own)
    except graticule.Error as error:
        return "refused" if error.rule in REFUSALS else "broken", str(error)
    except Exception as error:
        return "broken", f"{type(error).__name__}: {error}"
    size = max([largest(one) for one in wanted_gradients] + [largest(w) for w in weights if w is not None] + [1e-300])
    for i, (x, rows, g, w) in enumerate(zip(own, cuts, found_gradients, wanted_gradients)):
        if not x.requires_grad:
            continue
        g = torch.zeros_like(x) if g is None else g.detach()
        w = torch.zeros_like(whole[i]) if w is None else w
        if rows is None:
            g = comm.allreduce(g.resolve_conj().resolve_neg())
        else:
            w = w.narrow(-2, sum(rows[:comm.rank]), rows[comm.rank])
        if not gap(g, w, 1e-4 * size) <= max([TOLERANCES.get(one.dtype, 1e-9) for one in (x, *wanted) if isinstance(one, torch.Tensor)]):
            trouble.append(f"gradient of input {i}: {gap(g, w, 1e-4 * size):.1e}")
    return ("wrong", "; ".join(trouble)) if trouble else ("right", "")


def differs(layout, inputs, axes):
    """Whether a layout is one of its own for some of the tensors."""
    if layout == "dense" or axes is None:
        return layout == "dense"
    fields = [(x, axis) for x, axis in zip(inputs, axes) if axis is not None]
    if layout == "strided":
        return any(x.dim() > 1 and axis != x.dim() - 1 for x, axis in fields)
    return any(LAYOUTS[layout](x).stride() != x.contiguous().stride() for x, _ in fields)


def run_rank(options):
    """On each rank: runs what the list of names has not."""
    from mpi4py import MPI

    import graticule
    sys.path.insert(0, os.path.join(HERE, "..", "public_networks"))
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    comm = MPI.COMM_WORLD
    domain = graticule.Domain(comm)
    with open(options.done) as stream:
        done = set(stream.read().split("\n"))
    layouts = options.layouts.split(",")
    for name, call, inputs in samples_of(options):
        choices = [(f"{name}.cut{number}{'' if layout == 'dense' else f'.{layout}'}", axes, layout) for number, axes in enumerate(cuts_of(inputs) or [None])
                   for layout in layouts if differs(layout, inputs, axes)]
        for full, axes, layout in choices:
            if full in done:
                continue
            if comm.rank == 0:
                print(json.dumps({"name": full}), flush=True)
            faulthandler.dump_traceback_later(0.8 * options.limit)
            if axes is None:
                kind, text = "without a cut", ""
            else:
                case = Case(call, axes, layout)
                torch.manual_seed(1)
                kind, text = run_one(options.doors, case, case.given(inputs), comm, domain)
            every = comm.allgather((kind, text))
            kinds = [one[0] for one in every]
            worst = next((i for kind in (*BAD, "refused") for i, one in enumerate(kinds) if one == kind), 0)
            if len(set(kinds)) > 1 and kinds[worst] == "refused":
                kinds[worst] = "broken"
            if comm.rank == 0:
                print(json.dumps({"name": full, "result": kinds[worst], "text": every[worst][1][:600]}), flush=True)


def run_ranks(options, door, ranks, done):
    """Runs what is left in one set of processes, and yields what is found."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as names:
        names.write("\n".join(done))
        names.flush()
        process = subprocess.Popen([*options.mpiexec.split(), str(ranks), sys.executable, "-W", "ignore", os.path.abspath(__file__), "--done", names.name, "--doors", door,
                                    "--count", str(options.count), "--offset", str(options.offset), "--samples", str(options.samples), "--dtypes", options.dtypes, "--layouts", options.layouts,
                                    "--limit", str(options.limit), *options.names],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        lines = queue.Queue()

        def read():
            for line in process.stdout:
                lines.put(line)
            lines.put(None)

        threading.Thread(target=read, daemon=True).start()
        current, said = None, []
        try:
            while True:
                try:
                    line = lines.get(timeout=options.limit if current else 300)
                except queue.Empty:
                    if current is None:
                        sys.exit("no sample began:\n" + "\n".join(said[-20:]))
                    yield {"name": current, "result": "ended", "text": f"no result after {options.limit:g} s: " + " | ".join(said)[:4000]}
                    return
                if line is None:
                    if current:
                        yield {"name": current, "result": "ended", "text": " | ".join(said[-6:])[-600:]}
                    elif process.wait() != 0:
                        sys.exit("the processes ended:\n" + "\n".join(said[-20:]))
                    return
                if not line.startswith('{"name"'):
                    said.append(line.strip())
                    continue
                found = json.JSONDecoder().raw_decode(line)[0]  # what other ranks write may follow
                if "result" in found:
                    current = None
                    yield found
                else:
                    current, said = found["name"], []
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def run_door(options, door, ranks, found):
    """Until all have run: processes that end are started again."""
    key = f"{door} on {ranks}"
    while True:
        ended = False
        done = [name for of, name in found if of == key]
        for one in run_ranks(options, door, ranks, done):
            found[key, one["name"]] = one
            ended = one["result"] == "ended"
            if one["result"] in BAD:
                print(f"{key} ranks: {one['name']}: {one['result']}: {one['text'][:300]}", flush=True)
            if options.json:
                with open(options.json, "a") as stream:
                    stream.write(json.dumps({"of": key, **one}) + "\n")
        if not ended:
            return


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--doors", default="program,shard")
    parser.add_argument("--ranks", default="2,3")
    parser.add_argument("--dtypes", default="float64")
    parser.add_argument("--count", type=int, default=0, metavar="OPERATORS")
    parser.add_argument("--offset", type=int, default=0, help="of the first of these")
    parser.add_argument("--samples", type=int, default=3, help="of each operator")
    parser.add_argument("--layouts", default="dense,strided")
    parser.add_argument("--mpiexec", default=os.environ.get("MPIEXEC", "mpiexec -n"))
    parser.add_argument("--limit", type=float, default=60, help="seconds without a result; ranks write where they are a little before")
    parser.add_argument("--json")
    parser.add_argument("--list", action="store_true", help="the refusals, too")
    parser.add_argument("--done", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.done:
        return run_rank(options)
    found = {}
    if options.json and os.path.exists(options.json):
        with open(options.json) as stream:
            found = {(one["of"], one["name"]): one for one in map(json.loads, stream)}
    for ranks in map(int, options.ranks.split(",")):
        for door in options.doors.split(","):
            run_door(options, door, ranks, found)
    counts = collections.Counter((of, one["result"]) for (of, _), one in found.items())
    for of in sorted({of for of, _ in found}):
        print(f"{of} ranks: " + ", ".join(f"{number} {kind}" for (at, kind), number in sorted(counts.items()) if at == of))
    if options.list:
        for (of, name), one in found.items():
            if one["result"] == "refused":
                print(f"{of} ranks: {name}: {one['text'][:200]}")
    bad = sum(number for (_, kind), number in counts.items() if kind in BAD)
    if not any(kind == "right" for _, kind in counts):
        print("nothing was compared")
        return 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
