// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/normalize_call.hpp"
#include "operations/dnn/normalize_flat.cuh"
#include "operations/dnn/normalize_layer.cuh"
#include "operations/dnn/normalize_strided.cuh"

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

namespace sluice::operations {
namespace {

/// A power of two of at least `value`.
[[nodiscard]] std::int64_t power_of_two(std::int64_t value) {
  std::int64_t power = 1;
  while (power < value) power *= 2;
  return power;
}
[[nodiscard]] unsigned blocks_for(std::int64_t rows, unsigned threads, std::int64_t lanes) {
  const std::int64_t rows_of_block = threads / lanes;
  const std::int64_t blocks = (rows + rows_of_block - 1) / rows_of_block;
  return static_cast<unsigned>(blocks < max_blocks ? blocks : max_blocks);
}

/// As many blocks as a large GPU has multiprocessors, and as many threads as it needs to be busy.
constexpr unsigned busy_blocks = 128;
constexpr std::int64_t busy_threads = busy_blocks * least_threads;

/// Whether all rows of an operand begin at a multiple of `size` elements of aligned memory.
[[nodiscard]] bool is_aligned(const normalize_call& call, int operand, const void* address,
                              std::int64_t size) {
  if (reinterpret_cast<std::uintptr_t>(address) % 16 != 0) return false;
  for (int d = 0; d < call.row_rank; ++d) {
    if (call.shape[d] > 1 && call.strides[operand][d] % size != 0) return false;
  }
  return true;
}

/// How `flat_kernel` reads the parameters of a row.
/// @return whether it can
[[nodiscard]] bool describe_parameters(const normalize_call& call,
                                       const normalize_addresses& addresses, std::int64_t size,
                                       flat_rows& layout) {
  layout = {parameter_layout::absent, 1, 0};
  if (addresses.scale == nullptr && addresses.bias == nullptr) return true;
  const int last = call.rank - 1;
  if (call.strides[2][last] == 1 && call.rank - call.row_rank == 1) {
    layout.parameters = parameter_layout::beside;
    return (addresses.scale == nullptr || is_aligned(call, 2, addresses.scale, size)) &&
           (addresses.bias == nullptr || is_aligned(call, 2, addresses.bias, size));
  }
  layout.parameters = parameter_layout::repeated;
  layout.repetitions = call.shape[last];
  if (call.strides[2][last] != 0 || layout.repetitions % size != 0) return false;
  if (call.rank - call.row_rank == 1) return true;
  layout.step = call.strides[2][last - 1];
  return call.rank - call.row_rank == 2;
}

/// How `layer_kernel` divides rows: up to `warp_vectors` vectors have a warp, in blocks of several
/// rows, and up to `block_vectors` a block.
struct layer_distribution {
  static constexpr int kept = 4;  ///< vectors of a thread at most
  static constexpr int rows = 4;  ///< of a block, if each has a warp
  static constexpr int warps = 4;
  static constexpr std::int64_t warp_vectors = kept * warp_size;
  static constexpr std::int64_t block_vectors = warps * warp_vectors;
};

/// Whether `layer_kernel` can compute a normalization of flat rows, and is faster than
/// `flat_kernel`.
[[nodiscard]] bool suits_layer_kernel(const normalize_call& call, const flat_rows& layout,
                                      std::int64_t vectors) {
  constexpr std::int64_t few_rows = 1024;      // the time of a row counts
  constexpr std::int64_t most_rows = 1 << 30;  // of a grid
  if (call.kind != normalization::layer || call.row_rank != 1 || call.rows > most_rows) {
    return false;
  }
  const bool has_one_set = layout.parameters == parameter_layout::absent ||
                           (layout.parameters == parameter_layout::beside &&
                            (call.rows == 1 || call.strides[2][0] == 0));
  if (!has_one_set) return false;
  if (call.rows <= few_rows) return vectors <= layer_distribution::block_vectors;
  // Many short rows would leave lanes of their warps idle.
  return vectors <= layer_distribution::warp_vectors &&
         2 * vectors > layer_distribution::warp_vectors;
}

/// Calls `run` with the `layer_kernel` for rows of so many vectors, and with the rows of its blocks
/// and their warps.
template <class Element, class Run>
void with_layer_kernel(std::int64_t vectors, const Run& run) {
  const auto choose = [&](auto kept, auto warps, auto rows) {
    constexpr int k = decltype(kept)::value;
    constexpr int w = decltype(warps)::value;
    constexpr int r = decltype(rows)::value;
    if (vectors == k * w * warp_size) {
      run(layer_kernel<Element, k, w, r, true>, r, w);
    } else {
      run(layer_kernel<Element, k, w, r, false>, r, w);
    }
  };
  using std::integral_constant;
  using one = integral_constant<int, 1>;
  using layer_rows = integral_constant<int, layer_distribution::rows>;
  static_assert(layer_distribution::kept == 4);
  if (vectors > layer_distribution::warp_vectors) {
    choose(integral_constant<int, 4>(), integral_constant<int, layer_distribution::warps>(), one());
  } else if (vectors > 3 * warp_size) {
    choose(integral_constant<int, 4>(), one(), layer_rows());
  } else if (vectors > 2 * warp_size) {
    choose(integral_constant<int, 3>(), one(), layer_rows());
  } else if (vectors > warp_size) {
    choose(integral_constant<int, 2>(), one(), layer_rows());
  } else {
    choose(one(), one(), layer_rows());
  }
}

struct normalize_launcher {
  const normalize_call& call;
  const normalize_addresses& addresses;
  cudaStream_t stream;

