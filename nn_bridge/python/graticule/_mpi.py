# SPDX-License-Identifier: BSD-3-Clause
"""Finds the one MPI library of this process, and the compiled parts of the package that were built for its kind.

MPI libraries with the same binary interface are interchangeable: `libmpi.so.12` of MPICH, Intel MPI and others, which Debian's MPICH calls
`libmpich.so.12`. The library that mpi4py has loaded is used. Before mpi4py, it is looked for where mpi4py looks, and the choice is left to mpi4py
in MPI4PY_LIBMPI. Names that a library does not have are loaded as empty libraries that need it (folder `names`).
"""
from __future__ import annotations

import ctypes
import functools
import importlib.util
import mmap
import os
import pathlib
import re
import struct
import sys
from typing import Dict, Iterator, List, Mapping, Optional, Tuple

_PACKAGE = pathlib.Path(__file__).absolute().parent
_NAMES = _PACKAGE / "names"
# What a library is called by those that need it, by kind.
KINDS = {"MPICH": ("libmpi.so.12", "libmpich.so.12"), "Open MPI": ("libmpi.so.40",)}
_ABIS = {"mpich": "MPICH", "impi": "MPICH", "openmpi": "Open MPI"}  # of MPI4PY_MPIABI
_EXTRAS = {"MPICH": "mpich", "Open MPI": "openmpi"}
_LIBRARY = re.compile(r"/libmpi(ch|_abi|_cray|_gnu_\d+)?\.so(\.\d+)*$")
_kept: List[ctypes.CDLL] = []
folder = _PACKAGE  # of the compiled parts


@functools.lru_cache(maxsize=None)
def _dynamic_names(path: str) -> Tuple[str, Tuple[str, ...]]:
    """The name that an ELF library gives itself, and the libraries that it needs."""
    with open(path, "rb") as file:
        image = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if image[:4] != b"\x7fELF" or image[4] != 2:
        raise OSError(f"{path} is no 64-bit ELF library")
    order = "<" if image[5] == 1 else ">"
    (start,), (size, count) = struct.unpack_from(order + "Q", image, 32), struct.unpack_from(order + "HH", image, 54)
    headers = [struct.unpack_from(order + "IIQQQQQQ", image, start + i * size) for i in range(count)]  # type, flags, offset, address, ..., file size
    entries: List[Tuple[int, int]] = []
    for kind, _, offset, _, _, length, _, _ in headers:
        if kind == 2:
            entries = [struct.unpack_from(order + "qQ", image, offset + i) for i in range(0, length, 16)]
    table = next(value for tag, value in entries if tag == 5)
    at = next(offset + table - address for kind, _, offset, address, _, length, _, _ in headers if kind == 1 and address <= table < address + length)

    def text(value: int) -> str:
        return image[at + value:image.find(b"\0", at + value)].decode()

    return "".join(text(value) for tag, value in entries if tag == 14), tuple(text(value) for tag, value in entries if tag == 1)


def kind_of(name: str) -> str:
    """The kind of MPI library with such a name; "" where the name tells none."""
    for kind, names in KINDS.items():
        if name in names:
            return kind
    return "MPI-5 ABI" if name.startswith("libmpi_abi.so") else "MPICH" if name.endswith(".so.12") else ""


def loaded() -> Dict[str, str]:
    """The MPI libraries that this process has loaded: their files, and the names that they give themselves."""
    found = {}
    with open("/proc/self/maps") as maps:
        for line in maps:
            path = "/" + line.rstrip("\n").partition("/")[2]
            if _LIBRARY.search(path) and pathlib.Path(path).parent != _NAMES and path not in found and os.path.exists(path):
                found[path] = _dynamic_names(path)[0]
    return found


def check() -> str:
    """What is wrong where this process has more than one MPI library; "" where all is well."""
    if sys.platform != "linux":
        return ""
    found = list(loaded())
    if len(found) < 2:
        return ""
    return (f"this process has loaded {len(found)} MPI libraries, {' and '.join(found)}, of which each would be a world of its own: "
            "import graticule before mpi4py and before other packages that use MPI, so that all take the same library, or name it in MPI4PY_LIBMPI")


def _parts() -> Dict[str, Tuple[pathlib.Path, str]]:
    """The compiled parts of the package by kind of MPI: their folder, and the name of the MPI library that they need."""
    parts = {}
    for place in [_PACKAGE, *sorted(_PACKAGE.glob("libmpi*"))]:
        for core in place.glob("_core*.so"):
            for name in _dynamic_names(str(core))[1]:
                if kind_of(name):
                    parts.setdefault(kind_of(name), (place, name))
    return parts


def _module_of_mpi4py() -> Optional[str]:
    """The file of mpi4py's extension where it was built for one MPI alone; mpi4py is not imported for this."""
    spec = importlib.util.find_spec("mpi4py")
    for place in (spec.submodule_search_locations or []) if spec else []:
        for path in pathlib.Path(place).glob("MPI.*.so"):
            if path.name.split(".")[1] not in _ABIS:
                return str(path)
    return None


