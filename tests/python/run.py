# SPDX-License-Identifier: BSD-3-Clause
"""run.py TEST.py ...: the tests of several files on all ranks in one process, because torch takes seconds to import."""
import runpy
import sys

files = sys.argv[1:]
skipped = 0
for path in files:
    sys.argv = [path]
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        if end.code not in (0, 77):
            raise
        skipped += end.code == 77
sys.exit(77 if skipped == len(files) else 0)
