// SPDX-License-Identifier: Apache-2.0
#include "models/blocking_executor.hpp"
#include "models/export/model_stream.hpp"
#include "models/export/program_writer.hpp"

#include <sluice/models/write_model.hpp>
#include <sluice/operations/transfer.hpp>
#include <sluice/runtime/error.hpp>

#include <cstddef>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

namespace sluice {

namespace {

namespace fs = std::filesystem;
using models::written_constant;

/// A file that replaces another one once it is complete, and is removed otherwise. What is no
/// regular file, such as a pipe, is written as it is.
class replacing_file {
 public:
  explicit replacing_file(const fs::path& path) : path_(path), written_(path) {
    std::error_code failure;
    const bool exists = fs::exists(path, failure);
    is_replaced_ = !exists || fs::is_regular_file(path, failure);
    if (exists) path_ = fs::canonical(path, failure);
    if (failure) throw invalid_argument(path.string(), failure.message());
    if (is_replaced_) (written_ = path_) += ".part";
    stream_.open(written_, std::ios::binary | std::ios::trunc);
    require("cannot be opened");
  }
  replacing_file(const replacing_file&) = delete;
  replacing_file& operator=(const replacing_file&) = delete;
  ~replacing_file() {
    if (!is_replaced_) return;
    stream_.close();
    std::error_code ignored;
    fs::remove(written_, ignored);
  }

  [[nodiscard]] std::ostream& stream() noexcept { return stream_; }
  void complete() {
    stream_.close();
    require("cannot be written");
    if (!is_replaced_) return;
    std::error_code failure;
    fs::rename(written_, path_, failure);
    if (failure) throw invalid_argument(path_.string(), failure.message());
    is_replaced_ = false;
  }

 private:
  void require(const char* otherwise) const {
    if (!stream_) throw invalid_argument(path_.string(), otherwise);
  }

  fs::path path_;
  fs::path written_;
  std::ofstream stream_;
  bool is_replaced_ = false;
};

/// Reads constants from the memory of a device.
class device_reader {
 public:
  explicit device_reader(std::shared_ptr<device_service> service) : service_(std::move(service)) {}

  [[nodiscard]] host_tensor read(const written_constant& constant) {
    if (constant.on_host) return constant.on_host;
    try {
      if (!executor_) executor_.emplace(service_);
      const auto target = std::make_shared<host_tensor>();
      (void)executor_->run<tensor>(download{.x = constant.on_device, .target = target});
      return *target;
    } catch (const error& e) {
      throw error(e.code(), "constant '" + constant.header.name() + "': " + e.what(), e.status(),
                  e.where());
    }
  }

 private:
  std::shared_ptr<device_service> service_;
  std::optional<models::blocking_executor> executor_;
};

void require_service(const models::written_program& what,
                     const std::shared_ptr<device_service>& service) {
  if (service) return;
  for (const auto& constant : what.constants) {
    if (constant.on_host) continue;
    throw invalid_argument("service", "is not given, but the constant '" + constant.header.name() +
                                          "' lies on " + to_string(constant.on_device.device()));
  }
}

}  // namespace

void write_model(const program& what, const fs::path& path, const model_write_options& options) {
  const auto described = models::describe_program(what, options);
  require_service(described, options.service);
  device_reader reader(options.service);
  replacing_file file(path);
  models::write_stream(file.stream(), described,
                       [&](const written_constant& constant) { return reader.read(constant); });
  file.complete();
}

void write_model(const model_program& made, const fs::path& path) {
  model_write_options options;
  for (const auto& name : made.inputs) options.inputs.push_back({.name = name});
  for (const auto& name : made.outputs) options.outputs.push_back({.name = name});
  write_model(made.program, path, options);
}

}  // namespace sluice
