// SPDX-License-Identifier: Apache-2.0
#include "operations/capture_lock.hpp"
#include "operations/program/captured_program.hpp"
#include "runtime/cuda/check.hpp"
#include "runtime/seam.hpp"

#include <sluice/envelope/kernel_envelope.hpp>
#include <sluice/runtime/launch_recorder.hpp>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <utility>

namespace sluice::cuda {
namespace {

using operations::captured_program;
using operations::staged_external;
using operations::steps_to_capture;

constexpr std::size_t alignment = 256;
constexpr std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// A stream of the driver that the runtime has adopted: unlike its own streams, such a stream may
/// be captured.
class capture_stream {
 public:
  explicit capture_stream(device_runtime& runtime)
      : device_(detail::runtime_core::of(runtime)->shared_device()) {
    const detail::library_call call(device_->id());
    device_->require_usable();
    const current_device_scope current(*device_);
    check(cudaStreamCreateWithFlags(&native_, cudaStreamNonBlocking));
    try {
      adopted_ = runtime.adopt_stream(reinterpret_cast<native_stream*>(native_));
    } catch (...) {
      destroy();
      throw;
    }
  }
  capture_stream(const capture_stream&) = delete;
  capture_stream& operator=(const capture_stream&) = delete;
  ~capture_stream() {
    const detail::library_call call(device_->id());
    const current_device_scope current(*device_);
    adopted_ = {};
    destroy();
  }

  [[nodiscard]] cudaStream_t native() const noexcept { return native_; }
  [[nodiscard]] stream_ref ref() const noexcept { return adopted_.ref(); }

 private:
  void destroy() noexcept {
    if (!device_->lost()) (void)cudaStreamDestroy(native_);
  }

  std::shared_ptr<device> device_;
  cudaStream_t native_ = nullptr;
  stream adopted_;
};

/// What the captures of one lane share. The graphs are launched on the stream of the lane, so no
/// two of them use it at the same time.
class capture_set {
 public:
  explicit capture_set(device_runtime& runtime)
      : runtime_(runtime),
        stream_(runtime),
        memory_stream_(runtime.create_stream()),
        libraries_(runtime, stream_.ref()) {}

  [[nodiscard]] const capture_stream& stream() const noexcept { return stream_; }
  [[nodiscard]] lane_libraries& libraries() noexcept { return libraries_; }
  /// Scratch memory of at least `bytes`, which every stream may use at once. It is allocated on a
  /// stream of its own, because a capture would record frees on its stream.
  [[nodiscard]] std::shared_ptr<const block_ref> scratch(std::size_t bytes) {
    auto kept = scratch_.lock();
    if (kept && kept->bytes() >= bytes) return kept;
    auto block = runtime_.allocate_bytes(std::bit_ceil(bytes), memory_stream_, "captured programs");
    // The memory may have been freed behind work of other streams.
    auto recorder = launch_recorder::strict(memory_stream_);
    recorder.use(block, access_kind::write, true);
    recorder.preflight();
    (void)recorder.commit();
    memory_stream_.synchronize();
    kept = std::make_shared<const block_ref>(std::move(block));
    scratch_ = kept;
    return kept;
  }

