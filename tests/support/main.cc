// The main of every test program. MPI is up for all of them: under mpirun only rank 0 prints, and the program
// fails on every rank where a test failed on any.
#include <gtest/gtest.h>

#include "lib/comm/comm.h"

int main(int argc, char** argv) {
  relibra::MpiSession mpi(&argc, &argv);
  testing::InitGoogleTest(&argc, argv);
  const auto world = relibra::Comm::world();
  if (!world.root()) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
  }
  const int mine = RUN_ALL_TESTS();
  if (mine != 0 && !world.root()) {
    const auto* unit = testing::UnitTest::GetInstance();
    for (int s = 0; s < unit->total_test_suite_count(); ++s)
      for (int t = 0; t < unit->GetTestSuite(s)->total_test_count(); ++t) {
        const auto* test = unit->GetTestSuite(s)->GetTestInfo(t);
        for (int p = 0; p < test->result()->total_part_count(); ++p)
          if (test->result()->GetTestPartResult(p).failed())
            std::fprintf(stderr, "rank %d: %s.%s: %s\n", world.rank(), test->test_suite_name(), test->name(),
                         test->result()->GetTestPartResult(p).summary());
      }
  }
  return world.max(mine);
}
