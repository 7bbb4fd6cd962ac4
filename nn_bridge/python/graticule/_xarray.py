# SPDX-License-Identifier: BSD-3-Clause
"""Fields of files and of xarray's Datasets as shards, and shards as Datasets."""
from __future__ import annotations

import os
import sys
import zlib
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np
import torch

from . import engine
from ._domain import AxisPart, Domain, FieldPart, _balanced, whole_field
from ._errors import Error

Choice = Union[int, slice]

_UNITS = {"latitude": ("degrees_north", "degree_north", "degree_n", "degrees_n", "degreen", "degreesn"),
          "longitude": ("degrees_east", "degree_east", "degree_e", "degrees_e", "degreee", "degreese")}
_DEGREES = ("degrees", "degree", "deg", "radians", "radian", "rad")  # of no direction
_NAMES = {"latitude": ("latitude", "lat", "nlat", "grid_yt", "y", "rlat"), "longitude": ("longitude", "lon", "nlon", "grid_xt", "x", "rlon")}


class FieldShard(Mapping):
    """This rank's rows and columns of some variables: tensors by name, latitude and longitude last.

    domain: what it was cut for. part: the rows and columns of the globe that this rank holds. dims: names of the axes of each
    variable. coordinates: of the axes and of the variables, this rank's part, as `(dims, values, attributes)`. attributes: of each
    variable, and of the whole source under "".
    """

    def __init__(self, domain: Domain, part: FieldPart, fields: Dict[str, torch.Tensor], dims: Dict[str, Tuple[str, ...]],
                 coordinates: Dict[str, Tuple[Tuple[str, ...], Any, Dict[str, Any]]], attributes: Dict[str, Dict[str, Any]]) -> None:
        self.domain, self.part, self._fields = domain, part, fields
        self.dims, self.coordinates, self.attributes = dims, coordinates, attributes

    def __getitem__(self, name: str) -> torch.Tensor:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __repr__(self) -> str:
        listed = ", ".join(f"{name}{tuple(field.shape)}" for name, field in self.items())
        return f"FieldShard({listed}: rows {self.part.rows.lo} to {self.part.rows.lo + self.part.rows.size} of {self.part.rows.extent})"


def open_shard(source: Any, domain: Domain, variables: Union[str, Sequence[str], None] = None, select: Optional[Mapping[str, Choice]] = None,
               rows: Optional[Sequence[int]] = None, columns: Optional[Sequence[int]] = None, dtype: torch.dtype = torch.float32) -> FieldShard:
    """This rank's rows and columns of fields of latitude and longitude; nothing else is read.

    source: a netCDF-4 file, a Zarr store, a list or pattern of those that follow each other in time, all read by the engine; or a
    Dataset or DataArray of xarray, of any of its engines (cfgrib for GRIB, kerchunk, OPeNDAP), of which each rank loads its own part.
    variables: names; default: all numbers along latitude and longitude. select: by dimension, a number or a slice of cells; the
    others are read whole. rows, columns: cells of each part, the same on all ranks; default: balanced. Missing cells are NaN.
    Collective: an error of one rank is raised on all. Errors: NoSuchFile, MissingVariable, BadCuts, BadOption, ArgumentDisagreement
    where ranks ask for different fields or cuts, or their sources differ in coordinates (a latitude that one rank has reversed), units,
    scales or fill values; those of files.
    Example: `shard = graticule.open_shard("era5.zarr", domain, ["z", "t"], select={"time": slice(0, 4)}); shard["z"].shape` is
    (4, levels, rows, columns).
    """
    names = [variables] if isinstance(variables, str) else None if variables is None else list(variables)
    wanted = dict(select or {})
    is_data = hasattr(source, "isel") and hasattr(source, "dims")
    domain._object.require_same("ArgumentDisagreement", f"open_shard of {'an object of xarray' if is_data else 'files'}")
    # The open itself is collective, so that its errors are all ranks' already.
    reader = None if is_data else _FileSource(source, domain)
    try:
        data, fields = _agreed(domain, lambda: _chosen_of(reader or _DataSource(source), names))
        domain._object.require_same("ArgumentDisagreement", f"open_shard of {fields}, select {wanted}, rows {rows}, columns {columns}, {dtype}")
        for line in _agreed(domain, lambda: _described(data, data.fields if names is None else names)):
            domain._object.require_same("ArgumentDisagreement", f"open_shard of {line}")
        return _agreed(domain, lambda: _shard_of(data, domain, names, wanted, (rows, columns), dtype))
    finally:
        if reader is not None:
            reader.file.close()


def to_dataset(shard: FieldShard, fields: Optional[Mapping[str, torch.Tensor]] = None, whole: bool = False) -> Any:
    """An xarray Dataset of this rank's rows and columns, with coordinates and attributes.

    fields: other tensors of the same rows and columns in place of the shard's own, such as the output of a network: one named as a
    variable of the shard has its axes where there are as many, others `NAME_0`, ... before latitude and longitude. whole: the globe's
    rows and columns, on every rank; collective. Times are decoded. Errors: ShapeMismatch, those of `whole_field`.
    """
    import xarray
    register_accessor()
    part = shard.part
    held = {}
    for name, field in (shard if fields is None else fields).items():
        if field.ndim < 2 or tuple(field.shape[-2:]) != (part.rows.size, part.columns.size):
            raise Error("ShapeMismatch", f"{name} has the shape {tuple(field.shape)}; its last two axes are not this rank's "
                        f"{part.rows.size} rows and {part.columns.size} columns", "argument")
        field = field.detach()
        if field.dtype == torch.bfloat16:  # which numpy does not have
            field = field.float()
        values = (whole_field(field.contiguous(), shard.domain) if whole else field).cpu().numpy()
        held[name] = xarray.Variable(_dims_of(shard, name, values.ndim), values, shard.attributes.get(name, {}))
    coordinates = {}
    for name, (dims, values, attributes) in shard.coordinates.items():
        if whole:
            values = _whole_coordinate(shard, dims, values)
        coordinates[name] = xarray.Variable(dims, values, attributes)
    used = {dim for variable in held.values() for dim in variable.dims}
    kept = {name: variable for name, variable in coordinates.items() if set(variable.dims) <= used and _fits(variable, held)}
    return xarray.decode_cf(xarray.Dataset(held, kept, shard.attributes.get("", {})), mask_and_scale=False)


def register_accessor() -> None:
    """Datasets and DataArrays of xarray have `.graticule.shard(domain)` from now on; `import graticule.xarray` calls it."""
    import xarray
    if getattr(xarray.Dataset, "graticule", None) is not None:
        return
    xarray.register_dataset_accessor("graticule")(_Accessor)
    xarray.register_dataarray_accessor("graticule")(_Accessor)


class _Accessor:
    def __init__(self, data: Any) -> None:
        self._data = data

    def shard(self, domain: Domain, variables: Union[str, Sequence[str], None] = None, **options: Any) -> FieldShard:
        """As `open_shard` of this object."""
        return open_shard(self._data, domain, variables, **options)


if "xarray" in sys.modules:
    register_accessor()


class _Field(NamedTuple):
    dims: Tuple[str, ...]
    shape: Tuple[int, ...]


def _agreed(domain: Domain, step: Callable[[], Any]) -> Any:
    """The result of a step of this rank alone; its error is raised on all ranks."""
    result, rule, text = None, "BadArgument", None
    files = ("BadInput", "BrokenFile", "MissingVariable", "NoSuchFile", "UnreadableFile", "UnreadableVariable", "UnsupportedFile")
    try:
        result = step()
    except Error as error:
        rule, text = error.rule, error.text
    except Exception as error:  # of any of xarray's engines
        rule, text = "UnreadableFile", f"{type(error).__name__}: {error}"
    try:
        domain._object.agree(rule, text)
    except Error as agreed:
        raise Error(agreed.rule, agreed.text, "input" if agreed.rule in files else agreed.fault) from None
    return result


def _kind(name: str, standard_name: str, units: str) -> str:
    for kind in ("latitude", "longitude"):
        if standard_name == kind or standard_name == f"grid_{kind}" or not standard_name and units.lower() in _UNITS[kind]:
            return kind
    has_direction = standard_name or units and units.lower() not in _DEGREES
    return next((kind for kind in _NAMES if not has_direction and name.rpartition("/")[2].lower() in _NAMES[kind]), "")


