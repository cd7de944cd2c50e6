// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/paired_rounds.hpp"

#include <sluice/operations/transfer.hpp>

#include <fmt/format.h>

#include <cstring>

namespace sluice::cli {
namespace {

constexpr std::int64_t mebibytes = 64;  // of one transfer

/// Transfers between one tensor of the device and one of the host.
class transfers {
 public:
  transfers(bench_run& run, host_tensor host)
      : session_(run.current),
        runtime_(run.runtime()),
        actor_(session_.device().actor()),
        stream_(runtime_.create_stream()),
        host_(std::move(host)),
        target_(std::make_shared<host_tensor>(host_)),
        on_device_(session_.ask<tensor>(actor_, upload{.values = host_})) {}

  /// Copies by the driver, and waits.
  void copy(bool to_device) {
    void* const on_host = host_.data().get();
    runtime_.device().copy(
        to_device ? on_device_.address() : on_host, to_device ? on_host : on_device_.address(),
        host_.bytes(), to_device ? copy_direction::host_to_device : copy_direction::device_to_host,
        stream_.ref().native());
    stream_.synchronize();
  }
  /// Copies by a request, and waits.
  void request(bool to_device) {
    if (to_device) {
      (void)session_.ask<tensor>(actor_, upload{.values = host_, .y = on_device_});
    } else {
      (void)session_.ask<host_tensor>(actor_, download{.x = on_device_, .target = target_});
    }
  }

  /// Transfers random numbers to the device and back by requests.
  /// @throws error `library_failure` if the elements change
  void check() {
    const auto values = random_values(mebibytes << 18);
    std::ranges::copy(values, host_.values<float>().begin());
    request(true);
    std::memset(host_.data().get(), 0, host_.bytes());
    request(false);
    if (std::ranges::equal(values, host_.values<float>())) return;
    throw error(errc::library_failure, "a transfer has changed the elements");
  }

 private:
  session& session_;
  device_runtime& runtime_;
  device_actor actor_;
  stream stream_;
  host_tensor host_;
  std::shared_ptr<host_tensor> target_;  // the same elements
  tensor on_device_;
};

/// Transfers by a member function of `transfers`, as work whose pieces are mebibytes.
timed_work repeated(transfers& memory, void (transfers::*transfer)(bool), bool to_device) {
  return [&memory, transfer, to_device](std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += mebibytes) (memory.*transfer)(to_device);
  };
}

}  // namespace

void bench_transfer(bench_run& run) {
  auto& current = run.current;
  const extents shape{mebibytes << 18U};
  host_tensor zeros(element_type::f32, shape);
  std::memset(zeros.data().get(), 0, zeros.bytes());
  transfers ordinary(run, zeros);
  transfers pinned(
      run, current.ask<host_tensor>(current.device().actor(), allocate_pinned{.shape = shape}));
  run.report.add_value("mebibytes", mebibytes);
  paired_rounds ways(run, "transfers", fmt::format("transfers of {} MiB", mebibytes),
                     {.unit = "GiB/s", .pieces_per_second = 1024});
  for (const bool to_device : {true, false}) {
    for (const bool is_pinned : {true, false}) {
      auto& memory = is_pinned ? pinned : ordinary;
      const auto name = fmt::format("{}, {} memory", to_device ? "to the device" : "to the host",
                                    is_pinned ? "pinned" : "ordinary");
      const auto copy =
          ways.add_reference("copy " + name, repeated(memory, &transfers::copy, to_device));
      ways.add("request " + name, repeated(memory, &transfers::request, to_device), copy);
    }
  }
  ways.measure();
  ordinary.check();
  pinned.check();
  run.report.set_library("copies of the driver");
}

}  // namespace sluice::cli
