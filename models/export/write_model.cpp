// SPDX-License-Identifier: Apache-2.0
#include "models/blocking_executor.hpp"
#include "models/export/model_stream.hpp"
#include "models/export/program_writer.hpp"
#include "models/export/replacing_file.hpp"

#include <sluice/models/write_model.hpp>
#include <sluice/operations/transfer.hpp>
#include <sluice/runtime/error.hpp>

#include <google/protobuf/io/zero_copy_stream_impl.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace sluice {

namespace {

namespace fs = std::filesystem;
using models::written_constant;

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

void require_service(const models::written_program& written,
                     const std::shared_ptr<device_service>& service) {
  if (service) return;
  for (const auto& constant : written.constants) {
    if (constant.on_host) continue;
    throw invalid_argument("service", "is not given, but the constant '" + constant.header.name() +
                                          "' lies on " + to_string(constant.on_device.device()));
  }
}

}  // namespace

void write_model(const program& program, const fs::path& path, const model_write_options& options) {
  const auto written = models::describe_program(program, options);
  require_service(written, options.service);
  device_reader reader(options.service);
  models::replacing_file file(path);
  constexpr int block_bytes = 1 << 18;
  google::protobuf::io::FileOutputStream stream(file.descriptor(), block_bytes);
  const bool is_complete = models::write_stream(stream, written,
                                                [&](const written_constant& constant) {
                                                  return reader.read(constant);
                                                }) &&
                           stream.Flush();
  if (!is_complete) file.fail(stream.GetErrno());
  file.complete();
}

void write_model(const model_program& model, const fs::path& path) {
  model_write_options options;
  for (const auto& name : model.inputs) options.inputs.push_back({.name = name});
  for (const auto& name : model.outputs) options.outputs.push_back({.name = name});
  write_model(model.program, path, options);
}

}  // namespace sluice
