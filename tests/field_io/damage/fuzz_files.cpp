// SPDX-License-Identifier: BSD-3-Clause
// A libFuzzer harness: opens each input as fields and as a checkpoint, and reads from it. It ends by a signal where the
// library crashes, hangs, or throws anything but an error about the input that names it.
//
//   damage_files --make CORPUS && fuzz_files CORPUS -max_len=100000 -timeout=10 -rss_limit_mb=2048 -max_total_time=600
//
// HDF5 runs in another process and is not instrumented: what guides the search are the errors' texts, without numbers.
#include <graticule/field_io/checkpoint.hpp>
#include <graticule/field_io/file.hpp>
#include <graticule/repartition/runtime.hpp>

#include "file_mutants.hpp"

#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>

namespace {

using namespace graticule;

/// libFuzzer takes every counter that is not 0 for a feature of the input.
__attribute__((section("__libfuzzer_extra_counters"), used)) unsigned char counters[1 << 14];

void mark(std::string const& text) {
  std::string words;
  for (char const c : text)
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) words += c;
  counters[std::hash<std::string>()(words) % sizeof counters] = 1;
}

[[noreturn]] void fail(std::string const& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}

/// Runs `action`, which an error about the input may end.
void expect_clean(std::filesystem::path const& path, std::function<void()> const& action) {
  try {
    action();
  } catch (Error const& error) {
    if (error.fault() != Fault::input || error.text().find(path.string()) == std::string::npos) fail(error.what());
    mark(error.text());
  } catch (std::exception const& error) {
    fail(error.what());
  }
}

void read_ends(FieldFile const& file, Variable const& variable) {
  if (Box::from_extents(variable.extents).empty()) return;
  for (bool const at_end : {false, true}) {
    auto box = Box::from_extents(variable.extents);
    std::size_t count = 1;
    for (int axis = 0; axis < box.ndim(); ++axis) {
      Index const most = std::min<Index>(box.extent(axis), axis + 1 == box.ndim() ? 512 : 2);
      Index const first = at_end ? box.hi(axis) - most : 0;
      box.set(axis, first, first + most);
      count *= std::size_t(most);
    }
    std::vector<double> values(count);
    file.read(variable.name, box, std::span(values));
  }
}

void look_at(std::filesystem::path const& path) {
  auto const comm = Comm::world();
  expect_clean(path, [&] {
    FieldFile const file(comm, path);
    for (auto const& variable : file.contents().variables) {
      mark(to_string(variable) + std::string(to_string(variable.type)) + variable.refusal);
      expect_clean(path, [&] { read_ends(file, variable); });
    }
  });
  expect_clean(path, [&] { Checkpoint(comm, path).verify(); });
}

std::unique_ptr<Runtime> runtime;
std::filesystem::path input;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  runtime = std::make_unique<Runtime>(*argc, *argv);
  input = std::filesystem::temp_directory_path() / ("graticule-fuzz-" + std::to_string(::getpid()));
  std::atexit([] {
    std::error_code ignored;
    std::filesystem::remove(input, ignored);
    runtime.reset();
  });
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(unsigned char const* data, std::size_t size) {
  std::ofstream(input, std::ios::binary).write(reinterpret_cast<char const*>(data), std::streamsize(size));
  look_at(input);
  return 0;
}

extern "C" std::size_t LLVMFuzzerMutate(unsigned char* data, std::size_t size, std::size_t most);

/// Half of the mutants near headers, heaps and trees; of the others half are libFuzzer's own.
extern "C" std::size_t LLVMFuzzerCustomMutator(unsigned char* data, std::size_t size, std::size_t most, unsigned seed) {
  if (seed % 4 == 3 || size == 0) return LLVMFuzzerMutate(data, size, most);
  test::Mutator const mutator(std::string(reinterpret_cast<char const*>(data), size));
  auto const bytes = mutator.mutant(seed, seed / 4);
  auto const count = std::min(bytes.size(), most);
  std::copy_n(bytes.begin(), count, reinterpret_cast<char*>(data));
  return count;
}
