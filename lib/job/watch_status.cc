#include "lib/job/watch_status.h"

#include <ctime>
#include <fstream>

namespace relibra {
namespace {

using Json = nlohmann::ordered_json;

const char* name_of(StepRecord::Result result) {
  switch (result) {
    case StepRecord::Result::fell_back:
      return "fell back";
    case StepRecord::Result::failed:
      return "failed";
    case StepRecord::Result::planned:
      break;
  }
  return "planned";
}

StepRecord::Result result_of(const std::string& name) {
  for (const auto result : {StepRecord::Result::fell_back, StepRecord::Result::failed})
    if (name == name_of(result)) return result;
  return StepRecord::Result::planned;
}

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json file_json(const WatchedFile& file) {
  Json json = {{"name", file.name}, {"bytes", file.bytes}, {"modified_ns", file.modified_ns}};
  if (file.part && file.part->num_shards > 0) {
    json["shard"] = file.part->shard;
    json["num_shards"] = file.part->num_shards;
  }
  return json;
}

Json names_json(const std::vector<WatchedFile>& files) {
  Json names = Json::array();
  for (const WatchedFile& file : files) names.push_back(file.name);
  return names;
}

void add_figures(Json& json, const StepFigures& figures) {
  json["latency_seconds"] = figures.latency;
  json["planning_seconds"] = figures.planning;
  json["skew_before"] = figures.skew_before;
  json["skew_after"] = figures.skew_after;
  json["copies"] = figures.copies;
  json["moves"] = figures.moves;
}

Json record_json(const StepRecord& record) {
  Json json = {{"step", or_null(record.step)}, {"result", name_of(record.result)}};
  if (record.result == StepRecord::Result::failed) {
    json["fault"] = record.fault == Fault::usage ? "options" : "input";
    json["error"] = record.error;
  } else {
    json["plan"] = record.plan;
  }
  if (record.figures) add_figures(json, *record.figures);
  json["files"] = Json::array();
  for (const WatchedFile& file : record.files) json["files"].push_back(file_json(file));
  return json;
}

Json last_json(const std::optional<StepRecord>& last) {
  if (!last) return nullptr;
  Json json = {{"step", or_null(last->step)}, {"plan", last->plan}};
  if (last->figures) add_figures(json, *last->figures);
  return json;
}

Json at_hand_json(const std::optional<StepRecord>& record) {
  if (!record) return nullptr;
  return {{"step", or_null(record->step)}, {"files", names_json(record->files)}};
}

WatchedFile file_of(const Json& json, const std::optional<std::int64_t>& step) {
  WatchedFile file{.name = json.at("name"), .bytes = json.at("bytes"), .modified_ns = json.at("modified_ns")};
  if (step)
    file.part = io::DumpPart{
        .step = *step, .shard = json.value("shard", 0), .num_shards = json.value("num_shards", 0)};
  return file;
}

StepRecord record_of(const Json& json) {
  StepRecord record{.result = result_of(json.at("result")), .plan = json.value("plan", "")};
  if (!json.at("step").is_null()) record.step = json.at("step").get<std::int64_t>();
  for (const Json& file : json.at("files")) record.files.push_back(file_of(file, record.step));
  if (json.contains("latency_seconds"))
    record.figures = {.latency = json.at("latency_seconds"),
                      .planning = json.at("planning_seconds"),
                      .skew_before = json.at("skew_before"),
                      .skew_after = json.at("skew_after"),
                      .copies = json.at("copies"),
                      .moves = json.at("moves")};
  record.fault = json.value("fault", "") == "options" ? Fault::usage : Fault::input;
  record.error = json.value("error", "");
  return record;
}

}  // namespace

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

Json status_json(const WatchStatus& status) {
  Json json = {{"format", "relibra.watch"},
               {"version", 1},
               {"state", status.state},
               {"reason", status.reason.empty() ? Json(nullptr) : Json(status.reason)},
               {"folder", status.folder},
               {"plans", status.plans},
               {"host", status.writer.host},
               {"pid", status.writer.process},
               {"ranks", status.ranks},
               {"started", status.started},
               {"updated", status.updated},
               {"steps_planned", status.steps_planned},
               {"planning", at_hand_json(status.at_hand)},
               {"last", last_json(status.last)},
               {"errors", Json::array()},
               {"incomplete", Json::array()},
               {"steps", Json::array()}};
  for (const StepRecord& record : status.steps) {
    json["steps"].push_back(record_json(record));
    if (record.result == StepRecord::Result::failed)
      json["errors"].push_back(
          {{"step", or_null(record.step)}, {"files", names_json(record.files)}, {"error", record.error}});
  }
  for (const IncompleteStep& step : status.incomplete)
    json["incomplete"].push_back({{"step", step.step}, {"shards", step.shards}, {"of", step.of}});
  return json;
}

WatchStatus read_status(const std::string& path) {
  std::ifstream file(path);
  try {
    const Json json = Json::parse(file);
    WatchStatus status{.writer = {json.at("host"), json.at("pid")},
                       .steps_planned = json.at("steps_planned")};
    for (const Json& record : json.at("steps")) status.steps.push_back(record_of(record));
    return status;
  } catch (const Json::exception& error) {
    throw_input({.where = path, .expected = "the status of a watcher", .found = error.what()});
  }
}

}  // namespace relibra
