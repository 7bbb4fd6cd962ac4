# SPDX-License-Identifier: BSD-3-Clause
"""english.py FILE...: counts three constructions in pages that make sentences hard to read, for scripts/format --check.

Prints the places of a construction that is more frequent than its limit (per 1,000 words of all pages together), and then
ends with exit status 1. Code, headings and links' targets do not count. --all: prints all places, whatever the counts.
"""
import re
import sys

CONSTRUCTIONS = {  # pattern, most per 1,000 words, what to write instead
    r"\b(?:that|those) of\b": (0.3, "repeat the noun, or name the thing: 'the device of its queue', 'the serial loss'"),
    r"\bwhat\b": (0.8, "name the thing: 'the cells that are sent', 'results', 'the cause'"),
    r", (?:which|who)\b": (2.7, "begin a new sentence, or use 'that'"),
}


def words_only(text):
    """The text line by line, with code, headings, targets of links and comments blanked."""
    fenced = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
            yield ""
        elif fenced or line.startswith("#"):
            yield ""
        else:
            yield re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "X", line))


def main():
    pages = {path: list(words_only(open(path, encoding="utf-8").read())) for path in sys.argv[1:] if path != "--all"}
    num_words = sum(len(re.findall(r"[A-Za-z][\w'-]*", line)) for lines in pages.values() for line in lines)
    failed = False
    for pattern, (limit, instead) in CONSTRUCTIONS.items():
        places = [f"{path}:{number}: ...{line[max(0, match.start() - 40):match.end() + 40]}..." for path, lines in pages.items()
                  for number, line in enumerate(lines, 1) for match in re.finditer(pattern, line, re.IGNORECASE)]
        frequency = 1000 * len(places) / max(num_words, 1)
        if frequency > limit or "--all" in sys.argv:
            print(f"{pattern}: {frequency:.2f} per 1,000 words of pages, at most {limit}; {instead}", *places, sep="\n")
        failed = failed or frequency > limit
    return int(failed)


sys.exit(main())
