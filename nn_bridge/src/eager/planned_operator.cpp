// SPDX-License-Identifier: BSD-3-Clause
#include "planned_operator.hpp"

#include <graticule/nn_bridge/detail/forward_scope.hpp>
#include <graticule/partition/error.hpp>
#include <graticule/program/detail/operators.hpp>
#include <graticule/program/detail/plan_layout.hpp>

#include <ATen/ExpandUtils.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <mutex>
#include <set>
#include <utility>

namespace graticule::nn::detail {

namespace {

using program::Cut;
using program::Placement;
using program::Shape;

bool is_among(std::string_view name, std::string_view names) {
  auto const at = (" " + std::string(names) + " ").find(" " + std::string(name) + " ");
  return at != std::string::npos;
}

constexpr char const* ignored =
    "item _local_scalar_dense is_nonzero equal allclose size stride numel sym_size sym_numel sym_stride "
    "sym_storage_offset "
    "requires_grad requires_grad_ set_data _version result_type is_same_size _assert_async _assert_scalar "
    "_assert_tensor_metadata record_stream retain_grad is_pinned is_floating_point is_complex is_signed is_set_to "
    "_backward "
    "is_inference is_conj is_neg is_leaf output_nr resize resize_as";
constexpr char const* reading =
    "nonzero nonzero_numpy masked_select unique _unique _unique2 unique_dim unique_consecutive histc histogram "
    "bincount "
    "argwhere";
constexpr char const* by_index = "arange linspace logspace range eye tril_indices triu_indices";
constexpr char const* random =
    "rand randn randint randperm rand_like randn_like randint_like bernoulli normal uniform exponential random cauchy "
    "log_normal geometric poisson multinomial dropout native_dropout feature_dropout alpha_dropout "
    "feature_alpha_dropout rrelu normal_functional";
constexpr char const* parts =
    "narrow slice select split split_with_sizes chunk tensor_split unsafe_split unsafe_split_with_sizes unsafe_chunk "
    "unbind "
    "diagonal";
constexpr char const* sized = "view reshape _unsafe_view _reshape_alias expand broadcast_to";
constexpr char const* arithmetic =
    "add sub rsub subtract mul multiply div divide true_divide floor_divide addcmul addcdiv";
// Their kernels take no sizes.
constexpr char const* size_free = "and or xor lshift rshift iand ior ixor ilshift irshift";

std::string base_of(std::string name) {
  if (auto const colons = name.rfind("::"); colons != std::string::npos) name.erase(0, colons + 2);
  if (name.starts_with("__") && name.ends_with("__") && name.size() > 4) return name.substr(2, name.size() - 4);
  if (name.size() > 1 && name.ends_with('_')) name.pop_back();
  return name;
}

void pad_by_name(Values& stack) {
  static constexpr std::array<char const*, 4> modes{"reflect", "replicate", "circular", "constant"};
  auto const mode = stack.at(2).toInt();
  std::optional<double> value;
  if (stack.at(3).isDouble()) value = stack.at(3).toDouble();
  auto const result = at::pad(stack.at(0).toTensor(), stack.at(1).toIntVector(), modes.at(std::size_t(mode)), value);
  stack = {result};
}

OperatorKind make_kind(c10::OperatorHandle const& op) {
  auto const& schema = op.schema();
  OperatorKind kind;
  kind.name = schema.name();
  kind.target = target_of(schema);
  kind.base = base_of(schema.name());
  bool const is_aten = schema.name().starts_with("aten::");
  std::size_t num_written = 0;
  for (auto const& argument : schema.arguments())
    if (argument.alias_info() && argument.alias_info()->isWrite()) ++num_written;
  kind.in_place = num_written > 0 && schema.name().ends_with('_') && !schema.arguments().empty() &&
                  schema.arguments()[0].alias_info() && schema.arguments()[0].alias_info()->isWrite();
  if (base_of(schema.name()).starts_with("i") && schema.name().starts_with("aten::__i"))
    kind.in_place = num_written > 0;
  kind.has_out = num_written > 0 && !kind.in_place;
  if (is_among(kind.base, "native_batch_norm batch_norm _native_batch_norm_legit instance_norm")) kind.has_out = false;
  auto const known = is_aten ? program::operator_class(kind.target) : std::nullopt;
  using program::OperatorClass;
  kind.is_cellwise = known == OperatorClass::local;
  kind.is_arithmetic = is_aten && is_among(kind.base, arithmetic);
  kind.is_part = is_aten && is_among(kind.base, parts);
  kind.is_reduction = known == OperatorClass::statistic;
  kind.is_view = known == OperatorClass::view;
  auto const shares = [](auto const& all) {
    return !all.empty() && all[0].alias_info() && !all[0].alias_info()->isWrite();
  };
  kind.may_alias = shares(schema.arguments()) && shares(schema.returns());
  kind.takes_indices = known == OperatorClass::table || is_among(kind.base, "cat concat concatenate stack");
  kind.takes_sizes = is_aten && is_among(kind.base, sized);
  bool const is_composite = op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  if (!is_aten) {
    kind.role = OperatorRole::unknown;
  } else if (is_among(kind.base, ignored)) {
    kind.role = OperatorRole::ignored;
  } else if (is_among(kind.base, by_index)) {
    kind.role = OperatorRole::by_index;
  } else if (is_among(kind.base, random)) {
    kind.role = OperatorRole::random;
  } else if (is_among(kind.base, reading)) {
    kind.role = OperatorRole::reading;
  } else if (is_composite && (is_among(kind.base, size_free) ||
                              (is_among(kind.base, "max min") && schema.overload_name() == "other"))) {
    kind.role = OperatorRole::composed;
  } else if (known && known != OperatorClass::number && known != OperatorClass::check &&
             known != OperatorClass::subgraph) {
    kind.role = OperatorRole::planned;
  }
  if (kind.name == "aten::_pad_enum") kind.alternative = &pad_by_name;
  if (kind.in_place) {
    auto name = schema.name();
    name.pop_back();
    kind.functional = c10::Dispatcher::singleton().findSchema({name, schema.overload_name()});
  } else if (kind.has_out && num_written == 1 && schema.overload_name().ends_with("out")) {
    auto overload = schema.overload_name();
    overload.resize(overload.size() - std::min<std::size_t>(overload.size(), overload.ends_with("_out") ? 4 : 3));
    kind.functional = c10::Dispatcher::singleton().findSchema({schema.name(), overload});
  }
  return kind;
}

/// Runs an operator on zeros of these shapes; on the CPU they take the memory of one.
Values on_zeros(c10::OperatorHandle const& op, Values const& arguments, std::vector<torch::Tensor> const& leaves,
                std::vector<Shape> const& shapes, torch::Device device) {
  OwnCode const own;
  torch::NoGradGuard const no_grad;
  std::vector<torch::Tensor> fakes;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    auto const options = torch::dtype(leaves[i].scalar_type()).device(device);
    auto fake = device.is_meta() ? torch::empty(shapes[i], options) : torch::zeros({}, options).expand(shapes[i]);
    if (leaves[i].unsafeGetTensorImpl()->is_wrapped_number()) {
      fake = torch::zeros({}, options);
      fake.unsafeGetTensorImpl()->set_wrapped_number(true);
    }
    fakes.push_back(fake);
  }
  Values stack;
  for (auto const& value : arguments) {
    if (value.isDevice())
      stack.emplace_back(device);
    else
      stack.push_back(with_tensors_of(value, [&](torch::Tensor const& t) { return fakes[index_in(leaves, t)]; }));
  }
  op.callBoxed(stack);
  return stack;
}

/// The results of an operator on these shapes, without memory. @throws what it throws
Values on_meta(c10::OperatorHandle const& op, bool is_cellwise, Values const& arguments,
               std::vector<torch::Tensor> const& leaves, std::vector<Shape> const& shapes) {
  try {
    return on_zeros(op, arguments, leaves, shapes, torch::kMeta);
  } catch (c10::NotImplementedError const&) {
    // PyTorch has what LibTorch 2.13 lacks of these kernels in Python alone: abs, the Fourier transforms.
  }
  if (is_cellwise) {
    Shape shape;
    std::vector<Shape> ones;
    for (auto const& one : shapes) {
      shape = at::infer_size(shape, one);
      ones.emplace_back(one.size(), 1);
    }
    auto results = on_zeros(op, arguments, leaves, ones, torch::kCPU);
    if (results.size() == 1 && results[0].isTensor() && std::size_t(results[0].toTensor().dim()) == shape.size())
      return {torch::empty(shape, torch::dtype(results[0].toTensor().scalar_type()).device(torch::kMeta))};
  }
  auto results = on_zeros(op, arguments, leaves, shapes, torch::kCPU);
  for (auto& value : results)
    value = with_tensors_of(value, [](torch::Tensor const& t) {
      return torch::empty(t.sizes(), torch::dtype(t.scalar_type()).device(torch::kMeta));
    });
  return results;
}

class Planner {
 public:
  explicit Planner(OperatorCall const& call) : call_(call), model_(call.model.lock()), kind_(call.kind) {
    for (std::size_t i = 0; i < call.leaves.size(); ++i) {
      auto const* const mark = call.marks[i];
      bool const is_cut = mark && mark->kind == Mark::Kind::cut;
      shapes_.push_back(is_cut || (mark && mark->kind == Mark::Kind::whole) ? mark->shape
                                                                            : call.leaves[i].sizes().vec());
      places_.push_back(is_cut ? mark->place : Placement());
      columns_.push_back(is_cut ? mark->columns : std::nullopt);
      if (is_cut && lead_ == none) lead_ = i;
    }
  }

