# SPDX-License-Identifier: BSD-3-Clause
"""Graticule: domain decomposition of latitude-longitude grids over MPI ranks, for PyTorch models and for arrays."""
from . import _mpi

_mpi.load()
__path__.insert(0, str(_mpi.folder))  # of the compiled parts: those for another MPI library are beside this file
from . import _launch

_launch.launch_at_import()
from . import engine, nn
from ._collectives import (all_sum, all_to_all, broadcast, checkpoint, copy_to_region, gather, gather_to_root,
                           reduce_loss, reduce_scatter, rollout, scatter, scatter_from_root, sum_to_root)
from ._cuts import NotSharded, field, whole
from ._domain import AxisPart, Domain, FieldPart, part_of, shard_of, whole_field
from ._dtensor import from_dtensor, to_dtensor
from ._errors import Error
from ._forecaster import Forecaster
from ._groups import init_process_group, register_backend as _register_backend, team_of
from ._launch import launch
from ._library import start
from ._program import Program, ProgramInput, ProgramNode, ProgramReport, ShardedProgram, shard_program
from ._samples import SampleDataset, open_samples
from ._shard import ShardedModule, ShardReport, Trial, reset_structure, shard, try_sharded
from ._training import Daso, DataParallel, GradientSync, Join, ShardedParameters, load_model, save_model
from ._xarray import FieldShard, open_shard, to_dataset

_register_backend()

__all__ = ["AxisPart", "Daso", "DataParallel", "Domain", "Error", "FieldPart", "FieldShard", "Forecaster", "GradientSync",
           "Join", "NotSharded", "Program", "ProgramInput", "ProgramNode", "ProgramReport", "SampleDataset", "ShardReport", "ShardedModule",
           "ShardedParameters", "ShardedProgram", "Trial", "all_sum", "all_to_all", "broadcast", "checkpoint", "copy_to_region",
           "engine", "field", "from_dtensor", "gather", "gather_to_root", "init_process_group", "launch", "load_model", "nn",
           "open_samples", "open_shard", "part_of", "reduce_loss", "reduce_scatter", "reset_structure", "rollout", "save_model", "scatter",
           "scatter_from_root", "shard", "shard_of", "shard_program", "start", "sum_to_root", "team_of", "to_dataset",
           "to_dtensor", "try_sharded", "whole", "whole_field"]