def _kind_of(dim: str, coordinates: Mapping[str, Tuple[Tuple[str, ...], str, str]]) -> str:
    """Latitude or longitude, by the coordinate of a dimension, else by the only one along it that is a latitude or longitude."""
    if dim in coordinates:
        return _kind(dim, *coordinates[dim][1:])
    along = {name for name, (dims, standard_name, units) in coordinates.items() if dims == (dim,) and _kind("", standard_name, units)}
    return _kind("", *coordinates[along.pop()][1:]) if len(along) == 1 else _kind(dim, "", "")


def _paths_of(source: Any, advice: str) -> Union[str, List[str]]:
    """Names of files. Errors: TypeError with advice for objects of xarray."""
    several = source if isinstance(source, (list, tuple)) else [source]
    if any(hasattr(one, "isel") and hasattr(one, "dims") for one in several):
        raise TypeError(advice)
    names = [os.fspath(one) for one in several]
    return names if several is source else names[0]


class _FileSource:
    """Files, read by the engine."""

    def __init__(self, source: Any, domain: Domain) -> None:
        comm = engine.Comm.create(domain._comm)
        paths = _paths_of(source, "open_shard reads one Dataset of xarray, not several: join them by xarray.concat or combine_by_coords")
        is_series = not isinstance(paths, str) or any(c in paths for c in "*?[")
        self.file = engine.File.open_series(comm, paths) if is_series else engine.File.open(comm, paths)
        names = [self.file.variable_name(i) for i in range(self.file.num_variables())]
        self.fields = {}
        for name in names:
            extents = tuple(int(n) for n in self.file.extents(name))
            self.fields[name] = _Field(tuple(self.file.dimension(name, axis) for axis in range(len(extents))), extents)

    def text(self, attribute: str, variable: Optional[str] = None) -> str:
        try:
            return self.file.attribute_text(attribute, variable)
        except Error:
            return ""

    def attributes(self, variable: Optional[str] = None) -> Dict[str, Any]:
        names = ("standard_name", "long_name", "units", "calendar", "axis", "positive") if variable else ("title", "source", "institution")
        return {name: text for name in names if (text := self.text(name, variable))}

    def kind(self, dim: str) -> str:
        return _kind_of(dim, {name: (field.dims, self.text("standard_name", name), self.text("units", name))
                              for name, field in self.fields.items() if name == dim or field.dims == (dim,)})

    def _is_place(self, name: str) -> bool:
        return bool(_kind(name, self.text("standard_name", name), self.text("units", name)))

    def read(self, name: str, chosen: List[slice], dtype: type = np.float64) -> np.ndarray:
        values = np.empty([len(range(cells.start, cells.stop, cells.step)) for cells in chosen], dtype)
        self.file.read(name, [cells.start for cells in chosen], [cells.stop for cells in chosen], values, steps=[cells.step for cells in chosen])
        return values

    def whole_coordinate(self, dim: str) -> Optional[np.ndarray]:
        if dim not in self.fields or self.fields[dim].dims != (dim,):
            return None
        return self.read(dim, [slice(0, self.fields[dim].shape[0], 1)])

    def coordinates(self, used: Mapping[str, slice]) -> Dict[str, Tuple[Tuple[str, ...], Any, Dict[str, Any]]]:
        return {name: (field.dims, self.read(name, [used[dim] for dim in field.dims]), self.attributes(name)) for name, field in self.fields.items()
                if len(field.dims) == 1 and field.dims[0] in used and (name == field.dims[0] or self._is_place(name))}


