# SPDX-License-Identifier: Apache-2.0
# The shared libraries, and the objects that they consist of.
#
#   sluice_add_library(<name>)
#
# adds the object library <name>_objects, which gets the sources, and the shared library <name>. Test programs link the
# objects, because they also test private parts. All other programs link the shared libraries. No program links both: it
# would have two copies of every variable.

function(sluice_add_library name)
  add_library(${name}_objects OBJECT)
  sluice_settings(${name}_objects)
  add_library(${name} SHARED)
  sluice_settings(${name})
  target_link_libraries(${name} PRIVATE ${name}_objects)
endfunction()
