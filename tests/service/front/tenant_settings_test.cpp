// SPDX-License-Identifier: Apache-2.0
// The tenant file, and when it is read again.
#include "service/front/tenant_settings.hpp"

#include "service/front/tenant_registry.hpp"
#include "service/repository/model_config.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace sluice::service {
namespace {

constexpr const char* two_tenants = R"(
[tenant.alice]
shared_memory_prefix = "/alice-"
shared_memory_owner = 1000
shared_memory_bytes = "3MiB"
shared_memory_regions = 2

[tenant."b.c"]
shared_memory_prefix = "/"
shared_memory_owner = 0

[tenant.nobody]

[anonymous]
shared_memory_prefix = "/open-"
shared_memory_owner = 4294967294
shared_memory_bytes = 4096
)";

std::string refusal_of(const std::string& text) {
  try {
    (void)tenant_table::parse(text);
  } catch (const config_error& e) {
    return e.what();
  }
  return "accepted";
}

TEST(tenant_settings, are_read_with_their_defaults) {
  const auto table = tenant_table::parse(two_tenants);
  const auto& alice = table.find("alice").shared_memory;
  ASSERT_TRUE(alice);
  EXPECT_EQ(alice->key_prefix, "/alice-");
  EXPECT_EQ(alice->owner, 1000U);
  EXPECT_EQ(alice->bytes, std::uint64_t{3} << 20);
  EXPECT_EQ(alice->regions, 2U);
  const auto& dotted = table.find("b.c").shared_memory;
  ASSERT_TRUE(dotted);
  EXPECT_EQ(dotted->key_prefix, "/");
  EXPECT_EQ(dotted->owner, 0U);
  EXPECT_EQ(dotted->bytes, std::uint64_t{1} << 30);
  EXPECT_EQ(dotted->regions, 256U);
  const auto& anonymous = table.find("").shared_memory;
  ASSERT_TRUE(anonymous);
  EXPECT_EQ(anonymous->owner, 4'294'967'294U);
  EXPECT_EQ(anonymous->bytes, 4096U);
  for (const char* name : {"nobody", "unknown", "Alice", "anonymous"}) {
    EXPECT_FALSE(table.find(name).shared_memory) << name;
  }
  EXPECT_TRUE(table.permits_shared_memory());
  EXPECT_FALSE(tenant_table::parse("[tenant.alice]\n").permits_shared_memory());
  EXPECT_FALSE(tenant_table::parse("").permits_shared_memory());
}

TEST(tenant_settings, are_refused_with_the_key) {
  const std::string pair = "shared_memory_prefix='/a'\nshared_memory_owner=1\n";
  const std::vector<std::pair<std::string, std::string>> cases{
      {"[tenant.a]\nunknown = 1", "the key tenant.a.unknown is unknown"},
      {"[tenants.a]", "the key tenants is unknown"},
      {"[anonymous]\nrole = 1", "the key anonymous.role is unknown"},
      {"tenant = 1", "tenant must be a table"},
      {"[tenant]\na = 1", "tenant.a must be a table"},
      {"[tenant.anonymous]", "tenant.anonymous is the name of no token: the table is [anonymous]"},
      {"[tenant.\"a/b\"]", "tenant.a/b is the name of no token"},
      {"[tenant.\"\"]", "tenant. is the name of no token"},
      {"[tenant.a]\nshared_memory_prefix = '/a'",
       "tenant.a.shared_memory_prefix and tenant.a.shared_memory_owner need each other"},
      {"[anonymous]\nshared_memory_owner = 1", "need each other"},
      {"[tenant.a]\nshared_memory_bytes = 1", "the key tenant.a.shared_memory_bytes is unknown"},
      {"[tenant.a]\nshared_memory_owner=1\nshared_memory_prefix='a'", "must begin with \"/\""},
      {"[tenant.a]\nshared_memory_owner=1\nshared_memory_prefix=''", "must begin with \"/\""},
      {"[tenant.a]\nshared_memory_owner=1\nshared_memory_prefix='/a/b'", "no other \"/\""},
      {"[tenant.a]\nshared_memory_owner=1\nshared_memory_prefix=7", "must be a string"},
      {"[tenant.a]\nshared_memory_owner=-1\nshared_memory_prefix='/'", "an integer from 0 to"},
      {"[tenant.a]\nshared_memory_owner=4294967295\nshared_memory_prefix='/'", "an integer from"},
      {"[tenant.a]\nshared_memory_owner='root'\nshared_memory_prefix='/'", "an integer from"},
      {"[tenant.a]\n" + pair + "shared_memory_regions=0", "an integer from 1 to 10000"},
      {"[tenant.a]\n[tenant.a]", "line 2"},
      {"[tenant", "line 1"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_NE(refusal_of(text).find(message), std::string::npos)
        << text << ": " << refusal_of(text);
  }
  for (const char* bytes :
       {"0", "-1", "true", "''", "'1'", "'0B'", "'GiB'", "'1 GiB'", "'1GB'", "'1GiBs'", "'-1GiB'",
        "'9007199254740992TiB'", "'99999999999999999999B'", "[1]"}) {
    EXPECT_EQ(refusal_of("[tenant.a]\n" + pair + "shared_memory_bytes=" + bytes),
              "tenant.a.shared_memory_bytes must be a number of bytes from 1, or a text such as "
              "\"512MiB\"")
        << bytes;
  }
  for (const char* bytes : {"1", "'1B'", "'8388607TiB'", "9223372036854775807"}) {
    EXPECT_EQ(refusal_of("[tenant.a]\n" + pair + "shared_memory_bytes=" + bytes), "accepted");
  }
}

TEST(tenant_registry, keeps_the_settings_if_the_file_is_broken) {
  const sluice::test::temporary_folder folder;
  const std::string path = folder / "tenants.toml";
  const auto write = [&](const std::string& text) {
    std::ofstream(path, std::ios::trunc) << text;
    std::filesystem::permissions(path, std::filesystem::perms(0644));
  };
  const tenant_registry none;
  EXPECT_FALSE(none.permits_shared_memory());
  EXPECT_FALSE(none.find("alice")->shared_memory);
  EXPECT_THROW(tenant_registry{path}, std::runtime_error);

  write(two_tenants);
  tenant_registry tenants(path);
  const auto before = tenants.find("alice");
  write("[tenant.alice]\nx = 1");
  try {
    tenants.reload();
    ADD_FAILURE() << "accepted";
  } catch (const std::runtime_error& e) {
    EXPECT_EQ(std::string(e.what()), path + ": the key tenant.alice.x is unknown");
  }
  EXPECT_TRUE(tenants.find("alice")->shared_memory);
  write("[tenant.bob]\n");
  std::filesystem::permissions(path, std::filesystem::perms(0666));
  EXPECT_THROW(tenants.reload(), std::runtime_error);
  EXPECT_TRUE(tenants.permits_shared_memory());
  write("[tenant.bob]\n");
  tenants.reload();
  EXPECT_FALSE(tenants.permits_shared_memory());
  EXPECT_FALSE(tenants.find("alice")->shared_memory);
  EXPECT_EQ(before->shared_memory->key_prefix, "/alice-");  // it outlives the file's text
}

}  // namespace
}  // namespace sluice::service
