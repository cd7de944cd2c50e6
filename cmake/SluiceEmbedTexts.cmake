# SPDX-License-Identifier: Apache-2.0
# sluice_embed_texts(<output> <folder> <name>...)
# Writes the texts of files below a folder as rows {"name", "text"}, which a list in C++ includes. Configures again when
# one of them changes. The check with clang-tidy builds nothing, so the rows are written here and not by a build.
function(sluice_embed_texts output folder)
  set(rows "")
  foreach(name IN LISTS ARGN)
    file(READ "${folder}/${name}" text)
    string(APPEND rows "{\"${name}\", R\"embedded(${text})embedded\"},\n")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${folder}/${name}")
  endforeach()
  file(GENERATE OUTPUT "${output}" CONTENT "${rows}")
endfunction()
