// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/green_context.hpp"

#include <new>

namespace sluice::cuda {

#if CUDA_VERSION >= 12040

namespace {

constexpr unsigned first_version = 12040;

template <class Function>
[[nodiscard]] Function* find(const char* name) noexcept {
  return reinterpret_cast<Function*>(find_driver_function(name, first_version));
}

struct green_functions {
  decltype(&::cuDeviceGetDevResource) device_resource =
      find<decltype(::cuDeviceGetDevResource)>("cuDeviceGetDevResource");
  decltype(&::cuDevResourceGenerateDesc) describe =
      find<decltype(::cuDevResourceGenerateDesc)>("cuDevResourceGenerateDesc");
  decltype(&::cuGreenCtxCreate) create = find<decltype(::cuGreenCtxCreate)>("cuGreenCtxCreate");
  decltype(&::cuGreenCtxDestroy) destroy = find<decltype(::cuGreenCtxDestroy)>("cuGreenCtxDestroy");
  decltype(&::cuCtxFromGreenCtx) context = find<decltype(::cuCtxFromGreenCtx)>("cuCtxFromGreenCtx");

  [[nodiscard]] bool complete() const noexcept {
    return device_resource && describe && create && destroy && context;
  }
};

[[nodiscard]] const green_functions& functions() noexcept {
  static const green_functions instance;
  return instance;
}

}  // namespace

std::unique_ptr<green_context> green_context::create(int ordinal) noexcept {
  const auto& f = functions();
  if (!f.complete()) return nullptr;
  CUdevice gpu = 0;
  CUdevResource multiprocessors{};
  CUdevResourceDesc description{};
  CUgreenCtx green = nullptr;
  if (driver().device_get(&gpu, ordinal) != CUDA_SUCCESS ||
      f.device_resource(gpu, &multiprocessors, CU_DEV_RESOURCE_TYPE_SM) != CUDA_SUCCESS ||
      f.describe(&description, &multiprocessors, 1) != CUDA_SUCCESS ||
      f.create(&green, description, gpu, CU_GREEN_CTX_DEFAULT_STREAM) != CUDA_SUCCESS) {
    return nullptr;
  }
  std::unique_ptr<green_context> created(new (std::nothrow) green_context);
  if (created == nullptr) {
    (void)f.destroy(green);
    return nullptr;
  }
  created->green_ = green;
  if (f.context(&created->context_, green) != CUDA_SUCCESS) return nullptr;
  return created;
}

green_context::~green_context() {
  (void)functions().destroy(static_cast<CUgreenCtx>(green_));
}

#else

std::unique_ptr<green_context> green_context::create(int) noexcept {
  return nullptr;
}

green_context::~green_context() = default;

#endif

}  // namespace sluice::cuda
