# SPDX-License-Identifier: BSD-3-Clause
"""Errors of the library."""
from __future__ import annotations

from typing import Any

import torch


class Error(RuntimeError):
    """A broken rule: its name, and one sentence that states what was found.

    rule: stable, such as "BadCuts", so that programs can react to one kind of failure. text: the sentence.
    fault: "program", "usage" (a setting from outside), "input" (a file), "check" (a requested check), "argument", "mpi" or
    "memory".
    """

    def __init__(self, rule: str, text: str, fault: str = "program") -> None:
        super().__init__(f"{rule}: {text}")
        self.rule, self.text, self.fault = rule, text, fault

    def __reduce__(self):
        return type(self), (self.rule, self.text, self.fault)


def tensor_of(x: Any, what: str, optional: bool = False) -> Any:
    """x, which is a tensor, or also None where that is an answer of its own."""
    if isinstance(x, torch.Tensor) or optional and x is None:
        return x
    raise TypeError(f"{what} takes a tensor of torch, not {type(x).__module__}.{type(x).__qualname__}")