  std::shared_ptr<PlannedOperator> run() {
    result_ = std::make_shared<PlannedOperator>();
    try {
      plan();
    } catch (Error const& error) {
      if (error.rule() != "RefusedProgram" && error.rule() != "BrokenFile" && error.rule() != "BadArgument" &&
          error.rule() != "NotSharded")
        throw;
      refuse(error.text());
      result_->poisons = error.rule() == "NotSharded" && !(is_regular() && is_even(*lead().place));
    } catch (c10::Error const& error) {
      refuse(first_line(error.what_without_backtrace()));
      result_->poisons = !is_regular();
    }
    return result_;
  }

 private:
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  void refuse(std::string const& why) {
    std::string shapes;
    for (std::size_t i = 0; i < shapes_.size(); ++i)
      shapes += (i ? ", " : "") + c10::str(at::IntArrayRef(shapes_[i])) + (places_[i] ? "" : " (whole)");
    result_->direct = false;
    result_->refusal = kind_.name + call_.place + " of shards (" + shapes + " on the globe): " + why;
  }

  [[nodiscard]] Mark const& lead() const { return *call_.marks[lead_]; }
  [[nodiscard]] std::size_t axis() const { return std::size_t(lead().place->axis); }
  [[nodiscard]] std::int64_t local_extent() const { return call_.leaves[lead_].sizes()[axis()]; }
  [[nodiscard]] std::int64_t extent() const { return lead().shape[axis()]; }

