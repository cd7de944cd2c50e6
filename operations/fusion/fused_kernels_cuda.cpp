// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/reduce_functions.hpp"
#include "operations/fusion/fused_kernel.hpp"
#include "operations/fusion/fused_kernels.hpp"
#include "operations/fusion/kernel_builder_cuda.hpp"
#include "operations/fusion/kernel_source.hpp"
#include "runtime/cuda/check.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/error.hpp>

#include <cuda_runtime.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

namespace sluice::cuda {
namespace {

/// The kernels of the process, which devices load when they are first used. They stay.
class loaded_codes {
 public:
  [[nodiscard]] static loaded_codes& instance() {
    static auto* const codes = new loaded_codes();
    return *codes;
  }
  cudaKernel_t kernel_in(const std::shared_ptr<const kernel_code>& code) {
    const std::lock_guard lock(mutex_);
    auto& entry = kernels_[code.get()];
    if (entry.kernel == nullptr) {
      cudaLibrary_t library = nullptr;
      check(cudaLibraryLoadData(&library, code->bytes().data(), nullptr, nullptr, 0, nullptr,
                                nullptr, 0));
      cudaKernel_t kernel = nullptr;
      const auto status = cudaLibraryGetKernel(&kernel, library, "sluice_fused");
      if (status != cudaSuccess) {
        (void)cudaLibraryUnload(library);
        check(status);
      }
      entry = {code, kernel};
    }
    return entry.kernel;
  }

 private:
  struct loaded {
    std::shared_ptr<const kernel_code> code{};
    cudaKernel_t kernel = nullptr;
  };
  std::mutex mutex_;
  std::map<const kernel_code*, loaded> kernels_;
};

class generated_kernel final : public fused_kernel {
 public:
  generated_kernel(lane_libraries& libraries, std::shared_ptr<const operations::fused_map> map)
      : map_(std::move(map)) {
    (void)libraries.get<kernel_client>();
    if (map_->reduced) prepare_reduce(libraries);
    source_ = operations::source_of(*map_);
    code_ = code_of(source_.text, libraries.runtime().device().info().compute_capability);
    source_.text = {};
  }
  std::size_t bytes() const noexcept override { return sizeof(*this) + map_->host_bytes(); }
  bool is_settled() const noexcept override {
    return code_->progress() != kernel_code::state::pending;
  }
  void load(lane_libraries& libraries) override {
    if (code_->progress() == kernel_code::state::refused) {
      throw error(errc::unsupported, code_->refusal());
    }
    const current_device_scope current(libraries.runtime().device());
    kernel_ = loaded_codes::instance().kernel_in(code_);
    cudaFuncAttributes attributes;
    check(cudaFuncGetAttributes(&attributes, function()));
  }
  void enqueue(lane_libraries& libraries, std::span<void* const> addresses,
               void* workspace) const override {
    auto argument = operations::argument_of(*map_, source_, addresses, workspace);
    void* arguments[] = {argument.words.data()};
    {
      const current_device_scope current(libraries.runtime().device());
      check(cudaLaunchKernel(function(), dim3(static_cast<unsigned>(source_.blocks)),
                             dim3(operations::fused_threads), arguments, 0,
                             reinterpret_cast<cudaStream_t>(libraries.stream().native())));
    }
    if (map_->commands() == 1) return;
    enqueue_reduced_parts(libraries, map_->reduced->call, workspace, addresses[0]);
  }

 private:
  [[nodiscard]] const void* function() const noexcept {
    return reinterpret_cast<const void*>(kernel_);
  }

  std::shared_ptr<const operations::fused_map> map_;
  operations::kernel_source source_;  // without its text
  std::shared_ptr<const kernel_code> code_;
  cudaKernel_t kernel_ = nullptr;
};

}  // namespace

std::shared_ptr<fused_kernel> kernel_of(lane_libraries& libraries,
                                        std::shared_ptr<const operations::fused_map> map) {
  return std::make_shared<generated_kernel>(libraries, std::move(map));
}

}  // namespace sluice::cuda
