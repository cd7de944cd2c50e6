// SPDX-License-Identifier: Apache-2.0
#include "runtime/interop/external_memory.hpp"

#include "runtime/devices/open_devices.hpp"

#include <sluice/runtime/dlpack.hpp>
#include <sluice/runtime/launch_recorder.hpp>

#include <optional>
#include <string>
#include <utility>

namespace sluice::detail {
namespace {

/// An adoption stream with a reservation for one more ticket.
class adoption {
 public:
  explicit adoption(runtime_core& core) : timeline_(core.adoption_timeline()) {
    timeline_.reserve();
    reserved_ = true;
    first_ = timeline_.newest().ticket + 1;
  }
  adoption(const adoption&) = delete;
  adoption& operator=(const adoption&) = delete;
  ~adoption() {
    if (reserved_) timeline_.unreserve();
  }

  [[nodiscard]] native_stream* native() const noexcept { return timeline_.native(); }
  [[nodiscard]] timeline_point submit() {
    reserved_ = false;
    return {timeline_.id(), timeline_.submit({}, nullptr, first_)};
  }

 private:
  timeline& timeline_;
  const epoch_reader reader_{timeline_.outcome_readers()};
  bool reserved_ = false;
  std::uint64_t first_ = 0;  // the next ticket at construction; another thread may take it
};

// The values of CUDA's `cudaStreamLegacy` and `cudaStreamPerThread`.
constexpr std::uintptr_t legacy_default_stream = 1;
constexpr std::uintptr_t default_stream_of_thread = 2;

/// The stream that a deleter on any thread can follow to be ordered after the work of `stream`.
foreign_stream for_any_thread(device_id device, foreign_stream stream) {
  const bool of_thread =
      device.kind == device_kind::cuda &&
      reinterpret_cast<std::uintptr_t>(stream.native()) == default_stream_of_thread;
  return of_thread ? foreign_stream(legacy_default_stream) : stream;
}

}  // namespace

error field_error(errc code, std::string_view field, std::string_view message) {
  return {code, std::string(field) + ": " + std::string(message)};
}

void require_aligned(std::uintptr_t base, std::uint64_t offset, element_type type,
                     std::string_view base_field, std::string_view offset_field) {
  if ((base + offset) % size_of(type) == 0) return;
  throw field_error(
      errc::invalid_argument, base % size_of(type) == 0 ? offset_field : base_field,
      "the first element is not aligned to its size, " + std::to_string(size_of(type)) + " bytes");
}

std::int32_t external_device_type(device_id device) noexcept {
  return device.kind == device_kind::cuda ? dlpack::cuda : dlpack::cpu;
}

void require_device(device_id device, std::int32_t type, std::int64_t id,
                    std::string_view type_field, std::string_view id_field) {
  const bool cuda = device.kind == device_kind::cuda;
  const auto managed_or_pinned = cuda ? dlpack::cuda_managed : dlpack::cuda_host;
  if (type != external_device_type(device) && type != managed_or_pinned) {
    throw field_error(
        errc::invalid_argument, type_field,
        "device type " + std::to_string(type) + " does not match " + to_string(device));
  }
  // Host memory and managed memory belong to no single GPU. DLPack numbers them 0.
  if (type == dlpack::cuda && id != device.ordinal) {
    throw field_error(errc::invalid_argument, id_field,
                      "GPU " + std::to_string(id) + " does not match " + to_string(device));
  }
}

block_ref bring_in(runtime_core& core, const incoming& memory,
                   std::unique_ptr<foreign_memory> owner, const import_options& options) {
  core.require_open();
  // Ordinary host memory counts as ready, because most of its producers have no streams.
  if (!options.stream && !options.ready && memory.event == nullptr &&
      memory.device_type != dlpack::cpu) {
    throw field_error(errc::invalid_argument, "stream",
                      "the import has no order; set ready, or name the producer's stream");
  }
  std::optional<adoption> use;
  timeline_point last_write;
  if (options.stream || memory.event != nullptr) {
    // Followed now, because the stream or the event may stand for other work later.
    if (options.stream) core.device().require_followable(options.stream->native());
    use.emplace(core);
    if (options.stream) core.device().follow(use->native(), options.stream->native());
    if (memory.event != nullptr && core.device().captured(memory.event)) {
      throw field_error(errc::invalid_argument, "sync_event",
                        "the event was recorded in a stream capture");
    }
    if (memory.event != nullptr) core.device().wait(use->native(), memory.event, 0);
    last_write = use->submit();
  }
  return core.adopt({memory.address, memory.bytes, options.tag}, memory.read_only, last_write,
                    owner);
}

/// A lent block. `end` may have to be retried: while the consumer's stream is being captured its
/// work is unknown, and waiting for it would end the capture.
class loan final : public deferred {
 public:
  loan(block_ref block, access_kind access) : block_(std::move(block)), access_(access) {}
  ~loan() override {
    if (refused_) {
      report("exported memory could not be freed", "its consumer's stream was being captured");
    }
  }

