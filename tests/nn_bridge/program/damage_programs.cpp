// SPDX-License-Identifier: BSD-3-Clause
// Loads and runs damaged programs, and counts what ends in another way than by a named error.
//
//   damage_programs [--count N] [--seed S] [--keep FOLDER] [FILE.pt2...]
//
// Damages a small network of its own and the files given: a third of the mutants has other bytes in the archive, a
// third other bytes in the text of the graph or of a table (in an archive that is whole), a third other values in them.
// Each is loaded by a process of its own, and where that succeeds, divided by the layout pass and run forward and
// backward. Fails on signals, on more than 60 s, on more than 3 GiB beyond what an empty process has, and on errors
// without a name. --keep leaves such mutants in a folder.
#include <graticule/partition/error.hpp>
#include <graticule/program/detail/plan.hpp>
#include <graticule/program/detail/plan_layout.hpp>
#include <graticule/program/detail/sizes.hpp>
#include <graticule/program/program.hpp>

#include "files.hpp"
#include "tiny_archive.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace {

using graticule::Error;
using graticule::test::Json;
using graticule::test::Records;
using Random = std::mt19937_64;
namespace program = graticule::program;

enum class End : int { refused = 10, ran = 11, nameless = 12 };

struct Options {
  std::uint64_t count = 2000;
  std::uint64_t seed = 1;
  std::filesystem::path keep;
  std::vector<std::filesystem::path> files;
};

struct Sample {
  std::string bytes;
  Records records;
};

std::size_t below(Random& random, std::size_t count) {
  return std::uniform_int_distribution<std::size_t>(0, count - 1)(random);
}

Sample read_sample(std::filesystem::path const& path) {
  Sample sample{graticule::test::read_bytes(path), {}};
  caffe2::serialize::PyTorchStreamReader reader(path.string());
  for (std::string const& record : reader.getAllRecords()) {
    if (record == "version" || record.starts_with(".data/")) {
      continue;
    }
    std::string content(reader.getRecordSize(record), '\0');
    reader.getRecord(record, content.data(), content.size());
    sample.records[record] = content;
  }
  return sample;
}

void change_bytes(std::string& bytes, Random& random) {
  for (std::size_t i = 0, changes = 1 + below(random, 6); i < changes && !bytes.empty(); ++i) {
    std::size_t const at = below(random, bytes.size());
    switch (below(random, 4)) {
      case 0: bytes[at] = static_cast<char>(below(random, 256)); break;
      case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(random, 8))); break;
      case 2: bytes.erase(at, 1 + below(random, 8)); break;
      default: bytes.insert(at, bytes.substr(below(random, bytes.size()), 1 + below(random, 8))); break;
    }
  }
  if (below(random, 16) == 0) {
    bytes.resize(below(random, bytes.size() + 1));
  }
}

Json other_value(Random& random, Json const& leaf, std::vector<Json> const& leaves) {
  static std::vector<Json> const values{
      0,      -1,  1,    2,     3,       7,  -9223372036854775807LL, 9223372036854775807LL, 1LL << 31,
      100000, 0.5, true, false, nullptr, "", Json::array(),          Json::object(),        1e300,
      "x",    12};
  if (leaf.is_number_integer() && below(random, 2) == 0) {
    return leaf.get<std::int64_t>() + static_cast<std::int64_t>(below(random, 5)) - 2;
  }
  return below(random, 2) == 0 ? values[below(random, values.size())] : leaves[below(random, leaves.size())];
}

void change_values(std::string& text, Random& random) {
  Json const json = Json::parse(text);
  Json const flat = json.flatten();
  std::vector<Json> leaves;
  std::vector<std::string> places;
  for (auto const& [place, leaf] : flat.items()) {
    // Most of a file are stack traces and metadata of modules, which decide nothing.
    if (place.find("/metadata/") == std::string::npos && place.find("module_call_graph") == std::string::npos) {
      leaves.push_back(leaf);
      places.push_back(place);
    }
  }
  Json changed = json;
  for (std::size_t i = 0, changes = 1 + below(random, 3); i < changes; ++i) {
    std::size_t const at = below(random, places.size());
    Json::json_pointer const place(places[at]);
    if (!changed.contains(place)) {
      continue;
    }
    if (below(random, 6) == 0 && !place.parent_pointer().empty()) {
      Json& parent = changed[place.parent_pointer()];
      if (parent.is_object()) {
        parent.erase(place.back());
      } else if (parent.is_array()) {
        parent.erase(parent.begin());
      }
    } else {
      changed[place] = other_value(random, leaves[at], leaves);
    }
  }
  text = changed.dump();
}

std::string text_record(Records const& records, Random& random) {
  std::vector<std::string> names;
  for (auto const& [name, content] : records) {
    if (name.ends_with(".json")) {
      names.push_back(name);
    }
  }
  return below(random, 3) > 0 ? "models/model.json" : names[below(random, names.size())];
}

void write_mutant(Sample const& sample, std::filesystem::path const& path, Random& random) {
  std::size_t const way = below(random, 3);
  if (way == 0) {
    std::string bytes = sample.bytes;
    change_bytes(bytes, random);
    std::ofstream(path, std::ios::binary) << bytes;
    return;
  }
  Records records = sample.records;
  std::string& text = records.at(text_record(records, random));
  if (way == 1) {
    change_bytes(text, random);
  } else {
    change_values(text, random);
  }
  graticule::test::write_records(path, records);
}

