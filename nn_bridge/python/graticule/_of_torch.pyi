# SPDX-License-Identifier: BSD-3-Clause
# Made by scripts/bindings --stubs from torch 2.13.
"""The layers of torch.nn with a domain."""
from typing import Any, Literal, Optional, Sequence, Union

import torch
import torch.types
from torch import nn

from ._domain import Domain

__all__ = ['AdaptiveAvgPool1d', 'AdaptiveAvgPool2d', 'AdaptiveAvgPool3d', 'AdaptiveMaxPool1d', 'AdaptiveMaxPool2d',
           'AdaptiveMaxPool3d', 'AlphaDropout', 'AvgPool1d', 'AvgPool2d', 'AvgPool3d', 'BatchNorm1d', 'BatchNorm2d',
           'BatchNorm3d', 'CircularPad1d', 'CircularPad2d', 'CircularPad3d', 'ConstantPad1d', 'ConstantPad2d',
           'ConstantPad3d', 'Conv1d', 'Conv2d', 'Conv3d', 'ConvTranspose1d', 'ConvTranspose2d', 'ConvTranspose3d',
           'Dropout', 'Dropout2d', 'Dropout3d', 'GroupNorm', 'InstanceNorm1d', 'InstanceNorm2d', 'InstanceNorm3d',
           'LPPool1d', 'LPPool2d', 'LPPool3d', 'LayerNorm', 'LocalResponseNorm', 'MaxPool1d', 'MaxPool2d',
           'MaxPool3d', 'MaxUnpool1d', 'MaxUnpool2d', 'MaxUnpool3d', 'PixelShuffle', 'PixelUnshuffle', 'RMSNorm',
           'ReflectionPad1d', 'ReflectionPad2d', 'ReflectionPad3d', 'ReplicationPad1d', 'ReplicationPad2d',
           'ReplicationPad3d', 'Upsample', 'UpsamplingBilinear2d', 'UpsamplingNearest2d', 'ZeroPad1d', 'ZeroPad2d',
           'ZeroPad3d']

class _Sharded:
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class AdaptiveAvgPool1d(_Sharded, nn.AdaptiveAvgPool1d):
    """`torch.nn.AdaptiveAvgPool1d` of the whole field: its arguments, and domain."""
    def __init__(self, output_size: Union[int, None, Sequence[Optional[int]]], *, domain: Domain) -> None: ...

class AdaptiveAvgPool2d(_Sharded, nn.AdaptiveAvgPool2d):
    """`torch.nn.AdaptiveAvgPool2d` of the whole field: its arguments, and domain."""
    def __init__(self, output_size: Union[int, None, Sequence[Optional[int]]], *, domain: Domain) -> None: ...

class AdaptiveAvgPool3d(_Sharded, nn.AdaptiveAvgPool3d):
    """`torch.nn.AdaptiveAvgPool3d` of the whole field: its arguments, and domain."""
    def __init__(self, output_size: Union[int, None, Sequence[Optional[int]]], *, domain: Domain) -> None: ...

class AdaptiveMaxPool1d(_Sharded, nn.AdaptiveMaxPool1d):
    """`torch.nn.AdaptiveMaxPool1d` of the whole field: its arguments, and domain."""
    def __init__(self, output_size: Union[int, None, Sequence[Optional[int]]], return_indices: bool = False, *,
                 domain: Domain) -> None: ...

class AdaptiveMaxPool2d(_Sharded, nn.AdaptiveMaxPool2d):
    """`torch.nn.AdaptiveMaxPool2d` of the whole field: its arguments, and domain."""
    def __init__(self, output_size: Union[int, None, Sequence[Optional[int]]], return_indices: bool = False, *,
                 domain: Domain) -> None: ...

