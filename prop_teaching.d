prop_teaching.o: tests/property/prop_teaching.c tests/property/harness.h \
  sim/core/registry.h sim/engine/route.h sim/base/status.h \
  sim/base/types.h sim/spec/param.h sim/engine/sched.h sim/spec/run.h \
  sim/spec/hardware.h sim/spec/model.h sim/spec/speculation.h \
  sim/io/scenario.h sim/engine/sim.h sim/base/alloc.h \
  sim/engine/result.h sim/base/wide.h sim/cost/memory.h sim/cost/price.h \
  sim/base/num.h sim/metric/gaps.h sim/metric/seconds.h sim/io/diag.h

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

sim/io/scenario.h:

sim/engine/sim.h:

sim/base/alloc.h:

sim/engine/result.h:

sim/base/wide.h:

sim/cost/memory.h:

sim/cost/price.h:

sim/base/num.h:

sim/metric/gaps.h:

sim/metric/seconds.h:

sim/io/diag.h:
