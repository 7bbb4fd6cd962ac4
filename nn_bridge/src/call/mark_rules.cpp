// SPDX-License-Identifier: BSD-3-Clause
#include "mark_rules.hpp"

#include <graticule/program/operators.hpp>

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <unordered_map>

namespace graticule::nn::detail {

enum class MarkRule : std::uint8_t {
  composed,     ///< calls other operators, which are examined
  unknown,      ///< refused on shards
  ignored,      ///< gives no tensor, or a constant one
  cellwise,     ///< cell by cell, with broadcasting
  permute,      ///< an order of axes
  view,         ///< the same cells under other sizes
  expand,       ///< aligned at the last axis
  unsqueeze,    ///< one more axis
  squeeze,      ///< fewer axes
  along,        ///< mixes the cells along `dim`
  part,         ///< takes a part of the cells along `dim`
  remove,       ///< takes one cell along `dim`
  reduce,       ///< over `dim`, or all axes
  loss,         ///< reduces all axes unless told otherwise
  join,         ///< one tensor behind the other along `dim`
  stack,        ///< along a new axis
  pad,          ///< the last axes
  repeat,       ///< whole copies
  product,      ///< of matrices
  linear,       ///< along the last axis
  layer_norm,   ///< over the last axes
  batch_norm,   ///< over all axes but one, while training
  convolution,  ///< cell by cell where its kernel is one cell
  embedding,    ///< a row of a table per cell
  attention,    ///< over the last two axes
  channels,     ///< mixes channels
  mixing,       ///< mixes cells
  indices,      ///< makes numbers by local index
  random,       ///< makes random numbers
  dropout,      ///< cell by cell, at random while training
};

namespace {

using at::Tensor;
using c10::IValue;
using Values = std::vector<IValue>;
using Rules = std::unordered_map<std::string_view, MarkRule>;

void add(Rules& rules, MarkRule rule, std::string_view names) {
  while (!names.empty()) {
    auto const end = std::min(names.find(' '), names.size());
    rules[names.substr(0, end)] = rule;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
}

/// By name, for operators that the table of programs (`program::operator_class`) does not call local.
Rules const& rules() {
  static Rules const table = [] {
    using enum MarkRule;
    Rules all;
    add(all, ignored,
        "item _local_scalar_dense is_nonzero equal allclose size stride numel sym_size sym_numel sym_stride "
        "requires_grad set_data _version result_type is_same_size _assert_async _assert_scalar "
        "_assert_tensor_metadata record_stream retain_grad is_pinned zeros_like ones_like empty_like full_like "
        "new_zeros new_ones new_empty new_full new_empty_strided empty zeros ones full scalar_tensor empty_strided "
        "is_floating_point is_complex is_signed is_set_to resize resize_as");
    add(all, permute, "permute transpose swapaxes swapdims t mT mH adjoint numpy_T");
    add(all, view, "view _unsafe_view reshape _reshape_alias flatten unflatten reshape_as view_as");
    add(all, expand, "expand expand_as broadcast_to");
    add(all, unsqueeze, "unsqueeze");
    add(all, squeeze, "squeeze");
    add(all, along,
        "softmax _softmax log_softmax _log_softmax _safe_softmax cumsum cumprod cummax cummin _cummax_helper "
        "_cummin_helper logcumsumexp sort argsort topk flip roll _fft_c2c _fft_r2c _fft_c2r gather index_select "
        "index_add index_copy index_fill index_reduce scatter scatter_add scatter_reduce renorm glu "
        "repeat_interleave take_along_dim");
    add(all, part,
        "narrow slice split split_with_sizes chunk tensor_split unsafe_split unsafe_split_with_sizes "
        "unsafe_chunk diff");
    add(all, remove, "select unbind");
    add(all, reduce,
        "sum mean nansum nanmean std var std_mean var_mean amax amin max min argmax argmin any all prod logsumexp "
        "norm linalg_vector_norm count_nonzero aminmax median nanmedian mode kthvalue");
    add(all, loss,
        "mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits "
        "soft_margin_loss kl_div poisson_nll_loss");
    add(all, join, "cat concat concatenate");
    add(all, stack, "stack");
    add(all, pad,
        "constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d "
        "replication_pad3d pad _pad_circular");
    add(all, repeat, "repeat");
    add(all, product, "mm bmm mv addmm baddbmm addmv dot vdot");
    add(all, linear, "linear");
    add(all, layer_norm, "layer_norm native_layer_norm rms_norm _fused_rms_norm");
    add(all, batch_norm, "batch_norm native_batch_norm _native_batch_norm_legit");
    add(all, convolution, "conv1d conv2d conv3d convolution _convolution");
    add(all, embedding, "embedding");
    add(all, attention,
        "scaled_dot_product_attention _scaled_dot_product_flash_attention_for_cpu "
        "_scaled_dot_product_attention_math");
    add(all, channels, "channel_shuffle native_channel_shuffle");
    add(all, mixing,
        "group_norm instance_norm adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d "
        "adaptive_max_pool2d adaptive_max_pool3d avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool3d "
        "max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices conv_transpose1d conv_transpose2d "
        "conv_transpose3d conv_tbc im2col col2im unfold upsample_nearest1d upsample_nearest2d upsample_nearest3d "
        "upsample_linear1d upsample_bilinear2d upsample_bicubic2d upsample_trilinear3d _upsample_nearest_exact1d "
        "_upsample_nearest_exact2d _upsample_nearest_exact3d grid_sampler tril triu pixel_shuffle pixel_unshuffle");
    add(all, indices, "arange linspace logspace range eye tril_indices triu_indices");
    add(all, random,
        "rand randn randint randperm rand_like randn_like randint_like bernoulli normal uniform exponential random "
        "cauchy log_normal geometric poisson multinomial");
    add(all, dropout,
        "dropout native_dropout feature_dropout alpha_dropout feature_alpha_dropout rrelu _fused_dropout");
    return all;
  }();
  return table;
}

/// `add` of `aten::add_`; `and` of `aten::__iand__`.
std::string base_of(std::string name) {
  if (auto const colons = name.rfind("::"); colons != std::string::npos) name.erase(0, colons + 2);
  if (name.starts_with("__") && name.ends_with("__")) {
    name = name.substr(2, name.size() - 4);
    if (name.size() > 2 && name.front() == 'i') name.erase(0, 1);
    return "bitwise_" + (name == "lshift" ? "left_shift" : name == "rshift" ? "right_shift" : name);
  }
  if (name.size() > 1 && name.ends_with('_')) name.pop_back();
  return name;
}

MarkRule rule_of(c10::OperatorHandle const& handle) {
  auto const& schema = handle.schema();
  auto const base = base_of(schema.name());
  if (!schema.name().starts_with("aten::")) return MarkRule::unknown;
  bool const has_other = schema.argumentIndexWithName("other").has_value();
  if ((base == "max" || base == "min") && has_other) return MarkRule::cellwise;
  if (auto const found = rules().find(base); found != rules().end()) return found->second;
  if (program::operator_class("aten." + base + ".default") == program::OperatorClass::local) return MarkRule::cellwise;
  return handle.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) ? MarkRule::composed
                                                                                     : MarkRule::unknown;
}

MarkText text_of(std::string const& text) { return std::make_shared<std::string const>(text); }

std::string axes_name(std::uint8_t bits) { return bits == 1 ? "rows" : bits == 2 ? "columns" : "rows and columns"; }

/// One call, and the mark of one of its results.
class Calculation {
 public:
  Calculation(OperatorInfo const& op, std::string const& place, Values const& inputs, Tensor const& result,
              MarkOf const& mark_of)
      : op_(op), called_(op.name + place), inputs_(inputs), result_(result) {
    for (auto const& input : inputs)
      for_each_tensor(input, [&](Tensor const& t) {
        auto const* const mark = mark_of(t);
        tensors_.push_back({t, mark});
        if (!mark) return;
        if (mark->wrong) out_.wrong = mark->wrong;
        if (mark->partial) {
          out_.partial = mark->partial;
          out_.partial_along |= mark->partial_along;
        }
        if (mark->local) {
          out_.local = mark->local;
          out_.is_random = mark->is_random;
        }
        if (mark->domain) out_.domain = mark->domain;
        if (!first_.mark && mark->is_cut()) first_ = tensors_.back();
      });
  }

