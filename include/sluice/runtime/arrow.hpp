// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/external_memory.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

// The structures of Arrow's C data interface and C device data interface
// (https://arrow.apache.org/docs/format/CDeviceDataInterface.html). The guards are those of the
// specification, so a program may include another header that declares the same structures.

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

extern "C" {

/// `ArrowSchema`: a type.
struct ArrowSchema {
  /// As in the specification.
  ///@{
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema** children;
  struct ArrowSchema* dictionary;
  void (*release)(struct ArrowSchema*);
  void* private_data;
  ///@}
};

/// `ArrowArray`: an array.
struct ArrowArray {
  /// As in the specification.
  ///@{
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  struct ArrowArray** children;
  struct ArrowArray* dictionary;
  void (*release)(struct ArrowArray*);
  void* private_data;
  ///@}
};
}

#endif  // ARROW_C_DATA_INTERFACE

#ifndef ARROW_C_DEVICE_DATA_INTERFACE
#define ARROW_C_DEVICE_DATA_INTERFACE

typedef int32_t ArrowDeviceType;

#define ARROW_DEVICE_CPU 1
#define ARROW_DEVICE_CUDA 2
#define ARROW_DEVICE_CUDA_HOST 3
#define ARROW_DEVICE_OPENCL 4
#define ARROW_DEVICE_VULKAN 7
#define ARROW_DEVICE_METAL 8
#define ARROW_DEVICE_VPI 9
#define ARROW_DEVICE_ROCM 10
#define ARROW_DEVICE_ROCM_HOST 11
#define ARROW_DEVICE_EXT_DEV 12
#define ARROW_DEVICE_CUDA_MANAGED 13
#define ARROW_DEVICE_ONEAPI 14
#define ARROW_DEVICE_WEBGPU 15
#define ARROW_DEVICE_HEXAGON 16

extern "C" {

/// `ArrowDeviceArray`: an array on a device.
struct ArrowDeviceArray {
  /// As in the specification.
  ///@{
  struct ArrowArray array;
  int64_t device_id;
  ArrowDeviceType device_type;
  void* sync_event;
  int64_t reserved[3];
  ///@}
};
}

#endif  // ARROW_C_DEVICE_DATA_INTERFACE

static_assert(sizeof(ArrowSchema) == 72 && sizeof(ArrowArray) == 80);
static_assert(sizeof(ArrowDeviceArray) == 128 && offsetof(ArrowDeviceArray, device_id) == 80 &&
              offsetof(ArrowDeviceArray, device_type) == 88 &&
              offsetof(ArrowDeviceArray, sync_event) == 96);

namespace sluice {

/// The checked contents of the descriptors of a primitive array without nulls.
struct arrow_layout {
  void* address = nullptr;  ///< address of the first element; may be null if there is none
  std::size_t bytes = 0;    ///< size of all elements, in bytes
  element_type type = element_type::u8;  ///< type of each element
};

/// Reads and checks the descriptors of a primitive array without nulls.
///
/// The descriptors may hold arbitrary values, with two exceptions: `format` is null or ends with a
/// zero byte, and `buffers` is null or has `n_buffers` elements. The function does not access the
/// memory of the array.
///
/// Each error names the refused field.
/// @throws error `invalid_argument` if `release` of the schema or of the array is null: it has been
///   released or moved
/// @throws error `invalid_argument` if `format` or `buffers` is null
/// @throws error `invalid_argument` if `length`, `offset` or `null_count` is out of range
/// @throws error `invalid_argument` if `n_buffers` is not 2
/// @throws error `invalid_argument` if the data buffer of a non-empty array is null, or if its
///   first element is not aligned to the size of an element
/// @throws error `unsupported` if `format` is none of C, c, S, s, i, I, l, L, e, f and g
/// @throws error `unsupported` if there are nulls, or if `null_count` is unknown and there is a
///   validity buffer
/// @throws error `unsupported` if `n_children`, `dictionary` or `reserved` is not zero
[[nodiscard]] SLUICE_EXPORT arrow_layout layout_of(const ArrowSchema& schema,
                                                   const ArrowDeviceArray& array);

/// Imports an array of primitive elements without nulls as a read-only tensor of one dimension.
///
///     const tensor x = import_arrow(runtime, schema, &array);
///     recorder.read(x);
///
/// The array must be on the device of `runtime`. The memory is read-only because Arrow's data is
/// immutable. If the array has a `sync_event` (on a GPU a `cudaEvent_t*`), the first use waits for
/// the event. `options` states any further order; see `import_options`. The function does
/// not wait for the producer.
///
/// On success the runtime owns the array: `array->array.release` is null, and the runtime calls the
/// array's former `release` exactly once. It does so under the conditions that `import_dlpack`
/// states for a deleter. On failure the array still belongs to the caller. `schema` is only read
/// and still belongs to the caller.
///
/// Errors about a field name it.
/// @throws error the errors of `layout_of`
/// @throws error `invalid_argument` if `array` is null
/// @throws error `invalid_argument` naming `stream` if the import has no order
/// @throws error `invalid_argument` if `device_type` or `device_id` is not the device of `runtime`
/// @throws error `invalid_argument` if there is a `sync_event` on a host device, or it points to a
///   null event
/// @throws error `invalid_argument` if `sync_event` was recorded in a stream capture; the query may
///   end that capture with an error
/// @throws error `invalid_argument` if `options.stream` is refused, as in `import_dlpack`
/// @throws error `shutting_down` if the runtime is shutting down
/// @throws error `device_lost` if the device is lost
/// @throws error `library_failure` if a driver call failed
/// @throws error `out_of_memory` if the device has no memory for a stream or an event
/// @throws std::bad_alloc if the host has no memory
[[nodiscard]] SLUICE_EXPORT tensor import_arrow(device_runtime& runtime, const ArrowSchema& schema,
                                                ArrowDeviceArray* array,
                                                const import_options& options = {});

/// An exported array and its type. The holder must release both or move them on.
struct arrow_array {
  ArrowSchema schema;      ///< the type
  ArrowDeviceArray array;  ///< the array
};

/// Exports `memory` as a read-only Arrow array, without a copy.
///
/// The memory stays allocated until the array is released. `stream`
/// has the meaning of `dlpack_export::stream`, also for a stream that is captured later.
///
/// On a GPU the array has a `sync_event` that stands for all work up to the last write. Without a
/// stream nothing waits, but the consumer must have finished its work before it releases the array.
/// On a host device **the calling thread waits** for the last write if there is no stream.
///
/// @throws error the errors of `export_dlpack`
/// @throws error `unsupported` naming `format` if Arrow has no primitive type of the elements
///   (`boolean`, `e4m3`, `e5m2`, `bf16`, complex ones)
/// @throws error `unsupported` naming `shape` if `memory` has not one dimension
/// @throws error `unsupported` naming `strides` if the elements have gaps or repeat
[[nodiscard]] SLUICE_EXPORT arrow_array
export_arrow(device_runtime& runtime, const tensor& memory,
             std::optional<foreign_stream> stream = std::nullopt);

}  // namespace sluice
