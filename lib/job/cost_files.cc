#include "lib/job/cost_files.h"

#include <toml++/toml.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include "lib/comm/agree.h"
#include "lib/cost/calibrate.h"
#include "lib/job/run.h"
#include "lib/workload/workload.h"

namespace relibra {
namespace {

using Json = nlohmann::ordered_json;

/// Name and member of every field, once for both directions.
template <class Visit>
void each_field(Cluster& c, Visit&& field) {
  field("flops", c.flops, true);
  field("gemm_share", c.gemm_share, true);
  field("gemm_half_rows", c.gemm_half_rows, false);
  field("attention_share", c.attention_share, true);
  field("nvlink_bytes_per_second", c.nvlink, true);
  field("nvlink_share", c.nvlink_share, true);
  field("network_bytes_per_second", c.network, true);
  field("network_share", c.network_share, true);
  field("latency_seconds", c.latency, false);
}
template <class Visit>
void each_field(LayerModel& m, Visit&& field) {
  field("hidden", m.hidden, true);
  field("intermediate", m.intermediate, true);
  field("attention_flops", m.attention_flops, false);
  field("shared_experts", m.shared_experts, false);
  field("dispatch_bytes", m.dispatch_bytes, true);
  field("combine_bytes", m.combine_bytes, true);
  field("weight_bytes", m.weight_bytes, true);
  field("gradient_bytes", m.gradient_bytes, true);
  field("moved_bytes", m.moved_bytes, true);
}

bool is_toml(const std::string& name) {
  return name.ends_with(".toml");
}

/// A TOML document as the JSON of the same content.
Json parse_toml(std::istream& file) {
  std::ostringstream json;
  json << toml::json_formatter(toml::parse(file));
  return Json::parse(json.str());
}

/// A JSON object or a TOML document, by the file's name.
Json read_document(const std::string& path) {
  const std::string format = is_toml(path) ? "TOML" : "JSON";
  std::ifstream file(path);
  if (!file) throw_input({.where = path, .expected = "a " + format + " file", .found = std::strerror(errno)});
  try {
    Json document = is_toml(path) ? parse_toml(file) : Json::parse(file);
    if (document.is_object()) return document;
  } catch (const nlohmann::json::exception& error) {
    throw_input({.where = path, .expected = format, .found = error.what()});
  } catch (const toml::parse_error& error) {
    throw_input({.where = path + ", line " + std::to_string(error.source().begin.line),
                 .expected = format,
                 .found = std::string(error.description())});
  }
  throw_input({.where = path, .expected = "a JSON object", .found = "something else"});
}

/// Overwrites the fields that the document has; others must have come from its base.
template <class T>
void fill(T& value, const Json& document, const std::string& path) {
  std::string names = "name, base";
  std::size_t known = document.contains("name") + document.contains("base");
  each_field(value, [&](const char* name, auto& member, bool positive) {
    names += std::string(", ") + name;
    if (document.contains(name)) {
      ++known;
      const Json& entry = document[name];
      using Member = std::remove_reference_t<decltype(member)>;
      const bool right = std::is_integral_v<Member> ? entry.is_number_integer() : entry.is_number();
      if (!right) throw_input({.where = path + ": " + name, .expected = "a number", .found = entry.dump()});
      member = entry.get<Member>();
    }
    if (positive ? !(member > 0) : !(member >= 0))
      throw_input({.where = path + ": " + name,
                   .expected = positive ? "a number above 0" : "a number, at least 0",
                   .found = document.contains(name) ? document[name].dump() : "none",
                   .advice = R"(give it, or a preset as "base")"});
  });
  if (known != document.size())
    throw_input({.where = path, .expected = "fields of " + names, .found = "others: " + document.dump()});
  const Json name = document.value("name", Json(path));
  value.name = name.is_string() ? name.get<std::string>() : name.dump();
}

/// The preset that a file builds on; empty where it names none.
std::string base_of(const Json& document, const std::string& path) {
  if (!document.contains("base")) return {};
  if (!document["base"].is_string())
    throw_input({.where = path + ": base", .expected = "a preset's name", .found = document["base"].dump()});
  return document["base"].get<std::string>();
}

bool is_file(const std::string& name) {
  return name.ends_with(".json") || is_toml(name);
}

LayerModel preset_model(const std::string& name, const RoutingDump& dump) {
  const exec::ModelShape shape = model_shape({.model = name}, dump);
  return {.name = name,
          .hidden = shape.hidden,
          .intermediate = shape.intermediate,
          .attention_flops = 2.0 * double(shape.hidden) * double(shape.attention_columns),
          .shared_experts = model_preset(name).shared_experts};
}

LayerModel file_model(const std::string& path, const RoutingDump& dump) {
  const Json document = read_document(path);
  LayerModel model;
  const std::string base = base_of(document, path);
  if (!base.empty()) model = preset_model(base, dump);
  fill(model, document, path);
  if (base.empty() && !document.contains("attention_flops")) {
    const exec::ModelShape shape = model_shape(
        {.hidden = static_cast<int>(model.hidden), .intermediate = static_cast<int>(model.intermediate)},
        dump);
    model.attention_flops = 2.0 * double(shape.hidden) * double(shape.attention_columns);
  }
  return model;
}

/// What a run's document says of its variants, all put together.
struct Measurements {
  std::vector<GemmSample> gemm;
  double attention_flops = 0, attention_seconds = 0;
  double dispatch = 0, weights = 0;  ///< bytes a second, the most of any variant
};

void add_visits(const Json& run, const Json& variant, Measurements& into) {
  std::map<std::pair<int, int>, const Json*> cells;
  for (const Json& cell : variant.at("schedule"))
    cells[{cell.at("micro_batch"), cell.at("layer")}] = &cell.at("ranks");
  const double attention = 2.0 * run.at("hidden").get<double>() * run.at("attention_columns").get<double>();
  for (const Json& visit : variant.at("visits")) {
    const Json& ranks = *cells.at({visit.at("micro_batch"), visit.at("layer")});
    const double passes = visit.at("direction") == "backward" ? 2 : 1;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      into.gemm.push_back({.rows = ranks[r].at("assignments"),
                           .experts = ranks[r].at("gemm_groups"),
                           .passes = passes,
                           .seconds = visit.at("compute").at(r)});
      if (!visit.contains("attention")) continue;
      into.attention_flops += passes * attention * ranks[r].at("tokens").get<double>();
      into.attention_seconds += visit["attention"].at(r).get<double>();
    }
  }
}

Measurements measurements(const Json& run) {
  Measurements found;
  for (const Json& variant : run.at("variants")) {
    if (!variant.contains("visits")) continue;
    add_visits(run, variant, found);
    if (!variant.contains("bytes_per_second")) continue;
    const Json& rates = variant["bytes_per_second"];
    found.dispatch = std::max(found.dispatch, rates.at("dispatch").at("bus").get<double>());
    found.weights = std::max(found.weights, rates.at("weights").at("bus").get<double>());
  }
  return found;
}

Calibration fit(const Json& run, Cluster cluster) {
  const Measurements found = measurements(run);
  const GemmFit gemm = fit_gemm(found.gemm);
  const double flops = 6.0 * run.at("hidden").get<double>() * run.at("intermediate").get<double>();
  cluster = with_gemm(cluster, gemm, flops);
  if (found.attention_seconds > 0 && found.attention_flops > 0)
    cluster.attention_share = found.attention_flops / found.attention_seconds / cluster.flops;
  const bool one_node = run.at("ep_size") <= run.at("gpus_per_node");
  if (found.dispatch > 0 && one_node) cluster.nvlink_share = found.dispatch / cluster.nvlink;
  if (found.dispatch > 0 && !one_node) cluster.network_share = found.dispatch / cluster.network;
  if (found.weights > 0) cluster.nvlink_share = found.weights / cluster.nvlink;
  cluster.name += ", calibrated";
  return {.cluster = cluster, .error = gemm.error, .samples = std::ssize(found.gemm)};
}

}  // namespace

