// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/attention_functions.hpp"
#include "operations/dnn/product_loops.hpp"
#include "operations/dnn/row_loops.hpp"
#include "operations/elementwise/f32_loops.hpp"
#include "runtime/seam.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace sluice::host {
namespace {

using namespace operations;

// Blocks whose buffers fit into the second-level cache, however large the heads are.
constexpr std::int64_t block_queries = 64;
constexpr std::int64_t block_keys = 64;
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

/// Computes blocks of `block_queries` queries and `block_size` elements of the values. The maxima
/// and the sums of the weights so far are corrected with each block of keys: Milakov and
/// Gimelshein, "Online normalizer calculation for softmax", 2018.
class query_block {
 public:
  query_block(const attention_call& call, const attention_addresses& addresses)
      : call_(call), addresses_(addresses) {
    const auto size = [](std::int64_t rows, std::int64_t columns) {
      return static_cast<std::size_t>(rows * columns);
    };
    const auto queries = std::min(call.queries, block_queries);
    queries_.resize(size(queries, block_size));
    keys_.resize(size(std::min(call.key_size, block_size), block_keys));
    values_.resize(size(std::min(call.keys, block_keys), block_size));
    scores_.resize(size(queries, block_keys));
    sums_.resize(size(queries, block_size));
    row_.resize(size(1, block_size));
    maxima_.resize(static_cast<std::size_t>(queries));
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
    columns_ = (size + product_columns - 1) / product_columns * product_columns;
    std::fill(sums_.begin(), sums_.end(), 0.0F);
    std::fill(maxima_.begin(), maxima_.end(), -attention_call::infinite_score);
    std::fill(weights_.begin(), weights_.end(), 0.0);
    has_queries_ = false;
    const auto visible = call_.visible_keys(first + count);
    for (std::int64_t key = 0; key < visible; key += block_keys) {
      add_keys(key, std::min(block_keys, visible - key), size);
    }
    store(image * call_.y[0] + head * call_.y[1] + first * call_.y[2] + element * call_.y[3], size);
  }

 private:
  [[nodiscard]] float* sums_of(std::int64_t r) noexcept { return sums_.data() + r * block_size; }
  [[nodiscard]] float* scores_of(std::int64_t r) noexcept {
    return scores_.data() + r * block_keys;
  }

  /// `count` elements of a row as f32.
  void read(const head_rows& head, std::int64_t row, std::int64_t element, std::int64_t count,
            float* target) const {
    const auto offset = head.offset + row * head.row + element * head.element;
    if (head.element == 1) {
      const auto* const bytes = static_cast<const std::byte*>(head.memory);
      return load_f32(call_.type, bytes + offset * bytes_of(call_.type), count, target);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      target[i] = load<float>(call_.type, head.memory, offset + i * head.element);
    }
  }

  /// Reads elements of the queries, scaled. If these are all of a head, they are read once.
  void read_queries(std::int64_t element, std::int64_t size) {
    if (has_queries_) return;
    for (std::int64_t r = 0; r < count_; ++r) {
      float* const row = queries_.data() + r * block_size;
      read(q_, r, element, size, row);
      for (std::int64_t i = 0; i < size; ++i) row[i] *= call_.scale;
    }
    has_queries_ = size == call_.key_size;
  }
  /// Reads elements of the keys, transposed.
  void read_keys(std::int64_t key, std::int64_t keys, std::int64_t element, std::int64_t size) {
    if (keys < block_keys) std::fill(keys_.begin(), keys_.end(), 0.0F);
    for (std::int64_t c = 0; c < keys; ++c) {
      read(k_, key + c, element, size, row_.data());
      for (std::int64_t i = 0; i < size; ++i) {
        keys_[static_cast<std::size_t>(i * block_keys + c)] = row_[static_cast<std::size_t>(i)];
      }
    }
  }

