// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/storage.hpp"

#include <sluice/host_device_code.hpp>

#include <cmath>
#include <cstdint>

// Kernels include this header, so it compiles as C++17.
namespace sluice {
struct native_stream;
}

namespace sluice::operations {

/// A suppression of boxes. A group is a class of a batch.
struct suppression_call {
  /// What the plan depends on.
  struct plan_key {
    std::int64_t workspace_bytes = 0;
  } key{};
  std::int64_t batches = 0;
  std::int64_t classes = 0;
  std::int64_t boxes = 0;
  std::int64_t most_of_group = 0;      ///< selected boxes, at most `boxes`
  std::int64_t rows = 0;               ///< of `selected`
  std::int64_t box_strides[3]{};       ///< batch, box, number
  std::int64_t score_strides[3]{};     ///< batch, class, box
  std::int64_t selected_strides[2]{};  ///< row, number
  double iou_threshold = 0;
  double score_threshold = 0;
  storage type = storage::f32;
  bool center_point_box = false;

  [[nodiscard]] SLUICE_HOST_DEVICE std::int64_t groups() const noexcept {
    return batches * classes;
  }
  /// Whether a box with a score can be selected.
  template <class T>
  [[nodiscard]] SLUICE_HOST_DEVICE bool is_candidate(T score) const noexcept {
    const auto threshold = static_cast<T>(score_threshold);
    return score > threshold || (score == threshold && threshold == -static_cast<T>(INFINITY));
  }
};

/// The memory of a launch.
struct suppression_addresses {
  const void* boxes = nullptr;
  const void* scores = nullptr;
  std::int64_t* selected = nullptr;
  std::int64_t* count = nullptr;
  void* workspace = nullptr;  ///< on GPUs
};

/// A box by its edges.
template <class T>
struct box_edges {
  T y1, x1, y2, x2;
  T area;
};
/// Box number `box` of a batch.
template <class T>
[[nodiscard]] SLUICE_HOST_DEVICE inline box_edges<T> box_at(const suppression_call& call,
                                                            const void* boxes, std::int64_t batch,
                                                            std::int64_t box) noexcept {
  const auto place = batch * call.box_strides[0] + box * call.box_strides[1];
  const auto number = [&](int i) {
    return load<T>(call.type, boxes, place + i * call.box_strides[2]);
  };
  const T a = number(0);
  const T b = number(1);
  const T c = number(2);
  const T d = number(3);
  box_edges<T> edges;
  if (call.center_point_box) {
    edges = {b - d / T(2), a - c / T(2), b + d / T(2), a + c / T(2), T(0)};
  } else {
    edges = {a < c ? a : c, b < d ? b : d, a < c ? c : a, b < d ? d : b, T(0)};
  }
  edges.area = (edges.y2 - edges.y1) * (edges.x2 - edges.x1);
  return edges;
}
/// Whether two boxes overlap by more than a threshold.
template <class T>
[[nodiscard]] SLUICE_HOST_DEVICE inline bool overlap(const box_edges<T>& a, const box_edges<T>& b,
                                                     T threshold) noexcept {
  const T y1 = a.y1 > b.y1 ? a.y1 : b.y1;
  const T x1 = a.x1 > b.x1 ? a.x1 : b.x1;
  const T y2 = a.y2 < b.y2 ? a.y2 : b.y2;
  const T x2 = a.x2 < b.x2 ? a.x2 : b.x2;
  if (!(y1 < y2) || !(x1 < x2)) return false;
  if (!(a.area > T(0)) || !(b.area > T(0))) return false;
  const T common = (y2 - y1) * (x2 - x1);
  const T united = a.area + b.area - common;
  return united > T(0) && common / united > threshold;
}

/// Loads the kernels. Returns a `cudaError_t`.
[[nodiscard]] int load_suppression();

/// Queues a suppression with at least one row on a stream of the current device. Returns a
/// `cudaError_t`.
[[nodiscard]] int launch_suppression(const suppression_call& call,
                                     const suppression_addresses& addresses, native_stream* stream);

}  // namespace sluice::operations
