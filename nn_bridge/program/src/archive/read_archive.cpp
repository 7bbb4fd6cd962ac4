// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/error.hpp>

#include "archive/archive.hpp"
#include "archive/zip_reader.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstddef>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

static_assert(std::endian::native == std::endian::little,
              "archives are read on machines that store numbers low byte first");

namespace graticule::program::detail {

namespace {

// The inputs of the example, which this library does not need, are kept up to this size.
constexpr std::size_t max_kept_example = std::size_t(64) << 20;

// Of the records and their alignment, as caffe2/serialize/versions.h counts them.
constexpr char const* container_version = ".data/version";
constexpr int newest_container = 10;

void expect_text(ZipReader& archive, std::string const& record, std::string const& wanted, char const* advice) {
  std::string found = archive.text(record);
  found.erase(found.find_last_not_of(" \n\r\t") + 1);
  if (found != wanted) {
    throw Error(Fault::input, "RefusedProgram",
                "its " + record + " is '" + found.substr(0, 40) + "', not '" + wanted + "'; " + advice);
  }
}

void check_format(ZipReader& archive) {
  if (archive.has("serialized_exported_program.json")) {
    throw Error(Fault::input, "RefusedProgram",
                "it was saved by an old PyTorch; load and save it again with PyTorch 2.9 or newer");
  }
  if (!archive.has("archive_format")) {
    throw Error(Fault::input, "BrokenFile", "it has no archive_format; torch.export.save writes one");
  }
  expect_text(archive, "archive_format", "pt2", "torch.export.save writes such files");
  expect_text(archive, "archive_version", "0", "it is from a newer PyTorch than this Graticule knows");
  if (archive.has(container_version)) {
    int number = 0;
    std::string const text = archive.text(container_version);
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || number > newest_container) {
      throw Error(Fault::input, "RefusedProgram",
                  "its container has the version '" + text.substr(0, 40) + "', this Graticule knows versions up to " +
                      std::to_string(newest_container));
    }
  }
  if (archive.has("byteorder")) {
    expect_text(archive, "byteorder", "little", "save it on a machine that stores numbers low byte first");
  }
}

// "model" of models/model.json: one network is in the file.
std::string model_name(ZipReader const& archive) {
  std::string const folder = "models/";
  std::string const extension = ".json";
  std::vector<std::string> names;
  for (std::string const& record : archive.records()) {
    if (record.starts_with(folder) && record.ends_with(extension)) {
      names.push_back(record.substr(folder.size(), record.size() - folder.size() - extension.size()));
    }
  }
  if (names.empty()) {
    throw Error(Fault::input, "BrokenFile", "it holds no network (models/model.json)");
  }
  if (names.size() > 1) {
    throw Error(Fault::input, "RefusedProgram",
                "it holds several networks, '" + names[0] + "' and '" + names[1] + "' among them");
  }
  return names[0];
}

void fill_tensors(ZipReader& archive, std::vector<StoredTensor>& tensors,
                  std::map<std::string, std::size_t>& record_bytes) {
  std::map<std::string, torch::Tensor> storages;
  for (StoredTensor& stored : tensors) {
    auto const needed = storage_bytes(stored.meta, stored.name);
    auto const held = static_cast<std::int64_t>(archive.bytes(stored.record));
    if (needed > held) {
      throw Error(Fault::input, "BrokenFile",
                  "the tensor '" + stored.name + "' needs " + std::to_string(needed) + " bytes of the record '" +
                      stored.record + "', which has " + std::to_string(held));
    }
    auto const [place, is_new] = storages.try_emplace(stored.record);
    if (is_new) {
      place->second = torch::empty({held}, torch::kUInt8);
      archive.read(stored.record, place->second.data_ptr());
      record_bytes[stored.record] = static_cast<std::size_t>(held);
    }
    stored.tensor = view_of(place->second, stored);
  }
}

bool is_zip(std::ifstream& file) {
  std::array<char, 4> head{};
  file.read(head.data(), head.size());
  return file && std::string_view(head.data(), head.size()) == "PK\x03\x04";
}

ArchiveContent read_content(std::filesystem::path const& path) {
  ZipReader archive(path);
  check_format(archive);
  std::string const model = model_name(archive);
  ArchiveContent content;
  std::string const graph = "models/" + model + ".json";
  std::string const weights = "data/weights/" + model + "_weights_config.json";
  std::string const constants = "data/constants/" + model + "_constants_config.json";
  std::string const example = "data/sample_inputs/" + model + ".pt";
  if (!archive.has(weights) && archive.has("data/weights/" + model + ".pt")) {
    throw Error(
        Fault::input, "RefusedProgram",
        "its weights are stored as Python objects (use_pickle); load and save it again with PyTorch 2.9 or newer");
  }
  content.json = archive.text(graph);
  for (std::string const& record : {weights, constants}) {
    content.others[record] = archive.text(record);
  }
  content.weights = read_tensor_table(content.others[weights], "data/weights/", weights);
  content.constants = read_tensor_table(content.others[constants], "data/constants/", constants);
  content.others[graph] = content.json;
  content.others[example] =
      archive.has(example) && archive.bytes(example) <= max_kept_example ? archive.text(example) : "";
  fill_tensors(archive, content.weights, content.record_bytes);
  fill_tensors(archive, content.constants, content.record_bytes);
  return content;
}

}  // namespace

ArchiveContent read_archive(std::filesystem::path const& path) {
  std::string const prefix = path.string() + ": ";
  std::ifstream file(path, std::ios::binary);
  if (!file || !std::filesystem::is_regular_file(path)) {
    throw Error(Fault::input, "NoSuchFile", prefix + "the file does not exist or cannot be read");
  }
  if (!is_zip(file)) {
    throw Error(Fault::input, "UnsupportedFile", path.string() + " is no exported network: not a ZIP archive");
  }
  try {
    return read_content(path);
  } catch (Error const& error) {
    throw Error(Fault::input, error.rule(), prefix + error.text());
  } catch (c10::Error const& error) {
    throw Error(Fault::input, "BrokenFile",
                prefix + "the archive cannot be read (" + error.what_without_backtrace() + ")");
  } catch (std::exception const& error) {
    throw Error(Fault::input, "BrokenFile", prefix + "the archive cannot be read (" + error.what() + ")");
  }
}

}  // namespace graticule::program::detail
