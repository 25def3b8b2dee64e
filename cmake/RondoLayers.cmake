# SPDX-License-Identifier: MIT
# Copyright the rondo authors
#
# rondo_add_layer(name [below...]): the target rondo_<name> made of src/<name>/*.cpp. It is an OBJECT library, or an
# INTERFACE library as long as the layer has no .cpp file. A layer may use the layers below it and nothing else;
# tests/lint/check_layers.py holds the #include lines to that.

set_property(GLOBAL PROPERTY RONDO_LAYERS "")

function(rondo_add_layer name)
    file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${name}/*.cpp")
    set(target rondo_${name})
    if(sources)
        add_library(${target} OBJECT ${sources})
        rondo_compile_settings(${target})
        set(scope PUBLIC)
    else()
        add_library(${target} INTERFACE)
        set(scope INTERFACE)
    endif()
    target_link_libraries(${target} ${scope} rondo_internals)
    foreach(below IN LISTS ARGN)
        target_link_libraries(${target} ${scope} rondo_${below})
    endforeach()
    set_property(GLOBAL APPEND PROPERTY RONDO_LAYERS ${name})
    set_property(GLOBAL APPEND PROPERTY RONDO_SOURCES ${sources})
endfunction()

# rondo_add_library(): the static library `rondo`, all layers in one archive, and rondo_hooked, the same sources with
# RONDO_TEST_HOOKS defined (crash points), which is built only if a test asks for it.
function(rondo_add_library)
    get_property(layers GLOBAL PROPERTY RONDO_LAYERS)
    get_property(sources GLOBAL PROPERTY RONDO_SOURCES)
    add_library(rondo STATIC)
    foreach(layer IN LISTS layers)
        get_target_property(type rondo_${layer} TYPE)
        if(type STREQUAL "OBJECT_LIBRARY")
            target_sources(rondo PRIVATE $<TARGET_OBJECTS:rondo_${layer}>)
        endif()
    endforeach()
    set_target_properties(rondo PROPERTIES LINKER_LANGUAGE CXX)
    _rondo_public_interface(rondo)
    add_library(rondo::rondo ALIAS rondo)

    add_library(rondo_hooked STATIC EXCLUDE_FROM_ALL ${sources})
    rondo_compile_settings(rondo_hooked)
    target_compile_definitions(rondo_hooked PUBLIC RONDO_TEST_HOOKS=1)
    target_link_libraries(rondo_hooked PRIVATE rondo_internals)
    _rondo_public_interface(rondo_hooked)
endfunction()

function(_rondo_public_interface target)
    target_compile_features(${target} PUBLIC cxx_std_20)
    target_include_directories(${target} PUBLIC
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    target_link_libraries(${target} PUBLIC tl::expected Threads::Threads)
endfunction()
