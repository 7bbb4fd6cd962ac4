// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/repartition/detail/dtypes.hpp>

#include "cells.hpp"
#include "contents.hpp"

#include <bit>

namespace graticule::detail {

std::uint64_t RawValue::checksum() const {
  Indices const extents{count()};
  return cell_checksum(dtype, extents, Box::from_extents(extents), bytes.data());
}

RawValue raw_value(CheckpointValue const& value) {
  auto const copy = [](void const* data, std::size_t bytes) {
    auto const* first = static_cast<std::byte const*>(data);
    return std::vector<std::byte>(first, first + bytes);
  };
  RawValue raw;
  if (auto const* integer = std::get_if<Index>(&value))
    raw = {DType::i64, false, 0, copy(integer, sizeof *integer)};
  else if (auto const* real = std::get_if<double>(&value))
    raw = {DType::f64, false, 0, copy(real, sizeof *real)};
  else if (auto const* text = std::get_if<std::string>(&value))
    raw = {DType::u8, true, 0, copy(text->data(), text->size())};
  else if (auto const* bytes = std::get_if<std::vector<std::byte>>(&value))
    raw = {DType::u8, false, 1, *bytes};
  else if (auto const* integers = std::get_if<std::vector<Index>>(&value))
    raw = {DType::i64, false, 1, copy(integers->data(), integers->size() * sizeof(Index))};
  else if (auto const* reals = std::get_if<std::vector<double>>(&value))
    raw = {DType::f64, false, 1, copy(reals->data(), reals->size() * sizeof(double))};
  return raw;
}

h5::Type text_type(std::size_t size) {
  h5::Type type(h5::check(H5Tcopy(H5T_C_S1), "H5Tcopy"));
  h5::check(H5Tset_size(type.get(), size), "H5Tset_size");
  h5::check(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), "H5Tset_strpad");
  h5::check(H5Tset_cset(type.get(), H5T_CSET_UTF8), "H5Tset_cset");
  return type;
}

namespace {

/// IEEE binary16, for which HDF5 before 1.14.4 has no name.
h5::Type half_type(H5T_order_t order) {
  h5::Type type(h5::check(H5Tcopy(H5T_IEEE_F32LE), "H5Tcopy"));
  h5::check(H5Tset_fields(type.get(), 15, 10, 5, 0, 10), "H5Tset_fields");
  h5::check(H5Tset_size(type.get(), 2), "H5Tset_size");
  h5::check(H5Tset_ebias(type.get(), 15), "H5Tset_ebias");
  h5::check(H5Tset_order(type.get(), order), "H5Tset_order");
  return type;
}

/// As h5py stores complex numbers.
h5::Type complex_type(hid_t part) {
  auto const bytes = H5Tget_size(part);
  h5::Type type(h5::check(H5Tcreate(H5T_COMPOUND, 2 * bytes), "H5Tcreate"));
  h5::check(H5Tinsert(type.get(), "r", 0, part), "H5Tinsert");
  h5::check(H5Tinsert(type.get(), "i", bytes, part), "H5Tinsert");
  return type;
}

}  // namespace

h5::Type element_type(DType dtype, Place place) {
  bool const in_file = place == Place::file;
  auto const order = in_file || std::endian::native == std::endian::little ? H5T_ORDER_LE : H5T_ORDER_BE;
  auto const chosen = [&](hid_t stored, hid_t native) { return in_file ? stored : native; };
  auto const unsigned_integer = [&](int bytes) {
    switch (bytes) {
      case 1: return chosen(H5T_STD_U8LE, H5T_NATIVE_UINT8);
      case 2: return chosen(H5T_STD_U16LE, H5T_NATIVE_UINT16);
      case 4: return chosen(H5T_STD_U32LE, H5T_NATIVE_UINT32);
      default: return chosen(H5T_STD_U64LE, H5T_NATIVE_UINT64);
    }
  };
  auto const signed_integer = [&](int bytes) {
    switch (bytes) {
      case 1: return chosen(H5T_STD_I8LE, H5T_NATIVE_INT8);
      case 2: return chosen(H5T_STD_I16LE, H5T_NATIVE_INT16);
      case 4: return chosen(H5T_STD_I32LE, H5T_NATIVE_INT32);
      default: return chosen(H5T_STD_I64LE, H5T_NATIVE_INT64);
    }
  };
  auto const real = [&](int bytes) {
    return bytes == 4 ? chosen(H5T_IEEE_F32LE, H5T_NATIVE_FLOAT) : chosen(H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE);
  };
  auto const copy = [](hid_t type) { return h5::Type(h5::check(H5Tcopy(type), "H5Tcopy")); };
  auto const [name, bytes, kind] = enum_row(dtype);
  switch (kind) {
    case NumberKind::unsigned_integer:
    case NumberKind::bfloat: return copy(unsigned_integer(bytes));
    case NumberKind::signed_integer: return copy(signed_integer(bytes));
    case NumberKind::ieee: return bytes == 2 ? half_type(order) : copy(real(bytes));
    case NumberKind::complex: return complex_type(real(bytes / 2));
  }
  throw Error("WrongType", "a field has an unknown type");
}

}  // namespace graticule::detail
