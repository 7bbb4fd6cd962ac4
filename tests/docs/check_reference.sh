#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The reference of the public headers builds without a warning and has each public namespace, and scripts/docs --headers rejects each
# kind of mistake.
#
#   check_reference.sh FOLDER
set -euo pipefail
project=$(cd "$(dirname "$0")/../.." && pwd)
. "$project/tests/support/skips.sh"
command -v doxygen >/dev/null || skip "doxygen is not installed"

folder=$1
rm -rf "$folder"
mkdir -p "$folder/wrong"

"$project/scripts/docs" --headers "$folder/html"
[ -s "$folder/html/index.html" ]
grep -q HaloPlan "$folder/html/annotated.html"

# A namespace that public headers declare has a page with members, and a row on the first page.
namespaces=$(cd "$project" && find partition repartition halo nn_bridge -path '*/include/*.hpp' -not -path '*/detail/*' -exec \
    sed -n 's/^namespace graticule::\([a-z_]*\) {.*/\1/p' {} + | sort -u)
for name in messages nn training program models $namespaces; do
    page=namespacegraticule_1_1${name//_/__}.html
    for file in namespaces index; do
        grep -q "href=\"$page\"" "$folder/html/$file.html" || {
            printf 'graticule::%s is missing in %s.html\n' "$name" "$file"
            exit 1
        }
    done
    grep -q memItemLeft "$folder/html/$page" || {
        printf 'graticule::%s has no members in the reference: is its include folder in docs/Doxyfile?\n' "$name"
        exit 1
    }
done

# rejected NAME MESSAGE: the header on stdin fails, with this message.
rejected() {
    {
        printf '/// @file\n/// A namespace.\nnamespace example {\n'
        cat
        printf '}  // namespace example\n'
    } >"$folder/wrong/$1.hpp"
    if "$project/scripts/docs" --headers "$folder/wrong/html" "$folder/wrong/$1.hpp" 2>"$folder/wrong/stderr"; then
        printf '%s was accepted\n' "$1"
        exit 1
    fi
    grep -q "$1.hpp:[0-9]*: warning: $2" "$folder/wrong/stderr" || {
        printf '%s: expected "%s", got:\n' "$1" "$2"
        cat "$folder/wrong/stderr"
        exit 1
    }
}

rejected class 'Compound example::Plan is not documented' <<'END'
class Plan {
 public:
  int width = 0;
};
END
rejected function 'Member exchange.* of namespace example is not documented' <<'END'
void exchange(int width);
END
rejected enumeration 'Member Edge (enumeration) of namespace example is not documented' <<'END'
enum class Edge { pole, open };
END
rejected parameters 'The following parameter of example::exchange.* is not documented' <<'END'
/// Fills halos. @param width of the halo
void exchange(int width, int axis);
END
rejected unknown_parameter "argument 'depth' of command @param is not found" <<'END'
/// Fills halos. @param depth of the halo
void exchange(int width);
END
rejected reference "unable to resolve reference to 'Layout'" <<'END'
/// See @ref Layout.
class Plan {};
END

# Members and aliases may be undocumented.
cat >"$folder/wrong/accepted.hpp" <<'END'
/// A namespace.
namespace example {
/// A plan.
class Plan {
 public:
  int rank() const;
  int width = 0;
};
using Plan2d = Plan;
}  // namespace example
END
"$project/scripts/docs" --headers "$folder/wrong/html" "$folder/wrong/accepted.hpp"
