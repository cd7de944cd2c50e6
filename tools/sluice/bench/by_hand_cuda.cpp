// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/check.hpp"
#include "tools/sluice/bench/by_hand_on_gpu.hpp"

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <array>
#include <chrono>

namespace sluice::cli {
namespace {

void check_cublas(cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw error(errc::library_failure, cublasGetStatusString(status),
              {"cuBLAS", static_cast<long>(status)});
}

/// Owns a handle that `Destroy` destroys, with the device of the handle as the current one.
template <class Handle, auto Destroy>
class owned {
 public:
  /// `create(&handle)` creates the handle.
  template <class Create>
  owned(device& owner, const Create& create) : device_(owner) {
    const current_device_scope scope(device_);
    create(&handle_);
  }
  owned(const owned&) = delete;
  owned& operator=(const owned&) = delete;
  ~owned() {
    const current_device_scope scope(device_);
    (void)Destroy(handle_);
  }
  [[nodiscard]] Handle get() const { return handle_; }

 private:
  device& device_;
  Handle handle_ = nullptr;
};

/// Batches of equal products on a stream of their own.
class pointer_batches {
 public:
  pointer_batches(device_runtime& runtime, const std::vector<sgemm>& products)
      : device_(runtime.device()),
        products_(products),
        stream_(runtime.create_stream()),
        pointers_(static_cast<void**>(device_.allocate_staging(ring * table_bytes)),
                  [&device = device_](void** memory) { device.deallocate_staging(memory); }),
        device_pointers_(runtime.allocate_bytes(table_bytes, stream_.ref())),
        blas_(device_, [&](cublasHandle_t* handle) {
          check_cublas(cublasCreate(handle));
          check_cublas(cublasSetStream(*handle, native()));
          check_cublas(cublasSetMathMode(*handle, CUBLAS_DEFAULT_MATH));
          check_cublas(cublasSetAtomicsMode(*handle, CUBLAS_ATOMICS_NOT_ALLOWED));
        }) {}

  void run(std::size_t size, std::int64_t count) {
    const current_device_scope scope(device_);
    const auto batches = (static_cast<std::size_t>(count) + size - 1) / size;
    for (std::size_t batch = 0; batch < batches; ++batch) {
      if (batch % ring == 0) stream_.synchronize();
      launch(pointers_.get() + batch % ring * table_size, batch * size, size);
    }
    stream_.synchronize();
  }

 private:
  static constexpr std::size_t ring = 256;  // tables in pinned memory
  static constexpr std::size_t table_size = std::size_t{3} * 256;
  static constexpr std::size_t table_bytes = table_size * sizeof(void*);

  [[nodiscard]] cudaStream_t native() const {
    return reinterpret_cast<cudaStream_t>(stream_.ref().native());
  }
  void launch(void** pointers, std::size_t first, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) {
      const auto& product = products_[(first + i) % products_.size()];
      pointers[i] = product.a.data();
      pointers[size + i] = product.b.data();
      pointers[2 * size + i] = product.c.data();
    }
    auto** const operands = static_cast<float**>(device_pointers_.address());
    cuda::check(cudaMemcpyAsync(operands, pointers, 3 * size * sizeof(void*),
                                cudaMemcpyHostToDevice, native()));
    // cuBLAS takes matrices in column-major order: C' = B' A'.
    const auto m = static_cast<int>(products_.front().m);
    const auto n = static_cast<int>(products_.front().n);
    const auto k = static_cast<int>(products_.front().k);
    const float alpha = 1;
    const float beta = 0;
    check_cublas(cublasSgemmBatched(blas_.get(), CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &alpha,
                                    operands + size, n, operands, k, &beta, operands + 2 * size, n,
                                    static_cast<int>(size)));
  }

  device& device_;
  const std::vector<sgemm>& products_;
  stream stream_;
  std::shared_ptr<void*> pointers_;
  block_ref device_pointers_;
  owned<cublasHandle_t, cublasDestroy> blas_;
};

/// Equal products on a stream of their own.
class lt_products {
 public:
  lt_products(device_runtime& runtime, const tensor& a, const tensor& b, const tensor& c)
      : device_(runtime.device()),
        a_(a),
        b_(b),
        c_(c),
        stream_(runtime.create_stream()),
        workspace_(runtime.allocate_bytes(workspace_bytes, stream_.ref())),
        blas_(device_, [](cublasLtHandle_t* handle) { check_cublas(cublasLtCreate(handle)); }) {
    const current_device_scope scope(device_);
    const auto type = a.type() == element_type::f32   ? CUDA_R_32F
                      : a.type() == element_type::f16 ? CUDA_R_16F
                                                      : CUDA_R_16BF;
    const auto size = a.shape()[0];
    check_cublas(cublasLtMatmulDescInit(
        &product_, type == CUDA_R_32F ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
        CUDA_R_32F));
    check_cublas(cublasLtMatrixLayoutInit(&matrix_, type, static_cast<std::uint64_t>(size),
                                          static_cast<std::uint64_t>(size), size));
    choose_fastest();
  }

