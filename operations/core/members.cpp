// SPDX-License-Identifier: Apache-2.0
#include <sluice/operations/members.hpp>
#include <sluice/runtime/error.hpp>

#include <array>
#include <functional>
#include <map>
#include <mutex>

namespace sluice::detail {

std::span<const std::string> names_of_list(std::string_view list) {
  // Never destroyed: threads and objects of static storage may use the names until the process
  // ends.
  static auto& mutex = *new std::mutex;
  static auto& lists =
      *new std::map<std::string, std::array<std::string, max_operands>, std::less<>>;
  const std::lock_guard lock(mutex);
  if (const auto position = lists.find(list); position != lists.end()) return position->second;
  std::array<std::string, max_operands> names;
  for (std::size_t i = 0; i < names.size(); ++i) {
    names[i] = std::string(list) + '[' + std::to_string(i) + ']';
  }
  return lists.emplace(list, std::move(names)).first->second;
}

void require_list_size(std::string_view list, std::size_t size, std::size_t others) {
  if (size <= max_operands - others) return;
  throw invalid_argument(list, "has " + std::to_string(size) + " operands, but takes at most " +
                                   std::to_string(max_operands - others));
}

}  // namespace sluice::detail
