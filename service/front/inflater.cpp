// SPDX-License-Identifier: Apache-2.0
#include "service/front/inflater.hpp"

#include "service/front/http_error.hpp"

#include <algorithm>
#include <limits>
#include <new>
#include <zlib.h>

namespace sluice::service {
namespace {

[[nodiscard]] uInt bounded(std::size_t bytes) noexcept {
  return static_cast<uInt>(std::min<std::size_t>(bytes, std::numeric_limits<uInt>::max()));
}

}  // namespace

struct inflater::stream {
  z_stream z{};
};

void inflater::stream_deleter::operator()(stream* s) const noexcept {
  inflateEnd(&s->z);
  delete s;
}

inflater::inflater(content_coding coding) {
  auto created = std::make_unique<stream>();
  // 16 more than the window's 15 bits: the format of gzip.
  if (inflateInit2(&created->z, coding == content_coding::gzip ? 15 + 16 : 15) != Z_OK) {
    throw std::bad_alloc();
  }
  stream_.reset(created.release());
}

inflater::progress inflater::decode(std::span<const std::byte> input, std::span<std::byte> output) {
  if (is_done_) return {};
  z_stream& z = stream_->z;
  std::byte none{};  // zlib takes no null pointer
  z.next_in =
      reinterpret_cast<Bytef*>(const_cast<std::byte*>(input.empty() ? &none : input.data()));
  z.avail_in = bounded(input.size());
  z.next_out = reinterpret_cast<Bytef*>(output.empty() ? &none : output.data());
  z.avail_out = bounded(output.size());
  const uInt offered = z.avail_in;
  const uInt room = z.avail_out;
  const int result = inflate(&z, Z_NO_FLUSH);
  if (result == Z_MEM_ERROR) throw std::bad_alloc();
  if (result != Z_OK && result != Z_BUF_ERROR && result != Z_STREAM_END) {
    throw http_error(400, "the compressed body is malformed");
  }
  is_done_ = result == Z_STREAM_END;
  return {.consumed = offered - z.avail_in, .written = room - z.avail_out};
}

}  // namespace sluice::service
