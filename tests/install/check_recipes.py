# SPDX-License-Identifier: BSD-3-Clause
"""The recipes of scripts/packaging name the version, the options and the lowest versions of this project: check_recipes.py SOURCE CACHE"""
import ast
import pathlib
import re
import sys

source, cache = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).read_text()
packaging = source / "scripts/packaging"
cmake = (source / "CMakeLists.txt").read_text()
dependencies = (source / "scripts/cmake/GraticuleDependencies.cmake").read_text()


def found(pattern, text, what):
    match = re.search(pattern, text, re.MULTILINE)
    assert match, f"{what}: nothing matches {pattern}"
    return match.group(1)


def numbers(version):
    return [int(part) for part in version.split(".")]


version = found(r"^  VERSION ([0-9.]+)", cmake, "CMakeLists.txt")
lowest = {"cmake": found(r"cmake_minimum_required\(VERSION ([0-9.]+)\)", cmake, "CMakeLists.txt"),
          "kokkos": found(r"Kokkos_VERSION VERSION_LESS ([0-9.]+)", dependencies, "Kokkos")}
spack = (packaging / "spack/packages/graticule/package.py").read_text()
easyconfigs = list((packaging / "easybuild").glob("*.eb"))
conda = (packaging / "conda/meta.yaml").read_text()
conda_build = (packaging / "conda/build.sh").read_text()
image = (packaging / "apptainer/graticule.def").read_text()
checks = (packaging / "reframe/graticule_checks.py").read_text()
assert len(easyconfigs) == 1, easyconfigs
easyconfig = easyconfigs[0].read_text()

# Versions.
assert found(r'^version = "([0-9.]+)"', (source / "pyproject.toml").read_text(), "pyproject.toml") == version
assert found(r"^version = '([0-9.]+)'", easyconfig, "EasyBuild") == version
assert easyconfigs[0].name.startswith(f"graticule-{version}-"), easyconfigs[0]
assert found(r'set version = "([0-9.]+)"', conda, "conda") == version
assert set(re.findall(r"graticule-([0-9]+\.[0-9]+\.[0-9]+)", image)) == {version}, image
assert found(r"^ +Version (\S+)", image, "Apptainer") == version

# Lowest versions.
assert found(r"cmake@([0-9.]+):", spack, "Spack") == lowest["cmake"]
assert found(r"kokkos@([0-9.]+):", spack, "Spack") == lowest["kokkos"]
assert found(r"- cmake >=([0-9.]+)", conda, "conda") == lowest["cmake"]
assert found(r"- kokkos >=([0-9.]+)", conda, "conda") == lowest["kokkos"]
for name in ("cmake", "kokkos"):
    assert numbers(found(rf"(?i)\('{name}', '([0-9.]+)'\)", easyconfig, "EasyBuild")) >= numbers(lowest[name]), name

# Every library that the drivers need, in every recipe.
needed = set(re.findall(r"^ *foreach\(_graticule_pair IN ITEMS ([^)]*)\)", dependencies, re.MULTILINE)[0].split())
for library in sorted(pair.split(":")[0].lower().replace("_", "-") for pair in needed) + ["cairo", "hdf5", "kokkos"]:
    for recipe, text in (("Spack", spack), ("EasyBuild", easyconfig), ("conda", conda)):
        assert library in text.lower().replace("_", "-"), f"{recipe} lacks {library}"

# Options.
options = {name: set(re.findall(r"(?:\b|-D)(GRATICULE_(?:ENABLE|BUILD)_[A-Z]+|BUILD_SHARED_LIBS|MPI_[A-Za-z]+_COMPILER)\b", text))
           for name, text in (("Spack", spack), ("EasyBuild", easyconfig), ("conda", conda_build))}
for recipe, names in options.items():
    assert len(names) >= 5, (recipe, names)
    for name in names:
        assert re.search(rf"^{name}:", cache, re.MULTILINE), f"{recipe} sets {name}, which the configure step does not have"

# Drivers that recipes start.
drivers = {path.parent.name for path in (source / "apps").glob("graticule-*/CMakeLists.txt")}
started = set(re.findall(r"graticule-(?:info|train|bench|swe|forecast)\b", easyconfig + conda + image + checks))
assert started and started <= drivers, started - drivers
for path in (packaging / "reframe/graticule_checks.py", packaging / "spack/packages/graticule/package.py", easyconfigs[0]):
    ast.parse(path.read_text(), str(path))
assert len(re.findall(r"^@rfm\.simple_test$", checks, re.MULTILINE)) == 2
print("passed")
