// SPDX-License-Identifier: BSD-3-Clause
#include "errors.hpp"

#include <new>

namespace graticule::c {

namespace {

constexpr char const* argument_rule = "BadArgument";

/// The last error of a thread. The texts are of fixed size in the worst case only: without memory.
struct LastError {
  gr_status status = GR_SUCCESS;
  std::string text;
  std::string rule;
  char const* plain_text = "";  ///< where no memory was left for `text`
};

thread_local LastError last;
thread_local std::string kept;

gr_status status_of(Error const& error) {
  if (error.rule() == argument_rule) return GR_ERROR_ARGUMENT;
  if (dynamic_cast<MpiError const*>(&error) != nullptr) return GR_ERROR_MPI;
  switch (error.fault()) {
    case Fault::program: return GR_ERROR_PROGRAM;
    case Fault::usage: return GR_ERROR_USAGE;
    case Fault::input: return GR_ERROR_INPUT;
    case Fault::check: return GR_ERROR_CHECK;
  }
  return GR_ERROR_OTHER;
}

gr_status keep(gr_status status, std::string const& rule, std::string text) {
  last.status = status;
  last.rule = rule;
  last.text = std::move(text);
  last.plain_text = nullptr;
  return status;
}

}  // namespace

Error bad_argument(std::string const& what) { return {argument_rule, what}; }

gr_status record(char const* function, std::exception_ptr const& failure) noexcept {
  try {
    std::string const head = std::string(function) + ": ";
    try {
      std::rethrow_exception(failure);
    } catch (Error const& error) {
      return keep(status_of(error), error.rule(), head + error.what());
    } catch (std::bad_alloc const&) {
      return keep(GR_ERROR_MEMORY, "OutOfMemory", head + "memory could not be allocated");
    } catch (std::exception const& error) {
      return keep(GR_ERROR_OTHER, "UnexpectedException", head + error.what());
    } catch (...) {
      return keep(GR_ERROR_OTHER, "UnexpectedException", head + "an exception of unknown type");
    }
  } catch (...) {
    last.status = GR_ERROR_MEMORY;
    last.rule.clear();
    last.text.clear();
    last.plain_text = "memory could not be allocated";
    return GR_ERROR_MEMORY;
  }
}

char const* kept_text(std::string text) {
  kept = std::move(text);
  return kept.c_str();
}

}  // namespace graticule::c

using namespace graticule::c;

char const* gr_error_text(void) { return last.plain_text != nullptr ? last.plain_text : last.text.c_str(); }

char const* gr_error_rule(void) { return last.rule.c_str(); }

gr_status gr_error_status(void) { return last.status; }
