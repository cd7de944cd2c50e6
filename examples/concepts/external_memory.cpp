// SPDX-License-Identifier: Apache-2.0
#include <sluice/runtime.hpp>

#include <cstdint>
#include <iostream>
#include <vector>

namespace dlpack = sluice::dlpack;

/// Stands for another library: a tensor of four numbers, complete when it is handed over.
struct numbers {
  std::vector<float> values{1, 2, 3, 4};
  std::int64_t shape = 4;
  dlpack::managed_tensor tensor{};
};

dlpack::managed_tensor* produce() {
  auto* product = new numbers;
  product->tensor.tensor.data = product->values.data();
  product->tensor.tensor.device = {dlpack::cpu, 0};
  product->tensor.tensor.ndim = 1;
  product->tensor.tensor.dtype = {dlpack::real, 32, 1};
  product->tensor.tensor.shape = &product->shape;
  product->tensor.manager_ctx = product;
  product->tensor.deleter = [](dlpack::managed_tensor* self) {
    delete static_cast<numbers*>(self->manager_ctx);
  };
  return &product->tensor;
}

int main() {
  sluice::device_runtime runtime{sluice::open_device("host")};
  const auto stream = runtime.create_stream();

  const auto x = sluice::import_dlpack(runtime, produce()).as<float>();
  const auto y = runtime.allocate<float>(x.size(), stream, "y");
  sluice::enqueue_copy(y, stream, x);

  auto* exported = sluice::export_dlpack(runtime, y);  // without a stream: waits for the copy
  std::cout << static_cast<const float*>(exported->tensor.data)[3] << '\n';  // 4
  exported->deleter(exported);
}
