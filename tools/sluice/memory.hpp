// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/device.hpp>

#include <cstddef>
#include <filesystem>
#include <string_view>

namespace sluice::cli {

/// The bytes that this process can still allocate: the memory that the system reports as available,
/// or less if a control group or a resource limit allows less.
[[nodiscard]] std::size_t available_memory();

/// Checks, before a command allocates anything, that this process can allocate `host_bytes` and
/// that the device's memory has at least `device_bytes` in total. On the host device the process
/// needs the sum. Throws `invalid_argument` otherwise; the text begins with `subject`, the option
/// or file at fault. Compute the sizes with `saturating_add` and `saturating_multiply`.
void require_memory(std::string_view subject, const device_info& device, std::size_t host_bytes,
                    std::size_t device_bytes);

/// Checks, before a command reads the file at `path`, that it fits into `available_memory`. Throws
/// `invalid_argument`, naming the file, otherwise.
void require_memory_for_file(const std::filesystem::path& path);

/// The sum and the product, or the largest value on overflow.
[[nodiscard]] std::size_t saturating_add(std::size_t a, std::size_t b) noexcept;
[[nodiscard]] std::size_t saturating_multiply(std::size_t a, std::size_t b) noexcept;

}  // namespace sluice::cli
