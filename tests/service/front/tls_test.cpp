// SPDX-License-Identifier: Apache-2.0
// HTTP over TLS.
#include "service/front/http_server.hpp"
#include "service/front/tls_credentials.hpp"
#include "tests/service/front/raw_client.hpp"
#include "tests/service/front/scripted_backend.hpp"
#include "tests/service/front/test_certificates.hpp"
#include "tests/service/front/tls_client.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::service {
namespace {

using std::chrono::milliseconds;
using test::raw_client;
using test::scripted_backend;
using test::test_certificate;
using test::tls_client;

const std::string live = "GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// An infer request with a binary tensor, and the same as its answer.
std::string tensor_request(const std::string& tensor, const std::string& fields = "") {
  const auto size = std::to_string(tensor.size());
  const std::string json = R"({"inputs":[{"name":"a","datatype":"UINT8","shape":[)" + size +
                           R"(],"parameters":{"binary_data_size":)" + size +
                           R"(}}],"parameters":{"binary_data_output":true}})";
  return "POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
         std::to_string(json.size() + tensor.size()) +
         "\r\nInference-Header-Content-Length: " + std::to_string(json.size()) + "\r\n" + fields +
         "\r\n" + json + tensor;
}

class tls : public ::testing::Test {
 protected:
  tls() {
    authority_.write_certificate(folder_ / "ca.pem");
    put(server_certificate_);
  }
  void put(const test_certificate& certificate) const {
    certificate.write_certificate(folder_ / "server.pem");
    certificate.write_key(folder_ / "server.key");
  }
  [[nodiscard]] tls_files files(bool demands_certificates = false) const {
    return {.certificate = folder_ / "server.pem",
            .key = folder_ / "server.key",
            .client_ca = demands_certificates ? std::string(folder_ / "ca.pem") : std::string()};
  }
  /// The options of a server; `credentials` are those of the last call.
  [[nodiscard]] http_options any_port(bool demands_certificates = false) {
    credentials_ = std::make_shared<tls_credentials>(files(demands_certificates));
    return {.port = 0, .tls = credentials_};
  }
  [[nodiscard]] tls_client connect(const http_server& server,
                                   const test::tls_settings& settings = {}) const {
    return tls_client(server.port(), authority_, settings);
  }
  [[nodiscard]] unsigned ask(const http_server& server,
                             const test::tls_settings& settings = {}) const {
    auto client = connect(server, settings);
    return client.is_connected() ? client.ask(live) : 0;
  }

  sluice::test::temporary_folder folder_;
  test_certificate authority_{"authority"};
  test_certificate server_certificate_{"server", &authority_};
  std::shared_ptr<tls_credentials> credentials_;
  scripted_backend backend_{test::echo};
};

TEST_F(tls, carries_requests_of_any_size) {
  http_server server(any_port(), backend_);
  auto generator = sluice::test::make_generator();
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    auto client = connect(server, {.version = version});
    ASSERT_TRUE(client.is_connected());
    for (const std::size_t bytes : {0, 1, 4096, 16'384, 100'000, 5'000'000}) {
      std::string tensor(bytes, '\0');
      for (auto& each : tensor) each = static_cast<char>(generator());
      ASSERT_TRUE(client.send(tensor_request(tensor)));
      const auto reply = client.receive();
      ASSERT_TRUE(reply);
      ASSERT_EQ(reply->status, 200U) << reply->body;
      const auto json = reply->field("Inference-Header-Content-Length");
      ASSERT_TRUE(json);
      EXPECT_TRUE(reply->body.substr(std::stoul(*json)) == tensor) << bytes;
    }
    client.send(live + live + live);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(client.receive()->status, 200U);
  }
  backend_.wait_until_free();
}

TEST_F(tls, speaks_only_versions_that_are_secure) {
  http_server server(any_port(), backend_);
  EXPECT_FALSE(connect(server, {.version = TLS1_VERSION}).is_connected());
  EXPECT_FALSE(connect(server, {.version = TLS1_1_VERSION}).is_connected());
  const auto old = connect(server, {.version = TLS1_2_VERSION});
  EXPECT_NE(std::string(SSL_get_cipher(old.native())).find("ECDHE"), std::string::npos);
  EXPECT_STREQ(SSL_get_version(connect(server).native()), "TLSv1.3");
}

TEST_F(tls, chooses_http_1_1) {
  http_server server(any_port(), backend_);
  EXPECT_FALSE(connect(server, {.protocols = "\x02h2"}).is_connected());
  const auto client = connect(server, {.protocols = "\x02h2\x08http/1.1"});
  const unsigned char* chosen = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(client.native(), &chosen, &size);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(chosen), size), "http/1.1");
}

TEST_F(tls, does_not_renegotiate) {
  http_server server(any_port(), backend_);
  auto client = connect(server, {.version = TLS1_2_VERSION});
  ASSERT_EQ(client.ask(live), 200U);
  EXPECT_EQ(SSL_renegotiate(client.native()), 1);
  EXPECT_NE(SSL_do_handshake(client.native()), 1);
}

TEST_F(tls, closes_connections_without_it) {
  auto options = any_port();
  options.deadlines.head = milliseconds(50);
  http_server server(options, backend_);
  raw_client plain(server.port());
  plain.send(live);
  EXPECT_FALSE(plain.receive());
  raw_client silent(server.port());
  EXPECT_TRUE(silent.is_at_end());
  raw_client stalled(server.port());
  stalled.send("\x16\x03\x01\x02");
  EXPECT_TRUE(stalled.is_at_end());
  EXPECT_EQ(ask(server), 200U);
}

