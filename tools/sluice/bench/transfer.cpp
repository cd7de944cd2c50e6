// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/bench.hpp"
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
  transfers(session& current, host_tensor host)
      : session_(current),
        runtime_(current.device().service().runtime()),
        actor_(current.device().actor()),
        stream_(runtime_.create_stream()),
        host_(std::move(host)),
        target_(std::make_shared<host_tensor>(host_)),
        on_device_(current.ask<tensor>(actor_, upload{.values = host_})) {}

  /// Copies of the driver. Each is awaited.
  void plain(bool to_device, std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += mebibytes) {
      copy(host_, to_device ? copy_direction::host_to_device : copy_direction::device_to_host);
    }
  }
  /// Requests. Each is awaited.
  void requests(bool to_device, std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += mebibytes) {
      if (to_device) {
        (void)session_.ask<tensor>(actor_, upload{.values = host_, .y = on_device_});
      } else {
        (void)session_.ask<host_tensor>(actor_, download{.x = on_device_, .to = target_});
      }
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
    requests(true, mebibytes);
    copy(by_copy, copy_direction::device_to_host);
    require_same("an upload");
    std::memset(host_.data().get(), 0, host_.bytes());
    requests(false, mebibytes);
    require_same("a download");
  }

 private:
  void copy(host_tensor& host, copy_direction direction) {
    void* const of_host = host.data().get();
    const bool to_device = direction == copy_direction::host_to_device;
    runtime_.device().copy(to_device ? on_device_.address() : of_host,
                           to_device ? of_host : on_device_.address(), host.bytes(), direction,
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

}  // namespace

bench_report bench_transfer(session& current, const bench_settings& settings) {
  const extents shape{mebibytes << 18U};
  const host_tensor ordinary(element_type::f32, shape);
  std::memset(host_tensor(ordinary).data().get(), 0, ordinary.bytes());
  transfers of_ordinary(current, ordinary);
  transfers of_pinned(
      current, current.ask<host_tensor>(current.device().actor(), allocate_pinned{.shape = shape}));
  paired_rounds all(settings);
  for (const bool to_device : {true, false}) {
    for (const bool is_pinned : {true, false}) {
      auto& of = is_pinned ? of_pinned : of_ordinary;
      const auto what = fmt::format("{}, {} memory", to_device ? "to the device" : "to the host",
                                    is_pinned ? "pinned" : "ordinary");
      const auto plain =
          all.add("copy " + what, [&of, to_device](std::int64_t n) { of.plain(to_device, n); });
      all.refer(plain, plain);
      (void)all.add(
          "request " + what, [&of, to_device](std::int64_t n) { of.requests(to_device, n); },
          plain);
    }
  }
  all.measure();
  of_ordinary.check();
  of_pinned.check();
  return {.library = "copies of the driver",
          .json = {{"mebibytes", mebibytes}, {"transfers", all.json()}},
          .table = fmt::format("Transfers of {} MiB\n", mebibytes) + all.table("GiB/s", 1024)};
}

}  // namespace sluice::cli
