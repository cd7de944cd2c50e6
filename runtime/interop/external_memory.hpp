// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/core/runtime_core.hpp"

#include <sluice/runtime/external_memory.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

/// What DLPack and Arrow have in common.
namespace sluice::detail {

/// An error about one field of a descriptor.
[[nodiscard]] error field_error(errc code, std::string_view field, std::string_view what);

/// Checks that `address`, whose first part `base` was given apart, is that of an element.
void require_aligned(std::uintptr_t base, std::uint64_t offset, element_type type,
                     std::string_view base_field, std::string_view offset_field);

/// Checks that memory of device `type` (DLPack's number, which is Arrow's) and number `id` can be
/// used on `device`. `type_field` and `id_field` name them.
void require_device(device_id device, std::int32_t type, std::int64_t id,
                    std::string_view type_field, std::string_view id_field);
/// The number of the memory of `device`.
[[nodiscard]] std::int32_t external_device_type(device_id device) noexcept;

/// Memory that comes in.
struct incoming {
  void* address = nullptr;
  std::size_t bytes = 0;
  element_type type = element_type::u8;
  bool read_only = false;
  native_event* event = nullptr;  ///< of a GPU, which the memory is ready behind
};

/// Brings `memory` in. `owner` gives nothing back yet: its maker arms it when this has returned.
/// @throws error, std::bad_alloc
[[nodiscard]] column bring_in(runtime_core& core, const incoming& memory,
                              std::unique_ptr<foreign_memory> owner, const import_options& options);

class loan;

/// Memory that a consumer outside has, from the making to the destruction. See `export_dlpack`.
class lent_memory {
 public:
  enum class without_stream : std::uint8_t { wait, event };

  /// `event`: on a GPU, the consumer waits for `event()`. @throws error as `export_dlpack`
  lent_memory(device_runtime& runtime, const column& memory, std::optional<foreign_stream> stream,
              access_kind access, without_stream how);
  lent_memory(const lent_memory&) = delete;
  lent_memory& operator=(const lent_memory&) = delete;
  /// The consumer has finished, or has queued its last use on the stream. While that is being
  /// captured the block stays lent, and unusable.
  ~lent_memory();

  /// Where the device's event stands that the memory is ready behind; null where there is none.
  [[nodiscard]] native_event** event() noexcept { return event_ == nullptr ? nullptr : &event_; }

 private:
  std::unique_ptr<loan> loan_;
  native_event* event_ = nullptr;
};

}  // namespace sluice::detail
