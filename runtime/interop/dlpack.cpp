// SPDX-License-Identifier: Apache-2.0
#include "runtime/interop/external_memory.hpp"
#include "runtime/tensors/row_major.hpp"

#include <sluice/runtime/dlpack.hpp>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace sluice {
namespace dlpack {
namespace {

using detail::field_error;

struct type_entry {
  element_type type;
  data_type described;
};
constexpr type_entry types[] = {
    {element_type::boolean, {boolean, 8, 1}},     {element_type::u8, {unsigned_integer, 8, 1}},
    {element_type::i8, {signed_integer, 8, 1}},   {element_type::u16, {unsigned_integer, 16, 1}},
    {element_type::i32, {signed_integer, 32, 1}}, {element_type::u32, {unsigned_integer, 32, 1}},
    {element_type::i64, {signed_integer, 64, 1}}, {element_type::u64, {unsigned_integer, 64, 1}},
    {element_type::f16, {real, 16, 1}},           {element_type::bf16, {bfloat, 16, 1}},
    {element_type::f32, {real, 32, 1}},           {element_type::f64, {real, 64, 1}},
    {element_type::c64, {complex, 64, 1}},        {element_type::c128, {complex, 128, 1}}};

element_type type_of(data_type described) {
  if (described.lanes != 1) {
    throw field_error(errc::unsupported, "dtype.lanes",
                      std::to_string(described.lanes) + " lanes are not supported; must be 1");
  }
  bool code_known = false;
  for (const auto& entry : types) {
    if (entry.described.code != described.code) continue;
    if (entry.described.bits == described.bits) return entry.type;
    code_known = true;
  }
  if (!code_known) {
    throw field_error(errc::unsupported, "dtype.code",
                      "code " + std::to_string(described.code) + " is not supported");
  }
  throw field_error(errc::unsupported, "dtype.bits",
                    std::to_string(described.bits) + " bits are not supported for code " +
                        std::to_string(described.code));
}

data_type described_type(element_type type) noexcept {
  for (const auto& entry : types) {
    if (entry.type == type) return entry.described;
  }
  return {};
}

/// Checks that no dimension is negative.
/// @throws error naming `shape`
void require_extents(const extents& shape) {
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] < 0) {
      throw field_error(
          errc::invalid_argument, "shape",
          "dimension " + std::to_string(i) + " is negative (" + std::to_string(shape[i]) + ")");
    }
  }
}

/// Checks sizes and strides, and replaces negative strides that have no meaning. Returns the bytes
/// from the first element to the end of the last one.
/// @throws error naming `shape` or `strides`
std::size_t checked_bytes(const extents& shape, extents& strides, element_type type) {
  const auto size = static_cast<std::int64_t>(size_of(type));
  const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  std::int64_t all = size;   // bytes of all elements, repeated ones included
  std::int64_t last = size;  // bytes to the end of the last element
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const bool meaningful = !empty && shape[i] != 1;
    if (strides[i] < 0 && meaningful) {
      throw field_error(errc::unsupported, "strides",
                        "the stride of dimension " + std::to_string(i) + " is negative (" +
                            std::to_string(strides[i]) + ")");
    }
    strides[i] = std::max<std::int64_t>(strides[i], 0);
    if (!meaningful) continue;
    if (__builtin_mul_overflow(all, shape[i], &all)) {
      throw field_error(errc::invalid_argument, "shape", "the size in bytes overflows");
    }
    std::int64_t part = 0;
    if (__builtin_mul_overflow(shape[i] - 1, strides[i], &part) ||
        __builtin_mul_overflow(part, size, &part) || __builtin_add_overflow(last, part, &last)) {
      throw field_error(errc::invalid_argument, "strides", "the extent in memory overflows");
    }
  }
  return empty ? 0 : static_cast<std::size_t>(last);
}

/// Returns an imported tensor to its producer.
template <class Tensor>
class imported_tensor final : public detail::foreign_memory {
 public:
  ~imported_tensor() override {
    if (deleter_ != nullptr) deleter_(tensor_);
  }
  /// Takes over the tensor. A tensor without a deleter is not accessed again.
  void arm(Tensor* tensor) noexcept {
    tensor_ = tensor;
    deleter_ = tensor->deleter;
  }

 private:
  Tensor* tensor_ = nullptr;
  void (*deleter_)(Tensor*) = nullptr;
};

