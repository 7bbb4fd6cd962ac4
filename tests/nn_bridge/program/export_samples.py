# SPDX-License-Identifier: BSD-3-Clause
# The networks of dynamic_net.py as scripts/export.py writes them, in one process, as PyTorch takes seconds to load:
#   export_samples.py FOLDER
import contextlib
import io
import os
import sys

import torch

sys.dont_write_bytecode = True
tests = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [tests, os.path.join(tests, "../../../scripts")]
import dynamic_net  # noqa: E402
import export  # noqa: E402


def run(folder, network, *options):
    """The command line of scripts/export.py, with program.pt2 and the figures in a folder."""
    os.makedirs(folder, exist_ok=True)
    sys.argv = ["export.py", f"{tests}/dynamic_net.py:{network}", f"{folder}/program.pt2", "--golden", folder, *options]
    export.main()


folder = sys.argv[1]
for sizes in ("2x3x16x24", "2x3x25x50", "2x3x32x72"):
    run(f"{folder}/{sizes}", "make", "--dynamic", "2,3", "--input", sizes)
run(f"{folder}/mixed", "make_mixed", "--input", "2x3x8x6", "--input", ":int64", "--input", "8x6:bool", "--input", "4:complex64")
try:
    run(f"{folder}/dropping", "make_dropping", "--input", "1x3x4x6")
except SystemExit as end:
    with open(f"{folder}/dropping/refusal", "w") as file:
        file.write(str(end))
# Mistakes are one line each, and nothing is written.
os.makedirs(f"{folder}/mistakes")
for name, path, options in (("axis", "x.pt2", ("--input", "1x3x4x6", "--dynamic", "3,4")), ("word", "x.pt2", ("--input", "1x3x4x6", "--dynamic", "rows")),
                            ("channels", "x.pt2", ("--input", "1x2x4x6")), ("folder", "no/x.pt2", ("--input", "1x3x4x6"))):
    sys.argv = ["export.py", f"{tests}/dynamic_net.py:make", f"{folder}/mistakes/{path}", *options]
    try:
        export.main()
    except SystemExit as end:
        with open(f"{folder}/mistakes/{name}", "w") as file:
            file.write(str(end))
# An axis that the network fixes is named, and the nodes are those of the file.
text = io.StringIO()
with contextlib.redirect_stdout(text):
    run(f"{folder}/fixed", "make_fixed", "--dynamic", "2,3", "--input", "2x3x16x24")
with open(f"{folder}/fixed/text", "w") as file:
    file.write(text.getvalue())
run(f"{folder}/dropping_no_more", "make_dropping", "--input", "1x3x4x6", "--eval")
# The training dialect, and figures of the same network.
run(f"{folder}/dialect", "make", "--input", "2x3x16x24")
torch.export.save(torch.export.export(dynamic_net.make().train(), (torch.zeros(2, 3, 16, 24),)), f"{folder}/dialect/training.pt2")
