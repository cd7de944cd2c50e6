// SPDX-License-Identifier: Apache-2.0
// The service of docs/guide.md: how well documents fit queries.
#include <sluice/actors/device.hpp>
#include <sluice/runtime/dlpack.hpp>

#include <chrono>
#include <iostream>
#include <utility>
#include <vector>

using namespace sluice;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

program make_program(host_tensor documents) {
  program_builder p;
  const auto queries = p.input("queries");
  const auto table = p.constant("documents", std::move(documents));
  const auto scaled = p.add("scaled", affine{.x = queries, .factor = p.scalar("factor")});
  const auto scores = p.add("scores", gemm{.a = scaled, .b = table.transposed()});
  const auto best = p.add("best", reduce{.x = scores, .kind = reduction::max, .axes = extents{1}});
  return std::move(p).build({scores, best});
}

/// Asks for the scores of all documents and for the best score of each query. The answer stays on
/// the device.
struct score {
  run_input queries{};     ///< f32, of shape [queries, features]
  double temperature = 1;  ///< divides the scores; positive
};
/// Asks for the best score of each query, in memory of the process.
struct best_score {
  run_input queries{};     ///< f32, of shape [queries, features]
  milliseconds limit{20};  ///< the time for the run
};
using search_service = caf::typed_actor<takes<tensors(score)>, takes<host_tensor(best_score)>>;

SLUICE_MESSAGES(guide, 210, score, best_score)

struct search_state {
  const char* name = "guide.search";
  device_actor device;
  program_actor programs;
  program search;
};
using service = search_service::stateful_pointer<search_state>;

caf::result<tensors> answer(service self, score& asked) {
  const auto& state = state_of(self);
  if (!(asked.temperature > 0)) {
    return to_caf_error(error(errc::invalid_argument, "temperature: must be positive"));
  }
  return delegate(self, state.programs,
                  run{.what = state.search,
                      .inputs = {std::move(asked.queries)},
                      .scalars = {1 / asked.temperature}});
}

caf::result<host_tensor> answer(service self, best_score& asked) {
  const auto& state = state_of(self);
  auto promise = self->make_response_promise<host_tensor>();
  const auto fail = [promise](const caf::error& why) mutable {
    promise.deliver(why);
  };
  const auto succeed = [promise](host_tensor& best) mutable {
    promise.deliver(std::move(best));
  };
  request(self, state.programs, caf::infinite,
          run{.what = state.search, .inputs = {std::move(asked.queries)}, .scalars = {1}},
          request_options{.deadline = steady_clock::now() + asked.limit, .tag = "best"})
      .then(
          [=](tensors& results) {
            request(self, state_of(self).device, caf::infinite, download{.x = results[1]})
                .then(succeed, fail);
          },
          fail);
  return promise;
}

search_service::behavior_type behavior(service self, const device_actor& device,
                                       const program_actor& programs, const program& search) {
  state_of(self).device = device;
  state_of(self).programs = programs;
  state_of(self).search = search;
  return {[self](score& asked) { return answer(self, asked); },
          [self](best_score& asked) {
            return answer(self, asked);
          }};
}

search_service spawn_search(caf::actor_system& system, const device_actor& device,
                            host_tensor documents) {
  return system.spawn<caf::detached>(behavior, device,
                                     ask<program_actor>(system, device, get_programs{}),
                                     make_program(std::move(documents)));
}

void print(const host_tensor& values) {
  for (const float value : values.values<float>()) std::cout << value << ' ';
  std::cout << '\n';
}

int main() {
  caf::actor_system_config config;
  configure(config);
  caf::actor_system system{config};
  scoped_device device{system};  // the first GPU, else the host

  const host_tensor documents(std::vector<float>{1, 0, 0, 1, 3, 4}, {3, 2});
  const auto program = make_program(documents);
  std::cout << program.text();

  const auto spec = tensor_spec::row_major(element_type::f32, {1, 2});
  const auto known = ask<prepared>(system, device.programs(),
                                   prepare{.what = program, .inputs = {spec}, .scalars = {1}});
  std::cout << "scores of shape " << to_string(known.outputs[0].shape) << '\n';  // [1, 3]

  const auto search = spawn_search(system, device.actor(), documents);
  const host_tensor query(std::vector<float>{1, 2}, {1, 2});
  const auto results = ask<tensors>(system, search, score{.queries = query, .temperature = 0.5});
  print(ask<host_tensor>(system, device.actor(), download{.x = results[0]}));  // 2 4 22

  try {
    print(
        ask<host_tensor>(system, search, best_score{.queries = query, .limit = milliseconds(500)}));
    (void)ask<tensors>(system, search, score{.queries = std::vector<float>{1, 2, 3}});
  } catch (const error& why) {
    std::cout << to_string(why.code()) << ", " << why.what() << '\n';
    if (is_retryable(why.code())) std::cout << "try again later\n";
  }

  auto& runtime = device.service().runtime();
  auto* exported = export_dlpack(runtime, results[0]);  // for another library
  // From another library, which has finished its work:
  const tensor imported = import_dlpack(runtime, exported, {.ready = true});
  print(ask<host_tensor>(system, device.actor(), download{.x = imported}));
}
