#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A command that must fail, and within a time: fails_in_time.sh SECONDS COMMAND...
set -uo pipefail

seconds=$1
begin=$SECONDS
shift
for word in "$@"; do
    case $word in
        /*) [ -e "$word" ] || { printf 'FAILED: there is no %s\n' "$word"; exit 1; } ;;
    esac
done
timeout --kill-after=10 "$seconds" "$@"
code=$?
if [ $((SECONDS - begin)) -ge "$seconds" ]; then
    printf 'FAILED: does not end within %s s: %s\n' "$seconds" "$*"
    exit 1
fi
if [ $code -eq 0 ]; then
    printf 'FAILED: exit 0: %s\n' "$*"
    exit 1
fi
printf 'exit %s after %s s\n' $code $((SECONDS - begin))
