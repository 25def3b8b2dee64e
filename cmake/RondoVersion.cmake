# SPDX-License-Identifier: MIT
# Copyright the rondo authors
#
# Reads the version from include/rondo/version.hpp, the only place where it is written.
# Result: RONDO_VERSION ("major.minor.patch").

set(_rondo_version_header "${CMAKE_CURRENT_LIST_DIR}/../include/rondo/version.hpp")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${_rondo_version_header}")
file(READ "${_rondo_version_header}" _rondo_version_text)

set(_rondo_version_parts "")
foreach(_part IN ITEMS major minor patch)
    if(NOT _rondo_version_text MATCHES "version_${_part} = ([0-9]+);")
        message(FATAL_ERROR "rondo: include/rondo/version.hpp does not define version_${_part}")
    endif()
    list(APPEND _rondo_version_parts "${CMAKE_MATCH_1}")
endforeach()
list(JOIN _rondo_version_parts "." RONDO_VERSION)
