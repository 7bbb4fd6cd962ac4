// SPDX-License-Identifier: BSD-3-Clause
// Texts in the language of the caller. Also part of the libraries over this one.
#include "fortran.hpp"

#include <cctype>
#include <string_view>
#include <utility>

namespace graticule::c {

namespace {

thread_local gr_fortran_caller current{};

}  // namespace

FortranScope::FortranScope(gr_fortran_caller const& caller) noexcept
    : before_(std::exchange(current, caller)),
      speech_(caller.sizes != nullptr ? detail::Speech::fortran : detail::Speech::half_open) {}

FortranScope::~FortranScope() { current = before_; }

bool speaks_fortran() noexcept { return current.sizes != nullptr; }

bool passes_arrays() noexcept { return current.has_arrays != 0; }

std::string argument_text(char const* name) {
  if (!speaks_fortran()) return name;
  std::string_view const sizes(current.sizes);
  auto const key = std::string(name) + "=";
  for (std::size_t at = sizes.find(key); at != std::string_view::npos; at = sizes.find(key, at + 1))
    if (at == 0 || sizes[at - 1] == ';')
      return std::string(sizes.substr(at + key.size(), sizes.find(';', at) - at - key.size()));
  return name;
}

std::string words_of_caller(std::string const& text) {
  auto const end = text.find(' ');
  if (!speaks_fortran() || end == std::string::npos) return text;
  auto first = argument_text(text.substr(0, end).c_str());
  for (std::size_t at = 1; at + 1 < first.size(); ++at)
    if (first[at] == '.' && std::isalpha(static_cast<unsigned char>(first[at + 1])) != 0) first[at] = '%';
  return first + text.substr(end);
}

std::string element_text(char const* list, int number) {
  if (!speaks_fortran()) return std::string(list) + "[" + std::to_string(number) + "]";
  std::string const name(list);
  if (current.has_arrays == 0) return name + "(" + std::to_string(number + 1) + ")";
  return name == "fields" ? "field" + std::to_string(number + 1) : name;
}

}  // namespace graticule::c
