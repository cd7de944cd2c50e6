// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/runtime/interop/external_memory_test.hpp"

#include <sluice/runtime/dlpack.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice::test {

/// A tensor of another program over `words` of its memory. `Tensor` selects the generation of
/// DLPack.
template <class Tensor>
class producer_tensor {
 public:
  explicit producer_tensor(gpu_ref<std::uint32_t> memory)
      : memory_(std::move(memory)), shape_{static_cast<std::int64_t>(memory_.size())} {
    tensor_.tensor = {
        .data = memory_.data(),
        .device = {memory_.device().kind == device_kind::cuda ? dlpack::cuda : dlpack::cpu,
                   memory_.device().ordinal},
        .ndim = 1,
        .dtype = {dlpack::unsigned_integer, 32, 1},
        .shape = shape_.data(),
        .strides = nullptr,
        .byte_offset = 0};
    tensor_.manager_ctx = this;
    tensor_.deleter = [](Tensor* self) {
      static_cast<producer_tensor*>(self->manager_ctx)->back.note();
    };
    if constexpr (std::is_same_v<Tensor, dlpack::versioned_tensor>) tensor_.version = {1, 1};
  }
  ~producer_tensor() {
    if (ends_when_back) back.wait();
    EXPECT_LE(back.times.load(), 1);
  }

  [[nodiscard]] Tensor* get() noexcept { return &tensor_; }
  [[nodiscard]] const gpu_ref<std::uint32_t>& memory() const noexcept { return memory_; }

  returned back;
  /// Makes the destructor wait until the import has returned.
  bool ends_when_back = false;

 private:
  gpu_ref<std::uint32_t> memory_;
  std::vector<std::int64_t> shape_;
  Tensor tensor_{};
};
using old_tensor = producer_tensor<dlpack::managed_tensor>;
using new_tensor = producer_tensor<dlpack::versioned_tensor>;

/// Tests of DLPack tensors that pass between the runtime and another program.
///
/// The tests are in several files; dlpack_import_test.cpp instantiates all of them.
class dlpack_on : public external_memory_test {
 protected:
  /// Calls `check` with a tensor of each generation.
  template <class Check>
  void with_both(Check check) {
    {
      old_tensor tensor(words(100));
      check(tensor);
    }
    await_imports(0);
    {
      new_tensor tensor(words(100));
      check(tensor);
    }
    expect_nothing_is_out();
  }
};

}  // namespace sluice::test
