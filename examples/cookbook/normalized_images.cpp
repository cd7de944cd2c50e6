// SPDX-License-Identifier: Apache-2.0
#include <sluice/actors/device.hpp>

#include <cstddef>
#include <cstdint>
#include <iostream>
#include <utility>
#include <vector>

using namespace sluice;

/// Images of bytes as a network takes them: resized, (x / 255 - mean) / deviation for each colour,
/// channels first.
program make_normalized_images(const std::vector<float>& mean,
                               const std::vector<float>& deviation) {
  std::vector<float> scale(3);
  std::vector<float> bias(3);
  for (std::size_t c = 0; c < 3; ++c) {
    scale[c] = 1 / (255 * deviation[c]);
    bias[c] = -mean[c] / deviation[c];
  }
  program_builder p;
  const auto images = p.input("images");  // u8, [n, height, width, 3]
  const auto resized = p.add("resized", resize{.x = images, .sizes = {224, 224}, .axes = {-3, -2}});
  const auto y = p.add("y", affine{.x = resized.permute({0, 3, 1, 2}),
                                   .scale = p.constant("scale", host_tensor(scale)),
                                   .bias = p.constant("bias", host_tensor(bias)),
                                   .axis = 1,
                                   .type = element_type::f16});
  return std::move(p).build({y});  // f16, [n, 3, 224, 224]
}

// NOLINTNEXTLINE(bugprone-exception-escape): an error ends this example.
int main() {
  caf::actor_system_config config;
  configure(config);
  caf::actor_system system{config};
  scoped_device device{system};

  const host_tensor white(std::vector<std::uint8_t>(std::size_t{2} * 30 * 40 * 3, 255),
                          {2, 30, 40, 3});
  const auto program = make_normalized_images({0.5, 0.5, 0.5}, {0.25, 0.25, 0.25});
  const auto results = ask<host_tensors>(system, device.programs(), run_to_host{program, {white}});
  std::cout << to_string(results[0].shape()) << '\n';                         // [2, 3, 224, 224]
  std::cout << static_cast<float>(results[0].values<f16>().front()) << '\n';  // 2
}
