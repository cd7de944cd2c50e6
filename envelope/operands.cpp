// SPDX-License-Identifier: Apache-2.0
#include "runtime/seam.hpp"

#include <sluice/envelope/operands.hpp>

#include <string>

namespace sluice {

void check_operand(const device_runtime& runtime, const operand_argument& argument) {
  detail::check_block(runtime, argument.block, argument.access, argument.name);
  if (argument.bytes < argument.required_bytes) {
    throw error(errc::invalid_argument,
                std::string(argument.name) + ": has " + std::to_string(argument.bytes) +
                    " bytes, but the operation needs " + std::to_string(argument.required_bytes));
  }
}

void detail::check_block(const device_runtime& runtime, const block_ref& block, access_kind access,
                         std::string_view name) {
  const auto named = [&](const char* problem) {
    return std::string(name) + ": " + problem;
  };
  auto& core = *runtime_core::of(runtime);
  core.require_open();
  if (!block) throw error(errc::invalid_argument, named("the reference is empty"));
  if (block.stale()) {
    if (block_record::of(block)->core == &core) {
      core.note_misuse(memory_misuse::stale_use, block_record::of(block)->memory);
    }
    throw error(errc::stale_ref, named("the memory has been freed"));
  }
  if (block_record::of(block)->core != &core) {
    if (block.device() == runtime.device().id()) {
      throw error(errc::invalid_argument, named("the memory belongs to another device runtime"));
    }
    throw error(errc::invalid_argument, named("the memory is on ") + to_string(block.device()) +
                                            ", but the launch is on " +
                                            to_string(runtime.device().id()));
  }
  if (access != access_kind::read && block.read_only()) {
    throw error(errc::invalid_argument, named("the memory is read-only"));
  }
}

}  // namespace sluice
