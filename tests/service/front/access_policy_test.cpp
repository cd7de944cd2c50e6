// SPDX-License-Identifier: Apache-2.0
// Tokens, and what clients may do with them.
#include "service/front/access_policy.hpp"

#include "service/protocol/request_error.hpp"
#include "tests/service/front/token_file.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>
#include <string>

namespace sluice::service {
namespace {

using test::sha256_of;

constexpr connection_origin loopback{.is_private = true};
constexpr connection_origin other_machine{};
constexpr connection_origin same_user{
    .is_private = true, .is_unix = true, .role = access_role::admin};
constexpr connection_origin other_user{.is_private = true, .is_unix = true};

/// What `admit` answers: the tenant, or the status that it refuses with.
std::string verdict(const access_policy& policy, const std::string& authorization,
                    const connection_origin& origin, access_role needed) {
  try {
    return "tenant " + policy.admit(authorization, origin, needed);
  } catch (const request_error& e) {
    return std::to_string(http_status(e.status()));
  }
}

TEST(access_tokens, are_found_by_their_sha256) {
  const auto tokens = access_tokens::parse("# a comment\n\n  a infer " + sha256_of("one") +
                                           "\r\na\tadmin\t" + sha256_of("two") + "\n");
  ASSERT_TRUE(tokens.find("one"));
  EXPECT_EQ(tokens.find("one")->name, "a");
  EXPECT_EQ(tokens.find("one")->role, access_role::infer);
  EXPECT_EQ(tokens.find("two")->role, access_role::admin) << "a name may have two tokens";
  for (const std::string token : {"", "on", "one ", "onE", "three"}) {
    EXPECT_FALSE(tokens.find(token)) << token;
  }
  EXPECT_FALSE(tokens.find(sha256_of("one"))) << "the digest is no token";
  EXPECT_EQ(tokens.anonymous_role(), access_role::none);
  EXPECT_EQ(access_tokens::parse("anonymous infer -").anonymous_role(), access_role::infer);
}

TEST(access_tokens, refuse_malformed_lines_by_number) {
  const auto good = "a infer " + sha256_of("one");
  for (const std::string& line :
       {std::string("a"), std::string("a infer"), "a owner " + sha256_of("x"),
        "a infer " + sha256_of("x") + "0", "a infer " + sha256_of("x").substr(1),
        "a infer " + std::string(64, 'g'), "a infer " + std::string(64, '-'), good + " more",
        "b/c infer " + sha256_of("x"), "b admin " + sha256_of("one"),
        std::string("anonymous admin -"), "anonymous infer " + sha256_of("x"),
        std::string("a infer -")}) {
    try {
      (void)access_tokens::parse(good + "\n" + line);
      ADD_FAILURE() << line;
    } catch (const std::runtime_error& e) {
      EXPECT_EQ(std::string(e.what()).substr(0, 8), "line 2: ") << e.what();
    }
  }
  std::string many;
  for (std::size_t i = 0; i <= access_tokens::max_tokens; ++i) {
    many += "a infer " + sha256_of(std::to_string(i)) + "\n";
  }
  EXPECT_THROW((void)access_tokens::parse(many), std::runtime_error);
}

TEST(access_policy, without_tokens_admits_what_the_kernel_says) {
  const access_policy policy;
  EXPECT_EQ(verdict(policy, "", loopback, access_role::infer), "tenant ");
  EXPECT_EQ(verdict(policy, "", other_machine, access_role::infer), "tenant ");
  EXPECT_EQ(verdict(policy, "Bearer x", loopback, access_role::infer), "tenant ");
  EXPECT_EQ(verdict(policy, "", loopback, access_role::admin), "403");
  EXPECT_EQ(verdict(policy, "Bearer x", loopback, access_role::admin), "403");
  EXPECT_EQ(verdict(policy, "", other_user, access_role::admin), "403");
  EXPECT_EQ(verdict(policy, "", same_user, access_role::admin), "tenant ");
}

TEST(access_policy, with_tokens_admits_holders) {
  const test::token_file file;
  const access_policy policy(file.path());
  for (const auto& origin : {loopback, same_user, other_user}) {
    EXPECT_EQ(verdict(policy, "Bearer alice-token", origin, access_role::infer), "tenant alice");
    EXPECT_EQ(verdict(policy, "bEARER   root-token", origin, access_role::admin), "tenant root");
    for (const char* wrong :
         {"Bearer x", "Bearer alice-toke", "Bearer alice-token ", "Bearer", "Bearer ", "Bearer  ",
          "Basic YTpi", "alice-token", "Beareralice-token"}) {
      EXPECT_EQ(verdict(policy, wrong, origin, access_role::infer), "401") << wrong;
    }
  }
  EXPECT_EQ(verdict(policy, "Bearer alice-token", loopback, access_role::admin), "403");
  EXPECT_EQ(verdict(policy, "Bearer alice-token", same_user, access_role::admin), "tenant alice");
  for (const auto& origin : {loopback, other_machine, other_user}) {
    EXPECT_EQ(verdict(policy, "", origin, access_role::infer), "401");
    EXPECT_EQ(verdict(policy, "", origin, access_role::admin), "401");
  }
  EXPECT_EQ(verdict(policy, "", same_user, access_role::admin), "tenant ");
}

TEST(access_policy, takes_no_token_that_others_can_read) {
  const test::token_file file;
  file.write("root admin " + sha256_of("root-token") + "\nanonymous infer -\n");
  const access_policy policy(file.path());
  EXPECT_EQ(verdict(policy, "Bearer root-token", other_machine, access_role::infer), "403");
  EXPECT_EQ(verdict(policy, "Bearer root-token", other_machine, access_role::admin), "403");
  EXPECT_EQ(verdict(policy, "", other_machine, access_role::infer), "tenant ");
  EXPECT_EQ(verdict(policy, "", loopback, access_role::admin), "401");
  EXPECT_EQ(verdict(policy, "Bearer x", loopback, access_role::infer), "401")
      << "a wrong token is none";
}

TEST(access_policy, reads_its_file_again) {
  const test::token_file file;
  access_policy policy(file.path());
  file.write("bob infer " + sha256_of("bob-token"));
  policy.reload();
  EXPECT_EQ(verdict(policy, "Bearer bob-token", loopback, access_role::infer), "tenant bob");
  EXPECT_EQ(verdict(policy, "Bearer alice-token", loopback, access_role::infer), "401");
  file.write("broken");
  EXPECT_THROW(policy.reload(), std::runtime_error);
  EXPECT_EQ(verdict(policy, "Bearer bob-token", loopback, access_role::infer), "tenant bob");
  std::filesystem::remove(file.path());
  EXPECT_THROW(policy.reload(), std::runtime_error);
  EXPECT_EQ(verdict(policy, "Bearer bob-token", loopback, access_role::infer), "tenant bob");
}

TEST(access_policy, refuses_a_file_that_others_may_write_to) {
  const test::token_file file;
  for (const unsigned mode : {0620U, 0602U, 0666U}) {
    std::filesystem::permissions(file.path(), std::filesystem::perms(mode));
    EXPECT_THROW((void)access_policy(file.path()), std::runtime_error) << mode;
  }
  std::filesystem::permissions(file.path(), std::filesystem::perms(0644));
  EXPECT_NO_THROW((void)access_policy(file.path()));
  EXPECT_THROW((void)access_policy("/dev/zero"), std::runtime_error);
  EXPECT_THROW((void)access_policy("/nowhere"), std::runtime_error);
  file.write(std::string((std::size_t{1} << 20U) + 1, '#'));
  EXPECT_THROW((void)access_policy(file.path()), std::runtime_error);
}

}  // namespace
}  // namespace sluice::service
