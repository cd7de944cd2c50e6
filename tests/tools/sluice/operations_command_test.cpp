// SPDX-License-Identifier: Apache-2.0
#include "tests/tools/sluice/program.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

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
  // The second column begins at the same place in all lines, whatever the length of the name.
  std::istringstream lines(table.output);
  std::size_t column = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(' ')) {
      EXPECT_EQ(line.find_first_not_of(' '), column + 2) << line;
    } else {
      const auto place = line.find_first_not_of(' ', line.find(' '));
      if (column == 0) column = place;
      EXPECT_EQ(place, column) << line;
    }
  }
  EXPECT_GT(column, std::string_view("transposed_convolution").size());
  const auto markdown = run({"operations", "--markdown"});
  EXPECT_EQ(markdown.status, 0);
  EXPECT_EQ(markdown.output.find("| operation |"), 0U);
  expect_error(2, {"--json"}, {"operations", "--json", "--markdown"});
}

}  // namespace
}  // namespace sluice::test
