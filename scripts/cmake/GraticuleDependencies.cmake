# SPDX-License-Identifier: BSD-3-Clause
# Finds what Graticule stands on, for the build and again for those who use the installed package.
#
# What the user names (MPI_C_COMPILER, MPI_HOME, HDF5_ROOT, Kokkos_ROOT, Torch_DIR, CMAKE_PREFIX_PATH, modules) wins;
# then Debian's packages by name, because a machine may hold MPICH and Open MPI side by side;
# then what scripts/setup put into .deps.

# Absolute path of a wrapper or launcher of one MPI family (mpich or openmpi), or empty.
function(graticule_family_program result family name)
  find_program(GRATICULE_PROGRAM_${name}_${family} NAMES ${name}.${family})
  mark_as_advanced(GRATICULE_PROGRAM_${name}_${family})
  if(GRATICULE_PROGRAM_${name}_${family})
    set(${result} "${GRATICULE_PROGRAM_${name}_${family}}" PARENT_SCOPE)
  else()
    set(${result} "" PARENT_SCOPE)
  endif()
endfunction()

# Decides which MPI the build asks for.
function(graticule_choose_mpi)
  foreach(name IN ITEMS MPI_C_COMPILER MPICC)
    if(NOT DEFINED MPI_C_COMPILER AND DEFINED ENV{${name}})
      set(MPI_C_COMPILER "$ENV{${name}}" CACHE FILEPATH "MPI compiler for C")
    endif()
  endforeach()
  if(NOT DEFINED MPIEXEC_EXECUTABLE AND "${MPI_C_COMPILER}" MATCHES "\\.(mpich|openmpi)$")
    graticule_family_program(launcher ${CMAKE_MATCH_1} mpiexec)
    if(launcher)
      set(MPIEXEC_EXECUTABLE "${launcher}" CACHE FILEPATH "Starts MPI programs")
    endif()
  endif()
  foreach(name IN ITEMS MPI_C_COMPILER MPI_CXX_COMPILER MPI_HOME MPI_ROOT)
    if(DEFINED ${name} OR DEFINED ENV{${name}})
      return()
    endif()
  endforeach()

  find_program(GRATICULE_PATH_MPICC NAMES mpicc mpicxx)
  mark_as_advanced(GRATICULE_PATH_MPICC)
  if(GRATICULE_PATH_MPICC AND NOT GRATICULE_PATH_MPICC MATCHES "^(/usr)?/bin/")
    return() # an environment module, Spack or a private build: FindMPI takes it from PATH
  endif()
  foreach(family IN ITEMS mpich openmpi)
    graticule_family_program(compiler ${family} mpicc)
    if(NOT compiler)
      continue()
    endif()
    find_package(PkgConfig QUIET)
    if(PkgConfig_FOUND)
      pkg_check_modules(GRATICULE_HDF5_${family} QUIET hdf5-${family})
    endif()
    if(NOT GRATICULE_HDF5_${family}_FOUND AND NOT DEFINED HDF5_ROOT AND NOT DEFINED ENV{HDF5_ROOT})
      continue() # no HDF5 for this MPI; the other one may have it
    endif()
    graticule_family_program(launcher ${family} mpiexec)
    set(MPI_C_COMPILER "${compiler}" CACHE FILEPATH "MPI compiler for C")
    if(launcher)
      set(MPIEXEC_EXECUTABLE "${launcher}" CACHE FILEPATH "Starts MPI programs")
    endif()
    return()
  endforeach()
endfunction()

# MPI's C interface, as graticule_dep::mpi.
macro(graticule_find_mpi)
  if(NOT TARGET graticule_dep::mpi)
    graticule_choose_mpi()
    find_package(MPI QUIET COMPONENTS C)
    if(NOT MPI_C_FOUND)
      message(FATAL_ERROR
        "Graticule needs MPI and found none. On Debian: apt install mpich libmpich-dev libhdf5-mpich-dev "
        "(scripts/setup does it). On a cluster: load the MPI module, or pass -DMPI_C_COMPILER=/path/to/mpicc.")
    endif()
    add_library(graticule_dep::mpi INTERFACE IMPORTED)
    target_link_libraries(graticule_dep::mpi INTERFACE MPI::MPI_C)
    # Only the C interface is used; without these mpi.h pulls the removed C++ bindings in.
    target_compile_definitions(graticule_dep::mpi INTERFACE MPICH_SKIP_MPICXX OMPI_SKIP_MPICXX)
    message(STATUS "Graticule: MPI ${MPI_C_VERSION} by ${MPI_C_COMPILER}, started by ${MPIEXEC_EXECUTABLE}")
  endif()
