// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/tls_credentials.hpp"

#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>
#include <utility>

namespace sluice::service {

/// TLS for a server of gRPC, with the files that `tls_credentials` has accepted last.
///
/// Each handshake asks for them, so that gRPC uses a new certificate, its key and the authority of
/// clients at once and together, or none of them. TLS 1.2 and 1.3. With an authority, all clients
/// need a certificate.
///
/// It outlives the server, which keeps a pointer to it.
class tls_server_credentials final : public grpc::ServerCredentials {
 public:
  explicit tls_server_credentials(std::shared_ptr<const tls_credentials> files)
      : files_(std::move(files)) {}

  /// gRPC's processors of metadata are not supported: does nothing.
  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>& /*processor*/) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override;
  [[nodiscard]] static grpc_ssl_certificate_config_reload_status fetch(
      void* self, grpc_ssl_server_certificate_config** config);

  const std::shared_ptr<const tls_credentials> files_;
  std::shared_ptr<const tls_texts> fetched_{};  ///< gRPC fetches under a mutex of its own
};

}  // namespace sluice::service
