// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/blas.hpp>
#include <sluice/actors/caf.hpp>
#include <sluice/actors/dnn.hpp>
#include <sluice/actors/elementwise.hpp>
#include <sluice/actors/fft.hpp>
#include <sluice/actors/rng.hpp>
#include <sluice/envelope/device_service.hpp>
#include <sluice/envelope/kernel_trace.hpp>
#include <sluice/envelope/reply_token.hpp>
#include <sluice/export.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// Asks for memory for `count` elements of undefined contents. Errors: `invalid_argument` (the size
/// overflows), `out_of_memory`, `over_budget`, `shutting_down`, `device_lost`.
template <element T>
struct allocate {
  std::size_t count = 0;  ///< in elements
};

/// Asks that every element of `target` become `value`. The reply is `target`. Errors as for any
/// launch: `invalid_argument`, `stale_ref`, `shutting_down`, `device_lost`.
template <element T>
struct fill {
  gpu_ref<T> target{};                  ///< the elements to set
  T value{};                            ///< the new value of each
  reply_on reply = reply_on::finished;  ///< when the reply is sent
};

/// Asks for a copy of `source` into `target`, which has as many elements, shares none with it, and
/// is allocated when left out. The reply is the target. Errors as above and `upstream_failed`,
/// `out_of_memory`.
template <element T>
struct copy {
  gpu_ref<T> source{};                  ///< the elements to copy
  gpu_ref<T> target{};                  ///< where they go
  reply_on reply = reply_on::finished;  ///< when the reply is sent
};

/// Asks that `values` be brought to the device, into `target` (as many elements; allocated when
/// left out). The reply is the target. On CUDA they pass through pinned memory, as `host_transfer`
/// says. Errors as above.
template <element T>
struct upload {
  std::vector<T> values{};              ///< the elements to transfer
  gpu_ref<T> target{};                  ///< where they go
  reply_on reply = reply_on::finished;  ///< when the reply is sent
};

/// Asks for the elements of `source` as a vector, ordered after every write of it that was
/// published before. Errors as above and `upstream_failed`.
template <element T>
struct download {
  gpu_ref<T> source{};  ///< the elements to transfer
};

/// Ask for the device's library actors, which are made at the first request. Errors as those of
/// `spawn_blas` and so on.
///@{
struct get_blas {};
struct get_dnn {};
struct get_fft {};
struct get_rng {};
struct get_elementwise {};
///@}

/// Asks for `runtime_statistics`, after dropping the owners of completed launches, and for what the
/// device is.
struct get_statistics {};
/// The reply to `get_statistics`.
struct device_status {
  device_info info;                  ///< name, memory and capabilities of the device
  runtime_statistics memory;         ///< counters of its runtime
  std::size_t launches_pending = 0;  ///< launches that have not completed
};

/// The element types of transfers.
template <template <class...> class List>
using transfer_types =
    List<std::uint32_t, float, double, std::complex<float>, std::complex<double>>;

namespace detail {
class device_end;

template <class... T>
using device_actor_of = caf::typed_actor<
    typename caf::replies_to<allocate<T>>::template with<gpu_ref<T>>...,
    typename caf::replies_to<fill<T>>::template with<gpu_ref<T>>...,
    typename caf::replies_to<copy<T>>::template with<gpu_ref<T>>...,
    typename caf::replies_to<upload<T>>::template with<gpu_ref<T>>...,
    typename caf::replies_to<download<T>>::template with<std::vector<T>>...,
    caf::replies_to<get_blas>::with<blas_actor>, caf::replies_to<get_dnn>::with<dnn_actor>,
    caf::replies_to<get_fft>::with<fft_actor>, caf::replies_to<get_rng>::with<rng_actor>,
    caf::replies_to<get_elementwise>::with<elementwise_actor>,
    caf::replies_to<get_statistics>::with<device_status>,
    caf::reacts_to<caf::atom_constant<caf::atom("room")>>>;
}  // namespace detail

/// The actor that owns a device: memory, transfers, its library actors. Its end ends its library
/// actors, too; launches in flight are finished and answered.
using device_actor = transfer_types<detail::device_actor_of>;

/// Starts a device actor over `service`, on a thread of its own. `trace` watches the launches of
/// the device and of every library actor that it makes. @throws error as
/// `device_runtime::create_stream`
[[nodiscard]] SLUICE_EXPORT device_actor
spawn_device(caf::actor_system& system, std::shared_ptr<device_service> service,
             std::shared_ptr<kernel_trace> trace = nullptr);

/// A device for the time of a scope: opens it, starts its actor, and at the end stops the actors,
/// waits until nothing is in flight and closes the device. Not an actor; use it from one thread.
///
/// Destroy it before the actor system. If the actor system ends first, it ends the actors; from
/// then on only the destructor may be called.
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

  /// The library actors, made at the first call. Each asks the device actor and waits for its
  /// answer.
  /// @throws error what the device actor answered
  ///@{
  [[nodiscard]] blas_actor blas();
  [[nodiscard]] dnn_actor dnn();
  [[nodiscard]] fft_actor fft();
  [[nodiscard]] rng_actor rng();
  [[nodiscard]] elementwise_actor elementwise();
  ///@}

 private:
  caf::actor_system& system_;
  std::shared_ptr<device_service> service_;
  std::shared_ptr<detail::device_end> end_;
  device_actor actor_;
};

/// Sends `request` to `target`, waits for the answer and returns it: for tests, tools and `main`
/// functions. Actors use `request(...).then(...)` instead.
/// @throws error the answer, when it is an error of sluice; `library_failure` for one of CAF's own
template <class Reply, class Handle, class Request>
Reply ask(caf::actor_system& system, const Handle& target, Request request) {
  caf::scoped_actor self{system};
  std::optional<Reply> answer;
  std::optional<error> failure;
  self->request(target, caf::infinite, std::move(request))
      .receive([&](Reply& reply) { answer.emplace(std::move(reply)); },
               [&](caf::error& e) {
                 failure = from_caf_error(e);
                 if (!failure) failure.emplace(errc::library_failure, describe(system, e));
               });
  if (failure) throw *failure;
  return std::move(*answer);
}

}  // namespace sluice

namespace caf {
template <class T>
struct allowed_unsafe_message_type<sluice::allocate<T>> : std::true_type {};
template <class T>
struct allowed_unsafe_message_type<sluice::fill<T>> : std::true_type {};
template <class T>
struct allowed_unsafe_message_type<sluice::copy<T>> : std::true_type {};
template <class T>
struct allowed_unsafe_message_type<sluice::upload<T>> : std::true_type {};
template <class T>
struct allowed_unsafe_message_type<sluice::download<T>> : std::true_type {};
template <class T>
struct allowed_unsafe_message_type<std::vector<std::complex<T>>> : std::true_type {};
}  // namespace caf
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::get_blas)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::get_dnn)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::get_fft)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::get_rng)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::get_elementwise)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::get_statistics)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::device_status)
