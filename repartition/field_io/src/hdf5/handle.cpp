// SPDX-License-Identifier: BSD-3-Clause
#include "handle.hpp"

#include <graticule/field_io/detail/value_types.hpp>

#include <cstdlib>
#include <mutex>

namespace graticule::detail::h5 {

namespace {

struct Innermost {
  std::string text;
};

extern "C" herr_t graticule_keep_innermost(unsigned, H5E_error2_t const* error, void* data) {
  auto& innermost = *static_cast<Innermost*>(data);
  if (error->desc != nullptr && *error->desc != '\0') innermost.text = error->desc;
  return 0;
}

/// Never destroyed: handles may close at the very end of the program.
std::recursive_mutex& mutex() {
  static auto& only = *new std::recursive_mutex;
  return only;
}

}  // namespace

Lock::Lock() { mutex().lock(); }
Lock::~Lock() { mutex().unlock(); }

std::string error_text() {
  Innermost innermost;
  if (H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, graticule_keep_innermost, &innermost) < 0 || innermost.text.empty())
    return "HDF5 gives no reason";
  return innermost.text;
}

std::string release() {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned patch = 0;
  check(H5get_libversion(&major, &minor, &patch), "H5get_libversion");
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

bool allows_plugins(FilterPlugins plugins) {
  if (plugins != FilterPlugins::from_path) return plugins == FilterPlugins::allowed;
  char const* const path = std::getenv("HDF5_PLUGIN_PATH");
  return path != nullptr && *path != '\0';
}

Quiet::Quiet(FilterPlugins plugins) {
  if (H5Eget_auto2(H5E_DEFAULT, &function_, &data_) < 0) throw Error("Hdf5Error", "H5Eget_auto2 failed");
  check(H5PLget_loading_state(&plugins_), "H5PLget_loading_state");
  check(H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr), "H5Eset_auto2");
  if (!allows_plugins(plugins)) check(H5PLset_loading_state(0), "H5PLset_loading_state");
}

Quiet::~Quiet() {
  H5PLset_loading_state(plugins_);
  H5Eset_auto2(H5E_DEFAULT, function_, data_);
}

void write_metadata_once(Properties const& access) {
  H5AC_cache_config_t config{};
  config.version = H5AC__CURR_CACHE_CONFIG_VERSION;
  check(H5Pget_mdc_config(access.get(), &config), "H5Pget_mdc_config");
  config.evictions_enabled = false;
  config.incr_mode = H5C_incr__off;
  config.flash_incr_mode = H5C_flash_incr__off;
  config.decr_mode = H5C_decr__off;
  check(H5Pset_mdc_config(access.get(), &config), "H5Pset_mdc_config");
}

hid_t native_type(ValueType type) {
  switch (type) {
    case ValueType::i8: return H5T_NATIVE_INT8;
    case ValueType::u8: return H5T_NATIVE_UINT8;
    case ValueType::i16: return H5T_NATIVE_INT16;
    case ValueType::u16: return H5T_NATIVE_UINT16;
    case ValueType::i32: return H5T_NATIVE_INT32;
    case ValueType::u32: return H5T_NATIVE_UINT32;
    case ValueType::i64: return H5T_NATIVE_INT64;
    case ValueType::u64: return H5T_NATIVE_UINT64;
    case ValueType::f32: return H5T_NATIVE_FLOAT;
    case ValueType::f64: return H5T_NATIVE_DOUBLE;
    case ValueType::f16:
    case ValueType::text:
    case ValueType::other: break;
  }
  throw Error("WrongType", "HDF5 has no native type for " + std::string(to_string(type)));
}

}  // namespace graticule::detail::h5
