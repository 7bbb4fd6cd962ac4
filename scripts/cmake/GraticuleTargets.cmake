# SPDX-License-Identifier: BSD-3-Clause
# The four kinds of target: a layer's library, an MPI test, a driver, a benchmark.

# For a folder and those below: sources are compiled in batches, each of which pays for the headers once. So names in anonymous
# namespaces are unique within a library. GCC takes the sources of a batch for headers, where a type with a member of a type of an
# anonymous namespace would be a mistake.
macro(graticule_compile_in_batches)
  set(CMAKE_UNITY_BUILD ${GRATICULE_UNITY_BUILD})
  set(CMAKE_UNITY_BUILD_BATCH_SIZE 8)
  if(GRATICULE_UNITY_BUILD)
    add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
  endif()
endmacro()

# What reads files starts graticule-read-structure. With GRATICULE_LINKS_NOTHING (scripts/check_devices) objects alone are wanted,
# and no program can be linked before them.
function(graticule_build_reader_before target)
  if(NOT target STREQUAL "graticule-read-structure" AND NOT GRATICULE_LINKS_NOTHING)
    add_dependencies(${target} graticule-read-structure)
  endif()
endfunction()

# graticule_make_module(TARGET FILE PYTHON): TARGET writes FILE, a module of Fortran or Python that scripts/bindings makes from the
# headers in C.
function(graticule_make_module target file python)
  set(bindings "${PROJECT_SOURCE_DIR}/scripts/bindings")
  set(headers "${PROJECT_SOURCE_DIR}/halo/bindings/include/graticule/graticule.h"
      "${PROJECT_SOURCE_DIR}/nn_bridge/bindings/include/graticule/graticule_nn.h")
  cmake_path(GET file FILENAME name)
  file(GLOB_RECURSE templates "${PROJECT_SOURCE_DIR}/halo/bindings/fortran/${name}.in" "${PROJECT_SOURCE_DIR}/nn_bridge/bindings/fortran/${name}.in")
  add_custom_command(
    OUTPUT "${file}"
    COMMAND "${python}" "${bindings}" --module "${file}"
    DEPENDS "${bindings}" "${bindings}_python.py" ${headers} ${templates}
    COMMENT "Making ${name}"
    VERBATIM)
  add_custom_target(${target} DEPENDS "${file}")
endfunction()

# A target whose sources do not include Kokkos: hipcc compiles them as C++, not as HIP, on which clang 15 breaks off now and
# then.
function(graticule_compile_as_cxx target)
  if(CMAKE_CXX_COMPILER MATCHES "/hipcc$")
    target_compile_options(${target} PRIVATE -x c++)
  endif()
endfunction()

# A target whose sources hold no kernels and do not include Kokkos: where the compiler is nvcc_wrapper, nvcc would read each of
# them three times, and without precompiled headers.
function(graticule_compile_on_host target)
  if(CMAKE_CXX_COMPILER MATCHES "/nvcc_wrapper$")
    set(launcher "${PROJECT_SOURCE_DIR}/scripts/cmake/on_host.sh" ${CMAKE_CXX_COMPILER_LAUNCHER})
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER "${launcher}")
  endif()
endfunction()