class _DataSource:
    """A Dataset or DataArray of xarray."""

    def __init__(self, source: Any) -> None:
        self.data = source.to_dataset(name=source.name or "field") if hasattr(source, "to_dataset") and not hasattr(source, "data_vars") else source
        self.fields = {str(name): _Field(tuple(map(str, held.dims)), tuple(held.shape)) for name, held in self.data.data_vars.items()
                       if held.dtype.kind in "iufb"}

    def attributes(self, variable: Optional[str] = None) -> Dict[str, Any]:
        return dict(self.data[variable].attrs if variable else self.data.attrs)

    def kind(self, dim: str) -> str:
        return _kind_of(dim, {str(name): (tuple(map(str, held.dims)), str(held.attrs.get("standard_name", "")), str(held.attrs.get("units", "")))
                              for name, held in self.data.variables.items() if name in self.data.coords or held.dims == (dim,)})

    def read(self, name: str, chosen: List[slice], dtype: type = np.float64) -> np.ndarray:
        return np.asarray(self.data[name].isel(dict(zip(self.data[name].dims, chosen))).values, dtype)

    def whole_coordinate(self, dim: str) -> Optional[np.ndarray]:
        return np.asarray(self.data.coords[dim].values) if dim in self.data.coords else None

    def coordinates(self, used: Mapping[str, slice]) -> Dict[str, Tuple[Tuple[str, ...], Any, Dict[str, Any]]]:
        kept = {}
        for name, coordinate in self.data.coords.items():
            if all(dim in used for dim in coordinate.dims):
                part = coordinate.isel({dim: used[dim] for dim in coordinate.dims})
                kept[str(name)] = (tuple(map(str, part.dims)), part.values, dict(part.attrs))
        return kept


def _axes(source: Any, name: str) -> Tuple[int, int]:
    """Latitude and longitude of a variable; -1 where it has none, or several."""
    kinds = [source.kind(dim) for dim in source.fields[name].dims]
    return tuple(kinds.index(kind) if kinds.count(kind) == 1 else -1 for kind in ("latitude", "longitude"))  # type: ignore[return-value]


def _chosen(dim: str, extent: int, choice: Choice) -> slice:
    if isinstance(choice, (int, np.integer)) and not isinstance(choice, bool):
        if not -extent <= choice < extent:
            raise Error("OutOfRange", f"select[{dim!r}] = {choice}: there are {extent} cells", "argument")
        return slice(choice % extent, choice % extent + 1, 1)
    if not isinstance(choice, slice) or (choice.step or 1) < 1:
        raise Error("BadOption", f"select[{dim!r}] = {choice!r} is neither a number nor a slice with a positive step", "argument")
    start, stop, step = choice.indices(extent)
    return slice(start, max(start, stop), step)


def _axis_part(domain: Domain, axis: int, extent: int, sizes: Optional[Sequence[int]]) -> AxisPart:
    parts = domain.grid[axis]
    cut = tuple(sizes) if sizes is not None else _balanced(extent, parts)
    if len(cut) != parts or sum(cut) != extent or min(cut) < 0:
        raise Error("BadCuts", f"{('rows', 'columns')[axis]} = {list(cut)}: {parts} parts of {extent} cells together are needed", "argument")
    return AxisPart(domain.part[axis], cut)


def _chosen_of(source: Any, names: Optional[List[str]]) -> Tuple[Any, str]:
    """A source, and the variables of it that are asked for, in words."""
    for name in names or []:
        if name not in source.fields:
            raise Error("MissingVariable", f"there is no variable '{name}'; there are {', '.join(source.fields)}", "input")
    return source, "; ".join(f"{name}({', '.join(source.fields[name].dims)}) {source.fields[name].shape}" for name in (source.fields if names is None else names))


def _described(source: Any, names: Iterable[str]) -> List[str]:
    """What a shard of one rank must have in common with those of the others, a line each: coordinates of the whole axes, units, scales."""
    dims = dict.fromkeys(dim for name in names for dim in source.fields[name].dims)
    lines = [f"coordinates {'; '.join(_coordinate_text(dim, source.whole_coordinate(dim)) for dim in dims)}"]
    for name in names:
        kept = ("standard_name", "units", "scale_factor", "add_offset", "_FillValue", "missing_value")
        attributes = source.attributes(name)
        lines.append(f"{name} with {', '.join(f'{key} {attributes[key]}' for key in kept if key in attributes) or 'no units'}")
    return lines


def _coordinate_text(dim: str, values: Optional[np.ndarray]) -> str:
    if values is None:
        return f"{dim} without values"
    ends = f"{values[0]} to {values[-1]}" if len(values) else "empty"
    # All values count: ranks may differ in the middle.
    exact = values if values.dtype.kind in "iufbmM" else np.array([str(value) for value in values])
    return f"{dim} {ends} (checksum {zlib.crc32(np.ascontiguousarray(exact.astype('f8') if exact.dtype.kind in 'iufb' else exact).tobytes()):08x})"