End run_program(program::Program& network) {
  std::vector<torch::Tensor> inputs;
  for (program::ValueId const id : program::user_inputs(network->graph())) {
    std::vector<std::int64_t> sizes;
    std::int64_t cells = 1;
    for (auto const& size : network->graph().graph.value(id).tensor.sizes) {
      sizes.push_back(size.value);
      if (__builtin_mul_overflow(cells, size.value, &cells) || cells > (1 << 24)) {
        return End::refused;  // no user would have such an input
      }
    }
    inputs.push_back(torch::full(sizes, 0.25, torch::dtype(network->dtype())).requires_grad_());
  }
  auto const outputs = network->run(inputs);
  try {
    if (!outputs.empty() && outputs[0].defined() && outputs[0].requires_grad()) {
      outputs[0].square().mean().backward();
    }
  } catch (c10::Error const&) {
    return End::refused;  // LibTorch's own message, from the backward that the user calls
  }
  return End::ran;
}

// What the layout pass makes of it: a plan, or an error with a name, which says nothing about one rank.
void divide(program::ExportedGraph const& graph) {
  program::PlanOptions options;
  options.costs = {.message = 0, .replicated = 1000};
  for (std::int64_t const num_ranks : {2, 5}) {
    options.num_ranks = num_ranks;
    try {
      (void)program::plan_layout(graph, program::Sizes(graph), options);
    } catch (Error const& error) {
      if (error.rule().empty()) {
        throw;
      }
    }
  }
}

End load_and_run(std::filesystem::path const& path) {
  try {
    program::Program network(path);
    divide(network->graph());
    return run_program(network);
  } catch (Error const& error) {
    return error.rule().empty() ? End::nameless : End::refused;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s: no named error: %s\n", path.c_str(), error.what());
    return End::nameless;
  }
}

void limit_memory() {
  std::ifstream status("/proc/self/statm");
  rlim_t pages = 0;
  status >> pages;
  rlim_t const most = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + (rlim_t(3) << 30);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  rlimit const limit{most, most};
  ::setrlimit(RLIMIT_AS, &limit);
#else
  (void)most;
#endif
}

// The exit status of a process that tries the mutant, or minus its signal.
int outcome(std::filesystem::path const& path) {
  pid_t const child = ::fork();
  if (child == 0) {
    limit_memory();
    ::alarm(60);
    ::_exit(static_cast<int>(load_and_run(path)));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string const word = argv[i];
    if (word == "--count" && i + 1 < argc) {
      options.count = std::strtoull(argv[++i], nullptr, 10);
    } else if (word == "--seed" && i + 1 < argc) {
      options.seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (word == "--keep" && i + 1 < argc) {
      options.keep = argv[++i];
    } else {
      options.files.emplace_back(word);
    }
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  Options const options = parse(argc, argv);
  torch::set_num_threads(1);
  std::filesystem::path const folder =
      std::filesystem::temp_directory_path() / ("graticule-mutants-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::filesystem::path const tiny = folder / "tiny.pt2";
  graticule::test::write_records(tiny, graticule::test::linear_network());
  std::vector<Sample> samples{read_sample(tiny)};
  std::vector<std::filesystem::path> whole{tiny};
  for (auto const& file : options.files) {
    if (std::filesystem::exists(file)) {
      samples.push_back(read_sample(file));
      whole.push_back(file);
    } else {
      std::printf("skipped: %s is missing\n", file.c_str());
    }
  }
  for (auto const& file : whole) {
    if (outcome(file) != static_cast<int>(End::ran)) {
      std::printf("%s, which is not damaged, does not run\n", file.c_str());
      return 1;
    }
  }
  std::map<int, std::uint64_t> ends;
  for (std::uint64_t number = 0; number < options.count; ++number) {
    Random random(options.seed * 1000003 + number);
    std::filesystem::path const path = folder / ("mutant-" + std::to_string(number) + ".pt2");
    write_mutant(samples[number % samples.size()], path, random);
    int const end = outcome(path);
    ++ends[end];
    if (end != static_cast<int>(End::refused) && end != static_cast<int>(End::ran)) {
      std::printf("mutant %llu: %s %d\n", static_cast<unsigned long long>(number), end < 0 ? "signal" : "exit",
                  end < 0 ? -end : end);
      if (!options.keep.empty()) {
        std::filesystem::create_directories(options.keep);
        std::filesystem::copy_file(path, options.keep / path.filename(),
                                   std::filesystem::copy_options::overwrite_existing);
      }
    }
    std::filesystem::remove(path);
  }
  std::filesystem::remove_all(folder);
  std::uint64_t const refused = ends[static_cast<int>(End::refused)];
  std::uint64_t const ran = ends[static_cast<int>(End::ran)];
  std::printf("%llu mutants: %llu refused, %llu ran, %llu wrong\n", static_cast<unsigned long long>(options.count),
              static_cast<unsigned long long>(refused), static_cast<unsigned long long>(ran),
              static_cast<unsigned long long>(options.count - refused - ran));
  return refused + ran == options.count && refused > 0 ? 0 : 1;
}
