# libparadl-run and paradl-run: what needs MPI, oneDNN or HDF5. Built where MPI
# is found; -DPDL_MPI=mpich takes MPICH, =none leaves it out. oneDNN and HDF5
# are optional: the room says what it cannot do without them.
set(PDL_MPI "openmpi" CACHE STRING "openmpi, mpich or none")
set(PDL_RUN_ROOMS "")
set(mpi_package_openmpi ompi-c)
set(mpi_package_mpich mpich)
if(NOT PDL_MPI STREQUAL "none")
  pkg_check_modules(MPI IMPORTED_TARGET ${mpi_package_${PDL_MPI}})
endif()
if(NOT MPI_FOUND)
  message(STATUS "no MPI (${PDL_MPI}): paradl-run is not built")
  return()
endif()
find_program(PDL_MPIRUN NAMES mpirun.${PDL_MPI} mpirun)
if(PDL_MPIRUN)
  target_compile_definitions(paradl_cli_objects PRIVATE
    PDL_MPIRUN="${PDL_MPIRUN}")
endif()
# Debian's dnnl-config.cmake asks for OpenCL that its own package does not use.
find_path(DNNL_INCLUDE dnnl.h)
find_library(DNNL_LIBRARY dnnl)
pkg_check_modules(HDF5 QUIET IMPORTED_TARGET hdf5)
pkg_check_modules(JPEG QUIET IMPORTED_TARGET libjpeg)
find_package(OpenMP QUIET COMPONENTS C)
find_package(Threads REQUIRED)

