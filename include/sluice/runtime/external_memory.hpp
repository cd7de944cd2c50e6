// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/column.hpp>
#include <sluice/runtime/device.hpp>
#include <sluice/runtime/memory_resource.hpp>

#include <cstdint>
#include <optional>

namespace sluice {

/// A stream that memory of somebody else's is written or read on. On a CUDA device a `cudaStream_t`
/// as DLPack passes it: 1 is the legacy default stream, 2 the calling thread's default stream; 0,
/// which could mean either, is refused, and so is -1 ("do not synchronise": name no stream). On a
/// host device a stream of any host device.
class foreign_stream {
 public:
  /// @throws error `invalid_argument` for 0 and -1
  explicit foreign_stream(std::uintptr_t handle) : handle_(handle) {
    if (handle == 0 || handle == ~std::uintptr_t{0}) {
      throw error(errc::invalid_argument, "stream: 0 and -1 name no stream");
    }
  }
  /// The same for a stream pointer. @throws error `invalid_argument` for 0 and -1
  explicit foreign_stream(native_stream* stream)
      : foreign_stream(reinterpret_cast<std::uintptr_t>(stream)) {}
  /// The device's own stream.
  [[nodiscard]] native_stream* native() const noexcept {
    return reinterpret_cast<native_stream*>(handle_);
  }

 private:
  std::uintptr_t handle_;
};

/// How an import is ordered. An import that says nothing is an external column: a strict recorder
/// rejects it, a permissive one skips it, and whoever launches must know that the producer is done.
/// One that says something is *adopted*: its column has a runtime identity, and is tracked like the
/// runtime's own memory from the point on that the import brought. This holds for memory of the
/// host as for that of GPUs.
///
/// Each import has an identity of its own: uses of one are not ordered with those of another one of
/// the same bytes, nor with those of a block that was exported and comes back. So bytes that are in
/// the runtime more than once are not to be written through any of them while another one is used;
/// one launch is refused such operands where it may not be given memory twice.
struct import_options {
  /// Where the producer writes the memory: everything queued there at the time of the call comes
  /// before the first use. The stream must exist during the call only. One that is being captured
  /// into a graph is refused, and so is the legacy default stream while one that it waits for is;
  /// nobody may begin to capture it during the call.
  std::optional<foreign_stream> stream{};
  /// Nobody writes the memory any more: uses need not wait.
  bool ready = false;
  allocation_tag tag = "import";  ///< names the memory in errors and statistics
};

}  // namespace sluice
