#include "lib/job/cost_files.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "lib/base/error.h"

namespace relibra {
namespace {

/// A file of this content, gone at the end of the test.
class TextFile {
 public:
  explicit TextFile(const std::string& content, const std::string& ending = ".json")
      : path_(std::filesystem::temp_directory_path() /
              ("relibra-cost-" + std::to_string(::getpid()) + ending)) {
    std::ofstream(path_) << content;
  }
  ~TextFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

Comm self() {
  return Comm(MPI_COMM_SELF);
}

std::string cluster_error(const std::string& content, const std::string& ending = ".json") {
  const TextFile file(content, ending);
  try {
    read_cluster(self(), file.path());
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ReadCluster, WhatIsWrittenIsReadBack) {
  const Cluster& preset = cluster_preset("hopper-ib400");
  EXPECT_EQ(read_cluster(self(), "hopper-ib400"), preset);
  EXPECT_EQ(read_cluster(self(), TextFile(cluster_json(preset).dump()).path()), preset);
}

TEST(ReadCluster, ABaseGivesWhatAFileLeavesOut) {
  const TextFile file(R"({"name": "ours", "base": "hopper-ib400", "network_bytes_per_second": 12.5e9})");
  Cluster expected = cluster_preset("hopper-ib400");
  expected.name = "ours";
  expected.network = 12.5e9;
  EXPECT_EQ(read_cluster(self(), file.path()), expected);
}

TEST(ReadCluster, TomlSaysTheSame) {
  const TextFile file(
      "# ours\nname = \"ours\"\nbase = \"hopper-ib400\"\nnetwork_bytes_per_second = 12.5e9\nlatency_seconds "
      "= 0\n",
      ".toml");
  Cluster expected = cluster_preset("hopper-ib400");
  expected.name = "ours";
  expected.network = 12.5e9;
  expected.latency = 0;
  EXPECT_EQ(read_cluster(self(), file.path()), expected);
  EXPECT_NE(cluster_error("name = \"ours\"\nflops\n", ".toml").find("line 2: expected TOML"),
            std::string::npos);
  EXPECT_NE(cluster_error("base = \"hopper-ib400\"\nflop = 1\n", ".toml").find("others"), std::string::npos);
}

TEST(ReadCluster, FaultsAreNamed) {
  EXPECT_NE(cluster_error("{").find("expected JSON"), std::string::npos);
  EXPECT_NE(cluster_error("[1]").find("object"), std::string::npos);
  EXPECT_NE(cluster_error(R"({"flops": 1e12})").find("gemm_share"), std::string::npos);
  EXPECT_NE(cluster_error(R"({"base": 7})").find("base"), std::string::npos);
  EXPECT_NE(cluster_error(R"({"base": "abacus"})").find("hopper-ib400"), std::string::npos);
  EXPECT_NE(cluster_error(R"({"base": "hopper-ib400", "flop": 1})").find("others"), std::string::npos);
  EXPECT_NE(cluster_error(R"({"base": "hopper-ib400", "flops": "fast"})").find("flops"), std::string::npos);
  EXPECT_NE(cluster_error(R"({"base": "hopper-ib400", "network_share": 0})").find("network_share"),
            std::string::npos);
  EXPECT_THROW(read_cluster(self(), "absent.json"), Error);
}

TEST(ReadLayerModel, PresetsKnowAttentionAndSharedExperts) {
  RoutingDump dump;
  dump.sequences.num_tokens = {1000, 3000};
  const LayerModel model = read_layer_model(self(), "qwen3-235b", dump);
  EXPECT_EQ(model.hidden, 4096);
  EXPECT_EQ(model.shared_experts, 0);
  // Projections 2*H*(64*128 + 4*128), scores over half of 2000 positions: 2 * 128 * 64 * 2000 / 2 * 2.
  const double projections = 2.0 * 2 * 4096 * (8192 + 512), scores = 2.0 * 2000 * 8192;
  EXPECT_NEAR(model.attention_flops, projections + scores, 0.001 * projections);  // whole columns of eight
  EXPECT_EQ(read_layer_model(self(), "deepseek-v3", dump).shared_experts, 1);
  const TextFile file(R"({"base": "qwen3-235b", "attention_flops": 5, "dispatch_bytes": 1})");
  const LayerModel changed = read_layer_model(self(), file.path(), dump);
  EXPECT_EQ(changed.attention_flops, 5);
  EXPECT_EQ(changed.dispatch_bytes, 1);
  EXPECT_EQ(changed.intermediate, model.intermediate);
}

/// One node of two ranks; one cell, forward and backward. A row takes 2 ms, an expert 10 ms; attention of
/// 2 * 100 * 50 operations a token runs at 1 MFLOP/s.
nlohmann::ordered_json hand_run() {
  return nlohmann::ordered_json::parse(R"({
    "format": "relibra.run", "ep_size": 2, "gpus_per_node": 2, "hidden": 100, "intermediate": 20,
    "attention_columns": 50,
    "variants": [{
      "schedule": [{"micro_batch": 1, "layer": 2, "ranks": [
        {"tokens": 10, "assignments": 30, "gemm_groups": 1}, {"tokens": 10, "assignments": 10, "gemm_groups": 2}]}],
      "visits": [
        {"micro_batch": 1, "layer": 2, "direction": "forward", "compute": [0.07, 0.04], "attention": [0.1, 0.1]},
        {"micro_batch": 1, "layer": 2, "direction": "backward", "compute": [0.14, 0.08], "attention": [0.2, 0.2]}],
      "bytes_per_second": {"dispatch": {"algorithm": 9e9, "bus": 4.5e9}, "weights": {"algorithm": 9e9, "bus": 9e9}}
    }]})");
}

TEST(Calibrate, FitsWhatARunMeasured) {
  const Cluster& base = cluster_preset("hopper-ib400");
  const Calibration c = calibrate(self(), base, TextFile(hand_run().dump()).path());
  EXPECT_EQ(c.samples, 4);
  EXPECT_NEAR(c.error, 0, 1e-9);
  EXPECT_NEAR(c.cluster.flops * c.cluster.gemm_share, 6 * 100 * 20 / 2e-3, 1);
  EXPECT_NEAR(c.cluster.gemm_half_rows, 5, 1e-6);
  EXPECT_NEAR(c.cluster.flops * c.cluster.attention_share, 1e6, 1);
  EXPECT_NEAR(c.cluster.nvlink * c.cluster.nvlink_share, 9e9, 1);
  EXPECT_EQ(c.cluster.network_share, base.network_share);
}

TEST(Calibrate, DispatchBetweenNodesIsTheNetworks) {
  auto run = hand_run();
  run["gpus_per_node"] = 1;
  const Cluster c = calibrate(self(), cluster_preset("hopper-ib400"), TextFile(run.dump()).path()).cluster;
  EXPECT_NEAR(c.network * c.network_share, 4.5e9, 1);
}

TEST(Calibrate, OtherDocumentsAreRefused) {
  const Cluster& base = cluster_preset("hopper-ib400");
  auto run = hand_run();
  run["variants"][0]["visits"][0].erase("compute");
  EXPECT_THROW(calibrate(self(), base, TextFile(run.dump()).path()), Error);
  EXPECT_THROW(calibrate(self(), base, TextFile(R"({"format": "relibra.plan"})").path()), Error);
  run = hand_run();
  run["variants"] = nlohmann::ordered_json::array();  // --no-timing
  EXPECT_THROW(calibrate(self(), base, TextFile(run.dump()).path()), Error);
}

}  // namespace
}  // namespace relibra
