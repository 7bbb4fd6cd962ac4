#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The example trains on real fields: the same losses on 1 and 2 ranks, decreasing, with a picture and a checkpoint; its options
# and files are checked. Needs PYTHON, MPIEXEC, DATA.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../support/skips.sh"
example=$here/../../apps/examples/python/train.py
file=$DATA/gems_tcco2_6h.nc
[ -e "$file" ] || skip "$file is not in GRATICULE_TEST_DATA"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { printf '%s\n' "$@" >&2; exit 1; }

for ranks in 1 2; do
    $MPIEXEC $ranks "$PYTHON" "$example" "$file" --variable tcco2 --steps 12 --width 4 --picture "$folder/$ranks.png" \
        --checkpoints "$folder/$ranks" >"$folder/$ranks.txt"
    cat "$folder/$ranks.txt"
    [ -n "$(ls "$folder/$ranks")" ] || fail "no checkpoint on $ranks ranks"
    if "$PYTHON" -c 'import matplotlib' 2>/dev/null; then
        [ "$(head -c 4 "$folder/$ranks.png" | tail -c 3)" = PNG ] || fail "no picture on $ranks ranks"
    fi
done
losses() { sed -n 's/^step .* loss //p' "$folder/$1.txt" | cut -c1-6; }
[ "$(losses 1)" = "$(losses 2)" ] || fail "the losses of 1 and 2 ranks differ"
"$PYTHON" -c 'import sys; a = [float(x) for x in sys.argv[1:]]; sys.exit(not (len(a) > 1 and a[-1] < a[0]))' $(losses 1) ||
    fail "the loss does not decrease"
if $MPIEXEC 2 "$PYTHON" "$example" "$file" --variable none >"$folder/error.txt" 2>&1; then fail "an unknown variable was accepted"; fi
grep -q 'none' "$folder/error.txt" || fail "the error does not name the variable" "$(cat "$folder/error.txt")"
