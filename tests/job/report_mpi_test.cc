#include "lib/job/report.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include "lib/job/report_cells.h"
#include "lib/job/report_extras.h"
#include "lib/job/report_pack.h"
#include "tests/support/hand_plan.h"

namespace relibra {
namespace {

using Json = nlohmann::ordered_json;
using Integers = std::vector<std::int64_t>;
using testing::HandPlan;
using testing::RandomCase;
using testing::RandomPlan;

/// As the page does it.
std::string inflate_base64(const std::string& text, std::size_t size) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string packed;
  for (std::size_t at = 0; at < text.size(); at += 4) {
    std::uint32_t group = 0;
    int letters = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const auto digit = digits.find(text[at + i]);
      letters += digit != std::string::npos;
      group = group << 6 | (digit == std::string::npos ? 0 : static_cast<std::uint32_t>(digit));
    }
    for (int i = 0; i + 1 < letters; ++i) packed += static_cast<char>(group >> (16 - 8 * i) & 255);
  }
  std::string bytes(size, '\0');
  uLongf length = size;
  EXPECT_EQ(uncompress(reinterpret_cast<Bytef*>(bytes.data()), &length,
                       reinterpret_cast<const Bytef*>(packed.data()), packed.size()),
            Z_OK);
  EXPECT_EQ(length, size);
  return bytes;
}

Integers unpack(const Json& packed) {
  const auto count = packed.at("count").get<std::size_t>(), width = packed.at("width").get<std::size_t>();
  const std::string bytes = inflate_base64(packed.at("data"), count * width);
  Integers values(count);
  for (std::size_t place = width; place-- > 0;)
    for (std::size_t i = 0; i < count; ++i)
      values[i] = values[i] * 256 + static_cast<unsigned char>(bytes[place * count + i]);
  return values;
}

TEST(ReportPack, AsManyBytesAsTheLargestNeeds) {
  const std::pair<Integers, int> cases[] = {{{}, 1},
                                            {{0}, 1},
                                            {{1, 255}, 1},
                                            {{1, 258, 3}, 2},
                                            {{65535, 65536}, 3},
                                            {{7, std::int64_t{1} << 32}, 5},
                                            {{(std::int64_t{1} << 53) - 1, 0, 1}, 7}};
  for (const auto& [values, width] : cases) {
    const Json packed = pack_integers(values);
    EXPECT_EQ(packed["width"], width);
    EXPECT_EQ(unpack(packed), values);
  }
  // The example of the header, before it is deflated.
  EXPECT_EQ(inflate_base64(pack_integers(Integers{1, 258, 3})["data"], 6), std::string("\1\2\3\0\1\0", 6));
}

TEST(Report, PartsOfTheWorkedExample) {
  const HandPlan hand;
  const PlanCells& cells = hand.memory.cells;
  const std::vector<ExpertPart> expected = {{ExpertId(0), RankId(0), ExpertPart::kHome, 4},
                                            {ExpertId(0), RankId(1), 0, 1}};
  EXPECT_EQ(expert_parts(cells.copies_of(0), cells.split_of(0)), expected);
  // A copy that gets nothing is told as well.
  EXPECT_EQ(expert_parts(cells.copies_of(0), {}), (std::vector<ExpertPart>{{ExpertId(0), RankId(1), 0, 0}}));
}

/// Loads 5 2 3 2 before and 4 3 3 2 after: skews 5/3 and 4/3, mean 3; nodes 7 5 before, 7 5 after.
TEST(Report, DocumentOfTheWorkedExample) {
  HandPlan hand;
  const Comm comm = Comm::world();
  hand.memory.plan.header.dump_digest = count_routing(comm, hand.source, {}).digest;
  const ReportedPlan reported = report_plan(comm, hand.memory.view(), "hand", &hand.source, {});
  if (!comm.root()) {
    EXPECT_TRUE(reported.document.is_null());
    return;
  }
  const Json& json = reported.document;
  EXPECT_EQ(json["name"], "hand");
  EXPECT_EQ(unpack(json["loads"]["before"]), (Integers{5, 2, 3, 2}));
  EXPECT_EQ(unpack(json["loads"]["after"]), (Integers{4, 3, 3, 2}));
  EXPECT_EQ(unpack(json["skew"]["before"]), (Integers{16667}));
  EXPECT_EQ(unpack(json["skew"]["after"]), (Integers{13333}));
  EXPECT_EQ(unpack(json["skew"]["node_after"]), (Integers{11667}));  // 7 / 6
  EXPECT_EQ(unpack(json["skew"]["mean_bound"]), (Integers{10000}));  // ceil(3) / 3
  EXPECT_EQ(unpack(json["skew"]["node_bound"]), (Integers{13333}));  // ceil(7 / 2) / 3
  EXPECT_EQ(unpack(json["skew"]["replica_bound"]), (Integers{13333}));
  EXPECT_EQ(unpack(json["home"]), (Integers{0, 1, 2, 3}));
  EXPECT_EQ(unpack(json["expert_tokens"]), (Integers{5, 2, 3, 2}));
  EXPECT_EQ(unpack(json["expert_copies"]), (Integers{1, 0, 0, 0}));
  EXPECT_EQ(unpack(json["copy_routes"])[1], 1);  // from home 0 to rank 1
  EXPECT_EQ(unpack(json["rows"]), (Integers{6}));
  EXPECT_DOUBLE_EQ(json["overall"]["before"]["skew"]["mean"], 5.0 / 3);
  EXPECT_NEAR(reported.worst.at(0), 4.0 / 3, 1e-12);
  const Json detail = Json::parse(reported.detail.at(0));
  EXPECT_EQ(unpack(detail["parts"]["cell"]), (Integers{2}));
  EXPECT_EQ(unpack(detail["parts"]["rank"]), (Integers{0, 1}));
  EXPECT_EQ(unpack(detail["parts"]["slot"]), (Integers{0, 1}));
  EXPECT_EQ(unpack(detail["parts"]["tokens"]), (Integers{4, 1}));
  EXPECT_EQ(unpack(detail["counts"]), (Integers{5, 2, 3, 2}));
}

