// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/lane_libraries.hpp>
#include <sluice/runtime/element_type.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace sluice::cuda {

/// The most algorithms that a trial compares.
inline constexpr std::size_t max_tried_algorithms = 8;

/// Enqueues algorithm number `i` on the stream of the lane. Returns whether the library takes it.
using enqueue_algorithm = std::function<bool(std::size_t i)>;

/// Measures `count` algorithms in turns on the stream of a lane, whose device is the current one,
/// and waits for that. Returns the number of the fastest one: 0, unless another one takes at least
/// 2 % less time than the first. Nothing if the device has other work, or if one call takes more
/// than 5 ms. It waits for up to 2 ms until nothing is in flight.
///
/// Each algorithm runs once to load its kernels, and then in three rounds of 2 to 16 calls, about
/// half a millisecond; its least time counts. With eight algorithms that is 20 ms for short calls
/// and at most 0.3 s.
/// @throws error `library_failure`, `device_lost`
[[nodiscard]] std::optional<std::size_t> fastest_algorithm(lane_libraries& libraries,
                                                           std::size_t count,
                                                           const enqueue_algorithm& enqueue);

/// Enqueues random numbers for a trial: zeros take a GPU less power, and therefore less time than
/// real data. Numbers of floating-point types of up to 32 bits are between 0.5 and 1 in size.
/// `address` is aligned to 4 bytes, and `bytes` is a multiple of 4.
/// @throws error `library_failure`
void fill_with_noise(void* address, std::size_t bytes, element_type type, stream_ref stream);

/// The text of a choice among algorithms for `algorithm_choices`: the library with its version, the
/// GPU, the number of the policy of trials, and `key`, the bytes of a call's key.
[[nodiscard]] std::string subject_of_choice(const std::string& library, const device& device,
                                            const void* key, std::size_t bytes);

}  // namespace sluice::cuda
