# make install: libraries, headers, pkg-config, CMake package, man pages and
# completions (both made by the program from its own tables).
include(CMakePackageConfigHelpers)

install(TARGETS paradl paradl_static RUNTIME DESTINATION
  ${CMAKE_INSTALL_BINDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS paradl_shared EXPORT paradl-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/paradl DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY examples/data DESTINATION ${CMAKE_INSTALL_DATADIR}/paradl)

file(RELATIVE_PATH PDL_PC_TO_PREFIX
  /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(cmake/paradl.pc.in paradl.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/paradl.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/paradl)
install(EXPORT paradl-targets NAMESPACE paradl:: DESTINATION ${package})
configure_package_config_file(cmake/paradlConfig.cmake.in
  ${CMAKE_BINARY_DIR}/paradlConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/paradlConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/paradlConfig.cmake
  ${CMAKE_BINARY_DIR}/paradlConfigVersion.cmake DESTINATION ${package})

set(generated ${CMAKE_BINARY_DIR}/generated)
add_custom_command(OUTPUT ${generated}/stamp
  COMMAND ${CMAKE_SOURCE_DIR}/tools/generate-docs.sh $<TARGET_FILE:paradl>
          ${generated}
  COMMAND ${CMAKE_COMMAND} -E touch ${generated}/stamp
  DEPENDS paradl tools/generate-docs.sh VERBATIM)
add_custom_target(generated ALL DEPENDS ${generated}/stamp)
install(DIRECTORY ${generated}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR})
install(FILES ${generated}/paradl.bash RENAME paradl
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${generated}/paradl.zsh RENAME _paradl
  DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${generated}/paradl.fish
  DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)

# where MPI is found
# libparadl-run is an archive: whoever links it needs what it needs.
if(TARGET paradl_run_static)
  set(PDL_MPI_PC ${mpi_package_${PDL_MPI}})
  set(PDL_RUN_LIBS "-lm -lpthread")
  if(DNNL_INCLUDE AND DNNL_LIBRARY)
    string(PREPEND PDL_RUN_LIBS "-ldnnl ")
  endif()
  if(OpenMP_C_FOUND)
    string(PREPEND PDL_RUN_LIBS "-fopenmp ")
  endif()
  if(HDF5_FOUND)
    string(APPEND PDL_MPI_PC " hdf5")
  endif()
  set(PDL_RUN_PC "libxxhash zlib")
  configure_file(cmake/paradl-run.pc.in paradl-run.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/paradl-run.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  install(TARGETS paradl_run_static ARCHIVE
    DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET paradl_comm)
  install(TARGETS paradl_comm LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET paradl_mpi)
  install(TARGETS paradl_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET paradl-run)
  add_dependencies(generated paradl-run)
  install(TARGETS paradl-run RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# What make all builds is what make install needs.
add_custom_target(installed DEPENDS paradl paradl_static paradl_shared)
add_dependencies(installed generated)
foreach(target paradl_run_static paradl_comm paradl_mpi paradl-run)
  if(TARGET ${target})
    add_dependencies(installed ${target})
  endif()
endforeach()
