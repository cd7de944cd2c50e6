// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/answer.hpp>
#include <sluice/actors/ask.hpp>
#include <sluice/actors/blas.hpp>
#include <sluice/actors/caf.hpp>
#include <sluice/actors/dnn.hpp>
#include <sluice/actors/elementwise.hpp>
#include <sluice/actors/fft.hpp>
#include <sluice/actors/models.hpp>
#include <sluice/actors/operation_actor.hpp>
#include <sluice/actors/program.hpp>
#include <sluice/actors/rng.hpp>
#include <sluice/envelope/device_service.hpp>
#include <sluice/envelope/kernel_trace.hpp>
#include <sluice/envelope/reply_token.hpp>
#include <sluice/export.hpp>
#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/transfer.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Asks for a tensor of undefined elements, row-major and without gaps. Waits for no launch.
/// Errors: `invalid_argument` (a negative extent, or a size that overflows), `out_of_memory`,
/// `over_budget`, `shutting_down`, `device_lost`, `overloaded` (too many messages of the sender
/// wait in front of the actor).
struct allocate {
  extents shape{};                        ///< number of elements along each dimension
  element_type type = element_type::f32;  ///< type of an element
};

/// Asks for a `host_tensor` of undefined elements in pinned memory, for uploads and downloads at
/// full speed; see `device_runtime::allocate_pinned`. A client keeps it for many transfers. Errors:
/// those of `allocate`.
struct allocate_pinned {
  extents shape{};                        ///< number of elements along each dimension
  element_type type = element_type::f32;  ///< type of an element
};

/// The answer to `download`: the target of the request, which is new if none is given.
template <>
struct request_reply<download> {
  using type = host_tensor;  ///< type of the answer

  /// Gives `request` a target if it has none.
  /// @throws std::bad_alloc if there is no memory
  explicit request_reply(download& request) : is_new_(!request.target) {
    if (is_new_) request.target = std::make_shared<host_tensor>();
    target_ = request.target;
  }
  /// The target of the request. A given target keeps its elements.
  [[nodiscard]] host_tensor operator()(tensor) const noexcept {
    return is_new_ ? std::move(*target_) : *target_;
  }

 private:
  bool is_new_;
  std::shared_ptr<host_tensor> target_;
};
template <>
struct local_message<host_tensor> : std::true_type {};

/// Ask for the device's library actors. The first request makes the actor. The errors are those of
/// the function that spawns it, `spawn_blas` for example.
///@{
struct get_blas {};
struct get_dnn {};
struct get_fft {};
struct get_rng {};
struct get_elementwise {};
struct get_programs {};
struct get_models {};
///@}

/// Asks for a `device_status`: what the device is, and the counters of its runtime. Owners of
/// completed launches are dropped first.
struct get_statistics {};
/// The reply to `get_statistics`.
struct device_status {
  device_info info;                  ///< name, memory and capabilities of the device
  runtime_statistics memory;         ///< counters of its runtime
  std::size_t launches_pending = 0;  ///< launches that have not completed
};

namespace detail {
class device_end;
}  // namespace detail

/// The actor that owns a device: memory, transfers, its library actors. Its end ends its library
/// actors, too; launches in flight are finished and answered.
///
///     request(self, device, caf::infinite, upload{.values = std::vector<float>{1, 2, 3}});
///     request(self, device, caf::infinite, download{.x = x});
///
/// It takes the operations `upload`, `download`, `fill` and `strided_copy` as an `operation_actor`
/// does.
using device_actor = operation_actor<upload, download, fill, strided_copy>::extend<
    takes<tensor(allocate)>, takes<host_tensor(allocate_pinned)>, takes<blas_actor(get_blas)>,
    takes<dnn_actor(get_dnn)>, takes<fft_actor(get_fft)>, takes<rng_actor(get_rng)>,
    takes<elementwise_actor(get_elementwise)>, takes<program_actor(get_programs)>,
    takes<model_actor(get_models)>, takes<device_status(get_statistics)>>;

/// Starts a device actor over `service`, on a thread of its own. `trace` watches the launches of
/// the device and of every library actor that it makes. @throws error as
/// `device_runtime::create_stream`
[[nodiscard]] SLUICE_EXPORT device_actor
spawn_device(caf::actor_system& system, std::shared_ptr<device_service> service,
             std::shared_ptr<kernel_trace> trace = nullptr);

/// A device for the time of a scope: opens it and starts its actor. At the end it stops the actors
/// and waits until they have ended. The last owner of the service, usually this object, then waits
/// until nothing is in flight and closes the device. Not an actor; use it from one thread.
///
/// With another owner of the service, launches may still be in flight after the end, and are
/// answered later.
///
/// Destroy it before the actor system. If the actor system ends first, it ends the actors; from
/// then on only the destructor may be called.
///
/// Drop all handles of the actors before the actor system ends, too. With CAF 0.17, the destructor
/// of the system does not return while a handle exists, even if its actor has ended.
class SLUICE_EXPORT scoped_device {
 public:
  /// @throws error as `open_device` and `spawn_device`
  explicit scoped_device(caf::actor_system& system, std::string_view device_name = "auto",
                         std::shared_ptr<kernel_trace> trace = nullptr,
                         device_service_options options = {});
  /// Starts an actor over a device that is open already. @throws error as `spawn_device`
  scoped_device(caf::actor_system& system, std::shared_ptr<device_service> service,
                std::shared_ptr<kernel_trace> trace = nullptr);
  scoped_device(const scoped_device&) = delete;
  scoped_device& operator=(const scoped_device&) = delete;
  ~scoped_device();

  /// The device actor. It ends with this object.
  [[nodiscard]] const device_actor& actor() const noexcept { return actor_; }
  /// The device's service. Valid as long as this object.
  [[nodiscard]] device_service& service() const noexcept { return *service_; }
  /// The device's service, for an owner that outlives this object.
  [[nodiscard]] const std::shared_ptr<device_service>& shared_service() const noexcept {
    return service_;
  }

  /// The library actors, the program actor and the model actor, made at the first call. Each asks
  /// the device actor and waits for its answer.
  /// @throws error what the device actor answered
  ///@{
  [[nodiscard]] blas_actor blas();
  [[nodiscard]] dnn_actor dnn();
  [[nodiscard]] fft_actor fft();
  [[nodiscard]] rng_actor rng();
  [[nodiscard]] elementwise_actor elementwise();
  [[nodiscard]] program_actor programs();
  [[nodiscard]] model_actor models();
  ///@}

 private:
  caf::actor_system& system_;
  std::shared_ptr<device_service> service_;
  std::shared_ptr<detail::device_end> end_;
  device_actor actor_;
};

}  // namespace sluice

SLUICE_MESSAGES(sluice_device, 1100, sluice::allocate, sluice::upload, sluice::download,
                sluice::fill, sluice::host_tensor, sluice::get_blas, sluice::get_dnn,
                sluice::get_fft, sluice::get_rng, sluice::get_elementwise, sluice::get_programs,
                sluice::get_statistics, sluice::device_status, sluice::allocate_pinned,
                sluice::get_models)
