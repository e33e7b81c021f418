# Every tests/<room>/test_*.c is a cmocka program and a test; every
# tests/fuzz/fuzz_*.c replays its stored corpus; every tests/cli/*.sh is a
# golden case. A new file needs no line here.
enable_testing()
pkg_check_modules(CMOCKA QUIET IMPORTED_TARGET cmocka)
if(NOT CMOCKA_FOUND) # 'make demo' installs what builds the program, no more
  message(STATUS "cmocka is missing: there will be no tests")
  return()
endif()
# Its reader of XML is asked what ours should say; nothing else uses it.
pkg_check_modules(HWLOC QUIET IMPORTED_TARGET hwloc)
if(NOT HWLOC_FOUND)
  message(STATUS "hwloc is missing: tests/system/test_import.c is left out")
endif()

# What is timed is the library: tests themselves are compiled in less time, and
# linked by the quickest linker there is (what is installed is not).
set(test_options -O1 -g1)
if(PDL_SANITIZE) # with -Og compiled in four fifths of the time of -O1
  set(test_options -Og -g1)
endif()
include(CheckLinkerFlag)
foreach(linker lld gold)
  check_linker_flag(C -fuse-ld=${linker} PDL_LINKER_${linker})
  if(PDL_LINKER_${linker})
    add_link_options(-fuse-ld=${linker})
    break()
  endif()
endforeach()
# published figures simulate for a while: not under the sanitizers too
set(test_rooms ${PDL_ROOMS} cli ${PDL_RUN_ROOMS})
if(NOT PDL_SANITIZE)
  list(APPEND test_rooms paper)