  /// No rank has one row, or all, which another operand may have by chance.
  [[nodiscard]] bool is_regular() const {
    auto const& bounds = lead().place->bounds;
    for (std::size_t p = 1; p < bounds.size(); ++p) {
      auto const size = bounds[p] - bounds[p - 1];
      if (size == 1 || size == bounds.back()) return false;
    }
    return true;
  }
  void plan() {
    if (kind_.role == OperatorRole::unknown || kind_.role == OperatorRole::by_index)
      return refuse("it is not known here");
    for (std::size_t i = 0; i < call_.leaves.size(); ++i) {
      auto const* const mark = call_.marks[i];
      if (mark && mark->kind == Mark::Kind::made && mark->is_random)
        return refuse(mark->text + " draws random numbers that differ between ranks; draw them by rand_like(shard)");
      auto const sizes = call_.leaves[i].sizes();
      if (kind_.takes_indices && mark && mark->kind == Mark::Kind::made && local_extent() != extent() &&
          std::find(sizes.begin(), sizes.end(), local_extent()) != sizes.end())
        throw Error("NotSharded", mark->text + index_fault);
      if (call_.leaves[i].layout() != torch::kStrided) return refuse("a tensor that is not strided");
    }
    arguments_ = call_.arguments;
    bool const changed = globalise();
    find_results();
    result_->structure.clear();
    for (auto const& value : results_) {
      std::optional<std::size_t> length;
      if (value.isTensorList()) length = value.toTensorVector().size();
      result_->structure.push_back(length);
      for_each_tensor(value, [&](torch::Tensor const& t) {
        result_->dtypes.push_back(t.scalar_type());
        result_shapes_.push_back(t.sizes().vec());
      });
    }
    std::vector<GlobeTensor> leaves;
    for (std::size_t i = 0; i < shapes_.size(); ++i) leaves.push_back({shapes_[i], call_.leaves[i].scalar_type()});
    text_ = graph_text(
        call_.op, arguments_, leaves, [&](torch::Tensor const& t) { return index_in(call_.leaves, t); }, results_);
    if (lead().columns) return plan_blocks(changed);
    result_->placed = placed(places_, {});
    auto const wanted = wanted_places();
    if (!wanted.empty()) result_->placed = placed(places_, wanted);
    auto const& call = *result_->placed;
    result_->is_whole = true;
    for (std::size_t k = 0; k < result_shapes_.size(); ++k) {
      Mark mark;
      mark.model = call_.model;
      mark.shape = result_shapes_[k];
      mark.place = call.outputs().at(k);
      mark.kind = mark.place ? Mark::Kind::cut : Mark::Kind::whole;
      mark.is_input = is_input();
      result_->is_whole = result_->is_whole && !mark.place;
      result_->marks.push_back(std::move(mark));
    }
    result_->direct = (call.direct() && !changed && !draws(kind_, call_.op, call_.arguments)) || fits_locally();
    if (result_->direct) return;
    if (is_input())
      return refuse("it acts on the input of the model before the first layer, where a shard is not known as one");
    result_->waits = kind_.is_part || result_->is_whole;
    if (is_doubtful())
      result_->doubt =
          kind_.name + call_.place + " with numbers that may come from the sizes of shards; " + number_advice;
  }

