// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/suppression_functions.hpp"
#include "runtime/seam.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace sluice::host {
namespace {

using namespace operations;

template <class T>
struct scored_box {
  T score;
  std::int64_t box;
};

/// The boxes that are selected in a group, by falling scores.
template <class T>
std::vector<std::int64_t> select_boxes(const suppression_call& call,
                                       const suppression_addresses& addresses, std::int64_t group) {
  const auto batch = group / call.classes;
  const auto place = batch * call.score_strides[0] + group % call.classes * call.score_strides[1];
  std::vector<scored_box<T>> candidates;
  for (std::int64_t i = 0; i < call.boxes; ++i) {
    const auto score = load<T>(call.type, addresses.scores, place + i * call.score_strides[2]);
    if (call.is_candidate(score)) candidates.push_back({score, i});
  }
  std::sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
    return a.score != b.score ? a.score > b.score : a.box < b.box;
  });
  std::vector<std::int64_t> selected;
  std::vector<box_edges<T>> kept;
  for (const auto& candidate : candidates) {
    if (static_cast<std::int64_t>(selected.size()) == call.most_of_group) break;
    const auto edges = box_at<T>(call, addresses.boxes, batch, candidate.box);
    const bool is_suppressed = std::any_of(kept.begin(), kept.end(), [&](const auto& other) {
      return overlap(edges, other, static_cast<T>(call.iou_threshold));
    });
    if (is_suppressed) continue;
    selected.push_back(candidate.box);
    kept.push_back(edges);
  }
  return selected;
}

/// Writes rows of (batch, class, box), one after the other.
class selected_rows {
 public:
  selected_rows(const suppression_call& call, const suppression_addresses& addresses) noexcept
      : call_(call), addresses_(addresses) {}
  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  [[nodiscard]] bool are_full() const noexcept { return count_ == call_.rows; }
  void write(std::int64_t batch, std::int64_t number, std::int64_t box) noexcept {
    auto* const target = addresses_.selected + count_++ * call_.selected_strides[0];
    target[0] = batch;
    target[call_.selected_strides[1]] = number;
    target[2 * call_.selected_strides[1]] = box;
  }

 private:
  const suppression_call& call_;
  const suppression_addresses& addresses_;
  std::int64_t count_ = 0;
};

template <class T>
void compute_suppression_in(const suppression_call& call, const suppression_addresses& addresses) {
  // Some groups at once, so that memory is bounded.
  constexpr std::int64_t most_groups = 4096;
  constexpr double nanoseconds_of_score = 20;
  constexpr double nanoseconds_of_pair = 2;
  const double nanoseconds =
      static_cast<double>(call.boxes) *
      (nanoseconds_of_score + nanoseconds_of_pair * static_cast<double>(call.most_of_group));
  selected_rows rows(call, addresses);
  std::vector<std::vector<std::int64_t>> selected;
  for (std::int64_t first = 0; first < call.groups() && !rows.are_full(); first += most_groups) {
    const auto groups = std::min(most_groups, call.groups() - first);
    selected.assign(static_cast<std::size_t>(groups), {});
    const work_chunks chunks(groups, nanoseconds);
    parallel_for(chunks.count(), [&](std::int64_t chunk) {
      const auto [begin, end] = chunks[chunk];
      for (auto i = begin; i < end; ++i) {
        selected[static_cast<std::size_t>(i)] = select_boxes<T>(call, addresses, first + i);
      }
    });
    for (std::int64_t i = 0; i < groups; ++i) {
      const auto group = first + i;
      for (const auto box : selected[static_cast<std::size_t>(i)]) {
        if (!rows.are_full()) rows.write(group / call.classes, group % call.classes, box);
      }
    }
  }
  *addresses.count = rows.count();
  while (!rows.are_full()) rows.write(-1, -1, -1);
}

}  // namespace

void compute_suppression(const suppression_call& call, const suppression_addresses& addresses) {
  if (call.type == storage::f64) return compute_suppression_in<double>(call, addresses);
  compute_suppression_in<float>(call, addresses);
}

}  // namespace sluice::host
