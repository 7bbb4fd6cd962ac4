#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Which drivers scripts/run starts, and with which options. The build and the drivers are stand-ins: check_run.sh SOURCE FOLDER
set -uo pipefail

source=$1
folder=$2
failures=0

rm -rf "$folder"
mkdir -p "$folder/project/scripts" "$folder/project/build/bin" "$folder/caller" "$folder/tools" || exit 1
project=$(cd "$folder/project" && pwd)
caller=$(cd "$folder/caller" && pwd)
cp "$source/scripts/run" "$source/scripts/common.sh" "$project/scripts/" || exit 1
printf '#!/bin/sh\n' >"$project/scripts/setup"
printf '#!/bin/sh\n' >"$folder/tools/cmake"
# Writes one line a call: the folder, then the command.
printf '#!/bin/sh\necho "$PWD: $*" >>"%s/calls"\ncase "$*" in *graticule-train*) exit "${TRAIN_CODE:-0}" ;; esac\n' "$caller" >"$folder/tools/launch"
printf 'MPIEXEC_EXECUTABLE:FILEPATH=%s/tools/launch\nMPIEXEC_NUMPROC_FLAG:STRING=-n\n' "$(cd "$folder" && pwd)" >"$project/build/CMakeCache.txt"
chmod +x "$project/scripts/setup" "$folder/tools/cmake" "$folder/tools/launch"
export PATH="$(cd "$folder/tools" && pwd):$PATH"
unset GRATICULE_LAUNCHER GRATICULE_RANKS GRATICULE_BUILD_DIR TRAIN_CODE
bin=$project/build/bin
made="-n 2 $bin/graticule-make-fields $project/out/fields.nc"

# run [OPTION...]: as a user in a folder of their own
run() {
    asked=$*
    rm -f "$caller/calls"
    code=0
    (cd "$caller" && "$project/scripts/run" "$@") >"$caller/out" 2>&1 || code=$?
    touch "$caller/calls"
}
fail() {
    failures=$((failures + 1))
    printf 'FAILED: scripts/run %s: %s\n' "$asked" "$*"
    sed 's/^/    /' "$caller/out" "$caller/calls"
}
# calls COMMAND...: these and no others, from the user's folder
calls() {
    [ "$code" = 0 ] || fail "exit code $code"
    local command expected=
    for command in "$@"; do expected+="$caller: $command"$'\n'; done
    [ "$(cat "$caller/calls")" = "${expected%$'\n'}" ] || fail "calls are not"$'\n'"$expected"
}
# refuses TEXT: before anything is started
refuses() {
    [ "$code" = 1 ] || fail "exit code $code"
    grep -qF -- "$1" "$caller/out" || fail "the message lacks '$1'"
    [ ! -s "$caller/calls" ] || fail "something was started"
}

run
calls "$made" "-n 2 $bin/graticule-train --input $project/out/fields.nc --output $project/out/train"
grep -qF "Results in $project/out/train" "$caller/out" || fail "does not say where the results are"
run --input mine.nc --inputs z --targets u,v
calls "-n 2 $bin/graticule-train --output $project/out/train --input mine.nc --inputs z --targets u,v"
run --input=mine.nc --output=here
calls "-n 2 $bin/graticule-train --input=mine.nc --output=here"
grep -qF "Results in here" "$caller/out" || fail "does not say where the results are"
run --ranks 4 --epochs 1
calls "${made/-n 2/-n 4}" "-n 4 $bin/graticule-train --input $project/out/fields.nc --output $project/out/train --epochs 1"
GRATICULE_RANKS=3 run --input mine.nc
calls "-n 3 $bin/graticule-train --output $project/out/train --input mine.nc"
GRATICULE_LAUNCHER='launch -np 5' run --input mine.nc
calls "-np 5 $bin/graticule-train --output $project/out/train --input mine.nc"

printf '# input: none\nepochs: 3\n' >"$caller/plain.yaml"
run --config plain.yaml
calls "$made" "-n 2 $bin/graticule-train --input $project/out/fields.nc --output $project/out/train --config plain.yaml"
printf 'input: mine.nc\n"output": here\n' >"$caller/named.yaml"
run --config=named.yaml
calls "-n 2 $bin/graticule-train --config=named.yaml"
printf '{epochs: 3, input: mine.nc}\n' >"$caller/flow.yaml"
run --config flow.yaml
calls "-n 2 $bin/graticule-train --output $project/out/train --config flow.yaml"

TRAIN_CODE=3 run --input mine.nc
[ "$code" = 3 ] || fail "exit code $code instead of the driver's"
! grep -qF "Results in" "$caller/out" || fail "names results of a run that failed"

run --ranks 0
refuses "--ranks takes a positive number, not '0'"
run --ranks
refuses "--ranks needs a number"
run --config nowhere.yaml
refuses "$caller/nowhere.yaml cannot be read"
GRATICULE_LAUNCHER='launch -np 5' run --ranks 2
refuses "--ranks has no effect"
run --help
[ "$code" = 0 ] && grep -qF "scripts/run --input FILE.nc" "$caller/out" || fail "no help"

[ "$failures" = 0 ] && echo "scripts/run starts what it says"
exit $((failures > 0))
