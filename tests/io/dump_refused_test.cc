// Every dump that is refused: one fault each, put into a valid file, and what the message says.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "io/dump_file.h"
#include "tests/support/raw_file.h"

namespace relibra {
namespace {

using test::RawFile;
using test::TempFolder;
using testing::HasSubstr;

std::string error_of(const std::vector<std::string>& files) {
  try {
    io::open_dump(Comm::world(), files);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::input);
    EXPECT_TRUE(error.agreed());
    return error.what();
  }
  return "no error";
}

/// What is wrong and what the message must hold besides the file's name.
struct Refusal {
  const char* name;
  std::function<void(RawFile&)> spoil;
  const char* says;
};

void PrintTo(const Refusal& refusal, std::ostream* out) {
  *out << refusal.name;
}

class DumpRefused : public testing::TestWithParam<Refusal> {
 protected:
  TempFolder folder_;
};

TEST_P(DumpRefused, NamesFilePlaceAndFault) {
  RawFile raw = test::tiny_dump();
  GetParam().spoil(raw);
  const std::string path = folder_ / "bad.h5";
  raw.write(path);
  EXPECT_THAT(error_of({path}), HasSubstr(path + GetParam().says));
}

const RawFile kTiny = test::tiny_dump();

// A valid tiny_dump has E = 4, K = 2, L = 2, three sequences of 2, 0 and 3 rows.
const Refusal kRefusals[] = {
    {"NoFormat", [](RawFile& f) { f.attributes.erase("format"); },
     ": expected a routing dump (attribute format = \"relibra.routing\"), found no such attribute"},
    {"OtherFormat", [](RawFile& f) { f.set("format", "relibra.plan"); }, ": expected a routing dump"},
    {"FormatIsANumber", [](RawFile& f) { f.set("format", 1); }, ":format: expected a string attribute"},
    {"NoVersion", [](RawFile& f) { f.attributes.erase("version"); }, ":version: expected an integer"},
    {"NewVersion", [](RawFile& f) { f.set("version", 2); }, ":version: expected 1, found 2"},
    {"NoStep", [](RawFile& f) { f.attributes.erase("step"); }, ":step: expected an integer attribute"},
    {"StepIsText", [](RawFile& f) { f.set("step", "7"); }, ":step: expected an integer attribute"},
    {"NoExperts", [](RawFile& f) { f.set("num_experts", 0); }, ":num_experts: expected 1 to "},
    {"AbsurdExperts", [](RawFile& f) { f.set("num_experts", 1 << 30); }, ":num_experts: expected 1 to "},
    {"MoreTopKThanExperts", [](RawFile& f) { f.set("top_k", 5); }, ":top_k: expected 1 to 4, found 5"},
    {"NoTopK", [](RawFile& f) { f.attributes.erase("top_k"); }, ":top_k: expected an integer attribute"},
    {"PhysicalIds", [](RawFile& f) { f.set("id_space", "physical"); },
     ":id_space: expected \"logical\", found \"physical\"; ids of physical slots"},
    {"MissingIdIsAnExpert", [](RawFile& f) { f.set("missing_id", 3); },
     ":missing_id: expected an id outside 0..3, found 3"},
    {"NoMicroBatches", [](RawFile& f) { f.set("num_micro_batches", 0); }, ":num_micro_batches: expected 1"},
    {"NoOptimizerSteps", [](RawFile& f) { f.set("optimizer_steps", 0); }, ":optimizer_steps: expected 1"},
    {"UnequalRuns",
     [](RawFile& f) {
       f.set("num_micro_batches", 5);
       f.set("optimizer_steps", 2);
     },
     ":num_micro_batches: expected a multiple of optimizer_steps 2, found 5"},
    {"UnequalRunsOfFixedMicroBatches",
     [](RawFile& f) {
       f.set("optimizer_steps", 2);
       f["sequences/micro_batch"] = {.shape = {3}, .values = {0, 2, 1}};
     },
     ":/sequences/micro_batch: expected a number of micro-batches that is a multiple of optimizer_steps 2, "
     "found largest + 1 = 3"},
    {"OneOfTwoShards",
     [](RawFile& f) {
       f.set("shard", 0);
       f.set("num_shards", 2);
     },
     ":shard: expected all 2 shards of the step, found 1 file"},
    {"ShardWithoutNumber", [](RawFile& f) { f.set("num_shards", 1); }, ":shard: expected an integer"},
    {"ShardOutOfRange",
     [](RawFile& f) {
       f.set("shard", 1);
       f.set("num_shards", 1);
     },
     ":shard: expected 0..0 (num_shards is 1), found 1"},

    {"NoLayers", [](RawFile& f) { f.arrays.erase("layers"); }, ":/layers: expected a dataset"},
    {"EmptyLayers",
     [](RawFile& f) {
       f["layers"] = {.shape = {0}};
       f["experts"] = {.type = H5T_STD_U8LE, .shape = {5, 0, 2}};
     },
     ":/layers: expected at least one layer"},
    {"FallingLayers",
     [](RawFile& f) {
       f["layers"].values = {5, 3};
     },
     ":/layers: expected strictly increasing numbers from 0, found 3 at index 1 (1 such)"},
    {"EqualLayers",
     [](RawFile& f) {
       f["layers"].values = {3, 3};
     },
     ":/layers: expected strictly"},
    {"NegativeLayer",
     [](RawFile& f) {
       f["layers"].values = {-1, 3};
     },
     ":/layers: expected strictly"},
    {"LayersOfFloats",
     [](RawFile& f) {
       f["layers"] = {.type = H5T_IEEE_F32LE, .shape = {2}, .reals = {3, 5}};
     },
     ":/layers: expected integers, found 32-bit float"},
    {"LayersTooWide",
     [](RawFile& f) {
       f["layers"] = {.type = H5T_STD_I64LE, .shape = {2}, .values = {3, std::int64_t{1} << 40}};
     },
     ":/layers: expected values from -2147483648 to 2147483647, found 1099511627776"},
    {"FlatLayers",
     [](RawFile& f) {
       f["layers"].shape = {2, 1};
     },
     ":/layers: expected shape (any)"},

    {"NoRowOffset", [](RawFile& f) { f.arrays.erase("sequences/row_offset"); },
     ":/sequences/row_offset: expected a dataset"},
    {"NoSequencesGroup",
     [](RawFile& f) {
       f.arrays.clear();
       f["experts"] = kTiny.arrays.at("experts");
       f["layers"] = kTiny.arrays.at("layers");
     },
     ":/sequences/row_offset: expected a dataset"},
    {"EmptyRowOffset", [](RawFile& f) { f["sequences/row_offset"] = {.type = H5T_STD_I64LE, .shape = {0}}; },
     ":/sequences/row_offset: expected offsets that start at 0, found no offset"},
    {"RowOffsetStartsLate",
     [](RawFile& f) {
       f["sequences/row_offset"].values = {1, 2, 2, 5};
     },
     ":/sequences/row_offset: expected offsets that start at 0, found 1"},
    {"RowOffsetFalls",
     [](RawFile& f) {
       f["sequences/row_offset"].values = {0, 4, 2, 5};
     },
     ":/sequences/row_offset: expected offsets that never fall, found 2 after 4 at sequence 1 (1 such)"},
    {"RowOffsetEndsEarly",
     [](RawFile& f) {
       f["sequences/row_offset"].values = {0, 2, 2, 4};
     },
     ":/sequences/row_offset: expected offsets that end at the 5 rows of /experts, found 4"},
    {"RowOffsetEndsLate",
     [](RawFile& f) {
       f["sequences/row_offset"].values = {0, 2, 2, 6};
     },
     ":/sequences/row_offset: expected offsets that end at the 5 rows of /experts, found 6"},

    {"NoIds", [](RawFile& f) { f.arrays.erase("experts"); }, ":/experts: expected a dataset"},
    {"IdsAreFloats",
     [](RawFile& f) {
       f["experts"] = {.type = H5T_IEEE_F32LE, .shape = {5, 2, 2}, .reals = std::vector<double>(20)};
     },
     ":/experts: expected integer expert ids, found 32-bit float"},
    {"IdsAreFlat",
     [](RawFile& f) {
       f["experts"].shape = {5, 4};
     },
     ":/experts: expected shape (any, 2, 2), found shape (5, 4)"},
    {"IdsOfOtherTopK", [](RawFile& f) { f.set("top_k", 1); },
     ":/experts: expected shape (any, 2, 1), found shape (5, 2, 2)"},
    {"IdsOfOtherLayers", [](RawFile& f) { f["layers"] = {.shape = {1}, .values = {3}}; },
     ":/experts: expected shape (any, 1, 2), found shape (5, 2, 2)"},
    {"IdsAreAGroup",
     [](RawFile& f) {
       f.arrays.erase("experts");
       f["experts/values"] = {.shape = {1}, .values = {1}};
     },
     ":/experts: expected a dataset, found another kind of object"},
    {"WeightsOfOtherShape",
     [](RawFile& f) {
       f["weights"] = {.type = H5T_IEEE_F32LE, .shape = {5, 2, 1}, .reals = std::vector<double>(10)};
     },
     ":/weights: expected shape (5, 2, 2), found shape (5, 2, 1)"},
    {"WeightsAreDoubles",
     [](RawFile& f) {
       f["weights"] = {.type = H5T_IEEE_F64LE, .shape = {5, 2, 2}, .reals = std::vector<double>(20)};
     },
     ":/weights: expected 16-bit or 32-bit floats, found 64-bit float"},

    {"MoreRowsThanTokens",
     [](RawFile& f) {
       f["sequences/num_tokens"] = {.type = H5T_STD_I64LE, .shape = {3}, .values = {2, 0, 2}};
     },
     ":/sequences/num_tokens: expected at least row_start + recorded rows, found 2 with 3 recorded at "
     "sequence 2 (1 such)"},
    {"MoreRowsThanTokensAfterAPrefix",
     [](RawFile& f) {
       f["sequences/num_tokens"] = {.type = H5T_STD_I64LE, .shape = {3}, .values = {2, 0, 3}};
       f["sequences/row_start"] = {.type = H5T_STD_I64LE, .shape = {3}, .values = {1, 1, 0}};
     },
     ":/sequences/num_tokens: expected at least row_start + recorded rows, found 2 with 3 recorded at "
     "sequence 0 (2 such)"},
    {"NegativeRowStart",
     [](RawFile& f) {
       f["sequences/row_start"] = {.type = H5T_STD_I64LE, .shape = {3}, .values = {0, -1, 0}};
     },
     ":/sequences/row_start: expected no negative value, found -1 at sequence 1 (1 such)"},
    {"AbsurdRowStart",
     [](RawFile& f) {
       f["sequences/row_start"] = {.type = H5T_STD_I64LE, .shape = {3}, .values = {INT64_MAX, 0, 0}};
     },
     ":/sequences/row_start: expected a position in a sequence, found 9223372036854775807 at sequence 0"},
    {"ColumnTooShort",
     [](RawFile& f) {
       f["sequences/group"] = {.shape = {2}, .values = {0, 0}};
     },
     ":/sequences/group: expected shape (3), found shape (2)"},
    {"NegativeMicroBatch",
     [](RawFile& f) {
       f["sequences/micro_batch"] = {.shape = {3}, .values = {0, -1, -2}};
     },
     ":/sequences/micro_batch: expected no negative value, found -1 at sequence 1 (2 such)"},
    {"MicroBatchOverTheAttribute",
     [](RawFile& f) {
       f.set("num_micro_batches", 2);
       f["sequences/micro_batch"] = {.shape = {3}, .values = {0, 1, 2}};
     },
     ":/sequences/micro_batch: expected less than the attribute num_micro_batches 2, found 2 at sequence 2"},
    {"NegativeSourceRank",
     [](RawFile& f) {
       f["sequences/source_rank"] = {.shape = {3}, .values = {0, 0, -4}};
     },
     ":/sequences/source_rank: expected no negative value, found -4 at sequence 2"},
    {"DomainOfNumbers",
     [](RawFile& f) {
       f["sequences/domain"] = {.shape = {3}, .values = {0, 0, 0}};
     },
     ":/sequences/domain: expected strings, found signed 32-bit integer"},
};

INSTANTIATE_TEST_SUITE_P(Faults, DumpRefused, testing::ValuesIn(kRefusals),
                         [](const auto& info) { return info.param.name; });

TEST(NotADump, FilesThatAreNone) {
  const TempFolder folder;
  EXPECT_THAT(error_of({folder / "none.h5"}), HasSubstr("none.h5: expected an HDF5 file, found no file"));
  EXPECT_THAT(error_of({folder.path()}), HasSubstr("found a directory"));
  std::ofstream(folder / "text.h5") << "hello";
  EXPECT_THAT(error_of({folder / "text.h5"}), HasSubstr("text.h5: expected an HDF5 file, found another"));
  std::ofstream(folder / "empty.h5");
  EXPECT_THAT(error_of({folder / "empty.h5"}), HasSubstr("empty.h5: expected an HDF5 file"));
}

// A copy that broke off: HDF5 knows from the superblock how long the file should be.
TEST(NotADump, CutOffFile) {
  const TempFolder folder;
  const std::string path = folder / "cut.h5";
  test::tiny_dump().write(path);
  const auto whole = std::filesystem::file_size(path);
  for (const auto size : {whole - 1, whole / 2, std::uintmax_t{100}}) {
    std::filesystem::resize_file(path, size);
    EXPECT_THAT(error_of({path}), HasSubstr("cut.h5")) << size;
  }
}

TEST(NotADump, NoFilesAtAllIsAUsageError) {
  try {
    io::open_dump(Comm::world(), {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::usage);
  }
}

class Shards : public testing::Test {
 protected:
  TempFolder folder_;

  // Writes `shards` as s0.h5, s1.h5, ... with number and count set unless they are already.
  std::vector<std::string> write(std::vector<RawFile> shards) {
    std::vector<std::string> files;
    for (std::size_t i = 0; i < shards.size(); ++i) {
      auto& attributes = shards[i].attributes;
      const auto missing = [&](const char* name) { return attributes.find(name) == attributes.end(); };
      if (missing("shard")) shards[i].set("shard", static_cast<std::int64_t>(i));
      if (missing("num_shards")) shards[i].set("num_shards", static_cast<std::int64_t>(shards.size()));
      files.push_back(folder_ / ("s" + std::to_string(i) + ".h5"));
      shards[i].write(files.back());
    }
    return files;
  }
  std::string error_with_second(const std::function<void(RawFile&)>& spoil) {
    RawFile second = test::tiny_dump();
    spoil(second);
    return error_of(write({test::tiny_dump(), second}));
  }
};

TEST_F(Shards, MustBeAllThereOnce) {
  const auto files = write({test::tiny_dump(), test::tiny_dump(), test::tiny_dump()});
  EXPECT_EQ(error_of(files), "no error");
  EXPECT_THAT(error_of({files[0], files[1]}), HasSubstr("expected all 3 shards of the step, found 2 files"));
  EXPECT_THAT(error_of({files[0], files[1], files[1]}),
              HasSubstr("s1.h5:shard: expected each shard once, found shard 1 also in "));
  test::tiny_dump().write(folder_ / "plain.h5");
  EXPECT_THAT(error_of({folder_ / "plain.h5", folder_ / "plain.h5"}),
              HasSubstr("plain.h5:shard: expected attributes shard and num_shards"));
}

TEST_F(Shards, MustAgree) {
  const auto attribute = [&](const char* name, std::int64_t value) {
    return error_with_second([&](RawFile& f) { f.set(name, value); });
  };
  EXPECT_THAT(attribute("step", 8), HasSubstr("s1.h5:step: expected 7 as in "));
  EXPECT_THAT(attribute("step", 8), HasSubstr("s0.h5, found 8; shards of one step must agree"));
  EXPECT_THAT(attribute("num_experts", 9), HasSubstr("s1.h5:num_experts: expected 4 as in"));
  EXPECT_THAT(attribute("num_micro_batches", 9), HasSubstr("s1.h5:num_micro_batches: expected none as in"));
  EXPECT_THAT(attribute("optimizer_steps", 9), HasSubstr("s1.h5:optimizer_steps: expected 1 as in"));
  EXPECT_THAT(attribute("missing_id", 255), HasSubstr("s1.h5:missing_id: expected none as in"));
  EXPECT_THAT(error_with_second([](RawFile& f) {
                f["layers"].values = {3, 6};
              }),
              HasSubstr("s1.h5:/layers: expected the same layers as in"));
  EXPECT_THAT(error_with_second([](RawFile& f) { f["experts"].type = H5T_STD_I16LE; }),
              HasSubstr("s1.h5:/experts: expected the same element type as in"));
  EXPECT_THAT(error_with_second([](RawFile& f) {
                f["weights"] = {.type = H5T_IEEE_F32LE, .shape = {5, 2, 2}, .reals = std::vector<double>(20)};
              }),
              HasSubstr("s1.h5:/weights: expected absent as in"));
  EXPECT_THAT(error_with_second([](RawFile& f) {
                f.set("top_k", 1);
                f["experts"] = {.type = H5T_STD_U8LE, .shape = {5, 2, 1}};
              }),
              HasSubstr("s1.h5:top_k: expected 2 as in"));
}

TEST_F(Shards, HaveTheSameColumns) {
  for (const char* name :
       {"row_start", "num_tokens", "micro_batch", "source_rank", "prompt_tokens", "group", "domain"}) {
    const std::string path = std::string("sequences/") + name;
    const auto error = error_with_second([&](RawFile& f) {
      if (path == "sequences/domain")
        f[path] = {.shape = {3}, .strings = {"a", "b", "c"}};
      else
        f[path] = {.shape = {3}, .values = {3, 3, 3}};
    });
    EXPECT_THAT(error, HasSubstr("s1.h5:/" + path + ": expected absent as in")) << name;
  }
}

}  // namespace
}  // namespace relibra