Cluster read_cluster(const Comm& comm, const std::string& name_or_file) {
  Cluster cluster;
  agreed(comm, [&] {
    if (!is_file(name_or_file)) {
      cluster = cluster_preset(name_or_file);
      return;
    }
    const Json document = read_document(name_or_file);
    const std::string base = base_of(document, name_or_file);
    if (!base.empty()) cluster = cluster_preset(base);
    fill(cluster, document, name_or_file);
  });
  return cluster;
}

LayerModel read_layer_model(const Comm& comm, const std::string& name_or_file, const RoutingDump& dump) {
  LayerModel model;
  agreed(comm, [&] {
    model = is_file(name_or_file) ? file_model(name_or_file, dump) : preset_model(name_or_file, dump);
  });
  return model;
}

Calibration calibrate(const Comm& comm, const Cluster& cluster, const std::string& path) {
  Calibration calibration;
  agreed(comm, [&] {
    const Json run = read_document(path);
    if (run.value("format", "") != "relibra.run")
      throw_input({.where = path,
                   .expected = "a result of relibra run --json",
                   .found = "format '" + run.value("format", "") + "'"});
    try {
      calibration = fit(run, cluster);
    } catch (const std::exception& error) {
      if (dynamic_cast<const Error*>(&error)) throw;
      throw_input({.where = path, .expected = "a result of relibra run --json", .found = error.what()});
    }
  });
  return calibration;
}

Json cluster_json(const Cluster& cluster) {
  Json json = {{"name", cluster.name}};
  Cluster copy = cluster;
  each_field(copy, [&](const char* name, auto& member, bool) { json[name] = member; });
  return json;
}

Json model_json(const LayerModel& model) {
  Json json = {{"name", model.name}};
  LayerModel copy = model;
  each_field(copy, [&](const char* name, auto& member, bool) { json[name] = member; });
  return json;
}

}  // namespace relibra
