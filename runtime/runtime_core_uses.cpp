// How a use is published without a recorder.
#include "runtime/runtime_core.hpp"

#include <mutex>
#include <string>
#include <utility>

namespace sluice::detail {

error runtime_core::freed_already(const block_ref& block, const char* function) {
  note_misuse(memory_misuse::stale_use, block.record()->memory);
  return {errc::stale_ref, std::string(function) + ": memory '" + std::string(block.tag().name()) +
                               "' has been freed"};
}

runtime_core::published_use runtime_core::publish_use(const block_ref& block, stream_ref stream,
                                                      access_kind access, timeline_point depends_on,
                                                      std::uint64_t first) {
  auto& on = require(stream);
  if (!block || block.record()->core != this) {
    throw error(errc::stream_misuse, "record_use: the memory does not belong to this runtime");
  }
  auto& record = *block.record();
  if (!record.tracked)
    throw error(errc::stream_misuse, "record_use: the memory resource cannot track uses");
  if (access != access_kind::read && record.read_only)
    throw error(errc::stream_misuse, "record_use: the memory is read-only");
  if (record.lease.dying()) throw freed_already(block, "record_use");
  on.reserve();
  dependency_points dependencies;
  if (depends_on) dependencies.push_back(depends_on);
  const timeline_point point{on.id(), on.submit(std::move(dependencies), nullptr, first)};
  {
    const std::lock_guard lock(record.guard);
    if (!record.lease.dying()) {
      const auto version = record.uses.version();
      record.uses.add(access, point, *this);
      return {point, version};
    }
  }
  throw freed_already(block, "record_use");
}

}  // namespace sluice::detail
