// SPDX-License-Identifier: Apache-2.0
#include "service/front/worker_device.hpp"

#include "service/front/worker_process.hpp"

#include <algorithm>
#include <cctype>

namespace sluice::service {
namespace {

[[nodiscard]] bool is_number(std::string_view text) noexcept {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

[[nodiscard]] bool is_uuid(std::string_view name) noexcept {
  constexpr std::string_view form = "00000000-0000-0000-0000-000000000000";
  if (!name.starts_with("GPU-") && !name.starts_with("MIG-")) return false;
  name.remove_prefix(4);
  return std::equal(name.begin(), name.end(), form.begin(), form.end(),
                    [](char character, char expected) {
                      if (expected == '-') return character == '-';
                      return std::isxdigit(static_cast<unsigned char>(character)) != 0;
                    });
}

}  // namespace

bool is_worker_device(std::string_view name) noexcept {
  constexpr std::string_view numbered = "cuda:";
  return name == "auto" || name == "host" || name == "cuda" || is_uuid(name) ||
         (name.starts_with(numbered) && is_number(name.substr(numbered.size())));
}

void set_worker_device(worker_program& program, const std::string& name) {
  if (is_uuid(name)) {
    // The worker would call it cuda:0, like those of other UUIDs.
    program.device = name;
    program.environment.push_back("CUDA_VISIBLE_DEVICES=" + name);
  }
  program.arguments.insert(program.arguments.end(),
                           {"--device", program.device.empty() ? name : "cuda"});
}

}  // namespace sluice::service
