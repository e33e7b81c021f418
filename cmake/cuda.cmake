# Kernels of the cuda device as one static library, by nvcc; the runtime is
# linked in, so that the program starts where there is no CUDA. Sets cuda_found.
find_program(PDL_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH
  PATHS /usr/local/cuda/bin)
if(NOT PDL_NVCC)
  message(STATUS "no nvcc: built without the device cuda")
  return()
endif()
get_filename_component(cuda_root ${PDL_NVCC} REALPATH)
get_filename_component(cuda_root ${cuda_root} DIRECTORY)
get_filename_component(cuda_root ${cuda_root} DIRECTORY)
find_path(CUDA_INCLUDE cublasLt.h HINTS ${cuda_root}/include)
find_path(CUDNN_INCLUDE cudnn.h HINTS ${cuda_root}/include)
find_library(CUDART cudart_static HINTS ${cuda_root}/lib64 ${cuda_root}/lib
  ${cuda_root}/targets/x86_64-linux/lib)
if(NOT CUDA_INCLUDE OR NOT CUDNN_INCLUDE OR NOT CUDART)
  message(STATUS "nvcc without cuBLASLt, cuDNN or cudart_static: "
    "built without the device cuda")
  return()
endif()

set(cuda_flags -O3 -std=c++17 -Xcompiler=-fPIC,-Wall)
foreach(arch ${PDL_CUDA_ARCHITECTURES})
  list(APPEND cuda_flags -gencode=arch=compute_${arch},code=sm_${arch})
endforeach()
list(GET PDL_CUDA_ARCHITECTURES -1 newest)
list(APPEND cuda_flags -gencode=arch=compute_${newest},code=compute_${newest})

file(GLOB kernels CONFIGURE_DEPENDS
  ${CMAKE_SOURCE_DIR}/src/train/backends/cuda/*.cu)
set(cuda_objects "")
foreach(kernel ${kernels})
  get_filename_component(name ${kernel} NAME_WE)
  set(object ${CMAKE_BINARY_DIR}/cuda/${name}.o)
  add_custom_command(OUTPUT ${object}
    COMMAND ${CMAKE_C_COMPILER_LAUNCHER} ${PDL_NVCC} ${cuda_flags}
      -c ${kernel} -o ${object}
    DEPENDS ${kernel} src/train/backends/cuda/launch.h
      src/train/backends/cuda/device.cuh
    COMMENT "nvcc ${name}.cu" VERBATIM)
  list(APPEND cuda_objects ${object})
endforeach()
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/cuda)
add_library(pdl_cuda_kernels STATIC ${cuda_objects})
set_target_properties(pdl_cuda_kernels PROPERTIES LINKER_LANGUAGE C)
add_library(pdl_cuda INTERFACE)
target_include_directories(pdl_cuda SYSTEM INTERFACE ${CUDA_INCLUDE}
  ${CUDNN_INCLUDE})
target_link_libraries(pdl_cuda INTERFACE pdl_cuda_kernels ${CUDART} stdc++
  Threads::Threads dl rt)
set(cuda_found TRUE)
