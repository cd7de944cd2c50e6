// SPDX-License-Identifier: Apache-2.0
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

/// Reads the file of the argument or option `name` ("A", "--bias"), with elements of one of the
/// types `types`. @throws error as `io::read_npy`
[[nodiscard]] io::array read_array(std::string_view name, const std::filesystem::path& path,
                                   std::span<const element_type> types);

/// Throws `invalid_argument`, naming the file, unless `array` has `dimensions` dimensions.
/// `meaning` says what the array is ("a matrix").
void require_dimensions(const std::filesystem::path& path, const io::array& array,
                        std::size_t dimensions, std::string_view meaning);

/// Throws `invalid_argument` with the text "path: description".
[[noreturn]] void refuse_file(const std::filesystem::path& path, const std::string& description);

/// The size in bytes of a result of this type and shape. Throws `invalid_argument` if the size does
/// not fit into 63 bits. The text begins with `subject`, the option or file at fault.
[[nodiscard]] std::size_t require_countable(std::string_view subject, element_type type,
                                            std::span<const std::int64_t> shape);

/// "3x4"; "()" without dimensions.
[[nodiscard]] std::string shape_text(std::span<const std::int64_t> shape);

/// "0.21 ms"
[[nodiscard]] std::string latency_text(const launch_summary& launch);

/// " (cuBLAS)"; empty without a launch.
[[nodiscard]] std::string library_text(const launch_summary& launch);

/// Uploads `values` by a request to the device actor. @throws error the error of the reply
template <element T>
gpu_ref<T> upload_values(session& current, std::vector<T> values) {
  return current.ask<tensor>(current.device().actor(), upload{.values = std::move(values)}).as<T>();
}

/// Uploads the elements of `array` and releases its memory on the host.
template <element T>
gpu_ref<T> upload_array(session& current, io::array& array) {
  const auto elements = array.values<T>();
  std::vector<T> values(elements.begin(), elements.end());
  array.bytes = {};
  return upload_values(current, std::move(values));
}

/// Downloads the elements of `ref` by a request to the device actor. @throws error the error of the
/// reply
template <element T>
std::vector<T> download_values(session& current, const gpu_ref<T>& ref) {
  return current.ask<host_tensor>(current.device().actor(), download{.x = ref}).to_vector<T>();
}

/// Writes `values` in C order as a `.npy` file. @throws error as `io::write_npy`
template <element T>
void write_array(const std::filesystem::path& path, std::span<const std::int64_t> shape,
                 const std::vector<T>& values) {
  io::write_npy(path, element_type_v<T>, shape, std::as_bytes(std::span(values)));
}

/// Calls `run` with a value of the C++ type for `type`, which is f32 or f64.
template <class Run>
void with_real_type(element_type type, Run&& run) {
  if (type == element_type::f64) {
    run(double{});
  } else {
    run(float{});
  }
}

}  // namespace sluice::cli
