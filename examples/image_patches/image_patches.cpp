// SPDX-License-Identifier: Apache-2.0
#include "examples/image_patches/image_patches.hpp"

#include <utility>

namespace sluice::examples {
namespace {

program make_program(const patch_weights& weights) {
  constexpr auto size = patch_weights::image_size;
  constexpr auto patch = patch_weights::patch_size;
  program_builder p;
  const auto pixels = p.input("pixels");
  // The resized pixels are rounded to bytes, as libraries for images do.
  const auto resized =
      p.add("resized", resize{.x = pixels, .sizes = {size, size}, .axes = {-3, -2}});
  const auto colours = p.add("normalized", affine{.x = resized.permute({2, 0, 1}),
                                                  .scale = p.constant("scale", weights.scale),
                                                  .bias = p.constant("offset", weights.offset),
                                                  .axis = 0});
  // The colours lie side by side until here. The filters have them one behind the other.
  const auto planes = p.add("planes", strided_copy{.x = colours});
  const auto features = p.add("features", conv2d{.x = planes.reshape({1, 3, size, size}),
                                                 .w = p.constant("filters", weights.filters),
                                                 .bias = p.constant("bias", weights.bias),
                                                 .geometry = {.stride = {.h = patch, .w = patch}}});
  return std::move(p).build({features.reshape({-1, (size / patch) * (size / patch)}).transposed()});
}

struct service_state {
  const char* name = "sluice.patches";
};
using service = patch_service::stateful_pointer<service_state>;

patch_service::behavior_type behavior(service self, const program_actor& programs,
                                      const program& patches) {
  return {[=](embed_image& request) -> caf::result<tensors> {
    if (request.pixels.type() != element_type::u8) {
      return to_caf_error(error(errc::invalid_argument, "pixels: are not of type u8"));
    }
    return delegate(self, programs, run{patches, {std::move(request.pixels)}});
  }};
}

}  // namespace

patch_service spawn_patch_service(caf::actor_system& system, const device_actor& device,
                                  const patch_weights& weights) {
  return system.spawn<caf::detached>(behavior, ask<program_actor>(system, device, get_programs{}),
                                     make_program(weights));
}

}  // namespace sluice::examples
