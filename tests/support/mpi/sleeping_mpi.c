/* SPDX-License-Identifier: BSD-3-Clause */
/* Preloaded into the ranks of a test: MPICH over UCX polls without end while it waits, and keeps a core from the ranks
 * that it waits for. Here a rank that has found nothing to do for a while leaves its core for a moment at each further
 * look. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

unsigned ucp_worker_progress(void* worker);

unsigned ucp_worker_progress(void* worker) {
  enum { patience = 500 };
  static unsigned (*next)(void*);
  static __thread unsigned idle;
  unsigned found;
  /* By its name, because an interpreter loads it out of sight of RTLD_NEXT. */
  if (!next) {
    void* const ucp = dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD);
    next = (unsigned (*)(void*))dlsym(ucp ? ucp : RTLD_NEXT, "ucp_worker_progress");
  }
  found = next(worker);
  if (found) {
    idle = 0;
  } else if (++idle > patience) {
    struct timespec const moment = {0, 50000};
    nanosleep(&moment, NULL);
  }
  return found;
}
