// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <string>

namespace boost::asio::ssl {
class context;
}  // namespace boost::asio::ssl

namespace sluice::service {

/// The files of a server with TLS, in the form PEM.
struct tls_files {
  std::string certificate{};  ///< that of the server first, then those that sign it
  std::string key{};          ///< without a password
  /// Certificates that sign those of clients, which every client needs then. Empty: none does.
  std::string client_ca{};
};

/// The contents of files that belong together. `client_ca` is empty without the file.
struct tls_texts {
  std::string certificate{};
  std::string key{};
  std::string client_ca{};
};

/// The certificate of a server and what it demands of its clients. The functions are thread-safe.
///
/// TLS 1.2 and 1.3, with forward secrecy and authenticated ciphers, without renegotiation and
/// resumption. The protocol over `context` is HTTP/1.1.
class tls_credentials {
 public:
  /// @throws std::runtime_error with the path if a file cannot be read, is malformed, may be
  /// written by others, or, for the key, read by everybody; or if the key is that of another
  /// certificate
  explicit tls_credentials(tls_files files);

  /// Reads the files again, for connections from now on.
  /// @throws std::runtime_error as the constructor; nothing has changed then
  void reload();
  /// What a connection of the server needs. It stays valid after `reload`.
  [[nodiscard]] std::shared_ptr<boost::asio::ssl::context> context() const;
  /// Whether every client needs a certificate.
  [[nodiscard]] bool needs_client_certificates() const noexcept {
    return !files_.client_ca.empty();
  }
  /// What the files had when they were read last without an error. Each `reload` makes a new
  /// object.
  [[nodiscard]] std::shared_ptr<const tls_texts> texts() const;

 private:
  const tls_files files_;
  mutable std::mutex mutex_{};
  std::shared_ptr<const tls_texts> texts_{};              // guarded by mutex_
  std::shared_ptr<boost::asio::ssl::context> context_{};  // guarded by mutex_; with texts_
};

}  // namespace sluice::service
