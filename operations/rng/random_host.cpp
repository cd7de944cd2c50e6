// SPDX-License-Identifier: Apache-2.0
#include "operations/rng/philox.hpp"
#include "operations/rng/random_call.hpp"

#include <Random123/philox.h>

#include <cstdint>

namespace sluice::host {
namespace {

using operations::random_call;
using operations::random_distribution;

struct random123_rounds {
  static operations::four<std::uint32_t> apply(const operations::four<std::uint32_t>& counter,
                                               std::uint32_t key_low, std::uint32_t key_high) {
    const r123::Philox4x32::ctr_type input = {
        {counter.lane[0], counter.lane[1], counter.lane[2], counter.lane[3]}};
    const r123::Philox4x32::key_type key = {{key_low, key_high}};
    const r123::Philox4x32::ctr_type output = r123::Philox4x32_R<10>()(input, key);
    return {{output[0], output[1], output[2], output[3]}};
  }
};

template <class Distribution>
void store(const Distribution& distribution, const random_call& call, void* y) {
  auto* const target = static_cast<typename Distribution::value_type*>(y);
  for (std::uint64_t g = call.first / 4;; ++g) {
    operations::store_group<random123_rounds>(distribution, call.seed, g, call.first, call.last,
                                              target);
    if (g == call.last / 4) break;
  }
}

}  // namespace

void compute_random(const random_call& call, void* y) {
  const bool single = call.type == element_type::f32;
  switch (call.distribution) {
    case random_distribution::bits:
      return store(operations::bits_distribution{}, call, y);
    case random_distribution::uniform:
      if (single) return store(operations::uniform_distribution<float>{}, call, y);
      return store(operations::uniform_distribution<double>{}, call, y);
    case random_distribution::normal:
      if (single) {
        return store(operations::normal_distribution<float>{static_cast<float>(call.mean),
                                                            static_cast<float>(call.stddev)},
                     call, y);
      }
      return store(operations::normal_distribution<double>{call.mean, call.stddev}, call, y);
  }
}

}  // namespace sluice::host
