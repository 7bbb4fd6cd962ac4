#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_agents.sh PAGE FOLDER: the training script of AGENTS.md runs as it stands. One domain of 2 ranks has the losses of one
# rank, two domains of one rank train as well, and what one rank has saved loads in serial PyTorch.
# Environment: MPIEXEC, PYTHON, MAKE_FIELDS (graticule-make-fields).
set -euo pipefail
page=$1 folder=$2
read -r -a mpiexec <<<"$MPIEXEC"
rm -rf "$folder"
mkdir -p "$folder"
sed -n '/^```python$/,/^```$/p' "$page" | sed '1d;$d' >"$folder/train.py"
cd "$folder"
"${mpiexec[@]}" 1 "$MAKE_FIELDS" fields.nc --nlat 19 --nlon 24 --samples 3 --progress none
"${mpiexec[@]}" 1 "$PYTHON" train.py fields.nc 1 >one
rm -r checkpoints
"${mpiexec[@]}" 2 "$PYTHON" train.py fields.nc 2 >two
"${mpiexec[@]}" 2 "$PYTHON" train.py fields.nc 1 >teams
ls checkpoints
"$PYTHON" - <<'PYTHON'
losses = {name: [float(line.split()[-1]) for line in open(name)] for name in ("one", "two", "teams")}
assert all(len(of) == 10 for of in losses.values()), losses
assert losses["one"][-1] < losses["one"][0], losses
for one, two in zip(losses["one"], losses["two"]):
    assert abs(one - two) <= 1e-4 * one, losses
assert losses["teams"][-1] < losses["teams"][0], losses
PYTHON
