// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/external_memory.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

/// The structures of DLPack (https://dmlc.github.io/dlpack/latest/c_api.html), declared from its
/// specification.
///
/// They have the layout of `DLTensor`, `DLManagedTensor` and `DLManagedTensorVersioned`. A
/// `reinterpret_cast` converts a pointer to one kind into a pointer to the other. sluice needs no
/// header of DLPack.
namespace sluice::dlpack {

/// `DLDeviceType`: the types of devices that sluice accepts.
enum device_type : std::int32_t { cpu = 1, cuda = 2, cuda_host = 3, cuda_managed = 13 };
/// `DLDataTypeCode`: the kinds of numbers that sluice accepts.
enum type_code : std::uint8_t {
  signed_integer = 0,
  unsigned_integer = 1,
  real = 2,
  bfloat = 4,
  complex = 5,
  boolean = 6,
  float8_e4m3fn = 10,
  float8_e5m2 = 12
};

/// `DLDevice`.
struct device {
  /// `device_type` and `device_id` of the specification.
  ///@{
  std::int32_t type;
  std::int32_t id;
  ///@}
};

/// `DLDataType`.
struct data_type {
  /// As in the specification.
  ///@{
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
  ///@}
};

/// `DLTensor`.
struct tensor {
  /// As in the specification.
  ///@{
  void* data;
  dlpack::device device;
  std::int32_t ndim;
  data_type dtype;
  std::int64_t* shape;
  ///@}
  std::int64_t* strides;  ///< in elements; null: compact, row-major
  /// As in the specification: bytes from `data` to the first element.
  std::uint64_t byte_offset;
};

/// `DLManagedTensor` of DLPack before 1.0.
struct managed_tensor {
  /// As in the specification.
  ///@{
  dlpack::tensor tensor;
  void* manager_ctx;
  void (*deleter)(managed_tensor* self);
  ///@}
};

/// `DLPackVersion`.
struct version {
  /// As in the specification.
  ///@{
  std::uint32_t major;
  std::uint32_t minor;
  ///@}
};

/// Flag: the tensor must not be written.
inline constexpr std::uint64_t read_only_flag = 1;
/// Flag: the producer copied the memory for this export.
inline constexpr std::uint64_t is_copied_flag = 2;

/// `DLManagedTensorVersioned` of DLPack 1.x.
struct versioned_tensor {
  /// As in the specification.
  ///@{
  dlpack::version version;
  void* manager_ctx;
  void (*deleter)(versioned_tensor* self);
  std::uint64_t flags;
  dlpack::tensor tensor;
  ///@}
};

static_assert(sizeof(void*) == 8);
static_assert(sizeof(device) == 8 && sizeof(data_type) == 4 && sizeof(tensor) == 48);
static_assert(offsetof(tensor, device) == 8 && offsetof(tensor, ndim) == 16 &&
              offsetof(tensor, dtype) == 20 && offsetof(tensor, shape) == 24 &&
              offsetof(tensor, strides) == 32 && offsetof(tensor, byte_offset) == 40);
static_assert(sizeof(managed_tensor) == 64 && offsetof(managed_tensor, manager_ctx) == 48 &&
              offsetof(managed_tensor, deleter) == 56);
static_assert(sizeof(versioned_tensor) == 80 && offsetof(versioned_tensor, manager_ctx) == 8 &&
              offsetof(versioned_tensor, deleter) == 16 &&
              offsetof(versioned_tensor, flags) == 24 && offsetof(versioned_tensor, tensor) == 32);

/// The checked contents of a tensor's descriptor.
struct layout {
  void* address = nullptr;  ///< address of the first element; may be null if there is none
  std::size_t bytes = 0;    ///< bytes from the first element to the end of the last one in memory
  element_type type = element_type::u8;  ///< type of each element
  extents shape;                         ///< number of elements in each dimension
  extents strides;                       ///< in elements, as many as `shape`; the stride of a
                                         ///< dimension with one element has no meaning
};

/// Reads and checks the descriptor of a tensor.
///
/// The descriptor may hold arbitrary values, with one exception: `shape` and `strides` are null or
/// have `ndim` elements. The function does not access the memory of the tensor.
///
/// Each error names the refused field.
/// @throws error `invalid_argument` if `ndim` is negative
/// @throws error `invalid_argument` if `shape` is null or has a negative element
/// @throws error `invalid_argument` if the number of elements or the extent in memory overflows
/// @throws error `invalid_argument` if `data` of a non-empty tensor is null
/// @throws error `invalid_argument` if the first element is not aligned to the size of an element
/// @throws error `unsupported` if there are more than 8 dimensions
/// @throws error `unsupported` if `dtype` is no `element_type`
/// @throws error `unsupported` if a stride between elements is negative
[[nodiscard]] SLUICE_EXPORT layout layout_of(const tensor& source);

}  // namespace sluice::dlpack