  Mark run() {
    out_.cut.assign(std::size_t(result_.dim()), 0);
    if (op_.rule == MarkRule::indices || op_.rule == MarkRule::random) {
      make_local();
    } else if (first_.mark || op_.rule == MarkRule::cellwise) {
      apply();
    }
    if (out_.wrong) out_.partial = nullptr;
    // Weights by index, or along axes that are not cut, are right.
    if (out_.wrong || out_.is_cut()) out_.local = nullptr;
    // A part of numbers for the whole field.
    if (op_.rule == MarkRule::part || op_.rule == MarkRule::remove) out_.local = nullptr;
    return out_;
  }

 private:
  struct Operand {
    Tensor tensor;
    Mark const* mark = nullptr;
  };

  void apply() {
    switch (op_.rule) {
      case MarkRule::cellwise: return broadcast();
      case MarkRule::dropout: return at_random();
      case MarkRule::permute: return permute();
      case MarkRule::view: return view();
      case MarkRule::expand:
      case MarkRule::repeat: return expand();
      case MarkRule::unsqueeze:
      case MarkRule::stack: return insert_axis();
      case MarkRule::squeeze:
      case MarkRule::remove: return remove_axes();
      case MarkRule::along: return keep_along(true);
      case MarkRule::part: return keep_along(false);
      case MarkRule::join: return join();
      case MarkRule::reduce: return reduce();
      case MarkRule::loss: return flag("reduction", 0) == 0 ? broadcast() : reduce_over(all_axes(first_.tensor));
      case MarkRule::pad: return pad();
      case MarkRule::product: return product();
      case MarkRule::linear: return linear();
      case MarkRule::layer_norm: return layer_norm();
      case MarkRule::batch_norm: return batch_norm();
      case MarkRule::convolution: return convolution();
      case MarkRule::embedding: return embedding();
      case MarkRule::attention: return attention();
      case MarkRule::channels: keep(); return cut_along(1) ? mixes(cut_along(1)) : void();
      case MarkRule::mixing: return mixes(cut_along(all_axes(first_.tensor)));
      default: return wrong("is not known to act cell by cell");
    }
  }

