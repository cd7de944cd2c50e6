// SPDX-License-Identifier: Apache-2.0
#include "service/worker/warm_up_runs.hpp"

#include "service/worker/element_types.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <random>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace sluice::service {
namespace {

constexpr std::size_t most_input_bytes = std::size_t{1} << 30U;

/// The elements of an input.
using input_bytes = std::span<std::byte>;

template <class T>
void fill_range(input_bytes bytes, std::mt19937& generator) {
  std::generate_n(reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T), [&] {
    if constexpr (std::is_floating_point_v<T>) {
      return std::uniform_real_distribution<T>()(generator);
    } else {
      return static_cast<T>(generator() & 1U);
    }
  });
}

/// Random bits of numbers in [0, 1) of 16 bits: those below that of 1.
void fill_bits(input_bytes bytes, std::uint16_t one, std::mt19937& generator) {
  std::uniform_int_distribution<std::uint32_t> bits(0, one - 1U);
  std::generate_n(reinterpret_cast<std::uint16_t*>(bytes.data()), bytes.size() / 2,
                  [&] { return static_cast<std::uint16_t>(bits(generator)); });
}

void fill_randomly(input_bytes bytes, datatype type) {
  std::mt19937 generator(1);  // the same numbers each time
  switch (type) {
    case datatype::boolean:
    case datatype::uint8:
    case datatype::int8:
      return fill_range<std::uint8_t>(bytes, generator);
    case datatype::uint16:
    case datatype::int16:
      return fill_range<std::uint16_t>(bytes, generator);
    case datatype::uint32:
    case datatype::int32:
      return fill_range<std::uint32_t>(bytes, generator);
    case datatype::uint64:
    case datatype::int64:
      return fill_range<std::uint64_t>(bytes, generator);
    case datatype::fp16:
      return fill_bits(bytes, 0x3c00, generator);
    case datatype::bf16:
      return fill_bits(bytes, 0x3f80, generator);
    case datatype::fp32:
      return fill_range<float>(bytes, generator);
    case datatype::fp64:
      return fill_range<double>(bytes, generator);
  }
}

[[nodiscard]] std::map<std::string, run_input> inputs_of(const warm_up_order& order) {
  std::map<std::string, run_input> inputs;
  for (const auto& each : order.inputs) {
    extents shape;
    for (const auto extent : each.shape) shape.push_back(extent);
    const auto type = element_type_of(each.type);
    const auto bytes = tensor_spec::row_major(type, shape).bytes();
    if (bytes > most_input_bytes) throw std::runtime_error(each.name + " has more than 1 GiB");
    const auto zeros =
        std::make_shared<std::vector<std::max_align_t>>(bytes / sizeof(std::max_align_t) + 1);
    auto* const first = reinterpret_cast<std::byte*>(zeros->data());
    if (each.is_random) fill_randomly({first, bytes}, each.type);
    inputs.emplace(each.name, host_tensor::external({zeros, first}, type, shape));
  }
  return inputs;
}

}  // namespace

void warm_up_runs::add(std::uint32_t handle, nlohmann::json answer,
                       std::vector<warm_up_order> orders) {
  jobs_.push_back(
      {.result = {.handle = handle, .answer = std::move(answer)}, .orders = std::move(orders)});
  wake_->signal();
}

bool warm_up_runs::begin(job& first) {
  while (first.order < first.orders.size() && first.begun == first.orders[first.order].count) {
    ++first.order;
    first.begun = 0;
  }
  if (first.order == first.orders.size()) return false;
  ++first.begun;
  is_running_ = true;
  models_.warm_up(first.result.handle, inputs_of(first.orders[first.order]),
                  [end = end_, wake = wake_](const error* failure) {
                    {
                      const std::lock_guard lock(end->mutex);
                      end->is_there = true;
                      if (failure != nullptr) end->failure.emplace(*failure);
                    }
                    wake->signal();
                  });
  return true;
}

std::vector<warm_up_runs::outcome> warm_up_runs::take() {
  std::vector<outcome> outcomes;
  const auto finish = [&](std::optional<std::string> problem) {
    auto& first = jobs_.front();
    if (problem) {
      first.result.problem =
          "the warm-up \"" + first.orders.at(first.order).name + "\" failed: " + *problem;
    }
    outcomes.push_back(std::move(first.result));
    jobs_.pop_front();
  };
  if (is_running_) {
    const std::lock_guard lock(end_->mutex);
    if (!std::exchange(end_->is_there, false)) return outcomes;
    is_running_ = false;
    if (const auto failure = std::exchange(end_->failure, std::nullopt)) finish(failure->what());
  }
  while (!jobs_.empty() && !is_running_) {
    try {
      if (!begin(jobs_.front())) finish(std::nullopt);
    } catch (const std::exception& e) {
      is_running_ = false;
      finish(e.what());
    }
  }
  return outcomes;
}

}  // namespace sluice::service
