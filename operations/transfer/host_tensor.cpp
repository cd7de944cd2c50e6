// SPDX-License-Identifier: Apache-2.0
#include "operations/core/counted.hpp"
#include "operations/core/enumerators.hpp"
#include "operations/elementwise/layouts.hpp"
#include "operations/elementwise/map_calls.hpp"
#include "operations/elementwise/map_functions.hpp"
#include "operations/transfer/fixed_elements.hpp"

#include <sluice/operations/host_tensor.hpp>
#include <sluice/operations/tensor_spec.hpp>
#include <sluice/runtime/device_runtime.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <new>

namespace sluice {
namespace {

// The alignment of new elements: that of memory of a device, so that a host device computes with
// constants where they are.
constexpr std::align_val_t alignment{tensor_spec::max_alignment};

/// Frees the memory of elements, and knows whether they will be written.
class element_memory {
 public:
  element_memory() noexcept = default;
  element_memory(const element_memory&) noexcept {}
  element_memory& operator=(const element_memory&) = delete;
  ~element_memory() = default;

  void operator()(void* elements) const noexcept { ::operator delete(elements, alignment); }
  void fix() noexcept { is_fixed_.store(true, std::memory_order_relaxed); }
  [[nodiscard]] bool is_fixed() const noexcept { return is_fixed_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> is_fixed_{false};
};

[[noreturn]] void refuse_count(const extents& shape, std::size_t count) {
  throw error(errc::invalid_argument, "shape: " + to_string(shape) + " does not have " +
                                          operations::counted(count, "element"));
}

}  // namespace

host_tensor::host_tensor(element_type type, const extents& shape)
    : type_(type), shape_(shape), size_(tensor_spec::row_major(type, shape).size()) {
  data_ = {::operator new(bytes(), alignment), element_memory()};
}

host_tensor::host_tensor(element_type type, const extents& shape, std::size_t count,
                         std::shared_ptr<void> data)
    : type_(type), shape_(shape), size_(count), data_(std::move(data)) {
  if (tensor_spec::row_major(type, shape).size() != count) {
    refuse_count(shape, count);
  }
  // The elements of an empty vector have no address.
  if (data_ == nullptr) data_ = std::make_shared<char>();
}

host_tensor host_tensor::pinned(device_runtime& runtime, element_type type, const extents& shape) {
  const auto spec = tensor_spec::row_major(type, shape);
  return {type, shape, spec.size(), runtime.allocate_pinned(spec.bytes())};
}

host_tensor host_tensor::external(std::shared_ptr<void> elements, element_type type,
                                  const extents& shape) {
  const auto size = tensor_spec::row_major(type, shape).size();
  if (elements == nullptr) throw invalid_argument("elements", "is null");
  const auto alignment = std::min<std::size_t>(size_of(type), alignof(double));
  if (reinterpret_cast<std::uintptr_t>(elements.get()) % alignment != 0) {
    throw invalid_argument("elements",
                           "is not a multiple of " + std::to_string(alignment) + " bytes");
  }
  return {type, shape, size, std::move(elements)};
}

host_tensor host_tensor::first(std::int64_t count) const {
  if (shape_.size() == 0) throw invalid_argument("count", "the tensor has no dimension");
  auto shape = shape_;
  if (count < 0 || count > shape[0]) {
    throw invalid_argument(
        "count", "is " + std::to_string(count) + ", but the shape is " + to_string(shape_));
  }
  const auto size =
      count == 0 ? 0 : size_ / static_cast<std::size_t>(shape[0]) * static_cast<std::size_t>(count);
  shape[0] = count;
  return {type_, shape, size, data_};
}

namespace detail {

void fixed_elements::fix(const host_tensor& elements) noexcept {
  const auto memory = elements.data();
  if (auto* const owner = std::get_deleter<element_memory>(memory)) owner->fix();
}

bool fixed_elements::are_fixed(const host_tensor& elements) noexcept {
  const auto memory = elements.data();
  const auto* const owner = std::get_deleter<element_memory>(memory);
  return owner != nullptr && owner->is_fixed();
}

}  // namespace detail

host_tensor::host_tensor(const std::vector<bool>& values, const extents& shape)
    : host_tensor(element_type::boolean, shape) {
  if (values.size() != size_) refuse_count(shape, values.size());
  std::copy(values.begin(), values.end(), static_cast<bool*>(data_.get()));
}
host_tensor::host_tensor(const std::vector<bool>& values)
    : host_tensor(values, {static_cast<std::int64_t>(values.size())}) {}

host_tensor host_tensor::to(element_type type) const {
  operations::require_type("type", type);
  if (type == type_ || !*this) return *this;
  if (operations::is_complex(type_) && !operations::is_complex(type) &&
      type != element_type::boolean) {
    throw invalid_argument("type",
                           "is " + std::string(to_string(type)) + ", but the elements are complex");
  }
  host_tensor result(type, shape_);
  if (size_ == 0) return result;
  const auto strides = tensor_spec::row_major(type, shape_).strides;
  const operations::cast_call call{
      operations::make_layout<2>(shape_, {strides, strides}, {type, type_})};
  host::compute_map(call, {result.data_.get(), {data_.get()}});
  return result;
}

void host_tensor::require_type(element_type type) const {
  if (type == type_) return;
  throw invalid_argument("values", "are of type " + std::string(to_string(type_)) +
                                       ", but are read as " + std::string(to_string(type)));
}

}  // namespace sluice
