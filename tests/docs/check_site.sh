#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# check_site.sh FOLDER: the documentation site builds without a dead link, has the references of all languages in its search,
# and scripts/docs fails where a link or an anchor is dead.
set -euo pipefail
project=$(cd "$(dirname "$0")/../.." && pwd)
folder=$1
rm -rf "$folder"
mkdir -p "$folder/copy"

"$project/scripts/docs" "$folder/site"
for page in index docs/tutorial docs/reference/c docs/reference/python cpp/halo/plan apps/graticule-train/README; do
    [ -s "$folder/site/$page.html" ] || { printf 'no page %s\n' "$page"; exit 1; }
done
# One function of each language, and a class of C++, is a word of the search.
for word in gr_halo_exchange_adjoint shard_program fieldfile haloplan; do
    grep -qi "\"$word\"\|[,{]$word:" "$folder/site/searchindex.js" || { printf '%s cannot be searched for\n' "$word"; exit 1; }
done

# A copy of a few pages with one mistake each.
cp -r "$project/scripts" "$folder/copy"
mkdir -p "$folder/copy/docs" "$folder/copy/partition" "$folder/copy/repartition" "$folder/copy/halo" "$folder/copy/nn_bridge" "$folder/copy/.deps"
cp -r "$project/docs/site" "$folder/copy/docs"
ln -s "$(cd "$project/.deps/site" && pwd -P)" "$folder/copy/.deps/site"
mkdir -p "$folder/copy/docs/reference" "$folder/copy/halo/include/graticule/halo"
printf '# Names\n' >"$folder/copy/docs/reference/cpp.md"
printf 'namespace graticule {\n/// A plan.\nclass Plan {};\n}  // namespace graticule\n' >"$folder/copy/halo/include/graticule/halo/plan.hpp"
printf '# Contents\n\n## Pages\n- [Page](page.md)\n- [Names](reference/cpp.md)\n' >"$folder/copy/docs/README.md"
printf '# Page\n\n## A section\n' >"$folder/copy/docs/page.md"
expect() { # expect STATUS TEXT LINK
    printf '# Front\n\n[All](docs/README.md), [a link](%s)\n' "$3" >"$folder/copy/README.md"
    local status=0
    "$folder/copy/scripts/docs" "$folder/copy/site" >"$folder/copy/log" 2>&1 || status=$?
    [ $((status != 0)) = "$1" ] && grep -q "$2" "$folder/copy/log" || { printf 'link %s: exit code %s\n' "$3" "$status"; cat "$folder/copy/log"; exit 1; }
}
expect 0 'site/index.html' 'docs/page.md#a-section'
expect 1 'docs/gone.md' 'docs/gone.md'
expect 1 'no-section' 'docs/page.md#no-section'
