// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/device.hpp>
#include <sluice/runtime/memory_resource.hpp>
#include <sluice/runtime/tensor.hpp>

#include <cstdint>
#include <optional>

namespace sluice {

/// A stream of another library, on which imported or exported memory is used.
///
/// On a CUDA device it is a `cudaStream_t` with the values of DLPack: 1 is the legacy default
/// stream, 2 is the default stream of the calling thread. 0 is refused, because it could mean
/// either. -1 ("do not synchronize") is refused: name no stream instead. On a host device it is a
/// stream of any host device.
class foreign_stream {
 public:
  /// Names the stream `handle`.
  /// @throws error `invalid_argument` if `handle` is 0 or -1
  explicit foreign_stream(std::uintptr_t handle) : handle_(handle) {
    if (handle == 0 || handle == ~std::uintptr_t{0}) {
      throw error(errc::invalid_argument, "stream: 0 and -1 do not name a stream");
    }
  }
  /// Names the stream at `stream`.
  /// @throws error `invalid_argument` if `stream` is null or -1
  explicit foreign_stream(native_stream* stream)
      : foreign_stream(reinterpret_cast<std::uintptr_t>(stream)) {}
  /// The stream in the device's own type.
  [[nodiscard]] native_stream* native() const noexcept {
    return reinterpret_cast<native_stream*>(handle_);
  }

 private:
  std::uintptr_t handle_;
};

/// States the order of an import.
///
///     import_dlpack(runtime, tensor, {.stream = foreign_stream{2}});  // after the producer's work
///     import_dlpack(runtime, other, {.ready = true});                 // the producer has finished
///
/// An import is *adopted*: it becomes a block, which is tracked like the runtime's own memory from
/// the point of the import. An import needs an order: `stream`, `ready` or an Arrow `sync_event`.
/// Only ordinary host memory (`kDLCPU`) may come without one and then counts as `ready`. Name the
/// stream if a stream still writes it, for example after `export_dlpack` with a stream.
///
/// Each import is a block of its own. Uses of two imports of the same bytes are not ordered with
/// each other. Neither are uses of an exported block and an import of the same bytes. Such bytes
/// must not be written through one block while another is in use. Where an operation forbids
/// aliasing, it also refuses such operands. docs/concepts/external_memory.md gives the reasons.
struct import_options {
  /// The stream on which the producer writes the memory. The work queued on it at the time of the
  /// call precedes the first use.
  ///
  /// The stream must exist during the call only. A stream that is being captured into a graph is
  /// refused, and so is the legacy default stream while a stream that it waits for is being
  /// captured. No capture of the stream may begin during the call.
  std::optional<foreign_stream> stream{};
  /// No work writes the memory any more, so uses need not wait.
  bool ready = false;
  allocation_tag tag = "import";  ///< names the memory in errors and statistics
};

}  // namespace sluice
