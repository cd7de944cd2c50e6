// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/io/picture.hpp"

#include <cairo.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

namespace sluice::test {

/// The picture of a PNG file.
inline io::picture decode_png(std::span<const std::byte> file) {
  const auto read = [](void* source, unsigned char* target, unsigned int count) noexcept {
    auto& rest = *static_cast<std::span<const std::byte>*>(source);
    if (count > rest.size()) return CAIRO_STATUS_READ_ERROR;
    std::memcpy(target, rest.data(), count);
    rest = rest.subspan(count);
    return CAIRO_STATUS_SUCCESS;
  };
  const std::unique_ptr<cairo_surface_t, decltype(&cairo_surface_destroy)> surface(
      cairo_image_surface_create_from_png_stream(read, &file), &cairo_surface_destroy);
  EXPECT_EQ(cairo_surface_status(surface.get()), CAIRO_STATUS_SUCCESS);
  io::picture result(cairo_image_surface_get_width(surface.get()),
                     cairo_image_surface_get_height(surface.get()));
  const auto* const data = cairo_image_surface_get_data(surface.get());
  const int stride = cairo_image_surface_get_stride(surface.get());
  result.fill({0, 0, result.width(), result.height()}, [&](int x, int y) {
    std::uint32_t pixel = 0;
    std::memcpy(&pixel, data + y * stride + x * 4, sizeof pixel);
    return io::colour{static_cast<std::uint8_t>(pixel >> 16), static_cast<std::uint8_t>(pixel >> 8),
                      static_cast<std::uint8_t>(pixel)};
  });
  return result;
}

}  // namespace sluice::test
