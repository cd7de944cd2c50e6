// SPDX-License-Identifier: Apache-2.0
#include "runtime/seam.hpp"

#include <sluice/actors/caf.hpp>
#include <sluice/actors/reply.hpp>

#include <array>
#include <atomic>

namespace sluice {
namespace {

std::atomic<std::uint64_t> unsent{0};

/// The library names that a status may carry have static storage; what came in a message is looked
/// up among them.
std::string_view known_library(const std::string& name) noexcept {
  for (const std::string_view library : {"CUDA runtime", "CUDA driver", "cuBLAS", "cuDNN", "cuFFT",
                                         "cuRAND", "OpenBLAS", "oneDNN", "Random123"}) {
    if (name == library) return library;
  }
  return {};
}

/// What `configure` calls. CAF 0.17 needs no registration.
std::vector<void (*)()>& registered_messages() {
  static std::vector<void (*)()> functions;
  return functions;
}

#if CAF_MAJOR_VERSION >= 1
/// Registers the codes of errors with their names, before their block registers them without.
void register_codes() {
  if (!caf::query_type_name(caf::type_id_v<errc>).empty()) return;
  using block = caf::id_block::sluice_references;
  std::array<caf::detail::meta_object, block::end - block::begin> types{};
  auto& codes = types[caf::type_id_v<errc> - block::begin];
  codes = caf::detail::make_meta_object<errc>(caf::type_name_v<errc>);
  codes.stringify = [](std::string& text, const void* code) {
    text += to_string(*static_cast<const errc*>(code));
  };
  caf::detail::set_global_meta_objects(block::begin, caf::make_span(types));
}
#endif

caf::error caf_error(errc code, caf::message context) {
#if CAF_MAJOR_VERSION >= 1
  return {code, std::move(context)};
#else
  return {static_cast<std::uint8_t>(code), error_category, std::move(context)};
#endif
}

}  // namespace

void configure([[maybe_unused]] caf::actor_system_config& config) {
#if CAF_MAJOR_VERSION >= 1
  caf::core::init_global_meta_objects();
  register_codes();
  for (const auto init : registered_messages()) init();
#else
  config.add_error_category(error_category,
                            [](std::uint8_t code, caf::atom_value, const caf::message& context) {
                              auto text = std::string(to_string(static_cast<errc>(code)));
                              if (context.size() > 0 && context.match_element<std::string>(0))
                                text += ": " + context.get_as<std::string>(0);
                              return text;
                            });
#endif
}

caf::error to_caf_error(const error& e) {
  const auto& status = e.status();
  if (status == library_status{})
    return caf_error(e.code(), caf::make_message(std::string(e.what())));
  return caf_error(e.code(), caf::make_message(std::string(e.what()), std::string(status.library),
                                               static_cast<std::int64_t>(status.value)));
}

std::optional<error> from_caf_error(const caf::error& e) {
  if (!e || e.category() != error_category) return std::nullopt;
  const auto code = static_cast<errc>(e.code());
  const auto& context = e.context();
  if (context.match_elements<std::string>()) return error(code, context.get_as<std::string>(0));
  if (!context.match_elements<std::string, std::string, std::int64_t>()) {
    return error(code, std::string(to_string(code)));
  }
  return error(code, context.get_as<std::string>(0),
               {known_library(context.get_as<std::string>(1)),
                static_cast<long>(context.get_as<std::int64_t>(2))});
}

caf::error make_error(errc code) {
  return caf_error(code, {});
}

std::string describe([[maybe_unused]] const caf::actor_system& system, const caf::error& e) {
  if (const auto ours = from_caf_error(e))
    return std::string(to_string(ours->code())) + ": " + ours->what();
#if CAF_MAJOR_VERSION >= 1
  return caf::to_string(e);
#else
  return system.render(e);
#endif
}

std::uint64_t unsent_errors() noexcept {
  return unsent.load(std::memory_order_relaxed);
}

namespace detail {

bool register_messages(void (*init)()) noexcept {
  try {
    registered_messages().push_back(init);
    return true;
  } catch (...) {
    report("messages could not be registered", current_error().what());
    return false;
  }
}

bool is_exit_reason(const caf::error& e) noexcept {
#if CAF_MAJOR_VERSION >= 1
  // An actor that ends breaks its promises first.
  return e && (e.category() == caf::type_id_v<caf::exit_reason> || e == caf::sec::broken_promise);
#else
  return e && e.category() == caf::atom("exit");
#endif
}

reply_address::reply_address(caf::strong_actor_ptr source, forwarding_stack stages,
                             caf::message_id id)
    : source_(std::move(source)), stages_(std::move(stages)), id_(id) {}

bool reply_address::is_remote() const noexcept {
  const auto& target = stages_.empty() ? source_ : stages_.back();
  return target && target->nid != target->home_system->node();
}

void reply_address::send_error(const error& why) noexcept {
  if (id_.is_async()) {
    // An error that nobody asked for would end an event-based sender.
    unsent.fetch_add(1, std::memory_order_relaxed);
    // Whatever is in flight when the process exits fails.
    if (!process_ends()) {
      report("the answer to a message that was no request is an error", why.what());
    }
    // A launch that failed may keep this for long.
    stages_.clear();
    source_.reset();
    return;
  }
  // An error is for who asked. A stage in between has no use for it: it would take it for its own
  // and end.
  stages_.clear();
  try {
    send(to_caf_error(why));
  } catch (...) {
    report("an error could not be sent", why.what());
    source_.reset();
  }
}

}  // namespace detail
}  // namespace sluice
