# Turns files into one C array each and a table of them.
#   cmake -DOUT=x.c -DHEADER=x.h -DLISTS="table=folder;..." -P embed.cmake
# A table is `const struct pdl_builtin table[]`, sorted by name, NULL-ended.
set(text "/* Made by cmake/embed.cmake. */\n#include \"${HEADER}\"\n")
foreach(list ${LISTS})
  string(REGEX MATCH "^([^=]+)=(.+)$" _ "${list}")
  set(table ${CMAKE_MATCH_1})
  set(folder ${CMAKE_MATCH_2})
  file(GLOB files ${folder}/*.yaml)
  list(TRANSFORM files REPLACE "\\.yaml$" "")
  list(SORT files) # by name: "x" before "x-y"
  set(rows "")
  set(i 0)
  foreach(file ${files})
    get_filename_component(name ${file} NAME)
    file(READ ${file}.yaml hex HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
    string(APPEND text
      "static const char ${table}_${i}[] = {${hex}0};\n")
    string(APPEND rows
      "    {\"${name}\", ${table}_${i}, sizeof ${table}_${i} - 1},\n")
    math(EXPR i "${i} + 1")
  endforeach()
  string(APPEND text "const struct pdl_builtin ${table}[] = {\n${rows}"
    "    {NULL, NULL, 0},\n};\n")
endforeach()
file(WRITE ${OUT} "${text}")
