// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/request_head.hpp"

#include <cstddef>
#include <memory>
#include <span>

namespace sluice::service {

/// Decompresses a body of the coding gzip (one member) or deflate (a stream of zlib).
class inflater {
 public:
  struct progress {
    std::size_t consumed = 0;  ///< of the input
    std::size_t written = 0;   ///< to the output
  };

  explicit inflater(content_coding coding);
  /// Decompresses until the output is full, the input is used up or the stream has ended.
  /// @throws http_error 400 if the input is not such a stream
  progress decode(std::span<const std::byte> input, std::span<std::byte> output);
  [[nodiscard]] bool is_done() const noexcept { return is_done_; }

 private:
  struct stream;
  struct stream_deleter {
    void operator()(stream* s) const noexcept;
  };
  std::unique_ptr<stream, stream_deleter> stream_;
  bool is_done_ = false;
};

}  // namespace sluice::service
