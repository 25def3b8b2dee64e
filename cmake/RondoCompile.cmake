# SPDX-License-Identifier: MIT
# Copyright the rondo authors
#
# How our own code is compiled: warnings for our targets only, sanitizers for the whole build, ccache if present.

option(RONDO_WERROR "Treat warnings in rondo's own code as errors" ${PROJECT_IS_TOP_LEVEL})
set(RONDO_SANITIZE "" CACHE STRING "Sanitizer: asan (address and undefined behaviour), tsan, or empty")
set_property(CACHE RONDO_SANITIZE PROPERTY STRINGS "" asan tsan)

if(RONDO_SANITIZE STREQUAL "asan")
    add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_link_options(-fsanitize=address,undefined)
elseif(RONDO_SANITIZE STREQUAL "tsan")
    add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
    add_link_options(-fsanitize=thread)
elseif(NOT RONDO_SANITIZE STREQUAL "")
    message(FATAL_ERROR "rondo: RONDO_SANITIZE is '${RONDO_SANITIZE}'; it must be asan, tsan or empty")
endif()

if(PROJECT_IS_TOP_LEVEL)
    if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
        set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
    endif()
    find_program(RONDO_CCACHE ccache)
    mark_as_advanced(RONDO_CCACHE)
    if(RONDO_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
        set(CMAKE_CXX_COMPILER_LAUNCHER "${RONDO_CCACHE}")
    endif()
    set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
endif()

# rondo_compile_settings(target): the language level and the warnings of our own code.
function(rondo_compile_settings target)
    set_target_properties(${target} PROPERTIES
        CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
    target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Wshadow)
    if(RONDO_WERROR)
        target_compile_options(${target} PRIVATE -Werror)
    endif()
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND RONDO_SANITIZE)
        # With sanitizer instrumentation g++ 12 reports initialised members as uninitialised.
        target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized)
    endif()
endfunction()