class AdaptiveMaxPool3d(_Sharded, nn.AdaptiveMaxPool3d):
    """`torch.nn.AdaptiveMaxPool3d` of the whole field: its arguments, and domain."""
    def __init__(self, output_size: Union[int, None, Sequence[Optional[int]]], return_indices: bool = False, *,
                 domain: Domain) -> None: ...

class AlphaDropout(_Sharded, nn.AlphaDropout):
    """`torch.nn.AlphaDropout` of the whole field: its arguments, and domain, seed, layer, first_sample, sharding_axes."""
    def __init__(self, p: float = 0.5, inplace: bool = False, *, domain: Domain, seed: int = ..., layer: int = ...,
                 first_sample: int = ..., sharding_axes: Sequence[int] = ...) -> None: ...

class AvgPool1d(_Sharded, nn.AvgPool1d):
    """`torch.nn.AvgPool1d` of the whole field: its arguments, and domain, padding_by, odd_channels."""
    def __init__(self, kernel_size: Union[int, Sequence[int]], stride: Optional[Union[int, Sequence[int]]] = None,
                 padding: Union[int, Sequence[int]] = 0, ceil_mode: bool = False, count_include_pad: bool = True, *,
                 domain: Domain, padding_by: Literal['mode', 'domain'] = ...,
                 odd_channels: Optional[Sequence[int]] = ...) -> None: ...

class AvgPool2d(_Sharded, nn.AvgPool2d):
    """`torch.nn.AvgPool2d` of the whole field: its arguments, and domain, padding_by, odd_channels."""
    def __init__(self, kernel_size: Union[int, Sequence[int]], stride: Union[int, Sequence[int], None] = None,
                 padding: Union[int, Sequence[int]] = 0, ceil_mode: bool = False, count_include_pad: bool = True,
                 divisor_override: int | None = None, *, domain: Domain, padding_by: Literal['mode', 'domain'] = ...,
                 odd_channels: Optional[Sequence[int]] = ...) -> None: ...

class AvgPool3d(_Sharded, nn.AvgPool3d):
    """`torch.nn.AvgPool3d` of the whole field: its arguments, and domain, padding_by, odd_channels."""
    def __init__(self, kernel_size: Union[int, Sequence[int]], stride: Union[int, Sequence[int], None] = None,
                 padding: Union[int, Sequence[int]] = 0, ceil_mode: bool = False, count_include_pad: bool = True,
                 divisor_override: int | None = None, *, domain: Domain, padding_by: Literal['mode', 'domain'] = ...,
                 odd_channels: Optional[Sequence[int]] = ...) -> None: ...

class BatchNorm1d(_Sharded, nn.BatchNorm1d):
    """`torch.nn.BatchNorm1d` of the whole field: its arguments, and domain."""
    def __init__(self, num_features: int, eps: float = 1e-05, momentum: float | None = 0.1, affine: bool = True,
                 track_running_stats: bool = True, device: Any = None, dtype: Optional[torch.dtype] = None, *,
                 bias: bool = True, domain: Domain) -> None: ...

class BatchNorm2d(_Sharded, nn.BatchNorm2d):
    """`torch.nn.BatchNorm2d` of the whole field: its arguments, and domain."""
    def __init__(self, num_features: int, eps: float = 1e-05, momentum: float | None = 0.1, affine: bool = True,
                 track_running_stats: bool = True, device: Any = None, dtype: Optional[torch.dtype] = None, *,
                 bias: bool = True, domain: Domain) -> None: ...

class BatchNorm3d(_Sharded, nn.BatchNorm3d):
    """`torch.nn.BatchNorm3d` of the whole field: its arguments, and domain."""
    def __init__(self, num_features: int, eps: float = 1e-05, momentum: float | None = 0.1, affine: bool = True,
                 track_running_stats: bool = True, device: Any = None, dtype: Optional[torch.dtype] = None, *,
                 bias: bool = True, domain: Domain) -> None: ...

