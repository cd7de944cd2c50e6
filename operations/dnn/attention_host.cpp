// SPDX-License-Identifier: Apache-2.0
#include "operations/blas/gemm_blocks.hpp"
#include "operations/blas/gemm_functions.hpp"
#include "operations/dnn/attention_functions.hpp"
#include "operations/dnn/attention_loops.hpp"
#include "operations/dnn/row_loops.hpp"
#include "operations/elementwise/f32_loops.hpp"
#include "runtime/seam.hpp"

#include <algorithm>
#include <array>
#include <cblas.h>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace sluice::host {
namespace {

using namespace operations;

// Blocks whose buffers fit into the second-level cache, however large the heads are. They depend on
// no other head, so a head has the same bits in every stack.
constexpr std::int64_t block_queries = 64;
constexpr std::int64_t block_keys = 128;
constexpr std::int64_t block_size = 256;  // elements of a head

constexpr std::int64_t blocks_of(std::int64_t count, std::int64_t size) noexcept {
  return (count - 1) / size + 1;
}

/// Rows of a head in memory.
struct head_rows {
  const void* memory;
  std::int64_t offset;
  std::int64_t row;      // distance of neighbouring rows
  std::int64_t element;  // distance of neighbouring elements
};

/// Some elements of some rows of a head as f32.
struct row_block {
  const float* first;
  blasint row;                // distance of neighbouring rows
  std::size_t operand_bytes;  // from the first to the last element, if these are of an operand
};

/// Computes blocks of `block_queries` queries and `block_size` elements of the values. The maxima
/// and the sums of the weights so far are corrected with each block of keys: Milakov and
/// Gimelshein, "Online normalizer calculation for softmax", 2018.
class query_block {
 public:
  query_block(const attention_call& call, const attention_addresses& addresses)
      : call_(call),
        addresses_(addresses),
        score_row_(blocks_of(std::min(call.keys, block_keys), score_padding) * score_padding),
        sum_row_(std::min(call.value_size, block_size)) {
    const auto queries = std::min(call.queries, block_queries);
    scores_.resize(static_cast<std::size_t>(queries * score_row_));
    sums_.resize(static_cast<std::size_t>(queries * sum_row_));
    maxima_.resize(static_cast<std::size_t>(queries));
    corrections_.resize(static_cast<std::size_t>(queries));
    block_weights_.resize(static_cast<std::size_t>(queries));
    weights_.resize(static_cast<std::size_t>(queries));
  }

  /// Computes the results of queries [first, first + count) and elements [element, element + size).
  void compute(std::int64_t image, std::int64_t head, std::int64_t first, std::int64_t count,
               std::int64_t element, std::int64_t size) {
    first_ = first;
    count_ = count;
    const auto shared = head / call_.sharing;
    q_ = {addresses_.q, image * call_.q[0] + head * call_.q[1] + first * call_.q[2], call_.q[2],
          call_.q[3]};
    k_ = {addresses_.k, image * call_.k[0] + shared * call_.k[1], call_.k[2], call_.k[3]};
    v_ = {addresses_.v, image * call_.v[0] + shared * call_.v[1] + element * call_.v[3], call_.v[2],
          call_.v[3]};
    mask_offset_ = image * call_.mask[0] + head * call_.mask[1] + first * call_.mask[2];
    std::fill_n(maxima_.begin(), count, -attention_call::infinite_score);
    std::fill_n(weights_.begin(), count, 0.0);
    has_queries_ = false;
    const auto visible = call_.visible_keys(first + count);
    if (visible == 0) std::fill(sums_.begin(), sums_.end(), 0.0F);
    for (std::int64_t key = 0; key < visible; key += block_keys) {
      add_keys(key, std::min(block_keys, visible - key), size);
    }
    store(image * call_.y[0] + head * call_.y[1] + first * call_.y[2] + element * call_.y[3], size);
  }

 private:
  [[nodiscard]] float* sums_of(std::int64_t r) noexcept { return sums_.data() + r * sum_row_; }

