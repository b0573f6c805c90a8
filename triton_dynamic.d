triton_dynamic.o: sim/sched/triton_dynamic.c sim/engine/sched.h \
  sim/base/status.h sim/base/types.h sim/spec/param.h sim/spec/run.h \
  sim/spec/hardware.h sim/spec/model.h sim/spec/speculation.h \
  sim/base/num.h

sim/engine/sched.h:

sim/base/status.h:

sim/base/types.h:

sim/spec/param.h:

sim/spec/run.h:

sim/spec/hardware.h:

sim/spec/model.h:

sim/spec/speculation.h:

sim/base/num.h:
