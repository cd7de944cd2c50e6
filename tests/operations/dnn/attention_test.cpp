// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/dnn/real_numbers.hpp"
#include "tests/operations/elementwise/elements.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/operations/attention.hpp>
#include <sluice/operations/program.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

constexpr std::array attention_types{element_type::f16, element_type::bf16, element_type::f32};

/// The extents of an attention.
struct attention_shape {
  std::int64_t batch = 1;
  std::int64_t heads = 1;
  std::int64_t shared = 1;  ///< heads of K and V
  std::int64_t queries = 1;
  std::int64_t keys = 1;
  std::int64_t key_size = 1;
  std::int64_t value_size = 1;
};

/// How the operands are made.
struct attention_options {
  bool has_gaps = true;
  bool has_mask = false;
  bool adds_mask = false;
  causal_mask causal = causal_mask::none;
  double scale = 0;
  extents mask_shape{};          ///< a random one if empty
  bool result_has_gaps = false;  ///< also if `has_gaps` is false
};

class attention_operation : public elementwise_test {
 protected:
  [[nodiscard]] bool on_gpu() { return runtime().device().id().kind != device_kind::host; }

  attention_options random_options(bool has_gaps) {
    return {.has_gaps = has_gaps,
            .has_mask = coin(),
            .adds_mask = coin(),
            .causal = static_cast<causal_mask>(between(0, 2)),
            .scale = coin() ? 0 : 0.01 * static_cast<double>(between(-50, 150))};
  }
  /// A tensor of this shape; the sequence lies outside of the heads, or anywhere.
  elements heads(element_type type, const extents& shape, bool has_gaps) {
    if (has_gaps) return make(type, shape);
    return {runtime(),
            stream(),
            generator(),
            type,
            {.shape = shape, .order = coin() ? extents{0, 2, 1, 3} : extents{0, 1, 2, 3}}};
  }
  /// The rows of one head as numbers.
  static std::vector<double> head_of(const elements& all, std::int64_t image, std::int64_t head) {
    const auto& shape = all.view().shape();
    std::vector<double> numbers;
    for (std::int64_t row = 0; row < shape[2]; ++row) {
      for (std::int64_t e = 0; e < shape[3]; ++e) {
        numbers.push_back(static_cast<double>(all[{image, head, row, e}].real()));
      }
    }
    return numbers;
  }
  /// The scores of one query, by the definition.
  struct score_row {
    std::vector<double> scores;
    double magnitude = 0;  // of the numbers from which they are computed
  };
  static score_row scores_of(const attention& op, const double* query, const double* keys,
                             const elements* mask, const extents& i) {
    const auto size = op.q.value().shape()[3];
    const auto count = op.k.value().shape()[2];
    const auto root = std::sqrt(static_cast<double>(std::max<std::int64_t>(size, 1)));
    const auto scale = op.scale != 0 ? op.scale : 1 / root;
    const auto shift = op.causal == causal_mask::bottom_right ? count - op.q.value().shape()[2] : 0;
    score_row row;
    for (std::int64_t j = 0; j < count; ++j) {
      double sum = 0;
      double magnitude = 0;
      for (std::int64_t e = 0; e < size; ++e) {
        sum += query[e] * keys[j * size + e];
        magnitude += std::abs(query[e] * keys[j * size + e]);
      }
      sum *= scale;
      magnitude *= std::abs(scale);
      bool is_hidden = op.causal != causal_mask::none && j > i[2] + shift;
      if (mask != nullptr) {
        const auto value = static_cast<double>((*mask)[{i[0], i[1], i[2], j}].real());
        if (mask->type() == element_type::boolean) {
          is_hidden = is_hidden || value == 0;
        } else {
          sum += value;
          magnitude += std::isfinite(value) ? std::abs(value) : 0;
        }
      }
      row.scores.push_back(is_hidden ? -std::numeric_limits<double>::infinity() : sum);
      row.magnitude = std::max(row.magnitude, magnitude);
    }
    return row;
  }

  void expect_attended(element_type type, const attention_shape& s, const attention_options& o) {
    const auto q = heads(type, {s.batch, s.heads, s.queries, s.key_size}, o.has_gaps);
    const auto k = heads(type, {s.batch, s.shared, s.keys, s.key_size}, o.has_gaps);
    const auto v = heads(type, {s.batch, s.shared, s.keys, s.value_size}, o.has_gaps);
    const extents mask_shape{s.batch, s.heads, s.queries, s.keys};
    auto mask =
        make(o.adds_mask ? type : element_type::boolean, !o.mask_shape.empty() ? o.mask_shape
                                                         : coin()              ? mask_shape
                                                                  : part_of(mask_shape));
    if (o.adds_mask && coin()) hide_some(mask);
    attention op{.q = q.view(), .k = k.view(), .v = v.view(), .scale = o.scale, .causal = o.causal};
    if (o.has_mask) op.mask = mask.view();
    const extents shape{s.batch, s.heads, s.queries, s.value_size};
    const auto y = heads(type, shape, o.has_gaps || o.result_has_gaps);
    const bool gives_y = coin();
    if (gives_y) op.y = y.view();
    SCOPED_TRACE(std::string(to_string(type)) + " q " + to_string(q.view().shape()) + " strides " +
                 to_string(q.view().strides()) + " k " + to_string(k.view().shape()) + " v " +
                 to_string(v.view().shape()) + (o.has_mask ? " mask" : "") +
                 (o.has_mask && o.adds_mask ? " added " : " ") + to_string(mask.view().shape()) +
                 " causal " + std::to_string(static_cast<int>(o.causal)) + " scale " +
                 std::to_string(o.scale));
    const auto result = run(test_executor(), op);
    ASSERT_EQ(result.shape(), shape);

    extents last_query{-1, -1, -1};
    std::vector<double> queries;
    std::vector<double> keys;
    std::vector<double> values;
    score_row row;
    double total = 0;
    expect_each(result, [&](const extents& i, const number& computed) {
      if (const extents query{i[0], i[1], i[2]}; query != last_query) {
        if (i[0] != last_query[0] || i[1] != last_query[1]) {
          const auto shared = i[1] / (s.heads / s.shared);
          queries = head_of(q, i[0], i[1]);
          keys = head_of(k, i[0], shared);
          values = head_of(v, i[0], shared);
        }
        last_query = query;
        row = scores_of(op, queries.data() + i[2] * s.key_size, keys.data(),
                        o.has_mask ? &mask : nullptr, i);
        double largest = -std::numeric_limits<double>::infinity();
        for (const auto score : row.scores) largest = std::max(largest, score);
        total = 0;
        for (auto& score : row.scores) {
          score = std::isinf(score) ? 0 : std::exp(score - largest);
          total += score;
        }
      }
      double sum = 0;
      double magnitude = 0;
      double all_values = 0;
      for (std::int64_t j = 0; j < s.keys; ++j) {
        const auto value = values[static_cast<std::size_t>(j * s.value_size + i[3])];
        const auto weighted = row.scores[static_cast<std::size_t>(j)] * value;
        sum += weighted;
        magnitude += std::abs(weighted);
        all_values += std::abs(value);
      }
      const auto wanted = total == 0 ? 0 : sum / total;
      if (total != 0) magnitude /= total;
      // The weights depend on errors of the scores. A GPU rounds them to 16 bits.
      const auto unit = type == element_type::f16    ? 0x1p-11
                        : type == element_type::bf16 ? 0x1p-8
                                                     : 0;
      const auto rounding = on_gpu() ? magnitude * unit + all_values * unit * 0x1p-14 : 0;
      const auto error = 2 * magnitude * 0x1p-24 *
                         (16 + row.magnitude * (2 + std::sqrt(static_cast<double>(s.key_size))));
      const auto bound =
          static_cast<double>(bound_of(type, wanted, magnitude, s.keys)) + error + rounding;
      return std::abs(static_cast<double>(computed.real()) - wanted) <= bound
                 ? ::testing::AssertionSuccess()
                 : ::testing::AssertionFailure()
                       << computed.real() << " is not " << wanted << ", bound " << bound;
    });
    if (gives_y) {
      EXPECT_EQ(result, y.view());
      expect_gaps_untouched(y);
    }
  }

  /// Sets elements of a type to numbers, in turn.
  static void set_numbers(elements& target, const std::vector<float>& numbers) {
    if (target.type() == element_type::f32) return target.set(numbers);
    if (target.type() == element_type::f16) {
      return target.set(std::vector<f16>(numbers.begin(), numbers.end()));
    }
    target.set(std::vector<bf16>(numbers.begin(), numbers.end()));
  }

 private:
  /// Replaces a third of the elements of a mask by -infinity.
  void hide_some(elements& mask) {
    constexpr auto hidden = -std::numeric_limits<float>::infinity();
    std::vector<float> numbers;
    for (int i = 0; i < 101; ++i) {
      numbers.push_back(between(0, 2) == 0 ? hidden
                                           : 0.01F * static_cast<float>(between(-200, 200)));
    }
    set_numbers(mask, numbers);
  }
};

TEST_P(attention_operation, of_all_types_masks_and_strides) {
  for (const auto type : attention_types) {
    for (int round = 0; round < 30 && !HasFailure(); ++round) {
      const auto shared = between(1, 3);
      const bool is_long = round % 10 == 0;
      expect_attended(type,
                      {.batch = between(1, 2),
                       .heads = shared * between(1, 3),
                       .shared = shared,
                       .queries = between(1, is_long ? 150 : 20),
                       .keys = between(1, is_long ? 200 : 40),
                       .key_size = between(1, 40),
                       .value_size = between(1, 40)},
                      random_options(true));
    }
  }
}

// Heads of models, with rows of whole vectors, and several blocks of queries and keys.
TEST_P(attention_operation, of_whole_vectors) {
  for (const auto type : attention_types) {
    for (const std::int64_t size : {16, 64, 80, 128}) {
      if (HasFailure()) return;
      expect_attended(type,
                      {.batch = 2,
                       .heads = 2,
                       .shared = between(1, 2),
                       .queries = between(60, 100),
                       .keys = between(60, 140),
                       .key_size = size,
                       .value_size = coin() ? size : 8 * between(1, 16)},
                      random_options(false));
    }
  }
}

// Heads that share keys, around the ends of blocks of queries, keys and elements.
TEST_P(attention_operation, of_partial_blocks) {
  constexpr std::array<std::int64_t, 8> counts{63, 64, 65, 127, 128, 129, 130, 257};
  const auto count = [&] {
    return counts[static_cast<std::size_t>(between(0, 7))];
  };
  for (const auto type : attention_types) {
    for (int round = 0; round < 12 && !HasFailure(); ++round) {
      auto options = random_options(coin());
      options.has_mask = round % 3 != 0;
      expect_attended(type,
                      {.heads = 4,
                       .shared = std::int64_t{1} << between(0, 2),
                       .queries = between(63, 130),
                       .keys = count(),
                       .key_size = round == 0 ? 257 : between(1, 33),
                       .value_size = round == 1 ? 257 : between(1, 33)},
                      options);
    }
  }
}

// Few queries of many keys, and many queries of few keys.
TEST_P(attention_operation, of_narrow_scores) {
  for (const auto type : attention_types) {
    for (const std::int64_t few : {1, 2, 3, 15, 16, 17}) {
      if (HasFailure()) return;
      const bool has_few_queries = coin();
      expect_attended(type,
                      {.batch = 2,
                       .heads = 2,
                       .shared = between(1, 2),
                       .queries = has_few_queries ? few : between(1, 200),
                       .keys = has_few_queries ? between(1, 400) : few,
                       .key_size = 8 * between(1, 16),
                       .value_size = 8 * between(1, 16)},
                      random_options(coin()));
    }
  }
}

// Few queries and keys, around the ends of what a warp and a block of a GPU have, with all kinds of
// masks.
TEST_P(attention_operation, of_short_sequences) {
  for (const auto type : {element_type::f16, element_type::bf16}) {
    for (const std::int64_t size : {8, 40, 64}) {
      for (const std::int64_t keys : {1, 31, 32, 33, 128, 256, 257}) {
        const auto shared = between(1, 2);
        const attention_shape s{.batch = between(1, 2),
                                .heads = shared * between(1, 2),
                                .shared = shared,
                                .queries = between(1, 35),
                                .keys = keys,
                                .key_size = size,
                                .value_size = size == 64 || coin() ? size : 8 * between(1, 8)};
        const auto of_mask = [&](const extents& mask_shape, bool adds_mask, causal_mask causal) {
          if (HasFailure()) return;
          auto options = random_options(false);
          options.has_mask = !mask_shape.empty();
          options.adds_mask = adds_mask;
          options.causal = causal;
          options.mask_shape = mask_shape;
          options.result_has_gaps = coin();
          expect_attended(type, s, options);
        };
        of_mask({}, false, causal_mask::none);
        of_mask({}, false, coin() ? causal_mask::top_left : causal_mask::bottom_right);
        of_mask({s.batch, 1, 1, keys}, false, causal_mask::none);
        of_mask({s.batch, 1, 1, keys}, true, causal_mask::none);
        of_mask({s.batch, s.heads, s.queries, keys}, coin(), causal_mask::none);
        of_mask({s.queries, keys}, coin(), coin() ? causal_mask::none : causal_mask::bottom_right);
      }
    }
  }
}

// More blocks, or more keys, than are fast on a GPU if the warps of a block divide the keys.
TEST_P(attention_operation, of_many_short_sequences) {
  for (const auto type : {element_type::f16, element_type::bf16}) {
    const auto expect = [&](bool has_mask, const attention_shape& s) {
      if (HasFailure()) return;
      auto options = random_options(false);
      options.has_mask = has_mask;
      expect_attended(type, s, options);
    };
    attention_shape s{.batch = 8, .heads = 12, .shared = 4, .key_size = 64, .value_size = 8};
    s.queries = between(65, 90);
    s.keys = between(20, 60);
    expect(false, s);
    s.shared = 12;
    expect(true, s);
    s = {.batch = 1, .heads = 2, .shared = 1, .key_size = 64, .value_size = 64};
    s.queries = between(65, 150);
    s.keys = between(513, 600);
    expect(coin(), s);
  }
}

// On a host device, a head has the same bits alone and among others.
TEST_P(attention_operation, of_one_head_of_many) {
  if (on_gpu()) GTEST_SKIP() << "blocks of a GPU may depend on the number of heads";
  const auto type = element_type::f32;
  const auto q = make_contiguous(type, {3, 4, 130, 48});
  const auto k = make_contiguous(type, {3, 2, 130, 48});
  const auto v = make_contiguous(type, {3, 2, 130, 40});
  const auto all = contents_of(
      run(test_executor(),
          attention{.q = q.view(), .k = k.view(), .v = v.view(), .causal = causal_mask::top_left}));
  const auto image = between(0, 2);
  const auto head = between(0, 3);
  const auto part = [&](const elements& heads, std::int64_t index) {
    return heads.view().slice(0, image, image + 1).slice(1, index, index + 1);
  };
  const auto one = contents_of(run(test_executor(), attention{.q = part(q, head),
                                                              .k = part(k, head / 2),
                                                              .v = part(v, head / 2),
                                                              .causal = causal_mask::top_left}));
  const std::int64_t bytes = 130 * 40 * 4;
  ASSERT_EQ(static_cast<std::int64_t>(one.size()), bytes);
  const auto first = all.begin() + (image * 4 + head) * bytes;
  EXPECT_TRUE(std::equal(one.begin(), one.end(), first, first + bytes));
}

TEST_P(attention_operation, of_large_heads) {
  for (const auto type : attention_types) {
    expect_attended(type, {.queries = 3, .keys = 70, .key_size = 300, .value_size = 20},
                    random_options(coin()));
    expect_attended(type, {.queries = 66, .keys = 5, .key_size = 9, .value_size = 300},
                    random_options(coin()));
  }
}

TEST_P(attention_operation, of_scores_far_apart) {
  for (const auto type : attention_types) {
    for (const std::int64_t size : {8, 64}) {
      auto options = random_options(size == 8);
      options.scale = 30;
      expect_attended(type, {.queries = 40, .keys = 150, .key_size = size, .value_size = size},
                      options);
    }
  }
}

TEST_P(attention_operation, of_operands_that_repeat_elements) {
  const auto q = make(element_type::f32, {1, 1, 1, 8});
  const auto v = make(element_type::f32, {1, 1, 1, 4});
  const auto many = q.view().broadcast_to({2, 4, 70, 8});
  const auto y = run(test_executor(), attention{.q = many,
                                                .k = q.view().broadcast_to({2, 2, 90, 8}),
                                                .v = v.view().broadcast_to({2, 2, 90, 4})});
  expect_each(y, [&](const extents& i, const number& computed) {
    const auto wanted = v[{0, 0, 0, i[3]}].real();
    return std::abs(computed.real() - wanted) <= 1e-5 ? ::testing::AssertionSuccess()
                                                      : ::testing::AssertionFailure();
  });
}

TEST_P(attention_operation, of_queries_that_see_no_key_is_zero) {
  const auto expect_zeros = [&](element_type type, std::int64_t size, bool has_gaps) {
    const auto q = heads(type, {1, 2, 70, size}, has_gaps);
    const auto k = heads(type, {1, 2, 30, size}, has_gaps);
    auto mask = make_contiguous(element_type::boolean, {1});
    mask.set(std::vector<std::uint8_t>{0});
    const auto zero = [](const extents&) {
      return number(0);
    };
    expect_elements(
        run(test_executor(),
            attention{.q = q.view(), .k = k.view(), .v = k.view(), .mask = mask.view()}),
        zero);
    expect_elements(
        run(test_executor(),
            attention{.q = q.view(), .k = k.view().slice(2, 0, 0), .v = k.view().slice(2, 0, 0)}),
        zero);
    // The last query sees the last key, so 40 of them see none.
    const auto y =
        run(test_executor(),
            attention{
                .q = q.view(), .k = k.view(), .v = k.view(), .causal = causal_mask::bottom_right});
    expect_each(y, [](const extents& i, const number& computed) {
      return (computed.real() == 0) == (i[2] < 40) ? ::testing::AssertionSuccess()
                                                   : ::testing::AssertionFailure();
    });
  };
  for (const auto type : attention_types) {
    expect_zeros(type, 16, true);
    for (const std::int64_t size : {16, 64}) expect_zeros(type, size, false);
  }
}

// A boolean mask replaces the scores of the keys that it hides, whatever they are.
TEST_P(attention_operation, does_not_read_scores_of_hidden_keys) {
  constexpr auto nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto type : attention_types) {
    for (const std::int64_t count : {20, 100, 128, 200, 300, 600}) {
      for (const std::int64_t size : {8, 64}) {
        const auto q = make_contiguous(type, {2, 2, 20, size});
        const auto v = make_contiguous(type, {2, 2, count, size});
        auto k = make_contiguous(type, {2, 2, count, size});
        auto mask = make_contiguous(element_type::boolean, {1, 1, 1, count});
        // Every third key is hidden in each head.
        const auto total = static_cast<std::size_t>(4 * count * size + 3);
        std::vector<float> keys(total, 0.5F);
        for (std::size_t i = 0; i < total; ++i) {
          const auto key = static_cast<std::int64_t>(i) / size % count;
          if (key % 3 == 1) keys[i] = nan;
        }
        set_numbers(k, keys);
        std::vector<std::uint8_t> seen;
        for (std::int64_t j = 0; j < count + 3; ++j) seen.push_back(j % 3 == 1 ? 0 : 1);
        mask.set(seen);
        const auto y =
            run(test_executor(),
                attention{.q = q.view(), .k = k.view(), .v = v.view(), .mask = mask.view()});
        expect_each(y, [](const extents&, const number& computed) {
          return std::abs(computed.real()) <= 1 ? ::testing::AssertionSuccess()
                                                : ::testing::AssertionFailure();
        });
      }
    }
  }
}

TEST_P(attention_operation, keeps_nan) {
  for (const auto type : attention_types) {
    const std::int64_t size = coin() ? 4 : 64;
    const auto q = heads(type, {1, 1, 70, size}, coin());
    const auto v = heads(type, {1, 1, 80, size}, coin());
    auto k = make_contiguous(type, {1, 1, 80, size});
    std::vector<float> keys(static_cast<std::size_t>(80 * size + 3), 0.5F);
    keys[static_cast<std::size_t>(71 * size)] = std::numeric_limits<float>::quiet_NaN();
    set_numbers(k, keys);
    // Every query but the first one sees the key.
    auto mask = make_contiguous(element_type::boolean, {70, 80});
    std::vector<std::uint8_t> seen(5603, 1);
    std::fill_n(seen.begin(), 80, 0);
    seen[0] = 1;
    mask.set(seen);
    const auto y = run(test_executor(),
                       attention{.q = q.view(), .k = k.view(), .v = v.view(), .mask = mask.view()});
    expect_each(y, [](const extents& i, const number& computed) {
      return std::isnan(computed.real()) == (i[2] != 0) ? ::testing::AssertionSuccess()
                                                        : ::testing::AssertionFailure();
    });
  }
}

// The scale is rounded to 0, which makes all scores 0 but those of NaN.
TEST_P(attention_operation, with_the_smallest_scale_keeps_nan) {
  const auto type = element_type::f32;
  auto q = make_contiguous(type, {1, 1, 3, 1});
  set_numbers(q, {1, std::numeric_limits<float>::quiet_NaN(), 2});
  const auto k = make_contiguous(type, {1, 1, 5, 1});
  auto v = make_contiguous(type, {1, 1, 5, 1});
  set_numbers(v, {1});
  const auto y =
      run(test_executor(), attention{.q = q.view(), .k = k.view(), .v = v.view(), .scale = 1e-60});
  expect_each(y, [](const extents& i, const number& computed) {
    const bool is_right =
        i[2] == 1 ? std::isnan(computed.real()) : std::abs(computed.real() - 1) <= 1e-6;
    return is_right ? ::testing::AssertionSuccess() : ::testing::AssertionFailure();
  });
}

TEST_P(attention_operation, of_no_elements) {
  constexpr std::int64_t many = std::int64_t{1} << 40U;
  const auto block = make_contiguous(element_type::f32, {1}).view().block();
  const auto none = [&](const extents& shape) {
    return tensor(block, element_type::f32, shape);
  };
  EXPECT_EQ(run(test_executor(), attention{.q = none({many, 0, many, 8}),
                                           .k = none({many, 0, 4, 8}),
                                           .v = none({many, 0, 4, 3})})
                .shape(),
            (extents{many, 0, many, 3}));
  // Without elements of a key, all keys have the same weight.
  const auto v = make_contiguous(element_type::f32, {1, 1, 2, 3});
  const auto y = run(test_executor(),
                     attention{.q = none({1, 1, 5, 0}), .k = none({1, 1, 2, 0}), .v = v.view()});
  expect_each(y, [&](const extents& i, const number& computed) {
    const auto wanted = (v[{0, 0, 0, i[3]}].real() + v[{0, 0, 1, i[3]}].real()) / 2;
    return std::abs(computed.real() - wanted) <= 1e-6 ? ::testing::AssertionSuccess()
                                                      : ::testing::AssertionFailure();
  });
}