class CircularPad1d(_Sharded, nn.CircularPad1d):
    """`torch.nn.CircularPad1d` of the whole field: its arguments, and domain."""
    def __init__(self, padding: Union[int, Sequence[int]], *, domain: Domain) -> None: ...

class CircularPad2d(_Sharded, nn.CircularPad2d):
    """`torch.nn.CircularPad2d` of the whole field: its arguments, and domain."""
    def __init__(self, padding: Union[int, Sequence[int]], *, domain: Domain) -> None: ...

class CircularPad3d(_Sharded, nn.CircularPad3d):
    """`torch.nn.CircularPad3d` of the whole field: its arguments, and domain."""
    def __init__(self, padding: Union[int, Sequence[int]], *, domain: Domain) -> None: ...

class ConstantPad1d(_Sharded, nn.ConstantPad1d):
    """`torch.nn.ConstantPad1d` of the whole field: its arguments, and domain."""
    def __init__(self, padding: Union[int, Sequence[int]], value: float, *, domain: Domain) -> None: ...

class ConstantPad2d(_Sharded, nn.ConstantPad2d):
    """`torch.nn.ConstantPad2d` of the whole field: its arguments, and domain."""
    def __init__(self, padding: Union[int, Sequence[int]], value: float, *, domain: Domain) -> None: ...

class ConstantPad3d(_Sharded, nn.ConstantPad3d):
    """`torch.nn.ConstantPad3d` of the whole field: its arguments, and domain."""
    def __init__(self, padding: Union[int, Sequence[int]], value: float, *, domain: Domain) -> None: ...

class Conv1d(_Sharded, nn.Conv1d):
    """`torch.nn.Conv1d` of the whole field: its arguments, and domain, padding_by, odd_channels."""
    def __init__(self, in_channels: int, out_channels: int, kernel_size: Union[int, Sequence[int]], stride: Union[int,
                 Sequence[int]] = 1, padding: Union[str, int, Sequence[int]] = 0, dilation: Union[int,
                 Sequence[int]] = 1, groups: int = 1, bias: bool = True, padding_mode: Literal['zeros', 'reflect',
                 'replicate', 'circular'] = 'zeros', device: Any = None, dtype: Optional[torch.dtype] = None, *,
                 domain: Domain, padding_by: Literal['mode', 'domain'] = ...,
                 odd_channels: Optional[Sequence[int]] = ...) -> None: ...

class Conv2d(_Sharded, nn.Conv2d):
    """`torch.nn.Conv2d` of the whole field: its arguments, and domain, padding_by, odd_channels."""
    def __init__(self, in_channels: int, out_channels: int, kernel_size: Union[int, Sequence[int]], stride: Union[int,
                 Sequence[int]] = 1, padding: Union[str, int, Sequence[int]] = 0, dilation: Union[int,
                 Sequence[int]] = 1, groups: int = 1, bias: bool = True, padding_mode: Literal['zeros', 'reflect',
                 'replicate', 'circular'] = 'zeros', device: Any = None, dtype: Optional[torch.dtype] = None, *,
                 domain: Domain, padding_by: Literal['mode', 'domain'] = ...,
                 odd_channels: Optional[Sequence[int]] = ...) -> None: ...

class Conv3d(_Sharded, nn.Conv3d):
    """`torch.nn.Conv3d` of the whole field: its arguments, and domain, padding_by, odd_channels."""
    def __init__(self, in_channels: int, out_channels: int, kernel_size: Union[int, Sequence[int]], stride: Union[int,
                 Sequence[int]] = 1, padding: Union[str, int, Sequence[int]] = 0, dilation: Union[int,
                 Sequence[int]] = 1, groups: int = 1, bias: bool = True, padding_mode: Literal['zeros', 'reflect',
                 'replicate', 'circular'] = 'zeros', device: Any = None, dtype: Optional[torch.dtype] = None, *,
                 domain: Domain, padding_by: Literal['mode', 'domain'] = ...,
                 odd_channels: Optional[Sequence[int]] = ...) -> None: ...

