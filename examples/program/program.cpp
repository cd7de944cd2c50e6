// SPDX-License-Identifier: Apache-2.0
#include <sluice/actors/device.hpp>

#include <cstdint>
#include <iostream>
#include <utility>
#include <vector>

int main() {
  caf::actor_system_config config;
  sluice::configure(config);
  caf::actor_system system{config};
  sluice::scoped_device device{system};  // the first GPU, else the host

  using namespace sluice;
  program_builder p;
  const auto image = p.input("image");
  const auto scaled =
      p.add("scaled", affine{.x = image, .factor = 1.0 / 255, .offset = -0.5});  // f32
  const auto product = p.add("product", gemm{.a = scaled, .b = scaled.transposed()});
  const auto largest = p.add("largest", reduce{.x = product, .kind = reduction::max});
  const program similarity = std::move(p).build({product, largest});

  const host_tensor pixels(std::vector<std::uint8_t>{0, 51, 102, 153, 204, 255}, {2, 3});
  const auto results =
      ask<host_tensors>(system, device.programs(), run_to_host{similarity, {pixels}});
  for (const auto& result : results) {
    for (const float value : result.values<float>()) std::cout << value << ' ';
    std::cout << '\n';
  }
  std::cout << similarity.text();
}
