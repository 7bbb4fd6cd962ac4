#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# An example that trains a network of a public package: the same losses on 1 and 2 ranks, decreasing. Needs PYTHON, MPIEXEC.
#   check_public_networks.sh EXAMPLE MODULE...
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../support/skips.sh"
example=$here/../../apps/examples/python/$1.py
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { printf '%s\n' "$@" >&2; exit 1; }

for module; do
    "$PYTHON" -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$module') is None)" ||
        skip "the package of a public network is not installed: $module"
done
for ranks in 1 2; do
    $MPIEXEC $ranks "$PYTHON" -W ignore "$example" >"$folder/$ranks.txt" 2>"$folder/error.txt" || fail "$ranks ranks:" "$(tail -n 20 "$folder/error.txt")"
    cat "$folder/$ranks.txt"
done
losses() { sed -n 's/^step .* loss //p' "$folder/$1.txt" | cut -c1-6; }
[ "$(losses 1)" = "$(losses 2)" ] || fail "the losses of 1 and 2 ranks differ"
"$PYTHON" -c 'import sys; a = [float(x) for x in sys.argv[1:]]; sys.exit(not (len(a) > 1 and a[-1] < a[0]))' $(losses 1) ||
    fail "the loss does not decrease"
