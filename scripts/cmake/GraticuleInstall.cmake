# SPDX-License-Identifier: BSD-3-Clause
# Installs the CMake package: find_package(Graticule [COMPONENTS nn]).
include(CMakePackageConfigHelpers)

set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/Graticule")
foreach(name IN ITEMS MPI_C_COMPILER MPIEXEC_EXECUTABLE Kokkos_DIR Torch_DIR)
  set(built_with_${name} "${${name}}")
endforeach()
configure_package_config_file(
  "${CMAKE_CURRENT_LIST_DIR}/GraticuleConfig.cmake.in" "${PROJECT_BINARY_DIR}/GraticuleConfig.cmake"
  INSTALL_DESTINATION "${package_folder}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/GraticuleConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(
  FILES "${PROJECT_BINARY_DIR}/GraticuleConfig.cmake" "${PROJECT_BINARY_DIR}/GraticuleConfigVersion.cmake"
        "${CMAKE_CURRENT_LIST_DIR}/GraticuleDependencies.cmake"
  DESTINATION "${package_folder}")
install(EXPORT GraticuleTargets NAMESPACE graticule:: DESTINATION "${package_folder}")
if(TARGET graticule_nn)
  install(EXPORT GraticuleNnTargets NAMESPACE graticule:: DESTINATION "${package_folder}")
endif()
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/graticule")
