// SPDX-License-Identifier: Apache-2.0
#include <sluice/actors/device.hpp>

#include <cstddef>
#include <cstdint>
#include <iostream>
#include <map>
#include <utility>
#include <vector>

using namespace sluice;

/// Asks for the sum of the squares of a vector.
struct sum_squares {
  run_input x{};  ///< f32, of rank 1
};
/// The answer to `sum_squares`.
struct energy {
  float value = 0;
};
using energy_service =
    caf::typed_actor<takes<energy(sum_squares, request_options)>, takes<void(cancel_request)>>;
SLUICE_MESSAGES(many_clients, 230, sum_squares, energy)

struct energy_state {
  const char* name = "cookbook.many_clients";
  /// The runs in progress of each client: the id of the run, and the id that the client chose.
  std::map<caf::actor_addr, std::map<std::uint64_t, std::uint64_t>> runs;
  std::uint64_t last_id = 0;
};
using service = energy_service::stateful_pointer<energy_state>;

/// Forgets a run of a client.
void finish(service self, const caf::actor_addr& client, std::uint64_t id) {
  auto& all_runs = state_of(self).runs;
  const auto entry = all_runs.find(client);
  if (entry == all_runs.end()) return;  // the client has ended
  entry->second.erase(id);
  if (!entry->second.empty()) return;
  demonitor(self, client);
  all_runs.erase(entry);
}

energy_service::behavior_type behavior(service self, const program_actor& programs,
                                       const program& squares) {
  constexpr std::size_t most_runs = 64;  // of one client
  on_down(self, [=](const caf::down_msg& down) {
    for (const auto& [id, clients_id] : state_of(self).runs[down.source])
      send(self, programs, cancel_request{id});
    state_of(self).runs.erase(down.source);
  });
  return {
      [=](sum_squares& query, const request_options& options) -> caf::result<energy> {
        auto& [name, all_runs, last_id] = state_of(self);
        const auto sender = self->current_sender();
        if (!sender) return to_caf_error(error(errc::invalid_argument, "sender: is missing"));
        if (query.x.type() != element_type::f32 || query.x.shape().size() != 1) {
          return to_caf_error(error(errc::invalid_argument, "x: must be a vector of f32"));
        }
        const auto client = caf::actor_cast<caf::actor_addr>(sender);
        const auto is_new = !all_runs.contains(client);
        auto& runs = all_runs[client];
        if (runs.size() == most_runs) {
          return to_caf_error(error(errc::overloaded, "64 runs of this client are in progress"));
        }
        if (is_new) monitor(self, client);
        const auto id = ++last_id;
        runs[id] = options.id;
        auto run_options = options;
        run_options.id = id;
        auto promise = self->make_response_promise<energy>();
        request(self, programs, caf::infinite, run_to_host{squares, {std::move(query.x)}},
                run_options)
            .then(
                [=](const host_tensors& results) mutable {
                  finish(self, client, id);
                  promise.deliver(energy{results.front().values<float>()[0]});
                },
                [=](const caf::error& why) mutable {
                  finish(self, client, id);
                  promise.deliver(why);
                });
        return promise;
      },
      [=](const cancel_request& cancellation) {
        if (cancellation.id == 0) return;  // 0: no id
        const auto client = caf::actor_cast<caf::actor_addr>(self->current_sender());
        const auto entry = state_of(self).runs.find(client);
        if (entry == state_of(self).runs.end()) return;
        for (const auto& [id, clients_id] : entry->second)
          if (clients_id == cancellation.id) send(self, programs, cancel_request{id});
      }};
}

// NOLINTNEXTLINE(bugprone-exception-escape): an error ends this example.
int main() {
  caf::actor_system_config config;
  configure(config);
  caf::actor_system system{config};
  scoped_device device{system};

  program_builder p;
  const auto x = p.input("x");
  const auto squares = p.add("squares", multiply(x, x));
  const auto sum = p.add("sum", reduce{.x = squares});
  const auto energies =
      system.spawn<caf::detached>(behavior, device.programs(), std::move(p).build({sum}));

  const auto found = ask<energy>(system, energies, sum_squares{std::vector<float>{1, 2, 3}},
                                 request_options{.tag = "energy"});
  std::cout << found.value << '\n';  // 14
}
