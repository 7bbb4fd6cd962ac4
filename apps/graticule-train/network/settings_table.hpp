// SPDX-License-Identifier: BSD-3-Clause
// The table of the options that make up `NetworkSettings`: the command line, its help and the settings that a resumed
// training is compared by are read from it.
#pragma once

#include "trained_network.hpp"

#include <array>

namespace graticule::train {

struct SettingRow {
  char const* option;
  char const* group;  ///< in --help
  /// Whether a checkpoint of these settings names the option: a training that is resumed must have the same value.
  bool (*is_compared)(NetworkSettings const&);
  char const* help;
};

struct IntegerRange {
  Index lo;
  Index hi;
};
struct RealRange {
  double lo;
  double hi;
  char const* text = nullptr;  ///< instead of both
};
struct OddKernel {};     ///< an odd number from 1 to 31
struct LearningRate {};  ///< above 0, at most 1e6
struct AnyInteger {};
/// Of an enumeration with a table.
struct ItsNames {};
/// Names of a text.
struct Names {
  std::span<char const* const> all;
};
/// Name of a kind of network, or a file.
struct ModelOrFile {};

/// Whether an option may choose the value.
template <class Enum>
constexpr bool is_choice(Enum) noexcept {
  return true;
}
constexpr bool is_choice(training::Wire wire) noexcept { return enum_row(wire).of_gradients; }

inline constexpr std::array schedule_names{"cosine", "linear", "constant", "steps", "exponential"};

/// Calls `visit(row, member, limits)` for each setting. The order is that of --help.
template <class Settings, class Visit>
void visit_settings(Settings& settings, Visit const& visit) {
  using S = NetworkSettings const&;
  constexpr Index many = 1'000'000;
  constexpr auto always = [](S) { return true; };
  // Changes losses by rounding only, or not at all.
  constexpr auto never = [](S) { return false; };
  constexpr auto in_daso = [](S s) { return s.parallel == Parallel::daso; };
  // All members: with a new one this does not compile. `program` belongs to --model; the device is that of a rank.
  auto& [model, program, channels, blocks, kernel, epochs, batch, learning_rate, seed, precision, schedule,
         warmup_steps, validate_every, parallel, wire, compute, shards, daso, patience, loss, spectral_weight,
         optimizer, weight_decay, clip, accumulate, ema, device] = settings;
  auto& [daso_warmup, daso_cooldown, daso_max_skip, daso_teams_per_node] = daso;

  visit(SettingRow{"--model", "Network", always,
                   "Network: convnet (residual convolutions), unet (several grids), sfno (global convolutions on the "
                   "sphere), window (attention in shifted windows); or a network exported by PyTorch, which is trained "
                   "further and written to network.pt2 of the output folder"},
        model, ModelOrFile{});
  visit(SettingRow{"--channels", "Network", always, "Channels of the hidden layers"}, channels, IntegerRange{1, many});
  visit(SettingRow{"--blocks", "Network", always,
                   "Number of residual blocks; for unet the number of grids, each with half the resolution of the "
                   "previous one"},
        blocks, IntegerRange{0, many});
  visit(SettingRow{"--kernel", "Network", always, "Kernel size of the convolutions, in cells"}, kernel, OddKernel{});

  visit(SettingRow{"--batch", "Training", always, "Samples per optimizer step"}, batch, IntegerRange{1, many});
  visit(SettingRow{"--lr", "Training", always, "Maximum learning rate of the optimizer; see --schedule"}, learning_rate,
        LearningRate{});
  visit(SettingRow{"--schedule", "Training", always,
                   "Learning rate after the warm-up: cosine or linear (decrease to 0), constant, steps or exponential "
                   "(a factor of 0.1 per third of the training)"},
        schedule, Names{schedule_names});
  visit(SettingRow{"--warmup-steps", "Training", always,
                   "Warm-up steps, in which the learning rate increases; -1: a twentieth of all steps"},
        warmup_steps, IntegerRange{-1, 1'000'000'000});
  // Where no step depends on the length of the training, it may be extended.
  visit(SettingRow{"--epochs", "Training",
                   [](S s) { return s.schedule != "constant" || s.warmup_steps < 0 || s.parallel == Parallel::daso; },
                   "Passes over the training samples"},
        epochs, IntegerRange{1, many});
  visit(SettingRow{"--validate-every", "Training", always,
                   "Epochs between validations, whose losses are written to validation.csv; 0: only at the end"},
        validate_every, IntegerRange{0, many});
  visit(SettingRow{"--early-stopping", "Training", always,
                   "Stop after this many validations without a lower loss; 0: never. Without "
                   "--validate-every there is one validation per epoch"},
        patience, IntegerRange{0, many});
  visit(SettingRow{"--loss", "Training", [](S s) { return s.loss != LossKind::mse; },
                   "Error to minimise, in normalised units. mse: squared; mae: absolute; huber: "
                   "Huber's; spectral: squared, of cells and of the amplitudes of waves along rows; "
                   "crps: CRPS of an ensemble of forecasts (--members)"},
        loss, ItsNames{});
  visit(SettingRow{"--spectral-weight", "Training", [](S s) { return s.loss == LossKind::spectral; },
                   "Weight of the amplitudes in --loss spectral"},
        spectral_weight, RealRange{0, 1e6});
  visit(SettingRow{"--optimizer", "Training", [](S s) { return s.optimizer != OptimizerKind::adam; },
                   "Optimizer: adam, adamw (decoupled weight decay), or sgd with momentum 0.9"},
        optimizer, ItsNames{});
  visit(
      SettingRow{"--weight-decay", "Training", [](S s) { return s.weight_decay > 0; }, "Weight decay of the optimizer"},
      weight_decay, RealRange{0, 1e9, ">= 0"});
  visit(SettingRow{"--clip", "Training", [](S s) { return s.clip > 0; },
                   "Largest norm of the gradients, which are scaled down to it; 0: any"},
        clip, RealRange{0, 1e9, ">= 0"});
  visit(SettingRow{"--accumulate", "Training", never,
                   "Parts of a batch that are computed one after the other, to save memory. Their "
                   "gradients are added"},
        accumulate, IntegerRange{1, many});
  visit(SettingRow{"--ema", "Training", [](S s) { return s.ema > 0; },
                   "Validate and predict with a running average of the parameters. Its decay per "
                   "step, such as 0.99; 0: no average"},
        ema, RealRange{0, 0.999999});
  visit(SettingRow{"--seed", "Training", always, "Seed of the initial weights and of the order of samples"}, seed,
        AnyInteger{});
  visit(SettingRow{"--dtype", "Training", always, "Data type of parameters, optimizer and loss"}, precision,
        ItsNames{});
  visit(SettingRow{"--precision", "Training", [](S s) { return s.compute != Compute::own; },
                   "Precision of the network's operations. own: that of --dtype; bf16: rounded, "
                   "with half the memory for activations"},
        compute, ItsNames{});

  visit(SettingRow{"--parallel", "Partition", in_daso,
                   "How data teams add gradients. blocking: during the backward, complete at its "
                   "end; nonblocking: the same results, complete as late as possible; daso: for "
                   "slow networks between nodes. Teams of a node add gradients, nodes average "
                   "parameters at intervals, without waiting"},
        parallel, ItsNames{});
  visit(SettingRow{"--daso-warmup", "Partition", in_daso,
                   "With --parallel daso: first epochs in which nodes average after every step; -1: "
                   "a third of all, at most 4"},
        daso_warmup, IntegerRange{-1, many});
  visit(SettingRow{"--daso-cooldown", "Partition", in_daso,
                   "With --parallel daso: last epochs in which nodes average after every step; -1: "
                   "a third of all, at most 4"},
        daso_cooldown, IntegerRange{-1, many});
  visit(SettingRow{"--daso-max-skip", "Partition", in_daso,
                   "With --parallel daso: largest number of steps between averages"},
        daso_max_skip, IntegerRange{1, many});
  visit(SettingRow{"--daso-node-teams", "Partition", never,
                   "With --parallel daso: data teams that count as one node; 0: those on the same "
                   "machine"},
        daso_teams_per_node, IntegerRange{0, many});
  visit(SettingRow{"--shard-parameters", "Partition", never,
                   "Keep only a part of parameters, gradients and optimizer state on each rank, and "
                   "gather layers as they run. domain: divided among ranks that share one sample; "
                   "data: among ranks with the same rows; all: both. Results do not change"},
        shards, ItsNames{});
  visit(SettingRow{"--wire", "Partition", always,
                   "Data type of gradients in messages: own, bf16 or f16 (rounded, sums in f32)"},
        wire, ItsNames{});
}

}  // namespace graticule::train