  void wrong(std::string const& why) {
    if (!out_.wrong) out_.wrong = text_of(called_ + " " + why);
  }
  void mixes(std::uint8_t bits) { wrong("mixes cells along " + axes_name(bits) + ", which are cut"); }

  [[nodiscard]] IValue const* argument(std::string_view name) const {
    auto const found = std::find(op_.arguments.begin(), op_.arguments.end(), name);
    auto const at = std::size_t(found - op_.arguments.begin());
    return found == op_.arguments.end() || at >= inputs_.size() ? nullptr : &inputs_[at];
  }
  [[nodiscard]] std::vector<std::int64_t> integers(std::string_view name) const {
    auto const* const value = argument(name);
    std::vector<std::int64_t> result;
    if (!value) return result;
    if (value->isInt()) result.push_back(value->toInt());
    if (value->isIntList()) result = value->toIntVector();
    return result;
  }
  [[nodiscard]] std::int64_t flag(std::string_view name, std::int64_t otherwise) const {
    auto const* const value = argument(name);
    if (value && value->isBool()) return value->toBool() ? 1 : 0;
    return value && value->isInt() ? value->toInt() : otherwise;
  }
  /// Axes counted from the first.
  [[nodiscard]] static std::vector<std::size_t> wrapped(std::vector<std::int64_t> const& axes, std::int64_t ndim) {
    std::vector<std::size_t> result;
    for (auto const axis : axes)
      if (axis >= -ndim && axis < ndim) result.push_back(std::size_t(axis < 0 ? axis + ndim : axis));
    return result;
  }
  [[nodiscard]] static std::vector<std::size_t> all_axes(Tensor const& t) {
    std::vector<std::size_t> result(std::size_t(t.dim()));
    std::iota(result.begin(), result.end(), std::size_t(0));
    return result;
  }
  /// Of the arguments `dim`, `dims` and `dim0`, `dim1`; all where there are none.
  [[nodiscard]] std::vector<std::size_t> axes_of(Tensor const& t) const {
    std::vector<std::int64_t> axes;
    for (auto const* const name : {"dim", "dims", "dim0", "dim1", "axis0", "axis1"})
      for (auto const axis : integers(name)) axes.push_back(axis);
    return axes.empty() ? all_axes(t) : wrapped(axes, t.dim());
  }
  [[nodiscard]] std::uint8_t cut_along(std::size_t axis) const {
    return axis < first_.mark->cut.size() ? first_.mark->cut[axis] : std::uint8_t(0);
  }
  [[nodiscard]] std::uint8_t cut_along(std::vector<std::size_t> const& axes) const {
    std::uint8_t bits = 0;
    for (auto const axis : axes) bits |= cut_along(axis);
    return bits;
  }
  /// The cuts of the first shard, where the result has as many axes.
  void keep() {
    if (out_.cut.size() == first_.mark->cut.size()) out_.cut = first_.mark->cut;
  }

