// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

namespace sluice::service {

/// Why bytes are no request of HTTP that the server accepts.
class http_error : public std::runtime_error {
 public:
  http_error(unsigned status, const std::string& message)
      : std::runtime_error(message), status_(status) {}
  /// The status code of HTTP.
  [[nodiscard]] unsigned status() const noexcept { return status_; }

 private:
  unsigned status_;
};

}  // namespace sluice::service
