#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The installed module file leads to drivers, CMake package and pkg-config files; the Spack recipe knows the options of the
# configure step: check_packaging.sh PREFIX SOURCE CACHE
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../support/skips.sh"

prefix=$1
source=$2
cache=$3

fail() {
    printf 'FAILED: %s\n' "$*"
    exit 1
}

recipe=$source/scripts/packaging/spack/packages/graticule/package.py
python3 -c "import ast, sys; ast.parse(open(sys.argv[1]).read())" "$recipe" || fail "the recipe is not Python"
options=$(grep -oE '"(GRATICULE_[A-Z_]+|BUILD_SHARED_LIBS|MPI_[A-Za-z_]+)"' "$recipe" | tr -d '"' | sort -u)
[ "$(wc -l <<<"$options")" -ge 6 ] || fail "options of the recipe: $options"
for option in $options; do
    grep -q "^$option:" "$cache" || fail "the recipe sets $option, which the configure step does not have"
done

command -v tclsh >/dev/null || skip "tclsh is not installed"
modulefile=("$prefix"/share/graticule/modulefiles/graticule/*)
[ -f "${modulefile[0]}" ] || fail "no module file"
! grep -E '@[A-Z]+@' "${modulefile[0]}" || fail "a placeholder is left"
out=$(tclsh /dev/stdin "${modulefile[0]}" <<'TCL'
proc module-whatis {text} {}
proc conflict {name} {}
proc setenv {name value} { puts "$name $value" }
proc prepend-path {name value} { puts "$name $value" }
source [lindex $argv 0]
TCL
) || fail "the module file"
path() { sed -n "s/^$1 //p" <<<"$out"; }
[ "$(path GRATICULE_ROOT)" = "$prefix" ] || fail "GRATICULE_ROOT: $out"
[ -x "$(path PATH)/graticule-read-structure" ] || fail "PATH: $out"
[ -n "$(find "$(path CMAKE_PREFIX_PATH)" -name GraticuleConfig.cmake)" ] || fail "CMAKE_PREFIX_PATH: $out"
[ -f "$(path PKG_CONFIG_PATH)/graticule_c.pc" ] || fail "PKG_CONFIG_PATH: $out"
compgen -G "$(path LD_LIBRARY_PATH)/libgraticule_c.so*" >/dev/null || fail "LD_LIBRARY_PATH: $out"
for page in "$prefix"/share/man/man1/graticule-*.1; do
    [ -e "$page" ] || continue # built without drivers
    [ -f "$(path MANPATH)/man1/${page##*/}" ] || fail "MANPATH: $out"
done
printf 'passed\n'
