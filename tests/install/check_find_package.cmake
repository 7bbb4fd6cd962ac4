# SPDX-License-Identifier: BSD-3-Clause
# What find_package(Graticule) says to projects that ask for what there is not: cmake -DPACKAGE= -DBUILD= -DGENERATOR= -P this.
# PACKAGE is the folder of GraticuleConfig.cmake.
function(refuses languages components expected)
  string(MAKE_C_IDENTIFIER "${languages} ${components}" name)
  set(folder "${BUILD}/${name}")
  file(REMOVE_RECURSE "${folder}")
  file(WRITE "${folder}/CMakeLists.txt"
       "cmake_minimum_required(VERSION 3.23)\nproject(user LANGUAGES ${languages})\nfind_package(Graticule REQUIRED ${components})\n")
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -S "${folder}" -B "${folder}/build" -G "${GENERATOR}" "-DGraticule_DIR=${PACKAGE}"
    RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(REGEX REPLACE "[ \n]+" " " output "${output}")
  if(code EQUAL 0 OR NOT output MATCHES "${expected}")
    message(SEND_ERROR "project(${languages}), ${components}: exit code ${code}, without '${expected}': ${output}")
  endif()
endfunction()

refuses("Fortran" "COMPONENTS c fortran" "language C of CMake is not enabled; write project\\(NAME LANGUAGES C Fortran\\)")
refuses("C" "COMPONENTS fortran_nn" "language Fortran of CMake is not enabled; write project\\(NAME LANGUAGES Fortran\\)")
refuses("C" "" "language CXX of CMake is not enabled; write project\\(NAME LANGUAGES C CXX\\)")
refuses("C" "COMPONENTS c halo" "language CXX of CMake is not enabled; write project\\(NAME LANGUAGES C CXX\\)")
refuses("CXX" "COMPONENTS nn" "language C of CMake is not enabled; write project\\(NAME LANGUAGES C CXX\\)")
refuses("C CXX" "COMPONENTS torch" "no component 'torch'; the components are partition messages .* nn .* fortran_nn")
refuses("C CXX" "COMPONENTS c Halo" "no component 'Halo'; the components are partition .* halo ")
