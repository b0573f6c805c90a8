log.o: sim/engine/log.c sim/engine/replica.h sim/base/heap.h \
  sim/base/alloc.h sim/base/status.h sim/base/types.h sim/engine/sim.h \
  sim/engine/result.h sim/base/wide.h sim/cost/memory.h sim/spec/run.h \
  sim/spec/hardware.h sim/spec/model.h sim/spec/speculation.h \
  sim/cost/price.h sim/base/num.h sim/metric/gaps.h sim/metric/seconds.h \
  sim/engine/route.h sim/spec/param.h sim/engine/sched.h \
  sim/engine/wheel.h sim/kv/pool.h sim/metric/maxgap.h

sim/engine/replica.h:

sim/base/heap.h:

sim/base/alloc.h:

sim/base/status.h:

sim/base/types.h:

sim/engine/sim.h:

sim/engine/result.h:

sim/base/wide.h:

sim/cost/memory.h:

sim/spec/run.h:

sim/spec/hardware.h:

sim/spec/model.h:

sim/spec/speculation.h:

sim/cost/price.h:

sim/base/num.h:

sim/metric/gaps.h:

sim/metric/seconds.h:

sim/engine/route.h:

sim/spec/param.h:

sim/engine/sched.h:

sim/engine/wheel.h:

sim/kv/pool.h:

sim/metric/maxgap.h:
