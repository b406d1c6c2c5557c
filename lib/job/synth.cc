#include "lib/job/synth.h"

#include <array>
#include <charconv>
#include <cstring>
#include <fstream>
#include <map>
#include <set>

#include "lib/comm/agree.h"

namespace relibra {
namespace {

constexpr const char* kColumns = "model,domain,layer,expert,count";

struct CountRow {
  std::string model, domain;
  int layer = 0, expert = 0;
  double count = 0;
};

template <class T>
bool parse(const std::string& text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() && value >= 0;
}

CountRow parse_row(const std::string& line, const std::string& where) {
  std::array<std::string, 5> fields;
  std::size_t at = 0, field = 0;
  for (; field < fields.size() && at <= line.size(); ++field) {
    const std::size_t end = std::min(line.find(',', at), line.size());
    fields[field] = line.substr(at, end - at);
    at = end + 1;
  }
  CountRow row{.model = fields[0], .domain = fields[1]};
  constexpr int kMostExperts = 1 << 16;
  if (field != fields.size() || at != line.size() + 1 || !parse(fields[2], row.layer) ||
      !parse(fields[3], row.expert) || !parse(fields[4], row.count) || row.expert >= kMostExperts)
    throw_input({.where = where, .expected = kColumns, .found = "'" + line + "'"});
  return row;
}

std::vector<CountRow> read_rows(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw_input({.where = path, .expected = "a table of counts", .found = std::strerror(errno)});
  std::string line;
  const auto next = [&] {
    if (!std::getline(file, line)) return false;
    if (line.ends_with('\r')) line.pop_back();
    return true;
  };
  if (!next() || line != kColumns)
    throw_input(
        {.where = path, .expected = std::string("a first line ") + kColumns, .found = "'" + line + "'"});
  std::vector<CountRow> rows;
  for (std::int64_t number = 2; next(); ++number)
    if (!line.empty()) rows.push_back(parse_row(line, path + ", line " + std::to_string(number)));
  return rows;
}

std::string chosen_model(const std::vector<CountRow>& rows, const std::string& path,
                         const std::string& model) {
  std::set<std::string> models;
  for (const CountRow& row : rows) models.insert(row.model);
  if (models.contains(model)) return model;
  if (model.empty() && models.size() == 1) return *models.begin();
  std::string names;
  for (const std::string& name : models) names += (names.empty() ? "" : ", ") + name;
  throw_usage({.where = "--counts-model",
               .expected = "one of the models of " + path + ": " + names,
               .found = model.empty() ? "none" : model});
}

template <class T>
std::size_t index_in(const std::vector<T>& values, const T& value) {
  return static_cast<std::size_t>(std::find(values.begin(), values.end(), value) - values.begin());
}

MeasuredPopularity popularity_of(const std::vector<CountRow>& rows, const std::string& path,
                                 const std::string& model) {
  MeasuredPopularity measured;
  std::set<std::string> domains;
  std::set<int> layers;
  for (const CountRow& row : rows) {
    if (row.model != model) continue;
    domains.insert(row.domain);
    layers.insert(row.layer);
    measured.experts = std::max(measured.experts, row.expert + 1);
  }
  measured.domains.assign(domains.begin(), domains.end());
  measured.layers.assign(layers.begin(), layers.end());
  const auto experts = static_cast<std::size_t>(measured.experts);
  measured.counts.assign(domains.size() * layers.size() * experts, -1);
  std::size_t seen = 0;
  for (const CountRow& row : rows) {
    if (row.model != model) continue;
    double& count = measured.counts[(index_in(measured.domains, row.domain) * layers.size() +
                                     index_in(measured.layers, row.layer)) *
                                        experts +
                                    static_cast<std::size_t>(row.expert)];
    if (count < 0) ++seen;
    count = row.count;
  }
  if (seen != measured.counts.size())
    throw_input(
        {.where = path,
         .expected = "every expert of " + model + " once in each of " + std::to_string(layers.size()) +
                     " layers and " + std::to_string(domains.size()) + " domains",
         .found = std::to_string(seen) + " of " + std::to_string(measured.counts.size()) + " counts"});
  return measured;
}

}  // namespace

SynthResult synthesise(const Comm& comm, const WorkloadOptions& workload, const std::string& path,
                       const io::DumpWriteOptions& write) {
  std::unique_ptr<RoutingSource> source;
  agreed(comm, [&] { source = make_workload(workload); });
  io::write_dump(comm, *source, path, write);
  const RoutingDump& dump = source->dump();
  return {.sequences = dump.sequences.size(),
          .rows = dump.sequences.total_rows(),
          .id_bytes = dump.sequences.total_rows() * dump.header.num_layers() * dump.header.top_k *
                      static_cast<std::int64_t>(size_of(source->id_type()))};
}

MeasuredPopularity read_popularity(const Comm& comm, const std::string& path, const std::string& model) {
  MeasuredPopularity measured;
  agreed(comm, [&] {
    const auto rows = read_rows(path);
    measured = popularity_of(rows, path, chosen_model(rows, path, model));
  });
  return measured;
}

}  // namespace relibra
