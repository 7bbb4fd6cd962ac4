// SPDX-License-Identifier: BSD-3-Clause
// Networks exported by PyTorch (torch.export.save) inside a simulation in C or Fortran: divided among the ranks, run on
// the model's own arrays, trained online, and saved for Python. Library graticule_c_nn, which needs LibTorch; the
// conventions are those of graticule.h.
//
//   gr_net_load(comm, "closure.pt2", NULL, &net);
//   gr_net_bind_input(net, "x", layout, 2, u_and_t);          // the model's arrays, with halos, where they are
//   gr_net_bind_output(net, NULL, layout, 1, &tendency);
//   for (...) gr_net_run(net);                                // once per time step
//
// - Rows of latitude are divided among the ranks. Where the caller's boxes are bands of whole circles of latitude, in
//   order of ranks, the network uses the caller's rows, and nothing is moved. Any other boxes are moved to bands and
//   back, by a plan that is made when an array is bound.
// - Inputs and outputs are fields if they have as many axes as the first input with at least three (or two, if none has
//   more), one less or one more; latitude and longitude are their last two axes. All others are whole, and the same, on
//   every rank.
// - Values are converted between the type of an array and that of the network.
// - Networks of graticule-train are read and run by `gr_forecaster_load` and `gr_forecaster_next`, with their scales,
//   history and forcings.
// - Every function with a `gr_net` or a `gr_optimizer` is collective unless it says otherwise, with the same arguments
//   except for arrays and boxes.
#ifndef GRATICULE_GRATICULE_NN_H
#define GRATICULE_GRATICULE_NN_H

#include <graticule/graticule.h>

