# What modules use of Zephyr's functions for CMake, after its documentation: libraries of a module are linked whole, and
# include directories and definitions are those of all code.
add_library(zephyr_interface INTERFACE)
set_property(GLOBAL PROPERTY ZEPHYR_LIBRARIES "")

function(zephyr_include_directories)
  foreach(place ${ARGN})
    target_include_directories(zephyr_interface INTERFACE ${place})
  endforeach()
endfunction()

function(zephyr_compile_definitions_ifdef condition)
  if(${condition})
    target_compile_definitions(zephyr_interface INTERFACE ${ARGN})
  endif()
endfunction()

macro(zephyr_library_named name)
  set(ZEPHYR_CURRENT_LIBRARY ${name})
  add_library(${name} STATIC)
  target_link_libraries(${name} PUBLIC zephyr_interface)
  set_property(GLOBAL APPEND PROPERTY ZEPHYR_LIBRARIES ${name})
endmacro()

function(zephyr_library_sources)
  target_sources(${ZEPHYR_CURRENT_LIBRARY} PRIVATE ${ARGN})
endfunction()
