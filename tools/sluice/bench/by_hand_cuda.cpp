// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/check.hpp"
#include "tools/sluice/bench/by_hand_on_gpu.hpp"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>

namespace sluice::cli {
namespace {

/// Makes a device the current one of the thread.
class current_device {
 public:
  explicit current_device(device& of) : device_(of), before_(of.enter()) {}
  current_device(const current_device&) = delete;
  current_device& operator=(const current_device&) = delete;
  ~current_device() { device_.leave(before_); }

 private:
  device& device_;
  void* before_;
};

bool is_host(session& current) {
  return current.device().service().device().id().kind == device_kind::host;
}

void check_cublas(cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw error(errc::library_failure, cublasGetStatusString(status),
              {"cuBLAS", static_cast<long>(status)});
}

/// Batches of equal products on a stream of their own.
class pointer_batches {
 public:
  pointer_batches(session& current, const products& of)
      : runtime_(current.device().service().runtime()),
        of_(of),
        stream_(runtime_.create_stream()),
        uploaded_(runtime_.allocate_bytes(table_bytes, stream_.ref())) {
    const current_device scope(runtime_.device());
    check_cublas(cublasCreate(&handle_));
    check_cublas(cublasSetStream(handle_, native()));
    check_cublas(cublasSetMathMode(handle_, CUBLAS_DEFAULT_MATH));
    check_cublas(cublasSetAtomicsMode(handle_, CUBLAS_ATOMICS_NOT_ALLOWED));
    for (auto& table : tables_) {
      table.pointers = static_cast<void**>(runtime_.device().allocate_staging(table_bytes));
      cuda::check(cudaEventCreateWithFlags(&table.copied, cudaEventDisableTiming));
    }
  }
  pointer_batches(const pointer_batches&) = delete;
  pointer_batches& operator=(const pointer_batches&) = delete;
  ~pointer_batches() {
    const current_device scope(runtime_.device());
    for (auto& table : tables_) {
      (void)cudaEventDestroy(table.copied);
      runtime_.device().deallocate_staging(table.pointers);
    }
    (void)cublasDestroy(handle_);
  }

  void run(std::size_t size, std::int64_t count) {
    const current_device scope(runtime_.device());
    const auto batches = (static_cast<std::size_t>(count) + size - 1) / size;
    for (std::size_t batch = 0; batch < batches; ++batch) {
      launch(tables_[batch % tables_.size()], batch * size, size);
    }
    stream_.synchronize();
  }

 private:
  static constexpr std::size_t most = 256;
  static constexpr std::size_t table_bytes = 3 * most * sizeof(void*);

  struct pointer_table {
    void** pointers = nullptr;  // pinned
    cudaEvent_t copied = nullptr;
  };

  [[nodiscard]] cudaStream_t native() const {
    return reinterpret_cast<cudaStream_t>(stream_.ref().native());
  }
  void launch(const pointer_table& table, std::size_t first, std::size_t size) {
    cuda::check(cudaEventSynchronize(table.copied));
    for (std::size_t i = 0; i < size; ++i) {
      const auto addresses = of_[first + i].addresses();
      for (std::size_t k = 0; k < addresses.size(); ++k) {
        table.pointers[k * size + i] = addresses[k];
      }
    }
    auto** const uploaded = static_cast<float**>(uploaded_.address());
    cuda::check(cudaMemcpyAsync(uploaded, table.pointers, 3 * size * sizeof(void*),
                                cudaMemcpyHostToDevice, native()));
    cuda::check(cudaEventRecord(table.copied, native()));
    // cuBLAS takes matrices in column-major order: C' = B' A'.
    const auto& p = of_[0];
    const auto m = static_cast<int>(p.m);
    const auto n = static_cast<int>(p.n);
    const auto k = static_cast<int>(p.k);
    const float alpha = 1;
    const float beta = 0;
    check_cublas(cublasSgemmBatched(handle_, CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &alpha,
                                    uploaded + size, n, uploaded, k, &beta, uploaded + 2 * size, n,
                                    static_cast<int>(size)));
  }

  device_runtime& runtime_;
  const products& of_;
  stream stream_;
  block_ref uploaded_;
  cublasHandle_t handle_ = nullptr;
  std::array<pointer_table, 64> tables_;
};

/// A stream of CUDA that the runtime has adopted: its own streams must not be captured.
class stream_to_capture {
 public:
  explicit stream_to_capture(device& of) : device_(of) {
    const current_device scope(device_);
    cuda::check(cudaStreamCreateWithFlags(&native_, cudaStreamNonBlocking));
  }
  stream_to_capture(const stream_to_capture&) = delete;
  stream_to_capture& operator=(const stream_to_capture&) = delete;
  ~stream_to_capture() {
    const current_device scope(device_);
    (void)cudaStreamDestroy(native_);
  }
  [[nodiscard]] cudaStream_t native() const { return native_; }

 private:
  device& device_;
  cudaStream_t native_ = nullptr;
};

/// The calls of a stream as one graph, which is instantiated once.
class graph_of_calls {
 public:
  graph_of_calls(device_runtime& runtime, const std::function<void(plain_calls&)>& add)
      : device_(runtime.device()),
        stream_(device_),
        calls_(runtime, runtime.adopt_stream(reinterpret_cast<native_stream*>(stream_.native()))) {
    const current_device scope(device_);
    add(calls_);
    calls_.call();  // loads the kernels
    calls_.synchronize();
    cuda::check(cudaStreamBeginCapture(stream_.native(), cudaStreamCaptureModeRelaxed));
    std::optional<error> failure;
    try {
      calls_.call();
    } catch (const error& e) {
      failure = e;
    }
    const auto status = cudaStreamEndCapture(stream_.native(), &graph_);
    if (failure) throw error(*failure);
    cuda::check(status);
    cuda::check(cudaGraphInstantiate(&executable_, graph_, 0));
    cuda::check(cudaGraphUpload(executable_, stream_.native()));
    cuda::check(cudaStreamSynchronize(stream_.native()));
  }
  graph_of_calls(const graph_of_calls&) = delete;
  graph_of_calls& operator=(const graph_of_calls&) = delete;
  ~graph_of_calls() {
    const current_device scope(device_);
    (void)cudaGraphExecDestroy(executable_);
    (void)cudaGraphDestroy(graph_);
  }

  void launch_and_wait() {
    const current_device scope(device_);
    cuda::check(cudaGraphLaunch(executable_, stream_.native()));
    cuda::check(cudaStreamSynchronize(stream_.native()));
  }

 private:
  device& device_;
  stream_to_capture stream_;
  plain_calls calls_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace

batches_by_hand make_batches_by_hand(session& current, const products& of) {
  if (is_host(current)) return nullptr;
  return [made = std::make_shared<pointer_batches>(current, of)](std::size_t size,
                                                                 std::int64_t count) {
    made->run(size, count);
  };
}

graph_by_hand make_graph_by_hand(session& current, const std::function<void(plain_calls&)>& add) {
  if (is_host(current)) return nullptr;
  return [made = std::make_shared<graph_of_calls>(current.device().service().runtime(), add)] {
    made->launch_and_wait();
  };
}

}  // namespace sluice::cli