def _folders(environment: Mapping[str, str]) -> Iterator[str]:
    """Where mpi4py looks for MPI libraries, in its order; "" is where the system does."""
    if environment.get("MPI4PY_LIBMPI"):
        yield from environment["MPI4PY_LIBMPI"].split(os.pathsep)
        return
    if sys.exec_prefix != sys.base_exec_prefix:
        yield os.path.join(sys.exec_prefix, "lib")
    site = sys.modules.get("site")
    if getattr(site, "ENABLE_USER_SITE", False):
        yield os.path.join(os.path.abspath(site.USER_BASE), "lib")  # type: ignore[union-attr]
    if sys.base_exec_prefix != "/usr":
        yield os.path.join(sys.base_exec_prefix, "lib")
    yield ""


def candidates(kinds: List[str], environment: Mapping[str, str]) -> Iterator[str]:
    """Paths and names of libraries to try, of these kinds."""
    for place in _folders(environment):
        place = os.path.expanduser(os.path.expandvars(place))
        if place and not os.path.isdir(place):
            yield place
            continue
        for kind in kinds:
            for name in KINDS[kind]:
                path = os.path.join(place, name)
                if not place or os.path.exists(path):
                    yield path


def _keep(path: str) -> None:
    _kept.append(ctypes.CDLL(path))


def _load_fabric(library: str) -> None:
    """Intel MPI looks for the libfabric of its package in places that a Python environment does not have."""
    if not hasattr(_kept[-1], "I_MPI_Check_image_status") or os.environ.get("I_MPI_OFI_LIBRARY_INTERNAL", "").lower() in ("0", "no", "off", "disable"):
        return
    root = pathlib.Path(library).parent.parent
    for place in (root / "opt/mpi/libfabric/lib", root / "libfabric/lib", root / "lib/libfabric", root / "lib"):
        if (place / "libfabric.so.1").is_file():
            os.environ.setdefault("FI_PROVIDER_PATH", str(place / "prov" if (place / "prov").is_dir() else place))
            os.environ.setdefault("I_MPI_ROOT", str(root))
            _keep(str(place / "libfabric.so.1"))
            return


def _find(kinds: List[str]) -> None:
    """Loads an MPI library of one of these kinds where the process has none."""
    module = _module_of_mpi4py()
    if module:  # its library, wherever its own search finds it
        for name in _dynamic_names(module)[1]:
            if kind_of(name) and kind_of(name) not in kinds:
                raise ImportError(f"graticule is built for {' or '.join(kinds)}, and mpi4py ({module}) for {kind_of(name)} ({name}): "
                                  f"install an mpi4py for {kinds[0]}, or build graticule for {kind_of(name)}")
        try:
            _keep(module)
        except OSError as error:
            raise ImportError(f"mpi4py does not find its MPI library: {error}") from None
        if loaded():
            return
    if os.environ.get("OMPI_COMM_WORLD_SIZE"):
        kinds = sorted(kinds, key="Open MPI".__ne__)
    tried = []
    for path in candidates(kinds, os.environ):
        try:
            _keep(path)
        except OSError as error:
            tried.append(str(error))
            continue
        _load_fabric(path)
        return
    names = ", ".join(name for kind in kinds for name in KINDS[kind])
    extras = " or ".join(f"`pip install {_EXTRAS[kind]}`" for kind in kinds)
    raise ImportError(f"graticule needs an MPI library ({names}), and none was found ({'; '.join(tried)}): {extras}, load the module of your cluster's "
                      "MPI, or name the library in MPI4PY_LIBMPI")


def load() -> None:
    """Loads the MPI library, unless mpi4py has, and selects the compiled parts for it. Nothing is started.

    Raises ImportError, with both names and the way out, where the process has an MPI library that the package is not built for, or two.
    """
    global folder
    parts = _parts()
    if sys.platform != "linux" or not parts:
        return
    asked = _ABIS.get(os.environ.get("MPI4PY_MPIABI", "").lower().replace("_", "").replace("-", "").replace(" ", ""))
    built = " and ".join(f"{kind} ({name})" for kind, (_, name) in parts.items())
    if not loaded():
        if asked and asked not in parts:
            raise ImportError(f"MPI4PY_MPIABI asks for {asked}, and graticule is built for {built}: unset it, or install a graticule for {asked}")
        _find([asked] if asked else list(parts))
    wrong = check()
    if wrong:
        raise ImportError(wrong)
    for path, name in loaded().items():
        kind = kind_of(name)
        if kind not in parts:
            raise ImportError(f"this process has loaded {kind or 'an unknown MPI library'} ({path}), and graticule is built for {built}: import graticule "
                              f"before mpi4py, set MPI4PY_MPIABI={'|'.join(_EXTRAS[k] for k in parts if k in _EXTRAS)}, or install a graticule for {kind or 'that library'}")
        folder, _ = parts[kind]
        for other in KINDS[kind]:
            if other != name and (_NAMES / other).exists():
                _keep(str(_NAMES / other))
        os.environ.setdefault("MPI4PY_LIBMPI", path)


def initialized() -> bool:
    """Whether MPI runs, or has run, in this process."""
    flag = ctypes.c_int(0)
    for path in loaded():
        ctypes.CDLL(path).MPI_Initialized(ctypes.byref(flag))
    return bool(flag.value)
