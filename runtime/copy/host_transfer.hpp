// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/host_transfer.hpp>

#include <atomic>
#include <cstdint>

namespace sluice::detail {

// Transfers of a GPU that use the stream's ring for any size. See `host_transfer`.

/// An upload that reads `source` only once `ready` is not 0. The stream waits for that, so the
/// operation that sets the word must be enqueued before the transfer.
[[nodiscard]] std::shared_ptr<host_transfer> upload_when_ready(
    stream_ref stream, std::shared_ptr<const void> source, std::size_t bytes,
    std::shared_ptr<const std::atomic<std::uint32_t>> ready);
/// A download whose target holds all bytes once the launch has completed, without `finish`.
[[nodiscard]] std::shared_ptr<host_transfer> download_through_ring(stream_ref stream,
                                                                   std::shared_ptr<void> target,
                                                                   std::size_t bytes);

}  // namespace sluice::detail
