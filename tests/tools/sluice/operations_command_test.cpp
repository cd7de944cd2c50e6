// SPDX-License-Identifier: Apache-2.0
#include "tests/tools/sluice/program.hpp"

#include <nlohmann/json.hpp>

#include <set>
#include <string>

namespace sluice::test {
namespace {

class operations_command : public program_test {};

TEST_F(operations_command, lists_every_operation_once) {
  const auto outcome = run({"operations", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  std::set<std::string> names;
  const auto listed = nlohmann::json::parse(outcome.output);
  for (const auto& o : listed.at("operations")) {
    EXPECT_TRUE(names.insert(o.at("operation").get<std::string>()).second) << o.at("operation");
    for (const char* const key : {"result", "types", "layouts", "gpu", "host"}) {
      EXPECT_FALSE(o.at(key).get<std::string>().empty()) << o << ' ' << key;
    }
  }
  for (const char* const name : {"gemm", "conv2d", "irfft", "random_bits", "minimum", "upload"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST_F(operations_command, prints_tables) {
  const auto table = run({"operations"});
  EXPECT_EQ(table.status, 0);
  EXPECT_NE(table.output.find("gemm"), std::string::npos);
  const auto markdown = run({"operations", "--markdown"});
  EXPECT_EQ(markdown.status, 0);
  EXPECT_EQ(markdown.output.find("| operation |"), 0U);
  expect_error(2, {"--json"}, {"operations", "--json", "--markdown"});
}

}  // namespace
}  // namespace sluice::test