  static constexpr char const* number_advice =
      "h.size() is that of this rank. Write numbers that count from the end, or Slice(1, None)";

  [[nodiscard]] bool is_input() const {
    return std::any_of(call_.marks.begin(), call_.marks.end(), [](auto const* mark) { return mark && mark->is_input; });
  }

  /// Results on the globe, for which tensors of a shard's sizes are taken for shards where cells meet cells.
  void find_results() {
    try {
      results_ = on_meta(call_.op, kind_.is_cellwise, arguments_, call_.leaves, shapes_);
      return;
    } catch (c10::Error const& error) {
      if (!kind_.is_cellwise || !assume_shards()) throw;
    }
    results_ = on_meta(call_.op, kind_.is_cellwise, arguments_, call_.leaves, shapes_);
  }

  bool assume_shards() {
    bool found = false;
    auto const take = [&](std::size_t i, Cut const& cut, std::int64_t local, std::int64_t whole) {
      auto const& t = call_.leaves[i];
      auto const at = t.dim() + cut.axis - std::int64_t(lead().shape.size());
      if (at < 0 || t.size(at) != local || local == whole) return std::optional<Cut>();
      if (call_.marks[i] && call_.marks[i]->kind == Mark::Kind::made)
        throw Error("NotSharded", call_.marks[i]->text + index_fault);
      Cut own = cut;
      own.axis = at;
      shapes_[i][std::size_t(at)] = whole;
      found = true;
      return std::optional(own);
    };
    for (std::size_t i = 0; i < call_.leaves.size(); ++i) {
      if (places_[i] || (call_.marks[i] && call_.marks[i]->kind == Mark::Kind::whole)) continue;
      places_[i] = take(i, *lead().place, local_extent(), extent());
      if (!lead().columns) continue;
      auto const at = std::size_t(lead().columns->axis);
      columns_[i] = take(i, *lead().columns, call_.leaves[lead_].sizes()[at], lead().shape[at]);
    }
    return found;
  }

  [[nodiscard]] std::shared_ptr<program::PlacedCall> placed(std::vector<Placement> const& inputs,
                                                            std::vector<program::Wanted> wanted) const {
    program::PlacedCallOptions options;
    options.name = kind_.name;
    options.inputs = inputs;
    options.outputs = std::move(wanted);
    options.seed = model_->seed;
    options.device = call_.leaves.at(lead_).device();
    OwnCode const own;
    return std::make_shared<program::PlacedCall>(text_, model_->domain, std::move(options));
  }

  /// Results that have the axis of the shard that leads are cut along it. Empty: they are already.
  [[nodiscard]] std::vector<program::Wanted> wanted_places() const {
    if (result_->placed->direct() || result_->placed->keeps_views()) return {};
    std::vector<program::Wanted> wanted;
    bool differs = false;
    for (std::size_t k = 0; k < result_shapes_.size(); ++k) {
      auto const& shape = result_shapes_[k];
      auto const& now = result_->placed->outputs().at(k);
      wanted.emplace_back(now);
      // What is left of whole columns is the same for all ranks, as a sum for a loss is.
      if (program::num_elements(shape) * extent() <= program::num_elements(lead().shape)) {
        differs = differs || now.has_value();
        wanted.back() = Placement();
        continue;
      }
      if (kind_.is_part || shape.size() != lead().shape.size() || shape[axis()] <= 1) continue;
      bool const keeps = shape[axis()] == extent();
      bool const is_field = now && now->axis == std::int64_t(axis()) && now->period == shape[axis()];
      if (!keeps && is_field && !model_->homes.contains(shape[axis()])) continue;
      auto const cut = keeps ? *lead().place : model_->cut_of(std::int64_t(axis()), shape[axis()]);
      differs = differs || now != Placement(cut);
      wanted.back() = Placement(cut);
    }
    return differs ? wanted : std::vector<program::Wanted>();
  }

