// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/external_memory.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>

// The structures of Arrow's C data interface and C device data interface, declared from the
// specification (https://arrow.apache.org/docs/format/CDeviceDataInterface.html) under the guards
// that it names, so that they are those of any other header that a program includes.

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

extern "C" {

/// A type, as in the specification.
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

/// An array, as in the specification.
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

/// An array on a device, as in the specification.
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

/// What the descriptors of a primitive array without nulls say, checked.
struct arrow_layout {
  void* address = nullptr;               ///< of the first element; may be null where there is none
  std::size_t bytes = 0;                 ///< size of all elements
  element_type type = element_type::u8;  ///< type of each element
};

/// Reads descriptors that may hold anything, except that `format` must end and `buffers`, unless it
/// is null, must have `n_buffers` elements. Touches no memory of the array's.
/// @throws error naming the field: `invalid_argument` (`release` is null: released or moved from;
///   `length`, `offset` or `null_count` out of range; `n_buffers`, `buffers`; a data buffer that is
///   null or not aligned to the element's size); `unsupported` (a `format` other than C, i, I, l,
///   L, f and g; nulls, or a validity buffer with an unknown `null_count`; `n_children`,
///   `dictionary`; `reserved` not 0)
[[nodiscard]] arrow_layout layout_of(const ArrowSchema& schema, const ArrowDeviceArray& array);

/// Takes an array of primitive elements without nulls in, which must be on the device of `runtime`,
/// as a column that is read-only: the interface makes its data immutable. An array with a
/// `sync_event` (on a GPU a `cudaEvent_t*`) is adopted, behind it; for the rest see
/// `import_options`. Does not wait.
///
/// On success the array has been moved: `array->array.release` is null, and what it was is called
/// exactly once, as the deleter of `import_dlpack`. On a refusal nothing was taken. `schema` is
/// read only and stays the caller's.
/// @throws error as `layout_of`; naming the field: `invalid_argument` (`device_type`, `device_id`,
///   a `sync_event` on a host device or of a stream capture, which may not survive being asked for;
///   `stream` as `import_dlpack`); `shutting_down`, `device_lost`, `library_failure`,
///   `out_of_memory`
[[nodiscard]] column import_arrow(device_runtime& runtime, const ArrowSchema& schema,
                                  ArrowDeviceArray* array, const import_options& options = {});

/// An array and its type. Each is the holder's, to be moved on or released.
struct arrow_array {
  ArrowSchema schema;      ///< the type
  ArrowDeviceArray array;  ///< the array
};

/// Hands `memory`, which has a runtime identity, out as an array, for reading only. Its memory
/// stays until the array is released, as with `export_dlpack`, and `stream` orders it as there,
/// also while it is being captured. On a GPU the array has a `sync_event`, which comes after the
/// last write: without a stream nothing waits here, but the consumer must have finished when it
/// releases the array. On a host device, **without a stream the calling thread waits** for the last
/// write.
/// @throws error as `export_dlpack`; `unsupported` for complex elements
[[nodiscard]] arrow_array export_arrow(device_runtime& runtime, const column& memory,
                                       std::optional<foreign_stream> stream = std::nullopt);

}  // namespace sluice
