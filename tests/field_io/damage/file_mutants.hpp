// SPDX-License-Identifier: BSD-3-Clause
// Damaged copies of netCDF-4 and HDF5 files: the same for the same seed and number, on every machine.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace graticule::test {

/// HDF5's checksum of its structures: Bob Jenkins' lookup3, `hashlittle` with 0 as the first value.
inline std::uint32_t metadata_checksum(std::string_view bytes) {
  auto const turn = [](std::uint32_t x, int k) { return (x << k) | (x >> (32 - k)); };
  std::uint32_t a = 0xdeadbeefU + std::uint32_t(bytes.size());
  std::uint32_t b = a;
  std::uint32_t c = a;
  auto const word = [&](std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4 && at + i < bytes.size(); ++i)
      value |= std::uint32_t(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
    return value;
  };
  std::size_t at = 0;
  for (; bytes.size() - at > 12; at += 12) {
    a += word(at);
    b += word(at + 4);
    c += word(at + 8);
    a = (a - c) ^ turn(c, 4), c += b;
    b = (b - a) ^ turn(a, 6), a += c;
    c = (c - b) ^ turn(b, 8), b += a;
    a = (a - c) ^ turn(c, 16), c += b;
    b = (b - a) ^ turn(a, 19), a += c;
    c = (c - b) ^ turn(b, 4), b += a;
  }
  if (at == bytes.size()) return c;
  a += word(at);
  b += word(at + 4);
  c += word(at + 8);
  c = (c ^ b) - turn(b, 14);
  a = (a ^ c) - turn(c, 11);
  b = (b ^ a) - turn(a, 25);
  c = (c ^ b) - turn(b, 16);
  a = (a ^ c) - turn(c, 4);
  b = (b ^ a) - turn(a, 14);
  c = (c ^ b) - turn(b, 24);
  return c;
}

/// A header, heap or tree of a file.
struct FileStructure {
  std::size_t offset = 0;
  std::size_t checked = 0;  ///< bytes before its checksum; 0 without one
};

/// Structures by their signatures.
inline std::vector<FileStructure> find_structures(std::string const& bytes) {
  constexpr std::array<std::string_view, 16> signatures{"\x89HDF", "OHDR", "OCHK", "TREE", "SNOD", "HEAP",
                                                        "GCOL",    "FRHP", "FHDB", "FHIB", "BTHD", "BTIN",
                                                        "BTLF",    "FSHD", "FAHD", "EAHD"};
  std::vector<FileStructure> found;
  for (auto const signature : signatures)
    for (auto at = bytes.find(signature); at != std::string::npos; at = bytes.find(signature, at + 1)) {
      FileStructure structure{at, 0};
      bool const has_none = signature == "TREE" || signature == "SNOD" || signature == "HEAP" || signature == "GCOL";
      for (std::size_t length = 8; !has_none && length < 2048 && at + length + 4 <= bytes.size(); ++length) {
        std::uint32_t stored = 0;
        std::memcpy(&stored, bytes.data() + at + length, sizeof stored);
        if (stored != 0 && stored == metadata_checksum(std::string_view(bytes).substr(at, length))) {
          structure.checked = length;
          break;
        }
      }
      found.push_back(structure);
    }
  std::sort(found.begin(), found.end(), [](auto const& a, auto const& b) { return a.offset < b.offset; });
  return found;
}

class Mutator {
 public:
  explicit Mutator(std::string bytes) : bytes_(std::move(bytes)), structures_(find_structures(bytes_)) {}

  [[nodiscard]] std::string const& whole() const noexcept { return bytes_; }
  [[nodiscard]] std::size_t num_structures() const noexcept { return structures_.size(); }

  /// Even numbers hit structures, half of them with a checksum that is right again; odd numbers hit any place.
  [[nodiscard]] std::string mutant(std::uint64_t seed, std::uint64_t number) const {
    std::mt19937_64 random(seed * 1000003 + number);
    std::string bytes = bytes_;
    if (number % 2 == 1 || structures_.empty()) {
      if (random() % 16 == 0) bytes.resize(random() % bytes.size());
      for (auto k = 1 + random() % 4; k > 0 && !bytes.empty(); --k) change(bytes, random() % bytes.size(), random);
      return bytes;
    }
    auto const& structure = structures_[random() % structures_.size()];
    auto const reach = structure.checked > 0 ? structure.checked : std::size_t(1024);
    for (auto k = 1 + random() % 3; k > 0; --k)
      change(bytes, std::min(structure.offset + random() % reach, bytes.size() - 1), random);
    if (structure.checked > 0 && number % 4 == 0) {
      auto const sum = metadata_checksum(std::string_view(bytes).substr(structure.offset, structure.checked));
      std::memcpy(bytes.data() + structure.offset + structure.checked, &sum, sizeof sum);
    }
    return bytes;
  }

 private:
  void change(std::string& bytes, std::size_t at, std::mt19937_64& random) const {
    auto const put = [&](std::uint64_t value, std::size_t width) {
      std::memcpy(bytes.data() + at, &value, std::min(width, bytes.size() - at));
    };
    switch (random() % 7) {
      case 0: bytes[at] = char(random()); break;
      case 1: bytes[at] = char(bytes[at] ^ (1 << random() % 8)); break;
      case 2: bytes[at] = char(bytes[at] + (random() % 2 == 0 ? 1 : -1)); break;
      case 3: bytes[at] = random() % 2 == 0 ? '\0' : '\xff'; break;
      case 4: {
        constexpr std::array<std::uint64_t, 8> sizes{0,    1, 8, 0x7fffffff, 0x80000000, 0xffffffff, 0x7fffffffffffffff,
                                                     ~0ULL};
        put(sizes[random() % sizes.size()], random() % 2 == 0 ? 4 : 8);
        break;
      }
      case 5:
        put(structures_.empty() ? random() % bytes.size() : structures_[random() % structures_.size()].offset, 8);
        break;
      default: {
        auto const from = random() % bytes.size();
        auto const count =
            std::min({std::size_t(1 + random() % 64), bytes.size() - at, bytes.size() - std::size_t(from)});
        std::memmove(bytes.data() + at, bytes.data() + from, count);
      }
    }
  }

  std::string bytes_;
  std::vector<FileStructure> structures_;
};

}  // namespace graticule::test
