// SPDX-License-Identifier: Apache-2.0
#include "actors/rng/philox.hpp"
#include "actors/rng/rng_libraries.hpp"

#include <sluice/runtime/host_task.hpp>

#include <Random123/philox.h>

#include <cstdint>

namespace sluice::actors {

namespace {

struct random123_rounds {
  static four<std::uint32_t> apply(const four<std::uint32_t>& counter, std::uint32_t key_low,
                                   std::uint32_t key_high) {
    const r123::Philox4x32::ctr_type in = {
        {counter.lane[0], counter.lane[1], counter.lane[2], counter.lane[3]}};
    const r123::Philox4x32::key_type key = {{key_low, key_high}};
    const r123::Philox4x32::ctr_type out = r123::Philox4x32_R<10>()(in, key);
    return {{out[0], out[1], out[2], out[3]}};
  }
};

class host_rng_library final : public rng_library {
 public:
  explicit host_rng_library(stream_ref stream) : stream_(stream) {}

  void generate(const random_description& description, void* out) override {
    require_valid(description);
    if (description.count == 0) return;
    const bool single = description.type == element_type::f32;
    switch (description.distribution) {
      case random_distribution::bits:
        return submit(bits_distribution{}, description, out);
      case random_distribution::uniform:
        if (single) return submit(uniform_distribution<float>{}, description, out);
        return submit(uniform_distribution<double>{}, description, out);
      case random_distribution::normal:
        if (single) {
          return submit(normal_distribution<float>{static_cast<float>(description.mean),
                                                   static_cast<float>(description.stddev)},
                        description, out);
        }
        return submit(normal_distribution<double>{description.mean, description.stddev},
                      description, out);
    }
  }

 private:
  template <class Distribution>
  void submit(Distribution distribution, const random_description& description, void* out) {
    const std::uint64_t first = description.offset;
    const std::uint64_t last = first + (description.count - 1);
    submit_host_task(stream_, [=, seed = description.seed,
                               target = static_cast<typename Distribution::value_type*>(out)] {
      for (std::uint64_t g = first / 4;; ++g) {
        store_group<random123_rounds>(distribution, seed, g, first, last, target);
        if (g == last / 4) break;
      }
    });
  }

  stream_ref stream_;
};

}  // namespace

std::unique_ptr<rng_library> make_host_rng_library(stream_ref stream) {
  return std::make_unique<host_rng_library>(stream);
}

}  // namespace sluice::actors
