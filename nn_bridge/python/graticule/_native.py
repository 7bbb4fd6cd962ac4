# SPDX-License-Identifier: BSD-3-Clause
"""Layers that torch.nn lacks. A `Shard` is this rank's rows and columns of a field, [..., rows, columns]."""
from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import torch

from ._cuts import cuts, mark
from ._domain import AxisPart, Domain
from ._layer import NativeLayer
from ._library import uncompiled

Numbers = Optional[Sequence[float]]
Sizes = Optional[Sequence[int]]


class _Field(NativeLayer):
    """One field in, one field out."""

    @uncompiled
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Collective. x: this rank's shard."""
        return self._call("forward", x)


class _SameCuts(_Field):
    _keeps_cuts = True


class SelfAttention(_SameCuts):
    """Attention of every cell to all cells of the globe: `torch.nn.MultiheadAttention` with cells as tokens.

    Takes [..., embed_dim, rows, columns]. Parameters as torch.nn.MultiheadAttention names them. Without a domain it is
    serial until `shard` moves it to the model's. kernel: "fused", "plain" (any order of derivatives), or "ring" (cells stay).
    Errors: BadOption, ShapeMismatch.
    """
    _serial_without_domain = True

    def __init__(self, embed_dim: int, num_heads: int, bias: bool = True, kernel: str = "fused",
                 domain: Optional[Domain] = None) -> None:
        super().__init__(domain, embed_dim=embed_dim, num_heads=num_heads, bias=bias, kernel=kernel)


class WindowAttention(_SameCuts):
    """Attention of each cell to the cells of its window of rows and columns, placed by global index.

    window, shift: rows and columns. kind: "adjacent", or "dilated" (members far apart). Without a domain it is serial until
    `shard` moves it. Errors: BadOption, ShapeMismatch.
    """
    _serial_without_domain = True

    def __init__(self, embed_dim: int, num_heads: int, window: Sequence[int], shift: Sequence[int] = (0, 0),
                 kind: str = "adjacent", relative_position_bias: bool = False, bias: bool = True,
                 domain: Optional[Domain] = None) -> None:
        super().__init__(domain, embed_dim=embed_dim, num_heads=num_heads, window=window, shift=shift, kind=kind,
                         relative_position_bias=relative_position_bias, bias=bias)


class _Transform(NativeLayer):
    @uncompiled
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Collective. x: this rank's shard."""
        return self._call("forward", x)

    @uncompiled
    def inverse(self, spectrum: torch.Tensor) -> torch.Tensor:
        """Collective. spectrum: this rank's part, as `forward` returns it. Errors: WrongState."""
        return self._call("inverse", spectrum)


class FourierTransform(_Transform):
    """`torch.fft.rfft` along longitude, or `rfft2` with axes "rows_and_columns", of the whole field, and the inverse.

    norm: as torch's. num_waves: zonal wavenumbers kept; 0: all. field_rows, field_columns: cuts of the fields, for an inverse
    before any forward. Errors: UnsupportedTensor, BadOption, BadCuts.
    """

    def __init__(self, domain: Domain, axes: str = "columns", norm: str = "backward", num_waves: int = 0,
                 field_rows: Sizes = None, field_columns: Sizes = None) -> None:
        super().__init__(domain, axes=axes, norm=norm, num_waves=num_waves, field_rows=field_rows, field_columns=field_columns)

    def part(self) -> AxisPart:
        """Cuts of spectra: of rows for "columns", of waves for "rows_and_columns". Errors: WrongState."""
        return self._part("part")


class FourierConvolution(_SameCuts):
    """Spectral convolution of Fourier neural operators. Parameters `weights1`, `weights2`.

    row_modes, column_modes: wavenumbers kept. Errors: BadOption, ShapeMismatch.
    """

    def __init__(self, in_channels: int, out_channels: int, row_modes: int, column_modes: int, domain: Domain,
                 norm: str = "backward") -> None:
        super().__init__(domain, in_channels=in_channels, out_channels=out_channels, row_modes=row_modes,
                         column_modes=column_modes, norm=norm)