TEST_F(tls, demands_certificates_of_clients) {
  http_server server(any_port(true), backend_);
  const test_certificate good("client", &authority_);
  const test_certificate other_authority("authority");
  const test_certificate foreign("client", &other_authority);
  const test_certificate own("client");
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    EXPECT_EQ(ask(server, {.identity = &good, .version = version}), 200U);
    EXPECT_EQ(ask(server, {.version = version}), 0U);
    EXPECT_EQ(ask(server, {.identity = &foreign, .version = version}), 0U);
    EXPECT_EQ(ask(server, {.identity = &own, .version = version}), 0U);
  }
  EXPECT_EQ(backend_.submissions(), 0U);
}

TEST_F(tls, reads_its_files_again_for_new_connections) {
  http_server server(any_port(), backend_);
  const auto serial = [](const tls_client& client) {
    const std::unique_ptr<X509, test::openssl_deleter> certificate(
        SSL_get1_peer_certificate(client.native()));
    return ASN1_INTEGER_get(X509_get0_serialNumber(certificate.get()));
  };
  auto old = connect(server);
  const test_certificate next("server", &authority_);
  put(next);
  credentials_->reload();
  auto client = connect(server);
  EXPECT_NE(serial(client), serial(old));
  EXPECT_EQ(client.ask(live), 200U);
  EXPECT_EQ(old.ask(live), 200U);

  std::ofstream(folder_ / "server.pem") << "broken";
  EXPECT_THROW(credentials_->reload(), std::runtime_error);
  std::filesystem::remove(folder_ / "server.key");
  EXPECT_THROW(credentials_->reload(), std::runtime_error);
  EXPECT_EQ(serial(connect(server)), serial(client));
}

TEST_F(tls, refuses_files_that_are_not_safe) {
  const auto refusal = [this] {
    try {
      (void)tls_credentials(files(true));
    } catch (const std::runtime_error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const auto expect_refusal = [&](const char* file) {
    const auto reason = refusal();
    EXPECT_NE(reason.find(file), std::string::npos) << file << ": " << reason;
    put(server_certificate_);
  };
  EXPECT_EQ(refusal(), "");
  std::filesystem::permissions(folder_ / "server.key", std::filesystem::perms(0640));
  EXPECT_EQ(refusal(), "");
  for (const unsigned mode : {0644U, 0604U, 0660U}) {
    std::filesystem::permissions(folder_ / "server.key", std::filesystem::perms(mode));
    expect_refusal("server.key");
  }
  test_certificate("other", &authority_).write_key(folder_ / "server.key");
  expect_refusal("server.key");
  server_certificate_.write_key(folder_ / "server.key", "password");
  expect_refusal("server.key");
  std::ofstream(folder_ / "server.pem") << "";
  expect_refusal("server.pem");
  std::filesystem::permissions(folder_ / "ca.pem", std::filesystem::perms(0666));
  expect_refusal("ca.pem");
  std::filesystem::remove(folder_ / "ca.pem");
  expect_refusal("ca.pem");
}

TEST_F(tls, tells_the_client_that_nothing_was_cut_off) {
  auto options = any_port();
  http_server server(options, backend_);
  auto client = connect(server);
  EXPECT_EQ(client.ask("GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n"
                       "Connection: close\r\n\r\n"),
            200U);
  EXPECT_TRUE(client.is_at_end());
  auto idle = connect(server);
  ASSERT_EQ(idle.ask(live), 200U);
  std::thread stopping([&] { server.stop(std::chrono::hours(1)); });
  EXPECT_TRUE(idle.is_at_end());
  SSL_shutdown(idle.native());
  idle.socket().close();
  client.socket().close();
  stopping.join();
}

TEST_F(tls, lets_a_client_that_still_sends_read_the_answer) {
  http_server server(any_port(), backend_);
  auto client = connect(server);
  client.send(
      "POST /v2/models/m/infer HTTP/1.1\r\nHost: localhost\r\n"
      "Content-Length: 99999999999\r\n\r\n");
  for (int i = 0; i < 20 && client.send(std::string(100'000, 'x')); ++i) {
  }
  const auto reply = client.receive();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 413U);
}

TEST_F(tls, cancels_the_run_of_a_client_that_hangs_up) {
  scripted_backend backend(test::hold);
  http_server server(any_port(), backend);
  for (const bool is_orderly : {true, false}) {
    auto client = connect(server);
    client.send(tensor_request("x"));
    const auto held = backend.take_held();
    if (is_orderly) SSL_shutdown(client.native());
    client.socket().close();
    backend.wait_until_cancelled(held.number);
  }
}

TEST_F(tls, keeps_the_connection_after_a_deadline) {
  scripted_backend backend(test::hold);
  http_server server(any_port(), backend);
  auto client = connect(server);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(client.ask(tensor_request("x", "Inference-Timeout-Us: 1000\r\n")), 504U);
    EXPECT_EQ(client.ask(live), 200U);
  }
}

TEST_F(tls, stalled_bodies_meet_their_deadline) {
  auto options = any_port();
  options.deadlines.body = milliseconds(50);
  http_server server(options, backend_);
  for (int i = 0; i < 5; ++i) {
    auto client = connect(server);
    const auto request = tensor_request(std::string(100'000, 'x'));
    client.send(request.substr(0, 50'000 + 1000 * static_cast<std::size_t>(i)));
    const auto reply = client.receive();
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->status, 408U);
    client.send(request.substr(60'000));
  }
  backend_.wait_until_free();
}

TEST_F(tls, is_for_the_address_and_not_for_the_unix_socket) {
  auto options = any_port();
  options.unix_path = folder_ / "s";
  http_server server(options, backend_);
  raw_client local(options.unix_path);
  local.send(live);
  EXPECT_EQ(local.receive()->status, 200U);
  EXPECT_EQ(ask(server), 200U);
}

}  // namespace
}  // namespace sluice::service