  /// @return whether `flat_kernel` has been launched
  template <class Element, normalization Kind>
  [[nodiscard]] bool launch_rows() const {
    constexpr std::int64_t size = 16 / sizeof(Element);
    constexpr std::int64_t kept = flat_distribution::vectors;
    flat_rows layout{};
    if (call.count > size * kept * flat_distribution::threads ||
        !describe_parameters(call, addresses, size, layout)) {
      return false;
    }
    const auto vectors = call.count / size;
    if constexpr (Kind == normalization::layer) {
      if (suits_layer_kernel(call, layout, vectors)) {
        launch_layer<Element>(vectors);
        return true;
      }
    }
    auto lanes = power_of_two((vectors + kept - 1) / kept);
    // Few rows leave most of a GPU idle, so more threads share each of them, in smaller blocks.
    while (lanes < warp_size && 2 * lanes <= vectors && call.rows * lanes < busy_threads) {
      lanes *= 2;
    }
    unsigned threads = lanes > least_threads ? static_cast<unsigned>(lanes) : least_threads;
    while (threads > warp_size && threads > lanes &&
           blocks_for(call.rows, threads, lanes) < busy_blocks) {
      threads /= 2;
    }
    const auto launch_with = [&](auto* kernel) {
      kernel<<<blocks_for(call.rows, threads, lanes), threads, 0, stream>>>(
          call, addresses, static_cast<int>(lanes), layout);
    };
    if constexpr (Kind == normalization::layer) {
      if (layout.parameters == parameter_layout::repeated) {
        launch_with(flat_kernel<Element, Kind, true>);
        return true;
      }
    }
    launch_with(flat_kernel<Element, Kind, false>);
    return true;
  }
  template <class Element>
  void launch_layer(std::int64_t vectors) const {
    constexpr std::int64_t size = 16 / sizeof(Element);
    const layer_call layer{addresses.y,
                           addresses.x,
                           addresses.scale,
                           addresses.bias,
                           call.strides[0][0] / size,
                           call.strides[1][0] / size,
                           static_cast<std::int32_t>(call.rows),
                           static_cast<std::int32_t>(vectors),
                           static_cast<float>(call.epsilon),
                           1.0F / static_cast<float>(call.count)};
    with_layer_kernel<Element>(vectors, [&](auto* kernel, int rows, int warps) {
      const auto blocks = static_cast<unsigned>((call.rows - 1) / rows + 1);
      kernel<<<blocks, rows * warps * warp_size, 0, stream>>>(layer);
    });
  }
  template <class Element>
  [[nodiscard]] bool launch_flat() const {
    constexpr std::int64_t size = 16 / sizeof(Element);
    if (call.count % size != 0 || !has_flat_rows(call) || !is_aligned(call, 0, addresses.y, size) ||
        !is_aligned(call, 1, addresses.x, size)) {
      return false;
    }
    switch (call.kind) {
      case normalization::softmax:
        return launch_rows<Element, normalization::softmax>();
      case normalization::log_softmax:
        return launch_rows<Element, normalization::log_softmax>();
      default:
        return launch_rows<Element, normalization::layer>();
    }
  }
  int launch() const {
    const bool is_flat = call.type == storage::f32    ? launch_flat<float>()
                         : call.type == storage::f16  ? launch_flat<__half>()
                         : call.type == storage::bf16 ? launch_flat<__nv_bfloat16>()
                                                      : false;
    if (!is_flat) {
      const unsigned threads = call.lanes > static_cast<std::int32_t>(least_threads)
                                   ? static_cast<unsigned>(call.lanes)
                                   : least_threads;
      const auto kernel =
          call.type == storage::f64 ? strided_kernel<double> : strided_kernel<float>;
      kernel<<<blocks_for(call.rows, threads, call.lanes), threads, 0, stream>>>(call, addresses);
    }
    return cudaGetLastError();
  }
};

}  // namespace

int load_normalize() {
  cudaFuncAttributes attributes;
  cudaError_t status = cudaSuccess;
  const auto load_kernel = [&](auto* kernel) {
    if (status == cudaSuccess) status = cudaFuncGetAttributes(&attributes, kernel);
  };
  const auto load_flat = [&](auto element) {
    using type = decltype(element);
    // A row of whole passes, and one that is not, for each kernel.
    for (const std::int64_t passes : {1, 2, 3, 4, 16}) {
      for (const std::int64_t rest : {0, 1}) {
        with_layer_kernel<type>(passes * warp_size - rest,
                                [&](auto* kernel, int, int) { load_kernel(kernel); });
      }
    }
    load_kernel(flat_kernel<type, normalization::softmax, false>);
    load_kernel(flat_kernel<type, normalization::log_softmax, false>);
    load_kernel(flat_kernel<type, normalization::layer, false>);
    load_kernel(flat_kernel<type, normalization::layer, true>);
  };
  load_flat(float{});
  load_flat(__half{});
  load_flat(__nv_bfloat16{});
  load_kernel(strided_kernel<float>);
  load_kernel(strided_kernel<double>);
  return status;
}

int launch_normalize(const normalize_call& call, const normalize_addresses& addresses,
                     native_stream* stream) {
  return normalize_launcher{call, addresses, reinterpret_cast<cudaStream_t>(stream)}.launch();
}

}  // namespace sluice::operations