TEST_P(attention_operation, in_a_program) {
  program_builder p;
  const auto input = p.input("x");
  // Sequences of the shape (B, N, H, D).
  const auto head = input.permute({0, 2, 1, 3});
  const auto program =
      std::move(p).build({p.add("attended", attention{.q = head, .k = head, .v = head})});
  const auto x = make_contiguous(element_type::f32, {2, 20, 3, 8});
  const auto view = x.view().permute({0, 2, 1, 3});
  const auto together = run(test_executor(), sluice::run{program, {x.view()}});
  const auto alone = run(test_executor(), attention{.q = view, .k = view, .v = view});
  EXPECT_EQ(contents_of(together[0]), contents_of(alone));
}

TEST_P(attention_operation, refusals) {
  const auto refuse = [&](const std::string& text, const attention& op) {
    EXPECT_TRUE(throws(errc::invalid_argument, text, [&] { (void)run(test_executor(), op); }))
        << text;
  };
  const auto f32 = element_type::f32;
  const auto q = make(f32, {2, 4, 5, 8}).view();
  const auto k = make(f32, {2, 2, 7, 8}).view();
  const auto v = make(f32, {2, 2, 7, 3}).view();
  refuse("q: is not given", {.k = k, .v = v});
  refuse("k: is not given", {.q = q, .v = v});
  refuse("v: is not given", {.q = q, .k = k});
  refuse("q: is of type f64", {.q = make(element_type::f64, {2, 4, 5, 8}).view(), .k = k, .v = v});
  refuse("k: is of type f16", {.q = q, .k = make(element_type::f16, {2, 2, 7, 8}).view(), .v = v});
  refuse("v: is of type f16", {.q = q, .k = k, .v = make(element_type::f16, {2, 2, 7, 3}).view()});
  refuse("q: has the shape [4, 5, 8]", {.q = q.select(0, 0), .k = k, .v = v});
  refuse("k: has the shape [2, 7, 8]", {.q = q, .k = k.select(0, 0), .v = v});
  refuse("v: has the shape [2, 7, 3]", {.q = q, .k = k, .v = v.select(0, 0)});
  refuse("k: has the shape [1, 2, 7, 8]", {.q = q, .k = k.slice(0, 0, 1), .v = v});
  refuse("k: has the shape [2, 2, 7, 4]", {.q = q, .k = k.slice(3, 0, 4), .v = v});
  refuse("v: has the shape [2, 2, 6, 3]", {.q = q, .k = k, .v = v.slice(2, 0, 6)});
  refuse("v: has the shape [2, 1, 7, 3]", {.q = q, .k = k, .v = v.slice(1, 0, 1)});
  refuse("k: has 2 heads", {.q = q.slice(1, 0, 3), .k = k, .v = v});
  refuse("k: has 0 heads", {.q = q, .k = k.slice(1, 0, 0), .v = v.slice(1, 0, 0)});
  refuse("scale: is nan", {.q = q, .k = k, .v = v, .scale = std::nan("")});
  refuse("scale: is ", {.q = q, .k = k, .v = v, .scale = 1e300});
  refuse("causal: 3", {.q = q, .k = k, .v = v, .causal = static_cast<causal_mask>(3)});
  refuse("mask: is of type u8",
         {.q = q, .k = k, .v = v, .mask = make(element_type::u8, {7}).view()});
  refuse("mask: is of type f16",
         {.q = q, .k = k, .v = v, .mask = make(element_type::f16, {7}).view()});
  refuse("mask: has the shape [5]", {.q = q, .k = k, .v = v, .mask = make(f32, {5}).view()});
  refuse("y: has the shape", {.q = q, .k = k, .v = v, .y = q});
  const auto y = make_contiguous(f32, {2, 4, 5, 8}).view();
  refuse("y: ", {.q = y, .k = k, .v = k, .y = y});
}

INSTANTIATE_TEST_SUITE_P(devices, attention_operation, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
