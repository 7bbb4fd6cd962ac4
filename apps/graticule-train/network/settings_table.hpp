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

  visit(
      SettingRow{"--model", "Network", always,
                 "Network.\n"
                 "convnet: residual convolutions\n"
                 "sfno: global convolutions on the sphere, by spherical harmonics\n"
                 "unet: residual convolutions on several grids\n"
                 "window: attention in shifted windows\n"
                 "FILE.pt2: a network exported by PyTorch, which is trained further and written to network.pt2 in the "
                 "output folder"},
      model, ModelOrFile{});
  visit(SettingRow{"--channels", "Network", always, "Channels of the hidden layers"}, channels, IntegerRange{1, many});
  visit(SettingRow{"--blocks", "Network", always,
                   "Residual blocks, or blocks of sfno and window; of unet the number of grids, each with half the "
                   "resolution of the one before"},
        blocks, IntegerRange{0, many});
  visit(SettingRow{"--kernel", "Network", always, "Kernel size of the convolutions, in cells"}, kernel, OddKernel{});

  visit(SettingRow{"--batch", "Training", always, "Samples per optimizer step, over all data teams"}, batch,
        IntegerRange{1, many});
  visit(SettingRow{"--lr", "Training", always, "Largest learning rate, which --schedule changes in time"},
        learning_rate, LearningRate{});
  visit(SettingRow{"--schedule", "Training", always,
                   "Learning rate after the warm-up.\n"
                   "cosine, linear: it falls to 0 at the end of the training\n"
                   "constant: it stays\n"
                   "steps, exponential: it falls to a tenth in each third of the training, at once or steadily"},
        schedule, Names{schedule_names});
  visit(SettingRow{"--warmup-steps", "Training", always,
                   "Steps at the beginning in which the learning rate rises to --lr.\n"
                   "-1: a twentieth of all steps"},
        warmup_steps, IntegerRange{-1, 1'000'000'000});
  // Where no step depends on the length of the training, it may be extended.
  visit(SettingRow{"--epochs", "Training",
                   [](S s) { return s.schedule != "constant" || s.warmup_steps < 0 || s.parallel == Parallel::daso; },
                   "Passes over the training samples"},
        epochs, IntegerRange{1, many});
  visit(SettingRow{"--validate-every", "Training", always,
                   "Epochs between validations; their losses are written to validation.csv.\n"
                   "0: only at the end"},
        validate_every, IntegerRange{0, many});
  visit(SettingRow{"--early-stopping", "Training", always,
                   "Stop after so many validations in a row without a lower loss, with the last weights. Implies "
                   "--validate-every 1 unless that is given.\n"
                   "0: never"},
        patience, IntegerRange{0, many});
  visit(SettingRow{"--loss", "Training", [](S s) { return s.loss != LossKind::mse; },
                   "Error to minimise, a mean over the area of the globe, in units of the standard deviation of each "
                   "variable.\n"
                   "mse: squared error\n"
                   "mae: absolute error\n"
                   "huber: squared error up to 1, absolute error beyond\n"
                   "spectral: squared errors of cells and of the amplitudes of waves along rows\n"
                   "crps: with --lead, the CRPS of an ensemble of --members forecasts"},
        loss, ItsNames{});
  visit(SettingRow{"--spectral-weight", "Training", [](S s) { return s.loss == LossKind::spectral; },
                   "With --loss spectral: weight of the amplitudes"},
        spectral_weight, RealRange{0, 1e6});
  visit(SettingRow{"--optimizer", "Training", [](S s) { return s.optimizer != OptimizerKind::adam; },
                   "Optimizer.\n"
                   "adam: Adam; adamw: Adam with decoupled weight decay; sgd: gradient descent with momentum 0.9"},
        optimizer, ItsNames{});
  visit(
      SettingRow{"--weight-decay", "Training", [](S s) { return s.weight_decay > 0; }, "Weight decay of the optimizer"},
      weight_decay, RealRange{0, 1e9, ">= 0"});
  visit(SettingRow{"--clip", "Training", [](S s) { return s.clip > 0; },
                   "Largest norm of all gradients together; larger ones are scaled down to it.\n"
                   "0: no limit"},
        clip, RealRange{0, 1e9, ">= 0"});
  visit(
      SettingRow{"--accumulate", "Training", never,
                 "To save memory, divide each batch into so many parts, which are computed one after the other; their "
                 "gradients are added, so that the results are those of the whole batch"},
      accumulate, IntegerRange{1, many});
  visit(SettingRow{"--ema", "Training", [](S s) { return s.ema > 0; },
                   "Validate and predict with a running average of the parameters: after each step it becomes X times "
                   "itself plus 1 - X times the parameters, such as 0.99.\n"
                   "0: no average, the parameters themselves"},
        ema, RealRange{0, 0.999999});
  visit(SettingRow{"--seed", "Training", always, "Seed of the initial weights and of the order of samples"}, seed,
        AnyInteger{});
  visit(SettingRow{"--dtype", "Training", always, "Data type of parameters, optimizer and loss"}, precision,
        ItsNames{});
  visit(SettingRow{"--precision", "Training", [](S s) { return s.compute != Compute::own; },
                   "Precision of the network's operations.\n"
                   "own: that of --dtype\n"
                   "bf16: lower precision, with half the memory for activations; parameters, optimizer and loss keep "
                   "--dtype"},
        compute, ItsNames{});

  visit(
      SettingRow{"--parallel", "Partition", in_daso,
                 "How data teams (--data-teams) combine what they learn.\n"
                 "blocking: gradients are added during the backward, and complete at its end\n"
                 "nonblocking: the same results; gradients are waited for as late as possible\n"
                 "daso: for slow connections between nodes, with other results: teams of a node add gradients in every "
                 "step, nodes average their parameters every few steps, without waiting"},
      parallel, ItsNames{});
  visit(SettingRow{"--daso-warmup", "Partition", in_daso,
                   "With --parallel daso: epochs at the beginning in which nodes average after every step.\n"
                   "-1: a third of all, at most 4"},
        daso_warmup, IntegerRange{-1, many});
  visit(SettingRow{"--daso-cooldown", "Partition", in_daso,
                   "With --parallel daso: epochs at the end in which nodes average after every step.\n"
                   "-1: a third of all, at most 4"},
        daso_cooldown, IntegerRange{-1, many});
  visit(SettingRow{"--daso-max-skip", "Partition", in_daso,
                   "With --parallel daso: most steps between two averages, in the epochs in between"},
        daso_max_skip, IntegerRange{1, many});
  visit(SettingRow{"--daso-node-teams", "Partition", never,
                   "With --parallel daso: number of data teams that count as one node.\n"
                   "0: those on the same machine"},
        daso_teams_per_node, IntegerRange{0, many});
  visit(
      SettingRow{
          "--shard-parameters", "Partition", never,
          "To save memory, keep only a part of parameters, gradients and optimizer state on each rank; each layer "
          "is gathered when it runs. Results do not change.\n"
          "domain: divided among the ranks that share a sample\n"
          "data: divided among the ranks with the same rows of different samples (--data-teams)\n"
          "all: divided among all ranks; also --shard-parameters alone\n"
          "none: whole on every rank, the default"},
      shards, ItsNames{});
  visit(SettingRow{"--wire", "Partition", always,
                   "Data type of gradients in messages.\n"
                   "own: that of --dtype\n"
                   "bf16, f16: rounded, with half the bytes; sums are computed in f32"},
        wire, ItsNames{});
}

}  // namespace graticule::train
