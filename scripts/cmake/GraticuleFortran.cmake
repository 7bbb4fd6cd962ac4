# SPDX-License-Identifier: BSD-3-Clause
# The Fortran module is built where a Fortran compiler and its MPI exist. Probes: does this compiler pass arrays by right C
# descriptors (else gr_field has a function for each kind and rank), and does the module mpi_f08 belong to it?
# The module is made by scripts/bindings, a program in Python.
include(CheckLanguage)
find_package(Python3 QUIET COMPONENTS Interpreter)
if(NOT DEFINED GRATICULE_ENABLE_FORTRAN)
  check_language(Fortran)
  set(_graticule_fortran OFF)
  if(CMAKE_Fortran_COMPILER)
    enable_language(Fortran)
    graticule_find_mpi_fortran()
    if(TARGET graticule_dep::mpi_fortran AND Python3_Interpreter_FOUND)
      set(_graticule_fortran ON)
    endif()
  endif()
endif()
option(GRATICULE_ENABLE_FORTRAN "Build the Fortran module; by default where a Fortran compiler, its MPI and Python 3 are found" ${_graticule_fortran})
if(NOT GRATICULE_ENABLE_FORTRAN)
  message(STATUS "Graticule: no Fortran module")
  return()
endif()

enable_language(Fortran)
graticule_find_mpi_fortran()
if(NOT TARGET graticule_dep::mpi_fortran)
  message(FATAL_ERROR
    "GRATICULE_ENABLE_FORTRAN is ON, and ${CMAKE_Fortran_COMPILER} finds no MPI for Fortran beside ${MPI_C_COMPILER}. "
    "Pass -DMPI_Fortran_COMPILER=/path/to/mpifort, or -DGRATICULE_ENABLE_FORTRAN=OFF to do without.")
endif()

if(NOT Python3_Interpreter_FOUND)
  message(FATAL_ERROR "GRATICULE_ENABLE_FORTRAN is ON, and there is no Python 3, which makes the module at the build. "
                      "Install it, pass -DPython3_EXECUTABLE=/path/to/python3, or pass -DGRATICULE_ENABLE_FORTRAN=OFF to do without.")
endif()

set(_graticule_probes "${PROJECT_SOURCE_DIR}/scripts/cmake/fortran")
if(NOT DEFINED GRATICULE_FORTRAN_DESCRIPTORS)
  set(_graticule_works FALSE)
  if(CMAKE_CROSSCOMPILING)
    try_compile(_graticule_works "${PROJECT_BINARY_DIR}/CMakeFiles/graticule_descriptors"
      SOURCES "${_graticule_probes}/descriptors.f90" "${_graticule_probes}/descriptors.c")
  else()
    # try_run of CMake before 3.25 takes one source: built, then run.
    try_compile(_graticule_compiled "${PROJECT_BINARY_DIR}/CMakeFiles/graticule_descriptors"
      SOURCES "${_graticule_probes}/descriptors.f90" "${_graticule_probes}/descriptors.c"
      COPY_FILE "${PROJECT_BINARY_DIR}/CMakeFiles/graticule_descriptors_probe")
    if(_graticule_compiled)
      execute_process(COMMAND "${PROJECT_BINARY_DIR}/CMakeFiles/graticule_descriptors_probe" RESULT_VARIABLE _graticule_failed
                      OUTPUT_QUIET ERROR_QUIET)
      if("${_graticule_failed}" STREQUAL "0")
        set(_graticule_works TRUE)
      endif()
    endif()
  endif()
  set(GRATICULE_FORTRAN_DESCRIPTORS ${_graticule_works} CACHE BOOL "The Fortran compiler passes arrays by C descriptors")
endif()
if(NOT DEFINED GRATICULE_MPI_F08)
  try_compile(_graticule_works "${PROJECT_BINARY_DIR}/CMakeFiles/graticule_mpi_f08" SOURCES "${_graticule_probes}/mpi_f08.f90"
              LINK_LIBRARIES graticule_dep::mpi_fortran)
  set(GRATICULE_MPI_F08 ${_graticule_works} CACHE BOOL "The module mpi_f08 can be used")
endif()
# Options for default integers, and reals, of 8 bytes: a second module is built for codes that are compiled with the former.
set(GRATICULE_FORTRAN_LONG_INTEGERS "")
set(GRATICULE_FORTRAN_LONG_REALS "")
if(CMAKE_Fortran_COMPILER_ID MATCHES "^(GNU|LLVMFlang)$")
  set(GRATICULE_FORTRAN_LONG_INTEGERS -fdefault-integer-8)
  set(GRATICULE_FORTRAN_LONG_REALS -fdefault-real-8 -fdefault-double-8)
elseif(CMAKE_Fortran_COMPILER_ID MATCHES "^(Intel|IntelLLVM|NVHPC|PGI)$")
  set(GRATICULE_FORTRAN_LONG_INTEGERS -i8)
  set(GRATICULE_FORTRAN_LONG_REALS -r8)
endif()
message(STATUS "Graticule: Fortran ${CMAKE_Fortran_COMPILER_ID} ${CMAKE_Fortran_COMPILER_VERSION} "
               "(C descriptors ${GRATICULE_FORTRAN_DESCRIPTORS}, mpi_f08 ${GRATICULE_MPI_F08})")

# Copies of structures by memcpy: the `rep movs` that GNU's compilers choose takes 50 ns for a gr_field, a percent of a short exchange.
set(GRATICULE_FORTRAN_OPTIONS "")
if(CMAKE_Fortran_COMPILER_ID STREQUAL "GNU" AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  set(GRATICULE_FORTRAN_OPTIONS -mmemcpy-strategy=libcall:-1:noalign -mmemset-strategy=libcall:-1:noalign)
endif()