  void make_local() {
    if (op_.rule == MarkRule::random && argument("out") == nullptr && result_.numel() == 0) return;
    out_.local = text_of(called_);
    out_.is_random = op_.rule == MarkRule::random;
  }

  void broadcast() {
    auto const ndim = std::int64_t(out_.cut.size());
    std::uint8_t shards = 0;
    for (auto const& [t, mark] : tensors_) {
      if (!mark || !mark->is_cut()) continue;
      // view_as_real has one axis more behind the others, view_as_complex one less.
      bool const in_front = op_.name.find("view_as_") != std::string::npos;
      auto const shift = in_front ? 0 : ndim - t.dim();
      std::uint8_t own = 0;
      std::uint8_t met = 0;
      std::uint8_t before = 0;
      for (auto const bits : out_.cut) before |= bits;
      for (std::size_t a = 0; a < mark->cut.size(); ++a) {
        auto const to = std::int64_t(a) + shift;
        if (!mark->cut[a] || to < 0 || to >= ndim) continue;
        own |= mark->cut[a];
        met |= out_.cut[std::size_t(to)] & mark->cut[a];
        out_.cut[std::size_t(to)] |= mark->cut[a];
      }
      if (std::uint8_t const apart = before & own & ~met; apart)
        wrong("combines cells of one place in " + axes_name(apart) + " with those of another");
      if (!mark->partial) shards |= own;
    }
    if (out_.partial && (out_.partial_along & shards))
      out_.wrong = text_of(*out_.partial + " reduces the cells of this rank alone, and " + called_ +
                           " combines the result with cells");
    if (out_.local && shards) combine_with_local();
  }
  /// Numbers by index along a cut axis; random ones that all cells along it share, so that ranks must draw the same.
  void combine_with_local() {
    for (auto const& [t, mark] : tensors_) {
      if (!mark || !mark->local) continue;
      auto const shift = std::int64_t(out_.cut.size()) - t.dim();
      bool differs = mark->is_random;
      for (std::int64_t a = 0; a < t.dim(); ++a) {
        if (!out_.cut[std::size_t(a + shift)]) continue;
        differs = mark->is_random ? differs && t.size(a) == 1 : differs || t.size(a) > 1;
      }
      if (!differs) continue;
      out_.wrong = text_of(*mark->local +
                           (mark->is_random ? " draws random numbers that differ between ranks"
                                            : " counts the cells of this rank alone") +
                           ", and " + called_ + " combines them with cells");
    }
  }
  void at_random() {
    broadcast();
    auto const* const p = argument("p");
    bool const never = p && p->isDouble() && p->toDouble() == 0;
    bool const training = flag("train", flag("training", 1)) != 0;
    if (training && !never) wrong("draws random numbers by shard, not by global cell");
  }

