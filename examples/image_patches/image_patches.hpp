// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/device.hpp>

#include <cstdint>

namespace sluice::examples {

/// What turns images into patches: the first layer of a vision transformer.
struct patch_weights {
  static constexpr std::int64_t image_size = 224;  ///< height and width to which images are resized
  static constexpr std::int64_t patch_size = 16;   ///< height and width of a patch

  host_tensor scale{};    ///< of each colour: f32, (3)
  host_tensor offset{};   ///< of each colour: f32, (3)
  host_tensor filters{};  ///< f32, (features, 3, patch_size, patch_size)
  host_tensor bias{};     ///< of each feature: f32, (features)
};

/// Asks for the features of the patches of an image: resized by bilinear interpolation, each colour
/// times its scale plus its offset, then the products of each patch with all filters.
///
/// The reply is one f32 tensor of 196 patches, row by row, times the features. A bad image is
/// answered with `invalid_argument`, and no other request is affected.
struct embed_image {
  host_tensor pixels{};  ///< bytes, red, green and blue: u8, (height, width, 3)
};

/// The service. Many requests may be in flight at a time, with images of different sizes.
using patch_service = caf::typed_actor<takes<tensors(embed_image)>>;

/// Starts a service over the program actor of `device`. It ends when its last handle is dropped.
/// @throws error what `device` answers when it is asked for its program actor
[[nodiscard]] patch_service spawn_patch_service(caf::actor_system& system,
                                                const device_actor& device,
                                                const patch_weights& weights);

}  // namespace sluice::examples

SLUICE_MESSAGES(sluice_patches, 1920, sluice::examples::embed_image)
