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

class AdaptiveAvgPool1d(nn.AdaptiveAvgPool1d):
    """`torch.nn.AdaptiveAvgPool1d` of the whole field: its arguments, and domain."""
    def __init__(self, output_size: Union[int, None, Sequence[Optional[int]]], *, domain: Domain) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class AdaptiveAvgPool2d(nn.AdaptiveAvgPool2d):
    """`torch.nn.AdaptiveAvgPool2d` of the whole field: its arguments, and domain."""
    def __init__(self, output_size: Union[int, None, Sequence[Optional[int]]], *, domain: Domain) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class AdaptiveAvgPool3d(nn.AdaptiveAvgPool3d):
    """`torch.nn.AdaptiveAvgPool3d` of the whole field: its arguments, and domain."""
    def __init__(self, output_size: Union[int, None, Sequence[Optional[int]]], *, domain: Domain) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class AdaptiveMaxPool1d(nn.AdaptiveMaxPool1d):
    """`torch.nn.AdaptiveMaxPool1d` of the whole field: its arguments, and domain."""
    def __init__(self, output_size: Union[int, None, Sequence[Optional[int]]], return_indices: bool = False, *,
                 domain: Domain) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class AdaptiveMaxPool2d(nn.AdaptiveMaxPool2d):
    """`torch.nn.AdaptiveMaxPool2d` of the whole field: its arguments, and domain."""
    def __init__(self, output_size: Union[int, None, Sequence[Optional[int]]], return_indices: bool = False, *,
                 domain: Domain) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class AdaptiveMaxPool3d(nn.AdaptiveMaxPool3d):
    """`torch.nn.AdaptiveMaxPool3d` of the whole field: its arguments, and domain."""
    def __init__(self, output_size: Union[int, None, Sequence[Optional[int]]], return_indices: bool = False, *,
                 domain: Domain) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class AlphaDropout(nn.AlphaDropout):
    """`torch.nn.AlphaDropout` of the whole field: its arguments, and domain, seed, layer, first_sample, sharding_axes."""
    def __init__(self, p: float = 0.5, inplace: bool = False, *, domain: Domain, seed: int = ..., layer: int = ...,
                 first_sample: int = ..., sharding_axes: Sequence[int] = ...) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class AvgPool1d(nn.AvgPool1d):
    """`torch.nn.AvgPool1d` of the whole field: its arguments, and domain, padding_by, odd_channels."""
    def __init__(self, kernel_size: Union[int, Sequence[int]], stride: Optional[Union[int, Sequence[int]]] = None,
                 padding: Union[int, Sequence[int]] = 0, ceil_mode: bool = False, count_include_pad: bool = True, *,
                 domain: Domain, padding_by: Literal['mode', 'domain'] = ...,
                 odd_channels: Optional[Sequence[int]] = ...) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class AvgPool2d(nn.AvgPool2d):
    """`torch.nn.AvgPool2d` of the whole field: its arguments, and domain, padding_by, odd_channels."""
    def __init__(self, kernel_size: Union[int, Sequence[int]], stride: Union[int, Sequence[int], None] = None,
                 padding: Union[int, Sequence[int]] = 0, ceil_mode: bool = False, count_include_pad: bool = True,
                 divisor_override: int | None = None, *, domain: Domain, padding_by: Literal['mode', 'domain'] = ...,
                 odd_channels: Optional[Sequence[int]] = ...) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class AvgPool3d(nn.AvgPool3d):
    """`torch.nn.AvgPool3d` of the whole field: its arguments, and domain, padding_by, odd_channels."""
    def __init__(self, kernel_size: Union[int, Sequence[int]], stride: Union[int, Sequence[int], None] = None,
                 padding: Union[int, Sequence[int]] = 0, ceil_mode: bool = False, count_include_pad: bool = True,
                 divisor_override: int | None = None, *, domain: Domain, padding_by: Literal['mode', 'domain'] = ...,
                 odd_channels: Optional[Sequence[int]] = ...) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class BatchNorm1d(nn.BatchNorm1d):
    """`torch.nn.BatchNorm1d` of the whole field: its arguments, and domain."""
    def __init__(self, num_features: int, eps: float = 1e-05, momentum: float | None = 0.1, affine: bool = True,
                 track_running_stats: bool = True, device: Any = None, dtype: Optional[torch.dtype] = None, *,
                 bias: bool = True, domain: Domain) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class BatchNorm2d(nn.BatchNorm2d):
    """`torch.nn.BatchNorm2d` of the whole field: its arguments, and domain."""
    def __init__(self, num_features: int, eps: float = 1e-05, momentum: float | None = 0.1, affine: bool = True,
                 track_running_stats: bool = True, device: Any = None, dtype: Optional[torch.dtype] = None, *,
                 bias: bool = True, domain: Domain) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class BatchNorm3d(nn.BatchNorm3d):
    """`torch.nn.BatchNorm3d` of the whole field: its arguments, and domain."""
    def __init__(self, num_features: int, eps: float = 1e-05, momentum: float | None = 0.1, affine: bool = True,
                 track_running_stats: bool = True, device: Any = None, dtype: Optional[torch.dtype] = None, *,
                 bias: bool = True, domain: Domain) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class CircularPad1d(nn.CircularPad1d):
    """`torch.nn.CircularPad1d` of the whole field: its arguments, and domain."""
    def __init__(self, padding: Union[int, Sequence[int]], *, domain: Domain) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class CircularPad2d(nn.CircularPad2d):
    """`torch.nn.CircularPad2d` of the whole field: its arguments, and domain."""
    def __init__(self, padding: Union[int, Sequence[int]], *, domain: Domain) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class CircularPad3d(nn.CircularPad3d):
    """`torch.nn.CircularPad3d` of the whole field: its arguments, and domain."""
    def __init__(self, padding: Union[int, Sequence[int]], *, domain: Domain) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class ConstantPad1d(nn.ConstantPad1d):
    """`torch.nn.ConstantPad1d` of the whole field: its arguments, and domain."""
    def __init__(self, padding: Union[int, Sequence[int]], value: float, *, domain: Domain) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class ConstantPad2d(nn.ConstantPad2d):
    """`torch.nn.ConstantPad2d` of the whole field: its arguments, and domain."""
    def __init__(self, padding: Union[int, Sequence[int]], value: float, *, domain: Domain) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class ConstantPad3d(nn.ConstantPad3d):
    """`torch.nn.ConstantPad3d` of the whole field: its arguments, and domain."""
    def __init__(self, padding: Union[int, Sequence[int]], value: float, *, domain: Domain) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class Conv1d(nn.Conv1d):
    """`torch.nn.Conv1d` of the whole field: its arguments, and domain, padding_by, odd_channels."""
    def __init__(self, in_channels: int, out_channels: int, kernel_size: Union[int, Sequence[int]], stride: Union[int,
                 Sequence[int]] = 1, padding: Union[str, int, Sequence[int]] = 0, dilation: Union[int,
                 Sequence[int]] = 1, groups: int = 1, bias: bool = True, padding_mode: Literal['zeros', 'reflect',
                 'replicate', 'circular'] = 'zeros', device: Any = None, dtype: Optional[torch.dtype] = None, *,
                 domain: Domain, padding_by: Literal['mode', 'domain'] = ...,
                 odd_channels: Optional[Sequence[int]] = ...) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class Conv2d(nn.Conv2d):
    """`torch.nn.Conv2d` of the whole field: its arguments, and domain, padding_by, odd_channels."""
    def __init__(self, in_channels: int, out_channels: int, kernel_size: Union[int, Sequence[int]], stride: Union[int,
                 Sequence[int]] = 1, padding: Union[str, int, Sequence[int]] = 0, dilation: Union[int,
                 Sequence[int]] = 1, groups: int = 1, bias: bool = True, padding_mode: Literal['zeros', 'reflect',
                 'replicate', 'circular'] = 'zeros', device: Any = None, dtype: Optional[torch.dtype] = None, *,
                 domain: Domain, padding_by: Literal['mode', 'domain'] = ...,
                 odd_channels: Optional[Sequence[int]] = ...) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class Conv3d(nn.Conv3d):
    """`torch.nn.Conv3d` of the whole field: its arguments, and domain, padding_by, odd_channels."""
    def __init__(self, in_channels: int, out_channels: int, kernel_size: Union[int, Sequence[int]], stride: Union[int,
                 Sequence[int]] = 1, padding: Union[str, int, Sequence[int]] = 0, dilation: Union[int,
                 Sequence[int]] = 1, groups: int = 1, bias: bool = True, padding_mode: Literal['zeros', 'reflect',
                 'replicate', 'circular'] = 'zeros', device: Any = None, dtype: Optional[torch.dtype] = None, *,
                 domain: Domain, padding_by: Literal['mode', 'domain'] = ...,
                 odd_channels: Optional[Sequence[int]] = ...) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class ConvTranspose1d(nn.ConvTranspose1d):
    """`torch.nn.ConvTranspose1d` of the whole field: its arguments, and domain, padding_by, odd_channels."""
    def __init__(self, in_channels: int, out_channels: int, kernel_size: Union[int, Sequence[int]], stride: Union[int,
                 Sequence[int]] = 1, padding: Union[int, Sequence[int]] = 0, output_padding: Union[int,
                 Sequence[int]] = 0, groups: int = 1, bias: bool = True, dilation: Union[int, Sequence[int]] = 1,
                 padding_mode: Literal['zeros', 'reflect', 'replicate', 'circular'] = 'zeros', device: Any = None,
                 dtype: Optional[torch.dtype] = None, *, domain: Domain, padding_by: Literal['mode', 'domain'] = ...,
                 odd_channels: Optional[Sequence[int]] = ...) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class ConvTranspose2d(nn.ConvTranspose2d):
    """`torch.nn.ConvTranspose2d` of the whole field: its arguments, and domain, padding_by, odd_channels."""
    def __init__(self, in_channels: int, out_channels: int, kernel_size: Union[int, Sequence[int]], stride: Union[int,
                 Sequence[int]] = 1, padding: Union[int, Sequence[int]] = 0, output_padding: Union[int,
                 Sequence[int]] = 0, groups: int = 1, bias: bool = True, dilation: Union[int, Sequence[int]] = 1,
                 padding_mode: Literal['zeros', 'reflect', 'replicate', 'circular'] = 'zeros', device: Any = None,
                 dtype: Optional[torch.dtype] = None, *, domain: Domain, padding_by: Literal['mode', 'domain'] = ...,
                 odd_channels: Optional[Sequence[int]] = ...) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class ConvTranspose3d(nn.ConvTranspose3d):
    """`torch.nn.ConvTranspose3d` of the whole field: its arguments, and domain, padding_by, odd_channels."""
    def __init__(self, in_channels: int, out_channels: int, kernel_size: Union[int, Sequence[int]], stride: Union[int,
                 Sequence[int]] = 1, padding: Union[int, Sequence[int]] = 0, output_padding: Union[int,
                 Sequence[int]] = 0, groups: int = 1, bias: bool = True, dilation: Union[int, Sequence[int]] = 1,
                 padding_mode: Literal['zeros', 'reflect', 'replicate', 'circular'] = 'zeros', device: Any = None,
                 dtype: Optional[torch.dtype] = None, *, domain: Domain, padding_by: Literal['mode', 'domain'] = ...,
                 odd_channels: Optional[Sequence[int]] = ...) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class Dropout(nn.Dropout):
    """`torch.nn.Dropout` of the whole field: its arguments, and domain, seed, layer, first_sample, sharding_axes."""
    def __init__(self, p: float = 0.5, inplace: bool = False, *, domain: Domain, seed: int = ..., layer: int = ...,
                 first_sample: int = ..., sharding_axes: Sequence[int] = ...) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class Dropout2d(nn.Dropout2d):
    """`torch.nn.Dropout2d` of the whole field: its arguments, and domain, seed, layer, first_sample."""
    def __init__(self, p: float = 0.5, inplace: bool = False, *, domain: Domain, seed: int = ..., layer: int = ...,
                 first_sample: int = ...) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class Dropout3d(nn.Dropout3d):
    """`torch.nn.Dropout3d` of the whole field: its arguments, and domain, seed, layer, first_sample."""
    def __init__(self, p: float = 0.5, inplace: bool = False, *, domain: Domain, seed: int = ..., layer: int = ...,
                 first_sample: int = ...) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class GroupNorm(nn.GroupNorm):
    """`torch.nn.GroupNorm` of the whole field: its arguments, and domain."""
    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-05, affine: bool = True, device: Any = None,
                 dtype: Optional[torch.dtype] = None, *, bias: bool = True, domain: Domain) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class InstanceNorm1d(nn.InstanceNorm1d):
    """`torch.nn.InstanceNorm1d` of the whole field: its arguments, and domain."""
    def __init__(self, num_features: int, eps: float = 1e-05, momentum: float = 0.1, affine: bool = False,
                 track_running_stats: bool = False, device: Any = None, dtype: Optional[torch.dtype] = None, *,
                 bias: bool = True, domain: Domain) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class InstanceNorm2d(nn.InstanceNorm2d):
    """`torch.nn.InstanceNorm2d` of the whole field: its arguments, and domain."""
    def __init__(self, num_features: int, eps: float = 1e-05, momentum: float = 0.1, affine: bool = False,
                 track_running_stats: bool = False, device: Any = None, dtype: Optional[torch.dtype] = None, *,
                 bias: bool = True, domain: Domain) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class InstanceNorm3d(nn.InstanceNorm3d):
    """`torch.nn.InstanceNorm3d` of the whole field: its arguments, and domain."""
    def __init__(self, num_features: int, eps: float = 1e-05, momentum: float = 0.1, affine: bool = False,
                 track_running_stats: bool = False, device: Any = None, dtype: Optional[torch.dtype] = None, *,
                 bias: bool = True, domain: Domain) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class LPPool1d(nn.LPPool1d):
    """`torch.nn.LPPool1d` of the whole field: its arguments, and domain, padding_by, odd_channels."""
    def __init__(self, norm_type: float, kernel_size: Union[int, Sequence[int]], stride: Union[int, Sequence[int],
                 None] = None, ceil_mode: bool = False, *, domain: Domain, padding_by: Literal['mode', 'domain'] = ...,
                 odd_channels: Optional[Sequence[int]] = ...) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class LPPool2d(nn.LPPool2d):
    """`torch.nn.LPPool2d` of the whole field: its arguments, and domain, padding_by, odd_channels."""
    def __init__(self, norm_type: float, kernel_size: Union[int, Sequence[int]], stride: Union[int, Sequence[int],
                 None] = None, ceil_mode: bool = False, *, domain: Domain, padding_by: Literal['mode', 'domain'] = ...,
                 odd_channels: Optional[Sequence[int]] = ...) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class LPPool3d(nn.LPPool3d):
    """`torch.nn.LPPool3d` of the whole field: its arguments, and domain, padding_by, odd_channels."""
    def __init__(self, norm_type: float, kernel_size: Union[int, Sequence[int]], stride: Union[int, Sequence[int],
                 None] = None, ceil_mode: bool = False, *, domain: Domain, padding_by: Literal['mode', 'domain'] = ...,
                 odd_channels: Optional[Sequence[int]] = ...) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class LayerNorm(nn.LayerNorm):
    """`torch.nn.LayerNorm` of the whole field: its arguments, and domain, sharding_axes."""
    def __init__(self, normalized_shape: int | list[int] | torch.Size, eps: float = 1e-05,
                 elementwise_affine: bool = True, bias: bool = True, device: Any = None,
                 dtype: Optional[torch.dtype] = None, *, domain: Domain,
                 sharding_axes: Sequence[int] = ...) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class LocalResponseNorm(nn.LocalResponseNorm):
    """`torch.nn.LocalResponseNorm` of the whole field: its arguments, and domain."""
    def __init__(self, size: int, alpha: float = 0.0001, beta: float = 0.75, k: float = 1.0, *,
                 domain: Domain) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class MaxPool1d(nn.MaxPool1d):
    """`torch.nn.MaxPool1d` of the whole field: its arguments, and domain, padding_by, odd_channels."""
    def __init__(self, kernel_size: Union[int, Sequence[int]], stride: Union[int, Sequence[int], None] = None,
                 padding: Union[int, Sequence[int]] = 0, dilation: Union[int, Sequence[int]] = 1,
                 return_indices: bool = False, ceil_mode: bool = False, *, domain: Domain, padding_by: Literal['mode',
                 'domain'] = ..., odd_channels: Optional[Sequence[int]] = ...) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class MaxPool2d(nn.MaxPool2d):
    """`torch.nn.MaxPool2d` of the whole field: its arguments, and domain, padding_by, odd_channels."""
    def __init__(self, kernel_size: Union[int, Sequence[int]], stride: Union[int, Sequence[int], None] = None,
                 padding: Union[int, Sequence[int]] = 0, dilation: Union[int, Sequence[int]] = 1,
                 return_indices: bool = False, ceil_mode: bool = False, *, domain: Domain, padding_by: Literal['mode',
                 'domain'] = ..., odd_channels: Optional[Sequence[int]] = ...) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class MaxPool3d(nn.MaxPool3d):
    """`torch.nn.MaxPool3d` of the whole field: its arguments, and domain, padding_by, odd_channels."""
    def __init__(self, kernel_size: Union[int, Sequence[int]], stride: Union[int, Sequence[int], None] = None,
                 padding: Union[int, Sequence[int]] = 0, dilation: Union[int, Sequence[int]] = 1,
                 return_indices: bool = False, ceil_mode: bool = False, *, domain: Domain, padding_by: Literal['mode',
                 'domain'] = ..., odd_channels: Optional[Sequence[int]] = ...) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class MaxUnpool1d(nn.MaxUnpool1d):
    """`torch.nn.MaxUnpool1d` of the whole field: its arguments, and domain."""
    def __init__(self, kernel_size: Union[int, Sequence[int]], stride: Union[int, Sequence[int], None] = None,
                 padding: Union[int, Sequence[int]] = 0, *, domain: Domain) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class MaxUnpool2d(nn.MaxUnpool2d):
    """`torch.nn.MaxUnpool2d` of the whole field: its arguments, and domain."""
    def __init__(self, kernel_size: Union[int, Sequence[int]], stride: Union[int, Sequence[int], None] = None,
                 padding: Union[int, Sequence[int]] = 0, *, domain: Domain) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class MaxUnpool3d(nn.MaxUnpool3d):
    """`torch.nn.MaxUnpool3d` of the whole field: its arguments, and domain."""
    def __init__(self, kernel_size: Union[int, Sequence[int]], stride: Union[int, Sequence[int], None] = None,
                 padding: Union[int, Sequence[int]] = 0, *, domain: Domain) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class PixelShuffle(nn.PixelShuffle):
    """`torch.nn.PixelShuffle` of the whole field: its arguments, and domain."""
    def __init__(self, upscale_factor: int, *, domain: Domain) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class PixelUnshuffle(nn.PixelUnshuffle):
    """`torch.nn.PixelUnshuffle` of the whole field: its arguments, and domain."""
    def __init__(self, downscale_factor: int, *, domain: Domain) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class RMSNorm(nn.RMSNorm):
    """`torch.nn.RMSNorm` of the whole field: its arguments, and domain, sharding_axes."""
    def __init__(self, normalized_shape: int | list[int] | torch.Size, eps: float | None = None,
                 elementwise_affine: bool = True, device: Any = None, dtype: Optional[torch.dtype] = None, *,
                 domain: Domain, sharding_axes: Sequence[int] = ...) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class ReflectionPad1d(nn.ReflectionPad1d):
    """`torch.nn.ReflectionPad1d` of the whole field: its arguments, and domain."""
    def __init__(self, padding: Union[int, Sequence[int]], *, domain: Domain) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class ReflectionPad2d(nn.ReflectionPad2d):
    """`torch.nn.ReflectionPad2d` of the whole field: its arguments, and domain."""
    def __init__(self, padding: Union[int, Sequence[int]], *, domain: Domain) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class ReflectionPad3d(nn.ReflectionPad3d):
    """`torch.nn.ReflectionPad3d` of the whole field: its arguments, and domain."""
    def __init__(self, padding: Union[int, Sequence[int]], *, domain: Domain) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class ReplicationPad1d(nn.ReplicationPad1d):
    """`torch.nn.ReplicationPad1d` of the whole field: its arguments, and domain."""
    def __init__(self, padding: Union[int, Sequence[int]], *, domain: Domain) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class ReplicationPad2d(nn.ReplicationPad2d):
    """`torch.nn.ReplicationPad2d` of the whole field: its arguments, and domain."""
    def __init__(self, padding: Union[int, Sequence[int]], *, domain: Domain) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class ReplicationPad3d(nn.ReplicationPad3d):
    """`torch.nn.ReplicationPad3d` of the whole field: its arguments, and domain."""
    def __init__(self, padding: Union[int, Sequence[int]], *, domain: Domain) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class Upsample(nn.Upsample):
    """`torch.nn.Upsample` of the whole field: its arguments, and domain, padding_by, odd_channels."""
    def __init__(self, size: Union[int, Sequence[int], None] = None, scale_factor: Union[float, Sequence[float],
                 None] = None, mode: str = 'nearest', align_corners: bool | None = None,
                 recompute_scale_factor: bool | None = None, *, domain: Domain, padding_by: Literal['mode',
                 'domain'] = ..., odd_channels: Optional[Sequence[int]] = ...) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class UpsamplingBilinear2d(nn.UpsamplingBilinear2d):
    """`torch.nn.UpsamplingBilinear2d` of the whole field: its arguments, and domain."""
    def __init__(self, size: Union[int, Sequence[int], None] = None, scale_factor: Union[float, Sequence[float],
                 None] = None, *, domain: Domain) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class UpsamplingNearest2d(nn.UpsamplingNearest2d):
    """`torch.nn.UpsamplingNearest2d` of the whole field: its arguments, and domain."""
    def __init__(self, size: Union[int, Sequence[int], None] = None, scale_factor: Union[float, Sequence[float],
                 None] = None, *, domain: Domain) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class ZeroPad1d(nn.ZeroPad1d):
    """`torch.nn.ZeroPad1d` of the whole field: its arguments, and domain."""
    def __init__(self, padding: Union[int, Sequence[int]], *, domain: Domain) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class ZeroPad2d(nn.ZeroPad2d):
    """`torch.nn.ZeroPad2d` of the whole field: its arguments, and domain."""
    def __init__(self, padding: Union[int, Sequence[int]], *, domain: Domain) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...

class ZeroPad3d(nn.ZeroPad3d):
    """`torch.nn.ZeroPad3d` of the whole field: its arguments, and domain."""
    def __init__(self, padding: Union[int, Sequence[int]], *, domain: Domain) -> None: ...
    def forward_like(self, x: torch.Tensor, like: torch.Tensor) -> torch.Tensor: ...
