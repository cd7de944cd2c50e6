// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/check.hpp"
#include "tools/sluice/bench/by_hand_on_gpu.hpp"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <array>
#include <memory>
#include <optional>
#include <vector>

namespace sluice::cli {
namespace {

/// Makes a device the current one of the thread.
class current_device {
 public:
  explicit current_device(device& used) : device_(used), before_(used.enter()) {}
  current_device(const current_device&) = delete;
  current_device& operator=(const current_device&) = delete;
  ~current_device() { device_.leave(before_); }

 private:
  device& device_;
  void* before_;
};

void check_cublas(cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw error(errc::library_failure, cublasGetStatusString(status),
              {"cuBLAS", static_cast<long>(status)});
}

/// Owns a handle that `Destroy` destroys, with the device of the handle as the current one.
template <class Handle, auto Destroy>
class owned {
 public:
  /// `make(&handle)` makes the handle.
  template <class Make>
  owned(device& used, const Make& make) : device_(used) {
    const current_device scope(device_);
    make(&handle_);
  }
  owned(const owned&) = delete;
  owned& operator=(const owned&) = delete;
  ~owned() {
    const current_device scope(device_);
    (void)Destroy(handle_);
  }
  [[nodiscard]] Handle get() const { return handle_; }

 private:
  device& device_;
  Handle handle_ = nullptr;
};
using owned_blas = owned<cublasHandle_t, cublasDestroy>;
using owned_event = owned<cudaEvent_t, cudaEventDestroy>;
using owned_stream = owned<cudaStream_t, cudaStreamDestroy>;
using owned_graph = owned<cudaGraph_t, cudaGraphDestroy>;
using owned_executable = owned<cudaGraphExec_t, cudaGraphExecDestroy>;

/// Batches of equal products on a stream of their own.
class pointer_batches {
 public:
  pointer_batches(device_runtime& runtime, const std::vector<sgemm>& products)
      : device_(runtime.device()),
        products_(products),
        stream_(runtime.create_stream()),
        uploaded_(runtime.allocate_bytes(table_bytes, stream_.ref())),
        blas_(device_, [&](cublasHandle_t* handle) {
          check_cublas(cublasCreate(handle));
          check_cublas(cublasSetStream(*handle, native()));
          check_cublas(cublasSetMathMode(*handle, CUBLAS_DEFAULT_MATH));
          check_cublas(cublasSetAtomicsMode(*handle, CUBLAS_ATOMICS_NOT_ALLOWED));
        }) {
    for (auto& table : tables_) table.emplace(device_);
  }

  void run(std::size_t size, std::int64_t count) {
    const current_device scope(device_);
    const auto batches = (static_cast<std::size_t>(count) + size - 1) / size;
    for (std::size_t batch = 0; batch < batches; ++batch) {
      launch(*tables_[batch % tables_.size()], batch * size, size);
    }
    stream_.synchronize();
  }

 private:
  static constexpr std::size_t most = 256;
  static constexpr std::size_t table_bytes = 3 * most * sizeof(void*);

  /// Pinned memory for the addresses of a batch.
  struct pointer_table {
    explicit pointer_table(device& used)
        : pointers(static_cast<void**>(used.allocate_staging(table_bytes)),
                   [&used](void** memory) { used.deallocate_staging(memory); }),
          copied(used, [](cudaEvent_t* event) {
            cuda::check(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
          }) {}
    std::shared_ptr<void*> pointers;
    owned_event copied;
  };

  [[nodiscard]] cudaStream_t native() const {
    return reinterpret_cast<cudaStream_t>(stream_.ref().native());
  }
  void launch(const pointer_table& table, std::size_t first, std::size_t size) {
    cuda::check(cudaEventSynchronize(table.copied.get()));
    void** const pointers = table.pointers.get();
    for (std::size_t i = 0; i < size; ++i) {
      const auto& product = products_[(first + i) % products_.size()];
      pointers[i] = product.a.data();
      pointers[size + i] = product.b.data();
      pointers[2 * size + i] = product.c.data();
    }
    auto** const uploaded = static_cast<float**>(uploaded_.address());
    cuda::check(cudaMemcpyAsync(uploaded, pointers, 3 * size * sizeof(void*),
                                cudaMemcpyHostToDevice, native()));
    cuda::check(cudaEventRecord(table.copied.get(), native()));
    // cuBLAS takes matrices in column-major order: C' = B' A'.
    const auto& p = products_.front();
    const auto m = static_cast<int>(p.m);
    const auto n = static_cast<int>(p.n);
    const auto k = static_cast<int>(p.k);
    const float alpha = 1;
    const float beta = 0;
    check_cublas(cublasSgemmBatched(blas_.get(), CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &alpha,
                                    uploaded + size, n, uploaded, k, &beta, uploaded + 2 * size, n,
                                    static_cast<int>(size)));
  }

  device& device_;
  const std::vector<sgemm>& products_;
  stream stream_;
  block_ref uploaded_;
  owned_blas blas_;
  std::array<std::optional<pointer_table>, 64> tables_;
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
                 capture(graph);
               }),
        executable_(device_, [&](cudaGraphExec_t* executable) {
          cuda::check(cudaGraphInstantiate(executable, graph_.get(), 0));
          cuda::check(cudaGraphUpload(*executable, stream_.get()));
          cuda::check(cudaStreamSynchronize(stream_.get()));
        }) {}

  void launch_and_wait() {
    const current_device scope(device_);
    cuda::check(cudaGraphLaunch(executable_.get(), stream_.get()));
    cuda::check(cudaStreamSynchronize(stream_.get()));
  }

 private:
  void capture(cudaGraph_t* graph) {
    cuda::check(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeRelaxed));
    std::optional<error> failure;
    try {
      calls_.call();
    } catch (const error& e) {
      failure = e;
    }
    const auto status = cudaStreamEndCapture(stream_.get(), graph);
    if (failure) throw error(*failure);
    cuda::check(status);
  }

  device& device_;
  owned_stream stream_;
  plain_calls calls_;
  owned_graph graph_;
  owned_executable executable_;
};

}  // namespace

batches_by_hand make_batches_by_hand(device_runtime& runtime, const std::vector<sgemm>& products) {
  if (runtime.device().id().kind == device_kind::host) return nullptr;
  return [made = std::make_shared<pointer_batches>(runtime, products)](std::size_t size,
                                                                       std::int64_t count) {
    made->run(size, count);
  };
}

graph_by_hand make_graph_by_hand(device_runtime& runtime,
                                 const std::function<void(plain_calls&)>& add) {
  if (runtime.device().id().kind == device_kind::host) return nullptr;
  return [made = std::make_shared<graph_of_calls>(runtime, add)] {
    made->launch_and_wait();
  };
}

}  // namespace sluice::cli
