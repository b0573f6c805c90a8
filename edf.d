edf.o: sim/sched/edf.c sim/sched/whole_prompts.h sim/base/num.h \
  sim/base/types.h sim/engine/sched.h sim/base/status.h sim/spec/param.h \
  sim/spec/run.h sim/spec/hardware.h sim/spec/model.h \
  sim/spec/speculation.h

sim/sched/whole_prompts.h:

sim/base/num.h:

sim/base/types.h:

sim/engine/sched.h:

sim/base/status.h:

sim/spec/param.h:

sim/spec/run.h:

sim/spec/hardware.h:

sim/spec/model.h:

sim/spec/speculation.h:
