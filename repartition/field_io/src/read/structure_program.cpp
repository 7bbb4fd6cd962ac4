// SPDX-License-Identifier: BSD-3-Clause
#include "structure_program.hpp"

#include <graticule/field_io/detail/program_folder.hpp>

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <sstream>
#include <system_error>

namespace graticule::detail {

namespace {

using Folders = std::vector<std::filesystem::path>;

struct Noted {
  std::mutex mutex;
  Folders folders;
};

/// Filled while static objects are made, so it is made at its first use.
Noted& noted() {
  static auto& only = *new Noted;
  return only;
}

bool is_program(std::filesystem::path const& path) {
  std::error_code ignored;
  return ::access(path.c_str(), X_OK) == 0 && std::filesystem::is_regular_file(path, ignored);
}

/// Folder of the program or shared library that holds this code.
std::filesystem::path own_folder() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void const*>(&structure_program_folders), &info) == 0 || info.dli_fname == nullptr)
    return {};
  std::error_code error;
  // The name of the program itself is what it was called by, which may lie anywhere in PATH.
  std::filesystem::path const named = info.dli_fname;
  auto const path = named.extension() == ".so" || named.filename().string().find(".so.") != std::string::npos
                        ? std::filesystem::canonical(named, error)
                        : std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::filesystem::path() : path.parent_path();
}

void add(Folders& folders, std::filesystem::path const& folder) {
  auto const clean = folder.lexically_normal();
  if (!clean.empty() && std::find(folders.begin(), folders.end(), clean) == folders.end()) folders.push_back(clean);
}

void add_list(Folders& folders, std::string const& list) {
  std::istringstream parts(list);
  for (std::string part; std::getline(parts, part, ':');)
    if (!part.empty()) add(folders, part);
}

/// All but those of PATH.
Folders own_folders() {
  Folders folders;
  if (auto const own = own_folder(); !own.empty()) {
    add(folders, own);
    add(folders, own / GRATICULE_BIN_FROM_LIBRARIES);
    add(folders, own / ".." / "bin");
  }
  {
    std::lock_guard const lock(noted().mutex);
    for (auto const& folder : noted().folders) add(folders, folder);
  }
  add_list(folders, GRATICULE_PROGRAM_FOLDERS);
  return folders;
}

}  // namespace

bool note_program_folder(char const* folder) {
  std::lock_guard const lock(noted().mutex);
  add(noted().folders, folder);
  return true;
}

std::vector<std::filesystem::path> find_structure_programs() {
  auto folders = own_folders();
  if (auto const* path = std::getenv("PATH")) add_list(folders, path);
  std::vector<std::filesystem::path> programs;
  for (auto const& folder : folders)
    if (auto path = folder / structure_program; is_program(path)) programs.push_back(std::move(path));
  return programs;
}

std::string structure_program_folders() {
  std::string text;
  for (auto const& folder : own_folders()) text += folder.string() + ", ";
  return text + "PATH";
}

}  // namespace graticule::detail
