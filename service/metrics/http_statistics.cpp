// SPDX-License-Identifier: Apache-2.0
#include "service/metrics/http_statistics.hpp"

#include "service/metrics/metric_value.hpp"

namespace sluice::service {

void http_statistics::end_request(std::chrono::nanoseconds elapsed) noexcept {
  in_flight_.Decrement();
  request_seconds_.Observe(std::chrono::duration<double>(elapsed).count());
}

void http_statistics::count_reply(unsigned status) noexcept {
  if (status < first_status || status > last_status) return;
  replies_[status - first_status].Increment();
}

http_counts http_statistics::counts() const {
  http_counts counts{.in_flight = whole(in_flight_),
                     .received_bytes = whole(received_bytes_),
                     .sent_bytes = whole(sent_bytes_),
                     .refused_origins = whole(refused_origins_),
                     .refused_connections = whole(refused_connections_),
                     .request_seconds = request_seconds_.Collect().histogram};
  for (unsigned status = first_status; status <= last_status; ++status) {
    const auto count = whole(replies_[status - first_status]);
    if (count > 0) counts.replies[status] = count;
  }
  return counts;
}

}  // namespace sluice::service