class ConvTranspose1d(_Sharded, nn.ConvTranspose1d):
    """`torch.nn.ConvTranspose1d` of the whole field: its arguments, and domain, padding_by, odd_channels."""
    def __init__(self, in_channels: int, out_channels: int, kernel_size: Union[int, Sequence[int]], stride: Union[int,
                 Sequence[int]] = 1, padding: Union[int, Sequence[int]] = 0, output_padding: Union[int,
                 Sequence[int]] = 0, groups: int = 1, bias: bool = True, dilation: Union[int, Sequence[int]] = 1,
                 padding_mode: Literal['zeros', 'reflect', 'replicate', 'circular'] = 'zeros', device: Any = None,
                 dtype: Optional[torch.dtype] = None, *, domain: Domain, padding_by: Literal['mode', 'domain'] = ...,
                 odd_channels: Optional[Sequence[int]] = ...) -> None: ...

class ConvTranspose2d(_Sharded, nn.ConvTranspose2d):
    """`torch.nn.ConvTranspose2d` of the whole field: its arguments, and domain, padding_by, odd_channels."""
    def __init__(self, in_channels: int, out_channels: int, kernel_size: Union[int, Sequence[int]], stride: Union[int,
                 Sequence[int]] = 1, padding: Union[int, Sequence[int]] = 0, output_padding: Union[int,
                 Sequence[int]] = 0, groups: int = 1, bias: bool = True, dilation: Union[int, Sequence[int]] = 1,
                 padding_mode: Literal['zeros', 'reflect', 'replicate', 'circular'] = 'zeros', device: Any = None,
                 dtype: Optional[torch.dtype] = None, *, domain: Domain, padding_by: Literal['mode', 'domain'] = ...,
                 odd_channels: Optional[Sequence[int]] = ...) -> None: ...

class ConvTranspose3d(_Sharded, nn.ConvTranspose3d):
    """`torch.nn.ConvTranspose3d` of the whole field: its arguments, and domain, padding_by, odd_channels."""
    def __init__(self, in_channels: int, out_channels: int, kernel_size: Union[int, Sequence[int]], stride: Union[int,
                 Sequence[int]] = 1, padding: Union[int, Sequence[int]] = 0, output_padding: Union[int,
                 Sequence[int]] = 0, groups: int = 1, bias: bool = True, dilation: Union[int, Sequence[int]] = 1,
                 padding_mode: Literal['zeros', 'reflect', 'replicate', 'circular'] = 'zeros', device: Any = None,
                 dtype: Optional[torch.dtype] = None, *, domain: Domain, padding_by: Literal['mode', 'domain'] = ...,
                 odd_channels: Optional[Sequence[int]] = ...) -> None: ...

class Dropout(_Sharded, nn.Dropout):
    """`torch.nn.Dropout` of the whole field: its arguments, and domain, seed, layer, first_sample, sharding_axes."""
    def __init__(self, p: float = 0.5, inplace: bool = False, *, domain: Domain, seed: int = ..., layer: int = ...,
                 first_sample: int = ..., sharding_axes: Sequence[int] = ...) -> None: ...

class Dropout2d(_Sharded, nn.Dropout2d):
    """`torch.nn.Dropout2d` of the whole field: its arguments, and domain, seed, layer, first_sample."""
    def __init__(self, p: float = 0.5, inplace: bool = False, *, domain: Domain, seed: int = ..., layer: int = ...,
                 first_sample: int = ...) -> None: ...

class Dropout3d(_Sharded, nn.Dropout3d):
    """`torch.nn.Dropout3d` of the whole field: its arguments, and domain, seed, layer, first_sample."""
    def __init__(self, p: float = 0.5, inplace: bool = False, *, domain: Domain, seed: int = ..., layer: int = ...,
                 first_sample: int = ...) -> None: ...

