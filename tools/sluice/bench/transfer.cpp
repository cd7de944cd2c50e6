// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/paired_rounds.hpp"

#include <sluice/operations/transfer.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

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
  void copy(bool to_device) { copy(host_, to_device); }
  /// Copies by a request, and waits.
  void request(bool to_device) {
    if (to_device) {
      (void)session_.ask<tensor>(actor_, upload{.values = host_, .y = on_device_});
    } else {
      (void)session_.ask<host_tensor>(actor_, download{.x = on_device_, .to = target_});
    }
  }

  /// Transfers random numbers by requests and by copies of the driver, and compares what arrives.
  /// @throws error `library_failure` if it differs
  void check() {
    host_tensor by_copy(host_.type(), host_.shape());
    const auto require_same = [&](const char* what) {
      if (std::memcmp(host_.data().get(), by_copy.data().get(), host_.bytes()) != 0) {
        throw error(errc::library_failure, std::string(what) + " has changed the elements");
      }
    };
    std::mt19937 random{std::random_device()()};
    for (float& element : host_.values<float>()) element = static_cast<float>(random());
    request(true);
    copy(by_copy, false);
    require_same("an upload");
    std::memset(host_.data().get(), 0, host_.bytes());
    request(false);
    require_same("a download");
  }

 private:
  void copy(host_tensor& host, bool to_device) {
    void* const on_host = host.data().get();
    runtime_.device().copy(
        to_device ? on_device_.address() : on_host, to_device ? on_host : on_device_.address(),
        host.bytes(), to_device ? copy_direction::host_to_device : copy_direction::device_to_host,
        stream_.ref().native());
    stream_.synchronize();
  }

  session& session_;
  device_runtime& runtime_;
  device_actor actor_;
  stream stream_;
  host_tensor host_;
  std::shared_ptr<host_tensor> target_;  // the same elements
  tensor on_device_;
};

/// `transfer` as work whose pieces are mebibytes.
template <class Transfer>
timed_work repeated(const Transfer& transfer) {
  return [transfer](std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += mebibytes) transfer();
  };
}

}  // namespace

void bench_transfer(bench_run& run) {
  auto& current = run.current;
  const extents shape{mebibytes << 18U};
  const host_tensor ordinary(element_type::f32, shape);
  std::memset(host_tensor(ordinary).data().get(), 0, ordinary.bytes());
  transfers from_ordinary(run, ordinary);
  transfers from_pinned(
      run, current.ask<host_tensor>(current.device().actor(), allocate_pinned{.shape = shape}));
  run.report.add_value("mebibytes", mebibytes);
  paired_rounds ways(run, "transfers", fmt::format("transfers of {} MiB", mebibytes),
                     {.unit = "GiB/s", .pieces_per_second = 1024});
  for (const bool to_device : {true, false}) {
    for (const bool is_pinned : {true, false}) {
      auto& memory = is_pinned ? from_pinned : from_ordinary;
      const auto name = fmt::format("{}, {} memory", to_device ? "to the device" : "to the host",
                                    is_pinned ? "pinned" : "ordinary");
      const auto plain = ways.add_reference(
          "copy " + name, repeated([&memory, to_device] { memory.copy(to_device); }));
      ways.add("request " + name, repeated([&memory, to_device] { memory.request(to_device); }),
               plain);
    }
  }
  ways.measure();
  from_ordinary.check();
  from_pinned.check();
  run.report.set_library("copies of the driver");
}

}  // namespace sluice::cli
