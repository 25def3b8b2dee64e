# SPDX-License-Identifier: MIT
# Copyright the rondo authors
#
# The programs. Each is made of the *.cpp files of a directory; a directory without any is skipped, so that a part
# can be added by adding its files.

# rondo_add_program(name DIRECTORIES dir... [LIBRARIES target...]): an executable from all *.cpp of the directories
# (the first must have some) linked with the library and its internals. Sets <name>_ADDED in the caller.
function(rondo_add_program name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "DIRECTORIES;LIBRARIES")
    set(sources "")
    set(first TRUE)
    set(${name}_ADDED FALSE PARENT_SCOPE)
    foreach(directory IN LISTS arg_DIRECTORIES)
        file(GLOB found CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${directory}/*.cpp")
        if(first AND NOT found)
            return()
        endif()
        set(first FALSE)
        list(APPEND sources ${found})
    endforeach()
    add_executable(${name} ${sources})
    rondo_compile_settings(${name})
    target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}")
    target_link_libraries(${name} PRIVATE rondo rondo_internals ${arg_LIBRARIES})
    set(${name}_ADDED TRUE PARENT_SCOPE)
endfunction()

# True if any of the globs matches: only then the dependencies of a part are looked for.
function(_rondo_has_sources result)
    set(globs "")
    foreach(directory IN LISTS ARGN)
        list(APPEND globs "${PROJECT_SOURCE_DIR}/${directory}/*.cpp")
    endforeach()
    file(GLOB found CONFIGURE_DEPENDS ${globs})
    if(found)
        set(${result} TRUE PARENT_SCOPE)
    else()
        set(${result} FALSE PARENT_SCOPE)
    endif()
endfunction()

set(RONDO_TOOLS "")
if(RONDO_BUILD_TOOLS)
    _rondo_has_sources(_rondo_any tools/ring_dump tools/ring_ctl tools/demo)
    if(_rondo_any)
        rondo_require_package(fmt fmt::fmt libfmt-dev "part 'tools'")
        rondo_require_package(CLI11 CLI11::CLI11 libcli11-dev "part 'tools'")
        rondo_require_package(nlohmann_json nlohmann_json::nlohmann_json nlohmann-json3-dev "part 'tools'")
    endif()
    set(_rondo_tool_libraries fmt::fmt CLI11::CLI11 nlohmann_json::nlohmann_json)
    foreach(_tool IN ITEMS ring-dump ring-ctl)
        string(REPLACE "-" "_" _directory "${_tool}")
        rondo_add_program(${_tool} DIRECTORIES tools/${_directory} tools/common LIBRARIES ${_rondo_tool_libraries})
        if(${_tool}_ADDED)
            list(APPEND RONDO_TOOLS ${_tool})
        endif()
    endforeach()
    rondo_add_program(rondo-demo DIRECTORIES tools/demo LIBRARIES ${_rondo_tool_libraries})
endif()

if(RONDO_BUILD_BENCH)
    _rondo_has_sources(_rondo_any bench)
    if(_rondo_any)
        rondo_require_package(benchmark benchmark::benchmark libbenchmark-dev "part 'bench'")
        rondo_require_header(concurrentqueue/concurrentqueue.h rondo_concurrentqueue libconcurrentqueue-dev
            "part 'bench'")
        rondo_add_program(rondo-bench DIRECTORIES bench bench/support
            LIBRARIES benchmark::benchmark rondo_concurrentqueue)
    endif()
    _rondo_has_sources(_rondo_any perf/ring_perf)
    if(_rondo_any)
        rondo_require_package(fmt fmt::fmt libfmt-dev "part 'perf'")
        rondo_require_package(CLI11 CLI11::CLI11 libcli11-dev "part 'perf'")
        rondo_require_package(nlohmann_json nlohmann_json::nlohmann_json nlohmann-json3-dev "part 'perf'")
        rondo_require_header(concurrentqueue/concurrentqueue.h rondo_concurrentqueue libconcurrentqueue-dev
            "part 'perf'")
        rondo_add_program(ring-perf DIRECTORIES perf/ring_perf
            LIBRARIES fmt::fmt CLI11::CLI11 nlohmann_json::nlohmann_json rondo_concurrentqueue)
    endif()
endif()