class SphericalTransform(_Transform):
    """Real spherical harmonic transform: complex [..., degrees, orders of this rank], and the inverse.

    latitudes: degrees north of all rows, Gaussian or equally spaced. num_degrees, num_orders: 0 for all that are exact.
    Errors: BadCoordinates, BadOption, ShapeMismatch.
    """

    def __init__(self, latitudes: Sequence[float], domain: Domain, num_degrees: int = 0, num_orders: int = 0,
                 field_rows: Sizes = None, field_columns: Sizes = None) -> None:
        super().__init__(domain, latitudes=latitudes, num_degrees=num_degrees, num_orders=num_orders, field_rows=field_rows,
                         field_columns=field_columns)

    def orders(self) -> AxisPart:
        """The orders that this rank holds. Errors: WrongState."""
        return self._part("orders")


class SphericalConvolution(_SameCuts):
    """Convolution on the sphere by kernels of distance. Parameters `weight` and, with bias, `bias`.

    out_latitudes, out_columns: the output grid; default: the input's. Errors: BadCoordinates, BadOption, ShapeMismatch.
    """

    def __init__(self, in_channels: int, out_channels: int, latitudes: Sequence[float], domain: Domain, num_degrees: int = 0,
                 num_orders: int = 0, bias: bool = False, out_latitudes: Numbers = None, out_columns: int = 0) -> None:
        super().__init__(domain, in_channels=in_channels, out_channels=out_channels, latitudes=latitudes,
                         num_degrees=num_degrees, num_orders=num_orders, bias=bias, out_latitudes=out_latitudes,
                         out_columns=out_columns)


class HaloExchange(_Field):
    """The shard with its halo, a new tensor: cells of other ranks and, beyond the globe, of the domain's rules.

    latitude, longitude: cells below and above. odd_channels: components of vectors, which change sign across a pole.
    axes: of latitude and longitude, from the last, or of latitude alone. Errors: BadHaloWidth, BadAxis, LongitudeIsCut.
    Example: 4 rows of 6 columns with latitude (1, 1), longitude (2, 2): [6, 10].
    """

    def __init__(self, domain: Domain, latitude: Tuple[int, int] = (0, 0), longitude: Tuple[int, int] = (0, 0),
                 odd_channels: Sequence[int] = (), axes: Sequence[int] = (-2, -1), channel_axis: int = -3) -> None:
        super().__init__(domain, latitude=latitude, longitude=longitude, odd_channels=odd_channels, axes=axes,
                         channel_axis=channel_axis)


class PaddedHaloExchange(_Field):
    """Fills the halo of a field that is allocated with it, in place. Arguments as `HaloExchange`; widths >= 0."""

    def __init__(self, domain: Domain, latitude: Tuple[int, int] = (0, 0), longitude: Tuple[int, int] = (0, 0),
                 odd_channels: Sequence[int] = (), axes: Sequence[int] = (-2, -1), channel_axis: int = -3) -> None:
        super().__init__(domain, latitude=latitude, longitude=longitude, odd_channels=odd_channels, axes=axes,
                         channel_axis=channel_axis)

    def room_for(self, shard: torch.Tensor) -> torch.Tensor:
        """An uninitialised padded field for a shard of this shape and type."""
        return self._call("room_for", shard)

    def owned(self, padded: torch.Tensor) -> torch.Tensor:
        """The shard in the centre of a padded field: a view."""
        return self._call("owned", padded)


