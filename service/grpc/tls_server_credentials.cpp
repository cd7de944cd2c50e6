// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/tls_server_credentials.hpp"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <string>

namespace sluice::service {

int tls_server_credentials::AddPortToServer(const std::string& address, grpc_server* server) {
  auto* const options = grpc_ssl_server_credentials_create_options_using_config_fetcher(
      files_->needs_client_certificates()
          ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
          : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
      fetch, this);
  auto* const credentials = grpc_ssl_server_credentials_create_with_options(options);
  const int port = grpc_server_add_http2_port(server, address.c_str(), credentials);
  grpc_server_credentials_release(credentials);
  return port;
}

grpc_ssl_certificate_config_reload_status tls_server_credentials::fetch(
    void* self, grpc_ssl_server_certificate_config** config) {
  auto& credentials = *static_cast<tls_server_credentials*>(self);
  auto texts = credentials.files_->texts();
  if (texts == credentials.fetched_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
  const grpc_ssl_pem_key_cert_pair pair{texts->key.c_str(), texts->certificate.c_str()};
  // gRPC 1.51 aborts without an authority, which it does not use if it asks for no certificate.
  const auto& authority =
      credentials.files_->needs_client_certificates() ? texts->client_ca : texts->certificate;
  *config = grpc_ssl_server_certificate_config_create(authority.c_str(), &pair, 1);
  credentials.fetched_ = std::move(texts);
  return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
}

}  // namespace sluice::service
