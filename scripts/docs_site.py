# SPDX-License-Identifier: BSD-3-Clause
"""docs_site.py FOLDER: lays out the sources of the documentation site for scripts/docs.

Pages keep their places and their text, and files that they link to lie beside them. Added are `index.md`, the front page with
the contents of docs/README.md as the menu, and `cpp/`, a page for each public header.
"""
import pathlib
import re
import shutil
import sys

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")


def without_code(text):
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```\s*$", "", text, flags=re.MULTILINE | re.DOTALL))


def linked(page):
    """Files of the repository that a page links to."""
    for target in LINK.findall(without_code(page.read_text())):
        if not re.match(r"[a-z]+:", target):
            path = page.parent / target
            if path.is_file():
                yield path.resolve().relative_to(pathlib.Path.cwd())


def copy(path, folder):
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, folder / path)


def stage_pages(folder):
    """The pages that the front page reaches, with whatever they link to."""
    to_do, done = [pathlib.Path("README.md")], set()
    while to_do:
        path = to_do.pop()
        if path in done:
            continue
        done.add(path)
        copy(path, folder)
        if path.suffix == ".md":
            to_do += linked(path)
    return done


def menu(page):
    """Hidden lists of contents, one per section of docs/README.md."""
    lines, seen = [], set()
    for section in re.split(r"^## ", page.read_text(), flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        entries = []
        for name, target in re.findall(r"\[([^]]+)\]\(([^)#\s]+\.md)\)", body):
            path = (page.parent / target).resolve().relative_to(pathlib.Path.cwd())
            if path not in seen and str(path) != "README.md":
                seen.add(path)
                entries.append(f"{name} <{path.with_suffix('')}>")
        lines += ["```{toctree}", ":hidden:", f":caption: {title}", "", *entries, "```", ""]
    return lines


def prose(comment):
    """A comment of a header as Markdown: each tag begins an item of a list."""
    lines = []
    for line in comment:
        line = re.sub(r"^/// ?", "", line)
        line = re.sub(r"^@(param|tparam) (\w+)", r"- `\2`:", line)
        line = re.sub(r"^@throws? ", "- Throws ", line)
        line = re.sub(r"^@pre ", "- Before: ", line)
        line = re.sub(r"^@returns? ", "- Returns ", line)
        line = re.sub(r"@(?:ref|p|c) (\w+)", r"`\1`", line).replace("@throws", "Throws").replace("@pre", "Before:")
        if line.startswith("- ") and lines and not lines[-1].startswith("- "):
            lines.append("")
        lines.append(line)
    return lines


def public_part(code):
    """Without the private sections of classes, and without blank lines at the end."""
    kept, hidden = [], False
    for line in code:
        if re.match(r"^ (private|protected|public):", line):
            hidden = not line.startswith(" public")
        if re.match(r"^};", line):
            hidden = False
        if not hidden:
            kept.append(line)
    while kept and not kept[-1].strip():
        kept.pop()
    return [line for i, line in enumerate(kept) if line.strip() or i + 1 < len(kept) and not kept[i + 1].startswith("};")]


def name_of(code):
    """What a declaration declares."""
    text = " ".join(line.split("//")[0] for line in code)
    match = re.search(r"\b(?:class|struct|enum class|enum|concept)\s+(\w+)", re.sub(r"template <.*?>\s", "", text.split("{")[0]))
    match = match or re.match(r"\s*using (\w+) =", text) or re.search(r"\b(operator\S+?|\w+)\s*\(", text) or re.search(r"(\w+)\s*[={;]", text)
    return match[1] if match else None


def header_page(header, path):
    """A public header as a page: the comment of each declaration as text, the declaration as code."""
    lines = [f"# {header}", ""]
    parts, comment, code = [], [], []
    for line in path.read_text().splitlines():
        if re.match(r"^(// SPDX|#|namespace |}  // namespace)", line):
            continue
        if line.startswith("///") and code:
            parts.append((comment, code))
            comment, code = [], []
        if line.startswith("///"):
            comment.append(line)
        elif line.strip() or code:
            code.append(line)
    parts.append((comment, code))
    for comment, code in parts:
        if not comment and len(parts) > 1:  # declarations in advance
            continue
        code = public_part(code)
        if comment and code and name_of(code):
            lines += [f"## {name_of(code)}", ""]
        lines += prose(comment) + [""]
        if code:
            lines += ["```cpp", *code, "```", ""]
    return "\n".join(lines)


def stage_headers(folder):
    """A page for each public header, and a list of them for each library."""
    libraries = {}
    for root in ("partition", "repartition", "halo", "nn_bridge"):
        for path in pathlib.Path(root).rglob("*.hpp"):
            match = re.search(r"/include/(graticule/([a-z_]+)/.*\.hpp)$", str(path))
            if match and "detail" not in path.parts:
                libraries.setdefault(match[2], {})[match[1]] = path
    for library, headers in sorted(libraries.items()):
        names = []
        for header, path in sorted(headers.items()):
            name = header[len("graticule/") + len(library) + 1:-len(".hpp")]
            names.append(f"{name} <{library}/{name}>")
            page = folder / "cpp" / library / f"{name}.md"
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(header_page(header, path))
        (folder / "cpp" / f"{library}.md").write_text(
            "\n".join([f"# graticule/{library}", "", "```{toctree}", ":maxdepth: 1", "", *names, "```", ""]))
    contents = "\n".join(sorted(libraries))
    (folder / "cpp" / "index.md").write_text(
        "# C++: public headers\n\n[Names and headers](../docs/reference/cpp.md) says which header has which name.\n\n"
        f"```{{toctree}}\n:maxdepth: 2\n\n{contents}\n```\n")


def main():
    folder = pathlib.Path(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    stage_pages(folder)
    stage_headers(folder)
    front = pathlib.Path("README.md").read_text()
    (folder / "README.md").unlink()
    lines = menu(pathlib.Path("docs/README.md"))
    lines += ["```{toctree}", ":hidden:", ":caption: C++ headers", "", "cpp/index", "```", ""]
    (folder / "index.md").write_text(front + "\n" + "\n".join(lines))
    for page in folder.rglob("*.md"):  # the front page is index.md here
        text = page.read_text()
        up = "../" * (len(page.relative_to(folder).parts) - 1)
        if f"]({up}README.md" in text:
            page.write_text(text.replace(f"]({up}README.md", f"]({up}index.md"))


main()
