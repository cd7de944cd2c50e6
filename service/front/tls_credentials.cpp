// SPDX-License-Identifier: Apache-2.0
#include "service/front/tls_credentials.hpp"

#include "service/front/protected_file.hpp"

#include <boost/asio/ssl/context.hpp>
#include <openssl/ssl.h>

#include <stdexcept>
#include <string_view>
#include <utility>

namespace sluice::service {
namespace {

namespace ssl = boost::asio::ssl;

/// Chooses http/1.1 if the client names protocols.
int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* chosen_size,
                    const unsigned char* offered, unsigned offered_size, void*) {
  constexpr std::string_view http = "http/1.1";
  for (std::string_view rest(reinterpret_cast<const char*>(offered), offered_size);
       !rest.empty();) {
    const auto name = rest.substr(1, static_cast<unsigned char>(rest.front()));
    if (name == http) {
      *chosen = offered + (name.data() - reinterpret_cast<const char*>(offered));
      *chosen_size = static_cast<unsigned char>(name.size());
      return SSL_TLSEXT_ERR_OK;
    }
    rest.remove_prefix(1 + name.size());
  }
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

void restrict_protocol(ssl::context& context) {
  auto* const native = context.native_handle();
  // A resumed session would keep a client that a new file refuses.
  SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET |
                                  SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
  SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(native, 0);
  SSL_CTX_set_alpn_select_cb(native, choose_protocol, nullptr);
  if (SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION) != 1 ||
      SSL_CTX_set_cipher_list(native, "ECDHE+AESGCM:ECDHE+CHACHA20") != 1) {
    throw std::runtime_error("OpenSSL has no secure ciphers");
  }
}

[[nodiscard]] std::shared_ptr<const tls_texts> read_files(const tls_files& files) {
  auto texts = std::make_shared<tls_texts>();
  texts->certificate = read_protected_file(files.certificate, file_readers::everybody);
  texts->key = read_protected_file(files.key, file_readers::nobody);
  if (!files.client_ca.empty()) {
    texts->client_ca = read_protected_file(files.client_ca, file_readers::everybody);
  }
  return texts;
}

/// Passes the text of a file to `use`, whose errors get the path.
template <class Use>
void use_text(const std::string& path, const std::string& text, Use use) {
  try {
    use(boost::asio::buffer(text));
  } catch (const boost::system::system_error& e) {
    throw std::runtime_error(path + ": " + e.what());
  }
}

[[nodiscard]] std::shared_ptr<ssl::context> make_context(const tls_files& files,
                                                         const tls_texts& texts) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  restrict_protocol(*context);
  // Otherwise OpenSSL would ask at the terminal.
  context->set_password_callback(
      [](std::size_t, ssl::context::password_purpose) { return std::string(); });
  use_text(files.certificate, texts.certificate,
           [&](auto text) { context->use_certificate_chain(text); });
  use_text(files.key, texts.key,
           [&](auto text) { context->use_private_key(text, ssl::context::pem); });
  if (SSL_CTX_check_private_key(context->native_handle()) != 1) {
    throw std::runtime_error(files.key + ": it is not the key of " + files.certificate);
  }
  if (!files.client_ca.empty()) {
    use_text(files.client_ca, texts.client_ca,
             [&](auto text) { context->add_certificate_authority(text); });
    context->set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert);
  }
  return context;
}

}  // namespace

tls_credentials::tls_credentials(tls_files files) : files_(std::move(files)) {
  reload();
}

void tls_credentials::reload() {
  auto texts = read_files(files_);
  auto context = make_context(files_, *texts);
  const std::lock_guard lock(mutex_);
  texts_ = std::move(texts);
  context_ = std::move(context);
}

std::shared_ptr<ssl::context> tls_credentials::context() const {
  const std::lock_guard lock(mutex_);
  return context_;
}

std::shared_ptr<const tls_texts> tls_credentials::texts() const {
  const std::lock_guard lock(mutex_);
  return texts_;
}

}  // namespace sluice::service
