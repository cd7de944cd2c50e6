// SPDX-License-Identifier: Apache-2.0
#include "runtime/interop/external_memory.hpp"

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
constexpr type_entry types[] = {{element_type::u8, {unsigned_integer, 8, 1}},
                                {element_type::i32, {signed_integer, 32, 1}},
                                {element_type::u32, {unsigned_integer, 32, 1}},
                                {element_type::i64, {signed_integer, 64, 1}},
                                {element_type::u64, {unsigned_integer, 64, 1}},
                                {element_type::f32, {real, 32, 1}},
                                {element_type::f64, {real, 64, 1}},
                                {element_type::c64, {complex, 64, 1}},
                                {element_type::c128, {complex, 128, 1}}};

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

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();

/// Checks that no dimension is negative.
/// @throws error `invalid_argument` naming `shape`
void require_extents(std::span<const std::int64_t> shape) {
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] < 0) {
      throw field_error(
          errc::invalid_argument, "shape",
          "dimension " + std::to_string(i) + " is negative (" + std::to_string(shape[i]) + ")");
    }
  }
}

/// Row-major strides without gaps.
/// @throws error `invalid_argument` naming `shape` if a stride overflows
std::vector<std::int64_t> compact_strides(std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t next = 1;
  for (auto i = shape.size(); i-- != 0;) {
    strides[i] = next;
    // An empty dimension leaves no elements, but the other dimensions still have strides.
    const auto extent = shape[i] == 0 ? 1 : shape[i];
    if (next > most / extent) {
      throw field_error(errc::invalid_argument, "shape", "the row-major strides overflow");
    }
    next *= extent;
  }
  return strides;
}

/// The number of elements from the first to the last one in memory.
std::int64_t extent_of(std::span<const std::int64_t> shape, std::span<const std::int64_t> strides) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::int64_t last = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    if (strides[i] < 0) {
      throw field_error(errc::unsupported, "strides",
                        "the stride of dimension " + std::to_string(i) + " is negative (" +
                            std::to_string(strides[i]) + ")");
    }
    if (strides[i] != 0 && shape[i] - 1 > (most - 1 - last) / strides[i]) {
      throw field_error(errc::invalid_argument, "strides", "the extent in memory overflows");
    }
    last += (shape[i] - 1) * strides[i];
  }
  return last + 1;
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
external_tensor import_any(device_runtime& runtime, Tensor* tensor, bool read_only,
                           const import_options& options) {
  auto read = layout_of(tensor->tensor);
  detail::require_device(runtime.device().id(), tensor->tensor.device.type,
                         tensor->tensor.device.id, "device.device_type", "device.device_id");
  auto owner = std::make_unique<imported_tensor<Tensor>>();
  auto& armed_later = *owner;
  auto memory = detail::bring_in(
      *detail::runtime_core::of(runtime),
      {.address = read.address, .bytes = read.bytes, .type = read.type, .read_only = read_only},
      std::move(owner), options);
  armed_later.arm(tensor);
  return {std::move(memory), std::move(read.shape), std::move(read.strides)};
}

/// An exported tensor. Its deleter destroys it.
struct exported_tensor {
  versioned_tensor tensor{};
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  std::optional<detail::lent_memory> lent;
};

}  // namespace

