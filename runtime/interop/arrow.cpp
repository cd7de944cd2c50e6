// SPDX-License-Identifier: Apache-2.0
#include "runtime/interop/external_memory.hpp"

#include <sluice/runtime/arrow.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {
namespace {

using detail::field_error;

struct format_entry {
  const char* format;
  element_type type;
};
constexpr format_entry formats[] = {
    {"C", element_type::u8},  {"c", element_type::i8},  {"S", element_type::u16},
    {"s", element_type::i16}, {"i", element_type::i32}, {"I", element_type::u32},
    {"l", element_type::i64}, {"L", element_type::u64}, {"e", element_type::f16},
    {"f", element_type::f32}, {"g", element_type::f64}};

element_type type_of(const char* format) {
  if (format == nullptr) throw field_error(errc::invalid_argument, "format", "must not be null");
  for (const auto& entry : formats) {
    if (format[0] == entry.format[0] && format[1] == '\0') return entry.type;
  }
  const auto excerpt = std::string_view(format).substr(0, 32);
  std::string message;
  if (std::all_of(excerpt.begin(), excerpt.end(), [](char c) { return c >= ' ' && c <= '~'; })) {
    message.append(1, '\'').append(excerpt).append("' is not supported; ");
  }
  throw field_error(errc::unsupported, "format",
                    message + "must be C, c, S, s, i, I, l, L, e, f or g");
}

const char* format_of(element_type type) {
  for (const auto& entry : formats) {
    if (entry.type == type) return entry.format;
  }
  throw field_error(errc::unsupported, "format",
                    "Arrow has no format for elements of type " + std::string(to_string(type)));
}

/// Releases an imported array.
class imported_array final : public detail::foreign_memory {
 public:
  ~imported_array() override {
    if (array_.release != nullptr) array_.release(&array_);
  }
  /// Moves the array here bitwise, as Arrow's interface specifies.
  void arm(ArrowArray& array) noexcept {
    array_ = array;
    array.release = nullptr;
  }

 private:
  ArrowArray array_{};
};

/// The data of an exported array. Its release callback destroys it.
struct exported_array {
  std::array<const void*, 2> buffers{};
  detail::lent_memory loan;
};

}  // namespace

arrow_layout layout_of(const ArrowSchema& schema, const ArrowDeviceArray& device_array) {
  const auto& array = device_array.array;
  const auto refuse_unless = [](bool holds, errc code, const char* field, const char* message) {
    if (!holds) throw field_error(code, field, message);
  };
  const auto refuse_value_unless = [](bool holds, errc code, const char* field, std::int64_t value,
                                      const char* message) {
    if (!holds) throw field_error(code, field, std::to_string(value) + message);
  };
  refuse_unless(schema.release != nullptr, errc::invalid_argument, "schema.release",
                "the schema has been released");
  refuse_unless(array.release != nullptr, errc::invalid_argument, "array.release",
                "the array has been released");
  arrow_layout layout;
  layout.type = type_of(schema.format);
  refuse_value_unless(schema.n_children == 0, errc::unsupported, "schema.n_children",
                      schema.n_children, " is not supported; must be 0");
  refuse_unless(schema.dictionary == nullptr, errc::unsupported, "schema.dictionary",
                "dictionary-encoded arrays are not supported");
  refuse_value_unless(array.n_children == 0, errc::unsupported, "array.n_children",
                      array.n_children, " is not supported; must be 0");
  refuse_unless(array.dictionary == nullptr, errc::unsupported, "array.dictionary",
                "dictionary-encoded arrays are not supported");
  for (const auto word : device_array.reserved) {
    refuse_value_unless(word == 0, errc::unsupported, "reserved", word,
                        " is not supported; must be 0");
  }
  refuse_value_unless(array.length >= 0, errc::invalid_argument, "length", array.length,
                      " is negative");
  refuse_value_unless(array.offset >= 0, errc::invalid_argument, "offset", array.offset,
                      " is negative");
  const auto size = static_cast<std::int64_t>(size_of(layout.type));
  constexpr auto limit = std::numeric_limits<std::int64_t>::max();
  refuse_value_unless(array.length <= limit / size, errc::invalid_argument, "length", array.length,
                      " elements overflow the size in bytes");
  refuse_value_unless(array.offset <= limit / size - array.length, errc::invalid_argument, "offset",
                      array.offset, " elements overflow the size in bytes");
  refuse_value_unless(array.n_buffers == 2, errc::invalid_argument, "n_buffers", array.n_buffers,
                      " is invalid; must be 2");
  refuse_unless(array.buffers != nullptr, errc::invalid_argument, "buffers", "must not be null");
  refuse_value_unless(array.null_count >= -1 && array.null_count <= array.length,
                      errc::invalid_argument, "null_count", array.null_count,
                      " is out of range; must be from -1 to the length");
  refuse_value_unless(array.null_count <= 0, errc::unsupported, "null_count", array.null_count,
                      " is not supported; nulls are not allowed");
  refuse_unless(array.null_count == 0 || array.buffers[0] == nullptr, errc::unsupported,
                "null_count", "unknown (-1), but the array has a validity buffer");

  layout.bytes = static_cast<std::size_t>(array.length * size);
  const auto base = reinterpret_cast<std::uintptr_t>(array.buffers[1]);
  if (base == 0) {
    refuse_unless(array.length == 0, errc::invalid_argument, "buffers[1]", "must not be null");
    return layout;
  }
  const auto offset = static_cast<std::uint64_t>(array.offset * size);
  const auto end_of_addresses = std::numeric_limits<std::uintptr_t>::max();
  refuse_unless(
      offset <= end_of_addresses - base && layout.bytes <= end_of_addresses - base - offset,
      errc::invalid_argument, "offset", "the end of the array exceeds the address space");
  if (array.length != 0) {
    detail::require_aligned(base, offset, layout.type, "buffers[1]", "offset");
  }
  // The runtime tracks the block as read-only, so the cast is safe.
  layout.address = static_cast<std::byte*>(const_cast<void*>(array.buffers[1])) + offset;
  return layout;
}

