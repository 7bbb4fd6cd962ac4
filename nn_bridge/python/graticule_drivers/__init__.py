# SPDX-License-Identifier: BSD-3-Clause
"""The command-line programs of Graticule as pip installs them: each is started with the MPI and the torch of this Python."""
import importlib.util
import os
import pathlib
import sys
from typing import Dict, List


def _folder(package: str) -> pathlib.Path:
    """Of an installed package, which is not imported: torch alone takes seconds."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{package} is not installed for {sys.executable}")
    return pathlib.Path(spec.origin).parent


def environment(libraries: Dict[str, str], names: pathlib.Path) -> List[str]:
    """Folders that programs search for libraries: torch's, the MPI's, then the other names of that MPI."""
    folders = [str(_folder("torch") / "lib"), *(str(pathlib.Path(path).parent) for path in libraries), str(names)]
    return [*folders, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]


def main() -> None:
    name = pathlib.Path(sys.argv[0]).name
    package = _folder("graticule")
    spec = importlib.util.spec_from_file_location("graticule_mpi", package / "_mpi.py")
    assert spec and spec.loader
    mpi = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(mpi)
    try:
        mpi.load()
    except ImportError as error:
        raise SystemExit(f"{name}: {error}") from None
    program = mpi.folder / name
    if not program.exists():
        raise SystemExit(f"{name} is not part of this installation of the Python package: build it by scripts/setup, or install the wheel of scripts/wheel")
    os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(environment(mpi.loaded(), package / "names"))
    os.execv(program, [str(program), *sys.argv[1:]])
