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
  data_type descriptor;
};
constexpr type_entry types[] = {{element_type::boolean, {boolean, 8, 1}},
                                {element_type::u8, {unsigned_integer, 8, 1}},
                                {element_type::i8, {signed_integer, 8, 1}},
                                {element_type::u16, {unsigned_integer, 16, 1}},
                                {element_type::i16, {signed_integer, 16, 1}},
                                {element_type::i32, {signed_integer, 32, 1}},
                                {element_type::u32, {unsigned_integer, 32, 1}},
                                {element_type::i64, {signed_integer, 64, 1}},
                                {element_type::u64, {unsigned_integer, 64, 1}},
                                {element_type::e4m3, {float8_e4m3fn, 8, 1}},
                                {element_type::e5m2, {float8_e5m2, 8, 1}},
                                {element_type::f16, {real, 16, 1}},
                                {element_type::bf16, {bfloat, 16, 1}},
                                {element_type::f32, {real, 32, 1}},
                                {element_type::f64, {real, 64, 1}},
                                {element_type::c64, {complex, 64, 1}},
                                {element_type::c128, {complex, 128, 1}}};

element_type type_of(data_type descriptor) {
  if (descriptor.lanes != 1) {
    throw field_error(errc::unsupported, "dtype.lanes",
                      std::to_string(descriptor.lanes) + " lanes are not supported; must be 1");
  }
  bool code_known = false;
  for (const auto& entry : types) {
    if (entry.descriptor.code != descriptor.code) continue;
    if (entry.descriptor.bits == descriptor.bits) return entry.type;
    code_known = true;
  }
  if (!code_known) {
    throw field_error(errc::unsupported, "dtype.code",
                      "code " + std::to_string(descriptor.code) + " is not supported");
  }
  throw field_error(errc::unsupported, "dtype.bits",
                    std::to_string(descriptor.bits) + " bits are not supported for code " +
                        std::to_string(descriptor.code));
}

data_type described_type(element_type type) noexcept {
  for (const auto& entry : types) {
    if (entry.type == type) return entry.descriptor;
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
  std::int64_t total = size;  // bytes of all elements, repeated ones included
  std::int64_t last = size;   // bytes to the end of the last element
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const bool meaningful = !empty && shape[i] != 1;
    if (strides[i] < 0 && meaningful) {
      throw field_error(errc::unsupported, "strides",
                        "the stride of dimension " + std::to_string(i) + " is negative (" +
                            std::to_string(strides[i]) + ")");
    }
    strides[i] = std::max<std::int64_t>(strides[i], 0);
    if (!meaningful) continue;
    if (__builtin_mul_overflow(total, shape[i], &total)) {
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
  const auto source = layout_of(tensor->tensor);
  const auto device_type = tensor->tensor.device.type;
  detail::require_device(runtime.device().id(), device_type, tensor->tensor.device.id,
                         "device.device_type", "device.device_id");
  auto owner = std::make_unique<imported_tensor<Tensor>>();
  auto& armed_later = *owner;
  auto block = detail::bring_in(*detail::runtime_core::of(runtime),
                                {.address = source.address,
                                 .bytes = source.bytes,
                                 .read_only = read_only,
                                 .device_type = device_type},
                                std::move(owner), options);
  armed_later.arm(tensor);
  // Throws nothing: `layout_of` has checked the same.
  return {std::move(block), source.type, source.shape, source.strides};
}

/// An exported tensor. Its deleter destroys it.
struct exported_tensor {
  versioned_tensor tensor{};
  extents shape;
  extents strides;
  std::optional<detail::lent_memory> loan;
};

}  // namespace

layout layout_of(const tensor& source) {
  const auto dimensions = source.ndim;
  if (dimensions < 0) {
    throw field_error(errc::invalid_argument, "ndim", std::to_string(dimensions) + " is negative");
  }
  if (dimensions > static_cast<std::int32_t>(extents::max_rank)) {
    throw field_error(errc::unsupported, "ndim",
                      std::to_string(dimensions) + " dimensions are not supported; at most " +
                          std::to_string(extents::max_rank));
  }
  layout result;
  result.type = type_of(source.dtype);
  if (dimensions != 0 && source.shape == nullptr) {
    throw field_error(errc::invalid_argument, "shape", "must not be null");
  }
  const auto count = static_cast<std::size_t>(dimensions);
  result.shape = extents(std::span<const std::int64_t>(source.shape, count));
  require_extents(result.shape);
  result.strides = source.strides != nullptr
                       ? extents(std::span<const std::int64_t>(source.strides, count))
                       : detail::row_major_strides(result.shape);
  result.bytes = checked_bytes(result.shape, result.strides, result.type);
  const auto base = reinterpret_cast<std::uintptr_t>(source.data);
  if (base == 0) {
    if (result.bytes != 0) throw field_error(errc::invalid_argument, "data", "must not be null");
    return result;
  }
  const auto end_of_addresses = std::numeric_limits<std::uintptr_t>::max();
  if (source.byte_offset > end_of_addresses - base ||
      result.bytes > end_of_addresses - base - source.byte_offset) {
    throw field_error(errc::invalid_argument, "byte_offset",
                      "the end of the tensor exceeds the address space");
  }
  if (result.bytes != 0) {
    detail::require_aligned(base, source.byte_offset, result.type, "data", "byte_offset");
  }
  result.address = static_cast<std::byte*>(source.data) + source.byte_offset;
  return result;
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
                                        const dlpack_export& options) {
  auto owner = std::make_unique<dlpack::exported_tensor>();
  owner->shape = memory.shape();
  owner->strides = memory.strides();
  const bool read_only = options.read_only || memory.block().read_only();
  owner->loan.emplace(runtime, memory, options.stream,
                      read_only ? access_kind::read : access_kind::read_write,
                      detail::lent_memory::without_stream::wait);
  const auto id = runtime.device().id();
  // 1.1 has added the codes of numbers of 8 bits.
  const auto minor = dlpack::described_type(memory.type()).code > dlpack::boolean ? 1U : 0U;
  owner->tensor = {.version = {1, minor},
                   .manager_ctx = owner.get(),
                   .deleter =
                       [](dlpack::versioned_tensor* tensor) {
                         delete static_cast<dlpack::exported_tensor*>(tensor->manager_ctx);
                       },
                   .flags = read_only ? dlpack::read_only_flag : 0,
                   .tensor = {.data = memory.address(),
                              .device = {detail::external_device_type(id),
                                         id.kind == device_kind::cuda ? id.ordinal : 0},
                              .ndim = static_cast<std::int32_t>(memory.rank()),
                              .dtype = dlpack::described_type(memory.type()),
                              .shape = owner->shape.data(),
                              .strides = owner->strides.data(),
                              .byte_offset = 0}};
  return &owner.release()->tensor;
}

}  // namespace sluice
