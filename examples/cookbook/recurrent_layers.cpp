// SPDX-License-Identifier: Apache-2.0
#include <sluice/actors/device.hpp>

#include <cstddef>
#include <cstdint>
#include <iostream>
#include <utility>
#include <vector>

using namespace sluice;

/// The weights of a layer, with the gates in the order of PyTorch.
struct layer_weights {
  host_tensor w;  ///< f32, [directions, 4 * hidden, inputs]
  host_tensor r;  ///< f32, [directions, 4 * hidden, hidden]
};

/// Two layers of an LSTM, the first one in both directions, for sentences of any length.
program make_layers(layer_weights first, layer_weights second) {
  program_builder p;
  const auto x = p.input("x", per_request, padded{1});   // f32, [1, words, inputs]
  const auto lengths = p.input("lengths", per_request);  // i64, [1]
  const auto words = p.add("words", lstm{.x = x,
                                         .w = p.constant("w1", std::move(first.w)),
                                         .r = p.constant("r1", std::move(first.r)),
                                         .lengths = lengths,
                                         .direction = recurrent_direction::bidirectional,
                                         .layout = sequence_layout::batch_major,
                                         .order = gate_order::pytorch});
  const auto joined =
      p.add("joined", concatenate{.x = {words[0].select(2, 0), words[0].select(2, 1)}, .axis = -1});
  const auto sentence = p.add("sentence", lstm{.x = joined,
                                               .w = p.constant("w2", std::move(second.w)),
                                               .r = p.constant("r2", std::move(second.r)),
                                               .lengths = lengths,
                                               .layout = sequence_layout::batch_major,
                                               .order = gate_order::pytorch});
  return std::move(p).build({sentence[1]}, {.max_in_batch = 64});  // f32, [1, 1, hidden]
}

// NOLINTNEXTLINE(bugprone-exception-escape): an error ends this example.
int main() {
  caf::actor_system_config config;
  configure(config);
  caf::actor_system system{config};
  scoped_device device{system};

  const auto equal = [](float value, const extents& shape) {
    std::size_t count = 1;
    for (const auto extent : shape) count *= static_cast<std::size_t>(extent);
    return host_tensor(std::vector<float>(count, value), shape);
  };
  const auto layers = make_layers({equal(0.5F, {2, 4, 1}), equal(0.5F, {2, 4, 1})},
                                  {equal(1, {1, 4, 2}), equal(1, {1, 4, 1})});
  for (const std::int64_t words : {3, 1}) {
    const host_tensor x(std::vector<float>(static_cast<std::size_t>(words), 1), {1, words, 1});
    const host_tensor lengths(std::vector<std::int64_t>{words});
    const auto state =
        ask<host_tensors>(system, device.programs(), run_to_host{layers, {x, lengths}});
    for (const float value : state.front().values<float>()) std::cout << value << '\n';
  }
}
