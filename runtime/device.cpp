#include "runtime/cuda/cuda_device.hpp"
#include "runtime/open_devices.hpp"

#include <sluice/runtime/device.hpp>
#include <sluice/runtime/host_device.hpp>

#include <cstddef>

namespace sluice {
namespace {

// Made beforehand, for when the host has no memory for words.
const error& lost_without_words =
    *new error(errc::device_lost, "the device is lost");  // outlives all threads

}  // namespace

device::device(device_id id) noexcept : id_(id) {
  detail::open_devices::instance().add(*this);
}

device::~device() {
  detail::open_devices::instance().remove(*this);
}

void device::lose(const error& cause) noexcept {
  if (inherited()) return;  // a thread of the parent's may have held the lock
  {
    const std::lock_guard lock(loss_mutex_);
    if (loss_) return;
    loss_ = cause;
    lost_.store(true, std::memory_order_release);  // also for who finds that it is known
  }
  on_loss();
}

void device::require_usable() const {
  if (lost()) throw loss();
}

error device::loss() const noexcept {
  if (inherited()) {
    try {
      return {errc::device_lost, "device " + to_string(id_) +
                                     " belongs to the parent process: after fork() a child opens "
                                     "devices of its own"};
    } catch (...) {
      return lost_without_words;
    }
  }
  const std::lock_guard lock(loss_mutex_);
  try {
    if (!loss_) return {errc::device_lost, "device " + to_string(id_) + " is lost"};
    return {errc::device_lost, "device " + to_string(id_) + " is lost: " + loss_->what(),
            loss_->status(), loss_->where()};
  } catch (...) {
    return lost_without_words;
  }
}

std::shared_ptr<device> open_device(std::string_view name) {
  if (name == "auto") {
    return cuda::device_count() > 0 ? cuda::open(0) : open_host_device();
  }
  const auto id = parse_device_id(name);
  if (id.kind == device_kind::host) {
    if (id.ordinal != 0) {
      throw error(errc::invalid_argument,
                  "device '" + std::string(name) + "': there is one host device, host:0");
    }
    return open_host_device();
  }
  const int count = cuda::device_count();
  if (id.ordinal >= count) {
    throw error(errc::invalid_argument,
                "device '" + std::string(name) + "': " + cuda::why_absent(id.ordinal));
  }
  return cuda::open(id.ordinal);
}

std::vector<device_info> list_devices() {
  std::vector<device_info> devices;
  const int gpus = cuda::device_count();
  devices.reserve(static_cast<std::size_t>(gpus) + 1);
  for (int ordinal = 0; ordinal < gpus; ++ordinal) devices.push_back(cuda::describe(ordinal));
  devices.push_back(open_host_device()->info());
  return devices;
}

}  // namespace sluice
