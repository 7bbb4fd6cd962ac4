// SPDX-License-Identifier: BSD-3-Clause
#include "end_relay.hpp"

#include <cstdint>
#include <cstring>
#include <utility>

namespace graticule::detail {

namespace {

/// Up to as many ranks tell each other their ends, one message per pair.
constexpr int most_direct_ranks = 16;
/// How long a rank that ends waits until another one has taken its report: one that ends as well does it at once.
constexpr double seconds_for_report = 0.1;
/// How long the rank that tells the others waits for reports first; then twice as long each time.
constexpr double seconds_for_reports = 0.1;

/// Rank number `number` of those that reports go to, one after the other.
int recipient(int number, int num_ranks) noexcept {
  // Ranks 0 and 1, then some that have no pattern in common with those that may all be late, such as the first of each
  // node.
  if (number < 2) return number;
  auto const spread = std::uint32_t(number) * 2654435769U;
  return int(std::uint64_t(spread) * std::uint64_t(num_ranks) >> 32U);
}

}  // namespace

std::vector<std::byte> packed(std::span<Received const> ends) {
  std::vector<std::byte> bytes;
  auto const add = [&bytes](void const* data, std::size_t size) {
    auto const* const from = static_cast<std::byte const*>(data);
    bytes.insert(bytes.end(), from, from + size);
  };
  std::vector<bool> is_packed(ends.size(), false);
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (is_packed[i]) continue;
    auto const& notice = ends[i].notice;
    std::vector<std::int32_t> ranks;
    for (std::size_t j = i; j < ends.size(); ++j) {
      auto const& other = ends[j].notice;
      if (is_packed[j] || other.fault != notice.fault || other.number != notice.number || other.text != notice.text)
        continue;
      is_packed[j] = true;
      ranks.push_back(ends[j].from);
    }
    auto const text_bytes = std::int32_t(std::strlen(notice.text.data()));
    auto const num_ranks = std::int32_t(ranks.size());
    add(&notice.fault, sizeof notice.fault);
    add(&notice.number, sizeof notice.number);
    add(&text_bytes, sizeof text_bytes);
    add(&num_ranks, sizeof num_ranks);
    add(notice.text.data(), std::size_t(text_bytes));
    add(ranks.data(), ranks.size() * sizeof ranks[0]);
  }
  return bytes;
}

std::vector<Received> unpacked(std::vector<std::byte> const& bytes) {
  std::vector<Received> ends;
  auto const* at = bytes.data();
  auto const take = [&at](void* data, std::size_t size) {
    if (size > 0) std::memcpy(data, at, size);
    at += size;
  };
  while (at != bytes.data() + bytes.size()) {
    Notice notice;
    notice.kind = Notice::Kind::ended;
    std::int32_t text_bytes = 0;
    std::int32_t num_ranks = 0;
    take(&notice.fault, sizeof notice.fault);
    take(&notice.number, sizeof notice.number);
    take(&text_bytes, sizeof text_bytes);
    take(&num_ranks, sizeof num_ranks);
    take(notice.text.data(), std::size_t(text_bytes));
    for (std::int32_t i = 0; i < num_ranks; ++i) {
      std::int32_t rank = 0;
      take(&rank, sizeof rank);
      ends.push_back({rank, notice});
    }
  }
  return ends;
}

void EndRelay::pass_on(Mailbox& mail, std::vector<bool> const& is_at_end, double waited) noexcept {
  if (leads_) return tell_all(mail, is_at_end, waited);
  if (report_ != nullptr) {
    bool const under_way = mail.is_under_way(report_);
    if (under_way && waited - reported_at_ < seconds_for_report) return;
    if (under_way)
      ++recipient_;
    else
      in_charge_.erase(in_charge_.begin(), in_charge_.begin() + std::ptrdiff_t(num_reported_));
    report_ = nullptr;
  }
  if (in_charge_.empty()) return;
  int most_recipients = 2;
  while (mail.size() >> most_recipients > 0) ++most_recipients;
  int const to = recipient(recipient_, mail.size());
  if (mail.size() <= most_direct_ranks || recipient_ == most_recipients || to == mail.rank()) {
    leads_ = true;
    bool const direct = mail.size() <= most_direct_ranks;
    next_telling_ = direct ? waited : waited + seconds_for_reports;
    telling_pause_ = 2 * seconds_for_reports;
    return;
  }
  num_reported_ = in_charge_.size();
  reported_at_ = waited;
  report_ = mail.send(to, report_tag, packed(in_charge_));
}

void EndRelay::tell_all(Mailbox& mail, std::vector<bool> const& is_at_end, double waited) noexcept {
  if (in_charge_.empty() || waited < next_telling_) return;
  auto const list = packed(in_charge_);
  for (int r = 0; r < mail.size(); ++r)
    if (r != mail.rank() && !is_at_end[std::size_t(r)]) static_cast<void>(mail.send(r, ends_tag, list));
  in_charge_.clear();
  next_telling_ = waited + telling_pause_;
  telling_pause_ *= 2;
}

}  // namespace graticule::detail
