#include "runtime/runtime_core.hpp"

#include <sluice/envelope/lane.hpp>

namespace sluice {
namespace {

/// Destroys what a lane kept, and retires its stream, once the lane's last launch has completed.
class lane_end final : public continuation {
 public:
  lane_end(stream s, std::shared_ptr<void> kept) : stream_(std::move(s)), kept_(std::move(kept)) {}

  void complete(const error*, const std::function<void()>& release) noexcept override { release(); }

 private:
  stream stream_;
  std::shared_ptr<void> kept_;
};

}  // namespace

lane::~lane() {
  if (!kept_ && in_flight() == 0) return;
  try {
    const auto on = stream_.ref();
    auto end = std::make_unique<lane_end>(std::move(stream_), std::move(kept_));
    std::uint64_t ticket = 0;
    try {
      on.timeline()->reserve();
      ticket = on.timeline()->submit();
    } catch (...) {
      // Lost: the engine completes it at once, whatever the ticket. Otherwise the newest ticket
      // is behind every launch.
      ticket = on.timeline()->newest().ticket + (service_->device().lost() ? 1 : 0);
    }
    service_->engine().submit(on, ticket, std::move(end));
  } catch (...) {
    detail::report(std::string("a lane could not be retired in order: ") + current_error().what());
  }
}

}  // namespace sluice
