// SPDX-License-Identifier: Apache-2.0
// The parts in which threads of a host device compute normalizations of rows that lie side by side.
#include "operations/dnn/normalize_parts.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace sluice::test {
namespace {

using operations::map_layout;
using operations::map_position;
using operations::normalization;
using operations::normalize_call;
using operations::storage;

/// A normalization of the columns of a matrix.
normalize_call call_of_columns(normalization kind, storage type, std::int64_t count,
                               std::int64_t columns) {
  normalize_call call;
  call.kind = kind;
  call.type = type;
  call.rows = columns;
  call.count = count;
  call.shape[0] = columns;
  call.shape[1] = count;
  for (int k = 0; k < 2; ++k) {
    call.strides[k][0] = 1;
    call.strides[k][1] = columns;
  }
  return call;
}

/// The numbers of rows of the parts.
std::vector<std::int64_t> parts_of(const normalize_call& call) {
  map_layout<3> rows;
  rows.rank = 1;
  rows.count = call.rows;
  rows.shape[0] = call.rows;
  std::vector<std::int64_t> parts;
  // No task runs on this thread, so there is no other one.
  host::for_each_part(
      rows, host::cost_of_rows(call),
      [&](const map_layout<3>& part, const map_position<3>&) { parts.push_back(part.count); });
  return parts;
}

constexpr auto storages = {storage::f32, storage::f16, storage::f64};
constexpr auto normalizations = {normalization::layer,   normalization::rms,
                                 normalization::l1,      normalization::l2,
                                 normalization::softmax, normalization::log_softmax};

TEST(normalize_parts, of_few_long_columns_are_single_ones) {
  for (const auto type : storages) {
    for (const auto kind : normalizations) {
      EXPECT_EQ(parts_of(call_of_columns(kind, type, 1'000'000, 8)).size(), 8U);
    }
  }
}

TEST(normalize_parts, of_few_columns_suffice_for_several_threads) {
  for (const auto type : storages) {
    for (const auto kind : normalizations) {
      for (const std::int64_t columns : {8, 15}) {
        EXPECT_GE(parts_of(call_of_columns(kind, type, 100'000, columns)).size(), 4U) << columns;
      }
    }
  }
}

// Apart, they would be read more than once.
TEST(normalize_parts, have_the_columns_that_are_computed_together) {
  for (const auto type : storages) {
    for (const auto kind : normalizations) {
      EXPECT_EQ(parts_of(call_of_columns(kind, type, 30'000, 8)).size(), 1U);
    }
  }
}

// A thread that computes few columns reads a small part of each page.
TEST(normalize_parts, of_many_columns_are_large) {
  for (const auto type : storages) {
    for (const auto kind : normalizations) {
      auto parts = parts_of(call_of_columns(kind, type, 4096, 1024));
      EXPECT_GE(parts.size(), 8U);
      parts.pop_back();  // the rest
      EXPECT_GE(*std::min_element(parts.begin(), parts.end()), 64);
    }
  }
}

}  // namespace
}  // namespace sluice::test