  /// Elements of rows of a head, in its memory if products take them there, or else in a copy.
  row_block read(const head_rows& head, std::int64_t first, std::int64_t count,
                 std::int64_t element, std::int64_t size, std::vector<float>& copy) const {
    auto offset = head.offset + first * head.row + element * head.element;
    const bool is_dense = head.element == 1 || size == 1;
    const bool has_rows = head.row >= size && head.row <= std::numeric_limits<blasint>::max();
    if (call_.type == storage::f32 && is_dense && has_rows) {
      return {static_cast<const float*>(head.memory) + offset, static_cast<blasint>(head.row),
              static_cast<std::size_t>((count - 1) * head.row + size) * sizeof(float)};
    }
    copy.resize(std::max(copy.size(), static_cast<std::size_t>(count * size)));
    const auto* const memory = static_cast<const std::byte*>(head.memory);
    if (is_dense && head.row == size) {
      load_f32(call_.type, memory + offset * bytes_of(call_.type), count * size, copy.data());
      return {copy.data(), static_cast<blasint>(size), 0};
    }
    float* target = copy.data();
    for (std::int64_t r = 0; r < count; ++r, offset += head.row, target += size) {
      if (is_dense) {
        load_f32(call_.type, memory + offset * bytes_of(call_.type), size, target);
        continue;
      }
      for (std::int64_t i = 0; i < size; ++i) {
        target[i] = load<float>(call_.type, memory, offset + i * head.element);
      }
    }
    return {copy.data(), static_cast<blasint>(size), 0};
  }
  /// Reads elements of the queries. If these are all of a head, they are read once.
  void read_queries(std::int64_t element, std::int64_t size) {
    if (has_queries_) return;
    queries_ = read(q_, 0, count_, element, size, query_copy_);
    has_queries_ = size == call_.key_size;
  }

  void add_keys(std::int64_t key, std::int64_t keys, std::int64_t size) {
    multiply_keys(key, keys);
    if (call_.has_mask) add_mask(key, keys);
    weigh(key, keys, size);
    multiply_values(key, keys, size);
  }
  /// Scores = Q · Kᵀ · scale.
  void multiply_keys(std::int64_t key, std::int64_t keys) {
    // With a factor of 0, OpenBLAS reads no matrix, so NaN would get lost.
    const bool is_scaled_later = call_.scale == 0;
    if (call_.key_size == 0) std::fill(scores_.begin(), scores_.end(), 0.0F);
    for (std::int64_t element = 0; element < call_.key_size; element += block_size) {
      const auto elements = std::min(block_size, call_.key_size - element);
      read_queries(element, elements);
      const auto rows = read(k_, key, keys, element, elements, key_copy_);
      const library_call_scope scope(
          {{rows.first, rows.operand_bytes}, {queries_.first, queries_.operand_bytes}}, {});
      multiply(product<float>{CblasTrans, CblasNoTrans, static_cast<blasint>(keys),
                              static_cast<blasint>(count_), static_cast<blasint>(elements),
                              is_scaled_later ? 1 : call_.scale, rows.first, rows.row,
                              queries_.first, queries_.row, element == 0 ? 0.0F : 1.0F,
                              scores_.data(), static_cast<blasint>(score_row_)});
    }
    if (!is_scaled_later) return;
    for (auto& score : scores_) score *= call_.scale;
  }
  /// Sums += weights · V.
  void multiply_values(std::int64_t key, std::int64_t keys, std::int64_t size) {
    const auto rows = read(v_, key, keys, 0, size, value_copy_);
    const library_call_scope scope({{rows.first, rows.operand_bytes}}, {});
    multiply(product<float>{CblasNoTrans, CblasNoTrans, static_cast<blasint>(size),
                            static_cast<blasint>(count_), static_cast<blasint>(keys), 1, rows.first,
                            rows.row, scores_.data(), static_cast<blasint>(score_row_),
                            key == 0 ? 0.0F : 1.0F, sums_.data(), static_cast<blasint>(sum_row_)});
  }

