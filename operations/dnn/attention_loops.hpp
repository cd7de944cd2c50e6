// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Loops over the scores of an attention, with the largest vectors of the processor.
namespace sluice::host {

/// The distance of neighbouring rows of scores is a multiple of this number.
inline constexpr std::int64_t score_padding = 16;

/// Scores of some queries, row by row, and some keys. Row r sees the keys before `visible` + r ·
/// `growth`.
struct score_block {
  float* first;
  std::int64_t row;  ///< distance of neighbouring rows
  std::int64_t rows;
  std::int64_t keys;
  std::int64_t visible;
  std::int64_t growth;
};

/// Replaces each score by its weight exp(score - maximum) with the largest score of its row so far,
/// and those of hidden keys by 0. A score of -infinity has the weight 0 also where there are no
/// others.
/// @param maxima   of all scores before; becomes that of all scores
/// @param changes  becomes the maximum before - that after, at most 0
/// @param sums     becomes the sum of the weights; NaN if a score is NaN or infinity
void weigh_scores_f32(const score_block& scores, float* maxima, float* changes, double* sums);

}  // namespace sluice::host
