// SPDX-License-Identifier: Apache-2.0
#include "service/front/host_policy.hpp"

#include <gtest/gtest.h>

namespace sluice::service {
namespace {

TEST(host_policy, accepts_names_of_the_loopback_addresses) {
  const host_policy policy({"127.0.0.2", "inference.internal"});
  EXPECT_TRUE(policy.is_restricted());
  for (const char* host : {"localhost", "LocalHost:8000", "127.0.0.1", "127.0.0.1:1", "[::1]",
                           "[::1]:8000", "127.0.0.2:80", "inference.internal", "localhost:"}) {
    EXPECT_TRUE(policy.permits(host)) << host;
  }
}

TEST(host_policy, refuses_other_names) {
  const host_policy policy(std::vector<std::string>{});
  for (const char* host :
       {"", "evil.example", "localhost.evil.example", "localhost.", "127.0.0.1.evil.example",
        "localhost:80:80", "localhost:a", "localhost:123456", "[::1", "[::1]x", "[::2]",
        "user@localhost", "localhost@evil", "127.0.0.2", "127.0.0.10", "local", "localhost ",
        "[localhost]x", ":80"}) {
    EXPECT_FALSE(policy.permits(host)) << host;
  }
}

TEST(host_policy, accepts_any_name_without_a_list) {
  EXPECT_FALSE(host_policy().is_restricted());
  EXPECT_TRUE(host_policy().permits("evil.example"));
}

}  // namespace
}  // namespace sluice::service
