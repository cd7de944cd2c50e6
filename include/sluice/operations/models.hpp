// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/model_source.hpp>
#include <sluice/operations/run.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sluice {

/// Extents of inputs that are rounded up; see `load_model::buckets`.
struct extent_buckets {
  /// A name in the declared shapes of inputs. Every dimension that has it is rounded.
  std::string symbol{};
  /// Instead of a symbol: the input whose dimension `axis` is rounded.
  std::string input{};
  std::size_t axis = 0;  ///< see `input`
  /// The extents that requests are rounded up to, in ascending order. Empty: 2^k and 1.5 * 2^k.
  std::vector<std::int64_t> extents{};
};

/// Gives a model a name, by which requests run it. The answer is its `model_description`.
///
///     load_model{.name = "classifier",
///                .source = std::make_shared<model>(model::open("classifier.onnx"))}
///
/// A model that has this name already is replaced. It answers the requests that it has got, also
/// those that still wait for a program; later ones run the new model. The requests of both that
/// wait count together, see `model_actor`. No program is made yet. Errors: `invalid_argument` (no
/// name, no source, a source without outputs or with two inputs or outputs of one name, no place
/// for a program, `max_in_batch` exceeds 128, or `buckets` that name no dimension, one twice or one
/// with a fixed extent, or whose extents do not ascend from 1 on), `overloaded` (too many messages
/// of the sender wait in front of the actor).
struct load_model {
  std::string name{};                            ///< required
  std::shared_ptr<const model_source> source{};  ///< required
  model_options options{};                       ///< of its programs
  /// The largest number of programs that are kept for later requests. There is one for each set of
  /// types and shapes of inputs, and of values of inputs that must be known. If there are more, the
  /// one that was used the longest time ago is dropped. The programs of a model share its large
  /// constants. The executables of programs are kept by the program actor, as far as
  /// `executor_options::max_plan_bytes` has room; it makes the others again.
  ///
  /// Reasons why there is no program are kept, too, at most as many. So are, at most 16 or as many,
  /// the names of inputs that must be known, and, at most 1024 or as many, the shapes of results of
  /// padded requests.
  std::size_t max_programs = 32;
  /// Extents that are rounded up, so that requests of many lengths share few programs and batches.
  /// The caller states that this is harmless for the model.
  ///
  ///     .buckets = {{.symbol = "width", .extents = {64, 128, 256, 512}}}
  ///
  /// Zeros of the type of the input are added behind its elements, and each result is cut to the
  /// shape that it has for the inputs as they are: its first elements along each dimension remain.
  /// They must be the elements of the result without the zeros. So they must not depend on the
  /// zeros, as the maximum over all elements does. And no dimension of a result may join a rounded
  /// one with others in front of it, as a `Reshape` of (batch, length, 8) to (batch * length, 8)
  /// does unless batch is 1.
  ///
  /// A request is computed with its own shapes if
  ///
  /// * an extent is 0 or greater than all buckets,
  /// * an input with such a dimension is on the device or bound by value,
  /// * the padded inputs have more than 64 MiB, or more than 1 MiB and four times their own size,
  /// * the inputs that are bound by value have more than 4 KiB,
  /// * more than 4 MiB of results for host memory would be copied: those that are less than a
  ///   quarter of the padded ones, or are not cut along their first dimension of several elements,
  /// * the model does not take the rounded shapes, or a result for them is smaller,
  /// * the source does not state `model_program::results`, or
  /// * it asks for `result_bits::as_if_alone`.
  std::vector<extent_buckets> buckets{};
};

/// Takes a name from its model. The answer is the `model_list` of the others. Requests to the model
/// that have been received before are answered as if it were still there. Errors:
/// `invalid_argument` (no model has this name), `overloaded`.
struct unload_model {
  std::string name{};  ///< required
};

/// Runs a model on inputs. The answer is one tensor for each output, as `tensors`.
///
///     request(self, models, caf::infinite,
///             run_model{.name = "classifier", .inputs = {{"image", pixels}}})
///
/// The first request with inputs of other types or shapes waits until the program for them has been
/// made, and others with such inputs wait with it. The model actor then passes the request on to
/// the program actor as a `run`, and its options are those of that run. A deadline, a cancellation
/// and the end of the sender also end the wait for the program.
///
/// If a shape or a parameter of the model depends on the elements of an input, this input must lie
/// in host memory. There is then a program for each value of it. The value is copied when the
/// program is made.
///
/// The program is made for inputs in row-major order. An input on the device may lie in another
/// order if each step takes its operands so. Otherwise the answer is the error of that step, for
/// example `unsupported` from a reshape that needs a copy. `strided_copy` makes an input row-major.
///
/// Errors, in addition to those of `run`: `invalid_argument` (no model has this name, an input is
/// missing, unknown or does not fit its declaration, an output is unknown or named twice, or an
/// input that must lie in host memory does not), `unsupported` (sluice cannot compute the model for
/// such inputs, or the inputs whose values must be known have more than 1 MiB), `library_failure`
/// (the source made a program that contradicts its description), `overloaded` (too many requests
/// wait for programs of the model), `deadline_exceeded` (also if the deadline has passed when the
/// request comes; then no program is made for it), `shutting_down`.
struct run_model {
  std::string name{};                         ///< of the model
  std::map<std::string, run_input> inputs{};  ///< a tensor for each input, by name
  /// The outputs that are wanted, in the order of the answer. Empty: all, in the order of the
  /// model. All are computed in any case.
  std::vector<std::string> outputs{};
};

/// Runs a model on inputs, and copies the results to host memory. The answer is one `host_tensor`
/// for each output, as `host_tensors`. Otherwise as `run_model`.
struct run_model_to_host {
  std::string name{};                         ///< of the model
  std::map<std::string, run_input> inputs{};  ///< a tensor for each input, by name
  std::vector<std::string> outputs{};         ///< as in `run_model`
};

/// Asks for the names of all models, as a `model_list`.
struct list_models {};
/// The models of an actor.
struct model_list {
  std::vector<std::string> names{};  ///< in alphabetical order
};

/// Asks for the inputs and outputs of a model, as a `model_description`. Errors: `invalid_argument`
/// (no model has this name), `overloaded`.
struct describe_model {
  std::string name{};  ///< required
};
/// A model that has a name.
struct model_description {
  std::string name{};                  ///< by which requests run it
  std::vector<model_value> inputs{};   ///< in the order of the model
  std::vector<model_value> outputs{};  ///< in the order of the model
  std::size_t programs = 0;            ///< number of programs that are kept for later requests
  /// The number of requests that wait for a program to be made, with those for earlier models of
  /// the name.
  std::size_t waiting = 0;
};

}  // namespace sluice
