// SPDX-License-Identifier: Apache-2.0
#include "operations/fusion/kernel_compiler_cuda.hpp"

#include "operations/core/content_hash.hpp"

#include <sluice/runtime/error.hpp>

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <dlfcn.h>
#include <string_view>

namespace sluice::cuda {
namespace {

struct embedded_header {
  const char* name;
  const char* text;
};
constexpr embedded_header headers[] = {
#include "embedded_headers.inc"
};
constexpr std::string_view public_folder = "include/";
constexpr std::string_view standard_library = "operations/fusion/device/standard.hpp";
constexpr std::array standard_names{"cmath",   "cstddef", "cstdint",
                                    "cstring", "limits",  "type_traits"};

// What is used of NVRTC, as nvrtc.h of all versions declares it. The header is of a package of the
// toolkit that a build need not have.
struct nvrtc_program;
using nvrtc_status = int;
constexpr nvrtc_status nvrtc_success = 0;
constexpr nvrtc_status nvrtc_invalid_option = 5;
constexpr nvrtc_status nvrtc_compilation_error = 6;

/// The functions of NVRTC.
struct compiler {
  nvrtc_status (*version)(int* major, int* minor) = nullptr;
  const char* (*error_text)(nvrtc_status) = nullptr;
  nvrtc_status (*create)(nvrtc_program** program, const char* text, const char* name, int headers,
                         const char* const* header_texts,
                         const char* const* header_names) = nullptr;
  nvrtc_status (*destroy)(nvrtc_program** program) = nullptr;
  nvrtc_status (*compile)(nvrtc_program* program, int options,
                          const char* const* option_texts) = nullptr;
  nvrtc_status (*size)(nvrtc_program* program, std::size_t* bytes) = nullptr;
  nvrtc_status (*get)(nvrtc_program* program, char* code) = nullptr;
  nvrtc_status (*log_size)(nvrtc_program* program, std::size_t* bytes) = nullptr;
  nvrtc_status (*log)(nvrtc_program* program, char* text) = nullptr;
  std::string refusal{};  ///< why there is none
};

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

std::string version_of(int major, int minor) {
  return std::to_string(major) + "." + std::to_string(minor);
}

/// Loads the compiler. It stays loaded.
compiler load() {
  compiler result;
  void* library = nullptr;
  // The driver runs code of its own version of CUDA and of older ones.
  const std::string name = "libnvrtc.so." + std::to_string(CUDART_VERSION / 1000);
  for (const auto& candidate : {name, std::string("libnvrtc.so")}) {
    library = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
  }
  if (library == nullptr) {
    result.refusal = "the compiler of kernels, " + name + ", is not installed";
    return result;
  }
  const bool is_whole = find(library, "nvrtcVersion", result.version) &&
                        find(library, "nvrtcGetErrorString", result.error_text) &&
                        find(library, "nvrtcCreateProgram", result.create) &&
                        find(library, "nvrtcDestroyProgram", result.destroy) &&
                        find(library, "nvrtcCompileProgram", result.compile) &&
                        find(library, "nvrtcGetCUBINSize", result.size) &&
                        find(library, "nvrtcGetCUBIN", result.get) &&
                        find(library, "nvrtcGetProgramLogSize", result.log_size) &&
                        find(library, "nvrtcGetProgramLog", result.log);
  int major = 0;
  int minor = 0;
  if (!is_whole || result.version(&major, &minor) != nvrtc_success) {
    result.refusal = "the compiler of kernels, " + name + ", lacks functions";
    return result;
  }
  const auto version = version_of(major, minor);
  if (version != kernel_compiler_version()) {
    result.refusal = "the compiler of kernels is of CUDA " + version +
                     ", but sluice is built with CUDA " + kernel_compiler_version();
  }
  return result;
}

const compiler& loaded_compiler() {
  static const compiler loaded = load();
  if (!loaded.refusal.empty()) throw error(errc::unsupported, loaded.refusal);
  return loaded;
}

/// One program of NVRTC.
class compilation {
 public:
  compilation(const compiler& nvrtc, const std::string& text) : nvrtc_(nvrtc) {
    std::vector<const char*> texts;
    std::vector<const char*> names;
    for (const auto& header : headers) {
      const std::string_view name = header.name;
      if (name == standard_library) {
        for (const auto* const standard_name : standard_names) {
          names.push_back(standard_name);
          texts.push_back(header.text);
        }
        continue;
      }
      const bool is_public = name.substr(0, public_folder.size()) == public_folder;
      names.push_back(header.name + (is_public ? public_folder.size() : 0));
      texts.push_back(header.text);
    }
    check(nvrtc.create(&program_, text.c_str(), "sluice_fused.cu", static_cast<int>(texts.size()),
                       texts.data(), names.data()));
  }
  compilation(const compilation&) = delete;
  compilation& operator=(const compilation&) = delete;
  ~compilation() { (void)nvrtc_.destroy(&program_); }

  [[nodiscard]] std::vector<char> run(int architecture) {
    const std::string target = "--gpu-architecture=sm_" + std::to_string(architecture);
    // The options with which the kernels of the library are compiled.
    const std::array<const char*, 4> options{target.c_str(), "--std=c++17", "--fmad=false",
                                             "--device-as-default-execution-space"};
    const auto status = nvrtc_.compile(program_, static_cast<int>(options.size()), options.data());
    if (status == nvrtc_invalid_option) {
      throw error(errc::unsupported, "NVRTC " + kernel_compiler_version() + " does not know sm_" +
                                         std::to_string(architecture));
    }
    if (status == nvrtc_compilation_error) {
      throw error(errc::library_failure, "NVRTC refuses a kernel: " + log());
    }
    check(status);
    std::size_t size = 0;
    check(nvrtc_.size(program_, &size));
    std::vector<char> code(size);
    check(nvrtc_.get(program_, code.data()));
    return code;
  }

 private:
  void check(nvrtc_status status) const {
    if (status == nvrtc_success) return;
    throw error(errc::library_failure, std::string("NVRTC: ") + nvrtc_.error_text(status));
  }
  [[nodiscard]] std::string log() const {
    std::size_t size = 0;
    if (nvrtc_.log_size(program_, &size) != nvrtc_success || size == 0) return "no reason";
    std::string text(size, '\0');
    if (nvrtc_.log(program_, text.data()) != nvrtc_success) return "no reason";
    text.resize(size - 1);
    return text;
  }

  const compiler& nvrtc_;
  nvrtc_program* program_ = nullptr;
};

}  // namespace

std::string kernel_compiler_version() {
  return version_of(CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
}

void load_kernel_compiler() {
  (void)loaded_compiler();
}

std::vector<char> compile_kernel(const std::string& text, int architecture) {
  return compilation(loaded_compiler(), text).run(architecture);
}

std::uint64_t version_of_kernel_headers() noexcept {
  static const auto version = [] {
    operations::content_hash hash;
    for (const auto& header : headers) hash.add(header.name).add(header.text);
    return hash.value();
  }();
  return version;
}

}  // namespace sluice::cuda
