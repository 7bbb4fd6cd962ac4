// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "call.hpp"
#include "kernels/blocks.hpp"
#include "kernels/cells.hpp"
#include "kernels/conversion.hpp"
#include "kernels/device_tasks.hpp"
#include "posted_views.hpp"
#include "segment_path.hpp"

#include <complex>
#include <cstddef>
#include <span>
#include <vector>

namespace graticule::detail {

/// How values of a field are converted. @param before becomes the factor of what owned cells hold before anything is
/// added
[[nodiscard]] Conversion conversion_of(PlanContext const& plan, PullField const& field, Direction direction,
                                       std::complex<double>& before);
/// Numbers become integers, which may not hold them: then all ranks agree on how the call ends.
[[nodiscard]] bool rounds(PlanContext const& plan, PullField const& field, Direction direction) noexcept;

/// One field of a call in segments.
struct SegmentField {
  int kind = 0;
  Image source;
  std::vector<Image> targets;
  Parity parity = Parity::even;
  Conversion conversion;
  std::complex<double> before = 1;  ///< factor of what the owned cells hold, applied before anything is added to them
  bool rounds = false;              ///< numbers become integers, which may not hold them
};

/// What a call in segments does with cells: packs, unpacks, moves, adds and fills them, segment by segment. Of messages
/// it knows only the transfers and the memory of one segment.
class SegmentCells {
 public:
  explicit SegmentCells(Call& call) : plan_(call.plan), rules_(*call.plan.segments), call_(call) {}

  void set_fields(std::span<PullField const> fields);
  /// The fields of the call, without factors and packings.
  void set_known_fields();
  /// Begins a call: no number is known that does not fit.
  void begin();
  /// Takes the sizes of the fields for the cutting of messages.
  void describe();
  [[nodiscard]] std::vector<SegmentField> const& fields() const noexcept { return fields_; }
  /// For cursors over messages: values as they travel.
  [[nodiscard]] std::span<BlockField const> message_fields() const noexcept { return message_fields_; }
  /// The same in the types of the sources.
  [[nodiscard]] std::span<BlockField const> local_fields() const noexcept { return local_fields_; }
  /// Nothing is added to what the targets hold.
  [[nodiscard]] bool overwrites() const;
  [[nodiscard]] bool rounds() const noexcept;
  /// Collective. @throws `Conversion` on all ranks when integers on one of them do not hold a number
  /// @pre the call is complete, `rounds()`
  void agree_on_rounding();

  /// Starts over with the cells that stay on this rank; all in one block where `at_once`. @return their bytes
  std::size_t begin_local(bool at_once);
  /// The call writes as many bytes on this rank: many go past the caches.
  void note_written(std::size_t bytes);
  /// Factors of what owned cells held, and cells that are filled.
  void scale_before();
  /// Moves a block of the cells that stay; false where none is left.
  bool move_local();
  [[nodiscard]] bool local_done() const noexcept { return local_.done(); }
  void skip_local() noexcept { local_.finish(); }

  /// The blocks of the next segment, for the calls below. @return its bytes
  std::size_t take(BlockCursor& cursor);
  /// All that is left at once: one launch of a device.
  void take_rest(BlockCursor& cursor);
  /// @param path of a peer on the node; null: of another one
  void pack(PeerTransfers const& peer, std::byte* packed, SegmentPath* path, std::size_t bytes);
  void unpack(PeerTransfers const& peer, std::byte const* packed);
  /// The same out of the peer's own fields.
  void take_in_place(PeerTransfers const& peer, std::vector<Image> const& images);
  /// Waits for the queue.
  void fence();

  /// Tasks of the last segment, or of all cells that stay, which may be kept.
  [[nodiscard]] std::span<StridedTask const> tasks_to_pack(PeerTransfers const& peer, std::byte* packed,
                                                           bool past_cache);
  [[nodiscard]] std::span<StridedTask const> tasks_to_unpack(PeerTransfers const& peer, std::byte const* packed);
  [[nodiscard]] std::span<StridedTask const> local_tasks(Index& bytes);

 private:
  [[nodiscard]] bool forward() const noexcept { return call_.shape.forward(); }
  [[nodiscard]] bool on_device() const noexcept { return call_.shape.on_device(); }
  /// Where tasks of a field note numbers that do not fit; null where none is rounded.
  [[nodiscard]] Unfit* unfit_of(SegmentField const& field) const noexcept;
  [[nodiscard]] Image const& written(SegmentField const& field, int target) const;
  [[nodiscard]] Image const& read(SegmentField const& field, int target) const;
  [[nodiscard]] Elements cells(Image const& image, Transfer const& transfer, bool of_source) const;
  [[nodiscard]] StridedTask task(SegmentField const& field, Transfer const& transfer, Block const& block, Elements to,
                                 Elements from, Transform const& transform) const;
  void add_task(Block const& block, Transfer const& transfer, Elements from, Transform const& transform,
                std::vector<Box> const* parts);
  void add_local_task();
  /// For an inverse: the parts of a transfer of `peer`, or of cells that stay, that count. Null: all.
  [[nodiscard]] std::vector<Box> const* parts_of(PeerTransfers const* peer, int transfer) const;
  void run(DeviceTasks& on_device);

  PlanContext const& plan_;
  SegmentRules const& rules_;
  Call& call_;
  std::vector<SegmentField> fields_;
  std::vector<BlockField> message_fields_;
  std::vector<BlockField> local_fields_;
  BlockCursor local_;
  bool large_ = false;  ///< what the call writes on this rank goes past the caches
  std::vector<Block> blocks_;
  std::vector<StridedTask> tasks_;
  DeviceTasks device_tasks_;
  DeviceTasks local_tasks_;    ///< cells that stay move while peers are waited for
  Buffer unfit_;               ///< an `Unfit` per field, where numbers become integers
  std::size_t num_unfit_ = 0;  ///< fields for which there is room
};

}  // namespace graticule::detail
