#pragma once

#include "tools/io/npy.hpp"
#include "tools/sluice/session.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice::cli {

/// Reads the file of the argument or option `what` ("A", "--bias"). @throws error as
/// `io::read_npy`; `types` are those that the command takes
[[nodiscard]] io::array read_array(std::string_view what, const std::filesystem::path& path,
                                   std::string_view types);

/// Throws `invalid_argument`, naming the file, unless `array` has this number of dimensions.
void require_dimensions(const std::filesystem::path& path, const io::array& array,
                        std::size_t dimensions, std::string_view meaning);

/// Throws `invalid_argument`, naming `path`, with `what` behind it.
[[noreturn]] void refuse_file(const std::filesystem::path& path, const std::string& what);

/// The bytes of a result of this type and shape. Throws `invalid_argument` beginning with
/// `subject`, the option or file to blame, when they are too many to be counted.
[[nodiscard]] std::size_t require_countable(std::string_view subject, element_type type,
                                            std::span<const std::int64_t> shape);

/// "3x4"; "()" for no dimension.
[[nodiscard]] std::string shape_text(std::span<const std::int64_t> shape);

/// "0.21 ms"
[[nodiscard]] std::string latency_text(const launch_summary& launch);

/// " (cuBLAS)", or nothing when nothing was launched.
[[nodiscard]] std::string library_text(const launch_summary& launch);

/// Brings `values` to the session's device by a message to its actor. @throws error what it answers
template <element T>
gpu_ref<T> upload_values(session& current, std::vector<T> values) {
  return current.ask<gpu_ref<T>>(current.device().actor(), upload<T>{.values = std::move(values)});
}

/// The same for the elements of `array`, whose memory is given back.
template <element T>
gpu_ref<T> upload_array(session& current, io::array& array) {
  const auto elements = array.values<T>();
  std::vector<T> values(elements.begin(), elements.end());
  array.bytes = {};
  return upload_values(current, std::move(values));
}

/// The elements of `ref`, by a message to the device's actor. @throws error what it answers
template <element T>
std::vector<T> download_values(session& current, const gpu_ref<T>& ref) {
  return current.ask<std::vector<T>>(current.device().actor(), download<T>{.source = ref});
}

/// Writes `values` in C order as a `.npy` file. @throws error as `io::write_npy`
template <element T>
void write_array(const std::filesystem::path& path, std::span<const std::int64_t> shape,
                 const std::vector<T>& values) {
  io::write_npy(path, element_type_v<T>, shape, std::as_bytes(std::span(values)));
}

/// Calls `run` with a T{} of `type`, which is f32 or f64.
template <class Run>
void with_real_type(element_type type, Run&& run) {
  if (type == element_type::f64) {
    run(double{});
  } else {
    run(float{});
  }
}

}  // namespace sluice::cli
