# SPDX-License-Identifier: BSD-3-Clause
# Configures, builds and runs one consumer on 2 ranks: cmake -DCONSUMER=engine -DSOURCE= -DBUILD= -DPREFIX= ... -P this.
# The engine's consumer is told that there is no LibTorch, so that a hidden need for it shows.
file(REMOVE "${BUILD}/CMakeCache.txt")
execute_process(
  COMMAND "${CMAKE_COMMAND}" -S "${SOURCE}" -B "${BUILD}" -G "${GENERATOR}" "-DCONSUMER=${CONSUMER}" "-DCMAKE_PREFIX_PATH=${PREFIX}"
          "-DCMAKE_CXX_COMPILER=${CXX}" "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}" "-DCMAKE_CXX_FLAGS=${FLAGS}"
          -DCMAKE_BUILD_TYPE=Debug -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${BUILD}" COMMAND_ERROR_IS_FATAL ANY)
execute_process(
  COMMAND "${MPIEXEC}" ${NUMPROC_FLAG} 2 "${BUILD}/consumer"
  WORKING_DIRECTORY "${BUILD}" OUTPUT_VARIABLE output COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
message("${output}")
if(NOT output MATCHES "${CONSUMER}: 2 ranks agree")
  message(FATAL_ERROR "The consumer did not report on 2 ranks.")
endif()
