# SPDX-License-Identifier: BSD-3-Clause
"""Networks of many families, exported in f64, equal PyTorch on any number of ranks: outputs, loss and norms of gradients.

    INFO=graticule-info MPIEXEC="mpiexec -n" check_networks.py [--ranks 1,2,3] [--once] [NAME...]

Each network of networks.py that is named (by default all) is exported by scripts/export.py and checked by
`graticule-info --check` in f64 with cuts that are as uneven as can be, ranks without rows among them, once with the layout of least
cost and once with every value cut; on 4 ranks in blocks as well. --once: one division for each number of ranks.
"""
import argparse
import contextlib
import importlib.util
import io
import json
import os
import subprocess
import sys
import tempfile
import warnings

import torch

import networks

HERE = os.path.dirname(os.path.abspath(__file__))
TOLERANCE = 1e-12
warnings.filterwarnings("ignore")


def export_module():
    path = os.path.join(HERE, "..", "..", "..", "scripts", "export.py")
    spec = importlib.util.spec_from_file_location("export", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def divisions(num_ranks, rows, columns, once):
    """Options of graticule-info for one number of ranks."""
    if num_ranks == 1:
        return [[]]
    steps = [rows - num_ranks + 1] + [1] * (num_ranks - 1)
    owners = num_ranks // 2
    gaps = [0] * num_ranks
    for owner in range(owners):
        gaps[2 * owner + 1] = rows // owners + (owner < rows % owners)
    cut = [["--cuts", ",".join(map(str, sizes))] for sizes in (steps, gaps)]
    if once:
        return [[*cut[0], "--layout", "divided"]]
    found = [[*cut[0], "--layout", "divided"], [*cut[1], "--layout", "divided"], cut[0]]
    if num_ranks == 4:
        found.append(["--partition", "2x2", "--cuts", f"2,{rows - 2}x{columns - 1},1", "--layout", "divided"])
    return found


def write(export, name, folder):
    """Exports a network with its figures. Returns the rows and columns of its first field."""
    torch.manual_seed(list(networks.NETWORKS).index(name) + 1)
    module, inputs = networks.NETWORKS[name]()
    module.train()
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        program = export.save(module, inputs, os.path.join(folder, name + ".pt2"))
        export.check(module, program, inputs)
        export.write_golden(module, program, inputs, os.path.join(folder, name))
    return inputs[0].shape[-2:]


def compare(name, folder, num_ranks, options):
    """The differences, and what went wrong."""
    report = os.path.join(folder, "report.json")
    network = os.path.join(folder, name)
    command = [*os.environ["MPIEXEC"].split(), str(num_ranks), os.environ["INFO"], network + ".pt2", "--check", network, "--dtype", "f64",
               "--tolerance", str(TOLERANCE), "--threads", "1", "--report", report, *options]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if os.path.exists(report):
        with open(report) as stream:
            found = json.load(stream).get("check")
        os.remove(report)
        if found:
            return found, "" if run.returncode == 0 else run.stderr.strip()
    return None, run.stderr.strip() or f"exit status {run.returncode}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--ranks", default="1,2,3")
    parser.add_argument("--once", action="store_true")
    options = parser.parse_args()
    unknown = set(options.names) - set(networks.NETWORKS)
    if unknown:
        parser.error(f"no network is named {', '.join(sorted(unknown))}")
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    export = export_module()
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in options.names or networks.NETWORKS:
            try:
                rows, columns = write(export, name, folder)
            except (Exception, SystemExit) as error:  # of PyTorch, or of the comparison with the module
                print(f"FAILED: {name}: {error}", flush=True)
                failures += 1
                continue
            largest = {}
            for num_ranks in map(int, options.ranks.split(",")):
                for division in divisions(num_ranks, rows, columns, options.once):
                    found, wrong = compare(name, folder, num_ranks, division)
                    for key, value in (found or {}).items():
                        value = float("inf") if value is None else value
                        largest[key] = max(largest.get(key, 0), value)
                    if wrong:
                        print(f"FAILED: {name} on {num_ranks} ranks, {' '.join(division)}: {wrong}", flush=True)
                        failures += 1
            print(f"{name}: " + ", ".join(f"{key} {value:.1e}" for key, value in largest.items()), flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
