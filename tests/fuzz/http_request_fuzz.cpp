// SPDX-License-Identifier: Apache-2.0
// The readers of HTTP requests. A stream of requests is read the same in pieces of any size.
#include "service/front/http_error.hpp"
#include "service/front/inference_reader.hpp"
#include "service/front/routes.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace sluice::service {
namespace {

constexpr std::uint64_t most_tensor_bytes = std::uint64_t{1} << 20;
constexpr std::size_t buffer_bytes = 8192;
constexpr http_limits limits{.head_bytes = 4096, .fields = 20, .body_bytes = 65'536};

/// A finding unless `holds`.
void require(bool holds, const char* description) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", description);
  std::abort();
}

class heap_memory final : public input_memory {
 public:
  explicit heap_memory(std::span<const std::uint64_t> sizes) {
    for (const auto size : sizes) tensors_.emplace_back(size);
  }
  [[nodiscard]] std::span<std::byte> tensor(std::size_t index) noexcept override {
    return tensors_[index];
  }

 private:
  std::vector<std::vector<std::byte>> tensors_{};
};

class heap_backend final : public model_backend {
 public:
  [[nodiscard]] bool is_ready() const override { return true; }
  [[nodiscard]] model_metadata describe(std::string_view, std::string_view) const override {
    return {};
  }
  [[nodiscard]] model_config configuration(std::string_view, std::string_view) const override {
    return {};
  }
  [[nodiscard]] std::vector<repository_entry> index() const override { return {}; }
  void load(std::string, load_answer) override {}
  void unload(std::string, load_answer) override {}
  [[nodiscard]] std::unique_ptr<input_memory> allocate(
      std::span<const std::uint64_t> sizes) override {
    std::uint64_t rest = most_tensor_bytes;
    for (const auto size : sizes) {
      if (size > rest) throw request_error(request_status::too_large, "too many bytes");
      rest -= size;
    }
    return std::make_unique<heap_memory>(sizes);
  }
  number submit(run_request, std::unique_ptr<input_memory>,
                std::function<void(run_result)>) override {
    return 0;
  }
  void cancel(number) noexcept override {}
};

/// What a stream was taken for.
struct reading {
  std::vector<std::string> requests{};
  bool is_refused = false;

  bool operator==(const reading&) const = default;
};

/// The stream as a client sends it, in pieces.
class piecewise_input {
 public:
  piecewise_input(std::string_view stream, std::size_t piece) : stream_(stream), piece_(piece) {}

  read_buffer& buffer() noexcept { return buffer_; }
  /// Whether there was another piece. Goes into `direct` if it is not empty.
  [[nodiscard]] bool read_into(std::span<std::byte>& direct) {
    const auto target = direct.empty() ? buffer_.prepare() : direct;
    const std::size_t bytes = std::min({piece_, stream_.size(), target.size()});
    if (bytes == 0) return false;
    std::memcpy(target.data(), stream_.data(), bytes);
    stream_.remove_prefix(bytes);
    if (direct.empty()) {
      buffer_.commit(bytes);
    } else {
      direct = direct.first(bytes);
    }
    return true;
  }

 private:
  std::string_view stream_;
  std::size_t piece_;
  read_buffer buffer_{buffer_bytes};
};

/// Whether the body came to its end. Appends what it says to `text`.
bool read_body(piecewise_input& input, request_body& body, inference_reader& reader,
               std::string& text) {
  while (true) {
    const auto next = reader.read(input.buffer(), body);
    if (next == inference_reader::need::work) {
      reader.work();
    } else if (next == inference_reader::need::nothing) {
      break;
    } else {
      auto direct = input.buffer().empty() ? reader.direct_target(body) : std::span<std::byte>{};
      const bool is_direct = !direct.empty();
      if (!input.read_into(direct)) return false;
      if (is_direct) reader.take_direct(direct.size(), body);
    }
  }
  require(body.is_done(), "a complete request has no rest of a body");
  const auto inputs = reader.take_inputs();
  for (std::size_t i = 0; i < reader.request().inputs.size(); ++i) {
    const auto tensor = inputs->tensor(i);
    require(tensor.size() == reader.request().inputs[i].bytes, "tensors have their sizes");
    text += reader.request().inputs[i].name;
    text.append(reinterpret_cast<const char*>(tensor.data()), tensor.size());
  }
  return true;
}

/// Reads requests until the stream ends or is refused.
reading read_stream(std::string_view stream, std::size_t piece) {
  reading result;
  heap_backend backend;
  byte_budget json(1 << 20);
  const auto tenants = std::make_shared<const tenant_registry>();
  const region_registry regions(tenants);
  try {
    piecewise_input input(stream, piece);
    inference_reader reader(backend, json, *tenants, regions);
    while (true) {
      std::size_t searched = 0;
      std::optional<std::size_t> length;
      while (!(length = find_head_end(input.buffer().text(), searched))) {
        if (input.buffer().size() >= limits.head_bytes) throw http_error(431, "too large");
        std::span<std::byte> nowhere{};
        if (!input.read_into(nowhere)) return result;
      }
      if (*length > limits.head_bytes) throw http_error(431, "too large");
      const auto head = parse_request_head(input.buffer().text().substr(0, *length), limits);
      const route found = find_route(head.path);
      std::string text =
          found.model + '\n' + found.version + '\n' + found.region + '\n' + std::string(head.host);
      request_body body(head, limits.body_bytes);
      const auto json_bytes = head.json_bytes;
      input.buffer().consume(*length);
      reader.begin(body, json_bytes, limits.body_bytes, "");
      if (!read_body(input, body, reader, text)) return result;
      result.requests.push_back(std::move(text));
    }
  } catch (const http_error& refusal) {
    require(refusal.status() >= 400 && refusal.status() < 600, "a refusal is an error");
    result.is_refused = true;
  } catch (const request_error& refusal) {
    require(refusal.status() != request_status::internal, "no request is a fault of the service");
    result.is_refused = true;
  }
  require(json.used() == 0, "no text stays charged");
  return result;
}

void check(std::string_view input) {
  if (input.empty()) return;
  const std::size_t piece = static_cast<unsigned char>(input.front()) + std::size_t{1};
  input.remove_prefix(1);
  const auto whole = read_stream(input, buffer_bytes);
  require(whole == read_stream(input, piece), "pieces do not matter");
  require(whole == read_stream(input, 1), "single bytes do not matter");
}

}  // namespace
}  // namespace sluice::service

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sluice::service::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
