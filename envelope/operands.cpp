// SPDX-License-Identifier: Apache-2.0
#include "runtime/seam.hpp"

#include <sluice/envelope/operands.hpp>

#include <string>

namespace sluice {

void check_operand(const device_runtime& runtime, const operand_argument& argument) {
  const auto named = [&](const char* what) {
    return std::string(argument.name) + ": " + what;
  };
  detail::runtime_core::of(runtime)->require_open();
  if (!argument.block) throw error(errc::invalid_argument, named("the reference is empty"));
  if (argument.block.stale()) {
    if (detail::block_record::of(argument.block)->core == detail::runtime_core::of(runtime).get()) {
      detail::runtime_core::of(runtime)->note_misuse(
          memory_misuse::stale_use, detail::block_record::of(argument.block)->memory);
    }
    throw error(errc::stale_ref, named("the memory has been freed"));
  }
  if (argument.block.device() != runtime.device().id()) {
    throw error(errc::invalid_argument,
                named("the memory is on ") + to_string(argument.block.device()) +
                    ", but the launch is on " + to_string(runtime.device().id()));
  }
  if (detail::block_record::of(argument.block)->core != detail::runtime_core::of(runtime).get()) {
    throw error(errc::invalid_argument, named("the memory belongs to another runtime"));
  }
  if (argument.access != access_kind::read && argument.block.read_only()) {
    throw error(errc::invalid_argument, named("the memory is read-only"));
  }
  if (argument.bytes < argument.required_bytes) {
    throw error(errc::invalid_argument, named("has ") + std::to_string(argument.bytes) +
                                            " bytes, but the operation needs " +
                                            std::to_string(argument.required_bytes));
  }
}

}  // namespace sluice
