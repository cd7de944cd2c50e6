// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/call_admission.hpp"

#include "service/front/listen_address.hpp"
#include "service/protocol/request_error.hpp"

#include <initializer_list>
#include <iterator>

namespace sluice::service {

bool is_loopback_peer(std::string_view peer) {
  // ipv4:ADDRESS:PORT or ipv6:[ADDRESS]:PORT, where the brackets may be percent-encoded.
  const auto scheme = peer.substr(0, peer.find(':') + 1);
  if (scheme != "ipv4:" && scheme != "ipv6:") return false;
  peer.remove_prefix(scheme.size());
  peer = peer.substr(0, peer.rfind(':'));
  for (const std::string_view open : {"[", "%5B"}) {
    if (peer.substr(0, open.size()) == open) peer.remove_prefix(open.size());
  }
  for (const std::string_view close : {"]", "%5D"}) {
    if (peer.size() >= close.size() && peer.substr(peer.size() - close.size()) == close) {
      peer.remove_suffix(close.size());
    }
  }
  return is_loopback_address(std::string(peer));
}

call_admission::call_admission(const grpc_options& options, const grpc::CallbackServerContext& call,
                               access_role needed)
    : policy_(options.access), needed_(needed) {
  if (needed == access_role::none) return;
  const auto [first, last] = call.client_metadata().equal_range("authorization");
  if (first != last) {
    if (std::next(first) != last) {
      throw request_error(request_status::unauthenticated, "authorization occurs twice");
    }
    origin_.is_private = options.tls != nullptr || is_loopback_peer(call.peer());
    authorization_.assign(first->second.data(), first->second.size());
  }
  tenant_ = admit();
  const auto trace = call.client_metadata().find("traceparent");
  if (trace != call.client_metadata().end()) {
    trace_ = parse_trace_parent({trace->second.data(), trace->second.size()});
  }
}

std::string call_admission::admit() const {
  if (needed_ == access_role::none) return {};
  return policy_->admit(authorization_, origin_, needed_);
}

}  // namespace sluice::service
