#include "runtime/runtime_core.hpp"

#include <sluice/envelope/lane.hpp>

namespace sluice {
namespace {

/// Destroys what a lane kept, and retires its stream, once the lane's last launch has completed.
class lane_end final : public continuation {
 public:
  lane_end(stream s, std::shared_ptr<void> kept, bool may_destroy_after_loss)
      : stream_(std::move(s)),
        kept_(std::move(kept)),
        may_destroy_after_loss_(may_destroy_after_loss) {}

  void complete(const error* failure, const std::function<void()>& release) noexcept override {
    if (kept_ && failure != nullptr && failure->code() == errc::device_lost &&
        !may_destroy_after_loss_) {
      // Deliberately leaked.
      [[maybe_unused]] auto* leaked = new std::shared_ptr<void>(std::move(kept_));
    }
    release();
  }

 private:
  stream stream_;
  std::shared_ptr<void> kept_;
  bool may_destroy_after_loss_;
};

}  // namespace

lane::~lane() {
  if (!kept_ && in_flight() == 0) return;
  const bool on_host = service_->device().id().kind == device_kind::host;
  try {
    const auto on = stream_.ref();
    auto end = std::make_unique<lane_end>(std::move(stream_), std::move(kept_), on_host);
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
