# SPDX-License-Identifier: BSD-3-Clause
# Installs the CMake package, find_package(Graticule [COMPONENTS nn | c | fortran | c_nn | fortran_nn]), and what the installed drivers need: the libraries that
# scripts/setup put into .deps, batch scripts, a module file, documentation and manual pages.
include(CMakePackageConfigHelpers)

# What find_package(Graticule COMPONENTS ...) takes, in any build.
set(components partition messages repartition field_io halo c fortran nn_layers nn training program_graph program_layout program models_description models
               samples c_nn fortran_nn)
get_property(libraries GLOBAL PROPERTY GRATICULE_LIBRARIES)
foreach(library IN LISTS libraries)
  if(NOT library IN_LIST components)
    message(FATAL_ERROR "graticule::${library} is no component in scripts/cmake/GraticuleInstall.cmake")
  endif()
endforeach()

# For build_installed.cmake.
get_property(installed GLOBAL PROPERTY GRATICULE_INSTALLED)
foreach(target IN ITEMS graticule_c graticule_fortran graticule_c_nn graticule_fortran_nn)
  if(TARGET ${target})
    list(APPEND installed ${target})
  endif()
endforeach()
add_custom_target(graticule_installed)
add_dependencies(graticule_installed ${installed})
list(TRANSFORM installed REPLACE "(.+)" "$<TARGET_FILE:\\1>\n" OUTPUT_VARIABLE installed_files)
list(JOIN installed_files "" installed_files)
file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/installed_files.txt" CONTENT "${installed_files}")

set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/Graticule")
foreach(name IN ITEMS MPI_C_COMPILER MPI_Fortran_COMPILER MPIEXEC_EXECUTABLE Kokkos_DIR Torch_DIR
                       GRATICULE_LIBDEFLATE_LIBRARY GRATICULE_BLOSC_LIBRARY GRATICULE_ZSTD_LIBRARY)
  set(built_with_${name} "${${name}}")
endforeach()
configure_package_config_file(
  "${CMAKE_CURRENT_LIST_DIR}/GraticuleConfig.cmake.in" "${PROJECT_BINARY_DIR}/GraticuleConfig.cmake"
  INSTALL_DESTINATION "${package_folder}" PATH_VARS CMAKE_INSTALL_BINDIR)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/GraticuleConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(
  FILES "${PROJECT_BINARY_DIR}/GraticuleConfig.cmake" "${PROJECT_BINARY_DIR}/GraticuleConfigVersion.cmake"
        "${CMAKE_CURRENT_LIST_DIR}/GraticuleDependencies.cmake"
  DESTINATION "${package_folder}")
install(EXPORT GraticuleTargets NAMESPACE graticule:: DESTINATION "${package_folder}")
install(EXPORT GraticuleCTargets NAMESPACE graticule:: DESTINATION "${package_folder}")
if(TARGET graticule_fortran)
  install(EXPORT GraticuleFortranTargets NAMESPACE graticule:: DESTINATION "${package_folder}")
endif()
if(TARGET graticule_nn)
  install(EXPORT GraticuleNnTargets NAMESPACE graticule:: DESTINATION "${package_folder}")
  install(EXPORT GraticuleCNnTargets NAMESPACE graticule:: DESTINATION "${package_folder}")
endif()
if(TARGET graticule_fortran_nn)
  install(EXPORT GraticuleFortranNnTargets NAMESPACE graticule:: DESTINATION "${package_folder}")
endif()
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/README.md" "${PROJECT_SOURCE_DIR}/CHANGELOG.md"
              "${PROJECT_SOURCE_DIR}/AGENTS.md" "${PROJECT_SOURCE_DIR}/CITATION.cff"
        DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/graticule")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs" DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/graticule")

get_property(drivers GLOBAL PROPERTY GRATICULE_DRIVERS)
if(drivers)
  # The project's folder may go after the installation, and what lies in its .deps with it.
  string(REGEX REPLACE "([][+.*()^$?|\\\\])" "\\\\\\1" project_folder "${PROJECT_SOURCE_DIR}")
  install(
    RUNTIME_DEPENDENCY_SET graticule_drivers
    POST_INCLUDE_REGEXES "^${project_folder}/\\.deps/" POST_EXCLUDE_REGEXES "."
    LIBRARY DESTINATION "${GRATICULE_INSTALL_DEPENDENCIES}")
endif()
install(CODE "
  set(GRATICULE_DRIVERS \"${drivers}\")
  set(GRATICULE_BIN_FOLDER \"${CMAKE_INSTALL_BINDIR}\")
  set(GRATICULE_LIB_FOLDER \"${CMAKE_INSTALL_LIBDIR}\")
  set(GRATICULE_SHARE \"${CMAKE_INSTALL_DATADIR}\")
  set(GRATICULE_SOURCE \"${PROJECT_SOURCE_DIR}\")
  set(GRATICULE_VERSION \"${PROJECT_VERSION}\")
  set(GRATICULE_MPI \"${MPI_C_COMPILER}\")")
install(SCRIPT "${CMAKE_CURRENT_LIST_DIR}/install_share.cmake")
