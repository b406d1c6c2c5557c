#include "lib/job/report_extras.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "lib/comm/agree.h"
#include "lib/job/report_pack.h"

namespace relibra {
namespace {

using Json = nlohmann::ordered_json;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) throw_input({.where = path, .expected = "a file to read", .found = "none"});
  return text;
}

Json parse(const std::string& where, const std::string& text) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    throw_input({.where = where,
                 .expected = "a JSON document",
                 .found = "something else at byte " + std::to_string(error.byte)});
  }
}

/// A span of one track.
struct Event {
  std::size_t track, name;
  std::int64_t begin, length;  ///< tenths of microseconds
  std::int64_t micro_batch = 0, layer = 0, backward = 0;
};

class TraceReader {
 public:
  void take(const Json& event) {
    const std::string kind = event.at("ph");
    if (kind != "M" && kind != "X") return;
    const std::pair<std::int64_t, std::int64_t> where{event.at("pid"), event.value("tid", 0)};
    const std::string name = event.at("name");
    if (name == "process_name")
      process_[where.first] = event.at("args").at("name");
    else if (name == "thread_name")
      thread_[where] = event.at("args").at("name");
    else if (kind == "X")
      span(event, where, name);
  }

  Json document(std::size_t most) {
    std::stable_sort(events_.begin(), events_.end(),
                     [](const Event& a, const Event& b) { return a.begin < b.begin; });
    const std::size_t kept = std::min(most, events_.size()), left_out = events_.size() - kept;
    events_.erase(events_.begin() + static_cast<std::ptrdiff_t>(kept), events_.end());
    std::stable_sort(events_.begin(), events_.end(),
                     [](const Event& a, const Event& b) { return a.track < b.track; });
    Json tracks = Json::array();
    for (const auto& where : track_at_)
      tracks.push_back({{"process", name_of(process_, where.first, std::to_string(where.first))},
                        {"name", name_of(thread_, where, std::to_string(where.second))}});
    return {{"tracks", tracks}, {"names", names_}, {"events", columns()}, {"left_out", left_out}};
  }

 private:
  using Place = std::pair<std::int64_t, std::int64_t>;  ///< process, thread

  template <class Key>
  static std::string name_of(const std::map<Key, std::string>& names, const Key& key,
                             const std::string& otherwise) {
    const auto found = names.find(key);
    return found == names.end() ? otherwise : found->second;
  }

  void span(const Json& event, const Place& where, const std::string& name) {
    const auto tenths = [](double microseconds) { return std::llround(std::max(0.0, microseconds) * 10); };
    const auto [track, new_track] = tracks_.try_emplace(where, track_at_.size());
    if (new_track) track_at_.push_back(where);
    const auto [at, new_name] = name_index_.try_emplace(name, names_.size());
    if (new_name) names_.push_back(name);
    Event e{.track = track->second,
            .name = at->second,
            .begin = tenths(event.at("ts")),
            .length = tenths(event.at("dur"))};
    if (event.contains("args")) {
      const Json& arguments = event["args"];
      e.micro_batch = std::max(-1, arguments.value("micro_batch", -1)) + 1;
      e.layer = std::max(-1, arguments.value("layer", -1)) + 1;
      e.backward = arguments.value("direction", "") == "backward";
    }
    events_.push_back(e);
  }

  Json columns() const {
    std::vector<std::int64_t> track, name, gap, length, micro_batch, layer, backward;
    for (std::size_t i = 0; i < events_.size(); ++i) {
      const Event& e = events_[i];
      const bool first = i == 0 || events_[i - 1].track != e.track;
      track.push_back(static_cast<std::int64_t>(e.track));
      name.push_back(static_cast<std::int64_t>(e.name));
      gap.push_back(first ? e.begin : e.begin - events_[i - 1].begin);
      length.push_back(e.length);
      micro_batch.push_back(e.micro_batch);
      layer.push_back(e.layer);
      backward.push_back(e.backward);
    }
    return {{"track", pack_integers(track)},
            {"name", pack_integers(name)},
            {"gap", pack_integers(gap)},
            {"length", pack_integers(length)},
            {"micro_batch", pack_integers(micro_batch)},
            {"layer", pack_integers(layer)},
            {"backward", pack_integers(backward)}};
  }

  std::map<std::int64_t, std::string> process_;
  std::map<Place, std::string> thread_;
  std::map<Place, std::size_t> tracks_;
  std::vector<Place> track_at_;
  std::map<std::string, std::size_t> name_index_;
  std::vector<std::string> names_;
  std::vector<Event> events_;
};

}  // namespace

Json report_trace(const std::string& where, const std::string& text, std::size_t most) {
  const Json trace = parse(where, text);
  try {
    TraceReader reader;
    for (const Json& event : trace.at("traceEvents")) reader.take(event);
    return reader.document(most);
  } catch (const Json::exception& error) {
    throw_input({.where = where,
                 .expected = "a timeline in Chrome trace format, as 'run --trace' writes it",
                 .found = error.what()});
  }
}

Json report_compare(const std::string& where, const std::string& text) {
  Json compare = parse(where, text);
  const bool right = compare.is_object() && compare.value("format", Json()) == "relibra.compare" &&
                     compare.value("version", Json()) == 1;
  if (!right)
    throw_input(
        {.where = where, .expected = "the document of 'compare --json', version 1", .found = "another one"});
  return compare;
}

ReportExtras read_extras(const Comm& comm, const std::string& compare, const std::string& trace) {
  ReportExtras extras;
  agreed(comm, [&] {
    if (!comm.root()) return;
    if (!compare.empty()) extras.compare = report_compare(compare, read_file(compare));
    if (!trace.empty()) extras.trace = report_trace(trace, read_file(trace));
  });
  return extras;
}

}  // namespace relibra