  void run(std::int64_t count) {
    const current_device_scope scope(device_);
    for (std::int64_t i = 0; i < count; ++i) multiply(algorithm_);
    stream_.synchronize();
  }

 private:
  static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;

  void multiply(const cublasLtMatmulAlgo_t& algorithm) {
    const float alpha = 1;
    const float beta = 0;
    // cuBLAS takes matrices in column-major order: C' = B' A'.
    check_cublas(cublasLtMatmul(blas_.get(), &product_, &alpha, b_.address(), &matrix_,
                                a_.address(), &matrix_, &beta, c_.address(), &matrix_, c_.address(),
                                &matrix_, &algorithm, workspace_.address(), workspace_bytes,
                                reinterpret_cast<cudaStream_t>(stream_.ref().native())));
  }
  void choose_fastest() {
    cublasLtMatmulPreferenceOpaque_t preference{};
    check_cublas(cublasLtMatmulPreferenceInit(&preference));
    check_cublas(cublasLtMatmulPreferenceSetAttribute(&preference,
                                                      CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                      &workspace_bytes, sizeof workspace_bytes));
    std::array<cublasLtMatmulHeuristicResult_t, 8> found{};
    int count = 0;
    check_cublas(cublasLtMatmulAlgoGetHeuristic(
        blas_.get(), &product_, &matrix_, &matrix_, &matrix_, &matrix_, &preference,
        static_cast<int>(found.size()), found.data(), &count));
    auto least = std::chrono::steady_clock::duration::max();
    for (int i = 0; i < count; ++i) {
      const auto& candidate = found[static_cast<std::size_t>(i)].algo;
      const auto time = time_of(candidate);
      if (time >= least) continue;
      least = time;
      algorithm_ = candidate;
    }
  }
  [[nodiscard]] std::chrono::steady_clock::duration time_of(const cublasLtMatmulAlgo_t& algorithm) {
    constexpr int calls = 10;
    multiply(algorithm);
    stream_.synchronize();
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) multiply(algorithm);
    stream_.synchronize();
    return std::chrono::steady_clock::now() - begin;
  }

  device& device_;
  const tensor a_, b_, c_;
  stream stream_;
  block_ref workspace_;
  owned<cublasLtHandle_t, cublasLtDestroy> blas_;
  cublasLtMatmulDescOpaque_t product_{};
  cublasLtMatrixLayoutOpaque_t matrix_{};
  cublasLtMatmulAlgo_t algorithm_{};
};

/// The calls of a stream as one graph, which is instantiated once. The runtime has adopted the
/// stream, because its own streams must not be captured.
class graph_of_calls {
 public:
  graph_of_calls(device_runtime& runtime, const std::function<void(plain_calls&)>& add)
      : device_(runtime.device()),
        stream_(device_,
                [](cudaStream_t* stream) {
                  cuda::check(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
                }),
        calls_(runtime, runtime.adopt_stream(reinterpret_cast<native_stream*>(stream_.get()))),
        graph_(device_,
               [&](cudaGraph_t* graph) {
                 add(calls_);
                 calls_.run(1);  // loads the kernels
                 cuda::check(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeRelaxed));
                 calls_.call();
                 cuda::check(cudaStreamEndCapture(stream_.get(), graph));
               }),
        executable_(device_, [&](cudaGraphExec_t* executable) {
          cuda::check(cudaGraphInstantiate(executable, graph_.get(), 0));
          cuda::check(cudaGraphUpload(*executable, stream_.get()));
          cuda::check(cudaStreamSynchronize(stream_.get()));
        }) {}

  void launch_and_wait() {
    const current_device_scope scope(device_);
    cuda::check(cudaGraphLaunch(executable_.get(), stream_.get()));
    cuda::check(cudaStreamSynchronize(stream_.get()));
  }

 private:
  device& device_;
  owned<cudaStream_t, cudaStreamDestroy> stream_;
  plain_calls calls_;
  owned<cudaGraph_t, cudaGraphDestroy> graph_;
  owned<cudaGraphExec_t, cudaGraphExecDestroy> executable_;
};

}  // namespace

batches_by_hand make_batches_by_hand(device_runtime& runtime, const std::vector<sgemm>& products) {
  if (runtime.device().id().kind == device_kind::host) return nullptr;
  const auto batches = std::make_shared<pointer_batches>(runtime, products);
  return [batches](std::size_t size, std::int64_t count) {
    batches->run(size, count);
  };
}

products_by_hand make_products_by_hand(device_runtime& runtime, const tensor& a, const tensor& b,
                                       const tensor& c) {
  if (runtime.device().id().kind == device_kind::host) return nullptr;
  const auto products = std::make_shared<lt_products>(runtime, a, b, c);
  return [products](std::int64_t count) {
    products->run(count);
  };
}

graph_by_hand make_graph_by_hand(device_runtime& runtime,
                                 const std::function<void(plain_calls&)>& add) {
  if (runtime.device().id().kind == device_kind::host) return nullptr;
  const auto graph = std::make_shared<graph_of_calls>(runtime, add);
  return [graph] {
    graph->launch_and_wait();
  };
}

}  // namespace sluice::cli
