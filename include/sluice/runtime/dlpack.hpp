// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/external_memory.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

/// The structures of DLPack (https://dmlc.github.io/dlpack/latest/c_api.html), declared from its
/// specification: they have the layout of `DLTensor`, `DLManagedTensor` and
/// `DLManagedTensorVersioned`, so a pointer of the one kind is a `reinterpret_cast` away from the
/// other. sluice needs no header of DLPack's.
namespace sluice::dlpack {

/// `DLDeviceType`: the devices that sluice accepts.
enum device_type : std::int32_t { cpu = 1, cuda = 2, cuda_host = 3, cuda_managed = 13 };
/// `DLDataTypeCode`: the kinds of numbers that sluice accepts.
enum type_code : std::uint8_t { signed_integer = 0, unsigned_integer = 1, real = 2, complex = 5 };

/// `DLDevice`.
struct device {
  /// As in the specification.
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

/// `DLManagedTensor`, of DLPack before 1.0.
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

/// Flag of a tensor that must not be written.
inline constexpr std::uint64_t read_only_flag = 1;
/// Flag of a tensor whose producer copied the memory for this export.
inline constexpr std::uint64_t is_copied_flag = 2;

/// `DLManagedTensorVersioned`, of DLPack 1.x.
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

/// The most dimensions that a tensor may have.
inline constexpr std::int32_t most_dimensions = 64;

/// What a tensor's descriptor says, checked.
struct layout {
  void* address = nullptr;  ///< of the first element; may be null where there is none
  std::size_t bytes = 0;    ///< from the first element to the end of the last one in memory
  element_type type = element_type::u8;  ///< type of each element
  std::vector<std::int64_t> shape;       ///< number of elements in each dimension
  std::vector<std::int64_t> strides;  ///< in elements, as many as `shape`; those of dimensions of
                                      ///< one element mean nothing
};

/// Reads a descriptor that may hold anything, except that `shape`, and `strides` unless they are
/// null, must have `ndim` elements. Touches no memory of the tensor's.
/// @throws error naming the field: `invalid_argument` (`ndim` negative or above `most_dimensions`;
///   `shape` null or negative; an extent that overflows; `data` null or not aligned to the
///   element's size, with or without `byte_offset`); `unsupported` (`dtype` of no `element_type`;
///   negative `strides` between
///   elements)
[[nodiscard]] layout layout_of(const tensor& described);

}  // namespace sluice::dlpack

namespace sluice {

/// A tensor that came in.
struct external_tensor {
  /// The bytes from the first element to the end of the last one; for a tensor that is not
  /// contiguous with all that lies between. `memory.type()`, `read_only()`, `as<T>()`.
  column memory;
  std::vector<std::int64_t> shape;    ///< number of elements in each dimension
  std::vector<std::int64_t> strides;  ///< in elements

  /// Whether the elements lie in row-major order without gaps, so that `memory` is the tensor.
  [[nodiscard]] bool is_contiguous() const noexcept;
};

/// Takes a tensor in, which must be on the device of `runtime`: `kDLCUDA` with the same number or
/// `kDLCUDAManaged` on a GPU, `kDLCPU` or `kDLCUDAHost` on a host device. See `import_options` for
/// its order and for memory that comes in twice; neither form waits for anything.
///
/// On success the tensor is the runtime's: its deleter, if it has one, is called exactly once, on
/// the reclaim thread, when the last reference has gone and the recorded uses have completed, at
/// the latest at the end of the runtime (then references are stale); also after the loss of the
/// device, when nothing runs on it any more. An external column keeps it as long as it has copies,
/// beyond the runtime. On a refusal nothing was taken: the tensor is still the caller's.
/// @throws error as `dlpack::layout_of`; naming the field: `invalid_argument` (`device`; a `stream`
///   of another GPU or that is being captured, or a default stream of CUDA's on a host device),
///   `unsupported` (`version.major` other than 1); `shutting_down`, `device_lost`, `out_of_memory`
[[nodiscard]] external_tensor import_dlpack(device_runtime& runtime, dlpack::managed_tensor* tensor,
                                            const import_options& options = {});
/// The same for DLPack 1.x. A tensor with the flag `read_only_flag` is not to be written: recording
/// that is refused.
[[nodiscard]] external_tensor import_dlpack(device_runtime& runtime,
                                            dlpack::versioned_tensor* tensor,
                                            const import_options& options = {});

/// What an exported tensor looks like, and who gets it.
struct dlpack_export {
  /// None: one dimension of all elements. Empty: one element without dimensions.
  std::optional<std::vector<std::int64_t>> shape{};
  /// In elements, one for each dimension and none negative. Empty: compact, row-major.
  std::vector<std::int64_t> strides{};
  /// Where the consumer uses the memory. It must exist until the deleter is called; if it is being
  /// captured into a graph then, until the capture has ended and `runtime_statistics::exports` no
  /// longer counts this one. (Nothing says so of a runtime that has gone by then: the stream must
  /// exist as long as the process.)
  std::optional<foreign_stream> stream{};
  /// The consumer may only read. Always so for a read-only import.
  bool read_only = false;
};

/// Hands `memory`, which has a runtime identity, out as a tensor of DLPack 1.0. Its memory stays
/// until the consumer calls the deleter, once, on any thread, whoever else lets go of the block
/// and also when the runtime has gone.
///
/// With a stream nothing waits here: the stream is made to wait for the last write (and, unless
/// `read_only`, for the last reads), and the deleter makes later uses of the block wait for what is
/// queued on the stream then. **Without a stream the calling thread waits** for those uses to
/// complete, and the consumer must have finished when it calls the deleter. In between the runtime
/// knows nothing of what the consumer does: launches that write the memory, or use what the
/// consumer writes, must not be made until the deleter has been called.
///
/// The default stream of a thread (2) is that of the caller; what the deleter waits for then is the
/// legacy default stream, which waits for it.
///
/// A stream that is being captured into a graph is refused. If it is captured when the deleter is
/// called, nobody can say what was queued on it before, and to wait for it would end the capture:
/// the deleter returns, the memory stays, and until the capture has ended every use of the block is
/// refused with `stream_misuse`. Then (within milliseconds) later uses come after what the stream
/// had queued, as always. What was captured is not queued: whoever launches the graph keeps the
/// memory that it uses.
/// @throws error `stream_misuse` (no identity; memory that is not tracked), `invalid_argument`
///   naming `shape` or `strides` (negative, outside of `memory`), `stream` (as `import_dlpack`) or
///   of another runtime, `stale_ref`, `upstream_failed`, `shutting_down`, `device_lost`,
///   `library_failure`, `out_of_memory`
[[nodiscard]] dlpack::versioned_tensor* export_dlpack(device_runtime& runtime, const column& memory,
                                                      const dlpack_export& as = {});

}  // namespace sluice
