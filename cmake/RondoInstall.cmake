# SPDX-License-Identifier: MIT
# Copyright the rondo authors
#
# cmake --install: headers, the static library, the CMake package, rondo.pc and the tools.

include(CMakePackageConfigHelpers)

option(RONDO_INSTALL "Add rondo to the install target" ${PROJECT_IS_TOP_LEVEL})
if(NOT RONDO_INSTALL)
    return()
endif()

set(_rondo_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/rondo")

install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/rondo" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
    FILES_MATCHING PATTERN "*.hpp")
install(TARGETS rondo EXPORT rondo-targets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(EXPORT rondo-targets NAMESPACE rondo:: FILE rondo-targets.cmake DESTINATION "${_rondo_package_dir}")

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/rondo-config.cmake.in"
    "${PROJECT_BINARY_DIR}/rondo-config.cmake" INSTALL_DESTINATION "${_rondo_package_dir}"
    NO_SET_AND_CHECK_MACRO)
# Before 1.0 a new minor version may break the interface.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/rondo-config-version.cmake"
    VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/rondo-config.cmake" "${PROJECT_BINARY_DIR}/rondo-config-version.cmake"
    DESTINATION "${_rondo_package_dir}")

# Relative to the place of rondo.pc itself, so that an installation may be moved.
file(RELATIVE_PATH RONDO_PC_PREFIX
    "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
string(REGEX REPLACE "/$" "" RONDO_PC_PREFIX "${RONDO_PC_PREFIX}")
configure_file("${PROJECT_SOURCE_DIR}/cmake/rondo.pc.in" "${PROJECT_BINARY_DIR}/rondo.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/rondo.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

if(RONDO_TOOLS)
    install(TARGETS ${RONDO_TOOLS} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
