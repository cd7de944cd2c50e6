// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/suppression_call.hpp"

#include <cuda_runtime.h>

#include <cstdint>

namespace sluice::operations {
namespace {

constexpr int threads_per_block = 256;
constexpr int warps_per_block = threads_per_block / 32;
constexpr int scan_threads = 1024;
// Beyond this the loops in the kernels take the rest.
constexpr std::int64_t max_blocks = 1 << 20;

/// The parts of the scratch memory.
struct suppression_workspace {
  std::int64_t* boxes;      ///< that are selected, `most_of_group` of each group
  std::int64_t* counts;     ///< of them
  std::int64_t* offsets;    ///< the first row of each group; behind them, the number of rows
  std::uint8_t* remaining;  ///< whether a box of a group can still be selected

  suppression_workspace(const suppression_call& call, void* workspace)
      : boxes(static_cast<std::int64_t*>(workspace)),
        counts(boxes + call.groups() * call.most_of_group),
        offsets(counts + call.groups()),
        remaining(reinterpret_cast<std::uint8_t*>(offsets + call.groups() + 1)) {}
};

/// The best box that can be selected; none if `box` is negative.
template <class T>
struct best_box {
  T score = 0;
  std::int64_t box = -1;

  __device__ void take(T other_score, std::int64_t other_box) {
    if (other_box < 0) return;
    if (box < 0 || other_score > score || (other_score == score && other_box < box)) {
      score = other_score;
      box = other_box;
    }
  }
};

/// The best box of all threads of the block, in each of them.
template <class T>
__device__ best_box<T> best_of_block(best_box<T> best) {
  __shared__ T scores[warps_per_block];
  __shared__ long long boxes[warps_per_block];
  for (int distance = 16; distance > 0; distance /= 2) {
    const T score = __shfl_xor_sync(~0U, best.score, distance);
    const long long box = __shfl_xor_sync(~0U, static_cast<long long>(best.box), distance);
    best.take(score, box);
  }
  if (threadIdx.x % 32 == 0) {
    scores[threadIdx.x / 32] = best.score;
    boxes[threadIdx.x / 32] = best.box;
  }
  __syncthreads();
  for (int i = 0; i < warps_per_block; ++i) best.take(scores[i], boxes[i]);
  __syncthreads();
  return best;
}

/// Selects the boxes of groups, each by a block. Each thread looks after every box number
/// `threads_per_block`.
template <class T>
__global__ void __launch_bounds__(threads_per_block)
    selection_kernel(const __grid_constant__ suppression_call call, const void* boxes,
                     const void* scores, const suppression_workspace workspace) {
  const auto threshold = static_cast<T>(call.iou_threshold);
  for (std::int64_t group = blockIdx.x; group < call.groups(); group += gridDim.x) {
    const std::int64_t batch = group / call.classes;
    const std::int64_t place =
        batch * call.score_strides[0] + (group - batch * call.classes) * call.score_strides[1];
    const auto score_of = [&](std::int64_t box) {
      return load<T>(call.type, scores, place + box * call.score_strides[2]);
    };
    std::uint8_t* const remaining = workspace.remaining + group * call.boxes;
    best_box<T> best;
    for (std::int64_t i = threadIdx.x; i < call.boxes; i += threads_per_block) {
      const T score = score_of(i);
      const bool is_candidate = call.is_candidate(score);
      remaining[i] = is_candidate ? 1 : 0;
      if (is_candidate) best.take(score, i);
    }
    std::int64_t count = 0;
    while (true) {
      const auto chosen = best_of_block(best);
      if (chosen.box < 0) break;
      if (threadIdx.x == 0) {
        workspace.boxes[group * call.most_of_group + count] = chosen.box;
      }
      if (++count == call.most_of_group) break;
      const auto edges = box_at<T>(call, boxes, batch, chosen.box);
      best = {};
      for (std::int64_t i = threadIdx.x; i < call.boxes; i += threads_per_block) {
        if (remaining[i] == 0) continue;
        if (i == chosen.box || overlap(box_at<T>(call, boxes, batch, i), edges, threshold)) {
          remaining[i] = 0;
        } else {
          best.take(score_of(i), i);
        }
      }
    }
    if (threadIdx.x == 0) workspace.counts[group] = count;
  }
}

/// Adds up the counts of groups, in one block: each thread those of neighbouring groups.
__global__ void __launch_bounds__(scan_threads)
    scan_kernel(const __grid_constant__ suppression_call call,
                const suppression_workspace workspace, std::int64_t* count) {
  __shared__ long long sums[scan_threads];
  const std::int64_t share = (call.groups() + scan_threads - 1) / scan_threads;
  const std::int64_t first = threadIdx.x * share;
  const std::int64_t end = first + share < call.groups() ? first + share : call.groups();
  long long sum = 0;
  for (std::int64_t i = first; i < end; ++i) sum += workspace.counts[i];
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int distance = 1; distance < scan_threads; distance *= 2) {
    const long long before = threadIdx.x >= distance ? sums[threadIdx.x - distance] : 0;
    __syncthreads();
    sums[threadIdx.x] += before;
    __syncthreads();
  }
  std::int64_t offset = sums[threadIdx.x] - sum;
  for (std::int64_t i = first; i < end; ++i) {
    workspace.offsets[i] = offset;
    offset += workspace.counts[i];
  }
  if (threadIdx.x == scan_threads - 1) {
    const std::int64_t total = sums[threadIdx.x] < call.rows ? sums[threadIdx.x] : call.rows;
    workspace.offsets[call.groups()] = total;
    *count = total;
  }
}

/// Writes the rows, and -1 behind them.
__global__ void __launch_bounds__(threads_per_block)
    rows_kernel(const __grid_constant__ suppression_call call,
                const suppression_workspace workspace, std::int64_t* selected) {
  const auto write = [&](std::int64_t row, std::int64_t a, std::int64_t b, std::int64_t c) {
    std::int64_t* const target = selected + row * call.selected_strides[0];
    target[0] = a;
    target[call.selected_strides[1]] = b;
    target[2 * call.selected_strides[1]] = c;
  };
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * threads_per_block;
  const std::int64_t thread =
      static_cast<std::int64_t>(blockIdx.x) * threads_per_block + threadIdx.x;
  for (std::int64_t i = thread; i < call.groups() * call.most_of_group; i += stride) {
    const std::int64_t group = i / call.most_of_group;
    const std::int64_t number = i - group * call.most_of_group;
    const std::int64_t row = workspace.offsets[group] + number;
    if (number >= workspace.counts[group] || row >= call.rows) continue;
    write(row, group / call.classes, group % call.classes, workspace.boxes[i]);
  }
  for (std::int64_t row = workspace.offsets[call.groups()] + thread; row < call.rows;
       row += stride) {
    write(row, -1, -1, -1);
  }
}

[[nodiscard]] unsigned blocks_of(std::int64_t count) {
  return static_cast<unsigned>(count < 1 ? 1 : count < max_blocks ? count : max_blocks);
}

}  // namespace

