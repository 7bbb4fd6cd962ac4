# SPDX-License-Identifier: BSD-3-Clause
# An installation builds what was never built, and nothing where all is there: cmake -DSCRIPT=build_installed.cmake -DBUILD=
# -DGENERATOR= -P this. The project is a stand-in with the two files that the script knows.
file(REMOVE_RECURSE "${BUILD}")
file(WRITE "${BUILD}/source/CMakeLists.txt" [[
cmake_minimum_required(VERSION 3.23)
project(stand_in LANGUAGES NONE)
foreach(name IN ITEMS built unbuilt)
  add_custom_target(${name} COMMAND "${CMAKE_COMMAND}" -E touch "${PROJECT_BINARY_DIR}/${name}"
                    COMMAND "${CMAKE_COMMAND}" -E echo_append "" COMMENT "making ${name}")
endforeach()
add_custom_target(graticule_installed)
add_dependencies(graticule_installed built unbuilt)
file(WRITE "${PROJECT_BINARY_DIR}/installed_files.txt" "${PROJECT_BINARY_DIR}/built\n${PROJECT_BINARY_DIR}/unbuilt\n")
]])
execute_process(COMMAND "${CMAKE_COMMAND}" -S "${BUILD}/source" -B "${BUILD}/build" -G "${GENERATOR}" OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${BUILD}/build" --target built OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)

function(run_script expected)
  execute_process(COMMAND "${CMAKE_COMMAND}" "-DGRATICULE_BUILD=${BUILD}/build" -P "${SCRIPT}"
                  OUTPUT_VARIABLE output ERROR_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
  if(NOT output MATCHES "${expected}")
    message(SEND_ERROR "not '${expected}': ${output}")
  endif()
endfunction()

run_script("not built yet: unbuilt\n")
if(NOT EXISTS "${BUILD}/build/unbuilt")
  message(SEND_ERROR "what was missing is missing still")
endif()
run_script("^$")
