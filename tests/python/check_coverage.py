#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""check_coverage.py PROJECT PACKAGE: the tests name every public class, function and method of the package, and every layer."""
import ast
import re
import sys
from pathlib import Path

project = Path(sys.argv[1])
package = Path(sys.argv[2])  # the built one
tests = '\n'.join(path.read_text() for path in (project / 'tests/python').glob('test_*.py'))
words = set(re.findall(r'\w+', tests))
public = set(re.findall(r'"(\w+)"', (package / '__init__.py').read_text().split('__all__', 1)[1]))
public |= set(re.findall(r'(\w+)[,)]', (package / 'nn.py').read_text().split('from ._losses', 1)[1].split('from ._shard', 1)[0]))
# Made by patterns in the tests, which name what varies.
layers = {f'{kind}{d}d' for kind in re.findall(r'"(\w+)\{d\}d"', tests) for d in (1, 2, 3)}
failed = 0
for path in sorted(package.glob('*.py')):
    for node in ast.parse(path.read_text()).body:
        if not isinstance(node, (ast.ClassDef, ast.FunctionDef)) or node.name.startswith('_'):
            continue
        if path.name.startswith('_') and node.name not in public or node.name == 'RawField':
            continue
        members = [] if isinstance(node, ast.FunctionDef) else [m.name for m in node.body if isinstance(m, ast.FunctionDef)]
        for name in [node.name, *[m for m in members if not m.startswith('_') and m not in ('forward', 'extra_repr')]]:
            if name not in words and name not in layers:
                print(f'{path.name}: no test names {node.name}.{name}' if name != node.name else f'{path.name}: no test names {name}')
                failed += 1
sys.exit(failed > 0)