  void permute() {
    auto const& cut = first_.mark->cut;
    auto const ndim = std::int64_t(cut.size());
    std::vector<std::size_t> order(cut.size());
    std::iota(order.begin(), order.end(), std::size_t(0));
    auto const given = axes_of(first_.tensor);
    if (op_.name == "aten::permute")
      order = wrapped(integers("dims"), ndim);
    else if (op_.name == "aten::numpy_T")
      std::reverse(order.begin(), order.end());
    else if (given.size() == 2 && op_.arguments.size() == 3)
      std::swap(order[given[0]], order[given[1]]);
    else if (ndim >= 2)
      std::swap(order[order.size() - 1], order[order.size() - 2]);
    for (std::size_t a = 0; a < order.size() && a < out_.cut.size(); ++a) out_.cut[a] = cut[order[a]];
  }

  /// Groups of axes with as many cells on both sides. Axes that are split from a cut one count as cut.
  void view() {
    auto const from = first_.tensor.sizes();
    auto const to = result_.sizes();
    if (first_.tensor.numel() == 0) {
      for (std::size_t b = 0; b < to.size(); ++b)
        if (to[b] == 0) out_.cut[b] = cut_along(all_axes(first_.tensor));
      return;
    }
    std::size_t a = 0;
    std::size_t b = 0;
    while (a < from.size() || b < to.size()) {
      auto const a0 = a;
      auto const b0 = b;
      std::int64_t cells = a < from.size() ? from[a++] : 1;
      std::int64_t wanted = b < to.size() ? to[b++] : 1;
      while (cells != wanted && (cells < wanted ? a < from.size() : b < to.size()))
        if (cells < wanted)
          cells *= from[a++];
        else
          wanted *= to[b++];
      std::uint8_t bits = 0;
      for (auto i = a0; i < a; ++i) bits |= cut_along(i);
      if (!bits || to.empty()) continue;
      auto const last = std::max(b, b0 + 1);
      bool const many = last - b0 > 1;
      for (auto i = std::min(b0, to.size() - 1); i < std::min(last, to.size()); ++i)
        if (!many || to[i] > 1) out_.cut[i] |= bits;
    }
  }

  void expand() {
    auto const shift = std::int64_t(out_.cut.size()) - first_.tensor.dim();
    for (std::size_t a = 0; a < first_.mark->cut.size(); ++a) {
      auto const to = std::int64_t(a) + shift;
      if (to < 0 || !first_.mark->cut[a]) continue;
      out_.cut[std::size_t(to)] = first_.mark->cut[a];
      if (op_.rule == MarkRule::repeat && result_.size(to) != first_.tensor.size(std::int64_t(a)))
        mixes(first_.mark->cut[a]);
    }
  }

  void insert_axis() {
    auto const ndim = first_.tensor.dim() + 1;
    auto const at = wrapped({flag("dim", 0)}, ndim);
    for (auto const& [t, mark] : tensors_)
      for (std::size_t a = 0; mark && a < mark->cut.size() && t.dim() + 1 == std::int64_t(out_.cut.size()); ++a)
        out_.cut[a + (!at.empty() && a >= at[0] ? 1 : 0)] |= mark->cut[a];
    if (op_.rule == MarkRule::stack) check_joined();
  }

  void remove_axes() {
    auto axes = op_.rule == MarkRule::squeeze || argument("dim") ? axes_of(first_.tensor) : std::vector<std::size_t>{0};
    if (op_.rule == MarkRule::squeeze)
      std::erase_if(axes, [&](std::size_t axis) { return first_.tensor.size(std::int64_t(axis)) != 1; });
    if (auto const bits = cut_along(axes)) mixes(bits);
    drop(axes);
  }
  /// The cuts without those of `axes`.
  void drop(std::vector<std::size_t> const& axes) {
    std::size_t to = 0;
    for (std::size_t a = 0; a < first_.mark->cut.size(); ++a)
      if (std::find(axes.begin(), axes.end(), a) == axes.end() && to < out_.cut.size())
        out_.cut[to++] = first_.mark->cut[a];
  }

