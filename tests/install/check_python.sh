#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_python.sh BUILD SOURCE CMAKE PYTHON LAUNCHER...: what pip packs, at another place, and a program with it. The package is
# the one of the build folder: its compiled parts by CMake's component python, as scikit-build-core installs them.
set -euo pipefail
build=$1
source=$2
cmake=$3
python=$4
shift 4
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$cmake" --install "$build" --component python --prefix "$folder" >"$folder/log" || { cat "$folder/log"; exit 1; }
cp "$source"/nn_bridge/python/graticule/*.py "$source/nn_bridge/python/graticule/_of_torch.pyi" "$source/nn_bridge/python/graticule/py.typed" "$folder/graticule"
cd "$folder"
PYTHONPATH=$folder PYTHONDONTWRITEBYTECODE=1 "$@" 2 "$python" "$source/tests/install/consumer_python/consumer.py" "$folder/graticule" >out 2>&1 ||
    { cat out; exit 1; }
grep 'python: 2 ranks agree' out || { cat out; exit 1; }
