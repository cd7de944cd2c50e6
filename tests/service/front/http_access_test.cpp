// SPDX-License-Identifier: Apache-2.0
// Who may ask for what over HTTP.
#include "service/front/http_server.hpp"
#include "tests/service/front/raw_client.hpp"
#include "tests/service/front/scripted_backend.hpp"
#include "tests/service/front/token_file.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

namespace sluice::service {
namespace {

using test::raw_client;
using test::scripted_backend;

constexpr const char* no_token = "";
const std::string alice = "Authorization: Bearer alice-token\r\n";
const std::string root = "Authorization: Bearer root-token\r\n";

std::string get_with(const std::string& path, const std::string& fields) {
  return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n";
}

std::string post_with(const std::string& path, const std::string& body, const std::string& fields) {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\n" + fields +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

const std::string infer_body =
    R"({"inputs":[{"name":"a","datatype":"UINT8","shape":[1],"data":[65]}]})";

unsigned status_after(raw_client& client, const std::string& request) {
  client.send(request);
  const auto reply = client.receive();
  return reply ? reply->status : 0;
}

/// A backend that notes the tenants of its runs.
struct noting_backend {
  scripted_backend backend{[this](scripted_backend& self, test::submitted request) {
    tenants.push_back(request.run.tenant);
    test::echo(self, std::move(request));
  }};
  std::vector<std::string> tenants{};
};

TEST(http_access, without_tokens_is_to_models) {
  noting_backend noting;
  http_server server({.port = 0}, noting.backend);
  raw_client client(server.port());
  EXPECT_EQ(status_after(client, post_with("/v2/models/m/infer", infer_body, no_token)), 200U);
  EXPECT_EQ(status_after(client, post_with("/v2/models/m/infer", infer_body, alice)), 200U);
  EXPECT_EQ(noting.tenants, (std::vector<std::string>{"", ""}));
  EXPECT_EQ(status_after(client, post_with("/v2/repository/index", "", no_token)), 200U);
  EXPECT_EQ(status_after(client, post_with("/v2/repository/models/m/load", "", no_token)), 403U);
  EXPECT_EQ(status_after(client, post_with("/v2/repository/models/m/unload", "", root)), 403U);
}

TEST(http_access, with_tokens_is_by_their_roles) {
  noting_backend noting;
  const test::token_file tokens;
  http_server server({.port = 0, .access = tokens.policy()}, noting.backend);
  raw_client client(server.port());
  for (const char* path : {"/v2/health/live", "/v2/health/ready"}) {
    EXPECT_EQ(status_after(client, get_with(path, no_token)), 200U) << path;
    EXPECT_EQ(status_after(client, get_with(path, "Authorization: Bearer x\r\n")), 200U) << path;
  }
  for (const char* path : {"/v2", "/v2/models/m", "/v2/models/m/ready", "/v2/models/m/config"}) {
    EXPECT_EQ(status_after(client, get_with(path, no_token)), 401U) << path;
    EXPECT_EQ(status_after(client, get_with(path, "Authorization: Bearer x\r\n")), 401U) << path;
    EXPECT_EQ(status_after(client, get_with(path, alice)), 200U) << path;
  }
  for (const char* path : {"/v2/repository/models/m/load", "/v2/repository/models/m/unload"}) {
    EXPECT_EQ(status_after(client, post_with(path, "", no_token)), 401U) << path;
    EXPECT_EQ(status_after(client, post_with(path, "", alice)), 403U) << path;
    EXPECT_EQ(status_after(client, post_with(path, "", root)), 200U) << path;
  }
  EXPECT_EQ(status_after(client, post_with("/v2/models/m/infer", infer_body, no_token)), 401U);
  EXPECT_EQ(status_after(client, post_with("/v2/models/m/infer", infer_body, alice)), 200U);
  // Each request counts by itself, and headers of identity say nothing.
  EXPECT_EQ(status_after(client,
                         post_with("/v2/models/m/infer", infer_body, "X-Forwarded-User: root\r\n")),
            401U);
  EXPECT_EQ(status_after(client, post_with("/v2/models/m/infer", infer_body, root)), 200U);
  EXPECT_EQ(noting.tenants, (std::vector<std::string>{"alice", "root"}));

  client.send(get_with("/v2", no_token));
  const auto reply = client.receive();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->field("WWW-Authenticate"), "Bearer realm=\"sluiced\"");
}

TEST(http_access, refuses_malformed_authorizations) {
  noting_backend noting;
  const test::token_file tokens;
  http_server server({.port = 0, .access = tokens.policy()}, noting.backend);
  const auto ask = [&](const std::string& fields) {
    raw_client client(server.port());
    return status_after(client, get_with("/v2", fields));
  };
  EXPECT_EQ(ask(alice + alice), 400U);
  EXPECT_EQ(ask("Authorization: Bearer " + std::string(20'000, 'x') + "\r\n"), 431U);
  EXPECT_EQ(ask("Authorization: Bearer " + std::string(10'000, 'x') + "\r\n"), 401U);
  EXPECT_EQ(ask("Authorization:\r\n"), 401U);
  EXPECT_EQ(ask(alice), 200U);
}

TEST(http_access, reads_no_large_body_of_a_client_without_a_token) {
  noting_backend noting;
  const test::token_file tokens;
  http_server server({.port = 0, .access = tokens.policy()}, noting.backend);
  raw_client client(server.port());
  client.send(
      "POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999\r\n"
      "\r\n");
  const auto reply = client.receive();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 401U);
  EXPECT_EQ(reply->field("Connection"), "close");
}

TEST(http_access, is_limited_for_each_tenant) {
  const sluice::test::temporary_folder folder;
  std::ofstream(folder / "tenants.toml") << "[tenant.alice]\nrequests = 1\n[anonymous]\n"
                                            "request_bytes = 1\n";
  const test::token_file tokens;
  tokens.write("alice infer " + test::sha256_of("alice-token") + "\nanonymous infer -\n");
  const std::string two_bytes =
      R"({"inputs":[{"name":"a","datatype":"UINT8","shape":[2],"data":[65,66]}]})";
  scripted_backend backend(test::hold);
  http_server server(
      {.port = 0,
       .access = tokens.policy(),
       .tenants = std::make_shared<tenant_registry>((folder / "tenants.toml").string())},
      backend);
  raw_client first(server.port()), second(server.port());
  for (int i = 0; i < 2; ++i) {
    first.send(post_with("/v2/models/m/infer", infer_body, alice));
    auto held = backend.take_held();
    EXPECT_EQ(status_after(second, post_with("/v2/models/m/infer", infer_body, alice)), 429U);
    EXPECT_EQ(status_after(second, post_with("/v2/models/m/infer", two_bytes, no_token)), 413U);
    held.done(test::echo_of(held));
    EXPECT_EQ(first.receive()->status, 200U);
  }
}

TEST(http_access, by_the_unix_socket_is_that_of_an_administrator) {
  noting_backend noting;
  const sluice::test::temporary_folder folder;
  const std::string path = folder / "s";
  const test::token_file tokens;
  {
    http_server server({.port = 0, .unix_path = path, .access = tokens.policy()}, noting.backend);
    struct stat status {};
    ASSERT_EQ(::lstat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode, S_IFSOCK | 0600U);
    raw_client client(path);
    EXPECT_EQ(status_after(client, post_with("/v2/repository/models/m/load", "", no_token)), 200U);
    EXPECT_EQ(status_after(client, post_with("/v2/models/m/infer", infer_body, no_token)), 200U);
    EXPECT_EQ(status_after(client, post_with("/v2/models/m/infer", infer_body, alice)), 200U);
    EXPECT_EQ(noting.tenants, (std::vector<std::string>{"", "alice"}));
    EXPECT_EQ(status_after(client, "GET /v2 HTTP/1.1\r\nHost: any.example\r\n\r\n"), 200U);
    raw_client other(server.port());
    EXPECT_EQ(status_after(other, post_with("/v2/repository/models/m/load", "", no_token)), 401U);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(http_access, may_be_by_the_unix_socket_alone) {
  noting_backend noting;
  const sluice::test::temporary_folder folder;
  const std::string path = folder / "s";
  http_server server({.address = {}, .unix_path = path}, noting.backend);
  EXPECT_EQ(server.port(), 0U);
  raw_client client(path);
  EXPECT_EQ(status_after(client, get_with("/v2", no_token)), 200U);
  server.stop(std::chrono::milliseconds(0));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(http_access, replaces_only_the_socket_of_a_server_that_has_ended) {
  noting_backend noting;
  const sluice::test::temporary_folder folder;
  const std::string path = folder / "s";
  const auto start = [&](const std::string& where) {
    return http_server({.address = {}, .unix_path = where}, noting.backend).port();
  };
  const auto number_of = [&](const std::string& where) {
    try {
      (void)start(where);
    } catch (const std::system_error& e) {
      return e.code().value();
    }
    return 0;
  };
  {
    // A server that was killed leaves its file.
    const int dead = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    path.copy(address.sun_path, path.size());
    ASSERT_EQ(::bind(dead, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ::close(dead);
  }
  EXPECT_EQ(number_of(path), 0);
  {
    http_server server({.address = {}, .unix_path = path}, noting.backend);
    EXPECT_EQ(number_of(path), EADDRINUSE);
    raw_client client(path);
    EXPECT_EQ(status_after(client, get_with("/v2", no_token)), 200U) << "it still has its socket";
  }
  std::ofstream(path) << "a file";
  EXPECT_EQ(number_of(path), EEXIST);
  EXPECT_EQ(number_of(folder / std::string(200, 'x')), ENAMETOOLONG);
  EXPECT_EQ(number_of(folder / "none/s"), ENOENT);
  // The file of another server in its place stays.
  std::filesystem::remove(path);
  {
    http_server server({.address = {}, .unix_path = path}, noting.backend);
    std::filesystem::remove(path);
    std::ofstream(path) << "another file";
  }
  EXPECT_TRUE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace sluice::service
