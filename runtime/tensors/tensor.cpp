// SPDX-License-Identifier: Apache-2.0
#include <sluice/runtime/tensor.hpp>

#include <cstdint>

namespace sluice {

tensor::tensor(block_ref block, element_type type, const extents& shape)
    : tensor(std::move(block), tensor_layout(type, shape)) {}

tensor::tensor(block_ref block, element_type type, const extents& shape, const extents& strides,
               std::size_t offset)
    : tensor(std::move(block), tensor_layout(type, shape, strides, offset)) {}

tensor::tensor(block_ref block, const tensor_layout& layout)
    : block_(std::move(block)), layout_(layout) {
  check();
}

void tensor::check() const {
  if (!block_) throw invalid_argument("block", "must not be empty");
  if (offset() > block_.bytes()) {
    throw invalid_argument("offset", std::to_string(offset()) + " exceeds the block of " +
                                         std::to_string(block_.bytes()) + " bytes");
  }
  const auto range = extent();
  if (range.first == range.last) return;
  if (range.last > block_.bytes()) {
    throw invalid_argument(
        "shape", to_string(shape()) + " with strides " + to_string(strides()) + " exceeds the " +
                     std::to_string(block_.bytes() - offset()) + " bytes from the offset");
  }
  if ((reinterpret_cast<std::uintptr_t>(address()) & (size_of(type()) - 1)) != 0) {
    throw invalid_argument("offset", "the first element is not aligned to its size, " +
                                         std::to_string(size_of(type())) + " bytes");
  }
}

tensor tensor::reinterpret(element_type type) const {
  auto other = view(layout_.reinterpret(type));
  if (block_) other.check();
  return other;
}

void tensor::require_flat(element_type type) const {
  if (this->type() != type) {
    throw invalid_argument("tensor::as", "the elements are " +
                                             std::string(to_string(this->type())) + ", not " +
                                             std::string(to_string(type)));
  }
  if (!is_contiguous()) {
    throw error(errc::unsupported, "tensor::as: shape " + to_string(shape()) + " with strides " +
                                       to_string(strides()) + " is not contiguous");
  }
}

}  // namespace sluice
