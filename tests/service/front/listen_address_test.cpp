// SPDX-License-Identifier: Apache-2.0
#include "service/front/listen_address.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace sluice::service {
namespace {

TEST(listen_address, is_an_address_with_a_port_or_a_unix_socket) {
  const auto v4 = parse_listen_address("--http", "127.0.0.1:8000");
  EXPECT_EQ(v4.address, "127.0.0.1");
  EXPECT_EQ(v4.port, 8000);
  const auto v6 = parse_listen_address("--http", "[::1]:0");
  EXPECT_EQ(v6.address, "::1");
  EXPECT_EQ(v6.port, 0);
  EXPECT_EQ(parse_listen_address("--http", "localhost:65535").address, "127.0.0.1");
  EXPECT_EQ(parse_listen_address("--http", "unix:/run/s.sock").unix_path, "/run/s.sock");
  for (const char* text :
       {"", "8000", ":8000", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1",
        "127.0.0.1:8000 ", "127.0.0.1:+1", "example.org:80", "unix:", "[]:1", "300.0.0.1:80"}) {
    try {
      (void)parse_listen_address("--http", text);
      ADD_FAILURE() << text;
    } catch (const std::invalid_argument& e) {
      EXPECT_EQ(std::string(e.what()).substr(0, 7), "--http:") << e.what();
    }
  }
}

TEST(listen_address, of_other_machines_needs_protection) {
  const auto is_accepted = [](const std::string& text, const protection& protection) {
    try {
      check_listen_address("--http", parse_listen_address("--http", text), protection);
      return true;
    } catch (const std::invalid_argument&) {
      return false;
    }
  };
  for (const char* text :
       {"127.0.0.1:1", "127.8.9.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1", "unix:/s"}) {
    EXPECT_TRUE(is_accepted(text, {})) << text;
  }
  for (const char* text :
       {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[::ffff:10.0.0.1]:1", "[fe80::1]:1", "128.0.0.1:1"}) {
    EXPECT_FALSE(is_accepted(text, {})) << text;
    EXPECT_TRUE(is_accepted(text, {.has_tls = true})) << text;
    EXPECT_TRUE(is_accepted(text, {.is_insecure = true})) << text;
  }
}

}  // namespace
}  // namespace sluice::service
