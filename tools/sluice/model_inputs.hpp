// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/models/model.hpp>
#include <sluice/operations/host_tensor.hpp>
#include <sluice/operations/tensor_spec.hpp>

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::cli {

using named_specs = std::map<std::string, tensor_spec>;
using named_tensors = std::map<std::string, host_tensor>;

/// The names of inputs or outputs.
[[nodiscard]] std::vector<std::string> names_of(const std::vector<model_value>& values);

/// What an option states about an input, an output or a symbol of a model: "image=1,3,224,224".
struct named_text {
  std::size_t number = 0;  ///< of the name, among those of the model
  std::string text{};      ///< "1,3,224,224"
};
/// Parses the values of `option`: "name=text", or "text" if there is one name.
/// @throws error `invalid_argument` if a value begins with no name, or two with the same one
[[nodiscard]] std::vector<named_text> parse_named(std::string_view option,
                                                  const std::vector<std::string>& values,
                                                  const std::vector<std::string>& names);
/// Likewise, of files. `standard_stream` stands for "-".
/// @throws error `invalid_argument` as `parse_named`, or if a name of a file is empty
[[nodiscard]] std::vector<named_text> parse_named_files(std::string_view option,
                                                        const std::vector<std::string>& values,
                                                        const std::vector<std::string>& names,
                                                        std::string_view standard_stream);

/// Reads the `.npy` files of inputs. @throws error as `read_array`
[[nodiscard]] named_tensors read_inputs(const std::vector<named_text>& files,
                                        const std::vector<std::string>& names);

/// Binds the inputs with these names by value, if `inputs` has them: they go from `specs` to
/// `values`. Returns whether an input has been bound that was not bound before.
bool bind_inputs(const std::vector<std::string>& names, const named_tensors& inputs,
                 named_specs& specs, named_tensors& values);

/// The program for inputs with these properties. An input that it must know is bound, if `inputs`
/// has it.
/// @throws error as `model::program_for`
[[nodiscard]] model_program program_for(const model& network, const named_tensors& inputs,
                                        named_specs& specs, named_tensors& values,
                                        const model_options& options = {});

}  // namespace sluice::cli
