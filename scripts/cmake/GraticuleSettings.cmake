# SPDX-License-Identifier: BSD-3-Clause
# Language level, build type, warnings, run paths and what the drivers print as their version.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()

include(GNUInstallDirs)
# Installed drivers find Kokkos, MPI and LibTorch where the build found them, and copies of those of .deps beside themselves.
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
set(GRATICULE_INSTALL_DEPENDENCIES "${CMAKE_INSTALL_LIBDIR}/graticule")
list(APPEND CMAKE_INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}" "$ORIGIN/../${GRATICULE_INSTALL_DEPENDENCIES}")

set(GRATICULE_VERSION "${PROJECT_VERSION}")
set(GRATICULE_BUILD_TYPE "${CMAKE_BUILD_TYPE}")
set(GRATICULE_COMMIT "unknown")
find_package(Git QUIET)
if(Git_FOUND)
  execute_process(
    COMMAND "${GIT_EXECUTABLE}" rev-parse --short=12 HEAD
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE failed ERROR_QUIET)
  if(NOT failed)
    set(GRATICULE_COMMIT "${commit}")
    # A new commit configures again, so that --version tells the truth.
    execute_process(
      COMMAND "${GIT_EXECUTABLE}" rev-parse --git-path logs/HEAD
      WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE log OUTPUT_STRIP_TRAILING_WHITESPACE)
    get_filename_component(log "${log}" ABSOLUTE BASE_DIR "${PROJECT_SOURCE_DIR}")
    if(EXISTS "${log}")
      set_property(DIRECTORY "${PROJECT_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${log}")
    endif()
  endif()
endif()

set(GRATICULE_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  list(APPEND GRATICULE_WARNINGS -Wno-restrict) # GCC 12 warns about std::string's own operator+ (GCC bug 105651)
endif()
if(GRATICULE_WARNINGS_AS_ERRORS)
  list(APPEND GRATICULE_WARNINGS -Werror)
endif()

if(GRATICULE_SANITIZER)
  add_compile_options(-fsanitize=${GRATICULE_SANITIZER} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${GRATICULE_SANITIZER})
  add_compile_definitions(GRATICULE_SANITIZED)
endif()