  void keep_along(bool mixing) {
    bool const named = argument("dim") || argument("dims");
    auto const axes = named || mixing ? axes_of(first_.tensor) : std::vector<std::size_t>{0};
    keep();
    for (auto const axis : axes) {
      bool const whole = !mixing && std::int64_t(axis) < result_.dim() &&
                         result_.size(std::int64_t(axis)) == first_.tensor.size(std::int64_t(axis));
      if (cut_along(axis) && !whole) mixes(cut_along(axis));
    }
  }

  void join() {
    auto const at = wrapped({flag("dim", 0)}, result_.dim());
    for (auto const& [t, mark] : tensors_)
      for (std::size_t a = 0; mark && a < mark->cut.size() && a < out_.cut.size(); ++a) {
        out_.cut[a] |= mark->cut[a];
        if (mark->cut[a] && !at.empty() && a == at[0]) mixes(mark->cut[a]);
      }
    check_joined();
  }
  void check_joined() {
    if (out_.partial)
      for (auto const bits : out_.cut)
        if (bits & out_.partial_along)
          out_.wrong = text_of(*out_.partial + " reduces the cells of this rank alone, and " + called_ +
                               " joins the result to cells");
  }

  void reduce() { reduce_over(axes_of(first_.tensor)); }
  void reduce_over(std::vector<std::size_t> const& axes) {
    auto const bits = cut_along(axes);
    if (std::int64_t(out_.cut.size()) == first_.tensor.dim()) {
      keep();
      for (auto const axis : axes) out_.cut[axis] = 0;
    } else {
      drop(axes);
    }
    reduced(bits);
  }

  void reduced(std::uint8_t bits) {
    if (!bits) return;
    out_.partial = text_of(called_);
    out_.partial_along |= bits;
  }

  void pad() {
    keep();
    auto widths = integers("pad");
    if (widths.empty()) widths = integers("padding");
    auto const ndim = out_.cut.size();
    for (std::size_t i = 0; i < widths.size() && i / 2 < ndim; ++i)
      if (auto const bits = out_.cut[ndim - 1 - i / 2]; widths[i] != 0 && bits) mixes(bits);
  }

  void product() {
    auto const is_bias = op_.name.find("add") != std::string::npos;
    std::size_t const left = is_bias ? 1 : 0;
    if (tensors_.size() < left + 2) return wrong("is not known to act cell by cell");
    auto const cut = [&](Operand const& t, std::int64_t from_last) -> std::uint8_t {
      auto const axis = t.tensor.dim() - from_last;
      return t.mark && axis >= 0 && t.mark->is_cut() ? t.mark->cut[std::size_t(axis)] : std::uint8_t(0);
    };
    auto const& a = tensors_[left];
    auto const& b = tensors_[left + 1];
    bool const vector = b.tensor.dim() == 1;
    reduced(std::uint8_t(cut(a, 1) | cut(b, vector ? 1 : 2)));
    auto const rows = cut(a, 2);
    auto const columns = vector ? std::uint8_t(0) : cut(b, 1);
    if (rows & columns) mixes(rows & columns);
    if (is_bias && tensors_[0].mark && tensors_[0].mark->is_cut()) broadcast();
    auto const ndim = out_.cut.size();
    if (vector) {
      if (ndim >= 1) out_.cut[ndim - 1] |= rows;
    } else if (ndim >= 2) {
      out_.cut[ndim - 2] |= rows;
      out_.cut[ndim - 1] |= columns;
      if (ndim == 3) out_.cut[0] |= cut(a, 3) | cut(b, 3);
    }
  }

  void linear() {
    keep();
    auto const last = std::size_t(first_.tensor.dim() - 1);
    if (!tensors_.front().mark || !tensors_.front().mark->is_cut()) return wrong("takes cells for weights");
    if (auto const bits = cut_along(last)) mixes(bits);
    if (!out_.cut.empty()) out_.cut.back() = 0;
  }