  /// Whether a view of the local tensors is the local part of the view, whose sizes are those of this rank.
  [[nodiscard]] bool fits_locally() const {
    if (!kind_.takes_sizes || !result_->placed->keeps_views()) return false;
    std::vector<Shape> local;
    for (auto const& t : call_.leaves) local.push_back(t.sizes().vec());
    try {
      auto const results = on_meta(call_.op, false, call_.arguments, call_.leaves, local);
      auto const& mark = result_->marks.at(0);
      Shape own = mark.shape;
      if (mark.place) {
        auto& size = own[std::size_t(mark.place->axis)];
        size = mark.place->owned_extent(size, model_->domain.comm().rank());
      }
      return results.at(0).toTensor().sizes().vec() == own;
    } catch (c10::Error const&) {
      return false;
    }
  }

  /// In blocks of rows and columns runs what needs no message, whichever of the two are cut.
  void plan_blocks(bool changed) {
    auto const ranks = model_->domain.comm().num_ranks();
    auto const in_bands = [&](std::vector<Placement> const& places) {
      auto bands = places;
      for (std::size_t i = 0; i < bands.size(); ++i)
        if (bands[i]) bands[i] = Cut::balanced(bands[i]->axis, shapes_[i][std::size_t(bands[i]->axis)], ranks);
      return placed(bands, {});
    };
    for (std::size_t i = 0; i < places_.size(); ++i)
      if (places_[i].has_value() != columns_[i].has_value()) return refuse("a field that is cut along one axis only");
    auto const in_rows = in_bands(places_);
    auto const in_columns = in_bands(columns_);
    result_->direct = in_rows->direct() && in_columns->direct() && !changed && !draws(kind_, call_.op, call_.arguments);
    result_->is_whole = true;
    for (std::size_t k = 0; k < result_shapes_.size(); ++k) {
      auto const& rows = in_rows->outputs().at(k);
      auto const& columns = in_columns->outputs().at(k);
      Mark mark;
      mark.model = call_.model;
      mark.shape = result_shapes_[k];
      mark.is_input = is_input();
      result_->is_whole = result_->is_whole && !rows && !columns;
      result_->direct = result_->direct && rows && columns &&
                        mark.shape[std::size_t(rows->axis)] == lead().place->period &&
                        mark.shape[std::size_t(columns->axis)] == lead().columns->period;
      if (rows && columns) {
        mark.kind = Mark::Kind::cut;
        mark.place = lead().place;
        mark.place->axis = rows->axis;
        mark.columns = lead().columns;
        mark.columns->axis = columns->axis;
      }
      result_->marks.push_back(std::move(mark));
    }
    if (result_->direct) return;
    result_->waits = result_->is_whole || kind_.is_part;
    refuse("on blocks of rows and columns only what needs no cells of other ranks is run; cut rows alone");
    if (result_->waits) {  // a sum of this rank's cells, for a loss
      result_->refusal.clear();
      result_->is_whole = true;
    }
  }

  // --- Sizes among the arguments: those of shards are read as those of the globe ---

  bool globalise() {
    if (kind_.takes_sizes) return globalise_view();
    if (is_among(kind_.base, "layer_norm native_layer_norm")) return globalise_aligned(1);
    if (kind_.base.starts_with("upsample_") || kind_.base.starts_with("_upsample_")) return globalise_resize();
    if (kind_.base.starts_with("fft_"))
      if (auto const s = call_.op.schema().argumentIndexWithName("s"); s && is_last_axes("dim"))
        return globalise_aligned(std::size_t(*s));
    return false;
  }

  [[nodiscard]] bool is_last_axes(std::string_view name) const {
    auto const index = call_.op.schema().argumentIndexWithName(std::string(name));
    if (!index || !arguments_[std::size_t(*index)].isIntList()) return true;
    auto const axes = arguments_[std::size_t(*index)].toIntVector();
    for (std::size_t i = 0; i < axes.size(); ++i)
      if (axes[i] != std::int64_t(i) - std::int64_t(axes.size())) return false;
    return true;
  }

