// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/host_transfer.hpp>

#include <atomic>
#include <cstdint>

namespace sluice::detail {

// As the functions of `host_transfer` on a GPU, but through the stream's ring whatever the size.

/// `source` is read only once `ready` is not 0. The stream waits for that, so whatever sets the
/// word must have been enqueued before the transfer is.
[[nodiscard]] std::shared_ptr<host_transfer> upload_when_ready(
    stream_ref stream, std::shared_ptr<const void> source, std::size_t bytes,
    std::shared_ptr<const std::atomic<std::uint32_t>> ready);
/// The target holds all bytes when the launch has completed, without `finish`.
[[nodiscard]] std::shared_ptr<host_transfer> download_through_ring(stream_ref stream,
                                                                   std::shared_ptr<void> target,
                                                                   std::size_t bytes);

}  // namespace sluice::detail