  void layer_norm() {
    keep();
    auto const num_axes = integers("normalized_shape").size();
    std::uint8_t bits = 0;
    for (std::size_t i = 1; i <= num_axes && i <= first_.mark->cut.size(); ++i)
      bits |= first_.mark->cut[first_.mark->cut.size() - i];
    if (bits) mixes(bits);
  }

  void batch_norm() {
    keep();
    if (flag("training", flag("train", 1))) mixes(cut_along(all_axes(first_.tensor)));
  }

  void convolution() {
    keep();
    auto const* const weight = argument("weight");
    auto const is = [](std::vector<std::int64_t> const& values, std::int64_t number) {
      return std::all_of(values.begin(), values.end(), [&](auto value) { return value == number; });
    };
    bool one_cell = weight && weight->isTensor() && tensors_.front().mark && tensors_.front().mark->is_cut() &&
                    is(integers("stride"), 1) && is(integers("padding"), 0) && is(integers("output_padding"), 0) &&
                    !(argument("padding") && argument("padding")->isString());
    if (one_cell) one_cell = is(weight->toTensor().sizes().slice(2).vec(), 1);
    if (!one_cell) mixes(cut_along(all_axes(first_.tensor)));
  }

  void embedding() {
    for (std::size_t a = 0; a < first_.mark->cut.size() && a < out_.cut.size(); ++a) out_.cut[a] = first_.mark->cut[a];
    if (tensors_.front().mark && tensors_.front().mark->is_cut()) wrong("takes cells for a table");
  }

  void attention() {
    keep();
    std::uint8_t bits = 0;
    for (std::size_t i = 0; i < tensors_.size() && i < 3; ++i)
      for (std::size_t last = 1; tensors_[i].mark && last <= 2 && last <= tensors_[i].mark->cut.size(); ++last)
        bits |= tensors_[i].mark->cut[tensors_[i].mark->cut.size() - last];
    if (bits) mixes(bits);
  }

  OperatorInfo const& op_;
  std::string called_;  ///< its name and where it was called
  Values const& inputs_;
  Tensor const& result_;
  std::vector<Operand> tensors_;
  Operand first_;  ///< the first shard
  Mark out_;
};

}  // namespace

bool Mark::is_cut() const noexcept {
  return std::any_of(cut.begin(), cut.end(), [](auto bits) { return bits != 0; });
}

bool OperatorInfo::makes_marks() const noexcept { return rule == MarkRule::indices || rule == MarkRule::random; }
bool OperatorInfo::is_ignored() const noexcept { return rule == MarkRule::ignored; }
bool OperatorInfo::is_composed() const noexcept { return rule == MarkRule::composed; }

OperatorInfo const& operator_info(at::RecordFunction const& call) {
  // Names of operators stay where they are.
  static thread_local std::unordered_map<char const*, OperatorInfo> known;
  static OperatorInfo const none{"", MarkRule::ignored, {}};
  if (auto const found = known.find(call.name()); found != known.end()) return found->second;
  auto const name = call.operator_name();
  auto const handle = name ? c10::Dispatcher::singleton().findSchema(*name) : std::nullopt;
  if (!handle) return none;
  OperatorInfo info{handle->schema().name(), rule_of(*handle), {}};
  for (auto const& argument : handle->schema().arguments()) info.arguments.push_back(argument.name());
  return known.emplace(call.name(), std::move(info)).first->second;
}

void for_each_tensor(c10::IValue const& value, std::function<void(at::Tensor const&)> const& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isList()) {
    if (value.isIntList() || value.isDoubleList() || value.isBoolList()) return;
    for (IValue const& element : value.toListRef()) for_each_tensor(element, visit);
  } else if (value.isTuple()) {
    for (auto const& element : value.toTupleRef().elements()) for_each_tensor(element, visit);
  }
}

Mark result_mark(OperatorInfo const& op, std::string const& place, std::vector<c10::IValue> const& inputs,
                 at::Tensor const& result, MarkOf const& mark_of) {
  return Calculation(op, place, inputs, result, mark_of).run();
}

}  // namespace graticule::nn::detail
