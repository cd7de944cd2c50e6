#pragma once

#include <sluice/runtime/device.hpp>

#include <cstddef>
#include <filesystem>
#include <string_view>

namespace sluice::cli {

/// The bytes that this process can still allocate without the system running out of memory: what
/// the system calls available, less where a control group or a resource limit allows less.
[[nodiscard]] std::size_t available_memory();

/// Checks, before anything is allocated, that `host_bytes` in this process and `device_bytes` on
/// the device (which is this process's memory, too, on the host device) can be had. Throws
/// `invalid_argument` beginning with `subject`, the option or file to blame. Saturate sums and
/// products with `saturating_add` and `saturating_multiply`.
void require_memory(std::string_view subject, const device_info& device, std::size_t host_bytes,
                    std::size_t device_bytes);

/// Checks the same for the file at `path`, whose elements are about to be read: throws
/// `invalid_argument`, naming it, when it is larger than `available_memory`.
void require_memory_for_file(const std::filesystem::path& path);

/// Sum and product, or the largest value when it does not fit.
[[nodiscard]] std::size_t saturating_add(std::size_t a, std::size_t b) noexcept;
[[nodiscard]] std::size_t saturating_multiply(std::size_t a, std::size_t b) noexcept;

}  // namespace sluice::cli