 private:
  device_runtime& runtime_;
  capture_stream stream_;
  sluice::stream memory_stream_;
  lane_libraries libraries_;
  std::weak_ptr<const block_ref> scratch_;  // the captured programs own it
};

/// The set of a lane. Its graphs own it, too: they use the workspaces of its libraries.
struct capture_set_of_lane {
  capture_set_of_lane(device_runtime& runtime, stream_ref)
      : set(std::make_shared<capture_set>(runtime)) {}
  std::shared_ptr<capture_set> set;
};

/// Lets forbidden calls of this thread end its capture. The planner, like all threads of sluice,
/// keeps a capture pass open, in which such calls pass and an allocation of a library would be a
/// part of the graph. Scopes within do not open another pass, so they change nothing.
class strict_capture_mode {
 public:
  strict_capture_mode() { check(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  strict_capture_mode(const strict_capture_mode&) = delete;
  strict_capture_mode& operator=(const strict_capture_mode&) = delete;
  ~strict_capture_mode() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeThreadLocal;
};

/// A graph and its executable form. The nodes of the former name those of the latter.
class graph_handles {
 public:
  explicit graph_handles(device& of) noexcept : device_(of) {}
  graph_handles(const graph_handles&) = delete;
  graph_handles& operator=(const graph_handles&) = delete;
  ~graph_handles() {
    const detail::library_call call(device_.id());
    if (device_.lost()) return;
    const current_device_scope current(device_);
    if (executable_ != nullptr) (void)cudaGraphExecDestroy(executable_);
    if (graph_ != nullptr) (void)cudaGraphDestroy(graph_);
  }

  /// Captures what `work` enqueues on `on`.
  template <class Work>
  void capture(cudaStream_t on, const Work& work) {
    const auto alone = operations::capture_lock();
    const strict_capture_mode strict;
    check(cudaStreamBeginCapture(on, cudaStreamCaptureModeThreadLocal));
    std::optional<error> failure;
    try {
      work();
    } catch (...) {
      failure = current_error();
    }
    const auto status = cudaStreamEndCapture(on, &graph_);
    if (status != cudaSuccess) (void)cudaGetLastError();
    if (failure) throw error(*failure);
    check(status);
  }
  void instantiate(cudaStream_t upload_on) {
    check(cudaGraphInstantiate(&executable_, graph_, 0));
    check(cudaGraphUpload(executable_, upload_on));
  }
  [[nodiscard]] std::vector<cudaGraphNode_t> nodes() const {
    std::size_t count = 0;
    check(cudaGraphGetNodes(graph_, nullptr, &count));
    std::vector<cudaGraphNode_t> all(count);
    check(cudaGraphGetNodes(graph_, all.data(), &count));
    return all;
  }
  [[nodiscard]] cudaGraphExec_t executable() const noexcept { return executable_; }

 private:
  device& device_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

[[nodiscard]] bool is_of_device(const void* address) {
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, address));
  return attributes.type == cudaMemoryTypeDevice;
}

/// A copy between two addresses of the device.
struct device_copy {
  cudaGraphNode_t node;
  const void* from;
  const void* to;
};

/// Refuses nodes other than kernels, fills and copies within the device: a copy from memory of the
/// process would read what lies there at the time of each launch. Returns the copies.
[[nodiscard]] std::vector<device_copy> audit(const graph_handles& graph) {
  std::vector<device_copy> copies;
  for (const auto node : graph.nodes()) {
    cudaGraphNodeType type{};
    check(cudaGraphNodeGetType(node, &type));
    if (type == cudaGraphNodeTypeKernel || type == cudaGraphNodeTypeMemset) continue;
    if (type != cudaGraphNodeTypeMemcpy) {
      throw error(errc::unsupported, "a step enqueues a node of the type " +
                                         std::to_string(static_cast<int>(type)) + " of CUDA");
    }
    cudaMemcpy3DParms copy{};
    check(cudaGraphMemcpyNodeGetParams(node, &copy));
    if (copy.srcPtr.ptr == nullptr || copy.dstPtr.ptr == nullptr ||
        !is_of_device(copy.srcPtr.ptr) || !is_of_device(copy.dstPtr.ptr)) {
      throw error(errc::unsupported, "a step copies memory of the process");
    }
    copies.push_back({node, copy.srcPtr.ptr, copy.dstPtr.ptr});
  }
  return copies;
}

class captured_graph final : public captured_program {
 public:
  captured_graph(std::shared_ptr<capture_set> set, device& device, const steps_to_capture& what)
      : set_(std::move(set)), graph_(device) {
    // Behind the scratch memory of the steps lie the staged externals, then a stand-in for the
    // addresses of a launch.
    auto end = aligned(what.scratch_bytes);
    std::size_t largest = 0;
    std::vector<std::size_t> offsets;
    for (const auto& s : what.staged) {
      // Exactly as aligned as the address of a launch.
      offsets.push_back(end + s.alignment % alignment);
      end = aligned(offsets.back() + s.bytes);
      largest = std::max(largest, aligned(s.bytes));
    }
    scratch_ = set_->scratch(std::max(end + largest, alignment));
    auto* const base = static_cast<std::byte*>(scratch_->address());
    auto externals = what.externals;
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      const auto& s = what.staged[i];
      externals[s.number] = base + offsets[i];
      if (s.bytes != 0) staged_.push_back({s, base + offsets[i]});
    }
    capture(what, externals, base, base + end);
  }