class GroupNorm(_Sharded, nn.GroupNorm):
    """`torch.nn.GroupNorm` of the whole field: its arguments, and domain."""
    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-05, affine: bool = True, device: Any = None,
                 dtype: Optional[torch.dtype] = None, *, bias: bool = True, domain: Domain) -> None: ...

class InstanceNorm1d(_Sharded, nn.InstanceNorm1d):
    """`torch.nn.InstanceNorm1d` of the whole field: its arguments, and domain."""
    def __init__(self, num_features: int, eps: float = 1e-05, momentum: float = 0.1, affine: bool = False,
                 track_running_stats: bool = False, device: Any = None, dtype: Optional[torch.dtype] = None, *,
                 bias: bool = True, domain: Domain) -> None: ...

class InstanceNorm2d(_Sharded, nn.InstanceNorm2d):
    """`torch.nn.InstanceNorm2d` of the whole field: its arguments, and domain."""
    def __init__(self, num_features: int, eps: float = 1e-05, momentum: float = 0.1, affine: bool = False,
                 track_running_stats: bool = False, device: Any = None, dtype: Optional[torch.dtype] = None, *,
                 bias: bool = True, domain: Domain) -> None: ...

class InstanceNorm3d(_Sharded, nn.InstanceNorm3d):
    """`torch.nn.InstanceNorm3d` of the whole field: its arguments, and domain."""
    def __init__(self, num_features: int, eps: float = 1e-05, momentum: float = 0.1, affine: bool = False,
                 track_running_stats: bool = False, device: Any = None, dtype: Optional[torch.dtype] = None, *,
                 bias: bool = True, domain: Domain) -> None: ...

class LPPool1d(_Sharded, nn.LPPool1d):
    """`torch.nn.LPPool1d` of the whole field: its arguments, and domain, padding_by, odd_channels."""
    def __init__(self, norm_type: float, kernel_size: Union[int, Sequence[int]], stride: Union[int, Sequence[int],
                 None] = None, ceil_mode: bool = False, *, domain: Domain, padding_by: Literal['mode', 'domain'] = ...,
                 odd_channels: Optional[Sequence[int]] = ...) -> None: ...

class LPPool2d(_Sharded, nn.LPPool2d):
    """`torch.nn.LPPool2d` of the whole field: its arguments, and domain, padding_by, odd_channels."""
    def __init__(self, norm_type: float, kernel_size: Union[int, Sequence[int]], stride: Union[int, Sequence[int],
                 None] = None, ceil_mode: bool = False, *, domain: Domain, padding_by: Literal['mode', 'domain'] = ...,
                 odd_channels: Optional[Sequence[int]] = ...) -> None: ...

class LPPool3d(_Sharded, nn.LPPool3d):
    """`torch.nn.LPPool3d` of the whole field: its arguments, and domain, padding_by, odd_channels."""
    def __init__(self, norm_type: float, kernel_size: Union[int, Sequence[int]], stride: Union[int, Sequence[int],
                 None] = None, ceil_mode: bool = False, *, domain: Domain, padding_by: Literal['mode', 'domain'] = ...,
                 odd_channels: Optional[Sequence[int]] = ...) -> None: ...

class LayerNorm(_Sharded, nn.LayerNorm):
    """`torch.nn.LayerNorm` of the whole field: its arguments, and domain, sharding_axes."""
    def __init__(self, normalized_shape: int | list[int] | torch.Size, eps: float = 1e-05,
                 elementwise_affine: bool = True, bias: bool = True, device: Any = None,
                 dtype: Optional[torch.dtype] = None, *, domain: Domain,
                 sharding_axes: Sequence[int] = ...) -> None: ...

class LocalResponseNorm(_Sharded, nn.LocalResponseNorm):
    """`torch.nn.LocalResponseNorm` of the whole field: its arguments, and domain."""
    def __init__(self, size: int, alpha: float = 0.0001, beta: float = 0.75, k: float = 1.0, *,
                 domain: Domain) -> None: ...

