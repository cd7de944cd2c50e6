// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/caf.hpp>
#include <sluice/actors/operation_actor.hpp>
#include <sluice/actors/request_type.hpp>
#include <sluice/operations/bulk.hpp>
#include <sluice/operations/request_options.hpp>

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace sluice::detail {

/// The types of requests that an actor takes, each alone or followed by options.
class request_table {
 public:
  /// Messages of the types `others`, for which the actor has handlers, wait like requests. The
  /// handlers end with a `handled_message`.
  /// @throws std::bad_alloc if there is no memory
  explicit request_table(const std::vector<request_type>& types,
                         std::initializer_list<element_type_id> others = {})
      : waiting_{id_of_element_type<cancel_request>(), id_of_element_type<get_queue_status>()} {
    for (const auto& type : types) types_.emplace(type.id, type);
    waiting_.insert(others);
  }

  /// The type of the request in a message; nullptr if the message is another one.
  [[nodiscard]] const request_type* find(const message_content& content) const noexcept {
    if (!has_options_or_nothing(content)) return nullptr;
    const auto found = types_.find(id_of_element(content, 0));
    return found == types_.end() ? nullptr : &found->second;
  }
  /// The size of a message that waits in front of a lane. Empty if clients must not send the type.
  [[nodiscard]] std::optional<message_size> waiting_size(
      const message_content& content) const noexcept {
    if (!has_options_or_nothing(content)) return std::nullopt;
    constexpr std::size_t least = 128;  // of the mailbox and of a message without a request
    const auto options =
        content.size() == 2 ? content.get_as<request_options>(1).tag.capacity() : 0;
    const auto id = id_of_element(content, 0);
    if (const auto type = types_.find(id); type != types_.end()) {
      auto size = type->second.size(content);
      size.bytes += least + options;
      return size;
    }
    if (id == id_of_element_type<bulk>()) {
      const auto& operations = content.get_as<bulk>(0);
      return message_size{least + options + operations.bytes(), operations.size()};
    }
    if (content.size() == 1 && waiting_.contains(id)) return message_size{least};
    return std::nullopt;
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

/// Whether a message is one of CAF or of the lanes themselves, which waits for no others.
[[nodiscard]] inline bool is_internal(const message_content& content) noexcept {
  return content.match_elements<wake>() || content.match_elements<cancel_launched>() ||
         content.match_elements<get_lane_status>() || is_system_message(content);
}

/// The priority of a message for a lane.
[[nodiscard]] inline request_priority priority_of(const message_content& content) noexcept {
  if (content.size() != 2) return request_options{}.priority;
  return content.get_as<request_options>(1).priority;
}
/// The identity of the program that a message of this size runs and whose runs may be launched with
/// it; nullptr if there is none.
[[nodiscard]] inline const void* program_of(const message_content& content,
                                            const message_size& size) noexcept {
  const bool is_alone =
      content.size() == 2 && content.get_as<request_options>(1).bits == result_bits::as_if_alone;
  return is_alone ? nullptr : size.program;
}

}  // namespace sluice::detail
