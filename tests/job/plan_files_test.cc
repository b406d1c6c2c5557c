#include "lib/job/plan_files.h"

#include <gtest/gtest.h>

namespace relibra {
namespace {

TEST(PlanPath, HasTheStepInSixDigits) {
  EXPECT_EQ(plan_path_in("out", 12), "out/step-000012.plan.h5");
  EXPECT_EQ(plan_path_in("out/", 1234567), "out/step-1234567.plan.h5");
}

}  // namespace
}  // namespace relibra
