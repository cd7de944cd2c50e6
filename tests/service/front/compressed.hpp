// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/request_head.hpp"

#include <stdexcept>
#include <string>
#include <zlib.h>

namespace sluice::service::test {

/// The text in a content coding.
inline std::string compressed(const std::string& text, content_coding coding) {
  if (coding == content_coding::identity) return text;
  z_stream z{};
  const int window = coding == content_coding::gzip ? 15 + 16 : 15;
  if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::runtime_error("deflateInit2");
  }
  std::string result(deflateBound(&z, text.size()) + 64, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(result.data());
  z.avail_out = static_cast<uInt>(result.size());
  const int status = deflate(&z, Z_FINISH);
  deflateEnd(&z);
  if (status != Z_STREAM_END) throw std::runtime_error("deflate");
  result.resize(result.size() - z.avail_out);
  return result;
}

/// The text as chunks of at most `size` bytes.
inline std::string chunked(const std::string& text, std::size_t size) {
  constexpr const char* digits = "0123456789abcdef";
  std::string result;
  for (std::size_t i = 0; i < text.size(); i += size) {
    const std::string piece = text.substr(i, size);
    std::string length;
    for (std::size_t n = piece.size(); n > 0; n /= 16)
      length.insert(length.begin(), digits[n % 16]);
    result += length + "\r\n" + piece + "\r\n";
  }
  return result + "0\r\n\r\n";
}

}  // namespace sluice::service::test
