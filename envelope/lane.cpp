// SPDX-License-Identifier: Apache-2.0
#include "runtime/seam.hpp"

#include <sluice/envelope/lane.hpp>

#include <memory>
#include <new>
#include <utility>

namespace sluice {
namespace {

/// The remains of a lane: its stream, and the kept library object, which is destroyed first.
struct lane_remains {
  stream lane_stream;
  std::shared_ptr<void> library;
};

/// The last continuation of a lane. Its destructor passes the lane's remains to the reclaim thread.
class lane_end final : public continuation {
 public:
  explicit lane_end(lane_remains remains)
      : core_(detail::timeline::of(remains.lane_stream.ref())->core().shared_from_this()),
        remains_(std::make_unique<detail::deferred_destruction<lane_remains>>(std::move(remains))) {
  }
  ~lane_end() override { core_->reclaim_later(std::move(remains_)); }

  std::shared_ptr<launch_reply> complete(const error*) noexcept override { return nullptr; }

 private:
  std::shared_ptr<detail::runtime_core> core_;
  std::unique_ptr<detail::deferred_destruction<lane_remains>> remains_;
};

}  // namespace

lane::~lane() {
  if (!library_ && in_flight() == 0) return;
  if (service_->device().inherited()) {
    // The library's threads and its driver state belong to the parent process.
    detail::leave_to_parent(new (std::nothrow) std::shared_ptr<void>(std::move(library_)));
    return;
  }
  try {
    const auto stream = stream_.ref();
    auto end = std::make_unique<lane_end>(lane_remains{std::move(stream_), std::move(library_)});
    std::uint64_t ticket = 0;
    try {
      detail::timeline::of(stream)->reserve();
      ticket = detail::timeline::of(stream)->submit();
    } catch (...) {
      // After a loss the engine completes the continuation whatever its ticket; otherwise the
      // newest ticket covers every launch.
      ticket = detail::timeline::of(stream)->newest().ticket + (service_->device().lost() ? 1 : 0);
    }
    service_->engine().submit(stream, ticket, std::move(end));
  } catch (...) {
    detail::report("a lane could not be destroyed after its last launch", current_error().what());
  }
}

}  // namespace sluice