def _shard_of(source: Any, domain: Domain, names: Optional[List[str]], select: Dict[str, Choice], sizes: Tuple[Optional[Sequence[int]], ...],
              dtype: torch.dtype) -> FieldShard:
    if names is None:
        names = [name for name in source.fields if min(_axes(source, name)) >= 0]
        if not names:
            raise Error("MissingVariable", f"no variable has axes of latitude and longitude; there are {', '.join(source.fields) or 'none'}", "input")
    memory = np.float32 if dtype == torch.float32 else np.float64
    fields: Dict[str, torch.Tensor] = {}
    dims: Dict[str, Tuple[str, ...]] = {}
    used: Dict[str, slice] = {}
    globe: Optional[Tuple[int, int]] = None
    part = None
    for name in names:
        field = source.fields[name]
        axes = _axes(source, name)
        if min(axes) < 0:
            raise Error("MissingVariable", f"{name}({', '.join(field.dims)}) has no axes of latitude and longitude", "input")
        found = tuple(field.shape[axis] for axis in axes)
        if globe is not None and found != globe:
            raise Error("LayoutMismatch", f"{name} is on a grid of {found[0]} x {found[1]} cells, {names[0]} on one of "
                        f"{globe[0]} x {globe[1]}", "input")
        globe = found
        part = FieldPart(_axis_part(domain, 0, found[0], sizes[0]), _axis_part(domain, 1, found[1], sizes[1]))
        chosen = []
        for axis, (dim, extent) in enumerate(zip(field.dims, field.shape)):
            own = {axes[0]: part.rows, axes[1]: part.columns}.get(axis)
            if own is not None and dim in select:
                raise Error("BadOption", f"select has {dim}, which is cut over the ranks", "argument")
            chosen.append(_chosen(dim, extent, select.get(dim, slice(None))) if own is None else slice(own.lo, own.lo + own.size, 1))
        used.update(zip(field.dims, chosen))
        order = [axis for axis in range(len(field.dims)) if axis not in axes] + list(axes)
        values = torch.from_numpy(np.ascontiguousarray(source.read(name, chosen, memory).transpose(order))).to(dtype)
        dropped = [axis for axis in order if isinstance(select.get(field.dims[axis]), (int, np.integer))]
        values = values.reshape([n for n, axis in zip(values.shape, order) if axis not in dropped])
        values._graticule_field = True  # type: ignore[attr-defined]
        fields[name], dims[name] = values, tuple(field.dims[axis] for axis in order if axis not in dropped)
    unknown = [dim for dim in select if dim not in used]
    if unknown:
        raise Error("BadOption", f"select has {unknown[0]}, which none of these variables has: they have {', '.join(used)}", "argument")
    attributes = {name: source.attributes(name) for name in fields}
    attributes[""] = source.attributes()
    assert part is not None
    return FieldShard(domain, part, fields, dims, source.coordinates(used), attributes)


def _dims_of(shard: FieldShard, name: str, ndim: int) -> Tuple[str, ...]:
    own = shard.dims.get(name)
    if own is not None and len(own) == ndim:
        return own
    last = next(iter(shard.dims.values()))[-2:]
    return (*(f"{name}_{i}" for i in range(ndim - 2)), *last)


def _fits(variable: Any, held: Mapping[str, Any]) -> bool:
    return all(other.sizes[dim] == variable.sizes[dim] for other in held.values() for dim in variable.dims if dim in other.sizes)


def _whole_coordinate(shard: FieldShard, dims: Tuple[str, ...], values: Any) -> Any:
    """Of all ranks, as fields are gathered."""
    latitude, longitude = next(iter(shard.dims.values()))[-2:]
    if not {latitude, longitude} & set(dims) or np.asarray(values).dtype.kind not in "iuf" or len(dims) > 2:
        return values
    part = shard.part
    own = np.asarray(values, np.float64)
    if dims == (latitude,):
        own = own[:, None]
    elif dims == (longitude, latitude):
        own = own.T
    field = torch.from_numpy(np.broadcast_to(own, (part.rows.size, part.columns.size)).copy())
    gathered = whole_field(field, shard.domain).numpy()
    return {(latitude,): gathered[:, :1].reshape(-1), (longitude,): gathered[:1].reshape(-1), (longitude, latitude): gathered.T}.get(dims, gathered)
