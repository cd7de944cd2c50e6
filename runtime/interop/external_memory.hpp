// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/core/runtime_core.hpp"

#include <sluice/runtime/external_memory.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

/// The common part of DLPack and Arrow.
namespace sluice::detail {

/// An error about one field of a descriptor.
[[nodiscard]] error field_error(errc code, std::string_view field, std::string_view message);

/// Checks that `base` plus `offset` bytes is the address of an element.
/// @throws error naming `base_field` or `offset_field`
void require_aligned(std::uintptr_t base, std::uint64_t offset, element_type type,
                     std::string_view base_field, std::string_view offset_field);

/// Checks that memory of device `type` and number `id` can be used on `device`. DLPack and Arrow
/// number device types alike.
/// @throws error naming `type_field` or `id_field`
void require_device(device_id device, std::int32_t type, std::int64_t id,
                    std::string_view type_field, std::string_view id_field);
/// The device type of the memory of `device`.
[[nodiscard]] std::int32_t external_device_type(device_id device) noexcept;

/// The description of memory to be imported.
struct incoming {
  void* address = nullptr;
  std::size_t bytes = 0;
  bool read_only = false;
  std::int32_t device_type = 0;   ///< as in DLPack and Arrow
  native_event* event = nullptr;  ///< of a GPU: the memory is ready after it
};

/// Imports `memory` as a block. On return `owner` is not armed yet, so it would return nothing. The
/// caller then arms it.
/// @throws error if the import is refused
/// @throws std::bad_alloc
[[nodiscard]] block_ref bring_in(runtime_core& core, const incoming& memory,
                                 std::unique_ptr<foreign_memory> owner,
                                 const import_options& options);

class loan;

/// Exported memory, from the export to the consumer's call of the deleter. See `export_dlpack`.
class lent_memory {
 public:
  enum class without_stream : std::uint8_t { wait, event };

  /// Exports `memory`. With `without_stream::event` the consumer on a GPU waits for `event()`.
  /// @throws error as `export_dlpack`
  lent_memory(device_runtime& runtime, const tensor& memory, std::optional<foreign_stream> stream,
              access_kind access, without_stream fallback);
  lent_memory(const lent_memory&) = delete;
  lent_memory& operator=(const lent_memory&) = delete;
  /// Ends the export. The consumer has finished, or has queued its last use on the stream. While
  /// that stream is being captured the block stays lent and unusable.
  ~lent_memory();

  /// The address of the event after which the memory is ready, or null.
  [[nodiscard]] native_event** event() noexcept { return event_ == nullptr ? nullptr : &event_; }

 private:
  std::unique_ptr<loan> loan_;
  native_event* event_ = nullptr;
};

}  // namespace sluice::detail