class MatchCuts(NativeLayer):
    """Moves a field to the cuts of another one with the same rows and columns, for joins by `torch.cat` or sums.

    Without a domain it is serial until `shard` moves it. Models given to `shard` need it only in code that runs outside of
    their forward. Errors: ShapeMismatch where the whole fields differ.
    """
    _serial_without_domain = True

    @uncompiled
    def forward(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        """Collective. x: this rank's shard; like: another one with the wanted cuts."""
        return mark(self._call("forward", x, like), cuts(like))


class Repartition(_Field):
    """Moves a tensor from one sharding to another, so that a layer can have whole axes, and back.

    from_axes, to_axes: the axes that are cut, from the last as -1; from_grid, to_grid: parts of each, together all ranks.
    cuts: cells of the parts of each axis of `to_axes`; default: balanced. Errors: BadOption, BadCuts, WrongState.
    """

    def __init__(self, domain: Domain, from_axes: Sequence[int], from_grid: Sequence[int], to_axes: Sequence[int],
                 to_grid: Sequence[int], cuts: Optional[Sequence[Sequence[int]]] = None) -> None:
        given: Optional[List[List[int]]] = None if cuts is None else [list(c) for c in cuts]
        super().__init__(domain, from_axes=from_axes, from_grid=from_grid, to_axes=to_axes, to_grid=to_grid, cuts=given)

    @uncompiled
    def back(self, y: torch.Tensor) -> torch.Tensor:
        """Moves a tensor to the cuts of the latest forward's input. Collective."""
        return self._call("back", y)

    def before(self, axis: int) -> AxisPart:
        """An axis of the latest forward's input."""
        return self._part("before", axis)

    def after(self, axis: int) -> AxisPart:
        """An axis of the latest forward's result."""
        return self._part("after", axis)


class Linear(_Field):
    """`torch.nn.Linear` whose input features ("input"), output features ("output") or both are cut over ranks.

    axes, grid: the cut axes of the cut side, the feature axis included, and parts of each. whole: whether the uncut side is
    used alike on all ranks ("replicated") or not ("distinct"). Parameters are whole on each rank.
    Errors: BadOption, BadCuts, ShapeMismatch.
    """

    def __init__(self, in_features: int, out_features: int, domain: Domain, axes: Sequence[int], grid: Sequence[int],
                 bias: bool = True, split: str = "both", whole: str = "replicated", output_cuts: Sizes = None,
                 feature_axis: int = -1) -> None:
        super().__init__(domain, in_features=in_features, out_features=out_features, axes=axes, grid=grid, bias=bias,
                         split=split, whole=whole, output_cuts=output_cuts, feature_axis=feature_axis)


class _ChannelSplitConv(_Field):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: Any, domain: Domain, stride: Any = 1,
                 padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros",
                 split: str = "both", whole: str = "replicated", output_cuts: Sizes = None) -> None:
        super().__init__(domain, in_channels=in_channels, out_channels=out_channels, kernel_size=kernel_size, stride=stride,
                         padding=padding, dilation=dilation, groups=groups, bias=bias, padding_mode=padding_mode,
                         split=split, whole=whole, output_cuts=output_cuts)


class ChannelSplitConv1d(_ChannelSplitConv):
    """A convolution whose channels are cut over ranks, as the features of `Linear`. Errors: Unsupported."""


class ChannelSplitConv2d(_ChannelSplitConv):
    """A convolution whose channels are cut over ranks, as the features of `Linear`. Errors: Unsupported."""


class ChannelSplitConv3d(_ChannelSplitConv):
    """A convolution whose channels are cut over ranks, as the features of `Linear`. Errors: Unsupported."""


class AllSum(_Field):
    """Module form of `graticule.all_sum`."""


class CopyToRegion(_Field):
    """Module form of `graticule.copy_to_region`."""


class _OfRoot(_Field):
    def __init__(self, domain: Domain, root: int = 0) -> None:
        super().__init__(domain, root=root)


class Broadcast(_OfRoot):
    """Module form of `graticule.broadcast`; the ranks' tensors have equal sizes."""


class SumToRoot(_OfRoot):
    """Module form of `graticule.sum_to_root`."""


class Gather(_Field):
    """Module form of `graticule.gather`. axis: from the last, -1. Errors: BadAxis."""

    def __init__(self, domain: Domain, axis: int, consumer: str = "replicated") -> None:
        super().__init__(domain, axis=axis, consumer=consumer)


class _OfAxis(_Field):
    def __init__(self, domain: Domain, axis: int, cuts: Sizes = None) -> None:
        super().__init__(domain, axis=axis, cuts=cuts)


class Scatter(_OfAxis):
    """Module form of `graticule.scatter`. Errors: BadAxis, BadCuts."""


class ReduceScatter(_OfAxis):
    """Module form of `graticule.reduce_scatter`. Errors: BadAxis, BadCuts."""


