# SPDX-License-Identifier: Apache-2.0
# cmake -DOUTPUT=<file> -DROOT=<folder> -DFILES=<file,...> -P embed_texts.cmake
# Writes a C++ file with the texts of files below ROOT, as the rows {"name", "text"}, of a list.
string(REPLACE "," ";" names "${FILES}")
set(rows "")
foreach(name IN LISTS names)
  file(READ "${ROOT}/${name}" text)
  string(APPEND rows "{\"${name}\", R\"embedded(${text})embedded\"},\n")
endforeach()
file(WRITE "${OUTPUT}" "${rows}")