  bool globalise_aligned(std::size_t index) {
    if (!arguments_[index].isIntList()) return false;
    auto sizes = arguments_[index].toIntVector();
    auto const at = std::int64_t(sizes.size()) + std::int64_t(axis()) - std::int64_t(lead().shape.size());
    if (at < 0 || at >= std::int64_t(sizes.size())) return false;
    auto& size = sizes[std::size_t(at)];
    if (size != local_extent() || size == extent()) return false;
    size = extent();
    arguments_[index] = sizes;
    return true;
  }

  bool globalise_resize() {
    if (call_.arguments.size() < 2 || !arguments_[1].isIntList()) return false;
    auto sizes = arguments_[1].toIntVector();
    auto const at = std::int64_t(axis()) - 2;
    if (at < 0 || at >= std::int64_t(sizes.size())) return false;
    static constexpr std::array<char const*, 3> names{"scales_d", "scales_h", "scales_w"};
    auto const name = sizes.size() == 1 ? "scales" : names[std::size_t(at) + 3 - sizes.size()];
    auto const index = call_.op.schema().argumentIndexWithName(name);
    auto const& scale = index ? arguments_[std::size_t(*index)] : c10::IValue();
    auto& size = sizes[std::size_t(at)];
    auto const before = size;
    size = scale.isDouble() ? std::int64_t(std::floor(double(extent()) * scale.toDouble())) : resized(size);
    arguments_[1] = sizes;
    return size != before;
  }

  /// The extent on the globe that is meant: that of a field of which this rank has so many rows, or of a field.
  [[nodiscard]] std::int64_t resized(std::int64_t size) const {
    std::set<std::int64_t> as_local;
    std::set<std::int64_t> as_whole;
    auto const rank = std::size_t(model_->domain.comm().rank());
    for (auto const& [whole, bounds] : model_->homes) {
      if (rank + 1 >= bounds.size()) continue;  // of blocks
      auto const local = bounds[rank + 1] - bounds[rank];
      if (size == local) as_local.insert(whole);
      if (size == whole) as_whole.insert(whole);
    }
    if (as_local.size() == 1 && (as_whole.empty() || as_whole == as_local || !is_even(*lead().place)))
      return *as_local.begin();
    if (as_local.empty() && !as_whole.empty()) return size;
    throw Error("NotSharded", "whether " + std::to_string(size) +
                                  " rows are those of this rank or of the globe is not known; give a scale factor, or "
                                  "use nn::Resize::forward_like");
  }

  bool globalise_view() {
    if (call_.arguments.size() < 2 || !arguments_[1].isIntList()) return false;
    if (call_.leaves.size() != 1) return false;
    auto sizes = arguments_[1].toIntVector();
    auto const& t = call_.leaves[0];
    auto const given = sizes;
    if (is_among(kind_.base, "expand broadcast_to")) {
      auto const at = std::int64_t(sizes.size()) - t.dim() + std::int64_t(axis());
      if (at >= 0 && at < std::int64_t(sizes.size()) && sizes[std::size_t(at)] == local_extent())
        sizes[std::size_t(at)] = extent();
    } else {
      globalise_sizes(sizes, t);
    }
    arguments_[1] = sizes;
    return sizes != given;
  }

  /// Whether an axis of one cell before so many elements of `all` is the one row that this rank has of a field.
  [[nodiscard]] bool is_one_row(std::int64_t all, std::int64_t row) const {
    auto const rank = std::size_t(model_->domain.comm().rank());
    auto const home = all % row == 0 ? model_->homes.find(all / row) : model_->homes.end();
    return home != model_->homes.end() && rank + 1 < home->second.size() &&
           home->second[rank + 1] - home->second[rank] == 1;
  }

