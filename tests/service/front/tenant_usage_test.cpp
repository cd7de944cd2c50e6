// SPDX-License-Identifier: Apache-2.0
// What tenants have in flight.
#include "service/front/tenant_usage.hpp"

#include "service/front/tenant_registry.hpp"
#include "service/protocol/request_error.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace sluice::service {
namespace {

request_status status_of(tenant_usage& usage, const std::string& tenant,
                         const tenant_limits& limits, std::uint64_t bytes) {
  try {
    (void)usage.charge(tenant, limits, bytes);
  } catch (const request_error& e) {
    return e.status();
  }
  return request_status::internal;  // which charge never throws
}

TEST(tenant_usage, limits_each_tenant) {
  const auto usage = std::make_shared<tenant_usage>();
  const tenant_limits limits{.requests = 2, .request_bytes = 100};
  EXPECT_EQ(status_of(*usage, "a", limits, 101), request_status::too_large);
  auto first = usage->charge("a", limits, 60);
  EXPECT_EQ(status_of(*usage, "a", limits, 41), request_status::resource_exhausted);
  const auto second = usage->charge("a", limits, 40);
  EXPECT_EQ(status_of(*usage, "a", limits, 0), request_status::resource_exhausted);
  const auto other = usage->charge("b", limits, 100);
  first.reset();
  EXPECT_EQ(status_of(*usage, "a", limits, 61), request_status::resource_exhausted);
  EXPECT_NE(usage->charge("a", limits, 60), nullptr);
  EXPECT_EQ(usage->refusals(), 4U);
}

TEST(tenant_usage, has_no_bytes_without_a_limit) {
  const auto usage = std::make_shared<tenant_usage>();
  const auto first = usage->charge("a", {.requests = 5}, tenant_limits::none / 2);
  EXPECT_NE(usage->charge("a", {.requests = 5}, tenant_limits::none / 2), nullptr);
}

TEST(tenant_usage, ends_with_the_last_request) {
  std::shared_ptr<const void> request;
  {
    const auto usage = std::make_shared<tenant_usage>();
    request = usage->charge("a", {}, 1);
  }
  request.reset();
}

TEST(tenant_usage, returns_to_nothing) {
  const auto usage = std::make_shared<tenant_usage>();
  const tenant_limits limits{.requests = 6, .request_bytes = 600};
  const auto seed = sluice::test::make_generator()();
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      std::mt19937_64 random(seed + i);
      for (int turn = 0; turn < 2000; ++turn) {
        try {
          const auto request = usage->charge("a", limits, random() % 601);
        } catch (const request_error&) {
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_NE(usage->charge("a", {.requests = 1, .request_bytes = 600}, 600), nullptr);
}

TEST(tenant_usage, follows_the_tenant_file) {
  const sluice::test::temporary_folder folder;
  const auto file = (folder / "tenants.toml").string();
  std::ofstream(file) << "[tenant.alice]\nrequests = 1\n[anonymous]\nrequest_bytes = \"1KiB\"\n";
  tenant_registry registry(file);
  const auto first = registry.charge("alice", std::uint64_t{1} << 40);
  ASSERT_NE(first, nullptr);
  EXPECT_THROW((void)registry.charge("alice", 0), request_error);
  EXPECT_THROW((void)registry.charge("", 1025), request_error);
  EXPECT_NE(registry.charge("", 1024), nullptr);
  EXPECT_EQ(registry.charge("bob", 1025), nullptr);
  std::ofstream(file) << "[tenant.alice]\nrequests = 2\n";
  registry.reload();
  EXPECT_NE(registry.charge("alice", 0), nullptr);
}

}  // namespace
}  // namespace sluice::service
