# SPDX-License-Identifier: BSD-3-Clause
# Run by `cmake --install`: manual pages from the --help of the drivers, and batch scripts that start the installed ones.
# Also a module file with the folders of this installation.
# Set before: GRATICULE_DRIVERS, GRATICULE_BIN_FOLDER, GRATICULE_LIB_FOLDER, GRATICULE_SHARE (relative to the prefix),
# GRATICULE_SOURCE, GRATICULE_VERSION, GRATICULE_MPI.
set(root "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")
set(bin "${root}/${GRATICULE_BIN_FOLDER}")

foreach(driver IN LISTS GRATICULE_DRIVERS)
  execute_process(COMMAND "${bin}/${driver}" --help OUTPUT_VARIABLE help ERROR_VARIABLE error RESULT_VARIABLE code)
  if(NOT code EQUAL 0)
    # Such as an MPI that starts no process without its launcher, or DESTDIR, where the libraries are not in place.
    message(STATUS "No manual page of ${driver}, which does not start here: ${error}")
    continue()
  endif()
  string(REPLACE "\\" "\\e" help "${help}")
  string(REGEX REPLACE "(^|\n)([.'])" "\\1\\\\&\\2" help "${help}")
  string(REPLACE "-" "\\-" help "${help}")
  string(FIND "${help}" "\nUsage: " end)
  string(SUBSTRING "${help}" 0 ${end} summary)
  string(REPLACE "\n" " " summary "${summary}")
  string(SUBSTRING "${help}" ${end} -1 help)
  string(REGEX REPLACE "\\.$" "" summary "${summary}")
  string(TOUPPER "${driver}" title)
  string(REPLACE "-" "\\-" name "${driver}")
  set(page "${root}/${GRATICULE_SHARE}/man/man1/${driver}.1")
  file(WRITE "${page}"
    ".TH \"${title}\" 1 \"\" \"Graticule\"\n.SH NAME\n${name} \\- ${summary}\n.SH SYNOPSIS\n.B mpiexec \\-n\n.I RANKS\n.B ${name}\n"
    "[\n.I OPTIONS\n]\n.SH OPTIONS\n.nf\n${help}.fi\n.SH SEE ALSO\nThe pages in share/doc/graticule\n")
  message(STATUS "Installing: ${page}")
endforeach()

set(batch_scripts "")
if(GRATICULE_DRIVERS)
  file(GLOB batch_scripts "${GRATICULE_SOURCE}/scripts/slurm/*.sh")
endif()
foreach(batch_script IN LISTS batch_scripts)
  get_filename_component(name "${batch_script}" NAME)
  set(installed "${root}/${GRATICULE_SHARE}/graticule/slurm/${name}")
  # As they are, with their permissions, but for where the drivers lie.
  file(COPY "${batch_script}" DESTINATION "${root}/${GRATICULE_SHARE}/graticule/slurm")
  file(READ "${installed}" text)
  string(REPLACE "\${SLURM_SUBMIT_DIR:-.}/build/bin" "${CMAKE_INSTALL_PREFIX}/${GRATICULE_BIN_FOLDER}" text "${text}")
  file(WRITE "${installed}" "${text}")
  message(STATUS "Installing: ${installed}")
endforeach()

set(VERSION "${GRATICULE_VERSION}")
set(PREFIX "${CMAKE_INSTALL_PREFIX}")
set(BIN "${GRATICULE_BIN_FOLDER}")
set(LIB "${GRATICULE_LIB_FOLDER}")
set(MPI "${GRATICULE_MPI}")
list(JOIN GRATICULE_DRIVERS ", " DRIVERS)
set(modulefile "${root}/${GRATICULE_SHARE}/graticule/modulefiles/graticule/${VERSION}")
configure_file("${GRATICULE_SOURCE}/scripts/packaging/modulefile.in" "${modulefile}" @ONLY)
message(STATUS "Installing: ${modulefile}")
