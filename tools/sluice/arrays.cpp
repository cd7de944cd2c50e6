// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/arrays.hpp"

#include "tools/io/displayed.hpp"
#include "tools/sluice/memory.hpp"

#include <fmt/format.h>

#include <chrono>

namespace sluice::cli {

io::array read_array(std::string_view name, const std::filesystem::path& path,
                     std::span<const element_type> types) {
  if (path.empty())
    throw error(errc::invalid_argument, std::string(name) + ": the file name is empty");
  require_memory_for_file(path);
  return io::read_npy(path, types);
}

void refuse_file(const std::filesystem::path& path, const std::string& description) {
  throw error(errc::invalid_argument, io::displayed(path) + ": " + description);
}

void require_dimensions(const std::filesystem::path& path, const io::array& array,
                        std::size_t dimensions, std::string_view meaning) {
  if (array.shape.size() == dimensions) return;
  refuse_file(path, fmt::format("has {} dimension{}, but {} has {}", array.shape.size(),
                                array.shape.size() == 1 ? "" : "s", meaning, dimensions));
}

std::size_t require_countable(std::string_view subject, element_type type,
                              std::span<const std::int64_t> shape) {
  if (const auto bytes = io::byte_size(type, shape)) return *bytes;
  throw error(errc::invalid_argument,
              fmt::format("{}: the result would have the shape {}, which is too large", subject,
                          shape_text(shape)));
}

std::string shape_text(std::span<const std::int64_t> shape) {
  if (shape.empty()) return "()";
  return fmt::format("{}", fmt::join(shape.begin(), shape.end(), "x"));
}

std::string latency_text(const launch_summary& launch) {
  const double ms = std::chrono::duration<double, std::milli>(launch.latency).count();
  return ms < 100 ? fmt::format("{:.2g} ms", ms) : fmt::format("{:.0f} ms", ms);
}

std::string library_text(const launch_summary& launch) {
  return launch.library.empty() ? std::string() : " (" + launch.library + ")";
}

}  // namespace sluice::cli
