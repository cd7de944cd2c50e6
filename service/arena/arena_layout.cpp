// SPDX-License-Identifier: Apache-2.0
#include "service/arena/arena_layout.hpp"

#include <bit>
#include <cstring>
#include <stdexcept>

namespace sluice::service {
namespace {

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t magic = 0x6165'6372'6975'6c73;
constexpr std::uint64_t version = 1;
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 46;
constexpr std::uint64_t most_slots = std::uint64_t{1} << 20;
constexpr std::size_t ring_count = 3;

struct description {
  std::uint64_t magic;
  std::uint64_t version;
  std::uint64_t ring_capacity;
  std::uint64_t request_bytes;
  std::uint64_t reply_bytes;
};

// Words that different processes write lie two cache lines apart, because processors fetch pairs.
constexpr std::size_t word_distance = 128;
constexpr std::size_t first_index = word_distance;
constexpr std::size_t first_flag = first_index + 2 * ring_count * word_distance;
static_assert(sizeof(description) <= first_index && first_flag + 3 * word_distance <= page);

[[nodiscard]] std::uint64_t whole_pages(std::uint64_t bytes) {
  return (bytes + page - 1) / page * page;
}

[[nodiscard]] std::uint64_t* word(std::span<std::byte> memory, std::size_t offset) noexcept {
  return reinterpret_cast<std::uint64_t*>(memory.data() + offset);
}

[[nodiscard]] arena_sizes sizes_in(std::span<const std::byte> memory) {
  description read{};
  if (memory.size() < page) throw std::invalid_argument("the arena has no header");
  std::memcpy(&read, memory.data(), sizeof(read));
  if (read.magic != magic || read.version != version) {
    throw std::invalid_argument("the arena has another version");
  }
  return {.request_bytes = read.request_bytes,
          .reply_bytes = read.reply_bytes,
          .ring_capacity = read.ring_capacity};
}

}  // namespace

arena_layout::arena_layout(const arena_sizes& sizes) : capacity_(sizes.ring_capacity) {
  if (!std::has_single_bit(capacity_) || capacity_ > most_slots) {
    throw std::invalid_argument("the capacity of rings is no power of 2 up to 2^20");
  }
  for (const auto bytes : {sizes.request_bytes, sizes.reply_bytes}) {
    if (bytes == 0 || bytes > most_bytes) {
      throw std::invalid_argument("the parts of an arena have 1 to 2^46 bytes");
    }
  }
  const auto rings = whole_pages(ring_count * capacity_ * sizeof(std::uint64_t));
  requests_ = {.begin = page + rings, .bytes = whole_pages(sizes.request_bytes)};
  replies_ = {.begin = requests_.begin + requests_.bytes, .bytes = whole_pages(sizes.reply_bytes)};
}

arena_layout::arena_layout(std::span<const std::byte> memory) : arena_layout(sizes_in(memory)) {
  if (bytes() != memory.size()) throw std::invalid_argument("the arena has another size");
}

void arena_layout::write(std::span<std::byte> memory) const {
  const description written{.magic = magic,
                            .version = version,
                            .ring_capacity = capacity_,
                            .request_bytes = requests_.bytes,
                            .reply_bytes = replies_.bytes};
  std::memcpy(memory.data(), &written, sizeof(written));
}

std::uint64_t arena_layout::bytes() const noexcept {
  return replies_.begin + replies_.bytes;
}

ring_memory arena_layout::ring(std::span<std::byte> memory, std::size_t number) const noexcept {
  const auto head = first_index + 2 * number * word_distance;
  return {.head = word(memory, head),
          .tail = word(memory, head + word_distance),
          .slots = {word(memory, page) + number * capacity_, capacity_}};
}

ring_memory arena_layout::request_ring(std::span<std::byte> memory) const noexcept {
  return ring(memory, 0);
}

ring_memory arena_layout::reply_ring(std::span<std::byte> memory) const noexcept {
  return ring(memory, 1);
}

ring_memory arena_layout::release_ring(std::span<std::byte> memory) const noexcept {
  return ring(memory, 2);
}

std::uint64_t* arena_layout::front_sleeps(std::span<std::byte> memory) noexcept {
  return word(memory, first_flag);
}

std::uint64_t* arena_layout::worker_sleeps(std::span<std::byte> memory) noexcept {
  return word(memory, first_flag + word_distance);
}

std::uint64_t* arena_layout::release_wanted(std::span<std::byte> memory) noexcept {
  return word(memory, first_flag + 2 * word_distance);
}

}  // namespace sluice::service