endmacro()

# MPI's Fortran interface by the compiler of this MPI, as graticule_dep::mpi_fortran; none where it cannot be used.
macro(graticule_find_mpi_fortran)
  if(NOT TARGET graticule_dep::mpi_fortran)
    if(NOT DEFINED MPI_Fortran_COMPILER AND "${MPI_C_COMPILER}" MATCHES "\\.(mpich|openmpi)$")
      graticule_family_program(_graticule_mpifort ${CMAKE_MATCH_1} mpifort)
      if(_graticule_mpifort)
        set(MPI_Fortran_COMPILER "${_graticule_mpifort}" CACHE FILEPATH "MPI compiler for Fortran")
      endif()
    endif()
    find_package(MPI QUIET COMPONENTS Fortran)
    if(MPI_Fortran_FOUND)
      add_library(graticule_dep::mpi_fortran INTERFACE IMPORTED)
      # Not MPI::MPI_Fortran, whose options for the Fortran compiler would go to the one for C too.
      target_include_directories(graticule_dep::mpi_fortran INTERFACE ${MPI_Fortran_INCLUDE_DIRS})
      target_link_libraries(graticule_dep::mpi_fortran INTERFACE ${MPI_Fortran_LIBRARIES})
    endif()
  endif()
endmacro()

# Parallel HDF5 with its high-level library (dimension scales), as graticule_dep::hdf5.
macro(graticule_find_hdf5)
  if(NOT TARGET graticule_dep::hdf5)
    set(_graticule_hdf5_name "")
    if(NOT DEFINED HDF5_ROOT AND NOT DEFINED ENV{HDF5_ROOT} AND NOT DEFINED HDF5_DIR AND NOT DEFINED ENV{HDF5_DIR})
      if("${MPI_C_COMPILER}" MATCHES "\\.mpich$" OR "${MPI_C_LIBRARIES}" MATCHES "^(/usr)?/lib[^;]*libmpich")
        set(_graticule_hdf5_name hdf5-mpich)
      elseif("${MPI_C_COMPILER}" MATCHES "\\.openmpi$" OR "${MPI_C_LIBRARIES}" MATCHES "^(/usr)?/lib[^;]*openmpi")
        set(_graticule_hdf5_name hdf5-openmpi)
      endif()
    endif()
    set(_graticule_hdf5_libraries "")
    if(_graticule_hdf5_name)
      find_package(PkgConfig QUIET)
      if(PkgConfig_FOUND)
        pkg_check_modules(GRATICULE_HDF5 QUIET ${_graticule_hdf5_name})
      endif()
      if(GRATICULE_HDF5_FOUND)
        find_library(GRATICULE_HDF5_LIBRARY hdf5 PATHS ${GRATICULE_HDF5_LIBRARY_DIRS} NO_DEFAULT_PATH)
        find_library(GRATICULE_HDF5_HL_LIBRARY hdf5_hl PATHS ${GRATICULE_HDF5_LIBRARY_DIRS} NO_DEFAULT_PATH)
        mark_as_advanced(GRATICULE_HDF5_LIBRARY GRATICULE_HDF5_HL_LIBRARY)
        if(GRATICULE_HDF5_LIBRARY AND GRATICULE_HDF5_HL_LIBRARY)
          set(_graticule_hdf5_libraries "${GRATICULE_HDF5_HL_LIBRARY}" "${GRATICULE_HDF5_LIBRARY}")
          set(_graticule_hdf5_includes ${GRATICULE_HDF5_INCLUDE_DIRS})
          set(_graticule_hdf5_version ${GRATICULE_HDF5_VERSION})
        endif()
      endif()
    endif()
    if(NOT _graticule_hdf5_libraries)
      set(HDF5_PREFER_PARALLEL TRUE)
      find_package(HDF5 QUIET COMPONENTS C HL)
      if(HDF5_FOUND)
        set(_graticule_hdf5_libraries ${HDF5_HL_LIBRARIES} ${HDF5_LIBRARIES})
        set(_graticule_hdf5_includes ${HDF5_INCLUDE_DIRS})
        set(_graticule_hdf5_version ${HDF5_VERSION})
      endif()
    endif()
    if(NOT _graticule_hdf5_libraries)
      message(FATAL_ERROR
        "Graticule needs a parallel HDF5 built with the MPI of ${MPI_C_COMPILER} and found none. "
        "On Debian: apt install libhdf5-mpich-dev (MPICH) or libhdf5-openmpi-dev (Open MPI). "
        "On a cluster: load the parallel HDF5 module, or pass -DHDF5_ROOT=/its/prefix.")
    endif()
    # CMake 3.25 may find the package of one release and the headers and libraries of another.
    foreach(_graticule_hdf5_folder IN LISTS _graticule_hdf5_includes)
      if(EXISTS "${_graticule_hdf5_folder}/H5public.h")
        file(STRINGS "${_graticule_hdf5_folder}/H5public.h" _graticule_hdf5_lines REGEX "^#define H5_VERS_(MAJOR|MINOR|RELEASE)")
        string(REGEX REPLACE "[^;]*H5_VERS_[A-Z]+ +([0-9]+)[^;]*" "\\1" _graticule_hdf5_numbers "${_graticule_hdf5_lines}")
        list(JOIN _graticule_hdf5_numbers "." _graticule_hdf5_header)
        if(NOT "${_graticule_hdf5_version}." MATCHES "^${_graticule_hdf5_header}[.-]")
          message(FATAL_ERROR
            "CMake found HDF5 ${_graticule_hdf5_version}, and headers of HDF5 ${_graticule_hdf5_header} in "
            "${_graticule_hdf5_folder}. Name the prefix of the one that is meant by -DHDF5_ROOT; h5pcc is in its folder bin.")
        endif()
      endif()
    endforeach()
    # Deflated chunks are unpacked outside of HDF5, which needs the same library.
    find_package(ZLIB QUIET)
    if(NOT ZLIB_FOUND)
      message(FATAL_ERROR "Graticule needs zlib, as HDF5 does, and found no zlib.h. On Debian: apt install zlib1g-dev.")
    endif()
    add_library(graticule_dep::hdf5 INTERFACE IMPORTED)
    target_link_libraries(graticule_dep::hdf5 INTERFACE ${_graticule_hdf5_libraries} graticule_dep::mpi ZLIB::ZLIB)
    target_include_directories(graticule_dep::hdf5 INTERFACE ${_graticule_hdf5_includes})
    # Calls and structures as 1.10 has them, of which later releases have others under the same names.
    if(_graticule_hdf5_version VERSION_GREATER_EQUAL 1.12)
      target_compile_definitions(graticule_dep::hdf5 INTERFACE H5_USE_110_API)
    endif()
    # libdeflate is twice as fast as zlib; chunks of Zarr stores are mostly packed by blosc or zstd. Each is optional,
    # but an installed static library needs what it was built with.
    set(_graticule_packers "zlib")
    foreach(_graticule_packer IN ITEMS LIBDEFLATE:libdeflate.h:deflate BLOSC:blosc.h:blosc ZSTD:zstd.h:zstd)
      string(REPLACE ":" ";" _graticule_packer "${_graticule_packer}")
      list(POP_FRONT _graticule_packer _graticule_name _graticule_header _graticule_library)
      find_path(GRATICULE_${_graticule_name}_INCLUDE_DIR ${_graticule_header})
      find_library(GRATICULE_${_graticule_name}_LIBRARY ${_graticule_library})
      mark_as_advanced(GRATICULE_${_graticule_name}_INCLUDE_DIR GRATICULE_${_graticule_name}_LIBRARY)
      if(GRATICULE_${_graticule_name}_INCLUDE_DIR AND GRATICULE_${_graticule_name}_LIBRARY)
        target_link_libraries(graticule_dep::hdf5 INTERFACE "${GRATICULE_${_graticule_name}_LIBRARY}")
        target_include_directories(graticule_dep::hdf5 INTERFACE "${GRATICULE_${_graticule_name}_INCLUDE_DIR}")
        string(APPEND _graticule_packers ", ${_graticule_library}")
      elseif("${GRATICULE_BUILT_WITH_${_graticule_name}}")
        message(FATAL_ERROR "Graticule was built with ${_graticule_library}, which was not found. "
          "On Debian: apt install libdeflate-dev libblosc-dev libzstd-dev.")
      endif()
    endforeach()
    message(STATUS "Graticule: HDF5 ${_graticule_hdf5_version} at ${_graticule_hdf5_libraries}; chunks by ${_graticule_packers}")
  endif()
