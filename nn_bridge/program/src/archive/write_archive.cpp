// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/error.hpp>

#include "archive/archive.hpp"

#include <caffe2/serialize/inline_container.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>
#include <map>
#include <system_error>
#include <vector>

namespace graticule::program::detail {

namespace {

// The content of a record, put together from the tensors that are views of it.
torch::Tensor record_content(std::size_t bytes, std::vector<StoredTensor const*> const& views,
                             std::map<std::string, torch::Tensor> const& values) {
  torch::NoGradGuard const no_grad;
  torch::Tensor content = torch::zeros({static_cast<std::int64_t>(bytes)}, torch::kUInt8);
  for (StoredTensor const* const stored : views) {
    view_of(content, *stored).copy_(values.at(stored->name));
  }
  return content;
}

void write_records(caffe2::serialize::PyTorchStreamWriter& writer, ArchiveContent const& content,
                   std::map<std::string, torch::Tensor> const& values) {
  for (auto const* tensors : {&content.weights, &content.constants}) {
    std::map<std::string, std::vector<StoredTensor const*>> views;
    std::vector<std::string> order;
    for (StoredTensor const& stored : *tensors) {
      auto& of_record = views[stored.record];
      if (of_record.empty()) {
        order.push_back(stored.record);
      }
      of_record.push_back(&stored);
    }
    for (std::string const& record : order) {
      torch::Tensor const bytes = record_content(content.record_bytes.at(record), views.at(record), values);
      writer.writeRecord(record, bytes.data_ptr(), static_cast<std::size_t>(bytes.numel()));
    }
  }
  for (auto const& [record, text] : content.others) {
    writer.writeRecord(record, text.data(), text.size());
  }
  std::map<std::string, std::string> const marks{
      {"archive_format", "pt2"}, {"archive_version", "0"}, {"byteorder", "little"}};
  for (auto const& [record, text] : marks) {
    writer.writeRecord(record, text.data(), text.size());
  }
  writer.writeEndOfFile();
}

}  // namespace

void write_archive(std::filesystem::path const& path, ArchiveContent const& content,
                   std::map<std::string, torch::Tensor> const& values) {
  std::filesystem::path const temporary = path.string() + ".part-" + std::to_string(::getpid());
  auto const fail = [&](std::string const& why) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    throw Error("OutputError", path.string() + ": the program cannot be written (" + why + ")");
  };
  try {
    std::ofstream file(temporary, std::ios::binary);
    if (!file) {
      throw std::runtime_error("the folder does not exist or cannot be written");
    }
    caffe2::serialize::PyTorchStreamWriter writer([&file](void const* data, std::size_t size) {
      file.write(static_cast<char const*>(data), static_cast<std::streamsize>(size));
      return file ? size : std::size_t(0);
    });
    // The version of the container that PyTorch's own writer gives to exported programs.
    std::uint64_t const container_version = 6;
    writer.setMinVersion(container_version);
    write_records(writer, content, values);
    file.close();
    if (!file) {
      throw std::runtime_error("not all bytes were written");
    }
    std::filesystem::rename(temporary, path);
  } catch (c10::Error const& error) {
    fail(error.what_without_backtrace());
  } catch (std::exception const& error) {
    fail(error.what());
  }
}

}  // namespace graticule::program::detail