foreach(room comm io train fed)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS src/${room}/*.c)
  list(FILTER sources EXCLUDE REGEX "/comm/shim\\.c$") # libparadl-mpi's alone
  if(sources)
    list(APPEND PDL_RUN_ROOMS ${room})
    list(APPEND PDL_RUN_SOURCES ${sources})
  endif()
endforeach()
if(NOT PDL_RUN_SOURCES)
  return()
endif()

# The cpu backend is oneDNN's; our own kernels beside it are for AVX2, which
# the backend asks for before it calls them: there is none elsewhere.
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
  set(DNNL_LIBRARY "")
endif()
if(NOT DNNL_INCLUDE OR NOT DNNL_LIBRARY)
  list(FILTER PDL_RUN_SOURCES EXCLUDE REGEX "/train/backends/cpu/")
endif()
file(GLOB simd CONFIGURE_DEPENDS src/train/backends/cpu/simd_*.c)
set_source_files_properties(${simd} PROPERTIES COMPILE_OPTIONS
  "-O3;-march=x86-64-v3;-fno-math-errno;-fno-trapping-math;-ffp-contract=fast")

# The cuda device: own kernels compiled ahead, cuBLASLt and cuDNN looked for by
# the program when it runs. -DPDL_CUDA=off leaves it out.
set(PDL_CUDA "auto" CACHE STRING "auto: where nvcc and cuDNN's header are; off")
set(PDL_CUDA_ARCHITECTURES "80;90;100" CACHE STRING "GPUs to compile for")
set(cuda_found FALSE)
if(NOT PDL_CUDA STREQUAL "off")
  include(${CMAKE_CURRENT_LIST_DIR}/cuda.cmake)
endif()
if(NOT cuda_found)
  list(FILTER PDL_RUN_SOURCES EXCLUDE REGEX "/train/backends/cuda/")
endif()

# Loops over all weights and all pixels, for the vectors that every x86-64 has:
# the same bits, no product is contracted.
file(GLOB loops CONFIGURE_DEPENDS src/train/optim/optim*.c src/io/read.c
  src/comm/codec_*.c src/comm/compress_*.c
  src/io/synthetic.c)
set_source_files_properties(${loops} PROPERTIES COMPILE_OPTIONS
  "-O3;-fno-math-errno;-fno-trapping-math;-ffp-contract=off")

# The data set that ships with the program, compiled in.
set(digits ${CMAKE_BINARY_DIR}/io/digits.c)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/io)
add_custom_command(OUTPUT ${digits}
  COMMAND ${CMAKE_COMMAND} -DIN=${CMAKE_SOURCE_DIR}/examples/data/digits.csv.gz
    -DOUT=${digits} -P ${CMAKE_SOURCE_DIR}/cmake/digits.cmake
  DEPENDS examples/data/digits.csv.gz cmake/digits.cmake VERBATIM)
if("io" IN_LIST PDL_RUN_ROOMS)
  list(APPEND PDL_RUN_SOURCES ${digits})
  set_source_files_properties(${digits} PROPERTIES
    INCLUDE_DIRECTORIES ${CMAKE_SOURCE_DIR}/src/io)
endif()

add_library(paradl_run_objects OBJECT ${PDL_RUN_SOURCES})
target_link_libraries(paradl_run_objects PUBLIC pdl_flags PkgConfig::DEPS
  PkgConfig::MPI Threads::Threads m)
if(DNNL_INCLUDE AND DNNL_LIBRARY)
  target_link_libraries(paradl_run_objects PUBLIC ${DNNL_LIBRARY})
  target_compile_definitions(paradl_run_objects PUBLIC PDL_HAVE_DNNL)
endif()
if(cuda_found)
  target_link_libraries(paradl_run_objects PUBLIC pdl_cuda)
  target_compile_definitions(paradl_run_objects PUBLIC PDL_HAVE_CUDA)
endif()
if(HDF5_FOUND)
  target_link_libraries(paradl_run_objects PUBLIC PkgConfig::HDF5)
  target_compile_definitions(paradl_run_objects PUBLIC PDL_HAVE_HDF5)
endif()
if(JPEG_FOUND)
  target_link_libraries(paradl_run_objects PUBLIC PkgConfig::JPEG)
  target_compile_definitions(paradl_run_objects PUBLIC PDL_HAVE_JPEG)
endif()
if(OpenMP_C_FOUND)
  target_link_libraries(paradl_run_objects PUBLIC OpenMP::OpenMP_C)
endif()

add_library(paradl_run_static STATIC $<TARGET_OBJECTS:paradl_run_objects>)
set_target_properties(paradl_run_static PROPERTIES OUTPUT_NAME paradl-run)
target_link_libraries(paradl_run_static PUBLIC paradl_run_objects
  paradl_static)

# libparadl-mpi.so, to be preloaded into MPI programs: takes collectives, shows
# nothing else, needs nothing that the collectives do not.
if(EXISTS ${CMAKE_SOURCE_DIR}/src/comm/shim.c)
  add_library(paradl_mpi SHARED src/comm/shim.c)
  set_target_properties(paradl_mpi PROPERTIES OUTPUT_NAME paradl-mpi)
  target_include_directories(paradl_mpi PRIVATE src/comm)
  target_link_options(paradl_mpi PRIVATE -Wl,--as-needed
    -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/paradl-mpi.map)
  target_link_libraries(paradl_mpi PRIVATE pdl_flags paradl_run_static)
endif()

# libparadl-comm.so: the collectives alone, for programs in other languages
# (the Python package).
add_library(paradl_comm SHARED
  "$<FILTER:$<TARGET_OBJECTS:paradl_run_objects>,INCLUDE,/src/comm/>")
set_target_properties(paradl_comm PROPERTIES OUTPUT_NAME paradl-comm
  LINKER_LANGUAGE C VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR})
target_link_options(paradl_comm PRIVATE -Wl,--as-needed
  -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/paradl-comm.map)
target_link_libraries(paradl_comm PRIVATE paradl_static PkgConfig::MPI)

file(GLOB run_sources CONFIGURE_DEPENDS src/run/*.c)
if(run_sources)
  add_executable(paradl-run ${run_sources})
  target_link_libraries(paradl-run PRIVATE pdl_flags paradl_run_static)
endif()

# Kernels of a step, layer by layer: ninja bench_train_layers.
add_executable(bench_train_layers EXCLUDE_FROM_ALL bench/train_layers.c)
target_link_libraries(bench_train_layers PRIVATE pdl_flags paradl_run_static)

# What samples cost beside training: ninja bench_data_costs.
add_executable(bench_data_costs EXCLUDE_FROM_ALL bench/data_costs.c)
target_link_libraries(bench_data_costs PRIVATE pdl_flags paradl_run_static)

# Operands and results for tests/peers/train_torch.sh.
add_executable(peer_train_kernels EXCLUDE_FROM_ALL tests/peers/train_kernels.c)
target_link_libraries(peer_train_kernels PRIVATE pdl_flags paradl_run_static
  cmocka)
target_include_directories(peer_train_kernels PRIVATE src/train)
# The batches of a run, for tests/peers/text_torch.sh.
add_executable(peer_train_batches EXCLUDE_FROM_ALL tests/peers/train_batches.c)
target_link_libraries(peer_train_batches PRIVATE pdl_flags paradl_run_static)
