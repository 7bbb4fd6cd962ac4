# SPDX-License-Identifier: BSD-3-Clause
"""`import graticule.xarray` gives Datasets and DataArrays the accessor `.graticule`: `data.graticule.shard(domain)`."""
from ._xarray import FieldShard, open_shard, register_accessor, to_dataset

register_accessor()

__all__ = ["FieldShard", "open_shard", "to_dataset"]
