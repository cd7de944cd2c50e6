// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/device_service.hpp>
#include <sluice/export.hpp>
#include <sluice/operations/model_source.hpp>
#include <sluice/operations/program.hpp>

#include <filesystem>
#include <memory>
#include <vector>

namespace sluice {

/// What a file states of a program beside its steps and constants. See `write_model`.
struct model_write_options {
  /// The inputs, in the order of the program. Without them, their names are those in the program.
  /// The file states the type and the shape that the program requires of an input, also if the
  /// input here leaves them open.
  std::vector<model_value> inputs{};
  /// The outputs, likewise. Without them, their names are those of the results.
  std::vector<model_value> outputs{};
  /// The service of the device whose memory has constants of the program. Not needed if all
  /// constants are in host memory.
  std::shared_ptr<device_service> service{};
};

/// Writes a program as a file in the format of ONNX, which `model::open` reads.
///
///     write_model(spectrogram, "spectrogram.onnx");
///     const auto clip = tensor_spec::row_major(element_type::f32, {1, 16000});
///     const model_program made = model::open("spectrogram.onnx")
///                                    .program_for({{"clip", clip}}, {}, {.optimize = false});
///
/// Each step is a node: an operator of ONNX whose import adds the same step, or an operator of the
/// domain `sluice`. docs/concepts/models.md describes both. Without optimisation, `program_for`
/// makes a program with the same steps, parameters and constants. They have the same names, but for
/// a number after a name that another one has. An output that is a view, or is not row-major, gets
/// one more step that copies it, because outputs of models are row-major.
///
/// If the types and shapes of all inputs are known, more steps are operators of ONNX, and the file
/// states the types and shapes of the outputs. The options of the program and its marks
/// `per_request` and `padded` are not written. Requests to a model batch by their own proof.
///
/// Constants on the device are downloaded one after the other, each after the launches that write
/// it. The call waits for the device. At any time, at most one of them is in host memory beside the
/// constants that the program has there.
///
/// A file is written under a temporary name in its folder, and replaces `path` when it is complete
/// and on the disk. A replaced file keeps its permissions. A symbolic link is followed. What is no
/// regular file, such as `/dev/stdout`, is written directly. Any thread may call the function. If
/// several calls write the same file, it is that of the call that ends last.
/// @throws error `invalid_argument` if there is no program, the number of inputs or outputs is
/// another one, a name is empty, is not UTF-8 or is that of two inputs or outputs, the name of an
/// output in `options` is that of an input, `service` is needed and not given, or `path` cannot be
/// written: its folder is missing, or permissions forbid it
/// @throws error `library_failure` with `path` and the `errno` if a write fails, as on a full disk;
/// an existing file is unchanged
/// @throws error `invalid_argument` with the name of an input whose type or shape contradicts what
/// the program requires of it
/// @throws error `unsupported` with the name of a scalar of the program, or of a step whose
/// operation is not one of sluice
/// @throws error `unsupported` if the file would have 2 GiB or more, which ONNX does not allow
/// @throws error what a step refuses, with its name, if the properties of all inputs are known
/// @throws error why a constant cannot be downloaded, with its name
SLUICE_EXPORT void write_model(const program& program, const std::filesystem::path& path,
                               const model_write_options& options = {});
/// Writes the program of a model, with the names of its inputs and outputs. Likewise.
SLUICE_EXPORT void write_model(const model_program& model, const std::filesystem::path& path);

}  // namespace sluice
