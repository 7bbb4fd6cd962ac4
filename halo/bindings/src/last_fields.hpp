// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <graticule/graticule.h>
#include <graticule/halo/plan.hpp>

#include "queues.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <span>

namespace graticule::c {

/// The fields of the last calls of a halo plan, as the plan takes them: most programs exchange the same ones in each
/// step, or those of a few stages in turns, and reading a `gr_field` costs more than comparing it.
class LastFields {
 public:
  /// Of one call.
  class Set {
   public:
    static constexpr int most = 4;

    [[nodiscard]] bool are(int num_fields, gr_field const* fields) const noexcept {
      if (num_fields != num_fields_ || num_fields == 0 || fields == nullptr) return false;
      for (int f = 0; f < num_fields; ++f)
        if (!equal(given_[std::size_t(f)], fields[f])) return false;
      return true;
    }
    void set(int num_fields, gr_field const* fields, std::span<HaloField const> views, CallQueue const& queue) {
      num_fields_ = 0;
      for (int f = 0; f < num_fields; ++f) {
        given_[std::size_t(f)] = fields[f];
        views_[std::size_t(f)] = views[std::size_t(f)];
      }
      queue_ = queue;
      num_fields_ = num_fields;
    }
    [[nodiscard]] std::span<HaloField const> views() const noexcept {
      return {views_.data(), std::size_t(num_fields_)};
    }
    [[nodiscard]] DeviceQueue queue() const { return queue_.queue(); }

   private:
    /// Byte by byte, except for the padding behind `has_first`. A first member of another size is never equal.
    static bool equal(gr_field const& a, gr_field const& b) noexcept {
      constexpr std::size_t end = offsetof(gr_field, has_first) + sizeof(a.has_first);
      constexpr std::size_t begin = offsetof(gr_field, first);
      return a.size == b.size && std::memcmp(&a, &b, end) == 0 &&
             std::memcmp(reinterpret_cast<std::byte const*>(&a) + begin, reinterpret_cast<std::byte const*>(&b) + begin,
                         sizeof(gr_field) - begin) == 0;
    }

    std::array<gr_field, most> given_{};
    std::array<HaloField, most> views_{};
    CallQueue queue_;
    int num_fields_ = 0;
  };

  /// Use by one thread at a time; a second one reads its fields itself.
  class Claim {
   public:
    explicit Claim(LastFields& of) noexcept : of_(of.busy_.test_and_set(std::memory_order_acquire) ? nullptr : &of) {}
    Claim(Claim const&) = delete;
    Claim& operator=(Claim const&) = delete;
    ~Claim() {
      if (of_ != nullptr) of_->busy_.clear(std::memory_order_release);
    }
    /// Null where these fields are not those of a recent call.
    [[nodiscard]] Set const* find(int num_fields, gr_field const* fields) const noexcept {
      if (of_ == nullptr) return nullptr;
      for (auto const& set : of_->sets_)
        if (set.are(num_fields, fields)) return &set;
      return nullptr;
    }
    /// Takes the place of the oldest. Long lists, and fields of another version of the interface, are not kept.
    void keep(int num_fields, gr_field const* fields, std::span<HaloField const> views, CallQueue const& queue) const {
      if (of_ == nullptr || num_fields > Set::most) return;
      for (int f = 0; f < num_fields; ++f)
        if (fields[f].size != sizeof(gr_field)) return;
      of_->sets_[of_->next_++ % of_->sets_.size()].set(num_fields, fields, views, queue);
    }

   private:
    LastFields* of_;
  };

 private:
  std::array<Set, 4> sets_{};
  std::size_t next_ = 0;
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
};

}  // namespace graticule::c
