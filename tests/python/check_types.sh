#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_types.sh PROJECT: the stubs of torch.nn's layers are those of the installed torch; mypy accepts what callers write and refuses
# what is wrong. Needs PYTHON and PACKAGE, the folder of the built package.
set -euo pipefail
project=$1
. "$project/tests/support/skips.sh"
made=$(sed -n 's/^# Made by scripts.bindings --stubs from torch \(.*\)\.$/\1/p' "$project/nn_bridge/python/graticule/_of_torch.pyi")
here=$("$PYTHON" -c 'import torch; print(".".join(torch.__version__.split(".")[:2]))')
if [ "$made" = "$here" ]; then
    PYTHONPATH=$PACKAGE "$PYTHON" "$project/scripts/bindings" --stubs --check
else
    printf 'The stubs were made with torch %s, here is %s: not compared.\n' "$made" "$here"
fi
"$PYTHON" -c 'import mypy' 2>/dev/null || skip "mypy is not installed in the Python of the package"
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT
MYPYPATH=$PACKAGE "$PYTHON" -m mypy --strict --follow-imports=silent --cache-dir="$cache" "$project/tests/python/typed_caller.py"