#ifdef __cplusplus
extern "C" {
#endif

/// How an optimizer changes the parameters by their gradients.
typedef enum gr_optimizer_kind {
  GR_SGD = 0,   ///< stochastic gradient descent, with momentum where `momentum` is set
  GR_ADAM = 1,  ///< Adam
  GR_ADAMW = 2  ///< Adam with decoupled decay of weights
} gr_optimizer_kind;

typedef struct gr_net gr_net;                ///< an exported network, divided among the ranks
typedef struct gr_optimizer gr_optimizer;    ///< what changes the parameters of a network
typedef struct gr_forecaster gr_forecaster;  ///< a network of graticule-train, which steps states in time

/// How a network is run.
typedef struct gr_net_options {
  size_t size;             ///< sizeof(gr_net_options)
  int has_type;            ///< [flag] `type` is set; otherwise the network computes as it was exported
  gr_type type;            ///< real type to compute in: GR_F32, GR_F64 or GR_BF16
  int num_threads;         ///< threads of LibTorch on this rank; 0: OMP_NUM_THREADS, or this rank's part of the cores
  int dropout;             ///< [flag] dropout layers work in `gr_net_learn`; otherwise they are off
  int64_t largest_gather;  ///< bytes of a value that every rank may hold whole; 0: 4 GiB
  int evaluation;          ///< [flag] norms use their running statistics, as after model.eval(), in learning too
} gr_net_options;
#define GR_NET_OPTIONS_INIT GR_INITIAL(gr_net_options)

/// Rates of an optimizer. Where `has_NAME` is 0 the value is PyTorch's.
typedef struct gr_optimizer_options {
  size_t size;           ///< sizeof(gr_optimizer_options)
  double momentum;       ///< of GR_SGD
  int has_betas;         ///< [flag] `betas` is set; otherwise 0.9 and 0.999
  double betas[2];       ///< decay of the averages of GR_ADAM and GR_ADAMW
  double epsilon;        ///< of GR_ADAM and GR_ADAMW; 0: 1e-8
  int has_decay;         ///< [flag] `decay` is set; otherwise 0.01 for GR_ADAMW and 0 for the others
  double decay;          ///< decay of the weights
  double most_gradient;  ///< longer gradients (norm over all parameters) are shortened to it; 0: no limit
} gr_optimizer_options;
#define GR_OPTIMIZER_OPTIONS_INIT GR_INITIAL(gr_optimizer_options)

// --- Networks --------------------------------------------------------------------------------------------------------

/// Reads a network and divides it among the ranks of a communicator. Collective.
///
/// A network that cannot be divided, or has an operator that this library does not run, is refused here, on all ranks,
/// with the operator, its module, its line in the Python source, and advice: at the sizes that it was exported with.
GR_API gr_status gr_net_load(gr_comm const* comm,            // [in] communicator
                             char const* path,               // [in] file (.pt2)
                             gr_net_options const* options,  // [in] [optional] type, threads, limits
                             gr_net** net);                  // [out] network

/// Frees a network. Optimizers of it stay valid until they are freed.
GR_API gr_status gr_net_destroy(gr_net** net);  // [inout] network

/// Number of inputs. Not collective.
GR_API gr_status gr_net_num_inputs(gr_net const* net,  // [in] network
                                   int* num_inputs);   // [out] number of inputs

/// Number of outputs. Not collective.
GR_API gr_status gr_net_num_outputs(gr_net const* net,  // [in] network
                                    int* num_outputs);  // [out] number of outputs

/// Name of an input: that of the argument in Python. Not collective.
GR_API gr_status gr_net_input_name(gr_net const* net,   // [in] network
                                   int input,           // [in] [index] input
                                   char const** name);  // [out] name

/// Name of an output: that of its value in the exported graph. Not collective.
GR_API gr_status gr_net_output_name(gr_net const* net,   // [in] network
                                    int output,          // [in] [index] output
                                    char const** name);  // [out] name

/// Report for people: type, parameters, each input and output with its sizes, what is bound to it and how it is moved,
/// and the traffic of a call once there was one. Not collective.
GR_API gr_status gr_net_text(gr_net const* net,   // [in] network
                             char const** text);  // [out] text

/// Writes the network with its present parameters, in the types of the original file, for Python's `torch.export.load`
/// and for `gr_net_load`. Collective; rank 0 writes.
GR_API gr_status gr_net_save(gr_net const* net,  // [in] network
                             char const* path);  // [in] file

// --- Arrays of a network ---------------------------------------------------------------------------------------------

/// Binds the caller's arrays to an input: every run reads them. Collective.
///
/// Several arrays are stacked along the channels, in order; an array with levels is as many channels. All axes but
/// latitude and longitude count as one list, the last one varying fastest, that the arrays together fill. The memory
/// stays the caller's, and must be there until the input is bound again or the network is freed.
/// The first field is bound first: its layout decides which rows each rank computes. If its grid changes (in networks
/// with dynamic sizes), all other arrays must be bound again.
/// Example: x[1, 4, 721, 1440] from u[721][1440] and t[3][721][1440] of each rank's box.
GR_API gr_status
gr_net_bind_input(gr_net* net,              // [inout] network
                  char const* name,         // [in] [optional] input; NULL: the only one, or the first not yet bound
                  gr_layout const* layout,  // [in] [optional] boxes of the arrays; NULL for an input that is no field
                  int num_fields,           // [in] [count fields] number of arrays
                  gr_field const* fields);  // [in] [values num_fields] arrays on this rank's box of `layout`

/// Binds the caller's arrays to an output: every run writes them. Outputs that are not bound are not moved. Collective.
GR_API gr_status
gr_net_bind_output(gr_net* net,              // [inout] network
                   char const* name,         // [in] [optional] output; NULL: the only one, or the first not yet bound
                   gr_layout const* layout,  // [in] [optional] boxes of the arrays; NULL for an output that is no field
                   int num_fields,           // [in] [count fields] number of arrays
                   gr_field const* fields);  // [in] [values num_fields] arrays on this rank's box of `layout`

/// Binds arrays with the values that an output should have: `gr_net_learn` reads them. Collective.
///
/// The loss is the mean of the squared differences, or with `weights` the mean over the sphere: sum of w (y - t)^2
/// divided by the sum of w over all values. Losses of several outputs are added, each times its `scale`.
GR_API gr_status
gr_net_bind_target(gr_net* net,              // [inout] network
                   char const* name,         // [in] [optional] output; NULL: the only one, or the first without target
                   gr_layout const* layout,  // [in] [optional] boxes of the arrays; NULL for an output that is no field
                   int num_fields,           // [in] [count fields] number of arrays
                   gr_field const* fields,   // [in] [values num_fields] arrays on this rank's box of `layout`
                   double scale,             // [in] [default 1] factor of this loss
                   int num_rows,             // [in] [count weights] number of `weights`
                   double const* weights);   // [in] [optional] [values num_rows] of each row, as `gr_area_weights`

// --- Running and learning --------------------------------------------------------------------------------------------

/// Computes the outputs from the inputs. Collective.
///
/// Dropout is off, and nothing of the network changes: norms of a network that was exported in training mode use the
/// statistics of its input, or with `evaluation` of its options the running ones, which only `gr_net_learn` updates.
GR_API gr_status gr_net_run(gr_net* net);  // [inout] network

/// Starts a run: the inputs travel, and may not be written until `gr_net_finish`. Collective.
GR_API gr_status gr_net_start(gr_net* net);  // [inout] network

/// Ends the run that was started: the network computes, and the outputs are written. Collective.
GR_API gr_status gr_net_finish(gr_net* net);  // [inout] network

/// Makes an optimizer of the parameters of a network.
GR_API gr_status gr_optimizer_create(gr_net const* net,                    // [in] network
                                     gr_optimizer_kind kind,               // [in] method
                                     double rate,                          // [in] learning rate, at least 0
                                     gr_optimizer_options const* options,  // [in] [optional] other rates
                                     gr_optimizer** optimizer);            // [out] optimizer

/// Frees an optimizer.
GR_API gr_status gr_optimizer_destroy(gr_optimizer** optimizer);  // [inout] optimizer

/// Changes the learning rate.
GR_API gr_status gr_optimizer_set_rate(gr_optimizer* optimizer,  // [inout] optimizer
                                       double rate);             // [in] learning rate, at least 0

/// One step of training: the outputs for the present inputs, their loss against the targets, its gradients summed over
/// the ranks, and a step of the optimizer, the same on all ranks. Outputs are not written. Collective.
///
/// Fails with the rule NotFinite, and changes no parameter, where the loss or a gradient is not a number.
GR_API gr_status gr_net_learn(gr_net* net,              // [inout] network
                              gr_optimizer* optimizer,  // [inout] [optional] optimizer; NULL: only computes the loss
                              double* loss);            // [out] loss before the step

// --- Networks of graticule-train -------------------------------------------------------------------------------------

/// Reads what `graticule-train --lead` has trained, for the rows and columns of its grid. Collective.
///
/// Where the boxes of `layout` are bands of whole circles of latitude, in order of ranks, the network uses these rows;
/// any other boxes are moved to bands and back.
GR_API gr_status
gr_forecaster_load(gr_comm const* comm,      // [in] communicator
                   char const* path,         // [in] output folder (its best network, else the last), or a checkpoint
                   gr_layout const* layout,  // [in] boxes of the arrays
                   int num_threads,  // [in] [default 0] threads of LibTorch; 0: OMP_NUM_THREADS, or the rank's cores
                   gr_forecaster** forecaster);  // [out] network

/// Frees a network.
GR_API gr_status gr_forecaster_destroy(gr_forecaster** forecaster);  // [inout] network

/// Report for people: file, step, grid, and a line per channel with its unit. Not collective.
GR_API gr_status gr_forecaster_text(gr_forecaster const* forecaster,  // [in] network
                                    char const** text);               // [out] text

/// Channels of a state (prognostic ones), and of a prediction: those, then diagnostic ones. Not collective.
GR_API gr_status gr_forecaster_num_channels(gr_forecaster const* forecaster,  // [in] network
                                            int* num_prognostic,              // [out] number of prognostic channels
                                            int* num_channels);               // [out] number of all channels

/// Name of a channel, with its level: `t 850 hPa`. Not collective.
GR_API gr_status gr_forecaster_channel(gr_forecaster const* forecaster,  // [in] network
                                       int channel,                      // [in] [index] channel
                                       char const** label);              // [out] name

/// How far a step goes, and the states that it starts from. Not collective.
GR_API gr_status gr_forecaster_step(gr_forecaster const* forecaster,  // [in] network
                                    int* history,                     // [out] number of states, one lead apart
                                    int64_t* lead_seconds);           // [out] seconds of a step, the lead

/// Calendar in which times count, as files name it: that of the training until it is set. Not collective.
GR_API gr_status gr_forecaster_calendar(gr_forecaster const* forecaster,  // [in] network
                                        char const** calendar);           // [out] name, such as noleap

/// Sets it, for states of a model with another calendar than the training's; the same on all ranks. Not collective.
GR_API gr_status gr_forecaster_set_calendar(gr_forecaster* forecaster,  // [inout] network
                                            char const* calendar);      // [in] name, such as noleap or 360_day

/// The state one lead later. Collective.
///
/// Arrays in GR_F32 or GR_F64, in the units of the training's file, are stacked: `states` are the prognostic channels
/// of the present, then those one lead before, and so on; `later` all channels. An array with levels is as many
/// channels. Missing values are NaN, and stay so. `later` may be the same arrays as `states`.
GR_API gr_status
gr_forecaster_next(gr_forecaster* forecaster,  // [inout] network
                   int64_t time,               // [in] [wide] of the present, by `gr_time_of_date`, for forcings alone
                   int num_states,             // [in] [count states] number of arrays
                   gr_field const* states,     // [in] [values num_states] present state, and earlier ones
                   int num_later,              // [in] [count later] number of arrays
                   gr_field const* later);     // [in] [values num_later] state one lead later, written

#ifdef __cplusplus
}
#endif
#endif
