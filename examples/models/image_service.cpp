// SPDX-License-Identifier: Apache-2.0
// Serves a network for images, which takes images of bytes: image_service network.onnx HEIGHT WIDTH
#include <sluice/actors/device.hpp>
#include <sluice/models/model.hpp>

#include <cstdint>
#include <cstring>
#include <exception>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace sluice;

/// A network for images of f32 from -1 to 1, (batch, 3, height, width), behind a step that makes
/// them of images of bytes, (batch, height, width, 3).
class image_source final : public model_source {
 public:
  explicit image_source(model network) : network_(std::move(network)) {
    std::vector<model_dimension> shape{
        {.symbol = "batch"}, {.symbol = "height"}, {.symbol = "width"}, {.extent = 3}};
    inputs_.push_back({.name = "image", .type = element_type::u8, .shape = std::move(shape)});
  }

  const std::vector<model_value>& inputs() const noexcept override { return inputs_; }
  const std::vector<model_value>& outputs() const noexcept override { return network_.outputs(); }

  model_program program_for(const std::map<std::string, tensor_spec>& specs,
                            const std::map<std::string, host_tensor>& /*values*/,
                            const model_options& options) const override {
    const auto& image = specs.at("image");
    const auto& s = image.shape;
    const auto floats = tensor_spec::row_major(element_type::f32, {s[0], s[3], s[1], s[2]});
    auto made = network_.program_for({{network_.inputs().front().name, floats}}, {}, options);

    program_builder p;
    const auto bytes = p.input("image", image.type, s);
    const auto scaled = p.add(affine{.x = bytes.permute({0, 3, 1, 2}),
                                     .factor = 1 / 127.5,
                                     .offset = -1.0,
                                     .type = element_type::f32});
    const auto x = p.add(strided_copy{.x = scaled});  // row-major, as the network was made for
    const auto results = p.add("network", made.program, {x});
    made.program = std::move(p).build(results);
    made.inputs = {"image"};
    const std::vector<std::optional<std::size_t>> axes{0};
    made.batching = find_batch_axes(made.program, {{image}}, axes);
    if (made.batching && options.max_in_batch > 1) {
      made.program = made.program.with_batches(made.batching, options.max_in_batch);
    }
    return made;
  }

 private:
  const model network_;
  std::vector<model_value> inputs_;
};

void serve(caf::actor_system& system, scoped_device& device, const std::string& path,
           const extents& shape) {
  const auto models = device.models();
  (void)ask<model_description>(
      system, models,
      load_model{.name = "images", .source = std::make_shared<image_source>(model::open(path))});

  host_tensor image(element_type::u8, shape);
  std::memset(image.data().get(), 0, image.bytes());
  const auto results = ask<host_tensors>(
      system, models, run_model_to_host{.name = "images", .inputs = {{"image", image}}});
  for (const auto& result : results) std::cout << to_string(result.shape()) << '\n';
}

}  // namespace

int main(int count, char** arguments) {
  try {
    caf::actor_system_config config;
    configure(config);
    caf::actor_system system{config};
    scoped_device device{system};
    if (count == 4) {
      serve(system, device, arguments[1],
            {1, std::stoll(arguments[2]), std::stoll(arguments[3]), 3});
    }
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
