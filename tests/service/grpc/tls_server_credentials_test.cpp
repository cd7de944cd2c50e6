// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/tls_server_credentials.hpp"

#include "tests/service/front/test_certificates.hpp"
#include "tests/service/front/tls_client.hpp"
#include "tests/service/grpc/served_grpc.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

namespace sluice::service {
namespace {

using test::generic_client;
using test::inference_method;
using test::served;
using test::test_certificate;
using test::tls_client;
using test::unary_request;

class grpc_tls : public ::testing::Test {
 protected:
  grpc_tls() { put(server_certificate_, server_certificate_, authority_); }

  void put(const test_certificate& certificate, const test_certificate& key,
           const test_certificate& authority) const {
    certificate.write_certificate(folder_ / "server.pem");
    key.write_key(folder_ / "server.key");
    authority.write_certificate(folder_ / "ca.pem");
  }
  /// The options of a server; `files_` are those of the last call.
  [[nodiscard]] grpc_options any_port(bool demands_certificates = false) {
    files_ = std::make_shared<tls_credentials>(tls_files{
        .certificate = folder_ / "server.pem",
        .key = folder_ / "server.key",
        .client_ca = demands_certificates ? std::string(folder_ / "ca.pem") : std::string()});
    return {.port = 0, .tls = files_};
  }
  /// Those of a client that trusts one authority or two.
  [[nodiscard]] std::shared_ptr<grpc::ChannelCredentials> trusting(
      const test_certificate& authority, const test_certificate* identity = nullptr,
      const test_certificate* other = nullptr) const {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = text_of([&](const auto& path) { authority.write_certificate(path); });
    if (other != nullptr) {
      options.pem_root_certs += text_of([&](const auto& path) { other->write_certificate(path); });
    }
    if (identity != nullptr) {
      options.pem_cert_chain =
          text_of([&](const auto& path) { identity->write_certificate(path); });
      options.pem_private_key = text_of([&](const auto& path) { identity->write_key(path); });
    }
    return grpc::SslCredentials(options);
  }
  /// Whether a client with a new connection is answered.
  [[nodiscard]] static bool answers(const grpc_front& server,
                                    const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
    generic_client client(server.port(), credentials);
    unary_request request(client, inference_method("ServerLive"), "");
    const auto status = request.wait();
    EXPECT_TRUE(status.ok() || status.error_code() == grpc::StatusCode::UNAVAILABLE)
        << status.error_message();
    return status.ok();
  }

  sluice::test::temporary_folder folder_;
  test_certificate authority_{"authority"};
  test_certificate other_authority_{"other authority"};
  test_certificate server_certificate_{"server", &authority_};
  test_certificate other_certificate_{"other server", &other_authority_};
  std::shared_ptr<tls_credentials> files_;

 private:
  template <class Write>
  [[nodiscard]] std::string text_of(Write write) const {
    write(std::string(folder_ / "client.pem"));
    std::ifstream file(folder_ / "client.pem");
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

TEST_F(grpc_tls, carries_requests_of_any_size) {
  served service(test::echo, any_port(), trusting(authority_));
  auto random = sluice::test::make_generator();
  for (const std::size_t size : {0U, 1U, 20'000U, 3'000'000U}) {
    std::string tensor(size, '\0');
    for (auto& c : tensor) c = static_cast<char>(random());
    unary_request request(service.client, test::infer_method, test::infer(tensor));
    EXPECT_TRUE(request.wait().ok()) << request.wait().error_message();
    EXPECT_TRUE(request.reply() == test::echoed(tensor)) << size;
  }
}

TEST_F(grpc_tls, serves_only_clients_that_speak_it) {
  served service(test::echo, any_port());
  EXPECT_FALSE(answers(service.server, test::insecure()));
  EXPECT_FALSE(answers(service.server, trusting(other_authority_)));
  EXPECT_TRUE(answers(service.server, trusting(authority_)));
  const auto connects = [&](int version) {
    return tls_client(service.server.port(), authority_,
                      {.version = version, .protocols = "\x02h2"})
        .is_connected();
  };
  EXPECT_FALSE(connects(TLS1_VERSION));
  EXPECT_FALSE(connects(TLS1_1_VERSION));
  EXPECT_TRUE(connects(TLS1_2_VERSION));
  EXPECT_TRUE(connects(TLS1_3_VERSION));
}

TEST_F(grpc_tls, demands_certificates_of_clients) {
  served service(test::echo, any_port(true));
  const test_certificate client("client", &authority_);
  const test_certificate stranger("client", &other_authority_);
  EXPECT_FALSE(answers(service.server, trusting(authority_)));
  EXPECT_FALSE(answers(service.server, trusting(authority_, &stranger)));
  EXPECT_TRUE(answers(service.server, trusting(authority_, &client)));
}

TEST_F(grpc_tls, takes_new_files_together) {
  served service(test::echo, any_port(true), trusting(authority_, &server_certificate_));
  const auto old_client = trusting(authority_, &server_certificate_);
  const auto new_client = trusting(other_authority_, &other_certificate_);
  EXPECT_FALSE(answers(service.server, new_client));
  EXPECT_TRUE(unary_request(service.client, inference_method("ServerLive"), "").wait().ok());
  put(other_certificate_, other_certificate_, other_authority_);
  EXPECT_TRUE(answers(service.server, old_client));  // nobody has said that there are new files
  files_->reload();
  EXPECT_TRUE(answers(service.server, new_client));
  EXPECT_FALSE(answers(service.server, old_client));
  // The connection that was open stays.
  EXPECT_TRUE(unary_request(service.client, inference_method("ServerLive"), "").wait().ok());
}

TEST_F(grpc_tls, keeps_its_files_if_new_ones_are_broken) {
  served service(test::echo, any_port(true));
  const auto client = trusting(authority_, &server_certificate_);
  const auto stays = [&] {
    EXPECT_THROW(files_->reload(), std::runtime_error);
    EXPECT_TRUE(answers(service.server, client));
    EXPECT_FALSE(answers(service.server, trusting(other_authority_, &other_certificate_)));
  };
  put(other_certificate_, server_certificate_, other_authority_);  // not its key
  stays();
  put(server_certificate_, other_certificate_, authority_);
  stays();
  put(other_certificate_, other_certificate_, other_authority_);
  std::ofstream(folder_ / "ca.pem", std::ios::trunc) << "";
  stays();
  std::ofstream(folder_ / "ca.pem", std::ios::trunc) << "no certificate";
  stays();
  put(other_certificate_, other_certificate_, other_authority_);
  std::filesystem::resize_file(folder_ / "server.key", 40);
  stays();
}

TEST_F(grpc_tls, cannot_start_with_an_empty_authority) {
  std::ofstream(folder_ / "ca.pem", std::ios::trunc) << "";
  EXPECT_THROW((void)any_port(true), std::runtime_error);
}

TEST_F(grpc_tls, is_answered_while_the_files_change) {
  served service(test::echo, any_port());
  std::atomic<bool> is_over = false;
  std::thread changes([&] {
    while (!is_over) {
      put(other_certificate_, other_certificate_, authority_);
      files_->reload();
      put(server_certificate_, server_certificate_, authority_);
      files_->reload();
    }
  });
  // Each handshake has one of the two certificates, with its own key.
  const auto client = trusting(authority_, nullptr, &other_authority_);
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(answers(service.server, client));
  is_over = true;
  changes.join();
}

}  // namespace
}  // namespace sluice::service