  [[nodiscard]] const block_ref& block() const noexcept { return block_; }
  [[nodiscard]] access_kind access() const noexcept { return access_; }
  void set_stream(foreign_stream stream) noexcept { stream_ = stream; }

  /// Orders later uses after the consumer's, and ends the loan. False while the consumer's stream
  /// is being captured: no use of the block is allowed then.
  [[nodiscard]] bool end() noexcept {
    auto& core = *block_record::of(block_)->core;
    try {
      if (stream_ && !core.device().lost() && !publish(core)) {
        refuse_uses(true);
        return false;
      }
    } catch (...) {
      if (!core.device().lost()) {
        report("exported memory could not be freed: waiting for its consumer's stream failed",
               current_error().what());
        refused_ = false;  // reported; uses that were refused stay refused
        return true;
      }
    }
    refuse_uses(false);
    core.unlend(*block_record::of(block_));
    return true;
  }

 private:
  [[nodiscard]] bool ready(reclaim_thread&) noexcept override { return end(); }

  /// Publishes the consumer's use. False while the stream is being captured.
  [[nodiscard]] bool publish(runtime_core& core) {
    const auto stream = stream_->native();
    if (core.device().capturing(stream)) return false;
    timeline_point point;
    try {
      adoption use(core);
      core.device().follow(use.native(), stream);
      point = use.submit();
    } catch (...) {
      if (core.device().capturing(stream)) return false;  // since the check above
      // A superfluous wait is better than a use that no later launch waits for.
      core.device().synchronize(stream);
      return true;
    }
    auto& record = *block_record::of(block_);
    record.lock_and_publish(core, [&](timeline_point completed_point) {
      return record.uses.add(access_, point, core, true, completed_point);
    });
    record.lease.unlock();
    return true;
  }

  void refuse_uses(bool refused) noexcept {
    if (refused == refused_) return;
    refused_ = refused;
    auto& record = *block_record::of(block_);
    const std::lock_guard lock(record.lease);
    record.unordered_uses += refused ? 1U : ~0U;
  }

  block_ref block_;
  access_kind access_;
  std::optional<foreign_stream> stream_;
  bool refused_ = false;
};

lent_memory::lent_memory(device_runtime& runtime, const tensor& memory,
                         std::optional<foreign_stream> stream, access_kind access,
                         without_stream fallback)
    : loan_(std::make_unique<loan>(memory.block(), access)) {
  if (!memory) throw error(errc::invalid_argument, "export: the tensor has no block");
  auto& core = *runtime_core::of(runtime);
  auto& record = *block_record::of(loan_->block());
  if (record.core != &core) {
    throw runtime_core::foreign(memory.block(), errc::invalid_argument,
                                "export: the memory belongs to another runtime");
  }
  core.require_open();
  auto& device = core.device();
  if (stream) device.require_followable(stream->native());
  auto& stream_timeline = core.adoption_timeline();
  // The consumer is a launch with an empty body, on a stream that the consumer's stream follows.
  auto recorder = launch_recorder::strict(stream_timeline.ref());
  recorder.use(loan_->block(), access, false);
  recorder.preflight();
  const epoch_reader outcome(stream_timeline.outcome_readers());
  const auto ready = recorder.commit();
  const bool by_event = fallback == without_stream::event && device.id().kind == device_kind::cuda;
  if (stream) {
    device.follow(stream->native(), stream_timeline.native());
    loan_->set_stream(for_any_thread(device.id(), *stream));
  } else if (!by_event) {
    stream_timeline.wait_until(ready.ticket);
    if (const auto failure = stream_timeline.failure_of(ready.ticket)) throw *failure;
  }
  if (by_event) event_ = device.create_event();
  try {
    if (by_event) device.record(event_, 1, stream_timeline.native());
    if (!core.lend(record)) {
      throw error(errc::stale_ref, "export: the memory has been freed");
    }
  } catch (...) {
    if (event_ != nullptr) device.destroy_event(event_);
    throw;
  }
}

lent_memory::~lent_memory() {
  auto& core = *block_record::of(loan_->block())->core;
  if (core.device().inherited()) {
    leave_to_parent(loan_.release());
    return;
  }
  if (event_ != nullptr) core.device().destroy_event(event_);
  if (!loan_->end()) core.reclaim_later(std::move(loan_));
}

}  // namespace sluice::detail