template <class Tensor>
sluice::tensor import_any(device_runtime& runtime, Tensor* tensor, bool read_only,
                          const import_options& options) {
  const auto read = layout_of(tensor->tensor);
  const auto device_type = tensor->tensor.device.type;
  detail::require_device(runtime.device().id(), device_type, tensor->tensor.device.id,
                         "device.device_type", "device.device_id");
  auto owner = std::make_unique<imported_tensor<Tensor>>();
  auto& armed_later = *owner;
  auto block = detail::bring_in(*detail::runtime_core::of(runtime),
                                {.address = read.address,
                                 .bytes = read.bytes,
                                 .read_only = read_only,
                                 .device_type = device_type},
                                std::move(owner), options);
  armed_later.arm(tensor);
  // Throws nothing: `layout_of` has checked the same.
  return {std::move(block), read.type, read.shape, read.strides};
}

/// An exported tensor. Its deleter destroys it.
struct exported_tensor {
  versioned_tensor tensor{};
  extents shape;
  extents strides;
  std::optional<detail::lent_memory> lent;
};

}  // namespace

layout layout_of(const tensor& described) {
  const auto dimensions = described.ndim;
  if (dimensions < 0) {
    throw field_error(errc::invalid_argument, "ndim", std::to_string(dimensions) + " is negative");
  }
  if (dimensions > static_cast<std::int32_t>(extents::max_rank)) {
    throw field_error(errc::unsupported, "ndim",
                      std::to_string(dimensions) + " dimensions are not supported; at most " +
                          std::to_string(extents::max_rank));
  }
  layout read;
  read.type = type_of(described.dtype);
  if (dimensions != 0 && described.shape == nullptr) {
    throw field_error(errc::invalid_argument, "shape", "must not be null");
  }
  const auto count = static_cast<std::size_t>(dimensions);
  read.shape = extents(std::span<const std::int64_t>(described.shape, count));
  require_extents(read.shape);
  read.strides = described.strides != nullptr
                     ? extents(std::span<const std::int64_t>(described.strides, count))
                     : detail::row_major_strides(read.shape);
  read.bytes = checked_bytes(read.shape, read.strides, read.type);
  const auto base = reinterpret_cast<std::uintptr_t>(described.data);
  if (base == 0) {
    if (read.bytes != 0) throw field_error(errc::invalid_argument, "data", "must not be null");
    return read;
  }
  const auto end_of_addresses = std::numeric_limits<std::uintptr_t>::max();
  if (described.byte_offset > end_of_addresses - base ||
      read.bytes > end_of_addresses - base - described.byte_offset) {
    throw field_error(errc::invalid_argument, "byte_offset",
                      "the end of the tensor exceeds the address space");
  }
  if (read.bytes != 0) {
    detail::require_aligned(base, described.byte_offset, read.type, "data", "byte_offset");
  }
  read.address = static_cast<std::byte*>(described.data) + described.byte_offset;
  return read;
}

}  // namespace dlpack

tensor import_dlpack(device_runtime& runtime, dlpack::managed_tensor* tensor,
                     const import_options& options) {
  if (tensor == nullptr)
    throw error(errc::invalid_argument, "import_dlpack: tensor must not be null");
  return dlpack::import_any(runtime, tensor, false, options);
}

tensor import_dlpack(device_runtime& runtime, dlpack::versioned_tensor* tensor,
                     const import_options& options) {
  if (tensor == nullptr)
    throw error(errc::invalid_argument, "import_dlpack: tensor must not be null");
  if (tensor->version.major != 1) {
    throw detail::field_error(
        errc::unsupported, "version.major",
        std::to_string(tensor->version.major) + " is not supported; must be 1");
  }
  return dlpack::import_any(runtime, tensor, (tensor->flags & dlpack::read_only_flag) != 0,
                            options);
}

dlpack::versioned_tensor* export_dlpack(device_runtime& runtime, const tensor& memory,
                                        const dlpack_export& as) {
  auto made = std::make_unique<dlpack::exported_tensor>();
  made->shape = memory.shape();
  made->strides = memory.strides();
  const bool read_only = as.read_only || memory.block().read_only();
  made->lent.emplace(runtime, memory, as.stream,
                     read_only ? access_kind::read : access_kind::read_write,
                     detail::lent_memory::without_stream::wait);
  const auto id = runtime.device().id();
  made->tensor = {.version = {1, 0},
                  .manager_ctx = made.get(),
                  .deleter =
                      [](dlpack::versioned_tensor* self) {
                        delete static_cast<dlpack::exported_tensor*>(self->manager_ctx);
                      },
                  .flags = read_only ? dlpack::read_only_flag : 0,
                  .tensor = {.data = memory.address(),
                             .device = {detail::external_device_type(id),
                                        id.kind == device_kind::cuda ? id.ordinal : 0},
                             .ndim = static_cast<std::int32_t>(memory.rank()),
                             .dtype = dlpack::described_type(memory.type()),
                             .shape = made->shape.data(),
                             .strides = made->strides.data(),
                             .byte_offset = 0}};
  return &made.release()->tensor;
}

}  // namespace sluice
