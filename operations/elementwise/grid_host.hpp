// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/grid_call.hpp"
#include "operations/elementwise/host_loop.hpp"

#include <cstdint>

namespace sluice::host {

/// The elements of x that make up a sample, and their weights.
template <class T>
struct grid_terms {
  static constexpr int max_count = 64;
  int count = 0;
  T weights[max_count];
  std::int64_t offsets[max_count];
};

template <int Axis, class T, int Axes, int Taps>
void add_grid_terms(const operations::grid_taps<T, Taps> (&along)[Axes], std::int64_t offset,
                    T weight, grid_terms<T>& terms) {
  if constexpr (Axis == Axes) {
    terms.weights[terms.count] = weight;
    terms.offsets[terms.count++] = offset;
  } else {
    for (int k = 0; k < Taps; ++k) {
      if (along[Axis].weights[k] == T(0)) continue;
      add_grid_terms<Axis + 1>(along, offset + along[Axis].offsets[k],
                               weight * along[Axis].weights[k], terms);
    }
  }
}

/// Computes a `grid_call`: the elements around a position once for all channels.
template <class T, int Axes, int Taps>
void sample_grid(const operations::grid_body<T, Axes, Taps>& body,
                 const operations::map_layout<3>& layout) {
  using namespace operations;
  // The channels: dimensions along which the position is the same.
  map_layout<3> positions = layout;
  map_layout<3> channels = layout;
  positions.rank = channels.rank = 0;
  for (int d = 0; d < layout.rank; ++d) {
    auto& target = layout.strides[2][d] == 0 ? channels : positions;
    target.shape[target.rank] = layout.shape[d];
    for (int k = 0; k < 3; ++k) target.strides[k][target.rank] = layout.strides[k][d];
    ++target.rank;
  }
  for (auto* const part : {&positions, &channels}) {
    part->count = 1;
    if (part->rank == 0) {
      part->shape[part->rank++] = 1;
      for (auto& strides : part->strides) strides[0] = 0;
    }
    for (int d = 0; d < part->rank; ++d) part->count *= part->shape[d];
  }
  constexpr double position_nanoseconds = 10 * Axes * Taps;
  double sample_nanoseconds = 2;
  for (int i = 0; i < Axes; ++i) sample_nanoseconds *= Taps;
  const auto channel_count = static_cast<double>(channels.count);
  for_each_part(
      positions,
      {.nanoseconds = position_nanoseconds + sample_nanoseconds * channel_count, .least = 1},
      [&](const map_layout<3>& part, const map_position<3>& origin) {
        for_each_position(part, origin, [&](const map_position<3>& position) {
          typename grid_body<T, Axes, Taps>::taps along[Axes];
          body.place(layout, position.offsets[2], along);
          grid_terms<T> terms;
          add_grid_terms<0>(along, 0, T(1), terms);
          for_each_position(channels, position, [&](const map_position<3>& sample) {
            T total = 0;
            for (int k = 0; k < terms.count; ++k) {
              total += terms.weights[k] * load<T>(layout.types[1], body.addresses.inputs[0],
                                                  sample.offsets[1] + terms.offsets[k]);
            }
            store<overflow::saturates>(layout.types[0], body.addresses.y, sample.offsets[0], total);
          });
        });
      });
}

}  // namespace sluice::host
