#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What conda build runs.
set -euo pipefail
# shellcheck disable=SC2086 # CMAKE_ARGS are words
cmake -G Ninja -S . -B conda-build $CMAKE_ARGS -DCMAKE_BUILD_TYPE=Release -DGRATICULE_ENABLE_TORCH=ON -DGRATICULE_BUILD_APPS=ON \
    -DGRATICULE_ENABLE_FORTRAN=ON -DGRATICULE_BUILD_TESTS=OFF -DGRATICULE_BUILD_PYTHON=OFF -DMPI_C_COMPILER="$PREFIX/bin/mpicc" \
    -DMPI_Fortran_COMPILER="$PREFIX/bin/mpifort"
cmake --build conda-build --parallel "$CPU_COUNT"
cmake --install conda-build
