# SPDX-License-Identifier: BSD-3-Clause
"""Runs the tests of a file on all ranks: `main(globals())`. A failure on one rank ends all ranks. GRATICULE_TEST_PART=2/3: every third of them,
from the second."""
import os
import sys

import torch

import graticule  # before mpi4py, which torchrun needs
from mpi4py import MPI

COMM = MPI.COMM_WORLD
RANK, RANKS = COMM.rank, COMM.size
DATA = os.environ.get("GRATICULE_TEST_DATA", "")


class Skipped(Exception):
    """With the reason."""


def skip(reason):
    raise Skipped(reason)


def raises(rule, call, *texts):
    """The error of a call, which has this rule and these texts."""
    try:
        call()
    except graticule.Error as error:
        assert error.rule == rule, f"{error} instead of {rule}"
        for text in texts:
            assert text in str(error), f"{text!r} is not in {error}"
        return error
    raise AssertionError(f"{rule} was not raised, with {texts}")


def close(a, b, tolerance=1e-12):
    """Whether tensors are equal, relative to the largest value."""
    assert a.shape == b.shape, (a.shape, b.shape)
    a, b = a.detach(), b.detach()
    worst = (a - b).abs().max().item() if a.numel() else 0.0
    assert worst <= tolerance * max(1.0, b.abs().max().item() if b.numel() else 0.0), worst


def uneven(extent, parts=None):
    """Sizes of parts: 2 cells each, and the rest first."""
    parts = RANKS if parts is None else parts
    return [extent - 2 * (parts - 1)] + [2] * (parts - 1)


def balanced(extent, parts=None):
    parts = RANKS if parts is None else parts
    return [extent // parts + (i < extent % parts) for i in range(parts)]


def main(names):
    torch.set_num_threads(1)
    chosen = sys.argv[1:]
    tests = [(name, value) for name, value in names.items() if name.startswith("test_") and (not chosen or name in chosen)]
    part, parts = map(int, os.environ.get("GRATICULE_TEST_PART", "1/1").split("/"))
    tests = tests[part - 1::parts]
    assert tests, f"no test is named {chosen}"
    skips = 0
    for name, test in tests:
        COMM.Barrier()
        torch.manual_seed(0)  # torch seeds itself otherwise, and models would differ between ranks
        try:
            test()
        except Skipped as reason:
            skips += 1
            if RANK == 0:
                print(f"skipped: {name}: {reason}", flush=True)
                if os.environ.get("GRATICULE_TEST_SKIPS"):
                    with open(os.environ["GRATICULE_TEST_SKIPS"], "a") as file:
                        file.write(f"{os.environ.get('GRATICULE_TEST_NAME', 'a test by hand')}\t{name}\t{reason}\n")
            continue
        if RANK == 0:
            print("passed:", name, flush=True)
    sys.exit(77 if skips == len(tests) else 0)
