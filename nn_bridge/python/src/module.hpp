// SPDX-License-Identifier: BSD-3-Clause
// The parts of `graticule._core`, and what they share.
#pragma once

#include <graticule/partition/comm.hpp>

#include <torch/extension.h>

#include <string>

namespace graticule::python {

namespace py = pybind11;
using ReleaseGil = py::call_guard<py::gil_scoped_release>;

/// Starts MPI and Kokkos, or joins those that run. A second call does nothing.
void start(int num_threads);

/// A duplicate of a communicator by its Fortran handle; -1 stands for all ranks. Collective.
///
/// It is kept until `stop`: all ranks free a communicator together, and each Python collects garbage at its own time.
/// @throws `WrongState`, `BadArgument`
[[nodiscard]] Comm comm_of(std::int64_t fortran_handle);

/// Keeps a communicator until `stop`, for those that ranks stop using at different times.
void keep_until_stop(Comm const& comm);

void define_library(py::module_& m);
void define_fields(py::module_& m);
void define_layers(py::module_& m);
void define_collectives(py::module_& m);
void define_process_groups(py::module_& m);
void define_training(py::module_& m);
void define_forecaster(py::module_& m);
void define_program(py::module_& m);
void define_samples(py::module_& m);

}  // namespace graticule::python