tensor import_arrow(device_runtime& runtime, const ArrowSchema& schema, ArrowDeviceArray* array,
                    const import_options& options) {
  if (array == nullptr) throw error(errc::invalid_argument, "import_arrow: array must not be null");
  const auto layout = layout_of(schema, *array);
  const auto id = runtime.device().id();
  detail::require_device(id, array->device_type, array->device_id, "device_type", "device_id");
  native_event* event = nullptr;
  if (array->sync_event != nullptr) {
    if (id.kind != device_kind::cuda) {
      throw field_error(errc::invalid_argument, "sync_event",
                        "must be null for memory of a host device");
    }
    event = *static_cast<native_event**>(array->sync_event);
    if (event == nullptr)
      throw field_error(errc::invalid_argument, "sync_event", "must not point to a null event");
  }
  auto owner = std::make_unique<imported_array>();
  auto& armed_later = *owner;
  auto block = detail::bring_in(*detail::runtime_core::of(runtime),
                                {.address = layout.address,
                                 .bytes = layout.bytes,
                                 .read_only = true,
                                 .device_type = array->device_type,
                                 .event = event},
                                std::move(owner), options);
  armed_later.arm(array->array);
  // Throws nothing: `layout_of` has checked the same.
  return {std::move(block),
          layout.type,
          {static_cast<std::int64_t>(layout.bytes / size_of(layout.type))}};
}

arrow_array export_arrow(device_runtime& runtime, const tensor& memory,
                         std::optional<foreign_stream> stream) {
  const auto* format = format_of(memory.type());
  if (memory.rank() != 1) {
    throw field_error(errc::unsupported, "shape",
                      std::to_string(memory.rank()) + " dimensions; an Arrow array has one");
  }
  if (!memory.is_contiguous()) {
    throw field_error(errc::unsupported, "strides",
                      "an Arrow array has no gaps and no repetitions");
  }
  const auto id = runtime.device().id();
  auto* owner = new exported_array{
      {nullptr, memory.address()},
      {runtime, memory, stream, access_kind::read, detail::lent_memory::without_stream::event}};
  arrow_array result{};
  result.schema.format = format;
  result.schema.name = "";
  // The schema refers to static data only.
  result.schema.release = [](ArrowSchema* schema) {
    schema->release = nullptr;
  };
  result.array.array.length = static_cast<std::int64_t>(memory.bytes() / size_of(memory.type()));
  result.array.array.n_buffers = static_cast<std::int64_t>(owner->buffers.size());
  result.array.array.buffers = owner->buffers.data();
  result.array.array.private_data = owner;
  result.array.array.release = [](ArrowArray* array) {
    array->release = nullptr;
    delete static_cast<exported_array*>(array->private_data);
  };
  result.array.device_id = id.kind == device_kind::cuda ? id.ordinal : -1;
  result.array.device_type = detail::external_device_type(id);
  result.array.sync_event = owner->loan.event();
  return result;
}

}  // namespace sluice
