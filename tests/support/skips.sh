# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Sourced by tests in shell: how a case is skipped.

# skip REASON...: one line in the file that GRATICULE_TEST_SKIPS names, which scripts/test counts.
skip() {
    printf 'skipped: %s\n' "$*"
    if [ -n "${GRATICULE_TEST_SKIPS:-}" ]; then
        printf '%s\t%s\t%s\n' "${GRATICULE_TEST_NAME:-a script by hand}" "the whole test" "$*" >>"$GRATICULE_TEST_SKIPS"
    fi
    exit 77
}
