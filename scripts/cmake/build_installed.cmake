# SPDX-License-Identifier: BSD-3-Clause
# Before an installation: builds what is installed where a part of it was never built, as after scripts/run, which builds two
# drivers. GRATICULE_BUILD is the build folder.
file(STRINGS "${GRATICULE_BUILD}/installed_files.txt" files)
set(missing "")
foreach(file IN LISTS files)
  if(NOT EXISTS "${file}")
    cmake_path(GET file FILENAME name)
    list(APPEND missing "${name}")
  endif()
endforeach()
if(missing)
  # One job per core, and one per 2.5 GB of memory, as scripts/common.sh has it.
  cmake_host_system_information(RESULT jobs QUERY NUMBER_OF_LOGICAL_CORES)
  cmake_host_system_information(RESULT memory QUERY AVAILABLE_PHYSICAL_MEMORY)
  math(EXPR most "${memory} / 2500")
  if(most LESS 1)
    set(most 1)
  endif()
  if(most LESS jobs)
    set(jobs ${most})
  endif()
  if(DEFINED ENV{GRATICULE_JOBS})
    set(jobs "$ENV{GRATICULE_JOBS}")
  endif()
  list(JOIN missing ", " names)
  message(STATUS "Building first what is not built yet: ${names}")
  execute_process(
    COMMAND "${CMAKE_COMMAND}" --build "${GRATICULE_BUILD}" --parallel ${jobs} --target graticule_installed
    COMMAND_ERROR_IS_FATAL ANY)
endif()
