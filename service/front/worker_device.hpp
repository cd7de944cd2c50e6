// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace sluice::service {

struct worker_program;

/// Whether a name denotes a device: "auto", "host", "cuda", "cuda:N", or the UUID of a GPU or of a
/// part of one (MIG), as `nvidia-smi -L` prints it, such as
/// "GPU-8c1f3a52-0b1d-4e6f-9a3b-2c4d5e6f7a8b".
[[nodiscard]] bool is_worker_device(std::string_view name) noexcept;

/// Has a worker use a device. A number counts among the GPUs that the process of the front may use.
/// A UUID names the same GPU also where their order changes; its worker can use no other one.
void set_worker_device(worker_program& program, const std::string& name);

}  // namespace sluice::service
