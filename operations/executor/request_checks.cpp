// SPDX-License-Identifier: Apache-2.0
#include "operations/executor/request_checks.hpp"

#include "operations/core/enumerators.hpp"
#include "operations/executor/hazards.hpp"
#include "runtime/seam.hpp"

#include <sluice/runtime/error.hpp>

#include <string>

namespace sluice::operations {
namespace {

/// @throws error `out_of_memory`
void require_memory(const detail::operation_request& request, std::size_t device_bytes) {
  if (const auto bytes = request.described_bytes(); bytes > device_bytes) {
    throw error(errc::out_of_memory, "inputs: take " + std::to_string(bytes) +
                                         " bytes with the outputs, but the device has " +
                                         std::to_string(device_bytes) + " bytes of memory");
  }
  std::size_t sum = 0;
  for (const auto& u : request.uses()) {
    const bool is_new = u.stated && !*u.operand.value;
    if (!is_new && (!u.packed || u.ignored)) continue;
    if (u.spec->bytes() > device_bytes - sum) {
      throw error(errc::out_of_memory,
                  std::string(u.operand.name) + (is_new ? ": takes " : ": its packed copy takes ") +
                      std::to_string(u.spec->bytes()) + " bytes, but the device has " +
                      std::to_string(device_bytes) + " bytes of memory for all outputs and copies");
    }
    sum += u.spec->bytes();
  }
}

}  // namespace

double check_request(const detail::operation_request& request, const device_runtime& runtime,
                     const price_limits& prices, std::size_t device_bytes) {
  require_memory(request, device_bytes);
  const auto& descriptor = request.descriptor;
  descriptor.check(runtime.device().id().kind, request.call);
  const auto work = prices.require(descriptor, descriptor.facts(request.call), request.uses());
  require_enumerator("priority", request.options.priority, request_priority::low);
  require_enumerator("reply", request.options.reply, reply_on::enqueued);
  require_enumerator("bits", request.options.bits, result_bits::as_if_alone);
  for (const auto& u : request.uses()) {
    if (*u.operand.value && !u.ignored) {
      detail::check_block(runtime, u.operand.value->value().block(), u.access, u.operand.name);
    }
  }
  check_aliasing(request.uses());
  return work;
}

}  // namespace sluice::operations