endif()
foreach(room ${test_rooms})
  file(GLOB tests CONFIGURE_DEPENDS tests/${room}/test_*.c)
  if(NOT HWLOC_FOUND)
    list(FILTER tests EXCLUDE REGEX "/system/test_import\\.c$")
  endif()
  foreach(source ${tests})
    get_filename_component(name ${source} NAME_WE)
    string(REPLACE test_ "" name ${name})
    set(target test_${room}_${name})
    add_executable(${target} ${source})
    set(library paradl_static)
    if(room IN_LIST PDL_RUN_ROOMS)
      set(library paradl_run_static)
    endif()
    target_link_libraries(${target} PRIVATE pdl_flags ${library}
      PkgConfig::CMOCKA)
    if(target STREQUAL "test_system_import")
      target_link_libraries(${target} PRIVATE PkgConfig::HWLOC)
    endif()
    target_include_directories(${target} PRIVATE src/${room} tests
      ${CMAKE_BINARY_DIR}/onnx)
    target_compile_definitions(${target} PRIVATE
      PDL_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    target_compile_options(${target} PRIVATE ${test_options})
    add_test(NAME ${room}/${name} COMMAND ${target})
    set_tests_properties(${room}/${name} PROPERTIES
      TIMEOUT $<IF:$<STREQUAL:${room},paper>,3600,900>
      LABELS $<IF:$<STREQUAL:${room},paper>,paper,unit> SKIP_RETURN_CODE 77)
  endforeach()
endforeach()

# Linear programs for tests/peers/layers_cbc.sh.
add_executable(peer_layers_cbc EXCLUDE_FROM_ALL tests/peers/layers_cbc.c)
target_link_libraries(peer_layers_cbc PRIVATE pdl_flags paradl_static)
target_include_directories(peer_layers_cbc PRIVATE src/oracle)
add_executable(peer_karma_cbc EXCLUDE_FROM_ALL tests/peers/karma_cbc.c)
target_link_libraries(peer_karma_cbc PRIVATE pdl_flags paradl_static)
add_executable(peer_stages_cbc EXCLUDE_FROM_ALL tests/peers/stages_cbc.c)
target_link_libraries(peer_stages_cbc PRIVATE pdl_flags paradl_static)
target_include_directories(peer_stages_cbc PRIVATE src/oracle)

# tests/<room>/mpi_*.c run under mpirun, on so many ranks.
set(mpi_ranks 2 3 4 7)
set(mpi_run ${PDL_MPIRUN})
if(PDL_MPI STREQUAL "openmpi")
  list(APPEND mpi_run --oversubscribe --allow-run-as-root)
elseif(PDL_MPI STREQUAL "mpich")
  set(mpi_ranks 2) # MPICH spins: more ranks than processors take for ever
endif()
# Under the sanitizers two ranks say it all, and what MPI itself leaks at the
# end is not ours.
set(mpi_env "")
if(PDL_SANITIZE)
  set(mpi_ranks 2)
  set(mpi_env "ASAN_OPTIONS=detect_leaks=0")
endif()
# Ranks of Open MPI wait for each other most of the time: together they keep one
# processor busy. MPICH's spin.
set(mpi_share 1)
if(PDL_MPI STREQUAL "mpich")
  set(mpi_share 2)
endif()
foreach(room ${PDL_RUN_ROOMS})
  file(GLOB tests CONFIGURE_DEPENDS tests/${room}/mpi_*.c)
  foreach(source ${tests})
    get_filename_component(name ${source} NAME_WE)
    set(target ${room}_${name})
    add_executable(${target} ${source})
    target_link_libraries(${target} PRIVATE pdl_flags paradl_run_static)
    target_include_directories(${target} PRIVATE src/${room} tests)
    foreach(n ${mpi_ranks})
      add_test(NAME ${room}/${name}-${n} COMMAND ${mpi_run} -n ${n}
        $<TARGET_FILE:${target}>)
      set_tests_properties(${room}/${name}-${n} PROPERTIES LABELS "unit"
        TIMEOUT 300 PROCESSORS ${mpi_share} SKIP_RETURN_CODE 77
        ENVIRONMENT "${mpi_env}")
    endforeach()
  endforeach()
endforeach()

# The example of doc/comm.md, and the other MPI.
if(PDL_RUN_ROOMS)
  add_executable(example_allreduce examples/allreduce.c)
  target_link_libraries(example_allreduce PRIVATE pdl_flags paradl_run_static)
  add_test(NAME comm/example COMMAND ${mpi_run} -n 2
    $<TARGET_FILE:example_allreduce>)
  set_tests_properties(comm/example PROPERTIES LABELS "unit" TIMEOUT 100
    PROCESSORS ${mpi_share} PASS_REGULAR_EXPRESSION "over 2 ranks, 0 wrong")
endif()
if(PDL_MPI STREQUAL "openmpi" AND PDL_RUN_ROOMS AND NOT PDL_SANITIZE)
  add_test(NAME comm/mpich COMMAND ${CMAKE_SOURCE_DIR}/tests/comm/mpich.sh
    ${CMAKE_BINARY_DIR})
  set_tests_properties(comm/mpich PROPERTIES LABELS "code" TIMEOUT 900
    PROCESSORS 2 SKIP_RETURN_CODE 77)
endif()
if(TARGET comm_mpi_faults)
  add_test(NAME comm/faults COMMAND ${CMAKE_SOURCE_DIR}/tests/comm/faults.sh
    $<TARGET_FILE:comm_mpi_faults> ${mpi_run})
  set_tests_properties(comm/faults PROPERTIES LABELS "unit" TIMEOUT 300
    PROCESSORS ${mpi_share} ENVIRONMENT "${mpi_env}")
endif()
if(TARGET comm_mpi_collectives AND PDL_MPI STREQUAL "openmpi" AND
    NOT PDL_SANITIZE)
  add_test(NAME comm/nodes-6 COMMAND ${mpi_run} -n 6
    $<TARGET_FILE:comm_mpi_collectives> nodes)
  add_test(NAME comm/srun COMMAND ${CMAKE_SOURCE_DIR}/tests/comm/srun.sh
    ${CMAKE_BINARY_DIR})
  set_tests_properties(comm/nodes-6 comm/srun PROPERTIES LABELS "unit"
    TIMEOUT 300 PROCESSORS ${mpi_share} SKIP_RETURN_CODE 77)
endif()

# An unmodified program under libparadl-mpi.so; sanitizers want to be first.
if(TARGET paradl_mpi AND NOT PDL_SANITIZE)
  add_executable(shim_program tests/comm/shim/program.c)
  target_link_libraries(shim_program PRIVATE pdl_flags PkgConfig::MPI)
  set(shim_ranks 2 3 4 7)
  if(PDL_MPI STREQUAL "mpich")
    set(shim_ranks 2)
  endif()
  foreach(n ${shim_ranks})
    add_test(NAME comm/shim-${n} COMMAND
      ${CMAKE_SOURCE_DIR}/tests/comm/shim/run.sh $<TARGET_FILE:paradl_mpi>
      $<TARGET_FILE:shim_program> ${n} ${mpi_run})
    set_tests_properties(comm/shim-${n} PROPERTIES LABELS "unit" TIMEOUT 400
      PROCESSORS ${mpi_share})
  endforeach()
endif()

# The machine measured, as shortly as can be, and projected on.
if(TARGET paradl-run AND NOT PDL_SANITIZE)
  add_test(NAME run/calibrate COMMAND
    ${CMAKE_SOURCE_DIR}/tests/comm/calibrate.sh $<TARGET_FILE:paradl>)
  set_tests_properties(run/calibrate PROPERTIES LABELS "house" TIMEOUT 600)
endif()

# Whole runs of paradl train, as a user starts them.
if(TARGET paradl-run)
  file(GLOB scripts CONFIGURE_DEPENDS tests/run/*.sh tests/run/*.py)
  foreach(source ${scripts})
    get_filename_component(name ${source} NAME_WE)
    set(cases all)
    set(timeout 900)
    set(share ${mpi_share}) # most of the time they wait, as other ranks do
    if(name STREQUAL "train_equal")
      set(cases ${mpi_ranks})
    elseif(name MATCHES "train_(mnist|zoo)|accidents|held_out") # PDL_LONG only
      set(timeout 7200)
    endif()
    if(name MATCHES "train_(mnist|zoo)|held_out")
      set(share 2)
    endif()
    foreach(n ${cases})
      add_test(NAME run/${name}-${n} COMMAND ${source} $<TARGET_FILE:paradl>
        ${n})
      set_tests_properties(run/${name}-${n} PROPERTIES LABELS "run"
        TIMEOUT ${timeout} PROCESSORS ${share} SKIP_RETURN_CODE 77
        ENVIRONMENT "PDL_SANITIZED=${PDL_SANITIZE}")
    endforeach()
  endforeach()
endif()

# Plans of cuDNN for a GPU that is not here: a driver that does nothing, and the
# library where it was found.
if(cuda_found AND TARGET paradl-run AND NOT PDL_SANITIZE)
  add_library(pdl_cuda_shim SHARED tests/train/cuda_shim.c)
  set_target_properties(pdl_cuda_shim PROPERTIES OUTPUT_NAME cuda SOVERSION 1
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/shim)
  find_library(CUDNN cudnn HINTS ${cuda_root}/lib64 ${cuda_root}/lib)
  get_filename_component(cudnn_folder "${CUDNN}" DIRECTORY)
  set_tests_properties(run/cuda_plans-all PROPERTIES ENVIRONMENT
    "PDL_CUDA_SHIM=${CMAKE_BINARY_DIR}/shim:${cudnn_folder}")
endif()

# Published figures and formulas computed outside the library.
file(GLOB scripts CONFIGURE_DEPENDS tests/paper/*.py tests/oracle/*.py)
foreach(source ${scripts})
  get_filename_component(name ${source} NAME_WE)
  add_test(NAME paper/${name} COMMAND python3 ${source} $<TARGET_FILE:paradl>)
  set_tests_properties(paper/${name} PROPERTIES LABELS "paper" TIMEOUT 600
    SKIP_RETURN_CODE 77)
endforeach()

# The Python package, beside the library that was just built.
if(NOT PDL_SANITIZE)
  if(PDL_RUN_ROOMS) # what ranks read, to compare with
    add_executable(python_batches tests/python/batches.c)
    target_link_libraries(python_batches PRIVATE pdl_flags paradl_run_static)
    set(python_batches $<TARGET_FILE:python_batches>)
  endif()
  if(MICROHTTPD_FOUND)
    add_test(NAME serve/hostile
      COMMAND ${CMAKE_SOURCE_DIR}/tests/serve/hostile.py $<TARGET_FILE:paradl>)
    set_tests_properties(serve/hostile PROPERTIES LABELS "unit" TIMEOUT 120
      SKIP_RETURN_CODE 77)
  endif()
  file(GLOB scripts CONFIGURE_DEPENDS tests/python/*.py)
  foreach(source ${scripts})
    get_filename_component(name ${source} NAME_WE)
    add_test(NAME python/${name} COMMAND python3 ${source})
    set_tests_properties(python/${name} PROPERTIES LABELS "unit" TIMEOUT 300
      SKIP_RETURN_CODE 77 ENVIRONMENT
      "PYTHONPATH=${CMAKE_SOURCE_DIR}/python;PARADL_LIBRARY=$<TARGET_SONAME_FILE:paradl_shared>;PDL_BATCHES=${python_batches};PYTHONDONTWRITEBYTECODE=1")
  endforeach()
endif()

# What pages and programs say, read by another program.
file(GLOB scripts CONFIGURE_DEPENDS tests/report/*.py tests/coll/*.py)
foreach(source ${scripts})
  get_filename_component(name ${source} NAME_WE)
  get_filename_component(room ${source} DIRECTORY)
  get_filename_component(room ${room} NAME)
  add_test(NAME ${room}/${name} COMMAND python3 ${source} $<TARGET_FILE:paradl>)
  set_tests_properties(${room}/${name} PROPERTIES LABELS "cli" TIMEOUT 120)
endforeach()

add_library(replay OBJECT tests/fuzz/replay.c)
target_link_libraries(replay PRIVATE pdl_flags)
file(GLOB fuzzers CONFIGURE_DEPENDS tests/fuzz/fuzz_*.c)
foreach(source ${fuzzers})
  get_filename_component(name ${source} NAME_WE)
  string(REPLACE fuzz_ "" name ${name})
  set(library paradl_static)
  if(name MATCHES "^(io|comm|train)_") # of the second library, its insides too
    if(NOT CMAKE_MATCH_1 IN_LIST PDL_RUN_ROOMS)
      continue()
    endif()
    set(library paradl_run_static)
  endif()
  add_executable(replay_${name} ${source} $<TARGET_OBJECTS:replay>)
  target_compile_options(replay_${name} PRIVATE ${test_options})
  target_link_libraries(replay_${name} PRIVATE pdl_flags ${library})
  target_include_directories(replay_${name} PRIVATE src/io src/comm src/train)
  add_test(NAME fuzz/${name} COMMAND replay_${name}
    ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${name})
  set_tests_properties(fuzz/${name} PROPERTIES LABELS "unit" TIMEOUT 300)
  if(PDL_FUZZ)
    add_executable(fuzz_${name} ${source})
    list(APPEND fuzz_targets fuzz_${name})
    target_compile_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    target_link_libraries(fuzz_${name} PRIVATE pdl_flags ${library})
    target_include_directories(fuzz_${name} PRIVATE src/io src/comm src/train)
  endif()
endforeach()
if(PDL_FUZZ)
  add_custom_target(fuzz_targets DEPENDS ${fuzz_targets})
  target_compile_options(paradl_objects PRIVATE -fsanitize=fuzzer-no-link)
  if(TARGET paradl_run_objects)
    target_compile_options(paradl_run_objects PRIVATE
      -fsanitize=fuzzer-no-link)
  endif()
endif()

add_test(NAME cli/golden COMMAND ${CMAKE_SOURCE_DIR}/tests/cli/run.sh
  $<TARGET_FILE:paradl>)
set_tests_properties(cli/golden PROPERTIES LABELS "unit" TIMEOUT 600)

add_test(NAME cli/serve COMMAND python3
  ${CMAKE_SOURCE_DIR}/tests/cli/serve.py $<TARGET_FILE:paradl>)
set_tests_properties(cli/serve PROPERTIES LABELS "cli" TIMEOUT 120
  SKIP_RETURN_CODE 77)

# The smallest program that uses the shared library.
add_executable(example_plan examples/plan.c)
target_link_libraries(example_plan PRIVATE paradl_shared)
add_test(NAME examples/plan COMMAND example_plan
  ${CMAKE_SOURCE_DIR}/tests/data/hf/gpt2.json dgx-a100 16 64)
set_tests_properties(examples/plan PROPERTIES LABELS "unit"
  PASS_REGULAR_EXPRESSION "best of [0-9]+ that fit: .*data=.*a step takes .* s and .* GiB of a PE.- ")
add_test(NAME examples/plan_wrong COMMAND example_plan nosuch dgx-a100 16 64)
set_tests_properties(examples/plan_wrong PROPERTIES LABELS "unit"
  PASS_REGULAR_EXPRESSION "no model 'nosuch'|nosuch")

# The installed thing, the tool that installs packages, what CI runs.
foreach(name install/install tools/deps tools/ci tools/recipes)
  add_test(NAME ${name} COMMAND ${CMAKE_SOURCE_DIR}/tests/${name}.sh
    ${CMAKE_BINARY_DIR} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS "house" TIMEOUT 300)
endforeach()

# Rules of the house are quick and a part of make check; the three that compile
# or interpret every file again are make check-code.
foreach(check rooms symbols headers format docs width commits)
  set(lint_label_${check} lint)
endforeach()
foreach(check clang cppcheck tidy)
  set(lint_label_${check} code)
endforeach()
foreach(check rooms symbols headers format docs width commits
    clang cppcheck tidy)
  if(EXISTS ${CMAKE_SOURCE_DIR}/tools/check-${check}.sh)
    add_test(NAME lint/${check}
      COMMAND ${CMAKE_SOURCE_DIR}/tools/check-${check}.sh ${CMAKE_BINARY_DIR}
      WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(lint/${check} PROPERTIES
      LABELS "${lint_label_${check}}" TIMEOUT 1200)
  endif()
endforeach()

# The longest begin first, also on a machine that has not seen them yet (CTest
# learns from its first run): none of them is left alone at the end. Seconds of
# a processor, about; of both trees the more.
set(longest
  run/accidents-all 50 cli/golden 38 run/calibrate 25 run/train_lost-all 25
  oracle/search 22 paper/coll_ccpe 20 paper/coll_ccpe_more 20 comm/mpich 20
  train/exec 16 run/wrong_inputs-all 16 run/train_names-all 15
  oracle/search_space 14 run/train_curves-all 13 comm/mpi_collectives-7 13
  comm/sparse 12 design/share 12 run/train_equal-4 12 train/kill 11
  oracle/perlayer 10 paper/coll_networks 10 comm/memory 10
  comm/mpi_collectives-2 10 train/features 9 design/rank 9 paper/campaigns 9
  run/train_equal-2 9 coll/verify 8 comm/mpi_compress-7 8 comm/shim-7 8
  lint/docs 8 train/far 8 train/cuda 7 paper/calculon 7 run/train_equal-3 6
  install/install 6 oracle/fits 6 lint/format 6 paper/coll_times 6
  comm/faults 6)
while(longest)
  list(POP_FRONT longest name seconds)
  if(TEST ${name})
    set_tests_properties(${name} PROPERTIES COST ${seconds})
  endif()
endwhile()

# Threads of OpenMP that wait for each other sleep: with more of them than
# processors they would spin most of the time away, theirs and that of the test
# beside them. What calibrates keeps them as users have them. Rooms that search
# keep what they free: the system would take it back page by page.
get_property(tests DIRECTORY PROPERTY TESTS)
foreach(name ${tests})
  if(NOT name STREQUAL "run/calibrate")
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT
      "OMP_WAIT_POLICY=passive")
  endif()
  if(name MATCHES "^(plan|oracle|job|tune|design|report|paper)/")
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT
      "MALLOC_TOP_PAD_=67108864" "MALLOC_TRIM_THRESHOLD_=1073741824"
      "MALLOC_MMAP_THRESHOLD_=1073741824")
  endif()
endforeach()