TEST(Report, WithoutTheDumpOnlyWhatThePlanTells) {
  HandPlan hand;
  const Comm comm = Comm::world();
  const ReportedPlan reported = report_plan(comm, hand.memory.view(), "hand", nullptr, {});
  if (!comm.root()) return;
  const Json& json = reported.document;
  EXPECT_EQ(unpack(json["loads"]["after"]), (Integers{4, 3, 3, 2}));
  for (const char* field : {"expert_tokens", "rows", "traffic"}) EXPECT_TRUE(json[field].is_null()) << field;
  EXPECT_TRUE(json["skew"]["replica_bound"].is_null());
  EXPECT_TRUE(Json::parse(reported.detail.at(0))["counts"].is_null());
}

/// What the page stacks is the rank's load, for every cell, rank and side.
void expect_stacks(const RandomPlan& random, const ReportedPlan& reported) {
  const PlanHeader& h = random.plan.plan.header;
  const Topology& t = h.topology;
  const auto experts = static_cast<std::size_t>(h.num_experts);
  const Integers after = unpack(reported.document["loads"]["after"]);
  for (MicroBatchId m : all<MicroBatchId>(h.num_micro_batches)) {
    const Json detail = Json::parse(reported.detail[m.index()]);
    const Integers counts = unpack(detail["counts"]), in_cell = unpack(detail["parts"]["cell"]);
    const Integers expert = unpack(detail["parts"]["expert"]), rank = unpack(detail["parts"]["rank"]);
    const Integers tokens = unpack(detail["parts"]["tokens"]);
    std::size_t part = 0;
    for (LayerId l : all<LayerId>(h.num_layers())) {
      Integers sums(static_cast<std::size_t>(t.world()));
      std::vector<bool> replicated(static_cast<std::size_t>(t.ep_groups) * experts);
      for (std::int64_t i = 0; i < in_cell[l.index()]; ++i, ++part) {
        const RankId r(rank[part]);
        sums[r.index()] += tokens[part];
        replicated[t.group_of(r).index() * experts + static_cast<std::size_t>(expert[part])] = true;
      }
      const testing::SlowCell slow = random.slow_cell(m, l);
      for (GroupId g : all<GroupId>(t.ep_groups))
        for (ExpertId e : all<ExpertId>(h.num_experts)) {
          const std::size_t at = g.index() * experts + e.index();
          if (!replicated[at])
            sums[t.rank_of(g, random.plan.plan.placement.home(l, e)).index()] +=
                counts[l.index() * replicated.size() + at];
        }
      const auto cell = static_cast<std::size_t>(h.cell(m, l)) * sums.size();
      for (std::size_t r = 0; r < sums.size(); ++r) {
        EXPECT_EQ(sums[r], slow.rank_tokens[1][r]) << "cell " << h.cell(m, l) << " rank " << r;
        EXPECT_EQ(after[cell + r], slow.rank_tokens[1][r]);
      }
    }
  }
}

TEST(Report, StackedExpertsAreTheLoads) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const Topology groups{.ep_size = 2, .ep_groups = 2, .gpus_per_node = 2};
    const RandomPlan random(
        seed % 2 ? RandomCase{.seed = seed}
                 : RandomCase{.seed = seed, .experts = 5, .topology = groups, .replica_slots = 1});
    auto source = random.source();
    const ReportedPlan reported = report_plan(Comm::world(), random.plan.view(), "random", &source, {});
    if (Comm::world().root()) expect_stacks(random, reported);
    auto alone = random.source();
    const ReportedPlan one = report_plan(Comm(MPI_COMM_SELF), random.plan.view(), "random", &alone, {});
    if (!Comm::world().root()) continue;
    EXPECT_EQ(one.document, reported.document);
    EXPECT_EQ(one.detail, reported.detail);
    EXPECT_EQ(one.worst, reported.worst);
  }
}

