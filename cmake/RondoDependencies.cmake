# SPDX-License-Identifier: MIT
# Copyright the rondo authors
#
# Every dependency is a Debian 12 package. Each is looked for only by the part that needs it, and a missing one is
# reported by the name of its package.

macro(_rondo_missing what package part)
    message(FATAL_ERROR
        "rondo: ${what} not found, the ${part} needs it. On Debian: apt-get install ${package}\n"
        "(./dev build installs everything that is missing.)")
endmacro()

# rondo_require_package(name target package part [version]): a CMake package that must provide an imported target.
macro(rondo_require_package name target package part)
    if(NOT TARGET ${target})
        find_package(${name} ${ARGN} QUIET)
        if(NOT TARGET ${target})
            _rondo_missing("${name} ${ARGN}" "${package}" "${part}")
        endif()
    endif()
endmacro()

# rondo_require_header(header target package part): a header-only library without a CMake package of its own;
# makes an imported target of it.
function(rondo_require_header header target package part)
    if(TARGET ${target})
        return()
    endif()
    string(MAKE_C_IDENTIFIER "RONDO_INCLUDE_${header}" variable)
    find_path(${variable} "${header}")
    mark_as_advanced(${variable})
    if(NOT ${variable})
        _rondo_missing("${header}" "${package}" "${part}")
    endif()
    add_library(${target} INTERFACE IMPORTED GLOBAL)
    target_include_directories(${target} INTERFACE "${${variable}}")
endfunction()
