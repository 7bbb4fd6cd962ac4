# SPDX-License-Identifier: BSD-3-Clause
"""Fields as DTensors, and back."""
from __future__ import annotations

import weakref
from typing import Any, Optional, Sequence, Set, Tuple

import torch
import torch.distributed as dist

from . import _core
from ._domain import Domain, part_of
from ._errors import Error, tensor_of
from ._library import require_eager, uncompiled
from ._native import Repartition

_known: "weakref.WeakKeyDictionary[Domain, Set[Tuple[int, ...]]]" = weakref.WeakKeyDictionary()


def chunks(extent: int, parts: int) -> Tuple[int, ...]:
    """Sizes of the parts of torch.chunk, which DTensor assumes: all but the last ones are equal, and some may be empty.

    Example: 7 cells in 3 parts: 3, 3, 1; 4 cells in 3 parts: 2, 2, 0.
    """
    size = -(-extent // parts)
    return tuple(max(0, min(size, extent - part * size)) for part in range(parts))


def _axes_of(mesh: Any, domain: Domain) -> Tuple[int, ...]:
    """The axis of the field that each axis of the mesh cuts. Refuses a mesh of other ranks, on all ranks."""
    ranks = tuple(int(rank) for rank in mesh.mesh.flatten())
    known = _known.setdefault(domain, set())
    key = (*mesh.mesh.shape, *ranks)
    if key not in known:
        of_domain = tuple(int(rank) for (rank,) in _core.gather_numbers(domain._object, [dist.get_rank()]))
        wrong = None
        if ranks != of_domain:
            wrong = f"the mesh has the ranks {list(ranks)}, the domain {list(of_domain)}: make it by Domain.from_mesh"
        elif mesh.ndim > 2 or (mesh.ndim == 2 and tuple(mesh.mesh.shape) != domain.grid) or (mesh.ndim == 1 and 1 not in domain.grid):
            wrong = f"a mesh of {list(mesh.mesh.shape)} ranks for a domain of {list(domain.grid)} ranks along latitude and longitude"
        domain._object.agree("ArgumentDisagreement", wrong)
        known.add(key)
    if mesh.ndim == 2:
        return (-2, -1)
    return (-1,) if domain.grid[0] == 1 and domain.grid[1] > 1 else (-2,)


def _moved(x: torch.Tensor, domain: Domain, cuts: Tuple[Tuple[int, ...], Tuple[int, ...]],
           wanted: Tuple[Tuple[int, ...], Tuple[int, ...]]) -> torch.Tensor:
    """The same field with other cuts. Collective where they differ."""
    if cuts == wanted:
        return x
    return Repartition(domain, (-2, -1), domain.grid, (-2, -1), domain.grid, [list(wanted[0]), list(wanted[1])])(x)


@uncompiled
def to_dtensor(x: torch.Tensor, domain: Domain, mesh: Any) -> Any:
    """This rank's shard of a field, of any cuts, as a DTensor over the mesh of the domain. Collective and differentiable.

    mesh: of the domain's ranks, of one axis, or of two for a grid of ranks; see `Domain.from_mesh`. DTensor assumes that an axis is
    cut as torch.chunk does; a field that is cut otherwise is moved to those cuts first, and its gradient back.
    Errors: ArgumentDisagreement where the mesh has other ranks, UnsupportedTensor, BadLayout.
    Example: 7 rows as 3 and 4 on 2 ranks: the DTensor has 4 and 3.
    """
    from torch.distributed.tensor import DTensor, Shard
    require_eager("to_dtensor")
    x = tensor_of(x, "to_dtensor")
    axes = _axes_of(mesh, domain)
    part = part_of(x, domain)
    cuts = part.rows.sizes, part.columns.sizes
    wanted = chunks(part.rows.extent, domain.grid[0]), chunks(part.columns.extent, domain.grid[1])
    whole = (*x.shape[:-2], part.rows.extent, part.columns.extent)
    strides = [1] * len(whole)
    for axis in range(len(whole) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * whole[axis + 1]
    local = _moved(x, domain, cuts, wanted).contiguous()
    return DTensor.from_local(local, mesh, [Shard(len(whole) + axis) for axis in axes], run_check=False,
                              shape=torch.Size(whole), stride=tuple(strides))


@uncompiled
def from_dtensor(x: Any, domain: Domain, mesh: Optional[Any] = None, rows: Optional[Sequence[int]] = None,
                 columns: Optional[Sequence[int]] = None) -> torch.Tensor:
    """This rank's shard of a field that is a DTensor with any placements. Collective and differentiable.

    rows, columns: cells of each part, the same on all ranks; default: as torch.chunk cuts. mesh: default: the DTensor's.
    Errors: ArgumentDisagreement where the mesh has other ranks, or ranks name other cuts; BadCuts, UnsupportedTensor.
    """
    from torch.distributed.tensor import DTensor, Shard
    require_eager("from_dtensor")
    if not isinstance(x, DTensor):
        raise TypeError(f"from_dtensor takes a DTensor, not {type(x).__module__}.{type(x).__qualname__}")
    if x.dim() < 2:
        raise Error("UnsupportedTensor", f"a DTensor of {x.dim()} axes; a field has at least 2", "argument")
    axes = _axes_of(x.device_mesh if mesh is None else mesh, domain)
    if mesh is not None and x.device_mesh != mesh:
        raise Error("ArgumentDisagreement", f"the DTensor has the mesh {x.device_mesh}, not {mesh}", "argument")
    placements = [Shard(x.dim() + axis) for axis in axes]
    cuts = chunks(x.shape[-2], domain.grid[0]), chunks(x.shape[-1], domain.grid[1])
    wanted = (cuts[0] if rows is None else tuple(rows), cuts[1] if columns is None else tuple(columns))
    if domain._checks:  # a rank that has its cells already would go on alone
        domain._object.require_same("ArgumentDisagreement", f"from_dtensor of {tuple(x.shape)} with rows {list(wanted[0])} and columns {list(wanted[1])}")
    local = x.redistribute(placements=placements).to_local(grad_placements=placements)
    shard = _moved(local, domain, cuts, wanted)
    shard = shard.view_as(shard)
    shard._graticule_field = True  # type: ignore[attr-defined]
    return shard
