// SPDX-License-Identifier: Apache-2.0
#include <sluice/actors/device.hpp>

#include <cmath>
#include <cstdint>
#include <iostream>
#include <utility>
#include <vector>

using namespace sluice;

/// Asks for the embedding of an image: a vector of length 1, f32.
struct embed {
  run_input image{};  ///< u8, of shape [1, height, width, 3]
};
using embedding_service = caf::typed_actor<takes<host_tensor(embed)>>;
SLUICE_MESSAGES(cookbook_embeddings, 240, embed)

/// The embeddings of images of any size. `w` has the shape [features, 3, 7, 7], and `projection`
/// [features, dimensions].
program make_embedding_program(const host_tensor& w, const host_tensor& projection) {
  program_builder p;
  const auto image = p.input("image", per_request);
  const auto resized = p.add(resize{.x = image, .sizes = {224, 224}, .axes = {1, 2}});
  const auto x = p.add(affine{.x = resized.permute({0, 3, 1, 2}),  // channels first
                              .scale = p.constant("scale", std::vector{0.0171F, 0.0175F, 0.0174F}),
                              .bias = p.constant("bias", std::vector{-2.118F, -2.036F, -1.804F}),
                              .axis = 1,
                              .type = element_type::f16});
  const auto filters = p.constant("w", w.to(element_type::f16));
  const auto features = p.add(
      conv2d{.x = x, .w = filters, .geometry = {.stride = {4, 4}}, .activation = activation::relu});
  const auto pooled = p.add(reduce{.x = features, .kind = reduction::mean, .axes = {2, 3}});
  const auto wide = p.add(cast{.x = pooled, .type = element_type::f32});
  const auto y = p.add(gemm{.a = wide, .b = p.constant("projection", projection)});
  return std::move(p).build({p.add(lp_norm{.x = y})}, {.max_in_batch = 32});
}

embedding_service::behavior_type behavior(embedding_service::pointer self,
                                          const program_actor& programs, const program& program) {
  return {[=](embed& query) {
    return answer_with(
        self, programs, [](const host_tensors& results) { return results.front(); },
        run_to_host{program, {std::move(query.image)}});
  }};
}

// NOLINTNEXTLINE(bugprone-exception-escape): an error ends this example.
int main() {
  caf::actor_system_config config;
  configure(config);
  caf::actor_system system{config};
  scoped_device device{system};

  const auto filled = [](const extents& shape) {
    host_tensor weights(element_type::f32, shape);
    float number = 0;
    for (auto& w : weights.values<float>()) w = std::sin(++number) / 8;
    return weights;
  };
  const auto program = make_embedding_program(filled({16, 3, 7, 7}), filled({16, 128}));
  const auto service = system.spawn<caf::detached>(behavior, device.programs(), program);
  const host_tensor image(std::vector<std::uint8_t>(std::size_t{30} * 40 * 3, 200), {1, 30, 40, 3});
  const auto embedding = ask<host_tensor>(system, service, embed{image});
  double squares = 0;
  for (const double x : embedding.values<float>()) squares += x * x;
  std::cout << to_string(embedding.shape()) << ", length " << std::round(squares) << '\n';
}
