// SPDX-License-Identifier: Apache-2.0
#include "operations/blas/epilogue_host.hpp"

#include "runtime/seam.hpp"

namespace sluice::host {
namespace {

using operations::complex_number;
using operations::epilogue_addresses;
using operations::epilogue_call;
using operations::storage;

template <class T>
void run(const epilogue_call& call, const epilogue_addresses& addresses) {
  constexpr std::int64_t rows_at_once = 4096;
  constexpr double nanoseconds_of_element = 2;
  const auto blocks_of_column = (call.rows + rows_at_once - 1) / rows_at_once;
  const work_chunks chunks(
      call.count * call.columns * blocks_of_column,
      nanoseconds_of_element * static_cast<double>(std::min(call.rows, rows_at_once)));
  parallel_for(chunks.count(), [&](std::int64_t chunk) {
    host_epilogue<T> epilogue(call, addresses);
    for (auto block = chunks[chunk].begin; block < chunks[chunk].end; ++block) {
      const auto line = block / blocks_of_column;
      const auto row = block % blocks_of_column * rows_at_once;
      epilogue.run({.matrix = line / call.columns,
                    .row = row,
                    .column = line % call.columns,
                    .rows = std::min(rows_at_once, call.rows - row),
                    .columns = 1});
    }
  });
}

}  // namespace

void compute_epilogue(const epilogue_call& call, const epilogue_addresses& addresses) {
  switch (call.type) {
    case storage::f64:
      return run<double>(call, addresses);
    case storage::c64:
      return run<complex_number<float>>(call, addresses);
    case storage::c128:
      return run<complex_number<double>>(call, addresses);
    default:
      return run<float>(call, addresses);
  }
}

}  // namespace sluice::host
