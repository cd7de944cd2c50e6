// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/service/front/raw_client.hpp"
#include "tests/service/front/test_certificates.hpp"

#include <openssl/ssl.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::service::test {

/// How a client speaks TLS.
struct tls_settings {
  const test_certificate* identity = nullptr;
  int version = 0;          ///< such as TLS1_2_VERSION; 0: the newest that the server has
  std::string protocols{};  ///< for ALPN, each after its length; empty: none
};

/// A client that speaks TLS and trusts one authority.
class tls_client {
 public:
  tls_client(std::uint16_t port, const test_certificate& authority,
             const tls_settings& settings = {})
      : socket_(port), context_(SSL_CTX_new(TLS_client_method())) {
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context_.get()), authority.certificate());
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    if (settings.identity != nullptr) {
      SSL_CTX_use_certificate(context_.get(), settings.identity->certificate());
      SSL_CTX_use_PrivateKey(context_.get(), settings.identity->key());
    }
    SSL_CTX_set_security_level(context_.get(), 0);  // offers old versions as well
    SSL_CTX_set_min_proto_version(context_.get(), settings.version);
    SSL_CTX_set_max_proto_version(context_.get(), settings.version);
    SSL_CTX_set_alpn_protos(context_.get(),
                            reinterpret_cast<const unsigned char*>(settings.protocols.data()),
                            static_cast<unsigned>(settings.protocols.size()));
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_fd(ssl_.get(), socket_.descriptor());
    is_connected_ = SSL_connect(ssl_.get()) == 1;
  }

  /// Whether the handshake succeeded, as far as the client knows.
  [[nodiscard]] bool is_connected() const noexcept { return is_connected_; }
  [[nodiscard]] SSL* native() const noexcept { return ssl_.get(); }
  [[nodiscard]] raw_client& socket() noexcept { return socket_; }

  bool send(std::string_view bytes) const {
    std::size_t written = 0;
    return bytes.empty() || SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &written) == 1;
  }
  /// The next reply; nothing if the connection ends before it.
  [[nodiscard]] std::optional<raw_reply> receive() {
    return receive_reply(received_, true, [this] { return receive_some(); });
  }
  /// The status of the answer; 0 if the connection ends before it.
  unsigned ask(std::string_view request) {
    if (!send(request)) return 0;
    const auto reply = receive();
    return reply ? reply->status : 0;
  }
  /// Whether the server ends the connection, in order, without further bytes.
  [[nodiscard]] bool is_at_end() {
    std::array<char, 1> byte{};
    const int count = SSL_read(ssl_.get(), byte.data(), byte.size());
    return received_.empty() && SSL_get_error(ssl_.get(), count) == SSL_ERROR_ZERO_RETURN;
  }

 private:
  struct deleter {
    void operator()(SSL_CTX* context) const noexcept { SSL_CTX_free(context); }
    void operator()(SSL* ssl) const noexcept { SSL_free(ssl); }
  };

  bool receive_some() {
    std::array<char, 65536> bytes{};
    std::size_t count = 0;
    if (SSL_read_ex(ssl_.get(), bytes.data(), bytes.size(), &count) != 1) return false;
    received_.append(bytes.data(), count);
    return true;
  }

  raw_client socket_;
  std::unique_ptr<SSL_CTX, deleter> context_;
  std::unique_ptr<SSL, deleter> ssl_{};
  bool is_connected_ = false;
  std::string received_{};
};

}  // namespace sluice::service::test
