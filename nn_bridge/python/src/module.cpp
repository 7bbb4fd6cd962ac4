// SPDX-License-Identifier: BSD-3-Clause
// `graticule._core`: start and end, errors, communicators.
#include "module.hpp"

#include <graticule/partition/error.hpp>
#include <graticule/partition/failure.hpp>
#include <graticule/repartition/runtime.hpp>

#include <memory>
#include <vector>

namespace graticule::python {

namespace {

// Never destroyed: a program that is aborted must not free communicators at its end.
std::unique_ptr<Runtime>& runtime() {
  static auto* const running = new std::unique_ptr<Runtime>;
  return *running;
}

std::vector<Comm>& living_comms() {
  static auto* const all = new std::vector<Comm>;
  return *all;
}

char const* name_of(Fault fault) {
  switch (fault) {
    case Fault::program: return "program";
    case Fault::usage: return "usage";
    case Fault::input: return "input";
    case Fault::check: return "check";
  }
  return "?";
}

/// `graticule.Error(rule, text, fault)` of an `Error`. Others stay what pybind11 and torch make of them.
void translate(std::exception_ptr error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (Error const& known) {
    auto const type = py::module_::import("graticule._errors").attr("Error");
    PyErr_SetObject(type.ptr(), py::make_tuple(known.rule(), known.text(), name_of(known.fault())).ptr());
  }
}

void stop() {
  living_comms().clear();
  runtime().reset();
}

void abort_all(std::string const& text) {
  int running = 0;
  int ended = 0;
  MPI_Initialized(&running);
  MPI_Finalized(&ended);
  if (running == 0 || ended != 0) return;
  announce_failure(std::make_exception_ptr(Error("UnexpectedException", text)));
  detail::abort_all_ranks(1);
}

MPI_Comm comm_of_number(int number) {
#ifdef MPI_ABI_VERSION  // the header of MPI 5's binary interface, which has no Fortran
  return MPI_Comm_fromint(number);
#else
  return MPI_Comm_f2c(MPI_Fint(number));
#endif
}

std::string mpi_library() {
  std::string text(MPI_MAX_LIBRARY_VERSION_STRING, '\0');
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  text.resize(std::size_t(length));
  return text;
}

}  // namespace

void start(int num_threads) {
  static int argc = 0;
  static char** argv = nullptr;
  if (!runtime()) runtime() = std::make_unique<Runtime>(argc, argv, num_threads);
}

Comm comm_of(std::int64_t fortran_handle) {
  if (!runtime()) throw Error("WrongState", "graticule was ended, or never started");
  if (fortran_handle != -1 && fortran_handle != std::int64_t(int(fortran_handle)))
    throw Error("BadArgument", std::to_string(fortran_handle) + " is no Fortran handle: pass comm.py2f()");
  Comm comm(fortran_handle == -1 ? MPI_COMM_WORLD : comm_of_number(int(fortran_handle)));
  keep_until_stop(comm);
  return comm;
}

void keep_until_stop(Comm const& comm) { living_comms().push_back(comm); }

void define_library(py::module_& m) {
  py::register_exception_translator(&translate);
  m.def("start", &start, ReleaseGil());
  m.def("stop", &stop, ReleaseGil());
  m.def("abort_all", &abort_all, ReleaseGil());
  m.def("mpi_library", &mpi_library);
}

}  // namespace graticule::python

PYBIND11_MODULE(_core, m) {
  m.doc() = "The C++ side of graticule; use the modules of the package.";
  graticule::python::define_library(m);
  graticule::python::define_fields(m);
  graticule::python::define_layers(m);
  graticule::python::define_collectives(m);
  graticule::python::define_process_groups(m);
  graticule::python::define_training(m);
  graticule::python::define_forecaster(m);
  graticule::python::define_program(m);
  graticule::python::define_samples(m);
}