  void globalise_sizes(std::vector<std::int64_t>& sizes, torch::Tensor const& t) const {
    if (sizes == t.sizes().vec()) {
      sizes = lead().shape;
      return;
    }
    if (t.numel() > 0 && t.numel() == program::num_elements(lead().shape)) return;  // this rank has the globe
    std::int64_t known = 1;
    std::int64_t open = -1;
    for (std::size_t j = 0; j < sizes.size(); ++j) {
      if (sizes[j] == -1)
        open = std::int64_t(j);
      else
        known *= sizes[j];
    }
    if (t.numel() == 0) {
      // A rank without cells has a size of 0 where others have cells.
      auto const zero = std::find(sizes.begin(), sizes.end(), 0);
      if (zero == sizes.end()) return;
      std::int64_t others = 1;
      for (auto const size : sizes) others *= size == 0 ? 1 : size;
      auto const all = program::num_elements(lead().shape);
      if (others <= 0 || all % others != 0) throw Error("NotSharded", "the sizes of a rank without cells tell nothing");
      *zero = all / others;
      return;
    }
    if (open >= 0) {
      if (known == 0 || t.numel() % known != 0) return;
      sizes[std::size_t(open)] = t.numel() / known;
      known = t.numel();
    }
    if (known != t.numel()) return;  // those of the globe
    std::int64_t behind = 1;         // elements of one row of this rank, and behind a size of the result
    for (std::size_t i = axis() + 1; i < std::size_t(t.dim()); ++i) behind *= t.sizes()[i];
    // Of a low digit of the axis, as columns are of tokens, this rank has so many.
    auto const period = lead().place->period;
    auto const own = lead().place->owned_extent(period, model_->domain.comm().rank());
    auto const all = behind * own;
    std::int64_t below = 1;
    for (std::size_t j = sizes.size(); j-- > 0;) {
      auto const above = below * sizes[j];
      bool const has_axis = below <= behind && above >= all && behind % below == 0;
      bool const splits_axis = below > behind && above == all;
      if (above == all && j > 0 && sizes[j - 1] == 1 && is_one_row(period * behind, above)) {
        sizes[j - 1] = period * behind / above;
        return;
      }
      if ((has_axis || splits_axis) && sizes[j] * period % own == 0) {
        sizes[j] = sizes[j] * period / own;
        return;
      }
      below = above;
    }
    throw Error("NotSharded", "the rows of this rank are spread over several sizes");
  }

  /// Numbers along the cut axis that all ranks may have from the sizes of their shards, which are alike.
  [[nodiscard]] bool is_doubtful() const {
    if (!is_even(*lead().place)) return false;
    bool const moves =
        is_among(kind_.base,
                 "roll adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d "
                 "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d fft_irfft fft_fft fft_rfft");
    if (!kind_.is_part && !moves) return false;
    auto const n = local_extent();
    if (n == extent() || n == 0) return false;
    auto const doubtful = [&](std::int64_t value) {
      auto const size = std::abs(value);
      if (value < 0 && kind_.base != "roll") return false;
      return size > 1 && size < extent() && (n % size == 0 || size % n == 0 || std::abs(size - n) <= 2);
    };
    auto const& schema = call_.op.schema();
    for (std::size_t i = 0; i < call_.arguments.size(); ++i) {
      auto const& name = schema.arguments()[i].name();
      if (is_among(name, "dim dims dim0 dim1 step norm")) continue;
      auto const& value = call_.arguments[i];
      if (value.isInt() && doubtful(value.toInt())) return true;
      if (value.isIntList())
        for (auto const one : value.toIntVector())
          if (doubtful(one)) return true;
    }
    return false;
  }

  OperatorCall const& call_;
  std::shared_ptr<ShardedModel> model_;
  OperatorKind const& kind_;
  std::vector<Shape> shapes_;
  std::vector<Placement> places_;
  std::vector<std::optional<Cut>> columns_;
  std::size_t lead_ = none;
  Values arguments_;
  Values results_;
  std::vector<Shape> result_shapes_;
  std::string text_;
  std::shared_ptr<PlannedOperator> result_;
};

void add_integers(std::string& key, at::IntArrayRef numbers) {
  key.append(reinterpret_cast<char const*>(numbers.data()), numbers.size() * sizeof(std::int64_t));
}

void add_cut(std::string& key, Cut const& cut) {
  add_integers(key, {cut.axis, cut.period});
  add_integers(key, cut.bounds);
}

}  // namespace

OperatorKind const& kind_of(c10::OperatorHandle const& op) {
  static std::mutex mutex;
  static auto* const kinds = new std::unordered_map<c10::FunctionSchema const*, std::unique_ptr<OperatorKind>>;
  std::lock_guard const lock(mutex);
  auto& kind = (*kinds)[&op.schema()];
  if (!kind) kind = std::make_unique<OperatorKind>(make_kind(op));
  return *kind;
}

