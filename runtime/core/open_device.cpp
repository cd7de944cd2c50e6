// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/cuda_device.hpp"

#include <sluice/runtime/device.hpp>
#include <sluice/runtime/host_device.hpp>

namespace sluice {

std::shared_ptr<device> open_device(std::string_view name) {
  if (name == "auto") {
    return cuda::device_count() > 0 ? cuda::open(0) : open_host_device();
  }
  const auto id = parse_device_id(name);
  if (id.kind == device_kind::host) {
    if (id.ordinal != 0) {
      throw error(errc::invalid_argument,
                  "device '" + std::string(name) + "': the only host device is host:0");
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
