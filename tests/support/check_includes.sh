#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_includes.sh PROJECT: no library includes another's private headers, and programs include no header of a detail folder.
set -euo pipefail
cd "${1:?the project}"
failed=0
complain() {
    if [ -n "$2" ]; then
        printf '%s:\n%s\n' "$1" "$2"
        failed=1
    fi
}
sources() { git ls-files -- "$@" 2>/dev/null | grep -E '\.(cpp|hpp)$' || find "$@" -name '*.cpp' -o -name '*.hpp'; }

# A header in quotes lies beside its source or in the src folder of its library; ../ leads out of it.
complain "Includes that lead out of their folder" \
    "$(sources partition repartition halo nn_bridge apps tests | xargs grep -nE '#include "[^"]*\.\./' || true)"
complain "A driver includes a header of a library's own" \
    "$(sources apps | xargs grep -nE '#include <graticule/[^>]*/detail/' || true)"
complain "A library's folders of headers in another library" \
    "$(grep -nE 'target_include_directories\(.*\.\./.*src' partition/CMakeLists.txt partition/messages/CMakeLists.txt repartition/CMakeLists.txt \
        repartition/field_io/CMakeLists.txt halo/CMakeLists.txt nn_bridge/CMakeLists.txt nn_bridge/training/CMakeLists.txt || true)"
exit $failed
