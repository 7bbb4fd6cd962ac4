# SPDX-License-Identifier: BSD-3-Clause
# GRATICULE_PYTHON_FOUND: whether the Python package can be built; graticule_dep::python: Python's and torch's headers and
# libtorch_python. A module that is linked to another LibTorch than the one that Python imports would crash, so both are
# compared by their folders.
set(GRATICULE_PYTHON "" CACHE FILEPATH "Python whose torch the package is built for (empty: that of LibTorch's environment)")

function(graticule_find_python)
  set(GRATICULE_PYTHON_FOUND OFF PARENT_SCOPE)
  if(NOT GRATICULE_BUILD_PYTHON)
    return()
  endif()
  set(python "${GRATICULE_PYTHON}")
  if(NOT python AND SKBUILD)
    set(python "${Python3_EXECUTABLE}")
  endif()
  if(NOT python)
    # TORCH/share/cmake/Torch lies in ENVIRONMENT/lib/python3.x/site-packages/torch.
    cmake_path(ABSOLUTE_PATH Torch_DIR BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" NORMALIZE OUTPUT_VARIABLE torch_dir)
    cmake_path(SET environment NORMALIZE "${torch_dir}/../../../../../../../bin/python3")
    set(python "${environment}")
  endif()
  if(NOT EXISTS "${python}")
    set(reason "there is no ${python}; name a Python by GRATICULE_PYTHON")
  else()
    execute_process(
      COMMAND "${python}" -c "
import importlib.util as u, os, sysconfig as s
missing = [n for n in ('torch', 'mpi4py', 'numpy') if u.find_spec(n) is None]
torch = os.path.dirname(u.find_spec('torch').origin) if 'torch' not in missing else ''
print(s.get_path('include'), s.get_config_var('EXT_SUFFIX'), torch, ' '.join(missing), sep=';')"
      OUTPUT_VARIABLE found RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(failed)
      set(reason "${python} does not run")
    else()
      list(POP_FRONT found include suffix torch missing)
      if(torch)
        file(REAL_PATH "${torch}/share/cmake/Torch" torch_of_python)
        file(REAL_PATH "${Torch_DIR}" torch_of_build BASE_DIRECTORY "${PROJECT_SOURCE_DIR}")
      endif()
      if(missing)
        set(reason "${python} lacks ${missing}")
      elseif(NOT torch_of_python STREQUAL torch_of_build)
        set(reason "${python} imports the torch of ${torch}, and LibTorch is that of ${Torch_DIR}")
      elseif(NOT EXISTS "${include}/Python.h")
        set(reason "the headers of ${python} are missing (Debian: python3-dev)")
      endif()
    endif()
  endif()
  if(reason)
    if(NOT GRATICULE_BUILD_PYTHON STREQUAL "AUTO")
      message(FATAL_ERROR "GRATICULE_BUILD_PYTHON is ${GRATICULE_BUILD_PYTHON}: ${reason}")
    endif()
    message(STATUS "Graticule: no Python package: ${reason}")
  else()
    if(NOT TARGET graticule_dep::python)
      add_library(graticule_dep::python INTERFACE IMPORTED GLOBAL)
      target_include_directories(graticule_dep::python INTERFACE "${include}")
      target_link_libraries(graticule_dep::python INTERFACE "${torch}/lib/libtorch_python.so")
    endif()
    message(STATUS "Graticule: Python package for ${python}")
    set(GRATICULE_PYTHON_FOUND ON PARENT_SCOPE)
  endif()
  set(GRATICULE_PYTHON_EXECUTABLE "${python}" PARENT_SCOPE)
  set(GRATICULE_PYTHON_REASON "${reason}" PARENT_SCOPE)
  set(GRATICULE_PYTHON_SUFFIX "${suffix}" PARENT_SCOPE)
endfunction()

# pip builds for the torch of its Python, whatever other LibTorch there is.
function(graticule_prefer_torch_of_pip)
  if(SKBUILD AND Python3_EXECUTABLE AND NOT Torch_DIR)
    execute_process(
      COMMAND "${Python3_EXECUTABLE}" -c "import importlib.util as u, os; print(os.path.dirname(u.find_spec('torch').origin))"
      OUTPUT_VARIABLE torch RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(failed)
      message(FATAL_ERROR "${Python3_EXECUTABLE} has no torch: install it first, and call pip with --no-build-isolation")
    endif()
    set(Torch_DIR "${torch}/share/cmake/Torch" CACHE PATH "LibTorch's CMake package")
  endif()
endfunction()
