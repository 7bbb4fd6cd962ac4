# SPDX-License-Identifier: BSD-3-Clause
"""The pages From DDP, From CREDIT and From ShardTensor: their scripts train as one process, and changed lines are counted right."""
import difflib
import os
import re
import socket
import sys
import types
from pathlib import Path

import torch
from support import COMM, RANK, RANKS, close, main
from torch import nn

import graticule  # noqa: F401

DOCS = Path(__file__).resolve().parents[2] / "docs"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter, self.norm, self.leave = nn.Conv2d(2, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.Conv2d(8, 2, 3, padding=1)

    def forward(self, x):
        return x + self.leave(nn.functional.gelu(self.norm(self.enter(x))))


def batches(part=0, parts=1):
    for step in range(3):
        x = torch.randn(12, 2, 17, 10, generator=torch.Generator().manual_seed(step))
        n = len(x) // parts
        yield x[part * n:(part + 1) * n], x.roll(1, -1).sin()[part * n:(part + 1) * n]


def serial(clipped):
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    for x, y in batches():
        optimizer.zero_grad()
        nn.MSELoss()(net(x), y).backward()
        if clipped:
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    return net


def scripts(page):
    """The two scripts of a page; the number of lines that it says have changed is right."""
    text = (DOCS / page).read_text()
    before, after = (re.search(r"```python\n(.*?)```", part, re.S).group(1) for part in re.split(r"^## (?:Before|After)$", text, flags=re.M)[1:3])
    changed = sum(line.startswith("+ ") and line.strip() != "+" for line in difflib.ndiff(before.splitlines(), after.splitlines()))
    stated = int(re.search(r"^(\d+) lines are new or changed", text, re.M).group(1))
    assert changed == stated, f"{page}: {changed} lines have changed, not {stated}"
    return before, after


KEPT = []  # torch 2.13 may wait for itself where the last owner of a process group of gloo is destroyed with Python's lock


def run(code, name, ranks_of_a_domain=1):
    mine = types.ModuleType("mine")
    mine.Net, mine.batches, mine.RANKS = Net, batches, ranks_of_a_domain
    sys.modules["mine"] = mine
    names = {"__name__": "train"}
    exec(compile(code, name, "exec"), names)
    KEPT.append(names)
    return names["net"]


def same(net, other):
    for a, b in zip(net.parameters(), other.parameters()):
        close(a, b, 2e-4)


def test_from_ddp():
    before, after = scripts("from_ddp.md")
    expected = serial(True)
    for ranks in {1, RANKS, 2 if RANKS % 2 == 0 else 1}:
        same(run(after, "after", ranks), expected)
    # As torchrun starts it.
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    port = COMM.bcast(port)
    os.environ.update(RANK=str(RANK), WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    COMM.Barrier()
    try:
        same(run(before, "before"), expected)
        first = before.replace('dist.init_process_group("gloo")', 'graticule.init_process_group(backend="graticule")')
        assert first != before
        same(run("import graticule\n" + first, "over MPI"), expected)
    finally:
        for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
            del os.environ[name]


def test_from_credit():
    before, after = scripts("from_credit.md")
    compile(before, "before", "exec")
    same(run(after, "after"), serial(False))


def test_from_shardtensor():
    before, after = scripts("from_shardtensor.md")
    compile(before, "before", "exec")
    same(run(after, "after"), serial(False))


if __name__ == "__main__":
    main(globals())
