#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Each accident of the last rank in one operation ends with a name, on all ranks and in time:
# accidents.sh RANKS OPERATION PROGRAM LAUNCHER... (the accidents in $ACCIDENTS, the step in $STEP where they are not the usual ones)
set -uo pipefail

ranks=$1 operation=$2 program=$3
launcher=$4
shift 4
launch=("$@")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
    printf 'FAILED: %s of %s on %s ranks: %s\n' "$accident" "$operation" "$ranks" "$*"
    sed 's/^/    /' "$out"
    : >"$folder/failed"
}

# others_end_with PATTERN: every rank but the last prints an error that matches
others_end_with() {
    local rank
    [ $code -ne 0 ] || fail "exit 0"
    for ((rank = 0; rank < ranks - 1; ++rank)); do
        grep -qE "^rank $rank: ($1)" "$out" || fail "rank $rank does not end with $1"
    done
}

# check ACCIDENT: runs it and judges how the ranks end
check() {
    local accident=$1 limit=2 layer out=$folder/$1 begin=$SECONDS code
    # Programs that are killed leave their files, and launches of Open MPI that share a folder make and remove one there.
    local -x TMPDIR=$folder/tmp.$1
    mkdir "$TMPDIR"
    # One that is late is waited for.
    case $accident in none | late) limit=0 ;; esac
    GRATICULE_STALL_SECONDS=1 GRATICULE_STALL_LIMIT=$limit timeout --kill-after=10 40 \
        "$launcher" "${launch[@]}" "$program" "$operation" "$accident" ${STEP:-} </dev/null >"$out" 2>&1
    code=$?
    [ $((SECONDS - begin)) -lt 30 ] || fail "takes $((SECONDS - begin)) s"
    case $accident in
        none) [ $code -eq 0 ] && grep -q '^complete' "$out" || fail "exit $code" ;;
        late)
            # Gradients that are compared: whoever is later than the stall time is an error.
            if [ "$operation" = gradients ] && [ -n "${GRATICULE_CHECK:-}" ]; then
                others_end_with 'StalledExchange: rank .* waits'
                return
            fi
            [ $code -eq 0 ] && grep -q '^complete' "$out" || fail "exit $code"
            case $operation in
                layer_forward | norm) layer='; the layer called last is layer [0-9]+ \(' ;;
                layer_backward) layer=', in the backward of layer [0-9]+ \(' ;;
                *) layer= ;;
            esac
            grep -qE "^graticule: rank 0 waits .* for [1-9] s.*$layer" "$out" || fail "the wait is not reported${layer:+ with the layer}"
            ;;
        throws)
            others_end_with 'PeerFailed: .*Accident: of rank'
            grep -q "^rank $((ranks - 1)): Accident" "$out" || fail "the accident is not shown"
            ;;
        absent) others_end_with 'StalledExchange: .*rank .* waits|PeerFailed: .*(Stalled|has ended)' ;;
        other) others_end_with 'Call(Order)?Disagreement|StructureDisagreement|StalledExchange|FieldMismatch|PeerFailed|PeerRefused' ;;
        # Where the end of a file is waited for, both sides wait.
        returns) others_end_with 'PeerFailed: .*it has ended while others wait|StalledExchange: rank .* waits' ;;
        # By std::exit, which unwinds nothing.
        leaves)
            [ $code -ne 0 ] || fail "exit 0"
            grep -qE "because rank $((ranks - 1)) has called exit|StalledExchange: rank 0 waits .*for rank $((ranks - 1)) " "$out" ||
                fail "the rank is not named"
            ;;
        killed | exits) [ $code -ne 0 ] || fail "exit 0" ;;
    esac
}

# They mostly wait: three at a time.
for accident in ${ACCIDENTS:-none throws absent late other killed exits leaves returns}; do
    while [ "$(jobs -rp | wc -l)" -ge 3 ]; do wait -n; done
    check "$accident" &
done
wait
[ ! -e "$folder/failed" ] || exit 1
printf 'every accident of %s on %s ranks ends with a name\n' "$operation" "$ranks"