namespace sluice {

/// Imports a tensor, without a copy.
///
///     const tensor x = import_dlpack(runtime, producers, {.stream = producer});
///
/// The tensor must be on the device of `runtime`. A GPU accepts `kDLCUDA` with its number, and
/// `kDLCUDAManaged`. A host device accepts `kDLCPU` and `kDLCUDAHost`. `options` states the order
/// of the import; see `import_options`. The function does not wait for the producer. The result
/// has the producer's shape and strides.
///
/// On success the tensor belongs to the runtime. The reclaim thread calls its deleter, if it has
/// one, exactly once: after the block has been freed and its recorded uses have completed. At the
/// latest, this happens at the end of the runtime, which makes references stale. If the device is
/// lost, it happens once no work of the runtime runs on the device.
///
/// On failure the tensor still belongs to the caller. docs/concepts/external_memory.md explains the
/// order.
///
/// Errors about a field name it.
/// @throws error the errors of `dlpack::layout_of`
/// @throws error `invalid_argument` if `tensor` is null
/// @throws error `invalid_argument` naming `stream` if the import has no order
/// @throws error `invalid_argument` if `device` is not the device of `runtime`
/// @throws error `invalid_argument` if `options.stream` belongs to another GPU or is being captured
/// @throws error `invalid_argument` if `options.stream` is a default stream of CUDA and the runtime
///   is on a host device
/// @throws error `unsupported` if `version.major` is not 1
/// @throws error `shutting_down` if the runtime is shutting down
/// @throws error `device_lost` if the device is lost
/// @throws error `library_failure` if a driver call failed
/// @throws error `out_of_memory` if the device has no memory for a stream or an event
/// @throws std::bad_alloc if the host has no memory
[[nodiscard]] SLUICE_EXPORT tensor import_dlpack(device_runtime& runtime,
                                                 dlpack::managed_tensor* tensor,
                                                 const import_options& options = {});
/// Imports a tensor of DLPack 1.x. Every write of a tensor with `read_only_flag` is rejected.
[[nodiscard]] SLUICE_EXPORT tensor import_dlpack(device_runtime& runtime,
                                                 dlpack::versioned_tensor* tensor,
                                                 const import_options& options = {});

/// The consumer of an exported tensor.
struct dlpack_export {
  /// The stream on which the consumer uses the memory. None: see `export_dlpack`.
  ///
  /// The stream must exist until the deleter has been called. If it is being captured into a graph
  /// at that time, it must exist until the capture has ended and `runtime_statistics::exports` no
  /// longer counts the export. If the runtime has ended by then, it must exist until the process
  /// ends.
  std::optional<foreign_stream> stream{};
  /// The consumer may only read. Always true for a read-only import.
  bool read_only = false;
};

/// Exports `memory` as a tensor of DLPack 1.0 with its shape and strides, without a copy.
///
///     auto* exported = export_dlpack(runtime, x, {.stream = consumer});
///     // ... the consumer uses the tensor on its stream ...
///     exported->deleter(exported);
///
/// The memory stays allocated until the consumer calls the deleter,
/// also if all references are dropped or the runtime ends. The consumer calls the deleter exactly
/// once, on any thread.
///
/// With a stream the call does not wait. The stream waits for the last write, and unless
/// `read_only` for the last reads. The deleter makes later uses of the block wait for the work that
/// is queued on the stream at that time. The default stream of a thread (2) is that of the calling
/// thread. The deleter then follows the legacy default stream instead, which waits for it.
///
/// **Without a stream the calling thread waits** for the same uses. The consumer must have finished
/// its work before it calls the deleter.
///
/// Between export and deleter the runtime does not know the consumer's work. Launches that write
/// the memory, or use memory that the consumer writes, must not be made in that time.
///
/// A stream that is being captured into a graph is refused. If the stream is being captured when
/// the deleter is called, the deleter returns and the memory stays allocated. Every use of the
/// block then throws `stream_misuse` until the capture has ended. Within milliseconds after that,
/// later uses are ordered after the work that the stream had queued. Captured work is not queued:
/// the program that launches the graph must keep its memory alive. docs/concepts/external_memory.md
/// gives the reasons.
///
/// @throws error `invalid_argument` if `memory` has no block
/// @throws error `stream_misuse` if `memory` cannot be tracked
/// @throws error `invalid_argument` if the stream is refused, as in `import_dlpack`
/// @throws error `invalid_argument` if `memory` belongs to another runtime
/// @throws error `stale_ref` if the memory has been freed
/// @throws error `upstream_failed` if the launch that wrote the memory has failed
/// @throws error `shutting_down` if the runtime is shutting down
/// @throws error `device_lost` if the device is lost
/// @throws error `library_failure` if a driver call failed
/// @throws error `out_of_memory` if the device has no memory for a stream or an event
/// @throws std::bad_alloc if the host has no memory
[[nodiscard]] SLUICE_EXPORT dlpack::versioned_tensor* export_dlpack(
    device_runtime& runtime, const tensor& memory, const dlpack_export& options = {});

}  // namespace sluice