# Sources that include torch/torch.h compile 3 times faster with it precompiled; one precompiled header serves all targets.
function(graticule_use_torch_pch target)
  if(NOT TARGET graticule_torch_pch)
    set(source "${PROJECT_SOURCE_DIR}/scripts/cmake/torch_pch.cpp")
    add_library(graticule_torch_pch STATIC "${source}")
    target_link_libraries(graticule_torch_pch PRIVATE graticule_dep::torch graticule_dep::mpi Kokkos::kokkos)
    target_precompile_headers(graticule_torch_pch PRIVATE <torch/torch.h>)
    # GCC uses a precompiled header only under the -fPIC and -Wpedantic that it was made with; ccache needs -fpch-preprocess.
    graticule_compile_on_host(graticule_torch_pch)
    target_compile_options(graticule_torch_pch PRIVATE -fPIC ${GRATICULE_WARNINGS} $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  endif()
  target_link_libraries(${target} PRIVATE Kokkos::kokkos)
  graticule_compile_on_host(${target})
  target_compile_options(${target} PRIVATE -fPIC $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  target_precompile_headers(${target} REUSE_FROM graticule_torch_pch)
  # GCC instantiates the templates that the precompiled header leaves pending at the end of every source, which takes as long as
  # a source of 400 lines (12 s on a core of 2.4 GHz, an empty source too); a batch does so once.
  if(GRATICULE_UNITY_BUILD)
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${GRATICULE_UNITY_BUILD} UNITY_BUILD_BATCH_SIZE 24)
endfunction()

# A target without loops over cells of its own: GCC 12 needs 70 % of the time at -O1 for sources with LibTorch, 40 to 70 % for
# others. Engine and kernels stay at -O3.
function(graticule_compile_quickly target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# graticule_add_library(partition SOURCES src/a.cpp ... HEADERS include/graticule/partition/a.hpp ...
#                       DEPENDS target... [PRIVATE_DEPENDS target...] [KERNELS src/kernel.cpp ...])
# Makes graticule_partition with the alias and export graticule::partition. DEPENDS are passed on to users. KERNELS are the
# sources with loops over cells, where the others have none: graticule_compile_quickly.
function(graticule_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;KERNELS;HEADERS;DEPENDS;PRIVATE_DEPENDS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "graticule_add_library(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  set(target graticule_${name})
  if(arg_SOURCES)
    set(scope PUBLIC)
    add_library(${target} ${arg_SOURCES})
    target_include_directories(${target} PRIVATE src)
    target_link_libraries(${target} PRIVATE ${arg_PRIVATE_DEPENDS})
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${GRATICULE_WARNINGS}>")
    set_target_properties(${target} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  else()
    set(scope INTERFACE)
    add_library(${target} INTERFACE)
  endif()
  add_library(graticule::${name} ALIAS ${target})
  target_sources(${target} ${scope} FILE_SET HEADERS BASE_DIRS include FILES ${arg_HEADERS})
  target_compile_features(${target} ${scope} cxx_std_20)
  target_link_libraries(${target} ${scope} ${arg_DEPENDS})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} VERIFY_INTERFACE_HEADER_SETS ON)
  if(arg_SOURCES AND "graticule_dep::torch" IN_LIST arg_DEPENDS)
    graticule_use_torch_pch(${target})
  endif()
  if(arg_KERNELS)
    graticule_compile_quickly(${target})
    add_library(${target}_kernels OBJECT ${arg_KERNELS})
    target_include_directories(${target}_kernels PRIVATE include src)
    target_link_libraries(${target}_kernels PRIVATE ${arg_DEPENDS} ${arg_PRIVATE_DEPENDS})
    target_compile_options(${target}_kernels PRIVATE ${GRATICULE_WARNINGS})
    if("graticule_dep::torch" IN_LIST arg_DEPENDS)
      graticule_use_torch_pch(${target}_kernels)
    endif()
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_kernels>)
  endif()

  # Whoever uses the engine alone must not need LibTorch, so what needs it is exported on its own.
  set(export GraticuleTargets)
  if(name MATCHES "^(nn|nn_layers|models|program|training)$")
    set(export GraticuleNnTargets)
  endif()
  install(
    TARGETS ${target} EXPORT ${export}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  set_property(GLOBAL APPEND PROPERTY GRATICULE_LIBRARIES ${name})
  if(arg_SOURCES)
    set_property(GLOBAL APPEND PROPERTY GRATICULE_INSTALLED ${target})
  endif()
endfunction()

# graticule_add_test_program(halo.plan SOURCES test_plan.cpp DEPENDS graticule::halo [NO_MAIN])
# Builds test_halo_plan and registers nothing. The main function is tests/support/mpi_main.cpp; NO_MAIN is for a test that
# starts MPI itself, or runs without it.
function(graticule_add_test_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "NO_MAIN" "" "SOURCES;DEPENDS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
    message(FATAL_ERROR "graticule_add_test_program(${name}): SOURCES is required; unknown: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  string(REPLACE "." "_" target "test_${name}")
  add_executable(${target} ${arg_SOURCES})
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests/support")
  target_link_libraries(${target} PRIVATE ${arg_DEPENDS} GTest::gtest graticule_dep::mpi)
  if(NOT arg_NO_MAIN)
    target_link_libraries(${target} PRIVATE graticule_test_main graticule_pmpi_shim)
  endif()
  # tests/support/test_field.hpp has fields on it.
  if(arg_DEPENDS MATCHES "graticule::(repartition|halo|field_io|nn|training|program|models)")
    target_link_libraries(${target} PRIVATE graticule_test_device)
  endif()
  target_compile_options(${target} PRIVATE ${GRATICULE_WARNINGS})
  graticule_compile_quickly(${target})
  # For programs that use it: the others are compiled alike whatever the folder is.
  foreach(source IN LISTS arg_SOURCES)
    file(STRINGS "${source}" uses REGEX GRATICULE_TEST_DATA LIMIT_COUNT 1)
    if(uses)
      target_compile_definitions(${target} PRIVATE "GRATICULE_TEST_DATA=\"${GRATICULE_TEST_DATA}\"")
      break()
    endif()
  endforeach()
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests/bin")
  if("graticule::field_io" IN_LIST arg_DEPENDS)
    graticule_build_reader_before(${target})
  endif()
  if("graticule::nn" IN_LIST arg_DEPENDS)
    graticule_use_torch_pch(${target})
    set_target_properties(${target} PROPERTIES UNITY_BUILD_BATCH_SIZE 8)
  endif()
endfunction()

# graticule_run_mpi_test(halo.plan NP 5 7 [PROGRAM halo.plan] [FULL|LONG] [TIMEOUT seconds] [LABELS label...]
#                        [ARGS argument...] [ENVIRONMENT NAME=value...])
# Registers halo.plan.np5 and halo.plan.np7: runs of the test program of that name, or of PROGRAM. A run in which every
# test skipped counts as skipped. More than 3 ranks, runs marked FULL, and runs marked LONG on other than 2 ranks get the
# label full: scripts/test --full. LONG is for programs of which a run takes more than about 10 s.
function(graticule_run_mpi_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "FULL;LONG" "TIMEOUT;PROGRAM" "NP;LABELS;ARGS;ENVIRONMENT")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_NP)
    message(FATAL_ERROR "graticule_run_mpi_test(${name}): NP is required; unknown: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  if(NOT arg_PROGRAM)
    set(arg_PROGRAM ${name})
  endif()
  string(REPLACE "." "_" target "test_${arg_PROGRAM}")
  foreach(num_ranks IN LISTS arg_NP)
    set(test ${name}.np${num_ranks})
    if(num_ranks EQUAL 1)
      set(labels unit)
    else()
      set(labels mpi)
    endif()
    if(arg_FULL OR num_ranks GREATER 3 OR (arg_LONG AND NOT num_ranks EQUAL 2))
      list(APPEND labels full)
    endif()
    list(APPEND labels ${arg_LABELS})
    add_test(NAME ${test} COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${num_ranks} ${MPIEXEC_PREFLAGS}
                                  $<TARGET_FILE:${target}> ${MPIEXEC_POSTFLAGS} ${arg_ARGS})
    set_tests_properties(
      ${test} PROPERTIES PROCESSORS ${num_ranks} TIMEOUT ${arg_TIMEOUT} SKIP_RETURN_CODE 77 LABELS "${labels}"
      ENVIRONMENT
      "${GRATICULE_TEST_ENVIRONMENT};GRATICULE_TEST_NAME=${test};GRATICULE_TEST_NP=${num_ranks};${arg_ENVIRONMENT}")
  endforeach()
endfunction()

# graticule_add_mpi_test(halo.plan SOURCES test_plan.cpp NP 1 2 3 4 DEPENDS graticule::halo
#                        [FULL|LONG] [TIMEOUT seconds] [LABELS label...] [ARGS argument...] [NO_MAIN])
# Both: builds test_halo_plan and registers halo.plan.np1, halo.plan.np2, ...
function(graticule_add_mpi_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "NO_MAIN;FULL;LONG" "TIMEOUT" "SOURCES;DEPENDS;NP;LABELS;ARGS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "graticule_add_mpi_test(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  set(no_main "")
  if(arg_NO_MAIN)
    set(no_main NO_MAIN)
  endif()
  set(tier "")
  if(arg_FULL)
    set(tier FULL)
  elseif(arg_LONG)
    set(tier LONG)
  endif()
  graticule_add_test_program(${name} SOURCES ${arg_SOURCES} DEPENDS ${arg_DEPENDS} ${no_main})
  graticule_run_mpi_test(${name} ${tier} NP ${arg_NP} TIMEOUT ${arg_TIMEOUT} LABELS ${arg_LABELS} ARGS ${arg_ARGS})
  set_property(DIRECTORY APPEND PROPERTY GRATICULE_MPI_TESTS ${name})
endfunction()

# graticule_run_full_variants(np4 np5 np7 check delayed p2p [TIMEOUT seconds] [EXCEPT test...])
# Registers every program of graticule_add_mpi_test of this folder that runs on 3 ranks again, with the label full: on 4 ranks
# (2 x 2 grids), 5 and 7, in check mode, with delayed messages, by messages of MPI alone; those named, where not yet there.
function(graticule_run_full_variants)
  cmake_parse_arguments(PARSE_ARGV 0 arg "np4;np5;np7;check;delayed;p2p" "TIMEOUT" "EXCEPT")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "graticule_run_full_variants: unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  get_property(programs DIRECTORY PROPERTY GRATICULE_MPI_TESTS)
  foreach(program IN LISTS programs)
    if(NOT TEST ${program}.np3 OR program IN_LIST arg_EXCEPT)
      continue()
    endif()
    foreach(num_ranks IN ITEMS 4 5 7)
      if(arg_np${num_ranks} AND NOT TEST ${program}.np${num_ranks})
        graticule_run_mpi_test(${program} NP ${num_ranks} TIMEOUT ${arg_TIMEOUT})
      endif()
    endforeach()
    foreach(variant IN ITEMS check:2:GRATICULE_CHECK=all delayed:3:GRATICULE_TEST_DELAYS=5 p2p:3:GRATICULE_TRANSPORT=p2p)
      string(REPLACE ":" ";" variant "${variant}")
      list(GET variant 0 label)
      list(GET variant 1 num_ranks)
      list(GET variant 2 environment)
      if(arg_${label} AND NOT TEST ${program}.${label}.np${num_ranks})
        graticule_run_mpi_test(
          ${program}.${label} PROGRAM ${program} NP ${num_ranks} FULL TIMEOUT ${arg_TIMEOUT} LABELS variant ENVIRONMENT ${environment})
      endif()
    endforeach()
  endforeach()
endfunction()

# graticule_add_mpi_variants(halo.plan NP 2 3 [CHECK_FILTER gtest-filter] [DEVICE_FILTER gtest-filter])
# Registers the same test binary again: point-to-point only, with fields in node-shared memory, with fields on the guarded
# device (tests/support/devices/guarded_device.hpp), and in check mode; all but the first number of ranks in check mode with the label
# full.
function(graticule_add_mpi_variants name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "CHECK_FILTER;DEVICE_FILTER" "NP")
  foreach(filter IN ITEMS CHECK_FILTER DEVICE_FILTER)
    if(NOT arg_${filter})
      set(arg_${filter} "*")
    endif()
  endforeach()
  foreach(num_ranks IN LISTS arg_NP)
    foreach(variant IN ITEMS p2p:GRATICULE_TRANSPORT=p2p node_memory:GRATICULE_TEST_MEMORY=node)
      string(REPLACE ":" ";" variant "${variant}")
      list(GET variant 0 label)
      list(GET variant 1 environment)
      graticule_run_mpi_test(
        ${name}.${label} PROGRAM ${name} NP ${num_ranks} FULL LABELS variant ENVIRONMENT ${environment})
    endforeach()
    graticule_run_mpi_test(
      ${name}.device PROGRAM ${name} NP ${num_ranks} FULL LABELS variant ENVIRONMENT GRATICULE_TEST_MEMORY=device
      ARGS --gtest_filter=${arg_DEVICE_FILTER})
    list(GET arg_NP 0 fewest)
    set(full "")
    if(NOT num_ranks EQUAL fewest)
      set(full FULL)
    endif()
    graticule_run_mpi_test(
      ${name}.check PROGRAM ${name} NP ${num_ranks} ${full} LABELS variant ENVIRONMENT GRATICULE_CHECK=all
      ARGS --gtest_filter=${arg_CHECK_FILTER})
  endforeach()
endfunction()

# graticule_run_accidents(TARGET engine_accidents OPERATIONS halo ... [FULL] [NP 2 3] [NAME suffix] [ENVIRONMENT NAME=value...])
# Registers accidents.halo.np2, ...: each accident (tests/support/accidents.sh) in each operation of a program that was made
# with tests/support/accidents.hpp. More than 2 ranks, named variants and those marked FULL get the label full.
function(graticule_run_accidents)
  cmake_parse_arguments(PARSE_ARGV 0 arg "FULL" "TARGET;NAME" "OPERATIONS;NP;ENVIRONMENT")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_OPERATIONS)
    message(FATAL_ERROR "graticule_run_accidents: OPERATIONS are required; unknown: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_NP)
    set(arg_NP 2 3)
  endif()
  foreach(operation IN LISTS arg_OPERATIONS)
    foreach(num_ranks IN LISTS arg_NP)
      set(test accidents.${operation}${arg_NAME}.np${num_ranks})
      add_test(NAME ${test} COMMAND "${PROJECT_SOURCE_DIR}/tests/support/accidents.sh" ${num_ranks} ${operation}
                                    $<TARGET_FILE:${arg_TARGET}> ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${num_ranks}
                                    ${MPIEXEC_PREFLAGS})
      # They take 20 s each, in which one rank waits for ranks that sleep or are gone.
      set(labels mpi)
      if(arg_FULL OR arg_NAME OR num_ranks GREATER 2)
        list(APPEND labels full)
      endif()
      set_tests_properties(
        ${test} PROPERTIES PROCESSORS 1 TIMEOUT 300 LABELS "${labels}"
        ENVIRONMENT "${GRATICULE_TEST_ENVIRONMENT};${arg_ENVIRONMENT}")
    endforeach()
  endforeach()
endfunction()

# One thread a rank; Open MPI may run as root and with more ranks than cores; UCX leaves crashes and sanitizers alone.
set(GRATICULE_TEST_ENVIRONMENT
    OMP_NUM_THREADS=1 OMP_PROC_BIND=false UCX_ERROR_SIGNALS= OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
    "GRATICULE_TEST_PYTHON=${PROJECT_SOURCE_DIR}/.deps/env/bin/python3")
# Tests share the cores: what waits leaves them. A preloaded library would come before that of a sanitizer.
list(APPEND GRATICULE_TEST_ENVIRONMENT GRATICULE_WAIT=sleep)
if(NOT GRATICULE_SANITIZER)
  list(APPEND GRATICULE_TEST_ENVIRONMENT "LD_PRELOAD=${PROJECT_BINARY_DIR}/tests/lib/libgraticule_sleeping_mpi.so")
endif()
if(GRATICULE_SANITIZER MATCHES "thread")
  list(APPEND GRATICULE_TEST_ENVIRONMENT UCX_MEM_EVENTS=n)
endif()
if(GRATICULE_SANITIZER)
  # HDF5 asks for as much memory as a damaged file says, and is content with none.
  list(APPEND GRATICULE_TEST_ENVIRONMENT TSAN_OPTIONS=allocator_may_return_null=1 ASAN_OPTIONS=allocator_may_return_null=1)
  list(APPEND GRATICULE_TEST_ENVIRONMENT "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/support/leaks.supp")
  # MPI_Init loads hwloc's plugins, whose libraries leak and are unloaded, so that no suppression could name them.
  list(APPEND GRATICULE_TEST_ENVIRONMENT "HWLOC_PLUGINS_PATH=${PROJECT_BINARY_DIR}/no-plugins")
endif()

# graticule_add_driver(graticule-train SOURCES main.cpp ... DEPENDS target... [PART])
# Makes bin/graticule-train in the build folder; installed. A PART is started by other programs only, and has no manual page.
function(graticule_add_driver name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "PART" "" "SOURCES;DEPENDS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "graticule_add_driver(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS})
  target_compile_options(${name} PRIVATE ${GRATICULE_WARNINGS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
  graticule_build_reader_before(${name})
  if("graticule::nn" IN_LIST arg_DEPENDS)
    graticule_use_torch_pch(${name})
  endif()
  install(TARGETS ${name} RUNTIME_DEPENDENCY_SET graticule_drivers RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  set_property(GLOBAL APPEND PROPERTY GRATICULE_INSTALLED ${name})
  if(TARGET graticule_package) # of Python, beside the program that reads files
    add_dependencies(graticule_package ${name})
    install(TARGETS ${name} RUNTIME DESTINATION graticule COMPONENT python EXCLUDE_FROM_ALL)
  endif()
  if(NOT arg_PART)
    set_property(GLOBAL APPEND PROPERTY GRATICULE_DRIVERS ${name})
  endif()
endfunction()

# graticule_add_benchmark(bench_halo SOURCES bench_halo.cpp DEPENDS target...)
# Makes bin/bench_halo in the build folder, linked with Google Benchmark; built only with GRATICULE_BUILD_BENCHMARKS.
function(graticule_add_benchmark name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPENDS")
  if(NOT GRATICULE_BUILD_BENCHMARKS)
    return()
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS} benchmark::benchmark)
  target_compile_options(${name} PRIVATE ${GRATICULE_WARNINGS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
  if("graticule::nn" IN_LIST arg_DEPENDS)
    graticule_use_torch_pch(${name})
  endif()
endfunction()