endmacro()

# Stops the configure step when HDF5 is serial or stands on another MPI than the one found.
function(graticule_check_mpi_and_hdf5_match)
  get_target_property(libraries graticule_dep::hdf5 INTERFACE_LINK_LIBRARIES)
  set(subject "${MPI_C_COMPILER};${MPI_C_LIBRARIES};${libraries}")
  if("${GRATICULE_CHECKED_MPI_AND_HDF5}" STREQUAL "${subject}")
    return()
  endif()
  set(where "MPI: ${MPI_C_COMPILER} (${MPI_C_LIBRARIES})\n  HDF5: ${libraries}\n")
  set(program "${PROJECT_BINARY_DIR}/CMakeFiles/graticule_match")
  try_compile(
    compiled "${PROJECT_BINARY_DIR}/CMakeFiles/graticule_match_build" SOURCES "${PROJECT_SOURCE_DIR}/scripts/cmake/mpi_hdf5.c"
    LINK_LIBRARIES graticule_dep::hdf5 COPY_FILE "${program}" OUTPUT_VARIABLE log)
  if(NOT compiled)
    if(log MATCHES "GRATICULE_HDF5_IS_SERIAL")
      message(FATAL_ERROR
        "The HDF5 found is serial; Graticule reads and writes in parallel.\n  ${where}"
        "Pass -DHDF5_ROOT=/prefix/of/a/parallel/HDF5 (Debian: libhdf5-mpich-dev).")
    endif()
    message(FATAL_ERROR "A program with the MPI and the HDF5 found does not compile and link.\n  ${where}${log}")
  endif()
  find_program(GRATICULE_LDD ldd)
  mark_as_advanced(GRATICULE_LDD)
  if(GRATICULE_LDD)
    execute_process(COMMAND "${GRATICULE_LDD}" "${program}" OUTPUT_VARIABLE loaded ERROR_QUIET)
    string(REGEX MATCHALL "lib(mpi|mpich|mpi_(cray|gnu|intel|nvidia|amd)[a-z0-9_]*)\\.so[.0-9]*" names "${loaded}")
    list(REMOVE_DUPLICATES names)
    list(LENGTH names num_names)
    if(num_names GREATER 1)
      list(JOIN names " and " names)
      message(FATAL_ERROR
        "MPI and HDF5 do not match: a program with both loads ${names}.\n  ${where}"
        "Choose one pair: -DMPI_C_COMPILER=mpicc.mpich with libhdf5-mpich-dev, or -DMPI_C_COMPILER=mpicc.openmpi "
        "with libhdf5-openmpi-dev, or load a parallel HDF5 module that belongs to the MPI module.")
    endif()
  endif()
  set(GRATICULE_CHECKED_MPI_AND_HDF5 "${subject}" CACHE INTERNAL "The pair that was checked last")
