# SPDX-License-Identifier: BSD-3-Clause
# Follows docs/tutorial.md on 2 ranks: cmake -DSOURCE= -DBUILD= -DPREFIX= ... -P this. Builds its project against the installed
# prefix, makes fields, and runs the program twice: the second run continues from the checkpoint with another division.
file(REMOVE_RECURSE "${BUILD}/checkpoints" "${BUILD}/CMakeCache.txt")
execute_process(
  COMMAND "${CMAKE_COMMAND}" -S "${SOURCE}" -B "${BUILD}" -G "${GENERATOR}" "-DCMAKE_PREFIX_PATH=${PREFIX}"
          "-DCMAKE_CXX_COMPILER=${CXX}" "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}" "-DCMAKE_CXX_FLAGS=${FLAGS}"
          -DCMAKE_BUILD_TYPE=Debug -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${BUILD}" COMMAND_ERROR_IS_FATAL ANY)
function(run_ranks)
  execute_process(
    COMMAND "${MPIEXEC}" ${NUMPROC_FLAG} 2 ${ARGN}
    WORKING_DIRECTORY "${BUILD}" OUTPUT_VARIABLE output COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
  message("${output}")
  set(output "${output}" PARENT_SCOPE)
endfunction()
run_ranks("${PREFIX}/bin/graticule-make-fields" fields.nc --progress none)
run_ranks("${BUILD}/tutorial" fields.nc checkpoints 2)
if(NOT output MATCHES "step 0: loss" OR NOT output MATCHES "step 9: loss")
  message(FATAL_ERROR "The first run did not print steps 0 to 9.")
endif()
run_ranks("${BUILD}/tutorial" fields.nc checkpoints 1)
if(output MATCHES "step 9: loss" OR NOT output MATCHES "step 10: loss" OR NOT output MATCHES "step 19: loss")
  message(FATAL_ERROR "The second run did not continue with steps 10 to 19.")
endif()
# Errors are printed once, and before the training where they can be.
function(run_refused text)
  execute_process(
    COMMAND "${MPIEXEC}" ${NUMPROC_FLAG} 2 "${BUILD}/tutorial" ${ARGN}
    WORKING_DIRECTORY "${BUILD}" OUTPUT_VARIABLE output ERROR_VARIABLE errors RESULT_VARIABLE status)
  string(REGEX MATCHALL "tutorial: " messages "${errors}")
  list(LENGTH messages count)
  if(NOT status EQUAL 1 OR NOT count EQUAL 1 OR NOT errors MATCHES "${text}" OR output MATCHES "step")
    message(FATAL_ERROR "Status ${status}, ${count} messages, expected one with '${text}': ${errors}${output}")
  endif()
endfunction()
run_refused("nofile.nc does not exist" nofile.nc checkpoints 2)
run_refused("/proc/x cannot be written" fields.nc /proc/x 2)
