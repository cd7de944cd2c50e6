// SPDX-License-Identifier: Apache-2.0
#include "service/front/listen_address.hpp"

#include <boost/asio/ip/address.hpp>

#include <charconv>
#include <stdexcept>
#include <string_view>

namespace sluice::service {
namespace {

constexpr std::string_view unix_scheme = "unix:";

[[nodiscard]] boost::asio::ip::address parse_ip(const std::string& text,
                                                boost::system::error_code& failure) {
  return boost::asio::ip::make_address(text, failure);
}

}  // namespace

listen_address parse_listen_address(const std::string& option, const std::string& text) {
  const auto refuse = [&](const char* reason) {
    throw std::invalid_argument(option + ": \"" + text + "\" " + reason);
  };
  listen_address parsed;
  if (text.rfind(unix_scheme, 0) == 0) {
    parsed.unix_path = text.substr(unix_scheme.size());
    if (parsed.unix_path.empty() || parsed.unix_path.find('\0') != std::string::npos) {
      refuse("has no path");
    }
    return parsed;
  }
  const auto colon = text.rfind(':');
  if (colon == std::string::npos) refuse("is no address with a port");
  const auto* const end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data() + colon + 1, end, parsed.port);
  if (failure != std::errc{} || stop != end) refuse("has no port from 0 to 65535");
  parsed.address = text.substr(0, colon);
  if (parsed.address.size() > 2 && parsed.address.front() == '[' && parsed.address.back() == ']') {
    parsed.address = parsed.address.substr(1, parsed.address.size() - 2);
  }
  if (parsed.address == "localhost") parsed.address = "127.0.0.1";
  boost::system::error_code no_address;
  (void)parse_ip(parsed.address, no_address);
  if (no_address) refuse("is no address of IPv4 or IPv6 with a port");
  return parsed;
}

bool is_loopback_address(const std::string& address) noexcept {
  boost::system::error_code failure;
  const auto parsed = parse_ip(address, failure);
  if (failure) return false;
  if (parsed.is_v6() && parsed.to_v6().is_v4_mapped()) {
    return boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, parsed.to_v6())
        .is_loopback();
  }
  return parsed.is_loopback();
}

void check_listen_address(const std::string& option, const listen_address& address,
                          const protection& protection) {
  if (protection.has_tls || protection.is_insecure || !address.unix_path.empty()) return;
  if (is_loopback_address(address.address)) return;
  throw std::invalid_argument(
      option + ": other machines reach " + address.address +
      ", and what they send would not be encrypted: give --tls-certificate and --tls-key, or "
      "--insecure if a proxy or the network protects it");
}

}  // namespace sluice::service