layout layout_of(const tensor& described) {
  const auto dimensions = described.ndim;
  if (dimensions < 0 || dimensions > max_dimensions) {
    throw field_error(errc::invalid_argument, "ndim",
                      std::to_string(dimensions) + " is out of range; must be from 0 to " +
                          std::to_string(max_dimensions));
  }
  layout read;
  read.type = type_of(described.dtype);
  if (dimensions != 0 && described.shape == nullptr) {
    throw field_error(errc::invalid_argument, "shape", "must not be null");
  }
  const auto count = static_cast<std::size_t>(dimensions);
  read.shape.assign(described.shape, described.shape + count);
  require_extents(read.shape);
  if (described.strides != nullptr) {
    read.strides.assign(described.strides, described.strides + count);
  } else {
    read.strides = compact_strides(read.shape);
  }
  const auto extent = static_cast<std::uint64_t>(extent_of(read.shape, read.strides));
  const auto size = size_of(read.type);
  const auto base = reinterpret_cast<std::uintptr_t>(described.data);
  const auto room = static_cast<std::uint64_t>(most) - 1;
  if (extent > room / size) {
    throw field_error(errc::invalid_argument, described.strides != nullptr ? "strides" : "shape",
                      "the size in bytes overflows");
  }
  read.bytes = extent * size;
  if (base == 0) {
    if (extent != 0) throw field_error(errc::invalid_argument, "data", "must not be null");
    return read;
  }
  const auto end_of_addresses = std::numeric_limits<std::uintptr_t>::max();
  if (described.byte_offset > end_of_addresses - base ||
      read.bytes > end_of_addresses - base - described.byte_offset) {
    throw field_error(errc::invalid_argument, "byte_offset",
                      "the end of the tensor exceeds the address space");
  }
  if (extent != 0) {
    detail::require_aligned(base, described.byte_offset, read.type, "data", "byte_offset");
  }
  read.address = static_cast<std::byte*>(described.data) + described.byte_offset;
  return read;
}

}  // namespace dlpack

bool external_tensor::is_contiguous() const noexcept {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return true;
  std::int64_t next = 1;
  bool compact = true;
  for (auto i = shape.size(); i-- != 0;) {
    if (shape[i] == 1) continue;
    compact = compact && strides[i] == next;
    if (compact) next *= shape[i];  // cannot overflow: the extent in memory does not
  }
  return compact;
}

external_tensor import_dlpack(device_runtime& runtime, dlpack::managed_tensor* tensor,
                              const import_options& options) {
  if (tensor == nullptr)
    throw error(errc::invalid_argument, "import_dlpack: tensor must not be null");
  return dlpack::import_any(runtime, tensor, false, options);
}

external_tensor import_dlpack(device_runtime& runtime, dlpack::versioned_tensor* tensor,
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

dlpack::versioned_tensor* export_dlpack(device_runtime& runtime, const column& memory,
                                        const dlpack_export& as) {
  using detail::field_error;
  const auto elements = memory.bytes() / size_of(memory.type());
  auto made = std::make_unique<dlpack::exported_tensor>();
  made->shape = as.shape.value_or(std::vector{static_cast<std::int64_t>(elements)});
  if (made->shape.size() > static_cast<std::size_t>(dlpack::max_dimensions)) {
    throw field_error(errc::invalid_argument, "shape",
                      std::to_string(made->shape.size()) + " dimensions exceed the maximum of " +
                          std::to_string(dlpack::max_dimensions));
  }
  dlpack::require_extents(made->shape);
  if (as.strides.empty()) {
    made->strides = dlpack::compact_strides(made->shape);
  } else if (as.strides.size() == made->shape.size()) {
    made->strides = as.strides;
  } else {
    throw field_error(errc::invalid_argument, "strides",
                      std::to_string(as.strides.size()) + " strides do not match " +
                          std::to_string(made->shape.size()) + " dimensions");
  }
  const auto extent = dlpack::extent_of(made->shape, made->strides);
  if (static_cast<std::uint64_t>(extent) > elements) {
    throw field_error(errc::invalid_argument, as.strides.empty() ? "shape" : "strides",
                      "the tensor spans " + std::to_string(extent) +
                          " elements, but the memory has " + std::to_string(elements));
  }
  const bool read_only = as.read_only || memory.read_only();
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
                             .ndim = static_cast<std::int32_t>(made->shape.size()),
                             .dtype = dlpack::described_type(memory.type()),
                             .shape = made->shape.data(),
                             .strides = made->strides.data(),
                             .byte_offset = 0}};
  return &made.release()->tensor;
}

}  // namespace sluice