class MaxPool1d(_Sharded, nn.MaxPool1d):
    """`torch.nn.MaxPool1d` of the whole field: its arguments, and domain, padding_by, odd_channels."""
    def __init__(self, kernel_size: Union[int, Sequence[int]], stride: Union[int, Sequence[int], None] = None,
                 padding: Union[int, Sequence[int]] = 0, dilation: Union[int, Sequence[int]] = 1,
                 return_indices: bool = False, ceil_mode: bool = False, *, domain: Domain, padding_by: Literal['mode',
                 'domain'] = ..., odd_channels: Optional[Sequence[int]] = ...) -> None: ...

class MaxPool2d(_Sharded, nn.MaxPool2d):
    """`torch.nn.MaxPool2d` of the whole field: its arguments, and domain, padding_by, odd_channels."""
    def __init__(self, kernel_size: Union[int, Sequence[int]], stride: Union[int, Sequence[int], None] = None,
                 padding: Union[int, Sequence[int]] = 0, dilation: Union[int, Sequence[int]] = 1,
                 return_indices: bool = False, ceil_mode: bool = False, *, domain: Domain, padding_by: Literal['mode',
                 'domain'] = ..., odd_channels: Optional[Sequence[int]] = ...) -> None: ...

class MaxPool3d(_Sharded, nn.MaxPool3d):
    """`torch.nn.MaxPool3d` of the whole field: its arguments, and domain, padding_by, odd_channels."""
    def __init__(self, kernel_size: Union[int, Sequence[int]], stride: Union[int, Sequence[int], None] = None,
                 padding: Union[int, Sequence[int]] = 0, dilation: Union[int, Sequence[int]] = 1,
                 return_indices: bool = False, ceil_mode: bool = False, *, domain: Domain, padding_by: Literal['mode',
                 'domain'] = ..., odd_channels: Optional[Sequence[int]] = ...) -> None: ...

class MaxUnpool1d(_Sharded, nn.MaxUnpool1d):
    """`torch.nn.MaxUnpool1d` of the whole field: its arguments, and domain."""
    def __init__(self, kernel_size: Union[int, Sequence[int]], stride: Union[int, Sequence[int], None] = None,
                 padding: Union[int, Sequence[int]] = 0, *, domain: Domain) -> None: ...

class MaxUnpool2d(_Sharded, nn.MaxUnpool2d):
    """`torch.nn.MaxUnpool2d` of the whole field: its arguments, and domain."""
    def __init__(self, kernel_size: Union[int, Sequence[int]], stride: Union[int, Sequence[int], None] = None,
                 padding: Union[int, Sequence[int]] = 0, *, domain: Domain) -> None: ...

class MaxUnpool3d(_Sharded, nn.MaxUnpool3d):
    """`torch.nn.MaxUnpool3d` of the whole field: its arguments, and domain."""
    def __init__(self, kernel_size: Union[int, Sequence[int]], stride: Union[int, Sequence[int], None] = None,
                 padding: Union[int, Sequence[int]] = 0, *, domain: Domain) -> None: ...

class PixelShuffle(_Sharded, nn.PixelShuffle):
    """`torch.nn.PixelShuffle` of the whole field: its arguments, and domain."""
    def __init__(self, upscale_factor: int, *, domain: Domain) -> None: ...

class PixelUnshuffle(_Sharded, nn.PixelUnshuffle):
    """`torch.nn.PixelUnshuffle` of the whole field: its arguments, and domain."""
    def __init__(self, downscale_factor: int, *, domain: Domain) -> None: ...

class RMSNorm(_Sharded, nn.RMSNorm):
    """`torch.nn.RMSNorm` of the whole field: its arguments, and domain, sharding_axes."""
    def __init__(self, normalized_shape: int | list[int] | torch.Size, eps: float | None = None,
                 elementwise_affine: bool = True, device: Any = None, dtype: Optional[torch.dtype] = None, *,
                 domain: Domain, sharding_axes: Sequence[int] = ...) -> None: ...