TEST(Report, APlanOfAnotherDumpIsRefusedOnEveryRank) {
  HandPlan hand;
  hand.memory.plan.header.dump_digest = "c1-0000000000000000";
  try {
    report_plan(Comm::world(), hand.memory.view(), "hand", &hand.source, {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::input);
    EXPECT_TRUE(error.agreed());
  }
}

/// Two plans of two micro-batches with 100 bytes of detail each; skews 1.5 1.1 and 1.2 1.5.
TEST(Report, TheLimitKeepsTheDetailOfTheWorst) {
  const std::string detail = Json{{"x", std::string(92, 'x')}}.dump();
  ASSERT_EQ(detail.size(), 100u);
  const std::vector<ReportedPlan> plans = {{Json{{"name", "a"}}, {detail, detail}, {1.5, 1.1}},
                                           {Json{{"name", "b"}}, {detail, detail}, {1.2, 1.5}}};
  const auto bare = static_cast<std::int64_t>(report_text(plans, {}, 0).json.size());
  EXPECT_EQ(report_text(plans, {}, 0).left_out, 4);
  const ReportText two = report_text(plans, {}, bare + 299);
  EXPECT_EQ(two.left_out, 2);
  EXPECT_LE(std::ssize(two.json), bare + 299);
  const Json json = Json::parse(two.json);
  EXPECT_TRUE(json["plans"][0]["detail"][0].is_object());
  EXPECT_TRUE(json["plans"][0]["detail"][1].is_null());
  EXPECT_TRUE(json["plans"][1]["detail"][0].is_null());
  EXPECT_TRUE(json["plans"][1]["detail"][1].is_object());
  EXPECT_EQ(report_text(plans, {}, bare + 400).left_out, 0);
}

TEST(Report, NothingFromFilesEndsTheElementItStandsIn) {
  const std::string name = "</script><script>alert(1)</script><!-- \xff";
  const ReportText text = report_text({{Json{{"name", name}}, {}, {}}}, {}, 1000);
  EXPECT_EQ(text.json.find('<'), std::string::npos);
  EXPECT_EQ(Json::parse(text.json)["plans"][0]["name"], name.substr(0, name.size() - 1) + "\xEF\xBF\xBD");
}

constexpr const char* kTrace = R"({"traceEvents": [
  {"ph": "M", "name": "process_name", "pid": 0, "tid": 0, "args": {"name": "plan"}},
  {"ph": "M", "name": "thread_name", "pid": 0, "tid": 2, "args": {"name": "rank 1"}},
  {"ph": "X", "name": "experts", "pid": 0, "tid": 2, "ts": 10.25, "dur": 4,
   "args": {"micro_batch": 3, "layer": 0, "direction": "backward"}},
  {"ph": "X", "name": "gather", "pid": 0, "tid": 0, "ts": 2, "dur": 1.5},
  {"ph": "X", "name": "gather", "pid": 0, "tid": 2, "ts": 7, "dur": 3}]})";

TEST(Report, TraceInColumns) {
  const Json trace = report_trace("trace.json", kTrace);
  EXPECT_EQ(trace["tracks"], Json::parse(R"([{"process": "plan", "name": "rank 1"},
                                              {"process": "plan", "name": "0"}])"));
  EXPECT_EQ(trace["names"], (Json{"experts", "gather"}));
  EXPECT_EQ(unpack(trace["events"]["track"]), (Integers{0, 0, 1}));
  EXPECT_EQ(unpack(trace["events"]["name"]), (Integers{1, 0, 1}));
  EXPECT_EQ(unpack(trace["events"]["gap"]), (Integers{70, 33, 20}));  // 10.25 us is 103 tenths
  EXPECT_EQ(unpack(trace["events"]["length"]), (Integers{30, 40, 15}));
  EXPECT_EQ(unpack(trace["events"]["micro_batch"]), (Integers{0, 4, 0}));
  EXPECT_EQ(unpack(trace["events"]["layer"]), (Integers{0, 1, 0}));
  EXPECT_EQ(unpack(trace["events"]["backward"]), (Integers{0, 1, 0}));
  EXPECT_EQ(trace["left_out"], 0);
  // The first two in time are kept: both gathers.
  const Json shorter = report_trace("trace.json", kTrace, 2);
  EXPECT_EQ(unpack(shorter["events"]["name"]), (Integers{1, 1}));
  EXPECT_EQ(shorter["left_out"], 1);
}

TEST(Report, OtherFilesAreNoComparisons) {
  EXPECT_EQ(report_compare("c.json", R"({"format": "relibra.compare", "version": 1})")["version"], 1);
  for (const char* text : {"no json", "{}", "[1]", R"({"format": "relibra.compare", "version": 2})",
                           R"({"format": "relibra.metrics", "version": 1})"})
    EXPECT_THROW(report_compare("c.json", text), Error) << text;
}

TEST(Report, OtherFilesAreNoTraces) {
  for (const char* text : {"no json", "{}", R"({"traceEvents": [{"ph": "X", "name": 5}]})", "[1, 2]"})
    EXPECT_THROW(report_trace("trace.json", text), Error) << text;
}

}  // namespace
}  // namespace relibra