  /// Adds the mask to the scores.
  void add_mask(std::int64_t key, std::int64_t keys) {
    for (std::int64_t r = 0; r < count_; ++r) {
      add_mask(scores_.data() + r * score_row_,
               mask_offset_ + r * call_.mask[2] + key * call_.mask[3], keys);
    }
  }
  void add_mask(float* scores, std::int64_t offset, std::int64_t count) const {
    const auto distance = call_.mask[3];
    const auto* const masks = static_cast<const std::byte*>(addresses_.mask);
    if (distance != 1 || call_.mask_type == storage::boolean) {
      for (std::int64_t c = 0; c < count; ++c) {
        scores[c] = call_.masked(scores[c], masks, offset + c * distance);
      }
      return;
    }
    const auto* const row = masks + offset * bytes_of(call_.mask_type);
    if (call_.mask_type == storage::f32) {
      const auto* const numbers = reinterpret_cast<const float*>(row);
      return binary_f32(binary_function::add, scores, numbers, count, scores);
    }
    std::array<float, static_cast<std::size_t>(block_keys)> numbers;
    load_f32(call_.mask_type, row, count, numbers.data());
    binary_f32(binary_function::add, scores, numbers.data(), count, scores);
  }
  /// Turns the scores into weights, and corrects `size` sums of each row.
  void weigh(std::int64_t key, std::int64_t keys, std::int64_t size) {
    const auto visible = call_.is_causal ? first_ + 1 + call_.diagonal - key : keys;
    weigh_scores_f32({scores_.data(), score_row_, count_, keys, visible, call_.is_causal ? 1 : 0},
                     maxima_.data(), corrections_.data(), block_weights_.data());
    if (key == 0) return std::swap(weights_, block_weights_);
    (void)exponentials_f32(corrections_.data(), count_, 0, corrections_.data());
    for (std::int64_t r = 0; r < count_; ++r) {
      const auto i = static_cast<std::size_t>(r);
      const float correction = corrections_[i];
      weights_[i] = weights_[i] * static_cast<double>(correction) + block_weights_[i];
      if (correction == 1) continue;
      float* const sums = sums_of(r);
      for (std::int64_t e = 0; e < size; ++e) sums[e] *= correction;
    }
  }

  void store(std::int64_t offset, std::int64_t size) {
    for (std::int64_t r = 0; r < count_; ++r) {
      float* const sums = sums_of(r);
      const auto weight = weights_[static_cast<std::size_t>(r)];
      row_map<float> scaling;
      scaling.factor = static_cast<float>(weight == 0 ? 0 : 1 / weight);
      const auto first = offset + r * call_.y[2];
      if (call_.type == storage::f32 && call_.y[3] == 1) {
        map_row_f32(scaling, sums, size, static_cast<float*>(addresses_.y) + first);
        continue;
      }
      map_row_f32(scaling, sums, size, sums);
      if (call_.y[3] == 1) {
        auto* const bytes = static_cast<std::byte*>(addresses_.y);
        store_f32(call_.type, sums, size, bytes + first * bytes_of(call_.type));
        continue;
      }
      for (std::int64_t i = 0; i < size; ++i) {
        operations::store<overflow::saturates>(call_.type, addresses_.y, first + i * call_.y[3],
                                               sums[i]);
      }
    }
  }

  const attention_call& call_;
  const attention_addresses& addresses_;
  std::int64_t score_row_;  // distance of neighbouring rows
  std::int64_t sum_row_;    // likewise
  std::int64_t first_ = 0;  // query
  std::int64_t count_ = 0;  // of queries
  std::int64_t mask_offset_ = 0;
  head_rows q_{};
  head_rows k_{};
  head_rows v_{};
  row_block queries_{};
  bool has_queries_ = false;
  std::vector<float> query_copy_;
  std::vector<float> key_copy_;
  std::vector<float> value_copy_;
  std::vector<float> scores_;  // then their weights
  std::vector<float> sums_;
  std::vector<float> maxima_;
  std::vector<float> corrections_;
  std::vector<double> block_weights_;  // the sums of the last block's weights
  std::vector<double> weights_;        // the sums of all weights so far
};

}  // namespace

void compute_attention(const attention_call& call, const attention_addresses& addresses) {
  turn_off_openblas_threads();
  const auto query_blocks = blocks_of(call.queries, block_queries);
  const auto value_blocks = blocks_of(call.value_size, block_size);
  const auto products =
      static_cast<double>(std::min(call.queries, block_queries)) * static_cast<double>(call.keys) *
      static_cast<double>(call.key_size + std::min(call.value_size, block_size) + 8);
  const work_chunks chunks(call.batch * call.heads * query_blocks * value_blocks,
                           products / 30 + 1000);
  const library_call_scope scope({}, {});
  parallel_for(chunks.count(), [&](std::int64_t chunk) {
    query_block block(call, addresses);
    const auto [begin, end] = chunks[chunk];
    for (auto i = begin; i < end; ++i) {
      const auto value_block = i % value_blocks;
      const auto query = i / value_blocks % query_blocks * block_queries;
      const auto head = i / value_blocks / query_blocks;
      block.compute(head / call.heads, head % call.heads, query,
                    std::min(block_queries, call.queries - query), value_block * block_size,
                    std::min(block_size, call.value_size - value_block * block_size));
    }
  });
}

}  // namespace sluice::host
