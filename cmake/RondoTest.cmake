# SPDX-License-Identifier: MIT
# Copyright the rondo authors
#
# How a test is registered. A test program may take options from a comment line near its top:
#
#     // ctest: TIMEOUT 120 SANITIZE asan tsan
#
# TIMEOUT s      seconds until ctest kills it (default 60; three times as long in a sanitizer build); its own watchdog
#                strikes five seconds earlier and names the test case.
# SANITIZE ...   the sanitizer builds it is part of: asan, tsan, or none. Without it the label decides:
#                unit and format run under asan, stress under tsan, all others only without a sanitizer.
# HOOKS          links the library built with RONDO_TEST_HOOKS=1 (crash points).
# SERIAL         ctest runs nothing else beside it. Stress tests always run so.

set(RONDO_TEST_LABELS unit format stress process model fault tools)

# Sets <result> to TRUE if a test belongs to the current build.
function(_rondo_test_selected result label sanitize)
    if(NOT RONDO_SANITIZE)
        set(${result} TRUE PARENT_SCOPE)
        return()
    endif()
    if(NOT sanitize)
        if(label MATCHES "^(unit|format)$")
            set(sanitize asan)
        elseif(label STREQUAL "stress")
            set(sanitize tsan)
        endif()
    endif()
    if(RONDO_SANITIZE IN_LIST sanitize)
        set(${result} TRUE PARENT_SCOPE)
    else()
        set(${result} FALSE PARENT_SCOPE)
    endif()
endfunction()

function(_rondo_test_properties name label timeout serial)
    if(RONDO_SANITIZE)
        math(EXPR timeout "3 * ${timeout}")
    endif()
    math(EXPR watchdog "${timeout} - 5")
    if(watchdog LESS 1)
        message(FATAL_ERROR "rondo: test ${name}: TIMEOUT must be more than 5 seconds")
    endif()
    set_tests_properties(${name} PROPERTIES
        LABELS ${label} TIMEOUT ${timeout} SKIP_RETURN_CODE 77
        ENVIRONMENT "RONDO_WATCHDOG_S=${watchdog};RONDO_BIN=${PROJECT_BINARY_DIR}/bin;RONDO_SOURCE=${PROJECT_SOURCE_DIR}")
    if(serial OR label STREQUAL "stress")
        set_tests_properties(${name} PROPERTIES RUN_SERIAL TRUE)
    endif()
endfunction()

