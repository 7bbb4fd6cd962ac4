#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""check_coverage.py PROJECT: the tests call every function of the headers from C, and every procedure from Fortran."""
import re
import sys
from pathlib import Path

project = Path(sys.argv[1])
headers = ('halo/bindings/include/graticule/graticule.h', 'nn_bridge/bindings/include/graticule/graticule_nn.h')
functions = [name for header in headers
             for name in re.findall(r'^GR_API (?:gr_status|char const\*)\s+(gr_\w+)\(', (project / header).read_text(), re.M)]
only_c = {'gr_field_dense'}
tests = project / 'tests/bindings'
failed = not functions
for suffix in ('c', 'f90'):
    text = '\n'.join(path.read_text() for path in tests.glob(f'*.{suffix}')) + (tests / 'check.h').read_text() * (suffix == 'c')
    for name in functions:
        shown = name.removesuffix('_f') if suffix == 'f90' else name
        if name in only_c and suffix == 'f90' or re.search(rf'\b{shown}\(', text) or re.search(rf'\b{shown}$', text, re.M):
            continue
        print(f'no test in {suffix} calls {name}')
        failed = True
sys.exit(failed)