class AllToAll(_Field):
    """Module form of `graticule.all_to_all`. Errors: BadAxis, BadCuts."""

    def __init__(self, domain: Domain, split_axis: int, join_axis: int, cuts: Sizes = None) -> None:
        super().__init__(domain, split_axis=split_axis, join_axis=join_axis, cuts=cuts)


class PositionEmbedding(_SameCuts):
    """Adds a learnable number to each channel of each cell. Parameter `weight` [channels, rows, columns] of the globe.

    rows, columns: of the globe, or 1: the same for all. Errors: ShapeMismatch.
    """

    def __init__(self, channels: int, domain: Domain, rows: int = 1, columns: int = 1) -> None:
        super().__init__(domain, channels=channels, rows=rows, columns=columns)


class CoordinateFeatures(_SameCuts):
    """Appends sines and cosines of latitude and longitude, four channels a wave.

    latitudes, longitudes: degrees of all rows and columns of the globe. Errors: BadCoordinates, ShapeMismatch.
    """

    def __init__(self, latitudes: Sequence[float], longitudes: Sequence[float], domain: Domain, num_waves: int = 1) -> None:
        super().__init__(domain, latitudes=latitudes, longitudes=longitudes, num_waves=num_waves)


class LevelEmbedding(_SameCuts):
    """Adds a learnable number to each channel of each level of [batch, channels, levels, rows, columns]. Local."""
    _serial_without_domain = True

    def __init__(self, channels: int, levels: int) -> None:
        super().__init__(None, channels=channels, levels=levels)


class TimeEmbedding(NativeLayer):
    """Adds a number to each channel of a sample, computed from its time by a small network. Local. Errors: BadOption.

    periods: in the unit of the times; [24, 8766] is a day and a year in hours.
    """
    _keeps_cuts = True
    _serial_without_domain = True

    def __init__(self, channels: int, periods: Sequence[float], hidden: int = 32) -> None:
        super().__init__(None, channels=channels, periods=periods, hidden=hidden)

    def forward(self, x: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        """x: [batch, channels, ..., rows, columns]; times: [batch] in f64, the same on all ranks of a domain."""
        return self._call("forward", x, times)


class DropPath(_SameCuts):
    """Zeroes whole samples of a residual branch with probability p, the same on all ranks. Errors: BadOption."""

    def __init__(self, domain: Domain, p: float = 0.1, scale_by_keep: bool = True, seed: int = 0, layer: Optional[int] = None,
                 first_sample: int = 0) -> None:
        super().__init__(domain, p=p, scale_by_keep=scale_by_keep, seed=seed, layer=layer, first_sample=first_sample)


class GlobalMean(_Field):
    """Weighted mean over the rows and columns of all ranks, in f64: [..., channels] of [..., channels, rows, columns].

    consumer: "distinct" if each rank applies the means to its own cells, "replicated" if they enter a loss alike.
    row_weights: of all rows of the globe. level_weights: the mean then includes the levels. Errors: BadOption, ShapeMismatch.
    """

    def __init__(self, domain: Domain, consumer: str = "distinct", row_weights: Numbers = None,
                 level_weights: Numbers = None) -> None:
        super().__init__(domain, consumer=consumer, row_weights=row_weights, level_weights=level_weights)


class ConservationFixer(NativeLayer):
    """Corrects a prediction so that its global means are those of a reference, or given ones.

    correction: "additive" or "multiplicative". channels: along axis 1; default: all. Weights as `GlobalMean`.
    Errors: BadOption, OutOfRange, NotFinite.
    """

    _keeps_cuts = True

    def __init__(self, domain: Domain, correction: str = "additive", channels: Sequence[int] = (), row_weights: Numbers = None,
                 level_weights: Numbers = None) -> None:
        super().__init__(domain, correction=correction, channels=channels, row_weights=row_weights,
                         level_weights=level_weights)

    @uncompiled
    def forward(self, prediction: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
        """Collective. reference: a field of the same sizes, whose means the result has."""
        return self._call("forward", prediction, reference)

    @uncompiled
    def to_means(self, prediction: torch.Tensor, means: torch.Tensor) -> torch.Tensor:
        """Collective. means: [batch, chosen channels], equal on all ranks."""
        return self._call("to_means", prediction, means)