endfunction()

# Kokkos::kokkos, 3.4 or newer. Kokkos' own version file refuses a newer major, so the version is compared here.
macro(graticule_find_kokkos)
  if(NOT TARGET Kokkos::kokkos)
    find_package(Kokkos CONFIG QUIET PATHS "${PROJECT_SOURCE_DIR}/.deps/env")
    if(NOT Kokkos_FOUND)
      message(FATAL_ERROR
        "Graticule needs Kokkos 3.4 or newer and found none. scripts/setup builds one into .deps; "
        "for your own pass -DKokkos_ROOT=/its/prefix or set Kokkos_ROOT in the environment.")
    endif()
    if(Kokkos_VERSION VERSION_LESS 3.4)
      message(FATAL_ERROR
        "Graticule needs Kokkos 3.4 or newer and found ${Kokkos_VERSION} in ${Kokkos_DIR}. "
        "Name another by -DKokkos_ROOT=/its/prefix.")
    endif()
    message(STATUS "Graticule: Kokkos ${Kokkos_VERSION} (${Kokkos_DEVICES}) in ${Kokkos_DIR}")
  endif()
endmacro()

# LibTorch, as graticule_dep::torch.
macro(graticule_find_torch)
  if(NOT TARGET graticule_dep::torch)
    file(GLOB _graticule_torch_paths "${PROJECT_SOURCE_DIR}/.deps/env/lib/python3*/site-packages/torch/share/cmake/Torch")
    # Its package files warn about static libraries that a shared build does not need.
    set(_graticule_log_level "${CMAKE_MESSAGE_LOG_LEVEL}")
    set(CMAKE_MESSAGE_LOG_LEVEL ERROR)
    find_package(Torch CONFIG QUIET PATHS ${_graticule_torch_paths})
    set(CMAKE_MESSAGE_LOG_LEVEL "${_graticule_log_level}")
    if(NOT Torch_FOUND)
      message(FATAL_ERROR
        "GRATICULE_ENABLE_TORCH is ON and LibTorch was not found. scripts/setup installs one into .deps; for your own pass "
        "-DTorch_DIR=/path/to/torch/share/cmake/Torch (python3 -c 'import torch; print(torch.utils.cmake_prefix_path)' "
        "prints its parent); to build the engine alone pass -DGRATICULE_ENABLE_TORCH=OFF.")
    endif()
    add_library(graticule_dep::torch INTERFACE IMPORTED)
    target_link_libraries(graticule_dep::torch INTERFACE ${TORCH_LIBRARIES})
    message(STATUS "Graticule: LibTorch ${Torch_VERSION} in ${Torch_DIR}")
  endif()
