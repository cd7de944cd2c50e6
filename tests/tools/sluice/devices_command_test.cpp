// SPDX-License-Identifier: Apache-2.0
#include "tests/tools/sluice/program.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <string>
#include <unistd.h>

namespace sluice::test {
namespace {

class devices_command : public program_test {};

TEST_F(devices_command, lists_the_host_as_json) {
  const auto outcome = run({"devices", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_EQ(outcome.errors, "");
  const auto json = nlohmann::json::parse(outcome.output);
  int chosen = 0;
  bool host = false;
  for (const auto& device : json.at("devices")) {
    EXPECT_FALSE(device.at("name").get<std::string>().empty());
    EXPECT_GT(device.at("memory_bytes").get<std::uint64_t>(), 0u);
    chosen += device.at("auto").get<bool>() ? 1 : 0;
    if (device.at("device") == "host:0") {
      host = true;
      EXPECT_EQ(device.at("kind"), "host");
    } else {
      EXPECT_EQ(device.at("kind"), "cuda");
      EXPECT_TRUE(device.contains("compute_capability"));
    }
  }
  EXPECT_TRUE(host);
  EXPECT_EQ(chosen, 1);
}

TEST_F(devices_command, lists_one_device_a_line) {
  const auto json = nlohmann::json::parse(run({"devices", "--json"}).output);
  const auto table = run({"devices", "--quiet"});
  EXPECT_EQ(table.status, 0);
  EXPECT_EQ(static_cast<std::size_t>(std::count(table.output.begin(), table.output.end(), '\n')),
            json.at("devices").size());
  EXPECT_NE(table.output.find("host:0"), std::string::npos);
}

TEST_F(devices_command, lists_only_the_named_device) {
  const auto outcome = run({"devices", "--json", "--device", "host"});
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const auto json = nlohmann::json::parse(outcome.output);
  ASSERT_EQ(json.at("devices").size(), 1u);
  EXPECT_EQ(json.at("devices")[0].at("device"), "host:0");
}

TEST_F(devices_command, fails_when_the_list_cannot_be_written) {
  expect_error(1, {"standard output"}, {"devices"}, [] {
    const int full = ::open("/dev/full", O_WRONLY);
    ::dup2(full, STDOUT_FILENO);
  });
}

}  // namespace
}  // namespace sluice::test
