// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/caf.hpp>
#include <sluice/actors/request_type.hpp>
#include <sluice/operations/bulk.hpp>
#include <sluice/operations/request_options.hpp>

#include <cstddef>
#include <initializer_list>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace sluice::detail {

/// The types of requests that an actor takes, each alone or followed by options.
class request_table {
 public:
  /// Messages of the types `others`, for which the actor has handlers, wait like requests.
  /// @throws std::bad_alloc if there is no memory
  explicit request_table(const std::vector<request_type>& types,
                         std::initializer_list<element_type_id> others = {})
      : waiting_{id_of_element_type<cancel_request>()} {
    for (const auto& type : types) types_.emplace(type.id, type);
    waiting_.insert(others);
  }

  /// The type of the request in a message; nullptr if the message is another one.
  [[nodiscard]] const request_type* find(const message_content& content) const noexcept {
    if (!has_options_or_nothing(content)) return nullptr;
    const auto found = types_.find(id_of_element(content, 0));
    return found == types_.end() ? nullptr : &found->second;
  }
  /// Whether a message waits in front of a lane, or concerns one that does.
  [[nodiscard]] bool is_for_lane(const message_content& content) const noexcept {
    if (!has_options_or_nothing(content)) return false;
    const auto id = id_of_element(content, 0);
    if (types_.contains(id) || id == id_of_element_type<bulk>()) return true;
    return content.size() == 1 && waiting_.contains(id);
  }
  /// The host memory that a message for a lane takes, in bytes.
  [[nodiscard]] std::size_t bytes_of(const message_content& content) const noexcept {
    constexpr std::size_t least = 128;  // of the mailbox and of a message without a request
    std::size_t sum = least;
    if (content.size() == 2) sum += content.get_as<request_options>(1).tag.capacity();
    if (const auto* const type = find(content)) return sum + type->bytes(content);
    return content.match_element<bulk>(0) ? sum + content.get_as<bulk>(0).bytes() : sum;
  }

 private:
  /// Whether one element is in the message, or one and options.
  [[nodiscard]] static bool has_options_or_nothing(const message_content& content) noexcept {
    return content.size() == 1 ||
           (content.size() == 2 && content.match_element<request_options>(1));
  }

  std::unordered_map<element_type_id, request_type> types_;
  std::unordered_set<element_type_id> waiting_;
};

/// The priority of a message for a lane.
[[nodiscard]] inline request_priority priority_of(const message_content& content) noexcept {
  if (content.size() != 2) return request_options{}.priority;
  return content.get_as<request_options>(1).priority;
}

}  // namespace sluice::detail