endmacro()

macro(graticule_find_gtest)
  find_package(GTest CONFIG QUIET)
  if(NOT GTest_FOUND)
    message(FATAL_ERROR
      "GRATICULE_BUILD_TESTS is ON and GoogleTest was not found (Debian: libgtest-dev). Pass -DGRATICULE_BUILD_TESTS=OFF to do without.")
  endif()
endmacro()

macro(graticule_find_benchmark)
  find_package(benchmark CONFIG QUIET)
  if(NOT benchmark_FOUND)
    message(FATAL_ERROR "GRATICULE_BUILD_BENCHMARKS is ON and Google Benchmark was not found (Debian: libbenchmark-dev).")
  endif()
endmacro()

# nlohmann_json::nlohmann_json: metadata of Zarr stores, graphs of exported networks, reports.
macro(graticule_find_json)
  find_package(nlohmann_json CONFIG QUIET)
  if(NOT nlohmann_json_FOUND)
    message(FATAL_ERROR "Graticule needs nlohmann_json (Debian: nlohmann-json3-dev); scripts/setup installs it.")
  endif()
endmacro()

# Command line, configuration files, logs, reports and pictures of the drivers; pictures by graticule_dep::cairo.
macro(graticule_find_app_libraries)
  set(_graticule_missing "")
  foreach(_graticule_pair IN ITEMS CLI11:libcli11-dev yaml-cpp:libyaml-cpp-dev fmt:libfmt-dev spdlog:libspdlog-dev
                                   nlohmann_json:nlohmann-json3-dev)
    string(REGEX MATCH "^[^:]+" _graticule_name "${_graticule_pair}")
    find_package(${_graticule_name} CONFIG QUIET)
    if(NOT ${_graticule_name}_FOUND)
      string(REGEX REPLACE "^([^:]+):(.*)$" "\\1 (Debian: \\2)" _graticule_text "${_graticule_pair}")
      list(APPEND _graticule_missing "${_graticule_text}")
    endif()
  endforeach()
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    pkg_check_modules(GRATICULE_CAIRO QUIET IMPORTED_TARGET cairo)
  endif()
  if(NOT GRATICULE_CAIRO_FOUND)
    list(APPEND _graticule_missing "cairo (Debian: libcairo2-dev, pkg-config)")
  endif()
  if(_graticule_missing)
    list(JOIN _graticule_missing ", " _graticule_missing)
    message(FATAL_ERROR "The drivers need ${_graticule_missing}; scripts/setup installs them. Pass -DGRATICULE_BUILD_APPS=OFF to do without.")
  endif()
  if(NOT TARGET graticule_dep::cairo)
    add_library(graticule_dep::cairo INTERFACE IMPORTED)
    target_link_libraries(graticule_dep::cairo INTERFACE PkgConfig::GRATICULE_CAIRO)
  endif()
endmacro()