class ReflectionPad1d(_Sharded, nn.ReflectionPad1d):
    """`torch.nn.ReflectionPad1d` of the whole field: its arguments, and domain."""
    def __init__(self, padding: Union[int, Sequence[int]], *, domain: Domain) -> None: ...

class ReflectionPad2d(_Sharded, nn.ReflectionPad2d):
    """`torch.nn.ReflectionPad2d` of the whole field: its arguments, and domain."""
    def __init__(self, padding: Union[int, Sequence[int]], *, domain: Domain) -> None: ...

class ReflectionPad3d(_Sharded, nn.ReflectionPad3d):
    """`torch.nn.ReflectionPad3d` of the whole field: its arguments, and domain."""
    def __init__(self, padding: Union[int, Sequence[int]], *, domain: Domain) -> None: ...

class ReplicationPad1d(_Sharded, nn.ReplicationPad1d):
    """`torch.nn.ReplicationPad1d` of the whole field: its arguments, and domain."""
    def __init__(self, padding: Union[int, Sequence[int]], *, domain: Domain) -> None: ...

class ReplicationPad2d(_Sharded, nn.ReplicationPad2d):
    """`torch.nn.ReplicationPad2d` of the whole field: its arguments, and domain."""
    def __init__(self, padding: Union[int, Sequence[int]], *, domain: Domain) -> None: ...

class ReplicationPad3d(_Sharded, nn.ReplicationPad3d):
    """`torch.nn.ReplicationPad3d` of the whole field: its arguments, and domain."""
    def __init__(self, padding: Union[int, Sequence[int]], *, domain: Domain) -> None: ...

class Upsample(_Sharded, nn.Upsample):
    """`torch.nn.Upsample` of the whole field: its arguments, and domain, padding_by, odd_channels."""
    def __init__(self, size: Union[int, Sequence[int], None] = None, scale_factor: Union[float, Sequence[float],
                 None] = None, mode: str = 'nearest', align_corners: bool | None = None,
                 recompute_scale_factor: bool | None = None, *, domain: Domain, padding_by: Literal['mode',
                 'domain'] = ..., odd_channels: Optional[Sequence[int]] = ...) -> None: ...

class UpsamplingBilinear2d(_Sharded, nn.UpsamplingBilinear2d):
    """`torch.nn.UpsamplingBilinear2d` of the whole field: its arguments, and domain."""
    def __init__(self, size: Union[int, Sequence[int], None] = None, scale_factor: Union[float, Sequence[float],
                 None] = None, *, domain: Domain) -> None: ...

class UpsamplingNearest2d(_Sharded, nn.UpsamplingNearest2d):
    """`torch.nn.UpsamplingNearest2d` of the whole field: its arguments, and domain."""
    def __init__(self, size: Union[int, Sequence[int], None] = None, scale_factor: Union[float, Sequence[float],
                 None] = None, *, domain: Domain) -> None: ...

class ZeroPad1d(_Sharded, nn.ZeroPad1d):
    """`torch.nn.ZeroPad1d` of the whole field: its arguments, and domain."""
    def __init__(self, padding: Union[int, Sequence[int]], *, domain: Domain) -> None: ...

class ZeroPad2d(_Sharded, nn.ZeroPad2d):
    """`torch.nn.ZeroPad2d` of the whole field: its arguments, and domain."""
    def __init__(self, padding: Union[int, Sequence[int]], *, domain: Domain) -> None: ...

class ZeroPad3d(_Sharded, nn.ZeroPad3d):
    """`torch.nn.ZeroPad3d` of the whole field: its arguments, and domain."""
    def __init__(self, padding: Union[int, Sequence[int]], *, domain: Domain) -> None: ...