# rondo_add_test(NAME x LABEL unit|stress|process|format|model|fault|tools SOURCES ... [TIMEOUT s]
#                [SANITIZE asan tsan|none] [HOOKS] [SERIAL] [LIBRARIES target...])
# A doctest program linked with tests/support and with the internals of the library.
function(rondo_add_test)
    cmake_parse_arguments(PARSE_ARGV 0 arg "HOOKS;SERIAL" "NAME;LABEL;TIMEOUT" "SOURCES;SANITIZE;LIBRARIES")
    if(arg_UNPARSED_ARGUMENTS OR arg_KEYWORDS_MISSING_VALUES OR NOT arg_NAME OR NOT arg_SOURCES)
        message(FATAL_ERROR "rondo: test '${arg_NAME}': bad options "
            "'${arg_UNPARSED_ARGUMENTS}${arg_KEYWORDS_MISSING_VALUES}'")
    endif()
    if(NOT arg_LABEL IN_LIST RONDO_TEST_LABELS)
        message(FATAL_ERROR "rondo: test ${arg_NAME}: label '${arg_LABEL}' is not one of ${RONDO_TEST_LABELS}")
    endif()
    foreach(sanitizer IN LISTS arg_SANITIZE)
        if(NOT sanitizer MATCHES "^(asan|tsan|none)$")
            message(FATAL_ERROR "rondo: test ${arg_NAME}: SANITIZE '${sanitizer}' is not asan, tsan or none")
        endif()
    endforeach()
    _rondo_test_selected(selected ${arg_LABEL} "${arg_SANITIZE}")
    if(NOT selected)
        return()
    endif()
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 60)
    endif()

    add_executable(${arg_NAME} ${arg_SOURCES})
    rondo_compile_settings(${arg_NAME})
    set_target_properties(${arg_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests/bin")
    if(arg_HOOKS)
        target_link_libraries(${arg_NAME} PRIVATE rondo_test_support rondo_hooked ${arg_LIBRARIES})
    else()
        target_link_libraries(${arg_NAME} PRIVATE rondo_test_support rondo ${arg_LIBRARIES})
    endif()
    # The command line tools must exist before a test that may start them runs.
    if(RONDO_TOOLS AND arg_LABEL MATCHES "^(process|tools)$")
        add_dependencies(${arg_NAME} ${RONDO_TOOLS})
    endif()
    add_test(NAME ${arg_NAME} COMMAND ${arg_NAME})
    _rondo_test_properties(${arg_NAME} ${arg_LABEL} ${arg_TIMEOUT} ${arg_SERIAL})
endfunction()

# rondo_add_script_test(NAME x LABEL l COMMAND ... [TIMEOUT s] [SANITIZE ...] [SERIAL]): any other command as a test.
function(rondo_add_script_test)
    cmake_parse_arguments(PARSE_ARGV 0 arg "SERIAL" "NAME;LABEL;TIMEOUT" "COMMAND;SANITIZE")
    if(arg_UNPARSED_ARGUMENTS OR arg_KEYWORDS_MISSING_VALUES OR NOT arg_NAME OR NOT arg_COMMAND)
        message(FATAL_ERROR "rondo: test '${arg_NAME}': bad options "
            "'${arg_UNPARSED_ARGUMENTS}${arg_KEYWORDS_MISSING_VALUES}'")
    endif()
    # Scripts gain nothing from a sanitizer unless they say so, whatever their label.
    if(NOT arg_SANITIZE)
        set(arg_SANITIZE none)
    endif()
    _rondo_test_selected(selected ${arg_LABEL} "${arg_SANITIZE}")
    if(NOT selected)
        return()
    endif()
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 60)
    endif()
    add_test(NAME ${arg_NAME} COMMAND ${arg_COMMAND})
    _rondo_test_properties(${arg_NAME} ${arg_LABEL} ${arg_TIMEOUT} ${arg_SERIAL})
endfunction()

# The options of a file's "ctest:" comment line, as a list.
function(_rondo_test_options result file)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
    file(STRINGS "${file}" lines LIMIT_COUNT 1 REGEX "^(//|#) ctest: ")
    string(REGEX REPLACE "^(//|#) ctest: *" "" options "${lines}")
    separate_arguments(options UNIX_COMMAND "${options}")
    set(${result} "${options}" PARENT_SCOPE)
endfunction()

# rondo_discover_tests(label): each *.cpp of tests/<label> becomes a test <label>_<stem> of its own, and so does each
# *.py and *.sh of tests/tools.
function(rondo_discover_tests label)
    set(directory "${PROJECT_SOURCE_DIR}/tests/${label}")
    file(GLOB sources CONFIGURE_DEPENDS "${directory}/*.cpp")
    foreach(source IN LISTS sources)
        get_filename_component(stem "${source}" NAME_WE)
        _rondo_test_options(options "${source}")
        rondo_add_test(NAME ${label}_${stem} LABEL ${label} SOURCES "${source}" ${options})
    endforeach()
    if(NOT label STREQUAL "tools")
        return()
    endif()
    file(GLOB scripts CONFIGURE_DEPENDS "${directory}/*.py" "${directory}/*.sh")
    foreach(script IN LISTS scripts)
        get_filename_component(stem "${script}" NAME_WE)
        _rondo_test_options(options "${script}")
        if(script MATCHES "\\.py$")
            set(interpreter "${RONDO_PYTHON}" -B)
        else()
            set(interpreter bash)
        endif()
        rondo_add_script_test(NAME tools_${stem} LABEL tools COMMAND ${interpreter} "${script}" ${options})
    endforeach()
endfunction()