bool is_even(Cut const& cut) {
  auto const& bounds = cut.bounds;
  for (std::size_t p = 2; p < bounds.size(); ++p)
    if (bounds[p] - bounds[p - 1] != bounds[1] - bounds[0]) return false;
  return bounds.size() > 2;
}

bool draws(OperatorKind const& kind, c10::OperatorHandle const& op, Values const& arguments) {
  if (kind.role != OperatorRole::random) return false;
  auto train = op.schema().argumentIndexWithName("train");
  if (!train) train = op.schema().argumentIndexWithName("training");
  return !train || !arguments[std::size_t(*train)].isBool() || arguments[std::size_t(*train)].toBool();
}

std::vector<torch::Tensor> leaves_of(Values const& arguments) {
  std::vector<torch::Tensor> leaves;
  for_each_tensor(arguments, [&](torch::Tensor const& t) {
    if (index_in(leaves, t) == leaves.size()) leaves.push_back(t);
  });
  return leaves;
}

std::size_t index_in(std::vector<torch::Tensor> const& leaves, torch::Tensor const& t) {
  return std::size_t(std::find_if(leaves.begin(), leaves.end(), [&](auto const& one) { return one.is_same(t); }) -
                     leaves.begin());
}

void add_leaf_to_key(std::string& key, torch::Tensor const& t, Mark const* mark) {
  key += char('a' + int(t.scalar_type()) % 60);
  key += char('a' + int(t.device().type()) % 60);
  key += t.unsafeGetTensorImpl()->is_wrapped_number() ? 'w' : t.layout() == torch::kStrided ? '-' : 'l';
  add_integers(key, t.sizes());
  key += '|';
  if (!mark) return;
  key += char('0' + int(mark->kind));
  key += mark->is_random ? 'r' : '-';
  key += mark->is_input ? 'i' : '-';
  add_integers(key, mark->shape);
  if (mark->place) add_cut(key, *mark->place);
  if (mark->columns) add_cut(key, *mark->columns);
}

Values PlannedOperator::nothing(torch::Device device) const {
  OwnCode const own;
  std::vector<torch::Tensor> tensors;
  for (std::size_t k = 0; k < marks.size(); ++k)
    tensors.push_back(torch::zeros(marks[k].shape, torch::dtype(dtypes.at(k)).device(device)));
  return in_structure(std::move(tensors));
}

Values PlannedOperator::run(std::vector<torch::Tensor> const& leaves) const {
  OwnCode const own;
  auto tensors = placed->run(leaves);
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    auto& t = tensors[k];
    if (k < dtypes.size() && t.scalar_type() != dtypes[k]) t = t.to(dtypes[k]);
    if (index_in(leaves, t) < leaves.size()) t = t.view_as(t);
  }
  return in_structure(std::move(tensors));
}

Values PlannedOperator::in_structure(std::vector<torch::Tensor> tensors) const {
  Values results;
  std::size_t k = 0;
  for (auto const& length : structure) {
    if (!length) {
      results.emplace_back(tensors.at(k++));
      continue;
    }
    c10::List<torch::Tensor> all;
    for (std::size_t i = 0; i < *length; ++i) all.push_back(tensors.at(k++));
    results.emplace_back(all);
  }
  return results;
}

std::shared_ptr<PlannedOperator> planned_operator(OperatorCall const& call) { return Planner(call).run(); }

std::shared_ptr<PlannedOperator> planned_move(torch::Tensor const& x, Mark const& mark, Cut const& to,
                                              std::shared_ptr<ShardedModel> const& model) {
  static auto const clone = c10::Dispatcher::singleton().findSchemaOrThrow("aten::clone", "");
  auto result = std::make_shared<PlannedOperator>();
  OwnCode const own;
  auto const fake = torch::empty(mark.shape, torch::dtype(x.scalar_type()).device(torch::kMeta));
  auto const text = graph_text(clone, {x, c10::IValue()}, {{mark.shape, x.scalar_type()}},
                               [](torch::Tensor const&) { return std::size_t(0); }, {fake});
  program::PlacedCallOptions options;
  options.name = "a move of rows";
  options.inputs = {mark.place};
  options.outputs = {Placement(to)};
  options.device = x.device();
  result->placed = std::make_shared<program::PlacedCall>(text, model->domain, std::move(options));
  result->structure = {std::nullopt};
  result->dtypes = {x.scalar_type()};
  Mark moved = mark;
  moved.kind = Mark::Kind::cut;
  moved.place = to;
  result->marks = {moved};
  return result;
}

}  // namespace graticule::nn::detail