  void launch(stream_ref on, std::span<void* const> externals) override {
    try {
      for (auto& s : staged_) {
        void* const address = externals[s.what.number];
        if (address == s.address) continue;
        check(cudaGraphExecMemcpyNodeSetParams1D(
            graph_.executable(), s.node, s.what.is_written ? address : s.place,
            s.what.is_written ? s.place : address, s.what.bytes, cudaMemcpyDeviceToDevice));
        s.address = address;
      }
      check(cudaGraphLaunch(graph_.executable(), reinterpret_cast<cudaStream_t>(on.native())));
    } catch (...) {
      throw nothing_enqueued(current_error());
    }
  }
  std::size_t shared_device_bytes() const noexcept override {
    return scratch_->bytes() / static_cast<std::size_t>(std::max(1L, scratch_.use_count()));
  }

 private:
  struct staged {
    staged_external what;
    void* place;
    cudaGraphNode_t node = nullptr;
    void* address = nullptr;  // of the last launch
  };

  void capture(const steps_to_capture& what, std::span<void* const> externals, void* scratch,
               void* stand_in) {
    const auto on = set_->stream().native();
    set_->stream().ref().synchronize();  // nothing of before may be asked for meanwhile
    const auto copy = [&](bool written) {
      for (const auto& s : staged_) {
        if (s.what.is_written != written) continue;
        check(cudaMemcpyAsync(written ? stand_in : s.place, written ? s.place : stand_in,
                              s.what.bytes, cudaMemcpyDeviceToDevice, on));
      }
    };
    graph_.capture(on, [&] {
      copy(false);
      what.enqueue(externals, scratch);
      copy(true);
    });
    for (const auto& found : audit(graph_)) {
      for (auto& s : staged_) {
        if (s.what.is_written ? found.from == s.place && found.to == stand_in
                              : found.from == stand_in && found.to == s.place) {
          s.node = found.node;
        }
      }
    }
    if (std::any_of(staged_.begin(), staged_.end(), [](const auto& s) { return !s.node; })) {
      throw error(errc::unsupported, "the copy of an input or an output is not in the graph");
    }
    graph_.instantiate(on);
    set_->stream().ref().synchronize();
  }

  std::shared_ptr<capture_set> set_;  // the graph uses workspaces of its libraries
  std::shared_ptr<const block_ref> scratch_;
  std::vector<staged> staged_;
  graph_handles graph_;
};

}  // namespace

std::shared_ptr<lane_libraries> capture_libraries(lane_libraries& of_lane) {
  const auto& set = of_lane.get<capture_set_of_lane>().set;
  return {set, &set->libraries()};
}

std::unique_ptr<captured_program> capture(lane_libraries& of_lane, const steps_to_capture& what) {
  auto& device = of_lane.runtime().device();
  const detail::library_call in_library(device.id());
  device.require_usable();
  const current_device_scope current(device);
  return std::make_unique<captured_graph>(of_lane.get<capture_set_of_lane>().set, device, what);
}

}  // namespace sluice::cuda
