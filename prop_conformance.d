prop_conformance.o: tests/property/prop_conformance.c \
  tests/property/harness.h sim/core/registry.h sim/engine/route.h \
  sim/base/status.h sim/base/types.h sim/spec/param.h sim/engine/sched.h \
  sim/spec/run.h sim/spec/hardware.h sim/spec/model.h \
  sim/spec/speculation.h sim/engine/replica.h sim/base/heap.h \
  sim/base/alloc.h sim/engine/sim.h sim/engine/result.h sim/base/wide.h \
  sim/cost/memory.h sim/cost/price.h sim/base/num.h sim/metric/gaps.h \
  sim/metric/seconds.h sim/engine/wheel.h sim/kv/pool.h \
  sim/metric/maxgap.h sim/io/scenario.h sim/io/diag.h

tests/property/harness.h:

sim/core/registry.h:

sim/engine/route.h:

sim/base/status.h:

sim/base/types.h:

sim/spec/param.h:

sim/engine/sched.h:

sim/spec/run.h:

sim/spec/hardware.h:

sim/spec/model.h:

sim/spec/speculation.h:

sim/engine/replica.h:

sim/base/heap.h:

sim/base/alloc.h:

sim/engine/sim.h:

sim/engine/result.h:

sim/base/wide.h:

sim/cost/memory.h:

sim/cost/price.h:

sim/base/num.h:

sim/metric/gaps.h:

sim/metric/seconds.h:

sim/engine/wheel.h:

sim/kv/pool.h:

sim/metric/maxgap.h:

sim/io/scenario.h:

sim/io/diag.h:
