#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# scripts/check_devices says "compiled" of what it compiled, and fails otherwise: check_devices.sh SCRIPTS. The compilers, CMake and
# Ninja are pretended.
set -uo pipefail
shopt -s nullglob

scripts=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
bin=$folder/bin

fail() {
    printf 'FAILED: %s\n' "$1"
    cat "$folder/out"
    exit 1
}

# check STATUS ARGUMENT...: what it prints in $folder/out, the objects that Ninja was asked for in $folder/asked
check() {
    local status=$1 code
    shift
    : >"$folder/asked"
    PATH=$bin FOLDER=$folder "$folder/project/scripts/check_devices" "$@" >"$folder/out" 2>&1
    code=$?
    [ $code -eq "$status" ] || fail "exit $code, expected $status: check_devices $*"
}

has() { grep -qxF -- "$1" "$folder/out" || fail "no line '$1'"; }
has_not() { ! grep -qxF -- "$1" "$folder/out" || fail "prints '$1'"; }
asked() { [ "$(sort "$folder/asked" | paste -sd' ')" = "$*" ] || fail "compiled $(cat "$folder/asked")"; }

program() {
    cat >"$bin/$1"
    chmod +x "$bin/$1"
}

unset Torch_DIR CXX GRATICULE_DEVICE_TARGETS
export GRATICULE_DEVICE_ARCHITECTURES=sm_90
mkdir -p "$folder/project/scripts" "$bin"
cp "$scripts/check_devices" "$scripts/common.sh" "$folder/project/scripts"
# The tools of the system, without its compilers for GPUs.
ln -s /sbin/ldconfig /bin/* /usr/bin/* "$bin" 2>/dev/null
rm -f "$bin"/{nvcc,hipcc,cmake,ninja,cc}
program cc <<<$'#!/bin/sh\ncat >/dev/null'
program cmake <<<$'#!/bin/sh\n[ ! -e "$FOLDER/no_cmake" ] || exit 1\nexit 0'
program ninja <<'NINJA'
#!/bin/bash
if [[ $* == *"-t targets"* ]]; then cat "$FOLDER/targets"; exit; fi
shift 6
[ $# -gt 0 ] || { echo all >>"$FOLDER/asked"; exit 0; }
printf '%s\n' "$@" >>"$FOLDER/asked"
[[ $* != *broken* ]] || { echo "broken.cpp: error: x"; exit 1; }
NINJA
cat >"$folder/targets" <<'TARGETS'
halo/CMakeFiles/graticule_halo.dir/src/plan.cpp.o: CXX_COMPILER__graticule_halo_Release
halo/CMakeFiles/graticule_halo_verify_interface_header_sets.dir/graticule/halo/plan.hpp.cxx.o: CXX_COMPILER__x
halo/bindings/CMakeFiles/graticule_c.dir/src/halos.cpp.o: CXX_COMPILER__graticule_c_Release
halo/bindings/fortran/CMakeFiles/graticule_fortran.dir/graticule.F90.o: Fortran_COMPILER__x
nn_bridge/program/CMakeFiles/graticule_program.dir/src/module/program.cpp.o: CXX_COMPILER__graticule_program_Release
nn_bridge/CMakeFiles/graticule_torch_pch.dir/__/scripts/cmake/torch_pch.cpp.o: CXX_COMPILER__graticule_torch_pch_Release
repartition/field_io/CMakeFiles/graticule-read-structure.dir/src/main.cpp.o: CXX_COMPILER__graticule-read-structure_Release
apps/support/CMakeFiles/graticule_app_support.dir/src/driver.cpp.o: CXX_COMPILER__graticule_app_support_Release
halo/libgraticule_halo.a: CXX_STATIC_LIBRARY_LINKER__graticule_halo_Release
all: phony
TARGETS
sources=$folder/kokkos
mkdir -p "$sources/core/src" "$sources/bin"
touch "$sources/core/src/Kokkos_Core.hpp"
printf 'set(Kokkos_VERSION_%s %s)\n' MAJOR 4 MINOR 7 PATCH 1 >"$sources/CMakeLists.txt"
echo 'default_arch="sm_70"' >"$sources/bin/nvcc_wrapper"
chmod +x "$sources/bin/nvcc_wrapper"
name=sm_90-kokkos-4.7.1

check 2
grep -q 'GRATICULE_DEVICE_TARGETS' "$folder/out" || fail "no help"
check 0 --help
check 2 --unknown

check 1 "$sources"
has "compiled: nothing"
has "not checked: $name: no nvcc"

check 1 "$folder/nowhere"
has "not checked: $folder/nowhere: no such folder"
check 1 "$folder/project"
has "not checked: $folder/project: holds neither sources of Kokkos nor a built one"

program nvcc <<<$'#!/bin/sh\necho release 12.4'
check 0 "$sources"
asked apps/support/CMakeFiles/graticule_app_support.dir/src/driver.cpp.o halo/CMakeFiles/graticule_halo.dir/src/plan.cpp.o \
    halo/bindings/CMakeFiles/graticule_c.dir/src/halos.cpp.o \
    nn_bridge/program/CMakeFiles/graticule_program.dir/src/module/program.cpp.o \
    repartition/field_io/CMakeFiles/graticule-read-structure.dir/src/main.cpp.o
for target in graticule_halo graticule_c graticule_program drivers; do has "compiled: $name: $target"; done
has "not checked: $name: layers, training, programs, models, their bindings and drivers (Torch_DIR names no LibTorch)"

# A name that is none would be `all` for Ninja.
export GRATICULE_DEVICE_TARGETS="graticule_hal halo/CMakeFiles/graticule_halo.dir/src/plan graticule_halo"
check 1 "$sources"
asked halo/CMakeFiles/graticule_halo.dir/src/plan.cpp.o
has "compiled: $name: graticule_halo"
has "not checked: $name: no such target: graticule_hal"
has "not checked: $name: no such target: halo/CMakeFiles/graticule_halo.dir/src/plan"
has_not "compiled: $name: graticule_hal"
GRATICULE_DEVICE_TARGETS=halo/CMakeFiles/graticule_halo.dir/src/plan.cpp.o check 0 "$sources"
GRATICULE_DEVICE_TARGETS=" " check 1 "$sources"
has "compiled: nothing"

echo "halo/CMakeFiles/graticule_broken.dir/src/broken.cpp.o: CXX_COMPILER__x" >>"$folder/targets"
GRATICULE_DEVICE_TARGETS="graticule_broken graticule_halo" check 1 "$sources"
grep -q "not checked: $name: graticule_broken does not compile" "$folder/out" || fail "compiles what does not"
has "compiled: $name: graticule_halo"
GRATICULE_DEVICE_ARCHITECTURES=sm_20 check 1 "$sources"
has "unknown architecture sm_20: sm_80, sm_90 or gfx90a"
[ "$(wc -l <"$folder/out")" -eq 1 ] || fail "goes on with an unknown architecture"
touch "$folder/no_cmake"
check 1 "$sources"
has "compiled: nothing"
rm "$folder/no_cmake"

# A built Kokkos, whose lib is a link. All of them hold nvcc_wrapper.
built=$folder/built
mkdir -p "$folder/lib/cmake/Kokkos" "$built/bin"
ln -s "$folder/lib" "$built/lib"
ln -s "$built" "$folder/lib/circle"
touch "$folder/lib/cmake/Kokkos/KokkosConfig.cmake"
common=$folder/lib/cmake/Kokkos/KokkosConfigCommon.cmake
cp "$sources/bin/nvcc_wrapper" "$built/bin"
export GRATICULE_DEVICE_TARGETS=graticule_halo
echo 'SET(Kokkos_DEVICES OPENMP;SERIAL)' >"$common"
check 1 "$built"
has "not checked: $built: Kokkos is built for OPENMP;SERIAL, neither for CUDA nor for HIP"
has "compiled: nothing"
echo 'set(Kokkos_DEVICES HIP;SERIAL)' >"$common"
check 1 "$built"
has "not checked: $built: no hipcc"
echo 'set(Kokkos_DEVICES CUDA;SERIAL)' >"$common"
check 0 "$built"
has "compiled: built: graticule_halo"
# One that is not installed lies apart from its compiler.
rm "$built/bin/nvcc_wrapper"
printf 'set(Kokkos_CXX_COMPILER "%s")\n' "$folder/none/nvcc_wrapper" >>"$common"
check 1 "$built"
has "not checked: $built: no $folder/none/nvcc_wrapper"
sed -i "s,$folder/none,$sources/bin," "$common"
check 0 "$built"
has "compiled: built: graticule_halo"
