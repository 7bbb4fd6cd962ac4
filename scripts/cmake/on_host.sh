#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Launcher of CMake for sources without kernels, where the compiler is Kokkos' nvcc_wrapper: the compiler for the host instead
# (NVCC_WRAPPER_DEFAULT_COMPILER, or g++), without the options that are for nvcc alone. A third of the time.
skipped=no
for argument; do
    shift
    if [ $skipped = yes ]; then skipped=no; continue; fi
    case $argument in
        -Xcudafe) skipped=yes ;;
        */nvcc_wrapper) set -- "$@" "${NVCC_WRAPPER_DEFAULT_COMPILER:-g++}" ;;
        -arch=* | -extended-lambda | --extended-lambda | -expt-* | --expt-* | -Wext-lambda-captures-this | -lineinfo) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec "$@"
