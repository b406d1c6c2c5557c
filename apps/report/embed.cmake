# Makes one C++ source of the page: its HTML with style, chart library and scripts inside, cut where the data goes.
#   cmake -DFOLDER=... -DCHART=FILE-or-empty -DSCRIPTS="a.js b.js" -DOUT=page.cc -P embed.cmake
file(READ ${FOLDER}/page.html page)
file(READ ${FOLDER}/page.css style)
set(chart "")
if(CHART)
  file(READ ${CHART} chart)
endif()
string(REPLACE " " ";" scripts "${SCRIPTS}")
set(script "")
foreach(name IN LISTS scripts)
  file(READ ${FOLDER}/${name} text)
  string(APPEND script "${text}")
endforeach()
string(REPLACE "/*STYLE*/" "${style}" page "${page}")
string(REPLACE "/*CHART*/" "${chart}" page "${page}")
string(REPLACE "/*SCRIPT*/" "${script}" page "${page}")

set(mark "/*DATA*/")
string(FIND "${page}" "${mark}" at)
string(LENGTH "${mark}" length)
math(EXPR after "${at} + ${length}")
string(SUBSTRING "${page}" 0 ${at} head)
string(SUBSTRING "${page}" ${after} -1 tail)
file(WRITE ${OUT} "#include \"apps/report_page.h\"

namespace relibra {

const ReportPage kReportPage = {
R\"page(${head})page\",
R\"page(${tail})page\"};

}  // namespace relibra
")
