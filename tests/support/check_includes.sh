#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_includes.sh PROJECT: no library includes another's private headers, and programs include no header of a detail folder but those made for drivers.
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
# Drivers are made of the parts of graticule::samples, models and program; other programs use their public headers. Of the engine they have tables of
# enumerations, which know the names of options, and what a program needs at its start, for its files, its reports and its own MPI calls.
parts='samples/detail/|(models|program)/detail/'
engine='enum_table|edges|dtypes|wires|agreement|check_mpi|hash|numbering|copy_cells|row_major|index_map|pull|transport_name|value_types|writes_store|named_tensors|printable|text_file|copy_kernels|devices|plan_text|complete_file|conventions|dates|folder_lock|library|scratch_file|seen_by_all|utf8'
complain "A driver includes a header of a library's own" \
    "$(sources apps | xargs grep -nE '#include <graticule/[^>]*/detail/' | grep -vE "^apps/(forecasting|graticule-[a-z-]*)/.*<graticule/($parts)" |
        grep -vE "/detail/($engine)\.hpp>" || true)"
# In a CMakeLists, the src folder of another library: a path to a folder src that does not begin here. The second C
# library is exempt: it compiles three sources of the first, with their headers (docs/decisions/0025).
lists() { git ls-files -- '*CMakeLists.txt' 2>/dev/null | grep . || find . -name CMakeLists.txt -not -path './build*' -not -path './.deps/*' | sed 's,^\./,,'; }
complain "A library's folders of headers in another library" \
    "$(lists | grep -vE '(^|/)tests/' | xargs grep -nE '(\.\./|_SOURCE_DIR\}/).*/src("|$|[ )])' |
        grep -v '^nn_bridge/bindings/CMakeLists.txt:.*/halo/bindings/src' || true)"
complain "A driver includes another driver's header" \
    "$(sources apps | xargs grep -nE '#include "graticule-[a-z-]*/' || true)"
# Whose sources lie in a driver's folder, other drivers do not link.
own_targets() { grep -hoE '(add_library|graticule_add_driver)\((graticule[a-z_-]*)' "$1"/CMakeLists.txt | sed 's/.*(//'; }
for driver in apps/graticule-*/; do
    for target in $(own_targets "$driver"); do
        complain "$target of $driver in another driver" \
            "$(lists | grep '^apps/graticule-' | grep -v "^$driver" | xargs grep -nE "[( ]$target([) ]|\$)" || true)"
    done
done
complain "A driver's folders of headers in another" \
    "$(lists | grep '^apps/' | xargs grep -nE 'target_include_directories\(.*(\.\./|apps/)graticule-' || true)"
exit $failed
