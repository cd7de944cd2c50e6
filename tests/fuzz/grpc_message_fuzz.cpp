// SPDX-License-Identifier: Apache-2.0
// The readers of gRPC's requests. A message is read the same in pieces of any size, and
// elements that are read and written again stay the same.
#include "service/grpc/infer_message.hpp"
#include "service/grpc/query_messages.hpp"
#include "service/grpc/reflection_message.hpp"
#include "service/grpc/region_messages.hpp"
#include "service/grpc/repository_messages.hpp"
#include "service/grpc/tensor_contents.hpp"
#include "service/protocol/request_error.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace sluice::service {
namespace {

constexpr std::uint64_t most_tensor_bytes = std::uint64_t{1} << 20U;

/// A finding unless `holds`.
void require(bool holds, const char* description) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", description);
  std::abort();
}

/// What a message was taken for.
struct reading {
  std::string model{};
  std::string refusal{};
  std::vector<std::string> tensors{};
  std::vector<std::string> others{};  ///< what requests about models say in the same bytes
  std::vector<std::string> regions{};

  bool operator==(const reading&) const = default;
};

void check_elements(const request_input& input, const std::string& tensor) {
  if (!has_contents_field(input.type)) return;
  const auto message = contents_message(input.type, std::as_bytes(std::span(tensor)));
  std::string again(tensor.size(), '\0');
  read_contents(wire_reader(std::as_bytes(std::span(message))), input.type,
                std::as_writable_bytes(std::span(again)));
  // Any byte but 0 is true.
  if (input.type != datatype::boolean) require(again == tensor, "elements stay the same");
}

void note_region(const std::optional<tensor_region>& region, reading& result) {
  if (!region) return;
  result.regions.push_back(region->name + ' ' + std::to_string(region->offset) + ' ' +
                           std::to_string(region->bytes));
}

void read_elements(const infer_message& message, reading& result) {
  std::uint64_t rest = most_tensor_bytes;
  for (const auto& input : message.request.inputs) {
    if (input.bytes > rest) throw request_error(request_status::too_large, "too many bytes");
    rest -= input.bytes;
    require(!input.region || (input.region->bytes == input.bytes && !input.is_binary),
            "a region has the whole tensor");
    note_region(input.region, result);
  }
  for (const auto& output : message.request.outputs) note_region(output.region, result);
  require(message.elements.size() == message.request.inputs.size(), "each input has elements");
  std::vector<std::span<std::byte>> tensors;
  for (const auto& input : message.request.inputs) {
    result.tensors.emplace_back(static_cast<std::size_t>(input.bytes), '\0');
  }
  for (auto& tensor : result.tensors) {
    tensors.push_back(std::as_writable_bytes(std::span(tensor)));
  }
  read_tensors(message, tensors);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    check_elements(message.request.inputs[i], result.tensors[i]);
  }
}

/// What `read` makes of a message, or why it refuses it.
template <class Read>
std::string text_of(wire_reader message, Read read) {
  try {
    return read(message);
  } catch (const request_error& refusal) {
    require(refusal.status() != request_status::internal, "no request is a fault of the service");
    return refusal.what();
  }
}

/// Each piece is on the heap, where a sanitizer sees reads beyond its end.
reading read_message(std::string_view text, std::size_t piece) {
  std::vector<std::vector<char>> storage;
  for (; !text.empty(); text.remove_prefix(std::min(piece, text.size()))) {
    const auto part = text.substr(0, piece);
    storage.emplace_back(part.begin(), part.end());
  }
  std::vector<std::span<const std::byte>> pieces;
  for (const auto& each : storage) pieces.push_back(std::as_bytes(std::span(each)));

  const wire_reader bytes{std::span<const std::span<const std::byte>>(pieces)};
  reading result;
  result.others = {text_of(bytes, read_load_request),
                   text_of(bytes, read_unload_request),
                   text_of(bytes, read_service_name),
                   text_of(bytes, reflection_message),
                   text_of(bytes, [](wire_reader m) { return read_model_name(m).version; }),
                   text_of(bytes, [](wire_reader m) { return read_index_request(m) ? "1" : "0"; })};
  try {
    const auto region = read_region_request(bytes);
    require(region.name == read_region_name(bytes), "names are the same in all requests");
    result.regions = {region.name, region.key, std::to_string(region.offset),
                      std::to_string(region.bytes)};
  } catch (const request_error& refusal) {
    require(refusal.status() == request_status::invalid_argument, "a refusal is of the client");
  }
  infer_message message;
  try {
    parse_infer_message(bytes, message);
    read_elements(message, result);
  } catch (const request_error& refusal) {
    require(refusal.status() != request_status::internal, "no request is a fault of the service");
    result.refusal = refusal.what();
    result.tensors.clear();
  }
  result.model = message.model;
  return result;
}

void check(std::string_view input) {
  if (input.empty()) return;
  const std::size_t piece = static_cast<unsigned char>(input.front()) + std::size_t{1};
  input.remove_prefix(1);
  const auto whole = read_message(input, input.size() + 1);
  require(whole == read_message(input, piece), "pieces do not matter");
  require(whole == read_message(input, 1), "single bytes do not matter");
}

}  // namespace
}  // namespace sluice::service

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sluice::service::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
