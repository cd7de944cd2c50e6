// SPDX-License-Identifier: Apache-2.0
#include "tools/io/picture.hpp"

#include "tools/io/output_file.hpp"

#include <sluice/runtime/error.hpp>

#include <cairo.h>

#include <algorithm>
#include <memory>
#include <new>
#include <numbers>
#include <span>
#include <string>

namespace sluice::io {

namespace {

constexpr int largest_extent = 32767;  // Cairo's limit

void check(cairo_status_t status) {
  if (status == CAIRO_STATUS_SUCCESS) return;
  throw error(errc::library_failure,
              std::string("the picture could not be drawn: ") + cairo_status_to_string(status),
              library_status{"Cairo", static_cast<long>(status)});
}

using surface_handle = std::unique_ptr<cairo_surface_t, decltype(&cairo_surface_destroy)>;
using options_handle = std::unique_ptr<cairo_font_options_t, decltype(&cairo_font_options_destroy)>;
using context_handle = std::unique_ptr<cairo_t, decltype(&cairo_destroy)>;

/// A surface over the pixels of a picture, which must outlive it.
surface_handle surface_over(std::span<const std::uint32_t> pixels, int width, int height) {
  // Cairo does not write to a surface that is only encoded.
  auto* const bytes = reinterpret_cast<unsigned char*>(const_cast<std::uint32_t*>(pixels.data()));
  surface_handle surface(
      cairo_image_surface_create_for_data(bytes, CAIRO_FORMAT_RGB24, width, height, 4 * width),
      &cairo_surface_destroy);
  check(cairo_surface_status(surface.get()));
  return surface;
}

std::uint32_t pixel_of(colour ink) {
  return std::uint32_t{ink.red} << 16 | std::uint32_t{ink.green} << 8 | std::uint32_t{ink.blue};
}

/// With "?" for each character that the font lacks.
std::string printable(std::string_view text) {
  std::string result;
  for (const char character : text) {
    const auto byte = static_cast<unsigned char>(character);
    const bool is_continuation = (byte & 0xc0) == 0x80;
    if (!is_continuation) result += byte < 0x20 || byte >= 0x7f ? '?' : character;
  }
  return result;
}

}  // namespace

picture::picture(int width, int height) : width_(width), height_(height) {
  if (std::min(width, height) < 1 || std::max(width, height) > largest_extent)
    throw error(errc::invalid_argument, "picture: " + std::to_string(width) + " x " +
                                            std::to_string(height) + " pixels are not possible");
  pixels_.assign(static_cast<std::size_t>(width) * static_cast<std::size_t>(height),
                 pixel_of(white));
}

colour picture::at(int x, int y) const {
  const auto pixel = pixels_.at(static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) +
                                static_cast<std::size_t>(x));
  return {static_cast<std::uint8_t>(pixel >> 16), static_cast<std::uint8_t>(pixel >> 8),
          static_cast<std::uint8_t>(pixel)};
}

void picture::fill(const area& part, colour ink) {
  const int left = std::max(part.x, 0);
  const int top = std::max(part.y, 0);
  const area inside{left, top, std::min(part.x + part.width, width_) - left,
                    std::min(part.y + part.height, height_) - top};
  fill(inside, [ink](int, int) { return ink; });
}

void picture::fill(const area& part, const std::function<colour(int x, int y)>& ink) {
  for (int y = 0; y < part.height; ++y)
    for (int x = 0; x < part.width; ++x)
      pixels_.at(static_cast<std::size_t>(part.y + y) * static_cast<std::size_t>(width_) +
                 static_cast<std::size_t>(part.x + x)) = pixel_of(ink(x, y));
}

void picture::write(std::string_view text, double x, double y, const text_style& style) {
  const surface_handle surface = surface_over(pixels_, width_, height_);
  const context_handle context(cairo_create(surface.get()), &cairo_destroy);
  cairo_t* const cairo = context.get();
  const std::string line = printable(text);
  cairo_select_font_face(cairo, "@cairo:", CAIRO_FONT_SLANT_NORMAL,
                         style.bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
  // With exact widths, a text that is scaled is as long as calculated.
  const options_handle options(cairo_font_options_create(), &cairo_font_options_destroy);
  cairo_font_options_set_hint_metrics(options.get(), CAIRO_HINT_METRICS_OFF);
  cairo_set_font_options(cairo, options.get());
  cairo_text_extents_t extents{};
  cairo_set_font_size(cairo, style.size);
  cairo_text_extents(cairo, line.c_str(), &extents);
  const double scale = extents.x_advance > style.longest ? style.longest / extents.x_advance : 1.0;
  cairo_translate(cairo, x, y);
  if (style.upward) cairo_rotate(cairo, -std::numbers::pi / 2);
  cairo_scale(cairo, scale, scale);
  // Half the height of a capital letter below the centre.
  cairo_move_to(cairo, -style.align * extents.x_advance, 0.35 * style.size);
  cairo_show_text(cairo, line.c_str());
  check(cairo_status(cairo));
  cairo_surface_flush(surface.get());
}

std::vector<std::byte> picture::png() const {
  std::vector<std::byte> file;
  const auto append = [](void* target, const unsigned char* bytes, unsigned int count) noexcept {
    try {
      const auto more = std::as_bytes(std::span(bytes, count));
      auto& all = *static_cast<std::vector<std::byte>*>(target);
      all.insert(all.end(), more.begin(), more.end());
      return CAIRO_STATUS_SUCCESS;
    } catch (const std::bad_alloc&) {
      return CAIRO_STATUS_NO_MEMORY;
    }
  };
  const surface_handle surface = surface_over(pixels_, width_, height_);
  check(cairo_surface_write_to_png_stream(surface.get(), append, &file));
  return file;
}

void picture::save(const std::filesystem::path& path) const {
  const std::vector<std::byte> file = png();
  output_file target(path);
  target.write(file);
  target.commit();
}

}  // namespace sluice::io