int load_suppression() {
  cudaFuncAttributes attributes;
  for (const auto status : {cudaFuncGetAttributes(&attributes, selection_kernel<float>),
                            cudaFuncGetAttributes(&attributes, selection_kernel<double>),
                            cudaFuncGetAttributes(&attributes, scan_kernel),
                            cudaFuncGetAttributes(&attributes, rows_kernel)}) {
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

int launch_suppression(const suppression_call& call, const suppression_addresses& addresses,
                       native_stream* stream) {
  const auto on = reinterpret_cast<cudaStream_t>(stream);
  const suppression_workspace workspace(call, addresses.workspace);
  const auto kernel =
      call.type == storage::f64 ? selection_kernel<double> : selection_kernel<float>;
  if (call.groups() > 0) {
    kernel<<<blocks_of(call.groups()), threads_per_block, 0, on>>>(call, addresses.boxes,
                                                                   addresses.scores, workspace);
  }
  scan_kernel<<<1, scan_threads, 0, on>>>(call, workspace, addresses.count);
  rows_kernel<<<blocks_of((call.groups() * call.most_of_group + threads_per_block - 1) /
                          threads_per_block),
                threads_per_block, 0, on>>>(call, workspace, addresses.selected);
  return cudaGetLastError();
}

}  // namespace sluice::operations
