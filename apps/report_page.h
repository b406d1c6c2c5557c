#pragma once
// The page of `relibra report`, embedded at build time from the files of apps/report.
#include <string_view>

namespace relibra {

/// The HTML before and after the JSON document that the page shows.
struct ReportPage {
  std::string_view head, tail;
};
extern const ReportPage kReportPage;

}  // namespace relibra