  void add_keys(std::int64_t key, std::int64_t keys, std::int64_t size) {
    std::fill(scores_.begin(), scores_.end(), 0.0F);
    for (std::int64_t element = 0; element < call_.key_size; element += block_size) {
      const auto elements = std::min(block_size, call_.key_size - element);
      read_queries(element, elements);
      read_keys(key, keys, element, elements);
      add_product_f32({queries_.data(), block_size}, {keys_.data(), block_keys}, count_, elements,
                      block_keys, {scores_.data(), block_keys});
    }
    for (std::int64_t r = 0; r < count_; ++r) weigh(r, key, keys);
    for (std::int64_t c = 0; c < keys; ++c) {
      float* const row = values_.data() + c * block_size;
      read(v_, key + c, 0, size, row);
      std::fill(row + size, row + columns_, 0.0F);
    }
    add_product_f32({scores_.data(), block_keys}, {values_.data(), block_size}, count_, keys,
                    columns_, {sums_.data(), block_size});
  }
  /// Turns the scores of a row into weights, and corrects what has been summed.
  void weigh(std::int64_t r, std::int64_t key, std::int64_t keys) {
    float* const scores = scores_of(r);
    auto visible = keys;
    if (call_.is_causal) {
      visible = std::clamp<std::int64_t>(call_.visible_keys(first_ + r + 1) - key, 0, keys);
    }
    if (call_.has_mask) {
      const auto offset = mask_offset_ + r * call_.mask[2] + key * call_.mask[3];
      for (std::int64_t c = 0; c < visible; ++c) {
        scores[c] = call_.masked(scores[c], addresses_.mask, offset + c * call_.mask[3]);
      }
    }
    std::fill(scores + visible, scores + keys, -attention_call::infinite_score);
    auto& maximum = maxima_[static_cast<std::size_t>(r)];
    auto& weight = weights_[static_cast<std::size_t>(r)];
    const auto largest = std::max(max_f32(scores, keys), maximum);
    // Scores of -infinity have the weight 0 also where there are no others.
    const float shift = largest == -attention_call::infinite_score ? 0 : largest;
    const auto sum = exponentials_f32(scores, keys, shift, scores);
    float correction = 0;
    (void)exponentials_f32(&maximum, 1, shift, &correction);
    weight = weight * static_cast<double>(correction) + sum;
    maximum = largest;
    if (correction == 1) return;
    float* const sums = sums_of(r);
    for (std::int64_t i = 0; i < columns_; ++i) sums[i] *= correction;
  }

  void store(std::int64_t offset, std::int64_t size) {
    for (std::int64_t r = 0; r < count_; ++r) {
      float* const sums = sums_of(r);
      const auto weight = weights_[static_cast<std::size_t>(r)];
      const auto factor = static_cast<float>(weight == 0 ? 0 : 1 / weight);
      for (std::int64_t i = 0; i < size; ++i) sums[i] *= factor;
      const auto first = offset + r * call_.y[2];
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
  std::int64_t first_ = 0;  // query
  std::int64_t count_ = 0;  // of queries
  std::int64_t columns_ = 0;
  std::int64_t mask_offset_ = 0;
  head_rows q_{};
  head_rows k_{};
  head_rows v_{};
  bool has_queries_ = false;
  std::vector<float> queries_;
  std::vector<float> keys_;  // transposed
  std::vector<float> values_;
  std::vector<float> scores_;
  std::vector<float> sums_;
  std::vector<float> row_;
  std::vector<float> maxima_;
  std::vector<double> weights_;
};

}  // namespace

void compute_attention(const attention_call& call, const attention_addresses& addresses) {
  const auto query_blocks = blocks_of(call.queries, block_queries);
  const auto value_blocks = blocks_of(call.value_size, block_size);
  const auto products =
      static_cast<double>(std::min(call.queries, block_queries)) * static_cast<double>(call.keys) *
      static_cast<double>(call.key_size + std::min(call.value_size, block_size) + 8);
  const work_chunks chunks(call.batch * call.heads * query_blocks * value_blocks,
                           products / 16 + 1000);
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
